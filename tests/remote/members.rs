//! Who has a database open: leases, the worker, and changes of the schema.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use strata::blobs::Upload;
use strata::error::{Error, Result};
use strata::schema::{IndexState, Schema};
use strata::storage::{Simulation, Space};
use strata::transaction::{Database, Precondition};

use crate::engine::Random;

const BEFORE: &str = r#"type T @table { id: ID @primaryKey  n: Int  mail: String  other: String }"#;
const AFTER: &str = r#"type T @table { id: ID @primaryKey  n: Int @indexed  mail: String @unique  other: String }"#;

fn open(simulation: &Simulation, sdl: &str, address: &str) -> Result<Database> {
    let database = Database::open_simulated(simulation, Schema::parse(sdl)?, address)?;
    database.renew_lease()?;
    Ok(database)
}

fn members(database: &Database) -> (Vec<String>, Option<String>) {
    let cluster = database.cluster().expect("it is remote");
    (cluster.members, cluster.worker)
}

#[test]
fn the_worker_is_one_of_those_who_live() -> Result<()> {
    let simulation = Simulation::new(1);
    let one = open(&simulation, BEFORE, "one")?;
    let two = open(&simulation, BEFORE, "two")?;
    one.renew_lease()?;
    for database in [&one, &two] {
        assert_eq!(members(database), (vec!["one".to_owned(), "two".to_owned()], Some("one".to_owned())));
    }
    drop(one);
    two.renew_lease()?;
    assert_eq!(members(&two), (vec!["two".to_owned()], Some("two".to_owned())), "who leaves hands the work over");
    Ok(())
}

#[test]
fn the_schema_is_changed_by_nobody_while_others_live() -> Result<()> {
    let simulation = Simulation::new(1);
    let one = open(&simulation, BEFORE, "10.0.0.4:9996")?;
    let refused = |outcome: Result<Database>| match outcome {
        Err(Error::Invalid { detail, .. }) => detail,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    };
    let why = refused(open(&simulation, AFTER, "two"));
    assert_eq!(why, "1 server runs with another schema (10.0.0.4:9996): stop it first");
    let two = open(&simulation, BEFORE, "two")?;
    let why = refused(open(&simulation, AFTER, "three"));
    assert!(why.starts_with("2 servers run with another schema (") && why.contains("two"), "{why}");
    drop((one, two));
    open(&simulation, AFTER, "three").map(drop)
}

#[test]
fn without_a_lease_nothing_is_written() -> Result<()> {
    let simulation = Simulation::new(1);
    let database = open(&simulation, BEFORE, "one")?;
    let table = database.table("T")?;
    database.create(table, br#"{"id": "a"}"#)?;
    database.end_lease();
    assert!(matches!(database.create(table, br#"{"id": "b"}"#), Err(Error::Busy { .. })));
    assert!(matches!(database.delete(table, "a", &Precondition::None), Err(Error::Busy { .. })));
    assert!(database.read(table, "a")?.is_some(), "it is read from");
    database.renew_lease()?;
    database.create(table, br#"{"id": "b"}"#).map(drop)
}

#[test]
fn a_server_that_was_deposed_does_no_work() -> Result<()> {
    let simulation = Simulation::new(1);
    {
        let first = open(&simulation, BEFORE, "first")?;
        let table = first.table("T")?;
        for number in 0..200 {
            first.create(table, format!(r#"{{"n": {number}}}"#).as_bytes())?;
        }
    }
    let one = open(&simulation, AFTER, "one")?;
    let two = open(&simulation, AFTER, "two")?;
    assert!(one.work()?, "a piece of the first index");
    assert!(!two.work()?, "it is not the worker");
    // As if its lease had ended, and it did not know.
    one.forget_member_row()?;
    two.renew_lease()?;
    assert_eq!(members(&two).1.as_deref(), Some("two"));
    assert!(matches!(one.work(), Err(Error::Busy { .. })), "its piece is refused");
    assert!(!one.work()?, "and it knows");
    two.catch_up()?;
    let is_ready = |database: &Database| {
        let indexes = &database.table("T").expect("it exists").indexes;
        indexes.iter().all(|index| matches!(index.state(), IndexState::Ready { .. }))
    };
    assert!(is_ready(&two) && !is_ready(&one));
    one.renew_lease()?;
    assert!(is_ready(&one), "the others take it over");
    assert_eq!(two.disagreements()?, [""; 0]);
    Ok(())
}

/// An upload whose server is taken for dead is removed, and cannot be finished by a server that only slept.
#[test]
fn an_upload_is_removed_with_its_server_and_by_nobody_before() -> Result<()> {
    const DOCS: &str = "type Doc @table { id: ID @primaryKey  file: Blob }";
    let simulation = Simulation::new(1);
    let (sleeper, other) = (open(&simulation, DOCS, "sleeper")?, open(&simulation, DOCS, "other")?);
    let table = sleeper.table("Doc")?;
    sleeper.create(table, br#"{"id": "a"}"#)?;
    let begin = || {
        let mut upload = Upload::begin(&sleeper, table, "a", 1, "text/plain", Precondition::None)?;
        // More than is kept in memory.
        let bytes = [b'x'; 300_000];
        let taken = upload.take(&bytes);
        upload.write()?;
        upload.take(&bytes[taken..]);
        Ok::<_, Error>(upload)
    };
    let count = |space| keys_of_first_table(&other, space);
    sleeper.work()?;
    let mut upload = begin()?;
    assert!(!other.work()?, "the sleeper works");
    assert!(count(Space::Blobs)? > 1, "what is under way is there");
    sleeper.forget_member_row()?;
    other.renew_lease()?;
    other.work()?;
    assert_eq!(count(Space::Blobs)?, 0, "its bytes are removed");
    sleeper.renew_lease()?;
    assert!(matches!(upload.finish(&sleeper), Err(Error::NotFound { .. })), "it was taken for dead");
    drop(upload);
    begin()?.finish(&sleeper)?;
    assert_eq!(strata::blobs::disagreements(&other)?, [""; 0]);
    Ok(())
}

/// The number of keys in a space that belong to the first table.
fn keys_of_first_table(database: &Database, space: Space) -> Result<u64> {
    database.store().count_prefix(space, &1u32.to_be_bytes()).map(|(keys, _)| keys)
}

/// Servers write while one of them builds indexes.
pub fn build_beside_writers(open: &dyn Fn(&str, &str) -> Result<Database>, records: usize) -> Result<()> {
    {
        let first = open(BEFORE, "first")?;
        let table = first.table("T")?;
        let rows: Vec<_> = (0..records).map(|number| format!(r#"{{"id": "{number}", "n": {number}}}"#)).collect();
        for rows in rows.chunks(1000) {
            first.create_all(table, format!("[{}]", rows.join(",")).as_bytes())?;
        }
    }
    let databases: Vec<_> = (0..3).map(|number| open(AFTER, &number.to_string())).collect::<Result<_>>()?;
    let is_built = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, database) in databases.iter().enumerate() {
            let is_built = &is_built;
            scope.spawn(move || write_until(is_built, database, number as u64, records + records / 5));
        }
        let worker = databases.iter().find(|database| {
            let cluster = database.cluster().expect("it is remote");
            cluster.worker == Some("0".to_owned())
        });
        worker.expect("the first one works").catch_up().expect("it can be built");
        is_built.store(true, Ordering::Relaxed);
    });
    databases.iter().try_for_each(Database::renew_lease)?;
    for database in &databases {
        assert_eq!(database.disagreements()?, [""; 0]);
        let indexes = &database.table("T")?.indexes;
        assert!(indexes.iter().all(|index| matches!(index.state(), IndexState::Ready { .. })));
    }
    Ok(())
}

fn write_until(is_over: &AtomicBool, database: &Database, seed: u64, ids: usize) {
    let (table, mut random) = (database.table("T").expect("it exists"), Random(seed + 1));
    let begun = Instant::now();
    while !is_over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
        let (id, n) = (random.below(ids).to_string(), random.below(50));
        let body = format!(r#"{{"id": "{id}", "n": {n}}}"#);
        let none = &Precondition::None;
        let outcome = match random.below(4) {
            0 => database.delete(table, &id, none),
            1 => database.merge(table, &id, format!(r#"{{"n": {n}}}"#).as_bytes(), none).map(drop),
            // What is not indexed.
            2 => database.merge(table, &id, br#"{"other": "x"}"#, none).map(drop),
            _ => database.replace(table, &id, body.as_bytes(), none).map(drop),
        };
        match outcome {
            Ok(()) | Err(Error::NotFound { .. } | Error::Busy { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn indexes_are_built_beside_writers_of_all_servers() -> Result<()> {
    let simulation = Simulation::new(1);
    build_beside_writers(&|sdl, address| open(&simulation, sdl, address), 1000)
}
