//! JetStream: what was acknowledged is in the stream exactly once, whoever is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use strata::server::Server;

use super::subscriber::{Message, Subscriber};
use super::{numbers, over, register_all, schema_with_topic};
use crate::brokers::{Broker, Kind, or_skipped};
use crate::http::client::{Connection, TIMEOUT, ask, start, wait_until};
use crate::http::multicast::{counters, register, send};
use crate::http::process::Running;

/// Asks the broker about its streams.
fn api(address: SocketAddr, name: &str, body: &str) -> Value {
    let answer = Subscriber::open(address).request(&format!("$JS.API.{name}"), body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The number of messages in the stream; 0 if there is none.
fn stored(address: SocketAddr) -> u64 {
    api(address, "STREAM.INFO.strata", "")["state"]["messages"].as_u64().unwrap_or(0)
}

/// How many messages are read at once: of many more the broker takes the reader for a slow one.
const READ_AT_ONCE: u64 = 1000;

/// All messages of the stream, in its order.
fn read_all(address: SocketAddr) -> Vec<Message> {
    static READERS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("all{}", READERS.fetch_add(1, Ordering::Relaxed));
    let to = format!("read.{name}");
    let mut reading = Subscriber::of(address, [&*to]);
    let number = stored(address);
    let consumer = json!({"stream_name": "strata", "config": {
        "name": name, "deliver_policy": "all", "ack_policy": "none",
        "inactive_threshold": 10_000_000_000_u64,
    }});
    let made = api(address, &format!("CONSUMER.CREATE.strata.{name}"), &consumer.to_string());
    assert!(made["error"].is_null(), "{made}");
    let mut all = Vec::new();
    while (all.len() as u64) < number {
        let batch = READ_AT_ONCE.min(number - all.len() as u64);
        reading.publish_with_reply(&format!("$JS.API.CONSUMER.MSG.NEXT.strata.{name}"), &to, &batch.to_string());
        all.extend((0..batch).map(|_| reading.next()));
    }
    all
}

fn jetstream(configuration: &str) -> Option<Broker> {
    or_skipped(Broker::start(Kind::Nats { jetstream: true, configuration: configuration.to_owned() }, None))
}

/// A server that publishes to the stream, once that has a message.
fn kept_by(folder: &std::path::Path, broker: &Broker) -> Server {
    over(folder, broker, |config| config.multicast.jetstream = true)
}

#[test]
fn delivered_is_what_the_stream_has() {
    let Some(broker) = jetstream("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = kept_by(folder.path(), &broker);
    let url = server.url();
    wait_until("the stream is there", || send(url, "id==probe", "prefer: wait=30\r\n", "0").1["delivered"] == 1);
    let info = api(broker.address(), "STREAM.INFO.strata", "");
    assert_eq!(info["config"]["subjects"], json!(["strata.>"]), "{info}");
    assert_eq!(info["config"]["max_age"], 24 * 3600 * 1_000_000_000_u64);
    assert_eq!(info["config"]["duplicate_window"], 3600 * 1_000_000_000_u64);
    register_all(url, (0..5000).map(|number| json!({"id": format!("d{number:04}"), "room": "r"})));
    let before = stored(broker.address());
    // More than may be unacknowledged at a time.
    let (_, told) = send(url, "room==r", "prefer: wait=30\r\n", r#"{"n":1}"#);
    assert_eq!(numbers(&told), [5000, 5000, 0, 0, 0], "{told}");
    let all = read_all(broker.address());
    assert_eq!(all.len() as u64, before + 5000);
    let of_message = all.iter().filter(|message| message.header("Strata-Message") == told["id"]);
    let subjects: BTreeSet<_> = of_message.clone().map(|message| message.subject.as_str()).collect();
    assert!(of_message.clone().all(|message| message.body == r#"{"n":1}"#) && subjects.len() == 5000);
    let first = all.iter().find(|message| message.subject == "strata.Device.d0000").unwrap();
    assert_eq!(first.header("Nats-Msg-Id"), format!("{}/strata.Device.d0000", told["id"].as_str().unwrap()));
    server.stop().unwrap();
}

#[test]
fn what_waits_in_the_outbox_is_sent_whoever_was_away() {
    let Some(mut broker) = jetstream("") else { return };
    broker.kill();
    let folder = tempfile::tempdir().unwrap();
    let (schema, address) = (schema_with_topic(folder.path()), super::address(&broker, ""));
    let begin = || {
        start(folder.path(), |config| {
            config.schema = Some(schema.clone());
            config.multicast.nats_servers = vec![address.clone()];
            config.multicast.jetstream = true;
            config.multicast.outbox_bytes = 4000;
        })
    };
    let server = begin();
    let url = server.url();
    ["a", "b", "c"].iter().for_each(|id| register(url, id, "r1"));
    assert_eq!(ask(url, "PUT", "/Device/d", "{}").status, 201);
    let mut sent = Vec::new();
    let refused = loop {
        let mut connection = Connection::open(url);
        let body = format!("\"{} {}\"", sent.len(), "x".repeat(500));
        connection.send(&format!(
            "POST /Device/multicast HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nprefer: wait=0\r\n\r\n{body}",
            body.len()
        ));
        let response = connection.receive(false);
        if response.status != 200 {
            break response;
        }
        let told: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(numbers(&told), [4, 0, 0, 4, 0], "never failed: {told}");
        sent.push((told["id"].as_str().unwrap().to_owned(), body));
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"), "{refused:?}");
    assert!((3..8).contains(&sent.len()), "{}", sent.len());
    // What they are registered as later is not what they were sent as.
    register(url, "a", "r2");
    server.stop().unwrap();
    let server = begin();
    assert_eq!(
        send(server.url(), "", "prefer: wait=0\r\n", &format!("\"{}\"", "x".repeat(500))).0,
        503,
        "it is still full"
    );
    broker.start_again().unwrap();
    wait_until("all are in the stream", || stored(broker.address()) == 2 * sent.len() as u64);
    let all = read_all(broker.address());
    for (id, body) in &sent {
        let of_message = all.iter().filter(|message| message.header("Strata-Message") == id && message.body == *body);
        let named: BTreeSet<_> = of_message.map(|one| (&*one.subject, one.header("Strata-Targets"))).collect();
        assert_eq!(named, [("strata.Device.d", ""), ("strata.Device.topic.r1", "a,b,c")].into());
    }
    wait_until("there is room again", || send(server.url(), "id==b", "prefer: wait=30\r\n", "1").1["delivered"] == 1);
    assert_eq!(counters(server.url())["multicast"]["failed"], 0);
    server.stop().unwrap();
    // Nothing of it is left: of what was stored again, nothing is sent again.
    let before = stored(broker.address());
    let server = begin();
    wait_until("it is connected", || send(server.url(), "id==d", "prefer: wait=30\r\n", "1").1["delivered"] == 1);
    assert_eq!(stored(broker.address()), before + 1);
    server.stop().unwrap();
}

#[test]
fn what_a_broker_does_not_take_for_now_is_kept_and_holds_up_nothing_else() {
    let Some(mut broker) = jetstream("") else { return };
    broker.kill();
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = (broker.port(), super::address(&broker, ""));
    drop(broker);
    let at_its_port = |configuration: &str| {
        let kind = Kind::Nats { jetstream: true, configuration: configuration.to_owned() };
        Broker::start(kind, Some(port)).unwrap()
    };
    let begin = || {
        start(folder.path(), |config| {
            config.multicast.nats_servers = vec![address.clone()];
            config.multicast.jetstream = true;
        })
    };
    let server = begin();
    register(server.url(), "a", "r");
    let long = format!("\"{}\"", "x".repeat(20_000));
    let (_, told) = send(server.url(), "", "prefer: wait=0\r\n", &long);
    assert_eq!(numbers(&told), [1, 0, 0, 1, 0], "{told}");
    let is_delivered = |server: &Server| send(server.url(), "", "prefer: wait=30\r\n", "1").1["delivered"] == 1;
    // From memory, and as it was stored.
    let strict = at_its_port("max_payload: 10000");
    wait_until("others are sent", || is_delivered(&server));
    server.stop().unwrap();
    let server = begin();
    wait_until("others are sent", || is_delivered(&server));
    assert!(read_all(strict.address()).iter().all(|message| message.body == "1"));
    drop(strict);
    let broker = at_its_port("");
    wait_until("it is in the stream", || {
        stored(broker.address()) > 0 && read_all(broker.address()).iter().any(|message| message.body == long)
    });
    server.stop().unwrap();
}

/// What senders were told: of each acknowledged message its id and the number of its targets, by the text that is its own.
type Told = Arc<Mutex<BTreeMap<String, (String, u64)>>>;

/// Sends one message after the other until it is over, whoever answers, but no more than are wanted.
fn load(url: &Arc<Mutex<String>>, sender: usize, is_over: &AtomicBool, wanted: &AtomicUsize, told: &Told) {
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if told.lock().unwrap().len() >= wanted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let (url, body) = (url.lock().unwrap().clone(), format!("\"{sender} {number}\""));
        match try_to_send(&url, number % 3, &body) {
            Ok(Some(response)) => {
                let id = response["id"].as_str().unwrap().to_owned();
                told.lock().unwrap().insert(body, (id, response["targets"].as_u64().unwrap()));
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Sends a message to a room of a server that may be killed meanwhile; returns what it answers if it takes it.
fn try_to_send(url: &str, room: usize, body: &str) -> io::Result<Option<Value>> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap())?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "POST /Device/multicast?room==r{room} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         prefer: wait=0\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let told = response.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1.1 200"));
    Ok(told.and_then(|(_, told)| serde_json::from_str(told).ok()))
}

/// Kills the server and the broker in turns while messages are sent; then every acknowledged one is in the stream, once a target.
fn rounds_of_kills(rounds: usize) {
    let Some(mut broker) = jetstream("") else { return };
    let folder = tempfile::tempdir().unwrap();
    let servers = broker.url();
    let begin = || Running::start_with(folder.path(), &["--nats-servers", &servers, "--jetstream"]);
    let mut server = begin();
    register_all(
        &server.url,
        (0..90).map(|number| json!({"id": format!("d{number}"), "room": format!("r{}", number % 3)})),
    );
    let (url, told, is_over) =
        (Arc::new(Mutex::new(server.url.clone())), Told::default(), Arc::new(AtomicBool::new(false)));
    let wanted = Arc::new(AtomicUsize::new(0));
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let (url, told, is_over) = (Arc::clone(&url), Arc::clone(&told), Arc::clone(&is_over));
            let wanted = Arc::clone(&wanted);
            std::thread::spawn(move || load(&url, sender, &is_over, &wanted, &told))
        })
        .collect();
    // The stream takes far longer for one than the server does: without a bound, what it has to take would grow from round to round.
    let more_are_acknowledged = || {
        let enough = told.lock().unwrap().len() + 50;
        wanted.store(enough + 10, Ordering::Relaxed);
        wait_until("more are acknowledged", || told.lock().unwrap().len() >= enough);
    };
    for round in 0..rounds {
        more_are_acknowledged();
        if round % 2 == 0 {
            drop(server);
            server = begin();
            url.lock().unwrap().clone_from(&server.url);
        } else {
            broker.kill();
            more_are_acknowledged();
            broker.start_again().unwrap();
        }
    }
    is_over.store(true, Ordering::Relaxed);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let expected: BTreeMap<_, _> = std::mem::take(&mut *told.lock().unwrap());
    let mut counted = Counted::new();
    wait_until("all are in the stream", || {
        counted = count(broker.address());
        expected.iter().all(|(body, (id, targets))| found(&counted, body, id) >= *targets as usize)
    });
    // What a killed server has stored and nobody was told of comes, too, perhaps behind it.
    let mut before = 0;
    wait_until("nothing more comes", || {
        send(&server.url, "id==d0", "prefer: wait=30\r\n", "\"last\"");
        let now = stored(broker.address());
        std::mem::replace(&mut before, now) + 1 == now
    });
    counted = count(broker.address());
    for (body, targets) in counted.iter().filter(|(body, _)| *body != "\"last\"") {
        assert!(targets.values().all(|times| *times == 1), "{body} is there twice: {targets:?}");
    }
    for (body, (id, targets)) in &expected {
        assert_eq!(found(&counted, body, id), *targets as usize, "{body}");
    }
    let total: usize = counted.values().map(BTreeMap::len).sum();
    println!("{rounds} rounds, {} messages acknowledged, {total} in the stream", expected.len());
}

/// How often each message is there: by its body, then by its id and subject.
type Counted = BTreeMap<String, BTreeMap<String, usize>>;

fn count(address: SocketAddr) -> Counted {
    let mut counted = Counted::new();
    for message in read_all(address) {
        let key = format!("{} {}", message.header("Strata-Message"), message.subject);
        *counted.entry(message.body).or_default().entry(key).or_default() += 1;
    }
    counted
}

/// The number of targets whose message with a body and an id is there.
fn found(counted: &Counted, body: &str, id: &str) -> usize {
    counted.get(body).map_or(0, |found| found.keys().filter(|key| key.starts_with(id)).count())
}

#[test]
fn kills_of_either_side_lose_and_double_nothing() {
    rounds_of_kills(20);
}

#[test]
#[ignore = "takes a minute: 200 rounds"]
fn many_kills_of_either_side_lose_and_double_nothing() {
    rounds_of_kills(200);
}
