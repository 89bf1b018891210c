//! Reads beside other work in the same store: a continuous writer, a full compaction.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::Mutex;
use strata::storage;
use strata::transaction::{Database, Precondition};
use strata_harness::data::scatter;
use strata_harness::distribution::Random;
use strata_harness::{Found, OrRefused, Scale, Suite, Unit};

use crate::prepared::{Numbered, Ours, described, schema, soft};
use crate::verbs::copied;
use crate::workload::{self, Particular, Workload, copy, facts, options, sized};

const KINDS: [&str; 2] = ["read", "write"];

pub fn rows(suite: &mut Suite) {
    let (scale, n) = (suite.scale(), workload::records(suite.scale()));
    let about =
        |op: &str, operations| facts(op, operations).background().unit(Unit::Records, 1).data(described(n)).indexes(0);

    let op = "reads one record by id while one writer changes records as fast as it can";
    let writing =
        about(op, sized(scale, 200_000, 2_000)).state("SST, one level, and the writer's changes").durability(soft());
    let setup = || {
        let ours = Ours::open_with(copy(0, n), schema(0), &options());
        Workload::new(ours, &KINDS, Writer::of(n))
    };
    suite.row("read_while_writing", "strata", "1_reader_1_writer", writing, setup, |workload| reader(workload, n));

    let op = "reads one record by id while a full compaction rewrites the store";
    let compacting = about(op, sized(scale, 100_000, 2_000)).state("SST in two levels, being rewritten into one");
    let setup = || {
        let still = storage::Options { automatic_compactions: false, ..options() };
        let ours = Ours::open_with(copy(0, n), schema(0), &still);
        (0..n / 50).for_each(|index| change(&ours.database, &mut Numbered::new(ID), scatter(index, n), index));
        ours.database.store().flush().expect("a healthy store");
        Workload::new(ours, &KINDS, Compaction { whole: scale == Scale::Full, ..Compaction::default() })
    };
    suite.row("read_during_compaction", "strata", "full", compacting, setup, |workload| reader(workload, n));
}

const ID: &[u8] = b"prod-00000000";

/// Reads uniformly chosen records.
fn reader<P: Particular>(workload: Arc<Workload<P>>, n: u64) -> impl FnMut(u64) -> u64 + Send {
    let (stopwatch, mut random) = (workload.latencies.stopwatch(), Random::new(1));
    let (mut id, mut answer) = (Numbered::new(ID), Vec::new());
    move |_| {
        let id = std::str::from_utf8(id.with(random.below(n))).expect("digits and letters");
        let ours = &workload.ours;
        stopwatch.time(0, || {
            let found = ours.database.read(ours.product(), id).expect("a healthy store");
            found.map_or(0, |record| copied(record.json(), &mut answer))
        })
    }
}

/// Changes an attribute of a record.
fn change(database: &Database, id: &mut Numbered, record: u64, number: u64) {
    let id = std::str::from_utf8(id.with(record)).expect("digits and letters");
    let table = &database.schema().tables[0];
    let patch = format!("{{\"stock\":{number}}}");
    database.merge(table, id, patch.as_bytes(), &Precondition::Exists).or_refused();
}

/// Adds the ratio of the 99.9th percentile to the median, if both are known.
fn tail(workload: &Workload<impl Particular>, found: Found) -> Found {
    let by_kind = workload.latencies.by_kind();
    match by_kind.get(KINDS[0]).and_then(|read| read.p999_ns.zip(read.p50_ns)) {
        Some((slow, usual)) => found.measure("p999_over_p50", slow / usual, "ratio"),
        None => found,
    }
}

/// A writer beside the readers.
struct Writer {
    records: u64,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    running: Mutex<Option<(Instant, JoinHandle<()>)>>,
    per_second: Mutex<f64>,
}

impl Writer {
    fn of(records: u64) -> Self {
        Self {
            records,
            stop: Arc::default(),
            written: Arc::default(),
            running: Mutex::default(),
            per_second: Mutex::default(),
        }
    }
}

impl Particular for Writer {
    fn begin(&self, workload: &Workload<Self>) {
        let (stop, written) = (Arc::clone(&self.stop), Arc::clone(&self.written));
        let (database, stopwatch) = (workload.ours.database.clone(), workload.latencies.stopwatch());
        let n = self.records;
        let write = move || {
            let (mut id, mut random) = (Numbered::new(ID), Random::new(2));
            while !stop.load(Ordering::Relaxed) {
                let number = written.load(Ordering::Relaxed);
                stopwatch.time(1, || change(&database, &mut id, random.below(n), number));
                written.store(number + 1, Ordering::Relaxed);
            }
        };
        let writer = thread::spawn(write);
        // At a small scale, the reads may be over before the thread has started.
        while self.written.load(Ordering::Relaxed) == 0 && !writer.is_finished() {
            thread::yield_now();
        }
        *self.running.lock() = Some((Instant::now(), writer));
    }

    fn end(&self, _: &Workload<Self>) {
        self.stop.store(true, Ordering::Relaxed);
        let running = self.running.lock().take();
        let (began, writer) = running.expect("the writer was started");
        writer.join().unwrap_or_else(|refusal| resume_unwind(refusal));
        let written = self.written.load(Ordering::Relaxed) as f64;
        *self.per_second.lock() = written / began.elapsed().as_secs_f64();
    }

    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        let per_second = *self.per_second.lock();
        assert!(per_second > 0.0, "nothing was written while the records were read");
        tail(workload, found.measure("write_rate", per_second, "records/s"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A full compaction beside the readers.
#[derive(Default)]
struct Compaction {
    /// True if the store is so large that the compaction outlasts the reads.
    whole: bool,
    over: Arc<AtomicBool>,
    running: Mutex<Option<(Instant, JoinHandle<()>)>>,
    seconds: Mutex<f64>,
}

impl Particular for Compaction {
    fn begin(&self, workload: &Workload<Self>) {
        let (database, over) = (workload.ours.database.clone(), Arc::clone(&self.over));
        let compact = move || {
            database.store().compact().expect("a healthy store");
            over.store(true, Ordering::Relaxed);
        };
        *self.running.lock() = Some((Instant::now(), thread::spawn(compact)));
    }

    fn end(&self, _: &Workload<Self>) {
        let over = self.over.load(Ordering::Relaxed);
        assert!(!(self.whole && over), "the compaction was over before the reads were");
        let running = self.running.lock().take();
        let (began, compaction) = running.expect("the compaction was started");
        compaction.join().expect("the compaction did not fail");
        *self.seconds.lock() = began.elapsed().as_secs_f64();
    }

    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        assert!(workload.ours.database.counters().compactions > 0, "nothing was compacted");
        let seconds = *self.seconds.lock();
        tail(workload, found.measure("compaction_time", seconds, "seconds"))
    }
}
