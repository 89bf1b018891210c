//! Runs against the real server over HTTPS: what was negotiated is in the result, and a server that is not trusted is refused.

use std::process::{Command, Output};

use serde_json::{Value, json};
use strata_load::command::scenario;
use strata_load::neighbours::Neighbours;
use strata_load::server::Server;

use crate::strata::{binary, result};

fn load(arguments: &[&str]) -> Output {
    let short = ["run", "throughput-read", "--seed-record-count", "100", "--warmup-requests", "100"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    command.args(short).args(["--test-duration-secs", "0.5", "--concurrent-tasks", "4"]).args(arguments);
    command.output().unwrap()
}

#[test]
fn a_started_server_is_spoken_to_over_https_unless_plain_http_is_asked_for() {
    let strata = binary();
    let handshake = |alpn| json!({"version": "TLSv1_3", "suite": "TLS13_AES_256_GCM_SHA384", "key_exchange": "X25519", "alpn": alpn});
    for (arguments, http, tls) in [
        (&[][..], "1.1", handshake("http/1.1")),
        (&["--http", "2"], "2", handshake("h2")),
        (&["--no-tls"], "1.1", Value::Null),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let places = ["--results", folder.path().to_str().unwrap(), "--server", strata.to_str().unwrap()];
        let output = load(&[&places[..], arguments].concat());
        let result = result(folder.path());
        assert_eq!((&result["tls"], &result["scenario"]["http"]), (&tls, &json!(http)), "{output:?}");
        assert_eq!(result["scenario"]["tls"], json!(!tls.is_null()));
        assert_eq!(result["broken"], json!([]), "{output:?}");
        assert!(result["total"]["ok"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_server_that_is_not_trusted_is_refused_before_anything_is_sent() {
    let server = Server::start(&binary(), &scenario("throughput-read").unwrap(), None, Neighbours::default()).unwrap();
    let another = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/another.pem");
    let plain = server.url.replace("https", "http");
    for (arguments, reason) in [
        (&["--base-url", &server.url, "--ca", another][..], "invalid peer certificate"),
        (&["--base-url", &server.url], "--ca FILE"),
        (&["--base-url", &server.url, "--ca", "/no/such/file"], "/no/such/file: "),
        (&["--base-url", &server.url, "--ca", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "no certificate"),
        (&["--base-url", &plain, "--insecure"], "plain HTTP has no certificate"),
        (&["--no-tls", "--insecure"], "--base-url"),
    ] {
        let output = load(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}

#[test]
fn any_certificate_will_do_if_that_is_said() {
    let server = Server::start(&binary(), &scenario("throughput-read").unwrap(), None, Neighbours::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = load(&["--base-url", &server.url, "--insecure", "--results", folder.path().to_str().unwrap()]);
    assert_eq!(result(folder.path())["tls"]["version"], "TLSv1_3", "{output:?}");
}
