//! The crossing from async to blocking: inline where memory suffices, else in the pool of its lane.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, LINK, TRAILER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use hyper::body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::budget::Budget;
use super::file::FileBody;
use super::pieces::{Broken, Piece, Pieces, Waiting};
use super::{Options, body};
use crate::error::Error;
use crate::handlers::{
    self, Answer, Failure, Result,
    coding::{self, Encoder, coded},
};
use crate::routing::{Lane, Route, Routes, Work};
use crate::static_files::Extent;
use crate::transaction::{Database, Interrupt, LOCK_WAIT, held_too_long};

/// Runs handlers.
pub(super) struct Crossing {
    blocking: Database,
    pub(super) in_memory: Database,
    routes: Routes,
    pools: Pools,
    /// Requests whose bodies arrive.
    bodies: Gauge,
    /// Bytes of bodies in memory.
    body_bytes: Gauge,
    /// Requests in the pool of each lane.
    in_flight: [Gauge; 5],
    /// Bytes of answers that were not sent yet.
    pub(super) answers: Budget,
    /// How long a list or a blob waits for room for its next piece, and an upload for the engine.
    pub(super) longest_wait: Duration,
}

/// Threads for what has to wait, by what it waits for.
#[derive(Clone)]
pub struct Pools {
    /// For single records that are not in memory, and files.
    pub reading: Handle,
    /// For transactions on many records, and on those that are not in memory.
    pub writing: Handle,
    /// For what takes a processor's time: it has no more threads than there are processors.
    pub scanning: Handle,
    /// For lists that go on as fast as their clients read: each takes a thread as long.
    pub dumping: Handle,
    /// For pieces of blobs: few threads, because more would only wait for each other in the engine.
    pub uploading: Handle,
    /// For syncs of the log: one thread, because one sync serves all who wait.
    pub syncing: Handle,
}

impl From<Handle> for Pools {
    /// One pool for everything.
    fn from(pool: Handle) -> Self {
        let [reading, writing, scanning, dumping, uploading] = [(); 5].map(|()| pool.clone());
        Self { reading, writing, scanning, dumping, uploading, syncing: pool }
    }
}

/// How much of something there is, and how much there may be.
struct Gauge {
    now: AtomicUsize,
    most: usize,
}

impl Gauge {
    fn up_to(most: usize) -> Self {
        Self { now: AtomicUsize::new(0), most }
    }

    /// Adds as much, unless it would be too much.
    fn add(&self, more: usize) -> bool {
        let before = self.now.fetch_add(more, Ordering::Relaxed);
        let fits = before.saturating_add(more) <= self.most;
        if !fits {
            self.remove(more);
        }
        fits
    }

    fn remove(&self, less: usize) {
        self.now.fetch_sub(less, Ordering::Relaxed);
    }

    fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }
}

/// The right to wait in a lane; given back when it is dropped, by the pool if the client has gone meanwhile.
pub(super) struct Permit {
    crossing: Arc<Crossing>,
    lane: Lane,
}

/// The right to have a body arrive; given back when it is dropped.
pub(super) struct Arriving(Arc<Crossing>);

/// The right to have that many bytes of a body in memory; given back when it is dropped.
pub(super) struct BodyBytes {
    crossing: Arc<Crossing>,
    bytes: usize,
}

/// How far a request came where it arrived.
pub(super) enum Attempt {
    /// To its end.
    Done(Result<Answer>),
    /// To its end, but for the sync of what it has written.
    Unsynced(Answer, Synced),
    /// To its end, but for compressing so much that others would wait for it.
    Uncoded(Answer),
    /// To a lock that another held; the channel closes when it is released.
    Locked(oneshot::Receiver<()>),
    /// No way: it may take long, or needs what is not in memory.
    Blocked(Lane),
}

/// The outcome of a sync, once there is one.
pub(super) type Synced = oneshot::Receiver<crate::error::Result<()>>;

/// What became of a request that had to wait.
pub(super) struct Waited {
    /// When it had waited.
    pub(super) began: Instant,
    pub(super) outcome: Result<Made>,
    /// Of the request.
    pub(super) headers: HeaderMap,
}

/// An answer.
pub(super) enum Made {
    Whole(Answer),
    InPieces(Response<Pieces>),
}

/// The first that is known of an answer: all of it, or that it comes in pieces.
struct Begun {
    began: Instant,
    outcome: Result<Answer>,
    /// If the answer has to wait for it.
    synced: Option<Synced>,
    pieces: Option<UnboundedReceiver<Piece>>,
    headers: HeaderMap,
}

/// Answers that are shorter are not counted: it would take longer than they are long.
const COUNTED_BYTES: usize = 16 << 10;

/// Marks an answer that may find no room: what it tells was written, so it must not become a refusal.
#[derive(Clone)]
struct Written;

/// The same answer, marked if it tells what was written.
fn marked(mut answer: Answer, route: &Route<'_>, body: &[u8]) -> Answer {
    if answer.body().len() >= COUNTED_BYTES && route.has_written(body) {
        answer.extensions_mut().insert(Written);
    }
    answer
}

/// Answers that are shorter are compressed where they were made: in about a tenth of a millisecond.
const CODED_BYTES: usize = 16 << 10;

/// So much of a list without a limit may wait for its client: it is as long as the client is slow, and others want room, too.
const DUMPED_BYTES: usize = 1 << 20;

/// A handler in the pool.
struct Job {
    parts: Parts,
    body: Bytes,
    permit: Permit,
    interrupt: Interrupt,
    /// Gone when it was told what the answer is.
    begun: Option<oneshot::Sender<Begun>>,
    /// Where pieces go, once there was one.
    pieces: Option<UnboundedSender<Piece>>,
    /// What compresses them, if they are to be.
    encoder: Option<Encoder>,
    /// How much of them may wait for the client, if it is less than there is room for.
    room: Option<Budget>,
    began: Instant,
}

impl Job {
    fn run(mut self) {
        let crossing = Arc::clone(&self.permit.crossing);
        let (parts, body) = (self.parts.clone(), self.body.clone());
        // A thread that waited for a sync would be missing to others.
        let database = crossing.blocking.interrupted_by(&self.interrupt).leaving_syncs();
        let outcome = caught(|| {
            let route = crossing.route(&parts)?;
            let hand_over = |piece| self.hand_over(&crossing, &route, piece);
            let answer = route.answer_in_pieces(&database, &parts.headers, &body, hand_over)?;
            let answer = marked(answer, &route, &body);
            Ok(match (self.encoder.take(), route.coding_of(&answer)) {
                // The end of what was compressed as it came, which may be all of it.
                (Some(mut encoder), _) => {
                    let (mut head, body) = answer.into_parts();
                    coding::say(&mut head.headers, encoder.coding());
                    Answer::from_parts(head, Bytes::from([encoder.write(&body), encoder.finish()].concat()))
                }
                (None, Some(coding)) if self.pieces.is_none() => coded(answer, coding),
                (None, _) => answer,
            })
        });
        let synced = database.has_left_sync().then(|| crossing.sync());
        let Some(pieces) = self.pieces.take() else { return self.begin(outcome, synced, None) };
        match outcome {
            Ok(last) => {
                let (mut head, body) = last.into_parts();
                let _ = pieces.send(Ok(Frame::data(body)));
                // The head was sent before it was known.
                if let Some(link) = head.headers.remove(LINK) {
                    let _ = pieces.send(Ok(Frame::trailers(HeaderMap::from_iter([(LINK, link)]))));
                }
            }
            Err(failure) => {
                if failure.is_internal() {
                    tracing::error!("a list broke off: {failure}");
                }
                let _ = pieces.send(Err(Broken));
            }
        }
    }

    /// Sends a piece once there is room for it, compressed if that is what the client takes.
    fn hand_over(&mut self, crossing: &Crossing, route: &Route<'_>, mut piece: Vec<u8>) -> crate::error::Result<()> {
        if self.pieces.is_none() && self.encoder.is_none() {
            self.encoder = route.coding_of_pieces().map(Encoder::of_pieces);
        }
        if let Some(encoder) = &mut self.encoder {
            piece = encoder.write(&piece);
        }
        if piece.is_empty() {
            return Ok(());
        }
        let piece = self.counted(crossing, Bytes::from(piece))?;
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

    /// The same bytes once there is room for them.
    fn counted(&self, crossing: &Crossing, piece: Bytes) -> crate::error::Result<Bytes> {
        let deadline = Instant::now() + crossing.longest_wait;
        let is_left = || self.interrupt.is_raised();
        let piece = match &self.room {
            Some(room) => room.count_at_last(piece, deadline, is_left),
            None => Some(piece),
        };
        piece.and_then(|piece| crossing.answers.count_at_last(piece, deadline, is_left)).ok_or_else(not_read)
    }

    fn begin(&mut self, outcome: Result<Answer>, synced: Option<Synced>, pieces: Option<UnboundedReceiver<Piece>>) {
        let headers = std::mem::take(&mut self.parts.headers);
        if let Some(begun) = self.begun.take() {
            // Nobody listens if the client has gone.
            let _ = begun.send(Begun { began: self.began, outcome, synced, pieces, headers });
        }
    }
}

fn not_read() -> Error {
    Error::Busy { detail: "the client reads the list too slowly, or has gone".to_owned() }
}

impl Permit {
    /// `None` if as many are out as there may be.
    pub(super) fn take(crossing: &Arc<Crossing>, lane: Lane) -> Option<Self> {
        crossing.in_flight(lane).add(1).then(|| Self { crossing: Arc::clone(crossing), lane })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.crossing.in_flight(self.lane).remove(1);
    }
}

impl Arriving {
    /// `None` if as many are out as there may be.
    pub(super) fn take(crossing: &Arc<Crossing>) -> Option<Self> {
        crossing.bodies.add(1).then(|| Self(Arc::clone(crossing)))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.0.bodies.remove(1);
    }
}

impl BodyBytes {
    pub(super) fn none(crossing: &Arc<Crossing>) -> Self {
        Self { crossing: Arc::clone(crossing), bytes: 0 }
    }

    /// For `more` bytes more; false if that is over the limit.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let fits = self.crossing.body_bytes.add(more);
        self.bytes += if fits { more } else { 0 };
        fits
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        self.crossing.body_bytes.remove(self.bytes);
    }
}

impl Crossing {
    pub(super) fn new(blocking: Database, routes: Routes, options: &Options, pools: Pools) -> Self {
        let in_memory = blocking.in_memory();
        let bodies = Gauge::up_to(options.bodies_in_flight);
        let body_bytes = Gauge::up_to(options.all_bodies_bytes.max(options.body_bytes));
        let in_flight = [(); 5].map(|()| Gauge::up_to(options.requests_in_flight));
        let (answers, longest_wait) =
            (Budget::of(options.all_answers_bytes), Duration::from_millis(options.request_timeout_ms));
        Self { blocking, in_memory, routes, pools, bodies, body_bytes, in_flight, answers, longest_wait }
    }

    fn in_flight(&self, lane: Lane) -> &Gauge {
        &self.in_flight[lane as usize]
    }

    fn pool(&self, lane: Lane) -> &Handle {
        match lane {
            Lane::Reading => &self.pools.reading,
            Lane::Writing => &self.pools.writing,
            Lane::Scanning => &self.pools.scanning,
            Lane::Dumping => &self.pools.dumping,
            Lane::Uploading => &self.pools.uploading,
        }
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn database(&self) -> &Database {
        &self.blocking
    }

    fn route<'r>(&'r self, parts: &'r Parts) -> Result<Route<'r>> {
        let route = self.routes.resolve(&parts.method, &parts.uri, &parts.headers);
        route.ok_or_else(|| Error::NotFound { detail: "no table has this path".to_owned() })?
    }

    /// Runs a route's handler here and now, without waiting for anything.
    pub(super) fn attempt(&self, route: &Route<'_>, headers: &HeaderMap, body: &[u8]) -> Attempt {
        match self.attempt_plain(route, headers, body) {
            Attempt::Done(Ok(answer)) => match route.coding_of(&answer) {
                None => Attempt::Done(Ok(answer)),
                Some(coding) if answer.body().len() < CODED_BYTES => Attempt::Done(Ok(coded(answer, coding))),
                Some(_) => Attempt::Uncoded(answer),
            },
            attempt => attempt,
        }
    }

    /// The same before the answer is compressed.
    fn attempt_plain(&self, route: &Route<'_>, headers: &HeaderMap, body: &[u8]) -> Attempt {
        if route.work(body) == Work::Long {
            return Attempt::Blocked(route.lane(body));
        }
        if !route.may_write() {
            return match caught(|| route.answer(&self.in_memory, headers, body)) {
                Err(Failure::Error(Error::WouldBlock)) => Attempt::Blocked(route.lane(body)),
                outcome => Attempt::Done(outcome),
            };
        }
        // One of its own, which says what it has left to be waited for.
        let database = self.in_memory.clone();
        match caught(|| route.answer(&database, headers, body).map(|answer| marked(answer, route, body))) {
            Err(Failure::Error(Error::WouldBlock)) => {
                let (release, released) = oneshot::channel();
                match database.when_released(move || drop(release)) {
                    true => Attempt::Locked(released),
                    false => Attempt::Blocked(route.lane(body)),
                }
            }
            Ok(answer) if database.has_left_sync() => Attempt::Unsynced(answer, self.sync()),
            outcome => Attempt::Done(outcome),
        }
    }

    /// Has the log synced, which goes on if nobody waits for the outcome.
    fn sync(&self) -> Synced {
        let (done, synced) = oneshot::channel();
        let pool = self.pools.syncing.clone();
        self.blocking.when_synced(move |job| drop(pool.spawn_blocking(job)), move |outcome| drop(done.send(outcome)));
        synced
    }

    /// Waits for what an attempt has met, without a thread: a sync, or a lock, after which it is attempted again. What needs a thread
    /// goes to the pool of its lane.
    pub(super) async fn waited(
        self: &Arc<Self>,
        parts: Parts,
        body: Bytes,
        held: BodyBytes,
        mut attempt: Attempt,
    ) -> Waited {
        let deadline = tokio::time::Instant::now() + LOCK_WAIT;
        let mut permit = None;
        let outcome = loop {
            let lane = match attempt {
                Attempt::Done(outcome) => break outcome,
                Attempt::Unsynced(answer, synced) => break when_synced(synced).await.map(|()| answer),
                Attempt::Uncoded(answer) => break Ok(answer),
                Attempt::Locked(_) => Lane::Writing,
                Attempt::Blocked(lane) => lane,
            };
            let Some(taken) = permit.take().or_else(|| Permit::take(self, lane)) else {
                break Err(Failure::Overloaded);
            };
            let Attempt::Locked(released) = attempt else { return self.pooled(parts, body, held, taken).await };
            if tokio::time::timeout_at(deadline, released).await.is_err() {
                break Err(held_too_long().into());
            }
            permit = Some(taken);
            attempt = match self.route(&parts) {
                Ok(route) => self.attempt(&route, &parts.headers, &body),
                Err(failure) => Attempt::Done(Err(failure)),
            };
        };
        let outcome = match outcome {
            Ok(answer) => self.coded(&parts, answer).await,
            refused => refused,
        };
        Waited { began: Instant::now(), outcome: outcome.map(Made::Whole), headers: parts.headers }
    }

    /// The same answer, compressed in the pool if it is to be and was not. What was written cannot be refused any more: if there is no
    /// room in the lane, the answer stays as it is.
    async fn coded(self: &Arc<Self>, parts: &Parts, answer: Answer) -> Result<Answer> {
        let is_coded = answer.headers().contains_key(CONTENT_ENCODING) || !parts.headers.contains_key(ACCEPT_ENCODING);
        let coding = if is_coded { None } else { self.route(parts)?.coding_of(&answer) };
        let (Some(coding), Some(permit)) = (coding, Permit::take(self, Lane::Scanning)) else { return Ok(answer) };
        let job = move || {
            let answer = coded(answer, coding);
            drop(permit);
            answer
        };
        self.in_pool(Lane::Scanning, job).await
    }

    /// A body that came compressed, as it was before, in the memory that it has a right to.
    ///
    /// # Errors
    /// 413 if it is longer than a body may be; 400 if it is not compressed; 503 if there is no room for it.
    pub(super) async fn inflated(
        self: &Arc<Self>,
        body: Bytes,
        limit_bytes: usize,
        held: &mut BodyBytes,
    ) -> Result<Bytes> {
        let permit = Permit::take(self, Lane::Writing).ok_or(Failure::Overloaded)?;
        let job = move || {
            let inflated = body::inflate(&body, limit_bytes);
            drop(permit);
            inflated
        };
        let inflated = self.in_pool(Lane::Writing, job).await??;
        match held.grow(inflated.len()) {
            true => Ok(inflated),
            false => Err(Failure::Overloaded),
        }
    }

    /// Runs the handler of a request in the pool of its lane, where it may wait; an answer that is longer than a piece comes in pieces. If
    /// the answer is not waited for to its end, a query ends soon; a write goes on.
    async fn pooled(&self, parts: Parts, body: Bytes, held: BodyBytes, permit: Permit) -> Waited {
        let waiting = Waiting(Interrupt::default());
        let (lane, interrupt) = (permit.lane, waiting.0.clone());
        let (begun, beginning) = oneshot::channel();
        self.pool(lane).spawn_blocking(move || {
            let (encoder, room) = (None, (lane == Lane::Dumping).then(|| Budget::of(DUMPED_BYTES)));
            let (begun, pieces, began) = (Some(begun), None, Instant::now());
            Job { parts, body, permit, interrupt, begun, pieces, encoder, room, began }.run();
            drop(held);
        });
        // It is not begun only when the server stops before.
        let Ok(Begun { began, mut outcome, synced, pieces, headers }) = beginning.await else {
            return Waited { began: Instant::now(), outcome: Err(Failure::Overloaded), headers: HeaderMap::new() };
        };
        if let Some(synced) = synced {
            outcome = when_synced(synced).await.and(outcome);
        }
        let outcome = outcome.map(|answer| match pieces {
            None => Made::Whole(answer),
            Some(receiver) => Made::InPieces(answer.map(|_| Pieces { receiver, _waiting: waiting })),
        });
        Waited { began, outcome, headers }
    }

    /// The same bytes, counted until they are sent. Where there is no room for them, a write that was done says that it was, without them.
    ///
    /// # Errors
    /// `Overloaded` if there is no room for them, and nothing was written.
    pub(super) fn counted(&self, answer: Answer) -> Result<Answer> {
        if answer.body().len() < COUNTED_BYTES {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        match self.answers.count(body) {
            Some(body) => Ok(Answer::from_parts(head, body)),
            None if head.extensions.get::<Written>().is_some() => {
                Ok(handlers::without_content(Answer::from_parts(head, Bytes::new())))
            }
            None => Err(Failure::Overloaded),
        }
    }

    /// Does what may wait in the pool, for an operator: it counts against no limit.
    ///
    /// # Errors
    /// What the job returns; `Overloaded` if the server stops before it has begun.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
    ) -> Result<T> {
        Ok(self.in_pool(Lane::Writing, job).await??)
    }

    /// Does something in the pool of a lane; who asks has a permit for it.
    ///
    /// # Errors
    /// `Panicked`; `Overloaded` if the server stops before it has begun.
    pub(super) async fn in_pool<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.pool(lane).spawn_blocking(job).await;
        done.map_err(|error| match error.is_panic() {
            true => Failure::Panicked("in a job of the pool".to_owned()),
            false => Failure::Overloaded,
        })
    }

    /// Reads a record, or what belongs to one, in the pool: it was not in memory.
    ///
    /// # Errors
    /// What the job returns; `Overloaded` by the limit; `TimedOut`.
    pub(super) async fn read_in_pool<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Permit::take(self, Lane::Reading).ok_or(Failure::Overloaded)?;
        let job = move || job(&permit.crossing.blocking);
        let done = tokio::time::timeout(self.longest_wait, self.in_pool(Lane::Reading, job)).await;
        done.unwrap_or(Err(Failure::TimedOut { waited_ms: self.longest_wait.as_millis() as u64 }))?
    }

    /// Drops in the pool what may block when it is dropped.
    pub(super) fn drop_in_pool(&self, value: impl Send + 'static) {
        self.pools.writing.spawn_blocking(move || drop(value));
    }

    /// Returns when all that was written before was synced.
    ///
    /// # Errors
    /// `Storage` if it cannot be synced.
    pub(super) async fn synced(&self) -> Result<()> {
        when_synced(self.sync()).await
    }

    /// Does what reads much in the pool of lists.
    pub(super) fn scan<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        self.pools.scanning.spawn_blocking(job)
    }

    /// The body that a part of a file is, once it was opened in the pool.
    ///
    /// # Errors
    /// `Storage` if it cannot be opened.
    pub(super) async fn opened(&self, extent: Extent, permit: Permit) -> Result<FileBody> {
        let range = extent.range();
        let job = move || {
            let opened = extent.open();
            drop(permit);
            opened
        };
        match self.pools.reading.spawn_blocking(job).await {
            Ok(opened) => Ok(FileBody::new(opened?, range, self.pools.reading.clone())),
            Err(_) => Err(Failure::Overloaded),
        }
    }

    /// Requests that wait for their bodies or for a pool.
    pub(super) fn waiting(&self) -> usize {
        self.bodies.now() + self.in_flight.iter().map(Gauge::now).sum::<usize>()
    }

    /// Bytes of request bodies in memory.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes.now()
    }
}

/// The outcome of a sync. There is none only when the server stops before.
async fn when_synced(synced: Synced) -> Result<()> {
    match synced.await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(Failure::Overloaded),
    }
}

/// What a handler returns, a panic being a failure like others: the connection, and its other requests, go on.
pub(super) fn caught<T>(handler: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing half changed is seen afterwards: locks and batches are put back by their guards.
    catch_unwind(AssertUnwindSafe(handler)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(Failure::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
    })
}
