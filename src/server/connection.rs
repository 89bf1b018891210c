//! One connection: HTTP/1 or HTTP/2 over it, and its deadlines.
//!
//! Deadlines cost a request only a few stores: a connection records its events in a [`Watch`], and its worker checks all of them a few
//! times within the shortest deadline. (The HTTP library would create, register and remove a timer for every request.) A deadline may thus
//! be late by up to half of itself, or two seconds.
//!
//! No deadline is put off by bytes that are neither a request nor a response (`frames`, `sent`).

mod frames;
mod head;
mod sent;

use std::convert::Infallible;
use std::io::IoSlice;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::config::Config;
use crate::ingress::{Holder, Ingress, waits_to_be_asked};
use crate::tls::Tls;
use head::Head;
use sent::Sent;

/// The deadlines of a connection.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    /// For the head of a request, from its first byte; for the first request, from the beginning of the connection.
    header: Duration,
    /// For a connection without a request, whatever else it sends.
    idle: Duration,
    /// For the client to receive [`TAKEN_BYTES`] of pending responses.
    send: Duration,
    /// The deadline for everything in flight; set when the server stops.
    pub(super) stop: Arc<OnceLock<Instant>>,
}

impl Deadlines {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            header: Duration::from_millis(config.header_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
            send: Duration::from_millis(config.send_timeout_ms),
            stop: Arc::default(),
        }
    }

    /// Returns the interval between checks.
    pub(super) fn tick(&self) -> Duration {
        (self.header.min(self.idle).min(self.send) / 4).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }
}

/// The minimum that a client has to receive of a response within the send deadline.
const TAKEN_BYTES: u64 = 64 << 10;

/// Shorter pieces of a response are not tracked, since tracking would cost more than it saves.
const WATCHED_BYTES: usize = 4 << 10;

/// The maximum of received bytes that are buffered, and thus the maximum length of a head. A fast body fills all of it.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a connection that is to end may be without a request.
const SILENCE: Duration = Duration::from_secs(1);

/// A worker's order to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Order {
    /// Continue.
    Serve,
    /// Answer what has been sent, and have the client go elsewhere with what it has not: the server is about to stop.
    Drain,
    /// Complete the responses in flight, and end.
    Finish,
    /// End immediately.
    Leave,
}

/// The events of a connection, and its orders. All changes but orders are made on one thread: the atomics are written like plain numbers.
/// Others read them when the connection may have to give way.
#[derive(Default)]
pub(super) struct Watch {
    /// The number of requests begun.
    requests: AtomicU64,
    /// Requests without a response, bodies still being read, and responses of unknown length: these have deadlines of their own.
    in_flight: AtomicU32,
    /// Whether bytes arrived after the last request: the beginning of a head. Meaningless over HTTP/2.
    begun: AtomicBool,
    /// The bytes of responses that the socket has accepted.
    response_bytes: AtomicU64,
    /// The number of unsent pieces of responses.
    unsent: AtomicU32,
    /// The time since which something is unsent, and the bytes of responses accepted by then.
    sending: Mutex<Option<(Instant, u64)>>,
    http2: AtomicBool,
    /// An [`Order`].
    order: AtomicU8,
    /// The state last seen by the worker, and the time since which it is unchanged.
    seen: Mutex<Option<(State, Instant)>>,
    /// The waker of the connection's task, from its first run; valid as long as the task exists.
    waker: OnceLock<Waker>,
}

/// The state that does not change while there is no request: requests begun, a head begun, the order. Frames that belong to no request, such
/// as the pings of HTTP/2, do not change it.
type State = (u64, bool, Order);

impl Watch {
    /// Ends the connection if it has been without a request for too long.
    pub(super) fn look_after(&self, now: Instant, deadlines: &Deadlines) {
        self.look_after_sending(now, deadlines);
        let Some((state, without_request)) = self.without_request(now) else { return };
        let (requests, begun, order) = state;
        let longest = match (order, begun, requests) {
            (Order::Serve, true, _) => deadlines.header,
            (Order::Serve, false, 0) => deadlines.header.min(deadlines.idle),
            (Order::Serve, false, _) => deadlines.idle,
            // A client that is silent would not let it end.
            _ => SILENCE,
        };
        if without_request >= longest {
            let is_told = order == Order::Drain && self.http2.load(Relaxed);
            let gently = !begun && !is_told && order < Order::Finish;
            self.order(if gently { Order::Finish } else { Order::Leave });
        }
    }

    /// Returns its state, and for how long it has been the same without anything in flight; `None` if it changed, or something is.
    fn without_request(&self, now: Instant) -> Option<(State, Duration)> {
        let begun = self.begun.load(Relaxed) && !self.http2.load(Relaxed);
        let state = (self.requests.load(Relaxed), begun, self.current());
        let is_busy = self.in_flight.load(Relaxed) > 0 || self.unsent.load(Relaxed) > 0;
        let mut seen = self.seen.lock();
        match *seen {
            Some((known, since)) if known == state && !is_busy => Some((state, now.duration_since(since))),
            _ => {
                *seen = Some((state, now));
                None
            }
        }
    }

    /// Ends the connection if its client receives its responses too slowly.
    fn look_after_sending(&self, now: Instant, deadlines: &Deadlines) {
        let mut sending = self.sending.lock();
        let response_bytes = self.response_bytes.load(Relaxed);
        if self.unsent.load(Relaxed) == 0 {
            *sending = None;
            return;
        }
        let (since, before) = *sending.get_or_insert((now, response_bytes));
        if now.duration_since(since) >= deadlines.send {
            *sending = Some((now, response_bytes));
            if response_bytes - before < TAKEN_BYTES {
                self.order(Order::Leave);
            }
        }
    }

    /// Gives the connection an order, unless it already has a stronger one.
    pub(super) fn order(&self, order: Order) {
        if order > self.current() {
            self.order.store(order as u8, Relaxed);
            if let Some(waker) = self.waker.get() {
                waker.wake_by_ref();
            }
        }
    }

    /// Records bytes of responses that the socket has accepted: a long response is sent long after it was made.
    fn note_response_bytes(&self, bytes: u64) {
        self.response_bytes.store(self.response_bytes.load(Relaxed) + bytes, Relaxed);
    }

    fn current(&self) -> Order {
        match self.order.load(Relaxed) {
            0 => Order::Serve,
            1 => Order::Drain,
            2 => Order::Finish,
            _ => Order::Leave,
        }
    }
}

impl Holder for Watch {
    /// The bytes that its client has taken since it began to wait for it.
    fn rank(&self, _number: u64) -> Option<u64> {
        let before = self.sending.lock().map_or(0, |(_, before)| before);
        Some(self.response_bytes.load(Relaxed) - before)
    }

    fn give_up(&self) {
        self.order(Order::Leave);
    }
}

/// A connection as a holder of a part of the limit of connections. For another client, the one that was longest without a request is given
/// up, then one whose head is not complete; one with something in flight is not.
pub(super) struct Open(Arc<Watch>, Instant);

impl Open {
    pub(super) fn new(watch: &Arc<Watch>) -> Self {
        Self(Arc::clone(watch), Instant::now())
    }
}

impl Holder for Open {
    fn rank(&self, _number: u64) -> Option<u64> {
        let Self(watch, opened) = self;
        if watch.in_flight.load(Relaxed) > 0 || watch.unsent.load(Relaxed) > 0 {
            return None;
        }
        let begun = watch.begun.load(Relaxed) && !watch.http2.load(Relaxed);
        let since = watch.seen.lock().map_or(*opened, |(_, since)| since);
        // Those that wait for longest first: younger ones have a higher rank.
        let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some((u64::from(begun) << 62) + ((1 << 62) - 1 - waited_ms))
    }

    fn give_up(&self) {
        self.0.order(Order::Leave);
    }
}

/// A request in flight, from its head to the end of its response or body.
struct InFlight(Arc<Watch>);

impl InFlight {
    fn begin(watch: Arc<Watch>, http2: bool) -> Self {
        watch.requests.store(watch.requests.load(Relaxed) + 1, Relaxed);
        watch.http2.store(http2, Relaxed);
        Self::one_more(watch)
    }

    fn one_more(watch: Arc<Watch>) -> Self {
        watch.in_flight.store(watch.in_flight.load(Relaxed) + 1, Relaxed);
        Self(watch)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.store(self.0.in_flight.load(Relaxed) - 1, Relaxed);
        // The bytes received meanwhile were the body.
        self.0.begun.store(false, Relaxed);
    }
}

/// The body of a request. A rejected request may have its body read after the response: meanwhile the connection is not idle, and the
/// received bytes are not the head of the next request.
struct RequestBody {
    body: Incoming,
    /// `None` if the body is empty.
    _in_flight: Option<InFlight>,
    /// Whether the client was asked for the body; `None` if it sends it unasked.
    asked: Option<Arc<AtomicBool>>,
}

impl RequestBody {
    fn of(body: Incoming, request: &InFlight, asked: Option<Arc<AtomicBool>>) -> Self {
        let in_flight = (!body.is_end_stream()).then(|| InFlight::one_more(Arc::clone(&request.0)));
        Self { body, _in_flight: in_flight, asked }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(asked) = &self.asked {
            asked.store(true, Relaxed);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An unsent part of a response. The last reference may be dropped on another thread, so this has a counter of its own.
struct Unsent(Arc<Watch>);

impl Unsent {
    fn one_more(watch: &Arc<Watch>) -> Self {
        watch.unsent.fetch_add(1, Relaxed);
        Self(Arc::clone(watch))
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.unsent.fetch_sub(1, Relaxed);
    }
}

/// Bytes of a response, until they are sent.
struct Piece {
    bytes: Bytes,
    _unsent: Unsent,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of a response. The client is being waited for while a piece is ready and not requested, but not while the next piece is
/// requested and not ready.
struct ResponseBody<B> {
    body: B,
    /// `None` if the whole body is one short piece.
    watch: Option<Arc<Watch>>,
    unsent: Option<Unsent>,
    /// `None` if its length is known. Otherwise it may pause for long, and the connection is not idle.
    _in_flight: Option<InFlight>,
}

impl<B: Body<Data = Bytes>> ResponseBody<B> {
    fn of(body: B, request: InFlight) -> Self {
        let bytes = body.size_hint().exact();
        let watch = bytes.is_none_or(|bytes| bytes >= WATCHED_BYTES as u64).then(|| Arc::clone(&request.0));
        let unsent = watch.as_ref().map(Unsent::one_more);
        Self { body, watch, unsent, _in_flight: bytes.is_none().then_some(request) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some(watch) = self.watch.clone() else { return frame };
        self.unsent = frame.is_ready().then(|| Unsent::one_more(&watch));
        frame.map_ok(|frame| {
            frame.map_data(|bytes| match bytes.len() {
                ..WATCHED_BYTES => bytes,
                _ => Bytes::from_owner(Piece { bytes, _unsent: Unsent::one_more(&watch) }),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The means by which a worker serves connections.
#[derive(Clone)]
pub(super) struct Serving {
    /// The ingress of this thread, so that its counters are not shared.
    pub(super) ingress: Arc<Ingress>,
    pub(super) tls: Option<Tls>,
}

impl Serving {
    /// Serves a connection until it ends.
    pub(super) async fn connection(self, stream: std::net::TcpStream, peer: IpAddr, watch: Arc<Watch>) {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        match self.tls {
            None => requests(stream, peer, self.ingress, watch).await,
            Some(tls) => {
                // The handshake has the deadline of a head.
                watch.begun.store(true, Relaxed);
                let handshake = pin!(tls.accept(stream));
                let shaken = until_left(&watch, handshake, |_| {}).await;
                watch.begun.store(false, Relaxed);
                if let Some(Ok(stream)) = shaken {
                    requests(stream, peer, self.ingress, watch).await;
                }
            }
        }
    }
}

/// Serves the requests on a stream.
async fn requests<S>(stream: S, address: IpAddr, ingress: Arc<Ingress>, watch: Arc<Watch>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Deadlines are enforced by the watch.
    builder.http1().header_read_timeout(None).max_buf_size(BUFFER_BYTES);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256).max_header_list_size(BUFFER_BYTES as u32);
    let (requests, connection) = (Arc::clone(&watch), Arc::clone(&watch));
    let peer = ingress.peer(address, Some(connection));
    let head = Head::of(peer.clone(), &watch);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let http2 = request.version() == http::Version::HTTP_2;
        let in_flight = InFlight::begin(Arc::clone(&requests), http2);
        let waits = request.version() == http::Version::HTTP_11 && !request.body().is_end_stream();
        let asked = (waits && waits_to_be_asked(request.headers())).then(Arc::<AtomicBool>::default);
        let response = ingress.respond(request.map(|body| RequestBody::of(body, &in_flight, asked.clone())), &peer);
        async move {
            let mut response = response.await;
            // A body that was not asked for may come or not, so the HTTP library closes the connection (RFC 9110, section 10.1.1).
            let is_unasked = asked.is_some_and(|asked| !asked.load(Relaxed));
            if is_unasked || (!http2 && in_flight.0.current() != Order::Serve) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| ResponseBody::of(body, in_flight)))
        }
    });
    let io = TokioIo::new(Watched { stream, watch: Arc::clone(&watch), head, sent: Sent::default() });
    let connection = pin!(builder.serve_connection(io, service));
    // The outcome concerns only the client: it has disconnected, or was answered by the HTTP library.
    until_left(&watch, connection, |connection| connection.graceful_shutdown()).await;
}

/// Polls a connection until it is done; `None` if it has to end before. `finish` starts its graceful shutdown.
async fn until_left<F: Future>(
    watch: &Watch,
    mut work: Pin<&mut F>,
    mut finish: impl FnMut(Pin<&mut F>),
) -> Option<F::Output> {
    let mut finishing = false;
    std::future::poll_fn(|context| {
        let is_due = match watch.current() {
            Order::Serve => false,
            // A client of HTTP/1 is told by its next response.
            Order::Drain => watch.http2.load(Relaxed),
            Order::Finish => true,
            Order::Leave => return Poll::Ready(None),
        };
        if is_due && !finishing {
            finishing = true;
            finish(work.as_mut());
        }
        watch.waker.get_or_init(|| context.waker().clone());
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// A stream that records received bytes, and sent bytes of responses.
struct Watched<S> {
    stream: S,
    watch: Arc<Watch>,
    head: Head,
    sent: Sent,
}

impl<S> Watched<S> {
    /// Notes what became of sending these pieces.
    fn note_sent(&mut self, outcome: &Poll<std::io::Result<usize>>, pieces: &[IoSlice<'_>]) {
        if let Poll::Ready(Ok(accepted)) = outcome {
            self.head.end();
            self.watch.note_response_bytes(self.sent.response_bytes(*accepted, pieces));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.head.count() {
            self.watch.order(Order::Leave);
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let received = &buffer.filled()[before..];
        if !received.is_empty() {
            self.watch.begun.store(true, Relaxed);
            self.head.note(received);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_sent(&outcome, &[IoSlice::new(bytes)]);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note_sent(&outcome, pieces);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order after checks at each of these seconds.
    fn order_after(watch: &Watch, start: Instant, seconds: &[u64]) -> Order {
        let (header, idle, send) = (Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(20));
        let deadlines = Deadlines { header, idle, send, stop: Arc::default() };
        for second in seconds {
            watch.look_after(start + Duration::from_secs(*second), &deadlines);
        }
        watch.current()
    }

    #[test]
    fn a_quiet_connection_ends_gently_and_then_firmly() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        drop(InFlight::begin(Arc::clone(&watch), false));
        assert_eq!(order_after(&watch, start, &[0, 9]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[10]), Order::Finish);
        assert_eq!(order_after(&watch, start, &[11]), Order::Finish);
        assert_eq!(order_after(&watch, start, &[12]), Order::Leave);
    }

    #[test]
    fn a_head_that_drips_has_less_time() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        drop(InFlight::begin(Arc::clone(&watch), false));
        order_after(&watch, start, &[0]);
        watch.begun.store(true, Relaxed);
        assert_eq!(order_after(&watch, start, &[5, 6]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[7]), Order::Leave);
    }

    #[test]
    fn a_connection_that_never_made_a_request_has_no_more_time_than_a_head() {
        for begun in [false, true] {
            let (watch, start) = (Watch::default(), Instant::now());
            watch.begun.store(begun, Relaxed);
            assert_eq!(order_after(&watch, start, &[0, 1]), Order::Serve);
            // A greeting of HTTP/2, for instance, is none.
            watch.note_response_bytes(0);
            let expected = if begun { Order::Leave } else { Order::Finish };
            assert_eq!(order_after(&watch, start, &[2]), expected);
        }
    }

    #[test]
    fn a_response_that_is_taken_keeps_it_open() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        drop(InFlight::begin(Arc::clone(&watch), false));
        let unsent = Unsent::one_more(&watch);
        assert_eq!(order_after(&watch, start, &[0, 9, 18]), Order::Serve);
        watch.note_response_bytes(TAKEN_BYTES);
        assert_eq!(order_after(&watch, start, &[27, 36]), Order::Serve);
        drop(unsent);
        assert_eq!(order_after(&watch, start, &[37, 45]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[46]), Order::Finish);
    }

    #[test]
    fn at_a_stop_nobody_waits_for_a_silent_client() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        let request = InFlight::begin(Arc::clone(&watch), true);
        watch.order(Order::Drain);
        assert_eq!(order_after(&watch, start, &[0, 1, 60]), Order::Drain, "something is in flight");
        drop(request);
        assert_eq!(order_after(&watch, start, &[60]), Order::Drain);
        assert_eq!(order_after(&watch, start, &[61]), Order::Leave, "it was told at once over HTTP/2");
        let watch = Arc::new(Watch::default());
        watch.order(Order::Drain);
        assert_eq!(order_after(&watch, start, &[0, 1]), Order::Finish);
        assert_eq!(order_after(&watch, start, &[2, 3]), Order::Leave);
    }

    #[test]
    fn a_client_that_takes_too_little_of_a_response_is_left() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        let request = InFlight::begin(Arc::clone(&watch), true);
        let unsent = Unsent::one_more(&watch);
        let take = |bytes| watch.note_response_bytes(bytes);
        assert_eq!(order_after(&watch, start, &[0, 19]), Order::Serve);
        take(TAKEN_BYTES);
        assert_eq!(order_after(&watch, start, &[20, 39]), Order::Serve, "enough in twenty seconds");
        drop(unsent);
        assert_eq!(order_after(&watch, start, &[41, 80]), Order::Serve, "nothing waits for it");
        let _unsent = Unsent::one_more(&watch);
        assert_eq!(order_after(&watch, start, &[81, 100]), Order::Serve);
        take(100);
        assert_eq!(order_after(&watch, start, &[101]), Order::Leave);
        drop(request);
    }

    #[test]
    fn requests_keep_it_open() {
        let (watch, start) = (Arc::new(Watch::default()), Instant::now());
        let request = InFlight::begin(Arc::clone(&watch), false);
        assert_eq!(order_after(&watch, start, &[0, 50, 100]), Order::Serve);
        let body = InFlight::one_more(Arc::clone(&watch));
        drop(request);
        watch.begun.store(true, Relaxed);
        assert_eq!(order_after(&watch, start, &[100, 101, 120]), Order::Serve, "a body is read behind the response");
        drop(body);
        assert_eq!(order_after(&watch, start, &[121, 129]), Order::Serve);
        drop(InFlight::begin(Arc::clone(&watch), false));
        assert_eq!(order_after(&watch, start, &[131, 140]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[141]), Order::Finish);
    }
}
