//! What a batch of the log means for records.
//!
//! Of a record that a batch writes more than once the last state counts: no reader has seen the others. (Independent transactions that
//! were written together never write the same record: each holds its lock until it is written.)

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::storage::{LoggedBatch, Operation};

/// What happened to a record, or to all of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<'b> {
    /// Number of the operation in the log.
    pub(super) sequence: u64,
    pub(super) table: u32,
    /// The record; `None`: all of the table were deleted.
    pub(super) id: Option<&'b str>,
    /// Its stored bytes; `None`: it was deleted.
    pub(super) stored: Option<&'b [u8]>,
}

/// The changes that a batch makes, in its order.
///
/// # Errors
/// `Corrupt` if a key is none of a record.
pub(super) fn changes<'b>(batch: &LoggedBatch<'b>) -> Result<SmallVec<[Change<'b>; 4]>> {
    let mut changes = SmallVec::new();
    for operation in batch.operations() {
        let (sequence, operation) = operation?;
        changes.push(change(sequence, operation).ok_or_else(|| Error::corrupt("a key in the log is no record's"))?);
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

/// Leaves out what the same batch writes over.
fn keep_last(changes: &mut SmallVec<[Change<'_>; 4]>) {
    let mut later = HashSet::with_capacity(changes.len());
    changes.reverse();
    changes.retain(|change| change.id.is_none() || later.insert((change.table, change.id)));
    changes.reverse();
}
