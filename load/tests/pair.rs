//! Two real servers in windows that take turns: both become runs that keep every rule, and what cannot be cut into windows is refused.

use std::process::{Command, Output};

use serde_json::Value;

use crate::strata;

fn pair(folder: &std::path::Path, words: &[&str]) -> Output {
    let (own, versus) = words.split_at(words.iter().position(|word| *word == "--").unwrap());
    Command::new(env!("CARGO_BIN_EXE_load"))
        .arg("pair")
        .args(own)
        .arg("--results")
        .arg(folder)
        // Of both sides.
        .env("STRATA_BINARY", strata::binary())
        .args(versus)
        .output()
        .unwrap()
}

#[test]
fn both_sides_of_a_pair_are_runs_that_keep_every_rule() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["throughput-write", "--test-duration-secs", "0.8", "--windows", "4", "--warmup-requests", "20"];
    let versus = ["--", "throughput-write", "--test-duration-secs", "0.8", "--warmup-requests", "20", "--no-tls"];
    let done = pair(folder.path(), &[&load[..], &versus].concat());
    // 1 is a client that was the bottleneck.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&done.stderr));
    let ids: Vec<String> = serde_json::from_slice(&done.stdout).unwrap();
    let read = |id: &String| -> Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(format!("{id}.json"))).unwrap()).unwrap()
    };
    let [a, b] = [read(&ids[0]), read(&ids[1])];
    assert_eq!((&a["scenario"]["tls"], &b["scenario"]["tls"]), (&Value::Bool(true), &Value::Bool(false)));
    for side in [a, b] {
        assert!(side["window"]["seconds"].as_f64().unwrap() >= 0.8, "{}", side["window"]);
        // The rows of one window are not those of another: each POST was of a new one.
        assert_eq!((&side["broken"], &side["total"]["failed"]), (&serde_json::json!([]), &serde_json::json!({})));
    }
    let check = Command::new(env!("CARGO_BIN_EXE_load")).arg("check").arg(folder.path()).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn what_cannot_be_cut_into_windows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| {
        let done = pair(folder.path(), &[words, &["--", "throughput-read"]].concat());
        assert_eq!(done.status.code(), Some(2));
        String::from_utf8(done.stderr).unwrap().lines().last().unwrap().to_owned()
    };
    let by_number = refused(&["throughput-read", "--requests", "10"]);
    assert_eq!(by_number, "load: throughput-read: windows that take turns have a length: --test-duration-secs");
    let changing = refused(&["throughput-read", "--schedule", "ramp"]);
    assert_eq!(changing, "load: throughput-read: windows that take turns have one rate: --rate, or --closed");
    let parts = refused(&["throughput-read", "--rate", "10", "--test-duration-secs", "1"]);
    assert_eq!(
        parts,
        "load: throughput-read: the rate times the length of a window is no whole number: choose another number of windows (--windows)"
    );
    let unlike = refused(&["rest-crud", "--apart"]);
    assert!(unlike.contains("variants"), "{unlike}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
