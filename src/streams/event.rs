//! Events as clients send them: JSON objects whose payload is checked to be JSON, but not parsed into values.

use std::borrow::Cow;

use crate::encoding::body::{Refused, parse, pointer_to};
use crate::encoding::json::{COLON, Item, Reader};
use crate::encoding::{DEPTH, RECORDS};
use crate::error::{Error, Result};
use crate::schema::Stream;

/// An event to be appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The text of a JSON value.
    pub payload: &'a str,
    /// The partition; `None`: chosen by the key, the idempotency key, or in turn.
    pub partition: Option<u32>,
    /// What the event is about: events with one key stand in one partition.
    pub key: Option<Cow<'a, str>>,
    /// The client's time, in milliseconds since 1970; `None`: that of the ingestion.
    pub timestamp_ms: Option<u64>,
    /// A second event with this key is not appended.
    pub idempotency_key: Option<Cow<'a, str>>,
    /// The offset that the event must get.
    pub expected_offset: Option<u64>,
}

/// The maximum length of a key, in bytes.
pub const KEY_BYTES: usize = 1024;

/// The maximum length of an idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES: usize = 255;

/// The latest time: the end of the year 9999, in milliseconds since 1970.
pub const LATEST_MS: u64 = 253_402_300_799_999;

impl Event<'_> {
    /// Checks what a parsed event always fulfils.
    ///
    /// # Errors
    /// `Invalid` if it cannot be stored.
    pub(super) fn check_lengths(&self) -> Result<()> {
        let fits =
            |text: &Option<Cow<'_, str>>, most| text.as_ref().is_none_or(|text| (1..=most).contains(&text.len()));
        match fits(&self.key, KEY_BYTES) && fits(&self.idempotency_key, IDEMPOTENCY_KEY_BYTES) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "an event has a key of 1 to {KEY_BYTES} bytes and an idempotency key of 1 to {IDEMPOTENCY_KEY_BYTES}"
            ))),
        }
    }
}

/// The members of an event, in the order in which most clients write them.
const MEMBERS: [&str; 6] = ["payload", "partition", "key", "timestampMs", "idempotencyKey", "expectedOffset"];

impl<'a> Event<'a> {
    /// Parses the JSON object of one event.
    ///
    /// # Errors
    /// `Invalid`, with a JSON pointer where applicable.
    pub fn parse(stream: &Stream, body: &'a [u8]) -> Result<Self> {
        parse(body, |reader| read(reader, stream, String::new))
    }

    /// Parses `{"records":[event, ..]}` with at most [`RECORDS`] events.
    ///
    /// # Errors
    /// As [`Event::parse`].
    pub fn parse_all(stream: &Stream, body: &'a [u8]) -> Result<Vec<Self>> {
        parse(body, |reader| {
            reader.take(b'{', "expected an object with `records`")?;
            let mut events = None;
            while reader.next_member(events.is_none())? {
                let name = reader.text()?;
                let refused = match (&*name, &events) {
                    ("records", None) => {
                        reader.take(b':', COLON)?;
                        events = Some(read_all(reader, stream)?);
                        continue;
                    }
                    ("records", Some(_)) => "it is given twice",
                    _ => "the object has no other member than records",
                };
                return Err(Refused::Unfit(Error::invalid_at(pointer_to("", &name), refused)));
            }
            events.ok_or_else(|| Refused::Unfit(Error::invalid_at("/records", "a list of events is required")))
        })
    }
}

fn read_all<'a>(reader: &mut Reader<'a>, stream: &Stream) -> std::result::Result<Vec<Event<'a>>, Refused> {
    reader.take(b'[', "expected an array of events")?;
    let mut events = Vec::new();
    while reader.next_element(events.is_empty())? {
        let pointer = || format!("/records/{}", events.len());
        if events.len() == RECORDS {
            let detail = format!("a request has at most {RECORDS} events; send the rest in another one");
            return Err(Refused::Unfit(Error::invalid_at(pointer(), detail)));
        }
        events.push(read(reader, stream, pointer)?);
    }
    Ok(events)
}

/// Reads an event; `pointer` leads to it.
fn read<'a>(
    reader: &mut Reader<'a>,
    stream: &Stream,
    pointer: impl Fn() -> String,
) -> std::result::Result<Event<'a>, Refused> {
    let unfit = |name: &str, detail: String| Refused::Unfit(Error::invalid_at(pointer_to(&pointer(), name), detail));
    reader.take(b'{', "expected an event, which is an object with a payload")?;
    let (mut event, mut given) = (Event::default(), [false; MEMBERS.len()]);
    while reader.next_member(!given.contains(&true))? {
        let member = match MEMBERS.iter().position(|name| reader.take_name(name)) {
            Some(member) => member,
            None => {
                let name = reader.text()?;
                let member = MEMBERS.iter().position(|known| *known == name);
                member.ok_or_else(|| {
                    unfit(&name, format!("an event has no member {name:?}: there are {}", MEMBERS.join(", ")))
                })?
            }
        };
        let name = MEMBERS[member];
        if std::mem::replace(&mut given[member], true) {
            return Err(unfit(name, format!("{name} is given twice")));
        }
        reader.take(b':', COLON)?;
        let mut number = |most: u64| match reader.item()? {
            Item::Integer(number) if (0..=most).contains(&(number as u64)) => Ok(number as u64),
            _ => Err(unfit(name, format!("{name} must be a whole number from 0 to {most}"))),
        };
        match name {
            "payload" => {
                let value = reader.skip()?;
                let (text, _) = value.ok_or_else(|| unfit(name, format!("it is nested deeper than {DEPTH}")))?;
                event.payload = text;
            }
            "partition" => event.partition = Some(number(u64::from(stream.partitions) - 1)? as u32),
            "timestampMs" => event.timestamp_ms = Some(number(LATEST_MS)?),
            "expectedOffset" => event.expected_offset = Some(number(i64::MAX as u64)?),
            "idempotencyKey" if stream.idempotency == 0 => {
                let detail = format!("stream {} has no idempotency keys: its window is 0", stream.name);
                return Err(unfit(name, detail));
            }
            _ => {
                let (key, most) = match name {
                    "key" => (&mut event.key, KEY_BYTES),
                    _ => (&mut event.idempotency_key, IDEMPOTENCY_KEY_BYTES),
                };
                match reader.item()? {
                    Item::Text(text) if (1..=most).contains(&text.len()) => *key = Some(text),
                    _ => return Err(unfit(name, format!("{name} must be text of 1 to {most} bytes"))),
                }
            }
        }
    }
    if !given[0] {
        return Err(unfit(MEMBERS[0], "an event has a payload, which may be null".to_owned()));
    }
    Ok(event)
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use crate::schema::Schema;

    fn stream(directive: &str) -> Stream {
        Schema::parse(&format!("type Click {directive} @export")).unwrap().streams.remove(0)
    }

    /// The pointer of the refusal of an event.
    fn refused_at(stream: &Stream, body: &str) -> String {
        match Event::parse(stream, body.as_bytes()) {
            Err(Error::Invalid { place: Place::Pointer(pointer), .. }) => pointer,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn the_payload_is_kept_as_it_was_sent() {
        let stream = stream("@stream(partitions: 4)");
        for payload in ["null", "{ \"a\" : [1, 2.50, 1e400] }", "\"\\u00e9\"", "-0.0", "[[],{}]"] {
            let body = format!("{{ \"partition\": 3, \"payload\" : {payload} , \"key\":\"a\\nb\"}}");
            let event = Event::parse(&stream, body.as_bytes()).unwrap();
            assert_eq!((event.payload, event.partition, event.key.as_deref()), (payload, Some(3), Some("a\nb")));
        }
        let zero = Event::parse(&stream, br#"{"payload":-0,"partition":-0}"#).unwrap();
        assert_eq!((zero.payload, zero.partition), ("-0", Some(0)));
    }

    #[test]
    fn what_an_event_cannot_have_is_refused_where_it_stands() {
        let stream = stream("@stream(partitions: 4)");
        for (body, pointer) in [
            ("{}", "/payload"),
            ("[]", ""),
            (r#"{"payload":1"#, ""),
            (r#"{"payload":1}x"#, ""),
            (r#"{"payload":1,"payload":2}"#, "/payload"),
            (r#"{"payload":1,"p\u0061yload":2}"#, "/payload"),
            (r#"{"payload":1,"a/b":2}"#, "/a~1b"),
            (r#"{"payload":1,"partition":4}"#, "/partition"),
            (r#"{"payload":1,"partition":-1}"#, "/partition"),
            (r#"{"payload":1,"partition":null}"#, "/partition"),
            (r#"{"payload":1,"key":""}"#, "/key"),
            (r#"{"payload":1,"key":7}"#, "/key"),
            (r#"{"payload":1,"idempotencyKey":[]}"#, "/idempotencyKey"),
            (r#"{"payload":1,"timestampMs":253402300800000}"#, "/timestampMs"),
            (r#"{"payload":1,"timestampMs":1.5}"#, "/timestampMs"),
            (r#"{"payload":1,"expectedOffset":9223372036854775808}"#, "/expectedOffset"),
        ] {
            assert_eq!(refused_at(&stream, body), pointer, "{body}");
        }
        let deep = format!("{{\"payload\":{}{}}}", "[".repeat(129), "]".repeat(129));
        assert_eq!(refused_at(&stream, &deep), "/payload");
        let long = |name, length| format!(r#"{{"payload":1,"{name}":"{}"}}"#, "k".repeat(length));
        for (name, most) in [("key", KEY_BYTES), ("idempotencyKey", IDEMPOTENCY_KEY_BYTES)] {
            assert!(Event::parse(&stream, long(name, most).as_bytes()).is_ok());
            assert_eq!(refused_at(&stream, &long(name, most + 1)), format!("/{name}"));
        }
        let without = self::stream("@stream(idempotency: 0)");
        assert_eq!(refused_at(&without, &long("idempotencyKey", 1)), "/idempotencyKey");
    }

    #[test]
    fn a_bulk_is_an_object_with_records() {
        let stream = stream("@stream");
        let parsed = |body: &str| Event::parse_all(&stream, body.as_bytes()).map(|events| events.len());
        assert_eq!(parsed(r#"{"records":[{"payload":1},{"payload":2}]}"#).unwrap(), 2);
        assert_eq!(parsed(r#"{"records":[]}"#).unwrap(), 0);
        let many = |number| format!("{{\"records\":[{}]}}", vec![r#"{"payload":0}"#; number].join(","));
        assert_eq!(parsed(&many(RECORDS)).unwrap(), RECORDS);
        for (body, pointer) in [
            ("{}", "/records"),
            (r#"{"records":[],"records":[]}"#, "/records"),
            (r#"{"events":[]}"#, "/events"),
            (r#"{"records":[{"payload":1},{"payload":1,"key":1}]}"#, "/records/1/key"),
            (&many(RECORDS + 1), "/records/10000"),
        ] {
            match parsed(body) {
                Err(Error::Invalid { place: Place::Pointer(found), .. }) => assert_eq!(found, pointer),
                other => panic!("{other:?}"),
            }
        }
    }
}
