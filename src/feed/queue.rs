//! What waits for one subscriber: texts in their order, within a bound of bytes, and how it all ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Message, SHARES, Shared, Topic};
use crate::storage::LogPosition;

/// The queue of a subscriber. The reader of the log fills it, the subscriber empties it.
pub(super) struct Queue {
    pub(super) topic: Topic,
    /// Bytes of texts after which there is no room for another batch.
    most_bytes: usize,
    state: Mutex<State>,
}

struct State {
    texts: VecDeque<Queued>,
    bytes: usize,
    /// Behind what was put in last, or was had before.
    position: Option<LogPosition>,
    /// When something was put in.
    filled: Instant,
    end: Option<End>,
    /// Called when there is something, once.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

/// A text for a subscriber.
pub(super) struct Queued {
    pub(super) text: Bytes,
    /// How many events it has.
    pub(super) events: u64,
}

/// How a subscription ends once its queue is empty.
#[derive(Clone)]
enum End {
    /// As it should.
    Over,
    /// The log cannot be read; with the reason.
    Broken(Arc<str>),
}

/// What a queue has next.
pub(super) enum Taken {
    Text(Queued),
    /// Nothing yet: it will call.
    Pending,
    Over,
    Broken(Arc<str>),
}

impl Queue {
    pub(super) fn new(shared: &Shared, topic: Topic) -> Arc<Self> {
        let (texts, filled) = (VecDeque::new(), Instant::now());
        let state = State { texts, bytes: 0, position: None, filled, end: None, wake: None };
        Arc::new(Self { topic, most_bytes: shared.options.queued_bytes / SHARES, state: Mutex::new(state) })
    }

    /// Its subscriber has everything up to here.
    pub(super) fn set_position(&self, position: LogPosition) {
        self.state.lock().position = Some(position);
    }

    /// Tells a subscriber that has received nothing yet how far the log was read.
    pub(super) fn tell_position(&self, shared: &Arc<Shared>, reached: LogPosition) {
        if self.state.lock().position.is_none()
            && let Some(text) = shared.text(reached, &Message::Progress)
        {
            self.put(reached, Queued { text, events: 0 });
        }
    }

    /// Puts a text in, unless the subscriber has what it says already; false if there is no room.
    pub(super) fn put(&self, behind: LogPosition, queued: Queued) -> bool {
        let mut state = self.state.lock();
        let is_known = queued.events > 0 && state.position.is_some_and(|position| behind.sequence <= position.sequence);
        if is_known || state.end.is_some() {
            return true;
        }
        // No subscriber can take the events of one batch while they are put in: they have room together or not at all.
        let begun =
            state.position.is_some_and(|position| (position.file, position.offset) == (behind.file, behind.offset));
        if !begun && !state.texts.is_empty() && state.bytes + queued.text.len() > self.most_bytes {
            return false;
        }
        state.bytes += queued.text.len();
        state.texts.push_back(queued);
        state.position = Some(behind);
        state.filled = Instant::now();
        let wake = state.wake.take();
        drop(state);
        wake.into_iter().for_each(|wake| wake());
        true
    }

    /// Since when nothing was put in and nothing waits; `None` if something does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.texts.is_empty() && state.position.is_some()).then_some(state.filled)
    }

    /// Ends it with a last text, which says from where to resume, if that is known.
    pub(super) fn lag(&self, text: impl FnOnce(LogPosition) -> Bytes) {
        let mut state = self.state.lock();
        if state.end.is_none()
            && let Some(position) = state.position
        {
            state.texts.push_back(Queued { text: text(position), events: 0 });
        }
        self.end_by(state, End::Over);
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.end_by(self.state.lock(), End::Over);
    }

    /// Ends it, because the log cannot be read.
    pub(super) fn break_off(&self, why: &Arc<str>) {
        self.end_by(self.state.lock(), End::Broken(Arc::clone(why)));
    }

    fn end_by(&self, mut state: parking_lot::MutexGuard<'_, State>, end: End) {
        state.end.get_or_insert(end);
        let wake = state.wake.take();
        drop(state);
        wake.into_iter().for_each(|wake| wake());
    }

    /// What comes next; calls `wake` when there is something, if there is nothing now.
    pub(super) fn take(&self, wake: impl FnOnce() + Send + 'static) -> Taken {
        let mut state = self.state.lock();
        if let Some(queued) = state.texts.pop_front() {
            state.bytes = state.bytes.saturating_sub(queued.text.len());
            return Taken::Text(queued);
        }
        match &state.end {
            Some(End::Over) => Taken::Over,
            Some(End::Broken(why)) => Taken::Broken(Arc::clone(why)),
            None => {
                state.wake = Some(Box::new(wake));
                Taken::Pending
            }
        }
    }
}
