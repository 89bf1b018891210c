//! The embedded engine: a folder that one process has open. RocksDB is named only here in `src/`.
//!
//! It is fast because of what it avoids. Options objects are built once, not on every call; column families are resolved once; values are
//! returned pinned in RocksDB's memory; batches are reused. Checksums stay on, and there is no write without the write-ahead log.
//!
//! Every write goes through the log, in every durability class: column families are flushed one at a time, so without it records and index
//! entries would disagree after a crash.
//!
//! **The binding** is `rust-rocksdb` 0.54, a fork of the crate `rocksdb`, rather than `rocksdb` 0.25. `rocksdb` takes a `WriteBatch` by
//! value, so every write allocates and frees one; the fork takes it by reference, so a thread keeps its batch. The fork also reports
//! flushes and compactions as events, on which the counters of `Store` and the facts beside the figures are based, and it brings a newer
//! RocksDB. But fewer people maintain it, which is why all its names stay in this folder (and in the benches' floors): going back is work
//! in one place. The two were compared in lock-step pairs of one program built on each, with the same options: a get, a put of one key and
//! batches of three and nine keys were equal within the scatter of the pairs, and `rocksdb` 0.25 with its RocksDB 11.8 was a little faster
//! at a multi-get of twenty. So the events and the reused batches decided, not speed.
//!
//! The methods of [`super::Store`] call those of the same name here, and say what they do.

mod blob_files;
mod commit;
mod engine;
mod gauges;
mod lock;
mod log;
mod room;
mod scan;
mod shortage;
mod threads;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Calls, Counters, Options, ReadTier, Space};
use crate::error::{Error, Result};
use crate::schema::Durability;
use commit::{Committer, Log};
pub use commit::{Lead, Notification};
pub use engine::FEWEST_OPEN_FILES;
use engine::{Background, Engine};
pub use gauges::Gauges;
use lock::Opening;
pub use log::{LogPosition, LogReader, LoggedBatch, Operation, vouch};
use log::{LostEnd, Openings, Synced, Watcher};
use room::Room;
use rust_rocksdb::{self as rocksdb, AsColumnFamilyRef};
pub use scan::Scan;
pub use threads::check_threads;

/// A strong write of more bytes goes to the log alone, and only its sync is shared: copying it into the write of a group would take longer
/// than a write of its own.
const MERGED_BYTES: usize = 64 << 10;

/// A longer value is not read under [`ReadTier::Memory`]: verifying and copying it may take a millisecond.
const LONG_VALUE_BYTES: usize = 128 << 10;

/// Number of deleted or overwritten keys that a scan may skip in one step under [`ReadTier::Memory`]. The engine does not report how many
/// there are.
const SKIPPED_KEYS: u64 = 128;

/// The mode of a directory that only its owner may enter.
const PRIVATE: u32 = 0o700;

/// Longer than the end of a recovery takes.
const RECOVERY: Duration = Duration::from_millis(100);

/// A value pinned in the engine's memory, without a copy.
pub type Pinned<'a> = rocksdb::DBPinnableSlice<'a>;

/// A consistent view of the whole store that later writes do not change.
pub struct Snapshot<'a>(rocksdb::Snapshot<'a>);

/// An atomic batch of writes. Meant to be cleared and reused; an empty one costs nothing.
#[derive(Default)]
pub struct Batch {
    /// The engine's batch, created with the first staged write.
    writes: Option<rocksdb::WriteBatch>,
    /// Whether it puts a record, an entry or a part of a blob.
    puts: bool,
    /// Whether it puts a part of a blob.
    puts_blobs: bool,
    /// Whether it deletes parts of blobs, or trims a stream.
    gives_back: bool,
}

/// Keeps everybody from opening a directory for writing while it lives.
pub struct Held {
    _opening: Option<Opening>,
}

/// Holds a directory, which need not exist, without changing it.
///
/// # Errors
/// `Busy` if a process has it open; `Storage` if it cannot be read.
pub fn hold(directory: &Path) -> Result<Held> {
    let opening = directory.exists().then(|| Opening::for_reading(directory)).transpose()?;
    Ok(Held { _opening: opening })
}

/// An open store. All methods may be called from any thread.
pub struct Store {
    engine: Engine,
    /// Behind the engine, which is closed first.
    opening: Opening,
    read_disk: rocksdb::ReadOptions,
    read_memory: rocksdb::ReadOptions,
    write: rocksdb::WriteOptions,
    committer: Arc<Committer>,
    calls: Calls,
    background: Arc<Background>,
    watcher: Watcher,
    openings: Openings,
    room: Room,
    options: Options,
}

impl Store {
    pub fn open(directory: &Path, options: &Options) -> Result<Self> {
        engine::check_caches(options)?;
        fs::create_dir_all(directory).map_err(|error| {
            Error::storage(format!("cannot create the data directory {}", directory.display()), error)
        })?;
        check_threads(0)?;
        let (opening, background) = (Opening::for_writing(directory)?, Arc::new(Background::default()));
        let open_files = engine::open_files(options);
        let lost = log::check(directory, options.accept_lost_log)?;
        let engine = engine::open(directory, options, open_files, &background)?;
        warn_of(lost);
        let openings = Openings::begin(directory)?;
        Ok(Self::of(engine, opening, background, openings, Options { open_files: Some(open_files), ..options.clone() }))
    }

    pub fn open_read_only(directory: &Path, options: &Options) -> Result<Self> {
        engine::check_caches(options)?;
        check_threads(0)?;
        let (opening, background) = (Opening::for_reading(directory)?, Arc::new(Background::default()));
        let open_files = engine::open_files(options);
        let lost = log::check(directory, false)?;
        let engine = engine::open_read_only(directory, options, open_files)?;
        warn_of(lost);
        let options = Options { open_files: Some(open_files), ..options.clone() };
        Ok(Self::of(engine, opening, background, Openings::default(), options))
    }

    fn of(engine: Engine, opening: Opening, background: Arc<Background>, openings: Openings, options: Options) -> Self {
        let mut read_memory = rocksdb::ReadOptions::default();
        read_memory.set_read_tier(rocksdb::ReadTier::BlockCache);
        let mut write = rocksdb::WriteOptions::default();
        write.set_no_slowdown(options.refuse_stalls);
        Self {
            engine,
            opening,
            read_disk: rocksdb::ReadOptions::default(),
            read_memory,
            write,
            committer: Arc::default(),
            calls: Calls::default(),
            background,
            watcher: Watcher::default(),
            openings,
            room: Room::default(),
            options,
        }
    }

    pub fn is_read_only(&self) -> bool {
        self.opening.is_read_only()
    }

    pub fn is_synced(&self) -> bool {
        self.background.synced.get().is_none_or(|synced| synced.sequence() >= self.latest_sequence())
    }

    pub fn note_synced(&self) {
        self.background.synced.get().into_iter().for_each(Synced::note);
    }

    /// Checks that it was not opened for reading.
    fn check_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(super::read_only()) } else { Ok(()) }
    }

    pub fn get(&self, space: Space, key: &[u8], tier: ReadTier) -> Result<Option<super::Pinned<'_>>> {
        self.calls.gets.add(1);
        #[cfg(feature = "plant")]
        crate::plant::burn("storage");
        let options = match tier {
            ReadTier::Disk => &self.read_disk,
            ReadTier::Memory => &self.read_memory,
        };
        let value = self.db().get_pinned_cf_opt(&self.family(space), key, options);
        match value.map_err(|error| classify("read", error))? {
            Some(value) if tier == ReadTier::Memory && value.len() > LONG_VALUE_BYTES => Err(Error::WouldBlock),
            value => Ok(value.map(super::Pinned::Rocks)),
        }
    }

    pub fn multi_get(
        &self,
        space: Space,
        keys: &[impl AsRef<[u8]>],
        snapshot: &Snapshot<'_>,
        tier: ReadTier,
    ) -> Result<Vec<Option<super::Pinned<'_>>>> {
        self.calls.multi_gets.add(1);
        self.calls.looked_up.add(keys.len() as u64);
        let options = self.read_at(snapshot, tier);
        if let [key] = keys {
            let value = self.db().get_pinned_cf_opt(&self.family(space), key, &options);
            return value.map(|value| vec![value.map(super::Pinned::Rocks)]).map_err(|error| classify("read", error));
        }
        let values = self.db().batched_multi_get_pinned_cf_opt(&self.family(space), keys, true, &options);
        let values = values.into_iter().map(|value| value.map(|value| value.map(super::Pinned::Rocks)));
        values.map(|value| value.map_err(|error| classify("read", error))).collect()
    }

    pub fn scan<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
    ) -> Scan<'s> {
        self.scan_by(self.read_at(snapshot, tier), space, lower, upper)
    }

    pub fn scan_skipping<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
        most: u64,
    ) -> Scan<'s> {
        let mut options = self.read_at(snapshot, tier);
        options.set_max_skippable_internal_keys(most);
        self.scan_by(options, space, lower, upper)
    }

    fn scan_by(&self, mut options: rocksdb::ReadOptions, space: Space, lower: &[u8], upper: &[u8]) -> Scan<'_> {
        self.calls.scans.add(1);
        if !upper.is_empty() {
            options.set_iterate_upper_bound(upper);
        }
        let mut iterator = self.db().raw_iterator_cf_opt(&self.family(space), options);
        iterator.seek(lower);
        Scan::forwards(iterator)
    }

    pub fn scan_backwards<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
    ) -> Scan<'s> {
        self.calls.scans.add(1);
        let mut options = self.read_at(snapshot, tier);
        options.set_iterate_lower_bound(lower);
        if !upper.is_empty() {
            options.set_iterate_upper_bound(upper);
        }
        let mut iterator = self.db().raw_iterator_cf_opt(&self.family(space), options);
        iterator.seek_to_last();
        Scan::backwards(iterator)
    }

    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot(self.db().snapshot())
    }

    pub fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.check_writable()?;
        if batch.adds() {
            self.check_room()?;
        }
        self.calls.writes.add(1);
        let writes = batch.writes.as_ref();
        let bytes = batch.bytes();
        match durability {
            Durability::Strong if bytes <= MERGED_BYTES => self.committer.commit(writes, self)?,
            durability => {
                writes.map_or(Ok(()), |writes| self.append(writes))?;
                if durability == Durability::Strong {
                    self.sync()?;
                }
            }
        }
        let before = self.background.batch_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before / room::LOOKED_BYTES != (before + bytes as u64) / room::LOOKED_BYTES {
            self.look_at_room();
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<()> {
        self.committer.commit(None, self)
    }

    pub fn when_synced(&self, callback: impl FnOnce(Notification) + Send + 'static) {
        self.committer.when_synced(callback);
    }

    pub fn flush(&self) -> Result<()> {
        self.check_writable()?;
        loop {
            self.settle()?;
            match self.flush_all() {
                // Writers have filled all memtables meanwhile.
                Err(error) if error.kind() == rocksdb::ErrorKind::TryAgain && !self.is_short() => {}
                flushed => break flushed.map_err(|error| classify("flush", error))?,
            }
        }
        self.settle()?;
        if self.is_short() { Err(shortage::busy()) } else { Ok(()) }
    }

    /// Has the engine flush all memtables, without waiting for it: one that lacks descriptors is not tried again by itself.
    fn flush_all(&self) -> std::result::Result<(), rocksdb::Error> {
        let mut options = rocksdb::FlushOptions::default();
        options.set_wait(false);
        options.set_allow_write_stall(true);
        let families: Vec<_> = Space::ALL.iter().map(|space| self.family(*space)).collect();
        let families: Vec<_> = families.iter().collect();
        self.db().flush_cfs_opt(&families, &options)
    }

    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        for space in Space::ALL {
            self.db().compact_range_cf(&self.family(space), None::<&[u8]>, None::<&[u8]>);
        }
        self.settle()?;
        engine::rewrite_blob_files(self.db(), self.family(Space::Blobs))
            .map_err(|error| classify("rewrite files of blobs", error))?;
        self.settle()
    }

    pub fn check_files(&self) -> Result<()> {
        self.db().verify_checksum().map_err(|error| classify("check the files", error))?;
        let mut options = rocksdb::LiveFilesStorageInfoOptions::new();
        // Nothing is flushed for it.
        options.set_wal_size_for_flush(u64::MAX);
        let files = self.db().get_livefiles_storage_info(&options);
        for file in &files.map_err(|error| classify("list the files", error))? {
            let path = self.db().path().join(file.relative_filename_lossy().trim_start_matches('/'));
            if path.extension().is_some_and(|extension| extension == "blob") {
                blob_files::check(&path, self.family(Space::Blobs).id())?;
            }
        }
        Ok(())
    }

    pub fn settle(&self) -> Result<()> {
        let options = rocksdb::WaitForCompactOptions::default();
        self.db().wait_for_compact(&options).map_err(|error| classify("wait for background work", error))
    }

    pub fn reclaim_space(&self, space: Space, number: u32) -> Result<()> {
        self.remove_files(space, number)?;
        let (lower, upper) = (number.to_be_bytes(), number.wrapping_add(1).to_be_bytes());
        self.db().compact_range_cf(&self.family(space), Some(lower), Some(upper));
        Ok(())
    }

    pub fn remove_files(&self, space: Space, number: u32) -> Result<()> {
        self.remove_files_between(space, &number.to_be_bytes(), &number.wrapping_add(1).to_be_bytes())
    }

    pub fn remove_files_between(&self, space: Space, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.check_writable()?;
        let removed = self.db().delete_file_in_range_cf(&self.family(space), lower, upper);
        removed.map_err(|error| classify("remove files", error))
    }

    pub fn compact_between(&self, space: Space, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.check_writable()?;
        let files = self.db().live_files().map_err(|error| classify("list the files", error))?;
        let name = self.family(space).name();
        let has_keys = |file: &rocksdb::LiveFile| {
            let begins_before = file.start_key.as_deref().is_some_and(|first| first < upper);
            let ends_behind = file.end_key.as_deref().is_some_and(|last| last >= lower);
            file.column_family_name.as_bytes() == name && begins_before && ends_behind
        };
        if files.iter().any(has_keys) {
            let mut options = rocksdb::CompactOptions::default();
            options.set_exclusive_manual_compaction(false);
            self.db().compact_range_cf_opt(&self.family(space), Some(lower), Some(upper), &options);
        }
        Ok(())
    }

    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        let path = directory.display();
        let cannot = |error| Error::storage(format!("cannot make a checkpoint in {path}"), error);
        let exists =
            |what: &Path| Err(Error::invalid(format!("cannot make a checkpoint in {path}: {} exists", what.display())));
        let mut name = directory.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = directory.with_file_name(name);
        // The engine lets others enter what it makes.
        match DirBuilder::new().mode(PRIVATE).create(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return exists(&partial),
            outcome => outcome.map_err(cannot)?,
        }
        let outcome = match directory.symlink_metadata() {
            Ok(_) => exists(directory),
            Err(_) => self.copy_through(&partial.join("copy"), directory, cannot),
        };
        outcome.inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        fs::remove_dir(&partial).and_then(|()| File::open(directory.join(".."))?.sync_all()).map_err(cannot)
    }

    /// Copies the store into a directory that nobody else can reach, and moves that when it is done.
    fn copy_through(&self, made: &Path, to: &Path, cannot: impl Fn(std::io::Error) -> Error) -> Result<()> {
        let checkpoint = rocksdb::checkpoint::Checkpoint::new(self.db());
        let outcome = checkpoint.and_then(|checkpoint| checkpoint.create_checkpoint(made));
        outcome.map_err(|error| classify("make a checkpoint", error))?;
        vouch(made)?;
        fs::set_permissions(made, Permissions::from_mode(PRIVATE)).map_err(&cannot)?;
        fs::rename(made, to).map_err(cannot)
    }

    pub fn counters(&self) -> Counters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            gets: self.calls.gets.sum(),
            multi_gets: self.calls.multi_gets.sum(),
            looked_up: self.calls.looked_up.sum(),
            scans: self.calls.scans.sum(),
            writes: self.calls.writes.sum(),
            round_trips: 0,
            syncs: self.committer.syncs(),
            batch_bytes: value(&self.background.batch_bytes),
            flushes: value(&self.background.flushes),
            flushed_bytes: value(&self.background.flushed_bytes),
            compactions: value(&self.background.compactions),
            compacted_bytes: value(&self.background.compacted_bytes),
        }
    }

    pub fn failure(&self) -> Option<String> {
        // What it finds is in `failure`.
        let _ = self.check_descriptors();
        self.background.failure.lock().clone()
    }

    pub fn has_room_for(&self, space: Space) -> Result<bool> {
        let has_memtable = match gauges::memtables(self, space)? {
            (0, _) => true,
            (1, active_bytes) => active_bytes < engine::active_bytes(space, &self.options),
            _ => false,
        };
        Ok(has_memtable && gauges::level_0_files(self, space)? < engine::full_level_0(&self.options))
    }

    pub fn gauges(&self) -> Result<Gauges> {
        gauges::read(self)
    }

    pub fn uncompressed_bytes(&self) -> Result<u64> {
        gauges::uncompressed_bytes(self)
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    fn read_at(&self, snapshot: &Snapshot<'_>, tier: ReadTier) -> rocksdb::ReadOptions {
        let mut options = rocksdb::ReadOptions::default();
        options.set_snapshot(&snapshot.0);
        if tier == ReadTier::Memory {
            options.set_read_tier(rocksdb::ReadTier::BlockCache);
            options.set_max_skippable_internal_keys(SKIPPED_KEYS);
        }
        options
    }

    fn db(&self) -> &rocksdb::DB {
        self.engine.borrow_owner()
    }

    fn family(&self, space: Space) -> &rocksdb::ColumnFamily {
        self.engine.family(space)
    }

    pub fn put(&self, batch: &mut Batch, space: Space, key: &[u8], value: &[u8]) {
        batch.puts |= space != Space::Meta;
        batch.puts_blobs |= space == Space::Blobs;
        batch.writes().put_cf(&self.family(space), key, value);
    }

    pub fn delete(&self, batch: &mut Batch, space: Space, key: &[u8]) {
        batch.gives_back |= space == Space::Blobs;
        batch.writes().delete_cf(&self.family(space), key);
    }

    pub fn delete_range(&self, batch: &mut Batch, space: Space, lower: &[u8], upper: &[u8]) {
        batch.gives_back |= space == Space::Blobs;
        batch.writes().delete_range_cf(&self.family(space), lower, upper);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // While nobody else can open it.
        if let Some(synced) = self.background.synced.get().filter(|_| self.is_synced()) {
            synced.close();
        }
        // RocksDB 11.12 does not come to an end if it is closed within the moment in which it ends the recovery from one error and has met
        // the next (a disk that is full again).
        if self.background.failure.lock().is_some() {
            std::thread::sleep(RECOVERY);
        }
    }
}

impl Log for Store {
    fn append(&self, batch: &rocksdb::WriteBatch) -> Result<()> {
        self.check_descriptors()?;
        self.db().write_opt(batch, &self.write).map_err(|error| match (classify("write", error), self.failure()) {
            // A failed engine is not behind: waiting would never end.
            (Error::Busy { .. } | Error::Storage { .. }, Some(failure)) if room::is_full(&failure) => room::full(),
            (Error::Busy { .. }, Some(failure)) if !self.is_short() => Error::storage("cannot write", failure),
            (error, _) => error,
        })?;
        self.watcher.wake();
        Ok(())
    }

    fn sync_log(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let (sequence, synced) = (self.latest_sequence(), self.background.synced.get());
        if let Some(synced) = synced.filter(|synced| synced.sequence() < sequence) {
            let mut batch = rocksdb::WriteBatch::default();
            batch.put_log_data(synced.sequence().to_le_bytes());
            // Without it, less is known of what a damaged log has lost.
            let _ = self.db().write_opt(&batch, &self.write);
        }
        let due = synced.and_then(Synced::due);
        self.db().flush_wal(true).map_err(|error| classify("sync the log", error))?;
        synced.into_iter().for_each(|synced| synced.advance(sequence, due));
        Ok(())
    }
}

impl Lead {
    pub(super) fn sync_log_of(self, store: &Store) -> Result<()> {
        self.commit(None, store)
    }
}

impl Snapshot<'_> {
    pub fn sequence(&self) -> u64 {
        self.0.sequence_number().unwrap_or_default()
    }
}

impl Batch {
    pub fn set_gives_back(&mut self) {
        self.gives_back = true;
    }

    pub fn clear(&mut self) {
        (self.puts, self.puts_blobs, self.gives_back) = (false, false, false);
        self.writes = self.writes.take().filter(|writes| writes.size_in_bytes() <= 4 << 20);
        if let Some(writes) = &mut self.writes {
            writes.clear();
        }
    }

    /// Returns whether it adds to what is stored. The deletion of a blob does not, though it writes the record of the blob, nor does a trim.
    fn adds(&self) -> bool {
        self.puts_blobs || self.puts && !self.gives_back
    }

    pub fn bytes(&self) -> usize {
        self.writes.as_ref().map_or(0, rocksdb::WriteBatch::size_in_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.writes.as_ref().is_none_or(rocksdb::WriteBatch::is_empty)
    }

    fn writes(&mut self) -> &mut rocksdb::WriteBatch {
        self.writes.get_or_insert_default()
    }
}

/// Says which ends of the log the engine has not read.
fn warn_of(lost: Vec<LostEnd>) {
    for LostEnd { file, offset, bytes } in lost {
        tracing::warn!(
            "{file} has {bytes} bytes at byte {offset} that cannot be recovered: the end of an interrupted write, or of unsynced writes \
             before a power cut; otherwise the disk has damaged it, and acknowledged writes are lost"
        );
    }
}

/// Returns the number of memtables of a space at which writes stop.
fn memtables(space: Space) -> i32 {
    match space {
        Space::Meta | Space::Records | Space::Indexes | Space::Streams => 2,
        // Room for a third, briefly, when the log has grown so long that all families are flushed; uploads do not use it.
        Space::Blobs => 3,
    }
}

/// Classifies an engine error by how to react to it.
fn classify(attempt: &str, error: rocksdb::Error) -> Error {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => Error::corrupt(format!("{attempt}: {error}")),
        rocksdb::ErrorKind::Incomplete if attempt == "write" => {
            Error::Busy { detail: "the engine is behind with flushes or compactions".to_owned() }
        }
        rocksdb::ErrorKind::Incomplete => Error::WouldBlock,
        _ if shortage::is_shortage(&error) => shortage::busy(),
        _ if attempt == "write" && room::is_full(error.as_ref()) => room::full(),
        _ => Error::storage(format!("cannot {attempt}"), error),
    }
}

#[cfg(test)]
mod tests;
