//! How much a query does where others wait for it.
//!
//! A worker that answers where the request arrived holds up all its other connections. That everything is in memory bounds no time:
//! there may be any number of entries that lead to nothing. So what is read under [`Reach::Memory`] is counted, and beyond a bound the
//! query would block: the request goes on in the pool, as if something had not been in memory.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::storage::Reach;

/// How many steps a query may take where others wait for it: some hundred microseconds. A step is an entry that is walked over, or
/// [`STEP_BYTES`] of a record for each condition that it is asked.
pub(super) const INLINE_STEPS: usize = 1000;

/// How much of a record is one step.
const STEP_BYTES: usize = 4 << 10;

/// How many steps it takes to find where a stretch of keys begins.
const SEEK_STEPS: usize = 4;

/// What a query may still do.
pub(super) struct Effort(Cell<usize>);

impl Effort {
    /// What may be done within a reach: as much as it takes, if waiting is allowed.
    pub fn within(reach: Reach) -> Self {
        Self(Cell::new(match reach {
            Reach::Memory => INLINE_STEPS,
            Reach::Disk => usize::MAX,
        }))
    }

    /// Takes so many steps.
    ///
    /// # Errors
    /// `WouldBlock` if they are too many.
    #[inline]
    pub fn spend(&self, steps: usize) -> Result<()> {
        self.0.set(self.0.get().checked_sub(steps).ok_or(Error::WouldBlock)?);
        Ok(())
    }

    /// Looks for where a stretch of keys begins.
    ///
    /// # Errors
    /// As [`Effort::spend`].
    pub fn seek(&self) -> Result<()> {
        self.spend(SEEK_STEPS)
    }

    /// Looks at a record and asks it so many conditions.
    ///
    /// # Errors
    /// As [`Effort::spend`].
    #[inline]
    pub fn ask(&self, record_bytes: usize, conditions: usize) -> Result<()> {
        self.spend(1 + record_bytes.saturating_mul(1 + conditions) / STEP_BYTES)
    }
}
