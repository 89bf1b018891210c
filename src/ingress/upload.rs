//! A request body stored as a blob: written in the pool piece by piece, the next read once the last is written.
//!
//! A client that sends faster than the disk writes is thus slowed down by backpressure, and an upload costs one piece of memory, which
//! counts as memory of bodies, and no thread while it waits for its client. If the engine is stalled, the write is retried after a pause.
//! Only a few uploads write at a time, in a pool of their own: more would only wait for each other in the engine.
//!
//! The record, the precondition and the media type are checked before the body is read (`blobs::Upload::begin`), and one piece is reserved
//! from the memory of bodies.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::body::{self, Source};

use super::panics::caught;
use super::peer::Peer;
use super::permits::{Arriving, BodyPermit};
use super::scheduler::Scheduler;
use super::{Ingress, Options};
use crate::blobs::{CHUNK_BYTES, PIECE_BYTES, Upload};
use crate::error::Error;
use crate::handlers::blobs::{begin, finish};
use crate::handlers::{Failure, Response, Result};
use crate::observability::{Context, Span};
use crate::routing::{Blob, Pool};
use crate::transaction::Database;

/// The pause before a write to a stalled engine is retried.
const PAUSE: Duration = Duration::from_millis(10);

impl Ingress {
    /// Receives a body as the bytes of a blob.
    ///
    /// # Errors
    /// As [`begin`] and [`finish`]; 408, 413 and 503 by the limits.
    pub(super) async fn receive<B: Source>(
        &self,
        blob: &Blob<'_>,
        parts: &Parts,
        mut body: B,
        context: &mut Context,
        peer: &Peer,
    ) -> Result<Response> {
        let Some(permit) = BodyPermit::take(peer) else {
            return self.refuse(Failure::Overloaded, parts, body);
        };
        let limit_bytes = self.options.blob_bytes;
        if body.least_bytes() > limit_bytes as u64 {
            return self.refuse(Failure::TooLarge { limit_bytes }, parts, body);
        }
        let mut held = permit.bytes(peer);
        // If the limits are smaller than a piece, one upload at a time.
        if !held.grow(PIECE_BYTES.min(self.options.all_bodies_bytes.max(self.options.body_bytes))) {
            return self.refuse(Failure::Overloaded, parts, body);
        }
        let uploading = match Uploading::begin(&self.scheduler, blob, parts, peer).await {
            Ok(uploading) => uploading,
            Err(failure) => return self.refuse(failure, parts, body),
        };
        let received = uploading.fill(&mut body, &self.options, context, &permit.arriving).await;
        context.mark(Span::Body);
        drop(permit);
        if let Err(Failure::TooLarge { .. }) = received {
            self.discard_rest(body);
        }
        let uploading = received?;
        let waited_ms = self.options.request_timeout_ms;
        let finished = timeout(Duration::from_millis(waited_ms), uploading.finish()).await;
        context.mark(Span::Pool);
        finished.unwrap_or(Err(Failure::TimedOut { waited_ms }))
    }
}

/// An upload whose writes run in the pool. If it is dropped before its end, what it has written is removed in the pool, even if nobody
/// waits any more for a job that owns it.
struct Uploading {
    scheduler: Arc<Scheduler>,
    peer: Peer,
    /// Taken on drop.
    upload: Option<Upload>,
}

impl Uploading {
    async fn begin(scheduler: &Arc<Scheduler>, blob: &Blob<'_>, parts: &Parts, peer: &Peer) -> Result<Self> {
        let Blob { table, id, attribute, .. } = blob;
        let upload = match caught(|| begin(&scheduler.never_blocking, table, id, *attribute, &parts.headers)) {
            Err(Failure::Error(Error::WouldBlock)) => {
                let (table, id, headers) = (table.name.clone(), id.to_string(), parts.headers.clone());
                let attribute = *attribute;
                let job = move |database: &Database| begin(database, database.table(&table)?, &id, attribute, &headers);
                scheduler.read_in_pool(peer, job).await
            }
            outcome => outcome,
        };
        Ok(Self { scheduler: Arc::clone(scheduler), peer: peer.clone(), upload: Some(upload?) })
    }

    /// Receives a body up to its end. The time spent waiting for the engine does not count towards the client's timeout.
    async fn fill(
        mut self,
        body: &mut impl Source,
        options: &Options,
        context: &mut Context,
        arriving: &Arriving,
    ) -> Result<Self> {
        let (limit_bytes, waited_ms) = (options.blob_bytes, options.body_timeout_ms);
        let (longest, mut length_bytes, mut arrived) = (Duration::from_millis(waited_ms), 0, 0);
        let mut deadline = Instant::now() + longest;
        loop {
            let next = timeout_at(deadline, arriving.unless_given_up(body::next(body))).await;
            let bytes = next.unwrap_or(Err(Failure::TooSlow { waited_ms }))?;
            if bytes.is_empty() {
                return Ok(self);
            }
            context.add_bytes_in(bytes.len());
            arriving.note(bytes.len());
            length_bytes += bytes.len();
            if length_bytes > limit_bytes {
                return Err(Failure::TooLarge { limit_bytes });
            }
            let begun = Instant::now();
            self = self.take(&bytes).await?;
            arrived += bytes.len();
            if arrived >= CHUNK_BYTES {
                (deadline, arrived) = (Instant::now() + longest, 0);
            } else {
                deadline += begun.elapsed();
            }
        }
    }

    async fn take(mut self, mut bytes: &[u8]) -> Result<Self> {
        loop {
            bytes = &bytes[self.upload().take(bytes)..];
            if bytes.is_empty() {
                return Ok(self);
            }
            (self, ()) = self.in_pool(|upload| Ok(upload.write()?)).await?;
        }
    }

    async fn finish(self) -> Result<Response> {
        let database = self.scheduler.database().deferring_syncs();
        let end = move |upload: &mut Upload| {
            let response = finish(&database, upload)?;
            Ok((response, database.has_deferred_sync()))
        };
        let (this, (response, is_unsynced)) = self.in_pool(end).await?;
        if is_unsynced {
            this.scheduler.synced().await?;
        }
        Ok(response)
    }

    fn upload(&mut self) -> &mut Upload {
        self.upload.as_mut().expect("it is taken out only when this is dropped")
    }

    /// Runs a job on the upload in the pool; retries while the engine is stalled, up to the request timeout.
    async fn in_pool<T: Send + 'static>(
        mut self,
        job: impl Fn(&mut Upload) -> Result<T> + Clone + Send + 'static,
    ) -> Result<(Self, T)> {
        let (scheduler, peer) = (Arc::clone(&self.scheduler), self.peer.clone());
        let deadline = Instant::now() + scheduler.longest_wait;
        loop {
            let job = job.clone();
            let done = move || {
                let outcome = job(self.upload());
                (self, outcome)
            };
            let outcome;
            (self, outcome) = scheduler.in_pool(Pool::Uploading, &peer, done).await?;
            match outcome {
                Err(Failure::Error(Error::Busy { .. })) if Instant::now() < deadline => sleep(PAUSE).await,
                outcome => return outcome.map(|value| (self, value)),
            }
        }
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take().filter(Upload::is_open) {
            self.scheduler.drop_in_pool(upload);
        }
    }
}
