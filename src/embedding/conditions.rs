//! Queries made of values, not of text.

use std::fmt::Write as _;

use super::query::Query;
use super::table::Table;
use crate::encoding::Value;
use crate::error::{Error, Result};

/// The conditions, the order and the limits of a query, as they are added: all conditions must hold. Values are bound: whatever text one
/// has, it is compared as it is, without wildcards. They are coerced like values of the query language (an integer for a Float, text for a
/// Date).
///
/// ```
/// # let schema = strata::Schema::parse("type P @table { id: ID! @primaryKey  name: String  price: Float @indexed }")?;
/// # let database = strata::Database::temporary(&schema)?;
/// # let products = database.table("P")?;
/// # database.create(&products, strata::Json(r#"{"id": "a", "name": "o*", "price": 7}"#))?;
/// let query = products.query().eq("name", "o*").between("price", 5, 9).sort("-price").limit(10).build()?;
/// assert_eq!(query.count(&database.view())?, 1);
/// # Ok::<(), strata::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is no query before build()"]
pub struct Conditions {
    table: Table,
    /// As query text.
    text: String,
    /// Of the first value that no query can have.
    refused: Option<String>,
}

impl Conditions {
    pub(super) fn on(table: &Table) -> Self {
        Self { table: table.clone(), text: String::new(), refused: None }
    }

    /// The attribute equals the value, or a list contains it; null: it has none.
    pub fn eq<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "==", &value.into())
    }

    /// The attribute does not equal the value.
    pub fn ne<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "!=", &value.into())
    }

    /// The attribute is below the value.
    pub fn below<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "=lt=", &value.into())
    }

    /// The attribute is the value or below it.
    pub fn at_most<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "=le=", &value.into())
    }

    /// The attribute is above the value.
    pub fn above<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "=gt=", &value.into())
    }

    /// The attribute is the value or above it.
    pub fn at_least<'v>(self, attribute: &str, value: impl Into<Value<'v>>) -> Self {
        self.compare(attribute, "=ge=", &value.into())
    }

    /// The attribute lies between two values, or is one of them.
    pub fn between<'v>(self, attribute: &str, from: impl Into<Value<'v>>, to: impl Into<Value<'v>>) -> Self {
        self.at_least(attribute, from).at_most(attribute, to)
    }

    /// The text begins with this one.
    pub fn starts_with(self, attribute: &str, start: &str) -> Self {
        self.compare(attribute, "=sw=", &start.into())
    }

    /// The attribute equals one of the values, of which there is at least one.
    pub fn one_of<'v>(mut self, attribute: &str, values: impl IntoIterator<Item = impl Into<Value<'v>>>) -> Self {
        let (name, values) = (encoded(attribute), values.into_iter().map(|value| self.text_of(&value.into())));
        let mut texts: Vec<_> = values.collect();
        let before = texts.len();
        texts.retain(|text| !text.is_empty());
        // A list has no empty text.
        match (texts.len() < before, texts.is_empty()) {
            (true, true) => self.add(&format!("{name}==")),
            (true, false) => self.add(&format!("({name}=in=({})|{name}==)", texts.join(","))),
            (false, _) => self.add(&format!("{name}=in=({})", texts.join(","))),
        }
    }

    /// Sorts by attributes, `-` before one that shall be descending; those before are kept.
    pub fn sort(self, by: &str) -> Self {
        let by = by.split(',').map(|name| match name.strip_prefix('-') {
            Some(name) => format!("-{}", encoded(name)),
            None => encoded(name),
        });
        self.add(&format!("sort={}", by.collect::<Vec<_>>().join(",")))
    }

    /// Ends the list after so many records.
    pub fn limit(self, records: usize) -> Self {
        self.add(&format!("limit={records}"))
    }

    /// Passes over the first records of the list.
    pub fn offset(self, records: usize) -> Self {
        self.add(&format!("offset={records}"))
    }

    /// Checks it against the schema.
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute, a value is none that it could have, or it has no order.
    pub fn build(self) -> Result<Query> {
        match self.refused {
            Some(detail) => Err(Error::invalid(detail)),
            None => Query::parse(&self.table, self.text),
        }
    }

    fn compare(mut self, attribute: &str, operator: &str, value: &Value<'_>) -> Self {
        let value = self.text_of(value);
        self.add(&format!("{}{operator}{value}", encoded(attribute)))
    }

    fn text_of(&mut self, value: &Value<'_>) -> String {
        bound(value).unwrap_or_else(|detail| {
            self.refused.get_or_insert(detail);
            String::new()
        })
    }

    fn add(mut self, part: &str) -> Self {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(part);
        self
    }
}

/// Returns a value as the query language reads it literally.
///
/// # Errors
/// A message if it has no such value.
pub(super) fn bound(value: &Value<'_>) -> std::result::Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Int(value) => Ok(value.to_string()),
        Value::Float(value) if value.is_finite() => Ok(value.to_string()),
        Value::Float(value) => Err(format!("{value} is not a finite number")),
        Value::Text(text) => Ok(encoded(text)),
        Value::Date(date) => Ok(encoded(&date.text)),
        Value::Json(text) => Err(format!("a query compares values, not JSON text: {text}")),
        Value::Blob(_) => Err("a query does not compare blobs".to_owned()),
        Value::List(_) => Err("a query compares with one value at a time: use one_of".to_owned()),
    }
}

/// Encodes every byte, so that none of it is syntax: not a star, nor `null`, nor a prefix.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(3 * text.len()), |mut encoded, byte| {
        // Writing to a String cannot fail.
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}
