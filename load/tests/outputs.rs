//! Standard output and standard error: readers that go, files that take no more, terminals that can rewrite no line.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::faulty_server::{self, Fault};

const LOAD: &str = env!("CARGO_BIN_EXE_load");

/// A scenario in a file of this folder, and the words that run it against the server with scripted faults.
fn run(folder: &Path) -> Vec<String> {
    let url = faulty_server::start(|_| Fault::None);
    let file = folder.join("rows.toml");
    fs::write(&file, faulty_server::text("connections = 1\nrequests = 50\nwarm_up_requests = 5")).unwrap();
    let results = folder.join("results");
    let (file, results) = (file.to_str().unwrap(), results.to_str().unwrap());
    // No server reaches this, so the exit code is 1 however fast the machine is.
    let words =
        ["run", file, "--has-data", "--base-url", &url, "--results", results, "--target-read-throughput", "900000"];
    words.map(str::to_owned).to_vec()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has gone.
fn broken() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn a_reader_that_goes_costs_neither_the_run_nor_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let words = run(folder.path());
    let code = Command::new(LOAD).args(&words).output().unwrap().status.code();
    assert_eq!(code, Some(1));
    let results = |count: usize| assert_eq!(crate::strata::results(&folder.path().join("results")).len(), count);
    results(1);
    let output = Command::new(LOAD).args(&words).stdout(broken()).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (code, String::new()));
    results(2);
    for (at, flag) in ["--plain", "--ndjson", "--live"].into_iter().enumerate() {
        for stderr in [broken(), full()] {
            let output = Command::new(LOAD).args(&words).arg(flag).stderr(stderr).output().unwrap();
            assert_eq!(output.status.code(), code, "{flag}");
            assert!(String::from_utf8(output.stdout).unwrap().contains("stored as"));
        }
        results(4 + 2 * at);
    }
    // Neither of them.
    let status = Command::new(LOAD).args(&words).stdout(broken()).stderr(broken()).status().unwrap();
    assert_eq!(status.code(), code);
    let closed = Command::new("sh").args(["-c", "exec \"$0\" \"$@\" >&- 2>&-", LOAD]).args(&words).status().unwrap();
    assert_eq!(closed.code(), code);
    results(10);
}

#[test]
fn output_that_cannot_be_written_is_an_error_after_the_result_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let words = run(folder.path());
    let output = Command::new(LOAD).args(&words).stdout(full()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("standard output"), "{said}");
    assert_eq!(crate::strata::results(&folder.path().join("results")).len(), 1);
}

/// Of every command that prints: what its exit code is to a reader of all, of nothing, and on a full disk.
#[test]
fn whatever_prints_can_be_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.md");
    fs::write(&report, "| p50 ms | p99 ms |\n|---|---|\n| 9 | 1 |\n").unwrap();
    let nothing = folder.path().join("nothing.json");
    fs::write(&nothing, "{}").unwrap();
    let (report, nothing) = (report.to_str().unwrap(), nothing.to_str().unwrap());
    for (program, words, code) in [
        (LOAD, &["--help"][..], 0),
        (LOAD, &["run", "--help"], 0),
        (LOAD, &["--version"], 0),
        (LOAD, &["run", "quota-static", "--plan"], 0),
        (LOAD, &["lint", report], 1),
        (LOAD, &["check", nothing], 1),
        (env!("CARGO_BIN_EXE_throughput"), &["--help"], 0),
        (env!("CARGO_BIN_EXE_load-rest-crud"), &["--plan"], 0),
    ] {
        let ended = |stdout| {
            let output = Command::new(program).args(words).env_remove("BASE_URL").stdout(stdout).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(ended(Stdio::piped()), (Some(code), String::new()), "{words:?}");
        assert_eq!(ended(broken()), (Some(code), String::new()), "{words:?}");
        let (code, said) = ended(full());
        assert_eq!((code, said.lines().count()), (Some(2), 1), "{words:?}: {said}");
    }
    for words in [&["run", "no-such-scenario"][..], &["--no-such-flag"], &["check", "/no/such"], &[]] {
        for stderr in [broken(), full()] {
            let status = Command::new(LOAD).args(words).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(2), "{words:?}");
        }
    }
}

/// Returns what a terminal gets on its screen, of so many columns and this TERM (none if it is empty).
fn on_a_terminal(term: &str, columns: u16, flags: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut words = run(folder.path());
    let file = folder.path().join("rows.toml");
    let load = "connections = 1\nwarm_up_requests = 5\nschedule = { shape = \"constant\", rate = 50.0, seconds = 2.2 }";
    fs::write(&file, faulty_server::text(load)).unwrap();
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("stty cols {columns}; exec '{LOAD}' {} >/dev/null", quoted.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env_remove("COLUMNS").stdin(Stdio::null()).stdout(Stdio::piped());
    match term {
        "" => script.env_remove("TERM"),
        term => script.env("TERM", term),
    };
    let mut running = script.spawn().ok()?;
    let mut shown = String::new();
    running.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    running.wait().unwrap();
    Some(shown)
}

#[test]
fn a_line_is_rewritten_only_where_that_can_be_done() {
    let Some(shown) = on_a_terminal("xterm", 20, &[]) else {
        println!("skipped: there is no program `script`, which makes terminals");
        return;
    };
    let drawn: Vec<_> = shown.split("\r\x1b[2K").collect();
    assert!(drawn.len() > 2 && drawn.iter().all(|drawn| drawn.chars().count() < 20), "{drawn:?}");
    let unknown_width = on_a_terminal("xterm", 0, &[]).unwrap();
    assert!(unknown_width.split("\r\x1b[2K").all(|drawn| drawn.chars().count() < 80), "{unknown_width:?}");
    for term in ["dumb", ""] {
        let plain = on_a_terminal(term, 20, &[]).unwrap();
        assert!(plain.contains("ok ") && plain.contains('\n') && !plain.contains('\x1b'), "{plain:?}");
    }
    let asked_for = on_a_terminal("dumb", 80, &["--live"]).unwrap();
    assert!(asked_for.contains("\x1b[2K"), "{asked_for:?}");
}
