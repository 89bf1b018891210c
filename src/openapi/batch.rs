//! The batch endpoint: its operations by table, and their results.

use serde_json::{Value, json};

use super::parts::{RECORDS, WITH_BODY, body_of, object, reference, tags, with};
use super::responses::{self, in_formats};
use crate::handlers::media::ResponseKind;
use crate::schema::{Stream, Table};

/// Maximum length of an id.
const ID_LENGTH: usize = 1024;

/// Returns the path item.
pub(super) fn item() -> Value {
    let response = in_formats("The result of each operation.", &reference("strata.Results"), ResponseKind::One, &[]);
    json!({"post": {
        "operationId": "batch",
        "tags": ["Batch"],
        "summary": "Executes operations on records of any tables, and on streams, in one transaction, all or none",
        "requestBody": body_of(reference("strata.Batch"), &RECORDS),
        "responses": responses::of(&[(200, response)], &[&WITH_BODY[..], &[404, 409, 412]].concat()),
    }})
}

/// Returns the schema of the request body, with at most `most` operations.
pub(super) fn request_schema<'t>(
    tables: impl Iterator<Item = &'t Table>,
    streams: impl Iterator<Item = &'t Stream>,
    most: usize,
) -> Value {
    let operations: Vec<_> = tables.flat_map(operations).chain(streams.flat_map(operations_on)).collect();
    object(json!({"operations": {"type": "array", "maxItems": most, "items": {"anyOf": operations}}}), &["operations"])
}

/// Returns the schema of the response body.
pub(super) fn response_schema<'t>(
    tables: impl Iterator<Item = &'t Table>,
    streams: impl Iterator<Item = &'t Stream>,
) -> Value {
    let of_stream = |stream: &Stream| ["place", "group"].map(|form| reference(&format!("{}.{form}", stream.name)));
    let shown: Vec<_> = tables.map(|table| reference(&table.name)).chain(streams.flat_map(of_stream)).collect();
    let text = json!({"type": "string"});
    let result = json!({
        "status": {"type": "integer", "enum": [200, 201, 202, 204]},
        "location": text,
        "etag": text,
        "body": {"anyOf": shown},
    });
    object(json!({"results": {"type": "array", "items": object(result, &["status"])}}), &["results"])
}

fn operations(table: &Table) -> Vec<Value> {
    let most = table.name.len() + "//".len() + ID_LENGTH;
    let path = json!({
        "type": "string",
        "pattern": format!("^/{}/{}$", table.name, id()),
        "not": {"pattern": "/(\\.|%2[Ee]){1,2}$"},
        "maxLength": most,
    });
    let of_record = |method: &str, more: Value, required: &[&str]| {
        let members = with(json!({"method": constant(method), "path": path}), more);
        object(members, &[&["method", "path"], required].concat())
    };
    let body = |form: &str| reference(&format!("{}.{form}", table.name));
    let members =
        json!({"method": constant("POST"), "path": constant(&format!("/{}", table.name)), "body": body("new")});
    vec![
        object(members, &["method", "path", "body"]),
        of_record("GET", json!({}), &[]),
        of_record("PUT", json!({"body": body("whole"), "ifMatch": tags()}), &["body"]),
        of_record("PATCH", json!({"body": body("patch"), "ifMatch": tags()}), &["body"]),
        of_record("DELETE", json!({"ifMatch": tags()}), &[]),
    ]
}

fn operations_on(stream: &Stream) -> [Value; 2] {
    let body = |form: &str| reference(&format!("{}.{form}", stream.name));
    let append = json!({
        "method": constant("POST"),
        "path": constant(&format!("/{}", stream.name)),
        "body": body("event"),
    });
    let path = json!({"type": "string", "pattern": format!("^/{}/consumers/{}$", stream.name, id())});
    let commit = json!({"method": constant("PUT"), "path": path, "body": body("offsets"), "ifMatch": tags()});
    [append, commit].map(|members| object(members, &["method", "path", "body"]))
}

/// Returns the pattern of an id in a path, percent-encoded where necessary: encoded bytes are UTF-8 (RFC 3629, 4), up to U+FFFFF.
fn id() -> String {
    const TAIL: &str = "%[89ABab][0-9A-Fa-f]";
    let of_two = format!("%([Cc][2-9A-Fa-f]|[Dd][0-9A-Fa-f]){TAIL}");
    let of_three = format!("%([Ee]0%[ABab][0-9A-Fa-f]|[Ee][Dd]%[89][0-9A-Fa-f]|[Ee][1-9A-CEFa-cef]{TAIL}){TAIL}");
    let of_four = format!("%[Ff](0%[9ABab][0-9A-Fa-f]|[1-3]{TAIL}){TAIL}{TAIL}");
    format!("([^%/?#]|%[0-7][0-9A-Fa-f]|{of_two}|{of_three}|{of_four})+")
}

fn constant(text: &str) -> Value {
    json!({"type": "string", "const": text})
}
