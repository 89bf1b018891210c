//! Mistakes that the types do not prevent: each is an error at once, and touches nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use strata::blobs::{Reader, Upload};
use strata::config::Config;
use strata::encoding::value::Date;
use strata::encoding::{Fields, Value};
use strata::error::{Error, Result};
use strata::feed::{EventId, Feed, Message, Next, Subscription, Topic};
use strata::query::{Limits, Order, Query, Selection};
use strata::schema::{Schema, Table};
use strata::server::Server;
use strata::storage::{Options, Space};
use strata::transaction::{Database, Precondition};

use super::{assert_consistent, change, fresh, ids, open, open_idle, outcome};

const SDL: &str = r#"
type Draft @table {
  id: ID @primaryKey
  age: Int @indexed
}
type Invoice @table {
  id: ID @primaryKey
  age: Int @indexed
  name: String
  sum: Float
  paid: Boolean
  day: Date
  tags: [String] @indexed
  more: Any
  scan: Blob
  draftId: ID @indexed
  draft: Draft @relationship(from: "draftId")
}
"#;

/// A store with ten records in both tables.
fn filled() -> (tempfile::TempDir, Database) {
    let (directory, database) = fresh(SDL);
    for id in 0..10 {
        let body = format!(r#"{{"id":"{id}","age":{id}}}"#);
        for table in &database.schema().tables {
            database.create(table, body.as_bytes()).expect("a valid body");
        }
    }
    (directory, database)
}

fn tables(database: &Database) -> (&Table, &Table) {
    (database.table("Draft").expect("it exists"), database.table("Invoice").expect("it exists"))
}

fn parsed<'q>(database: &Database, table: &Table, text: &'q str) -> Query<'q> {
    Query::parse(database.schema(), table, text, &Limits::in_url(100)).expect("a query of the grammar")
}

/// Runs a query in every way that there is, and returns what each says.
fn in_every_way(query: &Query<'_>, database: &Database, table: &Table) -> Vec<(&'static str, Result<()>)> {
    vec![
        ("run", query.run(database, table, |_| Ok(()))),
        ("show", query.show(database, table, |_, _| Ok(())).map(drop)),
        ("explain", query.explain(database, table).map(drop)),
        ("delete", query.clone().delete(database, table, 100).map(drop)),
        ("update", query.clone().update(database, &Fields::of(table), 100).map(drop)),
    ]
}

fn assert_invalid<T: std::fmt::Debug>(what: &str, outcome: Result<T>, words: &[&str]) {
    match outcome {
        Err(Error::Invalid { detail, .. }) => {
            assert!(words.iter().all(|word| detail.contains(word)) && !detail.contains('\n'), "{what}: {detail}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_query_runs_on_the_table_that_it_was_parsed_for() {
    let (_directory, database) = filled();
    let (draft, invoice) = tables(&database);
    for text in ["age=gt=4", "", "sort=-age", "select=id", "id==1", "age=gt=4&explain=true&pagination=true"] {
        let query = parsed(&database, draft, text);
        for (way, outcome) in in_every_way(&query, &database, invoice) {
            assert_invalid(&format!("{way} of {text:?}"), outcome, &["table Draft", "table Invoice"]);
        }
        assert!(!query.is_short(invoice), "{text:?}");
        assert!(query.filter.checks(invoice).is_err(), "{text:?}");
        assert_eq!(outcome(&query.run(&database, draft, |_| Ok(()))), "ok");
    }
    // A part of it is enough.
    let select = parsed(&database, draft, "select=age").select;
    let shown = Query { select, ..Query::default() }.show(&database, invoice, |_, _| Ok(()));
    assert_invalid("a selection", shown, &["selection", "table Invoice"]);
    // Relationships lead to tables of the same schema.
    let reversed = Schema::parse(&SDL.replace("type Draft", "type Other @table { id: ID @primaryKey } type Draft"));
    let strange = Query::parse(&reversed.expect("valid"), invoice, "draft.age=gt=4", &Limits::in_url(1));
    assert_invalid("parse", strange.map(drop), &["table Invoice", "schema"]);
    let mixed = Query { filter: parsed(&database, draft, "age=gt=4").filter, ..Query::default() };
    assert_invalid("a mixed query", mixed.delete(&database, invoice, 100), &["table Draft", "table Invoice"]);
    assert_eq!((ids(&database, "Draft").len(), ids(&database, "Invoice").len()), (10, 10));
}

#[test]
fn a_table_of_another_database_is_refused_by_everything_that_takes_one() {
    let (_directory, database) = filled();
    let (_other_directory, other) = filled();
    let (_, foreign) = tables(&other);
    for (way, outcome) in in_every_way(&parsed(&other, foreign, "age=gt=4"), &database, foreign) {
        assert_invalid(way, outcome, &["table Invoice"]);
    }
    // A schema's own table, and a clone of one of the database.
    let schema = Schema::parse(SDL).expect("it is valid");
    let (own, clone) = (&schema.tables[1], tables(&database).1.clone());
    for table in [own, &clone] {
        assert_invalid("run", Query::default().run(&database, table, |_| Ok(())), &["table Invoice"]);
    }
    let strange = Query::parse(&schema, own, "age=gt=4", &Limits::in_url(1)).expect("a query of the grammar");
    assert_invalid("run", strange.run(&database, tables(&database).1, |_| Ok(())), &["another schema", "Invoice"]);

    let feed = Feed::new(database.clone(), strata::feed::Options::default(), |_, _, _| {});
    let position = feed.subscribe(Topic::table(tables(&database).1)).expect("its own table");
    drop(position);
    for topic in [Topic::table(foreign), Topic::record(foreign, "1"), Topic::table(own)] {
        assert_invalid("subscribe", feed.subscribe(topic.clone()).map(drop), &["another schema"]);
    }
    let scan = foreign.attribute("scan").expect("it exists");
    assert_invalid("reader", Reader::open(&database, foreign, "1", scan).map(drop), &["Invoice"]);
    assert_invalid("upload", begin(&database, foreign, "1", scan).map(drop), &["Invoice"]);
    assert_invalid("abandon", database.abandon_upload(foreign, 1), &["Invoice"]);
    assert_invalid("remove", strata::blobs::remove(&database, foreign, "1", scan, &Precondition::None), &["Invoice"]);
    assert_eq!(ids(&database, "Invoice").len(), 10);
}

fn begin(database: &Database, table: &Table, id: &str, attribute: usize) -> Result<Upload> {
    Upload::begin(database, table, id, attribute, "text/plain", Precondition::None)
}

#[test]
fn a_blob_is_continued_with_the_database_that_it_began_with() {
    let (_directory, database) = filled();
    let (_other_directory, other) = filled();
    let (_, invoice) = tables(&database);
    let scan = invoice.attribute("scan").expect("it exists");
    let mut upload = begin(&database, invoice, "1", scan).expect("the record exists");
    assert_eq!(upload.take(b"text"), 4);
    assert_invalid("finish", upload.finish(&other), &["another database"]);
    upload.finish(&database.never_blocking()).expect("a clone is the same database");
    let mut reader = Reader::open(&database, invoice, "1", scan).expect("readable").expect("it exists");
    assert_invalid("next", reader.next(&other), &["another database"]);
    assert_eq!(reader.next(&database).expect("readable"), b"text");
}

#[test]
fn a_position_that_a_table_does_not_have_is_invalid() {
    let (_directory, database) = filled();
    let (_, invoice) = tables(&database);
    let record = database.read(invoice, "1").expect("readable").expect("it exists");
    for position in [invoice.attributes.len(), 99, usize::MAX] {
        let words: &[&str] = &["table Invoice", "10 attributes"];
        assert_invalid("value", record.value(position), words);
        assert_invalid("text", record.text(position), words);
        assert_invalid("json_of", record.json_of(position), words);
        assert_invalid("scalar", record.scalar(position), words);
        assert_eq!(record.upload(position), None);
        assert_invalid("reader", Reader::open(&database, invoice, "1", position).map(drop), words);
        assert_eq!(outcome(&begin(&database, invoice, "1", position)), "invalid");
        let mut shown = Selection::default();
        shown.show_attribute("a", position);
        let mut related = Selection::default();
        related.show_related("a", position, Selection::default());
        let mut nested = Selection::default();
        nested.show_related("draft", 0, shown.clone());
        let sort = [Order { attribute: position, descending: false }].into_iter().collect();
        for query in [
            Query::equal(position, Value::Int(1)),
            Query::equal(position, Value::Null),
            Query { sort, ..Query::default() },
            Query { select: Some(shown), ..Query::default() },
            Query { select: Some(related), ..Query::default() },
            Query { select: Some(nested), ..Query::default() },
        ] {
            let shown = query.show(&database, invoice, |_, _| Ok(()));
            assert_eq!(outcome(&shown), "invalid", "{query:?}");
            assert_eq!(outcome(&query.explain(&database, invoice)), "invalid", "{query:?}");
            let is_shown_only = query.select.is_some();
            assert!(is_shown_only || !query.is_short(invoice), "{query:?}");
        }
    }
}

#[test]
fn a_value_that_an_attribute_cannot_have_is_invalid() {
    let (_directory, database) = filled();
    let (_, invoice) = tables(&database);
    let values = [
        Value::Boolean(true),
        Value::Int(1),
        Value::Float(1.0),
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::from("a"),
        Value::Date(Date::parse("2026-11-25").expect("a date")),
        Value::Json("{}".into()),
        Value::List(vec![Value::from("a")]),
    ];
    // Which of the values each attribute is compared with; every one with null.
    let fitting = [
        ("id", "a"),
        ("age", "1 1.0"),
        ("name", "a"),
        ("sum", "1 1.0"),
        ("paid", "true"),
        ("day", "2026-11-25"),
        ("tags", "a"),
        ("more", "true 1 1.0 a 2026-11-25"),
        ("scan", ""),
    ];
    for (name, expected) in fitting {
        let attribute = invoice.attribute(name).expect("it exists");
        let fits = |value: &&Value<'_>| {
            let query = Query::equal(attribute, (*value).clone());
            let outcomes = in_every_way(&query, &database, invoice);
            let said: Vec<_> = outcomes.iter().map(|(_, said)| outcome(said)).collect();
            assert!(said.iter().all(|one| *one == said[0]) && ["ok", "invalid"].contains(&said[0]), "{name} {said:?}");
            said[0] == "ok"
        };
        let name_of = |value: &Value<'_>| match value {
            Value::Boolean(boolean) => boolean.to_string(),
            Value::Int(integer) => integer.to_string(),
            Value::Float(float) => format!("{float:?}"),
            Value::Text(text) => text.to_string(),
            Value::Date(date) => date.text.to_string(),
            other => format!("{other:?}"),
        };
        let found: Vec<_> = values.iter().filter(fits).map(name_of).collect();
        assert_eq!(found.join(" "), expected, "{name}");
        assert_eq!(outcome(&Query::equal(attribute, Value::Null).run(&database, invoice, |_| Ok(()))), "ok", "{name}");
    }
    for name in ["tags", "more", "scan"] {
        let attribute = invoice.attribute(name).expect("it exists");
        let sort = [Order { attribute, descending: true }].into_iter().collect();
        let query = Query { sort, ..Query::default() };
        assert_invalid(name, query.run(&database, invoice, |_| Ok(())), &["cannot sort by", name]);
    }
}

#[test]
fn a_cursor_of_another_query_is_invalid() {
    let (_directory, database) = filled();
    let (_, invoice) = tables(&database);
    let first = parsed(&database, invoice, "age=ge=0&limit=2");
    let next = first.show(&database, invoice, |_, _| Ok(())).expect("readable").next;
    let by_hand = Query { limit: Some(2), ..Query::equal(1, Value::Int(1)) };
    let by_hand = Query { after: next.clone(), ..by_hand };
    assert_invalid("by hand", by_hand.run(&database, invoice, |_| Ok(())), &["another query"]);
    for text in ["age=ge=1&limit=2", "sort=age&limit=2", "limit=2"] {
        let query = Query { after: next.clone(), ..parsed(&database, invoice, text) };
        assert_invalid(text, query.run(&database, invoice, |_| Ok(())), &["another query"]);
        assert_invalid(text, query.show(&database, invoice, |_, _| Ok(())), &["another query"]);
    }
    // Another text than it was parsed from.
    for text in ["", "a", "\u{e9}"] {
        let query = Query { text, limit: Some(2), ..parsed(&database, invoice, "select=id,age&sort=-age&limit=2") };
        query.show(&database, invoice, |_, _| Ok(())).expect("it has no use for the text");
        query.explain(&database, invoice).expect("readable");
    }
    let mut listed = Vec::new();
    let query = Query { after: next, ..first };
    let visit = |record: strata::encoding::Record<'_, &[u8]>| {
        listed.push(record.id()?.into_owned());
        Ok(())
    };
    query.run(&database, invoice, visit).expect("its own");
    assert_eq!(listed, ["2", "3"]);
}

/// Every option at its ends opens a store that works, or is refused by its name before anything is made.
#[test]
fn no_size_ends_the_process() {
    type Set = fn(&mut Options, usize);
    let options: [(&str, Set, bool); 5] = [
        ("cache_bytes", |options, size| options.cache_bytes = size, true),
        ("blob_cache_bytes", |options, size| options.blob_cache_bytes = size, true),
        ("write_buffer_bytes", |options, size| options.write_buffer_bytes = size, false),
        ("feed_log_bytes", |options, size| options.feed_log_bytes = size, false),
        ("open_files", |options, size| options.open_files = Some(size), false),
    ];
    for (name, set, is_reserved) in options {
        for size in [0, 1, 1 << 20, usize::MAX / 4 + 1, usize::MAX / 2, usize::MAX] {
            let folder = tempfile::tempdir().expect("there is a temporary directory");
            let (directory, mut options) = (folder.path().join("data"), Options::default());
            set(&mut options, size);
            let schema = || Schema::parse(SDL).expect("it is valid");
            match Database::open(&directory, schema(), &options) {
                Ok(database) => {
                    assert!(!is_reserved || size <= 1 << 20, "{name} {size}");
                    works(&database);
                    drop(database);
                    Database::open_unchanged(&directory, schema(), &options).expect("it was closed");
                }
                Err(Error::Invalid { detail, .. }) => {
                    assert!(is_reserved && size > 1 << 20 && detail.starts_with(name), "{name} {size}: {detail}");
                    assert!(!directory.exists(), "{name} {size}");
                }
                Err(error) => panic!("{name} {size}: {error:?}"),
            }
        }
    }
}

/// Repeats what the engine refuses while it is behind with its flushes.
fn until_done<T>(mut attempt: impl FnMut() -> Result<T>) -> T {
    loop {
        match attempt() {
            Err(Error::Busy { .. }) => std::thread::sleep(std::time::Duration::from_millis(1)),
            outcome => return outcome.expect("it is only behind"),
        }
    }
}

/// Reads records, entries and a blob back from files.
fn works(database: &Database) {
    let (_, invoice) = tables(database);
    database.create(invoice, br#"{"id":"1","age":7}"#).expect("a valid body");
    let (scan, bytes) = (invoice.attribute("scan").expect("it exists"), vec![7; 300_000]);
    let (mut upload, mut left) = (begin(database, invoice, "1", scan).expect("the record exists"), &bytes[..]);
    while !left.is_empty() {
        left = &left[upload.take(left)..];
        until_done(|| upload.write());
    }
    until_done(|| upload.finish(database));
    database.store().flush().expect("there is room");
    let found = super::found(database, "Invoice", "age", &Value::Int(7));
    assert_eq!(found, ["1"]);
    let mut reader = Reader::open(database, invoice, "1", scan).expect("readable").expect("it exists");
    let mut read = Vec::new();
    while reader.left_bytes() > 0 {
        read.extend(reader.next(database).expect("readable"));
    }
    assert_eq!(read, bytes);
    database.store().gauges().expect("the engine reports them");
    assert_consistent(database);
}

/// The files of a directory with their bytes and the time of their last change.
fn files(directory: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let Ok(all) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    let all = all.map(|file| file.expect("it is listed").path()).filter(|path| path.is_file());
    let described = all.map(|path| {
        let (bytes, about) = (std::fs::read(&path).expect("readable"), path.metadata().expect("it exists"));
        (path.to_string_lossy().into_owned(), (bytes, about.modified().expect("Linux has it")))
    });
    described.collect()
}

#[test]
fn what_is_opened_unchanged_stays_so() {
    let (directory, database) = filled();
    let (_, invoice) = tables(&database);
    let scan = invoice.attribute("scan").expect("it exists");
    begin(&database, invoice, "1", scan).expect("the record exists").finish(&database).expect("the record exists");
    drop(database);
    let before = files(directory.path());
    let schema = || Schema::parse(SDL).expect("it is valid");
    let database = Database::open_unchanged(directory.path(), schema(), &Options::default()).expect("it is closed");
    let (draft, invoice) = tables(&database);
    let none = &Precondition::None;
    let body = br#"{"id":"new"}"#;
    let verbs: Vec<(&str, Result<()>)> = vec![
        ("create", database.create(draft, body).map(drop)),
        ("create_all", database.create_all(draft, br#"[{"id":"new"}]"#).map(drop)),
        ("create_each", database.create_each(draft, &[body]).map(drop)),
        ("replace", database.replace(draft, "1", b"{}", none).map(drop)),
        ("replace_all", database.replace_all(draft, br#"[{"id":"1"}]"#).map(drop)),
        ("merge", database.merge(draft, "1", br#"{"age":7}"#, none).map(drop)),
        ("delete", database.delete(draft, "1", none)),
        ("update", database.update(draft, "1", |_| Ok(change(draft, "age", Value::Int(7)))).map(drop)),
        ("transact", database.transact(|transaction| transaction.delete(draft, "1", none))),
        ("truncate", database.truncate(draft)),
        ("query delete", parsed(&database, draft, "age=gt=4").delete(&database, draft, 100).map(drop)),
        ("query update", {
            let patch = change(draft, "age", Value::Int(7));
            parsed(&database, draft, "age=gt=4").update(&database, &patch, 100).map(drop)
        }),
        ("upload", begin(&database, invoice, "1", scan).map(drop)),
        ("remove", strata::blobs::remove(&database, invoice, "1", scan, none)),
        ("work", database.work().map(drop)),
        ("catch_up", database.catch_up()),
        ("flush", database.store().flush()),
        ("compact", database.store().compact()),
    ];
    for (verb, outcome) in verbs {
        assert_invalid(verb, outcome, &["opened for reading"]);
    }
    assert_eq!(ids(&database, "Draft").len(), 10);
    let read = database.transact(|transaction| Ok(transaction.read(draft, "1")?.is_some()));
    assert!(read.expect("nothing is written"));
    assert_eq!(outcome(&Server::over(database.clone(), &Config::default())), "invalid");
    database.store().sync().expect("there is nothing to sync");
    drop(database);
    assert!(files(directory.path()) == before, "a file has changed");
}

#[test]
fn opening_what_is_not_there_unchanged_makes_nothing() {
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    let (missing, empty, file) =
        (folder.path().join("missing"), folder.path().join("empty"), folder.path().join("file"));
    std::fs::create_dir(&empty).expect("a new folder");
    std::fs::write(&file, "text").expect("a new file");
    for path in [&missing, &empty, &file, &file.join("below")] {
        let opened = Database::open_unchanged(path, Schema::parse(SDL).expect("valid"), &Options::default());
        let said = opened.err().expect("there is no store").to_string();
        assert!(said.contains(&*path.to_string_lossy()) && !said.contains('\n'), "{said}");
    }
    assert!(!missing.exists() && files(&empty).is_empty());
    assert_eq!(std::fs::read(&file).expect("readable"), b"text");
}

/// Writes an event as its id.
fn write_id(id: EventId, _: &Message<'_>, text: &mut Vec<u8>) {
    text.extend_from_slice(format!("{id} ").as_bytes());
}

/// The next text of a subscription, or what comes instead; it is there within a minute.
fn next(subscription: &mut Subscription) -> Next {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match subscription.next(|| {}) {
            Next::Pending if std::time::Instant::now() < deadline => std::thread::yield_now(),
            other => return other,
        }
    }
}

/// Takes the texts that a subscription still has, and returns what comes then.
fn end_of(subscription: &mut Subscription) -> Next {
    loop {
        match next(subscription) {
            Next::Text(_) => {}
            end => return end,
        }
    }
}

#[test]
fn a_subscription_does_not_keep_the_database_open() {
    let (directory, database) = fresh(SDL);
    let (draft, _) = tables(&database);
    let feed = Feed::new(database.clone(), strata::feed::Options::default(), write_id);
    let mut live = feed.subscribe(Topic::table(draft)).expect("its own table");
    // Its text counts against a limit of the feed for as long as somebody has it.
    let Next::Text(text) = next(&mut live) else { panic!("it begins with its position") };
    let first = std::str::from_utf8(&text).expect("as written").trim().parse().expect("the id of an event");
    for id in 0..10_000 {
        database.create(draft, format!(r#"{{"id":"{id}"}}"#).as_bytes()).expect("a valid body");
    }
    // More events than fit in one piece.
    let [mut behind, mut catching_up] =
        [(); 2].map(|()| feed.resume(Topic::table(draft), first).expect("the log is kept"));
    for subscription in [&mut behind, &mut catching_up] {
        assert!(matches!(next(subscription), Next::Text(_)));
        assert!(matches!(next(subscription), Next::Behind));
    }
    let clone = feed.clone();
    drop((feed, database));
    assert_eq!(outcome(&open(directory.path(), SDL)), "busy", "a feed keeps it open");
    drop(clone);
    let opened = open(directory.path(), SDL).expect("neither a subscription nor its text keeps it open");
    catching_up.catch_up();
    for subscription in [&mut live, &mut behind, &mut catching_up] {
        let end = end_of(subscription);
        assert!(matches!(end, Next::Over), "{end:?}");
    }
    drop((live, behind, catching_up, text, opened));
}

#[test]
fn a_verb_that_waits_for_its_own_transaction_is_invalid() {
    let (_directory, database) = filled();
    let (draft, _) = tables(&database);
    let (none, patch) = (&Precondition::None, br#"{"age":7}"#);
    type Verb = fn(&Database, &Table) -> Result<()>;
    let verbs: [(&str, Verb); 12] = [
        ("create", |database, table| database.create(table, br#"{"id":"1"}"#).map(drop)),
        ("create_all", |database, table| database.create_all(table, br#"[{"id":"new"},{"id":"1"}]"#).map(drop)),
        ("create_each", |database, table| database.create_each(table, &[br#"{"id":"1"}"#]).map(drop)),
        ("replace", |database, table| database.replace(table, "1", b"{}", &Precondition::None).map(drop)),
        ("replace_all", |database, table| database.replace_all(table, br#"[{"id":"1"}]"#).map(drop)),
        ("merge", |database, table| database.merge(table, "1", b"{}", &Precondition::None).map(drop)),
        ("delete", |database, table| database.delete(table, "1", &Precondition::None)),
        ("update", |database, table| database.update(table, "1", |_| Ok(Fields::of(table))).map(drop)),
        ("transact", |database, table| database.transact(|inner| inner.read(table, "1").map(drop))),
        ("query delete", |database, table| Query::default().delete(database, table, 100).map(drop)),
        ("truncate", |database, table| database.truncate(table)),
        ("in memory", |database, table| database.never_blocking().delete(table, "1", &Precondition::None)),
    ];
    for (name, verb) in verbs {
        let words: &[&str] = &["call the transaction's"];
        let outer = database.transact(|transaction| {
            transaction.merge("1", change(draft, "age", Value::Int(8)), none)?;
            verb(&database, draft)
        });
        assert_invalid(name, outer, words);
        let updated = database.update(draft, "1", |_| verb(&database, draft).map(|()| Fields::of(draft)));
        assert_invalid(name, updated.map(drop), words);
        let merged =
            database.merge_where(&["1".to_owned()], &Fields::of(draft), |_| verb(&database, draft).map(|()| true));
        assert_invalid(name, merged, words);
    }
    // Reads take no lock; a record that the transaction has not touched, and another database, are free.
    let (_other_directory, other) = filled();
    let outer = database.transact(|transaction| {
        transaction.merge("1", change(draft, "age", Value::Int(8)), none)?;
        assert!(database.read(draft, "1")?.is_some());
        other.merge(tables(&other).0, "1", patch, none)?;
        transaction.merge("1", change(draft, "age", Value::Int(9)), none).map(drop)
    });
    outer.expect("nothing is waited for");
    let outer = database.transact(|transaction| {
        let held = transaction.read(draft, "1")?;
        assert!(held.is_some());
        // At least one of these has another lock slot.
        let merged = ["2", "3", "4"].map(|id| database.merge(draft, id, patch, none).map(drop));
        assert!(merged.iter().any(Result::is_ok), "{merged:?}");
        Ok(())
    });
    outer.expect("nothing is written");
    // A transaction that has ended, also by a panic, holds nothing.
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        database.transact(|transaction| -> Result<()> {
            transaction.read(draft, "1")?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    database.merge(draft, "1", patch, none).expect("nobody holds it");
    database.truncate(draft).expect("nobody holds a lock");
}

#[test]
fn work_is_reported_if_it_was_done() {
    let sdl = "type Lease @table(expiration: 60) { id: ID @primaryKey }";
    let (_directory, database) = fresh(sdl);
    let clock = strata::transaction::Clock::standing_at(1_795_305_600_000_000);
    let database = database.with_clock(&clock);
    let lease = database.table("Lease").expect("it exists");
    for records in [1, 255, 256, 257, 1000] {
        assert!(!database.work().expect("nothing to do"), "{records}");
        for id in 0..records {
            database.create(lease, format!(r#"{{"id":"{id}"}}"#).as_bytes()).expect("a valid body");
        }
        assert!(!database.work().expect("nothing to do yet"), "{records}");
        clock.set(database.now() + 61_000_000);
        let stored = || database.store().count_prefix(Space::Records, &lease.id.to_be_bytes()).expect("readable").0;
        while stored() > 0 {
            let before = stored();
            assert!(database.work().expect("some have expired"), "{records}, {before} left");
            assert!(stored() < before);
        }
        database.catch_up().expect("it ends");
    }
}

#[test]
fn who_has_a_directory_open_is_said() {
    let (directory, database) = fresh(SDL);
    let again = open_idle(directory.path(), SDL);
    let schema = || Schema::parse(SDL).expect("it is valid");
    let unchanged = Database::open_unchanged(directory.path(), schema(), &Options::default());
    let held = strata::storage::hold(directory.path());
    for refused in [again.err(), unchanged.err(), held.err()] {
        match refused {
            Some(Error::Busy { detail }) => assert!(detail.contains("in use by this process"), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
    drop(database);
    let readers = Database::open_unchanged(directory.path(), schema(), &Options::default()).expect("it is closed");
    assert_eq!(outcome(&open_idle(directory.path(), SDL)), "busy");
    drop(readers);
    open_idle(directory.path(), SDL).expect("it is closed");
}

#[test]
fn an_expired_record_that_is_only_read_is_not_there() {
    let sdl = "type Lease @table(expiration: 60) { id: ID @primaryKey }";
    let (directory, database) = fresh(sdl);
    database.create(database.table("Lease").expect("it exists"), br#"{"id":"1"}"#).expect("a valid body");
    let now = database.now();
    drop(database);
    let schema = Schema::parse(sdl).expect("it is valid");
    let database = Database::open_unchanged(directory.path(), schema, &Options::default()).expect("it is closed");
    for (later, is_there) in [(0, true), (61_000_000, false)] {
        let database = database.with_clock(&strata::transaction::Clock::standing_at(now + later));
        let lease = database.table("Lease").expect("it exists");
        let read = database.transact(|transaction| Ok(transaction.read(lease, "1")?.is_some()));
        assert_eq!(read.expect("nothing is written"), is_there);
    }
}
