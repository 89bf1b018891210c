//! Messages over a real NATS server until the last subscriber has its own, beside a bare client.
//!
//! The floor knows neither registrations nor receipts: it writes all publications as one buffer with a PING behind them, on one connection.
//! Both sides have the same subscribers, who share connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use strata::feed::{self, Feed, Standing};
use strata::handlers::write_event;
use strata::multicast::{Address, Multicast, Options, Sending};
use strata::transaction::Database;
use strata_harness::{Depth, Facts, State, Suite, Unit};

use crate::brokers::{Broker, Kind, nats_program};
use crate::prepared::{Ours, SST, soft};
use crate::registry::{self, Devices, message};

/// Connections that the subscribers share.
const CONNECTIONS: usize = 30;

/// The timeout for the server to connect to the broker.
const TO_CONNECT: Duration = Duration::from_secs(10);

pub fn delivers(suite: &mut Suite, devices: Devices, targets: u64) {
    if let Err(reason) = nats_program() {
        eprintln!("multicast/deliver over NATS is left out: {reason}");
        return;
    }
    let case = &format!("{targets}_targets_nats");
    let reached = devices.reached(targets);
    let facts = |op: String| {
        let facts = Facts::new(op).data(devices.described()).state(format!("{SST}; messages, memtable"));
        facts.durability(soft()).indexes(2).unit(Unit::Elements, reached).depth(Depth::Full)
    };
    let about = facts(format!(
        "finds {reached} of {} registrations, stores a message to them and publishes it over NATS, until all {reached} subscribers (on \
         {CONNECTIONS} connections) have it and the receipt is complete",
        devices.registered
    ));
    let about = about.floor("floor", 0.80, 0.95);
    let setup = || Publishing::start(devices, reached);
    suite.row("deliver", "strata", case, about, setup, |publishing: Arc<Publishing>| {
        let subscribers = publishing.bare.subscribers.lock().take();
        let (mut subscribers, conditions) = (subscribers.expect("one thread has them"), devices.up_to(reached));
        move |index| {
            let sending = registry::send(&publishing.multicast, &publishing.registry.database, &conditions, index);
            let received = subscribers.take(&message(index));
            let delivered = standings(sending).iter().filter(|standing| **standing == Standing::Delivered).count();
            received.min(delivered as u64)
        }
    });
    let about = facts(format!(
        "writes {reached} publications of the same bytes and a PING to NATS as one buffer, until all {reached} subscribers have them and the \
         PONG is there: a bare client"
    ));
    let setup = || Bare::start(devices, reached);
    suite.row("deliver", "floor", case, about, setup, |bare: Arc<Bare>| {
        let subscribers = bare.subscribers.lock().take();
        let (mut subscribers, mut publisher) =
            (subscribers.expect("one thread has them"), Connection::open(&bare.broker));
        let (subjects, mut buffer) = (subjects(devices, reached), Vec::new());
        move |index| {
            let text = message(index);
            buffer.clear();
            for subject in &subjects {
                write!(buffer, "PUB {subject} {}\r\n{text}\r\n", text.len()).expect("memory takes it");
            }
            buffer.extend_from_slice(b"PING\r\n");
            publisher.write(&buffer);
            let received = subscribers.take(&text);
            publisher.until_pong();
            received
        }
    });
}

/// A broker, and the subscribers of the targets until a worker has them.
struct Bare {
    subscribers: Mutex<Option<Subscribers>>,
    broker: Broker,
}

impl State for Bare {}

impl Bare {
    fn start(devices: Devices, reached: u64) -> Self {
        let broker = started();
        Self { subscribers: Mutex::new(Some(Subscribers::of(&broker, &subjects(devices, reached)))), broker }
    }
}

/// A registry whose messages go over such a broker.
struct Publishing {
    multicast: Multicast,
    // Closed after the connections to the broker.
    bare: Bare,
    registry: Ours,
}

impl State for Publishing {
    fn settle(&self) {
        self.registry.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.registry.counters()
    }
}

impl Publishing {
    fn start(devices: Devices, reached: u64) -> Self {
        let (registry, broker) = (devices.registry(), started());
        let feed = Feed::new(registry.database.clone(), feed::Options::default(), write_event);
        let address = Address::try_from(broker.url()).expect("the URL of a broker");
        let options = Options { nats_servers: vec![address], ..Options::default() };
        let multicast = Multicast::start(feed, options).expect("a thread for NATS");
        until_connected(&multicast, &registry.database, &devices.up_to(reached));
        let subscribers = Mutex::new(Some(Subscribers::of(&broker, &subjects(devices, reached))));
        Self { multicast, bare: Bare { subscribers, broker }, registry }
    }
}

/// Sends messages, to nobody yet, until all connections to the broker take them.
fn until_connected(multicast: &Multicast, database: &Database, conditions: &str) {
    let began = Instant::now();
    let sent = || standings(registry::send(multicast, database, conditions, 0));
    while sent().contains(&Standing::Failed) {
        assert!(began.elapsed() < TO_CONNECT, "the broker is not connected");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until nobody is left who could still take a message; returns the states of its targets.
fn standings(mut sending: Sending) -> Vec<Standing> {
    let (done, waiting) = mpsc::channel();
    sending.when_done(move || {
        // Fails only if who waits has ended with a panic.
        let _ = done.send(());
    });
    waiting.recv().expect("it is called once");
    sending.standings().map(|(_, standing)| standing).collect()
}

fn started() -> Broker {
    let kind = Kind::Nats { jetstream: false, configuration: String::new() };
    Broker::start(kind, None).unwrap_or_else(|reason| panic!("{reason}"))
}

/// The subjects of the targets, ascending by id.
fn subjects(devices: Devices, reached: u64) -> Vec<String> {
    let targets = devices.by_id().into_iter().filter(|rank| *rank < reached);
    targets.map(|rank| format!("strata.Device.{}", registry::id(rank))).collect()
}

/// All subscribers, in turn on one of the connections.
struct Subscribers(Vec<(Connection, usize)>);

impl Subscribers {
    fn of(broker: &Broker, subjects: &[String]) -> Self {
        let share = |number: usize| {
            let mut connection = Connection::open(broker);
            let own = subjects.iter().skip(number).step_by(CONNECTIONS);
            let lines: String = own.clone().zip(1..).map(|(subject, id)| format!("SUB {subject} {id}\r\n")).collect();
            connection.write(format!("{lines}PING\r\n").as_bytes());
            connection.until_pong();
            (connection, own.len())
        };
        Self((0..CONNECTIONS).map(share).collect())
    }

    /// Waits until each has a message with this text; returns to how many it came.
    fn take(&mut self, text: &str) -> u64 {
        for (connection, subscribers) in &mut self.0 {
            (0..*subscribers).for_each(|_| connection.take(text.as_bytes()));
        }
        self.0.iter().map(|(_, subscribers)| *subscribers as u64).sum()
    }
}

/// A connection to a broker, which blocks.
struct Connection {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
    message: Vec<u8>,
}

impl Connection {
    fn open(broker: &Broker) -> Self {
        let stream = TcpStream::connect(broker.address()).expect("the broker listens");
        stream.set_nodelay(true).expect("an open socket");
        let stream = BufReader::with_capacity(64 << 10, stream);
        let mut connection = Self { stream, line: Vec::new(), message: Vec::new() };
        connection.write(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nPING\r\n");
        connection.until_pong();
        connection
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the broker reads");
    }

    /// Reads the next line that is no PING, which it answers.
    fn next_line(&mut self) -> &str {
        loop {
            self.line.clear();
            self.stream.read_until(b'\n', &mut self.line).expect("the broker writes");
            if self.line != b"PING\r\n" {
                break;
            }
            self.write(b"PONG\r\n");
        }
        str::from_utf8(&self.line).expect("the protocol is text").trim_end()
    }

    fn until_pong(&mut self) {
        while self.next_line() != "PONG" {
            assert!(self.line.starts_with(b"INFO"), "{}", String::from_utf8_lossy(&self.line));
        }
    }

    /// Reads a message, which is this text.
    fn take(&mut self, text: &[u8]) {
        let line = self.next_line();
        // Verb, subject, subscription, and one or two lengths, the last of all of it.
        let length = line.rsplit(' ').next().filter(|_| line.starts_with("MSG ") || line.starts_with("HMSG "));
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        self.message.resize(length + 2, 0);
        self.stream.read_exact(&mut self.message).expect("the broker writes");
        assert!(self.message[..length].ends_with(text), "a message that is another one");
    }
}
