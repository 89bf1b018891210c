//! Requests in, responses out: the boundary between async code and the blocking layers below.
//!
//! ```text
//! head arrives ─ routing ─┬─ no table's path ─┬─ a static file ── inline from memory, or from disk in the pool
//!                         │                   └─ else ── axum Router (health, counters, metrics, console)
//!                         ├─ a change feed ── subscribed inline, or resumed in the pool; events as they come
//!                         ├─ rejected (404, 405, 406, 415, 400, 413): answered before the body is read
//!                         ├─ a load ─ its body in chunks, each in the pool
//!                         ├─ a multicast ─ its body, then found and committed in the pool; answered when it is taken
//!                         ├─ bytes of a blob ─┬─ read ── the first piece inline or in the pool, the next once the last is sent
//!                         │                   └─ written ── each piece in the pool, the next read once the last is written
//!                         └─ else ─ body, if allowed ─┬─ short work ── inline, on the database that answers only from memory:
//!                                                     │    answered, or waits for a sync, or for a lock and is retried
//!                                                     └─ long work, or not in memory ── pool, on the blocking database
//! ```
//! Requests that a web page must not make are rejected (421, 403; [`browsers`]): most before routing, reads once it is known of what.
//!
//! A hop to another thread costs more than a cached read, so what can be answered from memory is answered inline. A request that finds a
//! key locked is retried when the lock is released, and a strong write is answered when the log is synced; neither blocks a thread. If the
//! data is not in memory ([`WouldBlock`](crate::error::Error::WouldBlock)) or the work is long, the handler runs in its pool. A
//! short response is compressed inline, a longer one in the pool.
//!
//! Incoming bodies, single reads, writes and lists have separate limits, so that they do not delay each other; beyond a limit the response
//! is 503 with `Retry-After`, for bodies before they are read. Requests that do not wait are not counted, because they cannot accumulate;
//! nor is a write that waits only for its sync. A request whose response does not begin before the timeout is answered with 503 and its
//! query is cancelled, as it is when the client disconnects; a write continues. Every response is recorded (`observability`), and so is
//! every client that disconnects before it.
//!
//! Non-goals: connections and their deadlines (`server`); the meaning of a request (`routing`).

mod blob;
mod body;
mod browsers;
mod budget;
mod client;
mod scheduler;
mod events;
mod file;
mod following;
mod labels;
mod limits;
mod loading;
mod multicasting;
mod operations;
mod panics;
mod peer;
mod pending_request;
mod permits;
mod pieces;
mod queue;
mod thumbnail_cache;
mod thumbnails;
mod upload;
mod waiting;
mod wake_ups;

use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{VARY, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{Either, Full};
use hyper::body::Body as _;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::console;
use crate::error::Error;
use crate::feed::{self, Feed, Subscription};
use crate::handlers::{self, Failure, Response};
use crate::multicast::{self, Multicast};
use crate::observability::{self, Context, Observability, Recorder, Span};
use crate::routing::{Changes, Pool, Route, Routes};
use crate::static_files::{self, Content, Site};
use crate::streams::Unfinished;
use crate::transaction::Database;
pub use body::{Source, read as read_body, waits_to_be_asked};
use browsers::Browsers;
pub use browsers::{HostName, Origin};
pub use client::{Client, Network};
use events::{Events, FeedPlace};
pub use limits::{Held, Holder, Holdings, Limited, Limits, Outcomes, rate};
use operations::Operations;
pub use peer::Peer;
use pending_request::PendingRequest;
use permits::{BodyBytes, BodyPermit};
pub use scheduler::Pools;
use scheduler::{Attempt, Completed, Permit, Reply, Scheduler, coded_inline};

/// The body of a response: in memory, or a stream (a file on disk, the output of the axum router).
pub type Body = Either<Full<Bytes>, axum::body::Body>;

/// The limits of requests and responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The maximum size of a body.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub body_bytes: usize,
    /// The maximum size of a blob.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub blob_bytes: usize,
    /// Timeout for a body, and for each 64 KiB of a blob.
    pub body_timeout_ms: u64,
    /// Maximum number of bodies being received.
    pub bodies_in_flight: usize,
    /// Maximum bytes of bodies in memory.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub all_bodies_bytes: usize,
    /// Maximum number of requests of a kind (single reads, writes, lists) waiting for a thread.
    pub requests_in_flight: usize,
    /// Maximum number of appends to streams without a response.
    pub appends_in_flight: usize,
    /// Maximum bytes of their bodies.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub append_bytes_in_flight: usize,
    /// Maximum bytes of unsent responses in memory.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub all_responses_bytes: usize,
    /// Timeout for the beginning of a response, once the body is received, and for a list to find room for its next piece.
    pub request_timeout_ms: u64,
    /// Host names accepted in requests, besides `localhost` and every IP address.
    pub allowed_hosts: Vec<HostName>,
    /// Origins allowed by CORS.
    pub cors_origins: Vec<Origin>,
    /// Proxies that are believed about whose requests they pass on.
    pub trusted_proxies: Vec<Network>,
}

impl Options {
    /// Returns the limits for clients; those that belong to others are set later.
    fn limits(&self) -> Arc<Limits> {
        Limits::new(|limited| match limited {
            Limited::Connections | Limited::DumpThreads => usize::MAX,
            Limited::Bodies => self.bodies_in_flight,
            Limited::BodyBytes => self.all_bodies_bytes.max(self.body_bytes),
            Limited::ResponseBytes => self.all_responses_bytes,
            Limited::Appends => self.appends_in_flight,
            Limited::AppendBytes => self.append_bytes_in_flight,
            Limited::Feeds => feed::Options::default().subscribers,
            Limited::Multicasts => multicast::Options::default().in_flight,
            Limited::Thumbnails => handlers::Options::default().thumbs_in_flight,
            Limited::Reads | Limited::Writes | Limited::Lists | Limited::Dumps => self.requests_in_flight,
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            blob_bytes: 5 << 30,
            body_timeout_ms: 30_000,
            bodies_in_flight: 8192,
            all_bodies_bytes: 256 << 20,
            requests_in_flight: 1024,
            appends_in_flight: 10_000,
            append_bytes_in_flight: 64 << 20,
            all_responses_bytes: 256 << 20,
            request_timeout_ms: 30_000,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            trusted_proxies: Vec::new(),
        }
    }
}

/// Answers requests. Each worker thread has its own, from [`Ingress::for_thread`]; they share everything except the memory of their
/// counters.
pub struct Ingress {
    scheduler: Arc<Scheduler>,
    operations: Operations,
    files: Option<Arc<Site>>,
    checkpoints: Option<Arc<Path>>,
    feed: Feed,
    multicast: Multicast,
    /// Places for messages whose senders are answered and whose targets are not counted yet.
    answered_multicasts: Arc<Semaphore>,
    observability: Arc<Observability>,
    recorder: Recorder,
    browsers: Browsers,
    options: Options,
}

impl Ingress {
    /// Creates an ingress for a database; blocking work runs in `pools` (`spawn_blocking`).
    ///
    /// # Errors
    /// As [`Routes::new`].
    pub fn new(
        database: Database,
        handlers: handlers::Options,
        options: Options,
        pools: impl Into<Pools>,
    ) -> crate::error::Result<Self> {
        Ok(Self::over(Routes::new(database.clone(), handlers)?, database, options, pools))
    }

    /// The same over the routes of a database.
    pub fn over(routes: Routes, database: Database, options: Options, pools: impl Into<Pools>) -> Self {
        let observability = Arc::new(Observability::counting(labels::names(&routes)));
        let feed = Feed::new(database.clone(), unlimited(feed::Options::default()), handlers::write_event);
        let limits = options.limits();
        let scheduler = Arc::new(Scheduler::new(database, routes, &options, limits, pools.into()));
        let multicast = Multicast::new(feed, multicast::Options::default());
        Self::of(scheduler, None, None, multicast, observability, options)
    }

    fn of(
        scheduler: Arc<Scheduler>,
        files: Option<Arc<Site>>,
        checkpoints: Option<Arc<Path>>,
        multicast: Multicast,
        observability: Arc<Observability>,
        options: Options,
    ) -> Self {
        let multicast = multicast.with_registry(scheduler.routes().registry().cloned());
        let (feed, recorder, browsers) = (multicast.feed().clone(), observability.recorder(), Browsers::new(&options));
        let (checkpoint_dir, counting) = (checkpoints.clone(), Arc::clone(&observability));
        let operations = Operations::new(Arc::clone(&scheduler), checkpoint_dir, multicast.clone(), counting);
        let answered_multicasts = Arc::new(Semaphore::new(multicast.options().in_flight));
        Self {
            scheduler,
            operations,
            files,
            checkpoints,
            feed,
            multicast,
            answered_multicasts,
            observability,
            recorder,
            browsers,
            options,
        }
    }

    /// Adds static files.
    #[must_use]
    pub fn with_files(self, files: Site) -> Self {
        Self { files: Some(Arc::new(files)), ..self }
    }

    /// Sets the directory in which checkpoints of the store are made on request.
    #[must_use]
    pub fn with_checkpoints(self, directory: &Path) -> Self {
        let checkpoints = Some(Arc::from(directory));
        Self::of(self.scheduler, self.files, checkpoints, self.multicast, self.observability, self.options)
    }

    /// Sets the limits of the change feed and of multicasts, and starts the transports of these.
    ///
    /// # Errors
    /// As [`Multicast::start`].
    pub fn with_feed(self, options: feed::Options, multicasts: multicast::Options) -> crate::error::Result<Self> {
        self.limits().set(Limited::Feeds, options.subscribers);
        self.limits().set(Limited::Multicasts, multicasts.in_flight);
        let feed = Feed::new(self.scheduler.database().clone(), unlimited(options), handlers::write_event);
        let multicast = Multicast::start(feed, multicasts)?;
        Ok(Self::of(self.scheduler, self.files, self.checkpoints, multicast, self.observability, self.options))
    }

    /// Sets up the access log and timings.
    ///
    /// # Errors
    /// `Storage` if the access log cannot be opened.
    pub fn with_observability(self, options: &observability::Options) -> crate::error::Result<Self> {
        let observability = Observability::start(options, labels::names(self.scheduler.routes()))?;
        let observability = Arc::new(observability);
        Ok(Self::of(self.scheduler, self.files, self.checkpoints, self.multicast, observability, self.options))
    }

    /// Returns an ingress for another thread; its counts are added to the same totals, but kept in separate memory.
    #[must_use]
    pub fn for_thread(&self) -> Self {
        Self {
            scheduler: Arc::clone(&self.scheduler),
            operations: self.operations.clone(),
            files: self.files.clone(),
            checkpoints: self.checkpoints.clone(),
            feed: self.feed.clone(),
            multicast: self.multicast.clone(),
            answered_multicasts: Arc::clone(&self.answered_multicasts),
            observability: Arc::clone(&self.observability),
            recorder: self.observability.recorder(),
            browsers: Browsers::new(&self.options),
            options: self.options.clone(),
        }
    }

    /// Opens the file of the access log again, if there is one.
    ///
    /// # Errors
    /// As [`Observability::reopen_log`].
    pub fn reopen_log(&self) -> crate::error::Result<()> {
        self.observability.reopen_log()
    }

    /// Returns the limits that clients share.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.scheduler.limits
    }

    /// Returns the other end of a connection, which is given up if its client holds too many bytes of responses that it does not take.
    pub fn peer(&self, address: IpAddr, connection: Option<Arc<dyn Holder>>) -> Peer {
        Peer::new(&self.scheduler.limits, address, connection)
    }

    /// Sets whether `/_ready` reports that clients may be routed to this server.
    pub fn set_ready(&self, ready: bool) {
        self.operations.set_ready(ready);
    }

    /// Ends all change feeds, which would not end by themselves, and what waits for an event.
    pub fn end_feeds(&self) {
        self.feed.stop();
        self.scheduler.routes().streams().stop();
    }

    /// Closes the access log, if this is the last ingress of its threads; waits at most `longest` for pending lines to be written.
    pub fn close(self, longest: Duration) {
        let observability = Arc::clone(&self.observability);
        drop(self);
        observability.close(longest);
    }

    /// Answers one request that came from the address `peer`. Every request gets a response.
    ///
    /// If nothing has to be awaited, the response is made within this call, and its future is a plain value without an allocation.
    pub fn respond<B: Source>(self: &Arc<Self>, request: Request<B>, peer: &Peer) -> ResponseFuture {
        let (parts, body) = request.into_parts();
        let passed_on = self.passed_on(&parts, peer);
        let peer = passed_on.as_ref().unwrap_or(peer);
        if !self.browsers.allow_origins() {
            return self.respond_to(parts, body, peer);
        }
        let cors = self.browsers.cors(&parts);
        let response = self.respond_to(parts, body, peer);
        ResponseFuture::later(async move {
            let mut response = response.await;
            cors.write(response.headers_mut());
            response
        })
    }

    /// Returns who asks through a trusted proxy, if one has passed the request on. Its connection is not given up for other clients: it may
    /// carry requests of several.
    fn passed_on(&self, parts: &Parts, peer: &Peer) -> Option<Peer> {
        if self.options.trusted_proxies.is_empty() {
            return None;
        }
        let client = Client::of(peer.address(), &parts.headers, &self.options.trusted_proxies);
        let is_other = client != Client::at(peer.address());
        is_other.then(|| Peer::of_client(self.limits(), client, peer.address()))
    }

    fn respond_to<B: Source>(self: &Arc<Self>, parts: Parts, body: B, peer: &Peer) -> ResponseFuture {
        let client = || Client::of(peer.address(), &parts.headers, &self.options.trusted_proxies).address();
        let mut context = self.recorder.begin(&parts, client);
        let framed = body.is_over() || body::is_understood(&parts.headers);
        let admitted = if framed { self.browsers.admit(&parts) } else { Err(Failure::TransferCoding) };
        if let Err(failure) = admitted {
            self.discard_body(&parts, body);
            let head = parts.method == Method::HEAD;
            return ResponseFuture::Now(Some(self.response_for(Err(failure), head, context, &parts.headers, peer)));
        }
        if matches!(parts.method, Method::POST | Method::PUT | Method::PATCH) {
            let request = PendingRequest::new(self, context, peer);
            return ResponseFuture::later(respond_with_body(request, parts, body));
        }
        self.discard_body(&parts, body);
        let outcome = match self.resolve(&parts, &mut context) {
            None => return self.respond_beside(parts, peer, context),
            Some(Err(failure)) => Err(failure),
            Some(Ok(route)) if let Some(changes) = route.follows().cloned() => {
                let request = PendingRequest::new(self, context, peer);
                return ResponseFuture::later(respond_with_changes(request, parts, changes));
            }
            Some(Ok(route)) if let Some((stream, followed)) = route.subscribes() => {
                let request = PendingRequest::new(self, context, peer);
                return ResponseFuture::later(following::respond_with_events(request, parts, stream, followed));
            }
            Some(Ok(route)) if let Some(wait) = route.waits() => {
                let mut request = PendingRequest::new(self, context, peer);
                request.of_stream = route.begun();
                return ResponseFuture::later(waiting::respond_at_end(request, parts, wait));
            }
            Some(Ok(ref route)) if let Some(blob) = route.blob() => {
                return match blob.thumbnail {
                    None => self.respond_with_blob(blob, &parts.headers, context, peer),
                    Some(spec) => self.respond_with_thumbnail(blob, spec, &parts.headers, context, peer),
                };
            }
            Some(Ok(route)) => match (route.begun(), self.scheduler.attempt(&route, &parts.headers, b"")) {
                (of_stream, Attempt::Done(outcome)) => {
                    self.count_of_stream(of_stream, &outcome);
                    outcome
                }
                (of_stream, attempt) => {
                    context.mark(Span::Handler);
                    let mut request = PendingRequest::new(self, context, peer);
                    request.of_stream = of_stream;
                    let held = BodyBytes::none(peer);
                    return ResponseFuture::later(respond_later(request, parts, Bytes::new(), held, attempt));
                }
            },
        };
        let head = parts.method == Method::HEAD;
        ResponseFuture::Now(Some(self.response_for(outcome, head, context, &parts.headers, peer)))
    }

    /// Answers a request beside the tables: a static file, or an operational endpoint.
    fn respond_beside(self: &Arc<Self>, parts: Parts, peer: &Peer, mut context: Context) -> ResponseFuture {
        let file = self.files.as_ref().and_then(|files| files.respond(&parts.method, &parts.uri, &parts.headers));
        if let Some(outcome) = file {
            context.set_route(labels::STATIC);
            return self.respond_with_file(outcome, context, parts.headers, peer);
        }
        if parts.uri.path().starts_with("/_")
            && let Err(failure) = self.browsers.admit_to_data(&parts)
        {
            context.set_route(labels::beside(parts.uri.path()));
            let head = parts.method == Method::HEAD;
            return ResponseFuture::Now(Some(self.response_for(Err(failure), head, context, &parts.headers, peer)));
        }
        if let Some(response) = self.to_console(&parts, peer.address()) {
            context.set_route(labels::beside(console::PATH));
            return ResponseFuture::Now(Some(self.response_for(Ok(response), false, context, &parts.headers, peer)));
        }
        context.set_route(labels::beside(parts.uri.path()));
        context.mark(Span::Routing);
        let has_page = match &self.files {
            Some(files) => files.has_page(&parts.method, &parts.uri),
            None => parts.uri.path() == "/",
        };
        let (request, peer) = (PendingRequest::new(self, context, peer), peer.clone());
        ResponseFuture::later(async move {
            let (head, headers) = (parts.method == Method::HEAD, parts.headers.clone());
            let mut response = match request.ingress.operations.respond(parts, &peer).await {
                // Not counted: an operator wants to know of a server without memory, too.
                Ok(response) => {
                    let response = if head { handlers::without_body(response) } else { response };
                    request.finish(response.map(|bytes| Either::Left(Full::new(bytes))))
                }
                Err(failure) => request.response_for(Err(failure), head, &headers),
            };
            if has_page {
                response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
            }
            response
        })
    }

    /// Redirects a browser on this machine to the console, if no static site is served.
    fn to_console(&self, parts: &Parts, peer: IpAddr) -> Option<Response> {
        let may = self.files.is_none() && client::is_local(peer, &parts.headers);
        if may { console::redirection(&parts.method, &parts.uri, &parts.headers) } else { None }
    }

    fn respond_with_file(
        self: &Arc<Self>,
        outcome: handlers::Result<static_files::Response>,
        mut context: Context,
        headers: HeaderMap,
        peer: &Peer,
    ) -> ResponseFuture {
        let outcome = match outcome.map(Response::into_parts) {
            Ok((head, Content::Memory(bytes))) => Ok(Response::from_parts(head, bytes)),
            Ok((head, Content::Disk(extent))) => match Permit::take(&self.scheduler, peer, Pool::Reading) {
                Some(permit) => {
                    context.mark(Span::Handler);
                    let request = PendingRequest::new(self, context, peer);
                    return ResponseFuture::later(async move {
                        match request.ingress.scheduler.opened(extent, permit).await {
                            Ok(body) => {
                                let body = Either::Right(axum::body::Body::new(body));
                                request.finish(Response::from_parts(head, body))
                            }
                            Err(failure) => request.response_for(Err(failure), false, &headers),
                        }
                    });
                }
                None => Err(Failure::Overloaded),
            },
            Err(failure) => Err(failure),
        };
        ResponseFuture::Now(Some(self.response_for(outcome, false, context, &headers, peer)))
    }

    /// Subscribes; what has to be read first, missed events or a record that is held, is read in the pool.
    async fn subscribed(&self, changes: Changes, peer: &Peer) -> handlers::Result<Subscription> {
        let Changes { topic, after, holds } = changes;
        let (feed, waited_ms) = (self.feed.clone(), self.options.request_timeout_ms);
        let (pool, job): (_, Box<dyn FnOnce() -> _ + Send>) = match (holds, after) {
            (false, None) => return Ok(feed.subscribe(topic)?),
            (false, Some(after)) => (Pool::Scanning, Box::new(move || feed.resume(topic, after))),
            (true, None) => (Pool::Reading, Box::new(move || feed.hold(topic, None))),
            (true, after) => (Pool::Scanning, Box::new(move || feed.hold(topic, after))),
        };
        let permit = Permit::take(&self.scheduler, peer, pool).ok_or(Failure::Overloaded)?;
        let subscribed = permit.in_pool(move |_| job());
        let subscribed = tokio::time::timeout(Duration::from_millis(waited_ms), subscribed).await;
        Ok(subscribed.unwrap_or(Err(Failure::TimedOut { waited_ms }))??)
    }

    /// Resolves a request whose path is a table's, unless a web page must not make it.
    fn resolve<'r>(&'r self, parts: &'r Parts, context: &mut Context) -> Option<handlers::Result<Route<'r>>> {
        let routes = self.scheduler.routes();
        let route = routes.resolve(&parts.method, &parts.uri, &parts.headers);
        let template = match &route {
            None => return None,
            Some(Ok(route)) => Some(route.template()),
            Some(Err(_)) => routes.template_of(&parts.uri),
        };
        context.set_route(template.map_or(labels::OTHER, labels::of));
        context.mark(Span::Routing);
        let admitted = match template {
            Some(template) if routes.is_of_blobs(template) => Browsers::admit_to_upload(parts),
            _ => self.browsers.admit_to_data(parts),
        };
        match admitted {
            Ok(()) => route,
            Err(failure) => Some(Err(failure)),
        }
    }

    /// Reads the body of a request within all limits. Most are short and have arrived with their heads: these need no permit to arrive.
    async fn read<B: Source>(
        &self,
        route: &Route<'_>,
        parts: &Parts,
        mut body: B,
        context: &mut Context,
        peer: &Peer,
    ) -> handlers::Result<(Bytes, BodyBytes)> {
        let appends = route.appends();
        let limit_bytes = match appends {
            true => self.options.body_bytes.min(self.options.append_bytes_in_flight),
            false if route.is_multicast() => self.options.body_bytes.min(self.multicast.options().bytes),
            false => self.options.body_bytes,
        };
        let announced = body.least_bytes();
        if announced > limit_bytes as u64 {
            return self.refuse(Failure::TooLarge { limit_bytes }, parts, body);
        }
        let first = body::at_hand(&mut body, &parts.headers)?;
        let (read, mut held) = if body.is_over() {
            let mut held = BodyBytes::none(peer);
            if appends && !held.begin_append(first.len()) {
                return Err(Failure::Overloaded);
            }
            (body::single(first, limit_bytes, |bytes| held.grow(bytes)), held)
        } else if let Some(permit) = BodyPermit::take(peer) {
            let mut held = permit.bytes(peer);
            if appends && !held.begin_append(announced as usize) {
                return self.refuse(Failure::Overloaded, parts, body);
            }
            // Boxed, so that requests with short bodies are moved as less memory.
            (Box::pin(self.read_rest(first, &mut body, limit_bytes, &permit, &mut held)).await, held)
        } else {
            return self.refuse(Failure::Overloaded, parts, body);
        };
        context.mark(Span::Body);
        if let Err(Failure::TooLarge { .. }) = read {
            self.discard_rest(body);
        }
        let bytes = read?;
        context.add_bytes_in(bytes.len());
        match route.has_gzip() {
            false => Ok((bytes, held)),
            true => Ok((Box::pin(self.scheduler.inflated(bytes, limit_bytes, &mut held)).await?, held)),
        }
    }

    /// Reads the rest of a body, unless it is given up for another client.
    async fn read_rest(
        &self,
        first: Bytes,
        body: &mut impl Source,
        limit_bytes: usize,
        permit: &BodyPermit,
        held: &mut BodyBytes,
    ) -> handlers::Result<Bytes> {
        let waited_ms = self.options.body_timeout_ms;
        let read = body::read_within(first, body, limit_bytes, |bytes| {
            permit.arriving.note(bytes);
            held.grow(bytes)
        });
        let read = permit.arriving.unless_given_up(read);
        let read = tokio::time::timeout(Duration::from_millis(waited_ms), read).await;
        read.unwrap_or(Err(Failure::TooSlow { waited_ms }))
    }

    /// Rejects a request before its body is read.
    fn refuse<B: Source, T>(&self, failure: Failure, parts: &Parts, body: B) -> handlers::Result<T> {
        self.discard_body(parts, body);
        Err(failure)
    }

    /// Discards an unwanted body, unless the client waits for `100 Continue` and so will not send it.
    fn discard_body<B: Source>(&self, parts: &Parts, body: B) {
        if !body.is_over() && !waits_to_be_asked(&parts.headers) {
            self.discard_rest(body);
        }
    }

    /// Discards the rest of a body after the response, within limits: a client that writes before it reads would otherwise see a closed
    /// connection instead of the response.
    fn discard_rest<B: Source>(&self, body: B) {
        let deadline = Duration::from_millis(self.options.body_timeout_ms);
        tokio::spawn(tokio::time::timeout(deadline, body::discard(body)));
    }

    /// Counts the outcome of a request to a stream.
    fn count_of_stream(&self, request: Option<Unfinished>, outcome: &handlers::Result<Response>) {
        let Some(request) = request else { return };
        let (streams, failure) = (self.scheduler.routes().streams(), outcome.as_ref().err());
        streams.answered(request, failure.map(Failure::name));
        let is_refused = failure.is_some_and(|failure| matches!(failure.status().as_u16(), 503 | 507));
        if request.appends() && is_refused {
            streams.counts().refused.add(1);
        }
    }

    /// Returns the response for an outcome, without its body if only the head was requested.
    fn response_for(
        &self,
        mut outcome: handlers::Result<Response>,
        head: bool,
        context: Context,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Response<Body> {
        if let Ok(response) = &mut outcome
            && let Err(failure) = Scheduler::count(response, peer)
        {
            outcome = Err(failure);
        }
        let response =
            outcome.unwrap_or_else(|failure| coded_inline(self.problem(&failure, &context, headers), headers));
        let response = if head { handlers::without_body(response) } else { response };
        let response = response.map(|bytes| Either::Left(Full::new(bytes)));
        self.finish(&response, context);
        response
    }

    /// Returns the response for a failure. An internal error has the request id, under which the log has the cause.
    fn problem(&self, failure: &Failure, context: &Context, headers: &HeaderMap) -> Response {
        if !failure.is_internal() {
            return failure.respond(None);
        }
        let request_id = self.recorder.identity(context, headers).to_string();
        tracing::error!("request {request_id} failed: {failure}");
        failure.respond(Some(&request_id))
    }

    /// Records a response that is sent as one piece; a response in pieces is recorded when its body is dropped.
    fn finish(&self, response: &Response<Body>, mut context: Context) {
        context.mark(Span::Handler);
        self.recorder.finish(context, response.status(), response.body().size_hint().lower());
    }
}

/// Answers a request that may have a body. Whatever may last is boxed, so that other requests are moved as less memory.
async fn respond_with_body<B: Source>(mut request: PendingRequest, parts: Parts, body: B) -> Response<Body> {
    let (ingress, peer) = (Arc::clone(&request.ingress), request.peer.clone());
    let outcome = match ingress.resolve(&parts, request.context()) {
        None => {
            ingress.discard_body(&parts, body);
            let (ingress, context) = request.into_parts();
            return ingress.respond_beside(parts, &peer, context).await;
        }
        Some(Err(failure)) => ingress.refuse(failure, &parts, body),
        Some(Ok(ref route)) if let Some(blob) = route.blob() => {
            Box::pin(ingress.receive(blob, &parts, body, request.context(), &peer)).await
        }
        Some(Ok(ref route)) if route.is_multicast() => {
            Box::pin(ingress.multicast(route, &parts, body, request.context(), &peer)).await
        }
        Some(Ok(route)) => match route.load(ingress.options.body_bytes) {
            Some((table, load)) => {
                let loaded = Box::pin(ingress.load(table, load, &parts, body, request.context(), &peer)).await;
                loaded.and_then(|load| route.loaded(&load))
            }
            None => {
                request.of_stream = route.begun();
                match ingress.read(&route, &parts, body, request.context(), &peer).await {
                    Err(failure) => Err(failure),
                    Ok((body, held)) => match ingress.scheduler.attempt(&route, &parts.headers, &body) {
                        Attempt::Done(outcome) => outcome,
                        attempt => {
                            request.context().mark(Span::Handler);
                            return Box::pin(respond_later(request, parts, body, held, attempt)).await;
                        }
                    },
                }
            }
        },
    };
    request.response_for(outcome, false, &parts.headers)
}

/// Answers with a change feed.
async fn respond_with_changes(mut request: PendingRequest, parts: Parts, changes: Changes) -> Response<Body> {
    let ingress = Arc::clone(&request.ingress);
    if parts.method == Method::HEAD {
        return request.finish(handlers::event_stream(Either::Left(Full::default())));
    }
    let Some(place) = FeedPlace::take(&request.peer) else {
        let detail = "there are as many change feeds as there may be (--feed-subscribers)".to_owned();
        return request.response_for(Err(Error::Busy { detail }.into()), false, &parts.headers);
    };
    let subscription = ingress.subscribed(changes, &request.peer).await;
    request.context().mark(Span::Pool);
    match subscription {
        Ok(subscription) => {
            let events = Events::new(subscription, place, Arc::clone(&ingress.scheduler), request.peer.clone());
            request.sent_in_pieces(handlers::event_stream(events))
        }
        Err(failure) => request.response_for(Err(failure), false, &parts.headers),
    }
}

/// Answers a request that could not be completed inline.
async fn respond_later(
    mut request: PendingRequest,
    parts: Parts,
    body: Bytes,
    held: BodyBytes,
    attempt: Attempt,
) -> Response<Body> {
    let head = parts.method == Method::HEAD;
    let waited_ms = request.ingress.options.request_timeout_ms;
    let scheduler = Arc::clone(&request.ingress.scheduler);
    let peer = request.peer.clone();
    let completed = scheduler.complete(parts, body, held, attempt, &peer);
    match tokio::time::timeout(Duration::from_millis(waited_ms), completed).await {
        Ok(Completed { began, outcome, headers }) => {
            request.context().mark_at(Span::Pool, began);
            match outcome {
                Ok(Reply::InPieces(response)) if head => {
                    request.finish(response.map(|_| Either::Left(Full::default())))
                }
                Ok(Reply::InPieces(response)) => request.sent_in_pieces(response),
                Ok(Reply::Whole(response)) => request.response_for(Ok(response), head, &headers),
                Err(failure) => request.response_for(Err(failure), head, &headers),
            }
        }
        Err(_) => request.response_for(Err(Failure::TimedOut { waited_ms }), head, &HeaderMap::new()),
    }
}

/// Has no browser guess another media type than the one that stands there.
fn set_nosniff(response: &mut Response<Body>) {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Returns the options of a feed whose subscribers are limited here, by client.
fn unlimited(options: feed::Options) -> feed::Options {
    feed::Options { subscribers: usize::MAX, ..options }
}

/// A future response, either ready or pending.
pub enum ResponseFuture {
    /// Ready; taken when it is polled.
    Now(Option<Response<Body>>),
    /// Pending: reads a body, or runs in the pool.
    Later(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
}

impl ResponseFuture {
    fn later(response: impl Future<Output = Response<Body>> + Send + 'static) -> Self {
        Self::Later(Box::pin(response))
    }
}

impl Future for ResponseFuture {
    type Output = Response<Body>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Response<Body>> {
        match self.get_mut() {
            Self::Now(response) => {
                set_nosniff(response.as_mut().expect("a completed future is not polled again"));
                Poll::Ready(response.take().expect("seen just now"))
            }
            Self::Later(response) => response.as_mut().poll(context).map(|mut response| {
                set_nosniff(&mut response);
                response
            }),
        }
    }
}

#[cfg(test)]
mod tests;
