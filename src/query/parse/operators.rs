//! The comparison operators, as symbols and as words.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::raw::unit;
use super::{Parser, at};
use crate::error::Result;

/// The operator of a comparison, without negation.
#[derive(Clone, Copy)]
pub(super) enum Operator {
    /// Equal to. `literal`: to the literal text, without wildcards, prefixes or null.
    Equal { literal: bool },
    /// Equal to one of a list.
    OneOf,
    /// Greater than, or equal if `included`.
    Above { included: bool },
    /// Less than, or equal if `included`.
    Below { included: bool },
    /// Between two values; the flags state whether each bound is included.
    Between { lower_included: bool, upper_included: bool },
    /// The text contains the value.
    Contains,
    /// The text starts with the value.
    StartsWith,
    /// The text ends with the value.
    EndsWith,
    /// The value is a regular expression with a match in the text.
    Matches,
    /// The text contains all terms of the value.
    FullText,
}

impl Operator {
    /// Returns whether it applies to text only.
    pub(super) fn is_of_text(self) -> bool {
        matches!(self, Self::Contains | Self::StartsWith | Self::EndsWith | Self::Matches | Self::FullText)
    }
}

/// An operator as written.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    pub operator: Operator,
    /// Whether it is the exact negation.
    pub negated: bool,
}

/// The words that may follow `&` directly, to compare the same attribute again.
const CHAINED: [&str; 10] = ["gt", "ge", "lt", "le", "ne", "in", "out", "ct", "sw", "ew"];

/// Returns whether a word compares the attribute of the previous comparison again.
pub(super) fn is_chained(word: &str) -> bool {
    CHAINED.contains(&word)
}

/// Returns the operator for a word, as written between `=` and `=`; `None` if there is none.
pub(super) fn by_word(word: &str) -> Option<Comparison> {
    let between = |lower_included, upper_included| Operator::Between { lower_included, upper_included };
    let (operator, negated) = match word {
        "eq" => (Operator::Equal { literal: false }, false),
        "ne" => (Operator::Equal { literal: false }, true),
        "gt" => (Operator::Above { included: false }, false),
        "ge" => (Operator::Above { included: true }, false),
        "lt" => (Operator::Below { included: false }, false),
        "le" => (Operator::Below { included: true }, false),
        "gele" => (between(true, true), false),
        "gelt" => (between(true, false), false),
        "gtle" => (between(false, true), false),
        "gtlt" => (between(false, false), false),
        "in" => (Operator::OneOf, false),
        "out" => (Operator::OneOf, true),
        "ct" => (Operator::Contains, false),
        "sw" => (Operator::StartsWith, false),
        "ew" => (Operator::EndsWith, false),
        "~" => (Operator::Matches, false),
        "ft" => (Operator::FullText, false),
        _ => return None,
    };
    Some(Comparison { operator, negated })
}

/// Returns what to use instead of a word that is not an operator.
fn instead(word: &str) -> &'static str {
    match word {
        "like" => "use =ct=, =sw=, =ew= or * in ==",
        "is" => "use ==null",
        "between" => "use =gele=",
        _ => "operators: eq ne gt ge lt le gele gelt gtle gtlt in out ct sw ew ft ~",
    }
}

impl Parser<'_, '_> {
    /// Parses the operator after a name, if there is one.
    ///
    /// An encoded character continues the operator if the one before it was encoded too, or if there is no operator without it; after a raw
    /// one it belongs to the value.
    pub(super) fn operator(&mut self) -> Result<Option<Comparison>> {
        let start = self.position;
        let Some((sign, bytes)) = self.peek() else { return Ok(None) };
        self.position += bytes;
        let is_encoded = bytes > 1;
        let (operator, negated) = match sign {
            b'=' => match self.take_sign(b'=', is_encoded) {
                Some(is_encoded) => (Operator::Equal { literal: self.take_sign(b'=', is_encoded).is_some() }, false),
                None => return self.word(start, is_encoded).map(Some),
            },
            b'!' => match self.take_sign(b'=', true) {
                Some(is_encoded) => (Operator::Equal { literal: self.take_sign(b'=', is_encoded).is_some() }, true),
                None => return Err(unknown(start)),
            },
            b'>' => (Operator::Above { included: self.take_sign(b'=', is_encoded).is_some() }, false),
            b'<' => (Operator::Below { included: self.take_sign(b'=', is_encoded).is_some() }, false),
            b'&' | b';' | b'|' | b',' | b')' | b']' => {
                self.position = start;
                return Ok(None);
            }
            _ => return Err(unknown(start)),
        };
        Ok(Some(Comparison { operator, negated }))
    }

    /// Parses what follows the first `=`: a word and another `=`, or else a value.
    fn word(&mut self, start: usize, is_encoded: bool) -> Result<Comparison> {
        let word_start = self.position;
        while let Some((byte, bytes)) = self.peek()
            && (byte.is_ascii_alphabetic() || byte == b'~')
            && (bytes == 1 || is_encoded)
        {
            self.position += bytes;
        }
        let word_end = self.position;
        if word_end == word_start || self.take_sign(b'=', is_encoded).is_none() {
            self.position = word_start;
            return Ok(Comparison { operator: Operator::Equal { literal: false }, negated: false });
        }
        let word = &self.query.text[word_start..word_end];
        let word = if is_encoded { percent_decode_str(word).decode_utf8_lossy() } else { Cow::Borrowed(word) };
        by_word(&word).ok_or_else(|| at(start, format!("unknown operator ={word}=; {}", instead(&word))))
    }

    /// Consumes a character if it is next, raw or (where equivalent) encoded; returns whether it was encoded.
    fn take_sign(&mut self, sign: u8, or_encoded: bool) -> Option<bool> {
        let (_, bytes) = unit(self.query.text, self.position)
            .filter(|(byte, bytes)| *byte == sign && (*bytes == 1 || or_encoded))?;
        self.position += bytes;
        Some(bytes > 1)
    }
}

fn unknown(position: usize) -> crate::error::Error {
    at(position, "expected an operator, such as == or =gt=")
}
