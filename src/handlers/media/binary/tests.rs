//! Every record survives a round trip through CBOR and MessagePack; what JSON cannot represent is rejected.

use proptest::prelude::*;

use super::*;
use crate::encoding::{Record, body, record};
use crate::schema::{Schema, Table};

/// A conversion in both directions.
type Way = (&'static str, fn(&[u8], &mut Vec<u8>) -> Result<()>, fn(&[u8]) -> Result<Vec<u8>>);

const WAYS: [Way; 2] = [("CBOR", write_cbor, read_cbor), ("MessagePack", write_message_pack, read_message_pack)];

fn there_and_back((name, write, read): Way, json: &str) -> String {
    let mut bytes = Vec::new();
    write(json.as_bytes(), &mut bytes).unwrap_or_else(|error| panic!("{name}: {error}: {json}"));
    String::from_utf8(read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}: {json}"))).unwrap()
}

/// Returns the canonical text of the record of a body.
fn canonical(table: &Table, json: &str) -> String {
    let (fields, mut out) =
        (body::parse_object(table, json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}")), Vec::new());
    let record = record::encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
    String::from_utf8(record.json().to_vec()).unwrap()
}

/// Any JSON whose numbers both formats represent exactly, formatted as by this program.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        proptest::num::f64::NORMAL.prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::btree_map(".{0,6}", inner, 0..8).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn every_record_survives(
        text in ".*",
        int in any::<i64>(),
        float in proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL,
        truth in any::<Option<bool>>(),
        seconds in 0..4_000_000_000i64,
        free in any_json(),
        texts in prop::option::of(prop::collection::vec(".*", 0..5)),
        ints in prop::collection::vec(any::<i64>(), 0..40),
    ) {
        let sdl = "type T @table { id: ID @primaryKey whole: Int real: Float truth: Boolean day: Date free: Any texts: [String] wholes: [Int] }";
        let schema = Schema::parse(sdl).unwrap();
        let table = &schema.tables[0];
        let day = jiff::Timestamp::from_second(seconds).unwrap().to_string();
        let body = serde_json::json!({"id": text, "whole": int, "real": float, "truth": truth, "day": day, "free": free, "texts": texts, "wholes": ints});
        let stored = canonical(table, &body.to_string());
        for way in WAYS {
            prop_assert_eq!(canonical(table, &there_and_back(way, &stored)), stored.clone(), "{}", way.0);
        }
    }

    #[test]
    fn no_bytes_end_the_program(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for (_, _, read) in WAYS {
            if let Ok(text) = read(&bytes) {
                prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok(), "{:?}", String::from_utf8_lossy(&text));
            }
        }
    }
}

#[test]
fn texts_numbers_and_brackets_of_all_lengths() {
    for length in [0, 1, 15, 16, 23, 24, 31, 32, 255, 256, 4095, 4096, 4097, 65_535, 65_536] {
        let text = format!("\"{}\"", "x".repeat(length));
        let list = format!("[{}]", vec!["1"; length].join(","));
        let members: Vec<_> = (0..length).map(|name| format!("\"{name}\":null")).collect();
        let object = format!("{{{}}}", members.join(","));
        for way in WAYS {
            for json in [&text, &list, &object] {
                assert!(there_and_back(way, json) == **json, "{}: {length}", way.0);
            }
        }
    }
}

#[test]
fn what_has_no_exact_counterpart_has_the_nearest() {
    for (json, expected) in [
        ("[1.0,1e2,-0.0]", "[1.0,100.0,-0.0]"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("[1e400,-1e400]", r#"["1e400","-1e400"]"#),
        (r#"["\ud83d\ude00","a\ud800b","\u0000"]"#, "[\"😀\",\"a\u{fffd}\u{fffd}\u{fffd}b\",\"\\u0000\"]"),
        (r#"[[],{},{"a":[]},",[{\"]"]"#, r#"[[],{},{"a":[]},",[{\"]"]"#),
    ] {
        for way in WAYS {
            assert_eq!(there_and_back(way, json), expected, "{}", way.0);
        }
    }
}

#[test]
fn what_is_deep_is_refused_or_survives() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for way in WAYS {
        assert_eq!(there_and_back(way, &nested(130)), nested(130));
        let mut bytes = Vec::new();
        way.1(nested(1000).as_bytes(), &mut bytes).unwrap();
        let refused = way.2(&bytes).unwrap_err().to_string();
        assert!(refused.contains(way.0) && refused.contains("nested too deep"), "{refused}");
    }
}

#[test]
fn what_json_has_not_is_refused() {
    let cases: [(&str, usize, &[u8], &str); 14] = [
        ("bytes", 0, b"\x41\x00", "byte array"),
        ("not a number", 0, b"\xf9\x7e\x00", "NaN is not a JSON number"),
        ("a tag", 0, b"\xc1\x00", "the tag 1"),
        ("a great integer", 0, b"\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", "integer"),
        ("a name that is a number", 0, b"\xa1\x01\x02", "string"),
        ("more behind it", 0, b"\x01\x02", "unexpected data after the value (before byte 1)"),
        ("an early end", 0, b"\x82\x01", "unexpected end"),
        ("nothing", 0, b"", "unexpected end"),
        ("bytes", 1, b"\xc4\x01\x00", "byte array"),
        ("an extension", 1, b"\xd4\x05\x00", "a JSON value"),
        ("a name that is a number", 1, b"\x81\x01\x02", "string"),
        ("more behind it", 1, b"\x01\x02", "unexpected data after the value (before byte 1)"),
        ("an early end", 1, b"\x92\x01", "unexpected end"),
        ("nothing", 1, b"", "unexpected end"),
    ];
    for (what, way, bytes, expected) in cases {
        let refused = WAYS[way].2(bytes).unwrap_err().to_string();
        assert!(refused.contains(expected), "{} {what}: {refused}", WAYS[way].0);
    }
}

#[test]
fn a_date_may_have_its_tag() {
    assert_eq!(read_cbor(b"\xc0\x6a2026-01-31").unwrap(), b"\"2026-01-31\"");
}

#[test]
fn lengths_are_counted_in_the_order_of_brackets() {
    for (json, expected) in [("1", vec![]), ("[]", vec![0]), (r#"[1,{"a":[],"b,]":"\"]"},[2]]"#, vec![3, 2, 0, 1])] {
        assert_eq!(lengths(json), expected, "{json}");
    }
}
