//! The ceiling of the client is measured against the null server, and runs of the same kind are judged by it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::strata::{binary, result, results};

fn load(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    let calibration = folder.join("calibration");
    command.args(arguments).args(["--test-duration-secs", "0.5"]);
    command.arg("--results").arg(folder).arg("--calibration").arg(calibration).output().unwrap()
}

#[test]
fn the_ceilings_of_both_loops_are_stored_and_runs_of_their_kind_name_them() {
    let (folder, strata) = (tempfile::tempdir().unwrap(), binary());
    let output = load(&["calibrate"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stored = folder.path().join("calibration");
    let check = Command::new(env!("CARGO_BIN_EXE_load")).arg("check").arg(&stored).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{check:?}");
    let ceilings = results(&stored);
    let mut loops: Vec<_> = ceilings.iter().map(|run| run["loop"].as_str().unwrap()).collect();
    loops.sort_unstable();
    assert_eq!(loops, ["closed", "open"]);
    assert!(ceilings.iter().all(|run| run["tls"]["alpn"] == "http/1.1" && run["processes"]["server"] != Value::Null));
    let closed = ceilings.iter().find(|run| run["loop"] == "closed").unwrap();
    for (http, expected) in [("1.1", closed["id"].clone()), ("2", Value::Null)] {
        let folder = folder.path();
        let run = ["run", "throughput-read", "--seed-record-count", "100", "--http", http];
        let output = load(&[&run[..], &["--server", strata.to_str().unwrap()]].concat(), folder);
        let run = results(folder).into_iter().find(|run| run["scenario"]["http"] == http).unwrap();
        assert_eq!(run.pointer("/ceiling/run").cloned().unwrap_or_default(), expected, "{output:?}");
    }
}

#[test]
fn plain_http_and_http_2_have_ceilings_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = load(&["calibrate", "--no-tls", "--http", "2"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = result(&folder.path().join("calibration"));
    assert_eq!((&run["tls"], &run["scenario"]["http"], &run["broken"]), (&Value::Null, &json!("2"), &json!([])));
}
