//! Thumbnails: the sizes that may be asked for (`@thumb`), a box and how a picture is put into it.

use std::fmt;
use std::str::FromStr;

use async_graphql_parser::types::FieldDefinition;
use async_graphql_value::ConstValue;

use super::directives::find;
use super::{Kind, invalid};
use crate::error::Result;

/// The longest side that can be asked for, in pixels.
pub const LONGEST_SIDE: u16 = 4096;

/// The box of a thumbnail, and how the picture is put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThumbSize {
    /// 0 if it follows from the height.
    pub(crate) width: u16,
    /// 0 if it follows from the width.
    pub(crate) height: u16,
    pub(crate) mode: ThumbMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ThumbMode {
    /// The surplus is cut off at both ends.
    Fill,
    /// What is too high is cut off at the bottom.
    FillFromTop,
    /// What is too high is cut off at the top.
    FillFromBottom,
    /// Nothing is cut off.
    Fit,
}

/// A regular expression of sides, 1 to 4096.
macro_rules! side {
    () => {
        "([1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-6])"
    };
}

impl ThumbSize {
    /// A regular expression of sizes.
    pub const PATTERN: &str = concat!("^(", side!(), "x", side!(), "[tbf]?|", side!(), "x0|0x", side!(), ")$");
}

impl FromStr for ThumbSize {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no size of a thumbnail: WIDTHxHEIGHT, each 0 to {LONGEST_SIDE} and not both 0; behind two sides t or b cuts off at the \
                 bottom or at the top alone, f cuts nothing off"
            )
        };
        let (sides, mode) = match text.as_bytes().last() {
            Some(b't') => (&text[..text.len() - 1], ThumbMode::FillFromTop),
            Some(b'b') => (&text[..text.len() - 1], ThumbMode::FillFromBottom),
            Some(b'f') => (&text[..text.len() - 1], ThumbMode::Fit),
            _ => (text, ThumbMode::Fill),
        };
        let (width, height) = sides.split_once('x').ok_or_else(wrong)?;
        let side = |digits: &str| {
            let is_plain =
                digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
            digits.parse().ok().filter(|side| is_plain && *side <= LONGEST_SIDE).ok_or_else(wrong)
        };
        let size = Self { width: side(width)?, height: side(height)?, mode };
        let has_two_sides = size.width > 0 && size.height > 0;
        let has_a_side = size.width > 0 || size.height > 0;
        if has_two_sides || has_a_side && mode == ThumbMode::Fill { Ok(size) } else { Err(wrong()) }
    }
}

impl fmt::Display for ThumbSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            ThumbMode::Fill => "",
            ThumbMode::FillFromTop => "t",
            ThumbMode::FillFromBottom => "b",
            ThumbMode::Fit => "f",
        };
        write!(out, "{}x{}{mode}", self.width, self.height)
    }
}

/// Returns the sizes that `@thumb(sizes: ["200x200"])` lists; none without it.
///
/// # Errors
/// `Invalid` if the attribute is not a blob, or if what it lists is no size, or is listed twice.
pub(super) fn sizes(field: &FieldDefinition, kind: Kind) -> Result<Vec<ThumbSize>> {
    let Some(directive) = find(&field.directives, "thumb") else { return Ok(Vec::new()) };
    if kind != Kind::Blob {
        return Err(invalid(directive.pos, "@thumb applies to attributes of type Blob only".into()));
    }
    let listed = directive.node.get_argument("sizes").map(|value| (value.pos, &value.node));
    let Some((pos, ConstValue::List(values))) = listed.filter(|(_, value)| **value != ConstValue::List(Vec::new()))
    else {
        return Err(invalid(
            directive.pos,
            "@thumb needs the sizes that may be asked for: sizes: [\"200x200\"]".into(),
        ));
    };
    let mut sizes = Vec::with_capacity(values.len());
    for value in values {
        let ConstValue::String(text) = value else {
            return Err(invalid(pos, format!("a size must be a string, not {value}")));
        };
        let size = text.parse().map_err(|detail| invalid(pos, detail))?;
        if sizes.contains(&size) {
            return Err(invalid(pos, format!("the size {size} is listed twice")));
        }
        sizes.push(size);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_size_is_refused_and_what_is_one_is_printed_as_it_was() {
        let pattern = regex::Regex::new(ThumbSize::PATTERN).unwrap();
        for size in ["200x100", "200x100t", "200x100b", "200x100f", "200x0", "0x100", "4096x4096", "1x1", "4000x999"] {
            assert_eq!(size.parse::<ThumbSize>().unwrap().to_string(), size);
            assert!(pattern.is_match(size), "{size}");
        }
        for size in [
            "", "x", "200", "200x", "x100", "0x0", "0x0f", "200x0f", "0x100t", "4097x1", "1x4097", "-1x1", "+1x1",
            "01x1", "1x1 ", "1x1g", "1X1", "1x1x1", "65536x1", "1x1ff", "１x1", "é",
        ] {
            assert!(size.parse::<ThumbSize>().is_err() && !pattern.is_match(size), "{size}");
        }
    }
}
