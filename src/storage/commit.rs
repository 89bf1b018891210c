//! Group commit: one sync of the log serves all writers that wait for it.
//!
//! A writer that finds no sync running becomes the leader and syncs for itself and for all whose writes are in the log by
//! then; the others sleep until the next sync that began after their write has ended. There is no thread to start, to feed or
//! to stop, and a lone writer pays for no hand-over.

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Hands out syncs.
#[derive(Default)]
pub(super) struct Committer {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Syncs begun; the one that runs, if one does, is the last of them.
    begun: u64,
    /// Syncs ended.
    ended: u64,
    /// The failure of the latest failed sync. The engine refuses writes after one, so it never heals.
    failure: Option<(u64, String)>,
}

impl Committer {
    /// Returns when a sync that began after this call has ended well.
    ///
    /// # Errors
    /// What `sync` returned, to every writer that waited for it.
    pub(super) fn synced(&self, sync: impl Fn() -> Result<()>) -> Result<()> {
        let mut state = self.state.lock();
        let wanted = state.begun + 1;
        while state.ended < wanted {
            if state.begun == state.ended {
                state.begun += 1;
                let outcome = parking_lot::MutexGuard::unlocked(&mut state, &sync);
                state.ended = state.begun;
                if let Err(error) = &outcome {
                    state.failure = Some((state.ended, error.to_string()));
                }
                self.ended.notify_all();
            } else {
                self.ended.wait(&mut state);
            }
        }
        match &state.failure {
            Some((at, failure)) if *at >= wanted => Err(Error::storage("cannot sync the log", failure.clone())),
            _ => Ok(()),
        }
    }

    /// How many syncs have ended.
    pub(super) fn syncs(&self) -> u64 {
        self.state.lock().ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

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
    fn a_failure_reaches_the_writer() {
        let committer = Committer::default();
        assert!(committer.synced(|| Err(Error::storage("sync", "no space"))).is_err());
        assert!(committer.synced(|| Ok(())).is_ok());
    }
}
