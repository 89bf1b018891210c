//! Query execution: point reads without a snapshot, ordered lists, counts, and updates and deletions of all matching records.
//!
//! A list is read at one snapshot by the steps of its plan ([`Walk`]), no further than its limit; if no index provides its order, it is
//! sorted in memory.
//!
//! A query that can match one record alone (by its id, or by a unique value) needs no snapshot: the condition that led to the record is
//! checked again on it. A query takes no lock.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::budget::StepBudget;
use super::cursor::Cursor;
use super::filter::CompiledFilter;
use super::plan::{Access, AccessPaths, Plan, Rival, Step, Steps, signature};
use super::related;
use super::sort::{SORTED_BYTES, TopK};
use super::source::{Indexes, Source, id_of_owner, present, records};
use super::tree::{Condition, Filter, Node, Query, Test};
use super::walk::{BATCH_ROWS, End, List, Walk};
use crate::encoding::{Fields, Record, Value};
use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::Table;
use crate::storage::Snapshot;
use crate::transaction::{Database, Owned, Read, check_patch_of_many};

/// Number of records that are passed over at most when some are claimed: more would be looked at for nothing.
const PASSED_OVER: usize = 10_000;

impl<'q> Query<'q> {
    /// Matches the records whose attribute, given by its position in the schema, equals a value or, if it is a list, contains it. Position
    /// and value are checked when the query is run on a table.
    pub fn equal(attribute: usize, value: Value<'q>) -> Self {
        let test = if value == Value::Null { Test::Null } else { Test::Equal(value) };
        let filter = Filter {
            table: None,
            nodes: vec![Node::Is(Condition { attribute, path: Box::default(), test, text: 0..0 })],
        };
        Self { filter, ..Self::default() }
    }
}

impl Query<'_> {
    /// Visits the matching records in order, at one snapshot.
    ///
    /// # Errors
    /// `Invalid` if the table is not one of the database, if the query was parsed for another or has a position or a value that does not
    /// fit it, at a regular expression that is too large, or if more records would have to be sorted than fit in memory; errors of `visit`
    /// and of the engine.
    pub fn run(
        &self,
        database: &Database,
        table: &Table,
        visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        self.run_to(database, table, visit).map(drop)
    }

    /// Like [`Query::run`], and returns the cursor of the next page if the list is as long as its limit and there may be more records.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(super) fn run_to(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<Option<Cursor>> {
        self.check(database, table)?;
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
        let (snapshot, budget) = (database.store().snapshot(database.tier())?, StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
        match self.reduced(source)? {
            None => self.run_by(paths, source, visit),
            Some(reduced) => reduced.run_by(AccessPaths::of(&reduced, source.indexes()), source, visit),
        }
    }

    /// Like `run_to`, at a snapshot.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(crate) fn run_in(
        &self,
        database: &Database,
        table: &Table,
        snapshot: &Snapshot<'_>,
        visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<Option<Cursor>> {
        self.check(database, table)?;
        self.run_at(Source::of(database, table, snapshot, &StepBudget::of(database)), visit)
    }

    /// Returns the number of records that satisfy the filter at a snapshot.
    ///
    /// # Errors
    /// As [`Query::run`].
    pub(crate) fn count_in(&self, database: &Database, table: &Table, snapshot: &Snapshot<'_>) -> Result<usize> {
        self.check(database, table)?;
        self.count_at(Source::of(database, table, snapshot, &StepBudget::of(database)))
    }

    /// Like `run_to`, at the snapshot of a source.
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

    /// Compiles the filter; returns whether any record can be listed.
    fn is_ready(&self) -> Result<bool> {
        self.filter.compile()?;
        Ok(self.limit != Some(0))
    }

    /// Returns the number of records that satisfy the filter; if an index or the table alone answers it, only keys are read.
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
        Ok(list.end.map(|End { step, key, sort_key }| Cursor {
            query: self.identity(source.table),
            path: plan.path,
            indexes: signature(&plan.steps),
            step: u8::try_from(step).expect("a query has at most CONDITIONS alternatives"),
            key,
            sort_key,
        }))
    }

    /// Visits the records to which a plan leads; `rival` replaces an ordered scan that has read as many records as the rival leads to.
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
        // The sort keys do not fit in memory. The scan needs none: it is restarted, and skips the records already visited.
        let limit = self.limit.unwrap_or(usize::MAX);
        list.offset = self.offset.saturating_add(limit - list.left);
        list.after = self.sort_key_after();
        Walk::new(self, source, plan).all(list)
    }

    /// Visits the remaining records of a list by an unordered plan, sorted in memory; returns false, without visiting any, if the sort keys
    /// do not fit.
    fn run_sorted<V>(&self, source: Source<'_>, plan: &Plan<'_>, list: &mut List<'_, V>) -> Result<bool>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let limit = self.limit.unwrap_or(usize::MAX);
        let (mut first, fits) = (
            TopK::new(&self.sort, self.sort_key_after(), self.offset.saturating_add(limit), SORTED_BYTES),
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

    /// Deletes all records that satisfy the condition, at most `most`, in one transaction; returns their number.
    ///
    /// # Errors
    /// `Invalid` if there are more, in which case none is deleted; `Busy`; errors of the engine.
    pub fn delete(self, database: &Database, table: &Table, most: usize) -> Result<usize> {
        let (all, ids) = self.found(database, table, most)?;
        let checks = all.filter.checks(table)?;
        database.delete_where(table, &ids, |record| satisfies(&checks, database, table, record))
    }

    /// Merges a patch into all records that satisfy the condition, at most `most`, in one transaction; returns their number.
    ///
    /// # Errors
    /// `Invalid` if there are more, in which case none is changed; as [`Database::merge_where`].
    pub fn update(self, database: &Database, patch: &Fields<'_, '_>, most: usize) -> Result<usize> {
        let table = patch.table();
        let (all, ids) = self.found(database, table, most)?;
        let checks = all.filter.checks(table)?;
        database.merge_where(&ids, patch, |record| satisfies(&checks, database, table, record))
    }

    /// Merges a patch into the first records, at most `most`, that satisfy the condition and that nobody else has locked, in one
    /// transaction; returns them. Whoever claims at the same time gets others, and waits for none.
    ///
    /// # Errors
    /// As [`Query::run`] and [`Transaction::merge`](crate::transaction::Transaction::merge).
    pub(crate) fn claim<'t>(&self, database: &Database, patch: &Fields<'t, '_>, most: usize) -> Result<Vec<Owned<'t>>> {
        let (table, checks) = (patch.table(), self.filter.checks(patch.table())?);
        check_patch_of_many(patch)?;
        // Those that others have locked, or have claimed since the snapshot, come on top.
        let all = Self { limit: Some(most + PASSED_OVER), offset: 0, ..self.clone() };
        database.transact(|transaction| {
            let mut claimed = Vec::new();
            let found = all.run(database, table, |record| {
                let accept = |record: &Record<'_, &[u8]>| satisfies(&checks, database, table, record);
                claimed.extend(transaction.claim(&record.id()?, patch, accept)?);
                if claimed.len() < most { Ok(()) } else { Err(Error::WouldBlock) }
            });
            if claimed.len() < most { found.map(|()| claimed) } else { Ok(claimed) }
        })
    }

    /// Returns the ids of the records that satisfy the condition, at most `most`, all at one snapshot.
    ///
    /// # Errors
    /// `Invalid` if there are more; errors of the engine.
    pub fn ids(self, database: &Database, table: &Table, most: usize) -> Result<Vec<String>> {
        self.found(database, table, most).map(|(_, ids)| ids)
    }

    /// Returns the ids of the records that satisfy the condition, and the condition: records may change after they were found, so it is
    /// evaluated again once they are locked.
    fn found(self, database: &Database, table: &Table, most: usize) -> Result<(Self, Vec<String>)> {
        let (mut ids, all) = (Vec::new(), Self { text: self.text, filter: self.filter, ..Self::default() });
        all.check(database, table)?;
        all.filter.compile()?;
        let (snapshot, budget) = (database.store().snapshot(database.tier())?, StepBudget::of(database));
        if let Some(ids) = all.ids_by_keys(Source::of(database, table, &snapshot, &budget), most)? {
            return if ids.len() > most { Err(too_many(most)) } else { Ok((all, ids)) };
        }
        all.run(database, table, |record| {
            if ids.len() == most {
                return Err(too_many(most));
            }
            ids.push(record.id()?.into_owned());
            Ok(())
        })?;
        Ok((all, ids))
    }

    /// Visits the records that satisfy the condition, at most `most`, all at one snapshot; returns the condition.
    ///
    /// # Errors
    /// `Invalid` if there are more; errors of `visit` and of the engine.
    pub(crate) fn each(
        self,
        database: &Database,
        table: &Table,
        most: usize,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<Self> {
        let (mut left, all) = (most, Self { text: self.text, filter: self.filter, ..Self::default() });
        all.run(database, table, |record| {
            left = left.checked_sub(1).ok_or_else(|| too_many(most))?;
            visit(record)
        })?;
        Ok(all)
    }

    /// Reads the only record that can match, without a snapshot. The residual filter includes the value by which the owner was found;
    /// `Continue` if the record does not satisfy it, since the value may have moved to another record between the two reads.
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
                match indexes::owner(database.store(), index, value, database.tier())? {
                    Some(owner) => (Some(database.read(table, id_of_owner(&owner)?)), true),
                    None => (None, false),
                }
            }
            Access::Entries { .. } | Access::Intersection(..) | Access::Table(_) => {
                unreachable!("they may lead to several records")
            }
        };
        if let Some(record) = record.transpose()?.flatten() {
            let checks = CompiledFilter::of(&self.filter, table, &step.checks)?;
            StepBudget::of(database).spend_record(record.bytes().len(), checks.nodes())?;
            if checks.accept(&record)? {
                return Ok(ControlFlow::Break(Some(record)));
            }
        }
        Ok(if is_owner { ControlFlow::Continue(()) } else { ControlFlow::Break(None) })
    }
}

/// Returns the error of a condition that more records satisfy than one request may concern.
#[cold]
pub(super) fn too_many(most: usize) -> Error {
    Error::invalid(format!("more than max_rows = {most} records match the condition; nothing was done"))
}

/// Returns whether a record satisfies all conditions, including those on its current related records.
fn satisfies(
    checks: &CompiledFilter<'_>,
    database: &Database,
    table: &Table,
    record: &Record<'_, &[u8]>,
) -> Result<bool> {
    if !checks.accept(record)? || checks.related().is_empty() {
        return checks.accept(record);
    }
    let (snapshot, budget) = (database.store().snapshot(database.tier())?, StepBudget::of(database));
    are_related(checks, Source::of(database, table, &snapshot, &budget), record)
}

/// Returns whether a record satisfies the conditions on its related records.
fn are_related(checks: &CompiledFilter<'_>, source: Source<'_>, record: &Record<'_, &[u8]>) -> Result<bool> {
    for tree in checks.related() {
        if !related::answers(source, tree, &[record.view()])?[0] {
            return Ok(false);
        }
    }
    Ok(true)
}
