//! Checks that every record has exactly its index entries.

use std::collections::BTreeSet;

use super::{all_records, each_entry, entry_value};
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::schema::{Index, IndexState, Schema, Table};
use crate::storage::{ReadTier, Space, Store};

/// Keys of entries, and their values.
type Entries = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// Scans all records and all entries of a schema and describes every disagreement, at most a hundred of them; an empty result means that
/// the store is consistent. An index that is being built may lack entries; those of a failed one are ignored. Needs memory for every entry,
/// so it is meant for tests and operators.
///
/// # Errors
/// What the engine returns; a corrupt record is a disagreement, not an error.
pub fn disagreements(store: &Store, schema: &Schema) -> Result<Vec<String>> {
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let (mut expected, mut found) = (Entries::new(), Vec::new());
    for table in &schema.tables {
        let mut records = all_records(store, table.id, &snapshot);
        while let Some((key, bytes)) = records.next()? {
            if let Err(error) = expect_entries(table, key, bytes, &mut expected) {
                found.push(format!("table {} key {:?}: {error}", table.name, String::from_utf8_lossy(&key[4..])));
            }
        }
    }
    let mut unfinished = BTreeSet::new();
    for index in schema.tables.iter().flat_map(|table| &table.indexes).filter(|index| index.is_kept()) {
        let (lower, mut upper) = (index.id.to_be_bytes(), Vec::new());
        key::successor(&lower, &mut upper);
        unfinished.extend((index.state() == IndexState::Building).then_some(lower));
        let mut entries = store.scan(Space::Indexes, &lower, &upper, &snapshot, ReadTier::Disk);
        while let Some((key, value)) = entries.next()? {
            if !expected.remove(&(key.to_vec(), value.to_vec())) {
                found.push(format!("an entry that no record has: {}", key.escape_ascii()));
            }
        }
    }
    let missing = expected.iter().filter(|(key, _)| key.first_chunk().is_none_or(|index| !unfinished.contains(index)));
    found.extend(missing.map(|(key, _)| format!("an entry is missing: {}", key.escape_ascii())));
    found.truncate(100);
    Ok(found)
}

fn expect_entries(table: &Table, key: &[u8], bytes: &[u8], expected: &mut Entries) -> Result<()> {
    let record = Record::open(table, bytes)?;
    let id = record.id()?;
    if key::id_of_record(key) != Some(&id) {
        return Err(Error::corrupt("the record has another id than its key"));
    }
    for index in table.indexes.iter().filter(|index: &&Index| index.is_kept()) {
        each_entry(index, &record, &id, |key| {
            expected.insert((key.to_vec(), entry_value(index, &id).to_vec()));
            Ok(())
        })?;
    }
    Ok(())
}
