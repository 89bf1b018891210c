//! Indexes that are built while the database is used: never a wrong answer, whatever comes between.

use std::sync::atomic::{AtomicBool, Ordering};

use strata::error::Error;
use strata::schema::IndexState;
use strata::storage::{ReadTier, Space};
use strata::transaction::{Database, Precondition};

use super::{Random, assert_consistent, found, fresh, ids, json, open, open_idle, outcome, value};

const BARE: &str = "type T @table { id: ID @primaryKey name: String mail: String tags: [String] size: Int }";
const INDEXED: &str = "type T @table @compositeIndex(fields: [\"name\", \"size\"]) {
    id: ID @primaryKey name: String @indexed @indexed(type: \"fulltext\") mail: String @unique tags: [String] @indexed
    size: Int @indexed(type: \"hash\") }";

const RECORDS: usize = 2000;

fn body(number: usize) -> String {
    let (name, size) = (number % 17, number % 5);
    format!(r#"{{"id":"{number:05}","name":"name {name}","mail":"{number}","tags":["t{name}","all"],"size":{size}}}"#)
}

/// A directory with records and without an index.
fn filled() -> tempfile::TempDir {
    let (directory, database) = fresh(BARE);
    let bodies: Vec<_> = (0..RECORDS).map(body).collect();
    let table = database.table("T").expect("it exists");
    database.create_all(table, format!("[{}]", bodies.join(",")).as_bytes()).expect("valid");
    directory
}

fn states(database: &Database) -> Vec<&'static str> {
    database.table("T").expect("it exists").indexes.iter().map(|index| index.state().name()).collect()
}

fn entries(database: &Database) -> u64 {
    let indexes = &database.table("T").expect("it exists").indexes;
    let count = |id: u32| database.store().count_prefix(Space::Indexes, &id.to_be_bytes()).expect("readable").0;
    indexes.iter().map(|index| count(index.id)).sum()
}

#[test]
fn a_database_answers_before_its_indexes_are_built() {
    let directory = filled();
    let database = open_idle(directory.path(), INDEXED).expect("indexes may be added");
    assert_eq!(states(&database), ["building"; 6]);
    let wanted: Vec<String> =
        (0..RECORDS).filter(|number| number % 17 == 3).map(|number| format!("{number:05}")).collect();
    let mut pieces = 0;
    while {
        assert_eq!(found(&database, "T", "name", &value("name 3")), wanted);
        assert_eq!(found(&database, "T", "mail", &value("77")), ["00077"]);
        database.work().expect("it can be built")
    } {
        pieces += 1;
    }
    assert!(pieces > 6 * 2000 / 256, "in pieces: {pieces}");
    assert_eq!(states(&database), ["ready"; 6]);
    assert_eq!(found(&database, "T", "name", &value("name 3")), wanted);
    assert_consistent(&database);
}

/// Writers of all kinds, some of them on records that the build is about to come to.
#[test]
fn a_build_and_writers_do_not_disturb_each_other() {
    let directory = filled();
    let database = open_idle(directory.path(), INDEXED).expect("indexes may be added");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (database, done) = (&database, &done);
            scope.spawn(move || {
                let (table, mut random, mut written) = (database.table("T").expect("it exists"), Random(thread + 1), 0);
                while !done.load(Ordering::Relaxed) || written < 500 {
                    let id = format!("{:05}", random.below(RECORDS * 2));
                    let outcome = match random.below(5) {
                        0 => database.delete(table, &id, &Precondition::None),
                        1 => database
                            .replace(table, &id, br#"{"name":"new","tags":["a","b"],"size":9}"#, &Precondition::None)
                            .map(drop),
                        2 => database.create(table, br#"{"name":"made","tags":[]}"#).map(drop),
                        3 => database.merge(table, &id, br#"{"mail":null,"size":null}"#, &Precondition::None).map(drop),
                        _ => database
                            .merge(table, &id, br#"{"tags":["all","c"],"name":"name 3 merged"}"#, &Precondition::None)
                            .map(drop),
                    };
                    assert!(matches!(outcome, Ok(()) | Err(Error::NotFound { .. })), "{outcome:?}");
                    written += 1;
                }
            });
        }
        database.catch_up().expect("it can be built");
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(states(&database), ["ready"; 6]);
    assert_consistent(&database);
    drop(database);
    assert_consistent(&open_idle(directory.path(), INDEXED).expect("it was closed"));
}

#[test]
fn a_build_goes_on_where_it_was_when_the_store_is_opened_again() {
    let directory = filled();
    for pieces in [1, 7, 30, 70, 1000] {
        let database = open_idle(directory.path(), INDEXED).expect("it was closed");
        for _ in 0..pieces {
            database.work().expect("it can be built");
        }
    }
    let database = open_idle(directory.path(), INDEXED).expect("it was closed");
    assert_eq!(states(&database), ["ready"; 6]);
    assert!(!database.work().expect("nothing waits"));
    assert_consistent(&database);
}

/// A change of mind: the index is no more before it is finished.
#[test]
fn an_index_that_is_dropped_while_it_is_built_leaves_nothing() {
    let directory = filled();
    let database = open_idle(directory.path(), INDEXED).expect("indexes may be added");
    for _ in 0..5 {
        database.work().expect("it can be built");
    }
    assert!(entries(&database) > 0);
    let numbers: Vec<u32> = database.table("T").expect("it exists").indexes.iter().map(|index| index.id).collect();
    drop(database);
    let database = open_idle(directory.path(), BARE).expect("indexes may be dropped");
    for _ in &numbers {
        assert!(database.work().expect("it can be emptied"));
    }
    assert!(!database.work().expect("it is done"));
    for number in numbers {
        let left = database.store().count_prefix(Space::Indexes, &number.to_be_bytes()).expect("readable").0;
        assert_eq!(left, 0, "{number}");
    }
}

const UNIQUE: &str = "type T @table { id: ID @primaryKey name: String mail: String tags: [String] size: Int @unique }";

#[test]
fn a_unique_index_that_is_violated_fails_and_binds_nobody() {
    let directory = filled();
    let database = open_idle(directory.path(), UNIQUE).expect("the schema is right");
    let table = database.table("T").expect("it exists");
    let claim = || database.create(table, br#"{"id":"x","size":3}"#);
    assert_eq!(outcome(&claim()), "busy", "nobody can say whether it is free");
    assert_eq!(outcome(&database.create(table, br#"{"id":"y","name":"none"}"#)), "ok", "null claims nothing");
    assert_eq!(
        outcome(&database.merge(table, "00001", br#"{"name":"n","size":1}"#, &Precondition::None)),
        "ok",
        "it has it"
    );
    assert!(database.work().expect("it is tried"));
    assert_eq!((states(&database), entries(&database)), (vec!["failed"], 0));
    claim().expect("it binds nobody");
    assert_eq!(found(&database, "T", "size", &3.into()).len(), RECORDS / 5 + 1, "it answers nothing");
    assert!(!database.work().expect("it is not tried again"));
    assert_consistent(&database);
    for number in 5..RECORDS {
        database.delete(table, &format!("{number:05}"), &Precondition::None).expect("it is there");
    }
    database.delete(table, "x", &Precondition::None).expect("it is there");
    drop(database);
    let database = open(directory.path(), UNIQUE).expect("it is tried again");
    assert_eq!(states(&database), ["ready"]);
    assert_eq!(found(&database, "T", "size", &3.into()), ["00003"]);
    assert_eq!(outcome(&database.create(database.table("T").expect("it exists"), br#"{"size":3}"#)), "conflict");
    assert_consistent(&database);
}

/// The records that share a value are mended while the index is built, and it must not lose the entry of the one that stays.
#[test]
fn a_value_that_is_given_up_while_a_unique_index_is_built_stays_with_the_other() {
    let (directory, database) = fresh(BARE);
    let table = database.table("T").expect("it exists");
    for number in 0..RECORDS {
        let size = if number == RECORDS - 1 { 0 } else { number };
        let body = format!(r#"{{"id":"{number:05}","size":{size}}}"#);
        database.create(table, body.as_bytes()).expect("valid");
    }
    drop(database);
    for mended in ["delete", "merge"] {
        let database = open_idle(directory.path(), UNIQUE).expect("the schema is right");
        let (table, last) = (database.table("T").expect("it exists"), format!("{:05}", RECORDS - 1));
        database.work().expect("the first records are built");
        match mended {
            "delete" => database.delete(table, &last, &Precondition::None).expect("it is there"),
            _ => drop(database.merge(table, &last, br#"{"size":null}"#, &Precondition::None).expect("it is there")),
        }
        database.catch_up().expect("it can be built");
        assert_eq!(states(&database), ["ready"], "{mended}");
        assert_eq!(found(&database, "T", "size", &0.into()), ["00000"]);
        assert_consistent(&database);
        drop(database);
        let bare = open(directory.path(), BARE).expect("it may be dropped");
        let table = bare.table("T").expect("it exists");
        bare.replace(table, &last, br#"{"size":0}"#, &Precondition::None).expect("as it was");
    }
}

#[test]
fn a_truncation_meets_a_build() {
    let directory = filled();
    let database = open_idle(directory.path(), INDEXED).expect("indexes may be added");
    database.work().expect("it can be built");
    database.truncate(database.table("T").expect("it exists")).expect("nobody holds anything");
    database.catch_up().expect("it can be built");
    assert_eq!((ids(&database, "T").len(), entries(&database)), (0, 0));
    assert_consistent(&database);
}

/// A snapshot that is older than the end of a build may lack entries.
#[test]
fn an_index_is_ready_for_later_snapshots() {
    let directory = filled();
    let database = open_idle(directory.path(), INDEXED).expect("indexes may be added");
    let before = database.store().snapshot(ReadTier::Disk).expect("it is embedded").sequence();
    database.catch_up().expect("it can be built");
    let after = database.store().snapshot(ReadTier::Disk).expect("it is embedded").sequence();
    for index in &database.table("T").expect("it exists").indexes {
        assert!(!index.is_ready_at(before) && index.is_ready_at(after));
        assert!(matches!(index.state(), IndexState::Ready { since } if since > 0));
    }
}

/// A piece holds its records against their writers, so it ends soon.
#[test]
fn long_records_are_built_from_in_shorter_pieces() {
    let (directory, database) = fresh(BARE);
    let (table, filler) = (database.table("T").expect("it exists"), "f".repeat(1 << 20));
    for number in 0..12 {
        let body = format!(r#"{{"id":"{number:02}","name":"n","mail":"{filler}"}}"#);
        database.create(table, body.as_bytes()).expect("valid");
    }
    drop(database);
    let sdl = BARE.replace("name: String", "name: String @indexed");
    let database = open_idle(directory.path(), &sdl).expect("indexes may be added");
    assert!(database.work().expect("it can be built"));
    assert_eq!(entries(&database), 4);
    database.catch_up().expect("it can be built");
    assert_eq!(entries(&database), 12);
}

#[test]
fn a_corrupt_record_fails_the_index_and_not_the_database() {
    let directory = filled();
    let database = open_idle(directory.path(), BARE).expect("it was closed");
    let mut key = Vec::new();
    strata::encoding::key::record(database.table("T").expect("it exists").id, "00500", &mut key);
    let mut bytes =
        database.store().get(Space::Records, &key, ReadTier::Disk).expect("readable").expect("there").to_vec();
    bytes[20] ^= 1;
    let mut batch = strata::storage::Batch::default();
    database.store().put(&mut batch, Space::Records, &key, &bytes);
    database.store().write(&mut batch, strata::schema::Durability::Soft).expect("there is room");
    drop(database);
    let sdl = BARE.replace("name: String", "name: String @indexed");
    let database = open(directory.path(), &sdl).expect("the schema is right");
    assert_eq!(states(&database), ["failed"]);
    assert_eq!(json(&database, "T", "00001")["name"], "name 1");
}
