//! What an operator does with the store of a data directory while no server has it open: verify, back up, restore, compact, and see what
//! is in it. (A copy of the store of a running server is made by `POST /_checkpoint`.)

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::storage::{Options, Space, Store};
use crate::transaction::Database;

/// What is in a store.
#[derive(Debug, Serialize)]
pub struct Statistics {
    /// In the order of the schema.
    pub tables: Vec<TableStatistics>,
    /// Bytes of sorted files, as they lie on the disk.
    pub sorted_bytes: u64,
    /// Bytes of the files beside them with the pieces of blobs, deleted ones included.
    pub blob_file_bytes: u64,
    /// Bytes of keys and values in them before compression, overwritten and deleted ones included.
    pub uncompressed_bytes: u64,
    /// What compactions have to rewrite until each level is within its size, as the engine estimates it.
    pub compaction_debt_bytes: u64,
}

/// What is in a table.
#[derive(Debug, Serialize)]
pub struct TableStatistics {
    /// Its name.
    pub name: String,
    /// How many records it has.
    pub records: u64,
    /// Bytes of their stored form.
    pub record_bytes: u64,
    /// Bytes of their blobs, and of what is known of each.
    pub blob_bytes: u64,
    /// By index, in the order of the schema.
    pub indexes: Vec<IndexStatistics>,
}

/// What is in an index.
#[derive(Debug, Serialize)]
pub struct IndexStatistics {
    /// The attributes that it is over.
    pub attributes: Vec<String>,
    /// As the schema has it: `ordered`, `hash`, `unique`, `composite`, `fulltext`; or `expiry`.
    pub r#type: &'static str,
    /// `ready`, `building` or `failed`.
    pub state: &'static str,
    /// How many entries it has.
    pub entries: u64,
}

/// Opens the store of a directory that has one, as it is.
///
/// # Errors
/// `Storage` if there is none or a server has it open; as [`Database::open_unchanged`].
pub fn open(directory: &Path, schema: Schema) -> Result<Database> {
    check_store(directory)?;
    Database::open_unchanged(directory, schema, &options())
}

/// Counts what is in a store; reads all of it.
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
    Ok(Statistics {
        tables: tables.collect::<Result<_>>()?,
        sorted_bytes: gauges.sorted_bytes,
        blob_file_bytes: gauges.blob_file_bytes,
        uncompressed_bytes: store.uncompressed_bytes()?,
        compaction_debt_bytes: gauges.compaction_debt_bytes,
    })
}

/// Rewrites a store into the bottom level, which gives back the space of what was overwritten and deleted.
///
/// # Errors
/// `Storage` if there is none, if a server has it open, or on an I/O error.
pub fn compact(directory: &Path) -> Result<()> {
    check_store(directory)?;
    Store::open(directory, &options())?.compact()
}

/// Copies a store into a new directory: sorted files as hard links where it is of the same file system.
///
/// # Errors
/// As [`compact`]; `Storage` if the directory exists.
pub fn back_up(directory: &Path, backup: &Path) -> Result<()> {
    check_store(directory)?;
    let store = Store::open(directory, &options())?;
    store.sync()?;
    store.checkpoint(backup)
}

/// Copies a backup into a data directory that has no store. The backup stays as it is.
///
/// # Errors
/// `Storage` if the backup is none, the data directory is not empty, or on an I/O error.
pub fn restore(backup: &Path, directory: &Path) -> Result<()> {
    check_store(backup)?;
    let cannot = |error| Error::storage(format!("cannot restore into {}", directory.display()), error);
    fs::create_dir_all(directory).map_err(cannot)?;
    if fs::read_dir(directory).map_err(cannot)?.next().is_some() {
        return Err(Error::storage(format!("cannot restore into {}", directory.display()), "it is not empty"));
    }
    for file in fs::read_dir(backup).map_err(cannot)? {
        let from = file.map_err(cannot)?.path();
        // What is kept of the log for change feeds alone: its positions are those of the store that was copied.
        if from.is_dir() {
            continue;
        }
        // CURRENT makes it a store: last, so that what was cut off is none.
        if let Some(name) = from.file_name().filter(|name| *name != "CURRENT") {
            copy(&from, &directory.join(name)).map_err(cannot)?;
        }
    }
    copy(&backup.join("CURRENT"), &directory.join("CURRENT")).map_err(cannot)?;
    fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(cannot)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// What is kept of the log for change feeds is the server's to remove.
fn options() -> Options {
    Options { feed_log_bytes: usize::MAX, ..Options::default() }
}

fn check_store(directory: &Path) -> Result<()> {
    match directory.join("CURRENT").is_file() {
        true => Ok(()),
        false => Err(Error::storage(format!("there is no store in {}", directory.display()), "it has no file CURRENT")),
    }
}
