//! Maintenance of a store while no server has it open: verify, back up, restore, copy, compact, statistics. (`POST
//! /_checkpoint` copies the store of a running server.)
//!
//! What only reads a store (verify, back up, statistics) changes nothing in its directory, and no writer has it open meanwhile.

pub(crate) mod background;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::storage::{self, Location, Options, Space, Store};
use crate::streams::{self, Streams};
use crate::transaction::{self, Copied, Database};

/// Statistics of a store.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The tables, in schema order.
    pub tables: Vec<TableStatistics>,
    /// The streams, in schema order.
    pub streams: Vec<streams::Statistics>,
    /// Bytes of sorted files on the disk.
    pub sorted_bytes: u64,
    /// Bytes of blob files, including deleted chunks.
    pub blob_file_bytes: u64,
    /// Bytes of keys and values in sorted files before compression, including overwritten and deleted ones.
    pub uncompressed_bytes: u64,
    /// Bytes that compactions have to rewrite until each level is within its target size, as the engine estimates it.
    pub compaction_debt_bytes: u64,
}

/// Where a store is: in a directory, or in a database.
#[derive(Clone, Debug)]
pub enum Place {
    /// The data directory.
    Directory(PathBuf),
    /// The database.
    Database(Location),
}

impl std::str::FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.contains("://") {
            true => Location::try_from(text.to_owned()).map(Self::Database).map_err(Error::invalid),
            false => Ok(Self::Directory(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.display().fmt(f),
            Self::Database(location) => location.fmt(f),
        }
    }
}

/// Copies a store that nobody has open into an empty one.
///
/// # Errors
/// As [`transaction::copy`]; `Invalid` if the directory to copy into exists.
pub fn copy(from: &Place, to: &Place) -> Result<Copied> {
    let options = storage::Options::default();
    let from = match from {
        Place::Directory(directory) => {
            check_store(directory)?;
            Store::open_read_only(directory, &options)?
        }
        Place::Database(location) => Store::connect(location, None, true)?,
    };
    let new = match to {
        Place::Directory(directory) if directory.exists() => {
            return Err(Error::invalid(format!("{to} exists: name a new directory")));
        }
        Place::Directory(directory) => Store::open(directory, &options)?,
        Place::Database(location) => Store::connect(location, None, false)?,
    };
    let copied = transaction::copy(&from, &new).and_then(|copied| new.sync().map(|()| copied));
    drop(new);
    if let (Err(_), Place::Directory(directory)) = (&copied, to) {
        // What is there of it is no copy.
        let _ = fs::remove_dir_all(directory);
    }
    copied
}

/// Statistics of a table.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Its name.
    pub name: String,
    /// Number of records.
    pub records: u64,
    /// Bytes of their stored form.
    pub record_bytes: u64,
    /// Bytes of their blobs with their manifests.
    pub blob_bytes: u64,
    /// The indexes, in schema order.
    pub indexes: Vec<IndexStatistics>,
}

/// Statistics of an index.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// The indexed attributes.
    pub attributes: Vec<String>,
    /// As in the schema: `ordered`, `hash`, `unique`, `composite`, `fulltext`; or `expiry`.
    pub r#type: &'static str,
    /// `ready`, `building` or `failed`.
    pub state: &'static str,
    /// Number of entries.
    pub entries: u64,
}

/// Opens an existing store without changing anything in its directory.
///
/// # Errors
/// `Storage` if there is none; as [`Database::open_unchanged`].
pub fn open(directory: &Path, schema: Schema) -> Result<Database> {
    check_store(directory)?;
    Database::open_unchanged(directory, schema, &options())
}

/// Returns the statistics of a store; reads all of it.
///
/// # Errors
/// What the engine returns.
pub fn statistics(database: &Database) -> Result<Statistics> {
    let (store, gauges) = (database.store(), database.store().gauges()?);
    let tables = database.schema().tables.iter().map(|table| {
        let (records, record_bytes) = store.count_prefix(Space::Records, &table.id.to_be_bytes())?;
        let (_, blob_bytes) = store.count_prefix(Space::Blobs, &table.id.to_be_bytes())?;
        let indexes = table.indexes.iter().map(|index| {
            let (entries, _) = store.count_prefix(Space::Indexes, &index.id.to_be_bytes())?;
            let attributes = index.attributes().map(|attribute| table.attributes[attribute].name.clone());
            let (r#type, state) = (index.kind.name(), index.state().name());
            Ok(IndexStatistics { attributes: attributes.collect(), r#type, state, entries })
        });
        Ok(TableStatistics {
            name: table.name.clone(),
            records,
            record_bytes,
            blob_bytes,
            indexes: indexes.collect::<Result<_>>()?,
        })
    });
    let opened = Streams::open(database)?;
    let streams = database.schema().streams.iter().map(|stream| opened.statistics(stream));
    Ok(Statistics {
        tables: tables.collect::<Result<_>>()?,
        streams: streams.collect::<Result<_>>()?,
        sorted_bytes: gauges.sorted_bytes,
        blob_file_bytes: gauges.blob_file_bytes,
        uncompressed_bytes: store.uncompressed_bytes()?,
        compaction_debt_bytes: gauges.compaction_debt_bytes,
    })
}

/// Compacts a store into the bottom level, which reclaims the space of overwritten and deleted data.
///
/// # Errors
/// `Storage` if there is none, or on an I/O error; `Busy` if a process has it open.
pub fn compact(directory: &Path) -> Result<()> {
    check_store(directory)?;
    Store::open(directory, &options())?.compact()
}

/// Copies a store into a new directory, without changing the store; files that are never changed become hard links where that can be done.
///
/// # Errors
/// As [`compact`]; `Storage` if the directory exists, `Corrupt` if the store cannot be opened.
pub fn back_up(directory: &Path, backup: &Path) -> Result<()> {
    check_store(directory)?;
    // Nobody writes to it meanwhile.
    let _store = Store::open_read_only(directory, &options())?;
    let cannot = |error| Error::storage(format!("cannot back up into {}", backup.display()), error);
    fs::create_dir(backup).map_err(cannot)?;
    let link = |from: &Path, to: &Path| fs::hard_link(from, to).or_else(|_| copy_file(from, to));
    copy_store(directory, backup, link).map_err(cannot).and_then(|()| storage::vouch(backup)).inspect_err(|_| {
        // What is there of it is no backup.
        let _ = fs::remove_dir_all(backup);
    })
}

/// Copies a backup into a data directory without a store, after it has checked every block of every file. The backup is not changed.
///
/// # Errors
/// `Storage` if the backup is not a store or lacks a file, the data directory is not empty, or on an I/O error; `Corrupt` if the backup is
/// damaged.
pub fn restore(backup: &Path, directory: &Path) -> Result<()> {
    check_store(backup)?;
    let store = Store::open_read_only(backup, &options())?;
    store.check_files()?;
    let cannot = |error| Error::storage(format!("cannot restore into {}", directory.display()), error);
    fs::create_dir_all(directory).map_err(cannot)?;
    // A file system of its own has that directory.
    let is_content =
        |file: &io::Result<fs::DirEntry>| !file.as_ref().is_ok_and(|file| file.file_name() == "lost+found");
    if fs::read_dir(directory).map_err(cannot)?.any(|file| is_content(&file)) {
        let why = match check_store(directory) {
            Ok(()) => "it has a store",
            Err(_) => "it is not empty; if a restore was interrupted, delete what it left there",
        };
        return Err(Error::storage(format!("cannot restore into {}", directory.display()), why));
    }
    copy_store(backup, directory, copy_file).map_err(cannot)?;
    storage::vouch(directory)
}

/// Copies the files of a store that nobody writes to into an empty directory; `share` copies those that are never changed.
fn copy_store(from: &Path, to: &Path, share: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    for file in fs::read_dir(from)? {
        let file = file?.path();
        let (Some(name), false) = (file.file_name(), file.is_dir()) else { continue };
        match (name.as_encoded_bytes(), file.extension().map(OsStr::as_encoded_bytes)) {
            (_, Some(b"sst" | b"blob")) => share(&file, &to.join(name))?,
            // Without the log archive, which only serves change feeds: its positions belong to the store that is copied.
            (_, Some(b"log")) => copy_file(&file, &to.join(name))?,
            (name_bytes, None) if name_bytes.starts_with(b"MANIFEST-") || name_bytes.starts_with(b"OPTIONS-") => {
                copy_file(&file, &to.join(name))?;
            }
            _ => {}
        }
    }
    // CURRENT makes it a store, so one that was interrupted is none.
    copy_file(&from.join("CURRENT"), &to.join("CURRENT"))?;
    fs::File::open(to)?.sync_all()
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// Keeps the log archive for change feeds, which only the server may trim.
fn options() -> Options {
    Options { feed_log_bytes: usize::MAX, ..Options::default() }
}

/// # Errors
/// `Storage` if a directory has no store.
pub(crate) fn check_store(directory: &Path) -> Result<()> {
    match directory.join("CURRENT").is_file() {
        true => Ok(()),
        false => Err(Error::storage(format!("there is no store in {}", directory.display()), "it has no file CURRENT")),
    }
}
