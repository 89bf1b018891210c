//! Heavy writes: the bulk load, puts until compaction is steady and after, and creates by class of durability.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rust_rocksdb as rocksdb;
use strata::schema::Durability;
use strata::storage::{self, ReadTier, Space};
use strata::transaction::{Database, Precondition};
use strata_harness::data::{Id, product, scatter};
use strata_harness::{Found, Latencies, OrRefused, Scale, State, Suite, Unit, temporary_directory};

use crate::floor::Raw;
use crate::prepared::{self, Numbered, Ours, POOL, bodies, described, schema, soft};
use crate::verbs::{MADE_ID, Writes};
use crate::workload::{Particular, SST, Workload, copy, facts, options, sized};

/// Records that a load writes at once.
const BATCH: u64 = 1000;

pub fn rows(suite: &mut Suite) {
    bulk_load(suite);
    sustained_puts(suite);
    durability(suite);
}

/// A million records, a thousand per transaction, into an empty store.
fn bulk_load(suite: &mut Suite) {
    const INDEXES: u32 = 2;
    let batches = sized(suite.scale(), 1_000, 10);
    let about = |op: &str| {
        facts(op, batches)
            .changes_store(batches / 10, None)
            .unit(Unit::Records, BATCH)
            .durability(soft())
            .data("products of about 1 KB, 8 attributes; ascending ids")
            .state("an initially empty store, compactions on")
            .indexes(INDEXES)
    };
    let case = "1000000_records";
    let ours =
        about("creates 1000 records from a JSON array in one transaction; the ids are made").floor("floor", 0.85, 0.92);
    let setup = || {
        let ours = Ours::open_with(temporary_directory(), schema(INDEXES), &options());
        Workload::new(ours, &["load"], Loaded::default())
    };
    suite.row("bulk_load", "strata", case, ours, setup, loader);
    let setup = || {
        let directory = temporary_directory();
        drop(Database::open(directory.path(), schema(INDEXES), &options()).expect("an empty store"));
        RawLoad { raw: Raw::open(directory, options().cache_bytes), latencies: Latencies::new(&["load"]) }
    };
    let floor = about("writes the 3000 keys of 1000 records in one batch");
    suite.row("bulk_load", "floor", case, floor, setup, |load| raw_loader(load, INDEXES));
}

/// The number of records that a load has written, the warm-up included.
#[derive(Default)]
struct Loaded {
    records: AtomicU64,
    settled_in: Mutex<Duration>,
}

impl Particular for Loaded {
    fn end(&self, workload: &Workload<Self>) {
        let began = Instant::now();
        workload.ours.settle();
        *self.settled_in.lock() = began.elapsed();
    }

    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        let (stored, loaded) = (stored(&workload.ours, Space::Records), self.records.load(Ordering::Relaxed));
        assert_eq!(stored, loaded, "records stored, left, and loaded, right");
        assert_eq!(self::stored(&workload.ours, Space::Indexes), 2 * loaded, "entries of two indexes");
        let settled_in = *self.settled_in.lock();
        found.measure("settled_after", settled_in.as_secs_f64(), "seconds")
    }
}

/// The number of keys of a space.
pub fn stored(ours: &Ours, space: Space) -> u64 {
    let store = ours.database.store();
    let snapshot = store.snapshot(ReadTier::Disk).or_refused();
    let (mut scan, mut keys) = (store.scan(space, &[], &[], &snapshot, ReadTier::Disk), 0);
    while scan.next().expect("a healthy store").is_some() {
        keys += 1;
    }
    keys
}

fn loader(workload: Arc<Workload<Loaded>>) -> impl FnMut(u64) -> u64 + Send {
    let bodies: Vec<Vec<u8>> = (1..=BATCH).map(|index| product(index, Id::LeftOut)).collect();
    let array = [b"[".as_slice(), &bodies.join(&b','), b"]"].concat();
    let stopwatch = workload.latencies.stopwatch();
    move |_| {
        let ours = &workload.ours;
        let created = stopwatch.time(0, || ours.database.create_all(ours.product(), &array).or_refused().len());
        workload.particular.records.fetch_add(created as u64, Ordering::Relaxed);
        created as u64
    }
}

struct RawLoad {
    raw: Raw,
    latencies: Latencies,
}

impl State for RawLoad {
    fn settle(&self) {
        self.raw.settle();
    }

    fn begin(&self) {
        self.latencies.clear();
    }

    fn found(&self) -> Found {
        Found::default().latencies(&self.latencies)
    }
}

fn raw_loader(load: Arc<RawLoad>, indexes: u32) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = Writes::new(&schema(indexes).tables[0], MADE_ID);
    let (mut batch, stopwatch) = (rocksdb::WriteBatch::default(), load.latencies.stopwatch());
    move |index| {
        stopwatch.time(0, || {
            let raw = &load.raw;
            batch.clear();
            for number in index * BATCH..(index + 1) * BATCH {
                writes.put_raw(number, raw, &mut batch);
            }
            raw.commit(&batch);
        });
        batch.len() as u64 / (1 + u64::from(indexes))
    }
}

/// Windows over which compaction is averaged: one compacts what several have flushed, so single ones need never agree.
const AVERAGED: usize = 4;
/// The maximum number of windows.
const MOST_WINDOWS: usize = 24;
/// By how much the average may differ from the one before it where compaction counts as steady.
const AGREEMENT: f64 = 0.2;

fn sustained_puts(suite: &mut Suite) {
    let scale = suite.scale();
    let (n, operations) = (sized(scale, 100_000, 2_000), sized(scale, 200_000, 2_000));
    let write_buffer_bytes = sized(scale, 8 << 20, 256 << 10) as usize;
    let about = facts("replaces one evenly chosen record with one of 1 KB", operations)
        .changes_store(operations / 10, None)
        .unit(Unit::Records, 1)
        .durability(soft())
        .data(described(n))
        .state(format!("overwritten until compaction was steady; memtables of {} KiB", write_buffer_bytes >> 10))
        .indexes(0);
    let setup = || {
        let options = storage::Options { write_buffer_bytes, ..options() };
        let ours = Ours::open_with(copy(0, n), schema(0), &options);
        let mut put = putter(n);
        let puts_before = until_steady(
            scale,
            n / 2,
            |index| assert_eq!(put(&ours, index), 1, "a record of the data set"),
            || {
                let counters = ours.database.counters();
                (counters.flushed_bytes + counters.compacted_bytes, counters.batch_bytes)
            },
        );
        Workload::new(ours, &["put"], Steady { puts_before })
    };
    suite.row("sustained_puts", "strata", "steady", about, setup, |workload| {
        let stopwatch = workload.latencies.stopwatch();
        let mut put = putter(n);
        move |index| stopwatch.time(0, || put(&workload.ours, index))
    });
}

/// Compaction was steady when the clock started.
struct Steady {
    puts_before: u64,
}

impl Particular for Steady {
    fn found(&self, _: &Workload<Self>, found: Found) -> Found {
        found.measure("steady_after", self.puts_before as f64, "records")
    }
}

/// Writes windows of so many records until the bytes that flushes and compactions write per byte of the batches are steady; `bytes` returns
/// both. Returns the number of records.
pub fn until_steady(scale: Scale, window: u64, mut write: impl FnMut(u64), bytes: impl Fn() -> (u64, u64)) -> u64 {
    let mut written = Vec::new();
    for number in 0..MOST_WINDOWS as u64 {
        let before = bytes();
        (number * window..(number + 1) * window).for_each(&mut write);
        let after = bytes();
        written.push((after.0 - before.0) as f64 / (after.1 - before.1) as f64);
        if agree(&written) {
            return (number + 1) * window;
        }
    }
    // A smoke test has so little to compact that its windows need not agree.
    assert!(scale == Scale::Smoke, "compaction was not steady after {MOST_WINDOWS} windows: {written:?} bytes a byte");
    MOST_WINDOWS as u64 * window
}

/// Returns whether the last [`AVERAGED`] windows have written about as much as those before them.
fn agree(written: &[f64]) -> bool {
    let Some(last) = written.len().checked_sub(2 * AVERAGED).map(|first| &written[first..]) else { return false };
    let (before, now) = last.split_at(AVERAGED);
    let (before, now) = (before.iter().sum::<f64>(), now.iter().sum::<f64>());
    before > 0.0 && (now / before - 1.0).abs() <= AGREEMENT
}

fn putter(n: u64) -> impl FnMut(&Ours, u64) -> u64 + Send {
    let (bodies, mut id) = (bodies(), Numbered::new(b"prod-00000000"));
    move |ours, index| {
        let id = std::str::from_utf8(id.with(scatter(index, n))).expect("digits and letters");
        let body = &bodies[(index % POOL) as usize];
        let put = ours.database.replace(ours.product(), id, body, &Precondition::None);
        u64::from(!put.expect("a body of the data set").1)
    }
}

/// The cost of durability.
fn durability(suite: &mut Suite) {
    let (n, scale) = (prepared::records(suite.scale()), suite.scale());
    for class in [Durability::Soft, Durability::Strong] {
        for threads in [1, 8] {
            let full = if class == Durability::Soft { 100_000 } else { 1_000 * threads as u64 };
            let operations = sized(scale, full, 400);
            let op = match class {
                Durability::Soft => "creates one record; its log entry is handed to the operating system",
                Durability::Strong => {
                    "creates one record and waits until it is synced; one write and one sync serve all waiters"
                }
            };
            let about = facts(op, operations)
                .changes_store(operations / 10, None)
                .threads(threads)
                .unit(Unit::Records, 1)
                .durability(class.name())
                .data(described(n))
                .state(SST)
                .indexes(0);
            let setup = || {
                let mut schema = schema(0);
                schema.tables[0].durability = class;
                Workload::new(Ours::open_with(copy(0, n), schema, &options()), &["create"], Synced::default())
            };
            let case = format!("{}_{threads}_thread{}", class.name(), if threads == 1 { "" } else { "s" });
            suite.row("durability", "strata", &case, about, setup, |workload| {
                let (stopwatch, bodies) = (workload.latencies.stopwatch(), bodies());
                move |index| {
                    let ours = &workload.ours;
                    let body = &bodies[(index % POOL) as usize];
                    let created = stopwatch.time(0, || ours.database.create(ours.product(), body));
                    u64::from(created.or_refused().json().len() > 900)
                }
            });
        }
    }
}

/// Syncs of the log before the clock started.
#[derive(Default)]
struct Synced {
    before: AtomicU64,
}

impl Particular for Synced {
    fn begin(&self, workload: &Workload<Self>) {
        self.before.store(workload.ours.database.counters().syncs, Ordering::Relaxed);
    }

    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        let syncs = workload.ours.database.counters().syncs - self.before.load(Ordering::Relaxed);
        let strong = workload.ours.product().durability == Durability::Strong;
        assert_eq!(syncs > 0, strong, "{syncs} syncs; only a strong write waits for one");
        found.measure("syncs", syncs as f64, "operations")
    }
}
