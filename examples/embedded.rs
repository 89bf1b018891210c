//! Strata inside your own program, as docs/embedding.md tells it. `cargo run --release --example embedded [DIRECTORY]`
//!
//! The tests run it, and see that every piece of Rust of that page stands here.

use std::path::{Path, PathBuf};

use strata::encoding::{Fields, Record, Value};
use strata::error::{Error, Place, Result};
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata::storage::Options;
use strata::transaction::{Database, Precondition};

const SCHEMA: &str = r#"
    type Brand @table {
      id: ID! @primaryKey
      name: String!
    }
    type Product @table(durability: "strong") {
      id: ID! @primaryKey
      name: String!
      category: String @indexed
      price: Float @indexed
      stock: Int
      brandId: ID @indexed
      brand: Brand @relationship(from: "brandId")
    }
"#;

/// The tour, in a directory that is given or in one that goes.
pub fn main() -> Result<()> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    match given {
        Some(directory) => tour(&directory),
        None => {
            let directory = std::env::temp_dir().join(format!("strata-{}", std::process::id()));
            let outcome = tour(&directory);
            std::fs::remove_dir_all(&directory).expect("nobody else uses it");
            outcome
        }
    }
}

/// Opens a store in a directory that has none yet, and does with it what can be done.
pub fn tour(directory: &Path) -> Result<()> {
    let database = Database::open(directory, Schema::parse(SCHEMA)?, &Options::default())?;
    verbs(&database)?;
    transactions(&database)?;
    queries(&database)?;
    errors(&database)?;
    threads(&database)
}

fn verbs(database: &Database) -> Result<()> {
    let (brands, products) = (database.table("Brand")?, database.table("Product")?);
    database.create(brands, br#"{"id": "nord", "name": "Nord"}"#)?;
    database.create_all(
        products,
        br#"[{"id": "lamp", "name": "Lamp", "category": "light", "price": 25, "stock": 7, "brandId": "nord"},
             {"id": "chair", "name": "Chair", "category": "seat", "price": 80, "stock": 2}]"#,
    )?;

    let lamp = database.read(products, "lamp")?.expect("it was created just now");
    assert_eq!(lamp.json(), br#"{"id":"lamp","name":"Lamp","category":"light","price":25,"stock":7,"brandId":"nord"}"#);

    let merged = database.merge(products, "chair", br#"{"price": 90}"#, &Precondition::OneOf(vec![lamp.checksum()]));
    assert!(matches!(merged, Err(Error::Stale)), "the checksum is that of another record");
    database.merge(products, "chair", br#"{"price": 90}"#, &Precondition::None)?;
    database.replace(
        products,
        "torch",
        br#"{"name": "Torch", "category": "light", "price": 9.5}"#,
        &Precondition::Absent,
    )?;
    Ok(())
}

/// How many of a product there are; 0 if nobody has said.
fn stock<B: AsRef<[u8]>>(product: &Record<'_, B>) -> Result<i64> {
    let attribute = product.table().attribute("stock").expect("the schema has it");
    match product.value(attribute)? {
        Value::Int(stock) => Ok(stock),
        _ => Ok(0),
    }
}

fn transactions(database: &Database) -> Result<()> {
    let products = database.table("Product")?;

    // Three lamps become a set of lamps: both records are written, or neither.
    database.transact(|transaction| {
        let lamp = transaction.read(products, "lamp")?.ok_or(Error::Stale)?;
        let left = Fields::of(products).with("stock", stock(&lamp)? - 3)?;
        transaction.merge("lamp", left, &Precondition::Exists)?;
        transaction.create(Fields::of(products).with("id", "set")?.with("name", "Three lamps")?.with("stock", 1)?)?;
        Ok(())
    })?;

    // Reads a record and changes it while nobody else can.
    let chair = database.update(products, "chair", |chair| Fields::of(products).with("stock", stock(&chair)? + 10))?;
    assert_eq!(stock(&chair)?, 12);
    Ok(())
}

fn queries(database: &Database) -> Result<()> {
    let products = database.table("Product")?;
    let limits = Limits::in_url(10_000);

    let query = Query::parse(database.schema(), products, "category==light&sort=-price&limit=10", &limits)?;
    let mut names = Vec::new();
    query.run(database, products, |record| {
        names.push(record.value(1)?.into_owned());
        Ok(())
    })?;
    assert_eq!(names, [Value::from("Lamp"), Value::from("Torch")]);

    let query = Query::parse(database.schema(), products, "brand.name==Nord&select=name,brand{name}", &limits)?;
    let mut shown = Vec::new();
    query.show(database, products, |_, json| {
        shown.push(String::from_utf8_lossy(json).into_owned());
        Ok(())
    })?;
    assert_eq!(shown, [r#"{"name":"Lamp","brand":{"name":"Nord"}}"#]);
    Ok(())
}

fn errors(database: &Database) -> Result<()> {
    let products = database.table("Product")?;
    match database.create(products, br#"{"id": "mug", "name": "Mug", "price": "cheap"}"#) {
        Err(Error::Invalid { place: Place::Pointer(pointer), .. }) => assert_eq!(pointer, "/price"),
        other => panic!("{other:?}"),
    }
    match database.create(products, br#"{"id": "lamp", "name": "Another lamp"}"#) {
        Err(Error::Conflict { pointer, .. }) => assert_eq!(pointer, "/id"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

fn threads(database: &Database) -> Result<()> {
    let products = database.table("Product")?;
    let count_one =
        || database.update(products, "torch", |torch| Fields::of(products).with("stock", stock(&torch)? + 1));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(count_one);
        }
    });
    let torch = database.read(products, "torch")?.expect("nobody has deleted it");
    assert_eq!(stock(&torch)?, 4, "no update is lost");
    Ok(())
}
