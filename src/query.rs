//! Queries: parsing, planning and execution.
//!
//! The steps are separate modules. `parse` turns the text (FIQL) into a [`Query`], in which nothing is left to decode, coerce or look up;
//! anything unsupported is rejected with its byte offset. `plan` chooses an access path. `run` executes the plan: `walk` reads entries and
//! records at one snapshot and evaluates the residual filter, i.e. the conditions that the index has not answered (`filter`), and those on
//! related records (`related`). Results without an order are sorted (`sort`), and `select` copies the selected values. Memory is bounded in
//! bytes and depends on the limit of the list, never on the number of records examined; on a worker thread, work is bounded too (`budget`).
//!
//! ```text
//! "category==light&price=lt=20&sort=-rating&limit=5"
//!   -> All(category = light, price < 20), sort rating descending, limit 5
//!   -> scan the entries of category = light (40 of them, price has more); filter by price; top 5 by rating
//!   -> 40 records read, 5 visited
//! ```
//!
//! A truncated list is continued from a cursor (`cursor`, `paging`). Records that are kept elsewhere are given, and take no plan (`given`).
//!
//! Non-goals: HTTP (`handlers`).

mod budget;
mod check;
mod cursor;
mod explain;
mod expression;
mod filter;
mod given;
mod ids;
mod paging;
mod parse;
mod plan;
mod related;
mod run;
mod seen;
mod select;
mod sort;
mod source;
mod tree;
mod walk;

pub use cursor::Cursor;
pub use explain::Explanation;
pub use filter::CompiledFilter;
pub use paging::NOT_IN_URL;
pub use parse::{CONDITIONS, DEPTH, EXPRESSIONS, Limits, RELATIONSHIPS, VALUES};
pub use plan::{PROBED, SORTED_ROWS};
pub use select::{JOINED_BYTES, ListOutcome};
pub use sort::SORTED_BYTES;
pub use tree::{Clause, Filter, Order, Query, Selection};
pub use walk::GATHERED_BYTES;
