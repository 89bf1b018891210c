//! Queries answered the slow way: over the records as JSON, one condition at a time, from the words of docs/queries.md. Nothing of it
//! is shared with the server's reader, evaluator or planner; it knows the tree that the query was written from, not its text.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value as Json;

/// A condition, before it was written as text.
#[derive(Clone, Debug)]
pub enum Tree {
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Not(Box<Tree>),
    Test {
        attribute: String,
        operator: &'static str,
        values: Vec<String>,
    },
    /// The attribute alone.
    Bare(String),
    /// A related record satisfies this, or exists.
    Related(&'static str, Option<Box<Tree>>),
}

/// The records of the table, which are related to one another: `above` is the one whose id is `up`, `below` those whose `up` is the id.
pub struct World<'w> {
    by_id: HashMap<&'w str, &'w Json>,
    by_up: HashMap<&'w str, Vec<&'w Json>>,
}

impl<'w> World<'w> {
    pub fn of(records: &'w [Json]) -> Self {
        let mut by_up = HashMap::<_, Vec<_>>::new();
        for record in records {
            if let Some(up) = record["up"].as_str() {
                by_up.entry(up).or_default().push(record);
            }
        }
        let by_id = records.iter().map(|record| (record["id"].as_str().expect("an id"), record));
        Self { by_id: by_id.collect(), by_up }
    }

    fn related(&self, record: &Json, relationship: &str) -> Vec<&'w Json> {
        match relationship {
            "above" => record["up"].as_str().and_then(|up| self.by_id.get(up)).copied().into_iter().collect(),
            _ => self.by_up.get(record["id"].as_str().expect("an id")).cloned().unwrap_or_default(),
        }
    }
}

/// What the schema says of an attribute, as far as comparing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Boolean,
    Date,
    Any,
}

/// Whether a record satisfies a condition. `kind` says what an attribute is compared as.
pub fn satisfies(record: &Json, tree: &Tree, kind: &dyn Fn(&str) -> Kind, world: &World<'_>) -> bool {
    match tree {
        Tree::All(all) => all.iter().all(|one| satisfies(record, one, kind, world)),
        Tree::Any(any) => any.iter().any(|one| satisfies(record, one, kind, world)),
        Tree::Not(one) => !satisfies(record, one, kind, world),
        Tree::Related(relationship, test) => {
            let mut related = world.related(record, relationship).into_iter();
            related.any(|other| test.as_ref().is_none_or(|test| satisfies(other, test, kind, world)))
        }
        Tree::Bare(attribute) => match attribute.split_once('.') {
            Some((attribute, path)) => !leaves(&record[attribute], path).is_empty(),
            None => !record[attribute].is_null(),
        },
        Tree::Test { attribute, operator, values } => {
            let (name, path) = attribute.split_once('.').unwrap_or((attribute, ""));
            let (stored, kind) = (&record[name], kind(name));
            let positive = match *operator {
                "!=" => "==",
                "!==" => "===",
                "=out=" => "=in=",
                other => other,
            };
            let accepted = match kind {
                Kind::Any => compares_any(&leaves(stored, path), positive, values),
                _ => compares(stored, positive, values, kind),
            };
            accepted == (positive == *operator)
        }
    }
}

/// What is not null at a path, through every element of a list; of a list itself, the list and its elements.
fn leaves<'j>(json: &'j Json, path: &str) -> Vec<&'j Json> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    match json {
        Json::Null => Vec::new(),
        Json::Array(elements) => {
            let whole = path.is_empty().then_some(json).into_iter();
            whole.chain(elements.iter().flat_map(|element| leaves(element, path))).collect()
        }
        Json::Object(members) if !path.is_empty() => members.get(first).map_or_else(Vec::new, |at| leaves(at, rest)),
        _ if path.is_empty() => vec![json],
        _ => Vec::new(),
    }
}

/// A comparison of what stands in an `Any`: values of unlike types are neither equal nor ordered.
fn compares_any(leaves: &[&Json], operator: &str, values: &[String]) -> bool {
    if operator == "==" && values[0] == "null" {
        return leaves.is_empty();
    }
    leaves.iter().any(|leaf| {
        let order = |value: &String| match (leaf, value.parse::<f64>(), value.as_str()) {
            (Json::Number(number), Ok(_), _) => Some(quarters(&number.to_string()).cmp(&quarters(value))),
            (Json::Bool(boolean), Err(_), "true" | "false") => Some(boolean.cmp(&(value == "true"))),
            (Json::String(_), Err(_), "true" | "false") => None,
            (Json::String(text), Err(_), _) => Some(text.as_bytes().cmp(value.as_bytes())),
            _ => None,
        };
        let (first, second) = (order(&values[0]), values.get(1).and_then(order));
        let text = leaf.as_str();
        match operator {
            "==" => first == Some(Ordering::Equal),
            "=gt=" => first == Some(Ordering::Greater),
            "=ge=" => first.is_some_and(Ordering::is_ge),
            "=lt=" => first == Some(Ordering::Less),
            "=le=" => first.is_some_and(Ordering::is_le),
            "=gelt=" => first.is_some_and(Ordering::is_ge) && second.is_some_and(Ordering::is_lt),
            "=in=" => values.iter().any(|value| order(value) == Some(Ordering::Equal)),
            "=ct=" => text.is_some_and(|text| text.contains(&values[0])),
            "=sw=" => text.is_some_and(|text| text.starts_with(&values[0])),
            other => panic!("no operator {other} of an Any"),
        }
    })
}

/// A comparison that is no negation: of null false (but with null), of a list true if it is of an element.
fn compares(stored: &Json, operator: &str, values: &[String], kind: Kind) -> bool {
    if operator == "==" && values[0] == "null" {
        return stored.is_null();
    }
    match stored {
        Json::Null => false,
        Json::Array(elements) => elements.iter().any(|element| compares_one(element, operator, values, kind)),
        scalar => compares_one(scalar, operator, values, kind),
    }
}

fn compares_one(stored: &Json, operator: &str, values: &[String], kind: Kind) -> bool {
    let order = |value: &String| order(stored, value, kind);
    let text = || stored.as_str().expect("text operators stand on text");
    match operator {
        "==" if kind == Kind::Text && values[0].contains('*') => has_shape(text(), &values[0]),
        "==" | "===" => order(&values[0]).is_eq(),
        "=gt=" => order(&values[0]).is_gt(),
        "=ge=" => order(&values[0]).is_ge(),
        "=lt=" => order(&values[0]).is_lt(),
        "=le=" => order(&values[0]).is_le(),
        "=gele=" => order(&values[0]).is_ge() && order(&values[1]).is_le(),
        "=gtlt=" => order(&values[0]).is_gt() && order(&values[1]).is_lt(),
        "=gelt=" => order(&values[0]).is_ge() && order(&values[1]).is_lt(),
        "=gtle=" => order(&values[0]).is_gt() && order(&values[1]).is_le(),
        "=in=" => values.iter().any(|value| order(value).is_eq()),
        "=ct=" => text().contains(&values[0]),
        "=sw=" => text().starts_with(&values[0]),
        "=ew=" => text().ends_with(&values[0]),
        "=ft=" => {
            let has = |text: &str, term: &str| {
                text.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|run| run == term)
            };
            values[0].split(' ').all(|term| has(text(), &term.to_lowercase()))
        }
        // The one expression that is asked: begins with a and ends with b.
        "=~=" => text().starts_with('a') && text().ends_with('b') && text().len() > 1 && !text().contains('\n'),
        other => panic!("no operator {other}"),
    }
}

fn order(stored: &Json, value: &str, kind: Kind) -> Ordering {
    match kind {
        Kind::Text => stored.as_str().expect("text").as_bytes().cmp(value.as_bytes()),
        Kind::Boolean => stored.as_bool().expect("a Boolean").cmp(&(value == "true")),
        Kind::Number => quarters(&stored.to_string()).cmp(&quarters(value)),
        Kind::Date => instant(stored.as_str().expect("a Date")).cmp(&instant(value)),
        Kind::Any => unreachable!("nothing is sorted by an Any, and comparisons have a way of their own"),
    }
}

/// A number times four: exact, since those of the tests are quarters.
fn quarters(number: &str) -> i128 {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let (negative, digits) = (whole.starts_with('-'), whole.trim_start_matches('-'));
    let fraction = match fraction.trim_end_matches('0') {
        "" => 0,
        "25" => 1,
        "5" => 2,
        "75" => 3,
        other => panic!("{other} is no quarter"),
    };
    let size = digits.parse::<i128>().expect("digits") * 4 + fraction;
    if negative { -size } else { size }
}

/// Dates of the tests are days of January 2026, or such days with an hour and an offset of whole hours: in hours.
fn instant(text: &str) -> i64 {
    let day: i64 = text[8..10].parse().expect("a day");
    let Some(time) = text.get(11..) else { return day * 24 };
    let hour: i64 = time[..2].parse().expect("an hour");
    let offset: i64 = if time.ends_with('Z') { 0 } else { time[8..11].parse().expect("an offset") };
    day * 24 + hour - offset
}

/// Whether a text has the shape of a pattern with stars, tried in every way.
fn has_shape(text: &str, pattern: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| has_shape(&text[at..], &pattern[1..]))
        }
        Some(one) => text.strip_prefix(one).is_some_and(|rest| has_shape(rest, &pattern[one.len_utf8()..])),
    }
}

/// How two records stand in a list sorted by these terms (name, descending).
pub fn precedes(one: &Json, other: &Json, terms: &[(String, bool)], kind: &dyn Fn(&str) -> Kind) -> Ordering {
    for (attribute, descending) in terms {
        let ascending = match (&one[attribute], &other[attribute]) {
            (Json::Null, Json::Null) => Ordering::Equal,
            (Json::Null, _) => Ordering::Greater,
            (_, Json::Null) => Ordering::Less,
            (one, Json::String(text)) => order(one, text, kind(attribute)),
            (one, other) => order(one, &other.to_string(), kind(attribute)),
        };
        let found = if *descending { ascending.reverse() } else { ascending };
        if found.is_ne() {
            return found;
        }
    }
    let by_id = one["id"].as_str().cmp(&other["id"].as_str());
    if terms.last().is_some_and(|(_, descending)| *descending) { by_id.reverse() } else { by_id }
}
