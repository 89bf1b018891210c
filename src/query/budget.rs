//! The step budget of a query on a worker thread, where other requests wait for it.
//!
//! A worker that answers a request on its own thread blocks all its other connections. Data being in memory does not bound the time: any
//! number of entries may lead to nothing. So reads under [`ReadTier::Memory`] are counted, and a query that exceeds the budget returns
//! `WouldBlock`: the request continues in the thread pool, as if some data had not been in memory.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::storage::ReadTier;
use crate::transaction::Database;

/// The maximum number of steps on a worker thread, a few hundred microseconds. A step is a scanned entry, or [`STEP_BYTES`] of a record for
/// each condition evaluated on it.
pub(super) const INLINE_STEPS: usize = 1000;

/// The number of steps, a few hundred microseconds, after which a query in the pool yields the processor and checks whether it was
/// cancelled. The time slices of the kernel are a few milliseconds.
const UNINTERRUPTED_STEPS: usize = 256;

/// The bytes of a record that count as one step.
const STEP_BYTES: usize = 4 << 10;

/// The steps that a seek to the start of a key range counts as.
const SEEK_STEPS: usize = 4;

/// The remaining budget of a query.
pub(super) struct StepBudget<'d> {
    database: &'d Database,
    /// The remaining steps until the query has to end or to check for cancellation.
    left: Cell<usize>,
}

impl<'d> StepBudget<'d> {
    /// Returns the budget of a query of this database; unlimited if it may block.
    pub fn of(database: &'d Database) -> Self {
        let steps = match database.tier() {
            ReadTier::Memory => INLINE_STEPS,
            ReadTier::Disk => UNINTERRUPTED_STEPS,
        };
        Self { database, left: Cell::new(steps) }
    }

    /// Spends this many steps.
    ///
    /// # Errors
    /// `WouldBlock` if the budget is exhausted; `Busy` if the query was interrupted.
    #[inline]
    pub fn spend(&self, steps: usize) -> Result<()> {
        match self.left.get().checked_sub(steps) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.renew(),
        }
    }

    #[cold]
    fn renew(&self) -> Result<()> {
        match self.database.tier() {
            ReadTier::Memory => Err(Error::WouldBlock),
            ReadTier::Disk if self.database.is_interrupted() => {
                Err(Error::Busy { detail: "the request was cancelled".to_owned() })
            }
            ReadTier::Disk => {
                std::thread::yield_now();
                self.left.set(UNINTERRUPTED_STEPS);
                Ok(())
            }
        }
    }

    /// Counts a seek to the start of a key range.
    ///
    /// # Errors
    /// As [`StepBudget::spend`].
    pub fn seek(&self) -> Result<()> {
        self.spend(SEEK_STEPS)
    }

    /// Counts reading a record and evaluating this many conditions on it.
    ///
    /// # Errors
    /// As [`StepBudget::spend`].
    #[inline]
    pub fn spend_record(&self, record_bytes: usize, conditions: usize) -> Result<()> {
        self.spend(1 + record_bytes.saturating_mul(1 + conditions) / STEP_BYTES)
    }
}
