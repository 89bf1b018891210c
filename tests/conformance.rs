//! The files of `tests/fiql` against a real server: what they say of queries is what the server does.
//!
//! The answers in them were computed by predicates over the data, not by a query parser: those of `conformance.json` come with the
//! contract, `corners.json` is about where the rules of the grammar meet. Every case is asked with the indexes of its schema and with
//! none, so that a plan cannot change an answer.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use strata::schema::Schema;

use crate::http::client::{Connection, Response, start};

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
    /// The body of the request.
    #[serde(default)]
    query: String,
    status: u16,
    /// Whether `ids` has the order of the list.
    #[serde(default)]
    ordered: bool,
    ids: Option<Vec<String>>,
    /// Whether `ids` are those of the list and of all that follow it by `Link`.
    #[serde(default)]
    pages: bool,
    body: Option<Box<RawValue>>,
    position: Option<usize>,
    /// The text of the error.
    detail: Option<String>,
}

/// What is wrong with a response; empty if nothing is.
fn complaint(case: &Case, response: &Response, url: &str) -> String {
    if response.status != case.status {
        return format!("{} instead of {}: {}", response.status, case.status, response.body);
    }
    if let Some(expected) = &case.ids {
        let mut found = if case.pages { ids_of_pages(response, url) } else { ids(response) };
        let mut expected = expected.clone();
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
        if response.body != expected {
            return format!("{} instead of {expected}", response.body);
        }
    }
    if let Some(expected) = case.position {
        let problem: Value = serde_json::from_str(&response.body).expect("a problem");
        if problem["position"] != expected {
            return format!("{problem} instead of position {expected}");
        }
        if case.detail.as_deref().is_some_and(|expected| problem["detail"] != expected) {
            return format!("{problem} instead of {:?}", case.detail);
        }
    }
    String::new()
}

/// The ids of a list.
fn ids(response: &Response) -> Vec<String> {
    let records: Vec<Value> = serde_json::from_str(&response.body).expect("a list");
    records.iter().map(|record| record["id"].as_str().expect("an id").to_owned()).collect()
}

/// The ids of a list that was cut and of those that follow it, which are as long as it is but for the last.
fn ids_of_pages(first: &Response, url: &str) -> Vec<String> {
    let next = |response: &Response| Some(response.header("link").strip_prefix('<')?.split_once('>')?.0.to_owned());
    let (mut all, mut path) = (ids(first), next(first));
    assert!(path.is_some(), "a list that was cut says where it goes on");
    let limit = all.len();
    while let Some(after) = path {
        let response = Connection::open(url).request("GET", &after, "");
        assert_eq!(response.status, 200, "{after}: {}", response.body);
        let page = ids(&response);
        path = next(&response);
        assert!(page.len() == limit || path.is_none() && page.len() < limit, "{after}: {page:?}");
        all.extend(page);
    }
    all
}

/// Asks a case.
fn ask(url: &str, case: &Case) -> Response {
    let mut connection = Connection::open(url);
    if case.method == "GET" {
        return connection.request(&case.method, &case.path, "");
    }
    let head = format!("content-type: text/plain\r\ncontent-length: {}\r\n", case.query.len());
    connection.send(&format!("{} {} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n{}", case.method, case.path, case.query));
    connection.receive(false)
}

/// JSON as it stands, members in their order, without white space outside of texts.
pub fn without_white_space(json: &str) -> String {
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
        let response = Connection::open(server.url()).request("POST", &format!("/{table}"), records.get());
        assert_eq!(response.status, 201, "{}", response.body);
    }
    let mut wrong = String::new();
    for case in &conformance.cases {
        let response = ask(server.url(), case);
        let complaint = match ask(server.url(), case).body == response.body {
            true => complaint(case, &response, server.url()),
            false => "another answer at once".to_owned(),
        };
        if !complaint.is_empty() {
            writeln!(wrong, "{} ({}): {complaint}", case.name, case.path).unwrap();
        }
    }
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Runs a file with its indexes and without, and says how many cases it has.
fn pass(name: &str, file: &str) -> usize {
    let conformance: Conformance = serde_json::from_str(file).unwrap();
    let bare = conformance.schema.replace(" @indexed(type: \"hash\")", "").replace(" @indexed(type: \"fulltext\")", "");
    let bare = bare.replace(" @indexed", "");
    let indexes = |sdl: &str| Schema::parse(sdl).unwrap().tables.iter().map(|table| table.indexes.len()).sum::<usize>();
    assert!(indexes(&conformance.schema) > 10 && indexes(&bare) == 1, "the unique one stays");
    for (what, sdl) in [("with the indexes", &conformance.schema), ("without an index", &bare)] {
        run(&conformance, sdl);
        println!("{name}, {what}: passed {} cases", conformance.cases.len());
    }
    conformance.cases.len()
}

#[test]
fn queries_are_answered_as_the_file_says() {
    assert_eq!(pass("conformance.json", include_str!("fiql/conformance.json")), 112);
}

#[test]
fn queries_are_answered_where_rules_meet() {
    assert_eq!(pass("corners.json", include_str!("fiql/corners.json")), 360);
}
