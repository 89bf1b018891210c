//! The operations on records: create, read, replace, merge, delete; atomic over many records.
//!
//! A transaction holds the lock of every key it has touched (records, and unique values it claims) until its one batch is written, so
//! writes are serialisable. A free lock is taken immediately, which cannot deadlock in any order. If a lock is held by another, the
//! transaction releases all its locks, waits for the locks of all its keys in slot order, and restarts. Nothing is written before the end,
//! so restarting and aborting need no rollback.
//!
//! No read takes a lock: neither a read by id nor a query. A read inside a transaction does, to keep others from writing what it has read.
//! A transaction that has waited for `LOCK_WAIT` in all gives up as `Busy`. Verbs that name their keys beforehand (an array of creates, a
//! delete by query) never restart, unless a unique value belongs to an expired record, which is deleted in the same batch. A truncation
//! holds every slot, so that no update is in progress that would write a part of a record after it. No thread waits for itself: it knows
//! the slots that its transactions hold (`HELD_BY_THREAD`), and a verb of the database that wants one of them is `Invalid`.
//!
//! A handle that leaves syncs to its caller ([`Database::deferring_syncs`]) returns from a strong write once that is in the log and its
//! locks are released; [`Database::when_synced`] calls back after the sync, so no lock is held over one. A write that finds a lock held is
//! tried again when [`Database::when_released`] calls back.
//!
//! At a remote store the batch depends on every key that the transaction has read for it (`Store::get_for`). The database refuses it if
//! another server has changed one of them, and the verb runs again (`storage::remote`).
//!
//! A database is open for as long as somebody has a [`Database`], a feed, an upload or a reader of a blob. Nothing else keeps it open, such
//! as a subscription (except while it catches up) or its texts.
//!
//! [`Database`] is also the entry point for programs that embed the store: open it and call the verbs.

mod background;
mod bodies;
mod catalogue;
mod clock;
mod copying;
mod ids;
mod members;
mod uniques;
mod uploads;
mod verbs;

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

use background::Background;
pub use bodies::Body;
pub(crate) use bodies::check_patch_of_many;
pub use catalogue::Migration;
pub use clock::Clock;
pub use copying::{Copied, copy};
pub use members::Cluster;
use members::Members;
use uploads::Uploads;

use crate::encoding::body::parse_object;
use crate::encoding::record::Current;
use crate::encoding::{Fields, RECORDS, Record, key, url};
use crate::error::{Error, Result};
use crate::indexes;
use crate::locking::{Guards, Locks, Slot, Wait};
use crate::schema::{Durability, Index, Schema, Table};
use crate::storage::{
    self, Batch, Counters, Notification, Pinned, ReadTier, Snapshot, Space, Store, raced_too_often, unsupported,
};

/// A record in memory owned by this process, just written or copied.
pub type Owned<'t> = Record<'t, Vec<u8>>;

/// One of many records written together, in shared memory.
pub type Shared<'t> = Record<'t, Bytes>;

/// A record that was read, pinned in the engine's memory.
pub type Read<'t, 'd> = Record<'t, Current<Pinned<'d>>>;

/// Total time for which a transaction waits for locks before it fails with `Busy`, unless [told otherwise](Database::with_lock_wait).
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// A longer wait is no other, and can be added to the time of day.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An open store with its schema and its locks. Clones share everything except what their verbs have left to wait for.
///
/// Every verb is `Invalid` if a table that it is given is not one of the database ([`Database::table`]). One that writes is also `Invalid`
/// if the store was opened for reading, or if it needs a lock that a [transaction](Database::transact) of the same thread holds.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Parts>,
    tier: ReadTier,
    clock: Clock,
    interrupt: Option<Interrupt>,
    /// Present on a database that does not wait for syncs.
    deferred: Option<Deferred>,
    /// Total time for which a transaction waits for locks before it fails with `Busy`.
    lock_wait: Duration,
}

/// What the caller still has to wait for after verbs on one database.
#[derive(Default)]
struct Deferred {
    /// A strong write is in the log, which is not synced yet.
    sync: AtomicBool,
    /// The lock held by another transaction that made a verb fail.
    lock: Mutex<Option<Slot>>,
    /// What is called after the sync.
    followers: Mutex<Vec<Box<dyn Follower>>>,
}

impl Clone for Deferred {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Cancels running queries that have no client any more. Clones are the same interrupt.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Cancels the queries of all databases with this interrupt, within some thousand records; writes continue.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Parts {
    store: Store,
    schema: Arc<Schema>,
    locks: Locks,
    background: Mutex<Background>,
    /// Uploads whose bytes are still to be deleted: table and number.
    abandoned: Mutex<Vec<(u32, u64)>>,
    uploads: Uploads,
    members: Members,
    registrations: Counted,
    /// What a layer above keeps in memory, as long as it does: see [`Database::kept_beside`].
    beside: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        if self.store.is_remote() && !self.store.is_read_only() {
            // On a thread of its own: this one may belong to a runtime, which forbids to wait.
            std::thread::scope(|scope| {
                scope.spawn(|| self.members.leave(&self.store));
            });
        }
    }
}

/// The condition that the stored record must satisfy for a verb to change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    #[default]
    None,
    /// The record exists.
    Exists,
    /// The record does not exist.
    Absent,
    /// The checksum of the record is one of these.
    OneOf(Vec<u64>),
}

/// What follows the batch of a transaction: memory that repeats what is stored. Its methods must neither block nor panic.
pub(crate) trait Follower: Send {
    /// Called when the batch is written, while its locks are held.
    fn written(&self);

    /// Called when writing the batch has failed, while its locks are held: it may be written all the same after a restart.
    fn failed(&self);

    /// Called when the batch of a strong transaction is synced, after its locks were released; never if the sync fails.
    fn synced(&self);
}

/// An atomic set of reads and staged writes.
pub struct Transaction<'d> {
    database: &'d Database,
    guards: Guards<'d>,
    /// The number of locks that the thread held before.
    held_before: usize,
    /// The slot whose lock was held, so that the transaction has to restart.
    wanted: Option<Slot>,
    batch: Batch,
    durability: Durability,
    /// The time of the transaction, once it was needed.
    now: OnceCell<i64>,
    /// The writes of this transaction by key, so that it reads its own writes. `None` for a transaction of one verb.
    written: Option<Written>,
    follower: Option<Box<dyn Follower>>,
}

/// The keys that a verb on many records is known to need.
struct KnownKeys<'d> {
    database: &'d Database,
    /// Their locks.
    slots: Vec<Slot>,
    /// What it will read, if the store is remote: in one request.
    read: Vec<(Space, Vec<u8>)>,
}

impl<'d> KnownKeys<'d> {
    fn of(database: &'d Database) -> Self {
        Self { database, slots: Vec::new(), read: Vec::new() }
    }

    fn of_records(database: &'d Database, table: &Table, ids: &[impl AsRef<str>]) -> Self {
        let mut known = Self::of(database);
        ids.iter().for_each(|id| known.add_record(table, id.as_ref()));
        known
    }

    fn add_record(&mut self, table: &Table, id: &str) {
        self.slots.push(self.database.shared.locks.slot(table.id, id.as_bytes()));
        if self.database.store().is_remote() {
            let mut record = Vec::with_capacity(4 + id.len());
            key::record(table.id, id, &mut record);
            self.read.push((Space::Records, record));
        }
    }

    /// Adds the entry of a unique value.
    fn add_entry(&mut self, index: &Index, entry: Vec<u8>) {
        self.slots.push(uniques::slot(&self.database.shared.locks, index, &entry));
        if self.database.store().is_remote() {
            self.read.push((Space::Indexes, entry));
        }
    }
}

/// The outcome of a bulk replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Number of records that did not exist before.
    pub created: usize,
    /// Number of records that existed before.
    pub replaced: usize,
}

/// The outcome of looking whether a record has to be renewed. Times are in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// There is no such record, or it gives its expiry itself.
    NotNeeded,
    /// More than two thirds of its time to live are left until then.
    DueAt(i64),
    /// It has all of its time to live again.
    Renewed {
        /// When two thirds of it will be left.
        due: i64,
    },
}

/// Counters of registrations since the store was opened: records of tables with an expiration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Registrations {
    /// Number of those deleted because they had expired.
    pub expired: u64,
    /// Number of renewals of those that were held.
    pub renewed: u64,
}

/// The counters behind [`Registrations`].
#[derive(Default)]
struct Counted {
    expired: AtomicU64,
    renewed: AtomicU64,
}

#[derive(Default)]
struct Written {
    records: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Owner of each unique value, by key of its index entry.
    owners: HashMap<Vec<u8>, Option<String>>,
}

impl Database {
    /// Opens the store in `directory`, creating it if there is none. New indexes are built by [`Database::work`]; until they are ready
    /// queries do not use them.
    ///
    /// # Errors
    /// `Busy` if the directory is in use; `Storage` on an I/O error; `Corrupt` if files are damaged; `Invalid` if the schema contradicts
    /// what is stored, or the system cannot reserve a cache.
    pub fn open(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::KeepsData)
    }

    /// Opens the store and deletes the records of tables and the values of attributes that the schema does not name.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn migrate(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::DropsData)
    }

    /// Opens an existing store for reading, only if the schema is the one it was last opened with. Nothing in its directory is changed;
    /// verbs that write are `Invalid`.
    ///
    /// # Errors
    /// As [`Database::open`]; `Invalid` if a table differs.
    pub fn open_unchanged(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::ChangesNothing)
    }

    pub(crate) fn open_by(
        directory: &Path,
        schema: Schema,
        options: &storage::Options,
        migration: Migration,
    ) -> Result<Self> {
        let store = match migration {
            Migration::ChangesNothing => Store::open_read_only(directory, options)?,
            Migration::KeepsData | Migration::DropsData => Store::open(directory, options)?,
        };
        Self::with_store(store, schema, migration, "a program")?.renewing_its_lease()
    }

    /// Opens the store in a database. Other servers may have it open, too, with the same schema; `address` is how they name this one.
    ///
    /// # Errors
    /// As [`Database::open`]; `Unsupported` if the schema has what only the embedded engine can keep; `Busy` if the database does not answer,
    /// or refuses.
    pub fn connect(
        location: &storage::Location,
        password: Option<&str>,
        schema: Schema,
        migration: Migration,
        address: &str,
    ) -> Result<Self> {
        let is_read_only = migration == Migration::ChangesNothing;
        let store = Store::connect(location, password, is_read_only)?;
        Self::with_store(store, schema, migration, address)?.renewing_its_lease()
    }

    /// Starts the thread that renews the lease at a remote store.
    fn renewing_its_lease(self) -> Result<Self> {
        if self.store().is_remote() && !self.store().is_read_only() {
            self.renew_lease()?;
            Members::start(&self.shared)?;
        }
        Ok(self)
    }

    /// Opens a store in a simulated database, as one of several servers would.
    ///
    /// # Errors
    /// As [`Database::open`].
    #[cfg(feature = "simulated")]
    pub fn open_simulated(simulation: &storage::Simulation, schema: Schema, address: &str) -> Result<Self> {
        Self::with_store(Store::simulated(simulation), schema, Migration::KeepsData, address)
    }

    fn with_store(store: Store, schema: Schema, migration: Migration, address: &str) -> Result<Self> {
        if store.is_remote() {
            check_remote(&schema)?;
        }
        let (clock, members) = (Clock::default(), Members::new(address));
        let mut raced = 0;
        let (mut schema, catalogue) = loop {
            match catalogue::reconcile(&store, &members, schema.clone(), migration, clock.now()) {
                Err(Error::Raced) => raced += 1,
                outcome => break outcome?,
            }
            store.pause(raced);
        };
        for table in &mut schema.tables {
            table.has_random_ids = store.has_random_ids();
        }
        let uploads = Uploads::open(&store)?;
        let background = Mutex::new(Background::new(catalogue));
        let shared = Arc::new(Parts {
            store,
            schema: Arc::new(schema),
            locks: Locks::default(),
            background,
            abandoned: Mutex::default(),
            uploads,
            members,
            registrations: Counted::default(),
            beside: Mutex::default(),
        });
        Ok(Self { clock, ..Self::of(shared) })
    }

    fn of(shared: Arc<Parts>) -> Self {
        let clock = Clock::default();
        Self { shared, tier: ReadTier::Disk, clock, interrupt: None, deferred: None, lock_wait: LOCK_WAIT }
    }

    /// Returns the same database with another clock, which determines when records expire, and their creation and update times.
    #[must_use]
    pub fn with_clock(&self, clock: &Clock) -> Self {
        Self { clock: clock.clone(), ..self.clone() }
    }

    /// Returns the current time, in microseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Returns the same database, which answers only from memory and never blocks: [`Error::WouldBlock`] where that is not enough, and no
    /// syncs, as [`Database::deferring_syncs`].
    pub fn never_blocking(&self) -> Self {
        Self { tier: ReadTier::Memory, interrupt: None, ..self.deferring_syncs() }
    }

    /// Returns the same database, whose strong writes are in the log but not synced when a verb returns: they are not durable before
    /// [`Database::when_synced`] has called back. Each clone tracks what its own verbs have left.
    pub fn deferring_syncs(&self) -> Self {
        Self { deferred: Some(Deferred::default()), ..self.clone() }
    }

    /// Returns whether a verb on this database has left a sync to do.
    pub fn has_deferred_sync(&self) -> bool {
        self.deferred.as_ref().is_some_and(|deferred| deferred.sync.load(Ordering::Relaxed))
    }

    /// Syncs the log, with what verbs on this database have left, without blocking a thread: `done` is called with the outcome. If no other
    /// waiter leads the commit, `spawn` receives a closure that syncs and may block. `spawn` and `done` must neither block nor panic.
    pub fn when_synced(
        &self,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) + Send + 'static,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        let database = self.clone();
        let followers = self.deferred.as_ref().map(|deferred| std::mem::take(&mut *deferred.followers.lock()));
        let done = move |outcome: Result<()>| {
            if outcome.is_ok() {
                followers.into_iter().flatten().for_each(|follower| follower.synced());
            }
            done(outcome);
        };
        self.store().when_synced(move |call| match call {
            Notification::Lead(lead) => spawn(Box::new(move || done(lead.sync(database.store())))),
            Notification::Served(outcome) => done(outcome),
        });
    }

    /// Syncs the log, if verbs on this database have left a sync to do, and waits for it.
    ///
    /// # Errors
    /// What the engine returns.
    pub(crate) fn sync_deferred(&self) -> Result<()> {
        let Some(deferred) = self.deferred.as_ref().filter(|_| self.has_deferred_sync()) else { return Ok(()) };
        let followers = std::mem::take(&mut *deferred.followers.lock());
        self.store().sync()?;
        followers.into_iter().for_each(|follower| follower.synced());
        Ok(())
    }

    /// Calls back when the lock that made a verb on this database return `WouldBlock` is released; returns false if it was not a lock. The
    /// callback must neither block nor panic.
    pub fn when_released(&self, callback: impl FnOnce() + Send + 'static) -> bool {
        let slot = self.deferred.as_ref().and_then(|deferred| deferred.lock.lock().take());
        if let Some(slot) = slot {
            self.shared.locks.when_released(slot, callback);
        }
        slot.is_some()
    }

    /// Returns the same database, whose queries fail with `Busy` once the interrupt is raised.
    pub fn interrupted_by(&self, interrupt: &Interrupt) -> Self {
        Self { interrupt: Some(interrupt.clone()), ..self.clone() }
    }

    /// Returns the same database, whose transactions wait this long for locks.
    #[must_use]
    pub fn with_lock_wait(&self, lock_wait: Duration) -> Self {
        Self { lock_wait, ..self.clone() }
    }

    /// Returns whether its queries are to stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_raised)
    }

    /// Returns the schema, with the numbers of its tables and indexes as stored.
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// Returns the schema for whoever keeps it as long as the database is open, or longer.
    pub(crate) fn schema_shared(&self) -> &Arc<Schema> {
        &self.shared.schema
    }

    /// Returns the table with this name, by which all verbs address it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn table(&self, name: &str) -> Result<&Table> {
        self.schema().table(name).ok_or_else(|| Error::NotFound { detail: format!("there is no table {name}") })
    }

    /// Refuses a table of another schema, whose numbers would address the keys of other tables, and one whose records are not here.
    pub(crate) fn check_issued(&self, table: &Table) -> Result<()> {
        match self.schema().tables.as_ptr_range().contains(&std::ptr::from_ref(table)) {
            true if table.in_redis => Err(Error::invalid(format!("the records of table {} are in Redis", table.name))),
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "table {} belongs to another schema: get it from Database::table",
                table.name
            ))),
        }
    }

    /// Encodes a JSON object as the record with an id, to be kept elsewhere; what it omits is null.
    ///
    /// # Errors
    /// `Invalid` id or body.
    pub(crate) fn encoded<'t>(&self, table: &'t Table, id: &str, body: &[u8]) -> Result<Owned<'t>> {
        bodies::encode_under(table, id, body, self.now())
    }

    /// Refuses to continue `what` with another database.
    pub(crate) fn check_same(&self, other: &Self, what: &str) -> Result<()> {
        match Arc::ptr_eq(&self.shared, &other.shared) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the {what} belongs to another database: continue with the one it began with"
            ))),
        }
    }

    /// Returns counters of storage calls and of background work.
    pub fn counters(&self) -> Counters {
        self.store().counters()
    }

    /// Returns how far its reads go.
    pub fn tier(&self) -> ReadTier {
        self.tier
    }

    /// Returns the underlying store, for maintenance: flush, checkpoint, settle.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns a function that tells whether anybody has it open.
    pub(crate) fn watch(&self) -> impl Fn() -> bool + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.strong_count() > 0
    }

    /// Returns what a layer above keeps in memory of this database, and what all its clones share; `make` makes it if nobody keeps one now.
    ///
    /// # Errors
    /// What `make` returns.
    pub(crate) fn kept_beside<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut beside = self.shared.beside.lock();
        let known = beside.as_ref().and_then(Weak::upgrade).and_then(|kept| Arc::downcast(kept).ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let kept: Arc<dyn Any + Send + Sync> = made.clone();
        *beside = Some(Arc::downgrade(&kept));
        Ok(made)
    }

    /// Reads a record by its id, without a copy and without a lock.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; what the engine returns.
    pub fn read<'d>(&'d self, table: &'d Table, id: &str) -> Result<Option<Read<'d, 'd>>> {
        self.check_issued(table)?;
        let bytes = KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.store().get(Space::Records, key, self.tier)
        })?;
        self.unless_expired(table, bytes)
    }

    /// Reads a record by its id, as of a snapshot.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub(crate) fn read_at<'d>(
        &'d self,
        table: &'d Table,
        id: &str,
        snapshot: &Snapshot<'_>,
    ) -> Result<Option<Read<'d, 'd>>> {
        self.check_issued(table)?;
        let values = KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.store().multi_get(Space::Records, &[key], snapshot, self.tier)
        })?;
        self.unless_expired(table, values.into_iter().next().flatten())
    }

    #[inline]
    fn unless_expired<'d>(&self, table: &'d Table, bytes: Option<Pinned<'d>>) -> Result<Option<Read<'d, 'd>>> {
        match bytes.map(|bytes| Record::open(table, bytes)).transpose()? {
            Some(record) if table.expires() && record.has_expired(self.now())? => Ok(None),
            record => Ok(record),
        }
    }

    /// Creates a record from a JSON object; an id is generated if the body has none.
    ///
    /// # Errors
    /// `Invalid` body; `Conflict` if the id or a unique value exists; `Busy`; what the engine returns.
    pub fn create<'t>(&self, table: &'t Table, body: &[u8]) -> Result<Owned<'t>> {
        // Parsed inside: a verb that has to restart, which is rare, parses again, and no other verb pays for a copy.
        if !self.store().is_remote() {
            return self.once(|transaction| transaction.create_from(table, body));
        }
        let path = RefCell::new(None);
        let created = self.once(|transaction| {
            let created = transaction.create_from(table, body)?;
            *path.borrow_mut() = Some(url::record(&table.name, &created.id()?));
            Ok(created)
        });
        created.map_err(|error| match error {
            Error::Unknown { detail, .. } => Error::Unknown { detail, record: path.take() },
            error => error,
        })
    }

    /// Creates records from a JSON array of objects, all or none.
    ///
    /// # Errors
    /// As [`Database::create`], with the index of the element at the start of pointers; `Invalid` if there are too many.
    pub fn create_all<'t>(&self, table: &'t Table, body: &[u8]) -> Result<Vec<Shared<'t>>> {
        self.check_issued(table)?;
        self.insert_all(bodies::encode_all(table, body, self.now())?)
    }

    /// Creates records, all or none.
    ///
    /// # Errors
    /// As [`Database::create_all`].
    pub(crate) fn create_rows<'t>(&self, table: &'t Table, rows: &[Body<'_>]) -> Result<Vec<Shared<'t>>> {
        self.check_issued(table)?;
        if rows.len() > RECORDS {
            return Err(Error::invalid_at(
                format!("/{RECORDS}"),
                format!("at most {RECORDS} records are created at once"),
            ));
        }
        let now = self.now();
        let encode =
            |(position, row): (usize, &Body<'_>)| row.encode(table, now).map_err(|error| below(position, error));
        self.insert_all(rows.iter().enumerate().map(encode).collect::<Result<_>>()?)
    }

    fn insert_all<'t>(&self, records: Vec<bodies::New<'t>>) -> Result<Vec<Shared<'t>>> {
        // All keys are known beforehand, so it never restarts, however many locks are held by others.
        let mut known = KnownKeys::of(self);
        for record in &records {
            record.name_keys(&mut known)?;
        }
        self.run(known, true, |transaction| transaction.create_encoded(&records))?;
        Ok(records.into_iter().map(bodies::New::into_record).collect())
    }

    /// Creates records from JSON objects, each independently of the others: a refused one does not affect the rest. Returns the outcome of
    /// each, in order.
    ///
    /// # Errors
    /// A failure of all of them: `Busy`, what the engine returns.
    pub fn create_each(&self, table: &Table, bodies: &[&[u8]]) -> Result<Vec<Result<()>>> {
        self.check_issued(table)?;
        let now = self.now();
        let records: Vec<_> = bodies.iter().map(|body| bodies::encode_one(table, body, now)).collect();
        let mut known = KnownKeys::of(self);
        for record in records.iter().flatten() {
            record.name_keys(&mut known)?;
        }
        let outcomes = self.run(known, true, |transaction| {
            let outcomes = records.iter().flatten().map(|record| match transaction.insert_new(record) {
                Err(refused @ (Error::Invalid { .. } | Error::Conflict { .. })) => Ok(Err(refused)),
                outcome => outcome.map(Ok),
            });
            outcomes.collect::<Result<Vec<_>>>()
        })?;
        let mut outcomes = outcomes.into_iter();
        let all = records.into_iter().map(|record| record.and_then(|_| outcomes.next().expect("each record has one")));
        Ok(all.collect())
    }

    /// Replaces or creates records from a JSON array of objects, all or none; an id is generated where there is none. Returns the counts.
    ///
    /// # Errors
    /// As [`Database::replace`], with the index of the element at the start of pointers; `Invalid` if an id occurs twice.
    pub fn replace_all(&self, table: &Table, body: &[u8]) -> Result<Replaced> {
        self.check_issued(table)?;
        let records = bodies::Whole::parse_all(table, body)?;
        let mut known = KnownKeys::of(self);
        records.iter().for_each(|record| record.name_keys(&mut known));
        self.run(known, true, |transaction| transaction.replace_each(&records))
    }

    /// Replaces a record with a JSON object, or creates it; the flag is true if it was created. Omitted attributes become null.
    ///
    /// # Errors
    /// `Invalid` body; `Stale` or `NotFound` if the precondition fails; `Conflict` if another record has a unique value.
    pub fn replace<'t>(
        &self,
        table: &'t Table,
        id: &str,
        body: &[u8],
        expected: &Precondition,
    ) -> Result<(Owned<'t>, bool)> {
        self.once(|transaction| transaction.replace(id, parse_object(table, body)?, expected))
    }

    /// Applies a JSON merge patch (RFC 7396) to a record.
    ///
    /// # Errors
    /// As [`Database::replace`], and `NotFound` if there is no such record.
    pub fn merge<'t>(&self, table: &'t Table, id: &str, patch: &[u8], expected: &Precondition) -> Result<Owned<'t>> {
        self.once(|transaction| transaction.merge(id, parse_object(table, patch)?, expected))
    }

    /// Deletes a record.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Stale` if the precondition fails.
    pub fn delete(&self, table: &Table, id: &str, expected: &Precondition) -> Result<()> {
        self.once(|transaction| transaction.delete(table, id, expected))
    }

    /// Deletes those of the given records that `accept` accepts, all or none, and returns how many. Their keys are known beforehand, so it
    /// never restarts.
    ///
    /// # Errors
    /// What `accept` returns; `Busy`; what the engine returns.
    pub fn delete_where(
        &self,
        table: &Table,
        ids: &[String],
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<usize> {
        self.check_issued(table)?;
        let known = KnownKeys::of_records(self, table, ids);
        self.run(known, false, |transaction| {
            let mut deleted = 0;
            for id in ids {
                deleted += usize::from(transaction.delete_if(table, id, &accept)?);
            }
            Ok(deleted)
        })
    }

    /// Merges a patch into those of the given records that `accept` accepts, all or none, and returns how many. Their keys are known
    /// beforehand.
    ///
    /// # Errors
    /// `Invalid` if the patch sets the id, or removes a required value; `Conflict` if it sets a unique value that belongs to another
    /// record; what `accept` returns; `Busy`; what the engine returns.
    pub fn merge_where(
        &self,
        ids: &[String],
        patch: &Fields<'_, '_>,
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<usize> {
        let table = patch.table();
        self.check_issued(table)?;
        bodies::check_patch_of_many(patch)?;
        let known = KnownKeys::of_records(self, table, ids);
        self.run(known, true, |transaction| {
            let mut merged = 0;
            for id in ids {
                merged += usize::from(transaction.merge_if(id, patch, &accept)?);
            }
            Ok(merged)
        })
    }

    /// Renews those of the given records of which less than two thirds of their time to live are left, in one transaction: they get another
    /// deadline, and stay the same otherwise, their validators too; damaged ones stay as they are. It is `soft` in every table, since
    /// nobody is told of it.
    ///
    /// # Errors
    /// `Busy`; what the engine returns.
    pub fn renew(&self, table: &Table, ids: &[&str]) -> Result<Vec<Renewal>> {
        self.check_issued(table)?;
        let known = KnownKeys::of_records(self, table, ids);
        let renewals = self.run(known, false, |transaction| {
            // It takes the place of what is there: held registrations live on while the device is nearly full.
            transaction.give_back();
            let renew = |id: &&str| match transaction.renew(table, id) {
                Err(Error::Corrupt { .. }) => Ok(Renewal::NotNeeded),
                renewal => renewal,
            };
            ids.iter().map(renew).collect::<Result<Vec<_>>>()
        })?;
        let renewed = renewals.iter().filter(|renewal| matches!(renewal, Renewal::Renewed { .. })).count();
        self.shared.registrations.renewed.fetch_add(renewed as u64, Ordering::Relaxed);
        Ok(renewals)
    }

    /// Returns the counters of registrations.
    pub fn registrations(&self) -> Registrations {
        let Counted { expired, renewed } = &self.shared.registrations;
        Registrations { expired: expired.load(Ordering::Relaxed), renewed: renewed.load(Ordering::Relaxed) }
    }

    /// Returns a number for the bytes of a blob of the record with this id, which no other upload has had.
    ///
    /// # Errors
    /// `Invalid` if no URL can carry the id; what the engine returns.
    pub fn begin_upload(&self, table: &Table, id: &str) -> Result<u64> {
        self.check_issued(table)?;
        bodies::check_id(table, id)?;
        self.shared.uploads.number(self.store())
    }

    /// Deletes what was stored of an upload that no record refers to.
    ///
    /// # Errors
    /// `Busy` if the engine cannot keep up; then [`Database::work`] deletes it; what the engine returns.
    pub fn abandon_upload(&self, table: &Table, upload: u64) -> Result<()> {
        self.check_issued(table)?;
        self.remove_upload(table.id, upload)
    }

    fn remove_upload(&self, table: u32, upload: u64) -> Result<()> {
        let written = uploads::remove(self.store(), table, upload);
        if matches!(written, Err(Error::Busy { .. })) {
            self.shared.abandoned.lock().push((table, upload));
        }
        written
    }

    /// Makes a Blob of a record refer to an upload, or to none, which is a write of the record; the bytes of the previous upload are
    /// deleted. `accept` receives the current upload and decides whether it may change; `stage` adds what belongs to the new one. Both may
    /// be called more than once.
    ///
    /// # Errors
    /// `NotFound` if there is no such record, or the table was truncated since the upload began; `Invalid` if the attribute is not a Blob;
    /// what `accept` returns, in which case nothing is written; `Busy`; what the engine returns.
    pub fn set_blob(
        &self,
        table: &Table,
        id: &str,
        attribute: usize,
        upload: Option<u64>,
        accept: impl Fn(&mut Transaction<'_>, Option<u64>) -> Result<()>,
        stage: impl Fn(&Store, &mut Batch),
    ) -> Result<()> {
        self.once(|transaction| {
            transaction.set_blob(table, id, attribute, upload, &accept)?;
            stage(self.store(), &mut transaction.batch);
            Ok(())
        })
    }

    /// Deletes all records of a table atomically, however many there are: readers see all of them or none. Transactions on any table wait
    /// meanwhile, except creates with a generated id, each of which happens entirely before or after it.
    ///
    /// # Errors
    /// `Busy` if a lock stays held by others; `WouldBlock` on a database that answers from memory; what the engine returns.
    pub fn truncate(&self, table: &Table) -> Result<()> {
        self.check_issued(table)?;
        if self.tier == ReadTier::Memory {
            return Err(Error::WouldBlock);
        }
        // A concurrent update stages only the index entries that change: written after the truncation, it would revive a record without its
        // other entries. While all slots are held, no update is under way.
        self.check_not_held(|_| true)?;
        let _guards =
            self.shared.locks.lock_every(Wait::AtMost(self.lock_wait)).ok_or_else(|| held_too_long(self.lock_wait))?;
        let mut batch = Batch::default();
        indexes::clear_table(self.store(), &mut batch, table.id, table.indexes.iter().map(|index| index.id));
        uploads::clear_table(self.store(), &mut batch, table.id);
        let outcome = self.write(&mut batch, table.durability);
        // After the write: an upload that begins before it may lose its first chunks to it. A write that returned an error may have
        // happened.
        self.shared.uploads.retire(table.id);
        outcome
    }

    fn write(&self, batch: &mut Batch, durability: Durability) -> Result<()> {
        if self.tier == ReadTier::Memory && (self.store().is_short() || self.store().is_remote()) {
            return Err(Error::WouldBlock);
        }
        match &self.deferred {
            Some(deferred) if durability == Durability::Strong => {
                self.store().write(batch, Durability::Soft)?;
                deferred.sync.store(true, Ordering::Relaxed);
                Ok(())
            }
            _ => self.store().write(batch, durability),
        }
    }

    /// Syncs what a transaction has written, or leaves that to the caller; then calls its follower.
    fn sync_for(&self, follower: Box<dyn Follower>) -> Result<()> {
        match &self.deferred {
            Some(deferred) => {
                deferred.followers.lock().push(follower);
                deferred.sync.store(true, Ordering::Relaxed);
            }
            None => {
                self.store().sync()?;
                follower.synced();
            }
        }
        Ok(())
    }

    /// Reads a record, lets `change` compute a patch for it, and merges that, while the record is locked. `change` may be called more than
    /// once, each time with the current record, so it should have no side effects.
    ///
    /// # Errors
    /// `NotFound`; what `change` returns, in which case nothing is written; as [`Database::merge`].
    pub fn update<'t>(
        &self,
        table: &'t Table,
        id: &str,
        change: impl Fn(Record<'t, &[u8]>) -> Result<Fields<'t, 'static>>,
    ) -> Result<Owned<'t>> {
        self.once(|transaction| transaction.update(table, id, &change))
    }

    /// Runs `verbs` as one transaction. If it returns an error, nothing is written.
    ///
    /// It may run more than once: a verb that meets a lock held by another transaction fails, and after `verbs` has returned (whatever its
    /// result), the transaction waits for all locks and restarts empty. So `verbs` should do nothing but call verbs. What a successful verb
    /// has read stays valid until the end of that run; another run may have read something else.
    ///
    /// # Errors
    /// What `verbs` returns; `Busy` if a lock stays held; what the engine returns when the batch is written.
    pub fn transact<'d, R>(&'d self, verbs: impl Fn(&mut Transaction<'d>) -> Result<R>) -> Result<R> {
        self.run(KnownKeys::of(self), true, verbs)
    }

    /// As [`Database::transact`], for verbs with an error of their own. (One method cannot be both: where the compiler does not know the
    /// type of the error, `?` within `verbs` is ambiguous.)
    ///
    /// # Errors
    /// As [`Database::transact`], converted.
    pub fn try_transact<'d, R, E: From<Error>>(
        &'d self,
        verbs: impl Fn(&mut Transaction<'d>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.try_run(KnownKeys::of(self), true, verbs)
    }

    /// As [`Database::transact`]; `keys`, each of a table or a stream, are those whose locks are known to be needed.
    pub(crate) fn transact_holding<'d, 'k, R, E: From<Error>>(
        &'d self,
        keys: impl Iterator<Item = (u32, &'k [u8])>,
        verbs: impl Fn(&mut Transaction<'d>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let mut known = KnownKeys::of(self);
        known.slots.extend(keys.map(|(space, key)| self.shared.locks.slot(space, key)));
        self.try_run(known, true, verbs)
    }

    /// As [`Database::transact`] for a single verb, which has no writes of its own to read.
    pub(crate) fn once<'d, R>(&'d self, verb: impl Fn(&mut Transaction<'d>) -> Result<R>) -> Result<R> {
        self.run(KnownKeys::of(self), false, verb)
    }

    fn run<'d, R>(
        &'d self,
        known: KnownKeys<'d>,
        remember: bool,
        verbs: impl Fn(&mut Transaction<'d>) -> Result<R>,
    ) -> Result<R> {
        self.try_run(known, remember, verbs)
    }

    /// Runs `verbs` until they meet no lock of another thread, and no other server has changed what they depend on.
    #[inline]
    fn try_run<'d, R, E: From<Error>>(
        &'d self,
        known: KnownKeys<'d>,
        remember: bool,
        verbs: impl Fn(&mut Transaction<'d>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let KnownKeys { mut slots, read, .. } = known;
        let (mut deadline, mut raced) = (None, 0);
        loop {
            let guards = match (slots.is_empty(), self.tier) {
                (true, _) => Guards::default(),
                (false, ReadTier::Memory) => self.lock_all(&mut slots, Wait::No)?,
                (false, ReadTier::Disk) => {
                    // One deadline for all locks, including those it meets after a restart.
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.lock_wait.min(LONGEST_WAIT));
                    self.lock_all(&mut slots, Wait::AtMost(deadline.saturating_duration_since(Instant::now())))?
                }
            };
            let held_before = HELD_BY_THREAD.with_borrow_mut(|held| {
                let held_before = held.len();
                held.extend(guards.slots().map(|slot| (&raw const self.shared.locks, slot)));
                held_before
            });
            let mut transaction = Transaction {
                database: self,
                guards,
                held_before,
                wanted: None,
                batch: BATCH.take(),
                durability: Durability::Soft,
                now: OnceCell::new(),
                written: remember.then(Written::default),
                follower: None,
            };
            let outcome = match transaction.read_ahead(&read) {
                Ok(()) => verbs(&mut transaction),
                Err(error) => Err(error.into()),
            };
            // Regardless of the result: one of the verbs was not executed.
            if let Some(wanted) = transaction.wanted {
                if self.tier == ReadTier::Memory {
                    self.check_not_held(|slot| slot == wanted)?;
                    if let Some(deferred) = &self.deferred {
                        *deferred.lock.lock() = Some(wanted);
                    }
                    return Err(Error::WouldBlock.into());
                }
                slots.clear();
                slots.extend(transaction.guards.slots().chain([wanted]));
                continue;
            }
            match outcome {
                Err(_) if transaction.batch.has_raced() => {}
                Err(error) => return Err(error),
                Ok(result) => match transaction.commit() {
                    Ok(()) => return Ok(result),
                    Err(Error::Raced) => {}
                    Err(error) => return Err(error.into()),
                },
            }
            raced += 1;
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.lock_wait.min(LONGEST_WAIT));
            if Instant::now() >= deadline {
                return Err(raced_too_often(raced).into());
            }
            self.store().pause(raced);
        }
    }

    /// Takes many locks.
    ///
    /// # Errors
    /// `Invalid` if a transaction of this thread holds one of them; `WouldBlock` or `Busy` if another thread does.
    fn lock_all(&self, slots: &mut Vec<Slot>, wait: Wait) -> Result<Guards<'_>> {
        self.check_not_held(|slot| slots.contains(&slot))?;
        self.shared.locks.lock_all(slots, wait).ok_or_else(|| match wait {
            Wait::No => Error::WouldBlock,
            Wait::AtMost(_) => held_too_long(self.lock_wait),
        })
    }

    /// Refuses to wait for a lock that a transaction of this thread holds: it would be held for as long as the thread waits.
    fn check_not_held(&self, is_wanted: impl Fn(Slot) -> bool) -> Result<()> {
        let locks = &raw const self.shared.locks;
        match HELD_BY_THREAD.with_borrow(|held| held.iter().any(|(of, slot)| *of == locks && is_wanted(*slot))) {
            false => Ok(()),
            true => Err(Error::invalid(
                "a transaction of this thread holds a lock that this verb needs: call the transaction's verbs, or this one after it",
            )),
        }
    }

    /// Returns every disagreement between records and indexes; an empty result means that the store is consistent.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn disagreements(&self) -> Result<Vec<String>> {
        indexes::disagreements(self.store(), self.schema())
    }
}

thread_local! {
    /// Buffer for the key of a record, reused by all reads and writes of the thread.
    static KEY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    /// The locks that transactions of the thread hold, those of the outermost first.
    static HELD_BY_THREAD: std::cell::RefCell<Vec<(*const Locks, Slot)>> = const { std::cell::RefCell::new(Vec::new()) };
    /// Reused by every transaction of the thread; a nested one creates its own.
    static BATCH: std::cell::Cell<Batch> = std::cell::Cell::default();
}

/// Refuses what a remote store cannot keep.
fn check_remote(schema: &Schema) -> Result<()> {
    let multicast =
        schema.tables.iter().find(|table| table.multicast.is_some()).map(|table| ("@multicast", &table.name));
    let registry =
        || schema.tables.iter().find(|table| table.in_redis).map(|table| ("registry: \"redis\"", &table.name));
    let stream = || schema.streams.first().map(|stream| ("@stream", &stream.name));
    match multicast.or_else(registry).or_else(stream) {
        None => Ok(()),
        Some((what, name)) => Err(unsupported(&format!("{what} of {name}"))),
    }
}

/// Returns an id that no record has.
pub(crate) fn make_id() -> String {
    ids::Maker::new().make().to_string()
}

/// Returns the error of a verb whose locks were held by others for so long.
pub fn held_too_long(waited: Duration) -> Error {
    Error::Busy { detail: format!("timed out after {} s of waiting for a lock", waited.as_secs_f64()) }
}

/// Prefixes the pointer of an error with the index of an array element.
fn below(position: usize, error: Error) -> Error {
    use crate::error::Place;
    match error {
        Error::Invalid { detail, place: Place::Pointer(pointer) } => {
            Error::invalid_at(format!("/{position}{pointer}"), detail)
        }
        Error::Conflict { detail, pointer } => Error::Conflict { detail, pointer: format!("/{position}{pointer}") },
        other => other,
    }
}
