//! A multicast in the log: a record of the table of messages, which is written only to stand there.

use std::borrow::Cow;

use memchr::memmem;

use crate::encoding::Record;
use crate::encoding::record::Current;
use crate::encoding::value::Value;
use crate::error::{Error, Result};
use crate::schema::{MESSAGES, Schema, Table};

/// The table of messages.
#[derive(Clone, Copy)]
pub(super) struct Messages<'s> {
    table: &'s Table,
    target: usize,
    ids: usize,
    body: usize,
}

/// A message with its targets.
pub(super) struct Multicast<'s, 'b> {
    messages: Messages<'s>,
    record: Record<'s, Current<&'b [u8]>>,
    /// The number of the table of its targets.
    pub(super) table: u32,
}

impl<'s> Messages<'s> {
    /// Returns the table of messages of a schema; `None` if it has no multicasts.
    pub(super) fn of(schema: &'s Schema) -> Option<Self> {
        let table = schema.table(MESSAGES)?;
        let position = |name| table.attribute(name).expect("the schema gives it these attributes");
        Some(Self { table, target: position("target"), ids: position("ids"), body: position("body") })
    }

    /// Returns the number of the table.
    pub(super) fn number(&self) -> u32 {
        self.table.id
    }

    /// Returns a message from its stored bytes.
    ///
    /// # Errors
    /// `Corrupt` if they are damaged.
    pub(super) fn open<'b>(self, stored: &'b [u8]) -> Result<Multicast<'s, 'b>> {
        let record = Record::open(self.table, stored)?;
        let table = match record.value(self.target)? {
            Value::Int(number) => u32::try_from(number).map_err(|_| damaged())?,
            _ => return Err(damaged()),
        };
        Ok(Multicast { messages: self, record, table })
    }
}

impl Multicast<'_, '_> {
    /// Returns its id.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn id(&self) -> Result<Cow<'_, str>> {
        self.record.id()
    }

    /// Returns the JSON text of its body.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn body(&self) -> Result<&[u8]> {
        self.record.json_of(self.messages.body)
    }

    /// Returns the ids of its targets, ascending.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn targets(&self) -> Result<Vec<Cow<'_, str>>> {
        let Value::List(ids) = self.record.value(self.messages.ids)? else { return Err(damaged()) };
        let text = |id| if let Value::Text(id) = id { Ok(id) } else { Err(damaged()) };
        ids.into_iter().map(text).collect()
    }

    /// Returns whether a record of its table is a target. Of most that are none, that is seen without reading the whole list.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn is_for(&self, id: &str) -> Result<bool> {
        let quoted = serde_json::to_vec(id).expect("a text is JSON");
        let may_be = memmem::find(self.record.json_of(self.messages.ids)?, &quoted).is_some();
        Ok(may_be && self.targets()?.binary_search_by(|target| (**target).cmp(id)).is_ok())
    }
}

fn damaged() -> Error {
    Error::corrupt("the log has a message without a table or without targets")
}
