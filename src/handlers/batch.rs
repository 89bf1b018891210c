//! `POST /_batch`: several operations on records of any tables, and on streams, in one transaction, which applies all or none.
//!
//! ```text
//! {"operations":[{"method":"POST","path":"/Product","body":{"name":"Lamp"}},
//!                {"method":"PATCH","path":"/Product/chair","body":{"stock":4},"ifMatch":"\"0123456789abcdef\""},
//!                {"method":"GET","path":"/Product/chair"}]}
//! {"results":[{"status":201,"location":"/Product/..","etag":"..","body":{..}},{"status":200,"etag":"..","body":{..}},{"status":200,..}]}
//! ```
//! An operation is equivalent to the request with its method and path, and its result to the response; it sees the writes of the operations
//! before it. An operation whose request would be answered with an error fails the batch with that error, at a pointer to the operation.
//! An operation on a stream appends one event, or commits offsets of a consumer group; a duplicate event is no failure.
//! The operations are executed by `transaction` and `streams`: nothing here writes records itself.

use std::borrow::Cow;
use std::cell::Cell;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::fields::members_of;
use super::headers::{Validator, expected, matching};
use super::media::Format;
use super::problem::{Failure, Result};
use super::record::{location, no_record};
use super::response::{JSON, Response, with_body};
use super::streams;
use crate::encoding::{Fields, body::parse_object};
use crate::error::{Error, Place};
use crate::schema::{Schema, Stream, Table};
use crate::streams::{Appends, Event, Streams, parse_offsets};
use crate::transaction::{Database, Owned, Precondition, Transaction};

/// The maximum total size of the records in a response, in bytes.
const RESPONSE_BYTES: usize = 64 << 20;

/// The resource named by the path of an operation.
pub enum Target<'t> {
    /// A table, or the record with this id.
    Table(&'t Table, Option<String>),
    /// A stream.
    Stream(&'t Stream),
    /// A consumer group of a stream.
    Group(&'t Stream, String),
}

/// The request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'b> {
    #[serde(borrow)]
    operations: Vec<&'b RawValue>,
}

/// An operation as given in the body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Given<'b> {
    #[serde(borrow)]
    method: Cow<'b, str>,
    #[serde(borrow)]
    path: Cow<'b, str>,
    #[serde(borrow)]
    body: Option<&'b RawValue>,
    #[serde(borrow, default, deserialize_with = "tags")]
    if_match: Option<Cow<'b, str>>,
}

/// Reads a string. `null` is refused: a client without a tag would otherwise overwrite what it wanted to protect.
fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Cow<'de, str>>, D::Error> {
    Cow::deserialize(deserializer).map(Some)
}

/// A parsed operation.
enum Operation<'b> {
    OnTable(&'b Table, Verb<'b>),
    Append(&'b Stream, Event<'b>),
    Commit(&'b Stream, String, Vec<(u32, u64)>, Precondition),
}

enum Verb<'b> {
    Create(Fields<'b, 'b>),
    Read(String),
    Replace(String, Fields<'b, 'b>, Precondition),
    Merge(String, Fields<'b, 'b>, Precondition),
    Delete(String, Precondition),
}

/// The outcome of an operation.
struct Outcome<'t> {
    status: StatusCode,
    shown: Shown<'t>,
}

/// What the result of an operation shows.
enum Shown<'t> {
    Nothing,
    Record(Owned<'t>),
    /// JSON, and the validator of a consumer group.
    Json(Vec<u8>, Option<Validator>),
}

impl Shown<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Record(record) => record.json().len(),
            Self::Json(json, _) => json.len(),
        }
    }
}

/// Executes at most `most` operations; `resolve` resolves their paths.
///
/// # Errors
/// The error of an operation, at a pointer to it, in which case nothing is written; 400 for the body, or for a precondition in the headers;
/// errors of the database.
pub fn batch<'b>(
    streams: &Streams,
    database: &Database,
    headers: &HeaderMap,
    body: &'b [u8],
    format: Format,
    most: usize,
    resolve: impl Fn(&str) -> Result<Target<'b>>,
) -> Result<Response> {
    if expected(headers)? != Precondition::None {
        return Err(Error::invalid("set preconditions on the operations, as ifMatch").into());
    }
    let operations = read(body, most, resolve)?;
    let at = Cell::new(None);
    let outcomes = streams.transact(database, |transaction, appends| {
        let (mut outcomes, mut response_bytes) = (Vec::with_capacity(operations.len()), 0);
        for (number, operation) in operations.iter().enumerate() {
            at.set(Some(number));
            let outcome = operation.run(streams, transaction, appends)?;
            response_bytes += outcome.shown.bytes();
            if response_bytes > RESPONSE_BYTES {
                let detail =
                    format!("the records of the answer exceed {} MiB: send several batches", RESPONSE_BYTES >> 20);
                return Err(Error::invalid(detail));
            }
            outcomes.push(outcome);
        }
        at.set(None);
        Ok(outcomes)
    });
    let outcomes = outcomes.map_err(|error| match (at.get(), error) {
        (
            Some(number),
            error @ (Error::Invalid { .. }
            | Error::NotFound { .. }
            | Error::Conflict { .. }
            | Error::Offset { .. }
            | Error::Stale),
        ) => {
            let in_body = matches!(
                error,
                Error::Invalid { place: Place::Pointer(_), .. } | Error::Conflict { .. } | Error::Offset { .. }
            );
            below(number, if in_body { "/body" } else { "" }, error.into())
        }
        (_, other) => other.into(),
    })?;
    respond(database.schema(), &operations, outcomes, format)
}

/// Prepends the pointer to an operation, and to a member of it, to the pointer of its failure.
fn below(number: usize, part: &str, failure: Failure) -> Failure {
    let within = failure.pointer().unwrap_or_default();
    Failure::Operation { pointer: format!("/operations/{number}{part}{within}"), failure: Box::new(failure) }
}

/// Parses a body and performs all checks that do not need a record.
fn read<'b>(body: &'b [u8], most: usize, resolve: impl Fn(&str) -> Result<Target<'b>>) -> Result<Vec<Operation<'b>>> {
    let Body { operations } = object(body)
        .map_err(|why| Error::invalid_at("", format!("the body is not an object with a list of operations: {why}")))?;
    if operations.len() > most {
        return Err(
            Error::invalid_at("/operations", format!("a batch has at most max_rows = {most} operations")).into()
        );
    }
    let understood = operations.into_iter().enumerate().map(|(number, text)| {
        let given: Given<'b> = object(text.get().as_bytes()).map_err(|why| {
            let detail = format!("an operation requires method and path and allows body and ifMatch: {why}");
            below(number, "", Error::invalid(detail).into())
        })?;
        let target = resolve(&given.path).map_err(|failure| below(number, "/path", failure))?;
        Operation::of(given, target).map_err(|(part, failure)| below(number, part, failure))
    });
    understood.collect()
}

/// Parses an object. (serde would also accept an array of its values.)
fn object<'b, T: Deserialize<'b>>(text: &'b [u8]) -> std::result::Result<T, String> {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err("expected `{`".to_owned());
    }
    serde_json::from_slice(text).map_err(|error| {
        let text = error.to_string();
        // In an operation, the position would be relative to the operation.
        let place = text.rfind(" at line ").filter(|_| error.is_data());
        text[..place.unwrap_or(text.len())].to_owned()
    })
}

impl<'b> Operation<'b> {
    /// Parses an operation; on failure, returns the name of the invalid member and the cause.
    fn of(given: Given<'b>, target: Target<'b>) -> std::result::Result<Self, (&'static str, Failure)> {
        let Given { method, body, if_match, .. } = given;
        let wrong = |part, detail: &str| (part, Error::invalid(detail).into());
        let text = || body.map(|body| body.get().as_bytes()).ok_or_else(|| wrong("", "the operation has no body"));
        let in_body = |error: Error| ("/body", error.into());
        let expected = if_match.as_ref().map_or(Precondition::None, |tags| matching(members_of(tags.as_bytes())));
        let (table, id) = match target {
            Target::Table(table, id) => (table, id),
            Target::Stream(_) if method != "POST" => {
                return Err(wrong("/method", "an operation on a stream must be POST, with one event"));
            }
            Target::Stream(_) if if_match.is_some() => {
                return Err(wrong("/ifMatch", "ifMatch is for PUT, PATCH and DELETE only"));
            }
            Target::Stream(stream) => {
                return Ok(Self::Append(stream, Event::parse(stream, text()?).map_err(in_body)?));
            }
            Target::Group(..) if method != "PUT" => {
                return Err(wrong("/method", "an operation on a consumer group must be PUT"));
            }
            Target::Group(stream, name) => {
                return Ok(Self::Commit(stream, name, parse_offsets(text()?).map_err(in_body)?, expected));
            }
        };
        let fields = || parse_object(table, text()?).map_err(in_body);
        let verb = match (&*method, id) {
            ("POST", None) => Verb::Create(fields()?),
            ("GET", Some(id)) => Verb::Read(id),
            ("PUT", Some(id)) => Verb::Replace(id, fields()?, expected),
            ("PATCH", Some(id)) => Verb::Merge(id, fields()?, expected),
            ("DELETE", Some(id)) => Verb::Delete(id, expected),
            (_, None) => return Err(wrong("/method", "an operation on a table must be POST, with one record")),
            (_, Some(_)) => return Err(wrong("/method", "an operation on a record must be GET, PUT, PATCH or DELETE")),
        };
        if body.is_some() && matches!(verb, Verb::Read(_) | Verb::Delete(..)) {
            return Err(wrong("/body", "GET and DELETE have no body"));
        }
        if if_match.is_some() && matches!(verb, Verb::Create(_) | Verb::Read(_)) {
            return Err(wrong("/ifMatch", "ifMatch is for PUT, PATCH and DELETE only"));
        }
        Ok(Self::OnTable(table, verb))
    }

    fn run(
        &self,
        streams: &Streams,
        transaction: &mut Transaction<'_>,
        appends: &mut Appends<'_>,
    ) -> crate::error::Result<Outcome<'b>> {
        let (status, shown) = match self {
            Self::OnTable(table, verb) => return verb.run(table, transaction),
            Self::Append(stream, event) => {
                let mut json = Vec::with_capacity(64);
                streams::write_place(&appends.append(transaction, stream, event)?, &mut json);
                (StatusCode::ACCEPTED, Shown::Json(json, None))
            }
            Self::Commit(stream, name, offsets, expected) => {
                let group = appends.commit(transaction, stream, name, offsets, expected)?;
                let validator = Validator::of_group(group.checksum());
                (StatusCode::OK, Shown::Json(streams::shown(streams, stream, name, &group)?, Some(validator)))
            }
        };
        Ok(Outcome { status, shown })
    }
}

impl<'b> Verb<'b> {
    fn run(&self, table: &'b Table, transaction: &mut Transaction<'_>) -> crate::error::Result<Outcome<'b>> {
        let (status, record) = match self {
            Self::Create(fields) => (StatusCode::CREATED, transaction.create(fields.clone())?),
            Self::Read(id) => {
                let record = transaction.read(table, id)?;
                (StatusCode::OK, record.ok_or_else(|| no_record(table, id))?)
            }
            Self::Replace(id, fields, expected) => match transaction.replace(id, fields.clone(), expected) {
                Ok((record, true)) => (StatusCode::CREATED, record),
                Ok((record, false)) => (StatusCode::OK, record),
                // Without the precondition the response would not be 404, as for PUT.
                Err(Error::NotFound { .. }) if *expected != Precondition::None => return Err(Error::Stale),
                Err(other) => return Err(other),
            },
            Self::Merge(id, fields, expected) => (StatusCode::OK, transaction.merge(id, fields.clone(), expected)?),
            Self::Delete(id, expected) => {
                transaction.delete(table, id, expected)?;
                return Ok(Outcome { status: StatusCode::NO_CONTENT, shown: Shown::Nothing });
            }
        };
        Ok(Outcome { status, shown: Shown::Record(record) })
    }
}

/// Returns the results of all operations in order.
fn respond(
    schema: &Schema,
    operations: &[Operation<'_>],
    outcomes: Vec<Outcome<'_>>,
    format: Format,
) -> Result<Response> {
    let bytes = outcomes.iter().map(|Outcome { shown, .. }| shown.bytes() + 128);
    let mut json = Vec::with_capacity(bytes.sum());
    json.extend_from_slice(b"{\"results\":[");
    for (number, (operation, Outcome { status, shown })) in operations.iter().zip(outcomes).enumerate() {
        json.extend_from_slice(if number == 0 { b"{\"status\":" } else { b",{\"status\":" });
        json.extend_from_slice(status.as_str().as_bytes());
        let tagged = |validator: Validator, json: &mut Vec<u8>| {
            json.extend_from_slice(b",\"etag\":\"\\\"");
            json.extend_from_slice(validator.text());
            json.extend_from_slice(b"\\\"\"");
        };
        match (operation, shown) {
            (Operation::OnTable(table, _), Shown::Record(record)) => {
                if status == StatusCode::CREATED {
                    // A path contains nothing that JSON escapes.
                    json.extend_from_slice(b",\"location\":\"");
                    json.extend_from_slice(location(table, &record.id()?)?.as_bytes());
                    json.push(b'"');
                }
                tagged(format.validator(Validator::of(&record)), &mut json);
                json.extend_from_slice(b",\"body\":");
                match format {
                    Format::JsonIntsAsText => {
                        json.extend_from_slice(&format.of_records(schema, table, record.json())?)
                    }
                    _ => json.extend_from_slice(record.json()),
                }
            }
            (_, Shown::Json(shown, validator)) => {
                if let Some(validator) = validator {
                    tagged(validator, &mut json);
                }
                json.extend_from_slice(b",\"body\":");
                json.extend_from_slice(&shown);
            }
            _ => {}
        }
        json.push(b'}');
    }
    json.extend_from_slice(b"]}");
    format.convert(with_body(StatusCode::OK, JSON, Bytes::from(json)), None)
}
