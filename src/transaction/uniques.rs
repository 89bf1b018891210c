//! Unique values: no two records of a table have the same one, even under concurrent writes.
//!
//! A value is claimed under its own lock before its index entry is read, and the lock is held until the record is written. A value released
//! by a verb is free for later verbs of the same transaction.

use super::{Owned, Transaction};
use crate::encoding::value::Value;
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::locking::{Locks, Slot};
use crate::schema::{Index, IndexKind, IndexState, Table};
use crate::storage::Space;

/// Table and index numbers share the lock space; this bit distinguishes them.
const UNIQUE: u32 = 1 << 31;

impl Transaction<'_> {
    /// Checks that no other record owns a unique value of the new version, and keeps others from claiming it.
    pub(super) fn claim_uniques<B: AsRef<[u8]>, A: AsRef<[u8]>>(
        &mut self,
        id: &str,
        before: Option<&Record<'_, B>>,
        after: &Record<'_, A>,
    ) -> Result<()> {
        let table = after.table();
        // Recorded only when all are free: a refused verb must not affect later ones.
        let mut changed = Vec::new();
        for index in of(table) {
            let json = after.json_of(index.attribute)?;
            let unchanged = before.map(|before| before.json_of(index.attribute)).transpose()? == Some(json);
            if unchanged {
                continue;
            }
            if let Some(before) = before
                && self.written.is_some()
            {
                changed.extend(released(index, &before.value(index.attribute)?));
            }
            let Some(entry) = entry(index, &after.value(index.attribute)?) else {
                continue;
            };
            let name = &table.attributes[index.attribute].name;
            if index.state() == IndexState::Building {
                // Existing records may have the value without an entry yet, so it is unknown whether it is free.
                let detail = format!(
                    "the unique index of {name} of {} is being built: new values are refused until it is ready",
                    table.name
                );
                return Err(Error::Busy { detail });
            }
            self.hold(space(index), &entry)?;
            if let Some(owner) = self.owner(&entry)?.filter(|owner| owner != id)
                && self.is_alive(table, &owner)?
            {
                let detail = format!("another record of {} has the same {name}", table.name);
                return Err(Error::Conflict { detail, pointer: table.pointer(index.attribute) });
            }
            if self.written.is_some() {
                changed.push((entry, Some(id.to_owned())));
            }
        }
        if let Some(written) = &mut self.written {
            written.owners.extend(changed);
        }
        Ok(())
    }

    /// Records that the values of a record are free.
    pub(super) fn release_uniques<B: AsRef<[u8]>>(&mut self, before: &Record<'_, B>) -> Result<()> {
        let Some(written) = &mut self.written else {
            return Ok(());
        };
        for index in of(before.table()) {
            written.owners.extend(released(index, &before.value(index.attribute)?));
        }
        Ok(())
    }

    /// Reads the record that has a unique value of an attribute, including this transaction's own writes; keeps the record and the value
    /// locked until the end, also where no record has it.
    ///
    /// # Errors
    /// `Invalid` if the attribute has no unique index; `Busy` while that is being built; as [`Transaction::read`].
    pub fn find<'t>(&mut self, table: &'t Table, attribute: usize, value: &Value<'_>) -> Result<Option<Owned<'t>>> {
        self.database.check_issued(table)?;
        let name = &table.attribute_at(attribute)?.name;
        let Some(index) = of(table).find(|index| index.attribute == attribute) else {
            return Err(Error::invalid(format!(
                "{name} of table {} has no unique index to find a record by",
                table.name
            )));
        };
        if index.state() == IndexState::Building {
            let detail = format!("the unique index of {name} of {} is being built", table.name);
            return Err(Error::Busy { detail });
        }
        let Some(entry) = entry(index, value) else { return Ok(None) };
        self.hold(space(index), &entry)?;
        let Some(owner) = self.owner(&entry)? else { return Ok(None) };
        // It may have given the value up before it was locked; nobody else can have taken it since.
        match self.read(table, &owner)? {
            Some(record) if record.value(attribute)? == *value => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    fn owner(&mut self, entry: &[u8]) -> Result<Option<String>> {
        if let Some(owner) = self.written.as_ref().and_then(|written| written.owners.get(entry)) {
            return Ok(owner.clone());
        }
        let owner = self.get(Space::Indexes, entry)?;
        Ok(owner.map(|id| String::from_utf8_lossy(&id).into_owned()))
    }

    /// Returns whether the owner of a unique value still exists; deletes it if it has expired.
    fn is_alive(&mut self, table: &Table, owner: &str) -> Result<bool> {
        if !table.expires() {
            return Ok(true);
        }
        self.hold(table.id, owner.as_bytes())?;
        Ok(self.open(table, owner)?.is_some())
    }
}

/// Returns the unique indexes of a table that are enforced.
pub(super) fn of(table: &Table) -> impl Iterator<Item = &Index> {
    table.indexes.iter().filter(|index| index.kind == IndexKind::Unique && index.is_kept())
}

/// Returns the key of the index entry of a unique value; `None` for null.
pub(super) fn entry(index: &Index, value: &Value<'_>) -> Option<Vec<u8>> {
    let mut entry = Vec::new();
    key::unique(index.id, value, &mut entry);
    (*value != Value::Null).then_some(entry)
}

/// Returns the index entry of a unique value without an owner.
fn released(index: &Index, value: &Value<'_>) -> Option<(Vec<u8>, Option<String>)> {
    Some((entry(index, value)?, None))
}

/// Returns the slot of an entry.
pub(super) fn slot(locks: &Locks, index: &Index, entry: &[u8]) -> Slot {
    locks.slot(space(index), entry)
}

/// Returns the space that separates the locks of an index's entries from those of other keys.
fn space(index: &Index) -> u32 {
    index.id | UNIQUE
}
