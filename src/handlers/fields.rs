//! List-valued header fields (RFC 9110, section 5.6.1): their members, quality values and entity tags.
//!
//! Shared by records and files. Bytes are compared in place; nothing is allocated.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns the members of a list field over all its lines. A comma inside a tag splits it into pieces that match nothing; our tags contain
/// none.
pub fn members(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().flat_map(|value| members_of(value.as_bytes()))
}

/// Returns whether a list field has a member. An empty field is equivalent to an absent one (RFC 9110, 5.6.1.2).
pub fn has_members(headers: &HeaderMap, name: HeaderName) -> bool {
    members(headers, name).next().is_some()
}

/// Returns the members of one line of a list field.
pub fn members_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Splits a member into its name and its quality in thousandths; 0 = not acceptable (RFC 9110, section 12.4.2).
pub fn with_quality(member: &[u8]) -> (&[u8], u16) {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    let quality =
        quality.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse::<f32>().ok());
    // An invalid quality value is ignored.
    let quality = quality
        .filter(|quality| (0.0..=1.0).contains(quality))
        .map_or(1000, |quality| (quality * 1000.0).round() as u16);
    (name, quality)
}

/// Returns the value of a field that is no list; `None` if it is absent or has several lines, which mean nothing together.
pub fn single(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut lines = headers.get_all(name).into_iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Returns whether a field contains an entity tag or `*`. Uses strong comparison: tags with `W/` match nothing.
pub fn names_tag(headers: &HeaderMap, name: HeaderName, tag: &[u8]) -> bool {
    members(headers, name).any(|member| member == b"*" || member == tag)
}

/// Like `names_tag`, with weak comparison: `W/` is ignored.
pub fn names_tag_weakly(headers: &HeaderMap, name: HeaderName, tag: &[u8]) -> bool {
    members(headers, name).any(|member| member == b"*" || member.strip_prefix(b"W/").unwrap_or(member) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::{ACCEPT, IF_MATCH, IF_NONE_MATCH};

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn lines_of_one_field_are_one_list() {
        let headers = headers(ACCEPT, &["a ,, b;q=1", "", " c"]);
        assert!(members(&headers, ACCEPT).eq([b"a".as_slice(), b"b;q=1", b"c"]));
    }

    #[test]
    fn quality_is_in_thousandths() {
        for (member, expected) in [
            ("gzip", 1000),
            ("gzip;q=0.5", 500),
            ("gzip;q=0.251", 251),
            ("gzip;q=0.511", 511),
            ("gzip ; Q=0", 0),
            ("gzip;level=9;q=0.001", 1),
            ("gzip;q=0.0", 0),
            ("gzip;q=2", 1000),
            ("gzip;q=much", 1000),
        ] {
            assert_eq!(with_quality(member.as_bytes()), (b"gzip".as_slice(), expected), "{member}");
        }
    }

    #[test]
    fn tags_are_compared_strongly_or_weakly() {
        for (field, strongly, weakly) in [
            ("\"v\"", true, true),
            ("*", true, true),
            ("\"w\", W/\"v\"", false, true),
            ("\"w\" ,\"v\"", true, true),
            ("\"w\"", false, false),
            ("v", false, false),
            ("", false, false),
        ] {
            assert_eq!(names_tag(&headers(IF_MATCH, &[field]), IF_MATCH, b"\"v\""), strongly, "{field}");
            let headers = headers(IF_NONE_MATCH, &[field]);
            assert_eq!(names_tag_weakly(&headers, IF_NONE_MATCH, b"\"v\""), weakly, "{field}");
        }
        assert!(!names_tag(&HeaderMap::new(), IF_MATCH, b"\"v\""));
    }
}
