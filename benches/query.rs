//! Queries: text to tree, tree to plan, plan to records, and a filter alone.
//!
//! `parse` turns text into a tree, against splitting and decoding the same bytes. `find` and `range` plan and run a parsed query, against a
//! raw iterator over the same entries and one multi-get of the same records; so do `composite`, by one value and in the order of another,
//! and `full_text`, by two terms. `filter` evaluates a condition on records in memory, against a hand-written closure that reads the same
//! bytes at the same offsets. The other rows have no floor: they begin with the text and end with the JSON of the records, as a request
//! does. Of these, `select` lists the same records and returns more or less of them, up to a related record of each; `join` finds the same
//! records by a condition on a related one and by one on the foreign key. Each asserts the number of results, computed from the data set
//! without Strata.

mod floor;
mod prepared;
mod verbs;

#[path = "query/filter.rs"]
mod filter;
#[path = "query/joined.rs"]
mod joined;
#[path = "query/parse.rs"]
mod parse;
#[path = "query/searches.rs"]
mod searches;
#[path = "query/whole.rs"]
mod whole;

use std::hint::black_box;
use std::sync::Arc;

use floor::Raw;
use prepared::{Ours, SST, described, options, records};
use strata::encoding::value::Value;
use strata::encoding::{Record, key};
use strata::query::{Limits, Query};
use strata::schema::IndexKind;
use strata_harness::data::{self, scatter};
use strata_harness::{Facts, Suite, Unit, suite};

/// Records of a range query.
const RANGE: usize = 100;

fn main() {
    suite("query", |suite| {
        suite.engine(serde_json::to_value(options()).expect("options are JSON"));
        parse::rows(suite);
        filter::rows(suite);
        finds(suite);
        ranges(suite);
        searches::rows(suite);
        whole::rows(suite);
        joined::rows(suite);
    });
}

fn finds(suite: &mut Suite) {
    let n = records(suite.scale());
    for (attribute, matches) in [("name", 1), ("category", n / 100)] {
        let case = format!("{matches}_matches");
        let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(8).unit(Unit::Records, matches);
        let value = move |index| match attribute {
            "name" => format!("Product {:08}", scatter(index, n)),
            _ => data::category(index % n),
        };
        let about = facts(format!(
            "plans and lists the {matches} records whose {attribute} equals a value, as of a snapshot, and copies their JSON out"
        ))
        .floor("floor", 0.85, 0.93);
        let ours = || Ours::copy(8, n);
        suite.row("find", "strata", &case, about, ours, |ours: Arc<Ours>| {
            let attribute = ours.product().attribute(attribute).expect("an attribute of the data set");
            let equal =
                |index| Query { limit: Some(1000), ..Query::equal(attribute, Value::Text(value(index).into())) };
            list(ours, (0..n).map(equal).collect())
        });
        let about = facts(format!(
            "iterates over {matches} entries of one value, then gets their records in one call and copies them out"
        ));
        let raw = || Raw::copy(8, n);
        suite.row("find", "floor", &case, about, raw, |raw: Arc<Raw>| {
            let prefix = |index| entries_of(attribute, &Value::Text(value(index).into()));
            let range = |prefix: Vec<u8>| {
                let mut end = Vec::new();
                key::successor(&prefix, &mut end);
                (prefix, end)
            };
            raw_list(raw, (0..n).map(|index| range(prefix(index))).collect(), 1000)
        });
    }
}

fn ranges(suite: &mut Suite) {
    let n = records(suite.scale());
    let case = format!("{RANGE}_records");
    let facts = |op: &str| Facts::new(op).data(described(n)).state(SST).indexes(8).unit(Unit::Records, RANGE as u64);
    // Prices with at least a hundred products from there on.
    let starts = move || {
        let mut prices: Vec<f64> = (0..n).map(data::price).collect();
        prices.sort_by(f64::total_cmp);
        prices.truncate(prices.len() - RANGE);
        (0..prices.len() as u64).map(|index| prices[scatter(index, prices.len() as u64) as usize]).collect::<Vec<_>>()
    };
    let about = facts("plans and lists the first 100 records from a price on, by price, and copies their JSON out");
    let about = about.floor("floor", 0.85, 0.93);
    let ours = || Ours::copy(8, n);
    suite.row("range", "strata", &case, about, ours, move |ours: Arc<Ours>| {
        let limits = Limits::in_url(RANGE);
        let query = |start: f64| {
            let text = format!("price=ge={start}&sort=price&limit={RANGE}").leak();
            Query::parse(ours.database.schema(), ours.product(), text, &limits).expect("a query of the grammar")
        };
        let queries = starts().into_iter().map(query).collect();
        list(ours, queries)
    });
    let about =
        facts("iterates over 100 entries from a price on, then gets their records in one call and copies them out");
    suite.row(
        "range",
        "floor",
        &case,
        about,
        || Raw::copy(8, n),
        move |raw: Arc<Raw>| {
            let range = |start: f64| {
                let from = entries_of("price", &Value::Float(start));
                let mut end = Vec::new();
                key::successor(&from[..4], &mut end);
                (from, end)
            };
            raw_list(raw, starts().into_iter().map(range).collect(), RANGE)
        },
    );
}

/// The prefix of the entries of a value, in the ordered index of an attribute.
fn entries_of(attribute: &str, value: &Value<'_>) -> Vec<u8> {
    let schema = prepared::schema(8);
    let table = &schema.tables[0];
    let attribute = table.attribute(attribute).expect("an attribute of the data set");
    let mut prefix = Vec::new();
    key::ordered_prefix(
        table.index(attribute, IndexKind::Ordered).expect("an index of the data set").id,
        value,
        &mut prefix,
    );
    prefix
}

/// Runs one query per operation; returns the number of its records.
fn list(ours: Arc<Ours>, queries: Vec<Query<'static>>) -> impl FnMut(u64) -> u64 + Send {
    let mut answer = Vec::new();
    move |index| {
        let mut found = 0;
        answer.clear();
        let visit = |record: Record<'_, &[u8]>| {
            answer.extend_from_slice(record.json());
            found += 1;
            Ok(())
        };
        let query = &queries[index as usize % queries.len()];
        query.run(&ours.database, ours.product(), visit).expect("a healthy store");
        if black_box(&answer).is_empty() { 0 } else { found }
    }
}

/// The same with index ranges prepared beforehand.
fn raw_list(raw: Arc<Raw>, ranges: Vec<(Vec<u8>, Vec<u8>)>, most: usize) -> impl FnMut(u64) -> u64 + Send {
    let schema = prepared::schema(8);
    let (table, mut keys, mut answer) = (schema.tables[0].id, floor::Keys::default(), Vec::new());
    move |index| {
        let (from, end) = &ranges[index as usize % ranges.len()];
        raw.matches(from, end, table, most, &mut keys);
        let mut keys = keys.slices();
        keys.sort_unstable();
        answer.clear();
        match &keys[..] {
            [key] => answer.extend_from_slice(&raw.get(key).expect("a record of the data set")),
            keys => raw.multi_get(keys, &mut answer),
        }
        if black_box(&answer).is_empty() { 0 } else { keys.len() as u64 }
    }
}
