//! Load tests over HTTP: requests on a schedule, latencies from the intended start, and a verdict that names what cannot be believed.
//!
//! It speaks HTTP to a server process and shares no code with it. A module imports only from those above it:
//! a `scenario` says what to do, `schedule` when, `ledger` keeps account of every request, `connection` carries them, over `tls` or
//! not, `streams` keeps account of every event, `multicasts` of every message and its deliveries, `neighbours` are the real NATS and
//! Redis beside the server, `engine` runs the requests, `result` is what is `stored`, `rules` read a result and nothing else, so that
//! `load check` can judge a file as the run did.

pub mod output;
pub mod cargo;
pub mod brokers;
pub mod interrupt;
pub mod descriptors;
pub mod search;
pub mod random;
pub mod schedule;
pub mod template;
pub mod json;
pub mod picture;
pub mod expectation;
pub mod event;
pub mod scenario;
pub mod clocks;
pub mod live;
pub mod ledger;
pub mod feeds;
pub mod growth;
pub mod pinning;
pub mod quota;
pub mod counters;
pub mod url;
pub mod tls;
pub mod connection;
pub mod streams;
pub mod jetstream;
pub mod multicasts;
pub mod client;
pub mod null_server;
pub mod neighbours;
pub mod server;
pub mod engine;
pub mod result;
pub mod programs;
pub mod stored;
pub mod rules;
pub mod table;
pub mod lint;
pub mod run;
pub mod pair;
pub mod capacity;
pub mod calibration;
pub mod registry;
pub mod command;
