//! The demands of a scenario on a stream, and each fault of a server of streams by the check that names it.

use strata_load::result::{Outcome, Run};
use strata_load::run::run;
use strata_load::scenario::Scenario;
use strata_load::server::Server;

use crate::faulty_stream::{self, Fault};

/// A scenario of singles and bulks, with the rest of `[load]`.
const SCENARIO: &str = r#"
name = "events"
about = "events of the stream with faults"
tls = false
effects = [
    { counter = "streams.appends", operations = ["single"], each = 1.0 },
    { counter = "streams.bulks", operations = ["bulk"], each = 1.0 },
    { counter = "streams.events", operations = ["bulk"], each = 20.0 },
]

[data]
schema = ""
stream = "S"
rows = 90
row = '{{"payload":"seed {n}","partition":{n%4}}}'

[load]
connections = 4
requests = 400
warm_up_requests = 20

[[operations]]
name = "single"
weight = 1.0
method = "POST"
path = "/S"
row = "new"
body = '{{"payload":"single {n}","partition":{n%4}}}'
acknowledges = { partition = "/partition", offset = "/offset" }
expect = { status = 202, has = { "/partition" = "{n%4}" } }

[[operations]]
name = "bulk"
weight = 1.0
method = "POST"
path = "/S/bulk"
row = "new"
items = { count = 20, each = '{{"payload":"bulk {n}","partition":{n%4}}}' }
body = '{{"records":[{items}]}}'
acknowledges = { list = "/offsets", partition = "/partition", offset = "/offset" }
expect = { status = 202, list = "/offsets", rows = 20 }
"#;

fn changed(from: &str, to: &str) -> Scenario {
    assert!(SCENARIO.contains(from), "{from}");
    Scenario::parse("events.toml", &SCENARIO.replacen(from, to, 1)).unwrap()
}

fn measure(fault: Fault, scenario: &Scenario) -> Result<Run, String> {
    let server = Server::at(&faulty_stream::start(fault, 4), false, None).unwrap();
    run(scenario, &server, false).map(|(run, _)| run)
}

#[test]
fn event_n_stands_at_its_place_or_the_run_does_not_begin() {
    let scenario = changed("rows = 90", "rows = 90");
    let run = measure(Fault::None, &scenario).unwrap();
    let text = strata_load::table::text(&run);
    assert!(text.contains("events/s: appended ") && text.contains("server CPU us an event: -"), "{text}");
    assert_eq!((run.setup.rows_written, run.setup.rows_found, &run.broken), (Some(90), Some(90), &Vec::new()));
    let error = measure(Fault::NextPartition, &scenario).unwrap_err();
    assert!(error.contains("data.row") && error.contains("event n has to stand"), "{error}");
    let three = Server::at(&faulty_stream::start(Fault::None, 3), false, None).unwrap();
    let error = strata_load::run::run(&scenario, &three, false).unwrap_err();
    assert!(error.contains("data.row"), "{error}");
}

/// A record and an event by one request, and events whose key every request has again.
const MORE: &str = r#"
[[operations]]
name = "batch"
weight = 1.0
method = "POST"
path = "/_batch"
row = "new"
body = '{{"operations":[{{"body":{{"id":"i{n}"}}}},{{"body":{{"payload":"batch {n}","partition":{n%4}}}}}]}}'
acknowledges = { event = "/operations/1/body", partition = "/results/1/body/partition", offset = "/results/1/body/offset", record = "/Item/i{n}" }
expect = { status = 200, has = { "/results/1/status" = "202" } }

[[operations]]
name = "keyed"
weight = 1.0
method = "POST"
path = "/S"
row = "new"
body = '{{"payload":"keyed","partition":0,"idempotencyKey":"k"}}'
acknowledges = { partition = "/partition", offset = "/offset" }
expect = { status = 202, has = { "/partition" = "0" } }
"#;

/// The names of the promises that are broken, and of other rules.
fn rules(run: &Run) -> Vec<String> {
    let mut names: Vec<_> = run.broken.iter().map(|broken| broken[..broken.find(':').unwrap()].to_owned()).collect();
    names.dedup();
    names
}

/// Which objectives passed; what did not is blocked where the client was too slow.
fn passed(run: &Run) -> Vec<bool> {
    run.objectives.iter().map(|judged| judged.outcome == Outcome::Pass).collect()
}

#[test]
fn each_broken_promise_is_named() {
    let text = format!("{SCENARIO}{MORE}").replacen("[\"single\"]", "[\"single\", \"keyed\"]", 1);
    let scenario = Scenario::parse("events.toml", &text).unwrap();
    // So that offset 30 is that of an answer within the window.
    for (fault, broken) in [
        (Fault::None, &[][..]),
        (Fault::WholeUnanswered, &[]),
        (Fault::Lost, &["S2", "T13"]),
        (Fault::ReadsNothing, &["S2"]),
        (Fault::OtherBytes, &["S2"]),
        (Fault::Gap, &["S1", "S2"]),
        (Fault::Foreign, &["T13"]),
        (Fault::Falling, &["S2", "S3", "T13"]),
        (Fault::HalfUnanswered, &["S4"]),
        (Fault::NoRecord, &["S4"]),
        (Fault::KeysAgain, &["S5"]),
        (Fault::OffsetTwice, &["S2", "T13"]),
    ] {
        let mut scenario = scenario.clone();
        scenario.load.warm_up_requests = 0;
        let run = measure(fault, &scenario).unwrap();
        let found = rules(&run);
        let named = broken.iter().all(|rule| found.iter().any(|found| found == rule));
        assert!(named && found.is_empty() == broken.is_empty(), "{fault:?}: {:?}", run.broken);
        let promises = run.promises.unwrap();
        let looked_at = promises.rows().into_iter().all(|(.., kept)| kept.checked > 0);
        assert!(looked_at || fault == Fault::ReadsNothing, "{fault:?}: {promises:?}");
    }
}

#[test]
fn a_bulk_endpoint_that_writes_singly_is_seen_in_the_counters() {
    let run = measure(Fault::BulkSingly, &changed("rows = 90", "rows = 90")).unwrap();
    assert_eq!(rules(&run), ["T13", "T14", "T13"], "{:?}", run.broken);
}

/// A scenario in two stages, whose singles may be refused.
fn staged() -> Scenario {
    let stages =
        "connections = 4\nwarm_up_requests = 2\nstages = [{ users = 1, seconds = 0.3 }, { users = 4, seconds = 0.3 }]";
    let objectives = r#"
[[objectives]]
stage = 2
bound = { refused_at_least = 0.1 }
[[objectives]]
stage = 2
bound = { refused_at_most = 0.1 }
[[objectives]]
stage = 2
bound = { goodput = { of_stages = [1], at_least = 1e-3 } }
[[objectives]]
stage = 1
bound = { goodput = { of_stage = 2, at_least = 1e6 } }
[[objectives]]
bound = { failures_at_most = 0.0 }
[[operations]]"#;
    let effects = "{ counter = \"streams.refused\", operations = [\"single\"], each = 1.0, of = \"refused\" },\n    { counter = \"streams.bulks\"";
    let refusal = "refusal = { status = 503, header = \"retry-after\" }\nexpect = { status = 202, has";
    let text = SCENARIO
        .replacen("connections = 4\nrequests = 400\nwarm_up_requests = 20", stages, 1)
        .replacen("[[operations]]", objectives, 1)
        .replacen("{ counter = \"streams.bulks\"", effects, 1)
        .replacen("expect = { status = 202, has", refusal, 1);
    Scenario::parse("events.toml", &text).unwrap()
}

#[test]
fn what_is_refused_is_counted_apart_in_each_stage() {
    let run = measure(Fault::Refuses, &staged()).unwrap();
    assert_eq!(run.broken, [""; 0]);
    let refused = run.total.refused;
    assert_eq!((run.total.failures(), run.total.ok + refused), (0, run.total.sent));
    assert_eq!(run.stages.iter().map(|stage| stage.total.refused).sum::<u64>(), refused);
    assert!(run.stages.iter().all(|stage| stage.total.refused > 0), "{:?}", run.stages);
    assert_eq!(run.cells[0].refused_service.as_ref().unwrap().count, refused);
    assert_eq!(passed(&run), [true, false, true, false, true], "{:?}", run.objectives);
    let text = strata_load::table::text(&run);
    assert!(
        text.contains("stage 1: 1 users") && text.contains("stage 2: 4 users") && text.contains("refused"),
        "{text}"
    );
    let read: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!((strata_load::rules::check(&read), read), (vec![], run));
}

#[test]
fn a_refusal_that_is_none_is_told_from_one() {
    // Nobody says when to come again: a failure like any other.
    let run = measure(Fault::RefusesForever, &staged()).unwrap();
    assert!(run.total.refused == 0 && run.total.failed["status_503"] > 0, "{:?}", run.total);
    assert_eq!(run.broken, [""; 0]);
    // What was refused is there.
    let run = measure(Fault::RefusesAndAppends, &staged()).unwrap();
    assert!(run.promises.unwrap().sent.wrong >= run.total.refused, "{:?}", run.promises);
    assert_eq!(rules(&run), ["T13"], "{:?}", run.broken);
    // Nothing is refused: the effect is not seen.
    let run = measure(Fault::None, &staged()).unwrap();
    assert_eq!(rules(&run), ["T14"], "{:?}", run.broken);
}

#[test]
fn stages_and_refusals_in_a_result_are_checked() {
    let run = measure(Fault::Refuses, &staged()).unwrap();
    let named = |change: fn(&mut Run), rule: &str| {
        let mut wrong = run.clone();
        change(&mut wrong);
        let broken = strata_load::rules::broken(&wrong);
        assert!(broken.iter().any(|broken| broken.rule == rule), "{rule}: {broken:?}");
    };
    named(|run| run.cells[0].counts.refused += 1, "T3");
    named(|run| run.cells[0].refused_service = None, "T6");
    named(|run| run.scenario.operations[0].refusal = None, "T3");
    named(|run| run.stages[1].total.ok += 1, "T3");
    named(|run| drop(run.stages.pop()), "T2");
    named(|run| run.stages[0].processes.think_seconds = Some(9.0), "T9");
    named(|run| run.stages[0].window.seconds = 0.2, "T16");
}

/// A scenario in an open loop with subscribers of both kinds.
fn subscribed() -> Scenario {
    let more = r#"
[[subscribers]]
count = 2
path = "/S?stream=sse"
[[subscribers]]
count = 4
path = "/S?partition={n%4}&wait=1000"
[[objectives]]
operation = "single"
bound = { lag = { quantile = 0.9, at_most_ms = 60000.0 } }
[[objectives]]
bound = { lag = { quantile = 0.9, at_most_ms = 1e-6 } }
[[operations]]"#;
    let open =
        "schedule = { shape = \"constant\", rate = 200.0, seconds = 1.0 }\nwarm_up_requests = 4\ndrain_seconds = 3.0";
    let text = SCENARIO.replacen("requests = 400\nwarm_up_requests = 20", open, 1).replacen("[[operations]]", more, 1);
    Scenario::parse("events.toml", &text).unwrap()
}

#[test]
fn every_acknowledged_event_comes_to_every_subscriber() {
    let run = measure(Fault::None, &subscribed()).unwrap();
    assert_eq!(run.broken, [""; 0]);
    let events = run.cells[0].counts.ok + 20 * run.cells[1].counts.ok;
    let [sse, waiting] = &run.subscribers.as_ref().unwrap().kinds[..] else { panic!("{:?}", run.subscribers) };
    for (kind, times) in [(sse, 2), (waiting, 1)] {
        assert_eq!((kind.due, kind.missing, kind.repeated, kind.ended), (times * events, 0, 0, 0));
        assert!(kind.due_in_warm_up > 0 && kind.unanswered == 0, "{kind:?}");
        assert_eq!(kind.lag.as_ref().unwrap().count, kind.due);
        assert_eq!(kind.lag_from_start.as_ref().unwrap().count, kind.due);
    }
    assert_eq!(passed(&run), [true, false], "{:?}", run.objectives);
    assert!(strata_load::table::text(&run).contains("2 subscribers of /S?stream=sse"));
    let mut wrong = run.clone();
    wrong.subscribers.as_mut().unwrap().kinds[0].due += 1;
    assert_eq!(strata_load::rules::broken(&wrong)[0].rule, "T26", "a delivery without a sample");
    wrong.subscribers = None;
    assert_eq!(strata_load::rules::broken(&wrong)[0].rule, "T14", "nobody has followed");
}

#[test]
fn what_a_subscriber_is_not_told_once_and_in_order_is_named() {
    for fault in [Fault::LeavesOut, Fault::TellsTwice, Fault::TellsLate, Fault::EndsSubscribers] {
        let run = measure(fault, &subscribed()).unwrap();
        assert_eq!(rules(&run), ["T26"], "{fault:?}: {:?}", run.broken);
        assert_eq!(run.broken.len(), 2, "{fault:?}: both kinds: {:?}", run.broken);
    }
}

#[test]
fn events_of_requests_without_an_answer_come_apart() {
    let run = measure(Fault::WholeUnanswered, &subscribed()).unwrap();
    assert_eq!(run.broken, [""; 0]);
    let kinds = run.subscribers.unwrap().kinds;
    assert!(run.total.failures() > 0 && kinds.iter().all(|kind| kind.unanswered > 0), "{kinds:?}");
}

#[test]
fn a_request_without_an_answer_is_sent_again_until_it_has_one() {
    let mut scenario = changed("rows = 90", "rows = 90");
    scenario.operations[1].retry = true;
    scenario.load.warm_up_requests = 0;
    let run = measure(Fault::WholeUnanswered, &scenario).unwrap();
    assert_eq!(run.broken, [""; 0]);
    let lost = run.total.failed["connection"];
    assert_eq!((run.total.ok, run.total.scheduled, lost > 0), (400, 400 + lost, true), "each attempt is a request");
}

#[test]
fn a_stream_that_had_events_is_left_alone() {
    let scenario = changed("rows = 90", "rows = 90");
    let server = Server::at(&faulty_stream::start(Fault::None, 4), false, None).unwrap();
    run(&scenario, &server, false).unwrap();
    let error = run(&scenario, &server, false).unwrap_err();
    assert!(error.contains("partition 0 of S has had") && error.contains("--has-data"), "{error}");
    assert_eq!(run(&scenario, &server, true).unwrap().0.broken, [""; 0]);
}

#[test]
fn keys_of_streams_are_refused_where_they_make_no_sense() {
    for (from, to, key) in [
        ("stream = \"S\"", "", "data.table"),
        ("stream = \"S\"", "stream = \"S\"\ntable = \"T\"", "data.stream"),
        ("stream = \"S\"", "stream = \"S/bulk\"", "data.stream"),
        ("stream = \"S\"", "stream = \"S\"\nblobs = [{ path = \"/S/{n}\", content = \"x\" }]", "data.blobs"),
        ("\"seed {n}\"", "\"{items}\"", "data.row"),
        ("path = \"/S/bulk\"", "path = \"/S/bulk/{items}\"", "operations[1].path"),
        ("bulk {n}", "bulk {items}", "operations[1].items.each"),
        ("count = 20", "count = 0", "operations[1].items.count"),
        ("count = 20", "count = 10001", "operations[1].items.count"),
        ("[{items}]", "[]", "operations[1].items"),
        ("\"single {n}\"", "\"{items}\"", "operations[0].body"),
        ("\"/partition\" = \"{n%4}\"", "\"/partition\" = \"{items}\"", "operations[0].expect"),
        ("stream = \"S\"", "table = \"S\"", "operations[0].acknowledges"),
        ("row = \"new\"", "", "operations[0].row"),
        ("has = { \"/partition\" = \"{n%4}\" }", "bytes = 9", "operations[0].expect"),
        ("offset = \"/offset\"", "offset = \"offset\"", "operations[0].acknowledges"),
        ("offset = \"/offset\"", "offset = \"/offset\", event = \"/event\"", "operations[0].acknowledges.event"),
        ("offset = \"/offset\"", "offset = \"/offset\", record = \"x\"", "operations[0].acknowledges.record"),
        ("requests = 400", "stages = [{ users = 5, seconds = 1.0 }]", "load.stages"),
        ("requests = 400", "stages = [{ users = 0, seconds = 1.0 }]", "load.stages"),
        ("requests = 400", "stages = [{ users = 1, seconds = 0.0 }]", "load.stages"),
        ("requests = 400", "requests = 400\nstages = [{ users = 1, seconds = 1.0 }]", "load.stages"),
        ("row = \"new\"", "row = \"new\"\nrefusal = { status = 202, header = \"a\" }", "operations[0].refusal.status"),
        (
            "row = \"new\"",
            "row = \"new\"\nrefusal = { status = 503, header = \"a b\" }",
            "operations[0].refusal.header",
        ),
        ("each = 1.0", "each = 1.0, of = \"refused\"", "effects[0].of"),
        ("[load]", "[[objectives]]\nbound = { refused_at_most = 0.5 }\n[load]", "objectives[0]"),
        ("[load]", "[[objectives]]\nstage = 1\nbound = { failures_at_most = 0.5 }\n[load]", "objectives[0]"),
        (
            "[load]",
            "[[objectives]]\nbound = { goodput = { of_stages = [1], at_least = 1.0 } }\n[load]",
            "objectives[0]",
        ),
        (
            "requests = 400\nwarm_up_requests = 20",
            "stages = [{ users = 1, seconds = 1.0 }]\n[[objectives]]\nstage = 1\nbound = { goodput = { of_stages = [1], at_least = 1.0 } }",
            "objectives[0]",
        ),
        ("[load]", "[[subscribers]]\ncount = 0\npath = \"/S?stream=sse\"\n[load]", "subscribers"),
        ("[load]", "[[subscribers]]\ncount = 1\npath = \"/S\"\n[load]", "subscribers"),
        ("[load]", "[[subscribers]]\ncount = 1\npath = \"S?stream=sse\"\n[load]", "subscribers"),
        ("[load]", "[[subscribers]]\ncount = 1\npath = \"/S?stream=sse&n={items}\"\n[load]", "subscribers"),
        ("[load]", "[[objectives]]\nbound = { lag = { quantile = 0.9, at_most_ms = 1.0 } }\n[load]", "objectives[0]"),
        ("[load]", "[sweep]\nrates = [10.0]\n[load]", "sweep.rates"),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let refusal = Scenario::parse("events.toml", &SCENARIO.replacen(from, to, 1)).unwrap_err();
        assert_eq!((refusal.file.as_str(), refusal.key.as_str()), ("events.toml", key), "{to}: {}", refusal.reason);
    }
}

#[test]
fn rates_are_variants_of_an_open_loop() {
    let open = "schedule = { shape = \"constant\", rate = 5.0, seconds = 2.0 }\n[sweep]\nrates = [1000.0, 0.5]";
    let scenario = changed("requests = 400\nwarm_up_requests = 20", open);
    let variants: Vec<_> =
        scenario.variants().into_iter().map(|variant| (variant.name, variant.load.schedule)).collect();
    let constant = |rate| Some(strata_load::schedule::Schedule::Constant { rate, seconds: 2.0 });
    let expected = [("events-1000-a-second", constant(1000.0)), ("events-0-5-a-second", constant(0.5))];
    assert_eq!(variants, expected.map(|(name, schedule)| (name.to_owned(), schedule)));
    let wrong = SCENARIO.replacen("requests = 400\nwarm_up_requests = 20", &open.replace("0.5]", "0.0]"), 1);
    assert_eq!(Scenario::parse("events.toml", &wrong).unwrap_err().key, "sweep.rates");
}
