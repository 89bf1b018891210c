//! What a store says of itself: which number stands for which table and index, and under which schema records were written.
//!
//! Numbers are never used twice. A table that the schema no longer names keeps its number and its records, unless a migration drops it; an index that it no
//! longer names loses its entries; a new index over stored records is built before the store is opened, so that no query meets
//! one that is half there. A change of attributes of a table with records is refused: records are not rewritten yet. An attribute
//! may become required if every record has a value for it, and cease to be.
//!
//! The catalogue is JSON. Its names are those of the schema language, not of this program's types.
//!
//! History of the format:
//!   1: the first; an attribute was a pair of its name and its type, ID was Id, and nothing said what is required.
//!   2: an attribute has `name`, `type` (ID, String, Int, Float, Boolean, Date, Any, Blob, or one in brackets for a list) and `required`.

use serde::{Deserialize, Serialize};

use crate::encoding::Record;
use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::{Durability, Schema, Table};
use crate::storage::{Batch, Reach, Space, Store};

const KEY: &[u8] = b"catalogue";
const FORMAT: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Catalogue {
    format: u32,
    next_table: u32,
    next_index: u32,
    tables: Vec<StoredTable>,
}

/// What every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    name: String,
    id: u32,
    /// In the order of the records.
    attributes: Vec<StoredAttribute>,
    primary_key: String,
    indexes: Vec<StoredIndex>,
}

#[derive(Serialize, Deserialize)]
#[serde(from = "AnyFormat")]
struct StoredAttribute {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    required: bool,
}

/// An attribute as any format has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyFormat {
    First(String, String),
    Second {
        name: String,
        #[serde(rename = "type")]
        kind: String,
        required: bool,
    },
}

impl From<AnyFormat> for StoredAttribute {
    fn from(stored: AnyFormat) -> Self {
        match stored {
            AnyFormat::First(name, kind) => Self { name, kind: kind.replace("Id", "ID"), required: false },
            AnyFormat::Second { name, kind, required } => Self { name, kind, required },
        }
    }
}

#[derive(Serialize, Deserialize, PartialEq)]
struct StoredIndex {
    id: u32,
    attribute: String,
    kind: String,
}

/// What opening a store may do to what its schema does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Migration {
    /// A schema that would change anything is refused.
    ChangesNothing,
    /// Tables keep their records, and have them again under a schema that names them.
    KeepsData,
    /// Their records are deleted; their numbers are not used again.
    DropsTables,
}

/// Numbers the schema as the store does, and the store as the schema does: builds new indexes, removes dropped ones.
///
/// # Errors
/// `Invalid` if the attributes of a table with records have changed, or one is required now that a record has no value for;
/// `Conflict` if a new unique index is violated.
pub(super) fn bring_in_step(store: &Store, mut schema: Schema, migration: Migration) -> Result<Schema> {
    let stored = store.get(Space::Meta, KEY, Reach::Disk)?;
    let mut catalogue = match &stored {
        Some(bytes) => read(bytes)?,
        None => Catalogue { format: FORMAT, next_table: 1, next_index: 1, tables: Vec::new() },
    };
    if migration == Migration::ChangesNothing {
        check_unchanged(&catalogue, &schema)?;
    }
    indexes::drop_from(store, catalogue.next_index)?;
    // Entries go together with the numbers that stood for them, so that a refused schema leaves the old one whole.
    let mut batch = Batch::default();
    for table in &mut schema.tables {
        number(&mut catalogue, table);
        let known = catalogue.tables.iter_mut().find(|known| known.id == table.id).expect("numbered just now");
        let (attributes, primary_key) = attributes_of(table);
        if !same_values(&known.attributes, &attributes) || known.primary_key != primary_key {
            if has_records(store, table.id)? {
                let detail = format!(
                    "the attributes of table {} differ from those its records were written with; rewriting records is \
                     not supported yet: use a new data directory, or keep the attributes as they are",
                    table.name
                );
                return Err(Error::invalid(detail));
            }
        } else {
            check_required(store, table, &known.attributes)?;
        }
        known.attributes = attributes;
        known.primary_key = primary_key;
        number_indexes(store, &mut batch, &mut catalogue.next_index, known, table)?;
    }
    let dropped = match migration {
        Migration::ChangesNothing | Migration::KeepsData => Vec::new(),
        Migration::DropsTables => drop_tables(store, &mut batch, &mut catalogue, &schema),
    };
    let after = to_json(&catalogue)?;
    if stored.as_deref() != Some(&after[..]) {
        store.put(&mut batch, Space::Meta, KEY, &after);
        store.write(&batch, Durability::Strong)?;
    }
    // Nobody reads these numbers again, so their space is given back at once.
    for (space, number) in dropped {
        store.give_back(space, number)?;
    }
    Ok(schema)
}

/// Checks that each table of the schema is the one that the store has.
fn check_unchanged(catalogue: &Catalogue, schema: &Schema) -> Result<()> {
    let is_known = |table: &&Table| {
        let (attributes, primary_key) = attributes_of(table);
        let indexes =
            table.indexes.iter().map(|index| (&table.attributes[index.attribute].name[..], index.kind.name()));
        catalogue.tables.iter().any(|known| {
            known.name == table.name
                && same_values(&known.attributes, &attributes)
                && known.primary_key == primary_key
                && known.indexes.iter().map(|index| (&index.attribute[..], &index.kind[..])).eq(indexes.clone())
        })
    };
    match schema.tables.iter().find(|table| !is_known(table)) {
        None => Ok(()),
        Some(table) => Err(Error::invalid(format!(
            "table {} of the schema is not as the store has it: give the schema that it was last served with",
            table.name
        ))),
    }
}

/// Stages the removal of all tables that the schema does not name; the spaces and numbers of what they had.
fn drop_tables(store: &Store, batch: &mut Batch, catalogue: &mut Catalogue, schema: &Schema) -> Vec<(Space, u32)> {
    let mut dropped = Vec::new();
    catalogue.tables.retain(|known| {
        if schema.table(&known.name).is_some() {
            return true;
        }
        indexes::drop_table(store, batch, known.id, known.indexes.iter().map(|index| index.id));
        dropped.extend([(Space::Records, known.id), (Space::Blobs, known.id)]);
        dropped.extend(known.indexes.iter().map(|index| (Space::Indexes, index.id)));
        false
    });
    dropped
}

fn read(bytes: &[u8]) -> Result<Catalogue> {
    let corrupt = |error| Error::corrupt(format!("the catalogue of the store: {error}"));
    let Format { format } = serde_json::from_slice(bytes).map_err(corrupt)?;
    if format > FORMAT {
        let detail = format!("the store has format {format}, this program knows up to {FORMAT}: use a newer one");
        return Err(Error::invalid(detail));
    }
    let catalogue: Catalogue = serde_json::from_slice(bytes).map_err(corrupt)?;
    Ok(Catalogue { format: FORMAT, ..catalogue })
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
        let (attribute, kind) = (table.attributes[index.attribute].name.clone(), index.kind.name().to_owned());
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

/// Each attribute, and which of them is the primary key.
fn attributes_of(table: &Table) -> (Vec<StoredAttribute>, String) {
    let attributes = table.attributes.iter().map(|attribute| {
        let kind = attribute.kind.name();
        let kind = if attribute.list { format!("[{kind}]") } else { kind.to_owned() };
        StoredAttribute { name: attribute.name.clone(), kind, required: attribute.required }
    });
    (attributes.collect(), table.attributes[table.primary_key].name.clone())
}

/// Whether records hold the same values under both, but for null.
fn same_values(known: &[StoredAttribute], attributes: &[StoredAttribute]) -> bool {
    let value = |attribute: &StoredAttribute| (attribute.name.clone(), attribute.kind.clone());
    known.iter().map(value).eq(attributes.iter().map(value))
}

/// Checks that each record has a value for each attribute that was not required before.
fn check_required(store: &Store, table: &Table, known: &[StoredAttribute]) -> Result<()> {
    let attributes = table.attributes.iter().zip(known).enumerate();
    let new: Vec<_> = attributes.filter(|(_, (now, known))| now.required && !known.required).collect();
    if new.is_empty() {
        return Ok(());
    }
    let snapshot = store.snapshot();
    let mut records = indexes::all_records(store, table.id, &snapshot);
    while let Some((_, bytes)) = records.next()? {
        let record = Record::open(table, bytes)?;
        for (position, (attribute, _)) in &new {
            if record.json_of(*position)? == b"null" {
                let (id, name) = (record.id()?, &attribute.name);
                let detail = format!(
                    "attribute {name} of table {} is required now, and record {id:?} has no value for it: give it one \
                     under the schema as it was, or leave the attribute as it was",
                    table.name
                );
                return Err(Error::invalid(detail));
            }
        }
    }
    Ok(())
}
