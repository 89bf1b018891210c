//! The verbs by number of indexes: what one and two secondary indexes cost each of them.
//!
//! CREATE, READ, UPDATE, DELETE and a mix of seven reads and three creates, in process, on tables with none, one (hash) and two
//! (hash and ordered) indexes, by one thread and by eight. UPDATE patches an attribute without an index; what an update of indexed
//! attributes costs stands in the transaction layer. The loss against no index is what the document prints.

mod floor;
mod prepared;
mod verbs;

use prepared::{Ours, SST, described, options, records, soft};
use strata_harness::{Facts, Scale, Suite, Unit, suite};

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
    let turn = if suite.scale() == Scale::Full { 4000 } else { 40 };
    let writing = |op: &str, n| about(op, n).durability(soft()).changes_store(turn, None);
    let setup = || Ours::copy(indexes, n);

    let facts = writing("creates one record from a JSON body; the id is made", n);
    suite.row("create", "strata", case, facts, setup, verbs::create);
    let facts = about("reads one record by id", n);
    suite.row("read", "strata", case, facts, setup, |ours| verbs::read(ours, n));
    let facts = writing("patches one attribute that has no index", n);
    suite.row("update", "strata", case, facts, setup, |ours| verbs::update_unindexed(ours, n));
    let facts = about("deletes one record", many).durability(soft()).changes_store(turn, many);
    suite.row("delete", "strata", case, facts, || Ours::copy(indexes, many), |ours| verbs::delete(ours, many));
    let facts = writing("seven of ten read one record by id, three create one", n);
    suite.row("mixed", "strata", case, facts, setup, |ours| verbs::mixed(ours, n));
}
