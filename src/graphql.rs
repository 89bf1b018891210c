//! GraphQL over the tables: a document is parsed, validated and compiled to queries and verbs once, and cached by its text.
//!
//! A document is parsed (`tokens`, `parser`) and validated (`validation`) as the specification says, against the types generated from the
//! schema (`types`), and compiled (`document`): the fields of tables become a [`Selection`](crate::query::Selection), so that a list with
//! joins is read as over REST, with one batched look-up per relationship, and its response is written as bytes; nothing is resolved field
//! by field. An operation is executed with the variables of its request (`variables`, `run`). async-graphql has the types and answers
//! introspection.
//!
//! Non-goals: subscriptions (the change feed has the changes); types that are not tables.

mod document;
mod parser;
mod run;
mod tokens;
mod types;
mod validation;
mod variables;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dynamic;
use async_graphql_parser::types::{DocumentOperations, ExecutableDocument, OperationDefinition, OperationType};
use async_graphql_parser::{Pos, Positioned};
use async_graphql_value::ConstValue;
use futures_util::FutureExt;
use lru::LruCache;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::handlers::{self, Failure, Response};
use crate::query::Limits;
use crate::schema::Identity;
use crate::storage::ReadTier;
use crate::transaction::Database;
pub use document::Kind;
use document::{Document, Operation};
pub use variables::Given;
use variables::{Inputs, Variables};

/// Maximum length of a document, in bytes.
pub const DOCUMENT_BYTES: usize = 64 << 10;

/// Maximum nesting of selection sets in a document, with its fragments expanded.
pub const DEPTH: usize = 20;

/// Maximum number of fields in a document; a fragment counts at each spread.
pub const FIELDS: usize = 1000;

/// Maximum number of fields at the root of an operation, counted by response name.
pub const ROOT_FIELDS: usize = 50;

/// Maximum memory for compiled documents and their texts, in bytes.
const KEPT_BYTES: usize = 16 << 20;

/// The GraphQL interface of a schema.
pub struct Graphql {
    types: dynamic::Schema,
    inputs: Inputs,
    limits: Limits,
    documents: Mutex<Documents>,
    /// Of a table of the database for which documents are compiled; `None` if it has none.
    identity: Option<Identity>,
}

/// Compiled documents by their text, those that were used last.
struct Documents {
    by_text: LruCache<Box<str>, Kept>,
    bytes: usize,
}

struct Kept {
    document: Arc<Document>,
    bytes: usize,
}

impl Documents {
    fn get(&mut self, text: &str) -> Option<Arc<Document>> {
        self.by_text.get(text).map(|kept| Arc::clone(&kept.document))
    }

    /// Keeps a document, unless it is too long for that, at the cost of those not used for longest.
    fn keep(&mut self, text: &str, document: &Arc<Document>) {
        let bytes = text.len() + document.bytes();
        if bytes > KEPT_BYTES {
            return;
        }
        self.bytes += bytes;
        if let Some(before) = self.by_text.put(text.into(), Kept { document: Arc::clone(document), bytes }) {
            self.bytes -= before.bytes;
        }
        while self.bytes > KEPT_BYTES
            && let Some((_, oldest)) = self.by_text.pop_lru()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

/// A GraphQL request.
#[derive(Debug)]
pub struct Request {
    /// The document.
    pub query: String,
    /// Name of the operation to execute; may be omitted if there is only one.
    pub operation_name: Option<String>,
    /// Values of the variables, by name.
    pub variables: Option<Given>,
}

/// The members of a body; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members {
    query: String,
    #[serde(default)]
    operation_name: Option<String>,
    #[serde(default)]
    variables: Option<Given>,
    /// No extension is known.
    #[serde(default, rename = "extensions")]
    _extensions: Option<Given>,
}

impl Request {
    /// Parses a request from a JSON body.
    ///
    /// # Errors
    /// `Invalid` if the body is not a request.
    pub fn in_body(body: &[u8]) -> Result<Self> {
        let refused = |why: &dyn std::fmt::Display| Error::invalid(format!("the GraphQL request is invalid: {why}"));
        // serde would accept an array of the field values as well.
        let Some(b'{') = body.trim_ascii_start().first() else { return Err(refused(&"expected an object")) };
        let Members { query, operation_name, variables, .. } =
            serde_json::from_slice(body).map_err(|error| refused(&error))?;
        Ok(Self { query, operation_name, variables })
    }

    /// Parses a request from the query of a URL: `query`, `operationName`, and `variables` and `extensions` as JSON. An empty optional
    /// parameter is as if it were absent.
    ///
    /// # Errors
    /// `Invalid` if the query is not a request.
    pub fn in_url(query: &str) -> Result<Self> {
        const NAMES: [&str; 4] = ["query", "operationName", "variables", "extensions"];
        let mut values = NAMES.map(|_| None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(position) = NAMES.iter().position(|known| *known == name) else { continue };
            if values[position].replace(value).is_some() {
                return Err(Error::invalid(format!("{name} is given twice")));
            }
        }
        let [document, operation_name, variables, extensions] = values;
        let document = document.ok_or_else(|| Error::invalid("a GraphQL request by GET needs ?query=DOCUMENT"))?;
        let given = |name: &str, value: Option<Cow<'_, str>>| match value.filter(|value| !value.is_empty()) {
            Some(value) => serde_json::from_str::<Option<Given>>(&value)
                .map_err(|error| Error::invalid(format!("{name}: {error}"))),
            None => Ok(None),
        };
        given("extensions", extensions)?;
        Ok(Self {
            query: document.into_owned(),
            operation_name: operation_name.filter(|name| !name.is_empty()).map(Cow::into_owned),
            variables: given("variables", variables)?,
        })
    }
}

/// An error in a document or its variables, found before anything is executed.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Description of the error.
    pub message: String,
    /// Line and column in the document, from 1, if known.
    pub at: Option<(usize, usize)>,
}

impl Fault {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }

    fn at(at: Pos, message: impl Into<String>) -> Self {
        Self { message: message.into(), at: Some((at.line, at.column)) }
    }
}

/// How a request was sent, which determines what it may do and how errors are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The method is safe (GET): mutations are refused.
    pub safe: bool,
    /// The client accepts `application/graphql-response+json`; an invalid document is then answered with status 400.
    pub strict: bool,
}

impl Graphql {
    /// Creates the interface to the exported tables of a database; `max_rows` is the maximum number of records in a list.
    pub fn new(database: &Database, max_rows: usize) -> Self {
        let types = types::of(database.schema());
        Self {
            inputs: Inputs::of(types.registry()),
            types,
            limits: Limits::in_url(max_rows),
            documents: Mutex::new(Documents { by_text: LruCache::unbounded(), bytes: 0 }),
            identity: database.schema().tables.first().map(|table| table.identity),
        }
    }

    /// Returns the served types in the schema definition language.
    pub fn sdl(&self) -> String {
        self.types.sdl()
    }

    /// Executes a request.
    ///
    /// # Errors
    /// 400 for another database than the interface was created for; 405 for a mutation sent with a safe method; `WouldBlock` on a database
    /// that answers from memory. An invalid request and the failures of its fields are reported in the response.
    pub fn respond(&self, database: &Database, request: &Request, transport: Transport) -> handlers::Result<Response> {
        if self.identity.is_some_and(|identity| !database.schema().has(identity)) {
            return Err(Error::invalid("this GraphQL interface is of another database").into());
        }
        let document = match self.document(database, &request.query)? {
            Ok(document) => document,
            Err(faults) => return Ok(run::refusal(&faults, transport)),
        };
        let operation = match document.operation(request.operation_name.as_deref()) {
            Ok(operation) => operation,
            Err(fault) => return Ok(run::refusal(&[fault], transport)),
        };
        if transport.safe && operation.kind == Kind::Mutation {
            return Err(Failure::Method { allow: "POST" });
        }
        // A mutation of several fields that began here and had to be restarted elsewhere would execute the first fields twice.
        if database.tier() == ReadTier::Memory && operation.kind == Kind::Mutation && operation.roots.len() > 1 {
            return Err(Error::WouldBlock.into());
        }
        let variables = match Variables::coerce(&self.inputs, &operation.variables, request.variables.as_ref()) {
            Ok(variables) => variables,
            Err(fault) => return Ok(run::refusal(&[fault], transport)),
        };
        let introspected = self.introspect(operation, &variables);
        run::run(database, &self.limits, operation, &variables, introspected, transport)
    }

    /// Returns the kind of an operation, and so its cost, if its document is in the cache.
    pub fn known_kind(&self, request: &Request) -> Option<Kind> {
        let document = self.documents.lock().get(request.query.as_str())?;
        document.operation(request.operation_name.as_deref()).ok().map(|operation| operation.kind)
    }

    /// Returns the compiled document of a text, or its errors.
    fn document(&self, database: &Database, text: &str) -> Result<std::result::Result<Arc<Document>, Vec<Fault>>> {
        if let Some(known) = self.documents.lock().get(text) {
            return Ok(Ok(known));
        }
        // Validating one takes as long as tens of reads.
        if database.tier() == ReadTier::Memory {
            return Err(Error::WouldBlock);
        }
        let compiled = document::compile(self.types.registry(), &self.inputs, database.schema(), text);
        Ok(compiled.map(|document| {
            let document = Arc::new(document);
            self.documents.lock().keep(text, &document);
            document
        }))
    }

    /// Returns the response to the introspection fields, if there are any.
    fn introspect(&self, operation: &Operation, variables: &Variables) -> Option<async_graphql::Response> {
        let selected = operation.introspection(variables);
        if selected.items.is_empty() {
            return None;
        }
        let operation = OperationDefinition {
            ty: OperationType::Query,
            variable_definitions: Vec::new(),
            directives: Vec::new(),
            selection_set: Positioned::new(selected, Pos::default()),
        };
        let operations = DocumentOperations::Single(Positioned::new(operation, Pos::default()));
        let mut request = async_graphql::Request::new("");
        request.set_parsed_query(ExecutableDocument { operations, fragments: HashMap::default() });
        let mut response = self.types.execute(request).now_or_never().expect("no resolver waits for anything");
        without_markers(&mut response.data);
        Some(response)
    }
}

fn without_markers(value: &mut ConstValue) {
    match value {
        ConstValue::List(values) => values.iter_mut().for_each(without_markers),
        ConstValue::Object(fields) => {
            fields.shift_remove(document::MARKER);
            fields.values_mut().for_each(without_markers);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use crate::storage;

    #[test]
    fn documents_are_kept_by_what_they_take() {
        let folder = tempfile::tempdir().unwrap();
        let schema = "type T @table @export { id: ID! @primaryKey name: String any: Any tid: ID t: T @relationship(from: \"tid\") }";
        let schema = Schema::parse(schema).unwrap();
        let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
        let graphql = Graphql::new(&database, 100);
        let fields = |conditions: &str| (0..200).map(|name| format!("f{name}: name {conditions} ")).collect::<String>();
        let numbers = vec!["1"; 1000].join(",");
        for round in 0..400 {
            // What each is compiled to is much more than its text.
            for text in [
                format!(
                    "query q{round}($x: Boolean!) {{ T(id: \"1\") {{ ... @include(if: $x) {{ {} }} }} }}",
                    fields("@skip(if: $x)")
                ),
                format!("query q{round} {{ T(id: \"1\") {{ {} t {{ {} }} }} }}", fields(""), fields("")),
                format!("mutation q{round} {{ createT(data: {{any: [{numbers}]}}) {{ id }} }}"),
                format!("query q{round} {{ __schema {{ types {{ name }} }} }}"),
            ] {
                let document = graphql.document(&database, &text).unwrap().unwrap();
                assert!(document.bytes() > text.len() || text.contains("__schema"), "{text}");
            }
            let documents = graphql.documents.lock();
            assert!(documents.bytes <= KEPT_BYTES);
            assert_eq!(documents.bytes, documents.by_text.iter().map(|(_, kept)| kept.bytes).sum::<usize>());
        }
        let documents = graphql.documents.lock();
        assert!((10..1600).contains(&documents.by_text.len()), "{}", documents.by_text.len());
    }
}
