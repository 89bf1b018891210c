//! Servers over a real PostgreSQL, which a test starts itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strata::encoding::Value;
use strata::error::{Error, Result};
use strata::query::{Limits, Query};
use strata::schema::{IndexState, Schema};
use strata::storage::{ReadTier, Store};
use strata::transaction::Precondition;

use super::Over;
use super::databases::{connect, located, schema, store, url_of};
use super::model;
use super::proxy::Proxy;
use crate::brokers::{Broker, or_skipped};
use crate::engine::change;

#[test]
fn a_database_that_is_killed_loses_nothing_and_doubles_nothing() {
    let Some(mut broker) = or_skipped(Broker::postgres()) else { return };
    let url = url_of(&broker, "model");
    let databases: Vec<_> = (0..6).map(|_| connect(&url, model::schema()).expect("it is there")).collect();
    model::prepare(&databases[0]);
    let kills: usize = std::env::var("STRATA_KILLS").map_or(2, |text| text.parse().expect("a number"));
    let told = model::ask_meanwhile(&databases, 2, || {
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(1500));
            broker.kill();
            broker.start_again().expect("it starts again");
        }
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
    let direct = connect(&url_of(&broker, "lost"), schema())?;
    direct.create(direct.table("T")?, br#"{"id": "a", "n": 0}"#)?;
    let url = format!("postgres://strata@{}/postgres?table=lost&connections=4", proxy.address);
    let servers: Vec<_> = (0..2).map(|_| connect(&url, schema())).collect::<Result<_>>()?;
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

/// Records are created while the table is truncated again and again.
#[test]
fn a_truncation_takes_all_or_nothing_of_a_record() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let databases: Vec<_> =
        (0..2).map(|_| connect(&url_of(&broker, "cleared"), schema()).expect("it is there")).collect();
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
        let _over = Over(&is_over);
        for _ in 0..40 {
            databases[0].truncate(databases[0].table("T").expect("it exists")).expect("it can be cleared");
        }
    });
    assert_eq!(databases[1].disagreements()?, [""; 0]);
    Ok(())
}

/// Runs statements on a connection of somebody else, and returns it; a transaction that they leave open ends with it.
fn run_as_others(broker: &Broker, sql: &str) -> std::io::Result<TcpStream> {
    let mut others = TcpStream::connect(broker.address())?;
    let start = b"\0\x03\0\0user\0strata\0database\0postgres\0\0";
    for (kind, message) in [(&b""[..], &start[..]), (b"Q", format!("{sql}\0").as_bytes())] {
        others.write_all(kind)?;
        others.write_all(&(message.len() as u32 + 4).to_be_bytes())?;
        others.write_all(message)?;
        // Until the server is ready for a query, outside a transaction or in one; one that has failed is a defect of the test.
        let mut said = Vec::new();
        while !(said.ends_with(b"Z\0\0\0\x05I") || said.ends_with(b"Z\0\0\0\x05T")) {
            let mut byte = [0];
            others.read_exact(&mut byte)?;
            said.extend(byte);
            assert!(!said.ends_with(b"Z\0\0\0\x05E"), "{}", String::from_utf8_lossy(&said));
        }
    }
    Ok(others)
}

fn until_none_is_connected(broker: &Broker) {
    let are_left = "SELECT FROM pg_stat_activity WHERE application_name LIKE 'strata %'";
    let sql = format!(
        "DO $$ BEGIN WHILE EXISTS ({are_left}) LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$"
    );
    run_as_others(broker, &sql).expect("it answers");
}

/// The planner would read the whole of a small table, and might keep that plan while the table grows.
#[test]
fn keys_are_found_by_the_index_alone() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let database = connect(&url_of(&broker, "planned"), schema())?;
    let table = database.table("T")?;
    let records: Vec<_> = (0..300).map(|number| format!(r#"{{"id": "{number:03}", "n": 1}}"#)).collect();
    database.create_all(table, format!("[{}]", records.join(",")).as_bytes())?;
    let sql = "ANALYZE strata_planned; SELECT pg_stat_reset_single_table_counters('strata_planned'::regclass)";
    run_as_others(&broker, sql).expect("it answers");
    for _ in 0..8 {
        assert!(database.read(table, "007")?.is_some());
        for query in ["n==1&limit(200)", "n==1&sort(-id)&limit(200)", "limit(200)", "id==001,id==002"] {
            Query::parse(database.schema(), table, query, &Limits::in_url(1000))?.run(&database, table, |_| Ok(()))?;
        }
        database.merge(table, "007", br#"{"n": 2}"#, &Precondition::None)?;
    }
    drop(database);
    until_none_is_connected(&broker);
    let is_wrong = "SELECT seq_scan > 0 OR idx_scan = 0 FROM pg_stat_user_tables WHERE relname = 'strata_planned'";
    let sql = format!("BEGIN; DO $$ BEGIN IF ({is_wrong}) THEN RAISE 'all of it was read'; END IF; END $$");
    run_as_others(&broker, &sql).expect("it answers");
    Ok(())
}

/// The oldest transaction that writes holds back the snapshots of all.
#[test]
fn a_build_is_waited_for_until_new_snapshots_have_it() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let url = url_of(&broker, "built");
    let bare = connect(&url, Schema::parse("type T @table { id: ID @primaryKey  n: Int  mail: String }")?)?;
    bare.create(bare.table("T")?, br#"{"n": 1}"#)?;
    drop(bare);
    let database = connect(&url, schema())?;
    let others = run_as_others(&broker, "BEGIN; SELECT txid_current()").expect("it answers");
    let indexes = &database.table("T")?.indexes;
    let are_usable = || -> Result<bool> {
        let sequence = database.store().snapshot(ReadTier::Disk)?.sequence();
        Ok(indexes.iter().all(|index| index.is_ready_at(sequence)))
    };
    std::thread::scope(|scope| {
        let built = scope.spawn(|| database.catch_up());
        while !indexes.iter().all(|index| matches!(index.state(), IndexState::Ready { .. })) {
            assert!(!built.is_finished());
            std::thread::yield_now();
        }
        assert!(!are_usable()?, "the transaction of others holds snapshots back");
        drop(others);
        built.join().expect("no thread panics")
    })?;
    assert!(are_usable()?);
    Ok(())
}

#[test]
fn a_connection_that_the_database_has_closed_is_used_by_nobody() -> Result<()> {
    let Some(broker) = or_skipped(Broker::postgres()) else { return Ok(()) };
    let database = connect(&url_of(&broker, "closed"), schema())?;
    let table = database.table("T")?;
    database.create(table, br#"{"id": "a", "n": 1}"#)?;
    for round in 0..5 {
        let sql =
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'strata %'";
        run_as_others(&broker, sql).expect("it answers");
        assert!(database.read(table, "a")?.is_some(), "{round}");
    }
    for sql in ["ALTER SYSTEM SET idle_session_timeout = '50ms'", "SELECT pg_reload_conf()"] {
        run_as_others(&broker, sql).expect("it answers");
    }
    until_none_is_connected(&broker);
    assert!(database.read(table, "a")?.is_some(), "it was idle for too long");
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
    drop(connect(&url_of(&broker, "newer"), schema()).expect("it is there"));
    let sql = "CREATE TABLE strata_theirs (a int); UPDATE strata_newer SET v = 'strata 9' WHERE k = '\\x00'";
    run_as_others(&broker, sql).expect("it answers");
    for (url, said) in [
        ("mysql://x".to_owned(), "expected the URL of a database"),
        (format!("{url}?table=A"), "table is a name"),
        (format!("{url}?sslmode=prefer"), "sslmode is disable or require"),
        (format!("{url}?connections=1"), "connections is a number"),
        (format!("{url}?nonsense=1"), "the URL is not valid"),
        (format!("postgres://strata@{host}:{port}/nothing"), "\"nothing\" does not exist"),
        (format!("postgres://nobody@{host}:{port}/postgres"), "\"nobody\" does not exist"),
        (format!("postgres://strata@{host}:1/postgres"), "the database"),
        (url_of(&broker, "theirs"), "table \"strata_theirs\" of the database is not one of Strata's"),
        (url_of(&broker, "newer"), "table \"strata_newer\" has the format \"strata 9\": use a newer program"),
        (format!("{url}?sslmode=require&sslrootcert=/nothing"), "/nothing"),
    ] {
        let why = refused(&url);
        assert!(why.contains(said) && !why.contains('\n'), "{url}: {why}");
    }
    drop(connect(&url_of(&broker, "kept"), schema()).expect("it is there"));
    let missing = located(&format!("{url}?table=missing")).expect("valid");
    assert!(Store::connect(&missing, None, true).is_err(), "nothing is created for reading");
    broker.kill();
    let why = refused(&url);
    assert!(why.contains("the database"), "{why}");
}
