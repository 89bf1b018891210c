//! The JSON Schemas of records: as answered, as given in a body, and as shown in a list.
//!
//! The names of built-in schemas contain a dot; a table's name has none, so they cannot collide.

use serde_json::{Map, Value, json};

use super::parts::reference;
use crate::encoding;
use crate::schema::{Attribute, Kind, Schema, Table};

/// The query determines how deep related records are nested, so these schemas refer to each other recursively.
pub(super) fn of<'t>(schema: &'t Schema, tables: impl Iterator<Item = &'t Table>) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        [Kind::Id, Kind::String, Kind::Int, Kind::Float, Kind::Boolean, Kind::Date, Kind::Any, Kind::Blob]
            .into_iter()
            .map(|kind| (given_name(kind), given(kind)))
            .collect();
    all.insert(KEY_GIVEN.to_owned(), text_given(&id()));
    all.insert("strata.Problem".to_owned(), problem());
    all.insert("strata.Load".to_owned(), load());
    for table in schema.tables.iter().filter(|table| !table.is_internal()) {
        // A table that is not exported may be shown in relation to one that is.
        all.insert(format!("{}.shown", table.name), shown(schema, table));
    }
    for table in tables {
        all.insert(table.name.clone(), answered(table));
        all.insert(format!("{}.new", table.name), record_given(table, true, true));
        all.insert(format!("{}.whole", table.name), record_given(table, false, true));
        all.insert(format!("{}.patch", table.name), record_given(table, false, false));
    }
    all
}

/// The primary key in a body.
const KEY_GIVEN: &str = "given.key";

/// Returns the schema of a stored record: every attribute, null if it has no value.
fn answered(table: &Table) -> Value {
    let names: Vec<_> = table.attributes.iter().map(|attribute| &attribute.name).collect();
    json!({
        "type": "object",
        "description": format!("A record of {}.", table.name),
        "properties": properties(table),
        "required": names,
        "additionalProperties": false,
    })
}

/// Returns the schema of a record in a list: `select` may omit attributes and add related records.
fn shown(schema: &Schema, table: &Table) -> Value {
    let mut properties = properties(table);
    for relationship in &table.relationships {
        let record = reference(&format!("{}.shown", schema.tables[relationship.table].name));
        let related = match relationship.many {
            true => json!({"type": "array", "items": record}),
            false => json!({"anyOf": [record, {"type": "null"}]}),
        };
        properties.insert(relationship.name.clone(), related);
    }
    json!({
        "type": "object",
        "description": format!("A record of {}, or what `select` selects of it.", table.name),
        "properties": properties,
        "additionalProperties": false,
    })
}

fn properties(table: &Table) -> Map<String, Value> {
    let of = |attribute: &Attribute| (attribute.name.clone(), stored(attribute));
    table.attributes.iter().map(of).collect()
}

/// Returns the schema of a stored value.
fn stored(attribute: &Attribute) -> Value {
    let scalar = stored_scalar(attribute.kind);
    let mut schema = match attribute.list {
        true => json!({"type": "array", "items": scalar}),
        false => scalar,
    };
    let may_be_null = !attribute.required && attribute.stamp.is_none();
    if let Some(Value::String(one)) = schema.get("type").cloned()
        && may_be_null
    {
        schema["type"] = json!([one, "null"]);
    }
    if attribute.stamp.is_some() {
        schema["readOnly"] = json!(true);
    }
    schema
}

fn stored_scalar(kind: Kind) -> Value {
    match kind {
        Kind::Id | Kind::String => json!({"type": "string"}),
        Kind::Int => json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX}),
        Kind::Float => json!({"type": "number", "format": "double"}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Date => json!({"type": "string", "description": "An ISO 8601 date or date-time, as it was written."}),
        Kind::Any => json!({"description": "Any JSON value."}),
        Kind::Blob => json!({"type": "string", "description": "The path of the blob."}),
    }
}

/// Returns the schema of a record in a body that creates, replaces or merges. A `readOnly` attribute may be sent back as read, but not
/// changed.
fn record_given(table: &Table, with_id: bool, whole: bool) -> Value {
    let is_id = |position: usize| position == table.primary_key;
    let members = || table.attributes.iter().enumerate();
    let is_owed =
        |position: usize, attribute: &Attribute| attribute.required && attribute.stamp.is_none() && !is_id(position);
    let properties: Map<String, Value> = members()
        .map(|(position, attribute)| {
            let value = match is_id(position) {
                true if !with_id => json!({"type": "string", "readOnly": true, "description": "The id in the path."}),
                true => value_given(attribute, KEY_GIVEN, false),
                false => value_given(attribute, &given_name(attribute.kind), is_owed(position, attribute)),
            };
            (attribute.name.clone(), value)
        })
        .collect();
    let required: Vec<_> = members()
        .filter(|(position, attribute)| whole && is_owed(*position, attribute))
        .map(|(_, attribute)| &attribute.name)
        .collect();
    json!({
        "type": "object",
        "description": match (with_id, whole) {
            (true, _) => "A missing id is generated. Values are coerced if nothing is lost.",
            (false, true) => "Omitted attributes become null, except blobs, which are kept.",
            (false, false) => "A JSON merge patch (RFC 7396): null removes a value.",
        },
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn value_given(attribute: &Attribute, scalar: &str, owed: bool) -> Value {
    let scalar = reference(scalar);
    let value = match attribute.list {
        true => json!({"type": "array", "items": scalar, "maxItems": encoding::ELEMENTS}),
        false => scalar,
    };
    let mut value = match owed {
        true => value,
        false => json!({"anyOf": [value, {"type": "null"}]}),
    };
    if attribute.stamp.is_some() {
        value["description"] = json!("Set by the server; a value in a body is ignored.");
    }
    if attribute.kind == Kind::Blob {
        value["readOnly"] = json!(true);
    }
    value
}

fn given_name(kind: Kind) -> String {
    format!("given.{}", kind.name())
}

/// Returns the schema of an id that a record may be given.
pub(super) fn id() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 1024, "not": {"enum": [".", ".."]}})
}

/// Returns the schema of what a body may give for text, given that of the text.
fn text_given(text: &Value) -> Value {
    // A double above 2^53 may not have the digits it was written with, so beyond that only an integer may stand for text.
    const INEXACT: i64 = 1 << 53;
    json!({"anyOf": [
        text,
        {"type": "boolean"},
        {"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX},
        {"type": "number", "exclusiveMinimum": -INEXACT, "exclusiveMaximum": INEXACT},
    ]})
}

/// Returns the schema of what a body may give for a type.
fn given(kind: Kind) -> Value {
    match kind {
        Kind::Id | Kind::String => text_given(&stored_scalar(kind)),
        Kind::Int => json!({"anyOf": [stored_scalar(kind), {"type": "string", "pattern": "^[+-]?[0-9]{1,18}$"}]}),
        Kind::Float => json!({"anyOf": [
            stored_scalar(kind),
            {"type": "string", "pattern": r"^[+-]?([0-9]{1,99}(\.[0-9]{0,99})?|\.[0-9]{1,99})([eE][+-]?[0-9]{1,2})?$"},
        ]}),
        Kind::Boolean => json!({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}]}),
        Kind::Date => json!({"anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
        ]}),
        Kind::Any => json!({"description": "Any JSON value, at most 128 levels deep."}),
        Kind::Blob => {
            json!({"type": "string", "description": "The current path, which keeps the blob; PUT bytes to that path."})
        }
    }
}

/// Returns the schema of the response to a bulk load.
fn load() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let error = json!({
        "type": "object",
        "properties": {"line": count, "detail": {"type": "string"}, "pointer": {"type": "string"}},
        "required": ["line", "detail"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "description": "The numbers of lines created and refused, and the reasons for the first hundred refusals.",
        "properties": {"created": count, "failed": count, "errors": {"type": "array", "items": error}},
        "required": ["created", "failed", "errors"],
        "additionalProperties": false,
    })
}

/// Returns the schema of the body of a refusal (RFC 9457).
fn problem() -> Value {
    json!({
        "type": "object",
        "description": "What is wrong and where (RFC 9457).",
        "properties": {
            "type": {"type": "string", "pattern": "^urn:strata:error:[a-z-]+$"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string"},
            "pointer": {"type": "string", "description": "A JSON pointer into the body."},
            "position": {"type": "integer", "minimum": 0, "description": "A byte offset into the raw query."},
            "lowWatermark": {"type": "integer", "minimum": 0, "description": "The first offset that a partition keeps."},
            "highWatermark": {"type": "integer", "minimum": 0, "description": "The next offset of a partition."},
            "requestId": {"type": "string", "description": "The request id under which the cause is logged."},
        },
        "required": ["type", "title", "status", "detail"],
        "additionalProperties": false,
    })
}
