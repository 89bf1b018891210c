//! Servers over a real PostgreSQL, which a test starts itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strata::encoding::Value;
use strata::error::{Error, Result};
use strata::storage::Store;

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
        for _ in 0..40 {
            databases[0].truncate(databases[0].table("T").expect("it exists")).expect("it can be cleared");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(databases[1].disagreements()?, [""; 0]);
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
    drop(connect(&url_of(&broker, "kept"), schema()).expect("it is there"));
    let missing = located(&format!("{url}?table=missing")).expect("valid");
    assert!(Store::connect(&missing, None, true).is_err(), "nothing is created for reading");
    broker.kill();
    let why = refused(&url);
    assert!(why.contains("the database"), "{why}");
}
