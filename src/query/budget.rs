//! How much a query does where others wait for it.
//!
//! A worker that answers where the request arrived holds up all its other connections. That everything is in memory bounds no time:
//! there may be any number of entries that lead to nothing. So what is read under [`Reach::Memory`] is counted, and beyond a bound the
//! query would block: the request goes on in the pool, as if something had not been in memory.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::storage::Reach;
use crate::transaction::Database;

/// How many steps a query may take where others wait for it: some hundred microseconds. A step is an entry that is walked over, or
/// [`STEP_BYTES`] of a record for each condition that it is asked.
pub(super) const INLINE_STEPS: usize = 1000;

/// After so many steps, some hundred microseconds, a query that may take its time lets others have the processor, and looks whether
/// anybody still waits for it. The kernel's own slices are some milliseconds.
const UNINTERRUPTED_STEPS: usize = 256;

/// How much of a record is one step.
const STEP_BYTES: usize = 4 << 10;

/// How many steps it takes to find where a range of keys begins.
const SEEK_STEPS: usize = 4;

/// What a query may still do.
pub(super) struct StepBudget<'d> {
    database: &'d Database,
    /// Steps until it has to end, or to look whether it has to.
    left: Cell<usize>,
}

impl<'d> StepBudget<'d> {
    /// What a query of this database may do: as much as it takes, if waiting is allowed.
    pub fn of(database: &'d Database) -> Self {
        let steps = match database.reach() {
            Reach::Memory => INLINE_STEPS,
            Reach::Disk => UNINTERRUPTED_STEPS,
        };
        Self { database, left: Cell::new(steps) }
    }

    /// Takes so many steps.
    ///
    /// # Errors
    /// `WouldBlock` if they are too many; `Busy` if the query was interrupted.
    #[inline]
    pub fn spend(&self, steps: usize) -> Result<()> {
        match self.left.get().checked_sub(steps) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.go_on(),
        }
    }

    #[cold]
    fn go_on(&self) -> Result<()> {
        match self.database.reach() {
            Reach::Memory => Err(Error::WouldBlock),
            Reach::Disk if self.database.is_interrupted() => {
                Err(Error::Busy { detail: "the request was cancelled".to_owned() })
            }
            Reach::Disk => {
                std::thread::yield_now();
                self.left.set(UNINTERRUPTED_STEPS);
                Ok(())
            }
        }
    }

    /// Looks for where a range of keys begins.
    ///
    /// # Errors
    /// As [`StepBudget::spend`].
    pub fn seek(&self) -> Result<()> {
        self.spend(SEEK_STEPS)
    }

    /// Looks at a record and asks it so many conditions.
    ///
    /// # Errors
    /// As [`StepBudget::spend`].
    #[inline]
    pub fn ask(&self, record_bytes: usize, conditions: usize) -> Result<()> {
        self.spend(1 + record_bytes.saturating_mul(1 + conditions) / STEP_BYTES)
    }
}
