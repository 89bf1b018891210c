//! Registrations: records that end, each with an entry in the index of its value and one in that of its deadline.
//!
//! Times are of a clock that the rows set, far ahead: no registration ends meanwhile by the clock of the system.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use rust_rocksdb as rocksdb;
use strata::encoding::key;
use strata::encoding::value::Value;
use strata::schema::{IndexKind, Table};
use strata::storage::Space;
use strata::transaction::{Clock, Database, Precondition, Renewal};
use strata_harness::data::{self, Id, scatter};
use strata_harness::{OrRefused, Scale, Suite, Unit};

use crate::floor::{Keys, Promise, Raw};
use crate::prepared::{
    self, Numbered, Ours, POOL, WRITES, bodies, copy_of, described, expiring_schema, options, records, template,
};
use crate::verbs::{Writes, looked_at};
use crate::writing;

/// The time to live: a year.
const SECONDS: u32 = 31_536_000;
const LIFE: i64 = SECONDS as i64 * 1_000_000;

/// When the registrations of a prepared store were made, in microseconds since 1970.
const MADE: i64 = 4_000_000_000_000_000;

/// The number of registrations that end at once, and the time between two such groups.
const GROUP: u64 = 1000;
const APART: i64 = 60_000_000;

/// An id that a client gives, with room for a number.
const NEW: &str = "new-00000000";

pub fn rows(suite: &mut Suite) {
    let n = records(suite.scale());
    registers(suite, n);
    renews(suite, n);
    expires(suite);
}

/// A store with so many registrations, of which each group was made at a time of its own.
fn made(records: u64) -> PathBuf {
    template(
        &format!("registrations-{records}"),
        || expiring_schema(1, SECONDS),
        &options(),
        |database| {
            for first in (0..records).step_by(GROUP as usize) {
                let clock = Clock::standing_at(MADE + (first / GROUP) as i64 * APART);
                let group = (first..records.min(first + GROUP)).map(|index| data::product(index, Id::Given));
                prepared::create_all(&database.with_clock(&clock), group);
            }
        },
    )
}

fn ours(records: u64) -> Ours {
    Ours::open(copy_of(&made(records)), expiring_schema(1, SECONDS)).warmed()
}

fn raw(records: u64) -> Raw {
    Raw::open(copy_of(&made(records)), options().cache_bytes).warmed()
}

fn registers(suite: &mut Suite, n: u64) {
    let case = "1_index";
    let about = writing("registers with a time to live: puts a new record under a given id, from a JSON body", n, 1);
    let about = about.floor("floor", 0.85, 0.92);
    suite.row(
        "register",
        "strata",
        case,
        about,
        || ours(n),
        |ours: Arc<Ours>| {
            let (mut id, bodies) = (Numbered::new(NEW.as_bytes()), bodies());
            ours.promise(Promise::WRITE);
            let mut looked = id.clone();
            let register = move |ours: &mut Arc<Ours>, index: u64| {
                let (id, body) = (text(id.with(index)), &bodies[(index % POOL) as usize]);
                let (_, created) = ours.database.replace(ours.product(), id, body, &Precondition::None).or_refused();
                u64::from(created)
            };
            looked_at(ours, register, move |ours, index, _| {
                let stored = ours.database.read(ours.product(), text(looked.with(index))).expect("a healthy store");
                assert!(stored.is_some_and(|record| record.json().len() > 900), "operation {index} has left no record");
            })
        },
    );
    let about = writing("writes 3 keys in one batch: a record, the entry of its value and that of its deadline", n, 1);
    suite.row(
        "register",
        "floor",
        case,
        about,
        || raw(n),
        |raw: Arc<Raw>| {
            let mut entries = Entries::new();
            let (mut writes, mut batch) = (Writes::new(&entries.table, NEW), rocksdb::WriteBatch::default());
            raw.promise(Promise { keys: 3, ..Promise::WRITE });
            move |index| {
                batch.clear();
                writes.put(index, |space, key, value| match space {
                    Space::Indexes => batch.put_cf(&raw.indexes(), key, value),
                    _ => {
                        batch.put_cf(&raw.records(), key, value);
                        let id = text(&key[size_of::<u32>()..]);
                        batch.put_cf(&raw.indexes(), entries.of_deadline(MADE + LIFE + index as i64, id), b"");
                    }
                });
                raw.commit(&batch);
                batch.len() as u64 / 3
            }
        },
    );
}

fn renews(suite: &mut Suite, n: u64) {
    let renewing = |op| writing(op, n, 1).floor_id("transaction/renew/floor/1_index", 0.85, 0.92);
    let about = renewing("renews one registration that is due, as the server renews those that are held");
    suite.row(
        "renew",
        "strata",
        "held",
        about,
        || ours(n),
        |ours| {
            renew(ours, n, |database, table, id| {
                matches!(database.renew(table, &[id]).or_refused()[..], [Renewal::Renewed { .. }])
            })
        },
    );
    let about = renewing("renews one registration that is due by an empty patch");
    suite.row(
        "renew",
        "strata",
        "empty_patch",
        about,
        || ours(n),
        |ours| {
            renew(ours, n, |database, table, id| {
                black_box(database.merge(table, id, b"{}", &Precondition::None).or_refused()).json().len() > 900
            })
        },
    );
    let about = writing(
        "gets one record, pinned, writes it with another deadline and replaces an entry in one batch of 3",
        n,
        1,
    );
    suite.row(
        "renew",
        "floor",
        "1_index",
        about,
        || raw(n),
        move |raw: Arc<Raw>| {
            let (ids, mut entries) = ((0..n).map(data::id).collect::<Vec<_>>(), Entries::new());
            let (mut key, mut record, mut batch) = (Vec::new(), Vec::new(), rocksdb::WriteBatch::default());
            raw.promise(Promise { keys: 3, ..Promise::WRITE });
            move |index| {
                let id = &ids[scatter(index, n) as usize];
                key::record(entries.table.id, id, &mut key);
                let Some(stored) = raw.get(&key) else { return 0 };
                batch.clear();
                let before = deadline(&stored);
                let after = before + LIFE / 2;
                record.clear();
                record.extend_from_slice(&stored[..stored.len() - 8]);
                record.extend_from_slice(&after.to_le_bytes());
                batch.put_cf(&raw.records(), &key, &record);
                batch.delete_cf(&raw.indexes(), entries.of_deadline(before, id));
                batch.put_cf(&raw.indexes(), entries.of_deadline(after, id), b"");
                raw.commit(&batch);
                1
            }
        },
    );
}

/// Renews one registration after the other: in each round all of them once, with less than two thirds of their lives left.
fn renew(
    ours: Arc<Ours>,
    n: u64,
    renew: impl Fn(&Database, &Table, &str) -> bool + Send,
) -> impl FnMut(u64) -> u64 + Send {
    let (ids, clock) = ((0..n).map(data::id).collect::<Vec<_>>(), Clock::standing_at(MADE));
    let database = ours.database.with_clock(&clock);
    ours.promise(Promise::WRITE);
    move |index| {
        clock.set(MADE + LIFE / 2 + LIFE / 5 * 2 * (index / n) as i64);
        u64::from(renew(&database, ours.product(), &ids[scatter(index, n) as usize]))
    }
}

fn expires(suite: &mut Suite) {
    // A state serves more turns than a row has.
    let groups = if suite.scale() == Scale::Full { 60 } else { 9 };
    let n = groups * GROUP;
    let facts = |op: &str| {
        let facts = writing(op, n, 1).data(described(n)).unit(Unit::Records, GROUP);
        facts.changes_store((WRITES / GROUP).min(groups / 4), groups)
    };
    let case = "1000_registrations";
    let about = facts("finds and deletes 1000 registrations that have just ended, in pieces, as the server does");
    let about = about.floor("floor", 0.70, 0.85);
    suite.row(
        "expire",
        "strata",
        case,
        about,
        || ours(n),
        |ours: Arc<Ours>| {
            let clock = Clock::standing_at(MADE);
            let database = ours.database.with_clock(&clock);
            ours.promise(Promise { records: |operations| operations * GROUP, ..Promise::DELETE });
            move |index| {
                let before = database.registrations().expired;
                clock.set(MADE + LIFE + index as i64 * APART);
                database.catch_up().or_refused();
                database.registrations().expired - before
            }
        },
    );
    let about = facts(
        "iterates over 1000 entries, gets their records in one call, and deletes them with two entries each in one batch",
    );
    suite.row(
        "expire",
        "floor",
        case,
        about,
        || raw(n),
        |raw: Arc<Raw>| {
            let (mut entries, mut keys, mut batch) = (Entries::new(), Keys::default(), rocksdb::WriteBatch::default());
            raw.promise(Promise { records: |operations| operations * GROUP, keys: 3, ..Promise::DELETE });
            move |index| {
                let at = MADE + LIFE + index as i64 * APART;
                let (from, end) = (entries.of_deadline(at, "").to_vec(), entries.of_deadline(at + 1, "").to_vec());
                raw.matches(&from, &end, entries.table.id, GROUP as usize, &mut keys);
                let keys = keys.slices();
                let records =
                    raw.database().batched_multi_get_pinned_cf_opt(&raw.records(), &keys[..], true, &raw.read);
                batch.clear();
                for (key, stored) in keys.iter().zip(&records) {
                    let stored = stored.as_ref().expect("a healthy store").as_ref().expect("a record of the data set");
                    let id = text(&key[size_of::<u32>()..]);
                    batch.delete_cf(&raw.records(), key);
                    batch.delete_cf(&raw.indexes(), entries.of_category(category(stored), id));
                    batch.delete_cf(&raw.indexes(), entries.of_deadline(deadline(stored), id));
                }
                raw.commit(&batch);
                batch.len() as u64 / 3
            }
        },
    );
}

/// The entries of a registration, built from its values on demand, in a reused buffer.
struct Entries {
    table: Table,
    key: Vec<u8>,
}

impl Entries {
    fn new() -> Self {
        let table = expiring_schema(1, SECONDS).tables.swap_remove(0);
        assert!(matches!([table.indexes[0].kind, table.indexes[1].kind], [IndexKind::Hash, IndexKind::Expiry]));
        Self { table, key: Vec::new() }
    }

    fn of_deadline(&mut self, at: i64, id: &str) -> &[u8] {
        key::ordered(self.table.indexes[1].id, &Value::Int(at), id, &mut self.key);
        &self.key
    }

    fn of_category(&mut self, category: &str, id: &str) -> &[u8] {
        key::hash(self.table.indexes[0].id, &Value::Text(category.into()), id, &mut self.key);
        &self.key
    }
}

/// The deadline of a stored registration, unchecked.
fn deadline(stored: &[u8]) -> i64 {
    i64::from_le_bytes(*stored.last_chunk().expect("a registration ends with its deadline"))
}

/// The category of a stored registration, unchecked: a header of 16 bytes, JSON, an offset of two bytes for each of eight attributes, eight
/// bytes for each of three numbers and the deadline.
fn category(stored: &[u8]) -> &str {
    let (rest, _) = stored.split_last_chunk::<32>().expect("three numbers and a deadline");
    let (json, offsets) = rest.split_last_chunk::<16>().expect("eight offsets");
    let value =
        |attribute: usize| 16 + usize::from(u16::from_le_bytes([offsets[2 * attribute], offsets[2 * attribute + 1]]));
    text(&json[value(2) + 1..value(3) - "\",\"price\":".len()])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("ids and categories are text")
}
