//! Queries: text to tree, tree to plan, plan to records.

mod tree;

pub use tree::{Filter, Order, Query};
