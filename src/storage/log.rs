//! The write-ahead log as readers see it: every batch that was written, in order, from any position that is still kept.
//!
//! The files of the log are read here and not through the engine's own iterator (`GetUpdatesSince`): the binding's ends where nothing
//! more was written, and a new one reads the newest file from its beginning, tens of mebibytes for every look at the end of a log that
//! grows. A [`LogReader`] keeps its place and reads each byte once. A test holds it against the iterator.
//!
//! What may be read is what readers of the store see: the engine says the number of the latest such operation, and what is not in one
//! file by then is in a later one. Numbers rise by one with every operation, across files and restarts, so a gap, or numbers that begin
//! anew because a power cut took the end of the log, are noticed: the log is not kept from there on, and the reader returns `Gone`.
//!
//! A position names the opening of the store by which its file was written ([`Openings`]), so that one of another store, of which this is
//! a copy, is not taken for one of this log.
//!
//! The engine archives files that it needs no more and would look once in ten minutes whether there are too many of them, whatever was
//! written meanwhile; so they are trimmed here, after every flush.

mod batch;
mod file;
mod openings;

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
pub(super) use openings::Openings;

/// A position in the log, between two operations. It stays the same as long as the log is kept from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Random number of the opening of the store that has written the file: a copy of the store may have other files of the same numbers.
    pub opening: u32,
    /// Number of a file of the log.
    pub file: u64,
    /// Where in it the batch begins that has the operation before the position; 0 also where the file has none before it.
    pub offset: u64,
    /// Number of the operation before the position.
    pub sequence: u64,
}

/// Reads the log, batch by batch.
pub struct LogReader<'s> {
    store: &'s Store,
    /// The family whose operations are of interest.
    family: u32,
    file: LogFile,
    /// Behind the last batch that was handed out.
    position: LogPosition,
    /// The memory of that batch, or of one that the position lies within.
    batch: Vec<u8>,
    /// Whether the rest of `batch` is to be handed out next.
    pending: bool,
}

/// A batch that was longer gives its memory back.
const KEPT_BYTES: usize = 4 << 20;

impl Store {
    /// Number of the latest operation that readers of the store see.
    pub fn latest_sequence(&self) -> u64 {
        self.db().latest_sequence_number()
    }

    /// Reads the log from a position on, for the operations on one space.
    ///
    /// # Errors
    /// `Gone` if the log is not kept from there on, or was never there; `Storage` on an I/O error.
    pub fn log_from(&self, space: Space, position: LogPosition) -> Result<LogReader<'_>> {
        if position.sequence > self.latest_sequence() || self.openings.of(position.file) != Some(position.opening) {
            return Err(gone());
        }
        let file = LogFile::open(self.db().path(), position.file, position.offset)?.ok_or_else(gone)?;
        let mut reader = LogReader::new(self, space, file, position);
        match reader.read()? {
            Some(found) if found.covers(position.sequence) => reader.pending = position.sequence < found.last,
            Some(found) if position.offset == 0 && found.first == position.sequence + 1 => reader.file.rewind(),
            // The newest one, and nothing was written since.
            None if position.offset == 0 && file_numbers(self.db().path())?.last() == Some(&position.file) => {}
            _ => return Err(gone()),
        }
        Ok(reader)
    }

    /// Reads the log from behind an operation on, which was the latest a moment ago.
    ///
    /// # Errors
    /// `Gone` if the log is not kept from there on; `Storage` on an I/O error.
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
        // All that is kept was written later: what comes next is the first of its file.
        let newest = numbers.last().copied().ok_or_else(gone)?;
        let opening = self.openings.of(newest).ok_or_else(gone)?;
        self.log_from(space, LogPosition { opening, file: newest, offset: 0, sequence })
    }

    /// Has a thread woken after every write, or nobody. A write that is under way may not know of it yet.
    pub fn wake_after_writes(&self, thread: Option<Thread>) {
        self.watcher.is_there.store(thread.is_some(), Ordering::Relaxed);
        *self.watcher.thread.write() = thread;
    }
}

/// A batch that was found in a file.
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

    /// Behind what was handed out last.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// The next batch, or what is left of the one that the reading began within; `None` if nothing more was written yet.
    ///
    /// # Errors
    /// `Gone` if what comes next is not kept any more; `Corrupt` if the log is damaged; `Storage` on an I/O error.
    #[expect(clippy::should_implement_trait, reason = "an Iterator could not lend its batches")]
    pub fn next(&mut self) -> Result<Option<LoggedBatch<'_>>> {
        let behind = self.position.sequence;
        if !std::mem::take(&mut self.pending) {
            // Asked before the files: what is not in this one now is in a later one, or nowhere.
            if behind >= self.store.latest_sequence() {
                return Ok(None);
            }
            let found = loop {
                match self.read()? {
                    // One without operations has no position of its own.
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

    /// Goes on with the next file.
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

/// The thread that is woken after writes.
#[derive(Default)]
pub(super) struct Watcher {
    is_there: AtomicBool,
    thread: RwLock<Option<Thread>>,
}

impl Watcher {
    /// A write is in the log and visible. Costs one relaxed load if nobody is to be woken.
    #[inline]
    pub(super) fn wake(&self) {
        if self.is_there.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.read().as_ref()
        {
            thread.unpark();
        }
    }
}

/// Where the engine puts files of the log that it needs no more.
pub(super) fn archive(directory: &Path) -> PathBuf {
    directory.join("archive")
}

/// Removes the oldest archived files, so far that the others have at most `most_bytes` bytes together. One that cannot be removed stays
/// until the next time.
pub(super) fn trim(directory: &Path, most_bytes: u64) {
    let archive = archive(directory);
    let mut numbers = Vec::new();
    // Without a folder nothing was archived.
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

/// The numbers of all files of the log, ascending.
fn file_numbers(directory: &Path) -> Result<Vec<u64>> {
    let cannot = |error| Error::storage("cannot list the files of the log", error);
    let mut numbers = Vec::new();
    // In this order: one that is archived meanwhile is met twice, and not missed.
    add_numbers(directory, &mut numbers).map_err(cannot)?;
    match add_numbers(&archive(directory), &mut numbers) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => {}
    }
    numbers.sort_unstable();
    numbers.dedup();
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
