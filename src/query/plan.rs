//! The plan of a query: the access path to its records, the order that it provides, and the residual filter.
//!
//! Each condition that must hold and that an index answers gives an access path. What can lead to
//! no more than a few known records (an id, a value of a unique index) is taken at once, and so is an access path without a rival. Else
//! the access paths *race*: each walks its entries one by one, in turns, and the first that comes to its end has the fewest records.
//! So the true number decides, not statistics that have grown old, and finding it costs no more than the winner's entries times
//! the rivals; a value that is looked up counts, found or not. (MySQL calls a count of entries at planning an index dive; there it is
//! done for one range after the other.) If none has come to its end after [`PROBED`] entries, every choice is dear, and the kind of
//! the condition decides: equality before a set, that before a range, a closed before an open one.
//!
//! **Order.** An ordered index provides the records sorted by its attribute and then by id, backwards the exact opposite; the table,
//! the entries of one value, and ids yield them by id. Where the order is asked for and the fewest records are few, they are sorted
//! in memory; else an index that has the order is walked, so that the walk ends at the limit. Such a walk has a *rival*, the best of
//! the other access paths: while it reads records, the rival's entries are counted, and when it has read as many records as the rival
//! leads to, it gives up, and these are read and sorted. So at most twice the records of the better of the two are read, whatever the
//! distribution of the values is, and without an estimate (the competitive ratio of renting or buying: Karlin et al., "Competitive
//! snoopy caching", 1988).
//!
//! **Alternatives** (`a==1|b==2`) are steps, one after the other, if each of them has an index; a step passes over the records that
//! an earlier alternative accepts, so no set of ids is kept for them. A list has an entry for each element, and its record counts at
//! the first (`seen`).
//!
//! What an index answers exactly is not asked again of the record. Not used: the entries of two indexes at once.

mod paths;
mod race;

use smallvec::{SmallVec, smallvec};

pub(super) use self::paths::Indexes;
use self::paths::{AccessPath, ProvidedOrder, Selectivity, drop_superfluous, everything, one_step};
pub use self::race::PROBED;
pub(super) use self::race::{Rival, probe};
use super::budget::StepBudget;
use super::cursor::Cursor;
use super::tree::{Condition, Node, Query, Test};
use crate::encoding::Value;
use crate::error::{Error, Result};
use crate::indexes::{Direction, KeyRange};
use crate::schema::{Index, IndexKind, Kind, Relationship, Schema, Table};
use crate::storage::{Reach, Scan, Snapshot, Space, Store};
use crate::transaction::Database;

/// How many records are sorted in memory at most: the most that `offset` and `limit` may be together where no index provides the
/// order.
pub const SORTED_ROWS: usize = 100_000;

/// A list of up to so many records that an index provides without looking at others is made in microseconds.
const SHORT_ROWS: usize = 100;

/// What a plan is made for: a table as of one moment.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub store: &'s Store,
    pub schema: &'s Schema,
    pub table: &'s Table,
    pub snapshot: &'s Snapshot<'s>,
    pub reach: Reach,
    /// By which records have expired: microseconds since 1970.
    pub now: i64,
    pub budget: &'s StepBudget<'s>,
}

impl<'s> Source<'s> {
    pub fn of(
        database: &'s Database,
        table: &'s Table,
        snapshot: &'s Snapshot<'s>,
        budget: &'s StepBudget<'s>,
    ) -> Self {
        Self {
            store: database.store(),
            schema: database.schema(),
            table,
            snapshot,
            reach: database.reach(),
            now: database.now(),
            budget,
        }
    }

    /// The same of the table that a relationship of this one leads to.
    pub fn related(self, relationship: &Relationship) -> Self {
        Self { table: &self.schema.tables[relationship.table], ..self }
    }

    /// The indexes of the table that are ready at this moment.
    pub fn indexes(self) -> Indexes<'s> {
        Indexes::ready_at(self.table, self.snapshot.sequence())
    }

    /// A walk through a range of keys.
    ///
    /// # Errors
    /// `WouldBlock` if there was too much to do.
    pub fn scan(self, space: Space, range: &KeyRange, direction: Direction) -> Result<Scan<'s>> {
        self.budget.seek()?;
        let Self { store, snapshot, reach, .. } = self;
        Ok(match direction {
            Direction::Forwards => store.scan(space, &range.lower, &range.upper, snapshot, reach),
            Direction::Backwards => store.scan_backwards(space, &range.lower, &range.upper, snapshot, reach),
        })
    }
}

/// The steps to the records of a query, and the order that they provide.
pub(super) struct Plan<'p> {
    /// One after the other; none if no record can be meant.
    pub steps: Steps<'p>,
    /// Which way each of them is walked.
    pub direction: Direction,
    /// Whether records come in the required order; else they have to be sorted.
    pub ordered: bool,
    /// If the order is that of texts in entries, how many values stand before them there, which all entries share: texts that were cut
    /// still have to be put in order.
    pub texts_behind: Option<usize>,
    /// How many records the steps lead to, if that was counted.
    pub counted: Option<usize>,
    /// The steps that take over from a walk in order, if it has read as many records as they lead to.
    pub rival: Option<Steps<'p>>,
    /// Which access path it is: [`AccessPath::number`].
    pub path: u8,
}

pub(super) type Steps<'p> = SmallVec<[Step<'p>; 1]>;

/// An access path to some of the records, and their residual filter.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub access: Access<'p>,
    /// The subtrees of the filter that are still to be asked.
    pub checks: SmallVec<[usize; 2]>,
    /// The alternative that the step serves, as a subtree: later steps pass over the records that it accepts.
    pub alternative: Option<usize>,
}

/// Where records, or entries that lead to them, are read.
#[derive(Clone)]
pub(super) enum Access<'p> {
    /// The records with these ids, which ascend.
    Ids(SmallVec<[&'p str; 1]>),
    /// The owners of these values in a unique index.
    Owners(&'p Index, SmallVec<[&'p Value<'p>; 1]>),
    /// The entries in these ranges, which ascend, of an ordered or a hash index.
    Entries {
        index: &'p Index,
        ranges: SmallVec<[KeyRange; 1]>,
        /// Whether a record may have several of them.
        repeated: bool,
    },
    /// The records that have an entry in each of these ranges of an index, each of one value; there are two or more.
    Common(&'p Index, SmallVec<[KeyRange; 1]>),
    /// A range of the table.
    Table(KeyRange),
}

/// The indexes that steps read, by which a cursor knows them again: their numbers; 0 for the table, the greatest number for ids.
pub(super) fn signature(steps: &[Step<'_>]) -> SmallVec<[u32; 2]> {
    let of = |step: &Step<'_>| match &step.access {
        Access::Ids(_) => u32::MAX,
        Access::Owners(index, _) | Access::Entries { index, .. } | Access::Common(index, _) => index.id,
        Access::Table(_) => 0,
    };
    steps.iter().map(of).collect()
}

impl Access<'_> {
    /// Into how many look-ups it falls.
    fn lookups(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Owners(_, values) => values.len(),
            Self::Entries { ranges, .. } | Self::Common(_, ranges) => ranges.len(),
            Self::Table(_) => 1,
        }
    }

    /// Whether each entry that is walked over leads to a record of its own.
    fn counts_records(&self) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Entries { repeated, .. } => !repeated,
            Self::Ids(_) | Self::Owners(..) | Self::Common(..) => false, // There may be none.
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

/// What is required of an access path.
struct Required {
    order: RequiredOrder,
    /// The attributes that have one value in all records of the list, so that they order nothing.
    fixed: SmallVec<[usize; 2]>,
}

/// The access paths to the records of a query, before one is chosen.
pub(super) struct AccessPaths<'p> {
    query: &'p Query<'p>,
    indexes: Indexes<'p>,
    /// The subtrees that must all accept a record.
    conjuncts: SmallVec<[usize; 4]>,
    required: Required,
    /// Every access path but a scan of the whole table.
    paths: SmallVec<[AccessPath<'p>; 1]>,
}

impl Query<'_> {
    /// Whether the list is made in microseconds if what it needs is in memory: it has few records, and no others have to be
    /// looked at.
    pub fn is_short(&self, table: &Table) -> bool {
        let is_costly = |node: &Node<'_>| match node {
            Node::Related(_) => true,
            Node::Is(Condition { test: Test::Matches(_), .. }) => true,
            Node::Is(Condition { test: Test::OneOf(values), .. }) => values.len() > SHORT_ROWS,
            _ => false,
        };
        !self.filter.nodes.iter().any(is_costly)
            && AccessPaths::of(self, Indexes::ready(table)).without_superfluous().is_short()
    }

    /// The error of a list that cannot be put in order; to be asked for again later if an index has the order that is still being built.
    pub(super) fn unsorted(&self, source: Source<'_>, error: Error) -> Error {
        let waits = AccessPaths::of(self, Indexes::ready_or_building(source.table)).walk().is_some()
            && AccessPaths::of(self, source.indexes()).walk().is_none();
        match waits {
            true => Error::Busy { detail: "sort: the index that has this order is being built".to_owned() },
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
                // Two values seldom share a hash; any number of texts may share their beginning.
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

    /// How many records the plan has to lead to at most.
    fn rows(&self) -> usize {
        self.query.offset.saturating_add(self.query.limit.unwrap_or(usize::MAX))
    }

    /// The access path to the one record that the query can mean, if it says so by its id or by a value of a unique index. What is still to
    /// be asked of the record includes the value, so that it can be read without a snapshot.
    pub fn single(&mut self) -> Option<Step<'p>> {
        let single = self.paths.iter_mut().find(|path| path.provides == ProvidedOrder::Everything)?;
        single.steps.pop()
    }

    /// The access path by which a list without an order goes on: it may be one that another one has made superfluous meanwhile.
    ///
    /// # Errors
    /// `Invalid` if it is gone.
    pub fn plan_of(self, cursor: &Cursor) -> Result<Plan<'p>> {
        let everything = everything(self.indexes.table, &self.conjuncts);
        let mut paths = self.paths.into_iter().chain([everything]);
        let is_it = |path: &AccessPath<'_>| path.number == cursor.path && signature(&path.steps) == cursor.indexes;
        let chosen = paths.find(is_it).ok_or_else(|| {
            let detail = "after: the index of this cursor no longer exists: start the list again";
            self.query.surplus("after", detail.to_owned())
        })?;
        let required = Required { order: RequiredOrder::Nothing, fixed: SmallVec::new() };
        Ok(Plan::of(self.indexes.table, chosen, &required, None))
    }

    /// Chooses an access path.
    ///
    /// # Errors
    /// `Invalid` if more records would have to be sorted than fit, or `Busy` if an index that spares it is being built; what the engine
    /// returns.
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
                self.query.unsorted(source, self.query.surplus("sort", detail))
            });
        }
        self.paths.retain(|path| path.selectivity != Selectivity::NotNull);
        self.paths.sort_by_key(|path| path.selectivity); // Stable: among equals the order of the conditions decides.
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

    /// The walk in the required order, if something has it: an access path, or the whole table or index.
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

    /// The walk through all entries of an index that has the required order.
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
        let texts_behind = match (&required.order, path.provides) {
            (RequiredOrder::Attributes(..), ProvidedOrder::Values(index, shared)) if ordered => {
                index.attributes().skip(shared).any(is_text).then_some(shared)
            }
            _ => None,
        };
        Self { ordered, texts_behind, steps: path.steps, direction, counted, rival: None, path: path.number }
    }

    /// The plan to gather the records by these steps, which have no particular order.
    pub fn gathering(steps: Steps<'p>) -> Self {
        Self {
            ordered: false,
            texts_behind: None,
            steps,
            direction: Direction::Forwards,
            counted: None,
            rival: None,
            path: 0,
        }
    }

    /// Whether each entry that the steps walk over leads to a record of its own.
    pub fn counts_records(&self, table: &Table) -> bool {
        match &self.steps[..] {
            _ if table.expires() => false,
            [] => true,
            [step] => step.access.counts_records(),
            _ => false, // A record may be among several.
        }
    }
}

/// The order that the query requires. An attribute that has one value in all records of the list orders nothing; what follows the id
/// neither.
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
