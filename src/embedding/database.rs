//! The database as a handle that a program keeps, and what is open behind it. Its methods are in `verbs`.

mod verbs;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::maintenance::background::Background;
use crate::multicast::Multicast;
use crate::streams::Streams;
use crate::transaction;

/// An open database. Clones share it, and the last one that goes closes it. All methods may be called from any thread, and block: reads and
/// queries while data comes from the disk, writes besides while the log is written or another thread has a record locked. In an async
/// program call them, and drop views, where blocking is allowed (`spawn_blocking`).
///
/// When a verb returns, its write is in the log and survives the end of the process; in a table with `@table(durability: "strong")` also
/// that of the machine. Each verb is `Invalid` if a table or a stream is not one of this database.
#[derive(Clone)]
pub struct Database(pub(super) Arc<Open>);

/// What is open, in the order in which it ends.
pub(super) struct Open {
    pub(super) background: Vec<Background>,
    pub(super) multicast: OnceLock<Multicast>,
    pub(super) streams: Streams,
    pub(super) database: transaction::Database,
    pub(super) _folder: Option<Folder>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Whoever has a part of it that keeps the store open does not keep the threads.
        self.background.clear();
        self.multicast.get().into_iter().for_each(|multicast| multicast.feed().stop());
        self.streams.stop();
    }
}

/// A folder that is removed with all that is in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("strata-{}", uuid::Uuid::new_v4().simple()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| Error::storage(format!("cannot create the folder {}", path.display()), error))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A database that could not be closed.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotClosed {
    /// Why.
    pub error: Error,
    /// The handle, if there are others.
    pub database: Option<Database>,
}

impl std::fmt::Display for NotClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotClosed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({} tables)", self.inner().schema().tables.len())
    }
}

impl Database {
    #[inline]
    pub(super) fn inner(&self) -> &transaction::Database {
        &self.0.database
    }
}
