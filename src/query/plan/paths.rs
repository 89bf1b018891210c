//! The access paths to all records that satisfy the conditions: what an index, the table's own order or an id answers.

use std::ops::Bound;

use smallvec::{SmallVec, smallvec};

use super::{Access, RequiredOrder, Step, Steps};
use crate::encoding::{Value, key};
use crate::indexes::{self, KeyRange};
use crate::query::tree::{Condition, Filter, Node, Pattern, Test, has_related};
use crate::schema::{Index, IndexKind, Table};

/// How selective an access path is taken to be, until it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Selectivity {
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

/// The orders that an access path provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProvidedOrder {
    /// No particular one.
    Nothing,
    /// Every one: there is one record at most.
    Everything,
    /// By id.
    Ids,
    /// By this attribute, then by id.
    Attribute(usize),
}

/// An access path to all records of a query.
#[derive(Clone)]
pub(super) struct AccessPath<'p> {
    pub steps: Steps<'p>,
    pub selectivity: Selectivity,
    pub provides: ProvidedOrder,
    /// Which of the access paths of the query it is, always the same of one query and one schema; the greatest number is the whole table.
    pub number: u8,
}

impl ProvidedOrder {
    pub fn satisfies(self, required: RequiredOrder) -> bool {
        match (self, required) {
            (_, RequiredOrder::Nothing) | (Self::Everything, _) | (Self::Ids, RequiredOrder::Ids(_)) => true,
            (Self::Attribute(own), RequiredOrder::Attribute(asked, _)) => own == asked,
            _ => false,
        }
    }
}

/// Every access path to all records that satisfy the conditions but a scan of the whole table.
pub(super) fn to_all_records<'p>(
    filter: &'p Filter<'_>,
    table: &'p Table,
    conjuncts: &[usize],
) -> SmallVec<[AccessPath<'p>; 1]> {
    let mut found = simple_paths(filter, table, conjuncts);
    for &node in conjuncts.iter().filter(|node| matches!(filter.nodes[**node], Node::Any(_))) {
        // A later alternative asks whether a record satisfies an earlier one, which one record alone does not say of its related ones.
        if !has_related(&filter.nodes[node..filter.end_of(node)]) {
            found.extend(alternatives(filter, table, conjuncts, node));
        }
    }
    found.iter_mut().enumerate().for_each(|(number, path)| path.number = u8::try_from(number).unwrap_or(u8::MAX - 1));
    found
}

/// The access paths of one step.
fn simple_paths<'p>(filter: &'p Filter<'_>, table: &'p Table, conjuncts: &[usize]) -> SmallVec<[AccessPath<'p>; 1]> {
    let (mut found, mut ranges) = (SmallVec::new(), SmallVec::<[IndexRange<'p>; 1]>::new());
    for &node in conjuncts {
        let (condition, range) = match (&filter.nodes[node], filter.nodes.get(node + 1)) {
            (Node::Is(condition), _) => (condition, index_range(table, condition, node)),
            (Node::Not, Some(Node::Is(condition))) if matches!(condition.test, Test::Null) => {
                (condition, not_null(table, condition.attribute, node))
            }
            _ => continue,
        };
        let Some(range) = range else {
            // A negation names nothing.
            let is_positive = matches!(filter.nodes[node], Node::Is(_));
            found.extend(is_positive.then(|| named(table, condition, conjuncts, node)).flatten());
            continue;
        };
        let is_list = table.attributes[condition.attribute].list;
        match ranges.iter_mut().find(|other| !is_list && other.index == range.index) {
            Some(other) => other.narrow(range),
            None => ranges.push(range),
        }
    }
    found.extend(ranges.into_iter().map(|range| range.path(table, conjuncts)));
    found
}

/// The steps of a group of alternatives, if each has an access path.
fn alternatives<'p>(
    filter: &'p Filter<'_>,
    table: &'p Table,
    conjuncts: &[usize],
    group: usize,
) -> Option<AccessPath<'p>> {
    let (mut steps, mut selectivity) = (Steps::new(), Selectivity::Point);
    for subtree in filter.below(group) {
        let mut own = SmallVec::new();
        filter.conjuncts_of(subtree, &mut own);
        let simple = simple_paths(filter, table, &own).into_iter();
        let best =
            simple.filter(|path| path.selectivity != Selectivity::NotNull).min_by_key(|path| path.selectivity)?;
        selectivity = selectivity.max(best.selectivity);
        for mut step in best.steps {
            step.checks.extend(conjuncts.iter().copied().filter(|other| *other != group));
            step.alternative = Some(subtree);
            steps.push(step);
        }
    }
    let selectivity = if selectivity == Selectivity::Equality { Selectivity::Set } else { selectivity };
    Some(AccessPath { steps, selectivity, provides: ProvidedOrder::Nothing, number: 0 })
}

/// The access path where no record can be meant.
fn nothing<'p>() -> AccessPath<'p> {
    AccessPath { steps: Steps::new(), selectivity: Selectivity::Point, provides: ProvidedOrder::Everything, number: 0 }
}

/// The whole table.
pub(super) fn everything<'p>(table: &Table, conjuncts: &[usize]) -> AccessPath<'p> {
    let all = KeyRange::of_prefix(table.id.to_be_bytes().to_vec());
    let path = one_step(Access::Table(all), Selectivity::NotNull, ProvidedOrder::Ids, conjuncts, &[]);
    AccessPath { number: u8::MAX, ..path }
}

/// An access path of one step, which answers some of the conditions.
pub(super) fn one_step<'p>(
    access: Access<'p>,
    selectivity: Selectivity,
    provides: ProvidedOrder,
    conjuncts: &[usize],
    answered: &[usize],
) -> AccessPath<'p> {
    let checks = conjuncts.iter().copied().filter(|node| !answered.contains(node)).collect();
    AccessPath { steps: smallvec![Step { access, checks, alternative: None }], selectivity, provides, number: 0 }
}

pub(super) fn index_of(table: &Table, attribute: usize, kind: IndexKind) -> Option<&Index> {
    table.indexes.iter().find(|index| index.attribute == attribute && index.kind == kind)
}

/// What several conditions on one scalar attribute leave of its ordered index, or conditions on the id of the table.
struct IndexRange<'p> {
    /// `None`: of the table.
    index: Option<&'p Index>,
    range: KeyRange,
    selectivity: Selectivity,
    /// Whether it begins at a value, and whether it ends at one.
    ends: [bool; 2],
    answered: SmallVec<[usize; 2]>,
}

impl<'p> IndexRange<'p> {
    /// `exact`: no records but those of the condition lie in it.
    fn new(index: Option<&'p Index>, range: KeyRange, selectivity: Selectivity, exact: bool, node: usize) -> Self {
        Self { index, range, selectivity, ends: [true; 2], answered: exact.then_some(node).into_iter().collect() }
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
        Self { ends, ..Self::new(index, range, selectivity_between(ends), exact, node) }
    }

    /// Leaves what another condition on the same attribute leaves of it.
    fn narrow(&mut self, other: Self) {
        self.range.intersect(other.range);
        self.selectivity = self.selectivity.min(other.selectivity);
        self.ends = [self.ends[0] || other.ends[0], self.ends[1] || other.ends[1]];
        if self.selectivity == Selectivity::Beyond {
            self.selectivity = selectivity_between(self.ends);
        }
        self.answered.extend(other.answered);
    }

    fn path(self, table: &Table, conjuncts: &[usize]) -> AccessPath<'p> {
        if self.range.is_empty() {
            return nothing();
        }
        let one_value = matches!(self.selectivity, Selectivity::Equality | Selectivity::Null);
        let (access, provides) = match self.index {
            None => (Access::Table(self.range), ProvidedOrder::Ids),
            Some(index) => {
                let repeated = table.attributes[index.attribute].list && !one_value;
                let provides = match one_value {
                    true => ProvidedOrder::Ids,
                    false if repeated => ProvidedOrder::Nothing,
                    false => ProvidedOrder::Attribute(index.attribute),
                };
                (Access::Entries { index, ranges: smallvec![self.range], repeated }, provides)
            }
        };
        one_step(access, self.selectivity, provides, conjuncts, &self.answered)
    }
}

/// The one range of an ordered index, or of the table, in which the records of a condition lie.
fn index_range<'p>(table: &'p Table, condition: &Condition<'_>, node: usize) -> Option<IndexRange<'p>> {
    if condition.attribute == table.primary_key {
        return range_of_ids(table, &condition.test, node);
    }
    let is_unique = index_of(table, condition.attribute, IndexKind::Unique).is_some();
    let index = index_of(table, condition.attribute, IndexKind::Ordered)?;
    let (range, selectivity, exact) = match &condition.test {
        Test::Equal(value) if !is_unique => {
            (KeyRange::of_value(index, value), Selectivity::Equality, indexes::is_exact(index, value))
        }
        Test::Null => (KeyRange::of_value(index, &Value::Null), Selectivity::Null, true),
        Test::Within(lower, upper) => {
            let bounds = [lower, upper];
            let ((lower, exact_below), (upper, exact_above)) = (edge(index, lower, false), edge(index, upper, true));
            let (range, exact) = (KeyRange { lower, upper }, exact_below && exact_above);
            return Some(IndexRange::between(Some(index), range, bounds, exact, node));
        }
        Test::StartsWith(start) => {
            (texts_beginning(index, start), Selectivity::Between, start.len() <= key::INDEXED_BYTES)
        }
        Test::Like(Pattern { start, .. }) if !start.is_empty() => {
            (texts_beginning(index, start), Selectivity::Between, false)
        }
        _ => return None,
    };
    Some(IndexRange::new(Some(index), range, selectivity, exact, node))
}

/// All but the entries of null, if an ordered index has them once.
fn not_null(table: &Table, attribute: usize, node: usize) -> Option<IndexRange<'_>> {
    let index = index_of(table, attribute, IndexKind::Ordered)?;
    let range = KeyRange { lower: index.id.to_be_bytes().to_vec(), upper: nulls(index) };
    // An empty list is not null, and has no entry.
    let is_list = table.attributes[attribute].list;
    (!is_list).then(|| IndexRange {
        ends: [false; 2],
        ..IndexRange::new(Some(index), range, Selectivity::NotNull, true, node)
    })
}

/// `ends`: whether the range begins at a value, and whether it ends at one.
fn selectivity_between(ends: [bool; 2]) -> Selectivity {
    if ends == [true, true] { Selectivity::Between } else { Selectivity::Beyond }
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

/// Where a range of values begins or, if it is `upper`, what follows it; and whether that is exactly where the bound is.
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

/// The range of the table in which the ids lie that satisfy a condition.
fn range_of_ids<'p>(table: &Table, test: &Test<'_>, node: usize) -> Option<IndexRange<'p>> {
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
    let (range, selectivity, exact) = match test {
        Test::Within(lower, upper) => {
            let range = KeyRange { lower: edge(lower, false), upper: edge(upper, true) };
            return Some(IndexRange::between(None, range, [lower, upper], true, node));
        }
        Test::StartsWith(start) => (beginning(start), Selectivity::Between, true),
        Test::Like(Pattern { start, .. }) if !start.is_empty() => (beginning(start), Selectivity::Between, false),
        _ => return None,
    };
    Some(IndexRange::new(None, range, selectivity, exact, node))
}

/// The access path to the records of a condition that names one or more values: ids, values of a unique index, entries of others.
fn named<'p>(
    table: &'p Table,
    condition: &'p Condition<'_>,
    conjuncts: &[usize],
    node: usize,
) -> Option<AccessPath<'p>> {
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
    let provides = |several| if one { ProvidedOrder::Everything } else { several };
    if attribute == table.primary_key {
        let mut ids: SmallVec<[&str; 1]> = values.iter().filter_map(text).collect();
        ids.sort_unstable();
        ids.dedup();
        return Some(one_step(Access::Ids(ids), Selectivity::Point, provides(ProvidedOrder::Ids), conjuncts, &[node]));
    }
    let is_null = matches!(condition.test, Test::Null);
    let index = |kind| index_of(table, attribute, kind);
    if let Some(unique) = index(IndexKind::Unique).filter(|_| !is_null) {
        // The record is asked for its value, since the owner is read before it.
        let access = Access::Owners(unique, values.iter().collect());
        return Some(one_step(access, Selectivity::Point, provides(ProvidedOrder::Nothing), conjuncts, &[]));
    }
    let index = index(IndexKind::Ordered).or_else(|| index(IndexKind::Hash))?;
    let mut ranges: SmallVec<[KeyRange; 1]> = values.iter().map(|value| KeyRange::of_value(index, value)).collect();
    ranges.sort_unstable_by(|one, other| one.lower.cmp(&other.lower));
    ranges.dedup();
    let exact = values.iter().all(|value| indexes::is_exact(index, value));
    let (selectivity, provides) = match index.kind {
        _ if is_null => (Selectivity::Null, ProvidedOrder::Ids),
        _ if one => (Selectivity::Equality, ProvidedOrder::Ids),
        IndexKind::Ordered if !is_list => (Selectivity::Set, ProvidedOrder::Attribute(attribute)),
        _ => (Selectivity::Set, ProvidedOrder::Nothing),
    };
    let answered: &[usize] = if exact { &[node] } else { &[] };
    let access = Access::Entries { index, ranges, repeated: is_list && !one };
    Some(one_step(access, selectivity, provides, conjuncts, answered))
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}
