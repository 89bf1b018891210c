//! Checks that records, manifests and chunks agree, for tests and operators.

use std::collections::{BTreeMap, BTreeSet};

use super::{Manifest, split_checksum, verify};
use crate::encoding::{Record, key, url};
use crate::error::Result;
use crate::indexes;
use crate::schema::Table;
use crate::storage::{ReadTier, Snapshot, Space};
use crate::transaction::Database;

/// Reads all records with blobs and all blobs, and describes every disagreement, at most a hundred of them. An empty result means that each
/// blob of a record exists and is intact, and that nothing else is stored. Skips uploads under way. Needs memory for every blob.
///
/// # Errors
/// What the engine returns. A damaged chunk is a disagreement, not an error; a damaged record is skipped, because
/// [`Database::disagreements`] reports it.
pub fn disagreements(database: &Database) -> Result<Vec<String>> {
    let (snapshot, mut found) = (database.store().snapshot(ReadTier::Disk)?, Vec::new());
    let under_way = under_way(database, &snapshot)?;
    for table in &database.schema().tables {
        let mut expected = expected(database, table, &snapshot, &mut found)?;
        let mut blob = FoundUpload::default();
        let (lower, upper) = (table.id.to_be_bytes(), (table.id + 1).to_be_bytes());
        let mut keys = database.store().scan(Space::Blobs, &lower, &upper, &snapshot, ReadTier::Disk);
        while let Some((key, value)) = keys.next()? {
            let Some((_, upload, chunk)) = key::parts_of_blob(key) else {
                found.push(format!("invalid key: {}", key.escape_ascii()));
                continue;
            };
            if under_way.contains(&(table.id, upload)) {
                continue;
            }
            if blob.upload != Some(upload) {
                found.extend(blob.end());
                blob = FoundUpload::begin(upload, expected.remove(&upload));
            }
            let wrong = match chunk {
                None => Manifest::read(Some(value)).map(|manifest| blob.manifest = Some(manifest)),
                Some(chunk) => blob.chunk(chunk, value),
            };
            found.extend(wrong.err().map(|error| format!("{}: {error}", blob.name())));
        }
        found.extend(blob.end());
        found.extend(expected.into_values().map(|path| format!("{path}: its bytes are missing")));
    }
    found.truncate(100);
    Ok(found)
}

/// Returns the uploads to skip, as table and number.
fn under_way(database: &Database, snapshot: &Snapshot<'_>) -> Result<BTreeSet<(u32, u64)>> {
    let (lower, upper) = (key::UPLOADS, 1u32.to_be_bytes());
    let mut list = database.store().scan(Space::Blobs, &lower, &upper, snapshot, ReadTier::Disk);
    let mut uploads = BTreeSet::new();
    while let Some((key, _)) = list.next()? {
        uploads.extend(key::parts_of_blob(&key[lower.len()..]).map(|(table, upload, _)| (table, upload)));
    }
    Ok(uploads)
}

/// Returns the uploads that records of a table refer to, with the paths of their blobs.
fn expected(
    database: &Database,
    table: &Table,
    snapshot: &Snapshot<'_>,
    found: &mut Vec<String>,
) -> Result<BTreeMap<u64, String>> {
    let mut expected = BTreeMap::new();
    if table.blobs.is_empty() {
        return Ok(expected);
    }
    let mut records = indexes::all_records(database.store(), table.id, snapshot);
    while let Some((_, bytes)) = records.next()? {
        let Ok(record) = Record::open(table, bytes) else { continue };
        let id = record.id()?;
        for &attribute in &table.blobs {
            let path = url::blob(&table.name, &id, &table.attributes[attribute].name);
            let text = record.json_of(attribute)?;
            match record.upload(attribute) {
                None if text != b"null" => found.push(format!("{path}: the record has a path but no upload")),
                None => {}
                Some(_) if text != format!("\"{path}\"").as_bytes() => {
                    found.push(format!("{path}: the record has another path"))
                }
                Some(upload) => {
                    if let Some(other) = expected.insert(upload, path) {
                        found.push(format!("{other}: another record has the same upload"));
                    }
                }
            }
        }
    }
    Ok(expected)
}

/// An upload and what was found of it so far.
#[derive(Default)]
struct FoundUpload {
    upload: Option<u64>,
    /// Path of the blob; `None` if no record refers to it.
    path: Option<String>,
    manifest: Option<Manifest>,
    chunks: u64,
}

impl FoundUpload {
    fn begin(upload: u64, path: Option<String>) -> Self {
        Self { upload: Some(upload), path, ..Self::default() }
    }

    fn name(&self) -> String {
        self.path.clone().unwrap_or_else(|| format!("upload {}", self.upload.unwrap_or_default()))
    }

    /// Checks one chunk.
    fn chunk(&mut self, number: u32, stored: &[u8]) -> Result<()> {
        self.chunks += 1;
        match &self.manifest {
            Some(manifest) if u64::from(number) < manifest.chunks() => {
                let (checksum, bytes) = split_checksum(stored, manifest.bytes_of(number.into()))?;
                verify(checksum, bytes)
            }
            Some(_) => Err(super::damaged("chunk beyond the end of the blob")),
            // Reported once for the whole upload.
            None => Ok(()),
        }
    }

    /// Returns what is wrong with the upload as a whole.
    fn end(&self) -> Option<String> {
        self.upload?;
        let chunks = self.manifest.as_ref().map(Manifest::chunks);
        match (&self.path, chunks) {
            (None, _) => Some(format!("{}: not referenced by any record", self.name())),
            (Some(path), None) => Some(format!("{path}: it has no manifest")),
            (Some(path), Some(chunks)) if chunks != self.chunks => {
                Some(format!("{path}: it has {} of {chunks} chunks", self.chunks))
            }
            _ => None,
        }
    }
}
