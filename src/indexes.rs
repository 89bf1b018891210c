//! Secondary indexes: which entries a record has, keeping them in step, scanning them, building them.
//!
//! One entry for each (value, record), the value in the key and nothing in the value: an insert is one blind put in the
//! record's own batch, and its cost does not grow with the number of records that share the value. An update compares the
//! stored texts of the indexed attributes only, and touches only entries that change.
//!
//! An index that is being built is kept in step from the start: whoever writes a record writes its entries, and [`build`] adds those of
//! the records that are there already, which are locked meanwhile. So the order of the two does not matter.
//!
//! Non-goals: locks and uniqueness across writers (`transaction`), choosing an index for a query (`query`).

mod check;

use std::cell::RefCell;
use std::collections::HashMap;

use smallvec::SmallVec;

use crate::encoding::value::Value;
use crate::encoding::{Record, key, terms};
use crate::error::{Error, Result};
use crate::schema::{Durability, Index, IndexKind, IndexState, Table};
use crate::storage::{Batch, Pinned, Reach, Scan, Snapshot, Space, Store};
pub use check::disagreements;

/// Stages the entries of a new record.
///
/// # Errors
/// `Corrupt` if the record is.
pub fn add<B: AsRef<[u8]>>(store: &Store, batch: &mut Batch, id: &str, after: &Record<'_, B>) -> Result<()> {
    for index in kept(after.table()) {
        each_entry(index, after, id, |key| {
            store.put(batch, Space::Indexes, key, entry_value(index, id));
            Ok(())
        })?;
    }
    Ok(())
}

/// Stages the differences between the entries of two versions of a record.
///
/// # Errors
/// `Corrupt` if either is; `WouldBlock` if a unique index is being built whose entry is not in memory.
pub fn change<B: AsRef<[u8]>, A: AsRef<[u8]>>(
    store: &Store,
    reach: Reach,
    batch: &mut Batch,
    id: &str,
    before: &Record<'_, B>,
    after: &Record<'_, A>,
) -> Result<()> {
    for index in kept(after.table()) {
        if is_unchanged(index, before, after)? {
            continue;
        }
        if is_set(index, after.table()) {
            let (old, new) = (set_of(index, before, id)?, set_of(index, after, id)?);
            for key in old.iter().filter(|key| new.binary_search(key).is_err()) {
                store.delete(batch, Space::Indexes, key);
            }
            for key in new.iter().filter(|key| old.binary_search(key).is_err()) {
                store.put(batch, Space::Indexes, key, entry_value(index, id));
            }
            continue;
        }
        // Where both versions have an entry, its put comes after its delete.
        each_entry(index, before, id, |key| delete_entry(store, reach, batch, index, id, key))?;
        each_entry(index, after, id, |key| {
            store.put(batch, Space::Indexes, key, entry_value(index, id));
            Ok(())
        })?;
    }
    Ok(())
}

/// Stages the removal of all entries of a record.
///
/// # Errors
/// As [`change`].
pub fn remove<B: AsRef<[u8]>>(
    store: &Store,
    reach: Reach,
    batch: &mut Batch,
    id: &str,
    before: &Record<'_, B>,
) -> Result<()> {
    for index in kept(before.table()) {
        each_entry(index, before, id, |key| delete_entry(store, reach, batch, index, id, key))?;
    }
    Ok(())
}

/// The indexes whose entries are kept in step with records.
fn kept(table: &Table) -> impl Iterator<Item = &Index> {
    table.indexes.iter().filter(|index| index.is_kept())
}

/// Whether both versions of a record are known to have the same entries.
fn is_unchanged<B: AsRef<[u8]>, A: AsRef<[u8]>>(
    index: &Index,
    before: &Record<'_, B>,
    after: &Record<'_, A>,
) -> Result<bool> {
    if index.kind == IndexKind::Expiry {
        return Ok(before.expires_at()? == after.expires_at()?);
    }
    if before.json_of(index.attribute)? != after.json_of(index.attribute)? {
        return Ok(false);
    }
    for attribute in &index.following {
        if before.json_of(*attribute)? != after.json_of(*attribute)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stages the removal of an entry. While a unique index is being built, several records may have a value of which one has the entry.
fn delete_entry(store: &Store, reach: Reach, batch: &mut Batch, index: &Index, id: &str, key: &[u8]) -> Result<()> {
    if index.kind == IndexKind::Unique && index.state() == IndexState::Building {
        let owner = store.get(Space::Indexes, key, reach)?;
        if owner.is_none_or(|owner| *owner != *id.as_bytes()) {
            return Ok(());
        }
    }
    store.delete(batch, Space::Indexes, key);
    Ok(())
}

fn entry_value<'a>(index: &Index, id: &'a str) -> &'a [u8] {
    if index.kind == IndexKind::Unique { id.as_bytes() } else { b"" }
}

/// Whether a record may have several entries in an index.
fn is_set(index: &Index, table: &Table) -> bool {
    index.kind == IndexKind::FullText || table.attributes[index.attribute].list
}

thread_local! { static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }

/// Calls `visit` with the key of each entry that a record has in an index: one, or one for each element of a list or each term of a
/// text; none for null in a unique index, and none for a record that does not expire. They ascend, and each is visited once.
fn each_entry<B: AsRef<[u8]>>(
    index: &Index,
    record: &Record<'_, B>,
    id: &str,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match index.kind {
        IndexKind::Expiry => match record.expires_at()? {
            Some(at) => ENTRY.with_borrow_mut(|entry| {
                key::ordered(index.id, &Value::Int(at), id, entry);
                visit(entry)
            }),
            None => Ok(()),
        },
        IndexKind::Composite => {
            let values = index.attributes().map(|attribute| record.value(attribute));
            let values: SmallVec<[Value<'_>; 4]> = values.collect::<Result<_>>()?;
            ENTRY.with_borrow_mut(|entry| {
                key::composite_prefix(index.id, &values, entry);
                entry.extend_from_slice(id.as_bytes());
                visit(entry)
            })
        }
        _ => match record.value(index.attribute)? {
            Value::Null if matches!(index.kind, IndexKind::Unique | IndexKind::FullText) => Ok(()),
            text if index.kind == IndexKind::FullText => {
                entries_of(index, &terms_of(&text), id).iter().try_for_each(|entry| visit(entry))
            }
            Value::List(elements) => entries_of(index, &elements, id).iter().try_for_each(|entry| visit(entry)),
            scalar => ENTRY.with_borrow_mut(|entry| {
                write_entry(index, &scalar, id, entry);
                visit(entry)
            }),
        },
    }
}

/// The keys of all entries that a record has in an index, ascending.
fn set_of<B: AsRef<[u8]>>(index: &Index, record: &Record<'_, B>, id: &str) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    each_entry(index, record, id, |key| {
        all.push(key.to_vec());
        Ok(())
    })?;
    Ok(all)
}

/// The terms of a text, or of the texts of a list, each once.
fn terms_of<'v>(value: &'v Value<'_>) -> Vec<Value<'v>> {
    let texts = match value {
        Value::List(elements) => &elements[..],
        other => std::slice::from_ref(other),
    };
    let texts = texts.iter().filter_map(|text| if let Value::Text(text) = text { Some(text) } else { None });
    let mut all: Vec<_> = texts.flat_map(|text| terms(text)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(Value::Text).collect()
}

/// The keys of the entries of several values, ascending, each once.
fn entries_of(index: &Index, values: &[Value<'_>], id: &str) -> Vec<Vec<u8>> {
    let entry = |value| {
        let mut entry = Vec::new();
        write_entry(index, value, id, &mut entry);
        entry
    };
    let mut entries: Vec<Vec<u8>> = values.iter().map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Writes the key of the entry of one value.
fn write_entry(index: &Index, value: &Value<'_>, id: &str, entry: &mut Vec<u8>) {
    match index.kind {
        IndexKind::Unique => key::unique(index.id, value, entry),
        IndexKind::Hash => key::hash(index.id, value, id, entry),
        IndexKind::Ordered | IndexKind::FullText => key::ordered(index.id, value, id, entry),
        IndexKind::Composite | IndexKind::Expiry => unreachable!("its entries are of more than one value, or of none"),
    }
}

/// Which way entries are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Ascending: least value first, null last, ids of one value ascending.
    #[default]
    Forwards,
    /// The exact opposite.
    Backwards,
}

/// A stretch of keys: from `lower` up to but not including `upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub lower: Vec<u8>,
    /// What follows the last key; empty if nothing does.
    pub upper: Vec<u8>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        let mut upper = Vec::new();
        key::successor(&prefix, &mut upper);
        Self { lower: prefix, upper }
    }

    /// The entries of one value in an ordered or a hash index, or of a term; with them may stand others, see [`is_exact`].
    ///
    /// # Panics
    /// On a unique index, which [`owner`] reads.
    pub fn of_value(index: &Index, value: &Value<'_>) -> Self {
        let mut prefix = Vec::new();
        match index.kind {
            IndexKind::Hash => key::hash_prefix(index.id, value, &mut prefix),
            IndexKind::Unique => unreachable!("one key, not a range"),
            _ => key::ordered_prefix(index.id, value, &mut prefix),
        }
        Self::of_prefix(prefix)
    }

    /// The entries of a composite index whose first values are these; with them may stand others, as in [`KeyRange::of_value`].
    pub fn of_values<'a, 'v: 'a>(index: &Index, values: impl IntoIterator<Item = &'a Value<'v>>) -> Self {
        let mut prefix = Vec::new();
        key::composite_prefix(index.id, values, &mut prefix);
        Self::of_prefix(prefix)
    }

    /// The entries of records that have expired by a moment, in microseconds since 1970.
    pub fn expired(index: &Index, now: i64) -> Self {
        Self { lower: index.id.to_be_bytes().to_vec(), ..Self::of_value(index, &Value::Int(now)) }
    }

    /// What both have.
    pub fn intersect(&mut self, other: Self) {
        if other.lower > self.lower {
            self.lower = other.lower;
        }
        if self.upper.is_empty() || (!other.upper.is_empty() && other.upper < self.upper) {
            self.upper = other.upper;
        }
    }

    /// Whether no key can lie in it.
    pub fn is_empty(&self) -> bool {
        !self.upper.is_empty() && self.lower >= self.upper
    }

    /// Whether all entries in it are known to begin with `lower`, behind which their ids stand.
    fn is_of_one_value(&self, values: usize) -> bool {
        let (Some((last, before)), Some((next, same))) = (self.lower.split_last(), self.upper.split_last()) else {
            return false;
        };
        before == same
            && last.checked_add(1) == Some(*next)
            && key::bytes_before_id(&self.lower, values) == Some(self.lower.len())
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && (self.upper.is_empty() || key < self.upper.as_slice())
    }
}

/// Whether the entries of a value in an index are of that value alone. Those of a hash index, and of a text longer than is
/// indexed, may be of others, too: the record has to be looked at.
pub fn is_exact(index: &Index, value: &Value<'_>) -> bool {
    is_whole(value) && index.kind != IndexKind::Hash
}

/// Whether a value stands whole in the entries of an index that has an order.
pub fn is_whole(value: &Value<'_>) -> bool {
    !matches!(value, Value::Text(text) if text.len() >= key::INDEXED_BYTES)
}

/// Keys, borrowed; a few without an allocation.
pub type Slices<'k> = SmallVec<[&'k [u8]; 8]>;

/// Keys of records in one piece of memory, each with the beginning of the entry that led to it.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Where the beginning of the entry stands, the key after it, and what follows.
    places: Vec<(usize, usize, usize)>,
}

impl Keys {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets them and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// The keys, in the order in which they were found.
    pub fn slices(&self) -> Slices<'_> {
        (0..self.len()).map(|position| self.key(position)).collect()
    }

    /// Those at some positions.
    pub fn slices_in(&self, positions: &[usize]) -> Slices<'_> {
        positions.iter().map(|position| self.key(*position)).collect()
    }

    /// The key at a position.
    pub fn key(&self, position: usize) -> &[u8] {
        let (_, key, end) = self.places[position];
        &self.bytes[key..end]
    }

    /// What stands before the id in the entry that led to a key: index and value. Nothing, if it was not to be kept.
    pub fn before_id(&self, position: usize) -> &[u8] {
        let (entry, key, _) = self.places[position];
        &self.bytes[entry..key]
    }

    /// Forgets the last one.
    pub fn pop(&mut self) {
        if let Some((entry, ..)) = self.places.pop() {
            self.bytes.truncate(entry);
        }
    }

    /// Moves the last one to others.
    pub fn move_last(&mut self, others: &mut Self) {
        if let Some((entry, key, _)) = self.places.pop() {
            let start = others.bytes.len();
            others.bytes.extend_from_slice(&self.bytes[entry..]);
            others.places.push((start, start + key - entry, others.bytes.len()));
            self.bytes.truncate(entry);
        }
    }

    /// Adds the key of a record.
    pub fn push(&mut self, table: u32, before_id: &[u8], id: &[u8]) {
        let entry = self.bytes.len();
        self.bytes.reserve(before_id.len() + size_of::<u32>() + id.len());
        self.bytes.extend_from_slice(before_id);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(&table.to_be_bytes());
        self.bytes.extend_from_slice(id);
        self.places.push((entry, key, self.bytes.len()));
    }
}

/// The entries in a stretch of an index, read as they are asked for; or the records that have an entry in each of several stretches.
pub struct Matches<'s> {
    scan: Scan<'s>,
    /// What the entries begin with in which the same ids have to stand, and what stands before them here.
    others: SmallVec<[(Scan<'s>, Vec<u8>); 0]>,
    beginning: Vec<u8>,
    table: u32,
    /// How many values stand in each.
    values: usize,
    /// How many bytes stand before the id; `None`: that is seen in each entry.
    before_id: Option<usize>,
    /// Whether what stands before the id is kept with each key.
    keep: bool,
}

impl<'s> Matches<'s> {
    /// The entries in a stretch of an index, through which `scan` walks either way.
    pub fn of(scan: Scan<'s>, table: &Table, index: &Index, range: &KeyRange) -> Self {
        #[cfg(feature = "plant")]
        crate::plant::burn("indexes");
        let values = index.values();
        let before_id = match index.kind {
            IndexKind::Hash => Some(key::HASH_PREFIX_BYTES),
            _ => range.is_of_one_value(values).then_some(range.lower.len()),
        };
        let (others, beginning) = (SmallVec::new(), Vec::new());
        Self { scan, others, beginning, table: table.id, values, before_id, keep: false }
    }

    /// The records that have an entry in each of some stretches, each of one value, through which scans walk that go the same way. (The
    /// leapfrog join: Veldhuizen, "Leapfrog Triejoin: a simple, worst-case optimal join algorithm", 2014.)
    pub fn common(
        table: &Table,
        index: &Index,
        stretches: impl IntoIterator<Item = (Scan<'s>, &'s KeyRange)>,
    ) -> Option<Self> {
        let mut stretches = stretches.into_iter();
        let (scan, range) = stretches.next()?;
        let others = stretches.map(|(scan, range)| (scan, range.lower.clone())).collect();
        Some(Self { others, beginning: range.lower.clone(), ..Self::of(scan, table, index, range) })
    }

    /// How many places are looked for with each entry.
    pub fn seeks(&self) -> usize {
        self.others.len()
    }

    /// Keeps with each key what stands before the id in its entry.
    #[must_use]
    pub fn keeping_values(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Passes over one entry; false at the end.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn pass(&mut self) -> Result<bool> {
        Ok(self.scan.next()?.is_some())
    }

    /// Goes on by an entry and adds the key of its record, of several stretches only if all have it; false at the end.
    ///
    /// # Errors
    /// `Corrupt` if an entry is none; what the engine returns.
    pub fn append(&mut self, keys: &mut Keys) -> Result<bool> {
        let Some((entry, _)) = self.scan.next()? else { return Ok(false) };
        if !self.others.is_empty() {
            let id = entry.get(self.beginning.len()..).unwrap_or_default().to_vec();
            return self.append_common(&id, keys);
        }
        let before_id = self.before_id.or_else(|| key::bytes_before_id(entry, self.values));
        let parts = before_id.and_then(|bytes| entry.split_at_checked(bytes));
        let (before_id, id) = parts.ok_or_else(|| Error::corrupt("an index entry has no id"))?;
        keys.push(self.table, if self.keep { before_id } else { b"" }, id);
        Ok(true)
    }

    /// Adds the record with an id, if all other stretches have it; else goes on at the next one that there may be.
    fn append_common(&mut self, id: &[u8], keys: &mut Keys) -> Result<bool> {
        for (scan, beginning) in &mut self.others {
            scan.seek(&[beginning, id].concat());
            let Some((entry, _)) = scan.next()? else { return Ok(false) };
            let found = entry.get(beginning.len()..).unwrap_or_default();
            if found != id {
                self.scan.seek(&[&self.beginning, found].concat());
                return Ok(true);
            }
        }
        keys.push(self.table, b"", id);
        Ok(true)
    }
}

/// Whether an entry is the first of its record that a forward walk through the ranges, which ascend, comes upon. A list has an
/// entry for each element, and its record is to be met once.
///
/// # Errors
/// `Corrupt` if the record is.
pub fn is_first<B: AsRef<[u8]>>(
    index: &Index,
    ranges: &[KeyRange],
    before_id: &[u8],
    record: &Record<'_, B>,
) -> Result<bool> {
    let (id, mut first) = (record.id()?, true);
    each_entry(index, record, &id, |entry| {
        let value = &entry[..entry.len() - id.len()];
        // Only the last range that begins before it can hold it.
        let before = ranges.partition_point(|range| range.lower.as_slice() <= entry);
        first &= value >= before_id || !ranges[..before].last().is_some_and(|range| range.holds(entry));
        Ok(())
    })?;
    Ok(first)
}

/// The id of the record that owns a value of a unique index.
///
/// # Errors
/// What the engine returns.
pub fn owner<'s>(store: &'s Store, index: &Index, value: &Value<'_>, reach: Reach) -> Result<Option<Pinned<'s>>> {
    let mut entry = Vec::new();
    key::unique(index.id, value, &mut entry);
    store.get(Space::Indexes, &entry, reach)
}

/// The owners of several values of a unique index as of one moment, in no order.
///
/// # Errors
/// What the engine returns.
pub fn owners<'s>(
    store: &'s Store,
    index: &Index,
    values: &[&Value<'_>],
    snapshot: &Snapshot<'_>,
    reach: Reach,
) -> Result<Vec<Option<Pinned<'s>>>> {
    let entry = |value: &&Value<'_>| {
        let mut entry = Vec::new();
        key::unique(index.id, value, &mut entry);
        entry
    };
    let mut entries: Vec<Vec<u8>> = values.iter().map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    store.multi_get(Space::Indexes, &entries, snapshot, reach)
}

/// The keys of the first records of a table behind one, or of its first if there is none: at most `most`, and no more once these records
/// have `most_bytes`.
///
/// # Errors
/// What the engine returns.
pub fn keys_after(
    store: &Store,
    table: u32,
    after: Option<&str>,
    most: usize,
    most_bytes: usize,
) -> Result<Vec<Vec<u8>>> {
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    key::successor(&table.to_be_bytes(), &mut upper);
    key::record(table, after.unwrap_or_default(), &mut lower);
    lower.extend(after.map(|_| 0)); // The least key that is greater.
    let (snapshot, mut keys, mut bytes) = (store.snapshot(), Vec::new(), 0);
    let mut records = store.scan(Space::Records, &lower, &upper, &snapshot, Reach::Disk);
    while keys.len() < most
        && bytes < most_bytes
        && let Some((key, record)) = records.next()?
    {
        keys.push(key.to_vec());
        bytes += record.len();
    }
    Ok(keys)
}

/// The ids of two records that share a value.
pub type Sharing = [String; 2];

/// So many bytes of entries are written at once, about.
const BUILT_BYTES: usize = 1 << 20;

/// Writes the entries of some records, whose keys ascend, in an index that is being built. Nobody else may write these records
/// meanwhile; whether they are still there, and have entries already, does not matter. `Some`, if two records share a value of a
/// unique index: then some of the entries may be missing.
///
/// # Errors
/// `Corrupt` if a record is, unless the index is of when records expire; `Busy` if the engine is behind; what the engine returns.
pub fn build(store: &Store, table: &Table, index: &Index, keys: &[Vec<u8>]) -> Result<Option<Sharing>> {
    let ([first, ..], Some(last)) = (keys, keys.last()) else { return Ok(None) };
    let (snapshot, mut batch, mut owners) = (store.snapshot(), Batch::default(), HashMap::new());
    let behind = [last.as_slice(), b"\0"].concat();
    let mut records = store.scan(Space::Records, first, &behind, &snapshot, Reach::Disk);
    let mut sharing = None;
    while let Some((key, bytes)) = records.next()? {
        // A record that was created between them since has entries of its own, and is not locked.
        if keys.binary_search_by(|held| held.as_slice().cmp(key)).is_err() {
            continue;
        }
        let record = match Record::open(table, bytes) {
            // Without its deadline there is no entry to write. No query reads this index, so none misses the entry.
            Err(Error::Corrupt { .. }) if index.kind == IndexKind::Expiry => continue,
            record => record?,
        };
        let id = record.id()?;
        each_entry(index, &record, &id, |entry| {
            if index.kind == IndexKind::Unique {
                let other = match store.get(Space::Indexes, entry, Reach::Disk)? {
                    Some(owner) => Some(String::from_utf8_lossy(&owner).into_owned()),
                    None => owners.insert(entry.to_vec(), id.clone().into_owned()),
                };
                if let Some(other) = other.filter(|other| **other != *id) {
                    sharing = Some([other, id.clone().into_owned()]);
                }
            }
            store.put(&mut batch, Space::Indexes, entry, entry_value(index, &id));
            Ok(())
        })?;
        if sharing.is_some() {
            return Ok(sharing);
        }
        if batch.bytes() >= BUILT_BYTES {
            store.write(&batch, Durability::Soft)?;
            batch.clear();
        }
    }
    store.write(&batch, Durability::Soft)?;
    Ok(None)
}

/// Writes a batch, and where the engine refuses it because it is behind, lets it catch up first: no request waits for this one.
fn write_through_stalls(store: &Store, batch: &Batch, durability: Durability) -> Result<()> {
    loop {
        match store.write(batch, durability) {
            Err(Error::Busy { .. }) => store.settle()?,
            outcome => return outcome,
        }
    }
}

/// Stages the removal of all entries of an index.
pub fn drop_entries(store: &Store, batch: &mut Batch, index: u32) {
    let (lower, mut upper) = (index.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.delete_range(batch, Space::Indexes, &lower, &upper);
}

/// Stages the removal of all records of a table with their blobs, and of all entries of its indexes.
pub fn drop_table(store: &Store, batch: &mut Batch, table: u32, indexes: impl Iterator<Item = u32>) {
    let (lower, mut upper) = (table.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.delete_range(batch, Space::Records, &lower, &upper);
    store.delete_range(batch, Space::Blobs, &lower, &upper);
    indexes.for_each(|index| drop_entries(store, batch, index));
}

/// Removes the entries of all indexes from a number on. Numbers that were never given out have entries only if a build has
/// failed or was cut off.
///
/// # Errors
/// What the engine returns.
pub fn drop_from(store: &Store, index: u32) -> Result<()> {
    let (lower, upper) = (index.to_be_bytes(), u32::MAX.to_be_bytes());
    if store.scan(Space::Indexes, &lower, &upper, &store.snapshot(), Reach::Disk).next()?.is_some() {
        let mut batch = Batch::default();
        store.delete_range(&mut batch, Space::Indexes, &lower, &upper);
        write_through_stalls(store, &batch, Durability::Strong)?;
    }
    Ok(())
}

/// All records of a table by id.
pub fn all_records<'s>(store: &'s Store, table: u32, snapshot: &'s Snapshot<'s>) -> Scan<'s> {
    let (lower, mut upper) = (table.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.scan(Space::Records, &lower, &upper, snapshot, Reach::Disk)
}

#[cfg(test)]
mod tests;
