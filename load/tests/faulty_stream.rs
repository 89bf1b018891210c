//! A server of one event stream in memory, `S`, also called `Click` and `Safe`, and of the tables `Item` and `Product`, of which it keeps as
//! much as is asked for. It keeps its promises except where its fault says otherwise.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use crate::faulty_server::{answer, request};

/// The fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It puts events into the partition after theirs.
    NextPartition,
    /// It appends the events of a request for many one by one, as if each had a request of its own.
    BulkSingly,
    /// Reads have no events.
    ReadsNothing,
    /// The event at offset 30 is acknowledged and not kept.
    Lost,
    /// The event at offset 30 is acknowledged at the offset before.
    OffsetTwice,
    /// The event at offset 30 is kept with another payload.
    OtherBytes,
    /// The event at offset 30 is not where reads look for it: they go on behind it.
    Gap,
    /// An event of nobody stands at offset 30.
    Foreign,
    /// Appends behind offset 30 are acknowledged at offsets that fall.
    Falling,
    /// Of each tenth request for many the connection ends without an answer, and half of its events are appended.
    HalfUnanswered,
    /// Of each tenth request for many the connection ends without an answer, and all of its events are appended.
    WholeUnanswered,
    /// A key that is known is appended again.
    KeysAgain,
    /// It refuses each third append, with the time to come again.
    Refuses,
    /// It refuses each third append, and does not say when to come again.
    RefusesForever,
    /// It refuses each third append, and appends it all the same.
    RefusesAndAppends,
    /// Subscribers are not told of the event at offset 30.
    LeavesOut,
    /// Subscribers are told of the event at offset 30 twice.
    TellsTwice,
    /// Subscribers are told of the event at offset 31 before the one at offset 30.
    TellsLate,
    /// Subscribers are ended at offset 30.
    EndsSubscribers,
    /// Each tenth record beside an event is not written.
    NoRecord,
}

/// The state of the server.
struct Held {
    fault: Fault,
    partitions: Vec<Vec<Value>>,
    keys: HashMap<String, Value>,
    items: HashSet<String>,
    products: usize,
    singles: u64,
    bulks: u64,
    /// True if an event at offset 30 has come.
    was_odd: bool,
    counters: BTreeMap<&'static str, u64>,
}

type Shared = Arc<Mutex<Held>>;

/// Starts one with so many partitions that lives as long as the process; its URL.
pub fn start(fault: Fault, partitions: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let names = [
        "writes",
        "streams.appends",
        "streams.bulks",
        "streams.events",
        "streams.events_read",
        "streams.refused",
        "streams.reads",
        "streams.delivered",
    ];
    let counters = names.into_iter().map(|name| (name, 0)).collect();
    let partitions = vec![Vec::new(); partitions];
    let held = Held {
        fault,
        partitions,
        keys: HashMap::new(),
        items: HashSet::new(),
        products: 0,
        singles: 0,
        bulks: 0,
        was_odd: false,
        counters,
    };
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
        let (method, target, body) = request(&mut reader)?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let path = path.replacen("/Click", "/S", 1).replacen("/Safe", "/S", 1);
        let query: BTreeMap<_, _> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, said) = match (method.as_str(), path.as_str()) {
            ("GET", "/_counters") => ("200 OK", json!(locked(shared).counters)),
            ("GET", "/S") if query.contains_key("stream") => return tell(shared, &mut writer),
            ("GET", "/S") if query.contains_key("wait") => match wait(shared, &query) {
                Some(said) => said,
                None => return stream.shutdown(std::net::Shutdown::Both).ok(),
            },
            ("GET", "/S") => locked(shared).read(&query),
            ("POST", "/S") => locked(shared).append(&body),
            ("POST", "/S/bulk") => match locked(shared).append_all(&body) {
                Some(said) => said,
                None => return stream.shutdown(std::net::Shutdown::Both).ok(),
            },
            ("POST", "/_batch") => locked(shared).batch(&body),
            ("GET", item) if item.starts_with("/Item/") => match locked(shared).items.contains(item) {
                true => ("200 OK", json!({})),
                false => ("404 Not Found", Value::Null),
            },
            ("POST", "/Product") => {
                locked(shared).products += body.as_array().map_or(1, Vec::len);
                ("201 Created", Value::Null)
            }
            ("GET", "/Product") => ("200 OK", json!({"total": locked(shared).products})),
            ("DELETE", "/S" | "/Product") => ("200 OK", json!({"truncated": true})),
            _ => ("404 Not Found", Value::Null),
        };
        answer(&mut writer, status, &said.to_string())?;
    }
}

/// The offsets that a subscriber is told of from one on, and where it goes on; none where it is ended.
fn told(fault: Fault, from: usize, high: usize) -> Option<(Vec<usize>, usize)> {
    if fault == Fault::TellsLate && from == 30 {
        return Some(if high > 31 { (vec![31, 30], 32) } else { (vec![], 30) });
    }
    let to = if from <= 30 { high.min(31) } else { high };
    let mut offsets: Vec<_> = (from..to).collect();
    if offsets.last() == Some(&30) {
        match fault {
            Fault::TellsLate => return Some((offsets[..offsets.len() - 1].to_vec(), 30)),
            Fault::LeavesOut => drop(offsets.pop()),
            Fault::TellsTwice => offsets.push(30),
            Fault::EndsSubscribers => return None,
            _ => {}
        }
    }
    Some((offsets, to))
}

/// Tells a subscriber of every event from now on.
fn tell(shared: &Shared, writer: &mut &TcpStream) -> Option<()> {
    let mut next: Vec<_> = locked(shared).partitions.iter().map(Vec::len).collect();
    writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\n\n").ok()?;
    loop {
        for (partition, next) in next.iter_mut().enumerate() {
            let records = {
                let held = locked(shared);
                let (offsets, to) = told(held.fault, *next, held.partitions[partition].len())?;
                *next = to;
                offsets.into_iter().map(|offset| held.record(partition, offset)).collect::<Vec<_>>()
            };
            if !records.is_empty() {
                locked(shared).count("streams.delivered", records.len() as u64);
                writeln!(writer, "event: records\ndata: {}\n", json!({"records": records})).ok()?;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The answer to a read that waits for events; none where the connection is to end.
fn wait(shared: &Shared, query: &BTreeMap<&str, &str>) -> Option<(&'static str, Value)> {
    let number = |name: &str| query[name].parse::<usize>().unwrap();
    let (partition, from) = (number("partition"), number("from"));
    loop {
        {
            let mut held = locked(shared);
            let high = held.partitions[partition].len();
            // What was told is behind where it goes on, except where it comes late.
            let (offsets, next) = told(held.fault, from, high)?;
            if !offsets.is_empty() {
                held.count("streams.events_read", offsets.len() as u64);
                let records: Vec<_> = offsets.into_iter().map(|offset| held.record(partition, offset)).collect();
                return Some(("200 OK", json!({"records": records, "next": next, "highWatermark": high})));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Held {
    /// An event as it is read.
    fn record(&self, partition: usize, offset: usize) -> Value {
        let mut record = json!({"partition": partition, "offset": offset});
        record.as_object_mut().unwrap().extend(self.partitions[partition][offset].as_object().unwrap().clone());
        record
    }

    fn count(&mut self, name: &'static str, steps: u64) {
        *self.counters.entry(name).or_default() += steps;
    }

    /// The answer to an append of one event.
    fn append(&mut self, event: &Value) -> (&'static str, Value) {
        self.singles += 1;
        let is_refused = self.singles.is_multiple_of(3);
        if is_refused && matches!(self.fault, Fault::Refuses | Fault::RefusesForever | Fault::RefusesAndAppends) {
            self.count("streams.refused", 1);
            if self.fault == Fault::RefusesAndAppends {
                self.put(event);
            }
            return match self.fault {
                Fault::RefusesForever => ("503 Service Unavailable", Value::Null),
                _ => ("503 Service Unavailable\r\nretry-after: 0", Value::Null),
            };
        }
        self.count("writes", 1);
        self.count("streams.appends", 1);
        ("202 Accepted", self.put(event))
    }

    /// The answer to an append of several events; none where the connection is to end.
    fn append_all(&mut self, body: &Value) -> Option<(&'static str, Value)> {
        let events = body["records"].as_array().unwrap();
        let (number, singly) = (events.len() as u64, self.fault == Fault::BulkSingly);
        self.bulks += 1;
        self.count("writes", if singly { number } else { 1 });
        self.count(if singly { "streams.appends" } else { "streams.bulks" }, if singly { number } else { 1 });
        self.count("streams.events", number);
        let kept = match self.fault {
            Fault::HalfUnanswered if self.bulks.is_multiple_of(10) => Some(events.len() / 2),
            Fault::WholeUnanswered if self.bulks.is_multiple_of(10) => Some(events.len()),
            _ => None,
        };
        let offsets: Vec<_> = events.iter().take(kept.unwrap_or(events.len())).map(|event| self.put(event)).collect();
        let answer = ("202 Accepted", json!({"count": offsets.len(), "duplicates": 0, "offsets": offsets}));
        kept.is_none().then_some(answer)
    }

    /// The answer to a record and an event in one request.
    fn batch(&mut self, body: &Value) -> (&'static str, Value) {
        let operations = &body["operations"];
        let place = self.put(&operations[1]["body"]);
        self.bulks += 1;
        if self.fault != Fault::NoRecord || !self.bulks.is_multiple_of(10) {
            self.items.insert(format!("/Item/{}", operations[0]["body"]["id"].as_str().unwrap()));
        }
        ("200 OK", json!({"results": [{"status": 201}, {"status": 202, "body": place}]}))
    }

    /// Puts an event at the end of its partition; where it is said to stand.
    fn put(&mut self, event: &Value) -> Value {
        let key = event["idempotencyKey"].as_str().map(str::to_owned);
        if let Some(Value::Object(mut place)) = key.as_ref().and_then(|key| self.keys.get(key)).cloned() {
            place.insert("duplicate".to_owned(), true.into());
            return Value::Object(place);
        }
        let shift = u64::from(self.fault == Fault::NextPartition);
        let partition = (event["partition"].as_u64().unwrap() + shift) as usize % self.partitions.len();
        let mut offset = self.partitions[partition].len();
        let is_odd = offset == 30 && !std::mem::replace(&mut self.was_odd, true);
        if is_odd && self.fault == Fault::Foreign {
            self.partitions[partition].push(json!({"payload": "of nobody"}));
            offset += 1;
        }
        let mut record = json!({"payload": event["payload"].clone()});
        if let Some(key) = &key {
            record["idempotencyKey"] = key.as_str().into();
        }
        if is_odd && self.fault == Fault::OtherBytes {
            record["payload"] = "other".into();
        }
        if !(is_odd && self.fault == Fault::Lost) {
            self.partitions[partition].push(record);
        }
        let told = match self.fault {
            Fault::OffsetTwice if is_odd => offset - 1,
            Fault::Falling if offset > 30 => 100_000 - offset,
            _ => offset,
        };
        let place = json!({"partition": partition, "offset": told});
        if let Some(key) = key.filter(|_| self.fault != Fault::KeysAgain) {
            self.keys.insert(key, place.clone());
        }
        place
    }

    /// The events of a partition from an offset on.
    fn read(&mut self, query: &BTreeMap<&str, &str>) -> (&'static str, Value) {
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let partition = number("partition").unwrap_or(0);
        let Some(events) = self.partitions.get(partition) else {
            return ("400 Bad Request", json!({"detail": "no such partition"}));
        };
        let (high, from, mut records) = (events.len(), number("from").unwrap_or(0), Vec::new());
        for offset in (from..high).take(number("limit").unwrap_or(100)) {
            if !(self.fault == Fault::ReadsNothing || self.fault == Fault::Gap && offset == 30) {
                records.push(self.record(partition, offset));
            }
        }
        let next =
            if self.fault == Fault::ReadsNothing { from } else { high.min(from + number("limit").unwrap_or(100)) };
        self.count("streams.events_read", records.len() as u64);
        self.count("streams.reads", 1);
        ("200 OK", json!({"records": records, "next": next, "lowWatermark": 0, "highWatermark": high}))
    }
}
