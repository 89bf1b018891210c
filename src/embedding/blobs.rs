//! Blobs as streams of bytes (`std::io`).

use std::io::{self, Read, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use super::database::Database;
use crate::blobs;
use crate::error::{Error, Result};

/// How often, and for how long, a piece is written again for which the engine had no room.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(10);

/// A blob that is read ([`Database::blob`](crate::Database::blob)). Its bytes stay the same to the end, whatever happens to its record. It
/// keeps the database open.
pub struct BlobReader {
    reader: blobs::Reader,
    database: Database,
    /// What was read and not taken.
    piece: Vec<u8>,
    taken: usize,
}

impl std::fmt::Debug for BlobReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobReader({} of {} bytes left)", self.reader.left_bytes(), self.length())
    }
}

impl BlobReader {
    pub(super) fn new(reader: blobs::Reader, database: &Database) -> Self {
        Self { reader, database: database.clone(), piece: Vec::new(), taken: 0 }
    }

    /// Returns the length of the whole blob, in bytes.
    pub fn length(&self) -> u64 {
        self.reader.length_bytes()
    }

    /// Returns the media type that it was written with.
    pub fn media_type(&self) -> &str {
        self.reader.media_type()
    }

    /// Returns its tag, which changes with its bytes and its media type, as a [`Precondition`](crate::Precondition) names it.
    pub fn tag(&self) -> u64 {
        self.reader.tag()
    }

    /// Reads these bytes next, and then ends.
    pub fn select(&mut self, part: Range<u64>) {
        self.reader.select(part);
        self.piece.clear();
        self.taken = 0;
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            (self.piece, self.taken) = (self.reader.next(self.database.inner()).map_err(io::Error::other)?, 0);
        }
        let bytes = buffer.len().min(self.piece.len() - self.taken);
        buffer[..bytes].copy_from_slice(&self.piece[self.taken..self.taken + bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

/// A blob that is written ([`Database::write_blob`](crate::Database::write_blob)). Nobody sees it before [`BlobWriter::finish`]; dropped
/// before, it leaves nothing. It keeps the database open.
pub struct BlobWriter {
    upload: blobs::Upload,
    database: Database,
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobWriter({})", self.upload.path())
    }
}

impl BlobWriter {
    pub(super) fn new(upload: blobs::Upload, database: &Database) -> Self {
        Self { upload, database: database.clone() }
    }

    /// Makes the record refer to what was written, with the durability of its table; returns the tag.
    ///
    /// # Errors
    /// `NotFound` if the record no longer exists; `Stale` if the precondition fails; `Busy` if the engine cannot keep up for 10 s; what the
    /// engine returns.
    pub fn finish(mut self) -> Result<u64> {
        let Self { upload, database } = &mut self;
        keeping_up(|| upload.finish(database.inner())).map(|uploaded| uploaded.tag)
    }
}

impl Write for BlobWriter {
    /// Blocks while the engine cannot keep up, for 10 s at most.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        keeping_up(|| self.upload.write()).map_err(io::Error::other)?;
        Ok(self.upload.take(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Repeats what has changed nothing while the engine cannot keep up.
fn keeping_up<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + LONGEST;
    loop {
        match attempt() {
            Err(Error::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}
