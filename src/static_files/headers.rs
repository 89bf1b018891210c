//! What a request for a file wants beside its path: a validator it knows, a range, HTML (RFC 9110, 12.5, 13, 14).

use std::ops::Range;

use http::header::{ACCEPT, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue};

use crate::handlers::fields::{members, names_tag, names_tag_weakly, with_quality};

/// Whether the client asks for HTML by name, as browsers do for a page and nobody does for data.
pub fn accepts_html(headers: &HeaderMap) -> bool {
    members(headers, ACCEPT).any(|member| {
        let (name, quality) = with_quality(member);
        name.eq_ignore_ascii_case(b"text/html") && quality > 0
    })
}

/// Whether `If-Match` asks for another version than the one that is there.
pub(super) fn is_stale(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers.contains_key(IF_MATCH) && !names_tag(headers, IF_MATCH, etag.as_bytes())
}

/// Whether `If-None-Match` names a validator.
pub(super) fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    names_tag_weakly(headers, IF_NONE_MATCH, etag.as_bytes())
}

/// Which bytes a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Not empty, and within the file.
    Part(Range<u64>),
    /// Only what is behind the end.
    Nothing,
}

/// What `Range` and `If-Range` say of a file. Several ranges, other units, and what is no range are answered with the whole file,
/// as is a client whose part is of another version.
pub(super) fn range(headers: &HeaderMap, length_bytes: u64, etag: &HeaderValue) -> Wanted {
    let Some(range) = headers.get(RANGE) else {
        return Wanted::All;
    };
    if headers.get(IF_RANGE).is_some_and(|version| version != etag) {
        return Wanted::All;
    }
    let range = range.to_str().ok().and_then(|range| range.strip_prefix("bytes=")).map(str::trim);
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Wanted::All;
    };
    let part = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length_bytes),
        (Some(first), None) if last.is_empty() => first..length_bytes,
        (None, Some(suffix)) if first.is_empty() => length_bytes.saturating_sub(suffix)..length_bytes,
        _ => return Wanted::All,
    };
    if part.is_empty() { Wanted::Nothing } else { Wanted::Part(part) }
}

/// Digits and nothing else; more than fit mean a place behind every end.
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
            assert_eq!(of(value), Wanted::Part(expected), "{value}");
        }
        for value in ["bytes=10-", "bytes=10-11", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(value), Wanted::Nothing, "{value}");
        }
        for value in ["bytes=5-2", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=+1-2", "0-1"]
        {
            assert_eq!(of(value), Wanted::All, "{value}");
        }
        assert_eq!(range(&headers(&[(RANGE, "bytes=-1")]), 0, &etag), Wanted::Nothing, "nothing has no last byte");
        assert_eq!(range(&headers(&[]), 10, &etag), Wanted::All);
    }

    #[test]
    fn a_part_of_another_version_is_worth_nothing() {
        let etag = HeaderValue::from_static("\"v\"");
        let of = |version| range(&headers(&[(RANGE, "bytes=0-0"), (IF_RANGE, version)]), 10, &etag);
        assert_eq!(of("\"v\""), Wanted::Part(0..1));
        for other in ["\"w\"", "W/\"v\"", "Sat, 29 Oct 1994 19:43:31 GMT"] {
            assert_eq!(of(other), Wanted::All, "{other}");
        }
    }

    #[test]
    fn html_is_asked_for_by_name() {
        let asks = |value| accepts_html(&headers(&[(ACCEPT, value)]));
        assert!(asks("text/html,application/xhtml+xml,*/*;q=0.8") && asks("image/png, Text/HTML;q=0.1"));
        assert!(!asks("*/*") && !asks("text/*") && !asks("text/html;q=0") && !asks("application/json"));
    }
}
