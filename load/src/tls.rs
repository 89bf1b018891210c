//! The client's end of TLS: whom it trusts, and what its handshakes came to.
//!
//! The library is the server's (rustls with ring), and no session is resumed: each connection pays for a whole handshake. The connections
//! of a target negotiate the same, or they are refused: a result is of one cipher suite, not of a mixture.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{ClientConnection, Resumption};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, InvalidMessage, RootCertStore, SignatureScheme,
};

use crate::scenario::Http;

/// Which servers are believed to be who they say they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that a certificate in this file (PEM) vouches for.
    Certificates(PathBuf),
    /// All.
    Everyone,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Negotiated {
    /// The version, as `TLSv1_3`.
    pub version: String,
    /// The cipher suite, as `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// The group of the key exchange, as `X25519`.
    pub key_exchange: String,
    /// The protocol within, `h2` or `http/1.1` (ALPN); null if the server did not choose.
    pub alpn: Option<String>,
}

/// TLS to one server. Clones share what was negotiated.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    http: Http,
    negotiated: Arc<OnceLock<Negotiated>>,
}

impl Tls {
    /// To a server that is known by a name or an address, for one version of HTTP.
    pub fn new(trust: &Trust, host: &str, http: Http) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host}: no name of a server"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the suites of TLS 1.2 and 1.3");
        let mut config = match trust {
            Trust::Certificates(file) => {
                builder.with_root_certificates(roots(file).map_err(|reason| format!("{}: {reason}", file.display()))?)
            }
            Trust::Everyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(NoVerification(provider))),
        }
        .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![alpn(http).as_bytes().to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name, http, negotiated: Arc::default() })
    }

    /// Shakes hands.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.connector.connect(self.name.clone(), stream).await.map_err(in_words)?;
        let found = Negotiated::of(stream.get_ref().1);
        if !found.carries(self.http) {
            return Err(io::Error::other("the server does not speak HTTP/2 over TLS"));
        }
        let first = self.negotiated.get_or_init(|| found.clone());
        match *first == found {
            true => Ok(stream),
            false => Err(io::Error::other(format!("a connection negotiated {found}, others {first}"))),
        }
    }

    /// Returns the result of the handshakes so far; none before the first.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }
}

/// Says why a handshake failed, where the library names only the byte that it did not expect.
fn in_words(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => io::Error::other(
            "the server answered in plain text: it does not speak TLS here, or takes no more connections (--connections)",
        ),
        _ => error,
    }
}

/// The name of a version of HTTP in a handshake.
fn alpn(http: Http) -> &'static str {
    match http {
        Http::One => "http/1.1",
        Http::Two => "h2",
    }
}

fn roots(file: &std::path::Path) -> Result<RootCertStore, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut roots = RootCertStore::empty();
    for certificate in read.map_err(|error| error.to_string())? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("no certificate in PEM".to_owned()) } else { Ok(roots) }
}

impl Negotiated {
    /// Returns true if this version of HTTP is what was agreed on; a server that does not choose speaks HTTP/1.1.
    pub fn carries(&self, http: Http) -> bool {
        self.alpn.as_deref().map_or(http == Http::One, |chosen| chosen == alpn(http))
    }

    fn of(connection: &ClientConnection) -> Self {
        // rustls names them in its Debug, after the registers of IANA.
        fn name(of: Option<impl std::fmt::Debug>) -> String {
            of.map_or("unknown".to_owned(), |of| format!("{of:?}"))
        }
        Self {
            version: name(connection.protocol_version()),
            suite: name(connection.negotiated_cipher_suite().map(|suite| suite.suite())),
            key_exchange: name(connection.negotiated_key_exchange_group().map(|group| group.name())),
            alpn: connection.alpn_protocol().map(|alpn| String::from_utf8_lossy(alpn).into_owned()),
        }
    }
}

impl std::fmt::Display for Negotiated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, suite, key_exchange, .. } = self;
        write!(formatter, "{version} {suite} {key_exchange}")
    }
}

/// Takes any certificate, but has the server prove that it holds the key to it: the work is the same.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
