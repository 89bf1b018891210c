//! What each verb means for a resource: from parts of a request to a whole answer, in process.
//!
//! The layer adds headers and a status to what the transaction layer answers, and the conditional request.

mod floor;
mod prepared;
mod verbs;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use prepared::{Ours, POOL, SST, bodies, described, options, records, soft};
use strata::handlers;
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};

fn main() {
    suite("handlers", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        read(suite, "200", HeaderMap::new(), StatusCode::OK);
        let any = HeaderMap::from_iter([(http::header::IF_NONE_MATCH, HeaderValue::from_static("*"))]);
        read(suite, "304", any, StatusCode::NOT_MODIFIED);
        create(suite);
    });
}

fn read(suite: &mut Suite, case: &str, headers: HeaderMap, expected: StatusCode) {
    let n = records(suite.scale());
    let facts = Facts::new(format!("answers GET of one record with {case}"));
    let facts = facts.data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1);
    suite.row(
        "get",
        "strata",
        case,
        facts,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let (ids, headers) = ((0..n).map(data::id).collect::<Vec<_>>(), headers.clone());
            move |index| {
                let id = &ids[scatter(index, n) as usize];
                let answer = handlers::read(&ours.database, ours.product(), id, &headers);
                u64::from(answer.is_ok_and(|answer| answer.status() == expected))
            }
        },
    );
}

fn create(suite: &mut Suite) {
    let n = records(suite.scale());
    for threads in [1, 8] {
        let facts =
            Facts::new("answers POST of one record").data(described(n)).state(SST).durability(soft()).indexes(0);
        let facts = facts.unit(Unit::Records, 1).threads(threads).changes_store(2000, None);
        let case = if threads == 1 { "1_thread" } else { "8_threads" };
        suite.row(
            "post",
            "strata",
            case,
            facts,
            || Ours::copy(0, n),
            |ours: Arc<Ours>| {
                let bodies = bodies();
                move |index| {
                    let answer = handlers::create(&ours.database, ours.product(), &bodies[(index % POOL) as usize]);
                    u64::from(answer.is_ok_and(|answer| answer.status() == StatusCode::CREATED))
                }
            },
        );
    }
}
