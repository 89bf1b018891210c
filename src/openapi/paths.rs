//! The paths of tables with their operations.
//!
//! Each operation is one function that is read from top to bottom: what it takes, and every status it answers with.

use serde_json::{Map, Value, json};

use super::answers::{self, empty, in_json, that_may_have};
use super::beside;
use super::schemas::reference;
use crate::encoding;
use crate::schema::{Attribute, Kind, Table};

/// Every request may be for another host, or say nothing of it.
pub(super) const ANY: [u16; 2] = [400, 421];
/// A request that reads records.
const READ: [u16; 5] = [400, 406, 421, 500, 503];
/// One that writes and has no body.
const DELETE: [u16; 5] = [400, 403, 421, 500, 503];
/// One with a body.
pub(super) const WITH_BODY: [u16; 9] = [400, 403, 406, 408, 413, 415, 421, 500, 503];

/// A list of tags (RFC 9110, 13.1.1).
const TAGS: &str = "^(W/)?\"[!#-~]*\"(, ?(W/)?\"[!#-~]*\")*$";

/// All paths.
pub(super) fn of<'t>(tables: impl Iterator<Item = &'t Table>) -> Value {
    let mut paths = Map::new();
    for table in tables {
        paths.insert(format!("/{}", table.name), collection(table));
        paths.insert(format!("/{}/query", table.name), json!({"post": list_by_body(table)}));
        paths.insert(format!("/{}/{{id}}", table.name), record(table));
    }
    paths.extend(beside::paths());
    Value::Object(paths)
}

/// The parameters that operations share.
pub(super) fn parameters(max_rows: usize) -> Value {
    let text = || json!({"type": "string"});
    let flag = || json!({"type": "boolean"});
    let tags = json!({"anyOf": [{"const": "*"}, {"type": "string", "pattern": TAGS}]});
    let header = |name, description, schema| parameter("header", name, description, schema);
    let clause = |name, description, schema| parameter("query", name, description, schema);
    json!({
        "id": {
            "name": "id",
            "in": "path",
            "required": true,
            "description": "The primary key, percent-encoded.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 1024},
        },
        "If-Match": header("If-Match", "Tags, one of which is the stored version's, or `*`; else 412.", tags),
        "If-None-Match": header("If-None-Match", "Tags that the client has: 304.", text()),
        "If-Absent": header("If-None-Match", "There must be no such record; else 412.", json!({"enum": ["*"]})),
        "limit": clause("limit", "The most records.", json!({"type": "integer", "minimum": 0, "maximum": max_rows})),
        "offset": clause("offset", "How many records are passed over first.", json!({"type": "integer", "minimum": 0})),
        "after": clause("after", "The cursor of a list that was cut, from its `Link`.", text()),
        "pagination": clause("pagination", "An object with the count of all.", flag()),
        "explain": clause("explain", "The plan, not the records.", flag()),
        "stream": clause("stream", "Changes from now on, and nothing beside it.", json!({"enum": ["sse"]})),
        "Last-Event-ID": header("Last-Event-ID", "With `stream`: the event to go on from; else 410.", text()),
        "truncate": clause("truncate", "All records of the table.", json!({"enum": ["true"]})),
    })
}

/// A parameter that may be left out.
pub(super) fn parameter(place: &str, name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": place, "description": description, "schema": schema})
}

/// References to shared ones.
pub(super) fn shared(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"$ref": format!("#/components/parameters/{name}")})).collect()
}

fn operation(table: &Table, verb: &str, summary: &str) -> Value {
    json!({"operationId": format!("{verb}.{}", table.name), "tags": [table.name], "summary": summary})
}

fn with(mut operation: Value, members: Value) -> Value {
    if let (Some(all), Value::Object(members)) = (operation.as_object_mut(), members) {
        all.extend(members);
    }
    operation
}

fn collection(table: &Table) -> Value {
    json!({"get": list(table), "post": create(table), "delete": delete_matching(table)})
}

fn record(table: &Table) -> Value {
    json!({
        "parameters": shared(&["id"]),
        "get": read(table),
        "put": replace(table),
        "patch": merge(table),
        "delete": delete(table),
    })
}

fn list(table: &Table) -> Value {
    let mut parameters = conditions(table);
    parameters.extend([select(table), sort(table)]);
    parameters.extend(shared(&["limit", "offset", "after", "pagination", "explain", "stream", "Last-Event-ID"]));
    let answer = or_changes(in_json("The records, the plan, or their changes.", listed(table), &["Link"]));
    let members =
        json!({"parameters": parameters, "responses": answers::of(&[(200, answer)], &[&READ[..], &[410]].concat())});
    with(operation(table, "list", "The records that satisfy a query"), members)
}

fn list_by_body(table: &Table) -> Value {
    let body = json!({"required": true, "content": {"text/plain": {
        "schema": {"type": "string", "maxLength": 256 << 10},
        "example": format!("{}!=x&limit=3", table.attributes[table.primary_key].name),
    }}});
    let answer = in_json("The records, or the plan.", listed(table), &["Link"]);
    let members = json!({"requestBody": body, "responses": answers::of(&[(200, answer)], &WITH_BODY)});
    with(operation(table, "query", "The records that satisfy a query, which is the body"), members)
}

fn create(table: &Table) -> Value {
    let (new, created) = (reference(&format!("{}.new", table.name)), reference(&table.name));
    let many = json!({"type": "array", "items": new, "maxItems": encoding::RECORDS});
    let answer = in_json(
        "The record, or the records of an array.",
        json!({"anyOf": [created, {"type": "array", "items": created}]}),
        &[],
    );
    let answer = that_may_have(answer, &[("ETag", "Of one record."), ("Location", "The path of one record.")]);
    let members = json!({
        "parameters": shared(&["If-Absent"]),
        "requestBody": body_of(json!({"anyOf": [new, many]}), &["application/json"]),
        "responses": answers::of(&[(201, answer)], &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(operation(table, "create", "Creates a record, or all of an array or none"), members)
}

/// What may be asked of a record that is there now.
fn links(table: &Table) -> Value {
    let id = "$request.path.id";
    let link = |verb: &str| json!({"operationId": format!("{verb}.{}", table.name), "parameters": {"id": id}});
    ["read", "merge", "delete"].into_iter().map(|verb| (verb.to_owned(), link(verb))).collect()
}

fn delete_matching(table: &Table) -> Value {
    let mut parameters = conditions(table);
    parameters.extend(shared(&["truncate"]));
    let one = |name: &str, value: Value| {
        let properties = json!({(name): value});
        json!({"type": "object", "properties": properties, "required": [name], "additionalProperties": false})
    };
    let count = json!({"type": "integer", "minimum": 0});
    let schema = json!({"oneOf": [one("deleted", count), one("truncated", json!({"const": true}))]});
    let answer = in_json("How many were deleted, or that all were.", schema, &[]);
    let members =
        json!({"parameters": parameters, "responses": answers::of(&[(200, answer)], &[&DELETE[..], &[406]].concat())});
    with(
        operation(table, "deleteMatching", "Deletes the records that satisfy a query, or all with truncate=true"),
        members,
    )
}

fn read(table: &Table) -> Value {
    let mut parameters = shared(&["If-None-Match", "stream", "Last-Event-ID"]);
    parameters.push(select(table));
    let record = reference(&format!("{}.shown", table.name));
    let answer = in_json("The record, what `select` shows of it, or its changes.", record, &[]);
    let answer = that_may_have(or_changes(answer), &[("ETag", "Of the record; changes have none.")]);
    let own = [(200, answer), (304, empty("The client has it already.", &["ETag"]))];
    let members = json!({"parameters": parameters, "responses": answers::of(&own, &[&READ[..], &[404, 410]].concat())});
    with(operation(table, "read", "A record"), members)
}

fn replace(table: &Table) -> Value {
    let record = || reference(&table.name);
    let mut own = [
        (200, in_json("Replaced: the record.", record(), &["ETag"])),
        (201, in_json("Created: the record.", record(), &["ETag", "Location"])),
    ];
    for (_, answer) in &mut own {
        answer["links"] = links(table);
    }
    let members = json!({
        "parameters": shared(&["If-Match", "If-Absent"]),
        "requestBody": body_of(reference(&format!("{}.whole", table.name)), &["application/json"]),
        "responses": answers::of(&own, &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(operation(table, "replace", "Replaces a record, or creates it"), members)
}

fn merge(table: &Table) -> Value {
    let answer = in_json("The record afterwards.", reference(&table.name), &["ETag"]);
    let types = ["application/merge-patch+json", "application/json"];
    let members = json!({
        "parameters": shared(&["If-Match"]),
        "requestBody": body_of(reference(&format!("{}.patch", table.name)), &types),
        "responses": answers::of(&[(200, answer)], &[&WITH_BODY[..], &[404, 409, 412]].concat()),
    });
    with(operation(table, "merge", "Changes a record by a merge patch"), members)
}

fn delete(table: &Table) -> Value {
    let own = [(204, json!({"description": "Deleted."}))];
    let members = json!({
        "parameters": shared(&["If-Match"]),
        "responses": answers::of(&own, &[&DELETE[..], &[404, 412]].concat()),
    });
    with(operation(table, "delete", "Deletes a record"), members)
}

/// A body that has to be there, in one of these types.
pub(super) fn body_of(schema: Value, media_types: &[&str]) -> Value {
    let content: Map<String, Value> =
        media_types.iter().map(|name| ((*name).to_owned(), json!({"schema": schema}))).collect();
    json!({"required": true, "content": content})
}

/// The same answer, or the changes that `stream=sse` asks for.
fn or_changes(mut answer: Value) -> Value {
    let description = "Events `put` and `delete` with the record, and an id to go on from by `Last-Event-ID`.";
    answer["content"]["text/event-stream"] = json!({"schema": {"type": "string", "description": description}});
    answer
}

/// What a list answers.
fn listed(table: &Table) -> Value {
    let records = json!({"type": "array", "items": reference(&format!("{}.shown", table.name))});
    let count = json!({"type": "integer", "minimum": 0});
    json!({"oneOf": [
        records,
        {
            "title": "with pagination=true",
            "type": "object",
            "properties": {"data": records, "total": count, "limit": count, "offset": count},
            "required": ["data", "total", "limit", "offset"],
            "additionalProperties": false,
        },
        {
            "title": "with explain=true",
            "type": "object",
            "properties": {"table": {"const": table.name}, "steps": {"type": "array", "items": {"type": "object"}}},
            "required": ["table", "steps"],
        },
    ]})
}

/// One parameter for each attribute: it equals.
fn conditions(table: &Table) -> Vec<Value> {
    let of = |attribute: &Attribute| {
        json!({
            "name": attribute.name,
            "in": "query",
            "description": "Equals. `*` in a text stands for any; `null` is null.",
            "schema": compared(attribute.kind),
        })
    };
    table.attributes.iter().map(of).collect()
}

fn compared(kind: Kind) -> Value {
    match kind {
        Kind::Id | Kind::String => json!({"type": "string"}),
        Kind::Any => json!({"type": "string", "minLength": 1}),
        Kind::Int | Kind::Float => json!({"anyOf": [{"type": "number"}, {"const": "null"}]}),
        Kind::Boolean => json!({"enum": ["true", "false", "null"]}),
        Kind::Date => json!({"anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
            {"const": "null"},
        ]}),
    }
}

/// A clause whose value is a list of names, each once.
fn names(clause: &str, description: &str, names: Vec<String>) -> Value {
    json!({
        "name": clause,
        "in": "query",
        "description": description,
        "style": "form",
        "explode": false,
        "schema": {"type": "array", "items": {"enum": names}, "minItems": 1, "uniqueItems": true},
    })
}

fn select(table: &Table) -> Value {
    let own = table.attributes.iter().map(|attribute| attribute.name.clone());
    let related = table.relationships.iter().map(|relationship| relationship.name.clone());
    names("select", "What is shown, in this order.", own.chain(related).collect())
}

fn sort(table: &Table) -> Value {
    let sortable = table.attributes.iter().filter(|attribute| !attribute.list && attribute.kind != Kind::Any);
    let both: Vec<_> = sortable.map(|attribute| [attribute.name.clone(), format!("-{}", attribute.name)]).collect();
    let once = both
        .iter()
        .map(|[up, down]| json!({"not": {"allOf": [{"contains": {"const": up}}, {"contains": {"const": down}}]}}));
    let once: Vec<_> = once.collect();
    let mut sort = names("sort", "Ascending, or descending with `-`; each attribute once.", both.concat());
    sort["schema"]["allOf"] = json!(once);
    sort
}
