//! Writes a blob into the store.

use std::cell::Cell;
use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::{CHECKSUM_BYTES, CHUNK_BYTES, MEDIA_TYPE_BYTES, Manifest, PIECE_BYTES, admit, seal};
use crate::encoding::{key, url};
use crate::error::{Error, Result};
use crate::schema::{Durability, Table};
use crate::storage::{Batch, Space, Store};
use crate::transaction::{Database, Precondition, Transaction};

/// Bytes of a chunk, and of a piece, as stored.
const STORED_CHUNK_BYTES: usize = CHECKSUM_BYTES + CHUNK_BYTES;
const STORED_PIECE_BYTES: usize = PIECE_BYTES / CHUNK_BYTES * STORED_CHUNK_BYTES;

/// An upload under way. It holds at most one piece in memory. Dropping it before it is finished deletes what it has written, which may
/// block.
pub struct Upload {
    database: Database,
    /// Position of the table in the schema.
    table: usize,
    id: String,
    attribute: usize,
    expected: Precondition,
    media_type: String,
    number: u64,
    /// Chunks that are not written yet, at most one piece, in their stored form.
    pending: Vec<u8>,
    /// Offset in `pending` of the chunk that is incomplete and has no checksum.
    unfinished: Option<usize>,
    /// Number of chunks written.
    written: u32,
    length_bytes: u64,
    /// Hash of the media type, a zero byte and the checksums of all chunks so far.
    tag: XxHash3_64,
    /// Whether chunks were written that no record refers to yet.
    is_open: bool,
}

/// The outcome of a finished upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// The tag of the blob, which changes whenever its bytes or its media type do.
    pub tag: u64,
    /// Whether there was no blob before.
    pub created: bool,
}

impl Upload {
    /// Begins to upload a blob of an existing record. `expected` is the precondition on the blob that it replaces, checked now and at the
    /// end; its checksums are tags.
    ///
    /// # Errors
    /// `NotFound` if there is no such record; `Stale` if the precondition fails; `Invalid` if the attribute is not a Blob, or the media
    /// type is too long; what the engine returns.
    pub fn begin(
        database: &Database,
        table: &Table,
        id: &str,
        attribute: usize,
        media_type: &str,
        expected: Precondition,
    ) -> Result<Self> {
        if !table.blobs.contains(&attribute) {
            return Err(Error::invalid(format!("this attribute of {} is not a Blob", table.name)));
        }
        if media_type.len() > MEDIA_TYPE_BYTES {
            return Err(Error::invalid(format!("the media type is longer than {MEDIA_TYPE_BYTES} bytes")));
        }
        let record = database.read(table, id)?.ok_or_else(|| no_record(table, id))?;
        let get = |key: &[u8]| database.store().get(Space::Blobs, key, database.tier());
        admit(table, record.upload(attribute), &expected, get)?;
        let position = database.schema().tables.iter().position(|known| known.id == table.id);
        let mut tag = XxHash3_64::new();
        tag.write(media_type.as_bytes());
        tag.write_u8(0);
        Ok(Self {
            number: database.begin_upload(table, id)?,
            database: database.clone(),
            table: position.expect("the database has read a record of the table"),
            id: id.to_owned(),
            attribute,
            expected,
            media_type: media_type.to_owned(),
            pending: Vec::with_capacity(STORED_PIECE_BYTES),
            unfinished: None,
            written: 0,
            length_bytes: 0,
            tag,
            is_open: false,
        })
    }

    /// Copies as many bytes as there is room for and returns how many. When the room is used up, [`Upload::write`] makes more.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let mut left = bytes;
        while !left.is_empty() && self.pending.len() < STORED_PIECE_BYTES {
            let begin = self.unfinished.unwrap_or(self.pending.len());
            if self.unfinished.is_none() {
                self.unfinished = Some(begin);
                self.pending.extend_from_slice(&[0; CHECKSUM_BYTES]);
            }
            let (taken, rest) = left.split_at(left.len().min(begin + STORED_CHUNK_BYTES - self.pending.len()));
            self.pending.extend_from_slice(taken);
            left = rest;
            if self.pending.len() == begin + STORED_CHUNK_BYTES {
                self.end_chunk();
            }
        }
        let taken = bytes.len() - left.len();
        self.length_bytes += taken as u64;
        taken
    }

    /// Writes the checksum of the unfinished chunk, which is full or the last one.
    fn end_chunk(&mut self) {
        if let Some(begin) = self.unfinished.take() {
            let checksum = seal(&mut self.pending[begin..]);
            self.tag.write_u64(checksum);
        }
    }

    /// Returns the path of the blob.
    pub fn path(&self) -> String {
        let table = self.table();
        url::blob(&table.name, &self.id, &table.attributes[self.attribute].name)
    }

    /// Returns whether it has written chunks that are deleted if it is dropped.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Writes the piece in memory, if it is full.
    ///
    /// # Errors
    /// `Busy` if the engine cannot keep up: nothing was written, and the call may be repeated later; what else the engine returns.
    pub fn write(&mut self) -> Result<()> {
        if self.pending.len() == STORED_PIECE_BYTES { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<()> {
        let store = self.database.store();
        check_room(store)?;
        // Not cached in the thread: uploads share threads.
        let mut batch = Batch::default();
        if !self.is_open {
            store.put(&mut batch, Space::Blobs, &key::under_way(self.table().id, self.number), store.server());
        }
        self.stage(store, &mut batch);
        // The log keeps the order of writes: if the end of the upload is durable, so are these chunks.
        store.write(&mut batch, Durability::Soft)?;
        self.is_open = true;
        self.written += self.pending.len().div_ceil(STORED_CHUNK_BYTES) as u32;
        self.pending.clear();
        Ok(())
    }

    /// Writes the rest and makes the record refer to it, with the durability of its table. `database` determines how far reads may go and
    /// whether the sync is left to the caller. After an error it may be called again.
    ///
    /// # Errors
    /// `Invalid` if it is another database; `NotFound` if the record no longer exists; `Stale` if the precondition fails; `Busy` if the
    /// engine cannot keep up; as [`Database::set_blob`].
    pub fn finish(&mut self, database: &Database) -> Result<Uploaded> {
        self.database.check_same(database, "upload")?;
        self.end_chunk();
        // The rest of a blob longer than a piece is written before the record is locked.
        match self.is_open && !self.pending.is_empty() {
            true => self.write_pending()?,
            false => check_room(database.store())?,
        }
        let (this, created) = (&*self, Cell::new(false));
        let (table, tag) = (this.table(), this.tag.finish());
        let manifest = Manifest { length_bytes: this.length_bytes, tag, media_type: this.media_type.clone() };
        let manifest = manifest.to_bytes();
        let accept = |transaction: &mut Transaction<'_>, upload: Option<u64>| {
            created.set(upload.is_none());
            // Another server may have truncated the table, or taken this one for dead: both remove what was uploaded.
            if this.is_open
                && database.store().is_remote()
                && transaction.get(Space::Blobs, &key::under_way(table.id, this.number))?.as_deref()
                    != Some(database.store().server())
            {
                return Err(no_record(table, &this.id));
            }
            admit(table, upload, &this.expected, |key| transaction.get(Space::Blobs, key))
        };
        let stage = |store: &Store, batch: &mut Batch| {
            this.stage(store, batch);
            store.put(batch, Space::Blobs, &key::upload(table.id, this.number), &manifest);
            if this.is_open {
                store.delete(batch, Space::Blobs, &key::under_way(table.id, this.number));
            }
        };
        let ended = database.set_blob(table, &this.id, this.attribute, Some(this.number), accept, stage);
        // After an I/O error the outcome is unknown: either the record refers to the bytes, or they are deleted when the store is opened
        // again; those of a remote store, once no server has the upload under way.
        if matches!(ended, Ok(()) | Err(Error::Storage { .. } | Error::Unknown { .. })) {
            self.is_open = false;
        }
        ended.map(|()| Uploaded { tag, created: created.get() })
    }

    fn table(&self) -> &Table {
        &self.database.schema().tables[self.table]
    }

    /// Stages the chunks that are not written yet.
    fn stage(&self, store: &Store, batch: &mut Batch) {
        let table = self.table().id;
        for (chunk, number) in self.pending.chunks(STORED_CHUNK_BYTES).zip(self.written..) {
            store.put(batch, Space::Blobs, &key::chunk(table, self.number, number), chunk);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_open {
            // If the engine cannot keep up, [`Database::work`] deletes it; after an I/O error, the next opening of the store does.
            let _ = self.database.abandon_upload(self.table(), self.number);
        }
    }
}

fn check_room(store: &Store) -> Result<()> {
    match store.has_room_for(Space::Blobs)? {
        true => Ok(()),
        false => Err(Error::Busy { detail: "the storage engine cannot keep up with the writes of blobs".to_owned() }),
    }
}

fn no_record(table: &Table, id: &str) -> Error {
    Error::NotFound { detail: format!("there is no record {id:?} in {}", table.name) }
}
