//! Who waits for a slot: threads that want to hold it, in the order in which they came, and callbacks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// After so long a waiting thread is handed the slot. Before, whoever comes first takes it: that spares a switch of threads for each
/// release, and starves nobody for longer.
const HANDED_OVER_AFTER: Duration = Duration::from_millis(1);

/// Those who wait for one slot.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiters: VecDeque<Arc<Waiter>>,
    pub(super) callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

/// Where one thread waits.
pub(super) struct Waiter {
    thread: Thread,
    since: Instant,
    /// `None` is beyond what the clock can say.
    deadline: Option<Instant>,
    /// A [`Call`], or [`SILENCE`].
    call: AtomicU8,
}

/// What a thread is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The slot is free: try to take it.
    Free,
    /// The slot stayed held, and is yours.
    Yours,
}

const SILENCE: u8 = 0;
const FREE: u8 = 1;
const YOURS: u8 = 2;

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiters.len() + self.callbacks.len()
    }
}

impl Waiter {
    /// A waiter for the calling thread.
    pub(super) fn new(at_most: Duration) -> Self {
        let since = Instant::now();
        let deadline = since.checked_add(at_most);
        Self { thread: std::thread::current(), since, deadline, call: AtomicU8::new(SILENCE) }
    }

    /// Waits to be called; `None` if the time is over first.
    pub(super) fn wait(&self) -> Option<Call> {
        loop {
            if let Some(call) = self.heard() {
                return Some(call);
            }
            match self.deadline {
                None => std::thread::park(),
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    None | Some(Duration::ZERO) => return None,
                    Some(left) => std::thread::park_timeout(left),
                },
            }
        }
    }

    /// What the thread was called for, once.
    pub(super) fn heard(&self) -> Option<Call> {
        match self.call.swap(SILENCE, Ordering::Acquire) {
            FREE => Some(Call::Free),
            YOURS => Some(Call::Yours),
            _ => None,
        }
    }

    /// Leaves the call for the thread, which may sleep until [`Waiter::wake`].
    pub(super) fn call(&self, call: Call) {
        let call = if call == Call::Yours { YOURS } else { FREE };
        self.call.store(call, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Whether it has waited for so long that it is handed the slot.
    pub(super) fn is_overdue(&self) -> bool {
        self.since.elapsed() >= HANDED_OVER_AFTER
    }
}
