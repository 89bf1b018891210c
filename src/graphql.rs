//! GraphQL over the tables: a document is parsed and validated once, compiled to queries and verbs, and kept by its text.
//!
//! async-graphql parses documents, validates them against the types that are made of the schema (`types`), and answers introspection.
//! What it validated is compiled (`document`): fields of tables become a [`Selection`](crate::query::Selection), so that a list with joins
//! is read as over REST, one look-up of many records for each relationship, and its answer is written as bytes; nothing is resolved field
//! by field. With the variables of a request (`variables`) an operation is carried out (`run`).
//!
//! Non-goals: subscriptions (the change feed has the changes); types that are not tables.

mod document;
mod run;
mod types;
mod variables;

use std::sync::Arc;

use async_graphql::dynamic;
use async_graphql_value::{ConstValue, Name, indexmap::IndexMap};
use futures_util::FutureExt;
use lru::LruCache;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::handlers::{self, Answer, Failure};
use crate::query::Limits;
use crate::storage::Reach;
use crate::transaction::Database;
use document::Document;
pub use document::Kind;

/// The longest document, in bytes.
pub const DOCUMENT_BYTES: usize = 64 << 10;

/// How many selections may stand in one another, in a document and in what its fragments make of it.
pub const DEPTH: usize = 20;

/// How many fields a document may select, fragments counted wherever they are spread.
pub const FIELDS: usize = 1000;

/// How many fields an operation may have at its root, under whatever names.
pub const ROOT_FIELDS: usize = 50;

/// How many documents are kept.
const KEPT: usize = 512;

/// The GraphQL interface of a schema.
pub struct Graphql {
    types: dynamic::Schema,
    limits: Limits,
    documents: Mutex<LruCache<Box<str>, Arc<Document>>>,
}

/// What a client asks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The document.
    pub query: String,
    /// Which of its operations; may be left out if there is one.
    #[serde(default)]
    pub operation_name: Option<String>,
    /// The values of its variables, by name.
    #[serde(default)]
    pub variables: Option<IndexMap<Name, ConstValue>>,
}

impl Request {
    /// The request that a JSON body is.
    ///
    /// # Errors
    /// `Invalid` if it is none.
    pub fn in_body(body: &[u8]) -> Result<Self> {
        let refused = |why: &dyn std::fmt::Display| Error::invalid(format!("the GraphQL request is invalid: {why}"));
        // serde would take a list of its values for an object.
        match body.trim_ascii_start().first() {
            Some(b'{') => serde_json::from_slice(body).map_err(|error| refused(&error)),
            _ => Err(refused(&"expected an object")),
        }
    }

    /// The request that a query of a URL is: `query`, `operationName`, and `variables` as JSON.
    ///
    /// # Errors
    /// `Invalid` if it is none.
    pub fn in_url(query: &str) -> Result<Self> {
        let (mut document, mut operation_name, mut variables) = (None, None, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "query" => document = Some(value.into_owned()),
                "operationName" => operation_name = Some(value.into_owned()),
                "variables" => {
                    let parsed = serde_json::from_str(&value);
                    variables = parsed.map_err(|error| Error::invalid(format!("variables: {error}")))?;
                }
                _ => {}
            }
        }
        let query = document.ok_or_else(|| Error::invalid("a GraphQL request by GET needs ?query=DOCUMENT"))?;
        Ok(Self { query, operation_name, variables })
    }
}

/// Something that is wrong with a document or its variables, before anything is carried out.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub message: String,
    /// Where in the document, if that is known: line and column, from 1.
    pub at: Option<(usize, usize)>,
}

impl Fault {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }
}

/// How a request came, which decides what it may do and how errors are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// By a safe method: a mutation is refused.
    pub safe: bool,
    /// The client takes `application/graphql-response+json`, in which a document that is not valid has status 400.
    pub strict: bool,
}

impl Graphql {
    /// Over the exported tables of a database; `max_rows` is the most records that a list has.
    pub fn new(database: &Database, max_rows: usize) -> Self {
        Self {
            types: types::of(database.schema()),
            limits: Limits::in_url(max_rows),
            documents: Mutex::new(LruCache::new(KEPT.try_into().expect("it is not 0"))),
        }
    }

    /// What is served, in the schema definition language.
    pub fn sdl(&self) -> String {
        self.types.sdl()
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// 405 for a mutation by a safe method; `WouldBlock` on a database that answers from memory. What is wrong with the request, and what
    /// fails within it, stands in the answer.
    pub fn answer(&self, database: &Database, request: &Request, manner: Manner) -> handlers::Result<Answer> {
        let document = match self.document(database, &request.query)? {
            Ok(document) => document,
            Err(faults) => return Ok(run::refusal(&faults, manner)),
        };
        let operation = match document.operation(request.operation_name.as_deref()) {
            Ok(operation) => operation,
            Err(fault) => return Ok(run::refusal(&[fault], manner)),
        };
        if manner.safe && operation.kind == Kind::Mutation {
            return Err(Failure::Method { allow: "POST" });
        }
        // A mutation of several fields that began here and had to go elsewhere would do the first ones twice.
        if database.reach() == Reach::Memory && operation.kind == Kind::Mutation && operation.roots.len() > 1 {
            return Err(Error::WouldBlock.into());
        }
        let variables = match variables::coerce(&operation.variables, request.variables.as_ref()) {
            Ok(variables) => variables,
            Err(fault) => return Ok(run::refusal(&[fault], manner)),
        };
        let introspected = operation.introspects.then(|| self.introspect(request));
        run::run(database, &self.limits, operation, &variables, introspected, manner)
    }

    /// What a document means, if it is known already: how much work it is.
    pub fn known_kind(&self, request: &Request) -> Option<Kind> {
        let document = self.documents.lock().get(request.query.as_str()).cloned()?;
        document.operation(request.operation_name.as_deref()).ok().map(|operation| operation.kind)
    }

    /// The compiled document of a text, or what is wrong with it.
    fn document(&self, database: &Database, text: &str) -> Result<std::result::Result<Arc<Document>, Vec<Fault>>> {
        if let Some(known) = self.documents.lock().get(text) {
            return Ok(Ok(Arc::clone(known)));
        }
        // To validate one takes as long as tens of reads.
        if database.reach() == Reach::Memory {
            return Err(Error::WouldBlock);
        }
        let compiled = document::compile(&self.types, database.schema(), text);
        Ok(compiled.map(|document| {
            let document = Arc::new(document);
            self.documents.lock().put(text.into(), Arc::clone(&document));
            document
        }))
    }

    /// The answers of the fields that ask what types there are; all others are null in it.
    fn introspect(&self, request: &Request) -> ConstValue {
        let mut asked = async_graphql::Request::new(&request.query).only_introspection();
        asked.operation_name.clone_from(&request.operation_name);
        if let Some(variables) = &request.variables {
            asked.variables = async_graphql::Variables::from_value(ConstValue::Object(variables.clone()));
        }
        let response = self.types.execute(asked).now_or_never().expect("no resolver waits for anything");
        response.data
    }
}
