//! What a server without a feature refuses, by the feature's name.
//!
//! A binary of its own, which links no store: the other tests are compiled once, with all features.

#![cfg(not(any(feature = "nats", feature = "redis")))]
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::fs;
use std::process::{Command, Stdio};

/// A table whose records are kept here, and one of Redis.
const HERE: &str = "type T @table @export { id: ID! @primaryKey }";
const IN_REDIS: &str = r#"type T @table(expiration: 60, registry: "redis") @export { id: ID! @primaryKey }"#;

/// Exit code 2 and one line that contains each of the words; nothing is stored.
fn assert_refused(sdl: &str, options: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (schema, data) = (folder.path().join("schema.graphql"), folder.path().join("data"));
    fs::write(&schema, sdl).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--schema"])
        .arg(&schema)
        .arg("--data-dir")
        .arg(&data)
        .args(options);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    assert!(!data.exists());
}

#[test]
fn options_of_nats_are_refused() {
    for set in [
        &["--nats-servers", "localhost:4222"][..],
        &["--jetstream"],
        &["--nats-receipts", "reply"],
        &["--outbox-bytes", "1M"],
    ] {
        assert_refused(HERE, set, &[set[0], "feature nats"]);
    }
}

#[test]
fn options_and_registries_of_redis_are_refused() {
    assert_refused(IN_REDIS, &[], &["registry", "feature redis"]);
    assert_refused(IN_REDIS, &["--redis-addr", "localhost:1"], &["--redis-addr", "feature redis"]);
}
