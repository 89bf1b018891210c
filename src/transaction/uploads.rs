//! Uploads: each has a number that no other has had, and stands on a list while it is under way.
//!
//! A Blob of a record is the number of an upload, under which `blobs` keeps the bytes. That no number is used twice makes bytes that were
//! read by number right whatever has become of the record since. The list stands in the store, so what uploads have left that were
//! under way when the process was killed is found and removed when the store is opened, at a price that follows their number and not
//! that of the blobs. (Keys in the header of `encoding::key`.)
//!
//! A truncation removes what is stored under the number of its table, and with it the beginnings of uploads that are under way. So it
//! retires their numbers: no record comes to refer to them.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::Durability;
use crate::storage::{Batch, Reach, Space, Store};

/// So many numbers are taken from the store at once: one write for all of them.
const BLOCK: u64 = 1024;

/// The numbers that were given out, and those that are void.
pub(super) struct Uploads(Mutex<Numbers>);

struct Numbers {
    next: u64,
    /// The first that was not taken from the store.
    end: u64,
    /// By table: what is below it was given out before the table was truncated.
    retired: HashMap<u32, u64>,
}

impl Uploads {
    /// Removes what is left of uploads that have never ended, and goes on where the numbers have come to.
    ///
    /// # Errors
    /// `Corrupt` if the list is; what the engine returns.
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
        if !batch.is_empty() {
            store.write(&batch, Durability::Soft)?;
        }
        Ok(Self(Mutex::new(Numbers { next, end: next, retired: HashMap::new() })))
    }

    /// A number that no upload has had, in this process or another.
    ///
    /// # Errors
    /// What the engine returns.
    pub(super) fn number(&self, store: &Store) -> Result<u64> {
        let mut numbers = self.0.lock();
        if numbers.next == numbers.end {
            // What is written under a number comes after this in the log: it is not there without it.
            let mut batch = Batch::default();
            store.put(&mut batch, Space::Blobs, &key::UPLOADS, &(numbers.end + BLOCK).to_le_bytes());
            store.write(&batch, Durability::Soft)?;
            numbers.end += BLOCK;
        }
        numbers.next += 1;
        Ok(numbers.next - 1)
    }

    /// Makes the numbers void that uploads to a table have.
    pub(super) fn retire(&self, table: u32) {
        let mut numbers = self.0.lock();
        let next = numbers.next;
        numbers.retired.insert(table, next);
    }

    /// Whether the table was truncated since an upload to it has begun.
    pub(super) fn is_retired(&self, table: u32, upload: u64) -> bool {
        self.0.lock().retired.get(&table).is_some_and(|first| upload < *first)
    }
}

/// Stages that nothing is left of an upload, under way or not.
pub(super) fn remove(store: &Store, batch: &mut Batch, table: u32, upload: u64) {
    remove_bytes(store, batch, table, upload);
    store.delete(batch, Space::Blobs, &key::under_way(table, upload));
}

/// Stages that nothing is left of an upload that has ended.
pub(super) fn remove_bytes(store: &Store, batch: &mut Batch, table: u32, upload: u64) {
    store.delete_range(batch, Space::Blobs, &key::upload(table, upload), &key::upload(table, upload + 1));
}

fn damaged() -> Error {
    Error::corrupt("the list of uploads")
}
