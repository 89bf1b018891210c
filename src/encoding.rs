//! The binary encoding of keys and records, and the parsing of values.
//!
//! Each concept has a module: [`value`], a typed value; [`json`], a streaming JSON reader; `names`, member names inside JSON; `coerce`, a
//! JSON value read as the type of an attribute; [`Fields`], values validated against a table; [`body`], from a JSON body to fields;
//! [`key`], order-preserving bytes, so that RocksDB's sorted map is the index; [`record`], the stored form, which contains the record's
//! canonical JSON text so that a read by id is a pass-through; [`patch`], a merge patch inside a value; [`each_at`], the values at a path
//! in one; [`terms`], the terms for full-text search; [`url`], the paths of records and blobs on a server.
//!
//! Non-goals: where keys are stored and which index entries a record has (`indexes`).

pub mod body;
mod coerce;
mod fields;
pub mod json;
pub mod key;
mod names;
pub mod patch;
mod path;
pub mod record;
mod terms;
pub mod url;
pub mod value;

pub use coerce::ELEMENTS;
pub use fields::{Fields, NEVER};
pub use json::DEPTH;
pub use path::each_at;
pub use record::Record;
pub use terms::{terms, terms_with_offsets};
pub use value::Value;

/// The maximum number of records in an array body.
pub const RECORDS: usize = 10_000;
