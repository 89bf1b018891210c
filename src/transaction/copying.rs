//! A copy of a whole store into an empty one, of any engine: the way from one machine to a database, and home again.
//!
//! It copies keys and values as they are, with no schema, and the catalogue last: what was interrupted is no store. Left out are what is
//! only about servers (members, receipts), uploads that no record refers to, and the messages of multicasts.

use std::collections::HashSet;

use super::catalogue::format::{CATALOGUE, Catalogue};
use super::{members, uploads};
use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::{Durability, MESSAGES, REPEATS};
use crate::storage::{Batch, ReadTier, Space, Store};

/// Bytes and keys written at once.
const WRITTEN_BYTES: usize = 1 << 20;
const WRITTEN_KEYS: usize = 1000;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of records.
    pub records: u64,
    /// Number of index entries.
    pub entries: u64,
    /// Number of chunks and manifests of blobs.
    pub blob_parts: u64,
}

/// Copies a store that nobody writes into an empty one.
///
/// # Errors
/// `Invalid` if there is nothing to copy, the other one is not empty, or a server has one of them open; `Unsupported` if there are streams;
/// `Corrupt` if not all has arrived; what the engines return.
pub fn copy(from: &Store, to: &Store) -> Result<Copied> {
    for store in [from, to] {
        if store.is_remote() {
            members::check_alone(store)?;
        }
    }
    let Some(catalogue) = from.get(Space::Meta, CATALOGUE, ReadTier::Disk)? else {
        return Err(Error::invalid("there is no store to copy"));
    };
    if has_any(to)? {
        return Err(Error::invalid(
            "the store to copy into is not empty: name another one (?table= or ?prefix= in the URL)",
        ));
    }
    let known = Catalogue::read(&catalogue)?;
    if let Some(stream) = known.streams.first() {
        return Err(Error::Unsupported { detail: format!("stream {} cannot be copied: delete it first", stream.name) });
    }
    let of_multicasts = known.tables.iter().filter(|table| [MESSAGES, REPEATS].contains(&table.name.as_str()));
    let tables: HashSet<u32> = of_multicasts.clone().map(|table| table.id).collect();
    let indexes: HashSet<u32> = of_multicasts.flat_map(|table| &table.indexes).map(|index| index.id).collect();
    let unfinished = uploads::unfinished(from)?;
    let is_wanted = |space: Space, key: &[u8]| {
        let number = key.first_chunk().map(|number| u32::from_be_bytes(*number)).unwrap_or_default();
        match space {
            Space::Records => !tables.contains(&number),
            Space::Indexes => !indexes.contains(&number),
            Space::Blobs if number == 0 => key == key::UPLOADS,
            Space::Blobs => {
                let upload = key::parts_of_blob(key).map(|(table, upload, _)| (table, upload));
                !tables.contains(&number) && upload.is_none_or(|upload| !unfinished.contains(&upload))
            }
            Space::Meta | Space::Streams => false,
        }
    };
    let copied = Copied {
        records: copy_space(from, to, Space::Records, is_wanted)?,
        entries: copy_space(from, to, Space::Indexes, is_wanted)?,
        blob_parts: copy_space(from, to, Space::Blobs, is_wanted)?,
    };
    let mut batch = Batch::default();
    to.put(&mut batch, Space::Meta, CATALOGUE, &catalogue);
    to.write(&mut batch, Durability::Strong)?;
    let arrived = Copied {
        records: count(to, Space::Records)?,
        entries: count(to, Space::Indexes)?,
        blob_parts: count(to, Space::Blobs)?,
    };
    match arrived == copied {
        true => Ok(copied),
        false => Err(Error::corrupt(format!("{copied:?} were copied, and {arrived:?} are there"))),
    }
}

fn has_any(store: &Store) -> Result<bool> {
    for space in [Space::Records, Space::Indexes, Space::Blobs, Space::Streams] {
        if count_up_to(store, space, 1)? > 0 {
            return Ok(true);
        }
    }
    Ok(store.get(Space::Meta, CATALOGUE, ReadTier::Disk)?.is_some())
}

fn copy_space(from: &Store, to: &Store, space: Space, is_wanted: impl Fn(Space, &[u8]) -> bool) -> Result<u64> {
    let (snapshot, mut batch, mut staged, mut copied) = (from.snapshot(ReadTier::Disk)?, Batch::default(), 0, 0);
    let mut scan = from.scan(space, b"", b"", &snapshot, ReadTier::Disk);
    while let Some((key, value)) = scan.next()? {
        if !is_wanted(space, key) {
            continue;
        }
        to.put(&mut batch, space, key, value);
        (staged, copied) = (staged + 1, copied + 1);
        if staged == WRITTEN_KEYS || batch.bytes() >= WRITTEN_BYTES {
            to.write(&mut batch, Durability::Soft)?;
            batch.clear();
            staged = 0;
        }
    }
    if staged > 0 {
        to.write(&mut batch, Durability::Soft)?;
    }
    Ok(copied)
}

fn count(store: &Store, space: Space) -> Result<u64> {
    count_up_to(store, space, u64::MAX)
}

fn count_up_to(store: &Store, space: Space, most: u64) -> Result<u64> {
    let (snapshot, mut found) = (store.snapshot(ReadTier::Disk)?, 0);
    let mut scan = store.scan(space, b"", b"", &snapshot, ReadTier::Disk);
    while found < most && scan.next()?.is_some() {
        found += 1;
    }
    Ok(found)
}
