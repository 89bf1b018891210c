//! Each scenario of streams, against a server with the fault that it looks for: it is invalid, or does not even begin.

use strata_load::command::{GROUPS, scenario};
use strata_load::result::Validity;
use strata_load::run::run;
use strata_load::server::Server;

use crate::faulty_stream::{self, Fault};

/// The scenario with few requests in a closed loop, without TLS and what a server in memory is too slow for.
fn short(name: &str) -> strata_load::scenario::Scenario {
    let mut scenario = scenario(name).unwrap();
    (scenario.tls, scenario.data.schema) = (false, String::new());
    let (load, data) = (&mut scenario.load, &mut scenario.data);
    (load.connections, load.warm_up_requests, load.drain_seconds) = (4, 0, 3.0);
    match load.stages.is_empty() {
        true => (load.schedule, load.seconds, load.requests) = (None, None, Some(200)),
        false => load.stages.iter_mut().for_each(|stage| (stage.users, stage.seconds) = (stage.users.min(4), 0.2)),
    }
    // So that offset 30 is that of a request.
    (data.rows, data.spare) = (40, data.spare.min(4));
    scenario.objectives.clear();
    scenario.sweep = strata_load::scenario::Sweep::default();
    scenario
}

#[test]
fn each_scenario_fails_by_the_fault_that_it_looks_for() {
    let faults = [
        ("single-write", Fault::OffsetTwice, "T13: offsets acknowledged once"),
        ("bulk-write", Fault::BulkSingly, "T14: streams.bulks did not move"),
        ("read-throughput", Fault::ReadsNothing, "T14: streams.events_read did not move"),
        ("write-read-lag", Fault::LeavesOut, "T26: subscribers[0]"),
        ("mixed-workload", Fault::ReadsNothing, "T14: streams.events_read did not move"),
        ("backpressure", Fault::None, "T14: streams.refused did not move"),
        ("peak-single", Fault::Lost, "S2: acknowledged events at their offsets"),
        ("peak-bulk", Fault::BulkSingly, "T14: streams.bulks did not move"),
        ("tables-beside", Fault::BulkSingly, "T14: streams.bulks did not move"),
    ];
    for (name, fault, broken) in faults {
        let mut scenario = short(name);
        // Of tables the server in memory has no more than their rows.
        scenario.operations.retain(|operation| !operation.path.of(0).starts_with("/Product"));
        for effect in &mut scenario.effects {
            effect.operations.retain(|name| scenario.operations.iter().any(|operation| operation.name == *name));
        }
        scenario.effects.retain(|effect| !effect.operations.is_empty());
        let server = Server::at(&faulty_stream::start(fault, 4), false, None).unwrap();
        let (run, _) = run(&scenario, &server, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run.validity, Validity::Invalid, "{name}");
        assert!(run.broken.iter().any(|found| found.starts_with(broken)), "{name}: {:?}", run.broken);
    }
    // The other one ends its server: a_lost_append_is_found_after_a_kill.
    let all: Vec<_> = faults.iter().map(|(name, ..)| *name).chain(["consistency"]).collect();
    assert!(GROUPS[0].1.iter().all(|name| all.contains(name)), "{all:?}");
}
