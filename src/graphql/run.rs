//! Executes an operation and builds its response: `data` as bytes, failures in `errors`, the cursors of truncated lists in
//! `extensions.next`.
//!
//! The root fields of a query are read one after the other, each from its own snapshot; those of a mutation are executed in order, each in
//! its own transaction. A field that fails is null and does not affect the others.

use std::borrow::Cow;

use async_graphql_parser::Pos;
use async_graphql_value::{ConstValue, Name, Value as Input};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::document::{Call, Operation, Root, Verb};
use super::variables::Variables;
use super::{Fault, Transport};
use crate::encoding::{Record, Value};
use crate::error::{Error, Place};
use crate::handlers::{Failure, JSON, Response, with_body};
use crate::query::{Limits, Query, Selection};
use crate::schema::Table;
use crate::storage::ReadTier;
use crate::transaction::{Database, Precondition};

/// Maximum length of a response, in bytes: it is built in memory before it is sent.
const RESPONSE_BYTES: usize = 64 << 20;

/// Media type of responses to clients that accept it.
const GRAPHQL_JSON: HeaderValue = HeaderValue::from_static("application/graphql-response+json");

/// An element of `errors`.
#[derive(Debug, Serialize)]
struct ResponseError<'a> {
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<[Location; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<[&'a str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Location {
    line: usize,
    column: usize,
}

/// What REST reports for the same failure.
#[derive(Debug, Serialize)]
struct Extensions {
    r#type: String,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

/// Returns the response to a request that is not executed.
pub(super) fn refusal(faults: &[Fault], transport: Transport) -> Response {
    let errors: Vec<ResponseError<'_>> = faults
        .iter()
        .map(|fault| ResponseError {
            message: Cow::Borrowed(&fault.message),
            locations: fault.at.map(|(line, column)| [Location { line, column }]),
            path: None,
            extensions: None,
        })
        .collect();
    let status = if transport.strict { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    respond(status, transport, [b"{\"errors\":".as_slice(), &json(&errors), b"}"].concat())
}

fn respond(status: StatusCode, transport: Transport, body: Vec<u8>) -> Response {
    with_body(status, if transport.strict { GRAPHQL_JSON } else { JSON }, Bytes::from(body))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

/// Executes an operation; `introspected` holds the response to its introspection fields.
///
/// # Errors
/// `WouldBlock` on a database that answers from memory.
pub(super) fn run(
    database: &Database,
    limits: &Limits,
    operation: &Operation,
    variables: &Variables,
    introspected: Option<async_graphql::Response>,
    transport: Transport,
) -> Result<Response, Failure> {
    let (mut data, mut errors, mut next) = (b"{\"data\":{".to_vec(), Vec::new(), Vec::new());
    let mut is_first = true;
    for root in &operation.roots {
        let Some(select) = root.selection(variables) else { continue };
        data.extend_from_slice(if is_first { b"\"" } else { b",\"" });
        is_first = false;
        data.extend_from_slice(root.key.as_bytes());
        data.extend_from_slice(b"\":");
        let begun = data.len();
        let mut field = Field { database, limits, variables, data: &mut data, next: None };
        match field.run(root, select, introspected.as_ref()) {
            Ok(()) => next.extend(field.next.map(|cursor| (root.key.as_str(), cursor))),
            Err(Failure::Error(Error::WouldBlock)) if database.tier() == ReadTier::Memory => {
                return Err(Error::WouldBlock.into());
            }
            Err(failure) => {
                data.truncate(begun);
                data.extend_from_slice(b"null");
                errors.push(response_error(failure, root));
            }
        }
    }
    data.push(b'}');
    if !errors.is_empty() {
        data.extend_from_slice(b",\"errors\":");
        data.extend_from_slice(&json(&errors));
    }
    if !next.is_empty() {
        let next: serde_json::Map<_, _> =
            next.into_iter().map(|(key, cursor)| (key.to_owned(), cursor.into())).collect();
        data.extend_from_slice(b",\"extensions\":{\"next\":");
        data.extend_from_slice(&json(&next));
        data.push(b'}');
    }
    data.push(b'}');
    Ok(respond(StatusCode::OK, transport, data))
}

fn response_error(failure: Failure, root: &Root) -> ResponseError<'_> {
    if failure.is_internal() {
        tracing::error!("the field {} of a GraphQL request failed: {failure}", root.key);
    }
    let (pointer, position) = match &failure {
        Failure::Error(Error::Invalid { place: Place::Pointer(pointer), .. } | Error::Conflict { pointer, .. }) => {
            (Some(pointer.clone()), None)
        }
        Failure::Error(Error::Invalid { place: Place::Position(position), .. }) => (None, Some(*position)),
        _ => (None, None),
    };
    let Pos { line, column } = root.at;
    ResponseError {
        message: Cow::Owned(failure.detail()),
        locations: Some([Location { line, column }]),
        path: Some([&root.key]),
        extensions: Some(Extensions {
            r#type: failure.type_name(),
            status: failure.status().as_u16(),
            pointer,
            position,
        }),
    }
}

/// A root field during its execution.
struct Field<'r> {
    database: &'r Database,
    limits: &'r Limits,
    variables: &'r Variables,
    /// The response; the value of this field is appended.
    data: &'r mut Vec<u8>,
    /// Cursor of the next page of its list.
    next: Option<String>,
}

impl Field<'_> {
    fn run(
        &mut self,
        root: &Root,
        select: Selection,
        introspected: Option<&async_graphql::Response>,
    ) -> Result<(), Failure> {
        let (verb, table, arguments) = match &root.call {
            Call::Typename(name) => {
                self.data.extend_from_slice(format!("\"{name}\"").as_bytes());
                return Ok(());
            }
            Call::Introspection => {
                // Null for an argument that must not be null. The library does not say where.
                if let Some(error) = introspected.and_then(|response| response.errors.first()) {
                    return Err(Error::invalid(error.message.clone()).into());
                }
                let found = match introspected.map(|response| &response.data) {
                    Some(ConstValue::Object(fields)) => fields.get(root.key.as_str()),
                    _ => None,
                };
                self.data.extend_from_slice(&json(&found.unwrap_or(&ConstValue::Null)));
                return Ok(());
            }
            Call::Verb { verb, table, arguments } => (*verb, *table, arguments),
        };
        let (database, table) = (self.database, &self.database.schema().tables[table]);
        let arguments = Arguments { variables: self.variables, given: arguments };
        match verb {
            Verb::Read => self.one(table, &arguments.id()?, select),
            Verb::List => self.list(table, &arguments, select),
            Verb::Create => {
                let record = database.create(table, &arguments.data()?)?;
                self.written(table, &record.view(), select)
            }
            Verb::Update => {
                let record = database.merge(table, &arguments.id()?, &arguments.data()?, &Precondition::None)?;
                self.written(table, &record.view(), select)
            }
            Verb::Delete => {
                let id = arguments.id()?;
                match database.delete(table, &id, &Precondition::None) {
                    Ok(()) => self.data.extend_from_slice(&json(&id)),
                    Err(Error::NotFound { .. }) => self.data.extend_from_slice(b"null"),
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            }
        }
    }

    fn one(&mut self, table: &Table, id: &str, select: Selection) -> Result<(), Failure> {
        let query = Query { select: Some(select), ..Query::equal(table.primary_key, Value::from(id)) };
        let begun = self.data.len();
        query.show(self.database, table, |_, text| self.append(text))?;
        if self.data.len() == begun {
            self.data.extend_from_slice(b"null");
        }
        Ok(())
    }

    /// Appends the record that was just written; it is read again if related records are selected.
    fn written(&mut self, table: &Table, record: &Record<'_, &[u8]>, select: Selection) -> Result<(), Failure> {
        if select.has_related() {
            return self.one(table, &record.id()?, select);
        }
        Ok(self.append(&Query { select: Some(select), ..Query::default() }.text_of(record)?)?)
    }

    fn list(&mut self, table: &Table, arguments: &Arguments<'_>, select: Selection) -> Result<(), Failure> {
        let schema = self.database.schema();
        let text = arguments.query(|filter| {
            let alone = Query::parse(schema, table, filter, self.limits)?;
            match alone.clauses.first() {
                None => Ok(()),
                Some(clause) => {
                    let name = clause.name;
                    let detail = match name {
                        "sort" | "limit" | "offset" | "after" => {
                            format!("{name} is not allowed in filter: use the argument {name}")
                        }
                        _ => format!("{name} is not allowed in filter"),
                    };
                    Err(Error::Invalid { detail, place: Place::Position(clause.position) })
                }
            }
        })?;
        let mut query = Query::parse(schema, table, &text, self.limits)?;
        query.select = Some(select);
        self.data.push(b'[');
        let mut is_first = true;
        let shown = query.show(self.database, table, |_, text| {
            if !is_first {
                self.data.push(b',');
            }
            is_first = false;
            self.append(text)
        })?;
        self.data.push(b']');
        self.next = shown.next.map(|cursor| cursor.to_string());
        Ok(())
    }

    /// Appends the text of a record to the response, if there is room.
    fn append(&mut self, text: &[u8]) -> crate::error::Result<()> {
        if self.data.len() + text.len() > RESPONSE_BYTES {
            return Err(Error::invalid(format!(
                "the response exceeds {} MiB: request fewer records",
                RESPONSE_BYTES >> 20
            )));
        }
        self.data.extend_from_slice(text);
        Ok(())
    }
}

/// The arguments of a field.
struct Arguments<'r> {
    variables: &'r Variables,
    given: &'r [(Name, Input)],
}

impl Arguments<'_> {
    /// Returns an argument that is given and is not null.
    fn value(&self, name: &str) -> Option<Cow<'_, Input>> {
        let (_, value) = self.given.iter().find(|(given, _)| given == name)?;
        self.variables.value_of(value).filter(|value| **value != Input::Null)
    }

    fn text(&self, name: &str) -> Option<String> {
        match &*self.value(name)? {
            Input::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    fn id(&self) -> Result<String, Failure> {
        self.text("id").ok_or_else(|| Error::invalid("id is missing").into())
    }

    /// Returns the input object for a record as JSON.
    fn data(&self) -> Result<Vec<u8>, Failure> {
        let data = self.value("data").ok_or_else(|| Error::invalid("data is missing"))?;
        Ok(json(&*data))
    }

    /// Builds the query of a list in REST syntax; `check` parses the filter alone, so that errors point to a byte of the filter.
    fn query(&self, check: impl FnOnce(&str) -> crate::error::Result<()>) -> Result<String, Failure> {
        let mut parts = Vec::new();
        if let Some(filter) = self.text("filter").filter(|filter| !filter.is_empty()) {
            check(&filter)?;
            parts.push(format!("({filter})"));
        }
        for name in ["sort", "limit", "offset", "after"] {
            let Some(value) = self.text(name) else { continue };
            if value.is_empty() || value.contains(['&', ';', '|', '(', ')', '[', ']', '=']) {
                return Err(Error::invalid(format!("{value:?} is not a value of the argument {name}")).into());
            }
            parts.push(format!("{name}={value}"));
        }
        Ok(parts.join("&"))
    }
}
