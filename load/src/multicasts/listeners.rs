//! Subscribers of records to which messages are sent: Server-Sent Events, or NATS, from before the warm-up until everything that has to come
//! has come, or the drain is over. One that is told that it is behind resumes where it was, and so does one that read nothing and was cut off.

mod nats;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use rustix::process::nice;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::task::LocalSet;

use crate::connection::{Connection, Target};
use crate::json::Json;
use crate::pinning::pin;
use crate::scenario::{Http, MESSAGE, Over, Subscribers};
use crate::streams::appends::nanoseconds;

use super::deliveries::Received;

/// The timeout for all of them to be open.
const TO_OPEN: Duration = Duration::from_secs(60);

/// The number of them that are opened at a time: of more a server refuses some.
const OPENED_AT_ONCE: usize = 100;

/// The silence that shows that all has come: what is sent once too often is not far behind.
const QUIET: Duration = Duration::from_millis(100);

/// Bytes that the system takes in for one that reads nothing. With fewer it would be slow to catch up.
const STALLED_BYTES: u32 = 64 << 10;

/// The niceness of their thread above that of the threads of requests.
const NICER: i32 = 10;

/// The header by which one resumes.
const LAST_EVENT_ID: &str = "last-event-id";

/// The stage of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Requests are sent.
    Loading,
    /// Those that read nothing begin to.
    Draining,
    /// All are to end.
    Over,
}

/// The result of opening one of them, with the reason if it is not open.
type Opened = Result<(), String>;

/// Where subscribers find a NATS.
#[derive(Clone, Debug)]
pub struct Nats {
    /// Addresses or URLs, with commas between.
    pub servers: String,
    /// True if they reply to each message.
    pub replies: bool,
}

/// Running subscribers.
#[derive(Debug)]
pub struct Listening {
    stage: watch::Sender<Stage>,
    thread: JoinHandle<Vec<Received>>,
    /// Messages that have come.
    came: Arc<AtomicU64>,
}

impl Listening {
    /// Opens all of them, on a thread of their own, which stays on these processors.
    ///
    /// # Errors
    /// They are not open in time, or one is refused.
    pub fn start<'a>(
        kinds: impl Iterator<Item = &'a Subscribers>,
        target: impl Fn(Http) -> Result<Target, String>,
        nats: Option<Nats>,
        processors: Option<&[usize]>,
    ) -> Result<Self, String> {
        let (stage, stages) = watch::channel(Stage::Loading);
        let (opened, open) = mpsc::channel();
        let came = Arc::<AtomicU64>::default();
        let (one, two, opening) = (target(Http::One)?, target(Http::Two)?, Semaphore::new(OPENED_AT_ONCE));
        let shared = Shared { one, two, nats, stages, opening, came: Arc::clone(&came) };
        let (kinds, processors): (Vec<_>, _) = (kinds.cloned().collect(), processors.map(<[usize]>::to_vec));
        let number: usize = kinds.iter().map(|kind| kind.count).sum();
        let body = move || {
            if let Some(Err(reason)) = processors.map(|processors| pin(&processors)) {
                // Whoever started this thread may have gone.
                let _ = opened.send(Err(reason));
                return Vec::new();
            }
            // Where requests and messages wait for the same processor, requests are sent first: on Linux it is the niceness of this thread
            // alone. Who may not have it goes on without.
            let _ = nice(NICER);
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
            LocalSet::new().block_on(&runtime, listen_all(kinds, Rc::new(shared), opened))
        };
        let thread = std::thread::Builder::new().name("load-listeners".to_owned()).spawn(body);
        let thread = thread.expect("a thread can be started");
        let end = Instant::now() + TO_OPEN;
        for _ in 0..number {
            let left = end.saturating_duration_since(Instant::now());
            open.recv_timeout(left).map_err(|_| "the subscribers are not open in time".to_owned())??;
        }
        Ok(Self { stage, thread, came })
    }

    /// Ends them when so many messages have come, and no more come, or after this time; what each received.
    pub fn end(self, messages: u64, at_most: Duration) -> Vec<Received> {
        let _ = self.stage.send(Stage::Draining);
        let (begun, mut before) = (Instant::now(), None);
        loop {
            std::thread::sleep(QUIET);
            let came = self.came.load(Ordering::SeqCst);
            if came >= messages && before == Some(came) || begun.elapsed() >= at_most {
                break;
            }
            before = Some(came);
        }
        let _ = self.stage.send(Stage::Over);
        self.thread.join().expect("no subscriber panics")
    }
}

/// The state that all of them share.
struct Shared {
    /// For those with a connection of their own.
    one: Target,
    /// For those that share connections.
    two: Target,
    nats: Option<Nats>,
    stages: watch::Receiver<Stage>,
    opening: Semaphore,
    came: Arc<AtomicU64>,
}

async fn listen_all(kinds: Vec<Subscribers>, shared: Rc<Shared>, opened: mpsc::Sender<Opened>) -> Vec<Received> {
    let mut tasks = Vec::new();
    for kind in kinds {
        if kind.over != Over::Sse {
            tasks.extend(nats::start(kind, &shared, &opened));
            continue;
        }
        let mut connections = connections_of(&kind, &shared);
        tasks.extend((0..kind.count).map(|number| {
            let listener = Listener {
                path: kind.path.of(number as u64),
                is_stalled: kind.is_stalled(number),
                inbox: Inbox::new(&kind, number, &shared),
                shared: Rc::clone(&shared),
            };
            // The last of a list, which was made in the other order.
            let connection = connections.pop().expect("there is one for each");
            let (opened, mut stages) = (opened.clone(), shared.stages.clone());
            tokio::task::spawn_local(async move {
                tokio::select! {
                    () = listener.listen(&connection, opened) => {}
                    _ = stages.wait_for(|stage| *stage == Stage::Over) => {}
                }
                vec![listener.inbox.into_received()]
            })
        }));
    }
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        all.extend(task.await.expect("no subscriber panics"));
    }
    all
}

/// A connection for each of a kind, the last one first, or streams of those that they share, in no order that matters.
fn connections_of(kind: &Subscribers, shared: &Shared) -> Vec<Connection> {
    match kind.connections {
        Some(number) => {
            let streams = (0..number).flat_map(|_| Connection::slots(&shared.two, kind.count.div_ceil(number)));
            streams.take(kind.count).collect()
        }
        None => {
            let own = |number: usize| {
                let receive_bytes = kind.is_stalled(number).then_some(STALLED_BYTES);
                Connection::slots(&Target { receive_bytes, ..shared.one.clone() }, 1).remove(0)
            };
            (0..kind.count).rev().map(own).collect()
        }
    }
}

/// The messages that one of them has received, and the way in which it reads them.
struct Inbox {
    call: String,
    each: Vec<(String, String)>,
    below: Option<String>,
    number: u64,
    received: RefCell<Received>,
    came: Arc<AtomicU64>,
}

impl Inbox {
    fn new(kind: &Subscribers, number: usize, shared: &Shared) -> Self {
        // Over NATS there is what stands in the message alone.
        let within = if kind.over == Over::Sse { "" } else { MESSAGE };
        let pointer = |pointer: &String| pointer.strip_prefix(within).unwrap_or(pointer).to_owned();
        let received = Received { is_stalled: kind.is_stalled(number), ..Received::default() };
        Self {
            call: kind.call.as_ref().map(pointer).unwrap_or_default(),
            each: kind.each.iter().map(|(at, text)| (pointer(at), text.of(number as u64))).collect(),
            below: kind.below.as_ref().map(pointer),
            number: number as u64,
            received: RefCell::new(received),
            came: Arc::clone(&shared.came),
        }
    }

    /// Notes a message that has come now. One that does not say which request sent it, or is for another, is a stray.
    fn note(&self, data: &[u8]) {
        let now = nanoseconds(Instant::now());
        let read = Json::read(data);
        let call = read.as_ref().and_then(|read| read.at(&self.call)?.number());
        match call.filter(|_| read.as_ref().is_some_and(|read| self.is_for_it(read))) {
            Some(call) => self.received.borrow_mut().messages.push((call, now)),
            None => self.received.borrow_mut().strays += 1,
        }
        self.came.fetch_add(1, Ordering::SeqCst);
    }

    fn is_for_it(&self, message: &Json<'_>) -> bool {
        let has_each = self.each.iter().all(|(at, text)| message.at(at).is_some_and(|value| value.text() == *text));
        let is_below = |at: &String| message.at(at).and_then(Json::number).is_some_and(|below| self.number < below);
        has_each && self.below.iter().all(is_below)
    }

    fn lag(&self) {
        self.received.borrow_mut().lagged += 1;
    }

    fn end(&self) {
        self.received.borrow_mut().ended = true;
    }

    fn into_received(self) -> Received {
        self.received.into_inner()
    }
}

/// One of them over HTTP, as it goes.
struct Listener {
    path: String,
    is_stalled: bool,
    inbox: Inbox,
    shared: Rc<Shared>,
}

/// The events of a stream, as far as they were understood.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    id: Vec<u8>,
    /// That of the last event that has come whole.
    last_id: Vec<u8>,
    lagged: bool,
}

impl Listener {
    /// Listens until the server ends it. Where it is told that it is behind, it goes on behind the last event that it has. So does one that
    /// reads nothing and was cut off, as it has to be after a while, if it has come further.
    async fn listen(&self, connection: &Connection, opened: mpsc::Sender<Opened>) {
        let (mut opened, mut last_id) = (Some(opened), Vec::new());
        loop {
            let mut request = Request::new(Full::<Bytes>::default());
            // The scenario was refused if its paths were none.
            *request.uri_mut() = self.path.parse().unwrap_or_default();
            if let (false, Ok(value)) = (last_id.is_empty(), HeaderValue::from_bytes(&last_id)) {
                request.headers_mut().insert(LAST_EVENT_ID, value);
            }
            let mut events = Events { last_id: last_id.clone(), ..Events::default() };
            let mut opening = self.shared.opening.acquire().await.ok();
            let begin = async {
                drop(opening.take());
                // Nobody may wait for it any more.
                let _ = opened.take().is_some_and(|opened| opened.send(Ok(())).is_ok());
                if self.is_stalled {
                    let _ = self.shared.stages.clone().wait_for(|stage| *stage != Stage::Loading).await;
                }
            };
            let ended = connection.stream_from(request, begin, |bytes| self.take(&mut events, bytes)).await;
            let is_cut_off = self.is_stalled && events.last_id != last_id;
            if !events.lagged && !is_cut_off {
                if let (Some(opened), Err(failure)) = (opened, ended) {
                    let _ = opened.send(Err(format!("{}: a subscriber has no stream: {failure}", self.path)));
                }
                self.inbox.end();
                // What has ended has no more to come.
                return std::future::pending().await;
            }
            self.inbox.lag();
            last_id = events.last_id;
        }
    }

    /// Takes what came (`text/event-stream`).
    fn take(&self, events: &mut Events, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' {
                events.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut events.line);
            let value = |field: &[u8]| Some(line.strip_prefix(field)?.trim_ascii_start().to_vec());
            if let Some(name) = value(b"event:") {
                events.name = name;
            } else if let Some(id) = value(b"id:") {
                events.id = id;
            } else if let Some(data) = value(b"data:") {
                events.data = data;
            } else if line.is_empty() {
                if !events.id.is_empty() {
                    events.last_id = std::mem::take(&mut events.id);
                }
                let (name, data) = (std::mem::take(&mut events.name), std::mem::take(&mut events.data));
                match &name[..] {
                    b"message" => self.inbox.note(&data),
                    b"lagged" => events.lagged = true,
                    _ => {}
                }
            }
        }
    }
}
