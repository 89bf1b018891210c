//! Media types: which one a client takes, which one a body is in, and the edge where JSON becomes others and they become JSON.
//!
//! JSON is the inner form of records, lists and answers: what is stored is handed on as it stands, and a client that asks for nothing
//! else pays for nothing here. Every other type is made of that text behind the handlers, and read into it before them, so no verb
//! knows of any. `binary` has CBOR and MessagePack, `integers` JSON for clients that lose digits, `list` what differs about lists.

mod binary;
mod integers;
mod list;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderMap, HeaderValue};

use super::coding::AcceptedCoding;
use super::fields::{has_members, members, with_quality};
use super::headers::Validator;
use super::{Answer, Failure, JSON, Result};
use crate::schema::{Schema, Table};
pub use list::ListWriter;

/// How records and lists are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    #[default]
    Json,
    /// `application/json;ints=text`: Int attributes are texts of their digits, for who reads numbers as doubles.
    JsonIntsAsText,
    /// `application/cbor` (RFC 8949)
    Cbor,
    /// `application/msgpack`
    MessagePack,
    /// `application/x-ndjson`: a JSON text a line; lists alone.
    Lines,
    /// `application/x-ndjson;ints=text`
    LinesIntsAsText,
    /// `text/csv` (RFC 4180); lists alone.
    Csv,
}

/// What an answer shows, by which formats it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A record, or what the server says of what it did.
    One,
    /// Records by a query.
    List,
}

impl Shown {
    /// The formats that it can have; of those with an equal `q`, the first.
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
        }
    }
}

/// What the client takes, settled before anything is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// In which format.
    pub format: Format,
    /// In which coding.
    pub coded: AcceptedCoding,
}

impl Accepted {
    /// By the headers of a request.
    ///
    /// # Errors
    /// 406 if nothing that is made here is taken.
    pub fn by(headers: &HeaderMap, shown: Shown) -> Result<Self> {
        Ok(Self { format: Format::accepted(headers, shown)?, coded: AcceptedCoding::accepted(headers)? })
    }
}

impl Format {
    /// The preferred format; among equals, the first here.
    fn accepted(headers: &HeaderMap, shown: Shown) -> Result<Self> {
        let Some(first) = headers.get(ACCEPT) else { return Ok(Self::Json) };
        if matches!(first.as_bytes(), b"*/*" | b"application/json") {
            return Ok(Self::Json);
        }
        // No other format can be preferred to it.
        if Self::Json.quality(headers) == MOST || !has_members(headers, ACCEPT) {
            return Ok(Self::Json);
        }
        let refused = match shown {
            Shown::One => MADE_OF_ONE,
            Shown::List => MADE_OF_LISTS,
        };
        let liked = shown.formats().iter().rev().map(|format| (format.quality(headers), *format));
        match liked.max_by_key(|(quality, _)| *quality) {
            Some((1.., format)) => Ok(format),
            _ => Err(Failure::NotAcceptable { made: refused }),
        }
    }

    /// The same for an answer that is no list after all.
    ///
    /// # Errors
    /// 406 if the format is of lists alone.
    pub fn of_one(self) -> Result<Self> {
        match self {
            Self::Lines | Self::LinesIntsAsText | Self::Csv => Err(Failure::NotAcceptable { made: MADE_OF_ONE }),
            other => Ok(other),
        }
    }

    /// The quality of the format, in thousandths.
    fn quality(self, headers: &HeaderMap) -> u16 {
        quality(headers, self.names(), self.has_ints_as_text())
    }

    /// The names of its type; the first is the one that is answered.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Json | Self::JsonIntsAsText => &["application/json"],
            Self::Cbor => &["application/cbor"],
            Self::MessagePack => &MESSAGE_PACK,
            Self::Lines | Self::LinesIntsAsText => &["application/x-ndjson"],
            Self::Csv => &["text/csv"],
        }
    }

    /// As `Content-Type` has it.
    pub fn media_type(self) -> HeaderValue {
        match self {
            Self::Json => JSON,
            Self::JsonIntsAsText => HeaderValue::from_static("application/json;ints=text"),
            Self::LinesIntsAsText => HeaderValue::from_static("application/x-ndjson;ints=text"),
            Self::Csv => HeaderValue::from_static("text/csv; charset=utf-8"),
            other => HeaderValue::from_static(other.names()[0]),
        }
    }

    /// Whether a list in it has no end by itself: without a limit it has all records.
    pub fn is_lines(self) -> bool {
        matches!(self, Self::Lines | Self::LinesIntsAsText)
    }

    fn has_ints_as_text(self) -> bool {
        matches!(self, Self::JsonIntsAsText | Self::LinesIntsAsText)
    }

    /// The validator of a record in it.
    pub fn validator(self, of_json: Validator) -> Validator {
        match self {
            Self::JsonIntsAsText => of_json.with("ints"),
            Self::Cbor => of_json.with("cbor"),
            Self::MessagePack => of_json.with("msgpack"),
            // The others are of lists, which have none.
            Self::Json | Self::Lines | Self::LinesIntsAsText | Self::Csv => of_json,
        }
    }

    /// The JSON text of records of a table, or of one, in it.
    ///
    /// # Errors
    /// `Corrupt` if it is no JSON text.
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

    /// Any other JSON text in it.
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

    /// An answer in JSON, in this format instead; any other is left. `table`: of which it shows records, if it does, in its schema.
    ///
    /// # Errors
    /// As [`Format::of_records`].
    pub fn convert(self, answer: Answer, table: Option<(&Schema, &Table)>) -> Result<Answer> {
        if self == Self::Json || answer.headers().get(CONTENT_TYPE) != Some(&JSON) {
            return Ok(answer);
        }
        let (mut head, body) = answer.into_parts();
        let body = match table {
            Some((schema, table)) => self.of_records(schema, table, &body)?,
            None => self.of_document(&body)?,
        };
        self.say(&mut head.headers);
        if let Some(validator) = head.headers.get(ETAG).map(Validator::of_header) {
            head.headers.insert(ETAG, self.validator(validator).header());
        }
        Ok(Answer::from_parts(head, Bytes::from(body)))
    }

    /// Says in the headers of an answer that its body is in this format.
    pub fn say(self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, self.media_type());
        self.vary(headers);
    }

    /// Says in the headers of an answer that it depends on what was asked for, if somebody who asks for nothing gets another one. That one
    /// need not say so: nothing tells how long it is fresh, so a cache asks again, and the validators differ.
    pub fn vary(self, headers: &mut HeaderMap) {
        if self != Self::Json {
            headers.append(VARY, HeaderValue::from_static("accept"));
        }
    }
}

/// The quality that `Accept` gives a media type, in thousandths: the most specific range that names it decides (RFC
/// 9110, 12.5.1).
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

/// Whether the client takes what answers a GraphQL request: true for `application/graphql-response+json`, false for JSON.
///
/// # Errors
/// 406 if it takes neither.
pub fn accepts_graphql(headers: &HeaderMap) -> Result<bool> {
    let is_named = |(name, quality): (&[u8], u16)| quality > 0 && name.eq_ignore_ascii_case(GRAPHQL_RESPONSE);
    match members(headers, ACCEPT).map(with_quality).any(is_named) {
        true => Ok(true),
        false if !has_members(headers, ACCEPT) || Format::Json.quality(headers) > 0 => Ok(false),
        false => Err(Failure::NotAcceptable { made: MADE_OF_GRAPHQL }),
    }
}

const GRAPHQL_RESPONSE: &[u8] = b"application/graphql-response+json";
const MADE_OF_GRAPHQL: &str = "this is available as application/graphql-response+json and application/json";

/// The highest quality, in thousandths.
const MOST: u16 = 1000;

const MADE_OF_ONE: &str =
    "this is available as application/json (also ;ints=text), application/cbor and application/msgpack";
const MADE_OF_LISTS: &str = "a list is available as application/json and application/x-ndjson (also ;ints=text), \
                             application/cbor, application/msgpack and text/csv";

/// The names that MessagePack goes by.
const MESSAGE_PACK: [&str; 3] = ["application/msgpack", "application/x-msgpack", "application/vnd.msgpack"];

/// A member of `Accept`.
struct Range<'h> {
    name: &'h [u8],
    /// Its parameter `ints`.
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

/// What a body is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// JSON, a merge patch too.
    #[default]
    Json,
    /// CBOR
    Cbor,
    /// MessagePack
    MessagePack,
    /// A JSON text a line.
    Lines,
    /// Plain text.
    Text,
}

/// What a body is, by what is said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyFormat {
    /// What it is written in.
    pub syntax: Syntax,
    /// Whether it is compressed, by gzip.
    pub gzip: bool,
}

/// The bodies that a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Records, or what else JSON says.
    Records,
    /// Records, also any number of them, one a line.
    RecordsOrLines,
    /// A merge patch.
    Patch,
    /// A query.
    Query,
    /// JSON alone.
    Json,
}

impl Bodies {
    /// What a body of this type is written in, if it may be.
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
    /// By the headers of a request.
    ///
    /// # Errors
    /// 415 if the body is not said to be one of those, or is compressed by anything but gzip.
    pub fn by(headers: &HeaderMap, bodies: Bodies) -> Result<Self> {
        let mut codings = members(headers, CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
        let gzip = match (codings.next(), codings.next()) {
            (None, _) => false,
            (Some(coding), None)
                if [b"gzip".as_slice(), b"x-gzip"].iter().any(|name| coding.eq_ignore_ascii_case(name)) =>
            {
                true
            }
            _ => return Err(Failure::ContentCoding),
        };
        let refused = || Failure::MediaType { supported: bodies.names() };
        // A body without a type could come from a page of another site, which needs no preflight for it.
        let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).ok_or_else(refused)?;
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

    /// A body as JSON text.
    ///
    /// # Errors
    /// 400 if it is not what it is said to be, or has what JSON has not.
    pub fn json(self, body: &[u8]) -> crate::error::Result<Cow<'_, [u8]>> {
        match self.syntax {
            Syntax::Json | Syntax::Lines | Syntax::Text => Ok(Cow::Borrowed(body)),
            Syntax::Cbor => binary::read_cbor(body).map(Cow::Owned),
            Syntax::MessagePack => binary::read_message_pack(body).map(Cow::Owned),
        }
    }

    /// Whether a body is a list, if it is anything.
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

    fn accepted(value: &'static str, shown: Shown) -> Option<Format> {
        Format::accepted(&headers(&[(ACCEPT, value)]), shown).ok()
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
            for shown in [Shown::One, Shown::List] {
                assert_eq!(accepted(value, shown), Some(Format::Json), "{value}");
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
            assert_eq!(accepted(value, Shown::List), None, "{value}");
        }
        assert_eq!(accepted("*/*, application/json;q=0.000", Shown::One), Some(Format::Cbor), "anything but JSON");
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
            assert_eq!((accepted(value, Shown::One), accepted(value, Shown::List)), (one, list), "{value}");
        }
    }

    #[test]
    fn bodies_are_known_by_their_types() {
        let body_format = |value, bodies| {
            BodyFormat::by(&headers(&[(CONTENT_TYPE, value)]), bodies).ok().map(|body_format| body_format.syntax)
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
            BodyFormat::by(&HeaderMap::new(), Bodies::Records).is_err(),
            "a page of another site could send it unasked"
        );
    }

    #[test]
    fn bodies_are_compressed_by_gzip_or_not_at_all() {
        let json = (CONTENT_TYPE, "application/json");
        let gzip = |coding| {
            BodyFormat::by(&headers(&[json.clone(), (CONTENT_ENCODING, coding)]), Bodies::Records)
                .ok()
                .map(|body_format| body_format.gzip)
        };
        assert_eq!([gzip("gzip"), gzip("X-GZIP"), gzip("identity, gzip")], [Some(true); 3]);
        assert_eq!([gzip("identity"), gzip("")], [Some(false); 2]);
        assert_eq!([gzip("br"), gzip("gzip, gzip")], [None; 2]);
        let lines = headers(&[json.clone(), (CONTENT_ENCODING, "gzip"), (CONTENT_ENCODING, "br")]);
        assert!(BodyFormat::by(&lines, Bodies::Records).is_err(), "the lines of a field are one list");
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
