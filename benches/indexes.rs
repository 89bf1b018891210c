//! Index entries alone: inserting them and scanning them, against raw puts and raw iterators over the same keys.
//!
//! An insert is one blind put of an entry whose key holds the value and the id. A lookup iterates over the entries of one value; the
//! records they lead to are fetched by the transaction layer.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use floor::Raw;
use prepared::{Numbered, Ours, SST, described, options, records, soft};
use rust_rocksdb as rocksdb;
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::indexes::{self, KeyRange, Keys, Matches};
use strata::schema::{Durability, IndexKind, Schema, Table};
use strata::storage::{Batch, Reach, Space};
use strata_harness::data;
use strata_harness::{Facts, Suite, Unit, suite};

fn main() {
    suite("indexes", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        insert(suite, "hash_insert", "category", IndexKind::Hash);
        insert(suite, "range_insert", "price", IndexKind::Ordered);
        lookup(suite, "hash_lookup", "category", IndexKind::Hash);
        lookup(suite, "range_scan", "category", IndexKind::Ordered);
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
    let about = facts("adds the one entry of a record in a batch of its own").floor("floor", 0.85, 0.92);
    suite.row(
        operation,
        "strata",
        "1_entry",
        about,
        || Ours::copy(8, n),
        |ours: Arc<Ours>| {
            let table: &'static Table = Box::leak(Box::new(only(attribute, kind).tables.swap_remove(0)));
            let (mut bytes, mut id) = (Vec::new(), Numbered::new(b"new-00000000"));
            prepared::encode(table, &data::product(1, data::Id::Given), &mut bytes);
            let record = Record::open(table, bytes).expect("a record of the data set");
            let mut batch = Batch::default();
            move |index| {
                let id = std::str::from_utf8(id.with(index)).expect("an id is text");
                let store = ours.database.store();
                batch.clear();
                indexes::add(store, &mut batch, id, &record).expect("a record of the data set");
                u64::from(store.write(&batch, Durability::Soft).is_ok())
            }
        },
    );
    let about = facts("puts the same key in a batch that is reused");
    suite.row(
        operation,
        "floor",
        "1_entry",
        about,
        || Raw::copy(8, n),
        |raw: Arc<Raw>| {
            let schema = only(attribute, kind);
            let mut bytes = Vec::new();
            prepared::encode(&schema.tables[0], &data::product(1, data::Id::Given), &mut bytes);
            let record = Record::open(&schema.tables[0], &bytes).expect("a record of the data set");
            let mut entry = Numbered::new(&verbs::entries(&record, "new-00000000").swap_remove(0));
            let mut batch = rocksdb::WriteBatch::default();
            move |index| {
                batch.clear();
                batch.put_cf(&raw.indexes(), entry.with(index), b"");
                raw.commit(&batch);
                batch.len() as u64
            }
        },
    );
}

fn lookup(suite: &mut Suite, operation: &str, attribute: &'static str, kind: IndexKind) {
    let n = records(suite.scale());
    let matches = n / data::CATEGORIES;
    let case = &format!("{matches}_entries");
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(8).unit(Unit::Elements, matches);
    let about = facts(format!("reads the {matches} entries of one value, as of a snapshot")).floor("floor", 0.85, 0.93);
    suite.row(
        operation,
        "strata",
        case,
        about,
        || Ours::copy(8, n),
        |ours: Arc<Ours>| {
            let (index, values) = (of(ours.product(), attribute, kind), values(attribute));
            let mut keys = Keys::default();
            move |turn| {
                let (store, value) = (ours.database.store(), &values[(turn % data::CATEGORIES) as usize]);
                let snapshot = store.snapshot();
                let range = KeyRange::of_value(&index, value);
                let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, Reach::Disk);
                let mut entries = Matches::of(scan, ours.product(), &index, &range);
                keys.clear();
                while entries.append(&mut keys).expect("a healthy store") {}
                black_box(&keys).len() as u64
            }
        },
    );
    let about = facts(format!("iterates over the same {matches} entries"));
    suite.row(
        operation,
        "floor",
        case,
        about,
        || Raw::copy(8, n),
        |raw: Arc<Raw>| {
            let schema = prepared::schema(8);
            let (table, index) = (schema.tables[0].id, of(&schema.tables[0], attribute, kind));
            let ranges: Vec<(Vec<u8>, Vec<u8>)> = values(attribute).iter().map(|value| range(&index, value)).collect();
            let mut keys = floor::Keys::default();
            move |turn| {
                let (prefix, end) = &ranges[(turn % data::CATEGORIES) as usize];
                raw.matches(prefix, end, table, 1000, &mut keys);
                black_box(&keys).len() as u64
            }
        },
    );
}

fn of(table: &strata::schema::Table, attribute: &str, kind: IndexKind) -> strata::schema::Index {
    let position = table.attribute(attribute).expect("an attribute of the data set");
    let mut all = table.indexes.iter();
    all.find(|index| index.attribute == position && index.kind == kind).expect("an index of the data set").clone()
}

fn values(attribute: &str) -> Vec<Value<'static>> {
    assert_eq!(attribute, "category", "the values that are looked up are categories");
    (0..data::CATEGORIES).map(|index| Value::Text(data::category(index).into())).collect()
}

fn range(index: &strata::schema::Index, value: &Value<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut prefix, mut end) = (Vec::new(), Vec::new());
    match index.kind {
        IndexKind::Hash => key::hash_prefix(index.id, value, &mut prefix),
        _ => key::ordered_prefix(index.id, value, &mut prefix),
    }
    key::successor(&prefix, &mut end);
    (prefix, end)
}
