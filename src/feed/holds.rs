//! Records that subscribers hold: while a subscription that holds one is open, the record does not expire.
//!
//! One thread renews those that are due, many in one commit. It learns from the log when a held record is written, so that it need not look
//! at any before its time: one that was deleted is looked at again once it is written again. It runs while there are holds.
//!
//! A renewal that fails is tried again, also one that panics (the hook of the process says it): otherwise a defect in one record would end
//! all registrations. Nothing is stored of a hold: when it ends, however it ends, the record keeps its deadline.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::transaction::{Database, Renewal};

/// Maximum number of renewals in one commit.
const BATCH: usize = 500;

/// Pause after a commit, so that renewals that are due together are spread.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest wait for a renewal that is not due yet: clocks may be set.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The time after which a failed renewal is tried again, in microseconds.
const RETRY: i64 = 1_000_000;

/// A table, by its number, and the id of a record.
pub(super) type Key = (u32, Arc<str>);

/// The held records.
#[derive(Default)]
pub(super) struct Holds {
    state: Mutex<State>,
    /// Number of held records, read without the lock.
    held: AtomicUsize,
}

#[derive(Default)]
struct State {
    held: HashMap<Key, Held>,
    /// The held records that are to be looked at, by the time, in microseconds since 1970.
    due: BTreeSet<(i64, Key)>,
    thread: Option<JoinHandle<()>>,
    /// Whether the thread is not about to end.
    running: bool,
    stopped: bool,
}

struct Held {
    /// Number of subscriptions that hold it.
    subscriptions: usize,
    /// Its time in `due`, if it is there.
    due: Option<i64>,
}

impl State {
    /// Has a record looked at by this time, if it is held.
    fn look_at(&mut self, key: &Key, time: i64) {
        let Some(held) = self.held.get_mut(key) else { return };
        if held.due.is_some_and(|due| due <= time) {
            return;
        }
        if let Some(due) = held.due.replace(time) {
            self.due.remove(&(due, key.clone()));
        }
        self.due.insert((time, key.clone()));
    }

    /// Takes the records of one table that are to be looked at by now, at most [`BATCH`], and returns its number.
    fn take_due(&mut self, now: i64) -> Option<(u32, Vec<Key>)> {
        let table = self.due.first().filter(|(due, _)| *due <= now).map(|(_, key)| key.0)?;
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        let taken: Vec<_> = due.filter(|(_, key)| key.0 == table).take(BATCH).cloned().collect();
        for entry in &taken {
            self.due.remove(entry);
            if let Some(held) = self.held.get_mut(&entry.1) {
                held.due = None;
            }
        }
        Some((table, taken.into_iter().map(|(_, key)| key).collect()))
    }
}

impl Holds {
    /// Returns the number of held records.
    pub(super) fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Begins to hold a record, until [`Holds::release`].
    ///
    /// # Errors
    /// `Busy` if the feed has ended; `Storage` if no thread can be started.
    pub(super) fn hold(self: &Arc<Self>, database: &Database, key: &Key) -> Result<()> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(super::ended());
        }
        if !state.running {
            if let Some(thread) = state.thread.take() {
                // It has seen that nothing is held and is exiting.
                let _ = thread.join();
            }
            let (holds, database) = (Arc::clone(self), database.clone());
            let thread = thread::Builder::new().name("strata-holds".to_owned()).spawn(move || holds.run(&database));
            state.thread = Some(thread.map_err(|error| Error::storage("cannot start the thread that renews", error))?);
            state.running = true;
        }
        state.held.entry(key.clone()).or_insert(Held { subscriptions: 0, due: None }).subscriptions += 1;
        self.held.store(state.held.len(), Ordering::Relaxed);
        state.look_at(key, database.now());
        state.thread.iter().for_each(|thread| thread.thread().unpark());
        Ok(())
    }

    pub(super) fn release(&self, key: &Key) {
        let mut state = self.state.lock();
        let Some(held) = state.held.get_mut(key) else { return };
        held.subscriptions -= 1;
        if held.subscriptions == 0 {
            let due = state.held.remove(key).and_then(|held| held.due);
            if let Some(due) = due {
                state.due.remove(&(due, key.clone()));
            }
            self.held.store(state.held.len(), Ordering::Relaxed);
        }
    }

    /// Has a record looked at now, if it is held: it may have been written.
    pub(super) fn look_at(&self, key: &Key, now: i64) {
        self.state.lock().look_at(key, now);
    }

    /// Ends all holds and refuses new ones.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }

    /// Renews what is due until nothing is held any more.
    fn run(&self, database: &Database) {
        let mut is_failing = false;
        loop {
            let now = database.now();
            let (taken, next) = {
                let mut state = self.state.lock();
                state.running = !state.stopped && !state.held.is_empty();
                if !state.running {
                    return;
                }
                (state.take_due(now), state.due.first().map(|(due, _)| *due))
            };
            let Some((table, keys)) = taken else {
                let until = next.map_or(LONGEST_WAIT, |next| Duration::from_micros(next.saturating_sub(now) as u64));
                thread::park_timeout(until.min(LONGEST_WAIT));
                continue;
            };
            let renewed = catch_unwind(AssertUnwindSafe(|| renew(database, table, &keys)));
            let outcome = renewed.unwrap_or_else(|_| Err(Error::corrupt("renewing has panicked")));
            if let Err(error) = &outcome
                && !std::mem::replace(&mut is_failing, true)
            {
                tracing::error!("held records cannot be renewed, and will be tried again: {error}");
            }
            is_failing = outcome.is_err();
            let renewals = outcome.unwrap_or_else(|_| vec![Renewal::DueAt(now.saturating_add(RETRY)); keys.len()]);
            let mut state = self.state.lock();
            for (key, renewal) in keys.iter().zip(renewals) {
                if let Renewal::DueAt(due) | Renewal::Renewed { due } = renewal {
                    state.look_at(key, due);
                }
            }
            drop(state);
            thread::park_timeout(PAUSE);
        }
    }
}

fn renew(database: &Database, table: u32, keys: &[Key]) -> Result<Vec<Renewal>> {
    let table = database.schema().tables.iter().find(|known| known.id == table);
    let table = table.ok_or_else(|| Error::invalid("a held record is of a table that is not in the schema"))?;
    let ids: Vec<_> = keys.iter().map(|(_, id)| &**id).collect();
    database.renew(table, &ids)
}
