//! The floors: the best raw RocksDB path through the same binding for the same bytes. A module of the benches, not a target.
//!
//! A floor opens a store that Strata prepared, with the options stored in it, so that both sides have the same memtables, filters and
//! caches. It resolves column families once, builds options once and reuses its batch: it does only what cannot be left out.
#![allow(dead_code, reason = "each target uses the paths its layer is held to")]

use std::cmp::Ordering;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rocksdb::event_listener::{CompactionJobInfo, EventListener, FlushJobInfo};
use rust_rocksdb as rocksdb;
use self_cell::self_cell;
use smallvec::SmallVec;
use strata_harness::{OrRefused, State};
use tempfile::TempDir;

self_cell!(
    struct Engine {
        owner: rocksdb::DB,
        #[covariant]
        dependent: Families,
    }
);

struct Families<'a> {
    records: &'a rocksdb::ColumnFamily,
    indexes: &'a rocksdb::ColumnFamily,
    streams: &'a rocksdb::ColumnFamily,
}

/// Operations, or records, that are verified at the end of a state's life: in the store, not in the answer.
pub const LOOKED_AT: u64 = 100;

/// The data that operations must have left in their store at the end of its life, so that no row is fast because it wrote nothing. A worker
/// promises it before its first operation.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// Records written, by the number of operations.
    pub records: fn(u64) -> u64,
    /// Minimum bytes of each.
    pub bytes: u64,
    /// Keys written with each: its own and those of its entries.
    pub keys: u64,
    /// True if the records are new, under ids made by the server, which sort before all others.
    pub created: bool,
}

impl Promise {
    /// A record of the data set, created by each operation.
    pub const CREATE: Self = Self { records: |operations| operations, bytes: 900, keys: 1, created: true };
    /// The same under a given id, or over an existing record.
    pub const WRITE: Self = Self { created: false, ..Self::CREATE };
    /// An existing record, deleted by each operation; the bytes are those of its key.
    pub const DELETE: Self = Self { bytes: 8, ..Self::WRITE };

    /// The key range of records whose ids were made by the server: these are hexadecimal.
    pub fn made(table: u32) -> [Vec<u8>; 2] {
        ["", "g"].map(|id| [&table.to_be_bytes(), id.as_bytes()].concat())
    }
}

/// A promise, and the counter of its store when it was given.
pub type Promised = OnceLock<(Promise, u64)>;

/// Keys of records in one reused buffer.
#[derive(Clone, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub fn push(&mut self, table: u32, id: &[u8]) {
        self.bytes.extend_from_slice(&table.to_be_bytes());
        self.bytes.extend_from_slice(id);
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Holds as many without an allocation as Strata's.
    pub fn slices(&self) -> SmallVec<[&[u8]; 8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end]).collect()
    }
}

/// A store opened without Strata.
pub struct Raw {
    engine: Engine,
    pub read: rocksdb::ReadOptions,
    pub write: rocksdb::WriteOptions,
    promised: Promised,
    files: Arc<AtomicU64>,
    _directory: TempDir,
}

/// The options a store was created with, to reopen it the same way; the cache is as large as Strata's.
fn stored_options(directory: &Path, cache_bytes: usize) -> (rocksdb::Options, Vec<rocksdb::ColumnFamilyDescriptor>) {
    complete_filters(directory);
    let cache = rocksdb::Cache::new_hyper_clock_cache(cache_bytes, 0);
    let environment = rocksdb::Env::new().expect("the default environment");
    let (mut options, families) =
        rocksdb::Options::load_latest(directory, environment, false, cache).expect("Strata has stored its options");
    // Strata limits them only after it has opened all files, which then stay open.
    options.set_max_open_files(-1);
    (options, families)
}

/// RocksDB's C interface stores a filter policy without its bits per key, and a store opened with that does not use its filters.
fn complete_filters(directory: &Path) {
    const BITS: &str = "filter_policy=bloomfilter:10:false\n";
    let files = std::fs::read_dir(directory).expect("the store").map(|entry| entry.expect("its files").path());
    for file in files.filter(|file| file.to_string_lossy().contains("OPTIONS-")) {
        let text = std::fs::read_to_string(&file).expect("options are text");
        let whole = text.replace("filter_policy=bloomfilter\n", BITS);
        assert!(whole.contains(BITS), "a store with bloom filters of 10 bits");
        std::fs::write(&file, whole).expect("a copy of our own");
    }
}

impl Raw {
    /// Opens the store in `directory`, which Strata has created and closed.
    pub fn open(directory: TempDir, cache_bytes: usize) -> Self {
        let (mut options, families) = stored_options(directory.path(), cache_bytes);
        let files = Arc::default();
        options.add_event_listener(Written(Arc::clone(&files)));
        let database = rocksdb::DB::open_cf_descriptors(&options, directory.path(), families).expect("a store to open");
        let engine = Engine::new(database, |database| Families {
            records: database.cf_handle("records").expect("records"),
            indexes: database.cf_handle("indexes").expect("indexes"),
            streams: database.cf_handle("streams").expect("streams"),
        });
        Self {
            engine,
            read: rocksdb::ReadOptions::default(),
            write: rocksdb::WriteOptions::default(),
            promised: Promised::new(),
            files,
            _directory: directory,
        }
    }

    /// Bytes that flushes and compactions have written since it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.files.load(Relaxed)
    }

    /// Each worker promises the same.
    pub fn promise(&self, promise: Promise) {
        self.promised.get_or_init(|| (promise, self.database().latest_sequence_number()));
    }

    /// The same with every block in the cache, as far as they fit.
    pub fn warmed(self) -> Self {
        self.read_all(rocksdb::ReadTier::All);
        self
    }

    /// Reads every chunk of a stream.
    pub fn warm_events(&self) {
        read_all(self.database().raw_iterator_cf_opt(&self.events(), rocksdb::ReadOptions::default()));
    }

    /// Reads every record and every entry, from memory only.
    pub fn read_from_memory(&self) {
        self.read_all(rocksdb::ReadTier::BlockCache);
    }

    fn read_all(&self, tier: rocksdb::ReadTier) {
        for family in [self.records(), self.indexes()] {
            let mut options = rocksdb::ReadOptions::default();
            options.set_read_tier(tier);
            read_all(self.database().raw_iterator_cf_opt(&family, options));
        }
    }

    pub fn database(&self) -> &rocksdb::DB {
        self.engine.borrow_owner()
    }

    pub fn records(&self) -> &rocksdb::ColumnFamily {
        self.engine.borrow_dependent().records
    }

    pub fn indexes(&self) -> &rocksdb::ColumnFamily {
        self.engine.borrow_dependent().indexes
    }

    /// The chunks of streams.
    pub fn events(&self) -> &rocksdb::ColumnFamily {
        self.engine.borrow_dependent().streams
    }

    /// The stored bytes of a record, pinned.
    pub fn get(&self, key: &[u8]) -> Option<rocksdb::DBPinnableSlice<'_>> {
        self.database().get_pinned_cf_opt(&self.records(), key, &self.read).expect("a healthy store")
    }

    pub fn put_record(&self, key: &[u8], value: &[u8]) {
        self.database().put_cf_opt(&self.records(), key, value, &self.write).or_refused();
    }

    pub fn commit(&self, batch: &rocksdb::WriteBatch) {
        self.database().write_opt(batch, &self.write).or_refused();
    }

    /// Seeks a prefix in the indexes and sets `keys` to the record keys of its entries, at most `most`.
    pub fn matches(&self, prefix: &[u8], end: &[u8], table: u32, most: usize, keys: &mut Keys) {
        let mut options = rocksdb::ReadOptions::default();
        options.set_iterate_upper_bound(end);
        let mut entries = self.database().raw_iterator_cf_opt(&self.indexes(), options);
        keys.clear();
        entries.seek(prefix);
        // Reads keys only, since an entry has no value, and does not step past the last one wanted.
        while let Some(entry) = entries.key() {
            keys.push(table, &entry[prefix.len()..]);
            if keys.len() == most {
                return;
            }
            entries.next();
        }
        entries.status().expect("a healthy store");
    }

    /// Sets `keys` to those of the records that have an entry in both of two stretches of the indexes, where entries are a prefix and the
    /// id.
    pub fn common(&self, stretches: [(&[u8], &[u8]); 2], table: u32, keys: &mut Keys) {
        let [mut one, mut other] = stretches.map(|(prefix, end)| {
            let mut options = rocksdb::ReadOptions::default();
            options.set_iterate_upper_bound(end);
            let mut entries = self.database().raw_iterator_cf_opt(&self.indexes(), options);
            entries.seek(prefix);
            entries
        });
        let [(first, _), (second, _)] = stretches;
        let mut sought = Vec::new();
        keys.clear();
        while let (Some(entry), Some(rival)) = (one.key(), other.key()) {
            let (id, rival) = (&entry[first.len()..], &rival[second.len()..]);
            let (behind, prefix, id) = match id.cmp(rival) {
                Ordering::Equal => {
                    keys.push(table, id);
                    one.next();
                    other.next();
                    continue;
                }
                Ordering::Less => (&mut one, first, rival),
                Ordering::Greater => (&mut other, second, id),
            };
            sought.clear();
            sought.extend_from_slice(prefix);
            sought.extend_from_slice(id);
            behind.seek(&sought);
        }
        one.status().and(other.status()).expect("a healthy store");
    }

    /// Iterates over the records from one key (inclusive) to another (exclusive); returns how many have a value.
    pub fn iterate(&self, from: &[u8], to: &[u8]) -> u64 {
        let mut options = rocksdb::ReadOptions::default();
        options.set_iterate_upper_bound(to);
        let mut records = self.database().raw_iterator_cf_opt(&self.records(), options);
        records.seek(from);
        let mut found = 0;
        while let Some(value) = records.value() {
            found += u64::from(!std::hint::black_box(value).is_empty());
            records.next();
        }
        found
    }

    /// Appends the values of sorted record keys, fetched in one call. No value is released before all are copied: a release is an atomic
    /// operation, and the loads of the next value would wait for it.
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>], answer: &mut Vec<u8>) {
        let values = self.database().batched_multi_get_pinned_cf_opt(&self.records(), keys, true, &self.read);
        for value in &values {
            let value = value.as_ref().expect("a healthy store");
            answer.extend_from_slice(value.as_ref().expect("a record of the data set"));
        }
    }
}

impl State for Raw {
    fn settle(&self) {
        let options = rocksdb::WaitForCompactOptions::default();
        self.database().wait_for_compact(&options).expect("a healthy store");
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        thread_counters()
    }

    fn verify(&self, operations: u64) {
        let Some((promise, before)) = self.promised.get() else { return };
        let records = (promise.records)(operations);
        assert_written(self.database().latest_sequence_number() - before, records * promise.keys);
        if promise.created {
            let [from, to] = Promise::made(1);
            let mut options = rocksdb::ReadOptions::default();
            options.set_iterate_upper_bound(to);
            let mut created = self.database().raw_iterator_cf_opt(&self.records(), options);
            created.seek(from);
            for number in 0..records.min(LOOKED_AT) {
                let whole = created.value().is_some_and(|record| record.len() as u64 >= promise.bytes);
                assert!(whole, "{operations} operations have left {number} records");
                created.next();
            }
        }
    }
}

/// Counts the bytes of the files that the engine writes, as Strata does.
struct Written(Arc<AtomicU64>);

impl EventListener for Written {
    fn on_flush_completed(&self, job: &FlushJobInfo) {
        let path = job.file_path().map(std::ffi::OsString::from_vec);
        let file = path.and_then(|path| std::fs::metadata(path).ok());
        // It may be compacted already.
        let bytes = file.map_or_else(|| job.table_properties().data_size(), |file| file.len());
        self.0.fetch_add(bytes, Relaxed);
    }

    fn on_compaction_completed(&self, job: &CompactionJobInfo) {
        self.0.fetch_add(job.total_output_bytes(), Relaxed);
    }
}

/// The engine numbers the keys that it accepts.
fn assert_written(taken: u64, promised: u64) {
    assert!(taken >= promised, "the engine has taken {taken} keys of {promised} that were promised");
}

/// RocksDB's counts of the calling thread's work in all stores (PerfContext), at the default level.
///
/// Key comparisons in a memtable vary, because a skip list draws its levels from a seed that is the thread's address; `setarch -R` fixes
/// it.
pub fn thread_counters() -> Vec<(&'static str, u64)> {
    use rocksdb::PerfMetric::*;
    let context = rocksdb::PerfContext::default();
    let metrics = [
        UserKeyComparisonCount,
        BlockCacheHitCount,
        BlockReadCount,
        BlockReadByte,
        GetReadBytes,
        MultigetReadBytes,
        IterReadBytes,
        InternalKeySkippedCount,
        InternalDeleteSkippedCount,
        GetFromMemtableCount,
        SeekOnMemtableCount,
        NextOnMemtableCount,
        SeekChildSeekCount,
        BloomSstHitCount,
        BloomSstMissCount,
    ];
    metrics.map(|metric| (metric.name(), context.metric(metric))).into()
}

self_cell!(
    struct OptimisticEngine {
        owner: rocksdb::OptimisticTransactionDB,
        #[covariant]
        dependent: Family,
    }
);

/// The column family of the records.
type Family<'a> = &'a rocksdb::ColumnFamily;

/// The same store under RocksDB's own optimistic transactions. The binding creates each transaction anew; RocksDB could reuse one.
pub struct Optimistic {
    engine: OptimisticEngine,
    pub read: rocksdb::ReadOptions,
    write: rocksdb::WriteOptions,
    transaction: rocksdb::OptimisticTransactionOptions,
    promised: Promised,
    _directory: TempDir,
}

/// Iterates over everything, to load it into the cache as far as it fits.
fn read_all<D: rocksdb::DBAccess>(mut all: rocksdb::DBRawIteratorWithThreadMode<'_, D>) {
    all.seek_to_first();
    while all.valid() {
        all.next();
    }
    all.status().expect("a healthy store, and a cache that holds it where memory alone is asked");
}

impl Optimistic {
    /// With every record in the cache.
    pub fn open(directory: TempDir, cache_bytes: usize) -> Self {
        let (options, families) = stored_options(directory.path(), cache_bytes);
        let opened = rocksdb::OptimisticTransactionDB::open_cf_descriptors(&options, directory.path(), families);
        let database: rocksdb::OptimisticTransactionDB = opened.expect("a store to open");
        let engine = OptimisticEngine::new(database, |database| database.cf_handle("records").expect("records"));
        read_all(engine.borrow_owner().raw_iterator_cf(engine.borrow_dependent()));
        Self {
            engine,
            read: rocksdb::ReadOptions::default(),
            write: rocksdb::WriteOptions::default(),
            transaction: rocksdb::OptimisticTransactionOptions::default(),
            promised: Promised::new(),
            _directory: directory,
        }
    }

    /// Each worker promises the same.
    pub fn promise(&self, promise: Promise) {
        self.promised.get_or_init(|| (promise, self.engine.borrow_owner().latest_sequence_number()));
    }

    /// A new transaction.
    pub fn begin(&self) -> rocksdb::Transaction<'_, rocksdb::OptimisticTransactionDB> {
        self.engine.borrow_owner().transaction_opt(&self.write, &self.transaction)
    }

    pub fn records(&self) -> Family<'_> {
        self.engine.borrow_dependent()
    }
}

impl State for Optimistic {
    fn settle(&self) {
        let options = rocksdb::WaitForCompactOptions::default();
        self.engine.borrow_owner().wait_for_compact(&options).expect("a healthy store");
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        thread_counters()
    }

    fn verify(&self, operations: u64) {
        if let Some((promise, before)) = self.promised.get() {
            let taken = self.engine.borrow_owner().latest_sequence_number() - before;
            assert_written(taken, (promise.records)(operations));
        }
    }
}
