//! Whole queries: from the text to the JSON of the records.

use std::hint::black_box;
use std::sync::Arc;

use serde::Deserialize;
use strata::query::{Limits, Query};
use strata_harness::data::{self, CATEGORIES, Id, scatter};
use strata_harness::{Facts, Suite, Unit};

use crate::prepared::{Ours, SST, described, records};

/// A record of the data set, read without Strata.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    pub id: String,
    pub category: String,
    pub price: f64,
    pub in_stock: bool,
    pub rating: f64,
}

impl Product {
    pub fn new(index: u64) -> Self {
        serde_json::from_slice(&data::product(index, Id::Given)).expect("a product of the data set")
    }
}

/// Matches few of the records: about forty of ten thousand.
const SELECTIVE: &str = "price=gt=990&inStock==true&rating=ge=3";

fn satisfies(product: &Product) -> bool {
    product.price > 990.0 && product.in_stock && product.rating >= 3.0
}

pub fn rows(suite: &mut Suite) {
    simple(suite);
    over_all(suite);
    sorted(suite);
    explained(suite);
}

/// Equality on an attribute with an index: the most common query.
fn simple(suite: &mut Suite) {
    let n = records(suite.scale());
    let one = (0..n).map(|index| format!("name==Product%20{:08}", scatter(index, n)));
    let many = (0..CATEGORIES).map(|index| format!("category=={}", data::category(index)));
    for (texts, matches) in [(one.collect::<Vec<_>>(), 1), (many.collect(), n / CATEGORIES)] {
        let about =
            Facts::new(format!("parses a query of one equality, plans it, and writes its {matches} records as JSON"));
        let about = about.data(described(n)).state(SST).indexes(8).unit(Unit::Records, matches);
        let worker = move |ours| answers(ours, texts.clone(), matches);
        suite.row("simple_eq", "strata", &format!("{matches}_matches"), about, || Ours::copy(8, n), worker);
    }
}

/// A query evaluated on every record, and the same with an index that narrows it.
fn over_all(suite: &mut Suite) {
    let n = records(suite.scale());
    for (case, indexes) in [("without_index", 0), ("with_index", 8)] {
        let about = Facts::new(format!(
            "parses a query of three conditions on a table of {n} records and writes the few that match"
        ));
        let about = about.data(described(n)).state(SST).indexes(indexes);
        let about = if indexes > 0 { about.against("fiql_10k/strata/without_index") } else { about };
        suite.row(
            "fiql_10k",
            "strata",
            case,
            about,
            move || Ours::copy(indexes, n),
            move |ours| {
                let expected = (0..n).map(Product::new).filter(satisfies).count() as u64;
                let mut answer = answers(ours, vec![SELECTIVE.to_owned()], expected);
                move |turn| u64::from(answer(turn) == expected)
            },
        );
    }
}

/// The twenty cheapest of all.
fn sorted(suite: &mut Suite) {
    let n = records(suite.scale());
    for (case, indexes) in [("by_index", 8), ("in_memory", 0)] {
        let about = Facts::new(format!("parses a query for the 20 cheapest of {n} records and writes them in order"));
        let about = about.data(described(n)).state(SST).indexes(indexes).unit(Unit::Records, 20);
        let about = if indexes > 0 { about.against(format!("sort_limit/strata/20_of_{n}_in_memory")) } else { about };
        let case = format!("20_of_{n}_{case}");
        suite.row(
            "sort_limit",
            "strata",
            &case,
            about,
            move || Ours::copy(indexes, n),
            move |ours| {
                let mut all: Vec<Product> = (0..n).map(Product::new).collect();
                all.sort_by(|one, other| one.price.total_cmp(&other.price).then_with(|| one.id.cmp(&other.id)));
                all.truncate(20);
                let ids: Vec<String> = all.into_iter().map(|product| product.id).collect();
                let text = "select=id&sort=price&limit=20".to_owned();
                let mut written = String::new();
                list(&ours, &text, |json| written.push_str(std::str::from_utf8(json).expect("JSON is text")));
                let expected: String = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
                assert_eq!(written, expected, "the cheapest, in order");
                answers(ours, vec!["sort=price&limit=20".to_owned()], 20)
            },
        );
    }
}

/// The plan alone, with two candidate indexes.
fn explained(suite: &mut Suite) {
    let n = records(suite.scale());
    let about = Facts::new("parses a query of two conditions with an index each, and explains which it would use");
    let about = about.data(described(n)).state(SST).indexes(8);
    suite.row(
        "explain",
        "strata",
        "2_indexes",
        about,
        || Ours::copy(8, n),
        move |ours: Arc<Ours>| {
            let text = |index| format!("category=={}&price=gt=990&explain=true", data::category(index));
            let texts: Vec<String> = (0..CATEGORIES).map(text).collect();
            let limits = Limits::in_url(10_000);
            move |turn| {
                let text = &texts[(turn % CATEGORIES) as usize];
                let query = Query::parse(ours.database.schema(), ours.product(), text, &limits)
                    .expect("a query of the grammar");
                let plan = query.explain(&ours.database, ours.product()).expect("a healthy store");
                let told = serde_json::to_vec(&plan).expect("a plan is JSON");
                u64::from(black_box(told).starts_with(b"{\"table\":\"Product\""))
            }
        },
    );
}

/// Parses and answers one text per operation; returns the number of its records, which must be `expected`.
pub fn answers(ours: Arc<Ours>, texts: Vec<String>, expected: u64) -> impl FnMut(u64) -> u64 + Send {
    let mut answer = Vec::new();
    move |turn| {
        let mut found = 0;
        answer.clear();
        list(&ours, &texts[turn as usize % texts.len()], |json| {
            answer.extend_from_slice(json);
            found += 1;
        });
        if black_box(&answer).is_empty() || found != expected { 0 } else { found }
    }
}

/// From text to the JSON of each record.
pub fn list(ours: &Ours, text: &str, mut visit: impl FnMut(&[u8])) {
    let table = ours.product();
    let query =
        Query::parse(ours.database.schema(), table, text, &Limits::in_url(10_000)).expect("a query of the grammar");
    let shown = query.show(&ours.database, table, |_, text| {
        visit(text);
        Ok(())
    });
    shown.expect("a healthy store");
}
