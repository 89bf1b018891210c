//! Queries against a naive evaluator, on random schemas, records and queries, with indexes and without; and the plans of a few that
//! must be as they are.

mod naive;

use serde_json::{Value as Json, json};
use strata::query::{Limits, Query};
use strata::transaction::{Clock, Database, Precondition};

use super::engine::{Random, fresh, open_idle};
use naive::{Kind, Tree};

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
            (directory, database.by_clock(&clock))
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
                stores.push((directory, database.by_clock(&clock)));
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
        super::engine::assert_consistent(database);
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

#[test]
fn pages_miss_and_double_no_record_that_lasts() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"size\"]) { id: ID @primaryKey \
               kind: String @indexed(type: \"hash\") size: Int @indexed tags: [Int] @indexed \
               name: String @indexed(type: \"fulltext\") }";
    for text in [
        "",
        "kind==k1",
        "size=ge=3",
        "kind==k1|size==5",
        "tags=in=1,2,3",
        "sort=size",
        "sort=-size,name",
        "sort=name",
        "sort=-id",
        "kind==k1&size=ge=3",
        "kind==k1&sort=size",
        "kind==k1&sort=-size",
        "sort=kind,size",
        "sort=-kind,-size",
        "name=ft=n1",
        "name=ft=all%20n1",
        "name=ft=all%20n1&sort=-id",
    ] {
        let record = |number: usize| {
            let (kind, name) = (format!("k{}", number % 3), format!("all n{}", number * 7 % 5));
            json!({ "id": format!("{number:04}"), "kind": kind, "size": number % 10, "tags": [number % 4, number % 3], "name": name })
        };
        let (_directory, database) = filled(sdl, 0..400, record);
        let (table, mut random) = (database.table("T").expect("it exists"), Random(7));
        // The even ones last; the odd ones are deleted, created and changed while the pages are read.
        let expected: Vec<String> =
            ids(&database, text).into_iter().filter(|id| id.parse::<usize>().unwrap_or(1) % 2 == 0).collect();
        let listed = ids_by_pages(&database, text, 7, || {
            for _ in 0..20 {
                let number = 2 * random.below(200) + 1;
                let id = format!("{number:04}");
                match random.below(3) {
                    0 => drop(database.delete(table, &id, &Precondition::None)),
                    _ => {
                        let body = json!({ "kind": "k1", "size": random.below(12), "tags": [2], "name": "n1 all" })
                            .to_string();
                        database
                            .replace(table, &id, body.as_bytes(), &Precondition::None)
                            .expect("it is free of others");
                    }
                }
            }
        });
        let mut lasting = listed.clone();
        lasting.retain(|id| id.parse::<usize>().unwrap_or(1) % 2 == 0);
        assert_eq!(lasting, expected, "{text}");
    }
}

#[test]
fn composite_and_full_text_indexes_are_used_where_they_lead_to_fewer_records() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"size\"]) @compositeIndex(fields: [\"size\", \"name\", \"rank\"]) \
               { id: ID @primaryKey kind: String @indexed(type: \"hash\") size: Int name: String rank: Int @indexed \
                 about: String @indexed(type: \"fulltext\") notes: [String] @indexed(type: \"fulltext\") }";
    let record = |number: usize| {
        let (about, size) = (format!("all t{} u{}", number % 10, number % 7), number % 50);
        json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": size, "name": format!("n{}", number % 3),
                "rank": number, "about": about, "notes": [about, "all x1"] })
    };
    let (_directory, database) = filled(sdl, 0..2000, record);
    let cases = [
        ("kind==k1&size==13", "composite kind,size: 20"),
        ("kind==k1&size=gt=40&size=lt=45", "composite kind,size: 40"),
        ("size=gt=40&size=lt=45&kind==k1", "composite kind,size: 40"),
        ("kind==k1", "hash kind [kind==k1]: 256+"),
        ("kind==k1&size!=13", "hash kind [kind==k1] [size!=13]: 256+"),
        ("size==13", "composite size,name,rank: 40"),
        ("size==13&rank=gt=5", "composite size,name,rank [rank=gt=5]: 40"),
        ("size==13&name==n1&rank=gt=1000", "composite size,name,rank: 7"),
        ("size==13&name==n1&kind==k1", "composite size,name,rank [kind==k1]: 14"),
        ("size==13&name=sw=n", "composite size,name,rank: 40"),
        ("(kind==k1&size==13)|rank==7", "composite kind,size then ordered rank: 21+"),
        // Orders.
        ("kind==k1&sort=size", "composite kind,size, sorted by the steps: 256+"),
        ("kind==k1&sort=-size", "composite kind,size, sorted by the steps: 256+"),
        ("kind==k1&sort=size,-id", "hash kind [kind==k1], sorted in memory: 256+"),
        ("kind==k1&size=lt=10&sort=-size", "composite kind,size, sorted by the steps: 100"),
        ("sort=kind,size", "composite kind,size, sorted by the steps: 256+"),
        ("sort=-kind,-size,-id", "composite kind,size, sorted by the steps: 256+"),
        ("sort=kind,-size", "table, sorted in memory: 256+"),
        ("sort=kind", "table, sorted in memory: 256+"),
        ("name==n1&sort=size,rank", "composite size,name,rank [name==n1], sorted by the steps: 256+"),
        ("size==13&name==n1&sort=-rank", "composite size,name,rank, sorted by the steps: 14"),
        ("size==13&sort=name,rank", "composite size,name,rank, sorted by the steps: 40"),
        ("size==13&rank=gt=5&sort=rank", "composite size,name,rank [rank=gt=5], sorted in memory: 40"),
        // Terms.
        ("about=ft=t1", "fulltext about: 200"),
        ("about=ft=T1%20u2", "fulltext about: 200+"),
        ("about=ft=all%20t1", "fulltext about: 200+"),
        ("notes=ft=t1", "fulltext notes: 200"),
        ("notes=ft=x1%20t1", "fulltext notes [notes=ft=x1%20t1]: 200+"),
        ("about=ft=t1%20u2&sort=-id", "fulltext about, sorted by the steps: 200+"),
        ("about=ft=t1&kind==k1&size==13", "composite kind,size [about=ft=t1]: 20"),
        ("!(about=ft=t1)", "table [!(about=ft=t1)]: 256+"),
    ];
    for (text, expected) in cases {
        assert_eq!(plan(&database, text), expected, "{text}");
    }
    let numbers =
        |text: &str| ids(&database, text).iter().map(|id| id.parse().expect("a number")).collect::<Vec<usize>>();
    assert_eq!(numbers("notes=ft=x1%20t1"), [0; 0], "no element has both");
    let mut both: Vec<usize> = (0..2000).filter(|number| number % 10 == 1 && number % 7 == 2).collect();
    assert_eq!(numbers("about=ft=u2%20t1"), both);
    both.reverse();
    assert_eq!(numbers("about=ft=u2%20t1&sort=-id"), both);
    let before = database.counters().looked_up;
    assert_eq!(
        numbers("about=ft=u2%20t1&limit=5"),
        (0..2000).filter(|number| number % 70 == 51).take(5).collect::<Vec<_>>()
    );
    assert_eq!(database.counters().looked_up - before, 5, "only what has all terms is read");
}

#[test]
fn long_texts_in_a_composite_index_are_in_order_all_the_same() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"name\", \"rank\"]) { id: ID @primaryKey kind: String name: String rank: Int }";
    let (long, short) = ("x".repeat(1500), "y".repeat(3));
    let name =
        |number: usize| if number.is_multiple_of(5) { short.clone() } else { format!("{long}{}", number * 37 % 100) };
    let kind =
        |number: usize| format!("{}{}", "k".repeat(if number.is_multiple_of(2) { 1 } else { 1100 }), number % 3 % 2);
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": kind(number), "name": name(number), "rank": number % 10 });
    let (_directory, database) = filled(sdl, 0..1200, record);
    let sorted = |matches: &dyn Fn(usize) -> bool, by_kind: bool| {
        let kind = |number| if by_kind { kind(number) } else { String::new() };
        let places = (0..1200).filter(|number| matches(*number));
        let mut places: Vec<_> =
            places.map(|number| (kind(number), name(number), number % 10, format!("{number:04}"))).collect();
        places.sort();
        places.into_iter().map(|(.., id)| id).collect::<Vec<_>>()
    };
    let mut all = sorted(&|_| true, true);
    assert_eq!(plan(&database, "sort=kind,name,rank"), "composite kind,name,rank, sorted by the steps: 256+");
    assert_eq!(ids(&database, "sort=kind,name,rank"), all);
    assert_eq!(ids_by_pages(&database, "sort=kind,name,rank", 37, || ()), all);
    all.reverse();
    assert_eq!(ids(&database, "sort=-kind,-name,-rank"), all);
    for chosen in [kind(0), kind(1), kind(2)] {
        let text = format!("kind=={chosen}&sort=name,rank");
        let expected = sorted(&|number| kind(number) == chosen, false);
        assert_eq!(ids(&database, &text), expected, "{text}");
        assert_eq!(ids_by_pages(&database, &text, 23, || ()), expected, "{text}");
    }
}

/// What cannot be answered without an index that is being built is to be asked again later; what can, is answered.
#[test]
fn an_order_that_needs_an_index_that_is_being_built_is_refused_for_now() {
    let bare = "type T @table { id: ID @primaryKey kind: String size: Int }";
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": number % 50 });
    let (directory, database) = filled(bare, 0..1000, record);
    drop(database);
    let sdl = bare
        .replace("@table", "@table @compositeIndex(fields: [\"kind\", \"size\"])")
        .replace("size: Int", "size: Int @indexed");
    let database = open_idle(directory.path(), &sdl).expect("indexes may be added");
    let outcome = |text: &str| {
        let (table, limits) = (database.table("T").expect("it exists"), Limits::in_url(1000));
        let query = Query::parse(database.schema(), table, text, &limits).expect("it is read");
        super::engine::outcome(&query.run(&database, table, |_| Ok(())))
    };
    for (text, then) in [
        ("sort=size&offset=100000", "ok"),
        ("kind==k1&sort=-size&offset=100000", "ok"),
        ("sort=kind&offset=100000", "invalid"),
    ] {
        let now = if then == "ok" { "busy" } else { then };
        assert_eq!((outcome(text), outcome(&text.replace("100000", "10"))), (now, "ok"), "{text}");
    }
    assert_eq!(plan(&database, "kind==k1&size==13"), "table [kind==k1] [size==13]: 256+");
    database.catch_up().expect("it can be built");
    for (text, then) in [
        ("sort=size&offset=100000", "ok"),
        ("kind==k1&sort=-size&offset=100000", "ok"),
        ("sort=kind&offset=100000", "invalid"),
    ] {
        assert_eq!(outcome(text), then, "{text}");
    }
    assert_eq!(plan(&database, "kind==k1&size==13"), "composite kind,size: 10");
}

/// The order of such a list is that of the index by which it began.
#[test]
fn a_list_goes_on_as_it_began_when_a_better_index_is_ready_meanwhile() {
    let bare = "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") size: Int }";
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": number * 7 % 50 });
    let (directory, database) = filled(bare, 0..1000, record);
    drop(database);
    let sdl = bare.replace("@table", "@table @compositeIndex(fields: [\"kind\", \"size\"])");
    let database = open_idle(directory.path(), &sdl).expect("indexes may be added");
    let text = "kind==k1&size=lt=40";
    let expected = ids(&database, text);
    assert_eq!(plan(&database, text), "hash kind [kind==k1] [size=lt=40]: 250");
    let listed = ids_by_pages(&database, text, 10, || {
        database.work().expect("it can be built");
    });
    assert_eq!(plan(&database, text), "composite kind,size: 200");
    assert_eq!(listed, expected);
    assert_ne!(ids(&database, text), expected);
}

#[test]
fn a_cursor_goes_with_its_query_and_its_index() {
    let record = |number: usize| json!({ "id": format!("{number:02}"), "size": number % 2 });
    let (directory, database) = filled("type T @table { id: ID @primaryKey size: Int @indexed }", 0..20, record);
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, "size==1&limit=3", &Limits::in_url(100)).expect("it is read");
    let next = query.show(&database, table, |_, _| Ok(())).expect("a healthy store").next.expect("there are ten");
    let parse = |text: String| {
        let limits = Limits::in_url(100);
        Query::parse(database.schema(), table, text.leak(), &limits)
    };
    assert!(parse(format!("limit=5;size==1&select=id&after={next}")).is_ok(), "what is shown of them does not matter");
    for other in ["size==0", "size==1&sort=id", "size==1&offset=1", "id", ""] {
        assert!(parse(format!("{other}&after={next}").trim_start_matches('&').to_owned()).is_err(), "{other}");
    }
    let text = query.text_after(&next);
    drop(database);
    let schema = strata::schema::Schema::parse("type T @table { id: ID @primaryKey size: Int }").expect("a schema");
    let database = Database::open(directory.path(), schema, &strata::storage::Options::default()).expect("it opens");
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, &text, &Limits::in_url(100)).expect("it is read");
    let refused = query.run(&database, table, |_| Ok(())).expect_err("the index is gone");
    assert!(refused.to_string().contains("index"), "{refused}");
}

#[test]
fn a_cursor_of_one_record_is_at_its_end() {
    let (_directory, database) = filled(
        "type T @table { id: ID @primaryKey mail: String @unique }",
        0..3,
        |number| json!({ "id": number.to_string(), "mail": number.to_string() }),
    );
    let table = database.table("T").expect("it exists");
    for condition in ["id==1", "mail==1"] {
        let shown = |clauses: &str| {
            let text = format!("{condition}&limit=1&select=id{clauses}");
            let query = Query::parse(database.schema(), table, &text, &Limits::in_url(1000)).expect("it is valid");
            let mut records = 0;
            let shown = query.show(&database, table, |_, _| {
                records += 1;
                Ok(())
            });
            (records, shown.unwrap_or_else(|error| panic!("{text}: {error}")).next)
        };
        let (records, next) = shown("&pagination=true");
        assert_eq!(records, 1, "{condition}");
        let next = next.expect("it is as long as its limit");
        assert_eq!(shown(&format!("&after={next}")).0, 0, "{condition}");
    }
}

#[test]
fn a_record_that_is_related_to_several_is_shown_once_for_each() {
    for index in ["", "@indexed", "@indexed(type: \"hash\")"] {
        let sdl = format!(
            "type T @table {{ id: ID @primaryKey tagIds: [ID] {index} }}
             type Tag @table {{ id: ID @primaryKey items: [T] @relationship(to: \"tagIds\") }}"
        );
        // More than are read at once.
        let (_directory, database) =
            filled(&sdl, 0..1100, |number| json!({ "id": format!("{number:04}"), "tagIds": ["a", "b"] }));
        let table = database.table("Tag").expect("it exists");
        database.create_all(table, br#"[{"id":"a"},{"id":"b"}]"#).expect("valid");
        let limits = Limits::in_url(1000);
        let query = Query::parse(database.schema(), table, "select=items{id}", &limits).expect("it is valid");
        let expected: Vec<_> = (0..1100).map(|number| json!({ "id": format!("{number:04}") })).collect();
        let mut lists = 0;
        let shown = query.show(&database, table, |_, text| {
            lists += 1;
            let shown: Json = serde_json::from_slice(text).expect("JSON");
            let items = shown["items"].as_array().expect("a list");
            assert!(*items == expected, "{index}: {} items", items.len());
            Ok(())
        });
        shown.expect("a healthy store");
        assert_eq!(lists, 2);
    }
}

#[test]
fn related_records_are_read_in_a_counted_number_of_calls() {
    let sdl = "type Maker @table { id: ID @primaryKey name: String brands: [Brand] @relationship(to: \"makerId\") } \
               type Brand @table { id: ID @primaryKey name: String makerId: ID @indexed \
                 maker: Maker @relationship(from: \"makerId\") products: [T] @relationship(to: \"brandId\") } \
               type Shelf @table { id: ID @primaryKey name: String } \
               type T @table { id: ID @primaryKey kind: String @indexed brandId: ID @indexed shelfId: ID \
                 brand: Brand @relationship(from: \"brandId\") shelf: Shelf @relationship(from: \"shelfId\") }";
    let (_directory, database) = fresh(sdl);
    let create = |table: &str, records: Vec<Json>| {
        let table = database.table(table).expect("it exists");
        database.create_all(table, &serde_json::to_vec(&records).expect("JSON")).expect("records that do not collide");
    };
    create("Maker", (0..3).map(|number| json!({ "id": format!("m{number}"), "name": "m" })).collect());
    create(
        "Brand",
        (0..10).map(|number| json!({ "id": format!("b{number}"), "makerId": format!("m{}", number % 3) })).collect(),
    );
    create("Shelf", (0..5).map(|number| json!({ "id": format!("s{number}"), "name": "s" })).collect());
    let product = |number: usize| json!({ "id": format!("{number:03}"), "kind": format!("k{}", number % 5), "brandId": format!("b{}", number % 10), "shelfId": format!("s{}", number % 6) });
    create("T", (0..100).map(product).collect());
    let calls = |text: &str| {
        let table = database.table("T").expect("it exists");
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(100)).expect("it is read");
        let calls = || {
            let counters = database.counters();
            counters.gets + counters.multi_gets + counters.scans
        };
        let (before, mut shown) = (calls(), Vec::new());
        let visit = |_: &strata::encoding::Record<'_, &[u8]>, text: &[u8]| {
            shown.push(serde_json::from_slice::<Json>(text).expect("JSON"));
            Ok(())
        };
        query.show(&database, table, visit).expect("a healthy store");
        (calls() - before, shown)
    };
    let (by_id, shown) = calls("limit=20&select=id,brand{id},shelf{name}");
    assert_eq!((by_id, shown.len()), (3, 20), "the products, their brands, their shelves");
    assert_eq!(shown[5], json!({ "id": "005", "brand": { "id": "b5" }, "shelf": null }));
    assert_eq!(shown[16], json!({ "id": "016", "brand": { "id": "b6" }, "shelf": { "name": "s" } }));
    assert_eq!(calls("kind==k1&limit=20&select=id,brand{id},shelf{name}").0, 4, "and the entries of the index");
    let (many, shown) = calls("limit=20&select=id,brand{products{id}}");
    assert_eq!(many, 2 + 2, "a level to many is one scan of many ranges and one multi-get");
    assert_eq!(
        shown[0]["brand"]["products"],
        (0..10).map(|number| json!({ "id": format!("{:03}", 10 * number) })).collect::<Json>()
    );
    assert_eq!(calls("limit=20&select=id,brand{maker{brands{id}}}").0, 5);
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

#[test]
fn the_fewest_entries_decide_and_what_they_answer_is_not_asked_again() {
    let (_directory, database) = shop();
    let cases = [
        ("", "table: 256+"),
        ("stock==1", "table [stock==1]: 256+"),
        ("id==0001&stock==1", "id [stock==1]: 1+"),
        ("id=in=0003,0001", "id: 2+"),
        ("sku==s7", "unique sku [sku==s7]: 1+"),
        ("kind==k7", "hash kind [kind==k7]: 10"),
        ("name==n0007", "ordered name: 1"),
        ("name==n00*", "ordered name: 100"),
        ("name==n0*7", "ordered name [name==n0*7]: 256+"),
        ("name==*0*7", "table [name==*0*7]: 256+"),
        ("id=sw=00", "table: 100"),
        ("price=gt=190&price=le=192&stock==1", "ordered price [stock==1]: 10"),
        ("price=gt=5&price=lt=5", ": 0"),
        ("note=ct=x", "table [note=ct=x]: 256+"),
        ("note", "table [note]: 256+"),
        // Rivals: whoever comes to its end first.
        ("kind==k7&price==7", "ordered price [kind==k7]: 5"),
        ("kind==k7&price=lt=100", "hash kind [kind==k7] [price=lt=100]: 10"),
        ("tags==t1&price==5&kind=in=k5,k6", "ordered price [tags==t1] [kind=in=k5,k6]: 5"),
        // All have very many: the kind of the condition decides.
        ("price=gt=10&tags==all", "ordered tags [price=gt=10]: 256+"),
        ("name=gt=n&price=gt=1&price=lt=199", "ordered price [name=gt=n]: 256+"),
        // Of an estimate it is said that it is one: two tags, one record.
        ("tags=gele=t0,t1&name==n00*&price=lt=9", "ordered price [tags=gele=t0,t1] [name==n00*]: 45"),
        ("tags=sw=t1&id=sw=0", "ordered tags [id=sw=0]: 250+"),
        // Alternatives, each by its index; and not, if one has none.
        ("price==1|kind==k7", "ordered price then hash kind [kind==k7]: 15+"),
        ("(price==1|sku==s7)&stock==1", "ordered price [stock==1] then unique sku [sku==s7] [stock==1]: 6+"),
        ("price==1|stock==1", "table [price==1|stock==1]: 256+"),
        ("!(price==1)", "table [!(price==1)]: 256+"),
    ];
    for (text, expected) in cases {
        assert_eq!(plan(&database, text), expected, "{text}");
    }
}

#[test]
fn an_index_that_has_the_order_is_walked_unless_few_are_to_be_sorted() {
    let (_directory, database) = shop();
    let cases = [
        ("sort=price&limit=5", "ordered price, sorted by the steps: 256+"),
        ("sort=-price,-id", "ordered price, sorted by the steps: 256+"),
        ("sort=-id", "table, sorted by the steps: 256+"),
        ("sort=price,-id&limit=5", "table, sorted in memory: 256+"),
        ("sort=stock", "table, sorted in memory: 256+"),
        ("price=ge=150&sort=price", "ordered price, sorted by the steps: 250"),
        ("price=ge=50&sort=-price", "ordered price, sorted by the steps: 256+"),
        ("price==5&sort=price,id", "ordered price, sorted by the steps: 5"),
        ("kind==k7&sort=-id", "hash kind [kind==k7], sorted by the steps: 10"),
        ("kind==k7&sort=price", "hash kind [kind==k7], sorted in memory: 10"),
        ("tags==all&sort=price", "ordered price [tags==all], sorted by the steps: 256+"),
        ("stock==1&sort=price", "ordered price [stock==1], sorted by the steps: 256+"),
        ("price&sort=price", "ordered price, sorted by the steps: 256+"),
        ("price=in=7,5&sort=-price", "ordered price, sorted by the steps: 10"),
        ("price==5|price==7&sort=price", "ordered price then ordered price, sorted in memory: 10+"),
    ];
    for (text, expected) in cases {
        let text = text.replacen("price==5|price==7", "(price==5|price==7)", 1);
        assert_eq!(plan(&database, &text), expected, "{text}");
    }
    let table = database.table("T").expect("it exists");
    let mut deep =
        Query::parse(database.schema(), table, "sort=stock&offset=100000", &Limits::in_url(1)).expect("it is read");
    assert_eq!(super::engine::outcome(&deep.run(&database, table, |_| Ok(()))), "invalid");
    deep.offset -= 1;
    assert_eq!(super::engine::outcome(&deep.run(&database, table, |_| Ok(()))), "ok");
}

#[test]
fn what_is_short_looks_at_no_more_than_it_lists() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    let is_short = |text: &str| {
        Query::parse(database.schema(), table, text, &Limits::in_url(10_000)).expect("it is read").is_short(table)
    };
    for text in [
        "limit=100",
        "id==1",
        "sku==x&stock==1",
        "kind==x&limit=100",
        "name==x&limit=1",
        "price=gt=5&limit=20&sort=price",
        "sort=-id&limit=5",
        "name=sw=a&limit=5&offset=95",
        "(price==1|price==2)&limit=10",
    ] {
        assert!(is_short(text), "{text}");
    }
    for text in [
        "",
        "limit=101",
        "kind==x",
        "stock==1&limit=1",
        "price=gt=5&limit=20&sort=name",
        "sort=stock&limit=1",
        "name==a*b&limit=1",
        "name=sw=a&limit=5&offset=96",
        "kind==x&price==1&limit=1",
        "tags=ge=a&limit=2",
    ] {
        assert!(!is_short(text), "{text}");
    }
    let list = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let (long, most, many) = ("x".repeat(1024), list(100), list(101));
    assert!(is_short(&format!("price=in={most}&limit=1")));
    for text in [format!("name=={long}&limit=1"), format!("id=in={many}&limit=1"), format!("price=in={many}&limit=1")] {
        assert!(!is_short(&text), "{text}");
    }
}

#[test]
fn texts_longer_than_an_index_holds_are_in_order_all_the_same() {
    let (_directory, database) = fresh("type T @table { id: ID @primaryKey name: String @indexed }");
    let long = "x".repeat(2000);
    // Many more than a batch, all alike to the index, the ids in no order of the names; and some on either side.
    let name = |number: usize| match number % 7 {
        0 => format!("a{number}"),
        1 => format!("y{number}"),
        _ => format!("{long}{}", number * 37 % 1500),
    };
    let records: Vec<Json> =
        (0..1500).map(|number| json!({ "id": format!("{number:04}"), "name": name(number) })).collect();
    let body = serde_json::to_vec(&records).expect("JSON");
    database.create_all(database.table("T").expect("it exists"), &body).expect("long names");
    let mut expected: Vec<(String, String)> = (0..1500).map(|number| (name(number), format!("{number:04}"))).collect();
    expected.sort();
    let mut expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(plan(&database, "sort=name"), "ordered name, sorted by the steps: 256+");
    assert_eq!(ids(&database, "sort=name"), expected);
    assert_eq!(ids(&database, "sort=name&offset=500&limit=300"), expected[500..800]);
    expected.reverse();
    assert_eq!(ids(&database, "sort=-name"), expected);
    assert_eq!(ids(&database, "name=gt=b&sort=-name&offset=200&limit=7")[..], expected[200..207]);
}

#[test]
fn values_that_nothing_has_are_not_looked_up_for_nothing() {
    let (_directory, database) = shop();
    let absent: Vec<String> = (5000..6000).map(|price| price.to_string()).collect();
    let text = format!("price=in={}&kind==k7", absent.join(","));
    let expected = format!("hash kind [price=in={}] [kind==k7]: 10", absent.join(","));
    assert_eq!(plan(&database, &text), expected, "a thousand empty stretches are more work than ten entries");
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

/// What comes of a query where it may wait, and where it may not.
fn outcomes(database: &Database, text: &str) -> [&'static str; 2] {
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, text, &Limits::in_url(10_000)).expect("it is read");
    assert!(query.is_short(table), "{text} is tried where others wait");
    let outcome = |database: &Database| super::engine::outcome(&query.run(database, table, |_| Ok(())));
    [outcome(database), outcome(&database.in_memory())]
}

#[test]
fn what_is_in_memory_holds_up_nobody_for_long() {
    let sdl = "type T @table { id: ID @primaryKey name: String @indexed note: String n: Int @indexed }";
    let begin = "x".repeat(1100);
    let (_directory, database) = filled(sdl, 0..2000, |number| {
        let note = if number < 100 { "y".repeat(100_000) } else { "y".to_owned() };
        json!({ "id": format!("{number:05}"), "name": format!("{begin}{}", 3000 - number), "note": note, "n": number })
    });
    assert_eq!(outcomes(&database, "n=ge=1000&sort=n&limit=100"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "n=in=5000,6000,1500&limit=100"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "id==01500&n=lt=1600&note==y"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "sort=name&limit=1"), ["ok", "would block"], "all names are alike to the index");
    assert_eq!(outcomes(&database, "limit=100"), ["ok", "would block"], "ten megabytes");
    let conditions = vec!["note=ct=z"; 199].join("&");
    assert_eq!(
        outcomes(&database, &format!("id==00001&{conditions}")),
        ["ok", "would block"],
        "many times a long text"
    );
}

#[test]
fn a_query_that_nobody_waits_for_ends() {
    let sdl = "type T @table { id: ID @primaryKey size: Int }";
    let (_directory, database) = filled(sdl, 0..30_000, |number| json!({ "id": number.to_string(), "size": number }));
    let interrupt = strata::transaction::Interrupt::default();
    let interrupted = database.interrupted_by(&interrupt);
    let (table, mut seen) = (interrupted.table("T").expect("it exists"), 0);
    let query = Query::parse(database.schema(), table, "size=ge=0", &Limits::in_url(100_000)).expect("it is read");
    let mut run = |database: &Database| {
        seen = 0;
        let visit = |_: strata::encoding::Record<'_, &[u8]>| {
            seen += 1;
            Ok(())
        };
        let outcome = super::engine::outcome(&query.run(database, table, visit));
        (outcome, seen)
    };
    assert_eq!(run(&interrupted), ("ok", 30_000));
    interrupt.raise();
    let (outcome, seen) = run(&interrupted);
    assert!(outcome == "busy" && seen < 30_000, "{outcome} after {seen}");
    assert_eq!(run(&database), ("ok", 30_000), "others go on");
}

/// The ids that a query lists, and how many records it has read by their keys.
fn ids_and_reads(database: &Database, text: &str) -> (Vec<String>, u64) {
    let before = database.counters().looked_up;
    let ids = ids(database, text);
    (ids, database.counters().looked_up - before)
}

#[test]
fn a_contested_order_reads_at_most_twice_the_records_of_the_better_plan() {
    const RECORDS: usize = 3000;
    let sdl =
        "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") same: String place: Int @indexed }";
    let mut takeovers = 0;
    for lights in [257, 300, 1000, 2500] {
        // Evenly spread, at the beginning of the order, and at its end.
        let spread = |place: usize| (place * lights / RECORDS) != ((place + 1) * lights / RECORDS);
        let placements: [&dyn Fn(usize) -> bool; 3] =
            [&spread, &|place| place < lights, &|place| place >= RECORDS - lights];
        for is_light in placements {
            let (_directory, database) = filled(sdl, 0..RECORDS, |number| {
                let place = number * 7 % RECORDS; // Ids are in another order.
                let kind = if is_light(place) { "light" } else { "dark" };
                json!({ "id": format!("{number:04}"), "kind": kind, "same": kind, "place": place })
            });
            let (all, gathered) = ids_and_reads(&database, "kind==light");
            assert_eq!((all.len(), gathered), (lights, lights as u64));
            for clauses in ["limit=1", "limit=10", "limit=10&offset=150", "limit=100", "limit=500", "offset=7"] {
                for sort in ["sort=place", "sort=-place"] {
                    let (expected, walked) = ids_and_reads(&database, &format!("same==light&{sort}&{clauses}"));
                    let (listed, read) = ids_and_reads(&database, &format!("kind==light&{sort}&{clauses}"));
                    let shown = format!("{lights} lights, {sort}&{clauses}");
                    assert_eq!(listed, expected, "{shown}");
                    let sorted = gathered + expected.len() as u64; // These are read again in their order.
                    assert!(read <= 2 * walked.min(sorted), "{shown}: {read}, walked {walked}, sorted {sorted}");
                    takeovers += usize::from(read > walked.min(sorted) && walked > gathered);
                }
            }
        }
    }
    assert!(takeovers > 20, "walks have given up: {takeovers}");
}

#[test]
fn what_competes_with_a_walk_in_order_is_explained() {
    let sdl = "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") place: Int @indexed }";
    let (_directory, database) = filled(sdl, 0..2000, |number| {
        let kind = if number % 4 == 0 { "light" } else { "dark" };
        json!({ "id": format!("{number:04}"), "kind": kind, "place": 2000 - number })
    });
    let explained = |text: &str| {
        let table = database.table("T").expect("it exists");
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(100)).expect("it is read");
        serde_json::to_value(query.explain(&database, table).expect("it is explained")).expect("it is JSON")
    };
    let walk = explained("kind==light&sort=place&limit=10");
    let by = |attribute: &str, kind: &str| json!({ "attribute": attribute, "type": kind, "ranges": 1 });
    assert_eq!(walk["steps"][0]["index"], by("place", "ordered"), "{walk}");
    assert_eq!(walk["otherwise"]["steps"][0]["index"], by("kind", "hash"), "{walk}");
    assert_eq!(walk["otherwise"]["estimate"], json!({ "records": 256, "exact": false }), "no more are counted: {walk}");
    let gathered = explained("kind==light&place=gt=1990&sort=place&limit=10");
    assert_eq!((&gathered["sorted"], gathered.get("otherwise")), (&json!("by the steps"), None), "{gathered}");
}

#[test]
fn a_list_is_read_once_however_many_of_its_elements_are_meant() {
    let sdl = "type T @table { id: ID @primaryKey tags: [Int] @indexed }";
    let (_directory, database) =
        filled(sdl, 0..3, |number| json!({ "id": number.to_string(), "tags": (0..2000).collect::<Vec<_>>() }));
    let before = database.counters().multi_gets;
    assert_eq!(ids(&database, "tags=ge=0"), ["0", "1", "2"]);
    assert_eq!(database.counters().multi_gets - before, 1);
}

#[test]
fn lists_that_are_more_than_can_be_remembered_are_met_once_all_the_same() {
    let sdl = "type T @table { id: ID @primaryKey tags: [Int] @indexed }";
    // Four megabytes of ids are remembered, which is less than these. No record has its least tag where another has.
    let id = |number: usize| format!("{number:05}{}", "i".repeat(990));
    let (_directory, database) =
        filled(sdl, 0..5000, |number| json!({ "id": id(number), "tags": [number, number + 2500, 20_000, number] }));
    let expected: Vec<String> = (0..5000).map(id).collect();
    assert!(ids(&database, "tags=ge=0") == expected, "each once, by its least tag");
    assert!(ids(&database, "tags=ge=0&offset=4900&limit=50") == expected[4900..4950]);
    let mut found = ids(&database, "tags=ge=0&sort=-id");
    found.reverse();
    assert!(found == expected);
}

#[test]
fn what_is_sorted_by_has_a_bound_and_the_refusal_its_place() {
    let sdl = "type T @table { id: ID @primaryKey name: String @indexed note: String }";
    let begin = "x".repeat(1024);
    let (_directory, database) = filled(sdl, 0..17_000, |number| {
        let note = if number < 20 { "y".repeat(4 << 20) } else { String::new() };
        json!({ "id": format!("{number:05}"), "name": format!("{begin}{number}"), "note": note })
    });
    let table = database.table("T").expect("it exists");
    let refused = |text: &str| {
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(100_000)).expect("it is read");
        match query.run(&database, table, |_| Ok(())) {
            Ok(()) => None,
            Err(strata::error::Error::Invalid { place: strata::error::Place::Position(position), .. }) => {
                Some(position)
            }
            Err(other) => panic!("{text}: {other}"),
        }
    };
    assert_eq!(refused("id&sort=-note&limit=10"), None);
    assert_eq!(refused("id&sort=-note&limit=20"), Some(3), "80 megabytes of notes");
    assert_eq!(refused("limit=20&sort=name"), Some(9), "more entries than can be put in order");
    assert_eq!(refused("id=lt=00100&sort=name"), None, "a hundred are sorted in memory");
    assert_eq!(refused("offset=100000&sort=note"), Some(14));
}

#[test]
fn what_a_query_deletes_is_gone_whole_or_not_at_all() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    let delete = |text: &str, most| {
        Query::parse(database.schema(), table, text, &Limits::in_url(10_000))
            .expect("it is read")
            .delete(&database, table, most)
    };
    assert_eq!(super::engine::outcome(&delete("price=lt=100", 499)), "invalid");
    assert_eq!(ids(&database, "").len(), 1000);
    let gets = database.counters().gets;
    assert_eq!(delete("price=lt=100", 500).expect("as many as may be"), 500);
    assert_eq!(database.counters().gets - gets, 500, "each is read once while it is held");
    assert_eq!(delete("price=lt=100", 500).expect("there is none left"), 0);
    assert_eq!((ids(&database, "").len(), ids(&database, "price=lt=100").len()), (500, 0));
    super::engine::assert_consistent(&database);
}

#[test]
fn what_is_wrong_with_an_expression_is_said_whether_or_not_a_record_is_asked() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    for text in ["id==none&name=~=%5Cp%7BNope%7D", "name=~=%5Cp%7BNope%7D&limit=0", "name=~=%5Cp%7BNope%7D"] {
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(1000)).expect("its syntax is right");
        assert_eq!(super::engine::outcome(&query.run(&database, table, |_| Ok(()))), "invalid", "{text}");
    }
}
