//! Plan to records: entries and records of one moment, in batches, no further than the limit.
//!
//! Keys are gathered from entries and their records are read by one multi-get, which wants them ascending. A batch is as long as
//! the list still is, and grows where records are turned down, up to [`BATCH_ROWS`]; so memory does not grow with the list. What an
//! offset passes over is not read, if nothing has to be asked of it. Where others wait, all of this is counted (`budget`).

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::budget::StepBudget;
use super::filter::CompiledFilter;
use super::plan::{Access, AccessPaths, Plan, Rival, Source, Step};
use super::seen::{Met, SEEN_BYTES, Seen};
use super::sort::{SORTED_BYTES, TopK, place};
use super::tree::{Condition, Filter, Node, Query, Test};
use crate::encoding::{Record, Value, key};
use crate::error::{Error, Result};
use crate::indexes::{self, Direction, KeyRange, Keys, Matches};
use crate::schema::{Index, Table};
use crate::storage::{Pinned, Space};
use crate::transaction::Database;

/// How many records are read at once, and in memory at once: four of the batches into which the engine divides them.
const BATCH_ROWS: usize = 128;

/// How many bytes of memory entries may take that have to be put in order by their records: those of texts that an index has cut to
/// one beginning.
pub const GATHERED_BYTES: usize = 16 << 20;

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
    /// `Invalid` at a regular expression that is too large, or if more records would have to be sorted than fit in memory; what
    /// `visit` returns; what the engine returns.
    pub fn run(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        self.filter.compile()?;
        let limit = self.limit.unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(());
        }
        let mut paths = AccessPaths::of(self, table);
        if let Some(step) = paths.single() {
            match self.read_one(database, table, &step)? {
                ControlFlow::Break(Some(record)) if self.offset == 0 => return visit(record.view()),
                ControlFlow::Break(_) => return Ok(()),
                ControlFlow::Continue(()) => paths = AccessPaths::of(self, table),
            }
        }
        let (snapshot, budget) = (database.store().snapshot(), StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
        let mut plan = paths.plan(source)?;
        let mut list = List { offset: self.offset, left: limit, visit };
        if !plan.ordered {
            return match self.run_sorted(source, &plan, &mut list)? {
                true => Ok(()),
                false => Err(self.too_long_to_sort()),
            };
        }
        let Some(rival) = plan.rival.take() else { return Walk::new(self, source, &plan).all(&mut list) };
        let is_done = {
            let rival = Some(RefCell::new(Rival::new(source, &rival)));
            let walk = Walk { rival, ..Walk::new(self, source, &plan) };
            walk.all(&mut list)?;
            !walk.has_given_up.get()
        };
        if is_done || self.run_sorted(source, &Plan::gathering(rival), &mut list)? {
            return Ok(());
        }
        // What is sorted by does not fit in memory. The walk needs none: it begins anew, and passes over what was visited.
        list.offset = self.offset.saturating_add(limit - list.left);
        Walk::new(self, source, &plan).all(&mut list)
    }

    /// Visits what a list still lacks of the records that an unordered plan leads to, sorted in memory; false, and nothing was visited, if
    /// what is sorted by does not fit.
    fn run_sorted<V>(&self, source: Source<'_>, plan: &Plan<'_>, list: &mut List<V>) -> Result<bool>
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let limit = self.limit.unwrap_or(usize::MAX);
        let (mut first, fits) =
            (TopK::new(&self.sort, self.offset.saturating_add(limit), SORTED_BYTES), Cell::new(true));
        let offer = |record: Record<'_, &[u8]>| {
            fits.set(first.offer(&record)?);
            if fits.get() { Ok(()) } else { Err(self.too_long_to_sort()) }
        };
        let gathered = Walk::new(self, source, plan).all(&mut List { offset: 0, left: usize::MAX, visit: offer });
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
                (list.visit)(Record::open(source.table, present(&bytes)?)?)?;
            }
        }
    }

    /// The error of a list whose sort keys do not fit in memory.
    fn too_long_to_sort(&self) -> Error {
        let detail = format!(
            "sort: what is sorted by takes more than {} MiB of memory: ask for fewer records, offset and limit together, or sort by \
             something shorter",
            SORTED_BYTES >> 20
        );
        self.surplus("sort", detail)
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
        // Read anew once they are held: they may have changed since they were found.
        let checks = all.filter.checks(table)?;
        database.delete_where(table, &ids, |record| checks.accept(record))
    }

    /// The record that a query means which can mean one only, read without a snapshot. What is asked of it includes the value by
    /// which its owner was found; if it does not satisfy that, the value may have passed on between the two reads, and nothing is
    /// known.
    fn read_one<'d>(
        &self,
        database: &'d Database,
        table: &'d Table,
        step: &Step<'_>,
    ) -> Result<ControlFlow<Option<Record<'d, Pinned<'d>>>>> {
        let (record, is_owner) = match &step.access {
            Access::Ids(ids) => (ids.first().map(|id| database.read(table, id)), false),
            Access::Owners(index, values) => {
                let value = values.first().expect("a step of owners has a value");
                match indexes::owner(database.store(), index, value, database.reach())? {
                    Some(owner) => (Some(database.read(table, id_of_owner(&owner)?)), true),
                    None => (None, false),
                }
            }
            Access::Entries { .. } | Access::Table(_) => unreachable!("they may lead to several records"),
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
    rival: Option<RefCell<Rival<'w>>>,
    /// Whether it has read as many records as the rival leads to.
    has_given_up: Cell<bool>,
}

/// What is asked of the records that a step leads to.
struct Asked<'w, 'e> {
    /// What each has still to satisfy.
    checks: CompiledFilter<'w>,
    /// The alternatives of the steps before: what they accept was yielded there.
    earlier: &'e [CompiledFilter<'w>],
}

impl Asked<'_, '_> {
    /// Whether everything that the step leads to is in the list, so that it can be passed over unread.
    fn takes_all(&self) -> bool {
        self.checks.is_empty() && self.earlier.is_empty()
    }

    /// About how much a record is asked.
    fn conditions(&self) -> usize {
        self.checks.nodes() + self.earlier.iter().map(CompiledFilter::nodes).sum::<usize>()
    }
}

impl<'w, 'p> Walk<'w, 'p> {
    /// One that has no rival.
    fn new(query: &'w Query<'w>, source: Source<'w>, plan: &'w Plan<'p>) -> Self {
        Self { query, source, plan, rival: None, has_given_up: Cell::new(false) }
    }

    /// How many of so many records may be read next; if none, the walk is to end.
    fn granted(&self, wanted: usize) -> Result<usize> {
        let Some(rival) = &self.rival else { return Ok(wanted) };
        let granted = rival.borrow_mut().grant(wanted)?;
        self.has_given_up.set(granted == 0);
        Ok(granted)
    }

    fn all<V: FnMut(Record<'_, &[u8]>) -> Result<()>>(&self, list: &mut List<V>) -> Result<()> {
        let (filter, table) = (&self.query.filter, self.source.table);
        let but_last = self.plan.steps.split_last().map_or(&[][..], |(_, before)| before).iter();
        let alternatives =
            but_last.filter_map(|step| step.alternative).map(|subtree| filter.checks_below(table, subtree));
        let alternatives = alternatives.collect::<Result<Vec<_>>>()?;
        for (number, step) in self.plan.steps.iter().enumerate() {
            let checks = CompiledFilter::of(filter, table, &step.checks)?;
            let asked = Asked { checks, earlier: &alternatives[..number] };
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
                    let mut repeated = repeated.then(|| Repeated { index, ranges, seen: Seen::within(SEEN_BYTES) });
                    let mut flow = ControlFlow::Continue(());
                    for place in 0..ranges.len() {
                        let range = match self.plan.direction {
                            Direction::Forwards => &ranges[place],
                            Direction::Backwards => &ranges[ranges.len() - 1 - place],
                        };
                        flow = self.entries(&asked, index, range, repeated.as_mut(), list)?;
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

    /// Whether the step provides a record: what it has still to satisfy, and no earlier step has yielded it.
    #[inline]
    fn accepts(&self, asked: &Asked<'_, '_>, record: &Record<'_, &[u8]>) -> Result<bool> {
        self.source.budget.ask(record.bytes().len(), asked.conditions())?;
        if !asked.checks.accept(record)? {
            return Ok(false);
        }
        for alternative in asked.earlier {
            if alternative.accept(record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn table<V>(&self, asked: &Asked<'_, '_>, range: &KeyRange, list: &mut List<V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Source { table, budget, .. } = self.source;
        let mut scan = self.source.scan(Space::Records, range, self.plan.direction)?;
        let takes_all = asked.takes_all();
        while let Some((_, bytes)) = scan.next()? {
            if self.granted(1)? == 0 {
                return Ok(ControlFlow::Break(()));
            }
            if takes_all && list.offset > 0 {
                budget.spend(1)?;
                list.offset -= 1;
                continue;
            }
            let record = Record::open(table, bytes)?;
            if self.accepts(asked, &record)? && list.take(record)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn ids<V>(&self, asked: &Asked<'_, '_>, ids: &[&str], list: &mut List<V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let table = self.source.table;
        for batch in batches(ids, self.plan.direction) {
            self.source.budget.spend(batch.len())?;
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

    /// `repeated`: of an index that may have several entries for a record, which counts once.
    fn entries<V>(
        &self,
        asked: &Asked<'_, '_>,
        index: &Index,
        range: &KeyRange,
        mut repeated: Option<&mut Repeated<'_>>,
        list: &mut List<V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let scan = self.source.scan(Space::Indexes, range, self.plan.direction)?;
        let mut matches = Matches::of(scan, self.source.table, index, range);
        if repeated.is_some() || self.plan.by_values_of.is_some() {
            matches = matches.keeping_values();
        }
        let takes_all = asked.takes_all() && repeated.is_none();
        while takes_all && self.plan.by_values_of.is_none() && list.offset > 0 && matches.pass()? {
            self.source.budget.spend(1)?;
            list.offset -= 1;
        }
        let wanted = list.left.saturating_add(list.offset);
        let mut rows = wanted.min(BATCH_ROWS);
        let (mut keys, mut carried) = (Keys::default(), Keys::default());
        loop {
            let granted = self.granted(rows)?;
            if granted == 0 {
                return Ok(ControlFlow::Break(()));
            }
            let known = match &mut repeated {
                Some(repeated) => self.gather_unseen(&mut matches, granted, &mut keys, &mut repeated.seen)?,
                None => {
                    self.gather(&mut matches, granted, &mut keys, &mut carried)?;
                    keys.len()
                }
            };
            let is_last = keys.len() < granted;
            let order = self.order_of_cut(&keys)?;
            let slices = order.as_ref().map_or_else(|| keys.slices(), |order| keys.slices_in(order));
            for (batch, slices) in slices.chunks(BATCH_ROWS).enumerate() {
                for (place, bytes) in records(self.source, slices)?.iter().enumerate() {
                    let record = Record::open(self.source.table, present(bytes)?)?;
                    let position = batch * BATCH_ROWS + place;
                    let counts = match &repeated {
                        Some(repeated) if position >= known => repeated.begins_at(keys.before_id(position), &record)?,
                        _ => true,
                    };
                    if counts && self.accepts(asked, &record)? && list.take(record)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            if is_last {
                return Ok(ControlFlow::Continue(()));
            }
            rows = if takes_all { list.left.saturating_add(list.offset) } else { rows * 4 }.min(BATCH_ROWS);
        }
    }

    /// Adds the next key; false at the end.
    fn append(&self, matches: &mut Matches<'_>, keys: &mut Keys) -> Result<bool> {
        self.source.budget.spend(1)?;
        matches.append(keys)
    }

    /// The next keys. A batch does not end among texts that were cut to the same beginning, if their order matters: what follows
    /// them is carried to the next batch.
    fn gather(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, carried: &mut Keys) -> Result<()> {
        keys.clear();
        std::mem::swap(keys, carried);
        while keys.len() < rows && self.append(matches, keys)? {}
        while self.plan.by_values_of.is_some() && !keys.is_empty() {
            let last = keys.len() - 1;
            if !key::is_cut(keys.before_id(last)) || !self.append(matches, keys)? {
                break;
            }
            if keys.before_id(last) != keys.before_id(last + 1) {
                keys.move_last(carried);
                break;
            }
            if keys.bytes() > GATHERED_BYTES {
                return Err(self.query.surplus("sort", too_many_alike()));
            }
        }
        Ok(())
    }

    /// The next keys of records that were not met before; how many of them are known to be such.
    fn gather_unseen(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, seen: &mut Seen) -> Result<usize> {
        keys.clear();
        let mut known = 0;
        while keys.len() < rows && self.append(matches, keys)? {
            let last = keys.len() - 1;
            match seen.meet(keys.key(last)) {
                Met::First => known = keys.len(),
                Met::Again => keys.pop(),
                Met::Unknown => {}
            }
        }
        Ok(known)
    }

    /// The positions of keys in the order of the list, where that of their entries is not it because the texts were cut.
    fn order_of_cut(&self, keys: &Keys) -> Result<Option<Vec<usize>>> {
        if self.plan.by_values_of.is_none() || !(0..keys.len()).any(|position| key::is_cut(keys.before_id(position))) {
            return Ok(None);
        }
        let (mut positions, slices) = ((0..keys.len()).collect::<Vec<_>>(), keys.slices());
        let mut left = SORTED_BYTES;
        for run in positions.chunk_by_mut(|one, other| keys.before_id(*one) == keys.before_id(*other)) {
            if run.len() == 1 || !key::is_cut(keys.before_id(run[0])) {
                continue;
            }
            let (begin, mut places) = (run[0], Vec::with_capacity(run.len()));
            for slices in slices[begin..begin + run.len()].chunks(BATCH_ROWS) {
                for bytes in records(self.source, slices)? {
                    let record = Record::open(self.source.table, present(&bytes)?)?;
                    self.source.budget.ask(record.bytes().len(), 1)?;
                    let mut own = Vec::new();
                    place(&self.query.sort, &record, &mut own)?;
                    left = left.checked_sub(own.len()).ok_or_else(|| self.query.too_long_to_sort())?;
                    places.push((own, begin + places.len()));
                }
            }
            places.sort_unstable();
            run.iter_mut().zip(places).for_each(|(slot, (_, position))| *slot = position);
        }
        Ok(Some(positions))
    }
}

/// Why entries that were cut to one beginning cannot be put in order: there are too many.
fn too_many_alike() -> String {
    format!(
        "sort: the texts of more than {} MiB of entries have their first {} bytes in common: ask for fewer, or sort by another attribute",
        GATHERED_BYTES >> 20,
        key::INDEXED_BYTES
    )
}

/// Stretches of an index that may have several entries for a record.
struct Repeated<'w> {
    index: &'w Index,
    ranges: &'w [KeyRange],
    seen: Seen,
}

impl Repeated<'_> {
    /// Whether an entry, of which this stands before the id, is the first of its record.
    fn begins_at(&self, before_id: &[u8], record: &Record<'_, &[u8]>) -> Result<bool> {
        indexes::is_first(self.index, self.ranges, before_id, record)
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
