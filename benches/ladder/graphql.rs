//! The requests GET and LIST over GraphQL: all attributes of one record by its id, and of 20 records by equality of an attribute.
//!
//! The document has a variable and is cached after the first request, like that of a program. Besides the rung below, `graphql` is compared
//! with the handler of the same request over REST, and `tcp` with that request.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use strata::graphql::{self, Graphql, Transport};
use strata::handlers;
use strata::query::{Limits, Query};
use strata::routing::{Call, Routes};
use strata_harness::data::{self, CATEGORIES, scatter};
use strata_harness::{Depth, Facts, Suite, Unit};

use crate::list::{self, LISTED};
use crate::prepared::{Ours, SST, described, records};
use crate::served::Served;
use crate::{Requests, from_driver_on, over_tcp};

const TRANSPORT: Transport = Transport { safe: false, strict: false };

/// The names around a record or list, and where a list continues, take fewer bytes than a record: a response that lacks one is shorter than
/// over REST.
const ENVELOPE_BYTES: usize = 300;

/// A request of the ladder, asked over GraphQL.
#[derive(Clone, Copy)]
struct Twin {
    operation: &'static str,
    /// The same over REST.
    rest: &'static str,
    what: &'static str,
    products: u64,
    indexes: u32,
    units: u64,
    document: &'static str,
    variable: &'static str,
    /// The value of the variable, and the text of the query, by the number of the record or category.
    value: fn(u64) -> String,
    query: fn(u64) -> String,
    /// The number of these values.
    values: u64,
}

fn get(suite: &Suite) -> Twin {
    let n = records(suite.scale());
    Twin {
        operation: "graphql_get",
        rest: "get",
        what: "for one record over GraphQL",
        products: n,
        indexes: 0,
        units: 1,
        document: "query ($id: ID!) { Product(id: $id) \
                   { id name category price stock inStock rating description } }",
        variable: "id",
        value: data::id,
        query: |number| format!("id=={}&{ALL}", data::id(number)),
        values: n,
    }
}

fn list(suite: &Suite) -> Twin {
    Twin {
        operation: "graphql_list",
        rest: "list",
        what: "for a list of 20 records over GraphQL",
        products: list::products(suite.scale()),
        indexes: 2,
        units: LISTED,
        document: "query ($filter: String!) { ProductList(filter: $filter, limit: 20) \
                   { id name category price stock inStock rating description } }",
        variable: "filter",
        value: |number| format!("category=={}", data::category(number)),
        query: |number| format!("category=={}&limit={LISTED}&{ALL}", data::category(number)),
        values: CATEGORIES,
    }
}

/// The attributes that the documents select.
const ALL: &str = "select=id,name,category,price,stock,inStock,rating,description";

impl Twin {
    fn facts(self, op: &str) -> Facts {
        let facts = Facts::new(op).data(described(self.products)).state(SST).indexes(self.indexes);
        facts.unit(Unit::Records, self.units).depth(Depth::Default)
    }

    fn ours(self) -> Ours {
        Ours::copy(self.indexes, self.products)
    }

    /// The bodies of the requests, and the length of their responses over REST.
    fn asks(self) -> Asks {
        let body = |number| {
            let (document, variable, value) = (self.document, self.variable, (self.value)(number));
            format!("{{\"query\":\"{document}\",\"variables\":{{\"{variable}\":\"{value}\"}}}}").into()
        };
        let rest_bytes = match self.rest {
            "list" => list::response_bytes(),
            _ => vec![900; self.values as usize],
        };
        Asks { bodies: (0..self.values).map(body).collect(), rest_bytes, units: self.units }
    }
}

pub fn rows(suite: &mut Suite) {
    for twin in [get(suite), list(suite)] {
        in_process(suite, twin);
        tcp(suite, twin);
    }
}

fn in_process(suite: &mut Suite, twin: Twin) {
    let Twin { operation, rest, .. } = twin;
    let (facts, ours) = (move |op: &str| twin.facts(op), move || twin.ours());
    let about = facts("plans the same query and copies out the attributes of its records");
    suite.row(operation, "strata", "query", about, ours, move |ours: Arc<Ours>| {
        let limits = Limits::in_url(10_000);
        let parse = |number| {
            let text = (twin.query)(number).leak();
            Query::parse(ours.database.schema(), ours.product(), text, &limits).expect("a good query")
        };
        let queries: Vec<Query<'static>> = (0..twin.values).map(parse).collect();
        let mut answer = Vec::new();
        move |index| {
            let mut found = 0;
            answer.clear();
            let shown =
                queries[scatter(index, twin.values) as usize].show(&ours.database, ours.product(), |_, json| {
                    answer.extend_from_slice(json);
                    found += 1;
                    Ok(())
                });
            shown.expect("a healthy store");
            black_box(&answer);
            found
        }
    });
    let about = facts("parses the body of a request, finds its cached document and answers it");
    let about = about.against(format!("{operation}/strata/query")).against(format!("{rest}/strata/handlers"));
    suite.row(operation, "strata", "graphql", about, ours, move |ours: Arc<Ours>| {
        let (graphql, asks) = (Graphql::new(&ours.database, 10_000), twin.asks());
        move |index| {
            let request = graphql::Request::in_body(asks.body(index)).expect("a request");
            let response = graphql.respond(&ours.database, &request, TRANSPORT).expect("a healthy store");
            asks.units(index, response.status(), black_box(response.body()).len())
        }
    });
    let about = facts("finds the handler of the GraphQL path and answers with it");
    let about = about.against(format!("{operation}/strata/graphql"));
    suite.row(operation, "strata", "routing", about, ours, move |ours: Arc<Ours>| {
        let routes = Routes::new(ours.database.clone(), handlers::Options::default()).expect("streams that open");
        let (path, headers, asks) = (Uri::from_static("/graphql"), json(), twin.asks());
        move |index| {
            let route = routes.resolve(&Method::POST, &path, &headers).expect("its path").expect("a good request");
            let response =
                Call::new(&route, asks.body(index)).respond(&ours.database, &headers).expect("a healthy store");
            asks.units(index, response.status(), black_box(response.body()).len())
        }
    });
    from_driver_on(suite, operation, twin.what, facts, ours, move || twin.asks());
}

/// Prepared requests.
struct Asks {
    bodies: Vec<Bytes>,
    /// The minimum, for one record.
    rest_bytes: Vec<usize>,
    units: u64,
}

impl Asks {
    fn place(&self, index: u64) -> usize {
        scatter(index, self.bodies.len() as u64) as usize
    }
}

impl Requests for Asks {
    fn request(&self, index: u64) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.bodies[self.place(index)].clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static("/graphql");
        *request.headers_mut() = json();
        request
    }

    fn body(&self, index: u64) -> &[u8] {
        &self.bodies[self.place(index)]
    }

    fn units(&self, index: u64, status: StatusCode, body_bytes: usize) -> u64 {
        let rest_bytes = self.rest_bytes[self.place(index)];
        let whole = status == StatusCode::OK && (rest_bytes..rest_bytes + ENVELOPE_BYTES).contains(&body_bytes);
        if whole { self.units } else { 0 }
    }
}

fn json() -> HeaderMap {
    let json = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("localhost")), json])
}

fn tcp(suite: &mut Suite, twin: Twin) {
    let Twin { operation, rest, .. } = twin;
    let about =
        over_tcp(&format!("answers a request {} over HTTP/1.1, server CPU", twin.what), twin.products, twin.indexes);
    let about = about.unit(Unit::Records, twin.units).depth(Depth::Default);
    let about = about.against(format!("{operation}/strata/ingress_cpu")).against(format!("{rest}/strata/tcp"));
    let setup = move || Served::start(twin.ours());
    suite.row(operation, "strata", "tcp", about, setup, move |served: Arc<Served>| {
        let (mut client, asks) = (served.client(), twin.asks());
        let request = |body: &Bytes| {
            let head = "POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length:";
            [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat()
        };
        let requests: Vec<Vec<u8>> = asks.bodies.iter().map(request).collect();
        move |index| {
            let (status, body_bytes) = client.exchange(&requests[asks.place(index)]);
            asks.units(index, StatusCode::from_u16(status).expect("a status"), body_bytes)
        }
    });
}
