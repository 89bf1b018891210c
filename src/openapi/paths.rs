//! The paths of tables with their operations.
//!
//! Each operation is one function that is read from top to bottom: what it takes, and every status it answers with.

use serde_json::{Map, Value, json};

use super::answers::{self, empty, in_formats, that_may_have};
use super::schemas::reference;
use super::{batch, beside, blobs};
use crate::encoding;
use crate::handlers::media::Shown;
use crate::schema::{Attribute, Kind, Table};

/// Every request may be for another host, or say nothing of it.
pub(super) const ANY: [u16; 2] = [400, 421];
/// A request that reads records.
const READ: [u16; 5] = [400, 406, 421, 500, 503];
/// One that writes and has no body.
pub(super) const DELETE: [u16; 5] = [400, 403, 421, 500, 503];
/// One with a body.
pub(super) const WITH_BODY: [u16; 9] = [400, 403, 406, 408, 413, 415, 421, 500, 503];

/// In what a body with records is.
pub(super) const RECORDS: [&str; 3] = ["application/json", "application/cbor", "application/msgpack"];
/// In what a merge patch is.
const PATCH: [&str; 4] =
    ["application/merge-patch+json", "application/json", "application/cbor", "application/msgpack"];

/// A list of tags (RFC 9110, 13.1.1).
pub(super) const TAGS: &str = "^(W/)?\"[!#-~]*\"(, ?(W/)?\"[!#-~]*\")*$";

/// All paths.
pub(super) fn of<'t>(tables: impl Iterator<Item = &'t Table>) -> Value {
    let mut paths = Map::new();
    for table in tables {
        paths.insert(format!("/{}", table.name), collection(table));
        paths.insert(format!("/{}/query", table.name), json!({"post": list_by_body(table)}));
        paths.insert(format!("/{}/{{id}}", table.name), record(table));
        for attribute in table.blobs.iter().map(|position| &table.attributes[*position]) {
            paths.insert(blobs::path(table, attribute), blobs::item(table, attribute));
        }
    }
    paths.insert("/_batch".to_owned(), batch::item());
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
        "Range": header("Range", "A part of the bytes; of several, the whole is answered.", text()),
        "If-Range": header("If-Range", "The tag that the part is wanted of; else the whole.", text()),
        "Prefer": header("Prefer", "`return=minimal`: the answer has no record.", text()),
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

pub(super) fn operation(table: &Table, verb: &str, summary: &str) -> Value {
    json!({"operationId": format!("{verb}.{}", table.name), "tags": [table.name], "summary": summary})
}

pub(super) fn with(mut operation: Value, members: Value) -> Value {
    if let (Some(all), Value::Object(members)) = (operation.as_object_mut(), members) {
        all.extend(members);
    }
    operation
}

fn collection(table: &Table) -> Value {
    json!({
        "get": list(table),
        "post": create(table),
        "put": replace_all(table),
        "patch": merge_matching(table),
        "delete": delete_matching(table),
    })
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
    let answer =
        or_changes(in_formats("The records, the plan, or their changes.", &listed(table), Shown::List, &["Link"]));
    let members =
        json!({"parameters": parameters, "responses": answers::of(&[(200, answer)], &[&READ[..], &[410]].concat())});
    with(operation(table, "list", "The records that satisfy a query"), members)
}

fn list_by_body(table: &Table) -> Value {
    let body = json!({"required": true, "content": {"text/plain": {
        "schema": {"type": "string", "maxLength": 256 << 10},
        "example": format!("{}!=x&limit=3", table.attributes[table.primary_key].name),
    }}});
    let answer = in_formats("The records, or the plan.", &listed(table), Shown::List, &["Link"]);
    let members = json!({"requestBody": body, "responses": answers::of(&[(200, answer)], &WITH_BODY)});
    with(operation(table, "query", "The records that satisfy a query, which is the body"), members)
}

fn create(table: &Table) -> Value {
    let (new, created) = (reference(&format!("{}.new", table.name)), reference(&table.name));
    let many = json!({"type": "array", "items": new, "maxItems": encoding::RECORDS});
    let created = json!({"anyOf": [created, {"type": "array", "items": created}]});
    let answer = in_formats("The record, or the records of an array.", &created, Shown::One, &[]);
    let of_one = [("ETag", "Of one record."), ("Location", "The path of one record.")];
    let answer = that_may_have(or_minimal(answer), &of_one);
    let loaded = in_formats("What has become of the lines.", &reference("strata.Load"), Shown::One, &[]);
    let mut body = body_of(json!({"anyOf": [new, many]}), &RECORDS);
    let lines =
        json!({"type": "string", "description": "Records in JSON, one a line, each created or refused by itself."});
    body["content"]["application/x-ndjson"] = json!({"schema": lines});
    let members = json!({
        "parameters": shared(&["If-Absent", "Prefer"]),
        "requestBody": body,
        "responses": answers::of(&[(200, loaded), (201, answer)], &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(
        operation(table, "create", "Creates a record, all of an array or none, or each of any number of lines"),
        members,
    )
}

fn replace_all(table: &Table) -> Value {
    let new = reference(&format!("{}.new", table.name));
    let many = json!({"type": "array", "items": new, "maxItems": encoding::RECORDS});
    let answer = in_formats("How many.", &counts(&["created", "replaced"]), Shown::One, &[]);
    let members = json!({
        "requestBody": body_of(many, &RECORDS),
        "responses": answers::of(&[(200, answer)], &[&WITH_BODY[..], &[409]].concat()),
    });
    with(operation(table, "replaceAll", "Replaces or creates all records of an array, or none"), members)
}

fn merge_matching(table: &Table) -> Value {
    let answer = in_formats("How many.", &counts(&["updated"]), Shown::One, &[]);
    let members = json!({
        "parameters": conditions(table),
        "requestBody": body_of(reference(&format!("{}.patch", table.name)), &PATCH),
        "responses": answers::of(&[(200, answer)], &[&WITH_BODY[..], &[409]].concat()),
    });
    with(operation(table, "mergeMatching", "Changes the records that satisfy a query by a merge patch"), members)
}

/// An object of numbers of records.
fn counts(names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "integer", "minimum": 0}))).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// What may be asked of a record that is there now.
fn links(table: &Table) -> Value {
    let of_record = ["read", "merge", "delete"].map(|verb| (verb.to_owned(), link(format!("{verb}.{}", table.name))));
    let of_blobs = table.blobs.iter().map(|position| {
        let name = &table.attributes[*position].name;
        (format!("write-{name}"), link(format!("writeBlob.{}.{name}", table.name)))
    });
    of_record.into_iter().chain(of_blobs).collect()
}

/// A link to an operation on the same record.
pub(super) fn link(operation: String) -> Value {
    json!({"operationId": operation, "parameters": {"id": "$request.path.id"}})
}

fn delete_matching(table: &Table) -> Value {
    let mut parameters = conditions(table);
    parameters.extend(shared(&["truncate"]));
    let all = json!({
        "type": "object",
        "properties": {"truncated": {"const": true}},
        "required": ["truncated"],
        "additionalProperties": false,
    });
    let schema = json!({"oneOf": [counts(&["deleted"]), all]});
    let answer = in_formats("How many were deleted, or that all were.", &schema, Shown::One, &[]);
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
    let answer = in_formats("The record, what `select` shows of it, or its changes.", &record, Shown::One, &[]);
    let answer = that_may_have(or_changes(answer), &[("ETag", "Of the record; changes have none.")]);
    let own = [(200, answer), (304, empty("The client has it already.", &["ETag"]))];
    let members = json!({"parameters": parameters, "responses": answers::of(&own, &[&READ[..], &[404, 410]].concat())});
    with(operation(table, "read", "A record"), members)
}

fn replace(table: &Table) -> Value {
    let answer = |description, headers: &[&str]| {
        let mut answer = in_formats(description, &reference(&table.name), Shown::One, headers);
        answer["links"] = links(table);
        answer
    };
    let own = [
        (200, answer("Replaced: the record.", &["ETag"])),
        (201, or_minimal(answer("Created: the record.", &["ETag", "Location"]))),
        minimal(),
    ];
    let members = json!({
        "parameters": shared(&["If-Match", "If-Absent", "Prefer"]),
        "requestBody": body_of(reference(&format!("{}.whole", table.name)), &RECORDS),
        "responses": answers::of(&own, &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(operation(table, "replace", "Replaces a record, or creates it"), members)
}

fn merge(table: &Table) -> Value {
    let answer = in_formats("The record afterwards.", &reference(&table.name), Shown::One, &["ETag"]);
    let members = json!({
        "parameters": shared(&["If-Match", "Prefer"]),
        "requestBody": body_of(reference(&format!("{}.patch", table.name)), &PATCH),
        "responses": answers::of(&[(200, answer), minimal()], &[&WITH_BODY[..], &[404, 409, 412]].concat()),
    });
    with(operation(table, "merge", "Changes a record by a merge patch"), members)
}

/// What stands for 200 where `Prefer` wants no record.
fn minimal() -> (u16, Value) {
    (204, empty("Done, and `Prefer` wants no record.", &["ETag", "Preference-Applied"]))
}

/// The same answer, which has no body where `Prefer` wants none.
fn or_minimal(answer: Value) -> Value {
    that_may_have(answer, &[("Preference-Applied", "There is no body, as `Prefer` wants it.")])
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
    let description = "Events `put` and `delete` with the record, and an id to resume from by `Last-Event-ID`.";
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
        Kind::Blob => json!({"const": "null"}),
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
    let sortable = table
        .attributes
        .iter()
        .filter(|attribute| !attribute.list && !matches!(attribute.kind, Kind::Any | Kind::Blob));
    let both: Vec<_> = sortable.map(|attribute| [attribute.name.clone(), format!("-{}", attribute.name)]).collect();
    let once = both
        .iter()
        .map(|[up, down]| json!({"not": {"allOf": [{"contains": {"const": up}}, {"contains": {"const": down}}]}}));
    let once: Vec<_> = once.collect();
    let mut sort = names("sort", "Ascending, or descending with `-`; each attribute once.", both.concat());
    sort["schema"]["allOf"] = json!(once);
    sort
}
