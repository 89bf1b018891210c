//! Multicasts over sockets: counted where they arrive, whoever stalls, goes away, or is killed.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Connection, TIMEOUT, ask, start, wait_until};
use super::feed::Feed;
use super::process::Running;
use crate::engine::Random;

/// Sends a message with these headers, and returns status and body of the response.
pub fn send(url: &str, query: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut connection = Connection::open(url);
    let length = body.len();
    connection.send(&format!(
        "POST /Device/multicast?{query} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    ));
    let response = connection.receive(false);
    (response.status, serde_json::from_str(&response.body).unwrap_or_default())
}

pub fn register(url: &str, id: &str, room: &str) {
    let response = ask(url, "PUT", &format!("/Device/{id}"), &format!("{{\"room\":\"{room}\"}}"));
    assert!(matches!(response.status, 200 | 201), "{response:?}");
}

pub fn counters(url: &str) -> Value {
    serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap()
}

/// The next message to a subscriber; changes are passed over.
pub fn message(feed: &mut Feed) -> Value {
    loop {
        let event = feed.next().expect("a message");
        if event.name == "message" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

#[test]
fn who_listens_has_it_when_the_sender_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    ["a", "b", "c"].iter().for_each(|id| register(url, id, "r1"));
    register(url, "d", "r2");
    let mut listening: Vec<_> = ["a", "b", "d"].map(|id| Feed::open(url, &format!("/Device/{id}"), None)).into();
    listening.iter_mut().for_each(|feed| drop(feed.place()));
    let (status, told) = send(url, "room==r1", "prefer: wait=30\r\n", r#"{"n": 1}"#);
    let expected = json!({"id": told["id"], "targets": 3, "delivered": 2, "absent": 1, "pending": 0, "failed": 0});
    assert_eq!((status, &told), (200, &expected));
    for feed in &mut listening[..2] {
        assert_eq!(message(feed), json!({"id": told["id"], "message": {"n": 1}}));
    }
    let (_, told) = send(url, "", "prefer: return=representation, wait=30\r\n", "2");
    assert_eq!(told["undelivered"], json!([{"id": "c", "state": "absent"}]));
    assert!(listening.iter_mut().all(|feed| message(feed)["message"] == 2));
    let (status, stored) = send(url, "room==r2", "prefer: respond-async, wait=30\r\n", "3");
    assert_eq!((status, &stored), (202, &json!({"id": stored["id"], "targets": 1})));
    assert_eq!(message(&mut listening[2])["message"], 3);
    wait_until("all are counted", || counters(url)["multicast"]["delivered"] == 6);
    let expected =
        json!({"messages": 3, "repeated": 0, "targets": 8, "delivered": 6, "absent": 2, "pending": 0, "failed": 0});
    assert_eq!(counters(url)["multicast"], expected);
    server.stop().unwrap();
}

#[test]
fn whose_sender_is_answered_at_once_is_not_in_flight_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.feed.queued_bytes = 1 << 30;
        config.multicast.in_flight = 1;
    });
    let url = server.url();
    register(url, "a", "r");
    let mut stalled = Feed::open(url, "/Device/a", None);
    stalled.place();
    let text = format!("\"{}\"", "x".repeat(60_000));
    wait_until("nobody takes it", || {
        (0..20).for_each(|_| assert_eq!(send(url, "", "prefer: wait=0\r\n", &text).0, 200));
        send(url, "", "prefer: wait=1\r\n", "0").1["pending"] == 1
    });
    for _ in 0..3 {
        assert_eq!(send(url, "", "prefer: respond-async, wait=30\r\n", "1").0, 202);
    }
    server.stop().unwrap();
}

#[test]
fn a_registration_that_is_held_outlives_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    for id in ["held", "left"] {
        assert_eq!(ask(url, "PUT", &format!("/Device/{id}"), r#"{"ttl":3}"#).status, 201);
    }
    let before = ask(url, "GET", "/Device/held", "");
    let mut all = Feed::open(url, "/Device", None);
    let held = Feed::open(url, "/Device/held?hold=true", None);
    assert_eq!(counters(url)["registry"]["held"], 1);
    wait_until("it is renewed", || counters(url)["registry"]["renewed"].as_u64() >= Some(4));
    let after = ask(url, "GET", "/Device/held", "");
    assert_eq!((after.status, &after.body, after.header("etag")), (200, &before.body, before.header("etag")));
    assert_eq!(all.next().map(|event| event.data), Some(r#"{"id":"left"}"#.to_owned()), "a renewal is no event");
    drop(held);
    assert_eq!(all.next().map(|event| event.data), Some(r#"{"id":"held"}"#.to_owned()));
    assert_eq!(ask(url, "GET", "/Device/held", "").status, 404);
    assert_eq!(counters(url)["registry"]["held"], 0);
    wait_until("both are counted", || counters(url)["registry"]["expired"] == 2);
    server.stop().unwrap();
}

#[test]
fn who_does_not_read_delays_nobody_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.feed.queued_bytes = 16 << 20);
    let url = server.url();
    ["a", "b"].iter().for_each(|id| register(url, id, "r"));
    let mut stalled = Feed::open(url, "/Device/a", None);
    stalled.place();
    let mut reading = Feed::open(url, "/Device/b", None);
    reading.place();
    let text = "x".repeat(60_000);
    let mut sent = Vec::new();
    // Until its queue, and what the system keeps of it, is full: then it is pending once, and absent after it lags.
    loop {
        let (status, told) = send(url, "", "prefer: wait=0\r\n", &format!("\"{} {text}\"", sent.len()));
        assert_eq!(status, 200);
        assert_eq!(message(&mut reading)["id"], told["id"]);
        sent.push(told["id"].clone());
        assert!(sent.len() < 2000, "somebody took it");
        if sent.len() % 50 == 0 {
            let (_, told) = send(url, "id==a", "prefer: wait=1\r\n", "0");
            sent.push(told["id"].clone());
            if told["delivered"] == 0 {
                break;
            }
        }
    }
    // It may be told that it lags; then it resumes.
    let mut received = Vec::new();
    while received.len() < sent.len() {
        match stalled.next() {
            Some(event) if event.name == "message" => {
                received.push(serde_json::from_str::<Value>(&event.data).unwrap()["id"].clone());
            }
            Some(event) if event.name == "lagged" => stalled = Feed::open(url, "/Device/a", Some(&event.id)),
            Some(_) => {}
            None => panic!("it ends without a word"),
        }
    }
    assert_eq!(received, sent);
    server.stop().unwrap();
}

#[test]
fn more_at_once_than_there_may_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.multicast.in_flight = 1;
        config.multicast.bytes = 100;
    });
    let url = server.url();
    register(url, "a", "r");
    let mut stalled = Connection::open(url);
    // The head alone: from it on, it counts.
    stalled.send("POST /Device/multicast HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n");
    wait_until("it is read", || ask(url, "GET", "/_metrics", "").body.contains("strata_requests_waiting 1\n"));
    wait_until("the other one counts", || send(url, "", "", "1").0 == 503);
    let (_, refused) = send(url, "", "", "1");
    assert_eq!(refused["type"], "urn:strata:error:overloaded");
    stalled.send("1");
    assert_eq!(stalled.receive(false).status, 200);
    wait_until("it counts no more", || send(url, "", "", "1").0 == 200);
    assert_eq!(send(url, "", "", &format!("\"{}\"", "x".repeat(99))).0, 413);
    server.stop().unwrap();
}

/// Each round kills the server between any two steps of its multicasts; what was answered arrives, once, in the order of the responses.
#[test]
fn what_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut running = Running::start(folder.path());
    ["a", "b"].iter().for_each(|id| register(&running.url, id, "r"));
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for id in ["a", "b"] {
        places.insert(id, Feed::open(&running.url, &format!("/Device/{id}"), None).place());
    }
    let (mut answered, mut number) = (Vec::new(), 0);
    let mut received: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for _ in 0..8 {
        let url = running.url.clone();
        let killed = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut mine = Vec::new();
                for n in number.. {
                    let body = n.to_string();
                    let mut connection = match std::net::TcpStream::connect(url.trim_start_matches("http://")) {
                        Ok(connection) => connection,
                        Err(_) => return (mine, n),
                    };
                    let text = format!(
                        "POST /Device/multicast HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    let mut response = Vec::new();
                    let sent = std::io::Write::write_all(&mut connection, text.as_bytes());
                    if sent.is_err() || connection.read_to_end(&mut response).is_err() || response.is_empty() {
                        return (mine, n + 1);
                    }
                    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
                    mine.push(n);
                }
                unreachable!()
            });
            std::thread::sleep(Duration::from_millis(20 + random.below(150) as u64));
            running.child.kill().unwrap();
            running.child.wait().unwrap();
            sender.join().unwrap()
        });
        answered.extend(killed.0);
        number = killed.1;
        running = Running::start(folder.path());
        let (_, last) = send(&running.url, "", "", &number.to_string());
        assert_eq!(last["targets"], 2);
        answered.push(number);
        for id in ["a", "b"] {
            let mut feed = Feed::open(&running.url, &format!("/Device/{id}"), Some(&places[id]));
            let all = received.entry(id).or_default();
            while all.last() != Some(&number) {
                all.push(message(&mut feed)["message"].as_u64().unwrap());
            }
            places.insert(id, feed.place());
        }
        number += 1;
    }
    let begun = Instant::now();
    for (id, all) in received {
        assert!(all.is_sorted_by(|one, next| one < next), "{id} got one twice, or out of order: {all:?}");
        let has: HashSet<_> = all.iter().collect();
        let lost: Vec<_> = answered.iter().filter(|n| !has.contains(n)).collect();
        assert!(lost.is_empty() && begun.elapsed() < TIMEOUT, "{id} lost {lost:?}");
    }
}
