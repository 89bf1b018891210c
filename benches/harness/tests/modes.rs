//! Every way to run a bench target, tried on a real one: this program runs itself as the target.
//!
//! It has its own `main`, because arguments and environment belong to a process: what `--list` does can be seen only from outside.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;
use strata_harness::{Facts, Found, Latencies, OrRefused, State, Suite, suite, temporary_directory};

const AS_TARGET: &str = "STRATA_TEST_AS_TARGET";

fn main() {
    if std::env::var_os(AS_TARGET).is_some() {
        return suite("test", target);
    }
    lists_without_set_up();
    smoke_runs_a_handful();
    a_row_that_changes_its_store_is_renewed();
    a_workload_goes_on_on_one_state();
    counts_exactly();
    what_is_counted_is_in_the_facts();
    a_row_that_is_not_there_is_not_counted();
    finding_nothing_fails();
    what_is_refused_says_why_in_every_mode();
    println!("modes: 9 checks passed");
}

/// A state that counts the operations it has served, begins above zero, and does half of the work in the background.
struct Tally {
    served: AtomicU64,
    settled: AtomicU64,
}

impl State for Tally {
    fn settle(&self) {
        self.settled.store(self.served.load(Relaxed), Relaxed);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("operations", self.served.load(Relaxed)), ("written_behind", self.settled.load(Relaxed))]
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("operations_of_thread", self.served.load(Relaxed))]
    }
}

/// A workload that times each operation.
struct Work {
    latencies: Latencies,
}

impl State for Work {
    fn begin(&self) {
        self.latencies.clear();
    }

    fn found(&self) -> Found {
        Found::default().latencies(&self.latencies).measure("work_done", 0.5, "share")
    }
}

/// The target: says on stderr when a row is set up and, for the counted row, when it runs.
fn target(suite: &mut Suite) {
    suite.engine(serde_json::json!({ "cache_bytes": 1024 }));
    let said = |what: &'static str| move || eprintln!("set up {what}");
    let count = |_| {
        |index| {
            eprintln!("ran {index}");
            1
        }
    };
    suite.row("read", "strata", "small", Facts::new("reads").floor("floor", 0.95, 0.98), said("read"), count);
    let changing = Facts::new("writes").changes_store(100, 1000).threads(2);
    suite.row("write", "strata", "small", changing, said("write"), |_| |_| 1);
    let refuses = std::env::var_os("STRATA_TEST_REFUSE").is_some();
    let nothing = if std::env::var_os("STRATA_TEST_FIND_NOTHING").is_some() { 0 } else { 1 };
    let tally = || Tally { served: AtomicU64::new(1000), settled: AtomicU64::new(0) };
    suite.row("tally", "strata", "small", Facts::new("allocates twice"), tally, |tally: Arc<Tally>| {
        move |_| {
            tally.served.fetch_add(1, Relaxed);
            *black_box(Box::new(0)) + *black_box(Box::new(1))
        }
    });
    let work = || {
        eprintln!("set up work");
        Work { latencies: Latencies::new(&["even", "odd"]) }
    };
    suite.row("work", "strata", "small", Facts::new("works").workload(300).threads(2), work, |work: Arc<Work>| {
        let stopwatch = work.latencies.stopwatch();
        move |index| stopwatch.time(index as usize % 2, || black_box(1))
    });
    suite.row("find", "strata", "small", Facts::new("finds"), said("find"), |_| {
        move |_| {
            let found = if refuses { Err("no room left") } else { Ok(nothing) };
            found.or_refused()
        }
    });
}

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> (Output, String) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    let home = temporary_directory();
    command.args(arguments).env(AS_TARGET, "1").env("CRITERION_HOME", home.path()).envs(environment.iter().copied());
    let output = command.output().expect("this program starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, stderr)
}

fn facts_in(folder: &Path) -> Value {
    let files: Vec<_> =
        fs::read_dir(folder).expect("the folder is there").flatten().map(|entry| entry.path()).collect();
    assert_eq!(files.len(), 1, "one process, one file: {files:?}");
    serde_json::from_slice(&fs::read(&files[0]).expect("it can be read")).expect("it is JSON")
}

fn lists_without_set_up() {
    let facts = temporary_directory();
    let path = facts.path().to_str().expect("the path is text");
    let (output, stderr) = run(&["--bench", "--list"], &[("STRATA_FACTS_DIR", path)]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("test/read/strata/small: benchmark"), "{listed}");
    assert!(!stderr.contains("set up"), "{stderr}");

    let facts = facts_in(facts.path());
    assert_eq!(facts["schema"], 2);
    assert_eq!(facts["engine"]["cache_bytes"], 1024);
    assert_eq!(facts["process"]["scale"], "full");
    assert_eq!(facts["rows"].as_object().map(serde_json::Map::len), Some(5));
    assert_eq!(facts["rows"]["test/read/strata/small"]["floor"]["id"], "test/read/floor/small");
    assert_eq!(facts["rows"]["test/write/strata/small"]["capacity"], 1000);
    assert!(facts["rows"]["test/read/strata/small"].get("timed_operations").is_none(), "did not run");
}

fn smoke_runs_a_handful() {
    let facts = temporary_directory();
    let path = facts.path().to_str().expect("the path is text");
    let (output, stderr) = run(&["test/read"], &[("STRATA_FACTS_DIR", path)]);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr.matches("set up").count(), 1, "rows that are filtered out are not set up: {stderr}");
    let facts = facts_in(facts.path());
    assert_eq!(facts["rows"]["test/read/strata/small"]["timed_operations"], 8);
    assert!(facts["rows"]["test/find/strata/small"].get("timed_operations").is_none());
}

fn a_row_that_changes_its_store_is_renewed() {
    let settings = ["--bench", "--noplot", "--sample-size", "10", "--measurement-time", "0.1", "test/write"];
    let facts = temporary_directory();
    let path = facts.path().to_str().expect("the path is text");
    let (output, stderr) = run(&settings, &[("STRATA_FACTS_DIR", path), ("STRATA_DRIVEN", "1")]);
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr.matches("set up").count(), 12, "the probe, the warm-up, ten samples: {stderr}");
    assert_eq!(facts_in(facts.path())["rows"]["test/write/strata/small"]["timed_operations"], 1100);
}

fn a_workload_goes_on_on_one_state() {
    for (arguments, parts) in [(["--bench", "--noplot", "test/work"].as_slice(), 10), (&["test/work"], 1)] {
        let facts = temporary_directory();
        let path = facts.path().to_str().expect("the path is text");
        let (output, stderr) = run(arguments, &[("STRATA_FACTS_DIR", path), ("STRATA_DRIVEN", "1")]);
        assert!(output.status.success(), "{stderr}");
        assert_eq!(stderr.matches("set up").count(), 1, "{stderr}");
        let facts = facts_in(facts.path());
        let seen = &facts["rows"]["test/work/strata/small"];
        assert_eq!(seen["timed_operations"], parts * 300);
        for kind in ["even", "odd"] {
            let latency = &seen["latencies"][kind];
            assert_eq!(latency["count"], parts * 150, "without the warm-up: {latency}");
            assert_eq!(latency["p999_ns"], Value::Null, "one operation of a thousand is too few");
            assert!(latency["p50_ns"].is_number());
        }
        assert_eq!(seen["measures"], serde_json::json!({ "work_done": { "value": 0.5, "unit": "share" } }));
        let other = &facts["rows"]["test/read/strata/small"];
        assert!(other.get("measures").is_none() && other["workload"] == false);
    }
}

fn counts_exactly() {
    let (output, stderr) = run(&["--bench"], &[("STRATA_COUNT", "5"), ("STRATA_ROW", "test/read/strata/small")]);
    assert!(output.status.success(), "{stderr}");
    let ran: Vec<&str> = stderr.lines().collect();
    assert_eq!(ran, ["set up read", "ran 0", "ran 1", "ran 2", "ran 3", "ran 4"]);
}

fn what_is_counted_is_in_the_facts() {
    let facts = temporary_directory();
    let path = facts.path().to_str().expect("the path is text");
    let row = "test/tally/strata/small";
    let settings = [("STRATA_COUNT", "7"), ("STRATA_ROW", row), ("STRATA_FACTS_DIR", path)];
    let (output, stderr) = run(&["--bench"], &settings);
    assert!(output.status.success(), "{stderr}");
    let facts = facts_in(facts.path());
    assert_eq!(facts["process"]["mode"], "counted");
    let seen = &facts["rows"][row];
    assert_eq!((&seen["timed_operations"], &seen["allocations_per_operation"]), (&7.into(), &2.0.into()));
    let expected = serde_json::json!({ "operations": 7, "written_behind": 7, "operations_of_thread": 7 });
    assert_eq!(seen["counters"], expected, "growth within the operations and what they left to the background");
    assert!(facts["rows"]["test/read/strata/small"].get("timed_operations").is_none(), "another row");
}

fn a_row_that_is_not_there_is_not_counted() {
    let (output, stderr) = run(&["--bench"], &[("STRATA_COUNT", "5"), ("STRATA_ROW", "test/read/strata/large")]);
    assert!(!output.status.success());
    assert!(stderr.contains("no row has the id test/read/strata/large"), "{stderr}");
}

fn finding_nothing_fails() {
    let (output, stderr) = run(&["test/find"], &[("STRATA_TEST_FIND_NOTHING", "1")]);
    assert!(!output.status.success());
    assert!(stderr.contains("left: found, right: expected"), "{stderr}");
}

fn what_is_refused_says_why_in_every_mode() {
    let refuse = ("STRATA_TEST_REFUSE", "1");
    let driven = ["--bench", "--noplot", "--sample-size", "10", "--measurement-time", "0.1", "test/find"];
    let counted = [refuse, ("STRATA_ROW", "test/find/strata/small"), ("STRATA_COUNT", "5")];
    let by_hand = run(&["test/find"], &[refuse]);
    for (output, stderr) in [by_hand, run(&driven, &[refuse, ("STRATA_DRIVEN", "1")]), run(&["--bench"], &counted)] {
        assert!(!output.status.success());
        assert!(stderr.lines().any(|line| line == "strata-harness: refused: \"no room left\""), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
