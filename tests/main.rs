//! All integration tests are one binary, because each binary links RocksDB.

mod architecture;
mod conformance;
mod crash;
mod engine;
mod golden;
mod http;
mod query;
mod settings;
