//! Conditional and range requests (RFC 9110, sections 13 and 14), shared by files and blobs.

use std::ops::Range;

use http::header::{IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};

use super::fields::{names_tag, names_tag_weakly};

/// Returns whether `If-Match` excludes the current version.
pub fn is_stale(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers.contains_key(IF_MATCH) && !names_tag(headers, IF_MATCH, etag.as_bytes())
}

/// Returns whether `If-None-Match` contains a validator.
pub fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    names_tag_weakly(headers, IF_NONE_MATCH, etag.as_bytes())
}

/// The bytes that a client requests.
#[derive(Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// All of them.
    All,
    /// A non-empty range within the content.
    Part(Range<u64>),
    /// A range beyond the end, which cannot be satisfied.
    Nothing,
}

/// Returns what `Range` and `If-Range` select of a content of `length_bytes` bytes. Multiple ranges, other units and malformed ranges
/// select the whole content, and so does an `If-Range` for another version.
pub fn range(headers: &HeaderMap, length_bytes: u64, etag: &HeaderValue) -> RangeSpec {
    let Some(range) = headers.get(RANGE) else {
        return RangeSpec::All;
    };
    if headers.get(IF_RANGE).is_some_and(|version| version != etag) {
        return RangeSpec::All;
    }
    let range = range.to_str().ok().and_then(|range| range.strip_prefix("bytes=")).map(str::trim);
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return RangeSpec::All;
    };
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length_bytes),
        (Some(first), None) if last.is_empty() => first..length_bytes,
        (None, Some(suffix)) if first.is_empty() => length_bytes.saturating_sub(suffix)..length_bytes,
        _ => return RangeSpec::All,
    };
    if part.is_empty() { RangeSpec::Nothing } else { RangeSpec::Part(part) }
}

/// Parses a number of digits only; one that overflows means an offset beyond every end.
fn number(digits: &str) -> Option<u64> {
    let right = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    right.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn ranges_of_ten_bytes() {
        let etag = HeaderValue::from_static("\"v\"");
        let of = |value| range(&headers(&[(RANGE, value)]), 10, &etag);
        for (value, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("bytes=2-", 2..10),
            ("bytes=9-99", 9..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            ("bytes=0-99999999999999999999999", 0..10),
        ] {
            assert_eq!(of(value), RangeSpec::Part(expected), "{value}");
        }
        for value in ["bytes=10-", "bytes=10-11", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(value), RangeSpec::Nothing, "{value}");
        }
        for value in ["bytes=5-2", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=+1-2", "0-1"]
        {
            assert_eq!(of(value), RangeSpec::All, "{value}");
        }
        assert_eq!(range(&headers(&[(RANGE, "bytes=-1")]), 0, &etag), RangeSpec::Nothing, "nothing has no last byte");
        assert_eq!(range(&headers(&[]), 10, &etag), RangeSpec::All);
    }

    #[test]
    fn a_part_of_another_version_is_worth_nothing() {
        let etag = HeaderValue::from_static("\"v\"");
        let of = |version| range(&headers(&[(RANGE, "bytes=0-0"), (IF_RANGE, version)]), 10, &etag);
        assert_eq!(of("\"v\""), RangeSpec::Part(0..1));
        for other in ["\"w\"", "W/\"v\"", "Sat, 29 Oct 1994 19:43:31 GMT"] {
            assert_eq!(of(other), RangeSpec::All, "{other}");
        }
    }
}
