//! A store in a database: the calls of a remote store, against the same requests by the client of the database itself.
//!
//! Both sides talk to a PostgreSQL, or to the double of TiKV, on this machine, each to one of its own, and the floor reads and writes the very
//! rows that ours does, its receipt included. The times are those of a loopback: a network adds its own to each round trip, and the
//! database of another machine does not share the processor. **The double is not TiKV**: its store is in memory and replicates nothing, so
//! its rows say what the client and we cost, and nothing of a cluster. The floor waits on the thread that drives its connection; ours has a
//! thread that drives those of all, and hands each answer over.

#[allow(dead_code, reason = "the load tool does more with brokers")]
#[path = "../load/src/brokers.rs"]
mod brokers;
#[cfg(all(feature = "postgres", feature = "tikv"))]
#[path = "databases/floor.rs"]
mod floor;
#[cfg(all(feature = "postgres", feature = "tikv"))]
#[path = "databases/ours.rs"]
mod ours;

use strata_harness::suite;

fn main() {
    suite("databases", |suite| {
        #[cfg(all(feature = "postgres", feature = "tikv"))]
        ours::measure(suite);
        #[cfg(not(all(feature = "postgres", feature = "tikv")))]
        let _ = suite;
    });
}
