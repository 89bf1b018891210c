//! The verbs of a record: create, read, replace, merge, delete; all or nothing over many records.
//!
//! A transaction holds the lock of every key it has touched (records, and unique values it claims) until its one batch is
//! written, so writes are serialisable. A key that is free is taken on the spot, which cannot dead-lock in any order; one that
//! is held makes the transaction let go of everything, wait for all its keys in the order of their slots, and start again.
//! Nothing is written before the end, so starting again and giving up cost nothing.
//!
//! [`Database`] is also the door for a program that embeds the store: open it and call the verbs.

mod background;
mod bodies;
mod catalogue;
mod clock;
mod ids;
mod uniques;
mod uploads;
mod verbs;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use background::Background;
use catalogue::Migration;
pub use clock::Clock;
use uploads::Uploads;

use crate::encoding::body::parse_object;
use crate::encoding::record::Current;
use crate::encoding::{Fields, Record, key};
use crate::error::{Error, Result};
use crate::indexes;
use crate::locking::{Guards, Locks, Slot, Wait};
use crate::schema::{Durability, Schema, Table};
use crate::storage::{self, Batch, Call, Counters, Pinned, Reach, Space, Store};

/// A record that this process has just written or copied.
pub type Owned<'t> = Record<'t, Vec<u8>>;

/// One of many that were written together, in memory that they share.
pub type Shared<'t> = Record<'t, Bytes>;

/// One that was read, where the engine has it.
pub type Read<'t, 'd> = Record<'t, Current<Pinned<'d>>>;

/// How long a transaction waits for keys that others hold, all in all, before it gives up as `Busy`.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// An open store with its schema and its locks. Clones share everything, but for what is left to be waited for.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Parts>,
    reach: Reach,
    clock: Clock,
    interrupt: Option<Interrupt>,
    /// On a database that does not wait for syncs.
    left: Option<Left>,
}

/// What the verbs on one database have left to be waited for.
#[derive(Default)]
struct Left {
    /// A strong write is in the log, and the log is not synced.
    sync: AtomicBool,
    /// The lock of others that a verb has met.
    lock: Mutex<Option<Slot>>,
}

impl Clone for Left {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Tells a query under way that nobody waits for it any more. Clones are the same interrupt.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Ends the queries of all databases that this interrupts, within some thousand records; writes go on.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Parts {
    store: Store,
    schema: Schema,
    locks: Locks,
    background: Mutex<Background>,
    /// Uploads whose bytes are still to be removed: table and number.
    abandoned: Mutex<Vec<(u32, u64)>>,
    uploads: Uploads,
}

/// What must be true of the stored record before a verb changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// There is one.
    Exists,
    /// There is none.
    Absent,
    /// Its checksum is one of these.
    OneOf(Vec<u64>),
}

/// Reads and staged writes that happen together or not at all.
pub struct Transaction<'d> {
    database: &'d Database,
    guards: Guards<'d>,
    /// The slot that made the transaction start again.
    wanted: Option<Slot>,
    batch: Batch,
    durability: Durability,
    /// When it happens, once that was asked for.
    now: OnceCell<i64>,
    /// What this transaction has written, by key, so that it reads its own writes. Left empty where one verb is all.
    written: Option<Written>,
}

/// What became of records that were to replace others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// There was none with their id.
    pub created: usize,
    /// There was one.
    pub replaced: usize,
}

#[derive(Default)]
struct Written {
    records: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Owner of each unique value, by key of the entry.
    owners: HashMap<Vec<u8>, Option<String>>,
}

impl Database {
    /// Opens the store in `directory`, making it if there is none. Indexes that are new to it are built by [`Database::work`]; until then
    /// queries do without them.
    ///
    /// # Errors
    /// `Storage` if the directory is in use, or on an I/O error; `Corrupt` if files are damaged; `Invalid` if the schema contradicts
    /// what is stored.
    pub fn open(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::KeepsData)
    }

    /// The same, and deletes the records of tables and the values of attributes that the schema does not name.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn migrate(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::DropsData)
    }

    /// The same, and refuses a schema that is not the one the store was last opened with: to look at it must not change it.
    ///
    /// # Errors
    /// As [`Database::open`]; `Invalid` if a table is another one.
    pub fn open_unchanged(directory: &Path, schema: Schema, options: &storage::Options) -> Result<Self> {
        Self::open_by(directory, schema, options, Migration::ChangesNothing)
    }

    fn open_by(directory: &Path, schema: Schema, options: &storage::Options, migration: Migration) -> Result<Self> {
        let store = Store::open(directory, options)?;
        let clock = Clock::default();
        let (schema, catalogue) = catalogue::bring_in_step(&store, schema, migration, clock.now())?;
        let uploads = Uploads::open(&store)?;
        let background = Mutex::new(Background::new(catalogue));
        let shared = Arc::new(Parts {
            store,
            schema,
            locks: Locks::default(),
            background,
            abandoned: Mutex::default(),
            uploads,
        });
        Ok(Self { shared, reach: Reach::Disk, clock, interrupt: None, left: None })
    }

    /// The same database by another clock: it says when records expire, and when they were created and updated.
    #[must_use]
    pub fn by_clock(&self, clock: &Clock) -> Self {
        Self { clock: clock.clone(), ..self.clone() }
    }

    /// What time it is, in microseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// The same database, answering only from memory and waiting for nobody: [`Error::WouldBlock`] where that is not enough, and no
    /// syncs, as [`Database::leaving_syncs`].
    pub fn in_memory(&self) -> Self {
        Self { reach: Reach::Memory, interrupt: None, ..self.leaving_syncs() }
    }

    /// The same database, whose strong writes are in the log and not synced when a verb returns: they are not durable before
    /// [`Database::when_synced`] has called back. Each clone knows what its own verbs have left.
    pub fn leaving_syncs(&self) -> Self {
        Self { left: Some(Left::default()), ..self.clone() }
    }

    /// Whether a verb on this database has left a sync.
    pub fn has_left_sync(&self) -> bool {
        self.left.as_ref().is_some_and(|left| left.sync.load(Ordering::Relaxed))
    }

    /// Syncs the log without a thread that waits: `done` is called with the outcome. If nobody else syncs it, `spawn` is given what
    /// does, which may block. Neither of them may block or panic.
    pub fn when_synced(
        &self,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) + Send + 'static,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        let database = self.clone();
        self.store().when_synced(move |call| match call {
            Call::Lead(lead) => spawn(Box::new(move || done(lead.sync(database.store())))),
            Call::Served(outcome) => done(outcome),
        });
    }

    /// Calls back once the lock is released that has made a verb on this database say `WouldBlock`; false if it was no lock. The
    /// callback must neither block nor panic.
    pub fn when_released(&self, callback: impl FnOnce() + Send + 'static) -> bool {
        let slot = self.left.as_ref().and_then(|left| left.lock.lock().take());
        if let Some(slot) = slot {
            self.shared.locks.when_released(slot, callback);
        }
        slot.is_some()
    }

    /// The same database, whose queries end as `Busy` once the interrupt is raised.
    pub fn interrupted_by(&self, interrupt: &Interrupt) -> Self {
        Self { interrupt: Some(interrupt.clone()), ..self.clone() }
    }

    /// Whether its queries are to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_raised)
    }

    /// Its schema, numbered as stored.
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// The table of that name, by which all verbs address it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn table(&self, name: &str) -> Result<&Table> {
        self.schema().table(name).ok_or_else(|| Error::NotFound { detail: format!("there is no table {name}") })
    }

    /// Refuses a table that is not of this database's schema: its numbers would mean others' keys.
    fn check_issued(&self, table: &Table) -> Result<()> {
        match self.schema().tables.as_ptr_range().contains(&std::ptr::from_ref(table)) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "table {} is of another schema: Database::table says which are here",
                table.name
            ))),
        }
    }

    /// Counts of storage calls and of background work.
    pub fn counters(&self) -> Counters {
        self.store().counters()
    }

    /// How far its reads go.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The store underneath, for maintenance: flush, checkpoint, settle.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Reads a record by its id, without a copy and without a lock.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; what the engine returns.
    pub fn read<'d>(&'d self, table: &'d Table, id: &str) -> Result<Option<Read<'d, 'd>>> {
        self.check_issued(table)?;
        let bytes = KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.store().get(Space::Records, key, self.reach)
        })?;
        match bytes.map(|bytes| Record::open(table, bytes)).transpose()? {
            Some(record) if table.expires() && record.has_expired(self.now())? => Ok(None),
            record => Ok(record),
        }
    }

    /// Creates a record from a JSON object; an id is made if the body has none.
    ///
    /// # Errors
    /// `Invalid` body; `Conflict` if the id or a unique value exists; `Busy`; what the engine returns.
    pub fn create<'t>(&self, table: &'t Table, body: &[u8]) -> Result<Owned<'t>> {
        // Parsed inside: a verb that must start again, which is rare, parses again, and no other verb pays for a copy.
        self.once(|transaction| transaction.create_from(table, body))
    }

    /// Creates records from a JSON array of objects, all or none.
    ///
    /// # Errors
    /// As [`Database::create`], pointers beginning with the number of the element; `Invalid` if there are too many.
    pub fn create_all<'t>(&self, table: &'t Table, body: &[u8]) -> Result<Vec<Shared<'t>>> {
        self.check_issued(table)?;
        let records = bodies::encode_all(table, body, self.now())?;
        // All keys are named beforehand: it starts again for no lock, however many of them others hold.
        let mut slots = Vec::new();
        for record in &records {
            record.name_keys(&self.shared.locks, &mut slots)?;
        }
        self.run(slots, true, |transaction| transaction.create_encoded(&records))?;
        Ok(records.into_iter().map(bodies::New::into_record).collect())
    }

    /// Creates records from JSON objects, each for itself: one that is refused keeps none of the others out. What became of each, in
    /// their order.
    ///
    /// # Errors
    /// What keeps all of them out: `Busy`, what the engine returns.
    pub fn create_each(&self, table: &Table, bodies: &[&[u8]]) -> Result<Vec<Result<()>>> {
        self.check_issued(table)?;
        let now = self.now();
        let records: Vec<_> = bodies.iter().map(|body| bodies::encode_one(table, body, now)).collect();
        let mut slots = Vec::new();
        for record in records.iter().flatten() {
            record.name_keys(&self.shared.locks, &mut slots)?;
        }
        let outcomes = self.run(slots, true, |transaction| {
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

    /// Replaces records by the objects of a JSON array, or creates them, all or none; one without an id gets one. How many of which.
    ///
    /// # Errors
    /// As [`Database::replace`], pointers beginning with the number of the element; `Invalid` if an id is given twice.
    pub fn replace_all(&self, table: &Table, body: &[u8]) -> Result<Replaced> {
        self.check_issued(table)?;
        let records = bodies::Whole::parse_all(table, body)?;
        let mut slots = Vec::new();
        for record in &records {
            record.name_keys(&self.shared.locks, &mut slots);
        }
        self.run(slots, true, |transaction| transaction.replace_each(&records))
    }

    /// Replaces a record by a JSON object, or creates it; the flag says which (true: created). Attributes left out become null.
    ///
    /// # Errors
    /// `Invalid` body; `Stale` or `NotFound` by the precondition; `Conflict` if a unique value exists elsewhere.
    pub fn replace<'t>(
        &self,
        table: &'t Table,
        id: &str,
        body: &[u8],
        expected: &Precondition,
    ) -> Result<(Owned<'t>, bool)> {
        self.once(|transaction| transaction.replace(id, parse_object(table, body)?, expected))
    }

    /// Changes a record by a JSON merge patch (RFC 7396).
    ///
    /// # Errors
    /// As [`Database::replace`], and `NotFound` if there is no such record.
    pub fn merge<'t>(&self, table: &'t Table, id: &str, patch: &[u8], expected: &Precondition) -> Result<Owned<'t>> {
        self.once(|transaction| transaction.merge(id, parse_object(table, patch)?, expected))
    }

    /// Deletes a record.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Stale` by the precondition.
    pub fn delete(&self, table: &Table, id: &str, expected: &Precondition) -> Result<()> {
        self.once(|transaction| transaction.delete(table, id, expected))
    }

    /// Deletes those of some records that `accept` accepts, all of them or none; how many there were. Their keys are named
    /// beforehand, so that it starts again for no lock.
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
        let slots = ids.iter().map(|id| self.shared.locks.slot(table.id, id.as_bytes())).collect();
        self.run(slots, false, |transaction| {
            let mut deleted = 0;
            for id in ids {
                deleted += usize::from(transaction.delete_if(table, id, &accept)?);
            }
            Ok(deleted)
        })
    }

    /// Merges a patch into those of some records that `accept` accepts, all of them or none; how many there were. Their keys are named
    /// beforehand.
    ///
    /// # Errors
    /// `Invalid` if the patch sets the id, or takes away what is required; `Conflict` if it sets a unique value that one of them has
    /// not, and another record has; what `accept` returns; `Busy`; what the engine returns.
    pub fn merge_where(
        &self,
        ids: &[String],
        patch: &Fields<'_, '_>,
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<usize> {
        let table = patch.table();
        self.check_issued(table)?;
        bodies::check_patch_of_many(patch)?;
        let slots = ids.iter().map(|id| self.shared.locks.slot(table.id, id.as_bytes())).collect();
        self.run(slots, true, |transaction| {
            let mut merged = 0;
            for id in ids {
                merged += usize::from(transaction.merge_if(id, patch, &accept)?);
            }
            Ok(merged)
        })
    }

    /// A number for the bytes of a blob of the table, which no other has had.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn begin_upload(&self, table: &Table) -> Result<u64> {
        self.check_issued(table)?;
        self.shared.uploads.number(self.store())
    }

    /// Removes what was stored of an upload that no record refers to.
    ///
    /// # Errors
    /// `Busy` if the engine is behind, and then [`Database::work`] removes it; what the engine returns.
    pub fn abandon_upload(&self, table: &Table, upload: u64) -> Result<()> {
        self.remove_upload(table.id, upload)
    }

    fn remove_upload(&self, table: u32, upload: u64) -> Result<()> {
        let mut batch = Batch::default();
        uploads::remove(self.store(), &mut batch, table, upload);
        let written = self.store().write(&batch, Durability::Soft);
        if matches!(written, Err(Error::Busy { .. })) {
            self.shared.abandoned.lock().push((table, upload));
        }
        written
    }

    /// Has a Blob of a record be an upload from now on, or none, which is a write of the record; what it was before is removed.
    /// `accept` is told which upload it is now, and says whether that may change; `stage` adds what belongs to the new one. Both may be
    /// called more than once.
    ///
    /// # Errors
    /// `NotFound` if there is no such record, or none was left by a truncation since the upload began; `Invalid` if the attribute is no
    /// Blob; what `accept` returns, and then nothing is written; `Busy`; what the engine returns.
    pub fn set_blob(
        &self,
        table: &Table,
        id: &str,
        attribute: usize,
        upload: Option<u64>,
        accept: impl Fn(Option<u64>) -> Result<()>,
        stage: impl Fn(&Store, &mut Batch),
    ) -> Result<()> {
        self.once(|transaction| {
            transaction.set_blob(table, id, attribute, upload, &accept)?;
            stage(self.store(), &mut transaction.batch);
            Ok(())
        })
    }

    /// Deletes all records of a table in one step, however many there are: readers see all of them or none. Transactions on any table
    /// wait meanwhile, but for creates whose id is made, each of which comes whole before or after it.
    ///
    /// # Errors
    /// `Busy` if a key stays held by others; `WouldBlock` on a database that answers from memory; what the engine returns.
    pub fn truncate(&self, table: &Table) -> Result<()> {
        self.check_issued(table)?;
        if self.reach == Reach::Memory {
            return Err(Error::WouldBlock);
        }
        // An update that is under way stages only the entries that change: written after this, it would revive a record without the
        // others. While every slot is held none is under way.
        let _guards = self.shared.locks.lock_every(Wait::AtMost(LOCK_WAIT)).ok_or_else(held_too_long)?;
        let mut batch = Batch::default();
        indexes::drop_table(self.store(), &mut batch, table.id, table.indexes.iter().map(|index| index.id));
        let outcome = self.write(&batch, table.durability);
        // Behind the write: an upload that begins before it may lose its beginning to it. A refused write may have happened.
        self.shared.uploads.retire(table.id);
        outcome
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        match &self.left {
            Some(left) if durability == Durability::Strong => {
                self.store().write(batch, Durability::Soft)?;
                left.sync.store(true, Ordering::Relaxed);
                Ok(())
            }
            _ => self.store().write(batch, durability),
        }
    }

    /// Reads a record, lets `change` say what is to be merged into it, and writes it, while nobody else can write it. `change` may
    /// be called more than once, each time with the record as it then is, so it should have no effect but its answer.
    ///
    /// # Errors
    /// `NotFound`; what `change` returns, and then nothing is written; as [`Database::merge`].
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
    /// It may run more than once: a verb that meets a key that others hold fails, and when `verbs` has returned (whatever it made of
    /// that), all keys are waited for and it starts again with an empty transaction. So it should do nothing but call verbs. A read
    /// of a verb that has succeeded stays true until the end; what another run has read may be different by now.
    ///
    /// # Errors
    /// What `verbs` returns; `Busy` if a key stays held; what the engine returns when the batch is written.
    pub fn transact<'d, R>(&'d self, verbs: impl Fn(&mut Transaction<'d>) -> Result<R>) -> Result<R> {
        self.run(Vec::new(), true, verbs)
    }

    /// As [`Database::transact`] for a single verb, which has no writes of its own to read.
    fn once<'d, R>(&'d self, verb: impl Fn(&mut Transaction<'d>) -> Result<R>) -> Result<R> {
        self.run(Vec::new(), false, verb)
    }

    /// `slots`: what is known to be locked.
    fn run<'d, R>(
        &'d self,
        mut slots: Vec<Slot>,
        remember: bool,
        verbs: impl Fn(&mut Transaction<'d>) -> Result<R>,
    ) -> Result<R> {
        let mut deadline = None;
        loop {
            let guards = match (slots.is_empty(), self.reach) {
                (true, _) => Guards::default(),
                (false, Reach::Memory) => self.shared.locks.lock_all(&mut slots, Wait::No).ok_or(Error::WouldBlock)?,
                (false, Reach::Disk) => {
                    // One for all keys, also of those that it meets when it has started again.
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + LOCK_WAIT);
                    let wait = Wait::AtMost(deadline.saturating_duration_since(Instant::now()));
                    self.shared.locks.lock_all(&mut slots, wait).ok_or_else(held_too_long)?
                }
            };
            let mut transaction = Transaction {
                database: self,
                guards,
                wanted: None,
                batch: BATCH.take(),
                durability: Durability::Soft,
                now: OnceCell::new(),
                written: remember.then(Written::default),
            };
            let outcome = verbs(&mut transaction);
            // Whatever the verbs made of it: one of them has not been done.
            if let Some(wanted) = transaction.wanted {
                if self.reach == Reach::Memory {
                    if let Some(left) = &self.left {
                        *left.lock.lock() = Some(wanted);
                    }
                    return Err(Error::WouldBlock);
                }
                slots.clear();
                slots.extend(transaction.guards.slots().chain([wanted]));
                continue;
            }
            return outcome.and_then(|result| transaction.commit().map(|()| result));
        }
    }

    /// Every disagreement between records and indexes; none means that the store is consistent.
    ///
    /// # Errors
    /// What the engine returns.
    pub fn disagreements(&self) -> Result<Vec<String>> {
        indexes::disagreements(self.store(), self.schema())
    }
}

thread_local! {
    /// The key of a record, made anew for each read and write of the thread in the same memory.
    static KEY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    /// Reused by every transaction of the thread; a nested one makes its own.
    static BATCH: std::cell::Cell<Batch> = std::cell::Cell::default();
}

/// What a verb returns whose keys were held for [`LOCK_WAIT`].
pub fn held_too_long() -> Error {
    Error::Busy { detail: format!("timed out after {} s of waiting for a lock", LOCK_WAIT.as_secs()) }
}

/// Puts the number of an element of an array before an error's pointer.
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
