//! All integration tests that use the library are one binary, because each links RocksDB.

mod architecture;
#[cfg_attr(not(feature = "tikv"), allow(dead_code, reason = "only tests over the double of TiKV administer it"))]
#[path = "../load/src/brokers.rs"]
mod brokers;
#[path = "../load/src/cargo.rs"]
mod cargo;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod checksums;
mod conformance;
mod crash;
mod documentation;
mod embedding;
mod engine;
mod golden;
mod graphql;
mod http;
mod openapi;
mod query;
#[cfg(feature = "simulated")]
mod remote;
mod settings;
mod streams;
