//! Event streams as handles, and the events that are written to them and read from them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::row::text_of;
use crate::error::{Error, Result};
use crate::schema;

/// A stream of an open database, by which all verbs address it. Clones are cheap; none keeps the database open.
#[derive(Clone)]
pub struct Stream {
    schema: Arc<schema::Schema>,
    position: usize,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.name())
    }
}

impl Stream {
    pub(super) fn named(schema: &Arc<schema::Schema>, name: &str) -> Result<Self> {
        let position = schema.streams.iter().position(|stream| stream.name == name);
        let position = position.ok_or_else(|| Error::NotFound { detail: format!("there is no stream {name}") })?;
        Ok(Self { schema: Arc::clone(schema), position })
    }

    pub(super) fn inner(&self) -> &schema::Stream {
        &self.schema.streams[self.position]
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// Returns the number of its partitions.
    pub fn partitions(&self) -> u32 {
        self.inner().partitions
    }
}

/// An event to be appended.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Append {
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_offset: Option<u64>,
}

impl Append {
    /// Makes an event of a value that serde can serialise.
    ///
    /// # Errors
    /// `Invalid`, with a JSON pointer, at a number that is not finite, or if the type cannot be serialised.
    pub fn of<T: Serialize + ?Sized>(payload: &T) -> Result<Self> {
        Self::json(&String::from_utf8_lossy(&text_of(payload)?))
    }

    /// Makes an event of JSON text.
    ///
    /// # Errors
    /// `Invalid` if it is not JSON.
    pub fn json(payload: &str) -> Result<Self> {
        let payload = serde_json::from_str(payload)
            .map_err(|error| Error::invalid_at("/payload", format!("it is not JSON: {error}")))?;
        Ok(Self { payload: Some(payload), ..Self::default() })
    }

    /// Chooses the partition; else the key does, or they take turns.
    #[must_use]
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Says what the event is about: events with one key stand in one partition.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Gives the event's own time, in milliseconds since 1970.
    #[must_use]
    pub fn timestamp_ms(mut self, milliseconds: u64) -> Self {
        self.timestamp_ms = Some(milliseconds);
        self
    }

    /// Has a second event with this key not appended.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Has the event appended at this offset only.
    #[must_use]
    pub fn expected_offset(mut self, offset: u64) -> Self {
        self.expected_offset = Some(offset);
        self
    }

    pub(super) fn body(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be serialised")
    }
}

/// An event that was read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// Its partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Its time, in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// When it was appended, in milliseconds since 1970.
    pub ingested_ms: u64,
    /// What it is about.
    pub key: Option<String>,
    /// The key by which it is appended once.
    pub idempotency_key: Option<String>,
    payload: Box<RawValue>,
}

impl Event {
    /// Returns its payload as JSON text.
    pub fn json(&self) -> &str {
        self.payload.get()
    }

    /// Returns its payload as a value of a type that serde can deserialise.
    ///
    /// # Errors
    /// `Mismatch` if it is none of the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.json()).map_err(|error| {
            let detail = format!("event {} of partition {}: {error}", self.offset, self.partition);
            Error::Mismatch { id: String::new(), detail }
        })
    }
}

/// Events of a partition, and what it has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Events {
    /// The events, by offset.
    pub events: Vec<Event>,
    /// The offset behind them.
    pub next: u64,
    /// The first offset that is kept.
    pub low: u64,
    /// The offset of the next event that is appended.
    pub high: u64,
}
