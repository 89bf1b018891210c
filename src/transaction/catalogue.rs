//! What a store says of itself: which number stands for which table and index, and under which schema records were written.
//!
//! Numbers are never used twice. A table that the schema no longer names keeps its number and its records; an index that it no
//! longer names loses its entries; a new index over stored records is built before the store is opened, so that no query meets
//! one that is half there. A change of attributes of a table with records is refused: records are not rewritten yet.
//!
//! History of the format: 1, the first.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::{Durability, IndexKind, Schema, Table};
use crate::storage::{Batch, Reach, Space, Store};

const KEY: &[u8] = b"catalogue";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Catalogue {
    format: u32,
    next_table: u32,
    next_index: u32,
    tables: Vec<StoredTable>,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    name: String,
    id: u32,
    /// Name and type of each attribute, in the order of the records.
    attributes: Vec<(String, String)>,
    primary_key: String,
    indexes: Vec<StoredIndex>,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct StoredIndex {
    id: u32,
    attribute: String,
    kind: String,
}

/// Numbers the schema as the store does, and the store as the schema does: builds new indexes, removes dropped ones.
///
/// # Errors
/// `Invalid` if the attributes of a table with records have changed; `Conflict` if a new unique index is violated.
pub(super) fn bring_in_step(store: &Store, mut schema: Schema) -> Result<Schema> {
    let stored = store.get(Space::Meta, KEY, Reach::Disk)?;
    let mut catalogue = match stored {
        Some(bytes) => read(&bytes)?,
        None => Catalogue { format: FORMAT, next_table: 1, next_index: 1, tables: Vec::new() },
    };
    let before = to_json(&catalogue)?;
    indexes::drop_from(store, catalogue.next_index)?;
    // Entries go together with the numbers that stood for them, so that a refused schema leaves the old one whole.
    let mut batch = Batch::default();
    for table in &mut schema.tables {
        number(&mut catalogue, table);
        let known = catalogue.tables.iter_mut().find(|known| known.id == table.id).expect("numbered just now");
        let (attributes, primary_key) = attributes_of(table);
        if known.attributes != attributes || known.primary_key != primary_key {
            if has_records(store, table.id)? {
                let detail = format!(
                    "the attributes of table {} differ from those its records were written with; rewriting records is \
                     not supported yet: use a new data directory, or keep the attributes as they are",
                    table.name
                );
                return Err(Error::invalid(detail));
            }
            known.attributes = attributes;
            known.primary_key = primary_key;
        }
        number_indexes(store, &mut batch, &mut catalogue.next_index, known, table)?;
    }
    let after = to_json(&catalogue)?;
    if after != before {
        store.put(&mut batch, Space::Meta, KEY, &after);
        store.write(&batch, Durability::Strong)?;
    }
    Ok(schema)
}

fn read(bytes: &[u8]) -> Result<Catalogue> {
    let catalogue: Catalogue = serde_json::from_slice(bytes)
        .map_err(|error| Error::corrupt(format!("the catalogue of the store: {error}")))?;
    if catalogue.format != FORMAT {
        let detail = format!("the store has format {}, this program knows {FORMAT}: use a newer one", catalogue.format);
        return Err(Error::invalid(detail));
    }
    Ok(catalogue)
}

fn to_json(catalogue: &Catalogue) -> Result<Vec<u8>> {
    serde_json::to_vec(catalogue).map_err(|error| Error::storage("cannot write the catalogue", error))
}

fn number(catalogue: &mut Catalogue, table: &mut Table) {
    if let Some(known) = catalogue.tables.iter().find(|known| known.name == table.name) {
        table.id = known.id;
        return;
    }
    table.id = catalogue.next_table;
    catalogue.next_table += 1;
    let (attributes, primary_key) = attributes_of(table);
    let name = table.name.clone();
    catalogue.tables.push(StoredTable { name, id: table.id, attributes, primary_key, indexes: Vec::new() });
}

fn number_indexes(
    store: &Store,
    batch: &mut Batch,
    next_index: &mut u32,
    known: &mut StoredTable,
    table: &mut Table,
) -> Result<()> {
    let mut indexes = Vec::new();
    for position in 0..table.indexes.len() {
        let index = &table.indexes[position];
        let (attribute, kind) = (table.attributes[index.attribute].name.clone(), kind_name(index.kind).to_owned());
        let stored = known.indexes.iter().find(|stored| stored.attribute == attribute && stored.kind == kind);
        let id = stored.map_or(*next_index, |stored| stored.id);
        let new = stored.is_none();
        table.indexes[position].id = id;
        if new {
            *next_index += 1;
            if has_records(store, table.id)? {
                indexes::build(store, table, &table.indexes[position])?;
            }
        }
        indexes.push(StoredIndex { id, attribute, kind });
    }
    for dropped in known.indexes.iter().filter(|stored| !indexes.contains(stored)) {
        indexes::drop_entries(store, batch, dropped.id);
    }
    known.indexes = indexes;
    Ok(())
}

fn has_records(store: &Store, table: u32) -> Result<bool> {
    let snapshot = store.snapshot();
    let mut records = indexes::all_records(store, table, &snapshot);
    records.next().map(|first| first.is_some())
}

/// Name and type of each attribute, and which of them is the primary key.
fn attributes_of(table: &Table) -> (Vec<(String, String)>, String) {
    let kind = |list, kind| {
        if list { format!("[{kind:?}]") } else { format!("{kind:?}") }
    };
    let attributes = table.attributes.iter();
    let attributes = attributes.map(|attribute| (attribute.name.clone(), kind(attribute.list, attribute.kind)));
    (attributes.collect(), table.attributes[table.primary_key].name.clone())
}

fn kind_name(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Ordered => "ordered",
        IndexKind::Hash => "hash",
        IndexKind::Unique => "unique",
    }
}
