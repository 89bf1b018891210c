//! Stores with streams, Strata's and raw ones, and bodies of events. A module of the benches, not a target.
#![allow(dead_code, reason = "each target uses what its rows need")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rust_rocksdb as rocksdb;
use strata::error::Error;
use strata::schema::{Schema, Stream};
use strata::streams::{self, Event, Start, Streams, WaitPlace};
use strata::transaction::{Clock, Database};
use strata_harness::{OrRefused, State, temporary_directory};
use tempfile::TempDir;

use crate::floor::{self, Raw};
use crate::prepared::{self, options};

/// Bytes of the payload where nothing else is said.
pub const PAYLOAD_BYTES: usize = 256;

/// Events that a read returns.
pub const PAGE: usize = 100;

/// An answer ends at this many bytes by default.
pub const ANSWER_BYTES: usize = 1 << 20;

pub const WRITTEN: &str = "what is written, memtable";

/// An open store with streams.
pub struct Ours {
    pub store: prepared::Ours,
    pub streams: Streams,
    /// Those who wait for events.
    pub waiting: Vec<WaitPlace>,
    /// Events that each operation appends.
    pub promised: AtomicU64,
    /// True if the store is so large that only the events are counted at its end.
    is_large: bool,
}

impl Ours {
    pub fn fresh(schema: &str) -> Self {
        Self::open(temporary_directory(), schema)
    }

    pub fn open(directory: TempDir, schema: &str) -> Self {
        let store = prepared::Ours::open(directory, Schema::parse(schema).expect("a schema"));
        let streams = Streams::open(&store.database).expect("a healthy store");
        Self { store, streams, waiting: Vec::new(), promised: AtomicU64::new(0), is_large: false }
    }

    /// A store with so many events in one partition, appended in lists of so many, in sorted files and in the cache.
    pub fn with_events(schema: &str, events: u64, each: u64) -> Self {
        let ours = Self::fresh(schema);
        let payload = payload(PAYLOAD_BYTES);
        let list: Vec<_> = (0..each).map(|_| Event { payload: &payload, ..Event::default() }).collect();
        for _ in 0..events / each {
            prepared_in_time(|| ours.streams.append_all(&ours.store.database, ours.stream(), &list).map(drop));
        }
        ours.store.database.store().flush().expect("a healthy store");
        let (mut next, mut answer) = (0, Vec::new());
        while next < events {
            next += ours.read(next, events as usize, &mut answer);
        }
        ours
    }

    /// A stream with an event for each of so many idempotency keys, in sorted files. Their window is over, and no other has begun: each of
    /// the next keys is looked for in both.
    pub fn with_keys(number: u64) -> Self {
        const LISTED: u64 = 1000;
        // Of a year: what is prepared does not grow old.
        let schema = "type Click @stream(idempotency: 31536000)";
        let filled = prepared::made(&format!("events-with-{number}-keys"), |directory| {
            let database = Database::open(directory, Schema::parse(schema).expect("a schema"), &options());
            let database = database.expect("a store to prepare");
            let (streams, stream) = (Streams::open(&database).expect("a healthy store"), &database.schema().streams[0]);
            let before = database.now() - 1_200_000 * stream.idempotency as i64;
            let before = database.with_clock(&Clock::standing_at(before));
            for first in (0..number).step_by(LISTED as usize) {
                let event = |key: u64| Event {
                    payload: "1",
                    idempotency_key: Some(format!("before {key}").into()),
                    ..Event::default()
                };
                let list: Vec<_> = (first..first + LISTED).map(event).collect();
                streams.append_all(&before, stream, &list).or_refused();
            }
            database.store().compact().expect("a store that settles");
        });
        Self { is_large: true, ..Self::open(prepared::copy_of(&filled), schema) }
    }

    /// A stream of 16 partitions; so many readers wait in those behind the first.
    pub fn with_readers(number: u64) -> Self {
        let mut ours = Self::fresh("type Click @stream(partitions: 16)");
        for number in 0..number {
            let partition = 1 + (number % 15) as u32;
            let place = ours.streams.wait(ours.stream(), &[(partition, 0)], || {});
            ours.waiting.extend(place.expect("a healthy store"));
        }
        ours
    }

    pub fn stream(&self) -> &Stream {
        self.store.database.schema().stream("Click").expect("the stream of the schema")
    }

    /// Reads so many events from an offset; returns how many there were.
    pub fn read(&self, from: u64, most: usize, answer: &mut Vec<u8>) -> u64 {
        answer.clear();
        let limits = (most, ANSWER_BYTES);
        let page = self.streams.read(&self.store.database, self.stream(), 0, Start::Offset(from), limits, answer);
        let events = page.expect("a healthy store").events as u64;
        black_box(answer);
        events
    }

    pub fn events(&self) -> u64 {
        let ends = (0..self.stream().partitions).map(|partition| self.streams.watermarks(self.stream(), partition));
        ends.map(|watermarks| watermarks.expect("a partition").high).sum()
    }

    /// The same store for raw RocksDB, with the chunk of one event.
    pub fn into_floor(self, body: &str) -> Floor {
        let event = Event::parse(self.stream(), body.as_bytes()).expect("an event");
        let appended = self.streams.append(&self.store.database, self.stream(), &event).or_refused();
        let key = chunk_key(self.stream().id, appended.partition, appended.offset);
        drop((self.waiting, self.streams));
        let raw = Raw::open(self.store.into_directory(), options().cache_bytes);
        let stored = raw.database().get_pinned_cf_opt(&raw.events(), key, &raw.read).expect("a healthy store");
        let stored = stored.expect("the chunk").to_vec();
        raw.warm_events();
        Floor { raw, stored, promised: AtomicU64::new(0) }
    }
}

/// A store of Strata's, opened without it.
pub struct Floor {
    pub raw: Raw,
    /// The chunk that one append has stored.
    pub stored: Vec<u8>,
    /// Keys that each operation puts.
    pub promised: AtomicU64,
}

impl State for Floor {
    fn settle(&self) {
        self.raw.settle();
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        floor::thread_counters()
    }

    fn verify(&self, operations: u64) {
        let taken = self.raw.database().latest_sequence_number();
        assert!(taken >= operations * self.promised.load(Relaxed), "{operations} operations have put {taken} keys");
    }
}

/// Retries until the memtables have room: outside every clock.
fn prepared_in_time(mut attempt: impl FnMut() -> strata::error::Result<()>) {
    while let Err(error) = attempt() {
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

impl State for Ours {
    fn settle(&self) {
        self.store.database.store().settle().expect("a healthy store");
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        floor::thread_counters()
    }

    fn verify(&self, operations: u64) {
        let promised = operations * self.promised.load(Relaxed);
        assert!(self.events() >= promised, "of {promised} events {} are there", self.events());
        if self.is_large {
            return;
        }
        assert_eq!(streams::disagreements(&self.store.database).expect("a healthy store"), Vec::<String>::new());
    }
}

/// A JSON object of this many bytes.
pub fn payload(bytes: usize) -> String {
    let frame = r#"{"text":""}"#.len();
    format!(r#"{{"text":"{}"}}"#, "click ".repeat(bytes).get(..bytes - frame).expect("ASCII"))
}

/// The body of an event.
pub fn body(payload: &str) -> String {
    format!(r#"{{"payload":{payload}}}"#)
}

/// The body of a list of events.
pub fn list(payload: &str, number: usize, partitions: usize) -> String {
    let event = |at: usize| format!(r#"{{"payload":{payload},"partition":{}}}"#, at % partitions);
    format!(r#"{{"records":[{}]}}"#, (0..number).map(event).collect::<Vec<_>>().join(","))
}

/// The key of a chunk, as `streams::keys` has it.
pub fn chunk_key(stream: u32, partition: u32, last: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&stream.to_be_bytes());
    key[4..8].copy_from_slice(&partition.to_be_bytes());
    key[8..].copy_from_slice(&last.to_be_bytes());
    key
}

/// Puts the stored chunk for each operation under the next key of a partition that has so many events.
pub fn put_next(floor: Arc<Floor>, events: u64) -> impl FnMut(u64) -> u64 + Send {
    floor.promised.store(1, Relaxed);
    move |index| {
        let (raw, key) = (&floor.raw, chunk_key(1, 0, events + index));
        raw.database().put_cf_opt(&raw.events(), key, &floor.stored, &raw.write).or_refused();
        1
    }
}

pub fn append(ours: Arc<Ours>, body: String) -> impl FnMut(u64) -> u64 + Send {
    ours.promised.store(1, Relaxed);
    move |_| {
        let event = Event::parse(ours.stream(), body.as_bytes()).expect("an event");
        black_box(ours.streams.append(&ours.store.database, ours.stream(), &event).or_refused());
        1
    }
}

/// Appends a list of so many events; a list of one is the event alone.
pub fn append_each(ours: Arc<Ours>, body: String, events: u64) -> Box<dyn FnMut(u64) -> u64 + Send> {
    if events == 1 {
        return Box::new(append(ours, body));
    }
    ours.promised.store(events, Relaxed);
    Box::new(move |_| {
        let list = Event::parse_all(ours.stream(), body.as_bytes()).expect("a list of events");
        let appended = ours.streams.append_all(&ours.store.database, ours.stream(), &list).or_refused();
        assert_eq!(black_box(appended).len() as u64, events);
        events
    })
}

/// Seeks an offset, iterates over a key for each of at most so many events and copies the values out; returns how many there were.
pub fn raw_read(raw: &Raw, offset: u64, most: u64, answer: &mut Vec<u8>) -> u64 {
    let mut options = rocksdb::ReadOptions::default();
    options.set_iterate_upper_bound(chunk_key(1, 1, 0));
    let mut events = raw.database().raw_iterator_cf_opt(&raw.events(), options);
    events.seek(chunk_key(1, 0, offset));
    answer.clear();
    let mut read = 0;
    while let Some(value) = events.value().filter(|_| read < most) {
        answer.extend_from_slice(value);
        read += 1;
        events.next();
    }
    black_box(answer);
    read
}
