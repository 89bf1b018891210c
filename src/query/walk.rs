//! The steps of a plan, carried out: entries are walked, their records read and asked, and those that satisfy everything go to a list.
//!
//! Keys are gathered from entries and their records are read by one multi-get, which wants them ascending. A batch is as long as
//! the list still is, and grows where records are turned down, up to [`BATCH_ROWS`]; so memory does not grow with the list. What an
//! offset passes over is not read, if nothing has to be asked of it. Where others wait, all of this is counted (`budget`).

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::cursor::Cursor;
use super::filter::CompiledFilter;
use super::plan::{Access, Plan, Rival, Source, signature};
use super::related;
use super::seen::{Met, SEEN_BYTES, Seen};
use super::sort::{SORTED_BYTES, place};
use super::tree::{Order, Query};
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::indexes::{self, Direction, KeyRange, Keys, Matches};
use crate::schema::{Index, IndexKind, Table};
use crate::storage::{Pinned, Space};

/// How many records are read at once, and in memory at once: four of the batches into which the engine divides them.
pub(super) const BATCH_ROWS: usize = 128;

/// How many bytes of memory entries may take that have to be put in order by their records: those of texts that an index has cut to
/// one beginning.
pub const GATHERED_BYTES: usize = 16 << 20;

type Flow = Result<ControlFlow<()>>;

impl Query<'_> {
    /// The place of the record after which a sorted list goes on.
    pub(super) fn place_after(&self) -> Option<&[u8]> {
        self.after.as_ref().map(|cursor| cursor.place.as_slice()).filter(|_| !self.sort.is_empty())
    }

    /// The error of a list whose sort keys do not fit in memory.
    pub(super) fn too_long_to_sort(&self) -> Error {
        let detail = format!(
            "sort: what is sorted by takes more than {} MiB of memory: ask for fewer records, offset and limit together, or sort by \
             something shorter",
            SORTED_BYTES >> 20
        );
        self.surplus("sort", detail)
    }
}

/// Where accepted records go: past the offset, up to the limit.
pub(super) struct List<'l, V> {
    order: &'l [Order],
    /// The place up to which the list was shown before, until a record beyond it has come.
    pub(super) after: Option<&'l [u8]>,
    pub(super) offset: usize,
    pub(super) left: usize,
    pub(super) visit: V,
    /// Where it was cut.
    pub(super) end: Option<End>,
}

/// Where a list was cut.
pub(super) struct End {
    pub(super) step: usize,
    pub(super) key: Vec<u8>,
    pub(super) place: Vec<u8>,
}

impl End {
    /// At a record, to which a key led at a step.
    pub(super) fn at(step: usize, key: Vec<u8>, order: &[Order], record: &Record<'_, &[u8]>) -> Result<Self> {
        let mut own = Vec::new();
        if !order.is_empty() {
            place(order, record, &mut own)?;
        }
        Ok(Self { step, key, place: own })
    }
}

impl<'l, V: FnMut(Record<'_, &[u8]>) -> Result<()>> List<'l, V> {
    /// Of a query, empty.
    pub(super) fn of(query: &'l Query<'_>, visit: V) -> Self {
        let (after, left) = (query.place_after(), query.limit.unwrap_or(usize::MAX));
        Self { order: &query.sort, after, offset: query.offset, left, visit, end: None }
    }

    /// Takes a record, to which the key that `at` makes led at a step.
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

    /// Whether a record was not shown before; then none that follows was.
    #[cold]
    fn is_beyond(&mut self, record: &Record<'_, &[u8]>) -> Result<bool> {
        let mut own = Vec::new();
        place(self.order, record, &mut own)?;
        self.after = self.after.filter(|after| own.as_slice() <= *after);
        Ok(self.after.is_none())
    }
}

/// The steps of a plan, carried out.
pub(super) struct Walk<'w, 'p> {
    query: &'w Query<'w>,
    source: Source<'w>,
    plan: &'w Plan<'p>,
    pub(super) rival: Option<RefCell<Rival<'w>>>,
    /// The step and the key behind which it begins.
    pub(super) from: Option<(usize, &'w [u8])>,
    /// Whether it has read as many records as the rival leads to.
    pub(super) has_given_up: Cell<bool>,
    pending: RefCell<Pending>,
}

/// Records that wait to be asked of their related ones, together.
#[derive(Default)]
struct Pending {
    /// Their bytes, and the keys that led to them.
    records: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// How many may wait; at first, when this is 0, as many as the list has room for.
    rows: usize,
}

/// How many bytes of records may wait to be asked of their related ones.
const PENDING_BYTES: usize = 4 << 20;

/// The residual filter of the records that a step leads to.
struct Asked<'w, 'e> {
    /// Which step it is.
    number: usize,
    /// The key behind which the step begins.
    from: Option<&'e [u8]>,
    /// What each has still to satisfy.
    checks: CompiledFilter<'w>,
    /// The alternatives of the steps before: what they accept was yielded there.
    earlier: &'e [CompiledFilter<'w>],
}

impl Asked<'_, '_> {
    /// Whether everything that the step leads to in a table is in the list, so that it can be passed over unread.
    fn takes_all(&self, table: &Table) -> bool {
        self.checks.is_empty() && self.earlier.is_empty() && !table.expires()
    }

    /// How many conditions a record is compared with, about.
    fn conditions(&self) -> usize {
        self.checks.nodes() + self.earlier.iter().map(CompiledFilter::nodes).sum::<usize>()
    }
}

impl<'w, 'p> Walk<'w, 'p> {
    /// One that has no rival.
    pub(super) fn new(query: &'w Query<'w>, source: Source<'w>, plan: &'w Plan<'p>) -> Self {
        let is_same = |cursor: &&Cursor| cursor.path == plan.path && cursor.indexes == signature(&plan.steps);
        let cursor = query.after.as_ref().filter(|cursor| plan.ordered && !cursor.key.is_empty()).filter(is_same);
        let from = cursor.map(|cursor| (usize::from(cursor.step), cursor.key.as_slice()));
        Self { query, source, plan, rival: None, from, has_given_up: Cell::new(false), pending: RefCell::default() }
    }

    /// What of what stands before the id of an entry goes up to the end of a text that was cut, if the order is that of such texts.
    fn cut<'k>(&self, before_id: &'k [u8]) -> Option<&'k [u8]> {
        let shared = self.plan.texts_behind?;
        key::end_of_cut(before_id, shared).map(|end| &before_id[..end])
    }

    /// What of a range, in the direction of the walk, lies behind a key in it, which has so many values before its id.
    fn behind(&self, key: &[u8], values: usize, range: &KeyRange) -> KeyRange {
        // Texts that were cut to one beginning have another order than their entries: all of them are read again.
        let cut = key::bytes_before_id(key, values).and_then(|bytes| self.cut(&key[..bytes]));
        let (mut lower, mut upper) = (range.lower.clone(), range.upper.clone());
        match self.plan.direction {
            Direction::Forwards => lower = lower.max(cut.map_or_else(|| [key, &[0]].concat(), <[u8]>::to_vec)),
            Direction::Backwards => {
                let end = cut.map_or_else(|| key.to_vec(), |cut| KeyRange::of_prefix(cut.to_vec()).upper);
                upper = if upper.is_empty() { end } else { upper.min(end) };
            }
        }
        KeyRange { lower, upper }
    }

    /// How many of so many records may be read next; if none, the walk is to end.
    fn granted(&self, wanted: usize) -> Result<usize> {
        let Some(rival) = &self.rival else { return Ok(wanted) };
        let granted = rival.borrow_mut().grant(wanted)?;
        self.has_given_up.set(granted == 0);
        Ok(granted)
    }

    /// Carries them out until the list is full, or the rival has won.
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
            let asked = Asked { number, from, checks, earlier: &alternatives[..number] };
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
                    // What was met before the list was cut is not remembered: then the record decides.
                    let remembered = if from.is_some() { 0 } else { SEEN_BYTES };
                    let mut repeated = repeated.then(|| Repeated { index, ranges, seen: Seen::within(remembered) });
                    let mut flow = ControlFlow::Continue(());
                    for place in 0..ranges.len() {
                        let range = match self.plan.direction {
                            Direction::Forwards => &ranges[place],
                            Direction::Backwards => &ranges[ranges.len() - 1 - place],
                        };
                        flow = self.entries(&asked, index, std::slice::from_ref(range), repeated.as_mut(), list)?;
                        if flow.is_break() {
                            break;
                        }
                    }
                    flow
                }
                Access::Common(index, ranges) => self.entries(&asked, index, ranges, None, list)?,
            };
            if flow.is_break() || self.take_pending(&asked, list)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Takes a record that satisfies all conditions on itself. If there are conditions on its related records, it waits, and these are
    /// looked up for many at once.
    #[inline]
    fn take<V>(
        &self,
        asked: &Asked<'_, '_>,
        record: Record<'_, &[u8]>,
        key: impl FnOnce() -> Result<Vec<u8>>,
        list: &mut List<'_, V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        if asked.checks.related().is_empty() {
            return list.take(record, || Ok((asked.number, key()?)));
        }
        let mut pending = self.pending.borrow_mut();
        pending.bytes += record.bytes().len();
        pending.records.push((record.bytes().to_vec(), key()?));
        let rows = if pending.rows == 0 { list.left.saturating_add(list.offset) } else { pending.rows };
        let is_full = pending.records.len() >= rows.min(BATCH_ROWS) || pending.bytes >= PENDING_BYTES;
        drop(pending);
        if is_full { self.take_pending(asked, list) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Asks of the related records of those that wait, and takes the records that satisfy it.
    fn take_pending<V>(&self, asked: &Asked<'_, '_>, list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let waiting = self.pending.take().records;
        self.pending.borrow_mut().rows = 4 * waiting.len();
        let opened = waiting.iter().map(|(bytes, _)| Record::trusted(self.source.table, &bytes[..]));
        let (mut left, mut keys) =
            (opened.collect::<Result<Vec<_>>>()?, waiting.iter().map(|(_, key)| key).collect::<Vec<_>>());
        for tree in asked.checks.related() {
            let accepted = related::answers(self.source, tree, &left)?;
            let (mut of_records, mut of_keys) = (accepted.iter(), accepted.iter());
            left.retain(|_| of_records.next() == Some(&true));
            keys.retain(|_| of_keys.next() == Some(&true));
        }
        for (record, key) in left.into_iter().zip(keys) {
            if list.take(record, || Ok((asked.number, key.clone())))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the step provides a record: what it has still to satisfy, and no earlier step has yielded it.
    #[inline]
    fn accepts(&self, asked: &Asked<'_, '_>, record: &Record<'_, &[u8]>) -> Result<bool> {
        self.source.budget.ask(record.bytes().len(), asked.conditions())?;
        if record.has_expired(self.source.now)? || !asked.checks.accept(record)? {
            return Ok(false);
        }
        for alternative in asked.earlier {
            if alternative.accept(record)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn table<V>(&self, asked: &Asked<'_, '_>, range: &KeyRange, list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Source { table, budget, .. } = self.source;
        let behind = asked.from.map(|key| self.behind(key, 0, range));
        let mut scan = self.source.scan(Space::Records, behind.as_ref().unwrap_or(range), self.plan.direction)?;
        let takes_all = asked.takes_all(table);
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
            if self.accepts(asked, &record)? && self.take(asked, record, || Ok(key.to_vec()), list)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn ids<V>(&self, asked: &Asked<'_, '_>, ids: &[&str], list: &mut List<'_, V>) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let (table, direction) = (self.source.table, self.plan.direction);
        let is_behind = |id: &&&str| {
            asked.from.is_none_or(|from| match direction {
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
            // Not every id that is asked for exists.
            for bytes in records(self.source, &keys.slices())?.iter().flatten() {
                let record = Record::open(table, bytes.as_ref())?;
                let record = record.view();
                let key = || record.id().map(|id| id.as_bytes().to_vec());
                if self.accepts(asked, &record)? && self.take(asked, record, key, list)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The records that have an entry in each of some ranges of an index. `repeated`: of an index that may have several entries for a
    /// record, which counts once.
    fn entries<V>(
        &self,
        asked: &Asked<'_, '_>,
        index: &Index,
        ranges: &[KeyRange],
        mut repeated: Option<&mut Repeated<'_>>,
        list: &mut List<'_, V>,
    ) -> Flow
    where
        V: FnMut(Record<'_, &[u8]>) -> Result<()>,
    {
        let Some(mut matches) = self.matches(asked, index, ranges)? else { return Ok(ControlFlow::Continue(())) };
        if repeated.is_some() || self.plan.texts_behind.is_some() || index.kind == IndexKind::Composite {
            matches = matches.keeping_values();
        }
        let takes_all = asked.takes_all(self.source.table) && repeated.is_none();
        let passes_over = takes_all && self.plan.texts_behind.is_none() && matches.seeks() == 0;
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
            let order = self.order_of_cut(&keys)?;
            let slices = order.as_ref().map_or_else(|| keys.slices(), |order| keys.slices_in(order));
            for (batch, slices) in slices.chunks(BATCH_ROWS).enumerate() {
                for (place, bytes) in records(self.source, slices)?.iter().enumerate() {
                    let record = Record::open(self.source.table, present(bytes)?)?;
                    let record = record.view();
                    let position = batch * BATCH_ROWS + place;
                    let counts = match &repeated {
                        Some(repeated) if position >= known => repeated.begins_at(keys.before_id(position), &record)?,
                        _ => true,
                    };
                    let key = || entry_of(index, &ranges[0], keys.before_id(position), &record);
                    if counts && self.accepts(asked, &record)? && self.take(asked, record.view(), key, list)?.is_break()
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

    /// The walk through what is still to be read of some ranges of an index; `None` if that is nothing.
    fn matches<'m>(
        &'m self,
        asked: &Asked<'_, '_>,
        index: &'m Index,
        ranges: &'m [KeyRange],
    ) -> Result<Option<Matches<'m>>> {
        let Source { table, .. } = self.source;
        let scan = |range: &KeyRange| self.source.scan(Space::Indexes, range, self.plan.direction);
        if let [range] = ranges {
            let behind = asked.from.map(|key| self.behind(key, index.values(), range));
            let range = behind.as_ref().unwrap_or(range);
            let matches = || Ok(Matches::of(scan(range)?, table, index, range));
            return (!range.is_empty()).then(matches).transpose();
        }
        let id = asked.from.and_then(|key| key.strip_prefix(&ranges[0].lower[..]));
        let mut scans = Vec::with_capacity(ranges.len());
        for range in ranges {
            let behind = id.map(|id| self.behind(&[&range.lower, id].concat(), index.values(), range));
            scans.push((scan(behind.as_ref().unwrap_or(range))?, range));
        }
        Ok(Matches::common(table, index, scans))
    }

    /// Goes on by an entry, and adds the key that it leads to; false at the end.
    fn append(&self, matches: &mut Matches<'_>, keys: &mut Keys) -> Result<bool> {
        self.source.budget.spend(1)?;
        (0..matches.seeks()).try_for_each(|_| self.source.budget.seek())?;
        matches.append(keys)
    }

    /// The next keys. A batch does not end among texts that were cut to the same beginning, if their order matters: what follows
    /// them is carried to the next batch.
    fn gather(&self, matches: &mut Matches<'_>, rows: usize, keys: &mut Keys, carried: &mut Keys) -> Result<()> {
        keys.clear();
        std::mem::swap(keys, carried);
        while keys.len() < rows && self.append(matches, keys)? {}
        while self.plan.texts_behind.is_some() && !keys.is_empty() {
            let last = keys.len() - 1;
            if self.cut(keys.before_id(last)).is_none() || !self.append(matches, keys)? {
                break;
            }
            if self.cut(keys.before_id(last)) != self.cut(keys.before_id(last + 1)) {
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
        let cut = |position: &usize| self.cut(keys.before_id(*position));
        if self.plan.texts_behind.is_none() || !(0..keys.len()).any(|position| cut(&position).is_some()) {
            return Ok(None);
        }
        let (mut positions, slices) = ((0..keys.len()).collect::<Vec<_>>(), keys.slices());
        let mut left = SORTED_BYTES;
        for run in positions.chunk_by_mut(|one, other| cut(one) == cut(other)) {
            if run.len() == 1 || cut(&run[0]).is_none() {
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

/// The entry of an index that led to a record, within a range; `before_id` is what stands there before the id, if that was kept.
fn entry_of(index: &Index, range: &KeyRange, before_id: &[u8], record: &Record<'_, &[u8]>) -> Result<Vec<u8>> {
    let (id, mut entry) = (record.id()?, Vec::new());
    match before_id {
        // Of one element, or of one term.
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
pub(super) fn records<'s>(source: Source<'s>, keys: &[&[u8]]) -> Result<Vec<Option<Pinned<'s>>>> {
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

pub(super) fn id_of_owner(owner: &[u8]) -> Result<&str> {
    std::str::from_utf8(owner).map_err(|_| Error::corrupt("a unique entry has no id"))
}

pub(super) fn present<'b>(bytes: &'b Option<Pinned<'_>>) -> Result<&'b [u8]> {
    bytes.as_deref().ok_or_else(|| Error::corrupt("an index entry leads to no record"))
}
