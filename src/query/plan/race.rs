//! Finds the access path with the fewest records by scanning entries: before the choice, and while one of them is executed.

use smallvec::SmallVec;

use super::paths::AccessPath;
use super::{Access, Step};
use crate::error::Result;
use crate::indexes::{Direction, KeyRange};
use crate::query::source::Source;
use crate::storage::{Scan, Space};

/// The maximum number of entries scanned of each access path to find the one with the fewest.
pub const PROBED: usize = 256;

/// Returns the access path whose scan ends first, and its number of entries; `None` if each is longer than the maximum.
pub(super) fn race(source: Source<'_>, paths: &[AccessPath<'_>]) -> Result<Option<(usize, usize)>> {
    let mut runners: SmallVec<[Runner<'_>; 4]> = paths.iter().map(|path| Runner::new(source, &path.steps)).collect();
    if source.store.is_remote() {
        for runner in &mut runners {
            runner.open_next()?;
        }
        Scan::begin_together(&mut runners.iter_mut().flat_map(|runner| &mut runner.scans).collect::<Vec<_>>())?;
    }
    for _ in 0..PROBED {
        for (position, runner) in runners.iter_mut().enumerate() {
            if !runner.advance()? {
                return Ok(Some((position, runner.passed)));
            }
        }
    }
    Ok(None)
}

/// Counts the entries of the steps up to the maximum; also returns whether the count is complete.
pub(in crate::layers::query) fn probe(source: Source<'_>, steps: &[Step<'_>]) -> Result<(usize, bool)> {
    let mut runner = Runner::new(source, steps);
    for _ in 0..PROBED {
        if !runner.advance()? {
            return Ok((runner.passed, true));
        }
    }
    Ok((runner.passed, false))
}

/// The steps that compete with an ordered scan, which may read as many records as they lead to.
pub(in crate::layers::query) struct Rival<'s> {
    runner: Runner<'s>,
    is_counted: bool,
    /// The number of records granted to the scan.
    granted: usize,
}

impl<'s> Rival<'s> {
    pub fn new(source: Source<'s>, steps: &'s [Step<'_>]) -> Self {
        Self { runner: Runner::new(source, steps), is_counted: false, granted: 0 }
    }

    /// Returns how many of `wanted` further records the scan may read; 0 once it has read as many as the rival leads to. Counts no further
    /// than this requires.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn grant(&mut self, wanted: usize) -> Result<usize> {
        let reached = self.granted.saturating_add(wanted);
        while !self.is_counted && self.runner.passed < reached {
            self.is_counted = !self.runner.advance()?;
        }
        let granted = reached.min(self.runner.passed) - self.granted;
        self.granted += granted;
        Ok(granted)
    }
}

/// A scan of the ranges of an access path that does not read the records.
struct Runner<'s> {
    source: Source<'s>,
    /// The ids and values that remain to be looked up.
    lookups: usize,
    /// Groups of ranges that are not started yet, the last first; the ranges of a group are scanned together.
    ranges: SmallVec<[(Space, &'s [KeyRange]); 1]>,
    scans: SmallVec<[Scan<'s>; 1]>,
    /// The number of entries, ids and values so far.
    passed: usize,
}

impl<'s> Runner<'s> {
    fn new(source: Source<'s>, steps: &'s [Step<'_>]) -> Self {
        let mut runner = Self { source, lookups: 0, ranges: SmallVec::new(), scans: SmallVec::new(), passed: 0 };
        for step in steps {
            match &step.access {
                Access::Ids(ids) => runner.lookups += ids.len(),
                Access::Owners(_, values) => runner.lookups += values.len(),
                Access::Table(range) => runner.ranges.push((Space::Records, std::slice::from_ref(range))),
                Access::Entries { ranges, .. } => {
                    runner.ranges.extend(ranges.chunks(1).map(|range| (Space::Indexes, range)));
                }
                // The intersection has at most as many entries as its shortest range.
                Access::Intersection(_, ranges) => runner.ranges.push((Space::Indexes, ranges)),
            }
        }
        runner.ranges.reverse();
        runner
    }

    /// Advances by one entry, or finds that a range is empty; returns false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.source.budget.spend(1)?;
        if self.lookups > 0 {
            self.lookups -= 1;
            self.passed += 1;
            return Ok(true);
        }
        if !self.scans.is_empty() && self.all_advance()? {
            self.passed += 1;
            return Ok(true);
        }
        if !self.open_next()? {
            return Ok(false);
        }
        self.passed += usize::from(self.all_advance()?);
        Ok(true)
    }

    /// Starts the scans of the next group of ranges; returns false if there is none.
    fn open_next(&mut self) -> Result<bool> {
        let Some((space, ranges)) = self.ranges.pop() else { return Ok(false) };
        self.scans.clear();
        for range in ranges {
            self.scans.push(self.source.scan(space, range, Direction::Forwards)?);
        }
        Ok(true)
    }

    /// Advances by one entry in each of the ranges scanned together; returns false if one is at its end.
    fn all_advance(&mut self) -> Result<bool> {
        for scan in &mut self.scans {
            if scan.next()?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
