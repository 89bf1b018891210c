//! The Rust API: a database in your own process, with handles that a program keeps, rows that are its own types, and one error.
//!
//! Everything here stands at the root of the crate ([`crate::Database`]); tests/embedding/front.txt lists it with its signatures. It adds
//! no behaviour to the layers below: a handle is a reference to what they have open, a row becomes the JSON text that a body would have.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use strata::{Database, Schema};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Product {
//!     id: String,
//!     price: f64,
//! }
//!
//! let schema = Schema::parse("type Product @table { id: ID! @primaryKey  price: Float @indexed }")?;
//! let database = Database::temporary(&schema)?;
//! let products = database.table("Product")?;
//! database.create(&products, &Product { id: "lamp".into(), price: 25.0 })?;
//! let dear = products.query().at_least("price", 20).build()?;
//! for record in dear.iter(&database.view()) {
//!     assert_eq!(record?.to::<Product>()?.id, "lamp");
//! }
//! # Ok::<(), strata::Error>(())
//! ```
//!
//! Non-goals: HTTP and all that belongs to it (`server`), brokers over which messages travel besides.

mod blobs;
mod changes;
mod conditions;
mod database;
mod fields;
mod options;
mod query;
mod record;
mod row;
mod stream;
mod table;
mod transaction;
mod view;

pub use crate::encoding::Value;
pub use crate::encoding::value::{Blob, Date};
pub use crate::error::{Error, OffsetFault, Place, RemoteFault, Result};
pub use crate::feed::EventId;
pub use crate::maintenance::{IndexStatistics, Statistics, TableStatistics};
pub use crate::schema::Durability;
pub use crate::storage::{Counters, Gauges as Sizes};
pub use crate::streams::{Appended, PartitionStatistics, Start, Statistics as StreamStatistics};
pub use crate::transaction::Precondition;
pub use blobs::{BlobReader, BlobWriter};
pub use changes::{Change, Changed, Changes};
pub use conditions::Conditions;
pub use database::{Database, NotClosed};
pub use fields::Fields;
pub use options::OpenOptions;
pub use query::{Page, Query, Records};
pub use record::Record;
pub use row::{Json, Row};
pub use stream::{Append, Event, Events, Stream};
pub use table::{Schema, Table};
pub use transaction::Transaction;
pub use view::View;

#[cfg(test)]
mod tests;
