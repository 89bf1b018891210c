//! Messages from a request over TCP to the sockets of their subscribers, beside bare hyper.
//!
//! Both sides answer the sender once every subscriber's connection has taken the message. The floor knows nothing of registrations: each
//! message goes to all answers that are open.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use strata::config::Config;
use strata::feed::Message;
use strata::handlers::write_event;
use strata::server::Server;
use strata_harness::{Facts, State, Suite, Unit};
use tempfile::TempDir;

use crate::prepared::{Ours, SST, soft};
use crate::registry::{self, Devices, message};
use crate::served::{Bare, Client};
use crate::{depth, process_cpu};

/// An id of an event as long as those of a fresh store.
const EVENT: &str = "3735928559-12-6221-790";

/// An id of a message.
const MESSAGE: &str = "01890000-0000-7000-8000-000000000000";

pub fn delivers(suite: &mut Suite, devices: Devices, targets: u64) {
    let case = &format!("{targets}_targets_tcp");
    let reached = devices.reached(targets);
    let facts = |op: String| {
        let facts = Facts::new(op).data(devices.described()).state(format!("{SST}; messages, memtable"));
        facts.durability(soft()).indexes(2).unit(Unit::Elements, reached).cpu_clock()
    };
    let about = facts(format!(
        "answers a request over TCP that sends a message to {reached} of {} registrations, each with a subscriber on a connection of its \
         own, CPU of the server",
        devices.registered
    ));
    let about = about.floor("floor", 0.80, 0.95).depth(depth(targets));
    let setup = || Serving::start(devices, reached);
    suite.row("deliver", "strata", case, about, setup, |serving: Arc<Serving>| {
        let mut ends = serving.ends.lock().take().expect("one thread has them");
        move |index| ends.send(index)
    });
    let about =
        facts(format!("answers a request over TCP by writing the same bytes to {reached} open answers: bare hyper"));
    let setup = || Open::start(devices, reached);
    suite.row("deliver", "floor", case, about, setup, |open: Arc<Open>| {
        let mut ends = open.ends.lock().take().expect("one thread has them");
        move |index| ends.send(index)
    });
}

/// CPU time of all threads but the calling one, which is the client.
fn others_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    process_cpu().saturating_sub(Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32))
}

/// A server with a registry, and the clients' ends of its connections until a worker has them.
struct Serving {
    ends: Mutex<Option<Ends>>,
    _server: Server,
    // Closed after the server.
    registry: Ours,
    _folder: TempDir,
}

impl State for Serving {
    fn settle(&self) {
        self.registry.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.registry.counters()
    }

    fn cpu(&self) -> Option<Duration> {
        Some(others_cpu())
    }
}

impl Serving {
    fn start(devices: Devices, reached: u64) -> Self {
        raise_descriptors();
        let (registry, folder) = (devices.registry(), tempfile::tempdir().expect("a temporary folder"));
        let mut config = Config { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), workers: 1, ..Config::default() };
        config.data_dir = folder.path().to_owned();
        config.feed.keep_alive_ms = 3_600_000;
        let server = Server::over(registry.database.clone(), &config).expect("a free port");
        let address = server.url().strip_prefix("http://").and_then(|address| address.parse().ok());
        let ends = Ends::connect(address.expect("the server's own address"), devices, reached);
        Self { ends: Mutex::new(Some(ends)), _server: server, registry, _folder: folder }
    }
}

/// Bare hyper with as many open responses.
struct Open {
    ends: Mutex<Option<Ends>>,
    bare: Bare,
}

impl State for Open {
    fn settle(&self) {
        self.bare.settle();
    }

    fn cpu(&self) -> Option<Duration> {
        Some(others_cpu())
    }
}

impl Open {
    fn start(devices: Devices, reached: u64) -> Self {
        raise_descriptors();
        let bare = Bare::serve(devices.raw(), |_| {
            let hall = Rc::<RefCell<Hall>>::default();
            service_fn(move |request: Request<Incoming>| respond(Rc::clone(&hall), request))
        });
        let ends = Ends::connect(bare.address, devices, reached);
        Self { ends: Mutex::new(Some(ends)), bare }
    }
}

/// Raises the limit of descriptors to the maximum allowed: both ends of each connection are in this process.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, connecting does.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The clients' ends: one that sends messages, and those that subscribe.
struct Ends {
    sender: Client,
    subscribers: Vec<TcpStream>,
    /// The condition of the targets.
    conditions: String,
    buffer: Vec<u8>,
}

impl Ends {
    /// Connects the targets of messages, in the order of their ids.
    fn connect(address: SocketAddr, devices: Devices, reached: u64) -> Self {
        let subscribe = |rank: u64| {
            let mut stream = TcpStream::connect(address).expect("the server listens");
            let path = format!("/Device/{}?stream=sse", registry::id(rank));
            write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
                .expect("the server reads");
            stream
        };
        let targets = devices.by_id().into_iter().filter(|rank| *rank < reached);
        let mut subscribers: Vec<_> = targets.map(subscribe).collect();
        let mut buffer = vec![0; 16 << 10];
        // The start position, after the head: it is sent once the subscriber is live.
        for stream in &mut subscribers {
            assert!(!event(stream, &mut buffer).is_empty());
        }
        Self { sender: Client::connect(address), subscribers, conditions: devices.up_to(reached), buffer }
    }

    /// Sends a message; returns how many subscribers have received it.
    fn send(&mut self, index: u64) -> u64 {
        let body = message(index);
        let head = format!(
            "POST /Device/multicast?{} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.conditions,
            body.len()
        );
        let (status, _) = self.sender.exchange([head.as_bytes(), body.as_bytes()].concat().as_slice());
        assert_eq!(status, 200);
        let mut received = 0;
        for stream in &mut self.subscribers {
            let event = event(stream, &mut self.buffer);
            received += u64::from(event.windows(body.len()).any(|window| window == body.as_bytes()));
        }
        received
    }
}

/// Reads one event, which is a chunk of its own, and all before it.
fn event<'b>(stream: &mut TcpStream, buffer: &'b mut [u8]) -> &'b [u8] {
    let mut filled = 0;
    while !buffer[..filled].ends_with(b"\n\n\r\n") {
        let read = stream.read(&mut buffer[filled..]).expect("the server writes");
        assert!(read > 0, "the server has closed the connection");
        filled += read;
    }
    &buffer[..filled]
}

/// The open responses of the floor.
#[derive(Default)]
struct Hall {
    queues: Vec<Rc<RefCell<Queue>>>,
    /// The number of queues whose reader has not taken the last message, and the sender that waits for them.
    left: usize,
    sender: Option<Waker>,
}

#[derive(Default)]
struct Queue {
    texts: VecDeque<Bytes>,
    wake: Option<Waker>,
}

/// The body of a response: texts as they come, or one text.
enum Reply {
    Texts(Rc<RefCell<Hall>>, Rc<RefCell<Queue>>),
    One(Option<Bytes>),
}

async fn respond(hall: Rc<RefCell<Hall>>, request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
    if request.method() == Method::GET {
        let queue = Rc::<RefCell<Queue>>::default();
        queue.borrow_mut().texts.push_back(text(&Message::Progress));
        hall.borrow_mut().queues.push(Rc::clone(&queue));
        return Ok(Response::new(Reply::Texts(hall, queue)));
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = text(&Message::Multicast { id: MESSAGE, body: &body });
    {
        let hall = &mut *hall.borrow_mut();
        hall.left = hall.queues.len();
        for queue in &hall.queues {
            let mut queue = queue.borrow_mut();
            queue.texts.push_back(text.clone());
            queue.wake.take().into_iter().for_each(Waker::wake);
        }
    }
    poll_fn(|context| {
        let mut hall = hall.borrow_mut();
        hall.sender = Some(context.waker().clone());
        if hall.left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    Ok(Response::new(Reply::One(Some(Bytes::from_static(&[b' '; 110])))))
}

fn text(message: &Message<'_>) -> Bytes {
    let mut text = Vec::new();
    write_event(EVENT.parse().expect("an id"), message, &mut text);
    Bytes::from(text)
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::One(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Texts(hall, queue) => {
                let mut queue = queue.borrow_mut();
                let Some(text) = queue.texts.pop_front() else {
                    queue.wake = Some(context.waker().clone());
                    return Poll::Pending;
                };
                let mut hall = hall.borrow_mut();
                // The first text of each comes before all messages.
                hall.left = hall.left.saturating_sub(1);
                if hall.left == 0 {
                    hall.sender.take().into_iter().for_each(Waker::wake);
                }
                Poll::Ready(Some(Ok(Frame::data(text))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::One(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Texts(..) => SizeHint::default(),
        }
    }
}
