//! What is known of requests afterwards: counts by route, and the access log; of every response, whichever way it came.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Barrier};

use strata::error::Error;

use super::client::{Connection, ask, start, wait_until};

/// Requests of all kinds, with their status and the route they are counted under.
const REQUESTS: [(&str, &str, &str, u16, &str); 12] = [
    ("PUT", "/Product/1", r#"{"name":"Lamp"}"#, 201, "/Product/{id}"),
    ("GET", "/Product/1", "", 200, "/Product/{id}"),
    ("GET", "/Product/2?name==secret", "", 400, "/Product/{id}"),
    ("GET", "/Product?limit=3", "", 200, "/Product"),
    ("POST", "/Product", r#"[{"name":"Lamp"},{"name":"Chair"}]"#, 201, "/Product"),
    ("POST", "/Product/1", "{}", 405, "/Product/{id}"),
    ("HEAD", "/hello.txt", "", 200, "static"),
    ("GET", "/hello.txt", "", 200, "static"),
    ("DELETE", "/hello.txt", "", 405, "static"),
    ("POST", "/nothing", "{}", 404, "other"),
    ("GET", "/_health", "", 200, "/_health"),
    ("OPTIONS", "*", "", 204, "other"),
];

#[test]
fn every_response_has_a_line_and_a_count() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    fs::create_dir(folder.path().join("site")).unwrap();
    fs::write(folder.path().join("site/hello.txt"), "hello").unwrap();
    let server = start(folder.path(), |config| {
        config.observability.access_log = Some(log.clone());
        config.static_files.directory = Some(folder.path().join("site"));
    });
    let mut lengths = Vec::new();
    for (method, path, body, status, _) in REQUESTS {
        let response = ask(server.url(), method, path, body);
        assert_eq!(response.status, status, "{method} {path}");
        lengths.push(response.body.len());
    }
    let metrics = ask(server.url(), "GET", "/_metrics", "");
    assert_eq!(metrics.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(metrics.body.ends_with("\n# EOF\n"), "{}", metrics.body);
    let writes = server.database().counters().writes;
    server.stop().unwrap();

    let mut counts = BTreeMap::new();
    for (.., status, route) in REQUESTS {
        *counts.entry((route, status / 100)).or_insert(0) += 1;
    }
    for ((route, class), count) in counts {
        let line = format!("strata_requests_total{{route=\"{route}\",class=\"{class}xx\"}} {count}");
        assert!(metrics.body.lines().any(|found| found == line), "{line} in {}", metrics.body);
    }
    assert!(metrics.body.contains("strata_request_duration_seconds_count{route=\"/Product\"} 2\n"), "{}", metrics.body);
    assert!(metrics.body.contains(&format!("\nstrata_storage_writes_total {writes}\n")), "{}", metrics.body);

    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), REQUESTS.len() + 1, "{text}");
    // Workers answer at the same time, but one client asks after the other.
    for ((line, length), (method, path, body, status, route)) in lines.iter().zip(lengths).zip(REQUESTS) {
        assert_eq!((&line["method"], &line["route"]), (&method.into(), &route.into()), "{line}");
        assert_eq!((&line["status"], &line["peer"]), (&status.into(), &"127.0.0.1".into()), "{line}");
        assert_eq!(line["path"], path.split('?').next().unwrap(), "{line}");
        let read = if status < 300 { body.len() } else { 0 };
        assert_eq!((&line["bytes_in"], &line["bytes_out"]), (&read.into(), &length.into()), "{line}");
        let spans = ["routing_us", "body_us", "pool_us", "handler_us"].map(|span| line[span].as_u64().unwrap());
        assert!(spans.iter().sum::<u64>() <= line["duration_us"].as_u64().unwrap() + 1, "{line}");
    }
    assert!(!text.contains("secret"));
}

#[test]
fn a_list_in_pieces_has_the_bytes_that_were_sent() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let server = start(folder.path(), |config| config.observability.access_log = Some(log.clone()));
    let records = vec![format!(r#"{{"name":"{}"}}"#, "long ".repeat(100)); 1000].join(",");
    assert_eq!(ask(server.url(), "POST", "/Product", &format!("[{records}]")).status, 201);
    let list = ask(server.url(), "GET", "/Product", "");
    assert!(list.status == 200 && list.header("transfer-encoding") == "chunked" && list.body.len() > 500_000);
    server.stop().unwrap();
    let text = fs::read_to_string(log).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&line["method"], &line["bytes_out"]), (&"GET".into(), &list.body.len().into()), "{line}");
}

#[test]
fn a_client_that_leaves_before_its_response_has_a_line_and_a_count() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let server = start(folder.path(), |config| config.observability.access_log = Some(log.clone()));
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let (database, held) = (server.database().clone(), Arc::new(Barrier::new(2)));
    let holding = Arc::clone(&held);
    let holder = std::thread::spawn(move || {
        let table = database.table("Product").unwrap();
        database.update(table, "1", |_| {
            holding.wait();
            holding.wait();
            Err(Error::Stale)
        })?;
        Ok::<_, Error>(())
    });
    held.wait();
    let metrics = || ask(server.url(), "GET", "/_metrics", "").body;
    let mut leaving = Connection::open(server.url());
    leaving.send("PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"name\":\"Chair\"}");
    wait_until("it waits for the record", || metrics().contains("strata_requests_waiting 1\n"));
    drop(leaving);
    let left = "strata_requests_total{route=\"/Product/{id}\",class=\"4xx\"} 1\n";
    wait_until("it is counted", || metrics().contains(left));
    held.wait();
    assert!(matches!(holder.join().unwrap(), Err(Error::Stale)));
    server.stop().unwrap();
    let text = fs::read_to_string(log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let left: Vec<_> = lines.filter(|line| line["status"] == 499).collect();
    assert_eq!(left.len(), 1, "{text}");
    let read = (&left[0]["method"], &left[0]["path"], &left[0]["bytes_in"], &left[0]["bytes_out"]);
    assert_eq!(read, (&"PUT".into(), &"/Product/1".into(), &16.into(), &0.into()));
}

#[test]
fn a_failure_names_the_trace_it_belongs_to() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("site")).unwrap();
    let file = folder.path().join("site/file.txt");
    fs::write(&file, "as it was").unwrap();
    let server = start(folder.path(), |config| {
        config.static_files.directory = Some(folder.path().join("site"));
        config.static_files.memory_bytes = 0;
    });
    fs::remove_file(file).unwrap();
    let mut connection = Connection::open(server.url());
    let trace = "0af7651916cd43dd8448eb211c80319c";
    connection.send(&format!(
        "GET /file.txt HTTP/1.1\r\nhost: localhost\r\ntraceparent: 00-{trace}-b7ad6b7169203331-01\r\n\r\n"
    ));
    let response = connection.receive(false);
    assert_eq!((response.status, response.header("x-request-id")), (500, trace));
    assert!(response.body.contains(trace), "{}", response.body);
}

#[test]
fn a_log_that_cannot_be_opened_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let config = strata::config::Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        schema: Some(super::client::schema()),
        data_dir: folder.path().join("data"),
        observability: strata::observability::Options {
            access_log: Some(folder.path().join("nowhere/access.log")),
            ..Default::default()
        },
        ..Default::default()
    };
    assert!(strata::server::Server::start(&config).err().unwrap().to_string().contains("nowhere"));
}
