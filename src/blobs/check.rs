//! Whether records, manifests and chunks agree: for tests and for an operator's doubt.

use std::collections::{BTreeMap, BTreeSet};

use super::{Manifest, parts, verify};
use crate::encoding::{Record, key, url};
use crate::error::Result;
use crate::indexes;
use crate::schema::Table;
use crate::storage::{Reach, Snapshot, Space};
use crate::transaction::Database;

/// Reads all records with blobs and all blobs, and describes every disagreement, up to a hundred of them; none means that each blob of a
/// record is there and whole, and nothing else is. Uploads under way are passed over. Costs memory for every blob.
///
/// # Errors
/// What the engine returns; a damaged chunk is a disagreement, not an error, and a damaged record is passed over, because
/// [`Database::disagreements`] tells it.
pub fn disagreements(database: &Database) -> Result<Vec<String>> {
    let (snapshot, mut found) = (database.store().snapshot(), Vec::new());
    let under_way = under_way(database, &snapshot)?;
    for table in &database.schema().tables {
        let mut expected = expected(database, table, &snapshot, &mut found)?;
        let mut blob = Walked::default();
        let (lower, upper) = (table.id.to_be_bytes(), (table.id + 1).to_be_bytes());
        let mut keys = database.store().scan(Space::Blobs, &lower, &upper, &snapshot, Reach::Disk);
        while let Some((key, value)) = keys.next()? {
            let Some((_, upload, chunk)) = key::parts_of_blob(key) else {
                found.push(format!("a key that no blob has: {}", key.escape_ascii()));
                continue;
            };
            if under_way.contains(&(table.id, upload)) {
                continue;
            }
            if blob.upload != Some(upload) {
                found.extend(blob.end());
                blob = Walked::begin(upload, expected.remove(&upload));
            }
            let wrong = match chunk {
                None => Manifest::read(Some(value)).map(|manifest| blob.manifest = Some(manifest)),
                Some(chunk) => blob.chunk(chunk, value),
            };
            found.extend(wrong.err().map(|error| format!("{}: {error}", blob.name())));
        }
        found.extend(blob.end());
        found.extend(expected.into_values().map(|path| format!("{path}: nothing is there")));
    }
    found.truncate(100);
    Ok(found)
}

/// The uploads that are not to be looked at: table and number.
fn under_way(database: &Database, snapshot: &Snapshot<'_>) -> Result<BTreeSet<(u32, u64)>> {
    let (lower, upper) = (key::UPLOADS, 1u32.to_be_bytes());
    let mut list = database.store().scan(Space::Blobs, &lower, &upper, snapshot, Reach::Disk);
    let mut uploads = BTreeSet::new();
    while let Some((key, _)) = list.next()? {
        uploads.extend(key::parts_of_blob(&key[lower.len()..]).map(|(table, upload, _)| (table, upload)));
    }
    Ok(uploads)
}

/// The uploads that records of a table refer to, with the paths of the blobs that they are.
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
                None if text != b"null" => found.push(format!("{path}: the record has its path, and no upload")),
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

/// An upload, as far as its keys were walked over.
#[derive(Default)]
struct Walked {
    upload: Option<u64>,
    /// Of the blob; `None` if it is nobody's.
    path: Option<String>,
    manifest: Option<Manifest>,
    chunks: u64,
}

impl Walked {
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
                let (checksum, bytes) = parts(stored, manifest.bytes_of(number.into()))?;
                verify(checksum, bytes)
            }
            Some(_) => Err(super::damaged("a chunk is behind its end")),
            // Told once, for all of it.
            None => Ok(()),
        }
    }

    /// What is wrong with it as a whole.
    fn end(&self) -> Option<String> {
        self.upload?;
        let chunks = self.manifest.as_ref().map(Manifest::chunks);
        match (&self.path, chunks) {
            (None, _) => Some(format!("{}: no record has it", self.name())),
            (Some(path), None) => Some(format!("{path}: it has no manifest")),
            (Some(path), Some(chunks)) if chunks != self.chunks => {
                Some(format!("{path}: it has {} of {chunks} chunks", self.chunks))
            }
            _ => None,
        }
    }
}
