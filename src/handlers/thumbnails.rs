//! Handlers for thumbnails: blobs that are pictures, in the size asked for, within a memory that all of them share.
//!
//! ```text
//! begin ── record, tag, size ──┬─ the client has it: 304
//!                              └─ Wanted ── make: file read, head, memory reserved ── pixels ── Made ── response
//! ```
//! A file and what it takes to decode it are reserved before they are there. Only one at a time is between the two, so that those which have
//! all they need end and give it back: nobody waits for somebody who waits.
//!
//! The tag of a thumbnail is made of that of the blob, the size and the version of this code, so a client that has it gets 304 and nothing
//! of the file is read.
//!
//! Non-goals: where and when one is made, what is kept of them, and who waits for whom (`ingress`).

use bytes::Bytes;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::{Condvar, Mutex};

use super::Options;
use super::coding::accepts_plain;
use super::headers::Validator;
use super::problem::{Failure, Result};
use super::ranges::{is_known, is_stale};
use super::record::no_record;
use super::response::{Response, empty, with_body};
use crate::blobs::Reader;
use crate::error::Error;
use crate::pictures::{Fault, FaultKind, Kind, Picture};
use crate::schema::{Table, ThumbSize};
use crate::transaction::Database;

/// The number of the code that makes thumbnails: another one makes others, so clients ask for them again.
const VERSION: u32 = 1;

/// What a request for a thumbnail begins with.
pub enum Begun {
    /// The client has it.
    Known(Response),
    /// It is to be found or made.
    Wanted(Wanted),
}

/// A thumbnail that is asked for.
pub struct Wanted {
    /// The upload and the size.
    pub key: Key,
    /// The validator of it.
    pub etag: HeaderValue,
    reader: Reader,
}

/// An upload and a size: the bytes under it never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    upload: (u32, u64),
    spec: ThumbSize,
}

/// A thumbnail.
#[derive(Clone, Debug)]
pub struct Made {
    /// The file.
    pub bytes: Bytes,
    media_type: &'static str,
}

/// Begins `GET /T/{id}/{blob}?thumb=SPEC`.
///
/// # Errors
/// 404 if there is no such record or blob; 406 for `Accept-Encoding`; 412 for `If-Match`; errors of the database.
pub fn begin(
    database: &Database,
    table: &Table,
    id: &str,
    attribute: usize,
    spec: ThumbSize,
    headers: &HeaderMap,
) -> Result<Begun> {
    let opened = Reader::open(database, table, id, attribute)?;
    let reader = opened.ok_or_else(|| no_record(table, id))?;
    accepts_plain(headers)?;
    let etag = Validator::of_blob(reader.tag()).with(&format!("{spec}-{VERSION}")).header();
    if is_stale(headers, &etag) {
        return Err(Error::Stale.into());
    }
    if is_known(headers, &etag) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        response.headers_mut().insert(ETAG, etag);
        return Ok(Begun::Known(response));
    }
    Ok(Begun::Wanted(Wanted { key: Key { upload: reader.upload(), spec }, etag, reader }))
}

/// Answers with a thumbnail. The response to HEAD has its length.
pub fn respond(made: &Made, etag: HeaderValue) -> Response {
    let mut response = with_body(StatusCode::OK, HeaderValue::from_static(made.media_type), made.bytes.clone());
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(made.bytes.len()));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    response
}

/// Makes thumbnails within a memory that is theirs.
pub struct Maker {
    most_pixels: u64,
    most_bytes: u64,
    /// Bytes that are reserved.
    reserved: Mutex<u64>,
    given_back: Condvar,
    /// Held by the one whose file is there and whose pixels are not reserved yet.
    reserving: Mutex<()>,
}

/// Reserved bytes, until it is dropped.
struct Reserved<'m> {
    maker: &'m Maker,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        *self.maker.reserved.lock() -= self.bytes;
        self.maker.given_back.notify_all();
    }
}

impl Maker {
    /// Creates one without any work.
    pub fn new(options: &Options) -> Self {
        let (most_pixels, most_bytes) = (options.thumb_pixels, options.thumb_memory as u64);
        Self {
            most_pixels,
            most_bytes,
            reserved: Mutex::default(),
            given_back: Condvar::new(),
            reserving: Mutex::default(),
        }
    }

    /// Makes a thumbnail. Blocks until there is room for the file and its pixels.
    ///
    /// # Errors
    /// 422 if the blob is no picture, is damaged, or takes more than there is; errors of the database.
    pub fn make(&self, database: &Database, wanted: Wanted) -> Result<Made> {
        let Wanted { key: Key { spec, .. }, mut reader, .. } = wanted;
        let whole = reader.left_bytes();
        // What is no picture neither waits for room nor takes any.
        let first = if whole > 0 { reader.next(database)? } else { Vec::new() };
        Kind::of(&first)?;
        let reserving = self.reserving.lock();
        let mut reserved = Reserved { maker: self, bytes: 0 };
        reserved.grow(whole)?;
        let mut file = Vec::with_capacity(whole as usize);
        file.extend_from_slice(&first);
        drop(first);
        while reader.left_bytes() > 0 {
            file.extend_from_slice(&reader.next(database)?);
        }
        drop(reader);
        let picture = Picture::open(&file)?;
        let (pixels, most) = (picture.pixels(), self.most_pixels);
        if pixels > most {
            let detail = format!("it has {pixels} pixels, and may have {most} (--thumb-pixels)");
            return Err(Fault { kind: FaultKind::TooLarge, detail }.into());
        }
        reserved.grow(picture.needed_bytes(&spec)?)?;
        drop(reserving);
        let made = picture.thumbnail(&spec)?;
        // Without the room in which it grew: it may be kept.
        Ok(Made { bytes: made.bytes.into_boxed_slice().into(), media_type: made.media_type })
    }
}

impl Reserved<'_> {
    /// Reserves more once there is room for it.
    ///
    /// # Errors
    /// `TooLarge` if there never is.
    fn grow(&mut self, by: u64) -> std::result::Result<(), Fault> {
        let (all, whole) = (self.maker.most_bytes, self.bytes.saturating_add(by));
        if whole > all {
            let detail = format!("it takes {whole} bytes to make it smaller, and there are {all} (--thumb-memory)");
            return Err(Fault { kind: FaultKind::TooLarge, detail });
        }
        let mut reserved = self.maker.reserved.lock();
        self.maker.given_back.wait_while(&mut reserved, |reserved| *reserved + by > all);
        *reserved += by;
        self.bytes = whole;
        Ok(())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Picture(fault)
    }
}
