//! Group commit: one write and one sync of the log serve all writers that wait for them.
//!
//! A writer that finds no commit running becomes the leader: it writes its batch and syncs. Writers that arrive meanwhile enqueue their
//! batches and wait. When the commit has ended, the first of them leads the next one: all their batches in one write, then one sync, so
//! that a writer waits once, not in the engine's write queue and then for the sync. The lead is handed on before the writers that were
//! served are called, each separately, so that the device is not idle while they wake. No thread has to be started, fed or stopped, and a
//! lone writer pays for no hand-over.
//!
//! A writer is notified by a callback, which wakes its thread or its task. A task has already written its batch, waits only for the sync,
//! and leads on whatever thread it is given; so there are no more threads than commits, however many tasks wait.
//!
//! The write itself is not synced: the engine would let no other writer in until the device has answered, and soft writes would wait for
//! strong ones.
//!
//! The writers of one commit fail together, each with the same error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;
use rust_rocksdb::WriteBatch;

use crate::error::{Error, Result};

/// The operations of a commit; called by one leader at a time.
pub(super) trait Log {
    fn append(&self, batch: &WriteBatch) -> Result<()>;

    /// Returns when everything appended before the call survives a machine crash.
    fn sync_log(&self) -> Result<()>;
}

/// Writes and syncs for all waiting writers.
#[derive(Default)]
pub(super) struct Committer {
    state: Mutex<State>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Writers that arrived while a commit was running.
    next: Group,
}

/// The writers that one commit serves, and their batches.
#[derive(Default)]
struct Group {
    writers: Vec<Writer>,
    writes: Merged,
}

struct Writer {
    /// Whether it has enqueued a batch; otherwise it waits only for the sync.
    has_batch: bool,
    call: Callback,
}

type Callback = Box<dyn FnOnce(Notification) + Send>;

/// What a waiter of a commit is called for, once.
pub enum Notification {
    /// To lead the commit, on a thread that may block.
    Lead(Lead),
    /// The commit has ended.
    Served(Result<()>),
}

/// The lead of a commit. Dropping it ends the commit, which has failed if it was not carried out: the lead is handed on, then the writers
/// that were served are called.
pub struct Lead {
    committer: Arc<Committer>,
    /// Whether the leader has a batch.
    has_batch: bool,
    /// The other writers, and all batches except that of a leader without a group.
    group: Group,
    written: Outcome,
    synced: Outcome,
}

/// The outcome for all writers concerned.
type Outcome = std::result::Result<(), Arc<Error>>;

impl Committer {
    /// Returns when `batch` was written and a sync that began after that has succeeded. The sync covers everything written by others before
    /// the call, so a call without a batch is a sync.
    ///
    /// # Errors
    /// What `log` returned, to every writer concerned.
    pub(super) fn commit(self: &Arc<Self>, batch: Option<&WriteBatch>, log: &impl Log) -> Result<()> {
        let waiter = Arc::new(ThreadWaiter { thread: std::thread::current(), call: Mutex::default() });
        let waiting = Arc::clone(&waiter);
        match self.join(batch, Box::new(move |call| waiting.wake(call))) {
            Some((lead, _)) => lead.commit(batch, log),
            None => match waiter.wait() {
                Notification::Lead(lead) => lead.commit(None, log),
                Notification::Served(outcome) => outcome,
            },
        }
    }

    /// Calls back when a sync that began after this call has ended, or with the lead of the commit that syncs: immediately, if no other
    /// commit is running.
    pub(super) fn when_synced(self: &Arc<Self>, callback: impl FnOnce(Notification) + Send + 'static) {
        if let Some((lead, callback)) = self.join(None, Box::new(callback)) {
            callback(Notification::Lead(lead));
        }
    }

    /// Returns the number of successful syncs.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Returns the number of waiters for the next commit.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().next.writers.len()
    }

    /// Enqueues the batch and waits in line if a commit is running; otherwise returns the lead and the unused callback.
    fn join(self: &Arc<Self>, batch: Option<&WriteBatch>, call: Callback) -> Option<(Lead, Callback)> {
        let has_batch = batch.is_some();
        let mut state = self.state.lock();
        if !state.running {
            state.running = true;
            return Some((self.lead(has_batch, Group::default()), call));
        }
        state.next.writers.push(Writer { has_batch, call });
        if let Some(batch) = batch {
            state.next.writes.add(batch);
        }
        None
    }

    fn lead(self: &Arc<Self>, has_batch: bool, group: Group) -> Lead {
        // If the leader unwinds or never begins, its waiters must not wait for ever.
        let unfinished = || Err(Arc::new(Error::storage("cannot commit", "the writer that led the commit has failed")));
        Lead { committer: Arc::clone(self), has_batch, group, written: unfinished(), synced: unfinished() }
    }
}

impl Lead {
    /// Writes all enqueued batches, or `alone`, the batch of a leader without a group; then syncs, even if the write failed, for the
    /// waiters that need only the sync.
    ///
    /// # Errors
    /// What `log` returned, as far as it concerns the leader.
    pub(super) fn commit(mut self, alone: Option<&WriteBatch>, log: &impl Log) -> Result<()> {
        let merged = self.group.writes.batch();
        self.written = alone.or(merged.as_ref()).map_or(Ok(()), |batch| log.append(batch).map_err(Arc::new));
        self.synced = log.sync_log().map_err(Arc::new);
        self.outcome(self.has_batch)
    }

    /// Returns the outcome for a writer.
    fn outcome(&self, has_batch: bool) -> Result<()> {
        match (&self.written, &self.synced) {
            (Err(failure), _) if has_batch => Err(copy_error(failure)),
            (_, Err(failure)) => Err(copy_error(failure)),
            _ => Ok(()),
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.committer.syncs.fetch_add(u64::from(self.synced.is_ok()), Ordering::Relaxed);
        let mut state = self.committer.state.lock();
        let mut next = std::mem::take(&mut state.next);
        state.running = !next.writers.is_empty();
        drop(state);
        if !next.writers.is_empty() {
            let Writer { has_batch, call } = next.writers.remove(0);
            call(Notification::Lead(self.committer.lead(has_batch, next)));
        }
        for Writer { has_batch, call } in std::mem::take(&mut self.group.writers) {
            call(Notification::Served(self.outcome(has_batch)));
        }
    }
}

/// Where a thread waits for its call.
struct ThreadWaiter {
    thread: Thread,
    call: Mutex<Option<Notification>>,
}

impl ThreadWaiter {
    fn wait(&self) -> Notification {
        loop {
            let call = self.call.lock().take();
            match call {
                Some(call) => return call,
                None => std::thread::park(),
            }
        }
    }

    fn wake(&self, call: Notification) {
        *self.call.lock() = Some(call);
        self.thread.unpark();
    }
}

/// Copies the failure of a commit for one of its writers, keeping its kind, so that each can react to it.
fn copy_error(failure: &Error) -> Error {
    match failure {
        Error::Busy { detail } => Error::Busy { detail: detail.clone() },
        Error::Corrupt { detail } => Error::corrupt(detail.clone()),
        Error::Storage { detail, source } => Error::storage(detail.clone(), source.to_string()),
        other => Error::storage("cannot commit", other.to_string()),
    }
}

/// Batches concatenated into one, in the engine's format: a sequence number (u64, set by the engine), the number of operations (u32,
/// little-endian), the operations.
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
    use std::sync::{Barrier, mpsc};

    /// A log that does what the test says.
    struct Fake<W, S>(W, S);

    impl<W: Fn(&WriteBatch) -> Result<()>, S: Fn() -> Result<()>> Log for Fake<W, S> {
        fn append(&self, batch: &WriteBatch) -> Result<()> {
            self.0(batch)
        }

        fn sync_log(&self) -> Result<()> {
            self.1()
        }
    }

    /// A log that is only synced.
    fn syncing<S: Fn() -> Result<()>>(sync: S) -> Fake<fn(&WriteBatch) -> Result<()>, S> {
        Fake(|_| Ok(()), sync)
    }

    fn batch(keys: u8) -> WriteBatch {
        let mut batch = WriteBatch::default();
        (0..keys).for_each(|key| batch.put([key], b"value"));
        batch
    }

    fn busy() -> Error {
        Error::Busy { detail: "stalled".to_owned() }
    }

    #[test]
    fn every_writer_is_covered_by_a_sync_that_began_later() {
        let (committer, log, synced) = (Arc::<Committer>::default(), AtomicU64::new(0), AtomicU64::new(0));
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
                        committer.commit(None, &syncing(sync)).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
    }

    /// Leads a commit that ends with `end` once `others` writers wait for the next one.
    fn meanwhile(committer: &Arc<Committer>, others: usize, end: impl Fn() -> Result<()>) -> Result<()> {
        let sync = || {
            while committer.waiting() < others {
                std::thread::yield_now();
            }
            end()
        };
        committer.commit(None, &syncing(sync))
    }

    fn until_led(committer: &Committer) {
        while !committer.state.lock().running {
            std::thread::yield_now();
        }
    }

    #[test]
    fn those_that_wait_are_written_together() {
        let (committer, written) = (Arc::<Committer>::default(), Mutex::new(Vec::new()));
        let write = |batch: &WriteBatch| {
            written.lock().push((batch.len(), batch.data().len()));
            Ok(())
        };
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| meanwhile(&committer, 3, || Ok(())));
            until_led(&committer);
            let waiting = [Some(batch(1)), None, Some(batch(2))].map(|batch| {
                let (committer, write) = (&committer, &write);
                scope.spawn(move || committer.commit(batch.as_ref(), &Fake(write, || Ok(()))))
            });
            waiting.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
            leader.join().unwrap().unwrap();
        });
        let one = batch(1).data().len() - 12;
        assert_eq!(*written.lock(), [(3, 12 + 3 * one)]);
        assert_eq!(committer.syncs(), 2);
    }

    #[test]
    fn a_failure_reaches_each_writer_whom_it_concerns_in_its_kind() {
        let committer = Arc::<Committer>::default();
        assert!(committer.commit(None, &syncing(|| Err(Error::storage("sync", "no space")))).is_err());
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| meanwhile(&committer, 3, || Ok(())));
            until_led(&committer);
            let [first, second, sync] = [Some(batch(1)), Some(batch(1)), None].map(|batch| {
                let committer = &committer;
                scope.spawn(move || committer.commit(batch.as_ref(), &Fake(|_: &WriteBatch| Err(busy()), || Ok(()))))
            });
            for writer in [first, second] {
                assert!(matches!(writer.join().unwrap(), Err(Error::Busy { .. })));
            }
            assert!(sync.join().unwrap().is_ok(), "what it waits for is in the log");
            leader.join().unwrap().unwrap();
        });
        assert!(committer.commit(None, &syncing(|| Ok(()))).is_ok(), "the next commit is its own");
    }

    #[test]
    fn nobody_waits_for_ever_for_a_leader_that_has_panicked() {
        let (committer, leading) = (Arc::<Committer>::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                let sync = || {
                    leading.wait();
                    while committer.waiting() == 0 {
                        std::thread::yield_now();
                    }
                    panic!("a panic in the middle of a sync, as this test wants it")
                };
                committer.commit(None, &syncing(sync))
            });
            leading.wait();
            assert!(committer.commit(None, &syncing(|| Ok(()))).is_ok(), "the next in line leads");
            assert!(leader.join().is_err());
        });
    }

    #[test]
    fn callbacks_are_served_by_threads_and_lead_for_them() {
        let committer = Arc::<Committer>::default();
        let (calls, called) = mpsc::channel();
        let wait = |number: u8| {
            let calls = calls.clone();
            committer.when_synced(move |call| calls.send((number, call)).unwrap());
        };
        wait(0);
        let Ok((0, Notification::Lead(lead))) = called.try_recv() else { panic!("no commit was running") };
        wait(1);
        wait(2);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| committer.commit(Some(&batch(1)), &syncing(|| panic!("it does not lead"))));
            while committer.waiting() < 3 {
                std::thread::yield_now();
            }
            assert!(called.try_recv().is_err(), "nothing was synced yet");
            lead.commit(None, &syncing(|| Ok(()))).unwrap();
            let Ok((1, Notification::Lead(lead))) = called.try_recv() else {
                panic!("the first of those who wait leads")
            };
            assert!(lead.commit(None, &Fake(|_: &WriteBatch| Err(busy()), || Ok(()))).is_ok(), "it has no batch");
            assert!(matches!(called.try_recv(), Ok((2, Notification::Served(Ok(()))))), "nor has this one");
            assert!(matches!(writer.join().unwrap(), Err(Error::Busy { .. })));
        });
        assert!(called.try_recv().is_err() && committer.syncs() == 2, "each was called once");
    }

    #[test]
    fn a_lead_that_is_dropped_fails_those_it_was_for_and_no_others() {
        let committer = Arc::<Committer>::default();
        let (calls, called) = mpsc::channel();
        let next = Arc::clone(&committer);
        committer.when_synced(move |call| {
            next.when_synced(move |call| calls.send(matches!(call, Notification::Lead(_))).unwrap());
            drop(call);
        });
        assert!(called.recv().unwrap(), "it may lead itself");
        assert!(committer.commit(None, &syncing(|| Ok(()))).is_ok());
    }
}
