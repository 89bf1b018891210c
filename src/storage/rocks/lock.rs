//! Who has a data directory open.
//!
//! An engine that writes locks the file `LOCK` (fcntl(2), exclusively). One that only reads takes no lock, and what it reads beside a writer is
//! undefined; so a reader takes the shared lock here. Where there is no such file (a checkpoint has none, and nothing is written to it by who
//! reads it), nobody has written to the copy yet.
//!
//! These locks belong to the process: the first file that is closed ends them all, the engine's too. So this process opens a directory once,
//! which is recorded.
//!
//! So what only reads a store changes nothing in its directory, and no writer has it open meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};

use crate::error::{Error, Result};

/// A directory's device and inode.
type Directory = (u64, u64);

/// The directories that this process has open.
static OPEN: Mutex<BTreeSet<Directory>> = Mutex::new(BTreeSet::new());

/// The opening of a directory by this process; ends when it is dropped.
pub(super) struct Opening {
    directory: Directory,
    is_read_only: bool,
    /// Holds the lock of a reader.
    _lock: Option<File>,
}

impl Opening {
    /// Records that this process opens a directory for writing, which the engine then locks.
    ///
    /// # Errors
    /// `Busy` if this process has it open; `Storage` if it cannot be read.
    pub(super) fn for_writing(path: &Path) -> Result<Self> {
        Ok(Self { directory: record(path)?, is_read_only: false, _lock: None })
    }

    /// Locks a directory against writers.
    ///
    /// # Errors
    /// `Busy` if a process has it open for writing, or this one at all; `Storage` if it cannot be read.
    pub(super) fn for_reading(path: &Path) -> Result<Self> {
        let mut opening = Self { directory: record(path)?, is_read_only: true, _lock: None };
        match File::open(path.join("LOCK")) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot_read(path, error)),
            Ok(file) => {
                fcntl_lock(&file, FlockOperation::NonBlockingLockShared).map_err(|error| match error {
                    rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS => in_use(path),
                    error => cannot_read(path, error.into()),
                })?;
                opening._lock = Some(file);
            }
        }
        Ok(opening)
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.directory);
    }
}

fn record(path: &Path) -> Result<Directory> {
    let found = path.metadata().map_err(|error| cannot_read(path, error))?;
    let directory = (found.dev(), found.ino());
    if OPEN.lock().insert(directory) {
        Ok(directory)
    } else {
        Err(in_use_by(path, "this process already: close that database first"))
    }
}

/// Returns the error of a directory that another process has locked.
pub(super) fn in_use(path: &Path) -> Error {
    let holder = holder(path).map_or_else(String::new, |process| format!(" ({process})"));
    in_use_by(path, &format!("another process{holder}: stop it"))
}

fn in_use_by(path: &Path, whom: &str) -> Error {
    let path = path.display();
    Error::Busy { detail: format!("the data directory {path} is in use by {whom}, or choose another directory") }
}

/// Returns the number of the process that holds the lock; `None` if it is of another namespace, or has ended since.
fn holder(path: &Path) -> Option<i32> {
    let wanted = Flock::from(FlockType::WriteLock);
    let found = fcntl_getlk(File::open(path.join("LOCK")).ok()?, &wanted).ok()??;
    found.pid.map(Pid::as_raw_nonzero).map(NonZero::get)
}

fn cannot_read(path: &Path, error: std::io::Error) -> Error {
    Error::storage(format!("cannot read the data directory {}", path.display()), error)
}
