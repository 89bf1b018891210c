//! An event of a stream, and what it is compared by: a hash of its payload's bytes and of its keys, so that millions of events fit into memory.
//!
//! The same hash is made of the bytes that a request sent and of those that were read. Of a million events that are wrong, none is taken
//! for right but by a chance of one in 10^13: the hash has 64 bits.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Json;

/// The hash of an event, and that of its idempotency key if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Of its payload, its key and its idempotency key; never 0.
    pub event: u64,
    /// Of its idempotency key alone.
    pub idempotency_key: Option<u64>,
}

/// The parts of an event that are looked at, as it is sent and as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// Its partition; it always has one that is read.
    pub partition: Option<usize>,
    /// Its offset, where it is read.
    pub offset: Option<u64>,
    #[serde(borrow, deserialize_with = "bytes")]
    payload: &'a str,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    idempotency_key: Option<Cow<'a, str>>,
}

/// The text of a value as it stands there.
fn bytes<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<&'a str, D::Error> {
    <&RawValue>::deserialize(deserializer).map(RawValue::get)
}

impl Event<'_> {
    /// Returns the content by which it is compared.
    pub fn content(&self) -> Content {
        let event = hash((self.payload, &self.key, &self.idempotency_key)).max(1);
        Content { event, idempotency_key: self.idempotency_key.as_deref().map(hash) }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The events in the body of a request: the one at a JSON pointer, else each of its `/records`, else the body itself; none where there is
/// no event.
pub fn sent(body: &str, event: Option<&str>) -> Option<Vec<Content>> {
    let whole = Json::read(body.as_bytes())?;
    let content = |json: &Json<'_>| serde_json::from_str::<Event<'_>>(json.raw()).ok().map(|event| event.content());
    match (event, whole.at("/records")) {
        (Some(pointer), _) => content(whole.at(pointer)?).map(|one| vec![one]),
        (None, Some(records)) => records.list()?.iter().map(content).collect(),
        (None, None) => content(&whole).map(|one| vec![one]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_where_they_stand_in_a_body() {
        let one = |body: &str| sent(body, None).unwrap()[0];
        let event = r#"{"partition":1,"payload":{"n": 1}}"#;
        let all = sent(&format!(r#"{{"records":[{event},{{"payload":2}}]}}"#), None).unwrap();
        assert_eq!((all.len(), all[0]), (2, one(event)));
        let batch = format!(r#"{{"operations":[{{"body":{{"id":1}}}},{{"body":{event}}}]}}"#);
        assert_eq!(sent(&batch, Some("/operations/1/body")), Some(vec![one(event)]));
        assert_eq!(sent(&batch, Some("/operations/0/body")), None, "a record is no event");
        assert_eq!(sent(&batch, Some("/operations/7/body")), None);
    }

    #[test]
    fn every_byte_of_a_payload_and_of_the_keys_counts() {
        let bodies = [
            r#"{"payload":{"n": 1}}"#,
            r#"{"payload":{"n":1}}"#,
            r#"{"payload":{"n":1},"key":"a"}"#,
            r#"{"payload":{"n":1},"idempotencyKey":"a"}"#,
        ];
        let found: std::collections::HashSet<_> =
            bodies.iter().map(|body| sent(body, None).unwrap()[0].event).collect();
        assert_eq!(found.len(), bodies.len());
        let read = r#"{"partition":0,"offset":7,"ingestedMs":1,"idempotencyKey":"a","payload":{"n":1}}"#;
        assert_eq!(sent(read, None), sent(bodies[3], None));
    }
}
