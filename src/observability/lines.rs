//! Lines that a thread of their own writes: nobody else waits for a disk, or for whoever reads standard error.
//!
//! Queue and thread are those of `tracing-appender`. It counts the lines that find no place in the queue; those that cannot be written
//! are counted here, because its thread passes over such errors. Its guard waits for the thread a second at most, so the end is told by
//! the writer: it is the last thing that the thread drops.

use std::convert::Infallible;
use std::io::{BufWriter, Result, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// A bounded queue of lines, and the thread at its end.
pub(super) struct Lines {
    /// Gone once it is closed.
    open: Mutex<Option<(NonBlocking, WorkerGuard)>>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<Infallible>>,
    /// Counts lines that found no place.
    dropped: ErrorCounter,
    /// Counts lines that could not be written.
    failed: Arc<AtomicU64>,
}

impl Lines {
    /// Starts the thread. At most so many lines wait for it; it writes those that do together, up to `at_once_bytes`.
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

    /// Where lines are put; none once it was closed.
    pub(super) fn queue(&self) -> Option<NonBlocking> {
        self.open.lock().as_ref().map(|(queue, _)| queue.clone())
    }

    /// Lines that found no place or could not be written.
    pub(super) fn lost(&self) -> u64 {
        self.dropped.dropped_lines() as u64 + self.failed.load(Ordering::Relaxed)
    }

    /// Waits until all lines in the queue are written, at most so long. Lines that come later are lost.
    pub(super) fn close(&self, longest: Duration) {
        if let Some((_, guard)) = self.open.lock().take() {
            // Elsewhere, because the guard waits as long as it likes. If there is no thread for it, it is dropped here.
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
