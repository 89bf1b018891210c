//! Reads a blob from the store.

use std::ops::Range;

use self_cell::self_cell;

use super::{CHUNK_BYTES, Manifest, PIECE_BYTES, damaged, no_blob, split_checksum, verify};
use crate::encoding::{Record, key};
use crate::error::{Error, Result};
use crate::schema::Table;
use crate::storage::{Pinned, Snapshot, Space};
use crate::transaction::Database;

self_cell!(
    /// A snapshot together with the database that it belongs to.
    struct OwnedSnapshot {
        owner: Database,
        #[covariant]
        dependent: Snapshot,
    }
);

impl OwnedSnapshot {
    fn of(database: &Database) -> Result<Self> {
        Self::try_new(database.clone(), |database| database.store().snapshot(database.tier()))
    }
}

/// A blob and the range that is still to be read. Its bytes stay the same to the end, whatever happens to its record.
pub struct Reader {
    database: Database,
    /// A snapshot in which the whole blob exists; none of a remote store, which keeps the bytes of a blob for a while.
    snapshot: Option<OwnedSnapshot>,
    table: u32,
    upload: u64,
    manifest: Manifest,
    left: Range<u64>,
}

impl Reader {
    /// Opens a blob of a record, with all of it still to be read; `None` if there is no such record.
    ///
    /// # Errors
    /// `Invalid` if the table is not one of the database, or there is no such attribute; `NotFound` if the record has no such blob;
    /// `WouldBlock` on a database that answers from memory; `Corrupt`; what the engine returns.
    pub fn open(database: &Database, table: &Table, id: &str, attribute: usize) -> Result<Option<Self>> {
        database.check_issued(table)?;
        table.attribute_at(attribute)?;
        let (snapshot, tier) = (OwnedSnapshot::of(database)?, database.tier());
        let mut record = Vec::with_capacity(4 + id.len());
        key::record(table.id, id, &mut record);
        let get = |space, key: &[u8]| {
            let values = database.store().multi_get(space, &[key], snapshot.borrow_dependent(), tier)?;
            Ok::<_, Error>(values.into_iter().next().flatten())
        };
        let Some(record) = get(Space::Records, &record)? else { return Ok(None) };
        let record = Record::open(table, record)?;
        if record.has_expired(database.now())? {
            return Ok(None);
        }
        let upload = record.upload(attribute).ok_or_else(|| no_blob(table, id, attribute))?;
        let manifest = Manifest::read(get(Space::Blobs, &key::upload(table.id, upload))?.as_deref())?;
        let left = 0..manifest.length_bytes;
        let snapshot = (!database.store().is_remote()).then_some(snapshot);
        Ok(Some(Self { database: database.clone(), snapshot, table: table.id, upload, manifest, left }))
    }

    /// Returns the length of the whole blob, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.manifest.length_bytes
    }

    /// Returns what the bytes are stored under, which never change: the table and the number of the upload.
    pub fn upload(&self) -> (u32, u64) {
        (self.table, self.upload)
    }

    /// Returns the media type given when the blob was written.
    pub fn media_type(&self) -> &str {
        &self.manifest.media_type
    }

    /// Returns the tag, which changes whenever the bytes or the media type do.
    pub fn tag(&self) -> u64 {
        self.manifest.tag
    }

    /// Returns the number of bytes that are still to be read.
    pub fn left_bytes(&self) -> u64 {
        self.left.end - self.left.start
    }

    /// Restricts reading to a range, clamped to the length of the blob.
    pub fn select(&mut self, part: Range<u64>) {
        let end = part.end.min(self.manifest.length_bytes);
        self.left = part.start.min(end)..end;
    }

    /// Returns the next piece: up to the end of a chunk and at most [`PIECE_BYTES`]; empty at the end. `database` determines how far the
    /// read may go.
    ///
    /// # Errors
    /// `Invalid` if it is not the database of the blob; `Corrupt` if a chunk is damaged or missing; `WouldBlock` on a database that answers
    /// from memory; what the engine returns.
    pub fn next(&mut self, database: &Database) -> Result<Vec<u8>> {
        self.database.check_same(database, "blob")?;
        if self.left.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.left.start / CHUNK_BYTES as u64;
        let end = self.left.end.min((first * CHUNK_BYTES as u64) + PIECE_BYTES as u64);
        let chunks = first..end.div_ceil(CHUNK_BYTES as u64);
        let values = self.chunks(database, chunks.clone())?;
        let begin = first * CHUNK_BYTES as u64;
        let whole = end.next_multiple_of(CHUNK_BYTES as u64).min(self.manifest.length_bytes) - begin;
        let mut piece = Vec::with_capacity(whole as usize);
        for (value, chunk) in values.iter().zip(chunks) {
            let stored = value.as_deref().ok_or_else(|| damaged("a chunk is missing"))?;
            let ((checksum, bytes), copied) = (split_checksum(stored, self.manifest.bytes_of(chunk))?, piece.len());
            piece.extend_from_slice(bytes);
            // The copy is verified: it is what the caller receives, and it is in the processor's cache.
            verify(checksum, &piece[copied..])?;
        }
        piece.truncate((end - begin) as usize);
        piece.drain(..(self.left.start - begin) as usize);
        self.left.start = end;
        Ok(piece)
    }

    /// Reads chunks from a new snapshot if the upload still exists there, and otherwise from the one held. Of a remote store, the latest.
    fn chunks<'d>(&mut self, database: &'d Database, chunks: Range<u64>) -> Result<Vec<Option<Pinned<'d>>>> {
        let key = |chunk: u64| key::chunk(self.table, self.upload, chunk as u32);
        let keys: Vec<_> = chunks.map(key).collect();
        let get = |snapshot: &OwnedSnapshot| {
            database.store().multi_get(Space::Blobs, &keys, snapshot.borrow_dependent(), database.tier())
        };
        let Some(held) = &self.snapshot else { return get(&OwnedSnapshot::of(database)?) };
        let new = OwnedSnapshot::of(database)?;
        let values = get(&new)?;
        if values.iter().all(Option::is_some) {
            self.snapshot = Some(new);
            return Ok(values);
        }
        get(held)
    }
}
