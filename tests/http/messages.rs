//! Messages that are kept in the log while the store around them changes: its schema, a copy of it, the table that takes them.

use std::fs;
use std::path::Path;

use serde_json::Value;
use strata::server::Server;

use super::client::{ask, ask_with, start};
use super::feed::Feed;

const TAKES: &str = "type Device @table @multicast @export { id: ID! @primaryKey room: String }";

/// Another order, a new attribute and index, an expiration; and a table before it.
const CHANGED: &str = "type Area @table @export { id: ID! @primaryKey }
type Device @table(expiration: 3600) @multicast @export { ttl: Int @ttl room: String @indexed id: ID! @primaryKey }";

const TAKES_NONE: &str =
    "type Device @table(expiration: 3600) @export { ttl: Int @ttl room: String id: ID! @primaryKey }";

fn serve(folder: &Path, sdl: &str, migrate: bool) -> Server {
    let schema = folder.join("schema.graphql");
    fs::write(&schema, sdl).unwrap();
    start(folder, |config| {
        config.schema = Some(schema);
        config.migrate = migrate;
        config.checkpoint_dir = Some(folder.to_owned());
    })
}

/// Sends a message with a key to all; returns the status, and the id if there is one.
fn send(url: &str, body: &str) -> (u16, Value) {
    let key = format!("key{body}");
    let headers = [("content-type", "application/json"), ("idempotency-key", &key), ("prefer", "respond-async")];
    let response = ask_with(url, "POST", "/Device/multicast", &headers, body.as_bytes());
    let told: Value = serde_json::from_str(&response.body).unwrap_or_default();
    (response.status, told["id"].clone())
}

/// What a subscriber of a device has missed, up to a change that is made last and marked.
fn missed(url: &str, after: &str, mark: &str) -> Vec<String> {
    let mut feed = Feed::open(url, "/Device/a", Some(after));
    assert_eq!(ask(url, "PUT", "/Device/a", &format!("{{\"room\":\"{mark}\"}}")).status, 200);
    let mut seen = Vec::new();
    loop {
        let event = feed.next().expect("it goes on");
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "message" => seen.push(data["message"].to_string()),
            _ if data["room"] == mark => return seen,
            _ => seen.push(event.name),
        }
    }
}

#[test]
fn a_message_outlives_changes_of_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), TAKES, false);
    assert_eq!(ask(server.url(), "PUT", "/Device/a", "{}").status, 201);
    let begin = Feed::open(server.url(), "/Device/a", None).place();
    let (status, first) = send(server.url(), "1");
    assert_eq!(status, 202);
    server.stop().unwrap();

    let server = serve(folder.path(), CHANGED, false);
    assert_eq!(send(server.url(), "2").0, 202);
    assert_eq!(send(server.url(), "1"), (200, first.clone()), "it is known");
    assert_eq!(missed(server.url(), &begin, "one"), ["1", "2"]);
    server.stop().unwrap();

    // Without @multicast nothing is sent, and nothing that was is received.
    let server = serve(folder.path(), TAKES_NONE, false);
    assert_eq!(send(server.url(), "3").0, 405);
    assert_eq!(missed(server.url(), &begin, "two"), ["put"]);
    server.stop().unwrap();

    let server = serve(folder.path(), CHANGED, false);
    assert_eq!(send(server.url(), "1"), (200, first.clone()));
    assert_eq!(send(server.url(), "4").0, 202);
    assert_eq!(missed(server.url(), &begin, "three"), ["1", "2", "put", "put", "4"]);
    server.stop().unwrap();

    // What is migrated without it has forgotten keys and messages, and nothing else.
    serve(folder.path(), TAKES_NONE, true).stop().unwrap();
    let server = serve(folder.path(), CHANGED, false);
    let (status, again) = send(server.url(), "1");
    assert!(status == 202 && again != first);
    assert_eq!(missed(server.url(), &begin, "four"), ["put", "put", "put", "1"]);
    server.stop().unwrap();
}

#[test]
fn a_copy_knows_what_was_sent_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), TAKES, false);
    assert_eq!(ask(server.url(), "PUT", "/Device/a", "{}").status, 201);
    let begin = Feed::open(server.url(), "/Device/a", None).place();
    let (_, first) = send(server.url(), "1");
    assert_eq!(ask(server.url(), "POST", "/_checkpoint?name=copy", "").status, 201);
    let (_, second) = send(server.url(), "2");
    assert_eq!(missed(server.url(), &begin, "original"), ["1", "2"], "the copy takes nothing away");
    server.stop().unwrap();

    let copied = tempfile::tempdir().unwrap();
    fs::rename(folder.path().join("copy"), copied.path().join("data")).unwrap();
    let server = serve(copied.path(), TAKES, false);
    assert_eq!(send(server.url(), "1"), (200, first));
    let (status, anew) = send(server.url(), "2");
    assert!(status == 202 && anew != second, "it was sent after the copy was made");
    // The events of the original are none of the copy, or they are the same.
    let (_, response) = Feed::ask(server.url(), "/Device/a", Some(&begin));
    match response.status {
        410 => {}
        _ => assert_eq!(missed(server.url(), &begin, "copy"), ["1", "2"]),
    }
    server.stop().unwrap();
}
