//! A store under a workload, and what its engine did meanwhile.

use parking_lot::Mutex;
use strata::storage::{self, Counters, Gauges};
use strata_harness::{Facts, Found, Latencies, PeakMemory, Scale, State, size_on_disk};
use tempfile::TempDir;

use crate::prepared::{self, Ours};

/// The parts that are specific to one workload.
pub trait Particular: Send + Sync + Sized {
    /// The warm-up is over.
    fn begin(&self, _workload: &Workload<Self>) {}

    /// The operations are over; background work ends here. Called before the engine's counters are read.
    fn end(&self, _workload: &Workload<Self>) {}

    /// Adds its findings, and panics if they are not as expected.
    fn found(&self, _workload: &Workload<Self>, found: Found) -> Found {
        found
    }
}

impl Particular for () {}

/// An open store with its measurements.
pub struct Workload<P = ()> {
    pub ours: Ours,
    pub latencies: Latencies,
    pub particular: P,
    began: Mutex<Option<Began>>,
}

/// The state at the end of the warm-up.
struct Began {
    counters: Counters,
    stalled_ms: u64,
    peak: Option<PeakMemory>,
}

impl<P: Particular> Workload<P> {
    /// With operations of these kinds.
    pub fn new(ours: Ours, kinds: &'static [&'static str], particular: P) -> Self {
        let latencies = Latencies::new(kinds);
        Self { ours, latencies, particular, began: Mutex::default() }
    }

    fn gauges(&self) -> Gauges {
        self.ours.database.store().gauges().expect("an engine that says what it holds")
    }

    /// Returns what the engine did since the warm-up, and what it holds now.
    fn beside_the_time(&self, began: &Began) -> Found {
        let (before, after) = (began.counters, self.ours.database.counters());
        let batches = after.batch_bytes - before.batch_bytes;
        let files = after.flushed_bytes + after.compacted_bytes - before.flushed_bytes - before.compacted_bytes;
        let gauges = self.gauges();
        let mut found = Found::default()
            .latencies(&self.latencies)
            .measure("size_on_disk", size_on_disk(self.ours.directory()) as f64, "bytes")
            .measure("size_of_sorted_files", gauges.sorted_bytes as f64, "bytes")
            .measure("bytes_written", (batches + files) as f64, "bytes")
            .measure("stall_time", (gauges.stalled_ms - began.stalled_ms) as f64 / 1000.0, "seconds");
        if batches > 0 {
            found = found.measure("write_amplification", (batches + files) as f64 / batches as f64, "ratio");
        }
        match began.peak.as_ref().and_then(PeakMemory::bytes) {
            Some(peak) => found.measure("peak_memory", peak as f64, "bytes"),
            None => found,
        }
    }

    /// The keys and values in SST files over those that a full compaction leaves, before compression. Nothing else can be measured on the
    /// store afterwards.
    fn space_amplification(&self, found: Found) -> Found {
        let store = self.ours.database.store();
        let sorted = || store.uncompressed_bytes().expect("an engine that says what its files hold") as f64;
        store.flush().expect("a healthy store");
        let before = sorted();
        store.compact().expect("a healthy store");
        found.measure("space_amplification", before / sorted(), "ratio")
    }
}

impl<P: Particular> State for Workload<P> {
    fn settle(&self) {
        self.ours.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.counters()
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.thread_counters()
    }

    fn begin(&self) {
        let began = Began {
            counters: self.ours.database.counters(),
            stalled_ms: self.gauges().stalled_ms,
            peak: PeakMemory::begin(),
        };
        *self.began.lock() = Some(began);
        self.latencies.clear();
        self.particular.begin(self);
    }

    fn found(&self) -> Found {
        self.particular.end(self);
        self.settle();
        let began = self.began.lock();
        let began = began.as_ref().expect("a workload begins before it ends");
        let found = self.particular.found(self, self.beside_the_time(began));
        let wrote = self.ours.database.counters().batch_bytes > began.counters.batch_bytes;
        if wrote { self.space_amplification(found) } else { found }
    }
}

/// The options of a store under a workload: those of a server, overridden by `STRATA_SET`.
pub fn options() -> storage::Options {
    options_with_cache(storage::Options::default().cache_bytes)
}

/// The same with a cache of that size, unless `STRATA_SET` names another.
pub fn options_with_cache(cache_bytes: usize) -> storage::Options {
    storage::Options { automatic_compactions: true, ..prepared::options_with_cache(cache_bytes) }
}

/// A copy of a store in which nothing is left to compact.
pub fn copy(indexes: u32, records: u64) -> TempDir {
    prepared::settled_copy(indexes, records, &options())
}

/// The facts of a workload with this many timed operations.
pub fn facts(op: impl Into<String>, operations: u64) -> Facts {
    Facts::new(op).workload(operations / 10)
}

/// `full` for measurements, `smoke` for smoke tests.
pub fn sized(scale: Scale, full: u64, smoke: u64) -> u64 {
    match scale {
        Scale::Full => full,
        Scale::Smoke => smoke,
    }
}

/// Records of the large store.
pub fn records(scale: Scale) -> u64 {
    sized(scale, 1_000_000, 2_000)
}

/// The state of a copied store, in the facts.
pub const SST: &str = "SST, one level, compactions on";
