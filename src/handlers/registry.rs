//! Registrations that are kept in Redis: the verbs of a record and of lists, as far as such tables have them.

use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH, LINK, LOCATION};
use http::{HeaderMap, StatusCode};

use super::headers::{Validator, expected, written};
use super::list::{PIECE_BYTES, link_to_next, list_head, of_whole_list};
use super::media::{Accepted, Format, ListWriter};
use super::problem::Result;
use super::record::{SUNSET, location, no_record, represented, sunset};
use super::response::{Response, empty};
use crate::error::{Error, Place};
use crate::multicast::{Registered, Registry};
use crate::query::{Clause, Query};
use crate::schema::Table;
use crate::storage::ReadTier;
use crate::transaction::{Database, Precondition};

/// `GET /T/{id}`, with `select` if there is a query.
///
/// # Errors
/// 404 if there is none; 400 for `If-Match`; errors of the registry.
pub fn read(
    registry: &Registry,
    database: &Database,
    table: &Table,
    id: &str,
    query: Option<&Query<'_>>,
    headers: &HeaderMap,
    accepted: Accepted,
) -> Result<Response> {
    unversioned(headers)?;
    let record = registry.read(database, table, id)?.ok_or_else(|| no_record(table, id))?;
    let validator = Validator::of(&record);
    let mut response = match query {
        None => represented(database, table, record.json(), validator, headers, accepted)?,
        Some(query) => {
            let validator = validator.of_selection(query.text.as_bytes());
            represented(database, table, &query.text_of(&record.view())?, validator, headers, accepted)?
        }
    };
    response.headers_mut().extend(sunset(table, &record)?.map(|sunset| (SUNSET, sunset)));
    Ok(response)
}

/// `PUT /T/{id}`: 200 if replaced, 201 if created.
///
/// # Errors
/// 400 for the body, and for `If-Match`; 412 if there is one and the client wants none; errors of the registry.
pub fn register(
    registry: &Registry,
    database: &Database,
    table: &Table,
    id: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response> {
    unversioned(headers)?;
    let (record, registered) = match expected(headers)? {
        Precondition::Absent => (registry.register_absent(database, table, id, body)?, Registered::Created),
        _ => registry.register(database, table, id, body)?,
    };
    if registered == Registered::Replaced {
        return Ok(written(StatusCode::OK, record, headers));
    }
    let mut response = written(StatusCode::CREATED, record, headers);
    response.headers_mut().insert(LOCATION, location(table, id)?);
    Ok(response)
}

/// `DELETE /T/{id}`: 204.
///
/// # Errors
/// 404 if there is none; 400 for a precondition; errors of the registry.
pub fn unregister(registry: &Registry, table: &Table, id: &str, headers: &HeaderMap) -> Result<Response> {
    unversioned(headers)?;
    if headers.contains_key(IF_NONE_MATCH) {
        return Err(Error::invalid("If-None-Match does not apply to DELETE of a registration in Redis").into());
    }
    match registry.unregister(table, id)? {
        true => Ok(empty(StatusCode::NO_CONTENT)),
        false => Err(no_record(table, id).into()),
    }
}

/// `GET /T?query`, `POST /T/query`: all registrations are fetched, and a list is made of those that match. Like
/// [`list_in_pieces`](super::list_in_pieces), it passes a longer one to `send_chunk` in pieces.
///
/// # Errors
/// 400 for `explain`, and if the list is too long for its format; errors of the registry and of `send_chunk`.
pub fn list_in_pieces(
    registry: &Registry,
    database: &Database,
    table: &Table,
    query: &Query<'_>,
    format: Format,
    mut send_chunk: impl FnMut(Vec<u8>) -> crate::error::Result<()>,
) -> Result<Response> {
    if let Some(Clause { position, .. }) = query.clauses.iter().find(|clause| clause.name == "explain" && query.explain)
    {
        let detail = "there is no plan to explain: every registration in Redis is examined".to_owned();
        return Err(Error::Invalid { detail, place: Place::Position(*position) }.into());
    }
    let now = database.now();
    let records = registry.enumerate(table, now)?;
    let mut piece = Vec::with_capacity(1024);
    let mut list = ListWriter::begin(format, database.schema(), table, query, &mut piece)?;
    let shown = query.show_given(database, table, now, records, |_, text| {
        list.write(text, &mut piece)?;
        match piece.len() {
            ..PIECE_BYTES => Ok(()),
            _ if list.comes_in_pieces() => send_chunk(std::mem::take(&mut piece)),
            length => of_whole_list(length, ReadTier::Disk),
        }
    })?;
    list.end(shown.total, &mut piece)?;
    let mut response = list_head(format).map(|_| Bytes::from(piece));
    if let Some(next) = shown.next {
        response.headers_mut().insert(LINK, link_to_next(table, query, &next));
    }
    Ok(response)
}

/// Rejects `If-Match`: nobody compares versions in Redis.
fn unversioned(headers: &HeaderMap) -> Result<()> {
    match headers.contains_key(IF_MATCH) {
        true => Err(Error::invalid("If-Match is not supported for registrations in Redis").into()),
        false => Ok(()),
    }
}
