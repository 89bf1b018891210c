//! The OpenAPI document: it is one, and the server does what it says.
//!
//! Every response of the manual (`tests/golden/http` and `tests/golden/redis`, which other tests hold against a real server) has to be
//! described: its path, method and status, its media type, the headers that are promised, and its body by the schema that stands there.
//!
//! `openapi/schema.json` is the meta-schema of the OpenAPI Initiative for 3.1
//! (<https://spec.openapis.org/oas/3.1/schema/2022-10-07>), as it is published.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use strata::openapi;
use strata::schema::Schema;

use super::http::client;

fn document() -> Value {
    document_of(&client::schema())
}

fn document_of(schema: &Path) -> Value {
    let schema = Schema::parse(&fs::read_to_string(schema).unwrap()).unwrap();
    openapi::document(&schema, 3)
}

#[test]
fn the_document_is_served_and_known_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = client::start(folder.path(), |config| config.handlers.max_rows = 3);
    let ask = |header: &str| {
        let mut connection = client::Connection::open(server.url());
        connection.send(&format!("GET /_openapi.json HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"));
        connection.receive(false)
    };
    let response = ask("");
    assert_eq!((response.status, response.header("content-type")), (200, "application/json"));
    assert_eq!(serde_json::from_str::<Value>(&response.body).unwrap(), document());
    assert_eq!(ask(&format!("If-None-Match: {}\r\n", response.header("etag"))).status, 304);
    server.stop().unwrap();
}

#[test]
fn the_document_is_one() {
    let meta_schema: Value = serde_json::from_str(include_str!("openapi/schema.json")).unwrap();
    let document = document();
    let validator = jsonschema::validator_for(&meta_schema).unwrap();
    let errors: Vec<_> =
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new());
    assert!(!validator.is_valid(&json!({"openapi": "3.1.1"})), "the meta-schema refuses nothing");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
    }
}

/// What has no sense without what it refers to is there: references, and the operations of links.
#[test]
fn references_lead_somewhere() {
    let document = document();
    let mut operations = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        operations.extend(item.as_object().unwrap().values().filter_map(|operation| operation["operationId"].as_str()));
    }
    let all = operations.len();
    operations.sort_unstable();
    operations.dedup();
    assert_eq!(operations.len(), all, "an operation's id is its own");
    let (mut references, mut links) = (Vec::new(), Vec::new());
    collect(&document["paths"], &mut references, &mut links);
    collect(&document["components"], &mut references, &mut links);
    assert!(!references.is_empty() && !links.is_empty());
    for reference in references {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    for link in links {
        assert!(operations.contains(&link), "{link}");
    }
}

fn collect<'d>(value: &'d Value, references: &mut Vec<&'d str>, links: &mut Vec<&'d str>) {
    match value {
        Value::Object(members) => {
            references.extend(members.get("$ref").and_then(Value::as_str));
            let of_link = members.get("operationId").filter(|_| !members.contains_key("responses"));
            links.extend(of_link.and_then(Value::as_str));
            members.values().for_each(|member| collect(member, references, links));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, references, links)),
        _ => {}
    }
}

/// A body of each type that is described is read, and of no other; a response in each type that is described is made, and in no other.
#[test]
fn media_types_are_those_that_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let server = client::start(folder.path(), |_| {});
    let ask = |method: &str, path: &str, header: &str| {
        let mut connection = client::Connection::open(server.url());
        let length = if header.starts_with("Accept") { "" } else { "Content-Length: 0\r\n" };
        connection.send(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n{length}\r\n"));
        connection.receive(false)
    };
    let document = document();
    let (mut read, mut made) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "1").replace("{group}", "g");
        for method in ["post", "put", "patch"] {
            let types = item[method]["requestBody"]["content"].as_object();
            let method = method.to_uppercase();
            for name in types.into_iter().flat_map(serde_json::Map::keys).filter(|name| *name != "*/*") {
                assert_ne!(
                    ask(&method, &path, &format!("Content-Type: {name}")).status,
                    415,
                    "{method} {path}: {name}"
                );
                read += 1;
            }
            assert!(
                types.is_none_or(|types| types.keys().any(|name| name != "*/*")),
                "{method} {path}: a client generator would leave it out"
            );
            if types.is_some_and(|types| !types.contains_key("*/*")) {
                assert_eq!(ask(&method, &path, "Content-Type: image/png").status, 415, "{method} {path}");
            }
        }
        let types = item["get"]["responses"]["200"]["content"].as_object();
        for name in types
            .into_iter()
            .flat_map(serde_json::Map::keys)
            .filter(|name| path.starts_with("/Author") && *name != "text/event-stream")
        {
            let response = ask("GET", &path, &format!("Accept: {}", name.replace("; charset=utf-8", "")));
            match response.status {
                200 => assert_eq!(response.header("content-type"), name, "{path}"),
                other => assert_eq!(other, 404, "{path}: {name}"),
            }
            made += 1;
        }
    }
    assert_eq!(ask("GET", "/Author", "Accept: image/png").status, 406);
    assert!(read > 50 && made > 10, "{read} {made}");
    server.stop().unwrap();
}

/// A request of the manual and its response.
struct Step<'s> {
    request: &'s str,
    method: &'s str,
    path: &'s str,
    status: &'s str,
    headers: Vec<(&'s str, &'s str)>,
    body: &'s str,
}

impl<'s> Step<'s> {
    fn read(step: &'s str) -> Self {
        let (request, response) = step.split_once("\n---\n").unwrap();
        let line = request.lines().find(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
        let (method, target) = line.split_once(' ').unwrap();
        let (head, body) = response.split_once("\n\n").unwrap_or((response, ""));
        let mut lines = head.lines();
        Self {
            request: line,
            method,
            path: target.split('?').next().unwrap(),
            status: lines.next().unwrap().split(' ').next().unwrap(),
            headers: lines.filter_map(|line| line.split_once(": ")).collect(),
            body: body.trim_end(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// What the document says against a response; nothing if it is as described.
fn objection(document: &Value, step: &Step<'_>) -> Option<String> {
    let Some(item) = item(document, step) else {
        return (step.status != "404").then(|| "nothing is described at this path".to_owned());
    };
    let method = if step.method == "HEAD" { "get".to_owned() } else { step.method.to_lowercase() };
    let Some(operation) = item.get(&method) else {
        return (step.status != "405").then(|| "the method is not described".to_owned());
    };
    let Some(described) = operation["responses"].get(step.status) else {
        return Some("the status is not described".to_owned());
    };
    let described = follow(document, described).unwrap();
    for (name, header) in described["headers"].as_object().into_iter().flatten() {
        let header = follow(document, header).unwrap();
        if header["required"] == true && step.header(name).is_none() {
            return Some(format!("there is no {name}"));
        }
    }
    let Some(media_type) = step.header("content-type") else {
        let left_out = step.method == "HEAD" || step.header("preference-applied").is_some();
        return described.get("content").filter(|_| !left_out).map(|_| "there is no body".to_owned());
    };
    let essence = media_type.split(';').next().unwrap();
    let content = [media_type, essence, "*/*"].into_iter().find_map(|name| described["content"].get(name));
    let Some(content) = content else {
        return Some(format!("{media_type} is not described"));
    };
    let is_json = essence == "application/json" || essence.ends_with("+json");
    if step.body.is_empty() || !is_json {
        return None;
    }
    let mut schema = content["schema"].clone();
    schema["components"] = document["components"].clone();
    let body: Value = serde_json::from_str(step.body).unwrap();
    let refused = jsonschema::validator_for(&schema).unwrap().validate(&body).err()?;
    Some(format!("{}: {refused}", refused.instance_path()))
}

/// The item of a path: the one that stands there as it is, and that has the method, before the one with an id.
fn item<'d>(document: &'d Value, step: &Step<'_>) -> Option<&'d Value> {
    let path = step.path.strip_suffix('/').unwrap_or(step.path);
    let fits = |template: &str| {
        let mut parts = (template.split('/'), path.split('/'));
        template.split('/').count() == path.split('/').count()
            && parts.0.all(|part| parts.1.next().is_some_and(|given| part == given || part.starts_with('{')))
    };
    let mut items: Vec<_> =
        document["paths"].as_object().unwrap().iter().filter(|(template, _)| fits(template)).collect();
    items.sort_by_key(|(template, _)| template.contains('{'));
    let method = step.method.to_lowercase();
    let with_method = items.iter().find(|(_, item)| item.get(&method).is_some());
    with_method.or(items.last()).map(|(_, item)| *item)
}

fn follow<'d>(document: &'d Value, value: &'d Value) -> Option<&'d Value> {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.trim_start_matches('#')),
        None => Some(value),
    }
}

#[test]
fn every_response_of_the_manual_is_described() {
    for (schema, least) in [(client::schema(), 100), (client::schema_of_redis(), 40)] {
        let checked = assert_described(&document_of(&schema), schema.parent().unwrap());
        assert!(checked > least, "{checked} answers of {}", schema.display());
    }
}

/// Checks the scripts of a folder; returns the number of responses.
fn assert_described(document: &Value, folder: &Path) -> usize {
    let (mut wrong, mut checked) = (String::new(), 0);
    for case in fs::read_dir(folder).unwrap() {
        let case = case.unwrap().path();
        // Files beside the tables are anybody's; those of the console are left out below.
        if case.extension().is_some() || case.file_name().unwrap() == "static_files" {
            continue;
        }
        let script = fs::read_to_string(&case).unwrap();
        let is_file = |path: &str| path == "/" || path.starts_with("/_console");
        let steps = script.split("\n===\n").map(Step::read);
        for step in steps.filter(|step| step.method != "OPTIONS" && !is_file(step.path)) {
            checked += 1;
            if let Some(objection) = objection(document, &step) {
                let name = case.file_name().unwrap().display();
                writeln!(wrong, "{name}: {} is {}: {objection}", step.request, step.status).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    checked
}

#[test]
fn what_is_not_described_is_found() {
    let document = document();
    let found = |step: &str| objection(&document, &Step::read(step)).unwrap_or_default();
    let json = "content-type: application/json";
    assert_eq!(found(&format!("GET /_ready\n---\n200 OK\n{json}\n\n{{\"status\":\"ready\"}}")), "");
    assert!(found(&format!("GET /_ready\n---\n200 OK\n{json}\n\n{{}}")).contains("required"));
    assert!(found(&format!("GET /_ready\n---\n418 Teapot\n{json}\n\n{{}}")).contains("status"));
    assert!(found("GET /_ready\n---\n200 OK\ncontent-type: text/plain\n\nx").contains("text/plain"));
    assert!(found("POST /_ready\n---\n200 OK\n").contains("method"));
    assert!(found("GET /Nothing\n---\n200 OK\n").contains("path"));
    assert!(found(&format!("PUT /Product/1\n---\n201 Created\n{json}\netag: x\n\n{{}}")).contains("Location"));
}
