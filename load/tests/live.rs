//! The output of a run while it goes on: nothing to a pipe unless it is asked to, one line a second, or a line of a terminal.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::faulty_server::{self, Fault};

/// Returns what `load run` says on standard error, against the server with scripted faults.
fn said(flags: &[&str], envs: &[(&str, &str)]) -> String {
    let url = faulty_server::start(|number| if number % 10 == 9 { Fault::Unavailable } else { Fault::None });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    let load = "connections = 4\nqueue = 4000\nwarm_up_requests = 5\nschedule = { shape = \"constant\", rate = 200.0, seconds = 2.6 }";
    std::fs::write(&file, faulty_server::text(load)).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["run", file.to_str().unwrap(), "--has-data", "--base-url", &url])
        .args(["--results", folder.path().to_str().unwrap()])
        .args(flags)
        .envs(envs.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8(done.stdout).unwrap().contains("status_503"), "the table follows");
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_pipe_hears_nothing_unless_it_asks() {
    assert_eq!(said(&[], &[]), "");
}

#[test]
fn each_second_has_a_line() {
    let plain = said(&["--plain"], &[]);
    assert!((2..=4).contains(&plain.lines().count()), "{plain}");
    assert!(
        plain
            .lines()
            .any(|line| line.starts_with("rows: ") && line.contains(" of 3 s | ok ") && line.contains("failed "))
    );
    assert!(!plain.contains(['\r', '\x1b']));
    let objects = said(&["--ndjson"], &[]);
    let objects: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = objects.iter().rfind(|object| object["phase"] == "measuring").unwrap();
    assert_eq!((&last["scenario"], &last["times"]), (&Value::from("rows"), &Value::from("response")));
    assert!(last["failed"]["status_503"].as_u64().unwrap() > 0 && last["p99_ns"].as_u64().is_some(), "{last}");
    assert_eq!(last["server_cpu"], Value::Null, "the server is in this process");
}

#[test]
fn a_line_is_rewritten_within_the_terminal_and_leaves_nothing() {
    let line = said(&["--live"], &[("COLUMNS", "60")]);
    assert!(line.ends_with("\r\x1b[2K") && !line.contains('\n'), "{line:?}");
    let drawn: Vec<_> = line.split("\r\x1b[2K").filter(|drawn| !drawn.is_empty()).collect();
    assert!(drawn.len() >= 3 && drawn.iter().all(|drawn| drawn.chars().count() < 60), "{drawn:?}");
}
