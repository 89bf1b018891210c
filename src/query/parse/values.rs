//! Interprets the text of a value for an attribute.
//!
//! Numbers are compared exactly, whatever the attribute: an Int beyond 2^53 keeps its digits, and a number that an Int cannot hold
//! (`stock=gt=1.5`) is replaced by the neighbouring integers; likewise, an integer that no double represents is replaced by the
//! neighbouring doubles for a Float. So every value in the tree is one that the attribute, or an index on it, can hold.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use super::raw::Piece;
use super::{VALUE_MISSING, at};
use crate::encoding::Value;
use crate::encoding::value::Date;
use crate::error::Result;
use crate::query::tree::{Pattern, Test};
use crate::schema::{Attribute, Kind};

/// An operand of a comparison.
pub(super) enum Operand<'q> {
    /// A value that the attribute can hold.
    Value(Value<'q>),
    /// A number strictly between this value, the greatest below it, and the next one that the attribute can hold.
    After(Value<'q>),
}

impl<'q> Operand<'q> {
    /// Returns the lower bound of the values above it, including itself if `included`.
    pub(super) fn or_above(self, included: bool) -> Bound<Value<'q>> {
        match self {
            Self::Value(value) if included => Bound::Included(value),
            Self::Value(value) => Bound::Excluded(value),
            Self::After(value) => Bound::Excluded(value),
        }
    }

    /// Returns the upper bound of the values below it, including itself if `included`.
    pub(super) fn or_below(self, included: bool) -> Bound<Value<'q>> {
        match self {
            Self::Value(value) if included => Bound::Included(value),
            Self::Value(value) => Bound::Excluded(value),
            Self::After(value) => Bound::Included(value),
        }
    }

    /// Returns the value that can equal it, if any.
    pub(super) fn into_value(self) -> Option<Value<'q>> {
        match self {
            Self::Value(value) => Some(value),
            Self::After(_) => None,
        }
    }
}

/// A prefix of a value that forces its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Number,
    String,
    Boolean,
    Date,
}

const PREFIXES: [(&str, Prefix); 4] =
    [("number:", Prefix::Number), ("string:", Prefix::String), ("boolean:", Prefix::Boolean), ("date:", Prefix::Date)];

/// Splits a value into its type prefix, if any, and the rest.
#[inline]
fn split_prefix(value: Piece<'_>) -> (Option<Prefix>, Piece<'_>) {
    let mut prefixes = PREFIXES.iter().filter(|_| value.has_colon());
    let found = prefixes.find_map(|(text, prefix)| Some((Some(*prefix), value.after(text)?)));
    found.unwrap_or((None, value))
}

/// Returns the test for equality with a value; `literal`: with its literal text, without wildcards, prefixes or null.
#[inline]
pub(super) fn equality<'q>(of: &Attribute, value: Piece<'q>, literal: bool) -> Result<Test<'q>> {
    let is_text = matches!(of.kind, Kind::Id | Kind::String);
    if value.text.is_empty() && !is_text {
        return Err(at(value.start, VALUE_MISSING));
    }
    let (prefix, value) = if literal { (None, value) } else { split_prefix(value) };
    if !literal && prefix.is_none() && value.text == "null" {
        return Ok(Test::Null);
    }
    if !literal && is_text && matches!(prefix, None | Some(Prefix::String)) && value.has_star() {
        return like(value);
    }
    let value = typed(of.kind, prefix, value)?.into_value();
    Ok(value.map_or_else(|| Test::OneOf(Vec::new()), Test::Equal))
}

/// Parses an operand of any other comparison.
pub(super) fn operand<'q>(of: &Attribute, value: Piece<'q>) -> Result<Operand<'q>> {
    let (prefix, value) = split_prefix(value);
    typed(of.kind, prefix, value)
}

/// Parses the operand of a text operator, which is always text.
pub(super) fn text(value: Piece<'_>) -> Result<Cow<'_, str>> {
    let (prefix, value) = split_prefix(value);
    match typed(Kind::String, prefix, value)? {
        Operand::Value(Value::Text(text)) => Ok(text),
        _ => unreachable!("a value of a String is text"),
    }
}

/// Parses a wildcard pattern: a text with stars that are not encoded.
fn like(value: Piece<'_>) -> Result<Test<'_>> {
    let (start, rest) = value.text.split_once('*').expect("the caller saw a star");
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let (start, end) = (value.decode_part(start)?, value.decode_part(end)?);
    let middle = middle.split('*').filter(|piece| !piece.is_empty()).map(|piece| value.decode_part(piece));
    let mut middle = middle.collect::<Result<Vec<_>>>()?;
    Ok(match (&*start, middle.as_slice(), &*end) {
        (_, [], "") => Test::StartsWith(start),
        ("", [], _) => Test::EndsWith(end),
        ("", [_], "") => Test::Contains(middle.remove(0)),
        _ => Test::Like(Box::new(Pattern { start, middle, end })),
    })
}

fn typed(kind: Kind, prefix: Option<Prefix>, value: Piece<'_>) -> Result<Operand<'_>> {
    let (text, start) = (value.decode()?, value.start);
    if kind == Kind::Any {
        return any(prefix, text, start).map(Operand::Value);
    }
    let is_text = matches!(kind, Kind::Id | Kind::String);
    let refused = |text: &str| at(start, format!("{text:?} cannot be coerced to {kind:?}"));
    let text = match prefix {
        None | Some(Prefix::String) => text,
        Some(Prefix::Number) if is_text => number_text(&text)
            .ok_or_else(|| at(start, format!("{text:?} is not a number that can be represented exactly")))?
            .into(),
        Some(Prefix::Number) if matches!(kind, Kind::Int | Kind::Float) => text,
        Some(Prefix::Boolean) if (is_text || kind == Kind::Boolean) && text.parse::<bool>().is_ok() => text,
        Some(Prefix::Date) if is_text => {
            Date::parse(&*text).map_err(|detail| at(start, detail))?;
            text
        }
        Some(Prefix::Date) if kind == Kind::Date => text,
        Some(prefix) => return Err(at(start, format!("{prefix:?} {text:?} cannot be coerced to {kind:?}"))),
    };
    let value = match kind {
        Kind::Id | Kind::String => Value::Text(text),
        Kind::Int => return whole_number(&text).ok_or_else(|| refused(&text)),
        Kind::Float => return number(&text).ok_or_else(|| refused(&text)),
        Kind::Boolean => Value::Boolean(text.parse().map_err(|_| refused(&text))?),
        Kind::Date => Value::Date(Date::parse(text).map_err(|detail| at(start, detail))?),
        Kind::Blob => return Err(refused(&text)),
        Kind::Any => unreachable!("it returned above"),
    };
    Ok(Operand::Value(value))
}

/// Parses an operand for an `Any`: a number or Boolean if it looks like one and no prefix says otherwise, else text.
fn any(prefix: Option<Prefix>, text: Cow<'_, str>, start: usize) -> Result<Value<'_>> {
    let number = || text.parse().map(Value::Int).ok().or_else(|| finite(&text).map(Value::Float));
    let boolean = || text.parse().map(Value::Boolean).ok();
    let refused = |wanted: &str| at(start, format!("{text:?} is not {wanted}"));
    match prefix {
        Some(Prefix::Number) => number().ok_or_else(|| refused("a number")),
        Some(Prefix::Boolean) => boolean().ok_or_else(|| refused("true or false")),
        Some(Prefix::Date) => Date::parse(text).map(Value::Date).map_err(|detail| at(start, detail)),
        Some(Prefix::String) => Ok(Value::Text(text)),
        None => Ok(number().or_else(boolean).unwrap_or_else(|| Value::Text(text.clone()))),
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// Parses a number to compare with a Float: the nearest double, as in a body, except that an integer that is no double is kept exact.
fn number(text: &str) -> Option<Operand<'static>> {
    let nearest = finite(text)?;
    let digits = text.trim_start_matches(['+', '-']);
    let value = match text.parse::<i64>() {
        Ok(integer) if nearest as i128 != i128::from(integer) => Value::Int(integer),
        Err(_) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // Formatting a double gives its exact digits, however many.
            let (digits, exact) = (digits.trim_start_matches('0'), format!("{:.0}", nearest.abs()));
            let further = digits.len().cmp(&exact.len()).then(digits.cmp(&exact));
            let beyond = if nearest < 0.0 { further.reverse() } else { further };
            match beyond {
                Ordering::Equal => Value::Float(nearest),
                Ordering::Greater => return Some(Operand::After(Value::Float(nearest))),
                Ordering::Less => return Some(Operand::After(Value::Float(nearest.next_down()))),
            }
        }
        _ => Value::Float(nearest),
    };
    Some(Operand::Value(value))
}

/// Returns a number as the text of an ID or a String, as it would be coerced from a body.
fn number_text(text: &str) -> Option<String> {
    match text.parse::<i64>() {
        Ok(integer) => Some(integer.to_string()),
        // From 2^53 on, the digits of a double may not be exact.
        Err(_) => finite(text)
            .filter(|float| float.abs() < 9_007_199_254_740_992.0)
            .map(|float| ryu_js::Buffer::new().format_finite(float).to_owned()),
    }
}

/// Parses a number to compare with an Int.
fn whole_number(text: &str) -> Option<Operand<'static>> {
    if let Ok(integer) = text.parse() {
        return Some(Operand::Value(Value::Int(integer)));
    }
    let float = finite(text)?;
    let (floor, has_fraction) = floor(text);
    Some(match i64::try_from(floor) {
        Ok(floor) if has_fraction => Operand::After(Value::Int(floor)),
        Ok(floor) => Operand::Value(Value::Int(floor)),
        // Out of the range of Int; just below the least Int, the nearest double is that Int itself, so the next lower one is used.
        Err(_) => Operand::Value(Value::Float(if float < 0.0 { float.min(LEAST_INT.next_down()) } else { float })),
    })
}

const LEAST_INT: f64 = -9_223_372_036_854_775_808.0;

/// Returns the floor of a decimal number and whether it has a fraction; saturates beyond 10^20.
///
/// The text is one from which a finite `f64` can be parsed.
fn floor(text: &str) -> (i128, bool) {
    const BEYOND: i128 = 10_i128.pow(20);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    // If the exponent has too many digits, only its sign matters.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { -i64::from(u32::MAX) } else { 0 });
    let digits = mantissa.trim_start_matches(['+', '-']);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let point = exponent.saturating_add(whole.len() as i64);
    let (mut integer, mut has_fraction, mut place) = (0i128, false, 0);
    for digit in whole.bytes().chain(decimals.bytes()).map(|digit| i128::from(digit - b'0')) {
        if place < point {
            integer = BEYOND.min(integer * 10 + digit);
        } else {
            has_fraction |= digit != 0;
        }
        place += 1;
    }
    while place < point && integer != 0 && integer < BEYOND {
        integer *= 10;
        place += 1;
    }
    match mantissa.starts_with('-') {
        true => (-integer - i128::from(has_fraction), has_fraction),
        false => (integer, has_fraction),
    }
}
