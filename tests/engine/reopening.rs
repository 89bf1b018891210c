//! A store opened again: under its schema, under another one, and under one that it must refuse.

use std::collections::HashSet;
use std::path::Path;

use strata::encoding::Value;
use strata::error::{Error, Result};
use strata::schema::Schema;
use strata::storage::{Batch, Options, ReadTier, Space};
use strata::transaction::{Database, Precondition};

use super::{assert_consistent, found, ids, json, open, outcome, value};

/// A table of people with the directives that are asked for.
fn people(name: &str, mail: &str) -> String {
    format!("type Person @table {{ id: ID @primaryKey name: String {name} mail: String {mail} size: Int }}")
}

fn table(name: &str) -> String {
    format!("\ntype {name} @table {{ id: ID @primaryKey text: String @indexed }}")
}

fn create(database: &Database, table: &str, body: &str) -> Result<()> {
    database.create(database.table(table)?, body.as_bytes()).map(drop)
}

/// Fills a directory with three people, the mail of two of them alike, and closes it.
fn filled(sdl: &str) -> tempfile::TempDir {
    let (directory, database) = super::fresh(sdl);
    for (id, name, mail) in [("1", "a", "same"), ("2", "b", "same"), ("3", "a", "other")] {
        let body = format!(r#"{{"id":"{id}","name":"{name}","mail":"{mail}"}}"#);
        create(&database, "Person", &body).expect("valid");
    }
    directory
}

fn entries(database: &Database, index: u32) -> usize {
    let (lower, upper) = (index.to_be_bytes(), (index + 1).to_be_bytes());
    let snapshot = database.store().snapshot(ReadTier::Disk).expect("it is embedded");
    let mut scan = database.store().scan(Space::Indexes, &lower, &upper, &snapshot, ReadTier::Disk);
    let mut count = 0;
    while scan.next().expect("readable").is_some() {
        count += 1;
    }
    count
}

/// The number of the only index of a table.
fn number(database: &Database, table: &str) -> u32 {
    let table = database.table(table).expect("it exists");
    assert_eq!(table.indexes.len(), 1);
    table.indexes[0].id
}

fn refused(directory: &Path, sdl: &str) -> String {
    let error = open(directory, sdl).err().expect("it should have been refused");
    let text = error.to_string();
    assert!(matches!(error, Error::Invalid { .. } | Error::Conflict { .. }) && !text.contains('\n'), "{text}");
    text
}

#[test]
fn everything_is_there_again() {
    let sdl = people("@indexed", "@indexed(type: \"hash\")");
    let directory = filled(&sdl);
    for _ in 0..2 {
        let database = open(directory.path(), &sdl).expect("it was closed");
        assert_eq!(ids(&database, "Person"), ["1", "2", "3"]);
        assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
        assert_eq!(found(&database, "Person", "mail", &value("same")), ["1", "2"]);
        assert_consistent(&database);
        database.store().compact().expect("there is room");
    }
}

/// Numbers are reserved by the thousand: what is stored says up to which.
#[test]
fn no_two_uploads_have_the_same_number_across_restarts() {
    let sdl = "type T @table { id: ID @primaryKey picture: Blob }";
    let (directory, database) = super::fresh(sdl);
    let mut numbers = HashSet::new();
    let mut begin = |database: &Database, uploads: usize| {
        let table = database.table("T").expect("it exists");
        for _ in 0..uploads {
            let number = database.begin_upload(table, "1").expect("there are numbers");
            assert!(numbers.insert(number), "{number} is in use");
        }
    };
    begin(&database, 2500);
    drop(database);
    for _ in 0..3 {
        begin(&open(directory.path(), sdl).expect("it was closed"), 1100);
    }
}

#[test]
fn numbers_stay_when_the_schema_is_written_in_another_order() {
    let directory = filled(&(people("@indexed", "") + &table("Other")));
    let database =
        open(directory.path(), &(table("New") + &table("Other") + &people("@indexed", ""))).expect("a new table");
    let table = |name| database.table(name).expect("it exists").id;
    assert_eq!((table("Person"), table("Other"), table("New")), (1, 2, 3));
    let index = |name| number(&database, name);
    assert_eq!((index("Person"), index("Other"), index("New")), (1, 2, 3));
    assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
    assert!(ids(&database, "New").is_empty());
    assert_consistent(&database);
}

#[test]
fn an_added_index_is_built() {
    let directory = filled(&people("", ""));
    for (name, mail) in
        [("@indexed", ""), ("@indexed", "@indexed(type: \"hash\")"), ("@indexed @indexed(type: \"hash\")", "")]
    {
        let database = open(directory.path(), &people(name, mail)).expect("indexes may be added");
        assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
        if !mail.is_empty() {
            assert_eq!(found(&database, "Person", "mail", &value("same")), ["1", "2"]);
        }
        create(&database, "Person", r#"{"id":"4","name":"b"}"#).expect("it is kept in step from now on");
        assert_consistent(&database);
        database.delete(database.table("Person").expect("it exists"), "4", &Precondition::None).expect("it is there");
        assert_consistent(&database);
    }
}

#[test]
fn a_dropped_index_is_removed_and_its_number_is_not_used_again() {
    let directory = filled(&people("@indexed", ""));
    let database = open(directory.path(), &people("", "")).expect("indexes may be dropped");
    assert_eq!(entries(&database, 1), 0);
    create(&database, "Person", r#"{"id":"4","name":"a"}"#).expect("valid");
    drop(database);
    let database = open(directory.path(), &people("@indexed", "")).expect("indexes may be added");
    assert_eq!(number(&database, "Person"), 2);
    assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3", "4"]);
    assert_consistent(&database);
}

#[test]
fn an_index_may_change_its_kind() {
    let directory = filled(&people("@indexed", ""));
    for (kind, number_then) in [("@indexed(type: \"hash\")", 2), ("@indexed", 3)] {
        let database = open(directory.path(), &people(kind, "")).expect("indexes may change");
        assert_eq!(number(&database, "Person"), number_then);
        assert_eq!((entries(&database, number_then - 1), entries(&database, number_then)), (0, 3));
        assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
        assert_consistent(&database);
    }
}

#[test]
fn a_primary_key_stays_where_it_is() {
    let sdl = |one: &str, other: &str| format!("type T @table {{ one: ID {one} other: ID {other} }}");
    let (directory, database) = super::fresh(&sdl("@primaryKey", ""));
    create(&database, "T", r#"{"one":"1","other":"2"}"#).expect("valid");
    drop(database);
    assert!(refused(directory.path(), &sdl("", "@primaryKey")).contains("the primary key of table T is one"));
}

/// One table drops an index, and then another table refuses the schema: the first one must still have it.
#[test]
fn a_refused_schema_has_changed_nothing() {
    let old = table("Other") + &people("@indexed", "");
    let directory = filled(&old);
    let database = open(directory.path(), &old).expect("it was closed");
    create(&database, "Other", r#"{"id":"o","text":"x"}"#).expect("valid");
    drop(database);
    let without = table("Other").replace("@indexed", "");
    refused(directory.path(), &(without.clone() + &people("@indexed", "").replace("size", "length")));
    refused(directory.path(), &(without.clone() + &people("@indexed", "").replace("size: Int", "size: [Int]")));
    refused(directory.path(), &(without.clone() + &people("", "@unique").replace("size: Int", "size: Int!")));
    let database = open(directory.path(), &old).expect("the old schema is right");
    assert_eq!(found(&database, "Other", "text", &value("x")), ["o"]);
    assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
    assert_consistent(&database);
}

#[test]
fn a_table_that_is_not_named_keeps_what_it_has() {
    let both = people("@indexed", "") + &table("Other");
    let directory = filled(&both);
    let database = open(directory.path(), &table("Other")).expect("a table may be left out");
    assert_eq!(outcome(&database.table("Person")), "not found");
    create(&database, "Other", r#"{"id":"o","text":"x"}"#).expect("valid");
    assert_consistent(&database);
    drop(database);
    let database = open(directory.path(), &both).expect("a table may come back");
    assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
    assert_eq!(found(&database, "Other", "text", &value("x")), ["o"]);
    assert_eq!(found(&database, "Other", "text", &Value::Null), Vec::<String>::new());
    assert_eq!(json(&database, "Person", "1")["mail"], serde_json::json!("same"));
    assert_consistent(&database);
}

#[test]
fn a_catalogue_that_cannot_be_read_is_refused() {
    let sdl = people("@indexed", "");
    for (catalogue, kind, words) in [
        ("{", "corrupt", "the catalogue of the store"),
        ("", "corrupt", "the catalogue of the store"),
        (
            r#"{"format":3,"next_table":2,"next_index":1,"tables":[{"name":"Person","id":1,"primary_key":"id","next_attribute":0,"layout":1,"layouts":[],"indexes":[]}],"dropped":[]}"#,
            "corrupt",
            "Person has no layout",
        ),
        (r#"{"format":99,"next_table":1,"next_index":1,"tables":[]}"#, "invalid", "format 99"),
    ] {
        let directory = filled(&sdl);
        let database = open(directory.path(), &sdl).expect("it was closed");
        set_catalogue(&database, catalogue);
        drop(database);
        let opened = open(directory.path(), &sdl);
        assert_eq!(outcome(&opened), kind, "{catalogue}");
        assert!(opened.err().expect("refused").to_string().contains(words));
    }
}

fn catalogue(database: &Database) -> String {
    let stored = database.store().get(Space::Meta, b"catalogue", ReadTier::Disk).expect("readable").expect("written");
    String::from_utf8(stored.to_vec()).expect("JSON")
}

fn set_catalogue(database: &Database, catalogue: &str) {
    let mut batch = Batch::default();
    database.store().put(&mut batch, Space::Meta, b"catalogue", catalogue.as_bytes());
    database.store().write(&mut batch, strata::schema::Durability::Soft).expect("there is room");
}

#[test]
fn who_looks_at_a_store_does_not_change_it() {
    let sdl = people("@indexed", "");
    let directory = filled(&sdl);
    let look = |sdl: &str| {
        Database::open_unchanged(
            directory.path(),
            Schema::parse(sdl).expect("the schema is right"),
            &Options::default(),
        )
    };
    for other in
        [people("", ""), people("@indexed", "@indexed"), sdl.clone() + &table("Other"), sdl.replace("Int", "Float")]
    {
        let refused = look(&other).err().expect("another schema");
        assert!(refused.to_string().contains("last opened with"), "{refused}");
    }
    let database = look(&sdl).expect("the same schema");
    assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
    assert_consistent(&database);
}

#[test]
fn a_migration_gives_back_the_space_of_a_dropped_table_and_retires_its_number() {
    let both = people("@indexed", "@unique") + &table("Other");
    let (directory, database) = super::fresh(&both);
    let bodies: Vec<_> = (0..5000).map(|id| format!(r#"{{"id":"{id}","text":"{}"}}"#, "x".repeat(200))).collect();
    database
        .create_all(database.table("Other").expect("it exists"), format!("[{}]", bodies.join(",")).as_bytes())
        .expect("valid");
    create(&database, "Person", r#"{"id":"1","name":"a"}"#).expect("valid");
    database.store().compact().expect("there is room");
    let (number, full) = (number(&database, "Other"), database.store().gauges().expect("it says").sorted_bytes);
    drop(database);
    let kept = open(directory.path(), &people("@indexed", "@unique")).expect("a table may be left out");
    // A compaction in the background may save some bytes.
    assert!(kept.store().gauges().expect("it says").sorted_bytes > full / 2);
    drop(kept);
    let migrate = |sdl: &str| {
        Database::migrate(directory.path(), Schema::parse(sdl).expect("the schema is right"), &Options::default())
    };
    let migrated = migrate(&people("@indexed", "@unique")).expect("a dropped table");
    assert!(migrated.store().gauges().expect("it says").sorted_bytes < full / 10);
    assert_eq!(entries(&migrated, number), 0);
    assert_eq!(ids(&migrated, "Person"), ["1"]);
    assert_consistent(&migrated);
    drop(migrated);
    let again = open(directory.path(), &both).expect("a new table of an old name");
    assert_eq!(ids(&again, "Other"), Vec::<String>::new());
    assert!(
        again.table("Other").expect("it exists").id > 2 && self::number(&again, "Other") > number,
        "numbers stay retired"
    );
    assert_consistent(&again);
}

const EVERY_TYPE: &str = "type All @table(expiration: 9) @compositeIndex(fields: [\"whole\", \"real\"]) {
    key: ID! @primaryKey text: String! @unique @indexed(type: \"fulltext\") whole: Int @indexed real: Float
    truth: Boolean day: Date @expiresAt free: Any many: [Int!] @indexed(type: \"hash\") }";

/// Names of this program's types may change, and what is stored under them must not.
#[test]
fn the_catalogue_has_the_names_of_the_schema() {
    let (_directory, database) = super::fresh(EVERY_TYPE);
    let attribute =
        |id, name, kind, required| format!(r#"{{"id":{id},"name":"{name}","type":"{kind}","required":{required}}}"#);
    let attributes = [
        attribute(0, "key", "ID", true),
        attribute(1, "text", "String", true),
        attribute(2, "whole", "Int", false),
        attribute(3, "real", "Float", false),
        attribute(4, "truth", "Boolean", false),
        attribute(5, "day", "Date", false),
        attribute(6, "free", "Any", false),
        attribute(7, "many", "[Int]", false),
    ];
    let index =
        |id, attributes, kind| format!(r#"{{"id":{id},"attributes":[{attributes}],"kind":"{kind}","state":"ready"}}"#);
    let indexes = [
        index(1, r#""text""#, "unique"),
        index(2, r#""text""#, "fulltext"),
        index(3, r#""whole""#, "ordered"),
        index(4, r#""many""#, "hash"),
        index(5, r#""whole","real""#, "composite"),
        index(6, r#""day""#, "expiry"),
    ];
    let expected = format!(
        r#"{{"format":4,"next_table":2,"next_index":7,"tables":[{{"name":"All","id":1,"primary_key":"key","next_attribute":8,"layout":0,"layouts":[{{"attributes":[{}],"deadline":"in_record"}}],"indexes":[{}]}}],"dropped":[],"streams":[]}}"#,
        attributes.join(","),
        indexes.join(",")
    );
    assert_eq!(catalogue(&database), expected);
}

#[test]
fn a_store_of_an_earlier_format_is_read_and_written_in_the_latest() {
    let sdl = people("@indexed", "");
    let directory = filled(&sdl);
    let latest = catalogue(&open(directory.path(), &sdl).expect("it was closed"));
    let formats = [
        r#"{"format":1,"next_table":2,"next_index":2,"tables":[{"name":"Person","id":1,"attributes":[["id","Id"],["name","String"],["mail","String"],["size","Int"]],"primary_key":"id","indexes":[{"id":1,"attribute":"name","kind":"ordered"}]}]}"#,
        r#"{"format":2,"next_table":2,"next_index":2,"tables":[{"name":"Person","id":1,"attributes":[{"name":"id","type":"ID","required":false},{"name":"name","type":"String","required":false},{"name":"mail","type":"String","required":false},{"name":"size","type":"Int","required":false}],"primary_key":"id","indexes":[{"id":1,"attribute":"name","kind":"ordered"}]}]}"#,
    ];
    for earlier in formats {
        let database = open(directory.path(), &sdl).expect("it was closed");
        set_catalogue(&database, earlier);
        drop(database);
        let looked_at =
            Database::open_unchanged(directory.path(), Schema::parse(&sdl).expect("valid"), &Options::default());
        assert_eq!(catalogue(&looked_at.expect("the same schema")), earlier);
        let database = open(directory.path(), &sdl).expect("the same schema");
        assert_eq!(catalogue(&database), latest);
        assert_eq!(found(&database, "Person", "name", &value("a")), ["1", "3"]);
        assert_consistent(&database);
    }
}

#[test]
fn an_attribute_becomes_required_only_if_every_record_has_it() {
    let nullable = people("@indexed", "");
    let directory = filled(&nullable);
    let required = |attribute: &str, kind: &str| {
        nullable.replace(&format!("{attribute}: {kind}"), &format!("{attribute}: {kind}!"))
    };
    let refused = open(directory.path(), &required("size", "Int")).err().expect("no record has a size");
    assert!(
        refused.to_string().contains("attribute size of table Person is required now, and record \"1\""),
        "{refused}"
    );
    let opened = open(directory.path(), &required("mail", "String")).expect("every record has a mail");
    let without = create(&opened, "Person", r#"{"id":"4","name":"d"}"#);
    assert_eq!(outcome(&without), "invalid");
    drop(opened);
    let opened = open(directory.path(), &nullable).expect("no longer required");
    create(&opened, "Person", r#"{"id":"4","name":"d"}"#).expect("a mail may be left out again");
    drop(opened);
    let refused = open(directory.path(), &required("mail", "String"));
    assert!(refused.err().expect("one has none").to_string().contains("record \"4\""));
}

#[test]
fn a_directory_has_one_owner() {
    let (directory, database) = super::fresh(&table("T"));
    let second = open(directory.path(), &table("T"));
    assert_eq!(outcome(&second), "busy");
    let clone = database.clone();
    drop(database);
    assert!(open(directory.path(), &table("T")).is_err(), "a clone keeps the store open");
    drop(clone);
    assert!(open(directory.path(), &table("T")).is_ok());
}

/// Strong writes that come too soon after another sync are noted later, though nothing is written any more.
#[test]
fn what_is_synced_is_noted_by_work_that_has_nothing_else_to_do() {
    let (directory, database) =
        super::fresh("type Payment @table(durability: \"strong\") { id: ID @primaryKey text: String }");
    for id in 0..20 {
        create(&database, "Payment", &format!(r#"{{"id":"{id}"}}"#)).expect("valid");
    }
    let noted = || {
        let file = std::fs::read(directory.path().join("SYNCED")).expect("an open store has one");
        serde_json::from_slice::<serde_json::Value>(&file).expect("it is JSON")["synced"].as_u64()
    };
    let begun = std::time::Instant::now();
    while noted() != Some(database.store().latest_sequence().expect("it is embedded")) {
        assert!(begun.elapsed().as_secs() < 300, "never: {:?} is noted", noted());
        database.work().expect("a healthy store");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
