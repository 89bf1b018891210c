//! Change feeds over sockets: what is told, how a feed ends, and that nothing is lost or doubled when anybody is killed.

use std::collections::{HashSet, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use strata::maintenance;
use strata::schema::Schema;

use super::client::{Connection, Response, TIMEOUT, ask, schema, start, wait_until};
use super::process::Running;
use crate::engine::Random;

/// An event as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) data: String,
}

/// What was understood of a stream so far.
#[derive(Default)]
struct Parser {
    unread: String,
    /// The id to resume from, which blocks without data say, too.
    last_id: String,
    comments: usize,
}

impl Parser {
    /// The events in what has come, as a browser reads them (WHATWG HTML, 9.2.6).
    fn read(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.unread.push_str(std::str::from_utf8(bytes).unwrap());
        let mut events = Vec::new();
        while let Some((block, rest)) = self.unread.split_once("\n\n") {
            let (mut name, mut data) = (String::new(), None);
            for line in block.split('\n') {
                match line.split_once(':').unwrap() {
                    ("event", value) => name = value.trim_start().to_owned(),
                    ("id", value) => self.last_id = value.trim_start().to_owned(),
                    ("data", value) => {
                        let before = data.map_or(String::new(), |before: String| before + "\n");
                        data = Some(before + value.strip_prefix(' ').unwrap_or(value));
                    }
                    ("", _) => self.comments += 1,
                    (field, _) => panic!("{field} in {block}"),
                }
            }
            events.extend(data.map(|data| Event { name, id: self.last_id.clone(), data }));
            self.unread = rest.to_owned();
        }
        events
    }
}

/// A stream that is read.
pub(super) struct Feed {
    connection: Connection,
    parser: Parser,
    ready: VecDeque<Event>,
    /// Whether the stream ended as a body should.
    pub(super) ended_well: bool,
}

impl Feed {
    pub(super) fn ask(url: &str, path: &str, last_id: Option<&str>) -> (Connection, Response) {
        let and = if path.contains('?') { '&' } else { '?' };
        let mut connection = Connection::open(url);
        let header = last_id.map_or(String::new(), |id| format!("last-event-id: {id}\r\n"));
        connection.send(&format!("GET {path}{and}stream=sse HTTP/1.1\r\nhost: localhost\r\n{header}\r\n"));
        // The head alone: the body has no end.
        let response = connection.receive(true);
        (connection, response)
    }

    pub(super) fn open(url: &str, path: &str, last_id: Option<&str>) -> Self {
        let (connection, response) = Self::ask(url, path, last_id);
        assert_eq!((response.status, response.header("content-type")), (200, "text/event-stream"));
        assert_eq!(response.header("cache-control"), "no-store");
        Self { connection, parser: Parser::default(), ready: VecDeque::new(), ended_well: false }
    }

    /// Reads on; false at the end.
    fn read(&mut self) -> bool {
        match self.connection.chunk() {
            Some(chunk) if chunk.is_empty() => {
                self.ended_well = true;
                false
            }
            Some(chunk) => {
                self.ready.extend(self.parser.read(&chunk));
                true
            }
            None => false,
        }
    }

    /// The next event; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.read().then_some(())?;
        }
    }

    /// The next event in short.
    fn text(&mut self) -> String {
        self.next().map_or("end".to_owned(), |event| format!("{} {}", event.name, event.data))
    }

    /// Reads until it knows where it is.
    pub(super) fn place(&mut self) -> String {
        while self.parser.last_id.is_empty() {
            assert!(self.read());
        }
        self.parser.last_id.clone()
    }
}

fn put(url: &str, id: &str, name: &str) {
    let response = ask(url, "PUT", &format!("/Product/{id}"), &format!("{{\"name\":\"{name}\"}}"));
    assert!(matches!(response.status, 200 | 201), "{response:?}");
}

fn told(id: &str, name: &str) -> String {
    let record = format!("{{\"id\":\"{id}\",\"name\":\"{name}\",\"category\":null,\"tags\":null,\"price\":null,");
    format!("put {record}\"stock\":null,\"sku\":null,\"released\":null,\"details\":null,\"note\":null}}")
}

#[test]
fn a_table_and_a_record_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    let mut all = Feed::open(url, "/Product", None);
    let mut one = Feed::open(url, "/Product/b", None);
    let mut visits = Feed::open(url, "/Visit", None);
    put(url, "a", "Lamp");
    put(url, "b", "Chair");
    assert_eq!(ask(url, "PATCH", "/Product/b", r#"{"name":"Stool"}"#).status, 200);
    assert_eq!(ask(url, "DELETE", "/Product/a", "").status, 204);
    let mutation = r#"{"query":"mutation { updateProduct(id: \"b\", data: {name: \"Sofa\"}) { id } }"}"#;
    assert_eq!(ask(url, "POST", "/graphql", mutation).body, r#"{"data":{"updateProduct":{"id":"b"}}}"#);
    assert_eq!(ask(url, "PUT", "/Visit/1", "{}").status, 201, "strong");
    assert_eq!(ask(url, "DELETE", "/Product?truncate=true", "").status, 200);
    let of_b = [told("b", "Chair"), told("b", "Stool"), told("b", "Sofa")];
    for expected in [&told("a", "Lamp"), &of_b[0], &of_b[1], "delete {\"id\":\"a\"}", &of_b[2], "truncate {}"] {
        assert_eq!(all.text(), expected);
    }
    for expected in of_b.iter().map(String::as_str).chain(["truncate {}"]) {
        assert_eq!(one.text(), expected);
    }
    assert!(visits.text().starts_with(r#"put {"id":"1","page":null,"createdAt":"#));
    let mut again = Feed::open(url, "/Visit/1", Some(&all.parser.last_id));
    assert_eq!(ask(url, "PUT", "/Visit/1", r#"{"page":"x"}"#).status, 200);
    assert!(again.text().contains(r#""page":"x""#), "what was before the id is not told");
    server.stop().unwrap();
    for mut feed in [all, one, again] {
        assert_eq!((feed.text().as_str(), feed.ended_well), ("end", true), "a stop ends it as a body should end");
    }
}

/// However many chunks were written before.
#[test]
fn writing_a_blob_is_one_change_of_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    assert_eq!(ask(url, "PUT", "/Photo/1", "{}").status, 201);
    let mut feed = Feed::open(url, "/Photo", None);
    let told = |picture: &str| format!(r#"put {{"id":"1","title":null,"picture":{picture},"preview":null}}"#);
    assert_eq!(ask(url, "PUT", "/Photo/1/picture", &"x".repeat(1_000_000)).status, 201);
    assert_eq!(ask(url, "PUT", "/Photo/1/picture", "y").status, 204);
    assert_eq!(ask(url, "DELETE", "/Photo/1/picture", "").status, 204);
    for expected in [told("\"/Photo/1/picture\""), told("\"/Photo/1/picture\""), told("null")] {
        assert_eq!(feed.text(), expected);
    }
}

#[test]
fn who_was_away_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let mut feed = Feed::open(server.url(), "/Product", None);
    let begin = feed.place();
    let names: Vec<_> = (0..50).map(|number| format!("name {number}")).collect();
    names.iter().for_each(|name| put(server.url(), "a", name));
    let all: Vec<_> = names.iter().map(|_| feed.next().unwrap()).collect();
    server.stop().unwrap();
    let schema = Schema::parse(&std::fs::read_to_string(schema()).unwrap()).unwrap();
    drop(maintenance::open(&folder.path().join("data"), schema).expect("who looks at the store leaves its log alone"));
    let server = start(folder.path(), |_| {});
    put(server.url(), "a", "after");
    for (taken, id) in [&begin].into_iter().chain(all.iter().map(|event| &event.id)).enumerate() {
        let mut feed = Feed::open(server.url(), "/Product", Some(id));
        for expected in &all[taken..] {
            assert_eq!(feed.next().as_ref(), Some(expected));
        }
        assert_eq!(feed.text(), told("a", "after"));
    }
}

#[test]
fn over_the_limit_of_subscribers_there_is_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.feed.subscribers = 2);
    let first = Feed::open(server.url(), "/Product", None);
    let second = Feed::open(server.url(), "/Product/a", None);
    let (_, response) = Feed::ask(server.url(), "/Product", None);
    assert_eq!((response.status, response.header("retry-after")), (503, "1"));
    let metrics = ask(server.url(), "GET", "/_metrics", "").body;
    assert!(metrics.contains("strata_feed_subscribers 2\n"), "{metrics}");
    assert!(ask(server.url(), "GET", "/_counters", "").body.contains("\"feed\":{\"subscribers\":2,"));
    drop((first, second));
    wait_until("their places are free", || Feed::ask(server.url(), "/Product", None).1.status == 200);
}

#[test]
fn the_log_that_is_not_kept_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.storage.feed_log_bytes = 0);
    let mut feed = Feed::open(server.url(), "/Product", None);
    let begin = feed.place();
    for name in ["a", "b"] {
        put(server.url(), "a", name);
        server.database().store().flush().unwrap();
    }
    let (mut connection, response) = Feed::ask(server.url(), "/Product", Some(&begin));
    assert_eq!((response.status, response.header("content-type")), (410, "application/problem+json"));
    let length = response.header("content-length").parse().unwrap();
    let problem = String::from_utf8(connection.take(length).unwrap()).unwrap();
    assert!(problem.contains("urn:strata:error:gone"), "{problem}");
}

/// Sockets and the server's own buffers take some of it; then it lags, and is told so where it reads on.
#[test]
fn who_does_not_read_holds_up_nobody_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.feed.queued_bytes = 1 << 20);
    let url = server.url();
    let mut slow = Feed::open(url, "/Product", None);
    slow.place();
    let (name, mut written) = ("n".repeat(30_000), 0);
    let lagged = || ask(url, "GET", "/_metrics", "").body.contains("strata_feed_lagged_total 1\n");
    while !lagged() {
        assert!(written < 3000, "it never lags");
        (0..20).for_each(|_| put(url, "a", &name));
        written += 20;
    }
    let mut told = 0;
    let last = loop {
        match slow.next().expect("it is told before the end") {
            event if event.name == "lagged" => break event,
            event => {
                assert_eq!(event.name, "put");
                told += 1;
            }
        }
    };
    assert_eq!((slow.text().as_str(), slow.ended_well), ("end", true));
    assert!(told < written);
    let mut resumed = Feed::open(url, "/Product", Some(&last.id));
    for _ in told..written {
        assert_eq!(resumed.next().unwrap().name, "put");
    }
    put(url, "a", "last");
    assert_eq!(resumed.text(), super::feed::told("a", "last"), "nothing was left out and nothing doubled");
}

#[test]
fn a_quiet_feed_stays_open_and_says_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| {
        config.feed.keep_alive_ms = 300;
        // Less than nothing comes for.
        config.idle_timeout_ms = 100;
        config.header_timeout_ms = 100;
    });
    let mut feed = Feed::open(server.url(), "/Product", None);
    let begin = feed.place();
    assert_eq!(ask(server.url(), "PUT", "/Visit/1", "{}").status, 201);
    while feed.parser.comments < 4 {
        assert!(feed.read());
    }
    assert_ne!(feed.parser.last_id, begin, "how far the log was read, though nothing of it was for this one");
    put(server.url(), "a", "Lamp");
    assert_eq!(feed.text(), told("a", "Lamp"));
}

/// So that a server with clients can be restarted.
#[test]
fn a_stop_waits_for_no_feed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let mut feeds: Vec<_> = (0..20).map(|_| Feed::open(server.url(), "/Product", None)).collect();
    feeds.iter_mut().for_each(|feed| drop(feed.place()));
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < TIMEOUT / 6, "not at the deadline: {:?}", begun.elapsed());
    assert!(feeds.iter_mut().all(|feed| feed.next().is_none() && feed.ended_well));
}

#[test]
fn over_http_2_many_feeds_share_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let (url, address) = (server.url().to_owned(), server.url().strip_prefix("http://").unwrap().to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut feeds = Vec::new();
        for path in ["/Product", "/Product/a", "/Product/b"] {
            let request = http::Request::get(format!("http://localhost{path}?stream=sse")).body(()).unwrap();
            let (response, _) = client.clone().ready().await.unwrap().send_request(request, true).unwrap();
            let response = response.await.unwrap();
            assert!(response.status() == 200 && response.headers()["content-type"] == "text/event-stream");
            feeds.push((response.into_body(), Parser::default()));
        }
        tokio::task::spawn_blocking(move || ["a", "b"].into_iter().for_each(|id| put(&url, id, "Lamp"))).await.unwrap();
        for ((body, parser), ids) in feeds.iter_mut().zip([&["a", "b"][..], &["a"], &["b"]]) {
            let mut events = Vec::new();
            while events.len() < ids.len() {
                let bytes: Bytes = tokio::time::timeout(TIMEOUT, body.data()).await.unwrap().unwrap().unwrap();
                body.flow_control().release_capacity(bytes.len()).unwrap();
                events.extend(parser.read(&bytes).into_iter().map(|event| format!("{} {}", event.name, event.data)));
            }
            assert_eq!(events, ids.iter().map(|id| told(id, "Lamp")).collect::<Vec<_>>());
        }
        tokio::task::spawn_blocking(move || server.stop().unwrap()).await.unwrap();
        for (body, _) in &mut feeds {
            while let Some(bytes) = body.data().await {
                assert!(bytes.expect("it ends as a body should end").is_empty());
            }
        }
        drop((feeds, client));
        connection.await.unwrap().unwrap();
    });
}

/// A server that is killed and restarted, under those who write to it and follow what is written.
struct Load {
    begun: Instant,
    /// Where it is; another place after each restart.
    url: Mutex<String>,
    /// Changes that are known to be stored.
    written: AtomicUsize,
}

/// What a follower received.
struct Followed {
    events: Vec<Event>,
    connections: usize,
}

const WRITERS: usize = 4;
const FOLLOWERS: usize = 3;
/// Changes of each writer.
const EACH: usize = 500;
/// Every other one is a kill -9.
const RESTARTS: usize = 10;

impl Load {
    /// Sends a request whose response ends with the connection (HTTP/1.0), and what is to be read of it; nobody may be there.
    fn send(&self, request: &str, headers: &str, body: &str) -> std::io::Result<TcpStream> {
        let address = self.url.lock().strip_prefix("http://").unwrap().to_owned();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let length = body.len();
        let text = format!("{request} HTTP/1.0\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    }

    /// The body of a response with a good status; `None` if there was none.
    fn ask(&self, request: &str, body: &str) -> Option<String> {
        let mut response = String::new();
        let stream = self.send(request, "content-type: application/json\r\n", body);
        if stream.and_then(|mut stream| stream.read_to_string(&mut response)).is_err() {
            self.pause();
            return None;
        }
        let (head, body) = response.split_once("\r\n\r\n")?;
        head.split(' ').nth(1)?.starts_with('2').then(|| body.to_owned())
    }

    /// Nobody is there.
    fn pause(&self) {
        assert!(self.begun.elapsed() < TIMEOUT * 3, "nobody is there any more");
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Gives a record so many names in turn, each once: whoever got no response looks whether it was done.
    fn write(&self, writer: usize) {
        for number in 1..=EACH {
            let name = format!("\"name\":\"{number}\"");
            let (request, body) = match writer % 2 {
                0 => (format!("PUT /Product/{writer}"), format!("{{{name}}}")),
                _ => {
                    let data = format!("{{name: \\\"{number}\\\"}}");
                    let query = format!("mutation {{ updateProduct(id: \\\"{writer}\\\", data: {data}) {{ name }} }}");
                    ("POST /graphql".to_owned(), format!("{{\"query\":\"{query}\"}}"))
                }
            };
            let is_in = |response: Option<String>| response.map(|response| response.contains(&name));
            while is_in(self.ask(&request, &body)) != Some(true) {
                let is_stored = loop {
                    if let Some(is_stored) = is_in(self.ask(&format!("GET /Product/{writer}"), "")) {
                        break is_stored;
                    }
                };
                if is_stored {
                    break;
                }
            }
            self.written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Follows all records from an event on, breaks off now and then and resumes, until it is told of the record `end`.
    fn follow(&self, begin: &str, mut random: Random) -> Followed {
        let (mut followed, mut id) = (Followed { events: Vec::new(), connections: 0 }, begin.to_owned());
        loop {
            let Ok(mut stream) = self.send("GET /Product?stream=sse", &format!("last-event-id: {id}\r\n"), "") else {
                self.pause();
                continue;
            };
            let (mut parser, mut unread, mut bytes) = (Parser::default(), Vec::new(), [0; 4096]);
            let (mut in_body, most) = (false, followed.events.len() + 1 + random.below(400));
            while followed.events.len() < most {
                let Ok(length @ 1..) = stream.read(&mut bytes) else { break };
                unread.extend_from_slice(&bytes[..length]);
                if !in_body {
                    let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
                    let head = String::from_utf8(unread.drain(..end + 4).collect()).unwrap();
                    if head.starts_with("HTTP/1.0 503") {
                        // It is being stopped.
                        break;
                    }
                    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
                    (in_body, followed.connections) = (true, followed.connections + 1);
                }
                // Names are ASCII, so a piece is text wherever it ends.
                for event in parser.read(&std::mem::take(&mut unread)) {
                    match event.name.as_str() {
                        "lagged" => {}
                        _ if event.data.starts_with("{\"id\":\"end\"") => return followed,
                        _ => followed.events.push(event),
                    }
                }
                if !parser.last_id.is_empty() {
                    id.clone_from(&parser.last_id);
                }
            }
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_over_kills_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    // Files of the log that are short, so that they are archived meanwhile.
    let start = || Running::start_with(folder.path(), &["--write-buffer-bytes", "64K"]);
    let mut server = start();
    (0..WRITERS).for_each(|writer| put(&server.url, &writer.to_string(), "0"));
    let begin = Feed::open(&server.url, "/Product", None).place();
    let load = Load { begun: Instant::now(), url: Mutex::new(server.url.clone()), written: AtomicUsize::new(0) };
    let followed = std::thread::scope(|scope| {
        let (load, begin) = (&load, &begin);
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || load.write(writer))).collect();
        let follow = |seed| scope.spawn(move || load.follow(begin, Random(seed)));
        let followers: Vec<_> = (1..=FOLLOWERS as u64).map(follow).collect();
        for restart in 1..=RESTARTS {
            let enough = restart * WRITERS * EACH / (RESTARTS + 1);
            wait_until("enough was written", || load.written.load(Ordering::Relaxed) >= enough);
            if restart % 2 == 0 {
                server.signal("TERM");
                assert_eq!(server.exit_code(), Some(0));
            }
            // By SIGKILL, whatever it does.
            drop(server);
            server = start();
            load.url.lock().clone_from(&server.url);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        put(&server.url, "end", "");
        followers.into_iter().map(|follower| follower.join().unwrap()).collect::<Vec<_>>()
    });
    let (mut missing, mut doubled, mut disordered) = (0, 0, 0);
    for (follower, writer) in followed.iter().flat_map(|followed| (0..WRITERS).map(move |writer| (followed, writer))) {
        let record = format!("{{\"id\":\"{writer}\",\"name\":\"");
        let names = follower.events.iter().filter_map(|event| event.data.strip_prefix(&record)?.split('"').next());
        let names: Vec<usize> = names.map(|name| name.parse().unwrap()).collect();
        let distinct: HashSet<_> = names.iter().collect();
        missing += (1..=EACH).filter(|name| !distinct.contains(name)).count();
        doubled += names.len() - distinct.len();
        disordered += usize::from(!names.is_sorted());
    }
    println!(
        "change feed over {RESTARTS} restarts, {} of them by kill -9: {} changes written; {FOLLOWERS} followers over {} \
         connections received {}; {missing} missing, {doubled} doubled",
        RESTARTS.div_ceil(2),
        load.written.load(Ordering::Relaxed),
        followed.iter().map(|follower| follower.connections).sum::<usize>(),
        followed.iter().map(|follower| follower.events.len()).sum::<usize>(),
    );
    assert_eq!((missing, doubled, disordered), (0, 0, 0));
    for follower in &followed {
        assert!(follower.events == followed[0].events, "all in one order, with the same ids");
        assert!(follower.events.len() == WRITERS * EACH && follower.connections > RESTARTS / 2);
    }
}
