//! A pair of servers that take turns: both are started, filled and warmed up, then short windows alternate between them, so that both meet
//! the same noise of the machine. Each side becomes a run like any other, of all its windows together.
//!
//! One pair is one trial: two processes differ by their layout in memory alone. What a difference is worth is for many pairs to say.

use crate::interrupt;
use crate::ledger::Account;
use crate::result::Run;
use crate::run::Filled;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::server::Server;

/// One side: a scenario, and its server.
pub type Side = (Scenario, Server);

/// One of so many windows of a scenario, which together are as long as the scenario.
///
/// # Errors
/// Why it cannot be cut into windows: its rate changes, it ends by a number of requests, or a window would have a part of a request.
pub fn window_of(scenario: &Scenario, windows: u32) -> Result<Scenario, String> {
    let load = &scenario.load;
    let mut window = scenario.clone();
    let refused = |reason: &str| Err(format!("{}: {reason}", scenario.name));
    match (&load.schedule, load.seconds) {
        (Some(whole @ Schedule::Constant { rate, seconds }), _) => {
            let each = Schedule::Constant { rate: *rate, seconds: seconds / f64::from(windows) };
            if each.planned() * u64::from(windows) != whole.planned() {
                return refused(
                    "the rate times the length of a window is no whole number: choose another number of windows (--windows)",
                );
            }
            window.load.schedule = Some(each);
        }
        (Some(_), _) => return refused("windows that take turns have one rate: --rate, or --closed"),
        (None, Some(seconds)) => window.load.seconds = Some(seconds / f64::from(windows)),
        (None, None) => return refused("windows that take turns have a length: --test-duration-secs"),
    }
    match window.fault() {
        None => Ok(window),
        Some((key, reason)) => refused(&format!("in windows: {key}: {reason}")),
    }
}

/// Measures both sides in so many windows each, in the order ABBA. Objectives were not declared for windows, so the runs have none.
pub fn measure(sides: &[Side; 2], windows: u32) -> Result<Vec<(Run, Vec<Account>)>, String> {
    let pieces = sides.iter().map(|(scenario, _)| window_of(scenario, windows)).collect::<Result<Vec<_>, _>>()?;
    let filled = sides.iter().map(|(scenario, server)| Filled::new(scenario, server, false));
    let filled = filled.collect::<Result<Vec<_>, _>>()?;
    let warm = filled.iter().zip(&pieces).map(|(filled, piece)| filled.warm_up(piece));
    let mut sessions = warm.collect::<Result<Vec<_>, _>>()?;
    for number in 0..windows as usize {
        for turn in [number % 2, 1 - number % 2] {
            sessions[turn].window()?;
        }
        if interrupt::is_asked() {
            return Err("interrupted".to_owned());
        }
    }
    let ended = sessions.into_iter().zip(sides).zip(["a", "b"]).map(|((session, (scenario, _)), side)| {
        let (mut run, accounts) = session.end(scenario)?;
        run.id = format!("{}-{side}", run.id);
        Ok((run, accounts))
    });
    ended.collect()
}
