//! The bounded queue of one subscriber: encoded events in order, and how the subscription ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;

use super::holds::Key;
use super::receipt::Delivery;
use super::{Message, SHARES, Shared, Topic};
use crate::storage::LogPosition;

/// Bytes of events that are taken together.
const TOGETHER_BYTES: usize = 16 << 10;

/// The queue of a subscriber. The reader of the log fills it, the subscriber drains it.
pub(super) struct Queue {
    pub(super) topic: Topic,
    /// The record that its subscription holds.
    pub(super) holds: Option<Key>,
    /// Number of queued bytes above which another batch is refused.
    most_bytes: usize,
    state: Mutex<State>,
}

struct State {
    texts: VecDeque<Queued>,
    bytes: usize,
    /// Position after the last event that was queued, or that the subscriber already had.
    position: Option<LogPosition>,
    /// When something was last queued.
    filled: Instant,
    end: Option<End>,
    /// Called once, when there is something to take.
    wake: Option<Box<dyn FnOnce() + Send>>,
}

/// Encoded messages for a subscriber.
pub(super) struct Queued {
    pub(super) text: Bytes,
    /// Number of events in it.
    pub(super) events: u64,
    /// Present if it is a message whose receipt is awaited.
    pub(super) delivery: Option<Delivery>,
}

impl Queued {
    pub(super) fn new(text: Bytes, events: u64) -> Self {
        Self { text, events, delivery: None }
    }
}

/// How a subscription ends once its queue is empty.
#[derive(Clone)]
enum End {
    /// The feed was stopped or the subscriber lags.
    Over,
    /// The log cannot be read, for this reason.
    Broken(Arc<str>),
}

/// What [`Queue::take`] returns.
pub(super) enum Taken {
    Text(Queued),
    /// Nothing yet; the callback will be called.
    Pending,
    Over,
    Broken(Arc<str>),
}

impl State {
    /// Takes several short texts as one, if there are as many and there is room for it: each by itself would be sent by itself, which costs
    /// more than the copy, and keeps the worker from others for longer.
    fn together(&mut self, shared: &Arc<Shared>) -> Option<Queued> {
        let mut bytes = 0;
        let fits = |queued: &&Queued| {
            bytes += queued.text.len();
            queued.delivery.is_none() && bytes <= TOGETHER_BYTES
        };
        let number = self.texts.iter().take_while(fits).count();
        if number < 2 {
            return None;
        }
        let texts: Vec<_> = self.texts.range(..number).map(|queued| &queued.text[..]).collect();
        let text = shared.counted(texts.concat())?;
        Some(Queued::new(text, self.texts.drain(..number).map(|queued| queued.events).sum()))
    }
}

impl Queue {
    pub(super) fn new(shared: &Shared, topic: Topic, holds: Option<Key>) -> Arc<Self> {
        let (texts, filled) = (VecDeque::new(), Instant::now());
        let state = State { texts, bytes: 0, position: None, filled, end: None, wake: None };
        Arc::new(Self { topic, holds, most_bytes: shared.options.queued_bytes / SHARES, state: Mutex::new(state) })
    }

    /// Records that the subscriber has everything up to this position.
    pub(super) fn set_position(&self, position: LogPosition) {
        self.state.lock().position = Some(position);
    }

    /// Sends a subscriber that has received nothing yet the current position in the log.
    pub(super) fn tell_position(&self, shared: &Arc<Shared>, reached: LogPosition) {
        if self.state.lock().position.is_none()
            && let Some(text) = shared.text(reached, &Message::Progress)
        {
            self.put(reached, Queued::new(text, 0), Instant::now());
        }
    }

    /// Queues a text, unless the subscriber already has its events; returns false if there is no room.
    pub(super) fn put(&self, behind: LogPosition, queued: Queued, now: Instant) -> bool {
        let mut state = self.state.lock();
        let is_known = queued.events > 0 && state.position.is_some_and(|position| behind.sequence <= position.sequence);
        if is_known || state.end.is_some() {
            return true;
        }
        // A subscriber cannot drain the queue while the events of one batch are added, so they are admitted all or none.
        let begun =
            state.position.is_some_and(|position| (position.file, position.offset) == (behind.file, behind.offset));
        if !begun && !state.texts.is_empty() && state.bytes + queued.text.len() > self.most_bytes {
            return false;
        }
        state.bytes += queued.text.len();
        state.texts.push_back(queued);
        state.position = Some(behind);
        state.filled = now;
        let wake = state.wake.take();
        drop(state);
        wake.into_iter().for_each(|wake| wake());
        true
    }

    /// Returns when something was last queued, if the queue is empty and has a position; otherwise `None`.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.texts.is_empty() && state.position.is_some()).then_some(state.filled)
    }

    /// Ends the queue with a last text that names the position to resume from, if that is known.
    pub(super) fn lag(&self, text: impl FnOnce(LogPosition) -> Bytes) {
        let mut state = self.state.lock();
        if state.end.is_none()
            && let Some(position) = state.position
        {
            state.texts.push_back(Queued::new(text(position), 0));
        }
        self.end_by(state, End::Over);
    }

    /// Ends the queue.
    pub(super) fn end(&self) {
        self.end_by(self.state.lock(), End::Over);
    }

    /// Ends the queue because the log cannot be read.
    pub(super) fn fail(&self, why: &Arc<str>) {
        self.end_by(self.state.lock(), End::Broken(Arc::clone(why)));
    }

    fn end_by(&self, mut state: parking_lot::MutexGuard<'_, State>, end: End) {
        state.end.get_or_insert(end);
        let wake = state.wake.take();
        drop(state);
        wake.into_iter().for_each(|wake| wake());
    }

    /// Returns whether it is known up to where the subscriber has everything.
    pub(super) fn has_position(&self) -> bool {
        self.state.lock().position.is_some()
    }

    /// Returns whether it has ended; there may be texts still.
    pub(super) fn is_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// Takes the next text. If there is none yet, `wake` is called once there is.
    pub(super) fn take(&self, shared: &Arc<Shared>, wake: impl FnOnce() + Send + 'static) -> Taken {
        let mut state = self.state.lock();
        if let Some(queued) = state.together(shared).or_else(|| state.texts.pop_front()) {
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
