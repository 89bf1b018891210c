//! The storage engine as its operators see it: loads, the YCSB mixes, stalls, restarts, and the engine's figures beside each rate.
//!
//! Each row is a workload: fixed work on one store, through Strata's API and with compactions on. A tenth of it warms the store up and is
//! not counted; the rest is timed in ten stretches, one after the other on the same store, and the figure is the mean over all of it,
//! stalls included. Two clients run the YCSB mixes, so that latencies are the engine's and not those of a queue for a core. They are
//! service times of a closed loop, by kind of operation, without the choice of the key. Their store fits the cache and is in it when the
//! clock starts, so they measure the engine's own work. The reads of a store ten times the cache measure the cost of not fitting. Versions
//! of YCSB differ in how popular its popular records are, and clients, records and durability differ too, so these rates are not comparable
//! with published ones.
//!
//! Each rate comes with what the engine did meanwhile. *Write amplification* is all bytes written (log, flushes, compactions) over the
//! bytes of the batches passed to the engine; data still in a memtable at the end has not been written to a file yet. *Space
//! amplification*, of rows that write, is the bytes of all keys and values in SST files at the end, memtables flushed, over those that a
//! full compaction then leaves: the difference was overwritten or deleted and is still stored. It is taken before compression, which is
//! stronger in compacted files. *Stall time* is how long the write path was slowed down or stopped, however many threads waited. *Peak
//! memory* is that of the whole process, which has run the previous rows. The records are those of all benches, and files of a store ten
//! times the cache may well be in the page cache of the operating system.
//!
//! Sustained puts are counted once compaction is steady: when the bytes that flushes and compactions write for each byte put, on average
//! over four windows in which half of the store is overwritten, differ by at most a fifth from those of the four windows before. Sustained
//! appends, too, in windows of a memtable, each with its compactions; beside them raw RocksDB puts the same bytes. After a kill, the store
//! is the one left by a process that SIGKILL ended with its last writes only in the log.

mod events;
mod floor;
mod prepared;
mod verbs;

#[path = "macro/background.rs"]
mod background;
#[path = "macro/load.rs"]
mod load;
#[path = "macro/opening.rs"]
mod opening;
#[path = "macro/streams.rs"]
mod streams;
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
        // Rows whose state names another cache use that one.
        suite.engine(serde_json::to_value(workload::options()).expect("options are JSON"));
        load::rows(suite);
        ycsb::rows(suite);
        background::rows(suite);
        opening::rows(suite);
        streams::rows(suite);
    });
}
