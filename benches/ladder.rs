//! The same requests at every rung: what each layer adds to the raw path under it.
//!
//! GET of one record by id, CREATE of one record with two indexes, and LIST of 20 records by equality of an attribute that has a hash
//! index. Rungs: raw (RocksDB called directly), storage, indexes, transaction (for a list: query), handlers, routing, driver, ingress, each
//! in process and by time; tcp and tls by the CPU time of the server's threads, because the client shares the process. The floor of tcp is
//! bare hyper with the raw path in its handler; GET also has axum's router on that server, with the same raw path behind it.
//!
//! The rung driver is not a layer. To be called as in a server, ingress needs a request value and a runtime that polls: driver builds the
//! same request, polls it on the same runtime, and answers it by routing, so that the step from it is ingress alone. The row of subject
//! driver does the same with nothing behind it. The row ingress_cpu measures ingress again by the CPU time of its thread, the clock of tcp,
//! so that the step to tcp compares equal clocks.
//!
//! A rung does what its layer and those below it do for the request; the input from the layer above is prepared. Encoding is not a rung: it
//! calls no layer, so its rows, the cost of that layer alone for the request, are beside the rungs. Locking has no row, because none of the
//! three takes a lock: an id made by the server is known to no other writer. GET reads no index.
//!
//! GRAPHQL_GET and GRAPHQL_LIST are GET and LIST over GraphQL, for all attributes, from the query layer up. APPEND, APPEND_100 and READ_100
//! are of a stream: raw, streams, and from handlers up.

mod events;
mod floor;
mod prepared;
mod served;
mod verbs;

#[path = "ladder/create.rs"]
mod create;
#[path = "ladder/get.rs"]
mod get;
#[path = "ladder/graphql.rs"]
mod graphql;
#[path = "ladder/list.rs"]
mod list;
#[path = "ladder/streams.rs"]
mod streams;

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use prepared::{Ours, SST, described, options};
use rustix::time::{ClockId, clock_gettime};
use strata::ingress::{Ingress, Peer};
use strata::routing::{Call, Routes};
use strata::schema::Table;
use strata::{handlers, ingress};
use strata_harness::data::{self, Id};
use strata_harness::{Facts, OrRefused, State, Suite, Unit, refused, suite};

fn main() {
    suite("ladder", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        get::in_process(suite);
        get::encoding(suite);
        get::tcp(suite);
        create::in_process(suite);
        create::encoding(suite);
        for (operation, indexes) in [("create", 2), ("create_0_indexes", 0)] {
            create::tcp(suite, operation, indexes);
        }
        list::in_process(suite);
        list::encoding(suite);
        list::tcp(suite);
        graphql::rows(suite);
        streams::rows(suite);
    });
}

/// Returns true if a handler responded with a record.
fn whole(response: handlers::Result<handlers::Response>) -> bool {
    let response = response.or_refused();
    response.status().is_success() && black_box(response.body()).len() > 900
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Requests as ingress gets them.
trait Requests: Send {
    /// The request of an operation, built from prepared parts.
    fn request(&self, index: u64) -> Request<Full<Bytes>>;

    /// Its body.
    fn body(&self, _index: u64) -> &[u8] {
        b""
    }

    /// The units in a response with this status and length of the body.
    fn units(&self, index: u64, status: StatusCode, body_bytes: usize) -> u64;
}

/// The rungs that build a request and enter a runtime; `what` is requested, and `facts` are those of the rungs below.
fn from_driver_on<R: Requests>(
    suite: &mut Suite,
    operation: &str,
    what: &str,
    facts: impl Fn(&str) -> Facts,
    setup: impl Fn() -> Ours,
    requests: impl Fn() -> R + Sync,
) {
    let about = facts(&format!("builds a request {what}, polls it on a runtime and answers it by routing"));
    let about = about.against(format!("{operation}/strata/routing"));
    suite.row(operation, "strata", "driver", about, &setup, |ours: Arc<Ours>| {
        let (runtime, requests) = (runtime(), requests());
        let routes = Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open");
        move |index| {
            let response = routed(&routes, &ours, requests.request(index), requests.body(index));
            let (status, body_bytes) = runtime.block_on(response);
            requests.units(index, status, body_bytes)
        }
    });
    let units = facts("").units_per_operation;
    let about = Facts::new(format!("builds a request {what}, polls it on a runtime and returns an empty answer"));
    let about = about.state("in memory").unit(Unit::Records, units);
    suite.row(
        operation,
        "driver",
        "ingress",
        about,
        || (),
        |_: Arc<()>| {
            let (runtime, requests) = (runtime(), requests());
            move |index| match runtime.block_on(unanswered(requests.request(index))) {
                (StatusCode::OK, 0) => units,
                _ => 0,
            }
        },
    );
    let about = facts(&format!("answers a request {what}")).against(format!("{operation}/strata/driver"));
    let asked = |ours: &Ours| {
        let (runtime, requests) = (runtime(), requests());
        let ingress = ingress(ours, &runtime);
        let peer = ingress.peer(Ipv4Addr::LOCALHOST.into(), None);
        move |index| {
            let (status, body_bytes) = runtime.block_on(answered(&ingress, requests.request(index), &peer));
            requests.units(index, status, body_bytes)
        }
    };
    suite.row(operation, "strata", "ingress", about, &setup, |ours: Arc<Ours>| asked(&ours));
    let about = facts(&format!("answers a request {what}, CPU of its thread")).cpu_clock();
    let setup = || OnThisThread(setup());
    suite.row(operation, "strata", "ingress_cpu", about, setup, |ours: Arc<OnThisThread>| asked(&ours.0));
}

fn ingress(ours: &Ours, runtime: &tokio::runtime::Runtime) -> Arc<Ingress> {
    let pool = runtime.handle().clone();
    let (handlers, ingress) = (handlers::Options::default(), ingress::Options::default());
    Arc::new(Ingress::new(ours.database.clone(), handlers, ingress, pool).expect("streams that open"))
}

/// Reads the response to a request on the connection of a peer; returns its status and the length of its body.
async fn answered(ingress: &Arc<Ingress>, request: Request<Full<Bytes>>, peer: &Peer) -> (StatusCode, usize) {
    let response = ingress.respond(request, peer).await;
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    if status.is_server_error() {
        refused(&format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    (status, black_box(body).len())
}

/// The same without ingress: calls routing, without reading the body of the request.
async fn routed(routes: &Routes, ours: &Ours, request: Request<Full<Bytes>>, body: &[u8]) -> (StatusCode, usize) {
    let (parts, _) = black_box(request).into_parts();
    let route = routes.resolve(&parts.method, &parts.uri, &parts.headers);
    let route = route.expect("a table's path").expect("a good request");
    let response = Call::new(&route, body).respond(&ours.database, &parts.headers).or_refused();
    read_whole(response.map(Full::new)).await
}

/// The same with nothing behind it.
async fn unanswered(request: Request<Full<Bytes>>) -> (StatusCode, usize) {
    drop(black_box(request));
    read_whole(Response::new(Full::new(Bytes::new()))).await
}

async fn read_whole(response: Response<Full<Bytes>>) -> (StatusCode, usize) {
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    (status, black_box(body).len())
}

/// A Strata store used by the calling thread, whose CPU time is the clock.
struct OnThisThread(Ours);

impl State for OnThisThread {
    fn settle(&self) {
        self.0.settle();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }

    fn verify(&self, operations: u64) {
        self.0.verify(operations);
    }

    fn cpu(&self) -> Option<Duration> {
        let spent = clock_gettime(ClockId::ThreadCPUTime);
        Some(Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32))
    }
}

/// Facts of a row over TCP.
fn over_tcp(op: &str, n: u64, indexes: u32) -> Facts {
    Facts::new(op).data(described(n)).state(SST).indexes(indexes).unit(Unit::Records, 1).cpu_clock()
}

/// The stored bytes of records of the data set.
fn stored(table: &Table, indexes: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let stored = indexes.map(|index| {
        let mut bytes = Vec::new();
        prepared::encode(table, &data::product(index, Id::Given), &mut bytes);
        bytes
    });
    stored.collect()
}
