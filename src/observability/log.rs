//! The access log: one line of JSON for each request.
//!
//! A line is formatted by the thread that answered, in a reused buffer, and written by a thread of its own ([`Lines`]): a slow disk must
//! not delay responses. The file is opened for appending, so that it may be copied and truncated while the server runs; or it may be moved
//! away and [opened again](Target::reopen).

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;
use tracing_appender::non_blocking::NonBlocking;

use super::lines::Lines;
use super::{Context, Details};
use crate::error::{Error, Result};

/// The maximum number of bytes written at once.
const WRITTEN_BYTES: usize = 64 << 10;

/// Where the lines go.
#[derive(Clone)]
pub(super) struct Target {
    path: PathBuf,
    /// `None` for standard error.
    file: Option<Arc<Mutex<File>>>,
}

impl Target {
    /// Opens a file, or standard error for `-`.
    ///
    /// # Errors
    /// `Storage` if the file cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let is_file = path.as_os_str() != "-";
        let file = is_file.then(|| open_for_appending(path)).transpose()?;
        Ok(Self { path: path.to_owned(), file: file.map(|file| Arc::new(Mutex::new(file))) })
    }

    /// Starts to write to it; at most `lines` lines are queued.
    pub(super) fn lines(&self, lines: usize) -> Lines {
        Lines::start("strata-access-log", lines, WRITTEN_BYTES, self.clone())
    }

    /// Opens the file of this name again, since what was opened may have been moved away; lines that are queued go there.
    ///
    /// # Errors
    /// `Storage` if it cannot be opened; lines then go where they went.
    pub(super) fn reopen(&self) -> Result<()> {
        if let Some(file) = &self.file {
            let opened = open_for_appending(&self.path)?;
            *file.lock() = opened;
        }
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match &self.file {
            Some(file) => file.lock().write(lines),
            None => io::stderr().write(lines),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens or creates a file, without waiting: a FIFO that nobody reads is an error.
fn open_for_appending(path: &Path) -> Result<File> {
    let cannot = |error| Error::storage(format!("cannot open the access log {}", path.display()), error);
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => cannot(io::Error::other("it is a FIFO that nobody reads; start its reader first")),
        _ => cannot(error),
    })?;
    // The thread that writes may wait.
    let blocking = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    blocking.map_err(|error| cannot(error.into()))?;
    Ok(file)
}

/// A line. Times are in UTC, durations in microseconds, bytes are those of bodies.
#[derive(Serialize)]
struct Line<'a> {
    time: Arguments<'a>,
    /// The trace id of the request; a response with 500 has the same.
    id: Arguments<'a>,
    span: Arguments<'a>,
    parent: Option<Arguments<'a>>,
    peer: IpAddr,
    method: &'a str,
    /// As sent, without the query.
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

/// Formats the lines of one recorder.
pub(super) struct Log {
    routes: Arc<[String]>,
    /// The queue, and the line buffer.
    queue: Mutex<(NonBlocking, Vec<u8>)>,
}

impl Log {
    pub(super) fn new(routes: Arc<[String]>, queue: NonBlocking) -> Self {
        Self { routes, queue: Mutex::new((queue, Vec::new())) }
    }

    /// Queues the line of an answered request, if there is room.
    pub(super) fn write(&self, context: &Context, took: Duration, status: StatusCode, bytes_out: u64) {
        let Some(Details { spans, logged: Some(request), .. }) = context.details.as_deref() else {
            return;
        };
        let microseconds = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // In the order of `Span`.
        let [routing_us, body_us, pool_us, handler_us] = spans.map(microseconds);
        let time = jiff::Timestamp::try_from(request.at).unwrap_or_default();
        let parent = request.identity.parent;
        let parent_text = format_args!("{:016x}", parent.unwrap_or_default());
        let (queue, text) = &mut *self.queue.lock();
        text.clear();
        let line = Line {
            time: format_args!("{time:.3}"),
            id: format_args!("{}", request.identity),
            span: format_args!("{:016x}", request.identity.span),
            parent: parent.map(|_| parent_text),
            peer: request.peer,
            method: request.method.as_str(),
            path: &request.path,
            route: &self.routes[context.route.0],
            status: status.as_u16(),
            bytes_in: context.bytes_in,
            bytes_out,
            duration_us: microseconds(took),
            routing_us,
            body_us,
            pool_us,
            handler_us,
        };
        serde_json::to_writer(&mut *text, &line).expect("texts and numbers are JSON");
        text.push(b'\n');
        // It counts the lines that it drops.
        let _ = queue.write_all(text);
    }
}
