//! An operation that the engine refuses (a write stall, a full disk): the process ends, and says why in a line that the runner knows.
//!
//! Not a count of 0, which would be told as work that was not done, and no panic, which is a defect of the bench: what was refused once is
//! tried again by the runner, in a process of its own. Unwinding closes stores and removes their folders.

use std::fmt::Debug;
use std::panic::resume_unwind;

/// The prefix of the line. Its other half is `run_benches/processes.py`.
const REFUSED: &str = "strata-harness: refused: ";

/// The result of an operation that an engine may refuse.
pub trait OrRefused<T> {
    /// Returns what was done; ends the row where it was refused.
    fn or_refused(self) -> T;
}

impl<T, E: Debug> OrRefused<T> for Result<T, E> {
    #[inline]
    fn or_refused(self) -> T {
        self.unwrap_or_else(|error| refused(&format!("{error:?}")))
    }
}

/// Ends the row: the engine has refused an operation of it.
#[cold]
#[inline(never)]
pub fn refused(reason: &str) -> ! {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("{REFUSED}{reason}");
    resume_unwind(Box::new(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_passed_on() {
        assert_eq!(Ok::<_, String>(7).or_refused(), 7);
    }

    #[test]
    fn a_refusal_ends_the_row_with_its_reason_on_one_line() {
        let refusal = || refused("no room\n  on the device");
        let ended = std::panic::catch_unwind(refusal).unwrap_err();
        assert_eq!(ended.downcast_ref::<String>().unwrap(), "no room on the device");
    }
}
