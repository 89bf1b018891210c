//! The paths of tables with their operations.
//!
//! Each operation is one function that reads from top to bottom: its request, and every status of its response.

use serde_json::{Map, Value, json};

use super::parts::{DELETE, RECORDS, WITH_BODY, body_of, link, operation, parameter, reference, shared, tags, with};
use super::responses::{self, empty, in_formats, with_optional_headers};
use super::schemas;
use crate::encoding;
use crate::handlers::media::ResponseKind;
use crate::schema::{Attribute, Kind, Table};

/// Refusals of a request that reads records.
const READ: [u16; 6] = [400, 403, 406, 421, 500, 503];
/// Media types of a merge patch.
const PATCH: [&str; 4] =
    ["application/merge-patch+json", "application/json", "application/cbor", "application/msgpack"];

/// Adds the paths of a table.
pub(super) fn add_paths(table: &Table, paths: &mut Map<String, Value>) {
    paths.insert(
        format!("/{}", table.name),
        if table.in_redis { json!({"get": list(table)}) } else { collection(table) },
    );
    paths.insert(format!("/{}/query", table.name), json!({"post": list_by_body(table)}));
    if table.multicast.is_some() {
        paths.insert(format!("/{}/multicast", table.name), json!({"post": multicast(table)}));
    }
    paths.insert(format!("/{}/{{id}}", table.name), record(table));
}

/// Returns the shared parameters.
pub(super) fn parameters(max_rows: usize) -> Value {
    let text = || json!({"type": "string"});
    let flag = || json!({"type": "boolean"});
    let header = |name, description, schema| parameter("header", name, description, schema);
    let clause = |name, description, schema| parameter("query", name, description, schema);
    json!({
        "id": {
            "name": "id",
            "in": "path",
            "required": true,
            "description": "The primary key, percent-encoded.",
            "schema": schemas::id(),
        },
        "If-Match": header("If-Match", "Entity tags or `*`; 412 if none matches the stored version.", tags()),
        "If-None-Match": header("If-None-Match", "Entity tags of the client's copies; 304 if one is current.", text()),
        "If-Absent": header("If-None-Match", "`*`: 412 if the record or blob exists.", json!({"type": "string", "pattern": "^\\*$"})),
        "Range": header(
            "Range",
            "A byte range; of several ranges none is used and the whole is returned.",
            text(),
        ),
        "If-Range": header(
            "If-Range",
            "Return the range only if the entity tag matches; otherwise the whole.",
            text(),
        ),
        "Prefer": header("Prefer", "`return=minimal`: the response has no record.", text()),
        "Prefer-Receipt": header(
            "Prefer",
            "`wait=SECONDS` (0 to 30, 1): how long to wait for subscribers; `respond-async`: not at all; `return=representation`: add the targets without delivery.",
            text(),
        ),
        "Idempotency-Key": header(
            "Idempotency-Key",
            "The same key, query and body again send nothing.",
            json!({"type": "string", "pattern": "^[!-~]{1,255}$"}),
        ),
        "limit": clause(
            "limit",
            "The maximum number of records.",
            json!({"type": "integer", "minimum": 0, "maximum": max_rows}),
        ),
        "offset": clause("offset", "The number of records to skip.", json!({"type": "integer", "minimum": 0})),
        "after": clause("after", "The cursor of a truncated list, from its `Link`.", text()),
        "pagination": clause("pagination", "Return an object with the total count.", flag()),
        "explain": clause("explain", "Return the query plan instead of the records.", flag()),
        "stream": clause(
            "stream",
            "Stream changes from now on; cannot be combined with other parameters but `hold`.",
            json!({"type": "string", "enum": ["sse"]}),
        ),
        "hold": clause("hold", "With `stream`: the record does not expire while the stream is open.", flag()),
        "Last-Event-ID": header(
            "Last-Event-ID",
            "With `stream`: resume after this event; 410 if the log does not reach back to it.",
            text(),
        ),
        "truncate": clause("truncate", "Delete all records of the table.", json!({"type": "string", "enum": ["true"]})),
    })
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
    if table.in_redis {
        let (id, get, put, delete) = (shared(&["id"]), read(table), replace(table), delete(table));
        return json!({"parameters": id, "get": get, "put": put, "delete": delete});
    }
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
    parameters.extend(shared(&["limit", "offset", "after", "pagination"]));
    let mut response =
        in_formats("The records, the query plan, or changes.", &listed(table), ResponseKind::List, &["Link"]);
    if !table.in_redis {
        parameters.extend(shared(&["explain", "stream", "Last-Event-ID"]));
        response = or_changes(response);
    }
    let members = json!({
        "parameters": parameters,
        "responses": responses::of(&[(200, response)], &[&READ[..], &[410]].concat()),
    });
    with(operation(table, "list", "Lists the records that satisfy a query"), members)
}

fn list_by_body(table: &Table) -> Value {
    let body = json!({"required": true, "content": {"text/plain": {
        "schema": {"type": "string", "maxLength": 256 << 10},
        "example": format!("{}!=x&limit=3", table.attributes[table.primary_key].name),
    }}});
    let response = in_formats("The records, or the query plan.", &listed(table), ResponseKind::List, &["Link"]);
    let members = json!({"requestBody": body, "responses": responses::of(&[(200, response)], &WITH_BODY)});
    with(operation(table, "query", "Lists the records that satisfy the query in the body"), members)
}

fn create(table: &Table) -> Value {
    let (new, created) = (reference(&format!("{}.new", table.name)), reference(&table.name));
    let many = json!({"type": "array", "items": new, "maxItems": encoding::RECORDS});
    let created = json!({"anyOf": [created, {"type": "array", "items": created}]});
    let response = in_formats("The created record, or the records of an array.", &created, ResponseKind::One, &[]);
    let of_one = [("ETag", "For a single record."), ("Location", "The path of a single record.")];
    let response = with_optional_headers(or_minimal(response), &of_one);
    let loaded = in_formats("The result of loading the lines.", &reference("strata.Load"), ResponseKind::One, &[]);
    let mut body = body_of(json!({"anyOf": [new, many]}), &RECORDS);
    let lines =
        json!({"type": "string", "description": "One JSON record per line, each created or refused independently."});
    body["content"]["application/x-ndjson"] = json!({"schema": lines});
    let members = json!({
        "parameters": shared(&["If-Absent", "Prefer"]),
        "requestBody": body,
        "responses": responses::of(&[(200, loaded), (201, response)], &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(
        operation(table, "create", "Creates a record, all records of an array or none, or each of any number of lines"),
        members,
    )
}

fn replace_all(table: &Table) -> Value {
    let new = reference(&format!("{}.new", table.name));
    let many = json!({"type": "array", "items": new, "maxItems": encoding::RECORDS});
    let response = in_formats(
        "The numbers of records created and replaced.",
        &counts(&["created", "replaced"]),
        ResponseKind::One,
        &[],
    );
    let members = json!({
        "requestBody": body_of(many, &RECORDS),
        "responses": responses::of(&[(200, response)], &[&WITH_BODY[..], &[409]].concat()),
    });
    with(operation(table, "replaceAll", "Replaces or creates all records of an array, or none"), members)
}

fn merge_matching(table: &Table) -> Value {
    let response = in_formats("The number of updated records.", &counts(&["updated"]), ResponseKind::One, &[]);
    let members = json!({
        "parameters": conditions(table),
        "requestBody": body_of(reference(&format!("{}.patch", table.name)), &PATCH),
        "responses": responses::of(&[(200, response)], &[&WITH_BODY[..], &[409]].concat()),
    });
    with(operation(table, "mergeMatching", "Applies a merge patch to the records that satisfy a query"), members)
}

/// Returns the schema of an object of record counts.
fn counts(names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "integer", "minimum": 0}))).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// Returns links to the operations on an existing record.
fn links(table: &Table) -> Value {
    let verbs = ["read", "merge", "delete"].into_iter().filter(|verb| !table.in_redis || *verb != "merge");
    let of_record = verbs.map(|verb| (verb.to_owned(), link(format!("{verb}.{}", table.name))));
    let of_blobs = table.blobs.iter().map(|position| {
        let name = &table.attributes[*position].name;
        (format!("write-{name}"), link(format!("writeBlob.{}.{name}", table.name)))
    });
    of_record.into_iter().chain(of_blobs).collect()
}

fn delete_matching(table: &Table) -> Value {
    let mut parameters = conditions(table);
    parameters.extend(shared(&["truncate"]));
    let all = json!({
        "type": "object",
        "properties": {"truncated": {"type": "boolean", "const": true}},
        "required": ["truncated"],
        "additionalProperties": false,
    });
    let schema = json!({"oneOf": [counts(&["deleted"]), all]});
    let response =
        in_formats("The number of deleted records, or that all were deleted.", &schema, ResponseKind::One, &[]);
    let members = json!({
        "parameters": parameters,
        "responses": responses::of(&[(200, response)], &[&DELETE[..], &[406]].concat()),
    });
    with(
        operation(table, "deleteMatching", "Deletes the records that satisfy a query, or all with truncate=true"),
        members,
    )
}

fn read(table: &Table) -> Value {
    let mut parameters = shared(&["If-None-Match", "stream", "Last-Event-ID"]);
    if table.expiration.is_some() && !table.in_redis {
        parameters.extend(shared(&["hold"]));
    }
    parameters.push(select(table));
    let record = reference(&format!("{}.shown", table.name));
    let response = in_formats("The record, reduced by `select`, or its changes.", &record, ResponseKind::One, &[]);
    let sunset =
        table.expires().then_some(("Sunset", "When the record ends, if it is neither written nor renewed (RFC 8594)."));
    let headers = [("ETag", "Of the record; a stream of changes has none.")].into_iter().chain(sunset);
    let response = with_optional_headers(or_changes(response), &headers.collect::<Vec<_>>());
    let own = [(200, response), (304, empty("The client has the current version.", &["ETag"]))];
    let members =
        json!({"parameters": parameters, "responses": responses::of(&own, &[&READ[..], &[404, 410]].concat())});
    with(operation(table, "read", "Reads a record"), members)
}

fn replace(table: &Table) -> Value {
    let response = |description, headers: &[&str]| {
        let mut response = in_formats(description, &reference(&table.name), ResponseKind::One, headers);
        response["links"] = links(table);
        response
    };
    let own = [
        (200, response("Replaced; the new record.", &["ETag"])),
        (201, or_minimal(response("Created; the new record.", &["ETag", "Location"]))),
        minimal(),
    ];
    let members = json!({
        "parameters": shared(if table.in_redis { &["If-Absent", "Prefer"] } else { &["If-Match", "If-Absent", "Prefer"] }),
        "requestBody": body_of(reference(&format!("{}.whole", table.name)), &RECORDS),
        "responses": responses::of(&own, &[&WITH_BODY[..], &[409, 412]].concat()),
    });
    with(operation(table, "replace", "Replaces a record, or creates it"), members)
}

fn merge(table: &Table) -> Value {
    let response = in_formats("The changed record.", &reference(&table.name), ResponseKind::One, &["ETag"]);
    let members = json!({
        "parameters": shared(&["If-Match", "Prefer"]),
        "requestBody": body_of(reference(&format!("{}.patch", table.name)), &PATCH),
        "responses": responses::of(&[(200, response), minimal()], &[&WITH_BODY[..], &[404, 409, 412]].concat()),
    });
    with(operation(table, "merge", "Applies a merge patch to a record"), members)
}

fn multicast(table: &Table) -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let answered = |required: &[&str], more: &[(&str, Value)]| {
        let mut properties = json!({"id": schemas::id(), "targets": count});
        more.iter().for_each(|(name, schema)| properties[name] = schema.clone());
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let undelivered = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": schemas::id(), "state": {"type": "string", "enum": ["absent", "pending", "failed"]}},
            "required": ["id", "state"],
            "additionalProperties": false,
        },
    });
    let reasons = ["unreachable", "timeout", "refused"];
    let properties: Map<_, _> = reasons.iter().map(|one| ((*one).to_owned(), count.clone())).collect();
    let failures =
        json!({"type": "object", "properties": properties, "required": reasons, "additionalProperties": false});
    let states = ["delivered", "absent", "pending", "failed"].map(|state| (state, count.clone()));
    let told = answered(
        &["id", "targets", "delivered", "absent", "pending", "failed"],
        &[&states[..], &[("failures", failures), ("undelivered", undelivered)]].concat(),
    );
    let repeated = ("repeated", json!({"type": "boolean", "const": true}));
    let told = json!({"oneOf": [told, answered(&["id", "targets", "repeated"], &[repeated])]});
    let described = "The states of the targets, or that the message repeats another one, and nothing was sent.";
    let own = [
        (200, in_formats(described, &told, ResponseKind::One, &[])),
        (202, in_formats("The message is stored.", &answered(&["id", "targets"], &[]), ResponseKind::One, &[])),
    ];
    let own = own.map(|(status, response)| {
        (status, with_optional_headers(response, &[("Preference-Applied", "The preferences that were applied.")]))
    });
    let mut parameters = conditions(table);
    parameters.extend(shared(&["Idempotency-Key", "Prefer-Receipt"]));
    let members = json!({
        "parameters": parameters,
        "requestBody": body_of(json!({}), &RECORDS),
        "responses": responses::of(&own, &[&WITH_BODY[..], &[409, 507]].concat()),
    });
    with(operation(table, "multicast", "Sends a message to all records that satisfy a query"), members)
}

/// Returns the response that replaces 200 if `Prefer` asks for no record.
fn minimal() -> (u16, Value) {
    (204, empty("Success without a body, as requested by `Prefer`.", &["ETag", "Preference-Applied"]))
}

/// Returns the same response, which has no body if `Prefer` asks for none.
fn or_minimal(response: Value) -> Value {
    with_optional_headers(response, &[("Preference-Applied", "Set if `Prefer: return=minimal` was applied.")])
}

fn delete(table: &Table) -> Value {
    let own = [(204, json!({"description": "Deleted."}))];
    let members = json!({
        "parameters": shared(if table.in_redis { &[] } else { &["If-Match"] }),
        "responses": responses::of(&own, &[&DELETE[..], &[404, 412]].concat()),
    });
    with(operation(table, "delete", "Deletes a record"), members)
}

/// Returns the same response, or the change stream that `stream=sse` asks for.
fn or_changes(mut response: Value) -> Value {
    let description = "Events `put`, `delete` and `truncate`, each with an id to resume from with `Last-Event-ID`.";
    response["content"]["text/event-stream"] = json!({"schema": {"type": "string", "description": description}});
    response
}

/// Returns the response of a list.
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
            "properties": {"table": {"type": "string", "const": table.name}, "steps": {"type": "array", "items": {"type": "object"}}},
            "required": ["table", "steps"],
        },
    ]})
}

/// Returns one parameter for each attribute: an equality condition.
fn conditions(table: &Table) -> Vec<Value> {
    let of = |attribute: &Attribute| {
        json!({
            "name": attribute.name,
            "in": "query",
            "description": "Equality. `*` in text matches any characters; `null` matches null.",
            "schema": compared(attribute.kind),
        })
    };
    table.attributes.iter().map(of).collect()
}

fn compared(kind: Kind) -> Value {
    match kind {
        Kind::Id | Kind::String => json!({"type": "string"}),
        Kind::Any => json!({"type": "string", "minLength": 1}),
        Kind::Int | Kind::Float => json!({"anyOf": [{"type": "number"}, {"type": "string", "const": "null"}]}),
        Kind::Boolean => json!({"type": "string", "enum": ["true", "false", "null"]}),
        Kind::Blob => json!({"type": "string", "const": "null"}),
        Kind::Date => json!({"anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
            {"type": "string", "const": "null"},
        ]}),
    }
}

/// Returns a clause whose value is a list of unique names.
fn names(clause: &str, description: &str, names: Vec<String>) -> Value {
    json!({
        "name": clause,
        "in": "query",
        "description": description,
        "style": "form",
        "explode": false,
        "schema": {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1, "uniqueItems": true},
    })
}

fn select(table: &Table) -> Value {
    let own = table.attributes.iter().map(|attribute| attribute.name.clone());
    let related = table.relationships.iter().map(|relationship| relationship.name.clone());
    names("select", "The attributes and relationships to return, in this order.", own.chain(related).collect())
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
    let mut sort = names("sort", "The attributes to sort by, descending with `-`; each at most once.", both.concat());
    sort["schema"]["allOf"] = json!(once);
    sort
}
