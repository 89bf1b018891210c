//! Event streams: append-only logs in partitions, each event at an offset.
//!
//! **A request's events of one partition are one stored value**, a [chunk](chunk), under the offset of its last event: an append writes one
//! key, however many events it has, and a forward seek to an offset finds the chunk that has it. Nothing else is written for an event
//! without an idempotency key: the next offset is that of the last chunk, the bytes between two offsets are a difference, a time is found by
//! bisection.
//!
//! **Offsets have no gap** because the lock of a partition is held from the choice of an offset to the end of its write, and no longer: never
//! during a sync. An offset is used up only if its batch was written. Behind a batch whose write failed stands no other in that log: the engine
//! takes no write until the store is opened again, which may find that batch, whole and last; or, after a full disk, it recovers by flushing
//! all memtables and beginning a new log.
//!
//! **Readers take no lock.** They see the events below the *visible* offset: in a soft stream that follows the write, in a strong one the
//! sync that the append waits for, so that nobody reads what a power cut can take.
//!
//! **An idempotency key** is an entry with the place of its event, in a generation: the beginning of the window in which it was written.
//! A key of at most one window's age can only be in the generation of now or in the one before; older ones are dropped as a whole. The age
//! of an entry decides whether the key is still known, and the event at its place whether it was ever appended.
//!
//! Non-goals: where a response waits, and how (`ingress`); what a request looks like (`handlers`).

mod activity;
mod append;
mod check;
mod chunk;
mod counters;
mod event;
mod group;
mod groups;
mod keys;
mod partition;
mod read;
mod room;
mod statistics;
mod trim;
mod waiting;

use std::sync::Arc;

use activity::Activities;
pub(crate) use activity::Done;
pub use activity::{Activity, Quantiles, Rates, RequestKind, Unfinished};
pub use append::{Appended, Appends};
pub use check::disagreements;
pub use counters::Counters;
pub(crate) use counters::Counts;
pub use event::{Event, IDEMPOTENCY_KEY_BYTES, KEY_BYTES, LATEST_MS};
pub use group::{Group, parse_offsets};
pub use groups::no_group;
pub use read::{Page, Start};
pub use statistics::{PartitionStatistics, Statistics};

use crate::error::{Error, Result};
use crate::schema::Stream;
use crate::transaction::{Database, Transaction};
use partition::State;
use room::Room;
pub use waiting::WaitPlace;
use waiting::Waiting;

/// The streams of an open database. Clones are the same.
#[derive(Clone)]
pub struct Streams(Arc<Shared>);

struct Shared {
    database: Database,
    /// In the order of the schema.
    states: Box<[State]>,
    activities: Box<[Activities]>,
    waiting: Waiting,
    counts: Counts,
    room: Room,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.waiting.stop();
    }
}

/// The offsets that a partition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The first event that is kept.
    pub low: u64,
    /// The next event that can be read.
    pub high: u64,
}

impl Streams {
    /// Returns the streams of a database. The first call finds where their partitions end, and syncs the log, since what is found can be
    /// read from now on.
    ///
    /// # Errors
    /// `Corrupt` if a chunk is damaged; what the engine returns.
    pub fn open(database: &Database) -> Result<Self> {
        let open = || {
            let streams = &database.schema().streams;
            let states: Box<[_]> =
                streams.iter().map(|stream| State::open(database.store(), stream)).collect::<Result<_>>()?;
            if !streams.is_empty() {
                database.store().sync()?;
            }
            Ok(Shared {
                database: database.clone(),
                activities: states.iter().map(|_| Activities::default()).collect(),
                states,
                waiting: Waiting::default(),
                counts: Counts::default(),
                room: Room::default(),
            })
        };
        database.kept_beside(open).map(Self)
    }

    /// Appends an event.
    ///
    /// # Errors
    /// `Invalid` if the stream is of another database, or has no such partition; `Offset` if it is not the expected one; `Busy`, `Full`;
    /// what the engine returns.
    pub fn append(&self, database: &Database, stream: &Stream, event: &Event<'_>) -> Result<Appended> {
        self.transact(database, |transaction, appends| appends.append(transaction, stream, event))
    }

    /// Appends events in their order, all or none.
    ///
    /// # Errors
    /// As [`Streams::append`], with `/records/N` at the start of pointers.
    pub fn append_all(&self, database: &Database, stream: &Stream, events: &[Event<'_>]) -> Result<Vec<Appended>> {
        // Named beforehand, so that a list of many keys does not begin anew for each that somebody holds.
        let keys = events.iter().filter_map(|event| event.idempotency_key.as_deref());
        self.run(database, keys.map(|key| (stream.id, key.as_bytes())), |transaction, appends| {
            let append =
                |(position, event)| appends.append(transaction, stream, event).map_err(|error| below(position, error));
            events.iter().enumerate().map(append).collect()
        })
    }

    /// Runs verbs on tables and streams as one transaction, as [`Database::transact`] does.
    ///
    /// # Errors
    /// As [`Database::transact`].
    pub fn transact<'d, R>(
        &self,
        database: &'d Database,
        verbs: impl Fn(&mut Transaction<'d>, &mut Appends<'_>) -> Result<R>,
    ) -> Result<R> {
        self.run(database, std::iter::empty(), verbs)
    }

    /// As [`Streams::transact`], for verbs with an error of their own, as [`Database::try_transact`].
    ///
    /// # Errors
    /// As [`Database::try_transact`].
    pub fn try_transact<'d, R, E: From<Error>>(
        &self,
        database: &'d Database,
        verbs: impl Fn(&mut Transaction<'d>, &mut Appends<'_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.run(database, std::iter::empty(), verbs)
    }

    /// As [`Streams::transact`]; `keys`: those whose locks are known to be needed.
    fn run<'d, 'k, R, E: From<Error>>(
        &self,
        database: &'d Database,
        keys: impl Iterator<Item = (u32, &'k [u8])>,
        verbs: impl Fn(&mut Transaction<'d>, &mut Appends<'_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        database.check_same(&self.0.database, "stream")?;
        database.transact_holding(keys, |transaction| {
            let mut appends = Appends::begin(self);
            let outcome = verbs(transaction, &mut appends)?;
            appends.stage(transaction);
            Ok(outcome)
        })
    }

    /// Returns the watermarks of a partition.
    ///
    /// # Errors
    /// `Invalid` if the stream is of another database, or has no such partition.
    pub fn watermarks(&self, stream: &Stream, partition: u32) -> Result<Watermarks> {
        Ok(self.state(stream)?.partition(stream, partition)?.watermarks())
    }

    /// Calls back once an event can be read at one of these offsets, each of a partition, or when [`Streams::stop`] is called; `None` if it
    /// was. The callback must neither block nor panic. Whoever drops the place waits no more.
    ///
    /// # Errors
    /// `Invalid` if there is no such partition; `Storage` if no thread can be started.
    pub fn wait(
        &self,
        stream: &Stream,
        offsets: &[(u32, u64)],
        call: impl FnOnce() + Send + 'static,
    ) -> Result<Option<WaitPlace>> {
        let place = self.position(stream)?;
        offsets.iter().try_for_each(|(partition, _)| self.watermarks(stream, *partition).map(drop))?;
        let for_any = offsets.iter().map(|(partition, offset)| (place, *partition, *offset)).collect();
        Waiting::wait(&self.0, for_any, call)
    }

    /// Calls back everybody who waits, and lets nobody wait any more.
    pub fn stop(&self) {
        self.0.waiting.stop();
    }

    /// Returns whether [`Streams::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.waiting.is_stopped()
    }

    /// Returns the position of a stream in the schema.
    pub(crate) fn position(&self, stream: &Stream) -> Result<usize> {
        let streams = &self.0.database.schema().streams;
        let position = streams.iter().position(|known| std::ptr::eq(known, stream));
        position.ok_or_else(|| {
            Error::invalid(format!("stream {} belongs to another schema: get it from the database", stream.name))
        })
    }

    fn state(&self, stream: &Stream) -> Result<&State> {
        self.position(stream).map(|position| &self.0.states[position])
    }
}

/// Returns a time of the database in milliseconds since 1970.
fn milliseconds(microseconds: i64) -> u64 {
    u64::try_from(microseconds / 1000).unwrap_or(0)
}

/// Prefixes the pointer of an error with the place of an event in a bulk.
fn below(position: usize, error: Error) -> Error {
    match error {
        Error::Offset { detail, fault, low, high, .. } => {
            Error::Offset { detail, fault, low, high, pointer: format!("/records/{position}/expectedOffset") }
        }
        other => other,
    }
}
