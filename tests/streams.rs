//! Streams through their own door: offsets without a gap, each idempotency key once, whatever happens in between.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod checks;
mod model;
mod room;
mod threads;
mod trims;
mod windows;

use std::path::Path;

use serde_json::Value as Json;
use strata::error::Result;
use strata::schema::{Schema, Stream};
use strata::storage::Options;
use strata::streams::{Event, Page, Start, Streams};
use strata::transaction::Database;

/// One event as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub offset: u64,
    pub ingested_ms: u64,
    pub key: Option<String>,
    pub idempotency_key: Option<String>,
    pub payload: String,
}

/// A store with its streams.
pub struct Opened {
    pub database: Database,
    pub streams: Streams,
}

impl Opened {
    pub fn at(directory: &Path, sdl: &str) -> Self {
        Self::try_at(directory, sdl).unwrap()
    }

    pub fn try_at(directory: &Path, sdl: &str) -> Result<Self> {
        let options = Options { cache_bytes: 8 << 20, write_buffer_bytes: 256 << 10, ..Options::default() };
        let database = Database::open(directory, Schema::parse(sdl)?, &options)?;
        let streams = Streams::open(&database)?;
        Ok(Self { database, streams })
    }

    pub fn stream(&self, name: &str) -> &Stream {
        self.database.schema().stream(name).unwrap()
    }

    /// Reads all events of a partition from an offset, in pages of at most so many.
    pub fn read_from(&self, stream: &Stream, partition: u32, from: Start, most: usize) -> Result<(Vec<Read>, Page)> {
        let (mut all, mut from) = (Vec::new(), from);
        loop {
            let (events, page) = self.page(stream, partition, from, most)?;
            all.extend(events);
            if page.next >= page.watermarks.high {
                return Ok((all, page));
            }
            from = Start::Offset(page.next);
        }
    }

    pub fn page(&self, stream: &Stream, partition: u32, from: Start, most: usize) -> Result<(Vec<Read>, Page)> {
        let mut out = b"[".to_vec();
        let page = self.streams.read(&self.database, stream, partition, from, (most, 1 << 20), &mut out)?;
        out.push(b']');
        let records: Vec<Json> = serde_json::from_slice(&out).unwrap();
        assert_eq!(records.len(), page.events);
        let read = records.iter().map(|record| {
            assert_eq!(record["partition"], partition);
            let text = |name: &str| record[name].as_str().map(str::to_owned);
            Read {
                offset: record["offset"].as_u64().unwrap(),
                ingested_ms: record["ingestedMs"].as_u64().unwrap(),
                key: text("key"),
                idempotency_key: text("idempotencyKey"),
                payload: record["payload"].to_string(),
            }
        });
        Ok((read.collect(), page))
    }
}

/// An event with this payload for a partition.
pub fn event(payload: &str, partition: u32) -> Event<'_> {
    Event { payload, partition: Some(partition), ..Event::default() }
}
