//! TLS from outside: certificates, what is negotiated, and handshakes that do not come to an end.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata::config::Config;
use strata::server::Server;
use strata::tls::Mode;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::client::{TIMEOUT, start, wait_until};
use super::process::Running;

const GET: &str = "GET /_ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fn self_signed(folder: &Path) -> Server {
    start(folder, |config| config.tls.mode = Some(Mode::SelfSigned))
}

fn certificate_of(folder: &Path) -> PathBuf {
    folder.join("data/tls/certificate.pem")
}

/// A client that trusts the certificate in a file, and nothing else.
fn client(certificate: &Path, versions: &[&'static SupportedProtocolVersion], protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

fn plain(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.strip_prefix("https://").unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn connect(url: &str, name: &str, config: ClientConfig) -> StreamOwned<ClientConnection, TcpStream> {
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap();
    StreamOwned::new(connection, plain(url))
}

#[test]
fn a_client_that_trusts_the_file_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = self_signed(folder.path());
    for name in ["localhost", "127.0.0.1"] {
        for version in [&TLS12, &TLS13] {
            let mut stream =
                connect(server.url(), name, client(&certificate_of(folder.path()), &[version], &["http/1.1"]));
            stream.write_all(GET.as_bytes()).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            assert_eq!(stream.conn.protocol_version(), Some(version.version));
        }
    }
    let mut stranger = connect(server.url(), "example.org", client(&certificate_of(folder.path()), &[&TLS13], &[]));
    assert!(stranger.write_all(GET.as_bytes()).unwrap_err().to_string().contains("certificate"));
}

#[test]
fn the_client_chooses_the_version_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let server = self_signed(folder.path());
    let config = client(&certificate_of(folder.path()), &[&TLS13], &["h2", "http/1.1"]);
    let mut stream = connect(server.url(), "localhost", config);
    // The preface, and settings that set nothing (RFC 9113, 3.4 and 6.5).
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!((stream.conn.alpn_protocol(), head[3]), (Some(&b"h2"[..]), 4), "it answers by settings");
}

#[test]
fn a_self_signed_certificate_outlives_a_restart_and_its_key_is_private() {
    let folder = tempfile::tempdir().unwrap();
    self_signed(folder.path()).stop().unwrap();
    let (certificate, key) = (certificate_of(folder.path()), folder.path().join("data/tls/key.pem"));
    let before = fs::read(&certificate).unwrap();
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    self_signed(folder.path()).stop().unwrap();
    assert_eq!(fs::read(&certificate).unwrap(), before);
    fs::remove_file(&certificate).unwrap();
    self_signed(folder.path()).stop().unwrap();
    assert_ne!(fs::read(&certificate).unwrap(), before, "a start that was cut off before there was one");
}

/// Each with a word of the error.
#[test]
fn certificates_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    for folder in [&ours, &theirs] {
        fs::create_dir(folder).unwrap();
        self_signed(folder).stop().unwrap();
    }
    let certificate = certificate_of(&ours);
    let (key, other) = (ours.join("data/tls/key.pem"), theirs.join("data/tls/key.pem"));
    let absent = folder.path().join("absent.pem");
    let refused = |certificate: Option<&Path>, key: Option<&Path>, mode| {
        let mut config =
            Config { data_dir: ours.join("data"), listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
        config.schema = Some(super::client::schema());
        config.tls.mode = mode;
        (config.tls.certificate, config.tls.key) = (certificate.map(Path::to_owned), key.map(Path::to_owned));
        Server::start(&config).err().expect("it is refused").to_string()
    };
    for (certificate, key, mode, words) in [
        (Some(&certificate), None, None, "--tls-cert and --tls-key must be given together"),
        (Some(&certificate), Some(&key), Some(Mode::SelfSigned), "cannot be combined with --tls-cert or --tls-key"),
        (Some(&absent), Some(&key), None, "cannot read the certificate in"),
        (Some(&certificate), Some(&absent), None, "absent.pem"),
        (Some(&certificate), Some(&certificate), None, "has no private key in PEM"),
        (Some(&key), Some(&key), None, "are not a certificate and its private key"),
        (Some(&certificate), Some(&other), None, "are not a certificate and its private key"),
    ] {
        let said = refused(certificate.map(PathBuf::as_path), key.map(PathBuf::as_path), mode);
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn a_handshake_has_the_time_of_a_head() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.tls.mode = Some(Mode::SelfSigned);
        config.header_timeout_ms = 200;
    });
    let (silent, mut begun) = (plain(server.url()), plain(server.url()));
    // The first bytes of a record of 512 bytes that never comes.
    begun.write_all(b"\x16\x03\x01\x02\x00").unwrap();
    for mut stream in [silent, begun] {
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "it is closed");
    }
}

#[test]
fn who_is_over_the_limit_of_connections_gets_an_alert() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.tls.mode = Some(Mode::SelfSigned);
        config.connections = 1;
    });
    let mut first = connect(server.url(), "localhost", client(&certificate_of(folder.path()), &[&TLS13], &[]));
    first.write_all(b"GET /_ready HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    first.read_exact(&mut [0; 15]).unwrap();
    for version in [&TLS12, &TLS13] {
        let mut second = connect(server.url(), "localhost", client(&certificate_of(folder.path()), &[version], &[]));
        let error = second.write_all(GET.as_bytes()).and_then(|()| second.read(&mut [0; 1])).unwrap_err();
        assert!(error.to_string().contains("fatal alert"), "{error}");
    }
}

#[test]
fn plain_http_is_turned_away_and_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = self_signed(folder.path());
    let mut stream = plain(server.url());
    stream.write_all(GET.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer.first(), Some(&0x15), "an alert of TLS: {answer:?}");
    let mut stream = connect(server.url(), "localhost", client(&certificate_of(folder.path()), &[&TLS13], &[]));
    stream.write_all(GET.as_bytes()).unwrap();
    let mut response = [0; 15];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 200 OK");
}

#[test]
fn a_renewed_certificate_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| {
        fs::create_dir(folder.path().join(name)).unwrap();
        self_signed(&folder.path().join(name)).stop().unwrap();
        folder.path().join(name).join("data/tls")
    });
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    let copy = |from: &Path| {
        for file in [&certificate, &key] {
            fs::copy(from.join(file.file_name().unwrap()), file).unwrap();
        }
    };
    copy(&old);
    let options = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut server = Running::start_with(folder.path(), &options);
    server.line();
    let url = server.url.clone();
    let shows = |folder: &Path| {
        let config = client(&folder.join("certificate.pem"), &[&TLS13], &[]);
        connect(&url, "localhost", config).write_all(GET.as_bytes()).is_ok()
    };
    assert!(shows(&old) && !shows(&new));
    copy(&new);
    server.signal("HUP");
    wait_until("the new one is shown", || shows(&new));
    assert!(!shows(&old));
    fs::write(&key, "no key").unwrap();
    server.signal("HUP");
    assert!(server.line().contains("SIGHUP: read the certificate"));
    assert!(server.line().contains("has no private key"));
    assert!(shows(&new), "it stays");
}
