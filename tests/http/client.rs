//! As much of an HTTP client as the tests need: it sends what it is told, byte by byte, and reads one response.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use strata::config::Config;
use strata::server::Server;

/// Longer than anything here takes; whoever waits this long waits for something that does not come.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// The schema of all these tests, and of the manual.
pub fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/http/schema.graphql")
}

/// The schema of registrations that are kept in Redis, and of their manual.
pub fn schema_of_redis() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/redis/schema.graphql")
}

/// A server in this process over a folder.
pub fn start(folder: &Path, change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        schema: Some(schema()),
        data_dir: folder.join("data"),
        workers: 2,
        ..Config::default()
    };
    change(&mut config);
    Server::start(&config).unwrap()
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A response as it came.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub reason: String,
    pub headers: Vec<(String, String)>,
    /// Empty if it is no text.
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Response {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// One connection.
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub fn open(url: &str) -> Self {
        let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// A connection from another address of this machine.
    pub fn open_from(address: IpAddr, url: &str) -> Self {
        Self::open_by(Socket::new(Domain::IPV4, Type::STREAM, None).unwrap(), address, url)
    }

    /// The same by a socket that takes little: what is not read stays at the server.
    pub fn open_narrow(address: IpAddr, url: &str) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self::open_by(socket, address, url)
    }

    fn open_by(socket: Socket, address: IpAddr, url: &str) -> Self {
        let to: SocketAddr = url.strip_prefix("http://").unwrap().parse().unwrap();
        socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends as long as the server takes it; whether it did.
    pub fn try_send(&mut self, text: &str) -> bool {
        self.try_send_bytes(text.as_bytes())
    }

    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Reads and forgets what has come.
    pub fn skim(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        while matches!(self.stream.read(&mut [0; 1 << 16]), Ok(1..)) {}
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Sends a request with a body of known length.
    pub fn request(&mut self, method: &str, path: &str, body: &str) -> Response {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
        };
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{length}\r\n{body}"));
        self.receive(method == "HEAD")
    }

    /// Sends a request with these headers and no others but the host and the length.
    pub fn request_with(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n"));
        self.send_bytes(body);
        self.receive(method == "HEAD")
    }

    /// Reads one response; that to HEAD has no body.
    pub fn receive(&mut self, to_head: bool) -> Response {
        let end = loop {
            match self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end,
                None => assert!(self.read_more(), "closed before an answer: {:?}", String::from_utf8_lossy(&self.read)),
            }
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let mut status = lines.next().unwrap().splitn(3, ' ').skip(1);
        let mut response = Response {
            status: status.next().unwrap().parse().unwrap(),
            reason: status.next().unwrap_or("").to_owned(),
            headers: lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .collect(),
            body: String::new(),
            bytes: Vec::new(),
        };
        if to_head {
            return response;
        }
        response.bytes = match response.header("transfer-encoding") {
            "chunked" => self.chunks().expect("closed within an answer"),
            _ => {
                let length = response.header("content-length").parse::<usize>().unwrap_or(0);
                self.take(length).expect("closed within an answer")
            }
        };
        response.body = String::from_utf8(response.bytes.clone()).unwrap_or_default();
        response
    }

    /// Reads a response whose first bytes were read before.
    pub fn receive_behind(&mut self, begun: Vec<u8>) -> Response {
        self.read.splice(..0, begun);
        self.receive(false)
    }

    /// A body in chunks (RFC 9112, 7.1); `None` if it breaks off.
    pub fn chunks(&mut self) -> Option<Vec<u8>> {
        self.chunks_and_trailers().map(|(body, _)| body)
    }

    /// A body in chunks, and the trailers behind it.
    pub fn chunks_and_trailers(&mut self) -> Option<(Vec<u8>, String)> {
        let mut body = Vec::new();
        loop {
            match self.chunk()? {
                chunk if chunk.is_empty() => break,
                chunk => body.extend(chunk),
            }
        }
        let mut trailers = String::new();
        loop {
            match self.line()?.as_str() {
                "\r\n" => return Some((body, trailers)),
                line => trailers.push_str(line),
            }
        }
    }

    /// The next chunk of a body (RFC 9112, 7.1), empty at its end; `None` if it breaks off.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(self.line()?.trim_end(), 16).unwrap();
        let chunk = self.take(length)?;
        // Behind the last one there may be trailers.
        if length > 0 {
            self.take(2)?;
        }
        Some(chunk)
    }

    /// A line with its end; `None` if the connection ends before.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.take(1)?);
        }
        Some(String::from_utf8(line).unwrap())
    }

    /// Sends a piece of a body in chunks; the empty one is the end.
    pub fn send_chunk(&mut self, bytes: &[u8]) {
        self.send_bytes(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat());
    }

    /// So many bytes; `None` if the connection ends before.
    pub fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            self.read_more().then_some(())?;
        }
        Some(self.read.drain(..length).collect())
    }

    /// Whether the server has closed it; waits for that.
    pub fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.read_more()
    }

    fn read_more(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => false,
            Ok(bytes) => {
                self.read.extend_from_slice(&piece[..bytes]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came: {error}"),
        }
    }
}

/// One request on a connection of its own.
pub fn ask(url: &str, method: &str, path: &str, body: &str) -> Response {
    Connection::open(url).request(method, path, body)
}

/// One request with these headers on a connection of its own.
pub fn ask_with(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    Connection::open(url).request_with(method, path, headers, body)
}
