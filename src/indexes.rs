//! Secondary indexes: which entries a record has, keeping them in step, scanning them.
//!
//! One entry for each (value, record), the value in the key and nothing in the value: an insert is one blind put in the
//! record's own batch, and its cost does not grow with the number of records that share the value. An update compares the
//! stored texts of the indexed attributes only, and touches only entries that change.
//!
//! Non-goals: locks and uniqueness across writers (`transaction`), choosing an index for a query (`query`).

use std::cell::RefCell;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::encoding::value::Value;
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::schema::{Durability, Index, IndexKind, Schema, Table};
use crate::storage::{Batch, Pinned, Reach, Scan, Snapshot, Space, Store};

/// Stages the entries of a new record.
///
/// # Errors
/// `Corrupt` if the record is.
pub fn add<B: AsRef<[u8]>>(store: &Store, batch: &mut Batch, id: &str, after: &Record<'_, B>) -> Result<()> {
    for index in &after.table().indexes {
        each_entry(index, &after.value(index.attribute)?, id, |key| {
            store.put(batch, Space::Indexes, key, entry_value(index, id));
        });
    }
    Ok(())
}

/// Stages the differences between the entries of two versions of a record.
///
/// # Errors
/// `Corrupt` if either is.
pub fn change<B: AsRef<[u8]>, A: AsRef<[u8]>>(
    store: &Store,
    batch: &mut Batch,
    id: &str,
    before: &Record<'_, B>,
    after: &Record<'_, A>,
) -> Result<()> {
    for index in &after.table().indexes {
        if before.json_of(index.attribute)? == after.json_of(index.attribute)? {
            continue;
        }
        let (old, new) = (before.value(index.attribute)?, after.value(index.attribute)?);
        if let (Value::List(old), Value::List(new)) = (&old, &new) {
            let (old, new) = (entries_of_list(index, old, id), entries_of_list(index, new, id));
            for key in old.iter().filter(|key| new.binary_search(key).is_err()) {
                store.delete(batch, Space::Indexes, key);
            }
            for key in new.iter().filter(|key| old.binary_search(key).is_err()) {
                store.put(batch, Space::Indexes, key, entry_value(index, id));
            }
            continue;
        }
        // Where both versions have an entry, its put comes after its delete.
        each_entry(index, &old, id, |key| store.delete(batch, Space::Indexes, key));
        each_entry(index, &new, id, |key| store.put(batch, Space::Indexes, key, entry_value(index, id)));
    }
    Ok(())
}

/// Stages the removal of all entries of a record.
///
/// # Errors
/// `Corrupt` if the record is.
pub fn remove<B: AsRef<[u8]>>(store: &Store, batch: &mut Batch, id: &str, before: &Record<'_, B>) -> Result<()> {
    for index in &before.table().indexes {
        each_entry(index, &before.value(index.attribute)?, id, |key| {
            store.delete(batch, Space::Indexes, key);
        });
    }
    Ok(())
}

fn entry_value<'a>(index: &Index, id: &'a str) -> &'a [u8] {
    if index.kind == IndexKind::Unique { id.as_bytes() } else { b"" }
}

/// Calls `visit` with the key of each entry that a value has in an index: one, or one for each element of a list; none for
/// null in a unique index. Each is visited once, however often a list has an element; those of a list ascend.
fn each_entry(index: &Index, value: &Value<'_>, id: &str, mut visit: impl FnMut(&[u8])) {
    thread_local! { static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }
    match value {
        Value::Null if index.kind == IndexKind::Unique => {}
        Value::List(elements) => entries_of_list(index, elements, id).iter().for_each(|entry| visit(entry)),
        scalar => ENTRY.with_borrow_mut(|entry| {
            write_entry(index, scalar, id, entry);
            visit(entry);
        }),
    }
}

/// The keys of the entries of a list, ascending, each once.
fn entries_of_list(index: &Index, elements: &[Value<'_>], id: &str) -> Vec<Vec<u8>> {
    let entry = |element| {
        let mut entry = Vec::new();
        write_entry(index, element, id, &mut entry);
        entry
    };
    let mut entries: Vec<Vec<u8>> = elements.iter().map(entry).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Writes the key of the entry of a value that is no list.
fn write_entry(index: &Index, value: &Value<'_>, id: &str, entry: &mut Vec<u8>) {
    match index.kind {
        IndexKind::Unique => key::unique(index.id, value, entry),
        IndexKind::Ordered => key::ordered(index.id, value, id, entry),
        IndexKind::Hash => key::hash(index.id, value, id, entry),
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

    /// The entries of one value in an ordered or a hash index; with them may stand others, see [`is_exact`].
    ///
    /// # Panics
    /// On a unique index, which [`owner`] reads.
    pub fn of_value(index: &Index, value: &Value<'_>) -> Self {
        let mut prefix = Vec::new();
        match index.kind {
            IndexKind::Ordered => key::ordered_prefix(index.id, value, &mut prefix),
            IndexKind::Hash => key::hash_prefix(index.id, value, &mut prefix),
            _ => unreachable!("one key, not a range"),
        }
        Self::of_prefix(prefix)
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

    /// Whether all entries in it are known to begin with `lower`.
    fn is_of_one_value(&self) -> bool {
        let (Some((last, before)), Some((next, same))) = (self.lower.split_last(), self.upper.split_last()) else {
            return false;
        };
        before == same
            && last.checked_add(1) == Some(*next)
            && key::bytes_before_id(&self.lower) == Some(self.lower.len())
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.lower.as_slice() <= key && (self.upper.is_empty() || key < self.upper.as_slice())
    }
}

/// Whether the entries of a value in an index are of that value alone. Those of a hash index, and of a text longer than is
/// indexed, may be of others, too: the record has to be looked at.
pub fn is_exact(index: &Index, value: &Value<'_>) -> bool {
    let long = matches!(value, Value::Text(text) if text.len() >= key::INDEXED_BYTES);
    !long && index.kind != IndexKind::Hash
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

/// The entries in a stretch of an ordered or a hash index, read as they are asked for.
pub struct Matches<'s> {
    scan: Scan<'s>,
    table: u32,
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
        let before_id = match index.kind {
            IndexKind::Hash => Some(key::HASH_PREFIX_BYTES),
            _ => range.is_of_one_value().then_some(range.lower.len()),
        };
        Self { scan, table: table.id, before_id, keep: false }
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

    /// Adds the key of one further record; false at the end.
    ///
    /// # Errors
    /// `Corrupt` if an entry is none; what the engine returns.
    pub fn append(&mut self, keys: &mut Keys) -> Result<bool> {
        let Some((entry, _)) = self.scan.next()? else { return Ok(false) };
        let before_id = self.before_id.or_else(|| key::bytes_before_id(entry));
        let parts = before_id.and_then(|bytes| entry.split_at_checked(bytes));
        let (before_id, id) = parts.ok_or_else(|| Error::corrupt("an index entry has no id"))?;
        keys.push(self.table, if self.keep { before_id } else { b"" }, id);
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
    each_entry(index, &record.value(index.attribute)?, &id, |entry| {
        let value = &entry[..entry.len() - id.len()];
        // Only the last range that begins before it can hold it.
        let before = ranges.partition_point(|range| range.lower.as_slice() <= entry);
        first &= value >= before_id || !ranges[..before].last().is_some_and(|range| range.holds(entry));
    });
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

/// Makes all entries of an index, which has none yet, from the records of its table.
///
/// # Errors
/// `Conflict` if two records share a value of a unique index; `Corrupt` if a record is.
pub fn build(store: &Store, table: &Table, index: &Index) -> Result<()> {
    let snapshot = store.snapshot();
    let mut batch = Batch::default();
    let mut records = all_records(store, table.id, &snapshot);
    let mut staged = 0;
    while let Some((_, bytes)) = records.next()? {
        let record = Record::open(table, bytes)?;
        let id = record.id()?;
        let value = record.value(index.attribute)?;
        if index.kind == IndexKind::Unique
            && let Some(other) = owner(store, index, &value, Reach::Disk)?
            && value != Value::Null
        {
            let (other, name) = (String::from_utf8_lossy(&other).into_owned(), &table.attributes[index.attribute].name);
            let detail = format!("cannot make {}.{name} unique: records {other} and {id} share a value", table.name);
            return Err(Error::Conflict { detail, pointer: format!("/{name}") });
        }
        each_entry(index, &value, &id, |key| {
            store.put(&mut batch, Space::Indexes, key, entry_value(index, &id));
        });
        staged += 1;
        // A unique index is read while it is built.
        if staged % 1000 == 0 || index.kind == IndexKind::Unique {
            write_through_stalls(store, &batch, Durability::Soft)?;
            batch.clear();
        }
    }
    write_through_stalls(store, &batch, Durability::Strong)
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

/// Walks all records and all entries of a schema and describes every disagreement, up to a hundred of them; none means that
/// the store is consistent. Costs memory for every entry: it is for tests and for an operator's doubt.
///
/// # Errors
/// What the engine returns; a corrupt record is a disagreement, not an error.
pub fn disagreements(store: &Store, schema: &Schema) -> Result<Vec<String>> {
    let snapshot = store.snapshot();
    let (mut expected, mut found) = (BTreeSet::new(), Vec::new());
    for table in &schema.tables {
        let mut records = all_records(store, table.id, &snapshot);
        while let Some((key, bytes)) = records.next()? {
            if let Err(error) = expect_entries(table, key, bytes, &mut expected) {
                found.push(format!("table {} key {:?}: {error}", table.name, String::from_utf8_lossy(&key[4..])));
            }
        }
    }
    for index in schema.tables.iter().flat_map(|table| &table.indexes) {
        let (lower, mut upper) = (index.id.to_be_bytes(), Vec::new());
        key::successor(&lower, &mut upper);
        let mut entries = store.scan(Space::Indexes, &lower, &upper, &snapshot, Reach::Disk);
        while let Some((key, value)) = entries.next()? {
            if !expected.remove(&(key.to_vec(), value.to_vec())) {
                found.push(format!("an entry that no record has: {}", key.escape_ascii()));
            }
        }
    }
    found.extend(expected.iter().map(|(key, _)| format!("an entry is missing: {}", key.escape_ascii())));
    found.truncate(100);
    Ok(found)
}

fn expect_entries(table: &Table, key: &[u8], bytes: &[u8], expected: &mut BTreeSet<(Vec<u8>, Vec<u8>)>) -> Result<()> {
    let record = Record::open(table, bytes)?;
    let id = record.id()?;
    if key::id_of_record(key) != Some(&id) {
        return Err(Error::corrupt("the record has another id than its key"));
    }
    for index in &table.indexes {
        each_entry(index, &record.value(index.attribute)?, &id, |key| {
            expected.insert((key.to_vec(), entry_value(index, &id).to_vec()));
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
