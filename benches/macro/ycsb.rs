//! The core workloads of YCSB, A to F, and reads of a store ten times its cache.
//!
//! The mixes are those of YCSB's `workloads/` (Cooper and others, "Benchmarking cloud serving systems with YCSB", SoCC 2010). Three things
//! differ: the law of popularity is over the records themselves, while YCSB draws from many more items and folds them, which spreads
//! its load more evenly; popular records are scattered over the ids by a permutation rather than a hash, so that no two ranks fall on
//! one record; and ids ascend as records are inserted (YCSB's `insertorder=ordered`). A uniform variant of each stands beside it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::storage::{self, Reach, Space};
use strata::transaction::Precondition;
use strata_harness::data::scatter;
use strata_harness::distribution::{Inserted, Random, Zipfian};
use strata_harness::{Found, Latencies, State, Stopwatch, Suite};

use crate::floor::Raw;
use crate::prepared::{Numbered, Ours, POOL, bodies, described, schema, soft};
use crate::verbs::copied;
use crate::workload::{self, Particular, SST, Workload, copy, facts, options, sized};

const THREADS: usize = 2;
/// The longest scan of workload E; lengths are even from 1.
const LONGEST_SCAN: u64 = 100;

/// What a client does; the number of a kind is its place in [`KINDS`].
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

pub fn rows(suite: &mut Suite) {
    let n = workload::records(suite.scale());
    for mix in &MIXES {
        for choice in [mix.popular, Choice::Uniform] {
            let operations = sized(suite.scale(), mix.operations, 2_000);
            let about = |op: &str| facts(op, operations).threads(THREADS).data(described(n)).state(SST).indexes(0);
            let ours = about(mix.op);
            let ours = match mix.name {
                "ycsb_c" => ours.floor("floor", 0.95, 0.98),
                _ => ours.changes_store(operations / 10, None).durability(soft()),
            };
            let setup = || state(mix, n, &options());
            let worker = |workload: Arc<Workload<Served>>| client(workload, mix, choice, operations);
            suite.row(mix.name, "strata", choice.name(), ours, setup, worker);
            if mix.name == "ycsb_c" {
                let floor = about("gets the stored bytes of one record, pinned, and copies them out");
                let setup = || RawReads {
                    raw: Raw::open(copy(0, n), options().cache_bytes),
                    latencies: Latencies::new(&["read"]),
                    workers: AtomicU64::new(0),
                };
                let worker = |reads: Arc<RawReads>| raw_client(reads, mix, choice, n, operations);
                suite.row(mix.name, "floor", choice.name(), floor, setup, worker);
            }
        }
    }
    larger_than_cache(suite);
}

/// The read-only mix with a cache of a tenth of the data.
fn larger_than_cache(suite: &mut Suite) {
    let (n, mix) = (workload::records(suite.scale()), &MIXES[2]);
    let cache_bytes = (n * RECORD_BYTES / 10) as usize;
    let small = storage::Options { cache_bytes, ..options() };
    for choice in [Choice::Zipfian, Choice::Uniform] {
        let operations = sized(suite.scale(), 100_000, 2_000);
        let about = facts("reads one record by id; the data are ten times the cache", operations)
            .threads(THREADS)
            .data(described(n))
            .state(format!("SST, larger than the cache of {} MiB", cache_bytes >> 20))
            .indexes(0);
        let setup = || state(mix, n, &small);
        let worker = |workload: Arc<Workload<Served>>| client(workload, mix, choice, operations);
        suite.row("larger_than_cache", "strata", &format!("{}_reads", choice.name()), about, setup, worker);
    }
}

/// Bytes of a stored record, about.
const RECORD_BYTES: u64 = 1_100;

/// What the clients of a mix share.
struct Served {
    mix: &'static Mix,
    records: u64,
    inserted: Inserted,
}

fn state(mix: &'static Mix, records: u64, options: &storage::Options) -> Workload<Served> {
    let ours = Ours::open_with(copy(0, records), schema(0), options);
    Workload::new(ours, &KINDS, Served { mix, records, inserted: Inserted::default() })
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

/// One operation that was decided beforehand.
struct Step {
    kind: Kind,
    /// Number of the record; of the latest distribution, how many are newer.
    record: u32,
    length: u8,
}

/// What one client will do, drawn outside every clock.
fn steps(mix: &Mix, choice: Choice, records: u64, client: u64, operations: u64) -> Vec<Step> {
    let mut random = Random::new(1 + client);
    let zipfian = Zipfian::new(records);
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
            Choice::Zipfian => scatter(zipfian.rank(&mut random), records),
            Choice::Latest => zipfian.rank(&mut random),
        };
        let length = 1 + random.below(LONGEST_SCAN) as u8;
        Step { kind, record: record as u32, length }
    };
    // The timed operations and the warm-up.
    (0..operations * 11 / 10 / THREADS as u64 + 1).map(step).collect()
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

fn client(
    workload: Arc<Workload<Served>>,
    mix: &Mix,
    choice: Choice,
    operations: u64,
) -> impl FnMut(u64) -> u64 + Send {
    let steps = steps(mix, choice, workload.particular.records, workload.number_of_worker(), operations);
    let with_id = |body: &Vec<u8>| Numbered::new(&[b"{\"id\":\"prod-00000000\",".as_slice(), &body[1..]].concat());
    let mut client = Client {
        stopwatch: workload.latencies.stopwatch(),
        id: Numbered::new(b"prod-00000000"),
        patch: Numbered::new(br#"{"stock":100000000}"#),
        bodies: bodies().iter().map(with_id).collect(),
        answer: Vec::new(),
        stock: workload.ours.product().attribute("stock").expect("an attribute of the data set"),
        workload,
    };
    let mut at = 0;
    move |index| {
        let step = &steps[at % steps.len()];
        at += 1;
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
    }
}

impl Client {
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
            u64::from(!changed.expect("a record of the data set").json().is_empty())
        })
    }

    fn insert(&mut self) -> u64 {
        let Workload { ours, particular, .. } = &*self.workload;
        let number = particular.inserted.next();
        let body = self.bodies[(number % POOL) as usize].with(particular.records + number);
        let created = self.stopwatch.time(Kind::Insert as usize, || {
            let created = ours.database.create(ours.product(), body).expect("an id that is free");
            u64::from(created.json().len() > 900)
        });
        particular.inserted.acknowledge(number);
        created
    }

    /// Finds as many records as there are, at the most `length`.
    fn scan(&mut self, record: u64, length: u64) -> u64 {
        let Workload { ours, particular, .. } = &*self.workload;
        let there = length.min(particular.records - record);
        let (id, answer) = (id_of(&mut self.id, record), &mut self.answer);
        let found = self.stopwatch.time(Kind::Scan as usize, || scanned(ours, id, length, answer));
        u64::from((there..=length).contains(&found))
    }

    fn read_modify_write(&mut self, record: u64) -> u64 {
        let (ours, id, stock) = (&self.workload.ours, id_of(&mut self.id, record), self.stock);
        self.stopwatch.time(Kind::ReadModifyWrite as usize, || {
            let changed = ours.database.update(ours.product(), id, |record| {
                let mut fields = vec![None; record.table().attributes.len()];
                if let Value::Int(before) = record.value(stock)? {
                    fields[stock] = Some(Value::Int(before + 1));
                }
                Ok(fields)
            });
            u64::from(!changed.expect("a record of the data set").json().is_empty())
        })
    }
}

fn id_of(id: &mut Numbered, record: u64) -> &str {
    std::str::from_utf8(id.with(record)).expect("digits and letters")
}

/// Copies the JSON of up to `limit` records out, from an id on, as of one moment.
fn scanned(ours: &Ours, id: &str, limit: u64, answer: &mut Vec<u8>) -> u64 {
    let (store, table, mut found) = (ours.database.store(), ours.product(), 0);
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    key::record(table.id, id, &mut lower);
    key::record(table.id + 1, "", &mut upper);
    answer.clear();
    let snapshot = store.snapshot();
    let mut scan = store.scan(Space::Records, &lower, &upper, &snapshot, Reach::Disk);
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
    workers: AtomicU64,
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

fn raw_client(
    reads: Arc<RawReads>,
    mix: &Mix,
    choice: Choice,
    records: u64,
    operations: u64,
) -> impl FnMut(u64) -> u64 + Send {
    let client = reads.workers.fetch_add(1, Ordering::Relaxed);
    let steps = steps(mix, choice, records, client, operations);
    let (stopwatch, mut first, mut answer, mut at) = (reads.latencies.stopwatch(), Vec::new(), Vec::new(), 0);
    key::record(1, "prod-00000000", &mut first);
    let mut key = Numbered::new(&first);
    move |_| {
        let key = key.with(u64::from(steps[at % steps.len()].record));
        at += 1;
        stopwatch.time(Kind::Read as usize, || reads.raw.get(key).map_or(0, |bytes| copied(&bytes, &mut answer)))
    }
}
