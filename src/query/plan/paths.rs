//! Enumerates the access paths to all matching records: those that an index, the order of the table or an id provides.
//!
//! Conditions on one attribute become one range, and so do equalities on the first attributes of a composite index and a range on the next.
//! The terms of a text are one range each, which are walked together (`indexes::Matches::common`). A path that another one makes
//! superfluous, because that serves all its conditions and leads to no more records, is dropped before the race.

use std::ops::Bound;

use smallvec::{SmallVec, smallvec};

use super::{Access, Required, RequiredOrder, Step, Steps};
use crate::encoding::{Value, key};
use crate::indexes::{self, KeyRange};
use crate::query::source::Indexes;
use crate::query::tree::{Condition, Filter, Node, Test, has_related};
use crate::schema::{Index, IndexKind, Table};

/// The assumed selectivity of an access path, until its entries are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Selectivity {
    /// One record, or a few given by key.
    Point,
    /// One value.
    Equality,
    /// A few values.
    Set,
    /// A range bounded on both sides, or texts with a common prefix.
    Between,
    /// A range bounded on one side.
    Beyond,
    /// Records without a value.
    Null,
    /// Records with a value: only worthwhile for the order.
    NotNull,
}

/// The orders that an access path provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProvidedOrder<'p> {
    /// No particular one.
    Nothing,
    /// Every order: there is at most one record.
    Everything,
    /// By id.
    Ids,
    /// By the attributes of an index except for this many leading ones, then by id.
    Values(&'p Index, usize),
}

/// An access path to all records of a query.
#[derive(Clone)]
pub(super) struct AccessPath<'p> {
    pub steps: Steps<'p>,
    pub selectivity: Selectivity,
    pub provides: ProvidedOrder<'p>,
    /// The conditions that restrict the records to which it leads.
    serves: SmallVec<[usize; 2]>,
    /// Identifies the access path among those of the query, always in the same way: the position of the first condition that it serves
    /// among those of the query; the greatest number stands for the whole table.
    pub number: u8,
}

impl ProvidedOrder<'_> {
    pub fn satisfies(self, required: &Required) -> bool {
        match (self, &required.order) {
            (_, RequiredOrder::Nothing) | (Self::Everything, _) | (Self::Ids, RequiredOrder::Ids(_)) => true,
            (Self::Values(index, shared), order) => {
                let mut own = index.attributes().skip(shared).filter(|own| !required.fixed.contains(own));
                match order {
                    RequiredOrder::Ids(_) => own.next().is_none(),
                    RequiredOrder::Attributes(asked, _) => own.eq(asked.iter().copied()),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Returns every access path to all matching records except the scan of the whole table.
pub(super) fn to_all_records<'p>(
    filter: &'p Filter<'_>,
    indexes: Indexes<'p>,
    conjuncts: &[usize],
) -> SmallVec<[AccessPath<'p>; 1]> {
    let mut found = paths_of_one_step(filter, indexes, conjuncts);
    for &node in conjuncts.iter().filter(|node| matches!(filter.nodes[**node], Node::Any(_))) {
        // A later alternative is checked against this one by the record alone, which says nothing of related records.
        if !has_related(&filter.nodes[node..filter.end_of(node)]) {
            found.extend(alternatives(filter, indexes, conjuncts, node));
        }
    }
    for path in &mut found {
        let first = conjuncts.iter().position(|node| path.serves.contains(node)).unwrap_or_default();
        path.number = u8::try_from(first).unwrap_or(u8::MAX - 1);
    }
    found
}

/// Returns the access paths of one step.
fn paths_of_one_step<'p>(
    filter: &'p Filter<'_>,
    indexes: Indexes<'p>,
    conjuncts: &[usize],
) -> SmallVec<[AccessPath<'p>; 1]> {
    let mut found = simple_paths(filter, indexes, conjuncts);
    let composite = indexes.all().filter(|index| index.kind == IndexKind::Composite);
    found.extend(composite.filter_map(|index| composite_path(filter, indexes, conjuncts, index)));
    found
}

/// Drops the access paths that another makes superfluous: one that serves all their conditions, and the order if they do, and so leads to
/// no more records. Of several that serve the same conditions, the first is kept.
pub(super) fn drop_superfluous(paths: &mut SmallVec<[AccessPath<'_>; 1]>, required: &Required) {
    let covers = |one: &AccessPath<'_>, other: &AccessPath<'_>| {
        other.selectivity != Selectivity::Point
            && other.serves.iter().all(|node| one.serves.contains(node))
            && (one.provides.satisfies(required) || !other.provides.satisfies(required))
    };
    let is_superfluous = |place: usize| {
        let own = &paths[place];
        let mut others = paths.iter().enumerate().filter(|(other, _)| *other != place);
        others.any(|(other, path)| covers(path, own) && (other < place || !covers(own, path)))
    };
    let superfluous: SmallVec<[bool; 4]> = (0..paths.len()).map(is_superfluous).collect();
    let mut superfluous = superfluous.into_iter();
    paths.retain(|_| superfluous.next() != Some(true));
}

/// Returns the access path by a composite index: equality on a prefix of its attributes, and a range on the next.
fn composite_path<'p>(
    filter: &'p Filter<'_>,
    indexes: Indexes<'p>,
    conjuncts: &[usize],
    index: &'p Index,
) -> Option<AccessPath<'p>> {
    let conditions = || {
        conjuncts.iter().filter_map(|node| match &filter.nodes[*node] {
            Node::Is(condition) if condition.path.is_empty() => Some((*node, condition)),
            _ => None,
        })
    };
    let mut all = IndexRange::whole(index);
    for attribute in index.attributes() {
        let own = || conditions().filter(move |(_, condition)| condition.attribute == attribute);
        let equal = own().find_map(|(node, condition)| match &condition.test {
            Test::Equal(value) => Some((node, value)),
            Test::Null => Some((node, &Value::Null)),
            _ => None,
        });
        if let Some((node, value)) = equal {
            all.step_into(value, node);
            continue;
        }
        let beginning = all.range.lower.clone();
        for (node, condition) in own() {
            if let Some(range) = range_of_values(&beginning, index, &condition.test, false, node) {
                all.narrow(IndexRange { shared: all.shared, ..range });
            }
        }
        break;
    }
    (!all.serves.is_empty()).then(|| all.path(indexes.table, conjuncts))
}

/// Returns the access paths of one step, each by the conditions on one attribute.
fn simple_paths<'p>(
    filter: &'p Filter<'_>,
    indexes: Indexes<'p>,
    conjuncts: &[usize],
) -> SmallVec<[AccessPath<'p>; 1]> {
    let (mut found, mut ranges) = (SmallVec::new(), SmallVec::<[IndexRange<'p>; 1]>::new());
    for &node in conjuncts {
        let (condition, range) = match (&filter.nodes[node], filter.nodes.get(node + 1)) {
            (Node::Is(condition), _) => (condition, index_range(indexes, condition, node)),
            (Node::Not, Some(Node::Is(condition))) if matches!(condition.test, Test::Null) => {
                (condition, not_null(indexes, condition.attribute, node))
            }
            _ => continue,
        };
        let Some(range) = range else {
            // A negation gives no value to look up.
            let is_positive = matches!(filter.nodes[node], Node::Is(_));
            found.extend(is_positive.then(|| named(indexes, condition, conjuncts, node)).flatten());
            continue;
        };
        let is_list = indexes.table.attributes[condition.attribute].list;
        match ranges.iter_mut().find(|other| !is_list && other.index == range.index) {
            Some(other) => other.narrow(range),
            None => ranges.push(range),
        }
    }
    found.extend(ranges.into_iter().map(|range| range.path(indexes.table, conjuncts)));
    found
}

/// Returns the steps of a group of alternatives, if each has an access path.
fn alternatives<'p>(
    filter: &'p Filter<'_>,
    indexes: Indexes<'p>,
    conjuncts: &[usize],
    group: usize,
) -> Option<AccessPath<'p>> {
    let (mut steps, mut selectivity) = (Steps::new(), Selectivity::Point);
    let required = Required { order: RequiredOrder::Nothing, fixed: SmallVec::new() };
    for subtree in filter.below(group) {
        let mut own = SmallVec::new();
        filter.conjuncts_of(subtree, &mut own);
        let mut paths = paths_of_one_step(filter, indexes, &own);
        drop_superfluous(&mut paths, &required);
        let paths = paths.into_iter().filter(|path| path.selectivity != Selectivity::NotNull);
        let best = paths.min_by_key(|path| path.selectivity)?;
        selectivity = selectivity.max(best.selectivity);
        for mut step in best.steps {
            step.checks.extend(conjuncts.iter().copied().filter(|other| *other != group));
            step.alternative = Some(subtree);
            steps.push(step);
        }
    }
    let selectivity = if selectivity == Selectivity::Equality { Selectivity::Set } else { selectivity };
    Some(AccessPath { steps, selectivity, provides: ProvidedOrder::Nothing, serves: smallvec![group], number: 0 })
}

/// Returns the access path for conditions that no record can satisfy.
fn nothing<'p>(serves: SmallVec<[usize; 2]>) -> AccessPath<'p> {
    let (steps, selectivity) = (Steps::new(), Selectivity::Point);
    AccessPath { steps, selectivity, provides: ProvidedOrder::Everything, serves, number: 0 }
}

/// Returns the scan of the whole table.
pub(super) fn everything<'p>(table: &Table, conjuncts: &[usize]) -> AccessPath<'p> {
    let all = KeyRange::of_prefix(table.id.to_be_bytes().to_vec());
    let path = one_step(Access::Table(all), Selectivity::NotNull, ProvidedOrder::Ids, conjuncts, &[], &[]);
    AccessPath { number: u8::MAX, ..path }
}

/// Returns an access path of one step that serves some of the conditions, and answers some of them exactly, so that they are not evaluated.
pub(super) fn one_step<'p>(
    access: Access<'p>,
    selectivity: Selectivity,
    provides: ProvidedOrder<'p>,
    conjuncts: &[usize],
    serves: &[usize],
    answered: &[usize],
) -> AccessPath<'p> {
    let checks = conjuncts.iter().copied().filter(|node| !answered.contains(node)).collect();
    let steps = smallvec![Step { access, checks, alternative: None }];
    AccessPath { steps, selectivity, provides, serves: SmallVec::from_slice(serves), number: 0 }
}

/// The range of an ordered index, or of the ids of the table, that remains after some conditions.
struct IndexRange<'p> {
    /// `None`: the table.
    index: Option<&'p Index>,
    range: KeyRange,
    /// The number of leading values that all entries share.
    shared: usize,
    selectivity: Selectivity,
    /// Whether it has a lower bound, and whether it has an upper bound.
    ends: [bool; 2],
    serves: SmallVec<[usize; 2]>,
    /// The conditions among these that hold for all entries in the range.
    answered: SmallVec<[usize; 2]>,
}

impl<'p> IndexRange<'p> {
    /// `exact`: the range contains only records that satisfy the condition.
    fn new(index: Option<&'p Index>, range: KeyRange, selectivity: Selectivity, exact: bool, node: usize) -> Self {
        let shared = usize::from(matches!(selectivity, Selectivity::Equality | Selectivity::Null));
        let answered = exact.then_some(node).into_iter().collect();
        Self { index, range, shared, selectivity, ends: [true; 2], serves: smallvec![node], answered }
    }

    /// Like `new`, for a range between two values, one of which may be unbounded.
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

    /// The whole index.
    fn whole(index: &'p Index) -> Self {
        let range = KeyRange::of_prefix(index.id.to_be_bytes().to_vec());
        let (serves, answered) = (SmallVec::new(), SmallVec::new());
        let (shared, selectivity) = (0, Selectivity::NotNull);
        Self { index: Some(index), range, shared, selectivity, ends: [false; 2], serves, answered }
    }

    /// Restricts the range to one value of the attribute that follows the shared ones.
    fn step_into(&mut self, value: &Value<'_>, node: usize) {
        self.range = entries_of(&self.range.lower, value);
        self.shared += 1;
        self.selectivity = Selectivity::Equality;
        self.serves.push(node);
        self.answered.extend(indexes::is_whole(value).then_some(node));
    }

    /// Intersects the range with that of another condition on the same attribute.
    fn narrow(&mut self, other: Self) {
        self.range.intersect(other.range);
        self.shared = self.shared.max(other.shared);
        self.selectivity = self.selectivity.min(other.selectivity);
        self.ends = [self.ends[0] || other.ends[0], self.ends[1] || other.ends[1]];
        if self.selectivity == Selectivity::Beyond {
            self.selectivity = selectivity_between(self.ends);
        }
        self.serves.extend(other.serves);
        self.answered.extend(other.answered);
    }

    fn path(self, table: &Table, conjuncts: &[usize]) -> AccessPath<'p> {
        if self.range.is_empty() {
            return nothing(self.serves);
        }
        let (access, provides) = match self.index {
            None => (Access::Table(self.range), ProvidedOrder::Ids),
            Some(index) => {
                let of_one_value = self.shared == index.values();
                let repeated = table.attributes[index.attribute].list && !of_one_value;
                let provides = match of_one_value {
                    true => ProvidedOrder::Ids,
                    false if repeated => ProvidedOrder::Nothing,
                    false => ProvidedOrder::Values(index, self.shared),
                };
                (Access::Entries { index, ranges: smallvec![self.range], repeated }, provides)
            }
        };
        one_step(access, self.selectivity, provides, conjuncts, &self.serves, &self.answered)
    }
}

/// Returns the single range of an ordered index, or of the table, that contains the records of a condition.
fn index_range<'p>(indexes: Indexes<'p>, condition: &Condition<'_>, node: usize) -> Option<IndexRange<'p>> {
    if condition.attribute == indexes.table.primary_key {
        return range_of_ids(indexes.table, &condition.test, node);
    }
    let is_unique = indexes.of(condition.attribute, IndexKind::Unique).is_some();
    let index = indexes.of(condition.attribute, IndexKind::Ordered)?;
    range_of_values(&index.id.to_be_bytes(), index, &condition.test, !is_unique, node)
}

/// Returns the range of an ordered index that contains the records of a condition on the value that follows `beginning`; conditions of
/// equality are included only if `equal`.
fn range_of_values<'p>(
    beginning: &[u8],
    index: &'p Index,
    test: &Test<'_>,
    equal: bool,
    node: usize,
) -> Option<IndexRange<'p>> {
    let (range, selectivity, exact) = match test {
        Test::Equal(value) if equal => (entries_of(beginning, value), Selectivity::Equality, indexes::is_whole(value)),
        Test::Null => (entries_of(beginning, &Value::Null), Selectivity::Null, true),
        Test::Within(lower, upper) => {
            let bounds = [lower, upper];
            let ((lower, exact_below), (upper, exact_above)) =
                (edge(beginning, lower, false), edge(beginning, upper, true));
            let (range, exact) = (KeyRange { lower, upper }, exact_below && exact_above);
            return Some(IndexRange::between(Some(index), range, bounds, exact, node));
        }
        Test::StartsWith(start) => {
            (texts_beginning(beginning, start), Selectivity::Between, start.len() <= key::INDEXED_BYTES)
        }
        Test::Like(pattern) if !pattern.start.is_empty() => {
            (texts_beginning(beginning, &pattern.start), Selectivity::Between, false)
        }
        _ => return None,
    };
    Some(IndexRange::new(Some(index), range, selectivity, exact, node))
}

/// Returns all entries except those of null, if an ordered index has one entry per record.
fn not_null(indexes: Indexes<'_>, attribute: usize, node: usize) -> Option<IndexRange<'_>> {
    let index = indexes.of(attribute, IndexKind::Ordered)?;
    let beginning = index.id.to_be_bytes();
    let range = KeyRange { lower: beginning.to_vec(), upper: nulls(&beginning) };
    // An empty list is not null but has no entry.
    let is_list = indexes.table.attributes[attribute].list;
    (!is_list).then(|| IndexRange {
        ends: [false; 2],
        ..IndexRange::new(Some(index), range, Selectivity::NotNull, true, node)
    })
}

/// `ends`: whether the range has a lower bound, and whether it has an upper bound.
fn selectivity_between(ends: [bool; 2]) -> Selectivity {
    if ends == [true, true] { Selectivity::Between } else { Selectivity::Beyond }
}

/// Returns the range of entries in which this beginning is followed by this value.
fn entries_of(beginning: &[u8], value: &Value<'_>) -> KeyRange {
    let mut prefix = beginning.to_vec();
    key::value(value, &mut prefix);
    KeyRange::of_prefix(prefix)
}

/// Returns the key at which the entries of null begin.
fn nulls(beginning: &[u8]) -> Vec<u8> {
    entries_of(beginning, &Value::Null).lower
}

fn texts_beginning(beginning: &[u8], start: &str) -> KeyRange {
    let mut prefix = beginning.to_vec();
    key::text_beginning(start, &mut prefix);
    KeyRange::of_prefix(prefix)
}

/// Returns the lower bound of a range of values or, if `upper`, its exclusive upper bound; and whether that is exact.
fn edge(beginning: &[u8], bound: &Bound<Value<'_>>, upper: bool) -> (Vec<u8>, bool) {
    let (Bound::Included(value) | Bound::Excluded(value)) = bound else {
        return (if upper { nulls(beginning) } else { beginning.to_vec() }, true);
    };
    let (entries, exact) = (entries_of(beginning, value), indexes::is_whole(value));
    let excluded = matches!(bound, Bound::Excluded(_));
    // The entries of a truncated text may lie on either side of the bound.
    let behind = if exact { excluded != upper } else { upper };
    (if behind { entries.upper } else { entries.lower }, exact)
}

/// Returns the range of the table that contains the ids that satisfy a condition.
fn range_of_ids<'p>(table: &Table, test: &Test<'_>, node: usize) -> Option<IndexRange<'p>> {
    let key_of = |id: &str, behind: bool| {
        let mut key = Vec::new();
        key::record(table.id, id, &mut key);
        key.extend(behind.then_some(0)); // The immediate successor of the key.
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
        Test::Like(pattern) if !pattern.start.is_empty() => (beginning(&pattern.start), Selectivity::Between, false),
        _ => return None,
    };
    Some(IndexRange::new(None, range, selectivity, exact, node))
}

/// Returns the access path for a condition that lists values: ids, values of a unique index, entries of other indexes, or terms.
fn named<'p>(
    indexes: Indexes<'p>,
    condition: &'p Condition<'_>,
    conjuncts: &[usize],
    node: usize,
) -> Option<AccessPath<'p>> {
    let (attribute, table) = (condition.attribute, indexes.table);
    let values: &'p [Value<'p>] = match &condition.test {
        Test::Equal(value) => std::slice::from_ref(value),
        Test::OneOf(values) => values,
        Test::Null => &[Value::Null],
        Test::Terms(terms) => return all_terms(indexes, attribute, terms, conjuncts, node),
        _ => return None,
    };
    if values.is_empty() {
        return Some(nothing(smallvec![node]));
    }
    let one_step = |access, selectivity, provides, answered: &[usize]| {
        one_step(access, selectivity, provides, conjuncts, &[node], answered)
    };
    let (one, is_list) = (values.len() == 1, table.attributes[attribute].list);
    let provides = |several| if one { ProvidedOrder::Everything } else { several };
    if attribute == table.primary_key {
        let mut ids: SmallVec<[&str; 1]> = values.iter().filter_map(text).collect();
        ids.sort_unstable();
        ids.dedup();
        return Some(one_step(Access::Ids(ids), Selectivity::Point, provides(ProvidedOrder::Ids), &[node]));
    }
    let is_null = matches!(condition.test, Test::Null);
    let index = |kind| indexes.of(attribute, kind);
    if let Some(unique) = index(IndexKind::Unique).filter(|_| !is_null) {
        // The value is checked again on the record, because the owner is read before the record.
        let access = Access::Owners(unique, values.iter().collect());
        return Some(one_step(access, Selectivity::Point, provides(ProvidedOrder::Nothing), &[]));
    }
    let index = index(IndexKind::Ordered).or_else(|| index(IndexKind::Hash))?;
    let mut ranges: SmallVec<[KeyRange; 1]> = values.iter().map(|value| KeyRange::of_value(index, value)).collect();
    ranges.sort_unstable_by(|one, other| one.lower.cmp(&other.lower));
    ranges.dedup();
    let exact = values.iter().all(|value| indexes::is_exact(index, value));
    let (selectivity, provides) = match index.kind {
        _ if is_null => (Selectivity::Null, ProvidedOrder::Ids),
        _ if one => (Selectivity::Equality, ProvidedOrder::Ids),
        IndexKind::Ordered if !is_list => (Selectivity::Set, ProvidedOrder::Values(index, 0)),
        _ => (Selectivity::Set, ProvidedOrder::Nothing),
    };
    let answered: &[usize] = if exact { &[node] } else { &[] };
    let access = Access::Entries { index, ranges, repeated: is_list && !one };
    Some(one_step(access, selectivity, provides, answered))
}

/// Returns the access path to the records that contain all of some terms.
fn all_terms<'p>(
    indexes: Indexes<'p>,
    attribute: usize,
    terms: &[String],
    conjuncts: &[usize],
    node: usize,
) -> Option<AccessPath<'p>> {
    let index = indexes.of(attribute, IndexKind::FullText)?;
    let values: Vec<Value<'_>> = terms.iter().map(|term| Value::from(term.as_str())).collect();
    let mut ranges: SmallVec<[KeyRange; 1]> = values.iter().map(|term| KeyRange::of_value(index, term)).collect();
    ranges.sort_unstable_by(|one, other| one.lower.cmp(&other.lower));
    ranges.dedup();
    // In a list, a single element has to contain all of them.
    let is_one = ranges.len() == 1;
    let exact = (is_one || !indexes.table.attributes[attribute].list) && values.iter().all(indexes::is_whole);
    let answered: &[usize] = if exact { &[node] } else { &[] };
    let access = match is_one {
        true => Access::Entries { index, ranges, repeated: false },
        false => Access::Intersection(index, ranges),
    };
    Some(one_step(access, Selectivity::Equality, ProvidedOrder::Ids, conjuncts, &[node], answered))
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}
