//! Up to where the log was synced: what the store counts on at its next opening.
//!
//! The log itself cannot say it. Where a file ends, or has an invalid record, the writer may have been interrupted, or a power cut may have
//! taken what was not synced; or the disk has lost what was. So the store notes the last operation that was synced, in two places:
//!
//! * the file `SYNCED` beside those of the engine, at most once a second, and when the store is closed;
//! * the log: before each sync, the operation that the sync before it has reached. So damage is told from a torn end by what lies behind it.
//!
//! The file also has the operation behind which the log is kept. From there on the operations are numbered without a gap, so a missing file
//! is noticed, too. It is JSON, replaced by rename. A power cut may leave an older one, which claims less; only before a file of the log is
//! removed, it is synced.
//!
//! History of the format: 1, the first.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

const NAME: &str = "SYNCED";
const FORMAT: u32 = 1;

/// The interval at which the file is written.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of the log, by sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// The log is kept behind this operation.
    pub(super) behind: u64,
    /// It was synced up to this one.
    pub(super) synced: u64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    #[serde(flatten)]
    claim: Claim,
    checksum: u64,
}

fn checksum(Claim { behind, synced }: Claim) -> u64 {
    XxHash3_64::oneshot(&[behind.to_le_bytes(), synced.to_le_bytes()].concat())
}

/// Returns what the file in a directory says; `None` if there is none that is valid.
pub(super) fn stored(directory: &Path) -> Option<Claim> {
    let stored: Stored = serde_json::from_slice(&fs::read(directory.join(NAME)).ok()?).ok()?;
    (stored.format == FORMAT && stored.checksum == checksum(stored.claim)).then_some(stored.claim)
}

/// Replaces the file.
pub(super) fn store(directory: &Path, claim: Claim, is_synced: bool) -> io::Result<()> {
    let (path, written) = (directory.join(NAME), directory.join(format!("{NAME}.new")));
    let json = serde_json::to_vec(&Stored { format: FORMAT, claim, checksum: checksum(claim) })?;
    let mut file = File::create(&written)?;
    file.write_all(&json)?;
    if is_synced {
        file.sync_all()?;
    }
    fs::rename(&written, &path)?;
    if is_synced { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// What is known of the log of an open store.
pub(in crate::storage) struct Synced {
    directory: PathBuf,
    synced: AtomicU64,
    written: Mutex<Written>,
}

struct Written {
    claim: Claim,
    at: Instant,
}

impl Synced {
    /// Begins anew with the log behind an operation: all before it is in sorted files.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(in crate::storage) fn begin(directory: &Path, sequence: u64) -> io::Result<Self> {
        let claim = Claim { behind: sequence, synced: sequence };
        store(directory, claim, true)?;
        let written = Mutex::new(Written { claim, at: Instant::now() });
        Ok(Self { directory: directory.to_owned(), synced: AtomicU64::new(sequence), written })
    }

    /// Returns the last operation that is known to be synced.
    pub(in crate::storage) fn sequence(&self) -> u64 {
        self.synced.load(Ordering::Relaxed)
    }

    /// Notes that everything up to an operation is synced.
    pub(in crate::storage) fn advance(&self, sequence: u64) {
        self.synced.fetch_max(sequence, Ordering::Relaxed);
        // Whoever comes while it is written need not wait.
        if let Some(mut written) = self.written.try_lock()
            && (written.at.elapsed() >= INTERVAL || written.claim.synced == written.claim.behind)
        {
            written.at = Instant::now();
            self.write(&mut written, false);
        }
    }

    /// Notes that the log is kept only behind an operation from now on; returns whether that will be known also after a power cut.
    pub(super) fn keep_behind(&self, sequence: u64) -> bool {
        let mut written = self.written.lock();
        written.claim.behind = written.claim.behind.max(sequence);
        self.write(&mut written, true)
    }

    /// Writes the last state.
    pub(in crate::storage) fn close(&self) {
        let mut written = self.written.lock();
        if written.claim.synced < self.sequence() {
            self.write(&mut written, false);
        }
    }

    /// A file that cannot be written claims less than could be claimed, and that is all.
    fn write(&self, written: &mut Written, is_synced: bool) -> bool {
        let claim = Claim { synced: self.sequence().max(written.claim.behind), ..written.claim };
        let outcome = store(&self.directory, claim, is_synced);
        match &outcome {
            Ok(()) => written.claim = claim,
            Err(error) => tracing::warn!("cannot note in {NAME} up to where the log is synced: {error}"),
        }
        outcome.is_ok()
    }
}
