//! One index of a table, and its build state.
//!
//! The definition of an index is part of the schema and does not change while a store is open. Its build state does: an index that is added
//! to a table with records is built while requests are served. So its [`IndexState`] is shared by all clones of a schema, and it depends on
//! the snapshot: one that is older than the end of the build may lack entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its number in keys; unique within the store.
    pub id: u32,
    /// Position of the attribute in [`Table::attributes`](super::Table::attributes), or of the first one in a composite index. For an
    /// expiry index without an attribute that gives the expiry, of the primary key.
    pub attribute: usize,
    /// The positions of the further attributes of a composite index.
    pub following: Vec<usize>,
    /// The queries that it serves.
    pub kind: IndexKind,
    /// Its build state.
    pub progress: Progress,
}

/// The purpose of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Equality, ranges, prefixes and sorting.
    Ordered,
    /// Equality only, by a fixed-width hash of the value.
    Hash,
    /// Equality, with at most one record per value. Null is exempt.
    Unique,
    /// Equality on leading attributes, a range on the next one, and sorting by several.
    Composite,
    /// Full-text search by the terms of a text.
    FullText,
    /// The expiry of records, to find and delete expired ones. It serves no query.
    Expiry,
}

/// The build state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It has an entry for each value of each record, as of every snapshot with this sequence number or a later one.
    Ready {
        /// The sequence number of the write that made it ready; 0 if it was ready when the store was opened.
        since: u64,
    },
    /// Entries may be missing for older records. New writes have theirs.
    Building,
    /// It cannot be built: it has no entries and enforces nothing.
    Failed,
}

/// The state of an index, and the progress of its build. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The sequence number of the write that made it ready, or one of the sentinels below.
    since: AtomicU64,
    records: AtomicU64,
}

const BUILDING: u64 = u64::MAX;
const FAILED: u64 = u64::MAX - 1;

impl Index {
    /// Creates an index that is ready but not numbered yet.
    pub fn new(kind: IndexKind, attribute: usize, following: Vec<usize>) -> Self {
        Self { id: 0, attribute, following, kind, progress: Progress::default() }
    }

    /// Returns the positions of all its attributes.
    pub fn attributes(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.attribute).chain(self.following.iter().copied())
    }

    /// Returns the number of values in each of its entries.
    pub fn values(&self) -> usize {
        1 + self.following.len()
    }

    /// Returns whether it has the same kind and the same attributes.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.attribute, &self.following) == (other.kind, other.attribute, &other.following)
    }

    /// Returns its current state.
    pub fn state(&self) -> IndexState {
        match self.progress.0.since.load(Ordering::Acquire) {
            BUILDING => IndexState::Building,
            FAILED => IndexState::Failed,
            since => IndexState::Ready { since },
        }
    }

    /// Sets its state.
    pub fn set_state(&self, state: IndexState) {
        let since = match state {
            IndexState::Ready { since } => since,
            IndexState::Building => BUILDING,
            IndexState::Failed => FAILED,
        };
        self.progress.0.since.store(since, Ordering::Release);
    }

    /// Returns whether it has all entries as of a snapshot with this sequence number; `u64::MAX` for a snapshot taken afterwards.
    pub fn is_ready_at(&self, sequence: u64) -> bool {
        matches!(self.state(), IndexState::Ready { since } if since <= sequence)
    }

    /// Returns whether writes have to maintain its entries.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.progress.0.since.load(Ordering::Acquire) != FAILED
    }

    /// Returns the number of records indexed so far by its build.
    pub fn built_records(&self) -> u64 {
        self.progress.0.records.load(Ordering::Relaxed)
    }

    /// Sets the number of records indexed so far by its build.
    pub fn set_built_records(&self, records: u64) {
        self.progress.0.records.store(records, Ordering::Relaxed);
    }
}

impl PartialEq for Progress {
    /// Compares the states. (A schema equals itself when it is parsed again.)
    fn eq(&self, other: &Self) -> bool {
        self.0.since.load(Ordering::Acquire) == other.0.since.load(Ordering::Acquire)
    }
}

impl Eq for Progress {}

impl IndexState {
    /// Returns its name for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Building => "building",
            Self::Failed => "failed",
        }
    }
}

impl IndexKind {
    /// Returns its name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Hash => "hash",
            Self::Unique => "unique",
            Self::Composite => "composite",
            Self::FullText => "fulltext",
            Self::Expiry => "expiry",
        }
    }
}
