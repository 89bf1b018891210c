//! The server from outside: real sockets, real processes, nothing but the bytes of HTTP.
//!
//! `scripts` runs `tests/golden/http/*`, which read as a manual of the interface; `blobs` is about bytes of any length, in and out; `bulk`
//! about loads and dumps of any size; `checkpoints` about copies of a store in use; `clients` about limits that one client cannot use up
//! for others; `codings` about what is compressed; `connections` about what a connection may do and how long; `descriptors` about having
//! few of them; `feed` about the changes that are told as they happen; `files` about static files beside the tables; `ids` about ids that
//! no URL can carry; `indexes` about what the server does beside requests; `local` about who is on the same machine; `messages` about
//! multicasts that are kept while the store changes; `nats` about multicasts over a real broker; `pages` about what web pages may load;
//! `private` about whose files are whose; `registrations` about what ends all at once; `records` about what is known of requests
//! afterwards; `process` about the binary: starting, refusing to start, stopping; `redis` about registrations that are kept in a real
//! Redis; `restarts` about stopping and starting without losing a request; `thumbnails` about pictures in other sizes; `tls` about certificates
//! and handshakes.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod blobs;
mod bulk;
mod checkpoints;
pub mod client;
mod clients;
mod codings;
mod connections;
mod descriptors;
mod feed;
mod files;
mod ids;
mod indexes;
mod local;
mod messages;
mod multicast;
#[cfg(feature = "nats")]
mod nats;
mod pages;
mod private;
mod process;
mod records;
#[cfg(feature = "redis")]
mod redis;
mod registrations;
mod restarts;
pub mod scripts;
mod streams;
mod thumbnails;
mod tls;
