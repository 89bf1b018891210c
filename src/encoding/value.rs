//! A typed value, and how a JSON body becomes the values of a table.
//!
//! The body is read once, straight into the types that the schema names: no tree of JSON values stands between. What does not
//! fit is coerced where nothing is lost (`"42"` for an Int, `42` for a String, `"true"` for a Boolean) and otherwise refused
//! with a JSON pointer to the place.

use std::borrow::Cow;

use super::fields::Fields;
use super::json::{COLON, DEPTH, Fault, Item, Reader};
use super::names;
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Table};

/// The value of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// Of a Boolean.
    Boolean(bool),
    /// Of an Int.
    Int(i64),
    /// Of a Float; finite.
    Float(f64),
    /// Of an ID or a String.
    Text(Cow<'a, str>),
    /// Of a Date.
    Date(Date<'a>),
    /// Of an `Any`: JSON text without white space.
    Json(Cow<'a, str>),
    /// Of a list: its elements, none of them a list.
    List(Vec<Value<'a>>),
}

/// An instant, and the text it was written as.
#[derive(Clone, Debug, PartialEq)]
pub struct Date<'a> {
    /// ISO 8601 date or date-time, as it was given.
    pub text: Cow<'a, str>,
    /// Microseconds since 1970-01-01T00:00:00Z; a date alone is its midnight.
    pub microseconds: i64,
}

/// How many records an array may have in a body.
pub const RECORDS: usize = 10_000;

/// How many elements a list may have in a body.
pub const ELEMENTS: usize = 10_000;

/// Reads a JSON object.
///
/// # Errors
/// `Invalid`, with a JSON pointer where there is a place: not JSON, not an object, an unknown attribute, one named twice, a
/// value that cannot be coerced, a name twice inside an `Any`.
pub fn parse_object<'t, 'a>(table: &'t Table, body: &'a [u8]) -> Result<Fields<'t, 'a>> {
    parse(body, |reader| object(reader, table, String::new))
}

/// Reads a JSON array of at most [`RECORDS`] objects.
///
/// # Errors
/// As [`parse_object`], pointers beginning with the number of the element; `Invalid` at the first that is too many.
pub fn parse_array<'t, 'a>(table: &'t Table, body: &'a [u8]) -> Result<Vec<Fields<'t, 'a>>> {
    parse(body, |reader| {
        reader.take(b'[', "expected an array of objects")?;
        let mut all = Vec::new();
        while reader.next_element(all.is_empty())? {
            if all.len() == RECORDS {
                let detail = format!("an array has at most {RECORDS} records; send the rest in another request");
                return Err(Refused::Unfit(Error::invalid_at(format!("/{RECORDS}"), detail)));
            }
            all.push(object(reader, table, || format!("/{}", all.len()))?);
        }
        Ok(all)
    })
}

/// Reads the canonical JSON text of a value of an attribute.
///
/// # Errors
/// A sentence, if the text is not such a value.
pub(super) fn parse_canonical<'a>(attribute: &Attribute, text: &'a str) -> std::result::Result<Value<'a>, String> {
    let mut reader = Reader::new(text);
    let value = typed(&mut reader, attribute).and_then(|value| Ok(reader.end().map(|()| value)?));
    value.map_err(|refusal| match refusal {
        Refusal::NotJson(fault) => fault.describe(text),
        Refusal::Unfit { detail, .. } => detail,
    })
}

impl<'a> Date<'a> {
    /// The instant that an ISO 8601 date or date-time means; without an offset it is UTC.
    ///
    /// # Errors
    /// A sentence saying what is accepted.
    pub fn parse(text: impl Into<Cow<'a, str>>) -> std::result::Result<Self, String> {
        let text = text.into();
        Value::microseconds_of(&text).map(|microseconds| Self { text, microseconds })
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(integer: i64) -> Self {
        Self::Int(integer)
    }
}

impl From<f64> for Value<'_> {
    fn from(float: f64) -> Self {
        Self::Float(float)
    }
}

impl From<bool> for Value<'_> {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl<'a> From<Date<'a>> for Value<'a> {
    fn from(date: Date<'a>) -> Self {
        Self::Date(date)
    }
}

impl Value<'_> {
    /// Checks what an instant an ISO 8601 date or date-time means; without an offset it is UTC.
    ///
    /// # Errors
    /// A sentence saying what is accepted.
    pub fn microseconds_of(text: &str) -> std::result::Result<i64, String> {
        let refused = || format!("{text:?} is not an ISO 8601 date or date-time such as 2026-01-31T12:00:00Z");
        let plausible = text.len() >= 10 && text.bytes().all(|byte| b"0123456789-+:.TZ".contains(&byte));
        if !plausible {
            return Err(refused());
        }
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(instant.as_microsecond());
        }
        let civil: jiff::civil::DateTime = text.parse().map_err(|_| refused())?;
        let instant = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| refused())?;
        Ok(instant.timestamp().as_microsecond())
    }
}

/// Why a body is refused.
enum Refused {
    /// It is not the JSON that was expected.
    NotJson(Fault),
    /// Something in it is not what the schema wants.
    Unfit(Error),
}

/// Why a value is refused.
pub(super) enum Refusal {
    /// It is not JSON.
    NotJson(Fault),
    /// It does not fit its attribute.
    Unfit {
        detail: String,
        /// Where in the value it was: a JSON pointer, empty for the value itself.
        below: String,
    },
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault)
    }
}

fn parse<'a, T>(body: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> std::result::Result<T, Refused>) -> Result<T> {
    // Once for the whole body: whatever is cut out of it at its quotation marks is then text, too.
    let text = simdutf8::compat::from_utf8(body)
        .map_err(|error| Error::invalid_at("", format!("the body is not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut reader = Reader::new(text);
    let value = read(&mut reader).and_then(|value| Ok(reader.end().map(|()| value)?));
    value.map_err(|refused| match refused {
        Refused::NotJson(fault) => {
            Error::invalid_at("", format!("the body is not the JSON expected: {}", fault.describe(text)))
        }
        Refused::Unfit(error) => error,
    })
}

/// Reads an object; `pointer` leads to it.
fn object<'t, 'a>(
    reader: &mut Reader<'a>,
    table: &'t Table,
    pointer: impl Fn() -> String,
) -> std::result::Result<Fields<'t, 'a>, Refused> {
    let unfit = |name: &str, below: &str, detail: String| {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Refused::Unfit(Error::invalid_at(format!("{}/{escaped}{below}", pointer()), detail))
    };
    reader.take(b'{', "expected an object with the attributes of the table")?;
    let mut fields = Fields::of(table);
    let values = fields.values_mut();
    let (mut first, mut expected) = (true, 0); // Bodies mostly name the attributes in the schema's order: look there first.
    while reader.next_member(first)? {
        let position = match table.attributes[expected..].first() {
            Some(attribute) if reader.take_name(&attribute.name) => expected,
            _ => {
                let name = reader.text()?;
                table
                    .attribute(&name)
                    .ok_or_else(|| unfit(&name, "", format!("table {} has no attribute {name:?}", table.name)))?
            }
        };
        let attribute = &table.attributes[position];
        if values[position].is_some() {
            return Err(unfit(&attribute.name, "", format!("attribute {:?} is given twice", attribute.name)));
        }
        reader.take(b':', COLON)?;
        values[position] = Some(given(reader, attribute).map_err(|refusal| match refusal {
            Refusal::NotJson(fault) => Refused::NotJson(fault),
            Refusal::Unfit { detail, below } => unfit(&attribute.name, &below, detail),
        })?);
        (first, expected) = (false, position + 1);
    }
    Ok(fields)
}

/// Reads a value of an attribute out of a body: what is stored may have been accepted before names
/// were looked at and elements counted.
pub(super) fn given<'a>(reader: &mut Reader<'a>, attribute: &Attribute) -> std::result::Result<Value<'a>, Refusal> {
    let value = typed(reader, attribute)?;
    if attribute.kind == Kind::Any
        && let Some(below) = names::repeated(&value)
    {
        return Err(Refusal::Unfit { detail: "a name is given twice".to_owned(), below });
    }
    if matches!(&value, Value::List(elements) if elements.len() > ELEMENTS) {
        let below = format!("/{ELEMENTS}");
        return Err(Refusal::Unfit { detail: format!("a list has at most {ELEMENTS} elements"), below });
    }
    Ok(value)
}

/// Takes a value of an attribute if it is seen at once that its text is canonical, and returns its copy of fixed width (zero if
/// the attribute has none). Else takes nothing, and [`typed`] knows more.
#[inline]
pub(super) fn take_canonical(reader: &mut Reader<'_>, attribute: &Attribute) -> Option<[u8; 8]> {
    // Powers of ten are exact as doubles, and so is a number of 15 digits: their quotient is the nearest double. What has more
    // decimals may be so small that it is written with an exponent.
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
        Kind::Date | Kind::Any => None,
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

/// Reads a value of a kind that is no list.
#[inline(always)]
fn scalar<'a>(reader: &mut Reader<'a>, kind: Kind) -> std::result::Result<Value<'a>, Refusal> {
    // From here on a double may stand for digits that it does not have.
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

/// That an item cannot be what is wanted. A list or an object is read to its end, because it may not be JSON.
fn unfit(reader: &mut Reader<'_>, item: Item<'_>, wanted: &str) -> Refusal {
    let given = match item {
        Item::Null => "null".to_owned(),
        Item::Boolean(boolean) => boolean.to_string(),
        Item::Integer(integer) => integer.to_string(),
        Item::Unsigned(integer) => integer.to_string(),
        Item::Float(float) => digits(float),
        Item::Beyond => "a number that no double can hold".to_owned(),
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

/// A value of a kind out of text.
fn text_to(kind: Kind, text: Cow<'_, str>) -> std::result::Result<Value<'_>, String> {
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
        Kind::Any => {
            let json = serde_json::to_string(&text).map_err(|error| error.to_string())?;
            Ok(Value::Json(Cow::Owned(json)))
        }
    }
}

#[cfg(test)]
mod tests;
