//! Records that expire, by a clock that the tests set: nobody waits for it.

use strata::blobs::Reader;
use strata::encoding::Value;
use strata::error::Error;
use strata::query::Query;
use strata::schema::{Durability, IndexState, Schema};
use strata::storage::{self, Batch, ReadTier, Space, Store};
use strata::transaction::{Clock, Database, Precondition, Registrations, Renewal};

use super::{assert_consistent, found, fresh, ids, json, open, open_idle, outcome, text, value};

const SECOND: i64 = 1_000_000;

/// 2026-11-22T00:00:00Z.
const START: i64 = 1_795_305_600 * SECOND;

const SDL: &str = r#"
type Lease @table(expiration: 60) {
  id: ID @primaryKey
  name: String @indexed
  mail: String @unique
  tags: [String] @indexed
  until: Date @expiresAt
  updated: Int @updatedTime
}
type Session @table {
  id: ID @primaryKey
  user: String @indexed
  until: Int @expiresAt
}
"#;

/// An empty store at the start of the tests' time.
fn started(sdl: &str) -> (tempfile::TempDir, Database, Clock) {
    let (directory, database) = fresh(sdl);
    let clock = Clock::standing_at(START);
    let database = database.with_clock(&clock);
    (directory, database, clock)
}

/// How many records and entries are stored, served or not.
fn stored(database: &Database) -> u64 {
    let count = |space, number: u32| database.store().count_prefix(space, &number.to_be_bytes()).expect("readable").0;
    let table = |table: &strata::schema::Table| {
        let entries = table.indexes.iter().map(|index| count(Space::Indexes, index.id));
        count(Space::Records, table.id) + entries.sum::<u64>()
    };
    database.schema().tables.iter().map(table).sum()
}

fn create(database: &Database, table: &str, body: &str) -> &'static str {
    outcome(&database.create(database.table(table).expect("it exists"), body.as_bytes()))
}

#[test]
fn an_expired_record_is_served_to_nobody() {
    let (_directory, database, clock) = started(SDL);
    let lease = database.table("Lease").expect("it exists");
    assert_eq!(create(&database, "Lease", r#"{"id":"1","name":"a","mail":"m","tags":["x","y"]}"#), "ok");
    clock.set(START + 30 * SECOND);
    assert_eq!(create(&database, "Lease", r#"{"id":"2","name":"a","tags":["x"]}"#), "ok");
    let seen = |database: &Database| {
        let listed = ids(database, "Lease");
        assert_eq!(found(database, "Lease", "name", &value("a")), listed);
        assert_eq!(found(database, "Lease", "tags", &value("x")), listed);
        assert_eq!(
            found(database, "Lease", "id", &value("1")),
            listed.iter().filter(|id| *id == "1").cloned().collect::<Vec<_>>()
        );
        assert_eq!(text(database, "Lease", "1").is_some(), listed.contains(&"1".to_owned()));
        listed
    };
    clock.set(START + 60 * SECOND - 1);
    assert_eq!(seen(&database), ["1", "2"]);
    clock.set(START + 60 * SECOND);
    assert_eq!(seen(&database), ["2"]);
    assert_eq!(seen(&database.never_blocking().with_clock(&clock)), ["2"]);
    assert!(found(&database, "Lease", "mail", &value("m")).is_empty());
    let first = Query { limit: Some(1), ..Query::default() };
    assert_eq!(super::listed(&database, "Lease", &first), ["2"]);
    let second = Query { offset: 1, ..Query::default() };
    assert!(super::listed(&database, "Lease", &second).is_empty(), "an expired record is not passed over");
    let none = Precondition::None;
    assert_eq!(outcome(&database.merge(lease, "1", b"{}", &none)), "not found");
    assert_eq!(outcome(&database.delete(lease, "1", &none)), "not found");
    assert_eq!(outcome(&database.replace(lease, "1", b"{}", &Precondition::Exists)), "not found");
    assert_eq!(outcome(&database.update(lease, "1", |_| panic!("there is none"))), "not found");
    let read = database.transact(|transaction| Ok(transaction.read(lease, "1")?.is_some()));
    assert!(!read.expect("readable"));
    assert_eq!(database.delete_where(lease, &["1".to_owned()], |_| Ok(true)).expect("valid"), 0);
    assert_consistent(&database);
}

#[test]
fn every_write_prolongs_a_record_and_reading_does_not() {
    let (_directory, database, clock) = started(SDL);
    let lease = database.table("Lease").expect("it exists");
    let none = Precondition::None;
    assert_eq!(create(&database, "Lease", r#"{"id":"1","name":"a"}"#), "ok");
    for step in 1..4 {
        clock.set(START + step * 50 * SECOND);
        match step {
            1 => drop(database.merge(lease, "1", br#"{"name":"b"}"#, &none).expect("it lives")),
            2 => assert!(!database.replace(lease, "1", br#"{"name":"c"}"#, &none).expect("it lives").1),
            _ => drop(database.merge(lease, "1", b"{}", &none).expect("it lives")),
        }
        assert_consistent(&database);
    }
    clock.set(START + 209 * SECOND);
    assert_eq!(json(&database, "Lease", "1")["updated"], (START + 150 * SECOND) / 1000);
    clock.set(START + 210 * SECOND);
    assert_eq!(text(&database, "Lease", "1"), None);
    assert!(database.replace(lease, "1", b"{}", &none).expect("nobody has it").1, "it is created");
    assert_consistent(&database);
}

#[test]
fn a_record_may_say_when_it_expires() {
    let (_directory, database, clock) = started(SDL);
    let (lease, none) = (database.table("Lease").expect("it exists"), Precondition::None);
    assert_eq!(create(&database, "Lease", r#"{"id":"soon","until":"2026-11-22T00:00:01.5Z"}"#), "ok");
    assert_eq!(create(&database, "Lease", r#"{"id":"late","until":"2027-01-01"}"#), "ok");
    assert_eq!(create(&database, "Lease", r#"{"id":"past","until":"2020-01-01"}"#), "ok", "and is served to nobody");
    let millisecond = START / 1000;
    assert_eq!(create(&database, "Session", &format!(r#"{{"id":"s","user":"u","until":{}}}"#, millisecond + 1)), "ok");
    assert_eq!(create(&database, "Session", r#"{"id":"ever","user":"u"}"#), "ok");
    assert_eq!(ids(&database, "Lease"), ["late", "soon"]);
    assert_eq!(ids(&database, "Session"), ["ever", "s"]);
    clock.set(START + 1000);
    assert_eq!((ids(&database, "Lease").len(), ids(&database, "Session")), (2, vec!["ever".to_owned()]));
    clock.set(START + 1_500_000);
    assert_eq!(ids(&database, "Lease"), ["late"]);
    clock.set(START + 61 * SECOND);
    assert_eq!(ids(&database, "Lease"), ["late"], "what it says is more than the expiration");
    database.merge(lease, "late", br#"{"until":null}"#, &none).expect("it lives");
    clock.set(START + 120 * SECOND);
    assert_eq!(ids(&database, "Lease"), ["late"]);
    clock.set(START + 121 * SECOND);
    assert!(ids(&database, "Lease").is_empty());
    assert_eq!(found(&database, "Session", "user", &value("u")), ["ever"]);
    assert_consistent(&database);
}

/// Who takes the id or the unique value of an expired record takes all of it away, in the same batch.
#[test]
fn an_id_and_a_unique_value_are_free_once_their_record_has_expired() {
    let (_directory, database, clock) = started(SDL);
    let lease = database.table("Lease").expect("it exists");
    let old = r#"{"id":"1","name":"old","mail":"m","tags":["x"]}"#;
    let free = |body: &str| {
        clock.set(START);
        assert_eq!(create(&database, "Lease", old), "ok");
        clock.set(START + 59 * SECOND);
        assert_eq!(create(&database, "Lease", body), "conflict", "{body}");
        clock.set(START + 60 * SECOND);
        assert_eq!(create(&database, "Lease", body), "ok", "{body}");
        assert_consistent(&database);
        assert!(found(&database, "Lease", "name", &value("old")).is_empty());
    };
    free(r#"{"id":"1","name":"new","mail":"other"}"#);
    database.truncate(lease).expect("nobody holds anything");
    free(r#"{"id":"2","name":"new","mail":"m"}"#);
    assert_eq!(
        (ids(&database, "Lease"), found(&database, "Lease", "mail", &value("m"))),
        (vec!["2".into()], vec!["2".into()])
    );
    database.truncate(lease).expect("nobody holds anything");
    free(r#"{"name":"made","mail":"m"}"#);
    database.truncate(lease).expect("nobody holds anything");
    free(r#"{"id":"1","name":"new","mail":"m"}"#);
    database.truncate(lease).expect("nobody holds anything");
    // Among several, and of two records at once: the id of one, the value of the other.
    clock.set(START);
    assert_eq!(create(&database, "Lease", old), "ok");
    assert_eq!(create(&database, "Lease", r#"{"id":"2","name":"old","mail":"n","tags":["x","y"]}"#), "ok");
    clock.set(START + 60 * SECOND);
    let created = database.create_all(lease, br#"[{"id":"1","mail":"n","name":"new"},{"id":"3","mail":"m"}]"#);
    assert_eq!(created.expect("both have expired").len(), 2);
    assert_consistent(&database);
    assert_eq!(ids(&database, "Lease"), ["1", "3"]);
    let together = database.transact(|transaction| {
        assert!(transaction.read(lease, "2")?.is_none());
        transaction.merge("1", super::change(lease, "mail", Value::Null), &Precondition::None)?;
        transaction.merge("3", super::change(lease, "mail", "n".into()), &Precondition::None).map(drop)
    });
    together.expect("it was given up just before");
    assert_consistent(&database);
}

#[test]
fn expired_records_are_deleted_in_pieces_by_when_they_expire() {
    let (_directory, database, clock) = started(SDL);
    let lease = database.table("Lease").expect("it exists");
    for step in 0..4 {
        clock.set(START + step * 10 * SECOND);
        let bodies: Vec<_> =
            (0..200).map(|number| format!(r#"{{"mail":"{step}-{number}","tags":["a","b"]}}"#)).collect();
        database.create_all(lease, format!("[{}]", bodies.join(",")).as_bytes()).expect("valid");
    }
    let (all, scans) = (stored(&database), |database: &Database| database.store().counters().scans);
    assert!(!database.work().expect("nothing is due"));
    assert_eq!(stored(&database), all);
    clock.set(START + 70 * SECOND);
    let before = scans(&database);
    assert!(database.work().expect("400 are due"));
    assert_eq!(stored(&database), all / 800 * (800 - 256));
    assert_consistent(&database);
    while database.work().expect("they are due") {}
    assert_eq!(stored(&database), all / 800 * 400);
    assert!(scans(&database) - before < 100, "it looks at what has expired, and at nothing else");
    assert_eq!(ids(&database, "Lease").len(), 400);
    assert_consistent(&database);
    clock.set(START + 1000 * SECOND);
    database.catch_up().expect("all are due");
    assert_eq!(stored(&database), 0);
}

#[test]
fn what_ends_after_a_search_is_found_by_the_next_also_when_the_clock_is_set_back() {
    let (_directory, database, clock) =
        started("type Device @table(expiration: 60) { id: ID @primaryKey ttl: Int @ttl }");
    let ends = |ttl: i64, round: usize| {
        assert_eq!(create(&database, "Device", &format!(r#"{{"id":"{round}","ttl":{ttl}}}"#)), "ok");
        let begun = clock.now();
        clock.set(begun + ttl * SECOND - 1);
        database.catch_up().expect("nothing is due");
        assert_eq!(stored(&database), 2, "round {round}: it has not ended");
        clock.set(begun + ttl * SECOND);
        database.catch_up().expect("one is due");
        assert_eq!(stored(&database), 0, "round {round}");
    };
    [60, 1, 1, 600, 30].into_iter().enumerate().for_each(|(round, ttl)| ends(ttl, round));
    clock.set(START - 3600 * SECOND);
    database.catch_up().expect("nothing is due");
    [5, 60, 1].into_iter().enumerate().for_each(|(round, ttl)| ends(ttl, round));
}

/// Changes a byte of a stored record, as a bad disk would.
fn damage(database: &Database, table: &str, id: &str) {
    let (store, mut key) = (database.store(), Vec::new());
    strata::encoding::key::record(database.table(table).expect("it exists").id, id, &mut key);
    let mut bytes = store.get(Space::Records, &key, ReadTier::Disk).expect("readable").expect("it is there").to_vec();
    bytes[20] ^= 1;
    let mut batch = Batch::default();
    store.put(&mut batch, Space::Records, &key, &bytes);
    store.write(&mut batch, Durability::Soft).expect("there is room");
}

#[test]
fn a_damaged_record_keeps_no_other_from_being_deleted() {
    let sdl = "type A @table(expiration: 60) { id: ID @primaryKey }
        type B @table(expiration: 60) { id: ID @primaryKey name: String }";
    let (directory, database, clock) = started(sdl);
    for number in 0..600 {
        assert_eq!(create(&database, "A", &format!(r#"{{"id":"{number:03}"}}"#)), "ok");
    }
    assert_eq!(create(&database, "B", r#"{"id":"1","name":"n"}"#), "ok");
    // More of them than a piece has, of one moment: the search has to go on behind them.
    (0..300).for_each(|number| damage(&database, "A", &format!("{number:03}")));
    clock.set(START + 60 * SECOND);
    database.catch_up().expect("they keep nothing else");
    let records = |database: &Database, table: &str| {
        let table = database.table(table).expect("it exists");
        database.store().count_prefix(Space::Records, &table.id.to_be_bytes()).expect("readable").0
    };
    assert_eq!((records(&database, "A"), records(&database, "B")), (300, 0));
    assert_eq!(create(&database, "B", r#"{"id":"2","name":"n"}"#), "ok");
    drop(database);
    let indexed = sdl.replace("name: String", "name: String @indexed");
    let database = open_idle(directory.path(), &indexed).expect("an index may be added").with_clock(&clock);
    database.catch_up().expect("nor does it keep an index of another table from being built");
    assert_eq!(found(&database, "B", "name", &value("n")), ["2"]);
    assert_eq!(database.table("B").expect("it exists").indexes[0].state().name(), "ready");
}

#[test]
fn damaged_records_keep_a_table_from_nothing_that_begins_to_expire() {
    let bare = "type T @table { id: ID @primaryKey }";
    let (directory, database) = fresh(bare);
    for number in 0..10 {
        assert_eq!(create(&database, "T", &format!(r#"{{"id":"{number}"}}"#)), "ok");
    }
    damage(&database, "T", "3");
    let now = database.now();
    drop(database);
    let sdl = bare.replace("@table", "@table(expiration: 3600)");
    let database = open(directory.path(), &sdl).expect("the schema is right");
    let database = database.with_clock(&Clock::standing_at(now + 7200 * SECOND));
    database.catch_up().expect("it keeps nothing else");
    assert_eq!(database.store().count_prefix(Space::Records, &1u32.to_be_bytes()).expect("readable").0, 1);
}

/// The deletes of one piece fit in memory, however many entries its records have.
#[test]
fn records_with_many_entries_are_deleted_in_shorter_pieces() {
    let (_directory, database, clock) =
        started("type T @table(expiration: 60) { id: ID @primaryKey tags: [String] @indexed }");
    let (long, tags) = ("i".repeat(1000), (0..2000).map(|tag| format!("\"{tag}\"")).collect::<Vec<_>>().join(","));
    for number in 0..12 {
        assert_eq!(create(&database, "T", &format!(r#"{{"id":"{long}{number}","tags":[{tags}]}}"#)), "ok");
    }
    clock.set(START + 60 * SECOND);
    let all = stored(&database);
    assert!(database.work().expect("they are due"));
    let left = stored(&database);
    assert!(all / 2 < left && left < all, "{left} of {all}: 2 MB of deletes a record");
    database.catch_up().expect("they are due");
    assert_eq!(stored(&database), 0);
}

#[test]
fn records_that_are_prolonged_meanwhile_stay() {
    let (_directory, database, clock) = started(SDL);
    let (lease, none) = (database.table("Lease").expect("it exists"), Precondition::None);
    for id in 0..300 {
        assert_eq!(create(&database, "Lease", &format!(r#"{{"id":"{id}","name":"n"}}"#)), "ok");
    }
    clock.set(START + 59 * SECOND);
    let late = database.with_clock(&Clock::standing_at(START + 60 * SECOND));
    let prolong = |id: i32| match database.merge(lease, &id.to_string(), b"{}", &none) {
        Ok(_) => true,
        // By the other clock it was due.
        Err(Error::NotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let mut prolonged: Vec<String> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..300).rev().filter(|id| prolong(*id)).map(|id| id.to_string()).collect());
        late.catch_up().expect("they can be deleted");
        writer.join().expect("it has prolonged them")
    });
    late.catch_up().expect("they can be deleted");
    prolonged.sort();
    assert_eq!(ids(&late, "Lease"), prolonged);
    assert_consistent(&database);
}

#[test]
fn a_schema_may_begin_and_cease_to_let_records_expire() {
    let sdl = |directives: &str, until: &str| {
        format!("type T @table{directives} {{ id: ID @primaryKey name: String @indexed until: Date {until} }}")
    };
    let (directory, database) = fresh(&sdl("", ""));
    let now = database.now();
    let table = database.table("T").expect("it exists");
    for (id, until) in [("1", "null"), ("2", r#""2020-01-01""#), ("3", r#""2200-01-01""#)] {
        database.create(table, format!(r#"{{"id":"{id}","name":"n","until":{until}}}"#).as_bytes()).expect("valid");
    }
    drop(database);
    // An attribute that says it: known at once, and the index is built.
    let database = open_idle(directory.path(), &sdl("", "@expiresAt")).expect("nothing is lost");
    assert_eq!(ids(&database, "T"), ["1", "3"]);
    database.catch_up().expect("it can be built");
    assert_eq!(ids(&database, "T"), ["1", "3"]);
    assert_eq!(
        database.store().count_prefix(Space::Records, &1u32.to_be_bytes()).expect("readable").0,
        2,
        "one is deleted"
    );
    assert_consistent(&database);
    drop(database);
    // An expiration: it counts from now where nobody knows when a record was written.
    let clock = Clock::standing_at(now + 3000 * SECOND);
    let database =
        open(directory.path(), &sdl("(expiration: 3600)", "@expiresAt")).expect("nothing is lost").with_clock(&clock);
    assert_eq!(ids(&database, "T"), ["1", "3"]);
    assert_eq!(create(&database, "T", r#"{"id":"4","name":"n"}"#), "ok");
    clock.set(now + 4000 * SECOND);
    assert_eq!(found(&database, "T", "name", &value("n")), ["3", "4"]);
    assert_consistent(&database);
    clock.set(now + 6601 * SECOND);
    assert_eq!(ids(&database, "T"), ["3"]);
    drop(database);
    // Without it they live, as long as nobody has deleted them.
    let database = open(directory.path(), &sdl("", "")).expect("nothing is lost");
    assert_eq!(ids(&database, "T"), ["1", "3", "4"]);
    assert!(
        database
            .table("T")
            .expect("it exists")
            .indexes
            .iter()
            .all(|index| matches!(index.state(), IndexState::Ready { .. }))
    );
    let table = database.table("T").expect("it exists");
    database.create(table, br#"{"id":"5","name":"n"}"#).expect("valid");
    assert_consistent(&database);
    drop(database);
    // And again: the first ones count from the second time, the record with a deadline has kept it.
    let database = open(directory.path(), &sdl("(expiration: 3600)", "")).expect("nothing is lost");
    assert_eq!(ids(&database.with_clock(&Clock::standing_at(now + 3500 * SECOND)), "T"), ["1", "3", "4", "5"]);
    assert_consistent(&database);
    assert_eq!(ids(&database.with_clock(&Clock::standing_at(now + 3800 * SECOND)), "T"), ["4"]);
}

#[test]
fn a_unique_index_is_built_over_records_of_which_one_has_expired() {
    let bare = "type T @table { id: ID @primaryKey name: String until: Int @expiresAt }";
    for (first, second) in [(1, i64::MAX / 2000), (i64::MAX / 2000, 1)] {
        let (directory, database) = fresh(bare);
        let table = database.table("T").expect("it exists");
        // What has expired is stored, but not reclaimed yet.
        for (id, until) in [("1", first), ("2", second)] {
            let body = format!(r#"{{"id":"{id}","name":"same","until":{until}}}"#);
            database.with_clock(&Clock::standing_at(0)).create(table, body.as_bytes()).expect("valid");
        }
        drop(database);
        let unique = bare.replace("name: String", "name: String @unique");
        let database = open(directory.path(), &unique).expect("the schema is right");
        assert!(database.table("T").expect("it exists").indexes.iter().all(|index| index.state().name() == "ready"));
        let left = if first == 1 { "2" } else { "1" };
        assert_eq!(found(&database, "T", "name", &value("same")), [left]);
        assert_consistent(&database);
    }
}

#[test]
fn a_blob_expires_with_its_record() {
    let (_directory, database, clock) = started("type T @table(expiration: 60) { id: ID @primaryKey picture: Blob }");
    let table = database.table("T").expect("it exists");
    assert_eq!(create(&database, "T", r#"{"id":"1"}"#), "ok");
    let upload = database.begin_upload(table, "1").expect("there are numbers");
    let set = || database.set_blob(table, "1", 1, Some(upload), |_, _| Ok(()), |_: &Store, _: &mut Batch| {});
    set().expect("it lives");
    let read = || Reader::open(&database, table, "1", 1);
    assert_eq!(outcome(&read()), "corrupt", "nothing was stored under the number");
    clock.set(START + 60 * SECOND);
    assert!(read().expect("the record is looked at first").is_none());
    assert_eq!(outcome(&set()), "not found");
}

#[test]
fn the_text_of_a_record_does_not_show_its_deadline() {
    let (_directory, database, _) = started("type T @table(expiration: 1) { id: ID @primaryKey size: Int }");
    let table = database.table("T").expect("it exists");
    let record = database.create(table, br#"{"id":"1","size":2}"#).expect("valid");
    assert_eq!(record.json(), br#"{"id":"1","size":2}"#);
    assert_eq!(record.expires_at().expect("it says"), Some(START + SECOND));
    assert_eq!(record.value(1).expect("a number"), Value::Int(2));
    let mut key = Vec::new();
    strata::encoding::key::record(table.id, "1", &mut key);
    let bytes = database.store().get(Space::Records, &key, ReadTier::Disk).expect("readable").expect("stored");
    assert_eq!(*bytes, *record.bytes());
}

const DEVICES: &str = r#"
type Device @table(expiration: 60) {
  id: ID @primaryKey
  name: String @indexed
  ttl: Int @ttl
  until: Date @expiresAt
  updated: Int @updatedTime
}
"#;

/// The seconds for which a record lives on.
fn left(database: &Database, id: &str) -> Option<i64> {
    let device = database.table("Device").expect("it exists");
    let record = database.read(device, id).expect("readable")?;
    record.expires_at().expect("a time").map(|at| (at - database.now()) / SECOND)
}

#[test]
fn a_record_may_give_its_time_to_live() {
    let (_directory, database, clock) = started(DEVICES);
    let device = database.table("Device").expect("it exists");
    let put = |body: &str| outcome(&database.replace(device, "1", body.as_bytes(), &Precondition::None));
    let patch = |body: &str| outcome(&database.merge(device, "1", body.as_bytes(), &Precondition::None));
    for (seconds, expected) in [("1", 1), ("600", 600), ("31536000", 31_536_000), ("null", 60)] {
        assert_eq!(put(&format!(r#"{{"ttl":{seconds}}}"#)), "ok");
        assert_eq!(left(&database, "1"), Some(expected));
    }
    assert_eq!(put(r#"{"ttl":600}"#), "ok");
    clock.set(START + 500 * SECOND);
    assert_eq!(left(&database, "1"), Some(100));
    assert_eq!((patch("{}"), left(&database, "1")), ("ok", Some(600)), "any write begins it anew");
    assert_eq!((patch(r#"{"ttl":7}"#), left(&database, "1")), ("ok", Some(7)));
    assert_eq!((patch(r#"{"ttl":null}"#), left(&database, "1")), ("ok", Some(60)));
    assert_eq!((patch(r#"{"ttl":600}"#), put("{}"), left(&database, "1")), ("ok", "ok", Some(60)));
    let until = r#"{"ttl":600,"until":"2026-11-22T00:10:00Z"}"#;
    assert_eq!((put(until), left(&database, "1")), ("ok", Some(100)), "an expiry goes before it");
    for wrong in ["0", "-1", "31536001"] {
        let body = format!(r#"{{"ttl":{wrong}}}"#);
        for outcome in [
            database.replace(device, "1", body.as_bytes(), &Precondition::None).map(drop),
            database.merge(device, "1", body.as_bytes(), &Precondition::None).map(drop),
            database.create(device, body.as_bytes()).map(drop),
        ] {
            let error = outcome.expect_err("there is no such time to live");
            assert!(
                matches!(&error, Error::Invalid { place, .. } if format!("{place:?}").contains("/ttl")),
                "{error:?}"
            );
        }
        let many = database.create_all(device, format!("[{{}},{body}]").as_bytes()).expect_err("all or none");
        assert!(matches!(&many, Error::Invalid { place, .. } if format!("{place:?}").contains("/1/ttl")), "{many:?}");
    }
    assert_consistent(&database);
}

#[test]
fn a_renewal_is_due_when_less_than_two_thirds_are_left() {
    let (_directory, database, clock) = started(DEVICES);
    let device = database.table("Device").expect("it exists");
    for body in [r#"{"id":"1","name":"a","ttl":30}"#, r#"{"id":"2","name":"b"}"#, r#"{"id":"3","until":"2027-01-01"}"#]
    {
        assert_eq!(create(&database, "Device", body), "ok");
    }
    let renew = || database.renew(device, &["1", "2", "3", "4"]).expect("nobody holds them");
    let (due, none) = (|seconds: i64| Renewal::DueAt(START + seconds * SECOND), Renewal::NotNeeded);
    assert_eq!(renew(), [due(10), due(20), none, none]);
    let shown = |id: &str| {
        let record = database.read(device, id).expect("readable").expect("it is there");
        (String::from_utf8_lossy(record.json()).into_owned(), record.checksum())
    };
    let before = ["1", "2"].map(shown);
    clock.set(START + 10 * SECOND);
    let renewed = |seconds: i64| Renewal::Renewed { due: START + seconds * SECOND };
    assert_eq!(renew(), [renewed(20), due(20), none, none]);
    clock.set(START + 20 * SECOND);
    assert_eq!(renew(), [renewed(30), renewed(40), none, none]);
    assert_eq!(["1", "2"].map(shown), before, "nothing but the deadline is another");
    assert_eq!(database.registrations().renewed, 3);
    assert_consistent(&database);
    clock.set(START + 49 * SECOND);
    assert_eq!(ids(&database, "Device"), ["1", "2", "3"]);
    clock.set(START + 50 * SECOND);
    assert_eq!(
        (renew(), ids(&database, "Device")),
        (vec![none, renewed(70), none, none], vec!["2".into(), "3".into()])
    );
    database.catch_up().expect("one is due");
    assert_eq!(database.registrations(), Registrations { expired: 1, renewed: 4 });
    assert_consistent(&database);
}

#[test]
fn renewing_leaves_a_damaged_record_as_it_is() {
    let (_directory, database, clock) = started(DEVICES);
    let device = database.table("Device").expect("it exists");
    for id in ["1", "2"] {
        assert_eq!(create(&database, "Device", &format!(r#"{{"id":"{id}"}}"#)), "ok");
    }
    damage(&database, "Device", "1");
    clock.set(START + 30 * SECOND);
    let renewed = Renewal::Renewed { due: START + 50 * SECOND };
    assert_eq!(database.renew(device, &["1", "2"]).expect("the other one"), [Renewal::NotNeeded, renewed]);
}

#[test]
fn what_is_held_is_renewed_while_the_device_is_nearly_full() {
    let (directory, database, clock) = started(DEVICES);
    assert_eq!(create(&database, "Device", r#"{"id":"1"}"#), "ok");
    drop(database);
    let options = storage::Options { reserve_bytes: 1 << 60, ..storage::Options::default() };
    let schema = Schema::parse(DEVICES).expect("valid");
    let database = Database::open(directory.path(), schema, &options).expect("it was closed").with_clock(&clock);
    let device = database.table("Device").expect("it exists");
    assert!(!database.store().look_at_room());
    let refused = database.create(device, br#"{"id":"2"}"#).expect_err("there is no room");
    assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
    clock.set(START + 30 * SECOND);
    let renewed = Renewal::Renewed { due: START + 50 * SECOND };
    assert_eq!(database.renew(device, &["1"]).expect("it adds nothing"), [renewed]);
}
