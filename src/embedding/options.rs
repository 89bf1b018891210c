//! How a database is opened.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::database::{Database, Folder, Open};
use super::table::Schema;
use crate::error::{Error, Result};
use crate::maintenance;
use crate::maintenance::background::Background;
use crate::schema::Durability;
use crate::storage::{self, Location};
use crate::streams::Streams;
use crate::transaction::{self, Migration};

/// Options of a database that is opened ([`Database::options`]). Sizes in bytes.
///
/// ```
/// # let schema = strata::Schema::parse("type T @table { id: ID! @primaryKey }")?;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("data");
/// use std::time::Duration;
///
/// let database = strata::Database::options().cache(1 << 30).lock_wait(Duration::from_secs(1)).open(&path, &schema)?;
/// # Ok::<(), strata::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it opens nothing before open()"]
pub struct OpenOptions {
    storage: storage::Options,
    lock_wait: Duration,
    background: bool,
    create: bool,
    drop_removed: bool,
    read_only: bool,
    durability: Option<Durability>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            storage: storage::Options::default(),
            lock_wait: crate::transaction::LOCK_WAIT,
            background: true,
            create: true,
            drop_removed: false,
            read_only: false,
            durability: None,
        }
    }
}

impl OpenOptions {
    /// Capacity of the cache of blocks; 128 MiB unless it is set.
    pub fn cache(mut self, bytes: usize) -> Self {
        self.storage.cache_bytes = bytes;
        self
    }

    /// Capacity of the cache of blobs; 32 MiB unless it is set.
    pub fn blob_cache(mut self, bytes: usize) -> Self {
        self.storage.blob_cache_bytes = bytes;
        self
    }

    /// Size at which what was written is flushed from memory to a sorted file; 64 MiB unless it is set.
    pub fn write_buffer(mut self, bytes: usize) -> Self {
        self.storage.write_buffer_bytes = bytes;
        self
    }

    /// Bytes of the log that are kept for changes. 0 unless it is set: **then changes cannot be continued after a restart, and
    /// [`Database::changes_after`] is `Gone`.**
    pub fn feed_log(mut self, bytes: usize) -> Self {
        self.storage.feed_log_bytes = bytes;
        self
    }

    /// Free space of the file system below which writes that add are `Full`; 64 MiB unless it is set.
    pub fn reserve(mut self, bytes: usize) -> Self {
        self.storage.reserve_bytes = bytes;
        self
    }

    /// The number of files that are kept open; half of what the process may have unless it is set.
    pub fn open_files(mut self, files: usize) -> Self {
        self.storage.open_files = Some(files);
        self
    }

    /// How long a verb waits for locks before it is `Busy`; 10 s unless it is set.
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Whether a thread deletes what has expired, builds new indexes and trims streams; true unless it is set. **Without it none of that is
    /// done** until [`Database::work`] is called.
    pub fn background(mut self, runs: bool) -> Self {
        self.background = runs;
        self
    }

    /// Whether a directory without a database becomes one; true unless it is set.
    pub fn create(mut self, creates: bool) -> Self {
        self.create = creates;
        self
    }

    /// Deletes the tables, attributes and streams that are stored and that the schema does not name.
    pub fn drop_removed(mut self) -> Self {
        self.drop_removed = true;
        self
    }

    /// Opens it for reading: nothing in the directory is changed, and verbs that write are `Invalid`. The schema has to be the one it was
    /// last opened with. Any number of processes can read a directory, and none while one writes.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The durability of all tables and streams, whatever the schema says: `Soft` makes tests fast.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Opens the database in a directory.
    ///
    /// # Errors
    /// `Busy` if a process has it open; `Invalid` if the schema contradicts what is stored, or an option what the system has; `Storage` if
    /// there is none and none is to be created, or on an I/O error; `Corrupt` if files are damaged.
    pub fn open(self, directory: impl AsRef<Path>, schema: &Schema) -> Result<Database> {
        self.open_in(directory.as_ref(), schema, None)
    }

    /// Opens the database that is kept in PostgreSQL or TiKV. Sizes, and what else is about files, do not apply.
    ///
    /// # Errors
    /// `Invalid` if the URL is not valid, the database is not built in (features `postgres`, `tikv`), what is there is not Strata's, or others
    /// have it open with another schema; `Unsupported` if the schema has what only a directory can keep; `Busy` if the database does not
    /// answer, or refuses.
    pub fn connect(self, url: &str, schema: &Schema) -> Result<Database> {
        let location = Location::try_from(url.to_owned()).map_err(Error::invalid)?;
        let (schema, migration) = (self.schema(schema), self.migration()?);
        let name = format!("process {}", std::process::id());
        let database = transaction::Database::connect(&location, None, schema, migration, &name)?;
        self.over(database, None)
    }

    fn open_in(&self, directory: &Path, schema: &Schema, folder: Option<Folder>) -> Result<Database> {
        if directory.as_os_str().is_empty() {
            return Err(Error::invalid("the path of the database is empty"));
        }
        if self.read_only || !self.create {
            maintenance::check_store(directory)?;
        }
        let (schema, migration) = (self.schema(schema), self.migration()?);
        let database = transaction::Database::open_by(directory, schema, &self.storage, migration)?;
        self.over(database, folder)
    }

    fn over(&self, database: transaction::Database, folder: Option<Folder>) -> Result<Database> {
        let database = database.with_lock_wait(self.lock_wait);
        let streams = Streams::open(&database)?;
        let cannot = |error| Error::storage("cannot start the threads of the database", error);
        let background = match self.background && !self.read_only {
            true => vec![
                Background::work(&database, &streams).map_err(cannot)?,
                Background::sync(&database, None).map_err(cannot)?,
            ],
            false => Vec::new(),
        };
        let open = Open { background, multicast: OnceLock::new(), streams, database, _folder: folder };
        Ok(Database(Arc::new(open)))
    }

    /// Returns the schema with the durability that was asked for.
    fn schema(&self, schema: &Schema) -> crate::schema::Schema {
        let mut schema = schema.parsed().clone();
        if let Some(durability) = self.durability {
            schema.tables.iter_mut().for_each(|table| table.durability = durability);
            schema.streams.iter_mut().for_each(|stream| stream.durability = durability);
        }
        schema
    }

    /// Returns what opening may change.
    fn migration(&self) -> Result<Migration> {
        match (self.read_only, self.drop_removed) {
            (true, true) => Err(Error::invalid("a database that is opened for reading drops nothing")),
            (true, false) => Ok(Migration::ChangesNothing),
            (false, true) => Ok(Migration::DropsData),
            (false, false) => Ok(Migration::KeepsData),
        }
    }

    /// Opens a new database in a folder of its own, which goes with it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn temporary(self, schema: &Schema) -> Result<Database> {
        let folder = Folder::create()?;
        let path = folder.path().to_owned();
        self.open_in(&path, schema, Some(folder))
    }
}
