//! Multicasts: what their sender prefers (RFC 7240), and what it is answered.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::fields::members;
use super::headers::PREFER;
use super::problem::Result;
use super::response::{JSON, PREFERENCE_APPLIED, Response, with_body};
use crate::error::{Error, Place};
use crate::feed::Standing;
use crate::multicast::Sending;
use crate::query::{Clause, Limits, Query};
use crate::schema::Table;
use crate::transaction::Database;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of an idempotency key, in bytes.
const KEY_BYTES: usize = 255;

/// The longest time for which a sender may wait, in seconds.
const LONGEST_WAIT_S: u64 = 30;

/// What the sender of a message prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// How long it waits for subscribers to take the message.
    wait_s: Option<u64>,
    /// It does not wait: the message is stored when it is answered.
    pub respond_async: bool,
    /// It wants the ids of those targets to whom the message was not delivered.
    representation: bool,
}

impl Preferences {
    /// Returns the preferences of a request. The first of a name counts; unknown ones and those with another value are ignored.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut seen = Vec::new();
        for preference in members(headers, PREFER) {
            let preference = preference.split(|byte| *byte == b';').next().unwrap_or_default();
            let mut parts = preference.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let value = unquoted(parts.next().unwrap_or_default());
            if seen.contains(&name) {
                continue;
            }
            match (&name[..], value) {
                (b"respond-async", b"") => found.respond_async = true,
                (b"return", b"representation") => found.representation = true,
                (b"wait", seconds) => found.wait_s = seconds_in(seconds),
                _ => {}
            }
            seen.push(name);
        }
        found
    }

    /// Returns how long to wait for subscribers.
    pub fn wait(self) -> Duration {
        Duration::from_secs(self.wait_s.unwrap_or(1))
    }

    /// Says in a response which of them were applied.
    fn say(self, response: &mut Response) {
        let mut applied = Vec::new();
        applied.extend(self.respond_async.then(|| "respond-async".to_owned()));
        if !self.respond_async {
            applied.extend(self.representation.then(|| "return=representation".to_owned()));
            applied.extend(self.wait_s.map(|seconds| format!("wait={seconds}")));
        }
        if !applied.is_empty() {
            let value = HeaderValue::try_from(applied.join(", ")).expect("visible ASCII");
            response.headers_mut().insert(PREFERENCE_APPLIED, value);
        }
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

fn seconds_in(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().filter(|seconds| *seconds <= LONGEST_WAIT_S)
}

/// Returns the idempotency key of a request, if it has one.
///
/// # Errors
/// 400 if it is not 1 to 255 visible ASCII characters, or given twice.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    match (given.next().map(HeaderValue::as_bytes), given.next()) {
        (None, _) => Ok(None),
        (Some(key), None) if (1..=KEY_BYTES).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic) => {
            Ok(Some(std::str::from_utf8(key).expect("it is ASCII")))
        }
        _ => Err(Error::invalid("an Idempotency-Key has 1 to 255 visible ASCII characters, and is given once").into()),
    }
}

/// Parses the query of a multicast, which has conditions only; without any, every record is a target.
///
/// # Errors
/// 400 at the position of what is none.
pub fn conditions<'q>(database: &Database, table: &Table, text: &'q str, limits: &Limits) -> Result<Query<'q>> {
    let query = Query::parse(database.schema(), table, text, limits)?;
    match query.clauses.first() {
        None => Ok(query),
        Some(Clause { name, position, .. }) => {
            let detail = format!("{name} is not supported in a multicast, which has conditions only");
            Err(Error::Invalid { detail, place: Place::Position(*position) }.into())
        }
    }
}

/// Returns the response to a sender that waits for no subscriber.
pub fn stored(sending: &Sending, preferences: Preferences) -> Response {
    let body = format!("{{\"id\":\"{}\",\"targets\":{}}}", sending.id(), sending.targets());
    respond(StatusCode::ACCEPTED, body, preferences)
}

/// Returns the response that says who has taken the message.
pub fn told(sending: &mut Sending, preferences: Preferences) -> Response {
    let mut counted = [0; 4];
    sending.standings().for_each(|(_, standing)| counted[standing as usize] += 1);
    let [absent, failed, pending, delivered] = counted;
    let mut body = format!(
        "{{\"id\":\"{}\",\"targets\":{},\"delivered\":{delivered},\"absent\":{absent},\"pending\":{pending},\"failed\":{failed}",
        sending.id(),
        sending.targets(),
    );
    if failed > 0 {
        let failures = serde_json::to_string(&sending.failures()).expect("numbers are JSON");
        write!(body, ",\"failures\":{failures}").expect("writing to memory does not fail");
    }
    if preferences.representation {
        body.push_str(",\"undelivered\":[");
        let undelivered = sending.standings().filter(|(_, standing)| *standing != Standing::Delivered);
        for (position, (id, standing)) in undelivered.enumerate() {
            let id = serde_json::to_string(id).expect("a text is JSON");
            let state = match standing {
                Standing::Absent => "absent",
                Standing::Failed => "failed",
                Standing::Pending | Standing::Delivered => "pending",
            };
            let comma = if position > 0 { "," } else { "" };
            write!(body, "{comma}{{\"id\":{id},\"state\":\"{state}\"}}").expect("writing to memory does not fail");
        }
        body.push(']');
    }
    body.push('}');
    respond(StatusCode::OK, body, preferences)
}

/// Returns the response to a request that repeats another one.
pub fn repeated(id: &str, targets: u64) -> Response {
    let body = format!("{{\"id\":\"{id}\",\"targets\":{targets},\"repeated\":true}}");
    with_body(StatusCode::OK, JSON, Bytes::from(body))
}

fn respond(status: StatusCode, body: String, preferences: Preferences) -> Response {
    let mut response = with_body(status, JSON, Bytes::from(body));
    preferences.say(&mut response);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferences(value: &'static str) -> Preferences {
        Preferences::of(&HeaderMap::from_iter([(PREFER, HeaderValue::from_static(value))]))
    }

    #[test]
    fn preferences_are_known_by_their_names_and_values() {
        let waiting = |wait_s| Preferences { wait_s, ..Preferences::default() };
        for (value, wait_s) in [
            ("wait=0", Some(0)),
            ("wait=30", Some(30)),
            ("wait = \"7\"; now", Some(7)),
            ("Wait=2, wait=3", Some(2)),
            ("wait=31", None),
            ("wait=-1", None),
            ("wait=1.5", None),
            ("wait", None),
            ("handling=lenient", None),
        ] {
            assert_eq!(preferences(value), waiting(wait_s), "{value}");
        }
        assert_eq!(Preferences::of(&HeaderMap::new()).wait(), Duration::from_secs(1));
        assert_eq!(preferences("wait=0").wait(), Duration::ZERO);
        let all = preferences("respond-async, return=representation, wait=5");
        assert_eq!(all, Preferences { wait_s: Some(5), respond_async: true, representation: true });
        assert_eq!(preferences("return=minimal, return=representation"), Preferences::default(), "the first counts");
    }

    #[test]
    fn a_key_is_short_and_visible() {
        let of = |key: &str| {
            let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key.as_bytes()).unwrap())]);
            idempotency_key(&headers).ok().map(|key| key.map(str::to_owned))
        };
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(of("a"), Some(Some("a".to_owned())));
        assert_eq!(of(&"x".repeat(255)), Some(Some("x".repeat(255))));
        for wrong in ["", "a b", "\u{e9}", &"x".repeat(256)] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
