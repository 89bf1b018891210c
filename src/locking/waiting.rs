//! The waiters for a slot: threads, in arrival order, which want to hold it, and callbacks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Time after which a waiting thread is handed the slot. Before that, the first to arrive takes it: that saves a context switch per
/// release, and starves no waiter for longer.
const HANDED_OVER_AFTER: Duration = Duration::from_millis(1);

/// The waiters for one slot.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiters: VecDeque<Arc<Waiter>>,
    pub(super) callbacks: Vec<Box<dyn FnOnce() + Send>>,
}

/// A waiting thread.
pub(super) struct Waiter {
    thread: Thread,
    since: Instant,
    /// `None` if the clock cannot represent it.
    deadline: Option<Instant>,
    /// A [`Wakeup`], or [`NONE`].
    call: AtomicU8,
}

/// What a waiter is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    /// The slot is free: try to take it.
    Free,
    /// The slot stayed held and now belongs to the waiter.
    Yours,
}

const NONE: u8 = 0;
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
        Self { thread: std::thread::current(), since, deadline, call: AtomicU8::new(NONE) }
    }

    /// Waits for a call; `None` on timeout.
    pub(super) fn wait(&self) -> Option<Wakeup> {
        loop {
            if let Some(call) = self.take_wakeup() {
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

    /// Takes the pending call, if there is one.
    pub(super) fn take_wakeup(&self) -> Option<Wakeup> {
        match self.call.swap(NONE, Ordering::Acquire) {
            FREE => Some(Wakeup::Free),
            YOURS => Some(Wakeup::Yours),
            _ => None,
        }
    }

    /// Sets the call; the thread may sleep until [`Waiter::wake`].
    pub(super) fn call(&self, call: Wakeup) {
        let call = if call == Wakeup::Yours { YOURS } else { FREE };
        self.call.store(call, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    /// Returns whether the timeout has expired.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Returns whether it has waited long enough to be handed the slot.
    pub(super) fn is_overdue(&self) -> bool {
        self.since.elapsed() >= HANDED_OVER_AFTER
    }
}
