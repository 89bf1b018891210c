//! HTTP/1.1 over a pipe in memory: from the bytes of a request to the bytes of its answer, without a socket.
//!
//! The server side is hyper with one service; the client side writes prepared bytes and reads as many as the answer must have. Both run on
//! one thread, in turn.

use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use strata::ingress::Body;
use strata_harness::refused;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;

/// Bytes that the pipe holds.
const PIPE_BYTES: usize = 256 << 10;

/// One connection.
pub struct Wire {
    runtime: Runtime,
    client: DuplexStream,
    /// The length of the head of each response: its values change, their lengths do not.
    head_bytes: usize,
    response: Vec<u8>,
}

impl Wire {
    /// A connection on which `service` answers, first to this request; `body_bytes` is the length of the body of that response.
    pub fn new<F>(request: &[u8], body_bytes: usize, service: impl Fn(Request<Incoming>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let runtime = super::runtime();
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let service = service_fn(move |request| {
            let response = service(request);
            async { Ok::<_, Infallible>(response.await) }
        });
        runtime.spawn(async {
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
            connection.await.expect("a client that keeps to HTTP");
        });
        let mut wire = Self { runtime, client, head_bytes: 0, response: Vec::new() };
        wire.first(request, body_bytes);
        wire
    }

    /// Sends the first request and reads the response until it has a head and a body of that length.
    fn first(&mut self, request: &[u8], body_bytes: usize) {
        let Self { runtime, client, response, .. } = self;
        let head = |response: &[u8]| response.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
        runtime.block_on(async {
            client.write_all(request).await.expect("the server reads");
            while head(response).is_none_or(|end| response.len() < end + body_bytes) {
                assert!(client.read_buf(response).await.expect("the server answers") > 0, "the server has gone");
            }
        });
        self.head_bytes = head(&self.response).expect("the loop has found it");
        assert_eq!(self.response.len(), self.head_bytes + body_bytes, "bytes of the first answer");
    }

    /// Sends a request and reads the response, with a body of that length; returns whether it has this status.
    pub fn exchange(&mut self, request: &[u8], body_bytes: usize, status: &str) -> bool {
        let Self { runtime, client, head_bytes, response } = self;
        response.resize(*head_bytes + body_bytes, 0);
        runtime.block_on(async {
            client.write_all(request).await.expect("the server reads");
            let read = client.read(response).await.expect("the server answers");
            if response[9] == b'5' {
                let response = String::from_utf8_lossy(&response[..read]); // of another length, so the rest would be waited for
                refused(response.rsplit("\r\n\r\n").next().unwrap_or_default());
            }
            client.read_exact(&mut response[read..]).await.expect("the server answers");
        });
        response.starts_with(b"HTTP/1.1 ")
            && response[9..12] == *status.as_bytes()
            && response[*head_bytes - 1] == b'\n'
    }
}
