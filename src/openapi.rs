//! The OpenAPI 3.1 document of what is served, made from the schema.
//!
//! It is made of `serde_json` values, because it is a text that is written once and kept: types for every member of OpenAPI would be longer
//! than the document. What stands in it is what the layers below do: a problem is the answer that [`handlers`](crate::handlers) makes of a
//! failure, a type what `encoding` takes for it. `tests/openapi.rs` holds the document against its meta-schema, and every answer of
//! `tests/golden/http` against the document.
//!
//! Non-goals: HEAD and OPTIONS, which are wherever GET and anything is; files and pages for a person; the grammar of queries, which no schema can say
//! (docs/rest.md does): the parameters are the queries that ask for equality.

mod answers;
mod batch;
mod beside;
mod blobs;
mod paths;
mod schemas;

use serde_json::{Value, json};

use crate::schema::Schema;

/// Where OpenAPI documents say which edition they are written in.
const EDITION: &str = "3.1.1";

const DESCRIPTION: &str = "Tables over REST, made from their schema. HEAD is wherever GET is, and OPTIONS everywhere. \
    The parameters of lists say the queries that ask for equality; other operators, logic, and related records in braces stand in the \
    same place of the URL, or in the body of `POST /T/query`. Bodies may be compressed by gzip, and answers are by `Accept-Encoding`. Every answer but those of `/_checkpoint` and `/_counters` goes to whoever can \
    reach the server.";

/// The document: what is served of a schema. `max_rows` is the most records that a list has.
pub fn document(schema: &Schema, max_rows: usize) -> Value {
    let tables = || schema.tables.iter().filter(|table| table.exported);
    let mut tags: Vec<_> = tables().map(|table| json!({"name": table.name})).collect();
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
        "paths": paths::of(tables()),
        "components": {
            "schemas": schemas::of(schema, tables(), max_rows),
            "responses": answers::refused(),
            "headers": answers::headers(),
            "parameters": paths::parameters(max_rows),
        },
    })
}
