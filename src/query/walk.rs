//! Execution of the steps of a plan: scans entries, reads and filters their records, and adds the accepted ones to a list.
//!
//! Keys are collected from entries, and their records are read by one multi-get, which requires ascending keys. A batch is as long as the
//! rest of the list, and grows up to [`BATCH_ROWS`] if records are rejected, so memory does not grow with the list. Records skipped by an
//! offset are not read if there is no residual filter. On a worker thread, all of this is counted (`budget`).

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::cursor::Cursor;
use super::filter::CompiledFilter;
use super::plan::{Access, Plan, Rival, signature};
use super::related;
use super::seen::{SEEN_BYTES, Seen, Sighting};
use super::sort::{SORTED_BYTES, sort_key};
use super::source::{Source, id_of_owner, present, records};
use super::tree::{Order, Query};
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::indexes::{self, Direction, KeyRange, Keys, Matches};
use crate::schema::{Index, IndexKind, Table};
use crate::storage::Space;

/// The number of records read, and held in memory, at once: four of the batches into which the engine divides them.
pub(super) const BATCH_ROWS: usize = 128;

/// The maximum memory, in bytes, for entries that have to be sorted by their records: those of texts that the index truncates to the same
/// prefix.
pub const GATHERED_BYTES: usize = 16 << 20;

type Flow = Result<ControlFlow<()>>;

impl Query<'_> {
    /// Returns the sort key of the record after which a sorted list continues.
    pub(super) fn sort_key_after(&self) -> Option<&[u8]> {
        self.after.as_ref().map(|cursor| cursor.sort_key.as_slice()).filter(|_| !self.sort.is_empty())
    }

    /// Returns the error of a list whose sort keys do not fit in memory.
    pub(super) fn too_long_to_sort(&self) -> Error {
        let detail = format!(
            "sort: the sort keys need more than {} MiB of memory: ask for fewer records, offset and limit together, or sort by \
             something shorter",
            SORTED_BYTES >> 20
        );
        self.clause_error("sort", detail)
    }
}

/// The sink of accepted records, which applies offset and limit.
pub(super) struct List<'l, V> {
    order: &'l [Order],
    /// The sort key of the last record of the previous page, until a record beyond it is found.
    pub(super) after: Option<&'l [u8]>,
    pub(super) offset: usize,
    pub(super) left: usize,
    pub(super) visit: V,
    /// The position at which it was truncated.
    pub(super) end: Option<End>,
}

/// The position at which a list was truncated.
pub(super) struct End {
    pub(super) step: usize,
    pub(super) key: Vec<u8>,
    pub(super) sort_key: Vec<u8>,
}

impl End {
    /// Returns the position of a record that was found by a key in a step.
    pub(super) fn at(step: usize, key: Vec<u8>, order: &[Order], record: &Record<'_, &[u8]>) -> Result<Self> {
        let mut own = Vec::new();
        if !order.is_empty() {
            sort_key(order, record, &mut own)?;
        }
        Ok(Self { step, key, sort_key: own })
    }
}

impl<'l, V: FnMut(Record<'_, &[u8]>) -> Result<()>> List<'l, V> {
    /// Returns the empty list of a query.
    pub(super) fn of(query: &'l Query<'_>, visit: V) -> Self {
        let (after, left) = (query.sort_key_after(), query.limit.unwrap_or(usize::MAX));
        Self { order: &query.sort, after, offset: query.offset, left, visit, end: None }
    }

    /// Adds a record; `at` returns the step and the key that led to it.
    #[inline]
    fn take(&mut self, record: Record<'_, &[u8]>, at: impl FnOnce() -> Result<(usize, Vec<u8>)>) -> Flow {
        if self.after.is_some() && !self.is_beyond(&record)? {
            return Ok(ControlFlow::Continue(()));
        }
        if self.offset > 0 {
            self.offset -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        (self.visit)(record.view())?;
        self.left -= 1;
        if self.left > 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let (step, key) = at()?;
        self.end = Some(End::at(step, key, self.order, &record)?);
        Ok(ControlFlow::Break(()))
    }

    /// Returns whether a record is beyond the previous page; once it is, all later ones are.
    #[cold]
    fn is_beyond(&mut self, record: &Record<'_, &[u8]>) -> Result<bool> {
        let mut own = Vec::new();
        sort_key(self.order, record, &mut own)?;
        self.after = self.after.filter(|after| own.as_slice() <= *after);
        Ok(self.after.is_none())
    }
}

/// The execution of the steps of a plan.
pub(super) struct Walk<'w, 'p> {
    query: &'w Query<'w>,
    source: Source<'w>,
    plan: &'w Plan<'p>,
    pub(super) rival: Option<RefCell<Rival<'w>>>,
    /// The step, and the key in it, after which it starts.
    pub(super) from: Option<(usize, &'w [u8])>,
    /// Whether it has read as many records as the rival leads to.
    pub(super) has_given_up: Cell<bool>,
    pending: RefCell<Pending>,
}

/// Records whose related records are to be tested together.
#[derive(Default)]
struct Pending {
    /// Their bytes, and the keys that led to them.
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// The maximum number of pending records; 0 initially, which stands for the remaining room in the list.
    rows: usize,
}

/// The maximum bytes of records pending a test of their related records.
const PENDING_BYTES: usize = 4 << 20;

/// The residual filter of the records that a step leads to.
struct ResidualFilter<'w, 'e> {
    /// The number of the step.
    number: usize,
    /// The key after which the step starts.
    from: Option<&'e [u8]>,
    /// The conditions that each record still has to satisfy.
    checks: CompiledFilter<'w>,
    /// The alternatives of the earlier steps, which have already yielded the records that they accept.
    earlier: &'e [CompiledFilter<'w>],
}

impl ResidualFilter<'_, '_> {
    /// Returns whether the step accepts all its records of a table, so that they can be skipped without being read.
    fn takes_all(&self, table: &Table) -> bool {
        self.checks.is_empty() && self.earlier.is_empty() && !table.expires()
    }

    /// Returns the approximate number of conditions evaluated on a record.
    fn conditions(&self) -> usize {
        self.checks.nodes() + self.earlier.iter().map(CompiledFilter::nodes).sum::<usize>()
    }
}

impl<'w, 'p> Walk<'w, 'p> {
    /// Returns a walk without a rival.
    pub(super) fn new(query: &'w Query<'w>, source: Source<'w>, plan: &'w Plan<'p>) -> Self {
        let is_same = |cursor: &&Cursor| cursor.path == plan.path && cursor.indexes == signature(&plan.steps);
        let cursor = query.after.as_ref().filter(|cursor| plan.ordered && !cursor.key.is_empty()).filter(is_same);
        let from = cursor.map(|cursor| (usize::from(cursor.step), cursor.key.as_slice()));
        Self { query, source, plan, rival: None, from, has_given_up: Cell::new(false), pending: RefCell::default() }
    }

    /// Returns the part of an entry before the id up to the end of a truncated text, if the order depends on such texts.
    fn truncated_prefix<'k>(&self, before_id: &'k [u8]) -> Option<&'k [u8]> {
        let shared = self.plan.shared_before_text?;
        key::end_of_truncated_text(before_id, shared).map(|end| &before_id[..end])
    }

    /// Returns the part of a range after a key, in the direction of the scan; the key has this many values before its id.
    fn behind(&self, key: &[u8], values: usize, range: &KeyRange) -> KeyRange {
        // Texts truncated to the same prefix are not ordered by their entries, so all of them are read again.
        let truncated = key::bytes_before_id(key, values).and_then(|bytes| self.truncated_prefix(&key[..bytes]));
        let (mut lower, mut upper) = (range.lower.clone(), range.upper.clone());
        match self.plan.direction {
            Direction::Forwards => lower = lower.max(truncated.map_or_else(|| [key, &[0]].concat(), <[u8]>::to_vec)),
            Direction::Backwards => {
                let end = truncated.map_or_else(|| key.to_vec(), |prefix| KeyRange::of_prefix(prefix.to_vec()).upper);
                upper = if upper.is_empty() { end } else { upper.min(end) };
            }
        }
        KeyRange { lower, upper }
    }

    /// Returns how many of `wanted` further records may be read; if 0, the walk has to end.
    fn granted(&self, wanted: usize) -> Result<usize> {
        let Some(rival) = &self.rival else { return Ok(wanted) };
        let granted = rival.borrow_mut().grant(wanted)?;
        self.has_given_up.set(granted == 0);
        Ok(granted)
    }

    /// Executes the steps until the list is full or the rival has won.
    pub(super) fn all<V: FnMut(Record<'_, &[u8]>) -> Result<()>>(&self, list: &mut List<'_, V>) -> Result<()> {
        let (filter, table) = (&self.query.filter, self.source.table);
        let but_last = self.plan.steps.split_last().map_or(&[][..], |(_, before)| before).iter();
        let alternatives =
            but_last.filter_map(|step| step.alternative).map(|subtree| filter.checks_below(table, subtree));
        let alternatives = alternatives.collect::<Result<Vec<_>>>()?;
        let begin = self.from.map_or(0, |(step, _)| step);
        for (number, step) in self.plan.steps.iter().enumerate().skip(begin) {
            let checks = CompiledFilter::of(filter, table, &step.checks)?;
            let from = self.from.filter(|(step, _)| *step == number).map(|(_, key)| key);
            let residual = ResidualFilter { number, from, checks, earlier: &alternatives[..number] };
            let flow = match &step.access {
                Access::Ids(ids) => self.ids(&residual, ids, list)?,
                Access::Owners(index, values) => {
                    let owners =
                        indexes::owners(self.source.store, index, values, self.source.snapshot, self.source.tier)?;
                    let mut ids = Vec::with_capacity(owners.len());
                    for owner in owners.iter().flatten() {
                        ids.push(id_of_owner(owner)?);
                    }
                    ids.sort_unstable();
                    ids.dedup();
                    self.ids(&residual, &ids, list)?
                }
                Access::Table(range) => self.table(&residual, range, list)?,
                Access::Entries { index, ranges, repeated } => {
                    // Records seen on earlier pages are not remembered, so the record has to be checked.
                    let remembered = if from.is_some() { 0 } else { SEEN_BYTES };
                    let mut repeated = repeated.then(|| MultiEntry { index, ranges, seen: Seen::within(remembered) });
                    let mut flow = ControlFlow::Continue(());
                    for number in 0..ranges.len() {
                        let range = match self.plan.direction {
                            Direction::Forwards => &ranges[number],
                            Direction::Backwards => &ranges[ranges.len() - 1 - number],
                        };
                        flow = self.entries(&residual, index, std::slice::from_ref(range), repeated.as_mut(), list)?;
                        if flow.is_break() {
                            break;
                        }
                    }
                    flow
                }
                Access::Intersection(index, ranges) => self.entries(&residual, index, ranges, None, list)?,
            };
            if flow.is_break() || self.take_pending(&residual, list)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Adds a record that satisfies all conditions on itself. If there are conditions on its related records, it becomes pending, so that
    /// these are read for many records at once.
    #[inline]
    fn take<V>(
        &self,
        residual: &ResidualFilter<'_, '_>,
        record: Record<'_, &[u8]>,
        key: impl FnOnce() -> Result<Vec<u8>>,
        list: &mut List<'_, V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        if residual.checks.related().is_empty() {
            return list.take(record, || Ok((residual.number, key()?)));
        }
        let mut pending = self.pending.borrow_mut();
        pending.bytes += record.bytes().len();
        pending.records.push((record.bytes().to_vec(), key()?));
        let rows = if pending.rows == 0 { list.left.saturating_add(list.offset) } else { pending.rows };
        let is_full = pending.records.len() >= rows.min(BATCH_ROWS) || pending.bytes >= PENDING_BYTES;
        drop(pending);
        if is_full { self.take_pending(residual, list) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Tests the related records of the pending records, and adds those that satisfy the conditions.
    fn take_pending<V>(&self, residual: &ResidualFilter<'_, '_>, list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let waiting = self.pending.take().records;
        self.pending.borrow_mut().rows = 4 * waiting.len();
        let opened = waiting.iter().map(|(bytes, _)| Record::trusted(self.source.table, &bytes[..]));
        let (mut left, mut keys) =
            (opened.collect::<Result<Vec<_>>>()?, waiting.iter().map(|(_, key)| key).collect::<Vec<_>>());
        for tree in residual.checks.related() {
            let accepted = related::answers(self.source, tree, &left)?;
            let (mut of_records, mut of_keys) = (accepted.iter(), accepted.iter());
            left.retain(|_| of_records.next() == Some(&true));
            keys.retain(|_| of_keys.next() == Some(&true));
        }
        for (record, key) in left.into_iter().zip(keys) {
            if list.take(record, || Ok((residual.number, key.clone())))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns whether the step yields a record: it satisfies the residual filter, and no earlier step has yielded it.
    #[inline]
    fn accepts(&self, residual: &ResidualFilter<'_, '_>, record: &Record<'_, &[u8]>) -> Result<bool> {
        self.source.budget.spend_record(record.bytes().len(), residual.conditions())?;
        if record.has_expired(self.source.now)? || !residual.checks.accept(record)? {
            return Ok(false);
        }
        for alternative in residual.earlier {
            if alternative.accept(record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn table<V>(&self, residual: &ResidualFilter<'_, '_>, range: &KeyRange, list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Source { table, budget, .. } = self.source;
        let behind = residual.from.map(|key| self.behind(key, 0, range));
        let mut scan = self.source.scan(Space::Records, behind.as_ref().unwrap_or(range), self.plan.direction)?;
        let takes_all = residual.takes_all(table);
        while let Some((key, bytes)) = scan.next()? {
            if self.granted(1)? == 0 {
                return Ok(ControlFlow::Break(()));
            }
            if takes_all && list.offset > 0 {
                budget.spend(1)?;
                list.offset -= 1;
                continue;
            }
            let record = Record::open(table, bytes)?;
            let record = record.view();
            if self.accepts(residual, &record)? && self.take(residual, record, || Ok(key.to_vec()), list)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn ids<V>(&self, residual: &ResidualFilter<'_, '_>, ids: &[&str], list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let (table, direction) = (self.source.table, self.plan.direction);
        let is_behind = |id: &&&str| {
            residual.from.is_none_or(|from| match direction {
                Direction::Forwards => id.as_bytes() > from,
                Direction::Backwards => id.as_bytes() < from,
            })
        };
        let ids: Vec<&str> = ids.iter().filter(is_behind).copied().collect();
        for batch in batches(&ids, direction) {
            self.source.budget.spend(batch.len())?;
            let mut keys = Keys::default();
            for id in batch {
                keys.push(table.id, b"", id.as_bytes());
            }
            // Some of the requested ids may not exist.
            for bytes in records(self.source, &keys.slices())?.iter().flatten() {
                let record = Record::open(table, bytes.as_ref())?;
                let record = record.view();
                let key = || record.id().map(|id| id.as_bytes().to_vec());
                if self.accepts(residual, &record)? && self.take(residual, record, key, list)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the records with an entry in each of some ranges of an index. `repeated`: the index may have several entries for a record,
    /// which counts once.
    fn entries<V>(
        &self,
        residual: &ResidualFilter<'_, '_>,
        index: &Index,
        ranges: &[KeyRange],
        mut repeated: Option<&mut MultiEntry<'_>>,
        list: &mut List<'_, V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let takes_all = residual.takes_all(self.source.table) && repeated.is_none();
        let is_exact = takes_all && self.plan.shared_before_text.is_none();
        let expected = is_exact.then(|| list.left.saturating_add(list.offset));
        let Some(mut matches) = self.matches(residual, index, ranges, expected)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if repeated.is_some() || self.plan.shared_before_text.is_some() || index.kind == IndexKind::Composite {
            matches = matches.keeping_values();
        }
        let passes_over = is_exact && matches.seeks() == 0;
        while passes_over && list.offset > 0 && matches.pass()? {
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
            let order = self.order_of_truncated(&keys)?;
            let slices = order.as_ref().map_or_else(|| keys.slices(), |order| keys.slices_in(order));
            for (batch, slices) in slices.chunks(BATCH_ROWS).enumerate() {
                for (number, bytes) in records(self.source, slices)?.iter().enumerate() {
                    let record = Record::open(self.source.table, present(bytes)?)?;
                    let record = record.view();
                    let position = batch * BATCH_ROWS + number;
                    let counts = match &repeated {
                        Some(repeated) if position >= known => repeated.begins_at(keys.before_id(position), &record)?,
                        _ => true,
                    };
                    let key = || entry_of(index, &ranges[0], keys.before_id(position), &record);
                    if counts
                        && self.accepts(residual, &record)?
                        && self.take(residual, record.view(), key, list)?.is_break()
                    {
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

    /// Returns the scan of the unread part of some ranges of an index; `None` if it is empty. `expected`: how many entries of a single range will
    /// be read, where that is known.
    fn matches<'m>(
        &'m self,
        residual: &ResidualFilter<'_, '_>,
        index: &'m Index,
        ranges: &'m [KeyRange],
        expected: Option<usize>,
    ) -> Result<Option<Matches<'m>>> {
        let Source { table, .. } = self.source;
        let scan = |range: &KeyRange| self.source.scan(Space::Indexes, range, self.plan.direction);
        if let [range] = ranges {
            let behind = residual.from.map(|key| self.behind(key, index.values(), range));
            let range = behind.as_ref().unwrap_or(range);
            if range.is_empty() {
                return Ok(None);
            }
            let mut scan = scan(range)?;
            if let Some(entries) = expected {
                scan.expect_entries(entries);
            }
            return Ok(Some(Matches::of(scan, table, index, range)));
        }
        let id = residual.from.and_then(|key| key.strip_prefix(&ranges[0].lower[..]));
        let mut scans = Vec::with_capacity(ranges.len());
        for range in ranges {
            let behind = id.map(|id| self.behind(&[&range.lower, id].concat(), index.values(), range));
            scans.push((scan(behind.as_ref().unwrap_or(range))?, range));
        }
        Ok(Matches::common(table, index, scans))
    }

    /// Advances by one entry and adds the key that it leads to; returns false at the end.
    fn append(&self, matches: &mut Matches<'_>, keys: &mut Keys) -> Result<bool> {
        self.source.budget.spend(1)?;
        (0..matches.seeks()).try_for_each(|_| self.source.budget.seek())?;
        matches.append(keys)
    }

    /// Collects the next keys. If the order of texts truncated to the same prefix matters, a batch does not end among them: the entry that
    /// follows them is carried over to the next batch.
    fn gather(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, carried: &mut Keys) -> Result<()> {
        keys.clear();
        std::mem::swap(keys, carried);
        while keys.len() < rows && self.append(matches, keys)? {}
        while self.plan.shared_before_text.is_some() && !keys.is_empty() {
            let last = keys.len() - 1;
            if self.truncated_prefix(keys.before_id(last)).is_none() || !self.append(matches, keys)? {
                break;
            }
            if self.truncated_prefix(keys.before_id(last)) != self.truncated_prefix(keys.before_id(last + 1)) {
                keys.move_last(carried);
                break;
            }
            if keys.bytes() > GATHERED_BYTES {
                return Err(self.query.clause_error("sort", too_many_alike()));
            }
        }
        Ok(())
    }

    /// Collects the next keys of records not seen before; returns how many of them are certain to be new.
    fn gather_unseen(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, seen: &mut Seen) -> Result<usize> {
        keys.clear();
        let mut known = 0;
        while keys.len() < rows && self.append(matches, keys)? {
            let last = keys.len() - 1;
            match seen.meet(keys.key(last)) {
                Sighting::First => known = keys.len(),
                Sighting::Again => keys.pop(),
                Sighting::Unknown => {}
            }
        }
        Ok(known)
    }

    /// Returns the positions of keys in list order, if it differs from the order of their entries because texts were truncated.
    fn order_of_truncated(&self, keys: &Keys) -> Result<Option<Vec<usize>>> {
        let truncated = |position: &usize| self.truncated_prefix(keys.before_id(*position));
        if self.plan.shared_before_text.is_none() || !(0..keys.len()).any(|position| truncated(&position).is_some()) {
            return Ok(None);
        }
        let (mut positions, slices) = ((0..keys.len()).collect::<Vec<_>>(), keys.slices());
        let mut left = SORTED_BYTES;
        for run in positions.chunk_by_mut(|one, other| truncated(one) == truncated(other)) {
            if run.len() == 1 || truncated(&run[0]).is_none() {
                continue;
            }
            let (begin, mut sort_keys) = (run[0], Vec::with_capacity(run.len()));
            for slices in slices[begin..begin + run.len()].chunks(BATCH_ROWS) {
                for bytes in records(self.source, slices)? {
                    let record = Record::open(self.source.table, present(&bytes)?)?;
                    self.source.budget.spend_record(record.bytes().len(), 1)?;
                    let mut own = Vec::new();
                    sort_key(&self.query.sort, &record, &mut own)?;
                    left = left.checked_sub(own.len()).ok_or_else(|| self.query.too_long_to_sort())?;
                    sort_keys.push((own, begin + sort_keys.len()));
                }
            }
            sort_keys.sort_unstable();
            run.iter_mut().zip(sort_keys).for_each(|(slot, (_, position))| *slot = position);
        }
        Ok(Some(positions))
    }
}

/// Returns the index entry within a range that led to a record; `before_id` is the part before the id, if it was kept.
fn entry_of(index: &Index, range: &KeyRange, before_id: &[u8], record: &Record<'_, &[u8]>) -> Result<Vec<u8>> {
    let (id, mut entry) = (record.id()?, Vec::new());
    match before_id {
        // The entry of one element, or of one term.
        b"" if index.kind == IndexKind::FullText || record.table().attributes[index.attribute].list => {
            entry.extend_from_slice(&range.lower);
        }
        b"" => {
            let value = record.value(index.attribute)?;
            match index.kind {
                IndexKind::Hash => key::hash_prefix(index.id, &value, &mut entry),
                _ => key::ordered_prefix(index.id, &value, &mut entry),
            }
        }
        before_id => entry.extend_from_slice(before_id),
    }
    entry.extend_from_slice(id.as_bytes());
    Ok(entry)
}

/// Returns the message for too many entries truncated to the same prefix.
fn too_many_alike() -> String {
    format!(
        "sort: more than {} MiB of index entries share the same first {} bytes: ask for fewer, or sort by another attribute",
        GATHERED_BYTES >> 20,
        key::INDEXED_BYTES
    )
}

/// Ranges of an index that may have several entries for a record.
struct MultiEntry<'w> {
    index: &'w Index,
    ranges: &'w [KeyRange],
    seen: Seen,
}

impl MultiEntry<'_> {
    /// Returns whether the entry with this part before the id is the first of its record.
    fn begins_at(&self, before_id: &[u8], record: &Record<'_, &[u8]>) -> Result<bool> {
        indexes::is_first(self.index, self.ranges, before_id, record)
    }
}

/// Returns the ids in batches, in this direction.
fn batches<'i>(ids: &'i [&'i str], direction: Direction) -> Vec<Vec<&'i str>> {
    let mut ids = ids.to_vec();
    if direction == Direction::Backwards {
        ids.reverse();
    }
    ids.chunks(BATCH_ROWS).map(<[&str]>::to_vec).collect()
}
