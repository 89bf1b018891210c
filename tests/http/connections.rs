//! What a connection may do, and how long: keeping alive, limits, deadlines.

use std::time::Duration;

use strata::ingress;

use super::client::{Connection, TIMEOUT, ask, start, wait_until};

/// So long that no test meets it.
const NEVER_MS: u64 = 2 * TIMEOUT.as_millis() as u64;

#[test]
fn one_connection_serves_many_requests() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let mut connection = Connection::open(server.url());
    assert_eq!(connection.request("PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    for _ in 0..50 {
        assert_eq!(connection.request("GET", "/Product/1", "").status, 200);
        assert_eq!(connection.request("GET", "/Product/2", "").status, 404);
    }
    // Two at once, answered in order.
    connection.send(
        "GET /Product/1 HTTP/1.1\r\nhost: localhost\r\n\r\nDELETE /Product/1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    );
    assert_eq!((connection.receive(false).status, connection.receive(false).status), (200, 204));
    server.stop().unwrap();
    assert!(connection.is_closed());
}

#[test]
fn bodies_in_pieces_are_read_and_long_ones_refused_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.body_bytes = 40);
    let mut connection = Connection::open(server.url());
    let chunked = "PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.send(&format!("{chunked}8\r\n{{\"name\":\r\n"));
    connection.send("4\r\n\"a\"}\r\n0\r\n\r\n");
    assert_eq!(connection.receive(false).status, 201);
    connection.send(&format!("{chunked}20\r\n{}\r\n20\r\n{}\r\n0\r\n\r\n", " ".repeat(32), " ".repeat(32)));
    assert_eq!(connection.receive(false).status, 413);
}

#[test]
fn a_head_has_a_greatest_length() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    for (bytes, status) in [(50_000, 200), (100_000, 431)] {
        let mut connection = Connection::open(server.url());
        let long = "x".repeat(bytes);
        connection.send(&format!("GET /_health HTTP/1.1\r\nhost: localhost\r\nx-long: {long}\r\n\r\n"));
        assert_eq!(connection.receive(false).status, status);
    }
}

/// A client that writes all of a refused body before it reads gets the response, and may go on.
#[test]
fn a_refused_body_does_not_cost_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let mut connection = Connection::open(server.url());
    assert_eq!(connection.request("POST", "/Product", &" ".repeat(3 << 20)).status, 413);
    assert_eq!(connection.request("POST", "/Nothing", &" ".repeat(1 << 20)).status, 404);
    assert_eq!(connection.request("GET", "/_health", "").status, 200);
}

/// A body is as long on its way as bodies may be, refused or not: the deadline of heads is not that of what comes behind the response.
#[test]
fn a_refused_body_may_come_slowly() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.header_timeout_ms = 100;
        config.ingress.body_timeout_ms = NEVER_MS;
        config.ingress.body_bytes = 1000;
    });
    for framing in ["content-length: 4000", "transfer-encoding: chunked"] {
        let piece = match framing.contains("chunked") {
            true => format!("3e8\r\n{}\r\n", "x".repeat(1000)),
            false => "x".repeat(1000),
        };
        let mut connection = Connection::open(server.url());
        connection.send(&format!(
            "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{framing}\r\n\r\n"
        ));
        for _ in 0..4 {
            connection.send(&piece);
            // Long enough for a connection to be cut that is thought to be slow with a head; nothing is measured by it.
            std::thread::sleep(Duration::from_millis(150));
        }
        if framing.contains("chunked") {
            connection.send("0\r\n\r\n");
        }
        assert_eq!(connection.receive(false).status, 413, "{framing}");
        assert_eq!(connection.request("GET", "/_health", "").status, 200, "{framing}: the connection goes on");
    }
}

#[test]
fn a_long_body_in_pieces_that_is_refused_does_not_cost_the_response() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let mut connection = Connection::open(server.url());
    connection.send("POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..4 {
        connection.send(&format!("100000\r\n{}\r\n", " ".repeat(1 << 20)));
    }
    connection.send("0\r\n\r\n");
    assert_eq!(connection.receive(false).status, 413);
    assert_eq!(connection.request("GET", "/_health", "").status, 200);
}

#[test]
fn over_the_limit_of_bodies_none_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.bodies_in_flight = 1);
    let mut first = Connection::open(server.url());
    first.send("PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 12\r\n\r\n");
    assert_eq!(first.receive(false).status, 100, "it is let in, and its body waited for");
    let mut second = Connection::open(server.url());
    second.send(
        "PUT /Product/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n",
    );
    let response = second.receive(false);
    assert_eq!((response.status, response.header("retry-after")), (503, "1"));
    assert!(response.body.contains("overloaded"));
    assert_eq!(ask(server.url(), "GET", "/Product/9", "").status, 404, "what does not wait is answered");
    let mut third = Connection::open(server.url());
    third.send("PUT /Product/3 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{\"name\":\"a\"}");
    assert_eq!(third.receive(false).status, 201, "its body came with its head");
    first.send("{\"name\":\"a\"}");
    assert_eq!(first.receive(false).status, 201);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.connections = 1);
    let mut first = Connection::open(server.url());
    assert_eq!(first.request("GET", "/_health", "").status, 200);
    let mut second = Connection::open(server.url());
    let response = second.receive(false);
    assert_eq!((response.status, response.header("retry-after")), (503, "1"));
    assert!(second.is_closed());
    drop(first);
    wait_until("the place is free again", || {
        let mut third = Connection::open(server.url());
        third.send("GET /_health HTTP/1.1\r\nhost: localhost\r\n\r\n");
        third.receive(false).status == 200
    });
}

/// A socket that is closed over unread bytes is reset, and the client never sees why.
#[test]
fn one_connection_too_many_is_told_so_although_it_has_sent_much() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.connections = 1);
    let mut first = Connection::open(server.url());
    assert_eq!(first.request("GET", "/_health", "").status, 200);
    for _ in 0..20 {
        let mut second = Connection::open(server.url());
        let body = "x".repeat(10_000);
        second.send(&format!("PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000\r\n\r\n{body}"));
        let response = second.receive(false);
        assert_eq!((response.status, response.header("retry-after")), (503, "1"));
        assert!(second.is_closed());
    }
}

/// So many bodies that never come take nothing from others but their own limit.
#[test]
fn bodies_that_drip_hold_up_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.requests_in_flight = 4);
    let head =
        "PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let dripping: Vec<_> = (0..64)
        .map(|_| {
            let mut connection = Connection::open(server.url());
            connection.send(head);
            connection
        })
        .collect();
    assert_eq!(ask(server.url(), "PUT", "/Product/2", r#"{"name":"a"}"#).status, 201);
    assert_eq!(ask(server.url(), "POST", "/Product", r#"[{"name":"b"}]"#).status, 201, "by the pool");
    assert_eq!(ask(server.url(), "GET", "/Product", "").status, 200);
    drop(dripping);
}

#[test]
fn bodies_have_a_budget_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.ingress.body_bytes = 100_000;
        config.ingress.all_bodies_bytes = 100_000;
    });
    let head =
        "PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 90000\r\n\r\n";
    let mut first = Connection::open(server.url());
    first.send(&format!("{head}{}", " ".repeat(60_000)));
    let padded = format!(r#"{}{{"name":"a"}}"#, " ".repeat(60_000));
    let held = "\nstrata_request_body_held_bytes 60000\n";
    wait_until("the first body is in memory", || ask(server.url(), "GET", "/_metrics", "").body.contains(held));
    assert_eq!(ask(server.url(), "PUT", "/Product/2", &padded).status, 503);
    first.send(&format!(r#"{}{{"name":"a"}}"#, " ".repeat(29_988)));
    assert_eq!(first.receive(false).status, 201);
    wait_until("there is room again", || ask(server.url(), "PUT", "/Product/2", &padded).status != 503);
}

/// A hundred records of ten kilobytes.
fn filled(server: &strata::server::Server) {
    let note = "n".repeat(10_000);
    for id in 100..200 {
        let body = format!(r#"{{"name":"{id}","note":"{note}"}}"#);
        assert_eq!(ask(server.url(), "PUT", &format!("/Product/{id}"), &body).status, 201);
    }
}

#[test]
fn a_long_list_comes_in_pieces_and_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    filled(&server);
    let mut connection = Connection::open(server.url());
    let long = connection.request("GET", "/Product?sort=id", "");
    assert_eq!((long.status, long.header("transfer-encoding")), (200, "chunked"));
    let records: Vec<serde_json::Value> = serde_json::from_str(&long.body).unwrap();
    let ids: Vec<_> = records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (100..200).map(|id| id.to_string()).collect::<Vec<_>>());
    let short = connection.request("GET", "/Product?limit=2", "");
    assert_eq!(short.header("content-length"), short.body.len().to_string());
    let head = connection.request("HEAD", "/Product?sort=id", "");
    assert_eq!((head.status, head.header("content-length")), (200, ""), "nobody knows it yet");
    assert_eq!(
        connection.request("GET", "/Product/100?select=id", "").body,
        r#"{"id":"100"}"#,
        "the connection goes on"
    );
}

#[test]
fn where_a_long_list_goes_on_stands_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    filled(&server);
    let mut connection = Connection::open(server.url());
    let mut path = "/Product?limit=60&select=id,note".to_owned();
    let mut found = 0;
    loop {
        connection.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nte: trailers\r\nconnection: te\r\n\r\n"));
        let head: Vec<String> = std::iter::from_fn(|| connection.line().filter(|line| line != "\r\n")).collect();
        assert!(head[0].contains("200") && head.iter().any(|line| line == "trailer: link\r\n"), "{head:?}");
        let (list, trailers) = connection.chunks_and_trailers().unwrap();
        let list: Vec<serde_json::Value> = serde_json::from_slice(&list).unwrap();
        found += list.len();
        let Some(link) = trailers.strip_prefix("link: <") else { break };
        path = link.split_once('>').unwrap().0.to_owned();
    }
    assert_eq!((found, path.matches("after=").count()), (100, 1));
}

/// An error behind the head must not look like the end of a shorter list.
#[test]
fn a_list_that_cannot_be_made_to_its_end_breaks_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    filled(&server);
    let (database, mut batch) = (server.database(), strata::storage::Batch::default());
    let key = [&database.table("Product").unwrap().id.to_be_bytes()[..], b"190"].concat();
    database.store().put(&mut batch, strata::storage::Space::Records, &key, b"no record");
    database.store().write(&mut batch, strata::schema::Durability::Soft).unwrap();
    let mut connection = Connection::open(server.url());
    connection.send("GET /Product?sort=id HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(connection.take(1).expect("the head came"));
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
    assert_eq!(connection.chunks(), None, "it ends without a last chunk");
    assert_eq!(ask(server.url(), "GET", "/Product?sort=id&limit=5", "").status, 200);
}

#[test]
fn clients_that_do_not_read_take_no_more_than_the_budget_and_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.ingress.all_responses_bytes = 300_000;
        config.ingress.request_timeout_ms = 500;
        config.send_timeout_ms = 5_000;
    });
    filled(&server);
    // Their own and the system's buffers take some; what is left waits in the server.
    let idle: Vec<_> = (0..8)
        .map(|_| {
            let mut connection = Connection::open(server.url());
            for _ in 0..8 {
                connection.send("GET /Product HTTP/1.1\r\nhost: localhost\r\n\r\n");
            }
            connection
        })
        .collect();
    wait_until("there is no room for another list", || ask(server.url(), "GET", "/Product?limit=50", "").status == 503);
    assert_eq!(ask(server.url(), "GET", "/Product/100?select=id", "").status, 200, "a short answer needs no room");
    wait_until("all of them were left", || ask(server.url(), "GET", "/Product", "").status == 200);
    drop(idle);
}

#[test]
fn a_response_that_does_not_begin_in_time_is_refused_and_what_waited_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.request_timeout_ms = 50);
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"a"}"#).status, 201);
    let database = server.database();
    let product = database.table("Product").unwrap();
    database
        .transact(|transaction| {
            transaction.read(product, "1")?;
            let response = ask(server.url(), "PATCH", "/Product/1", r#"{"name":"b"}"#);
            assert_eq!((response.status, response.header("retry-after")), (503, "1"));
            assert!(response.body.contains("timed-out"), "{}", response.body);
            Ok(())
        })
        .unwrap();
    assert_eq!(ask(server.url(), "PATCH", "/Product/1", r#"{"category":"c"}"#).status, 200);
    assert!(ask(server.url(), "GET", "/Product/1", "").body.contains(r#""name":"a""#));
}

#[test]
fn a_slow_head_is_cut_off_and_an_idle_connection_closed() {
    let folder = tempfile::tempdir().unwrap();
    let slow_head = start(folder.path(), |config| {
        config.header_timeout_ms = 200;
        config.idle_timeout_ms = NEVER_MS;
    });
    let mut connection = Connection::open(slow_head.url());
    connection.send("GET /_health HTTP/1.1\r\nho");
    assert!(connection.is_closed());
    let mut connection = Connection::open(slow_head.url());
    assert_eq!(connection.request("GET", "/_health", "").status, 200);
    connection.send("GET /_hea");
    assert!(connection.is_closed());
    slow_head.stop().unwrap();

    let idle = start(folder.path(), |config| {
        config.header_timeout_ms = NEVER_MS;
        config.idle_timeout_ms = 200;
    });
    assert!(Connection::open(idle.url()).is_closed(), "one that never says anything");
    let mut connection = Connection::open(idle.url());
    assert_eq!(connection.request("GET", "/_health", "").status, 200);
    assert!(connection.is_closed());
}

#[test]
fn a_slow_body_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ingress::Options { body_timeout_ms: 100, ..ingress::Options::default() };
    let server = start(folder.path(), |config| config.ingress = limits);
    let mut connection = Connection::open(server.url());
    connection.send(
        "PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{",
    );
    let response = connection.receive(false);
    assert_eq!((response.status, response.body.contains("urn:strata:error:timeout")), (408, true));
}

#[test]
fn what_breaks_http_itself_gets_a_bare_400() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    for broken in
        ["GET /Product?a<1 HTTP/1.1\r\n\r\n", "GET\r\n\r\n", "PUT /Product/1 HTTP/1.1\r\ncontent-length: x\r\n\r\n"]
    {
        let mut connection = Connection::open(server.url());
        connection.send(broken);
        let response = connection.receive(false);
        assert_eq!((response.status, response.body.as_str()), (400, ""), "{broken}");
    }
}

/// What follows could be framed otherwise by a proxy that understands the coding.
#[test]
fn a_body_in_a_transfer_coding_that_is_not_understood_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 201);
    let response = |line: &str, fields: &str, body: &str| {
        let mut connection = Connection::open(server.url());
        connection.send(&format!("{line} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n\r\n{body}"));
        let response = connection.receive(false);
        (response.status, response.header("connection").to_owned(), response.body)
    };
    let json = "content-type: application/json\r\n";
    for line in [
        "PUT /Photo/1/picture",
        "PUT /Product/1",
        "POST /Product",
        "POST /Product/query",
        "POST /_batch",
        "POST /graphql",
        "POST /_checkpoint",
        "PUT /nowhere",
        "GET /Product/1",
        "DELETE /Product/1",
    ] {
        for coding in [
            "gzip, chunked",
            "chunked, chunked",
            "gzip\r\ntransfer-encoding: chunked",
            "chunked\r\ntransfer-encoding: chunked",
            "identity, chunked",
            "x-custom;q=1, CHUNKED",
        ] {
            let (status, connection, body) =
                response(line, &format!("{json}transfer-encoding: {coding}"), "2\r\n{}\r\n0\r\n\r\n");
            assert_eq!((status, connection.as_str()), (400, "close"), "{line} {coding}");
            assert!(body.contains("Transfer-Encoding"), "{body}");
        }
    }
    for coding in ["chunked", "Chunked", ", chunked", "\r\ntransfer-encoding: chunked"] {
        let (status, connection, body) = response(
            "POST /Product",
            &format!("{json}transfer-encoding: {coding}"),
            "c\r\n{\"name\":\"n\"}\r\n0\r\n\r\n",
        );
        assert_eq!((status, connection.as_str()), (201, ""), "{coding} {body}");
    }
    // The HTTP library refuses by itself what does not end in chunks; with a length beside them, the chunks count and nothing follows.
    for coding in ["gzip", "chunked, gzip", ""] {
        let (status, connection, _) =
            response("POST /Product", &format!("{json}transfer-encoding: {coding}"), "2\r\n{}\r\n0\r\n\r\n");
        assert_eq!((status, connection.as_str()), (400, "close"), "{coding}");
    }
    let both = format!("{json}content-length: 3\r\ntransfer-encoding: chunked");
    let (status, connection, _) = response("POST /Product", &both, "c\r\n{\"name\":\"n\"}\r\n0\r\n\r\n");
    assert_eq!((status, connection.as_str()), (201, "close"));
}

/// A client that keeps connections would send its next request into a closed one.
#[test]
fn a_response_to_a_body_that_was_not_asked_for_says_that_the_connection_closes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.body_bytes = 1000);
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 201);
    for (line, fields, status) in [
        ("PUT /Product/x", "content-type: image/png\r\ncontent-length: 12", 415),
        ("PUT /Product/x", "content-type: image/png\r\ntransfer-encoding: chunked", 415),
        ("PUT /Product/x", "content-type: application/json\r\ncontent-length: 1001", 413),
        ("PUT /Product", "content-type: text/csv\r\ncontent-length: 12", 415),
        ("POST /Product?limit=1", "content-type: application/json\r\ncontent-length: 12", 400),
        ("BREW /Product/x", "content-length: 12", 405),
        ("DELETE /Product/x", "content-length: 12", 404),
        ("GET /_health", "content-length: 12", 200),
        ("PUT /Photo/2/picture", "content-type: image/png\r\ncontent-length: 12", 404),
        ("POST /_batch", "content-type: text/plain\r\ncontent-length: 12", 415),
        ("POST /graphql", "content-type: text/plain\r\ncontent-length: 12", 415),
        ("POST /nowhere", "content-length: 12", 404),
        (
            "POST /Product",
            "origin: https://elsewhere.example\r\ncontent-type: application/json\r\ncontent-length: 12",
            403,
        ),
        ("POST /Product", "content-type: application/json\r\ntransfer-encoding: gzip, chunked", 400),
    ] {
        for expect in ["100-continue", "100-Continue"] {
            let mut connection = Connection::open(server.url());
            connection.send(&format!("{line} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\nexpect: {expect}\r\n\r\n"));
            let response = connection.receive(false);
            assert_eq!(
                (response.status, response.header("connection")),
                (status, "close"),
                "{line} {fields}: {}",
                response.body
            );
            assert!(connection.is_closed());
        }
    }
    // One that was asked for is read, and the connection goes on.
    let mut connection = Connection::open(server.url());
    for _ in 0..2 {
        connection.send("POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 12\r\n\r\n");
        assert_eq!(connection.receive(false).status, 100);
        connection.send("{\"name\":\"n\"}");
        let response = connection.receive(false);
        assert_eq!((response.status, response.header("connection")), (201, ""));
    }
}

/// Several lines of a field are one list, or mean nothing together.
#[test]
fn every_line_that_says_how_a_body_is_coded_counts() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 201);
    for path in ["/Photo/1/picture", "/Photo/2"] {
        for (codings, types, status) in [
            (&["identity", "br"][..], &["application/json"][..], 415),
            (&["gzip", "gzip"], &["application/json"], 415),
            (&["identity, br"], &["application/json"], 415),
            (&["identity", "identity"], &["application/json"], 201),
            (&[], &["application/json", "text/csv"], 415),
            (&[], &["application/json", "application/json"], 415),
        ] {
            let lines = codings.iter().map(|coding| ("content-encoding", *coding));
            let lines: Vec<_> = lines.chain(types.iter().map(|media_type| ("content-type", *media_type))).collect();
            let response = Connection::open(server.url()).request_with("PUT", path, &lines, b"{}");
            assert_eq!(response.status, status, "{path} {lines:?}: {}", response.body);
        }
    }
}
