//! Maintenance of the store in a data directory while no server has it open: verify, back up, restore, compact, statistics. (`POST
//! /_checkpoint` copies the store of a running server.)

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::storage::{Options, Space, Store};
use crate::transaction::Database;

/// Statistics of a store.
#[derive(Debug, Serialize)]
pub struct Statistics {
    /// The tables, in schema order.
    pub tables: Vec<TableStatistics>,
    /// Bytes of sorted files on the disk.
    pub sorted_bytes: u64,
    /// Bytes of blob files, including deleted chunks.
    pub blob_file_bytes: u64,
    /// Bytes of keys and values in sorted files before compression, including overwritten and deleted ones.
    pub uncompressed_bytes: u64,
    /// Bytes that compactions have to rewrite until each level is within its target size, as the engine estimates it.
    pub compaction_debt_bytes: u64,
}

/// Statistics of a table.
#[derive(Debug, Serialize)]
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

/// Opens an existing store without changing it.
///
/// # Errors
/// `Storage` if there is none or a server has it open; as [`Database::open_unchanged`].
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
    Ok(Statistics {
        tables: tables.collect::<Result<_>>()?,
        sorted_bytes: gauges.sorted_bytes,
        blob_file_bytes: gauges.blob_file_bytes,
        uncompressed_bytes: store.uncompressed_bytes()?,
        compaction_debt_bytes: gauges.compaction_debt_bytes,
    })
}

/// Compacts a store into the bottom level, which reclaims the space of overwritten and deleted data.
///
/// # Errors
/// `Storage` if there is none, if a server has it open, or on an I/O error.
pub fn compact(directory: &Path) -> Result<()> {
    check_store(directory)?;
    Store::open(directory, &options())?.compact()
}

/// Copies a store into a new directory; sorted files become hard links if it is on the same file system.
///
/// # Errors
/// As [`compact`]; `Storage` if the directory exists.
pub fn back_up(directory: &Path, backup: &Path) -> Result<()> {
    check_store(directory)?;
    let store = Store::open(directory, &options())?;
    store.sync()?;
    store.checkpoint(backup)
}

/// Copies a backup into a data directory without a store. The backup is not changed.
///
/// # Errors
/// `Storage` if the backup is not a store, the data directory is not empty, or on an I/O error.
pub fn restore(backup: &Path, directory: &Path) -> Result<()> {
    check_store(backup)?;
    let cannot = |error| Error::storage(format!("cannot restore into {}", directory.display()), error);
    fs::create_dir_all(directory).map_err(cannot)?;
    if fs::read_dir(directory).map_err(cannot)?.next().is_some() {
        let why = match check_store(directory) {
            Ok(()) => "it has a store",
            Err(_) => "it is not empty; if a restore was interrupted, delete what it left there",
        };
        return Err(Error::storage(format!("cannot restore into {}", directory.display()), why));
    }
    for file in fs::read_dir(backup).map_err(cannot)? {
        let from = file.map_err(cannot)?.path();
        // The log archive, which only serves change feeds: its positions belong to the store that was copied.
        if from.is_dir() {
            continue;
        }
        // Copied last: CURRENT makes it a store, so an interrupted restore is not one.
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

/// Keeps the log archive for change feeds, which only the server may trim.
fn options() -> Options {
    Options { feed_log_bytes: usize::MAX, ..Options::default() }
}

fn check_store(directory: &Path) -> Result<()> {
    match directory.join("CURRENT").is_file() {
        true => Ok(()),
        false => Err(Error::storage(format!("there is no store in {}", directory.display()), "it has no file CURRENT")),
    }
}
