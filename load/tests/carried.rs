//! Every scenario that the program carries, against the real server: all answers are right, and the server's counters say so too.

use strata_load::command::{SCENARIOS, scenario};
use strata_load::neighbours::Neighbours;
use strata_load::run::run;
use strata_load::scenario::{Restarts, Scenario, Sweep};
use strata_load::server::Server;
use strata_load::tls::Trust;

use crate::strata::binary;

/// The name under which a built-in scenario finds the files beside it.
fn file_of(name: &str) -> String {
    format!("load/scenarios/{name}.toml")
}

#[test]
fn every_answer_is_right_and_every_effect_is_seen() {
    let strata = binary();
    for (name, text) in SCENARIOS {
        // A busy machine delivers no messages of megabytes while their response waits.
        let mut scenario = Scenario::parse(&file_of(name), &text.replace("{filler:4000}", "{filler:100}")).unwrap();
        let (load, data) = (&mut scenario.load, &mut scenario.data);
        // A stage has enough users to be refused, and few enough that a busy machine starts them in a small part of it.
        let users = if load.stages.is_empty() { 4 } else { 200 };
        load.connections = load.connections.min(users);
        load.stages.iter_mut().for_each(|stage| (stage.users, stage.seconds) = (stage.users.min(users), 1.0));
        // A picture takes as long as a thousand records.
        let (requests, warm_up) = if name.starts_with("quota-image") { (60, 8) } else { (600, 60) };
        match &mut scenario.restarts {
            Some(restarts) => (load.seconds, *restarts) = (Some(3.0), Restarts { kills: 1, every_seconds: 0.5 }),
            None if load.stages.is_empty() => {
                (load.schedule, load.seconds, load.requests) = (None, None, Some(requests));
            }
            None => {}
        }
        load.warm_up_requests = warm_up;
        // Messages are sent to as many as there are.
        let rows = if scenario.subscribers.iter().any(|one| one.call.is_some()) { data.rows } else { 2000 };
        (data.rows, data.spare) = (data.rows.min(rows), data.spare.min(600));
        // What is to be reached is not what is asked here, and is not of this load.
        scenario.objectives.clear();
        // Nor is what takes a minute, or as many bytes as the system keeps of one that reads nothing.
        let later = ["registry.expired", "registry.renewed", "multicast.pending"];
        scenario.effects.retain(|effect| !later.contains(&effect.counter.as_str()));
        scenario.sweep = Sweep { fan_out: scenario.sweep.fan_out, ..Sweep::default() };
        let mut scenario = scenario.variants().remove(0);
        // Other programs are no matter of the server's.
        (scenario.beside, scenario.checks) = (Vec::new(), Vec::new());
        // The binary knows no database.
        scenario.data.storage = None;
        let server = Server::start(&strata, &scenario, None, Neighbours::default()).unwrap();
        let (run, _) = run(&scenario, &server, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run.broken, [""; 0], "{name}");
        let (asked, ended) = (run.total.scheduled, run.total.ok + run.total.refused + run.total.censored);
        assert!(
            ended == asked && scenario.load.requests.is_none_or(|requests| asked == requests),
            "{name}: {:?}",
            run.total
        );
        // Those of a server that is ended begin anew.
        let grown = run.counters.grown();
        let is_timed = |name: &String| name.starts_with("answer_ns ");
        let known = grown.is_some_and(|grown| grown.keys().any(is_timed));
        assert!(known || scenario.restarts.is_some(), "{name}: {:?}", run.counters);
    }
}

#[test]
fn a_picture_of_another_size_is_wrong() {
    let text = SCENARIOS.iter().find(|(name, _)| *name == "quota-image-mixed").unwrap().1;
    let wrong = text.replacen("width = 200", "width = 201", 1);
    let mut scenario = Scenario::parse(&file_of("quota-image-mixed"), &wrong).unwrap();
    scenario.sweep = Sweep::default();
    let server = Server::start(&binary(), &scenario, None, Neighbours::default()).unwrap();
    let error = run(&scenario, &server, false).unwrap_err();
    assert!(error.contains("warm-up"), "{error}");
}

#[test]
fn a_server_that_was_there_is_left_as_it_was_found() {
    let mut scenario = scenario("throughput-write").unwrap();
    (scenario.load.seconds, scenario.load.requests, scenario.data.rows) = (None, Some(100), 100);
    let started = Server::start(&binary(), &scenario, None, Neighbours::default()).unwrap();
    let there = Server::at(&started.url, false, Some(Trust::Everyone)).unwrap();
    // The second run would find the rows of the first.
    for _ in 0..2 {
        let (run, _) = run(&scenario, &there, false).unwrap();
        assert_eq!((run.setup.rows_found, run.total.ok), (Some(100), 100));
    }
    // Rows that may be somebody's are left alone.
    run(&scenario, &started, false).unwrap();
    let error = run(&scenario, &there, false).unwrap_err();
    assert!(error.contains("Product has 1200 rows already"), "{error}");
}
