//! A batch in the engine's log format (`db/write_batch.cc`): the sequence number of its first operation (u64), the number of operations
//! (u32), the operations.
//!
//! ```text
//! type u8, column family unless it is the default one, key, value or end of the range if there is one
//! ```
//! Column family ids are varints (LEB128); keys and values are preceded by their lengths as varints. Every operation has its own sequence
//! number. Operations on other families are skipped.

use super::LogPosition;
use crate::error::{Error, Result};

const HEADER_BYTES: usize = 12;

// The types that this store's batches contain (ValueType in db/dbformat.h). Those on the default family carry no family id.
const DEFAULT_DELETE: u8 = 0x0;
const DEFAULT_PUT: u8 = 0x1;
const DELETE: u8 = 0x4;
const PUT: u8 = 0x5;
const LOG_DATA: u8 = 0x3;
const DELETE_RANGE: u8 = 0xE;
const DEFAULT_DELETE_RANGE: u8 = 0xF;

/// A batch that was written, or the rest of it after some operation.
pub struct LoggedBatch<'b> {
    family: u32,
    /// The position at which the rest begins.
    from: LogPosition,
    first: u64,
    last: u64,
    operations: &'b [u8],
}

/// An operation on keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'b> {
    /// A key was given a value.
    Put {
        /// The key.
        key: &'b [u8],
        /// Its value.
        value: &'b [u8],
    },
    /// A key was deleted.
    Delete {
        /// The key.
        key: &'b [u8],
    },
    /// All keys from `lower` up to but not including `upper` were deleted.
    DeleteRange {
        /// The first key.
        lower: &'b [u8],
        /// The first key after the range.
        upper: &'b [u8],
    },
}

/// Returns the sequence numbers of the first and the last operation of a batch; if it has no operations, the last is before the first.
pub(super) fn numbers(batch: &[u8]) -> Result<(u64, u64)> {
    let header = batch.first_chunk::<HEADER_BYTES>().ok_or_else(damaged)?;
    let (first, count) = header.split_at(8);
    let first = u64::from_le_bytes(first.try_into().expect("eight bytes"));
    let count = u32::from_le_bytes(count.try_into().expect("four bytes"));
    let last = first.checked_add(u64::from(count)).and_then(|end| end.checked_sub(1)).ok_or_else(damaged)?;
    Ok((first, last))
}

impl<'b> LoggedBatch<'b> {
    /// Returns the part of a batch after a position, which lies within the batch or before it, for one column family.
    pub(super) fn new(batch: &'b [u8], family: u32, from: LogPosition) -> Result<Self> {
        let (first, last) = numbers(batch)?;
        Ok(Self { family, from, first, last, operations: &batch[HEADER_BYTES..] })
    }

    /// Returns the sequence number of its last operation.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the position after one of its operations.
    pub fn position(&self, sequence: u64) -> LogPosition {
        LogPosition { sequence, ..self.from }
    }

    /// Returns its length in the log, in bytes.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.operations.len()
    }

    /// Returns the operations on the space being read, each with its sequence number.
    ///
    /// # Errors
    /// Per item: `Corrupt` if the operation is of a kind that this store does not write.
    pub fn operations(&self) -> impl Iterator<Item = Result<(u64, Operation<'b>)>> {
        let (family, behind, mut sequence) = (self.family, self.from.sequence, self.first);
        let mut rest = Bytes(self.operations);
        std::iter::from_fn(move || {
            loop {
                if rest.log_data().is_some() {
                    continue;
                }
                if rest.0.is_empty() {
                    return None;
                }
                let Some((of, operation)) = rest.operation() else {
                    rest = Bytes(&[]);
                    return Some(Err(damaged()));
                };
                let number = sequence;
                sequence += 1;
                if of == family && number > behind {
                    return Some(Ok((number, operation)));
                }
            }
        })
    }
}

/// Returns what the log data in a batch says: the operations up to which the log was synced before it.
pub(super) fn claims(batch: &[u8]) -> Vec<u64> {
    let (mut rest, mut claims) = (Bytes(batch.get(HEADER_BYTES..).unwrap_or_default()), Vec::new());
    loop {
        match rest.log_data() {
            Some(data) => claims.extend(data.try_into().map(u64::from_le_bytes)),
            None if rest.operation().is_none() => return claims,
            None => {}
        }
    }
}

#[cold]
fn damaged() -> Error {
    Error::corrupt("the log has an invalid or unknown batch")
}

/// The unread rest of a batch, or of an edit of the manifest.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    /// Reads the next operation and its column family; `None` if this store does not write such an operation.
    fn operation(&mut self) -> Option<(u32, Operation<'b>)> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        let family = match *kind {
            DEFAULT_DELETE | DEFAULT_PUT | DEFAULT_DELETE_RANGE => 0,
            _ => self.varint()?.try_into().ok()?,
        };
        let operation = match *kind {
            DEFAULT_PUT | PUT => Operation::Put { key: self.text()?, value: self.text()? },
            DEFAULT_DELETE | DELETE => Operation::Delete { key: self.text()? },
            DEFAULT_DELETE_RANGE | DELETE_RANGE => Operation::DeleteRange { lower: self.text()?, upper: self.text()? },
            _ => return None,
        };
        Some((family, operation))
    }

    /// Reads log data, if it comes next: it is part of the log alone, and no operation.
    fn log_data(&mut self) -> Option<&'b [u8]> {
        let (&LOG_DATA, rest) = self.0.split_first()? else { return None };
        self.0 = rest;
        self.text()
    }

    /// Reads a key or a value.
    pub(super) fn text(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
