//! LIST of 20 records: `GET /Product?category==VALUE&limit=20`, each category in turn.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::handlers::{self, media::Format};
use strata::indexes::{KeyRange, Keys, Matches};
use strata::query::{Limits, Query};
use strata::routing::{Call, Routes};
use strata::schema::{Index, IndexKind, Schema, Table};
use strata::storage::{Pinned, ReadTier, Space};
use strata_harness::data::{self, CATEGORIES};
use strata_harness::{Data, Depth, Facts, OrRefused, Scale, Suite, Unit};

use crate::floor::{self, Raw};
use crate::prepared::{Ours, SST, described, records, schema};
use crate::served::{Bare, Client, Served};
use crate::{Requests, from_driver_on, over_tcp, stored};

pub const LISTED: u64 = 20;

/// Enough products for a full list of every category.
pub fn products(scale: Scale) -> u64 {
    records(scale).max(LISTED * CATEGORIES)
}

/// The queried attribute, with its index.
fn category(table: &Table) -> (usize, &Index) {
    let attribute = table.attribute("category").expect("an attribute of the data set");
    (attribute, table.index(attribute, IndexKind::Hash).expect("an index of the data set"))
}

fn values() -> Vec<Value<'static>> {
    (0..CATEGORIES).map(|index| Value::Text(data::category(index).into())).collect()
}

fn queries() -> impl Iterator<Item = String> {
    (0..CATEGORIES).map(|index| format!("category=={}&limit={LISTED}", data::category(index)))
}

/// The parsed queries; their texts live as long as the process.
fn parsed(schema: &Schema, table: &Table) -> Vec<Query<'static>> {
    let parse = |text: String| Query::parse(schema, table, text.leak(), &Limits::in_url(10_000)).expect("a good query");
    queries().map(parse).collect()
}

fn paths() -> Vec<Uri> {
    queries().map(|query| format!("/Product?{query}").parse().expect("a path")).collect()
}

/// The stored bytes of the records of each list: one of every hundred neighbours, in the order of their ids.
fn lists(schema: &Schema) -> Vec<Vec<Vec<u8>>> {
    let of = |category: &String| {
        let products = (0..LISTED * CATEGORIES).filter(|index| data::category(*index) == *category);
        stored(&schema.tables[0], products)
    };
    (0..CATEGORIES).map(data::category).collect::<Vec<_>>().iter().map(of).collect()
}

/// The required length of each response: a list that lacks a record is shorter.
pub fn response_bytes() -> Vec<usize> {
    let schema = schema(2);
    let json_bytes = |bytes: &Vec<u8>| Record::open(&schema.tables[0], bytes).expect("encoded just now").json().len();
    let commas_and_brackets = LISTED as usize + 1;
    lists(&schema).iter().map(|list| list.iter().map(json_bytes).sum::<usize>() + commas_and_brackets).collect()
}

/// The range of the index in which the entries of a value lie.
fn range(index: &Index, value: &Value<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut prefix, mut end) = (Vec::new(), Vec::new());
    key::hash_prefix(index.id, value, &mut prefix);
    key::successor(&prefix, &mut end);
    (prefix, end)
}

fn ranges(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    values().iter().map(|value| range(category(table).1, value)).collect()
}

/// Copies values out; returns their number.
fn copied_out(found: &[Option<Pinned<'_>>], answer: &mut Vec<u8>) -> u64 {
    answer.clear();
    found.iter().flatten().for_each(|bytes| answer.extend_from_slice(bytes));
    black_box(answer);
    found.iter().flatten().count() as u64
}

/// The records of a response of the required length; none of any other.
fn listed(response: handlers::Result<handlers::Response>, bytes: usize) -> u64 {
    let all =
        response.is_ok_and(|response| response.status() == StatusCode::OK && black_box(response.body()).len() == bytes);
    if all { LISTED } else { 0 }
}

pub fn in_process(suite: &mut Suite) {
    let n = products(suite.scale());
    let facts = |op: &str| {
        Facts::new(op).data(described(n)).state(SST).indexes(2).unit(Unit::Records, LISTED).depth(Depth::Default)
    };
    let ours = || Ours::copy(2, n);
    below_query(suite, n, facts);
    let about = facts("plans a query for 20 records that have a value, checks them and copies their JSON out");
    let about = about.against("list/strata/indexes");
    suite.row("list", "strata", "query", about, ours, |ours: Arc<Ours>| {
        let (queries, mut answer) = (parsed(ours.database.schema(), ours.product()), Vec::new());
        move |turn| {
            let mut found = 0;
            answer.clear();
            let visit = |record: Record<'_, &[u8]>| {
                answer.extend_from_slice(record.json());
                found += 1;
                Ok(())
            };
            let query = &queries[(turn % CATEGORIES) as usize];
            query.run(&ours.database, ours.product(), visit).expect("a healthy store");
            black_box(&answer);
            found
        }
    });
    let about = facts("answers GET of a list of 20 records in its handler").against("list/strata/query");
    suite.row("list", "strata", "handlers", about, ours, |ours: Arc<Ours>| {
        let (queries, bytes) = (parsed(ours.database.schema(), ours.product()), response_bytes());
        move |turn| {
            let place = (turn % CATEGORIES) as usize;
            listed(handlers::list(&ours.database, ours.product(), &queries[place], Format::Json), bytes[place])
        }
    });
    let about = facts("parses the query, finds the handler of its path and answers with it");
    let about = about.against("list/strata/handlers");
    suite.row("list", "strata", "routing", about, ours, |ours: Arc<Ours>| {
        let routes = Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open");
        let (paths, bytes, headers) = (paths(), response_bytes(), HeaderMap::new());
        move |turn| {
            let place = (turn % CATEGORIES) as usize;
            let route = routes.resolve(&Method::GET, &paths[place], &headers);
            let route = route.expect("a table's path").expect("a good request");
            listed(Call::new(&route, b"").respond(&ours.database, &headers), bytes[place])
        }
    });
    let lists = || Lists { paths: paths(), body_bytes: response_bytes() };
    from_driver_on(suite, "list", "for a list of 20 records", facts, ours, lists);
}

struct Lists {
    paths: Vec<Uri>,
    body_bytes: Vec<usize>,
}

impl Requests for Lists {
    fn request(&self, turn: u64) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::new()));
        request.headers_mut().insert(http::header::HOST, HeaderValue::from_static("localhost"));
        *request.uri_mut() = self.paths[(turn % CATEGORIES) as usize].clone();
        request
    }

    fn units(&self, turn: u64, status: StatusCode, body_bytes: usize) -> u64 {
        let whole = (status, body_bytes) == (StatusCode::OK, self.body_bytes[(turn % CATEGORIES) as usize]);
        if whole { LISTED } else { 0 }
    }
}

/// The rungs below the query layer, which return stored bytes.
fn below_query(suite: &mut Suite, n: u64, facts: impl Fn(&str) -> Facts) {
    let ours = || Ours::copy(2, n);
    let about = facts("seeks a value in the index, gets its 20 records in one call and copies them out");
    suite.row(
        "list",
        "floor",
        "raw",
        about,
        || Raw::copy(2, n),
        |raw: Arc<Raw>| {
            let (schema, mut keys, mut answer) = (schema(2), floor::Keys::default(), Vec::new());
            let (table, ranges) = (schema.tables[0].id, ranges(&schema.tables[0]));
            move |turn| {
                let (prefix, end) = &ranges[(turn % CATEGORIES) as usize];
                raw.matches(prefix, end, table, LISTED as usize, &mut keys);
                answer.clear();
                raw.multi_get(&keys.slices(), &mut answer);
                black_box(&answer);
                keys.len() as u64
            }
        },
    );
    // As many as the engine's own call takes: keys are built in a reused buffer.
    let about = facts("scans the entries of a value, gets their 20 records in one call and copies them out");
    let about = about.against("list/floor/raw");
    let about = about.allocations_at_most(7);
    suite.row("list", "strata", "storage", about, ours, |ours: Arc<Ours>| {
        let (mut keys, mut answer) = (floor::Keys::default(), Vec::new());
        let (table, ranges) = (ours.product().id, ranges(ours.product()));
        move |turn| {
            let (store, (prefix, end)) = (ours.database.store(), &ranges[(turn % CATEGORIES) as usize]);
            let snapshot = store.snapshot(ReadTier::Disk).or_refused();
            let mut entries = store.scan(Space::Indexes, prefix, end, &snapshot, ReadTier::Disk);
            keys.clear();
            while keys.len() < LISTED as usize
                && let Some((entry, _)) = entries.next().expect("a healthy store")
            {
                keys.push(table, &entry[prefix.len()..]);
            }
            let found = store.multi_get(Space::Records, &keys.slices(), &snapshot, ReadTier::Disk);
            copied_out(&found.expect("a healthy store"), &mut answer)
        }
    });
    let about = facts("finds the keys of 20 records by an index, gets them in one call and copies them out");
    let about = about.against("list/strata/storage");
    suite.row("list", "strata", "indexes", about, ours, |ours: Arc<Ours>| {
        let (values, mut keys, mut answer) = (values(), Keys::default(), Vec::new());
        move |turn| {
            let (store, value) = (ours.database.store(), &values[(turn % CATEGORIES) as usize]);
            let snapshot = store.snapshot(ReadTier::Disk).or_refused();
            let (_, index) = category(ours.product());
            let range = KeyRange::of_value(index, value);
            let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk);
            let mut matches = Matches::of(scan, ours.product(), index, &range);
            keys.clear();
            while keys.len() < LISTED as usize && matches.append(&mut keys).expect("a healthy store") {}
            let found = store.multi_get(Space::Records, &keys.slices(), &snapshot, ReadTier::Disk);
            let found = found.expect("a healthy store");
            copied_out(&found, &mut answer)
        }
    });
}

/// Measures what encoding alone costs the request.
pub fn encoding(suite: &mut Suite) {
    let op = "checks 20 stored records and reads the queried attribute: this layer alone";
    let about = Facts::new(op).data(described(LISTED * CATEGORIES)).state("in memory").unit(Unit::Records, LISTED);
    let setup = || Data(lists(&schema(2)));
    suite.row("list", "strata", "encoding", about, setup, |lists: Arc<Data<Vec<Vec<Vec<u8>>>>>| {
        let (schema, values) = (schema(2), values());
        let (attribute, _) = category(&schema.tables[0]);
        move |turn| {
            let place = (turn % CATEGORIES) as usize;
            let has_value = |bytes: &&Vec<u8>| {
                let record = Record::open(&schema.tables[0], bytes).expect("encoded at set-up");
                record.value(attribute).is_ok_and(|value| value == values[place])
            };
            lists[place].iter().filter(has_value).count() as u64
        }
    });
}

pub fn tcp(suite: &mut Suite) {
    let n = products(suite.scale());
    let facts = |op| over_tcp(op, n, 2).unit(Unit::Records, LISTED);
    let client = |mut client: Client, bytes: Vec<usize>| {
        let request = |query| format!("GET /Product?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
        let requests: Vec<Vec<u8>> = queries().map(request).collect();
        move |turn| {
            let place = (turn % CATEGORIES) as usize;
            if client.exchange(&requests[place]) == (200, bytes[place]) { LISTED } else { 0 }
        }
    };
    let about = facts("answers GET of a list of 20 records over HTTP/1.1, server CPU")
        .floor("floor", 0.85, 0.92)
        .against("list/strata/ingress_cpu")
        .depth(Depth::Default);
    let setup = || Served::start(Ours::copy(2, n));
    suite.row("list", "strata", "tcp", about, setup, |served: Arc<Served>| client(served.client(), response_bytes()));
    let about = facts("answers GET of a list of 20 records over HTTPS, server CPU").against("list/strata/tcp");
    let setup = || Served::start_tls(Ours::copy(2, n));
    suite.row("list", "strata", "tls", about, setup, |served: Arc<Served>| client(served.client(), response_bytes()));
    let about = facts("seeks the value and gets the 20 records in the handler of a bare hyper server, server CPU");
    let setup = || Bare::start(Raw::copy(2, n), bare_handler);
    suite.row("list", "floor", "tcp", about, setup, |bare: Arc<Bare>| {
        let stored_bytes = |list: &Vec<Vec<u8>>| list.iter().map(Vec::len).sum();
        client(Client::connect(bare.address), lists(&schema(2)).iter().map(stored_bytes).collect())
    });
}

/// Answers with the stored bytes of the records, one after the other.
fn bare_handler(raw: Arc<Raw>) -> impl FnMut(&http::request::Parts, &[u8]) -> Response<Full<Bytes>> + Clone {
    let schema = schema(2);
    let (table, (_, index)) = (schema.tables[0].id, category(&schema.tables[0]));
    let (index, mut keys) = (index.clone(), floor::Keys::default());
    move |head: &http::request::Parts, _: &[u8]| {
        let value = head.uri.query().and_then(|query| query.strip_prefix("category==")?.split('&').next());
        let (prefix, end) = range(&index, &Value::Text(value.expect("a query of this row").into()));
        raw.matches(&prefix, &end, table, LISTED as usize, &mut keys);
        let mut body = Vec::new();
        raw.multi_get(&keys.slices(), &mut body);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
        response
    }
}
