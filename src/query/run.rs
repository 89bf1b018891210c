//! Plan to records: entries and records of one moment, in batches, no further than the limit.
//!
//! Keys are gathered from entries and their records are read by one multi-get, which wants them ascending. A batch is as long as
//! the list still is, and grows where records are turned down, up to [`BATCH_ROWS`]; so memory does not grow with the list. What an
//! offset passes over is not read, if nothing has to be asked of it.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::filter::Checks;
use super::plan::{Access, Plan, Source, Step, Ways};
use super::sort::{First, place};
use super::tree::{Condition, Filter, Node, Query, Test};
use crate::encoding::{Record, Value, key};
use crate::error::{Error, Result};
use crate::indexes::{self, Direction, KeyRange, Keys, Matches};
use crate::schema::{Index, Table};
use crate::storage::{Pinned, Space};
use crate::transaction::{Database, Precondition};

/// How many records are read at once.
const BATCH_ROWS: usize = 1000;

type Flow = Result<ControlFlow<()>>;

impl<'q> Query<'q> {
    /// The records whose attribute, given by its position in the schema, has a value; of a list, has it among its elements.
    pub fn equal(attribute: usize, value: Value<'q>) -> Self {
        let test = if value == Value::Null { Test::Null } else { Test::Equal(value) };
        let filter = Filter { nodes: vec![Node::Is(Condition { attribute, test, text: 0..0 })] };
        Self { filter, ..Self::default() }
    }
}

impl Query<'_> {
    /// Visits the records that the query means, in its order, as of one moment.
    ///
    /// # Errors
    /// `Invalid` if more records would have to be sorted than fit in memory; what `visit` returns; what the engine returns.
    pub fn run(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let limit = self.limit.unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(());
        }
        let mut ways = Ways::of(self, table);
        if let Some(step) = ways.single() {
            return match self.read_one(database, table, &step)? {
                Some(record) if self.offset == 0 => visit(record.view()),
                _ => Ok(()),
            };
        }
        let snapshot = database.store().snapshot();
        let source = Source { store: database.store(), table, snapshot: &snapshot, reach: database.reach() };
        let plan = ways.plan(source)?;
        if plan.ordered {
            let mut list = List { offset: self.offset, left: limit, visit };
            return Walk { query: self, source, plan: &plan }.all(&mut list);
        }
        let mut first = First::new(&self.sort, self.offset.saturating_add(limit));
        let offer = |record: Record<'_, &[u8]>| first.offer(&record);
        let mut list = List { offset: 0, left: usize::MAX, visit: offer };
        Walk { query: self, source, plan: &plan }.all(&mut list)?;
        let mut keys = first.into_keys(self.offset);
        loop {
            let batch: Vec<_> = keys.by_ref().take(BATCH_ROWS).collect();
            if batch.is_empty() {
                return Ok(());
            }
            let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            for bytes in records(source, &slices)? {
                visit(Record::open(table, present(&bytes)?)?)?;
            }
        }
    }

    /// Deletes the records that satisfy the condition, all of them and `most` at most, in one transaction; how many there were.
    ///
    /// # Errors
    /// `Invalid` if there are more, and then none is deleted; `Busy`; what the engine returns.
    pub fn delete(self, database: &Database, table: &Table, most: usize) -> Result<usize> {
        let (mut ids, all) = (Vec::new(), Self { text: self.text, filter: self.filter, ..Self::default() });
        all.run(database, table, |record| {
            if ids.len() == most {
                let detail = format!("more than max_rows = {most} records would be deleted; nothing was");
                return Err(Error::invalid(detail));
            }
            ids.push(record.id()?.into_owned());
            Ok(())
        })?;
        let checks = all.filter.checks(table);
        database.transact(|transaction| {
            let mut deleted = 0;
            for id in &ids {
                // Read anew, and held from now on: it may have changed since it was found.
                if let Some(record) = transaction.read(table, id)?
                    && checks.accept(&record)?
                {
                    transaction.delete(table, id, &Precondition::None)?;
                    deleted += 1;
                }
            }
            Ok(deleted)
        })
    }

    /// The record that a query means which can mean one only. What is asked of it includes the value by which its owner was found.
    fn read_one<'d>(
        &self,
        database: &'d Database,
        table: &'d Table,
        step: &Step<'_>,
    ) -> Result<Option<Record<'d, Pinned<'d>>>> {
        let record = match &step.access {
            Access::Ids(ids) => ids.first().map(|id| database.read(table, id)),
            Access::Owners(index, values) => {
                let value = values.first().expect("a step of owners has a value");
                match indexes::owner(database.store(), index, value, database.reach())? {
                    Some(owner) => Some(database.read(table, id_of_owner(&owner)?)),
                    None => None,
                }
            }
            Access::Entries { .. } | Access::Table(_) => unreachable!("they may lead to several records"),
        };
        let Some(record) = record.transpose()?.flatten() else { return Ok(None) };
        for check in &step.checks {
            if !self.filter.accepts_below(*check, &record)? {
                return Ok(None);
            }
        }
        Ok(Some(record))
    }
}

fn id_of_owner(owner: &[u8]) -> Result<&str> {
    std::str::from_utf8(owner).map_err(|_| Error::corrupt("a unique entry has no id"))
}

fn present<'b>(bytes: &'b Option<Pinned<'_>>) -> Result<&'b [u8]> {
    bytes.as_deref().ok_or_else(|| Error::corrupt("an index entry leads to no record"))
}

/// Where accepted records go: past the offset, up to the limit.
struct List<V> {
    offset: usize,
    left: usize,
    visit: V,
}

impl<V: FnMut(Record<'_, &[u8]>) -> Result<()>> List<V> {
    fn take(&mut self, record: Record<'_, &[u8]>) -> Flow {
        if self.offset > 0 {
            self.offset -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        (self.visit)(record)?;
        self.left -= 1;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// The steps of a plan, carried out.
struct Walk<'w, 'p> {
    query: &'w Query<'w>,
    source: Source<'w>,
    plan: &'w Plan<'p>,
}

/// What is asked of the records that a step leads to.
struct Asked<'w> {
    /// What each has still to satisfy.
    checks: Checks<'w>,
    /// The alternatives of the steps before, as subtrees: what they accept was yielded there.
    earlier: SmallVec<[usize; 4]>,
}

impl Asked<'_> {
    /// Whether everything that the step leads to is in the list, so that it can be passed over unread.
    fn takes_all(&self) -> bool {
        self.checks.is_empty() && self.earlier.is_empty()
    }
}

impl Walk<'_, '_> {
    fn all<V: FnMut(Record<'_, &[u8]>) -> Result<()>>(&self, list: &mut List<V>) -> Result<()> {
        for (number, step) in self.plan.steps.iter().enumerate() {
            let asked = Asked {
                checks: Checks::of(&self.query.filter, self.source.table, &step.checks),
                earlier: self.plan.steps[..number].iter().filter_map(|step| step.alternative).collect(),
            };
            let flow = match &step.access {
                Access::Ids(ids) => self.ids(&asked, ids, list)?,
                Access::Owners(index, values) => {
                    let owners =
                        indexes::owners(self.source.store, index, values, self.source.snapshot, self.source.reach)?;
                    let mut ids = Vec::with_capacity(owners.len());
                    for owner in owners.iter().flatten() {
                        ids.push(id_of_owner(owner)?);
                    }
                    ids.sort_unstable();
                    ids.dedup();
                    self.ids(&asked, &ids, list)?
                }
                Access::Table(range) => self.table(&asked, range, list)?,
                Access::Entries { index, ranges, repeated } => {
                    let repeated = repeated.then_some(&ranges[..]);
                    let mut flow = ControlFlow::Continue(());
                    for place in 0..ranges.len() {
                        let range = match self.plan.direction {
                            Direction::Forwards => &ranges[place],
                            Direction::Backwards => &ranges[ranges.len() - 1 - place],
                        };
                        flow = self.entries(&asked, index, range, repeated, list)?;
                        if flow.is_break() {
                            break;
                        }
                    }
                    flow
                }
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the step yields a record: what it has still to satisfy, and no earlier step has yielded it.
    #[inline]
    fn accepts(&self, asked: &Asked<'_>, record: &Record<'_, &[u8]>) -> Result<bool> {
        if !asked.checks.accept(record)? {
            return Ok(false);
        }
        for alternative in &asked.earlier {
            if self.query.filter.accepts_below(*alternative, record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn table<V>(&self, asked: &Asked<'_>, range: &KeyRange, list: &mut List<V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Source { store, table, snapshot, reach } = self.source;
        let mut scan = match self.plan.direction {
            Direction::Forwards => store.scan(Space::Records, &range.lower, &range.upper, snapshot, reach),
            Direction::Backwards => store.scan_backwards(Space::Records, &range.lower, &range.upper, snapshot, reach),
        };
        let takes_all = asked.takes_all();
        while let Some((_, bytes)) = scan.next()? {
            if takes_all && list.offset > 0 {
                list.offset -= 1;
                continue;
            }
            let record = Record::open(table, bytes)?;
            if (takes_all || self.accepts(asked, &record)?) && list.take(record)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn ids<V>(&self, asked: &Asked<'_>, ids: &[&str], list: &mut List<V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let table = self.source.table;
        for batch in batches(ids, self.plan.direction) {
            let mut keys = Keys::default();
            for id in batch {
                keys.push(table.id, b"", id.as_bytes());
            }
            // Not every id that is asked for exists.
            for bytes in records(self.source, &keys.slices())?.iter().flatten() {
                let record = Record::open(table, bytes.as_ref())?;
                if self.accepts(asked, &record)? && list.take(record)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// `repeated`: the stretches of an index that has several entries for a record, which counts at the first of them.
    fn entries<V>(
        &self,
        asked: &Asked<'_>,
        index: &Index,
        range: &KeyRange,
        repeated: Option<&[KeyRange]>,
        list: &mut List<V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Source { store, table, snapshot, reach } = self.source;
        let mut matches = Matches::within(store, table, index, range, self.plan.direction, snapshot, reach);
        if repeated.is_some() || self.plan.by_values_of.is_some() {
            matches = matches.keeping_values();
        }
        let takes_all = asked.takes_all() && repeated.is_none();
        while takes_all && self.plan.by_values_of.is_none() && list.offset > 0 && matches.pass()? {
            list.offset -= 1;
        }
        let wanted = list.left.saturating_add(list.offset);
        let mut rows = wanted.min(BATCH_ROWS);
        let (mut keys, mut carried) = (Keys::default(), Keys::default());
        loop {
            self.gather(&mut matches, rows, &mut keys, &mut carried)?;
            if keys.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let slices = keys.slices();
            let found = records(self.source, &slices)?;
            let order = self.order_of_cut(&keys, &found)?;
            for place in 0..keys.len() {
                let position = order.as_ref().map_or(place, |order| order[place]);
                let record = Record::open(table, present(&found[position])?)?;
                let counts = match repeated {
                    Some(ranges) => indexes::is_first(index, ranges, keys.before_id(position), &record)?,
                    None => true,
                };
                if counts && self.accepts(asked, &record)? && list.take(record)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            rows = if takes_all { list.left.saturating_add(list.offset) } else { rows * 4 }.min(BATCH_ROWS);
        }
    }

    /// The next keys. A batch does not end among texts that were cut to the same beginning, if their order matters: what follows
    /// them is carried to the next batch.
    fn gather(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, carried: &mut Keys) -> Result<()> {
        keys.clear();
        std::mem::swap(keys, carried);
        while keys.len() < rows && matches.append(keys)? {}
        while self.plan.by_values_of.is_some() && !keys.is_empty() {
            let last = keys.len() - 1;
            if !key::is_cut(keys.before_id(last)) || !matches.append(keys)? {
                break;
            }
            if keys.before_id(last) != keys.before_id(last + 1) {
                keys.move_last(carried);
                break;
            }
        }
        Ok(())
    }

    /// The positions of the records of a batch in the order of the list, where that of the entries is not it because their texts
    /// were cut.
    fn order_of_cut(&self, keys: &Keys, found: &[Option<Pinned<'_>>]) -> Result<Option<Vec<usize>>> {
        if self.plan.by_values_of.is_none() || !(0..keys.len()).any(|position| key::is_cut(keys.before_id(position))) {
            return Ok(None);
        }
        let mut positions: Vec<usize> = (0..keys.len()).collect();
        for run in positions.chunk_by_mut(|one, other| keys.before_id(*one) == keys.before_id(*other)) {
            if run.len() > 1 && key::is_cut(keys.before_id(run[0])) {
                let mut places = Vec::with_capacity(run.len());
                for position in &*run {
                    let record = Record::open(self.source.table, present(&found[*position])?)?;
                    let mut own = Vec::new();
                    place(&self.query.sort, &record, &mut own)?;
                    places.push((own, *position));
                }
                places.sort_unstable();
                run.iter_mut().zip(places).for_each(|(slot, (_, position))| *slot = position);
            }
        }
        Ok(Some(positions))
    }
}

/// The ids in batches, in a direction.
fn batches<'i>(ids: &'i [&'i str], direction: Direction) -> Vec<Vec<&'i str>> {
    let mut ids = ids.to_vec();
    if direction == Direction::Backwards {
        ids.reverse();
    }
    ids.chunks(BATCH_ROWS).map(<[&str]>::to_vec).collect()
}

/// The stored bytes of records, in the order of their keys, which may be any.
fn records<'s>(source: Source<'s>, keys: &[&[u8]]) -> Result<Vec<Option<Pinned<'s>>>> {
    let Source { store, snapshot, reach, .. } = source;
    if keys.is_sorted() {
        return store.multi_get(Space::Records, keys, snapshot, reach);
    }
    let mut ascending: Vec<(&[u8], usize)> = keys.iter().copied().zip(0..).collect();
    ascending.sort_unstable();
    let sorted: Vec<&[u8]> = ascending.iter().map(|(key, _)| *key).collect();
    let mut found: Vec<_> = keys.iter().map(|_| None).collect();
    for ((_, position), bytes) in
        ascending.into_iter().zip(store.multi_get(Space::Records, &sorted, snapshot, reach)?)
    {
        found[position] = bytes;
    }
    Ok(found)
}
