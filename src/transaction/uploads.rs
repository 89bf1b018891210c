//! Uploads: each has a number that no other has had, and is listed in the store while it is under way.
//!
//! A Blob of a record is the number of an upload, under which `blobs` stores the bytes. Since no number is reused, bytes read by number are
//! right whatever has happened to the record since. The list is stored, so what a killed process left of its uploads is found and removed
//! when the store is opened, at a cost proportional to their number and not to that of all blobs. (The keys are documented in the header of
//! `encoding::key`.)
//!
//! A truncation removes everything stored under the number of its table, including the first chunks of uploads under way. So it retires
//! their numbers: no record can refer to them.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::Durability;
use crate::storage::{Batch, ReadTier, Space, Store};

/// Numbers reserved in the store at once, with one write.
const BLOCK: u64 = 1024;

/// Microseconds for which a remote store keeps the bytes of a blob that was replaced, for those who still read it.
const KEPT_FOR: i64 = 10 * 60 * 1_000_000;

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
        if store.is_remote() {
            // Those of other servers are under way.
            return Ok(Self(Mutex::new(Numbers { next: 0, end: 0, retired: HashMap::new() })));
        }
        let (lower, upper) = (key::UPLOADS, 1u32.to_be_bytes());
        let (snapshot, mut batch, mut next) = (store.snapshot(ReadTier::Disk)?, Batch::default(), 1);
        let mut list = store.scan(Space::Blobs, &lower, &upper, &snapshot, ReadTier::Disk);
        while let Some((key, value)) = list.next()? {
            if key == key::UPLOADS {
                next = number_in(value)?;
                continue;
            }
            let (table, upload, _) = key::parts_of_blob(&key[lower.len()..]).ok_or_else(damaged)?;
            stage_removal(store, &mut batch, table, upload);
        }
        if !batch.is_empty() && !store.is_read_only() {
            store.write(&mut batch, Durability::Soft)?;
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
            numbers.next = store.atomically(Durability::Soft, |batch| {
                let stored = store.get_for(batch, Space::Blobs, &key::UPLOADS, ReadTier::Disk)?;
                let first = stored.map_or(Ok(1), |value| number_in(&value))?;
                store.put(batch, Space::Blobs, &key::UPLOADS, &(first + BLOCK).to_le_bytes());
                Ok(first)
            })?;
            numbers.end = numbers.next + BLOCK;
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

/// Removes an upload that no record refers to.
///
/// # Errors
/// What the engine returns.
pub(super) fn remove(store: &Store, table: u32, upload: u64) -> Result<()> {
    let mut batch = Batch::default();
    if store.is_remote() {
        // The bytes first: they are found by the list.
        store.destroy(&mut batch, Space::Blobs, &key::upload(table, upload));
        store.write(&mut batch, Durability::Soft)?;
        batch.clear();
        store.delete(&mut batch, Space::Blobs, &key::under_way(table, upload));
    } else {
        stage_removal(store, &mut batch, table, upload);
    }
    store.write(&mut batch, Durability::Soft)
}

fn stage_removal(store: &Store, batch: &mut Batch, table: u32, upload: u64) {
    store.delete_range(batch, Space::Blobs, &key::upload(table, upload), &key::upload(table, upload + 1));
    store.delete(batch, Space::Blobs, &key::under_way(table, upload));
}

/// Stages the removal of the bytes of a finished upload. Of a remote store, where readers have no snapshot, it puts the upload on the list
/// with the time, in microseconds since 1970.
pub(super) fn remove_bytes(store: &Store, batch: &mut Batch, table: u32, upload: u64, now: i64) {
    match store.is_remote() {
        true => store.put(batch, Space::Blobs, &key::under_way(table, upload), &now.to_le_bytes()),
        false => {
            store.delete_range(batch, Space::Blobs, &key::upload(table, upload), &key::upload(table, upload + 1));
        }
    }
}

/// Stages that no upload to a table is under way: where there are several servers, only the list tells them that the table was truncated.
pub(super) fn clear_table(store: &Store, batch: &mut Batch, table: u32) {
    if store.is_remote() {
        store.delete_range(batch, Space::Blobs, &key::under_way(table, 0), &key::under_way(table + 1, 0));
    }
}

/// Returns the uploads on the list, by table and number: no record refers to them.
///
/// # Errors
/// `Corrupt` if it is damaged; what the engine returns.
pub(super) fn unfinished(store: &Store) -> Result<HashSet<(u32, u64)>> {
    let mut found = HashSet::new();
    each_listed(store, |table, number, _| {
        found.insert((table, number));
        Ok(())
    })?;
    Ok(found)
}

/// Visits the uploads on the list: their tables and numbers, and the value.
fn each_listed(store: &Store, mut visit: impl FnMut(u32, u64, &[u8]) -> Result<()>) -> Result<()> {
    let (lower, upper) = (key::UPLOADS, 1u32.to_be_bytes());
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let mut list = store.scan(Space::Blobs, &lower, &upper, &snapshot, ReadTier::Disk);
    while let Some((key, value)) = list.next()? {
        if key != lower {
            let (table, number, _) = key::parts_of_blob(&key[lower.len()..]).ok_or_else(damaged)?;
            visit(table, number, value)?;
        }
    }
    Ok(())
}

/// An upload on the list of a remote store.
pub(super) struct Listed {
    pub table: u32,
    pub number: u64,
    why: Why,
}

/// Why an upload is on the list.
enum Why {
    /// This server has it under way.
    UnderWay([u8; 16]),
    /// Its blob was replaced at this time, in microseconds since 1970.
    Replaced(i64),
}

impl Listed {
    /// Returns the server that has it under way, if one has.
    pub fn server(&self) -> Option<&[u8; 16]> {
        match &self.why {
            Why::UnderWay(server) => Some(server),
            Why::Replaced(_) => None,
        }
    }

    /// Returns whether it can be removed: its server does not live, or nobody can be reading the blob any more.
    pub fn is_left(&self, now: i64, lives: impl Fn(&[u8; 16]) -> bool) -> bool {
        match &self.why {
            Why::UnderWay(server) => !lives(server),
            Why::Replaced(at) => at.saturating_add(KEPT_FOR) <= now,
        }
    }
}

/// Returns the list of uploads of a remote store.
///
/// # Errors
/// `Corrupt` if it is damaged; what the engine returns.
pub(super) fn listed(store: &Store) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    each_listed(store, |table, number, value| {
        let replaced = value.try_into().map(i64::from_le_bytes).map(Why::Replaced);
        let why = replaced.or_else(|_| value.try_into().map(Why::UnderWay)).map_err(|_| damaged())?;
        found.push(Listed { table, number, why });
        Ok(())
    })?;
    Ok(found)
}

fn number_in(value: &[u8]) -> Result<u64> {
    value.try_into().map(u64::from_le_bytes).map_err(|_| damaged())
}

fn damaged() -> Error {
    Error::corrupt("the list of uploads is damaged")
}
