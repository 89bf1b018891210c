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

use self::paths::{AccessPath, ProvidedOrder, Selectivity, everything, index_of, one_step};
pub use self::race::PROBED;
pub(super) use self::race::{Rival, probe};
use super::budget::StepBudget;
use super::cursor::Cursor;
use super::tree::{Condition, Node, Query, Test};
use crate::encoding::Value;
use crate::error::Result;
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
    pub budget: &'s StepBudget<'s>,
}

impl<'s> Source<'s> {
    pub fn of(
        database: &'s Database,
        table: &'s Table,
        snapshot: &'s Snapshot<'s>,
        budget: &'s StepBudget<'s>,
    ) -> Self {
        Self { store: database.store(), schema: database.schema(), table, snapshot, reach: database.reach(), budget }
    }

    /// The same of the table that a relationship of this one leads to.
    pub fn related(self, relationship: &Relationship) -> Self {
        Self { table: &self.schema.tables[relationship.table], ..self }
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
    /// Whether records come in the order that is asked for; else they have to be sorted.
    pub ordered: bool,
    /// The attribute by whose entries they are in order, if they are: texts that were cut there still have to be put in order.
    pub by_values_of: Option<usize>,
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
    /// A range of the table.
    Table(KeyRange),
}

/// The indexes that steps read, by which a cursor knows them again: their numbers; 0 for the table, the greatest number for ids.
pub(super) fn signature(steps: &[Step<'_>]) -> SmallVec<[u32; 2]> {
    let of = |step: &Step<'_>| match &step.access {
        Access::Ids(_) => u32::MAX,
        Access::Owners(index, _) | Access::Entries { index, .. } => index.id,
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
            Self::Entries { ranges, .. } => ranges.len(),
            Self::Table(_) => 1,
        }
    }

    fn repeats(&self) -> bool {
        matches!(self, Self::Entries { repeated: true, .. })
    }

    fn is_hashed(&self) -> bool {
        matches!(self, Self::Entries { index, .. } if index.kind == IndexKind::Hash)
    }
}

/// The required order, as far as an index can provide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequiredOrder {
    Nothing,
    Ids(Direction),
    Attribute(usize, Direction),
    Other,
}

/// The access paths to the records of a query, before one is chosen.
pub(super) struct AccessPaths<'p> {
    query: &'p Query<'p>,
    table: &'p Table,
    /// The subtrees that must all accept a record.
    conjuncts: SmallVec<[usize; 4]>,
    required: RequiredOrder,
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
        !self.filter.nodes.iter().any(is_costly) && AccessPaths::of(self, table).is_short()
    }
}

impl<'p> AccessPaths<'p> {
    pub fn of(query: &'p Query<'p>, table: &'p Table) -> Self {
        let conjuncts = query.filter.conjuncts();
        let required = required(query, table, &conjuncts);
        let paths = paths::to_all_records(&query.filter, table, &conjuncts);
        Self { query, table, conjuncts, required, paths }
    }

    fn is_short(&self) -> bool {
        let few =
            |path: &AccessPath<'_>| path.steps.iter().map(|step| step.access.lookups()).sum::<usize>() <= SHORT_ROWS;
        if self.paths.iter().any(|path| path.provides == ProvidedOrder::Everything && few(path)) {
            return true;
        }
        let leads_to_no_others = match &self.paths[..] {
            [] => self.conjuncts.is_empty() && (self.required == RequiredOrder::Nothing || self.walk().is_some()),
            [only] => {
                let answered = only.steps.iter().all(|step| step.checks.is_empty() && !step.access.repeats());
                // Two values seldom share a hash; any number of texts may share their beginning.
                let hashed = only.steps.iter().all(|step| step.access.is_hashed());
                let verified = self.conjuncts.len() == 1 && only.selectivity == Selectivity::Equality && hashed;
                only.selectivity != Selectivity::NotNull
                    && (answered || verified)
                    && few(only)
                    && only.provides.satisfies(self.required)
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

    /// The access path by which a list without an order goes on.
    ///
    /// # Errors
    /// `Invalid` if it is gone.
    pub fn plan_of(self, cursor: &Cursor) -> Result<Plan<'p>> {
        let everything = everything(self.table, &self.conjuncts);
        let mut paths = self.paths.into_iter().chain([everything]);
        let is_it = |path: &AccessPath<'_>| path.number == cursor.path && signature(&path.steps) == cursor.indexes;
        let chosen = paths.find(is_it).ok_or_else(|| {
            let detail = "after: the index by which the list was made is gone: ask for it from its beginning";
            self.query.surplus("after", detail.to_owned())
        })?;
        Ok(Plan::of(self.table, chosen, RequiredOrder::Nothing, None))
    }

    /// Chooses an access path.
    ///
    /// # Errors
    /// `Invalid` if more records would have to be sorted than fit; what the engine returns.
    pub fn plan(mut self, source: Source<'_>) -> Result<Plan<'p>> {
        let required = self.required;
        if let Some(point) = self.paths.iter().position(|path| path.selectivity == Selectivity::Point) {
            return Ok(Plan::of(self.table, self.paths.swap_remove(point), required, None));
        }
        let walk = self.walk();
        if required != RequiredOrder::Nothing && self.rows() > SORTED_ROWS {
            return walk.map(|walk| Plan::of(self.table, walk, required, None)).ok_or_else(|| {
                let detail = "sort: no index has this order, and at most";
                let detail = format!("{detail} {SORTED_ROWS} records (offset and limit together) are sorted in memory");
                self.query.surplus("sort", detail)
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
            return Ok(Plan::of(self.table, self.paths.swap_remove(winner), required, Some(counted)));
        }
        if let Some(walk) = walk {
            let rival = self.paths.into_iter().find(|path| !path.provides.satisfies(required));
            let plan = Plan::of(self.table, walk, required, None);
            return Ok(Plan { rival: rival.map(|rival| rival.steps), ..plan });
        }
        let chosen = self.paths.into_iter().next();
        Ok(Plan::of(self.table, chosen.unwrap_or_else(|| everything(self.table, &self.conjuncts)), required, None))
    }

    /// The walk in the order that is asked for, if something has it: an access path, or all there is.
    fn walk(&self) -> Option<AccessPath<'p>> {
        if self.required == RequiredOrder::Nothing {
            return None;
        }
        let fitting = self.paths.iter().filter(|path| path.provides.satisfies(self.required));
        if let Some(best) = fitting.min_by_key(|path| path.selectivity) {
            return Some(best.clone());
        }
        match self.required {
            RequiredOrder::Ids(_) => Some(everything(self.table, &self.conjuncts)),
            RequiredOrder::Attribute(attribute, _) => {
                let index = index_of(self.table, attribute, IndexKind::Ordered)?;
                let all = KeyRange::of_prefix(index.id.to_be_bytes().to_vec());
                let access = Access::Entries { index, ranges: smallvec![all], repeated: false };
                Some(one_step(access, Selectivity::NotNull, ProvidedOrder::Attribute(attribute), &self.conjuncts, &[]))
            }
            RequiredOrder::Nothing | RequiredOrder::Other => None,
        }
    }
}

impl<'p> Plan<'p> {
    fn of(table: &Table, path: AccessPath<'p>, required: RequiredOrder, counted: Option<usize>) -> Self {
        let is_text = |attribute: usize| matches!(table.attributes[attribute].kind, Kind::Id | Kind::String);
        let ordered = path.provides.satisfies(required);
        let direction = match required {
            RequiredOrder::Ids(direction) | RequiredOrder::Attribute(_, direction) if ordered => direction,
            _ => Direction::Forwards,
        };
        let by_values_of = match (required, path.provides) {
            (RequiredOrder::Attribute(asked, _), ProvidedOrder::Attribute(own)) => {
                (asked == own && is_text(own)).then_some(own)
            }
            _ => None,
        };
        Self { ordered, by_values_of, steps: path.steps, direction, counted, rival: None, path: path.number }
    }

    /// The plan to gather the records by these steps, which have no particular order.
    pub fn gathering(steps: Steps<'p>) -> Self {
        Self {
            ordered: false,
            by_values_of: None,
            steps,
            direction: Direction::Forwards,
            counted: None,
            rival: None,
            path: 0,
        }
    }

    /// Whether each entry that the steps walk over leads to a record of its own.
    pub fn counts_records(&self) -> bool {
        match &self.steps[..] {
            [] => true,
            [step] => match step.access {
                Access::Table(_) => true,
                Access::Entries { repeated, .. } => !repeated,
                Access::Ids(_) | Access::Owners(..) => false, // There may be none.
            },
            _ => false, // A record may be among several.
        }
    }
}

/// The order that is asked for. An attribute that has one value in all records of the list orders nothing; what follows the id
/// neither.
fn required(query: &Query<'_>, table: &Table, conjuncts: &[usize]) -> RequiredOrder {
    let Some(last) = query.sort.last() else { return RequiredOrder::Nothing };
    let is_fixed = |attribute: usize| {
        conjuncts.iter().any(|node| match &query.filter.nodes[*node] {
            Node::Is(condition) => {
                condition.attribute == attribute && matches!(condition.test, Test::Equal(_) | Test::Null)
            }
            _ => false,
        })
    };
    let direction = |descending| if descending { Direction::Backwards } else { Direction::Forwards };
    let (mut ids, mut first) = (direction(last.descending), None);
    for term in &query.sort {
        let own = direction(term.descending);
        if term.attribute == table.primary_key {
            ids = own;
            break;
        }
        match first {
            _ if is_fixed(term.attribute) => {}
            None => first = Some((term.attribute, own)),
            Some(_) => return RequiredOrder::Other,
        }
    }
    match first {
        None => RequiredOrder::Ids(ids),
        Some((attribute, own)) if own == ids => RequiredOrder::Attribute(attribute, own),
        Some(_) => RequiredOrder::Other,
    }
}
