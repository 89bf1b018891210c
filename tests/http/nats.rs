//! Multicasts over a real NATS server: who was reached, who was not, and a broker that is away, slow or strict.

mod jetstream;
mod subscriber;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use strata::config::Config;
use strata::multicast::{Address, Receipts};
use strata::server::Server;

use super::client::{ask, start, wait_until};
use super::feed::Feed;
use super::multicast::{counters, message, register, send};
use super::process::Running;
use crate::brokers::{Broker, Kind, or_skipped};
use subscriber::Subscriber;

/// The address of a broker, with these credentials.
fn address(broker: &Broker, credentials: &str) -> Address {
    Address::try_from(format!("nats://{credentials}{}", broker.address())).unwrap()
}

/// A server that publishes through a broker, once it is connected.
fn over(folder: &Path, broker: &Broker, change: impl FnOnce(&mut Config)) -> Server {
    let server = start(folder, |config| {
        config.multicast.nats_servers = vec![address(broker, "")];
        change(config);
    });
    until_connected(server.url());
    server
}

/// Waits until messages reach the broker.
fn until_connected(url: &str) {
    register(url, "probe", "none");
    wait_until("the broker is connected", || send(url, "id==probe", "", "0").1["failed"] == 0);
}

/// Makes registrations of these ids, whatever they are.
fn register_all(url: &str, registrations: impl Iterator<Item = Value>) {
    let all: Vec<_> = registrations.collect();
    for some in all.chunks(500) {
        let response = ask(url, "PUT", "/Device", &Value::from(some.to_vec()).to_string());
        assert_eq!(response.status, 200, "{response:?}");
    }
}

/// The numbers of a response: targets, delivered, absent, pending, failed.
fn numbers(told: &Value) -> [u64; 5] {
    ["targets", "delivered", "absent", "pending", "failed"].map(|name| told[name].as_u64().unwrap())
}

fn broker(configuration: &str) -> Option<Broker> {
    or_skipped(Broker::start(Kind::Nats { jetstream: false, configuration: configuration.to_owned() }, None))
}

#[test]
fn a_target_that_is_reached_either_way_is_delivered_once() {
    let Some(broker) = broker("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |_| {});
    let url = server.url();
    ["a", "b", "c", "d"].iter().for_each(|id| register(url, id, "r"));
    let mut over_nats = Subscriber::of(broker.address(), ["strata.Device.a", "strata.Device.b"]);
    let mut over_http: Vec<_> = ["b", "c"].map(|id| Feed::open(url, &format!("/Device/{id}"), None)).into();
    over_http.iter_mut().for_each(|feed| drop(feed.place()));
    let before = counters(url)["multicast"].clone();
    let (status, told) = send(url, "room==r", "prefer: return=representation, wait=30\r\n", r#"{"n": 1}"#);
    assert_eq!((status, numbers(&told)), (200, [4, 3, 1, 0, 0]), "{told}");
    assert_eq!(told["undelivered"], json!([{"id": "d", "state": "absent"}]));
    for subject in ["strata.Device.a", "strata.Device.b"] {
        let message = over_nats.next();
        assert_eq!((&*message.subject, &*message.body), (subject, r#"{"n":1}"#));
        assert_eq!(message.header("Strata-Message"), told["id"]);
    }
    for feed in &mut over_http {
        assert_eq!(message(feed), json!({"id": told["id"], "message": {"n": 1}}));
    }
    let after = counters(url)["multicast"].clone();
    let risen = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert_eq!(["targets", "delivered", "absent", "pending", "failed"].map(risen), [4, 3, 1, 0, 0]);
    server.stop().unwrap();
}

#[test]
fn an_answer_is_a_receipt() {
    let Some(broker) = broker("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |config| config.multicast.nats_receipts = Receipts::Reply);
    let url = server.url();
    ["answers", "listens", "nobody"].iter().for_each(|id| register(url, id, "r"));
    let mut answering = Subscriber::of(broker.address(), ["strata.Device.answers"]);
    let _listening = Subscriber::of(broker.address(), ["strata.Device.listens"]);
    let thread = std::thread::spawn(move || {
        for answer in ["", "taken", r#"{"stream":"is mine"}"#] {
            let message = answering.next();
            answering.publish(&message.reply, answer);
        }
        // A stream that takes the subject, too, is nobody.
        let message = answering.next();
        answering.publish(&message.reply, r#"{"stream":"strata","seq":7}"#);
        answering
    });
    for _ in 0..3 {
        let (_, told) = send(url, "room==r", "prefer: return=representation, wait=1\r\n", "1");
        assert_eq!(numbers(&told), [3, 1, 1, 1, 0], "{told}");
        let undelivered = json!([{"id": "listens", "state": "pending"}, {"id": "nobody", "state": "absent"}]);
        assert_eq!(told["undelivered"], undelivered);
    }
    let (_, told) = send(url, "id==answers", "prefer: wait=1\r\n", "1");
    assert_eq!(numbers(&told), [1, 0, 0, 1, 0], "{told}");
    drop(thread.join().unwrap());
    let begun = Instant::now();
    let (_, told) = send(url, "id==nobody", "prefer: wait=30\r\n", "1");
    assert_eq!(numbers(&told), [1, 0, 1, 0, 0], "{told}");
    assert!(begun.elapsed() < Duration::from_secs(20), "the broker says so, and nobody waits for an answer");
    server.stop().unwrap();
}

#[test]
fn of_three_thousand_the_broker_names_who_is_absent() {
    let Some(broker) = broker("") else { return };
    for connections in [1, 5] {
        let folder = tempfile::tempdir().unwrap();
        let server = over(folder.path(), &broker, |config| config.multicast.nats_connections = connections);
        let url = server.url();
        register_all(url, (0..3000).map(|number| json!({"id": format!("d{number:04}"), "room": "r"})));
        let subjects: Vec<_> =
            (0..3000).filter(|number| number % 10 != 3).map(|number| format!("strata.Device.d{number:04}")).collect();
        let mut listening = Subscriber::of(broker.address(), subjects.iter().map(String::as_str));
        for round in 0..3 {
            let (_, told) =
                send(url, "room==r", "prefer: return=representation, wait=30\r\n", &format!("{{\"round\":{round}}}"));
            assert_eq!(numbers(&told), [3000, 2700, 300, 0, 0]);
            let absent = (0..300).map(|number| json!({"id": format!("d{:04}", number * 10 + 3), "state": "absent"}));
            assert_eq!(told["undelivered"], absent.collect::<Value>());
            let received: BTreeSet<_> = (0..2700)
                .map(|_| listening.next())
                .map(|message| {
                    assert_eq!(message.header("Strata-Message"), told["id"]);
                    message.subject
                })
                .collect();
            assert_eq!(received, subjects.iter().cloned().collect());
        }
        server.stop().unwrap();
    }
}

/// A schema whose messages have a topic.
fn schema_with_topic(folder: &Path) -> PathBuf {
    let schema = folder.join("schema.graphql");
    let text = "type Device @table(expiration: 3600) @multicast(topic: \"room\") @export {\n  id: ID! @primaryKey\n  room: String @indexed\n}\n";
    fs::write(&schema, text).unwrap();
    schema
}

#[test]
fn those_of_a_topic_share_a_message() {
    let Some(broker) = broker("max_payload: 4096") else { return };
    let folder = tempfile::tempdir().unwrap();
    let schema = schema_with_topic(folder.path());
    let server = over(folder.path(), &broker, |config| config.schema = Some(schema));
    let url = server.url();
    let room = |number: usize| if number < 1500 { json!(format!("room.{}", number % 30)) } else { Value::Null };
    register_all(url, (0..1503).map(|number| json!({"id": format!("d,{number:04}"), "room": room(number)})));
    // The last two rooms have nobody.
    let subjects: Vec<_> = (0..28).map(|room| format!("strata.Device.topic.room%2E{room}")).collect();
    let own = ["strata.Device.d%2C1500".to_owned()];
    let mut listening = Subscriber::of(broker.address(), subjects.iter().chain(&own).map(String::as_str));
    let (_, told) = send(url, "id!=probe", "prefer: wait=30\r\n", "1");
    assert_eq!(numbers(&told), [1503, 1401, 102, 0, 0], "{told}");
    let received: Vec<_> = (0..29).map(|_| listening.next()).collect();
    assert_eq!(received[0].subject, own[0], "who has no topic has a message of its own");
    for message in &received[1..] {
        let room: usize = message.subject.rsplit_once("%2E").unwrap().1.parse().unwrap();
        let named: Vec<_> = (0..50).map(|number| format!("d%2C{:04}", number * 30 + room)).collect();
        assert_eq!(message.header("Strata-Targets"), named.join(","));
    }
    // With a text that leaves little room there are more messages, and each target is in one.
    let (_, told) = send(url, "room==room.7", "prefer: wait=30\r\n", &format!("\"{}\"", "x".repeat(3500)));
    assert_eq!(numbers(&told), [50, 50, 0, 0, 0], "{told}");
    let mut named = Vec::new();
    while named.len() < 50 {
        named.extend(listening.next().header("Strata-Targets").split(',').map(str::to_owned));
    }
    assert_eq!(named, (0..50).map(|number| format!("d%2C{:04}", number * 30 + 7)).collect::<Vec<_>>());
    server.stop().unwrap();
}

#[test]
fn ids_with_every_byte_have_a_subject() {
    let Some(broker) = broker("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |_| {});
    let url = server.url();
    let mut ids: Vec<String> = (0..0x80_u8).map(|byte| format!("x{}y", char::from(byte))).collect();
    ids.extend(["\u{e9}".to_owned(), "\u{ffff}\u{1f600}".to_owned(), "%".repeat(1024), "topic".to_owned()]);
    register_all(url, ids.iter().map(|id| json!({"id": id, "room": "r"})));
    let mut listening = Subscriber::of(broker.address(), ["strata.Device.*"]);
    let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", "1");
    assert_eq!(numbers(&told), [ids.len() as u64, ids.len() as u64, 0, 0, 0], "{told}");
    let received: BTreeSet<_> = (0..ids.len())
        .map(|_| {
            let token = listening.next().subject.strip_prefix("strata.Device.").unwrap().to_owned();
            percent_encoding::percent_decode_str(&token).decode_utf8().unwrap().into_owned()
        })
        .collect();
    assert_eq!(received, ids.into_iter().collect());
    server.stop().unwrap();
}

#[test]
fn what_is_too_long_for_the_broker_is_refused_and_reaches_local_subscribers() {
    let Some(broker) = broker("max_payload: 2048") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |_| {});
    let url = server.url();
    ["a", "b", "c"].iter().for_each(|id| register(url, id, "r"));
    let mut feed = Feed::open(url, "/Device/a", None);
    feed.place();
    let mut listening = Subscriber::of(broker.address(), ["strata.Device.*"]);
    let long = format!("\"{}\"", "x".repeat(2048));
    let (_, told) = send(url, "room==r", "prefer: return=representation, wait=30\r\n", &long);
    assert_eq!(numbers(&told), [3, 1, 0, 0, 2], "{told}");
    assert_eq!(told["failures"], json!({"unreachable": 0, "timeout": 0, "refused": 2}));
    assert_eq!(told["undelivered"], json!([{"id": "b", "state": "failed"}, {"id": "c", "state": "failed"}]));
    assert_eq!(message(&mut feed)["message"].as_str().map(str::len), Some(2048));
    // The connection is not closed over it.
    let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", "1");
    assert_eq!(numbers(&told), [3, 3, 0, 0, 0], "{told}");
    assert!((0..3).all(|_| listening.next().body == "1"), "what was refused is never sent");
    server.stop().unwrap();
}

#[test]
fn a_broker_that_is_away_fails_its_messages_and_nobody_elses() {
    let Some(mut broker) = broker("") else { return };
    broker.kill();
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.multicast.nats_servers = vec![address(&broker, "")]);
    let url = server.url();
    ["a", "b"].iter().for_each(|id| register(url, id, "r"));
    for _ in 0..3 {
        let mut feed = Feed::open(url, "/Device/a", None);
        feed.place();
        let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", "\"lost\"");
        assert_eq!(numbers(&told), [2, 1, 0, 0, 1], "{told}");
        assert_eq!(told["failures"], json!({"unreachable": 1, "timeout": 0, "refused": 0}));
        assert_eq!(message(&mut feed)["message"], "lost");
        broker.start_again().unwrap();
        let mut listening = Subscriber::of(broker.address(), ["strata.Device.*"]);
        wait_until("it is there again", || send(url, "room==r", "", "\"again\"").1["delivered"] == 2);
        assert_eq!(listening.next().body, "\"again\"", "what failed is never sent");
        broker.kill();
        wait_until("it is known to be away", || {
            let (_, told) = send(url, "id==b", "prefer: wait=1\r\n", "0");
            told["failures"]["unreachable"] == 1
        });
    }
    server.stop().unwrap();
}

#[test]
fn a_broker_that_says_nothing_has_not_failed_for_good() {
    let Some(broker) = broker("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |_| {});
    let url = server.url();
    ["a", "b", "nobody"].iter().for_each(|id| register(url, id, "r"));
    let mut listening = Subscriber::of(broker.address(), ["strata.Device.a", "strata.Device.b"]);
    broker.pause();
    let begun = Instant::now();
    let (_, told) = send(url, "room==r", "prefer: wait=1\r\n", "1");
    assert_eq!(numbers(&told), [3, 0, 0, 0, 3], "{told}");
    assert_eq!(told["failures"], json!({"unreachable": 0, "timeout": 3, "refused": 0}));
    let (_, told) = send(url, "room==r", "prefer: wait=0\r\n", "2");
    assert_eq!(numbers(&told), [3, 0, 0, 3, 0], "it was not waited for");
    std::thread::sleep(Duration::from_secs(2).saturating_sub(begun.elapsed()));
    broker.go_on();
    let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", "3");
    assert_eq!(numbers(&told), [3, 2, 1, 0, 0], "{told}");
    let bodies: Vec<_> = (0..6).map(|_| listening.next().body).collect();
    assert_eq!(bodies, ["1", "1", "2", "2", "3", "3"], "what it had was sent late");
    server.stop().unwrap();
}

/// What was written when the connection broke is lost, and what waited behind it goes out on the next one.
#[test]
fn what_may_be_lost_with_a_connection_is_not_delivered() {
    let Some(mut broker) = broker("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |config| config.multicast.nats_connections = 1);
    let url = server.url();
    register_all(url, (0..500).map(|number| json!({"id": format!("d{number}"), "room": "r"})));
    // More than fits between the two.
    let text = format!("\"{}\"", "x".repeat(60_000));
    let sent = counters(url)["multicast"]["messages"].as_u64().unwrap();
    broker.pause();
    let (_, told) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(url, "room==r", "prefer: wait=30\r\n", &text));
        wait_until("it is sent", || counters(url)["multicast"]["messages"] == sent + 1);
        // Some of it is written, and the rest waits; nobody says when.
        std::thread::sleep(Duration::from_secs(1));
        broker.kill();
        broker.start_again().unwrap();
        sending.join().unwrap()
    });
    let [targets, delivered, _, pending, failed] = numbers(&told);
    assert_eq!((targets, delivered, pending), (500, 0, 0), "{told}");
    assert_eq!(told["failures"], json!({"unreachable": 0, "timeout": failed, "refused": 0}));
    assert!(failed > 0, "{told}");
    server.stop().unwrap();
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_off_and_delays_nobody() {
    let Some(broker) = broker("write_deadline: \"500ms\"\nmax_pending: 1048576") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = over(folder.path(), &broker, |_| {});
    let url = server.url();
    ["reads", "stalls"].iter().for_each(|id| register(url, id, "r"));
    let mut reading = Subscriber::of(broker.address(), ["strata.Device.reads"]);
    let mut stalled = Subscriber::of(broker.address(), ["strata.Device.stalls"]);
    let text = format!("\"{}\"", "x".repeat(60_000));
    let mut sent = 0;
    loop {
        let (_, told) = send(url, "room==r", "prefer: return=representation, wait=30\r\n", &text);
        sent += 1;
        assert_eq!(reading.next().body, text);
        match numbers(&told) {
            [2, 2, 0, 0, 0] => assert!(sent < 5000, "it was never cut off"),
            [2, 1, 1, 0, 0] => break assert_eq!(told["undelivered"][0]["id"], "stalls"),
            other => panic!("{other:?}"),
        }
    }
    let mut taken = 0;
    while stalled.next_or_end().is_some() {
        taken += 1;
    }
    assert!(taken < sent);
    server.stop().unwrap();
}

/// The credentials stand in the URL. Who may publish to nothing but the subjects of messages is told of them all the same.
#[test]
fn a_broker_with_rights_is_served_within_them() {
    let configuration = r#"
        no_auth_user: anybody
        authorization: { users: [
            { user: anybody, password: any },
            { user: strata, password: "p:w/1", permissions: { publish: ["strata.>"], subscribe: ["_INBOX.>"] } },
            { user: other, password: other, permissions: { publish: { allow: [">"], deny: ["strata.Device.>"] } } },
        ] }
    "#;
    let Some(broker) = broker(configuration) else { return };
    for (credentials, expected) in [("strata:p%3Aw%2F1@", [3, 1, 2, 0, 0]), ("other:other@", [3, 0, 0, 0, 3])] {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path(), |config| config.multicast.nats_servers = vec![address(&broker, credentials)]);
        let url = server.url();
        ["a", "b", "c"].iter().for_each(|id| register(url, id, "r"));
        let _listening = Subscriber::of(broker.address(), ["strata.Device.a"]);
        let mut told = Value::Null;
        wait_until("it is connected", || {
            told = send(url, "room==r", "prefer: wait=30\r\n", "1").1;
            told["failures"]["unreachable"].as_u64().unwrap_or(0) == 0
        });
        assert_eq!(numbers(&told), expected, "{credentials} {told}");
        assert_eq!(told["failures"]["refused"].as_u64().unwrap_or(0), expected[4]);
        server.stop().unwrap();
    }
}

/// More refusals than the client passes on at a time.
#[test]
fn of_thousands_that_may_not_be_published_none_is_delivered() {
    let configuration = "authorization: { users: [
        { user: strata, password: pw, permissions: { publish: { allow: [\">\"], deny: [\"strata.Device.>\"] } } },
    ] }";
    let Some(broker) = broker(configuration) else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.multicast.nats_servers = vec![address(&broker, "strata:pw@")]);
    let url = server.url();
    register_all(url, (0..3000).map(|number| json!({"id": format!("d{number:04}"), "room": "r"})));
    wait_until("it is connected", || {
        let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", "1");
        assert_eq!(numbers(&told), [3000, 0, 0, 0, 3000], "{told}");
        // The client does not pass on that many refusals: of some of them nothing is known.
        let number = |of: &str| told["failures"][of].as_u64().unwrap();
        number("refused") > 64 && number("refused") + number("timeout") == 3000
    });
    server.stop().unwrap();
}

/// Whom it trusts is what the system trusts.
#[test]
fn a_broker_is_reached_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (certificate.display(), key.display());
    let tls = format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\nallow_non_tls: true");
    let Some(broker) = broker(&tls) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.env("SSL_CERT_FILE", certificate.to_string());
    let servers = format!("tls://localhost:{}", broker.port());
    let server = Running::start_by(command, folder.path(), &["--nats-servers", &servers]);
    register(&server.url, "a", "r");
    let mut listening = Subscriber::of(broker.address(), ["strata.Device.a"]);
    wait_until("it is connected", || send(&server.url, "", "prefer: wait=30\r\n", "1").1["delivered"] == 1);
    assert_eq!(listening.next().body, "1");
}
