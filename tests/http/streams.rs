//! Streams over sockets: subscribers, readers that wait, and what is refused under load.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::client::{Connection, ask, start, wait_until};
use super::feed::Feed;

fn append(url: &str, partition: u32, payload: &str) {
    let body = format!("{{\"payload\":{payload},\"partition\":{partition}}}");
    assert_eq!(ask(url, "POST", "/Click", &body).status, 202);
}

/// The payloads of the next events, and where the subscriber is after them.
fn payloads(feed: &mut Feed) -> (Vec<Value>, String) {
    let event = feed.next().unwrap();
    assert_eq!(event.name, "records");
    let data: Value = serde_json::from_str(&event.data).unwrap();
    (data["records"].as_array().unwrap().iter().map(|record| record["payload"].clone()).collect(), event.id)
}

fn counters(url: &str) -> Value {
    let all: Value = serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap();
    all["streams"].clone()
}

#[test]
fn subscribers_get_every_event_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    append(url, 0, "0");
    let mut now = Feed::open(url, "/Click", None);
    assert_eq!(now.place(), "0:1,1:0");
    let mut all = Feed::open(url, "/Click?from=earliest", None);
    let mut one = Feed::open(url, "/Click?partition=1&from=0", None);
    for number in 1..100 {
        append(url, number % 2, &number.to_string());
    }
    let expected = |first: u64, step: usize| (first..100).step_by(step).map(Value::from).collect::<Vec<_>>();
    let read = |feed: &mut Feed, number: usize| {
        let (mut by_partition, mut last) = (BTreeMap::<u64, Vec<Value>>::new(), String::new());
        while by_partition.values().map(Vec::len).sum::<usize>() < number {
            let (payloads, id) = payloads(feed);
            last = id;
            payloads.into_iter().for_each(|payload| {
                by_partition.entry(payload.as_u64().unwrap() % 2).or_default().push(payload);
            });
        }
        (by_partition, last)
    };
    let (of_all, end) = read(&mut all, 100);
    assert_eq!((of_all, end.as_str()), ([(0, expected(0, 2)), (1, expected(1, 2))].into(), "0:50,1:50"));
    assert_eq!(read(&mut now, 99).0, [(0, expected(2, 2)), (1, expected(1, 2))].into());
    assert_eq!(read(&mut one, 50), ([(1, expected(1, 2))].into(), "1:50".to_owned()));
    assert_eq!(counters(url)["delivered"], 100 + 99 + 50);

    let mut again = Feed::open(url, "/Click?from=earliest", Some("0:49,1:50"));
    assert_eq!(payloads(&mut again), (vec![json!(98)], "0:50,1:50".to_owned()), "its id wins");
    let mut newer = Feed::open(url, "/Click", Some("1:50"));
    assert_eq!(payloads(&mut newer).0.len(), 50, "of a partition that it lacks, all");
    // Line breaks of JSON are none of the protocol.
    append(url, 0, "[1,\r\n2,\n\r3]");
    assert_eq!(payloads(&mut again).0, [json!([1, 2, 3])]);

    // One that does not read has much before it.
    let payload = format!("\"{}\"", "x".repeat(100_000));
    (0..100).for_each(|_| append(url, 1, &payload));
    let mut behind = Feed::open(url, "/Click?from=earliest", None);
    behind.place();
    let stopping = std::thread::spawn(move || server.stop().unwrap());
    let is_read = |feed: &mut Feed| std::iter::from_fn(|| feed.next()).count();
    is_read(&mut again);
    is_read(&mut behind);
    assert!(again.ended_well && behind.ended_well, "a stop ends them as a body should end");
    stopping.join().unwrap();
}

#[test]
fn a_subscriber_begins_where_there_are_events() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    (0..10).for_each(|number| append(url, 0, &number.to_string()));
    assert_eq!(ask(url, "DELETE", "/Click?partition=0&before=5", "").status, 200);
    for (path, last_id, status) in [
        ("/Click?partition=0&from=4", None, 410),
        ("/Click?partition=0&from=5", None, 200),
        ("/Click?partition=0&from=10", None, 200),
        ("/Click?partition=0&from=11", None, 416),
        ("/Click?from=5", None, 400),
        ("/Click?from=latest", None, 400),
        ("/Click?partition=2", None, 400),
        ("/Click?since=1", None, 400),
        ("/Click?wait=1", None, 400),
        ("/Click", Some("0:4,1:0"), 410),
        ("/Click", Some("0:5,1:1"), 416),
        ("/Click", Some("0:5,2:0"), 400),
        ("/Click?partition=1", Some("0:5"), 400),
        ("/Click", Some("1-2-3-4"), 400),
    ] {
        assert_eq!(Feed::ask(url, path, last_id).1.status, status, "{path} {last_id:?}");
    }
}

/// What is sent stands in the buffers of the sockets; the rest of it is trimmed meanwhile.
#[test]
fn a_slow_subscriber_loses_only_what_is_trimmed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    let mut feed = Feed::open(url, "/Click?partition=1", None);
    feed.place();
    let payload = format!("\"{}\"", "x".repeat(100_000));
    (0..200).for_each(|_| append(url, 1, &payload));
    assert_eq!(ask(url, "DELETE", "/Click?truncate=true", "").status, 200);
    append(url, 1, "1");
    let (mut next, mut last) = (0, None);
    while let Some(event) = feed.next() {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        if event.name == "gone" {
            last = Some(data);
            continue;
        }
        for record in data["records"].as_array().unwrap() {
            assert_eq!(record["offset"], next, "in order, none left out");
            next += 1;
        }
    }
    assert!(next < 200 && feed.ended_well);
    assert_eq!(last, Some(json!({"partition": 1, "lowWatermark": 200})));
}

#[test]
fn those_who_wait_give_way_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.feed.subscribers = 2);
    let url = server.url();
    let mut feed = Feed::open(url, "/Click", None);
    feed.place();
    let mut reader = Connection::open(url);
    reader.send("GET /Click?partition=0&wait=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait_until("it waits", || counters(url)["waiting"] == 2);
    assert_eq!(ask(url, "GET", "/Click?partition=0&wait=60000", "").status, 503, "of the same client");
    let other: IpAddr = "127.0.0.9".parse().unwrap();
    let mut connection = Connection::open_from(other, url);
    connection.send("GET /Click?stream=sse HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(connection.receive(true).status, 200);
    let lagged = feed.next().unwrap();
    assert_eq!((lagged.name.as_str(), lagged.id.as_str(), lagged.data.as_str()), ("lagged", "0:0,1:0", "{}"));
    assert!(feed.next().is_none() && feed.ended_well);
    append(url, 0, "7");
    assert!(reader.receive(false).body.contains("\"payload\":7"), "the one that waits goes on");
}

/// A body that does not end holds the only place of an append.
#[test]
fn appends_in_flight_are_limited_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        (config.ingress.appends_in_flight, config.ingress.append_bytes_in_flight) = (1, 1000);
    });
    let url = server.url();
    let mut slow = Connection::open(url);
    slow.send("POST /Click HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 27\r\n\r\n{\"payload\":");
    wait_until("its head is read", || ask(url, "GET", "/_metrics", "").body.contains("strata_requests_waiting 1\n"));
    let refused = ask(url, "POST", "/Click", r#"{"payload":1}"#);
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"), "{refused:?}");
    assert_eq!(counters(url)["refused"], 1);
    assert_eq!(ask(url, "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    assert_eq!(ask(url, "GET", "/Click?partition=0", "").status, 200);
    let batch = r#"{"operations":[{"method":"POST","path":"/Click","body":{"payload":2}}]}"#;
    assert_eq!(ask(url, "POST", "/_batch", batch).status, 200);
    let long = format!("{{\"payload\":\"{}\"}}", "x".repeat(1000));
    assert_eq!(ask(url, "POST", "/Click", &long).status, 413);
    slow.send("0,\"partition\":1}");
    assert_eq!(slow.receive(false).status, 202);
    assert_eq!(ask(url, "POST", "/Click", r#"{"payload":1}"#).status, 202, "its place is free");
    let mut chunked = Connection::open(url);
    let head = "POST /Click HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    chunked.send(head);
    chunked.send_chunk(long.as_bytes());
    assert_eq!(chunked.receive(false).status, 413);
}

fn statistics(url: &str) -> Value {
    let response = ask(url, "GET", "/_stats", "");
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_str(&response.body).unwrap()
}

#[test]
fn statistics_tell_requests_of_each_kind_apart() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    let nothing = statistics(url)["streams"][0].clone();
    assert_eq!(nothing["name"], "Click");
    let none = json!({"requestsPerSecond": 0.0, "eventsPerSecond": 0.0, "bytesPerSecond": 0.0});
    let absent = json!({"p50": null, "p95": null, "p99": null});
    let empty = json!({"requests": 0, "events": 0, "bytes": 0, "duplicates": 0, "refused": {},
        "last10s": none, "last60s": none, "microseconds": absent});
    for kind in ["appends", "bulks", "reads"] {
        assert_eq!(nothing[kind], empty, "{kind}");
    }

    let keyed = r#"{"payload":1,"partition":0,"idempotencyKey":"k"}"#;
    (0..30).for_each(|_| assert_eq!(ask(url, "POST", "/Click", keyed).status, 202));
    let ten = [r#"{"payload":2,"partition":1}"#; 10].join(",");
    let ten = format!("{{\"records\":[{ten}]}}");
    assert_eq!(ask(url, "POST", "/Click/bulk", &ten).status, 202);
    for (path, body, status) in [
        ("/Click", r#"{"partition":0}"#, 400),
        ("/Click", r#"{"payload":1,"partition":0,"expectedOffset":7}"#, 412),
        ("/Click/bulk", r#"{"records":[{}]}"#, 400),
    ] {
        assert_eq!(ask(url, "POST", path, body).status, status, "{body}");
    }
    assert_eq!(ask(url, "DELETE", "/Click?partition=1&before=4", "").status, 200);
    for (query, status) in [("partition=1", 200), ("partition=1&from=4&wait=9", 200), ("partition=1&from=3", 410)] {
        assert_eq!(ask(url, "GET", &format!("/Click?{query}"), "").status, status, "{query}");
    }
    assert_eq!(ask(url, "GET", "/Click?partition=0&from=1&wait=1", "").status, 200, "it has looked twice");
    let group = r#"{"offsets":[{"partition":1,"offset":5}]}"#;
    assert_eq!(ask(url, "PUT", "/Click/consumers/g", group).status, 200);

    let all = statistics(url);
    assert!(all["uptimeSeconds"].as_f64().unwrap() > 0.0);
    let click = &all["streams"][0];
    let watermarks = |partition: usize| {
        let of = &click["partitions"][partition];
        assert_eq!((&of["partition"], of["bytes"].as_u64() > Some(0)), (&json!(partition), true), "{of}");
        (of["lowWatermark"].as_u64().unwrap(), of["highWatermark"].as_u64().unwrap())
    };
    assert_eq!((watermarks(0), watermarks(1)), ((0, 1), (4, 10)));
    assert_eq!(click["groups"], json!([{"group": "g", "offsets": [{"partition": 1, "offset": 5, "lag": 5}]}]));
    let counted = |kind: &str| {
        let number = |name: &str| click[kind][name].as_u64().unwrap();
        (number("requests"), number("events"), number("duplicates"), click[kind]["refused"].clone())
    };
    assert_eq!(counted("appends"), (30, 30, 29, json!({"invalid": 1, "stale": 1})));
    assert_eq!(counted("bulks"), (1, 10, 0, json!({"invalid": 1})));
    assert_eq!(counted("reads"), (3, 12, 0, json!({"gone": 1})));
    assert_eq!(click["appends"]["bytes"], 30 * keyed.len());
    assert_eq!(click["bulks"]["bytes"], ten.len());
    assert!(click["appends"]["last10s"]["requestsPerSecond"].as_f64() > Some(0.0), "{click}");
    let times = &click["appends"]["microseconds"];
    assert!(
        times["p50"].as_f64() > Some(0.0) && times["p95"].is_null(),
        "of thirty, one and a half are beyond: {times}"
    );
    assert_eq!(counters(url)["appends"], 30);
    assert_eq!(counters(url)["reads"], 3);
}
