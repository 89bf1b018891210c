//! HTTP/1.1 over a pipe in memory: from the bytes of a request to the bytes of its answer, without a socket.
//!
//! The server's half is hyper with one service, the client's half writes bytes that stand ready and reads as many as the first
//! answer had. Both run on one thread, one after the other.

use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use strata::ingress::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;

/// Bytes that the pipe holds.
const PIPE_BYTES: usize = 256 << 10;

/// One connection and the request that is sent over it again and again.
pub struct Wire {
    runtime: Runtime,
    client: DuplexStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Wire {
    /// A connection on which `service` answers; `body_bytes` is how long its bodies are.
    pub fn new<F>(
        request: Vec<u8>,
        body_bytes: usize,
        service: impl Fn(Request<Incoming>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let runtime = super::runtime();
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let service = service_fn(move |request| {
            let answer = service(request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        runtime.spawn(async {
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
            connection.await.expect("a client that keeps to HTTP");
        });
        let mut wire = Self { runtime, client, request, answer: Vec::new() };
        wire.first(body_bytes);
        wire
    }

    /// Sends the request once and reads the answer until it has a head and so long a body.
    fn first(&mut self, body_bytes: usize) {
        let Self { runtime, client, request, answer } = self;
        runtime.block_on(async {
            client.write_all(request).await.expect("the server reads");
            let head = |answer: &[u8]| answer.windows(4).position(|window| window == b"\r\n\r\n");
            while head(answer).is_none_or(|end| answer.len() < end + 4 + body_bytes) {
                assert!(client.read_buf(answer).await.expect("the server answers") > 0, "the server has gone");
            }
            assert_eq!(head(answer).map(|end| end + 4 + body_bytes), Some(answer.len()));
        });
    }

    /// Sends the request and reads the answer, which is as long as the first; whether it is a 200.
    pub fn exchange(&mut self) -> bool {
        let Self { runtime, client, request, answer } = self;
        runtime.block_on(async {
            client.write_all(request).await.expect("the server reads");
            client.read_exact(answer).await.expect("the server answers");
        });
        answer.starts_with(b"HTTP/1.1 200 ")
    }
}
