//! The faults in what a scenario says of other programs.

use std::collections::HashSet;

use super::super::Scenario;
use super::super::programs::PROGRAM;
use super::is_time;

/// Returns true if a program can be given by this name: `--program NAME=PATH`.
pub fn is_program(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
}

const NAME: &str = "a name of letters, digits, - and _, for which --program has the path";

/// The same of a name that may have a place for another.
fn is_name(name: &str) -> bool {
    is_program(&name.replace(PROGRAM, "x"))
}

impl Scenario {
    /// Returns the fault in the programs beside its load.
    pub(in super::super) fn beside_fault(&self) -> Option<(String, String)> {
        for (at, beside) in self.beside.iter().enumerate() {
            let fault = |key: &str, reason: &str| Some((format!("beside[{at}].{key}"), reason.to_owned()));
            match beside.every_seconds {
                _ if !is_name(&beside.program) => return fault("program", NAME),
                _ if beside.kills > 1000 => return fault("kills", "from 0 (it runs to the end) to 1000"),
                None if beside.kills > 0 => return fault("every_seconds", "how long after each start it is killed"),
                Some(_) if beside.kills == 0 => {
                    return fault("every_seconds", "without kills there is nothing to do then");
                }
                Some(every) if !is_time(every) => return fault("every_seconds", "from a thousandth to a million"),
                Some(every) => {
                    let seconds = self.load.arrivals_seconds().unwrap_or(0.0);
                    if f64::from(beside.kills) * every >= seconds {
                        return fault(
                            "kills",
                            "all of them are within the window: kills times every_seconds is less than it",
                        );
                    }
                }
                None => {}
            }
        }
        None
    }

    /// Returns the fault in the checks of what came of it.
    pub(in super::super) fn checks_fault(&self) -> Option<(String, String)> {
        let mut names = HashSet::new();
        for (at, check) in self.checks.iter().enumerate() {
            let fault = |key: &str, reason: &str| Some((format!("checks[{at}].{key}"), reason.to_owned()));
            if check.name.is_empty() || check.name.contains(char::is_control) || !names.insert(&check.name) {
                return fault("name", "a name in one line, which no other check has");
            }
            if !is_name(&check.program) {
                return fault("program", NAME);
            }
        }
        None
    }
}
