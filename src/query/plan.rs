//! How the records of a query are come by: by which index, in which order, and what is left to ask of each record.
//!
//! The conditions that must all hold are looked through for those that an index answers; each gives a candidate. What can lead to
//! no more than a few known records (an id, a value of a unique index) is taken at once, and so is a candidate without a rival. Else
//! the candidates *race*: each walks its entries one by one, in turns, and the first that comes to its end has the fewest records.
//! So the true number decides, not statistics that have grown old, and finding it costs no more than the winner's entries times
//! the rivals; a value that is looked up counts, found or not. (MySQL calls a count of entries at planning an index dive; there it is
//! done for one range after the other.) If none has come to its end after [`PROBED`] entries, every choice is dear, and the kind of
//! the condition decides: equality before a set, that before a range, a closed before an open one.
//!
//! **Order.** An ordered index yields the records sorted by its attribute and then by id, backwards the exact opposite; the table,
//! the entries of one value, and ids yield them by id. Where the order is asked for and the fewest records are few, they are sorted
//! in memory; else an index that has the order is walked, so that the walk ends at the limit.
//!
//! **Alternatives** (`a==1|b==2`) are steps, one after the other, if each of them has an index; a step passes over the records that
//! an earlier alternative accepts, so no set of ids is kept for them. A list has an entry for each element, and its record counts at
//! the first (`seen`).
//!
//! What an index answers exactly is not asked again of the record. Not used: the entries of two indexes at once.

use std::ops::Bound;

use smallvec::{SmallVec, smallvec};

use super::effort::Effort;
use super::tree::{Condition, Filter, Node, Pattern, Query, Test};
use crate::encoding::{Value, key};
use crate::error::Result;
use crate::indexes::{self, Direction, KeyRange};
use crate::schema::{Index, IndexKind, Kind, Table};
use crate::storage::{Reach, Scan, Snapshot, Space, Store};
use crate::transaction::Database;

/// How many entries of each candidate are walked at most to find out which has the fewest.
pub const PROBED: usize = 256;

/// How many records are sorted in memory at most: the most that `offset` and `limit` may be together where no index yields the
/// order.
pub const SORTED_ROWS: usize = 100_000;

/// A list of up to so many records that an index yields without looking at others is made in microseconds.
const SHORT_ROWS: usize = 100;

/// What a plan is made for: a table as of one moment.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub store: &'s Store,
    pub table: &'s Table,
    pub snapshot: &'s Snapshot<'s>,
    pub reach: Reach,
    pub effort: &'s Effort,
}

impl<'s> Source<'s> {
    pub fn of(database: &'s Database, table: &'s Table, snapshot: &'s Snapshot<'s>, effort: &'s Effort) -> Self {
        Self { store: database.store(), table, snapshot, reach: database.reach(), effort }
    }

    /// A walk through a stretch of keys.
    ///
    /// # Errors
    /// `WouldBlock` if there was too much to do.
    pub fn scan(self, space: Space, range: &KeyRange, direction: Direction) -> Result<Scan<'s>> {
        self.effort.seek()?;
        let Self { store, snapshot, reach, .. } = self;
        Ok(match direction {
            Direction::Forwards => store.scan(space, &range.lower, &range.upper, snapshot, reach),
            Direction::Backwards => store.scan_backwards(space, &range.lower, &range.upper, snapshot, reach),
        })
    }
}

/// How the records of a query are come by.
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
}

pub(super) type Steps<'p> = SmallVec<[Step<'p>; 1]>;

/// A way to some of the records.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub access: Access<'p>,
    /// The subtrees of the filter that are still to be asked.
    pub checks: SmallVec<[usize; 4]>,
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
    /// The entries in these stretches, which ascend, of an ordered or a hash index.
    Entries {
        index: &'p Index,
        ranges: SmallVec<[KeyRange; 1]>,
        /// Whether a record may have several of them.
        repeated: bool,
    },
    /// A stretch of the table.
    Table(KeyRange),
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

/// How selective a candidate is taken to be, until it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A record, or a few that are named.
    Point,
    /// One value.
    Equality,
    /// A few values.
    Set,
    /// From one value to another, or texts with one beginning.
    Between,
    /// From one value on.
    Beyond,
    /// Records without a value.
    Null,
    /// Records with a value: not worth it but for the order.
    NotNull,
}

/// The orders that a candidate yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Yields {
    /// No particular one.
    Nothing,
    /// Every one: there is one record at most.
    Everything,
    /// By id.
    Ids,
    /// By this attribute, then by id.
    Attribute(usize),
}

/// One way to all records of a query.
#[derive(Clone)]
struct Candidate<'p> {
    steps: Steps<'p>,
    rank: Rank,
    yields: Yields,
}

/// The order that is asked for, as far as it can be had from an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Ids(Direction),
    Attribute(usize, Direction),
    Other,
}

/// The ways to the records of a query, before one is chosen.
pub(super) struct Ways<'p> {
    query: &'p Query<'p>,
    table: &'p Table,
    /// The subtrees that must all accept a record.
    conjuncts: SmallVec<[usize; 8]>,
    wanted: Wanted,
    /// Every way but walking all there is.
    candidates: SmallVec<[Candidate<'p>; 2]>,
}

impl Query<'_> {
    /// Whether the list is made in microseconds if what it needs is in memory: it has few records, and no others have to be
    /// looked at.
    pub fn is_short(&self, table: &Table) -> bool {
        let is_costly = |node: &Node<'_>| match node {
            Node::Is(Condition { test: Test::Matches(_), .. }) => true,
            Node::Is(Condition { test: Test::OneOf(values), .. }) => values.len() > SHORT_ROWS,
            _ => false,
        };
        !self.filter.nodes.iter().any(is_costly) && Ways::of(self, table).is_short()
    }
}

impl<'p> Ways<'p> {
    pub fn of(query: &'p Query<'p>, table: &'p Table) -> Self {
        let conjuncts = query.filter.conjuncts();
        let wanted = wanted(query, table, &conjuncts);
        let candidates = candidates(&query.filter, table, &conjuncts);
        Self { query, table, conjuncts, wanted, candidates }
    }

    fn is_short(&self) -> bool {
        let few = |candidate: &Candidate<'_>| {
            candidate.steps.iter().map(|step| step.access.lookups()).sum::<usize>() <= SHORT_ROWS
        };
        if self.candidates.iter().any(|candidate| candidate.yields == Yields::Everything && few(candidate)) {
            return true;
        }
        let leads_to_no_others = match &self.candidates[..] {
            [] => self.conjuncts.is_empty() && (self.wanted == Wanted::Nothing || self.walk().is_some()),
            [only] => {
                let answered = only.steps.iter().all(|step| step.checks.is_empty() && !step.access.repeats());
                // Two values seldom share a hash; any number of texts may share their beginning.
                let hashed = only.steps.iter().all(|step| step.access.is_hashed());
                let verified = self.conjuncts.len() == 1 && only.rank == Rank::Equality && hashed;
                only.rank != Rank::NotNull && (answered || verified) && few(only) && only.yields.have(self.wanted)
            }
            _ => false,
        };
        leads_to_no_others && self.rows() <= SHORT_ROWS
    }

    /// How many records have to be come by at most.
    fn rows(&self) -> usize {
        self.query.offset.saturating_add(self.query.limit.unwrap_or(usize::MAX))
    }

    /// The way to the one record that the query can mean, if it says so by its id or by a value of a unique index. What is still to
    /// be asked of the record includes the value, so that it can be read without a snapshot.
    pub fn single(&mut self) -> Option<Step<'p>> {
        let single = self.candidates.iter_mut().find(|candidate| candidate.yields == Yields::Everything)?;
        single.steps.pop()
    }

    /// Chooses how to come by the records.
    ///
    /// # Errors
    /// `Invalid` if more records would have to be sorted than fit; what the engine returns.
    pub fn plan(mut self, source: Source<'_>) -> Result<Plan<'p>> {
        let wanted = self.wanted;
        if let Some(point) = self.candidates.iter().position(|candidate| candidate.rank == Rank::Point) {
            return Ok(Plan::of(self.table, self.candidates.swap_remove(point), wanted, None));
        }
        let walk = self.walk();
        if wanted != Wanted::Nothing && self.rows() > SORTED_ROWS {
            return walk.map(|walk| Plan::of(self.table, walk, wanted, None)).ok_or_else(|| {
                let detail = "sort: no index has this order, and at most";
                let detail = format!("{detail} {SORTED_ROWS} records (offset and limit together) are sorted in memory");
                self.query.surplus("sort", detail)
            });
        }
        self.candidates.retain(|candidate| candidate.rank != Rank::NotNull);
        self.candidates.sort_by_key(|candidate| candidate.rank); // Stable: among equals the order of the conditions decides.
        let is_contested = match &self.candidates[..] {
            [] => false,
            [only] => walk.is_some() && !only.yields.have(wanted),
            _ => true,
        };
        if is_contested && let Some((winner, counted)) = race(source, &self.candidates)? {
            return Ok(Plan::of(self.table, self.candidates.swap_remove(winner), wanted, Some(counted)));
        }
        let chosen = walk.or_else(|| self.candidates.into_iter().next());
        Ok(Plan::of(self.table, chosen.unwrap_or_else(|| everything(self.table, &self.conjuncts)), wanted, None))
    }

    /// The walk in the order that is asked for, if something has it: a candidate, or all there is.
    fn walk(&self) -> Option<Candidate<'p>> {
        if self.wanted == Wanted::Nothing {
            return None;
        }
        let fitting = self.candidates.iter().filter(|candidate| candidate.yields.have(self.wanted));
        if let Some(best) = fitting.min_by_key(|candidate| candidate.rank) {
            return Some(best.clone());
        }
        match self.wanted {
            Wanted::Ids(_) => Some(everything(self.table, &self.conjuncts)),
            Wanted::Attribute(attribute, _) => {
                let index = index_of(self.table, attribute, IndexKind::Ordered)?;
                let all = KeyRange::of_prefix(index.id.to_be_bytes().to_vec());
                let access = Access::Entries { index, ranges: smallvec![all], repeated: false };
                Some(one_step(access, Rank::NotNull, Yields::Attribute(attribute), &self.conjuncts, &[]))
            }
            Wanted::Nothing | Wanted::Other => None,
        }
    }
}

impl<'p> Plan<'p> {
    fn of(table: &Table, candidate: Candidate<'p>, wanted: Wanted, counted: Option<usize>) -> Self {
        let is_text = |attribute: usize| matches!(table.attributes[attribute].kind, Kind::Id | Kind::String);
        let ordered = candidate.yields.have(wanted);
        let direction = match wanted {
            Wanted::Ids(direction) | Wanted::Attribute(_, direction) if ordered => direction,
            _ => Direction::Forwards,
        };
        let by_values_of = match (wanted, candidate.yields) {
            (Wanted::Attribute(asked, _), Yields::Attribute(own)) => (asked == own && is_text(own)).then_some(own),
            _ => None,
        };
        Self { ordered, by_values_of, steps: candidate.steps, direction, counted }
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

impl Yields {
    fn have(self, wanted: Wanted) -> bool {
        match (self, wanted) {
            (_, Wanted::Nothing) | (Self::Everything, _) | (Self::Ids, Wanted::Ids(_)) => true,
            (Self::Attribute(own), Wanted::Attribute(asked, _)) => own == asked,
            _ => false,
        }
    }
}

impl Filter<'_> {
    /// The subtrees that must all accept a record.
    pub(super) fn conjuncts(&self) -> SmallVec<[usize; 8]> {
        let mut all = SmallVec::new();
        if !self.nodes.is_empty() {
            self.conjuncts_of(0, &mut all);
        }
        all
    }

    pub(super) fn conjuncts_of(&self, node: usize, all: &mut SmallVec<[usize; 8]>) {
        match self.nodes[node] {
            Node::All(_) => self.below(node).for_each(|subtree| self.conjuncts_of(subtree, all)),
            _ => all.push(node),
        }
    }
}

/// The order that is asked for. An attribute that has one value in all records of the list orders nothing; what follows the id
/// neither.
fn wanted(query: &Query<'_>, table: &Table, conjuncts: &[usize]) -> Wanted {
    let Some(last) = query.sort.last() else { return Wanted::Nothing };
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
            Some(_) => return Wanted::Other,
        }
    }
    match first {
        None => Wanted::Ids(ids),
        Some((attribute, own)) if own == ids => Wanted::Attribute(attribute, own),
        Some(_) => Wanted::Other,
    }
}

/// The way where no record can be meant.
fn nothing<'p>() -> Candidate<'p> {
    Candidate { steps: Steps::new(), rank: Rank::Point, yields: Yields::Everything }
}

/// The whole table.
fn everything<'p>(table: &Table, conjuncts: &[usize]) -> Candidate<'p> {
    let all = KeyRange::of_prefix(table.id.to_be_bytes().to_vec());
    one_step(Access::Table(all), Rank::NotNull, Yields::Ids, conjuncts, &[])
}

/// A candidate of one step, which answers some of the conditions.
fn one_step<'p>(
    access: Access<'p>,
    rank: Rank,
    yields: Yields,
    conjuncts: &[usize],
    answered: &[usize],
) -> Candidate<'p> {
    let checks = conjuncts.iter().copied().filter(|node| !answered.contains(node)).collect();
    Candidate { steps: smallvec![Step { access, checks, alternative: None }], rank, yields }
}

fn index_of(table: &Table, attribute: usize, kind: IndexKind) -> Option<&Index> {
    table.indexes.iter().find(|index| index.attribute == attribute && index.kind == kind)
}

/// What several conditions on one scalar attribute leave of its ordered index, or conditions on the id of the table.
struct Stretch<'p> {
    /// `None`: of the table.
    index: Option<&'p Index>,
    range: KeyRange,
    rank: Rank,
    /// Whether it begins at a value, and whether it ends at one.
    ends: [bool; 2],
    answered: SmallVec<[usize; 4]>,
}

/// Every way to all records that satisfy the conditions but walking all there is.
fn candidates<'p>(filter: &'p Filter<'_>, table: &'p Table, conjuncts: &[usize]) -> SmallVec<[Candidate<'p>; 2]> {
    let mut found = simple_candidates(filter, table, conjuncts);
    for node in conjuncts.iter().filter(|node| matches!(filter.nodes[**node], Node::Any(_))) {
        found.extend(alternatives(filter, table, conjuncts, *node));
    }
    found
}

/// The candidates of one step.
fn simple_candidates<'p>(
    filter: &'p Filter<'_>,
    table: &'p Table,
    conjuncts: &[usize],
) -> SmallVec<[Candidate<'p>; 2]> {
    let (mut found, mut stretches) = (SmallVec::new(), SmallVec::<[Stretch<'p>; 2]>::new());
    for &node in conjuncts {
        let (condition, stretch) = match (&filter.nodes[node], filter.nodes.get(node + 1)) {
            (Node::Is(condition), _) => (condition, stretch(table, condition, node)),
            (Node::Not, Some(Node::Is(condition))) if matches!(condition.test, Test::Null) => {
                (condition, not_null(table, condition.attribute, node))
            }
            _ => continue,
        };
        let Some(stretch) = stretch else {
            // A negation names nothing.
            let is_positive = matches!(filter.nodes[node], Node::Is(_));
            found.extend(is_positive.then(|| named(table, condition, conjuncts, node)).flatten());
            continue;
        };
        let is_list = table.attributes[condition.attribute].list;
        match stretches.iter_mut().find(|other| !is_list && other.index == stretch.index) {
            Some(other) => other.narrow(stretch),
            None => stretches.push(stretch),
        }
    }
    found.extend(stretches.into_iter().map(|stretch| stretch.candidate(table, conjuncts)));
    found
}

impl<'p> Stretch<'p> {
    /// `exact`: no records but those of the condition lie in it.
    fn new(index: Option<&'p Index>, range: KeyRange, rank: Rank, exact: bool, node: usize) -> Self {
        Self { index, range, rank, ends: [true; 2], answered: exact.then_some(node).into_iter().collect() }
    }

    /// The same, of what lies between two values, one of which may be open.
    fn between(
        index: Option<&'p Index>,
        range: KeyRange,
        [lower, upper]: [&Bound<Value<'_>>; 2],
        exact: bool,
        node: usize,
    ) -> Self {
        let ends = [lower, upper].map(|end| *end != Bound::Unbounded);
        Self { ends, ..Self::new(index, range, rank_between(ends), exact, node) }
    }

    /// Leaves what another condition on the same attribute leaves of it.
    fn narrow(&mut self, other: Self) {
        self.range.intersect(other.range);
        self.rank = self.rank.min(other.rank);
        self.ends = [self.ends[0] || other.ends[0], self.ends[1] || other.ends[1]];
        if self.rank == Rank::Beyond {
            self.rank = rank_between(self.ends);
        }
        self.answered.extend(other.answered);
    }

    fn candidate(self, table: &Table, conjuncts: &[usize]) -> Candidate<'p> {
        if self.range.is_empty() {
            return nothing();
        }
        let one_value = matches!(self.rank, Rank::Equality | Rank::Null);
        let (access, yields) = match self.index {
            None => (Access::Table(self.range), Yields::Ids),
            Some(index) => {
                let repeated = table.attributes[index.attribute].list && !one_value;
                let yields = match one_value {
                    true => Yields::Ids,
                    false if repeated => Yields::Nothing,
                    false => Yields::Attribute(index.attribute),
                };
                (Access::Entries { index, ranges: smallvec![self.range], repeated }, yields)
            }
        };
        one_step(access, self.rank, yields, conjuncts, &self.answered)
    }
}

/// The one stretch of an ordered index, or of the table, in which the records of a condition lie.
fn stretch<'p>(table: &'p Table, condition: &Condition<'_>, node: usize) -> Option<Stretch<'p>> {
    if condition.attribute == table.primary_key {
        return stretch_of_ids(table, &condition.test, node);
    }
    let is_unique = index_of(table, condition.attribute, IndexKind::Unique).is_some();
    let index = index_of(table, condition.attribute, IndexKind::Ordered)?;
    let (range, rank, exact) = match &condition.test {
        Test::Equal(value) if !is_unique => {
            (KeyRange::of_value(index, value), Rank::Equality, indexes::is_exact(index, value))
        }
        Test::Null => (KeyRange::of_value(index, &Value::Null), Rank::Null, true),
        Test::Within(lower, upper) => {
            let bounds = [lower, upper];
            let ((lower, exact_below), (upper, exact_above)) = (edge(index, lower, false), edge(index, upper, true));
            let (range, exact) = (KeyRange { lower, upper }, exact_below && exact_above);
            return Some(Stretch::between(Some(index), range, bounds, exact, node));
        }
        Test::StartsWith(start) => (texts_beginning(index, start), Rank::Between, start.len() <= key::INDEXED_BYTES),
        Test::Like(Pattern { start, .. }) if !start.is_empty() => (texts_beginning(index, start), Rank::Between, false),
        _ => return None,
    };
    Some(Stretch::new(Some(index), range, rank, exact, node))
}

/// All but the entries of null, if an ordered index has them once.
fn not_null(table: &Table, attribute: usize, node: usize) -> Option<Stretch<'_>> {
    let index = index_of(table, attribute, IndexKind::Ordered)?;
    let range = KeyRange { lower: index.id.to_be_bytes().to_vec(), upper: nulls(index) };
    // An empty list is not null, and has no entry.
    let is_list = table.attributes[attribute].list;
    (!is_list).then(|| Stretch { ends: [false; 2], ..Stretch::new(Some(index), range, Rank::NotNull, true, node) })
}

/// `ends`: whether the stretch begins at a value, and whether it ends at one.
fn rank_between(ends: [bool; 2]) -> Rank {
    if ends == [true, true] { Rank::Between } else { Rank::Beyond }
}

/// Where the entries of null begin.
fn nulls(index: &Index) -> Vec<u8> {
    KeyRange::of_value(index, &Value::Null).lower
}

fn texts_beginning(index: &Index, start: &str) -> KeyRange {
    let mut prefix = Vec::new();
    key::ordered_text_prefix(index.id, start, &mut prefix);
    KeyRange::of_prefix(prefix)
}

/// Where a stretch of values begins or, if it is `upper`, what follows it; and whether that is exactly where the bound is.
fn edge(index: &Index, bound: &Bound<Value<'_>>, upper: bool) -> (Vec<u8>, bool) {
    let (Bound::Included(value) | Bound::Excluded(value)) = bound else {
        return (if upper { nulls(index) } else { index.id.to_be_bytes().to_vec() }, true);
    };
    let (entries, exact) = (KeyRange::of_value(index, value), indexes::is_exact(index, value));
    let excluded = matches!(bound, Bound::Excluded(_));
    // Among the entries of a text that is cut there may be some on either side of the bound.
    let behind = if exact { excluded != upper } else { upper };
    (if behind { entries.upper } else { entries.lower }, exact)
}

/// The stretch of the table in which the ids lie that satisfy a condition.
fn stretch_of_ids<'p>(table: &Table, test: &Test<'_>, node: usize) -> Option<Stretch<'p>> {
    let key_of = |id: &str, behind: bool| {
        let mut key = Vec::new();
        key::record(table.id, id, &mut key);
        key.extend(behind.then_some(0)); // The least key that is greater.
        key
    };
    let all = || KeyRange::of_prefix(table.id.to_be_bytes().to_vec());
    let edge = |bound: &Bound<Value<'_>>, upper: bool| match bound {
        Bound::Included(Value::Text(id)) => key_of(id, upper),
        Bound::Excluded(Value::Text(id)) => key_of(id, !upper),
        _ => {
            if upper {
                all().upper
            } else {
                all().lower
            }
        }
    };
    let beginning = |start: &str| KeyRange::of_prefix(key_of(start, false));
    let (range, rank, exact) = match test {
        Test::Within(lower, upper) => {
            let range = KeyRange { lower: edge(lower, false), upper: edge(upper, true) };
            return Some(Stretch::between(None, range, [lower, upper], true, node));
        }
        Test::StartsWith(start) => (beginning(start), Rank::Between, true),
        Test::Like(Pattern { start, .. }) if !start.is_empty() => (beginning(start), Rank::Between, false),
        _ => return None,
    };
    Some(Stretch::new(None, range, rank, exact, node))
}

/// The way to the records of a condition that names one or more values: ids, values of a unique index, entries of others.
fn named<'p>(
    table: &'p Table,
    condition: &'p Condition<'_>,
    conjuncts: &[usize],
    node: usize,
) -> Option<Candidate<'p>> {
    let attribute = condition.attribute;
    let values: &'p [Value<'p>] = match &condition.test {
        Test::Equal(value) => std::slice::from_ref(value),
        Test::OneOf(values) => values,
        Test::Null => &[Value::Null],
        _ => return None,
    };
    if values.is_empty() {
        return Some(nothing());
    }
    let (one, is_list) = (values.len() == 1, table.attributes[attribute].list);
    let yields = |several| if one { Yields::Everything } else { several };
    if attribute == table.primary_key {
        let mut ids: SmallVec<[&str; 1]> = values.iter().filter_map(text).collect();
        ids.sort_unstable();
        ids.dedup();
        return Some(one_step(Access::Ids(ids), Rank::Point, yields(Yields::Ids), conjuncts, &[node]));
    }
    let is_null = matches!(condition.test, Test::Null);
    let index = |kind| index_of(table, attribute, kind);
    if let Some(unique) = index(IndexKind::Unique).filter(|_| !is_null) {
        // The record is asked for its value, since the owner is read before it.
        let access = Access::Owners(unique, values.iter().collect());
        return Some(one_step(access, Rank::Point, yields(Yields::Nothing), conjuncts, &[]));
    }
    let index = index(IndexKind::Ordered).or_else(|| index(IndexKind::Hash))?;
    let mut ranges: SmallVec<[KeyRange; 1]> = values.iter().map(|value| KeyRange::of_value(index, value)).collect();
    ranges.sort_unstable_by(|one, other| one.lower.cmp(&other.lower));
    ranges.dedup();
    let exact = values.iter().all(|value| indexes::is_exact(index, value));
    let (rank, yields) = match index.kind {
        _ if is_null => (Rank::Null, Yields::Ids),
        _ if one => (Rank::Equality, Yields::Ids),
        IndexKind::Ordered if !is_list => (Rank::Set, Yields::Attribute(attribute)),
        _ => (Rank::Set, Yields::Nothing),
    };
    let answered: &[usize] = if exact { &[node] } else { &[] };
    let access = Access::Entries { index, ranges, repeated: is_list && !one };
    Some(one_step(access, rank, yields, conjuncts, answered))
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

/// The steps of a group of alternatives, if there is a way to each.
fn alternatives<'p>(
    filter: &'p Filter<'_>,
    table: &'p Table,
    conjuncts: &[usize],
    group: usize,
) -> Option<Candidate<'p>> {
    let (mut steps, mut rank) = (Steps::new(), Rank::Point);
    for subtree in filter.below(group) {
        let mut own = SmallVec::new();
        filter.conjuncts_of(subtree, &mut own);
        let ways = simple_candidates(filter, table, &own).into_iter();
        let best = ways.filter(|way| way.rank != Rank::NotNull).min_by_key(|way| way.rank)?;
        rank = rank.max(best.rank);
        for mut step in best.steps {
            step.checks.extend(conjuncts.iter().copied().filter(|other| *other != group));
            step.alternative = Some(subtree);
            steps.push(step);
        }
    }
    let rank = if rank == Rank::Equality { Rank::Set } else { rank };
    Some(Candidate { steps, rank, yields: Yields::Nothing })
}

/// The candidate whose walk comes to its end first, and how many entries there were; `None` if each is longer than is walked at most.
fn race(source: Source<'_>, candidates: &[Candidate<'_>]) -> Result<Option<(usize, usize)>> {
    let mut runners: SmallVec<[Runner<'_>; 4]> =
        candidates.iter().map(|candidate| Runner::new(source, &candidate.steps)).collect();
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
pub(super) fn probe(source: Source<'_>, steps: &[Step<'_>]) -> Result<(usize, bool)> {
    let mut runner = Runner::new(source, steps);
    for _ in 0..PROBED {
        if !runner.advance()? {
            return Ok((runner.passed, true));
        }
    }
    Ok((runner.passed, false))
}

/// A walk through the stretches of a candidate, without reading what they lead to.
struct Runner<'s> {
    source: Source<'s>,
    /// Ids and values that are looked up one by one, not yet passed.
    lookups: usize,
    /// Stretches that have not begun, last first.
    stretches: SmallVec<[(Space, &'s KeyRange); 1]>,
    scan: Option<Scan<'s>>,
    /// Entries, ids and values so far.
    passed: usize,
}

impl<'s> Runner<'s> {
    fn new(source: Source<'s>, steps: &'s [Step<'_>]) -> Self {
        let mut runner = Self { source, lookups: 0, stretches: SmallVec::new(), scan: None, passed: 0 };
        for step in steps {
            match &step.access {
                Access::Ids(ids) => runner.lookups += ids.len(),
                Access::Owners(_, values) => runner.lookups += values.len(),
                Access::Table(range) => runner.stretches.push((Space::Records, range)),
                Access::Entries { ranges, .. } => {
                    runner.stretches.extend(ranges.iter().map(|range| (Space::Indexes, range)));
                }
            }
        }
        runner.stretches.reverse();
        runner
    }

    /// Passes over one entry, or finds that a stretch has none; false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.source.effort.spend(1)?;
        if self.lookups > 0 {
            self.lookups -= 1;
            self.passed += 1;
            return Ok(true);
        }
        if let Some(scan) = &mut self.scan
            && scan.next()?.is_some()
        {
            self.passed += 1;
            return Ok(true);
        }
        let Some((space, range)) = self.stretches.pop() else { return Ok(false) };
        let scan = self.scan.insert(self.source.scan(space, range, Direction::Forwards)?);
        self.passed += usize::from(scan.next()?.is_some());
        Ok(true)
    }
}
