//! Where bytes are kept: get, multi-get, scan, write, snapshot, durability. Engines are named only here in `src/`.
//!
//! Keys and values are bytes here; their meaning is defined in the layers above. [`Store`] is one of two: the embedded RocksDB (`rocks`),
//! whose folder one process has open, or a database that replicates and that any number of servers have open (`remote`). Each type of a
//! store is an enum of the two. Without the features of the remote ones it has one variant: no tag, no branch.
//!
//! What a remote store does not have is `Unsupported`: files, a log to read changes from, statistics of the engine. What is only the
//! embedded engine's business (stalls, memtables, syncs, reclaiming space) is done at once.

mod location;
#[cfg(feature = "remote")]
mod remote;
mod rocks;
mod striped;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::thread::Thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::Durability;
pub use location::Location;
#[cfg(feature = "simulated")]
pub use remote::simulated::{Defect, Faults, Seen, Simulation};
pub use rocks::{
    FEWEST_OPEN_FILES, Gauges, Held, Lead, LogPosition, LogReader, LoggedBatch, Notification, Operation, check_threads,
    hold, vouch,
};
pub(crate) use striped::Striped;

/// Settings of the engine. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Capacity of the block cache (uncompressed blocks); 0: none, so that every block of data is read from its file, and the indexes and
    /// filters of open files are in memory uncounted.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub cache_bytes: usize,
    /// Capacity of the cache of values in blob files: a separate one, so that bytes of blobs do not evict records; 0: none.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub blob_cache_bytes: usize,
    /// Size at which a memtable is flushed.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub write_buffer_bytes: usize,
    /// Bytes of the log to keep beyond what the engine needs, so that changes can be read from it: the latest files that fit in this size.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub feed_log_bytes: usize,
    /// Whether automatic compactions run. Benchmarks that read a settled store turn them off.
    pub automatic_compactions: bool,
    /// Refuses a write as `Busy` if it would have to wait for the engine to catch up (a write stall).
    pub refuse_stalls: bool,
    /// How many sorted files and blob files are kept open; `None` = half of the descriptors that the process may have. Others are opened
    /// when they are read, and the one that was not used for longest is closed.
    pub open_files: Option<usize>,
    /// Opens a store of whose log something is lost that was synced, with what stands before it; the damaged files are kept in the directory
    /// `lost`.
    pub accept_lost_log: bool,
    /// Free space of the file system below which writes that add are refused; 0: none.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub reserve_bytes: usize,
    /// A database in which the store is, in place of a directory. All other options are of the embedded engine.
    pub url: Option<Location>,
    /// A file with the password for it.
    pub password_file: Option<PathBuf>,
}

impl Options {
    /// Returns the password in the file, without the end of its line.
    ///
    /// # Errors
    /// `Storage` if it cannot be read.
    pub fn password(&self) -> Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let text = fs::read_to_string(path);
        let text =
            text.map_err(|error| Error::storage(format!("cannot read the password in {}", path.display()), error))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
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
            open_files: None,
            accept_lost_log: false,
            reserve_bytes: 64 << 20,
            url: None,
            password_file: None,
        }
    }
}

/// One of the key spaces of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The store's own metadata.
    Meta,
    /// Records by table and id.
    Records,
    /// Entries of all indexes.
    Indexes,
    /// Blobs in chunks, and their manifests. Its memtables are small; bulk writers check [`Store::has_room_for`].
    Blobs,
    /// Events of streams in chunks, their idempotency keys, and what is known about each stream.
    Streams,
}

impl Space {
    const ALL: [Self; 5] = [Self::Meta, Self::Records, Self::Indexes, Self::Blobs, Self::Streams];
}

/// How far a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTier {
    /// To the disk, or to the database; the read may block.
    Disk,
    /// Only to memory, and only for a bounded time; [`Error::WouldBlock`] where that is not enough.
    Memory,
}

/// An open store. All methods may be called from any thread.
#[cfg_attr(
    feature = "remote",
    expect(clippy::large_enum_variant, reason = "a process has few, and the embedded one is not behind a pointer")
)]
pub enum Store {
    /// The embedded engine.
    Rocks(rocks::Store),
    /// A database.
    #[cfg(feature = "remote")]
    Remote(remote::Store),
}

/// A consistent view of the whole store that later writes do not change.
pub enum Snapshot<'a> {
    /// Of the embedded engine.
    Rocks(rocks::Snapshot<'a>),
    /// Of a database.
    #[cfg(feature = "remote")]
    Remote(remote::Snapshot),
}

/// An atomic batch of writes. Meant to be cleared and reused; an empty one costs nothing. One store at a time stages in it, or reads for it.
pub enum Batch {
    /// Of the embedded engine.
    Rocks(rocks::Batch),
    /// Of a database: with the transaction in which keys were read for it.
    #[cfg(feature = "remote")]
    Remote(Box<remote::Batch>),
}

/// A bounded scan of keys, ascending or descending; [`Scan::next`] lends each entry until the next call.
pub enum Scan<'a> {
    /// Of the embedded engine.
    Rocks(rocks::Scan<'a>),
    /// Of a database.
    #[cfg(feature = "remote")]
    Remote(remote::Scan<'a>),
}

/// A value, without a copy where the engine has it in memory.
pub enum Pinned<'a> {
    /// Pinned in the memory of the embedded engine.
    Rocks(rocks::Pinned<'a>),
    /// Received from a database.
    #[cfg(feature = "remote")]
    Remote(Vec<u8>),
}

/// Calls the same method of either store.
macro_rules! either {
    ($store:expr, $each:ident => $call:expr) => {
        match $store {
            Self::Rocks($each) => $call,
            #[cfg(feature = "remote")]
            Self::Remote($each) => $call,
        }
    };
}

/// Calls a method of the embedded store; of a remote one there is this instead.
macro_rules! embedded {
    ($store:expr, $rocks:ident => $call:expr, $instead:expr) => {
        match $store {
            Self::Rocks($rocks) => $call,
            #[cfg(feature = "remote")]
            Self::Remote(_) => $instead,
        }
    };
}

impl Store {
    /// Opens the store in `directory`, creating it if there is none.
    ///
    /// # Errors
    /// `Busy` if a process has it open, this one included; `Invalid` if the system cannot reserve a cache; `Storage` on an I/O error;
    /// `Corrupt` if its files are damaged.
    pub fn open(directory: &Path, options: &Options) -> Result<Self> {
        #[cfg(feature = "simulated")]
        if let Some(remote) = remote::in_place::of(directory, false) {
            return remote.map(Self::Remote);
        }
        rocks::Store::open(directory, options).map(Self::Rocks)
    }

    /// Opens an existing store for reading; nothing in the directory is changed, so it may lie on a read-only file system. Writes fail.
    ///
    /// # Errors
    /// As [`Store::open`]; `Storage` if there is none, or an earlier version, which had no blobs, wrote it last.
    pub fn open_read_only(directory: &Path, options: &Options) -> Result<Self> {
        #[cfg(feature = "simulated")]
        if let Some(remote) = remote::in_place::of(directory, true) {
            return remote.map(Self::Remote);
        }
        rocks::Store::open_read_only(directory, options).map(Self::Rocks)
    }

    /// Opens a store in a database. A password comes from the URL, else from `password`, else from `PGPASSWORD`.
    ///
    /// # Errors
    /// `Invalid` if the URL is not valid, or what is there is not a store of ours; `Busy` if the database does not answer, or refuses.
    pub fn connect(location: &Location, password: Option<&str>, is_read_only: bool) -> Result<Self> {
        #[cfg(any(feature = "postgres", feature = "tikv"))]
        {
            remote::connect(location, password, is_read_only).map(Self::Remote)
        }
        #[cfg(not(any(feature = "postgres", feature = "tikv")))]
        {
            let _ = (password, is_read_only);
            Err(Error::invalid(format!("{location} is of no database that is built in")))
        }
    }

    /// Opens a simulated database.
    #[cfg(feature = "simulated")]
    pub fn simulated(simulation: &Simulation) -> Self {
        Self::Remote(simulation.connect(false))
    }

    /// Returns whether it is a database that other servers may have open, too.
    #[inline]
    pub fn is_remote(&self) -> bool {
        embedded!(self, _rocks => false, true)
    }

    /// Returns whether it was opened for reading.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        either!(self, store => store.is_read_only())
    }

    /// Returns whether everything that was written is known to be synced.
    pub fn is_synced(&self) -> bool {
        embedded!(self, rocks => rocks.is_synced(), true)
    }

    /// Notes on disk up to where the log is synced, at most once a second. A sync does that, too, unless it comes too soon after another.
    pub fn note_synced(&self) {
        embedded!(self, rocks => rocks.note_synced(), ());
    }

    /// Checks that it was not opened for reading.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.is_read_only() {
            false => Ok(()),
            true => Err(read_only()),
        }
    }

    /// Returns the latest value of a key.
    ///
    /// # Errors
    /// `WouldBlock` under [`ReadTier::Memory`]; `Corrupt` or `Storage` from the engine.
    #[inline]
    pub fn get(&self, space: Space, key: &[u8], tier: ReadTier) -> Result<Option<Pinned<'_>>> {
        either!(self, store => store.get(space, key, tier))
    }

    /// Returns the value of a key on which a batch depends: one that locks keep others in this process from writing. A remote store reads it
    /// as of when the first key was read for the batch, and refuses the batch as [`Error::Raced`] if another server has written it since.
    ///
    /// # Errors
    /// As [`Store::get`]; `Raced` if the transaction was lost.
    #[inline]
    pub fn get_for(&self, batch: &mut Batch, space: Space, key: &[u8], tier: ReadTier) -> Result<Option<Pinned<'_>>> {
        match self {
            Self::Rocks(rocks) => {
                let _ = batch;
                rocks.get(space, key, tier)
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.get_for(batch.remote(), space, key, tier),
        }
    }

    /// Announces that these keys will be read for a batch: a remote store reads all of them in one request.
    ///
    /// # Errors
    /// As [`Store::get_for`].
    #[inline]
    pub fn read_ahead(&self, batch: &mut Batch, keys: &[(Space, Vec<u8>)], tier: ReadTier) -> Result<()> {
        match self {
            Self::Rocks(_) => {
                let _ = (batch, keys, tier);
                Ok(())
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.read_ahead(batch.remote(), keys, tier),
        }
    }

    /// Returns the values of many keys in one call, in the order of the keys, as of `snapshot`. `keys` must be ascending.
    ///
    /// # Errors
    /// As [`Store::get`].
    #[inline]
    pub fn multi_get(
        &self,
        space: Space,
        keys: &[impl AsRef<[u8]>],
        snapshot: &Snapshot<'_>,
        tier: ReadTier,
    ) -> Result<Vec<Option<Pinned<'_>>>> {
        match (self, snapshot) {
            (Self::Rocks(rocks), Snapshot::Rocks(snapshot)) => rocks.multi_get(space, keys, snapshot, tier),
            #[cfg(feature = "remote")]
            (Self::Remote(remote), Snapshot::Remote(snapshot)) => remote.multi_get(space, keys, snapshot, tier),
            #[cfg(feature = "remote")]
            _ => unreachable!("{OF_ANOTHER}"),
        }
    }

    /// Scans the keys from `lower` up to but not including `upper` (unbounded if it is empty), as of `snapshot`, ascending.
    #[inline]
    pub fn scan<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
    ) -> Scan<'s> {
        match (self, snapshot) {
            (Self::Rocks(rocks), Snapshot::Rocks(snapshot)) => {
                Scan::Rocks(rocks.scan(space, lower, upper, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            (Self::Remote(remote), Snapshot::Remote(snapshot)) => {
                Scan::Remote(remote.scan(space, (lower, upper), false, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            _ => unreachable!("{OF_ANOTHER}"),
        }
    }

    /// Scans the same keys like [`Store::scan`], but skips at most so many deleted or overwritten ones at once: beyond that, the scan returns
    /// [`Error::WouldBlock`].
    pub fn scan_skipping<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
        most: u64,
    ) -> Scan<'s> {
        match (self, snapshot) {
            (Self::Rocks(rocks), Snapshot::Rocks(snapshot)) => {
                Scan::Rocks(rocks.scan_skipping(space, lower, upper, snapshot, tier, most))
            }
            #[cfg(feature = "remote")]
            _ => self.scan(space, lower, upper, snapshot, tier),
        }
    }

    /// Scans the same keys, descending.
    #[inline]
    pub fn scan_backwards<'s>(
        &'s self,
        space: Space,
        lower: &[u8],
        upper: &[u8],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
    ) -> Scan<'s> {
        match (self, snapshot) {
            (Self::Rocks(rocks), Snapshot::Rocks(snapshot)) => {
                Scan::Rocks(rocks.scan_backwards(space, lower, upper, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            (Self::Remote(remote), Snapshot::Remote(snapshot)) => {
                Scan::Remote(remote.scan(space, (lower, upper), true, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            _ => unreachable!("{OF_ANOTHER}"),
        }
    }

    /// Scans several ranges, each when [`Scan::seek`] has gone to its first key. They must be ascending and apart.
    #[inline]
    pub fn scan_many<'s>(
        &'s self,
        space: Space,
        ranges: &[(&[u8], &[u8])],
        snapshot: &'s Snapshot<'s>,
        tier: ReadTier,
    ) -> Scan<'s> {
        let lower = ranges.first().map_or(&[][..], |(lower, _)| lower);
        let upper = ranges.last().map_or(lower, |(_, upper)| upper);
        match (self, snapshot) {
            (Self::Rocks(rocks), Snapshot::Rocks(snapshot)) => {
                Scan::Rocks(rocks.scan(space, lower, upper, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            (Self::Remote(remote), Snapshot::Remote(snapshot)) => {
                Scan::Remote(remote.scan_many(space, ranges, snapshot, tier))
            }
            #[cfg(feature = "remote")]
            _ => unreachable!("{OF_ANOTHER}"),
        }
    }

    /// Returns a snapshot of the current state.
    ///
    /// # Errors
    /// Of a remote store: `WouldBlock` under [`ReadTier::Memory`]; `Busy` if it does not answer.
    #[inline]
    pub fn snapshot(&self, tier: ReadTier) -> Result<Snapshot<'_>> {
        match self {
            Self::Rocks(rocks) => {
                let _ = tier;
                Ok(Snapshot::Rocks(rocks.snapshot()))
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.snapshot(tier).map(Snapshot::Remote),
        }
    }

    /// Writes a batch and returns when it is as durable as `durability` requires. (What a remote store has written is replicated and synced
    /// in both classes.)
    ///
    /// # Errors
    /// `Invalid` if it was opened for reading; `Full` if it adds and the disk is nearly full; `Busy` if the engine cannot keep up and stalls
    /// are refused, or cannot open files; `Storage` on an I/O error. After an error under [`Durability::Strong`] the batch may be visible and
    /// yet not be durable. Of a remote store: `Raced` if keys were read for the batch and another server has written what it writes or depends
    /// on, in which case it is not written; `Busy` if it could not be written; `Unknown` if it is unknown whether it was.
    #[inline]
    pub fn write(&self, batch: &mut Batch, durability: Durability) -> Result<()> {
        match self {
            Self::Rocks(rocks) => rocks.write(batch.rocks(), durability),
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.write(batch.remote()),
        }
    }

    /// Waits before a transaction that has [raced](Error::Raced) so many times is run again.
    pub(crate) fn pause(&self, raced: u32) {
        match self {
            Self::Rocks(_) => {
                let _ = raced;
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.pause(raced),
        }
    }

    /// Writes what `stage` stages, which it is called for again whenever another server was faster.
    ///
    /// # Errors
    /// What `stage` returns; `Busy` if others are faster for long; as [`Store::write`].
    pub(crate) fn atomically<R>(
        &self,
        durability: Durability,
        mut stage: impl FnMut(&mut Batch) -> Result<R>,
    ) -> Result<R> {
        let (begun, mut raced) = (Instant::now(), 0);
        loop {
            let mut batch = Batch::default();
            let outcome = stage(&mut batch).and_then(|result| self.write(&mut batch, durability).map(|()| result));
            match outcome {
                Err(Error::Raced) if begun.elapsed() < RACED_WITHIN => {}
                Err(Error::Raced) => return Err(raced_too_often(raced)),
                outcome => return outcome,
            }
            raced += 1;
            self.pause(raced);
        }
    }

    /// Returns the number of this server among those of a remote store, in 16 bytes; of an embedded one, none.
    pub(crate) fn server(&self) -> &[u8] {
        match self {
            Self::Rocks(_) => &[],
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.server(),
        }
    }

    /// Returns the time of a remote store, in microseconds since 1970.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    pub(crate) fn clock(&self) -> Result<i64> {
        match self {
            Self::Rocks(_) => Ok(0),
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.clock(),
        }
    }

    /// Allows writes to a remote store until then; to none at all with `None`.
    pub(crate) fn set_lease(&self, until: Option<Instant>) {
        match self {
            Self::Rocks(_) => {
                let _ = until;
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.set_lease(until),
        }
    }

    /// Returns for how long a remote store may be written to without a new lease.
    pub(crate) fn lease(&self) -> Option<Duration> {
        match self {
            Self::Rocks(_) => None,
            #[cfg(feature = "remote")]
            Self::Remote(remote) => Some(remote.lease()),
        }
    }

    /// Ends the sessions that a server has with a remote store, if it knows sessions.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    pub(crate) fn end_sessions_of(&self, server: &[u8; 16]) -> Result<()> {
        match self {
            Self::Rocks(_) => {
                let _ = server;
                Ok(())
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.end_sessions_of(server),
        }
    }

    /// Has a remote store work for this server only as long as a key is there, whatever the server believes.
    pub(crate) fn set_fence(&self, space: Space, key: &[u8]) {
        match self {
            Self::Rocks(_) => {
                let _ = (space, key);
            }
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.set_fence(space, key),
        }
    }

    /// Refuses everything at a remote store from now on: this server does not know its schema any more.
    pub(crate) fn set_outdated(&self) {
        match self {
            Self::Rocks(_) => {}
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.set_outdated(),
        }
    }

    /// Has the requests of this thread to a remote store wait for no others of this server.
    pub(crate) fn come_first(&self) {
        match self {
            Self::Rocks(_) => {}
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.come_first(),
        }
    }

    /// Returns whether adjacent ids would all be written to one machine of a remote store.
    pub(crate) fn has_random_ids(&self) -> bool {
        match self {
            Self::Rocks(_) => false,
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.has_random_ids(),
        }
    }

    /// Removes what nobody can read any more from a remote store that does not do so itself.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    pub(crate) fn collect_garbage(&self) -> Result<()> {
        match self {
            Self::Rocks(_) => Ok(()),
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.collect_garbage(),
        }
    }

    /// Returns the kind of engine.
    pub(crate) fn engine(&self) -> &'static str {
        match self {
            Self::Rocks(_) => "rocksdb",
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.name(),
        }
    }

    /// Syncs the log: everything written so far survives a machine crash, whatever its durability was.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub fn sync(&self) -> Result<()> {
        embedded!(self, rocks => rocks.sync(), Ok(()))
    }

    /// Syncs without blocking a thread: calls back once the log was synced, or with the lead of the commit if no other waiter leads it. The
    /// callback must neither block nor panic.
    pub fn when_synced(&self, callback: impl FnOnce(Notification) + Send + 'static) {
        embedded!(self, rocks => rocks.when_synced(callback), callback(Notification::Served(Ok(()))));
    }

    /// Flushes all memtables and waits until no background work is running.
    ///
    /// # Errors
    /// `Invalid` if it was opened for reading; `Storage` on an I/O error; `Busy` if no file can be opened.
    pub fn flush(&self) -> Result<()> {
        embedded!(self, rocks => rocks.flush(), Ok(()))
    }

    /// Compacts everything into the bottom level and waits until no background work is running.
    ///
    /// # Errors
    /// As [`Store::flush`]; `Unsupported` by a remote store.
    pub fn compact(&self) -> Result<()> {
        embedded!(self, rocks => rocks.compact(), Err(unsupported("compacting")))
    }

    /// Reads every block of every sorted file and blob file, and checks its checksum: those with filters, too, which nothing else notices.
    ///
    /// # Errors
    /// `Corrupt`, with the file and the place, or `Storage` if a file is missing.
    pub fn check_files(&self) -> Result<()> {
        embedded!(self, rocks => rocks.check_files(), Ok(()))
    }

    /// Waits until no flush and no compaction is running or due.
    ///
    /// # Errors
    /// `Storage` if one of them failed.
    pub fn settle(&self) -> Result<()> {
        embedded!(self, rocks => rocks.settle(), Ok(()))
    }

    /// Reclaims the space of deleted keys with this number as prefix. The number must not be in use: files are removed regardless of
    /// snapshots.
    ///
    /// # Errors
    /// `Invalid` if it was opened for reading; `Storage` on an I/O error.
    pub fn reclaim_space(&self, space: Space, number: u32) -> Result<()> {
        embedded!(self, rocks => rocks.reclaim_space(space, number), Ok(()))
    }

    /// Reclaims the part of that space that needs no rewriting: sorted files that contain nothing else.
    ///
    /// # Errors
    /// As [`Store::reclaim_space`].
    pub fn remove_files(&self, space: Space, number: u32) -> Result<()> {
        embedded!(self, rocks => rocks.remove_files(space, number), Ok(()))
    }

    /// Removes the sorted files that contain nothing but keys from `lower` up to `upper`, of which none may be in use.
    ///
    /// # Errors
    /// As [`Store::reclaim_space`].
    pub fn remove_files_between(&self, space: Space, lower: &[u8], upper: &[u8]) -> Result<()> {
        embedded!(self, rocks => rocks.remove_files_between(space, lower, upper), Ok(()))
    }

    /// Compacts the sorted files that have keys from `lower` up to `upper`, if there are any: what was deleted there gives its space back.
    ///
    /// # Errors
    /// `Invalid` if it was opened for reading; `Storage` on an I/O error.
    pub fn compact_between(&self, space: Space, lower: &[u8], upper: &[u8]) -> Result<()> {
        embedded!(self, rocks => rocks.compact_between(space, lower, upper), Ok(()))
    }

    /// Creates a copy of the store in a new directory, which only its owner may enter: hard links of the sorted files, or copies on another
    /// file system, and a copy of the log. It is made in the directory `NAME.partial` beside it, which an interrupted one leaves behind.
    ///
    /// # Errors
    /// `Invalid` if one of the two exists; `Storage` on an I/O error; `Unsupported` by a remote store.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        embedded!(self, rocks => rocks.checkpoint(directory), Err(unsupported("a checkpoint")))
    }

    /// Returns counters of calls and of background work since the store was opened.
    pub fn counters(&self) -> Counters {
        either!(self, store => store.counters())
    }

    /// Returns why the engine refuses writes, if a flush or a compaction has failed and the engine has not recovered. May block while it
    /// [is short](Store::is_short) of descriptors.
    pub fn failure(&self) -> Option<String> {
        embedded!(self, rocks => rocks.failure(), None)
    }

    /// Returns whether the engine lacks file descriptors, so that a write may have to wait until it finds some.
    #[inline]
    pub fn is_short(&self) -> bool {
        embedded!(self, rocks => rocks.is_short(), false)
    }

    /// Looks at the free space of the disk; returns whether there is room for writes that add.
    pub fn look_at_room(&self) -> bool {
        embedded!(self, rocks => rocks.look_at_room(), true)
    }

    /// Returns whether more bytes of blobs, or of events, may be written now. Otherwise so many wait to be flushed that the engine would soon
    /// stall all writers, those of other spaces too.
    ///
    /// # Errors
    /// `Storage` if the engine does not report it.
    pub fn has_room_for(&self, space: Space) -> Result<bool> {
        embedded!(self, rocks => rocks.has_room_for(space), Ok(true))
    }

    /// Returns the engine's gauges; of a remote store, none but zeros.
    ///
    /// # Errors
    /// `Storage` if the engine does not report them.
    pub fn gauges(&self) -> Result<Gauges> {
        embedded!(self, rocks => rocks.gauges(), Ok(Gauges::default()))
    }

    /// Returns the bytes of keys and values in sorted files before compression, over all spaces; overwritten and deleted ones count until a
    /// compaction drops them. Reads the properties of every file: for benchmarks and operators.
    ///
    /// # Errors
    /// `Storage` if the engine does not report it; `Unsupported` by a remote store.
    pub fn uncompressed_bytes(&self) -> Result<u64> {
        embedded!(self, rocks => rocks.uncompressed_bytes(), Err(unsupported("the size of files")))
    }

    /// Returns the number of keys with this prefix and the bytes of their values; scans all of them.
    ///
    /// # Errors
    /// `Corrupt` or `Storage` from the engine.
    pub fn count_prefix(&self, space: Space, prefix: &[u8; 4]) -> Result<(u64, u64)> {
        let (snapshot, upper) =
            (self.snapshot(ReadTier::Disk)?, u32::from_be_bytes(*prefix).wrapping_add(1).to_be_bytes());
        let mut scan = self.scan(space, prefix, &upper, &snapshot, ReadTier::Disk);
        let (mut keys, mut bytes) = (0, 0);
        while let Some((_, value)) = scan.next()? {
            keys += 1;
            bytes += value.len() as u64;
        }
        Ok((keys, bytes))
    }

    /// Returns the options in effect.
    pub fn options(&self) -> &Options {
        either!(self, store => store.options())
    }

    /// Returns the sequence number of the latest operation that readers of the store see.
    ///
    /// # Errors
    /// Of a remote store: `Busy` if it does not answer.
    pub fn latest_sequence(&self) -> Result<u64> {
        match self {
            Self::Rocks(rocks) => Ok(rocks.latest_sequence()),
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.latest_sequence(),
        }
    }

    /// Reads the operations on one space from a position on.
    ///
    /// # Errors
    /// `Gone` if the log is not kept from there on, or never had the position; `Storage` on an I/O error; `Unsupported` by a remote store.
    pub fn log_from(&self, space: Space, position: LogPosition) -> Result<LogReader<'_>> {
        embedded!(self, rocks => rocks.log_from(space, position), Err(unsupported(CHANGES)))
    }

    /// Reads the operations on one space after an operation, which was the latest a moment ago.
    ///
    /// # Errors
    /// `Gone` if the log is not kept from there on; `Storage` on an I/O error; `Unsupported` by a remote store.
    pub fn log_behind(&self, space: Space, sequence: u64) -> Result<LogReader<'_>> {
        embedded!(self, rocks => rocks.log_behind(space, sequence), Err(unsupported(CHANGES)))
    }

    /// Registers the thread to unpark after every write, or none. A write already under way may miss a new registration.
    pub fn wake_after_writes(&self, thread: Option<Thread>) {
        embedded!(self, rocks => rocks.wake_after_writes(thread), ());
    }

    /// Checks that changes can be read from it.
    ///
    /// # Errors
    /// `Unsupported` by a remote store.
    pub(crate) fn check_has_log(&self) -> Result<()> {
        embedded!(self, _rocks => Ok(()), Err(unsupported(CHANGES)))
    }

    /// Checks that it is in files that can be copied.
    ///
    /// # Errors
    /// `Unsupported` by a remote store.
    pub(crate) fn check_has_files(&self) -> Result<()> {
        embedded!(self, _rocks => Ok(()), Err(unsupported("a checkpoint")))
    }

    /// Lets files pile up in level 0, as where compactions do not keep up.
    #[cfg(test)]
    pub(crate) fn pause_compactions(&self) {
        embedded!(self, rocks => rocks.pause_compactions(), ());
    }

    /// Stages a put in a batch.
    #[inline]
    pub fn put(&self, batch: &mut Batch, space: Space, key: &[u8], value: &[u8]) {
        match self {
            Self::Rocks(rocks) => rocks.put(batch.rocks(), space, key, value),
            #[cfg(feature = "remote")]
            Self::Remote(_) => batch.remote().put(space, key, value),
        }
    }

    /// Stages a delete in a batch.
    #[inline]
    pub fn delete(&self, batch: &mut Batch, space: Space, key: &[u8]) {
        match self {
            Self::Rocks(rocks) => rocks.delete(batch.rocks(), space, key),
            #[cfg(feature = "remote")]
            Self::Remote(_) => batch.remote().delete(space, key),
        }
    }

    /// Stages a delete of the keys from `lower` up to but not including `upper` in a batch. Not every remote store can write it.
    pub fn delete_range(&self, batch: &mut Batch, space: Space, lower: &[u8], upper: &[u8]) {
        match self {
            Self::Rocks(rocks) => rocks.delete_range(batch.rocks(), space, lower, upper),
            #[cfg(feature = "remote")]
            Self::Remote(_) => batch.remote().delete_range(space, lower, upper),
        }
    }

    /// Stages the removal of all keys with a prefix, which is never used again. A remote store removes them once the batch is written, and
    /// whoever has a snapshot may see some of them gone.
    pub fn destroy(&self, batch: &mut Batch, space: Space, prefix: &[u8]) {
        match self {
            Self::Rocks(rocks) => {
                let mut upper = Vec::new();
                key::successor(prefix, &mut upper);
                rocks.delete_range(batch.rocks(), space, prefix, &upper);
            }
            #[cfg(feature = "remote")]
            Self::Remote(_) => batch.remote().destroy(space, prefix),
        }
    }
}

impl Lead {
    /// Syncs the log of the store that offered the lead, for all waiters of the commit.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(crate) fn sync(self, store: &Store) -> Result<()> {
        match store {
            Store::Rocks(rocks) => self.sync_log_of(rocks),
            #[cfg(feature = "remote")]
            Store::Remote(_) => unreachable!("{OF_ANOTHER}"),
        }
    }
}

impl Snapshot<'_> {
    /// Returns the sequence number of the last write that it includes.
    #[inline]
    pub fn sequence(&self) -> u64 {
        either!(self, snapshot => snapshot.sequence())
    }
}

impl Scan<'_> {
    /// Continues at this key or, if it does not exist, at the next one in the direction of the scan, within its bounds.
    #[inline]
    pub fn seek(&mut self, key: &[u8]) {
        either!(self, scan => scan.seek(key));
    }

    /// Sets how many entries are expected to be read: a remote store reads as many at first. Those with long values are better not announced,
    /// since the entries read at once are in memory.
    #[inline]
    pub fn expect_entries(&mut self, entries: usize) {
        match self {
            Self::Rocks(_) => {
                let _ = entries;
            }
            #[cfg(feature = "remote")]
            Self::Remote(scan) => scan.expect_entries(entries),
        }
    }

    /// Has several scans of one snapshot that have not begun read their first entries: of a remote store, in one request.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub fn begin_together(scans: &mut [&mut Self]) -> Result<()> {
        #[cfg(feature = "remote")]
        {
            let remote = scans.iter_mut().filter_map(|scan| match scan {
                Self::Remote(scan) => Some(scan),
                Self::Rocks(_) => None,
            });
            remote::Scan::begin_together(&mut remote.collect::<Vec<_>>())?;
        }
        let _ = scans;
        Ok(())
    }

    /// Returns the next key and value, or `None` at the end.
    ///
    /// # Errors
    /// `Corrupt`, `Storage` or `WouldBlock` from the engine: `None` without an error is the real end.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an Iterator could not lend its entries")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        either!(self, scan => scan.next())
    }
}

impl Batch {
    /// Says that more space is given back by it than what it puts takes: it is written even if the disk is nearly full.
    pub fn set_gives_back(&mut self) {
        embedded!(self, rocks => rocks.set_gives_back(), ());
    }

    /// Says that a remote store writes it although this server has no lease.
    pub(crate) fn set_needs_no_lease(&mut self) {
        #[cfg(feature = "remote")]
        self.remote().set_needs_no_lease();
    }

    /// Removes what was staged, ends what was read for it, and keeps the memory, unless it has grown beyond four mebibytes.
    #[inline]
    pub fn clear(&mut self) {
        either!(self, batch => batch.clear());
    }

    /// Returns the number of staged bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        either!(self, batch => batch.bytes())
    }

    /// Returns the number of keys for a remote store, which takes so many at once; of the embedded one, which takes any number, none.
    pub(crate) fn remote_keys(&self) -> usize {
        match self {
            Self::Rocks(_) => 0,
            #[cfg(feature = "remote")]
            Self::Remote(batch) => batch.keys(),
        }
    }

    /// Returns whether nothing is staged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        either!(self, batch => batch.is_empty())
    }

    /// Returns whether what was read for it is no longer as it was, so that it cannot be written.
    #[inline]
    pub fn has_raced(&self) -> bool {
        match self {
            Self::Rocks(_) => false,
            #[cfg(feature = "remote")]
            Self::Remote(remote) => remote.has_raced(),
        }
    }

    #[inline]
    fn rocks(&mut self) -> &mut rocks::Batch {
        #[cfg(feature = "remote")]
        if let Self::Remote(_) = self {
            *self = Self::default();
        }
        match self {
            Self::Rocks(rocks) => rocks,
            #[cfg(feature = "remote")]
            Self::Remote(_) => unreachable!("it was replaced"),
        }
    }

    #[cfg(feature = "remote")]
    fn remote(&mut self) -> &mut remote::Batch {
        if let Self::Rocks(_) = self {
            *self = Self::Remote(Box::default());
        }
        match self {
            Self::Remote(remote) => remote,
            Self::Rocks(_) => unreachable!("it was replaced"),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::Rocks(rocks::Batch::default())
    }
}

impl Deref for Pinned<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        either!(self, value => value)
    }
}

impl AsRef<[u8]> for Pinned<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Counters since a store was opened. Bytes are of batches as written to the log, and of files written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Calls of `get`.
    pub gets: u64,
    /// Calls of `multi_get`.
    pub multi_gets: u64,
    /// Keys looked up by those calls.
    pub looked_up: u64,
    /// Calls of `scan`.
    pub scans: u64,
    /// Calls of `write`.
    pub writes: u64,
    /// Requests to a remote store, one after the other as its clients wait for them; what is sent together counts once.
    pub round_trips: u64,
    /// Syncs of the log; one serves all waiters of a commit.
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

/// The calls of a store by its users.
#[derive(Default)]
struct Calls {
    gets: Striped,
    multi_gets: Striped,
    looked_up: Striped,
    scans: Striped,
    writes: Striped,
}

/// Time for which a write is tried again while others are faster.
const RACED_WITHIN: Duration = Duration::from_secs(10);

/// Returns the error of a write for which others were faster each time.
pub(crate) fn raced_too_often(times: u32) -> Error {
    Error::Busy { detail: format!("other servers have changed what the request depends on {times} times") }
}

/// Returns the error of a write to a store that was opened for reading.
fn read_only() -> Error {
    Error::invalid("the store was opened for reading: open it for writing to change it")
}

#[cfg(feature = "remote")]
const OF_ANOTHER: &str = "it is of this store";

#[cfg(feature = "remote")]
const CHANGES: &str = "a feed of changes";

/// Returns the error of what a remote store does not have.
pub(crate) fn unsupported(what: &str) -> Error {
    Error::Unsupported { detail: format!("{what} needs the embedded engine: this store is a remote database") }
}
