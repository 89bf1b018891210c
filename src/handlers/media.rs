//! Media types: content negotiation, the syntax of bodies, and conversion from and to JSON.
//!
//! JSON is the internal form of records, lists and responses: the stored text is sent unchanged, and clients that request nothing else pay
//! nothing. Other types are converted from that text after the handlers, and to it before them, so the handlers need not know them.
//! Nothing below `handlers` interprets media types or content codings.
//!
//! `binary` has CBOR and MessagePack, `integers` JSON for clients that lose digits, `list` the framing of lists.

mod binary;
mod integers;
mod list;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderMap, HeaderValue};

use super::coding::AcceptedCoding;
use super::fields::{has_members, members, single, with_quality};
use super::headers::Validator;
use super::problem::{Failure, Result};
use super::response::{JSON, Response};
use crate::schema::{Schema, Table};
pub use list::ListWriter;

/// A representation of records and lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    #[default]
    Json,
    /// `application/json;ints=text`: Int attributes as strings of digits, for clients that read numbers as doubles.
    JsonIntsAsText,
    /// `application/cbor` (RFC 8949)
    Cbor,
    /// `application/msgpack`
    MessagePack,
    /// `application/x-ndjson`: one JSON text per line; lists only.
    Lines,
    /// `application/x-ndjson;ints=text`
    LinesIntsAsText,
    /// `text/csv` (RFC 4180); lists only.
    Csv,
}

/// The kind of content of a response, which determines the available formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// A record, or another document.
    One,
    /// The records of a query.
    List,
    /// JSON only.
    Json,
}

impl ResponseKind {
    /// Returns the available formats; among those of equal quality, the first is preferred.
    pub fn formats(self) -> &'static [Format] {
        const ALL: [Format; 7] = [
            Format::Json,
            Format::JsonIntsAsText,
            Format::Cbor,
            Format::MessagePack,
            Format::Lines,
            Format::LinesIntsAsText,
            Format::Csv,
        ];
        match self {
            Self::One => &ALL[..4],
            Self::List => &ALL,
            Self::Json => &ALL[..1],
        }
    }
}

/// The negotiated representation, determined before the request is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// The content coding.
    pub coded: AcceptedCoding,
}

impl Accepted {
    /// Negotiates by the headers of a request.
    ///
    /// # Errors
    /// 406 if no available representation is acceptable.
    pub fn negotiate(headers: &HeaderMap, kind: ResponseKind) -> Result<Self> {
        Ok(Self { format: Format::accepted(headers, kind)?, coded: AcceptedCoding::accepted(headers)? })
    }
}

impl Format {
    /// Returns the preferred format; the first among equals.
    fn accepted(headers: &HeaderMap, kind: ResponseKind) -> Result<Self> {
        let Some(first) = headers.get(ACCEPT) else { return Ok(Self::Json) };
        if matches!(first.as_bytes(), b"*/*" | b"application/json") {
            return Ok(Self::Json);
        }
        // No other format can be preferred to it.
        if Self::Json.quality(headers) == MOST || !has_members(headers, ACCEPT) {
            return Ok(Self::Json);
        }
        let refused = match kind {
            ResponseKind::One => FORMATS_OF_ONE,
            ResponseKind::List => FORMATS_OF_LISTS,
            ResponseKind::Json => "application/json",
        };
        let qualities = kind.formats().iter().rev().map(|format| (format.quality(headers), *format));
        match qualities.max_by_key(|(quality, _)| *quality) {
            Some((1.., format)) => Ok(format),
            _ => Err(Failure::NotAcceptable { available: refused }),
        }
    }

    /// Returns the same for a response that turns out not to be a list.
    ///
    /// # Errors
    /// 406 if the format is for lists only.
    pub fn of_one(self) -> Result<Self> {
        match self {
            Self::Lines | Self::LinesIntsAsText | Self::Csv => {
                Err(Failure::NotAcceptable { available: FORMATS_OF_ONE })
            }
            other => Ok(other),
        }
    }

    /// Returns the quality of the format in thousandths.
    fn quality(self, headers: &HeaderMap) -> u16 {
        quality(headers, self.names(), self.has_ints_as_text())
    }

    /// Returns the names of its media type; the first is used in responses.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Json | Self::JsonIntsAsText => &["application/json"],
            Self::Cbor => &["application/cbor"],
            Self::MessagePack => &MESSAGE_PACK,
            Self::Lines | Self::LinesIntsAsText => &["application/x-ndjson"],
            Self::Csv => &["text/csv"],
        }
    }

    /// Returns the value of `Content-Type`.
    pub fn media_type(self) -> HeaderValue {
        match self {
            Self::Json => JSON,
            Self::JsonIntsAsText => HeaderValue::from_static("application/json;ints=text"),
            Self::LinesIntsAsText => HeaderValue::from_static("application/x-ndjson;ints=text"),
            Self::Csv => HeaderValue::from_static("text/csv; charset=utf-8"),
            other => HeaderValue::from_static(other.names()[0]),
        }
    }

    /// Returns whether a list in it is unlimited by default.
    pub fn is_lines(self) -> bool {
        matches!(self, Self::Lines | Self::LinesIntsAsText)
    }

    fn has_ints_as_text(self) -> bool {
        matches!(self, Self::JsonIntsAsText | Self::LinesIntsAsText)
    }

    /// Returns the validator of a record in this format.
    pub fn validator(self, of_json: Validator) -> Validator {
        match self {
            Self::JsonIntsAsText => of_json.with("ints"),
            Self::Cbor => of_json.with("cbor"),
            Self::MessagePack => of_json.with("msgpack"),
            // The others are for lists, which have no validator.
            Self::Json | Self::Lines | Self::LinesIntsAsText | Self::Csv => of_json,
        }
    }

    /// Converts the JSON text of one or several records of a table.
    ///
    /// # Errors
    /// `Corrupt` if it is not valid JSON.
    pub fn of_records(self, schema: &Schema, table: &Table, json: &[u8]) -> crate::error::Result<Vec<u8>> {
        match self.has_ints_as_text() {
            true => {
                let mut out = Vec::with_capacity(json.len() + 32);
                integers::write_as_text(schema, table, json, &mut out)?;
                Ok(out)
            }
            false => self.of_document(json),
        }
    }

    /// Converts any other JSON text.
    ///
    /// # Errors
    /// As [`Format::of_records`].
    pub fn of_document(self, json: &[u8]) -> crate::error::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(json.len());
        self.write_document(json, &mut out)?;
        Ok(out)
    }

    fn write_document(self, json: &[u8], out: &mut Vec<u8>) -> crate::error::Result<()> {
        match self {
            Self::Cbor => binary::write_cbor(json, out),
            Self::MessagePack => binary::write_message_pack(json, out),
            Self::Json | Self::JsonIntsAsText | Self::Lines | Self::LinesIntsAsText | Self::Csv => {
                out.extend_from_slice(json);
                Ok(())
            }
        }
    }

    /// Converts a JSON response into this format; leaves any other unchanged. `table`: the schema and table of its records, if any.
    ///
    /// # Errors
    /// As [`Format::of_records`].
    pub fn convert(self, response: Response, table: Option<(&Schema, &Table)>) -> Result<Response> {
        if self == Self::Json || response.headers().get(CONTENT_TYPE) != Some(&JSON) {
            return Ok(response);
        }
        let (mut head, body) = response.into_parts();
        let body = match table {
            Some((schema, table)) => self.of_records(schema, table, &body)?,
            None => self.of_document(&body)?,
        };
        self.set_headers(&mut head.headers);
        if let Some(validator) = head.headers.get(ETAG).map(Validator::of_header) {
            head.headers.insert(ETAG, self.validator(validator).header());
        }
        Ok(Response::from_parts(head, Bytes::from(body)))
    }

    /// Sets the headers of a response for this format.
    pub fn set_headers(self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, self.media_type());
        self.vary(headers);
    }

    /// Adds `Vary` to the headers of a response, unless it has the default format. The default needs none: its freshness lifetime is
    /// unspecified, so a cache revalidates it, and the validators differ.
    pub fn vary(self, headers: &mut HeaderMap) {
        if self != Self::Json {
            headers.append(VARY, HeaderValue::from_static("accept"));
        }
    }
}

/// Returns the quality of a media type in `Accept`, in thousandths: the most specific matching range takes precedence (RFC 9110, section
/// 12.5.1).
pub(super) fn quality(headers: &HeaderMap, names: &[&str], has_ints_as_text: bool) -> u16 {
    let kind = names[0].split('/').next().unwrap_or_default();
    let ranges = members(headers, ACCEPT).filter_map(|range| {
        let range = Range::of(range);
        let is_of_kind = |of: &[u8]| of.eq_ignore_ascii_case(kind.as_bytes());
        let specific = match (has_ints_as_text, range.ints) {
            (true, Some(b"text")) | (false, None | Some(b"number")) if range.is_one_of(names) => 2,
            (false, None) if range.name.strip_suffix(b"/*").is_some_and(is_of_kind) => 1,
            (false, None) if range.name == b"*/*" => 0,
            _ => return None,
        };
        Some((specific, range.quality))
    });
    ranges.max().map_or(0, |(_, quality)| quality)
}

/// Returns the accepted response to a GraphQL request: true for `application/graphql-response+json`, false for JSON.
///
/// # Errors
/// 406 if neither is acceptable.
pub fn accepts_graphql(headers: &HeaderMap) -> Result<bool> {
    let is_named = |(name, quality): (&[u8], u16)| quality > 0 && name.eq_ignore_ascii_case(GRAPHQL_RESPONSE);
    match members(headers, ACCEPT).map(with_quality).any(is_named) {
        true => Ok(true),
        false if !has_members(headers, ACCEPT) || Format::Json.quality(headers) > 0 => Ok(false),
        false => Err(Failure::NotAcceptable { available: FORMATS_OF_GRAPHQL }),
    }
}

const GRAPHQL_RESPONSE: &[u8] = b"application/graphql-response+json";
const FORMATS_OF_GRAPHQL: &str = "this is available as application/graphql-response+json and application/json";

/// The highest quality, in thousandths.
const MOST: u16 = 1000;

const FORMATS_OF_ONE: &str =
    "this is available as application/json (also ;ints=text), application/cbor and application/msgpack";
const FORMATS_OF_LISTS: &str = "a list is available as application/json and application/x-ndjson (also ;ints=text), \
                             application/cbor, application/msgpack and text/csv";

/// The media types in use for MessagePack.
const MESSAGE_PACK: [&str; 3] = ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"];

/// A member of `Accept`.
struct Range<'h> {
    name: &'h [u8],
    /// Its `ints` parameter.
    ints: Option<&'h [u8]>,
    quality: u16,
}

impl<'h> Range<'h> {
    fn of(member: &'h [u8]) -> Self {
        let (name, quality) = with_quality(member);
        let parameters = member.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
        let ints = parameters
            .filter_map(|parameter| parameter.split_at_checked(5))
            .find(|(name, _)| name.eq_ignore_ascii_case(b"ints="));
        Self { name, ints: ints.map(|(_, value)| value), quality }
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The syntax of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// JSON, including merge patches.
    #[default]
    Json,
    /// CBOR
    Cbor,
    /// MessagePack
    MessagePack,
    /// One JSON text per line.
    Lines,
    /// Plain text.
    Text,
}

/// The format of a body according to its headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyFormat {
    /// Its syntax.
    pub syntax: Syntax,
    /// Whether it is compressed by gzip.
    pub gzip: bool,
}

/// The kinds of body that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Records, or another JSON document.
    Records,
    /// Records, also any number of them with one per line.
    RecordsOrLines,
    /// A merge patch.
    Patch,
    /// A query.
    Query,
    /// JSON only.
    Json,
}

/// The media types of a merge patch, as a list.
pub const PATCHES: &str = "application/json, application/merge-patch+json, application/cbor, application/msgpack, \
                           application/x-msgpack, application/vnd.msgpack";

impl Bodies {
    /// Returns the syntax of a body with this media type, if it is allowed.
    fn syntax(self, name: &[u8]) -> Option<Syntax> {
        let named = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match self {
            Self::Query => named("text/plain").then_some(Syntax::Text),
            _ if named("application/json") => Some(Syntax::Json),
            Self::Json => None,
            _ if named("application/cbor") => Some(Syntax::Cbor),
            _ if MESSAGE_PACK.into_iter().any(named) => Some(Syntax::MessagePack),
            Self::Patch => named("application/merge-patch+json").then_some(Syntax::Json),
            Self::RecordsOrLines => named("application/x-ndjson").then_some(Syntax::Lines),
            Self::Records => None,
        }
    }

    fn names(self) -> &'static str {
        match self {
            Self::Records => "application/json, application/cbor or application/msgpack, in UTF-8",
            Self::RecordsOrLines => {
                "application/json, application/x-ndjson, application/cbor or application/msgpack, in UTF-8"
            }
            Self::Patch => {
                "application/json, application/merge-patch+json, application/cbor or application/msgpack, in UTF-8"
            }
            Self::Query => "text/plain, in UTF-8",
            Self::Json => "application/json, in UTF-8",
        }
    }
}

impl BodyFormat {
    /// Determines the format by the headers of a request.
    ///
    /// # Errors
    /// 415 if the media type is not one of those, or if the body has a content coding other than gzip.
    pub fn from_headers(headers: &HeaderMap, bodies: Bodies) -> Result<Self> {
        let mut codings = members(headers, CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        let gzip = match (codings.next(), codings.next()) {
            (None, _) => false,
            (Some(coding), None)
                if [b"gzip".as_slice(), b"x-gzip"].iter().any(|name| coding.eq_ignore_ascii_case(name)) =>
            {
                true
            }
            _ => return Err(Failure::ContentCoding { supported: "gzip" }),
        };
        let refused = || Failure::media_type(headers, bodies.names(), (bodies == Bodies::Patch).then_some(PATCHES));
        // A body without a media type could come from a page of another site, which needs no preflight for it.
        let media_type = single(headers, CONTENT_TYPE).map(HeaderValue::as_bytes).ok_or_else(refused)?;
        if let Some(syntax) = bodies.syntax(media_type) {
            return Ok(Self { syntax, gzip });
        }
        let mut parts = media_type.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let essence = parts.next().unwrap_or_default();
        let syntax = bodies.syntax(essence);
        let in_utf8 = parts.all(|parameter| {
            let parameter = parameter.to_ascii_lowercase();
            let charset = parameter.strip_prefix(b"charset=");
            charset.is_none_or(|charset| matches!(charset, b"utf-8" | b"\"utf-8\""))
        });
        match syntax {
            Some(syntax) if in_utf8 => Ok(Self { syntax, gzip }),
            _ => Err(refused()),
        }
    }

    /// Converts a body to JSON text.
    ///
    /// # Errors
    /// 400 if it does not have the declared format, or contains something that JSON cannot represent.
    pub fn json(self, body: &[u8]) -> crate::error::Result<Cow<'_, [u8]>> {
        match self.syntax {
            Syntax::Json | Syntax::Lines | Syntax::Text => Ok(Cow::Borrowed(body)),
            Syntax::Cbor => binary::read_cbor(body).map(Cow::Owned),
            Syntax::MessagePack => binary::read_message_pack(body).map(Cow::Owned),
        }
    }

    /// Returns whether a body, if valid, is an array.
    pub fn is_array(self, body: &[u8]) -> bool {
        match self.syntax {
            Syntax::Json => body.trim_ascii_start().first() == Some(&b'['),
            Syntax::Cbor => matches!(body.first(), Some(0x80..=0x9f)),
            Syntax::MessagePack => matches!(body.first(), Some(0x90..=0x9f | 0xdc | 0xdd)),
            Syntax::Lines | Syntax::Text => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn accepted(value: &'static str, kind: ResponseKind) -> Option<Format> {
        Format::accepted(&headers(&[(ACCEPT, value)]), kind).ok()
    }

    #[test]
    fn a_patch_is_accepted_in_the_types_that_are_announced_and_in_no_other() {
        let known = [
            "application/json",
            "application/merge-patch+json",
            "application/cbor",
            "text/plain",
            "application/x-ndjson",
        ];
        for name in known.into_iter().chain(MESSAGE_PACK).chain(PATCHES.split(", ")) {
            let is_announced = PATCHES.split(", ").any(|patch| patch == name);
            assert_eq!(Bodies::Patch.syntax(name.as_bytes()).is_some(), is_announced, "{name}");
        }
    }

    #[test]
    fn accept_is_decided_by_the_most_specific_range() {
        for value in [
            "*/*",
            "text/html, application/*;q=0.1",
            "application/JSON; charset=utf-8",
            "*/*;q=0, application/json",
            "",
            " , ",
            "application/json;ints=number",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        ] {
            for kind in [ResponseKind::One, ResponseKind::List] {
                assert_eq!(accepted(value, kind), Some(Format::Json), "{value}");
            }
        }
        for value in [
            "text/html",
            "application/json;q=0",
            "application/json;ints=roman",
            "application/cbor;ints=text",
            "*/*;q=0.000",
            "application/problem+json",
        ] {
            assert_eq!(accepted(value, ResponseKind::List), None, "{value}");
        }
        assert_eq!(
            accepted("*/*, application/json;q=0.000", ResponseKind::One),
            Some(Format::Cbor),
            "anything but JSON"
        );
    }

    #[test]
    fn formats_by_name_and_quality() {
        for (value, one, list) in [
            ("application/cbor", Some(Format::Cbor), Some(Format::Cbor)),
            ("application/x-msgpack", Some(Format::MessagePack), Some(Format::MessagePack)),
            ("application/vnd.msgpack, */*;q=0.5", Some(Format::MessagePack), Some(Format::MessagePack)),
            ("application/cbor;q=0.4, application/json;q=0.3", Some(Format::Cbor), Some(Format::Cbor)),
            ("application/cbor, application/json", Some(Format::Json), Some(Format::Json)),
            ("application/json;ints=text", Some(Format::JsonIntsAsText), Some(Format::JsonIntsAsText)),
            (
                "application/json; INTS=text, application/json;q=0.9",
                Some(Format::JsonIntsAsText),
                Some(Format::JsonIntsAsText),
            ),
            ("application/x-ndjson", None, Some(Format::Lines)),
            ("application/x-ndjson;ints=text;q=0.1", None, Some(Format::LinesIntsAsText)),
            ("text/*, application/json;q=0.1", Some(Format::Json), Some(Format::Csv)),
            ("text/csv; header=present", None, Some(Format::Csv)),
        ] {
            assert_eq!(
                (accepted(value, ResponseKind::One), accepted(value, ResponseKind::List)),
                (one, list),
                "{value}"
            );
        }
    }

    #[test]
    fn bodies_are_known_by_their_types() {
        let body_format = |value, bodies| {
            BodyFormat::from_headers(&headers(&[(CONTENT_TYPE, value)]), bodies)
                .ok()
                .map(|body_format| body_format.syntax)
        };
        assert_eq!(body_format("application/json; charset=UTF-8", Bodies::Records), Some(Syntax::Json));
        assert_eq!(body_format("application/merge-patch+json", Bodies::Patch), Some(Syntax::Json));
        assert_eq!(body_format("application/merge-patch+json", Bodies::Records), None);
        assert_eq!(body_format("Text/Plain; charset=utf-8", Bodies::Query), Some(Syntax::Text));
        assert_eq!(body_format("application/json", Bodies::Query), None);
        assert_eq!(body_format("application/cbor", Bodies::Patch), Some(Syntax::Cbor));
        assert_eq!(body_format("application/VND.msgpack", Bodies::Records), Some(Syntax::MessagePack));
        assert_eq!(body_format("application/x-ndjson", Bodies::RecordsOrLines), Some(Syntax::Lines));
        assert_eq!(body_format("application/x-ndjson", Bodies::Records), None);
        assert_eq!(
            [
                body_format("text/plain", Bodies::Records),
                body_format("application/json; charset=latin1", Bodies::Records)
            ],
            [None; 2]
        );
        assert!(
            BodyFormat::from_headers(&HeaderMap::new(), Bodies::Records).is_err(),
            "a page of another site could send it unasked"
        );
    }

    #[test]
    fn bodies_are_compressed_by_gzip_or_not_at_all() {
        let json = (CONTENT_TYPE, "application/json");
        let gzip = |coding| {
            BodyFormat::from_headers(&headers(&[json.clone(), (CONTENT_ENCODING, coding)]), Bodies::Records)
                .ok()
                .map(|body_format| body_format.gzip)
        };
        assert_eq!([gzip("gzip"), gzip("X-GZIP"), gzip("identity, gzip")], [Some(true); 3]);
        assert_eq!([gzip("identity"), gzip("")], [Some(false); 2]);
        assert_eq!([gzip("br"), gzip("gzip, gzip")], [None; 2]);
        let lines = headers(&[json.clone(), (CONTENT_ENCODING, "gzip"), (CONTENT_ENCODING, "br")]);
        assert!(BodyFormat::from_headers(&lines, Bodies::Records).is_err(), "the lines of a field are one list");
    }

    #[test]
    fn lists_are_known_by_their_first_byte() {
        for (syntax, list, other) in [
            (Syntax::Json, &b" \n[{}]"[..], &b" {}"[..]),
            (Syntax::Cbor, b"\x81\xa0", b"\xa0"),
            (Syntax::MessagePack, b"\x91\x80", b"\x80"),
        ] {
            let is_array = |body| BodyFormat { syntax, gzip: false }.is_array(body);
            assert!(is_array(list) && !is_array(other) && !is_array(b""), "{syntax:?}");
        }
    }
}
