//! `tests/fiql/conformance.json` against a real server: what it says of queries is what the server does.
//!
//! The answers in that file were computed by predicates over the data, not by a query parser. Every case is asked with the
//! indexes of its schema and with none, so that a plan cannot change an answer.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use strata::schema::Schema;

use crate::http::client::{Answer, ask, start};

const FILE: &str = include_str!("fiql/conformance.json");

#[derive(Deserialize)]
struct Conformance {
    schema: String,
    /// The records of each table, as they are written: the members of an `Any` keep their order.
    data: BTreeMap<String, Box<RawValue>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    method: String,
    path: String,
    status: u16,
    /// Whether `ids` has the order of the list.
    #[serde(default)]
    ordered: bool,
    ids: Option<Vec<String>>,
    body: Option<Box<RawValue>>,
    position: Option<usize>,
}

/// What is wrong with an answer; empty if nothing is.
fn complaint(case: &Case, answer: &Answer) -> String {
    if answer.status != case.status {
        return format!("{} instead of {}: {}", answer.status, case.status, answer.body);
    }
    if let Some(expected) = &case.ids {
        let records: Vec<Value> = serde_json::from_str(&answer.body).expect("a list");
        let mut found: Vec<_> = records.iter().map(|record| record["id"].as_str().expect("an id")).collect();
        let mut expected: Vec<_> = expected.iter().map(String::as_str).collect();
        if !case.ordered {
            found.sort_unstable();
            expected.sort_unstable();
        }
        if found != expected {
            return format!("{found:?} instead of {expected:?}");
        }
    }
    if let Some(expected) = &case.body {
        let expected = without_white_space(expected.get());
        if answer.body != expected {
            return format!("{} instead of {expected}", answer.body);
        }
    }
    if let Some(expected) = case.position {
        let problem: Value = serde_json::from_str(&answer.body).expect("a problem");
        if problem["position"] != expected {
            return format!("{problem} instead of position {expected}");
        }
    }
    String::new()
}

/// JSON as it stands, members in their order, without white space outside of texts.
fn without_white_space(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let keep = |character: &char| {
        let keep = in_text || !character.is_ascii_whitespace();
        in_text = if in_text { escaped || *character != '"' } else { *character == '"' };
        escaped = in_text && !escaped && *character == '\\';
        keep
    };
    json.chars().filter(keep).collect()
}

/// Asks every case of a server with this schema.
fn run(conformance: &Conformance, sdl: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.graphql");
    std::fs::write(&path, sdl).unwrap();
    let server = start(folder.path(), |config| config.schema = Some(path));
    for (table, records) in &conformance.data {
        let answer = ask(server.url(), "POST", &format!("/{table}"), records.get());
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let mut wrong = String::new();
    for case in &conformance.cases {
        let answer = ask(server.url(), &case.method, &case.path, "");
        let complaint = match ask(server.url(), &case.method, &case.path, "").body == answer.body {
            true => complaint(case, &answer),
            false => "another answer at once".to_owned(),
        };
        if !complaint.is_empty() {
            writeln!(wrong, "{} ({}): {complaint}", case.name, case.path).unwrap();
        }
    }
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn queries_are_answered_as_the_file_says() {
    let conformance: Conformance = serde_json::from_str(FILE).unwrap();
    let bare = conformance.schema.replace(" @indexed(type: \"hash\")", "").replace(" @indexed(type: \"fulltext\")", "");
    let bare = bare.replace(" @indexed", "");
    let indexes = |sdl: &str| Schema::parse(sdl).unwrap().tables.iter().map(|table| table.indexes.len()).sum::<usize>();
    assert_eq!((indexes(&conformance.schema), indexes(&bare)), (12, 1), "the unique one stays");
    for (what, sdl) in [("with the indexes", &conformance.schema), ("without an index", &bare)] {
        run(&conformance, sdl);
        println!("{what}: passed {} cases", conformance.cases.len());
    }
}
