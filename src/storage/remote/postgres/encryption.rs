//! TLS to PostgreSQL by rustls. The certificate of the server is always checked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, client};

use crate::error::{Error, Result};

/// Makes connections encrypted, if it is used at all (`sslmode`).
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Trusts nobody: for connections that are not encrypted.
    pub fn none() -> Self {
        Self::with(RootCertStore::empty())
    }

    /// Trusts the certificates of a file, or else those of the system.
    ///
    /// # Errors
    /// `Storage` if the file cannot be read; `Invalid` if there is no certificate.
    pub fn trusting(file: Option<&str>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        match file {
            Some(path) => {
                let cannot = |error| Error::storage(format!("cannot read the certificates in {path}"), error);
                for certificate in CertificateDer::pem_file_iter(path).map_err(cannot)? {
                    let added = roots.add(certificate.map_err(cannot)?);
                    added.map_err(|error| Error::invalid(format!("a certificate in {path}: {error}")))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        match roots.is_empty() {
            true => Err(Error::invalid("storage: there is no certificate to trust: name a file by sslrootcert")),
            false => Ok(Self::with(roots)),
        }
    }

    fn with(roots: RootCertStore) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(Arc::new(config))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Connector;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connector> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Connector { config: Arc::clone(&self.0), name })
    }
}

/// Makes one connection encrypted.
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connector {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { TlsConnector::from(self.config).connect(self.name, stream).await.map(Stream) })
    }
}

/// An encrypted connection.
pub struct Stream<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
