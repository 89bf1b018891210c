//! Handlers: what each method does to a resource, from the parts of a request to a complete response.
//!
//! Handlers are blocking functions over the operations of `transaction` and the types of `http`, without sockets or async, so that they can
//! be called, tested and measured in isolation. A read by id copies the stored JSON text once, and a write answers with the buffer into
//! which it has just encoded the record; nothing is parsed or serialised again. Other media types and content codings are converted from
//! that JSON (`media`, `coding`). The verbs of tables are in `record` and `list`; operations on many records that are not queries have
//! modules of their own: `batch` and `load`.
//!
//! Non-goals: routing a request to its handler (`routing`); reading bodies, and choosing the thread (`ingress`).

pub mod batch;
pub mod blobs;
pub mod coding;
mod events;
pub mod fields;
mod headers;
mod list;
pub mod load;
pub mod media;
pub mod multicast;
mod problem;
pub mod ranges;
mod record;
pub mod registry;
mod response;
pub mod streams;
pub mod thumbnails;

use serde::{Deserialize, Serialize};

pub use events::{accepts_events, event_stream, last_event_id, write_event};
pub use headers::{Validator, expected, is_stale, not_modified, of_one_record, unconditional, with_record};
pub use list::{PIECE_BYTES, list, list_head, list_in_pieces};
pub use problem::{Failure, PROBLEM_JSON, Result};
pub use record::{
    create, create_all, delete, delete_matching, merge, options, read, read_selected, replace, replace_all,
    update_matching,
};
pub use response::{JSON, Response, remove_content, with_body, without_body};

/// Limits of the handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The maximum number of records in a list.
    pub max_rows: usize,
    /// Bytes of events after which a response of a stream ends.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub stream_answer_bytes: usize,
    /// Maximum number of pixels of a picture of which a thumbnail is made.
    pub thumb_pixels: u64,
    /// Maximum bytes that making thumbnails takes, all together, files included.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub thumb_memory: usize,
    /// Maximum bytes of thumbnails that are kept; with 0 none is kept or shared.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub thumb_cache_bytes: usize,
    /// Maximum number of requests for which a thumbnail is to be made.
    pub thumbs_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_rows: 10_000,
            stream_answer_bytes: 1 << 20,
            thumb_pixels: 50_000_000,
            thumb_memory: 256 << 20,
            thumb_cache_bytes: 64 << 20,
            thumbs_in_flight: 64,
        }
    }
}

#[cfg(test)]
mod tests;
