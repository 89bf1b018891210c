//! Keys: an order-preserving encoding.
//!
//! ```text
//! records  [table u32 BE][id]                     -> record
//! ordered  [index u32 BE][value][id]              -> nothing
//! hash     [index u32 BE][XXH3-64 of value, BE][id] -> nothing; the value is verified on the record
//! unique   [index u32 BE][value]                  -> id
//! composite [index u32 BE][value][value]..[id]    -> nothing
//! fulltext [index u32 BE][term, a text][id]       -> nothing
//! expiry   [index u32 BE][microseconds since 1970, a number][id] -> nothing
//! blobs    [table u32 BE][upload u64 BE]          -> manifest
//!          [table u32 BE][upload u64 BE][chunk u32 BE] -> bytes, see `blobs`
//!          [0 u32][table u32 BE][upload u64 BE]   -> nothing: an upload is in progress
//!          [0 u32]                                -> the lowest upload number not used yet
//! streams  see `streams::keys`
//! ```
//!
//! A value is one tag byte and a body: `false < true < numbers < text < null`. Null is last, so that a forward scan of an index is the
//! ascending order and a backward scan the descending one, ties by id included. A number is the greatest double not above it (sign trick:
//! negative doubles inverted, others with the sign bit set) and the remainder, u16 BE, so that integers beyond 2^53 keep their exact place
//! among doubles. Text is escaped (`00` to `00 FF`) and ends with `00 00`, so that a prefix sorts before its continuations and the id that
//! follows cannot be mistaken for text. Text longer than [`INDEXED_BYTES`] is truncated: the reader verifies the record; a `unique` key is
//! then followed by the hash of the whole text.
//!
//! Keys contain numbers, never names of tables, attributes or indexes, and no number is used twice (`transaction::catalogue`): a name may
//! come back, and would then lead to what was stored under it before.
//!
//! No table has the number 0, so the bookkeeping of uploads sorts before all blobs.
#![deny(clippy::little_endian_bytes, clippy::host_endian_bytes)]

use twox_hash::XxHash3_64;

use super::value::Value;

/// The maximum number of bytes of a text in an ordered or unique key.
pub const INDEXED_BYTES: usize = 1024;

/// The length of a hash index key before its id, in bytes.
pub const HASH_PREFIX_BYTES: usize = 12;

const TAG_FALSE: u8 = 0x10;
const TAG_TRUE: u8 = 0x11;
const TAG_NUMBER: u8 = 0x20;
const TAG_TEXT: u8 = 0x30;
const TAG_NULL: u8 = 0x40;

/// Writes the key of a record.
pub fn record(table: u32, id: &str, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&table.to_be_bytes());
    out.extend_from_slice(id.as_bytes());
}

/// Returns the table in the key of a record; `None` if the key is too short.
pub fn table_of_record(key: &[u8]) -> Option<u32> {
    key.first_chunk().map(|table| u32::from_be_bytes(*table))
}

/// Returns the id in the key of a record; `None` if the key is too short or not UTF-8.
pub fn id_of_record(key: &[u8]) -> Option<&str> {
    key.get(4..).and_then(|id| std::str::from_utf8(id).ok())
}

/// Writes the key of an entry in an ordered index.
pub fn ordered(index: u32, value: &Value<'_>, id: &str, out: &mut Vec<u8>) {
    ordered_prefix(index, value, out);
    out.extend_from_slice(id.as_bytes());
}

/// Writes the prefix of all entries of one value in an ordered index, and of no others.
pub fn ordered_prefix(index: u32, value: &Value<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(match value {
        Value::Text(text) => 4 + 3 + indexed(text).len(),
        _ => 4 + 11,
    });
    out.extend_from_slice(&index.to_be_bytes());
    self::value(value, out);
}

/// Writes the prefix of the entries in a composite index with these leading values.
pub fn composite_prefix<'a, 'v: 'a>(index: u32, values: impl IntoIterator<Item = &'a Value<'v>>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&index.to_be_bytes());
    values.into_iter().for_each(|of| value(of, out));
}

/// Appends the prefix of all texts that begin with `beginning`; beyond the indexed length, other texts share the prefix.
pub fn text_beginning(beginning: &str, out: &mut Vec<u8>) {
    out.push(TAG_TEXT);
    escape(indexed(beginning), out);
}

/// Returns the number of bytes before the id in an entry with this many values; `None` if it is not a valid key.
pub fn bytes_before_id(entry: &[u8], values: usize) -> Option<usize> {
    (0..values).try_fold(4, |start, _| end_of_value(entry, start))
}

/// Returns the end of the value at this offset in an entry; `None` if there is none.
fn end_of_value(entry: &[u8], start: usize) -> Option<usize> {
    match *entry.get(start)? {
        TAG_FALSE | TAG_TRUE | TAG_NULL => Some(start + 1),
        TAG_NUMBER => Some(start + 11),
        TAG_TEXT => {
            let mut at = start + 1;
            loop {
                at += memchr::memchr(0, entry.get(at..)?)?;
                at += 2;
                // An escaped zero is followed by FF, the end by another zero.
                if entry.get(at - 1)? == &0 {
                    return Some(at);
                }
            }
        }
        _ => None,
    }
}

/// Returns the end, in an entry without its id, of the first value after `skip_values` others that may be truncated text, so that entries
/// may not have the order of the whole texts; `None` if there is none.
pub fn end_of_truncated_text(before_id: &[u8], skip_values: usize) -> Option<usize> {
    const TRUNCATED_BYTES: usize = 1 + INDEXED_BYTES + 2;
    if before_id.len() < 4 + TRUNCATED_BYTES {
        return None;
    }
    let mut start = bytes_before_id(before_id, skip_values)?;
    loop {
        let end = end_of_value(before_id, start)?;
        if before_id[start] == TAG_TEXT && end - start >= TRUNCATED_BYTES {
            return Some(end);
        }
        start = end;
    }
}

/// Writes the key of an entry in a hash index.
pub fn hash(index: u32, value: &Value<'_>, id: &str, out: &mut Vec<u8>) {
    hash_prefix(index, value, out);
    out.extend_from_slice(id.as_bytes());
}

/// Writes the prefix of all entries of one value in a hash index; entries of other values may share it.
pub fn hash_prefix(index: u32, value: &Value<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(4 + 11);
    out.extend_from_slice(&index.to_be_bytes());
    let hash = match value {
        // Of the whole text: if it were truncated, all long values with the same prefix would collide.
        Value::Text(text) => XxHash3_64::oneshot_with_seed(u64::from(TAG_TEXT), text.as_bytes()),
        other => {
            self::value(other, out);
            let hash = XxHash3_64::oneshot(&out[4..]);
            out.truncate(4);
            hash
        }
    };
    out.extend_from_slice(&hash.to_be_bytes());
}

/// Writes the key of an entry in a unique index.
pub fn unique(index: u32, value: &Value<'_>, out: &mut Vec<u8>) {
    ordered_prefix(index, value, out);
    if let Value::Text(text) = value
        && text.len() > INDEXED_BYTES
    {
        out.extend_from_slice(&XxHash3_64::oneshot(text.as_bytes()).to_be_bytes());
    }
}

/// The prefix of the bookkeeping of uploads, in place of a table number; by itself the key of the lowest upload number not used yet.
pub const UPLOADS: [u8; 4] = 0u32.to_be_bytes();

/// Returns the key of the manifest of an upload, which is also the prefix of its chunks. The key of the next number follows all of them.
pub fn upload(table: u32, upload: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&table.to_be_bytes());
    key[4..].copy_from_slice(&upload.to_be_bytes());
    key
}

/// Returns the key of a chunk of an upload.
pub fn chunk(table: u32, upload: u64, chunk: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..12].copy_from_slice(&self::upload(table, upload));
    key[12..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Returns the key that marks an upload as in progress.
pub fn under_way(table: u32, upload: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&UPLOADS);
    key[4..].copy_from_slice(&self::upload(table, upload));
    key
}

/// Parses a key in the space of blobs into table, upload and the number of the chunk (`None` for the manifest); `None` if it is neither.
pub fn parts_of_blob(key: &[u8]) -> Option<(u32, u64, Option<u32>)> {
    let (table, rest) = key.split_first_chunk()?;
    let (upload, rest) = rest.split_first_chunk()?;
    let chunk = match rest {
        [] => None,
        rest => Some(u32::from_be_bytes(rest.try_into().ok()?)),
    };
    Some((u32::from_be_bytes(*table), u64::from_be_bytes(*upload), chunk))
}

/// Writes the least key greater than every key with this prefix; empty if there is none (all `FF`).
pub fn successor(prefix: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(prefix);
    while let Some(last) = out.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return;
        }
        out.pop();
    }
}

/// Appends the order-preserving encoding of a scalar value.
///
/// # Panics
/// For a list, JSON or a blob: an index has one entry for each element, and none on `Any` or `Blob` (the schema rejects it).
pub fn value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Boolean(false) => out.push(TAG_FALSE),
        Value::Boolean(true) => out.push(TAG_TRUE),
        Value::Int(integer) => {
            let (floor, rest) = split(*integer);
            number(floor, rest, out);
        }
        Value::Float(float) => number(*float, 0, out),
        Value::Date(date) => {
            let (floor, rest) = split(date.microseconds);
            number(floor, rest, out);
        }
        Value::Text(string) => text(indexed(string), out),
        Value::Null => out.push(TAG_NULL),
        Value::List(_) | Value::Json(_) | Value::Blob(_) => {
            unreachable!("the schema admits no index over it, lists are taken apart")
        }
    }
}

/// Splits an integer into the greatest double not above it and the remainder.
fn split(integer: i64) -> (f64, u16) {
    let nearest = integer as f64;
    if integer.unsigned_abs() <= 1 << 53 {
        return (nearest, 0);
    }
    let floor = if nearest as i128 > i128::from(integer) { nearest.next_down() } else { nearest };
    let rest = i128::from(integer) - floor as i128;
    (floor, u16::try_from(rest).expect("doubles near 2^63 are 1024 apart"))
}

fn number(float: f64, rest: u16, out: &mut Vec<u8>) {
    // A single zero: -0.0 + 0.0 is 0.0. There is no NaN: JSON cannot represent it.
    let bits = (float + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.push(TAG_NUMBER);
    out.extend_from_slice(&ordered.to_be_bytes());
    out.extend_from_slice(&rest.to_be_bytes());
}

/// Appends a scalar value like [`value`], but never truncates text: for the sort key of a record.
///
/// # Panics
/// As [`value`].
pub fn whole_value(of: &Value<'_>, out: &mut Vec<u8>) {
    match of {
        Value::Text(string) => text(string.as_bytes(), out),
        other => value(other, out),
    }
}

/// Returns the part of a text that is stored in an ordered or unique key.
fn indexed(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(INDEXED_BYTES)]
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(TAG_TEXT);
    escape(bytes, out);
    out.extend_from_slice(&[0x00, 0x00]);
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(zero) = memchr::memchr(0, rest) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0x00, 0xFF]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::value::Date;
    use proptest::prelude::*;
    use std::borrow::Cow;
    use std::cmp::Ordering;

    fn bytes(of: &Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        value(of, &mut out);
        out
    }

    fn text_value(text: &str) -> Value<'static> {
        Value::Text(Cow::Owned(text.to_owned()))
    }

    /// Compares an integer with a double exactly, by the halves of the double.
    fn compare_exactly(integer: i64, float: f64) -> Ordering {
        if float >= 9_223_372_036_854_775_808.0 {
            return Ordering::Less;
        }
        if float < -9_223_372_036_854_775_808.0 {
            return Ordering::Greater;
        }
        let whole = float.floor();
        integer.cmp(&(whole as i64)).then(if float > whole { Ordering::Less } else { Ordering::Equal })
    }

    #[test]
    fn kinds_are_ordered_and_null_is_last() {
        let ascending = [
            Value::Boolean(false),
            Value::Boolean(true),
            Value::Float(f64::MIN),
            Value::Int(i64::MIN),
            Value::Int(-10),
            Value::Int(-9),
            Value::Float(-0.5),
            Value::Int(0),
            Value::Float(f64::MIN_POSITIVE),
            Value::Int(9),
            Value::Int(10),
            Value::Int(99),
            Value::Int(100),
            Value::Int(9_007_199_254_740_992),
            Value::Int(9_007_199_254_740_993),
            Value::Float(9_007_199_254_740_994.0),
            Value::Int(i64::MAX),
            Value::Float(9_223_372_036_854_775_808.0),
            Value::Float(f64::MAX),
            text_value(""),
            text_value("\0"),
            text_value("\0\0"),
            text_value("\0a"),
            text_value("a"),
            text_value("a\0"),
            text_value("ab"),
            text_value("\u{ffff}"),
            text_value("\u{10ffff}"),
            Value::Null,
        ];
        for pair in ascending.windows(2) {
            assert!(bytes(&pair[0]) < bytes(&pair[1]), "{pair:?}");
        }
        assert_eq!(bytes(&Value::Float(-0.0)), bytes(&Value::Int(0)));
    }

    #[test]
    fn long_text_is_cut_and_unique_keeps_its_hash() {
        let (one, other) = (text_value(&"x".repeat(2000)), text_value(&"x".repeat(2001)));
        assert_eq!(bytes(&one), bytes(&other));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        unique(1, &one, &mut first);
        unique(1, &other, &mut second);
        assert_ne!(first, second);
        hash_prefix(1, &one, &mut first);
        hash_prefix(1, &other, &mut second);
        assert_ne!(first, second);
    }

    #[test]
    fn where_the_id_begins_is_seen_in_the_value() {
        let mut entry = Vec::new();
        for value in
            [Value::Null, Value::Boolean(true), Value::Int(0), Value::Float(-1.5), text_value(""), text_value("a\0\0b")]
        {
            ordered(7, &value, "\0id", &mut entry);
            assert_eq!(bytes_before_id(&entry, 1), Some(entry.len() - 3), "{value:?}");
            for other in [Value::Null, Value::Int(-1), text_value("\0")] {
                composite_prefix(7, [&value, &other, &value], &mut entry);
                let values = entry.len();
                entry.extend_from_slice(b"\0id");
                assert_eq!(bytes_before_id(&entry, 3), Some(values), "{value:?} {other:?}");
            }
        }
        for damaged in
            [&[0, 0, 0, 7][..], &[0, 0, 0, 7, 0x99], &[0, 0, 0, 7, TAG_TEXT, 0], &[0, 0, 0, 7, TAG_TEXT, b'a']]
        {
            assert_eq!(bytes_before_id(damaged, 1), None);
            assert_eq!(bytes_before_id(damaged, 2), None);
        }
    }

    #[test]
    fn only_text_that_was_cut_shares_its_place() {
        let mut prefix = Vec::new();
        for (bytes, cut) in [(1023, false), (1024, true), (5000, true)] {
            ordered_prefix(7, &text_value(&"x".repeat(bytes)), &mut prefix);
            assert_eq!(end_of_truncated_text(&prefix, 0), cut.then_some(prefix.len()), "{bytes}");
            assert_eq!(end_of_truncated_text(&prefix, 1), None, "{bytes}");
            let text = text_value(&"x".repeat(bytes));
            composite_prefix(7, [&Value::Int(1), &text, &text_value("a")], &mut prefix);
            assert_eq!(end_of_truncated_text(&prefix, 0), cut.then_some(prefix.len() - 4), "{bytes}");
            assert_eq!(end_of_truncated_text(&prefix, 1), cut.then_some(prefix.len() - 4), "{bytes}");
            assert_eq!(end_of_truncated_text(&prefix, 2), None, "{bytes}");
        }
        let (mut one, mut other) = (Vec::new(), Vec::new());
        whole_value(&text_value(&"x".repeat(2000)), &mut one);
        whole_value(&text_value(&"x".repeat(2001)), &mut other);
        assert!(one < other);
    }

    #[test]
    fn successor_skips_all_continuations() {
        let mut out = Vec::new();
        successor(&[1, 0xFF, 0xFF], &mut out);
        assert_eq!(out, [2]);
        successor(&[0xFF], &mut out);
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a: i64, b: i64) {
            prop_assert_eq!(bytes(&Value::Int(a)).cmp(&bytes(&Value::Int(b))), a.cmp(&b));
        }

        #[test]
        fn neighbours_keep_their_order(a: i64, digits in 0u32..18, step in -2i64..3) {
            let edge = 10i64.pow(digits);
            for base in [a, edge, -edge, 1 << 53, 1 << 62] {
                let other = base.saturating_add(step);
                prop_assert_eq!(bytes(&Value::Int(base)).cmp(&bytes(&Value::Int(other))), base.cmp(&other));
            }
        }

        #[test]
        fn doubles_keep_their_order(a in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
                                    b in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO) {
            let expected = a.partial_cmp(&b).unwrap();
            prop_assert_eq!(bytes(&Value::Float(a)).cmp(&bytes(&Value::Float(b))), expected);
        }

        #[test]
        fn integers_among_doubles_are_exact(integer: i64, nudge in -3i32..4) {
            let mut near = integer as f64;
            for _ in 0..nudge.abs() {
                near = if nudge < 0 { near.next_down() } else { near.next_up() };
            }
            for float in [near, integer as f64 + 0.5, f64::from(nudge)] {
                prop_assert_eq!(
                    bytes(&Value::Int(integer)).cmp(&bytes(&Value::Float(float))),
                    compare_exactly(integer, float), "{} {}", integer, float
                );
            }
        }

        #[test]
        fn dates_keep_their_order(a: i64, b: i64) {
            let date = |microseconds| Value::Date(Date { text: Cow::Borrowed(""), microseconds });
            prop_assert_eq!(bytes(&date(a)).cmp(&bytes(&date(b))), a.cmp(&b));
        }

        #[test]
        fn text_keeps_its_order_and_ids_never_mix_in(
            a in "[\u{0}\u{1}a\u{7f}\u{ff}\u{ffff}]{0,6}", b in "[\u{0}\u{1}a\u{7f}\u{ff}\u{ffff}]{0,6}",
            c in "[\u{0}a\u{ff}]{1,3}", d in "[\u{0}a\u{ff}]{1,3}",
        ) {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            ordered(7, &text_value(&a), &c, &mut first);
            ordered(7, &text_value(&b), &d, &mut second);
            let expected = a.as_bytes().cmp(b.as_bytes()).then(c.as_bytes().cmp(d.as_bytes()));
            prop_assert_eq!(first.cmp(&second), expected);
            let mut prefix = Vec::new();
            ordered_prefix(7, &text_value(&a), &mut prefix);
            prop_assert_eq!(second.starts_with(&prefix), a == b);
            prop_assert_eq!(first.starts_with(&prefix) && first.ends_with(c.as_bytes()), true);
            prop_assert_eq!(bytes_before_id(&second, 1), Some(second.len() - d.len()));
            prefix.truncate(4);
            text_beginning(&a, &mut prefix);
            prop_assert_eq!(second.starts_with(&prefix), b.starts_with(&a));
        }
    }
}
