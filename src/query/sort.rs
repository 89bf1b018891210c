//! Order in memory: the first records of a list, as far as it reaches, and never more of them than that.
//!
//! Each record that comes is given its place as bytes whose order is the order of records, and the greatest place falls out when
//! there are more than are wanted. What is kept is the place and the key of the record; the records are read again at the end, in
//! the same state of the store. So memory follows `offset` and `limit` and the length of what is sorted by, which is bounded, not the
//! number of records.

use std::collections::BinaryHeap;

use super::tree::Order;
use crate::encoding::{Record, Value, key};
use crate::error::Result;

/// How many bytes of memory what a list is sorted by may take.
pub const SORTED_BYTES: usize = 64 << 20;

/// Appends the place of a record in the order: its values, then its id in the direction of the last of them.
///
/// # Errors
/// `Corrupt` if the record is.
pub(super) fn place<B: AsRef<[u8]>>(order: &[Order], record: &Record<'_, B>, out: &mut Vec<u8>) -> Result<()> {
    let mut append = |value: &Value<'_>, descending: bool| {
        let start = out.len();
        key::whole_value(value, out);
        if descending {
            // No value is the beginning of another one, so the complement has the opposite order.
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

/// The first records of an order among those that were offered.
pub(super) struct TopK<'q> {
    order: &'q [Order],
    /// The place beyond which records are wanted.
    after: Option<&'q [u8]>,
    most: usize,
    /// How many bytes of places and keys there may be yet.
    left: usize,
    /// Places and keys of records; the greatest place on top.
    kept: BinaryHeap<(Vec<u8>, Vec<u8>)>,
    place: Vec<u8>,
}

impl<'q> TopK<'q> {
    /// The first `most` after a cursor, in at most `bytes` bytes of memory.
    pub fn new(order: &'q [Order], after: Option<&'q [u8]>, most: usize, bytes: usize) -> Self {
        Self { order, after, most, left: bytes, kept: BinaryHeap::new(), place: Vec::new() }
    }

    /// Offers a record of a table; false if it would have to be kept and there is no memory left.
    ///
    /// # Errors
    /// `Corrupt` if the record is.
    pub fn offer<B: AsRef<[u8]>>(&mut self, record: &Record<'_, B>) -> Result<bool> {
        self.place.clear();
        place(self.order, record, &mut self.place)?;
        if self.after.is_some_and(|after| self.place.as_slice() <= after) {
            return Ok(true);
        }
        if self.kept.len() >= self.most {
            match self.kept.peek() {
                Some((greatest, own_key)) if self.place < *greatest => {
                    self.left += greatest.len() + own_key.len();
                    self.kept.pop();
                }
                _ => return Ok(true),
            }
        }
        let mut own_key = Vec::new();
        key::record(record.table().id, &record.id()?, &mut own_key);
        let Some(left) = self.left.checked_sub(self.place.len() + own_key.len()) else { return Ok(false) };
        self.left = left;
        self.kept.push((self.place.clone(), own_key));
        Ok(true)
    }

    /// The keys of the records in order, but for the first `offset`.
    pub fn into_keys(self, offset: usize) -> impl Iterator<Item = Vec<u8>> {
        self.kept.into_sorted_vec().into_iter().skip(offset).map(|(_, key)| key)
    }
}
