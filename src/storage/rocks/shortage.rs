//! A shortage of file descriptors, and the recovery from it.
//!
//! To the engine a file that cannot be opened is a fatal error: it would refuse all writes until the store is opened again, long after
//! descriptors are free. So its listener suppresses these errors, which RocksDB allows. Nothing is lost by that: the engine goes on with the
//! memtables and the log file that it has. But it does not say when it tries again, and its memtables would grow meanwhile; so writes are
//! refused until descriptors are free, and then everything that was due is flushed.
//!
//! There is no thread for this. Whoever writes, or asks for the state of the store, looks whether the shortage has passed, and then waits for
//! the disk: who may not wait asks [`Store::is_short`] first.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rust_rocksdb as rocksdb;
use rust_rocksdb::event_listener::DBBackgroundErrorReason as Reason;

use super::{Space, Store, gauges, memtables};
use crate::error::{Error, Result};

/// Number of descriptors that must be free: a flush opens a log file, a sorted file, a blob file, and reads what it has written.
const NEEDED: usize = 8;

/// More memtables than can be waiting to be flushed.
const MANY_MEMTABLES: i32 = 1000;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the engine was short of descriptors, and has not recovered.
#[derive(Default)]
pub(super) struct Shortage {
    lasts: AtomicBool,
    /// How many files the engine could not open.
    times: AtomicU64,
    looked: Mutex<Option<Instant>>,
}

impl Shortage {
    /// Records that the engine could not open a file. Not called while another thread calls [`Shortage::end`].
    pub(super) fn begin(&self) {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.lasts.store(true, Ordering::Relaxed);
    }

    /// Records that it has recovered, unless it has lacked a file more often than so many times; returns whether it has.
    pub(super) fn end(&self, times: u64) -> bool {
        let is_over = self.times.load(Ordering::Relaxed) == times;
        if is_over {
            self.lasts.store(false, Ordering::Relaxed);
        }
        is_over
    }

    /// Returns whether the engine has not recovered.
    pub(super) fn lasts(&self) -> bool {
        self.lasts.load(Ordering::Relaxed)
    }
}

/// Returns whether an error of the engine is a shortage of descriptors, of the process or of the system (EMFILE, ENFILE). The binding has
/// nothing but the text.
pub(super) fn is_shortage(error: &rocksdb::Error) -> bool {
    error.kind() == rocksdb::ErrorKind::IOError && is_named_in(error.as_ref())
}

/// Returns whether the text of an error names a shortage.
pub(super) fn is_named_in(text: &str) -> bool {
    text.contains("Too many open files")
}

/// Returns whether the engine may go on after failing to open a file in this work. After a change of the manifest it may not.
pub(super) fn may_go_on(reason: &Reason) -> bool {
    matches!(reason, Reason::KFlush | Reason::KFlushNoWAL | Reason::KMemTable | Reason::KCompaction)
}

impl Store {
    /// Returns whether the engine was short of descriptors and has not recovered: a write, or the question why it refuses writes, may then
    /// wait for the disk.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.background.shortage.lasts()
    }

    /// Checks that the engine is not short of descriptors; after a shortage that has passed, has it catch up first.
    ///
    /// # Errors
    /// `Busy` while the shortage lasts.
    #[inline]
    pub(super) fn check_descriptors(&self) -> Result<()> {
        match self.is_short() {
            false => Ok(()),
            true => self.recover(),
        }
    }

    /// Looks whether the shortage has passed: one thread at a time, and not more often than each [`PAUSE`].
    #[cold]
    fn recover(&self) -> Result<()> {
        let shortage = &self.background.shortage;
        // Another thread is looking.
        let Some(mut looked) = shortage.looked.try_lock() else { return Err(busy()) };
        if looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return Err(busy());
        }
        let outcome = self.catch_up();
        *looked = Some(Instant::now());
        outcome
    }

    /// Has everything flushed that was due, if descriptors are free.
    fn catch_up(&self) -> Result<()> {
        if !are_free(self.db().path()) {
            return Err(busy());
        }
        let shortage = &self.background.shortage;
        let times = shortage.times.load(Ordering::Relaxed);
        let flushed = self.flush_all().or_else(|_| {
            // Writes have stopped for memtables whose flush has failed, and while they are stopped the engine accepts no flush.
            let stopped = self.stopped_by_memtables();
            let flushed = self.allow_memtables(&stopped, MANY_MEMTABLES).and_then(|()| self.flush_all());
            self.allow_memtables(&stopped, 0).and(flushed)
        });
        match flushed {
            Ok(()) if self.background.end_shortage(times) => Ok(()),
            Ok(()) => Err(busy()),
            Err(error) => {
                tracing::warn!("the storage cannot go on yet and will try again: {error}");
                Err(busy())
            }
        }
    }

    /// Returns the spaces that have as many memtables as they may have, or do not say.
    fn stopped_by_memtables(&self) -> Vec<Space> {
        let is_full = |space| gauges::memtables(self, space).map_or(true, |(full, _)| full >= memtables(space) as u64);
        Space::ALL.into_iter().filter(|space| is_full(*space)).collect()
    }

    /// Sets the number of memtables at which writes stop, for these spaces, to `more` than usual. Each writes several files.
    fn allow_memtables(&self, spaces: &[Space], more: i32) -> std::result::Result<(), rocksdb::Error> {
        let mut outcome = Ok(());
        for space in spaces {
            let number = (memtables(*space) + more).to_string();
            // Each of them, whatever becomes of the others.
            outcome =
                outcome.and(self.db().set_options_cf(&self.family(*space), &[("max_write_buffer_number", &number)]));
        }
        outcome
    }
}

/// Returns the error of an operation that needs a descriptor.
pub(super) fn busy() -> Error {
    Error::Busy { detail: "no file can be opened: the limit of open files is reached".to_owned() }
}

/// Returns whether files can be opened.
fn are_free(directory: &Path) -> bool {
    let files: Vec<_> = (0..NEEDED).map_while(|_| File::open(directory).ok()).collect();
    files.len() == NEEDED
}
