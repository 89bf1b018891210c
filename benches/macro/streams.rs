//! Streams under load: appends until compaction is steady and after, and the opening of a store with many partitions after a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rust_rocksdb as rocksdb;
use strata::schema::Schema;
use strata::storage;
use strata::streams::{Event, Streams};
use strata::transaction::Database;
use strata_harness::{Facts, Found, Latencies, OrRefused, Scale, State, Suite, Unit, temporary_directory};
use tempfile::TempDir;

use crate::events;
use crate::floor::Raw;
use crate::load::until_steady;
use crate::opening::{Openings, killed, opening};
use crate::prepared::{self, Ours, POOL, bodies, soft};
use crate::workload::{Particular, Workload, facts, options, sized};

const PARTITIONS: u32 = 16;
pub const OPENED_PARTITIONS: u32 = 1024;

/// Events that are appended at once to prepare a store.
const LISTED: u64 = 1024;

pub fn rows(suite: &mut Suite) {
    sustained_appends(suite);
    open(suite);
}

pub fn schema(partitions: u32) -> Schema {
    Schema::parse(&format!("type Click @stream(partitions: {partitions})")).expect("a schema")
}

/// Opens the streams of a store.
fn streams(database: &Database) -> Streams {
    Streams::open(database).expect("a healthy store")
}

fn sustained_appends(suite: &mut Suite) {
    let scale = suite.scale();
    let operations = sized(scale, 500_000, 2_000);
    let about = |op: &str| -> Facts {
        facts(op, operations)
            .changes_store(operations / 10, None)
            .unit(Unit::Records, 1)
            .durability(soft())
            .data(format!("products of about 1 KB, in {PARTITIONS} partitions"))
            .state("appended until compaction was steady")
            .indexes(0)
    };
    let ours = about("appends one event, to each partition in turn").against("sustained_appends/floor/steady");
    let setup = || {
        let ours = Ours::open_with(steady(scale), schema(PARTITIONS), &options());
        let streams = streams(&ours.database);
        let before = stored(&ours, &streams);
        Workload::new(ours, &["append"], Appending { streams, before })
    };
    suite.row("sustained_appends", "strata", "steady", ours, setup, |workload: Arc<Workload<Appending>>| {
        let (stopwatch, mut append) = (workload.latencies.stopwatch(), appender());
        move |_| {
            stopwatch.time(0, || append(&workload.ours.database, &workload.particular.streams));
            1
        }
    });
    let floor = about("puts the stored bytes of one event, to each partition in turn");
    let setup = || RawAppending::to(steady(scale));
    suite.row("sustained_appends", "floor", "steady", floor, setup, |appending: Arc<RawAppending>| {
        let stopwatch = appending.latencies.stopwatch();
        move |_| {
            stopwatch.time(0, || appending.put_next());
            1
        }
    });
}

/// A copy of the store for both sides, to which events were appended until compaction was steady.
fn steady(scale: Scale) -> TempDir {
    prepared::copy_of(&prepared::made("events-steady", |directory| {
        let database = Database::open(directory, schema(PARTITIONS), &options()).expect("a store to prepare");
        let (streams, mut append) = (streams(&database), appender());
        let written = || {
            // What a window has to compact is compacted in it, however fast the machine is.
            database.store().settle().expect("a store that settles");
            let counters = database.counters();
            (counters.flushed_bytes + counters.compacted_bytes, counters.batch_bytes)
        };
        until_steady(scale, sized(scale, 64 << 10, 500), |_| append(&database, &streams), written);
    }))
}

fn appender() -> impl FnMut(&Database, &Streams) + Send {
    let bodies: Vec<String> =
        bodies().iter().map(|body| events::body(std::str::from_utf8(body).expect("JSON"))).collect();
    let mut next = 0;
    move |database, streams| {
        let stream = &database.schema().streams[0];
        let event = Event::parse(stream, bodies[next % bodies.len()].as_bytes()).expect("an event");
        streams.append(database, stream, &event).or_refused();
        next += 1;
    }
}

/// Events of all partitions.
fn stored(ours: &Ours, streams: &Streams) -> u64 {
    let stream = &ours.database.schema().streams[0];
    let ends = (0..stream.partitions).map(|partition| streams.watermarks(stream, partition));
    ends.map(|watermarks| watermarks.expect("a partition").high).sum()
}

struct Appending {
    streams: Streams,
    /// Events that were there before.
    before: u64,
}

impl Particular for Appending {
    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        let stored = stored(&workload.ours, &self.streams);
        assert!(stored > self.before, "{stored} events, as many as before: {}", self.before);
        found
    }
}

/// The same store, into which its chunks are put again.
struct RawAppending {
    raw: Raw,
    chunks: Vec<Vec<u8>>,
    /// The offset behind all of the partitions.
    high: u64,
    next: AtomicU64,
    latencies: Latencies,
    batch_bytes: AtomicU64,
    began: Mutex<(u64, u64)>,
}

impl RawAppending {
    fn to(store: TempDir) -> Self {
        let ours = Ours::open_with(store, schema(PARTITIONS), &options());
        let high = stored(&ours, &streams(&ours.database));
        let raw = Raw::open(ours.into_directory(), options().cache_bytes);
        let mut chunks = Vec::new();
        let mut stored = raw.database().raw_iterator_cf_opt(&raw.events(), rocksdb::ReadOptions::default());
        stored.seek_to_first();
        while let Some(chunk) = stored.value().filter(|_| chunks.len() < POOL as usize) {
            chunks.push(chunk.to_vec());
            stored.next();
        }
        drop(stored);
        assert_eq!(chunks.len(), POOL as usize, "a chunk for each event");
        let (next, batch_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (latencies, began) = (Latencies::new(&["put"]), Mutex::default());
        Self { raw, chunks, high, next, latencies, batch_bytes, began }
    }

    /// Puts the next chunk behind those that are there.
    fn put_next(&self) {
        let (raw, next) = (&self.raw, self.next.fetch_add(1, Ordering::Relaxed));
        let (partition, offset) = ((next % u64::from(PARTITIONS)) as u32, self.high + next / u64::from(PARTITIONS));
        let mut batch = rocksdb::WriteBatch::default();
        let chunk = &self.chunks[(next % POOL) as usize];
        batch.put_cf(&raw.events(), events::chunk_key(1, partition, offset), chunk);
        raw.commit(&batch);
        self.batch_bytes.fetch_add(batch.size_in_bytes() as u64, Ordering::Relaxed);
    }

    /// Bytes that flushes and compactions have written, and those of the batches.
    fn written(&self) -> (u64, u64) {
        (self.raw.file_bytes(), self.batch_bytes.load(Ordering::Relaxed))
    }
}

impl State for RawAppending {
    fn settle(&self) {
        self.raw.settle();
    }

    fn begin(&self) {
        *self.began.lock() = self.written();
        self.latencies.clear();
    }

    fn found(&self) -> Found {
        self.settle();
        let (before, after) = (*self.began.lock(), self.written());
        let (files, batches) = (after.0 - before.0, after.1 - before.1);
        Found::default().latencies(&self.latencies).measure("bytes_written", (batches + files) as f64, "bytes").measure(
            "write_amplification",
            (batches + files) as f64 / batches as f64,
            "ratio",
        )
    }
}

fn open(suite: &mut Suite) {
    let (before, last) = (sized(suite.scale(), 256, 2) * LISTED, sized(suite.scale(), 20, 1) * LISTED);
    let about = opening(format!(
        "opens a store and its stream of {OPENED_PARTITIONS} partitions, whose last {last} events are only in its log"
    ))
    .data(format!("{} events with payloads of {} bytes", before + last, events::PAYLOAD_BYTES))
    .state(format!("SST, one level; {last} events in the log"));
    let setup = || Openings::of(&killed(filled(before), "events", last), &["open"]);
    suite.row("open", "strata", "1024_partitions", about, setup, |openings: Arc<Openings>| {
        let stopwatch = openings.latencies.stopwatch();
        move |_| {
            let (ours, streams) = stopwatch.time(0, || {
                let ours = openings.open(schema(OPENED_PARTITIONS));
                let streams = streams(&ours.database);
                (ours, streams)
            });
            let found = stored(&ours, &streams);
            openings.keep(ours);
            u64::from(found == before + last)
        }
    });
}

/// A closed store with so many events.
fn filled(number: u64) -> TempDir {
    let directory = temporary_directory();
    let options = storage::Options { automatic_compactions: false, ..options() };
    let database = Database::open(directory.path(), schema(OPENED_PARTITIONS), &options).expect("a store to open");
    append(&database, number);
    database.store().compact().expect("a store that settles");
    directory
}

/// Appends so many events, to each partition in turn.
pub fn append(database: &Database, number: u64) {
    let (streams, stream) = (streams(database), &database.schema().streams[0]);
    let payload = events::payload(events::PAYLOAD_BYTES);
    let event = |number: u64| Event {
        payload: &payload,
        partition: Some((number % u64::from(stream.partitions)) as u32),
        ..Event::default()
    };
    let list: Vec<_> = (0..LISTED).map(event).collect();
    (0..number / LISTED).for_each(|_| drop(streams.append_all(database, stream, &list).or_refused()));
}
