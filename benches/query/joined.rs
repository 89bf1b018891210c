//! Selecting attributes in a list, and conditions on related records.

use std::hint::black_box;
use std::sync::Arc;

use strata::query::{Limits, Query};
use strata::schema::Table;
use strata_harness::data::{self, CATEGORIES};
use strata_harness::{Facts, Suite, Unit};

use crate::prepared::joined::{self, LISTED, NESTED, RECORD, STAR, Shown, TWO_ATTRIBUTES};
use crate::prepared::{Ours, SST, described, records};
use crate::whole::{answers, list};

pub fn rows(suite: &mut Suite) {
    for shown in [RECORD, STAR, TWO_ATTRIBUTES, NESTED] {
        select(suite, shown);
    }
    join(suite);
}

/// A hundred records by id, with more or less of each selected.
fn select(suite: &mut Suite, shown: Shown) {
    let n = records(suite.scale());
    let what = match shown.select.split_once('=') {
        Some((_, attributes)) => format!("with select={attributes}"),
        None => "without a select".to_owned(),
    };
    let about = Facts::new(format!("parses a query for {LISTED} records by id {what}, and writes the result"));
    let about = about.data(described(n)).state(SST).indexes(1).unit(Unit::Records, LISTED);
    let about = if shown.select.is_empty() { about } else { about.against(format!("select/strata/{}", RECORD.case)) };
    suite.row(
        "select",
        "strata",
        shown.case,
        about,
        || joined::ours(n),
        move |ours: Arc<Ours>| {
            let lists: Vec<_> = shown.lists(n).into_iter().map(|(first, json)| (shown.query(first), json)).collect();
            let mut answer = Vec::new();
            for (text, json) in &lists {
                write(&ours, text, &mut answer);
                assert_eq!(String::from_utf8_lossy(&answer), *json);
            }
            move |turn| {
                let (text, json) = &lists[turn as usize % lists.len()];
                write(&ours, text, &mut answer);
                if black_box(&answer).len() == json.len() { LISTED } else { 0 }
            }
        },
    );
}

/// Writes a list as JSON.
fn write(ours: &Ours, text: &str, answer: &mut Vec<u8>) {
    answer.clear();
    answer.push(b'[');
    list(ours, text, |json| {
        answer.extend_from_slice(json);
        answer.push(b',');
    });
    *answer.last_mut().expect("it begins with a bracket") = b']';
}

/// The records of a category: by its id, by its title, and as its related records.
fn join(suite: &mut Suite) {
    let n = records(suite.scale());
    let matches = n / CATEGORIES;
    let facts = |op: String| Facts::new(op).data(described(n)).state(SST).indexes(1).unit(Unit::Records, matches);
    let ours = || joined::ours(n);
    let about = facts(format!("parses a query of one equality on the foreign key, and writes its {matches} records"));
    suite.row("join", "strata", "foreign_key", about, ours, move |ours| {
        let text = |number| format!("category=={}", data::category(number));
        answers(ours, (0..CATEGORIES).map(text).collect(), matches)
    });
    let about =
        facts(format!("parses a query of one equality on the related record, and writes its {matches} records"));
    suite.row("join", "strata", "related", about.against("join/strata/foreign_key"), ours, move |ours| {
        let text = |number| format!("shelf.title=={}", joined::title(number).replace(' ', "%20"));
        answers(ours, (0..CATEGORIES).map(text).collect(), matches)
    });
    let about =
        facts(format!("parses and answers a query for one record with the ids of the {matches} that refer to it"));
    suite.row("join", "strata", "to_many", about, ours, move |ours: Arc<Ours>| {
        let named = |table: &Table| table.name == "Category";
        let position = ours.database.schema().tables.iter().position(named).expect("a table of the schema");
        let text = |number| format!("id=={}&select=products{{id}}", data::category(number));
        let texts: Vec<String> = (0..CATEGORIES).map(text).collect();
        let ids = |number| {
            let of_category = (0..n).filter(|product| data::category(*product) == data::category(number));
            let ids: Vec<String> = of_category.map(|product| format!("{{\"id\":\"{}\"}}", data::id(product))).collect();
            format!("{{\"products\":[{}]}}", ids.join(","))
        };
        let (expected, limits): (Vec<String>, _) = ((0..CATEGORIES).map(ids).collect(), Limits::in_url(10_000));
        move |turn| {
            let (place, mut whole) = ((turn % CATEGORIES) as usize, false);
            let schema = ours.database.schema();
            let table = &schema.tables[position];
            let query = Query::parse(schema, table, &texts[place], &limits).expect("a query");
            let shown = query.show(&ours.database, table, |_, json| {
                whole = json == expected[place].as_bytes();
                Ok(())
            });
            shown.expect("a healthy store");
            if whole { matches } else { 0 }
        }
    });
}
