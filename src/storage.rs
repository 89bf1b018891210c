//! The storage engine: get, multi-get, scan, write, snapshot, durability.

mod rocks;
mod striped;

pub use rocks::*;
pub(crate) use striped::Striped;
