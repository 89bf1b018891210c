//! Background work: a thread that builds indexes, deletes expired records and the remains of abandoned uploads, and trims streams; another
//! one that syncs the log, where it has grown, at an interval, so that a power cut takes little of what was not waited for, and looks at the
//! free space.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::schema::{Kind, Table};
use crate::streams::Streams;
use crate::transaction::Database;

/// The niceness of threads that yield to others on the same processor (nice(2)).
pub(crate) const NICE: i32 = 10;

/// The interval at which it looks for expired records, and the pause before it retries failed work.
const PAUSE: Duration = Duration::from_secs(1);

/// A thread, which ends at the end of a unit of work when this is dropped.
pub(crate) struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Background {
    /// Starts the thread that does what is left to do in a database.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn work(database: &Database, streams: &Streams) -> std::io::Result<Self> {
        let (database, streams) = (database.clone(), streams.clone());
        Self::start("strata-background", move |stopping| {
            // As in the pool for scans, requests take priority.
            let _ = rustix::process::setpriority_process(None, NICE);
            run(&database, &streams, stopping);
        })
    }

    /// Starts the thread that syncs the log at an interval, if there is one, and looks at the free space.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn sync(database: &Database, interval: Option<Duration>) -> std::io::Result<Self> {
        let database = database.clone();
        Self::start("strata-sync", move |stopping| {
            let mut is_failing = false;
            while matches!(stopping.recv_timeout(interval.unwrap_or(PAUSE)), Err(RecvTimeoutError::Timeout)) {
                let store = database.store();
                store.look_at_room();
                let outcome = if interval.is_none() || store.is_synced() { Ok(()) } else { store.sync() };
                store.note_synced();
                if let Err(error) = &outcome
                    && !is_failing
                {
                    tracing::error!("the log cannot be synced in the background and will be again: {error}");
                }
                is_failing = outcome.is_err();
            }
        })
    }

    fn start(name: &str, run: impl FnOnce(&Receiver<()>) + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopping) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&stopping))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

fn run(database: &Database, streams: &Streams, stopping: &Receiver<()>) {
    let (mut refused, mut looked) = (String::new(), None);
    loop {
        // Both, whatever becomes of one.
        let of_tables = database.work();
        let of_streams = match looked {
            Some(looked) if Instant::elapsed(&looked) < PAUSE => Ok(()),
            _ => {
                looked = Some(Instant::now());
                streams.work(database)
            }
        };
        let outcome = of_tables.and_then(|has_more| of_streams.map(|()| has_more));
        if outcome.is_ok() {
            refused.clear();
        }
        let pause = match outcome {
            Ok(true) => Duration::ZERO,
            Ok(false) if !may_come_again(database) => return,
            Ok(false) | Err(Error::Busy { .. }) => PAUSE,
            Err(error) => {
                // Logged once, however often it is retried.
                let said = error.to_string();
                if said != refused {
                    tracing::error!("background work failed and will be retried: {said}");
                    refused = said;
                }
                PAUSE
            }
        };
        if !matches!(stopping.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            return;
        }
    }
}

/// Returns whether there may be new work later: records that expire, uploads that are abandoned, events and idempotency keys that grow old.
fn may_come_again(database: &Database) -> bool {
    let has_blobs = |table: &Table| table.attributes.iter().any(|attribute| attribute.kind == Kind::Blob);
    let schema = database.schema();
    // The server of a remote store that works now may end.
    database.store().is_remote()
        || !schema.streams.is_empty()
        || schema.tables.iter().any(|table| table.expires() || has_blobs(table))
}
