//! The thread that does what no request waits for: building indexes, deleting records that have expired and what
//! abandoned uploads have left.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::NICE;
use crate::error::Error;
use crate::schema::{Kind, Table};
use crate::transaction::Database;

/// How often it looks whether records have expired, and how long it leaves alone what it could not do.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread; it stops at the end of a piece of work.
pub(super) struct Background {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    pub(super) fn start(database: &Database) -> std::io::Result<Self> {
        let ((stop, stopping), database) = (channel(), database.clone());
        let thread = std::thread::Builder::new().name("strata-background".to_owned());
        let thread = thread.spawn(move || {
            // As in the pool of scans: whoever answers requests goes first.
            let _ = rustix::process::setpriority_process(None, NICE);
            run(&database, &stopping);
        })?;
        Ok(Self { stop, thread })
    }

    pub(super) fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run(database: &Database, stopping: &Receiver<()>) {
    let mut refused = String::new();
    loop {
        let outcome = database.work();
        if outcome.is_ok() {
            refused.clear();
        }
        let pause = match outcome {
            Ok(true) => Duration::ZERO,
            Ok(false) if !may_come_again(database) => return,
            Ok(false) | Err(Error::Busy { .. }) => PAUSE,
            Err(error) => {
                // Logged once, however often it is tried again in vain.
                let said = error.to_string();
                if said != refused {
                    tracing::error!("background work is delayed: {said}");
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

/// Whether there may be work after all that there was is done: records that expire, uploads that are abandoned.
fn may_come_again(database: &Database) -> bool {
    let has_blobs = |table: &Table| table.attributes.iter().any(|attribute| attribute.kind == Kind::Blob);
    database.schema().tables.iter().any(|table| table.expires() || has_blobs(table))
}
