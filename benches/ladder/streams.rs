//! APPEND of one event, APPEND_100 of a list of 100, and READ_100 of 100 events from a random offset, appended in lists of 100.
//!
//! Streams stand on the transaction layer, and what they store is no record: their rungs are raw, streams, handlers and those above. The
//! floor of several events has a key for each of them, as in the bench of the layer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use rust_rocksdb as rocksdb;
use strata::handlers::streams::{self, Reading};
use strata::handlers::{self, Response};
use strata::routing::{Call, Routes};
use strata::streams::Start;
use strata_harness::data::scatter;
use strata_harness::{Depth, Facts, OrRefused, Scale, Suite, Unit};

use crate::events::{self, ANSWER_BYTES, Floor, PAGE, PAYLOAD_BYTES, chunk_key, raw_read};
use crate::floor::{Promise, Raw};
use crate::prepared::{Ours, SST, WRITES, soft};
use crate::served::{Bare, Client, Served};
use crate::{Requests, from_driver_on};

const SCHEMA: &str = "type Click @stream @export";

/// One of the requests.
#[derive(Clone)]
struct Asked {
    name: &'static str,
    /// The request, in words.
    what: &'static str,
    /// Events that it appends or reads.
    events: u64,
    path: &'static str,
    /// The body of an append; that of a read is empty.
    body: Bytes,
    /// Events that there are before.
    stored: u64,
}

pub fn rows(suite: &mut Suite) {
    let payload = events::payload(PAYLOAD_BYTES);
    let (event, list) = (events::body(&payload), events::list(&payload, PAGE, 1));
    let stored = if suite.scale() == Scale::Full { 100_000 } else { 1000 };
    let (hundred, none) = (PAGE as u64, Bytes::new());
    for (name, what, events, path, body, stored) in [
        ("append", "to append one event", 1, "/Click", event.into(), 0),
        ("append_100", "to append 100 events", hundred, "/Click/bulk", list.into(), 0),
        ("read_100", "for 100 events", hundred, "/Click", none, stored),
    ] {
        let asked = Asked { name, what, events, path, body, stored };
        asked.in_process(suite);
        asked.tcp(suite);
    }
}

impl Asked {
    fn reads(&self) -> bool {
        self.body.is_empty()
    }

    fn facts(&self, op: &str) -> Facts {
        let facts = Facts::new(op).unit(Unit::Records, self.events);
        let facts = if self.name == "append" { facts.depth(Depth::Default) } else { facts };
        let events = format!("events with payloads of {PAYLOAD_BYTES} bytes");
        if self.reads() {
            return facts.data(format!("{} {events}", self.stored)).state(SST);
        }
        facts.data(events).state(events::WRITTEN).durability(soft()).changes_store(WRITES / self.events.min(8), None)
    }

    fn streams(&self) -> events::Ours {
        match self.reads() {
            true => events::Ours::with_events(SCHEMA, self.stored, PAGE as u64),
            false => events::Ours::fresh(SCHEMA),
        }
    }

    /// The store for the rungs above the layer.
    fn ours(&self) -> Ours {
        let store = self.streams().store;
        if !self.reads() {
            let bytes = self.events * PAYLOAD_BYTES as u64;
            store.promise(Promise { bytes, ..Promise::WRITE });
        }
        store
    }

    fn floor(&self) -> Floor {
        let ours = if self.reads() { events::Ours::with_events(SCHEMA, self.stored, 1) } else { self.streams() };
        ours.into_floor(&events::body(&events::payload(PAYLOAD_BYTES)))
    }

    /// Returns the work of raw RocksDB for a request.
    fn on_raw(&self, stored: Vec<u8>) -> impl FnMut(&Raw, u64) -> Vec<u8> + Clone + Send + use<> {
        let (asked, mut next) = (self.clone(), 0);
        move |raw, index| {
            if asked.reads() {
                let mut answer = Vec::with_capacity(PAGE * (PAYLOAD_BYTES + 100));
                raw_read(raw, asked.offset(index), PAGE as u64, &mut answer);
                return answer;
            }
            let mut batch = rocksdb::WriteBatch::default();
            for _ in 0..asked.events {
                next += 1;
                batch.put_cf(&raw.events(), chunk_key(1, 0, next), &stored);
            }
            raw.commit(&batch);
            vec![b'x'; asked.response_bytes()]
        }
    }

    fn offset(&self, index: u64) -> u64 {
        scatter(index, self.stored - PAGE as u64)
    }

    fn uri(&self, index: u64) -> String {
        if self.reads() { format!("{}?from={}", self.path, self.offset(index)) } else { self.path.to_owned() }
    }

    /// Bytes that a response has at least.
    fn response_bytes(&self) -> usize {
        if self.reads() { PAGE * PAYLOAD_BYTES } else { 25 * self.events as usize }
    }

    fn head(&self) -> HeaderMap {
        let json = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let host = (http::header::HOST, HeaderValue::from_static("localhost"));
        HeaderMap::from_iter([host].into_iter().chain((!self.reads()).then_some(json)))
    }

    /// The events of a handler's response.
    fn counted(&self, response: handlers::Result<Response>) -> u64 {
        let response = response.or_refused();
        if response.status().is_success() && response.body().len() > self.response_bytes() { self.events } else { 0 }
    }

    fn in_process(&self, suite: &mut Suite) {
        let (name, ours) = (self.name, || self.ours());
        let op = match (self.reads(), self.events) {
            (true, _) => "seeks a random offset, iterates over 100 keys and copies their values",
            (false, 1) => "puts the stored bytes of one event",
            (false, _) => "puts 100 keys in one batch, one for each event",
        };
        let setup = || self.floor();
        suite.row(name, "floor", "raw", self.facts(op), setup, |floor: Arc<Floor>| {
            floor.promised.store(if self.reads() { 0 } else { self.events }, Relaxed);
            let (mut work, events) = (self.on_raw(floor.stored.clone()), self.events);
            move |index| {
                std::hint::black_box(work(&floor.raw, index));
                events
            }
        });
        let about = self.facts(&format!("does in its layer what a request {} asks for", self.what));
        let about = about.against(format!("{name}/floor/raw"));
        let setup = || self.streams();
        suite.row(name, "strata", "streams", about, setup, |ours: Arc<events::Ours>| {
            let (asked, mut answer) = (self.clone(), Vec::new());
            let body = String::from_utf8(asked.body.to_vec()).expect("JSON");
            let mut append = (!asked.reads()).then(|| events::append_each(Arc::clone(&ours), body, asked.events));
            move |index| match &mut append {
                Some(append) => append(index),
                None => ours.read(asked.offset(index), PAGE, &mut answer),
            }
        });
        let about = self.facts(&format!("answers a request {} in its handler", self.what));
        let about = about.against(format!("{name}/strata/streams"));
        let setup = || self.streams();
        suite.row(name, "strata", "handlers", about, setup, |ours: Arc<events::Ours>| {
            let (asked, headers) = (self.clone(), self.head());
            move |index| {
                let (layer, database, stream) = (&ours.streams, &ours.store.database, ours.stream());
                asked.counted(if asked.reads() {
                    let from = Start::Offset(asked.offset(index));
                    let reading = Reading { partition: 0, from, limit: PAGE, wait_ms: 0 };
                    streams::read(layer, database, stream, &reading, ANSWER_BYTES)
                } else if asked.events == 1 {
                    streams::append(layer, database, stream, &asked.body)
                } else {
                    streams::append_all(layer, database, stream, &headers, &asked.body)
                })
            }
        });
        let about = self.facts("finds the handler of a path and answers with it");
        let about = about.against(format!("{name}/strata/handlers"));
        suite.row(name, "strata", "routing", about, ours, |ours: Arc<Ours>| {
            let routes = Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open");
            let (asked, headers) = (self.clone(), self.head());
            let (method, uris) = (asked.method(), asked.uris());
            move |index| {
                let route = routes.resolve(&method, &uris[index as usize % uris.len()], &headers);
                let route = route.expect("a stream's path").expect("a good request");
                asked.counted(Call::new(&route, &asked.body).respond(&ours.database, &headers))
            }
        });
        let requests = || Prepared { uris: self.uris(), asked: self.clone() };
        from_driver_on(suite, name, self.what, |op| self.facts(op), ours, requests);
    }

    fn method(&self) -> Method {
        if self.reads() { Method::GET } else { Method::POST }
    }

    /// The targets of requests, in turn.
    fn uris(&self) -> Vec<Uri> {
        let different = if self.reads() { 1024 } else { 1 };
        (0..different).map(|index| self.uri(index).parse().expect("a target")).collect()
    }

    fn tcp(&self, suite: &mut Suite) {
        let facts = |op: &str| match self.reads() {
            true => self.facts(op).cpu_clock(),
            false => self.facts(op).changes_store(1000 / self.events.min(8), None).cpu_clock(),
        };
        let client = |mut client: Client| {
            let asked = self.clone();
            let request = |uri: &Uri| {
                let head = format!("{} {uri} HTTP/1.1\r\nhost: localhost\r\n", asked.method());
                let body = format!("content-type: application/json\r\ncontent-length: {}\r\n", asked.body.len());
                let rest = if asked.reads() { String::new() } else { body };
                [head.as_bytes(), rest.as_bytes(), b"\r\n", &asked.body].concat()
            };
            let requests: Vec<_> = asked.uris().iter().map(request).collect();
            move |index| {
                let (status, bytes) = client.exchange(&requests[index as usize % requests.len()]);
                if matches!(status, 200 | 202) && bytes >= asked.response_bytes() { asked.events } else { 0 }
            }
        };
        let (at_least, aim) = match (self.reads(), self.events) {
            (true, _) => (0.75, 0.95),
            (false, 1) => (0.80, 0.95),
            (false, _) => (0.9, 1.1),
        };
        let about = facts(&format!("answers a request {} over HTTP/1.1, server CPU", self.what));
        let about = about.floor("floor", at_least, aim).against(format!("{}/strata/ingress_cpu", self.name));
        let setup = || Served::start(self.ours());
        suite.row(self.name, "strata", "tcp", about, setup, |served: Arc<Served>| client(served.client()));
        let setup = || {
            let Floor { raw, stored, .. } = self.floor();
            let (work, asked) = (self.on_raw(stored), self.clone());
            Bare::start(raw, move |raw| {
                let (mut work, asked, mut next) = (work.clone(), asked.clone(), 0);
                move |_: &http::request::Parts, _: &[u8]| {
                    next += 1;
                    let mut response = Response::new(Full::new(Bytes::from(work(&raw, next))));
                    let status = if asked.reads() { StatusCode::OK } else { StatusCode::ACCEPTED };
                    *response.status_mut() = status;
                    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                    response
                }
            })
        };
        let about = facts("does what raw RocksDB does for it in the handler of a bare hyper server, server CPU");
        suite.row(self.name, "floor", "tcp", about, setup, |bare: Arc<Bare>| client(Client::connect(bare.address)));
    }
}

struct Prepared {
    asked: Asked,
    uris: Vec<Uri>,
}

impl Requests for Prepared {
    fn request(&self, index: u64) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.asked.body.clone()));
        *request.method_mut() = self.asked.method();
        *request.uri_mut() = self.uris[index as usize % self.uris.len()].clone();
        *request.headers_mut() = self.asked.head();
        request
    }

    fn body(&self, _: u64) -> &[u8] {
        &self.asked.body
    }

    fn units(&self, _: u64, status: StatusCode, body_bytes: usize) -> u64 {
        if status.is_success() && body_bytes > self.asked.response_bytes() { self.asked.events } else { 0 }
    }
}
