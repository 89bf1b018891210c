//! Background work: building indexes, removing the entries of dropped ones, deleting expired records.
//!
//! It is done in short pieces, each an ordinary write, by the caller of [`Database::work`]; the server has a thread for it. The pending
//! work is recorded in the catalogue, so it continues after a restart, and after a kill from the last recorded progress; repeating a piece
//! is harmless.
//!
//! **A build** scans the records of a table in batches. It holds the locks of a batch's records while it writes their entries, so no record
//! changes in between. Writers maintain the index from the moment the store is opened. No query uses it before it is ready. While a unique
//! index is being built it is unknown whether a value is free, so writes that would claim one are refused as `Busy`; all other writes
//! continue. If two records share a value, the build fails: the entries are removed, and uniqueness is not enforced.
//!
//! **Expired records** are invisible to all readers; they are found by an index on their expiry time, and deleted like by a client.
//!
//! A record that has expired is removed only by such ordinary transactions, and no answer contains one: a query reads the clock once and
//! shows none that has expired by then.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::catalogue::format::{Catalogue, StoredState};
use super::{Database, KnownKeys};
use crate::encoding::{Value, key};
use crate::error::{Error, Result};
use crate::indexes::{self, KeyRange, Keys, Matches, Sharing};
use crate::locking::{Slot, Wait};
use crate::schema::{Durability, Index, IndexKind, IndexState, Table};
use crate::storage::{Batch, ReadTier, Space};

/// Approximate number of records in a piece of work.
const PIECE_ROWS: usize = 256;

/// The number of records in a piece of a build in a remote store, which is one transaction that depends on all of them.
const REMOTE_PIECE_ROWS: usize = 64;

/// The number of keys after which a piece of reclaiming in a remote store ends.
const REMOTE_PIECE_KEYS: usize = 8000;

/// Approximate number of bytes of records that a piece of a build reads, and of deletes that a piece of reclaiming writes: both hold the
/// locks of the records meanwhile.
const PIECE_BYTES: usize = 4 << 20;

/// Number of pieces of a build after which its progress is recorded.
const CHECKPOINT_PIECES: u32 = 64;

/// The interval at which all entries of deadlines are searched, also where those before the last search have long been found: a clock may
/// have been set back.
const WHOLE_SEARCH: Duration = Duration::from_secs(60);

/// The interval at which bytes of replaced blobs are searched for in a remote store, and garbage is collected.
const REPLACED_SEARCH: Duration = Duration::from_secs(60);

/// The longest time, in microseconds, that a write may take from the choice of its deadline to its commit without being found late.
const COMMITTED_WITHIN: i64 = 10_000_000;

/// The pending work and its progress.
pub(super) struct Background {
    catalogue: Catalogue,
    /// Pieces of a build since its progress was last recorded.
    pieces_since_checkpoint: u32,
    /// By table.
    searches: HashMap<u32, Search>,
    /// When replaced blobs were last searched for in a remote store, and what nobody can read any more.
    replaced_searched: Option<Instant>,
    /// The tables with damaged expired records. The first one in each was logged.
    damaged: HashSet<u32>,
}

/// How far the search for expired records of a table has come. Tombstones stay in the engine for a while, and must not be skipped again and
/// again.
#[derive(Default)]
struct Search {
    /// The entry at which it continues; `None` if it has come to its end.
    from: Option<Vec<u8>>,
    /// The time of the last search that has come to its end, in microseconds since 1970.
    until: Option<i64>,
    /// When one last began with the first entry.
    whole: Option<Instant>,
}

impl Search {
    /// Returns the entry with which the next one begins; `None` if that is the first.
    fn begin(&mut self, table: &Table, index: &Index, now: i64) -> Option<Vec<u8>> {
        if let Some(from) = self.from.take() {
            return Some(from);
        }
        let is_recent = self.whole.is_some_and(|whole| whole.elapsed() < WHOLE_SEARCH);
        // A deadline that an attribute gives may have passed long before the write.
        match self.until.filter(|until| is_recent && *until <= now && table.expires_at.is_none()) {
            Some(until) => {
                let mut from = Vec::new();
                key::ordered_prefix(index.id, &Value::Int(until.saturating_sub(COMMITTED_WITHIN)), &mut from);
                Some(from)
            }
            None => {
                self.whole = Some(Instant::now());
                None
            }
        }
    }
}

/// The outcome of deleting records that may have expired.
#[derive(Default)]
struct Reclaimed {
    /// Number of records examined, in order.
    examined: usize,
    deleted: usize,
    /// Error of the first one that cannot be read.
    damage: Option<Error>,
}

impl Background {
    pub(super) fn new(catalogue: Catalogue) -> Self {
        Self {
            catalogue,
            pieces_since_checkpoint: 0,
            searches: HashMap::new(),
            replaced_searched: None,
            damaged: HashSet::new(),
        }
    }

    /// Goes on with the catalogue that another server has left.
    pub(super) fn replace(&mut self, catalogue: Catalogue) {
        self.catalogue = catalogue;
        self.pieces_since_checkpoint = 0;
    }

    /// Returns whether replaced blobs are to be searched for now.
    fn is_due(&mut self, interval: Duration) -> bool {
        let is_due = self.replaced_searched.is_none_or(|last| last.elapsed() >= interval);
        if is_due {
            self.replaced_searched = Some(Instant::now());
        }
        is_due
    }

    /// Logs, once for each table, that damaged expired records cannot be deleted.
    fn report_damage(&mut self, table: &Table, error: &Error) {
        if self.damaged.insert(table.id) {
            tracing::error!("table {}: cannot delete damaged records that have expired: {error}", table.name);
        }
    }
}

impl Database {
    /// Does one piece of the pending work and returns whether there was any. Concurrent callers wait for each other.
    ///
    /// # Errors
    /// `Busy` if the engine cannot keep up or records stay locked: try again later; `Invalid` if the store was opened for reading; what the
    /// engine returns.
    pub fn work(&self) -> Result<bool> {
        self.store().check_writable()?;
        self.store().note_synced();
        // Whoever works now may wait for what this thread holds.
        self.check_not_held(|_| true)?;
        let mut background = self.shared.background.lock();
        let abandoned = self.shared.abandoned.lock().pop();
        if let Some((table, upload)) = abandoned {
            return self.remove_upload(table, upload).map(|()| true);
        }
        if !self.is_worker() {
            return Ok(false);
        }
        if self.store().is_remote() && background.is_due(REPLACED_SEARCH) {
            // A database that cannot do this now may do all else.
            let tried = [("replaced blobs", self.remove_left()), ("garbage", self.store().collect_garbage())];
            for (what, outcome) in tried {
                outcome.unwrap_or_else(|error| tracing::warn!("{what} cannot be removed now: {error}"));
            }
        }
        if let Some(index) = background.catalogue.dropped.first().copied() {
            match self.remove_entries(&mut background, index) {
                Err(Error::Busy { .. }) if self.store().is_remote() => {}
                outcome => return outcome.map(|()| true),
            }
        }
        let expired = self.reclaim(&mut background)?;
        let building = |table: &'_ Table| table.indexes.iter().any(|index| index.state() == IndexState::Building);
        match self.schema().tables.iter().find(|table| building(table)) {
            Some(table) => self.build(&mut background, table).map(|()| true),
            None => Ok(expired),
        }
    }

    /// Does all pending work, and waits until new snapshots may use what was built. In PostgreSQL a snapshot is as old as the oldest
    /// transaction that writes meanwhile, whoever runs it; one that never ends is waited for for some ten seconds.
    ///
    /// # Errors
    /// As [`Database::work`].
    pub fn catch_up(&self) -> Result<()> {
        while self.work()? {}
        let is_usable =
            |index: &Index, sequence| !matches!(index.state(), IndexState::Ready { since } if since > sequence);
        for attempt in 0..50 {
            let sequence = self.store().snapshot(ReadTier::Disk)?.sequence();
            if self.schema().tables.iter().flat_map(|table| &table.indexes).all(|index| is_usable(index, sequence)) {
                break;
            }
            self.store().pause(attempt);
        }
        Ok(())
    }

    /// Removes the entries of a dropped index.
    fn remove_entries(&self, background: &mut Background, index: u32) -> Result<()> {
        let store = self.store();
        store.atomically(Durability::Soft, |batch| {
            indexes::drop_entries(store, batch, index);
            Ok(())
        })?;
        store.remove_files(Space::Indexes, index)?;
        self.change(background, |_| (), |catalogue| catalogue.dropped.retain(|dropped| *dropped != index))
    }

    /// Continues with the first index of a table that is being built.
    fn build(&self, background: &mut Background, table: &Table) -> Result<()> {
        let index = table.indexes.iter().find(|index| index.state() == IndexState::Building);
        let index = index.expect("the caller saw that there is one");
        let Some(stored) = background.catalogue.index_mut(index.id) else {
            return Err(Error::corrupt(format!("index {} is not in the catalogue", index.id)));
        };
        let StoredState::Building { after, records } = &mut stored.state else {
            return Err(Error::corrupt(format!("index {} is not being built", index.id)));
        };
        let rows = if self.store().is_remote() { REMOTE_PIECE_ROWS } else { PIECE_ROWS };
        let mut keys = indexes::keys_after(self.store(), table.id, after.as_deref(), rows, PIECE_BYTES)?;
        if keys.is_empty() {
            // Before others know that it is ready: it may not be answered.
            let (records, since) = (*records, self.store().latest_sequence()?);
            self.change(background, |_| (), |catalogue| catalogue.set_state(index.id, StoredState::Ready))?;
            index.set_state(IndexState::Ready { since });
            tracing::info!("built {} from {records} records", name(table, index));
            return Ok(());
        }
        let built = loop {
            match self.build_from(table, index, &keys) {
                // Records may have more entries than a transaction of the database takes.
                Err(Error::Invalid { .. }) if keys.len() > 1 => keys.truncate(keys.len() / 2),
                outcome => break outcome,
            }
        };
        match built {
            Ok(None) => {}
            Ok(Some(sharing)) if self.is_resolved(table, &sharing)? => return Ok(()),
            Ok(Some([one, other])) => {
                let why = format!("records {one:?} and {other:?} have the same value");
                return self.fail(background, table, index, why);
            }
            Err(error @ Error::Corrupt { .. }) => return self.fail(background, table, index, error.to_string()),
            Err(error) => return Err(error),
        }
        let last = keys.last().and_then(|key| key::id_of_record(key));
        *after = Some(last.ok_or_else(|| Error::corrupt("the key of a record has no id"))?.to_owned());
        *records += keys.len() as u64;
        index.set_built_records(*records);
        background.pieces_since_checkpoint += 1;
        if background.pieces_since_checkpoint >= CHECKPOINT_PIECES {
            self.change(background, |_| (), |_| ())?;
        }
        Ok(())
    }

    /// Writes the entries of some records while holding their locks.
    fn build_from(&self, table: &Table, index: &Index, keys: &[Vec<u8>]) -> Result<Option<Sharing>> {
        if self.store().is_remote() {
            let mut known = KnownKeys::of(self);
            keys.iter().filter_map(|key| key::id_of_record(key)).for_each(|id| known.add_record(table, id));
            return self.run(known, false, |transaction| {
                self.depend_on_worker(&mut transaction.batch)?;
                indexes::build_for(self.store(), &mut transaction.batch, table, index, keys)
            });
        }
        let slot = |key: &Vec<u8>| self.shared.locks.slot(table.id, &key[size_of::<u32>()..]);
        let mut slots: Vec<Slot> = keys.iter().map(slot).collect();
        let _guards = self.lock_all(&mut slots, Wait::AtMost(self.lock_wait))?;
        indexes::build(self.store(), table, index, keys)
    }

    /// Deletes those of two records sharing a value that have expired; returns whether there were any.
    fn is_resolved(&self, table: &Table, sharing: &Sharing) -> Result<bool> {
        Ok(table.expires() && self.delete_expired(table, &sharing.each_ref().map(String::as_str))?.deleted > 0)
    }

    /// Marks an index as failed.
    fn fail(&self, background: &mut Background, table: &Table, index: &Index, why: String) -> Result<()> {
        let said = format!("cannot build {}: {why}. The index is not used{}", name(table, index), unbound(index));
        let failed = StoredState::Failed { why };
        let drop_entries = |batch: &mut Batch| indexes::drop_entries(self.store(), batch, index.id);
        self.change(background, drop_entries, |catalogue| catalogue.set_state(index.id, failed.clone()))?;
        // Only after the failure is recorded: an index that may still be built has to be maintained. Entries that writers add until they
        // notice are removed with the index's number when the store is opened again.
        index.set_state(IndexState::Failed);
        tracing::error!("{said}");
        Ok(())
    }

    /// Deletes some expired records; returns whether it deleted any, or has more to examine. Damaged ones stay and do not hold up the
    /// others.
    fn reclaim(&self, background: &mut Background) -> Result<bool> {
        let mut has_worked = false;
        for table in &self.schema().tables {
            let index = table.indexes.iter().find(|index| index.kind == IndexKind::Expiry);
            let Some(index) = index.filter(|index| index.is_kept()) else { continue };
            match self.reclaim_from(background, table, index) {
                Ok(worked) => has_worked |= worked,
                Err(error @ Error::Corrupt { .. }) => background.report_damage(table, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(has_worked)
    }

    /// Does the same in one table.
    fn reclaim_from(&self, background: &mut Background, table: &Table, index: &Index) -> Result<bool> {
        let (now, mut search) = (self.now(), background.searches.remove(&table.id).unwrap_or_default());
        let mut range = KeyRange::expired(index, now);
        if let Some(from) = search.begin(table, index, now) {
            range.intersect(KeyRange { lower: from, upper: Vec::new() });
        }
        let (store, mut keys) = (self.store(), Keys::default());
        let snapshot = store.snapshot(ReadTier::Disk)?;
        let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk);
        let mut entries = Matches::of(scan, table, index, &range).keeping_values();
        while keys.len() < PIECE_ROWS && entries.append(&mut keys)? {}
        let slices = keys.slices();
        let ids = slices.iter().map(|key| key::id_of_record(key).ok_or_else(|| Error::corrupt("an entry has no id")));
        let ids = ids.collect::<Result<Vec<_>>>()?;
        let Reclaimed { examined, deleted, damage } = self.delete_expired(table, &ids)?;
        if table.expiration.is_some() {
            self.shared.registrations.expired.fetch_add(deleted as u64, Ordering::Relaxed);
        }
        if let Some(error) = damage {
            background.report_damage(table, &error);
        }
        let is_over = examined < PIECE_ROWS && examined == ids.len();
        match is_over {
            true => search.until = Some(now),
            false => search.from = Some([keys.before_id(examined - 1), ids[examined - 1].as_bytes(), b"\0"].concat()),
        }
        background.searches.insert(table.id, search);
        Ok(!is_over || deleted > 0)
    }

    /// Deletes those of the given records that have expired, in one transaction, as many as fit in one piece.
    fn delete_expired(&self, table: &Table, ids: &[&str]) -> Result<Reclaimed> {
        let known = KnownKeys::of_records(self, table, ids);
        self.run(known, false, |transaction| {
            self.depend_on_worker(&mut transaction.batch)?;
            let mut reclaimed = Reclaimed::default();
            for id in ids {
                if transaction.batch.bytes() >= PIECE_BYTES || transaction.batch.remote_keys() >= REMOTE_PIECE_KEYS {
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

    /// Changes the catalogue and writes it, together with what `stage` stages. On an error the catalogue stays as it was.
    fn change(
        &self,
        background: &mut Background,
        stage: impl Fn(&mut Batch),
        change: impl Fn(&mut Catalogue),
    ) -> Result<()> {
        background.catalogue = self.store().atomically(Durability::Strong, |batch| {
            self.depend_on_worker(batch)?;
            stage(batch);
            let mut changed = background.catalogue.clone();
            if self.store().is_remote() {
                // A write that was told as failed may have happened.
                let stored = Catalogue::stored(self.store(), batch)?;
                changed = stored.with_progress_of(&background.catalogue);
            }
            change(&mut changed);
            changed.stage(self.store(), batch)?;
            Ok(changed)
        })?;
        background.pieces_since_checkpoint = 0;
        Ok(())
    }
}

/// Returns the description of an index for messages.
fn name(table: &Table, index: &Index) -> String {
    let attributes = index.attributes().map(|attribute| table.attributes[attribute].name.as_str());
    format!("the {} index of {}.{}", index.kind.name(), table.name, attributes.collect::<Vec<_>>().join(","))
}

/// Returns the consequence of an index failure beyond the index being unused.
fn unbound(index: &Index) -> &'static str {
    if index.kind == IndexKind::Unique { ", and its uniqueness is not enforced" } else { "" }
}
