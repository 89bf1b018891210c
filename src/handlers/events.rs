//! The change feed as Server-Sent Events (WHATWG HTML, section 9.2).
//!
//! The JSON text of a record has no line breaks, so it is a single `data` line. Progress in the log is reported by an `id` without `data`,
//! after a comment that keeps the connection alive: clients store it as the last event id, but dispatch no event.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};

use super::coding::accepts_plain;
use super::fields::has_members;
use super::media::quality;
use super::problem::{Failure, Result};
use crate::error::Error;
use crate::feed::{EventId, Message};

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the head of a response with events, with this body.
pub fn event_stream<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, EVENT_STREAM);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Checks that the client accepts events.
///
/// # Errors
/// 406 if it does not.
pub fn accepts_events(headers: &HeaderMap) -> Result<()> {
    match has_members(headers, ACCEPT) && quality(headers, &["text/event-stream"], false) == 0 {
        true => Err(Failure::NotAcceptable { available: "a feed is available as text/event-stream" }),
        false => accepts_plain(headers),
    }
}

/// Returns the event after which a feed continues, if `Last-Event-ID` is given.
///
/// # Errors
/// 400 if it is invalid.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().map_err(|_| Error::invalid("Last-Event-ID is not an event id"))?;
    let id = text.parse().map_err(|error| Error::invalid(format!("Last-Event-ID: {error}")))?;
    Ok(Some(id))
}

/// Writes a message to a subscriber, who can resume from its id.
pub fn write_event(id: EventId, message: &Message<'_>, out: &mut Vec<u8>) {
    let head = match message {
        Message::Put { .. } => "event: put",
        Message::Delete { .. } => "event: delete",
        Message::Truncate => "event: truncate",
        Message::Multicast { .. } => "event: message",
        Message::Lagged => "event: lagged",
        Message::Progress => ":",
    };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(b"\nid: ");
    id.write(out);
    out.push(b'\n');
    let data: &[u8] = match message {
        Message::Put { json, .. } => json,
        Message::Delete { primary_key, id } => &key_object(primary_key, id),
        Message::Truncate | Message::Lagged => b"{}",
        // An id of ours needs no escape.
        Message::Multicast { id, body } => &message_object(id, body),
        Message::Progress => return out.push(b'\n'),
    };
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Returns an object with one text member.
fn key_object(name: &str, value: &str) -> Vec<u8> {
    let object = serde_json::Map::from_iter([(name.to_owned(), value.into())]);
    serde_json::to_vec(&object).expect("a text is JSON")
}

fn message_object(id: &str, body: &[u8]) -> Vec<u8> {
    [format!("{{\"id\":\"{id}\",\"message\":").as_bytes(), body, b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &Message<'_>) -> String {
        let mut text = Vec::new();
        write_event("1-2-3-4".parse().unwrap(), message, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn events_have_a_name_an_id_and_a_line_of_data() {
        assert_eq!(
            text(&Message::Put { json: br#"{"id":"1"}"#, bytes: b"" }),
            "event: put\nid: 1-2-3-4\ndata: {\"id\":\"1\"}\n\n"
        );
        let delete = text(&Message::Delete { primary_key: "sku", id: "a\n\"b" });
        assert_eq!(delete, "event: delete\nid: 1-2-3-4\ndata: {\"sku\":\"a\\n\\\"b\"}\n\n");
        assert_eq!(text(&Message::Truncate), "event: truncate\nid: 1-2-3-4\ndata: {}\n\n");
        let message = Message::Multicast { id: "0-1", body: b"[1,null]" };
        assert_eq!(text(&message), "event: message\nid: 1-2-3-4\ndata: {\"id\":\"0-1\",\"message\":[1,null]}\n\n");
        assert_eq!(text(&Message::Lagged), "event: lagged\nid: 1-2-3-4\ndata: {}\n\n");
        assert_eq!(text(&Message::Progress), ":\nid: 1-2-3-4\n\n");
    }

    #[test]
    fn a_feed_is_an_event_stream_or_nothing() {
        let accepts =
            |value| accepts_events(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))])).is_ok();
        for value in ["text/event-stream", "*/*", "text/*;q=0.1", "application/json, text/event-stream"] {
            assert!(accepts(value), "{value}");
        }
        for value in ["application/json", "text/html", "text/event-stream;q=0, */*"] {
            assert!(!accepts(value), "{value}");
        }
        assert!(accepts_events(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn an_id_is_one_that_was_given_out() {
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let of = |text| last_event_id(&HeaderMap::from_iter([(LAST_EVENT_ID, value(text))]));
        assert_eq!(of("1-2-3-4").unwrap(), Some("1-2-3-4".parse().unwrap()));
        assert_eq!(last_event_id(&HeaderMap::new()).unwrap(), None);
        for wrong in ["", "7", "1-2-3-4, 1-2-3-4", "\u{e9}"] {
            assert_eq!(of(wrong).unwrap_err().respond(None).status(), 400, "{wrong}");
        }
    }
}
