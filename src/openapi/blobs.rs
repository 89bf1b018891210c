//! The paths of blobs with their operations.

use serde_json::{Value, json};

use super::answers::{self, empty, headers_named};
use super::paths::{DELETE, link, operation, shared, with};
use crate::schema::{Attribute, Table};

/// A request with the bytes; what they are said to be is kept, not accepted or refused.
const WRITE: [u16; 10] = [400, 403, 404, 408, 412, 413, 415, 421, 500, 503];

/// The path of an attribute.
pub(super) fn path(table: &Table, attribute: &Attribute) -> String {
    format!("/{}/{{id}}/{}", table.name, attribute.name)
}

/// What can be done there.
pub(super) fn item(table: &Table, attribute: &Attribute) -> Value {
    json!({
        "parameters": shared(&["id"]),
        "get": read(table, attribute),
        "put": write(table, attribute),
        "delete": delete(table, attribute),
    })
}

fn of(table: &Table, attribute: &Attribute, verb: &str, summary: &str) -> Value {
    let mut operation = operation(table, verb, summary);
    operation["operationId"] = json!(format!("{verb}.{}.{}", table.name, attribute.name));
    operation
}

fn read(table: &Table, attribute: &Attribute) -> Value {
    let answer = |description: &str, headers: &[&str]| {
        let headers = headers_named(&[&["ETag", "Accept-Ranges"], headers].concat());
        json!({"description": description, "headers": headers, "content": any()})
    };
    let own = [
        (200, answer("The bytes, with the type that they were sent with.", &[])),
        (206, answer("The part that `Range` asks for.", &["Content-Range"])),
        (304, empty("The client has them already.", &["ETag"])),
    ];
    let members = json!({
        "parameters": shared(&["Range", "If-Range", "If-Match", "If-None-Match"]),
        "responses": answers::of(&own, &[400, 404, 412, 416, 421, 500, 503]),
    });
    with(of(table, attribute, "readBlob", "The bytes of a blob"), members)
}

fn write(table: &Table, attribute: &Attribute) -> Value {
    let mut own =
        [(201, empty("They are the first.", &["ETag", "Location"])), (204, empty("They replace others.", &["ETag"]))];
    for (_, answer) in &mut own {
        let of = |verb: &str| (verb.to_owned(), link(format!("{verb}.{}.{}", table.name, attribute.name)));
        answer["links"] = ["readBlob", "deleteBlob"].into_iter().map(of).collect();
    }
    let members = json!({
        "parameters": shared(&["If-Match", "If-Absent"]),
        "requestBody": {"required": true, "description": "Of any type, not compressed.", "content": any()},
        "responses": answers::of(&own, &WRITE),
    });
    with(of(table, attribute, "writeBlob", "Writes the bytes of a blob of a record that is there"), members)
}

fn delete(table: &Table, attribute: &Attribute) -> Value {
    let own = [(204, json!({"description": "Deleted."}))];
    let members = json!({
        "parameters": shared(&["If-Match"]),
        "responses": answers::of(&own, &[&DELETE[..], &[404, 412]].concat()),
    });
    with(of(table, attribute, "deleteBlob", "Deletes the bytes of a blob"), members)
}

/// Bytes of any type.
fn any() -> Value {
    json!({"*/*": {}})
}
