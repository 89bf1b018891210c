//! `/S`: appends to a stream and reads of it, as JSON.

use std::io::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::events::LAST_EVENT_ID;
use super::headers::{Validator, expected, is_stale, prefers_minimal, with_record};
use super::problem::Result;
use super::response::{JSON, PREFERENCE_APPLIED, Response, empty, with_body};
use crate::error::Error;
use crate::schema::Stream;
use crate::streams::{Appended, Done, Event, Group, Page, RequestKind, Start, Streams, no_group, parse_offsets};
use crate::transaction::Database;

/// The maximum number of events in a response.
pub const MOST_EVENTS: u64 = 10_000;

/// The longest time that a read waits for an event, in milliseconds.
pub const LONGEST_WAIT_MS: u64 = 60_000;

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The partition.
    pub partition: u32,
    /// Where it begins.
    pub from: Start,
    /// The maximum number of events; 0: only the watermarks.
    pub limit: usize,
    /// How long it waits for an event, in milliseconds.
    pub wait_ms: u64,
}

/// What a subscription follows: partitions, each with its beginning; `None`: the events from now on.
pub type Followed = Vec<(u32, Option<Start>)>;

/// Marks a response without events: where reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtEnd {
    /// The position of the stream in the schema.
    pub stream: usize,
    /// The partition.
    pub partition: u32,
    /// The offset of the next event.
    pub offset: u64,
}

/// `POST /S`: appends an event; 202 and its place.
///
/// # Errors
/// 400 for the body; 412 if the event would get another offset than it expects; errors of the database.
pub fn append(streams: &Streams, database: &Database, stream: &Stream, body: &[u8]) -> Result<Response> {
    let appended = streams.append(database, stream, &Event::parse(stream, body)?)?;
    let done = Done { events: 1, bytes: body.len(), duplicates: usize::from(appended.duplicate) };
    streams.done(stream, RequestKind::Append, done)?;
    let mut json = Vec::with_capacity(64);
    write_place(&appended, &mut json);
    Ok(with_body(StatusCode::ACCEPTED, JSON, Bytes::from(json)))
}

/// `POST /S/bulk`: appends events, all or none; 202 and their places, or only how many unless the client wants more.
///
/// # Errors
/// As [`append`], with pointers that begin with `/records` and the index of the event.
pub fn append_all(
    streams: &Streams,
    database: &Database,
    stream: &Stream,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response> {
    let appended = streams.append_all(database, stream, &Event::parse_all(stream, body)?)?;
    let duplicates = appended.iter().filter(|appended| appended.duplicate).count();
    streams.done(stream, RequestKind::Bulk, Done { events: appended.len(), bytes: body.len(), duplicates })?;
    let mut json = format!("{{\"count\":{},\"duplicates\":{duplicates}", appended.len()).into_bytes();
    let minimal = prefers_minimal(headers);
    if !minimal {
        json.extend_from_slice(b",\"offsets\":[");
        for (position, appended) in appended.iter().enumerate() {
            if position > 0 {
                json.push(b',');
            }
            write_place(appended, &mut json);
        }
        json.push(b']');
    }
    json.push(b'}');
    let mut response = with_body(StatusCode::ACCEPTED, JSON, Bytes::from(json));
    if minimal {
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("return=minimal"));
    }
    Ok(response)
}

pub(super) fn write_place(appended: &Appended, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"{\"partition\":");
    out.extend_from_slice(digits.format(appended.partition).as_bytes());
    out.extend_from_slice(b",\"offset\":");
    out.extend_from_slice(digits.format(appended.offset).as_bytes());
    out.extend_from_slice(if appended.duplicate { b",\"duplicate\":true}" } else { b"}" });
}

/// `GET /S`: events of a partition, and its watermarks.
///
/// # Errors
/// 410 below the low watermark; 416 above the high one; errors of the database.
pub fn read(
    streams: &Streams,
    database: &Database,
    stream: &Stream,
    reading: &Reading,
    response_bytes: usize,
) -> Result<Response> {
    let mut json = Vec::with_capacity(1024);
    json.extend_from_slice(b"{\"records\":[");
    let Reading { partition, from, limit, .. } = *reading;
    let Page { events, next, watermarks } =
        streams.read(database, stream, partition, from, (limit, response_bytes), &mut json)?;
    streams.done(
        stream,
        RequestKind::Read,
        Done { events, bytes: if events > 0 { json.len() } else { 0 }, duplicates: 0 },
    )?;
    let (low, high) = (watermarks.low, watermarks.high);
    write!(json, "],\"next\":{next},\"lowWatermark\":{low},\"highWatermark\":{high}}}").expect("memory takes it");
    let mut response = with_body(StatusCode::OK, JSON, Bytes::from(json));
    if events == 0 && limit > 0 {
        let stream = streams.position(stream)?;
        response.extensions_mut().insert(AtEnd { stream, partition, offset: next });
    }
    Ok(response)
}

/// `DELETE /S?partition=P&before=N`: trims a partition; 200 and its low watermark.
///
/// # Errors
/// 400 above the high watermark; errors of the database.
pub fn trim(streams: &Streams, database: &Database, stream: &Stream, partition: u32, before: u64) -> Result<Response> {
    let low = streams.trim(database, stream, partition, before)?;
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(format!("{{\"lowWatermark\":{low}}}"))))
}

/// `DELETE /S?truncate=true`: trims everything; 200.
///
/// # Errors
/// Errors of the database.
pub fn truncate(streams: &Streams, database: &Database, stream: &Stream) -> Result<Response> {
    streams.truncate(database, stream)?;
    Ok(with_body(StatusCode::OK, JSON, Bytes::from_static(br#"{"truncated":true}"#)))
}

/// `GET /S/consumers`: the consumer groups by name.
///
/// # Errors
/// Errors of the database.
pub fn groups(streams: &Streams, database: &Database, stream: &Stream) -> Result<Response> {
    Ok(with_body(StatusCode::OK, JSON, Bytes::from(listed(streams, database, stream)?)))
}

/// Returns the consumer groups by name, as JSON.
///
/// # Errors
/// Errors of the database.
pub fn listed(streams: &Streams, database: &Database, stream: &Stream) -> crate::error::Result<Vec<u8>> {
    let mut json = b"[".to_vec();
    for (name, group) in streams.groups(database, stream)? {
        if json.len() > 1 {
            json.push(b',');
        }
        json.extend_from_slice(&shown(streams, stream, &name, &group)?);
    }
    json.push(b']');
    Ok(json)
}

/// `GET /S/consumers/{group}`: its offsets and lags. The ETag is that of the offsets, for `If-Match`: there is no 304, since lags grow.
///
/// # Errors
/// 404 if it never committed; 412 for `If-Match`; errors of the database.
pub fn group(
    streams: &Streams,
    database: &Database,
    stream: &Stream,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response> {
    let group = streams.group(database, stream, name)?.ok_or_else(|| no_group(stream, name))?;
    let validator = Validator::of_group(group.checksum());
    if is_stale(headers, &validator) {
        return Err(Error::Stale.into());
    }
    Ok(with_record(StatusCode::OK, &validator, Bytes::from(shown(streams, stream, name, &group)?)))
}

/// `PUT /S/consumers/{group}`: sets the offsets that are named, all or none; 200 and the group.
///
/// # Errors
/// 400 for the name, the body, or an offset above the high watermark; 412 for the precondition; errors of the database.
pub fn commit(
    streams: &Streams,
    database: &Database,
    stream: &Stream,
    name: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response> {
    let group = streams.commit(database, stream, name, &parse_offsets(body)?, &expected(headers)?)?;
    let validator = Validator::of_group(group.checksum());
    Ok(with_record(StatusCode::OK, &validator, Bytes::from(shown(streams, stream, name, &group)?)))
}

/// `DELETE /S/consumers/{group}`: 204.
///
/// # Errors
/// 404 if it never committed; 412 for the precondition; errors of the database.
pub fn remove_group(
    streams: &Streams,
    database: &Database,
    stream: &Stream,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response> {
    streams.remove_group(database, stream, name, &expected(headers)?)?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Returns a group as JSON.
pub(super) fn shown(streams: &Streams, stream: &Stream, name: &str, group: &Group) -> crate::error::Result<Vec<u8>> {
    let mut json = b"{\"group\":".to_vec();
    serde_json::to_writer(&mut json, name).expect("a text is JSON");
    json.extend_from_slice(b",\"offsets\":[");
    for (position, (partition, offset)) in group.offsets.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        let lag = streams.watermarks(stream, *partition)?.high.saturating_sub(*offset);
        write!(json, "{comma}{{\"partition\":{partition},\"offset\":{offset},\"lag\":{lag}}}")
            .expect("memory takes it");
    }
    json.extend_from_slice(b"]}");
    Ok(json)
}

/// A message to a subscriber of events.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Events of one partition, as the body of a read would have them.
    Records(&'a [u8]),
    /// Its client is to reconnect: another one has taken its place.
    Lagged,
    /// The next events of a partition were trimmed before it took them.
    Gone {
        /// The partition.
        partition: u32,
        /// The first offset that is kept.
        low: u64,
    },
    /// Nothing; it keeps the connection alive.
    Progress,
}

/// Writes a message as a Server-Sent Event, with the next offset of each partition that is followed as its id. A line break in a payload,
/// which is white space of JSON, arrives as a line feed.
pub fn write_message(next: &[(u32, u64)], message: &Message<'_>, out: &mut Vec<u8>) {
    let name = match message {
        Message::Records(_) => "event: records",
        Message::Lagged => "event: lagged",
        Message::Gone { .. } => "event: gone",
        Message::Progress => ":",
    };
    out.extend_from_slice(name.as_bytes());
    for (position, (partition, offset)) in next.iter().enumerate() {
        let before = if position == 0 { "\nid: " } else { "," };
        write!(out, "{before}{partition}:{offset}").expect("memory takes it");
    }
    let gone;
    let mut data: &[u8] = match message {
        Message::Records(json) => json,
        Message::Lagged => b"{}",
        Message::Gone { partition, low } => {
            gone = format!("{{\"partition\":{partition},\"lowWatermark\":{low}}}");
            gone.as_bytes()
        }
        Message::Progress => return out.extend_from_slice(b"\n\n"),
    };
    out.extend_from_slice(b"\ndata: ");
    while let Some(end) = memchr::memchr2(b'\n', b'\r', data) {
        let (line, rest) = data.split_at(end);
        out.extend_from_slice(line);
        out.extend_from_slice(b"\ndata: ");
        data = rest.strip_prefix(b"\r\n").unwrap_or(&rest[1..]);
    }
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Returns the offsets in `Last-Event-ID`, if it is given.
///
/// # Errors
/// 400 if it is no id that [`write_message`] writes.
pub fn last_offsets(headers: &HeaderMap) -> Result<Option<Vec<(u32, u64)>>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let offsets = |text: &str| {
        let pairs = text.split(',').map(|pair| pair.split_once(':'));
        let number =
            |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok());
        pairs.map(|pair| Some((u32::try_from(number(pair?.0)??).ok()?, number(pair?.1)??))).collect::<Option<Vec<_>>>()
    };
    let offsets = value.to_str().ok().and_then(offsets);
    let offsets = offsets.filter(|offsets| offsets.is_sorted_by(|(one, _), (other, _)| one < other));
    let refused = || Error::invalid("Last-Event-ID is no offset of each partition, as 0:18,1:4");
    offsets.map(Some).ok_or_else(|| refused().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_an_event() {
        let written = |message: Message<'_>| {
            let mut out = Vec::new();
            write_message(&[(0, 18), (3, 4)], &message, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Message::Progress), ":\nid: 0:18,3:4\n\n");
        assert_eq!(written(Message::Lagged), "event: lagged\nid: 0:18,3:4\ndata: {}\n\n");
        let gone = "event: gone\nid: 0:18,3:4\ndata: {\"partition\":3,\"lowWatermark\":9}\n\n";
        assert_eq!(written(Message::Gone { partition: 3, low: 9 }), gone);
        let records = "event: records\nid: 0:18,3:4\ndata: [1,\ndata: 2,\ndata: 3,\ndata: \ndata: 4]\n\n";
        assert_eq!(written(Message::Records(b"[1,\r\n2,\n3,\r\r4]")), records);
    }

    #[test]
    fn the_last_id_is_an_offset_of_each_partition() {
        let parsed = |text: &'static str| {
            let headers = HeaderMap::from_iter([(LAST_EVENT_ID, HeaderValue::from_static(text))]);
            last_offsets(&headers).map_err(|failure| failure.respond(None).status())
        };
        assert_eq!(last_offsets(&HeaderMap::new()).unwrap(), None);
        assert_eq!(parsed("7:0"), Ok(Some(vec![(7, 0)])));
        assert_eq!(parsed("0:18,3:18446744073709551615"), Ok(Some(vec![(0, 18), (3, u64::MAX)])));
        for refused in ["", "7", "7:", ":7", "0:-1", "0:+1", "0:1,", "1:1,0:1", "0:1,0:1", "4294967296:1", "1-2-3-4"] {
            assert_eq!(parsed(refused), Err(StatusCode::BAD_REQUEST), "{refused}");
        }
    }
}
