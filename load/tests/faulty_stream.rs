//! A server of one event stream in memory, `S`, and of one table, `Item`, that keeps its promises except where its fault says otherwise.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::faulty_server::{answer, request};

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It puts events into the partition after theirs.
    NextPartition,
}

/// What it holds.
struct Held {
    fault: Fault,
    partitions: Vec<Vec<Value>>,
    counters: BTreeMap<&'static str, u64>,
}

type Shared = Arc<Mutex<Held>>;

/// Starts one with so many partitions that lives as long as the process; its URL.
pub fn start(fault: Fault, partitions: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let names = ["writes", "streams.appends", "streams.bulks", "streams.events", "streams.events_read"];
    let counters = names.into_iter().map(|name| (name, 0)).collect();
    let held = Held { fault, partitions: vec![Vec::new(); partitions], counters };
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
        let query: BTreeMap<_, _> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, said) = match (method.as_str(), path) {
            ("GET", "/_counters") => ("200 OK", json!(locked(shared).counters)),
            ("GET", "/S") => locked(shared).read(&query),
            ("POST", "/S") => locked(shared).append(&body),
            ("POST", "/S/bulk") => locked(shared).append_all(&body),
            ("DELETE", "/S") => ("200 OK", json!({"truncated": true})),
            _ => ("404 Not Found", Value::Null),
        };
        answer(&mut writer, status, &said.to_string())?;
    }
}

impl Held {
    fn count(&mut self, name: &'static str, steps: u64) {
        *self.counters.entry(name).or_default() += steps;
    }

    /// The answer to an append of one event.
    fn append(&mut self, event: &Value) -> (&'static str, Value) {
        self.count("writes", 1);
        self.count("streams.appends", 1);
        ("202 Accepted", self.put(event))
    }

    /// The answer to an append of several events.
    fn append_all(&mut self, body: &Value) -> (&'static str, Value) {
        let events = body["records"].as_array().unwrap();
        self.count("writes", 1);
        self.count("streams.bulks", 1);
        self.count("streams.events", events.len() as u64);
        let offsets: Vec<_> = events.iter().map(|event| self.put(event)).collect();
        ("202 Accepted", json!({"count": offsets.len(), "duplicates": 0, "offsets": offsets}))
    }

    /// Puts an event at the end of its partition; where it stands.
    fn put(&mut self, event: &Value) -> Value {
        let shift = u64::from(self.fault == Fault::NextPartition);
        let partition = (event["partition"].as_u64().unwrap() + shift) as usize % self.partitions.len();
        let offset = self.partitions[partition].len();
        let mut record = json!({"partition": partition, "offset": offset});
        for name in ["idempotencyKey", "payload"] {
            record.as_object_mut().unwrap().extend(event.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        self.partitions[partition].push(record);
        json!({"partition": partition, "offset": offset})
    }

    /// The events of a partition from an offset on.
    fn read(&mut self, query: &BTreeMap<&str, &str>) -> (&'static str, Value) {
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let Some(events) = self.partitions.get(number("partition").unwrap_or(0)) else {
            return ("400 Bad Request", json!({"detail": "no such partition"}));
        };
        let (high, from) = (events.len(), number("from").unwrap_or(0));
        let records: Vec<_> = events.iter().skip(from).take(number("limit").unwrap_or(100)).cloned().collect();
        self.count("streams.events_read", records.len() as u64);
        let next = from + records.len();
        ("200 OK", json!({"records": records, "next": next, "lowWatermark": 0, "highWatermark": high}))
    }
}
