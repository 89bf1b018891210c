//! The source of a query's records: a table at one snapshot, which of its indexes may be used there, and its stored records by their keys.
//!
//! No index is used that lacks entries as of the snapshot of the query (`Index::is_ready_at`).

use super::budget::StepBudget;
use crate::error::{Error, Result};
use crate::indexes::{Direction, KeyRange};
use crate::schema::{Index, IndexKind, IndexState, Relationship, Schema, Table};
use crate::storage::{Pinned, ReadTier, Scan, Snapshot, Space, Store};
use crate::transaction::Database;

/// A table at one snapshot.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
    pub store: &'s Store,
    pub schema: &'s Schema,
    pub table: &'s Table,
    pub snapshot: &'s Snapshot<'s>,
    pub tier: ReadTier,
    /// The time against which record expiry is checked, in microseconds since 1970.
    pub now: i64,
    pub budget: &'s StepBudget<'s>,
}

impl<'s> Source<'s> {
    pub fn of(
        database: &'s Database,
        table: &'s Table,
        snapshot: &'s Snapshot<'s>,
        budget: &'s StepBudget<'s>,
    ) -> Self {
        Self {
            store: database.store(),
            schema: database.schema(),
            table,
            snapshot,
            tier: database.tier(),
            now: database.now(),
            budget,
        }
    }

    /// Returns the source for the table at the other end of a relationship.
    pub fn related(self, relationship: &Relationship) -> Self {
        Self { table: &self.schema.tables[relationship.table], ..self }
    }

    /// Returns the indexes of the table that are ready at this snapshot.
    pub fn indexes(self) -> Indexes<'s> {
        Indexes::ready_at(self.table, self.snapshot.sequence())
    }

    /// Starts a scan of a key range.
    ///
    /// # Errors
    /// `WouldBlock` if the step budget is exhausted.
    pub fn scan(self, space: Space, range: &KeyRange, direction: Direction) -> Result<Scan<'s>> {
        self.budget.seek()?;
        let Self { store, snapshot, tier, .. } = self;
        Ok(match direction {
            Direction::Forwards => store.scan(space, &range.lower, &range.upper, snapshot, tier),
            Direction::Backwards => store.scan_backwards(space, &range.lower, &range.upper, snapshot, tier),
        })
    }
}

/// The usable indexes of a table.
#[derive(Clone, Copy)]
pub(super) struct Indexes<'p> {
    pub table: &'p Table,
    is_usable: Usable,
}

/// Which indexes may be used.
#[derive(Clone, Copy)]
enum Usable {
    /// Those with all entries as of the snapshot with this sequence number.
    At(u64),
    /// Also those that are still being built.
    Sometime,
}

impl<'p> Indexes<'p> {
    /// The ready indexes, which have all entries as of any snapshot taken from now on.
    pub fn ready(table: &'p Table) -> Self {
        Self { table, is_usable: Usable::At(u64::MAX) }
    }

    /// The indexes that are ready as of the snapshot with this sequence number.
    pub fn ready_at(table: &'p Table, sequence: u64) -> Self {
        Self { table, is_usable: Usable::At(sequence) }
    }

    /// The indexes that are ready or being built: to see what they will be able to answer, not to read them.
    pub fn ready_or_building(table: &'p Table) -> Self {
        Self { table, is_usable: Usable::Sometime }
    }

    pub fn all(self) -> impl Iterator<Item = &'p Index> {
        self.table.indexes.iter().filter(move |index| match self.is_usable {
            Usable::At(sequence) => index.is_ready_at(sequence),
            Usable::Sometime => index.state() != IndexState::Failed,
        })
    }

    /// Returns the index of a kind on one attribute.
    pub fn of(self, attribute: usize, kind: IndexKind) -> Option<&'p Index> {
        self.all().find(|index| index.attribute == attribute && index.kind == kind)
    }

    /// Returns the cheapest index that answers equality on an attribute.
    pub fn of_equality(self, attribute: usize) -> Option<&'p Index> {
        [IndexKind::Unique, IndexKind::Ordered, IndexKind::Hash].into_iter().find_map(|kind| self.of(attribute, kind))
    }

    /// Returns the indexes whose entries are ordered, with one entry per record.
    pub fn in_order(self) -> impl Iterator<Item = &'p Index> {
        self.all().filter(move |index| match index.kind {
            IndexKind::Ordered => !self.table.attributes[index.attribute].list,
            kind => kind == IndexKind::Composite,
        })
    }
}

/// Returns the stored bytes of records in the order of the keys, which may be arbitrary.
pub(super) fn records<'s>(source: Source<'s>, keys: &[&[u8]]) -> Result<Vec<Option<Pinned<'s>>>> {
    let Source { store, snapshot, tier, .. } = source;
    if keys.is_sorted() {
        return store.multi_get(Space::Records, keys, snapshot, tier);
    }
    let mut ascending: Vec<(&[u8], usize)> = keys.iter().copied().zip(0..).collect();
    ascending.sort_unstable();
    let sorted: Vec<&[u8]> = ascending.iter().map(|(key, _)| *key).collect();
    let mut found: Vec<_> = keys.iter().map(|_| None).collect();
    for ((_, position), bytes) in ascending.into_iter().zip(store.multi_get(Space::Records, &sorted, snapshot, tier)?) {
        found[position] = bytes;
    }
    Ok(found)
}

pub(super) fn id_of_owner(owner: &[u8]) -> Result<&str> {
    std::str::from_utf8(owner).map_err(|_| Error::corrupt("a unique entry has no id"))
}

pub(super) fn present<'b>(bytes: &'b Option<Pinned<'_>>) -> Result<&'b [u8]> {
    bytes.as_deref().ok_or_else(|| Error::corrupt("an index entry leads to no record"))
}
