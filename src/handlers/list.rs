//! The verbs of lists: a query and its records, whole or in pieces.
//!
//! Each record's stored text, or the selected parts of it, is copied between the brackets of the list. Where the list was cut by its limit,
//! a cursor says where it goes on (`query::cursor`): the position of the last record, the access path, and the key that its walk had
//! reached.

use bytes::Bytes;
use http::header::LINK;
use http::{HeaderValue, StatusCode};
use percent_encoding::utf8_percent_encode;

use super::media::{Format, ListWriter};
use super::problem::Result;
use super::response::{JSON, Response, with_body};
use crate::error::Error;
use crate::query::{Cursor, Limits, NOT_IN_URL, Query};
use crate::schema::Table;
use crate::storage::ReadTier;
use crate::transaction::Database;

/// The approximate size of the pieces in which a longer list is sent, in bytes.
pub const PIECE_BYTES: usize = 64 << 10;

/// The maximum length of a list in a format that has to be complete before it is sent, in bytes.
const WHOLE_BYTES: usize = 16 << 20;

/// `GET /T?query`, `POST /T/query`: a list of records, or the plan. On a worker thread, only a short list.
///
/// # Errors
/// 400 if more records would have to be sorted than fit in memory; errors of the database.
pub fn list(database: &Database, table: &Table, query: &Query<'_>, format: Format) -> Result<Response> {
    let mut before = Vec::new();
    let response = list_in_pieces(database, table, query, format, |piece| match database.tier() {
        ReadTier::Memory => Err(Error::WouldBlock),
        ReadTier::Disk => {
            before.extend_from_slice(&piece);
            Ok(())
        }
    })?;
    if before.is_empty() {
        return Ok(response);
    }
    before.extend_from_slice(response.body());
    Ok(response.map(|_| Bytes::from(before)))
}

/// Like [`list`], but passes a list longer than [`PIECE_BYTES`] to `send_chunk` in pieces, except for the last, which is the body of the
/// response. [`list_head`] returns the head to send before them.
///
/// # Errors
/// As [`list`], and 400 if the list is too long for its format; errors of `send_chunk`.
pub fn list_in_pieces(
    database: &Database,
    table: &Table,
    query: &Query<'_>,
    format: Format,
    mut send_chunk: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
) -> Result<Response> {
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
                send_chunk(std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES + (PIECE_BYTES >> 3))))
            }
            length => of_whole_list(length, database.tier()),
        }
    })?;
    list.end(shown.total, &mut piece)?;
    let mut response = list_head(format).map(|_| Bytes::from(piece));
    if let Some(next) = shown.next {
        response.headers_mut().insert(LINK, link_to_next(table, query, &next));
    }
    Ok(response)
}

/// Checks the length of a list that has to be complete before it is sent.
pub(super) fn of_whole_list(bytes: usize, tier: ReadTier) -> crate::error::Result<()> {
    match tier {
        ReadTier::Memory => Err(Error::WouldBlock),
        ReadTier::Disk if bytes < WHOLE_BYTES => Ok(()),
        ReadTier::Disk => Err(Error::invalid(format!(
            "a list in this media type begins with its length, so it has at most {} MiB: request fewer records, or another type",
            WHOLE_BYTES >> 20
        ))),
    }
}

/// Returns the head of the response with a list.
pub fn list_head(format: Format) -> Response {
    let mut response = with_body(StatusCode::OK, JSON, Bytes::new());
    if format != Format::Json {
        format.set_headers(response.headers_mut());
    }
    response
}

/// Returns the `Link` value (RFC 8288) for the next page. A query that is too long for a URL has to be sent as a body, and the link has
/// only the cursor to put into it.
pub(super) fn link_to_next(table: &Table, query: &Query<'_>, next: &Cursor) -> HeaderValue {
    // Percent-encoding whatever a URL cannot contain does not change the meaning.
    let text = utf8_percent_encode(&query.text_after(next), &NOT_IN_URL).to_string();
    let link = match text.len() <= Limits::in_url(0).query_bytes {
        true => format!("</{}?{text}>; rel=\"next\"", table.name),
        false => format!("</{}/query>; rel=\"next\"; after=\"{next}\"", table.name),
    };
    HeaderValue::from_str(&link).expect("encoded text is visible ASCII")
}
