//! Bodies at random: an event is read if and only if serde_json reads its members, and they are what an event may have; then with the same
//! values. `STRATA_FUZZ_CASES` sets the number of cases.

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::schema::Schema;

fn cases() -> ProptestConfig {
    let cases = std::env::var("STRATA_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(4000), ..ProptestConfig::default() }
}

/// The members of an object, with those that are there twice.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[derive(Debug, Default, PartialEq)]
struct Read {
    payload: String,
    numbers: [Option<u64>; 3],
    texts: [Option<String>; 2],
}

impl Read {
    fn of(event: Event<'_>) -> Self {
        Self {
            payload: event.payload.to_owned(),
            numbers: [event.partition.map(u64::from), event.timestamp_ms, event.expected_offset],
            texts: [event.key, event.idempotency_key].map(|text| text.map(Into::into)),
        }
    }

    /// Returns the event that serde_json reads, if it may be one of a stream with four partitions.
    fn by_serde(Members(members): Members) -> Option<Self> {
        let mut read = Self::default();
        for (name, value) in members {
            // serde_json takes -0 for a fraction; as text of a whole number it is 0.
            let whole = if value.get() == "-0" { "0" } else { value.get() };
            let number = |most: u64| serde_json::from_str(whole).ok().filter(|number| *number <= most);
            let text = |most: usize| {
                let text = serde_json::from_str::<String>(value.get()).ok();
                text.filter(|text| (1..=most).contains(&text.len()))
            };
            let is_first = match name.as_str() {
                "payload" => std::mem::replace(&mut read.payload, value.get().to_owned()).is_empty(),
                "partition" => read.numbers[0].replace(number(3)?).is_none(),
                "timestampMs" => read.numbers[1].replace(number(LATEST_MS)?).is_none(),
                "expectedOffset" => read.numbers[2].replace(number(i64::MAX as u64)?).is_none(),
                "key" => read.texts[0].replace(text(KEY_BYTES)?).is_none(),
                "idempotencyKey" => read.texts[1].replace(text(IDEMPOTENCY_KEY_BYTES)?).is_none(),
                _ => return None,
            };
            if !is_first {
                return None;
            }
        }
        (!read.payload.is_empty()).then_some(read)
    }
}

fn name() -> impl Strategy<Value = String> {
    let names = [&MEMBERS[..], &["payload", "p\\u0061yload", "\\u006bey", "other", ""]].concat();
    prop::sample::select(names).prop_map(|name| format!("\"{name}\""))
}

fn value() -> impl Strategy<Value = String> {
    let numbers = [
        "0",
        "3",
        "4",
        "-1",
        "-0",
        "1.0",
        "1e2",
        "01",
        "1.",
        "253402300799999",
        "253402300800000",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
    ];
    let others = [
        "null",
        "true",
        "nul",
        "\"\"",
        "\"k\"",
        "\"\\u00e9\\n\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"",
        "{}",
        "[1, 2]",
        "[",
        "{\"a\": {\"b\":[null, \"x\"]}}",
        "\"\u{0}\"",
    ];
    prop_oneof![
        prop::sample::select([&numbers[..], &others[..]].concat()).prop_map(str::to_owned),
        "\\PC{0,5}".prop_map(|text| serde_json::to_string(&text).expect("a text is JSON")),
        "[ -~]{0,8}",
    ]
}

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "\n\t", "\r"])
}

fn event() -> impl Strategy<Value = String> {
    let member =
        (name(), space(), space(), value()).prop_map(|(name, one, two, value)| format!("{name}{one}:{two}{value}"));
    let members = prop::collection::vec(member, 0..4);
    (members, any::<bool>(), space()).prop_map(|(mut members, has_payload, space)| {
        if has_payload {
            members.insert(members.len() / 2, "\"payload\":[1,  {}]".to_owned());
        }
        format!("{space}{{{}{space}}}{space}", members.join(","))
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_event_is_read_as_serde_json_reads_it_damaged_or_not(
        body in event(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<u8>()), 0..2),
    ) {
        let schema = Schema::parse("type Click @stream(partitions: 4)").expect("valid");
        let mut body = body.into_bytes();
        for (at, replaces, byte) in damage {
            let at = at.index(body.len());
            if replaces { body[at] = byte } else { body.insert(at, byte) }
        }
        let expected = serde_json::from_slice(&body).ok().and_then(Read::by_serde);
        let found = Event::parse(&schema.streams[0], &body).ok().map(Read::of);
        prop_assert_eq!(&found, &expected, "{}", String::from_utf8_lossy(&body));
        let bulk = [b"{\"records\":[", &body[..], b"]}"].concat();
        let found = Event::parse_all(&schema.streams[0], &bulk).ok();
        let expected = serde_json::from_slice::<Vec<Members>>(&[b"[", &body[..], b"]"].concat()).ok();
        let expected = expected.and_then(|events| events.into_iter().map(Read::by_serde).collect::<Option<Vec<_>>>());
        // What is no object of its own may still complete the list around it.
        if expected.is_some() || serde_json::from_slice::<&RawValue>(&body).is_ok() {
            let found = found.map(|events| events.into_iter().map(Read::of).collect());
            prop_assert_eq!(found, expected, "{}", String::from_utf8_lossy(&bulk));
        }
    }
}
