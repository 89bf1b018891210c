//! The configuration of RocksDB, and the reasons for it.
//!
//! A fixed handful of column families, not one per table. One HyperClockCache with an explicit budget; bloom filters of 10 bits per key, so
//! that the existence check of a create rarely reads a block; a hash index in the data blocks of records, which are read by exact key; LZ4
//! in the upper levels, ZSTD in the bottom level. Block checksums are verified, which is the default.
//!
//! Chunks of blobs are flushed to blob files (BlobDB), so that compactions move only their keys. Two small memtables are enough for them:
//! an upload is written once and seldom read soon after, and memory must not grow with it. The engine would stall the writers of all
//! families if the second filled up before the first is flushed, so uploads pause before that. A blob file is removed when all its chunks
//! are deleted. It is not rewritten to reclaim the deleted ones: compactions would do that for a fraction of all files at a time, however
//! many there are (the binding offers no finer choice), so it is left to the operator.
//!
//! Nothing that somebody else put into a data directory is changed: where there is no store in it, it is empty, or refused.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rocksdb::event_listener::{self, DBBackgroundErrorReason};
use rust_rocksdb as rocksdb;
use rustix::process::{Resource, getrlimit};
use self_cell::self_cell;

use super::log::Synced;
use super::shortage::{self, Shortage};
use super::{Options, Space, lock, log, memtables};
use crate::error::{Error, Result};

self_cell!(
    /// A database together with its column families, resolved once.
    pub(super) struct Engine {
        owner: rocksdb::DB,
        #[covariant]
        dependent: Families,
    }
);

pub(super) struct Families<'a> {
    meta: &'a rocksdb::ColumnFamily,
    records: &'a rocksdb::ColumnFamily,
    indexes: &'a rocksdb::ColumnFamily,
    blobs: &'a rocksdb::ColumnFamily,
    streams: &'a rocksdb::ColumnFamily,
}

impl Engine {
    pub(super) fn family(&self, space: Space) -> &rocksdb::ColumnFamily {
        let families = self.borrow_dependent();
        match space {
            Space::Meta => families.meta,
            Space::Records => families.records,
            Space::Indexes => families.indexes,
            Space::Blobs => families.blobs,
            Space::Streams => families.streams,
        }
    }
}

/// Counters and state of the engine's background work, updated by its events.
#[derive(Default)]
pub(super) struct Background {
    pub(super) batch_bytes: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flushed_bytes: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) compacted_bytes: AtomicU64,
    /// Why the engine refuses writes, while it does.
    pub(super) failure: Mutex<Option<String>>,
    pub(super) shortage: Shortage,
    /// Set once the store is open for writing.
    pub(super) synced: OnceLock<Synced>,
}

impl Background {
    /// Records whether the engine accepts writes; logs each change once.
    fn set_failure(&self, status: &std::result::Result<(), rocksdb::Error>) {
        replace_failure(&mut self.failure.lock(), status.as_ref().err().map(ToString::to_string));
    }

    /// Records that the engine could not open a file.
    fn begin_shortage(&self, error: &rocksdb::Error) {
        let mut failure = self.failure.lock();
        self.shortage.begin();
        replace_failure(&mut failure, Some(error.to_string()));
    }

    /// Records that a shortage is over, and returns whether it is: whether the engine has lacked files no more than so many times.
    pub(super) fn end_shortage(&self, times: u64) -> bool {
        let mut failure = self.failure.lock();
        let is_over = self.shortage.end(times);
        // Another failure may have come since.
        if is_over && failure.as_deref().is_some_and(shortage::is_named_in) {
            replace_failure(&mut failure, None);
        }
        is_over
    }
}

/// Replaces the reason why writes are refused, and logs it.
fn replace_failure(known: &mut Option<String>, failure: Option<String>) {
    match (&*known, &failure) {
        (None, Some(failure)) => tracing::error!("the storage refuses writes: {failure}"),
        (Some(_), None) => tracing::info!("the storage accepts writes again"),
        _ => {}
    }
    *known = failure;
}

struct Listener {
    background: Arc<Background>,
    directory: PathBuf,
    log_bytes: u64,
}

impl event_listener::EventListener for Listener {
    fn on_flush_completed(&self, job: &event_listener::FlushJobInfo) {
        self.background.flushes.fetch_add(1, Ordering::Relaxed);
        let blobs: u64 = job.blob_file_addition_infos().map(|file| file.total_blob_bytes()).sum();
        self.background.flushed_bytes.fetch_add(size_of_file(job) + blobs, Ordering::Relaxed);
        // Trims files left by earlier flushes: those that this one makes obsolete are archived after it.
        log::trim(&self.directory, self.log_bytes);
    }

    fn on_compaction_completed(&self, job: &event_listener::CompactionJobInfo) {
        self.background.compactions.fetch_add(1, Ordering::Relaxed);
        self.background.compacted_bytes.fetch_add(job.total_output_bytes(), Ordering::Relaxed);
    }

    fn on_background_error(&self, reason: DBBackgroundErrorReason, status: event_listener::MutableStatus) {
        match status.result() {
            Err(error) if shortage::is_shortage(error) && shortage::may_go_on(&reason) => {
                status.reset();
                match reason {
                    // The engine tries it again a second later, and meanwhile takes writes.
                    DBBackgroundErrorReason::KCompaction => {
                        tracing::warn!("a compaction cannot open a file and will be retried: {error}");
                    }
                    _ => self.background.begin_shortage(error),
                }
            }
            result => self.background.set_failure(result),
        }
    }

    /// The engine retries by itself after a recoverable error (such as a full disk).
    fn on_error_recovery_end(&self, ended: &event_listener::BackgroundErrorRecoveryInfo) {
        self.background.set_failure(ended.new_bg_error().result());
    }
}

/// Returns the bytes of the file that a flush has written. Its table properties count the index before compression; they are used only if
/// the file no longer exists.
fn size_of_file(job: &event_listener::FlushJobInfo) -> u64 {
    let path = job.file_path().map(OsString::from_vec);
    let file = path.and_then(|path| std::fs::metadata(path).ok());
    let properties = job.table_properties();
    file.map_or(properties.data_size() + properties.index_size() + properties.filter_size(), |file| file.len())
}

/// When the log is as large as this many memtables, the family that holds back the oldest file is flushed.
const MEMTABLES_IN_LOGS: u64 = 4;

/// More than any log archive, in mebibytes: a size limit makes the engine archive log files, and this module removes them.
const ARCHIVED_MIB: u64 = 1 << 32;

/// The least files that the engine keeps open, whatever it is told.
pub const FEWEST_OPEN_FILES: usize = 20;

/// Less than what the engine takes for no limit.
const MOST_OPEN_FILES: usize = 1 << 20;

/// Open files for each shard of the engine's cache of them: a shard may exceed its part of the limit by one.
const OPEN_FILES_PER_SHARD: usize = 32;

/// Size of a memtable of blobs; there are two.
const BLOB_BUFFER_BYTES: usize = 8 << 20;

/// A shorter value stays in the sorted files: manifests, and the chunks of the smallest blobs.
const SEPARATE_BYTES: u64 = 4 << 10;

const RECORDS: &str = "records";
const INDEXES: &str = "indexes";
const BLOBS: &str = "blobs";
const STREAMS: &str = "streams";

/// A smaller cache can always be reserved.
const LEAST_CHECKED_BYTES: usize = 64 << 20;

/// Checks that the system can reserve the caches: RocksDB ends the process where it cannot reserve their tables, which are smaller.
///
/// # Errors
/// `Invalid`, with the name of the option.
pub(super) fn check_caches(options: &Options) -> Result<()> {
    let sizes = [("cache_bytes", options.cache_bytes), ("blob_cache_bytes", options.blob_cache_bytes)];
    let mut reserved = Vec::new();
    // To give back less would teach the allocator to keep blocks of that size.
    for (name, bytes) in sizes.into_iter().filter(|(_, bytes)| *bytes > LEAST_CHECKED_BYTES) {
        let mut room = Vec::<u8>::new();
        let outcome = room.try_reserve_exact(bytes);
        outcome.map_err(|_| Error::invalid(format!("{name}: the system cannot reserve {bytes} bytes: choose less")))?;
        reserved.push(room);
    }
    // Otherwise the compiler leaves the allocations out.
    std::hint::black_box(&reserved);
    Ok(())
}

/// Returns how many sorted files and blob files are kept open.
pub(super) fn open_files(options: &Options) -> usize {
    options.open_files.unwrap_or_else(|| limit_of_files() / 2).clamp(FEWEST_OPEN_FILES, MOST_OPEN_FILES)
}

pub(super) fn open(
    directory: &Path,
    options: &Options,
    open_files: usize,
    background: &Arc<Background>,
) -> Result<Engine> {
    check_contents(directory)?;
    let mut database_options = rocksdb::Options::default();
    database_options.create_if_missing(true);
    database_options.create_missing_column_families(true);
    database_options.increase_parallelism(i32::try_from(cores()).unwrap_or(i32::MAX));
    database_options.set_keep_log_file_num(4);
    // A log file is kept until all families have flushed their writes in it, and index entries fill their memtable many times more slowly
    // than records do: without a limit log files pile up, and recovery after a crash reads all of them.
    database_options.set_max_total_wal_size(MEMTABLES_IN_LOGS.saturating_mul(options.write_buffer_bytes as u64));
    let log_bytes = options.feed_log_bytes as u64;
    if log_bytes > 0 {
        database_options.set_wal_size_limit_mb(ARCHIVED_MIB);
    }
    // Few sorted files are all opened now, and stay open: then no reader has to look for them in the cache of open files.
    let few = sorted_files(directory)? <= open_files / 2;
    database_options.set_max_open_files(if few { -1 } else { open_files as i32 });
    database_options.set_table_cache_num_shard_bits(shard_bits(open_files));
    let listener = Listener { background: Arc::clone(background), directory: directory.to_owned(), log_bytes };
    database_options.add_event_listener(listener);
    let database = rocksdb::DB::open_cf_descriptors(&database_options, directory, descriptors(options))
        .map_err(|error| explain(directory, error))?;
    let limit = database.set_db_options(&[("max_open_files", &open_files.to_string())]);
    limit.map_err(|error| Error::storage("cannot limit the number of open files", error))?;
    // The engine has flushed everything that was in the log.
    let synced = Synced::begin(directory, database.latest_sequence_number());
    let _ = background.synced.set(synced?);
    log::trim(directory, log_bytes);
    resolved(database)
}

/// Opens a database that exists; changes nothing in its directory.
pub(super) fn open_read_only(directory: &Path, options: &Options, open_files: usize) -> Result<Engine> {
    check_contents(directory)?;
    let mut database_options = rocksdb::Options::default();
    database_options.set_max_open_files(open_files as i32);
    database_options.set_table_cache_num_shard_bits(shard_bits(open_files));
    let database =
        rocksdb::DB::open_cf_descriptors_read_only(&database_options, directory, descriptors(options), false)
            .map_err(|error| explain(directory, error))?;
    resolved(database)
}

fn shard_bits(open_files: usize) -> i32 {
    (open_files / OPEN_FILES_PER_SHARD).max(1).ilog2().min(6) as i32
}

fn descriptors(options: &Options) -> [rocksdb::ColumnFamilyDescriptor; 5] {
    let cache = cache(options.cache_bytes);
    let families = [
        (rocksdb::DEFAULT_COLUMN_FAMILY_NAME, family_options(options, cache.as_ref(), Space::Meta)),
        (RECORDS, family_options(options, cache.as_ref(), Space::Records)),
        (INDEXES, family_options(options, cache.as_ref(), Space::Indexes)),
        // A store of an earlier version has no blobs or no streams; they are created.
        (BLOBS, blob_options(options, cache.as_ref())),
        (STREAMS, family_options(options, cache.as_ref(), Space::Streams)),
    ];
    families.map(|(name, options)| rocksdb::ColumnFamilyDescriptor::new(name, options))
}

fn resolved(database: rocksdb::DB) -> Result<Engine> {
    Engine::try_new(database, |database| {
        let family =
            |name| database.cf_handle(name).ok_or_else(|| Error::corrupt(format!("column family {name} is missing")));
        Ok(Families {
            meta: family(rocksdb::DEFAULT_COLUMN_FAMILY_NAME)?,
            records: family(RECORDS)?,
            indexes: family(INDEXES)?,
            blobs: family(BLOBS)?,
            streams: family(STREAMS)?,
        })
    })
}

/// Checks that a directory holds a store, or nothing that would be lost: RocksDB takes one without the file CURRENT for its own, and
/// clears it.
///
/// # Errors
/// `Corrupt` if files of a store are there without CURRENT; `Invalid` if others are; `Storage` if it cannot be read.
fn check_contents(directory: &Path) -> Result<()> {
    let path = directory.display();
    let refused = |error| Error::storage(format!("cannot read the data directory {path}"), error);
    if directory.join("CURRENT").try_exists().map_err(refused)? {
        return Ok(());
    }
    let names = std::fs::read_dir(directory).map_err(refused)?.map(|file| Ok(file?.file_name()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>().map_err(refused)?;
    names.retain(|name| !may_precede_a_store(directory, name.as_encoded_bytes()));
    // They are made only after CURRENT is.
    let is_of_store = |name: &OsString| {
        let name = name.to_string_lossy();
        let (stem, end) = name.rsplit_once(['.', '-']).unwrap_or_default();
        let is_numbered = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
        matches!(end, "sst" | "blob" | "log") && is_numbered(stem) || stem == "OPTIONS" && is_numbered(end)
    };
    match names.first() {
        None => Ok(()),
        Some(_) if names.iter().any(is_of_store) => {
            Err(Error::corrupt(format!("the data directory {path} has no file CURRENT: restore it from a copy")))
        }
        Some(name) => {
            let name = name.display();
            Err(Error::invalid(format!(
                "the data directory {path} holds no store, but other files, such as {name}: choose an empty or a new one"
            )))
        }
    }
}

/// Returns whether it is the name of what may lie in a directory before a store does: what RocksDB makes before CURRENT, which an
/// interrupted first start leaves behind, the self-signed certificate, and what a file system has of its own.
fn may_precede_a_store(directory: &Path, name: &[u8]) -> bool {
    let is_empty =
        |folder: &str| std::fs::read_dir(directory.join(folder)).is_ok_and(|mut files| files.next().is_none());
    match name {
        b"LOCK" | b"LOG" | b"IDENTITY" | b"tls" | b"lost+found" => true,
        b"archive" => is_empty("archive"),
        _ => name.starts_with(b"LOG.old.") || name.starts_with(b"MANIFEST-") || name.ends_with(b".dbtmp"),
    }
}

/// Returns the bytes that the active memtable of a space may hold while another is flushed; the rest is for writes under way.
pub(super) fn active_bytes(space: Space, options: &Options) -> u64 {
    match space {
        Space::Blobs => (BLOB_BUFFER_BYTES - (2 << 20)) as u64,
        _ => options.write_buffer_bytes as u64 / 4 * 3,
    }
}

/// The number of files in level 0 of a space from which on the engine delays all writes.
const DELAYING_FILES: i32 = 20;

/// Returns the number of files in level 0 from which on bulk writers wait: there is room for those that the last memtables become. Where
/// nothing is compacted the engine delays nobody for their number, and nobody may wait for less of them.
pub(super) fn full_level_0(options: &Options) -> u64 {
    if options.automatic_compactions { DELAYING_FILES as u64 - 2 } else { u64::MAX }
}

/// Returns a cache of this capacity; `None` for 0, which the engine does not accept.
fn cache(bytes: usize) -> Option<rocksdb::Cache> {
    (bytes > 0).then(|| rocksdb::Cache::new_hyper_clock_cache(bytes, 0))
}

fn family_options(options: &Options, cache: Option<&rocksdb::Cache>, space: Space) -> rocksdb::Options {
    let mut blocks = rocksdb::BlockBasedOptions::default();
    match cache {
        Some(cache) => {
            blocks.set_block_cache(cache);
            blocks.set_cache_index_and_filter_blocks(true);
        }
        None => blocks.disable_cache(),
    }
    blocks.set_bloom_filter(10.0, false);
    // Charged to the cache, but never looked up there: a get of a cached block saves two look-ups.
    blocks.set_unpartitioned_pinning_tier(rocksdb::BlockBasedPinningTier::All);
    if space == Space::Records {
        blocks.set_data_block_index_type(rocksdb::DataBlockIndexType::BinaryAndHash);
    }
    let mut family = rocksdb::Options::default();
    family.set_block_based_table_factory(&blocks);
    family.set_write_buffer_size(options.write_buffer_bytes);
    family.set_max_write_buffer_number(memtables(space));
    family.set_level_zero_slowdown_writes_trigger(DELAYING_FILES);
    family.set_compression_type(rocksdb::DBCompressionType::Lz4);
    family.set_bottommost_compression_type(rocksdb::DBCompressionType::Zstd);
    family.set_disable_auto_compactions(!options.automatic_compactions);
    family
}

fn blob_options(options: &Options, records_cache: Option<&rocksdb::Cache>) -> rocksdb::Options {
    let mut family = family_options(options, records_cache, Space::Blobs);
    family.set_write_buffer_size(BLOB_BUFFER_BYTES);
    family.set_enable_blob_files(true);
    family.set_min_blob_size(SEPARATE_BYTES);
    // Pictures, sound and archives are compressed already.
    family.set_blob_compression_type(rocksdb::DBCompressionType::None);
    if let Some(cache) = cache(options.blob_cache_bytes) {
        family.set_blob_cache(&cache);
    }
    family
}

/// Rewrites all blob files without the chunks that were deleted.
pub(super) fn rewrite_blob_files(
    database: &rocksdb::DB,
    blobs: &rocksdb::ColumnFamily,
) -> std::result::Result<(), rocksdb::Error> {
    let collect = |on| [("enable_blob_garbage_collection", on), ("blob_garbage_collection_age_cutoff", "1.0")];
    database.set_options_cf(&blobs, &collect("true"))?;
    let mut all = rocksdb::CompactOptions::default();
    all.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
    database.compact_range_cf_opt(&blobs, None::<&[u8]>, None::<&[u8]>, &all);
    database.set_options_cf(&blobs, &collect("false"))
}

/// Returns the number of sorted files in a directory.
fn sorted_files(directory: &Path) -> Result<usize> {
    let files = std::fs::read_dir(directory)
        .map_err(|error| Error::storage(format!("cannot read the data directory {}", directory.display()), error))?;
    Ok(files.flatten().filter(|file| file.file_name().as_encoded_bytes().ends_with(b".sst")).count())
}

/// Returns how many file descriptors the process may have.
fn limit_of_files() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

/// Adds what to do about an error that RocksDB only describes.
fn explain(directory: &Path, error: rocksdb::Error) -> Error {
    let (path, text) = (directory.display(), error.to_string());
    if text.contains("Resource temporarily unavailable") {
        return lock::in_use(directory);
    }
    if text.contains("Column family not found") {
        let detail = format!(
            "the data directory {path} is of an earlier version of Strata: serve it once, which adds what is new"
        );
        return Error::storage(detail, error);
    }
    match error.kind() {
        rocksdb::ErrorKind::Corruption => {
            Error::corrupt(format!("the data directory {path} is damaged: restore it from a copy ({text})"))
        }
        _ => Error::storage(format!("cannot open the data directory {path}"), error),
    }
}
