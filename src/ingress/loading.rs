//! A bulk load: lines taken from a body as they arrive, and committed in the pool chunk by chunk.
//!
//! Nothing more is read while a chunk is committed, so the client is slowed down to the speed of the store; a slow client occupies no
//! thread and no lock, and no more memory than a chunk and a line, which count as memory of bodies. The load as a whole has no timeout. A
//! chunk, or at least a line, has to arrive within the timeout of a body; what has arrived by then is committed, however little it is.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use tokio::time::{Instant, sleep, timeout_at};

use super::body::{self, Source};

use super::peer::Peer;
use super::permits::{BodyBytes, BodyPermit};
use super::scheduler::Permit;
use super::{Ingress, Scheduler};
use crate::error::Error;
use crate::handlers::{
    Failure, Result,
    load::{Load, Progress},
};
use crate::observability::{Context, Span};
use crate::routing::Pool;
use crate::schema::Table;

/// The pause before a load that cannot continue is retried.
const PAUSE: Duration = Duration::from_millis(20);

/// The reason why a chunk ends.
enum End {
    /// It has the full length, or there is no room for more.
    Full,
    /// The timeout has elapsed.
    Time,
    /// The body has ended.
    Body,
}

/// A load in progress.
struct Loading {
    scheduler: Arc<Scheduler>,
    table: String,
    /// `None` while it is in the pool.
    load: Option<Load>,
    progress: Progress,
    /// Whether there are writes that still have to be synced.
    is_unsynced: bool,
    /// The memory held by the body and the load.
    held: BodyBytes,
    peer: Peer,
    permit: BodyPermit,
    /// Bytes that were read but had no room.
    pending: Bytes,
    chunk_timeout: Duration,
    commit_timeout: Duration,
}

impl Ingress {
    /// Loads the lines of a body up to its end.
    ///
    /// # Errors
    /// 400 if the body is aborted or cannot be decompressed; 408 if no line arrives in time; 503 if there is no room for it, or the store
    /// cannot keep up; errors of the engine. Records created before are kept.
    pub(super) async fn load<B: Source>(
        &self,
        table: &Table,
        load: Load,
        parts: &Parts,
        mut body: B,
        context: &mut Context,
        peer: &Peer,
    ) -> Result<Load> {
        let Some(permit) = BodyPermit::take(peer) else {
            return self.refuse(Failure::Overloaded, parts, body);
        };
        let mut loading = Loading {
            scheduler: Arc::clone(&self.scheduler),
            table: table.name.clone(),
            load: Some(load),
            progress: Progress::default(),
            is_unsynced: false,
            held: permit.bytes(peer),
            peer: peer.clone(),
            permit,
            pending: Bytes::new(),
            chunk_timeout: Duration::from_millis(self.options.body_timeout_ms),
            commit_timeout: Duration::from_millis(self.options.request_timeout_ms),
        };
        let mut outcome = loading.run(&mut body, context).await;
        context.mark(Span::Body);
        if loading.is_unsynced {
            outcome = outcome.and(self.scheduler.synced().await);
        }
        match (outcome, loading.load) {
            (Ok(()), Some(load)) => Ok(load),
            (outcome, _) => {
                if !body.is_over() {
                    self.discard_rest(body);
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

    /// Reads the next chunk of a body.
    async fn gather(&mut self, body: &mut impl Source, context: &mut Context) -> Result<(Bytes, End)> {
        let longest = self.load.as_ref().map_or(0, Load::chunk_bytes);
        let (deadline, mut chunk) = (Instant::now() + self.chunk_timeout, BytesMut::new());
        while chunk.len() < longest {
            let more = match std::mem::take(&mut self.pending) {
                pending if !pending.is_empty() => pending,
                _ => match timeout_at(deadline, self.permit.arriving.unless_given_up(body::next(body))).await {
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
            self.permit.arriving.note(more.len());
            chunk.extend_from_slice(&more);
        }
        Ok((chunk.freeze(), End::Full))
    }

    /// Commits the lines that a chunk completes, in the pool. Retries up to the request timeout.
    async fn commit(&mut self, mut chunk: Bytes, is_last: bool) -> Result<()> {
        let mut deadline = Instant::now() + self.commit_timeout;
        loop {
            let Some(permit) = Permit::take(&self.scheduler, &self.peer, Pool::Writing) else {
                if Instant::now() >= deadline {
                    return Err(Failure::Overloaded);
                }
                sleep(PAUSE).await;
                continue;
            };
            let permit = permit.firm();
            let (scheduler, name) = (Arc::clone(&self.scheduler), self.table.clone());
            let mut load = self.load.take().ok_or(Failure::Overloaded)?;
            let job = move || {
                let database = scheduler.database().deferring_syncs();
                let outcome = database.table(&name).and_then(|table| {
                    load.take(&database, table, &mut chunk)?;
                    if is_last { load.finish(&database, table) } else { Ok(()) }
                });
                drop(permit);
                (load, chunk, outcome, database.has_deferred_sync())
            };
            let done = self.scheduler.in_pool(Pool::Writing, &self.peer, job).await?;
            let (load, rest, outcome, is_unsynced) = done;
            let has_moved = load.progress().lines > self.progress.lines;
            self.progress = load.progress().clone();
            self.is_unsynced |= is_unsynced;
            self.held = self.permit.bytes(&self.peer);
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
