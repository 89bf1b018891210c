//! Resolving a method and a path to a handler, by the number of tables.
//!
//! Strata matches `/Table` and `/Table/id` itself; a route that is found is valid, so the handler need not look again. The peer is axum's
//! router with the same paths, called as the service it is: it takes a request, and a handler that does nothing answers, because it has no
//! other way to report its match. Both find their request prepared: the handler returns it, and only its path is replaced for the next.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use parking_lot::Mutex;
use strata::handlers;
use strata::routing::Routes;
use strata::schema::Schema;
use strata::transaction::Database;
use strata_harness::{Data, Facts, Suite, suite, temporary_directory};
use tempfile::TempDir;
use tower_service::Service;

fn main() {
    suite("routing", |suite| {
        for tables in [1, 10, 100] {
            for (operation, method, rest) in [("get", Method::GET, "/some-id"), ("post", Method::POST, "")] {
                ours(suite, operation, tables, &method, rest);
                axums(suite, operation, tables, &method, rest);
            }
        }
    });
}

/// The headers of the routed request.
fn headers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

fn paths(tables: usize, rest: &str) -> Vec<Uri> {
    (0..tables).map(|number| format!("/T{number}{rest}").parse().expect("a path")).collect()
}

/// Routes and the folder of the database behind them, which is removed afterwards.
type Served = (Routes, TempDir);

fn ours(suite: &mut Suite, operation: &str, tables: usize, method: &Method, rest: &str) {
    let facts = Facts::new(format!("finds the handler of a {method} among {tables} tables")).allocations_at_most(0);
    let setup = || {
        let sdl: String =
            (0..tables).map(|number| format!("type T{number} @table @export {{ id: ID @primaryKey }}")).collect();
        let (schema, folder) = (Schema::parse(&sdl).expect("a schema of one attribute"), temporary_directory());
        let database = Database::open(folder.path(), schema, &strata::storage::Options::default()).expect("a store");
        Data((Routes::new(database, handlers::Options::default()).expect("streams that open"), folder))
    };
    let case = format!("{tables}_tables");
    suite.row(
        operation,
        "strata",
        &case,
        facts.data(format!("{tables} tables")).against(format!("{operation}/axum/{case}")),
        setup,
        |served: Arc<Data<Served>>| {
            let (paths, headers, method) = (paths(tables, rest), headers(), method.clone());
            move |index| {
                let route = served.0.0.resolve(&method, &paths[index as usize % tables], &headers);
                u64::from(black_box(&route).as_ref().is_some_and(Result::is_ok))
            }
        },
    );
}

/// Where a handler leaves its request.
type Slot = Arc<Mutex<Option<Request<Body>>>>;

/// The same paths in axum's router; the handlers of a table check the id of a GET.
fn router(tables: usize, slot: &Slot) -> axum::Router {
    let router = (0..tables).fold(axum::Router::new(), |router, number| {
        let one = |State(slot): State<Slot>, Path(id): Path<String>, request: Request<Body>| async move {
            *slot.lock() = Some(request);
            status(id == "some-id")
        };
        let all = |State(slot): State<Slot>, request: Request<Body>| async move {
            *slot.lock() = Some(request);
            StatusCode::OK
        };
        router.route(&format!("/T{number}"), get(all).post(all)).route(&format!("/T{number}/{{id}}"), get(one))
    });
    router.with_state(Arc::clone(slot))
}

fn axums(suite: &mut Suite, operation: &str, tables: usize, method: &Method, rest: &str) {
    let op = format!(
        "finds the handler of a {method} among {tables} tables with axum's router; the handler answers nothing"
    );
    // Those of the router and of the handler's future; building a request per operation would take more.
    let allocations = if *method == Method::GET { 11 } else { 7 };
    let facts = Facts::new(op).data(format!("{tables} tables")).allocations_at_most(allocations);
    suite.row(
        operation,
        "axum",
        &format!("{tables}_tables"),
        facts,
        || (),
        |_: Arc<()>| {
            let slot = Slot::default();
            let (paths, mut router) = (paths(tables, rest), router(tables, &slot));
            let mut first = Request::new(Body::empty());
            (*first.method_mut(), *first.headers_mut()) = (method.clone(), headers());
            *slot.lock() = Some(first);
            move |index| {
                let mut request = slot.lock().take().expect("the last handler has left it");
                request.extensions_mut().clear();
                *request.uri_mut() = paths[index as usize % tables].clone();
                let response = pin!(router.call(request)).poll(&mut Context::from_waker(Waker::noop()));
                u64::from(
                    matches!(black_box(response), Poll::Ready(Ok(response)) if response.status() == StatusCode::OK),
                )
            }
        },
    );
}

fn status(right: bool) -> StatusCode {
    if right { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}
