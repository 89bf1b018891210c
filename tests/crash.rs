//! What was acknowledged survives: the end of the process by kill -9 at any moment, and a disk that takes no more.
//!
//! The victim is this very program, started again for the one test [`a_victim_that_writes`], which does nothing unless its
//! environment says so. It writes every acknowledged id to a pipe after the verb has returned. When to kill is decided by a
//! seeded number of acknowledgements, not by a clock. A kill leaves the operating system's cache alone, so it cannot tell `soft`
//! from `strong`: what a power cut leaves is in [`power`].

mod building;
mod multicasts;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod power;
mod streams;

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use strata::error::{Error, Result};
use strata::schema::{Durability, Schema};
use strata::storage::Options;
use strata::transaction::Database;

use crate::engine::{Random, found, ids, json, outcome, value};

const THREADS: usize = 4;
const DIRECTORY: &str = "STRATA_TEST_VICTIM_DIRECTORY";
const DURABILITY: &str = "STRATA_TEST_VICTIM_DURABILITY";
const ROUND: &str = "STRATA_TEST_VICTIM_ROUND";

const WRITER: &str = "crash::a_victim_that_writes";

/// Small buffers, so that flushes and new logs fall into every round.
fn open(directory: &Path, durability: &str) -> Result<Database> {
    let options = Options { cache_bytes: 4 << 20, write_buffer_bytes: 128 << 10, ..Options::default() };
    let sdl = format!(
        "type Item @table(durability: \"{durability}\") {{ id: ID @primaryKey
           mail: String @unique name: String @indexed group: String @indexed(type: \"hash\") filler: String }}"
    );
    Database::open(directory, Schema::parse(&sdl)?, &options)
}

/// The mail names who wrote a record; all else follows from it.
fn body(mail: &str) -> String {
    let group = mail.len() % 3;
    format!(r#"{{"mail":"{mail}","name":"name of {mail}","group":"{group}","filler":"{}"}}"#, mail.repeat(30))
}

/// Writes until it is killed or refused. Each line is written after the verb has returned.
#[test]
fn a_victim_that_writes() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let variable = |name| env::var(name).expect("the parent set all of them");
    let (durability, round) = (variable(DURABILITY), variable(ROUND));
    let database = open(directory.as_ref(), &durability).expect("the parent has closed it");
    let table = database.table("Item").expect("it exists");
    let refused = AtomicBool::new(false);
    let say = |line: String| writeln!(std::io::stdout().lock(), "\n{line}").expect("the parent listens");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (refused, round, database) = (&refused, &round, &database);
            scope.spawn(move || {
                for number in 0.. {
                    let mail = format!("{round}-{thread}-{number}");
                    match database.create(table, body(&mail).as_bytes()) {
                        Ok(record) => say(format!("acknowledged {mail} {}", record.id().expect("an id is text"))),
                        Err(error) => {
                            refused.store(true, Ordering::Relaxed);
                            say(refusal(error));
                        }
                    }
                    if refused.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
    });
    // What was stored is readable still, and the next write is refused as clearly.
    assert!(!ids(&database, "Item").is_empty());
    let again = database.create(table, body(&format!("{round}-again")).as_bytes());
    say(refusal(again.expect_err("there is no room")));
}

fn refusal(error: Error) -> String {
    let text = error.to_string();
    format!("refused {} {text}", outcome::<()>(&Err(error)))
}

/// The victim's process; killed when the test lets go of it.
struct Victim {
    process: Child,
    lines: BufReader<ChildStdout>,
    acknowledged: HashMap<String, String>,
    refusals: Vec<String>,
}

impl Victim {
    /// Starts it; `limit` is the greatest size of a file, in bytes.
    fn start(directory: &Path, durability: Durability, round: usize, limit: Option<usize>) -> Self {
        let program = env::current_exe().expect("this program has a path");
        let command = match limit {
            None => Command::new(program),
            Some(bytes) => {
                // In sh, -f counts blocks of 512 bytes. The signal is ignored, so that the write fails instead.
                let script = format!("trap '' XFSZ; ulimit -f {} && exec \"$0\" \"$@\"", bytes / 512);
                let mut shell = Command::new("sh");
                shell.args(["-c", &script]).arg(program);
                shell
            }
        };
        Self::run(command, WRITER, directory, durability, round)
    }

    /// Starts a victim, which is this test, by a command that runs this program.
    fn run(mut command: Command, test: &str, directory: &Path, durability: Durability, round: usize) -> Self {
        command.args(["--exact", test, "--nocapture"]);
        command.env(DIRECTORY, directory).env(DURABILITY, durability.name()).env(ROUND, round.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("this program can be started");
        let lines = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { process, lines, acknowledged: HashMap::new(), refusals: Vec::new() }
    }

    /// Reads until so many are acknowledged; false at the end of the pipe. A line cut by the kill counts for nothing.
    fn read(&mut self, count: usize) -> bool {
        let mut line = String::new();
        while self.acknowledged.len() < count {
            line.clear();
            if self.lines.read_line(&mut line).expect("lines are text") == 0 {
                return false;
            }
            let Some(line) = line.strip_suffix('\n') else {
                return false;
            };
            if let Some((mail, id)) = line.strip_prefix("acknowledged ").and_then(|rest| rest.split_once(' ')) {
                self.acknowledged.insert(mail.to_owned(), id.to_owned());
            } else if let Some(refusal) = line.strip_prefix("refused ") {
                self.refusals.push(refusal.to_owned());
            }
        }
        true
    }

    /// Ends it by SIGKILL and reads what it had still said.
    fn kill(mut self) -> HashMap<String, String> {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it was started");
        while self.read(usize::MAX) {}
        std::mem::take(&mut self.acknowledged)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How many of the acknowledged are not as they were acknowledged.
fn missing(database: &Database, acknowledged: &HashMap<String, String>) -> usize {
    let table = database.table("Item").expect("it exists");
    let whole = |mail: &String, id: &String| {
        if database.read(table, id).expect("readable").is_none() {
            return false;
        }
        let (stored, expected) = (json(database, "Item", id), body(mail));
        let expected: serde_json::Value = serde_json::from_str(&expected).expect("a body is JSON");
        let same = expected.as_object().expect("an object").iter().all(|(name, value)| stored[name] == *value);
        same && found(database, "Item", "mail", &value(mail)) == [id.as_str()]
    };
    acknowledged.iter().filter(|(mail, id)| !whole(mail, id)).count()
}

/// Rounds of writing and killing over one store, then everything ever acknowledged is looked for.
fn rounds(durability: Durability, rounds: usize, most: usize) {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut all, mut disagreements, mut lost) = (Random(0x5EED), HashMap::new(), 0, 0);
    for round in 0..rounds {
        let mut victim = Victim::start(directory.path(), durability, round, None);
        assert!(victim.read(1 + random.below(most)), "the victim ended by itself: {:?}", victim.refusals);
        let acknowledged = victim.kill();
        let database = open(directory.path(), durability.name()).expect("a killed store opens");
        disagreements += database.disagreements().expect("readable").len();
        lost += missing(&database, &acknowledged);
        all.extend(acknowledged);
        let unacknowledged = ids(&database, "Item").len() - all.len();
        assert!(unacknowledged <= (round + 1) * THREADS, "each thread writes one record at a time: {unacknowledged}");
    }
    let database = open(directory.path(), durability.name()).expect("a killed store opens");
    lost += missing(&database, &all);
    println!(
        "kill -9 at {}: {rounds} rounds, {} acknowledged, {lost} missing, {disagreements} disagreements",
        durability.name(),
        all.len()
    );
    assert_eq!((lost, disagreements), (0, 0));
}

#[test]
fn soft_writes_survive_kill_9() {
    rounds(Durability::Soft, 20, 3000);
}

#[test]
fn strong_writes_survive_kill_9() {
    rounds(Durability::Strong, 20, 300);
}

#[test]
fn a_store_in_use_is_refused_to_another_process() {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let mut victim = Victim::start(directory.path(), Durability::Soft, 0, None);
    assert!(victim.read(1));
    let error = open(directory.path(), "soft").err().expect("the victim has it");
    let (text, whom) = (error.to_string(), format!("is in use by another process ({})", victim.process.id()));
    assert!(matches!(error, Error::Busy { .. }) && text.contains(&whom) && !text.contains('\n'), "{text}");
    let acknowledged = victim.kill();
    let database = open(directory.path(), "soft").expect("a kill gives it free");
    assert_eq!(missing(&database, &acknowledged), 0);
}

/// A limit on the size of files stands for a full disk: the log, or a sorted file, cannot grow.
#[test]
fn a_full_disk_refuses_clearly_and_loses_nothing() {
    for durability in [Durability::Soft, Durability::Strong] {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let mut victim = Victim::start(directory.path(), durability, 0, Some(64 << 10));
        assert!(!victim.read(usize::MAX));
        assert!(victim.process.wait().expect("it was started").success());
        assert!(victim.refusals.len() >= 2, "{:?}", victim.refusals);
        let clear = |refusal: &String| refusal.starts_with("storage cannot ") || refusal.starts_with("busy ");
        assert!(victim.refusals.iter().all(clear), "{:?}", victim.refusals);
        // The first to be refused is told why; who comes after it, that the log has failed.
        let why = |refusal: &String| refusal.to_lowercase().contains("file too large");
        assert!(victim.refusals.iter().any(why), "{:?}", victim.refusals);
        let database = open(directory.path(), durability.name()).expect("there is room again");
        assert!(victim.acknowledged.len() > 10);
        assert_eq!(missing(&database, &victim.acknowledged), 0);
        assert_eq!(database.disagreements().expect("readable"), Vec::<String>::new());
        let table = database.table("Item").expect("it exists");
        database.create(table, body("afterwards").as_bytes()).expect("there is room again");
    }
}
