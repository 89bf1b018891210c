//! One connection to the server, made again when it was lost, and one exchange on it.
//!
//! The engine owns its connections one by one; a pool would hide when a request waited for one. What HTTP speaks through, TCP or TLS
//! over it, is made in one place, `connect`.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, watch};

use crate::expectation::Failure;
use crate::scenario::Http;
use crate::tls::Tls;

/// Where the server is, and how it is spoken to.
#[derive(Clone)]
pub struct Target {
    /// The address.
    pub address: SocketAddr,
    /// The addresses of further servers over the same database.
    pub others: Vec<SocketAddr>,
    /// The host and port that requests name.
    pub authority: Authority,
    /// The version.
    pub http: Http,
    /// TLS below it; none is plain TCP.
    pub tls: Option<Tls>,
    /// The reachability of the server.
    pub reach: Arc<Reach>,
    /// Bytes that the system takes in for a connection that is not read; its own choice without it.
    pub receive_bytes: Option<u32>,
}

impl Target {
    /// Returns the server of a connection: they take turns.
    pub fn of(&self, connection: usize) -> Self {
        let turn = connection % (1 + self.others.len());
        let address = turn.checked_sub(1).map_or(self.address, |other| self.others[other]);
        Self { address, ..self.clone() }
    }
}

/// For how long a server gives no response and takes no connection until it counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// The reachability of a server, as all connections to it see it together. What is lost stays lost: after a server has gone, or where
/// this process has no file descriptors left, no run can be believed, however it goes on.
#[derive(Debug)]
pub struct Reach {
    /// Since when no connection could be made and no response came, and why the last one could not.
    failing: Lock<Option<(Instant, String)>>,
    /// So that a response need not take the lock.
    is_failing: AtomicBool,
    lost: watch::Sender<Option<String>>,
    outages: watch::Sender<Outages>,
}

/// The outages of a server that was ended on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// For each time how many requests it met in flight.
    pub met: Vec<u64>,
    /// True if it is being ended: what fails from then on is not its fault.
    pub is_ending: bool,
    /// True if it has not been started again yet: nothing is to be sent.
    pub is_down: bool,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            failing: Lock::default(),
            is_failing: AtomicBool::new(false),
            lost: watch::Sender::new(None),
            outages: watch::Sender::default(),
        }
    }
}

impl Reach {
    /// It can no longer be reached, for a reason. The first reason stays.
    pub fn lose(&self, reason: String) {
        self.lost.send_if_modified(|lost| lost.is_none() && lost.replace(reason).is_none());
    }

    /// Why it can no longer be reached; none if it can.
    pub fn lost(&self) -> Option<String> {
        self.lost.borrow().clone()
    }

    /// Returns true if it can no longer be reached.
    pub fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// Until it can no longer be reached.
    pub async fn until_lost(&self) {
        // The sender is there as long as this is.
        let _ = self.lost.subscribe().wait_for(Option::is_some).await;
    }

    /// Ends it on purpose. Requests are sent until it has ended, so that some are in flight, and none afterwards until it has come back.
    pub fn go_down(&self, end: impl FnOnce()) {
        self.outages.send_modify(|outages| {
            outages.met.push(0);
            outages.is_ending = true;
        });
        end();
        self.outages.send_modify(|outages| (outages.is_ending, outages.is_down) = (false, true));
    }

    /// It has been started again.
    pub fn come_back(&self) {
        self.outages.send_modify(|outages| outages.is_down = false);
    }

    /// Returns its outages so far, with the number of requests that each met.
    pub fn outages(&self) -> Outages {
        self.outages.borrow().clone()
    }

    /// Returns the number of times that it was ended on purpose.
    pub fn times_down(&self) -> usize {
        self.outages.borrow().met.len()
    }

    /// Returns true if a request that began after so many outages was in flight when the server was ended. Then it is counted.
    pub fn has_met(&self, times_down: usize) -> bool {
        self.outages.send_if_modified(|outages| {
            let is_met = outages.met.len() > times_down || outages.is_ending || outages.is_down;
            outages.met.last_mut().filter(|_| is_met).into_iter().for_each(|met| *met += 1);
            is_met
        })
    }

    /// Until it is not down.
    pub async fn until_up(&self) {
        // The sender is there as long as this is.
        let _ = self.outages.subscribe().wait_for(|outages| !outages.is_down).await;
    }

    /// Returns true if it is down on purpose.
    pub fn is_down(&self) -> bool {
        self.outages.borrow().is_down
    }

    /// Why the last connection could not be made; none if there has been a response since.
    pub fn failure(&self) -> Option<String> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, reason)| reason.clone())
    }

    fn failed(&self, address: SocketAddr, error: &io::Error) {
        if self.outages.borrow().is_ending || self.is_down() {
            return;
        }
        if is_shortage(error) {
            self.lose(format!("this process, or the system, has no file descriptors left (ulimit -n): {error}"));
        }
        let reason = format!("no connection to {address}: {error}");
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        self.is_failing.store(true, Ordering::Relaxed);
        if since.elapsed() > LOST_AFTER {
            self.lose(format!("the server has gone: {reason}"));
        }
        *failing = Some((since, reason));
    }

    fn answered(&self) {
        if self.is_failing.load(Ordering::Relaxed) {
            *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }
}

/// Returns true if file descriptors are exhausted: those of this process (EMFILE) or of the system (ENFILE).
fn is_shortage(error: &io::Error) -> bool {
    let missing = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    error.raw_os_error().is_some_and(|code| missing.iter().any(|errno| errno.raw_os_error() == code))
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

type Body = Full<Bytes>;

enum Sender {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

/// A connection for one request at a time, or one of the streams of a connection that others use too.
pub struct Connection {
    target: Target,
    shared: Rc<Mutex<Option<http2::SendRequest<Body>>>>,
    own: RefCell<Option<http1::SendRequest<Body>>>,
}

impl Connection {
    /// A connection, with so many slots to use it.
    pub fn slots(target: &Target, slots: usize) -> Vec<Self> {
        let shared = Rc::new(Mutex::new(None));
        let slot = || Self { target: target.clone(), shared: Rc::clone(&shared), own: RefCell::new(None) };
        std::iter::repeat_with(slot).take(slots).collect()
    }

    /// Makes the connection, if there is none.
    pub async fn open(&self) -> io::Result<()> {
        match self.sender().await? {
            Sender::One(own) => *self.own.borrow_mut() = Some(own),
            Sender::Two(_) => {}
        }
        Ok(())
    }

    /// Sends a request whose target is a path and a query, and reads the answer to its end.
    pub async fn exchange(&self, request: Request<Body>) -> Result<Answer, Failure> {
        let (answer, back) = self.send(request).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Failure::Broken)?.to_bytes();
        // Only now: a connection whose answer was not read to its end is not used again.
        *self.own.borrow_mut() = back;
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Sends such a request, and hands over the answer as it comes, if its status is 200.
    pub async fn stream(&self, request: Request<Body>, take: impl FnMut(&[u8])) -> Result<(), Failure> {
        self.stream_from(request, std::future::ready(()), take).await
    }

    /// The same, but reads the body only after `begin`, which starts when the head has come.
    pub async fn stream_from(
        &self,
        request: Request<Body>,
        begin: impl Future<Output = ()>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let (answer, _) = self.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Status(answer.status().as_u16()));
        }
        begin.await;
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|_| Failure::Broken)?.data_ref().into_iter().for_each(|bytes| take(bytes));
        }
        Ok(())
    }

    /// Sends a request; the head of the answer, and what the next request can be sent by once its body was read.
    async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(http::Response<Incoming>, Option<http1::SendRequest<Body>>), Failure> {
        let sender = self.sender().await.inspect_err(|error| self.target.reach.failed(self.target.address, error));
        let (answer, back) = match sender.map_err(|_| Failure::Connect)? {
            Sender::One(mut own) => {
                let host = HeaderValue::from_str(self.target.authority.as_str()).map_err(|_| Failure::Connect)?;
                request.headers_mut().insert(http::header::HOST, host);
                (own.send_request(request).await, Some(own))
            }
            Sender::Two(mut shared) => {
                let mut parts = std::mem::take(request.uri_mut()).into_parts();
                let scheme = if self.target.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
                (parts.scheme, parts.authority) = (Some(scheme), Some(self.target.authority.clone()));
                *request.uri_mut() = http::Uri::from_parts(parts).map_err(|_| Failure::Connection)?;
                (shared.send_request(request).await, None)
            }
        };
        let answer = answer.map_err(|_| Failure::Connection)?;
        self.target.reach.answered();
        Ok((answer, back))
    }

    /// Returns the sender of the next request: the one that is there, or that of a new connection.
    async fn sender(&self) -> io::Result<Sender> {
        match self.target.http {
            Http::One => {
                let kept = self.own.borrow_mut().take();
                if let Some(mut own) = kept
                    && own.ready().await.is_ok()
                {
                    return Ok(Sender::One(own));
                }
                self.connect().await
            }
            Http::Two => {
                let mut shared = self.shared.lock().await;
                if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
                    return Ok(Sender::Two(sender.clone()));
                }
                let made = self.connect().await?;
                if let Sender::Two(sender) = &made {
                    *shared = Some(sender.clone());
                }
                Ok(made)
            }
        }
    }

    async fn connect(&self) -> io::Result<Sender> {
        let stream = match self.target.receive_bytes {
            None => TcpStream::connect(self.target.address).await?,
            Some(bytes) => {
                let socket = if self.target.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                socket.set_recv_buffer_size(bytes)?;
                socket.connect(self.target.address).await?
            }
        };
        stream.set_nodelay(true)?;
        match &self.target.tls {
            None => self.speak(stream).await,
            Some(tls) => self.speak(tls.connect(stream).await?).await,
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> io::Result<Sender> {
        let stream = TokioIo::new(stream);
        match self.target.http {
            Http::One => {
                let (sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Ok(Sender::One(sender))
            }
            Http::Two => {
                let executor = TokioExecutor::new();
                let (sender, connection) = http2::handshake(executor, stream).await.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Ok(Sender::Two(sender))
            }
        }
    }
}
