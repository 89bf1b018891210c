//! A load: lines that are taken off a body as they arrive, and committed in the pool, chunk by chunk.
//!
//! While a chunk is committed nothing more is read, so a client is as fast as the store; a client that is slow takes no thread and no
//! lock, and no more memory than a chunk and a line, which count as those of other bodies do. There is no deadline for the whole. Within
//! that of a body a chunk has to come together, or at least a line: then what has come is committed, however little it is.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use tokio::time::{Instant, sleep, timeout_at};

use super::body::{self, Source};
use super::crossing::{Arriving, BodyBytes, Permit};
use super::{Crossing, Ingress};
use crate::error::Error;
use crate::handlers::{
    Failure, Result,
    load::{Load, Progress},
};
use crate::observability::{Context, Span};
use crate::routing::Lane;
use crate::schema::Table;

/// How long a load pauses that cannot go on.
const PAUSE: Duration = Duration::from_millis(20);

/// Why a chunk ends.
enum End {
    /// It is as long as chunks are, or there is no room for more.
    Full,
    /// Its time is over.
    Time,
    /// The body has ended.
    Body,
}

/// A load under way.
struct Loading {
    crossing: Arc<Crossing>,
    table: String,
    /// Gone while it is in the pool.
    load: Option<Load>,
    progress: Progress,
    /// Whether something was written that is not synced and has to be.
    is_unsynced: bool,
    /// What of the body and of the load is in memory.
    held: BodyBytes,
    /// What was read and had no room.
    pending: Bytes,
    chunk_timeout: Duration,
    commit_timeout: Duration,
}

impl Ingress {
    /// Takes the lines of a body to the end.
    ///
    /// # Errors
    /// 400 if the body breaks off or cannot be decompressed; 408 if no line has come in time; 503 if there is no room for it, or the
    /// store cannot keep up; what the engine returns. What was created before stays.
    pub(super) async fn load<B: Source>(
        &self,
        table: &Table,
        load: Load,
        parts: &Parts,
        mut body: B,
        context: &mut Context,
    ) -> Result<Load> {
        let Some(_arriving) = Arriving::take(&self.crossing) else {
            return self.refuse(Failure::Overloaded, parts, body);
        };
        let mut loading = Loading {
            crossing: Arc::clone(&self.crossing),
            table: table.name.clone(),
            load: Some(load),
            progress: Progress::default(),
            is_unsynced: false,
            held: BodyBytes::none(&self.crossing),
            pending: Bytes::new(),
            chunk_timeout: Duration::from_millis(self.options.body_timeout_ms),
            commit_timeout: Duration::from_millis(self.options.request_timeout_ms),
        };
        let mut outcome = loading.run(&mut body, context).await;
        context.mark(Span::Body);
        if loading.is_unsynced {
            outcome = outcome.and(self.crossing.synced().await);
        }
        match (outcome, loading.load) {
            (Ok(()), Some(load)) => Ok(load),
            (outcome, _) => {
                if !body.is_over() {
                    self.take_in(body);
                }
                let Progress { created, lines, .. } = loading.progress;
                let failure = Box::new(outcome.err().unwrap_or(Failure::Overloaded));
                Err(Failure::Load { created, lines, failure })
            }
        }
    }
}

impl Loading {
    async fn run(&mut self, body: &mut impl Source, context: &mut Context) -> Result<()> {
        loop {
            let (chunk, end) = self.gather(body, context).await?;
            let lines_before = self.progress.lines;
            self.commit(chunk, matches!(end, End::Body)).await?;
            match end {
                End::Body => return Ok(()),
                End::Time if self.progress.lines == lines_before => {
                    return Err(Failure::TooSlow { waited_ms: self.chunk_timeout.as_millis() as u64 });
                }
                End::Full | End::Time => {}
            }
        }
    }

    /// The next chunk of a body.
    async fn gather(&mut self, body: &mut impl Source, context: &mut Context) -> Result<(Bytes, End)> {
        let longest = self.load.as_ref().map_or(0, Load::chunk_bytes);
        let (deadline, mut chunk) = (Instant::now() + self.chunk_timeout, BytesMut::new());
        while chunk.len() < longest {
            let more = match std::mem::take(&mut self.pending) {
                pending if !pending.is_empty() => pending,
                _ => match timeout_at(deadline, body::next(body)).await {
                    Ok(more) => more?,
                    Err(_) => return Ok((chunk.freeze(), End::Time)),
                },
            };
            if more.is_empty() {
                return Ok((chunk.freeze(), End::Body));
            }
            if !self.held.grow(more.len()) {
                if chunk.is_empty() {
                    return Err(Failure::Overloaded);
                }
                self.pending = more;
                break;
            }
            context.add_bytes_in(more.len());
            chunk.extend_from_slice(&more);
        }
        Ok((chunk.freeze(), End::Full))
    }

    /// Commits the lines that a chunk ends, in the pool. What cannot be done now is tried again for as long as an answer may take.
    async fn commit(&mut self, mut chunk: Bytes, is_last: bool) -> Result<()> {
        let mut deadline = Instant::now() + self.commit_timeout;
        loop {
            let Some(permit) = Permit::take(&self.crossing, Lane::Writing) else {
                if Instant::now() >= deadline {
                    return Err(Failure::Overloaded);
                }
                sleep(PAUSE).await;
                continue;
            };
            let (crossing, name) = (Arc::clone(&self.crossing), self.table.clone());
            let mut load = self.load.take().ok_or(Failure::Overloaded)?;
            let job = move || {
                let database = crossing.database().leaving_syncs();
                let outcome = database.table(&name).and_then(|table| {
                    load.take(&database, table, &mut chunk)?;
                    if is_last { load.finish(&database, table) } else { Ok(()) }
                });
                drop(permit);
                (load, chunk, outcome, database.has_left_sync())
            };
            let done = self.crossing.in_pool(Lane::Writing, job).await?;
            let (load, rest, outcome, is_unsynced) = done;
            let has_moved = load.progress().lines > self.progress.lines;
            self.progress = load.progress().clone();
            self.is_unsynced |= is_unsynced;
            self.held = BodyBytes::none(&self.crossing);
            let has_room = self.held.grow(load.kept_bytes() + rest.len());
            (self.load, chunk) = (Some(load), rest);
            match outcome {
                Ok(()) if has_room => return Ok(()),
                Ok(()) => return Err(Failure::Overloaded),
                Err(Error::Busy { .. }) if has_moved || Instant::now() < deadline => sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
            if has_moved {
                deadline = Instant::now() + self.commit_timeout;
            }
        }
    }
}
