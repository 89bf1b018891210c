//! Requests in, answers out, without a socket: the boundary between async code and the blocking layers.
//!
//! Rows that enter tokio have a driver as their baseline: the same runtime and path, with nothing behind it. hyper parses requests and
//! writes answers over a pipe in memory; Strata reads the body, or the headers that decide. `cycle` is the whole of it, from the bytes of a
//! request to those of its answer, on the thread of a connection. Further rows measure parts without tokio: assembling a body from the pieces
//! in which it arrives, building the answer for a record.

mod floor;
mod prepared;
mod verbs;
#[path = "ingress/wire.rs"]
mod wire;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use floor::Promise;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Frame, SizeHint};
use prepared::{Ours, POOL, SST, WRITES, WRITTEN, bodies, described, options, records, soft};
use strata::encoding::Record;
use strata::handlers::{
    self, Validator,
    media::{Accepted, Bodies, BodyFormat, ResponseKind},
};
use strata::ingress::{Body, Ingress, Options, Peer, read_body};
use strata_harness::data::{self, Id, scatter};
use strata_harness::{Data, Facts, State, Suite, Unit, refused, suite};
use wire::Wire;

fn main() {
    suite("ingress", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        for threads in [1, 8] {
            request(suite, threads);
            nothing_behind(suite, threads);
            post(suite, threads);
            cycle(suite, threads);
        }
        for size in &SIZES {
            deserialize(suite, size);
            serialize(suite, size);
        }
        driver(suite);
        header_parsing(suite);
        for kilobytes in [1, 10, 100] {
            body_extraction(suite, kilobytes);
        }
        response_building(suite);
    });
}

fn get_case(threads: usize) -> String {
    if threads == 1 { "get_by_id".to_owned() } else { format!("get_by_id_{threads}_threads") }
}

fn post_case(threads: usize) -> String {
    if threads == 1 { "post".to_owned() } else { format!("post_{threads}_threads") }
}

/// The state that the workers of a server share; each has its own ingress, which counts together with the others, as in the server.
struct Shared {
    ingress: Ingress,
    _pool: tokio::runtime::Runtime,
    ours: Ours,
}

impl Shared {
    fn over(ours: Ours) -> Self {
        let (handlers, pool) = (handlers::Options::default(), runtime());
        let ingress = Ingress::new(ours.database.clone(), handlers, Options::default(), pool.handle().clone())
            .expect("streams that open");
        Self { ingress, _pool: pool, ours }
    }
}

impl State for Shared {
    fn settle(&self) {
        self.ours.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.counters()
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        self.ours.thread_counters()
    }

    fn verify(&self, operations: u64) {
        self.ours.verify(operations);
    }
}

/// Returns the status of the response to a request on the connection of a peer, and its body.
async fn answered(ingress: &Arc<Ingress>, request: Request<Full<Bytes>>, peer: &Peer) -> (StatusCode, Bytes) {
    let response = ingress.respond(request, peer).await;
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    if status.is_server_error() {
        refused(&format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    (status, body)
}

fn request(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts = Facts::new("answers a request for one record; its body is read").data(described(n)).state(SST);
    suite.row(
        "request",
        "strata",
        &get_case(threads),
        facts.unit(Unit::Records, 1).threads(threads).against(format!("request/driver/{}", get_case(threads))),
        || Shared::over(Ours::copy(0, n)),
        |shared: Arc<Shared>| {
            let (runtime, paths, ingress) = (runtime(), paths(n), Arc::new(shared.ingress.for_thread()));
            let peer = ingress.peer(Ipv4Addr::LOCALHOST.into(), None);
            move |index| {
                let request = get(&paths[scatter(index, n) as usize]);
                let (status, body) = runtime.block_on(answered(&ingress, request, &peer));
                u64::from(status == StatusCode::OK && black_box(body).len() > 900)
            }
        },
    );
}

fn nothing_behind(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts = Facts::new("builds the same request and returns an empty answer").data(described(n)).state(SST);
    suite.row(
        "request",
        "driver",
        &get_case(threads),
        facts.unit(Unit::Records, 1).threads(threads),
        || (),
        |_: Arc<()>| {
            let (runtime, paths) = (runtime(), paths(n));
            move |index| {
                let request = get(&paths[scatter(index, n) as usize]);
                runtime.block_on(async {
                    let response = nothing(request).await;
                    let ok = response.status() == StatusCode::OK;
                    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
                    u64::from(ok && black_box(body).is_empty())
                })
            }
        },
    );
}

async fn nothing(request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
    drop(black_box(request));
    Response::new(Full::new(Bytes::new()))
}

fn post(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts =
        Facts::new("answers a request to create one record; both bodies are read").data(described(n)).state(WRITTEN);
    let facts = facts.unit(Unit::Records, 1).threads(threads).durability(soft()).indexes(0);
    suite.row(
        "request",
        "strata",
        &post_case(threads),
        facts.changes_store(WRITES, None),
        || Shared::over(Ours::copy(0, n)),
        |shared: Arc<Shared>| {
            let (runtime, ingress) = (runtime(), Arc::new(shared.ingress.for_thread()));
            shared.ours.promise(Promise::CREATE);
            let peer = ingress.peer(Ipv4Addr::LOCALHOST.into(), None);
            let path = Uri::from_static("/Product");
            let bodies: Vec<_> = bodies().iter().map(|body| Bytes::copy_from_slice(body)).collect();
            move |index| {
                let mut request = Request::new(Full::new(bodies[(index % POOL) as usize].clone()));
                (*request.uri_mut(), *request.method_mut()) = (path.clone(), Method::POST);
                request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("localhost"));
                request.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let (status, body) = runtime.block_on(answered(&ingress, request, &peer));
                u64::from(status == StatusCode::CREATED && black_box(body).len() > 900)
            }
        },
    );
}

fn get(path: &Uri) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = path.clone();
    request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("localhost"));
    request
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn paths(n: u64) -> Vec<Uri> {
    (0..n).map(|index| format!("/Product/{}", data::id(index)).parse().expect("a path")).collect()
}

/// Requests as they go over the wire, each with the required length of its response's body.
type Exchanges = Vec<(Vec<u8>, usize)>;

fn gets(n: u64) -> Exchanges {
    let one = |index| {
        let request = format!("GET /Product/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", data::id(index));
        (request.into_bytes(), json_bytes(&data::product(index, Id::Given)))
    };
    (0..n).map(one).collect()
}

fn posts() -> Exchanges {
    let one = |body: &Vec<u8>| {
        let head = "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
        let request = [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat();
        let with_id = [format!("{{\"id\":\"{}\",", verbs::MADE_ID).as_bytes(), &body[1..]].concat();
        (request, json_bytes(&with_id))
    };
    bodies().iter().map(one).collect()
}

/// The length of the stored text of a body: numbers may be written shorter.
fn json_bytes(body: &[u8]) -> usize {
    let (schema, mut stored) = (prepared::schema(0), Vec::new());
    prepared::encode(&schema.tables[0], body, &mut stored);
    Record::open(&schema.tables[0], &stored).expect("encoded just now").json().len()
}

/// A pipe to hyper, which passes each request to ingress.
fn to_ingress(shared: &Shared, (request, body_bytes): &(Vec<u8>, usize)) -> Wire {
    let ingress = Arc::new(shared.ingress.for_thread());
    let peer = ingress.peer(Ipv4Addr::LOCALHOST.into(), None);
    Wire::new(request, *body_bytes, move |request| ingress.respond(request, &peer))
}

/// The whole cycle of a request, from its bytes to the bytes of its response.
fn cycle(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts = |op: &str, state| {
        let about = Facts::new(op).data(described(n)).state(state).indexes(0);
        about.unit(Unit::Records, 1).threads(threads)
    };
    let setup = || Shared::over(Ours::copy(0, n));
    let about = facts("turns the bytes of a GET of one record into those of its answer, over a pipe in memory", SST);
    let about = about.against(format!("cycle/driver/{}", get_case(threads)));
    suite.row("cycle", "strata", &get_case(threads), about, setup, |shared: Arc<Shared>| {
        let exchanges = gets(n);
        let mut wire = to_ingress(&shared, &exchanges[0]);
        move |index| {
            let (request, body_bytes) = &exchanges[scatter(index, n) as usize];
            u64::from(wire.exchange(request, *body_bytes, "200"))
        }
    });
    let about = facts("sends the same bytes and reads the smallest answer, over the same pipe", "in memory");
    suite.row(
        "cycle",
        "driver",
        &get_case(threads),
        about,
        || (),
        |_: Arc<()>| {
            let exchanges = gets(n);
            let mut wire = Wire::new(&exchanges[0].0, 0, |_| std::future::ready(respond_with(Bytes::new())));
            move |index| u64::from(wire.exchange(&exchanges[scatter(index, n) as usize].0, 0, "200"))
        },
    );
    let about =
        facts("turns the bytes of a POST of one record into those of its answer, over a pipe in memory", WRITTEN);
    let about = about.durability(soft()).changes_store(WRITES, None);
    suite.row("cycle", "strata", &post_case(threads), about, setup, |shared: Arc<Shared>| {
        let exchanges = posts();
        let mut wire = to_ingress(&shared, &exchanges[0]);
        shared.ours.promise(Promise::CREATE);
        move |index| {
            let (request, body_bytes) = &exchanges[(index % POOL) as usize];
            u64::from(wire.exchange(request, *body_bytes, "201"))
        }
    });
}

/// The size of a request or a response.
struct Size {
    name: &'static str,
    headers: usize,
    body_bytes: usize,
}

const SIZES: [Size; 3] = [
    Size { name: "small", headers: 4, body_bytes: 100 },
    Size { name: "medium", headers: 10, body_bytes: 1 << 10 },
    Size { name: "large", headers: 20, body_bytes: 100 << 10 },
];

/// Headers as clients send them, including those that decide.
fn headers(count: usize) -> HeaderMap {
    let deciding = [
        ("accept", "text/html, application/json;q=0.9"),
        ("content-type", "application/json"),
        ("if-match", "\"0123456789abcdef\""),
    ];
    let deciding = deciding.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let others = (deciding.len()..count).map(|number| {
        let name = format!("x-client-header-{number}");
        (name.parse().expect("a name"), HeaderValue::from_static("a value of about thirty bytes"))
    });
    deciding.into_iter().chain(others).collect()
}

/// A request as it goes over the wire.
fn request_bytes(size: &Size) -> Vec<u8> {
    let mut bytes =
        format!("POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", size.body_bytes).into_bytes();
    for (name, value) in &headers(size.headers) {
        bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.resize(bytes.len() + size.body_bytes, b'x');
    bytes
}

fn respond_with(body: Bytes) -> Response<Body> {
    handlers::with_body(StatusCode::OK, handlers::JSON, body).map(|body| Either::Left(Full::new(body)))
}

fn described_size(size: &Size, what: &str) -> String {
    format!("a {what} of {} bytes", size.body_bytes)
}

fn deserialize(suite: &mut Suite, size: &'static Size) {
    let op = format!("parses the bytes of a request with {} headers and reads its body", size.headers);
    let facts = Facts::new(op).data(described_size(size, "body")).state("in memory");
    let facts = facts.bytes_per_operation(request_bytes(size).len() as u64);
    let facts = facts.against("request_deserialize/driver/least");
    suite.row(
        "request_deserialize",
        "strata",
        size.name,
        facts,
        || (),
        |_: Arc<()>| {
            let request = request_bytes(size);
            let mut wire = Wire::new(&request, 0, |request| async {
                let (parts, body) = request.into_parts();
                let body = read_body(body, 1 << 20).await.expect("a body within the limit");
                let whole = parts.headers.len() == size.headers + 2 && body.len() == size.body_bytes;
                assert!(whole, "the request has lost something");
                respond_with(Bytes::new())
            });
            move |_| u64::from(wire.exchange(&request, 0, "200"))
        },
    );
}

fn serialize(suite: &mut Suite, size: &'static Size) {
    let facts = Facts::new("serialises an answer").data(described_size(size, "body")).state("in memory");
    let facts = facts.bytes_per_operation(size.body_bytes as u64).against("response_serialize/driver/least");
    suite.row(
        "response_serialize",
        "strata",
        size.name,
        facts,
        || (),
        |_: Arc<()>| {
            let body = Bytes::from(vec![b'x'; size.body_bytes]);
            let mut wire =
                Wire::new(LEAST_REQUEST, size.body_bytes, move |_| std::future::ready(respond_with(body.clone())));
            move |_| u64::from(wire.exchange(LEAST_REQUEST, size.body_bytes, "200"))
        },
    );
}

const LEAST_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// The smallest request and the smallest response on the same path: the minimum cost of the pipe, the runtime and the HTTP library.
fn driver(suite: &mut Suite) {
    for operation in ["request_deserialize", "response_serialize", "header_parsing"] {
        let facts = Facts::new("sends the smallest request and reads the smallest answer").state("in memory");
        suite.row(
            operation,
            "driver",
            "least",
            facts,
            || (),
            |_: Arc<()>| {
                let mut wire = Wire::new(LEAST_REQUEST, 0, |_| std::future::ready(respond_with(Bytes::new())));
                move |_| u64::from(wire.exchange(LEAST_REQUEST, 0, "200"))
            },
        );
    }
}

fn header_parsing(suite: &mut Suite) {
    for count in [4, 20] {
        let facts = Facts::new(format!(
            "parses the bytes of a request with {count} headers and reads those that decide: Accept, Accept-Encoding, \
             Content-Type, Content-Encoding, If-Match"
        ));
        let case = format!("{count}_headers");
        suite.row(
            "header_parsing",
            "strata",
            &case,
            facts.state("in memory").against("header_parsing/driver/least"),
            || (),
            |_: Arc<()>| {
                let request = request_bytes(&Size { name: "", headers: count, body_bytes: 0 });
                let mut wire = Wire::new(&request, 0, |request| {
                    let headers = request.headers();
                    let accepted = black_box(Accepted::negotiate(headers, ResponseKind::One));
                    let body_format = black_box(BodyFormat::from_headers(headers, Bodies::Records));
                    let expected = black_box(handlers::expected(headers));
                    assert!(accepted.is_ok() && body_format.is_ok() && expected.is_ok(), "they are valid");
                    std::future::ready(respond_with(Bytes::new()))
                });
                move |_| u64::from(wire.exchange(&request, 0, "200"))
            },
        );
    }
}

/// A body of known length in the pieces in which a connection delivers it.
struct Pieces(VecDeque<Bytes>);

/// Bytes that a connection delivers at once.
const PIECE_BYTES: usize = 8 << 10;

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

fn body_extraction(suite: &mut Suite, kilobytes: usize) {
    let bytes = kilobytes << 10;
    let facts = Facts::new("assembles a body from the pieces in which it arrives").bytes_per_operation(bytes as u64);
    let facts = facts.data(format!("{} pieces of at most 8 KiB", bytes.div_ceil(PIECE_BYTES))).state("in memory");
    suite.row(
        "body_extraction",
        "strata",
        &format!("{kilobytes}_kb"),
        facts,
        || (),
        |_: Arc<()>| {
            let pieces: VecDeque<_> = vec![b'x'; bytes].chunks(PIECE_BYTES).map(Bytes::copy_from_slice).collect();
            move |_| {
                let whole =
                    pin!(read_body(Pieces(pieces.clone()), 1 << 20)).poll(&mut Context::from_waker(Waker::noop()));
                u64::from(matches!(black_box(whole), Poll::Ready(Ok(whole)) if whole.len() == bytes))
            }
        },
    );
}

fn response_building(suite: &mut Suite) {
    let facts = Facts::new("builds the answer for one stored record: type, validator, JSON copy").state("in memory");
    let stored = || {
        let schema = prepared::schema(0);
        let stored = (0..POOL).map(|index| {
            let mut bytes = Vec::new();
            prepared::encode(&schema.tables[0], &data::product(index, Id::Given), &mut bytes);
            bytes
        });
        Data((stored.collect::<Vec<_>>(), schema))
    };
    suite.row(
        "response_building",
        "strata",
        "1_kb",
        facts.data(described(POOL)).unit(Unit::Records, 1),
        stored,
        |all: Arc<Data<(Vec<Vec<u8>>, strata::schema::Schema)>>| {
            move |index| {
                let (stored, schema) = &all.0;
                let record = Record::open(&schema.tables[0], &stored[(index % POOL) as usize]).expect("a record");
                let json = Bytes::copy_from_slice(record.json());
                let response = handlers::with_record(StatusCode::OK, &Validator::of(&record), json);
                u64::from(black_box(response).body().len() > 900)
            }
        },
    );
}
