//! The verbs of one record, in process, against the best raw RocksDB path for the same bytes.
//!
//! A read returns the stored bytes in the engine's memory, checked; both sides copy them out, as any server must. A create parses the JSON
//! body, encodes the record with its checksum and writes it with its index entries in one batch; its floor writes the same keys and values,
//! prepared beforehand. For a replace and an abort, both sides parse a JSON body. An update reads the record once and touches only the
//! entries that change; its floor, and that of a delete, build keys from an id and values as Strata does. A batch is all or none, and an
//! abort writes nothing; the peer is RocksDB's own optimistic transactions, with options and column family resolved once, reads pinned, and
//! a new transaction each time, since the binding reuses none. Every write takes locks except the create whose id Strata makes. A registration is a record with a deadline:
//! it is put, renewed, and deleted together with others that have ended.

mod floor;
mod prepared;
mod verbs;

#[path = "transaction/registrations.rs"]
mod registrations;

use floor::{Optimistic, Raw};
use prepared::{MEMTABLE, Ours, SST, WRITES, WRITTEN, described, options, records, soft};
use strata_harness::{Depth, Facts, Scale, Suite, Unit, suite};

fn main() {
    suite("transaction", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        reads(suite);
        creates(suite);
        changes(suite);
        transactions(suite);
        strong(suite);
        registrations::rows(suite);
    });
}

fn reads(suite: &mut Suite) {
    let n = records(suite.scale());
    for (state, in_memtable) in [(MEMTABLE, true), (SST, false)] {
        let case = if in_memtable { "memtable" } else { "sst" };
        let ours = move || {
            if in_memtable { Ours::in_memtable(0, n) } else { Ours::copy(0, n) }
        };
        let raw = move || {
            if in_memtable { Raw::in_memtable(n) } else { Raw::copy(0, n) }
        };
        let facts = |op: &str| Facts::new(op).data(described(n)).state(state).indexes(0).unit(Unit::Records, 1);
        let about = facts("reads one record by id, checks it and copies its JSON out")
            .floor("floor", 0.95, 0.98)
            .allocations_at_most(1)
            .depth(if in_memtable { Depth::Full } else { Depth::Quick });
        suite.row("read", "strata", case, about, ours, |state| verbs::read(state, n));
        let about = facts("gets the stored bytes of one record, pinned, and copies them out");
        suite.row("read", "floor", case, about, raw, |state| verbs::raw_read(state, n));
        let about =
            facts("reads one record by id, checks it and copies two of its attributes out").floor("floor", 0.85, 0.92);
        suite.row("read_2_attributes", "strata", case, about, ours, |state| verbs::read_2_attributes(state, n));
        let about = facts("gets the stored bytes of one record, pinned, and copies two attributes out of them");
        suite.row("read_2_attributes", "floor", case, about, raw, |state| verbs::raw_read_2_attributes(state, n));
    }
}

fn writing(op: &str, n: u64, indexes: u32) -> Facts {
    Facts::new(op)
        .data(described(n))
        .state(WRITTEN)
        .durability(soft())
        .indexes(indexes)
        .unit(Unit::Records, 1)
        .changes_store(WRITES, None)
}

fn creates(suite: &mut Suite) {
    let n = records(suite.scale());
    for (indexes, at_least, aim) in [(0, 0.75, 0.90), (1, 0.85, 0.92), (2, 0.85, 0.92), (8, 0.85, 0.92)] {
        let case = &format!("{indexes}_indexes");
        let about = writing("creates one record from a JSON body; the id is made", n, indexes)
            .floor("floor", at_least, aim)
            .allocations_at_most(4);
        let about = if indexes > 0 { about.against("create/strata/0_indexes") } else { about };
        let about = if indexes == 2 { about.depth(Depth::Quick) } else { about };
        suite.row("create", "strata", case, about, || Ours::copy(indexes, n), verbs::create);
        let about = writing(&format!("writes {} keys in one batch", indexes + 1), n, indexes);
        suite.row("create", "floor", case, about, || Raw::copy(indexes, n), |raw| verbs::raw_create(raw, indexes));
    }
    let about = writing("creates one record from a JSON body with its id", n, 0).floor("floor", 0.75, 0.90);
    suite.row("create", "strata", "id_given", about, || Ours::copy(0, n), verbs::create_with_id);
    let about = writing("gets one absent key, then writes it", n, 0);
    suite.row("create", "floor", "id_given", about, || Raw::copy(0, n), verbs::raw_get_and_create);
}

fn changes(suite: &mut Suite) {
    let n = records(suite.scale());
    let case = "0_indexes";
    let about = writing("patches one attribute that has no index", n, 0);
    suite.row("update", "strata", case, about, || Ours::copy(0, n), |ours| verbs::update_unindexed(ours, n));
    let about = writing("patches one attribute that has no index", n, 2).floor_id(
        "transaction/update/strata/0_indexes",
        0.90,
        0.97,
    );
    let case = "2_indexes_unchanged";
    suite.row("update", "strata", case, about, || Ours::copy(2, n), |ours| verbs::update_unindexed(ours, n));
    let case = "2_indexes_changed";
    let about = writing("patches both indexed attributes", n, 2).floor("floor", 0.85, 0.92);
    suite.row("update", "strata", case, about, || Ours::copy(2, n), |ours| verbs::update_indexed(ours, n));
    let about = writing("gets one record, writes it and replaces two entries in one batch of 5", n, 2);
    suite.row("update", "floor", case, about, || Raw::copy(2, n), |raw| verbs::raw_update_indexed(raw, n));

    let many = n * 4;
    let deleting = |op| writing(op, many, 2).changes_store(WRITES.min(many / 4), many);
    let about = deleting("deletes one record").floor("floor", 0.85, 0.92);
    suite.row("delete", "strata", "2_indexes", about, || Ours::copy(2, many), |ours| verbs::delete(ours, many));
    let about = deleting("gets one record and deletes it with two entries in one batch");
    suite.row("delete", "floor", "2_indexes", about, || Raw::copy(2, many), |raw| verbs::raw_delete(raw, many));
}

/// The uses of a transaction: writing, reading and writing, aborting, writing many records at once.
fn transactions(suite: &mut Suite) {
    let n = records(suite.scale());
    let ours = || Ours::copy(0, n);
    let optimistic = || Optimistic::open(prepared::copy(0, n), options().cache_bytes);

    let about = writing("replaces one record with a JSON body", n, 0)
        .floor("floor", 0.85, 0.92)
        .against("single_write/optimistic/1_key");
    suite.row("single_write", "strata", "1_key", about, ours, |ours| verbs::replace(ours, n));
    let about = writing("parses and encodes the same JSON body, gets the record and puts the bytes in one batch", n, 0);
    suite.row("single_write", "floor", "1_key", about, || Raw::copy(0, n), |raw| verbs::raw_replace(raw, n));
    let about =
        writing("parses and encodes the same JSON body, puts the record and commits: OptimisticTransactionDB", n, 0);
    suite.row("single_write", "optimistic", "1_key", about, optimistic, |raw| verbs::optimistic_write(raw, n));

    let about = writing("adds one to an attribute of one record", n, 0).floor("optimistic", 1.2, 1.5);
    suite.row("read_modify_write", "strata", "1_key", about, ours, |ours| verbs::read_modify_write(ours, n));
    let about =
        writing("gets one record for update, pinned, puts the same bytes and commits: OptimisticTransactionDB", n, 0);
    suite.row("read_modify_write", "optimistic", "1_key", about, optimistic, |raw| {
        verbs::optimistic_read_modify_write(raw, n)
    });

    let aborting = |op: &str| Facts::new(op).data(described(n)).state(SST).indexes(0);
    let about = aborting("replaces one record with a JSON body, then aborts; nothing is written");
    let about = about.against("abort/optimistic/1_key");
    suite.row("abort", "strata", "1_key", about, ours, |ours| verbs::abort(ours, n));
    let about =
        aborting("parses and encodes the same JSON body, puts the record, then rolls back: OptimisticTransactionDB");
    suite.row("abort", "optimistic", "1_key", about, optimistic, |raw| verbs::optimistic_abort(raw, n));

    let batch = |op| writing(op, n, 0).unit(Unit::Records, verbs::BATCH).changes_store(WRITES / verbs::BATCH, None);
    let about =
        batch("creates 100 records from a JSON array, all or none; the ids are made").floor("floor", 0.75, 0.90);
    suite.row("batch", "strata", "100_records", about, ours, verbs::create_all);
    let about = batch("writes 100 keys in one batch");
    suite.row("batch", "floor", "100_records", about, || Raw::copy(0, n), verbs::raw_create_all);
}

/// Writers that wait for the device. The engine queues them and syncs once for the queue, but each puts its own key into the memtable;
/// Strata's leave their batches to one of them, so the aim is above the floor.
fn strong(suite: &mut Suite) {
    let n = records(suite.scale());
    let threads = if suite.scale() == Scale::Full { 64 } else { 4 };
    let facts = |op| writing(op, n, 0).durability("strong").threads(threads).changes_store(2048, None);
    let about = facts("creates one record and waits until it is synced; one waiter writes and syncs for all")
        .floor("floor", 0.9, 1.2);
    let setup = || {
        let mut schema = prepared::schema(0);
        schema.tables[0].durability = strata::schema::Durability::Strong;
        Ours::open(prepared::copy(0, n), schema)
    };
    suite.row("create_strong", "strata", "64_writers", about, setup, verbs::create);
    let setup = || {
        let mut raw = Raw::copy(0, n);
        raw.write.set_sync(true);
        raw
    };
    let about = facts(
        "writes one key with a synced write; the engine groups writers, and each puts its own key into the memtable",
    );
    suite.row("create_strong", "floor", "64_writers", about, setup, |raw| verbs::raw_create(raw, 0));
}
