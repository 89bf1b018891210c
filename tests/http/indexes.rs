//! What the server does while it answers: it builds indexes that are new, and deletes records that have expired.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use strata::server::Server;

use super::client::{ask, start, wait_until};

const BARE: &str = "type Product @table @export { id: ID! @primaryKey name: String sku: String }";

fn serve(folder: &Path, sdl: &str) -> Server {
    let schema = folder.join("schema.graphql");
    fs::write(&schema, sdl).unwrap();
    start(folder, |config| config.schema = Some(schema))
}

fn get(server: &Server, path: &str) -> Value {
    let response = ask(server.url(), "GET", path, "");
    assert_eq!(response.status, 200, "{}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

/// The type and the state of each index.
fn states(server: &Server) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tables = get(server, "/_tables");
    let indexes = tables[0]["indexes"].as_array().unwrap();
    indexes.iter().map(|index| (text(&index["type"]), text(&index["state"]))).collect()
}

#[test]
fn new_indexes_are_built_beside_requests_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), BARE);
    for (id, sku) in [("1", "a"), ("2", "b"), ("3", "a")] {
        let body = format!(r#"{{"id":"{id}","name":"Lamp {id}","sku":"{sku}"}}"#);
        assert_eq!(ask(server.url(), "POST", "/Product", &body).status, 201);
    }
    assert_eq!(get(&server, "/_health"), json!({"status": "ok"}));
    server.stop().unwrap();
    let sdl = BARE.replace("name: String", "name: String @indexed").replace("sku: String", "sku: String @unique");
    let server = serve(folder.path(), &sdl);
    assert_eq!(get(&server, "/Product?sku==a").as_array().unwrap().len(), 2);
    wait_until("the indexes are done", || states(&server).iter().all(|(_, state)| state != "building"));
    assert_eq!(states(&server), [("ordered", "ready"), ("unique", "failed")].map(|(a, b)| (a.into(), b.into())));
    assert_eq!(get(&server, "/_health"), json!({"status": "ok", "indexes": {"building": 0, "failed": 1}}));
    assert_eq!(get(&server, "/Product?sku==a").as_array().unwrap().len(), 2, "it answers nothing");
    assert_eq!(get(&server, "/Product?name==Lamp%202")[0]["id"], "2");
    assert_eq!(ask(server.url(), "POST", "/Product", r#"{"id":"4","sku":"b"}"#).status, 201, "it binds nobody");
    server.stop().unwrap();
}

#[test]
fn expired_records_are_gone_at_once_and_deleted_soon() {
    let folder = tempfile::tempdir().unwrap();
    let sdl = "type Session @table @export { id: ID! @primaryKey user: String @unique until: Int @expiresAt }";
    let server = serve(folder.path(), sdl);
    assert_eq!(ask(server.url(), "POST", "/Session", r#"{"id":"1","user":"u","until":4102444800000}"#).status, 201);
    assert_eq!(ask(server.url(), "GET", "/Session/1", "").status, 200);
    assert_eq!(ask(server.url(), "PATCH", "/Session/1", r#"{"until":1000}"#).status, 200);
    assert_eq!(ask(server.url(), "GET", "/Session/1", "").status, 404);
    assert_eq!(get(&server, "/Session"), json!([]));
    assert_eq!(get(&server, "/Session?user==u"), json!([]));
    let stored =
        || server.database().store().count_prefix(strata::storage::Space::Records, &1u32.to_be_bytes()).unwrap().0;
    wait_until("it is deleted", || stored() == 0);
    assert_eq!(server.database().disagreements().unwrap(), Vec::<String>::new());
    server.stop().unwrap();
}
