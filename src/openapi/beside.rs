//! The paths that are no table's: GraphQL, and what the server says of itself.

use serde_json::{Map, Value, json};

use super::answers::{self, empty, in_json};
use super::paths::{ANY, WITH_BODY, body_of, parameter, shared};
use super::schemas::reference;

/// The paths with their operations.
pub(super) fn paths() -> Map<String, Value> {
    let get = |name: &str, summary: &str, responses: Value| {
        let operation =
            json!({"operationId": name, "tags": ["Operations"], "summary": summary, "responses": responses});
        json!({"get": operation})
    };
    let state = |description: &str| {
        let schema = json!({"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]});
        in_json(description, schema, &[])
    };
    let object = || json!({"type": "object"});
    let health = [(200, state("It reads and writes.")), (503, state("It refuses writes."))];
    let ready = [(200, state("It wants requests.")), (503, state("It was told to stop."))];
    let counters = [(200, in_json("Since the start.", object(), &[]))];
    let tables = [(200, in_json("Attributes and indexes.", json!({"type": "array", "items": object()}), &[]))];
    let text = json!({"schema": {"type": "string"}});
    let metrics = json!({"description": "OpenMetrics 1.0.", "content": {"application/openmetrics-text": text}});
    let document =
        [(200, in_json("OpenAPI 3.1.", object(), &["ETag"])), (304, empty("The client has it already.", &["ETag"]))];
    let mut described = get("openapi", "This document", answers::of(&document, &ANY));
    described["get"]["parameters"] = json!(shared(&["If-None-Match"]));
    let paths = [
        ("/_health", get("health", "Whether it can read and write", answers::of(&health, &ANY))),
        ("/_ready", get("ready", "Whether it wants requests", answers::of(&ready, &ANY))),
        ("/_counters", get("counters", "Calls into the storage", answers::of(&counters, &[400, 403, 421]))),
        ("/_metrics", get("metrics", "For Prometheus", answers::of(&[(200, metrics)], &ANY))),
        ("/_tables", get("tables", "The tables that are served", answers::of(&tables, &ANY))),
        ("/_openapi.json", described),
        ("/_checkpoint", json!({"post": checkpoint()})),
        ("/graphql", graphql()),
    ];
    paths.into_iter().map(|(path, item)| (path.to_owned(), item)).collect()
}

fn checkpoint() -> Value {
    let schema = json!({"type": "object", "properties": {"directory": {"type": "string"}}, "required": ["directory"]});
    let own = [(201, in_json("Where it is.", schema, &[]))];
    let mut directory = parameter("query", "directory", "Must not exist.", json!({"type": "string", "minLength": 1}));
    directory["required"] = json!(true);
    json!({
        "operationId": "checkpoint",
        "tags": ["Operations"],
        "summary": "A copy of the store in a new directory of the server's machine",
        "parameters": [directory],
        "responses": answers::of(&own, &[400, 403, 421, 500, 503]),
    })
}

fn graphql() -> Value {
    let answer = json!({"description": "What was asked for, or errors (docs/graphql.md).", "content": {
        "application/json": {"schema": {"type": "object"}},
        "application/graphql-response+json": {"schema": {"type": "object"}},
    }});
    let refused = json!({"description": "The request or its document is not valid.", "content": {
        "application/problem+json": {"schema": reference("strata.Problem")},
        "application/graphql-response+json": {"schema": {"type": "object"}},
    }});
    let own = [(200, answer), (400, refused)];
    let members = json!({
        "query": {"type": "string"},
        "operationName": {"type": ["string", "null"]},
        "variables": {"type": ["object", "null"]},
    });
    let schema = json!({"type": "object", "properties": members, "required": ["query"]});
    let text = |name: &str, description: &str| parameter("query", name, description, json!({"type": "string"}));
    let mut query = text("query", "The document.");
    query["required"] = json!(true);
    let variables = json!({
        "name": "variables",
        "in": "query",
        "description": "Their values by name.",
        "content": {"application/json": {"schema": {"type": ["object", "null"]}}},
    });
    let in_url = [query, text("operationName", "Which of its operations."), variables];
    json!({
        "get": {
            "operationId": "graphql.get",
            "tags": ["GraphQL"],
            "summary": "A query, in the URL",
            "parameters": in_url,
            "responses": answers::of(&own, &[405, 406, 421, 500, 503]),
        },
        "post": {
            "operationId": "graphql.post",
            "tags": ["GraphQL"],
            "summary": "A query or a mutation",
            "requestBody": body_of(schema, &["application/json"]),
            "responses": answers::of(&own, &WITH_BODY[1..]),
        },
    })
}
