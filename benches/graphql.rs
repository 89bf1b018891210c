//! GraphQL against the REST twin of each request, in process: from the request body to the answer.
//!
//! The document has variables and is cached after the first request, like those of a program; `first` sends a new one, which is parsed,
//! validated and compiled. The floor is the REST handler that returns the same attributes of the same records, from the text of its query;
//! in a list with a join, also those of a related record.

mod floor;
mod prepared;
mod verbs;

use std::sync::Arc;

use http::HeaderMap;
use prepared::joined::{self, NESTED};
use prepared::{Ours, SST, described, options, records};
use strata::graphql::{Graphql, Request, Transport};
use strata::handlers::{
    self,
    media::{Accepted, Format},
};
use strata::query::{Limits, Query};
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};

/// The number of records in a list.
const LISTED: u64 = 100;

const TRANSPORT: Transport = Transport { safe: false, strict: false };

fn main() {
    suite("graphql", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        by_id(suite);
        list(suite);
        joined_list(suite);
        first(suite);
    });
}

fn facts(op: &str, n: u64) -> Facts {
    Facts::new(op).data(described(n)).state(SST).indexes(0).unit(Unit::Records, 1)
}

/// A request body as a client sends it: a document and its variables.
fn body(document: &str, variables: &str) -> String {
    format!("{{\"query\":{},\"variables\":{variables}}}", serde_json::Value::from(document))
}

fn by_id(suite: &mut Suite) {
    let n = records(suite.scale());
    let about = facts("answers a query for three attributes of one record by its id", n).floor("floor", 0.75, 0.85);
    suite.row(
        "by_id",
        "strata",
        "3_attributes",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let document = "query ($id: ID!) { Product(id: $id) { id name price } }";
            let bodies = (0..n).map(|index| body(document, &format!("{{\"id\":\"{}\"}}", data::id(index))));
            let (bodies, graphql) = (bodies.collect::<Vec<_>>(), Graphql::new(&ours.database, 10_000));
            move |index| {
                let body = &bodies[scatter(index, n) as usize];
                let request = Request::in_body(body.as_bytes()).expect("a request");
                let response = graphql.respond(&ours.database, &request, TRANSPORT).expect("a healthy store");
                u64::from(response.body().starts_with(b"{\"data\":{\"Product\":{\"id\""))
            }
        },
    );
    let about = facts("answers GET of three attributes of one record", n);
    suite.row(
        "by_id",
        "floor",
        "3_attributes",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let (ids, headers): (Vec<_>, _) = ((0..n).map(data::id).collect(), HeaderMap::new());
            move |index| {
                let (table, limits) = (ours.product(), Limits::in_url(10_000));
                let query =
                    Query::parse(ours.database.schema(), table, "select=id,name,price", &limits).expect("a query");
                let id = &ids[scatter(index, n) as usize];
                u64::from(
                    handlers::read_selected(&ours.database, table, id, &query, &headers, Accepted::default()).is_ok(),
                )
            }
        },
    );
}

fn list(suite: &mut Suite) {
    let n = records(suite.scale());
    let about = || facts("", n).unit(Unit::Records, LISTED);
    let of_strata = Facts { op: "answers a list of three attributes of a hundred records".to_owned(), ..about() };
    suite.row(
        "list",
        "strata",
        "100_records",
        of_strata.floor("floor", 0.70, 0.85),
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let document =
                "query ($offset: Int!) { ProductList(sort: \"id\", limit: 100, offset: $offset) { id name price } }";
            let graphql = Graphql::new(&ours.database, 10_000);
            let body = body(document, "{\"offset\":0}");
            move |_| {
                let request = Request::in_body(body.as_bytes()).expect("a request");
                let response = graphql.respond(&ours.database, &request, TRANSPORT).expect("a healthy store");
                response.body().split(|byte| *byte == b'{').count() as u64 - 5
            }
        },
    );
    let of_floor = Facts { op: "answers GET of a list of three attributes of a hundred records".to_owned(), ..about() };
    suite.row(
        "list",
        "floor",
        "100_records",
        of_floor,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            move |_| {
                let (table, limits) = (ours.product(), Limits::in_url(10_000));
                let text = "sort=id&limit=100&offset=0&select=id,name,price";
                let query = Query::parse(ours.database.schema(), table, text, &limits).expect("a query");
                let response = handlers::list(&ours.database, table, &query, Format::Json).expect("a healthy store");
                response.body().split(|byte| *byte == b'{').count() as u64 - 1
            }
        },
    );
}

/// A list with two attributes of the related record of each.
fn joined_list(suite: &mut Suite) {
    let n = records(suite.scale());
    let case = format!("{LISTED}_records_joined");
    let about = |op: &str| facts(op, n).indexes(1).unit(Unit::Records, LISTED);
    let of_strata = about("answers a list of a hundred records, with two attributes each and two of a related record");
    suite.row(
        "list",
        "strata",
        &case,
        of_strata.floor("floor", 0.70, 0.85),
        || joined::ours(n),
        move |ours: Arc<Ours>| {
            let document = "query ($filter: String!) { \
                ProductList(filter: $filter, sort: \"id\", limit: 100) { id name shelf { id title } } }";
            let list = |(first, json): (u64, String)| {
                let body = body(document, &format!("{{\"filter\":\"id=ge={}\"}}", data::id(first)));
                (body, format!("{{\"data\":{{\"ProductList\":{json}}},\"extensions\":"))
            };
            let lists: Vec<_> = NESTED.lists(n).into_iter().map(list).collect();
            let graphql = Graphql::new(&ours.database, 10_000);
            move |index| {
                let (body, json) = &lists[index as usize % lists.len()];
                let request = Request::in_body(body.as_bytes()).expect("a request");
                let response = graphql.respond(&ours.database, &request, TRANSPORT).expect("a healthy store");
                if response.body().starts_with(json.as_bytes()) { LISTED } else { 0 }
            }
        },
    );
    let of_floor = about("answers GET of a list of a hundred records, with the same attributes");
    suite.row(
        "list",
        "floor",
        &case,
        of_floor,
        || joined::ours(n),
        move |ours: Arc<Ours>| {
            let list = |(first, json): (u64, String)| (NESTED.query(first), json);
            let (lists, limits): (Vec<_>, _) =
                (NESTED.lists(n).into_iter().map(list).collect(), Limits::in_url(10_000));
            move |index| {
                let (text, json) = &lists[index as usize % lists.len()];
                let query = Query::parse(ours.database.schema(), ours.product(), text, &limits).expect("a query");
                let response = handlers::list(&ours.database, ours.product(), &query, Format::Json);
                let response = response.expect("a healthy store");
                if response.body() == json.as_bytes() { LISTED } else { 0 }
            }
        },
    );
}

fn first(suite: &mut Suite) {
    let n = records(suite.scale());
    let about = facts("parses, validates and compiles a new document, and answers it for one id", n);
    suite.row(
        "first",
        "strata",
        "3_attributes",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let graphql = Graphql::new(&ours.database, 10_000);
            move |index| {
                let query =
                    format!("{{ n{index}: Product(id: \"{}\") {{ id name price }} }}", data::id(scatter(index, n)));
                let request = Request { query, operation_name: None, variables: None };
                let response = graphql.respond(&ours.database, &request, TRANSPORT).expect("a healthy store");
                u64::from(response.body().starts_with(b"{\"data\":{\""))
            }
        },
    );
}
