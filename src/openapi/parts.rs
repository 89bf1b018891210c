//! The small parts of operations, below all of them: lists of refusals and of media types, references, parameters, bodies.

use serde_json::{Map, Value, json};

use crate::schema::Table;

/// Refusals of any request: it may name another host, or none, accept no coding, or be of a page of another site.
pub(super) const ANY: [u16; 4] = [400, 403, 406, 421];
/// Refusals of a write without a body.
pub(super) const DELETE: [u16; 5] = [400, 403, 421, 500, 503];
/// Refusals of a request with a body.
pub(super) const WITH_BODY: [u16; 9] = [400, 403, 406, 408, 413, 415, 421, 500, 503];

/// Media types of a body with records.
pub(super) const RECORDS: [&str; 3] = ["application/json", "application/cbor", "application/msgpack"];

/// Returns the schema of `If-Match`: `*` or a list of entity tags (RFC 9110, 13.1.1). It is one type with a pattern, since generators leave
/// out operations whose headers have several types.
pub(super) fn tags() -> Value {
    json!({"type": "string", "pattern": "^(\\*|(W/)?\"[!#-~]*\"(, ?(W/)?\"[!#-~]*\")*)$"})
}

/// Returns a reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns an optional parameter.
pub(super) fn parameter(place: &str, name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": place, "description": description, "schema": schema})
}

/// Returns references to shared parameters.
pub(super) fn shared(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"$ref": format!("#/components/parameters/{name}")})).collect()
}

pub(super) fn operation(table: &Table, verb: &str, summary: &str) -> Value {
    json!({"operationId": format!("{verb}.{}", table.name), "tags": [table.name], "summary": summary})
}

pub(super) fn with(mut operation: Value, members: Value) -> Value {
    if let (Some(all), Value::Object(members)) = (operation.as_object_mut(), members) {
        all.extend(members);
    }
    operation
}

/// Returns a link to an operation on the same record.
pub(super) fn link(operation: String) -> Value {
    json!({"operationId": operation, "parameters": {"id": "$request.path.id"}})
}

/// Returns a required body with one of these media types.
pub(super) fn body_of(schema: Value, media_types: &[&str]) -> Value {
    let content: Map<String, Value> =
        media_types.iter().map(|name| ((*name).to_owned(), json!({"schema": schema}))).collect();
    json!({"required": true, "content": content})
}

/// Returns the schema of an object with these members and no others.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
