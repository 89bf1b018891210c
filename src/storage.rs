//! The engine: get, multi-get, scan, write, snapshot, durability. In `src/`, only here is RocksDB named.
//!
//! What makes it fast is what it does not do. Options objects are built once, not on every call; column families are resolved
//! once; values are handed out pinned, where RocksDB has them; a batch is reused, not made anew. Checksums stay on, and there
//! is no write without the log.
//!
//! Keys and values are bytes here; what they mean is known above. [`Store`] is a concrete type: a trait is cut out of it when a
//! second engine exists.

mod commit;
mod engine;
mod gauges;
mod log;
mod scan;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rust_rocksdb as rocksdb;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::schema::Durability;
pub use commit::{Call, Lead};
use commit::{Committer, Log};
use engine::{Background, Engine};
pub use gauges::Gauges;
pub use log::{LogPosition, LogReader, LoggedBatch, Operation};
use log::{Openings, Watcher};
pub use scan::Scan;

/// How the engine is set up. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Budget of the cache of uncompressed blocks.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub cache_bytes: usize,
    /// Budget of the cache of values that stand in files of their own: one by itself, so that bytes of blobs do not drive out records.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub blob_cache_bytes: usize,
    /// Size at which a memtable is flushed.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub write_buffer_bytes: usize,
    /// How much of the log is kept that the engine itself needs no more, so that changes can be read from it: as many of its latest
    /// files as have this many bytes together.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub feed_log_bytes: usize,
    /// Whether background compactions run. Benches that read a settled store turn them off.
    pub automatic_compactions: bool,
    /// A write that would have to wait for the engine to catch up is refused as `Busy` instead.
    pub refuse_stalls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            blob_cache_bytes: 32 << 20,
            write_buffer_bytes: 64 << 20,
            feed_log_bytes: 0,
            automatic_compactions: true,
            refuse_stalls: false,
        }
    }
}

/// One of the key spaces of a store; each is a column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// What the store says of itself.
    Meta,
    /// Records by table and id.
    Records,
    /// Entries of all indexes.
    Indexes,
    /// Bytes of blobs, in pieces, and what is known of them. Its memtables are small; whoever writes much asks [`Store::has_room_for_blobs`].
    Blobs,
}

/// A strong write of more bytes goes to the log by itself, and only its sync is shared: copying it into the write of a group would
/// take longer than a write of its own.
const MERGED_BYTES: usize = 64 << 10;

/// A longer value is not read where others wait: to check and to copy it may take a millisecond.
const LONG_VALUE_BYTES: usize = 128 << 10;

/// How many deleted or overwritten keys a scan steps over at once where others wait. The engine does not say how many there are.
const SKIPPED_KEYS: u64 = 128;

/// How far a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the disk; it may block.
    Disk,
    /// Only to what is in memory, and no further than others can wait; where that does not answer, [`Error::WouldBlock`].
    Memory,
}

/// A value where the engine has it, without a copy.
pub type Pinned<'a> = rocksdb::DBPinnableSlice<'a>;

/// A state of the whole store that later writes do not change.
pub struct Snapshot<'a>(rocksdb::Snapshot<'a>);

/// Writes that happen together or not at all. Kept and cleared rather than made anew; an empty one costs nothing.
#[derive(Default)]
pub struct Batch {
    /// The engine's batch, once something is staged.
    writes: Option<rocksdb::WriteBatch>,
}

/// An open store. All methods may be called from any thread.
pub struct Store {
    engine: Engine,
    read_disk: rocksdb::ReadOptions,
    read_memory: rocksdb::ReadOptions,
    write: rocksdb::WriteOptions,
    committer: Arc<Committer>,
    calls: Calls,
    background: Arc<Background>,
    watcher: Watcher,
    openings: Openings,
    options: Options,
}

impl Store {
    /// Opens the store in `directory`, making it if there is none.
    ///
    /// # Errors
    /// `Storage` if another process has it open, or on an I/O error; `Corrupt` if its files are damaged.
    pub fn open(directory: &Path, options: &Options) -> Result<Self> {
        let background = Arc::new(Background::default());
        let engine = engine::open(directory, options, &background)?;
        let openings = Openings::begin(directory)?;
        let mut read_memory = rocksdb::ReadOptions::default();
        read_memory.set_read_tier(rocksdb::ReadTier::BlockCache);
        let mut write = rocksdb::WriteOptions::default();
        write.set_no_slowdown(options.refuse_stalls);
        Ok(Self {
            engine,
            read_disk: rocksdb::ReadOptions::default(),
            read_memory,
            write,
            committer: Arc::default(),
            calls: Calls::default(),
            background,
            watcher: Watcher::default(),
            openings,
            options: options.clone(),
        })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `WouldBlock` under [`Reach::Memory`]; `Corrupt` or `Storage` from the engine.
    pub fn get(&self, space: Space, key: &[u8], reach: Reach) -> Result<Option<Pinned<'_>>> {
        self.calls.gets.add(1);
        #[cfg(feature = "plant")]
        crate::plant::burn("storage");
        let options = match reach {
            Reach::Disk => &self.read_disk,
            Reach::Memory => &self.read_memory,
        };
        let value = self.db().get_pinned_cf_opt(&self.family(space), key, options);
        match value.map_err(|error| classify("read", error))? {
            Some(value) if reach == Reach::Memory && value.len() > LONG_VALUE_BYTES => Err(Error::WouldBlock),
            value => Ok(value),
        }
    }

    /// The values of many keys in one call, in the keys' order, as of `snapshot`. `keys` are ascending.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn multi_get(
        &self,
        space: Space,
        keys: &[impl AsRef<[u8]>],
        snapshot: &Snapshot<'_>,
        reach: Reach,
    ) -> Result<Vec<Option<Pinned<'_>>>> {
        self.calls.multi_gets.add(1);
        self.calls.looked_up.add(keys.len() as u64);
        let options = self.read_at(snapshot, reach);
        if let [key] = keys {
            let value = self.db().get_pinned_cf_opt(&self.family(space), key, &options);
            return value.map(|value| vec![value]).map_err(|error| classify("read", error));
        }
        let values = self.db().batched_multi_get_pinned_cf_opt(&self.family(space), keys, true, &options);
        values.into_iter().map(|value| value.map_err(|error| classify("read", error))).collect()
    }

    /// The keys from `lower` up to but not including `upper` (no end if it is empty), as of `snapshot`, ascending.
    pub fn scan<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        reach: Reach,
    ) -> Scan<'s> {
        self.calls.scans.add(1);
        let mut options = self.read_at(snapshot, reach);
        if !upper.is_empty() {
            options.set_iterate_upper_bound(upper);
        }
        let mut iterator = self.db().raw_iterator_cf_opt(&self.family(space), options);
        iterator.seek(lower);
        Scan::forwards(iterator)
    }

    /// The same keys, descending.
    pub fn scan_backwards<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        reach: Reach,
    ) -> Scan<'s> {
        self.calls.scans.add(1);
        let mut options = self.read_at(snapshot, reach);
        options.set_iterate_lower_bound(lower);
        if !upper.is_empty() {
            options.set_iterate_upper_bound(upper);
        }
        let mut iterator = self.db().raw_iterator_cf_opt(&self.family(space), options);
        iterator.seek_to_last();
        Scan::backwards(iterator)
    }

    /// The state as of now.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot(self.db().snapshot())
    }

    /// Writes a batch and returns when it has survived what `durability` names.
    ///
    /// # Errors
    /// `Busy` if the engine cannot keep up and stalls are refused; `Storage` on an I/O error (disk full). After an error
    /// under [`Durability::Strong`] the batch may be visible and yet not be durable.
    pub fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
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
        self.background.batch_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Syncs the log: all that was written so far survives the machine, whatever its durability was.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub fn sync(&self) -> Result<()> {
        self.committer.commit(None, self)
    }

    /// The same without a thread that waits: calls back once the log was synced, or to sync it, if nobody else does. The callback must
    /// neither block nor panic.
    pub fn when_synced(&self, callback: impl FnOnce(Call) + Send + 'static) {
        self.committer.when_synced(callback);
    }

    /// Writes what is in memory to sorted files and waits until nothing runs in the background.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub fn flush(&self) -> Result<()> {
        let mut options = rocksdb::FlushOptions::default();
        options.set_wait(true);
        let families: Vec<_> = Space::ALL.iter().map(|space| self.family(*space)).collect();
        let families: Vec<_> = families.iter().collect();
        self.db().flush_cfs_opt(&families, &options).map_err(|error| classify("flush", error))?;
        self.settle()
    }

    /// Rewrites everything into the bottom level and waits until nothing runs in the background.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
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

    /// Waits until no flush and no compaction runs or is due.
    ///
    /// # Errors
    /// `Storage` if one of them failed.
    pub fn settle(&self) -> Result<()> {
        let options = rocksdb::WaitForCompactOptions::default();
        self.db().wait_for_compact(&options).map_err(|error| classify("wait for background work", error))
    }

    /// Gives back the space of deleted keys that begin with a number. Nobody may be using the number: files are removed whatever state a
    /// snapshot is of.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub fn give_back(&self, space: Space, number: u32) -> Result<()> {
        self.remove_files(space, number)?;
        let (lower, upper) = (number.to_be_bytes(), number.wrapping_add(1).to_be_bytes());
        self.db().compact_range_cf(&self.family(space), Some(lower), Some(upper));
        Ok(())
    }

    /// Gives back as much of that space at once as takes no rewriting: sorted files in which there is nothing else.
    ///
    /// # Errors
    /// As [`Store::give_back`].
    pub fn remove_files(&self, space: Space, number: u32) -> Result<()> {
        let (lower, upper) = (number.to_be_bytes(), number.wrapping_add(1).to_be_bytes());
        let removed = self.db().delete_file_in_range_cf(&self.family(space), lower, upper);
        removed.map_err(|error| classify("remove files", error))
    }

    /// A copy of the store in a new directory of the same file system: sorted files are hard links, only the log is copied.
    ///
    /// # Errors
    /// `Storage` if the directory exists or on an I/O error.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        let made = rocksdb::checkpoint::Checkpoint::new(self.db()).and_then(|made| made.create_checkpoint(directory));
        made.map_err(|error| classify("make a checkpoint", error))
    }

    /// Counts of calls and of background work since the store was opened.
    pub fn counters(&self) -> Counters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            gets: self.calls.gets.sum(),
            multi_gets: self.calls.multi_gets.sum(),
            looked_up: self.calls.looked_up.sum(),
            scans: self.calls.scans.sum(),
            writes: self.calls.writes.sum(),
            syncs: self.committer.syncs(),
            batch_bytes: value(&self.background.batch_bytes),
            flushes: value(&self.background.flushes),
            flushed_bytes: value(&self.background.flushed_bytes),
            compactions: value(&self.background.compactions),
            compacted_bytes: value(&self.background.compacted_bytes),
        }
    }

    /// Why the engine takes no more writes, if a flush or a compaction has failed and it has not recovered.
    pub fn failure(&self) -> Option<String> {
        self.background.failure.lock().clone()
    }

    /// Whether more bytes of blobs may be written now, or so many wait to be flushed already that the engine would soon make all writers
    /// wait, those of other spaces too.
    ///
    /// # Errors
    /// `Storage` if the engine does not say it.
    pub fn has_room_for_blobs(&self) -> Result<bool> {
        Ok(match gauges::memtables(self, Space::Blobs)? {
            (0, _) => true,
            (1, active_bytes) => active_bytes < engine::ACTIVE_BLOB_BYTES,
            _ => false,
        })
    }

    /// What the engine says of its state.
    ///
    /// # Errors
    /// `Storage` if it does not say it.
    pub fn gauges(&self) -> Result<Gauges> {
        gauges::read(self)
    }

    /// Bytes of keys and values in sorted files before compression, over all spaces; those that were overwritten or deleted count
    /// until a compaction drops them. It asks every file: for benches and for an operator's doubt.
    ///
    /// # Errors
    /// `Storage` if the engine does not say it.
    pub fn uncompressed_bytes(&self) -> Result<u64> {
        gauges::uncompressed_bytes(self)
    }

    /// How many keys begin with these bytes, and the bytes of their values; walks over all of them.
    ///
    /// # Errors
    /// `Corrupt` or `Storage` from the engine.
    pub fn count_prefix(&self, space: Space, prefix: &[u8; 4]) -> Result<(u64, u64)> {
        let (snapshot, upper) = (self.snapshot(), u32::from_be_bytes(*prefix).wrapping_add(1).to_be_bytes());
        let mut scan = self.scan(space, prefix, &upper, &snapshot, Reach::Disk);
        let (mut keys, mut bytes) = (0, 0);
        while let Some((_, value)) = scan.next()? {
            keys += 1;
            bytes += value.len() as u64;
        }
        Ok((keys, bytes))
    }

    /// The options in effect.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn read_at(&self, snapshot: &Snapshot<'_>, reach: Reach) -> rocksdb::ReadOptions {
        let mut options = rocksdb::ReadOptions::default();
        options.set_snapshot(&snapshot.0);
        if reach == Reach::Memory {
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

    /// Stages a put in a batch.
    pub fn put(&self, batch: &mut Batch, space: Space, key: &[u8], value: &[u8]) {
        batch.writes().put_cf(&self.family(space), key, value);
    }

    /// Stages a delete in a batch.
    pub fn delete(&self, batch: &mut Batch, space: Space, key: &[u8]) {
        batch.writes().delete_cf(&self.family(space), key);
    }

    /// Stages a delete of the keys from `lower` up to but not including `upper` in a batch.
    pub fn delete_range(&self, batch: &mut Batch, space: Space, lower: &[u8], upper: &[u8]) {
        batch.writes().delete_range_cf(&self.family(space), lower, upper);
    }
}

impl Log for Store {
    fn append(&self, batch: &rocksdb::WriteBatch) -> Result<()> {
        self.db().write_opt(batch, &self.write).map_err(|error| match (classify("write", error), self.failure()) {
            // It is not behind: it waits for nothing that would end.
            (Error::Busy { .. }, Some(failure)) => Error::storage("cannot write", failure),
            (error, _) => error,
        })?;
        self.watcher.wake();
        Ok(())
    }

    fn sync_log(&self) -> Result<()> {
        self.db().flush_wal(true).map_err(|error| classify("sync the log", error))
    }
}

impl Lead {
    /// Syncs the log of the store that has called for it, for all who wait.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub fn sync(self, store: &Store) -> Result<()> {
        self.commit(None, store)
    }
}

impl Snapshot<'_> {
    /// The number of the last write that it has.
    pub fn sequence(&self) -> u64 {
        self.0.sequence_number().unwrap_or_default()
    }
}

impl Batch {
    /// Forgets what was staged and keeps the memory, unless it has grown beyond four mebibytes.
    pub fn clear(&mut self) {
        self.writes = self.writes.take().filter(|writes| writes.size_in_bytes() <= 4 << 20);
        if let Some(writes) = &mut self.writes {
            writes.clear();
        }
    }

    /// How many bytes are staged.
    pub fn bytes(&self) -> usize {
        self.writes.as_ref().map_or(0, rocksdb::WriteBatch::size_in_bytes)
    }

    /// Whether nothing is staged.
    pub fn is_empty(&self) -> bool {
        self.writes.as_ref().is_none_or(rocksdb::WriteBatch::is_empty)
    }

    fn writes(&mut self) -> &mut rocksdb::WriteBatch {
        self.writes.get_or_insert_default()
    }
}

impl Space {
    const ALL: [Self; 4] = [Self::Meta, Self::Records, Self::Indexes, Self::Blobs];
}

/// Counts since a store was opened. Bytes are of batches as written to the log, and of files written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Calls of `get`.
    pub gets: u64,
    /// Calls of `multi_get`.
    pub multi_gets: u64,
    /// Keys that these were asked for.
    pub looked_up: u64,
    /// Calls of `scan`.
    pub scans: u64,
    /// Calls of `write`.
    pub writes: u64,
    /// Syncs of the log; one serves all who wait.
    pub syncs: u64,
    /// Bytes of the batches written.
    pub batch_bytes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes of the files that flushes wrote.
    pub flushed_bytes: u64,
    /// Compactions completed.
    pub compactions: u64,
    /// Bytes of the files that compactions wrote.
    pub compacted_bytes: u64,
}

#[derive(Default)]
struct Calls {
    gets: Striped,
    multi_gets: Striped,
    looked_up: Striped,
    scans: Striped,
    writes: Striped,
}

/// A counter in stripes, each on a cache line of its own, so that threads do not pass one line around. A thread has one to itself
/// until it ends, which costs it no atomic step; those that find none free share the last.
#[derive(Default)]
struct Striped([Stripe; STRIPES]);

const STRIPES: usize = 32;

#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

/// The number of a thread's stripe in all counters.
struct Own(usize);

static FREE: LazyLock<Mutex<Vec<usize>>> = LazyLock::new(|| Mutex::new((0..STRIPES - 1).rev().collect()));

thread_local! { static OWN: Own = Own(FREE.lock().pop().unwrap_or(STRIPES - 1)); }

impl Drop for Own {
    fn drop(&mut self) {
        if self.0 < STRIPES - 1 {
            FREE.lock().push(self.0);
        }
    }
}

impl Striped {
    #[inline]
    fn add(&self, more: u64) {
        let number = OWN.try_with(|own| own.0).unwrap_or(STRIPES - 1);
        let Stripe(count) = &self.0[number];
        if number < STRIPES - 1 {
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        } else {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// Sorts the engine's errors by what to do about them.
fn classify(attempt: &str, error: rocksdb::Error) -> Error {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => Error::corrupt(format!("{attempt}: {error}")),
        rocksdb::ErrorKind::Incomplete if attempt == "write" => {
            Error::Busy { detail: "the engine is behind with flushes or compactions".to_owned() }
        }
        rocksdb::ErrorKind::Incomplete => Error::WouldBlock,
        _ => Error::storage(format!("cannot {attempt}"), error),
    }
}

#[cfg(test)]
mod tests;
