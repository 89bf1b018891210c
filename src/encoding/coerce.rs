//! Reads a JSON value as the type of an attribute: coerced if lossless (`"42"` for an Int, `42` for a String, `"true"` for a Boolean),
//! otherwise rejected. The value is read once, directly into its type, without a tree of JSON values.

use std::borrow::Cow;

use super::json::{DEPTH, Fault, Item, Reader};
use super::names;
use super::value::{Blob, Date, Value};
use crate::schema::{Attribute, Kind};

/// The maximum number of elements of a list in a body.
pub const ELEMENTS: usize = 10_000;

/// The reason why a value is rejected.
pub(super) enum Refusal {
    /// It is not JSON.
    NotJson(Fault),
    /// It does not fit its attribute.
    Unfit {
        detail: String,
        /// The position in the value: a JSON pointer, empty for the value itself.
        below: String,
    },
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault)
    }
}

/// Parses the canonical JSON text of a value of an attribute.
///
/// # Errors
/// A message, if the text is not such a value.
pub(super) fn parse_canonical<'a>(attribute: &Attribute, text: &'a str) -> std::result::Result<Value<'a>, String> {
    let mut reader = Reader::new(text);
    let value = typed(&mut reader, attribute).and_then(|value| Ok(reader.end().map(|()| value)?));
    value.map_err(|refusal| match refusal {
        Refusal::NotJson(fault) => fault.describe(text),
        Refusal::Unfit { detail, .. } => detail,
    })
}

/// Reads a value of an attribute from a body, with checks that stored values may fail, since they may be older than the checks of duplicate
/// names, of the number of elements and of dates.
pub(super) fn given<'a>(reader: &mut Reader<'a>, attribute: &Attribute) -> std::result::Result<Value<'a>, Refusal> {
    let value = typed(reader, attribute)?;
    if attribute.kind == Kind::Any
        && let Some(below) = names::repeated(&value)
    {
        return Err(Refusal::Unfit { detail: "duplicate name".to_owned(), below });
    }
    if matches!(&value, Value::List(elements) if elements.len() > ELEMENTS) {
        let below = format!("/{ELEMENTS}");
        return Err(Refusal::Unfit { detail: format!("a list has at most {ELEMENTS} elements"), below });
    }
    match &value {
        Value::Date(date) => date.check().map_err(|detail| Refusal::Unfit { detail, below: String::new() })?,
        Value::List(elements) if attribute.kind == Kind::Date => {
            for (position, element) in elements.iter().enumerate() {
                let Value::Date(date) = element else { continue };
                date.check().map_err(|detail| Refusal::Unfit { detail, below: format!("/{position}") })?;
            }
        }
        _ => {}
    }
    Ok(value)
}

/// Takes a value of an attribute if a quick check shows that its text is canonical, and returns its eight-byte copy (zero if the attribute
/// has none). Otherwise takes nothing, and [`typed`] decides.
#[inline]
pub(super) fn take_canonical(reader: &mut Reader<'_>, attribute: &Attribute) -> Option<[u8; 8]> {
    // Powers of ten are exact as doubles, and so is a number of 15 digits: their quotient is the nearest double. With more decimals, the
    // number might be so small that it is written with an exponent.
    const POWERS: [f64; 7] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
    if attribute.list {
        return None;
    }
    match attribute.kind {
        Kind::Id | Kind::String => reader.take_plain_text().then_some([0; 8]),
        Kind::Boolean => (reader.take_word("true") || reader.take_word("false")).then_some([0; 8]),
        Kind::Int => reader.take_short_number(0).map(|(number, _)| number.to_le_bytes()),
        Kind::Float => {
            let (number, decimals) = reader.take_short_number(POWERS.len() - 1)?;
            Some((number as f64 / POWERS[decimals]).to_le_bytes())
        }
        Kind::Date | Kind::Any | Kind::Blob => None,
    }
}

/// Reads a value of an attribute.
fn typed<'a>(reader: &mut Reader<'a>, attribute: &Attribute) -> std::result::Result<Value<'a>, Refusal> {
    if !attribute.list {
        return scalar(reader, attribute.kind);
    }
    match reader.item()? {
        Item::Null => return Ok(Value::Null),
        Item::List => reader.take(b'[', "expected a list")?,
        other => return Err(unfit(reader, other, &format!("a list of {:?}", attribute.kind))),
    }
    let mut all = Vec::new();
    while reader.next_element(all.is_empty())? {
        let refused = match scalar(reader, attribute.kind) {
            Ok(Value::Null) => "null cannot be an element of a list".to_owned(),
            Ok(value) => {
                all.push(value);
                continue;
            }
            Err(Refusal::Unfit { detail, .. }) => detail,
            Err(not_json) => return Err(not_json),
        };
        return Err(Refusal::Unfit { detail: refused, below: format!("/{}", all.len()) });
    }
    Ok(Value::List(all))
}

/// Reads a value of a kind, not of a list.
#[inline(always)]
fn scalar<'a>(reader: &mut Reader<'a>, kind: Kind) -> std::result::Result<Value<'a>, Refusal> {
    // From 2^53 on, the digits of a double may not be exact.
    const INEXACT: f64 = 9_007_199_254_740_992.0;
    if kind == Kind::Any {
        return any_json(reader);
    }
    let text = |text: String| Ok(Value::Text(Cow::Owned(text)));
    match (reader.item()?, kind) {
        (Item::Null, _) => Ok(Value::Null),
        (Item::Text(text), _) => text_to(kind, text).map_err(|detail| Refusal::Unfit { detail, below: String::new() }),
        (Item::Boolean(boolean), Kind::Boolean) => Ok(Value::Boolean(boolean)),
        (Item::Boolean(boolean), Kind::Id | Kind::String) => text(boolean.to_string()),
        (Item::Integer(integer), Kind::Int) => Ok(Value::Int(integer)),
        (Item::Integer(integer), Kind::Float) => Ok(Value::Float(integer as f64)),
        (Item::Integer(integer), Kind::Id | Kind::String) => text(integer.to_string()),
        (Item::Unsigned(integer), Kind::Float) => Ok(Value::Float(integer as f64)),
        (Item::Unsigned(integer), Kind::Id | Kind::String) => text(integer.to_string()),
        (Item::Float(float), Kind::Float) => Ok(Value::Float(float)),
        (Item::Float(float), Kind::Int) if float.fract() == 0.0 && float.abs() < INEXACT => {
            Ok(Value::Int(float as i64))
        }
        (Item::Float(float), Kind::Id | Kind::String) if float.abs() < INEXACT => text(digits(float)),
        (other, _) => {
            let article = if kind == Kind::Int || kind == Kind::Id { "an" } else { "a" };
            Err(unfit(reader, other, &format!("{article} {kind:?}")))
        }
    }
}

/// Returns the refusal of an item of the wrong type. A list or an object is read to its end, because it may not be valid JSON.
fn unfit(reader: &mut Reader<'_>, item: Item<'_>, wanted: &str) -> Refusal {
    let given = match item {
        Item::Null => "null".to_owned(),
        Item::Boolean(boolean) => boolean.to_string(),
        Item::Integer(integer) => integer.to_string(),
        Item::Unsigned(integer) => integer.to_string(),
        Item::Float(float) => digits(float),
        Item::Beyond => "a number beyond the range of a double".to_owned(),
        Item::Text(_) => "a string".to_owned(),
        Item::List | Item::Object => match reader.skip() {
            Err(fault) => return fault.into(),
            Ok(_) if matches!(item, Item::List) => "a list".to_owned(),
            Ok(_) => "an object".to_owned(),
        },
    };
    Refusal::Unfit { detail: format!("{given} cannot be {wanted}"), below: String::new() }
}

fn digits(float: f64) -> String {
    ryu_js::Buffer::new().format_finite(float).to_owned()
}

/// Reads a value of type `Any`: JSON text without white space; `null` is [`Value::Null`].
fn any_json<'a>(reader: &mut Reader<'a>) -> std::result::Result<Value<'a>, Refusal> {
    match reader.skip()? {
        None => Err(Refusal::Unfit { detail: format!("nested deeper than {DEPTH}"), below: String::new() }),
        Some(("null", _)) => Ok(Value::Null),
        Some((text, spaced)) => {
            Ok(Value::Json(if spaced { Cow::Owned(without_spaces(text)) } else { Cow::Borrowed(text) }))
        }
    }
}

fn without_spaces(text: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let mut out = String::with_capacity(text.len());
    out.extend(text.chars().filter(|character| {
        let kept = in_text || !matches!(character, ' ' | '\n' | '\r' | '\t');
        in_text = if in_text { escaped || *character != '"' } else { *character == '"' };
        escaped = in_text && !escaped && *character == '\\';
        kept
    }));
    out
}

/// Converts text to a value of a kind.
pub(super) fn text_to(kind: Kind, text: Cow<'_, str>) -> std::result::Result<Value<'_>, String> {
    let refused = |text: &str| format!("{text:?} cannot be coerced to {kind:?}");
    match kind {
        Kind::Id | Kind::String => Ok(Value::Text(text)),
        Kind::Int => text.parse().map(Value::Int).map_err(|_| refused(&text)),
        Kind::Float => match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Value::Float(float)),
            _ => Err(refused(&text)),
        },
        Kind::Boolean => text.parse().map(Value::Boolean).map_err(|_| refused(&text)),
        Kind::Date => Date::parse(text).map(Value::Date),
        // Only the operation that writes the record knows whether this is the path of the existing blob.
        Kind::Blob => Ok(Value::Blob(Blob { path: text, upload: 0 })),
        Kind::Any => {
            let json = serde_json::to_string(&text).map_err(|error| error.to_string())?;
            Ok(Value::Json(Cow::Owned(json)))
        }
    }
}
