//! Tables in and out as a record a line: loads and dumps of any size, slow clients, what is left when either breaks off.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::client::{Connection, ask, ask_with, start, wait_until};
use super::process::Running;

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");

/// The head of a load whose length is not known.
const HEAD: &str = "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";

/// Lines of about a KiB.
fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.fold(String::new(), |mut text, number| {
        writeln!(
            text,
            r#"{{"id":"{number:06}","name":"n{number}","category":"c{}","note":"{}"}}"#,
            number % 7,
            "x".repeat(900)
        )
        .unwrap();
        text
    })
}

/// What a table has, by another way than a dump.
fn count(url: &str) -> usize {
    let list = ask(url, "GET", "/Product?select=id", "");
    list.body.matches("\"id\"").count()
}

#[test]
fn a_table_of_any_size_goes_in_and_out() {
    const RECORDS: u32 = 25_000;
    let folder = tempfile::tempdir().unwrap();
    // Less memory for bodies and responses than the load and the dump have bytes.
    let server = start(folder.path(), |config| {
        (config.ingress.all_bodies_bytes, config.ingress.all_responses_bytes) = (4 << 20, 4 << 20);
        config.handlers.max_rows = 100;
    });
    let response = ask_with(server.url(), "POST", "/Product", &[LINES], lines(0..RECORDS).as_bytes());
    assert_eq!(response.body, format!(r#"{{"created":{RECORDS},"failed":0,"errors":[]}}"#));
    assert_eq!(count(server.url()), 100, "a list is cut");
    let dump = ask_with(server.url(), "GET", "/Product", &[("accept", "application/x-ndjson")], b"");
    assert_eq!((dump.status, dump.body.lines().count()), (200, RECORDS as usize));
    let again = ask_with(server.url(), "POST", "/Product", &[LINES], dump.bytes.as_slice());
    assert!(
        again.body.starts_with(&format!(r#"{{"created":0,"failed":{RECORDS},"errors":[{{"line":1,"#)),
        "{}",
        &again.body[..200]
    );

    let other = tempfile::tempdir().unwrap();
    let copy = start(other.path(), |_| {});
    assert_eq!(ask_with(copy.url(), "POST", "/Product", &[LINES], &dump.bytes).status, 200);
    let copied = ask_with(copy.url(), "GET", "/Product", &[("accept", "application/x-ndjson")], b"");
    assert!(copied.body == dump.body, "a dump that is loaded is the same table");
    assert_eq!(copy.database().disagreements().unwrap(), Vec::<String>::new());
}

#[test]
fn a_dump_is_of_one_moment_however_slowly_it_is_read() {
    const RECORDS: u32 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.dump_threads = 1);
    assert_eq!(ask_with(server.url(), "POST", "/Product", &[LINES], lines(0..RECORDS).as_bytes()).status, 200);
    let get = "GET /Product HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson\r\n\r\n";
    let mut slow = Connection::open(server.url());
    slow.send(get);
    let begun = slow.take(100_000).unwrap();
    assert_eq!(ask(server.url(), "DELETE", "/Product?truncate=true", "").status, 200);
    let written = ask(server.url(), "PUT", "/Product/000000", r#"{"name":"new"}"#);
    assert_eq!((written.status, count(server.url())), (201, 1), "nobody else waits for it");
    let scans = server.database().counters().scans;
    let response = slow.receive_behind(begun);
    let ids: HashSet<_> = response.body.lines().map(|line| line[7..13].parse::<u32>().unwrap()).collect();
    assert_eq!((response.body.lines().count(), ids.len()), (RECORDS as usize, RECORDS as usize));
    assert!(response.body.contains("\"n0\"") && !response.body.contains("\"new\""));
    // Those of the background are few.
    assert!(server.database().counters().scans < scans + 5, "it had begun before");
}

#[test]
fn dumps_that_nobody_reads_hold_up_no_lists() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        (config.dump_threads, config.scan_threads) = (2, 1);
        config.ingress.all_responses_bytes = 16 << 20;
    });
    assert_eq!(ask_with(server.url(), "POST", "/Product", &[LINES], lines(0..15_000).as_bytes()).status, 200);
    let unread: Vec<_> = (0..4)
        .map(|_| {
            let mut connection = Connection::open(server.url());
            connection.send("GET /Product HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson\r\n\r\n");
            connection
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..20 {
        let list = ask(server.url(), "GET", "/Product?category=ct=c&sort=name&limit=2000", "");
        assert!(list.status == 200 && list.bytes.len() > 1 << 20, "{}", list.status);
    }
    drop(unread);
    let dump = || ask_with(server.url(), "GET", "/Product", &[("accept", "application/x-ndjson")], b"");
    assert_eq!(dump().body.lines().count(), 15_000, "their threads are free when they have gone");
}

#[test]
fn a_slow_client_loads_as_fast_as_it_sends() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.body_timeout_ms = 200);
    let mut slow = Connection::open(server.url());
    slow.send(HEAD);
    for number in 0..12 {
        let line = lines(number..number + 1);
        let (one, two) = line.split_at(line.len() / 2);
        slow.send_chunk(one.as_bytes());
        std::thread::sleep(Duration::from_millis(60));
        slow.send_chunk(two.as_bytes());
    }
    wait_until("what has come is committed before the end", || count(server.url()) >= 6);
    slow.send_chunk(b"");
    assert_eq!(slow.receive(false).body, r#"{"created":12,"failed":0,"errors":[]}"#);

    let mut stuck = Connection::open(server.url());
    stuck.send(HEAD);
    stuck.send_chunk(format!("{}{{\"id\":\"half", lines(20..22)).as_bytes());
    let refused = stuck.receive(false);
    assert_eq!(refused.status, 408);
    assert!(
        refused.body.contains("2 records from the first 2 lines were already created and are kept"),
        "{}",
        refused.body
    );
    assert_eq!(count(server.url()), 14);
}

#[test]
fn many_slow_loads_take_no_more_memory_than_there_is_for_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.all_bodies_bytes = 2 << 20);
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let mut connection = Connection::open(server.url());
            connection.send(HEAD);
            // No line ends, so nothing can be committed.
            connection.send_chunk(&[b' '; 400 << 10]);
            connection
        })
        .collect();
    let told_off = || {
        let metrics = ask(server.url(), "GET", "/_metrics", "").body;
        let refused = metrics
            .lines()
            .find_map(|line| line.strip_prefix(r#"strata_requests_total{route="/Product",class="5xx"} "#));
        refused.map_or(0, |count| count.parse().unwrap())
    };
    wait_until("only five of them have room", || told_off() >= 3);
    let mut refused = 0;
    for mut connection in begun {
        connection.send_chunk(b"\n");
        connection.send_chunk(b"");
        match connection.receive(false) {
            response if response.status == 200 => assert_eq!(response.body, r#"{"created":0,"failed":0,"errors":[]}"#),
            response => {
                assert_eq!(response.status, 503, "{}", response.body);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, told_off());
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
}

#[test]
fn lines_that_are_refused_are_told_and_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.body_bytes = 2000);
    let long = format!(r#"{{"id":"long","name":"{}"}}"#, "x".repeat(300_000));
    let body = format!("{}{long}\n{{\"name\":1e999}}\n{}", lines(0..3), lines(3..5));
    let response = ask_with(server.url(), "POST", "/Product", &[LINES], body.as_bytes());
    let told: serde_json::Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!((&told["created"], &told["failed"]), (&5.into(), &2.into()), "{told}");
    assert_eq!((&told["errors"][0]["line"], &told["errors"][1]["line"]), (&4.into(), &5.into()));
    assert_eq!(told["errors"][0]["detail"], "a line has at most 2000 bytes");
    assert_eq!(told["errors"][1]["pointer"], "/name");
}

/// What was acknowledged is there after a kill; of a load that was under way there is its beginning, in whole records.
#[test]
fn a_load_that_is_killed_leaves_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path());
    let acknowledged = ask_with(&server.url, "POST", "/Product", &[LINES], lines(900_000..902_500).as_bytes());
    assert_eq!(acknowledged.body, r#"{"created":2500,"failed":0,"errors":[]}"#);
    let mut load = Connection::open(&server.url);
    load.send(HEAD);
    for start in (0..6000).step_by(500) {
        load.send_chunk(lines(start..start + 500).as_bytes());
    }
    wait_until("some of it is committed", || ask(&server.url, "GET", "/Product/002000", "").status == 200);
    drop(server);

    let server = Running::start(folder.path());
    let dump = ask_with(&server.url, "GET", "/Product", &[("accept", "application/x-ndjson")], b"").body;
    let ids: Vec<u32> = dump.lines().map(|line| line[7..13].parse().unwrap()).collect();
    let loaded = ids.len() - 2500;
    assert!((2001..=6000).contains(&loaded), "{loaded}");
    assert!(
        ids.iter().copied().eq((0..loaded as u32).chain(900_000..902_500)),
        "all of its beginning and nothing else"
    );
    assert!(
        dump.lines()
            .zip(ids)
            .all(|(line, id)| line.contains(&format!("\"name\":\"n{id}\",\"category\":\"c{}\"", id % 7)))
    );
    let indexed: usize = (0..7)
        .map(|category| {
            let path = format!("/Product?category==c{category}&select=id");
            ask_with(&server.url, "GET", &path, &[("accept", "application/x-ndjson")], b"").body.lines().count()
        })
        .sum();
    assert_eq!(indexed, loaded + 2500, "and its entries");
}
