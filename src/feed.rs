//! Changes of records as they happen: a subscriber of a table or of a record receives every put and delete, in their order, none
//! left out and none twice.
//!
//! ```text
//! write ── the engine's log ──┬─ one thread reads its end for all ([`tail`]) ── a queue for each subscriber ─┐
//!                             └─ one that resumes from an earlier event reads for itself, piece by piece ─────┴─ Subscription::next
//! ```
//! A write puts nothing aside for the feed: its batch stands in the log anyway, and all that a commit adds is to wake the reader, if
//! there is one. The place of an event in the log is its id, so a subscriber that was away goes on where it was, over restarts too, as
//! long as the log is kept ([`Error::Gone`](crate::error::Error::Gone) after that: list the table again).
//!
//! Nobody waits for a subscriber. What it has not taken waits in its queue, within a bound; then it is told that it lags, with the id
//! to resume from, and its subscription ends. Resuming costs no thread while its client reads: each piece is read when the one before
//! is taken, and the subscription joins the others where there is nothing more to read.
//!
//! An event is a state that readers have seen: of a record that one transaction writes more than once, only the last is told. As a
//! reader may, a subscriber may see a strong write before it is durable; if a power cut then takes it, the id of its event is not in the
//! log any more, and resuming says so.
//!
//! Non-goals: the text of an event (a function that is given), waiting without a thread (`ingress`).

mod changes;
mod id;
mod queue;
mod subscription;
mod tail;
mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::encoding::Record;
use crate::error::{Error, Result};
use crate::schema::Table;
use crate::storage::LogPosition;
use crate::transaction::Database;
use changes::Change;
pub use id::EventId;
use queue::Queue;
pub use subscription::{Next, Subscription};
use topics::Topics;

/// What subscribers may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How many subscribers there may be.
    pub subscribers: usize,
    /// How many bytes of events may wait to be sent, all together. A subscriber with more than a 64th of that in its queue when a batch is
    /// written lags.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub queued_bytes: usize,
    /// After how long without an event a subscriber is told how far the log was read, in milliseconds; from 1 to an hour.
    pub keep_alive_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { subscribers: 1000, queued_bytes: 64 << 20, keep_alive_ms: 15_000 }
    }
}

/// How many subscribers' shares the bytes of all queues are.
const SHARES: usize = 64;

/// What is subscribed to: a table, or one of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    table: u32,
    id: Option<Box<str>>,
}

impl Topic {
    /// All records of a table.
    pub fn table(table: &Table) -> Self {
        Self { table: table.id, id: None }
    }

    /// One record, which need not be there.
    pub fn record(table: &Table, id: &str) -> Self {
        Self { table: table.id, id: Some(id.into()) }
    }
}

/// What a subscriber is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A record was written.
    Put {
        /// Its canonical JSON text.
        json: &'a [u8],
    },
    /// A record was deleted.
    Delete {
        /// The name of its primary key.
        primary_key: &'a str,
        /// Its id.
        id: &'a str,
    },
    /// All records of the table were deleted in one step.
    Truncate,
    /// Nothing that concerns the subscriber: resuming from here leaves nothing out.
    Progress,
    /// It took too long to take what there was, or resumes from a part of the log that has gone meanwhile; the last message.
    Lagged,
}

/// Writes the text of a message. The id is the one to resume from behind it.
pub type Write = fn(EventId, &Message<'_>, &mut Vec<u8>);

/// Counts since the feed began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Subscribers there are now.
    pub subscribers: usize,
    /// Events that subscribers have taken.
    pub events: u64,
    /// Subscribers that were told that they lag.
    pub lagged: u64,
    /// Bytes of events that were not sent yet.
    pub queued_bytes: usize,
}

/// The changes of a database. Clones are the same feed; it ends when the last of them is dropped, its subscriptions too.
#[derive(Clone)]
pub struct Feed(Arc<Running>);

/// Ends the feed when it is dropped: a thread that outlived it would keep the database open, and close it while the process ends.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Shared {
    database: Database,
    write: Write,
    options: Options,
    hub: Mutex<Hub>,
    subscribers: AtomicUsize,
    queued_bytes: AtomicUsize,
    events: AtomicU64,
    lagged: AtomicU64,
}

/// Those that are fed from the end of the log, and how far it was read for them.
#[derive(Default)]
struct Hub {
    tail: Tail,
    topics: Topics,
    thread: Option<JoinHandle<()>>,
    stopped: bool,
}

/// How far the end of the log was read.
#[derive(Clone, Copy, Default)]
enum Tail {
    /// Nobody reads it.
    #[default]
    Idle,
    /// It is being looked for behind this operation.
    Behind(u64),
    /// Up to here: all subscribers have what precedes, and nothing that follows.
    At(LogPosition),
}

impl Feed {
    /// Over a database; `write` makes the text of each message, once for all its subscribers.
    pub fn new(database: Database, options: Options, write: Write) -> Self {
        Self(Arc::new(Running(Arc::new(Shared {
            database,
            write,
            options,
            hub: Mutex::default(),
            subscribers: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            lagged: AtomicU64::new(0),
        }))))
    }

    /// Subscribes from now on: to everything whose write begins after this call. Does not wait.
    ///
    /// # Errors
    /// `Busy` if there are as many subscribers as there may be, or the feed has ended; `Storage` if no thread can be started.
    pub fn subscribe(&self, topic: Topic) -> Result<Subscription> {
        Subscription::begin(self.shared(), topic)
    }

    /// Subscribes to what has happened since an event and goes on happening. Reads from the disk.
    ///
    /// # Errors
    /// As [`Feed::subscribe`]; `Gone` if the log is not kept from there on; `Corrupt` if it is damaged.
    pub fn resume(&self, topic: Topic, after: EventId) -> Result<Subscription> {
        Subscription::resume(self.shared(), topic, after)
    }

    /// Ends all subscriptions, and there are no more.
    pub fn stop(&self) {
        self.shared().stop();
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        let shared = self.shared();
        Counters {
            subscribers: shared.subscribers.load(Ordering::Relaxed),
            events: shared.events.load(Ordering::Relaxed),
            lagged: shared.lagged.load(Ordering::Relaxed),
            queued_bytes: shared.queued_bytes.load(Ordering::Relaxed),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }
}

impl Shared {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock()
    }

    /// Has a queue fed from the end of the log. It has everything up to `position`, or, without one, wants what comes from now on. False
    /// if the end of the log was read further than the position.
    ///
    /// # Errors
    /// `Busy` if the feed has ended; `Storage` if no thread can be started.
    fn join(self: &Arc<Self>, queue: &Arc<Queue>, position: Option<LogPosition>) -> Result<bool> {
        let mut hub = self.hub();
        if hub.stopped {
            return Err(ended());
        }
        let reached = match hub.tail {
            Tail::Idle => None,
            Tail::Behind(sequence) => Some(sequence),
            Tail::At(position) => Some(position.sequence),
        };
        if position.is_some_and(|position| reached.is_some_and(|reached| position.sequence < reached)) {
            return Ok(false);
        }
        if reached.is_none() {
            let tail = position.map_or_else(|| Tail::Behind(self.database.store().latest_sequence()), Tail::At);
            if let Some(thread) = hub.thread.take() {
                // It has seen that nobody is left and does nothing more.
                let _ = thread.join();
            }
            hub.thread = Some(tail::start(self, tail)?);
            hub.tail = tail;
        }
        match (position, hub.tail) {
            (Some(position), _) => queue.set_position(position),
            (None, Tail::At(reached)) => queue.tell_position(self, reached),
            // It will be, when the end of the log is found.
            (None, _) => {}
        }
        hub.topics.add(queue);
        Ok(true)
    }

    fn stop(&self) {
        let mut hub = self.hub();
        hub.stopped = true;
        let (topics, thread) = (std::mem::take(&mut hub.topics), hub.thread.take());
        drop(hub);
        topics.into_queues().for_each(|queue| queue.end());
        if let Some(thread) = thread {
            thread.thread().unpark();
            // It ends what it has begun; if it has panicked, that was told to its subscribers.
            let _ = thread.join();
        }
    }

    /// Takes a queue off the end of the log.
    fn leave(&self, queue: &Arc<Queue>) {
        let mut hub = self.hub();
        if hub.topics.remove(queue)
            && hub.topics.is_empty()
            && let Some(thread) = &hub.thread
        {
            thread.thread().unpark();
        }
    }

    /// Tells a subscriber that it lags, in its own time.
    fn lag(&self, queue: &Queue) {
        self.lagged.fetch_add(1, Ordering::Relaxed);
        queue.lag(|behind| {
            let mut text = Vec::new();
            (self.write)(EventId::of(behind), &Message::Lagged, &mut text);
            Bytes::from(text)
        });
    }

    /// The text of what was written into `bytes`, which counts until its last copy is dropped; `None` if there is no room for it.
    fn counted(self: &Arc<Self>, bytes: Vec<u8>) -> Option<Bytes> {
        let before = self.queued_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let counted = Counted { bytes, shared: Arc::clone(self) };
        // Dropped where it does not fit. A text that is longer than all may be has to have room of its own.
        let fits = before == 0 || before.saturating_add(counted.bytes.len()) <= self.options.queued_bytes;
        fits.then(|| Bytes::from_owner(counted))
    }

    /// The text of one message.
    fn text(self: &Arc<Self>, behind: LogPosition, message: &Message<'_>) -> Option<Bytes> {
        let mut text = Vec::new();
        (self.write)(EventId::of(behind), message, &mut text);
        self.counted(text)
    }

    /// Appends the text of a change. The record is as a reader would have it, under the schema as it is now.
    ///
    /// # Errors
    /// `Corrupt` if the record is damaged.
    fn write_change(&self, change: &Change<'_>, behind: LogPosition, text: &mut Vec<u8>) -> Result<()> {
        let table = self.database.schema().tables.iter().find(|table| table.id == change.table);
        let table = table.ok_or_else(|| {
            Error::corrupt("a change in the log is of a table that has subscribers and is not in the schema")
        })?;
        let event = EventId::of(behind);
        match (change.id, change.stored) {
            (Some(_), Some(stored)) => {
                (self.write)(event, &Message::Put { json: Record::open(table, stored)?.json() }, text);
            }
            (Some(id), None) => {
                let primary_key = &table.attributes[table.primary_key].name;
                (self.write)(event, &Message::Delete { primary_key, id }, text);
            }
            (None, _) => (self.write)(event, &Message::Truncate, text),
        }
        Ok(())
    }
}

/// Text that counts.
struct Counted {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.queued_bytes.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

fn ended() -> Error {
    Error::Busy { detail: "the server is shutting down".to_owned() }
}

#[cfg(test)]
mod tests;
