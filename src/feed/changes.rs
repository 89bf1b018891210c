//! Decodes a batch of the log into changes of records.
//!
//! If a batch writes a record several times, only the last write counts: no reader has seen the others. (Independent transactions in one
//! group commit never write the same record, because each holds its lock until its batch is written.) A renewal is no change. Of a message,
//! which is written to stand in the log, its batch may have the delete already.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::encoding::{key, record};
use crate::error::{Error, Result};
use crate::storage::{LoggedBatch, Operation};

/// A change of a record, or the deletion of all records of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<'b> {
    /// Sequence number of the operation.
    pub(super) sequence: u64,
    pub(super) table: u32,
    /// Id of the record; `None` if all records of the table were deleted.
    pub(super) id: Option<&'b str>,
    /// Its stored bytes; `None` if it was deleted.
    pub(super) stored: Option<&'b [u8]>,
}

/// Returns the changes that a batch makes, in its order; of the table of messages, if there is one, only puts.
///
/// # Errors
/// `Corrupt` if a key is not the key of a record.
pub(super) fn changes<'b>(batch: &LoggedBatch<'b>, messages: Option<u32>) -> Result<SmallVec<[Change<'b>; 4]>> {
    let mut changes: SmallVec<[Change<'b>; 4]> = SmallVec::new();
    for operation in batch.operations() {
        let (sequence, operation) = operation?;
        if matches!(operation, Operation::Put { value, .. } if record::is_renewal(value)) {
            continue;
        }
        let change = change(sequence, operation);
        let change = change.ok_or_else(|| Error::corrupt("the log has a key that is not a record key"))?;
        if change.stored.is_some() || messages != Some(change.table) {
            changes.push(change);
        }
    }
    if changes.len() > 1 {
        keep_last(&mut changes);
    }
    Ok(changes)
}

fn change(sequence: u64, operation: Operation<'_>) -> Option<Change<'_>> {
    let (Operation::Put { key, .. } | Operation::Delete { key } | Operation::DeleteRange { lower: key, .. }) =
        operation;
    let table = key::table_of_record(key)?;
    let (id, stored) = match operation {
        Operation::Put { key, value } => (Some(key::id_of_record(key)?), Some(value)),
        Operation::Delete { key } => (Some(key::id_of_record(key)?), None),
        Operation::DeleteRange { .. } => (None, None),
    };
    Some(Change { sequence, table, id, stored })
}

/// Removes changes that a later operation of the same batch overwrites.
fn keep_last(changes: &mut SmallVec<[Change<'_>; 4]>) {
    let mut later = HashSet::with_capacity(changes.len());
    changes.reverse();
    changes.retain(|change| change.id.is_none() || later.insert((change.table, change.id)));
    changes.reverse();
}
