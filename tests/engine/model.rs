//! Random verbs against a model that is too simple to be wrong: a sorted map, and rules in plain sight.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata::encoding::body::parse_object;
use strata::encoding::{Fields, Value};
use strata::error::{Error, Result};
use strata::query::Query;
use strata::schema::Table;
use strata::transaction::{Database, Precondition, Replaced, Transaction};

use super::{assert_consistent, found, json, open, outcome};

const SDL: &str = r#"type T @table {
  id: ID @primaryKey
  name: String @indexed
  city: String @indexed(type: "hash")
  mail: String @unique
  tags: [String] @indexed
}"#;

/// What a body says: `None` leaves an attribute out.
#[derive(Clone, Debug, Default, PartialEq)]
struct Body {
    name: Option<Option<String>>,
    city: Option<Option<String>>,
    mail: Option<Option<String>>,
    tags: Option<Option<Vec<String>>>,
}

/// What is stored.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    name: Option<String>,
    city: Option<String>,
    mail: Option<String>,
    tags: Option<Vec<String>>,
}

type Model = BTreeMap<String, Row>;

#[derive(Clone, Debug)]
enum Verb {
    Create(String, Body),
    Replace(String, Body),
    Merge(String, Body),
    Delete(String),
}

#[derive(Clone, Debug)]
enum Step {
    One(Verb),
    /// Verbs in one transaction, which gives up at the end if the flag says so, and at the first refusal.
    Together(Vec<Verb>, bool),
    /// Creates, each for itself.
    CreateEach(Vec<(String, Body)>),
    ReplaceAll(Vec<(String, Body)>),
    /// A merge into all of a city.
    MergeMatching(String, Body),
    Flush,
    Reopen,
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["", "a", "b", "\0", "a\0b", "\u{10ffff}"]).prop_map(str::to_owned),
        // Longer than an index entry holds, alike but for the end.
        1 => (0..2u8).prop_map(|end| "x".repeat(1024) + &end.to_string()),
    ]
}

fn given<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Option<T>>> {
    prop::option::weighted(0.7, prop::option::weighted(0.8, value))
}

fn body() -> impl Strategy<Value = Body> {
    let words = prop::collection::vec(word(), 0..4);
    let body = (given(word()), given(word()), given(word()), given(words));
    body.prop_map(|(name, city, mail, tags)| Body { name, city, mail, tags })
}

fn id() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["1", "2", "3", "a\0", "a"]).prop_map(str::to_owned)
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => (id(), body()).prop_map(|(id, body)| Verb::Create(id, body)),
        2 => (id(), body()).prop_map(|(id, body)| Verb::Replace(id, body)),
        3 => (id(), body()).prop_map(|(id, body)| Verb::Merge(id, body)),
        1 => id().prop_map(Verb::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => verb().prop_map(Step::One),
        8 => (prop::collection::vec(verb(), 1..5), prop::bool::weighted(0.2)).prop_map(|(v, end)| Step::Together(v, end)),
        4 => prop::collection::vec((id(), body()), 0..4).prop_map(Step::CreateEach),
        4 => prop::collection::vec((id(), body()), 0..4).prop_map(Step::ReplaceAll),
        4 => (word(), body()).prop_map(|(city, body)| Step::MergeMatching(city, body)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

impl Body {
    fn to_json(&self) -> String {
        let mut members = serde_json::Map::new();
        let mut member =
            |name: &str, value: Option<serde_json::Value>| value.map(|value| members.insert(name.into(), value));
        member("name", self.name.clone().map(Into::into));
        member("city", self.city.clone().map(Into::into));
        member("mail", self.mail.clone().map(Into::into));
        member("tags", self.tags.clone().map(Into::into));
        serde_json::Value::from(members).to_string()
    }

    fn over(self, row: Row) -> Row {
        Row {
            name: self.name.unwrap_or(row.name),
            city: self.city.unwrap_or(row.city),
            mail: self.mail.unwrap_or(row.mail),
            tags: self.tags.unwrap_or(row.tags),
        }
    }
}

/// What a verb does to the model, or the kind of its refusal.
fn expect(model: &mut Model, verb: &Verb) -> std::result::Result<(), &'static str> {
    let (id, after) = match verb.clone() {
        Verb::Create(id, _) if model.contains_key(&id) => return Err("conflict"),
        Verb::Create(id, body) | Verb::Replace(id, body) => (id, body.over(Row::default())),
        Verb::Merge(id, body) => {
            let before = model.get(&id).cloned().ok_or("not found")?;
            (id, body.over(before))
        }
        Verb::Delete(id) => return model.remove(&id).map(drop).ok_or("not found"),
    };
    let taken = after.mail.is_some() && model.iter().any(|(other, row)| *other != id && row.mail == after.mail);
    if taken {
        return Err("conflict");
    }
    model.insert(id, after);
    Ok(())
}

/// The same verb, for the database alone.
fn alone(database: &Database, table: &Table, verb: &Verb) -> Result<()> {
    let none = Precondition::None;
    match verb {
        Verb::Create(id, body) => database.create(table, with_id(id, body).as_bytes()).map(drop),
        Verb::Replace(id, body) => database.replace(table, id, body.to_json().as_bytes(), &none).map(drop),
        Verb::Merge(id, body) => database.merge(table, id, body.to_json().as_bytes(), &none).map(drop),
        Verb::Delete(id) => database.delete(table, id, &none),
    }
}

/// The same verb, within a transaction.
fn within<'d>(transaction: &mut Transaction<'d>, table: &'d Table, verb: &Verb) -> Result<()> {
    let none = Precondition::None;
    let fields = |json: &str| parse_object(table, json.as_bytes()).map(Fields::into_owned);
    match verb {
        Verb::Create(id, body) => transaction.create(fields(&with_id(id, body))?).map(drop),
        Verb::Replace(id, body) => transaction.replace(id, fields(&body.to_json())?, &none).map(drop),
        Verb::Merge(id, body) => transaction.merge(id, fields(&body.to_json())?, &none).map(drop),
        Verb::Delete(id) => transaction.delete(table, id, &none),
    }
}

fn with_id(id: &str, body: &Body) -> String {
    let body = body.to_json();
    let separator = if body == "{}" { "" } else { "," };
    format!("{{\"id\":{}{separator}{}", serde_json::Value::from(id), &body[1..])
}

/// The model after all of these verbs, or the kind of the first refusal.
fn all_or_none(model: &Model, verbs: impl Iterator<Item = Verb>) -> std::result::Result<Model, &'static str> {
    let mut after = model.clone();
    for verb in verbs {
        expect(&mut after, &verb)?;
    }
    Ok(after)
}

/// Runs a step on both and compares the answers.
fn run(database: &Database, model: &mut Model, step: &Step) {
    let table = database.table("T").expect("it exists");
    match step {
        Step::One(verb) => {
            let expected = expect(model, verb).err().unwrap_or("ok");
            assert_eq!(outcome(&alone(database, table, verb)), expected, "{verb:?}");
        }
        Step::Together(verbs, give_up) => {
            let mut tried = model.clone();
            let refused = verbs.iter().find_map(|verb| expect(&mut tried, verb).err());
            let expected = refused.unwrap_or(if *give_up { "stale" } else { "ok" });
            let transacted = database.transact(|transaction| {
                verbs.iter().try_for_each(|verb| within(transaction, table, verb))?;
                if *give_up { Err(Error::Stale) } else { Ok(()) }
            });
            assert_eq!(outcome(&transacted), expected, "{verbs:?}");
            if expected == "ok" {
                *model = tried;
            }
        }
        Step::CreateEach(records) => {
            let bodies: Vec<_> = records.iter().map(|(id, body)| with_id(id, body)).collect();
            let bodies: Vec<_> = bodies.iter().map(String::as_bytes).collect();
            let outcomes = database.create_each(table, &bodies).expect("nothing keeps all of them out");
            let expected = records
                .iter()
                .map(|(id, body)| expect(model, &Verb::Create(id.clone(), body.clone())).err().unwrap_or("ok"));
            assert_eq!(outcomes.iter().map(outcome).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{records:?}");
        }
        Step::ReplaceAll(records) => {
            let bodies: Vec<_> = records.iter().map(|(id, body)| with_id(id, body)).collect();
            let replaced = database.replace_all(table, format!("[{}]", bodies.join(",")).as_bytes());
            let ids: BTreeSet<_> = records.iter().map(|(id, _)| id).collect();
            let known = ids.iter().filter(|id| model.contains_key(**id)).count();
            let verbs = records.iter().map(|(id, body)| Verb::Replace(id.clone(), body.clone()));
            match (ids.len() == records.len(), all_or_none(model, verbs)) {
                (false, _) => assert_eq!(outcome(&replaced), "invalid", "{records:?}"),
                (true, Err(refused)) => assert_eq!(outcome(&replaced), refused, "{records:?}"),
                (true, Ok(after)) => {
                    let expected = Replaced { created: records.len() - known, replaced: known };
                    assert_eq!(replaced.expect("none is refused"), expected, "{records:?}");
                    *model = after;
                }
            }
        }
        Step::MergeMatching(city, body) => {
            let (patch, attribute) = (body.to_json(), table.attribute("city").expect("it exists"));
            let patch = parse_object(table, patch.as_bytes()).expect("it is valid");
            let updated = Query::equal(attribute, Value::Text(city.as_str().into())).update(database, &patch, 100);
            let matching: Vec<_> = model.iter().filter(|(_, row)| row.city.as_ref() == Some(city)).collect();
            let (count, verbs) =
                (matching.len(), matching.iter().map(|(id, _)| Verb::Merge((*id).clone(), body.clone())));
            match all_or_none(model, verbs) {
                Err(refused) => assert_eq!(outcome(&updated), refused, "{city:?} {body:?}"),
                Ok(after) => {
                    assert_eq!(updated.expect("none is refused"), count, "{city:?} {body:?}");
                    *model = after;
                }
            }
        }
        Step::Flush => database.store().flush().expect("there is room"),
        Step::Reopen => unreachable!("the caller has the directory"),
    }
}

/// Everything in the store, read in every way, is what the model has.
fn compare(database: &Database, model: &Model) {
    assert_consistent(database);
    assert_eq!(super::ids(database, "T"), model.keys().cloned().collect::<Vec<_>>());
    for (id, row) in model {
        let stored = json(database, "T", id);
        let expected = serde_json::json!({
            "id": id, "name": row.name, "city": row.city, "mail": row.mail, "tags": row.tags
        });
        assert_eq!(stored, expected);
    }
    let mut words: BTreeSet<String> = ["", "a", "nothing"].map(str::to_owned).into();
    words.extend(model.values().flat_map(|row| row.name.iter().chain(&row.city).chain(&row.mail).cloned()));
    words.extend(model.values().flat_map(|row| row.tags.iter().flatten().cloned()));
    let matching = |matches: &dyn Fn(&Row) -> bool| {
        model.iter().filter(|(_, row)| matches(row)).map(|(id, _)| id.clone()).collect::<Vec<_>>()
    };
    for word in &words {
        let value = Value::Text(word.as_str().into());
        let find = |attribute| found(database, "T", attribute, &value);
        assert_eq!(find("name"), matching(&|row| row.name.as_ref() == Some(word)));
        assert_eq!(find("city"), matching(&|row| row.city.as_ref() == Some(word)));
        assert_eq!(find("mail"), matching(&|row| row.mail.as_ref() == Some(word)));
        assert_eq!(find("tags"), matching(&|row| row.tags.iter().flatten().any(|tag| tag == word)));
    }
    assert_eq!(found(database, "T", "name", &Value::Null), matching(&|row| row.name.is_none()));
    assert_eq!(found(database, "T", "tags", &Value::Null), matching(&|row| row.tags.is_none()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn the_store_is_a_sorted_map_with_rules(steps in prop::collection::vec(step(), 1..80)) {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let mut database = open(directory.path(), SDL).expect("an empty store opens");
        let mut model = Model::new();
        for step in &steps {
            if let Step::Reopen = step {
                drop(database);
                database = open(directory.path(), SDL).expect("it was closed");
                compare(&database, &model);
            } else {
                run(&database, &mut model, step);
            }
        }
        compare(&database, &model);
    }
}
