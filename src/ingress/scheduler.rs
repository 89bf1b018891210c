//! The scheduler of requests, where async code meets blocking code: inline if the data is in memory, else in its pool.
//!
//! Each pool has its own limit and its own threads (`routing::Pool`), so none waits for another. Lists and thumbnails have as many threads
//! as there are cores (by default), at a lower priority than all others; only dumps wait for their clients, each on a thread that it
//! occupies until its end. What is short is compressed on the worker, at most 16 KiB; all decompression is done in the pool. With
//! `storage.refuse_stalls` off, a write on a worker may wait for the engine.
//!
//! No thread that answers waits for a sync: one thread syncs. Threads wait for locks only in transactions on many records or on records
//! that are not in memory, and at the end of uploads. A write that was handed to the log is never cancelled, and one that was done is never
//! reported as failed: if there is no room for its response, the response comes without a body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, LINK, TRAILER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use hyper::body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use super::budget::Budget;
use super::client::Client;
use super::file::FileBody;
use super::limits::{Held, Holder, Limited, Limits, rate};
use super::panics::caught;
use super::peer::Peer;
use super::permits::BodyBytes;
use super::pieces::{Broken, Piece, Pieces, Waiting};
use super::queue::Queue;
use super::thumbnail_cache::Thumbnails;
use super::{Options, body};
use crate::error::Error;
use crate::handlers::{
    self, Failure, Response, Result,
    coding::{self, AcceptedCoding, Coding, Encoder, coded},
};
use crate::routing::{Call, Pool, Route, Routes, Work};
use crate::static_files::Extent;
use crate::transaction::{Database, Interrupt, LOCK_WAIT, held_too_long};

/// Runs handlers.
pub(super) struct Scheduler {
    blocking: Database,
    pub(super) never_blocking: Database,
    routes: Routes,
    syncing: Handle,
    /// The waiting work of each pool.
    queues: [Queue; 6],
    pub(super) limits: Arc<Limits>,
    pub(super) thumbnails: Thumbnails,
    /// How long a list or a blob waits for room for its next piece, and an upload for the engine.
    pub(super) longest_wait: Duration,
}

/// Thread pools for blocking work, by the resource that it waits for.
#[derive(Clone)]
pub struct Pools {
    /// Reads of single records that are not in memory, and of files.
    pub reading: Handle,
    /// Transactions on many records, and on records that are not in memory.
    pub writing: Handle,
    /// CPU-bound work: no more threads than there are processors.
    pub scanning: Handle,
    /// Lists that proceed as fast as their clients read, each of which occupies a thread until it ends.
    pub dumping: Handle,
    /// Pieces of blobs: few threads, because more would only wait for each other in the engine.
    pub uploading: Handle,
    /// Thumbnails: CPU-bound, no more threads than there are processors.
    pub picturing: Handle,
    /// Syncs of the log: one thread, because one sync serves everyone waiting.
    pub syncing: Handle,
}

impl From<Handle> for Pools {
    /// Uses one pool for everything.
    fn from(pool: Handle) -> Self {
        let [reading, writing, scanning, dumping, uploading, picturing] = [(); 6].map(|()| pool.clone());
        Self { reading, writing, scanning, dumping, uploading, picturing, syncing: pool }
    }
}

/// The result of trying to answer a request inline.
pub(super) enum Attempt {
    /// Completed.
    Done(Result<Response>),
    /// Completed except for the sync of its writes.
    Unsynced(Response, Synced),
    /// Completed except for the compression of a response that is too long to compress inline.
    Uncoded(Response),
    /// Stopped at a lock held by another request; the channel closes when the lock is released.
    Locked(oneshot::Receiver<()>),
    /// Not possible inline: it may take long, or needs data that is not in memory.
    Blocked(Pool),
}

/// The future outcome of a sync.
pub(super) type Synced = oneshot::Receiver<crate::error::Result<()>>;

/// The outcome of a request that had to wait.
pub(super) struct Completed {
    /// When the wait ended.
    pub(super) began: Instant,
    pub(super) outcome: Result<Reply>,
    /// The headers of the request.
    pub(super) headers: HeaderMap,
}

/// A response, whole or in pieces.
pub(super) enum Reply {
    Whole(Response),
    InPieces(Response<Pieces>),
}

/// The beginning of a response: either all of it, or the head of a response in pieces.
struct Started {
    began: Instant,
    outcome: Result<Response>,
    /// The sync for which the response has to wait, if any.
    synced: Option<Synced>,
    pieces: Option<UnboundedReceiver<Piece>>,
    headers: HeaderMap,
}

/// Shorter responses are not counted, since counting would cost more than it saves.
const COUNTED_BYTES: usize = 16 << 10;

/// Marks a response to a completed write, which must not become a failure if there is no room for it.
#[derive(Clone)]
struct Written;

/// Marks the response if it reports a completed write.
fn marked(mut response: Response, call: &Call<'_>) -> Response {
    if response.body().len() >= COUNTED_BYTES && call.has_written() {
        response.extensions_mut().insert(Written);
    }
    response
}

/// Shorter responses are compressed inline, in about a tenth of a millisecond.
const CODED_BYTES: usize = 16 << 10;

/// The maximum unsent bytes of a list without a limit: it lasts as long as its client is slow, and must leave room for others.
const DUMPED_BYTES: usize = 1 << 20;

/// How long a dump waits for a thread before others have to give way.
const DUMP_WAIT: Duration = Duration::from_secs(1);

/// A permit to wait in a pool, released on drop; by the pool if the client has disconnected.
pub(super) struct Permit {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) pool: Pool,
    pub(super) client: Client,
    pub(super) place: Arc<Place>,
    _held: Held,
}

/// A place in the queue of a pool. For another client, the newest one is given up.
#[derive(Default)]
pub(super) struct Place {
    /// Whether it was left, for a thread or for another client.
    is_left: AtomicBool,
    pub(super) given_up: Notify,
}

impl Place {
    /// Leaves the queue for a thread; returns false if the place was given up.
    pub(super) fn begin(&self) -> bool {
        !self.is_left.swap(true, Ordering::Relaxed)
    }
}

impl Holder for Place {
    fn rank(&self, number: u64) -> Option<u64> {
        (!self.is_left.load(Ordering::Relaxed)).then_some(u64::MAX - number)
    }

    fn give_up(&self) {
        if self.begin() {
            self.given_up.notify_one();
        }
    }
}

impl Permit {
    /// Returns the permit, which from now on is not given up for other clients.
    pub(super) fn firm(self) -> Self {
        self.place.begin();
        self
    }

    /// Runs a job in its pool, unless the place in its queue is given up.
    ///
    /// # Errors
    /// `Panicked`; `Overloaded` if the place is given up, or the server stops before the job begins.
    pub(super) async fn in_pool<T: Send + 'static>(
        self,
        job: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Result<T> {
        let (scheduler, place, (done, outcome)) =
            (Arc::clone(&self.scheduler), Arc::clone(&self.place), oneshot::channel());
        scheduler.queue(self.pool).add(self.client, move || {
            if self.place.begin() {
                // Fails if nobody waits for it any more.
                let _ = done.send(caught(|| Ok(job(&self.scheduler))));
            }
        });
        tokio::select! {
            biased;
            outcome = outcome => outcome.unwrap_or(Err(Failure::Overloaded)),
            () = place.given_up.notified() => Err(Failure::Overloaded),
        }
    }

    /// Returns `None` if the limit is reached.
    pub(super) fn take(scheduler: &Arc<Scheduler>, peer: &Peer, pool: Pool) -> Option<Self> {
        let place = Arc::<Place>::default();
        let holder: Arc<dyn Holder> = place.clone();
        let held = peer.holdings().take(limit_of(pool), 1, Some(&holder))?;
        Some(Self { scheduler: Arc::clone(scheduler), pool, client: peer.holdings().client(), place, _held: held })
    }
}

/// Returns the limit of the requests in a pool.
fn limit_of(pool: Pool) -> Limited {
    match pool {
        Pool::Reading => Limited::Reads,
        Pool::Writing | Pool::Uploading => Limited::Writes,
        Pool::Scanning => Limited::Lists,
        Pool::Dumping => Limited::Dumps,
        Pool::Picturing => Limited::Thumbnails,
    }
}

/// A handler in the pool.
struct Job {
    parts: Parts,
    body: Bytes,
    permit: Permit,
    peer: Peer,
    interrupt: Interrupt,
    /// Taken once the beginning of the response is sent.
    started: Option<oneshot::Sender<Started>>,
    /// The channel for pieces, once there was one.
    pieces: Option<UnboundedSender<Piece>>,
    /// The compressor of the pieces, if they have a coding.
    encoder: Option<Encoder>,
    /// Present if it lasts as long as its client is slow.
    dump: Option<Dump>,
    began: Instant,
}

impl Job {
    fn run(mut self) {
        let scheduler = Arc::clone(&self.permit.scheduler);
        let (parts, body) = (self.parts.clone(), self.body.clone());
        // Leaves syncs to another pool, so that they do not occupy this thread.
        let database = scheduler.blocking.interrupted_by(&self.interrupt).deferring_syncs();
        let outcome = caught(|| {
            let route = scheduler.route(&parts)?;
            let call = Call::new(&route, &body);
            let send_chunk = |piece| self.send_chunk(&scheduler, &route, piece);
            let response = call.respond_in_pieces(&database, &parts.headers, send_chunk)?;
            let response = marked(response, &call);
            Ok(match (self.encoder.take(), route.coding_of(&response)) {
                // The end of a response compressed as a stream, possibly all of it.
                (Some(mut encoder), _) => {
                    let (mut head, body) = response.into_parts();
                    coding::set_headers(&mut head.headers, encoder.coding());
                    Response::from_parts(head, Bytes::from([encoder.write(&body), encoder.finish()].concat()))
                }
                (None, Some(coding)) if self.pieces.is_none() => coded(response, coding),
                (None, _) => response,
            })
        });
        let synced = database.has_deferred_sync().then(|| scheduler.sync(&database));
        let Some(pieces) = self.pieces.take() else { return self.begin(outcome, synced, None) };
        match outcome {
            Ok(last) => {
                let (mut head, body) = last.into_parts();
                let _ = pieces.send(Ok(Frame::data(body)));
                // The head is already sent, so the link becomes a trailer.
                if let Some(link) = head.headers.remove(LINK) {
                    let _ = pieces.send(Ok(Frame::trailers(HeaderMap::from_iter([(LINK, link)]))));
                }
            }
            Err(failure) => {
                if failure.is_internal() {
                    tracing::error!("sending a list was aborted: {failure}");
                }
                let _ = pieces.send(Err(Broken));
            }
        }
    }

    /// Sends a piece once there is room for it, compressed in the negotiated coding.
    fn send_chunk(&mut self, scheduler: &Scheduler, route: &Route<'_>, mut piece: Vec<u8>) -> crate::error::Result<()> {
        if self.pieces.is_none() && self.encoder.is_none() {
            self.encoder = route.coding_of_pieces().map(Encoder::of_pieces);
        }
        if let Some(encoder) = &mut self.encoder {
            piece = encoder.write(&piece);
        }
        if piece.is_empty() {
            return Ok(());
        }
        let piece = self.counted(scheduler, Bytes::from(piece))?;
        if self.pieces.is_none() {
            let (sender, receiver) = unbounded_channel();
            self.pieces = Some(sender);
            let mut head = route.head_of_pieces();
            head.headers_mut().insert(TRAILER, HeaderValue::from_static("link"));
            self.begin(Ok(head), None, Some(receiver));
        }
        let pieces = self.pieces.as_ref().expect("made just now");
        pieces.send(Ok(Frame::data(piece))).map_err(|_| not_read())
    }

    /// Counts the bytes once there is room for them.
    fn counted(&self, scheduler: &Scheduler, piece: Bytes) -> crate::error::Result<Bytes> {
        let deadline = Instant::now() + scheduler.longest_wait;
        let is_abandoned = || self.interrupt.is_raised();
        let piece = match &self.dump {
            Some(dump) => dump.count_when_room(piece, deadline, is_abandoned),
            None => Some(piece),
        };
        piece.and_then(|piece| self.peer.count_when_room(piece, deadline, is_abandoned)).ok_or_else(not_read)
    }

    fn begin(&mut self, outcome: Result<Response>, synced: Option<Synced>, pieces: Option<UnboundedReceiver<Piece>>) {
        let headers = std::mem::take(&mut self.parts.headers);
        if let Some(started) = self.started.take() {
            // Fails if the client has disconnected.
            let _ = started.send(Started { began: self.began, outcome, synced, pieces, headers });
        }
    }
}

/// A list without a limit, which occupies a thread. For another client that has waited for [`DUMP_WAIT`], the slowest is broken off.
struct Dump {
    room: Budget,
    running: Arc<RunningDump>,
    /// `None` if it runs on a thread that was given up for it.
    _thread: Option<Held>,
}

struct RunningDump {
    interrupt: Interrupt,
    began: Instant,
    bytes: AtomicU64,
}

impl Holder for RunningDump {
    fn rank(&self, _number: u64) -> Option<u64> {
        Some(rate(&self.bytes, self.began))
    }

    fn give_up(&self) {
        self.interrupt.raise();
    }
}

impl Dump {
    fn begin(peer: &Peer, interrupt: &Interrupt) -> Self {
        let running =
            Arc::new(RunningDump { interrupt: interrupt.clone(), began: Instant::now(), bytes: AtomicU64::new(0) });
        let holder: Arc<dyn Holder> = running.clone();
        let thread = peer.holdings().try_take(Limited::DumpThreads, 1, Some(&holder));
        Self { room: Budget::of(DUMPED_BYTES), running, _thread: thread }
    }

    fn count_when_room(&self, piece: Bytes, deadline: Instant, is_abandoned: impl Fn() -> bool) -> Option<Bytes> {
        let bytes = piece.len() as u64;
        let piece = self.room.count_when_room(piece, deadline, is_abandoned);
        self.running.bytes.fetch_add(bytes, Ordering::Relaxed);
        piece
    }
}

/// Awaits the beginning of a response. While a dump waits for a thread, whoever holds most of them gives up one.
async fn begun(mut beginning: oneshot::Receiver<Started>, pool: Pool, peer: &Peer) -> Option<Started> {
    if pool != Pool::Dumping {
        return beginning.await.ok();
    }
    loop {
        match tokio::time::timeout(DUMP_WAIT, &mut beginning).await {
            Ok(begun) => return begun.ok(),
            // The thread is free once its dump has ended.
            Err(_) => drop(peer.holdings().try_take(Limited::DumpThreads, 1, None)),
        }
    }
}

pub(super) fn not_read() -> Error {
    Error::Busy { detail: "the client reads too slowly, or has disconnected".to_owned() }
}

impl Scheduler {
    pub(super) fn new(
        blocking: Database,
        routes: Routes,
        options: &Options,
        limits: Arc<Limits>,
        pools: Pools,
    ) -> Self {
        let (never_blocking, longest_wait) =
            (blocking.never_blocking(), Duration::from_millis(options.request_timeout_ms));
        let Pools { reading, writing, scanning, dumping, uploading, picturing, syncing } = pools;
        let queues = [reading, writing, scanning, dumping, uploading, picturing].map(Queue::of);
        let thumbnails = Thumbnails::new(routes.options_of_handlers());
        limits.set(Limited::Thumbnails, routes.options_of_handlers().thumbs_in_flight);
        Self { blocking, never_blocking, routes, queues, syncing, limits, thumbnails, longest_wait }
    }

    pub(super) fn queue(&self, pool: Pool) -> &Queue {
        &self.queues[pool as usize]
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn database(&self) -> &Database {
        &self.blocking
    }

    pub(super) fn route<'r>(&'r self, parts: &'r Parts) -> Result<Route<'r>> {
        let route = self.routes.resolve(&parts.method, &parts.uri, &parts.headers);
        route.ok_or_else(|| Error::NotFound { detail: "no table has this path".to_owned() })?
    }

    /// Runs the handler of a route inline, without blocking.
    pub(super) fn attempt(&self, route: &Route<'_>, headers: &HeaderMap, body: &[u8]) -> Attempt {
        match self.attempt_plain(&Call::new(route, body), headers) {
            Attempt::Done(Ok(response)) => match route.coding_of(&response) {
                None => Attempt::Done(Ok(response)),
                Some(coding) if response.body().len() < CODED_BYTES => Attempt::Done(Ok(coded(response, coding))),
                Some(_) => Attempt::Uncoded(response),
            },
            attempt => attempt,
        }
    }

    /// Like `attempt`, before compression.
    fn attempt_plain(&self, call: &Call<'_>, headers: &HeaderMap) -> Attempt {
        // Every request to a remote store waits for it.
        if self.blocking.store().is_remote() || call.work() == Work::Long {
            return Attempt::Blocked(call.pool());
        }
        if !call.route().may_write() {
            return match caught(|| call.respond(&self.never_blocking, headers)) {
                Err(Failure::Error(Error::WouldBlock)) => Attempt::Blocked(call.pool()),
                outcome => Attempt::Done(outcome),
            };
        }
        // A handle of its own, which records what is left to wait for.
        let database = self.never_blocking.clone();
        match caught(|| call.respond(&database, headers).map(|response| marked(response, call))) {
            Err(Failure::Error(Error::WouldBlock)) => {
                let (release, released) = oneshot::channel();
                match database.when_released(move || drop(release)) {
                    true => Attempt::Locked(released),
                    false => Attempt::Blocked(call.pool()),
                }
            }
            Ok(response) if database.has_deferred_sync() => Attempt::Unsynced(response, self.sync(&database)),
            // What was written before the handler failed is there.
            Err(failure) if database.has_deferred_sync() => {
                drop(self.sync(&database));
                Attempt::Done(Err(failure))
            }
            outcome => Attempt::Done(outcome),
        }
    }

    /// Starts a sync of the log for what verbs on a database have left; it completes even if nobody waits for it.
    fn sync(&self, database: &Database) -> Synced {
        let (done, synced) = oneshot::channel();
        let pool = self.syncing.clone();
        database.when_synced(move |job| drop(pool.spawn_blocking(job)), move |outcome| drop(done.send(outcome)));
        synced
    }

    /// Waits for the obstacle of an attempt without blocking a thread: a sync, or a lock, after which it is retried. Work that needs a
    /// thread runs in its pool.
    pub(super) async fn complete(
        self: &Arc<Self>,
        parts: Parts,
        body: Bytes,
        held: BodyBytes,
        mut attempt: Attempt,
        peer: &Peer,
    ) -> Completed {
        let deadline = tokio::time::Instant::now() + LOCK_WAIT;
        let mut permit = None;
        let outcome = loop {
            let pool = match attempt {
                Attempt::Done(outcome) => break outcome,
                Attempt::Unsynced(response, synced) => break when_synced(synced).await.map(|()| response),
                Attempt::Uncoded(response) => break Ok(response),
                Attempt::Locked(_) => Pool::Writing,
                Attempt::Blocked(pool) => pool,
            };
            let Some(taken) = permit.take().or_else(|| Permit::take(self, peer, pool)) else {
                break Err(Failure::Overloaded);
            };
            let Attempt::Locked(released) = attempt else { return self.pooled(parts, body, held, taken, peer).await };
            let released = tokio::select! {
                biased;
                released = tokio::time::timeout_at(deadline, released) => released,
                () = taken.place.given_up.notified() => break Err(Failure::Overloaded),
            };
            if released.is_err() {
                break Err(held_too_long(LOCK_WAIT).into());
            }
            permit = Some(taken);
            attempt = match self.route(&parts) {
                Ok(route) => self.attempt(&route, &parts.headers, &body),
                Err(failure) => Attempt::Done(Err(failure)),
            };
        };
        let outcome = match outcome {
            Ok(response) => self.coded(&parts, response, peer).await,
            refused => refused,
        };
        Completed { began: Instant::now(), outcome: outcome.map(Reply::Whole), headers: parts.headers }
    }

    /// Compresses the response, if it has to be and is not yet.
    async fn coded(self: &Arc<Self>, parts: &Parts, response: Response, peer: &Peer) -> Result<Response> {
        let is_coded =
            response.headers().contains_key(CONTENT_ENCODING) || !parts.headers.contains_key(ACCEPT_ENCODING);
        let coding = if is_coded { None } else { self.route(parts)?.coding_of(&response) };
        self.compressed(response, coding, peer).await
    }

    /// Compresses a response, a longer one in the pool. A completed write must not fail any more: if there is no room in the pool, the
    /// response stays uncompressed.
    ///
    /// # Errors
    /// `Overloaded` if the server stops before it begins.
    pub(super) async fn compressed(
        self: &Arc<Self>,
        response: Response,
        coding: Option<Coding>,
        peer: &Peer,
    ) -> Result<Response> {
        let Some(coding) = coding else { return Ok(response) };
        if response.body().len() < CODED_BYTES {
            return Ok(coded(response, coding));
        }
        // Firm, since it may be the response to a write.
        let Some(permit) = Permit::take(self, peer, Pool::Scanning).map(Permit::firm) else { return Ok(response) };
        let job = move || {
            let response = coded(response, coding);
            drop(permit);
            response
        };
        self.in_pool(Pool::Scanning, peer, job).await
    }

    /// Decompresses a body within the memory for which it has a permit.
    ///
    /// # Errors
    /// 413 if it is longer than a body may be; 400 if it is not compressed; 503 if there is no room for it.
    pub(super) async fn inflated(
        self: &Arc<Self>,
        body: Bytes,
        limit_bytes: usize,
        held: &mut BodyBytes,
    ) -> Result<Bytes> {
        let permit = Permit::take(self, &held.peer, Pool::Writing).ok_or(Failure::Overloaded)?;
        let inflated = permit.in_pool(move |_| body::inflate(&body, limit_bytes)).await??;
        // An append counts with what was sent.
        let append = held.take_append();
        let fits = held.grow(inflated.len());
        held.set_append(append);
        match fits {
            true => Ok(inflated),
            false => Err(Failure::Overloaded),
        }
    }

    /// Runs the handler of a request in its pool, where it may block; a response longer than a piece comes in pieces. If the
    /// response is dropped before its end, a query is cancelled; a write continues.
    async fn pooled(&self, parts: Parts, body: Bytes, mut held: BodyBytes, permit: Permit, peer: &Peer) -> Completed {
        let _append = held.take_append();
        let waiting = Waiting(Interrupt::default());
        let (pool, interrupt, place) = (permit.pool, waiting.0.clone(), Arc::clone(&permit.place));
        let (started, beginning) = oneshot::channel();
        let asking = peer.clone();
        self.queue(pool).add(permit.client, move || {
            if !permit.place.begin() {
                return;
            }
            let dump = (pool == Pool::Dumping).then(|| Dump::begin(&asking, &interrupt));
            let (encoder, started, pieces, began) = (None, Some(started), None, Instant::now());
            Job { parts, body, permit, peer: asking, interrupt, started, pieces, encoder, dump, began }.run();
            drop(held);
        });
        // The sender is dropped only if the server stops first.
        let beginning = tokio::select! {
            biased;
            begun = begun(beginning, pool, peer) => begun,
            () = place.given_up.notified() => None,
        };
        let Some(Started { began, mut outcome, synced, pieces, headers }) = beginning else {
            return Completed { began: Instant::now(), outcome: Err(Failure::Overloaded), headers: HeaderMap::new() };
        };
        if let Some(synced) = synced {
            outcome = when_synced(synced).await.and(outcome);
        }
        let outcome = outcome.map(|response| match pieces {
            None => Reply::Whole(response),
            Some(receiver) => Reply::InPieces(response.map(|_| Pieces { receiver, _waiting: waiting })),
        });
        Completed { began, outcome, headers }
    }

    /// Counts the body until it is sent. If there is no room for it, the response to a completed write is sent without its body.
    ///
    /// # Errors
    /// `Overloaded` if there is no room for it and nothing was written.
    pub(super) fn count(response: &mut Response, peer: &Peer) -> Result<()> {
        if response.body().len() < COUNTED_BYTES {
            return Ok(());
        }
        match peer.count(std::mem::take(response.body_mut())) {
            Some(body) => *response.body_mut() = body,
            None if response.extensions().get::<Written>().is_some() => handlers::remove_content(response),
            None => return Err(Failure::Overloaded),
        }
        Ok(())
    }

    /// Runs blocking work for an operator in the pool; it counts against no limit.
    ///
    /// # Errors
    /// Errors of the job; `Overloaded` if the server stops before it begins.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
    ) -> Result<T> {
        Ok(self.in_pool(Pool::Writing, &Peer::server(&self.limits), job).await??)
    }

    /// Runs a job in a pool; the caller has a permit for it.
    ///
    /// # Errors
    /// `Panicked`; `Overloaded` if the server stops before it begins.
    pub(super) async fn in_pool<T: Send + 'static>(
        &self,
        pool: Pool,
        peer: &Peer,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (done, outcome) = oneshot::channel();
        self.queue(pool).add(peer.holdings().client(), move || {
            // Fails if nobody waits for it any more.
            let _ = done.send(caught(|| Ok(job())));
        });
        outcome.await.unwrap_or(Err(Failure::Overloaded))
    }

    /// Reads a record or a part of it in the pool, because it is not in memory.
    ///
    /// # Errors
    /// Errors of the job; `Overloaded` by the limit; `TimedOut`.
    pub(super) async fn read_in_pool<T: Send + 'static>(
        self: &Arc<Self>,
        peer: &Peer,
        job: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Permit::take(self, peer, Pool::Reading).ok_or(Failure::Overloaded)?;
        let done =
            tokio::time::timeout(self.longest_wait, permit.in_pool(move |scheduler| job(&scheduler.blocking))).await;
        done.unwrap_or(Err(Failure::TimedOut { waited_ms: self.longest_wait.as_millis() as u64 }))?
    }

    /// Drops a value in the pool, because its drop may block.
    pub(super) fn drop_in_pool(&self, value: impl Send + 'static) {
        self.queue(Pool::Writing).pool().spawn_blocking(move || drop(value));
    }

    /// Waits until all earlier writes are synced.
    ///
    /// # Errors
    /// `Storage` if the sync fails.
    pub(super) async fn synced(&self) -> Result<()> {
        when_synced(self.sync(&self.blocking)).await
    }

    /// Returns a part of a file as the body of a response, after a look in the pool whether it can be read.
    ///
    /// # Errors
    /// `Storage` if it cannot be read.
    pub(super) async fn opened(&self, extent: Extent, permit: Permit) -> Result<FileBody> {
        let readable = permit.in_pool(move |_| extent.read(0..0).map(|_| extent)).await?;
        Ok(FileBody::new(readable?, self.queue(Pool::Reading).pool().clone()))
    }

    /// Returns the number of requests waiting for their bodies or for a pool.
    pub(super) fn waiting(&self) -> usize {
        let waiting = [Limited::Bodies, Limited::Reads, Limited::Writes, Limited::Lists, Limited::Dumps];
        waiting.into_iter().map(|limited| self.limits.used(limited)).sum()
    }

    /// Returns the bytes of request bodies in memory.
    pub(super) fn body_bytes(&self) -> usize {
        self.limits.used(Limited::BodyBytes)
    }
}

/// Compresses a response that needs no route, unless it is too long to compress inline.
pub(super) fn coded_inline(response: Response, headers: &HeaderMap) -> Response {
    let accepted = AcceptedCoding::accepted(headers).unwrap_or_default();
    match accepted.of_bytes(response.body().len()) {
        Some(coding) if response.body().len() < CODED_BYTES => coded(response, coding),
        _ => response,
    }
}

/// Awaits the outcome of a sync, which is missing only if the server stops first.
async fn when_synced(synced: Synced) -> Result<()> {
    match synced.await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(Failure::Overloaded),
    }
}
