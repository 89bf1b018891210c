//! Conversion between JSON text and CBOR (RFC 8949) or MessagePack.
//!
//! Both directions use serde without building a tree of values: text is serialised while it is read from left to right, and deserialised
//! values are appended to text. Memory is thus linear in the length of the body, whatever it contains.
//!
//! Numbers: one without fraction and exponent that fits into 64 bits is an integer, any other the nearest double, as in JSON parsers; one
//! beyond the range of doubles (only in `Any`) becomes a string of its digits. A whole Float of the schema is an integer, because its JSON
//! text is (`25`). Dates are strings. A lone surrogate, which JSON can escape but no UTF-8 text can contain, becomes U+FFFD.
//!
//! Input that JSON cannot represent is rejected: byte strings, NaN, tags and extensions except the tag of a date string (0), and names that
//! are not strings.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::encoding::json::{COLON, DEPTH, Fault, Item, Reader};
use crate::error::{Error, Result};

/// The maximum nesting depth of a body: enough for a list of records with `Any` values, and to reject deeper ones by position.
const BODY_DEPTH: usize = DEPTH as usize + 8;

/// Appends JSON text as CBOR.
///
/// # Errors
/// `Corrupt` if it is not valid JSON.
pub(super) fn write_cbor(json: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let source = Source::of(json)?;
    ciborium::into_writer(&Value(&source), out).map_err(|error| not_json(&error))
}

/// Appends JSON text as MessagePack.
///
/// # Errors
/// `Corrupt` if it is not valid JSON.
pub(super) fn write_message_pack(json: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let source = Source::of(json)?;
    rmp_serde::encode::write(out, &Value(&source)).map_err(|error| not_json(&error))
}

/// Returns the JSON text of a CBOR body.
///
/// # Errors
/// `Invalid` if it is not valid CBOR, or contains something that JSON cannot represent.
pub(super) fn read_cbor(body: &[u8]) -> Result<Vec<u8>> {
    let mut rest = body;
    let read = ciborium::de::from_reader_with_recursion_limit::<Text, _>(&mut rest, BODY_DEPTH);
    let at = body.len() - rest.len();
    let text = read.map_err(|error| match error {
        ciborium::de::Error::Semantic(_, detail) => refused("CBOR", at, &detail),
        ciborium::de::Error::RecursionLimitExceeded => refused("CBOR", at, "nested too deep"),
        ciborium::de::Error::Syntax(_) => refused("CBOR", at, "malformed"),
        ciborium::de::Error::Io(_) => refused("CBOR", at, "unexpected end"),
    })?;
    whole("CBOR", text, at, rest)
}

/// Returns the JSON text of a MessagePack body.
///
/// # Errors
/// `Invalid` if it is not valid MessagePack, or contains something that JSON cannot represent.
pub(super) fn read_message_pack(body: &[u8]) -> Result<Vec<u8>> {
    let mut rest = body;
    let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
    deserializer.set_max_depth(BODY_DEPTH);
    let read = <Text as de::Deserialize>::deserialize(&mut deserializer);
    drop(deserializer);
    let at = body.len() - rest.len();
    let text = read.map_err(|error| match error {
        rmp_serde::decode::Error::DepthLimitExceeded => refused("MessagePack", at, "nested too deep"),
        rmp_serde::decode::Error::InvalidMarkerRead(_)
        | rmp_serde::decode::Error::InvalidDataRead(_)
        | rmp_serde::decode::Error::LengthMismatch(_) => refused("MessagePack", at, "unexpected end"),
        other => refused("MessagePack", at, &other.to_string()),
    })?;
    whole("MessagePack", text, at, rest)
}

fn whole(format: &str, text: Text, at: usize, rest: &[u8]) -> Result<Vec<u8>> {
    match rest.is_empty() {
        true => Ok(text.0),
        false => Err(refused(format, at, "unexpected data after the value")),
    }
}

fn refused(format: &str, at: usize, detail: &str) -> Error {
    Error::invalid_at("", format!("the {format} body is invalid: {detail} (before byte {at})"))
}

fn not_json(error: &impl fmt::Display) -> Error {
    Error::corrupt(format!("invalid stored JSON: {error}"))
}

/// A JSON text being serialised.
struct Source<'a> {
    text: &'a str,
    reader: Reader<'a>,
    /// The remaining lengths of the brackets: numbers of elements or members, in the order in which they open.
    lengths: std::vec::IntoIter<usize>,
}

/// The next token.
enum Next<'a> {
    Scalar(Item<'a>),
    /// A number beyond the range of doubles, by its digits.
    Beyond(&'a str),
    /// A list with this many elements.
    List(usize),
    /// An object with this many members.
    Object(usize),
}

impl<'a> Source<'a> {
    fn of(json: &'a [u8]) -> Result<RefCell<Self>> {
        let text = std::str::from_utf8(json).map_err(|error| not_json(&error))?;
        Ok(RefCell::new(Self { text, reader: Reader::new(text), lengths: lengths(text).into_iter() }))
    }

    fn next(&mut self) -> std::result::Result<Next<'a>, Fault> {
        let length = |lengths: &mut std::vec::IntoIter<usize>| lengths.next().unwrap_or_default();
        Ok(match self.reader.peek() {
            Some(b'"') => Next::Scalar(Item::Text(text_of(self.reader.value_text()?))),
            Some(b'[') => {
                self.reader.take(b'[', "")?;
                Next::List(length(&mut self.lengths))
            }
            Some(b'{') => {
                self.reader.take(b'{', "")?;
                Next::Object(length(&mut self.lengths))
            }
            _ => {
                let start = self.reader.at();
                match self.reader.item()? {
                    Item::Beyond => Next::Beyond(&self.text[start..self.reader.at()]),
                    item => Next::Scalar(item),
                }
            }
        })
    }

    /// Returns the name of the next member, if there is one.
    fn name(&mut self, first: bool) -> std::result::Result<Option<Cow<'a, str>>, Fault> {
        if !self.reader.next_member(first)? {
            return Ok(None);
        }
        let name = text_of(self.reader.value_text()?);
        self.reader.take(b':', COLON)?;
        Ok(Some(name))
    }
}

/// Returns the number of elements or members of each bracket of a JSON text, in opening order: both formats write it first.
fn lengths(text: &str) -> Vec<usize> {
    let (mut all, mut open, mut in_text, mut escaped) = (Vec::new(), Vec::new(), false, false);
    // Whether the innermost bracket has any content yet.
    let mut holds = false;
    for byte in text.bytes() {
        match byte {
            _ if in_text => {
                in_text = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            }
            b'[' | b'{' => {
                open.push(all.len());
                all.push(0);
                holds = false;
            }
            b']' | b'}' => {
                if let Some(bracket) = open.pop() {
                    all[bracket] += usize::from(holds);
                }
                holds = true;
            }
            b',' => {
                if let Some(bracket) = open.last() {
                    all[*bracket] += 1;
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => {
                in_text = byte == b'"';
                holds = true;
            }
        }
    }
    all
}

/// Unescapes a quoted JSON string; a lone surrogate becomes U+FFFD.
fn text_of(literal: &str) -> Cow<'_, str> {
    /// The bytes of a string; those of a lone surrogate are not UTF-8.
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = String;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("text")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> std::result::Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    if !literal.contains('\\') {
        return Cow::Borrowed(&literal[1..literal.len() - 1]);
    }
    let text = serde_json::Deserializer::from_str(literal).deserialize_bytes(Bytes);
    Cow::Owned(text.expect("the reader has stepped over it"))
}

/// The next value of a source.
struct Value<'s, 'a>(&'s RefCell<Source<'a>>);

impl Serialize for Value<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let source = self.0;
        let wrong = |fault: Fault| ser::Error::custom(fault.describe(source.borrow().text));
        // The borrow ends before nested values are serialised.
        let next = source.borrow_mut().next();
        match next.map_err(wrong)? {
            Next::Scalar(Item::Null) => serializer.serialize_unit(),
            Next::Scalar(Item::Boolean(boolean)) => serializer.serialize_bool(boolean),
            Next::Scalar(Item::Integer(integer)) => serializer.serialize_i64(integer),
            Next::Scalar(Item::Unsigned(integer)) => serializer.serialize_u64(integer),
            Next::Scalar(Item::Float(float)) => serializer.serialize_f64(float),
            Next::Scalar(Item::Text(text)) => serializer.serialize_str(&text),
            Next::Scalar(Item::Beyond | Item::List | Item::Object) => Err(ser::Error::custom("it was already read")),
            Next::Beyond(digits) => serializer.serialize_str(digits),
            Next::List(length) => {
                let (mut list, mut first) = (serializer.serialize_seq(Some(length))?, true);
                loop {
                    let more = source.borrow_mut().reader.next_element(first);
                    if !more.map_err(wrong)? {
                        return list.end();
                    }
                    list.serialize_element(self)?;
                    first = false;
                }
            }
            Next::Object(length) => {
                let (mut map, mut first) = (serializer.serialize_map(Some(length))?, true);
                loop {
                    let name = source.borrow_mut().name(first);
                    let Some(name) = name.map_err(wrong)? else { return map.end() };
                    map.serialize_entry(&*name, self)?;
                    first = false;
                }
            }
        }
    }
}

/// Deserialised JSON text.
struct Text(Vec<u8>);

impl<'de> de::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut text = Vec::new();
        deserializer.deserialize_any(Append(&mut text))?;
        Ok(Self(text))
    }
}

/// A visitor that appends values as JSON text.
struct Append<'o>(&'o mut Vec<u8>);

impl Append<'_> {
    fn write<E: de::Error>(self, value: &impl Serialize) -> std::result::Result<(), E> {
        serde_json::to_writer(self.0, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Append<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Append<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<(), E> {
        self.0.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> std::result::Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, boolean: bool) -> std::result::Result<(), E> {
        self.write(&boolean)
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> std::result::Result<(), E> {
        self.write(&integer)
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> std::result::Result<(), E> {
        self.write(&integer)
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> std::result::Result<(), E> {
        match float.is_finite() {
            true => self.write(&float),
            false => Err(E::custom(format!("{float} is not a JSON number"))),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<(), E> {
        self.write(&text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<(), A::Error> {
        let start = self.0.len();
        self.0.push(b'[');
        while list.next_element_seed(Append(self.0))?.is_some() {
            self.0.push(b',');
        }
        close(self.0, start, b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let start = self.0.len();
        self.0.push(b'{');
        while let Some(name) = map.next_key::<String>()? {
            Append(self.0).write(&name)?;
            self.0.push(b':');
            map.next_value_seed(Append(self.0))?;
            self.0.push(b',');
        }
        close(self.0, start, b'}');
        Ok(())
    }

    /// Visits a CBOR tag, which ciborium represents as an enum.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> std::result::Result<(), A::Error> {
        let (_, content) = tagged.variant::<String>()?;
        content.tuple_variant(2, Tagged(self))
    }
}

/// Closes the list or the object that begins at `start`; its last element is followed by a comma.
fn close(out: &mut Vec<u8>, start: usize, bracket: u8) {
    if out.len() > start + 1 {
        out.pop();
    }
    out.push(bracket);
}

/// Appends a tagged value.
struct Tagged<'o>(Append<'o>);

impl<'de> Visitor<'de> for Tagged<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tag and its value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> std::result::Result<(), A::Error> {
        /// The tag of a date and time string (RFC 8949, section 3.4.1).
        const DATE: u64 = 0;
        match parts.next_element::<u64>()? {
            Some(DATE) => parts.next_element_seed(self.0).map(drop),
            Some(tag) => Err(de::Error::custom(format!("the tag {tag} has no equivalent in JSON"))),
            None => Err(de::Error::custom("a tag has no value")),
        }
    }
}

#[cfg(test)]
mod tests;
