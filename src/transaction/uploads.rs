//! Uploads: each has a number that no other has had, and is listed in the store while it is under way.
//!
//! A Blob of a record is the number of an upload, under which `blobs` stores the bytes. Since no number is reused, bytes read by number are
//! right whatever has happened to the record since. The list is stored, so what a killed process left of its uploads is found and removed
//! when the store is opened, at a cost proportional to their number and not to that of all blobs. (The keys are documented in the header of
//! `encoding::key`.)
//!
//! A truncation removes everything stored under the number of its table, including the first chunks of uploads under way. So it retires
//! their numbers: no record can refer to them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::Durability;
use crate::storage::{Batch, Reach, Space, Store};

/// Numbers reserved in the store at once, with one write.
const BLOCK: u64 = 1024;

/// The numbers handed out, and those that are retired.
pub(super) struct Uploads(Mutex<Numbers>);

struct Numbers {
    next: u64,
    /// The first number that is not reserved.
    end: u64,
    /// By table: smaller numbers were handed out before the table was truncated.
    retired: HashMap<u32, u64>,
}

impl Uploads {
    /// Removes what is left of unfinished uploads, if the store may be written to, and continues with the next unreserved number.
    ///
    /// # Errors
    /// `Corrupt` if the list is damaged; what the engine returns.
    pub(super) fn open(store: &Store) -> Result<Self> {
        let (lower, upper) = (key::UPLOADS, 1u32.to_be_bytes());
        let (snapshot, mut batch, mut next) = (store.snapshot(), Batch::default(), 1);
        let mut list = store.scan(Space::Blobs, &lower, &upper, &snapshot, Reach::Disk);
        while let Some((key, value)) = list.next()? {
            if key == key::UPLOADS {
                next = u64::from_le_bytes(value.try_into().map_err(|_| damaged())?);
                continue;
            }
            let (table, upload, _) = key::parts_of_blob(&key[lower.len()..]).ok_or_else(damaged)?;
            remove(store, &mut batch, table, upload);
        }
        if !batch.is_empty() && !store.is_read_only() {
            store.write(&batch, Durability::Soft)?;
        }
        Ok(Self(Mutex::new(Numbers { next, end: next, retired: HashMap::new() })))
    }

    /// Returns a number that no upload has had, in this process or another.
    ///
    /// # Errors
    /// What the engine returns.
    pub(super) fn number(&self, store: &Store) -> Result<u64> {
        let mut numbers = self.0.lock();
        if numbers.next == numbers.end {
            // What is written under a number follows this in the log, so it cannot survive without it.
            let mut batch = Batch::default();
            store.put(&mut batch, Space::Blobs, &key::UPLOADS, &(numbers.end + BLOCK).to_le_bytes());
            store.write(&batch, Durability::Soft)?;
            numbers.end += BLOCK;
        }
        numbers.next += 1;
        Ok(numbers.next - 1)
    }

    /// Retires the numbers handed out so far for uploads to a table.
    pub(super) fn retire(&self, table: u32) {
        let mut numbers = self.0.lock();
        let next = numbers.next;
        numbers.retired.insert(table, next);
    }

    /// Returns whether the table was truncated since an upload to it began.
    pub(super) fn is_retired(&self, table: u32, upload: u64) -> bool {
        self.0.lock().retired.get(&table).is_some_and(|first| upload < *first)
    }
}

/// Stages the removal of an upload, under way or not.
pub(super) fn remove(store: &Store, batch: &mut Batch, table: u32, upload: u64) {
    remove_bytes(store, batch, table, upload);
    store.delete(batch, Space::Blobs, &key::under_way(table, upload));
}

/// Stages the removal of the bytes of a finished upload.
pub(super) fn remove_bytes(store: &Store, batch: &mut Batch, table: u32, upload: u64) {
    store.delete_range(batch, Space::Blobs, &key::upload(table, upload), &key::upload(table, upload + 1));
}

fn damaged() -> Error {
    Error::corrupt("the list of uploads is damaged")
}
