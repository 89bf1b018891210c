//! The ceilings of the generator itself: its loops against the null server. A run that came near to them says so.
//!
//! A ceiling is a stored run like any other, in a folder of its own. It holds for the same loop, TLS, HTTP, streams and threads
//! on the same processors; where there is none, a run is judged by its own clocks alone.

use std::path::Path;

use crate::ledger::Account;
use crate::pinning::Pinned;
use crate::result::{Ceiling, Run, Validity};
use crate::run;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::server::Server;

const SCENARIO: &str = include_str!("calibrate.toml");

/// Returns the scenario of the requests to the null server, in a closed loop.
pub fn scenario() -> Scenario {
    Scenario::parse("load/src/calibrate.toml", SCENARIO).expect("a test reads it")
}

/// Measures the ceilings of both loops, each of which is stored by `keep`. The open loop is offered twice what the closed one reached, more
/// than can be sent: the rest is dropped.
pub fn calibrate(
    closed: &Scenario,
    pinned: Option<Pinned>,
    mut keep: impl FnMut(&Run, &[Account]) -> Result<(), String>,
) -> Result<[Run; 2], String> {
    let server = Server::start_null(closed.tls, pinned)?;
    let mut measure = |scenario: &Scenario| {
        let (run, accounts) = run::run(scenario, &server, true)?;
        keep(&run, &accounts)?;
        if run.aborted { Err(format!("{} was interrupted", run.id)) } else { Ok(run) }
    };
    let first = measure(closed)?;
    let mut open = closed.clone();
    let seconds = first.window.arrivals_seconds.unwrap_or(first.window.seconds);
    (open.load.seconds, open.load.requests) = (None, None);
    open.load.schedule = Some(Schedule::Constant { rate: first.throughput * 2.0, seconds });
    let second = measure(&open)?;
    Ok([first, second])
}

/// The newest ceiling in a folder that holds for a run; none where it was not measured.
pub fn ceiling(folder: &Path, of: &Run) -> Option<Ceiling> {
    let entries = std::fs::read_dir(folder).ok()?;
    let read = |path: &Path| serde_json::from_slice::<Run>(&std::fs::read(path).ok()?).ok();
    let paths = entries.flatten().map(|entry| entry.path());
    let runs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let holds = |run: &Run| {
        let kind = |run: &Run| {
            let (scenario, load) = (&run.scenario, &run.scenario.load);
            (
                scenario.tls,
                scenario.http,
                load.is_open(),
                load.threads,
                load.streams,
                run.processors,
                run.pinned.clone(),
            )
        };
        kind(run) == kind(of) && matches!(run.validity, Validity::Valid | Validity::ClientBound)
    };
    let newest = runs.filter_map(|path| read(&path)).filter(holds).max_by_key(|run| run.began_unix_seconds)?;
    Some(Ceiling { run: newest.id, throughput: newest.throughput })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_right() {
        assert!(!scenario().load.is_open());
    }
}
