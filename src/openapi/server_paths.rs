//! The paths that belong to no table: GraphQL, and the endpoints about the server.

use serde_json::{Map, Value, json};

use super::parts::{ANY, WITH_BODY, body_of, parameter, reference, shared};
use super::responses::{self, empty, in_json};

/// Returns the paths with their operations.
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
    let health = [(200, state("Reads and writes work.")), (503, state("Writes are refused."))];
    let ready = [(200, state("Ready.")), (503, state("Shutting down."))];
    let counters = [(200, in_json("Counters since the start.", object(), &[]))];
    let statistics = [(200, in_json("What streams have, and what requests do with them lately.", object(), &[]))];
    let tables = [(
        200,
        in_json("The tables with their attributes and indexes.", json!({"type": "array", "items": object()}), &[]),
    )];
    let text = json!({"schema": {"type": "string"}});
    let metrics =
        json!({"description": "Metrics in OpenMetrics 1.0.", "content": {"application/openmetrics-text": text}});
    let document = [
        (200, in_json("The OpenAPI 3.1 document.", object(), &["ETag"])),
        (304, empty("The client has the current version.", &["ETag"])),
    ];
    let mut described = get("openapi", "This document", responses::of(&document, &[&ANY[..], &[412]].concat()));
    described["get"]["parameters"] = json!(shared(&["If-Match", "If-None-Match"]));
    let paths = [
        ("/_health", get("health", "Health", responses::of(&health, &ANY))),
        ("/_ready", get("ready", "Readiness", responses::of(&ready, &ANY))),
        ("/_counters", get("counters", "Counters of storage calls and change feeds", responses::of(&counters, &ANY))),
        ("/_metrics", get("metrics", "Metrics for Prometheus", responses::of(&[(200, metrics)], &ANY))),
        ("/_stats", get("stats", "Streams: watermarks, groups, rates and times", responses::of(&statistics, &ANY))),
        ("/_tables", get("tables", "The served tables", responses::of(&tables, &ANY))),
        ("/_openapi.json", described),
        ("/_checkpoint", json!({"post": checkpoint()})),
        ("/graphql", graphql()),
    ];
    paths.into_iter().map(|(path, item)| (path.to_owned(), item)).collect()
}

fn checkpoint() -> Value {
    let name = || json!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"});
    let schema = json!({"type": "object", "properties": {"name": name()}, "required": ["name"]});
    let own = [(201, in_json("The name of the copy.", schema, &[]))];
    let parameter = parameter("query", "name", "The name of the copy; without one, the time in UTC.", name());
    json!({
        "operationId": "checkpoint",
        "tags": ["Operations"],
        "summary": "Copies the store into the directory for checkpoints on the server's machine; 404 if it has none",
        "parameters": [parameter],
        "responses": responses::of(&own, &[400, 403, 404, 406, 421, 500, 503]),
    })
}

fn graphql() -> Value {
    let response = json!({"description": "The data, or errors (docs/graphql.md).", "content": {
        "application/json": {"schema": {"type": "object"}},
        "application/graphql-response+json": {"schema": {"type": "object"}},
    }});
    let refused = json!({"description": "The request or its document is not valid.", "content": {
        "application/problem+json": {"schema": reference("strata.Problem")},
        "application/graphql-response+json": {"schema": {"type": "object"}},
    }});
    let own = [(200, response), (400, refused)];
    let members = json!({
        "query": {"type": "string"},
        "operationName": {"type": ["string", "null"]},
        "variables": {"type": ["object", "null"]},
        "extensions": {"type": ["object", "null"]},
    });
    let schema = json!({"type": "object", "properties": members, "required": ["query"]});
    let text = |name: &str, description: &str| parameter("query", name, description, json!({"type": "string"}));
    let mut query = text("query", "The GraphQL document.");
    query["required"] = json!(true);
    let object = |name: &str, description: &str| {
        let content = json!({"application/json": {"schema": {"type": ["object", "null"]}}});
        json!({"name": name, "in": "query", "description": description, "content": content})
    };
    let variables = object("variables", "The values of the variables, by name.");
    let extensions = object("extensions", "Ignored: no extension is known.");
    let in_url = [query, text("operationName", "The name of the operation to execute."), variables, extensions];
    json!({
        "get": {
            "operationId": "graphql.get",
            "tags": ["GraphQL"],
            "summary": "Executes a query given in the URL",
            "parameters": in_url,
            "responses": responses::of(&own, &[403, 405, 406, 421, 500, 503]),
        },
        "post": {
            "operationId": "graphql.post",
            "tags": ["GraphQL"],
            "summary": "Executes a query or a mutation",
            "requestBody": body_of(schema, &["application/json"]),
            "responses": responses::of(&own, &WITH_BODY[1..]),
        },
    })
}
