//! Multicasts: registrations found and listed, messages stored and put into the queues of subscribers, and handed out over TCP.
//!
//! `enumerate` lists the registrations of one room as a JSON array, against a raw iterator over the same entries and one multi-get of the
//! same records. `send` finds the targets of a message, stores it, and takes it out of the queue of each; the floor
//! iterates over the entries of its targets, puts the same bytes, and for each target looks up a queue, pushes a shared buffer into it and
//! takes it out, each under a mutex. The log is read by a thread of its own, which pauses after each piece, so the clock of both is the CPU time of
//! the process. `deliver` is the same from a request over TCP to sockets, in CPU time of the server, against bare hyper that writes the
//! same bytes to as many open answers, and answers once all have taken them. Client and server share the process, so the server's cost is
//! that of all its threads but the client's. Built with the feature `nats`, the layer has the same over a real NATS server, too, in elapsed
//! time until the last subscriber has the message, against a bare client that publishes the same.

mod floor;
mod prepared;
mod served;

#[cfg(feature = "nats")]
#[allow(dead_code, reason = "the load tool does more with brokers")]
#[path = "../load/src/brokers.rs"]
mod brokers;
#[cfg(feature = "nats")]
#[path = "multicast/over_nats.rs"]
mod over_nats;
#[path = "multicast/over_tcp.rs"]
mod over_tcp;
#[path = "multicast/registry.rs"]
mod registry;

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use floor::{Keys, Raw};
use parking_lot::Mutex;
use prepared::{Ours, SST, options, soft};
use registry::{Devices, MOST, message};
use rustix::time::{ClockId, clock_gettime};
use strata::feed::{Feed, Next, Standing, Subscription, Topic};
use strata::handlers::write_event;
use strata::multicast::{Multicast, Options, Sending};
use strata::query::{Limits, Query};
use strata_harness::{Depth, Facts, State, Suite, Unit, suite};

/// Targets of a message; those of fewer are among those of more.
const FAN_OUTS: [u64; 3] = [1000, 100, 3000];

/// Deliveries of one operation in process, of as many messages as that takes: what the reader of the log costs between two pieces is theirs
/// together.
const DELIVERIES: u64 = 3000;

fn main() {
    suite("multicast", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        let devices = Devices::of(suite.scale());
        for targets in FAN_OUTS {
            sends(suite, devices, targets);
            over_tcp::delivers(suite, devices, targets);
        }
        #[cfg(feature = "nats")]
        over_nats::delivers(suite, devices, 3000);
        enumerates(suite, devices);
    });
}

/// CPU time of all threads of the process.
fn process_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// The depth of a run in which a fan-out takes turns with its floor.
fn depth(targets: u64) -> Depth {
    if targets == 1000 { Depth::Default } else { Depth::Full }
}

fn sends(suite: &mut Suite, devices: Devices, targets: u64) {
    let case = &format!("{targets}_targets");
    let (reached, messages) = (devices.reached(targets), DELIVERIES / targets);
    let facts = |op: &str| {
        let facts = Facts::new(op).data(devices.described()).state(format!("{SST}; messages, memtable"));
        let facts = facts.durability(soft()).indexes(2).unit(Unit::Elements, messages * reached).cpu_clock();
        facts.changes_store(16, 400)
    };
    let each = if messages > 1 { format!("{messages} times ") } else { String::new() };
    let about = facts(&format!(
        "{each}finds {reached} of {} registrations by an index and stores a message to them, then takes all out of their queues",
        devices.registered
    ));
    let about = about.floor("floor", 0.70, 0.90).depth(depth(targets));
    let setup = || Listening::to(devices, messages * reached);
    suite.row("send", "strata", case, about, setup, |listening: Arc<Listening>| {
        let (subscriptions, conditions) =
            (std::mem::take(&mut *listening.subscriptions.lock()), devices.up_to(reached));
        let (mut targets, idle): (Vec<_>, Vec<_>) = subscriptions.into_iter().partition(|(rank, _)| *rank < reached);
        move |index| {
            let _ = &idle;
            let sent = (0..messages)
                .map(|_| registry::send(&listening.multicast, &listening.registry.database, &conditions, index));
            let sent = sent.collect();
            take_all(sent, &mut targets)
        }
    });
    let about = facts(&format!(
        "{each}iterates over the entries of {reached} targets, puts the same bytes, and for each target looks up a queue and pushes a shared \
         buffer into it, then takes all out"
    ));
    suite.row(
        "send",
        "floor",
        case,
        about,
        || Queues::of(devices, reached),
        |queues: Arc<Queues>| {
            let (mut keys, entries, table) = (Keys::default(), devices.entries_up_to(reached), devices.table().id);
            let stored = devices.stored_message(&queues.targets);
            move |index| {
                for number in 0..messages {
                    queues.raw.matches(&entries.0, &entries.1, table, MOST, &mut keys);
                    assert_eq!(keys.len(), queues.targets.len(), "the targets are registered");
                    queues.send(&stored, messages * index + number);
                }
                (0..messages).map(|_| queues.take()).sum()
            }
        },
    );
}

/// Every device is registered and has a subscriber, in process.
struct Listening {
    /// By the rank of their devices, in the order of ids: each message reaches its targets in this order.
    subscriptions: Mutex<Vec<(u64, Subscription)>>,
    /// Of one operation.
    deliveries: u64,
    multicast: Multicast,
    // Closed after all subscriptions.
    registry: Ours,
}

impl State for Listening {
    fn settle(&self) {
        self.registry.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.registry.counters()
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.registry.thread_counters()
    }

    fn verify(&self, operations: u64) {
        let (sent, deliveries) = (self.multicast.counters(), operations * self.deliveries);
        assert_eq!((sent.targets, sent.delivered), (deliveries, deliveries));
    }

    fn cpu(&self) -> Option<Duration> {
        Some(process_cpu())
    }
}

impl Listening {
    fn to(devices: Devices, deliveries: u64) -> Self {
        let registry = devices.registry();
        let options = strata::feed::Options { keep_alive_ms: 3_600_000, ..strata::feed::Options::default() };
        let feed = Feed::new(registry.database.clone(), options, write_event);
        let table = registry.database.table("Device").expect("the table of the schema");
        let subscribe = |rank: &u64| {
            let topic = Topic::record(table, &registry::id(*rank));
            (*rank, feed.subscribe(topic).expect("a place"))
        };
        let mut subscriptions: Vec<_> = devices.by_id().iter().map(subscribe).collect();
        for (_, subscription) in &mut subscriptions {
            // The start position, which is sent once the end of the log is found.
            drop(taken(subscription));
        }
        let multicast = Multicast::new(feed, Options::default());
        Self { subscriptions: Mutex::new(subscriptions), deliveries, multicast, registry }
    }
}

/// Takes messages out of the queues of all their targets; returns to how many they were delivered.
fn take_all(sent: Vec<Sending>, targets: &mut [(u64, Subscription)]) -> u64 {
    let Some(((_, last), others)) = targets.split_last_mut() else { return 0 };
    // The last of all: when it has a message, all others have.
    sent.iter().for_each(|_| assert!(taken(last).len() > 100));
    for (_, subscription) in others {
        for _ in &sent {
            match subscription.next(|| {}) {
                Next::Text(text) => drop(black_box(text)),
                other => panic!("{other:?}"),
            }
        }
    }
    let delivered = |mut sending: Sending| {
        sending.standings().filter(|(_, standing)| *standing == Standing::Delivered).count() as u64
    };
    sent.into_iter().map(delivered).sum()
}

/// Waits for what a subscriber is sent next.
fn taken(subscription: &mut Subscription) -> Bytes {
    let waiting = thread::current();
    loop {
        let waiting = waiting.clone();
        match subscription.next(move || waiting.unpark()) {
            Next::Text(text) => return text,
            Next::Pending => thread::park(),
            other => panic!("{other:?}"),
        }
    }
}

/// The same registrations raw, and a queue for each.
struct Queues {
    raw: Raw,
    /// The ids of those who are sent a message, ascending.
    targets: Vec<String>,
    by_id: HashMap<String, Arc<Mutex<VecDeque<Bytes>>>>,
    /// Those of the targets.
    in_order: Vec<Arc<Mutex<VecDeque<Bytes>>>>,
}

impl State for Queues {
    fn settle(&self) {
        self.raw.settle();
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.raw.thread_counters()
    }

    fn verify(&self, operations: u64) {
        let taken = self.raw.database().latest_sequence_number();
        assert!(taken >= operations, "{operations} operations have put {taken} keys");
    }

    fn cpu(&self) -> Option<Duration> {
        Some(process_cpu())
    }
}

impl Queues {
    fn of(devices: Devices, reached: u64) -> Self {
        let targets: Vec<_> = devices.by_id().into_iter().filter(|rank| *rank < reached).map(registry::id).collect();
        let by_id = (0..devices.registered).map(|rank| (registry::id(rank), Arc::<Mutex<_>>::default()));
        let by_id: HashMap<_, _> = by_id.collect();
        let in_order = targets.iter().map(|id| Arc::clone(&by_id[id])).collect();
        Self { raw: devices.raw(), targets, by_id, in_order }
    }

    fn send(&self, stored: &[u8], index: u64) {
        let key = [&u32::MAX.to_be_bytes()[..], &index.to_be_bytes()].concat();
        self.raw.put_record(&key, stored);
        let text = Bytes::from(message(index));
        for id in &self.targets {
            self.by_id[id.as_str()].lock().push_back(text.clone());
        }
    }

    /// Takes one message out of the queue of each target; returns how many there were.
    fn take(&self) -> u64 {
        let taken = |queue: &&Arc<Mutex<VecDeque<Bytes>>>| {
            queue.lock().pop_front().is_some_and(|text| !black_box(text).is_empty())
        };
        self.in_order.iter().filter(taken).count() as u64
    }
}

fn enumerates(suite: &mut Suite, devices: Devices) {
    let room = devices.room();
    let case = "1000_records";
    let facts = |op: String| Facts::new(op).data(devices.described()).state(SST).indexes(2).unit(Unit::Records, room);
    let about = facts(format!("parses a query for a room, and lists its {room} registrations as a JSON array"));
    let about = about.floor("floor", 0.85, 0.93);
    suite.row(
        "enumerate",
        "strata",
        case,
        about,
        || devices.registry(),
        |ours: Arc<Ours>| {
            let mut answer = Vec::new();
            move |index| {
                let (database, text) = (&ours.database, registry::query_of_room(index));
                let table = database.table("Device").expect("the table of the schema");
                let query = Query::parse(database.schema(), table, &text, &Limits::in_url(MOST));
                answer.clear();
                let mut found = 0;
                let listed = query.expect("a query of the grammar").run(database, table, |record| {
                    answer.push(if found == 0 { b'[' } else { b',' });
                    answer.extend_from_slice(record.json());
                    found += 1;
                    Ok(())
                });
                listed.expect("a healthy store");
                answer.push(b']');
                black_box(&answer);
                found
            }
        },
    );
    let about = facts(format!(
        "iterates over the {room} entries of a room, then gets their records in one call and copies them out"
    ));
    suite.row(
        "enumerate",
        "floor",
        case,
        about,
        || devices.raw(),
        |raw: Arc<Raw>| {
            let (ranges, mut keys, mut answer) = (devices.entries_of_rooms(), Keys::default(), Vec::new());
            let table = devices.table().id;
            move |index| {
                let (from, end) = &ranges[index as usize % ranges.len()];
                raw.matches(from, end, table, MOST, &mut keys);
                let mut keys = keys.slices();
                keys.sort_unstable();
                answer.clear();
                raw.multi_get(&keys, &mut answer);
                if black_box(&answer).is_empty() { 0 } else { keys.len() as u64 }
            }
        },
    );
}
