//! The plan of a query: the access path to its records, the order that it provides, and the residual filter.
//!
//! Each condition that must hold and that an index answers gives an access path. One that leads to at most a few known records (an id, a
//! value of a unique index) is chosen immediately, and so is an access path without a rival. Otherwise the access paths *race*: each scans
//! its entries one by one, in turns, and the first to reach its end leads to the fewest records. The choice thus depends on the actual
//! number, not on stale statistics, and costs no more than the winner's entries times the number of rivals; a value that is looked up
//! counts whether it is found or not. (MySQL calls counting entries during planning an index dive, and does it for one range after
//! another.) If none has reached its end after [`PROBED`] entries, every choice is expensive, and the kind of the condition decides:
//! equality before a set, a set before a range, a bounded range before a half-bounded one.
//!
//! **Order.** An ordered index provides the records sorted by its attribute and then by id, and the exact reverse when scanned backwards;
//! the table, the entries of one value, and ids provide them by id. If an order is required and the smallest access path is small, its
//! records are sorted in memory; otherwise an index that provides the order is scanned, so that the scan ends at the limit. Such a scan has
//! a *rival*, the best of the other access paths: while it reads records, the rival's entries are counted, and once it has read as many
//! records as the rival leads to, it stops, and the rival's records are read and sorted. At most twice the records of the better of the two
//! are read, for any distribution of values and without an estimate (the competitive ratio of ski rental: Karlin et al., "Competitive
//! snoopy caching", 1988).
//!
//! **Alternatives** (`a==1|b==2`) are consecutive steps, if each of them has an index; a step skips the records that an earlier alternative
//! accepts, so no set of ids is kept for them. A list has an entry for each element, and its record counts at the first (`seen`).
//!
//! A condition that an index answers exactly is not evaluated again on the record. Only ranges of one index are intersected, not indexes.

mod paths;
mod race;

use smallvec::{SmallVec, smallvec};

use self::paths::{AccessPath, ProvidedOrder, Selectivity, drop_superfluous, everything, one_step};
pub use self::race::PROBED;
pub(super) use self::race::{Rival, probe};
use super::cursor::Cursor;
use super::source::{Indexes, Source};
use super::tree::{Condition, Node, Query, Test};
use crate::encoding::Value;
use crate::error::{Error, Result};
use crate::indexes::{Direction, KeyRange};
use crate::schema::{Index, IndexKind, Kind, Table};

/// The maximum number of records sorted in memory: the limit of `offset` plus `limit` where no index provides the order.
pub const SORTED_ROWS: usize = 100_000;

/// A list of at most this many records takes microseconds if an index provides it without examining other records.
const SHORT_ROWS: usize = 100;

/// The steps that lead to the records of a query, and the order that they provide.
pub(super) struct Plan<'p> {
    /// Executed in sequence; empty if no record can match.
    pub steps: Steps<'p>,
    /// The direction in which each step is scanned.
    pub direction: Direction,
    /// Whether the records come in the required order; otherwise they have to be sorted.
    pub ordered: bool,
    /// If the order depends on texts in index entries, the number of leading values that all entries share before those texts:
    /// records whose texts are truncated there still have to be sorted.
    pub shared_before_text: Option<usize>,
    /// The number of records to which the steps lead, if it was counted.
    pub counted: Option<usize>,
    /// The steps that replace an ordered scan once it has read as many records as they lead to.
    pub rival: Option<Steps<'p>>,
    /// The number of the access path: [`AccessPath::number`].
    pub path: u8,
}

pub(super) type Steps<'p> = SmallVec<[Step<'p>; 1]>;

/// An access path to some of the records, with its residual filter.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub access: Access<'p>,
    /// The subtrees of the filter that still have to be evaluated.
    pub checks: SmallVec<[usize; 2]>,
    /// The alternative that the step serves, as a subtree: later steps skip the records that it accepts.
    pub alternative: Option<usize>,
}

/// The source of records, or of entries that lead to them.
#[derive(Clone)]
pub(super) enum Access<'p> {
    /// The records with these ids, in ascending order.
    Ids(SmallVec<[&'p str; 1]>),
    /// The owners of these values in a unique index.
    Owners(&'p Index, SmallVec<[&'p Value<'p>; 1]>),
    /// The entries in these ascending ranges of an ordered or a hash index.
    Entries {
        index: &'p Index,
        ranges: SmallVec<[KeyRange; 1]>,
        /// Whether a record may have several of these entries.
        repeated: bool,
    },
    /// The records with an entry in each of these two or more ranges of an index, each of one value.
    Intersection(&'p Index, SmallVec<[KeyRange; 1]>),
    /// A range of the table.
    Table(KeyRange),
}

/// Returns the ids of the indexes that the steps read, by which a cursor identifies them; 0 for the table, the greatest number for ids.
pub(super) fn signature(steps: &[Step<'_>]) -> SmallVec<[u32; 2]> {
    let of = |step: &Step<'_>| match &step.access {
        Access::Ids(_) => u32::MAX,
        Access::Owners(index, _) | Access::Entries { index, .. } | Access::Intersection(index, _) => index.id,
        Access::Table(_) => 0,
    };
    steps.iter().map(of).collect()
}

impl Access<'_> {
    /// Returns the number of lookups that it consists of.
    fn lookups(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Owners(_, values) => values.len(),
            Self::Entries { ranges, .. } | Self::Intersection(_, ranges) => ranges.len(),
            Self::Table(_) => 1,
        }
    }

    /// Returns whether each scanned entry leads to a distinct record.
    fn counts_records(&self) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Entries { repeated, .. } => !repeated,
            Self::Ids(_) | Self::Owners(..) | Self::Intersection(..) => false, // They may not exist.
        }
    }

    fn is_hashed(&self) -> bool {
        matches!(self, Self::Entries { index, .. } if index.kind == IndexKind::Hash)
    }
}

/// The required order, as far as an index can provide it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequiredOrder {
    Nothing,
    Ids(Direction),
    /// By these attributes, then by id, all in one direction.
    Attributes(SmallVec<[usize; 2]>, Direction),
    Other,
}

/// The requirements on an access path.
struct Required {
    order: RequiredOrder,
    /// The attributes with the same value in all records of the list, which do not affect the order.
    fixed: SmallVec<[usize; 2]>,
}

/// The access paths to the records of a query, before one is chosen.
pub(super) struct AccessPaths<'p> {
    query: &'p Query<'p>,
    indexes: Indexes<'p>,
    /// The subtrees that must all accept a record.
    conjuncts: SmallVec<[usize; 4]>,
    required: Required,
    /// Every access path except the scan of the whole table.
    paths: SmallVec<[AccessPath<'p>; 1]>,
}

impl Query<'_> {
    /// Returns whether the list takes microseconds if the data is in memory: it has few records, and no others have to be examined.
    pub fn is_short(&self, table: &Table) -> bool {
        let is_costly = |node: &Node<'_>| match node {
            Node::Related(_) => true,
            Node::Is(Condition { test: Test::Matches(_), .. }) => true,
            Node::Is(Condition { test: Test::OneOf(values), .. }) => values.len() > SHORT_ROWS,
            _ => false,
        };
        self.fits(table)
            && !self.filter.nodes.iter().any(is_costly)
            && AccessPaths::of(self, Indexes::ready(table)).without_superfluous().is_short()
    }

    /// Returns the error of a list that cannot be sorted; a retryable one if an index that provides the order is still being built.
    pub(super) fn unsorted(&self, source: Source<'_>, error: Error) -> Error {
        let waits = AccessPaths::of(self, Indexes::ready_or_building(source.table)).walk().is_some()
            && AccessPaths::of(self, source.indexes()).walk().is_none();
        match waits {
            true => Error::Busy { detail: "sort: the index that provides this order is still being built".to_owned() },
            false => error,
        }
    }
}

impl<'p> AccessPaths<'p> {
    pub fn of(query: &'p Query<'p>, indexes: Indexes<'p>) -> Self {
        let conjuncts = query.filter.conjuncts();
        let required = required(query, indexes.table, &conjuncts);
        let paths = paths::to_all_records(&query.filter, indexes, &conjuncts);
        Self { query, indexes, conjuncts, required, paths }
    }

    /// Returns what leads to all matching records and to no others, and to each once, if a single access path does.
    pub fn only(self) -> Option<Access<'p>> {
        let (table, mut paths) = (self.indexes.table, self.without_superfluous());
        let only = match paths.paths.len() {
            0 => everything(table, &paths.conjuncts),
            1 => paths.paths.pop()?,
            _ => return None,
        };
        match &only.steps[..] {
            [step] if step.checks.is_empty() && step.access.counts_records() => Some(step.access.clone()),
            _ => None,
        }
    }

    fn without_superfluous(mut self) -> Self {
        drop_superfluous(&mut self.paths, &self.required);
        self
    }

    fn is_short(&self) -> bool {
        let few =
            |path: &AccessPath<'_>| path.steps.iter().map(|step| step.access.lookups()).sum::<usize>() <= SHORT_ROWS;
        if self.paths.iter().any(|path| path.provides == ProvidedOrder::Everything && few(path)) {
            return true;
        }
        let leads_to_no_others = match &self.paths[..] {
            [] => self.conjuncts.is_empty() && (self.required.order == RequiredOrder::Nothing || self.walk().is_some()),
            [only] => {
                let answered = only.steps.iter().all(|step| step.checks.is_empty() && step.access.counts_records());
                // Values rarely share a hash, but any number of texts may share a prefix.
                let hashed = only.steps.iter().all(|step| step.access.is_hashed());
                let verified = self.conjuncts.len() == 1 && only.selectivity == Selectivity::Equality && hashed;
                only.selectivity != Selectivity::NotNull
                    && (answered || verified)
                    && few(only)
                    && only.provides.satisfies(&self.required)
            }
            _ => false,
        };
        leads_to_no_others && self.rows() <= SHORT_ROWS
    }

    /// Returns the maximum number of records that the plan has to produce.
    fn rows(&self) -> usize {
        self.query.offset.saturating_add(self.query.limit.unwrap_or(usize::MAX))
    }

    /// Returns the access path to the only record that can match, if the query gives its id or a value of a unique index. The residual
    /// filter includes the value, so that the record can be read without a snapshot.
    pub fn single(&mut self) -> Option<Step<'p>> {
        let single = self.paths.iter_mut().find(|path| path.provides == ProvidedOrder::Everything)?;
        single.steps.pop()
    }

    /// Returns the plan with which an unordered list continues; its access path may have become superfluous in the meantime.
    ///
    /// # Errors
    /// `Invalid` if the access path no longer exists.
    pub fn plan_of(self, cursor: &Cursor) -> Result<Plan<'p>> {
        let everything = everything(self.indexes.table, &self.conjuncts);
        let mut paths = self.paths.into_iter().chain([everything]);
        let is_it = |path: &AccessPath<'_>| path.number == cursor.path && signature(&path.steps) == cursor.indexes;
        let chosen = paths.find(is_it).ok_or_else(|| {
            let detail = "after: the index of this cursor no longer exists: start the list again";
            self.query.clause_error("after", detail.to_owned())
        })?;
        let required = Required { order: RequiredOrder::Nothing, fixed: SmallVec::new() };
        Ok(Plan::of(self.indexes.table, chosen, &required, None))
    }

    /// Chooses an access path.
    ///
    /// # Errors
    /// `Invalid` if more records would have to be sorted than fit, or `Busy` if an index that avoids the sort is being built; errors of the
    /// engine.
    pub fn plan(mut self, source: Source<'_>) -> Result<Plan<'p>> {
        self = self.without_superfluous();
        let (walk, table) = (self.walk(), self.indexes.table);
        let plan_of = |path, required: &Required, counted| Plan::of(table, path, required, counted);
        if let Some(point) = self.paths.iter().position(|path| path.selectivity == Selectivity::Point) {
            return Ok(plan_of(self.paths.swap_remove(point), &self.required, None));
        }
        let required = &self.required;
        if required.order != RequiredOrder::Nothing && self.rows() > SORTED_ROWS {
            return walk.map(|walk| plan_of(walk, required, None)).ok_or_else(|| {
                let detail = "sort: no index has this order, and at most";
                let detail = format!("{detail} {SORTED_ROWS} records (offset and limit together) are sorted in memory");
                self.query.unsorted(source, self.query.clause_error("sort", detail))
            });
        }
        self.paths.retain(|path| path.selectivity != Selectivity::NotNull);
        self.paths.sort_by_key(|path| path.selectivity); // Stable: ties are resolved by the order of the conditions.
        let is_contested = match &self.paths[..] {
            [] => false,
            [only] => walk.is_some() && !only.provides.satisfies(required),
            _ => true,
        };
        if is_contested && let Some((winner, counted)) = race::race(source, &self.paths)? {
            return Ok(plan_of(self.paths.swap_remove(winner), required, Some(counted)));
        }
        if let Some(walk) = walk {
            let rival = self.paths.into_iter().find(|path| !path.provides.satisfies(required));
            let plan = plan_of(walk, required, None);
            return Ok(Plan { rival: rival.map(|rival| rival.steps), ..plan });
        }
        let chosen = self.paths.into_iter().next();
        Ok(plan_of(chosen.unwrap_or_else(|| everything(table, &self.conjuncts)), required, None))
    }

    /// Returns the scan that provides the required order, if any: an access path, or the whole table or index.
    fn walk(&self) -> Option<AccessPath<'p>> {
        if self.required.order == RequiredOrder::Nothing {
            return None;
        }
        let fitting = self.paths.iter().filter(|path| path.provides.satisfies(&self.required));
        if let Some(best) = fitting.min_by_key(|path| path.selectivity) {
            return Some(best.clone());
        }
        match self.required.order {
            RequiredOrder::Ids(_) => Some(everything(self.indexes.table, &self.conjuncts)),
            _ => self.walk_of_all(),
        }
    }

    /// Returns the full scan of an index that provides the required order.
    fn walk_of_all(&self) -> Option<AccessPath<'p>> {
        let provides = |index| ProvidedOrder::Values(index, 0);
        let in_order = self.indexes.in_order().filter(|index| provides(index).satisfies(&self.required));
        let index = in_order.min_by_key(|index| index.following.len())?;
        let all = KeyRange::of_prefix(index.id.to_be_bytes().to_vec());
        let access = Access::Entries { index, ranges: smallvec![all], repeated: false };
        Some(one_step(access, Selectivity::NotNull, provides(index), &self.conjuncts, &[], &[]))
    }
}

impl<'p> Plan<'p> {
    fn of(table: &Table, path: AccessPath<'p>, required: &Required, counted: Option<usize>) -> Self {
        let is_text = |attribute: usize| matches!(table.attributes[attribute].kind, Kind::Id | Kind::String);
        let ordered = path.provides.satisfies(required);
        let direction = match required.order {
            RequiredOrder::Ids(direction) | RequiredOrder::Attributes(_, direction) if ordered => direction,
            _ => Direction::Forwards,
        };
        let shared_before_text = match (&required.order, path.provides) {
            (RequiredOrder::Attributes(..), ProvidedOrder::Values(index, shared)) if ordered => {
                index.attributes().skip(shared).any(is_text).then_some(shared)
            }
            _ => None,
        };
        Self { ordered, shared_before_text, steps: path.steps, direction, counted, rival: None, path: path.number }
    }

    /// Returns the plan that collects the records of these steps in no particular order.
    pub fn gathering(steps: Steps<'p>) -> Self {
        Self {
            ordered: false,
            shared_before_text: None,
            steps,
            direction: Direction::Forwards,
            counted: None,
            rival: None,
            path: 0,
        }
    }

    /// Returns whether each entry that the steps scan leads to a distinct record.
    pub fn counts_records(&self, table: &Table) -> bool {
        match &self.steps[..] {
            _ if table.expires() => false,
            [] => true,
            [step] => step.access.counts_records(),
            _ => false, // Several steps may lead to the same record.
        }
    }
}

/// Returns the order that the query requires. An attribute with one value in all records of the list does not affect the order, nor does a
/// sort key after the id.
fn required(query: &Query<'_>, table: &Table, conjuncts: &[usize]) -> Required {
    let fixed = conjuncts.iter().filter_map(|node| match &query.filter.nodes[*node] {
        Node::Is(Condition { attribute, path, test: Test::Equal(_) | Test::Null, .. }) if path.is_empty() => {
            (!table.attributes[*attribute].list).then_some(*attribute)
        }
        _ => None,
    });
    let mut required = Required { order: RequiredOrder::Nothing, fixed: fixed.collect() };
    let Some(last) = query.sort.last() else { return required };
    let direction = |descending| if descending { Direction::Backwards } else { Direction::Forwards };
    let (mut ids, mut terms) = (direction(last.descending), SmallVec::<[_; 2]>::new());
    for term in &query.sort {
        let own = direction(term.descending);
        if term.attribute == table.primary_key {
            ids = own;
            break;
        }
        if !required.fixed.contains(&term.attribute) {
            terms.push((term.attribute, own));
        }
    }
    required.order = match &terms[..] {
        [] => RequiredOrder::Ids(ids),
        all if all.iter().all(|(_, own)| *own == ids) => {
            RequiredOrder::Attributes(all.iter().map(|(attribute, _)| *attribute).collect(), ids)
        }
        _ => RequiredOrder::Other,
    };
    required
}
