//! A publisher of NATS that speaks its protocol over a socket, so that what it sends is what a test says and nothing else.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// The subject on which subscribers reply.
const REPLIES: &str = "_INBOX.replies";

/// A connection to NATS.
pub struct Publisher {
    reader: BufReader<TcpStream>,
    /// Replies that have come.
    pub replies: usize,
}

impl Publisher {
    /// Connects to one at a URL.
    pub fn new(url: &str) -> Self {
        let stream = TcpStream::connect(url.strip_prefix("nats://").unwrap()).unwrap();
        let mut publisher = Self { reader: BufReader::new(stream), replies: 0 };
        publisher.say("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n");
        publisher.say(&format!("SUB {REPLIES} 1\r\nSUB _INBOX.api 2\r\n"));
        publisher.flush();
        publisher
    }

    fn say(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Makes the stream `strata`.
    pub fn make_stream(&mut self) {
        let asked =
            r#"{"name":"strata","subjects":["strata.>"],"storage":"memory","retention":"limits","num_replicas":1}"#;
        self.say(&format!("PUB $JS.API.STREAM.CREATE.strata _INBOX.api {}\r\n{asked}\r\n", asked.len()));
        while !self.line().starts_with("MSG _INBOX.api") {}
        let answer = self.line();
        assert!(!answer.contains("\"error\""), "{answer}");
    }

    /// Publishes a message to a subject; without an id it has no headers.
    pub fn publish(&mut self, subject: &str, id: Option<u64>, message: &str) {
        let headers = id.map_or_else(String::new, |id| format!("NATS/1.0\r\nStrata-Message: {id}\r\n\r\n"));
        let (head, whole) = (headers.len(), headers.len() + message.len());
        match id {
            Some(_) => self.say(&format!("HPUB {subject} {REPLIES} {head} {whole}\r\n{headers}{message}\r\n")),
            None => self.say(&format!("PUB {subject} {REPLIES} {whole}\r\n{message}\r\n")),
        }
    }

    /// Waits until the server has taken all of it.
    pub fn flush(&mut self) {
        self.say("PING\r\n");
        loop {
            let line = self.line();
            match line.as_str() {
                "PONG" => return,
                "PING" => self.say("PONG\r\n"),
                line => self.replies += usize::from(line.starts_with(&format!("MSG {REPLIES} "))),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the server has ended");
        line.trim_end().to_owned()
    }
}
