//! Handlers: what each method does to a resource, from the parts of a request to a complete answer.
//!
//! Handlers are blocking functions over the operations of `transaction` and the types of `http`, without sockets or async, so that they can
//! be called, tested and measured in isolation. A read by id copies the stored JSON text once, and a write answers with the buffer into
//! which it has just encoded the record; nothing is parsed or serialised again. Other media types and content codings are converted from
//! that JSON (`media`, `coding`). Operations on many records that are not queries have modules of their own: `batch` and `load`.
//!
//! Non-goals: routing a request to its handler (`routing`); reading bodies, and choosing the thread (`ingress`).

pub mod batch;
pub mod blobs;
pub mod coding;
mod events;
pub mod fields;
mod headers;
pub mod load;
pub mod media;
pub mod multicast;
mod problem;
pub mod ranges;
pub mod registry;
pub mod streams;
pub mod thumbnails;

use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LINK, LOCATION,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use percent_encoding::utf8_percent_encode;
use serde::{Deserialize, Serialize};

use crate::encoding::{Record, Value, body::parse_object, url};
use crate::error::{Error, Place};
use crate::query::{Clause, Cursor, Limits, NOT_IN_URL, Query};
use crate::schema::Table;
use crate::storage::Reach;
use crate::transaction::{Database, Owned, Precondition, Replaced};
pub use events::{accepts_events, event_stream, last_event_id, write_event};
use headers::prefers_minimal;
pub use headers::{Validator, expected, is_stale, unconditional};
use media::{Accepted, Format, ListWriter};
pub use problem::{Failure, PROBLEM_JSON};

/// A complete answer: status, headers and body.
pub type Answer = Response<Bytes>;

/// The result of a handler. A failure is converted into an answer by [`Failure::answer`] once it is certain that the request will not be
/// retried elsewhere.
pub type Result<T> = std::result::Result<T, Failure>;

/// Limits of the handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The maximum number of records in a list.
    pub max_rows: usize,
    /// Bytes of events after which an answer of a stream ends.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub stream_answer_bytes: usize,
    /// Maximum number of pixels of a picture of which a thumbnail is made.
    pub thumb_pixels: u64,
    /// Maximum bytes that making thumbnails takes, all together, files included.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub thumb_memory: usize,
    /// Maximum bytes of thumbnails that are kept; with 0 none is kept or shared.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub thumb_cache_bytes: usize,
    /// Maximum number of requests for which a thumbnail is to be made.
    pub thumbs_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_rows: 10_000,
            stream_answer_bytes: 1 << 20,
            thumb_pixels: 50_000_000,
            thumb_memory: 256 << 20,
            thumb_cache_bytes: 64 << 20,
            thumbs_in_flight: 64,
        }
    }
}

/// The approximate size of the pieces in which a longer list is sent, in bytes.
pub const PIECE_BYTES: usize = 64 << 10;

/// The media types in which a resource accepts a `PATCH` (RFC 5789).
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The time at which a record ends, if it is neither written nor renewed before (RFC 8594).
const SUNSET: HeaderName = HeaderName::from_static("sunset");

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The default media type of records and lists.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The maximum length of a list in a format that has to be complete before it is sent, in bytes.
const WHOLE_BYTES: usize = 16 << 20;

/// `GET /T/{id}`: the record, or 304 if the client has a current copy.
///
/// # Errors
/// 404 if there is none; 412 for `If-Match`; errors of the database.
pub fn read(database: &Database, table: &Table, id: &str, headers: &HeaderMap, accepted: Accepted) -> Result<Answer> {
    let record = database.read(table, id)?.ok_or_else(|| no_record(table, id))?;
    let mut answer = represented(database, table, record.json(), Validator::of(&record), headers, accepted)?;
    answer.headers_mut().extend(sunset(table, &record)?.map(|sunset| (SUNSET, sunset)));
    Ok(answer)
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
) -> Result<Answer> {
    let mut shown = None;
    let selected = Query { select: query.select.clone(), ..Query::equal(table.primary_key, Value::from(id)) };
    selected.show(database, table, |record, text| {
        // Related records change independently of their record.
        let named_by = if query.shows_related() { text } else { query.text.as_bytes() };
        shown = Some((Validator::of(record).of_selection(named_by), text.to_vec(), sunset(table, record)?));
        Ok(())
    })?;
    let (validator, json, sunset) = shown.ok_or_else(|| no_record(table, id))?;
    let mut answer = represented(database, table, &json, validator, headers, accepted)?;
    answer.headers_mut().extend(sunset.map(|sunset| (SUNSET, sunset)));
    Ok(answer)
}

/// Returns the time at which a record ends, in whole seconds; `None` if it has no end, or one that no date can say.
///
/// # Errors
/// `Corrupt`.
fn sunset<B: AsRef<[u8]>>(table: &Table, record: &Record<'_, B>) -> crate::error::Result<Option<HeaderValue>> {
    if !table.expires() {
        return Ok(None);
    }
    let ends = record.expires_at()?.and_then(|microseconds| Timestamp::from_microsecond(microseconds).ok());
    let printed = ends.and_then(|ends| DateTimePrinter::new().timestamp_to_rfc9110_string(&ends).ok());
    Ok(printed.and_then(|text| HeaderValue::try_from(text).ok()))
}

/// Returns the JSON text of a record in the accepted representation, or 304 if the client has a current copy.
fn represented(
    database: &Database,
    table: &Table,
    json: &[u8],
    validator: Validator,
    headers: &HeaderMap,
    accepted: Accepted,
) -> Result<Answer> {
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
            let mut answer = empty(StatusCode::NOT_MODIFIED);
            answer.headers_mut().insert(ETAG, as_sent.header());
            format.vary(answer.headers_mut());
            coding::vary(coding, answer.headers_mut());
            return Ok(answer);
        }
    }
    let mut answer =
        with_record(StatusCode::OK, &validator, converted.map_or_else(|| Bytes::copy_from_slice(json), Bytes::from));
    if format != Format::Json {
        format.set_headers(answer.headers_mut());
    }
    Ok(answer)
}

fn no_record(table: &Table, id: &str) -> Error {
    Error::NotFound { detail: format!("there is no record {id:?} in {}", table.name) }
}

/// Returns 304, for a representation that the client already has.
pub fn not_modified(validator: &Validator) -> Answer {
    let mut answer = empty(StatusCode::NOT_MODIFIED);
    answer.headers_mut().insert(ETAG, validator.header());
    answer
}

/// `GET /T?query`, `POST /T/query`: a list of records, or the plan. On a worker thread, only a short list.
///
/// # Errors
/// 400 if more records would have to be sorted than fit in memory; errors of the database.
pub fn list(database: &Database, table: &Table, query: &Query<'_>, format: Format) -> Result<Answer> {
    let mut before = Vec::new();
    let answer = list_in_pieces(database, table, query, format, |piece| match database.reach() {
        Reach::Memory => Err(Error::WouldBlock),
        Reach::Disk => {
            before.extend_from_slice(&piece);
            Ok(())
        }
    })?;
    if before.is_empty() {
        return Ok(answer);
    }
    before.extend_from_slice(answer.body());
    Ok(answer.map(|_| Bytes::from(before)))
}

/// Like [`list`], but passes a list longer than [`PIECE_BYTES`] to `hand_over` in pieces, except for the last, which is the body of the
/// answer. [`list_head`] returns the head to send before them.
///
/// # Errors
/// As [`list`], and 400 if the list is too long for its format; errors of `hand_over`.
pub fn list_in_pieces(
    database: &Database,
    table: &Table,
    query: &Query<'_>,
    format: Format,
    mut hand_over: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
) -> Result<Answer> {
    query.check(database, table)?;
    if query.explain {
        let explanation = query.explain(database, table)?;
        let body = serde_json::to_vec(&explanation).expect("a structure of texts and numbers is JSON");
        return format.of_one()?.convert(with_body(StatusCode::OK, JSON, Bytes::from(body)), None);
    }
    let mut piece = Vec::with_capacity(1024);
    let mut list = ListWriter::begin(format, database.schema(), table, query, &mut piece)?;
    let shown = query.show(database, table, |_, text| {
        list.write(text, &mut piece)?;
        match piece.len() {
            ..PIECE_BYTES => Ok(()),
            _ if list.comes_in_pieces() => {
                hand_over(std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 3))))
            }
            length => of_whole_list(length, database.reach()),
        }
    })?;
    list.end(shown.total, &mut piece)?;
    let mut answer = list_head(format).map(|_| Bytes::from(piece));
    if let Some(next) = shown.next {
        answer.headers_mut().insert(LINK, link_to_next(table, query, &next));
    }
    Ok(answer)
}

/// Checks the length of a list that has to be complete before it is sent.
fn of_whole_list(bytes: usize, reach: Reach) -> crate::error::Result<()> {
    match reach {
        Reach::Memory => Err(Error::WouldBlock),
        Reach::Disk if bytes < WHOLE_BYTES => Ok(()),
        Reach::Disk => Err(Error::invalid(format!(
            "a list in this media type begins with its length, so it has at most {} MiB: request fewer records, or another type",
            WHOLE_BYTES >> 20
        ))),
    }
}

/// Returns the head of the answer with a list.
pub fn list_head(format: Format) -> Answer {
    let mut answer = with_body(StatusCode::OK, JSON, Bytes::new());
    if format != Format::Json {
        format.set_headers(answer.headers_mut());
    }
    answer
}

/// Returns the `Link` value (RFC 8288) for the next page. A query that is too long for a URL has to be sent as a body, and the link has
/// only the cursor to put into it.
fn link_to_next(table: &Table, query: &Query<'_>, next: &Cursor) -> HeaderValue {
    // Percent-encoding whatever a URL cannot contain does not change the meaning.
    let text = utf8_percent_encode(&query.text_after(next), &NOT_IN_URL).to_string();
    let link = match text.len() <= Limits::in_url(0).query_bytes {
        true => format!("</{}?{text}>; rel=\"next\"", table.name),
        false => format!("</{}/query>; rel=\"next\"; after=\"{next}\"", table.name),
    };
    HeaderValue::from_str(&link).expect("encoded text is visible ASCII")
}

/// `POST /T` with an object: 201, `Location`, and the record.
///
/// # Errors
/// 400 for the body, or for a precondition other than `If-None-Match: *`; 409 if the id or a unique value exists, 412 for the id under this
/// precondition; errors of the database.
pub fn create(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
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
    let mut answer = written(StatusCode::CREATED, record, headers);
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}

/// `POST /T` with an array: 201 and the records; creates all or none.
///
/// # Errors
/// As [`create`], with pointers that begin with the index of the element.
pub fn create_all(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
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
pub fn replace(database: &Database, table: &Table, id: &str, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
    let expected = expected(headers)?;
    let (record, created) = database.replace(table, id, body, &expected).map_err(|error| match error {
        // Without the precondition the answer would not be 404, so the precondition fails (RFC 9110, section 13.1.1).
        Error::NotFound { .. } if expected != Precondition::None => Error::Stale,
        other => other,
    })?;
    if !created {
        return Ok(written(StatusCode::OK, record, headers));
    }
    let location = location(table, id)?;
    let mut answer = written(StatusCode::CREATED, record, headers);
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}

/// `PUT /T` with an array: 200 and the numbers of records created and replaced, each as by [`replace`]; writes all or none.
///
/// # Errors
/// As [`replace`], with pointers that begin with the index of the element; 400 if an id occurs twice.
pub fn replace_all(database: &Database, table: &Table, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
    of_one_record(headers)?;
    let Replaced { created, replaced } = database.replace_all(table, body)?;
    let body = format!("{{\"created\":{created},\"replaced\":{replaced}}}");
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(body)))
}

/// `PATCH /T/{id}`: applies a JSON merge patch (RFC 7396); 200 and the resulting record.
///
/// # Errors
/// As [`replace`], and 404 if there is no such record.
pub fn merge(database: &Database, table: &Table, id: &str, headers: &HeaderMap, body: &[u8]) -> Result<Answer> {
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
) -> Result<Answer> {
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
pub fn delete(database: &Database, table: &Table, id: &str, headers: &HeaderMap) -> Result<Answer> {
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
) -> Result<Answer> {
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

/// Rejects preconditions on requests that may concern many records.
///
/// # Errors
/// 400 if there is one.
pub fn of_one_record(headers: &HeaderMap) -> Result<()> {
    match expected(headers)? {
        Precondition::None => Ok(()),
        _ => Err(Error::invalid("a precondition applies to one record, and this request may change several").into()),
    }
}

/// `OPTIONS`: 204 and the allowed methods; and the media types of patches where `PATCH` is one of them (RFC 5789, 3.1).
pub fn options(allow: &'static str) -> Answer {
    let mut answer = empty(StatusCode::NO_CONTENT);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    if allow.contains("PATCH") {
        answer.headers_mut().insert(ACCEPT_PATCH, HeaderValue::from_static(media::PATCHES));
    }
    answer
}

/// Converts the answer to `GET` into that to `HEAD`: no body, but with its `Content-Length`.
pub fn without_body(mut answer: Answer) -> Answer {
    let body = std::mem::take(answer.body_mut());
    if answer.status() != StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    answer
}

/// Returns an answer with a body of this media type.
pub fn with_body(status: StatusCode, media_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Returns an answer with a record and its `ETag`.
pub fn with_record(status: StatusCode, validator: &Validator, json: Bytes) -> Answer {
    let mut answer = with_body(status, JSON, json);
    answer.headers_mut().insert(ETAG, validator.header());
    answer
}

/// Returns the answer to a write, with the resulting record unless the client prefers a minimal one.
fn written(status: StatusCode, record: Owned<'_>, headers: &HeaderMap) -> Answer {
    let validator = Validator::of(&record);
    if prefers_minimal(headers) {
        let mut answer = minimal(status);
        answer.headers_mut().insert(ETAG, validator.header());
        return answer;
    }
    with_record(status, &validator, record.into_json())
}

/// Returns the answer to a write without the record.
fn minimal(status: StatusCode) -> Answer {
    let mut answer = empty(if status == StatusCode::OK { StatusCode::NO_CONTENT } else { status });
    answer.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("return=minimal"));
    answer
}

/// Reduces the answer to a write to its status and validator, if there is no memory for its body.
pub fn remove_content(answer: &mut Answer) {
    if answer.status() == StatusCode::OK {
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    *answer.body_mut() = Bytes::new();
    for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH] {
        answer.headers_mut().remove(name);
    }
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer
}

fn location(table: &Table, id: &str) -> Result<HeaderValue> {
    HeaderValue::from_maybe_shared(Bytes::from(url::record(&table.name, id)))
        .map_err(|error| Error::storage("cannot encode the path of the record", error).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use crate::storage;

    fn database(folder: &tempfile::TempDir) -> Database {
        let schema = "type Product @table @export { id: ID! @primaryKey name: String! brand: String @indexed sku: String @unique }";
        Database::open(folder.path(), Schema::parse(schema).unwrap(), &storage::Options::default()).unwrap()
    }

    fn status(result: Result<Answer>) -> u16 {
        result.unwrap_or_else(|failure| failure.answer(None)).status().as_u16()
    }

    #[test]
    fn verbs_answer_as_the_contract_says() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let table = database.table("Product").unwrap();
        let none = HeaderMap::new();

        let created =
            create(&database, table, &HeaderMap::new(), br#"{"id":"a b","name":"Lamp","brand":"x"}"#).unwrap();
        assert_eq!(created.status(), 201);
        assert_eq!(created.headers()[LOCATION], "/Product/a%20b");
        assert_eq!(created.body(), &br#"{"id":"a b","name":"Lamp","brand":"x","sku":null}"#[..]);
        let read_back = read(&database, table, "a b", &none, Accepted::default()).unwrap();
        assert_eq!((read_back.body(), &read_back.headers()[ETAG]), (created.body(), &created.headers()[ETAG]));

        let mut known = HeaderMap::new();
        known.insert(http::header::IF_NONE_MATCH, created.headers()[ETAG].clone());
        let unchanged = read(&database, table, "a b", &known, Accepted::default()).unwrap();
        assert_eq!((unchanged.status().as_u16(), unchanged.body().len()), (304, 0));

        let mut stale = HeaderMap::new();
        stale.insert(http::header::IF_MATCH, HeaderValue::from_static("\"0000000000000000\""));
        assert_eq!(status(read(&database, table, "a b", &stale, Accepted::default())), 412);
        assert_eq!(status(merge(&database, table, "a b", &stale, b"{}")), 412);
        assert_eq!(status(replace(&database, table, "new", &stale, br#"{"name":"n"}"#)), 412);
        assert_eq!(status(delete(&database, table, "new", &stale)), 404);
        assert_eq!(status(replace(&database, table, "new", &none, br#"{"name":"n","sku":"1"}"#)), 201);
        assert_eq!(status(replace(&database, table, "new", &none, br#"{"name":"n","sku":"1"}"#)), 200);
        assert_eq!(status(create(&database, table, &HeaderMap::new(), br#"{"name":"n","sku":"1"}"#)), 409);
        assert_eq!(status(delete(&database, table, "new", &none)), 204);
        assert_eq!(status(read(&database, table, "new", &none, Accepted::default())), 404);
    }

    #[test]
    fn lists_are_cut_and_filtered() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let table = database.table("Product").unwrap();
        let body = br#"[{"id":"1","name":"a","brand":"x"},{"id":"2","name":"b","brand":"y"},{"id":"3","name":"c","brand":"x"}]"#;
        let all = create_all(&database, table, &HeaderMap::new(), body).unwrap();
        let ids = |query: &str| {
            let query = Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap();
            let answer = list(&database, table, &query, Format::Json).unwrap();
            let records: Vec<serde_json::Value> = serde_json::from_slice(answer.body()).unwrap();
            records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect::<String>()
        };
        assert_eq!(list(&database, table, &Query::default(), Format::Json).unwrap().body(), all.body());
        assert_eq!(ids("brand=x"), "13");
        assert_eq!(ids("brand==x&limit=1"), "1");
        assert_eq!(ids("limit=2"), "12");
        assert_eq!(ids("limit=0"), "");
        assert_eq!(ids("id==2"), "2");
        assert_eq!(ids("brand==z"), "");
        assert_eq!(ids("sort=-name&limit=2"), "32");
        let selected = Query::parse(database.schema(), table, "select=name,id&id==2", &Limits::in_url(100)).unwrap();
        assert_eq!(list(&database, table, &selected, Format::Json).unwrap().body(), &br#"[{"name":"b","id":"2"}]"#[..]);
    }

    #[test]
    fn a_long_list_is_handed_over_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let table = database.table("Product").unwrap();
        let name = "n".repeat(PIECE_BYTES / 10);
        for id in 10..60 {
            let body = format!("{{\"id\":\"{id}\",\"name\":\"{name}\"}}");
            create(&database, table, &HeaderMap::new(), body.as_bytes()).unwrap();
        }
        let pieces_of = |query: &str| {
            let (mut pieces, query) =
                (Vec::new(), Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap());
            let hand_over = |piece| {
                pieces.push(piece);
                Ok(())
            };
            let last = list_in_pieces(&database, table, &query, Format::Json, hand_over).unwrap().into_body();
            assert_eq!(
                list(&database, table, &query, Format::Json).unwrap().body(),
                &[pieces.concat(), last.to_vec()].concat()
            );
            pieces.iter().map(Vec::len).collect::<Vec<_>>()
        };
        let lengths = pieces_of("");
        assert!(lengths.len() == 5 && lengths.iter().all(|length| (PIECE_BYTES..2 * PIECE_BYTES).contains(length)));
        assert_eq!((pieces_of("limit=5"), pieces_of("limit=0")), (vec![], vec![]));
        let in_memory = |query: &str| {
            let query = Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap();
            list(&database.never_blocking(), table, &query, Format::Json)
        };
        assert_eq!(status(in_memory("limit=5")), 200);
        assert!(matches!(in_memory("limit=50"), Err(Failure::Error(Error::WouldBlock))));
    }

    #[test]
    fn a_list_that_was_cut_says_how_it_goes_on_however_long_its_query_is() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder);
        let table = database.table("Product").unwrap();
        let body = br#"[{"id":"1","name":"a"},{"id":"2","name":"b"},{"id":"3","name":"c"}]"#;
        create_all(&database, table, &HeaderMap::new(), body).unwrap();
        let listed = |text: &str| {
            let query = Query::parse(database.schema(), table, text, &Limits::in_body(100)).unwrap();
            let answer = list(&database, table, &query, Format::Json).unwrap();
            let link = answer.headers().get(LINK).map(|link| link.to_str().unwrap().to_owned());
            (String::from_utf8(answer.into_body().to_vec()).unwrap(), link)
        };
        let short = listed("limit=2&select=id").1.unwrap();
        assert!(
            short.starts_with("</Product?limit=2&select=id&after=") && short.ends_with(">; rel=\"next\""),
            "{short}"
        );
        let long = format!("id=in=1,2,3{}&limit=2&select=id", ",4".repeat(5000));
        let (first, link) = listed(&long);
        let link = link.unwrap();
        let cursor = link.strip_prefix("</Product/query>; rel=\"next\"; after=\"").unwrap().strip_suffix('"').unwrap();
        assert_eq!(first, r#"[{"id":"1"},{"id":"2"}]"#);
        assert_eq!(listed(&format!("{long}&after={cursor}")), (r#"[{"id":"3"}]"#.to_owned(), None));
    }

    #[test]
    fn head_keeps_the_length() {
        let answer = without_body(with_body(StatusCode::OK, JSON, Bytes::from_static(b"[]")));
        assert_eq!((answer.body().len(), &answer.headers()[CONTENT_LENGTH]), (0, &HeaderValue::from(2)));
    }
}
