//! Reads the write-ahead log: every batch that was written, in order, from any position that is still kept.
//!
//! The log files are read here and not through the engine's own iterator (`GetUpdatesSince`): the binding's iterator ends when it reaches
//! the end of the log, and a new one reads the newest file from its beginning, tens of mebibytes for every poll of a growing log. A
//! [`LogReader`] keeps its position and reads each byte once. A test compares it with the iterator.
//!
//! Readers of the log see what readers of the store see: the engine reports the sequence number of the latest visible operation, and an
//! operation up to it that is not in one file by then is in a later one. Sequence numbers increase by one with every operation, across
//! files and restarts. A gap, or numbers that start over because a power cut took the end of the log, is detected: the log is not kept from
//! there on, and the reader returns `Gone`.
//!
//! A position names the opening of the store that wrote its file ([`Openings`]), so that a position of another store, of which this one is
//! a copy, is not mistaken for one in this log.
//!
//! The engine archives log files that it no longer needs, and would check only every ten minutes whether there are too many of them,
//! however much is written; so they are trimmed here, after every flush.

mod batch;
mod file;
mod inspection;
mod manifest;
mod openings;
mod synced;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use parking_lot::RwLock;
use rust_rocksdb::AsColumnFamilyRef;

use super::{Space, Store};
use crate::error::{Error, Result};
pub use batch::{LoggedBatch, Operation};
use file::LogFile;
pub(super) use file::masked_crc;
pub use inspection::vouch;
pub(super) use inspection::{LostEnd, check};
pub(super) use openings::Openings;
pub(super) use synced::Synced;

/// A position in the log, between two operations. It stays the same as long as the log is kept from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Random number of the opening of the store that wrote the file; a copy of the store may have other files with the same numbers.
    pub opening: u32,
    /// Number of the log file.
    pub file: u64,
    /// Offset in the file of the batch with the operation before the position; 0 also if the file has no operation before it.
    pub offset: u64,
    /// Sequence number of the operation before the position.
    pub sequence: u64,
}

/// Reads the log batch by batch.
pub struct LogReader<'s> {
    store: &'s Store,
    /// Id of the column family to read.
    family: u32,
    file: LogFile,
    /// Position after the last batch that was returned.
    position: LogPosition,
    /// Buffer of that batch, or of the one that contains the position.
    batch: Vec<u8>,
    /// Whether the rest of `batch` is returned next.
    pending: bool,
}

/// A larger batch buffer is freed after use.
const KEPT_BYTES: usize = 4 << 20;

impl Store {
    pub fn latest_sequence(&self) -> u64 {
        self.db().latest_sequence_number()
    }

    pub fn log_from(&self, space: Space, position: LogPosition) -> Result<LogReader<'_>> {
        if position.sequence > self.latest_sequence() || self.openings.of(position.file) != Some(position.opening) {
            return Err(gone());
        }
        let file = LogFile::open(self.db().path(), position.file, position.offset)?.ok_or_else(gone)?;
        let mut reader = LogReader::new(self, space, file, position);
        match reader.read()? {
            Some(found) if found.covers(position.sequence) => reader.pending = position.sequence < found.last,
            Some(found) if position.offset == 0 && found.first == position.sequence + 1 => reader.file.rewind(),
            // The newest file, and nothing was written since.
            None if position.offset == 0 && file_numbers(self.db().path())?.last() == Some(&position.file) => {}
            _ => return Err(gone()),
        }
        Ok(reader)
    }

    pub fn log_behind(&self, space: Space, sequence: u64) -> Result<LogReader<'_>> {
        let directory = self.db().path();
        let numbers = file_numbers(directory)?;
        for number in numbers.iter().rev() {
            let Some(opening) = self.openings.of(*number) else { break };
            let Some(file) = LogFile::open(directory, *number, 0)? else { continue };
            let mut reader =
                LogReader::new(self, space, file, LogPosition { opening, file: *number, offset: 0, sequence });
            while let Some(found) = reader.read()?.filter(|found| found.first <= sequence) {
                reader.position.offset = found.offset;
                if found.covers(sequence) {
                    reader.pending = sequence < found.last;
                    return Ok(reader);
                }
            }
        }
        // Everything that is kept was written later: the next operation is the first of its file.
        let newest = numbers.last().copied().ok_or_else(gone)?;
        let opening = self.openings.of(newest).ok_or_else(gone)?;
        self.log_from(space, LogPosition { opening, file: newest, offset: 0, sequence })
    }

    pub fn wake_after_writes(&self, thread: Option<Thread>) {
        self.watcher.is_there.store(thread.is_some(), Ordering::Relaxed);
        *self.watcher.thread.write() = thread;
    }
}

/// A batch found in a file.
struct Found {
    offset: u64,
    first: u64,
    last: u64,
}

impl Found {
    fn covers(&self, sequence: u64) -> bool {
        self.first <= sequence && sequence <= self.last
    }
}

impl<'s> LogReader<'s> {
    fn new(store: &'s Store, space: Space, file: LogFile, position: LogPosition) -> Self {
        let family = store.family(space).id();
        Self { store, family, file, position, batch: Vec::new(), pending: false }
    }

    /// Returns the position after the last batch that was returned.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Returns the next batch, or the rest of the one in which reading began; `None` if nothing more was written yet.
    ///
    /// # Errors
    /// `Gone` if what comes next is no longer kept; `Corrupt` if the log is damaged; `Storage` on an I/O error.
    #[expect(clippy::should_implement_trait, reason = "an Iterator could not lend its batches")]
    pub fn next(&mut self) -> Result<Option<LoggedBatch<'_>>> {
        let behind = self.position.sequence;
        if !std::mem::take(&mut self.pending) {
            // Checked before the files: an operation up to this number that is not in this file now is in a later one, or lost.
            if behind >= self.store.latest_sequence() {
                return Ok(None);
            }
            let found = loop {
                match self.read()? {
                    // A batch without operations has no position of its own.
                    Some(found) if found.last < found.first => {}
                    Some(found) => break found,
                    None => self.go_on()?,
                }
            };
            if found.first != behind + 1 {
                return Err(gone());
            }
            self.position.offset = found.offset;
        }
        let batch = LoggedBatch::new(&self.batch, self.family, LogPosition { sequence: behind, ..self.position })?;
        self.position.sequence = batch.last();
        Ok(Some(batch))
    }

    /// Reads the next batch of the file.
    fn read(&mut self) -> Result<Option<Found>> {
        if self.batch.capacity() > KEPT_BYTES {
            self.batch = Vec::new();
        }
        let Some(offset) = self.file.next(&mut self.batch)? else { return Ok(None) };
        let (first, last) = batch::numbers(&self.batch)?;
        Ok(Some(Found { offset, first, last }))
    }

    /// Continues with the next file.
    fn go_on(&mut self) -> Result<()> {
        let directory = self.store.db().path();
        let next = file_numbers(directory)?.into_iter().find(|number| *number > self.file.number());
        let next = next.ok_or_else(gone)?;
        self.file = LogFile::open(directory, next, 0)?.ok_or_else(gone)?;
        let opening = self.store.openings.of(next).ok_or_else(gone)?;
        self.position = LogPosition { opening, file: next, offset: 0, ..self.position };
        Ok(())
    }
}

fn gone() -> Error {
    Error::Gone { detail: "the changes after this event are no longer kept".to_owned() }
}

/// The thread to unpark after writes.
#[derive(Default)]
pub(super) struct Watcher {
    is_there: AtomicBool,
    thread: RwLock<Option<Thread>>,
}

impl Watcher {
    /// Called when a write is in the log and visible. Costs one relaxed load if no thread is registered.
    #[inline]
    pub(super) fn wake(&self) {
        if self.is_there.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.read().as_ref()
        {
            thread.unpark();
        }
    }
}

/// Returns the directory to which the engine moves log files that it no longer needs.
pub(super) fn archive(directory: &Path) -> PathBuf {
    directory.join("archive")
}

/// Removes the oldest archived files until the others have at most `most_bytes` bytes together. A file that cannot be removed stays until
/// the next time.
pub(super) fn trim(directory: &Path, most_bytes: u64) {
    let archive = archive(directory);
    let mut numbers = Vec::new();
    // If the directory does not exist, nothing was archived.
    let _ = add_numbers(&archive, &mut numbers);
    numbers.sort_unstable();
    let mut kept_bytes = 0u64;
    for number in numbers.iter().rev() {
        let path = archive.join(file::name(*number));
        kept_bytes = kept_bytes.saturating_add(fs::metadata(&path).map_or(0, |file| file.len()));
        if kept_bytes > most_bytes {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the numbers of all log files, ascending.
fn file_numbers(directory: &Path) -> Result<Vec<u64>> {
    let cannot = |error| Error::storage("cannot list the files of the log", error);
    let mut numbers = Vec::new();
    // In this order: a file that is archived meanwhile is found twice rather than missed.
    add_numbers(directory, &mut numbers).map_err(cannot)?;
    match add_numbers(&archive(directory), &mut numbers) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Returns the numbers of the log files in a directory alone, ascending.
fn numbers_in(directory: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    add_numbers(directory, &mut numbers).map_err(|error| Error::storage("cannot list the files of the log", error))?;
    numbers.sort_unstable();
    Ok(numbers)
}

fn add_numbers(directory: &Path, numbers: &mut Vec<u64>) -> std::io::Result<()> {
    for file in fs::read_dir(directory)? {
        numbers.extend(file?.file_name().to_str().and_then(file::number));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
