//! Index entries alone: inserting them and scanning them, against raw puts and raw iterators over the same keys.
//!
//! An insert is one blind put of an entry whose key holds the value and the id; values are in no order, so that each entry goes to
//! another place. A lookup iterates over the entries of one value, a scan over those between two values; the records that they lead
//! to are for the query layer to get.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use floor::{Promise, Raw};
use prepared::{Numbered, Ours, POOL, SST, described, options, records, soft};
use rust_rocksdb as rocksdb;
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::indexes::{self, KeyRange, Keys, Matches};
use strata::schema::{Durability, Index, IndexKind, Schema, Table};
use strata::storage::{Batch, Reach, Space};
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};
use verbs::looked_at;

fn main() {
    suite("indexes", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        insert(suite, "hash_insert", "category", IndexKind::Hash);
        insert(suite, "range_insert", "price", IndexKind::Ordered);
        lookup(suite, "hash_lookup", "of one value", Stretches::equal);
        lookup(suite, "range_scan", "between two values", Stretches::between);
    });
}

/// The schema of the data set with this one index.
fn only(attribute: &str, kind: IndexKind) -> Schema {
    let mut schema = prepared::schema(8);
    let table = &mut schema.tables[0];
    let position = table.attribute(attribute).expect("an attribute of the data set");
    table.indexes.retain(|index| index.attribute == position && index.kind == kind);
    schema
}

/// The records whose entries are inserted: each has a value of its own, in no order.
fn scattered(table: &Table) -> Vec<Vec<u8>> {
    let records = (0..POOL).map(|index| {
        let (number, mut bytes) = (scatter(index, POOL), Vec::new());
        let body = format!(r#"{{"id":"{NEW_ID}","name":"a","category":"inserted-{number:08}","price":{number}.5}}"#);
        prepared::encode(table, body.as_bytes(), &mut bytes);
        bytes
    });
    records.collect()
}

const NEW_ID: &str = "new-00000000";

/// The entry of each of these records, with room for a number. They do not ascend: an entry behind the last one finds its place at once.
fn scattered_entries(table: &Table) -> Vec<Numbered> {
    let entry = |bytes: &Vec<u8>| {
        let record = Record::open(table, bytes).expect("a record that was just encoded");
        Numbered::new(&verbs::entries(&record, NEW_ID).swap_remove(0))
    };
    let entries: Vec<Numbered> = scattered(table).iter().map(entry).collect();
    let in_turn: Vec<_> = (0..).zip(entries.clone()).map(|(number, mut entry)| entry.with(number).to_vec()).collect();
    let ascending = in_turn.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(ascending * 10 < in_turn.len() * 7, "{ascending} of {} entries in a row ascend", in_turn.len());
    entries
}

/// One key of an entry, in a batch of its own.
const ENTRY: Promise = Promise { bytes: 20, ..Promise::WRITE };

fn insert(suite: &mut Suite, operation: &str, attribute: &'static str, kind: IndexKind) {
    let n = records(suite.scale());
    let facts = |op: &str| {
        Facts::new(op)
            .data(described(n))
            .state("SST, cached; what is written, memtable")
            .durability(soft())
            .indexes(8)
            .changes_store(8000, None)
    };
    let about =
        facts("adds the one entry of a record in a batch of its own, values in no order").floor("floor", 0.85, 0.92);
    suite.row(
        operation,
        "strata",
        "1_entry",
        about,
        || Ours::copy(8, n),
        |ours: Arc<Ours>| {
            let table: &'static Table = Box::leak(Box::new(only(attribute, kind).tables.swap_remove(0)));
            let open = |bytes| Record::open(table, bytes).expect("a record that was just encoded");
            let records: Vec<_> = scattered(table).into_iter().map(open).collect();
            let (mut id, mut batch) = (Numbered::new(NEW_ID.as_bytes()), Batch::default());
            ours.promise(ENTRY);
            let insert = move |ours: &mut Arc<Ours>, index| {
                let id = std::str::from_utf8(id.with(index)).expect("an id is text");
                let store = ours.database.store();
                batch.clear();
                indexes::add(store, &mut batch, id, &records[(index % POOL) as usize]).expect("a record");
                u64::from(store.write(&batch, Durability::Soft).is_ok())
            };
            let mut entries = scattered_entries(table);
            looked_at(ours, insert, move |ours, index, _| {
                let entry = entries[(index % POOL) as usize].with(index);
                let stored = ours.database.store().get(Space::Indexes, entry, Reach::Disk).expect("a healthy store");
                assert!(stored.is_some(), "operation {index} has left no entry");
            })
        },
    );
    let about = facts("puts the same keys, each in a batch that is reused");
    suite.row(
        operation,
        "floor",
        "1_entry",
        about,
        || Raw::copy(8, n),
        |raw: Arc<Raw>| {
            let mut entries = scattered_entries(&only(attribute, kind).tables[0]);
            let (mut written, mut batch) = (entries.clone(), rocksdb::WriteBatch::default());
            raw.promise(ENTRY);
            let insert = move |raw: &mut Arc<Raw>, index| {
                batch.clear();
                batch.put_cf(&raw.indexes(), entries[(index % POOL) as usize].with(index), b"");
                raw.commit(&batch);
                batch.len() as u64
            };
            looked_at(raw, insert, move |raw, index, _| {
                let entry = written[(index % POOL) as usize].with(index);
                let stored = raw.database().get_pinned_cf_opt(&raw.indexes(), entry, &raw.read);
                assert!(stored.expect("a healthy store").is_some(), "operation {index} has left no entry");
            })
        },
    );
}

/// Stretches of an index that are read in turn; each has as many entries.
struct Stretches {
    attribute: &'static str,
    kind: IndexKind,
    entries: u64,
    ranges: Vec<KeyRange>,
}

impl Stretches {
    fn of(attribute: &'static str, kind: IndexKind, n: u64, ranges: impl FnOnce(&Index) -> Vec<KeyRange>) -> Self {
        let ranges = ranges(&of(&prepared::schema(8).tables[0], attribute, kind));
        Self { attribute, kind, entries: n / data::CATEGORIES, ranges }
    }

    /// The entries of each category.
    fn equal(n: u64) -> Self {
        let category = |index| Value::Text(data::category(index).into());
        Self::of("category", IndexKind::Hash, n, |index| {
            (0..data::CATEGORIES).map(|number| KeyRange::of_value(index, &category(number))).collect()
        })
    }

    /// The entries from one price up to but not including another, with many prices between them.
    fn between(n: u64) -> Self {
        let entries = (n / data::CATEGORIES) as usize;
        let mut prices: Vec<f64> = (0..n).map(data::price).collect();
        prices.sort_by(f64::total_cmp);
        // Where the price before is the same, a stretch from here would have more.
        let begins = |place: usize| place == 0 || prices[place - 1] < prices[place];
        let whole = |start: &usize| begins(*start) && begins(start + entries);
        let starts: Vec<usize> = (0..prices.len() - entries).filter(whole).collect();
        Self::of("price", IndexKind::Ordered, n, |index| {
            let key_of = |place: usize| {
                let mut key = Vec::new();
                key::ordered_prefix(index.id, &Value::Float(prices[place]), &mut key);
                key
            };
            let scattered = (0..1000).map(|turn| starts[scatter(turn, starts.len() as u64) as usize]);
            scattered.map(|start| KeyRange { lower: key_of(start), upper: key_of(start + entries) }).collect()
        })
    }
}

fn lookup(suite: &mut Suite, operation: &str, what: &str, stretches: impl Fn(u64) -> Stretches + Sync) {
    let n = records(suite.scale());
    let count = stretches(n).entries;
    let case = &format!("{count}_entries");
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(8).unit(Unit::Elements, count);
    let about = facts(format!("reads the {count} entries {what}, as of a snapshot")).floor("floor", 0.85, 0.93);
    suite.row(
        operation,
        "strata",
        case,
        about,
        || Ours::copy(8, n),
        |ours: Arc<Ours>| {
            let Stretches { attribute, kind, ranges, .. } = stretches(n);
            let (index, mut keys) = (of(ours.product(), attribute, kind), Keys::default());
            move |turn| {
                let (store, range) = (ours.database.store(), &ranges[turn as usize % ranges.len()]);
                let snapshot = store.snapshot();
                let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, Reach::Disk);
                let mut entries = Matches::of(scan, ours.product(), &index, range);
                keys.clear();
                while entries.append(&mut keys).expect("a healthy store") {}
                black_box(&keys).len() as u64
            }
        },
    );
    let about = facts(format!("iterates over the same {count} entries"));
    suite.row(
        operation,
        "floor",
        case,
        about,
        || Raw::copy(8, n),
        |raw: Arc<Raw>| {
            let (ranges, table) = (stretches(n).ranges, prepared::schema(8).tables[0].id);
            let mut keys = floor::Keys::default();
            move |turn| {
                let range = &ranges[turn as usize % ranges.len()];
                raw.matches(&range.lower, &range.upper, table, 1000, &mut keys);
                black_box(&keys).len() as u64
            }
        },
    );
}

fn of(table: &Table, attribute: &str, kind: IndexKind) -> Index {
    let position = table.attribute(attribute).expect("an attribute of the data set");
    let mut all = table.indexes.iter();
    all.find(|index| index.attribute == position && index.kind == kind).expect("an index of the data set").clone()
}
