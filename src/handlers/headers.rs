//! Conditional requests and preferences: validators and preconditions (RFC 9110, sections 8.8.3 and 13), `Prefer` (RFC 7240); and the
//! responses that have a validator.
//!
//! The common cases (no header, or one tag of ours) are decided by comparing bytes, without allocation.

use bytes::Bytes;
use http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use smallvec::{SmallVec, smallvec};
use twox_hash::XxHash3_64;

use super::fields::{members, names_tag_weakly};
use super::problem::Result;
use super::response::{JSON, Response, empty, minimal, with_body};
use crate::encoding::Record;
use crate::error::Error;
use crate::transaction::{Owned, Precondition};

/// The `Prefer` header.
pub(super) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The strong validator of a representation, in quotation marks: the checksum of the record as 16 hexadecimal digits; unless it is the
/// whole record as JSON, followed by `-` and 16 digits for the selection, and `-` and a name for the media type and the content coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validator(SmallVec<[u8; 24]>);

impl Validator {
    /// Returns the validator of a stored record as JSON.
    pub fn of<B: AsRef<[u8]>>(record: &Record<'_, B>) -> Self {
        Self::new(record.checksum())
    }

    /// Returns the validator of a blob with this tag.
    pub fn of_blob(tag: u64) -> Self {
        Self::new(tag)
    }

    /// Returns the validator of a consumer group with this checksum.
    pub fn of_group(checksum: u64) -> Self {
        Self::new(checksum)
    }

    /// Returns the validator of a text that is not a record.
    pub fn of_text(text: &[u8]) -> Self {
        Self::new(XxHash3_64::oneshot(text))
    }

    fn new(checksum: u64) -> Self {
        let mut text = smallvec![b'"'; 18];
        write_digits(checksum, &mut text[1..17]);
        Self(text)
    }

    /// Returns the validator of a selection of the record; `named_by` identifies the selection.
    pub fn of_selection(self, named_by: &[u8]) -> Self {
        let mut digits = [0; 16];
        write_digits(XxHash3_64::oneshot(named_by), &mut digits);
        self.with(std::str::from_utf8(&digits).expect("hexadecimal digits"))
    }

    /// Converts the value of an `ETag` header.
    pub fn of_header(value: &HeaderValue) -> Self {
        Self(SmallVec::from_slice(value.as_bytes()))
    }

    /// Returns the validator of the same in another media type or content coding.
    pub fn with(mut self, name: &str) -> Self {
        self.0.pop();
        self.0.push(b'-');
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'"');
        self
    }

    /// Returns the value of the `ETag` header.
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("digits and quotation marks")
    }

    /// Returns the text between the quotation marks.
    pub fn text(&self) -> &[u8] {
        &self.0[1..self.0.len() - 1]
    }

    /// Returns whether `If-None-Match` contains it, so the client already has the representation. Uses weak comparison: `W/` is ignored.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(first) = headers.get(IF_NONE_MATCH) else {
            return false;
        };
        first.as_bytes() == self.0.as_slice() || names_tag_weakly(headers, IF_NONE_MATCH, &self.0)
    }
}

/// Returns whether `If-Match` excludes the record with this validator.
pub fn is_stale(headers: &HeaderMap, validator: &Validator) -> bool {
    headers.contains_key(IF_MATCH)
        && match matching(members(headers, IF_MATCH)) {
            Precondition::OneOf(versions) => !checksum(&validator.0).is_some_and(|version| versions.contains(&version)),
            _ => false,
        }
}

fn write_digits(number: u64, text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (position, digit) in text.iter_mut().enumerate() {
        *digit = DIGITS[(number >> (60 - 4 * position)) as usize & 0xF];
    }
}

/// Returns the precondition of a write. Only the part of a tag before the first `-` is compared; the rest identifies a representation.
///
/// # Errors
/// 400 for preconditions that cannot be honoured, since they must not be ignored.
pub fn expected(headers: &HeaderMap) -> Result<Precondition> {
    let (if_match, if_none_match) = (headers.contains_key(IF_MATCH), headers.contains_key(IF_NONE_MATCH));
    match (if_match, if_none_match) {
        (false, false) => Ok(Precondition::None),
        (true, true) => Err(Error::invalid("If-Match and If-None-Match together are not supported").into()),
        (false, true) if members(headers, IF_NONE_MATCH).eq([b"*"]) => Ok(Precondition::Absent),
        (false, true) => {
            Err(Error::invalid("a write supports only If-None-Match: *, which creates and never replaces").into())
        }
        (true, false) => Ok(matching(members(headers, IF_MATCH))),
    }
}

/// Rejects preconditions on what has no version to compare: lists, feeds, GraphQL, and most of what is beside the tables. A tag in
/// `If-None-Match` is the copy of a client, not a precondition, and matches nothing there.
///
/// # Errors
/// 400 for `If-Match` and `If-None-Match: *`, since they must not be ignored.
pub fn unconditional(headers: &HeaderMap) -> Result<()> {
    match headers.contains_key(IF_MATCH) || members(headers, IF_NONE_MATCH).any(|member| member == b"*") {
        true => Err(Error::invalid(
            "If-Match and If-None-Match: * apply to one record, blob or file, and this resource has no version",
        )
        .into()),
        false => Ok(()),
    }
}

/// Returns the precondition given by a list of tags, which may include `*`. Foreign and weak tags match nothing.
pub fn matching<'h>(tags: impl Iterator<Item = &'h [u8]>) -> Precondition {
    let mut checksums = Vec::new();
    for tag in tags {
        if tag == b"*" {
            return Precondition::Exists;
        }
        checksums.extend(checksum(tag));
    }
    Precondition::OneOf(checksums)
}

fn checksum(tag: &[u8]) -> Option<u64> {
    let inner = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let digits = inner.split(|byte| *byte == b'-').next()?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 16)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Returns whether a write should answer without the record: `Prefer: return=minimal` (RFC 7240, 4.2). The first `return` counts.
pub fn prefers_minimal(headers: &HeaderMap) -> bool {
    if !headers.contains_key(PREFER) {
        return false;
    }
    let wanted = members(headers, PREFER).find_map(|preference| {
        let preference = preference.split(|byte| *byte == b';').next().unwrap_or_default();
        let mut parts = preference.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        parts.next().filter(|name| name.eq_ignore_ascii_case(b"return")).and_then(|_| parts.next())
    });
    wanted.is_some_and(|wanted| matches!(wanted, b"minimal" | b"\"minimal\""))
}

/// Rejects preconditions on requests that may concern many records.
///
/// # Errors
/// 400 if there is one.
pub fn of_one_record(headers: &HeaderMap) -> Result<()> {
    match expected(headers)? {
        Precondition::None => Ok(()),
        _ => Err(Error::invalid("a precondition applies to one record, and this request may change several").into()),
    }
}

/// Returns a response with a record and its `ETag`.
pub fn with_record(status: StatusCode, validator: &Validator, json: Bytes) -> Response {
    let mut response = with_body(status, JSON, json);
    response.headers_mut().insert(ETAG, validator.header());
    response
}

/// Returns 304, for a representation that the client already has.
pub fn not_modified(validator: &Validator) -> Response {
    let mut response = empty(StatusCode::NOT_MODIFIED);
    response.headers_mut().insert(ETAG, validator.header());
    response
}

/// Returns the response to a write, with the resulting record unless the client prefers a minimal one.
pub(super) fn written(status: StatusCode, record: Owned<'_>, headers: &HeaderMap) -> Response {
    let validator = Validator::of(&record);
    if prefers_minimal(headers) {
        let mut response = minimal(status);
        response.headers_mut().insert(ETAG, validator.header());
        return response;
    }
    with_record(status, &validator, record.into_json())
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
    fn a_reader_names_the_version_that_it_wants() {
        let stale = |value| is_stale(&headers(&[(IF_MATCH, value)]), &Validator::new(10).with("cbor"));
        assert!(
            ["*", "\"000000000000000a\"", "\"1\", \"000000000000000a-gzip\""].into_iter().all(|value| !stale(value))
        );
        assert!(["\"000000000000000b\"", "W/\"000000000000000a\"", ""].into_iter().all(stale));
        assert!(!is_stale(&HeaderMap::new(), &Validator::new(10)));
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
    fn what_has_no_version_takes_no_precondition() {
        let is_taken = |name, value| unconditional(&headers(&[(name, value)])).is_ok();
        for (name, value) in [(IF_MATCH, "*"), (IF_MATCH, "\"1\""), (IF_MATCH, ""), (IF_NONE_MATCH, "\"1\", *")] {
            assert!(!is_taken(name, value), "{value}");
        }
        assert!(is_taken(IF_NONE_MATCH, "\"1\", W/\"2\"") && is_taken(http::header::IF_UNMODIFIED_SINCE, "x"));
    }

    #[test]
    fn a_representation_has_a_validator_of_its_own_under_the_same_checksum() {
        assert_eq!(Validator::new(1).with("cbor").with("br").header(), "\"0000000000000001-cbor-br\"");
        let selected = |query: &str| Validator::new(1).of_selection(query.as_bytes());
        assert_eq!((selected("select=a").0.len(), selected("select=a") == selected("select=b")), (35, false));
        assert_eq!(checksum(selected("select=a").with("cbor").header().as_bytes()), Some(1));
        assert_eq!(Validator::of_header(&selected("select=a").header()), selected("select=a"));
    }

    #[test]
    fn little_is_sent_back_to_who_prefers_it() {
        let minimal = |value| prefers_minimal(&headers(&[(PREFER, value)]));
        for value in [
            "return=minimal",
            "Return = minimal",
            "respond-async, return=\"minimal\"; x=1",
            "return=minimal, return=representation",
        ] {
            assert!(minimal(value), "{value}");
        }
        for value in ["return=representation", "minimal", "return", "return=representation, return=minimal", ""] {
            assert!(!minimal(value), "{value}");
        }
        assert!(!prefers_minimal(&HeaderMap::new()));
    }
}
