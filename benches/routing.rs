//! Which handler a method and a path mean, by the number of tables.
//!
//! Own matching of `/Table` and `/Table/id`; a route that is found is valid, so the handler need not look again.

use std::hint::black_box;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Uri};
use strata::handlers;
use strata::routing::Routes;
use strata::schema::Schema;
use strata::transaction::Database;
use strata_harness::{Data, Facts, Suite, suite, temporary_directory};
use tempfile::TempDir;

fn main() {
    suite("routing", |suite| {
        for tables in [1, 10, 100] {
            route(suite, "get", tables, &Method::GET, "/some-id");
            route(suite, "post", tables, &Method::POST, "");
        }
    });
}

/// Routes and the folder of the database behind them, which is removed after it.
type Served = (Routes, TempDir);

fn route(suite: &mut Suite, operation: &str, tables: usize, method: &Method, rest: &str) {
    let facts = Facts::new(format!("finds the handler of a {method} among {tables} tables")).allocations_at_most(0);
    let setup = || {
        let sdl: String =
            (0..tables).map(|number| format!("type T{number} @table @export {{ id: ID @primaryKey }}")).collect();
        let (schema, folder) = (Schema::parse(&sdl).expect("a schema of one attribute"), temporary_directory());
        let database = Database::open(folder.path(), schema, &strata::storage::Options::default()).expect("a store");
        Data((Routes::new(database, handlers::Options::default()), folder))
    };
    let case = format!("{tables}_tables");
    suite.row(
        operation,
        "strata",
        &case,
        facts.data(format!("{tables} tables")),
        setup,
        |served: Arc<Data<Served>>| {
            let paths: Vec<Uri> =
                (0..tables).map(|number| format!("/T{number}{rest}").parse().expect("a path")).collect();
            let headers =
                HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
            let method = method.clone();
            move |index| {
                let route = served.0.0.resolve(&method, &paths[index as usize % tables], &headers);
                u64::from(black_box(&route).as_ref().is_some_and(Result::is_ok))
            }
        },
    );
}
