//! Queries: text to tree, tree to plan, plan to records.
//!
//! Four steps, each in its files. `parse` reads the text (FIQL) into a [`Query`], in which nothing has to be decoded, coerced or
//! looked up again; what is not served is refused at its byte. `plan` chooses an access path. `run` has it carried out: `walk` reads
//! entries and records as of one moment, and asks of each record what the index has not answered (`filter`), and of its related records
//! (`related`). What has no order yet is put in order (`sort`), and `select` copies what the answer shows. Memory follows the limit of
//! the list, never the number of records that are looked at, and has a bound in bytes; where others wait, work has one too (`budget`).
//!
//! ```text
//! "category==light&price=lt=20&sort=-rating&limit=5"
//!   -> All(category = light, price < 20), sort rating descending, limit 5
//!   -> the entries of category = light (40 of them, price has more); ask price; the best 5 by rating
//!   -> 40 records read, 5 visited
//! ```
//!
//! A list that was cut goes on at a cursor (`cursor`).
//!
//! Non-goals: HTTP (`handlers`).

mod budget;
mod cursor;
mod explain;
mod expression;
mod filter;
mod parse;
mod plan;
mod related;
mod run;
mod seen;
mod select;
mod sort;
mod tree;
mod walk;

pub use cursor::{Cursor, NOT_IN_URL};
pub use explain::Explanation;
pub use filter::CompiledFilter;
pub use parse::{CONDITIONS, DEPTH, EXPRESSIONS, Limits, RELATIONSHIPS, VALUES};
pub use plan::{PROBED, SORTED_ROWS};
pub use select::{JOINED_BYTES, Shown};
pub use sort::SORTED_BYTES;
pub use tree::{Clause, Filter, Order, Query, Selection};
pub use walk::GATHERED_BYTES;
