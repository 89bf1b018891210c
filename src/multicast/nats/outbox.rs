//! The outbox: messages that are kept until a stream of NATS (JetStream) has acknowledged all of their publications.
//!
//! ```text
//! stored ── waiting ── begun: at most 4000 unacknowledged publications ── acknowledged ── deleted
//!              ▲          └ sent again: broken connection, nothing heard of the message for long, not stored
//!              └ at the start: all that is stored
//! ```
//! A message is stored by the commit that sends it, and deleted after the last acknowledgement, so a kill of either side loses none. What may
//! have arrived is sent again under the same id, and the stream drops it. Those that wait are ids; their bodies are read when it is their
//! turn, unless there are few. What the stream refuses holds up its message alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_nats::{Client, HeaderValue};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::connection::PUBLICATION_BYTES;
use super::{
    Connection, Flight, MESSAGE_ID, Publication, Shared, Travelling, Word, connection_of, headers, of_publication,
    publications,
};
use crate::encoding::Value;
use crate::error::{Error, Result};
use crate::query::Query;
use crate::schema::{MESSAGES, Table};
use crate::transaction::Database;

/// The stream, which has every subject.
const STREAM: &str = "strata";

/// What JetStream answers (`err_code`) if there is no such stream.
const STREAM_NOT_FOUND: u64 = 10_059;

/// How long the stream keeps a message.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// How long the stream knows the id of a message.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

/// How many publications the stream may not have acknowledged.
const WINDOW: usize = 4000;

/// How many are published at a time.
const PIECE: usize = 500;

/// How many bytes of messages that wait, and of those that are begun, are in memory.
const IN_MEMORY_BYTES: usize = 16 << 20;

/// What an entry takes beside its texts, about.
const ENTRY_BYTES: usize = 128;

/// How often it is looked for what is overdue, and the pause after a failure.
const LOOK: Duration = Duration::from_secs(1);

/// How long nothing may be heard of a message before what is not acknowledged of it is sent again; twice as long each time.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that it becomes.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest pause of a message of which the stream refuses some: from [`LOOK`] on twice as long each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The outbox.
pub(super) struct Outbox {
    database: Database,
    limit: usize,
    bytes: Arc<AtomicUsize>,
    state: Mutex<State>,
    wake: Notify,
}

/// What a message takes in the outbox, until this is dropped.
pub(in crate::layers::multicast) struct Room {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

/// A message that is not begun.
struct Waiting {
    id: Uuid,
    room: Room,
    /// Whose sender may wait.
    flight: Weak<Flight>,
    /// Where it need not be read.
    kept: Option<(Arc<Flight>, Bytes)>,
}

/// A message of which some publications are not acknowledged.
struct Begun {
    room: Room,
    flight: Arc<Flight>,
    body: Bytes,
    marks: Box<[Mark]>,
    /// Before it, nothing is to be sent.
    next: usize,
    /// How many are not acknowledged.
    left: usize,
    /// When some were published last, or something was heard of them.
    heard: Instant,
    timeout: Duration,
    /// How long it is paused the next time that the stream refuses some; none if it never has.
    pause: Option<Duration>,
    paused_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    ToSend,
    Sent,
    Acknowledged,
}

struct State {
    waiting: VecDeque<Waiting>,
    /// Longer than the broker takes at present, as far as it has said so.
    too_long: Vec<Waiting>,
    /// Bytes of those that wait and are in memory.
    kept_bytes: usize,
    /// By their numbers.
    begun: BTreeMap<u64, Begun>,
    /// Bytes of those that are begun.
    begun_bytes: usize,
    /// Numbers of those of which something is to be sent.
    to_send: VecDeque<u64>,
    next: u64,
    unacknowledged: usize,
    /// Acknowledged, and to be deleted.
    done: Vec<(String, Room)>,
    /// Whether the stream is known to be there.
    is_ready: bool,
    /// Until when nothing is sent.
    paused_until: Option<Instant>,
    /// Whether the operator was told that it fails.
    is_failing: bool,
}

/// What to do next.
enum Step {
    Publish { number: u64, flight: Arc<Flight>, body: Bytes, positions: Vec<usize> },
    Read(Waiting),
}

impl Drop for Room {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Opens the outbox of a database, with all that it has.
    ///
    /// # Errors
    /// `Corrupt`; what the engine returns.
    pub(super) fn open(database: &Database, limit: usize) -> Result<Self> {
        let (bytes, mut waiting) = (Arc::new(AtomicUsize::new(0)), VecDeque::new());
        if let Some(messages) = database.schema().table(MESSAGES) {
            Query::default().run(database, messages, |record| {
                let id = record.id()?.parse().map_err(|_| Error::corrupt("a message has no id"))?;
                let room = Room { bytes: record.bytes().len() + ENTRY_BYTES, all: Arc::clone(&bytes) };
                bytes.fetch_add(room.bytes, Ordering::Relaxed);
                waiting.push_back(Waiting { id, room, flight: Weak::new(), kept: None });
                Ok(())
            })?;
        }
        if !waiting.is_empty() {
            tracing::info!("{} messages for the stream {STREAM} are sent again", waiting.len());
        }
        let state = State {
            waiting,
            too_long: Vec::new(),
            kept_bytes: 0,
            begun: BTreeMap::new(),
            begun_bytes: 0,
            to_send: VecDeque::new(),
            next: 0,
            unacknowledged: 0,
            done: Vec::new(),
            is_ready: false,
            paused_until: None,
            is_failing: false,
        };
        Ok(Self { database: database.clone(), limit, bytes, state: Mutex::new(state), wake: Notify::new() })
    }

    /// Takes room for a message. The first one always has some.
    ///
    /// # Errors
    /// `Busy` if there is none.
    pub(super) fn room(&self, message: &Travelling<'_>) -> Result<Room> {
        let ids: usize = message.targets.iter().map(|id| id.len() + 4).sum();
        let topics: usize = message.topics.iter().map(|topic| topic.as_ref().map_or(0, String::len) + 3).sum();
        let bytes = message.body.len() + ids + topics + ENTRY_BYTES;
        let longer = |all: usize| Some(all + bytes).filter(|longer| all == 0 || *longer <= self.limit);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer) {
            Ok(_) => Ok(Room { bytes, all: Arc::clone(&self.bytes) }),
            Err(_) => Err(Error::Busy {
                detail: "the outbox is full: the stream of NATS has not acknowledged the messages in it".to_owned(),
            }),
        }
    }

    /// Adds a message that was stored.
    pub(super) fn add(&self, room: Room, flight: &Arc<Flight>, body: Bytes) {
        let id = flight.id.parse().expect("the id of a message is a UUID");
        let (mut state, bytes) = (self.state.lock(), in_memory(&room, flight));
        let is_kept = state.kept_bytes + bytes <= IN_MEMORY_BYTES;
        state.kept_bytes += if is_kept { bytes } else { 0 };
        let kept = is_kept.then(|| (Arc::clone(flight), body));
        state.waiting.push_back(Waiting { id, room, flight: Arc::downgrade(flight), kept });
        drop(state);
        self.wake.notify_one();
    }

    /// Sends all again that is not acknowledged: the connection is another one.
    pub(super) fn send_again(&self) {
        self.state.lock().send_again();
        self.wake.notify_one();
    }

    /// Takes what is said of a publication.
    pub(super) fn hear(&self, number: u64, position: usize, word: &Word) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(begun) = state.begun.get_mut(&number) else { return };
        let Some(mark) = begun.marks.get_mut(position) else { return };
        let before = *mark;
        (begun.heard, begun.timeout) = (Instant::now(), ACKNOWLEDGEMENT_TIMEOUT);
        match word {
            Word::Acknowledged if before != Mark::Acknowledged => {
                *mark = Mark::Acknowledged;
                begun.left -= 1;
                begun.flight.acknowledged(position);
                if begun.left == 0 {
                    state.finish(number);
                }
                // One that is refused for good is no reason to say it again and again.
                let is_refused = !state.too_long.is_empty();
                if state.is_failing && !is_refused && state.begun.values().all(|begun| begun.pause.is_none()) {
                    state.is_failing = false;
                    tracing::info!("NATS stores messages again");
                }
            }
            Word::NoResponders if before == Mark::Sent => {
                *mark = Mark::ToSend;
                begun.next = begun.next.min(position);
                state.to_send.push_back(number);
                state.fail("no stream takes them");
            }
            Word::NotStored(reason) if before == Mark::Sent => {
                *mark = Mark::ToSend;
                begun.next = begun.next.min(position);
                begun.pause();
                state.tell(reason);
            }
            _ => return,
        }
        state.unacknowledged -= usize::from(before == Mark::Sent);
        // Not for each: what goes out next goes out in pieces.
        if state.unacknowledged.is_multiple_of(PIECE) || !state.done.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Has sent again what of a message nothing was heard for long, and what was paused.
    fn look_at_time(&self) {
        let mut state = self.state.lock();
        let (state, now) = (&mut *state, Instant::now());
        for (number, begun) in &mut state.begun {
            let is_overdue = now.duration_since(begun.heard) > begun.timeout;
            if is_overdue {
                (begun.heard, begun.timeout) = (now, (begun.timeout * 2).min(LONGEST_TIMEOUT));
                state.unacknowledged -= begun.send_again();
            }
            let goes_on = begun.paused_until.is_some_and(|until| until <= now);
            if goes_on {
                begun.paused_until = None;
            }
            if is_overdue || goes_on {
                state.to_send.push_back(*number);
            }
        }
    }

    /// Deletes what the stream has.
    async fn delete_done(&self) {
        let done = std::mem::take(&mut self.state.lock().done);
        if done.is_empty() {
            return;
        }
        let database = self.database.clone();
        let deleting = tokio::task::spawn_blocking(move || {
            let outcome = database.transact(|transaction| {
                let messages = database.schema().table(MESSAGES).expect("there are messages");
                done.iter().for_each(|(id, _)| transaction.let_go(messages, id));
                transaction.give_back();
                Ok(())
            });
            match outcome {
                Ok(()) => Ok(()),
                Err(error) => Err((done, error.to_string())),
            }
        });
        // The thread ends only with the runtime.
        if let Ok(Err((done, reason))) = deleting.await {
            let mut state = self.state.lock();
            state.done.extend(done);
            state.fail(&reason);
        }
    }

    /// Reads a message that waits, and begins it.
    async fn begin(&self, shared: &Shared, waiting: Waiting) {
        let (database, id) = (self.database.clone(), waiting.id.to_string());
        let most = shared.most();
        let reading = tokio::task::spawn_blocking(move || {
            let Some(stored) = Stored::read(&database, &id)? else { return Ok::<_, Error>(None) };
            let publications = stored.publications(&id, most);
            let unfit = |all: &[Publication]| all.iter().filter(|publication| !publication.fits).count();
            let unfit_now = unfit(&publications);
            // Subjects that are too long never fit.
            let is_too_long = unfit_now > 0 && unfit_now > unfit(&stored.publications(&id, usize::MAX));
            Ok(Some((publications, stored.body, is_too_long)))
        });
        let id = waiting.id.to_string();
        match reading.await {
            Ok(Ok(Some((_, body, true)))) => {
                let mut state = self.state.lock();
                if shared.most() > most {
                    // It was another connection when this one began to be read: nobody says so a second time.
                    return state.waiting.push_back(waiting);
                }
                state.tell(&format!("one of {} bytes is longer than it takes (max_payload)", body.len()));
                state.too_long.push(waiting);
            }
            Ok(Ok(Some((publications, body, false)))) => {
                let connections = vec![0; publications.len()].into_iter();
                let flight = waiting.flight.upgrade();
                let flight = flight.unwrap_or_else(|| Arc::new(Flight::new(&id, publications, connections, None)));
                self.state.lock().begin(waiting.room, flight, body);
            }
            // Of a table that is not there any more.
            Ok(Ok(None)) => self.state.lock().done.push((id, waiting.room)),
            Ok(Err(error)) => tracing::error!("a message for the stream {STREAM} cannot be read, and stays: {error}"),
            Err(_) => {}
        }
    }
}

impl State {
    /// Takes what is to be done next, within the window.
    fn step(&mut self) -> Option<Step> {
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        self.paused_until = None;
        loop {
            let room = WINDOW.saturating_sub(self.unacknowledged).min(PIECE);
            if room == 0 {
                return None;
            }
            while let Some(number) = self.to_send.pop_front() {
                let Some(begun) = self.begun.get_mut(&number).filter(|begun| begun.paused_until.is_none()) else {
                    continue;
                };
                let positions = begun.take(room);
                if begun.next < begun.marks.len() {
                    self.to_send.push_front(number);
                }
                if !positions.is_empty() {
                    begun.heard = Instant::now();
                    self.unacknowledged += positions.len();
                    let (flight, body) = (Arc::clone(&begun.flight), begun.body.clone());
                    return Some(Step::Publish { number, flight, body, positions });
                }
            }
            if self.begun_bytes > IN_MEMORY_BYTES {
                return None;
            }
            let mut waiting = self.waiting.pop_front()?;
            match waiting.kept.take() {
                Some((flight, body)) => {
                    self.kept_bytes -= in_memory(&waiting.room, &flight);
                    self.begin(waiting.room, flight, body);
                }
                None => return Some(Step::Read(waiting)),
            }
        }
    }

    fn begin(&mut self, room: Room, flight: Arc<Flight>, body: Bytes) {
        let mark = |fits: bool| if fits { Mark::ToSend } else { Mark::Acknowledged };
        let marks: Box<[Mark]> = flight.publications.iter().map(|publication| mark(publication.fits)).collect();
        let left = marks.iter().filter(|mark| **mark == Mark::ToSend).count();
        let number = self.next;
        self.next += 1;
        self.begun_bytes += in_memory(&room, &flight);
        let (heard, timeout) = (Instant::now(), ACKNOWLEDGEMENT_TIMEOUT);
        let (pause, paused_until) = (None, None);
        let begun = Begun { room, flight, body, marks, next: 0, left, heard, timeout, pause, paused_until };
        self.begun.insert(number, begun);
        match left {
            0 => self.finish(number),
            _ => self.to_send.push_back(number),
        }
    }

    fn finish(&mut self, number: u64) {
        if let Some(begun) = self.begun.remove(&number) {
            self.begun_bytes -= in_memory(&begun.room, &begun.flight);
            self.done.push((begun.flight.id.clone(), begun.room));
        }
    }

    fn send_again(&mut self) {
        self.unacknowledged = 0;
        self.to_send = self.begun.keys().copied().collect();
        for begun in self.begun.values_mut() {
            begun.send_again();
            begun.paused_until = None;
        }
        self.waiting.extend(self.too_long.drain(..));
    }

    /// Pauses all: the stream may not be there.
    fn fail(&mut self, reason: &str) {
        (self.is_ready, self.paused_until) = (false, Some(Instant::now() + LOOK));
        self.tell(reason);
    }

    /// Tells the operator, once.
    fn tell(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!("messages are kept until NATS stores them: {reason}");
        }
    }
}

/// Returns about how many bytes a message takes while it is in memory.
fn in_memory(room: &Room, flight: &Flight) -> usize {
    room.bytes + flight.publications.len() * PUBLICATION_BYTES
}

impl Begun {
    /// Has sent again what is not acknowledged; returns of how many publications no word is waited for any more.
    fn send_again(&mut self) -> usize {
        self.next = 0;
        let sent = self.marks.iter_mut().filter(|mark| **mark == Mark::Sent);
        sent.map(|mark| *mark = Mark::ToSend).count()
    }

    /// Sends nothing of it for a while; longer each time, not each publication.
    fn pause(&mut self) {
        if self.paused_until.is_none() {
            let pause = self.pause.unwrap_or(LOOK);
            self.paused_until = Some(Instant::now() + pause);
            self.pause = Some((pause * 2).min(LONGEST_PAUSE));
        }
    }

    /// Takes the next publications that are to be sent.
    fn take(&mut self, most: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < most && self.next < self.marks.len() {
            if self.marks[self.next] == Mark::ToSend {
                self.marks[self.next] = Mark::Sent;
                taken.push(self.next);
            }
            self.next += 1;
        }
        taken
    }
}

/// A message as it is stored.
struct Stored {
    table: String,
    targets: Vec<String>,
    topics: Vec<Option<String>>,
    body: Bytes,
}

impl Stored {
    /// Reads a message; `None` if it is not there, or of a table that is not.
    fn read(database: &Database, id: &str) -> Result<Option<Self>> {
        let Some(messages) = database.schema().table(MESSAGES) else { return Ok(None) };
        let Some(message) = database.read(messages, id)? else { return Ok(None) };
        let position = |name| messages.attribute(name).expect("the schema gives it this attribute");
        let damaged = || Error::corrupt("a message has no table or no targets");
        let Value::Int(number) = message.value(position("target"))? else { return Err(damaged()) };
        let of_number = |table: &&Table| i64::from(table.id) == number;
        let Some(table) = database.schema().tables.iter().find(of_number) else { return Ok(None) };
        let texts = |value| match value {
            Value::List(texts) => {
                let text = |value| if let Value::Text(text) = value { Ok(text.into_owned()) } else { Err(damaged()) };
                texts.into_iter().map(text).collect::<Result<Vec<_>>>()
            }
            Value::Null => Ok(Vec::new()),
            _ => Err(damaged()),
        };
        let topics = texts(message.value(position("topics"))?)?;
        Ok(Some(Self {
            table: table.name.clone(),
            targets: texts(message.value(position("ids"))?)?,
            topics: topics.into_iter().map(|topic| Some(topic).filter(|topic| !topic.is_empty())).collect(),
            body: Bytes::copy_from_slice(message.json_of(position("body"))?),
        }))
    }

    fn publications(&self, id: &str, most: usize) -> Vec<Publication> {
        let (targets, topics, body) = (&self.targets[..], &self.topics[..], self.body.clone());
        publications(&self.table, &Travelling { id, targets, topics, body }, most)
    }
}

/// Empties the outbox, for as long as the runtime runs.
pub(super) async fn empty(shared: Arc<Shared>) {
    let Some(outbox) = &shared.outbox else { return };
    let mut looking = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = outbox.wake.notified() => {}
            _ = looking.tick() => outbox.look_at_time(),
        }
        outbox.delete_done().await;
        let Some(connected) = shared.connections.iter().find(|connection| connection.is_there()) else { continue };
        if outbox.state.lock().has_to_wait() {
            continue;
        }
        let is_ready = outbox.state.lock().is_ready;
        if !is_ready {
            match make_stream(&connected.client).await {
                Ok(()) => outbox.state.lock().is_ready = true,
                Err(reason) => {
                    outbox.state.lock().fail(&reason);
                    continue;
                }
            }
        }
        loop {
            let step = outbox.state.lock().step();
            match step {
                None => break,
                Some(Step::Read(waiting)) => outbox.begin(&shared, waiting).await,
                Some(Step::Publish { number, flight, body, positions }) => {
                    let publishing = publish(&shared, connected, number, &flight, &body, &positions);
                    tokio::task::unconstrained(publishing).await;
                }
            }
        }
        outbox.delete_done().await;
    }
}

impl State {
    /// Returns whether nothing is to be done now.
    fn has_to_wait(&self) -> bool {
        let is_paused = self.paused_until.is_some_and(|until| Instant::now() < until);
        is_paused || self.to_send.is_empty() && self.waiting.is_empty()
    }
}

/// Makes the stream if it is not there.
async fn make_stream(client: &Client) -> std::result::Result<(), String> {
    let found = ask(client, "STREAM.INFO", &Json::Null).await?;
    if found["error"]["err_code"] != STREAM_NOT_FOUND {
        return refusal(&found);
    }
    let stream = json!({
        "name": STREAM,
        "subjects": [format!("{STREAM}.>")],
        "storage": "file",
        "max_age": MAX_AGE.as_secs() * 1_000_000_000,
        "duplicate_window": DUPLICATE_WINDOW.as_secs() * 1_000_000_000,
    });
    refusal(&ask(client, "STREAM.CREATE", &stream).await?)
}

/// Asks JetStream about the stream.
async fn ask(client: &Client, question: &str, request: &Json) -> std::result::Result<Json, String> {
    let request = if request.is_null() { Bytes::new() } else { request.to_string().into() };
    let answer = client.request(format!("$JS.API.{question}.{STREAM}"), request).await;
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::from_slice(&answer.payload).map_err(|error| format!("{question}: {error}"))
}

/// Returns what an answer of JetStream refuses.
fn refusal(answer: &Json) -> std::result::Result<(), String> {
    let error = &answer["error"];
    if error.is_null() { Ok(()) } else { Err(error["description"].as_str().unwrap_or("an error").to_owned()) }
}

/// Publishes some of a message. What the client refuses, the stream has not stored.
async fn publish(
    shared: &Shared,
    connected: &Connection,
    number: u64,
    flight: &Flight,
    body: &Bytes,
    positions: &[usize],
) {
    let of_message = headers(&flight.id);
    for position in positions {
        let publication = &flight.publications[*position];
        let own = &shared.connections[usize::from(connection_of(&publication.subject, shared.connections.len()))];
        let Connection { client, inbox, .. } = if own.is_there() { own } else { connected };
        let mut headers = of_publication(publication, &of_message);
        headers.insert(MESSAGE_ID, HeaderValue::from(publication.id(&flight.id).as_str()));
        let answer = format!("{inbox}.s.{number}.{position}");
        let published =
            client.publish_with_reply_and_headers(publication.subject.clone(), answer, headers, body.clone());
        if let (Err(error), Some(outbox)) = (published.await, &shared.outbox) {
            outbox.hear(number, *position, &Word::NotStored(error.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use crate::storage;

    const SDL: &str = "type Device @table(expiration: 60) @multicast @export { id: ID! @primaryKey }";

    struct World {
        outbox: Outbox,
        _folder: tempfile::TempDir,
    }

    fn world(limit: usize) -> World {
        let folder = tempfile::tempdir().unwrap();
        let schema = Schema::parse(SDL).unwrap();
        let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
        World { outbox: Outbox::open(&database, limit).unwrap(), _folder: folder }
    }

    /// Adds a message to so many targets.
    fn add(outbox: &Outbox, targets: usize, most: usize) -> Arc<Flight> {
        let (id, body) = (crate::transaction::make_id(), Bytes::from_static(b"\"text\""));
        let targets: Vec<_> = (0..targets).map(|number| format!("d{number}")).collect();
        let message = Travelling { id: &id, targets: &targets, topics: &[], body: body.clone() };
        let publications = publications("Device", &message, most);
        let connections = vec![0; publications.len()].into_iter();
        let flight = Arc::new(Flight::new(&id, publications, connections, None));
        outbox.add(outbox.room(&message).unwrap(), &flight, body);
        flight
    }

    /// Takes all that may be published now: numbers of messages and positions.
    fn published(outbox: &Outbox) -> Vec<(u64, usize)> {
        let mut all = Vec::new();
        while let Some(step) = outbox.state.lock().step() {
            let Step::Publish { number, positions, .. } = step else { panic!("it is in memory") };
            all.extend(positions.into_iter().map(|position| (number, position)));
        }
        all
    }

    #[test]
    fn so_many_are_unacknowledged_and_no_more() {
        let world = world(1 << 30);
        let outbox = &world.outbox;
        [3000, 2000, 1].iter().for_each(|targets| drop(add(outbox, *targets, 1 << 20)));
        let all: Vec<_> = (0..3000).map(|one| (0, one)).chain((0..2000).map(|one| (1, one))).chain([(2, 0)]).collect();
        assert_eq!(published(outbox), all[..WINDOW]);
        all[..PIECE].iter().for_each(|(number, position)| outbox.hear(*number, *position, &Word::Acknowledged));
        outbox.hear(0, 0, &Word::Acknowledged);
        assert_eq!(published(outbox), all[WINDOW..WINDOW + PIECE]);
        all[PIECE..WINDOW + PIECE]
            .iter()
            .for_each(|(number, position)| outbox.hear(*number, *position, &Word::Acknowledged));
        assert_eq!(published(outbox), all[WINDOW + PIECE..]);
        outbox.hear(2, 0, &Word::Acknowledged);
        let state = outbox.state.lock();
        assert_eq!((state.begun.len(), state.unacknowledged, state.done.len(), state.kept_bytes), (1, 500, 2, 0));
    }

    #[test]
    fn what_is_not_stored_is_sent_again_and_the_rest_is_not() {
        let world = world(1 << 30);
        let outbox = &world.outbox;
        add(outbox, 5, 1 << 20);
        assert_eq!(published(outbox).len(), 5);
        outbox.hear(0, 0, &Word::Acknowledged);
        outbox.hear(0, 3, &Word::NoResponders);
        outbox.hear(0, 1, &Word::NoResponders);
        outbox.hear(0, 2, &Word::Answer);
        assert_eq!(published(outbox), [], "after a pause");
        outbox.state.lock().paused_until = None;
        assert_eq!(published(outbox), [(0, 1), (0, 3)]);
        outbox.send_again();
        assert_eq!(published(outbox), [(0, 1), (0, 2), (0, 3), (0, 4)]);
        (0..5).for_each(|position| outbox.hear(0, position, &Word::Acknowledged));
        let mut state = outbox.state.lock();
        assert_eq!((state.begun.len(), state.unacknowledged, state.begun_bytes), (0, 0, 0));
        assert_eq!(state.done.len(), 1);
        assert!(outbox.bytes.load(Ordering::Relaxed) > 0, "until it is deleted");
        state.done.clear();
        assert_eq!(outbox.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_the_stream_refuses_holds_up_its_message_alone() {
        let world = world(1 << 30);
        let outbox = &world.outbox;
        [2, 1].iter().for_each(|targets| drop(add(outbox, *targets, 1 << 20)));
        assert_eq!(published(outbox), [(0, 0), (0, 1), (1, 0)]);
        outbox.hear(0, 0, &Word::NotStored("too long".to_owned()));
        outbox.hear(0, 1, &Word::Acknowledged);
        outbox.hear(1, 0, &Word::Acknowledged);
        add(outbox, 1, 1 << 20);
        outbox.look_at_time();
        assert_eq!(published(outbox), [(2, 0)]);
        let later = |outbox: &Outbox| {
            outbox.state.lock().begun.get_mut(&0).unwrap().paused_until = Some(Instant::now());
            outbox.look_at_time();
        };
        later(outbox);
        assert_eq!(published(outbox), [(0, 0)]);
        outbox.hear(0, 0, &Word::NotStored("too long".to_owned()));
        assert_eq!(outbox.state.lock().begun[&0].pause, Some(4 * LOOK));
        later(outbox);
        published(outbox);
        outbox.hear(0, 0, &Word::Acknowledged);
        let state = outbox.state.lock();
        assert_eq!((state.unacknowledged, state.done.len()), (1, 2));
    }

    #[test]
    fn what_nothing_is_heard_of_is_sent_again_although_others_are_acknowledged() {
        let world = world(1 << 30);
        let outbox = &world.outbox;
        [2, 1].iter().for_each(|targets| drop(add(outbox, *targets, 1 << 20)));
        assert_eq!(published(outbox).len(), 3);
        outbox.hear(1, 0, &Word::Acknowledged);
        outbox.look_at_time();
        assert_eq!(published(outbox), [], "not yet");
        let long_ago = Instant::now().checked_sub(2 * ACKNOWLEDGEMENT_TIMEOUT).unwrap();
        outbox.state.lock().begun.get_mut(&0).unwrap().heard = long_ago;
        outbox.look_at_time();
        assert_eq!(published(outbox), [(0, 0), (0, 1)]);
        let state = outbox.state.lock();
        assert_eq!((state.unacknowledged, state.begun[&0].timeout), (2, 2 * ACKNOWLEDGEMENT_TIMEOUT));
    }

    #[test]
    fn what_does_not_fit_is_done() {
        let world = world(1 << 30);
        add(&world.outbox, 3, 10);
        assert_eq!(published(&world.outbox), []);
        assert_eq!(world.outbox.state.lock().done.len(), 1);
    }

    #[test]
    fn a_full_outbox_refuses_and_the_first_always_has_room() {
        let world = world(100);
        add(&world.outbox, 100, 1 << 20);
        let (targets, body) = (["d".to_owned()], Bytes::new());
        let message = Travelling { id: "m", targets: &targets, topics: &[], body };
        assert!(matches!(world.outbox.room(&message), Err(Error::Busy { .. })));
        published(&world.outbox);
        (0..100).for_each(|position| world.outbox.hear(0, position, &Word::Acknowledged));
        world.outbox.state.lock().done.clear();
        assert!(world.outbox.room(&message).is_ok());
    }
}
