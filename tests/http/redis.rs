//! Registrations that are kept in a real Redis: the verbs, the ends, what is enumerated, and a Redis that is away, stopped, killed or full.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use redis::{Commands, Connection as Raw};
use serde_json::{Value, json};
use strata::server::Server;

use super::client::{Connection, Response, ask, ask_with, schema_of_redis as schema, start, wait_until};
use super::feed::Feed;
use super::process::{Running, assert_refused, output};
use super::scripts;
use crate::brokers::{Broker, or_skipped};
use crate::engine::Random;

/// The arguments of a server over a folder with a schema.
fn serve<'a>(folder: &'a str, schema: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder, "--schema", schema], more].concat()
}

/// A folder with a schema.
fn with_schema(sdl: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, schema) = (path("data"), path("schema.graphql"));
    std::fs::write(&schema, sdl).unwrap();
    (folder, data, schema)
}

const IN_REDIS: &str = r#"type T @table(expiration: 60, registry: "redis") @export { id: ID! @primaryKey }"#;

const HERE: &str = "type T @table(expiration: 60) @export { id: ID! @primaryKey }";

/// A server over a folder whose registrations are in a Redis.
fn over(broker: &Broker, folder: &Path, max_rows: usize) -> Server {
    start(folder, |config| {
        config.schema = Some(schema());
        config.handlers.max_rows = max_rows;
        config.multicast.redis_addr = Some(broker.address().to_string().try_into().unwrap());
    })
}

/// A connection of our own, to see what is kept.
fn raw(broker: &Broker) -> Raw {
    redis::Client::open(broker.url()).unwrap().get_connection().unwrap()
}

fn redis() -> Option<Broker> {
    or_skipped(Broker::redis(&[]))
}

fn register(url: &str, id: &str, body: &str) -> u16 {
    ask(url, "PUT", &format!("/Device/{id}"), body).status
}

fn listed(url: &str, path: &str) -> Vec<Value> {
    let response = ask(url, "GET", path, "");
    assert_eq!(response.status, 200, "{path}: {response:?}");
    serde_json::from_str(&response.body).unwrap()
}

fn ids(url: &str, path: &str) -> Vec<String> {
    listed(url, path).iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

fn counters(url: &str) -> Value {
    serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap()
}

/// Away, or full: it says when to come again.
fn assert_away(response: &Response) {
    assert_eq!((response.status, response.header("retry-after")), (503, "1"), "{response:?}");
}

#[test]
fn the_manual_is_right() {
    if redis().is_none() {
        return;
    }
    scripts::check(schema().parent().unwrap(), |script, _| {
        let (broker, folder) = (redis().expect("there was one"), tempfile::tempdir().unwrap());
        let server = over(&broker, folder.path(), 3);
        let actual = scripts::run(script, server.url());
        server.stop().unwrap();
        actual
    });
}

#[test]
fn what_does_not_fit_is_refused_at_the_start() {
    let (_folder, data, schema) = with_schema(IN_REDIS);
    assert_refused(&output(&serve(&data, &schema, &[])), &["table T", "--redis-addr"]);
    for address in ["rediss://localhost:1", "nats://localhost:1", "x y"] {
        assert_refused(&output(&serve(&data, &schema, &["--redis-addr", address])), &["redis"]);
    }
    let refused = output(&serve(&data, &schema, &["--redis-addr", "http://me:secret@localhost:1"]));
    assert_refused(&refused, &["redis-addr"]);
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("secret"));
    assert!(!Path::new(&data).exists());
}

#[test]
fn a_table_with_records_does_not_move() {
    let Some(broker) = redis() else { return };
    let (_folder, data, schema) = with_schema(HERE);
    let here = |config: &mut strata::config::Config| {
        config.schema = Some(schema.clone().into());
        config.data_dir = data.clone().into();
    };
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), here);
    assert_eq!(ask(server.url(), "PUT", "/T/a", "{}").status, 201);
    server.stop().unwrap();
    std::fs::write(&schema, IN_REDIS).unwrap();
    let address = broker.address().to_string();
    let there = serve(&data, &schema, &["--redis-addr", &address]);
    assert_refused(&output(&there), &["table T", "Redis"]);
    std::fs::write(&schema, HERE).unwrap();
    let server = start(folder.path(), here);
    assert_eq!(ask(server.url(), "DELETE", "/T?truncate=true", "").status, 200);
    server.stop().unwrap();
    std::fs::write(&schema, IN_REDIS).unwrap();
    let server = start(folder.path(), |config| {
        here(config);
        config.multicast.redis_addr = Some(address.clone().try_into().unwrap());
    });
    assert_eq!(ask(server.url(), "PUT", "/T/a", "{}").status, 201);
    server.stop().unwrap();
}

/// Killed at any moment: no registration without an end, none that is not enumerated, and each that was answered.
#[test]
fn a_registration_and_its_end_are_one_step() {
    let Some(broker) = redis() else { return };
    let (folder, schema, address) = (tempfile::tempdir().unwrap(), schema(), broker.address().to_string());
    let options = ["--schema", schema.to_str().unwrap(), "--redis-addr", &address];
    let mut answered = BTreeSet::new();
    for round in 0..3 {
        let server = Running::start_with(folder.path(), &options);
        let writers = (0..4).map(|writer| {
            let url = server.url.clone();
            std::thread::spawn(move || {
                let (mut connection, mut ids) =
                    (std::net::TcpStream::connect(&url["http://".len()..]).unwrap(), vec![]);
                for number in 0.. {
                    let id = format!("{round}-{writer}-{number}");
                    if !put(&mut connection, &id) {
                        return ids;
                    }
                    ids.push(id);
                }
                unreachable!("the server is killed")
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut raw = raw(&broker);
        let begun: usize = raw.zcard("strata:{Device}").unwrap();
        wait_until("some are registered", || raw.zcard::<_, usize>("strata:{Device}").unwrap() > begun + 200);
        // Drops it, by SIGKILL.
        drop(server);
        writers.into_iter().for_each(|writer| answered.extend(writer.join().unwrap()));
        let keys: Vec<String> = raw.keys("strata:{Device}:*").unwrap();
        for key in &keys {
            let (left_ms, until): (i64, Option<f64>) =
                (raw.pttl(key).unwrap(), raw.zscore("strata:{Device}", &key["strata:{Device}:".len()..]).unwrap());
            assert!((1..=300_000).contains(&left_ms) && until.is_some(), "{key} {left_ms} {until:?}");
        }
        let kept: BTreeSet<_> = keys.iter().map(|key| key["strata:{Device}:".len()..].to_owned()).collect();
        assert_eq!(answered.difference(&kept).count(), 0);
        assert_eq!(raw.zcard::<_, usize>("strata:{Device}").unwrap(), kept.len());
    }
}

/// Sends a PUT; false once the server is gone.
fn put(connection: &mut std::net::TcpStream, id: &str) -> bool {
    use std::io::{Read, Write};
    let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nprefer: return=minimal\r\n";
    let mut response = Vec::new();
    if connection.write_all(format!("PUT /Device/{id} HTTP/1.1\r\n{head}\r\n{{}}").as_bytes()).is_err() {
        return false;
    }
    while !response.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if !matches!(connection.read(&mut byte), Ok(1)) {
            return false;
        }
        response.push(byte[0]);
    }
    assert!(response.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&response));
    true
}

/// Registers random rows in both tables.
fn fill(url: &str, rows: usize) {
    let mut random = Random(45);
    let mut connection = Connection::open(url);
    for number in 0..rows {
        let pick = |random: &mut Random, from: &[&str]| from[random.below(from.len())].to_owned();
        let body = format!(
            r#"{{"room":{},"status":{},"rank":{},"tags":{},"more":{}}}"#,
            pick(&mut random, &["\"r1\"", "\"r2\"", "\"a b\"", "\"\\\"\\\\\u{e9}\"", "null"]),
            pick(&mut random, &["\"online\"", "\"offline\"", "\"\""]),
            pick(&mut random, &["null", "0", "-7", "9223372036854775807", "12"]),
            pick(&mut random, &["null", "[]", "[\"a\"]", "[\"b\",\"a\"]"]),
            pick(&mut random, &["null", "{\"size\":{\"w\":3}}", "[1,\"x\"]", "2.5"]),
        );
        for table in ["Device", "Here"] {
            let response = connection.request("PUT", &format!("/{table}/d{number}"), &body);
            assert_eq!(response.status, 201, "{response:?}");
        }
    }
}

/// Random rows stand in both tables, and every query finds the same in both.
#[test]
fn what_is_enumerated_is_what_our_own_tables_find() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 10_000);
    let url = server.url();
    fill(url, 2500);
    let conditions = [
        "",
        "room==r1",
        "room!=r1",
        "room==null",
        "room==*b",
        "room=sw=%22",
        "rank=gt=0",
        "rank=gele=-7,12",
        "rank!=0",
        "tags==a",
        "tags==[]",
        "tags==null",
        "more.size.w==3",
        "more=gt=2",
        "status==",
        "id=in=d1,d20,d2400,x",
        "!(room==r1|status==online)",
        "room=~=%5Er%5B0-9%5D%24;rank=ge=0",
        "room=ft=r1",
    ];
    let results = [
        "sort=id",
        "sort=-rank,id&limit=7",
        "sort=room,-id&limit=100&offset=50",
        "sort=id&limit=0&pagination=true",
        "sort=-id&select=id,rank,more&limit=30&pagination=true",
        "limit=0",
    ];
    for condition in conditions {
        for result in results {
            let query =
                [condition, result].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("&");
            let [there, here] = ["Device", "Here"].map(|table| ask(url, "GET", &format!("/{table}?{query}"), ""));
            assert_eq!((there.status, &there.body), (here.status, &here.body), "{query}");
        }
    }
    // Unbounded, in pieces.
    let lines = ask_with(url, "GET", "/Device", &[("accept", "application/x-ndjson")], b"").body;
    assert_eq!(lines.lines().count(), 2500);
    assert!(lines.len() > 64 << 10);
    server.stop().unwrap();
}

#[test]
fn each_registration_is_on_one_page() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 10_000);
    let url = server.url();
    fill(url, 1000);
    for query in ["limit=333&select=id", "rank=gt=0&sort=-room&limit=100&select=id"] {
        let (mut path, mut found) = (format!("/Device?{query}"), Vec::new());
        loop {
            let response = ask(url, "GET", &path, "");
            let page: Vec<Value> = serde_json::from_str(&response.body).unwrap();
            found.extend(page.iter().map(|record| record["id"].as_str().unwrap().to_owned()));
            match response.header("link").strip_prefix('<').and_then(|link| link.split_once('>')) {
                Some((next, _)) => path = next.to_owned(),
                None => break,
            }
        }
        let all: BTreeSet<_> = found.iter().collect();
        assert_eq!(all.len(), found.len(), "{query}");
        let without_limit = query.split("limit").next().unwrap();
        let here: BTreeSet<_> =
            ids(url, &format!("/Here?{}", without_limit.trim_end_matches('&'))).into_iter().collect();
        assert!(all.into_iter().eq(&here), "{query}");
    }
    server.stop().unwrap();
}

#[test]
fn a_registration_ends_and_its_entry_is_swept() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let (url, mut raw) = (server.url(), raw(&broker));
    for number in 0..20 {
        assert_eq!(register(url, &format!("short{number}"), r#"{"ttl":1}"#), 201);
    }
    assert_eq!(register(url, "long", r#"{"ttl":3000}"#), 201);
    let left_ms: i64 = raw.pttl("strata:{Device}:long").unwrap();
    assert!((2_900_000..=3_000_000).contains(&left_ms), "{left_ms}");
    wait_until("they end", || ask(url, "GET", "/Device/short0", "").status == 404);
    wait_until("all end", || ids(url, "/Device") == ["long"]);
    assert_eq!(register(url, "short1", r#"{"ttl":3000}"#), 201, "it is new again");
    wait_until("their entries go", || raw.zcard::<_, usize>("strata:{Device}").unwrap() == 2);
    assert_eq!(ids(url, "/Device"), ["long", "short1"]);
    server.stop().unwrap();
}

/// What another schema, or somebody else, has written.
#[test]
fn a_text_that_does_not_fit_is_no_registration() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let (url, mut raw) = (server.url(), raw(&broker));
    let texts = [
        ("older", r#"{"id":"older","room":"r1","gone":{"a":1}}"#),
        ("wrong", r#"{"id":"wrong","rank":"many"}"#),
        ("nameless", "{}"),
        ("broken", "{"),
    ];
    for (id, text) in texts {
        let () = raw.set_ex(format!("strata:{{Device}}:{id}"), text, 1000).unwrap();
        let () = raw.zadd("strata:{Device}", id, 9e12).unwrap();
    }
    assert_eq!(ids(url, "/Device"), ["older"]);
    let older = ask(url, "GET", "/Device/older", "");
    assert_eq!((older.status, older.body.contains("gone")), (200, false), "{older:?}");
    assert!(texts[1..].iter().all(|(id, _)| ask(url, "GET", &format!("/Device/{id}"), "").status == 404));
    assert_eq!(register(url, "wrong", r#"{"rank":1}"#), 200);
    assert_eq!(ids(url, "/Device"), ["older", "wrong"]);
    server.stop().unwrap();
}

#[test]
fn a_redis_that_is_stopped_loses_nothing() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 10_000);
    let url = server.url().to_owned();
    assert_eq!(register(&url, "before", "{}"), 201);
    broker.pause();
    let asking: Vec<_> = (0..8)
        .map(|number| {
            let url = url.clone();
            std::thread::spawn(move || match number {
                0..6 => ask(&url, "PUT", &format!("/Device/d{number}"), "{}"),
                6 => ask(&url, "GET", "/Device/before", ""),
                _ => ask(&url, "GET", "/Device?select=id", ""),
            })
        })
        .collect();
    // Tables of our own do not wait for it.
    assert_eq!(ask(&url, "PUT", "/Here/a", "{}").status, 201);
    std::thread::sleep(Duration::from_secs(2));
    broker.go_on();
    let mut registered = BTreeSet::from(["before".to_owned()]);
    for (number, asking) in asking.into_iter().enumerate() {
        let response = asking.join().unwrap();
        match response.status {
            201 => drop(registered.insert(format!("d{number}"))),
            200 => {}
            _ => assert_away(&response),
        }
    }
    wait_until("it is back", || matches!(register(&url, "after", "{}"), 200 | 201));
    let found: BTreeSet<_> = ids(&url, "/Device").into_iter().collect();
    assert!(found.is_superset(&registered), "{registered:?} {found:?}");
    server.stop().unwrap();
}

#[test]
fn a_redis_that_is_killed_is_found_again() {
    let Some(mut broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let url = server.url();
    for round in 0..3 {
        assert_eq!(register(url, "d1", "{}"), 201, "round {round}");
        let calls = counters(url)["redis"].clone();
        broker.kill();
        assert_away(&ask(url, "PUT", "/Device/d2", "{}"));
        assert_away(&ask(url, "GET", "/Device/d1", ""));
        assert_away(&ask(url, "GET", "/Device?room==r1", ""));
        assert_away(&ask(url, "DELETE", "/Device/d1", ""));
        assert_away(&ask(url, "POST", "/Device/multicast", "1"));
        assert_eq!(ask(url, "GET", "/Here", "").status, 200);
        let after = counters(url)["redis"].clone();
        let grown = |name: &str| after[name].as_u64().unwrap() - calls[name].as_u64().unwrap();
        assert_eq!((grown("calls"), grown("failed")), (5, 5));
        broker.start_again().unwrap();
        // It keeps nothing on the disk.
        wait_until("it is found", || ask(url, "GET", "/Device", "").status == 200);
        assert_eq!(ids(url, "/Device"), [""; 0]);
    }
    server.stop().unwrap();
}

#[test]
fn a_redis_that_comes_later_is_found() {
    let Some(mut broker) = redis() else { return };
    broker.kill();
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let url = server.url();
    assert_away(&ask(url, "PUT", "/Device/d1", "{}"));
    assert_away(&ask(url, "GET", "/Device", ""));
    // It is bad whether Redis is there or not.
    assert_eq!(ask(url, "POST", "/Device", "{}").status, 405);
    assert_eq!(ask(url, "GET", "/Device?x==1", "").status, 400);
    broker.start_again().unwrap();
    wait_until("it is found", || register(url, "d1", "{}") == 201);
    server.stop().unwrap();
}

#[test]
fn a_full_redis_gives_room_and_takes_none() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let (url, mut raw) = (server.url(), raw(&broker));
    for id in ["d1", "d2", "d3"] {
        assert_eq!(register(url, id, r#"{"room":"r1"}"#), 201);
    }
    let set = |raw: &mut Raw, most: &str| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(most).query(raw).unwrap();
    };
    set(&mut raw, "1");
    for headers in
        [&[("content-type", "application/json")][..], &[("content-type", "application/json"), ("if-none-match", "*")]]
    {
        for id in ["d1", "d9"] {
            let response = ask_with(url, "PUT", &format!("/Device/{id}"), headers, b"{}");
            if headers.len() > 1 && id == "d1" {
                assert_eq!(response.status, 412, "{response:?}");
                continue;
            }
            assert_away(&response);
            assert!(response.body.contains("urn:strata:error:full"), "{response:?}");
        }
    }
    assert_eq!(ask(url, "GET", "/Device/d1", "").status, 200);
    assert_eq!(ids(url, "/Device?room==r1"), ["d1", "d2", "d3"]);
    let sent = ask(url, "POST", "/Device/multicast?room==r1", "1");
    assert_eq!(serde_json::from_str::<Value>(&sent.body).unwrap()["targets"], 3, "{sent:?}");
    assert_eq!(ask(url, "DELETE", "/Device/d1", "").status, 204);
    assert_eq!(ask(url, "DELETE", "/Device/d1", "").status, 404);
    assert_eq!(raw.zcard::<_, usize>("strata:{Device}").unwrap(), 2);
    set(&mut raw, "0");
    assert_eq!(register(url, "d9", "{}"), 201);
    assert_eq!(ids(url, "/Device"), ["d2", "d3", "d9"]);
    server.stop().unwrap();
}

#[test]
fn messages_reach_registrations_and_nothing_else_is_told() {
    let Some(broker) = redis() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(&broker, folder.path(), 100);
    let url = server.url();
    for (id, room) in [("a", "r1"), ("b", "r1"), ("c", "r2")] {
        assert_eq!(register(url, id, &format!(r#"{{"room":"{room}"}}"#)), 201);
    }
    let before = counters(url)["redis"]["calls"].as_u64().unwrap();
    // Nobody need be registered to listen.
    let mut feeds: BTreeMap<_, _> =
        ["a", "b", "c", "x"].map(|id| (id, Feed::open(url, &format!("/Device/{id}"), None))).into();
    feeds.values_mut().for_each(|feed| drop(feed.place()));
    assert_eq!(register(url, "a", r#"{"room":"r1"}"#), 200);
    let send = |query: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("prefer", "wait=30")];
        let response = ask_with(url, "POST", &format!("/Device/multicast?{query}"), &headers, body.as_bytes());
        assert_eq!(response.status, 200, "{response:?}");
        serde_json::from_str::<Value>(&response.body).unwrap()
    };
    let told = send("room==r1", "1");
    assert_eq!((&told["targets"], &told["delivered"]), (&json!(2), &json!(2)), "{told}");
    assert_eq!(ask(url, "DELETE", "/Device/a", "").status, 204);
    assert_eq!(counters(url)["redis"]["calls"].as_u64().unwrap(), before + 3, "a call each");
    let told = send("", "2");
    assert_eq!((&told["targets"], &told["delivered"]), (&json!(2), &json!(2)), "{told}");
    let next = |feed: &mut Feed| {
        let event = feed.next().unwrap();
        assert_eq!(event.name, "message");
        (serde_json::from_str::<Value>(&event.data).unwrap()["message"].clone(), event.id)
    };
    let (message, place) = next(feeds.get_mut("a").unwrap());
    assert_eq!(message, 1);
    // Who was away gets each message once.
    drop(feeds.remove("b"));
    assert_eq!(register(url, "a", "{}"), 201);
    let told = send("", "3");
    assert_eq!((&told["targets"], &told["delivered"], &told["absent"]), (&json!(3), &json!(2), &json!(1)), "{told}");
    let mut resumed = Feed::open(url, "/Device/b", Some(&place));
    assert_eq!([next(&mut resumed).0, next(&mut resumed).0], [json!(2), json!(3)]);
    let a = feeds.get_mut("a").unwrap();
    assert_eq!(next(a).0, 3, "who is not registered gets nothing");
    let c = feeds.get_mut("c").unwrap();
    assert_eq!([next(c).0, next(c).0], [json!(2), json!(3)]);
    server.stop().unwrap();
    assert!(feeds.remove("x").unwrap().next().is_none());
}
