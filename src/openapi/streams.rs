//! The paths of streams: appends, reads and trims; and the schemas of their events.

use serde_json::{Map, Value, json};

use super::parts::{ANY, DELETE, WITH_BODY, body_of, object, parameter, reference, shared};
use super::responses::{self, empty, in_json, with_optional_headers};
use crate::encoding;
use crate::handlers::streams::{LONGEST_WAIT_MS, MOST_EVENTS};
use crate::schema::GROUP_BYTES;
use crate::schema::Stream;
use crate::streams::{IDEMPOTENCY_KEY_BYTES, KEY_BYTES, LATEST_MS};

/// Adds the paths of a stream.
pub(super) fn add_paths(stream: &Stream, paths: &mut Map<String, Value>) {
    let item = json!({"get": read(stream), "post": append(stream), "delete": trim(stream)});
    paths.insert(format!("/{}", stream.name), item);
    paths.insert(format!("/{}/bulk", stream.name), json!({"post": append_all(stream)}));
    paths.insert(format!("/{}/consumers", stream.name), json!({"get": groups(stream)}));
    paths.insert(format!("/{}/consumers/{{group}}", stream.name), group(stream));
}

/// Adds the schemas of the events of a stream.
pub(super) fn add_schemas(stream: &Stream, schemas: &mut Map<String, Value>) {
    schemas.insert(format!("{}.event", stream.name), event(stream));
    schemas.insert(format!("{}.record", stream.name), record(stream));
    schemas.insert(format!("{}.place", stream.name), place(stream));
    schemas.insert(format!("{}.group", stream.name), shown_group(stream));
    schemas.insert(format!("{}.offsets", stream.name), offsets(stream));
}

fn operation(stream: &Stream, verb: &str, summary: &str, more: Value) -> Value {
    let mut operation =
        json!({"operationId": format!("{verb}.{}", stream.name), "tags": [stream.name], "summary": summary});
    if let (Some(all), Value::Object(more)) = (operation.as_object_mut(), more) {
        all.extend(more);
    }
    operation
}

fn append(stream: &Stream) -> Value {
    let response = in_json("The place of the event.", reference(&format!("{}.place", stream.name)), &[]);
    let more = json!({
        "requestBody": body_of(reference(&format!("{}.event", stream.name)), &["application/json"]),
        "responses": responses::of(&[(202, response)], &[&WITH_BODY[..], &[412, 507]].concat()),
    });
    operation(stream, "append", "Appends an event", more)
}

fn append_all(stream: &Stream) -> Value {
    let events = json!({
        "type": "array",
        "items": reference(&format!("{}.event", stream.name)),
        "maxItems": encoding::RECORDS,
    });
    let offsets = json!({"type": "array", "items": reference(&format!("{}.place", stream.name))});
    let counted =
        object(json!({"count": number(), "duplicates": number(), "offsets": offsets}), &["count", "duplicates"]);
    let response = in_json("The places of the events, in their order; none with `return=minimal`.", counted, &[]);
    let response = with_optional_headers(response, &[("Preference-Applied", "The preference that was applied.")]);
    let more = json!({
        "parameters": shared(&["Prefer"]),
        "requestBody": body_of(object(json!({"records": events}), &["records"]), &["application/json"]),
        "responses": responses::of(&[(202, response)], &[&WITH_BODY[..], &[412, 507]].concat()),
    });
    operation(stream, "appendAll", "Appends events, all or none", more)
}

fn read(stream: &Stream) -> Value {
    let clause = |name, description, schema| parameter("query", name, description, schema);
    let beginning = json!({"oneOf": [number(), {"type": "string", "const": "earliest"}]});
    let parameters = json!([
        optional_partition(stream),
        clause("from", "The offset of the first event; without it the low watermark.", beginning),
        clause(
            "since",
            "Instead of `from`: the first event ingested at this time or later, in ms since 1970.",
            number()
        ),
        clause(
            "limit",
            "The maximum number of events; 0: only the watermarks.",
            json!({"type": "integer", "minimum": 0, "maximum": MOST_EVENTS}),
        ),
        clause(
            "wait",
            "How long an empty answer waits for an event, in milliseconds.",
            json!({"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_MS}),
        ),
        clause(
            "stream",
            "Stream all events from now on, of one partition or of all; with `from`, an offset of one or `earliest`, from there.",
            json!({"type": "string", "enum": ["sse"]}),
        ),
        parameter(
            "header",
            "Last-Event-ID",
            "With `stream`: resume at these offsets, as `0:18,1:4`.",
            json!({"type": "string"})
        ),
    ]);
    let records = json!({"type": "array", "items": reference(&format!("{}.record", stream.name))});
    let page = object(
        json!({"records": records, "next": number(), "lowWatermark": number(), "highWatermark": number()}),
        &["records", "next", "lowWatermark", "highWatermark"],
    );
    let mut events = in_json("The events, and where reading goes on.", page, &[]);
    let description = "Events `records`, with the next offset of each partition as their ids, `gone` and `lagged`.";
    events["content"]["text/event-stream"] = json!({"schema": {"type": "string", "description": description}});
    let own =
        [(200, events), (410, outside("The events were trimmed.")), (416, outside("There are no events there yet."))];
    let more = json!({"parameters": parameters, "responses": responses::of(&own, &[&ANY[..], &[500, 503]].concat())});
    operation(stream, "read", "Reads events of a partition", more)
}

fn trim(stream: &Stream) -> Value {
    let mut parameters = vec![optional_partition(stream)];
    parameters.push(parameter("query", "before", "Trim the events below this offset.", number()));
    parameters.extend(shared(&["truncate"]));
    let trimmed = object(json!({"lowWatermark": number()}), &["lowWatermark"]);
    let truncated = object(json!({"truncated": {"type": "boolean", "const": true}}), &["truncated"]);
    let response = in_json("The low watermark, or that all were trimmed.", json!({"oneOf": [trimmed, truncated]}), &[]);
    let more = json!({
        "parameters": parameters,
        "responses": responses::of(&[(200, response)], &[&DELETE[..], &[406, 409]].concat()),
    });
    operation(stream, "trim", "Trims a partition, or all of them with truncate=true", more)
}

fn groups(stream: &Stream) -> Value {
    let all = json!({"type": "array", "items": reference(&format!("{}.group", stream.name))});
    let own = [(200, in_json("The groups by name.", all, &[]))];
    let more = json!({"responses": responses::of(&own, &[&ANY[..], &[500, 503]].concat())});
    operation(stream, "listGroups", "Lists the consumer groups", more)
}

fn group(stream: &Stream) -> Value {
    let response = || in_json("The group.", reference(&format!("{}.group", stream.name)), &["ETag"]);
    let name = json!({
        "name": "group",
        "in": "path",
        "required": true,
        "description": "The name of the group, percent-encoded.",
        "schema": {"type": "string", "minLength": 1, "maxLength": GROUP_BYTES},
    });
    let read = json!({
        "parameters": shared(&["If-Match"]),
        "responses": responses::of(&[(200, response())], &[&ANY[..], &[404, 412, 500, 503]].concat()),
    });
    let commit = json!({
        "parameters": shared(&["If-Match", "If-Absent"]),
        "requestBody": body_of(reference(&format!("{}.offsets", stream.name)), &["application/json"]),
        "responses": responses::of(&[(200, response())], &[&WITH_BODY[..], &[412, 507]].concat()),
    });
    let remove = json!({
        "parameters": shared(&["If-Match"]),
        "responses": responses::of(&[(204, empty("The group is deleted.", &[]))], &[&DELETE[..], &[404, 406, 412]].concat()),
    });
    json!({
        "parameters": [name],
        "get": operation(stream, "readGroup", "Reads the offsets of a consumer group", read),
        "put": operation(stream, "commit", "Commits offsets of a consumer group, all or none", commit),
        "delete": operation(stream, "removeGroup", "Deletes a consumer group", remove),
    })
}

fn offsets(stream: &Stream) -> Value {
    let offset = object(json!({"partition": partition(stream), "offset": number()}), &["partition", "offset"]);
    object(json!({"offsets": {"type": "array", "items": offset}}), &["offsets"])
}

fn shown_group(stream: &Stream) -> Value {
    let offset = object(
        json!({"partition": partition(stream), "offset": number(), "lag": number()}),
        &["partition", "offset", "lag"],
    );
    object(json!({"group": {"type": "string"}, "offsets": {"type": "array", "items": offset}}), &["group", "offsets"])
}

/// Returns the partition in a URL, without which a stream of one is read, all of them are followed, or truncated.
fn optional_partition(stream: &Stream) -> Value {
    parameter("query", "partition", "The partition.", partition(stream))
}

/// Returns a refusal with both watermarks.
fn outside(description: &str) -> Value {
    json!({"description": description, "content": {"application/problem+json": {"schema": reference("strata.Problem")}}})
}

fn event(stream: &Stream) -> Value {
    let text = |most: usize| json!({"type": "string", "minLength": 1, "maxLength": most});
    let mut members = json!({
        "payload": {"description": "Any JSON value; kept as it is sent."},
        "partition": partition(stream),
        "key": text(KEY_BYTES),
        "timestampMs": {"type": "integer", "minimum": 0, "maximum": LATEST_MS},
        "expectedOffset": number(),
    });
    if stream.idempotency > 0 {
        members["idempotencyKey"] = text(IDEMPOTENCY_KEY_BYTES);
    }
    object(members, &["payload"])
}

fn record(stream: &Stream) -> Value {
    let members = json!({
        "partition": partition(stream),
        "offset": number(),
        "timestampMs": number(),
        "ingestedMs": number(),
        "key": {"type": "string"},
        "idempotencyKey": {"type": "string"},
        "payload": {"description": "The payload as it was sent."},
    });
    object(members, &["partition", "offset", "timestampMs", "ingestedMs", "payload"])
}

fn place(stream: &Stream) -> Value {
    let members =
        json!({"partition": partition(stream), "offset": number(), "duplicate": {"type": "boolean", "const": true}});
    object(members, &["partition", "offset"])
}

fn partition(stream: &Stream) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": stream.partitions - 1})
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}
