//! The one thread that reads the end of the log for all live subscribers.
//!
//! It runs while there are subscribers. A write wakes it. It reads everything there is, then pauses briefly before it looks again, so that
//! under load a write finds it running and does not pay for a wake-up. Each batch is decoded once, and each event is encoded once for all
//! its subscribers.
//!
//! It registers with the store while it runs (`Store::wake_after_writes`). A write that is in the log and visible finds it by one relaxed
//! load and unparks it, and pays for nothing else.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::changes::{Change, changes};
use super::queue::{Queue, Queued};
use super::{Hub, Message, Messages, Multicast, Shared, Tail};
use crate::error::{Error, Result};
use crate::storage::{LogPosition, LogReader, Space};
use crate::transaction::Database;

/// Pause after all available batches were read.
const PAUSE: Duration = Duration::from_millis(1);

/// Longest first wait: a write already under way when the reader registered may not wake it.
const SETTLING: Duration = Duration::from_millis(20);

/// Valid range of `keep_alive_ms`: zero would keep the thread busy, and `Instant` must not overflow.
const KEEP_ALIVE_MS: RangeInclusive<u64> = 1..=3_600_000;

/// Within the time of one keep-alive, it looks at most so many times who needs one, and who will need one before it looks again: each look is
/// at all subscribers.
const ROUNDS_OF_KEEP_ALIVES: u32 = 16;

/// Number of batches after which it checks whether a keep-alive is due.
const ROUND: usize = 1024;

/// Starts the thread at a position.
///
/// # Errors
/// `Storage` if no thread can be started.
pub(super) fn start(shared: &Arc<Shared>, database: &Database, from: Tail) -> Result<JoinHandle<()>> {
    let reader = Reader { shared: Arc::clone(shared), database: database.clone() };
    let thread = thread::Builder::new().name("strata-feed".to_owned()).spawn(move || match reader.run(from) {
        Ok(()) => {}
        Err(Error::Gone { .. }) => reader.leave_all().for_each(|queue| reader.shared.lag(&queue)),
        Err(error) => reader.fail(&error.to_string()),
    });
    thread.map_err(|error| Error::storage("cannot start the thread of the change feed", error))
}

struct Reader {
    shared: Arc<Shared>,
    database: Database,
}

impl Reader {
    /// Reads until there are no subscribers left or the feed ends.
    fn run(&self, from: Tail) -> Result<()> {
        let store = self.database.store();
        store.wake_after_writes(Some(thread::current()));
        let mut log = match from {
            Tail::Idle => return Ok(()),
            Tail::Behind(sequence) => store.log_behind(Space::Records, sequence)?,
            Tail::At(position) => store.log_from(Space::Records, position)?,
        };
        self.begin_at(log.position());
        let (mut due, mut longest) = (Instant::now(), SETTLING);
        loop {
            let batches = self.round(&mut log)?;
            if due <= Instant::now() {
                due = self.keep_alive(log.position());
            }
            if self.is_over() {
                return Ok(());
            }
            if batches < ROUND {
                self.shared.expected.read_until(log.position().sequence);
            }
            match batches {
                ROUND.. => {}
                1.. => thread::sleep(PAUSE),
                0 => {
                    thread::park_timeout(due.saturating_duration_since(Instant::now()).min(longest));
                    longest = Duration::MAX;
                }
            }
        }
    }

    /// Sends the position of the end of the log to the subscribers that wait for it.
    fn begin_at(&self, end: LogPosition) {
        let mut hub = self.shared.hub();
        hub.tail = Tail::At(end);
        hub.topics.queues().for_each(|queue| queue.tell_position(&self.shared, end));
    }

    /// Delivers up to [`ROUND`] batches and returns how many there were.
    fn round(&self, log: &mut LogReader<'_>) -> Result<usize> {
        let messages = Messages::of(self.database.schema());
        for batches in 0..ROUND {
            let Some(batch) = log.next()? else { return Ok(batches) };
            for change in changes(&batch, messages.map(|messages| messages.number()))? {
                let position = batch.position(change.sequence);
                match (messages, change.stored) {
                    (Some(messages), Some(stored)) if change.table == messages.number() => {
                        self.hand_out(&messages.open(stored)?, position)?;
                    }
                    _ => self.deliver(&change, position)?,
                }
            }
            self.shared.hub().tail = Tail::At(batch.position(batch.last()));
        }
        Ok(ROUND)
    }

    /// Queues a change for its subscribers.
    fn deliver(&self, change: &Change<'_>, behind: LogPosition) -> Result<()> {
        let queues = {
            // A subscriber that joins later already has the change, or begins after it.
            let mut hub = self.shared.hub();
            hub.tail = Tail::At(behind);
            hub.topics.concerned(change)
        };
        if queues.is_empty() {
            return Ok(());
        }
        if let Some(key) = queues.iter().find_map(|queue| queue.holds.as_ref().filter(|_| change.stored.is_some())) {
            self.shared.holds.look_at(key, self.database.now());
        }
        let mut text = Vec::new();
        self.shared.write_change(self.database.schema(), change, behind, &mut text)?;
        let text = self.shared.counted(text);
        let now = Instant::now();
        for queue in queues {
            self.put(&queue, behind, text.clone().map(|text| Queued::new(text, 1)), now);
        }
        Ok(())
    }

    /// Queues a message for the subscribers of its targets.
    fn hand_out(&self, multicast: &Multicast<'_, '_>, behind: LogPosition) -> Result<()> {
        let (id, targets) = (multicast.id()?, multicast.targets()?);
        // Before the position is: whoever commits then finds the message handed out.
        let receipt = self.shared.expected.take(&id);
        let queues = {
            let mut hub = self.shared.hub();
            hub.tail = Tail::At(behind);
            hub.topics.of_records(multicast.table, &targets)
        };
        let text = match queues.is_empty() {
            true => None,
            false => {
                let mut text = Vec::new();
                self.shared.write_multicast(multicast, behind, &mut text)?;
                self.shared.counted(text)
            }
        };
        receipt.iter().for_each(|receipt| receipt.begin(queues.iter().map(|(position, _)| *position)));
        let now = Instant::now();
        for (position, queue) in queues {
            let delivery = receipt.as_ref().map(|receipt| receipt.delivery(position));
            self.put(&queue, behind, text.clone().map(|text| Queued { text, events: 1, delivery }), now);
        }
        receipt.iter().for_each(|receipt| receipt.handed_out());
        Ok(())
    }

    /// Queues a text; the subscriber lags if there is no room for it.
    fn put(&self, queue: &Arc<Queue>, behind: LogPosition, queued: Option<Queued>, now: Instant) {
        if !queued.is_some_and(|queued| queue.put(behind, queued, now)) {
            self.shared.leave(queue);
            self.shared.lag(queue);
        }
    }

    /// Sends the current position to subscribers that have received nothing for long, and returns when the next keep-alive is due.
    fn keep_alive(&self, reached: LogPosition) -> Instant {
        let keep_alive_ms = self.shared.options.keep_alive_ms.clamp(*KEEP_ALIVE_MS.start(), *KEEP_ALIVE_MS.end());
        let (now, longest) = (Instant::now(), Duration::from_millis(keep_alive_ms));
        let (hub, mut text) = (self.shared.hub(), None);
        let (mut next, soon) = (now + longest, now + longest / ROUNDS_OF_KEEP_ALIVES);
        for queue in hub.topics.queues() {
            // A subscriber that has not taken its last text needs no keep-alive.
            let Some(since) = queue.idle_since() else { continue };
            if since + longest > soon {
                next = next.min(since + longest);
            } else if let Some(text) = text.get_or_insert_with(|| self.shared.text(reached, &Message::Progress)) {
                queue.put(reached, Queued::new(text.clone(), 0), now);
            }
        }
        next
    }

    /// Returns whether there are no subscribers left or the feed has ended; goes idle if so.
    fn is_over(&self) -> bool {
        let mut hub = self.shared.hub();
        let is_over = hub.stopped || hub.topics.is_empty();
        if is_over {
            self.go_idle(&mut hub);
        }
        is_over
    }

    /// Goes idle and takes all queues.
    fn leave_all(&self) -> impl Iterator<Item = Arc<Queue>> {
        let mut hub = self.shared.hub();
        self.go_idle(&mut hub);
        std::mem::take(&mut hub.topics).into_queues()
    }

    /// Allows another reader to be started.
    fn go_idle(&self, hub: &mut Hub) {
        hub.tail = Tail::Idle;
        // Nobody is left to hand them out to.
        self.shared.expected.read_until(u64::MAX);
        self.database.store().wake_after_writes(None);
    }

    fn fail(&self, why: &str) {
        let why = why.into();
        self.leave_all().for_each(|queue| queue.fail(&why));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("the reader of the log has panicked");
        }
    }
}
