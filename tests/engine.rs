//! The engine through its own door, [`Database`]: what every verb promises, alone, among threads and across restarts.

mod building;
mod expiry;
mod layouts;
mod misuse;
mod model;
mod reopening;
mod threads;
mod verbs;

use std::path::Path;

use strata::encoding::{Fields, Value};
use strata::error::{Error, Result};
use strata::query::Query;
use strata::schema::{Schema, Table};
use strata::storage::Options;
use strata::transaction::Database;
use tempfile::TempDir;

/// Every kind of attribute and index, in one table; another one that is `strong`.
pub const SDL: &str = r#"
type User @table {
  id: ID @primaryKey
  name: String! @indexed
  city: String @indexed(type: "hash")
  mail: String @unique
  code: Int @unique
  tags: [String] @indexed
  born: Date @indexed
  points: Int
  details: Any
  created: Date @createdTime
  updated: Int @updatedTime
}
type Note @table(durability: "strong") {
  id: ID @primaryKey
  text: String
}
"#;

/// Opens a store with a cache of a size for tests, and does the work that waits.
pub fn open(directory: &Path, sdl: &str) -> Result<Database> {
    let database = open_idle(directory, sdl)?;
    database.catch_up()?;
    Ok(database)
}

/// Opens a store, and does none of it.
pub fn open_idle(directory: &Path, sdl: &str) -> Result<Database> {
    let options = Options { cache_bytes: 8 << 20, write_buffer_bytes: 4 << 20, ..Options::default() };
    Database::open(directory, Schema::parse(sdl)?, &options)
}

/// An empty store, and the directory that goes with it.
pub fn fresh(sdl: &str) -> (TempDir, Database) {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let database = open(directory.path(), sdl).expect("an empty store opens");
    (directory, database)
}

/// The kind of an error, or `"ok"`.
pub fn outcome<T>(result: &Result<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Invalid { .. }) => "invalid",
        Err(Error::NotFound { .. }) => "not found",
        Err(Error::Conflict { .. }) => "conflict",
        Err(Error::Stale) => "stale",
        Err(Error::Gone { .. }) => "gone",
        Err(Error::Offset { .. }) => "offset",
        Err(Error::Busy { .. }) => "busy",
        Err(Error::Full { .. }) => "full",
        Err(Error::Held { .. }) => "held",
        Err(Error::Remote { .. }) => "remote",
        Err(Error::WouldBlock) => "would block",
        Err(Error::Corrupt { .. }) => "corrupt",
        Err(Error::Storage { .. }) => "storage",
        Err(other) => panic!("{other}"),
    }
}

/// The JSON text of a record, read anew; `None` if there is none.
pub fn text(database: &Database, table: &str, id: &str) -> Option<String> {
    let table = database.table(table).expect("the table exists");
    let record = database.read(table, id).expect("the record is readable");
    record.map(|record| String::from_utf8_lossy(record.json()).into_owned())
}

/// A record as JSON, read anew.
pub fn json(database: &Database, table: &str, id: &str) -> serde_json::Value {
    let text = text(database, table, id).expect("the record exists");
    serde_json::from_str(&text).expect("a record's text is JSON")
}

/// The ids of a table, in order.
pub fn ids(database: &Database, table: &str) -> Vec<String> {
    listed(database, table, &Query::default())
}

/// The ids of the records that have a value, in the order of the plan.
pub fn found(database: &Database, table: &str, attribute: &str, value: &Value<'_>) -> Vec<String> {
    let attribute = database.table(table).expect("the table exists").attribute(attribute);
    listed(database, table, &Query::equal(attribute.expect("the attribute exists"), value.clone()))
}

/// The ids that a query lists.
pub fn listed(database: &Database, table: &str, query: &Query<'_>) -> Vec<String> {
    let (table, mut ids) = (database.table(table).expect("the table exists"), Vec::new());
    let visit = |record: strata::encoding::Record<'_, &[u8]>| {
        ids.push(record.id()?.into_owned());
        Ok(())
    };
    query.run(database, table, visit).expect("the table is readable");
    ids
}

/// Text as a value.
pub fn value(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

/// A change of one attribute.
pub fn change<'t>(table: &'t Table, attribute: &str, value: Value<'static>) -> Fields<'t, 'static> {
    Fields::of(table).with(attribute, value).expect("a value that fits")
}

/// Fails if records and indexes disagree.
pub fn assert_consistent(database: &Database) {
    assert_eq!(database.disagreements().expect("the store is readable"), Vec::<String>::new());
}

/// Numbers that look random and are the same in every run.
pub struct Random(pub u64);

impl Random {
    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled".
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}
