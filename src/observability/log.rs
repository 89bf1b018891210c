//! The access log: one line of JSON for each request, written by a thread of its own.
//!
//! Whoever answers a request hands over what it has in its hands and goes on; the line is made here. The queue is bounded, and a
//! line that finds no place is counted and lost: a slow disk must not slow down answers. A file is appended to, so that it may be
//! copied away and cut while the server runs.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;

use super::{Logged, RouteNumber, Span};
use crate::error::{Error, Result};

/// Lines that were lost.
pub(super) type Dropped = AtomicU64;

/// How much is written at once, if so much waits.
const WRITTEN_BYTES: usize = 64 << 10;

/// What a line is made of.
pub(super) struct Entry {
    pub(super) route: RouteNumber,
    pub(super) status: StatusCode,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) took: Duration,
    pub(super) spans: [Duration; 4],
    pub(super) request: Logged,
}

/// A line. Times of day in UTC, durations in microseconds, bytes of bodies.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    /// Of the trace that the request belongs to; also what an answer with 500 names it by.
    id: String,
    span: String,
    parent: Option<String>,
    peer: IpAddr,
    method: &'a str,
    /// As it was sent, without the query.
    path: &'a str,
    route: &'a str,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    duration_us: u64,
    routing_us: u64,
    body_us: u64,
    pool_us: u64,
    handler_us: u64,
}

impl<'a> Line<'a> {
    fn of(entry: &'a Entry, routes: &'a [String]) -> Self {
        let request = &entry.request;
        let time = jiff::Timestamp::try_from(request.at).unwrap_or_default();
        let microseconds = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let span = |span: Span| microseconds(entry.spans[span as usize]);
        Self {
            time: format!("{time:.3}"),
            id: request.identity.to_string(),
            span: format!("{:016x}", request.identity.span),
            parent: request.identity.parent.map(|parent| format!("{parent:016x}")),
            peer: request.peer,
            method: request.method.as_str(),
            path: &request.path,
            route: &routes[entry.route.0],
            status: entry.status.as_u16(),
            bytes_in: entry.bytes_in,
            bytes_out: entry.bytes_out,
            duration_us: microseconds(entry.took),
            routing_us: span(Span::Routing),
            body_us: span(Span::Body),
            pool_us: span(Span::Pool),
            handler_us: span(Span::Handler),
        }
    }
}

/// The queue and the thread at its end.
pub(super) struct Log {
    /// Gone once the log is closed: the thread ends when all senders are.
    queue: Mutex<Option<SyncSender<Entry>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    dropped: Arc<Dropped>,
}

impl Log {
    /// Starts the thread that writes to a file, or to standard error for `-`.
    ///
    /// # Errors
    /// `Storage` if the file cannot be opened, or the machine has no thread to give.
    pub(super) fn start(path: &Path, lines: usize, routes: Arc<[String]>) -> Result<Self> {
        let cannot = |error| Error::storage(format!("cannot open the access log {}", path.display()), error);
        let out: Box<dyn Write + Send> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stderr()),
            false => Box::new(File::options().append(true).create(true).open(path).map_err(cannot)?),
        };
        let (queue, entries) = sync_channel(lines);
        let dropped = Arc::new(Dropped::default());
        let counted = Arc::clone(&dropped);
        let thread = std::thread::Builder::new().name("strata-access-log".to_owned());
        let thread = thread.spawn(move || write_all(&entries, out, &routes, &counted)).map_err(cannot)?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), dropped })
    }

    /// Where entries are put; none once the log was closed.
    pub(super) fn queue(&self) -> Option<SyncSender<Entry>> {
        self.queue.lock().clone()
    }

    pub(super) fn dropped(&self) -> Arc<Dropped> {
        Arc::clone(&self.dropped)
    }

    pub(super) fn dropped_lines(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything is written and all other senders are gone, at most so long.
    pub(super) fn close(&self, longest: Duration) {
        self.queue.lock().take();
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < longest {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// Writes entries as they come, as many at once as wait, until all senders are gone.
fn write_all(entries: &Receiver<Entry>, mut out: impl Write, routes: &[String], dropped: &Dropped) {
    let mut text = Vec::with_capacity(WRITTEN_BYTES);
    while let Ok(first) = entries.recv() {
        let (mut next, mut lines) = (Some(first), 0);
        while let Some(entry) = next.take() {
            serde_json::to_writer(&mut text, &Line::of(&entry, routes)).expect("texts and numbers are JSON");
            text.push(b'\n');
            lines += 1;
            next = if text.len() < WRITTEN_BYTES { entries.try_recv().ok() } else { None };
        }
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            dropped.fetch_add(lines, Ordering::Relaxed);
        }
        text.clear();
    }
}
