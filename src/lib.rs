//! Strata: tables with secondary indexes on an embedded RocksDB, in your own process or served over HTTP, and measured layer by layer.
//!
//! **A program that embeds the store** uses the items at the root: [`Database`] opens it. The documentation of each has an example, and
//! docs/embedding.md is the way through them. They are what CHANGELOG calls the Rust API.
//!
//! The modules below are the layers, lowest first; each imports only from those above it in this list (`tests/architecture.rs`). They are
//! public with the feature `internals` alone, for the server, the benches and the tests, and may change at any time.

pub use embedding::{
    Append, Appended, Blob, BlobReader, BlobWriter, Change, Changed, Changes, Conditions, Counters, Database, Date,
    Durability, Error, Event, EventId, Events, Fields, IndexStatistics, Json, NotClosed, OffsetFault, OpenOptions,
    Page, PartitionStatistics, Place, Precondition, Query, Record, Records, RemoteFault, Result, Row, Schema, Sizes,
    Start, Statistics, Stream, StreamStatistics, Table, TableStatistics, Transaction, Value, View,
};

#[cfg(feature = "internals")]
pub use layers::*;
#[cfg(not(feature = "internals"))]
use layers::*;

/// The layers of the store. Without the server much of what they offer is unused, and less is public; here alone that is allowed.
#[path = ""]
#[cfg_attr(
    not(feature = "server"),
    allow(
        dead_code,
        unused_imports,
        unfulfilled_lint_expectations,
        reason = "what the server alone uses, and what is public for it"
    )
)]
mod layers {
    #[cfg(any(test, feature = "plant"))]
    pub(crate) mod plant;
    pub mod error;
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
    pub mod embedding;
}

#[cfg(feature = "server")]
pub use server_layers::*;

/// The layers of the server.
#[cfg(feature = "server")]
#[path = ""]
mod server_layers {
    pub mod pictures;
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
}
