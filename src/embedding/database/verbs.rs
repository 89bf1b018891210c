//! The methods of a database: how it is opened and closed, and its verbs on tables, streams and blobs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Database, NotClosed};
use crate::blobs;
use crate::embedding::blobs::{BlobReader, BlobWriter};
use crate::embedding::changes::Changes;
use crate::embedding::options::OpenOptions;
use crate::embedding::query::Query;
use crate::embedding::record::Record;
use crate::embedding::row::{Row, text_of};
use crate::embedding::stream::{Append, Event, Events, Stream};
use crate::embedding::table::{Schema, Table};
use crate::embedding::transaction::Transaction;
use crate::embedding::view::View;
use crate::encoding;
use crate::error::{Error, Result};
use crate::feed::{EventId, Topic};
use crate::maintenance::{self, Statistics};
use crate::multicast::{Asked, Outcome};
use crate::storage::{Counters, Gauges};
use crate::streams::{self, Appended, Page, Start};
use crate::transaction::{self, Body, Precondition};

impl Database {
    /// Opens the database in a directory, which is created if it is not there, with the defaults of [`Database::options`]. Indexes that the
    /// schema has and the stored one has not are built in the background; queries do not use them until then.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(directory: impl AsRef<Path>, schema: &Schema) -> Result<Self> {
        Self::options().open(directory, schema)
    }

    /// Opens the database that is kept in PostgreSQL (`postgres://user@host/database?table=NAME`) or TiKV (`tikv://host:port?prefix=NAME`). Any
    /// number of programs and servers may have it open at the same time, with the same schema. It needs the feature `postgres` or `tikv`.
    ///
    /// # Errors
    /// As [`OpenOptions::connect`].
    pub fn connect(url: &str, schema: &Schema) -> Result<Self> {
        Self::options().connect(url, schema)
    }

    /// Begins with the defaults of how a database is opened.
    pub fn options() -> OpenOptions {
        OpenOptions::default()
    }

    /// Opens a new database for a test: in a folder of its own, which goes with it, with small caches, without syncs and without a
    /// background thread ([`Database::work`]).
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn temporary(schema: &Schema) -> Result<Self> {
        let small = Self::options().cache(8 << 20).blob_cache(1 << 20).write_buffer(8 << 20).reserve(0);
        small.background(false).durability(crate::schema::Durability::Soft).temporary(schema)
    }

    /// Closes it: ends its threads and its [`Changes`], and syncs the log. (Dropping the last clone does the same, and tells of no error.)
    ///
    /// # Errors
    /// `Busy` if there are other clones, or blobs that are read or written, and gives this one back; `Busy` if a thread still uses it after
    /// 10 s; `Storage` if the log cannot be synced.
    pub fn close(self) -> std::result::Result<(), NotClosed> {
        let busy = |detail: &str| Error::Busy { detail: detail.to_owned() };
        let open = Arc::try_unwrap(self.0).map_err(|shared| NotClosed {
            error: busy("the database has other handles, or blobs that are read or written: drop these first"),
            database: Some(Self(shared)),
        })?;
        let (is_open, synced) = (open.database.watch(), open.database.store().sync());
        drop(open);
        // Threads that were about to end, such as that of waiting readers.
        let deadline = Instant::now() + ENDING;
        while is_open() {
            if Instant::now() > deadline {
                return Err(NotClosed {
                    error: busy(
                        "a thread still uses the database, which is closed when that ends: try to open it later",
                    ),
                    database: None,
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        synced.map_err(|error| NotClosed { error, database: None })
    }

    /// Returns a table by its name. Do it once, and keep what it returns.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn table(&self, name: &str) -> Result<Table> {
        Table::named(self.inner().schema_shared(), name)
    }

    /// Returns a stream by its name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn stream(&self, name: &str) -> Result<Stream> {
        Stream::named(self.inner().schema_shared(), name)
    }

    /// Returns a view of all tables as they are now, on which queries are run.
    pub fn view(&self) -> View<'_> {
        View::of(self)
    }

    /// Reads a record by its id, without a lock and without a copy.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; what the engine returns.
    #[inline]
    pub fn read<'a>(&'a self, table: &'a Table, id: &str) -> Result<Option<Record<'a>>> {
        Ok(self.inner().read(table.inner(), id)?.map(Record::pinned))
    }

    /// Creates a record; an id is generated if it has none. Returns it as it is stored.
    ///
    /// # Errors
    /// `Invalid`, with a JSON pointer, if the schema refuses it; `Conflict` if the id or a unique value exists; `Busy`; `Full`; what the
    /// engine returns.
    pub fn create<'t, 'v>(&self, table: &'t Table, row: impl Row<'v>) -> Result<Record<'t>> {
        let row = row.body()?;
        match &row {
            Body::Json(text) => self.inner().create(table.inner(), text),
            row => self.inner().once(|transaction| transaction.create(row.fields(table.inner())?)),
        }
        .map(Record::owned)
    }

    /// Creates records, all or none, at most 10 000.
    ///
    /// # Errors
    /// As [`Database::create`], with the number of the row at the start of pointers.
    pub fn create_all<'t, 'v, R: Row<'v>>(
        &self,
        table: &'t Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Vec<Record<'t>>> {
        let rows = rows.into_iter().map(R::body).collect::<Result<Vec<_>>>()?;
        let records = self.inner().create_rows(table.inner(), &rows)?;
        Ok(records.into_iter().map(Record::shared).collect())
    }

    /// Replaces a record, or creates it; the flag is true if it was created. Attributes that the row omits become null.
    ///
    /// # Errors
    /// As [`Database::create`]; `Stale` or `NotFound` if the precondition fails.
    pub fn replace<'t, 'v>(
        &self,
        table: &'t Table,
        id: &str,
        row: impl Row<'v>,
        expected: &Precondition,
    ) -> Result<(Record<'t>, bool)> {
        let row = row.body()?;
        let replace = |transaction: &mut transaction::Transaction<'_>| {
            transaction.replace(id, row.fields(table.inner())?.into_owned(), expected)
        };
        self.inner().once(replace).map(|(record, created)| (Record::owned(record), created))
    }

    /// Changes the attributes that the row has, and no others (a JSON merge patch, RFC 7396).
    ///
    /// # Errors
    /// As [`Database::replace`]; `NotFound` if there is no such record.
    pub fn merge<'t, 'v>(
        &self,
        table: &'t Table,
        id: &str,
        row: impl Row<'v>,
        expected: &Precondition,
    ) -> Result<Record<'t>> {
        let row = row.body()?;
        let merge = |transaction: &mut transaction::Transaction<'_>| {
            transaction.merge(id, row.fields(table.inner())?, expected)
        };
        self.inner().once(merge).map(Record::owned)
    }

    /// Deletes a record.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Stale` if the precondition fails; what the engine returns.
    pub fn delete(&self, table: &Table, id: &str, expected: &Precondition) -> Result<()> {
        self.inner().delete(table.inner(), id, expected)
    }

    /// Deletes all records of a table in one step.
    ///
    /// # Errors
    /// `Busy`; what the engine returns.
    pub fn truncate(&self, table: &Table) -> Result<()> {
        self.inner().truncate(table.inner())
    }

    /// Runs verbs as one transaction: all they write is written, or, if the closure returns an error, nothing. Nobody else writes meanwhile
    /// what it has read.
    ///
    /// **The closure may run more than once**: a verb that meets a record which another transaction has locked fails with `WouldBlock`, and
    /// when the closure has returned, whatever it returns, it runs again once the lock is free. So it should do nothing but call verbs, and
    /// those of the transaction: verbs of the database are not part of it. (This is why it is `Fn`.)
    ///
    /// A closure that drops the error of a verb, or returns it within an `Ok`, commits the rest.
    ///
    /// ```
    /// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
    /// # let table = database.table("T")?;
    /// # database.create_all(&table, [strata::Json(r#"{"id": "a", "n": 5}"#), strata::Json(r#"{"id": "b", "n": 0}"#)])?;
    /// use strata::Precondition;
    ///
    /// database.transact(|transaction| {
    ///     for (id, by) in [("a", -3), ("b", 3)] {
    ///         let record = transaction.read(&table, id)?.expect("it was created");
    ///         let sum = record.get("n")?.as_i64().unwrap_or(0) + by;
    ///         transaction.merge(&table, id, table.fields().with("n", sum)?, &Precondition::Exists)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(database.read(&table, "b")?.unwrap().get("n")?.as_i64(), Some(3));
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the closure returns; `Busy` if a lock stays held; what the engine returns when all of it is written.
    pub fn transact<R>(&self, verbs: impl Fn(&mut Transaction<'_, '_, '_>) -> Result<R>) -> Result<R> {
        self.try_transact(verbs)
    }

    /// Does the same with verbs that have an error of their own. (Two methods, because with one the compiler would have to be told the type
    /// of the error where `?` is used.)
    ///
    /// ```
    /// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
    /// # let table = database.table("T")?;
    /// #[derive(Debug)]
    /// enum Refused {
    ///     Poor,
    ///     Store(strata::Error),
    /// }
    /// impl From<strata::Error> for Refused {
    ///     fn from(error: strata::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    /// let refused = database.try_transact(|transaction| {
    ///     transaction.create(&table, table.fields().with("id", "a")?)?;
    ///     Err::<(), _>(Refused::Poor)
    /// });
    /// assert!(matches!(refused, Err(Refused::Poor)) && database.read(&table, "a")?.is_none());
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::transact`], converted.
    pub fn try_transact<R, E: From<Error>>(
        &self,
        verbs: impl Fn(&mut Transaction<'_, '_, '_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.0.streams.try_transact(self.inner(), |tables, streams| verbs(&mut Transaction { tables, streams }))
    }

    /// Returns the changes of a table from now on.
    ///
    /// # Errors
    /// `Busy` if there are 10 000 subscribers, or their queues are full; `Corrupt` if the log is damaged.
    pub fn changes<'t>(&self, table: &'t Table) -> Result<Changes<'t>> {
        Changes::begin(&self.0, table, Topic::table(table.inner()), None)
    }

    /// Returns the changes of a table after one of them.
    ///
    /// # Errors
    /// `Gone` if the log is not kept from there on ([`OpenOptions::feed_log`]): begin anew, and then read the table; as
    /// [`Database::changes`].
    pub fn changes_after<'t>(&self, table: &'t Table, id: EventId) -> Result<Changes<'t>> {
        Changes::begin(&self.0, table, Topic::table(table.inner()), Some(id))
    }

    /// Returns the changes of one record, which need not exist, from now on or after one of them.
    ///
    /// # Errors
    /// As [`Database::changes_after`].
    pub fn changes_of<'t>(&self, table: &'t Table, id: &str, after: Option<EventId>) -> Result<Changes<'t>> {
        Changes::begin(&self.0, table, Topic::record(table.inner(), id), after)
    }

    /// Sends a message, any value that serde can serialise, to all records that match, at most 10 000, of a table with `@multicast`;
    /// returns their number. Who follows one of them gets it as a change, now or when it continues; it has the durability of the table.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type Lamp @table @multicast { id: ID! @primaryKey  room: String @indexed }")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// # let lamps = database.table("Lamp")?;
    /// # database.create(&lamps, strata::Json(r#"{"id": "a", "room": "hall"}"#))?;
    /// use strata::Changed;
    ///
    /// let mut changes = database.changes_of(&lamps, "a", None)?;
    /// let in_hall = lamps.query().eq("room", "hall").build()?;
    /// assert_eq!(database.send(&in_hall, "off")?, 1);
    /// let change = changes.next().expect("the database is open")?;
    /// assert!(matches!(change.what, Changed::Message(text) if text == "\"off\""));
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if the table takes none, more records match, the query is of another database, or the message has a number that is not
    /// finite; `Busy`; `Full`; what the engine returns.
    pub fn send<T: Serialize + ?Sized>(&self, query: &Query, message: &T) -> Result<usize> {
        let body = text_of(message)?;
        let (table, conditions) = (query.table().inner(), query.tree().clone());
        let asked = Asked { table, conditions, body: &body, key: None };
        match self.0.multicast().send(self.inner(), asked, encoding::RECORDS)? {
            Outcome::Sent(sending) => Ok(sending.targets()),
            Outcome::Repeated { .. } => unreachable!("it has no key"),
        }
    }

    /// Appends an event to a stream.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type Orders @stream")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// use strata::{Append, Start};
    ///
    /// let orders = database.stream("Orders")?;
    /// database.append(&orders, &Append::of(&[1, 2])?.key("a"))?;
    /// let events = database.events(&orders, 0, Start::Beginning, 100)?.events;
    /// assert_eq!(events[0].to::<Vec<i32>>()?, [1, 2]);
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if it has no such partition, or a key is too long; `Offset` if the event expects another offset; `Held` if the partition
    /// is full; `Busy`; `Full`; what the engine returns.
    pub fn append(&self, stream: &Stream, event: &Append) -> Result<Appended> {
        let body = event.body();
        let event = streams::Event::parse(stream.inner(), body.as_bytes())?;
        self.0.streams.append(self.inner(), stream.inner(), &event)
    }

    /// Reads events of a partition, at most so many; none where it ends.
    ///
    /// # Errors
    /// `Offset` if it begins before what is kept, or behind the end; `Invalid` if there is no such partition; `Corrupt`; what the engine
    /// returns.
    pub fn events(&self, stream: &Stream, partition: u32, from: Start, most: usize) -> Result<Events> {
        let mut json = b"[".to_vec();
        let limits = (most, EVENT_BYTES);
        let page = self.0.streams.read(self.inner(), stream.inner(), partition, from, limits, &mut json)?;
        json.push(b']');
        let read = serde_json::from_slice::<Vec<Event>>(&json);
        let events = read.map_err(|error| Error::corrupt(format!("an event of {}: {error}", stream.name())))?;
        let Page { next, watermarks, .. } = page;
        Ok(Events { events, next, low: watermarks.low, high: watermarks.high })
    }

    /// Waits until a partition has an event at an offset; returns whether it has.
    ///
    /// # Errors
    /// `Invalid` if there is no such partition; `Storage` if no thread can be started.
    pub fn wait_for_event(&self, stream: &Stream, partition: u32, offset: u64, timeout: Duration) -> Result<bool> {
        let (sender, called) = channel();
        let call = move || sender.send(()).unwrap_or(());
        let place = self.0.streams.wait(stream.inner(), &[(partition, offset)], call)?;
        let _ = called.recv_timeout(timeout);
        drop(place);
        Ok(self.0.streams.watermarks(stream.inner(), partition)?.high > offset)
    }

    /// Returns the offsets that a consumer group reads next, by partition; none if it has never committed.
    ///
    /// # Errors
    /// `Invalid` if no group can have this name; `Corrupt`; what the engine returns.
    pub fn group(&self, stream: &Stream, group: &str) -> Result<BTreeMap<u32, u64>> {
        let group = self.0.streams.group(self.inner(), stream.inner(), group)?;
        Ok(group.map(|group| group.offsets).unwrap_or_default())
    }

    /// Opens a blob of a record; `None` if there is no such record.
    ///
    /// # Errors
    /// `Invalid` if the table has no such attribute; `NotFound` if the record has no such blob; `Corrupt`; what the engine returns.
    pub fn blob(&self, table: &Table, id: &str, attribute: &str) -> Result<Option<BlobReader>> {
        let reader = blobs::Reader::open(self.inner(), table.inner(), id, position(table, attribute)?)?;
        Ok(reader.map(|reader| BlobReader::new(reader, self)))
    }

    /// Begins to write a blob of a record. The checksums of the precondition are tags of blobs.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type T @table { id: ID! @primaryKey  photo: Blob }")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// # let table = database.table("T")?;
    /// # database.create(&table, strata::Json(r#"{"id": "a"}"#))?;
    /// use std::io::{Read, Write};
    /// use strata::Precondition;
    ///
    /// let mut blob = database.write_blob(&table, "a", "photo", "image/png", Precondition::None)?;
    /// blob.write_all(b"not a picture").unwrap();
    /// blob.finish()?;
    /// let mut bytes = Vec::new();
    /// database.blob(&table, "a", "photo")?.unwrap().read_to_end(&mut bytes).unwrap();
    /// assert_eq!(bytes, b"not a picture");
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such record; `Stale` if the precondition fails; `Invalid` if the attribute is not a Blob, or the media
    /// type is too long; what the engine returns.
    pub fn write_blob(
        &self,
        table: &Table,
        id: &str,
        attribute: &str,
        media_type: &str,
        expected: Precondition,
    ) -> Result<BlobWriter> {
        let position = position(table, attribute)?;
        let upload = blobs::Upload::begin(self.inner(), table.inner(), id, position, media_type, expected)?;
        Ok(BlobWriter::new(upload, self))
    }

    /// Deletes a blob of a record.
    ///
    /// # Errors
    /// `NotFound` if there is no such record, or it has no such blob; `Stale` if the precondition fails; as [`Database::write_blob`].
    pub fn delete_blob(&self, table: &Table, id: &str, attribute: &str, expected: &Precondition) -> Result<()> {
        blobs::remove(self.inner(), table.inner(), id, position(table, attribute)?, expected)
    }

    /// Does a piece of the work that the background thread does; returns whether there may be more.
    ///
    /// # Errors
    /// `Busy` if the engine cannot keep up or records stay locked; `Invalid` if it was opened for reading; what the engine returns.
    pub fn work(&self) -> Result<bool> {
        let has_worked = self.inner().work()?;
        self.0.streams.work(self.inner())?;
        Ok(has_worked)
    }

    /// Copies the database into a new directory, as it is now, while it stays open.
    ///
    /// # Errors
    /// `Invalid` if the directory exists; `Storage` on an I/O error.
    pub fn back_up(&self, directory: impl AsRef<Path>) -> Result<()> {
        self.inner().store().checkpoint(directory.as_ref())
    }

    /// Rewrites what is stored without what was overwritten or deleted, and waits for it.
    ///
    /// # Errors
    /// `Invalid` if it was opened for reading; `Storage` on an I/O error; `Busy` if no file can be opened.
    pub fn compact(&self) -> Result<()> {
        self.inner().store().compact()
    }

    /// Reads all that is stored and checks it: files, records against their indexes, blobs, events. Returns every disagreement.
    ///
    /// # Errors
    /// `Corrupt` if a file is damaged; what the engine returns.
    pub fn verify(&self) -> Result<Vec<String>> {
        self.inner().store().check_files()?;
        let mut found = self.inner().disagreements()?;
        found.extend(blobs::disagreements(self.inner())?);
        found.extend(streams::disagreements(self.inner())?);
        Ok(found)
    }

    /// Counts what is stored; reads all of it.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn statistics(&self) -> Result<Statistics> {
        maintenance::statistics(self.inner())
    }

    /// Returns how large it is, without reading what is stored.
    ///
    /// # Errors
    /// `Storage` if the engine does not report it.
    pub fn sizes(&self) -> Result<Gauges> {
        self.inner().store().gauges()
    }

    /// Returns the counters of the engine since it was opened.
    pub fn counters(&self) -> Counters {
        self.inner().counters()
    }

    /// Returns why the engine refuses writes, if it does.
    pub fn failure(&self) -> Option<String> {
        self.inner().store().failure()
    }
}

/// Longer than a thread takes that is about to end.
const ENDING: Duration = Duration::from_secs(10);

/// The bytes of events after which no further one is read.
const EVENT_BYTES: usize = 16 << 20;

fn position(table: &Table, attribute: &str) -> Result<usize> {
    let missing = || Error::invalid(format!("table {} has no attribute {attribute:?}", table.name()));
    table.attribute(attribute).ok_or_else(missing)
}
