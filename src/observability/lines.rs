//! A line writer on a thread of its own, so that nobody else waits for a disk, or for the reader of standard error.
//!
//! Queue and thread are those of `tracing-appender`. It counts the lines dropped because the queue is full; write errors, which its thread
//! ignores, are counted here. Its guard waits at most a second for the thread, so the end is detected by the drop of the writer, which is
//! the last thing the thread drops.

use std::convert::Infallible;
use std::io::{BufWriter, Result, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// A bounded queue of lines, and the thread that writes them.
pub(super) struct Lines {
    /// `None` once it is closed.
    open: Mutex<Option<(NonBlocking, WorkerGuard)>>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<Infallible>>,
    /// Counts lines dropped because the queue was full.
    dropped: ErrorCounter,
    /// Counts lines that could not be written.
    failed: Arc<AtomicU64>,
}

impl Lines {
    /// Starts the thread. At most `lines` lines are queued for it; it writes queued lines together, up to `at_once_bytes`.
    ///
    /// # Panics
    /// If no thread can be started.
    pub(super) fn start(thread: &str, lines: usize, at_once_bytes: usize, out: impl Write + Send + 'static) -> Self {
        let (end, ended) = channel();
        let failed = Arc::<AtomicU64>::default();
        let out = Counting { out, failed: Arc::clone(&failed), _end: end };
        let builder = NonBlockingBuilder::default().thread_name(thread).buffered_lines_limit(lines);
        let (queue, guard) = builder.lossy(true).finish(BufWriter::with_capacity(at_once_bytes, out));
        Self {
            dropped: queue.error_counter(),
            open: Mutex::new(Some((queue, guard))),
            ended: Mutex::new(ended),
            failed,
        }
    }

    /// Returns the queue; `None` once it is closed.
    pub(super) fn queue(&self) -> Option<NonBlocking> {
        self.open.lock().as_ref().map(|(queue, _)| queue.clone())
    }

    /// Returns the number of lines that were dropped or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.dropped.dropped_lines() as u64 + self.failed.load(Ordering::Relaxed)
    }

    /// Waits until all queued lines are written, at most `longest`. Later lines are lost.
    pub(super) fn close(&self, longest: Duration) {
        if let Some((_, guard)) = self.open.lock().take() {
            // On another thread, because the guard may block for long. If none can be started, it is dropped here.
            let _ = std::thread::Builder::new().spawn(move || drop(guard));
        }
        let _ = self.ended.lock().recv_timeout(longest);
    }
}

/// Writes whole lines, and counts those that cannot be written.
struct Counting<W> {
    out: W,
    failed: Arc<AtomicU64>,
    _end: Sender<Infallible>,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, lines: &[u8]) -> Result<usize> {
        if self.out.write_all(lines).is_err() {
            self.failed.fetch_add(memchr::memchr_iter(b'\n', lines).count() as u64, Ordering::Relaxed);
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
