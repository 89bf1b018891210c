//! GET of one record by id.

use std::hint::black_box;
use std::sync::Arc;

use axum::extract::{Path, State as Shared};
use axum::{Router, routing};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::service::TowerToHyperService;
use strata::encoding::{Record, key};
use strata::handlers::{self, media::Accepted};
use strata::routing::{Call, Routes};
use strata::storage::{ReadTier, Space};
use strata_harness::data::{self, scatter};
use strata_harness::{Data, Depth, Facts, Suite, Unit};

use crate::floor::Raw;
use crate::prepared::{Ours, SST, described, record_keys, records, schema};
use crate::served::{Bare, Client, Served};
use crate::{Requests, from_driver_on, over_tcp, stored, verbs, whole};

type Stored = Data<Vec<Vec<u8>>>;

pub fn in_process(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts =
        |op: &str| Facts::new(op).data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1).depth(Depth::Quick);
    let ours = || Ours::copy(0, n);
    let about = facts("gets the stored bytes of one record and copies them out");
    suite.row("get", "floor", "raw", about, || Raw::copy(0, n), |raw| verbs::raw_read(raw, n));
    let about = facts("gets one value by key and copies it out").against("get/floor/raw");
    suite.row("get", "strata", "storage", about, ours, |ours: Arc<Ours>| {
        let (keys, mut answer) = (record_keys(1, n), Vec::new());
        move |index| {
            let key = &keys[scatter(index, n) as usize];
            let found = ours.database.store().get(Space::Records, key, ReadTier::Disk).expect("a healthy store");
            found.map_or(0, |bytes| verbs::copied(&bytes, &mut answer))
        }
    });
    let about = facts("reads one record by id, checks it and copies its JSON out").against("get/strata/storage");
    suite.row("get", "strata", "transaction", about, ours, |ours| verbs::read(ours, n));
    suite.row(
        "get",
        "strata",
        "handlers",
        facts("answers GET of one record in its handler").against("get/strata/transaction"),
        ours,
        |ours: Arc<Ours>| {
            let (ids, headers) = ((0..n).map(data::id).collect::<Vec<_>>(), HeaderMap::new());
            move |index| {
                let id = &ids[scatter(index, n) as usize];
                u64::from(whole(handlers::read(&ours.database, ours.product(), id, &headers, Accepted::default())))
            }
        },
    );
    suite.row(
        "get",
        "strata",
        "routing",
        facts("finds the handler of a path and answers with it").against("get/strata/handlers"),
        ours,
        |ours: Arc<Ours>| {
            let (routes, headers) = (
                Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open"),
                HeaderMap::new(),
            );
            let paths = paths(n);
            move |index| {
                let route = routes.resolve(&Method::GET, &paths[scatter(index, n) as usize], &headers);
                let route = route.expect("a table's path").expect("a good request");
                u64::from(whole(Call::new(&route, b"").respond(&ours.database, &headers)))
            }
        },
    );
    from_driver_on(suite, "get", "for one record", facts, ours, || Gets { paths: paths(n) });
}

struct Gets {
    paths: Vec<Uri>,
}

impl Requests for Gets {
    fn request(&self, index: u64) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::new()));
        request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("localhost"));
        *request.uri_mut() = self.paths[scatter(index, self.paths.len() as u64) as usize].clone();
        request
    }

    fn units(&self, _: u64, status: StatusCode, body_bytes: usize) -> u64 {
        u64::from(status == StatusCode::OK && body_bytes > 900)
    }
}

/// Measures what encoding alone costs the request.
pub fn encoding(suite: &mut Suite) {
    let n = records(suite.scale());
    let about = Facts::new("makes the key of one record and checks its stored bytes: this layer alone");
    let about = about.data(described(n)).state("in memory").unit(Unit::Records, 1);
    suite.row(
        "get",
        "strata",
        "encoding",
        about,
        || Data(stored(&schema(0).tables[0], 0..n)),
        |stored: Arc<Stored>| {
            let (schema, mut key) = (schema(0), Vec::new());
            let ids: Vec<String> = (0..n).map(data::id).collect();
            move |index| {
                let (table, place) = (&schema.tables[0], scatter(index, n) as usize);
                key::record(table.id, &ids[place], &mut key);
                black_box(&key);
                u64::from(black_box(Record::open(table, &stored[place])).is_ok())
            }
        },
    );
}

fn paths(n: u64) -> Vec<Uri> {
    (0..n).map(|index| format!("/Product/{}", data::id(index)).parse().expect("a path")).collect()
}

pub fn tcp(suite: &mut Suite) {
    let n = records(suite.scale());
    let client = move |mut client: Client| {
        let requests: Vec<Vec<u8>> = (0..n)
            .map(|index| format!("GET /Product/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", data::id(index)).into_bytes())
            .collect();
        move |index| {
            let (status, bytes) = client.exchange(&requests[scatter(index, n) as usize]);
            u64::from(status == 200 && bytes > 900)
        }
    };
    let about = over_tcp("answers GET of one record by id over HTTP/1.1, server CPU", n, 0)
        .floor("floor", 0.90, 0.95)
        .against("get/strata/ingress_cpu")
        .against("get/axum/tcp")
        .depth(Depth::Quick);
    let setup = || Served::start(Ours::copy(0, n));
    suite.row("get", "strata", "tcp", about, setup, |served: Arc<Served>| client(served.client()));
    let about = over_tcp("answers GET of one record by id over HTTPS, server CPU", n, 0).against("get/strata/tcp");
    let setup = || Served::start_tls(Ours::copy(0, n));
    suite.row("get", "strata", "tls", about, setup, |served: Arc<Served>| client(served.client()));
    let about = over_tcp("gets the stored bytes in the handler of a bare hyper server, server CPU", n, 0);
    let setup = || {
        Bare::start(Raw::copy(0, n), |raw| {
            move |head: &http::request::Parts, _: &[u8]| {
                let id = head.uri.path().rsplit('/').next().unwrap_or_default();
                let key = [&1u32.to_be_bytes()[..], id.as_bytes()].concat();
                let value = raw.get(&key).map(|value| Bytes::copy_from_slice(&value));
                let mut response = Response::new(Full::new(value.expect("a record of the data set")));
                response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                response
            }
        })
    };
    suite.row("get", "floor", "tcp", about, setup, |bare: Arc<Bare>| client(Client::connect(bare.address)));
    let about = over_tcp("gets the stored bytes in a handler of axum's router on the same server, server CPU", n, 0);
    let setup = || {
        Bare::serve(Raw::copy(0, n), |raw| {
            let one = |Shared(raw): Shared<Arc<Raw>>, Path(id): Path<String>| async move {
                let key = [&1u32.to_be_bytes()[..], id.as_bytes()].concat();
                let value = raw.get(&key).map(|value| Bytes::copy_from_slice(&value));
                ([("content-type", "application/json")], value.expect("a record of the data set"))
            };
            TowerToHyperService::new(Router::new().route("/Product/{id}", routing::get(one)).with_state(raw))
        })
    };
    suite.row("get", "axum", "tcp", about, setup, |bare: Arc<Bare>| client(Client::connect(bare.address)));
}
