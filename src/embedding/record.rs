//! A record as a program reads it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::encoding::record::Current;
use crate::encoding::{self, Value};
use crate::error::{Error, Result};
use crate::storage::Pinned;
use crate::transaction::Read;

/// A record that was read or written. Reading one by id copies nothing: it stays in the engine's memory, pinned.
#[derive(Clone)]
pub struct Record<'a>(encoding::Record<'a, Stored<'a>>);

/// Where the bytes of a record are.
enum Stored<'a> {
    Pinned(Current<Pinned<'a>>),
    Owned(Vec<u8>),
    Shared(Bytes),
    Borrowed(&'a [u8]),
}

impl AsRef<[u8]> for Stored<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Pinned(bytes) => bytes.as_ref(),
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Borrowed(bytes) => bytes,
        }
    }
}

impl Clone for Stored<'_> {
    fn clone(&self) -> Self {
        match self {
            Self::Pinned(bytes) => Self::Owned(bytes.as_ref().to_vec()),
            Self::Owned(bytes) => Self::Owned(bytes.clone()),
            Self::Shared(bytes) => Self::Shared(bytes.clone()),
            Self::Borrowed(bytes) => Self::Borrowed(bytes),
        }
    }
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0.table().name, String::from_utf8_lossy(self.json()))
    }
}

impl<'a> Record<'a> {
    #[inline]
    pub(super) fn pinned(record: Read<'a, 'a>) -> Self {
        Self(record.map(Stored::Pinned))
    }

    pub(super) fn owned(record: encoding::Record<'a, Vec<u8>>) -> Self {
        Self(record.map(Stored::Owned))
    }

    pub(super) fn borrowed(record: encoding::Record<'a, &'a [u8]>) -> Self {
        Self(record.map(Stored::Borrowed))
    }

    pub(super) fn shared(record: encoding::Record<'a, Bytes>) -> Self {
        Self(record.map(Stored::Shared))
    }
}

impl Record<'_> {
    /// Returns its id.
    ///
    /// # Errors
    /// `Corrupt`, which would be a defect.
    pub fn id(&self) -> Result<Cow<'_, str>> {
        self.0.id()
    }

    /// Returns its JSON text as it is stored: all attributes in the order of the schema, without white space.
    pub fn json(&self) -> &[u8] {
        self.0.json()
    }

    /// Returns it as a value of a type that serde can deserialise.
    ///
    /// # Errors
    /// `Mismatch` if it is none of the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.json()).map_err(|error| {
            let id = self.id().map(Cow::into_owned).unwrap_or_default();
            Error::Mismatch { id, detail: error.to_string() }
        })
    }

    /// Returns the value of an attribute.
    ///
    /// ```
    /// # let database = strata::Database::temporary(&strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?)?;
    /// # let table = database.table("T")?;
    /// let record = database.create(&table, strata::Json(r#"{"id": "a", "n": 5}"#))?;
    /// assert_eq!(record.get("n")?.as_i64(), Some(5));
    /// assert!(record.get("m").is_err());
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if there is no such attribute.
    pub fn get(&self, attribute: &str) -> Result<Value<'_>> {
        let table = self.0.table();
        let position = table.attribute(attribute);
        let missing = || Error::invalid(format!("table {} has no attribute {attribute:?}", table.name));
        self.0.value(position.ok_or_else(missing)?)
    }

    /// Returns the value of the attribute at a position ([`Table::attribute`](crate::Table::attribute)).
    ///
    /// # Errors
    /// `Invalid` if there is none.
    pub fn at(&self, attribute: usize) -> Result<Value<'_>> {
        self.0.value(attribute)
    }

    /// Returns its checksum, which changes with every write, as a [`Precondition`](crate::Precondition) names it.
    pub fn checksum(&self) -> u64 {
        self.0.checksum()
    }

    /// Returns when it expires, in microseconds since 1970; `None`: never.
    ///
    /// # Errors
    /// `Corrupt`, which would be a defect.
    pub fn expires_at(&self) -> Result<Option<i64>> {
        self.0.expires_at()
    }
}
