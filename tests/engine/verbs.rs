//! Each verb alone: what it answers, what it leaves behind, and what it leaves alone.

use std::collections::HashSet;
use std::sync::mpsc::channel;

use serde_json::json;
use strata::encoding::body::parse_object;
use strata::encoding::value::Date;
use strata::encoding::{Fields, Value};
use strata::error::{Error, Place, Result};
use strata::query::Query;
use strata::schema::Schema;
use strata::transaction::{Database, Precondition, Replaced};

use super::{SDL, assert_consistent, change, found, fresh, ids, json, listed, outcome, text, value};

fn create(database: &Database, body: &str) -> Result<String> {
    let user = database.table("User")?;
    database.create(user, body.as_bytes()).map(|record| record.id().expect("an id is text").into_owned())
}

fn merge(database: &Database, id: &str, patch: &str) -> Result<()> {
    database.merge(database.table("User")?, id, patch.as_bytes(), &Precondition::None).map(drop)
}

fn delete(database: &Database, id: &str) -> Result<()> {
    database.delete(database.table("User")?, id, &Precondition::None)
}

/// A store with one user.
fn with_ann() -> (tempfile::TempDir, Database) {
    let (directory, database) = fresh(SDL);
    let body = r#"{"id":"ann","name":"Ann","city":"Oslo","mail":"a@x","code":1,"tags":["x","y"],"points":5}"#;
    create(&database, body).expect("the first of its kind");
    (directory, database)
}

fn pointer<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { place: Place::Pointer(pointer), .. } | Error::Conflict { pointer, .. }) => pointer,
        other => panic!("no pointer: {}", outcome(&other)),
    }
}

#[test]
fn what_is_created_is_read_and_found() {
    let (_directory, database) = with_ann();
    let record = json(&database, "User", "ann");
    let named: Vec<_> = record.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null()).collect();
    assert_eq!(named.len(), 9, "{record}");
    assert_eq!(
        (&record["name"], &record["tags"], &record["details"]),
        (&json!("Ann"), &json!(["x", "y"]), &json!(null))
    );
    let finds = [("name", "Ann"), ("city", "Oslo"), ("mail", "a@x"), ("tags", "x"), ("tags", "y")];
    for (attribute, text) in finds {
        assert_eq!(found(&database, "User", attribute, &value(text)), ["ann"], "{attribute}");
    }
    assert_eq!(found(&database, "User", "code", &Value::Int(1)), ["ann"]);
    assert_eq!(found(&database, "User", "born", &Value::Null), ["ann"]);
    assert_eq!(found(&database, "User", "name", &value("An")), Vec::<String>::new());
    assert!(text(&database, "User", "bob").is_none());
    assert_consistent(&database);
}

#[test]
fn ids_are_made_where_there_are_none() {
    let (_directory, database) = fresh(SDL);
    let bodies = [r#"{"name":"a"}"#, r#"{"id":null,"name":"a"}"#];
    let made: HashSet<_> = (0..100).map(|n| create(&database, bodies[n % 2]).expect("no id, no conflict")).collect();
    assert_eq!(made.len(), 100);
    for id in &made {
        assert_eq!(uuid::Uuid::parse_str(id).expect("a UUID").get_version_num(), 7);
        assert_eq!(json(&database, "User", id)["id"], json!(id));
    }
    assert_consistent(&database);
}

#[test]
fn an_id_has_1_to_1024_bytes() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let put = |id: &str| database.replace(user, id, br#"{"name":"a"}"#, &Precondition::None).map(drop);
    for (bytes, expected) in [(0, "invalid"), (1, "ok"), (1024, "ok"), (1025, "invalid")] {
        let id = "x".repeat(bytes);
        assert_eq!(outcome(&put(&id)), expected, "{bytes} bytes");
        let created = create(&database, &format!(r#"{{"id":"{id}","name":"b"}}"#));
        assert_eq!(outcome(&created), if expected == "ok" { "conflict" } else { "invalid" }, "{bytes} bytes");
    }
    for id in ["\0", "a\0b", "\u{10ffff}", "a/b", "\u{7f}"] {
        assert_eq!(outcome(&put(id)), "ok");
        assert_eq!(json(&database, "User", id)["id"], json!(id));
    }
    assert_consistent(&database);
}

#[test]
fn an_id_is_created_once() {
    let (_directory, database) = with_ann();
    let before = text(&database, "User", "ann");
    assert_eq!(pointer(create(&database, r#"{"id":"ann","name":"Other","mail":"new"}"#)), "/id");
    assert_eq!(text(&database, "User", "ann"), before);
    assert_eq!(found(&database, "User", "mail", &value("new")), Vec::<String>::new());
    delete(&database, "ann").expect("it is there");
    create(&database, r#"{"id":"ann","name":"Another"}"#).expect("the id is free again");
    assert_consistent(&database);
}

#[test]
fn what_is_required_is_required() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let before = text(&database, "User", "ann");
    assert_eq!(pointer(create(&database, "{}")), "/name");
    assert_eq!(pointer(create(&database, r#"{"name":null}"#)), "/name");
    assert_eq!(pointer(database.replace(user, "ann", br#"{"city":"Rome"}"#, &Precondition::None)), "/name");
    assert_eq!(pointer(merge(&database, "ann", r#"{"name":null}"#)), "/name");
    assert_eq!(text(&database, "User", "ann"), before);
    merge(&database, "ann", r#"{"city":"Rome"}"#).expect("a patch need not name what is required");
}

#[test]
fn a_replacement_is_whole() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let (record, created) = database
        .replace(user, "ann", br#"{"id":"ann","name":"Anna","tags":["y","z"]}"#, &Precondition::None)
        .expect("valid");
    assert!(!created);
    assert_eq!(text(&database, "User", "ann").as_deref().map(str::as_bytes), Some(record.json()));
    let stored = json(&database, "User", "ann");
    assert_eq!((&stored["city"], &stored["code"], &stored["tags"]), (&json!(null), &json!(null), &json!(["y", "z"])));
    assert_eq!(found(&database, "User", "city", &Value::Null), ["ann"]);
    assert_eq!(found(&database, "User", "tags", &value("x")), Vec::<String>::new());
    assert_eq!(found(&database, "User", "tags", &value("z")), ["ann"]);
    let (_, created) = database.replace(user, "bob", br#"{"name":"Bob"}"#, &Precondition::None).expect("valid");
    assert!(created);
    assert_eq!(json(&database, "User", "bob")["id"], json!("bob"));
    assert_consistent(&database);
}

#[test]
fn a_body_may_repeat_the_id_and_not_contradict_it() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    for body in [r#"{"id":"ann","name":"A"}"#, r#"{"id":null,"name":"A"}"#, r#"{"name":"A"}"#] {
        assert_eq!(outcome(&database.replace(user, "ann", body.as_bytes(), &Precondition::None)), "ok", "{body}");
        assert_eq!(outcome(&merge(&database, "ann", body)), "ok", "{body}");
        assert_eq!(json(&database, "User", "ann")["id"], json!("ann"));
    }
    let other = r#"{"id":"bob","name":"A"}"#;
    assert_eq!(pointer(database.replace(user, "ann", other.as_bytes(), &Precondition::None)), "/id");
    assert_eq!(pointer(merge(&database, "ann", other)), "/id");
}

#[test]
fn a_merge_changes_what_it_names() {
    let (_directory, database) = with_ann();
    let mut expected = json(&database, "User", "ann");
    merge(&database, "ann", r#"{"city":null,"points":6,"tags":[]}"#).expect("valid");
    let mut merged = json(&database, "User", "ann");
    (expected["city"], expected["points"], expected["tags"]) = (json!(null), json!(6), json!([]));
    (expected["updated"], merged["updated"]) = (json!(null), json!(null));
    assert_eq!(merged, expected);
    assert_eq!(found(&database, "User", "city", &value("Oslo")), Vec::<String>::new());
    assert_consistent(&database);
}

/// RFC 7396, inside of an `Any`.
#[test]
fn a_merge_reaches_into_any() {
    let (_directory, database) = with_ann();
    let steps = [
        (r#"{"details":{"a":{"b":1.50,"c":[1]},"n":null}}"#, r#"{"a":{"b":1.50,"c":[1]}}"#),
        (r#"{"details":{"a":{"b":null,"d":"x"},"e":1e400}}"#, r#"{"a":{"c":[1],"d":"x"},"e":1e400}"#),
        (r#"{"points":1}"#, r#"{"a":{"c":[1],"d":"x"},"e":1e400}"#),
        (r#"{"details":{"a":[2]}}"#, r#"{"a":[2],"e":1e400}"#),
        (r#"{"details":7}"#, "7"),
        (r#"{"details":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"details":null}"#, "null"),
    ];
    for (patch, expected) in steps {
        merge(&database, "ann", patch).expect("valid");
        let text = text(&database, "User", "ann").expect("it is there");
        assert!(text.contains(&format!("\"details\":{expected},\"created\"")), "{patch}: {text}");
    }
}

#[test]
fn preconditions_decide_before_anything_changes() {
    let right = |database: &Database| {
        let user = database.table("User").expect("it exists");
        let record = database.read(user, "ann").expect("readable");
        record.map_or(0, |record| record.checksum())
    };
    type Expected = fn(u64) -> Precondition;
    let cases: [(Expected, &str, &str, &str); 7] = [
        // Precondition; all verbs where there is a record; replace where there is none; merge and delete there.
        (|_| Precondition::None, "ok", "ok", "not found"),
        (|_| Precondition::Exists, "ok", "not found", "not found"),
        (|_| Precondition::Absent, "stale", "ok", "not found"),
        (|checksum| Precondition::OneOf(vec![checksum]), "ok", "not found", "not found"),
        (|checksum| Precondition::OneOf(vec![!checksum, checksum]), "ok", "not found", "not found"),
        (|checksum| Precondition::OneOf(vec![!checksum]), "stale", "not found", "not found"),
        (|_| Precondition::OneOf(vec![]), "stale", "not found", "not found"),
    ];
    for (precondition, present, replaced_absent, other_absent) in cases {
        for verb in ["replace", "merge", "delete"] {
            for exists in [true, false] {
                let (_directory, database) = with_ann();
                if !exists {
                    delete(&database, "ann").expect("it is there");
                }
                let user = database.table("User").expect("it exists");
                let (expected, before) = (precondition(right(&database)), text(&database, "User", "ann"));
                let body = br#"{"name":"Changed"}"#;
                let result = match verb {
                    "replace" => database.replace(user, "ann", body, &expected).map(drop),
                    "merge" => database.merge(user, "ann", body, &expected).map(drop),
                    _ => database.delete(user, "ann", &expected),
                };
                let wanted = match (exists, verb) {
                    (true, _) => present,
                    (false, "replace") => replaced_absent,
                    (false, _) => other_absent,
                };
                assert_eq!(outcome(&result), wanted, "{verb} {expected:?} exists {exists}");
                assert_eq!(text(&database, "User", "ann") != before, wanted == "ok", "{verb} {expected:?}");
            }
        }
    }
}

#[test]
fn what_is_deleted_is_gone() {
    let (_directory, database) = with_ann();
    delete(&database, "ann").expect("it is there");
    assert!(text(&database, "User", "ann").is_none());
    for (attribute, text) in [("name", "Ann"), ("city", "Oslo"), ("mail", "a@x"), ("tags", "x")] {
        assert_eq!(found(&database, "User", attribute, &value(text)), Vec::<String>::new());
    }
    assert_eq!(outcome(&delete(&database, "ann")), "not found");
    assert_eq!(outcome(&merge(&database, "ann", "{}")), "not found");
    let user = database.table("User").expect("it exists");
    let updated = database.update(user, "ann", |_| panic!("there is nothing to change"));
    assert_eq!(outcome(&updated), "not found");
    assert_consistent(&database);
}

#[test]
fn an_update_sees_the_record_and_writes_what_it_says() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let points = user.attribute("points").expect("it exists");
    let twice = database.update(user, "ann", |record| match record.value(points)? {
        Value::Int(points) => Ok(change(user, "points", Value::Int(points * 2))),
        other => panic!("{other:?}"),
    });
    assert_eq!(twice.expect("valid").value(points).expect("an Int"), Value::Int(10));
    assert_eq!(json(&database, "User", "ann")["points"], json!(10));
    let before = text(&database, "User", "ann");
    assert_eq!(outcome(&database.update(user, "ann", |_| Err(Error::Stale))), "stale");
    assert_eq!(text(&database, "User", "ann"), before);
}

#[test]
fn the_server_keeps_the_times() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    let lie = r#""created":"1999-01-01","updated":7"#;
    create(&database, &format!(r#"{{"id":"ann","name":"Ann",{lie}}}"#)).expect("valid");
    let first = json(&database, "User", "ann");
    let created = first["created"].as_str().expect("text").to_owned();
    let instant = Value::microseconds_of(&created).expect("a date");
    assert!(
        created.len() == 24 && created.ends_with('Z') && !created.starts_with("1999"),
        "milliseconds in UTC: {created}"
    );
    assert_eq!(first["updated"], json!(instant / 1000), "one moment on a Date and on an Int");
    let record = database.read(user, "ann").expect("readable").expect("it is there");
    let stored = record.value(user.attribute("created").expect("it exists")).expect("a date");
    assert_eq!(stored, Value::Date(Date { text: created.clone().into(), microseconds: instant }));
    let mut last = instant / 1000;
    for _ in 0..3 {
        merge(&database, "ann", &format!(r#"{{"points":1,{lie}}}"#)).expect("valid");
        let body = format!(r#"{{"name":"Ann",{lie}}}"#);
        database.replace(user, "ann", body.as_bytes(), &Precondition::None).expect("valid");
        let record = json(&database, "User", "ann");
        assert_eq!(record["created"], json!(created));
        let updated = record["updated"].as_i64().expect("an Int");
        assert!(updated >= last, "{updated} after {last}");
        last = updated;
    }
}

#[test]
fn a_unique_value_has_one_owner() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    create(&database, r#"{"id":"bob","name":"Bob","mail":"b@x","code":2}"#).expect("other values");
    let before = text(&database, "User", "bob");
    assert_eq!(pointer(create(&database, r#"{"id":"cid","name":"Cid","mail":"a@x"}"#)), "/mail");
    assert_eq!(pointer(create(&database, r#"{"name":"Cid","code":1}"#)), "/code");
    assert_eq!(pointer(merge(&database, "bob", r#"{"mail":"a@x"}"#)), "/mail");
    assert_eq!(pointer(merge(&database, "bob", r#"{"mail":"c@x","code":1}"#)), "/code");
    assert_eq!(pointer(database.replace(user, "bob", br#"{"name":"B","code":1}"#, &Precondition::None)), "/code");
    assert_eq!(pointer(database.replace(user, "dan", br#"{"name":"D","mail":"a@x"}"#, &Precondition::None)), "/mail");
    assert_eq!((text(&database, "User", "bob"), ids(&database, "User")), (before, vec!["ann".into(), "bob".into()]));
    assert_eq!(found(&database, "User", "mail", &value("c@x")), Vec::<String>::new());
    merge(&database, "bob", r#"{"mail":"b@x","code":2,"points":1}"#).expect("its own values");
    merge(&database, "ann", r#"{"mail":"new@x"}"#).expect("a free one");
    merge(&database, "bob", r#"{"mail":"a@x"}"#).expect("it was given up");
    delete(&database, "ann").expect("it is there");
    merge(&database, "bob", r#"{"mail":"new@x","code":1}"#).expect("they were given up");
    assert_consistent(&database);
}

#[test]
fn null_is_bound_by_no_unique_index() {
    let (_directory, database) = with_ann();
    for body in [r#"{"name":"B"}"#, r#"{"name":"C","mail":null,"code":null}"#] {
        create(&database, body).expect("null is no value");
    }
    merge(&database, "ann", r#"{"mail":null,"code":null}"#).expect("null is no value");
    create(&database, r#"{"name":"D","mail":"a@x","code":1}"#).expect("they were given up");
    assert_consistent(&database);
}

#[test]
fn long_unique_values_are_compared_whole() {
    let (_directory, database) = fresh(SDL);
    let body = |tail: &str| format!(r#"{{"name":"{0}{tail}","mail":"{0}{tail}"}}"#, "x".repeat(1100));
    let first = create(&database, &body("1")).expect("the first");
    let second = create(&database, &body("2")).expect("another one");
    assert_eq!(pointer(create(&database, &body("1"))), "/mail");
    let long = |tail: &str| "x".repeat(1100) + tail;
    assert_eq!(found(&database, "User", "mail", &value(&long("1"))), [first.as_str()]);
    assert_eq!(found(&database, "User", "name", &value(&long("2"))), [second.as_str()]);
    assert_eq!(found(&database, "User", "name", &value(&long(""))), Vec::<String>::new());
    assert_consistent(&database);
}

#[test]
fn an_instant_is_one_value_however_it_is_written() {
    let (_directory, database) = fresh("type T @table { id: ID @primaryKey at: Date @unique day: Date @indexed }");
    let table = database.table("T").expect("it exists");
    let create = |id: &str, at: &str| {
        let body = format!(r#"{{"id":"{id}","at":"{at}","day":"{at}"}}"#);
        database.create(table, body.as_bytes()).map(drop)
    };
    create("one", "2026-01-31").expect("the first");
    assert_eq!(outcome(&create("two", "2026-01-31T01:00:00+01:00")), "conflict");
    let same = br#"{"at":"2026-01-31T00:00:00Z","day":"2026-01-31T00:00:00Z"}"#;
    database.merge(table, "one", same, &Precondition::None).expect("its own value");
    assert_eq!(outcome(&create("two", "2026-01-31")), "conflict");
    let instant = Value::Date(Date { text: "".into(), microseconds: 1_769_817_600_000_000 });
    assert_eq!(found(&database, "T", "at", &instant), ["one"]);
    assert_eq!(found(&database, "T", "day", &instant), ["one"]);
    assert_consistent(&database);
}

#[test]
fn an_array_is_created_whole_or_not_at_all() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let refused = [
        (r#"[{"name":"B","mail":"b@x"},{"name":"C","mail":"a@x"}]"#, "/1/mail"),
        (r#"[{"name":"B","code":7},{"name":"C"},{"name":"D","code":7}]"#, "/2/code"),
        (r#"[{"id":"b","name":"B"},{"id":"b","name":"C"}]"#, "/1/id"),
        (r#"[{"id":"b","name":"B"},{"id":"ann","name":"C"}]"#, "/1/id"),
        (r#"[{"name":"B"},{"city":"Rome"}]"#, "/1/name"),
        (r#"[{"name":"B"},{"name":"C","points":"x"}]"#, "/1/points"),
        (r#"[{"name":"B"},{"id":"","name":"C"}]"#, "/1/id"),
    ];
    for (body, expected) in refused {
        assert_eq!(pointer(database.create_all(user, body.as_bytes())), expected, "{body}");
        assert_eq!(ids(&database, "User"), ["ann"], "{body}");
    }
    let created =
        database.create_all(user, br#"[{"id":"b","name":"B","code":7},{"id":"c","name":"C"}]"#).expect("valid");
    assert_eq!(created.len(), 2);
    assert_eq!(ids(&database, "User"), ["ann", "b", "c"]);
    assert!(database.create_all(user, b"[]").expect("nothing to do").is_empty());
    assert_consistent(&database);
}

#[test]
fn an_array_replaces_whole_records_and_keeps_their_first_time() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let before = json(&database, "User", "ann");
    std::thread::sleep(std::time::Duration::from_millis(2));
    let body = br#"[{"id":"ann","name":"Anna","created":"1999-01-01"},{"name":"Bob","mail":"a@x"},{"id":"cid","name":"Cid","code":1}]"#;
    let replaced = database.replace_all(user, body).expect("ann has given up both values");
    assert_eq!(replaced, Replaced { created: 2, replaced: 1 });
    let after = json(&database, "User", "ann");
    assert_eq!((&after["name"], &after["city"], &after["tags"]), (&json!("Anna"), &json!(null), &json!(null)));
    assert_eq!(after["created"], before["created"]);
    assert!(after["updated"].as_i64() > before["updated"].as_i64());
    assert_eq!(found(&database, "User", "code", &Value::Int(1)), ["cid"]);
    for (body, place) in [
        (r#"[{"id":"dan","name":"Dan"},{"id":"dan","name":"Dan"}]"#, "/1/id"),
        (r#"[{"id":"dan","name":"Dan"},{"id":"ann"}]"#, "/1/name"),
        (r#"[{"id":"dan","name":"Dan"},{"id":"","name":"Nobody"}]"#, "/1/id"),
        (r#"[{"id":"dan","name":"Dan","code":1},{"id":"cid","name":"Cid"}]"#, "/0/code"),
        (r#"[{"id":"dan","name":"Dan"},{"name":"Eve","mail":"a@x"}]"#, "/1/mail"),
    ] {
        assert_eq!(pointer(database.replace_all(user, body.as_bytes())), place, "{body}");
    }
    assert_eq!(ids(&database, "User").len(), 3);
    assert_consistent(&database);
}

#[test]
fn each_of_many_creates_is_for_itself() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let bodies: [&[u8]; 6] = [
        br#"{"id":"bob","name":"Bob","mail":"b@x"}"#,
        br#"{"id":"ann","name":"Ann"}"#,
        b"{",
        br#"{"id":"cid","name":"Cid","mail":"b@x"}"#,
        br#"{"id":"bob","name":"Bob"}"#,
        br#"{"name":"Dan"}"#,
    ];
    let before = database.counters().writes;
    let outcomes = database.create_each(user, &bodies).expect("nothing keeps all of them out");
    let outcomes: Vec<_> =
        outcomes.into_iter().map(|outcome| if outcome.is_ok() { String::new() } else { pointer(outcome) }).collect();
    assert_eq!(outcomes, ["", "/id", "", "/mail", "/id", ""].map(str::to_owned));
    assert_eq!((ids(&database, "User").len(), database.counters().writes), (3, before + 1));
    assert_eq!(found(&database, "User", "mail", &value("b@x")), ["bob"]);
    assert_consistent(&database);
}

#[test]
fn a_transaction_has_no_more_changes_than_memory_has_room_for() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let long = "x".repeat(1 << 20);
    let kept = database.create_all(user, format!("[{}]", vec![r#"{"name":"n"}"#; 200].join(",")).as_bytes());
    let ids: Vec<_> =
        kept.expect("they are short").iter().map(|record| record.id().expect("text").into_owned()).collect();
    let patch = Fields::of(user).with("details", Value::Json(format!("{long:?}").into())).expect("JSON");
    let refused = database.merge_where(&ids, &patch, |_| Ok(true));
    assert!(refused.expect_err("200 MiB").to_string().contains("limited to 128 MiB"));
    assert_eq!(json(&database, "User", &ids[0])["details"], json!(null));
    assert_eq!(database.merge_where(&ids[..100], &patch, |_| Ok(true)).expect("100 MiB"), 100);
}

/// A delete has a key for each entry of its record, so a short record may have a long one.
#[test]
fn nor_has_it_more_deletes() {
    let (_directory, database) = fresh("type T @table { id: ID @primaryKey tags: [String] @indexed }");
    let (table, tags) = (database.table("T").expect("it exists"), (0..8000).map(|tag| format!("\"{tag}\"")));
    let tags = tags.collect::<Vec<_>>().join(",");
    let ids: Vec<_> = (0..20).map(|number| format!("{number:02}{}", "i".repeat(1000))).collect();
    for id in &ids {
        database.create(table, format!(r#"{{"id":"{id}","tags":[{tags}]}}"#).as_bytes()).expect("valid");
    }
    let refused = database.delete_where(table, &ids, |_| Ok(true));
    assert!(refused.expect_err("160 MB").to_string().contains("limited to 128 MiB"));
    assert_eq!(super::ids(&database, "T").len(), 20);
    assert_eq!(database.delete_where(table, &ids[..10], |_| Ok(true)).expect("80 MB"), 10);
    assert_consistent(&database);
}

#[test]
fn a_transaction_reads_its_own_writes() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let body = |text: &'static str| parse_object(user, text.as_bytes());
    let transacted = database.transact(|transaction| {
        assert_eq!(transaction.read(user, "ann")?.map(|ann| ann.json().len() > 2), Some(true));
        transaction.delete(user, "ann", &Precondition::None)?;
        assert!(transaction.read(user, "ann")?.is_none());
        transaction.create(body(r#"{"id":"bob","name":"Bob","mail":"a@x"}"#)?)?;
        transaction.merge("bob", body(r#"{"points":1}"#)?, &Precondition::Exists)?;
        let points = user.attribute("points").expect("it exists");
        transaction.update(user, "bob", |bob| {
            assert_eq!(bob.value(points)?, Value::Int(1));
            Ok(change(user, "points", Value::Int(2)))
        })?;
        assert_eq!(outcome(&transaction.create(body(r#"{"id":"bob","name":"B"}"#)?)), "conflict");
        transaction.create(body(r#"{"id":"ann","name":"Ann again"}"#)?)?;
        let (record, created) = transaction.replace("ann", body(r#"{"name":"Last"}"#)?, &Precondition::Exists)?;
        assert!(!created && transaction.read(user, "ann")?.map(|ann| ann.checksum()) == Some(record.checksum()));
        assert_eq!(text(&database, "User", "bob"), None, "nobody else sees it yet");
        Ok(())
    });
    transacted.expect("all verbs are right");
    let (ann, bob) = (json(&database, "User", "ann"), json(&database, "User", "bob"));
    assert_eq!((&ann["name"], &ann["mail"], &bob["points"]), (&json!("Last"), &json!(null), &json!(2)));
    assert_eq!(found(&database, "User", "mail", &value("a@x")), ["bob"]);
    assert_consistent(&database);
}

#[test]
fn unique_values_change_hands_within_a_transaction() {
    let (_directory, database) = with_ann();
    create(&database, r#"{"id":"bob","name":"Bob","mail":"b@x"}"#).expect("another mail");
    let user = database.table("User").expect("it exists");
    let body = |text: &'static str| parse_object(user, text.as_bytes());
    let swapped = database.transact(|transaction| {
        transaction.merge("ann", body(r#"{"mail":null}"#)?, &Precondition::None)?;
        transaction.merge("bob", body(r#"{"mail":"a@x"}"#)?, &Precondition::None)?;
        transaction.merge("ann", body(r#"{"mail":"b@x"}"#)?, &Precondition::None)
    });
    assert_eq!(outcome(&swapped), "ok");
    assert_eq!(found(&database, "User", "mail", &value("b@x")), ["ann"]);
    assert_eq!(found(&database, "User", "mail", &value("a@x")), ["bob"]);
    let taken = database.transact(|transaction| {
        transaction.merge("ann", body(r#"{"mail":"c@x"}"#)?, &Precondition::None)?;
        transaction.create(body(r#"{"name":"Cid","mail":"c@x"}"#)?)
    });
    assert_eq!(pointer(taken), "/mail", "one that this transaction has claimed is not free");
    assert_consistent(&database);
}

#[test]
fn an_aborted_transaction_writes_nothing() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let note = database.table("Note").expect("it exists");
    let (before, writes) = (text(&database, "User", "ann"), database.counters().writes);
    let aborted = database.transact(|transaction| {
        transaction.delete(user, "ann", &Precondition::None)?;
        transaction.create(parse_object(user, br#"{"id":"bob","name":"Bob","mail":"a@x"}"#)?)?;
        transaction.create(parse_object(note, br#"{"text":"x"}"#)?)?;
        Err::<(), _>(Error::Stale)
    });
    assert_eq!(outcome(&aborted), "stale");
    assert_eq!((text(&database, "User", "ann"), database.counters().writes), (before, writes));
    assert_eq!((ids(&database, "User"), ids(&database, "Note")), (vec!["ann".to_owned()], vec![]));
    database.transact(|_| Ok(())).expect("nothing to do");
    assert_eq!(database.counters().writes, writes);
    create(&database, r#"{"name":"Bob","mail":"b@x"}"#).expect("no lock was left behind");
    merge(&database, "ann", "{}").expect("no lock was left behind");
    assert_consistent(&database);
}

#[test]
fn a_truncated_table_is_empty_and_the_others_are_not() {
    let (_directory, database) = with_ann();
    let (user, note) = (database.table("User").expect("it exists"), database.table("Note").expect("it exists"));
    database.create(note, br#"{"id":"one","text":"x"}"#).expect("valid");
    let many: Vec<_> =
        (0..10_000).map(|number| format!(r#"{{"id":"{number}","name":"n","mail":"{number}@x"}}"#)).collect();
    for _ in 0..2 {
        database.create_all(user, format!("[{}]", many.join(",")).as_bytes()).expect("no id and no mail is taken");
        assert_eq!(outcome(&database.never_blocking().truncate(user)), "would block");
        database.truncate(user).expect("nobody keeps a key");
        assert_eq!((ids(&database, "User"), ids(&database, "Note")), (Vec::<String>::new(), vec!["one".to_owned()]));
        assert_eq!(found(&database, "User", "name", &value("n")), Vec::<String>::new());
        assert_consistent(&database);
    }
}

#[test]
fn many_keys_that_others_hold_are_waited_for_once() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let body: Vec<_> =
        (0..1000).map(|number| format!(r#"{{"id":"{number}","name":"n","mail":"{number}@x"}}"#)).collect();
    let body = format!("[{}]", body.join(","));
    let (holding, held) = channel();
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let database = &database;
        scope.spawn(move || {
            let ended = std::sync::Mutex::new(ended);
            database.transact(|transaction| {
                for number in 0..20 {
                    transaction.read(user, &number.to_string())?;
                }
                holding.send(()).expect("the test waits");
                let _ = ended.lock().expect("one thread").recv();
                Ok(())
            })
        });
        held.recv().expect("the other thread holds keys");
        assert_eq!(outcome(&database.never_blocking().create_all(user, body.as_bytes())), "would block");
        let waiting = scope.spawn(|| database.create_all(user, body.as_bytes()).map(|created| created.len()));
        drop(end);
        assert_eq!(waiting.join().expect("no panic").expect("all are free at last"), 1000);
    });
    assert_consistent(&database);
}

/// Another schema may give the same number to another table.
#[test]
fn a_table_that_this_database_has_not_issued_is_refused_by_every_verb() {
    let (_directory, database) = with_ann();
    let stranger = Schema::parse(SDL).expect("the schema is right");
    let (user, none) = (stranger.table("User").expect("it exists"), &Precondition::None);
    let before = text(&database, "User", "ann");
    let outcomes = [
        outcome(&database.read(user, "ann")),
        outcome(&database.create(user, br#"{"name":"Bob"}"#)),
        outcome(&database.create_all(user, br#"[{"name":"Bob"}]"#)),
        outcome(&database.replace(user, "ann", br#"{"name":"Bob"}"#, none)),
        outcome(&database.merge(user, "ann", br#"{"name":"Bob"}"#, none)),
        outcome(&database.update(user, "ann", |record| Ok(Fields::of(record.table())))),
        outcome(&database.delete(user, "ann", none)),
        outcome(&database.delete_where(user, &["ann".to_owned()], |_| Ok(true))),
        outcome(&database.merge_where(&["ann".to_owned()], &Fields::of(user), |_| Ok(true))),
        outcome(&database.replace_all(user, br#"[{"id":"ann","name":"Bob"}]"#)),
        outcome(&database.create_each(user, &[br#"{"name":"Bob"}"#])),
        outcome(&database.transact(|transaction| transaction.read(user, "ann").map(drop))),
        outcome(&database.transact(|transaction| transaction.create(Fields::of(user).with("name", "Bob")?).map(drop))),
    ];
    assert_eq!(outcomes, ["invalid"; 13]);
    assert_eq!((text(&database, "User", "ann"), ids(&database, "User").len()), (before, 1));
    let (user, note) = (database.table("User").expect("it exists"), database.table("Note").expect("it exists"));
    let mixed = database.update(user, "ann", |_| Fields::of(note).with("text", "x"));
    assert_eq!(outcome(&mixed), "invalid", "a change of another table");
    assert_consistent(&database);
}

/// The caller goes on after a refusal: what the refused verb would have claimed or given up is as before.
#[test]
fn a_refused_verb_leaves_nothing_in_its_transaction() {
    let (_directory, database) = with_ann();
    create(&database, r#"{"id":"bob","name":"Bob","mail":"b@x","code":2}"#).expect("other values");
    let user = database.table("User").expect("it exists");
    let body = |text: &'static str| parse_object(user, text.as_bytes());
    let transacted = database.transact(|transaction| {
        let refused = transaction.merge("ann", body(r#"{"mail":"new","code":2}"#)?, &Precondition::None);
        assert_eq!(outcome(&refused), "conflict");
        let mine = transaction.create(body(r#"{"name":"Cid","mail":"a@x"}"#)?);
        assert_eq!(outcome(&mine), "conflict", "ann still owns what the refused merge would have given up");
        transaction.create(body(r#"{"id":"dan","name":"Dan","mail":"new"}"#)?).map(drop)
    });
    assert_eq!(outcome(&transacted), "ok");
    assert_eq!(found(&database, "User", "mail", &value("a@x")), ["ann"]);
    assert_eq!(found(&database, "User", "mail", &value("new")), ["dan"]);
    assert_consistent(&database);
}

#[test]
fn a_key_that_is_held_is_waited_for_even_if_the_caller_hides_it() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let (held, is_held) = channel();
    let (tried, was_tried) = channel();
    std::thread::scope(|scope| {
        // Dropped with this closure, so that a failed assertion ends the other thread, too.
        let (database, tried) = (&database, tried);
        scope.spawn(move || {
            let holding = database.transact(|transaction| {
                transaction.read(user, "ann")?;
                held.send(()).expect("the other thread listens");
                was_tried.recv().expect("the other thread tries");
                Ok(())
            });
            assert_eq!(outcome(&holding), "ok");
        });
        is_held.recv().expect("the other thread holds it");
        let in_memory = database.never_blocking();
        assert_eq!(outcome(&in_memory.merge(user, "ann", b"{}", &Precondition::None)), "would block");
        let hidden = in_memory.transact(|transaction| {
            let _ = transaction.read(user, "ann");
            Ok(())
        });
        assert_eq!(outcome(&hidden), "would block");
        assert!(in_memory.read(user, "ann").expect("readers take no lock").is_some());
        let waiting = database.transact(|transaction| {
            let patch = parse_object(user, br#"{"points":77}"#)?;
            let first = transaction.merge("ann", patch, &Precondition::None);
            // The receiver is gone when the transaction has started again.
            let _ = tried.send(());
            drop(first);
            Ok(())
        });
        assert_eq!(outcome(&waiting), "ok");
    });
    assert_eq!(json(&database, "User", "ann")["points"], json!(77));
}

#[test]
fn a_verb_reads_and_writes_as_often_as_it_must() {
    let (_directory, database) = with_ann();
    let user = database.table("User").expect("it exists");
    let cost = |verb: &dyn Fn()| {
        let before = database.counters();
        verb();
        let after = database.counters();
        assert_eq!((after.scans, after.multi_gets), (before.scans, before.multi_gets));
        (after.gets - before.gets, after.writes - before.writes)
    };
    let put = |id, body: &'static str| drop(database.replace(user, id, body.as_bytes(), &Precondition::None));
    assert_eq!(cost(&|| drop(create(&database, r#"{"name":"B"}"#))), (0, 1), "no id to look for");
    assert_eq!(cost(&|| drop(create(&database, r#"{"id":"b","name":"B"}"#))), (1, 1));
    assert_eq!(cost(&|| drop(create(&database, r#"{"name":"C","mail":"c@x","code":3}"#))), (2, 1));
    assert_eq!(cost(&|| drop(merge(&database, "ann", r#"{"points":9}"#))), (1, 1));
    assert_eq!(cost(&|| drop(merge(&database, "ann", r#"{"mail":"a2@x","city":"Rome"}"#))), (2, 1));
    assert_eq!(
        cost(&|| put("ann", r#"{"name":"A","mail":"a2@x"}"#)),
        (1, 1),
        "an unchanged unique value is not asked for"
    );
    assert_eq!(cost(&|| drop(delete(&database, "ann"))), (1, 1));
    assert_eq!(cost(&|| drop(text(&database, "User", "b"))), (1, 0));
}

#[test]
fn a_transaction_is_as_durable_as_its_most_durable_table() {
    let (_directory, database) = fresh(SDL);
    let (user, note) = (database.table("User").expect("it exists"), database.table("Note").expect("it exists"));
    let synced = |verbs: &dyn Fn() -> Result<()>| {
        let before = database.counters().syncs;
        verbs().expect("valid");
        database.counters().syncs - before
    };
    assert_eq!(synced(&|| create(&database, r#"{"id":"ann","name":"Ann"}"#).map(drop)), 0);
    assert_eq!(synced(&|| database.create(note, br#"{"id":"n","text":"x"}"#).map(drop)), 1);
    assert_eq!(synced(&|| database.delete(note, "n", &Precondition::None)), 1);
    let both = || {
        database.transact(|transaction| {
            transaction.create(parse_object(note, br#"{"text":"y"}"#)?)?;
            transaction.merge("ann", parse_object(user, br#"{"points":1}"#)?, &Precondition::None).map(drop)
        })
    };
    assert_eq!(synced(&both), 1);
}

#[test]
fn lists_and_finds_are_limited_and_in_the_order_of_ids() {
    let (_directory, database) = fresh(SDL);
    let user = database.table("User").expect("it exists");
    for number in (0..2500).rev() {
        let city = if number % 2 == 0 { "Oslo" } else { "Rome" };
        create(&database, &format!(r#"{{"id":"{number:04}","name":"same","city":"{city}"}}"#)).expect("valid");
    }
    let expected = |step: usize| (0..2500).step_by(step).map(|number| format!("{number:04}")).collect::<Vec<_>>();
    assert_eq!(ids(&database, "User"), expected(1));
    assert_eq!(found(&database, "User", "name", &value("same")), expected(1));
    assert_eq!(found(&database, "User", "city", &value("Oslo")), expected(2));
    for limit in [0, 1, 999, 1000, 1001, 2000, 5000] {
        let count = |mut query: Query<'_>| {
            query.limit = Some(limit);
            listed(&database, "User", &query).len()
        };
        let equal = |name, text| Query::equal(user.attribute(name).expect("it exists"), value(text));
        let counts = (count(Query::default()), count(equal("name", "same")), count(equal("city", "Oslo")));
        assert_eq!(counts, (limit.min(2500), limit.min(2500), limit.min(1250)));
    }
    let stopped = Query::default().run(&database, user, |_| Err(Error::Stale));
    assert_eq!(outcome(&stopped), "stale");
}

#[test]
fn what_has_no_index_is_found_by_looking_at_all() {
    let (_directory, database) = with_ann();
    assert_eq!(found(&database, "User", "points", &Value::Int(5)), ["ann"]);
    assert_eq!(found(&database, "User", "points", &Value::Int(6)), Vec::<String>::new());
    assert_eq!(found(&database, "User", "mail", &Value::Null), Vec::<String>::new());
    assert_eq!(outcome(&database.table("Nothing")), "not found");
}
