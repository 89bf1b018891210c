//! Strata inside your own program: open, write, read, query. `cargo run --release --example embedded [DIRECTORY]`

use std::path::PathBuf;

use strata::encoding::{Fields, Value};
use strata::error::Result;
use strata::query::{Limits, Query};
use strata::schema::Schema;
use strata::storage::Options;
use strata::transaction::{Database, Precondition};

const SCHEMA: &str =
    "type Product @table { id: ID! @primaryKey  name: String!  category: String @indexed  price: Float }";

fn main() -> Result<()> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let directory =
        given.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("strata-{}", std::process::id())));

    let database = Database::open(&directory, Schema::parse(SCHEMA)?, &Options::default())?;
    let products = database.table("Product")?;

    for (id, name, category) in [("1", "Lamp", "light"), ("2", "Chair", "seat"), ("3", "Torch", "light")] {
        let body = format!(r#"{{"name":"{name}","category":"{category}","price":25}}"#);
        database.replace(products, id, body.as_bytes(), &Default::default())?;
    }

    // Typed values by the names of their attributes; all or nothing over any number of verbs.
    database.transact(|transaction| {
        transaction.create(Fields::of(products).with("id", "4")?.with("name", "Desk")?.with("price", 99.5)?)?;
        transaction.merge("2", Fields::of(products).with("price", 30.0)?, &Precondition::Exists)?;
        Ok(())
    })?;

    let lamp = database.read(products, "1")?.expect("it was written just now");
    println!("{}", String::from_utf8_lossy(lamp.json()));
    assert_eq!(lamp.json(), br#"{"id":"1","name":"Lamp","category":"light","price":25}"#);

    let mut names = Vec::new();
    let query =
        Query::parse(database.schema(), products, "category==light&sort=-name&limit=10", &Limits::in_url(10_000))?;
    query.run(&database, products, |record| {
        names.push(record.value(1)?.into_owned());
        Ok(())
    })?;
    println!("{names:?}");
    assert_eq!(names, [Value::Text("Torch".into()), Value::Text("Lamp".into())]);

    drop(lamp);
    drop(database);
    if given.is_none() {
        std::fs::remove_dir_all(&directory).expect("nobody else uses it");
    }
    Ok(())
}
