//! Group commit: one sync of the log serves all writers that wait for it.
//!
//! A writer that finds no sync running leads: it syncs for itself and for all whose writes are in the log by then. Those that
//! come meanwhile wait; when the sync has ended, the first of them leads the next one for all of them, and only then those it
//! has served are woken, each by itself, so that the device is not idle while they wake. There is no thread to start, to feed or
//! to stop, and a lone writer pays for no hand-over.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Hands out syncs.
#[derive(Default)]
pub(super) struct Committer {
    state: Mutex<State>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Writers that came while a sync was running: it may have begun before their write was in the log.
    waiting: Vec<Arc<Waiter>>,
}

struct Waiter {
    thread: Thread,
    call: OnceLock<Call>,
}

/// What a waiter is woken for.
enum Call {
    /// To sync for these and itself.
    Lead(Vec<Arc<Waiter>>),
    /// Its sync has ended; the text is of its failure.
    Served(Option<String>),
}

impl Committer {
    /// Returns when a sync that began after this call has ended well.
    ///
    /// # Errors
    /// What `sync` returned, to every writer that waited for it.
    pub(super) fn synced(&self, sync: impl Fn() -> Result<()>) -> Result<()> {
        match self.join() {
            None => self.lead(&[], sync),
            Some(waiter) => loop {
                match waiter.call.get() {
                    None => std::thread::park(),
                    Some(Call::Lead(others)) => return self.lead(others, sync),
                    Some(Call::Served(None)) => return Ok(()),
                    Some(Call::Served(Some(failure))) => {
                        return Err(Error::storage("cannot sync the log", failure.clone()));
                    }
                }
            },
        }
    }

    /// How many syncs have ended.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Waits in line if a sync is running; `None` if there is none to wait for.
    fn join(&self) -> Option<Arc<Waiter>> {
        let mut state = self.state.lock();
        if !state.running {
            state.running = true;
            return None;
        }
        let waiter = Arc::new(Waiter { thread: std::thread::current(), call: OnceLock::new() });
        state.waiting.push(Arc::clone(&waiter));
        Some(waiter)
    }

    fn lead(&self, others: &[Arc<Waiter>], sync: impl Fn() -> Result<()>) -> Result<()> {
        // Should `sync` unwind, the writers that wait for it must not wait for ever.
        let mut served =
            Served { committer: self, others, failure: Some("the writer that led the sync has failed".to_owned()) };
        let outcome = sync();
        served.failure = outcome.as_ref().err().map(ToString::to_string);
        outcome
    }
}

/// Ends a sync: hands the lead on, then wakes those it has served.
struct Served<'c> {
    committer: &'c Committer,
    others: &'c [Arc<Waiter>],
    failure: Option<String>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.committer.syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.committer.state.lock();
        let mut next = std::mem::take(&mut state.waiting).into_iter();
        let leader = next.next();
        state.running = leader.is_some();
        drop(state);
        if let Some(leader) = leader {
            leader.wake(Call::Lead(next.collect()));
        }
        for waiter in self.others {
            waiter.wake(Call::Served(self.failure.clone()));
        }
    }
}

impl Waiter {
    fn wake(&self, call: Call) {
        // Nobody is called twice: a waiter is in one list only.
        let _ = self.call.set(call);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_writer_is_covered_by_a_sync_that_began_later() {
        let (committer, log, synced) = (Committer::default(), AtomicU64::new(0), AtomicU64::new(0));
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..200 {
                        let mine = log.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            let covered = log.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            synced.fetch_max(covered, Ordering::SeqCst);
                            Ok(())
                        };
                        committer.synced(sync).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
        assert!(committer.syncs() <= 1600);
    }

    #[test]
    fn a_failure_reaches_the_writer_and_the_next_sync_is_its_own() {
        let committer = Committer::default();
        assert!(committer.synced(|| Err(Error::storage("sync", "no space"))).is_err());
        assert!(committer.synced(|| Ok(())).is_ok());
    }

    #[test]
    fn nobody_waits_for_ever_for_a_leader_that_has_panicked() {
        let (committer, waiting) = (Committer::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                committer.synced(|| {
                    waiting.wait();
                    while committer.state.lock().waiting.is_empty() {
                        std::thread::yield_now();
                    }
                    panic!("a panic in the middle of a sync, as this test wants it")
                })
            });
            waiting.wait();
            assert!(committer.synced(|| Ok(())).is_ok(), "the next in line leads");
            assert!(leader.join().is_err());
        });
    }
}
