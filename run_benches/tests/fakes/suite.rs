//! A harness without a clock: speaks the protocol of a pair, and its times follow from the costs that its rows declare. With them real
//! cargo, the real linker, the real broker and the real judge compare revisions whose difference is known. An operation of a row
//! `.../allocates` allocates once for each microsecond of its cost, and four times are expected at most; the engine refuses, on side B,
//! the first operation of a row `.../refused_once`, and every one of a row `.../refused`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// Runs a target whose rows (operation, subject and case; nanoseconds an operation) are these.
pub fn suite(layer: &str, rows: &[(&str, u32)]) {
    let ids: Vec<String> = rows.iter().map(|(row, _)| format!("{layer}/{row}")).collect();
    let allocations = |row: &str, cost_ns: u32| if row.ends_with("/allocates") { cost_ns / 1000 } else { 2 };
    if let Ok(folder) = std::env::var("STRATA_FACTS_DIR") {
        let fact = r#""op": "does one thing", "unit": "operations", "units_per_operation": 1, "threads": 1, "changes_store": true"#;
        let fact = |(row, cost_ns): &(&str, u32)| format!("\"{layer}/{row}\": {{{fact}, \"allocations_per_operation\": {}}}", allocations(row, *cost_ns));
        let facts: Vec<String> = rows.iter().map(fact).collect();
        let engine = std::env::var("STRATA_SET").unwrap_or_default().to_lowercase();
        let text = format!("{{\"schema\": 1, \"layer\": {layer:?}, \"engine\": {{\"set\": {engine:?}}}, \"rows\": {{{}}}}}", facts.join(","));
        std::fs::write(format!("{folder}/{}.json", std::process::id()), text).unwrap();
    }
    let Ok(path) = std::env::var("STRATA_TURN") else { return };
    let mut broker = BufReader::new(UnixStream::connect(path).unwrap());
    for (id, (_, cost_ns)) in ids.iter().zip(rows) {
        let answer = ask(&mut broker, &format!("row {id}"));
        let Some(told) = answer.strip_prefix("run") else { continue };
        let allocated = allocations(id, *cost_ns);
        assert!(allocated <= 4, "{id}: {allocated} allocations per operation, at most 4 expected");
        let stores = std::env::var("STRATA_TEMPLATES").unwrap_or_default();
        let refused = std::path::Path::new(&stores).join("refused");
        if stores.contains("/b/") && (id.ends_with("/refused") || id.ends_with("/refused_once") && !refused.exists()) {
            std::fs::write(refused, "").unwrap();
            eprintln!("strata-harness: refused: Busy");
            std::process::exit(101);
        }
        let told: Option<f64> = told.split_whitespace().next().map(|told| told.parse().unwrap());
        assert!(told.is_none_or(|told| (told / f64::from(*cost_ns) - 1.0).abs() < 0.1), "{id} costs {cost_ns} ns, not {told:?}");
        let agreed = ask(&mut broker, &format!("meet {cost_ns} 0"));
        let (operations, turns) = agreed.split_once(' ').unwrap();
        let (operations, turns): (u64, u64) = (operations.parse().unwrap(), turns.parse().unwrap());
        for _ in 0..turns {
            if ask(&mut broker, "ready") != "go" {
                break;
            }
            writeln!(broker.get_mut(), "done {}", operations * u64::from(*cost_ns)).unwrap();
        }
        ask(&mut broker, "over");
    }
}

fn ask(broker: &mut BufReader<UnixStream>, question: &str) -> String {
    writeln!(broker.get_mut(), "{question}").unwrap();
    let mut answer = String::new();
    broker.read_line(&mut answer).unwrap();
    answer.trim().to_owned()
}
