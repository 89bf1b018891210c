//! Readers that wait at the end of a partition: places in a list, and one thread that calls back those who have something to read.
//!
//! An append pays one load where nobody waits, and else at most the unparking of that thread. After a look for which it was woken, the thread
//! looks again a millisecond later and not at each append, so that under load a look serves many appends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::Shared;
use crate::error::{Error, Result};

/// The pause after a look that has found something.
const PAUSE: Duration = Duration::from_millis(1);

/// The places of those who wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// How many places there are.
    number: AtomicUsize,
    /// Whether the thread sleeps until it is unparked.
    is_parked: AtomicBool,
    /// The thread, once somebody has waited.
    thread: OnceLock<Thread>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    next: u64,
    is_stopped: bool,
}

struct Place {
    number: u64,
    /// Positions of the stream and the partition, and the offset that is waited for.
    for_any: Box<[(usize, u32, u64)]>,
    call: Box<dyn FnOnce() + Send>,
}

/// A place in the list; dropping it gives it up.
pub struct WaitPlace {
    shared: Weak<Shared>,
    number: u64,
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.waiting.leave(self.number);
        }
    }
}

impl Waiting {
    /// Returns how many wait.
    pub(super) fn number(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Called after an append was published.
    #[inline]
    pub(super) fn wake(&self) {
        if self.number.load(Ordering::SeqCst) > 0 {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if self.is_parked.swap(false, Ordering::SeqCst) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Calls back once one of these offsets can be read, or when nobody may wait any more; `None` if nobody may. The callback must neither
    /// block nor panic.
    ///
    /// # Errors
    /// `Storage` if no thread can be started.
    pub(super) fn wait(
        shared: &Arc<Shared>,
        for_any: Box<[(usize, u32, u64)]>,
        call: impl FnOnce() + Send + 'static,
    ) -> Result<Option<WaitPlace>> {
        let waiting = &shared.waiting;
        let mut state = waiting.state.lock();
        if state.is_stopped {
            return Ok(None);
        }
        if waiting.thread.get().is_none() {
            let weak = Arc::downgrade(shared);
            let thread = std::thread::Builder::new().name("strata-streams".to_owned()).spawn(move || run(&weak));
            let thread = thread.map_err(|error| Error::storage("cannot start a thread for waiting readers", error))?;
            let _ = waiting.thread.set(thread.thread().clone());
        }
        state.next += 1;
        let number = state.next;
        let place = WaitPlace { shared: Arc::downgrade(shared), number };
        state.places.push(Place { number, for_any, call: Box::new(call) });
        waiting.number.store(state.places.len(), Ordering::SeqCst);
        drop(state);
        // What was published before the place was there is found by this look.
        waiting.unpark();
        Ok(Some(place))
    }

    fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        state.places.retain(|place| place.number != number);
        self.number.store(state.places.len(), Ordering::SeqCst);
    }

    /// Calls all of them back, and ends the thread.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let places = std::mem::take(&mut state.places);
        self.number.store(0, Ordering::SeqCst);
        drop(state);
        self.thread.get().into_iter().for_each(Thread::unpark);
        places.into_iter().for_each(|place| (place.call)());
    }

    /// Returns whether nobody may wait any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    /// Takes out those who have something to read.
    fn ready(&self, is_readable: impl Fn(&(usize, u32, u64)) -> bool) -> Option<Vec<Place>> {
        let mut state = self.state.lock();
        if state.is_stopped {
            return None;
        }
        let ready = state.places.extract_if(.., |place| place.for_any.iter().any(&is_readable)).collect();
        self.number.store(state.places.len(), Ordering::SeqCst);
        Some(ready)
    }
}

fn run(shared: &Weak<Shared>) {
    let mut was_woken = false;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let waiting = &shared.waiting;
        // Before the look, so that what is published after it wakes the thread again.
        waiting.is_parked.store(true, Ordering::SeqCst);
        let is_readable = |(stream, partition, offset): &(usize, u32, u64)| {
            shared.states[*stream].partitions[*partition as usize].watermarks().high > *offset
        };
        let Some(ready) = waiting.ready(is_readable) else { return };
        let has_worked = was_woken || !ready.is_empty();
        ready.into_iter().for_each(|place| (place.call)());
        drop(shared);
        match has_worked {
            true => std::thread::sleep(PAUSE),
            false => std::thread::park(),
        }
        was_woken = !has_worked;
    }
}
