//! How the verbs scale: with threads, with the records of a store, with the indexes of a table, and with the number of records that share a
//! value.
//!
//! Rows of one operation differ only along one axis, are measured by one process, and the law of their growth is fitted to them.
//! **Threads**: READ, CREATE and the mix of seven reads and three creates over products of 1 KB; points beyond the cores of the machine
//! share them. **Records**: READ, CREATE, the look-up of one record in a hash index, and a range of 100 records in an ordered one. A
//! million products would not fit into the cache, and the jump at its edge would hide the law, so these stores have records of about 100
//! bytes, and a cache that holds all of them and is filled before the clock starts. Both look-ups are queries, from their text to the JSON
//! of their records. **Indexes**: an insert into a table of eight integers, of which none to eight are indexed. **Sharing**: an insert
//! whose value one record has, or up to a million; its ids are given and scattered, so that entries of one value lie as far apart as those
//! of many. **Streams**: a read at the tail by the events before it, an append by the partitions and by the readers that wait.
//!
//! Raw RocksDB with as many threads runs beside the verbs, without a goal: it shows how much of a loss or a gain is the engine's. `machine`
//! shows the worth of a second thread on this machine if nothing is shared: arithmetic in registers only.
//!
//! Writes go to the memtable, which is empty at first, and nothing compacts here: the long-term cost of a store's size to a writer is
//! compaction, which `macro` measures.

mod events;
mod floor;
mod prepared;
mod verbs;

#[path = "scaling/streams.rs"]
mod streams;

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;

use floor::{Promise, Raw};
use prepared::{MIXED, Numbered, Ours, SST, WRITES, WRITTEN, described, soft};
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::query::{Limits, Query};
use strata::schema::{Schema, Table};
use strata::storage;
use strata_harness::data::scatter;
use strata_harness::{Depth, Facts, OrRefused, Scale, Suite, Unit, suite};
use verbs::looked_at;

/// Holds all of the largest store of this suite.
const CACHE_BYTES: usize = 512 << 20;
/// Records of a range.
const RANGE: u64 = 100;

fn main() {
    suite("scaling", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        threads(suite);
        machine(suite);
        records(suite);
        indexes(suite);
        sharing(suite);
        streams::rows(suite);
    });
}

fn options() -> storage::Options {
    prepared::options_with_cache(CACHE_BYTES)
}

/// The facts of a row that writes.
fn writing(op: impl Into<String>) -> Facts {
    Facts::new(op).state(WRITTEN).durability(soft()).unit(Unit::Records, 1).changes_store(WRITES, None)
}

fn threads(suite: &mut Suite) {
    let n = prepared::records(suite.scale());
    let reading = || Facts::new("reads one record by id").state(SST).unit(Unit::Records, 1);
    let creating = || writing("creates one record from a JSON body; the id is made");
    // As many creates a sample as CREATE has.
    let mixing = |op: &str| writing(op).changes_store(MIXED, None);
    for threads in [1, 2, 4, 8] {
        let at = |facts: Facts| facts.data(described(n)).indexes(0).threads(threads).scale("threads", threads as f64);
        // The gain of more threads is measured against one.
        let alone = |facts: Facts, verb: &str, subject: &str| {
            if threads == 1 {
                return facts;
            }
            facts.against(format!("{verb}/{subject}/1_thread")).depth(Depth::Default)
        };
        // No goal: the question is whether the engine below scales with threads like Strata.
        let ours = |facts: Facts, verb: &str| {
            let facts = if threads == 4 { at(facts) } else { at(facts).peer("floor") };
            alone(facts, verb, "strata")
        };
        let (case, setup) = (&threads_case(threads), || {
            Ours::open_with(prepared::copy(0, n), prepared::schema(0), &options()).warmed()
        });
        suite.row("read", "strata", case, ours(reading(), "read"), setup, |ours| verbs::read(ours, n));
        suite.row("create", "strata", case, ours(creating(), "create"), setup, verbs::create);
        let mixed = ours(mixing("seven of ten read one record by id, three create one"), "mixed");
        suite.row("mixed", "strata", case, mixed, setup, |ours| verbs::mixed(ours, n));
        if threads == 4 {
            continue;
        }
        let setup = || Raw::open(prepared::copy(0, n), CACHE_BYTES).warmed();
        let facts = at(Facts::new("gets the stored bytes of one record and copies them out").state(SST));
        suite.row("read", "floor", case, alone(facts.unit(Unit::Records, 1), "read", "floor"), setup, |raw| {
            verbs::raw_read(raw, n)
        });
        let facts = at(writing("writes one key and value of about 1 KB in a batch that is reused"));
        suite.row("create", "floor", case, alone(facts, "create", "floor"), setup, |raw| verbs::raw_create(raw, 0));
        let facts = at(mixing("seven of ten get the stored bytes of one record, three write one key"));
        suite.row("mixed", "floor", case, alone(facts, "mixed", "floor"), setup, |raw| verbs::raw_mixed(raw, n));
    }
}

fn threads_case(threads: usize) -> String {
    format!("{threads}_thread{}", if threads == 1 { "" } else { "s" })
}

/// The gain of a second thread on the machine itself: arithmetic in registers, without memory and without a lock.
fn machine(suite: &mut Suite) {
    for threads in [1, 2] {
        let facts = Facts::new("does 1024 steps of arithmetic in registers, four at once").state("no memory, no lock");
        let facts = facts.threads(threads).scale("threads", threads as f64).depth(Depth::Default);
        let facts = if threads == 1 { facts } else { facts.against("machine/alu/1_thread") };
        suite.row("machine", "alu", &threads_case(threads), facts, || (), |_: Arc<()>| arithmetic);
    }
}

fn arithmetic(index: u64) -> u64 {
    let mut lanes = [index, !index, index << 1, index << 2].map(|start| start | 1);
    for _ in 0..256 {
        for lane in &mut lanes {
            *lane = (*lane ^ (*lane >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }
    // Each step is reversible and maps 0 to 0, so no lane has become 0.
    u64::from(!black_box(lanes).contains(&0))
}

const ITEM: &str = "type Item @table {
    id: ID @primaryKey
    sku: String @indexed(type: \"hash\")
    rank: Int @indexed
    note: String
}";

/// An item of about 100 bytes; its rank is its place in an order of all `n` that differs from that of the ids.
fn item(index: u64, n: u64) -> Vec<u8> {
    let (rank, note) = (scatter(index, n), "a small record, so that a million fit");
    let body = format!(r#"{{"id":"item-{index:08}","sku":"sku-{index:08}","rank":{rank},"note":"{note}"}}"#);
    assert!((90..=110).contains(&body.len()), "an item of {} bytes", body.len());
    body.into_bytes()
}

fn records(suite: &mut Suite) {
    for (name, few) in [(1_000, 200), (10_000, 400), (100_000, 600), (1_000_000, 800)] {
        let n = if suite.scale() == Scale::Full { name } else { few };
        let case = &format!("{name}_records");
        let at = |facts: Facts| {
            facts.data(format!("{n} items of about 100 bytes, 4 attributes")).indexes(2).scale("records", n as f64)
        };
        // Growth is measured against the smallest store.
        let smallest = |facts: Facts, verb: &str| {
            if name == 1_000 { facts } else { facts.against(format!("{verb}/strata/1000_records")) }
        };
        let reading = |op: &str, units| at(Facts::new(op).state(SST).unit(Unit::Records, units));
        let setup = || {
            let schema = || Schema::parse(ITEM).expect("a schema of four attributes");
            let template = prepared::template(&format!("items-{n}"), schema, &options(), |database| {
                prepared::create_all(database, (0..n).map(|index| item(index, n)));
            });
            Ours::open_with(prepared::copy_of(&template), schema(), &options()).warmed()
        };

        let facts = smallest(reading("reads one small record by id and copies its JSON out", 1), "read");
        suite.row("read", "strata", case, facts, setup, |ours| read_item(ours, n));
        let op = "answers a query for one value of a hash index: text in, the JSON of one record out";
        suite.row("hash_lookup", "strata", case, smallest(reading(op, 1), "hash_lookup"), setup, |ours| {
            look_up_sku(ours, n)
        });
        let op = format!(
            "answers a query for a range of {RANGE} values of an ordered index: text in, the JSON of the records out"
        );
        suite.row("range", "strata", case, smallest(reading(&op, RANGE), "range"), setup, |ours| {
            range_of_ranks(ours, n)
        });
        let facts = smallest(at(writing("creates one small record; the id is made")), "create");
        let body = r#"{"sku":"new-00000000","rank":100000000,"note":"a small record, so that a million fit"}"#;
        suite.row("create", "strata", case, facts, setup, create_small(body));
    }
}

fn read_item(ours: Arc<Ours>, n: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut id, mut answer) = (Numbered::new(b"item-00000000"), Vec::new());
    move |index| {
        let id = std::str::from_utf8(id.with(scatter(index, n))).expect("digits");
        let found = ours.database.read(table(&ours), id).expect("a healthy store");
        answer.clear();
        found.map_or(0, |record| {
            answer.extend_from_slice(record.json());
            u64::from(!black_box(&answer).is_empty())
        })
    }
}

fn look_up_sku(ours: Arc<Ours>, n: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut text, mut answer) = (Numbered::new(b"sku==sku-00000000"), Vec::new());
    move |index| {
        let text = std::str::from_utf8(text.with(scatter(index, n))).expect("digits");
        answer_to(&ours, text, &mut answer)
    }
}

fn range_of_ranks(ours: Arc<Ours>, n: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut text, mut answer) = (String::new(), Vec::new());
    move |index| {
        let from = scatter(index, n + 1 - RANGE);
        text.clear();
        write!(text, "rank=gelt={from},{}", from + RANGE).expect("text takes everything");
        answer_to(&ours, &text, &mut answer)
    }
}

/// Parses a query, copies the JSON of its records out, and returns their number.
fn answer_to(ours: &Ours, text: &str, answer: &mut Vec<u8>) -> u64 {
    let query =
        Query::parse(ours.database.schema(), table(ours), text, &Limits::in_url(1000)).expect("a query on an item");
    let mut found = 0;
    answer.clear();
    let visit = |record: Record<'_, &[u8]>| {
        answer.extend_from_slice(record.json());
        found += 1;
        Ok(())
    };
    query.run(&ours.database, table(ours), visit).expect("a healthy store");
    // At least 90 bytes each: what was found was also read.
    if black_box(&answer).len() as u64 >= 90 * found { found } else { 0 }
}

/// Creates records of a few bytes that differ in a number.
fn create_small(body: &str) -> impl Fn(Arc<Ours>) -> Box<dyn FnMut(u64) -> u64 + Send> + Sync {
    let body = Numbered::new(body.as_bytes());
    move |ours| {
        let mut body = body.clone();
        ours.promise(Promise { bytes: 60, ..Promise::CREATE });
        Box::new(move |index| {
            let created = ours.database.create(table(&ours), body.with(scatter(index, 100_000_000)));
            u64::from(!created.or_refused().json().is_empty())
        })
    }
}

fn table(ours: &Ours) -> &Table {
    &ours.database.schema().tables[0]
}

fn indexes(suite: &mut Suite) {
    let n = prepared::records(suite.scale());
    let attributes = |each: &dyn Fn(usize) -> String, between| (0..8).map(each).collect::<Vec<_>>().join(between);
    for indexes in [0, 1, 2, 4, 8] {
        let indexed = |place| if place < indexes { "@indexed" } else { "" };
        let sdl = attributes(&|place| format!("number{place}: Int {}", indexed(place)), " ");
        let schema =
            || Schema::parse(&format!("type Item @table {{ id: ID @primaryKey {sdl} }}")).expect("a schema of numbers");
        let body = |id: &str, number: u64| {
            let numbers = attributes(&|place| format!("\"number{place}\":{}", 100_000_000 + number), ",");
            format!("{{{id}{numbers}}}")
        };
        let prepared = |index| body(&format!("\"id\":\"item-{index:08}\","), scatter(index, 100_000_000)).into_bytes();
        let setup = || {
            let template = prepared::template(&format!("numbers-{n}-{indexes}"), schema, &options(), |database| {
                prepared::create_all(database, (0..n).map(prepared));
            });
            Ours::open_with(prepared::copy_of(&template), schema(), &options()).warmed()
        };
        let facts = writing("creates one record of eight integers; the id is made")
            .data(format!("{n} records of eight integers"))
            .indexes(indexes as u32)
            .scale("indexes", indexes as f64);
        let facts = if indexes == 0 { facts } else { facts.against("insert/strata/0_indexes") };
        let case = &format!("{indexes}_index{}", if indexes == 1 { "" } else { "es" });
        suite.row("insert", "strata", case, facts, setup, create_small(&body("", 0)));
    }
}

/// One small record in a very large table, with a value that some of its records have. All values are in one store.
///
/// Rows differ only in the value, not in the place that is written to: the ids are given and scattered, so that the entries of one value
/// are put as far apart as those of many values.
fn sharing(suite: &mut Suite) {
    let scale = suite.scale();
    let full = [1, 100, 10_000, 1_000_000];
    let counts = if scale == Scale::Full { full } else { [1, 10, 100, 1000] };
    // This many records for each count, unless one value alone has more; with several values, none gains many sharers.
    let together = counts[3] / 10;
    let values = move |sharing: u64| (together / sharing).max(1);
    let body = |sharing: u64, value: u64| format!("{{\"shared\":\"by-{sharing:07}-{value:08}\"}}");
    let schema = || Schema::parse(SHARED).expect("a schema of two attributes");
    let n: u64 = counts.iter().map(|sharing| sharing * values(*sharing)).sum();
    let setup = || {
        let template = prepared::template(&format!("shared-{n}"), schema, &options(), |database| {
            let of =
                |sharing: u64| (0..sharing * values(sharing)).map(move |index| body(sharing, index % values(sharing)));
            prepared::create_all(database, counts.into_iter().flat_map(of).map(String::into_bytes));
        });
        Ours::open_with(prepared::copy_of(&template), schema(), &options()).warmed()
    };
    for (name, sharing) in full.into_iter().zip(counts) {
        let mut facts =
            writing(format!("creates one small record with its id and a value that {sharing} records already have"))
                .data(format!("{n} records of two attributes"))
                .indexes(1)
                .scale("sharing", sharing as f64);
        if sharing > 1 && sharing < counts[3] {
            facts = facts.against("insert/strata/1_sharing");
        }
        if sharing == counts[3] {
            facts = facts.floor_id("scaling/insert/strata/1_sharing", 0.77, 0.9);
        }
        let worker = |ours| create_sharing(ours, sharing, values(sharing));
        suite.row("insert", "strata", &format!("{name}_sharing"), facts, setup, worker);
    }
}

const SHARED: &str = "type Item @table { id: ID @primaryKey shared: String @indexed(type: \"hash\") }";

/// Creates records with scattered ids and one of `values` values, each of which `sharing` records have.
fn create_sharing(ours: Arc<Ours>, sharing: u64, values: u64) -> impl FnMut(u64) -> u64 + Send {
    let number = |index| scatter(index, 100_000_000);
    let id = move |index| format!("new-{:08}", number(index));
    let value = move |index| format!("by-{sharing:07}-{:08}", index % values);
    let entries = (0..1000).map(|index| {
        let (index_id, mut entry) = (table(&ours).indexes[0].id, Vec::new());
        key::hash(index_id, &Value::Text(value(index).into()), &id(index), &mut entry);
        entry
    });
    assert_scattered(&entries.collect::<Vec<_>>());
    let (mut beginning, mut body) = (Numbered::new(br#"{"id":"new-00000000","shared":"#), Vec::new());
    let mut end = Numbered::new(format!("\"by-{sharing:07}-00000000\"}}").as_bytes());
    ours.promise(Promise { bytes: 60, keys: 2, ..Promise::WRITE });
    let create = move |ours: &mut Arc<Ours>, index| {
        body.clear();
        body.extend_from_slice(beginning.with(number(index)));
        body.extend_from_slice(end.with(index % values));
        let created = ours.database.create(table(ours), &body);
        u64::from(!created.or_refused().json().is_empty())
    };
    looked_at(ours, create, move |ours, index, _| {
        let stored = ours.database.read(table(ours), &id(index)).expect("a healthy store").expect("a new record");
        let text = stored.text(1).expect("a whole record").trim_matches('"').to_owned();
        assert_eq!(text, value(index), "operation {index} has left another value");
    })
}

/// Asserts that keys written one after the other are not mostly in ascending order.
fn assert_scattered(keys: &[Vec<u8>]) {
    let ascending = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(ascending * 10 < keys.len() * 7, "{ascending} of {} keys in a row ascend", keys.len());
}
