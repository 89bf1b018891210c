//! Messages, held against what their subscribers received: what a scenario says of them, and each fault of a server by the rule for it.

use std::time::{Duration, Instant};

use strata_load::result::{Multicasts, Outcome, Run};
use strata_load::rules;
use strata_load::run::run;
use strata_load::scenario::{Scenario, Steps};
use strata_load::server::Server;

use crate::faulty_multicast::{self, Fault};

/// A hundred messages, each to the four devices of a room.
const SCENARIO: &str = r#"
name = "devices"
about = "messages to the devices of the server with faults"
tls = false
effects = [{ counter = "multicast.messages", operations = ["multicast"], each = 1.0 }]
data = { schema = "", table = "Device", rows = 8, row = '{{"id":"d{n}"}}' }

[[subscribers]]
count = 8
path = "/Device/d{n}?stream=sse"
call = "/message/call"
each = { "/message/room" = "r{n%2}" }

[load]
connections = 2
requests = 100
warm_up_requests = 4
drain_seconds = 1.0

[[operations]]
name = "multicast"
weight = 1.0
method = "POST"
path = "/Device/multicast?room==r{n%2}"
body = '{{"call":{call},"room":"r{n%2}"}}'
expect = { status = 200, has = { "/failed" = "0" }, between = { "/targets" = [4, 5] } }
"#;

/// The text of the scenario with changes.
pub fn text(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(SCENARIO.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// The scenario with changes.
pub fn changed(changes: &[(&str, &str)]) -> Scenario {
    Scenario::parse("devices.toml", &text(changes)).unwrap()
}

fn measure(fault: Fault, scenario: &Scenario) -> Result<Run, String> {
    let server = Server::at(&faulty_multicast::start(fault), false, None).unwrap();
    run(scenario, &server, true).map(|(run, _)| run)
}

fn found(run: &Run) -> &Multicasts {
    run.multicasts.as_ref().unwrap()
}

fn wrong(run: &Run) -> [u64; 4] {
    let Multicasts { lost, doubled, stray, ended, .. } = *found(run);
    [lost, doubled, stray, ended]
}

/// Half a second of an open loop, a hundred messages a second.
const OPEN: (&str, &str) = ("requests = 100", "schedule = { shape = \"constant\", rate = 100.0, seconds = 0.5 }");

#[test]
fn each_fault_is_named() {
    // One message of ten, from the eighth on: ten of these and of the warm-up.
    for (fault, expected) in [
        (Fault::Twice, [0, 10, 0, 0]),
        (Fault::LeavesOut, [10, 0, 0, 0]),
        (Fault::SaysMore, [10, 0, 0, 0]),
        (Fault::Neighbour, [10, 0, 10, 0]),
        (Fault::Nameless, [40, 0, 40, 0]),
        (Fault::Never, [10, 0, 0, 0]),
    ] {
        let run = measure(fault, &changed(&[])).unwrap();
        assert_eq!(wrong(&run), expected, "{fault:?}: {:?}", run.broken);
        assert!(run.broken.len() == 1 && run.broken[0].starts_with("T26: "), "{fault:?}: {:?}", run.broken);
    }
    let run = measure(Fault::Ends, &changed(&[])).unwrap();
    let [lost, doubled, stray, ended] = wrong(&run);
    assert_eq!((lost > 0, doubled, stray, ended), (true, 0, 0, 1));
    assert!(run.broken.len() == 2 && run.broken[1] == "T26: 1 subscribers were ended", "{:?}", run.broken);
}

#[test]
fn a_neighbour_is_told_from_a_target_by_what_each_may_be_sent() {
    // So many devices have it as the answer says.
    let run = measure(Fault::Neighbour, &changed(&[("each = { \"/message/room\" = \"r{n%2}\" }", "")])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
}

#[test]
fn who_is_meant_may_be_said_by_a_number() {
    // Each of the warm-up and of the load is to rooms of devices from 0 to 7.
    let below = |number: &str| {
        let body = format!("\"room\":\"r{{n%2}}\",\"below\":{number}}}}}'");
        let changes = [("each = {", "below = \"/message/below\"\neach = {"), ("\"room\":\"r{n%2}\"}}'", &*body)];
        measure(Fault::None, &changed(&changes)).unwrap()
    };
    assert_eq!(wrong(&below("8")), [0; 4]);
    // Of four devices each, one is the last.
    let run = below("6");
    assert_eq!(wrong(&run), [104, 0, 104, 0], "{:?}", run.broken);
}

#[test]
fn what_is_right_is_counted_at_both_ends() {
    let objectives = r#"
[[objectives]]
operation = "multicast"
bound = { last_lag = { quantile = 0.5, at_most_ms = 60000.0 } }
[[objectives]]
bound = { last_lag = { quantile = 0.5, at_most_ms = 1e-6 } }
[[operations]]"#;
    let run = measure(Fault::None, &changed(&[OPEN, ("[[operations]]", objectives)])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    let Multicasts { answered, answered_in_warm_up, targets, delivered, received, .. } = *found(&run);
    assert_eq!((answered, answered_in_warm_up, targets, delivered, received), (50, 4, 200, 200, 200));
    let samples = [&found(&run).lag, &found(&run).last_lag].map(|lag| lag.as_ref().unwrap().count);
    assert_eq!(samples, [200, 50]);
    let by_fan_out: Vec<_> = found(&run).by_fan_out.iter().map(|own| (own.up_to, own.answered, own.received)).collect();
    assert_eq!(by_fan_out, [(Some(100), 50, 200)]);
    let passed: Vec<_> = run.objectives.iter().map(|judged| judged.outcome == Outcome::Pass).collect();
    assert_eq!(passed, [true, false], "{:?}", run.objectives);
    let text = strata_load::table::text(&run);
    for said in ["messages 50, targets 200, received 200, lost 0", "deliveries/s: ", "to the last of up to 100"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let read: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!((rules::check(&read), read), (vec![], run));
}

#[test]
fn figures_of_messages_in_a_result_are_checked() {
    let run = measure(Fault::None, &changed(&[])).unwrap();
    assert_eq!(run.broken, [""; 0]);
    let named = |change: fn(&mut Multicasts), rule: &str| {
        let mut wrong = run.clone();
        change(wrong.multicasts.as_mut().unwrap());
        let broken = rules::broken(&wrong);
        assert!(broken.iter().any(|broken| broken.rule == rule), "{rule}: {broken:?}");
    };
    named(|found| found.lost = 1, "T26");
    named(|found| found.doubled = 1, "T26");
    named(|found| found.stray = 1, "T26");
    named(|found| found.ended = 1, "T26");
    named(|found| found.delivered += 1, "T26");
    named(|found| (found.delivered, found.targets) = (found.delivered + 1, found.targets + 1), "T26");
    named(|found| found.received -= 1, "T26");
    named(|found| found.by_fan_out.clear(), "T26");
    named(|found| found.lag = None, "T26");
    named(|found| found.last_lag = None, "T26");
    named(|found| found.answered += 1, "T13");
    let mut wrong = run.clone();
    wrong.multicasts = None;
    assert!(rules::broken(&wrong).iter().any(|broken| broken.rule == "T14"), "nobody has listened");
    let mut wrong = run;
    wrong.scenario.subscribers.clear();
    assert!(rules::broken(&wrong).iter().any(|broken| broken.rule == "T14"), "nobody was to listen");
}

#[test]
fn what_is_pending_or_absent_comes_late() {
    let run = measure(Fault::Late, &changed(&[])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    assert_eq!((found(&run).pending, found(&run).received), (10, 400));
    let run = measure(Fault::Lags, &changed(&[])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    let Multicasts { lagged, absent, received, .. } = *found(&run);
    assert_eq!((lagged, absent > 0, received), (1, true, 400), "{:?}", run.multicasts);
}

#[test]
fn messages_of_requests_without_an_answer_come_apart() {
    let run = measure(Fault::Unanswered, &changed(&[])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    let Multicasts { answered, unanswered, of_unanswered, received, .. } = *found(&run);
    assert_eq!((answered, unanswered, of_unanswered, received), (90, 10, 40, 360));
}

#[test]
fn one_that_reads_nothing_has_all_at_the_end() {
    let scenario = changed(&[OPEN, ("count = 8", "count = 8\nstalled = 0.25")]);
    let stalled: Vec<_> = (0..8).filter(|number| scenario.subscribers[0].is_stalled(*number)).collect();
    assert_eq!(stalled, [1, 5]);
    let run = measure(Fault::None, &scenario).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    // The first message comes to them half a second later.
    let lag = found(&run).lag.as_ref().unwrap();
    assert!(lag.count == 200 && lag.max > 400_000_000 && lag.min < 400_000_000, "{lag:?}");
    // One that was cut off meanwhile goes on where it was.
    let run = measure(Fault::Ends, &changed(&[OPEN, ("count = 8", "count = 8\nstalled = 1.0")])).unwrap();
    assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()));
    assert_eq!((found(&run).lagged, found(&run).received), (1, 200));
}

#[test]
fn a_subscriber_that_is_refused_ends_the_run() {
    let begun = Instant::now();
    let error = measure(Fault::Refuses, &changed(&[])).unwrap_err();
    assert!(error.contains("/Device/d0?stream=sse") && error.contains("status_404"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "nobody waits for it");
}

#[test]
fn keys_of_messages_are_refused_where_they_make_no_sense() {
    let objective =
        |bound: &str| format!("[[objectives]]\nbound = {{ {bound} = {{ quantile = 0.9, at_most_ms = 1.0 }} }}\n[load]");
    let (lag, last_lag) = (objective("lag"), objective("last_lag"));
    let acknowledges = "weight = 1.0\nacknowledges = { partition = \"/p\", offset = \"/o\" }";
    let each = "each = { \"/message/room\" = \"r{n%2}\" }";
    for (from, to, key) in [
        ("call = \"/message/call\"\n", "", "subscribers"),
        ("\"call\":{call},", "", "subscribers"),
        ("call = \"/message/call\"", "call = \"message/call\"", "subscribers"),
        ("\"/message/room\"", "\"message/room\"", "subscribers"),
        (each, "each = { \"/message/room\" = \"{call}\" }", "subscribers"),
        ("count = 8", "count = 0", "subscribers"),
        ("count = 8", "count = 20001", "subscribers"),
        ("count = 8", "count = 8\nconnections = 0", "subscribers"),
        ("count = 8", "count = 8\nconnections = 9", "subscribers"),
        ("count = 8", "count = 8\nstalled = 1.5", "subscribers"),
        ("count = 8", "count = 8\nstalled = -0.5", "subscribers"),
        ("count = 8", "count = 8\nstalled = nan", "subscribers"),
        ("count = 8", "count = 8\nstalled = 0.5\nconnections = 2", "subscribers"),
        ("/Device/d{n}?stream=sse", "/Device/d0?stream=sse", "subscribers"),
        ("/Device/d{n}?stream=sse", "/Device/d{call}?stream=sse", "subscribers"),
        ("/Device/d{n}?stream=sse", "/Device/d{n}?wait=1000", "subscribers"),
        ("[load]", "[[subscribers]]\ncount = 1\npath = \"/S?stream=sse\"\n[load]", "subscribers"),
        ("[[subscribers]]", "[[subscribers]]\nstall = 0.5", "subscribers[0].stall"),
        ("\"id\":\"d{n}\"", "\"id\":\"{call}\"", "data.row"),
        ("?room==r{n%2}", "?room==r{call}", "operations[0].path"),
        ("\"/failed\" = \"0\"", "\"/failed\" = \"{call}\"", "operations[0].expect"),
        ("has = { \"/failed\" = \"0\" }, between = { \"/targets\" = [4, 5] }", "bytes = 9", "operations[0].expect"),
        ("weight = 1.0", acknowledges, "operations[0].acknowledges"),
        ("\"/targets\" = [4, 5]", "\"targets\" = [4, 5]", "operations[0].expect"),
        ("\"/targets\" = [4, 5]", "\"/targets\" = [5, 4]", "operations[0].expect.between"),
        ("has = {", "equal = [[\"/targets\", \"delivered\"]], has = {", "operations[0].expect"),
        ("?room==r{n%2}", "?rank=lt={fan_out}", "sweep.fan_out"),
        ("[load]", "[sweep]\nfan_out = [2]\n[load]", "sweep.fan_out"),
        ("[load]", "[sweep]\nfan_out = [0]\n[load]", "sweep.fan_out"),
        ("each = 1.0", "each = \"{fan_out}\"", "effects[0].each"),
        ("each = 1.0", "each = \"1\"", "effects[0].each"),
        ("each = 1.0", "each = true", "effects[0].each"),
        ("[load]", lag.as_str(), "objectives[0]"),
        ("[load]", last_lag.as_str(), "objectives[0]"),
    ] {
        let refusal = Scenario::parse("devices.toml", &text(&[(from, to)])).unwrap_err();
        assert_eq!((refusal.file.as_str(), refusal.key.as_str()), ("devices.toml", key), "{to}: {}", refusal.reason);
    }
    let other = "[[operations]]\nname = \"other\"\nweight = 1.0\nmethod = \"GET\"\npath = \"/Device/d{n}\"\n\
                 expect = { status = 200, bytes = 9 }\n\n[[operations]]";
    for (to, right) in [
        (last_lag.clone(), true),
        (last_lag.replace("0.9", "0.8"), false),
        (last_lag.replace("bound", "operation = \"multicast\"\nbound"), true),
        (last_lag.replace("bound", "operation = \"other\"\nbound"), false),
        (lag, false),
    ] {
        let read = Scenario::parse("devices.toml", &text(&[OPEN, ("[load]", &to), ("[[operations]]", other)]));
        assert_eq!(read.is_ok(), right, "{to}: {read:?}");
    }
}

#[test]
fn targets_are_varied_in_operations_and_effects() {
    let scenario = changed(&[
        ("each = 1.0", "each = \"{fan_out}\""),
        ("[load]", "[sweep]\nfan_out = [2, 4]\n\n[load]"),
        ("?room==r{n%2}", "?rank=lt={fan_out}"),
        ("\"/failed\" = \"0\"", "\"/targets\" = \"{fan_out}\""),
    ]);
    let variants = scenario.variants();
    for (variant, number) in variants.iter().zip(["2", "4"]) {
        assert_eq!((variant.name.clone(), variant.fault()), (format!("devices-{number}"), None));
        let operation = &variant.operations[0];
        assert_eq!(operation.path.of(0), format!("/Device/multicast?rank=lt={number}"));
        assert_eq!(operation.expect.has["/targets"].of(0), number);
        assert_eq!(variant.effects[0].each, Steps::Number(number.parse().unwrap()));
        let read: Scenario = serde_json::from_str(&serde_json::to_string(variant).unwrap()).unwrap();
        assert_eq!(read, *variant);
    }
    assert_eq!(variants.len(), 2);
}

#[test]
fn who_sends_no_messages_has_no_subscribers() {
    let more = "[sweep]\napart = true\n\n[[operations]]\nname = \"get\"\nweight = 1.0\nmethod = \"GET\"\npath = \"/Device/d{n}\"\n\
                expect = { status = 200, has = { \"/id\" = \"d{n}\" } }\n\n[[operations]]";
    let variants = changed(&[("[[operations]]", more), ("[\"multicast\"]", "[\"multicast\", \"get\"]")]).variants();
    let listeners = |variant: &Scenario| variant.listeners().count();
    let told: Vec<_> =
        variants.iter().map(|variant| (variant.name.as_str(), listeners(variant), variant.fault())).collect();
    assert_eq!(told, [("devices-get", 0, None), ("devices-multicast", 1, None)]);
}
