//! The OpenAPI 3.1 document of the served tables, generated from the schema.
//!
//! It is built from `serde_json` values because it is written once and cached: types for every member of OpenAPI would be longer than the
//! document. Its content follows the layers below: a problem is the response that [`handlers`](crate::handlers) makes of a failure, a type
//! is what `encoding` accepts for it. `tests/openapi.rs` validates the document against its meta-schema, and every response of
//! `tests/golden/http` against the document.
//!
//! Non-goals: HEAD and OPTIONS, which exist wherever GET or any method does; files and pages for people; the grammar of queries, which no
//! schema can express (see docs/rest.md): only equality conditions are parameters.

mod batch;
mod blobs;
mod parts;
mod paths;
mod responses;
mod schemas;
mod server_paths;
mod streams;

use serde_json::{Map, Value, json};

use crate::schema::{Schema, Stream, Table};

/// The version of OpenAPI that the document declares.
const EDITION: &str = "3.1.1";

const DESCRIPTION: &str = "Tables and event streams over REST, generated from their schema. HEAD is supported wherever GET is, and \
    OPTIONS everywhere. The parameters of lists describe conditions of equality only; other operators, logic, and \
    related records in braces are written in the same part of the URL, or in the body of `POST /T/query`. Request \
    bodies may be compressed with gzip; responses are compressed according to `Accept-Encoding`. Every endpoint except \
    `/_checkpoint`, `/_counters` and `/_stats` is open to any client that can reach the server.";

/// The document: what is served of a schema. `max_rows` is the most records that a list has.
pub fn document(schema: &Schema, max_rows: usize) -> Value {
    let tables = || schema.tables.iter().filter(|table| table.exported);
    let streams = || schema.streams.iter().filter(|stream| stream.exported);
    let names = tables().map(|table| &table.name).chain(streams().map(|stream| &stream.name));
    let mut tags: Vec<_> = names.map(|name| json!({"name": name})).collect();
    tags.extend(["Batch", "GraphQL", "Operations"].map(|name| json!({"name": name})));
    json!({
        "openapi": EDITION,
        "info": {
            "title": "Strata",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "tags": tags,
        "paths": all_paths(tables(), streams()),
        "components": {
            "schemas": all_schemas(schema, tables(), streams(), max_rows),
            "responses": responses::refused(),
            "headers": responses::headers(),
            "parameters": paths::parameters(max_rows),
        },
    })
}

fn all_paths<'s>(tables: impl Iterator<Item = &'s Table>, exported: impl Iterator<Item = &'s Stream>) -> Value {
    let mut all = Map::new();
    for table in tables {
        paths::add_paths(table, &mut all);
        for attribute in table.blobs.iter().map(|position| &table.attributes[*position]) {
            all.insert(blobs::path(table, attribute), blobs::item(table, attribute));
        }
    }
    exported.for_each(|stream| streams::add_paths(stream, &mut all));
    all.insert("/_batch".to_owned(), batch::item());
    all.extend(server_paths::paths());
    Value::Object(all)
}

fn all_schemas<'s>(
    schema: &'s Schema,
    tables: impl Iterator<Item = &'s Table> + Clone,
    exported: impl Iterator<Item = &'s Stream> + Clone,
    max_rows: usize,
) -> Value {
    let in_batches = || tables.clone().filter(|table| !table.in_redis);
    let mut all = schemas::of(schema, tables.clone());
    let batch = batch::request_schema(in_batches(), exported.clone(), max_rows);
    all.insert("strata.Batch".to_owned(), batch);
    all.insert("strata.Results".to_owned(), batch::response_schema(in_batches(), exported.clone()));
    exported.for_each(|stream| streams::add_schemas(stream, &mut all));
    Value::Object(all)
}
