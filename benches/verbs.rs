//! The verbs as benches call them: Strata's, and the raw path for the same bytes. A module of the benches, not a target.
//!
//! Each function makes a worker: it prepares everything, and the closure that it returns is the timed operation.
#![allow(dead_code, reason = "each target measures its part")]

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use rust_rocksdb as rocksdb;
use strata::encoding::body::parse_object;
use strata::encoding::value::Value;
use strata::encoding::{Fields, Record, key, record, terms};
use strata::error::Error;
use strata::schema::{IndexKind, Table};
use strata::storage::Space;
use strata::transaction::{Owned, Precondition};
use strata_harness::OrRefused;
use strata_harness::data::{self, scatter};

use crate::floor::{LOOKED_AT, Optimistic, Promise, Raw};
use crate::prepared::{Numbered, Ours, POOL, bodies, bodies_with_id, record_keys, schema};

/// An id as long as those of the server, with room for a number.
pub const MADE_ID: &str = "00000000-0001-7001-8001-000000000001";

/// Reads one record by id and copies its JSON out.
pub fn read(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let mut answer = Vec::new();
    move |index| {
        let id = &ids[scatter(index, records) as usize];
        let found = ours.database.read(ours.product(), id).expect("a healthy store");
        found.map_or(0, |record| copied(record.json(), &mut answer))
    }
}

/// Gets the stored bytes of one record and copies them out.
pub fn raw_read(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let keys = record_keys(1, records);
    let mut answer = Vec::new();
    move |index| raw.get(&keys[scatter(index, records) as usize]).map_or(0, |bytes| copied(&bytes, &mut answer))
}

/// Copies the bytes out: a pinned value that is never read costs no memory access.
pub fn copied(bytes: &[u8], answer: &mut Vec<u8>) -> u64 {
    answer.clear();
    answer.extend_from_slice(bytes);
    u64::from(black_box(answer).len() > 900)
}

/// Gets the stored bytes of one record, pinned.
pub fn raw_get(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let keys = record_keys(1, records);
    move |index| {
        let found = raw.get(&keys[scatter(index, records) as usize]);
        u64::from(found.is_some_and(|bytes| !black_box(&bytes[..]).is_empty()))
    }
}

/// Reads one record by id and copies two of its attributes out.
pub fn read_2_attributes(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let (price, category) = (
        ours.product().attribute("price").expect("an attribute of the data set"),
        ours.product().attribute("category").expect("an attribute of the data set"),
    );
    let mut answer = Vec::new();
    move |index| {
        let id = &ids[scatter(index, records) as usize];
        let record =
            ours.database.read(ours.product(), id).expect("a healthy store").expect("a record of the data set");
        match (record.value(price), record.value(category)) {
            (Ok(Value::Float(price)), Ok(Value::Text(category))) => {
                copied_2_attributes(price, category.as_bytes(), &mut answer)
            }
            _ => 0,
        }
    }
}

/// Gets the stored bytes of one record, pinned, and copies two attributes out of them.
pub fn raw_read_2_attributes(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (keys, mut answer) = (record_keys(1, records), Vec::new());
    move |index| {
        let stored = raw.get(&keys[scatter(index, records) as usize]).expect("a record of the data set");
        let (price, category) = price_and_category(&stored);
        copied_2_attributes(price, category, &mut answer)
    }
}

fn copied_2_attributes(price: f64, category: &[u8], answer: &mut Vec<u8>) -> u64 {
    answer.clear();
    answer.extend_from_slice(&price.to_le_bytes());
    answer.extend_from_slice(category);
    u64::from(black_box(answer).len() == 8 + "category-00".len())
}

/// Two values of a stored product, unchecked: a header of 16 bytes, JSON, an offset of two bytes for each of eight attributes, eight
/// bytes for each of three numbers.
fn price_and_category(stored: &[u8]) -> (f64, &[u8]) {
    let (rest, numbers) = stored.split_last_chunk::<24>().expect("three numbers");
    let (json, offsets) = rest.split_last_chunk::<16>().expect("eight offsets");
    let value =
        |attribute: usize| 16 + usize::from(u16::from_le_bytes([offsets[2 * attribute], offsets[2 * attribute + 1]]));
    let (category, price) = (2, 3);
    let text = &json[value(category) + 1..value(price) - "\",\"price\":".len()];
    (f64::from_le_bytes(*numbers.first_chunk().expect("three numbers")), text)
}

/// Creates one record from a JSON body; the id is made by the server.
pub fn create(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let bodies = bodies();
    ours.promise(Promise::CREATE);
    move |index| {
        let body = &bodies[(index % POOL) as usize];
        let created = ours.database.create(ours.product(), body).or_refused();
        u64::from(created.json().len() > 900)
    }
}

/// Creates one record whose id the client gives.
pub fn create_with_id(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let mut bodies = bodies_with_id(GIVEN_ID);
    ours.promise(Promise::WRITE);
    let create = move |ours: &mut Arc<Ours>, index| {
        let body = bodies[(index % POOL) as usize].with(index);
        let created = ours.database.create(ours.product(), body).or_refused();
        u64::from(created.json().len() > 900)
    };
    let mut id = Numbered::new(GIVEN_ID.as_bytes());
    looked_at(ours, create, move |ours, index, _| {
        let id = std::str::from_utf8(id.with(index)).expect("an id is text");
        let stored = ours.database.read(ours.product(), id).expect("a healthy store");
        assert!(stored.is_some_and(|record| record.json().len() > 900), "operation {index} has left no record");
    })
}

/// An id that a client gives, with room for a number.
const GIVEN_ID: &str = "new-00000000";

/// The writes of the raw path of a create, for each body of the pool: the stored record and, behind it in the same buffer, the parts of its
/// entries' keys before the id. The id changes with each operation and stays in the cache; a key in memory of its own would cost more to
/// fetch than Strata's cost to build.
pub struct Writes {
    key: Numbered,
    /// Where the id begins in the key of a record.
    id: usize,
    entry: Vec<u8>,
    pool: Vec<Prepared>,
}

struct Prepared {
    /// Bytes of the record.
    record: usize,
    /// The record, then for each entry the number of bytes before its id, in one byte, and these bytes.
    bytes: Vec<u8>,
}

impl Writes {
    /// One write for each body of the pool; their records have `id`, with room for a number.
    pub fn new(table: &Table, id: &str) -> Self {
        let (mut pool, mut key) = (Vec::new(), Vec::new());
        for body in bodies() {
            let body = [format!("{{\"id\":\"{id}\",").as_bytes(), &body[1..]].concat();
            let fields = parse_object(table, &body).expect("a body of the data set");
            let mut bytes = Vec::new();
            let record = record::encode(&fields, None::<&Owned<'_>>, &mut bytes);
            let entries = entries(&record.expect("a record of the data set"), id);
            let record = bytes.len();
            for entry in entries {
                let prefix = entry.strip_suffix(id.as_bytes()).expect("an entry ends with the id");
                bytes.push(prefix.len().try_into().expect("values of the data set are short"));
                bytes.extend_from_slice(prefix);
            }
            pool.push(Prepared { record, bytes });
        }
        key::record(table.id, id, &mut key);
        Self { id: key.len() - id.len(), key: Numbered::new(&key), entry: Vec::new(), pool }
    }

    /// The stored record of the body for this number.
    pub fn record(&self, number: u64) -> &[u8] {
        let prepared = &self.pool[(number % POOL) as usize];
        &prepared.bytes[..prepared.record]
    }

    /// The key of the record with this number.
    #[inline]
    pub fn key(&mut self, number: u64) -> &[u8] {
        self.key.with(number)
    }

    /// Puts the record with this number, and then each of its entries.
    #[inline]
    pub fn put(&mut self, number: u64, mut put: impl FnMut(Space, &[u8], &[u8])) {
        let prepared = &self.pool[(number % POOL) as usize];
        let (record, mut entries) = prepared.bytes.split_at(prepared.record);
        let key = self.key.with(number);
        put(Space::Records, key, record);
        while let Some((length, rest)) = entries.split_first() {
            let (prefix, rest) = rest.split_at(usize::from(*length));
            self.entry.clear();
            self.entry.extend_from_slice(prefix);
            self.entry.extend_from_slice(&key[self.id..]);
            put(Space::Indexes, &self.entry, b"");
            entries = rest;
        }
    }

    /// Puts the same into a batch of raw RocksDB.
    #[inline]
    pub fn put_raw(&mut self, number: u64, raw: &Raw, batch: &mut rocksdb::WriteBatch) {
        self.put(number, |space, key, value| match space {
            Space::Indexes => batch.put_cf(&raw.indexes(), key, value),
            _ => batch.put_cf(&raw.records(), key, value),
        });
    }
}

/// The keys of the entries of a record.
pub fn entries<B: AsRef<[u8]>>(record: &Record<'_, B>, id: &str) -> Vec<Vec<u8>> {
    let keys = record.table().indexes.iter().flat_map(|index| {
        let values: Vec<_> =
            index.attributes().map(|position| record.value(position).expect("a record of the data set")).collect();
        let entry = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut entry = Vec::new();
            write(&mut entry);
            entry
        };
        match (index.kind, &values[0]) {
            (IndexKind::Hash, value) => vec![entry(&|entry| key::hash(index.id, value, id, entry))],
            (IndexKind::FullText, Value::Text(text)) => {
                let terms: BTreeSet<Cow<'_, str>> = terms(text).collect();
                let terms = terms.into_iter().map(Value::Text);
                terms.map(|term| entry(&|entry| key::ordered(index.id, &term, id, entry))).collect()
            }
            (IndexKind::Ordered | IndexKind::Composite, _) => vec![entry(&|entry| {
                key::composite_prefix(index.id, &values, entry);
                entry.extend_from_slice(id.as_bytes());
            })],
            // Encoded by itself, a record has no deadline yet.
            (IndexKind::Expiry, _) => Vec::new(),
            (kind, value) => unreachable!("the data set has no {} index over {value:?}", kind.name()),
        }
    });
    keys.collect()
}

/// Writes the keys of a create in one batch.
pub fn raw_create(raw: Arc<Raw>, indexes: u32) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = Writes::new(&schema(indexes).tables[0], MADE_ID);
    let mut batch = rocksdb::WriteBatch::default();
    raw.promise(Promise { keys: 1 + u64::from(indexes), ..Promise::CREATE });
    move |index| {
        batch.clear();
        writes.put_raw(index, &raw, &mut batch);
        raw.commit(&batch);
        batch.len() as u64 / (1 + u64::from(indexes))
    }
}

/// Writes the keys of one create in one batch per call, for a server that answers on one thread.
pub fn raw_create_shared(raw: Arc<Raw>, indexes: u32) -> impl FnMut() + Clone {
    let create = std::rc::Rc::new(std::cell::RefCell::new((0, raw_create(raw, indexes))));
    move || {
        let (index, create) = &mut *create.borrow_mut();
        create(*index);
        *index += 1;
    }
}

/// Looks for a key, then writes it, as a create with a given id must.
pub fn raw_get_and_create(raw: Arc<Raw>) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = Writes::new(&schema(0).tables[0], GIVEN_ID);
    let (mut key, mut batch) = (writes.key.clone(), rocksdb::WriteBatch::default());
    raw.promise(Promise::WRITE);
    let create = move |raw: &mut Arc<Raw>, index| {
        let absent = raw.get(writes.key(index)).is_none();
        batch.clear();
        writes.put_raw(index, raw, &mut batch);
        raw.commit(&batch);
        u64::from(absent)
    };
    looked_at(raw, create, move |raw, index, _| {
        let stored = raw.get(key.with(index));
        assert!(stored.is_some_and(|record| record.len() > 900), "operation {index} has left no record");
    })
}

/// Patches both attributes that may have an index, with the values whose entries the floor writes.
pub fn update_indexed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let attribute = ours.product().attribute("price").expect("an attribute of the data set");
    update(ours, records, CHANGE, attribute)
}

pub const CHANGE: &str = r#"{"category":"changed-00000000","price":100000000.5}"#;

/// Patches an attribute that has no index: writes the index of the operation into it.
pub fn update_unindexed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let attribute = ours.product().attribute("stock").expect("an attribute of the data set");
    update(ours, records, STOCK, attribute)
}

pub const STOCK: &str = r#"{"stock":100000000}"#;

/// Patches the record of the operation with a text that contains its index, as a number that `attribute` then has.
fn update(ours: Arc<Ours>, records: u64, text: &str, attribute: usize) -> impl FnMut(u64) -> u64 + Send + use<> {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let mut patch = Numbered::new(text.as_bytes());
    ours.promise(Promise::WRITE);
    let patch = move |ours: &mut Arc<Ours>, index| {
        let id = &ids[scatter(index, records) as usize];
        let changed = ours.database.merge(ours.product(), id, patch.with(index), &Precondition::None);
        u64::from(!changed.or_refused().json().is_empty())
    };
    looked_at(ours, patch, move |ours, index, own| {
        let number = patched(ours, &data::id(scatter(index, records)), attribute);
        assert_patched(number, index, own, |other| scatter(other, records) == scatter(index, records));
    })
}

/// The number that a patch has left in an attribute of a stored record; negative if none has.
pub fn patched(ours: &Ours, id: &str, attribute: usize) -> i64 {
    let stored = ours.database.read(ours.product(), id).expect("a healthy store").expect("a record of the data set");
    match stored.value(attribute).expect("a whole record") {
        Value::Int(stock) => stock - 100_000_000,
        Value::Float(price) => (price - 100_000_000.5) as i64,
        other => panic!("{other:?} is no number"),
    }
}

/// Asserts that the number in the record of an operation is its own, or that of a later operation on the same record: any of another
/// worker, but no earlier one of this worker.
pub fn assert_patched(written: i64, index: u64, own: &Range<u64>, same_record: impl Fn(u64) -> bool) {
    let number = u64::try_from(written).unwrap_or_else(|_| panic!("operation {index} has left nothing in its record"));
    let before = own.contains(&number) && number < index;
    assert!(same_record(number) && !before, "operation {index} has left {number} in its record");
}

/// An operation of a client whose last runs are verified, so that no row is fast because it wrote nothing. `look` gets the index, and those
/// of the worker's last consecutive operations.
pub fn looked_at<C: Send>(
    client: C,
    operation: impl FnMut(&mut C, u64) -> u64 + Send,
    look: impl FnMut(&mut C, u64, &Range<u64>) + Send,
) -> impl FnMut(u64) -> u64 + Send {
    let mut looked_at = LookedAt { client, operation, look, done: 0..0 };
    move |index| looked_at.run(index)
}

struct LookedAt<C, O, L: FnMut(&mut C, u64, &Range<u64>)> {
    client: C,
    operation: O,
    look: L,
    /// The last consecutive operations.
    done: Range<u64>,
}

impl<C, O: FnMut(&mut C, u64) -> u64, L: FnMut(&mut C, u64, &Range<u64>)> LookedAt<C, O, L> {
    fn run(&mut self, index: u64) -> u64 {
        let first = if index == self.done.end { self.done.start } else { index };
        self.done = first..index + 1;
        (self.operation)(&mut self.client, index)
    }
}

impl<C, O, L: FnMut(&mut C, u64, &Range<u64>)> Drop for LookedAt<C, O, L> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let first = self.done.start.max(self.done.end.saturating_sub(LOOKED_AT));
            (first..self.done.end).for_each(|index| (self.look)(&mut self.client, index, &self.done));
        }
    }
}

/// The entries of the two indexes of a product, built from its values on demand, in reused buffers.
struct Entries {
    table: Table,
    hash: Vec<u8>,
    ordered: Vec<u8>,
}

impl Entries {
    fn new() -> Self {
        let table = schema(2).tables.swap_remove(0);
        assert!(matches!([table.indexes[0].kind, table.indexes[1].kind], [IndexKind::Hash, IndexKind::Ordered]));
        Self { table, hash: Vec::new(), ordered: Vec::new() }
    }

    fn of(&mut self, category: &str, price: f64, id: &str) -> [&[u8]; 2] {
        let (by_category, by_price) = (self.table.indexes[0].id, self.table.indexes[1].id);
        key::hash(by_category, &Value::Text(category.into()), id, &mut self.hash);
        key::ordered(by_price, &Value::Float(price), id, &mut self.ordered);
        [&self.hash, &self.ordered]
    }
}

/// The values of the record's indexed attributes in [`CHANGE`] with this number.
fn changed(category: &mut Numbered, number: u64) -> (&str, f64) {
    (std::str::from_utf8(category.with(number)).expect("text"), number as f64 + 100_000_000.5)
}

/// Gets a record, then writes it and replaces two entries in one batch; its keys are built from an id and values, like Strata's.
pub fn raw_update_indexed(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, mut entries) = ((0..records).map(data::id).collect::<Vec<_>>(), Entries::new());
    let value = Writes::new(&entries.table, MADE_ID).record(0).to_vec();
    let (mut category, mut key) = (Numbered::new(b"changed-00000000"), Vec::new());
    let mut batch = rocksdb::WriteBatch::default();
    raw.promise(Promise { keys: 5, ..Promise::WRITE });
    move |index| {
        let id = &ids[scatter(index, records) as usize];
        key::record(entries.table.id, id, &mut key);
        let found = raw.get(&key).is_some();
        batch.clear();
        batch.put_cf(&raw.records(), &key, &value);
        // Deletes the entries of the last change of the record; the first change deletes as many that were never put.
        let (before, price) = changed(&mut category, index.wrapping_sub(records) % 100_000_000);
        for entry in entries.of(before, price, id) {
            batch.delete_cf(&raw.indexes(), entry);
        }
        let (after, price) = changed(&mut category, index);
        for entry in entries.of(after, price, id) {
            batch.put_cf(&raw.indexes(), entry, b"");
        }
        raw.commit(&batch);
        u64::from(found)
    }
}

/// Deletes one record.
pub fn delete(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    ours.promise(Promise::DELETE);
    let delete = move |ours: &mut Arc<Ours>, index| {
        let id = &ids[scatter(index, records) as usize];
        ours.database.delete(ours.product(), id, &Precondition::None).or_refused();
        1
    };
    looked_at(ours, delete, move |ours, index, _| {
        let stored = ours.database.read(ours.product(), &data::id(scatter(index, records)));
        assert!(stored.expect("a healthy store").is_none(), "operation {index} has deleted nothing");
    })
}

/// Gets a record, then deletes it and its two entries in one batch; its keys are built from its id and its values, like Strata's.
pub fn raw_delete(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, mut entries) = ((0..records).map(data::id).collect::<Vec<_>>(), Entries::new());
    let (mut key, mut batch) = (Vec::new(), rocksdb::WriteBatch::default());
    raw.promise(Promise { keys: 3, ..Promise::DELETE });
    let delete = move |raw: &mut Arc<Raw>, index| {
        let id = &ids[scatter(index, records) as usize];
        key::record(entries.table.id, id, &mut key);
        let Some(stored) = raw.get(&key) else { return 0 };
        let (price, category) = price_and_category(&stored);
        batch.clear();
        batch.delete_cf(&raw.records(), &key);
        for entry in entries.of(std::str::from_utf8(category).expect("text"), price, id) {
            batch.delete_cf(&raw.indexes(), entry);
        }
        raw.commit(&batch);
        1
    };
    looked_at(raw, delete, move |raw, index, _| {
        let (id, mut entries, mut key) = (scatter(index, records), Entries::new(), Vec::new());
        key::record(entries.table.id, &data::id(id), &mut key);
        assert!(raw.get(&key).is_none(), "operation {index} has deleted nothing");
        for entry in entries.of(&data::category(id), data::price(id), &data::id(id)) {
            let stored = raw.database().get_pinned_cf_opt(&raw.indexes(), entry, &raw.read).expect("a healthy store");
            assert!(stored.is_none(), "operation {index} has left an entry");
        }
    })
}

/// Replaces one record with another JSON body.
pub fn replace(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, bodies) = ((0..records).map(data::id).collect::<Vec<_>>(), bodies());
    ours.promise(Promise::WRITE);
    let replace = move |ours: &mut Arc<Ours>, index| {
        let (id, body) = (&ids[scatter(index, records) as usize], &bodies[(index % POOL) as usize]);
        let replaced = ours.database.replace(ours.product(), id, body, &Precondition::None);
        let (record, created) = replaced.or_refused();
        u64::from(record.json().len() > 900 && !created)
    };
    looked_at(ours, replace, move |ours, index, own| {
        let id = data::id(scatter(index, records));
        let stored = ours.database.read(ours.product(), &id).expect("a healthy store").expect("a record");
        assert_eq!(stored.bytes(), replaced(index, own, records), "operation {index} has left another record");
    })
}

/// The expected stored bytes of the record of an operation; the only worker may have replaced it again later.
fn replaced(index: u64, own: &Range<u64>, records: u64) -> Vec<u8> {
    let last = index + (own.end - 1 - index) / records * records;
    let mut stored = Vec::new();
    encode_with_id(
        &schema(0).tables[0],
        &bodies()[(last % POOL) as usize],
        &data::id(scatter(index, records)),
        &mut stored,
    );
    stored
}

/// Parses a JSON body and encodes it as the record of that id, as required before a put.
fn encode_with_id(table: &Table, body: &[u8], id: &str, out: &mut Vec<u8>) {
    let fields = parse_object(table, body).and_then(|fields| fields.with("id", id)).expect("a body of the data set");
    record::encode(&fields, None::<&Owned<'_>>, out).expect("a record of the data set");
}

/// Parses a JSON body, gets one record and puts the encoded body in its place.
pub fn raw_replace(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut body, mut batch) = (Parsed::new(records), rocksdb::WriteBatch::default());
    raw.promise(Promise::WRITE);
    let replace = move |raw: &mut Arc<Raw>, index| {
        let (key, value) = body.of(index);
        let found = raw.get(key).is_some();
        batch.clear();
        batch.put_cf(&raw.records(), key, value);
        raw.commit(&batch);
        u64::from(found)
    };
    let keys = record_keys(1, records);
    looked_at(raw, replace, move |raw, index, own| {
        let stored = raw.get(&keys[scatter(index, records) as usize]).expect("a record of the data set");
        assert_eq!(stored[..], replaced(index, own, records), "operation {index} has left another record");
    })
}

/// The bodies of the pool, each parsed on demand, and the key and the bytes of its record.
struct Parsed {
    table: Table,
    bodies: &'static [Vec<u8>],
    ids: Vec<String>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Parsed {
    fn new(records: u64) -> Self {
        let (table, ids) = (schema(0).tables.swap_remove(0), (0..records).map(data::id).collect());
        Self { table, bodies: bodies(), ids, key: Vec::new(), value: Vec::new() }
    }

    fn of(&mut self, index: u64) -> (&[u8], &[u8]) {
        let id = &self.ids[scatter(index, self.ids.len() as u64) as usize];
        key::record(self.table.id, id, &mut self.key);
        encode_with_id(&self.table, &self.bodies[(index % POOL) as usize], id, &mut self.value);
        (&self.key, &self.value)
    }
}

/// Replaces one record in a transaction that aborts at its end.
pub fn abort(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, bodies) = ((0..records).map(data::id).collect::<Vec<_>>(), bodies());
    move |index| {
        let (id, body) = (&ids[scatter(index, records) as usize], &bodies[(index % POOL) as usize]);
        let outcome = ours.database.transact(|transaction| {
            let fields = parse_object(ours.product(), body)?;
            transaction.replace(id, fields, &Precondition::None)?;
            Err::<(), _>(Error::Stale)
        });
        u64::from(matches!(outcome, Err(Error::Stale)))
    }
}

/// Records of one batch.
pub const BATCH: u64 = 100;

/// Creates a hundred records from one JSON array.
pub fn create_all(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let array = |bodies: &[Vec<u8>]| [b"[".as_slice(), &bodies.join(&b','), b"]"].concat();
    let arrays: Vec<_> = bodies().chunks_exact(BATCH as usize).map(array).collect();
    ours.promise(Promise { records: |operations| operations * BATCH, ..Promise::CREATE });
    move |index| {
        let array = &arrays[index as usize % arrays.len()];
        let created = ours.database.create_all(ours.product(), array).or_refused();
        created.iter().filter(|record| record.json().len() > 900).count() as u64
    }
}

/// Writes the hundred keys of the same records in one batch.
pub fn raw_create_all(raw: Arc<Raw>) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = Writes::new(&schema(0).tables[0], MADE_ID);
    let mut batch = rocksdb::WriteBatch::default();
    raw.promise(Promise { records: |operations| operations * BATCH, ..Promise::CREATE });
    move |index| {
        batch.clear();
        for number in index * BATCH..(index + 1) * BATCH {
            writes.put_raw(number, &raw, &mut batch);
        }
        raw.commit(&batch);
        batch.len() as u64
    }
}

/// Adds one to the stock of a record.
pub fn read_modify_write(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let stock = stock(&ours);
    ours.promise(Promise::WRITE);
    let add = move |ours: &mut Arc<Ours>, index| add_one(ours, &ids[scatter(index, records) as usize], stock);
    // The only worker: each round over all records adds one to each of them.
    looked_at(ours, add, move |ours, index, own| {
        let place = scatter(index, records);
        let stored = ours.database.read(ours.product(), &data::id(place)).expect("a healthy store").expect("a record");
        let rounds = (own.end - 1 - index) / records + 1 + (index - own.start) / records;
        let given: serde_json::Value = serde_json::from_slice(&data::product(place, data::Id::Given)).expect("JSON");
        let expected = given["stock"].as_i64().map(|stock| stock + rounds as i64);
        let counted = matches!(stored.value(stock), Ok(Value::Int(stock)) if Some(stock) == expected);
        assert!(counted, "operation {index} has not been counted");
    })
}

/// The position of the incremented attribute.
pub fn stock(ours: &Ours) -> usize {
    ours.product().attribute("stock").expect("an attribute of the data set")
}

/// Adds one to an attribute of a record.
pub fn add_one(ours: &Ours, id: &str, attribute: usize) -> u64 {
    let after = Cell::new(0);
    let changed = ours.database.update(ours.product(), id, |record| {
        let Value::Int(before) = record.value(attribute)? else { unreachable!("an attribute of the data set") };
        after.set(before + 1);
        Fields::of(record.table()).with("stock", after.get())
    });
    let changed = changed.or_refused();
    u64::from(matches!(changed.value(attribute), Ok(Value::Int(written)) if written == after.get()))
}

/// The same under RocksDB's optimistic transactions: get for update, pinned, put the same bytes, commit.
pub fn optimistic_read_modify_write(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let keys = record_keys(1, records);
    raw.promise(Promise::WRITE);
    move |index| {
        let key = &keys[scatter(index, records) as usize];
        let transaction = raw.begin();
        let before = transaction.get_pinned_for_update_cf_opt(&raw.records(), key, true, &raw.read);
        let before = before.expect("a healthy store").expect("a record of the data set");
        transaction.put_cf(&raw.records(), key, &before).or_refused();
        drop(before);
        transaction.commit().or_refused();
        1
    }
}

/// Parses a JSON body, puts its record in an optimistic transaction and commits.
pub fn optimistic_write(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    raw.promise(Promise::WRITE);
    let mut put = optimistic_put(raw, records);
    move |index| put(index, |transaction| transaction.commit())
}

/// The same, rolled back.
pub fn optimistic_abort(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let mut put = optimistic_put(raw, records);
    move |index| put(index, |transaction| transaction.rollback())
}

/// Commits a transaction or rolls it back.
type End = fn(rocksdb::Transaction<'_, rocksdb::OptimisticTransactionDB>) -> Result<(), rocksdb::Error>;

/// Puts one record in an optimistic transaction and ends it with `end`.
fn optimistic_put(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64, End) -> u64 + Send {
    let mut body = Parsed::new(records);
    move |index, end| {
        let transaction = raw.begin();
        let (key, value) = body.of(index);
        transaction.put_cf(&raw.records(), key, value).or_refused();
        end(transaction).or_refused();
        1
    }
}

/// Seven reads by id, then three creates.
pub fn mixed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    ours.promise(MIX);
    mix(read(Arc::clone(&ours), records), create(ours))
}

/// The reads of such a mix alone, over a store with half of its creates done.
pub fn mixed_read(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    mix(read(ours, records), nothing)
}

/// Its creates alone.
pub fn mixed_create(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    ours.promise(MIX);
    mix(nothing, create(ours))
}

/// The same in raw RocksDB.
pub fn raw_mixed(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    raw.promise(MIX);
    mix(raw_read(Arc::clone(&raw), records), raw_create(raw, 0))
}

/// Seven of ten operations read, three create.
pub fn mix(
    mut read: impl FnMut(u64) -> u64 + Send,
    mut create: impl FnMut(u64) -> u64 + Send,
) -> impl FnMut(u64) -> u64 + Send {
    move |index| if index % 10 < 7 { read(index) } else { create(index) }
}

/// Takes the place of the other verb when a part of a mix runs alone.
pub fn nothing(_: u64) -> u64 {
    1
}

/// The records that a mix leaves, promised before its parts promise more.
pub const MIX: Promise =
    Promise { records: |operations| operations / 10 * 3 + (operations % 10).saturating_sub(7), ..Promise::CREATE };
