//! The values to write into a record, by attribute name, validated against the schema as they are given.
//!
//! [`body::parse_object`](super::body::parse_object) converts a JSON body to fields, with coercion; a program that embeds the store gives
//! typed values, which are not coerced: an Int for a Float is rejected like text for a Boolean.

use std::borrow::Cow;

use super::coerce::{ELEMENTS, Refusal, given};
use super::json::Reader;
use super::value::{Date, Value};
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Table};

/// The deadline of a record that does not expire.
pub const NEVER: i64 = i64::MAX;

/// Values of some attributes of a table, each at most once; the others are absent.
///
/// ```
/// # use strata::{encoding::Fields, error::Result, schema::{Schema, Table}};
/// # fn ann(user: &Table) -> Result<Fields<'_, 'static>> {
/// Fields::of(user).with("name", "Ann")?.with("points", 5)?.with("rating", 2.5)
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'t, 'v> {
    table: &'t Table,
    /// One element per attribute, in schema order.
    values: Vec<Option<Value<'v>>>,
    /// The expiry of the record to write, in a table with an expiration: microseconds since 1970.
    deadline: i64,
}

impl<'t, 'v> Fields<'t, 'v> {
    /// Returns an empty set of values.
    pub fn of(table: &'t Table) -> Self {
        let mut values = Vec::new();
        values.resize_with(table.attributes.len(), || None);
        Self { table, values, deadline: NEVER }
    }

    /// Sets the value of an attribute, replacing any previous one.
    ///
    /// # Errors
    /// `Invalid`, with a JSON pointer: there is no such attribute; the value is of another type, not finite, a date whose text denotes
    /// another instant, not JSON, or a list of too many elements.
    pub fn with(mut self, attribute: &str, value: impl Into<Value<'v>>) -> Result<Self> {
        let place = |below: &str| format!("/{}{below}", attribute.replace('~', "~0").replace('/', "~1"));
        let position = self.table.attribute(attribute).ok_or_else(|| {
            Error::invalid_at(place(""), format!("table {} has no attribute {attribute:?}", self.table.name))
        })?;
        let checked = checked(&self.table.attributes[position], value.into());
        self.values[position] = Some(checked.map_err(|(below, detail)| Error::invalid_at(place(&below), detail))?);
        Ok(self)
    }

    /// Returns the table of the attributes.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// Returns the values in schema order; `None` for absent attributes.
    pub fn values(&self) -> &[Option<Value<'v>>] {
        &self.values
    }

    /// Converts the values so that they borrow nothing.
    pub fn into_owned(self) -> Fields<'t, 'static> {
        let values = self.values.into_iter().map(|value| value.map(Value::into_owned)).collect();
        Fields { table: self.table, values, deadline: self.deadline }
    }

    /// Returns the same values by another reference to their table.
    ///
    /// # Errors
    /// `Invalid` if it is another table.
    pub(crate) fn of_same<'s>(&self, table: &'s Table) -> Result<Fields<'s, 'v>> {
        match std::ptr::eq(self.table, table) {
            true => Ok(Fields { table, values: self.values.clone(), deadline: self.deadline }),
            false => {
                let (name, other) = (&table.name, &self.table.name);
                Err(Error::invalid(format!("values of table {other} are none of table {name}")))
            }
        }
    }

    /// Returns the expiry of the record, in a table with an expiration.
    pub(crate) fn deadline(&self) -> i64 {
        self.deadline
    }

    /// Sets the expiry of the record.
    pub(crate) fn set_deadline(&mut self, microseconds: i64) {
        self.deadline = microseconds;
    }

    /// Returns the values for callers that ensure that a value fits its attribute.
    pub(crate) fn values_mut(&mut self) -> &mut [Option<Value<'v>>] {
        &mut self.values
    }
}

/// Validates a value for storage; on failure, returns a pointer into it and the cause.
fn checked<'v>(attribute: &Attribute, value: Value<'v>) -> std::result::Result<Value<'v>, (String, String)> {
    let elements = match value {
        Value::Null => return Ok(Value::Null),
        Value::List(elements) if attribute.list => elements,
        value if attribute.list => {
            return Err((String::new(), format!("{} cannot be a list of {:?}", name(&value), attribute.kind)));
        }
        value => return scalar(attribute, value).map_err(|detail| (String::new(), detail)),
    };
    if elements.len() > ELEMENTS {
        return Err((format!("/{ELEMENTS}"), format!("a list has at most {ELEMENTS} elements")));
    }
    let checked = elements.into_iter().enumerate().map(|(position, element)| match element {
        Value::Null => Err((format!("/{position}"), "null cannot be an element of a list".to_owned())),
        element => scalar(attribute, element).map_err(|detail| (format!("/{position}"), detail)),
    });
    checked.collect::<std::result::Result<_, _>>().map(Value::List)
}

fn scalar<'v>(attribute: &Attribute, value: Value<'v>) -> std::result::Result<Value<'v>, String> {
    match (attribute.kind, value) {
        (Kind::Float, Value::Float(float)) if !float.is_finite() => Err(format!("{float} cannot be a Float")),
        (Kind::Date, Value::Date(date)) if Date::parse(&*date.text)?.microseconds != date.microseconds => {
            Err(format!("{:?} does not denote the instant of {} microseconds", date.text, date.microseconds))
        }
        (Kind::Any, Value::Json(text)) => json(attribute, text),
        (Kind::Blob, _) => Err("a Blob is not a value: upload its bytes".to_owned()),
        (Kind::Id | Kind::String, value @ Value::Text(_))
        | (Kind::Int, value @ Value::Int(_))
        | (Kind::Float, value @ Value::Float(_))
        | (Kind::Boolean, value @ Value::Boolean(_))
        | (Kind::Date, value @ Value::Date(_)) => Ok(value),
        (kind, value) => {
            let article = if matches!(kind, Kind::Int | Kind::Id | Kind::Any) { "an" } else { "a" };
            Err(format!("{} cannot be {article} {kind:?}", name(&value)))
        }
    }
}

/// Returns JSON text as it is stored: without white space.
fn json<'v>(attribute: &Attribute, text: Cow<'v, str>) -> std::result::Result<Value<'v>, String> {
    let mut reader = Reader::new(&text);
    let read = given(&mut reader, attribute).and_then(|value| Ok(reader.end().map(|()| value)?));
    let stored = match read {
        Ok(Value::Json(stored)) if stored == text => None,
        Ok(Value::Json(stored)) => Some(stored.into_owned()),
        Ok(_) => return Ok(Value::Null),
        Err(Refusal::NotJson(fault)) => return Err(format!("it is not JSON: {}", fault.describe(&text))),
        Err(Refusal::Unfit { detail, .. }) => return Err(detail),
    };
    Ok(Value::Json(stored.map_or(text, Cow::Owned)))
}

/// Returns a description of the type of a value.
fn name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Boolean(_) => "a Boolean",
        Value::Int(_) => "an Int",
        Value::Float(_) => "a Float",
        Value::Text(_) => "a String",
        Value::Date(_) => "a Date",
        Value::Blob(_) => "a Blob",
        Value::Json(_) => "JSON text",
        Value::List(_) => "a list",
    }
}

#[cfg(test)]
mod tests;
