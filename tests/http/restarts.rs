//! Stopping, starting again and reloading: nobody loses a request by them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{Connection, TIMEOUT, ask, schema, wait_until};
use super::process::{Running, assert_refused, handing_over};

const CREATE: &str = r#"{"name":"Lamp"}"#;

#[test]
fn connections_are_taken_while_it_drains() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start_with(folder.path(), &["--drain-ms", "3600000"]);
    server.line();
    server.signal("TERM");
    assert_eq!(server.line(), "strata: SIGTERM: stopping");
    wait_until("it says that it is not ready", || ask(&server.url, "GET", "/_ready", "").status == 503);
    assert_eq!(ask(&server.url, "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "a second signal ends at once");
}

/// Over HTTP/1 the next response says so; a connection without requests is closed.
#[test]
fn while_it_drains_clients_go_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start_with(folder.path(), &["--drain-ms", "3600000"]);
    let (mut busy, mut idle) = (Connection::open(&server.url), Connection::open(&server.url));
    busy.send(
        "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n",
    );
    assert_eq!(idle.request("GET", "/_health", "").header("connection"), "");
    server.signal("TERM");
    wait_until("it drains", || {
        let response = ask(&server.url, "GET", "/_ready", "");
        (response.status, response.header("connection")) == (503, "close")
    });
    busy.send(CREATE);
    let response = busy.receive(false);
    assert_eq!((response.status, response.header("connection")), (201, "close"), "{}", response.body);
    let new = ask(&server.url, "GET", "/_health", "");
    assert_eq!((new.status, new.header("connection")), (200, "close"));
    assert!(busy.is_closed() && idle.is_closed());
}

#[tokio::test]
async fn while_it_drains_clients_of_http2_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start_with(folder.path(), &["--drain-ms", "3600000"]);
    let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get(format!("{}/_health", server.url)).body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    server.signal("TERM");
    let ended = timeout(TIMEOUT, connection).await.expect("it ends").unwrap();
    assert!(ended.is_ok() && client.ready().await.is_err(), "by GOAWAY: {ended:?}");
}

const RESTARTS: usize = 10;
const CLIENTS: usize = 12;
/// By all clients, from one restart to the next.
const REQUESTS: usize = 5000;

#[test]
fn restarts_on_a_socket_that_is_handed_over_lose_no_request() {
    let (folder, listener) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let start = || Running::start_on(&listener, folder.path(), &[]);
    let mut server = start();
    let (url, answered) = (server.url.clone(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (url, answered, path) = (&url, &answered, format!("/Product/{number}"));
            scope.spawn(move || {
                let mut connection = Connection::open(url);
                while answered.load(Relaxed) < (RESTARTS + 1) * REQUESTS {
                    for (method, body, statuses) in [("PUT", CREATE, [200, 201]), ("GET", "", [200, 200])] {
                        let response = connection.request(method, &path, body);
                        assert!(statuses.contains(&response.status), "{response:?}");
                        answered.fetch_add(1, Relaxed);
                        if response.header("connection") == "close" {
                            connection = Connection::open(url);
                        }
                    }
                }
            });
        }
        for restart in 1..=RESTARTS {
            wait_until("more requests", || answered.load(Relaxed) >= restart * REQUESTS);
            server.signal("TERM");
            assert_eq!(server.exit_code(), Some(0));
            server = start();
        }
    });
}

#[test]
fn a_socket_that_is_handed_over_has_the_address() {
    let (folder, listener) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().to_string();
    let mut same = Running::start_on(&listener, folder.path(), &["--listen", &address]);
    assert_eq!(ask(&format!("http://{address}"), "GET", "/_ready", "").status, 200);
    same.signal("TERM");
    assert_eq!(same.exit_code(), Some(0));
    let refused = handing_over(&listener)
        .args(["serve", "--listen", "127.0.0.1:1", "--data-dir"])
        .arg(folder.path().join("data"))
        .arg("--schema")
        .arg(schema())
        .output();
    assert_refused(&refused.unwrap(), &[&address, "--listen 127.0.0.1:1"]);
}

#[test]
fn the_access_log_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (log, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    let mut server = Running::start_with(folder.path(), &["--access-log", log.to_str().unwrap()]);
    server.line();
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default().lines().count();
    ask(&server.url, "GET", "/_ready", "");
    wait_until("the line is written", || lines(&log) == 1);
    fs::rename(&log, &moved).unwrap();
    ask(&server.url, "GET", "/_ready", "");
    wait_until("it goes where the file went", || lines(&moved) == 2);
    server.signal("HUP");
    // Not only until the file is there: it is opened before the lines go to it.
    assert!(server.line().contains("opened the access log again"));
    ask(&server.url, "GET", "/_ready", "");
    wait_until("the line is written there", || lines(&log) == 1);
    assert_eq!(lines(&moved), 2);
}
