//! The tool from outside: a server with scripted faults and known answers, results that are wrong, scenarios that are wrong.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod beforehand;
mod calibration;
mod capacity;
mod carried;
mod conservation;
mod faults;
mod faulty_multicast;
mod faulty_server;
mod faulty_stream;
mod interrupt;
mod lint;
mod live;
mod multicasts;
mod nats;
mod outputs;
mod pair;
mod pause;
mod programs;
mod publisher;
mod reasons;
mod restarts;
mod scenarios;
mod strata;
mod stream_scenarios;
mod streams;
mod tls;
mod which_server;
mod windows;
mod wrong_results;
