//! Queries against a naive evaluator: random schemas, records and queries, with indexes, without, and with indexes that come and go.

use serde_json::{Value as Json, json};
use strata::transaction::{Clock, Database, Precondition};

use super::naive::{self, Kind, Tree};
use super::{ids, ids_by_pages, total};
use crate::engine::{Random, assert_consistent, fresh, open_idle};

/// Attributes, their types and the indexes they may have.
const ATTRIBUTES: [(&str, &str, Kind, &[&str]); 12] = [
    ("name", "String", Kind::Text, &["", "@indexed", HASH, BOTH, WORDS]),
    ("mail", "String", Kind::Text, &["", "@unique"]),
    ("size", "Int", Kind::Number, &["", "@indexed", HASH]),
    ("price", "Float", Kind::Number, &["", "@indexed", HASH]),
    ("ok", "Boolean", Kind::Boolean, &["", "@indexed"]),
    ("day", "Date", Kind::Date, &["", "@indexed"]),
    ("tags", "[String]", Kind::Text, &["", "@indexed", HASH, WORDS]),
    ("marks", "[Int]", Kind::Number, &["", "@indexed"]),
    ("code", "String!", Kind::Text, &["", "@indexed @unique"]),
    ("up", "ID", Kind::Text, &["", "@indexed", HASH]),
    ("until", "Int", Kind::Number, &["", "@indexed"]),
    ("extra", "Any", Kind::Any, &[""]),
];
/// When records expire, if the schema says so: `until` is in milliseconds.
const NOW_US: i64 = 10_000;
const WORDS: &str = "@indexed(type: \"fulltext\")";
const HASH: &str = "@indexed(type: \"hash\")";
const BOTH: &str = "@indexed @indexed(type: \"hash\")";
/// A record may be above others, which are below it.
const RELATED: &str = "above: T @relationship(from: \"up\") below: [T] @relationship(to: \"up\")";

fn kind(attribute: &str) -> Kind {
    ATTRIBUTES.iter().find(|(name, ..)| *name == attribute).map_or(Kind::Text, |(_, _, kind, _)| *kind)
}

fn is_list(attribute: &str) -> bool {
    matches!(attribute, "tags" | "marks")
}

/// The attributes by which the list of a composite index may be sorted, and that it may be made of.
fn scalars() -> Vec<&'static str> {
    ATTRIBUTES.map(|(name, ..)| name).into_iter().filter(|name| !is_list(name) && *name != "extra").collect()
}

/// The schema with some indexes, and with none; the attributes of the composite indexes.
fn schemas(random: &mut Random, expires: bool) -> ([String; 2], Vec<Vec<&'static str>>) {
    let (mut with, mut without) = (String::new(), String::new());
    for (name, of, _, indexes) in ATTRIBUTES {
        let expiry = if expires && name == "until" { "@expiresAt" } else { "" };
        with += &format!("{name}: {of} {expiry} {} ", indexes[random.below(indexes.len())]);
        without += &format!("{name}: {of} {expiry} ");
    }
    let composite = |random: &mut Random| {
        let (mut left, mut chosen) = (scalars(), Vec::new());
        for _ in 0..2 + random.below(2) {
            chosen.push(left.swap_remove(random.below(left.len())));
        }
        chosen
    };
    let composites: Vec<_> = (0..1 + random.below(3)).map(|_| composite(random)).collect();
    let directives: String = composites.iter().map(|names| format!("@compositeIndex(fields: {names:?}) ")).collect();
    let schema = |directives: &str, attributes: &str| {
        format!("type T @table {directives} {{ id: ID @primaryKey {attributes} {RELATED} }}")
    };
    ([schema(&directives, &with), schema("", &without)], composites)
}

/// Conditions on the attributes of a composite index, from the first: most say what the value is.
fn composed(random: &mut Random, composites: &[Vec<&str>]) -> Tree {
    let names = &composites[random.below(composites.len())];
    let tests = names[..1 + random.below(names.len())].iter().map(|name| {
        let test = test_on(random, name);
        match test {
            Tree::Test { attribute, values, .. } if random.below(3) > 0 => {
                let value = if random.below(8) == 0 { "null".to_owned() } else { values[0].replace('*', "b") };
                let value = if value.is_empty() { "a".to_owned() } else { value };
                Tree::Test { attribute, operator: "==", values: vec![value] }
            }
            other => other,
        }
    });
    let mut all: Vec<_> = tests.collect();
    if random.below(3) == 0 {
        all.push(tree(random, 1));
    }
    if all.len() == 1 { all.remove(0) } else { Tree::All(all) }
}

/// Whether a record is there.
fn is_alive(record: &Json, expires: bool) -> bool {
    !expires || record["until"].as_i64().is_none_or(|until| until > NOW_US / 1000)
}

/// A text of which there are few, so that they meet: with prefixes of one another, reserved characters, escapes, and longer than is
/// indexed.
fn text(random: &mut Random) -> String {
    let usual = [
        "a",
        "ab",
        "abb",
        "b",
        "",
        "null",
        "a,b",
        "a*b",
        "a\"\\b",
        "a\u{0}b",
        "\u{e9}",
        "A",
        "true",
        "7",
        "abb ab",
        "Null-AB abb!",
    ];
    match random.below(usual.len() + 2) {
        long if long >= usual.len() => "x".repeat(1023 + random.below(3)) + ["", "a", "b"][random.below(3)],
        short => usual[short].to_owned(),
    }
}

fn number(random: &mut Random, whole: bool) -> String {
    let usual = ["0", "-1", "9", "10", "99", "100", "-9007199254740993", "9007199254740992", "9007199254740993"];
    match random.below(usual.len() + 4) {
        other if other >= usual.len() && whole => random.below(20).to_string(),
        other if other >= usual.len() => format!("{}.{}", random.below(20), ["25", "5", "75", "0"][random.below(4)]),
        other => usual[other].to_owned(),
    }
}

fn date(random: &mut Random) -> String {
    let day = 10 + random.below(8);
    match random.below(3) {
        0 => format!("2026-01-{day}"),
        1 => format!("2026-01-{day}T{:02}:00:00Z", random.below(24)),
        _ => format!("2026-01-{day}T{:02}:00:00+{:02}:00", random.below(24), random.below(12)),
    }
}

/// A value of an attribute as text. A Float holds integers up to 2^53 alone.
fn value(random: &mut Random, attribute: &str, stored: bool) -> String {
    match kind(attribute) {
        Kind::Text => text(random),
        Kind::Boolean => ["true", "false"][random.below(2)].to_owned(),
        Kind::Date => date(random),
        Kind::Any => ["1", "2.5", "7", "true", "false", "a", "ab", "b"][random.below(8)].to_owned(),
        Kind::Number => {
            let whole = stored && attribute != "price";
            let number = number(random, whole);
            if stored && !whole && number.ends_with("993") { "0.25".to_owned() } else { number }
        }
    }
}

fn json_of(random: &mut Random, attribute: &str) -> Json {
    let text = value(random, attribute, true);
    match kind(attribute) {
        Kind::Text | Kind::Date => Json::String(text),
        _ => serde_json::from_str(&text).expect("a number or a Boolean"),
    }
}

fn record(random: &mut Random, number: usize) -> Json {
    let mut record = json!({ "id": format!("{:03}", number * 7 % 1000), "code": format!("c{number}") });
    for (name, ..) in ATTRIBUTES.into_iter().filter(|(name, ..)| *name != "code") {
        record[name] = match random.below(5) {
            0 => Json::Null,
            _ if name == "up" => Json::String(format!("{:03}", random.below(450) * 7 % 1000)),
            _ if name == "extra" => extra(random, 3),
            _ if name == "mail" => Json::String(format!("{}{number}", ["m", "n"][random.below(2)])),
            _ if is_list(name) => (0..random.below(4)).map(|_| json_of(random, name)).collect(),
            _ => json_of(random, name),
        };
    }
    record
}

/// Something of an `Any`: objects with the names a and b, lists, scalars of which there are few.
fn extra(random: &mut Random, depth: usize) -> Json {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => json!(random.below(3)),
        1 => json!(2.5),
        2 => json!(random.below(2) == 0),
        3 => json!(["a", "ab", "b", "7"][random.below(4)]),
        4 => Json::Null,
        5 => (0..random.below(3)).map(|_| extra(random, depth - 1)).collect(),
        _ => json!({ "a": extra(random, depth - 1), "b": extra(random, depth - 1) }),
    }
}

fn tree(random: &mut Random, depth: usize) -> Tree {
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0..3 => test(random),
        3 => test_of_any(random),
        4 => related(random),
        5 | 6 => Tree::All((0..2 + random.below(2)).map(|_| tree(random, depth - 1)).collect()),
        7 => Tree::Any((0..2 + random.below(2)).map(|_| tree(random, depth - 1)).collect()),
        _ => Tree::Not(Box::new(tree(random, depth - 1))),
    }
}

/// A test of a record that is related, by way of one that is, or not.
fn related(random: &mut Random) -> Tree {
    let relationship = ["above", "below"][random.below(2)];
    let test = match random.below(5) {
        0 => None,
        1 => Some(related(random)),
        2 => Some(test_of_any(random)),
        _ => Some(test(random)),
    };
    Tree::Related(relationship, test.map(Box::new))
}

fn test_of_any(random: &mut Random) -> Tree {
    const OPERATORS: [&str; 11] =
        ["==", "!=", "=gt=", "=ge=", "=lt=", "=le=", "=gelt=", "=in=", "=out=", "=ct=", "=sw="];
    let attribute = ["extra", "extra.a", "extra.b", "extra.a.b", "extra.b.a"][random.below(5)].to_owned();
    let operator = OPERATORS[random.below(OPERATORS.len())];
    let mut values: Vec<String> = (0..3).map(|_| value(random, "extra", false)).collect();
    match operator {
        "=in=" | "=out=" => {}
        "=gelt=" => values.truncate(2),
        "==" | "!=" if random.below(4) == 0 => values = vec!["null".to_owned()],
        "==" if random.below(4) == 0 => return Tree::Bare(attribute),
        _ => values.truncate(1),
    }
    Tree::Test { attribute, operator, values }
}

fn test(random: &mut Random) -> Tree {
    let scalars = ATTRIBUTES.map(|(name, ..)| name).into_iter().filter(|name| *name != "extra");
    let names: Vec<&str> = ["id"].into_iter().chain(scalars).collect();
    let attribute = names[random.below(names.len())];
    test_on(random, attribute)
}

fn test_on(random: &mut Random, attribute: &str) -> Tree {
    const ALL: [&str; 14] =
        ["==", "==", "!=", "===", "!==", "=gt=", "=ge=", "=lt=", "=le=", "=gele=", "=gtlt=", "=gelt=", "=in=", "=out="];
    const TEXT: [&str; 5] = ["=ct=", "=sw=", "=ew=", "=~=", "=ft="];
    if random.below(12) == 0 {
        return Tree::Bare(attribute.to_owned());
    }
    let is_text = kind(attribute) == Kind::Text;
    let operator = match random.below(ALL.len() + if is_text { TEXT.len() } else { 0 }) {
        one if one < ALL.len() => ALL[one],
        other => TEXT[other - ALL.len()],
    };
    let mut one = || match attribute {
        "id" | "up" => format!("{:03}", random.below(1000)),
        "code" => format!("c{}", random.below(400)),
        "mail" => format!("{}{}", ["m", "n"][random.below(2)], random.below(400)),
        _ => value(random, attribute, false),
    };
    let mut values: Vec<String> = (0..4).map(|_| one()).collect();
    if !operator.starts_with("==") && !operator.starts_with('!') {
        // A text that is empty can be asked for by these alone.
        values.iter_mut().filter(|value| value.is_empty()).for_each(|value| *value = "a".to_owned());
    }
    match operator {
        "=in=" | "=out=" => values.truncate(1 + random.below(4)),
        "=gele=" | "=gtlt=" | "=gelt=" => values.truncate(2),
        "==" | "!=" if random.below(6) == 0 => values = vec!["null".to_owned()],
        "==" | "!=" if is_text && random.below(3) == 0 => {
            values = vec![["a*", "*b", "*a*", "a*b", "x*a", "*", "c1*", "0*1"][random.below(8)].to_owned()];
        }
        "=sw=" if random.below(2) == 0 => values = vec![["c1", "0", "m1", "a", "xx"][random.below(5)].to_owned()],
        "=~=" => values = vec!["^a.*b$".to_owned()],
        "=ft=" => {
            let long = "X".repeat(1023 + random.below(3));
            let texts = ["ab", "AB", "abb", "null", "c1", "ab abb", "true ab", "abb, null; AB", &long];
            values = vec![texts[random.below(texts.len())].to_owned()];
        }
        _ => values.truncate(1),
    }
    Tree::Test { attribute: attribute.to_owned(), operator, values }
}

/// A tree as the text of a query. What is a star or null in the tree of `==` is meant as such; elsewhere it is a character.
fn write(tree: &Tree, random: &mut Random) -> String {
    let joined = |trees: &[Tree], join: &str, random: &mut Random| {
        let parts: Vec<_> = trees.iter().map(|tree| format!("({})", write(tree, random))).collect();
        parts.join(join)
    };
    match tree {
        Tree::All(trees) => joined(trees, ["&", ";"][random.below(2)], random),
        Tree::Any(trees) => joined(trees, ["|", ","][random.below(2)], random),
        Tree::Not(tree) => format!("!({})", write(tree, random)),
        Tree::Bare(attribute) => attribute.clone(),
        Tree::Related(relationship, None) => (*relationship).to_owned(),
        Tree::Related(relationship, Some(test)) => format!("{relationship}.{}", write(test, random)),
        Tree::Test { attribute, operator, values } => {
            let is_wild = matches!(*operator, "==" | "!=");
            let values: Vec<_> = values.iter().map(|value| encode(value, is_wild)).collect();
            format!("{attribute}{operator}{}", values.join(","))
        }
    }
}

fn encode(text: &str, stars: bool) -> String {
    let encode = |byte: u8| match byte {
        b'*' if stars => "*".to_owned(),
        byte if byte.is_ascii_alphanumeric() || byte == b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[test]
fn plans_give_what_looking_at_every_record_gives() {
    for seed in 1..=12 {
        let mut random = Random(seed * 0x9e37_79b9);
        let expires = seed % 4 == 0;
        let (schemas, composites) = schemas(&mut random, expires);
        let count = [40, 400][seed as usize % 2];
        let mut records: Vec<Json> = (0..count).map(|number| record(&mut random, number)).collect();
        // With the indexes, without them, and one that will have them: they are built while it is asked.
        let clock = Clock::standing_at(NOW_US);
        let created = |schema: &String| {
            let (directory, database) = fresh(schema);
            (directory, database.with_clock(&clock))
        };
        let mut stores = [&schemas[0], &schemas[1], &schemas[1]].map(created).into_iter().collect::<Vec<_>>();
        for (_, database) in &stores {
            let body = serde_json::to_vec(&records).expect("JSON");
            database.create_all(database.table("T").expect("it exists"), &body).expect("records that do not collide");
            if seed % 3 == 0 {
                database.store().flush().expect("a store that flushes");
            }
        }
        records.retain(|record| is_alive(record, expires));
        for asked in 0..150 {
            // As created, and after each of two rounds of changes.
            if asked % 50 == 49 {
                stores[2].1.catch_up().expect("its indexes can be built");
                change(&stores, &mut records, count, &mut random);
                records.retain(|record| is_alive(record, expires));
            }
            if asked % 50 == 0 {
                // Its indexes come and go.
                let (directory, database) = stores.pop().expect("there are three");
                drop(database);
                let schema = &schemas[usize::from(asked == 50)];
                let database = open_idle(directory.path(), schema).expect("indexes may be added and dropped");
                stores.push((directory, database.with_clock(&clock)));
            }
            if asked % 4 == 0 {
                stores[2].1.work().expect("its indexes can be built");
            }
            let tree = if random.below(3) == 0 { composed(&mut random, &composites) } else { tree(&mut random, 3) };
            let world = naive::World::of(&records);
            let mut matching: Vec<&Json> =
                records.iter().filter(|record| naive::satisfies(record, &tree, &kind, &world)).collect();
            let text = write(&tree, &mut random);
            for (_, database) in &stores {
                check(database, &schemas[0], &text, &mut matching, &composites, &mut random);
            }
        }
    }
}

/// Replaces, merges, deletes and creates some records.
fn change(stores: &[(tempfile::TempDir, Database)], records: &mut Vec<Json>, count: usize, random: &mut Random) {
    let mut changed = Vec::new();
    for number in 0..count {
        let new = record(random, number);
        let old = records.iter().position(|record| record["id"] == new["id"]).map(|place| records.swap_remove(place));
        let (id, none) = (new["id"].as_str().expect("an id").to_owned(), &Precondition::None);
        let verb = random.below(5);
        let name = ATTRIBUTES[random.below(ATTRIBUTES.len() - 1)].0; // Not `extra`: objects in it are merged.
        for (_, database) in stores {
            let table = database.table("T").expect("it exists");
            let body = serde_json::to_vec(&new).expect("JSON");
            let patch = serde_json::to_vec(&json!({ name: new[name] })).expect("JSON");
            match (verb, &old) {
                (0, Some(_)) => database.delete(table, &id, none).expect("it is there"),
                (1, _) => database.replace(table, &id, &body, none).map(drop).expect("it does not collide"),
                (2, Some(_)) => database.merge(table, &id, &patch, none).map(drop).expect("it does not collide"),
                _ => {}
            }
        }
        changed.extend(match (verb, old) {
            (0, _) => None,
            (1, _) => Some(new),
            (2, Some(mut old)) => {
                old[name] = new[name].clone();
                Some(old)
            }
            (_, old) => old,
        });
    }
    *records = changed;
    for (_, database) in stores {
        assert_consistent(database);
    }
}

/// Asks a query as it is, sorted, and cut.
fn check(
    database: &Database,
    schema: &str,
    text: &str,
    matching: &mut [&Json],
    composites: &[Vec<&str>],
    random: &mut Random,
) {
    let id = |record: &&Json| record["id"].as_str().expect("an id").to_owned();
    let all = ids(database, text);
    let mut sorted = all.clone();
    sorted.sort();
    let mut expected: Vec<String> = matching.iter().map(id).collect();
    expected.sort();
    assert_eq!(sorted, expected, "{text}\n{schema}");
    assert_eq!(total(database, text), all.len(), "the count of {text}\n{schema}");
    let (offset, limit) = (random.below(5), random.below(12));
    let cut = |all: &[String]| all.iter().skip(offset).take(limit).cloned().collect::<Vec<_>>();
    let clauses = format!("&offset={offset}&limit={limit}");
    assert_eq!(ids(database, &format!("({text}){clauses}")), cut(&all), "{text}{clauses}\n{schema}");
    let rows = 1 + random.below(40);
    assert_eq!(ids_by_pages(database, &format!("({text})"), rows, || ()), all, "{text} by {rows}\n{schema}");
    let terms = terms(random, composites);
    matching.sort_by(|one, other| naive::precedes(one, other, &terms, &kind));
    let expected: Vec<String> = matching.iter().map(id).collect();
    let sort: Vec<String> =
        terms.iter().map(|(name, descending)| format!("{}{name}", if *descending { "-" } else { "" })).collect();
    let sort = format!("({text})&sort={}", sort.join(","));
    assert_eq!(ids(database, &sort), expected, "{sort}\n{schema}");
    assert_eq!(ids(database, &format!("{sort}{clauses}")), cut(&expected), "{sort}{clauses}\n{schema}");
    assert_eq!(ids_by_pages(database, &sort, rows, || ()), expected, "{sort} by {rows}\n{schema}");
}

/// An order: by any attributes, or by those of a composite index from one on.
fn terms(random: &mut Random, composites: &[Vec<&str>]) -> Vec<(String, bool)> {
    let scalars: Vec<&str> = ["id"].into_iter().chain(scalars()).collect();
    let mut names: Vec<&str> = match random.below(2) {
        0 => (0..1 + random.below(2)).map(|_| scalars[random.below(scalars.len())]).collect(),
        _ => {
            let composite = &composites[random.below(composites.len())];
            composite[random.below(composite.len())..].to_vec()
        }
    };
    if names.len() > 1 && names[0] == names[1] {
        names.pop();
    }
    let (all_descend, differ) = (random.below(2) == 0, random.below(4) == 0);
    names.into_iter().map(|name| (name.to_owned(), if differ { random.below(2) == 0 } else { all_descend })).collect()
}
