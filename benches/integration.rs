//! The verbs by number of indexes: what one and two secondary indexes cost each of them.
//!
//! CREATE, READ, UPDATE, DELETE and a mix of seven reads and three creates, in process, on tables with none, one (hash) and two
//! (hash and ordered) indexes, by one thread and by eight. UPDATE patches an attribute without an index; what an update of indexed
//! attributes costs stands in the transaction layer. The loss against no index is what the document prints.
//!
//! Beside ours, with one thread, stands SQLite, linked into the same program and doing the same work on the same records: a JSON
//! body in, JSON text out, the same indexes. It stores that text too, with the id and what is indexed as columns beside it; bodies
//! are checked by serde_json. One connection, a prepared statement for each verb, exclusive locking, a cache as large as ours,
//! `WAL` with `synchronous = NORMAL`: an acknowledged write survives the process and not the machine, as ours does under `soft`.
//! Every page of its file is in that cache, as every block of ours is; that SQLite counts its memory is its default. Its log is as
//! long as our memtable is large. What differs is who pays when that is full: SQLite's writer syncs the log and copies it into the
//! file, while we flush in the background, and compaction is off here. Allocations count Rust's alone, on both sides. Its ratio has no
//! goal: wins and losses are told alike.
//!
//! CREATE and the mix create as many records in a sample, so that these two fill the memtable, and SQLite's log, alike; UPDATE and DELETE
//! fill them otherwise. READ has an empty memtable. The mix has not: its reads of ours search first what its creates wrote, and so it
//! takes longer than its parts by their shares.

mod floor;
mod prepared;
mod sqlite;
mod verbs;

use std::sync::Arc;

use prepared::{Ours, SST, WRITES, WRITTEN, described, options, records, soft};
use sqlite::Peer;
use strata_harness::{Facts, Suite, Unit, suite};

fn main() {
    suite("integration", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        for indexes in [0, 1, 2] {
            for threads in [1, 8] {
                rows(suite, indexes, threads);
            }
        }
    });
}

fn rows(suite: &mut Suite, indexes: u32, threads: usize) {
    let n = records(suite.scale());
    let many = n * 4;
    let plural = |count: usize, word: &str| format!("{count}_{word}{}", if count == 1 { "" } else { "s" });
    let case =
        &format!("{}_{}", plural(indexes as usize, "index").replace("indexs", "indexes"), plural(threads, "thread"));
    let about = |op: &str, n| {
        Facts::new(op).data(described(n)).state(SST).indexes(indexes).threads(threads).unit(Unit::Records, 1)
    };
    let written = |op: &str, n| about(op, n).durability(soft()).state(WRITTEN);
    let writing = |op: &str, n| written(op, n).changes_store(WRITES, None);
    let facts = writing("creates one record from a JSON body; the id is made", n);
    beside_peer(suite, "create", case, facts, n, verbs::create, sqlite::create);
    let facts = about("reads one record by id", n);
    beside_peer(suite, "read", case, facts, n, |ours| verbs::read(ours, n), |peer| sqlite::read(peer, n));
    let facts = writing("patches one attribute that has no index", n);
    let theirs = |peer| sqlite::update_unindexed(peer, n);
    beside_peer(suite, "update", case, facts, n, |ours| verbs::update_unindexed(ours, n), theirs);
    let facts = written("deletes one record", many).changes_store(WRITES.min(many / 4), many);
    beside_peer(
        suite,
        "delete",
        case,
        facts,
        many,
        |ours| verbs::delete(ours, many),
        |peer| sqlite::delete(peer, many),
    );
    // As many creates a sample as CREATE has, so that the memtable, and SQLite's log, are as full.
    let mixed = written("seven of ten read one record by id, three create one", n).changes_store(WRITES * 10 / 3, None);
    beside_peer(suite, "mixed", case, mixed, n, |ours| verbs::mixed(ours, n), |peer| sqlite::mixed(peer, n));
}

/// A verb of ours, and with one thread the same of SQLite, which has one writer.
fn beside_peer<O: FnMut(u64) -> u64 + Send, P: FnMut(u64) -> u64 + Send>(
    suite: &mut Suite,
    verb: &str,
    case: &str,
    facts: Facts,
    records: u64,
    ours: impl Fn(Arc<Ours>) -> O + Sync,
    theirs: impl Fn(Arc<Peer>) -> P + Sync,
) {
    let indexes = facts.indexes.expect("every row of this suite says how many");
    let (about, has_peer) = (facts.clone(), facts.threads == 1);
    let about = if has_peer { about.peer("sqlite") } else { about };
    suite.row(verb, "strata", case, about, || Ours::copy(indexes, records), ours);
    if has_peer {
        suite.row(verb, "sqlite", case, facts.state(sqlite::state()), || Peer::copy(indexes, records), theirs);
    }
}
