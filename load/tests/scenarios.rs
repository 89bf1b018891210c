//! Scenarios that are wrong are refused with file, key and reason, and those that the program carries are right.

use std::process::Command;

use strata_load::command::scenario;
use strata_load::scenario::Scenario;

const GOOD: &str = include_str!("../scenarios/rest-crud.toml");

#[test]
fn carried_scenarios_are_right() {
    for name in ["throughput-read", "throughput-write", "rest-crud"] {
        assert_eq!(scenario(name).unwrap().name, name);
    }
}

#[test]
fn mistakes_are_refused_by_their_key() {
    for (from, to, key) in [
        ("name = \"rest-crud\"", "name = \"a/b\"", "name"),
        ("rows = 10000", "rows = 0", "data.rows"),
        ("rows = 10000", "rows = \"many\"", "data.rows"),
        ("spare = 2000", "spare = 0", "operations[5].row"),
        ("connections = 50", "connections = 0", "load.connections"),
        ("connections = 50", "connections = 50\nstreams = 4", "load.streams"),
        ("connections = 50", "connections = 50\nthread = 4", "load.thread"),
        ("connections = 50", "connections = 50\nseconds = 4.0", "load.schedule"),
        ("rate = 1000.0", "rate = -1.0", "load.schedule.rate"),
        ("weight = 70.0", "weight = 0.0", "operations[0].weight"),
        ("method = \"PUT\"", "method = \"P T\"", "operations[3].method"),
        ("path = \"/Product/p{n}\"", "path = \"Product\"", "operations[0].path"),
        ("path = \"/Product/p{n}\"", "path = \"/Product/p{m}\"", "operations[0].path"),
        ("expect = { status = 204, bytes = 0 }", "", "operations[5]"),
        ("expect = { status = 204, bytes = 0 }", "expect = { status = 204 }", "operations[5].expect"),
        ("name = \"put\"", "name = \"post\"", "operations[3].name"),
        ("operations = [\"get list\"]", "operations = [\"get\"]", "effects[1].operations"),
        ("each = 1.0", "each = 0.0", "effects[0].each"),
        ("[data]", "[[objectives]]\noperation = \"x\"\nbound = { throughput_at_least = 1.0 }\n[data]", "objectives[0]"),
        (
            "[data]",
            "[[objectives]]\nbound = { response = { quantile = 0.99, at_most_ms = 5.0 } }\n[data]",
            "objectives[0]",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let refusal = Scenario::parse("file.toml", &GOOD.replacen(from, to, 1)).unwrap_err();
        assert_eq!((refusal.file.as_str(), refusal.key.as_str()), ("file.toml", key), "{to}: {}", refusal.reason);
    }
}

#[test]
fn a_file_that_is_wrong_ends_the_program_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    std::fs::write(&file, GOOD.replacen("rows = 10000", "rows = 0", 1)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_load")).arg("run").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("wrong.toml: data.rows: at least 1"), "{said}");
}
