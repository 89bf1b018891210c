//! A consistent view of all tables.

use super::database::Database;
use super::record::Record;
use super::table::Table;
use crate::error::{Error, Result};
use crate::storage::{ReadTier, Snapshot};

/// All tables as they are when it is made: whatever is written later, reads and queries of one view fit each other. It is cheap to make; as
/// long as it lives, the engine keeps every version of a record that it sees, so one that stays for minutes under writes costs disk space
/// and makes scans longer.
///
/// ```
/// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
/// # let table = database.table("T")?;
/// let before = database.view();
/// database.create(&table, strata::Json(r#"{"id": "a", "n": 5}"#))?;
/// assert!(before.read(&table, "a")?.is_none() && database.view().read(&table, "a")?.is_some());
/// # Ok::<(), strata::Error>(())
/// ```
///
/// It borrows the database, so nobody closes that under it:
///
/// ```compile_fail,E0505
/// # let schema = strata::Schema::parse("type T @table { id: ID! @primaryKey }").unwrap();
/// let database = strata::Database::temporary(&schema).unwrap();
/// let view = database.view();
/// database.close().unwrap();
/// drop(view);
/// ```
pub struct View<'d> {
    pub(super) database: &'d Database,
    /// An error of the engine is returned by the first read.
    snapshot: Result<Snapshot<'d>>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({:?})", self.snapshot.as_ref().map(Snapshot::sequence))
    }
}

impl<'d> View<'d> {
    pub(super) fn of(database: &'d Database) -> Self {
        Self { database, snapshot: database.inner().store().snapshot(ReadTier::Disk) }
    }

    /// Returns the snapshot, which a remote database may not have given.
    pub(super) fn snapshot(&self) -> Result<&Snapshot<'d>> {
        self.snapshot.as_ref().map_err(|error| Error::Busy { detail: error.to_string() })
    }

    /// Reads a record by its id.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub fn read<'a>(&self, table: &'a Table, id: &str) -> Result<Option<Record<'a>>>
    where
        'd: 'a,
    {
        let record = self.database.inner().read_at(table.inner(), id, self.snapshot()?)?;
        Ok(record.map(Record::pinned))
    }
}
