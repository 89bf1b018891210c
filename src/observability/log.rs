//! The access log: one line of JSON for each request.
//!
//! A line is made where the request was answered, in memory that is used again, and written by a thread of its own ([`Lines`]): a slow
//! disk must not slow down answers. A file is appended to, so that it may be copied away and cut while the server runs.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;
use tracing_appender::non_blocking::NonBlocking;

use super::lines::Lines;
use super::{Context, Details};
use crate::error::{Error, Result};

/// How much is written at once, if so much waits.
const WRITTEN_BYTES: usize = 64 << 10;

/// Opens a file, or standard error for `-`; at most so many lines wait to be written.
///
/// # Errors
/// `Storage` if the file cannot be opened.
pub(super) fn open(path: &Path, lines: usize) -> Result<Lines> {
    let cannot = |error| Error::storage(format!("cannot open the access log {}", path.display()), error);
    let out: Box<dyn Write + Send> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stderr()),
        false => Box::new(File::options().append(true).create(true).open(path).map_err(cannot)?),
    };
    Ok(Lines::start("strata-access-log", lines, WRITTEN_BYTES, out))
}

/// A line. Times of day in UTC, durations in microseconds, bytes of bodies.
#[derive(Serialize)]
struct Line<'a> {
    time: Arguments<'a>,
    /// Of the trace that the request belongs to; also what an answer with 500 names it by.
    id: Arguments<'a>,
    span: Arguments<'a>,
    parent: Option<Arguments<'a>>,
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

/// Makes the lines of one recorder.
pub(super) struct Log {
    routes: Arc<[String]>,
    /// The queue, and the line that is being made.
    queue: Mutex<(NonBlocking, Vec<u8>)>,
}

impl Log {
    pub(super) fn new(routes: Arc<[String]>, queue: NonBlocking) -> Self {
        Self { routes, queue: Mutex::new((queue, Vec::new())) }
    }

    /// Puts the line of a request that was answered into the queue, if it has place.
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
        // It counts what it loses.
        let _ = queue.write_all(text);
    }
}
