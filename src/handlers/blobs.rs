//! Handlers for blobs: their bytes, with validators and ranges of their own.
//!
//! The first piece is read before the head is sent, so that corruption at the beginning is answered with 500; the rest is read while it is
//! sent. A write whose preconditions fail is rejected before its body is read.
//!
//! Uploaded content is served from the origin of the server. So a page among it must not run as a page of this origin (`sandbox`), and
//! what a page would execute is refused before (`ingress`), which is why a cache must keep the purposes of a request apart.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    LOCATION, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::coding::accepts_plain;
use super::fields::{members, single};
use super::headers::{Validator, expected};
use super::problem::{Failure, Result};
use super::ranges::{RangeSpec, is_known, is_stale, range};
use super::record::no_record;
use super::response::{Response, empty};
use crate::blobs::{self, Reader, Upload, Uploaded};
use crate::error::Error;
use crate::schema::Table;
use crate::transaction::Database;

/// The body of a response.
pub struct Content {
    /// Its first piece.
    pub first: Bytes,
    /// The reader of the rest, if there is more.
    pub rest: Option<Reader>,
}

/// `GET /T/{id}/{blob}`: 200 or 206 and the bytes, or 304 if the client has a current copy. The response to HEAD has the length of the
/// whole blob.
///
/// # Errors
/// 404 if there is no such record or blob; 406 for `Accept-Encoding`; 412 for `If-Match`; 416 for an unsatisfiable range; errors of the database.
pub fn read(
    database: &Database,
    table: &Table,
    id: &str,
    attribute: usize,
    headers: &HeaderMap,
    head: bool,
) -> Result<Response<Content>> {
    let opened = Reader::open(database, table, id, attribute)?;
    let mut reader = opened.ok_or_else(|| no_record(table, id))?;
    accepts_plain(headers)?;
    let etag = Validator::of_blob(reader.tag()).header();
    if is_stale(headers, &etag) {
        return Err(Error::Stale.into());
    }
    let mut response = Response::new(Content { first: Bytes::new(), rest: None });
    response.headers_mut().insert(ETAG, etag.clone());
    response.headers_mut().insert(VARY, HeaderValue::from_static("sec-fetch-dest"));
    if is_known(headers, &etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let media_type = HeaderValue::from_str(reader.media_type())
        .map_err(|error| Error::storage("cannot send the media type of a blob", error))?;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, media_type);
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    let length_bytes = reader.length_bytes();
    if head {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length_bytes));
        return Ok(response);
    }
    match range(headers, length_bytes, &etag) {
        RangeSpec::All => {}
        RangeSpec::Part(part) => {
            let of = format!("bytes {}-{}/{length_bytes}", part.start, part.end - 1);
            fields.insert(CONTENT_RANGE, HeaderValue::try_from(of).expect("digits and signs"));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            reader.select(part);
        }
        RangeSpec::Nothing => return Err(Failure::Range { length_bytes }),
    }
    let first = Bytes::from(reader.next(database)?);
    *response.body_mut() = Content { first, rest: (reader.left_bytes() > 0).then_some(reader) };
    Ok(response)
}

/// Begins `PUT /T/{id}/{blob}`, before its body is read.
///
/// # Errors
/// 404 if there is no such record; 412 for the precondition; 415 without a media type, or for a compressed body; 400 for a partial blob, an
/// overlong media type, or a precondition that cannot be honoured; errors of the database.
pub fn begin(database: &Database, table: &Table, id: &str, attribute: usize, headers: &HeaderMap) -> Result<Upload> {
    let expected = expected(headers)?;
    if members(headers, CONTENT_ENCODING).any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(Failure::ContentCoding { supported: "identity" });
    }
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Error::invalid("a blob is written as a whole: Content-Range is not supported").into());
    }
    let media_type = single(headers, CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.ok_or_else(|| Failure::media_type(headers, "the media type of the blob", None))?;
    Ok(Upload::begin(database, table, id, attribute, media_type, expected)?)
}

/// Finishes `PUT /T/{id}/{blob}`: 201 if there was no blob, else 204. It may be retried after `WouldBlock` and `Busy`.
///
/// # Errors
/// 404 if the record no longer exists; 412 for the precondition; errors of the database.
pub fn finish(database: &Database, upload: &mut Upload) -> Result<Response> {
    let Uploaded { tag, created } = upload.finish(database)?;
    let mut response = empty(if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT });
    response.headers_mut().insert(ETAG, Validator::of_blob(tag).header());
    if created {
        let location = HeaderValue::from_maybe_shared(Bytes::from(upload.path()))
            .map_err(|error| Error::storage("cannot encode the path of the blob", error))?;
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `DELETE /T/{id}/{blob}`: 204.
///
/// # Errors
/// 404 if there is no such record or blob; 412 for the precondition; errors of the database.
pub fn remove(database: &Database, table: &Table, id: &str, attribute: usize, headers: &HeaderMap) -> Result<Response> {
    blobs::remove(database, table, id, attribute, &expected(headers)?)?;
    Ok(empty(StatusCode::NO_CONTENT))
}
