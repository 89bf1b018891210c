//! Related records: read for a batch of records at a time, by one sorted multi-get or one scan of many ranges for each relationship.
//!
//! A condition on related records is evaluated in one of two ways. If few records of the other table can satisfy it, they are read first,
//! and it is reduced to a condition on the foreign key or the id, which an index may answer (a semi-join): `brand.name==X` becomes
//! `brandId` in the ids of the brands with that name. Otherwise it is evaluated on batches of the records that satisfy everything else:
//! their related records are read and tested, recursively for nested relationships.
//!
//! To-one relationships are read by one multi-get of the ids. To-many ones are read by one scan of many ranges of the index on the foreign
//! key and a multi-get for each 1024 related records; without such an index, by a scan of the related table.
//!
//! Everything is read at the snapshot of the query.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use super::filter::compare;
use super::plan::{AccessPaths, PROBED, probe};
use super::source::{Source, records};
use super::tree::{Condition, Filter, Node, Query, Related, Test, length_of};
use crate::encoding::{Record, Value};
use crate::error::Result;
use crate::indexes::{self, Direction, KeyRange, Keys};
use crate::schema::{Index, IndexKind, Relationship};
use crate::storage::Space;

/// The number of related records read at once.
const CHUNK_ROWS: usize = 1024;

/// A batch of related records.
pub(super) struct Chunk<'c> {
    pub records: Vec<Record<'c, &'c [u8]>>,
    /// Pairs of positions: a record in `own`, and a record related to it; those of one record in `own` ascend by id.
    pub links: Vec<(usize, usize)>,
}

/// Calls `visit` with the records of the other table that are related to the records in `own`, until `is_done` returns true for a position
/// in `own`, which needs no more of them.
///
/// # Errors
/// `Corrupt`; errors of `visit` and of the engine.
pub(super) fn each_chunk(
    source: Source<'_>,
    relationship: &Relationship,
    own: &[Record<'_, &[u8]>],
    is_done: &dyn Fn(usize) -> bool,
    visit: &mut dyn FnMut(Source<'_>, &Chunk<'_>) -> Result<()>,
) -> Result<()> {
    let wanted = own.iter().enumerate().filter(|(position, _)| !is_done(*position));
    let mut chunks = Chunks {
        source: source.related(relationship),
        own: HashMap::new(),
        key: None,
        keys: Keys::default(),
        of: Vec::new(),
        visit,
    };
    if !relationship.many {
        for (position, record) in wanted {
            if let Value::Text(id) = record.value(relationship.foreign_key)? {
                chunks.add(id.as_bytes());
                chunks.own.entry(id.into_owned()).or_default().push(position);
            }
        }
        return chunks.flush();
    }
    chunks.key = Some(relationship.foreign_key);
    for (position, record) in wanted {
        chunks.own.insert(record.id()?.into_owned(), smallvec![position]);
    }
    match chunks.source.indexes().of_equality(relationship.foreign_key) {
        None => chunks.by_scan(),
        Some(index) if index.kind == IndexKind::Unique => chunks.by_owners(index),
        Some(index) => chunks.by_entries(index, is_done),
    }
}

/// The search for related records.
struct Chunks<'c, 's> {
    /// The other table.
    source: Source<'s>,
    /// The positions of the records in `own`, by id or, for a to-one relationship, by foreign key.
    own: HashMap<String, SmallVec<[usize; 1]>>,
    /// The foreign key, if it is an attribute of the other table.
    key: Option<usize>,
    /// The keys of related records that are found but not read yet.
    keys: Keys,
    /// The position in `own` for which each key was found; empty if they were found for all. A record related to several is found in
    /// several chunks, and each chunk links it only to those for which it was found there.
    of: Vec<usize>,
    visit: &'c mut dyn FnMut(Source<'_>, &Chunk<'_>) -> Result<()>,
}

impl Chunks<'_, '_> {
    fn add(&mut self, id: &[u8]) {
        self.keys.push(self.source.table.id, b"", id);
    }

    /// Reads the records found, each once, and passes them to `visit`. Missing records are skipped: foreign keys may dangle, since nothing
    /// enforces referential integrity.
    fn flush(&mut self) -> Result<()> {
        let (keys, Source { table, budget, .. }) = (std::mem::take(&mut self.keys), self.source);
        let mut slices = keys.slices();
        let mut found: Vec<_> = slices.iter().copied().zip(self.of.drain(..)).collect();
        found.sort_unstable();
        slices.sort_unstable();
        slices.dedup();
        if slices.is_empty() {
            return Ok(());
        }
        budget.spend(slices.len())?;
        let (bytes, mut chunk) = (records(self.source, &slices)?, Chunk { records: Vec::new(), links: Vec::new() });
        let read = slices.iter().zip(&bytes).filter_map(|(key, bytes)| Some((*key, bytes.as_ref()?)));
        let opened = read.map(|(key, bytes)| Ok((key, Record::open(table, bytes.as_ref())?)));
        let opened = opened.collect::<Result<Vec<_>>>()?;
        for (key, record) in opened.iter().map(|(key, record)| (*key, record.view())) {
            if record.has_expired(self.source.now)? {
                continue;
            }
            let position = chunk.records.len();
            // The record decides, since the entries of a hash index may belong to other values too.
            each_id(&record, self.key, |id| {
                let is_found = |own: &&usize| found.is_empty() || found.binary_search(&(key, **own)).is_ok();
                let own = self.own.get(id).into_iter().flatten().filter(is_found);
                chunk.links.extend(own.map(|own| (*own, position)));
            })?;
            chunk.records.push(record);
        }
        chunk.links.sort_unstable();
        chunk.links.dedup();
        (self.visit)(self.source, &chunk)
    }

    /// Finds the records whose foreign key is one of the ids by an ordered or a hash index.
    fn by_entries(&mut self, index: &Index, is_done: &dyn Fn(usize) -> bool) -> Result<()> {
        let Source { store, snapshot, tier, budget, .. } = self.source;
        let range = |id: &String| KeyRange::of_value(index, &Value::Text(Cow::Borrowed(id)));
        let mut ranges: Vec<_> = self.own.iter().map(|(id, own)| (range(id), own[0])).collect();
        ranges.sort_unstable_by(|(one, _), (other, _)| one.lower.cmp(&other.lower));
        let bounds: Vec<_> = ranges.iter().map(|(range, _)| (&range.lower[..], &range.upper[..])).collect();
        let mut scan = store.scan_many(Space::Indexes, &bounds, snapshot, tier);
        for (range, own) in &ranges {
            budget.seek()?;
            scan.seek(&range.lower);
            while let Some((entry, _)) = scan.next()?
                && entry < range.upper.as_slice()
            {
                budget.spend(1)?;
                self.add(&entry[range.lower.len()..]);
                self.of.push(*own);
                if self.keys.len() == CHUNK_ROWS {
                    self.flush()?;
                    if is_done(*own) {
                        break;
                    }
                }
            }
        }
        self.flush()
    }

    /// Finds the records by a unique index.
    fn by_owners(&mut self, index: &Index) -> Result<()> {
        let Source { store, snapshot, tier, budget, .. } = self.source;
        budget.spend(self.own.len())?;
        let values: Vec<_> = self.own.keys().map(|id| Value::Text(Cow::Borrowed(id.as_str()))).collect();
        let owners = indexes::owners(store, index, &values.iter().collect::<Vec<_>>(), snapshot, tier)?;
        owners.iter().flatten().for_each(|owner| self.keys.push(self.source.table.id, b"", owner));
        self.flush()
    }

    /// Finds the records by a scan of the whole table, if there is no index on the foreign key.
    fn by_scan(&mut self) -> Result<()> {
        let Source { budget, table, .. } = self.source;
        let all = KeyRange::of_prefix(table.id.to_be_bytes().to_vec());
        let mut scan = self.source.scan(Space::Records, &all, Direction::Forwards)?;
        while let Some((_, bytes)) = scan.next()? {
            let (record, mut is_related) = (Record::open(table, bytes)?, false);
            budget.spend_record(bytes.len(), 1)?;
            each_id(&record.view(), self.key, |id| is_related |= self.own.contains_key(id))?;
            if is_related {
                self.keys.push(table.id, b"", record.id()?.as_bytes());
            }
            if self.keys.len() == CHUNK_ROWS {
                self.flush()?;
            }
        }
        self.flush()
    }
}

/// Calls `each` with the ids in the foreign key of a record, or with its own id.
fn each_id(record: &Record<'_, &[u8]>, key: Option<usize>, mut each: impl FnMut(&str)) -> Result<()> {
    let Some(key) = key else {
        each(&record.id()?);
        return Ok(());
    };
    match record.value(key)? {
        Value::Text(id) => each(&id),
        Value::List(elements) => elements.iter().for_each(|element| {
            if let Value::Text(id) = element {
                each(id);
            }
        }),
        _ => {}
    }
    Ok(())
}

/// Returns, for each of some records of the source's table, whether it satisfies the tree at the start of `nodes`.
///
/// # Errors
/// `Corrupt`; errors of the engine.
pub(super) fn answers(source: Source<'_>, nodes: &[Node<'_>], own: &[Record<'_, &[u8]>]) -> Result<Vec<bool>> {
    match &nodes[0] {
        Node::Is(condition) => {
            let evaluate = |record: &Record<'_, &[u8]>| {
                source.budget.spend_record(record.bytes().len(), 1)?;
                condition.accepts(record)
            };
            own.iter().map(evaluate).collect()
        }
        Node::Not => Ok(answers(source, &nodes[1..], own)?.into_iter().map(|accepted| !accepted).collect()),
        Node::All(below) => group_answers(false, source, &nodes[1..=*below as usize], own),
        Node::Any(below) => group_answers(true, source, &nodes[1..=*below as usize], own),
        Node::Related(related) => {
            let relationship = &source.table.relationships[related.relationship];
            let subtree = &nodes[1..=related.below as usize];
            let found = vec![Cell::new(false); own.len()];
            each_chunk(source, relationship, own, &|position| found[position].get(), &mut |other, chunk| {
                let accepted = match subtree {
                    [] => vec![true; chunk.records.len()],
                    subtree => answers(other, subtree, &chunk.records)?,
                };
                chunk.links.iter().filter(|(_, record)| accepted[*record]).for_each(|(of, _)| found[*of].set(true));
                Ok(())
            })?;
            Ok(found.into_iter().map(Cell::into_inner).collect())
        }
    }
}

/// Like `answers`, for a group of subtrees that a subtree with the result `decisive` decides. Decided records are not evaluated further.
fn group_answers(
    decisive: bool,
    source: Source<'_>,
    mut subtrees: &[Node<'_>],
    own: &[Record<'_, &[u8]>],
) -> Result<Vec<bool>> {
    let mut outcome = vec![!decisive; own.len()];
    let mut open: Vec<usize> = (0..own.len()).collect();
    while !subtrees.is_empty() && !open.is_empty() {
        let (subtree, after) = subtrees.split_at(length_of(subtrees));
        let asked: Vec<_> = open.iter().map(|position| own[*position].view()).collect();
        let accepted = answers(source, subtree, &asked)?;
        let mut accepted = accepted.into_iter();
        open.retain(|position| {
            let is_decided = accepted.next() == Some(decisive);
            outcome[*position] = if is_decided { decisive } else { outcome[*position] };
            !is_decided
        });
        subtrees = after;
    }
    Ok(outcome)
}

impl<'q> Query<'q> {
    /// Returns the query with selective conditions on related records reduced to conditions on keys; `None` if it has no conditions on
    /// related records.
    ///
    /// # Errors
    /// `Corrupt`; errors of the engine.
    pub(super) fn reduced(&self, source: Source<'_>) -> Result<Option<Self>> {
        if !self.filter.has_related() {
            return Ok(None);
        }
        let mut nodes = Vec::with_capacity(self.filter.nodes.len());
        reduce(source, &self.filter.nodes, self.text, &mut nodes)?;
        Ok(Some(Self { filter: Filter { nodes, table: self.filter.table }, ..self.clone() }))
    }
}

/// Appends the tree at the start of `nodes`, reduced.
fn reduce<'q>(source: Source<'_>, nodes: &[Node<'q>], text: &'q str, out: &mut Vec<Node<'q>>) -> Result<()> {
    match &nodes[0] {
        Node::Is(_) => out.push(nodes[0].clone()),
        Node::Not => {
            out.push(Node::Not);
            reduce(source, &nodes[1..], text, out)?;
        }
        Node::All(below) | Node::Any(below) => {
            let (group, mut subtrees) = (out.len(), &nodes[1..=*below as usize]);
            out.push(nodes[0].clone());
            while !subtrees.is_empty() {
                reduce(source, subtrees, text, out)?;
                subtrees = &subtrees[length_of(subtrees)..];
            }
            let length = u32::try_from(out.len() - group - 1).expect("it is no longer than it was");
            out[group] = if matches!(nodes[0], Node::All(_)) { Node::All(length) } else { Node::Any(length) };
        }
        Node::Related(related) => match named(source, related, &nodes[1..=related.below as usize], text)? {
            Some(condition) => out.push(Node::Is(condition)),
            None => out.extend_from_slice(&nodes[..=related.below as usize]),
        },
    }
    Ok(())
}

/// Reduces a condition on related records to one on the foreign key or the id, if it is cheap to find that few of them satisfy it.
fn named<'q>(
    source: Source<'_>,
    related: &Related,
    subtree: &[Node<'q>],
    text: &'q str,
) -> Result<Option<Condition<'q>>> {
    let relationship = &source.table.relationships[related.relationship];
    let other = source.related(relationship);
    let whole = Query {
        text,
        filter: Filter { nodes: subtree.to_vec(), table: Some(other.table.identity) },
        ..Query::default()
    };
    let inner = whole.reduced(other)?.unwrap_or(whole);
    let plan = AccessPaths::of(&inner, other.indexes()).plan(other)?;
    let is_counted = plan.counted.is_some_and(|counted| counted <= PROBED);
    if !is_counted && !probe(other, &plan.steps)?.1 {
        return Ok(None);
    }
    let mut values = Vec::new();
    let mut collect = |value: Value<'_>| match value {
        Value::List(elements) => values.extend(elements.into_iter().map(Value::into_owned)),
        Value::Null => {}
        value => values.push(value.into_owned()),
    };
    inner.run_at(other, |record| {
        collect(match relationship.many {
            true => record.value(relationship.foreign_key)?,
            false => Value::Text(record.id()?),
        });
        Ok(())
    })?;
    values.sort_unstable_by(compare);
    values.dedup_by(|one, other| compare(one, other).is_eq());
    let attribute = if relationship.many { source.table.primary_key } else { relationship.foreign_key };
    let test = if values.len() == 1 { Test::Equal(values.remove(0)) } else { Test::OneOf(values) };
    Ok(Some(Condition { attribute, path: Box::default(), test, text: related.text.clone() }))
}
