//! The real server and what runs against it leave behind.

use std::path::{Path, PathBuf};

use serde_json::Value;

use strata_load::cargo::cargo;

/// The server's binary. Built beside a test, it shares its library with tests and benches: without one, crates would have other features.
pub fn binary() -> PathBuf {
    let build = ["build", "--release", "--workspace", "--quiet", "--bin", "strata", "--test", "features"];
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert!(cargo().args(build).current_dir(workspace).status().unwrap().success());
    Path::new(env!("CARGO_BIN_EXE_load")).with_file_name("strata")
}

/// One of the results in a folder.
pub fn result(folder: &Path) -> Value {
    results(folder).pop().unwrap()
}

/// The results in a folder.
pub fn results(folder: &Path) -> Vec<Value> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}
