//! The bytes of keys and of records.
//!
//! Twelve ideas, each with a file: [`value`], a typed value; [`json`], JSON text read from left to right; `names`, the names of members
//! inside it; `coerce`, a JSON value read as the type of an attribute; [`Fields`], values that were checked against a table; [`body`],
//! how a JSON body becomes fields; [`key`], bytes whose order is the order of values, so that RocksDB's sorted map is the index;
//! [`record`], the stored form, which carries the record's canonical JSON text so that a read by id is a pass-through; [`patch`],
//! a merge patch inside a value; [`each_at`], what stands at a path in one; [`terms`], what full text is found by; [`url`],
//! the paths of records and blobs on a server.
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

pub use body::RECORDS;
pub use coerce::ELEMENTS;
pub use fields::Fields;
pub use json::DEPTH;
pub use path::each_at;
pub use record::Record;
pub use terms::terms;
pub use value::Value;
