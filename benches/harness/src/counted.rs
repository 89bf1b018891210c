//! A row run an exact number of times: for what is counted instead of timed.
//!
//! One thread, one state, nothing else. Allocations and the engine's counters are read around the operations and go into the facts;
//! instructions are counted from outside, as the difference of N and 2N operations, in which set-up and everything around falls out.

use crate::live::State;
use crate::row::Row;

/// Which row is counted, and how often it runs.
pub(crate) struct Count {
    operations: u64,
    row: String,
    found: bool,
}

impl Count {
    /// From `STRATA_COUNT` and `STRATA_ROW`, if the first is set.
    pub(crate) fn from_environment() -> Option<Self> {
        let operations = std::env::var("STRATA_COUNT").ok()?;
        let operations = operations.parse().expect("STRATA_COUNT is a number of operations");
        let row = std::env::var("STRATA_ROW").expect("STRATA_COUNT needs STRATA_ROW, the full id of one row");
        Some(Self { operations, row, found: false })
    }

    /// Runs the row if it is the one.
    pub(crate) fn run<S: State, W: FnMut(u64) -> u64 + Send>(&mut self, row: &mut Row<'_, S, W>) {
        if row.id != self.row {
            return;
        }
        self.found = true;
        assert!(!row.facts.background, "{}: what goes on beside the operations cannot be counted", row.id);
        let capacity = row.facts.capacity.unwrap_or(u64::MAX);
        assert!(self.operations <= capacity, "{}: a state serves {capacity} operations, no more", row.id);
        row.counted(self.operations);
    }

    /// A count of nothing must not pass for a count.
    pub(crate) fn finish(&self) {
        assert!(self.found, "no row has the id {}", self.row);
    }
}
