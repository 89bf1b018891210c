//! Indexes that are built while the process is killed again and again, with writers beside the build: what is built in the end is whole.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, iter};

use strata::schema::Schema;
use strata::storage::Options;
use strata::transaction::{Database, Precondition};

use crate::engine::{Random, assert_consistent};

const DIRECTORY: &str = "STRATA_TEST_BUILDER_DIRECTORY";
const ROUND: &str = "STRATA_TEST_BUILDER_ROUND";

const RECORDS: usize = 20_000;

const BARE: &str = "type Item @table { id: ID @primaryKey mail: String name: String words: String }";

const INDEXED: &str = "type Item @table @compositeIndex(fields: [\"name\", \"mail\"]) { id: ID @primaryKey
    mail: String @unique name: String @indexed words: String @indexed(type: \"fulltext\") }";

/// Small buffers, so that flushes fall into every round.
fn open(directory: &Path, sdl: &str) -> Database {
    let options = Options { cache_bytes: 4 << 20, write_buffer_bytes: 256 << 10, ..Options::default() };
    Database::open(directory, Schema::parse(sdl).expect("valid"), &options).expect("a killed store opens")
}

fn id(number: usize) -> String {
    format!("{number:06}")
}

/// Builds, and says so after each piece; another thread writes as long as it does. It is killed, or comes to the end.
#[test]
fn a_victim_that_builds() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let round: u64 = env::var(ROUND).expect("the parent set it").parse().expect("a number");
    let (database, done) = (open(directory.as_ref(), INDEXED), AtomicBool::new(false));
    let table = database.table("Item").expect("it exists");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(round + 1);
            while !done.load(Ordering::Relaxed) {
                let id = id(random.below(RECORDS));
                // What it has already, so that it is refused for no unique value: but for null it claims nothing.
                let written = match random.below(3) {
                    0 => database.delete(table, &id, &Precondition::None),
                    1 => database
                        .replace(table, &id, br#"{"name":"new","words":"new words"}"#, &Precondition::None)
                        .map(drop),
                    _ => database
                        .merge(table, &id, br#"{"name":"other","words":"few","mail":null}"#, &Precondition::None)
                        .map(drop),
                };
                assert!(!matches!(written, Err(strata::error::Error::Corrupt { .. })), "{written:?}");
            }
        });
        loop {
            let is_done = !database.work().expect("it can be built");
            writeln!(std::io::stdout().lock(), "\nworked").expect("the parent listens");
            if is_done {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn builds_survive_kill_9() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let database = open(directory.path(), BARE);
    let table = database.table("Item").expect("it exists");
    for numbers in (0..RECORDS).collect::<Vec<_>>().chunks(5000) {
        let body = |number: &usize| {
            format!(
                r#"{{"id":"{}","mail":"m{number}","name":"n{}","words":"all of {number}"}}"#,
                id(*number),
                number % 9
            )
        };
        let bodies: Vec<_> = numbers.iter().map(body).collect();
        database.create_all(table, format!("[{}]", bodies.join(",")).as_bytes()).expect("valid");
    }
    drop(database);
    let (mut random, mut kills) = (Random(0x5EED), 0);
    loop {
        let program = env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "crash::building::a_victim_that_builds", "--nocapture"]);
        command.env(DIRECTORY, directory.path()).env(ROUND, kills.to_string()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("this program can be started");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let worked = lines.map_while(Result::ok).filter(|line| line == "worked");
        let most = 20 + random.below(150);
        let pieces = iter::zip(worked, 0..most).count();
        process.kill().expect("it was started");
        let ended = process.wait().expect("it was started");
        let database = open(directory.path(), INDEXED);
        assert_consistent(&database);
        if pieces < most {
            assert!(ended.success(), "it came to its end: {ended}");
            break;
        }
        kills += 1;
        assert!(kills < 40, "each round comes further than the one before");
    }
    let database = open(directory.path(), INDEXED);
    let table = database.table("Item").expect("it exists");
    let states: Vec<_> = table.indexes.iter().map(|index| index.state().name()).collect();
    assert_eq!(states, ["ready"; 4], "after {kills} kills");
    assert!(kills > 1);
    assert_consistent(&database);
}
