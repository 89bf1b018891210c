//! A storage engine as its operators know it: loads, the YCSB mixes, stalls, restarts, and what stands beside each rate.
//!
//! Each row is a workload: fixed work on one store, through our own API and with compactions on. A tenth of it warms the store up and
//! is not counted; the rest is timed in ten stretches, one after the other on the same store, and the figure is the mean over all of
//! it, stalls included. Two clients run the YCSB mixes, so that latencies are the engine's and not those of a queue for a core. They
//! are service times of a closed loop, by kind of operation; choosing the key is outside of them. Their store fits the cache and is in
//! it when the clock starts: what they tell is the engine's own work. What it costs when it does not fit is told by the reads of a
//! store ten times the cache. Versions of YCSB differ in how popular its popular records are, and clients, records and durability are
//! not those of others either: these rates are not to be set beside published ones.
//!
//! Beside each rate stands what the engine did meanwhile. *Write amplification* is all bytes written (log, flushes, compactions) over
//! the bytes of the batches that were handed to the engine; what is still in a memtable at the end has not been written to a file yet.
//! *Space amplification*, of rows that write, is the bytes of all keys and values in the sorted files at the end, memtables flushed, over
//! what a full compaction then leaves of them: what was overwritten or deleted and is still there. It is taken before compression, which
//! is stronger in files that were compacted. *Stall time* is how long the path of writes was slowed down or stopped, however many
//! waited. *Peak memory* is that of the whole process, which has run the rows before. The records are those of all benches, and files of
//! a store ten times the cache may well be in the page cache of the operating system.
//!
//! Sustained puts are counted once compaction is steady: when, over three neighbouring windows in which half of the store is
//! overwritten, the bytes that flushes and compactions write for each byte put lie within a fifth of their mean.
//! After a kill, the store is what a process left that was ended by SIGKILL with its last writes in the log alone.

mod floor;
mod prepared;
mod verbs;

#[path = "macro/background.rs"]
mod background;
#[path = "macro/load.rs"]
mod load;
#[path = "macro/opening.rs"]
mod opening;
#[path = "macro/workload.rs"]
mod workload;
#[path = "macro/ycsb.rs"]
mod ycsb;

use strata_harness::suite;

fn main() {
    if opening::is_to_be_killed() {
        return;
    }
    suite("macro", |suite| {
        // Rows whose state names another cache have that one.
        suite.engine(serde_json::to_value(workload::options()).expect("options are JSON"));
        load::rows(suite);
        ycsb::rows(suite);
        background::rows(suite);
        opening::rows(suite);
    });
}
