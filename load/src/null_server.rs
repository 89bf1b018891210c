//! The null server: it answers every request with two letters. What is measured against it is the client.
//!
//! It is a process of its own, as every server is, so that its CPU is not the client's. It counts its answers, so that the rules
//! hold of its runs, too.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Serves until it is killed, on a free port of this machine. Its URL stands in the file `ready` once it answers; with TLS, its certificate
/// in the file `certificate`.
pub fn serve(ready: &Path, certificate: Option<&Path>) -> Result<Infallible, String> {
    let failed = |error: std::io::Error| format!("the null server: {error}");
    let tls = certificate.map(acceptor).transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.map_err(failed)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}\n", listener.local_addr().map_err(failed)?);
        std::fs::write(ready, url).map_err(failed)?;
        let answers = Arc::new(AtomicU64::new(0));
        loop {
            let (stream, _) = listener.accept().await.map_err(failed)?;
            let (tls, answers) = (tls.clone(), Arc::clone(&answers));
            tokio::spawn(async move {
                // A client that leaves has what it wanted.
                stream.set_nodelay(true).ok()?;
                match tls {
                    None => speak(stream, answers).await,
                    Some(tls) => speak(tls.accept(stream).await.ok()?, answers).await,
                }
            });
        }
    })
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, answers: Arc<AtomicU64>) -> Option<()> {
    let answer = service_fn(move |request: Request<Incoming>| {
        let body = match request.uri().path() {
            "/_counters" => format!("{{\"answers\":{}}}", answers.load(Ordering::Relaxed)).into(),
            // What stands beside the load is not counted.
            "/_metrics" => Bytes::new(),
            _ => {
                answers.fetch_add(1, Ordering::Relaxed);
                Bytes::from_static(b"ok")
            }
        };
        std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(body))))
    });
    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await.ok()
}

fn acceptor(certificate: &Path) -> Result<TlsAcceptor, String> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(|error| error.to_string())?;
    std::fs::write(certificate, made.cert.pem()).map_err(|error| format!("{}: {error}", certificate.display()))?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(str::to_owned)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of TLS 1.2 and 1.3");
    let config = builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
