//! The stored form of the catalogue: JSON, with the names of the schema language, not of this program's types.
//!
//! History of the format:
//!   1: the first; an attribute was a pair of its name and its type, ID was Id, and nothing said what is required.
//!   2: an attribute has `name`, `type` (ID, String, Int, Float, Boolean, Date, Any, Blob, or one in brackets for a list) and `required`.
//!   3: attributes have numbers (`id`); a table has all the `layouts` that its records may have; an index has `attributes`, as many as it
//!      is over, and a `state`; `dropped` are the indexes whose entries are still to be removed.
//!   4: `streams`, whose numbers no table has.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Table};
use crate::storage::{Batch, ReadTier, Space, Store};

/// Under which key it is stored.
pub(in crate::layers::transaction) const CATALOGUE: &[u8] = b"catalogue";

const FORMAT: u32 = 4;

/// The first format that differs from the current one only by what it lacks.
const WITHOUT_STREAMS: u32 = 3;

/// The catalogue.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct Catalogue {
    format: u32,
    pub next_table: u32,
    pub next_index: u32,
    pub tables: Vec<StoredTable>,
    pub dropped: Vec<u32>,
    #[serde(default)]
    pub streams: Vec<StoredStream>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct StoredStream {
    pub name: String,
    pub id: u32,
    pub partitions: u32,
}

#[derive(Clone, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct StoredTable {
    pub name: String,
    pub id: u32,
    pub primary_key: String,
    pub next_attribute: u32,
    /// The number of the layout in which records are written.
    pub layout: u8,
    /// Indexed by their numbers.
    pub layouts: Vec<StoredLayout>,
    pub indexes: Vec<StoredIndex>,
}

/// The attributes of a record, in the order of its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct StoredLayout {
    pub attributes: Vec<StoredAttribute>,
    pub deadline: Deadline,
}

/// When the records of a layout expire.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::layers::transaction) enum Deadline {
    /// Each record has its own deadline.
    InRecord,
    /// All at this time, if the table has an expiration: microseconds since 1970.
    At(i64),
    /// The table has never had an expiration.
    Never,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct StoredAttribute {
    /// Unique in the table; an attribute that is dropped and added again gets a new one.
    pub id: u32,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::layers::transaction) struct StoredIndex {
    pub id: u32,
    pub attributes: Vec<String>,
    pub kind: String,
    pub state: StoredState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::layers::transaction) enum StoredState {
    Ready,
    /// It has the entries of all records up to the id `after`; `records` is their number.
    Building {
        after: Option<String>,
        records: u64,
    },
    Failed {
        why: String,
    },
}

impl Catalogue {
    /// Returns the catalogue of an empty store.
    pub fn new() -> Self {
        let (tables, dropped, streams) = (Vec::new(), Vec::new(), Vec::new());
        Self { format: FORMAT, next_table: 1, next_index: 1, tables, dropped, streams }
    }

    /// Parses any format.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let corrupt = |error| Error::corrupt(format!("the catalogue of the store: {error}"));
        let catalogue: Self = match serde_json::from_slice::<Format>(bytes).map_err(corrupt)?.format {
            ..WITHOUT_STREAMS => serde_json::from_slice::<Second>(bytes).map_err(corrupt)?.into(),
            WITHOUT_STREAMS..=FORMAT => serde_json::from_slice(bytes).map_err(corrupt)?,
            format => {
                let detail =
                    format!("the store has format {format}, this program knows up to {FORMAT}: use a newer one");
                return Err(Error::invalid(detail));
            }
        };
        match catalogue.tables.iter().find(|table| usize::from(table.layout) >= table.layouts.len()) {
            None => Ok(catalogue),
            Some(table) => Err(Error::corrupt(format!("the catalogue of the store: {} has no layout", table.name))),
        }
    }

    /// Reads the stored one, on which a batch then depends.
    ///
    /// # Errors
    /// `Corrupt` if there is none; what the engine returns.
    pub fn stored(store: &Store, batch: &mut Batch) -> Result<Self> {
        let stored = store.get_for(batch, Space::Meta, CATALOGUE, ReadTier::Disk)?;
        Self::read(&stored.ok_or_else(|| Error::corrupt("the store has no catalogue"))?)
    }

    pub fn to_json(&self) -> Result<Vec<u8>> {
        let written = Self { format: FORMAT, ..self.clone() };
        serde_json::to_vec(&written).map_err(|error| Error::storage("cannot write the catalogue", error))
    }

    /// Stages the catalogue.
    ///
    /// # Errors
    /// `Storage`, which would be a defect.
    pub fn stage(&self, store: &Store, batch: &mut Batch) -> Result<()> {
        store.put(batch, Space::Meta, CATALOGUE, &self.to_json()?);
        Ok(())
    }

    /// Returns its text without what background work changes: the states of indexes, and which entries are still to be removed.
    pub fn shape(&self) -> Result<String> {
        let mut shape = self.clone();
        shape.dropped.clear();
        shape.tables.iter_mut().flat_map(|table| &mut table.indexes).for_each(|index| index.state = StoredState::Ready);
        shape.to_json().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns it with how far another one, which is as new, says that builds have come.
    pub fn with_progress_of(mut self, other: &Self) -> Self {
        for index in self.tables.iter_mut().flat_map(|table| &mut table.indexes) {
            if let (StoredState::Building { .. }, Some(progress @ StoredState::Building { .. })) =
                (&index.state, other.state_of(index.id))
            {
                index.state = progress.clone();
            }
        }
        self
    }

    /// Returns the state of the index with this number.
    pub fn state_of(&self, id: u32) -> Option<&StoredState> {
        let mut indexes = self.tables.iter().flat_map(|table| &table.indexes);
        indexes.find(|index| index.id == id).map(|index| &index.state)
    }

    /// Sets the state of the index with this number.
    pub fn set_state(&mut self, id: u32, state: StoredState) {
        if let Some(stored) = self.index_mut(id) {
            stored.state = state;
        }
    }

    /// Returns the index with this number.
    pub fn index_mut(&mut self, id: u32) -> Option<&mut StoredIndex> {
        self.tables.iter_mut().flat_map(|table| &mut table.indexes).find(|index| index.id == id)
    }
}

impl StoredTable {
    /// Returns the layout in which records are written.
    pub fn current(&self) -> &StoredLayout {
        &self.layouts[usize::from(self.layout)]
    }
}

impl StoredLayout {
    /// Returns whether records have the same bytes under both layouts.
    pub fn is_like(&self, other: &Self) -> bool {
        let bytes = |attribute: &StoredAttribute| (attribute.id, attribute.kind.clone());
        let ends = |layout: &Self| layout.deadline == Deadline::InRecord;
        ends(self) == ends(other) && self.attributes.iter().map(bytes).eq(other.attributes.iter().map(bytes))
    }
}

impl StoredAttribute {
    /// Returns the stored form of an attribute of a schema.
    pub fn of(id: u32, attribute: &Attribute) -> Self {
        Self { id, name: attribute.name.clone(), kind: type_of(attribute), required: attribute.required }
    }

    /// Returns the attribute of a schema, as far as it is stored.
    ///
    /// # Errors
    /// `Corrupt` if there is no such type.
    pub fn to_attribute(&self, fixed_widths: &mut usize) -> Result<Attribute> {
        let element = self.kind.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let kind = Kind::named(element.unwrap_or(&self.kind));
        let kind = kind.ok_or_else(|| Error::corrupt(format!("the catalogue has a type {}", self.kind)))?;
        let list = element.is_some();
        let fixed_width = (!list && kind.has_fixed_width()).then_some(*fixed_widths);
        *fixed_widths += usize::from(fixed_width.is_some());
        Ok(Attribute {
            name: self.name.clone(),
            kind,
            list,
            required: self.required,
            stamp: None,
            fixed_width,
            thumb_sizes: Vec::new(),
        })
    }
}

/// Returns the stored type of an attribute's values.
pub(super) fn type_of(attribute: &Attribute) -> String {
    let name = attribute.kind.name();
    if attribute.list { format!("[{name}]") } else { name.to_owned() }
}

/// Returns the attributes of an index by name.
pub(super) fn names_of(table: &Table, attributes: impl Iterator<Item = usize>) -> Vec<String> {
    attributes.map(|attribute| table.attributes[attribute].name.clone()).collect()
}

/// The part common to all formats.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Formats 2 and 1.
#[derive(Deserialize)]
struct Second {
    next_table: u32,
    next_index: u32,
    tables: Vec<SecondTable>,
}

#[derive(Deserialize)]
struct SecondTable {
    name: String,
    id: u32,
    attributes: Vec<SecondAttribute>,
    primary_key: String,
    indexes: Vec<SecondIndex>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SecondAttribute {
    First(String, String),
    Second {
        name: String,
        #[serde(rename = "type")]
        kind: String,
        required: bool,
    },
}

#[derive(Deserialize)]
struct SecondIndex {
    id: u32,
    attribute: String,
    kind: String,
}

impl From<Second> for Catalogue {
    fn from(stored: Second) -> Self {
        Self {
            next_table: stored.next_table,
            next_index: stored.next_index,
            tables: stored.tables.into_iter().map(StoredTable::from).collect(),
            ..Self::new()
        }
    }
}

impl From<SecondTable> for StoredTable {
    fn from(stored: SecondTable) -> Self {
        let attributes = (0..).zip(stored.attributes).map(|(id, attribute)| match attribute {
            SecondAttribute::First(name, kind) => {
                StoredAttribute { id, name, kind: kind.replace("Id", "ID"), required: false }
            }
            SecondAttribute::Second { name, kind, required } => StoredAttribute { id, name, kind, required },
        });
        let attributes: Vec<_> = attributes.collect();
        let indexes = stored.indexes.into_iter().map(|index| StoredIndex {
            id: index.id,
            attributes: vec![index.attribute],
            kind: index.kind,
            state: StoredState::Ready,
        });
        Self {
            name: stored.name,
            id: stored.id,
            primary_key: stored.primary_key,
            next_attribute: attributes.len() as u32,
            layout: 0,
            layouts: vec![StoredLayout { attributes, deadline: Deadline::Never }],
            indexes: indexes.collect(),
        }
    }
}
