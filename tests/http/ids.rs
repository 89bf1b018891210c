//! Records with ids that no URL can carry, as an earlier version has stored them: they are read, changed and deleted by queries.

use strata::encoding::{Record, body::parse_object, key, record};
use strata::indexes;
use strata::schema::Durability;
use strata::server::Server;
use strata::storage::{Batch, Space};

use super::client::{ask, start};

/// Stores a record below the checks of the verbs.
fn store(server: &Server, table: &str, id: &str, body: &str) {
    let (database, mut batch) = (server.database(), Batch::default());
    let table = database.table(table).unwrap();
    let (mut bytes, mut key) = (Vec::new(), Vec::new());
    let fields = parse_object(table, body.as_bytes()).unwrap();
    let record = record::encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut bytes).unwrap();
    indexes::add(database.store(), &mut batch, id, &record).unwrap();
    key::record(table.id, id, &mut key);
    database.store().put(&mut batch, Space::Records, &key, record.bytes());
    database.store().write(&mut batch, Durability::Soft).unwrap();
}

#[test]
fn they_are_found_changed_and_deleted_by_queries() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let ask = |method: &str, path: &str, body: &str| {
        let response = ask(server.url(), method, path, body);
        (response.status, response.body)
    };
    for id in [".", ".."] {
        store(&server, "Product", id, &format!(r#"{{"id":"{id}","name":"Old","category":"light"}}"#));
        store(&server, "Photo", id, &format!(r#"{{"id":"{id}"}}"#));
    }
    assert_eq!(server.database().disagreements().unwrap(), Vec::<String>::new());
    let listed = r#"[{"id":"."},{"id":".."}]"#.to_owned();
    assert_eq!(ask("GET", "/Product?category==light&select=id&sort=id", ""), (200, listed.clone()));
    assert_eq!(
        ask("POST", "/graphql", r#"{"query":"{ ProductList(sort: \"id\") { id } }"}"#).1,
        format!(r#"{{"data":{{"ProductList":{listed}}}}}"#)
    );
    assert_eq!(ask("PATCH", "/Product?id==..", r#"{"stock":1}"#), (200, r#"{"updated":1}"#.to_owned()));
    assert_eq!(ask("GET", "/Product?id==..&select=stock", "").1, r#"[{"stock":1}]"#);
    // As from a client that leaves a path as it is.
    assert_eq!(ask("PUT", "/Product/..", r#"{"name":"New"}"#).0, 400);
    assert_eq!(ask("PUT", "/Photo/./picture", r#"{}"#).0, 400);
    assert_eq!(ask("PATCH", "/Product/..", r#"{"stock":2}"#).0, 200);
    assert_eq!(ask("DELETE", "/Product?id==..", ""), (200, r#"{"deleted":1}"#.to_owned()));
    assert_eq!(ask("DELETE", "/Product?category==light", ""), (200, r#"{"deleted":1}"#.to_owned()));
    assert_eq!(ask("DELETE", "/Photo/..", "").0, 204);
    assert_eq!(ask("GET", "/Product", ""), (200, "[]".to_owned()));
    assert_eq!(server.database().disagreements().unwrap(), Vec::<String>::new());
}
