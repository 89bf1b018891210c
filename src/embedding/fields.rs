//! Values of attributes, given by name.

use super::row::{Row, sealed};
use super::table::Table;
use crate::encoding::{self, Value};
use crate::error::Result;
use crate::transaction::Body;

/// Values of some attributes of a table, each checked as it is given, without coercion: an Int is no text. A row ([`Row`]) in itself.
#[derive(Clone, Debug)]
pub struct Fields<'v>(pub(super) encoding::Fields<'v, 'v>);

impl<'v> Fields<'v> {
    pub(super) fn of(table: &'v Table) -> Self {
        Self(encoding::Fields::of(table.inner()))
    }

    /// Sets the value of an attribute, replacing any previous one; `None` is null.
    ///
    /// # Errors
    /// `Invalid`, with a JSON pointer: there is no such attribute, or it cannot have this value.
    pub fn with(self, attribute: &str, value: impl Into<Value<'v>>) -> Result<Self> {
        self.0.with(attribute, value).map(Self)
    }
}

impl<'v> sealed::Row<'v> for Fields<'v> {
    fn body(self) -> Result<Body<'v>> {
        Ok(Body::Fields(self.0))
    }
}

impl<'v> Row<'v> for Fields<'v> {}
