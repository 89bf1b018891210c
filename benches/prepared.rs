//! Prepared stores and bodies: what is ready before a row's clock starts. A module of the benches, not a target.
//!
//! A template store is filled once per process and case, settled and closed; every state is a copy of it, with SST files as hard links, so
//! that both sides of a pair and every sample begin with the same store at the price of opening it.
#![allow(dead_code, reason = "each target prepares what its rows need")]

pub mod joined;
pub mod searched;
mod settings;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use strata::encoding::{Record, body, key, record};
use strata::schema::{Durability, Schema, Table};
use strata::storage::{self, ReadTier, Space};
use strata::transaction::Database;
use strata_harness::data::{self, Id};
use strata_harness::{OrRefused, Scale, State, temporary_directory};
use tempfile::TempDir;

use crate::floor::{self, LOOKED_AT, Promise, Promised, Raw};

/// Bodies that are made beforehand and used in turn.
pub const POOL: u64 = 1024;

/// The schema of the product with this many indexes.
pub fn schema(indexes: u32) -> Schema {
    parsed(indexes, "")
}

/// The same as a registry, with this time to live in seconds: an index on the deadline comes on top.
pub fn expiring_schema(indexes: u32, seconds: u32) -> Schema {
    parsed(indexes, &format!("(expiration: {seconds})"))
}

fn parsed(indexes: u32, arguments: &str) -> Schema {
    let [name, category, price, stock, in_stock, rating, description] = match indexes {
        0 => [""; 7],
        1 => ["", HASH, "", "", "", "", ""],
        2 => ["", HASH, ORDERED, "", "", "", ""],
        8 => [ORDERED, BOTH, ORDERED, ORDERED, HASH, ORDERED, HASH],
        other => panic!("no schema with {other} indexes"),
    };
    let sdl = format!(
        "type Product @table{arguments} @export {{
            id: ID @primaryKey
            name: String! {name}
            category: String {category}
            price: Float {price}
            stock: Int {stock}
            inStock: Boolean {in_stock}
            rating: Float {rating}
            description: String {description}
        }}"
    );
    Schema::parse(&sdl).expect("the schema of the data set")
}

const HASH: &str = "@indexed(type: \"hash\")";
const ORDERED: &str = "@indexed";
const BOTH: &str = "@indexed @indexed(type: \"hash\")";

/// Records of the usual store.
pub fn records(scale: Scale) -> u64 {
    match scale {
        Scale::Full => 10_000,
        Scale::Smoke => 500,
    }
}

/// The options of a measured store: no background compactions unless a row is about them, or `STRATA_SET` enables them.
pub fn options() -> storage::Options {
    options_with_cache(storage::Options::default().cache_bytes)
}

/// The same with a cache of that size, for rows about larger stores.
pub fn options_with_cache(cache_bytes: usize) -> storage::Options {
    let usual = storage::Options { cache_bytes, automatic_compactions: false, ..storage::Options::default() };
    settings::over(&usual, &set_options()).unwrap_or_else(|complaint| panic!("STRATA_SET: {complaint}"))
}

/// The value of `STRATA_SET`, which may be empty.
fn set_options() -> String {
    std::env::var("STRATA_SET").unwrap_or_default()
}

/// An open copy of a store.
pub struct Ours {
    pub database: Database,
    promised: Promised,
    directory: TempDir,
}

impl Ours {
    /// A copy of the template with this many records and indexes, in SST files that are in the cache.
    pub fn copy(indexes: u32, records: u64) -> Self {
        Self::open(copy(indexes, records), schema(indexes)).warmed()
    }

    /// The same in the middle of a mix: its memtable has half of what the mix creates per sample.
    pub fn in_a_mix(indexes: u32, records: u64) -> Self {
        let ours = Self::copy(indexes, records);
        create_all(&ours.database, (0..MIXED_BEFORE).map(|index| data::product(records + index, Id::LeftOut)));
        ours
    }

    /// A fresh store whose records are all in the memtable.
    pub fn in_memtable(indexes: u32, records: u64) -> Self {
        let ours = Self::open(temporary_directory(), schema(indexes));
        fill(&ours.database, 0..records);
        ours
    }

    pub fn open(directory: TempDir, schema: Schema) -> Self {
        Self::open_with(directory, schema, &options())
    }

    pub fn open_with(directory: TempDir, schema: Schema, options: &storage::Options) -> Self {
        let database = Database::open(directory.path(), schema, options).expect("a store to open");
        database.catch_up().expect("its indexes can be built");
        Self { database, promised: Promised::new(), directory }
    }

    /// Each worker promises the same.
    pub fn promise(&self, promise: Promise) {
        self.promised.get_or_init(|| (promise, self.database.counters().batch_bytes));
    }

    /// The same with every block in the cache, as far as they fit: each sample of a row that changes its store has a freshly opened store,
    /// and would otherwise measure reading it from disk.
    pub fn warmed(self) -> Self {
        self.read_all(ReadTier::Disk);
        self
    }

    /// The same for rows that state that the cache holds all of the store: it is read once more, from memory only, unless `STRATA_SET` is
    /// set, which may choose a smaller cache.
    pub fn held_by_cache(self) -> Self {
        let warmed = self.warmed();
        if set_options().is_empty() {
            warmed.read_all(ReadTier::Memory);
        }
        warmed
    }

    fn read_all(&self, tier: ReadTier) {
        let store = self.database.store();
        let snapshot = store.snapshot(ReadTier::Disk).or_refused();
        for space in [Space::Records, Space::Indexes] {
            let mut all = store.scan(space, &[], &[], &snapshot, tier);
            while all.next().expect("a healthy store, and a cache that holds it where memory alone is asked").is_some()
            {
            }
        }
    }

    /// Bytes that were written since the store was opened: batches to the log, and files.
    pub fn bytes_written(&self) -> u64 {
        let counters = self.database.counters();
        counters.batch_bytes + counters.flushed_bytes + counters.compacted_bytes
    }

    /// Closes it; returns its directory.
    pub fn into_directory(self) -> TempDir {
        drop(self.database);
        self.directory
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn product(&self) -> &Table {
        self.database.table("Product").expect("the table of the data set")
    }
}

impl State for Ours {
    fn settle(&self) {
        self.database.store().settle().expect("a healthy store");
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.database.counters();
        vec![
            ("flushes", counters.flushes),
            ("compactions", counters.compactions),
            ("bytes_written", self.bytes_written()),
        ]
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        floor::thread_counters()
    }

    fn verify(&self, operations: u64) {
        let Some((promise, before)) = self.promised.get() else { return };
        let (records, written) = ((promise.records)(operations), self.database.counters().batch_bytes - before);
        let promised = records * promise.bytes;
        assert!(written >= promised, "{operations} operations have written {written} bytes of {promised} at least");
        if promise.created {
            let (store, table) = (self.database.store(), &self.database.schema().tables[0]);
            let ([from, to], snapshot) = (Promise::made(table.id), store.snapshot(ReadTier::Disk).or_refused());
            let mut created = store.scan(Space::Records, &from, &to, &snapshot, ReadTier::Disk);
            for number in 0..records.min(LOOKED_AT) {
                let stored =
                    created.next().expect("a healthy store").and_then(|(_, bytes)| Record::open(table, bytes).ok());
                let whole = stored.is_some_and(|record| record.bytes().len() as u64 >= promise.bytes);
                assert!(whole, "{operations} operations have left {number} records");
            }
        }
    }
}

impl Raw {
    /// The same copy as [`Ours::copy`], opened raw.
    pub fn copy(indexes: u32, records: u64) -> Self {
        Self::open(copy(indexes, records), options().cache_bytes).warmed()
    }

    /// The same as [`Ours::held_by_cache`].
    pub fn held_by_cache(self) -> Self {
        let warmed = self.warmed();
        if set_options().is_empty() {
            warmed.read_from_memory();
        }
        warmed
    }

    /// The same records as [`Ours::in_memtable`], put raw.
    pub fn in_memtable(records: u64) -> Self {
        let raw = Self::copy(0, 0);
        let (schema, mut key, mut bytes) = (schema(0), Vec::new(), Vec::new());
        let table = &schema.tables[0];
        for index in 0..records {
            encode(table, &data::product(index, Id::Given), &mut bytes);
            key::record(table.id, &data::id(index), &mut key);
            raw.put_record(&key, &bytes);
        }
        raw
    }
}

/// The stored bytes of a body.
pub fn encode(table: &Table, body: &[u8], out: &mut Vec<u8>) {
    let fields = body::parse_object(table, body).expect("a body of the data set");
    record::encode(&fields, None::<&strata::transaction::Owned<'_>>, out).expect("a record of the data set");
}

fn fill(database: &Database, indexes: std::ops::Range<u64>) {
    create_all(database, indexes.map(|index| data::product(index, Id::Given)));
}

/// Creates a record from each body, in the only table of the store.
pub fn create_all(database: &Database, mut bodies: impl Iterator<Item = Vec<u8>>) {
    let table = &database.schema().tables[0];
    loop {
        let some: Vec<Vec<u8>> = bodies.by_ref().take(500).collect();
        if some.is_empty() {
            break;
        }
        let array = [b"[".as_slice(), &some.join(&b','), b"]"].concat();
        database.create_all(table, &array).or_refused();
    }
}

/// A copy of the store with this many products and indexes.
pub fn copy(indexes: u32, records: u64) -> TempDir {
    let fill = |database: &Database| fill(database, 0..records);
    copy_of(&template(&format!("products-{records}-indexes-{indexes}"), || schema(indexes), &options(), fill))
}

/// A copy of the store with this many products and indexes, made with compactions on and fully compacted: opening it with compactions on
/// starts none.
pub fn settled_copy(indexes: u32, records: u64, options: &storage::Options) -> TempDir {
    copy_of(&made(&format!("products-{records}-indexes-{indexes}-settled"), |directory| {
        for records in [0..records, 0..0] {
            let database = Database::open(directory, schema(indexes), options).expect("a store to prepare");
            fill(&database, records);
            database.store().compact().expect("a store that settles");
        }
    }))
}

/// A filled, settled and closed store, see [`made`]. Checks once that the cache holds a copy opened with these options, by Strata or raw,
/// so that no copy need be read twice.
pub fn template(
    name: &str,
    schema: impl Fn() -> Schema,
    options: &storage::Options,
    fill: impl FnOnce(&Database),
) -> PathBuf {
    made(name, |directory| {
        let database = Database::open(directory, schema(), options).expect("a store to prepare");
        fill(&database);
        database.store().compact().expect("a store that settles");
        drop(database);
        Ours::open_with(copy_of(directory), schema(), options).held_by_cache();
        Raw::open(copy_of(directory), options.cache_bytes).held_by_cache();
    })
}

/// A folder filled by `make`, once, and kept: for this process, or in `STRATA_TEMPLATES` for all processes of the same binary with the same
/// settings, if the runner names such a folder.
pub fn made(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static MADE: OnceLock<Mutex<HashMap<String, TempDir>>> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(directory) = made.get(name) {
        return directory.path().to_owned();
    }
    let shared = std::env::var_os("STRATA_TEMPLATES").map(|folder| Path::new(&folder).join(name));
    if let Some(shared) = shared.as_ref().filter(|shared| shared.exists()) {
        return shared.clone();
    }
    let directory = temporary_directory();
    make(directory.path());
    match shared {
        // The other side of a pair may have made it meanwhile; either is the same store.
        Some(shared) if std::fs::rename(directory.path(), &shared).is_ok() || shared.exists() => shared,
        _ => made.entry(name.to_owned()).or_insert(directory).path().to_owned(),
    }
}

/// A copy of a closed store: SST files, which never change, as hard links.
pub fn copy_of(template: &Path) -> TempDir {
    let directory = temporary_directory();
    for file in std::fs::read_dir(template).expect("the template").map(|entry| entry.expect("its files").path()) {
        let target = directory.path().join(file.file_name().expect("a file has a name"));
        if file.extension().is_some_and(|extension| extension == "sst") {
            let linked = std::fs::hard_link(&file, &target);
            linked
                .or_else(|_| std::fs::copy(&file, &target).map(drop))
                .expect("a link, or a copy to another file system");
        } else {
            std::fs::copy(&file, &target).expect("a copy of a small file");
        }
    }
    directory
}

/// Text with a number of eight digits in it that is changed in place, so that making the next body or key costs a few nanoseconds.
#[derive(Clone)]
pub struct Numbered {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Numbered {
    /// The number replaces every eight zeros in a row in `marked`.
    pub fn new(marked: &[u8]) -> Self {
        let mut places: Vec<usize> = Vec::new();
        for at in 0..marked.len().saturating_sub(7) {
            let free = places.last().is_none_or(|last| last + 8 <= at);
            if free && marked[at..at + 8] == *b"00000000" {
                places.push(at);
            }
        }
        assert!(!places.is_empty(), "no eight zeros to put a number in");
        Self { bytes: marked.to_vec(), places }
    }

    /// The text with this number.
    #[inline]
    pub fn with(&mut self, number: u64) -> &[u8] {
        let (mut digits, mut rest) = ([0; 8], number);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        for at in &self.places {
            self.bytes[*at..*at + 8].copy_from_slice(&digits);
        }
        &self.bytes
    }
}

/// The durability class of the rows, as the facts name it.
pub fn soft() -> &'static str {
    Durability::Soft.name()
}

/// The data of a store of this many records, in the facts.
pub fn described(records: u64) -> String {
    format!("{records} products of about 1 KB, 8 attributes")
}

/// The state of records read into the cache from SST files, in the facts.
pub const SST: &str = "SST, cached, no automatic compaction";
/// The same of a store that is written to: reads, if any, search the memtable first.
pub const WRITTEN: &str = "SST, cached; what is written, memtable";
/// Writes per sample of rows that several benches have: they fill the memtable, and a fuller one costs more. This many also amortise the
/// cost of a freshly opened store, none of which is in the processor's caches yet.
pub const WRITES: u64 = 8_000;
/// Operations per sample of a mix of seven reads and three creates: it creates as many records as a row of creates.
pub const MIXED: u64 = WRITES * 10 / 3;
/// Records that a mix has created when half of it is over: the average fill of the memtable that its reads search.
pub const MIXED_BEFORE: u64 = WRITES / 2;
/// The state of records that were never flushed, in the facts.
pub const MEMTABLE: &str = "memtable";

/// The keys of the first records of the data set, in their order.
pub fn record_keys(table: u32, records: u64) -> Vec<Vec<u8>> {
    let keys = (0..records).map(|index| {
        let mut key = Vec::new();
        key::record(table, &data::id(index), &mut key);
        key
    });
    keys.collect()
}

/// Bodies of the pool with an id that has room for a number.
pub fn bodies_with_id(id: &str) -> Vec<Numbered> {
    let with_id = |body: &Vec<u8>| Numbered::new(&[format!("{{\"id\":\"{id}\",").as_bytes(), &body[1..]].concat());
    bodies().iter().map(with_id).collect()
}

/// Bodies of the pool without an id, made once a process.
pub fn bodies() -> &'static [Vec<u8>] {
    static BODIES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BODIES.get_or_init(|| (1..=POOL).map(|index| data::product(index, Id::LeftOut)).collect())
}
