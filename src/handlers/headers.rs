//! The headers that decide about a request: validators and preconditions (RFC 9110, 8.8.3 and 13), and which types it speaks.
//!
//! The common cases (no header, one tag of ours, `*/*`) are decided by comparing bytes; nothing is allocated for them.

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use smallvec::{SmallVec, smallvec};
use twox_hash::XxHash3_64;

use super::fields::{members, names_tag_weakly, with_quality};
use super::{Failure, Result};
use crate::encoding::Record;
use crate::error::Error;
use crate::transaction::Precondition;

/// The strong validator of a representation of a record, in quotation marks: its checksum, 16 hexadecimal digits; where it is not the
/// whole record as JSON, `-` and 16 more that name the representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validator(SmallVec<[u8; 18]>);

impl Validator {
    /// Of a stored record as JSON.
    pub fn of<B: AsRef<[u8]>>(record: &Record<'_, B>) -> Self {
        Self::new(record.checksum())
    }

    fn new(checksum: u64) -> Self {
        let mut text = smallvec![b'"'; 18];
        write_digits(checksum, &mut text[1..17]);
        Self(text)
    }

    /// Of a representation of the record that is not the whole as JSON, by what tells it from others.
    pub fn of_representation(mut self, named_by: &[u8]) -> Self {
        self.0.resize(35, b'"');
        self.0[17] = b'-';
        write_digits(XxHash3_64::oneshot(named_by), &mut self.0[18..34]);
        self
    }

    /// As a value of `ETag`.
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("digits and quotation marks")
    }

    /// Whether `If-None-Match` names it, so that the client has the representation already. The comparison is weak: `W/` is passed over.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(first) = headers.get(IF_NONE_MATCH) else {
            return false;
        };
        first.as_bytes() == self.0.as_slice() || names_tag_weakly(headers, IF_NONE_MATCH, &self.0)
    }
}

fn write_digits(number: u64, text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (position, digit) in text.iter_mut().enumerate() {
        *digit = DIGITS[(number >> (60 - 4 * position)) as usize & 0xF];
    }
}

/// What a write expects of the stored record. Of a tag the part before a `-` counts: what follows names a representation.
///
/// # Errors
/// 400 for preconditions that cannot be honoured: they must not be passed over.
pub fn expected(headers: &HeaderMap) -> Result<Precondition> {
    let (if_match, if_none_match) = (headers.contains_key(IF_MATCH), headers.contains_key(IF_NONE_MATCH));
    match (if_match, if_none_match) {
        (false, false) => Ok(Precondition::None),
        (true, true) => Err(Error::invalid("If-Match and If-None-Match together are not supported").into()),
        (false, true) if members(headers, IF_NONE_MATCH).eq([b"*"]) => Ok(Precondition::Absent),
        (false, true) => {
            Err(Error::invalid("of If-None-Match a write knows only *: there must be no such record").into())
        }
        (true, false) if members(headers, IF_MATCH).any(|tag| tag == b"*") => Ok(Precondition::Exists),
        // A tag that is not ours, or a weak one, matches nothing.
        (true, false) => Ok(Precondition::OneOf(members(headers, IF_MATCH).filter_map(checksum).collect())),
    }
}

fn checksum(tag: &[u8]) -> Option<u64> {
    let inner = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let digits = inner.split(|byte| *byte == b'-').next()?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 16)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Whether the client takes JSON.
///
/// # Errors
/// 406 if it does not.
pub fn accepts_json(headers: &HeaderMap) -> Result<()> {
    let Some(first) = headers.get(ACCEPT) else {
        return Ok(());
    };
    if matches!(first.as_bytes(), b"*/*" | b"application/json") {
        return Ok(());
    }
    match accepts(headers, b"application/json", b"application/*") {
        true => Ok(()),
        false => Err(Failure::NotAcceptable { made: "records, lists and answers are application/json" }),
    }
}

/// Whether `Accept` leaves room for a media type; `range` is that of its like.
pub(super) fn accepts(headers: &HeaderMap, media_type: &[u8], range: &[u8]) -> bool {
    // The most specific range that names it decides (RFC 9110, 12.5.1).
    let ranges = members(headers, ACCEPT).filter_map(|member| {
        let (name, quality) = with_quality(member);
        let specific = match name.to_ascii_lowercase() {
            name if name == media_type => 2,
            name if name == range => 1,
            name if name == b"*/*" => 0,
            _ => return None,
        };
        Some((specific, quality > 0))
    });
    ranges.max().is_some_and(|(_, liked)| liked)
}

/// Whether the client takes what answers a GraphQL request: true for `application/graphql-response+json`, false for JSON.
///
/// # Errors
/// 406 if it takes neither.
pub fn accepts_graphql(headers: &HeaderMap) -> Result<bool> {
    let mut ranges = members(headers, ACCEPT).map(with_quality);
    let is_named =
        |(name, quality): (&[u8], u16)| quality > 0 && name.eq_ignore_ascii_case(b"application/graphql-response+json");
    if ranges.any(is_named) { Ok(true) } else { accepts_json(headers).map(|()| false) }
}

/// Whether a body is JSON; a merge patch has a type of its own beside.
///
/// # Errors
/// 415 if it is not said to be, or if it is compressed.
pub fn speaks_json(headers: &HeaderMap, patch: bool) -> Result<()> {
    match patch {
        true => speaks(
            headers,
            &["application/json", "application/merge-patch+json"],
            "application/json or application/merge-patch+json",
        ),
        false => speaks(headers, &["application/json"], "application/json"),
    }
}

/// Whether a body is plain text.
///
/// # Errors
/// 415 if it is not said to be, or if it is compressed.
pub fn speaks_text(headers: &HeaderMap) -> Result<()> {
    speaks(headers, &["text/plain"], "text/plain")
}

fn speaks(headers: &HeaderMap, known: &[&str], supported: &'static str) -> Result<()> {
    let refused = || Failure::MediaType { supported };
    if headers.get(CONTENT_ENCODING).is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(refused());
    }
    // A body without a type could come from a page of another site, which needs no preflight for it.
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).ok_or_else(refused)?;
    if media_type == known[0].as_bytes() {
        return Ok(());
    }
    let mut parts = media_type.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let essence = parts.next().unwrap_or_default();
    let is_known = known.iter().any(|known| essence.eq_ignore_ascii_case(known.as_bytes()));
    let in_utf8 = parts.all(|parameter| {
        let parameter = parameter.to_ascii_lowercase();
        let charset = parameter.strip_prefix(b"charset=");
        charset.is_none_or(|charset| matches!(charset, b"utf-8" | b"\"utf-8\""))
    });
    if is_known && in_utf8 { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_validator_is_sixteen_digits() {
        let validator = Validator::new(0x0123_4567_89ab_cdef);
        assert_eq!(validator.header(), "\"0123456789abcdef\"");
        assert_eq!(checksum(validator.header().as_bytes()), Some(0x0123_4567_89ab_cdef));
    }

    #[test]
    fn if_none_match_knows_lists_stars_and_weak_tags() {
        let validator = Validator::new(1);
        let known = |value| validator.is_known(&headers(&[(IF_NONE_MATCH, value)]));
        for value in ["\"0000000000000001\"", "*", "W/\"0000000000000001\"", "\"x\" , \"0000000000000001\""] {
            assert!(known(value), "{value}");
        }
        for value in ["", "\"0000000000000002\"", "0000000000000001", "\"0000000000000001-x\""] {
            assert!(!known(value), "{value}");
        }
        assert!(!validator.is_known(&HeaderMap::new()));
    }

    #[test]
    fn preconditions() {
        let of = |pairs: &[(HeaderName, &'static str)]| expected(&headers(pairs));
        assert_eq!(of(&[]).unwrap(), Precondition::None);
        assert_eq!(of(&[(IF_MATCH, "*")]).unwrap(), Precondition::Exists);
        assert_eq!(of(&[(IF_NONE_MATCH, "*")]).unwrap(), Precondition::Absent);
        let two = of(&[(IF_MATCH, "\"000000000000000a\", \"000000000000000b-zstd\", W/\"000000000000000c\", x")]);
        assert_eq!(two.unwrap(), Precondition::OneOf(vec![10, 11]));
        assert!(of(&[(IF_NONE_MATCH, "\"000000000000000a\"")]).is_err());
        assert!(of(&[(IF_NONE_MATCH, "*"), (IF_MATCH, "*")]).is_err());
    }

    #[test]
    fn accept_is_decided_by_the_most_specific_range() {
        let accepts = |value| accepts_json(&headers(&[(ACCEPT, value)])).is_ok();
        for value in
            ["*/*", "text/html, application/*;q=0.1", "application/JSON; charset=utf-8", "*/*;q=0, application/json"]
        {
            assert!(accepts(value), "{value}");
        }
        for value in ["text/html", "application/json;q=0", "*/*, application/json;q=0.000", "application/problem+json"]
        {
            assert!(!accepts(value), "{value}");
        }
    }

    #[test]
    fn bodies_are_json_in_utf_8() {
        let speaks = |value, patch| speaks_json(&headers(&[(CONTENT_TYPE, value)]), patch).is_ok();
        assert!(speaks("application/json; charset=UTF-8", false));
        assert!(speaks("application/merge-patch+json", true) && !speaks("application/merge-patch+json", false));
        assert!(speaks_text(&headers(&[(CONTENT_TYPE, "Text/Plain; charset=utf-8")])).is_ok());
        assert!(speaks_text(&headers(&[(CONTENT_TYPE, "application/json")])).is_err());
        assert!(!speaks("text/plain", false) && !speaks("application/json; charset=latin1", false));
        assert!(speaks_json(&HeaderMap::new(), false).is_err(), "a page of another site could send it unasked");
        let json = (CONTENT_TYPE, "application/json");
        assert!(speaks_json(&headers(&[json, (CONTENT_ENCODING, "gzip")]), false).is_err());
    }
}
