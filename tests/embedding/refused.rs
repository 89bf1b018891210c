//! Bad input to the Rust API, as tests/embedding/refused.txt lists it: kind and text of each error. Nothing is stored of any.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;
use strata::{Append, Database, Error, Json, Precondition, Result, Schema, Value};

use super::ROOT;
use crate::engine::outcome;

const SDL: &str = r#"
    type Product @table {
      id: ID! @primaryKey
      name: String! @unique
      price: Float @indexed
      stock: Int
      tags: [String]
      photo: Blob
    }
    type Other @table { id: ID! @primaryKey }
    type Orders @stream
"#;

/// A row of which something is wrong.
#[derive(Serialize)]
struct Row {
    id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    price: f64,
    stock: u64,
}

fn row() -> Row {
    Row { id: "a", name: Some("A"), price: 1.0, stock: 1 }
}

/// What opening refuses.
fn openings(folder: &Path, refused: &mut Vec<(&'static str, Result<()>)>) {
    let schema = Schema::parse(SDL).unwrap();
    let (file, other, stored) = (folder.join("file"), folder.join("other"), folder.join("stored"));
    fs::write(&file, "text").unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("data.mdb"), "of another engine").unwrap();
    drop(Database::open(&stored, &schema).unwrap());
    let open = |path: &Path| Database::open(path, &schema).map(drop);
    refused.push(("a path that is a file", open(&file)));
    refused.push(("a path below a file", open(&file.join("data"))));
    refused.push(("an empty path", open(Path::new(""))));
    refused.push(("the folder of another engine", open(&other)));
    refused.push((
        "a folder for reading without a database",
        Database::options().read_only().open(&other, &schema).map(drop),
    ));
    let missing = folder.join("missing");
    refused.push((
        "a folder for reading that is not there",
        Database::options().read_only().open(&missing, &schema).map(drop),
    ));
    refused.push((
        "a folder that is not to be created",
        Database::options().create(false).open(&missing, &schema).map(drop),
    ));
    let both = Database::options().read_only().drop_removed();
    refused.push(("opening for reading that drops", both.open(&stored, &schema).map(drop)));
    let cache = Database::options().cache(usize::MAX).open(&stored, &schema).map(drop);
    refused.push(("a cache that there is not", cache));
    let text = Schema::parse(&SDL.replace("name: String! @unique", "name: Int! @unique")).unwrap();
    let first = Database::open(&stored, &schema).unwrap();
    first.create(&first.table("Product").unwrap(), &row()).unwrap();
    refused.push(("a directory that is open", open(&stored)));
    drop(first);
    refused.push(("a schema with another type of an attribute", Database::open(&stored, &text).map(drop)));
    refused.push(("a schema that is none", Schema::parse("type T").map(drop)));
    refused.push(("a schema that is not there", Schema::read(folder.join("none.graphql")).map(drop)));
    let reading = Database::options().read_only().open(&stored, &schema).unwrap();
    let products = reading.table("Product").unwrap();
    let free = Row { id: "b", name: Some("B"), ..row() };
    refused.push(("a verb that writes where it was opened for reading", reading.create(&products, &free).map(drop)));
    let orders = reading.stream("Orders").unwrap();
    refused.push(("an event, likewise", reading.append(&orders, &Append::of("x").unwrap()).map(drop)));
    assert!(fs::read_dir(&other).unwrap().count() == 1 && !missing.exists());
    // A path need not be UTF-8.
    drop(Database::open(folder.join(OsStr::from_bytes(b"caf\xe9")), &schema).unwrap());
}

/// What verbs and queries refuse.
fn verbs(refused: &mut Vec<(&'static str, Result<()>)>) {
    let database = Database::temporary(&Schema::parse(SDL).unwrap()).unwrap();
    let (products, others) = (database.table("Product").unwrap(), database.table("Other").unwrap());
    let (orders, none) = (database.stream("Orders").unwrap(), Precondition::None);
    let create = |row: &Row| database.create(&products, row).map(drop);
    refused.push(("a table that there is not", database.table("Nothing").map(drop)));
    refused.push(("a number that is none", create(&Row { price: f64::NAN, ..row() })));
    refused.push(("a number beyond 64 bits with sign", create(&Row { stock: u64::MAX, ..row() })));
    refused.push(("a type without a required attribute", create(&Row { name: None, ..row() })));
    refused.push(("text that is not JSON", database.create(&products, Json("{")).map(drop)));
    refused.push(("JSON that is no object", database.create(&products, Json("[]")).map(drop)));
    refused.push(("a row that is no object", database.create(&products, &7).map(drop)));
    refused.push(("a row with an unknown attribute", database.create(&products, Json(r#"{"colour": 1}"#)).map(drop)));
    refused.push(("10 001 rows", database.create_all(&products, (0..10_001).map(|_| Json("{}"))).map(drop)));
    refused.push(("a field that there is not", products.fields().with("colour", 1).map(drop)));
    refused.push(("a field of another type", products.fields().with("stock", "many").map(drop)));
    refused.push(("a field above the greatest Int", products.fields().with("stock", u64::MAX).map(drop)));
    refused.push((
        "fields of another table",
        database.create(&others, products.fields().with("id", "a").unwrap()).map(drop),
    ));
    refused.push((
        "an id that is too long",
        database.create(&others, others.fields().with("id", "x".repeat(1025)).unwrap()).map(drop),
    ));
    refused.push(("a merge into nothing", database.merge(&products, "a", Json("{}"), &none).map(drop)));
    refused.push(("a builder with an unknown attribute", products.query().eq("colour", 1).build().map(drop)));
    refused.push(("a builder with a value of another type", products.query().eq("price", "dear").build().map(drop)));
    refused.push(("a builder with a name that is syntax", products.query().sort("name&price|id").build().map(drop)));
    refused.push(("a builder that sorts by a list", products.query().sort("tags").build().map(drop)));
    refused.push(("a query that is none", products.parse("price=gt=").map(drop)));
    refused.push(("a value without a place", products.bind("price==1", &[Value::from(1)]).map(drop)));
    refused.push(("a place without a value", products.bind("price==?", &[]).map(drop)));
    let query = products.query().limit(1).build().unwrap();
    refused.push(("a page of another query", query.page(&database.view(), Some("AQ")).map(drop)));
    refused.push(("a claim of nothing", query.claim(&database, 0, Json(r#"{"stock": 0}"#)).map(drop)));
    refused.push(("a claim with an id", query.claim(&database, 1, Json(r#"{"id": "b"}"#)).map(drop)));
    refused.push(("an event that is not JSON", Append::json("{").map(drop)));
    refused.push((
        "a partition that there is not",
        database.append(&orders, &Append::of("x").unwrap().partition(1)).map(drop),
    ));
    refused
        .push(("offsets beyond the end", database.transact(|transaction| transaction.commit(&orders, "g", &[(0, 1)]))));
    refused
        .push(("a blob of no record", database.write_blob(&products, "a", "photo", "", Precondition::None).map(drop)));
    refused.push((
        "a blob of an attribute that is none",
        database.write_blob(&products, "a", "name", "", Precondition::None).map(drop),
    ));
    refused.push((
        "a search by what is not unique",
        database.transact(|transaction| transaction.find(&products, "price", 1.0).map(drop)),
    ));
    let after = "1-2-3-4".parse().unwrap();
    refused.push(("changes after what never was", database.changes_after(&products, after).map(drop)));
    refused.push(("an id of a change that is none", "1-2".parse::<strata::EventId>().map(drop)));
    let within = database.transact(|_| database.create(&products, &row()).and(Err::<(), _>(Error::Stale)));
    refused.push(("an error of one's own", within));
    // That one was no part of the transaction.
    assert_eq!(products.query().build().unwrap().delete(&database).unwrap(), 1);
    assert_eq!(database.statistics().unwrap().tables.iter().map(|table| table.records).sum::<u64>(), 0);
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn bad_input_is_refused_with_one_clear_error() {
    let (folder, mut refused) = (tempfile::tempdir().unwrap(), Vec::new());
    openings(folder.path(), &mut refused);
    verbs(&mut refused);
    let text = |error: &Error| error.to_string().replace(folder.path().to_str().unwrap(), "FOLDER");
    let lines = refused.iter().map(|(what, result)| {
        let error = result.as_ref().expect_err(what);
        format!("{what}\n    {}: {}\n", outcome(result), text(error))
    });
    let (path, lines) = (Path::new(ROOT).join("tests/embedding/refused.txt"), lines.collect::<String>());
    let lines = lines.replace(&std::process::id().to_string(), "PROCESS");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    assert_eq!(lines, fs::read_to_string(path).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it anew");
}
