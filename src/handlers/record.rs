//! The verbs of records: reading one, and writing one, an array, or all that match a condition.

use bytes::Bytes;
use http::header::{ALLOW, ETAG, HeaderName, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use super::coding;
use super::headers::{Validator, expected, is_stale, of_one_record, prefers_minimal, with_record, written};
use super::media::{self, Accepted, Format};
use super::problem::Result;
use super::response::{ACCEPT_PATCH, JSON, Response, empty, minimal, with_body};
use crate::encoding::{Record, Value, body::parse_object, url};
use crate::error::{Error, Place};
use crate::query::{Clause, Limits, Query};
use crate::schema::Table;
use crate::transaction::{Database, Precondition, Replaced};

/// The time at which a record ends, if it is neither written nor renewed before (RFC 8594).
pub(super) const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// `GET /T/{id}`: the record, or 304 if the client has a current copy.
///
/// # Errors
/// 404 if there is none; 412 for `If-Match`; errors of the database.
pub fn read(database: &Database, table: &Table, id: &str, headers: &HeaderMap, accepted: Accepted) -> Result<Response> {
    let record = database.read(table, id)?.ok_or_else(|| no_record(table, id))?;
    let mut response = represented(database, table, record.json(), Validator::of(&record), headers, accepted)?;
    response.headers_mut().extend(sunset(table, &record)?.map(|sunset| (SUNSET, sunset)));
    Ok(response)
}

/// `GET /T/{id}?select=`: the selected attributes of the record, or 304 if the client has a current copy.
///
/// # Errors
/// As [`read`].
pub fn read_selected(
    database: &Database,
    table: &Table,
    id: &str,
    query: &Query<'_>,
    headers: &HeaderMap,
    accepted: Accepted,
) -> Result<Response> {
    let mut shown = None;
    let selected = Query { select: query.select.clone(), ..Query::equal(table.primary_key, Value::from(id)) };
    selected.show(database, table, |record, text| {
        // Related records change independently of their record.
        let named_by = if query.shows_related() { text } else { query.text.as_bytes() };
        shown = Some((Validator::of(record).of_selection(named_by), text.to_vec(), sunset(table, record)?));
        Ok(())
    })?;
    let (validator, json, sunset) = shown.ok_or_else(|| no_record(table, id))?;
    let mut response = represented(database, table, &json, validator, headers, accepted)?;
    response.headers_mut().extend(sunset.map(|sunset| (SUNSET, sunset)));
    Ok(response)
}

/// Returns the time at which a record ends, in whole seconds; `None` if it has no end, or one that no date can say.
///
/// # Errors
/// `Corrupt`.
pub(super) fn sunset<B: AsRef<[u8]>>(
    table: &Table,
    record: &Record<'_, B>,
) -> crate::error::Result<Option<HeaderValue>> {
    if !table.expires() {
        return Ok(None);
    }
    let ends = record.expires_at()?.and_then(|microseconds| Timestamp::from_microsecond(microseconds).ok());
    let printed = ends.and_then(|ends| DateTimePrinter::new().timestamp_to_rfc9110_string(&ends).ok());
    Ok(printed.and_then(|text| HeaderValue::try_from(text).ok()))
}

/// Returns the JSON text of a record in the accepted representation, or 304 if the client has a current copy.
pub(super) fn represented(
    database: &Database,
    table: &Table,
    json: &[u8],
    validator: Validator,
    headers: &HeaderMap,
    accepted: Accepted,
) -> Result<Response> {
    if is_stale(headers, &validator) {
        return Err(Error::Stale.into());
    }
    let Accepted { format, coded } = accepted;
    let converted = match format {
        Format::Json => None,
        _ => Some(format.of_records(database.schema(), table, json)?),
    };
    let validator = format.validator(validator);
    if headers.contains_key(IF_NONE_MATCH) {
        let coding = coded.of_bytes(converted.as_deref().unwrap_or(json).len());
        let as_sent = coding.map_or_else(|| validator.clone(), |coding| validator.clone().with(coding.name()));
        if as_sent.is_known(headers) {
            let mut response = empty(StatusCode::NOT_MODIFIED);
            response.headers_mut().insert(ETAG, as_sent.header());
            format.vary(response.headers_mut());
            coding::vary(coding, response.headers_mut());
            return Ok(response);
        }
    }
    let mut response =
        with_record(StatusCode::OK, &validator, converted.map_or_else(|| Bytes::copy_from_slice(json), Bytes::from));
    if format != Format::Json {
        format.set_headers(response.headers_mut());
    }
    Ok(response)
}

pub(super) fn no_record(table: &Table, id: &str) -> Error {
    Error::NotFound { detail: format!("there is no record {id:?} in {}", table.name) }
}

/// `POST /T` with an object: 201, `Location`, and the record.
///
/// # Errors
/// 400 for the body, or for a precondition other than `If-None-Match: *`; 409 if the id or a unique value exists, 412 for the id under this
/// precondition; errors of the database.
pub fn create(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
    let expected = expected(headers)?;
    if !matches!(expected, Precondition::None | Precondition::Absent) {
        return Err(Error::invalid("If-Match does not apply to POST, which creates a record").into());
    }
    let record = database.create(table, body).map_err(|error| match error {
        Error::Conflict { ref pointer, .. }
            if expected == Precondition::Absent
                && pointer.strip_prefix('/') == Some(&table.attributes[table.primary_key].name) =>
        {
            Error::Stale
        }
        other => other,
    })?;
    let location = location(table, &record.id()?)?;
    let mut response = written(StatusCode::CREATED, record, headers);
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// `POST /T` with an array: 201 and the records; creates all or none.
///
/// # Errors
/// As [`create`], with pointers that begin with the index of the element.
pub fn create_all(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
    of_one_record(headers)?;
    let records = database.create_all(table, body)?;
    if prefers_minimal(headers) {
        return Ok(minimal(StatusCode::CREATED));
    }
    let mut list = Vec::with_capacity(2 + records.iter().map(|record| record.json().len() + 1).sum::<usize>());
    list.push(b'[');
    for (position, record) in records.iter().enumerate() {
        if position > 0 {
            list.push(b',');
        }
        list.extend_from_slice(record.json());
    }
    list.push(b']');
    Ok(with_body(StatusCode::CREATED, JSON, Bytes::from(list)))
}

/// `PUT /T/{id}`: 200 if replaced, 201 if created. Omitted attributes become null.
///
/// # Errors
/// 400 for the body; 412 for the precondition; 409 if a unique value exists; errors of the database.
pub fn replace(database: &Database, table: &Table, id: &str, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
    let expected = expected(headers)?;
    let (record, created) = database.replace(table, id, body, &expected).map_err(|error| match error {
        // Without the precondition the response would not be 404, so the precondition fails (RFC 9110, section 13.1.1).
        Error::NotFound { .. } if expected != Precondition::None => Error::Stale,
        other => other,
    })?;
    if !created {
        return Ok(written(StatusCode::OK, record, headers));
    }
    let location = location(table, id)?;
    let mut response = written(StatusCode::CREATED, record, headers);
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// `PUT /T` with an array: 200 and the numbers of records created and replaced, each as by [`replace`]; writes all or none.
///
/// # Errors
/// As [`replace`], with pointers that begin with the index of the element; 400 if an id occurs twice.
pub fn replace_all(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
    of_one_record(headers)?;
    let Replaced { created, replaced } = database.replace_all(table, body)?;
    let body = format!("{{\"created\":{created},\"replaced\":{replaced}}}");
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(body)))
}

/// `PATCH /T/{id}`: applies a JSON merge patch (RFC 7396); 200 and the resulting record.
///
/// # Errors
/// As [`replace`], and 404 if there is no such record.
pub fn merge(database: &Database, table: &Table, id: &str, headers: &HeaderMap, body: &[u8]) -> Result<Response> {
    let record = database.merge(table, id, body, &expected(headers)?)?;
    Ok(written(StatusCode::OK, record, headers))
}

/// `PATCH /T?query`: applies a JSON merge patch to all matching records in one transaction; 200 and their number.
///
/// # Errors
/// 400 for the body, which must not set the id, if the query is not just a condition, or if more than `limits.max_rows` records match; 409
/// if it sets a unique attribute of several records; errors of the database.
pub fn update_matching(
    database: &Database,
    table: &Table,
    text: &str,
    headers: &HeaderMap,
    body: &[u8],
    limits: &Limits,
) -> Result<Response> {
    of_one_record(headers)?;
    let patch = parse_object(table, body)?;
    let refused = "a condition is required: without one, every record would be changed";
    let updated = only_condition(database, table, text, limits, refused)?.update(database, &patch, limits.max_rows)?;
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(format!("{{\"updated\":{updated}}}"))))
}

/// `DELETE /T/{id}`: 204.
///
/// # Errors
/// 404 if there is none; 412 for the precondition; errors of the database.
pub fn delete(database: &Database, table: &Table, id: &str, headers: &HeaderMap) -> Result<Response> {
    database.delete(table, id, &expected(headers)?)?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// `DELETE /T?query`: deletes all matching records in one transaction; 200 and their number. With `truncate=true`, deletes all, uncounted.
///
/// # Errors
/// 400 if there is neither a condition nor `truncate=true`, if there is anything besides a condition, or if more than `limits.max_rows`
/// records match; errors of the database.
pub fn delete_matching(
    database: &Database,
    table: &Table,
    text: &str,
    headers: &HeaderMap,
    limits: &Limits,
) -> Result<Response> {
    of_one_record(headers)?;
    if text == "truncate=true" {
        database.truncate(table)?;
        return Ok(with_body(StatusCode::OK, JSON, Bytes::from_static(br#"{"truncated":true}"#)));
    }
    let refused = "a condition is required; to delete every record, use truncate=true";
    let deleted = only_condition(database, table, text, limits, refused)?.delete(database, table, limits.max_rows)?;
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(format!("{{\"deleted\":{deleted}}}"))))
}

/// Parses a query that must consist of a condition only; `refused` is the message if there is no condition.
fn only_condition<'q>(
    database: &Database,
    table: &Table,
    text: &'q str,
    limits: &Limits,
    refused: &str,
) -> Result<Query<'q>> {
    let query = Query::parse(database.schema(), table, text, limits)?;
    if let Some(Clause { name, position, .. }) = query.clauses.first() {
        let detail = format!("{name} is not supported in PATCH and DELETE");
        return Err(Error::Invalid { detail, place: Place::Position(*position) }.into());
    }
    if query.filter.is_empty() {
        return Err(Error::Invalid { detail: refused.to_owned(), place: Place::Position(0) }.into());
    }
    Ok(query)
}

/// `OPTIONS`: 204 and the allowed methods; and the media types of patches where `PATCH` is one of them (RFC 5789, 3.1).
pub fn options(allow: &'static str) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    if allow.contains("PATCH") {
        response.headers_mut().insert(ACCEPT_PATCH, HeaderValue::from_static(media::PATCHES));
    }
    response
}

pub(super) fn location(table: &Table, id: &str) -> Result<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(url::record(&table.name, id)))
        .map_err(|error| Error::storage("cannot encode the path of the record", error).into())
}
