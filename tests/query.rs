//! Queries on a store, by what they list, what they read and what they cost.

mod bounds;
mod naive;
mod pages;
mod plans;
mod random;
mod related;

use serde_json::{Value as Json, json};
use strata::query::{Limits, Query};
use strata::transaction::Database;

use crate::engine::fresh;

fn ids(database: &Database, text: &str) -> Vec<String> {
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, text, &Limits::in_body(10_000))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut ids = Vec::new();
    let visit = |record: strata::encoding::Record<'_, &[u8]>| {
        ids.push(record.id()?.into_owned());
        Ok(())
    };
    query.run(database, table, visit).unwrap_or_else(|error| panic!("{text}: {error}"));
    ids
}

/// How many records a query means.
fn total(database: &Database, text: &str) -> usize {
    let (table, text) = (database.table("T").expect("it exists"), format!("({text})&pagination=true&limit=0"));
    let query = Query::parse(database.schema(), table, &text, &Limits::in_body(10_000))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let shown = query.show(database, table, |_, _| panic!("nothing is listed"));
    shown.unwrap_or_else(|error| panic!("{text}: {error}")).total.expect("it was asked for")
}

/// The ids that a query lists a page at a time, each from the cursor that the one before has left; `meanwhile` happens between them.
fn ids_by_pages(database: &Database, text: &str, rows: usize, mut meanwhile: impl FnMut()) -> Vec<String> {
    let (table, mut ids) = (database.table("T").expect("it exists"), Vec::new());
    let mut text = format!("{text}{}limit={rows}", if text.is_empty() { "" } else { "&" });
    for _ in 0..10_000 {
        let query = Query::parse(database.schema(), table, &text, &Limits::in_body(10_000))
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let before = ids.len();
        let shown = query.show(database, table, |record, _| {
            ids.push(record.id()?.into_owned());
            Ok(())
        });
        let next = shown.unwrap_or_else(|error| panic!("{text}: {error}")).next;
        let Some(next) = next else { return ids };
        assert_eq!(ids.len() - before, rows, "a list that was cut is as long as its limit: {text}");
        let after = query.text_after(&next);
        text = after;
        meanwhile();
    }
    panic!("the pages have no end: {text}")
}

const SHOP: &str = r#"type T @table {
  id: ID @primaryKey name: String @indexed kind: String @indexed(type: "hash") sku: String @unique
  price: Float @indexed stock: Int tags: [String] @indexed note: String
}"#;

/// A thousand articles: ten of a kind, five of a price, all with two tags and a name of their own.
fn shop() -> (tempfile::TempDir, Database) {
    let (directory, database) = fresh(SHOP);
    let article = |number: usize| {
        json!({
            "id": format!("{number:04}"), "name": format!("n{number:04}"), "kind": format!("k{}", number % 100),
            "sku": format!("s{number}"), "price": (number % 200) as f64, "stock": number % 3,
            "tags": [format!("t{}", number % 4), "all"], "note": "x"
        })
    };
    let articles: Vec<Json> = (0..1000).map(article).collect();
    let body = serde_json::to_vec(&articles).expect("JSON");
    database.create_all(database.table("T").expect("it exists"), &body).expect("a thousand articles");
    (directory, database)
}

/// A plan in a line: each step with what is left to filter, how the order comes about, the estimate.
fn plan(database: &Database, text: &str) -> String {
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, text, &Limits::in_url(10_000))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let told = serde_json::to_value(query.explain(database, table).expect("a healthy store")).expect("JSON");
    let step = |step: &Json| {
        let index = &step["index"];
        let way = match index.is_null() {
            true => step["access"].as_str().expect("text").to_owned(),
            false => format!("{} {}", index["type"], index["attribute"]).replace('"', ""),
        };
        let filter: Vec<_> = step["filter"].as_array().expect("a list").iter().filter_map(Json::as_str).collect();
        if filter.is_empty() { way } else { format!("{way} [{}]", filter.join("] [")) }
    };
    let steps: Vec<_> = told["steps"].as_array().expect("a list").iter().map(step).collect();
    let exact = if told["estimate"]["exact"] == json!(true) { "" } else { "+" };
    let sorted = told["sorted"].as_str().map_or(String::new(), |sorted| format!(", sorted {sorted}"));
    format!("{}{sorted}: {}{exact}", steps.join(" then "), told["estimate"]["records"])
}

/// A table with as many records as numbers, each with what is made of its number.
fn filled(sdl: &str, numbers: std::ops::Range<usize>, of: impl Fn(usize) -> Json) -> (tempfile::TempDir, Database) {
    let (directory, database) = fresh(sdl);
    for number in numbers.clone().step_by(1000) {
        let some: Vec<Json> = (number..numbers.end.min(number + 1000)).map(&of).collect();
        let body = serde_json::to_vec(&some).expect("JSON");
        database.create_all(database.table("T").expect("it exists"), &body).expect("records");
    }
    (directory, database)
}
