//! Blobs: values too long for a record, stored in chunks beside it, written and read as streams.
//!
//! ```text
//! record    of a Blob attribute: its path in the text, the number of its upload in the eight bytes
//! manifest  [table][upload]         -> version, length, tag, media type, checksum
//! chunk     [table][upload][number] -> XXH3-64 of the bytes (u64, little-endian), bytes: 64 KiB, the last one what is left
//! ```
//! **An upload** ([`Upload`]) writes its chunks as they arrive, under a number that no other upload has had. They stay invisible until one
//! batch makes the record refer to that number; the same batch deletes what the record referred to before. So a reader sees either all of
//! the old bytes or all of the new ones. The chunks of an aborted upload are deleted when it is dropped; those left by a killed process,
//! when the store is opened (`transaction`). A blob that fits in one piece is written by that one batch.
//!
//! **A reader** ([`Reader`]) reads record, manifest and chunks from one snapshot, however slowly its bytes are consumed. The bytes under a
//! number never change, so it takes a newer snapshot with every piece as long as the upload still exists, and stays at the last one at
//! which it did: an old snapshot would keep the engine from dropping overwritten data. A replacement neither mixes nor cuts what is read.
//!
//! A piece is four chunks. The incoming bytes of an upload are gathered into a piece, which is written before the next is read. Where the
//! flushes of blobs are behind, the write is `Busy` and is tried again a little later, before the memtables of blobs are full: so an upload
//! never makes the engine stall the writers of records.
//!
//! Whatever takes the number of an upload out of a record (a replacement, a delete, an expiration) deletes what is stored under it in the
//! same batch, and so does a truncation. The media type is stored and returned as text; nothing here interprets it.
//!
//! Memory use does not depend on the length of a blob: both hold one piece at most. Every checksum is verified before a chunk is used.
//!
//! Non-goals: when a piece is written or read, and where that may block (`ingress`).

mod check;
mod manifest;
mod reader;
mod upload;

use twox_hash::XxHash3_64;

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::Table;
use crate::storage::{Pinned, Space};
use crate::transaction::{Database, Precondition, Transaction};
pub use check::disagreements;
use manifest::Manifest;
pub use reader::Reader;
pub use upload::{Upload, Uploaded};

/// Bytes of a chunk, except the last one.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Maximum number of bytes written or read at once.
pub const PIECE_BYTES: usize = 4 * CHUNK_BYTES;

/// Maximum length of a media type, in bytes.
pub const MEDIA_TYPE_BYTES: usize = 255;

/// Removes a blob from its record, which is a write of the record.
///
/// # Errors
/// `NotFound` if there is no such record, or it has no such blob; `Stale` if the precondition fails, whose checksums are the tags of blobs;
/// as [`Database::set_blob`].
pub fn remove(database: &Database, table: &Table, id: &str, attribute: usize, expected: &Precondition) -> Result<()> {
    let accept = |transaction: &mut Transaction<'_>, upload: Option<u64>| match upload {
        Some(_) => admit(table, upload, expected, |key| transaction.get(Space::Blobs, key)),
        None => Err(no_blob(table, id, attribute)),
    };
    database.set_blob(table, id, attribute, None, accept, |_, _| {})
}

/// Checks the precondition of a change of a blob; `upload` is `None` if there is no blob. `get` reads a manifest by its key.
fn admit<'d>(
    table: &Table,
    upload: Option<u64>,
    expected: &Precondition,
    get: impl FnOnce(&[u8]) -> Result<Option<Pinned<'d>>>,
) -> Result<()> {
    match (expected, upload) {
        (Precondition::None, _) | (Precondition::Exists, Some(_)) | (Precondition::Absent, None) => Ok(()),
        (Precondition::OneOf(tags), Some(upload)) => {
            let manifest = Manifest::read(get(&key::upload(table.id, upload))?.as_deref())?;
            if tags.contains(&manifest.tag) { Ok(()) } else { Err(Error::Stale) }
        }
        _ => Err(Error::Stale),
    }
}

fn no_blob(table: &Table, id: &str, attribute: usize) -> Error {
    let name = &table.attributes[attribute].name;
    Error::NotFound { detail: format!("record {id:?} of {} has no {name}", table.name) }
}

/// Bytes of the checksum stored before those of a chunk.
const CHECKSUM_BYTES: usize = 8;

/// Writes the checksum of a chunk into the room before its bytes, and returns it.
fn seal(stored: &mut [u8]) -> u64 {
    let (room, bytes) = stored.split_at_mut(CHECKSUM_BYTES);
    let checksum = XxHash3_64::oneshot(bytes);
    room.copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Returns the checksum and the bytes of a stored chunk, which must have the given length.
fn split_checksum(stored: &[u8], length: usize) -> Result<(u64, &[u8])> {
    let parts = stored.split_first_chunk::<CHECKSUM_BYTES>().filter(|(_, bytes)| bytes.len() == length);
    let (checksum, bytes) = parts.ok_or_else(|| damaged("wrong chunk length"))?;
    Ok((u64::from_le_bytes(*checksum), bytes))
}

/// Verifies the checksum of a chunk.
fn verify(checksum: u64, bytes: &[u8]) -> Result<()> {
    match checksum == XxHash3_64::oneshot(bytes) {
        true => Ok(()),
        false => Err(damaged("chunk checksum mismatch")),
    }
}

#[cold]
fn damaged(how: &str) -> Error {
    Error::corrupt(format!("a blob: {how}"))
}

#[cfg(test)]
mod tests;
