//! One subscription: what its subscriber receives next, and how it catches up with the live ones, which are fed from the end of the log.
//!
//! What it reads itself and what the reader of the log queues for it are compared by one position under one lock, so between the two there
//! are neither gaps nor duplicates.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::changes::{Change, changes};
use super::holds::Key;
use super::queue::{Queue, Queued, Taken};
use super::receipt::Delivery;
use super::{EventId, Message, Messages, Multicast, Running, Shared, Topic, ended};
use crate::error::{Error, Result};
use crate::storage::{LogPosition, Space};
use crate::transaction::Database;

/// Approximate size of the text that one catch-up step returns.
const PIECE_BYTES: usize = 64 << 10;

/// Maximum number of bytes of the log read in one such step.
const READ_BYTES: usize = 4 << 20;

/// A subscription; dropping it ends it. It ends with its feed, and keeps the database open only while [`Subscription::catch_up`] runs.
pub struct Subscription {
    running: Weak<Running>,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Whether it has begun to hold its record, if it is to.
    is_holding: bool,
    /// The position it has caught up to, if it is not live.
    behind: Option<LogPosition>,
    /// What it has read itself.
    piece: Option<Queued>,
}

/// A handle by which a subscription is ended from outside.
pub struct Lagging {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

impl Lagging {
    /// Returns whether the subscriber can be told from where to resume; it cannot before it was sent its first position.
    pub fn knows_position(&self) -> bool {
        self.queue.has_position()
    }

    /// Ends the subscription as if its subscriber were too slow: it is sent that it lags, and from where to resume.
    pub fn lag(&self) {
        self.shared.leave(&self.queue);
        self.shared.lag(&self.queue);
    }
}

/// What a subscriber receives next.
#[derive(Debug)]
pub enum Next {
    /// Encoding of one or more messages; it counts against the limit until its last clone is dropped.
    Text(Bytes),
    /// Nothing yet; the callback is called when there is something.
    Pending,
    /// The subscriber has to call [`Subscription::catch_up`] first, on a thread that may block.
    Behind,
    /// The subscription has ended.
    Over,
    /// The subscription has ended because the log cannot be read; contains the reason, for the operator.
    Broken(Arc<str>),
}

impl Subscription {
    pub(super) fn begin(running: &Arc<Running>, topic: Topic, holds: Option<Key>) -> Result<Self> {
        let subscription = Self::new(running, topic, holds)?;
        running.shared.join(&running.database, &subscription.queue, None)?;
        Ok(subscription)
    }

    pub(super) fn resume(running: &Arc<Running>, topic: Topic, after: EventId, holds: Option<Key>) -> Result<Self> {
        let mut subscription = Self::new(running, topic, holds)?;
        subscription.behind = Some(after.position());
        subscription.read(&running.database)?;
        Ok(subscription)
    }

    pub(super) fn hold(running: &Arc<Running>, topic: Topic, after: Option<EventId>) -> Result<Self> {
        let database = &running.database;
        let table = database.schema().tables.iter().find(|table| table.id == topic.table);
        let (Some(table), Some(id)) = (table.filter(|table| table.expiration.is_some()), topic.id.clone()) else {
            return Err(Error::invalid("only a record of a table with an expiration can be held"));
        };
        let holds = Some((table.id, Arc::from(&*id)));
        let subscription = match after {
            Some(after) => Self::resume(running, topic, after, holds)?,
            None => Self::begin(running, topic, holds)?,
        };
        // After it began: a write that comes later is noticed. One that came earlier may have come after the record was looked at.
        if database.read(table, &id)?.is_none() {
            return Err(Error::NotFound { detail: format!("there is no record {id:?} in {}", table.name) });
        }
        if let Some(key) = &subscription.queue.holds {
            subscription.shared.holds.look_at(key, database.now());
        }
        Ok(subscription)
    }

    fn new(running: &Arc<Running>, topic: Topic, holds: Option<Key>) -> Result<Self> {
        running.database.store().check_has_log()?;
        running.check(&topic)?;
        let shared = &running.shared;
        let most = shared.options.subscribers;
        // Counted before the check: dropping the subscription undoes it if it is one too many.
        let before = shared.subscribers.fetch_add(1, Ordering::Relaxed);
        let queue = Queue::new(shared, topic, holds);
        let (weak, shared) = (Arc::downgrade(running), Arc::clone(shared));
        let mut subscription = Self { running: weak, shared, queue, is_holding: false, behind: None, piece: None };
        if before >= most {
            return Err(Error::Busy { detail: format!("the limit of {most} change-feed subscribers is reached") });
        }
        if let Some(key) = &subscription.queue.holds {
            subscription.shared.holds.hold(&running.database, key)?;
            subscription.is_holding = true;
        }
        Ok(subscription)
    }

    /// Returns what comes next. If that is nothing yet, `wake` is called when there is something; it must neither block nor panic.
    pub fn next(&mut self, wake: impl FnOnce() + Send + 'static) -> Next {
        if let Some(piece) = self.piece.take() {
            return self.taken(piece);
        }
        if self.behind.is_some() && !self.queue.is_ended() {
            return if self.shared.hub().stopped { Next::Over } else { Next::Behind };
        }
        match self.queue.take(&self.shared, wake) {
            Taken::Text(queued) => self.taken(queued),
            Taken::Pending => Next::Pending,
            Taken::Over => Next::Over,
            Taken::Broken(why) => Next::Broken(why),
        }
    }

    /// Returns a handle by which it is ended from outside.
    pub fn lagging(&self) -> Lagging {
        Lagging { shared: Arc::clone(&self.shared), queue: Arc::clone(&self.queue) }
    }

    fn taken(&self, queued: Queued) -> Next {
        queued.delivery.into_iter().for_each(Delivery::taken);
        self.shared.events.fetch_add(queued.events, Ordering::Relaxed);
        Next::Text(queued.text)
    }

    /// Reads a piece of the missed events, or makes the subscription live. Reads from the disk, for some milliseconds.
    pub fn catch_up(&mut self) {
        let (position, running) = (self.behind, self.running.upgrade());
        let read = running.as_ref().map_or_else(|| Err(ended()), |running| self.read(&running.database));
        let Err(error) = read else { return };
        self.behind = None;
        match (error, position) {
            _ if running.is_none() || self.shared.hub().stopped => self.queue.end(),
            // The log was removed meanwhile, or there is no room for the events.
            (Error::Gone { .. } | Error::Busy { .. }, Some(position)) => {
                self.queue.set_position(position);
                self.shared.lag(&self.queue);
            }
            (error, _) => self.queue.fail(&error.to_string().into()),
        }
    }

    fn read(&mut self, database: &Database) -> Result<()> {
        self.read_piece(database)?;
        if let Some(key) = &self.queue.holds {
            // Until it is live, the reader of the log does not notice that its record is written.
            self.shared.holds.look_at(key, database.now());
        }
        Ok(())
    }

    fn read_piece(&mut self, database: &Database) -> Result<()> {
        let Some(mut position) = self.behind else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let mut log = database.store().log_from(Space::Records, position)?;
        let (mut text, mut events, mut read_bytes) = (Vec::new(), 0, 0);
        let messages = Messages::of(database.schema());
        while read_bytes < READ_BYTES && text.len() < PIECE_BYTES {
            let Some(batch) = log.next()? else {
                if events == 0 {
                    (shared.write)(EventId::of(position), &Message::Progress, &mut text);
                }
                // Before the reader feeds the queue: what the reader adds comes after this piece.
                self.piece = Some(self.queued(text, events)?);
                self.behind = (!shared.join(database, &self.queue, Some(position))?).then_some(position);
                return Ok(());
            };
            read_bytes += batch.bytes();
            // A batch is read again for each of its pieces, so a long batch has longer pieces.
            let most_bytes = PIECE_BYTES.max(batch.bytes() / 16);
            position = batch.position(batch.last());
            for change in changes(&batch, messages.map(|messages| messages.number()))? {
                let behind = batch.position(change.sequence);
                match (messages, change.stored) {
                    (Some(messages), Some(stored)) if change.table == messages.number() => {
                        let multicast = messages.open(stored)?;
                        if self.queue.topic.receives(&multicast)? {
                            shared.write_multicast(&multicast, behind, &mut text)?;
                            events += 1;
                        }
                    }
                    _ if self.queue.topic.concerns(&change) => {
                        shared.write_change(database.schema(), &change, behind, &mut text)?;
                        events += 1;
                    }
                    _ => {}
                }
                if text.len() >= most_bytes {
                    position = behind;
                    break;
                }
            }
        }
        self.piece = (events > 0).then(|| self.queued(text, events)).transpose()?;
        self.behind = Some(position);
        self.queue.set_position(position);
        Ok(())
    }

    /// # Errors
    /// `Busy` if there is no room for the text.
    fn queued(&self, text: Vec<u8>, events: u64) -> Result<Queued> {
        let text = self.shared.counted(text).ok_or_else(|| {
            let detail = "the change-feed queues are full";
            Error::Busy { detail: detail.to_owned() }
        })?;
        Ok(Queued::new(text, events))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.leave(&self.queue);
        if let Some(key) = self.queue.holds.as_ref().filter(|_| self.is_holding) {
            self.shared.holds.release(key);
        }
        self.shared.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Topic {
    /// # Errors
    /// `Corrupt`.
    fn receives(&self, multicast: &Multicast<'_, '_>) -> Result<bool> {
        match &self.id {
            Some(id) if self.table == multicast.table => multicast.is_for(id),
            _ => Ok(false),
        }
    }

    fn concerns(&self, change: &Change<'_>) -> bool {
        let same = |(id, changed): (&str, &str)| id == changed;
        self.table == change.table && self.id.as_deref().zip(change.id).is_none_or(same)
    }
}
