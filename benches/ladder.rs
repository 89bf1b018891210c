//! The same two requests at every rung: what each layer adds to the raw path under it.
//!
//! GET of one record by id, and CREATE of one record with two indexes. Rungs: raw (RocksDB called directly), storage, transaction,
//! handlers, routing, ingress, each in process and by time; tcp by the CPU time of the server's threads, because the client shares
//! the process. The floor of tcp is bare hyper with the raw path in its handler.

mod floor;
mod prepared;
mod served;
mod verbs;

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use floor::Raw;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use prepared::{Ours, POOL, SST, bodies, described, options, record_keys, records, soft};
use served::{Bare, Client, Served};
use strata::ingress::Ingress;
use strata::routing::Routes;
use strata::schema::Durability;
use strata::storage::{Batch, Reach, Space};
use strata::{handlers, ingress};
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};

fn main() {
    suite("ladder", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        get(suite);
        get_over_tcp(suite);
        create(suite);
        for (operation, indexes) in [("create", 2), ("create_0_indexes", 0)] {
            create_over_tcp(suite, operation, indexes);
        }
    });
}

fn get(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op: &str| Facts::new(op).data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1);
    let ours = || Ours::copy(0, n);
    let about = facts("gets the stored bytes of one record and copies them out");
    suite.row("get", "floor", "raw", about, || Raw::copy(0, n), |raw| verbs::raw_read(raw, n));
    let about = facts("gets one value by key and copies it out");
    suite.row("get", "strata", "storage", about, ours, |ours: Arc<Ours>| {
        let (keys, mut answer) = (record_keys(1, n), Vec::new());
        move |index| {
            let key = &keys[scatter(index, n) as usize];
            let found = ours.database.store().get(Space::Records, key, Reach::Disk).expect("a healthy store");
            found.map_or(0, |bytes| verbs::copied(&bytes, &mut answer))
        }
    });
    let about = facts("reads one record by id, checks it and copies its JSON out");
    suite.row("get", "strata", "transaction", about, ours, |ours| verbs::read(ours, n));
    suite.row(
        "get",
        "strata",
        "handlers",
        facts("answers GET of one record by its handler"),
        ours,
        |ours: Arc<Ours>| {
            let (ids, headers) = ((0..n).map(data::id).collect::<Vec<_>>(), HeaderMap::new());
            move |index| {
                let id = &ids[scatter(index, n) as usize];
                u64::from(whole(handlers::read(&ours.database, ours.product(), id, &headers)))
            }
        },
    );
    suite.row(
        "get",
        "strata",
        "routing",
        facts("finds the handler of a path and answers by it"),
        ours,
        |ours: Arc<Ours>| {
            let (routes, headers) =
                (Routes::new(ours.database.clone(), handlers::Options::default()), HeaderMap::new());
            let paths = paths(n);
            move |index| {
                let route = routes.resolve(&Method::GET, &paths[scatter(index, n) as usize], &headers);
                let route = route.expect("a table's path").expect("a good request");
                u64::from(whole(route.answer(&ours.database, &headers, b"")))
            }
        },
    );
    suite.row("get", "strata", "ingress", facts("answers a request for one record"), ours, |ours: Arc<Ours>| {
        let (runtime, paths) = (runtime(), paths(n));
        let ingress = ingress(&ours, &runtime);
        move |index| {
            let mut request = Request::new(Full::new(Bytes::new()));
            *request.uri_mut() = paths[scatter(index, n) as usize].clone();
            u64::from(runtime.block_on(answered(&ingress, request)) == StatusCode::OK)
        }
    });
}

fn whole(answer: handlers::Result<handlers::Answer>) -> bool {
    answer.is_ok_and(|answer| answer.status().is_success() && black_box(answer.body()).len() > 900)
}

fn paths(n: u64) -> Vec<Uri> {
    (0..n).map(|index| format!("/Product/{}", data::id(index)).parse().expect("a path")).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn ingress(ours: &Ours, runtime: &tokio::runtime::Runtime) -> Arc<Ingress> {
    let pool = runtime.handle().clone();
    let (handlers, ingress) = (handlers::Options::default(), ingress::Options::default());
    Arc::new(Ingress::new(ours.database.clone(), handlers, ingress, pool))
}

/// The status of an answer whose body has been read.
async fn answered(ingress: &Arc<Ingress>, request: Request<Full<Bytes>>) -> StatusCode {
    let answer = ingress.answer(request, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body in memory").to_bytes();
    if black_box(body).len() > 900 { status } else { StatusCode::NO_CONTENT }
}

/// Facts of a row over TCP.
fn over_tcp(op: &str, n: u64, indexes: u32) -> Facts {
    Facts::new(op).data(described(n)).state(SST).indexes(indexes).unit(Unit::Records, 1).cpu_clock()
}

fn get_over_tcp(suite: &mut Suite) {
    let n = records(suite.scale());
    let client = move |address| {
        let requests: Vec<Vec<u8>> = (0..n)
            .map(|index| format!("GET /Product/{} HTTP/1.1\r\nhost: a\r\n\r\n", data::id(index)).into_bytes())
            .collect();
        let mut client = Client::connect(address);
        move |index| {
            let (status, bytes) = client.exchange(&requests[scatter(index, n) as usize]);
            u64::from(status == 200 && bytes > 900)
        }
    };
    let about = over_tcp("answers GET of one record by id over HTTP/1.1, server CPU", n, 0).floor("floor", 0.90, 0.95);
    let setup = || Served::start(Ours::copy(0, n));
    suite.row("get", "strata", "tcp", about, setup, |served: Arc<Served>| client(served.address()));
    let about = over_tcp("gets the stored bytes in the handler of a bare hyper server, server CPU", n, 0);
    let setup = || {
        Bare::start(Raw::copy(0, n), |raw| {
            move |head: &http::request::Parts, _: &[u8]| {
                let id = head.uri.path().rsplit('/').next().unwrap_or_default();
                let key = [&1u32.to_be_bytes()[..], id.as_bytes()].concat();
                let value = raw.get(&key).map(|value| Bytes::copy_from_slice(&value));
                let mut answer = Response::new(Full::new(value.expect("a record of the data set")));
                answer.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                answer
            }
        })
    };
    suite.row("get", "floor", "tcp", about, setup, |bare: Arc<Bare>| client(bare.address));
}

fn create(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op: &str| {
        let facts = Facts::new(op).data(described(n)).state(SST).durability(soft()).indexes(2).unit(Unit::Records, 1);
        facts.changes_store(2000, None)
    };
    let ours = || Ours::copy(2, n);
    let about = facts("writes three keys in one batch");
    suite.row("create", "floor", "raw", about, || Raw::copy(2, n), |raw| verbs::raw_create(raw, 2));
    suite.row("create", "strata", "storage", facts("writes three keys in one batch"), ours, |ours: Arc<Ours>| {
        let (mut writes, mut batch) = (verbs::writes(&prepared::schema(2).tables[0], verbs::MADE_ID), Batch::default());
        move |index| {
            let write = &mut writes[(index % POOL) as usize];
            let store = ours.database.store();
            batch.clear();
            store.put(&mut batch, Space::Records, write.key.with(index), &write.value);
            for entry in &mut write.entries {
                store.put(&mut batch, Space::Indexes, entry.with(index), b"");
            }
            u64::from(store.write(&batch, Durability::Soft).is_ok())
        }
    });
    let about = facts("creates one record from a JSON body; the id is made");
    suite.row("create", "strata", "transaction", about, ours, verbs::create);
    suite.row(
        "create",
        "strata",
        "handlers",
        facts("answers POST of one record by its handler"),
        ours,
        |ours: Arc<Ours>| {
            let bodies = bodies();
            move |index| {
                u64::from(whole(handlers::create(&ours.database, ours.product(), &bodies[(index % POOL) as usize])))
            }
        },
    );
    let about = facts("finds the handler of a path and answers by it");
    suite.row("create", "strata", "routing", about, ours, |ours: Arc<Ours>| {
        let (routes, headers) = (Routes::new(ours.database.clone(), handlers::Options::default()), json());
        let (bodies, path) = (bodies(), Uri::from_static("/Product"));
        move |index| {
            let route =
                routes.resolve(&Method::POST, &path, &headers).expect("a table's path").expect("a good request");
            u64::from(whole(route.answer(&ours.database, &headers, &bodies[(index % POOL) as usize])))
        }
    });
    suite.row(
        "create",
        "strata",
        "ingress",
        facts("answers a request to create one record"),
        ours,
        |ours: Arc<Ours>| {
            let runtime = runtime();
            let ingress = ingress(&ours, &runtime);
            let bodies: Vec<Bytes> = bodies().into_iter().map(Bytes::from).collect();
            move |index| {
                let mut request = Request::new(Full::new(bodies[(index % POOL) as usize].clone()));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = Uri::from_static("/Product");
                *request.headers_mut() = json();
                u64::from(runtime.block_on(answered(&ingress, request)) == StatusCode::CREATED)
            }
        },
    );
}

fn json() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

fn create_over_tcp(suite: &mut Suite, operation: &str, indexes: u32) {
    let n = records(suite.scale());
    let facts = |op| over_tcp(op, n, indexes).durability(soft()).changes_store(1000, None);
    let client = |address| {
        let requests: Vec<Vec<u8>> = bodies()
            .iter()
            .map(|body| {
                let head = "POST /Product HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length:";
                [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat()
            })
            .collect();
        let mut client = Client::connect(address);
        move |index| {
            let (status, bytes) = client.exchange(&requests[(index % POOL) as usize]);
            u64::from(status == 201 && bytes > 900)
        }
    };
    let about = facts("answers POST of one record over HTTP/1.1, server CPU").floor("floor", 0.75, 0.85);
    let setup = || Served::start(Ours::copy(indexes, n));
    suite.row(operation, "strata", "tcp", about, setup, |served: Arc<Served>| client(served.address()));
    let about = facts("writes the keys of a create in one batch in the handler of a bare hyper server, server CPU");
    let setup = || {
        Bare::start(Raw::copy(indexes, n), move |raw| {
            let mut create = verbs::raw_create_shared(raw, indexes);
            move |_: &http::request::Parts, body: &[u8]| {
                create();
                let mut answer = Response::new(Full::new(Bytes::copy_from_slice(body)));
                *answer.status_mut() = StatusCode::CREATED;
                answer.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                answer
            }
        })
    };
    suite.row(operation, "floor", "tcp", about, setup, |bare: Arc<Bare>| client(bare.address));
}
