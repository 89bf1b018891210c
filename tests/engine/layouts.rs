//! Attributes that come, go, change their order and become wider while records stay as they were written.

use std::path::Path;

use strata::error::Result;
use strata::schema::Schema;
use strata::storage::{Batch, Options, Space, Store};
use strata::transaction::{Database, Precondition};

use super::{assert_consistent, found, fresh, ids, open, outcome, text, value};

fn create(database: &Database, body: &str) -> Result<()> {
    database.create(database.table("T")?, body.as_bytes()).map(drop)
}

fn migrate(directory: &Path, sdl: &str) -> Result<Database> {
    let database = Database::migrate(directory, Schema::parse(sdl)?, &Options::default())?;
    database.catch_up()?;
    Ok(database)
}

fn table(attributes: &str) -> String {
    format!("type T @table {{ {attributes} }}")
}

/// The stored bytes of a record: they are not to change because a schema does.
fn stored(database: &Database, id: &str) -> Vec<u8> {
    let mut key = Vec::new();
    strata::encoding::key::record(database.table("T").expect("it exists").id, id, &mut key);
    let bytes = database.store().get(Space::Records, &key, strata::storage::ReadTier::Disk).expect("readable");
    bytes.expect("it is stored").to_vec()
}

/// Every record has the text, the checksum and the entries that it would have if it were written anew.
fn assert_as_if_written_anew(database: &Database) {
    assert_consistent(database);
    let table = database.table("T").expect("it exists");
    for id in ids(database, "T") {
        let read = database.read(table, &id).expect("readable").expect("it is listed");
        let (text, checksum) = (String::from_utf8_lossy(read.json()).into_owned(), read.checksum());
        drop(read);
        let written = database.merge(table, &id, b"{}", &Precondition::None).expect("nothing changes");
        assert_eq!(
            (String::from_utf8_lossy(written.json()).into_owned(), written.checksum()),
            (text, checksum),
            "{id}"
        );
        assert_eq!(stored(database, &id), written.bytes());
    }
    assert_consistent(database);
}

#[test]
fn attributes_are_added_between_others_and_change_their_order() {
    let (directory, database) = fresh(&table("id: ID @primaryKey name: String @indexed size: Int @indexed"));
    create(&database, r#"{"id":"1","name":"a\"b","size":-7}"#).expect("valid");
    let before = stored(&database, "1");
    drop(database);
    let sdl = table(
        "at: Date @indexed size: Int @indexed tags: [String] @indexed id: ID @primaryKey name: String @indexed any: Any",
    );
    let database = open(directory.path(), &sdl).expect("nothing is lost");
    let expected = r#"{"at":null,"size":-7,"tags":null,"id":"1","name":"a\"b","any":null}"#;
    assert_eq!(text(&database, "T", "1").as_deref(), Some(expected));
    assert_eq!(stored(&database, "1"), before, "it is not rewritten");
    assert_eq!(found(&database, "T", "name", &value("a\"b")), ["1"]);
    assert_eq!(found(&database, "T", "size", &(-7).into()), ["1"]);
    assert_eq!(found(&database, "T", "at", &strata::encoding::Value::Null), ["1"], "the new index has an entry");
    create(&database, r#"{"id":"2","size":3,"at":"2026-01-31","tags":["x"]}"#).expect("valid");
    let table = database.table("T").expect("it exists");
    database.merge(table, "1", br#"{"size":4}"#, &Precondition::None).expect("it is there");
    assert_eq!(text(&database, "T", "1"), Some(expected.replace("-7", "4")));
    assert!(found(&database, "T", "size", &(-7).into()).is_empty());
    assert_as_if_written_anew(&database);
}

#[test]
fn types_become_wider_without_a_loss() {
    let narrow =
        "id: ID @primaryKey a: Int @indexed b: Float @indexed c: Boolean @indexed d: Date @indexed e: ID @indexed
        f: Int @unique g: [Int] @indexed h: Int @indexed(type: \"hash\") i: String @unique";
    let wide = "id: ID @primaryKey a: Float @indexed b: String @indexed c: String @indexed d: String @indexed e: String @indexed
        f: String @unique g: [Float] @indexed h: Float @indexed(type: \"hash\") i: ID @unique";
    let (directory, database) = fresh(&table(narrow));
    let bodies = [
        r#"{"id":"1","a":42,"b":2.50,"c":true,"d":"2026-01-31T12:00:00Z","e":"x","f":7,"g":[1,20],"h":3,"i":"u"}"#,
        r#"{"id":"2","a":-9007199254740992,"b":1e21,"c":false,"d":"2026-01-31","e":"","f":-1,"g":[],"h":0,"i":"v"}"#,
        r#"{"id":"3"}"#,
    ];
    bodies.iter().for_each(|body| create(&database, body).expect("valid"));
    let kept: Vec<u32> = database.table("T").expect("it exists").indexes.iter().map(|index| index.id).collect();
    drop(database);
    let database = open(directory.path(), &table(wide)).expect("nothing is lost");
    let expected = [
        r#"{"id":"1","a":42,"b":"2.5","c":"true","d":"2026-01-31T12:00:00Z","e":"x","f":"7","g":[1,20],"h":3,"i":"u"}"#,
        r#"{"id":"2","a":-9007199254740992,"b":"1e+21","c":"false","d":"2026-01-31","e":"","f":"-1","g":[],"h":0,"i":"v"}"#,
        r#"{"id":"3","a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null,"h":null,"i":null}"#,
    ];
    for (id, expected) in ["1", "2", "3"].into_iter().zip(expected) {
        assert_eq!(text(&database, "T", id).as_deref(), Some(expected));
    }
    assert_eq!(found(&database, "T", "a", &42.0.into()), ["1"]);
    assert_eq!(found(&database, "T", "b", &value("2.5")), ["1"]);
    assert_eq!(found(&database, "T", "c", &value("false")), ["2"]);
    assert_eq!(found(&database, "T", "d", &value("2026-01-31")), ["2"]);
    assert_eq!(found(&database, "T", "g", &20.0.into()), ["1"]);
    assert_eq!(found(&database, "T", "f", &value("-1")), ["2"]);
    let table = database.table("T").expect("it exists");
    let is_new = |(index, old): (&strata::schema::Index, &u32)| {
        (index.id != *old).then(|| table.attributes[index.attribute].name.clone())
    };
    let new: Vec<_> = table.indexes.iter().zip(&kept).filter_map(is_new).collect();
    assert_eq!(new, ["b", "c", "d", "f"], "the others have the same entries by both types");
    assert_eq!(outcome(&create(&database, r#"{"f":7}"#)), "conflict", "the unique index binds what was there");
    assert_as_if_written_anew(&database);
}

#[test]
fn an_integer_that_no_float_holds_is_not_rounded() {
    let (directory, database) = fresh(&table("id: ID @primaryKey a: Int b: [Int]"));
    create(&database, r#"{"id":"1","a":9007199254740992}"#).expect("valid");
    create(&database, r#"{"id":"2","b":[1,9007199254740993]}"#).expect("valid");
    drop(database);
    let error =
        open(directory.path(), &table("id: ID @primaryKey a: Int b: [Float]")).err().expect("it would be rounded");
    assert!(error.to_string().contains("record \"2\" would be rounded"), "{error}");
    assert!(
        migrate(directory.path(), &table("id: ID @primaryKey a: Int b: [Float]")).is_err(),
        "a migration drops, and rounds nothing"
    );
    let database = open(directory.path(), &table("id: ID @primaryKey a: Float b: [Int]")).expect("all are exact");
    assert_eq!(text(&database, "T", "1").as_deref(), Some(r#"{"id":"1","a":9007199254740992,"b":null}"#));
    assert_as_if_written_anew(&database);
}

#[test]
fn what_would_be_lost_is_refused_and_nothing_has_changed() {
    let sdl = table("id: ID @primaryKey name: String @indexed size: Int");
    let (directory, database) = fresh(&sdl);
    create(&database, r#"{"id":"1","name":"a","size":1}"#).expect("valid");
    drop(database);
    for (change, words) in [
        ("id: ID @primaryKey name: String", "attribute size of table T is missing from the schema"),
        ("id: ID @primaryKey name: String length: Int", "attribute size of table T is missing from the schema"),
        (
            "id: ID @primaryKey name: String size: [Int]",
            "attribute size of table T has type Int, and its values cannot be read as [Int]",
        ),
        ("id: ID @primaryKey name: String size: Boolean", "cannot be read as Boolean"),
        ("id: ID @primaryKey name: Int size: Int", "cannot be read as Int"),
        ("id: ID name: String size: Int key: ID @primaryKey", "the primary key of table T is id"),
        (
            "id: ID @primaryKey name: String size: Int more: Int!",
            "attribute more of table T is required now, and record \"1\"",
        ),
    ] {
        let error =
            open(directory.path(), &table(change)).err().unwrap_or_else(|| panic!("{change} should be refused"));
        assert!(error.to_string().contains(words) && !error.to_string().contains('\n'), "{error}");
    }
    let database = open(directory.path(), &sdl).expect("the old schema is right");
    assert_eq!(found(&database, "T", "name", &value("a")), ["1"]);
    assert_as_if_written_anew(&database);
    let table_now = database.table("T").expect("it exists");
    database.delete(table_now, "1", &Precondition::None).expect("it is there");
    drop(database);
    for change in ["id: ID @primaryKey size: [Int]", "key: ID @primaryKey size: Int! @unique", "id: ID @primaryKey"] {
        let database = open(directory.path(), &table(change)).expect("there is nothing to lose");
        assert_consistent(&database);
    }
}

#[test]
fn a_dropped_attribute_does_not_come_back_under_its_name() {
    let (directory, database) = fresh(&table("id: ID @primaryKey name: String @indexed size: Int @indexed"));
    create(&database, r#"{"id":"1","name":"a","size":1}"#).expect("valid");
    drop(database);
    let without = table("id: ID @primaryKey name: String @indexed");
    assert!(open(directory.path(), &without).is_err());
    let database = migrate(directory.path(), &without).expect("it may be lost");
    assert_eq!(text(&database, "T", "1").as_deref(), Some(r#"{"id":"1","name":"a"}"#));
    create(&database, r#"{"id":"2","name":"a"}"#).expect("valid");
    assert_consistent(&database);
    drop(database);
    let database = open(directory.path(), &table("id: ID @primaryKey name: String @indexed size: Int @indexed"))
        .expect("a new one");
    assert_eq!(text(&database, "T", "1").as_deref(), Some(r#"{"id":"1","name":"a","size":null}"#));
    assert!(found(&database, "T", "size", &1.into()).is_empty());
    assert_eq!(found(&database, "T", "size", &strata::encoding::Value::Null), ["1", "2"]);
    assert_as_if_written_anew(&database);
}

#[test]
fn a_blob_stays_with_its_record() {
    let (directory, database) = fresh(&table("id: ID @primaryKey picture: Blob"));
    create(&database, r#"{"id":"1"}"#).expect("valid");
    let table_now = database.table("T").expect("it exists");
    let upload = database.begin_upload(table_now, "1").expect("there are numbers");
    let set = |database: &Database, attribute, upload| {
        database.set_blob(
            database.table("T").expect("it exists"),
            "1",
            attribute,
            upload,
            |_, _| Ok(()),
            |_: &Store, _: &mut Batch| {},
        )
    };
    set(&database, 1, Some(upload)).expect("it is there");
    drop(database);
    let wider = table("name: String id: ID @primaryKey picture: Blob");
    let database = open(directory.path(), &wider).expect("nothing is lost");
    let read = database.read(database.table("T").expect("it exists"), "1").expect("readable").expect("it is there");
    assert_eq!(read.upload(2), Some(upload));
    assert_eq!(read.json(), br#"{"name":null,"id":"1","picture":"/T/1/picture"}"#);
    drop(read);
    assert_as_if_written_anew(&database);
    drop(database);
    let without = table("name: String id: ID @primaryKey");
    let refused = migrate(directory.path(), &without).err().expect("its bytes would stay behind");
    assert!(refused.to_string().contains("record \"1\" still has a blob"), "{refused}");
    set(&open(directory.path(), &wider).expect("as it was"), 2, None).expect("it is there");
    let database = migrate(directory.path(), &without).expect("there is no blob");
    assert_eq!(text(&database, "T", "1").as_deref(), Some(r#"{"name":null,"id":"1"}"#));
}

/// Records of many layouts beside each other; a schema that goes back finds its layout again.
#[test]
fn records_of_all_layouts_stand_beside_each_other() {
    let attributes =
        ["", "a: Int", "a: Int b: String", "b: String a: Int", "b: String a: Float", "c: [Int] b: String a: Float"];
    let (directory, _) = fresh(&table("id: ID @primaryKey"));
    for (number, more) in attributes.iter().enumerate() {
        let database = open(directory.path(), &table(&format!("id: ID @primaryKey {more}"))).expect("nothing is lost");
        let mut body = format!(r#"{{"id":"{number}""#);
        for (name, given) in [("a: ", r#","a":7"#), ("b: ", r#","b":"x""#), ("c: ", r#","c":[1]"#)] {
            body += if more.contains(name) { given } else { "" };
        }
        create(&database, &(body + "}")).expect("valid");
        assert_consistent(&database);
    }
    let last = table("id: ID @primaryKey c: [Int] b: String a: Float");
    let database = open(directory.path(), &last).expect("it was closed");
    let texts: Vec<_> = ids(&database, "T").iter().map(|id| text(&database, "T", id).expect("it is listed")).collect();
    let expected = |id, c: &str, b: &str, a: &str| format!(r#"{{"id":"{id}","c":{c},"b":{b},"a":{a}}}"#);
    assert_eq!(
        texts,
        [
            expected(0, "null", "null", "null"),
            expected(1, "null", "null", "7"),
            expected(2, "null", "\"x\"", "7"),
            expected(3, "null", "\"x\"", "7"),
            expected(4, "null", "\"x\"", "7"),
            expected(5, "[1]", "\"x\"", "7"),
        ]
    );
    let layout = database.table("T").expect("it exists").layout;
    drop(database);
    let other = table("a: Float b: String c: [Int] id: ID @primaryKey");
    assert_ne!(open(directory.path(), &other).expect("another order").table("T").expect("it exists").layout, layout);
    let database = open(directory.path(), &last).expect("back again");
    assert_eq!(database.table("T").expect("it exists").layout, layout);
    assert_as_if_written_anew(&database);
}

#[test]
fn a_table_has_as_many_layouts_as_a_byte_can_name() {
    let (directory, database) = fresh(&table("id: ID @primaryKey"));
    create(&database, r#"{"id":"1"}"#).expect("valid");
    drop(database);
    let order = |number: usize| {
        // The attributes of one number come before those of the other bits: another order for each number.
        let named =
            |wanted: usize| (0..8).filter(move |bit| number >> bit & 1 == wanted).map(|bit| format!("a{bit}: Int"));
        table(&format!("id: ID @primaryKey {}", named(1).chain(named(0)).collect::<Vec<_>>().join(" ")))
    };
    let mut opened = 0;
    let refused = (0..300).find_map(|number| {
        let outcome = open(directory.path(), &order(number % 256));
        opened += usize::from(outcome.is_ok());
        outcome.err()
    });
    assert!(refused.is_none_or(|error| error.to_string().contains("have changed 256 times")));
    assert!(opened >= 200);
    let database = open(directory.path(), &order(1)).expect("one that it has had");
    assert!(text(&database, "T", "1").expect("it is there").starts_with(r#"{"id":"1","a0":null,"a1":null"#));
}
