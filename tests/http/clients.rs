//! Limits that one client cannot use up for others, and deadlines that count requests and responses only. The greedy client comes from
//! 127.0.0.9, the other from 127.0.0.1. It leaves before the server stops, which would wait for what is in flight.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;
use std::thread;

use strata::config::Config;
use strata::server::Server;

use super::client::{Connection, TIMEOUT, ask, start, wait_until};

/// The greedy client.
const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

/// So long that no test meets it.
const NEVER_MS: u64 = 2 * TIMEOUT.as_millis() as u64;

/// A server whose deadlines nobody meets, unless a test sets them.
fn server(folder: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Server {
    start(folder.path(), |config| {
        config.header_timeout_ms = NEVER_MS;
        config.idle_timeout_ms = NEVER_MS;
        config.send_timeout_ms = NEVER_MS;
        config.ingress.body_timeout_ms = NEVER_MS;
        config.ingress.request_timeout_ms = NEVER_MS;
        change(config);
    })
}

/// What became of requests for parts of a limit: refused, given up.
fn outcomes(server: &Server, limit: &str) -> (u64, u64) {
    let counters = ask(server.url(), "GET", "/_counters", "").body;
    let counters: serde_json::Value = serde_json::from_str(&counters).unwrap();
    let outcomes = &counters["limits"][limit];
    (outcomes["refused"].as_u64().unwrap(), outcomes["given_up"].as_u64().unwrap())
}

#[test]
fn connections_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.connections = 8);
    let mut greedy: Vec<_> = (0..8).map(|_| Connection::open_narrow(GREEDY, server.url())).collect();
    // It is alone, and may have all; then one of them is busy.
    let head =
        "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
    greedy[0].send(head);
    wait_until("one is busy", || {
        greedy[7].request("GET", "/_metrics", "").body.contains("strata_requests_waiting 1\n")
    });
    let mut others: Vec<_> = (0..4).map(|_| Connection::open(server.url())).collect();
    for other in &mut others {
        assert_eq!(other.request("GET", "/_health", "").status, 200);
    }
    // The shares are equal: a fifth is refused.
    assert_eq!(Connection::open(server.url()).receive(false).status, 503);
    drop(others.pop());
    greedy[0].send("{\"name\":1");
    assert_eq!(greedy[0].receive(false).status, 400, "what is busy is not given up");
    wait_until("a place is free", || {
        let mut other = Connection::open(server.url());
        other.try_send("GET /_health HTTP/1.1\r\nhost: localhost\r\n\r\n") && other.receive(false).status == 200
    });
    server.stop().unwrap();
}

#[test]
fn bodies_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.ingress.bodies_in_flight = 8);
    let head =
        "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
    let mut greedy: Vec<_> = (0..8).map(|_| Connection::open_narrow(GREEDY, server.url())).collect();
    for (number, connection) in greedy.iter_mut().enumerate() {
        connection.send(head);
        connection.send(&" ".repeat(number));
    }
    wait_until("all has arrived", || {
        let metrics = ask(server.url(), "GET", "/_metrics", "").body;
        metrics.contains("strata_requests_waiting 8\n") && metrics.contains("strata_request_body_held_bytes 28\n")
    });
    let mut one_more = Connection::open_narrow(GREEDY, server.url());
    one_more.send(head);
    assert_eq!(one_more.receive(false).status, 503, "it has all");
    assert_eq!(outcomes(&server, "bodies"), (1, 0));
    assert!(
        ask(server.url(), "GET", "/_metrics", "").body.contains("strata_limit_refused_total{limit=\"bodies\"} 1\n")
    );
    let mut other = Connection::open(server.url());
    other.send(head);
    wait_until("room is made", || outcomes(&server, "bodies").1 == 1);
    assert_eq!(greedy[0].receive(false).status, 503, "the slowest was given up");
    other.send(&format!("{:100}", r#"{"name":"a"}"#));
    assert_eq!(other.receive(false).status, 201);
    assert_eq!(ask(server.url(), "POST", "/Product", r#"{"name":"b"}"#).status, 201);
    drop((greedy, one_more));
    server.stop().unwrap();
}

#[test]
fn bytes_of_bodies_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| {
        config.ingress.body_bytes = 1 << 20;
        config.ingress.all_bodies_bytes = 2 << 20;
    });
    let head = format!(
        "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        1 << 20
    );
    let mut greedy: Vec<_> = (0..2).map(|_| Connection::open_narrow(GREEDY, server.url())).collect();
    for connection in &mut greedy {
        connection.send(&head);
        connection.send(&" ".repeat((1 << 20) - 10));
    }
    let held = || ask(server.url(), "GET", "/_metrics", "").body;
    wait_until("the limit is full", || {
        let text = held();
        let line = text.lines().find_map(|line| line.strip_prefix("strata_request_body_held_bytes ")).unwrap();
        line.parse::<u64>().unwrap() > (2 << 20) - 100
    });
    let note = "n".repeat(500_000);
    let created = ask(server.url(), "POST", "/Product", &format!(r#"{{"name":"a","note":"{note}"}}"#));
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(outcomes(&server, "body_bytes").1, 1);
    drop(greedy);
    server.stop().unwrap();
}

/// The client opens a connection with a head of 60 KB that does not end, as long as it is let.
fn heads_count(open: impl Fn(&Server) -> Connection) {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| {
        config.ingress.body_bytes = 100_000;
        config.ingress.all_bodies_bytes = 500_000;
    });
    let mut greedy = Vec::new();
    wait_until("the limit is full", || {
        greedy.push(open(&server));
        outcomes(&server, "body_bytes").0 > 0
    });
    assert!(greedy.len() > 7, "{}", greedy.len());
    let note = "n".repeat(90_000);
    let created = ask(server.url(), "POST", "/Product", &format!(r#"{{"name":"a","note":"{note}"}}"#));
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(outcomes(&server, "body_bytes").1 >= 1);
    drop(greedy);
    wait_until("all is free", || {
        let text = ask(server.url(), "GET", "/_metrics", "").body;
        text.contains("strata_request_body_held_bytes 0\n")
    });
    server.stop().unwrap();
}

#[test]
fn heads_that_are_not_complete_are_memory_of_bodies() {
    heads_count(|server| {
        let mut connection = Connection::open_narrow(GREEDY, server.url());
        connection.try_send(&format!("GET /_health HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(60_000)));
        connection
    });
}

#[test]
fn heads_of_http2_are_too_after_other_requests() {
    heads_count(|server| {
        let mut client = Http2::open(server);
        client.get(1, "/_health");
        // A value of 60 000 bytes (RFC 7541, section 5.1) in four frames, none of which is the last one.
        let head = [b"\x82\x86\x84\x01\x09localhost\x00\x01x\x7f\xe1\xd3\x03".as_slice(), &[b'x'; 58_000]].concat();
        for (number, piece) in head.chunks(16_000).enumerate() {
            let (kind, flags) = if number == 0 { (HEADERS, END_OF_STREAM) } else { (CONTINUATION, 0) };
            client.send(kind, flags, 3, piece);
        }
        client.0
    });
}

#[test]
fn bytes_of_responses_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.ingress.all_responses_bytes = 4 << 20);
    let note = "n".repeat(900_000);
    assert_eq!(ask(server.url(), "PUT", "/Product/1", &format!(r#"{{"name":"a","note":"{note}"}}"#)).status, 201);
    let get = "GET /Product/1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut greedy = Vec::new();
    wait_until("the limit is full", || {
        let mut connection = Connection::open_narrow(GREEDY, server.url());
        connection.send(get);
        greedy.push(connection);
        outcomes(&server, "response_bytes").0 > 0
    });
    for _ in 0..10 {
        assert_eq!(ask(server.url(), "GET", "/Product/1", "").status, 200);
    }
    assert!(outcomes(&server, "response_bytes").1 >= 1);
    drop(greedy);
    server.stop().unwrap();
}

#[test]
fn feeds_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.feed.subscribers = 4);
    let follow = "GET /Product?stream=sse HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let begun = |mut connection: Connection| {
        connection.send(follow);
        let head = connection.line().unwrap();
        // A feed that has begun knows its position.
        while head.starts_with("HTTP/1.1 200") && !connection.line().unwrap().contains("id: ") {}
        (connection, head)
    };
    let greedy: Vec<_> = (0..4).map(|_| begun(Connection::open_narrow(GREEDY, server.url()))).collect();
    assert!(greedy.iter().all(|(_, head)| head.starts_with("HTTP/1.1 200")), "{:?}", greedy[0].1);
    assert!(begun(Connection::open_narrow(GREEDY, server.url())).1.starts_with("HTTP/1.1 503"));
    let others: Vec<_> = (0..2).map(|_| begun(Connection::open(server.url()))).collect();
    assert!(others.iter().all(|(_, head)| head.starts_with("HTTP/1.1 200")), "{:?}", others[0].1);
    assert!(begun(Connection::open(server.url())).1.starts_with("HTTP/1.1 503"), "two and two");
    for (mut oldest, _) in greedy.into_iter().take(2) {
        let mut lines = std::iter::from_fn(|| oldest.line());
        assert!(lines.any(|line| line.contains("event: lagged")), "it is told");
    }
    assert_eq!(outcomes(&server, "feeds"), (2, 2));
    server.stop().unwrap();
}

/// The oldest is refused while its body arrives, and is answered at once when it waits for subscribers only.
#[test]
fn multicasts_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.multicast.in_flight = 4);
    let url = server.url();
    assert_eq!(ask(url, "PUT", "/Device/a", "{}").status, 201);
    let mut stalled = Connection::open_narrow(GREEDY, url);
    stalled.send("GET /Device/a?stream=sse HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(stalled.receive(true).status, 200);
    let head = |wait_s: usize, length: usize| {
        format!(
            "POST /Device/multicast HTTP/1.1\r\nhost: localhost\r\nprefer: wait={wait_s}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let pending = |connection: &mut Connection| {
        let response = connection.receive(false);
        assert_eq!(response.status, 200, "{response:?}");
        serde_json::from_str::<serde_json::Value>(&response.body).unwrap()["pending"] == 1
    };
    let text = format!("\"{}\"", "x".repeat(60_000));
    let fills = || {
        let mut filling = Connection::open_from(GREEDY, url);
        filling.send(&(head(1, text.len()) + &text));
        pending(&mut filling)
    };
    // Once alone may be a machine that is busy for a second.
    wait_until("what it is sent stays with the server", || fills() && fills());
    let messages = || {
        let counters: serde_json::Value = serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap();
        counters["multicast"]["messages"].as_u64().unwrap()
    };
    let before = messages();
    let mut greedy: Vec<_> = (0..4).map(|_| Connection::open_from(GREEDY, url)).collect();
    greedy[0].send(&(head(30, 1) + "1"));
    wait_until("it waits", || messages() > before);
    let waiting =
        |number| ask(url, "GET", "/_metrics", "").body.contains(&format!("strata_requests_waiting {number}\n"));
    wait_until("it waits for the receipt alone", || waiting(0));
    for connection in &mut greedy[1..] {
        connection.send(&head(0, 1));
    }
    let probe = |from: IpAddr| {
        let mut connection = Connection::open_from(from, url);
        connection.send(&(head(0, 1) + "1"));
        connection.receive(false).status
    };
    wait_until("it has all", || waiting(3));
    assert_eq!(probe(GREEDY), 503);
    let before = messages();
    let mut others: Vec<_> = (0..2).map(|_| Connection::open(url)).collect();
    others[0].send(&(head(30, 1) + "1"));
    assert!(pending(&mut greedy[0]), "the oldest is answered");
    wait_until("another one waits", || messages() > before);
    others[1].send(&(head(30, 1) + "1"));
    wait_until("the next oldest is given up", || outcomes(&server, "multicasts").1 == 2);
    // The shares are equal: no more is given up.
    assert_eq!((probe(IpAddr::V4(Ipv4Addr::LOCALHOST)), outcomes(&server, "multicasts").1), (503, 2));
    let refused = greedy[1..].iter_mut().filter_map(|connection| {
        let is_refused = !connection.try_send("1") || connection.receive(false).status == 503;
        is_refused.then_some(())
    });
    assert_eq!(refused.count(), 1);
    drop((greedy, others, stalled));
    server.stop().unwrap();
}

#[test]
fn threads_of_dumps_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.dump_threads = 2);
    let note = "n".repeat(50_000);
    for id in 0..100 {
        let body = format!(r#"{{"name":"a","note":"{note}"}}"#);
        assert_eq!(ask(server.url(), "PUT", &format!("/Product/{id}"), &body).status, 201);
    }
    let dump = "GET /Product HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson\r\n\r\n";
    let mut greedy: Vec<_> = (0..4).map(|_| Connection::open_narrow(GREEDY, server.url())).collect();
    // Two begin, and nobody reads them; then two wait.
    for connection in &mut greedy[..2] {
        connection.send(dump);
        assert!(connection.line().unwrap().starts_with("HTTP/1.1 200"));
    }
    greedy[2..].iter_mut().for_each(|connection| connection.send(dump));
    let mut other = Connection::open(server.url());
    other.send(dump);
    let whole = other.receive(false);
    assert_eq!((whole.status, whole.body.lines().count()), (200, 100));
    assert!(outcomes(&server, "dump_threads").1 >= 1);
    drop(greedy);
    server.stop().unwrap();
}

/// A client of HTTP/2, frame by frame (RFC 9113, section 4).
struct Http2(Connection);

const CONTINUATION: u8 = 9;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_OF_STREAM: u8 = 1;
const END_OF_STREAM_AND_HEADERS: u8 = 5;

impl Http2 {
    fn open(server: &Server) -> Self {
        let mut this = Self(Connection::open_narrow(GREEDY, server.url()));
        this.0.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert!(this.send(SETTINGS, 0, 0, &[]));
        this
    }

    /// Sends a frame; returns whether the server takes it.
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        self.0.try_send_bytes(&frame)
    }

    /// Requests a path: `:method GET`, `:scheme http`, `:path`, `:authority localhost` (RFC 7541, appendix A).
    fn get(&mut self, stream: u32, path: &str) {
        let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(b"\x01\x09localhost");
        assert!(self.send(HEADERS, END_OF_STREAM_AND_HEADERS, stream, &block));
    }

    /// Sends pings until the server closes the connection.
    fn ping_until_closed(mut self, what: &str) {
        wait_until(what, || !self.send(PING, 0, 0, &[7; 8]));
    }
}

#[test]
fn pings_do_not_keep_a_connection_without_requests_open() {
    let folder = tempfile::tempdir().unwrap();
    let never_asked = server(&folder, |config| config.header_timeout_ms = 300);
    Http2::open(&never_asked).ping_until_closed("it never made a request");
    never_asked.stop().unwrap();
    let idle = server(&folder, |config| config.idle_timeout_ms = 300);
    let mut client = Http2::open(&idle);
    client.get(1, "/_health");
    client.ping_until_closed("it makes no more requests");
    idle.stop().unwrap();
}

#[test]
fn pings_are_no_responses() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.send_timeout_ms = 1000);
    let note = "n".repeat(900_000);
    assert_eq!(ask(server.url(), "PUT", "/Product/1", &format!(r#"{{"name":"a","note":"{note}"}}"#)).status, 201);
    let mut client = Http2::open(&server);
    client.get(1, "/Product/1");
    // Its window is full, and the acknowledgements are much more than a client has to take of a response in that time.
    wait_until("it takes nothing of its answer", || {
        client.0.skim();
        !(0..100).all(|_| client.send(PING, 0, 0, &[7; 8]))
    });
    server.stop().unwrap();
}

#[test]
fn a_stop_waits_for_no_silent_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, |config| config.stop_timeout_ms = NEVER_MS);
    let mut silent = Http2::open(&server);
    silent.get(1, "/_health");
    let _never_asked = Http2::open(&server);
    let _nothing_sent = Connection::open_narrow(GREEDY, server.url());
    let (said, heard) = mpsc::channel();
    thread::spawn(move || said.send(server.stop().is_ok()));
    assert_eq!(heard.recv_timeout(TIMEOUT), Ok(true));
}
