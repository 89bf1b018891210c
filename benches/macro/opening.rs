//! Opening a store: after a clean stop, after a kill, and with a schema that has one index more or fewer.
//!
//! Each operation opens its own copy, made beforehand, and leaves it open until the row is over.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use strata::schema::Schema;
use strata::storage::Space;
use strata::transaction::Database;
use strata_harness::{Facts, Found, Latencies, OrRefused, State, Suite, Unit, size_on_disk};
use tempfile::TempDir;

use crate::load::stored;
use crate::prepared::{self, Ours, POOL, bodies_with_id, described, schema};
use crate::streams;
use crate::workload::{self, copy, facts, options, sized};

/// Operations that are timed, and the one before them.
const TIMED: u64 = 10;
const COPIES: u64 = TIMED + 1;

pub fn rows(suite: &mut Suite) {
    after(suite);
    indexes(suite);
}

/// A store whose last records are only in its log.
fn after(suite: &mut Suite) {
    let scale = suite.scale();
    let (n, last) = (workload::records(scale), sized(scale, 20_000, 200));
    for (case, kills) in [("after_clean_stop", false), ("after_kill", true)] {
        let about = opening(format!("opens a store and reads the last of {last} records that are only in its log"))
            .data(described(n + last))
            .state(format!("SST, one level; {last} records in the log"))
            .indexes(0);
        let setup = || {
            let store = if kills { killed(copy(0, n), "records", last) } else { stopped(copy(0, n), last) };
            Openings::of(&store, &["open"])
        };
        suite.row("open", "strata", case, about, setup, |openings: Arc<Openings>| {
            let stopwatch = openings.latencies.stopwatch();
            move |_| {
                stopwatch.time(0, || {
                    let ours = openings.open(schema(0));
                    let stored =
                        ours.database.read(ours.product(), &late_id(last - 1)).expect("a healthy store").is_some();
                    openings.keep(ours);
                    u64::from(stored)
                })
            }
        });
    }
}

/// A schema that has one index more or fewer than the store.
fn indexes(suite: &mut Suite) {
    let n = sized(suite.scale(), 100_000, 500);
    let case = "100000_records";
    let work = |openings: Arc<Openings>, indexes| {
        let stopwatch = openings.latencies.stopwatch();
        move |_: u64| {
            stopwatch.time(0, || openings.keep(openings.open(schema(indexes))));
            1
        }
    };
    let about = opening(format!("opens a store with a schema that has one index more, and builds it over {n} records"))
        .data(described(n))
        .state("SST, one level")
        .indexes(1);
    let setup = || Openings { entries: Some(n), ..Openings::of(&copy(0, n), &["build"]) };
    suite.row("index_build", "strata", case, about, setup, |openings| work(openings, 1));
    let about = opening(format!("opens a store with a schema that has one index fewer, and drops its {n} entries"))
        .data(described(n))
        .state("SST, one level")
        .indexes(0);
    let setup = || Openings { entries: Some(0), ..Openings::of(&copy(1, n), &["drop"]) };
    suite.row("index_drop", "strata", case, about, setup, |openings| work(openings, 0));
}

pub fn opening(op: String) -> Facts {
    facts(op, TIMED).changes_store(1, COPIES).unit(Unit::Operations, 1)
}

/// Copies of one closed store that are opened one after the other.
pub struct Openings {
    pub latencies: Latencies,
    closed: Mutex<Vec<TempDir>>,
    open: Mutex<Vec<Ours>>,
    /// The number of them that were opened before the clock started.
    warm: AtomicUsize,
    /// Bytes of a copy.
    bytes: u64,
    /// Index entries that an opened store must have.
    entries: Option<u64>,
}

impl Openings {
    pub fn of(store: &TempDir, kinds: &'static [&'static str]) -> Self {
        let closed = (0..COPIES).map(|_| prepared::copy_of(store.path())).collect();
        let bytes = size_on_disk(store.path());
        Self {
            latencies: Latencies::new(kinds),
            closed: Mutex::new(closed),
            open: Mutex::default(),
            warm: AtomicUsize::new(0),
            bytes,
            entries: None,
        }
    }

    pub fn open(&self, schema: Schema) -> Ours {
        let copy = self.closed.lock().pop();
        Ours::open_with(copy.expect("a copy for each operation"), schema, &options())
    }

    pub fn keep(&self, ours: Ours) {
        self.open.lock().push(ours);
    }
}

impl State for Openings {
    fn settle(&self) {
        self.open.lock().iter().for_each(State::settle);
    }

    fn begin(&self) {
        self.latencies.clear();
        self.warm.store(self.open.lock().len(), Ordering::Relaxed);
    }

    fn found(&self) -> Found {
        self.settle();
        let open = self.open.lock();
        let last = open.last().expect("a store was opened");
        if let Some(entries) = self.entries {
            assert_eq!(stored(last, Space::Indexes), entries, "entries of indexes in an opened store");
        }
        let found = Found::default().latencies(&self.latencies).measure("size_on_disk", self.bytes as f64, "bytes");
        let timed = &open[self.warm.load(Ordering::Relaxed)..];
        let written: u64 = timed.iter().map(Ours::bytes_written).sum();
        found.measure("bytes_written", written as f64, "bytes")
    }
}

fn late_id(number: u64) -> String {
    format!("late-{number:08}")
}

fn write_late(database: &Database, last: u64) {
    let mut bodies = bodies_with_id("late-00000000");
    for number in 0..last {
        let body = bodies[(number % POOL) as usize].with(number);
        database.create(&database.schema().tables[0], body).or_refused();
    }
}

/// A store that was stopped like a server: the log is synced, then everything is closed.
fn stopped(directory: TempDir, last: u64) -> TempDir {
    let database = Database::open(directory.path(), schema(0), &options()).expect("a store to open");
    write_late(&database, last);
    database.store().sync().expect("a healthy disk");
    drop(database);
    directory
}

/// Passes what is to be written, how many, and the directory of the store to the process that is to be killed.
const TO_BE_KILLED: &str = "STRATA_MACRO_TO_BE_KILLED";

/// A store that another process of this program had open when it was killed; it wrote `last` more, records or events.
pub fn killed(directory: TempDir, what: &str, last: u64) -> TempDir {
    let program = std::env::current_exe().expect("this program has a path");
    let order = format!("{what} {last} {}", directory.path().display());
    let mut child = Command::new(program)
        .env(TO_BE_KILLED, order)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let mut said = String::new();
    let output = child.stdout.take().expect("it was asked for");
    BufReader::new(output).read_line(&mut said).expect("it can be read");
    assert_eq!(said.trim(), WRITTEN, "what the process said that was to be killed");
    child.kill().expect("it lives");
    child.wait().expect("it was killed");
    directory
}

const WRITTEN: &str = "written";

/// Returns true if this is the process that is to be killed. If so, it first writes, reports that, and waits for its end.
pub fn is_to_be_killed() -> bool {
    let Ok(order) = std::env::var(TO_BE_KILLED) else { return false };
    let mut parts = order.splitn(3, ' ');
    let mut part = || parts.next().expect("what, how many, and a directory");
    let (what, last, directory) = (part(), part().parse().expect("a number"), Path::new(part()));
    let open = |schema| Database::open(directory, schema, &options()).expect("a store to open");
    // It stays open.
    let _database = if what == "events" {
        let database = open(streams::schema(streams::OPENED_PARTITIONS));
        streams::append(&database, last);
        database
    } else {
        let database = open(schema(0));
        write_late(&database, last);
        database
    };
    println!("{WRITTEN}");
    std::io::stdout().flush().expect("somebody listens");
    // Ends with its parent, if that does not kill it: the other end of the pipe is closed then.
    let _ = std::io::stdin().read_line(&mut String::new());
    true
}
