//! The core workloads of YCSB, A to F, and reads of a store ten times its cache.
//!
//! The mixes are those of YCSB's `workloads/` (Cooper and others, "Benchmarking cloud serving systems with YCSB", SoCC 2010), and so are
//! the distributions: its scrambled zipfian, and its skewed latest for D. The scrambled distribution is over 10^10 items, as in some
//! versions of YCSB (its commit cd1589c); others (594ba16) have 10^16 with the same sum, and there the thousand most popular get 19.6 % of
//! all draws, here 29.8 %. Three things differ from all versions: ids ascend as records are inserted (YCSB's `insertorder=ordered`);
//! records inserted by E are not chosen as the start of a scan, and the distribution of D is over the initial records (YCSB adds the new
//! ones, here one in a hundred or fewer); and records are the products of all benches, 1 KB in 8 attributes. Each has a uniform variant.
//!
//! The mixes run on a store that the cache holds whole, and all of it is there when the clock starts; reads of a store ten times its cache
//! are rows of their own. All operations of a row are drawn beforehand, in one order, so that Strata and its floor do exactly the same.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use strata::encoding::{Record, key};
use strata::storage::{ReadTier, Space};
use strata::transaction::Precondition;
use strata_harness::distribution::{Inserted, Random, Scrambled, Zipfian};
use strata_harness::{Found, Latencies, OrRefused, Scale, State, Stopwatch, Suite};

use crate::floor::Raw;
use crate::prepared::{Numbered, Ours, POOL, bodies_with_id, described, schema, soft};
use crate::verbs::{self, assert_patched, copied, looked_at, patched};
use crate::workload::{self, Particular, Workload, copy, facts, options_with_cache, sized};

const THREADS: usize = 2;
/// The longest scan of workload E; lengths are uniform from 1.
const LONGEST_SCAN: u64 = 100;

/// An operation of a client; the number of a kind is its index in [`KINDS`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

const KINDS: [&str; 5] = ["read", "update", "insert", "scan", "read_modify_write"];

/// Which records are popular.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Uniform,
    Zipfian,
    /// Zipfian, the latest being the most popular.
    Latest,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

/// A workload: its kinds with their shares, which records are popular, and how many operations are timed.
struct Mix {
    name: &'static str,
    op: &'static str,
    shares: &'static [(Kind, f64)],
    popular: Choice,
    operations: u64,
}

const MIXES: [Mix; 6] = [
    Mix {
        name: "ycsb_a",
        op: "one operation of YCSB A: 50 % reads by id, 50 % updates of one attribute",
        shares: &[(Kind::Read, 0.5), (Kind::Update, 0.5)],
        popular: Choice::Zipfian,
        operations: 200_000,
    },
    Mix {
        name: "ycsb_b",
        op: "one operation of YCSB B: 95 % reads by id, 5 % updates of one attribute",
        shares: &[(Kind::Read, 0.95), (Kind::Update, 0.05)],
        popular: Choice::Zipfian,
        operations: 300_000,
    },
    Mix {
        name: "ycsb_c",
        op: "one operation of YCSB C: a read by id",
        shares: &[(Kind::Read, 1.0)],
        popular: Choice::Zipfian,
        operations: 300_000,
    },
    Mix {
        name: "ycsb_d",
        op: "one operation of YCSB D: 95 % reads by id, 5 % inserts",
        shares: &[(Kind::Read, 0.95), (Kind::Insert, 0.05)],
        popular: Choice::Latest,
        operations: 300_000,
    },
    Mix {
        name: "ycsb_e",
        op: "one operation of YCSB E: 95 % scans of 1 to 100 records from an id on, 5 % inserts",
        shares: &[(Kind::Scan, 0.95), (Kind::Insert, 0.05)],
        popular: Choice::Zipfian,
        operations: 40_000,
    },
    Mix {
        name: "ycsb_f",
        op: "one operation of YCSB F: 50 % reads by id, 50 % read one record, add one to an attribute and write it",
        shares: &[(Kind::Read, 0.5), (Kind::ReadModifyWrite, 0.5)],
        popular: Choice::Zipfian,
        operations: 200_000,
    },
];

/// Records of the mixes.
fn records(scale: Scale) -> u64 {
    sized(scale, 100_000, 2_000)
}

/// About twice what the store of the mixes takes in the cache.
const CACHE_BYTES: usize = 256 << 20;

pub fn rows(suite: &mut Suite) {
    let n = records(suite.scale());
    let cache_bytes = options_with_cache(CACHE_BYTES).cache_bytes;
    let state = format!("SST, one level, preloaded into the cache of {} MiB; compactions on", cache_bytes >> 20);
    for mix in &MIXES {
        for choice in [mix.popular, Choice::Uniform] {
            let operations = sized(suite.scale(), mix.operations, 2_000);
            let about = |op: &str| facts(op, operations).threads(THREADS).data(described(n)).state(&state).indexes(0);
            let ours = about(mix.op);
            let ours = match mix.name {
                "ycsb_c" => ours.floor("floor", 0.95, 0.98),
                _ => ours.changes_store(operations / 10, None).durability(soft()),
            };
            let steps = || steps(mix, choice, n, operations);
            let setup = || served(mix, n, cache_bytes, steps(), Ours::held_by_cache);
            suite.row(mix.name, "strata", choice.name(), ours, setup, |workload| client(workload, choice));
            if mix.name == "ycsb_c" {
                let floor = about("gets the stored bytes of one record, pinned, and copies them out");
                let setup = || RawReads {
                    raw: Raw::open(copy(0, n), cache_bytes).held_by_cache(),
                    latencies: Latencies::new(&["read"]),
                    steps: steps(),
                };
                suite.row(mix.name, "floor", choice.name(), floor, setup, raw_client);
            }
        }
    }
    larger_than_cache(suite);
}

/// The read-only mix with a cache of a tenth of the data.
fn larger_than_cache(suite: &mut Suite) {
    let (n, mix) = (workload::records(suite.scale()), &MIXES[2]);
    let data_bytes = n * RECORD_BYTES;
    let cache_bytes = options_with_cache((data_bytes / 10) as usize).cache_bytes;
    let times = data_bytes as f64 / cache_bytes as f64;
    for choice in [Choice::Zipfian, Choice::Uniform] {
        let operations = sized(suite.scale(), 100_000, 2_000);
        let about = facts("reads one record by id", operations)
            .threads(THREADS)
            .data(described(n))
            .state(format!("SST, one level, {times:.0} times the cache of {} MiB; compactions on", cache_bytes >> 20))
            .indexes(0);
        let setup = || served(mix, n, cache_bytes, steps(mix, choice, n, operations), Ours::warmed);
        let case = &format!("{}_reads", choice.name());
        suite.row("larger_than_cache", "strata", case, about, setup, |workload| client(workload, choice));
    }
}

/// Approximate bytes of a stored record.
const RECORD_BYTES: u64 = 1_100;

/// The state that the clients of a mix share.
struct Served {
    mix: &'static Mix,
    records: u64,
    inserted: Inserted,
    steps: Vec<Step>,
}

/// A store with a cache of that size, read once by `warm`.
fn served(
    mix: &'static Mix,
    records: u64,
    cache_bytes: usize,
    steps: Vec<Step>,
    warm: fn(Ours) -> Ours,
) -> Workload<Served> {
    let ours = warm(Ours::open_with(copy(0, records), schema(0), &options_with_cache(cache_bytes)));
    Workload::new(ours, &KINDS, Served { mix, records, inserted: Inserted::default(), steps })
}

impl Particular for Served {
    fn found(&self, workload: &Workload<Self>, found: Found) -> Found {
        let counts = workload.latencies.by_kind();
        let all: u64 = counts.values().map(|latency| latency.count).sum();
        for (kind, share) in self.mix.shares {
            let count = counts.get(KINDS[*kind as usize]).map_or(0, |latency| latency.count) as f64;
            let (expected, deviation) = (all as f64 * share, (all as f64 * share * (1.0 - share)).sqrt());
            let name = KINDS[*kind as usize];
            assert!(
                (count - expected).abs() <= 5.0 * deviation,
                "{count} of {all} operations were {name}, not {share}"
            );
        }
        let newest = format!("prod-{:08}", self.records + self.inserted.acknowledged() - 1);
        let table = workload.ours.product();
        let stored = workload.ours.database.read(table, &newest).expect("a healthy store");
        assert!(stored.is_some(), "{newest} was acknowledged and is not there");
        found
    }
}

/// One operation, drawn beforehand.
#[derive(Clone, Copy)]
struct Step {
    kind: Kind,
    /// Number of the record; for the latest distribution, how many are newer.
    record: u32,
    length: u8,
}

/// The operations of all clients together, by index; drawn outside every clock, and the same for Strata and its floor.
fn steps(mix: &Mix, choice: Choice, records: u64, operations: u64) -> Vec<Step> {
    let mut random = Random::new(1);
    let (scrambled, latest) = (Scrambled::new(records), Zipfian::new(records));
    let step = |_| {
        let (mut kind, mut share) = (mix.shares[0].0, random.unit());
        for (one, of_it) in mix.shares {
            kind = *one;
            if share < *of_it {
                break;
            }
            share -= of_it;
        }
        let record = match choice {
            Choice::Uniform => random.below(records),
            Choice::Zipfian => scrambled.record(&mut random),
            Choice::Latest => latest.rank(&mut random),
        };
        let length = 1 + random.below(LONGEST_SCAN) as u8;
        Step { kind, record: record as u32, length }
    };
    // The timed operations and the warm-up.
    (0..operations * 11 / 10).map(step).collect()
}

/// The operation with this index; the first follows the last.
fn step(steps: &[Step], index: u64) -> Step {
    steps[(index % steps.len() as u64) as usize]
}

/// A client with all that its operations need.
struct Client {
    workload: Arc<Workload<Served>>,
    stopwatch: Stopwatch,
    id: Numbered,
    patch: Numbered,
    bodies: Vec<Numbered>,
    answer: Vec<u8>,
    stock: usize,
}

fn client(workload: Arc<Workload<Served>>, choice: Choice) -> impl FnMut(u64) -> u64 + Send {
    let client = Client {
        stopwatch: workload.latencies.stopwatch(),
        id: Numbered::new(b"prod-00000000"),
        patch: Numbered::new(br#"{"stock":100000000}"#),
        bodies: bodies_with_id("prod-00000000"),
        answer: Vec::new(),
        stock: verbs::stock(&workload.ours),
        workload,
    };
    let operation = move |client: &mut Client, index| {
        let step = client.step(index);
        let record = match choice {
            Choice::Latest => client.newest() - u64::from(step.record),
            _ => u64::from(step.record),
        };
        match step.kind {
            Kind::Read => client.read(record),
            Kind::Update => client.update(record, index),
            Kind::Insert => client.insert(),
            Kind::Scan => client.scan(record, u64::from(step.length)),
            Kind::ReadModifyWrite => client.read_modify_write(record),
        }
    };
    looked_at(client, operation, Client::look)
}

impl Client {
    fn step(&self, index: u64) -> Step {
        step(&self.workload.particular.steps, index)
    }

    /// Asserts that an update is in the store, or a later one of the same record.
    fn look(&mut self, index: u64, own: &Range<u64>) {
        let updates = |step: Step| (step.kind == Kind::Update).then_some(step.record);
        let Some(record) = updates(self.step(index)) else { return };
        let number = patched(&self.workload.ours, id_of(&mut self.id, u64::from(record)), self.stock);
        assert_patched(number, index, own, |other| updates(self.step(other)) == Some(record));
    }

    fn newest(&self) -> u64 {
        let served = &self.workload.particular;
        served.records + served.inserted.acknowledged() - 1
    }

    fn read(&mut self, record: u64) -> u64 {
        let (ours, id, answer) = (&self.workload.ours, id_of(&mut self.id, record), &mut self.answer);
        self.stopwatch.time(Kind::Read as usize, || {
            let found = ours.database.read(ours.product(), id).expect("a healthy store");
            found.map_or(0, |record| copied(record.json(), answer))
        })
    }

    fn update(&mut self, record: u64, number: u64) -> u64 {
        let (ours, id, patch) = (&self.workload.ours, id_of(&mut self.id, record), self.patch.with(number));
        self.stopwatch.time(Kind::Update as usize, || {
            let changed = ours.database.merge(ours.product(), id, patch, &Precondition::Exists);
            u64::from(!changed.or_refused().json().is_empty())
        })
    }

    fn insert(&mut self) -> u64 {
        let Workload { ours, particular, .. } = &*self.workload;
        let number = particular.inserted.next();
        let body = self.bodies[(number % POOL) as usize].with(particular.records + number);
        let created = self.stopwatch.time(Kind::Insert as usize, || {
            let created = ours.database.create(ours.product(), body).or_refused();
            u64::from(created.json().len() > 900)
        });
        particular.inserted.acknowledge(number);
        created
    }

    /// Finds as many records as there are, at most `length`.
    fn scan(&mut self, record: u64, length: u64) -> u64 {
        let Workload { ours, particular, .. } = &*self.workload;
        let there = length.min(particular.records - record);
        let (id, answer) = (id_of(&mut self.id, record), &mut self.answer);
        let found = self.stopwatch.time(Kind::Scan as usize, || scanned(ours, id, length, answer));
        u64::from((there..=length).contains(&found))
    }

    fn read_modify_write(&mut self, record: u64) -> u64 {
        let (ours, id, stock) = (&self.workload.ours, id_of(&mut self.id, record), self.stock);
        self.stopwatch.time(Kind::ReadModifyWrite as usize, || verbs::add_one(ours, id, stock))
    }
}

fn id_of(id: &mut Numbered, record: u64) -> &str {
    std::str::from_utf8(id.with(record)).expect("digits and letters")
}

/// Copies the JSON of up to `limit` records out, from an id on, as of a snapshot.
fn scanned(ours: &Ours, id: &str, limit: u64, answer: &mut Vec<u8>) -> u64 {
    let (store, table, mut found) = (ours.database.store(), ours.product(), 0);
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    key::record(table.id, id, &mut lower);
    key::record(table.id + 1, "", &mut upper);
    answer.clear();
    let snapshot = store.snapshot(ReadTier::Disk).or_refused();
    let mut scan = store.scan(Space::Records, &lower, &upper, &snapshot, ReadTier::Disk);
    while found < limit
        && let Some((_, bytes)) = scan.next().expect("a healthy store")
    {
        answer.extend_from_slice(Record::open(table, bytes).expect("a record of the data set").json());
        found += 1;
    }
    black_box(answer);
    found
}

/// The raw side of the read-only mix.
struct RawReads {
    raw: Raw,
    latencies: Latencies,
    steps: Vec<Step>,
}

impl State for RawReads {
    fn settle(&self) {
        self.raw.settle();
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.raw.thread_counters()
    }

    fn begin(&self) {
        self.latencies.clear();
    }

    fn found(&self) -> Found {
        Found::default().latencies(&self.latencies)
    }
}

fn raw_client(reads: Arc<RawReads>) -> impl FnMut(u64) -> u64 + Send {
    let (stopwatch, mut first, mut answer) = (reads.latencies.stopwatch(), Vec::new(), Vec::new());
    key::record(1, "prod-00000000", &mut first);
    let mut key = Numbered::new(&first);
    move |index| {
        let key = key.with(u64::from(step(&reads.steps, index).record));
        stopwatch.time(Kind::Read as usize, || reads.raw.get(key).map_or(0, |bytes| copied(&bytes, &mut answer)))
    }
}
