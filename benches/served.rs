//! Requests over TCP: a plain client, and the floor that can answer it. A module of the benches, not a target.
//!
//! The floor is bare hyper on one current-thread runtime, with the raw path of RocksDB in the handler: the minimum work of any server on
//! these libraries. A service of another framework can take its place. Client and server share the process, so the server's cost is read
//! from the CPU clocks of its threads.
#![allow(dead_code, reason = "each target starts what its rows need")]

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use strata::config::Config;
use strata::server::Server;
use strata::tls::Mode;
use strata_harness::{State, ThreadClock, refused};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::floor::Raw;
use crate::prepared::Ours;

/// One connection that is kept alive.
pub struct Client {
    stream: Box<dyn Stream>,
    response: Vec<u8>,
}

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(Box::new(tcp(address)))
    }

    /// Connects over TLS, as rustls and the server agree, to a server with this certificate.
    fn connect_tls(address: SocketAddr, certificate: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(certificate).expect("the server has written it");
        roots.add(certificate).expect("a certificate");
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("ring has their suites").with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::from(address.ip());
        let connection = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
        Self::over(Box::new(StreamOwned::new(connection, tcp(address))))
    }

    fn over(stream: Box<dyn Stream>) -> Self {
        Self { stream, response: vec![0; 64 << 10] }
    }

    /// Sends a request and reads the whole response; returns its status and the length of its body.
    pub fn exchange(&mut self, request: &[u8]) -> (u16, usize) {
        self.stream.write_all(request).expect("the server reads");
        let (mut filled, mut wanted) = (0, None);
        while wanted.is_none_or(|(_, end)| filled < end) {
            let read = self.stream.read(&mut self.response[filled..]).expect("the server answers");
            assert!(read > 0, "the server has closed the connection");
            filled += read;
            wanted = wanted.or_else(|| ends(&self.response[..filled]));
        }
        let (body, end) = wanted.expect("the loop has found it");
        if self.response[9] == b'5' {
            refused(&String::from_utf8_lossy(&self.response[body..end]));
        }
        let status = std::str::from_utf8(&self.response[9..12]).ok().and_then(|status| status.parse().ok());
        (status.expect("a status line"), end - body)
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("an option of TCP");
    stream
}

/// Where the body begins and ends, once the head is complete.
fn ends(response: &[u8]) -> Option<(usize, usize)> {
    let body = response.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&response[..body]).expect("a head is ASCII").to_ascii_lowercase();
    let (_, rest) = head.split_once("content-length: ").expect("a length");
    let length: usize = rest.split_once('\r').and_then(|(digits, _)| digits.parse().ok()).expect("a number");
    Some((body, body + length))
}

/// The threads of a Strata server that work on requests: workers and pools, as `server` names them; not the acceptor, nor background work.
const THREADS: [&str; 8] = [
    "strata-worker-",
    "strata-reading",
    "strata-writing",
    "strata-scanning",
    "strata-dumping",
    "strata-uploading",
    "strata-picturing",
    "strata-syncing",
];

/// The CPU clock of a Strata server, the only one in the process.
pub fn clock() -> ThreadClock {
    ThreadClock::of(&THREADS)
}

/// A Strata server over a prepared store.
pub struct Served {
    server: Server,
    clock: ThreadClock,
    // Closed after the server.
    store: Ours,
    /// Contains the certificate, if it uses TLS.
    folder: TempDir,
}

impl Served {
    pub fn start(store: Ours) -> Self {
        Self::start_with(store, None)
    }

    /// A server with TLS and a self-signed certificate.
    pub fn start_tls(store: Ours) -> Self {
        Self::start_with(store, Some(Mode::SelfSigned))
    }

    fn start_with(store: Ours, mode: Option<Mode>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), workers: 1, ..Config::default() };
        (config.data_dir, config.tls.mode) = (folder.path().to_owned(), mode);
        let server = Server::over(store.database.clone(), &config).expect("a free port");
        Self { server, clock: clock(), store, folder }
    }

    /// A client with the protocol of the server.
    pub fn client(&self) -> Client {
        let (scheme, address) = self.server.url().split_once("://").expect("a URL");
        let address = address.parse().expect("the server's own address");
        match scheme {
            "https" => Client::connect_tls(address, &self.folder.path().join("tls/certificate.pem")),
            _ => Client::connect(address),
        }
    }
}

impl State for Served {
    fn settle(&self) {
        self.store.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.store.counters()
    }

    fn verify(&self, operations: u64) {
        self.store.verify(operations);
    }

    fn cpu(&self) -> Option<Duration> {
        Some(self.clock.read())
    }
}

/// The name of the only thread of [`Bare`].
const BARE: &str = "bare-hyper";

/// Bare hyper over a raw store.
pub struct Bare {
    pub address: SocketAddr,
    raw: Arc<Raw>,
    clock: ThreadClock,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bare {
    /// Answers each request with `handler`, which gets its head and its whole body.
    pub fn start<H>(raw: Raw, handler: impl Fn(Arc<Raw>) -> H + Send + 'static) -> Self
    where
        H: FnMut(&http::request::Parts, &[u8]) -> Response<Full<Bytes>> + Clone + 'static,
    {
        Self::serve(raw, move |raw| {
            let handler = handler(raw);
            service_fn(move |request: Request<Incoming>| {
                let mut handler = handler.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                    Ok(handler(&parts, &body))
                }
            })
        })
    }

    /// Answers each request with a service.
    pub fn serve<S, B>(raw: Raw, service: impl FnOnce(Arc<Raw>) -> S + Send + 'static) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
        B: Body<Error: std::error::Error + Send + Sync> + 'static,
    {
        let (raw, (ready, started)) = (Arc::new(raw), mpsc::channel());
        let (stop, stopping) = watch::channel(false);
        let for_thread = Arc::clone(&raw);
        let thread = std::thread::Builder::new().name(BARE.to_owned()).spawn(move || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            listener.set_nonblocking(true).expect("an option of sockets");
            let address = listener.local_addr().expect("a bound socket");
            ready.send(address).expect("somebody waits");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, accept(listener, service(for_thread), stopping));
        });
        let address = started.recv().expect("the thread starts");
        Self { address, raw, clock: ThreadClock::of(&[BARE]), stop, thread: Some(thread.expect("it has started")) }
    }
}

async fn accept<S, B>(listener: TcpListener, service: S, mut stopping: watch::Receiver<bool>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: Body<Error: std::error::Error + Send + Sync> + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listening socket");
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.expect("a connection").0,
            _ = stopping.changed() => return,
        };
        stream.set_nodelay(true).expect("an option of TCP");
        let (connection, service) = (hyper::server::conn::http1::Builder::new(), service.clone());
        tokio::task::spawn_local(async move {
            let _ = connection.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
        });
    }
}

impl State for Bare {
    fn settle(&self) {
        self.raw.settle();
    }

    fn verify(&self, operations: u64) {
        self.raw.verify(operations);
    }

    fn cpu(&self) -> Option<Duration> {
        Some(self.clock.read())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
