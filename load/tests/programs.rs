//! Programs beside the load, and checks behind it: real processes, which are killed, end by themselves, or say no.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use strata_load::scenario::Scenario;

use crate::strata::{binary, result};

const SCENARIO: &str = r#"
name = "copied"
about = "a program beside it, killed twice"
tls = false
effects = [{ counter = "streams.appends", operations = ["append"], each = 1.0 }]
[data]
schema = "type Click @stream(partitions: 4) @export"
stream = "Click"
rows = 40
row = '{{"payload":{n},"partition":{n%4}}}'
[load]
connections = 4
warm_up_requests = 10
seconds = 2.0
[[operations]]
name = "append"
weight = 1.0
method = "POST"
path = "/Click"
row = "new"
body = '{{"payload":{n},"partition":{n%4}}}'
acknowledges = { partition = "/partition", offset = "/offset" }
expect = { status = 202, has = { "/partition" = "{n%4}" } }
[[beside]]
program = "copy"
arguments = ["{folder}", "{url}"]
kills = 2
every_seconds = 0.5
[[checks]]
name = "three starts"
program = "look"
arguments = ["{folder}"]
"#;

/// Runs until it is asked to end, and asks the server now and then, as a consumer would.
const COPY: &str = "trap 'exit 0' TERM\necho \"$$ $2\" >> \"$1/starts\"\nwhile :; do sleep 0.05; done";
const LOOK: &str = "[ \"$(grep -c http:// \"$1/starts\")\" = 3 ] && echo '{\"starts\": 3}'";

/// Runs the scenario with these programs, of which one may be missing.
fn ran(folder: &Path, programs: &[(&str, &str)]) -> Output {
    command(folder, programs).output().unwrap()
}

fn command(folder: &Path, programs: &[(&str, &str)]) -> Command {
    let file = folder.join("copied.toml");
    fs::write(&file, SCENARIO).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    command.arg("run").arg(file).arg("--server").arg(binary()).arg("--results").arg(folder.join("results"));
    for (name, text) in programs {
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        command.arg(format!("--program={name}={}", program.display()));
    }
    command
}

fn broken(run: &Value) -> String {
    run["broken"].to_string()
}

#[test]
fn a_program_runs_beside_and_a_check_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = ran(folder.path(), &[("copy", COPY), ("look", LOOK)]);
    let run = result(&folder.path().join("results"));
    assert_eq!((&run["broken"], output.status.code()), (&json!([]), Some(0)), "{output:?}");
    assert_eq!(run["beside"], json!([{"program": "copy", "kills": 2, "failure": null}]));
    assert_eq!((&run["checks"][0]["told"], &run["checks"][0]["failure"]), (&json!({"starts": 3}), &Value::Null));
    assert!(String::from_utf8_lossy(&output.stdout).contains("three starts"));
}

#[test]
fn what_fails_makes_a_run_invalid() {
    let faults = [
        ("exit 3", LOOK, "T14: copy: it ended during the run: exit status: 3"),
        ("echo the disk is full >&2; exit 1", LOOK, "the disk is full"),
        ("trap 'exit 5' TERM\nwhile :; do sleep 0.05; done", "echo '{}'", "T14: copy: asked to end: exit status: 5"),
        (COPY, "echo two rows are missing >&2; echo '{\"rows\": 8}'; exit 1", "two rows are missing"),
        (COPY, "echo right", "T14: three starts: it printed no JSON object"),
    ];
    for (copy, look, expected) in faults {
        let folder = tempfile::tempdir().unwrap();
        let output = ran(folder.path(), &[("copy", copy), ("look", look)]);
        let run = result(&folder.path().join("results"));
        assert_eq!((&run["validity"], output.status.code()), (&json!("invalid"), Some(1)), "{copy}");
        assert!(broken(&run).contains(expected), "{expected}: {}", broken(&run));
    }
}

#[test]
fn without_a_program_a_scenario_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let output = ran(folder.path(), &[("copy", COPY)]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("skipped: it needs a program: --program look=PATH"),
        "{said}"
    );
}

/// Returns true if there is a shell whose last argument is a process group.
fn has_helper(group: u32) -> bool {
    let commands =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands
        .into_iter()
        .any(|command| command.starts_with(b"sh\0") && command.ends_with(format!("\0sh\0{group}\0").as_bytes()))
}

#[test]
fn a_program_ends_with_a_load_tool_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let copy = format!("echo $$ > {}/process\n{COPY}", folder.path().display());
    let mut load = command(folder.path(), &[("copy", &copy), ("look", LOOK)]).stdout(Stdio::null()).spawn().unwrap();
    let process = loop {
        assert!(load.try_wait().unwrap().is_none(), "the load tool has ended");
        let text = fs::read_to_string(folder.path().join("process")).unwrap_or_default();
        match text.trim().parse::<u32>() {
            Ok(process) => break process,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    // It starts a moment before the helper that ends it.
    while !has_helper(process) {
        assert!(load.try_wait().unwrap().is_none(), "the load tool has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    load.kill().unwrap();
    load.wait().unwrap();
    // Whether anybody waits for it then is not ours to say.
    let runs = || fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
    while runs() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let faults = [
        ("program = \"copy\"", "program = \"a copy\"", "beside[0].program"),
        ("every_seconds = 0.5", "", "beside[0].every_seconds"),
        ("kills = 2\n", "", "beside[0].every_seconds"),
        ("every_seconds = 0.5", "every_seconds = 1.0", "beside[0].kills"),
        ("program = \"look\"", "program = \"\"", "checks[0].program"),
        ("name = \"three starts\"", "name = \"\"", "checks[0].name"),
        ("[[checks]]", "[sweep]\nprograms = [\"sql\"]\n[[checks]]", "sweep.programs"),
    ];
    for (from, to, key) in faults {
        let refusal = Scenario::parse("copied.toml", &SCENARIO.replacen(from, to, 1)).unwrap_err();
        assert_eq!(refusal.key, key, "{refusal}");
    }
    let swept = SCENARIO.replace("program = \"copy\"", "program = \"copy-{program}\"");
    let swept = swept.replacen("[[checks]]", "[sweep]\nprograms = [\"sql\", \"rest\"]\n[[checks]]", 1);
    let variants = Scenario::parse("copied.toml", &swept).unwrap().variants();
    let names: Vec<_> = variants.iter().map(|one| (one.name.as_str(), one.beside[0].program.as_str())).collect();
    assert_eq!(names, [("copied-sql", "copy-sql"), ("copied-rest", "copy-rest")]);
}
