//! The changes of a table as an iterator, and without a thread that waits.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use super::database::Open;
use super::record::Record;
use super::table::Table;
use crate::encoding;
use crate::error::{Error, Result};
use crate::feed::{self, EventId, Feed, Message, Next, Subscription, Topic};
use crate::multicast::{self, Multicast};

/// What happened to a record, or to a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change<'t> {
    /// Its id, with which [`Database::changes_after`](crate::Database::changes_after) continues behind it.
    pub id: EventId,
    /// What it is.
    pub what: Changed<'t>,
}

/// What a change is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Changed<'t> {
    /// A record was created or changed: as it is then.
    Put(Record<'t>),
    /// The record with this id was deleted, or has expired and was removed.
    Delete(String),
    /// All records of the table were deleted in one step.
    Truncate,
    /// A message was sent to the record ([`Database::send`](crate::Database::send)): its JSON text. Only who follows this record alone gets
    /// it.
    Message(String),
}

/// The changes of a table or of a record, in the order of the log, each exactly once. Between two of them it may be dropped and continued
/// from the id of the last one, also after a restart: a program that stores that id in the transaction with which it stores what it made of
/// the change makes it exactly once.
///
/// It ends when the database is closed, and does not keep it open.
///
/// ```
/// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
/// # let table = database.table("T")?;
/// use std::time::Duration;
/// use strata::Changed;
///
/// let mut changes = database.changes(&table)?;
/// database.create(&table, strata::Json(r#"{"id": "a", "n": 5}"#))?;
/// let change = changes.next_timeout(Duration::from_secs(10))?.expect("there is one");
/// assert!(matches!(change.what, Changed::Put(record) if record.get("n")?.as_i64() == Some(5)));
/// # Ok::<(), strata::Error>(())
/// ```
pub struct Changes<'t> {
    open: Weak<Open>,
    table: &'t Table,
    topic: Topic,
    /// None when it has ended.
    subscription: Option<Subscription>,
    /// What is left of the encoded messages that were taken.
    text: Bytes,
    position: EventId,
}

impl std::fmt::Debug for Changes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes({}, {:?})", self.table.name(), self.position)
    }
}

/// Messages are encoded as: length of what follows the id (u32), tag (u8), id, and the record, the id of the record, or nothing.
const HEAD_BYTES: usize = 5;

const PUT: u8 = 0;
const DELETE: u8 = 1;
const TRUNCATE: u8 = 2;
const PROGRESS: u8 = 3;
const LAGGED: u8 = 4;
const MESSAGE: u8 = 5;

/// Encodes a message.
fn write(id: EventId, message: &Message<'_>, out: &mut Vec<u8>) {
    let (tag, rest) = match message {
        Message::Put { bytes, .. } => (PUT, *bytes),
        Message::Delete { id, .. } => (DELETE, id.as_bytes()),
        Message::Truncate => (TRUNCATE, &b""[..]),
        Message::Multicast { body, .. } => (MESSAGE, *body),
        Message::Progress => (PROGRESS, &b""[..]),
        Message::Lagged => (LAGGED, &b""[..]),
    };
    out.extend_from_slice(&(rest.len() as u32).to_le_bytes());
    out.push(tag);
    out.extend_from_slice(&id.to_bytes());
    out.extend_from_slice(rest);
}

impl Open {
    /// Returns what sends messages, and has the feed of changes; a database that needs neither has none.
    pub(super) fn multicast(&self) -> &Multicast {
        self.multicast.get_or_init(|| {
            let feed = Feed::new(self.database.clone(), feed::Options::default(), write);
            Multicast::new(feed, multicast::Options::default())
        })
    }

    /// Returns the feed of changes.
    fn feed(&self) -> &Feed {
        self.multicast().feed()
    }
}

/// Wakes a thread that is parked.
struct Unparked(Thread);

impl Wake for Unparked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<'t> Changes<'t> {
    pub(super) fn begin(open: &Arc<Open>, table: &'t Table, topic: Topic, after: Option<EventId>) -> Result<Self> {
        let feed = open.feed();
        let mut subscription = match after {
            Some(after) => feed.resume(topic.clone(), after)?,
            None => feed.subscribe(topic.clone())?,
        };
        let (text, position) = match after {
            Some(after) => (Bytes::new(), after),
            // First it is told where the log ends.
            None => {
                let text = first_text(&mut subscription)?;
                let (position, _) = EventId::from_bytes(&text[HEAD_BYTES..]).expect("it was written here");
                (text, position)
            }
        };
        Ok(Self { open: Arc::downgrade(open), table, topic, subscription: Some(subscription), text, position })
    }

    /// Returns the id from which to continue: that of the last change that was returned, or a later one with nothing between.
    pub fn position(&self) -> EventId {
        self.position
    }

    /// Returns the next change; `None` if there was none within so long, or the database was closed.
    ///
    /// # Errors
    /// `Gone` if more was written meanwhile than is kept of the log: begin anew, and then read the table; `Busy` if the queues of all
    /// subscribers are full; `Corrupt` if the log is damaged. After an error it has ended.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Change<'t>>> {
        self.next_until(Instant::now().checked_add(timeout)).transpose()
    }

    /// Waits for the next change, at most until `deadline`, if there is one.
    fn next_until(&mut self, deadline: Option<Instant>) -> Option<Result<Change<'t>>> {
        let waker = waker_of_thread();
        loop {
            if let Poll::Ready(next) = self.poll_next(&mut Context::from_waker(&waker)) {
                return next;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    /// Returns the next change, or has the task woken when there may be one; `None` if the database was closed. Where it is behind the log
    /// it reads a piece of that, some milliseconds from the disk. The waker is called by a thread of the database: it must not block.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Change<'t>>>> {
        loop {
            if self.subscription.is_none() {
                return Poll::Ready(None);
            }
            match self.take() {
                Ok(None) => {}
                Ok(Some(change)) => return Poll::Ready(Some(Ok(change))),
                Err(error) => return self.failed(error),
            }
            let Some(subscription) = &mut self.subscription else { return Poll::Ready(None) };
            let waker = context.waker().clone();
            match subscription.next(move || waker.wake()) {
                Next::Text(text) => self.text = text,
                Next::Pending => return Poll::Pending,
                Next::Behind => {
                    subscription.catch_up();
                    // There may be any number of pieces without a change of its own.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Next::Over if self.open.strong_count() > 0 => {
                    return self.failed(Error::Gone {
                        detail: "the log of changes could not be followed: begin anew, and then read the table"
                            .to_owned(),
                    });
                }
                Next::Over => self.subscription = None,
                Next::Broken(why) => return self.failed(Error::corrupt(format!("the log of changes: {why}"))),
            }
        }
    }

    fn failed(&mut self, error: Error) -> Poll<Option<Result<Change<'t>>>> {
        self.subscription = None;
        Poll::Ready(Some(Err(error)))
    }

    /// Takes the next change of what was read.
    fn take(&mut self) -> Result<Option<Change<'t>>> {
        while let Some((head, rest)) = self.text.split_first_chunk::<HEAD_BYTES>() {
            let (tag, length) = (head[4], u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize);
            let (id, rest) = EventId::from_bytes(rest).expect("it was written here");
            let content = &rest[..length];
            let what = match tag {
                PUT => {
                    let record = encoding::Record::trusted(self.table.inner(), content.to_vec())?;
                    Some(Changed::Put(Record::owned(record)))
                }
                DELETE => Some(Changed::Delete(String::from_utf8_lossy(content).into_owned())),
                TRUNCATE => Some(Changed::Truncate),
                MESSAGE => Some(Changed::Message(String::from_utf8_lossy(content).into_owned())),
                _ => None,
            };
            let left = rest.len() - length;
            self.text.advance(self.text.len() - left);
            self.position = id;
            if tag == LAGGED {
                self.continue_after(id)?;
            }
            if let Some(what) = what {
                return Ok(Some(Change { id, what }));
            }
        }
        Ok(None)
    }

    /// Continues from the log, having been too slow for the queue.
    fn continue_after(&mut self, id: EventId) -> Result<()> {
        // Before there is another: there is room for so many.
        self.subscription = None;
        if let Some(open) = self.open.upgrade() {
            self.subscription = Some(open.feed().resume(self.topic.clone(), id)?);
        }
        Ok(())
    }
}

/// Waits for the first message of a subscription that begins now.
fn first_text(subscription: &mut Subscription) -> Result<Bytes> {
    let waker = waker_of_thread();
    loop {
        let wake = waker.clone();
        match subscription.next(move || wake.wake()) {
            Next::Text(text) if text.get(HEAD_BYTES - 1) == Some(&PROGRESS) => return Ok(text),
            // There was no room to tell where it begins.
            Next::Text(_) | Next::Over => {
                let detail = "the queues of all subscribers of changes are full: let them take theirs, and try again";
                return Err(Error::Busy { detail: detail.to_owned() });
            }
            Next::Pending => std::thread::park(),
            Next::Behind => subscription.catch_up(),
            Next::Broken(why) => return Err(Error::corrupt(format!("the log of changes: {why}"))),
        }
    }
}

fn waker_of_thread() -> Waker {
    Waker::from(Arc::new(Unparked(std::thread::current())))
}

impl<'t> Iterator for Changes<'t> {
    type Item = Result<Change<'t>>;

    /// Waits for the next change.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_until(None)
    }
}
