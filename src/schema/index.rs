//! One index of a table, and how far it is.
//!
//! What an index is stands in the schema and does not change while a store is open. How far it is does: an index that is added to a
//! table with records is built while requests are answered. So its [`IndexState`] is shared by all clones of a schema, and it is of a
//! moment: a snapshot that is older than the end of the build may lack entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its number in keys; unlike any other index's of the store.
    pub id: u32,
    /// Position of the attribute in [`Table::attributes`](super::Table::attributes); in a composite index of the first. Where records
    /// expire without an attribute that says when, of the primary key.
    pub attribute: usize,
    /// In a composite index, the positions of the attributes that follow the first.
    pub following: Vec<usize>,
    /// What it serves.
    pub kind: IndexKind,
    /// How far it is.
    pub progress: Progress,
}

/// What an index serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Equality, ranges, prefixes and sorting.
    Ordered,
    /// Equality only, on a fixed-width hash of the value.
    Hash,
    /// Equality, and no two records share a value. Null is not bound.
    Unique,
    /// Equality of the first attributes and a range of the next one, and sorting by several.
    Composite,
    /// The terms of a text.
    FullText,
    /// When records expire: by it they are found and removed. It answers no query.
    Expiry,
}

/// How far an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It has an entry for each value of each record, as of every snapshot of this number or a later one.
    Ready {
        /// The number of the store's last write that made it ready; 0 if it was when the store was opened.
        since: u64,
    },
    /// Records may lack entries. What is written has them.
    Building,
    /// It cannot be made: it has no entries and binds nobody.
    Failed,
}

/// The state of an index, and the records that it was built from. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The number of the write that has made it ready; or one of those below, which no write has.
    since: AtomicU64,
    records: AtomicU64,
}

const BUILDING: u64 = u64::MAX;
const FAILED: u64 = u64::MAX - 1;

impl Index {
    /// An index without a number, ready.
    pub fn new(kind: IndexKind, attribute: usize, following: Vec<usize>) -> Self {
        Self { id: 0, attribute, following, kind, progress: Progress::default() }
    }

    /// The positions of all its attributes.
    pub fn attributes(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.attribute).chain(self.following.iter().copied())
    }

    /// How many values stand in each of its entries.
    pub fn values(&self) -> usize {
        1 + self.following.len()
    }

    /// Whether it is of the same kind over the same attributes.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.attribute, &self.following) == (other.kind, other.attribute, &other.following)
    }

    /// How far it is now.
    pub fn state(&self) -> IndexState {
        match self.progress.0.since.load(Ordering::Acquire) {
            BUILDING => IndexState::Building,
            FAILED => IndexState::Failed,
            since => IndexState::Ready { since },
        }
    }

    /// Sets how far it is.
    pub fn set_state(&self, state: IndexState) {
        let since = match state {
            IndexState::Ready { since } => since,
            IndexState::Building => BUILDING,
            IndexState::Failed => FAILED,
        };
        self.progress.0.since.store(since, Ordering::Release);
    }

    /// Whether it has all entries as of a snapshot of this number. Of a snapshot that is taken afterwards, `u64::MAX`.
    pub fn is_ready_at(&self, sequence: u64) -> bool {
        matches!(self.state(), IndexState::Ready { since } if since <= sequence)
    }

    /// Whether entries are to be kept in step with records.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.progress.0.since.load(Ordering::Acquire) != FAILED
    }

    /// How many records it was built from so far.
    pub fn built_records(&self) -> u64 {
        self.progress.0.records.load(Ordering::Relaxed)
    }

    /// Says how many records it was built from so far.
    pub fn set_built_records(&self, records: u64) {
        self.progress.0.records.store(records, Ordering::Relaxed);
    }
}

impl PartialEq for Progress {
    /// Whether both are as far. (A schema equals itself when it is read again.)
    fn eq(&self, other: &Self) -> bool {
        self.0.since.load(Ordering::Acquire) == other.0.since.load(Ordering::Acquire)
    }
}

impl Eq for Progress {}

impl IndexState {
    /// Its name where it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Building => "building",
            Self::Failed => "failed",
        }
    }
}

impl IndexKind {
    /// Its name in a schema.
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
