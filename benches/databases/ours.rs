//! The rows of both databases.

use std::hint::black_box;
use std::sync::Arc;

use strata::schema::Durability;
use strata::storage::{Batch, Location, ReadTier, Space, Store};
use strata_harness::data::scatter;
use strata_harness::{Depth, Facts, OrRefused, State, Suite, Unit};

use crate::brokers::{Broker, Unavailable};
use crate::floor::{self, Floor, MANY};

/// Records that are there.
const RECORDS: u64 = 10_000;

const VALUE_BYTES: usize = 1000;

/// A database that a row starts.
#[derive(Clone, Copy)]
struct Kind {
    case: &'static str,
    start: fn() -> Result<Broker, Unavailable>,
    floor: fn(&Broker) -> Box<dyn Floor>,
}

const KINDS: [Kind; 2] = [
    Kind { case: "postgres", start: Broker::postgres, floor: |broker| Box::new(floor::Postgres::connect(broker)) },
    Kind { case: "tikv_double", start: Broker::tikv_double, floor: |broker| Box::new(floor::Tikv::connect(broker)) },
];

/// A store in a database of its own, with the records.
struct Ours {
    store: Store,
    broker: Broker,
}

impl State for Ours {}

impl Ours {
    fn start(kind: Kind) -> Self {
        let broker = (kind.start)().unwrap_or_else(|reason| panic!("{reason}"));
        let location = Location::try_from(broker.url()).expect("the URL of a database");
        let store = Store::connect(&location, None, false).expect("it is there");
        for first in (0..RECORDS).step_by(1000) {
            let mut batch = Batch::default();
            (first..first + 1000)
                .for_each(|number| store.put(&mut batch, Space::Records, &key(number), &value(number)));
            store.write(&mut batch, Durability::Soft).or_refused();
        }
        Self { store, broker }
    }
}

/// The same database, to be asked by its client alone.
struct Beside {
    kind: Kind,
    ours: Ours,
}

impl State for Beside {}

pub fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

pub fn value(number: u64) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(VALUE_BYTES, 7);
    value
}

/// The keys of a request for many.
fn keys(index: u64) -> Vec<Vec<u8>> {
    let first = scatter(index, RECORDS - MANY as u64);
    (first..=first + MANY as u64).map(key).collect()
}

pub fn measure(suite: &mut Suite) {
    for kind in KINDS {
        if let Err(Unavailable::Missing(reason)) = (kind.start)() {
            eprintln!("databases over {} are left out: {reason}", kind.case);
            continue;
        }
        row(suite, kind, "get", "gets one value", 1, get, |floor, index| floor.get(&key(scatter(index, RECORDS))));
        row(suite, kind, "put", "writes one value for which nothing is read", 1, put, |floor, index| {
            floor.put(&key(scatter(index, RECORDS)), &value(index))
        });
        row(suite, kind, "update", "reads one value and writes it, which depends on it", 1, update, |floor, index| {
            floor.update(&key(scatter(index, RECORDS)), &value(index))
        });
        row(
            suite,
            kind,
            "multi_get",
            "gets 100 values by key, as of a snapshot",
            MANY as u64,
            multi_get,
            |floor, index| floor.multi_get(&keys(index)[..MANY]),
        );
        row(
            suite,
            kind,
            "scan",
            "scans 100 neighbouring values, as of a snapshot",
            MANY as u64,
            scan,
            |floor, index| {
                let keys = keys(index);
                floor.scan(&keys[0], &keys[MANY])
            },
        );
    }
}

fn row(
    suite: &mut Suite,
    kind: Kind,
    operation: &str,
    what: &str,
    records: u64,
    ours: fn(&Store, u64) -> u64,
    floor: fn(&mut dyn Floor, u64) -> u64,
) {
    let facts = |side: &str| {
        Facts::new(format!("{what}, {side}"))
            .data(format!("{RECORDS} values of 1 KB"))
            .state("in the cache of the database")
            .unit(Unit::Records, records)
            .depth(Depth::Full)
    };
    let about = facts("through the store").floor("floor", 0.90, 0.97);
    suite.row(
        operation,
        "strata",
        kind.case,
        about,
        || Ours::start(kind),
        |state: Arc<Ours>| move |index| ours(&state.store, index),
    );
    let setup = || Beside { kind, ours: Ours::start(kind) };
    suite.row(operation, "floor", kind.case, facts("by the client of the database"), setup, |state: Arc<Beside>| {
        let mut client = (state.kind.floor)(&state.ours.broker);
        move |index| floor(&mut *client, index)
    });
}

fn get(store: &Store, index: u64) -> u64 {
    let found = store.get(Space::Records, &key(scatter(index, RECORDS)), ReadTier::Disk).or_refused();
    u64::from(found.is_some_and(|bytes| black_box(&bytes[..]).len() == VALUE_BYTES))
}

fn put(store: &Store, index: u64) -> u64 {
    let mut batch = Batch::default();
    store.put(&mut batch, Space::Records, &key(scatter(index, RECORDS)), &value(index));
    store.write(&mut batch, Durability::Soft).or_refused();
    1
}

fn update(store: &Store, index: u64) -> u64 {
    let (mut batch, key) = (Batch::default(), key(scatter(index, RECORDS)));
    let found = store.get_for(&mut batch, Space::Records, &key, ReadTier::Disk).or_refused();
    assert!(found.is_some_and(|bytes| bytes.len() == VALUE_BYTES), "it is there");
    store.put(&mut batch, Space::Records, &key, &value(index));
    store.write(&mut batch, Durability::Soft).or_refused();
    1
}

fn multi_get(store: &Store, index: u64) -> u64 {
    let snapshot = store.snapshot(ReadTier::Disk).or_refused();
    let found = store.multi_get(Space::Records, &keys(index)[..MANY], &snapshot, ReadTier::Disk).or_refused();
    found.into_iter().flatten().filter(|bytes| black_box(&bytes[..]).len() == VALUE_BYTES).count() as u64
}

fn scan(store: &Store, index: u64) -> u64 {
    let keys = keys(index);
    let snapshot = store.snapshot(ReadTier::Disk).or_refused();
    let mut scan = store.scan(Space::Records, &keys[0], &keys[MANY], &snapshot, ReadTier::Disk);
    scan.expect_entries(MANY);
    let mut is_whole = || scan.next().or_refused().is_some_and(|(_, value)| black_box(value).len() == VALUE_BYTES);
    (0..MANY).filter(|_| is_whole()).count() as u64
}
