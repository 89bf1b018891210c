//! Three servers over one simulated database, whose faults come from a seed.

use strata::storage::{Defect, Faults};

use super::model;

/// Everything goes wrong now and then.
const FAULTS: Faults = Faults {
    conflicts: 100,
    lost_before: 100,
    lost_after: 100,
    unanswered: 20,
    lost_views: 50,
    unavailable: 20,
    short_pages: 500,
    latency: std::time::Duration::ZERO,
    defect: None,
};

/// Runs a number of transactions on three servers, in rounds that each have a seed and a fresh database, and returns what was wrong.
fn run(transactions: u64, faults: Faults) -> (model::Counts, Vec<String>) {
    const A_ROUND: u64 = 5000;
    let (mut counts, mut wrong) = (model::Counts::default(), Vec::new());
    for seed in 0..transactions.div_ceil(A_ROUND) {
        let (of_round, found) = model::round(seed, A_ROUND.min(transactions), faults);
        counts.add(&of_round);
        wrong.extend(found.into_iter().map(|what| format!("seed {seed}: {what}")));
        if wrong.len() > 10 {
            break;
        }
    }
    (counts, wrong)
}

#[test]
fn what_three_servers_say_is_true() {
    // `test --full` asks for ten million.
    let transactions =
        std::env::var("STRATA_MODEL_TRANSACTIONS").map_or(100_000, |text| text.parse().expect("a number"));
    let (counts, wrong) = run(transactions, FAULTS);
    println!("{counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.acknowledged > transactions / 4 && counts.unknown > 0 && counts.raced > 0, "{counts}");
}

#[test]
fn without_faults_nothing_is_unknown() {
    let (counts, wrong) = run(10_000, Faults::default());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.unknown == 0 && counts.busy == 0, "{counts}");
}

#[test]
fn each_defect_of_a_database_is_found() {
    for defect in [Defect::NoDependencies, Defect::NoConflicts, Defect::LostMeansFailed, Defect::LostMeansDone] {
        let (_, wrong) = run(50_000, Faults { defect: Some(defect), ..FAULTS });
        println!("{defect:?}: {}", wrong.first().map_or("not found", |what| what));
        assert!(!wrong.is_empty(), "{defect:?} was not found");
    }
}

#[test]
fn a_seed_determines_what_happens() {
    let run = || model::round(7, 2000, FAULTS).0.to_string();
    assert_eq!(run(), run());
}
