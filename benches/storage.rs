//! The engine's own calls: get, multi-get, scan and write, against RocksDB called directly with the same options.
//!
//! This layer adds a counter, the choice of a column family and the classification of errors to the binding. The scan and the multi-get
//! read as of a snapshot, as a query does; their floors do not, which is part of the ratio.

mod floor;
mod prepared;
mod verbs;

use std::hint::black_box;
use std::sync::Arc;

use floor::{Promise, Raw};
use prepared::{MEMTABLE, Ours, SST, described, options, record_keys, records, soft};
use strata::schema::Durability;
use strata::storage::{Batch, ReadTier, Space};
use strata_harness::data::scatter;
use strata_harness::{Depth, Facts, OrRefused, Suite, Unit, suite};
use verbs::{MADE_ID, Writes};

fn main() {
    suite("storage", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        gets(suite);
        puts(suite);
        multi_gets(suite);
        scans(suite);
    });
}

fn gets(suite: &mut Suite) {
    let n = records(suite.scale());
    for (state, in_memtable) in [(MEMTABLE, true), (SST, false)] {
        let case = if in_memtable { "memtable" } else { "sst" };
        let facts =
            || Facts::new("gets one value by key, pinned").data(described(n)).state(state).unit(Unit::Records, 1);
        let setup = || {
            if in_memtable { Ours::in_memtable(0, n) } else { Ours::copy(0, n) }
        };
        let about = facts().floor("floor", 0.95, 0.98).allocations_at_most(0);
        let about = if in_memtable { about } else { about.depth(Depth::Quick) };
        suite.row("get", "strata", case, about, setup, |ours: Arc<Ours>| {
            let keys = record_keys(1, n);
            move |index| {
                let key = &keys[scatter(index, n) as usize];
                let found = ours.database.store().get(Space::Records, key, ReadTier::Disk).expect("a healthy store");
                u64::from(found.is_some_and(|bytes| !black_box(&bytes[..]).is_empty()))
            }
        });
        let setup = || {
            if in_memtable { Raw::in_memtable(n) } else { Raw::copy(0, n) }
        };
        suite.row("get", "floor", case, facts(), setup, |raw| verbs::raw_get(raw, n));
    }
}

fn puts(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op: &str| {
        Facts::new(op)
            .data(described(n))
            .state("SST, cached; what is written, memtable")
            .durability(soft())
            .unit(Unit::Records, 1)
            .changes_store(4000, None)
    };
    let about = facts("writes one key and value of about 1 KB in a batch of its own").floor("floor", 0.95, 0.98);
    suite.row(
        "put",
        "strata",
        "1_key",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let mut writes = Writes::new(&prepared::schema(0).tables[0], MADE_ID);
            let mut batch = Batch::default();
            ours.promise(Promise::CREATE);
            move |index| {
                let store = ours.database.store();
                batch.clear();
                writes.put(index, |space, key, value| store.put(&mut batch, space, key, value));
                store.write(&mut batch, Durability::Soft).or_refused();
                1
            }
        },
    );
    let about = facts("writes one key and value of about 1 KB in a batch that is reused");
    suite.row("put", "floor", "1_key", about, || Raw::copy(0, n), |raw| verbs::raw_create(raw, 0));
}

fn hundred(op: &str, n: u64) -> Facts {
    Facts::new(op).data(described(n)).state(SST).unit(Unit::Records, 100)
}

fn multi_gets(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op| hundred(op, n);
    let about = facts("gets 100 values by sorted keys in one call, as of a snapshot, and copies them out")
        .floor("floor", 0.85, 0.93);
    suite.row(
        "multi_get",
        "strata",
        "100_keys",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let (keys, mut answer) = (record_keys(1, n), Vec::new());
            move |index| {
                let first = scatter(index, n - 100) as usize;
                let store = ours.database.store();
                let snapshot = store.snapshot(ReadTier::Disk).or_refused();
                let found = store.multi_get(Space::Records, &keys[first..first + 100], &snapshot, ReadTier::Disk);
                answer.clear();
                let mut values = 0;
                for value in found.expect("a healthy store").into_iter().flatten() {
                    answer.extend_from_slice(&value);
                    values += 1;
                }
                if black_box(&answer).is_empty() { 0 } else { values }
            }
        },
    );
    suite.row(
        "multi_get",
        "floor",
        "100_keys",
        facts("gets 100 values by sorted keys in one call and copies them out"),
        || Raw::copy(0, n),
        |raw: Arc<Raw>| {
            let (keys, mut answer) = (record_keys(1, n), Vec::new());
            move |index| {
                let first = scatter(index, n - 100) as usize;
                answer.clear();
                raw.multi_get(&keys[first..first + 100], &mut answer);
                if black_box(&answer).len() > 100_000 { 100 } else { 0 }
            }
        },
    );
}

fn scans(suite: &mut Suite) {
    let n = records(suite.scale());
    let facts = |op| hundred(op, n);
    let about = facts("scans 100 neighbouring values, as of a snapshot").floor("floor", 0.85, 0.93);
    suite.row(
        "scan",
        "strata",
        "100_keys",
        about,
        || Ours::copy(0, n),
        |ours: Arc<Ours>| {
            let keys = record_keys(1, n);
            move |index| {
                let first = scatter(index, n - 100) as usize;
                let store = ours.database.store();
                let snapshot = store.snapshot(ReadTier::Disk).or_refused();
                let mut scan = store.scan(Space::Records, &keys[first], &keys[first + 100], &snapshot, ReadTier::Disk);
                let mut found = 0;
                while let Some((_, value)) = scan.next().expect("a healthy store") {
                    found += u64::from(!black_box(value).is_empty());
                }
                found
            }
        },
    );
    let about = facts("iterates over 100 neighbouring values");
    suite.row(
        "scan",
        "floor",
        "100_keys",
        about,
        || Raw::copy(0, n),
        |raw: Arc<Raw>| {
            let keys = record_keys(1, n);
            move |index| {
                let first = scatter(index, n - 100) as usize;
                raw.iterate(&keys[first], &keys[first + 100])
            }
        },
    );
}
