//! The verbs by number of indexes: what one and two secondary indexes cost each of them.
//!
//! CREATE, READ, UPDATE, DELETE and a mix of seven reads and three creates, in process, on tables with none, one (hash) and two (hash and
//! ordered) indexes, by one thread and by eight. UPDATE has two rows: `unindexed` patches one attribute that has no index, `indexed` both
//! attributes that the indexes are on, if there are any. The page prints the loss against no index.
//!
//! The peer, with one thread, is SQLite, linked into the same program and doing the same work on the same records: a JSON body in, JSON
//! text out, the same indexes. It stores that text too, with the id and the indexed attributes in separate columns; bodies are checked by
//! serde_json. It has one connection, a prepared statement for each verb, exclusive locking, a cache as large as Strata's, and `WAL` with
//! `synchronous = NORMAL`: an acknowledged write survives the process but not the machine, as under `soft`. Every page of its file is in
//! that cache, as every block of Strata is; its memory statistics are on, the default. Its log is as long as the memtable is large. They
//! differ in who pays when that is full: SQLite's writer syncs the log and copies it into the file, while Strata flushes in the background,
//! and compaction is off here. Allocations are Rust's only, on both sides. The ratio has no goal: wins and losses are reported alike.
//!
//! CREATE and the mix create as many records per sample, so that both fill the memtable, and SQLite's log, alike; UPDATE and DELETE fill
//! them differently. READ has an empty memtable; in the mix, Strata's reads first search the memtable that its creates fill. So its two
//! parts have rows of their own: `mixed_read` does the reads of the mix with half of its creates done, `mixed_create` does its creates, and
//! each does nothing in the operations of the other. The time of the mix beyond the sum of the two is what its verbs cost each other.

mod floor;
mod prepared;
mod sqlite;
mod verbs;

use std::sync::Arc;

use prepared::{MIXED, Ours, SST, WRITES, WRITTEN, described, options, records, soft};
use sqlite::Peer;
use strata_harness::{Depth, Facts, Suite, Unit, suite};

fn main() {
    suite("integration", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        for indexes in [0, 1, 2] {
            for threads in [1, 8] {
                let place = Place::new(indexes, threads);
                verbs(suite, &place);
                mix(suite, &place);
            }
        }
    });
}

/// The indexes and threads of a group of rows, and their common facts.
struct Place {
    case: String,
    indexes: u32,
    threads: usize,
}

impl Place {
    fn new(indexes: u32, threads: usize) -> Self {
        let plural = |count: usize, word: &str| format!("{count}_{word}{}", if count == 1 { "" } else { "s" });
        let case =
            format!("{}_{}", plural(indexes as usize, "index").replace("indexs", "indexes"), plural(threads, "thread"));
        Self { case, indexes, threads }
    }

    fn reading(&self, op: &str, records: u64) -> Facts {
        let about = Facts::new(op).data(described(records)).state(SST).indexes(self.indexes).threads(self.threads);
        about.unit(Unit::Records, 1)
    }

    /// Changes this many records per sample.
    fn writing(&self, op: &str, records: u64, operations: u64) -> Facts {
        self.reading(op, records).durability(soft()).state(WRITTEN).changes_store(operations, None)
    }
}

fn verbs(suite: &mut Suite, place: &Place) {
    let (n, case) = (records(suite.scale()), &place.case);
    let facts = place.writing("creates one record from a JSON body; the id is made", n, WRITES);
    beside_peer(suite, "create", case, facts, Ours::copy, n, verbs::create, sqlite::create);
    let facts = place.reading("reads one record by id", n);
    let (read, theirs) = (|ours| verbs::read(ours, n), |peer| sqlite::read(peer, n));
    beside_peer(suite, "read", case, facts, Ours::copy, n, read, theirs);
    let facts = place.writing("patches one attribute that has no index", n, WRITES);
    let (update, theirs) = (|ours| verbs::update_unindexed(ours, n), |peer| sqlite::update_unindexed(peer, n));
    beside_peer(suite, "update", &format!("{case}_unindexed"), facts, Ours::copy, n, update, theirs);
    let facts = place.writing("patches both attributes that may have an index", n, WRITES);
    let (update, theirs) = (|ours| verbs::update_indexed(ours, n), |peer| sqlite::update_indexed(peer, n));
    beside_peer(suite, "update", &format!("{case}_indexed"), facts, Ours::copy, n, update, theirs);
    let many = n * 4;
    let facts =
        place.writing("deletes one record", many, WRITES.min(many / 4)).changes_store(WRITES.min(many / 4), many);
    let (delete, theirs) = (|ours| verbs::delete(ours, many), |peer| sqlite::delete(peer, many));
    beside_peer(suite, "delete", case, facts, Ours::copy, many, delete, theirs);
}

/// A mix, and each of its parts alone under the same conditions, so that Strata's mix can be compared with their sum.
fn mix(suite: &mut Suite, place: &Place) {
    let (n, case) = (records(suite.scale()), &place.case);
    // As many creates per sample as CREATE, so that the memtable, and SQLite's log, are as full.
    let facts = place.writing("seven of ten read one record by id, three create one", n, MIXED);
    let (mixed, theirs) = (|ours| verbs::mixed(ours, n), |peer| sqlite::mixed(peer, n));
    beside_peer(suite, "mixed", case, facts, Ours::copy, n, mixed, theirs);
    let part = |facts: Facts| facts.unit(Unit::Operations, 1).against(format!("mixed/strata/{case}"));
    let op = "reads one record by id in 7 of 10 operations of a mix with half of its creates done; does nothing in 3";
    let facts = part(place.reading(op, n).state(WRITTEN));
    let setup = || Ours::in_a_mix(place.indexes, n);
    suite.row("mixed_read", "strata", case, facts, setup, |ours| verbs::mixed_read(ours, n));
    let facts = part(place.writing("creates one record in 3 of 10 operations of a mix; does nothing in 7", n, MIXED));
    let setup = || Ours::copy(place.indexes, n);
    suite.row("mixed_create", "strata", case, facts, setup, verbs::mixed_create);
}

/// A verb of Strata and, with one thread, the same of SQLite, which has one writer.
#[expect(clippy::too_many_arguments, reason = "a row of ours and one of theirs at once")]
fn beside_peer<O: FnMut(u64) -> u64 + Send, P: FnMut(u64) -> u64 + Send>(
    suite: &mut Suite,
    verb: &str,
    case: &str,
    facts: Facts,
    setup: impl Fn(u32, u64) -> Ours,
    records: u64,
    ours: impl Fn(Arc<Ours>) -> O + Sync,
    theirs: impl Fn(Arc<Peer>) -> P + Sync,
) {
    let indexes = facts.indexes.expect("every row of this suite says how many");
    let (about, has_peer) = (facts.clone(), facts.threads == 1);
    let about = if has_peer { about.peer("sqlite").depth(Depth::Quick) } else { about.depth(Depth::Default) };
    let about = match indexes {
        0 => about,
        some => about.against(format!("{verb}/strata/{}", without_index(case, some))),
    };
    suite.row(verb, "strata", case, about, || setup(indexes, records), ours);
    if has_peer {
        suite.row(verb, "sqlite", case, facts.state(sqlite::state()), || Peer::copy(indexes, records), theirs);
    }
}

/// The same case on a table without an index.
fn without_index(case: &str, indexes: u32) -> String {
    let plural = if indexes == 1 { "1_index_".to_owned() } else { format!("{indexes}_indexes_") };
    case.replacen(&plural, "0_indexes_", 1)
}
