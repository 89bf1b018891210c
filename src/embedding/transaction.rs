//! Transactions: the verbs of tables and streams, all or none.

use super::record::Record;
use super::row::Row;
use super::stream::{Append, Stream};
use super::table::Table;
use crate::encoding::{Fields, Value};
use crate::error::Result;
use crate::streams::{Appended, Appends, Event};
use crate::transaction::{self, Precondition};

/// An atomic set of reads and writes ([`Database::transact`](crate::Database::transact)). Verbs see what those before them have written. A
/// record that was read stays as it is until the end: nobody else can write it. A verb that fails has changed nothing; whether the rest is
/// committed is up to what the closure returns.
pub struct Transaction<'a, 'd, 's> {
    pub(super) tables: &'a mut transaction::Transaction<'d>,
    pub(super) streams: &'a mut Appends<'s>,
}

impl std::fmt::Debug for Transaction<'_, '_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transaction")
    }
}

impl Transaction<'_, '_, '_> {
    /// Reads a record by its id.
    ///
    /// # Errors
    /// `WouldBlock` if another transaction has it locked: return it, and the closure runs again; `Corrupt`; what the engine returns.
    pub fn read<'t>(&mut self, table: &'t Table, id: &str) -> Result<Option<Record<'t>>> {
        Ok(self.tables.read(table.inner(), id)?.map(Record::owned))
    }

    /// Reads the record that has a value of an attribute with a unique index (`@unique`); keeps others from taking the value, too, also
    /// where no record has it.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type User @table { id: ID! @primaryKey  mail: String @unique }")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// # let users = database.table("User")?;
    /// let id = database.transact(|transaction| {
    ///     if let Some(user) = transaction.find(&users, "mail", "a@b")? {
    ///         return Ok(user.id()?.into_owned());
    ///     }
    ///     let user = transaction.create(&users, users.fields().with("mail", "a@b")?)?;
    ///     Ok(user.id()?.into_owned())
    /// })?;
    /// assert!(database.read(&users, &id)?.is_some());
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::read`]; `Invalid` if the attribute has no unique index, or cannot have the value; `Busy` while that index is being
    /// built.
    pub fn find<'t, 'v>(
        &mut self,
        table: &'t Table,
        attribute: &str,
        value: impl Into<Value<'v>>,
    ) -> Result<Option<Record<'t>>> {
        let checked = Fields::of(table.inner()).with(attribute, value)?;
        let (position, value) = checked
            .values()
            .iter()
            .enumerate()
            .find_map(|(at, value)| Some((at, value.as_ref()?)))
            .expect("one was given");
        Ok(self.tables.find(table.inner(), position, value)?.map(Record::owned))
    }

    /// Creates a record; an id is generated if it has none.
    ///
    /// # Errors
    /// `Invalid`; `Conflict` if the id or a unique value exists; as [`Transaction::read`].
    pub fn create<'t, 'v>(&mut self, table: &'t Table, row: impl Row<'v>) -> Result<Record<'t>> {
        let row = row.body()?;
        self.tables.create(row.fields(table.inner())?).map(Record::owned)
    }

    /// Replaces a record, or creates it; the flag is true if it was created. Attributes that the row omits become null.
    ///
    /// # Errors
    /// As [`Transaction::create`]; `Stale` or `NotFound` if the precondition fails.
    pub fn replace<'t, 'v>(
        &mut self,
        table: &'t Table,
        id: &str,
        row: impl Row<'v>,
        expected: &Precondition,
    ) -> Result<(Record<'t>, bool)> {
        let row = row.body()?;
        let fields = row.fields(table.inner())?.into_owned();
        let (record, created) = self.tables.replace(id, fields, expected)?;
        Ok((Record::owned(record), created))
    }

    /// Changes the attributes that the row has, and no others (a JSON merge patch, RFC 7396).
    ///
    /// # Errors
    /// As [`Transaction::replace`]; `NotFound` if there is no such record.
    pub fn merge<'t, 'v>(
        &mut self,
        table: &'t Table,
        id: &str,
        row: impl Row<'v>,
        expected: &Precondition,
    ) -> Result<Record<'t>> {
        let row = row.body()?;
        self.tables.merge(id, row.fields(table.inner())?, expected).map(Record::owned)
    }

    /// Deletes a record.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Stale` if the precondition fails; as [`Transaction::read`].
    pub fn delete(&mut self, table: &Table, id: &str, expected: &Precondition) -> Result<()> {
        self.tables.delete(table.inner(), id, expected)
    }

    /// Appends an event to a stream.
    ///
    /// # Errors
    /// As [`Database::append`](crate::Database::append); `WouldBlock` as [`Transaction::read`].
    pub fn append(&mut self, stream: &Stream, event: &Append) -> Result<Appended> {
        let body = event.body();
        self.streams.append(self.tables, stream.inner(), &Event::parse(stream.inner(), body.as_bytes())?)
    }

    /// Commits the offsets that a consumer group reads next: partition and offset.
    ///
    /// # Errors
    /// `Invalid` if the group cannot have this name, or a partition no such offset; `WouldBlock` as [`Transaction::read`].
    pub fn commit(&mut self, stream: &Stream, group: &str, offsets: &[(u32, u64)]) -> Result<()> {
        self.streams.commit(self.tables, stream.inner(), group, offsets, &Precondition::None).map(drop)
    }
}
