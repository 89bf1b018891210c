//! Servers over a real PostgreSQL, which a test starts itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strata::encoding::Value;
use strata::error::{Error, Result};
use strata::schema::Schema;
use strata::storage::{Batch, Location, Reach, Space, Store};
use strata::transaction::{Database, Migration, Precondition};

use super::model;
use super::proxy::Proxy;
use crate::brokers::{Broker, or_skipped};
use crate::engine::change;

const SDL: &str = r#"type T @table { id: ID @primaryKey  n: Int @indexed  mail: String @unique }"#;

fn schema() -> Schema {
    Schema::parse(SDL).expect("valid")
}

fn connect(broker: &Broker, table: &str) -> Database {
    connect_with(&format!("{}?table={table}&connections=8", broker.url()), schema()).expect("it is there")
}

fn connect_with(url: &str, schema: Schema) -> Result<Database> {
    Database::connect(&located(url)?, None, schema, Migration::KeepsData, "a test")
}

fn located(url: &str) -> Result<Location> {
    Location::try_from(url.to_owned()).map_err(Error::invalid)
}

fn store(url: &str) -> Result<Store> {
    Store::connect(&located(url)?, None, false)
}

#[test]
fn requests_of_three_servers_are_linearizable() {
    let Some(broker) = or_skipped(Broker::postgres()) else { return };
    let url = format!("{}?connections=8", broker.url());
    let databases: Vec<_> = (0..6).map(|_| connect_with(&url, model::schema()).expect("it is there")).collect();
    model::prepare(&databases[0]);
    let (counts, wrong) = model::check(&databases, model::ask(&databases, 1, 3000, None));
    println!("{counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.acknowledged > 1000 && counts.unknown == 0, "{counts}");
}

#[test]
fn a_database_that_is_killed_loses_nothing_and_doubles_nothing() {
    let Some(mut broker) = or_skipped(Broker::postgres()) else { return };
    let url = format!("{}?connections=8", broker.url());
    let databases: Vec<_> = (0..6).map(|_| connect_with(&url, model::schema()).expect("it is there")).collect();
    model::prepare(&databases[0]);
    let kills: usize = std::env::var("STRATA_KILLS").map_or(2, |text| text.parse().expect("a number"));
    let is_over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let told = model::ask(&databases, 2, 3000 * kills as u64, None);
            is_over.store(true, Ordering::Relaxed);
            told
        });
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(1500));
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            broker.kill();
            broker.start_again().expect("it starts again");
        }
        asking.join().expect("no thread panics")
    });
    let (counts, wrong) = model::check(&databases, told);
    println!("{counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Increments write the same bytes whoever does them, so the record is no witness: only a receipt tells what became of a commit.
#[test]
fn each_commit_whose_answer_is_lost_is_told_rightly() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let proxy = Proxy::before(broker.address());
    let direct = connect(&broker, "lost");
    direct.create(direct.table("T")?, br#"{"id": "a", "n": 0}"#)?;
    let url = format!("postgres://strata@{}/postgres?table=lost&connections=4", proxy.address);
    let servers: Vec<_> = (0..2).map(|_| connect_with(&url, schema())).collect::<Result<_>>()?;
    let done: i64 = std::thread::scope(|scope| {
        let increments = servers.iter().map(|database| {
            scope.spawn(move || {
                let (table, mut done) = (database.table("T").expect("it exists"), 0);
                for _ in 0..100 {
                    let outcome = database.update(table, "a", |record| match record.value(1)? {
                        Value::Int(n) => Ok(change(table, "n", Value::Int(n + 1))),
                        other => Err(Error::corrupt(format!("{other:?} is no number"))),
                    });
                    match outcome {
                        Ok(_) => done += 1,
                        Err(Error::Busy { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                done
            })
        });
        let increments: Vec<_> = increments.collect();
        increments.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    let stored = direct.read(direct.table("T")?, "a")?.map(|record| record.value(1).map(Value::into_owned));
    println!("{} commits lost, {done} increments acknowledged, {stored:?} stored", proxy.lost());
    assert!(matches!(stored, Some(Ok(Value::Int(stored))) if stored == done), "{stored:?} are not {done}");
    assert!(proxy.lost() > 20 && done > 150, "{} {done}", proxy.lost());
    Ok(())
}

/// The crate's own front door.
#[test]
fn two_programs_have_one_database_open() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let (url, schema) = (format!("{}?table=front", broker.url()), strata::Schema::parse(SDL)?);
    let (one, other) = (strata::Database::connect(&url, &schema)?, strata::Database::connect(&url, &schema)?);
    one.create(&one.table("T")?, strata::Json(r#"{"id": "a", "n": 5}"#))?;
    assert!(other.view().read(&other.table("T")?, "a")?.is_some());
    other.delete(&other.table("T")?, "a", &strata::Precondition::None)?;
    assert!(one.read(&one.table("T")?, "a")?.is_none());
    assert!(strata::Database::connect("http://localhost", &schema).is_err());
    Ok(())
}

#[test]
fn what_another_server_has_deleted_does_not_come_again() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let url = format!("{}?table=deleted&connections=4", broker.url());
    let (one, other) = (store(&url)?, store(&url)?);
    let (soft, key) = (strata::schema::Durability::Soft, b"key");
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
        assert_eq!(one.get_for(&mut batch, Space::Records, key, Reach::Disk)?.is_some(), is_there);
        let mut others = Batch::default();
        match change {
            "put" => other.put(&mut others, Space::Records, key, b"2"),
            _ => other.delete(&mut others, Space::Records, key),
        }
        other.write(&mut others, soft)?;
        one.put(&mut batch, Space::Records, key, b"3");
        assert!(matches!(one.write(&mut batch, soft), Err(Error::Raced)), "{is_there} {change}");
    }
    Ok(())
}

#[test]
fn indexes_are_built_beside_writers_of_all_servers() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let location = located(&format!("{}?table=built&connections=8", broker.url()))?;
    let open = |sdl: &str, address: &str| {
        Database::connect(&location, None, Schema::parse(sdl)?, Migration::KeepsData, address)
    };
    super::members::build_beside_writers(&open, 2000)
}

/// Records are created while the table is truncated again and again.
#[test]
fn a_truncation_takes_all_or_nothing_of_a_record() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let databases: Vec<_> = (0..2).map(|_| connect(&broker, "cleared")).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, database) in databases.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                let table = database.table("T").expect("it exists");
                for step in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = format!(r#"{{"n": {step}, "mail": "m{number}-{step}"}}"#);
                    database.create(table, body.as_bytes()).expect("it is new");
                }
            });
        }
        for _ in 0..40 {
            databases[0].truncate(databases[0].table("T").expect("it exists")).expect("it can be cleared");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(databases[1].disagreements()?, [""; 0]);
    Ok(())
}

#[test]
fn a_key_is_written_by_one_of_two_transactions_that_depend_on_it() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let url = format!("{}?table=pairs&connections=4", broker.url());
    let (one, other) = (store(&url)?, store(&url)?);
    let soft = strata::schema::Durability::Soft;
    let put = |store: &Store, key: &[u8]| {
        let mut batch = Batch::default();
        store.put(&mut batch, Space::Records, key, b"1");
        store.write(&mut batch, soft)
    };
    put(&one, b"present")?;
    // What is depended on is there or is not; the other writes it, deletes it, or depends on it, too.
    for key in [&b"present"[..], b"absent"] {
        for change in ["put", "delete", "depend"] {
            let (mut batch, mut others) = (Batch::default(), Batch::default());
            let was = one.get_for(&mut batch, Space::Records, key, Reach::Disk)?.is_some();
            one.put(&mut batch, Space::Records, b"written by one", b"1");
            let seen = other.get_for(&mut others, Space::Records, key, Reach::Disk)?.is_some();
            assert_eq!(was, seen);
            match change {
                "put" => other.put(&mut others, Space::Records, key, b"2"),
                "delete" => other.delete(&mut others, Space::Records, key),
                _ => other.put(&mut others, Space::Records, b"written by the other", b"1"),
            }
            other.write(&mut others, soft)?;
            let outcome = one.write(&mut batch, soft);
            let may_race = change == "put" || change == "delete" && was;
            assert_eq!(matches!(outcome, Err(Error::Raced)), may_race, "{change} {}: {outcome:?}", key.escape_ascii());
            // As it was.
            let mut batch = Batch::default();
            match key {
                b"present" => one.put(&mut batch, Space::Records, key, b"1"),
                _ => one.delete(&mut batch, Space::Records, key),
            }
            one.write(&mut batch, soft)?;
        }
    }
    Ok(())
}

#[test]
fn requests_take_as_many_round_trips_as_are_promised() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let database = connect(&broker, "trips");
    let table = database.table("T")?;
    let trips = |what: &str, expected: u64, ask: &dyn Fn() -> Result<()>| {
        ask().unwrap_or_else(|error| panic!("{what}: {error}"));
        let before = database.counters().round_trips;
        let outcome = ask();
        let taken = database.counters().round_trips - before;
        assert!(outcome.is_ok() || what.starts_with("DELETE"), "{what}: {outcome:?}");
        assert_eq!(taken, expected, "{what}");
    };
    database.create(table, br#"{"id": "a", "n": 1}"#)?;
    trips("GET by id", 1, &|| database.read(table, "a").map(drop));
    trips("POST, id made here", 2, &|| database.create(table, br#"{"n": 2}"#).map(drop));
    let none = Precondition::None;
    trips("PATCH", 3, &|| database.merge(table, "a", br#"{"n": 3}"#, &none).map(drop));
    let number = std::cell::Cell::new(0);
    trips("POST with an id and a unique value", 4, &|| {
        number.set(number.get() + 1);
        let body = format!(r#"{{"id": "u{0}", "mail": "m{0}"}}"#, number.get());
        database.create(table, body.as_bytes()).map(drop)
    });
    trips("DELETE", 3, &|| {
        let id = format!("u{}", number.get());
        number.set(number.get() - 1);
        database.delete(table, &id, &none)
    });
    let many = |begin: usize| {
        let rows: Vec<_> = (begin..begin + 1000).map(|number| format!(r#"{{"id": "m{number}", "n": 7}}"#)).collect();
        format!("[{}]", rows.join(","))
    };
    let begin = std::cell::Cell::new(0);
    trips("array of 1000 with given ids", 3, &|| {
        begin.set(begin.get() + 1000);
        database.create_all(table, many(begin.get()).as_bytes()).map(drop)
    });
    trips("LIST of 20 by equality", 3, &|| {
        let text = "n==7&limit(20)";
        let query = strata::query::Query::parse(database.schema(), table, text, &strata::query::Limits::in_url(1000))?;
        query.run(&database, table, |_| Ok(()))
    });
    Ok(())
}

#[test]
fn what_is_not_a_store_of_ours_is_refused() {
    let Some(mut broker) = or_skipped(Broker::postgres()) else { return };
    let url = broker.url();
    let refused = |url: &str| match store(url) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} was accepted"),
    };
    let (host, port) = ("127.0.0.1", broker.port());
    for (url, said) in [
        ("mysql://x".to_owned(), "expected the URL of a database"),
        (format!("{url}?table=A"), "table is a name"),
        (format!("{url}?sslmode=prefer"), "sslmode is disable or require"),
        (format!("{url}?connections=1"), "connections is a number"),
        (format!("{url}?nonsense=1"), "the URL is not valid"),
        (format!("postgres://strata@{host}:{port}/nothing"), "\"nothing\" does not exist"),
        (format!("postgres://nobody@{host}:{port}/postgres"), "\"nobody\" does not exist"),
        (format!("postgres://strata@{host}:1/postgres"), "the database"),
        (format!("{url}?sslmode=require&sslrootcert=/nothing"), "/nothing"),
    ] {
        let why = refused(&url);
        assert!(why.contains(said) && !why.contains('\n'), "{url}: {why}");
    }
    drop(connect(&broker, "kept"));
    let missing = located(&format!("{url}?table=missing")).expect("valid");
    assert!(Store::connect(&missing, None, true).is_err(), "nothing is created for reading");
    broker.kill();
    let why = refused(&url);
    assert!(why.contains("the database"), "{why}");
}
