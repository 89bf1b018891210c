//! One scalar value of a stored record, as little read as it takes to compare it.
//!
//! A filter asks thousands of records for one value each. So a number is its eight bytes, null is seen in the first byte of the
//! text, and text is compared where it is stored: it is unescaped only where it has a backslash.

use std::borrow::Cow;

use super::{Record, damaged};
use crate::error::Result;
use crate::schema::Kind;

/// A scalar value, borrowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'r> {
    /// No value.
    Null,
    /// Of a Boolean.
    Boolean(bool),
    /// Of an Int.
    Int(i64),
    /// Of a Float.
    Float(f64),
    /// Of a Date: microseconds since 1970 UTC.
    Date(i64),
    /// Of an ID or a String.
    Text(Text<'r>),
    /// Of an `Any` or a list: its JSON text.
    Json(&'r [u8]),
}

/// Text that may stand as it does between the quotation marks of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'r> {
    bytes: &'r [u8],
    escaped: bool,
}

impl<'r> Text<'r> {
    /// Text without escapes.
    pub fn plain(text: &'r str) -> Self {
        Self { bytes: text.as_bytes(), escaped: false }
    }

    /// The text itself, as bytes of UTF-8.
    pub fn unescaped(self) -> Cow<'r, [u8]> {
        if !self.escaped || !self.bytes.contains(&b'\\') {
            return Cow::Borrowed(self.bytes);
        }
        let quoted = [b"\"", self.bytes, b"\""].concat();
        // Not so only if the record is damaged, which its checksum has seen. Then it equals itself and nothing else.
        let text = serde_json::from_slice::<String>(&quoted);
        text.map_or(Cow::Borrowed(self.bytes), |text| Cow::Owned(text.into_bytes()))
    }

    /// Whether it is this text.
    #[inline]
    pub fn is(self, other: &str) -> bool {
        // What is escaped is longer than what it stands for.
        if !self.escaped || self.bytes.len() <= other.len() {
            return self.bytes == other.as_bytes() && !(self.escaped && other.contains('\\'));
        }
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        other.bytes().any(is_escaped) && *self.unescaped() == *other.as_bytes()
    }
}

impl<B: AsRef<[u8]>> Record<'_, B> {
    /// One value of an attribute that is no list.
    ///
    /// # Errors
    /// `Corrupt` if the text is not such a value.
    #[inline]
    pub fn scalar(&self, attribute: usize) -> Result<Scalar<'_>> {
        let described = &self.table.attributes[attribute];
        if described.fixed_width.is_some() {
            let slot = self.slot(attribute)?;
            // Zero is that of null, and that of 0: only then the text has to be looked at.
            if slot == [0; 8] && self.first_byte(attribute)? == b'n' {
                return Ok(Scalar::Null);
            }
            return Ok(match described.kind {
                Kind::Int => Scalar::Int(i64::from_le_bytes(slot)),
                Kind::Float => Scalar::Float(f64::from_le_bytes(slot)),
                _ => Scalar::Date(i64::from_le_bytes(slot)),
            });
        }
        Ok(match (self.first_byte(attribute)?, described.kind) {
            // Nothing else begins with that letter.
            (b'n', _) => Scalar::Null,
            _ if described.list => Scalar::Json(self.json_of(attribute)?),
            (first, Kind::Boolean) => Scalar::Boolean(first == b't'),
            (_, Kind::Id | Kind::String) => match self.json_of(attribute)? {
                [b'"', bytes @ .., b'"'] => Scalar::Text(Text { bytes, escaped: true }),
                _ => return Err(damaged(self.table, "a text has no quotation marks")),
            },
            _ => Scalar::Json(self.json_of(attribute)?),
        })
    }

    /// The first byte of the JSON text of a value.
    #[inline]
    fn first_byte(&self, attribute: usize) -> Result<u8> {
        let first = self.json().get(self.offset(attribute)?).copied();
        first.ok_or_else(|| damaged(self.table, "its offsets lie outside of its text"))
    }
}

#[cfg(test)]
mod tests {
    use crate::encoding::Record;
    use crate::encoding::record::{Scalar, encode};
    use crate::encoding::value::parse_object;
    use crate::schema::Schema;

    #[test]
    fn scalars_are_what_was_written() {
        let sdl = "type T @table { id: ID @primaryKey name: String size: Int price: Float ok: Boolean at: Date any: Any tags: [Int] }";
        let schema = Schema::parse(sdl).unwrap();
        let table = &schema.tables[0];
        let scalars = |body: &str| -> Vec<String> {
            let (fields, mut out) = (parse_object(table, body.as_bytes()).unwrap(), Vec::new());
            let record = encode(table, &fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
            let show = |attribute| match record.scalar(attribute).unwrap() {
                Scalar::Text(text) => String::from_utf8(text.unescaped().into_owned()).unwrap(),
                Scalar::Json(text) => String::from_utf8(text.to_vec()).unwrap(),
                other => format!("{other:?}"),
            };
            (0..table.attributes.len()).map(show).collect()
        };
        let body = r#"{"id":"nil","name":"a\"\\\u0001é","size":-7,"price":-0.5,"ok":true,"at":"1970-01-01","any":{"n":null},"tags":[]}"#;
        let expected =
            ["nil", "a\"\\\u{1}é", "Int(-7)", "Float(-0.5)", "Boolean(true)", "Date(0)", r#"{"n":null}"#, "[]"];
        assert_eq!(scalars(body), expected);
        assert_eq!(scalars(r#"{"id":""}"#)[1..], ["Null"; 7]);
        assert_eq!(scalars(r#"{"id":"","ok":false}"#)[4], "Boolean(false)");
        assert_eq!(scalars(r#"{"id":"","size":0,"price":0}"#)[2..4], ["Int(0)", "Float(0.0)"]);
    }

    #[test]
    fn text_is_compared_as_it_is_stored() {
        let schema = Schema::parse("type T @table { id: ID @primaryKey }").unwrap();
        let texts = ["", "a", "ab", "\\", "\\\\", "\"", "a\"b", "\n", "\u{1}", "n", "\\n", "é", "\\u00e9"];
        for stored in texts {
            let body = serde_json::json!({ "id": stored }).to_string();
            let fields = parse_object(&schema.tables[0], body.as_bytes()).unwrap();
            let mut out = Vec::new();
            let record = encode(&schema.tables[0], &fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
            let Scalar::Text(text) = record.scalar(0).unwrap() else { panic!("an id is text") };
            for other in texts {
                assert_eq!(text.is(other), stored == other, "{stored:?} {other:?}");
            }
        }
    }
}
