//! In-memory sort (top-k): keeps at most the first `offset` + `limit` records of a list.
//!
//! Each record is given a sort key, whose byte order is the order of the records, and the greatest is evicted when there are more than are
//! needed. Only the sort key and the key of the record are kept; the records are read again at the end, at the same snapshot. Memory thus
//! depends on `offset`, `limit` and the length of the sort keys, which is bounded, and not on the number of records.

use std::collections::BinaryHeap;

use super::tree::Order;
use crate::encoding::{Record, Value, key};
use crate::error::Result;

/// The maximum memory for sort keys, in bytes.
pub const SORTED_BYTES: usize = 64 << 20;

/// Appends the sort key of a record: its values, then its id in the direction of the last of them.
///
/// # Errors
/// `Corrupt` if the record is corrupt.
pub(super) fn sort_key<B: AsRef<[u8]>>(order: &[Order], record: &Record<'_, B>, out: &mut Vec<u8>) -> Result<()> {
    let mut append = |value: &Value<'_>, descending: bool| {
        let start = out.len();
        key::whole_value(value, out);
        if descending {
            // No value is a prefix of another, so the complement has the reverse order.
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    };
    for term in order {
        append(&record.value(term.attribute)?, term.descending);
    }
    let last_descends = order.last().is_some_and(|term| term.descending);
    append(&Value::Text(record.id()?), last_descends);
    Ok(())
}

/// The first records, in order, among those offered.
pub(super) struct TopK<'q> {
    order: &'q [Order],
    /// The sort key after which records are wanted.
    after: Option<&'q [u8]>,
    most: usize,
    /// The remaining bytes for sort keys and record keys.
    left: usize,
    /// Sort keys and record keys; the greatest sort key on top.
    kept: BinaryHeap<(Vec<u8>, Vec<u8>)>,
    sort_key: Vec<u8>,
}

impl<'q> TopK<'q> {
    /// Keeps the first `most` records after a cursor in at most `bytes` bytes of memory.
    pub fn new(order: &'q [Order], after: Option<&'q [u8]>, most: usize, bytes: usize) -> Self {
        Self { order, after, most, left: bytes, kept: BinaryHeap::new(), sort_key: Vec::new() }
    }

    /// Offers a record of a table; returns false if it would have to be kept but no memory is left.
    ///
    /// # Errors
    /// `Corrupt` if the record is corrupt.
    pub fn offer<B: AsRef<[u8]>>(&mut self, record: &Record<'_, B>) -> Result<bool> {
        self.sort_key.clear();
        sort_key(self.order, record, &mut self.sort_key)?;
        if self.after.is_some_and(|after| self.sort_key.as_slice() <= after) {
            return Ok(true);
        }
        if self.kept.len() >= self.most {
            match self.kept.peek() {
                Some((greatest, own_key)) if self.sort_key < *greatest => {
                    self.left += greatest.len() + own_key.len();
                    self.kept.pop();
                }
                _ => return Ok(true),
            }
        }
        let mut own_key = Vec::new();
        key::record(record.table().id, &record.id()?, &mut own_key);
        let Some(left) = self.left.checked_sub(self.sort_key.len() + own_key.len()) else { return Ok(false) };
        self.left = left;
        self.kept.push((self.sort_key.clone(), own_key));
        Ok(true)
    }

    /// Returns the keys of the records in order, without the first `offset`.
    pub fn into_keys(self, offset: usize) -> impl Iterator<Item = Vec<u8>> {
        self.kept.into_sorted_vec().into_iter().skip(offset).map(|(_, key)| key)
    }
}
