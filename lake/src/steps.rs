//! The steps of a round, so that a test can end or halt the process between any two of them.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The variable that names a step and a signal: `written=KILL`, or `written=STOP`, perhaps with the number of the round: `written=KILL:3`.
const VARIABLE: &str = "STRATA_LAKE_SIGNAL_AT";

/// Whether the signal was sent: a step may be done again within its round.
static SENT: AtomicBool = AtomicBool::new(false);

/// A step that has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The table was loaded, and says where each partition goes on.
    Loaded,
    /// All events of the round were read.
    Read,
    /// Their files are complete.
    Written,
    /// The catalogue was asked once more, and the table goes on where it did.
    Checked,
    /// The catalogue has taken the commit; its answer was not looked at.
    Committed,
    /// The local file system was synced.
    Synced,
    /// The consumer group was moved.
    Moved,
}

impl Step {
    const ALL: [(Self, &str); 7] = [
        (Self::Loaded, "loaded"),
        (Self::Read, "read"),
        (Self::Written, "written"),
        (Self::Checked, "checked"),
        (Self::Committed, "committed"),
        (Self::Synced, "synced"),
        (Self::Moved, "moved"),
    ];

    /// Notes that this step is done in a round, counted from 1; sends the process the signal that was asked for.
    pub fn done(self, round: u64) {
        let Ok(asked) = std::env::var(VARIABLE) else { return };
        let (step, signal) = asked.split_once('=').unwrap_or((&asked, "KILL"));
        let (signal, of_round) = signal.split_once(':').unwrap_or((signal, "1"));
        let named = Self::ALL.iter().find(|(step, _)| *step == self).map(|(_, name)| *name);
        if named == Some(step) && of_round.parse() == Ok(round) && !SENT.swap(true, Ordering::Relaxed) {
            let signal = if signal == "STOP" { Signal::STOP } else { Signal::KILL };
            kill_process(getpid(), signal).expect("a process may send itself a signal");
        }
    }
}
