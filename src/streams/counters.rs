//! Counters of what was done with streams.

use serde::Serialize;

use super::{RequestKind, Streams};
use crate::storage::Striped;

/// Counters since the streams were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Appends of one event that were answered.
    pub appends: u64,
    /// Appends of a list of events that were answered.
    pub bulks: u64,
    /// Events that were appended, in batches with tables too.
    pub events: u64,
    /// Their bytes as they are stored.
    pub event_bytes: u64,
    /// Events that were there before, by their idempotency keys.
    pub duplicates: u64,
    /// Appends that were refused for lack of room or time (503, 507).
    pub refused: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Events that reads have returned.
    pub events_read: u64,
    /// Events that subscribers have taken.
    pub delivered: u64,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(super) events: Striped,
    pub(super) event_bytes: Striped,
    pub(super) duplicates: Striped,
    pub(crate) refused: Striped,
    pub(crate) delivered: Striped,
}

impl Streams {
    /// Returns counters since the streams were opened.
    pub fn counters(&self) -> Counters {
        let counts = self.counts();
        let [appends, ..] = self.sums(RequestKind::Append);
        let [bulks, ..] = self.sums(RequestKind::Bulk);
        let [reads, events_read, ..] = self.sums(RequestKind::Read);
        Counters {
            appends,
            bulks,
            events: counts.events.sum(),
            event_bytes: counts.event_bytes.sum(),
            duplicates: counts.duplicates.sum(),
            refused: counts.refused.sum(),
            reads,
            events_read,
            delivered: counts.delivered.sum(),
        }
    }

    /// Returns how many readers and subscribers wait for an event.
    pub fn waiting(&self) -> usize {
        self.0.waiting.number()
    }

    /// Returns where it is counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }
}
