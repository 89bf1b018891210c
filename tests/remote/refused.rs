//! What a remote store does not have, and how that is answered: `refused.txt`.

use std::fmt::Write as _;

use strata::config::Config;
use strata::schema::Schema;
use strata::server::Server;
use strata::storage::Simulation;
use strata::transaction::Database;

use crate::http::client::ask;

const GOLDEN: &str = "tests/remote/refused.txt";

#[test]
fn what_needs_the_embedded_engine_is_refused() {
    let mut said = String::new();
    for sdl in [
        "type Click @stream",
        "type Device @table(expiration: 60) @multicast { id: ID @primaryKey }",
        "type Device @table(expiration: 60, registry: \"redis\") { id: ID @primaryKey }",
    ] {
        let outcome =
            Schema::parse(sdl).and_then(|schema| Database::open_simulated(&Simulation::new(0), schema, "one"));
        let why = outcome.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        writeln!(said, "{sdl}\n  {why}").expect("memory takes it");
    }
    let sdl = "type T @table(expiration: 60) @export { id: ID @primaryKey  n: Int }";
    let schema = Schema::parse(sdl).expect("valid");
    let database = Database::open_simulated(&Simulation::new(0), schema, "one").expect("it opens");
    let config = Config { listen: "127.0.0.1:0".parse().expect("an address"), ..Config::default() };
    let server = Server::over(database.clone(), &config).expect("it starts");
    assert_eq!(ask(server.url(), "PUT", "/T/a", r#"{"n": 1}"#).status, 201);
    for (method, path) in [
        ("GET", "/T?stream=sse"),
        ("GET", "/T/a?stream=sse"),
        ("GET", "/T/a?stream=sse&hold=true"),
        ("POST", "/_checkpoint"),
        ("POST", "/_checkpoint?name=a"),
    ] {
        let response = ask(server.url(), method, path, "");
        let body: serde_json::Value = serde_json::from_str(&response.body).unwrap_or_default();
        let (kind, detail) = (body["type"].as_str().unwrap_or("-"), body["detail"].as_str().unwrap_or("-"));
        writeln!(said, "{method} {path}\n  {} {kind}: {detail}", response.status).expect("memory takes it");
    }
    for (what, outcome) in [
        ("compact", database.store().compact()),
        ("checkpoint", database.store().checkpoint(std::path::Path::new("/nowhere"))),
        ("uncompressed_bytes", database.store().uncompressed_bytes().map(drop)),
    ] {
        let why = outcome.map_or_else(|error| error.to_string(), |()| "done".to_owned());
        writeln!(said, "{what}\n  {why}").expect("memory takes it");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &said).expect("the file can be written");
    }
    assert_eq!(said, std::fs::read_to_string(GOLDEN).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it anew");
    // What it does have.
    assert_eq!(ask(server.url(), "DELETE", "/T?truncate=true", "").status / 100, 2);
    let health: serde_json::Value = serde_json::from_str(&ask(server.url(), "GET", "/_health", "").body).expect("JSON");
    assert_eq!(health["cluster"]["engine"], "simulated", "{health}");
    assert_eq!(ask(server.url(), "GET", "/_ready", "").status, 200);
    database.end_lease();
    assert_eq!(ask(server.url(), "GET", "/_ready", "").status, 503);
    let response = ask(server.url(), "PUT", "/T/b", "{}");
    assert!(response.status == 503 && response.body.contains("busy"), "{}", response.body);
}
