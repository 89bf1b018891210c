//! The characters of a raw query: what is percent-encoded, where a name and where a value ends.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::at;
use crate::error::Result;

/// The byte at a position, raw or encoded, and how many bytes it takes; `None` at the end. A `%` that encodes nothing is itself.
pub(super) fn unit(text: &str, position: usize) -> Option<(u8, usize)> {
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

/// Where the name that begins at a position ends: before a character that means something, raw or encoded.
pub(super) fn end_of_name(text: &str, start: usize) -> usize {
    let mut end = start;
    while let Some((byte, bytes)) = unit(text, end) {
        if matches!(
            byte,
            b'=' | b'!' | b'<' | b'>' | b'~' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' | b',' | b'&' | b';'
        ) {
            break;
        }
        end += bytes;
    }
    end
}

/// Where the value that begins at a position ends: before a reserved character that is not encoded.
pub(super) fn end_of_value(text: &str, start: usize) -> usize {
    let reserved = |byte: &u8| matches!(byte, b'&' | b';' | b'|' | b'(' | b')' | b'[' | b']' | b',' | b'=');
    text.as_bytes()[start..].iter().position(reserved).map_or(text.len(), |bytes| start + bytes)
}

/// Decodes a piece of the query, which begins at byte `start`; borrows if nothing is encoded.
///
/// # Errors
/// `Invalid` at `start` if a `%` is not followed by two hexadecimal digits, or what they encode is not UTF-8.
pub(super) fn decode(raw: &str, start: usize) -> Result<Cow<'_, str>> {
    if !raw.as_bytes().contains(&b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    if raw.split('%').skip(1).any(|after| encoded(after.as_bytes()).is_none()) {
        return Err(at(start, "a % is followed by two hexadecimal digits; the character itself is written %25"));
    }
    percent_decode_str(raw).decode_utf8().map_err(|_| at(start, "what is encoded here is not UTF-8"))
}
