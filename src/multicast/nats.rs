//! Messages over NATS: what is sent to a record is also published to a subject of it, and the broker says who is absent.
//!
//! ```text
//! Multicast::send ── publications ──┐  one thread with a runtime
//! (a thread of the pool)            └─ connections ── broker ──┐
//!            Receipt ◄── Flight ◄── inbox of a connection ◄────┘ no responders, answers, acknowledgements
//! ```
//! All publications of a message are written one after the other, and behind them one message to the inbox itself, which closes them: it
//! comes back behind every word that the broker has to say of them (the client shows nobody the answers to its own PINGs). So a message to
//! thousands takes one round trip, and neither a task nor a thread a target.
//!
//! With a stream ([`outbox`]) the message is kept until the stream has acknowledged all of it.
//!
//! Non-goals: subscribing; credentials other than those of an address.

mod connection;
mod flight;
mod outbox;
mod subjects;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, HeaderValue, Message, StatusCode, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::Deserialize;
use twox_hash::XxHash3_64;

use super::runtime::Runtime;
use super::{Failures, Options, Receipts, Travelling};
use crate::error::{Error, Result};
use crate::feed::{Receipt, Standing};
use crate::schema::Table;
use crate::transaction::Database;
use connection::{Connection, Incoming, Seen};
use flight::Flight;
use outbox::Outbox;
pub(super) use outbox::Room;
use subjects::{MESSAGE, MESSAGE_ID, Publication, TARGETS, publications};

/// How long the thread may take to begin.
const TO_BEGIN: Duration = Duration::from_secs(10);

/// From how many publications a connection on another one is used: a few are sooner there on one.
const PER_CONNECTION: usize = 300;

/// How long the end of the server waits for what was published to go out.
const TO_END: Duration = Duration::from_secs(1);

/// How many turns of the other tasks it takes at most until all that was seen is there.
const DETOUR: usize = 2;

/// The token in the subject of what closes the publications of a message; behind it comes how often the connection had been made.
const END: &str = "end";

/// The servers of NATS.
pub(super) struct Nats {
    shared: Arc<Shared>,
    runtime: Runtime,
}

/// What the thread and those who send share.
struct Shared {
    receipts: Receipts,
    connections: Vec<Connection>,
    /// Those whose sender waits, by their numbers.
    flights: Mutex<HashMap<u64, Arc<Flight>>>,
    /// The number of the next one.
    next: AtomicU64,
    outbox: Option<Outbox>,
}

/// A message on its way.
pub(super) struct Travel {
    shared: Arc<Shared>,
    flight: Arc<Flight>,
    /// `None` if it goes by the outbox.
    number: Option<u64>,
}

impl Nats {
    /// Begins to connect to the servers of the options; `None` if there are none.
    ///
    /// # Errors
    /// `Invalid` if an address is none; `Storage` if no thread can be started; what reading the kept messages returns.
    pub(super) fn start(options: &Options, database: &Database) -> Result<Option<Self>> {
        if options.nats_servers.is_empty() {
            return Ok(None);
        }
        let outbox = options.jetstream.then(|| Outbox::open(database, options.outbox_bytes)).transpose()?;
        let cannot = |error| Error::storage("cannot start the thread of NATS", error);
        let runtime = Runtime::start("strata-nats").map_err(cannot)?;
        let (addresses, number) = (options.nats_servers.clone(), options.nats_connections);
        let begun = runtime.wait(TO_BEGIN, async move {
            let mut begun = Vec::with_capacity(number);
            for number in 0..number {
                begun.push(Connection::begin(&addresses, number == 0).await?);
            }
            Ok(begun)
        });
        let late = || Err(cannot(std::io::Error::from(std::io::ErrorKind::TimedOut)));
        let (connections, incoming): (Vec<_>, Vec<_>) = begun.unwrap_or_else(late)?.into_iter().unzip();
        let (receipts, flights, next) = (options.nats_receipts, Mutex::default(), AtomicU64::new(0));
        let shared = Arc::new(Shared { receipts, connections, flights, next, outbox });
        for (number, incoming) in incoming.into_iter().enumerate() {
            runtime.spawn(listen(Arc::clone(&shared), number as u16, incoming));
        }
        if shared.outbox.is_some() {
            runtime.spawn(outbox::empty(Arc::clone(&shared)));
        }
        Ok(Some(Self { shared, runtime }))
    }

    /// Takes room in the outbox for a message that is about to be stored; `None` if it is not to be kept.
    ///
    /// # Errors
    /// `Busy` if the outbox is full.
    pub(super) fn room(&self, message: &Travelling<'_>) -> Result<Option<Room>> {
        match &self.shared.outbox {
            Some(outbox) if message.body.len() <= self.shared.most() => outbox.room(message).map(Some),
            _ => Ok(None),
        }
    }

    /// Sends a message that was stored.
    pub(super) fn send(
        &self,
        table: &Table,
        message: Travelling<'_>,
        room: Option<Room>,
        receipt: &Arc<Receipt>,
    ) -> Travel {
        let (shared, id, body) = (&self.shared, message.id, message.body.clone());
        let publications = publications(&table.name, &message, shared.most());
        let used = (publications.len() / PER_CONNECTION).clamp(1, shared.connections.len());
        let connections: Vec<_> = publications.iter().map(|one| connection_of(&one.subject, used)).collect();
        let flight = Flight::new(id, publications, connections.into_iter(), Some(receipt.way()));
        let (flight, shared) = (Arc::new(flight), Arc::clone(shared));
        if let Some(outbox) = &self.shared.outbox {
            flight.set_out_to_stream();
            if let Some(room) = room {
                outbox.add(room, &flight, body);
            }
            return Travel { shared, flight, number: None };
        }
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        // Before anything is said of it.
        shared.flights.lock().insert(number, Arc::clone(&flight));
        for connection in flight.set_out(|number| shared.connections[usize::from(number)].is_there()) {
            let publishing = publish(Arc::clone(&shared), connection, number, Arc::clone(&flight), body.clone());
            self.runtime.spawn(tokio::task::unconstrained(publishing));
        }
        Travel { shared, flight, number: Some(number) }
    }
}

impl Drop for Nats {
    /// Has what was published go out.
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _ = self.runtime.wait(TO_END, async move {
            for connection in shared.connections.iter().filter(|connection| connection.is_there()) {
                let _ = connection.client.flush().await;
            }
        });
    }
}

impl Travel {
    /// Ends the wait for it.
    pub(super) fn end(&self, has_waited: bool) {
        let is_lost = has_waited && self.number.is_some();
        self.flight.end(if is_lost { Standing::Failed } else { Standing::Pending });
        if let Some(number) = self.number {
            self.shared.flights.lock().remove(&number);
        }
    }

    /// Returns why targets have failed.
    pub(super) fn failures(&self, standings: &[Standing]) -> Failures {
        self.flight.failures(standings)
    }
}

impl Shared {
    /// Returns the greatest size of headers and body that the broker takes, as far as it has said so.
    fn most(&self) -> usize {
        let connected = self.connections.iter().filter(|connection| connection.connects() > 0);
        connected.map(|connection| connection.client.max_payload()).min().unwrap_or(usize::MAX)
    }

    /// Takes what has come to the inbox of a connection: `m` or `s`, the number of a message, and that of a publication. Returns the message
    /// whose publications it closes, and whether the connection has been the same all the time.
    fn hear(&self, connection: u16, said: &Message) -> Option<(Arc<Flight>, bool)> {
        let inbox = &self.connections[usize::from(connection)].inbox;
        let mut tokens = said.subject.strip_prefix(inbox.as_str())?.strip_prefix('.')?.split('.');
        let (kind, number, publication) = (tokens.next()?, tokens.next()?.parse().ok()?, tokens.next()?);
        if kind == "s" {
            if let (Some(outbox), Ok(publication)) = (&self.outbox, publication.parse()) {
                outbox.hear(number, publication, &Word::of(said));
            }
            return None;
        }
        let flight = self.flights.lock().get(&number).map(Arc::clone)?;
        let Ok(publication) = publication.parse() else {
            return Some((flight, self.is_still(connection, tokens.next())));
        };
        match Word::of(said) {
            Word::NoResponders => flight.absent(publication),
            Word::Answer => flight.replied(publication),
            // A stream that takes the subject, too, is no subscriber that has answered.
            Word::Acknowledged | Word::NotStored(_) => {}
        }
        None
    }

    /// Returns whether a connection has been made as often as is written in what closes a message.
    fn is_still(&self, connection: u16, connects: Option<&str>) -> bool {
        connects.and_then(|connects| connects.parse().ok())
            == Some(self.connections[usize::from(connection)].connects())
    }

    /// Takes what was seen of a connection.
    fn notice(&self, connection: u16, seen: &Seen) {
        match seen {
            Seen::Connected => self.outbox.iter().for_each(Outbox::send_again),
            Seen::Refused(subject) => self.refused(connection, subject),
        }
    }

    /// Takes that the broker does not allow to publish to a subject.
    fn refused(&self, connection: u16, subject: &str) {
        let inbox = &self.connections[usize::from(connection)].inbox;
        let flights: Vec<_> =
            self.flights.lock().iter().map(|(number, flight)| (*number, Arc::clone(flight))).collect();
        match subject.strip_prefix(inbox.as_str()) {
            // What closes a message comes back as a refusal, then, which is as good.
            Some(rest) => {
                for (number, flight) in &flights {
                    if let Some(connects) = rest.strip_prefix(&format!(".m.{number}.{END}.")) {
                        flight.closed(connection, self.is_still(connection, Some(connects)), self.receipts);
                    }
                }
            }
            None => {
                let known = flights.iter().filter(|(_, flight)| flight.refused(subject)).count();
                if known == 0 {
                    tracing::error!("NATS does not allow to publish to {subject}");
                }
            }
        }
    }
}

/// Returns the connection of a subject among so many: the same each time, so that messages to as many targets arrive in their order.
fn connection_of(subject: &Subject, connections: usize) -> u16 {
    match connections {
        1 => 0,
        _ => (XxHash3_64::oneshot(subject.as_bytes()) % connections as u64) as u16,
    }
}

/// Hears what is said on a connection.
async fn listen(shared: Arc<Shared>, connection: u16, mut incoming: Incoming) {
    loop {
        tokio::select! {
            // What is seen was said behind what is in the inbox by then.
            biased;
            Some(said) = incoming.inbox.next() => {
                let Some((closed, is_whole)) = shared.hear(connection, &said) else { continue };
                // What is seen takes a detour by a task of the client, and may have been said before.
                for _ in 0..DETOUR {
                    tokio::task::yield_now().await;
                }
                while let Ok(seen) = incoming.seen.try_recv() {
                    shared.notice(connection, &seen);
                }
                closed.closed(connection, is_whole, shared.receipts);
            }
            Some(seen) = incoming.seen.recv() => shared.notice(connection, &seen),
            else => return,
        }
    }
}

/// Publishes what goes out on a connection, and closes it.
async fn publish(shared: Arc<Shared>, of: u16, number: u64, flight: Arc<Flight>, body: Bytes) {
    let connection = &shared.connections[usize::from(of)];
    let _queued = connection.queue(flight.publications.len(), &body);
    let (Connection { client, inbox, .. }, of_message) = (connection, headers(&flight.id));
    let connects = connection.connects();
    for position in flight.on(of) {
        let publication = &flight.publications[position];
        let answer = format!("{inbox}.m.{number}.{position}");
        let headers = of_publication(publication, &of_message);
        let published =
            client.publish_with_reply_and_headers(publication.subject.clone(), answer, headers, body.clone());
        if published.await.is_err() {
            flight.refused(&publication.subject);
        }
    }
    // Without it the sender waits for its timeout.
    let _ = client.publish(format!("{inbox}.m.{number}.{END}.{connects}"), Bytes::new()).await;
}

/// Returns the headers of all publications of a message.
fn headers(message: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(MESSAGE, HeaderValue::from(message));
    headers
}

/// Returns the headers of one, from those of all.
fn of_publication(publication: &Publication, of_message: &HeaderMap) -> HeaderMap {
    let mut headers = of_message.clone();
    if let Some(named) = &publication.named {
        headers.insert(TARGETS, HeaderValue::from(named.as_str()));
    }
    headers
}

/// What comes to an inbox.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// Nobody has subscribed.
    NoResponders,
    /// A stream has stored it.
    Acknowledged,
    /// A stream has not, and why.
    NotStored(String),
    /// Somebody has answered.
    Answer,
}

/// What a stream answers to what is published to it.
#[derive(Deserialize)]
struct Acknowledgement {
    error: Option<Refusal>,
    stream: Option<String>,
    seq: Option<u64>,
}

#[derive(Deserialize)]
struct Refusal {
    code: u16,
    #[serde(default)]
    description: String,
}

impl Word {
    fn of(said: &Message) -> Self {
        if said.status == Some(StatusCode::NO_RESPONDERS) {
            return Self::NoResponders;
        }
        // Most answers are none of a stream.
        if said.payload.first() != Some(&b'{') {
            return Self::Answer;
        }
        match serde_json::from_slice(&said.payload) {
            Ok(Acknowledgement { error: Some(Refusal { code, description }), .. }) => {
                Self::NotStored(format!("{description} ({code})"))
            }
            Ok(Acknowledgement { error: None, stream: Some(_), seq: Some(_) }) => Self::Acknowledged,
            _ => Self::Answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(payload: &'static str, status: Option<StatusCode>) -> Word {
        let subject = Subject::from_static("_INBOX.a.m.1.2");
        let payload = Bytes::from_static(payload.as_bytes());
        Word::of(&Message { subject, reply: None, payload, headers: None, status, description: None, length: 0 })
    }

    #[test]
    fn an_acknowledgement_of_a_stream_is_nobodys_answer() {
        assert_eq!(word("", Some(StatusCode::NO_RESPONDERS)), Word::NoResponders);
        for acknowledged in
            [r#"{"stream":"strata","seq":7}"#, r#"{"stream":"s","domain":"d","seq":1,"duplicate":true}"#]
        {
            assert_eq!(word(acknowledged, None), Word::Acknowledged);
        }
        let refused =
            r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"s","seq":0}"#;
        assert_eq!(word(refused, None), Word::NotStored("maximum messages exceeded (503)".to_owned()));
        for answer in ["", "ok", "{}", "{\"stream\":\"strata\"}", "{\"seq\":1}", "[1]", "{\"stream\":"] {
            assert_eq!(word(answer, None), Word::Answer, "{answer}");
        }
    }
}
