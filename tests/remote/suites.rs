//! The tests of engine, queries, conformance and GraphQL, and the golden scripts, as they are, on other engines. What needs the embedded
//! engine is listed in `embedded_only.txt`, with the reason; each of its lines is the name of a test.

use std::process::{Command, Stdio};

use crate::brokers::{Broker, or_skipped};

const SUITES: [&str; 5] = ["engine::", "query::", "conformance::", "golden::", "graphql::"];

/// The tests of a list, each with the reason why it is there.
fn listed(text: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split("  ").next().unwrap_or(line))
}

/// The tests that run on the embedded engine alone.
fn embedded_only() -> impl Iterator<Item = &'static str> {
    listed(include_str!("embedded_only.txt"))
}

/// The tests that do not run on TiKV.
fn not_on_tikv() -> impl Iterator<Item = &'static str> {
    listed(include_str!("not_on_tikv.txt"))
}

fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A test that asks so much that it takes minutes on PostgreSQL: only with `test --full`.
const LONG: &str = "query::random::plans_give_what_looking_at_every_record_gives";

/// Runs suites, of which at least so many tests pass, with a store of `storage` in place of each directory.
fn run_on(storage: &str, threads: &str, (suites, least): (&[&str], usize), more: &[&'static str]) {
    let mut command = this_program();
    command.args(suites).args([
        "--test-threads",
        threads,
        "--skip",
        "http::",
        "--skip",
        "remote::",
        "--skip",
        "embedding::",
    ]);
    command.args(embedded_only().chain(more.iter().copied()).flat_map(|name| ["--skip", name]));
    let output = command.env("STRATA_TEST_STORAGE", storage).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().find(|line| line.starts_with("test result")).unwrap_or("no result");
    println!("{storage}: {result}");
    let failures = said.split_once("\nfailures:\n").map_or("", |(_, failures)| failures);
    assert!(output.status.success(), "{result}\n{failures}");
    let passed = result.split_once(". ").and_then(|(_, rest)| rest.split_once(" passed")?.0.parse::<usize>().ok());
    assert!(passed.is_some_and(|passed| passed > least), "{result}");
}

#[test]
fn what_is_skipped_is_a_test() {
    let output = this_program().arg("--list").output().expect("it starts");
    let all = String::from_utf8_lossy(&output.stdout);
    for name in embedded_only().chain(not_on_tikv()) {
        assert!(all.lines().any(|line| line == format!("{name}: test")), "there is no test {name}");
    }
}

#[test]
fn they_pass_on_a_simulated_database() {
    run_on("simulated", "2", (&SUITES, 100), &[]);
}

/// Whether it may take long: `test --full`.
fn is_full() -> bool {
    std::env::var_os("STRATA_MODEL_TRANSACTIONS").is_some()
}

#[test]
fn they_pass_on_postgres() {
    if let Some(broker) = or_skipped(Broker::postgres()) {
        run_on(&broker.url(), "4", (&SUITES, 100), if is_full() { &[] } else { &[LONG] });
    }
}

#[test]
fn they_pass_on_the_double_of_tikv() {
    if let Some(broker) = or_skipped(Broker::tikv_double()) {
        // Those of the engine are the longest.
        let suites = if is_full() { (&SUITES[..], 100) } else { (&SUITES[1..], 30) };
        run_on(&broker.url(), "4", suites, &not_on_tikv().collect::<Vec<_>>());
    }
}
