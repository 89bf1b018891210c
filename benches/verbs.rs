//! The verbs as benches call them: ours, and the raw path for the same bytes. A module of the benches, not a target.
//!
//! Each function makes a worker: everything it needs stands ready, and the closure it returns is the operation that is timed.
#![allow(dead_code, reason = "each target measures its part")]

use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use rust_rocksdb as rocksdb;
use strata::encoding::value::{Value, parse_object};
use strata::encoding::{Record, key, record};
use strata::error::Error;
use strata::schema::{IndexKind, Table};
use strata::transaction::{Owned, Precondition};
use strata_harness::data::{self, scatter};

use crate::floor::{Optimistic, Raw};
use crate::prepared::{Numbered, Ours, POOL, bodies, bodies_with_id, record_keys, schema};

/// An id of the length that the server makes, with room for a number.
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

/// An answer that nobody looks at is not read: a pinned value that is not touched costs nothing on the way from memory.
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

/// Reads one record by id and two of its attributes.
pub fn read_2_attributes(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let (price, category) = (
        ours.product().attribute("price").expect("an attribute of the data set"),
        ours.product().attribute("category").expect("an attribute of the data set"),
    );
    move |index| {
        let id = &ids[scatter(index, records) as usize];
        let record =
            ours.database.read(ours.product(), id).expect("a healthy store").expect("a record of the data set");
        let found = (record.value(price), record.value(category));
        u64::from(matches!(black_box(&found), (Ok(Value::Float(_)), Ok(Value::Text(_)))))
    }
}

/// Creates one record from a JSON body; the id is made by the server.
pub fn create(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let bodies = bodies();
    move |index| {
        let body = &bodies[(index % POOL) as usize];
        let created = ours.database.create(ours.product(), body).expect("a body of the data set");
        u64::from(created.json().len() > 900)
    }
}

/// Creates one record whose id the client gives.
pub fn create_with_id(ours: Arc<Ours>) -> impl FnMut(u64) -> u64 + Send {
    let mut bodies = bodies_with_id("new-00000000");
    move |index| {
        let body = bodies[(index % POOL) as usize].with(index);
        let created = ours.database.create(ours.product(), body).expect("a body of the data set");
        u64::from(created.json().len() > 900)
    }
}

/// What the raw path of a create writes: key and value of the record, keys of the entries.
pub struct Write {
    pub key: Numbered,
    pub value: Vec<u8>,
    pub entries: Vec<Numbered>,
}

/// One write for each body of the pool.
pub fn writes(table: &Table, id: &str) -> Vec<Write> {
    let mut all = Vec::new();
    for body in bodies() {
        let body = [format!("{{\"id\":\"{id}\",").as_bytes(), &body[1..]].concat();
        let fields = parse_object(table, &body).expect("a body of the data set");
        let (mut value, mut key) = (Vec::new(), Vec::new());
        let record = record::encode(table, &fields, None::<&Owned<'_>>, &mut value).expect("a record of the data set");
        let entries = entries(&record, id).iter().map(|entry| Numbered::new(entry)).collect();
        key::record(table.id, id, &mut key);
        all.push(Write { key: Numbered::new(&key), value, entries });
    }
    all
}

/// The keys of the entries that a record has.
pub fn entries<B: AsRef<[u8]>>(record: &Record<'_, B>, id: &str) -> Vec<Vec<u8>> {
    let keys = record.table().indexes.iter().map(|index| {
        let (mut entry, value) = (Vec::new(), record.value(index.attribute).expect("a record of the data set"));
        match index.kind {
            IndexKind::Ordered => key::ordered(index.id, &value, id, &mut entry),
            IndexKind::Hash => key::hash(index.id, &value, id, &mut entry),
            IndexKind::Unique => unreachable!("the data set has none"),
        }
        entry
    });
    keys.collect()
}

/// Writes the keys of a create in one batch.
pub fn raw_create(raw: Arc<Raw>, indexes: u32) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = writes(&schema(indexes).tables[0], MADE_ID);
    let mut batch = rocksdb::WriteBatch::default();
    move |index| {
        let write = &mut writes[(index % POOL) as usize];
        stage(&raw, &mut batch, write, index);
        raw.commit(&batch);
        batch.len() as u64 / (1 + u64::from(indexes))
    }
}

/// Writes the keys of one create in one batch, again and again, for a server that answers on one thread.
pub fn raw_create_shared(raw: Arc<Raw>, indexes: u32) -> impl FnMut() + Clone {
    let create = std::rc::Rc::new(std::cell::RefCell::new((0, raw_create(raw, indexes))));
    move || {
        let (index, create) = &mut *create.borrow_mut();
        create(*index);
        *index += 1;
    }
}

/// Writes one key of its own for each of many threads.
pub fn raw_create_by_many(raw: Arc<Raw>) -> impl FnMut(u64) -> u64 + Send {
    let write = writes(&schema(0).tables[0], MADE_ID).swap_remove(0);
    let (mut key, mut batch) = (write.key, rocksdb::WriteBatch::default());
    move |index| {
        batch.clear();
        batch.put_cf(&raw.records(), key.with(index), &write.value);
        raw.commit(&batch);
        batch.len() as u64
    }
}

/// Looks for a key, then writes it, as a create with a given id must.
pub fn raw_get_and_create(raw: Arc<Raw>) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = writes(&schema(0).tables[0], "new-00000000");
    let mut batch = rocksdb::WriteBatch::default();
    move |index| {
        let write = &mut writes[(index % POOL) as usize];
        let absent = raw.get(write.key.with(index)).is_none();
        stage(&raw, &mut batch, write, index);
        raw.commit(&batch);
        u64::from(absent)
    }
}

fn stage(raw: &Raw, batch: &mut rocksdb::WriteBatch, write: &mut Write, number: u64) {
    batch.clear();
    batch.put_cf(&raw.records(), write.key.with(number), &write.value);
    for entry in &mut write.entries {
        batch.put_cf(&raw.indexes(), entry.with(number), b"");
    }
}

/// Patches both indexed attributes, with the values whose entries the floor writes.
pub fn update_indexed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    assert!(!records.is_multiple_of(POOL), "the next change of a record would change nothing");
    let price = ours.product().attribute("price").expect("an attribute of the data set");
    looked_at(ours, patch(records, CHANGE, |index| index % POOL), move |ours, index, own| {
        // It is the only worker: what stands there is of its last operation on the record.
        let last = index + (own.end - 1 - index) / records * records;
        let number = patched(ours, &data::id(scatter(index, records)), price);
        assert_eq!(number, (last % POOL) as i64, "operation {index} has left another's price");
    })
}

const CHANGE: &str = r#"{"category":"changed-00000000","price":100000000.5}"#;

/// Patches an attribute that has no index: writes the index of the operation into it.
pub fn update_unindexed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let attribute = ours.product().attribute("stock").expect("an attribute of the data set");
    looked_at(ours, patch(records, STOCK, |index| index), move |ours, index, own| {
        let number = patched(ours, &data::id(scatter(index, records)), attribute);
        assert_patched(number, index, own, |other| scatter(other, records) == scatter(index, records));
    })
}

pub const STOCK: &str = r#"{"stock":100000000}"#;

/// Patches the record of the operation with a text in which a number of its own stands.
fn patch(records: u64, text: &str, number: fn(u64) -> u64) -> impl FnMut(&mut Arc<Ours>, u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let mut patch = Numbered::new(text.as_bytes());
    move |ours, index| {
        let id = &ids[scatter(index, records) as usize];
        let changed = ours.database.merge(ours.product(), id, patch.with(number(index)), &Precondition::None);
        u64::from(!changed.expect("a record of the data set").json().is_empty())
    }
}

/// The number that a patch has left in an attribute of a stored record; less than 0 if none has.
pub fn patched(ours: &Ours, id: &str, attribute: usize) -> i64 {
    let stored = ours.database.read(ours.product(), id).expect("a healthy store").expect("a record of the data set");
    match stored.value(attribute).expect("a whole record") {
        Value::Int(stock) => stock - 100_000_000,
        Value::Float(price) => (price - 100_000_000.5) as i64,
        other => panic!("{other:?} is no number"),
    }
}

/// The number that stands in the record of an operation is its own, or that of an operation that came after it on the same record: any
/// of another worker, but none that this worker did before.
pub fn assert_patched(written: i64, index: u64, own: &Range<u64>, same_record: impl Fn(u64) -> bool) {
    let number = u64::try_from(written).unwrap_or_else(|_| panic!("operation {index} has left nothing in its record"));
    let before = own.contains(&number) && number < index;
    assert!(same_record(number) && !before, "operation {index} has left {number} in its record");
}

/// Operations of a worker that are looked at when it is over: outside every clock, in the store and not in the answer.
const LOOKED_AT: u64 = 100;

/// An operation of a client, of which the last ones are looked at: faster must not mean that nothing was written. `look` is given
/// the index, and those of the worker's last operations in a row.
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
    /// The last operations in a row.
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

/// Gets a record, then writes it and exchanges two entries in one batch.
pub fn raw_update_indexed(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let schema = schema(2);
    let table = &schema.tables[0];
    let (keys, ids) = (record_keys(table.id, records), (0..records).map(data::id).collect::<Vec<_>>());
    let value = writes(table, MADE_ID).swap_remove(0).value;
    // The entries of one change but for the id at the end; changes of one record have unlike numbers modulo the pool.
    let mut change = Numbered::new(CHANGE.as_bytes());
    let prefixes: Vec<Vec<Vec<u8>>> = (0..POOL)
        .map(|number| {
            let (fields, mut bytes) = (parse_object(table, change.with(number)).expect("a patch"), Vec::new());
            let record = record::encode(table, &fields, None::<&Owned<'_>>, &mut bytes).expect("a record");
            entries(&record, "")
        })
        .collect();
    let (mut batch, mut entry) = (rocksdb::WriteBatch::default(), Vec::new());
    move |index| {
        let place = scatter(index, records) as usize;
        let found = raw.get(&keys[place]).is_some();
        let before = index.wrapping_sub(records);
        batch.clear();
        batch.put_cf(&raw.records(), &keys[place], &value);
        for (old, new) in prefixes[(before % POOL) as usize].iter().zip(&prefixes[(index % POOL) as usize]) {
            for (prefix, put) in [(old, false), (new, true)] {
                entry.clear();
                entry.extend_from_slice(prefix);
                entry.extend_from_slice(ids[place].as_bytes());
                match put {
                    true => batch.put_cf(&raw.indexes(), &entry, b""),
                    false => batch.delete_cf(&raw.indexes(), &entry),
                }
            }
        }
        raw.commit(&batch);
        u64::from(found)
    }
}

/// Deletes one record.
pub fn delete(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let delete = move |ours: &mut Arc<Ours>, index| {
        let id = &ids[scatter(index, records) as usize];
        u64::from(ours.database.delete(ours.product(), id, &Precondition::None).is_ok())
    };
    looked_at(ours, delete, move |ours, index, _| {
        let stored = ours.database.read(ours.product(), &data::id(scatter(index, records)));
        assert!(stored.expect("a healthy store").is_none(), "operation {index} has deleted nothing");
    })
}

/// Gets a record, then deletes it and its entries in one batch.
pub fn raw_delete(raw: Arc<Raw>, indexes: u32, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let schema = schema(indexes);
    let table = &schema.tables[0];
    let keys = record_keys(table.id, records);
    let entries: Vec<Vec<Vec<u8>>> = (0..records)
        .map(|index| {
            let (fields, mut bytes) = (data::product(index, data::Id::Given), Vec::new());
            crate::prepared::encode(table, &fields, &mut bytes);
            entries(&Record::open(table, bytes).expect("encoded just now"), &data::id(index))
        })
        .collect();
    let mut batch = rocksdb::WriteBatch::default();
    move |index| {
        let place = scatter(index, records) as usize;
        let found = raw.get(&keys[place]).is_some();
        batch.clear();
        batch.delete_cf(&raw.records(), &keys[place]);
        for entry in &entries[place] {
            batch.delete_cf(&raw.indexes(), entry);
        }
        raw.commit(&batch);
        u64::from(found)
    }
}

/// Replaces one record by another JSON body.
pub fn replace(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, bodies) = ((0..records).map(data::id).collect::<Vec<_>>(), bodies());
    move |index| {
        let (id, body) = (&ids[scatter(index, records) as usize], &bodies[(index % POOL) as usize]);
        let replaced = ours.database.replace(ours.product(), id, body, &Precondition::None);
        let (record, created) = replaced.expect("a record of the data set");
        u64::from(record.json().len() > 900 && !created)
    }
}

/// Gets one record and puts the bytes of another.
pub fn raw_replace(raw: Arc<Raw>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let keys = record_keys(1, records);
    let (writes, mut batch) = (writes(&schema(0).tables[0], &data::id(0)), rocksdb::WriteBatch::default());
    move |index| {
        let key = &keys[scatter(index, records) as usize];
        let found = raw.get(key).is_some();
        batch.clear();
        batch.put_cf(&raw.records(), key, &writes[(index % POOL) as usize].value);
        raw.commit(&batch);
        u64::from(found)
    }
}

/// Replaces one record in a transaction that gives up at its end.
pub fn abort(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (ids, bodies) = ((0..records).map(data::id).collect::<Vec<_>>(), bodies());
    move |index| {
        let (id, body) = (&ids[scatter(index, records) as usize], &bodies[(index % POOL) as usize]);
        let outcome = ours.database.transact(|transaction| {
            let fields = parse_object(ours.product(), body)?;
            transaction.replace(ours.product(), id, fields, &Precondition::None)?;
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
    move |index| {
        let array = &arrays[index as usize % arrays.len()];
        let created = ours.database.create_all(ours.product(), array).expect("bodies of the data set");
        created.iter().filter(|record| record.json().len() > 900).count() as u64
    }
}

/// Writes the hundred keys of the same in one batch.
pub fn raw_create_all(raw: Arc<Raw>) -> impl FnMut(u64) -> u64 + Send {
    let mut writes = writes(&schema(0).tables[0], MADE_ID);
    let mut batch = rocksdb::WriteBatch::default();
    move |index| {
        batch.clear();
        for number in index * BATCH..(index + 1) * BATCH {
            let write = &mut writes[(number % POOL) as usize];
            batch.put_cf(&raw.records(), write.key.with(number), &write.value);
        }
        raw.commit(&batch);
        batch.len() as u64
    }
}

/// Adds one to the stock of a record.
pub fn read_modify_write(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let ids: Vec<String> = (0..records).map(data::id).collect();
    let stock = stock(&ours);
    move |index| add_one(&ours, &ids[scatter(index, records) as usize], stock)
}

/// The place of the attribute that is counted up.
pub fn stock(ours: &Ours) -> usize {
    ours.product().attribute("stock").expect("an attribute of the data set")
}

/// Adds one to an attribute of a record.
pub fn add_one(ours: &Ours, id: &str, attribute: usize) -> u64 {
    let after = Cell::new(0);
    let changed = ours.database.update(ours.product(), id, |record| {
        let mut fields = vec![None; record.table().attributes.len()];
        if let Value::Int(before) = record.value(attribute)? {
            after.set(before + 1);
            fields[attribute] = Some(Value::Int(after.get()));
        }
        Ok(fields)
    });
    let changed = changed.expect("a record of the data set");
    u64::from(matches!(changed.value(attribute), Ok(Value::Int(written)) if written == after.get()))
}

/// The same under RocksDB's optimistic transactions: get for update, pinned, put the same bytes, commit.
pub fn optimistic_read_modify_write(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let keys = record_keys(1, records);
    move |index| {
        let key = &keys[scatter(index, records) as usize];
        let transaction = raw.begin();
        let before = transaction.get_pinned_for_update_cf_opt(&raw.records(), key, true, &raw.read);
        let before = before.expect("a healthy store").expect("a record of the data set");
        transaction.put_cf(&raw.records(), key, &before).expect("a healthy store");
        drop(before);
        u64::from(transaction.commit().is_ok())
    }
}

/// Puts one record in an optimistic transaction and commits.
pub fn optimistic_write(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let mut put = optimistic_put(raw, records);
    move |index| u64::from(put(index, |transaction| transaction.commit()))
}

/// The same, rolled back.
pub fn optimistic_abort(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let mut put = optimistic_put(raw, records);
    move |index| u64::from(put(index, |transaction| transaction.rollback()))
}

/// Commits a transaction or rolls it back.
type End = fn(rocksdb::Transaction<'_, rocksdb::OptimisticTransactionDB>) -> Result<(), rocksdb::Error>;

/// Puts one record in an optimistic transaction and lets `end` end it; whether it did.
fn optimistic_put(raw: Arc<Optimistic>, records: u64) -> impl FnMut(u64, End) -> bool + Send {
    let (keys, writes) = (record_keys(1, records), writes(&schema(0).tables[0], &data::id(0)));
    move |index, end| {
        let transaction = raw.begin();
        let (key, write) = (&keys[scatter(index, records) as usize], &writes[(index % POOL) as usize]);
        transaction.put_cf(&raw.records(), key, &write.value).expect("a healthy store");
        end(transaction).is_ok()
    }
}

/// Seven reads by id, then three creates.
pub fn mixed(ours: Arc<Ours>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut read, mut create) = (read(Arc::clone(&ours), records), create(ours));
    move |index| if index % 10 < 7 { read(index) } else { create(index) }
}
