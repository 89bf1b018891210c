//! Queries: text to tree, tree to plan, plan to records.

mod parse;
mod tree;

pub use parse::{CONDITIONS, DEPTH, Limits};
pub use tree::{Filter, Order, Query};
