//! Each fault is counted in its class and in no other, and the run is believed: a server that fails is measured, not an invalid run.

use std::time::Duration;

use strata_load::result::{Run, Validity};
use strata_load::run::run;
use strata_load::server::Server;
use strata_load::stored;

use crate::faulty_server::{self, Fault};

fn measure(script: fn(u64) -> Fault, load: &str) -> Run {
    let server = Server::at(&faulty_server::start(script), false, None).unwrap();
    run(&faulty_server::scenario(load), &server, true).unwrap().0
}

fn classes(run: &Run) -> Vec<(&str, u64)> {
    run.total.failed.iter().map(|(class, count)| (class.as_str(), *count)).collect()
}

#[test]
fn faults_are_counted_in_their_classes() {
    let script = |number| match number % 10 {
        2 => Fault::Broken,
        3 => Fault::Unavailable,
        5 => Fault::WrongBody,
        7 => Fault::Dropped,
        _ => Fault::None,
    };
    let run = measure(script, "connections = 4\nthreads = 2\nrequests = 1000\nwarm_up_requests = 0");
    assert_eq!(classes(&run), [("body", 100), ("broken", 100), ("connection", 100), ("status_503", 100)]);
    assert_eq!((run.total.scheduled, run.total.ok, run.total.dropped, run.total.censored), (1000, 600, 0, 0));
    assert_ne!(run.validity, Validity::Invalid, "{:?}", run.broken);
    let counters = |counters: &Option<std::collections::BTreeMap<String, u64>>| counters.as_ref().unwrap()["right"];
    assert_eq!(counters(&run.counters.after) - counters(&run.counters.before), 600);
    assert_eq!(run.cells[0].service.as_ref().unwrap().count, 600);
}

#[test]
#[ignore = "it takes some ten seconds and all processors"]
fn a_million_requests_are_counted_the_same_on_both_sides() {
    let script = |number| match number % 1000 {
        2 => Fault::Broken,
        7 => Fault::Dropped,
        rest if rest % 10 == 3 => Fault::Unavailable,
        rest if rest % 10 == 5 => Fault::WrongBody,
        _ => Fault::None,
    };
    let run = measure(script, "connections = 16\nthreads = 2\nrequests = 1000000\nwarm_up_requests = 0");
    assert_eq!(classes(&run), [("body", 100_000), ("broken", 1000), ("connection", 1000), ("status_503", 100_000)]);
    assert_eq!((run.total.scheduled, run.total.ok), (1_000_000, 798_000));
    let counters = |counters: &Option<std::collections::BTreeMap<String, u64>>| counters.as_ref().unwrap()["right"];
    assert_eq!(counters(&run.counters.after) - counters(&run.counters.before), run.total.ok);
    assert_ne!(run.validity, Validity::Invalid, "{:?}", run.broken);
}

#[test]
fn a_run_without_faults_is_believed_and_judged_the_same_from_its_file() {
    let run = measure(|_| Fault::None, "connections = 4\nseconds = 1.0\nwarm_up_requests = 100");
    assert_eq!(run.broken, [""; 0]);
    let folder = tempfile::tempdir().unwrap();
    stored::store(&run, folder.path(), &[]).unwrap();
    let file = folder.path().join(format!("{}.json", run.id));
    let read: Run = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(read, run);
    assert_eq!(strata_load::rules::check(&read), []);
    assert!(stored::store(&run, folder.path(), &[]).is_err(), "a result is not written over");
}

#[test]
fn a_warm_up_that_fails_ends_the_run() {
    let server = Server::at(&faulty_server::start(|_| Fault::WrongBody), false, None).unwrap();
    let error = run(&faulty_server::scenario("connections = 1\nrequests = 10"), &server, true).unwrap_err();
    assert!(error.contains("warm-up"), "{error}");
}

#[test]
fn what_has_no_end_is_censored_and_beyond_all_measured() {
    let script = |number| if number < 20 { Fault::None } else { Fault::Slow(Duration::from_secs(60)) };
    let load = "connections = 2\nqueue = 5\nwarm_up_requests = 0\ndrain_seconds = 0.2\nschedule = { shape = \"constant\", rate = 100.0, seconds = 1.0 }";
    let run = measure(script, load);
    // Two are in flight for ever, and behind them stand no more than the queue holds: these are dropped with all others.
    assert_eq!((run.total.scheduled, run.total.sent, run.total.ok, run.total.censored), (100, 22, 20, 2));
    assert_eq!(run.total.dropped, 78);
    let response = run.cells[0].response.as_ref().unwrap();
    assert_eq!((response.count, response.beyond, response.at(0.5)), (20, 80, Some(None)));
    assert_ne!(run.validity, Validity::Invalid, "{:?}", run.broken);
}

#[test]
fn a_slow_body_is_within_the_time_and_a_slower_one_is_a_time_out() {
    let slow = |_| Fault::Slow(Duration::from_millis(20));
    let run = measure(slow, "connections = 1\nrequests = 10\nwarm_up_requests = 0");
    assert!(run.cells[0].service.as_ref().unwrap().min >= 19_900_000);
    let slower = |_| Fault::Slow(Duration::from_secs(60));
    let run = measure(slower, "connections = 1\nrequests = 2\nwarm_up_requests = 0\ntimeout_seconds = 0.1");
    assert_eq!(classes(&run), [("timeout", 2)]);
    assert_eq!(run.total.ok, 0);
    assert!(run.cells[0].service.is_none());
}

#[test]
fn what_follows_from_an_answer_that_holds_no_rows_is_wrong() {
    let server = Server::at(&faulty_server::start(|_| Fault::None), false, None).unwrap();
    let mut scenario = faulty_server::scenario("connections = 1\nrequests = 10\nwarm_up_requests = 0");
    scenario.operations[0].follow = vec![toml::from_str("key = \"/a\"\npath = \"/row/\"\nhas = \"/a\"").unwrap()];
    let run = run(&scenario, &server, true).unwrap().0;
    assert_eq!((classes(&run), run.total.ok), (vec![("body", 10)], 0));
}
