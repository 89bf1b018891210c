//! A server that answers `GET /row/N` with `row-N`, except where its script says otherwise, and counts what it does.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The outcome of a request.
#[derive(Clone, Copy)]
pub enum Fault {
    /// The right answer.
    None,
    /// 503.
    Unavailable,
    /// The right status, another body.
    WrongBody,
    /// The connection ends without an answer.
    Dropped,
    /// The body ends before its length.
    Broken,
    /// The body comes this much after its head.
    Slow(Duration),
}

struct Shared {
    script: fn(u64) -> Fault,
    requests: AtomicU64,
    right: AtomicU64,
}

/// Starts one that lives as long as the process; its URL. The script gets the number of the request, from 0.
pub fn start(script: fn(u64) -> Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shared = Arc::new(Shared { script, requests: AtomicU64::new(0), right: AtomicU64::new(0) });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (shared, stream) = (Arc::clone(&shared), stream.unwrap());
            std::thread::spawn(move || serve(&shared, &stream));
        }
    });
    url
}

/// Answers until the client has no more to say, or the script says so.
fn serve(shared: &Shared, stream: &TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (_, path, _) = request(&mut reader)?;
        if path == "/_counters" {
            let right = shared.right.load(Ordering::SeqCst);
            answer(&mut writer, "200 OK", &format!("{{\"right\":{right}}}"))?;
            continue;
        }
        if path == "/_metrics" {
            answer(&mut writer, "404 Not Found", "")?;
            continue;
        }
        let body = path.replace("/row/", "row-");
        match (shared.script)(shared.requests.fetch_add(1, Ordering::SeqCst)) {
            Fault::Unavailable => answer(&mut writer, "503 Service Unavailable", "later")?,
            Fault::WrongBody => answer(&mut writer, "200 OK", "another")?,
            Fault::Dropped => return stream.shutdown(std::net::Shutdown::Both).ok(),
            Fault::Broken => {
                writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nro").ok()?;
                return stream.shutdown(std::net::Shutdown::Both).ok();
            }
            Fault::Slow(wait) => {
                shared.right.fetch_add(1, Ordering::SeqCst);
                write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).ok()?;
                std::thread::sleep(wait);
                writer.write_all(body.as_bytes()).ok()?;
            }
            Fault::None => {
                shared.right.fetch_add(1, Ordering::SeqCst);
                answer(&mut writer, "200 OK", &body)?;
            }
        }
    }
}

/// The method, the target and the body of the next request.
pub fn request(reader: &mut impl BufRead) -> Option<(String, String, Vec<u8>)> {
    let (method, target, _, body) = whole_request(reader)?;
    Some((method, target, body))
}

/// The method, the target, the header by which a feed is resumed, and the body of the next request.
pub fn whole_request(reader: &mut impl BufRead) -> Option<(String, String, Option<String>, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut length, mut last_event_id) = (0, None);
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok()?;
        match field.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some((name, value)) if name.eq_ignore_ascii_case("last-event-id") => last_event_id = Some(value.to_owned()),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, target, last_event_id, body))
}

/// Answers with a status and a body.
pub fn answer(writer: &mut impl Write, status: &str, body: &str) -> Option<()> {
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    writer.write_all(text.as_bytes()).ok()
}

/// A scenario that asks it for rows; `load` is the table of that name.
pub fn scenario(load: &str) -> strata_load::scenario::Scenario {
    strata_load::scenario::Scenario::parse("rows.toml", &text(load)).unwrap()
}

/// The text of that scenario.
pub fn text(load: &str) -> String {
    format!(
        r#"
name = "rows"
about = "rows of the server with scripted faults"
tls = false
effects = [{{ counter = "right", operations = ["row"], each = 1.0 }}]
operations = [{{ name = "row", weight = 1.0, method = "GET", path = "/row/{{n}}", expect = {{ status = 200, body = "row-{{n}}" }} }}]
data = {{ schema = "", table = "row", rows = 1000, row = "row-{{n}}" }}
[load]
{load}
"#
    )
}
