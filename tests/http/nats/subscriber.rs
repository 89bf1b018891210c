//! As much of a client of NATS as the tests need: it blocks, and takes what it is sent when it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::http::client::TIMEOUT;

/// A message to a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub subject: String,
    pub reply: String,
    /// Lines of its headers.
    pub headers: String,
    pub body: String,
}

impl Message {
    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.next_back().unwrap_or_default()
    }
}

/// A connection to a broker.
pub struct Subscriber {
    stream: BufReader<TcpStream>,
    subscriptions: usize,
}

impl Subscriber {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut subscriber = Self { stream: BufReader::new(stream), subscriptions: 0 };
        assert!(subscriber.line().starts_with("INFO "));
        subscriber.write("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n");
        subscriber.settle();
        subscriber
    }

    /// One that has subscribed to these, as the broker knows.
    pub fn of<'s>(address: SocketAddr, subjects: impl IntoIterator<Item = &'s str>) -> Self {
        let mut subscriber = Self::open(address);
        subjects.into_iter().for_each(|subject| subscriber.subscribe(subject));
        subscriber.settle();
        subscriber
    }

    fn subscribe(&mut self, subject: &str) {
        self.subscriptions += 1;
        let number = self.subscriptions;
        self.write(&format!("SUB {subject} {number}\r\n"));
    }

    pub fn publish(&mut self, subject: &str, body: &str) {
        self.write(&format!("PUB {subject} {}\r\n{body}\r\n", body.len()));
    }

    /// Asks, and returns what is answered; what comes before that is lost.
    pub fn request(&mut self, subject: &str, body: &str) -> Message {
        let inbox = format!("_INBOX.test{}", self.subscriptions);
        self.subscribe(&inbox);
        self.publish_with_reply(subject, &inbox, body);
        loop {
            let message = self.next();
            if message.subject == inbox {
                return message;
            }
        }
    }

    /// Publishes with a subject for answers.
    pub fn publish_with_reply(&mut self, subject: &str, reply: &str, body: &str) {
        self.write(&format!("PUB {subject} {reply} {}\r\n{body}\r\n", body.len()));
    }

    /// Waits until the broker has taken everything.
    fn settle(&mut self) {
        self.write("PING\r\n");
        assert_eq!(self.line(), "PONG");
    }

    fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next message.
    pub fn next(&mut self) -> Message {
        self.next_or_end().expect("the broker has closed the connection")
    }

    /// The next message; `None` if the broker has closed the connection.
    pub fn next_or_end(&mut self) -> Option<Message> {
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let words: Vec<_> = line.split_whitespace().collect();
            let (has_headers, rest) = match words[..] {
                ["MSG", ref rest @ ..] => (false, rest),
                ["HMSG", ref rest @ ..] => (true, rest),
                ["PING"] => {
                    self.write("PONG\r\n");
                    continue;
                }
                ["-ERR", ..] => return None,
                _ => continue,
            };
            // Subject, number, the subject of an answer if there is one, and one or two lengths.
            let lengths = if has_headers { 2 } else { 1 };
            let reply = if rest.len() == 3 + lengths { rest[2] } else { "" };
            let total: usize = rest[rest.len() - 1].parse().unwrap();
            let headers: usize = if has_headers { rest[rest.len() - 2].parse().unwrap() } else { 0 };
            let (subject, reply) = (rest[0].to_owned(), reply.to_owned());
            let mut bytes = vec![0; total + 2];
            self.stream.read_exact(&mut bytes).ok()?;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            return Some(Message {
                subject,
                reply,
                headers: text(&bytes[..headers]),
                body: text(&bytes[headers..total]),
            });
        }
    }
}
