//! Schemas and tables as handles that a program keeps.

use std::path::Path;
use std::sync::Arc;

use super::{Conditions, Fields, Query};
use crate::error::{Error, Result};
use crate::schema;

/// The tables and streams of a database, parsed from SDL (docs/schema.md). Clones share it.
///
/// ```
/// let schema = strata::Schema::parse("type Note @table { id: ID! @primaryKey  text: String }")?;
/// # Ok::<(), strata::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schema(Arc<schema::Schema>);

impl Schema {
    /// Parses SDL.
    ///
    /// # Errors
    /// `Invalid` with line and column.
    pub fn parse(sdl: &str) -> Result<Self> {
        schema::Schema::parse(sdl).map(|schema| Self(Arc::new(schema)))
    }

    /// Reads and parses a file.
    ///
    /// # Errors
    /// As [`Schema::parse`]; `Storage` if the file cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::storage(format!("cannot read the schema {}", path.display()), error))?;
        Self::parse(&text)
    }

    pub(super) fn parsed(&self) -> &schema::Schema {
        &self.0
    }
}

/// A table of an open database, by which all verbs address it. Every other database refuses it. Clones are cheap; none keeps the database
/// open.
///
/// ```
/// # use strata::{Database, Schema};
/// # let schema = Schema::parse("type Note @table { id: ID! @primaryKey  text: String }")?;
/// struct App {
///     database: Database,
///     notes: strata::Table,
/// }
/// let database = Database::temporary(&schema)?;
/// let app = App { notes: database.table("Note")?, database };
/// assert_eq!((app.notes.name(), app.notes.attribute("text")), ("Note", Some(1)));
/// # Ok::<(), strata::Error>(())
/// ```
#[derive(Clone)]
pub struct Table {
    schema: Arc<schema::Schema>,
    position: usize,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.name())
    }
}

impl Table {
    pub(super) fn named(schema: &Arc<schema::Schema>, name: &str) -> Result<Self> {
        let position = schema.tables.iter().position(|table| table.name == name && !table.is_internal());
        let position = position.ok_or_else(|| Error::NotFound { detail: format!("there is no table {name}") })?;
        Ok(Self { schema: Arc::clone(schema), position })
    }

    pub(super) fn schema(&self) -> &schema::Schema {
        &self.schema
    }

    #[inline]
    pub(super) fn inner(&self) -> &schema::Table {
        &self.schema.tables[self.position]
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// Returns the position of an attribute in the schema, by which [`Record::at`](crate::Record::at) reads it fastest.
    pub fn attribute(&self, name: &str) -> Option<usize> {
        self.inner().attribute(name)
    }

    /// Returns the names of its attributes, in the order of the schema.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.inner().attributes.iter().map(|attribute| attribute.name.as_str())
    }

    /// Begins the values of a record, or of a part of one.
    ///
    /// ```
    /// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
    /// let table = database.table("T")?;
    /// database.create(&table, table.fields().with("id", "a")?.with("n", 5)?)?;
    /// assert!(table.fields().with("n", "five").is_err());
    /// # Ok::<(), strata::Error>(())
    /// ```
    pub fn fields(&self) -> Fields<'_> {
        Fields::of(self)
    }

    /// Begins a query in which values are bound, never parsed.
    pub fn query(&self) -> Conditions {
        Conditions::on(self)
    }

    /// Parses a query (docs/queries.md) on the table. Without a `limit` its list ends with the table.
    ///
    /// # Errors
    /// `Invalid` with the byte offset.
    pub fn parse(&self, query: &str) -> Result<Query> {
        Query::parse(self, query.to_owned())
    }

    /// Parses a query in which each `?` stands for a value, in order; the text of a value is never parsed.
    ///
    /// ```
    /// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int  s: String }")?)?;
    /// # let table = database.table("T")?;
    /// # database.create(&table, strata::Json(r#"{"id": "a", "n": 5, "s": "x|n==6"}"#))?;
    /// let query = table.bind("s==?&n=gt=?&limit=10", &["x|n==6".into(), 4.into()])?;
    /// assert_eq!(query.count(&database.view())?, 1);
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Table::parse`]; `Invalid` if there are more or fewer values, or one is a list.
    pub fn bind(&self, query: &str, values: &[crate::Value<'_>]) -> Result<Query> {
        Query::bind(self, query, values)
    }
}
