//! The programs in examples/, as a whole and over kills. A program that is killed is this test binary, told by the environment what to run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[allow(dead_code, reason = "the main function")]
#[path = "../../examples/consumer.rs"]
mod consumer;
#[allow(dead_code, reason = "the main function")]
#[path = "../../examples/import.rs"]
mod import;
#[allow(dead_code, reason = "the main function")]
#[path = "../../examples/queue.rs"]
mod queue;
#[allow(dead_code, reason = "the main function")]
#[path = "../../examples/tasks.rs"]
mod tasks;
#[allow(dead_code, reason = "the main function")]
#[path = "../../examples/transfer.rs"]
mod transfer;

use strata::{Error, Place};

/// What a program that is killed runs, and in which directory.
const PROGRAM: &str = "STRATA_TEST_PROGRAM";
const DIRECTORY: &str = "STRATA_TEST_DIRECTORY";

/// How often each program is killed, and in a test that takes long.
const KILLS: usize = 6;
const MANY_KILLS: usize = 70;

/// The program of a child process, which runs until it is killed.
#[test]
fn child() {
    let (Ok(program), Some(directory)) = (std::env::var(PROGRAM), std::env::var_os(DIRECTORY).map(PathBuf::from))
    else {
        return;
    };
    match program.as_str() {
        "transfer" => loop {
            transfer::run(&transfer::Bank::open(&directory).unwrap(), 1_000_000);
        },
        "queue" => {
            queue::run(&queue::Jobs::open(&directory).unwrap()).unwrap();
        }
        "consumer" => {
            let shop = consumer::Shop::open(&directory).unwrap();
            let ordering = shop.clone();
            std::thread::spawn(move || {
                (0..i64::MAX)
                    .for_each(|cents| ordering.order(["ann", "ben", "cem"][cents as usize % 3], cents).unwrap());
            });
            consumer::run(&shop, shop.changes().unwrap(), Duration::from_secs(3600)).unwrap();
        }
        other => panic!("{other}"),
    }
}

fn start(program: &str, directory: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "embedding::examples::child", "--nocapture"])
        .env(PROGRAM, program)
        .env(DIRECTORY, directory);
    child.stdout(Stdio::null()).spawn().unwrap()
}

/// Starts a program again and again, and kills it after some time, which differs; `check` looks at what it has left.
fn kill(program: &str, directory: &Path, kills: usize, mut check: impl FnMut()) {
    for number in 0..kills {
        let mut child = start(program, directory);
        std::thread::sleep(Duration::from_millis(60 + 37 * (number as u64 % 11)));
        child.kill().unwrap();
        child.wait().unwrap();
        check();
    }
}

fn transfers_over_kills(kills: usize) {
    let folder = tempfile::tempdir().unwrap();
    transfer::Bank::open(folder.path()).unwrap();
    kill("transfer", folder.path(), kills, || {
        assert_eq!(transfer::Bank::open(folder.path()).unwrap().total().unwrap(), 20_000);
    });
}

fn jobs_over_kills(kills: usize) {
    let folder = tempfile::tempdir().unwrap();
    let number = 10_000 * (kills / KILLS).max(1) as i64;
    let open = || queue::Jobs::open(folder.path()).unwrap();
    let jobs = open();
    (0..number).step_by(10_000).for_each(|first| jobs.add(first..first + 10_000).unwrap());
    drop(jobs);
    kill("queue", folder.path(), kills, || drop(open()));
    let jobs = open();
    queue::run(&jobs).unwrap();
    assert_eq!(jobs.result().unwrap(), (0, (0..number).map(|input| input * input).sum()));
}

fn orders_over_kills(kills: usize) {
    let folder = tempfile::tempdir().unwrap();
    let open = || consumer::Shop::open(folder.path()).unwrap();
    // Before any order.
    drop(open().changes().unwrap());
    kill("consumer", folder.path(), kills, || {
        let (spent, ordered) = open().sums().unwrap();
        assert!(spent <= ordered, "{spent} {ordered}");
    });
    let shop = open();
    consumer::run(&shop, shop.changes().unwrap(), Duration::from_millis(500)).unwrap();
    let (spent, ordered) = shop.sums().unwrap();
    assert!(spent == ordered && ordered > 0, "{spent} {ordered}");
}

#[test]
fn the_programs_keep_their_word_over_kills() {
    transfers_over_kills(KILLS);
    jobs_over_kills(KILLS);
    orders_over_kills(KILLS);
}

#[test]
#[ignore = "takes minutes: run-benches.py test --full"]
fn the_programs_keep_their_word_over_many_kills() {
    transfers_over_kills(MANY_KILLS);
    jobs_over_kills(MANY_KILLS);
    orders_over_kills(MANY_KILLS);
}

#[test]
fn a_task_sees_what_another_has_written() {
    let (folder, runtime) =
        (tempfile::tempdir().unwrap(), tokio::runtime::Builder::new_current_thread().build().unwrap());
    let seen = runtime.block_on(tasks::run(folder.path(), 500)).unwrap();
    assert_eq!(seen, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn transfers_are_refused_with_the_programs_own_error() {
    let folder = tempfile::tempdir().unwrap();
    let bank = transfer::Bank::open(folder.path()).unwrap();
    assert!(matches!(bank.transfer("account-1", "account-2", 1001), Err(transfer::Refused::Lacks(1))));
    assert!(matches!(bank.transfer("account-1", "nobody", 1), Err(transfer::Refused::Store(Error::Invalid { .. }))));
    bank.transfer("account-1", "account-1", 1000).unwrap();
    transfer::run(&bank, 4000);
    assert_eq!(bank.total().unwrap(), 20_000);
}

#[test]
fn lines_are_imported_and_a_wrong_one_is_told_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for number in 0..2500 {
        writeln!(lines, r#"{{"id": "{number}", "sensor": "a", "at": "2026-01-31T12:00:00Z", "celsius": 7}}"#).unwrap();
    }
    let imported = import::run(folder.path(), lines.as_bytes());
    assert_eq!(imported.unwrap(), 2500);
    for (wrong, at) in [(r#"{"id": "x"}"#, 1), ("{", 1)] {
        let place = import::run(folder.path(), wrong.as_bytes());
        assert!(
            matches!(place, Err(Error::Invalid { place: Place::Line { line, .. }, .. }) if line == at),
            "{place:?}"
        );
    }
    let again = import::run(folder.path(), lines.as_bytes());
    assert!(matches!(again, Err(Error::Invalid { place: Place::Line { line: 1, .. }, .. })), "{again:?}");
}
