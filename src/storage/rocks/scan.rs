//! A bounded scan of keys, ascending or descending.

use rust_rocksdb as rocksdb;

use super::classify;
use crate::error::Result;

/// A scan; [`Scan::next`] lends each entry until the next call.
pub struct Scan<'a> {
    iterator: rocksdb::DBRawIterator<'a>,
    begun: bool,
    backwards: bool,
}

impl<'a> Scan<'a> {
    /// Scans ascending from the current position of the iterator.
    pub(super) fn forwards(iterator: rocksdb::DBRawIterator<'a>) -> Self {
        Self { iterator, begun: false, backwards: false }
    }

    /// Scans descending from the current position of the iterator.
    pub(super) fn backwards(iterator: rocksdb::DBRawIterator<'a>) -> Self {
        Self { iterator, begun: false, backwards: true }
    }

    /// Continues at this key or, if it does not exist, at the next one in the direction of the scan, within its bounds.
    pub fn seek(&mut self, key: &[u8]) {
        match self.backwards {
            true => self.iterator.seek_for_prev(key),
            false => self.iterator.seek(key),
        }
        self.begun = false;
    }

    /// Returns the next key and value, or `None` at the end.
    ///
    /// # Errors
    /// `Corrupt`, `Storage` or `WouldBlock` from the engine: `None` without an error is the real end.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match (self.begun, self.backwards) {
            (false, _) => {}
            (true, false) => self.iterator.next(),
            (true, true) => self.iterator.prev(),
        }
        self.begun = self.iterator.valid();
        if !self.begun {
            return self.iterator.status().map(|()| None).map_err(|error| classify("scan", error));
        }
        Ok(self.iterator.item())
    }
}
