//! Group commit: one write and one sync of the log serve all writers that wait for them.
//!
//! A writer that finds no commit running leads: it writes its batch and syncs. Those that come meanwhile leave their batches
//! and wait; when the commit has ended, the first of them leads the next one: all their batches in one write, then one sync, so
//! that a writer waits once, not for the engine's queue of writers and then for the sync. Only after the lead is handed on are
//! those woken that were served, each by itself, so that the device is not idle while they wake. There is no thread to start, to
//! feed or to stop, and a lone writer pays for no hand-over.
//!
//! The write is not a synced one: the engine would let no other writer in until the device has answered, and a soft write would
//! wait for the strong ones.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;
use rust_rocksdb::WriteBatch;

use crate::error::{Error, Result};

/// Writes and syncs for all who wait.
#[derive(Default)]
pub(super) struct Committer {
    state: Mutex<State>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Those that came while a commit was running.
    next: Group,
}

/// Writers that one commit serves, and what they write.
#[derive(Default)]
struct Group {
    writers: Vec<Arc<Waiter>>,
    writes: Merged,
}

struct Waiter {
    thread: Thread,
    call: OnceLock<Call>,
}

/// What a waiter is woken for.
enum Call {
    /// To write and to sync for these, of whom it is not one any more, and for itself.
    Lead(Group),
    /// Its commit has ended.
    Served(Option<Arc<Error>>),
}

impl Committer {
    /// Returns when `batch` was written and a sync that began after that has ended well. What was written by others before the
    /// call is synced as well, so a call without a batch is a sync.
    ///
    /// `write` writes a batch, if there is one, and syncs the log; it is called by one thread at a time.
    ///
    /// # Errors
    /// What `write` returned, to every writer that waited for it.
    pub(super) fn commit(
        &self,
        batch: Option<&WriteBatch>,
        write: impl FnOnce(Option<&WriteBatch>) -> Result<()>,
    ) -> Result<()> {
        let Some(waiter) = self.join(batch) else {
            return self.lead(&[], || write(batch));
        };
        loop {
            match waiter.call.get() {
                None => std::thread::park(),
                Some(Call::Lead(group)) => {
                    return self.lead(&group.writers, || write(group.writes.batch().as_ref()));
                }
                Some(Call::Served(None)) => return Ok(()),
                Some(Call::Served(Some(failure))) => return Err(retold(failure)),
            }
        }
    }

    /// How many syncs have ended well.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// How many wait for the next commit.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().next.writers.len()
    }

    /// Leaves the batch and waits in line if a commit is running; `None` if there is none to wait for.
    fn join(&self, batch: Option<&WriteBatch>) -> Option<Arc<Waiter>> {
        let mut state = self.state.lock();
        if !state.running {
            state.running = true;
            return None;
        }
        let waiter = Arc::new(Waiter { thread: std::thread::current(), call: OnceLock::new() });
        state.next.writers.push(Arc::clone(&waiter));
        if let Some(batch) = batch {
            state.next.writes.add(batch);
        }
        Some(waiter)
    }

    fn lead(&self, others: &[Arc<Waiter>], write: impl FnOnce() -> Result<()>) -> Result<()> {
        // Should `write` unwind, the writers that wait for it must not wait for ever.
        let unwound = Error::storage("cannot commit", "the writer that led the commit has failed");
        let mut served = Served { committer: self, others, failure: Some(Arc::new(unwound)) };
        let outcome = write().map_err(Arc::new);
        served.failure = outcome.as_ref().err().map(Arc::clone);
        outcome.map_err(|failure| retold(&failure))
    }
}

/// Ends a commit: hands the lead on, then wakes those it has served.
struct Served<'c> {
    committer: &'c Committer,
    others: &'c [Arc<Waiter>],
    failure: Option<Arc<Error>>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.committer.syncs.fetch_add(u64::from(self.failure.is_none()), Ordering::Relaxed);
        let mut state = self.committer.state.lock();
        let mut next = std::mem::take(&mut state.next);
        state.running = !next.writers.is_empty();
        drop(state);
        if !next.writers.is_empty() {
            let leader = next.writers.remove(0);
            leader.wake(Call::Lead(next));
        }
        for waiter in self.others {
            waiter.wake(Call::Served(self.failure.clone()));
        }
    }
}

impl Waiter {
    fn wake(&self, call: Call) {
        // Nobody is called twice: a waiter is in one group only.
        let _ = self.call.set(call);
        self.thread.unpark();
    }
}

/// The failure of a commit, for one of those it was to serve: of the same kind, so that each does what is to be done about it.
fn retold(failure: &Error) -> Error {
    match failure {
        Error::Busy { detail } => Error::Busy { detail: detail.clone() },
        Error::Corrupt { detail } => Error::corrupt(detail.clone()),
        Error::Storage { detail, source } => Error::storage(detail.clone(), source.to_string()),
        other => Error::storage("cannot commit", other.to_string()),
    }
}

/// Batches put one after the other into one, in the engine's own form: a number of the engine's (u64), how many operations there
/// are (u32, little-endian), the operations.
#[derive(Default)]
struct Merged(Vec<u8>);

impl Merged {
    const COUNT: std::ops::Range<usize> = 8..12;

    fn add(&mut self, batch: &WriteBatch) {
        let data = batch.data();
        if self.0.is_empty() {
            return self.0.extend_from_slice(data);
        }
        let count = Self::count(&self.0) + Self::count(data);
        self.0[Self::COUNT].copy_from_slice(&count.to_le_bytes());
        self.0.extend_from_slice(&data[Self::COUNT.end..]);
    }

    fn batch(&self) -> Option<WriteBatch> {
        (!self.0.is_empty()).then(|| WriteBatch::from_data(&self.0))
    }

    fn count(data: &[u8]) -> u32 {
        u32::from_le_bytes(data[Self::COUNT].try_into().expect("the range has four bytes"))
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
                        let sync = |_: Option<&WriteBatch>| {
                            let covered = log.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            synced.fetch_max(covered, Ordering::SeqCst);
                            Ok(())
                        };
                        committer.commit(None, sync).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
    }

    /// Leads a commit that ends with `end` once `others` writers wait for the next one.
    fn meanwhile(committer: &Committer, others: usize, end: impl FnOnce() -> Result<()>) -> Result<()> {
        committer.commit(None, |_| {
            while committer.waiting() < others {
                std::thread::yield_now();
            }
            end()
        })
    }

    #[test]
    fn those_that_wait_are_written_together() {
        let (committer, written) = (Committer::default(), Mutex::new(Vec::new()));
        let write = |batch: Option<&WriteBatch>| {
            written.lock().push(batch.map(|batch| (batch.len(), batch.data().len())));
            Ok(())
        };
        let batch = |keys: u8| {
            let mut batch = WriteBatch::default();
            (0..keys).for_each(|key| batch.put([key], b"value"));
            batch
        };
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| meanwhile(&committer, 3, || Ok(())));
            while !committer.state.lock().running {
                std::thread::yield_now();
            }
            let waiting = [Some(batch(1)), None, Some(batch(2))].map(|batch| {
                let (committer, write) = (&committer, &write);
                scope.spawn(move || committer.commit(batch.as_ref(), write))
            });
            waiting.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
            leader.join().unwrap().unwrap();
        });
        let one = batch(1).data().len() - 12;
        assert_eq!(*written.lock(), [Some((3, 12 + 3 * one))]);
        assert_eq!(committer.syncs(), 2);
    }

    #[test]
    fn a_failure_reaches_each_writer_in_its_kind_and_the_next_commit_is_its_own() {
        let committer = Committer::default();
        assert!(committer.commit(None, |_| Err(Error::storage("sync", "no space"))).is_err());
        let busy = |_: Option<&WriteBatch>| Err(Error::Busy { detail: "stalled".to_owned() });
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| meanwhile(&committer, 2, || Ok(())));
            while !committer.state.lock().running {
                std::thread::yield_now();
            }
            let waiting = [(); 2].map(|()| scope.spawn(|| committer.commit(None, busy)));
            for writer in waiting {
                assert!(matches!(writer.join().unwrap(), Err(Error::Busy { .. })));
            }
            leader.join().unwrap().unwrap();
        });
        assert!(committer.commit(None, |_| Ok(())).is_ok());
    }

    #[test]
    fn nobody_waits_for_ever_for_a_leader_that_has_panicked() {
        let (committer, leading) = (Committer::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                committer.commit(None, |_| {
                    leading.wait();
                    while committer.waiting() == 0 {
                        std::thread::yield_now();
                    }
                    panic!("a panic in the middle of a sync, as this test wants it")
                })
            });
            leading.wait();
            assert!(committer.commit(None, |_| Ok(())).is_ok(), "the next in line leads");
            assert!(leader.join().is_err());
        });
    }
}
