//! Records are read as they were written, have a single canonical text, and corruption is detected.

use super::*;
use crate::encoding::body::parse_object;
use crate::schema::Schema;
use proptest::collection::{btree_map, vec};
use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
use proptest::prelude::*;
use std::panic::catch_unwind;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let sdl =
        "type T @table { key: ID @primaryKey text: String whole: Int real: Float truth: Boolean day: Date free: Any
        texts: [String] wholes: [Int] reals: [Float] truths: [Boolean] days: [Date] frees: [Any] }";
    Schema::parse(sdl).unwrap().tables.remove(0)
});

type Given = Vec<Option<Value<'static>>>;

/// Returns fields of values that are known to fit.
fn fields<'v>(values: &[Option<Value<'v>>]) -> Fields<'static, 'v> {
    let mut fields = Fields::of(&TABLE);
    fields.values_mut().clone_from_slice(values);
    fields
}

fn encoded(values: &[Option<Value<'_>>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&fields(values), None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
    out
}

fn json_of(stored: &[u8]) -> String {
    String::from_utf8(Record::open(&TABLE, stored).unwrap().json().to_vec()).unwrap()
}

fn text(text: &str) -> Value<'static> {
    Value::Text(Cow::Owned(text.to_owned()))
}

fn date(text: String) -> Value<'static> {
    let microseconds = Value::microseconds_of(&text).unwrap();
    Value::Date(Date { text: Cow::Owned(text), microseconds })
}

fn json(text: &str) -> Value<'static> {
    Value::Json(Cow::Owned(text.to_owned()))
}

/// Returns a record with a value at `position` and nulls elsewhere.
fn only(position: usize, value: Value<'static>) -> Given {
    let mut fields: Given = vec![None; TABLE.attributes.len()];
    fields[position] = Some(value);
    fields
}

/// Returns the canonical text of one value of an attribute.
fn canonical(position: usize, value: Value<'static>) -> String {
    let stored = encoded(&only(position, value));
    Record::open(&TABLE, &stored).unwrap().text(position).unwrap().to_owned()
}

fn samples() -> Vec<Given> {
    let full = vec![
        Some(text("k-1")),
        Some(text("caf\u{e9} \"\\\n")),
        Some(Value::Int(-42)),
        Some(Value::Float(0.1)),
        Some(Value::Boolean(true)),
        Some(date("2026-01-31T12:00:00+01:00".into())),
        Some(json(r#"{"a":[1,null,"x"]}"#)),
        Some(Value::List(vec![text("a"), text("")])),
        Some(Value::List(vec![Value::Int(i64::MIN)])),
        Some(Value::List(vec![])),
        Some(Value::List(vec![Value::Boolean(false), Value::Boolean(true)])),
        Some(Value::List(vec![date("2026-01-31".into())])),
        Some(Value::List(vec![json("{}"), json("[null]"), json("\"x\"")])),
    ];
    vec![only(0, text("k")), full]
}

fn texts() -> impl Strategy<Value = String> {
    let special =
        ["", "null", "\0", "\u{8}\u{c}\n\r\t\u{1f}\u{7f}", "\"\\/", "\u{2028}\u{10ffff}", "\\u0041", "\",\"whole\":1"];
    prop_oneof![any::<String>(), prop::sample::select(special.to_vec()).prop_map(str::to_owned)]
}

fn wholes() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), prop::sample::select(vec![0, -1, i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1])]
}

fn reals() -> impl Strategy<Value = f64> {
    let special = vec![0.0, -0.0, 1e300, 5e-324, f64::MIN, f64::MAX, 1e21, 1e-7, 25.0];
    prop_oneof![NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE, prop::sample::select(special)]
        .prop_filter("finite", |f| f.is_finite())
}

fn dates() -> impl Strategy<Value = String> {
    let (least, most) = (jiff::Timestamp::MIN.as_microsecond(), jiff::Timestamp::MAX.as_microsecond());
    (least..most, 0..3).prop_filter_map("four-digit years", |(microseconds, shape)| {
        let instant = jiff::Timestamp::from_microsecond(microseconds).ok()?.to_string();
        (instant.len() >= 20 && !instant.starts_with('-')).then(|| match shape {
            0 => instant[..10].to_owned(),
            1 => instant.trim_end_matches('Z').to_owned(),
            _ => instant,
        })
    })
}

/// JSON text without white space, including numbers of any length; `null` is no value.
fn free() -> impl Strategy<Value = String> {
    let quoted = texts().prop_map(|text| serde_json::to_string(&text).unwrap());
    let leaf =
        prop_oneof![Just("null".to_owned()), Just("1e400".to_owned()), wholes().prop_map(|n| n.to_string()), quoted];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        // Bodies have no duplicate names, so neither has a record made from one.
        let members = btree_map(texts(), inner.clone(), 0..4).prop_map(|members| {
            let member = |(name, value)| format!("{}:{value}", serde_json::to_string(name).unwrap());
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        });
        prop_oneof![vec(inner, 0..4).prop_map(|elements| format!("[{}]", elements.join(","))), members,]
    });
    nested.prop_filter("null is no value", |text| text != "null")
}

/// A field of any attribute: absent, null or a value.
fn field(value: impl Strategy<Value = Value<'static>> + 'static) -> BoxedStrategy<Option<Value<'static>>> {
    prop_oneof![1 => Just(None), 1 => Just(Some(Value::Null)), 6 => value.prop_map(Some)].boxed()
}

fn list(value: impl Strategy<Value = Value<'static>> + 'static) -> BoxedStrategy<Option<Value<'static>>> {
    field(vec(value, 0..5).prop_map(Value::List))
}

fn records() -> impl Strategy<Value = Given> {
    let key = texts().prop_map(|key| Some(text(&key))).boxed();
    // Occasionally a text so long that the offsets after it need four bytes.
    let long = "[a-z\u{e9}\"]{8}".prop_map(|part| part.repeat(9000));
    let content = prop_oneof![19 => texts(), 1 => long].prop_map(|content| text(&content));
    vec![
        key,
        field(content),
        field(wholes().prop_map(Value::Int)),
        field(reals().prop_map(Value::Float)),
        field(any::<bool>().prop_map(Value::Boolean)),
        field(dates().prop_map(date)),
        field(free().prop_map(|text| json(&text))),
        list(texts().prop_map(|content| text(&content))),
        list(wholes().prop_map(Value::Int)),
        list(reals().prop_map(Value::Float)),
        list(any::<bool>().prop_map(Value::Boolean)),
        list(dates().prop_map(date)),
        list(free().prop_map(|text| json(&text))),
    ]
}

proptest! {
    /// The fast and the general path of writing a number agree: for short decimals, next to them, and anywhere.
    #[test]
    fn numbers_of_few_decimals_are_written_as_all_others(digits in 0i64..3_000_000_000_000_000, fewer in 0u32..16, decimals in 0i32..8, nudge in -2i32..3, any in reals()) {
        let mut near = (digits / 10i64.pow(fewer)) as f64 / 10f64.powi(decimals);
        for _ in 0..nudge.abs() {
            near = if nudge < 0 { near.next_down() } else { near.next_up() };
        }
        for float in [near, -near, any] {
            let mut written = Vec::new();
            write_float(float, &mut written);
            prop_assert_eq!(String::from_utf8(written).unwrap(), ryu_js::Buffer::new().format_finite(float).to_owned());
        }
    }

    #[test]
    fn every_value_comes_back(given in records()) {
        let stored = encoded(&given);
        let record = Record::open(&TABLE, &stored).unwrap();
        for (position, value) in given.iter().enumerate() {
            prop_assert_eq!(&record.value(position).unwrap(), value.as_ref().unwrap_or(&Value::Null));
        }
        prop_assert_eq!(Some(Value::Text(record.id().unwrap())), given[0].clone());
    }

    #[test]
    fn the_text_is_json_in_the_order_of_the_schema_and_its_own_canonical_form(given in records()) {
        let stored = encoded(&given);
        let text = json_of(&stored);
        let names: Vec<_> = TABLE.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
        let members: Vec<(String, Box<serde_json::value::RawValue>)> = members(&text);
        prop_assert_eq!(members.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        let record = Record::open(&TABLE, &stored).unwrap();
        for (position, (_, value)) in members.iter().enumerate() {
            prop_assert_eq!(value.get(), record.text(position).unwrap());
        }
        prop_assert_eq!(encoded(parse_object(&TABLE, text.as_bytes()).unwrap().values()), stored.clone());
    }

    #[test]
    fn a_change_is_the_whole_record_written_anew(before in records(), change in records()) {
        let stored = encoded(&before);
        let old = Record::open(&TABLE, &stored).unwrap();
        let mut changed = Vec::new();
        encode(&fields(&change), Some(&old), &mut changed).unwrap();
        let whole: Given = change.into_iter().zip(before).map(|(new, old)| new.or(old)).collect();
        prop_assert_eq!(changed, encoded(&whole));
    }

    #[test]
    fn damage_under_a_right_checksum_is_no_panic(given in records(), at: prop::sample::Index, byte: u8) {
        let mut stored = encoded(&given);
        let at = at.index(stored.len());
        stored[at] = byte;
        let checksum = checksum(&stored);
        stored[8..16].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(record) = Record::open(&TABLE, &stored) {
            for position in 0..TABLE.attributes.len() {
                let _ = (record.text(position), record.value(position));
            }
        }
    }
}

/// Returns the names and values of a JSON object in order.
fn members(text: &str) -> Vec<(String, Box<serde_json::value::RawValue>)> {
    struct InOrder;
    impl<'de> serde::de::Visitor<'de> for InOrder {
        type Value = Vec<(String, Box<serde_json::value::RawValue>)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(text), InOrder).unwrap()
}

/// RFC 8785, appendix B.
#[test]
fn floats_are_written_as_rfc_8785_says() {
    let cases: [(u64, &str); 22] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        (0x4039_0000_0000_0000, "25"),
    ];
    for (bits, expected) in cases {
        assert_eq!(canonical(3, Value::Float(f64::from_bits(bits))), expected, "{bits:x}");
    }
}

/// RFC 8785, section 3.2.2.2.
#[test]
fn text_is_escaped_only_where_json_must() {
    let given = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1b}\"\\/\u{7f}\u{80}\u{2028}\u{20ac}\u{1f600}";
    let expected = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001b\\\"\\\\/\u{7f}\u{80}\u{2028}\u{20ac}\u{1f600}\"";
    assert_eq!(canonical(1, text(given)), expected);
}

#[test]
fn integers_are_exact() {
    for integer in [i64::MIN, -9_007_199_254_740_993, -1, 0, 9_007_199_254_740_993, i64::MAX] {
        assert_eq!(canonical(2, Value::Int(integer)), integer.to_string());
        let stored = encoded(&only(8, Value::List(vec![Value::Int(integer)])));
        let record = Record::open(&TABLE, &stored).unwrap();
        assert_eq!(record.value(8).unwrap(), Value::List(vec![Value::Int(integer)]));
    }
}

#[test]
fn offsets_widen_where_the_text_reaches_64_kib() {
    let bytes_of = |content: usize| {
        let mut given = samples().remove(1);
        given[1] = Some(text(&"x".repeat(content)));
        let stored = encoded(&given);
        let record = Record::open(&TABLE, &stored).unwrap();
        for (position, value) in given.iter().enumerate() {
            assert_eq!(Some(&record.value(position).unwrap()), value.as_ref());
        }
        (record.json().len(), stored.len())
    };
    let (empty, _) = bytes_of(0);
    let (widest_narrow, narrow) = bytes_of(65535 - empty);
    let (narrowest_wide, wide) = bytes_of(65536 - empty);
    assert_eq!((widest_narrow, narrowest_wide), (65535, 65536));
    assert_eq!(wide - narrow, 1 + 2 * TABLE.attributes.len());
}

#[test]
fn a_record_is_no_longer_than_others_can_wait_for() {
    let encode_text = |bytes| {
        let mut out = Vec::new();
        encode(&fields(&only(1, text(&"x".repeat(bytes)))), None::<&Record<'_, Vec<u8>>>, &mut out)
            .map(|record| record.json().len())
    };
    let around = encode_text(0).unwrap();
    assert_eq!(encode_text(LONGEST - around).unwrap(), LONGEST);
    assert!(matches!(encode_text(LONGEST - around + 1), Err(Error::Invalid { .. })));
}

#[test]
fn every_changed_bit_is_noticed() {
    for sample in samples() {
        let stored = encoded(&sample);
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[at] ^= 1 << bit;
                let opened = catch_unwind(|| Record::open(&TABLE, damaged).map(|record| record.json().to_vec()));
                assert!(matches!(opened, Ok(Err(Error::Corrupt { .. }))), "byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_long_record_is_noticed() {
    let mut given = samples().remove(1);
    given[1] = Some(text(&"x".repeat(66_000)));
    let mut stored = encoded(&given);
    for at in 0..stored.len() {
        stored[at] ^= 0x55;
        assert!(matches!(Record::open(&TABLE, &stored), Err(Error::Corrupt { .. })), "byte {at}");
        stored[at] ^= 0x55;
    }
    for length in 0..40 {
        assert!(matches!(Record::open(&TABLE, &stored[..length]), Err(Error::Corrupt { .. })), "{length} bytes of it");
    }
}

#[test]
fn every_cut_and_every_appendix_is_noticed() {
    for sample in samples() {
        let mut stored = encoded(&sample);
        for length in 0..stored.len() {
            assert!(matches!(Record::open(&TABLE, &stored[..length]), Err(Error::Corrupt { .. })), "{length} bytes");
        }
        stored.push(0);
        assert!(matches!(Record::open(&TABLE, &stored), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn a_record_of_another_schema_or_version_is_refused() {
    let stored = encoded(&samples()[1]);
    let sdl = "type T @table { key: ID @primaryKey text: String }";
    let other = Schema::parse(sdl).unwrap().tables.remove(0);
    assert!(
        matches!(Record::open(&other, &stored), Err(Error::Corrupt { detail }) if detail.contains("another schema"))
    );
    let mut newer = stored.clone();
    newer[0] = 2;
    let checksum = checksum(&newer);
    newer[8..16].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(Record::open(&TABLE, &newer), Err(Error::Corrupt { detail }) if detail.contains("version")));
}

#[test]
fn the_checksum_names_the_version_of_a_record() {
    let (one, same) = (encoded(&samples()[1]), encoded(&samples()[1]));
    let mut changed = samples().remove(1);
    changed[2] = Some(Value::Int(-43));
    let changed = encoded(&changed);
    let checksum = |stored: &[u8]| Record::open(&TABLE, stored).unwrap().checksum();
    assert_eq!(checksum(&one), checksum(&same));
    assert_ne!(checksum(&one), checksum(&changed));
}

static LEASE: LazyLock<Table> = LazyLock::new(|| {
    Schema::parse("type Lease @table(expiration: 60) { id: ID @primaryKey number: Int }").unwrap().tables.remove(0)
});

fn lease(number: i64, deadline: i64) -> Vec<u8> {
    let mut fields = Fields::of(&LEASE);
    fields.values_mut().clone_from_slice(&[Some(text("a")), Some(Value::Int(number))]);
    fields.set_deadline(deadline);
    let mut out = Vec::new();
    encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
    out
}

#[test]
fn a_renewal_changes_the_deadline_alone() {
    let stored = lease(1, 60_000_000);
    let before = Record::open(&LEASE, &stored).unwrap();
    let renewed = before.renewed(90_000_000).unwrap();
    let after = Record::open(&LEASE, renewed.bytes()).unwrap();
    assert_eq!((before.expires_at().unwrap(), after.expires_at().unwrap()), (Some(60_000_000), Some(90_000_000)));
    assert_eq!((after.json(), after.checksum()), (before.json(), before.checksum()));
    assert_eq!((is_renewal(&stored), is_renewal(renewed.bytes())), (false, true));
    assert_eq!(after.checksum(), Record::open(&LEASE, &lease(1, 7)).unwrap().checksum(), "of the content");
    assert_ne!(after.checksum(), Record::open(&LEASE, &lease(2, 90_000_000)).unwrap().checksum());
    let mut written = Vec::new();
    let mut fields = Fields::of(&LEASE);
    fields.set_deadline(91_000_000);
    encode(&fields, Some(&after), &mut written).unwrap();
    assert_eq!(written, lease(1, 91_000_000), "a write is no renewal");
    for stored in [&stored, &renewed.bytes().to_vec()] {
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 0x55;
            assert!(matches!(Record::open(&LEASE, &damaged), Err(Error::Corrupt { .. })), "byte {at}");
        }
    }
    assert!(Record::open(&TABLE, &encoded(&samples()[0])).unwrap().renewed(1).is_err(), "it has no deadline");
}

#[test]
fn a_record_whose_deadline_was_hashed_is_read_as_it_would_be_written() {
    let (now, mut before) = (lease(1, 60_000_000), lease(1, 60_000_000));
    before[0] = VERSION;
    let hashed = checksum(&before);
    before[8..16].copy_from_slice(&hashed.to_le_bytes());
    assert_ne!(before, now);
    let (before, now) = (Record::open(&LEASE, &before).unwrap(), Record::open(&LEASE, &now).unwrap());
    assert_eq!((before.bytes(), before.checksum()), (now.bytes(), now.checksum()));
}
