//! Up to where the log was synced: what the store counts on at its next opening.
//!
//! The log itself cannot say it. Where a file ends, or has an invalid record, the writer may have been interrupted, or a power cut may have
//! taken what was not synced; or the disk has lost what was. So the store notes the last operation that was synced, in two places:
//!
//! * the file `SYNCED` beside those of the engine, at most once a second, and when the store is closed;
//! * the log: before each sync, the operation that the sync before it has reached. So damage is told from a torn end by what lies behind it.
//!
//! The file also has the operation behind which this opening of the store has written, and the files in which: from there on the operations
//! are numbered without a gap, so a missing file is noticed, too. It is JSON, replaced by rename. A power cut may leave an older one of the
//! same opening, which claims less.
//!
//! A copy of a store (checkpoint, backup, restore) gets a file of its own: its log goes on by itself from there.
//!
//! History of the format: 1, the first.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::file::LogFile;
use super::numbers_in;
use crate::error::{Error, Result};

const NAME: &str = "SYNCED";
const FORMAT: u32 = 1;

/// The interval at which the file is written.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Sequence number of the operation behind which it begins.
    pub(super) behind: u64,
    /// Number of its first file.
    pub(super) oldest: u64,
    /// Sequence number of the operation up to which it is synced.
    pub(super) synced: u64,
    /// Number of a file that was synced, the newest with operations.
    pub(super) newest: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    #[serde(flatten)]
    claim: Claim,
    checksum: u64,
}

fn checksum(Claim { behind, oldest, synced, newest }: Claim) -> u64 {
    XxHash3_64::oneshot(&[behind, oldest, synced, newest].map(u64::to_le_bytes).concat())
}

/// Returns what the file in a directory says; `None` if there is none that is valid.
pub(super) fn stored(directory: &Path) -> Option<Claim> {
    let stored: Stored = serde_json::from_slice(&fs::read(directory.join(NAME)).ok()?).ok()?;
    (stored.format == FORMAT && stored.checksum == checksum(stored.claim)).then_some(stored.claim)
}

/// Replaces the file; with `durably`, a power cut leaves no older one.
///
/// # Errors
/// `Storage` on an I/O error.
pub(super) fn store(directory: &Path, claim: Claim, durably: bool) -> Result<()> {
    let (path, written) = (directory.join(NAME), directory.join(format!("{NAME}.new")));
    let write = || {
        let json = serde_json::to_vec(&Stored { format: FORMAT, claim, checksum: checksum(claim) })?;
        let mut file = File::create(&written)?;
        file.write_all(&json)?;
        if durably {
            file.sync_all()?;
        }
        fs::rename(&written, &path)?;
        if durably { File::open(directory)?.sync_all() } else { Ok(()) }
    };
    write().map_err(|error| Error::storage(format!("cannot replace the file {NAME}"), error))
}

/// Returns the number of the newest file with operations; 0 if there is none.
fn newest_file(directory: &Path) -> u64 {
    let has_some = |number: &u64| {
        let file = LogFile::open(directory, *number, 0).ok().flatten();
        file.is_some_and(|mut file| file.next(&mut Vec::new()).is_ok_and(|found| found.is_some()))
    };
    numbers_in(directory).unwrap_or_default().into_iter().rev().find(has_some).unwrap_or_default()
}

/// What is known of the log of an open store.
pub(in crate::layers::storage) struct Synced {
    directory: PathBuf,
    synced: AtomicU64,
    written: Mutex<Written>,
}

struct Written {
    claim: Claim,
    at: Instant,
}

impl Synced {
    /// Begins anew when the engine has opened the store, and has flushed all operations so far.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(in crate::layers::storage) fn begin(directory: &Path, sequence: u64) -> Result<Self> {
        let oldest = numbers_in(directory)?.last().copied().unwrap_or_default();
        let claim = Claim { behind: sequence, oldest, synced: sequence, newest: 0 };
        store(directory, claim, true)?;
        let written = Mutex::new(Written { claim, at: Instant::now() });
        Ok(Self { directory: directory.to_owned(), synced: AtomicU64::new(sequence), written })
    }

    /// Returns the last operation that is known to be synced.
    pub(in crate::layers::storage) fn sequence(&self) -> u64 {
        self.synced.load(Ordering::Relaxed)
    }

    /// Called before a sync: if the file is due to be written after it, returns the newest file with operations.
    pub(in crate::layers::storage) fn due(&self) -> Option<u64> {
        let written = self.written.lock();
        (written.claim.newest == 0 || written.at.elapsed() >= INTERVAL).then(|| newest_file(&self.directory))
    }

    /// Notes that everything up to an operation is synced, with a file if that is due.
    pub(in crate::layers::storage) fn advance(&self, sequence: u64, due: Option<u64>) {
        self.synced.fetch_max(sequence, Ordering::Relaxed);
        if let Some(newest) = due {
            self.write(newest);
        }
    }

    /// Writes the file if it is behind, and due.
    pub(in crate::layers::storage) fn note(&self) {
        if self.written.lock().claim.synced < self.sequence()
            && let Some(newest) = self.due()
        {
            self.write(newest);
        }
    }

    /// Notes that everything is synced, before the store is closed.
    pub(in crate::layers::storage) fn close(&self) {
        self.write(newest_file(&self.directory));
    }

    /// A file that cannot be written claims less than could be claimed, and that is all.
    fn write(&self, newest: u64) {
        let mut written = self.written.lock();
        let claim = Claim { synced: self.sequence(), newest, ..written.claim };
        match store(&self.directory, claim, false) {
            Ok(()) => *written = Written { claim, at: Instant::now() },
            Err(error) => tracing::warn!("less is known of the log than could be: {error}"),
        }
    }
}
