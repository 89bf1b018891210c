//! Servers over real databases, a PostgreSQL and the double of TiKV, which a test starts itself: what must hold on both.

use strata::error::{Error, Result};
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata::storage::{Batch, Location, ReadTier, Space, Store};
use strata::transaction::{Database, Migration, Precondition};

use super::model;
use crate::brokers::{Broker, Kind, or_skipped};

pub const SDL: &str = r#"type T @table { id: ID @primaryKey  n: Int @indexed  mail: String @unique }"#;

pub fn schema() -> Schema {
    Schema::parse(SDL).expect("valid")
}

/// Starts each that can be started.
fn each() -> impl Iterator<Item = Broker> {
    [Broker::postgres(), Broker::tikv_double()].into_iter().filter_map(or_skipped)
}

/// Returns the URL of a store of its own.
pub fn url_of(broker: &Broker, name: &str) -> String {
    let parameters = if is_tikv(broker) { "prefix" } else { "connections=8&table" };
    format!("{}?{parameters}={name}", broker.url())
}

fn is_tikv(broker: &Broker) -> bool {
    *broker.kind() == Kind::TikvDouble
}

pub fn connect(url: &str, schema: Schema) -> Result<Database> {
    Database::connect(&located(url)?, None, schema, Migration::KeepsData, "a test")
}

pub fn located(url: &str) -> Result<Location> {
    Location::try_from(url.to_owned()).map_err(Error::invalid)
}

pub fn store(url: &str) -> Result<Store> {
    Store::connect(&located(url)?, None, false)
}

#[test]
fn requests_of_three_servers_are_linearizable() {
    for broker in each() {
        let url = url_of(&broker, "model");
        let databases: Vec<_> = (0..6).map(|_| connect(&url, model::schema()).expect("it is there")).collect();
        model::prepare(&databases[0]);
        let (counts, wrong) = model::check(&databases, model::ask(&databases, 1, &|answered| answered >= 500, None));
        println!("{url}: {counts}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(counts.acknowledged > 1000 && counts.unknown == 0, "{counts}");
        let log = std::fs::read_to_string(broker.folder().join("log")).expect("it has one");
        let deadlock = log.split_once("deadlock detected").map(|(_, told)| told.lines().take(12).collect::<Vec<_>>());
        assert_eq!(deadlock, None, "transactions lock keys in the order of the keys");
    }
}

#[test]
fn servers_that_are_started_together_share_an_empty_database() {
    for broker in each() {
        for round in 0..5 {
            let url = url_of(&broker, &format!("empty{round}"));
            let opened = std::thread::scope(|scope| {
                let opening: Vec<_> = (0..6).map(|_| scope.spawn(|| connect(&url, schema()))).collect();
                opening.into_iter().map(|thread| thread.join().expect("no thread panics")).collect::<Result<Vec<_>>>()
            });
            let opened = opened.expect("each is one of them");
            opened.iter().for_each(|database| database.renew_lease().expect("it has one"));
            let cluster = opened[5].cluster().expect("it is remote");
            assert_eq!(cluster.members.len(), 6);
        }
    }
}

/// The crate's own front door.
#[test]
fn two_programs_have_one_database_open() -> Result<()> {
    for broker in each() {
        let (url, schema) = (url_of(&broker, "front"), strata::Schema::parse(SDL)?);
        let (one, other) = (strata::Database::connect(&url, &schema)?, strata::Database::connect(&url, &schema)?);
        one.create(&one.table("T")?, strata::Json(r#"{"id": "a", "n": 5}"#))?;
        assert!(other.view().read(&other.table("T")?, "a")?.is_some());
        other.delete(&other.table("T")?, "a", &strata::Precondition::None)?;
        assert!(one.read(&one.table("T")?, "a")?.is_none());
        assert!(strata::Database::connect("http://localhost", &schema).is_err());
    }
    Ok(())
}

#[test]
fn what_another_server_has_deleted_does_not_come_again() -> Result<()> {
    let (soft, key) = (strata::schema::Durability::Soft, b"key");
    for broker in each() {
        let url = url_of(&broker, "deleted");
        let (one, other) = (store(&url)?, store(&url)?);
        for (is_there, change) in [(true, "delete"), (true, "put"), (false, "put")] {
            let mut batch = Batch::default();
            one.delete(&mut batch, Space::Records, key);
            one.write(&mut batch, soft)?;
            batch.clear();
            if is_there {
                one.put(&mut batch, Space::Records, key, b"1");
                one.write(&mut batch, soft)?;
                batch.clear();
            }
            assert_eq!(one.get_for(&mut batch, Space::Records, key, ReadTier::Disk)?.is_some(), is_there);
            let mut others = Batch::default();
            match change {
                "put" => other.put(&mut others, Space::Records, key, b"2"),
                _ => other.delete(&mut others, Space::Records, key),
            }
            other.write(&mut others, soft)?;
            one.put(&mut batch, Space::Records, key, b"3");
            assert!(matches!(one.write(&mut batch, soft), Err(Error::Raced)), "{url} {is_there} {change}");
        }
    }
    Ok(())
}

#[test]
fn indexes_are_built_beside_writers_of_all_servers() -> Result<()> {
    for broker in each() {
        let location = located(&url_of(&broker, "built"))?;
        let open = |sdl: &str, address: &str| {
            Database::connect(&location, None, Schema::parse(sdl)?, Migration::KeepsData, address)
        };
        super::members::build_beside_writers(&open, 2000)?;
    }
    Ok(())
}

#[test]
fn a_key_is_written_by_one_of_two_transactions_that_depend_on_it() -> Result<()> {
    for broker in each() {
        let url = url_of(&broker, "pairs");
        let (one, other) = (store(&url)?, store(&url)?);
        write_as_it_was(&one, b"present")?;
        // What is depended on is there or is not; the other writes it, deletes it, or depends on it, too.
        for key in [&b"present"[..], b"absent"] {
            for change in ["put", "delete", "depend"] {
                depend_beside(&one, &other, key, change, is_tikv(&broker))?;
                write_as_it_was(&one, key)?;
            }
        }
    }
    Ok(())
}

fn write_as_it_was(store: &Store, key: &[u8]) -> Result<()> {
    let mut batch = Batch::default();
    match key {
        b"present" => store.put(&mut batch, Space::Records, key, b"1"),
        _ => store.delete(&mut batch, Space::Records, key),
    }
    store.write(&mut batch, strata::schema::Durability::Soft)
}

fn depend_beside(one: &Store, other: &Store, key: &[u8], change: &str, is_tikv: bool) -> Result<()> {
    let soft = strata::schema::Durability::Soft;
    let (mut batch, mut others) = (Batch::default(), Batch::default());
    let was = one.get_for(&mut batch, Space::Records, key, ReadTier::Disk)?.is_some();
    one.put(&mut batch, Space::Records, b"written by one", b"1");
    let seen = other.get_for(&mut others, Space::Records, key, ReadTier::Disk)?.is_some();
    assert_eq!(was, seen);
    match change {
        "put" => other.put(&mut others, Space::Records, key, b"2"),
        "delete" => other.delete(&mut others, Space::Records, key),
        _ => other.put(&mut others, Space::Records, b"written by the other", b"1"),
    }
    other.write(&mut others, soft)?;
    let outcome = one.write(&mut batch, soft);
    // TiKV has no shared locks, and a delete of what is not there is a write.
    let may_race = change == "put" || change == "delete" && was || is_tikv;
    assert_eq!(matches!(outcome, Err(Error::Raced)), may_race, "{change} {}: {outcome:?}", key.escape_ascii());
    Ok(())
}

#[test]
fn requests_take_as_many_round_trips_as_are_promised() -> Result<()> {
    for broker in each() {
        let database = connect(&url_of(&broker, "trips"), schema())?;
        check_round_trips(&database, is_tikv(&broker))?;
    }
    Ok(())
}

fn check_round_trips(database: &Database, is_tikv: bool) -> Result<()> {
    let table = database.table("T")?;
    // On PostgreSQL and on TiKV.
    let trips = |what: &str, expected: (u64, u64), ask: &dyn Fn() -> Result<()>| {
        ask().unwrap_or_else(|error| panic!("{what}: {error}"));
        let before = database.counters().round_trips;
        let outcome = ask();
        let taken = database.counters().round_trips - before;
        assert!(outcome.is_ok() || what.starts_with("DELETE"), "{what}: {outcome:?}");
        assert_eq!(taken, if is_tikv { expected.1 } else { expected.0 }, "{what}, TiKV: {is_tikv}");
    };
    database.create(table, br#"{"id": "a", "n": 1}"#)?;
    trips("GET by id", (1, 2), &|| database.read(table, "a").map(drop));
    trips("POST, id made here", (2, 4), &|| database.create(table, br#"{"n": 2}"#).map(drop));
    let none = Precondition::None;
    trips("PATCH", (3, 5), &|| database.merge(table, "a", br#"{"n": 3}"#, &none).map(drop));
    let number = std::cell::Cell::new(0);
    trips("POST with an id and a unique value", (4, 6), &|| {
        number.set(number.get() + 1);
        let body = format!(r#"{{"id": "u{0}", "mail": "m{0}"}}"#, number.get());
        database.create(table, body.as_bytes()).map(drop)
    });
    trips("DELETE", (3, 5), &|| {
        let id = format!("u{}", number.get());
        number.set(number.get() - 1);
        database.delete(table, &id, &none)
    });
    let many = |begin: usize| {
        let rows: Vec<_> = (begin..begin + 1000).map(|number| format!(r#"{{"id": "m{number}", "n": 7}}"#)).collect();
        format!("[{}]", rows.join(","))
    };
    let begin = std::cell::Cell::new(0);
    trips("array of 1000 with given ids", (3, 5), &|| {
        begin.set(begin.get() + 1000);
        database.create_all(table, many(begin.get()).as_bytes()).map(drop)
    });
    let list = |query: &str| {
        Query::parse(database.schema(), table, query, &Limits::in_url(2000))?.run(database, table, |_| Ok(()))
    };
    trips("LIST of 20 by equality", (3, 3), &|| list("n==7&limit(20)"));
    trips("LIST of 100 by equality, backwards", (3, 3), &|| list("n==7&sort(-id)&limit(100)"));
    trips("LIST of 20 after 100 by equality", (3, 3), &|| list("n==7&limit(100,20)"));
    // Two pages of entries, and twelve times some records.
    trips("LIST of 1500 by equality", (15, 15), &|| list("n==7&limit(1500)"));
    Ok(())
}
