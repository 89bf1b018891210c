//! Three servers over one simulated database, whose faults come from a seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use strata::schema::Schema;
use strata::storage::{Defect, Faults, Simulation};
use strata::transaction::Database;

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
    latency: Duration::ZERO,
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

/// With a database that takes a millisecond a request, servers add up: they share nothing but that.
#[test]
#[ignore = "it takes the times of turns"]
fn four_servers_do_nearly_four_times_as_much_as_one() {
    const THREADS: usize = 4;
    const SDL: &str = "type T @table { id: ID @primaryKey  n: Int @indexed }";
    let simulation = Simulation::new(1);
    let schema = || Schema::parse(SDL).expect("valid");
    let open = |number: usize| Database::open_simulated(&simulation, schema(), &number.to_string()).expect("it opens");
    let databases: Vec<_> = (0..4).map(open).collect();
    simulation.set_faults(Faults { latency: Duration::from_millis(1), ..Faults::default() });
    // How many records some servers create in half a second.
    let created = |servers: &[Database]| {
        let (over, count) = (Instant::now() + Duration::from_millis(500), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for database in servers.iter().flat_map(|database| [database; THREADS]) {
                let count = &count;
                scope.spawn(move || {
                    let table = database.table("T").expect("it exists");
                    while Instant::now() < over {
                        database.create(table, br#"{"n": 1}"#).expect("nothing goes wrong");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        count.into_inner() as f64
    };
    let mut ratios: Vec<f64> = (0..9).map(|_| created(&databases).ln() - created(&databases[..1]).ln()).collect();
    ratios.sort_by(f64::total_cmp);
    let [low, median, high] = [ratios[1], ratios[4], ratios[7]].map(f64::exp);
    println!("four servers over one: {median:.2} [{low:.2}, {high:.2}]");
    assert!(median >= 3.8, "{median}");
}
