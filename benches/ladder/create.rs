//! CREATE of one record with two indexes; the id is made by the server.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use strata::encoding::{Record, key, record};
use strata::routing::{Call, Routes};
use strata::schema::{Durability, Table};
use strata::storage::{Batch, Space};
use strata::{handlers, indexes};
use strata_harness::{Data, Depth, Facts, OrRefused, Suite, Unit};

use crate::floor::{Promise, Raw};
use crate::prepared::{Numbered, Ours, POOL, WRITES, WRITTEN, bodies, described, records, schema, soft};
use crate::served::{Bare, Client, Served};
use crate::verbs::{self, MADE_ID, Writes};
use crate::{Requests, from_driver_on, over_tcp, whole};

fn facts(records: u64, op: &str) -> Facts {
    let facts = Facts::new(op).data(described(records)).state(WRITTEN).durability(soft()).indexes(2);
    facts.unit(Unit::Records, 1).changes_store(WRITES, None).depth(Depth::Default)
}

/// A store in which each operation will leave a record with this many entries.
fn promising(indexes: u32, records: u64) -> Ours {
    let ours = Ours::copy(indexes, records);
    ours.promise(Promise { keys: 1 + u64::from(indexes), ..Promise::CREATE });
    ours
}

pub fn in_process(suite: &mut Suite) {
    below_transaction(suite);
    above_indexes(suite);
}

fn below_transaction(suite: &mut Suite) {
    let n = records(suite.scale());
    let ours = || promising(2, n);
    let about = facts(n, "writes three keys in one batch");
    suite.row("create", "floor", "raw", about, || Raw::copy(2, n), |raw| verbs::raw_create(raw, 2));
    let about = facts(n, "writes three keys in one batch").against("create/floor/raw");
    suite.row("create", "strata", "storage", about, ours, |ours: Arc<Ours>| {
        let (mut writes, mut batch) = (Writes::new(&schema(2).tables[0], MADE_ID), Batch::default());
        move |index| {
            let store = ours.database.store();
            batch.clear();
            writes.put(index, |space, key, value| store.put(&mut batch, space, key, value));
            store.write(&mut batch, Durability::Soft).or_refused();
            1
        }
    });
    let about = facts(n, "makes the entries of one record and writes them with it in one batch");
    let about = about.against("create/strata/storage");
    suite.row("create", "strata", "indexes", about, ours, |ours: Arc<Ours>| {
        let table: &'static Table = Box::leak(Box::new(schema(2).tables.swap_remove(0)));
        let (mut writes, mut id) = (Writes::new(table, MADE_ID), Numbered::new(MADE_ID.as_bytes()));
        let open = |number| Record::open(table, writes.record(number).to_vec()).expect("a record of the data set");
        let records: Vec<_> = (0..POOL).map(open).collect();
        let mut batch = Batch::default();
        move |index| {
            let (place, store) = ((index % POOL) as usize, ours.database.store());
            let id = std::str::from_utf8(id.with(index)).expect("an id is text");
            batch.clear();
            store.put(&mut batch, Space::Records, writes.key(index), records[place].bytes());
            indexes::add(store, &mut batch, id, &records[place]).expect("a record of the data set");
            store.write(&mut batch, Durability::Soft).or_refused();
            1
        }
    });
}

fn above_indexes(suite: &mut Suite) {
    let n = records(suite.scale());
    let ours = || promising(2, n);
    let about = facts(n, "creates one record from a JSON body; the id is made").against("create/strata/indexes");
    suite.row("create", "strata", "transaction", about, ours, verbs::create);
    suite.row(
        "create",
        "strata",
        "handlers",
        facts(n, "answers POST of one record in its handler").against("create/strata/transaction"),
        ours,
        |ours: Arc<Ours>| {
            let (bodies, headers) = (bodies(), json());
            move |index| {
                let body = &bodies[(index % POOL) as usize];
                u64::from(whole(handlers::create(&ours.database, ours.product(), &headers, body)))
            }
        },
    );
    let about = facts(n, "finds the handler of a path and answers with it").against("create/strata/handlers");
    suite.row("create", "strata", "routing", about, ours, |ours: Arc<Ours>| {
        let (routes, headers) =
            (Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open"), json());
        let (bodies, path) = (bodies(), Uri::from_static("/Product"));
        move |index| {
            let route =
                routes.resolve(&Method::POST, &path, &headers).expect("a table's path").expect("a good request");
            let call = Call::new(&route, &bodies[(index % POOL) as usize]);
            u64::from(whole(call.respond(&ours.database, &headers)))
        }
    });
    let creates = || Creates { bodies: bodies().iter().map(|body| Bytes::copy_from_slice(body)).collect() };
    from_driver_on(suite, "create", "to create one record", |op| facts(n, op), ours, creates);
}

struct Creates {
    bodies: Vec<Bytes>,
}

impl Requests for Creates {
    fn request(&self, index: u64) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.bodies[(index % POOL) as usize].clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/Product");
        *request.headers_mut() = json();
        request
    }

    fn body(&self, index: u64) -> &[u8] {
        &self.bodies[(index % POOL) as usize]
    }

    fn units(&self, _: u64, status: StatusCode, body_bytes: usize) -> u64 {
        u64::from(status == StatusCode::CREATED && body_bytes > 900)
    }
}

/// Measures what encoding alone costs the request.
pub fn encoding(suite: &mut Suite) {
    let about = Facts::new("makes the key and the record of one JSON body: this layer alone");
    let about = about.data(described(POOL)).state("in memory").unit(Unit::Records, 1);
    suite.row(
        "create",
        "strata",
        "encoding",
        about,
        || Data(bodies()),
        |bodies: Arc<Data<&[Vec<u8>]>>| {
            let (schema, mut key, mut out) = (schema(2), Vec::new(), Vec::new());
            move |index| {
                let table = &schema.tables[0];
                key::record(table.id, MADE_ID, &mut key);
                black_box(&key);
                let make_id = |id: &mut Vec<u8>| id.extend_from_slice(MADE_ID.as_bytes());
                let record = record::encode_body(table, &bodies[(index % POOL) as usize], make_id, &mut out);
                u64::from(black_box(record).is_some())
            }
        },
    );
}

fn json() -> HeaderMap {
    let json = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("localhost")), json])
}

pub fn tcp(suite: &mut Suite, operation: &str, indexes: u32) {
    let n = records(suite.scale());
    let facts = |op| over_tcp(op, n, indexes).durability(soft()).changes_store(1000, None);
    let client = |mut client: Client| {
        let requests: Vec<Vec<u8>> = bodies()
            .iter()
            .map(|body| {
                let head =
                    "POST /Product HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
                [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat()
            })
            .collect();
        move |index| {
            let (status, bytes) = client.exchange(&requests[(index % POOL) as usize]);
            u64::from(status == 201 && bytes > 900)
        }
    };
    let about = facts("answers POST of one record over HTTP/1.1, server CPU").floor("floor", 0.75, 0.85);
    let about = if indexes == 2 { about.against("create/strata/ingress_cpu").depth(Depth::Default) } else { about };
    let setup = || Served::start(promising(indexes, n));
    suite.row(operation, "strata", "tcp", about, setup, |served: Arc<Served>| client(served.client()));
    if indexes == 2 {
        let about = facts("answers POST of one record over HTTPS, server CPU").against("create/strata/tcp");
        let setup = || Served::start_tls(promising(indexes, n));
        suite.row(operation, "strata", "tls", about, setup, |served: Arc<Served>| client(served.client()));
    }
    let about = facts("writes the keys of a create in one batch in the handler of a bare hyper server, server CPU");
    let setup = || {
        Bare::start(Raw::copy(indexes, n), move |raw| {
            let mut create = verbs::raw_create_shared(raw, indexes);
            move |_: &http::request::Parts, body: &[u8]| {
                create();
                let mut response = Response::new(Full::new(Bytes::copy_from_slice(body)));
                *response.status_mut() = StatusCode::CREATED;
                response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
                response
            }
        })
    };
    suite.row(operation, "floor", "tcp", about, setup, |bare: Arc<Bare>| client(Client::connect(bare.address)));
}
