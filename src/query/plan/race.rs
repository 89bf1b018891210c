//! Which of several access paths leads to the fewest records: found by walking them, before the choice, and while one of them is carried out.

use smallvec::SmallVec;

use super::paths::AccessPath;
use super::{Access, Source, Step};
use crate::error::Result;
use crate::indexes::{Direction, KeyRange};
use crate::storage::{Scan, Space};

/// How many entries of each access path are walked at most to find out which has the fewest.
pub const PROBED: usize = 256;

/// The access path whose walk comes to its end first, and how many entries there were; `None` if each is longer than is walked at most.
pub(super) fn race(source: Source<'_>, paths: &[AccessPath<'_>]) -> Result<Option<(usize, usize)>> {
    let mut runners: SmallVec<[Runner<'_>; 4]> = paths.iter().map(|path| Runner::new(source, &path.steps)).collect();
    for _ in 0..PROBED {
        for (position, runner) in runners.iter_mut().enumerate() {
            if !runner.advance()? {
                return Ok(Some((position, runner.passed)));
            }
        }
    }
    Ok(None)
}

/// How many entries the steps have, as far as it is counted, and whether that is all.
pub(in crate::query) fn probe(source: Source<'_>, steps: &[Step<'_>]) -> Result<(usize, bool)> {
    let mut runner = Runner::new(source, steps);
    for _ in 0..PROBED {
        if !runner.advance()? {
            return Ok((runner.passed, true));
        }
    }
    Ok((runner.passed, false))
}

/// The steps that a walk in order competes with: it may read as many records as they lead to.
pub(in crate::query) struct Rival<'s> {
    runner: Runner<'s>,
    is_counted: bool,
    /// Records that the walk was granted.
    granted: usize,
}

impl<'s> Rival<'s> {
    pub fn new(source: Source<'s>, steps: &'s [Step<'_>]) -> Self {
        Self { runner: Runner::new(source, steps), is_counted: false, granted: 0 }
    }

    /// How many of `wanted` further records the walk may read; none once it has read as many as the rival leads to. Counts no
    /// further than that takes.
    ///
    /// # Errors
    /// What the engine returns.
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

/// A walk through the ranges of an access path, without reading what they lead to.
struct Runner<'s> {
    source: Source<'s>,
    /// Ids and values that are looked up one by one, not yet passed.
    lookups: usize,
    /// Stretches that have not begun, last first; those that are walked together.
    ranges: SmallVec<[(Space, &'s [KeyRange]); 1]>,
    scans: SmallVec<[Scan<'s>; 1]>,
    /// Entries, ids and values so far.
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
                // No more have an entry in each than in the shortest.
                Access::Common(_, ranges) => runner.ranges.push((Space::Indexes, ranges)),
            }
        }
        runner.ranges.reverse();
        runner
    }

    /// Passes over one entry, or finds that a range has none; false at the end.
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
        let Some((space, ranges)) = self.ranges.pop() else { return Ok(false) };
        self.scans.clear();
        for range in ranges {
            self.scans.push(self.source.scan(space, range, Direction::Forwards)?);
        }
        self.passed += usize::from(self.all_advance()?);
        Ok(true)
    }

    /// Goes on by an entry in each of the ranges that are walked together; false if one is at its end.
    fn all_advance(&mut self) -> Result<bool> {
        for scan in &mut self.scans {
            if scan.next()?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
