//! Results that a report of this kind has printed, each small change of one that holds, and the rule that `load check` names.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use strata_load::clocks::Cpu;
use strata_load::expectation::Failure;
use strata_load::ledger::Account;
use strata_load::result::{Cell, Counters, Counts, FORMAT, Loop, Processes, Run, Setup, Validity, Window};
use strata_load::rules;
use strata_load::scenario::{Row, Scenario};
use strata_load::stored;
use strata_load::streams::promises::{Kept, Promises};
use strata_load::tls::Negotiated;

/// A wrong result.
#[derive(Deserialize)]
struct Wrong {
    /// The error, in words.
    story: String,
    /// The rule that names it.
    rule: String,
    /// Which right result it was: open or closed.
    of: String,
    /// JSON pointers and what stands there.
    set: BTreeMap<String, Value>,
}

const SCENARIO: &str = r#"
name = "two"
about = "two operations, each half"
effects = [{ counter = "gets", operations = ["get"], each = 1.0 }]
data = { schema = "", table = "row", rows = 1000, row = "row-{n}" }
objectives = [{ operation = "get", bound = { throughput_at_least = 10.0 } }]

[load]
connections = 2
LOOP

[[operations]]
name = "get"
weight = 1.0
method = "GET"
path = "/row/{n}"
expect = { status = 200, bytes = 100 }

[[operations]]
name = "delete"
weight = 1.0
method = "DELETE"
path = "/row/{n}"
expect = { status = 204, bytes = 0 }
"#;

/// A run of 20 s: of each operation 1000 requests that take 10 us to 10 ms, ten of the reads being refused.
fn right(open: bool) -> Run {
    let closed_loop = "requests = 2000";
    let open_loop = "schedule = { shape = \"constant\", rate = 100.0, seconds = 20.0 }";
    let text = SCENARIO.replace("LOOP", if open { open_loop } else { closed_loop });
    let scenario = Scenario::parse("two.toml", &text).unwrap();
    let accounts = [account(10, 100), account(0, 0)];
    let names = ["get", "delete"];
    let cells: Vec<_> = names.iter().zip(&accounts).map(|(name, account)| Cell::of(name, account, open)).collect();
    let total = cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
    // Of the users' 40 s, what is not in requests is their own.
    let busy = |account: &Account| {
        let failed: f64 = account.failed.values().map(|times| times.mean() * times.len() as f64).sum();
        (account.service.mean() * account.service.len() as f64 + failed) / 1e9
    };
    let think = 40.0 - accounts.iter().map(busy).sum::<f64>();
    let counters = |gets| Some([("gets".to_owned(), gets)].into_iter().collect());
    let mut run = Run {
        format: FORMAT,
        id: "two-1".to_owned(),
        began_unix_seconds: 1,
        r#loop: if open { Loop::Open } else { Loop::Closed },
        tls: Some(Negotiated {
            version: "TLSv1_3".to_owned(),
            suite: "TLS13_AES_256_GCM_SHA384".to_owned(),
            key_exchange: "X25519".to_owned(),
            alpn: Some("http/1.1".to_owned()),
        }),
        server_configuration: Some(json!({})),
        processors: 2,
        plan: names.map(str::to_owned).to_vec(),
        setup: Setup { rows_written: Some(1000), rows_found: Some(1000), warm_up: Counts::default() },
        window: Window { seconds: 20.0, arrivals_seconds: open.then_some(20.0) },
        throughput: total.ok as f64 / 20.0,
        cells,
        stages: Vec::new(),
        total,
        processes: Processes {
            client: Cpu { user_seconds: 1.0, system_seconds: 1.0 },
            server: Some(Cpu { user_seconds: 1.0, system_seconds: 1.0 }),
            server_throughout: None,
            read_over_seconds: Some(20.1),
            busiest_client_thread: 0.1,
            client_thread_demand: 0.1,
            missed_arrivals: 0,
            client_run_queue_wait_seconds: Some(0.1),
            think_seconds: (!open).then_some(think),
        },
        ceiling: None,
        pinned: None,
        held: Vec::new(),
        brokers: Vec::new(),
        beside: Vec::new(),
        checks: Vec::new(),
        feeds: Vec::new(),
        promises: None,
        kills: None,
        subscribers: None,
        multicasts: None,
        quota: None,
        counters: Counters { before: counters(5), after: counters(995) },
        objectives: Vec::new(),
        validity: Validity::Valid,
        broken: Vec::new(),
        aborted: false,
        scenario,
    };
    run.objectives = rules::judged(&run);
    run
}

fn account(failed: u64, bytes: u64) -> Account {
    let mut account = Account { scheduled: 1000, sent: 1000, ok: 1000 - failed, ..Account::default() };
    for number in 1..=1000u64 {
        let took = Duration::from_micros(10 * number).as_nanos() as u64;
        account.send_lag.record(1000).unwrap();
        if number <= failed {
            let empty = Account::default().service;
            account.failed.entry(Failure::Status(503)).or_insert(empty).record(took).unwrap();
        } else {
            account.service.record(took).unwrap();
            account.response.record(took + 1000).unwrap();
        }
    }
    account.body_bytes_received = account.ok * bytes + failed * 20;
    account.ok_by_second = vec![50; 20];
    account.ok_by_second[0] -= failed;
    account
}

fn set(whole: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match whole.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
        Value::Object(object) => drop(object.insert(name.to_owned(), value.clone())),
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value.clone(),
        other => panic!("{parent} is {other}"),
    }
}

fn check(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load")).arg("check").arg(folder).output().unwrap()
}

fn text(of: &str) -> Value {
    serde_json::to_value(right(of == "open")).unwrap()
}

#[test]
fn right_results_are_left_in_peace() {
    for of in ["open", "closed"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("right.json"), text(of).to_string()).unwrap();
        let output = check(folder.path());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{of}");
        assert_eq!(output.status.code(), Some(0), "{of}");
    }
}

#[test]
fn in_format_1_a_window_ended_with_the_last_response() {
    let mut early = text("open");
    for (pointer, value) in [
        ("/window/seconds", json!(19.995)),
        ("/throughput", json!(1990.0 / 19.995)),
        ("/objectives/0/measured", json!(990.0 / 19.995)),
    ] {
        set(&mut early, pointer, &value);
    }
    for (format, code) in [(1, Some(0)), (2, Some(1)), (3, Some(1))] {
        set(&mut early, "/format", &json!(format));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("early.json"), early.to_string()).unwrap();
        let said = check(folder.path());
        assert_eq!(said.status.code(), code, "format {format}: {}", String::from_utf8_lossy(&said.stdout));
    }
}

#[test]
fn each_wrong_result_is_refused_by_the_name_of_its_rule() {
    let wrong: Vec<Wrong> = serde_json::from_str(include_str!("wrong_results.json")).unwrap();
    assert!(wrong.len() >= 30, "{}", wrong.len());
    for Wrong { story, rule, of, set: changes } in wrong {
        let mut result = text(&of);
        changes.iter().for_each(|(pointer, value)| set(&mut result, pointer, value));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("wrong.json"), result.to_string()).unwrap();
        let output = check(folder.path());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{story}: {said}");
        assert!(said.lines().any(|line| line.contains(&format!("json: {rule}: "))), "{story}: {rule} is not in {said}");
    }
}

#[test]
fn statistics_are_compared_with_the_histograms_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    stored::store(&right(true), folder.path(), &[account(10, 100), account(0, 0)]).unwrap();
    assert_eq!(check(folder.path()).status.code(), Some(0));
    let log = folder.path().join("two-1.hlog");
    let whole = std::fs::read_to_string(&log).unwrap();
    let of_the_other =
        whole.replace("Tag=get.", "Tag=a.").replace("Tag=delete.", "Tag=get.").replace("Tag=a.", "Tag=delete.");
    for wrong in [of_the_other, whole.replace("HISTF", "HISTG"), whole.lines().take(5).collect()] {
        std::fs::write(&log, wrong).unwrap();
        let output = check(folder.path());
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stdout).unwrap().contains("json: T8: "));
    }
}

/// The points in this result were computed from these histograms by another program.
#[test]
fn the_points_of_a_curve_are_those_of_its_histogram() {
    let (result, log) =
        (include_str!("../../run_benches/tests/fakes/load_result.json"), include_bytes!("load_result.hlog"));
    let mut run: Run = serde_json::from_str(result).unwrap();
    let points =
        |run: &Run| run.cells.iter().flat_map(|cell| &cell.service).map(|times| times.curve.len()).sum::<usize>();
    assert!(points(&run) > 50);
    assert_eq!(stored::differences(&run, log), Ok(vec![]));
    let moved = run.cells[0].service.as_mut().and_then(|times| times.curve.last_mut()).unwrap();
    moved.value = moved.value.map(|value| value + 1);
    assert_eq!(stored::differences(&run, log).unwrap().len(), 1);
}

/// The right result of two operations of which the first appends, as if its events had been read back.
fn read_back(wrong: &[(&str, Value)]) -> String {
    let mut run = right(false);
    run.scenario.data.stream = run.scenario.data.table.take();
    let operation = &mut run.scenario.operations[0];
    (operation.row, operation.expect.rows) = (Row::New, Some(1));
    operation.body = Some(r#"{{"payload":{n}}}"#.to_owned().try_into().unwrap());
    operation.acknowledges = Some(toml::from_str("partition = \"/partition\"\noffset = \"/offset\"").unwrap());
    let kept = Kept { checked: 2000, wrong: 0 };
    run.promises = Some(Promises {
        gapless: kept,
        in_place: kept,
        in_order: kept,
        whole: kept,
        keys_once: kept,
        offsets_once: kept,
        sent: kept,
    });
    let mut result = serde_json::to_value(run).unwrap();
    wrong.iter().for_each(|(pointer, value)| set(&mut result, pointer, value));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.json"), result.to_string()).unwrap();
    String::from_utf8(check(folder.path()).stdout).unwrap()
}

#[test]
fn a_broken_promise_of_a_stream_is_refused_by_its_name() {
    assert_eq!(read_back(&[]), "");
    for (promise, rule) in [
        ("gapless", "S1"),
        ("in_place", "S2"),
        ("in_order", "S3"),
        ("whole", "S4"),
        ("keys_once", "S5"),
        ("offsets_once", "T13"),
        ("sent", "T13"),
    ] {
        let said = read_back(&[(&format!("/promises/{promise}/wrong"), json!(1))]);
        assert!(said.contains(&format!("json: {rule}: ")), "{promise}: {said}");
    }
    for wrong in [("/promises", Value::Null), ("/promises/in_place/checked", json!(0))] {
        let said = read_back(std::slice::from_ref(&wrong));
        assert!(said.contains("json: T14: "), "{wrong:?}: {said}");
    }
}

#[test]
fn two_results_of_one_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.json", "b.json"] {
        std::fs::write(folder.path().join(name), text("open").to_string()).unwrap();
    }
    assert!(String::from_utf8(check(folder.path()).stdout).unwrap().contains("T25"));
}
