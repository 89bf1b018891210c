//! The change feed: a subscriber of a table or of a record receives every put and delete in log order, exactly once.
//!
//! ```text
//! write ── write-ahead log ──┬─ one thread tails it for all live subscribers ([`tail`]) ── a bounded queue each ─┐
//!                            └─ a resuming subscriber reads it itself, in pieces ────────────────────────────────┴─ Subscription::next
//! ```
//! A write stores nothing extra for the feed: its batch is in the log anyway, and a commit only wakes the reader, if there is one. The id
//! of an event is its position in the log, so a subscriber that was disconnected can resume, also after a restart, as long as the log is
//! kept. After that, resuming returns [`Error::Gone`](crate::error::Error::Gone), and the client has to list the table again.
//!
//! No write waits for a subscriber. Events that a subscriber has not taken wait in its bounded queue. On overflow it receives a message
//! that it lags, with the id to resume from, and its subscription ends. Resuming holds no thread while the client reads: each piece is read
//! from the log when the previous one has been taken, and the subscription joins the live ones once it has reached the end of the log.
//!
//! An event is a state that readers could observe: if one transaction writes a record several times, only the last write is sent. Like any
//! reader, a subscriber may see a strong write before it is durable. If a power cut then loses the write, the id of its event is no longer
//! in the log, and resuming fails.
//!
//! A subscription may hold its record, which then does not expire ([`holds`]). That is no event.
//!
//! A multicast is an event, too, for the subscribers of each record that is a target: it is committed to the table of messages, and read from
//! the log like any change. Its [`Receipt`] says who has taken it; after a restart there is none, and subscribers resume.
//!
//! Non-goals: the encoding of events (done by a function passed in), waiting without a thread (`ingress`).

mod changes;
mod holds;
mod id;
mod multicast;
mod queue;
mod receipt;
mod subscription;
mod tail;
mod topics;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::encoding::Record;
use crate::error::{Error, Result};
use crate::schema::{Identity, Schema, Table};
use crate::storage::LogPosition;
use crate::transaction::Database;
use changes::Change;
use holds::Holds;
pub use id::EventId;
use multicast::{Messages, Multicast};
use queue::Queue;
pub use receipt::{Receipt, Standing, Way};
pub use subscription::{Lagging, Next, Subscription};
use topics::Topics;

/// Limits on subscribers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Maximum number of subscribers.
    pub subscribers: usize,
    /// Maximum number of bytes of unsent events over all queues. A subscriber that already has more than a 64th of that in its queue when a
    /// batch is written lags.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub queued_bytes: usize,
    /// Time without an event after which a subscriber is sent the current position in the log, in milliseconds; from 1 to an hour.
    pub keep_alive_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { subscribers: 10_000, queued_bytes: 64 << 20, keep_alive_ms: 15_000 }
    }
}

/// One queue may hold `queued_bytes` divided by this number.
const SHARES: usize = 64;

/// What a subscription covers: a table, or one of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    table: u32,
    identity: Identity,
    id: Option<Box<str>>,
}

impl Topic {
    /// All records of a table.
    pub fn table(table: &Table) -> Self {
        Self { table: table.id, identity: table.identity, id: None }
    }

    /// One record, which need not exist.
    pub fn record(table: &Table, id: &str) -> Self {
        Self { id: Some(id.into()), ..Self::table(table) }
    }
}

/// A message to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A record was written.
    Put {
        /// Its canonical JSON text.
        json: &'a [u8],
        /// The record as it is stored, under the current schema.
        bytes: &'a [u8],
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
    /// A message was sent to the record.
    Multicast {
        /// Its id.
        id: &'a str,
        /// The JSON text of its body.
        body: &'a [u8],
    },
    /// No event for this subscriber; resuming from this id skips nothing.
    Progress,
    /// The subscriber did not take its events fast enough, or the part of the log it resumes from was removed meanwhile. This is the last
    /// message.
    Lagged,
}

/// Writes the encoding of a message. The id is the one from which to resume after it.
pub type Write = fn(EventId, &Message<'_>, &mut Vec<u8>);

/// Counters since the feed was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Current number of subscribers.
    pub subscribers: usize,
    /// Number of events taken by subscribers.
    pub events: u64,
    /// Number of subscribers that were ended because they lagged.
    pub lagged: u64,
    /// Bytes of events that are not sent yet.
    pub queued_bytes: usize,
}

/// The change feed of a database, which it keeps open. Clones share one feed; dropping the last one ends the feed and all its
/// subscriptions, which do not keep the database open.
#[derive(Clone)]
pub struct Feed(Arc<Running>);

/// Ends the feed when it is dropped: a thread that outlived it would keep the database open, and close it during process exit.
struct Running {
    database: Database,
    shared: Arc<Shared>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// What subscriptions and their texts hold beyond the end of the feed.
struct Shared {
    write: Write,
    options: Options,
    hub: Mutex<Hub>,
    subscribers: AtomicUsize,
    queued_bytes: AtomicUsize,
    events: AtomicU64,
    lagged: AtomicU64,
    holds: Arc<Holds>,
    expected: Expected,
}

/// The messages that the reader of the log has not handed out yet, by their ids.
#[derive(Default)]
struct Expected {
    messages: Mutex<HashMap<Box<str>, Unread>>,
    /// Number of them, read without the lock.
    number: AtomicUsize,
}

struct Unread {
    receipt: Arc<Receipt>,
    /// A sequence number that is not before that of the message, once it is committed.
    committed: Option<u64>,
}

impl Expected {
    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Box<str>, Unread>) -> T) -> T {
        let mut messages = self.messages.lock();
        let outcome = change(&mut messages);
        self.number.store(messages.len(), Ordering::Relaxed);
        outcome
    }

    fn take(&self, id: &str) -> Option<Arc<Receipt>> {
        self.change(|messages| messages.remove(id)).map(|unread| unread.receipt)
    }

    /// Ends the receipts of messages that were committed before a position that the reader has reached: they began before its
    /// subscribers did, so nobody gets them.
    fn read_until(&self, reached: u64) {
        if self.number.load(Ordering::Relaxed) == 0 {
            return;
        }
        let is_passed = |_: &_, unread: &mut Unread| unread.committed.is_some_and(|committed| committed <= reached);
        let passed: Vec<_> = self.change(|messages| messages.extract_if(is_passed).collect());
        passed.iter().for_each(|(_, unread)| unread.receipt.handed_out());
    }
}

/// A message that is about to be committed.
pub struct Expectation {
    running: Arc<Running>,
    id: Box<str>,
    receipt: Arc<Receipt>,
}

impl Expectation {
    /// Says that it is committed, and returns its receipt.
    pub fn committed(self) -> Arc<Receipt> {
        let (shared, latest) = (&self.running.shared, self.running.database.store().latest_sequence());
        let latest = latest.expect("a store with a feed has a log");
        let hub = shared.hub();
        let has_passed = match hub.tail {
            Tail::Idle => true,
            Tail::Behind(sequence) => sequence >= latest,
            Tail::At(position) => position.sequence >= latest,
        };
        // If it is not there any more, it was handed out.
        let unread = shared.expected.change(|messages| match has_passed {
            true => messages.remove(&self.id),
            false => {
                messages.get_mut(&self.id).into_iter().for_each(|unread| unread.committed = Some(latest));
                None
            }
        });
        drop(hub);
        unread.into_iter().for_each(|unread| unread.receipt.handed_out());
        Arc::clone(&self.receipt)
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        // Of one that was not committed: of any other, the reader still needs it.
        let is_uncommitted = |unread: &Unread| unread.committed.is_none();
        self.running.shared.expected.change(|messages| {
            if messages.get(&self.id).is_some_and(is_uncommitted) {
                messages.remove(&self.id);
            }
        });
    }
}

/// The live subscribers, which are fed from the end of the log, and how far it was read for them.
#[derive(Default)]
struct Hub {
    tail: Tail,
    topics: Topics,
    thread: Option<JoinHandle<()>>,
    stopped: bool,
}

/// How far the reader thread has come.
#[derive(Clone, Copy, Default)]
enum Tail {
    /// There is no reader.
    #[default]
    Idle,
    /// The reader is looking for the position after this operation.
    Behind(u64),
    /// Up to this position: all live subscribers have everything before it and nothing after it.
    At(LogPosition),
}

impl Feed {
    /// Creates the feed of a database. `write` encodes each message once for all its subscribers.
    pub fn new(database: Database, options: Options, write: Write) -> Self {
        let shared = Arc::new(Shared {
            write,
            options,
            hub: Mutex::default(),
            subscribers: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            lagged: AtomicU64::new(0),
            holds: Arc::default(),
            expected: Expected::default(),
        });
        Self(Arc::new(Running { database, shared }))
    }

    /// Subscribes to every write that begins after this call. Does not block.
    ///
    /// # Errors
    /// `Invalid` if the topic is of a table that is not one of the database; `Busy` if the limit of subscribers is reached or the feed has
    /// ended; `Storage` if no thread can be started.
    pub fn subscribe(&self, topic: Topic) -> Result<Subscription> {
        Subscription::begin(&self.0, topic, None)
    }

    /// Subscribes to everything after an event. Reads from the disk.
    ///
    /// # Errors
    /// As [`Feed::subscribe`]; `Gone` if the log is not kept from that event on; `Corrupt` if it is damaged.
    pub fn resume(&self, topic: Topic, after: EventId) -> Result<Subscription> {
        Subscription::resume(&self.0, topic, after, None)
    }

    /// Subscribes to a record, after an event or from now on, and holds it: while the subscription is open the record is renewed as soon as
    /// less than two thirds of its time to live are left. One that is deleted is held again once it is written again. Reads from the disk.
    ///
    /// # Errors
    /// As [`Feed::subscribe`] and [`Feed::resume`]; `Invalid` if the topic is a whole table, or the table has no expiration; `NotFound` if
    /// there is no such record.
    pub fn hold(&self, topic: Topic, after: Option<EventId>) -> Result<Subscription> {
        Subscription::hold(&self.0, topic, after)
    }

    /// Prepares for a message with this id to so many targets, which is committed next.
    pub fn expect(&self, id: &str, targets: usize) -> Expectation {
        let receipt = Receipt::new(targets);
        let unread = Unread { receipt: Arc::clone(&receipt), committed: None };
        self.0.shared.expected.change(|messages| messages.insert(id.into(), unread));
        Expectation { running: Arc::clone(&self.0), id: id.into(), receipt }
    }

    /// Returns the number of records that are held.
    pub fn held(&self) -> usize {
        self.0.shared.holds.len()
    }

    /// Ends all subscriptions and refuses new ones.
    pub fn stop(&self) {
        self.0.shared.stop();
    }

    /// Returns the database.
    pub(crate) fn database(&self) -> &Database {
        &self.0.database
    }

    /// Returns the interval of keep-alives to an idle subscriber.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.0.shared.options.keep_alive_ms)
    }

    /// Returns the current counters.
    pub fn counters(&self) -> Counters {
        let shared = &self.0.shared;
        Counters {
            subscribers: shared.subscribers.load(Ordering::Relaxed),
            events: shared.events.load(Ordering::Relaxed),
            lagged: shared.lagged.load(Ordering::Relaxed),
            queued_bytes: shared.queued_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Running {
    /// Refuses a topic of another database: its number would be that of another table.
    fn check(&self, topic: &Topic) -> Result<()> {
        match self.database.schema().has(topic.identity) {
            true => Ok(()),
            false => Err(Error::invalid("the topic is of a table of another schema: get it from Database::table")),
        }
    }
}

impl Shared {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock()
    }

    /// Adds a queue to those fed from the end of the log. Its subscriber has everything up to `position`, or, if that is `None`, wants what
    /// is written from now on. Returns false if the reader is already past the position.
    ///
    /// # Errors
    /// `Busy` if the feed has ended; `Storage` if no thread can be started.
    fn join(self: &Arc<Self>, database: &Database, queue: &Arc<Queue>, position: Option<LogPosition>) -> Result<bool> {
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
            let tail = match position {
                Some(position) => Tail::At(position),
                None => Tail::Behind(database.store().latest_sequence()?),
            };
            if let Some(thread) = hub.thread.take() {
                // It has seen that there are no subscribers left and is exiting.
                let _ = thread.join();
            }
            hub.thread = Some(tail::start(self, database, tail)?);
            hub.tail = tail;
        }
        match (position, hub.tail) {
            (Some(position), _) => queue.set_position(position),
            (None, Tail::At(reached)) => queue.tell_position(self, reached),
            // The reader does so when it has found the end of the log.
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
        self.holds.stop();
        topics.into_queues().for_each(|queue| queue.end());
        if let Some(thread) = thread {
            thread.thread().unpark();
            // It finishes what it has begun; if it has panicked, its subscribers were notified. It may be this one, by what it has woken.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// Removes a queue from those fed from the end of the log.
    fn leave(&self, queue: &Arc<Queue>) {
        let mut hub = self.hub();
        if hub.topics.remove(queue)
            && hub.topics.is_empty()
            && let Some(thread) = &hub.thread
        {
            thread.thread().unpark();
        }
    }

    /// Sends a subscriber the message that it lags, after what its queue holds.
    fn lag(&self, queue: &Queue) {
        self.lagged.fetch_add(1, Ordering::Relaxed);
        queue.lag(|behind| {
            let mut text = Vec::new();
            (self.write)(EventId::of(behind), &Message::Lagged, &mut text);
            Bytes::from(text)
        });
    }

    /// Returns `bytes` as shared text, counted in `queued_bytes` until its last clone is dropped; `None` if there is no room for it.
    fn counted(self: &Arc<Self>, bytes: Vec<u8>) -> Option<Bytes> {
        let before = self.queued_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let counted = Counted { bytes, shared: Arc::clone(self) };
        // Dropped if it does not fit. A text longer than the whole limit is admitted if nothing else waits.
        let fits = before == 0 || before.saturating_add(counted.bytes.len()) <= self.options.queued_bytes;
        fits.then(|| Bytes::from_owner(counted))
    }

    /// Returns the encoding of one message; `None` if there is no room for it.
    fn text(self: &Arc<Self>, behind: LogPosition, message: &Message<'_>) -> Option<Bytes> {
        let mut text = Vec::new();
        (self.write)(EventId::of(behind), message, &mut text);
        self.counted(text)
    }

    /// Appends the encoding of a message.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged.
    fn write_multicast(&self, multicast: &Multicast<'_, '_>, behind: LogPosition, text: &mut Vec<u8>) -> Result<()> {
        let (id, body) = (multicast.id()?, multicast.body()?);
        (self.write)(EventId::of(behind), &Message::Multicast { id: &id, body }, text);
        Ok(())
    }

    /// Appends the encoding of a change. The record is shown as to a reader, under the current schema.
    ///
    /// # Errors
    /// `Corrupt` if the record is damaged.
    fn write_change(
        &self,
        schema: &Schema,
        change: &Change<'_>,
        behind: LogPosition,
        text: &mut Vec<u8>,
    ) -> Result<()> {
        let table = schema.tables.iter().find(|table| table.id == change.table);
        let table = table.ok_or_else(|| Error::corrupt("the log has a change of a table that is not in the schema"))?;
        let event = EventId::of(behind);
        match (change.id, change.stored) {
            (Some(_), Some(stored)) => {
                let record = Record::open(table, stored)?;
                (self.write)(event, &Message::Put { json: record.json(), bytes: record.bytes() }, text);
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

/// Bytes that are counted in `queued_bytes` while they exist.
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
    Error::Busy { detail: "the change feed has ended, as the database is being closed".to_owned() }
}

#[cfg(test)]
mod tests;
