//! Parsing text into a tree: a typical query, the least and a long one, against splitting and decoding the same bytes.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata_harness::{Data, Facts, Suite};

use crate::prepared::schema;

const ONE_TERM: &str = "category==electronics";

/// Without encoded characters, so that neither side has to copy.
const FIVE_TERMS: &str = "category==electronics&price=gt=99.5&inStock==true&rating=ge=4&name=sw=Ultra";

/// Groups, both joins, a list, a wildcard and encoded characters, ten times over.
fn fifty_terms() -> String {
    let part = "(category=in=books,toys|name==*Caf%C3%A9*|stock!=0)&price=gele=10,20.5&description=ct=a%26b";
    [part; 10].join("&")
}

pub fn rows(suite: &mut Suite) {
    let facts = |terms: u64, text: &str| {
        Facts::new(format!("parses a query of {terms} conditions on a table of 8 attributes into a tree"))
            .data(format!("{} bytes", text.len()))
            .state("in memory")
    };
    read(suite, "1_term", facts(1, ONE_TERM).allocations_at_most(1), ONE_TERM.to_owned(), 1);
    let about = facts(5, FIVE_TERMS).floor("floor", 0.25, 0.5).allocations_at_most(1);
    read(suite, "5_terms", about, FIVE_TERMS.to_owned(), 5);
    let text = fifty_terms();
    read(suite, "50_terms", facts(50, &text), text, 50);
    let about = Facts::new("splits a query of 5 terms at & and at its operators, and decodes names and values")
        .data(format!("{} bytes", FIVE_TERMS.len()))
        .state("in memory")
        .allocations_at_most(0);
    let worker = |text: Arc<Data<String>>| move |_| u64::from(split_and_decode(&text) == 5);
    suite.row("parse", "floor", "5_terms", about, || Data(FIVE_TERMS.to_owned()), worker);
}

fn read(suite: &mut Suite, case: &str, about: Facts, text: String, conditions: usize) {
    let setup = || Data((schema(0), text.clone()));
    suite.row("parse", "strata", case, about, setup, |state: Arc<Data<(Schema, String)>>| {
        let limits = Limits::in_url(10_000);
        let (schema, text) = &**state;
        let once = Query::parse(schema, &schema.tables[0], text, &limits).expect("a query of the grammar");
        assert_eq!(format!("{once:?}").matches("Condition {").count(), conditions, "conditions of the tree");
        drop(once);
        move |_| {
            let (schema, text) = &**state;
            let query =
                Query::parse(schema, &schema.tables[0], black_box(text), &limits).expect("a query of the grammar");
            u64::from(!black_box(&query).filter.is_empty())
        }
    });
}

/// Splits and decodes each term of a query; returns their number.
fn split_and_decode(query: &str) -> usize {
    let terms = black_box(query).split('&').map(|term| {
        let bytes = term.as_bytes();
        let name_end = bytes.iter().position(|byte| b"=!<>".contains(byte)).unwrap_or(bytes.len());
        let (name, rest) = term.split_at(name_end);
        // `==`, or a word between two `=`.
        let second = rest.bytes().skip(1).position(|byte| byte == b'=');
        let (operator, value) = rest.split_at(second.map_or(rest.len(), |before| before + 2));
        black_box((decode(name), operator, decode(value)));
    });
    terms.count()
}

fn decode(raw: &str) -> Cow<'_, str> {
    match raw.as_bytes().contains(&b'%') {
        true => percent_decode_str(raw).decode_utf8().expect("UTF-8"),
        false => Cow::Borrowed(raw),
    }
}
