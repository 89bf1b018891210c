//! Appending events to a stream and reading them, in process, against raw RocksDB writing and reading the same bytes.
//!
//! An append parses the JSON body of an event, which it checks but does not parse into values, chooses partition and offset under the
//! partition's lock, and puts one chunk with a checksum. The floor of one event puts the same stored bytes under the same key, prepared
//! beforehand; that of a list of events puts a key for each of them in one batch, as a store without chunks would. A read verifies chunks
//! and writes events as JSON; its floor seeks, iterates over a key for each event and copies the values out. Both sides have stores that
//! Strata created.

mod events;
mod floor;
mod prepared;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use events::{
    Floor, Ours, PAGE, PAYLOAD_BYTES, WRITTEN, append, append_each, body, chunk_key, list, payload, put_next, raw_read,
};
use prepared::{SST, WRITES, options, soft};
use rust_rocksdb as rocksdb;
use strata::encoding::body::parse_object;
use strata::streams::Event;
use strata::transaction::Precondition;
use strata_harness::data::scatter;
use strata_harness::{Depth, Facts, OrRefused, Scale, Suite, Unit, suite};

/// A stream of one partition.
const SCHEMA: &str = "type Click @stream";

fn main() {
    suite("streams", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        appends(suite);
        bulks(suite);
        reads(suite);
        mixed(suite);
        commits(suite);
        beside(suite);
        strong(suite);
    });
}

fn writing(op: &str, events: u64) -> Facts {
    let facts = Facts::new(op).data(format!("payloads of {PAYLOAD_BYTES} bytes")).state(WRITTEN);
    facts.durability(soft()).unit(Unit::Records, events).changes_store(WRITES / events.clamp(1, 8), None)
}

fn appends(suite: &mut Suite) {
    for bytes in [64, 256, 1024, 4096] {
        let case = &format!("{bytes}_bytes");
        let facts = |op: &str| writing(op, 1).data(format!("payloads of {bytes} bytes"));
        let about = facts("appends one event from its JSON body").floor("floor", 0.75, 0.90).allocations_at_most(4);
        let about = if bytes == PAYLOAD_BYTES { about.depth(Depth::Quick) } else { about };
        let body = body(&payload(bytes));
        let setup = || Ours::fresh(SCHEMA);
        suite.row("append", "strata", case, about, setup, |ours| append(ours, body.clone()));
        let setup = || Ours::fresh(SCHEMA).into_floor(&body);
        let about = facts("puts the same stored bytes under the next key");
        suite.row("append", "floor", case, about, setup, |floor| put_next(floor, 1));
    }

    let keyed = |key: &str| format!(r#"{{"payload":{},"idempotencyKey":"{key}"}}"#, payload(PAYLOAD_BYTES));
    let keys = match suite.scale() {
        Scale::Full => 1_000_000,
        Scale::Smoke => 1000,
    };
    let facts = |op: &str| writing(op, 1).state(format!("{keys} keys of the window before in SST; {WRITTEN}"));
    let about = facts("appends one event with an idempotency key, new to its stream").floor("floor", 0.85, 0.93);
    let setup = || Ours::with_keys(keys);
    suite.row("append", "strata", "keyed", about, setup, |ours: Arc<Ours>| {
        ours.promised.store(1, Relaxed);
        let mut body = keyed(&"0".repeat(16)).into_bytes();
        move |index| {
            // In place: the floor has no key to make.
            let digits = body.len() - 18;
            let key = scatter(index, u64::from(u32::MAX));
            (0..16).for_each(|at| body[digits + at] = b'a' + (key >> (4 * at) & 15) as u8);
            let event = Event::parse(ours.stream(), &body).expect("an event");
            u64::from(!ours.streams.append(&ours.store.database, ours.stream(), &event).or_refused().duplicate)
        }
    });
    let about = facts("gets two keys that are not there, and puts two in one batch");
    let setup = || Ours::with_keys(keys).into_floor(&keyed(&"1".repeat(16)));
    suite.row("append", "floor", "keyed", about, setup, |floor: Arc<Floor>| {
        let (mut batch, mut hashed) = (rocksdb::WriteBatch::default(), [0; 32]);
        move |index| {
            let raw = &floor.raw;
            hashed[16..24].copy_from_slice(&scatter(index, u64::MAX >> 1).to_be_bytes());
            for generation in [2_u64, 1] {
                hashed[..16].copy_from_slice(&chunk_key(1, u32::MAX - 1, generation));
                let found =
                    raw.database().get_pinned_cf_opt(&raw.events(), hashed, &raw.read).expect("a healthy store");
                assert!(found.is_none());
            }
            batch.clear();
            batch.put_cf(&raw.events(), chunk_key(1, 0, keys + 1 + index), &floor.stored);
            batch.put_cf(&raw.events(), hashed, [0; 20]);
            raw.commit(&batch);
            1
        }
    });
}

/// Puts a key for each event in one batch.
fn put_each(floor: Arc<Floor>, events: u64, partitions: u64) -> impl FnMut(u64) -> u64 + Send {
    floor.promised.store(events, Relaxed);
    let mut batch = rocksdb::WriteBatch::default();
    move |index| {
        let raw = &floor.raw;
        batch.clear();
        for event in 0..events {
            let key = chunk_key(1, (event % partitions) as u32, (index * events + event) / partitions + 1);
            batch.put_cf(&raw.events(), key, &floor.stored);
        }
        raw.commit(&batch);
        events
    }
}

fn bulks(suite: &mut Suite) {
    let payload = payload(PAYLOAD_BYTES);
    for (events, partitions, at_least, aim) in
        [(10, 1, 0.85, 1.1), (100, 1, 0.95, 1.3), (1000, 1, 0.85, 1.3), (100, 4, 0.9, 1.2)]
    {
        let case = match partitions {
            1 => format!("{events}_events"),
            _ => format!("{events}_events_{partitions}_partitions"),
        };
        let schema = format!("type Click @stream(partitions: {partitions})");
        let list = list(&payload, events as usize, partitions as usize);
        let about = writing(&format!("appends {events} events from one JSON body, all or none"), events);
        let about = about.floor("floor", at_least, aim);
        let about = if partitions == 1 { about.against(format!("streams/bulk/chunk/{case}")) } else { about };
        suite.row(
            "bulk",
            "strata",
            &case,
            about,
            || Ours::fresh(&schema),
            |ours| append_each(ours, list.clone(), events),
        );

        let setup = || Ours::fresh(&schema).into_floor(&body(&payload));
        let about = writing(&format!("puts {events} keys in one batch, one for each event"), events);
        suite.row("bulk", "floor", &case, about, setup, |floor| put_each(floor, events, partitions));
        if partitions > 1 {
            continue;
        }
        let setup = || {
            let floor = Ours::fresh(&schema).into_floor(&body(&payload));
            Floor { stored: floor.stored.repeat(events as usize), ..floor }
        };
        let about = writing(&format!("puts one finished chunk of {events} events"), events);
        suite.row("bulk", "chunk", &case, about, setup, |floor| {
            let mut put = put_next(floor, 1);
            move |index| put(index) * events
        });
    }
}

/// Events that are there before.
fn stored(suite: &Suite) -> u64 {
    match suite.scale() {
        Scale::Full => 100_000,
        Scale::Smoke => 1000,
    }
}

fn reads(suite: &mut Suite) {
    let n = stored(suite);
    let facts = |op: &str| {
        let data = format!("{n} events with payloads of {PAYLOAD_BYTES} bytes");
        Facts::new(op).data(data).state(SST).unit(Unit::Records, PAGE as u64)
    };
    let read = |ours: Arc<Ours>, low: u64| {
        let mut answer = Vec::new();
        move |index| ours.read(low + scatter(index, n - PAGE as u64), PAGE, &mut answer)
    };
    for (case, each, at_least, aim) in [("singly", 1, 0.65, 0.8), ("in_lists_of_100", 100, 1.3, 1.8)] {
        let op = format!("reads {PAGE} events from a random offset as JSON, appended {}", case.replace('_', " "));
        let about = facts(&op).floor_id("streams/read/floor/singly", at_least, aim).allocations_at_most(3);
        suite.row("read", "strata", case, about, || Ours::with_events(SCHEMA, n, each), |ours| read(ours, 0));
    }
    let about = facts(&format!("seeks a random offset, iterates over {PAGE} keys and copies their values"));
    let setup = || Ours::with_events(SCHEMA, n, 1).into_floor(r#"{"payload":1}"#);
    suite.row("read", "floor", "singly", about, setup, |floor: Arc<Floor>| {
        let mut answer = Vec::new();
        move |index| raw_read(&floor.raw, scatter(index, n - PAGE as u64), PAGE as u64, &mut answer)
    });

    // The same store before and after a trim.
    let before = n * 10;
    let setup = |trims: bool| {
        let ours = Ours::with_events(SCHEMA, before + n, 100);
        if trims {
            ours.streams.trim(&ours.store.database, ours.stream(), 0, before).or_refused();
        }
        ours
    };
    let op = |what: &str| format!("reads {PAGE} events from a random offset as JSON, behind {before} that {what}");
    let about = facts(&op("were trimmed")).floor_id("streams/read/strata/behind_kept", 0.85, 0.95);
    suite.row("read", "strata", "behind_trimmed", about, || setup(true), |ours| read(ours, before));
    suite.row("read", "strata", "behind_kept", facts(&op("are kept")), || setup(false), |ours| read(ours, before));
}

/// Four appends, and then a read of a few events.
fn mixed(suite: &mut Suite) {
    const READ: u64 = 10;
    let n = stored(suite);
    let is_read = |index: u64| index % 5 == 4;
    let facts = |op: &str| {
        let data = format!("{n} events with payloads of {PAYLOAD_BYTES} bytes, and those that are appended");
        let facts = Facts::new(op).data(data).state("SST, and what is written in the memtable").durability(soft());
        facts.changes_store(WRITES, None).unit(Unit::Operations, 1)
    };
    let about = facts(&format!("appends one event, or reads {READ} at a random offset as JSON: 80/20"));
    let about = about.floor("floor", 0.75, 0.9);
    let event = body(&payload(PAYLOAD_BYTES));
    suite.row(
        "mixed",
        "strata",
        "80_20",
        about,
        || Ours::with_events(SCHEMA, n, 1),
        |ours| {
            let (mut append, mut answer) = (append(Arc::clone(&ours), event.clone()), Vec::new());
            // What one in five reads, nobody appends.
            ours.promised.store(0, Relaxed);
            move |index| match is_read(index) {
                true => ours.read(scatter(index, n - READ), READ as usize, &mut answer) / READ,
                false => append(index),
            }
        },
    );
    let about = facts(&format!("puts the stored bytes of one event, or seeks and copies {READ} of them: 80/20"));
    let setup = || Ours::with_events(SCHEMA, n, 1).into_floor(&event);
    suite.row("mixed", "floor", "80_20", about, setup, |floor: Arc<Floor>| {
        let (mut put, mut answer) = (put_next(Arc::clone(&floor), n + 1), Vec::new());
        floor.promised.store(0, Relaxed);
        move |index| match is_read(index) {
            true => raw_read(&floor.raw, scatter(index, n - READ), READ, &mut answer) / READ,
            false => put(index),
        }
    });
}

/// Measures the writes of a consumer.
fn commits(suite: &mut Suite) {
    let about = writing("commits 4 offsets of a consumer group", 1).floor("floor", 0.7, 0.85);
    let setup = || {
        let ours = Ours::fresh("type Click @stream(partitions: 4)");
        let event = |partition| Event { payload: "1", partition: Some(partition), ..Event::default() };
        ours.streams.append_all(&ours.store.database, ours.stream(), &[0, 1, 2, 3].map(event)).or_refused();
        ours
    };
    suite.row("commit", "strata", "4_partitions", about, setup, |ours: Arc<Ours>| {
        move |index| {
            let offsets = [0, 1, 2, 3].map(|partition| (partition, index % 2));
            let (database, none) = (&ours.store.database, Precondition::None);
            black_box(ours.streams.commit(database, ours.stream(), "mail", &offsets, &none).or_refused());
            1
        }
    });
    let about = writing("puts 4 offsets of 8 bytes in one batch", 1);
    let setup = || Ours::fresh("type Click @stream(partitions: 4)").into_floor(r#"{"payload":1}"#);
    suite.row("commit", "floor", "4_partitions", about, setup, |floor: Arc<Floor>| {
        let mut batch = rocksdb::WriteBatch::default();
        move |index| {
            let raw = &floor.raw;
            batch.clear();
            for partition in 0..4_u32 {
                let key = [&chunk_key(1, u32::MAX, 1)[..], b"mail", &partition.to_be_bytes()].concat();
                batch.put_cf(&raw.events(), key, index.to_le_bytes());
            }
            raw.commit(&batch);
            1
        }
    });
}

/// Measures an append with a record in one transaction, and one while readers wait.
fn beside(suite: &mut Suite) {
    const WITH_TABLE: &str = "type Click @stream
        type Item @table { id: ID! @primaryKey  name: String @indexed  n: Int @indexed }";
    let record = |index: u64| format!(r#"{{"id":"{index}","name":"name {index}","n":{index}}}"#);
    let about = writing("creates a record with two indexes, and appends an event in the same transaction", 1);
    let about = about.floor_id("streams/record/strata/without_event", 1.0 / 2.0, 1.0 / 1.4);
    let setup = || Ours::fresh(WITH_TABLE);
    suite.row("record", "strata", "with_event", about, setup, |ours: Arc<Ours>| {
        let payload = payload(PAYLOAD_BYTES);
        move |index| {
            let (body, event) = (record(index), Event { payload: &payload, ..Event::default() });
            let table = ours.store.database.table("Item").expect("the table of the schema");
            let outcome = ours.streams.transact(&ours.store.database, |transaction, appends| {
                transaction.create(parse_object(table, body.as_bytes())?)?;
                appends.append(transaction, ours.stream(), &event)
            });
            black_box(outcome.or_refused());
            1
        }
    });
    let about = writing("creates the record alone, in a transaction", 1);
    suite.row("record", "strata", "without_event", about, setup, |ours: Arc<Ours>| {
        move |index| {
            let body = record(index);
            let table = ours.store.database.table("Item").expect("the table of the schema");
            let outcome = ours
                .store
                .database
                .transact(|transaction| transaction.create(parse_object(table, body.as_bytes())?).map(drop));
            outcome.or_refused();
            1
        }
    });

    let subscribers = 1000;
    let body = body(&payload(PAYLOAD_BYTES)).replacen('{', r#"{"partition":0,"#, 1);
    let about = writing(&format!("appends one event while {subscribers} readers wait in other partitions"), 1);
    let about = about.floor_id("streams/append/strata/no_readers", 0.95, 1.0);
    suite.row(
        "append",
        "strata",
        "1000_readers",
        about,
        || Ours::with_readers(subscribers),
        |ours| append(ours, body.clone()),
    );
    let about = writing("appends one event to one of 16 partitions while nobody waits", 1);
    suite.row("append", "strata", "no_readers", about, || Ours::with_readers(0), |ours| append(ours, body.clone()));
}

/// Writers that wait for the device.
fn strong(suite: &mut Suite) {
    let threads = if suite.scale() == Scale::Full { 64 } else { 4 };
    let facts = |op: &str| writing(op, 1).durability("strong").threads(threads).changes_store(2048, None);
    let body = body(&payload(PAYLOAD_BYTES));
    let about = facts("appends one event to one partition and waits until it is synced; one waiter syncs for all");
    let setup = || Ours::fresh(r#"type Click @stream(durability: "strong")"#);
    let about = about.floor("floor", 0.9, None);
    suite.row("append_strong", "strata", "64_writers", about, setup, |ours| append(ours, body.clone()));
    let setup = || {
        let mut floor = Ours::fresh(SCHEMA).into_floor(&body);
        floor.raw.write.set_sync(true);
        floor
    };
    let about = facts("puts the same stored bytes with a synced write; the engine groups writers");
    suite.row("append_strong", "floor", "64_writers", about, setup, |floor| put_next(floor, 1));
}
