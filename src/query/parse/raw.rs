//! The characters of a raw query: what is percent-encoded, where a name and where a value ends.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::at;
use crate::error::Result;

/// What a byte may mean: ends a name, ends a value.
const NAME_END: u8 = 1;
const VALUE_END: u8 = 2;
/// `%`, `*` and `:`, which mean something within a name or a value.
const PERCENT: u8 = 4;
const STAR: u8 = 8;
const COLON: u8 = 16;

const MARKS: [u8; 256] = {
    let mut marks = [0; 256];
    let mut position = 0;
    while position < 256 {
        marks[position] = match position as u8 {
            b'=' | b'(' | b')' | b'[' | b']' | b'|' | b',' | b'&' | b';' => NAME_END | VALUE_END,
            b'!' | b'<' | b'>' | b'~' | b'{' | b'}' => NAME_END,
            b'%' => PERCENT,
            b'*' => STAR,
            b':' => COLON,
            _ => 0,
        };
        position += 1;
    }
    marks
};

#[cfg(test)]
thread_local! {
    /// How many bytes this thread has looked at. Tests see by it that a query is read in a time that its length bounds.
    pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that are looked at, in tests.
#[inline]
fn look_at(_bytes: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + _bytes);
}

/// The byte at a position, raw or encoded, and how many bytes it takes; `None` at the end. A `%` that encodes nothing is itself.
pub(super) fn unit(text: &str, position: usize) -> Option<(u8, usize)> {
    look_at(1);
    let byte = *text.as_bytes().get(position)?;
    match byte {
        b'%' => Some(encoded(&text.as_bytes()[position + 1..]).map_or((byte, 1), |byte| (byte, 3))),
        _ => Some((byte, 1)),
    }
}

/// The byte whose two hexadecimal digits a text begins with.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |position: usize| char::from(*digits.get(position)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// A name or a value as it stands in the query.
#[derive(Clone, Copy)]
pub(super) struct Piece<'q> {
    /// Its bytes, not decoded.
    pub text: &'q str,
    /// Where it begins in the query.
    pub start: usize,
    /// Which of the marked bytes it has.
    marks: u8,
}

impl<'q> Piece<'q> {
    /// The name that begins at a position: it ends before a character that means something, raw or encoded.
    pub(super) fn name(query: &'q str, start: usize) -> Self {
        let (mut end, mut marks) = (start, 0);
        loop {
            let rest = &query.as_bytes()[end..];
            let stops = |byte: &u8| MARKS[usize::from(*byte)] & (NAME_END | PERCENT) != 0;
            end += rest.iter().position(stops).unwrap_or(rest.len());
            match unit(query, end) {
                Some((byte, bytes)) if MARKS[usize::from(byte)] & NAME_END == 0 => {
                    marks |= PERCENT;
                    end += bytes;
                }
                _ => {
                    look_at(end - start);
                    return Self { text: &query[start..end], start, marks };
                }
            }
        }
    }

    /// The value that begins at a position: it ends before a reserved character that is not encoded.
    pub(super) fn value(query: &'q str, start: usize) -> Self {
        let mut marks = 0;
        let ends = |byte: &u8| {
            let mark = MARKS[usize::from(*byte)];
            marks |= mark;
            mark & VALUE_END != 0
        };
        let end = query.as_bytes()[start..].iter().position(ends).map_or(query.len(), |bytes| start + bytes);
        look_at(end - start);
        Self { text: &query[start..end], start, marks }
    }

    /// Where it ends in the query.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it has a star that is not encoded.
    pub(super) fn has_star(&self) -> bool {
        self.marks & STAR != 0
    }

    /// Whether it has a colon that is not encoded.
    pub(super) fn has_colon(&self) -> bool {
        self.marks & COLON != 0
    }

    /// What follows a text that it begins with; for the errors it begins where it began.
    pub(super) fn after(self, beginning: &str) -> Option<Self> {
        self.text.strip_prefix(beginning).map(|text| Self { text, ..self })
    }

    /// Its text decoded; borrows if nothing is encoded.
    ///
    /// # Errors
    /// `Invalid` at its beginning if a `%` is not followed by two hexadecimal digits, or what they encode is not UTF-8.
    pub(super) fn decode(&self) -> Result<Cow<'q, str>> {
        match self.marks & PERCENT {
            0 => Ok(Cow::Borrowed(self.text)),
            _ => self.decode_part(self.text),
        }
    }

    /// A part of its text, decoded.
    ///
    /// # Errors
    /// As [`Piece::decode`].
    pub(super) fn decode_part(&self, part: &'q str) -> Result<Cow<'q, str>> {
        look_at(part.len());
        if part.split('%').skip(1).any(|after| encoded(after.as_bytes()).is_none()) {
            return Err(at(self.start, "expected two hexadecimal digits after %; encode the character itself as %25"));
        }
        percent_decode_str(part).decode_utf8().map_err(|_| at(self.start, "the percent-encoded bytes are not UTF-8"))
    }
}
