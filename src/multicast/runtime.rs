//! The runtime of the clients of brokers: one thread, so that nothing below `ingress` is async. Those who call it block.

use std::future::Future;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread that drives the futures of clients. Dropped, it drops what is left of them, and ends.
pub(super) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the thread.
    pub(super) fn start(name: &str) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Has the thread drive a future, and does not wait for it.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(future));
    }

    /// Has the thread drive a future, and waits for what it returns; `None` if that takes longer than the timeout, or the thread ends.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        timeout: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (give, given) = mpsc::sync_channel(1);
        self.spawn(async move {
            if let Ok(value) = tokio::time::timeout(timeout, future).await {
                let _ = give.send(value);
            }
        });
        given.recv().ok()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
