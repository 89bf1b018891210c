//! A server of eight devices in memory, `d0` to `d7`: those with an even number are in room `r0`, the others in `r1`. What is sent to a
//! room comes to whoever listens to its devices, except where its fault says otherwise.

use std::io::{BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::faulty_server::{answer, whole_request};
use crate::publisher::Publisher;

const DEVICES: usize = 8;

/// Behind so many messages a device is told that it is behind, or ended.
const BEFORE: usize = 10;

/// The fault of the server: with one message of ten, or with `d0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The message comes to one of its targets twice.
    Twice,
    /// It does not come to one of its targets.
    LeavesOut,
    /// The answer says that it was sent to one more.
    SaysMore,
    /// It comes to a device of the other room in place of one of its targets.
    Neighbour,
    /// It does not say which request sent it.
    Nameless,
    /// It is published without the id of the message.
    WithoutId,
    /// It is pending for one of its targets, and comes half a second later.
    Late,
    /// It is pending for one of its targets, and does not come.
    Never,
    /// It is sent, and the connection ends without an answer.
    Unanswered,
    /// `d0` is told that it is behind, and is absent until it resumes.
    Lags,
    /// `d0` is ended.
    Ends,
    /// `d0` is refused.
    Refuses,
}

/// A NATS through which messages go to devices, in place of streams of HTTP.
#[derive(Clone)]
pub struct Through(Arc<Mutex<Publisher>>);

impl Through {
    /// One at a URL, with a stream or without.
    pub fn new(url: &str, has_stream: bool) -> Self {
        let mut publisher = Publisher::new(url);
        if has_stream {
            publisher.make_stream();
        }
        Self(Arc::new(Mutex::new(publisher)))
    }

    /// Replies to messages, so far.
    pub fn replies(&self) -> usize {
        let mut publisher = self.0.lock().unwrap();
        publisher.flush();
        publisher.replies
    }
}

struct Held {
    fault: Fault,
    through: Option<Through>,
    messages: u64,
    /// The messages to each device, and the time from which on it may be told.
    logs: [Vec<(Instant, Value)>; DEVICES],
    /// True for each device that somebody listens to.
    live: [bool; DEVICES],
}

type Shared = Arc<Mutex<Held>>;

/// Starts one that lives as long as the process; its URL.
pub fn start(fault: Fault) -> String {
    started(fault, None)
}

/// The same, with devices that listen to a NATS.
pub fn start_through(fault: Fault, through: &Through) -> String {
    started(fault, Some(through.clone()))
}

fn started(fault: Fault, through: Option<Through>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let live = [through.is_some(); DEVICES];
    let held = Held { fault, through, messages: 0, logs: Default::default(), live };
    let shared: Shared = Arc::new(Mutex::new(held));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (shared, stream) = (Arc::clone(&shared), stream.unwrap());
            std::thread::spawn(move || serve(&shared, &stream));
        }
    });
    url
}

fn locked(shared: &Shared) -> MutexGuard<'_, Held> {
    shared.lock().unwrap()
}

/// Answers until the client has no more to say.
fn serve(shared: &Shared, stream: &TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (method, target, last_id, body) = whole_request(&mut reader)?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let device = path.strip_prefix("/Device/d").and_then(|device| device.parse::<usize>().ok());
        let (status, said) = match (method.as_str(), path, device) {
            ("GET", "/_counters", _) => ("200 OK", json!({"multicast": {"messages": locked(shared).messages}})),
            ("GET", _, Some(device)) if device > 0 || locked(shared).fault != Fault::Refuses => {
                return listen(shared, &mut writer, device, last_id.as_deref());
            }
            ("POST", "/Device/multicast", _) => {
                let room = query.strip_prefix("room==r")?.parse().ok()?;
                match locked(shared).send(room, serde_json::from_slice(&body).unwrap()) {
                    Some(said) => ("200 OK", said),
                    None => return stream.shutdown(Shutdown::Both).ok(),
                }
            }
            _ => ("404 Not Found", Value::Null),
        };
        answer(&mut writer, status, &said.to_string())?;
    }
}

/// Tells a device what it is sent from now on, or behind what it had.
fn listen(shared: &Shared, writer: &mut &TcpStream, device: usize, last_id: Option<&str>) -> Option<()> {
    let mut next = match last_id {
        None => locked(shared).logs[device].len(),
        Some(id) => {
            // So that some messages find it absent.
            std::thread::sleep(Duration::from_millis(50));
            id.parse().ok()?
        }
    };
    locked(shared).live[device] = true;
    writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\nid: 0\n\n").ok()?;
    loop {
        let (fault, due) = {
            let held = locked(shared);
            let due = held.logs[device].get(next).filter(|(from, _)| *from <= Instant::now());
            (held.fault, due.map(|(_, message)| message.to_string()))
        };
        if device == 0 && next == BEFORE && last_id.is_none() && matches!(fault, Fault::Lags | Fault::Ends) {
            let lagged = format!("event: lagged\nid: {next}\ndata: {{}}\n\n");
            return writer.write_all(if fault == Fault::Lags { lagged.as_bytes() } else { b":\n\n" }).ok();
        }
        match due {
            Some(message) => {
                next += 1;
                writer.write_all(format!("event: message\nid: {next}\ndata: {message}\n\n").as_bytes()).ok()?;
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

impl Held {
    /// Sends a message to a room; the answer, or none where the connection is to end.
    fn send(&mut self, room: usize, mut message: Value) -> Option<Value> {
        let fault = if self.messages % 10 == 7 { self.fault } else { Fault::None };
        self.messages += 1;
        let now = Instant::now();
        let mut to: Vec<_> = (room..DEVICES).step_by(2).map(|device| (device, now)).collect();
        let targets = to.len() + usize::from(fault == Fault::SaysMore);
        let absent = to.iter().filter(|(device, _)| !self.live[*device]).count();
        let pending = usize::from(matches!(fault, Fault::Late | Fault::Never));
        match fault {
            Fault::Twice => to.push(to[0]),
            Fault::LeavesOut | Fault::Never => to.truncate(to.len() - 1),
            Fault::Neighbour => to[0].0 = 1 - room,
            Fault::Nameless => drop(message.as_object_mut().unwrap().remove("call")),
            Fault::Late => to[0].1 += Duration::from_millis(500),
            _ => {}
        }
        let told = json!({"id": self.messages.to_string(), "message": message});
        if let Some(Through(publisher)) = &self.through {
            let (mut publisher, id) = (publisher.lock().unwrap(), (fault != Fault::WithoutId).then_some(self.messages));
            let text = message.to_string();
            to.iter().for_each(|(device, _)| publisher.publish(&format!("strata.Device.d{device}"), id, &text));
            publisher.flush();
        }
        to.into_iter().for_each(|(device, from)| self.logs[device].push((from, told.clone())));
        if self.fault == Fault::Lags && self.logs[0].len() == BEFORE + 1 {
            self.live[0] = false;
        }
        let delivered = targets - absent - pending;
        let said =
            json!({"targets": targets, "delivered": delivered, "absent": absent, "pending": pending, "failed": 0});
        (fault != Fault::Unanswered).then_some(said)
    }
}
