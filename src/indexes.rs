//! Secondary indexes: which entries a record has, keeping them in step, scanning them.
//!
//! One entry for each (value, record), the value in the key and nothing in the value: an insert is one blind put in the
//! record's own batch, and its cost does not grow with the number of records that share the value. An update compares the
//! stored texts of the indexed attributes only, and touches only entries that change.
//!
//! Non-goals: locks and uniqueness across writers (`transaction`), choosing an index for a query (`query`).

use std::cell::RefCell;
use std::collections::BTreeSet;

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
        // Where both versions have an entry, its put comes after its delete.
        each_entry(index, &before.value(index.attribute)?, id, |key| {
            store.delete(batch, Space::Indexes, key);
        });
        each_entry(index, &after.value(index.attribute)?, id, |key| {
            store.put(batch, Space::Indexes, key, entry_value(index, id));
        });
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
/// null in a unique index.
fn each_entry(index: &Index, value: &Value<'_>, id: &str, mut visit: impl FnMut(&[u8])) {
    thread_local! { static ENTRY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }
    let elements = match value {
        Value::List(elements) => elements.as_slice(),
        scalar => std::slice::from_ref(scalar),
    };
    ENTRY.with_borrow_mut(|entry| {
        for element in elements {
            match index.kind {
                IndexKind::Unique if *element == Value::Null => continue,
                IndexKind::Unique => key::unique(index.id, element, entry),
                IndexKind::Ordered => key::ordered(index.id, element, id, entry),
                IndexKind::Hash => key::hash(index.id, element, id, entry),
            }
            visit(entry);
        }
    });
}

/// The keys of the records whose attribute equals a value, ascending, read from an index as they are asked for.
///
/// A key from a hash index, or of a text longer than is indexed, may be a false match: [`Matches::verify`] says that the
/// record must be looked at.
pub struct Matches<'s> {
    scan: Scan<'s>,
    prefix_bytes: usize,
    table: u32,
    /// Whether each record must be compared with the value.
    pub verify: bool,
}

impl<'s> Matches<'s> {
    /// Of an ordered or a hash index.
    ///
    /// # Panics
    /// On a unique index, which [`owner`] reads.
    pub fn new(
        store: &'s Store,
        table: &Table,
        index: &Index,
        value: &Value<'_>,
        snapshot: &'s Snapshot<'s>,
        reach: Reach,
    ) -> Self {
        #[cfg(feature = "plant")]
        crate::plant::burn("indexes");
        let (mut prefix, mut end) = (Vec::new(), Vec::new());
        match index.kind {
            IndexKind::Ordered => key::ordered_prefix(index.id, value, &mut prefix),
            IndexKind::Hash => key::hash_prefix(index.id, value, &mut prefix),
            IndexKind::Unique => unreachable!("one key, not a range"),
        }
        key::successor(&prefix, &mut end);
        let long = matches!(value, Value::Text(text) if text.len() >= key::INDEXED_BYTES);
        Self {
            scan: store.scan(Space::Indexes, &prefix, &end, snapshot, reach),
            prefix_bytes: prefix.len(),
            table: table.id,
            verify: long || index.kind == IndexKind::Hash,
        }
    }

    /// Fills `keys` with the keys of up to `most` further records; fewer only at the end.
    ///
    /// # Errors
    /// `Corrupt` if an entry is none; what the engine returns.
    pub fn next(&mut self, most: usize, keys: &mut Vec<Vec<u8>>) -> Result<()> {
        keys.clear();
        while keys.len() < most {
            let Some((entry, _)) = self.scan.next()? else { break };
            let id = key::id_of_entry(entry, self.prefix_bytes);
            let id = id.ok_or_else(|| Error::corrupt("an index entry has no id"))?;
            let mut record = Vec::with_capacity(4 + id.len());
            key::record(self.table, id, &mut record);
            keys.push(record);
        }
        Ok(())
    }
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
            store.write(&batch, Durability::Soft)?;
            batch.clear();
        }
    }
    store.write(&batch, Durability::Strong)
}

/// Stages the removal of all entries of an index.
pub fn drop_entries(store: &Store, batch: &mut Batch, index: u32) {
    let (lower, mut upper) = (index.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.delete_range(batch, Space::Indexes, &lower, &upper);
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
        store.write(&batch, Durability::Strong)?;
    }
    Ok(())
}

/// All records of a table by id.
pub fn all_records<'s>(store: &'s Store, table: u32, snapshot: &'s Snapshot<'s>) -> Scan<'s> {
    records(store, table, snapshot, Reach::Disk)
}

/// The records of a table by id, as far as they are within reach.
pub fn records<'s>(store: &'s Store, table: u32, snapshot: &'s Snapshot<'s>, reach: Reach) -> Scan<'s> {
    let (lower, mut upper) = (table.to_be_bytes(), Vec::new());
    key::successor(&lower, &mut upper);
    store.scan(Space::Records, &lower, &upper, snapshot, reach)
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
