//! Queries on a composite index and on a full-text index.

use std::hint::black_box;
use std::sync::Arc;

use strata::encoding::key;
use strata::encoding::value::Value;
use strata::indexes::KeyRange;
use strata::query::{Limits, Query};
use strata::schema::IndexKind;
use strata_harness::data::{self, CATEGORIES, scatter};
use strata_harness::{Facts, Suite, Unit};

use crate::floor::{self, Raw};
use crate::prepared::searched::{self, two_keywords};
use crate::prepared::{Ours, SST, described, records};
use crate::{list, raw_list};

pub fn rows(suite: &mut Suite) {
    composite(suite);
    full_text(suite);
}

/// For each category, a price from which on it has at least `rows` products.
fn halves(n: u64, rows: usize) -> Vec<(String, f64)> {
    let half = |number| {
        let category = data::category(number);
        let mut prices: Vec<f64> = (0..n).filter(|index| data::category(*index) == category).map(data::price).collect();
        prices.sort_by(f64::total_cmp);
        let half = prices.len() / 2;
        assert!(prices.len() - half >= rows);
        (category, prices[half])
    };
    (0..CATEGORIES).map(half).collect()
}

/// The cheapest of a category from a price on.
fn composite(suite: &mut Suite) {
    let n = records(suite.scale());
    let rows = (n / 500) as usize;
    let case = format!("{rows}_of_a_category");
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(2).unit(Unit::Records, rows as u64);
    let about = facts(format!(
        "plans and lists the {rows} cheapest of a category from a price on, by an index on both, and copies their JSON out"
    ));
    let ours = move || searched::ours(n);
    suite.row("composite", "strata", &case, about.floor("floor", 0.85, 0.93), ours, move |ours: Arc<Ours>| {
        let text = |(category, price)| format!("category=={category}&price=ge={price}&sort=price&limit={rows}");
        list(Arc::clone(&ours), queries(&ours, halves(n, rows).into_iter().map(text)))
    });
    let about = facts(format!("iterates over {rows} entries, then gets their records in one call and copies them out"));
    let raw = move || searched::raw(n);
    suite.row("composite", "floor", &case, about, raw, move |raw: Arc<Raw>| {
        let table = searched::schema().tables.swap_remove(0);
        let index = searched::index(&table, IndexKind::Composite);
        let range = |(category, price): (String, f64)| {
            let category = Value::Text(category.into());
            let mut lower = Vec::new();
            key::composite_prefix(index.id, [&category, &Value::Float(price)], &mut lower);
            (lower, KeyRange::of_values(index, [&category]).upper)
        };
        raw_list(raw, halves(n, rows).into_iter().map(range).collect(), rows)
    });
}

/// The records that have two terms.
fn full_text(suite: &mut Suite) {
    let n = records(suite.scale());
    let count = searched::have_both(n);
    let case = format!("2_terms_{count}_matches");
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(2).unit(Unit::Records, count);
    let about = facts(format!("plans and lists the {count} records that have two terms, and copies their JSON out"));
    let ours = move || searched::ours(n);
    suite.row("full_text", "strata", &case, about.floor("floor", 0.85, 0.93), ours, move |ours: Arc<Ours>| {
        let text = |turn| format!("keywords=ft={}&limit=1000", two_keywords(scatter(turn, n)).join("%20"));
        list(Arc::clone(&ours), queries(&ours, (0..n).map(text)))
    });
    let about = facts(format!(
        "seeks in the entries of both terms alternately, then gets the {count} records in one call and copies them out"
    ));
    let raw = move || searched::raw(n);
    suite.row("full_text", "floor", &case, about, raw, move |raw: Arc<Raw>| {
        let table = searched::schema().tables.swap_remove(0);
        let index = searched::index(&table, IndexKind::FullText);
        let of_term = |term: String| KeyRange::of_value(index, &Value::Text(term.into()));
        let ranges: Vec<[KeyRange; 2]> = (0..n).map(|turn| two_keywords(scatter(turn, n)).map(of_term)).collect();
        let (table, mut keys, mut answer) = (table.id, floor::Keys::default(), Vec::new());
        move |turn| {
            let [one, other] = &ranges[turn as usize % ranges.len()];
            raw.common([(&one.lower, &one.upper), (&other.lower, &other.upper)], table, &mut keys);
            answer.clear();
            raw.multi_get(&keys.slices(), &mut answer);
            if black_box(&answer).is_empty() { 0 } else { keys.slices().len() as u64 }
        }
    });
}

/// Parses the texts, which live as long as the process.
fn queries(ours: &Ours, texts: impl Iterator<Item = String>) -> Vec<Query<'static>> {
    let parse = |text: String| {
        let limits = Limits::in_url(1000);
        Query::parse(ours.database.schema(), ours.product(), text.leak(), &limits).expect("a query of the grammar")
    };
    texts.map(parse).collect()
}
