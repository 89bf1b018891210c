//! One scalar value of a stored record, read only as far as comparisons require.
//!
//! A filter reads one value from each of thousands of records. So a number is read from its eight bytes, whose position ([`Slot`]) is the
//! same in all records of a table, null is recognised by the first byte of the text, and text is compared in place: it is unescaped only if
//! it contains a backslash.

use std::borrow::Cow;

use super::{Record, damaged, needs_escape, outside};
use crate::error::Result;
use crate::schema::{Kind, Table};

/// The position of the eight bytes of an Int, Float, Date or Blob in every record of a table, in bytes from the end.
#[derive(Clone, Copy, Debug)]
pub struct Slot(usize);

impl Slot {
    /// Returns the slot of an attribute, if it has one.
    #[inline]
    pub fn of(table: &Table, attribute: usize) -> Option<Self> {
        let before = table.attributes.get(attribute)?.fixed_width?;
        Some(Self((table.fixed_widths - before) * 8))
    }
}

/// Returns whether a text is stored in JSON without escapes.
pub fn is_stored_unescaped(text: &str) -> bool {
    !needs_escape(text)
}

/// A scalar value, borrowed.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'r> {
    /// No value.
    Null,
    /// A Boolean.
    Boolean(bool),
    /// An Int.
    Int(i64),
    /// A Float.
    Float(f64),
    /// A Date: microseconds since 1970 UTC.
    Date(i64),
    /// An ID or a String.
    Text(Text<'r>),
    /// An `Any`, a Blob or a list: its JSON text.
    Json(&'r [u8]),
}

/// The content of a JSON string, possibly with escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'r> {
    bytes: &'r [u8],
    escaped: bool,
}

impl<'r> Text<'r> {
    /// Creates a text without escapes.
    pub fn plain(text: &'r str) -> Self {
        Self { bytes: text.as_bytes(), escaped: false }
    }

    /// Returns the unescaped text as UTF-8 bytes.
    pub fn unescaped(self) -> Cow<'r, [u8]> {
        if !self.escaped || !self.bytes.contains(&b'\\') {
            return Cow::Borrowed(self.bytes);
        }
        let quoted = [b"\"", self.bytes, b"\""].concat();
        // Fails only for a corrupt record, which its checksum would have detected. Then it equals itself and nothing else.
        let text = serde_json::from_slice::<String>(&quoted);
        text.map_or(Cow::Borrowed(self.bytes), |text| Cow::Owned(text.into_bytes()))
    }

    /// Returns whether it equals this text.
    #[inline]
    pub fn is(self, other: &str) -> bool {
        // Escaped text is longer than its meaning.
        if !self.escaped || self.bytes.len() <= other.len() {
            return self.bytes == other.as_bytes() && !(self.escaped && other.contains('\\'));
        }
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        other.bytes().any(is_escaped) && *self.unescaped() == *other.as_bytes()
    }
}

impl<B: AsRef<[u8]>> Record<'_, B> {
    /// Reads one value of an attribute that is not a list, by its position in the schema.
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute; `Corrupt` if the text is not such a value.
    #[inline]
    pub fn scalar(&self, attribute: usize) -> Result<Scalar<'_>> {
        let described = self.table.attribute_at(attribute)?;
        if let Some(slot) = Slot::of(self.table, attribute) {
            // Zero stands for null as well as for 0: only then the text has to be read.
            let integer = self.integer(slot);
            return Ok(match described.kind {
                _ if integer == 0 && self.is_null(attribute)? => Scalar::Null,
                Kind::Int => Scalar::Int(integer),
                Kind::Float => Scalar::Float(self.float(slot)),
                Kind::Blob => Scalar::Json(self.json_of(attribute)?),
                _ => Scalar::Date(integer),
            });
        }
        Ok(match (self.first_byte(attribute)?, described.kind) {
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

    /// Returns an Int, or the microseconds of a Date; 0 for null. The slot must belong to the record's table.
    #[inline]
    pub fn integer(&self, slot: Slot) -> i64 {
        i64::from_le_bytes(self.bytes_of(slot))
    }

    /// Returns a Float; 0 for null. The slot must belong to the record's table.
    #[inline]
    pub fn float(&self, slot: Slot) -> f64 {
        f64::from_le_bytes(self.bytes_of(slot))
    }

    #[inline]
    pub(super) fn bytes_of(&self, Slot(before_end): Slot) -> [u8; 8] {
        let bytes = self.bytes.as_ref();
        *bytes[bytes.len() - before_end..].first_chunk().expect("open saw that the record has all slots of its table")
    }

    /// Returns whether a Boolean of the table has this value; false for null.
    ///
    /// # Errors
    /// As [`Record::text`].
    #[inline]
    pub(crate) fn is_boolean(&self, attribute: usize, boolean: bool) -> Result<bool> {
        Ok(self.first_byte(attribute)? == if boolean { b't' } else { b'f' })
    }

    /// Returns whether an ID or a String of the table equals a text that [`is_stored_unescaped`]. Its end is not looked up: only at the end of the stored
    /// text is there a quotation mark without a backslash before it.
    ///
    /// # Errors
    /// As [`Record::text`].
    #[inline]
    pub(crate) fn is_text(&self, attribute: usize, text: &str) -> Result<bool> {
        let stored = self.json().get(self.offset(attribute)?..).ok_or_else(|| outside(self.table))?;
        let end = text.len() + 1;
        Ok(stored.get(end) == Some(&b'"') && stored[0] == b'"' && stored[1..end] == *text.as_bytes())
    }

    /// Returns whether the value of an attribute of the table is null: no other value begins with the same letter.
    ///
    /// # Errors
    /// As [`Record::text`].
    #[inline(never)] // Numbers call it only for zeros, and inlining it would double their loop body.
    pub(crate) fn is_null(&self, attribute: usize) -> Result<bool> {
        Ok(self.first_byte(attribute)? == b'n')
    }

    /// Returns the first byte of the JSON text of a value.
    #[inline]
    fn first_byte(&self, attribute: usize) -> Result<u8> {
        self.json().get(self.offset(attribute)?).copied().ok_or_else(|| outside(self.table))
    }
}

#[cfg(test)]
mod tests {
    use crate::encoding::Record;
    use crate::encoding::body::parse_object;
    use crate::encoding::record::{Scalar, encode, is_stored_unescaped};
    use crate::schema::Schema;

    #[test]
    fn scalars_are_what_was_written() {
        let sdl = "type T @table { id: ID @primaryKey name: String size: Int price: Float ok: Boolean at: Date any: Any tags: [Int] }";
        let schema = Schema::parse(sdl).unwrap();
        let table = &schema.tables[0];
        let scalars = |body: &str| -> Vec<String> {
            let (fields, mut out) = (parse_object(table, body.as_bytes()).unwrap(), Vec::new());
            let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
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
            let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
            let Scalar::Text(text) = record.scalar(0).unwrap() else { panic!("an id is text") };
            for other in texts {
                assert_eq!(text.is(other), stored == other, "{stored:?} {other:?}");
                if is_stored_unescaped(other) {
                    assert_eq!(record.is_text(0, other).unwrap(), stored == other, "{stored:?} {other:?}");
                }
            }
        }
    }
}
