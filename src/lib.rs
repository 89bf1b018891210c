//! Strata: tables with secondary indexes on an embedded RocksDB, served over HTTP, and measured layer by layer.
//!
//! The modules are the layers, lowest first; each imports only from those above it in this list (`tests/architecture.rs`).
//! [`transaction::Database`] opens a store in your own process; `server` serves it.

#[cfg(any(test, feature = "plant"))]
mod plant;
pub mod error;
pub mod pictures;
pub mod size;
pub mod schema;
pub mod encoding;
pub mod storage;
pub mod locking;
pub mod indexes;
pub mod transaction;
pub mod query;
pub mod feed;
pub mod multicast;
pub mod blobs;
pub mod streams;
pub mod maintenance;
pub mod observability;
pub mod handlers;
pub mod graphql;
pub mod static_files;
pub mod console;
pub mod openapi;
pub mod routing;
pub mod ingress;
pub mod tls;
pub mod config;
pub mod server;
