//! Queries, run: the way to one record without a snapshot, lists in an order, counts, and changes of all records of a condition.
//!
//! A list is read at one snapshot by the steps of its plan ([`Walk`]), no further than its limit; where no index has its order, it is
//! sorted in memory.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::budget::StepBudget;
use super::cursor::Cursor;
use super::filter::CompiledFilter;
use super::plan::{Access, AccessPaths, Indexes, Plan, Rival, Source, Step, Steps, signature};
use super::related;
use super::sort::{SORTED_BYTES, TopK};
use super::tree::{Condition, Filter, Node, Query, Test};
use super::walk::{BATCH_ROWS, End, List, Walk, id_of_owner, present, records};
use crate::encoding::{Fields, Record, Value};
use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::Table;
use crate::transaction::{Database, Read};

impl<'q> Query<'q> {
    /// The records whose attribute, given by its position in the schema, has a value; of a list, has it among its elements.
    pub fn equal(attribute: usize, value: Value<'q>) -> Self {
        let test = if value == Value::Null { Test::Null } else { Test::Equal(value) };
        let filter = Filter { nodes: vec![Node::Is(Condition { attribute, path: Box::default(), test, text: 0..0 })] };
        Self { filter, ..Self::default() }
    }
}

impl Query<'_> {
    /// Visits the records that the query means, in its order, as of one moment.
    ///
    /// # Errors
    /// `Invalid` at a regular expression that is too large, or if more records would have to be sorted than fit in memory; what
    /// `visit` returns; what the engine returns.
    pub fn run(
        &self,
        database: &Database,
        table: &Table,
        visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        self.run_to(database, table, visit).map(drop)
    }

    /// The same, and where the list goes on if it was cut: if it is as long as its limit, and there may be more.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(super) fn run_to(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<Option<Cursor>> {
        if !self.is_ready()? {
            return Ok(None);
        }
        let mut paths = AccessPaths::of(self, Indexes::ready(table));
        if !self.filter.has_related()
            && self.after.is_none()
            && let Some(step) = paths.single()
        {
            match self.read_one(database, table, &step)? {
                ControlFlow::Break(Some(record)) if self.offset == 0 => return visit(record.view()).map(|()| None),
                ControlFlow::Break(_) => return Ok(None),
                ControlFlow::Continue(()) => {}
            }
            paths = AccessPaths::of(self, Indexes::ready(table));
        }
        let (snapshot, budget) = (database.store().snapshot(), StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
        match self.reduced(source)? {
            None => self.run_by(paths, source, visit),
            Some(reduced) => reduced.run_by(AccessPaths::of(&reduced, source.indexes()), source, visit),
        }
    }

    /// The same as of the moment of a source.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(super) fn run_at<V>(&self, source: Source<'_>, visit: V) -> Result<Option<Cursor>>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        if !self.is_ready()? {
            return Ok(None);
        }
        let reduced = self.reduced(source)?;
        let query = reduced.as_ref().unwrap_or(self);
        query.run_by(AccessPaths::of(query, source.indexes()), source, visit)
    }

    /// Makes the filter ready to be asked; whether any record can be listed.
    fn is_ready(&self) -> Result<bool> {
        self.filter.compile()?;
        Ok(self.limit != Some(0))
    }

    /// How many records satisfy the filter; those that an index or the table alone leads to are counted by their keys.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(super) fn count_at(&self, source: Source<'_>) -> Result<usize> {
        self.filter.compile()?;
        let all = Self { text: self.text, filter: self.filter.clone(), ..Self::default() };
        let query = all.reduced(source)?.unwrap_or(all);
        let plan = AccessPaths::of(&query, source.indexes()).plan(source)?;
        let mut list = List::of(&query, |_: Record<'_, &[u8]>| Ok(()));
        list.offset = usize::MAX;
        Walk::new(&query, source, &plan).all(&mut list)?;
        Ok(usize::MAX - list.offset)
    }

    fn run_by<V>(&self, paths: AccessPaths<'_>, source: Source<'_>, visit: V) -> Result<Option<Cursor>>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let mut list = List::of(self, visit);
        let mut plan = match &self.after {
            Some(cursor) if self.sort.is_empty() => paths.plan_of(cursor)?,
            _ => paths.plan(source)?,
        };
        let rival = plan.rival.take();
        self.run_plan(source, &plan, rival, &mut list)?;
        Ok(list.end.map(|End { step, key, place }| Cursor {
            query: self.identity(source.table),
            path: plan.path,
            indexes: signature(&plan.steps),
            step: u8::try_from(step).expect("a query has at most CONDITIONS alternatives"),
            key,
            place,
        }))
    }

    /// Visits the records to which a plan leads; `rival` takes over from a walk in order that has read as many.
    fn run_plan<'l, 'p, V>(
        &'l self,
        source: Source<'_>,
        plan: &Plan<'p>,
        rival: Option<Steps<'p>>,
        list: &mut List<'l, V>,
    ) -> Result<()>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        if !plan.ordered {
            return match self.run_sorted(source, plan, list)? {
                true => Ok(()),
                false => Err(self.unsorted(source, self.too_long_to_sort())),
            };
        }
        let Some(rival) = rival else { return Walk::new(self, source, plan).all(list) };
        let is_done = {
            let mut walk = Walk::new(self, source, plan);
            walk.rival = Some(RefCell::new(Rival::new(source, &rival)));
            walk.all(list)?;
            !walk.has_given_up.get()
        };
        if is_done || self.run_sorted(source, &Plan::gathering(rival), list)? {
            return Ok(());
        }
        // What is sorted by does not fit in memory. The walk needs none: it begins anew, and passes over what was visited.
        let limit = self.limit.unwrap_or(usize::MAX);
        list.offset = self.offset.saturating_add(limit - list.left);
        list.after = self.place_after();
        Walk::new(self, source, plan).all(list)
    }

    /// Visits what a list still lacks of the records that an unordered plan leads to, sorted in memory; false, and nothing was visited, if
    /// what is sorted by does not fit.
    fn run_sorted<V>(&self, source: Source<'_>, plan: &Plan<'_>, list: &mut List<'_, V>) -> Result<bool>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let limit = self.limit.unwrap_or(usize::MAX);
        let (mut first, fits) = (
            TopK::new(&self.sort, self.place_after(), self.offset.saturating_add(limit), SORTED_BYTES),
            Cell::new(true),
        );
        let offer = |record: Record<'_, &[u8]>| {
            fits.set(first.offer(&record)?);
            if fits.get() { Ok(()) } else { Err(self.too_long_to_sort()) }
        };
        let (mut all, mut walk) = (List::of(self, offer), Walk::new(self, source, plan));
        (all.offset, all.left, all.after, walk.from) = (0, usize::MAX, None, None);
        let gathered = walk.all(&mut all);
        if !fits.get() {
            return Ok(false);
        }
        gathered?;
        let mut keys = first.into_keys(self.offset.saturating_add(limit - list.left));
        loop {
            let batch: Vec<_> = keys.by_ref().take(BATCH_ROWS).collect();
            if batch.is_empty() {
                return Ok(true);
            }
            let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            for bytes in records(source, &slices)? {
                let record = Record::open(source.table, present(&bytes)?)?;
                (list.visit)(record.view())?;
                list.left -= 1;
                if list.left == 0 {
                    list.end = Some(End::at(0, Vec::new(), &self.sort, &record.view())?);
                }
            }
        }
    }

    /// Deletes the records that satisfy the condition, all of them and `most` at most, in one transaction; how many there were.
    ///
    /// # Errors
    /// `Invalid` if there are more, and then none is deleted; `Busy`; what the engine returns.
    pub fn delete(self, database: &Database, table: &Table, most: usize) -> Result<usize> {
        let (all, ids) = self.found(database, table, most)?;
        let checks = all.filter.checks(table)?;
        database.delete_where(table, &ids, |record| satisfies(&checks, database, table, record))
    }

    /// Merges a patch into the records that satisfy the condition, all of them and `most` at most, in one transaction; how many there
    /// were.
    ///
    /// # Errors
    /// `Invalid` if there are more, and then none is changed; as [`Database::merge_where`].
    pub fn update(self, database: &Database, patch: &Fields<'_, '_>, most: usize) -> Result<usize> {
        let table = patch.table();
        let (all, ids) = self.found(database, table, most)?;
        let checks = all.filter.checks(table)?;
        database.merge_where(&ids, patch, |record| satisfies(&checks, database, table, record))
    }

    /// The ids of the records that satisfy the condition, and the condition: records may change after they were found, so it is asked
    /// again once they are held.
    fn found(self, database: &Database, table: &Table, most: usize) -> Result<(Self, Vec<String>)> {
        let (mut ids, all) = (Vec::new(), Self { text: self.text, filter: self.filter, ..Self::default() });
        all.run(database, table, |record| {
            if ids.len() == most {
                let detail = format!("more than max_rows = {most} records match the condition; nothing was changed");
                return Err(Error::invalid(detail));
            }
            ids.push(record.id()?.into_owned());
            Ok(())
        })?;
        Ok((all, ids))
    }

    /// The record that a query means which can mean one only, read without a snapshot. What is asked of it includes the value by
    /// which its owner was found; if it does not satisfy that, the value may have passed on between the two reads, and nothing is
    /// known.
    fn read_one<'d>(
        &self,
        database: &'d Database,
        table: &'d Table,
        step: &Step<'_>,
    ) -> Result<ControlFlow<Option<Read<'d, 'd>>>> {
        let (record, is_owner) = match &step.access {
            Access::Ids(ids) => (ids.first().map(|id| database.read(table, id)), false),
            Access::Owners(index, values) => {
                let value = values.first().expect("a step of owners has a value");
                match indexes::owner(database.store(), index, value, database.reach())? {
                    Some(owner) => (Some(database.read(table, id_of_owner(&owner)?)), true),
                    None => (None, false),
                }
            }
            Access::Entries { .. } | Access::Common(..) | Access::Table(_) => {
                unreachable!("they may lead to several records")
            }
        };
        if let Some(record) = record.transpose()?.flatten() {
            let checks = CompiledFilter::of(&self.filter, table, &step.checks)?;
            StepBudget::of(database).ask(record.bytes().len(), checks.nodes())?;
            if checks.accept(&record)? {
                return Ok(ControlFlow::Break(Some(record)));
            }
        }
        Ok(if is_owner { ControlFlow::Continue(()) } else { ControlFlow::Break(None) })
    }
}

/// Whether a record satisfies everything, with its related records as they are now.
fn satisfies(
    checks: &CompiledFilter<'_>,
    database: &Database,
    table: &Table,
    record: &Record<'_, &[u8]>,
) -> Result<bool> {
    let (snapshot, budget) = (database.store().snapshot(), StepBudget::of(database));
    Ok(checks.accept(record)? && are_related(checks, Source::of(database, table, &snapshot, &budget), record)?)
}

/// Whether a record satisfies the conditions on its related records.
fn are_related(checks: &CompiledFilter<'_>, source: Source<'_>, record: &Record<'_, &[u8]>) -> Result<bool> {
    for tree in checks.related() {
        if !related::answers(source, tree, &[record.view()])?[0] {
            return Ok(false);
        }
    }
    Ok(true)
}
