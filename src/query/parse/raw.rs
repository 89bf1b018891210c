//! The tokenizer of a raw query: percent-encoding, and where names and values end.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::at;
use crate::error::Result;

/// Flags of a byte: ends a name, ends a value.
const NAME_END: u8 = 1;
const VALUE_END: u8 = 2;
/// `%`, `*` and `:`, which are special within a name or a value.
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
    /// The number of bytes this thread has examined. Tests use it to check that parsing time is bounded by the length of the query.
    pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts examined bytes, in tests.
#[inline]
fn look_at(_bytes: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + _bytes);
}

/// Returns the byte at a position, raw or decoded, and its encoded length; `None` at the end. A `%` without two digits stands for itself.
pub(super) fn unit(text: &str, position: usize) -> Option<(u8, usize)> {
    look_at(1);
    let byte = *text.as_bytes().get(position)?;
    match byte {
        b'%' => Some(encoded(&text.as_bytes()[position + 1..]).map_or((byte, 1), |byte| (byte, 3))),
        _ => Some((byte, 1)),
    }
}

/// Returns the position of the byte that, decoded, is `bytes` bytes behind the one at `start`.
pub(super) fn position_of_decoded(text: &str, start: usize, bytes: usize) -> usize {
    (0..bytes).fold(start, |position, _| position + unit(text, position).map_or(0, |(_, bytes)| bytes))
}

/// Returns the byte given by the two hexadecimal digits at the start of a text.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |position: usize| char::from(*digits.get(position)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// A name or a value, not yet decoded.
#[derive(Clone, Copy)]
pub(super) struct Piece<'q> {
    /// Its raw text.
    pub text: &'q str,
    /// The byte offset of its start in the query.
    pub start: usize,
    /// The flags of the special bytes that it contains.
    marks: u8,
}

impl<'q> Piece<'q> {
    /// Returns the name at a position, which ends before a special character, raw or encoded.
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

    /// Returns the value at a position, which ends before a reserved character that is not encoded.
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

    /// Returns the byte offset of its end in the query.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns whether it contains a star that is not encoded.
    pub(super) fn has_star(&self) -> bool {
        self.marks & STAR != 0
    }

    /// Returns whether it contains a colon that is not encoded.
    pub(super) fn has_colon(&self) -> bool {
        self.marks & COLON != 0
    }

    /// Strips a prefix; errors still refer to the original start.
    pub(super) fn after(self, beginning: &str) -> Option<Self> {
        self.text.strip_prefix(beginning).map(|text| Self { text, ..self })
    }

    /// Decodes its text; borrows if nothing is encoded.
    ///
    /// # Errors
    /// `Invalid` at its start if a `%` is not followed by two hexadecimal digits, or if the decoded bytes are not UTF-8.
    pub(super) fn decode(&self) -> Result<Cow<'q, str>> {
        match self.marks & PERCENT {
            0 => Ok(Cow::Borrowed(self.text)),
            _ => self.decode_part(self.text),
        }
    }

    /// Decodes a part of its text.
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
