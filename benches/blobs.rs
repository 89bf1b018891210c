//! Reading and writing blobs, in process: 150 KB, the size of a picture, and 2 MB, which is more than one piece.
//!
//! The floor stores the same bytes as values of 256 KiB, the size of a Strata piece, each behind a checksum by the same hash, in its own
//! store with the same options. Per value, a read is a pinned get, one copy and a comparison, and a write is a checksum and a put of bytes
//! that are already contiguous. Strata reads record, manifest and chunks from a snapshot, and verifies and copies chunks of 64 KiB; it
//! splits incoming bytes into chunks, writes them with a manifest and the record, which it reads first, and deletes the old blob. An
//! operation writes 6 MB and flushes them, so that each does the same work, whenever it is looked at.

mod floor;
mod prepared;

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prepared::{options, soft};
use rust_rocksdb as rocksdb;
use strata::blobs::{self, PIECE_BYTES, Reader, Upload};
use strata::error::{Error, Result};
use strata::schema::{Schema, Table};
use strata::transaction::{Database, Precondition};
use strata_harness::data::scatter;
use strata_harness::{Facts, OrRefused, Scale, State, Suite, Unit, refused, suite, temporary_directory};
use tempfile::TempDir;
use twox_hash::XxHash3_64;

/// The position of the blob attribute.
const PICTURE: usize = 1;

/// Blobs of one length.
#[derive(Clone, Copy)]
struct Blobs {
    case: &'static str,
    bytes: usize,
    /// As many as the blob cache holds.
    count: u64,
    /// Blobs that one operation writes before it flushes them: fewer bytes than a memtable has.
    writes: u64,
}

const SIZES: [Blobs; 2] = [
    Blobs { case: "150_kb", bytes: 150 << 10, count: 150, writes: 40 },
    Blobs { case: "2_mb", bytes: 2 << 20, count: 10, writes: 3 },
];

fn main() {
    suite("blobs", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        for blobs in SIZES {
            let count = match suite.scale() {
                Scale::Full => blobs.count,
                Scale::Smoke => 3,
            };
            get(suite, Blobs { count, ..blobs });
            put(suite, Blobs { count, ..blobs });
        }
    });
}

impl Blobs {
    /// The bytes of a blob.
    fn content(self, number: u64) -> Vec<u8> {
        (0..self.bytes as u64).map(|place| (scatter(place, 251) + number) as u8).collect()
    }

    /// The bytes that one operation writes.
    fn written(self) -> u64 {
        self.bytes as u64 * self.writes
    }

    fn facts(self, op: &str) -> Facts {
        let data = format!("{} blobs of {} KiB", self.count, self.bytes >> 10);
        Facts::new(op).data(data).unit(Unit::Bytes, self.bytes as u64)
    }
}

/// A Strata store with one blob per record.
struct Photos {
    database: Database,
    /// Bytes of the blobs that one operation writes.
    bytes: u64,
    /// Bytes written before the first operation, if operations write blobs.
    before: OnceLock<u64>,
    _directory: TempDir,
}

impl Photos {
    fn fresh(blobs: Blobs) -> Self {
        let directory = temporary_directory();
        let schema = Schema::parse("type Photo @table { id: ID! @primaryKey picture: Blob }").expect("a schema");
        let database = Database::open(directory.path(), schema, &options()).expect("a store to open");
        let bytes = blobs.written();
        let photos = Self { database, bytes, before: OnceLock::new(), _directory: directory };
        for number in 0..blobs.count {
            photos.database.create(photos.table(), format!(r#"{{"id":"{number}"}}"#).as_bytes()).or_refused();
            photos.write(number, &blobs.content(number));
        }
        photos.database.store().flush().expect("a healthy store");
        for number in 0..blobs.count {
            let mut whole = Vec::new();
            photos.read(number, |piece| whole.extend(piece));
            assert!(whole == blobs.content(number));
        }
        photos
    }

    fn table(&self) -> &Table {
        self.database.table("Photo").expect("the table of the schema")
    }

    /// Passes on piece by piece; returns the number of bytes.
    fn read(&self, number: u64, mut hand_over: impl FnMut(Vec<u8>)) -> u64 {
        let reader = Reader::open(&self.database, self.table(), &number.to_string(), PICTURE).expect("a healthy store");
        let mut reader = reader.expect("a record that is there");
        while reader.left_bytes() > 0 {
            hand_over(reader.next(&self.database).expect("a whole blob"));
        }
        reader.length_bytes()
    }

    fn write(&self, number: u64, mut bytes: &[u8]) {
        let (id, none) = (number.to_string(), Precondition::None);
        let upload = Upload::begin(&self.database, self.table(), &id, PICTURE, "image/png", none);
        let mut upload = upload.or_refused();
        loop {
            bytes = &bytes[upload.take(bytes)..];
            if bytes.is_empty() {
                return in_time(|| upload.finish(&self.database).map(drop));
            }
            in_time(|| upload.write());
        }
    }
}

/// Retries until the memtables have room.
fn in_time(mut attempt: impl FnMut() -> Result<()>) {
    while let Err(error) = attempt() {
        if !matches!(error, Error::Busy { .. }) {
            refused(&error.to_string());
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl State for Photos {
    fn settle(&self) {
        self.database.store().settle().expect("a healthy store");
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        floor::thread_counters()
    }

    fn verify(&self, operations: u64) {
        let Some(before) = self.before.get() else { return };
        let written = self.database.counters().batch_bytes - before;
        let expected = operations * self.bytes;
        assert!(written >= expected, "{operations} operations have written {written} bytes, not {expected}");
        assert_eq!(blobs::disagreements(&self.database).expect("a healthy store"), Vec::<String>::new());
    }
}

/// The same bytes as raw values, each a piece behind its checksum.
struct Raw {
    database: rocksdb::DB,
    /// Length of one blob.
    bytes: usize,
    /// Blobs that one operation writes.
    writes: u64,
    read: rocksdb::ReadOptions,
    write: rocksdb::WriteOptions,
    before: OnceLock<u64>,
    _directory: TempDir,
}

impl Raw {
    fn fresh(blobs: Blobs) -> Self {
        let directory = temporary_directory();
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.increase_parallelism(std::thread::available_parallelism().map_or(2, |cores| cores.get() as i32));
        options.set_write_buffer_size(8 << 20);
        options.set_max_write_buffer_number(3);
        options.set_enable_blob_files(true);
        options.set_min_blob_size(4 << 10);
        options.set_blob_cache(&rocksdb::Cache::new_hyper_clock_cache(prepared::options().blob_cache_bytes, 0));
        options.set_disable_auto_compactions(true);
        let mut blocks = rocksdb::BlockBasedOptions::default();
        blocks.set_block_cache(&rocksdb::Cache::new_hyper_clock_cache(prepared::options().cache_bytes, 0));
        blocks.set_bloom_filter(10.0, false);
        options.set_block_based_table_factory(&blocks);
        let database = rocksdb::DB::open(&options, directory.path()).expect("a store to open");
        let raw = Self {
            database,
            bytes: blobs.bytes,
            writes: blobs.writes,
            read: rocksdb::ReadOptions::default(),
            write: rocksdb::WriteOptions::default(),
            before: OnceLock::new(),
            _directory: directory,
        };
        for number in 0..blobs.count {
            raw.put(number, &mut Raw::pieces(&blobs.content(number)));
        }
        raw.database.flush().expect("a healthy store");
        for number in 0..blobs.count {
            let mut whole = Vec::new();
            raw.get(number, |piece| whole.extend(piece));
            assert!(whole == blobs.content(number));
        }
        raw
    }

    fn key(number: u64, piece: usize) -> [u8; 12] {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key[8..].copy_from_slice(&(piece as u32).to_be_bytes());
        key
    }

    /// The pieces of a blob, each behind space for its checksum.
    fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
        bytes.chunks(PIECE_BYTES).map(|piece| [&[0; 8], piece].concat()).collect()
    }

    /// Passes on piece by piece, each copied once, as in the body of an answer.
    fn get(&self, number: u64, mut hand_over: impl FnMut(Vec<u8>)) -> u64 {
        for piece in 0..self.bytes.div_ceil(PIECE_BYTES) {
            let value = self.database.get_pinned_opt(Self::key(number, piece), &self.read).expect("a healthy store");
            let value = value.expect("a key that is there");
            let (checksum, bytes) = value.split_first_chunk().expect("a checksum");
            let copy = bytes.to_vec();
            assert_eq!(u64::from_le_bytes(*checksum), XxHash3_64::oneshot(&copy));
            hand_over(copy);
        }
        self.bytes as u64
    }

    fn put(&self, number: u64, pieces: &mut [Vec<u8>]) {
        for (piece, value) in pieces.iter_mut().enumerate() {
            let (checksum, bytes) = value.split_first_chunk_mut().expect("room for a checksum");
            *checksum = XxHash3_64::oneshot(bytes).to_le_bytes();
            self.database.put_opt(Self::key(number, piece), value, &self.write).or_refused();
        }
    }
}

impl State for Raw {
    fn settle(&self) {
        let options = rocksdb::WaitForCompactOptions::default();
        self.database.wait_for_compact(&options).expect("a healthy store");
    }

    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        floor::thread_counters()
    }

    fn verify(&self, operations: u64) {
        if let Some(before) = self.before.get() {
            let pieces = operations * self.writes * self.bytes.div_ceil(PIECE_BYTES) as u64;
            assert!(self.database.latest_sequence_number() - before >= pieces);
        }
    }
}

fn get(suite: &mut Suite, blobs: Blobs) {
    let (n, case, state) = (blobs.count, blobs.case, "blob files, in the blob cache");
    let about = blobs.facts("reads all bytes of one blob, piece by piece").state(state).floor("floor", 0.85, 1.0);
    suite.row(
        "get",
        "strata",
        case,
        about,
        || Photos::fresh(blobs),
        |photos: Arc<Photos>| move |index| photos.read(scatter(index, n), |piece| drop(black_box(piece))),
    );
    let about = blobs.facts("gets the same bytes as pinned values, copies each and compares its checksum").state(state);
    suite.row(
        "get",
        "floor",
        case,
        about,
        || Raw::fresh(blobs),
        |raw: Arc<Raw>| move |index| raw.get(scatter(index, n), |piece| drop(black_box(piece))),
    );
}

fn put(suite: &mut Suite, blobs: Blobs) {
    let (n, case) = (blobs.count, blobs.case);
    let facts = |op: &str| {
        let facts = blobs.facts(op).unit(Unit::Bytes, blobs.written());
        facts.state("replaced; flushed").durability(soft()).changes_store(1, None)
    };
    let writes = blobs.writes;
    let about = facts(&format!("replaces {writes} blobs with other bytes and flushes them")).floor("floor", 0.75, 0.9);
    suite.row(
        "put",
        "strata",
        case,
        about,
        || Photos::fresh(blobs),
        |photos: Arc<Photos>| {
            photos.before.get_or_init(|| photos.database.counters().batch_bytes);
            let bytes = blobs.content(n);
            move |index| {
                (0..writes).for_each(|one| photos.write(scatter(index * writes + one, n), &bytes));
                photos.database.store().flush().expect("a healthy store");
                blobs.written()
            }
        },
    );
    suite.row(
        "put",
        "floor",
        case,
        facts("puts the same bytes as values, each with its checksum, and flushes them"),
        || Raw::fresh(blobs),
        |raw: Arc<Raw>| {
            raw.before.get_or_init(|| raw.database.latest_sequence_number());
            let mut pieces = Raw::pieces(&blobs.content(n));
            move |index| {
                (0..writes).for_each(|one| raw.put(scatter(index * writes + one, n), &mut pieces));
                raw.database.flush().expect("a healthy store");
                blobs.written()
            }
        },
    );
}
