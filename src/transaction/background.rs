//! Work that no request waits for: building indexes, emptying those that were dropped, deleting records that have expired.
//!
//! It is done in pieces, each of which ends soon and is an ordinary write, by whoever calls [`Database::work`]: the server has a thread
//! for it. What is to be done stands in the catalogue, so it goes on after a restart, and after a kill from where it was last written
//! down; a piece that is done twice does no harm.
//!
//! **A build** walks over the records of a table in batches. It holds the records of a batch while it writes their entries, so nobody
//! changes one between. Writers keep the index in step from the moment the store is opened. No query uses it before it is ready.
//! While a unique index is built nobody can say whether a value is free, so writes that would claim one are refused as `Busy` until it
//! is ready; all other writes go on. If two records share a value, it has failed: its entries go, and it binds nobody.
//!
//! **Expired records** are served to nobody; they are found by an index on when they expire, and deleted as if somebody had asked for it.

use std::collections::{HashMap, HashSet};

use super::catalogue::{Catalogue, StoredState};
use super::{Database, LOCK_WAIT, held_too_long};
use crate::encoding::key;
use crate::error::{Error, Result};
use crate::indexes::{self, KeyRange, Keys, Matches, Sharing};
use crate::locking::{Slot, Wait};
use crate::schema::{Durability, Index, IndexKind, IndexState, Table};
use crate::storage::{Batch, Reach, Space};

/// How many records a piece of work is about.
const PIECE_ROWS: usize = 256;

/// How many bytes of records a piece of a build reads, and how many of deletes a piece of reclaiming writes, about: both hold the records
/// meanwhile.
const PIECE_BYTES: usize = 4 << 20;

/// After so many pieces of a build it is written down how far it is.
const NOTED_PIECES: u32 = 64;

/// What is to be done, and how far it is.
pub(super) struct Background {
    catalogue: Catalogue,
    /// Pieces of a build since it was last written down.
    unnoted: u32,
    /// By table, the entry at which the search for expired records goes on, which begins anew when it has come to its end: what was
    /// deleted stays in the engine for a while, and is not to be stepped over again and again.
    searched: HashMap<u32, Vec<u8>>,
    /// The tables in which something is damaged that has expired. The operator was told of the first of it.
    damaged: HashSet<u32>,
}

/// What became of records that may have expired.
#[derive(Default)]
struct Reclaimed {
    /// How many were looked at, in their order.
    examined: usize,
    deleted: usize,
    /// Why the first of them that cannot be read is not deleted.
    damage: Option<Error>,
}

impl Background {
    pub(super) fn new(catalogue: Catalogue) -> Self {
        Self { catalogue, unnoted: 0, searched: HashMap::new(), damaged: HashSet::new() }
    }

    /// Tells the operator, once for each table, that not everything can be deleted that has expired.
    fn report_damage(&mut self, table: &Table, error: &Error) {
        if self.damaged.insert(table.id) {
            tracing::error!("table {}: cannot delete damaged records that have expired: {error}", table.name);
        }
    }
}

impl Database {
    /// Does a piece of the work that waits, and says whether there was any. One caller at a time; others wait.
    ///
    /// # Errors
    /// `Busy` if the engine is behind or records stay held: try again later; what the engine returns.
    pub fn work(&self) -> Result<bool> {
        let mut background = self.shared.background.lock();
        let abandoned = self.shared.abandoned.lock().pop();
        if let Some((table, upload)) = abandoned {
            return self.remove_upload(table, upload).map(|()| true);
        }
        if let Some(index) = background.catalogue.dropped.first().copied() {
            return self.empty(&mut background, index).map(|()| true);
        }
        let expired = self.reclaim(&mut background)?;
        let building = |table: &'_ Table| table.indexes.iter().any(|index| index.state() == IndexState::Building);
        match self.schema().tables.iter().find(|table| building(table)) {
            Some(table) => self.build(&mut background, table).map(|()| true),
            None => Ok(expired),
        }
    }

    /// Does all the work that waits.
    ///
    /// # Errors
    /// As [`Database::work`].
    pub fn catch_up(&self) -> Result<()> {
        while self.work()? {}
        Ok(())
    }

    /// Removes what an index that is no more has left.
    fn empty(&self, background: &mut Background, index: u32) -> Result<()> {
        let (store, mut batch) = (self.store(), Batch::default());
        indexes::drop_entries(store, &mut batch, index);
        store.write(&batch, Durability::Soft)?;
        store.remove_files(Space::Indexes, index)?;
        self.change(background, Batch::default(), |catalogue| catalogue.dropped.retain(|dropped| *dropped != index))
    }

    /// Goes on with the first index of a table that is being built.
    fn build(&self, background: &mut Background, table: &Table) -> Result<()> {
        let index = table.indexes.iter().find(|index| index.state() == IndexState::Building);
        let index = index.expect("the caller saw that there is one");
        let Some(stored) = background.catalogue.index_mut(index.id) else {
            return Err(Error::corrupt(format!("index {} is not in the catalogue", index.id)));
        };
        let StoredState::Building { after, records } = &mut stored.state else {
            return Err(Error::corrupt(format!("index {} is not being built", index.id)));
        };
        let keys = indexes::keys_after(self.store(), table.id, after.as_deref(), PIECE_ROWS, PIECE_BYTES)?;
        let Some(last) = keys.last().and_then(|key| key::id_of_record(key)).map(str::to_owned) else {
            let records = *records;
            self.change(background, Batch::default(), |catalogue| catalogue.set_state(index.id, StoredState::Ready))?;
            index.set_state(IndexState::Ready { since: self.store().latest_sequence() });
            tracing::info!("{} is built from {records} records", name(table, index));
            return Ok(());
        };
        match self.build_from(table, index, &keys) {
            Ok(None) => {}
            Ok(Some(sharing)) if self.is_resolved(table, &sharing)? => return Ok(()),
            Ok(Some([one, other])) => {
                let why = format!("records {one:?} and {other:?} share a value");
                return self.fail(background, table, index, why);
            }
            Err(error @ Error::Corrupt { .. }) => return self.fail(background, table, index, error.to_string()),
            Err(error) => return Err(error),
        }
        *after = Some(last);
        *records += keys.len() as u64;
        index.set_built_records(*records);
        background.unnoted += 1;
        if background.unnoted >= NOTED_PIECES {
            self.change(background, Batch::default(), |_| ())?;
        }
        Ok(())
    }

    /// Writes the entries of some records while nobody else can write these.
    fn build_from(&self, table: &Table, index: &Index, keys: &[Vec<u8>]) -> Result<Option<Sharing>> {
        let locks = &self.shared.locks;
        let slot = |key: &Vec<u8>| locks.slot(table.id, &key[size_of::<u32>()..]);
        let mut slots: Vec<Slot> = keys.iter().map(slot).collect();
        let _guards = locks.lock_all(&mut slots, Wait::AtMost(LOCK_WAIT)).ok_or_else(held_too_long)?;
        indexes::build(self.store(), table, index, keys)
    }

    /// Whether one of two records that share a value had expired, and is deleted now.
    fn is_resolved(&self, table: &Table, sharing: &Sharing) -> Result<bool> {
        Ok(table.expires() && self.delete_expired(table, &sharing.each_ref().map(String::as_str))?.deleted > 0)
    }

    /// Gives up an index that cannot be built.
    fn fail(&self, background: &mut Background, table: &Table, index: &Index, why: String) -> Result<()> {
        let said = format!("cannot build {}: {why}. The index is not used{}", name(table, index), unbound(index));
        let mut batch = Batch::default();
        indexes::drop_entries(self.store(), &mut batch, index.id);
        self.change(background, batch, |catalogue| catalogue.set_state(index.id, StoredState::Failed { why }))?;
        // Not before it is written down: an index that is still to be built is kept in step. What writers add until they hear of it goes
        // with its number when the store is opened again.
        index.set_state(IndexState::Failed);
        tracing::error!("{said}");
        Ok(())
    }

    /// Deletes some of the records that have expired; whether there may be more. What is damaged stays, and keeps nothing else.
    fn reclaim(&self, background: &mut Background) -> Result<bool> {
        let mut may_be_more = false;
        for table in &self.schema().tables {
            let index = table.indexes.iter().find(|index| index.kind == IndexKind::Expiry);
            let Some(index) = index.filter(|index| index.is_kept()) else { continue };
            match self.reclaim_from(background, table, index) {
                Ok(more) => may_be_more |= more,
                Err(error @ Error::Corrupt { .. }) => background.report_damage(table, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(may_be_more)
    }

    /// The same in one table.
    fn reclaim_from(&self, background: &mut Background, table: &Table, index: &Index) -> Result<bool> {
        let mut range = KeyRange::expired(index, self.now());
        if let Some(from) = background.searched.remove(&table.id) {
            range.intersect(KeyRange { lower: from, upper: Vec::new() });
        }
        let (store, mut keys) = (self.store(), Keys::default());
        let snapshot = store.snapshot();
        let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, Reach::Disk);
        let mut entries = Matches::of(scan, table, index, &range).keeping_values();
        while keys.len() < PIECE_ROWS && entries.append(&mut keys)? {}
        let slices = keys.slices();
        let ids = slices.iter().map(|key| key::id_of_record(key).ok_or_else(|| Error::corrupt("an entry has no id")));
        let ids = ids.collect::<Result<Vec<_>>>()?;
        let Reclaimed { examined, damage, .. } = self.delete_expired(table, &ids)?;
        if let Some(error) = damage {
            background.report_damage(table, &error);
        }
        if examined < PIECE_ROWS && examined == ids.len() {
            return Ok(false);
        }
        let last = examined - 1;
        background.searched.insert(table.id, [keys.before_id(last), ids[last].as_bytes(), b"\0"].concat());
        Ok(true)
    }

    /// Deletes those of some records that have expired, in one transaction, as many as fit in one piece.
    fn delete_expired(&self, table: &Table, ids: &[&str]) -> Result<Reclaimed> {
        let slots = ids.iter().map(|id| self.shared.locks.slot(table.id, id.as_bytes())).collect();
        self.run(slots, false, |transaction| {
            let mut reclaimed = Reclaimed::default();
            for id in ids {
                if transaction.batch.bytes() >= PIECE_BYTES {
                    break;
                }
                reclaimed.examined += 1;
                match transaction.reclaim(table, id) {
                    Ok(is_deleted) => reclaimed.deleted += usize::from(is_deleted),
                    Err(Error::Corrupt { detail }) => {
                        let damage = || Error::corrupt(format!("record {id:?}: {detail}"));
                        reclaimed.damage.get_or_insert_with(damage);
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(reclaimed)
        })
    }

    /// Changes the catalogue and writes it, with what is staged already. It is as before if that fails.
    fn change(&self, background: &mut Background, mut batch: Batch, change: impl FnOnce(&mut Catalogue)) -> Result<()> {
        let mut changed = background.catalogue.clone();
        change(&mut changed);
        changed.stage(self.store(), &mut batch)?;
        self.store().write(&batch, Durability::Strong)?;
        background.catalogue = changed;
        background.unnoted = 0;
        Ok(())
    }
}

/// An index in a message.
fn name(table: &Table, index: &Index) -> String {
    let attributes = index.attributes().map(|attribute| table.attributes[attribute].name.as_str());
    format!("the {} index of {}.{}", index.kind.name(), table.name, attributes.collect::<Vec<_>>().join(","))
}

/// What else follows from the failure of an index.
fn unbound(index: &Index) -> &'static str {
    if index.kind == IndexKind::Unique { ", and its uniqueness is not enforced" } else { "" }
}
