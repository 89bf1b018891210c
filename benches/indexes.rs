//! Index entries alone: inserts and scans, against raw puts and raw iterators over the same keys.
//!
//! An insert is one blind put of an entry whose key holds the value and the id; values are in no order, so each entry goes to another
//! place. A full-text index has one entry for each term of a text. A lookup iterates over the entries of one value, a scan over those
//! between two values; a lookup of two terms iterates over the entries of both at once, each seeking to the position of the other. Fetching
//! the records is left to the query layer.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use floor::{Promise, Raw};
use prepared::searched::{self, KEYWORDS};
use prepared::{Numbered, Ours, POOL, SST, described, options, records, soft};
use rust_rocksdb as rocksdb;
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::indexes::{self, KeyRange, Keys, Matches};
use strata::schema::{Durability, Index, IndexKind, Table};
use strata::storage::{Batch, ReadTier, Space};
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, OrRefused, Suite, Unit, suite};
use verbs::looked_at;

fn main() {
    suite("indexes", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        insert(suite, "hash_insert", "1_entry", || only("category", IndexKind::Hash));
        insert(suite, "range_insert", "1_entry", || only("price", IndexKind::Ordered));
        insert(suite, "composite_insert", "1_entry", || only_searched(IndexKind::Composite));
        insert(suite, "fulltext_insert", &format!("{KEYWORDS}_entries"), || only_searched(IndexKind::FullText));
        lookup(suite, "hash_lookup", "of a value that one record has", Stretches::single);
        lookup(suite, "hash_lookup", "of one value", Stretches::equal);
        lookup(suite, "range_scan", "between two values", Stretches::between);
        fulltext_lookup(suite);
    });
}

/// The table of the data set with this one index.
fn only(attribute: &str, kind: IndexKind) -> Table {
    let mut table = prepared::schema(8).tables.swap_remove(0);
    let position = table.attribute(attribute).expect("an attribute of the data set");
    table.indexes.retain(|index| index.attribute == position && index.kind == kind);
    table
}

/// The table of the data set with keywords, with this one index, whose number no index of the usual store has.
fn only_searched(kind: IndexKind) -> Table {
    let mut table = searched::schema().tables.swap_remove(0);
    table.indexes.retain(|index| index.kind == kind);
    table.indexes[0].id = 100;
    table
}

/// The records whose entries are inserted: each has its own value, in no order. None of them is zero, whose eight digits would be taken for
/// a place of the id's number.
fn scattered(table: &Table) -> Vec<Vec<u8>> {
    let records = (0..POOL).map(|index| {
        let (number, mut bytes) = (1 + scatter(index, POOL), Vec::new());
        let mut body = format!(r#"{{"id":"{NEW_ID}","name":"a","category":"inserted-{number:08}","price":{number}.5"#);
        if table.attribute("keywords").is_some() {
            body += &format!(",\"keywords\":\"{}\"", searched::keywords(number));
        }
        prepared::encode(table, (body + "}").as_bytes(), &mut bytes);
        bytes
    });
    records.collect()
}

const NEW_ID: &str = "new-00000000";

/// The entries of each of these records, with room for a number. They do not ascend from record to record: an entry after the last one
/// would find its place at once.
fn scattered_entries(table: &Table) -> Vec<Vec<Numbered>> {
    let entries = |bytes: &Vec<u8>| {
        let record = Record::open(table, bytes).expect("a record that was just encoded");
        let mut entries: Vec<_> = verbs::entries(&record, NEW_ID).iter().map(|entry| Numbered::new(entry)).collect();
        let one = entries.iter_mut().map(|entry| entry.with(1).to_vec()).collect::<Vec<_>>();
        assert_eq!(one, verbs::entries(&record, "new-00000001"), "the number stands in the id alone");
        entries
    };
    let entries: Vec<Vec<Numbered>> = scattered(table).iter().map(entries).collect();
    let first = |(number, entries): (u64, &Vec<Numbered>)| entries[0].clone().with(number).to_vec();
    let in_turn: Vec<_> = (0..).zip(&entries).map(first).collect();
    let ascending = in_turn.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(ascending * 10 < in_turn.len() * 7, "{ascending} of {} entries in a row ascend", in_turn.len());
    entries
}

/// The minimum that an insert leaves: the key of one entry.
const ENTRY: Promise = Promise { bytes: 20, ..Promise::WRITE };

fn insert(suite: &mut Suite, operation: &str, case: &str, table: impl Fn() -> Table + Copy + Send + Sync + 'static) {
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
        facts("adds the entries of a record in a batch of its own, with unordered values").floor("floor", 0.85, 0.92);
    suite.row(
        operation,
        "strata",
        case,
        about,
        || Ours::copy(8, n),
        move |ours: Arc<Ours>| {
            let table: &'static Table = Box::leak(Box::new(table()));
            let open = |bytes| Record::open(table, bytes).expect("a record that was just encoded");
            let records: Vec<_> = scattered(table).into_iter().map(open).collect();
            let (mut id, mut batch) = (Numbered::new(NEW_ID.as_bytes()), Batch::default());
            ours.promise(ENTRY);
            let insert = move |ours: &mut Arc<Ours>, index| {
                let id = std::str::from_utf8(id.with(index)).expect("an id is text");
                let store = ours.database.store();
                batch.clear();
                indexes::add(store, &mut batch, id, &records[(index % POOL) as usize]).expect("a record");
                store.write(&mut batch, Durability::Soft).or_refused();
                1
            };
            let mut entries = scattered_entries(table);
            looked_at(ours, insert, move |ours, index, _| {
                for entry in &mut entries[(index % POOL) as usize] {
                    let entry = entry.with(index);
                    let stored =
                        ours.database.store().get(Space::Indexes, entry, ReadTier::Disk).expect("a healthy store");
                    assert!(stored.is_some(), "operation {index} has left no entry");
                }
            })
        },
    );
    let about = facts("puts the same keys in a batch that is reused");
    suite.row(
        operation,
        "floor",
        case,
        about,
        || Raw::copy(8, n),
        move |raw: Arc<Raw>| {
            let mut entries = scattered_entries(&table());
            let (mut written, mut batch) = (entries.clone(), rocksdb::WriteBatch::default());
            raw.promise(ENTRY);
            let insert = move |raw: &mut Arc<Raw>, index| {
                batch.clear();
                let entries = &mut entries[(index % POOL) as usize];
                entries.iter_mut().for_each(|entry| batch.put_cf(&raw.indexes(), entry.with(index), b""));
                raw.commit(&batch);
                u64::from(batch.len() == entries.len())
            };
            looked_at(raw, insert, move |raw, index, _| {
                for entry in &mut written[(index % POOL) as usize] {
                    let stored = raw.database().get_pinned_cf_opt(&raw.indexes(), entry.with(index), &raw.read);
                    assert!(stored.expect("a healthy store").is_some(), "operation {index} has left no entry");
                }
            })
        },
    );
}

/// Stretches of an index that are read in turn; all have the same number of entries.
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

    /// The entry of each of some descriptions, which no two records share.
    fn single(n: u64) -> Self {
        let description = |turn| Value::Text(data::description(scatter(turn, n)).into());
        let found = Self::of("description", IndexKind::Hash, n, |index| {
            (0..n.min(1000)).map(|turn| KeyRange::of_value(index, &description(turn))).collect()
        });
        Self { entries: 1, ..found }
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
        // If the previous price is equal, a stretch from here would have more entries.
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
    let (case, unit, entries) = match count {
        1 => ("1_entry", Unit::Operations, "entry"),
        _ => (&*format!("{count}_entries"), Unit::Elements, "entries"),
    };
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(8).unit(unit, count);
    let about = facts(format!("reads the {count} {entries} {what}, as of a snapshot")).floor("floor", 0.85, 0.93);
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
                let snapshot = store.snapshot(ReadTier::Disk).or_refused();
                let scan = store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk);
                let mut entries = Matches::of(scan, ours.product(), &index, range);
                keys.clear();
                while entries.append(&mut keys).expect("a healthy store") {}
                black_box(&keys).len() as u64
            }
        },
    );
    let about = facts(format!("iterates over the same {count} {entries}"));
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

/// For some products, the stretches of two of their terms.
fn of_terms(n: u64) -> Vec<[KeyRange; 2]> {
    let table = searched::schema().tables.swap_remove(0);
    let index = searched::index(&table, IndexKind::FullText);
    let of_term = |term: String| KeyRange::of_value(index, &Value::Text(term.into()));
    (0..n.min(1000)).map(|turn| searched::two_keywords(scatter(turn, n)).map(of_term)).collect()
}

fn fulltext_lookup(suite: &mut Suite) {
    let n = records(suite.scale());
    let count = searched::have_both(n);
    let case = &format!("2_terms_{count}_matches");
    let facts = |op: String| {
        Facts::new(op).data(format!("{n} products, 12 keywords each")).state(SST).indexes(2).unit(Unit::Elements, count)
    };
    let about = facts(format!(
        "finds the {count} records that have two terms, as of a snapshot; each term is in three times as many"
    ))
    .floor("floor", 0.85, 0.93);
    suite.row(
        "fulltext_lookup",
        "strata",
        case,
        about,
        || searched::ours(n),
        move |ours: Arc<Ours>| {
            let (stretches, mut keys) = (of_terms(n), Keys::default());
            let index = searched::index(ours.product(), IndexKind::FullText).clone();
            move |turn| {
                let (store, ranges) = (ours.database.store(), &stretches[turn as usize % stretches.len()]);
                let snapshot = store.snapshot(ReadTier::Disk).or_refused();
                let scan = |range: &KeyRange| {
                    store.scan(Space::Indexes, &range.lower, &range.upper, &snapshot, ReadTier::Disk)
                };
                let ranges = ranges.iter().map(|range| (scan(range), range));
                let mut entries = Matches::common(ours.product(), &index, ranges).expect("two stretches");
                keys.clear();
                while entries.append(&mut keys).expect("a healthy store") {}
                black_box(&keys).len() as u64
            }
        },
    );
    let about = facts(format!("seeks in the entries of both terms alternately and finds the same {count} records"));
    suite.row(
        "fulltext_lookup",
        "floor",
        case,
        about,
        || searched::raw(n),
        move |raw: Arc<Raw>| {
            let (stretches, mut keys) = (of_terms(n), floor::Keys::default());
            let table = searched::schema().tables[0].id;
            move |turn| {
                let [one, other] = &stretches[turn as usize % stretches.len()];
                raw.common([(&one.lower, &one.upper), (&other.lower, &other.upper)], table, &mut keys);
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
