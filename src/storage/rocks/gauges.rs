//! The engine's gauges: sizes, compaction debt, write stalls.
//!
//! They are read from properties, which RocksDB keeps in any case. Its `Statistics` have more, but count on every read and write; they stay
//! off.

use rust_rocksdb as rocksdb;

use super::{Space, Store};
use crate::error::{Error, Result};

/// The state of the engine at one moment. Sizes in bytes, over all spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Live sorted files.
    pub sorted_bytes: u64,
    /// Blob files; the values deleted in one count until the file is removed.
    pub blob_file_bytes: u64,
    /// Memtables, including those being flushed.
    pub memtable_bytes: u64,
    /// Bytes that compactions have to rewrite until each level is within its target size, as the engine estimates it.
    pub compaction_debt_bytes: u64,
    /// Milliseconds for which writes were delayed or stopped since the store was opened, regardless of the number of writers.
    pub stalled_ms: u64,
}

pub(super) fn read(store: &Store) -> Result<Gauges> {
    use rocksdb::properties::{DBSTATS, ESTIMATE_PENDING_COMPACTION_BYTES, TOTAL_SST_FILES_SIZE};
    let sum = |property| sum(store, property);
    let statistics = store.db().property_value(DBSTATS).map_err(property_error)?;
    Ok(Gauges {
        sorted_bytes: sum(TOTAL_SST_FILES_SIZE)?,
        blob_file_bytes: store
            .db()
            .property_int_value_cf(&store.family(Space::Blobs), BLOB_FILES_SIZE)
            .map_err(property_error)?
            .unwrap_or(0),
        memtable_bytes: memtable_bytes(store)?,
        compaction_debt_bytes: sum(ESTIMATE_PENDING_COMPACTION_BYTES)?,
        stalled_ms: statistics
            .as_deref()
            .and_then(stalled_ms)
            .ok_or_else(|| Error::storage("cannot read the engine's statistics", "the stall statistics are missing"))?,
    })
}

/// A property of a column family, for which the binding has no constant.
const BLOB_FILES_SIZE: &str = "rocksdb.total-blob-file-size";

/// Returns the number of immutable memtables of a space, and the bytes of the active one.
pub(super) fn memtables(store: &Store, space: Space) -> Result<(u64, u64)> {
    use rocksdb::properties::{CUR_SIZE_ACTIVE_MEM_TABLE, NUM_IMMUTABLE_MEM_TABLE};
    let value = |property| store.db().property_int_value_cf(&store.family(space), property).map_err(property_error);
    Ok((value(NUM_IMMUTABLE_MEM_TABLE)?.unwrap_or(0), value(CUR_SIZE_ACTIVE_MEM_TABLE)?.unwrap_or(0)))
}

/// Returns the number of files in level 0 of a space.
pub(super) fn level_0_files(store: &Store, space: Space) -> Result<u64> {
    let property = rocksdb::properties::num_files_at_level(0);
    Ok(store.db().property_int_value_cf(&store.family(space), &property).map_err(property_error)?.unwrap_or(0))
}

pub(super) fn memtable_bytes(store: &Store) -> Result<u64> {
    sum(store, rocksdb::properties::CUR_SIZE_ALL_MEM_TABLES)
}

/// Returns the sum of a property over all spaces.
fn sum(store: &Store, property: &std::ffi::CStr) -> Result<u64> {
    let of = |space: &Space| store.db().property_int_value_cf(&store.family(*space), property);
    Space::ALL.iter().try_fold(0, |sum, space| Ok(sum + of(space).map_err(property_error)?.unwrap_or(0)))
}

/// Reads the properties of every file, so it is not one of the gauges.
pub(super) fn uncompressed_bytes(store: &Store) -> Result<u64> {
    use rocksdb::properties::AGGREGATED_TABLE_PROPERTIES;
    let mut sum = 0;
    for space in Space::ALL {
        let properties = store.db().property_value_cf(&store.family(space), AGGREGATED_TABLE_PROPERTIES);
        let bytes = properties.map_err(property_error)?.as_deref().and_then(raw_bytes);
        sum += bytes.ok_or_else(|| {
            Error::storage("cannot read what sorted files hold", "the table properties have no raw sizes")
        })?;
    }
    Ok(sum)
}

fn property_error(error: rocksdb::Error) -> Error {
    Error::storage("cannot read a property of the engine", error)
}

/// Parses the line `Cumulative stall: 00:01:2.345 H:M:S, 0.7 percent`.
fn stalled_ms(statistics: &str) -> Option<u64> {
    let line = statistics.lines().find_map(|line| line.strip_prefix("Cumulative stall: "))?;
    let mut parts = line.split(' ').next()?.split(':');
    let (hours, minutes) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some((hours * 3600 + minutes * 60) * 1000 + (seconds * 1000.0).round() as u64)
}

/// Parses `..; raw key size=21000; ..; raw value size=500000; ..`.
fn raw_bytes(properties: &str) -> Option<u64> {
    let size = |name: &str| properties.split("; ").find_map(|one| one.strip_prefix(name))?.parse::<u64>().ok();
    Some(size("raw key size=")? + size("raw value size=")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_stalls_is_read() {
        let text = "Cumulative writes: 1 writes\nCumulative stall: 01:02:3.045 H:M:S, 0.1 percent\nInterval stall: 9\n";
        assert_eq!(stalled_ms(text), Some(3_723_045));
        assert_eq!(stalled_ms("Cumulative stall: none"), None);
        assert_eq!(stalled_ms(""), None);
    }

    #[test]
    fn the_raw_sizes_are_read() {
        let text = "# entries=2; raw key size=42; raw average key size=21.0; raw value size=1000; filter size=9; ";
        assert_eq!(raw_bytes(text), Some(1042));
        assert_eq!(raw_bytes("# entries=2; raw key size=42; "), None);
    }
}
