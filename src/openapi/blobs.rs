//! The paths of blobs with their operations.

use serde_json::{Value, json};

use super::parts::{DELETE, link, operation, parameter, shared, with};
use super::responses::{self, empty, headers_named};
use crate::schema::{Attribute, Table, ThumbSize};

/// Refusals of a write of bytes; its content type is stored and never refused.
const WRITE: [u16; 10] = [400, 403, 404, 408, 412, 413, 415, 421, 500, 503];

/// Returns the path of an attribute.
pub(super) fn path(table: &Table, attribute: &Attribute) -> String {
    format!("/{}/{{id}}/{}", table.name, attribute.name)
}

/// Returns the operations on a blob.
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
    let response = |description: &str, headers: &[&str]| {
        let headers = headers_named(&[&["ETag", "Accept-Ranges"], headers].concat());
        json!({"description": description, "headers": headers, "content": any()})
    };
    let own = [
        (
            200,
            response("The bytes, with the media type they were uploaded with; with `thumb`, a smaller picture.", &[]),
        ),
        (206, response("The range that `Range` requests.", &["Content-Range"])),
        (304, empty("The client has the current version.", &["ETag"])),
    ];
    let mut parameters = shared(&["Range", "If-Range", "If-Match", "If-None-Match"]);
    parameters.push(thumb(attribute));
    let members = json!({
        "parameters": parameters,
        "responses": responses::of(&own, &[400, 403, 404, 406, 412, 416, 421, 422, 500, 503]),
    });
    with(of(table, attribute, "readBlob", "Reads the bytes of a blob"), members)
}

/// The size of a thumbnail: one of those that the schema lists, if it lists any.
fn thumb(attribute: &Attribute) -> Value {
    let sizes: Vec<_> = attribute.thumb_sizes.iter().map(ThumbSize::to_string).collect();
    let schema = match sizes.is_empty() {
        true => json!({"type": "string", "pattern": ThumbSize::PATTERN}),
        false => json!({"type": "string", "enum": sizes}),
    };
    let description = "The size of a thumbnail in place of the picture: `200x100` fills a box (`t`: cut off at the bottom alone, `b`: at the \
                       top), `200x100f` fits into it, `200x0` and `0x100` give one side.";
    parameter("query", "thumb", description, schema)
}

fn write(table: &Table, attribute: &Attribute) -> Value {
    let mut own = [(201, empty("Created.", &["ETag", "Location"])), (204, empty("Replaced.", &["ETag"]))];
    for (_, response) in &mut own {
        let of = |verb: &str| (verb.to_owned(), link(format!("{verb}.{}.{}", table.name, attribute.name)));
        response["links"] = ["readBlob", "deleteBlob"].into_iter().map(of).collect();
    }
    let members = json!({
        "parameters": shared(&["If-Match", "If-Absent"]),
        "requestBody": {"required": true, "description": "Bytes of any media type, not compressed.", "content": any()},
        "responses": responses::of(&own, &WRITE),
    });
    with(of(table, attribute, "writeBlob", "Writes the bytes of a blob of an existing record"), members)
}

fn delete(table: &Table, attribute: &Attribute) -> Value {
    let own = [(204, json!({"description": "Deleted."}))];
    let members = json!({
        "parameters": shared(&["If-Match"]),
        "responses": responses::of(&own, &[&DELETE[..], &[404, 412]].concat()),
    });
    with(of(table, attribute, "deleteBlob", "Deletes the bytes of a blob"), members)
}

/// Bytes of any type. Generators leave out what has no type that they know.
fn any() -> Value {
    json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}, "*/*": {"schema": {}}})
}
