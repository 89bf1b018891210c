//! Secondary indexes: their entries, keeping them in step with records, scanning them, building them.
//!
//! One entry for each (value, record), with the value in the key and an empty entry value: an insert is one blind put in the record's own
//! batch, and its cost does not grow with the number of records that share the value. An update compares only the stored texts of the
//! indexed attributes, and writes only entries that change.
//!
//! An entry holds one record, so no insert reads or rewrites a list. Only a unique index is read before it is written
//! (`transaction::uniques`).
//!
//! An index that is being built is maintained from the start: every write of a record writes its entries, and [`build`] adds those of
//! existing records, which are locked meanwhile. So the order of the two does not matter.
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
use crate::storage::{Batch, Pinned, ReadTier, Scan, Snapshot, Space, Store};
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
/// `Corrupt` if either is; `WouldBlock` if the entry of a unique index that is being built is not in memory.
pub fn change<B: AsRef<[u8]>, A: AsRef<[u8]>>(
    store: &Store,
    tier: ReadTier,
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
        // If both versions have the same entry, its put comes after its delete.
        each_entry(index, before, id, |key| delete_entry(store, tier, batch, index, id, key))?;
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
    tier: ReadTier,
    batch: &mut Batch,
    id: &str,
    before: &Record<'_, B>,
) -> Result<()> {
    for index in kept(before.table()) {
        each_entry(index, before, id, |key| delete_entry(store, tier, batch, index, id, key))?;
    }
    Ok(())
}

/// Returns the indexes whose entries are maintained.
fn kept(table: &Table) -> impl Iterator<Item = &Index> {
    table.indexes.iter().filter(|index| index.is_kept())
}

/// Returns whether both versions of a record are known to have the same entries.
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

/// Stages the removal of an entry. While a unique index is being built, several records may share a value, and only one owns the entry.
fn delete_entry(store: &Store, tier: ReadTier, batch: &mut Batch, index: &Index, id: &str, key: &[u8]) -> Result<()> {
    if index.kind == IndexKind::Unique && index.state() == IndexState::Building {
        let owner = store.get_for(batch, Space::Indexes, key, tier)?;
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

/// Returns whether a record may have several entries in an index.
fn is_set(index: &Index, table: &Table) -> bool {
    index.kind == IndexKind::FullText || table.attributes[index.attribute].list
}

thread_local! { static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }

/// Calls `visit` with the key of each entry that a record has in an index: one, or one for each element of a list or each term of a text;
/// none for null in a unique or full-text index, or for a record that does not expire. Keys are ascending and distinct.
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

/// Returns the keys of all entries that a record has in an index, ascending.
fn set_of<B: AsRef<[u8]>>(index: &Index, record: &Record<'_, B>, id: &str) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    each_entry(index, record, id, |key| {
        all.push(key.to_vec());
        Ok(())
    })?;
    Ok(all)
}

/// Returns the distinct terms of a text, or of the texts of a list.
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

/// Returns the keys of the entries of several values, ascending and distinct.
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

/// The direction of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Ascending: least value first, null last, ids of equal values ascending.
    #[default]
    Forwards,
    /// The exact opposite.
    Backwards,
}

/// A range of keys, from `lower` up to but not including `upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub lower: Vec<u8>,
    /// The end of the range, exclusive; empty if it is unbounded.
    pub upper: Vec<u8>,
}

impl KeyRange {
    /// Returns the range of all keys that begin with `prefix`.
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        let mut upper = Vec::new();
        key::successor(&prefix, &mut upper);
        Self { lower: prefix, upper }
    }

    /// Returns the entries of one value in an ordered or a hash index, or of a term; the range may contain others, see [`is_exact`].
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

    /// Returns the entries of a composite index with these first values; the range may contain others, as in [`KeyRange::of_value`].
    pub fn of_values<'a, 'v: 'a>(index: &Index, values: impl IntoIterator<Item = &'a Value<'v>>) -> Self {
        let mut prefix = Vec::new();
        key::composite_prefix(index.id, values, &mut prefix);
        Self::of_prefix(prefix)
    }

    /// Returns the entries of records that have expired by a time, in microseconds since 1970.
    pub fn expired(index: &Index, now: i64) -> Self {
        Self { lower: index.id.to_be_bytes().to_vec(), ..Self::of_value(index, &Value::Int(now)) }
    }

    /// Restricts the range to its intersection with another.
    pub fn intersect(&mut self, other: Self) {
        if other.lower > self.lower {
            self.lower = other.lower;
        }
        if self.upper.is_empty() || (!other.upper.is_empty() && other.upper < self.upper) {
            self.upper = other.upper;
        }
    }

    /// Returns whether the range is empty.
    pub fn is_empty(&self) -> bool {
        !self.upper.is_empty() && self.lower >= self.upper
    }

    /// Returns whether all entries in the range are known to be `lower` followed by an id.
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

/// Returns whether the range of a value in an index has entries of that value only. In a hash index, and for a text longer than the indexed
/// prefix, it may have entries of others, so the record has to be checked.
pub fn is_exact(index: &Index, value: &Value<'_>) -> bool {
    is_whole(value) && index.kind != IndexKind::Hash
}

/// Returns whether the entries of an ordered index contain the whole value, and not only a prefix.
pub fn is_whole(value: &Value<'_>) -> bool {
    !matches!(value, Value::Text(text) if text.len() >= key::INDEXED_BYTES)
}

/// Borrowed keys; a few need no allocation.
pub type Slices<'k> = SmallVec<[&'k [u8]; 8]>;

/// Keys of records in one buffer, each with the prefix of its index entry (index and value).
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Offsets of the entry prefix, of the key after it, and of the end.
    places: Vec<(usize, usize, usize)>,
}

impl Keys {
    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the number of bytes in the buffer.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Returns the keys, in the order in which they were found.
    pub fn slices(&self) -> Slices<'_> {
        (0..self.len()).map(|position| self.key(position)).collect()
    }

    /// Returns the keys at some positions.
    pub fn slices_in(&self, positions: &[usize]) -> Slices<'_> {
        positions.iter().map(|position| self.key(*position)).collect()
    }

    /// Returns the key at a position.
    pub fn key(&self, position: usize) -> &[u8] {
        let (_, key, end) = self.places[position];
        &self.bytes[key..end]
    }

    /// Returns the part of the index entry before the id, that is index and value; empty if it was not kept.
    pub fn before_id(&self, position: usize) -> &[u8] {
        let (entry, key, _) = self.places[position];
        &self.bytes[entry..key]
    }

    /// Removes the last key.
    pub fn pop(&mut self) {
        if let Some((entry, ..)) = self.places.pop() {
            self.bytes.truncate(entry);
        }
    }

    /// Moves the last key to `others`.
    pub fn move_last(&mut self, others: &mut Self) {
        if let Some((entry, key, _)) = self.places.pop() {
            let start = others.bytes.len();
            others.bytes.extend_from_slice(&self.bytes[entry..]);
            others.places.push((start, start + key - entry, others.bytes.len()));
            self.bytes.truncate(entry);
        }
    }

    /// Appends the key of a record.
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

/// The entries in a range of an index, read on demand; or the records that have an entry in each of several ranges.
pub struct Matches<'s> {
    scan: Scan<'s>,
    /// Scans of the other ranges with the prefixes of their entries; `beginning` is the prefix of the entries of `scan`.
    others: SmallVec<[(Scan<'s>, Vec<u8>); 0]>,
    beginning: Vec<u8>,
    table: u32,
    /// Number of values in each entry.
    values: usize,
    /// Length of an entry before its id; `None` if it differs and has to be parsed.
    before_id: Option<usize>,
    /// Whether the part of the entry before the id is kept with each key.
    keep: bool,
}

impl<'s> Matches<'s> {
    /// Returns the entries in a range of an index; `scan` scans it in either direction.
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

    /// Returns the records that have an entry in each of several ranges of one value each; all scans have the same direction. (A leapfrog
    /// join: Veldhuizen, "Leapfrog Triejoin: a simple, worst-case optimal join algorithm", 2014.)
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

    /// Returns the number of seeks for each entry.
    pub fn seeks(&self) -> usize {
        self.others.len()
    }

    /// Keeps with each key the part of its entry before the id.
    #[must_use]
    pub fn keeping_values(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Skips one entry; returns false at the end.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn pass(&mut self) -> Result<bool> {
        Ok(self.scan.next()?.is_some())
    }

    /// Reads the next entry and appends the key of its record; with several ranges only if all have it. Returns false at the end.
    ///
    /// # Errors
    /// `Corrupt` if an entry has no id; what the engine returns.
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

    /// Appends the record with an id if all other ranges have it; otherwise seeks to the next candidate.
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

/// Returns whether an entry is the first one of its record in a forward scan through the ranges, which must be ascending. A list has an
/// entry for each element, and its record must be returned only once.
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
        // Only the last range that begins before the entry can contain it.
        let before = ranges.partition_point(|range| range.lower.as_slice() <= entry);
        first &= value >= before_id || !ranges[..before].last().is_some_and(|range| range.holds(entry));
        Ok(())
    })?;
    Ok(first)
}

/// Returns the id of the record that owns a value of a unique index.
///
/// # Errors
/// What the engine returns.
pub fn owner<'s>(store: &'s Store, index: &Index, value: &Value<'_>, tier: ReadTier) -> Result<Option<Pinned<'s>>> {
    let mut entry = Vec::new();
    key::unique(index.id, value, &mut entry);
    store.get(Space::Indexes, &entry, tier)
}

/// Returns the owners of several values of a unique index as of a snapshot, in no particular order.
///
/// # Errors
/// What the engine returns.
pub fn owners<'s>(
    store: &'s Store,
    index: &Index,
    values: &[&Value<'_>],
    snapshot: &Snapshot<'_>,
    tier: ReadTier,
) -> Result<Vec<Option<Pinned<'s>>>> {
    let entry = |value: &&Value<'_>| {
        let mut entry = Vec::new();
        key::unique(index.id, value, &mut entry);
        entry
    };
    let mut entries: Vec<Vec<u8>> = values.iter().map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    store.multi_get(Space::Indexes, &entries, snapshot, tier)
}

/// Returns the keys of the records of a table after an id, or from its first record on: at most `most`, and no more once these records have
/// `most_bytes`.
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
    let (snapshot, mut keys, mut bytes) = (store.snapshot(ReadTier::Disk)?, Vec::new(), 0);
    let mut records = store.scan(Space::Records, &lower, &upper, &snapshot, ReadTier::Disk);
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

/// Approximate number of bytes of entries written at once.
const BUILT_BYTES: usize = 1 << 20;

/// Writes the entries of some records, with ascending keys, in an index that is being built. The caller must hold their locks; records that
/// no longer exist or already have entries do no harm. Returns `Some` if two records share a value of a unique index; then some of the
/// entries may be missing.
///
/// # Errors
/// `Corrupt` if a record is, except for an expiry index; `Busy` if the engine cannot keep up; what the engine returns.
pub fn build(store: &Store, table: &Table, index: &Index, keys: &[Vec<u8>]) -> Result<Option<Sharing>> {
    let ([first, ..], Some(last)) = (keys, keys.last()) else { return Ok(None) };
    let (snapshot, mut batch, mut owners) = (store.snapshot(ReadTier::Disk)?, Batch::default(), HashMap::new());
    let behind = [last.as_slice(), b"\0"].concat();
    let mut records = store.scan(Space::Records, first, &behind, &snapshot, ReadTier::Disk);
    while let Some((key, bytes)) = records.next()? {
        // A record between them that was created since has its own entries, and is not locked.
        if keys.binary_search_by(|held| held.as_slice().cmp(key)).is_err() {
            continue;
        }
        let record = match Record::open(table, bytes) {
            // Without its deadline there is no entry to write. Queries do not read this index, so none misses it.
            Err(Error::Corrupt { .. }) if index.kind == IndexKind::Expiry => continue,
            record => record?,
        };
        let sharing = build_entries(store, &mut batch, index, &record, &mut owners)?;
        if sharing.is_some() {
            return Ok(sharing);
        }
        if batch.bytes() >= BUILT_BYTES {
            store.write(&mut batch, Durability::Soft)?;
            batch.clear();
        }
    }
    store.write(&mut batch, Durability::Soft)?;
    Ok(None)
}

/// Stages the entries of some records in an index that is being built, in the batch of a transaction that depends on the records. Returns as
/// [`build`].
///
/// # Errors
/// As [`build`].
pub fn build_for(
    store: &Store,
    batch: &mut Batch,
    table: &Table,
    index: &Index,
    keys: &[Vec<u8>],
) -> Result<Option<Sharing>> {
    let mut owners = HashMap::new();
    for key in keys {
        let Some(bytes) = store.get_for(batch, Space::Records, key, ReadTier::Disk)? else { continue };
        // Written as it is: a writer that deletes one of its entries does not read them, and must race with this.
        store.put(batch, Space::Records, key, &bytes);
        let record = match Record::open(table, bytes) {
            Err(Error::Corrupt { .. }) if index.kind == IndexKind::Expiry => continue,
            record => record?,
        };
        let sharing = build_entries(store, batch, index, &record, &mut owners)?;
        if sharing.is_some() {
            batch.clear();
            return Ok(sharing);
        }
    }
    Ok(None)
}

/// Stages the entries of one record in an index that is being built; returns whom it shares a unique value with, if it does. `owners`: the
/// records whose entries are staged already, by entry.
fn build_entries<B: AsRef<[u8]>>(
    store: &Store,
    batch: &mut Batch,
    index: &Index,
    record: &Record<'_, B>,
    owners: &mut HashMap<Vec<u8>, String>,
) -> Result<Option<Sharing>> {
    let (id, mut sharing) = (record.id()?, None);
    each_entry(index, record, &id, |entry| {
        if index.kind == IndexKind::Unique {
            let other = match store.get_for(batch, Space::Indexes, entry, ReadTier::Disk)? {
                Some(owner) => Some(String::from_utf8_lossy(&owner).into_owned()),
                None => owners.insert(entry.to_vec(), id.clone().into_owned()),
            };
            if let Some(other) = other.filter(|other| **other != *id) {
                sharing = Some([other, id.clone().into_owned()]);
            }
        }
        store.put(batch, Space::Indexes, entry, entry_value(index, &id));
        Ok(())
    })?;
    Ok(sharing)
}

/// Writes a batch; on a write stall, waits for the engine to catch up first, since no request waits for this write.
fn write_through_stalls(store: &Store, batch: &mut Batch, durability: Durability) -> Result<()> {
    loop {
        match store.write(batch, durability) {
            Err(Error::Busy { .. }) => store.settle()?,
            outcome => return outcome,
        }
        // A shortage of descriptors is not ended by the engine's work.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Stages the removal of all entries of an index, whose number is not used again.
pub fn drop_entries(store: &Store, batch: &mut Batch, index: u32) {
    store.destroy(batch, Space::Indexes, &index.to_be_bytes());
}

/// Stages the removal of all records of a table with their blobs, and of all entries of its indexes. The numbers are not used again.
pub fn drop_table(store: &Store, batch: &mut Batch, table: u32, indexes: impl Iterator<Item = u32>) {
    store.destroy(batch, Space::Records, &table.to_be_bytes());
    store.destroy(batch, Space::Blobs, &table.to_be_bytes());
    indexes.for_each(|index| drop_entries(store, batch, index));
}

/// Stages the same for a table that goes on.
pub fn clear_table(store: &Store, batch: &mut Batch, table: u32, indexes: impl Iterator<Item = u32>) {
    let mut delete = |space, number: u32| {
        let (lower, mut upper) = (number.to_be_bytes(), Vec::new());
        key::successor(&lower, &mut upper);
        store.delete_range(batch, space, &lower, &upper);
    };
    delete(Space::Records, table);
    delete(Space::Blobs, table);
    indexes.for_each(|index| delete(Space::Indexes, index));
}

/// Removes the entries of all indexes with this number or a greater one. Numbers that were never assigned have entries only if a build
/// failed or was interrupted.
///
/// # Errors
/// What the engine returns.
pub fn drop_from(store: &Store, index: u32) -> Result<()> {
    let (lower, upper) = (index.to_be_bytes(), u32::MAX.to_be_bytes());
    if store.scan(Space::Indexes, &lower, &upper, &store.snapshot(ReadTier::Disk)?, ReadTier::Disk).next()?.is_some() {
        let mut batch = Batch::default();
        store.delete_range(&mut batch, Space::Indexes, &lower, &upper);
        write_through_stalls(store, &mut batch, Durability::Strong)?;
    }
    Ok(())
}

/// Scans all records of a table by id.
pub fn all_records<'s>(store: &'s Store, table: u32, snapshot: &'s Snapshot<'s>) -> Scan<'s> {
    let (lower, mut upper) = (table.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.scan(Space::Records, &lower, &upper, snapshot, ReadTier::Disk)
}

#[cfg(test)]
mod tests;
