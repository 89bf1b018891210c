//! Queries made of values, not of text.

use super::query::{Query, bound};
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
    order: Vec<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    /// The first name or value that no query can have.
    refused: Option<String>,
}

impl Conditions {
    pub(super) fn on(table: &Table) -> Self {
        let (text, order) = (String::new(), Vec::new());
        Self { table: table.clone(), text, order, limit: None, offset: None, refused: None }
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

    /// The attribute, or an element of a list, lies between two values, or is one of them.
    pub fn between<'v>(self, attribute: &str, from: impl Into<Value<'v>>, to: impl Into<Value<'v>>) -> Self {
        self.compare_all(attribute, "=gele=", &[from.into(), to.into()])
    }

    /// The text begins with this one.
    pub fn starts_with(self, attribute: &str, start: &str) -> Self {
        self.compare(attribute, "=sw=", &start.into())
    }

    /// The attribute equals one of the values, of which there is at least one.
    pub fn one_of<'v>(self, attribute: &str, values: impl IntoIterator<Item = impl Into<Value<'v>>>) -> Self {
        let values: Vec<_> = values.into_iter().map(Into::into).collect();
        self.compare_all(attribute, "=in=", &values)
    }

    /// Sorts by an attribute, with `-` before it descending; by what was given before first.
    pub fn sort(mut self, by: &str) -> Self {
        let (sign, name) = by.strip_prefix('-').map_or(("", by), |name| ("-", name));
        let name = self.name(name);
        self.order.push(format!("{sign}{name}"));
        self
    }

    /// Ends the list after so many records.
    pub fn limit(mut self, records: usize) -> Self {
        self.limit = Some(records);
        self
    }

    /// Passes over the first records of the list.
    pub fn offset(mut self, records: usize) -> Self {
        self.offset = Some(records);
        self
    }

    /// Checks it against the schema.
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute, a value is none that it could have, or it has no order.
    pub fn build(self) -> Result<Query> {
        if let Some(detail) = self.refused {
            return Err(Error::invalid(detail));
        }
        let order = (!self.order.is_empty()).then(|| format!("sort={}", self.order.join(",")));
        let limit = self.limit.map(|records| format!("limit={records}"));
        let offset = self.offset.map(|records| format!("offset={records}"));
        let conditions = Some(self.text).filter(|text| !text.is_empty());
        let parts: Vec<_> = [conditions, order, limit, offset].into_iter().flatten().collect();
        Query::parse(&self.table, parts.join("&"))
    }

    fn compare(self, attribute: &str, operator: &str, value: &Value<'_>) -> Self {
        self.compare_all(attribute, operator, std::slice::from_ref(value))
    }

    fn compare_all(mut self, attribute: &str, operator: &str, values: &[Value<'_>]) -> Self {
        let name = self.name(attribute);
        let texts = values.iter().map(|value| bound(value, operator));
        match texts.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(texts) => {
                let joint = if self.text.is_empty() { "" } else { "&" };
                self.text.push_str(&format!("{joint}{name}{operator}{}", texts.join(",")));
            }
            Err(detail) => drop(self.refused.get_or_insert(detail)),
        }
        self
    }

    /// Returns a name as it stands in a query. Whatever is read there as syntax is refused, since it would be another query.
    fn name(&mut self, name: &str) -> String {
        if name.is_empty() || !name.chars().all(|letter| letter.is_alphanumeric() || "_.-".contains(letter)) {
            let detail = format!("{name:?} is not the name of an attribute of table {}", self.table.name());
            self.refused.get_or_insert(detail);
        }
        name.to_owned()
    }
}
