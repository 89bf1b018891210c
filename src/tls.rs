//! TLS: the server's certificate, and the handshake of a connection.
//!
//! rustls supports TLS 1.2 and 1.3 and offers HTTP/2 and HTTP/1.1 (ALPN). A self-signed certificate is created once and stored beside the
//! data, so that a client can trust its file (`curl --cacert data/tls/certificate.pem`) across restarts.
//!
//! The files are read again on request, so a renewed certificate needs no restart: connections that are open keep the old one.
//!
//! Non-goals: client certificates.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::server::TlsStream;

use crate::error::{Error, Result};

/// The certificate of the server. Without any of these options there is no TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How to obtain the certificate, if not from files.
    pub mode: Option<Mode>,
    /// The file with the certificate, followed by the intermediate certificates (PEM).
    pub certificate: Option<PathBuf>,
    /// The file with its private key (PEM).
    pub key: Option<PathBuf>,
}

/// How to obtain a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The server creates one for localhost, in the folder `tls` of the data directory.
    SelfSigned,
}

/// The names in a self-signed certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The server side of handshakes. Clones share sessions, and the certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// The certificate that clients are shown, and the files with it and its key.
#[derive(Debug)]
struct Certificate {
    files: (PathBuf, PathBuf),
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

impl Tls {
    /// Sets up TLS as the options require; `None` if they ask for none. A self-signed certificate is stored in `data_dir`.
    ///
    /// # Errors
    /// `Invalid` if the options contradict each other, or the files do not contain a certificate and its key; `Storage` if they cannot be
    /// read or written.
    pub fn new(options: &Options, data_dir: &Path) -> Result<Option<Self>> {
        match (options.mode, &options.certificate, &options.key) {
            (None, None, None) => Ok(None),
            (None, Some(certificate), Some(key)) => Self::of_files(certificate, key).map(Some),
            (Some(Mode::SelfSigned), None, None) => {
                let folder = data_dir.join("tls");
                let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
                if !(certificate.exists() && key.exists()) {
                    write_self_signed(&folder, &certificate, &key)?;
                }
                Self::of_files(&certificate, &key).map(Some)
            }
            (Some(Mode::SelfSigned), ..) => {
                Err(Error::invalid("--tls self-signed cannot be combined with --tls-cert or --tls-key"))
            }
            (None, ..) => Err(Error::invalid("--tls-cert and --tls-key must be given together")),
        }
    }

    fn of_files(certificate: &Path, key: &Path) -> Result<Self> {
        let current = RwLock::new(read(certificate, key)?);
        let certificate = Arc::new(Certificate { files: (certificate.to_owned(), key.to_owned()), current });
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the suites of TLS 1.2 and 1.3");
        let mut config = builder.with_no_client_auth().with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Reads the files again, for handshakes that begin from now on.
    ///
    /// # Errors
    /// As [`Tls::new`]; the certificate is then the one that it was.
    pub fn reload(&self) -> Result<()> {
        let (certificate, key) = &self.certificate.files;
        *self.certificate.current.write() = read(certificate, key)?;
        Ok(())
    }

    /// Performs the handshake with a client.
    ///
    /// # Errors
    /// If the client disconnects, or does not speak compatible TLS; it is sent an alert if it is still connected.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> std::io::Result<TlsStream<S>> {
        self.acceptor.accept(stream).await
    }
}

/// Reads a certificate with its chain, and its private key.
fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(certificate, "certificate", error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, "private key", error))?;
    let certified = CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        Error::invalid(format!("{certificate} and {key} are not a certificate and its private key: {error}"))
    })?;
    Ok(Arc::new(certified))
}

fn unreadable(path: &Path, what: &str, error: pem::Error) -> Error {
    match error {
        pem::Error::Io(error) => Error::storage(format!("cannot read the {what} in {}", path.display()), error),
        error => Error::invalid(format!("{} has no {what} in PEM: {error}", path.display())),
    }
}

/// Creates a key and a certificate. The certificate is written last, after the key is synced: if it exists, the key does.
fn write_self_signed(folder: &Path, certificate: &Path, key: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned))
        .map_err(|error| Error::storage("cannot make a certificate", std::io::Error::other(error)))?;
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(key);
    open()
        .and_then(|file| write_synced(file, &made.signing_key.serialize_pem()))
        .map_err(|error| unwritable(key, error))?;
    let partial = certificate.with_extension("partial");
    File::create(&partial)
        .and_then(|file| write_synced(file, &made.cert.pem()))
        .map_err(|error| unwritable(&partial, error))?;
    fs::rename(&partial, certificate).map_err(|error| unwritable(certificate, error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(folder, error))
}

fn write_synced(mut file: File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::storage(format!("cannot write {}", path.display()), error)
}
