//! What each verb does to a resource, in process: from the parts of a request to a complete answer.
//!
//! The layer adds headers, a status and conditional requests to the transaction layer. The thousand POSTs are one operation, as published;
//! their unit is the record, so they compare with a single one. The parts of the mix have their own rows: `mixed_get` does its GETs with
//! half of its POSTs done, `mixed_post` its POSTs, and each does nothing in the operations of the other.

mod floor;
mod prepared;
mod verbs;

use std::sync::Arc;

use floor::Promise;
use http::header::{ACCEPT, ACCEPT_ENCODING, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use prepared::joined::{self, LISTED, NESTED, Shown as Listed, TWO_ATTRIBUTES};
use prepared::{MIXED, Ours, POOL, SST, WRITES, WRITTEN, bodies, described, options, records, soft};
use strata::handlers::{
    self,
    batch::{self, Target},
    coding::coded,
    media::{Accepted, Format, ResponseKind},
};
use strata::streams::Streams;
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, OrRefused, Suite, Unit, suite};

fn main() {
    suite("handlers", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        get(suite, "200", 1, HeaderMap::new(), StatusCode::OK);
        get(suite, "200_8_threads", 8, HeaderMap::new(), StatusCode::OK);
        let any = HeaderMap::from_iter([(http::header::IF_NONE_MATCH, HeaderValue::from_static("*"))]);
        get(suite, "304", 1, any, StatusCode::NOT_MODIFIED);
        get_converted(suite, "cbor", (ACCEPT, "application/cbor"));
        get_converted(suite, "gzip", (ACCEPT_ENCODING, "gzip"));
        for threads in [1, 8] {
            posts(suite, threads);
        }
        thousand_posts(suite);
        batch(suite);
        for shown in [TWO_ATTRIBUTES, NESTED] {
            list(suite, shown);
        }
        for threads in [1, 8] {
            mixed(suite, threads);
        }
    });
}

/// Answers GET of one record.
fn read(ours: Arc<Ours>, n: u64, headers: HeaderMap, expected: StatusCode) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<_> = (0..n).map(data::id).collect();
    move |index| {
        let id = &ids[scatter(index, n) as usize];
        let response = handlers::read(&ours.database, ours.product(), id, &headers, Accepted::default());
        u64::from(response.is_ok_and(|response| response.status() == expected))
    }
}

/// Answers POST of one record.
fn create(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let (bodies, headers) = (bodies(), HeaderMap::new());
    ours.promise(Promise::CREATE);
    move |index| {
        let response = handlers::create(&ours.database, ours.product(), &headers, &bodies[(index % POOL) as usize]);
        u64::from(response.or_refused().status() == StatusCode::CREATED)
    }
}

fn case(threads: usize) -> String {
    format!("{threads}_thread{}", if threads == 1 { "" } else { "s" })
}

fn get(suite: &mut Suite, case: &str, threads: usize, headers: HeaderMap, expected: StatusCode) {
    let n = records(suite.scale());
    let facts = Facts::new(format!("answers GET of one record with {}", expected.as_u16())).threads(threads);
    let facts = facts.data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1);
    suite.row("get", "strata", case, facts, || Ours::copy(0, n), |ours| read(ours, n, headers.clone(), expected));
}

/// The same in another media type or content coding, with negotiation by the headers.
fn get_converted(suite: &mut Suite, case: &str, (name, value): (HeaderName, &'static str)) {
    let n = records(suite.scale());
    let facts = Facts::new(format!("answers GET of one record in {case}"));
    let facts = facts.data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1).against("get/strata/200");
    let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
    suite.row(
        "get",
        "strata",
        case,
        facts,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let (ids, headers): (Vec<_>, _) = ((0..n).map(data::id).collect(), headers.clone());
            move |index| {
                let id = &ids[scatter(index, n) as usize];
                let accepted = Accepted::negotiate(&headers, ResponseKind::One).expect("a type that there is");
                let response = handlers::read(&ours.database, ours.product(), id, &headers, accepted);
                let response = response.map(|response| match accepted.coded.of_bytes(response.body().len()) {
                    Some(coding) => coded(response, coding),
                    None => response,
                });
                u64::from(response.is_ok_and(|response| response.headers().contains_key(VARY)))
            }
        },
    );
}

/// A hundred records by id, with two attributes each, and with those of a related record.
fn list(suite: &mut Suite, shown: Listed) {
    let n = records(suite.scale());
    let facts = Facts::new(format!("answers GET of a list of {LISTED} records{}", shown.select.replace('&', ", ")));
    let facts = facts.data(described(n)).state(SST).indexes(1).unit(Unit::Records, LISTED);
    let plain = TWO_ATTRIBUTES.case;
    let facts = if shown.case == plain { facts } else { facts.against(format!("list/strata/{plain}")) };
    suite.row(
        "list",
        "strata",
        shown.case,
        facts,
        || joined::ours(n),
        |ours: Arc<Ours>| {
            let list = |(first, json)| (joined::parsed(&ours, shown.query(first)), json);
            let lists: Vec<_> = shown.lists(n).into_iter().map(list).collect();
            move |index| {
                let (query, json) = &lists[index as usize % lists.len()];
                let response = handlers::list(&ours.database, ours.product(), query, Format::Json);
                if response.is_ok_and(|response| response.body() == json.as_bytes()) { LISTED } else { 0 }
            }
        },
    );
}

/// Ten creates in one transaction.
fn batch(suite: &mut Suite) {
    const OPERATIONS: usize = 10;
    let n = records(suite.scale());
    let facts = writing("answers a batch of ten POSTs of one record each", n);
    let facts = facts.unit(Unit::Records, OPERATIONS as u64).changes_store(WRITES / OPERATIONS as u64, None);
    suite.row(
        "batch",
        "strata",
        "10_posts",
        facts.against("post/strata/1_thread"),
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            ours.promise(Promise { records: |operations| operations * OPERATIONS as u64, ..Promise::CREATE });
            let post = |body: &Vec<u8>| [br#"{"method":"POST","path":"/Product","body":"#, &body[..], b"}"].concat();
            let posts: Vec<_> = bodies().iter().map(post).collect();
            let batches = posts
                .chunks_exact(OPERATIONS)
                .map(|ten| [b"{\"operations\":[", &ten.join(&b","[..])[..], b"]}"].concat());
            let (batches, headers): (Vec<_>, _) = (batches.collect(), HeaderMap::new());
            let streams = Streams::open(&ours.database).expect("a healthy store");
            move |index| {
                let body = &batches[index as usize % batches.len()];
                let target = |_: &str| Ok(Target::Table(ours.product(), None));
                let response = batch::batch(&streams, &ours.database, &headers, body, Format::Json, OPERATIONS, target);
                u64::from(response.is_ok_and(|response| response.status() == StatusCode::OK)) * OPERATIONS as u64
            }
        },
    );
}

fn writing(op: &str, n: u64) -> Facts {
    let facts = Facts::new(op).data(described(n)).state(WRITTEN).durability(soft()).indexes(0);
    facts.unit(Unit::Records, 1).changes_store(WRITES, None)
}

fn posts(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts = writing("answers POST of one record", n).threads(threads);
    suite.row("post", "strata", &case(threads), facts, || Ours::copy(0, n), create);
}

fn thousand_posts(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = writing("answers a thousand POSTs of one record each", n)
        .unit(Unit::Records, 1000)
        .changes_store(WRITES / 1000, None);
    suite.row(
        "post",
        "strata",
        "1000_posts",
        facts,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            ours.promise(Promise { records: |operations| operations * 1000, ..Promise::CREATE });
            let mut create = create(ours);
            move |index| (0..1000).map(|number| create(index * 1000 + number)).sum()
        },
    );
}

/// A mix, and each of its parts alone under the same conditions, so that the mix can be compared with their sum.
fn mixed(suite: &mut Suite, threads: usize) {
    let n = records(suite.scale());
    let facts = writing("answers GET of one record in 7 of 10 operations, POST of one in 3", n).threads(threads);
    // As many creates per sample as POST.
    let facts = facts.changes_store(MIXED, None);
    suite.row(
        "mixed",
        "strata",
        &case(threads),
        facts,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            ours.promise(verbs::MIX);
            verbs::mix(read(Arc::clone(&ours), n, HeaderMap::new(), StatusCode::OK), create(ours))
        },
    );
    let part = |facts: Facts| {
        let mix = format!("mixed/strata/{}", case(threads));
        facts.threads(threads).unit(Unit::Operations, 1).against(mix)
    };
    let op = "answers GET of one record in 7 of 10 operations of a mix with half of its POSTs done; does nothing in 3";
    let facts = part(Facts::new(op).data(described(n)).state(WRITTEN).indexes(0));
    let get = |ours| verbs::mix(read(ours, n, HeaderMap::new(), StatusCode::OK), verbs::nothing);
    suite.row("mixed_get", "strata", &case(threads), facts, || Ours::in_a_mix(0, n), get);
    let op = "answers POST of one record in 3 of 10 operations of a mix; does nothing in 7";
    let facts = part(writing(op, n).changes_store(MIXED, None));
    let post = |ours: Arc<Ours>| {
        ours.promise(verbs::MIX);
        verbs::mix(verbs::nothing, create(ours))
    };
    suite.row("mixed_post", "strata", &case(threads), facts, || Ours::copy(0, n), post);
}
