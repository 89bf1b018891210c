//! Checks that a query may be run on a table.
//!
//! The positions in a query are those of the table that it was parsed for, which its filter remembers. What a caller has put together
//! ([`Query::equal`], [`Selection::show_attribute`], an [`Order`]) was not compared with any schema yet.

use super::tree::{Condition, Filter, Item, Node, Order, Query, Selection, Test};
use crate::encoding::Value;
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Schema, Table};
use crate::transaction::Database;

impl Query<'_> {
    /// Checks that the query may be run on a table of a database.
    ///
    /// # Errors
    /// `Invalid` if the table is not one of the database, the query was parsed for another table, its cursor belongs to another query, or
    /// one of its positions or values does not fit the table.
    pub(crate) fn check(&self, database: &Database, table: &Table) -> Result<()> {
        database.check_issued(table)?;
        self.check_for(database.schema(), table)
    }

    /// Checks that the query may be run on records of a table of a schema, wherever they are.
    ///
    /// # Errors
    /// As [`Query::check`].
    pub(super) fn check_for(&self, schema: &Schema, table: &Table) -> Result<()> {
        if !self.filter.is_for(table) {
            return Err(self.parsed_for_another(schema, table));
        }
        self.check_conditions_and_sort(table)?;
        self.select.iter().try_for_each(|selection| selection.check(schema, table))?;
        // A cursor in the text was checked when it was parsed.
        match self.clauses.iter().any(|clause| clause.name == "after") {
            true => Ok(()),
            false => self.check_cursor(table),
        }
    }

    /// Returns whether the conditions and the sort fit a table.
    pub(super) fn fits(&self, table: &Table) -> bool {
        self.check_conditions_and_sort(table).is_ok()
    }

    fn check_conditions_and_sort(&self, table: &Table) -> Result<()> {
        self.filter.check(table)?;
        self.sort.iter().try_for_each(|order| order.check(table))
    }

    #[cold]
    fn parsed_for_another(&self, schema: &Schema, table: &Table) -> Error {
        let parsed_for = schema.tables.iter().find(|other| self.filter.table == Some(other.identity));
        let other =
            parsed_for.map_or_else(|| "a table of another schema".to_owned(), |other| format!("table {}", other.name));
        Error::invalid(format!("the query was parsed for {other}, not for table {}", table.name))
    }
}

impl Filter<'_> {
    /// Returns whether it was parsed for a table, or not at all.
    fn is_for(&self, table: &Table) -> bool {
        self.table.is_none_or(|parsed_for| parsed_for == table.identity)
    }

    /// Checks that the conditions fit a table.
    pub(super) fn check(&self, table: &Table) -> Result<()> {
        if !self.is_for(table) {
            return Err(Error::invalid(format!("the filter was not parsed for table {}", table.name)));
        }
        if self.table.is_some() {
            return Ok(());
        }
        self.nodes.iter().try_for_each(|node| match node {
            Node::Is(Condition { attribute, test: Test::Equal(value), .. }) => {
                let attribute = table.attribute_at(*attribute)?;
                match can_equal(attribute, value) {
                    true => Ok(()),
                    false => {
                        let (name, kind) = (&attribute.name, attribute.kind.name());
                        Err(Error::invalid(format!(
                            "{name} of table {} is of type {kind}: it cannot equal {value:?}",
                            table.name
                        )))
                    }
                }
            }
            Node::Is(Condition { attribute, .. }) => table.attribute_at(*attribute).map(drop),
            Node::All(_) | Node::Any(_) | Node::Not | Node::Related(_) => Ok(()),
        })
    }
}

/// Returns whether a value is of a type with which an attribute, or an element of it, is compared.
fn can_equal(attribute: &Attribute, value: &Value<'_>) -> bool {
    match (attribute.kind, value) {
        (Kind::Int | Kind::Float | Kind::Any, Value::Float(float)) => float.is_finite(),
        (Kind::Int | Kind::Float | Kind::Any, Value::Int(_))
        | (Kind::Id | Kind::String | Kind::Any, Value::Text(_))
        | (Kind::Boolean | Kind::Any, Value::Boolean(_))
        | (Kind::Date | Kind::Any, Value::Date(_)) => true,
        _ => false,
    }
}

impl Order {
    fn check(self, table: &Table) -> Result<()> {
        let attribute = table.attribute_at(self.attribute)?;
        match attribute.is_sortable() {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("cannot sort by {}: lists, Any and Blob have no order", attribute.name)))
            }
        }
    }
}

impl Selection {
    /// Checks that it was parsed for a table, or that its attributes and relationships exist.
    fn check(&self, schema: &Schema, table: &Table) -> Result<()> {
        if self.table.is_some_and(|parsed_for| parsed_for != table.identity) {
            return Err(Error::invalid(format!("the selection was not parsed for table {}", table.name)));
        }
        self.items.iter().try_for_each(|item| match item.unnamed() {
            Item::Attribute(attribute) => table.attribute_at(*attribute).map(drop),
            Item::Related(relationship, selection) => match table.relationships.get(*relationship) {
                Some(relationship) => selection.check(schema, &schema.tables[relationship.table]),
                None => Err(Error::invalid(format!("table {} has no relationship {relationship}", table.name))),
            },
            Item::Text(_) | Item::Named(..) => Ok(()),
        })
    }
}
