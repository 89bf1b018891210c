//! The thread that reads from the sockets of a database, and how others wait for an answer.
//!
//! The client of TiKV runs on it, and does so also while nobody waits for an answer.

use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// A runtime with a thread of its own, which ends with it.
pub(super) struct Runtime {
    handle: Handle,
    /// Ends the thread.
    stop: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Runtime {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Storage` if it cannot be started.
    pub fn start(name: &str) -> Result<Self> {
        let cannot = |error| Error::storage("cannot start a thread for the database", error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        });
        Ok(Self { handle, stop: Mutex::new(Some((stop, thread.map_err(cannot)?))) })
    }

    /// Waits for an answer.
    pub fn wait_for<R>(&self, answer: impl Future<Output = R>) -> R {
        self.handle.block_on(answer)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.stop.get_mut().take() {
            drop(stop);
            // The last one to use it may be a task of the runtime.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
