//! The one thread that reads the end of the log, for all subscribers.
//!
//! It is there as long as somebody is. A write wakes it; it reads what there is, then pauses for a moment before it looks again, so that
//! under load a write finds it awake and pays for no wake-up. Each batch is decoded once, and the text of an event is made once for all
//! who get it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::changes::{Change, changes};
use super::queue::{Queue, Queued};
use super::{Hub, Message, Shared, Tail};
use crate::error::{Error, Result};
use crate::storage::{LogPosition, LogReader, Space};

/// How long it pauses when it has read all there was.
const PAUSE: Duration = Duration::from_millis(1);

/// How long it waits at first: a write that was under way when it began to be woken may not have seen that.
const SETTLING: Duration = Duration::from_millis(20);

/// What `keep_alive_ms` may be: zero would keep the thread busy, and clocks have an end.
const KEEP_ALIVE_MS: RangeInclusive<u64> = 1..=3_600_000;

/// After how many batches it looks whether a subscriber is due for a keep-alive.
const ROUND: usize = 1024;

/// Starts it, to read from here.
///
/// # Errors
/// `Storage` if no thread can be started.
pub(super) fn start(shared: &Arc<Shared>, from: Tail) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("strata-feed".to_owned()).spawn(move || {
        let reader = Reader(shared);
        match reader.run(from) {
            Ok(()) => {}
            Err(Error::Gone { .. }) => reader.leave_all().for_each(|queue| reader.0.lag(&queue)),
            Err(error) => reader.break_off(&error.to_string()),
        }
    });
    thread.map_err(|error| Error::storage("cannot start the thread of the change feed", error))
}

struct Reader(Arc<Shared>);

impl Reader {
    /// Reads until nobody is subscribed or the feed ends.
    fn run(&self, from: Tail) -> Result<()> {
        let store = self.0.database.store();
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

    /// Tells the subscribers that have waited for it where the end of the log is.
    fn begin_at(&self, end: LogPosition) {
        let mut hub = self.0.hub();
        hub.tail = Tail::At(end);
        hub.topics.queues().for_each(|queue| queue.tell_position(&self.0, end));
    }

    /// Tells what was written; how many batches it was.
    fn round(&self, log: &mut LogReader<'_>) -> Result<usize> {
        for batches in 0..ROUND {
            let Some(batch) = log.next()? else { return Ok(batches) };
            for change in changes(&batch)? {
                self.tell(&change, batch.position(change.sequence))?;
            }
            self.0.hub().tail = Tail::At(batch.position(batch.last()));
        }
        Ok(ROUND)
    }

    /// Puts a change into the queues of its subscribers.
    fn tell(&self, change: &Change<'_>, behind: LogPosition) -> Result<()> {
        let queues = {
            // A subscriber that joins after this has the change already, or begins behind it.
            let mut hub = self.0.hub();
            hub.tail = Tail::At(behind);
            hub.topics.concerned(change)
        };
        if queues.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        self.0.write_change(change, behind, &mut text)?;
        let text = self.0.counted(text);
        for queue in queues {
            let queued = text.clone().map(|text| Queued { text, events: 1 });
            if !queued.is_some_and(|queued| queue.put(behind, queued)) {
                self.0.leave(&queue);
                self.0.lag(&queue);
            }
        }
        Ok(())
    }

    /// Tells subscribers that have received nothing for long how far the log was read; when the next one is due.
    fn keep_alive(&self, reached: LogPosition) -> Instant {
        let keep_alive_ms = self.0.options.keep_alive_ms.clamp(*KEEP_ALIVE_MS.start(), *KEEP_ALIVE_MS.end());
        let (now, longest) = (Instant::now(), Duration::from_millis(keep_alive_ms));
        let (hub, mut text) = (self.0.hub(), None);
        let mut next = now + longest;
        for queue in hub.topics.queues() {
            // A subscriber that has not taken the last text needs no other.
            let Some(since) = queue.idle_since() else { continue };
            if since + longest > now {
                next = next.min(since + longest);
            } else if let Some(text) = text.get_or_insert_with(|| self.0.text(reached, &Message::Progress)) {
                queue.put(reached, Queued { text: text.clone(), events: 0 });
            }
        }
        next
    }

    /// Whether there is nobody to read for.
    fn is_over(&self) -> bool {
        let mut hub = self.0.hub();
        let is_over = hub.stopped || hub.topics.is_empty();
        if is_over {
            self.go_idle(&mut hub);
        }
        is_over
    }

    /// Takes all queues, and reads for none from now on.
    fn leave_all(&self) -> impl Iterator<Item = Arc<Queue>> {
        let mut hub = self.0.hub();
        self.go_idle(&mut hub);
        std::mem::take(&mut hub.topics).into_queues()
    }

    /// Another one may be started from now on.
    fn go_idle(&self, hub: &mut Hub) {
        hub.tail = Tail::Idle;
        self.0.database.store().wake_after_writes(None);
    }

    fn break_off(&self, why: &str) {
        let why = why.into();
        self.leave_all().for_each(|queue| queue.break_off(&why));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if thread::panicking() {
            self.break_off("the reader of the log has panicked");
        }
    }
}
