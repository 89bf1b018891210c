//! One connection: HTTP/1 or HTTP/2 over it, and its deadlines.
//!
//! Deadlines cost a request nothing but a few stores: a connection notes what happens to it in a [`Watch`], and its worker looks
//! at all of them a few times within the shortest deadline. (Timers of the HTTP library would be made, entered and
//! removed for every request.) So a deadline is kept to within a quarter of itself, or a second.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::acceptor::adopt;
use crate::config::Config;
use crate::ingress::Ingress;

/// How long a connection may take for what.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    /// For the head of a request, from its first byte.
    header: Duration,
    /// Without a request.
    idle: Duration,
    /// For what is in flight when the server stops.
    pub(super) stop: Duration,
}

impl Deadlines {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            header: Duration::from_millis(config.header_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
            stop: Duration::from_millis(config.stop_timeout_ms),
        }
    }

    /// How often to look.
    pub(super) fn tick(&self) -> Duration {
        (self.header.min(self.idle) / 4).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }
}

/// What a worker wants of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    #[default]
    Serve,
    /// Answer what is in flight, and end.
    Finish,
    /// End now.
    Leave,
}

/// What happens on a connection, and what is to happen.
#[derive(Default)]
pub(super) struct Watch {
    /// Requests begun.
    requests: Cell<u64>,
    /// Requests without an answer yet.
    in_flight: Cell<u32>,
    /// Whether bytes came after the last request: the beginning of a head. Over HTTP/2 they say nothing.
    begun: Cell<bool>,
    http2: Cell<bool>,
    order: Cell<Order>,
    /// What the worker saw last, and since when.
    seen: Cell<Option<(u64, bool, Order, Instant)>>,
    waker: RefCell<Option<Waker>>,
}

impl Watch {
    /// Ends the connection if it has been without a request for too long.
    pub(super) fn look_after(&self, now: Instant, deadlines: &Deadlines) {
        let begun = self.begun.get() && !self.http2.get();
        let state = (self.requests.get(), begun, self.order.get());
        let since = match self.seen.get() {
            Some((requests, begun, order, since)) if (requests, begun, order) == state && self.in_flight.get() == 0 => since,
            _ => {
                self.seen.set(Some((state.0, state.1, state.2, now)));
                return;
            }
        };
        let deadline = if begun { deadlines.header } else { deadlines.idle };
        // A client that does not read its last answer keeps a finishing connection open: it has the same time once more.
        if now.duration_since(since) >= deadline {
            self.order(if self.order.get() == Order::Serve { Order::Finish } else { Order::Leave });
        }
    }

    /// Tells the connection what to do, unless it is to do more already.
    pub(super) fn order(&self, order: Order) {
        if order > self.order.get() {
            self.order.set(order);
            if let Some(waker) = self.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }

    fn keep_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

/// A request on a connection, from its head to its answer.
struct InFlight(Rc<Watch>);

impl InFlight {
    fn begin(watch: Rc<Watch>, http2: bool) -> Self {
        watch.requests.set(watch.requests.get() + 1);
        watch.in_flight.set(watch.in_flight.get() + 1);
        watch.http2.set(http2);
        Self(watch)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        // What came meanwhile was the body.
        self.0.begun.set(false);
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(stream: std::net::TcpStream, peer: IpAddr, ingress: Rc<Ingress>, watch: Rc<Watch>) {
    let Ok(stream) = adopt(stream) else { return };
    let mut builder = auto::Builder::new(LocalExecutor);
    // Deadlines are kept by the watch.
    builder.http1().header_read_timeout(None);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
    let requests = Rc::clone(&watch);
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let ingress = Rc::clone(&ingress);
        let in_flight = InFlight::begin(Rc::clone(&requests), request.version() == http::Version::HTTP_2);
        async move {
            let answer = ingress.answer(request, peer).await;
            drop(in_flight);
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(Watched { stream, watch: Rc::clone(&watch) });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut finishing = false;
    std::future::poll_fn(|context| {
        match watch.order.get() {
            Order::Serve => {}
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            Order::Leave => return Poll::Ready(()),
        }
        watch.keep_waker(context.waker());
        // How it ended is the client's affair: it has gone, or was told in HTTP's own words.
        connection.as_mut().poll(context).map(drop)
    })
    .await;
}

/// Runs the tasks of HTTP/2 streams on the worker's thread.
#[derive(Clone)]
struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// A stream that notes when bytes come.
struct Watched {
    stream: TcpStream,
    watch: Rc<Watch>,
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.begun.set(true);
        }
        outcome
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
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

    const DEADLINES: Deadlines =
        Deadlines { header: Duration::from_secs(2), idle: Duration::from_secs(10), stop: Duration::from_secs(1) };

    /// The order after looking at each of these seconds.
    fn order_after(watch: &Watch, start: Instant, seconds: &[u64]) -> Order {
        for second in seconds {
            watch.look_after(start + Duration::from_secs(*second), &DEADLINES);
        }
        watch.order.get()
    }

    #[test]
    fn a_quiet_connection_ends_gently_and_then_firmly() {
        let (watch, start) = (Watch::default(), Instant::now());
        assert_eq!(order_after(&watch, start, &[0, 9]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[10]), Order::Finish);
        assert_eq!(order_after(&watch, start, &[11, 20]), Order::Finish);
        assert_eq!(order_after(&watch, start, &[21]), Order::Leave);
    }

    #[test]
    fn a_head_that_drips_has_less_time() {
        let (watch, start) = (Watch::default(), Instant::now());
        order_after(&watch, start, &[0]);
        watch.begun.set(true);
        assert_eq!(order_after(&watch, start, &[5, 6]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[7]), Order::Finish);
    }

    #[test]
    fn requests_keep_it_open() {
        let (watch, start) = (Rc::new(Watch::default()), Instant::now());
        let request = InFlight::begin(Rc::clone(&watch), false);
        assert_eq!(order_after(&watch, start, &[0, 50, 100]), Order::Serve);
        drop(request);
        assert_eq!(order_after(&watch, start, &[101, 109]), Order::Serve);
        drop(InFlight::begin(Rc::clone(&watch), false));
        assert_eq!(order_after(&watch, start, &[111, 120]), Order::Serve);
        assert_eq!(order_after(&watch, start, &[121]), Order::Finish);
    }
}
