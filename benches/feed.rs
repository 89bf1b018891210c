//! Change feeds: the cost of reading the log, and the cost that a subscriber adds to a write.
//!
//! The reader is a subscriber that resumes: a thousand batches of one record of about 1 KB and two index entries, from the log to the text
//! of events, in pieces. Its floor iterates over the same batches with the engine's own iterator and copies the records into pieces. A
//! write pays for subscribers by waking their reader, which is on the same processor here: its work is part of the row.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use floor::{Promise, Raw};
use prepared::{Ours, POOL, WRITES, WRITTEN, bodies, described, options, records, soft};
use rust_rocksdb as rocksdb;
use strata::feed::{EventId, Feed, Next, Options, Subscription, Topic};
use strata::handlers::{PIECE_BYTES, write_event};
use strata_harness::{Facts, OrRefused, State, Suite, Unit, suite};

/// Records that one operation reads.
const READ: u64 = 1000;

fn main() {
    suite("feed", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        read(suite);
        creates(suite);
    });
}

/// A store and its feed.
struct Fed {
    ours: Ours,
    feed: Feed,
    /// Keeps the reader running, so that operations do not restart it.
    subscription: Option<Subscription>,
    begin: Option<EventId>,
}

impl State for Fed {
    fn settle(&self) {
        self.ours.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.counters()
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.thread_counters()
    }

    fn verify(&self, operations: u64) {
        self.ours.verify(operations);
    }
}

impl Fed {
    /// Without subscribers.
    fn new(ours: Ours) -> Self {
        let feed = Feed::new(ours.database.clone(), Options::default(), write_event);
        Self { ours, feed, subscription: None, begin: None }
    }

    /// With a subscriber to a record that is never written.
    fn watched(ours: Ours) -> Self {
        let mut fed = Self::new(ours);
        let topic = Topic::record(fed.ours.product(), "nobody");
        let mut subscription = fed.feed.subscribe(topic).expect("a place");
        // The start position is sent once the end of the log is found.
        let text = loop {
            match subscription.next(|| {}) {
                Next::Text(text) => break text,
                _ => std::thread::yield_now(),
            }
        };
        let text = std::str::from_utf8(&text).expect("events are text");
        let id = text.split_once("id: ").map(|(_, id)| id.trim_end()).expect("an id");
        fed.begin = Some(id.parse().expect("an id"));
        fed.subscription = Some(subscription);
        fed
    }

    /// The same with records in the log after the start position.
    fn written(ours: Ours) -> Self {
        let fed = Self::watched(ours);
        for body in bodies().iter().cycle().take(READ as usize) {
            fed.ours.database.create(fed.ours.product(), body).or_refused();
        }
        fed
    }

    /// Reads all of them as a resuming subscriber; returns their number.
    fn read(&self) -> u64 {
        let topic = Topic::table(self.ours.product());
        let mut subscription = self.feed.resume(topic, self.begin.expect("it has begun")).expect("the log is kept");
        let before = self.feed.counters().events;
        loop {
            match subscription.next(|| {}) {
                Next::Text(text) => drop(black_box(text)),
                Next::Behind => subscription.catch_up(),
                Next::Pending => return self.feed.counters().events - before,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn read(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op| Facts::new(op).data(described(n)).state(WRITTEN).indexes(2).unit(Unit::Records, READ);
    let about = facts("reads a thousand creates from the log and formats their events").floor("floor", 0.75, 1.0);
    let setup = || Fed::written(Ours::copy(2, n));
    suite.row("read", "strata", "1000_creates", about, setup, |fed: Arc<Fed>| move |_| fed.read());
    let about = facts("reads a thousand creates from the log with the engine's iterator and copies their records out");
    let setup = || {
        let raw = Arc::new(Raw::copy(2, n));
        let begin = raw.database().latest_sequence_number();
        let created: u64 = (0..READ).map(verbs::raw_create(Arc::clone(&raw), 2)).sum();
        assert_eq!(created, READ);
        Logged { raw: Arc::into_inner(raw).expect("nobody else has it"), begin }
    };
    suite.row("read", "floor", "1000_creates", about, setup, |logged: Arc<Logged>| move |_| logged.read());
}

/// A raw store, and the log position to read from.
struct Logged {
    raw: Raw,
    begin: u64,
}

impl State for Logged {}

impl Logged {
    fn read(&self) -> u64 {
        let family = rocksdb::AsColumnFamilyRef::id(self.raw.records());
        let mut puts = Puts { family, count: 0, copied: Vec::new() };
        let batches = self.raw.database().get_updates_since(self.begin).expect("the log is kept");
        for batch in batches {
            batch.expect("a healthy log").1.iterate_cf(&mut puts);
        }
        puts.count
    }
}

/// Counts the records that are put, and copies them into pieces.
struct Puts {
    family: u32,
    count: u64,
    copied: Vec<u8>,
}

impl rocksdb::WriteBatchIteratorCf for Puts {
    fn put_cf(&mut self, family: u32, key: &[u8], value: &[u8]) {
        if family == self.family {
            self.copied.extend_from_slice(key);
            self.copied.extend_from_slice(value);
            self.count += 1;
        }
        if self.copied.len() > PIECE_BYTES {
            black_box(&self.copied);
            self.copied.clear();
        }
    }

    fn delete_cf(&mut self, _: u32, _: &[u8]) {}

    fn merge_cf(&mut self, _: u32, _: &[u8], _: &[u8]) {}
}

fn creates(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op: &str| {
        let facts = Facts::new(op).data(described(n)).state(WRITTEN).durability(soft()).indexes(0);
        facts.unit(Unit::Records, 1).changes_store(WRITES, None)
    };
    let create = |fed: Arc<Fed>| {
        let bodies = bodies();
        fed.ours.promise(Promise::CREATE);
        move |index: u64| {
            fed.ours.database.create(fed.ours.product(), &bodies[(index % POOL) as usize]).or_refused();
            1
        }
    };
    let about = facts("creates a record from a JSON body, without subscribers");
    suite.row("create", "strata", "0_subscribers", about, || Fed::new(Ours::copy(0, n)), create);
    let about = facts("creates a record from a JSON body, with a subscriber to another record");
    let about = about.against("create/strata/0_subscribers");
    suite.row("create", "strata", "1_subscriber", about, || Fed::watched(Ours::copy(0, n)), create);
}
