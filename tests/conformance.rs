//! `tests/fiql/conformance.json` against a real server: what it says of queries is what the server does.
//!
//! The answers in that file were computed by predicates over the data, not by a query parser. Every case is asked with the
//! indexes of its schema and with none, so that a plan cannot change an answer. What the server does not serve yet is passed over
//! by the rules of [`not_served_yet`], and must then be refused: a wrong answer is never passed over.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use strata::schema::{Kind, Schema};

use crate::http::client::{Answer, ask, start};

const FILE: &str = include_str!("fiql/conformance.json");

/// How many cases [`not_served_yet`] is meant for.
const NOT_SERVED_YET: usize = 16;

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

/// Why a case is passed over, by what its query says.
fn not_served_yet(case: &Case, schema: &Schema) -> Option<&'static str> {
    let (_, query) = case.path.split_once('?')?;
    let names = |name: &str| query.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
    let clause = |name: &str| query.split(['&', ';']).any(|term| term.starts_with(name));
    let mut relationships = schema.tables.iter().flat_map(|table| &table.relationships);
    let mut attributes = schema.tables.iter().flat_map(|table| &table.attributes);
    let reasons = [
        (relationships.any(|relationship| names(&relationship.name)), "a relationship"),
        (attributes.any(|attribute| attribute.kind == Kind::Any && names(&attribute.name)), "a condition on Any"),
        (query.contains("=ft="), "full text"),
        (clause("select=*"), "select=*"),
        (clause("pagination=") || clause("after="), "pagination"),
    ];
    reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
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

/// Asks every case of a server with this schema; returns how many passed, and why how many were passed over.
fn run(conformance: &Conformance, sdl: &str) -> (usize, BTreeMap<&'static str, usize>) {
    let schema = Schema::parse(sdl).expect("the schema of the file");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.graphql");
    std::fs::write(&path, sdl).unwrap();
    let server = start(folder.path(), |config| config.schema = Some(path));
    for (table, records) in &conformance.data {
        let answer = ask(server.url(), "POST", &format!("/{table}"), records.get());
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let (mut passed, mut skipped, mut wrong) = (0, BTreeMap::new(), String::new());
    for case in &conformance.cases {
        let answer = ask(server.url(), &case.method, &case.path, "");
        let complaint = match not_served_yet(case, &schema) {
            Some(reason) => {
                *skipped.entry(reason).or_insert(0) += 1;
                if answer.status == 400 { continue } else { format!("not served, and answered {}", answer.status) }
            }
            None if ask(server.url(), &case.method, &case.path, "").body != answer.body => {
                "another answer at once".into()
            }
            None => complaint(case, &answer),
        };
        match complaint.is_empty() {
            true => passed += 1,
            false => writeln!(wrong, "{} ({}): {complaint}", case.name, case.path).unwrap(),
        }
    }
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{wrong}");
    (passed, skipped)
}

#[test]
fn queries_are_answered_as_the_file_says() {
    let conformance: Conformance = serde_json::from_str(FILE).unwrap();
    let bare = conformance.schema.replace(" @indexed(type: \"hash\")", "").replace(" @indexed(type: \"fulltext\")", "");
    let bare = bare.replace(" @indexed", "");
    let indexes = |sdl: &str| Schema::parse(sdl).unwrap().tables.iter().map(|table| table.indexes.len()).sum::<usize>();
    assert_eq!((indexes(&conformance.schema), indexes(&bare)), (12, 1), "the unique one stays");
    for (what, sdl) in [("with the indexes", &conformance.schema), ("without an index", &bare)] {
        let (passed, skipped) = run(&conformance, sdl);
        let reasons: Vec<_> = skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let (cases, skips) = (conformance.cases.len(), skipped.values().sum::<usize>());
        println!("{what}: passed {passed} of {cases} ({skips} skipped: {})", reasons.join(", "));
        assert_eq!(
            (passed, skips),
            (cases - NOT_SERVED_YET, NOT_SERVED_YET),
            "the rules pass over what they are meant for"
        );
    }
}
