//! The Rust API as a program uses it: by what stands at the root of the crate alone.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Append, BlobReader, Changed, Changes, Database, Durability, Error, EventId, Fields, Json, NotClosed, OpenOptions,
    Place, Precondition, Query, Record, Result, Schema, Start, Stream, Table, Value, View,
};

const SDL: &str = r#"
    type Brand @table { id: ID! @primaryKey  name: String! }
    type Product @table(durability: "strong") {
      id: ID! @primaryKey
      name: String! @unique
      category: String @indexed
      price: Float @indexed
      stock: Int
      tags: [String]
      facts: Any
      seen: Date @indexed
      photo: Blob
      brandId: ID @indexed
      brand: Brand @relationship(from: "brandId")
    }
    type Orders @stream(partitions: 2)
"#;

/// Longer than anything takes that is waited for.
const AGES: Duration = Duration::from_secs(60);

fn opened() -> (Database, Table) {
    let database = Database::temporary(&Schema::parse(SDL).unwrap()).unwrap();
    let products = database.table("Product").unwrap();
    (database, products)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Product {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    price: Option<f64>,
    stock: Option<i64>,
}

fn product(number: usize) -> Product {
    Product {
        id: format!("p{number:05}"),
        name: format!("Product {number}"),
        category: Some(["light", "seat"][number % 2].to_owned()),
        price: Some(number as f64),
        stock: Some(7),
    }
}

fn filled(number: usize) -> (Database, Table) {
    let (database, products) = opened();
    for first in (0..number).step_by(1000) {
        let rows: Vec<_> = (first..number.min(first + 1000)).map(product).collect();
        assert_eq!(database.create_all(&products, &rows).unwrap().len(), rows.len());
    }
    (database, products)
}

#[test]
fn handles_can_be_kept_and_sent() {
    fn kept<T: Send + Sync + 'static>() {}
    fn sent<T: Send>() {}
    kept::<Database>();
    kept::<Table>();
    kept::<Stream>();
    kept::<Query>();
    kept::<Schema>();
    kept::<OpenOptions>();
    kept::<EventId>();
    kept::<Error>();
    sent::<Record<'_>>();
    sent::<View<'_>>();
    sent::<Changes<'_>>();
    sent::<Fields<'_>>();
    sent::<BlobReader>();

    struct App {
        database: Database,
        products: Table,
    }
    let (database, products) = opened();
    let app = Arc::new(App { database, products });
    let threads = (0..4).map(|number| {
        let app = Arc::clone(&app);
        std::thread::spawn(move || app.database.create(&app.products, &product(number)).map(drop))
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    assert_eq!(app.products.query().build().unwrap().count(&app.database.view()).unwrap(), 4);
}

#[test]
fn a_row_comes_back_as_the_type_that_was_stored() {
    let (database, products) = opened();
    let lamp = product(1);
    let stored = database.create(&products, &lamp).unwrap();
    assert_eq!((stored.id().unwrap(), stored.to::<Product>().unwrap()), (lamp.id.as_str().into(), lamp.clone()));
    let read = database.read(&products, &lamp.id).unwrap().unwrap();
    assert_eq!(read.checksum(), stored.checksum());
    assert_eq!(read.get("price").unwrap().as_f64(), Some(1.0));
    assert_eq!(read.at(products.attribute("stock").unwrap()).unwrap().as_i64(), Some(7));
    assert!(read.get("tags").unwrap().is_null());

    let patch = products.fields().with("stock", 3_u32).unwrap().with("category", None::<&str>).unwrap();
    let version = Precondition::OneOf(vec![read.checksum()]);
    let merged = database.merge(&products, &lamp.id, patch.clone(), &version).unwrap();
    assert_eq!(merged.to::<Product>().unwrap(), Product { stock: Some(3), category: None, ..lamp.clone() });
    assert!(matches!(database.merge(&products, &lamp.id, patch, &version), Err(Error::Stale)));
    let whole = Json(r#"{"name": "Lamp", "tags": ["a", "b"], "facts": {"watt": [5]}, "seen": "2026-01-31"}"#);
    let (replaced, created) = database.replace(&products, &lamp.id, whole, &Precondition::Exists).unwrap();
    assert!(!created && replaced.get("price").unwrap().is_null());
    assert_eq!(replaced.get("tags").unwrap().as_list().unwrap().len(), 2);
    assert_eq!(replaced.get("facts").unwrap().as_str(), Some(r#"{"watt":[5]}"#));
    assert_eq!(replaced.get("seen").unwrap().as_str(), Some("2026-01-31"));
    let facts = products.fields().with("facts", serde_json::json!({"watt": [6]})).unwrap();
    assert!(database.merge(&products, &lamp.id, facts.with("tags", vec!["c"]).unwrap(), &Precondition::None).is_ok());
    database.delete(&products, &lamp.id, &Precondition::None).unwrap();
    assert!(database.read(&products, &lamp.id).unwrap().is_none());
}

/// The place of an `Invalid`.
#[track_caller]
fn refused_at<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { place: Place::Pointer(pointer), .. }) => pointer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_schema_or_the_type_refuses_is_told_with_its_place() {
    #[derive(Serialize)]
    struct Odd {
        id: &'static str,
        name: &'static str,
        #[serde(flatten)]
        rest: std::collections::BTreeMap<&'static str, serde_json::Value>,
        price: f32,
    }
    let (database, products) = opened();
    let odd = |price| Odd { id: "a", name: "A", rest: [("stock", 5.into())].into(), price };
    assert_eq!(refused_at(database.create(&products, &odd(f32::NAN))), "/price");
    assert_eq!(
        refused_at(database.create_all(&products, &[product(1), product(1)]).map_err(conflict_as_invalid)),
        "/1/id"
    );
    let infinite = vec![("a", f64::INFINITY)];
    assert_eq!(refused_at(Append::of(&infinite).map(drop)), "/0/1");
    assert_eq!(refused_at(Append::of(&std::collections::BTreeMap::from([("a/b", -f64::INFINITY)])).map(drop)), "/a~1b");
    assert!(database.create(&products, &odd(1.5)).is_ok());
    assert_eq!(refused_at(database.create(&products, Json(r#"{"id": "b", "name": "B", "price": "much"}"#))), "/price");
    let large = products.fields().with("stock", u64::MAX);
    assert_eq!(refused_at(large), "/stock");
    #[derive(Serialize)]
    struct Large {
        name: &'static str,
        stock: u64,
    }
    assert_eq!(refused_at(database.create(&products, &Large { name: "B", stock: 1 << 63 })), "/stock");
    assert_eq!(refused_at(database.create(&products, products.fields().with("id", "b").unwrap())), "/name");
    assert_eq!(refused_at(products.fields().with("colour", 1)), "/colour");
    assert_eq!(refused_at(database.merge(&products, "a", Json(r#"{"id": "b"}"#), &Precondition::None)), "/id");

    #[derive(Debug, Deserialize)]
    struct Other {
        #[serde(rename = "name")]
        _name: i32,
    }
    let stored = database.read(&products, "a").unwrap().unwrap();
    assert!(matches!(stored.to::<Other>(), Err(Error::Mismatch { id, detail }) if id == "a" && detail.contains("i32")));
    let all = products.query().build().unwrap();
    assert!(matches!(all.rows::<Other>(&database.view()), Err(Error::Mismatch { id, .. }) if id == "a"));
    let rows = vec![product(7); 10_001];
    assert_eq!(refused_at(database.create_all(&products, &rows)), "/10000");
    assert_eq!(all.count(&database.view()).unwrap(), 1, "nothing of what was refused was stored");
}

fn conflict_as_invalid(error: Error) -> Error {
    match error {
        Error::Conflict { detail, pointer } => Error::invalid_at(pointer, detail),
        other => other,
    }
}

#[test]
fn handles_of_another_database_are_refused() {
    let ((database, products), (other, others)) = (opened(), opened());
    other.create(&others, &product(1)).unwrap();
    let query = others.query().build().unwrap();
    let refused = [
        database.read(&others, "p00001").map(drop),
        database.create(&others, &product(2)).map(drop),
        database.create_all(&others, &[product(2)]).map(drop),
        database.create(&products, others.fields().with("name", "x").unwrap()).map(drop),
        database.replace(&others, "a", &product(2), &Precondition::None).map(drop),
        database.merge(&others, "a", &product(2), &Precondition::None).map(drop),
        database.delete(&others, "a", &Precondition::None),
        database.truncate(&others),
        database.view().read(&others, "a").map(drop),
        database.transact(|transaction| transaction.find(&others, "name", "x").map(drop)),
        database.transact(|transaction| transaction.create(&others, &product(2)).map(drop)),
        database.changes(&others).map(drop),
        database.blob(&others, "a", "photo").map(drop),
        database.write_blob(&others, "a", "photo", "", Precondition::None).map(drop),
        query.count(&database.view()).map(drop),
        query.first(&database.view()).map(drop),
        query.delete(&database).map(drop),
        query.claim(&database, 1, Json(r#"{"stock": 1}"#)).map(drop),
        database.append(&other.stream("Orders").unwrap(), &Append::of("x").unwrap()).map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{number}: {refused:?}");
    }
    assert_eq!(query.count(&other.view()).unwrap(), 1);
}

#[test]
fn an_error_of_a_transaction_aborts_it_and_one_that_is_dropped_does_not() {
    let (database, products) = opened();
    #[derive(Debug)]
    struct Own;
    impl From<Error> for Own {
        fn from(_: Error) -> Self {
            Self
        }
    }
    let aborted = database.try_transact(|transaction| {
        transaction.create(&products, &product(1))?;
        Err::<(), _>(Own)
    });
    assert!(aborted.is_err());
    let boxed: std::result::Result<(), Box<dyn std::error::Error>> = database.try_transact(|transaction| {
        transaction.create(&products, &product(1))?;
        Err("boxed".into())
    });
    assert!(boxed.is_err() && database.read(&products, "p00001").unwrap().is_none());
    database
        .transact(|transaction| {
            transaction.create(&products, &product(1))?;
            // Refused, and passed over.
            let _ = transaction.create(&products, &product(1));
            let own = transaction.find(&products, "name", "Product 1")?.expect("its own write is seen");
            assert_eq!(own.id()?, "p00001");
            assert!(transaction.find(&products, "name", "Product 2")?.is_none());
            assert!(matches!(transaction.find(&products, "stock", 7), Err(Error::Invalid { .. })));
            transaction.delete(&products, "p00001", &Precondition::Exists)?;
            assert!(transaction.find(&products, "name", "Product 1")?.is_none());
            transaction.replace(
                &products,
                "p00001",
                &Product { name: "Again".into(), ..product(1) },
                &Precondition::Absent,
            )?;
            Ok(())
        })
        .unwrap();
    assert_eq!(database.read(&products, "p00001").unwrap().unwrap().get("name").unwrap().as_str(), Some("Again"));
    let within_ok = database.transact(|transaction| {
        transaction.merge(&products, "p00001", Json(r#"{"stock": 8}"#), &Precondition::None)?;
        Ok(Err::<(), _>("commits"))
    });
    assert!(within_ok.unwrap().is_err());
    assert_eq!(database.read(&products, "p00001").unwrap().unwrap().get("stock").unwrap().as_i64(), Some(8));
}

#[test]
fn a_panic_in_a_transaction_leaves_no_lock_and_writes_nothing() {
    let (database, products) = opened();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        database.transact::<()>(|transaction| {
            transaction.create(&products, &product(1))?;
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert!(database.create(&products, &product(1)).is_ok());
}

#[test]
fn two_transactions_that_find_the_same_value_take_turns() {
    let (database, products) = opened();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (database, products) = (database.clone(), products.clone());
            std::thread::spawn(move || {
                database.transact(|transaction| {
                    if let Some(found) = transaction.find(&products, "name", "one")? {
                        return Ok(found.id()?.into_owned());
                    }
                    let made = transaction.create(&products, products.fields().with("name", "one")?)?;
                    Ok(made.id()?.into_owned())
                })
            })
        })
        .collect();
    let ids: BTreeSet<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    assert_eq!(ids.len(), 1);
}

#[test]
fn each_record_is_claimed_once_however_many_claim() {
    let (database, products) = filled(2000);
    let ready = products.query().eq("category", "light").sort("price").build().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|worker| {
            let (database, products, ready) = (database.clone(), products.clone(), ready.clone());
            std::thread::spawn(move || {
                let mut claimed = Vec::new();
                loop {
                    let patch = products.fields().with("category", format!("of {worker}")).unwrap();
                    let batch = ready.claim(&database, 7, patch).unwrap();
                    assert!(batch.len() <= 7);
                    claimed.extend(batch.iter().map(|record| record.id().unwrap().into_owned()));
                    // Others may hold what is left.
                    if batch.is_empty() && ready.count(&database.view()).unwrap() == 0 {
                        return claimed;
                    }
                }
            })
        })
        .collect();
    let claimed: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!((claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len()), (1000, 1000));
    for most in [0, 10_001] {
        assert!(matches!(ready.claim(&database, most, Json("{}")), Err(Error::Invalid { .. })));
    }
    let limited = |limit| products.query().one_of("category", ["seat"]).offset(5).limit(limit).build().unwrap();
    assert_eq!(limited(0).claim(&database, 7, Json(r#"{"stock": 1}"#)).unwrap().len(), 0);
    assert_eq!(limited(3).claim(&database, 7, Json(r#"{"stock": 1}"#)).unwrap().len(), 3);
}

#[test]
fn what_one_view_shows_fits_together() {
    let (database, products) = filled(2);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                database
                    .transact(|transaction| {
                        for (id, by) in [("p00000", -1), ("p00001", 1)] {
                            let record = transaction.read(&products, id)?.expect("it is there");
                            let stock = record.get("stock")?.as_i64().unwrap_or(0) + by;
                            transaction.merge(
                                &products,
                                id,
                                products.fields().with("stock", stock)?,
                                &Precondition::None,
                            )?;
                        }
                        Ok(())
                    })
                    .unwrap();
            }
        });
        let stock = |record: &Record<'_>| record.get("stock").unwrap().as_i64().unwrap();
        let all = products.query().build().unwrap();
        for _ in 0..5_000 {
            let view = database.view();
            let read = ["p00000", "p00001"].map(|id| view.read(&products, id).unwrap().unwrap());
            assert_eq!(read.iter().map(&stock).sum::<i64>(), 14);
            let listed = all.iter(&view).map(|record| stock(&record.unwrap())).collect::<Vec<_>>();
            assert_eq!(listed, read.iter().map(&stock).collect::<Vec<_>>());
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_iterator_a_page_and_typed_rows_are_the_same_list() {
    let (database, products) = filled(3000);
    let view = database.view();
    for (text, expected) in [
        (
            "category==light&sort=-price&limit=700",
            (0..3000).rev().filter(|number| number % 2 == 0).take(700).collect::<Vec<_>>(),
        ),
        ("sort=stock,-name&offset=10&limit=5000", {
            let mut numbers: Vec<usize> = (0..3000).collect();
            numbers.sort_by_key(|number| std::cmp::Reverse(format!("Product {number}")));
            numbers.split_off(10)
        }),
        ("price=lt=100", (0..100).collect()),
        ("limit=0", vec![]),
        ("id==p00042", vec![42]),
    ] {
        let query = products.parse(text).unwrap();
        let expected: Vec<_> = expected.into_iter().map(product).collect();
        let iterated: Vec<Product> = query.iter(&view).map(|record| record.unwrap().to().unwrap()).collect();
        assert!(iterated == expected, "{text}: {} {}", iterated.len(), expected.len());
        assert!(query.rows::<Product>(&view).unwrap() == expected, "{text}");
        let mut visited = Vec::new();
        let visit = |record: Record<'_>| {
            visited.push(record.to::<Product>()?);
            Ok(if visited.len() == 500 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        query.each(&view, visit).unwrap();
        assert!(visited == expected[..expected.len().min(500)], "{text}: {}", visited.len());
        let first = query.first(&view).unwrap().map(|record| record.to::<Product>().unwrap());
        assert_eq!(first.as_ref(), expected.first(), "{text}");
    }
    let (query, mut paged, mut after) = (products.parse("category==seat&limit=400").unwrap(), Vec::new(), None);
    loop {
        let page = query.page(&view, after.as_deref()).unwrap();
        paged.extend(page.records.iter().map(|record| record.id().unwrap().into_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
        // What is written between two pages moves none.
        database.create(&products, products.fields().with("name", format!("new {}", paged.len())).unwrap()).unwrap();
    }
    assert_eq!((paged.len(), paged.iter().collect::<BTreeSet<_>>().len()), (1500, 1500));
    let other = products.parse("category==light&limit=400").unwrap();
    let first = query.page(&view, None).unwrap().next.unwrap();
    assert!(matches!(other.page(&view, Some(&first)), Err(Error::Invalid { .. })));
    assert!(matches!(other.page(&view, Some("x")), Err(Error::Invalid { .. })));
    assert_eq!(query.iter(&view).take(3).count(), 3);
}

#[test]
fn related_records_come_as_rows() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Shown {
        name: String,
        brand: Option<Named>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Named {
        name: String,
    }
    let (database, products) = opened();
    let brands = database.table("Brand").unwrap();
    database.create(&brands, Json(r#"{"id": "n", "name": "Nord"}"#)).unwrap();
    database.create(&products, products.fields().with("name", "Lamp").unwrap().with("brandId", "n").unwrap()).unwrap();
    let rows: Vec<Shown> = products.parse("select=name,brand{name}").unwrap().rows(&database.view()).unwrap();
    assert_eq!(rows, [Shown { name: "Lamp".into(), brand: Some(Named { name: "Nord".into() }) }]);
}

#[test]
fn many_are_changed_and_deleted_at_once() {
    let (database, products) = filled(100);
    let light = products.query().eq("category", "light").build().unwrap();
    assert_eq!(light.update(&database, Json(r#"{"stock": 1}"#)).unwrap(), 50);
    assert_eq!(products.query().eq("stock", 1).build().unwrap().delete(&database).unwrap(), 50);
    assert_eq!(products.query().build().unwrap().count(&database.view()).unwrap(), 50);
}

#[test]
fn what_no_query_can_have_is_refused() {
    let (database, products) = opened();
    for query in [
        products.query().eq("colour", 1),
        products.query().eq("price", "dear"),
        products.query().eq("price", f64::NAN),
        products.query().eq("name", vec!["a"]),
        products.query().eq("facts", serde_json::json!({})),
        products.query().sort("tags"),
        products.query().below("name", None::<&str>),
        products.query().between("name", "a", None::<&str>),
        products.query().one_of("name", [None, Some("a")]),
        products.query().one_of("stock", ["x"]),
        products.query().one_of("stock", Vec::<i64>::new()),
        // What would be another query.
        products.query().eq("price|id", 1),
        products.query().eq("", 1),
        products.query().sort("name&price|id"),
        products.query().sort("name,price"),
    ] {
        assert!(matches!(query.clone().build(), Err(Error::Invalid { .. })), "{query:?}");
    }
    for (text, values, at) in [
        ("stock==?", vec![], 7),
        ("stock==?", vec![1.into(), 2.into()], 8),
        ("stock==1", vec![1.into()], 8),
        ("stock=in=(?,?)", vec![1.into()], 12),
        ("stock=lt=?", vec![Value::Null], 9),
        ("name===?", vec![Value::Null], 7),
        ("name==?&stock==?&colour==1", vec!["a|b".into(), 1.into()], 17),
        ("name==?&stock==?", vec!["a|b".into(), "x".into()], 15),
        ("limit=1&explain=true", vec![], 8),
        ("pagination=true", vec![], 0),
    ] {
        let refused = products.bind(text, &values);
        assert!(
            matches!(refused, Err(Error::Invalid { place: Place::Position(place), .. }) if place == at),
            "{text}: {refused:?}"
        );
    }
    let selecting = products.parse("select=name").unwrap();
    let failing = products.query().build().unwrap().each(&database.view(), |_| Ok(ControlFlow::Continue(())));
    assert!(failing.is_ok() && selecting.each(&database.view(), |_| Ok(ControlFlow::Continue(()))).is_err());
    assert!(matches!(selecting.iter(&database.view()).next(), Some(Err(Error::Invalid { .. }))));
    assert!(matches!(selecting.page(&database.view(), None), Err(Error::Invalid { .. })));
    assert!(products.parse("stock=").is_err());
    assert_eq!(products.bind("stock=in=(?,?)", &[1.into(), 2.into()]).unwrap().count(&database.view()).unwrap(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Values that look like syntax are values.
    #[test]
    fn bound_values_match_themselves_alone(
        texts in prop::collection::vec(
            prop_oneof![
                Just("null".to_owned()), Just("o*".to_owned()), Just("50%".to_owned()), Just("x|state==done".to_owned()),
                Just("\"".to_owned()), Just(String::new()), Just("string:a".to_owned()), Just("a,b)".to_owned()), "[*%|&;=a ()\\[\\]?é]{0,6}",
            ],
            1..8,
        ),
        numbers in prop::collection::vec(any::<i64>(), 8),
        floats in prop::collection::vec(
            prop_oneof![any::<f64>().prop_filter("finite", |float| float.is_finite()), Just(1e300), Just(4_611_686_018_427_387_904.0), Just(-0.0), Just(1e-300), Just(f64::MAX)],
            8,
        ),
    ) {
        let (database, products) = opened();
        for (number, text) in texts.iter().enumerate() {
            let fields = products.fields().with("name", format!("{number}")).unwrap().with("category", text).unwrap();
            let fields = fields.with("stock", numbers[number]).unwrap().with("price", floats[number]).unwrap();
            let facts = serde_json::json!({"text": text});
            database.create(&products, fields.with("facts", facts).unwrap()).unwrap();
        }
        let view = database.view();
        for ((text, number), float) in texts.iter().zip(&numbers).zip(&floats) {
            let prices = || floats.iter().take(texts.len());
            prop_assert_eq!(products.query().eq("price", *float).build().unwrap().count(&view).unwrap(), prices().filter(|other| *other == float).count(), "{:?}", float);
            prop_assert_eq!(products.query().between("price", *float, f64::MAX).build().unwrap().count(&view).unwrap(), prices().filter(|other| *other >= float).count(), "{:?}", float);
            let same = texts.iter().filter(|other| *other == text).count();
            let count = |query: crate::Conditions| query.build().unwrap().count(&view).unwrap();
            prop_assert_eq!(count(products.query().eq("category", text)), same, "{:?}", text);
            prop_assert_eq!(count(products.query().ne("category", text)), texts.len() - same, "{:?}", text);
            prop_assert_eq!(count(products.query().one_of("category", [text])), same, "{:?}", text);
            prop_assert_eq!(products.bind("category==?", &[text.into()]).unwrap().count(&view).unwrap(), same);
            let starting = texts.iter().filter(|other| other.starts_with(text.as_str())).count();
            prop_assert_eq!(count(products.query().starts_with("category", text)), starting, "{:?}", text);
            let above = texts.iter().filter(|other| *other > text).count();
            prop_assert_eq!(count(products.query().above("category", text)), above, "{:?}", text);
            prop_assert_eq!(count(products.query().eq("facts.text", text)), same, "{:?}", text);
            prop_assert_eq!(products.bind("category===?", &[text.into()]).unwrap().count(&view).unwrap(), same);
            let stocks = || numbers.iter().take(texts.len());
            prop_assert_eq!(count(products.query().at_most("stock", *number)), stocks().filter(|other| *other <= number).count());
            prop_assert_eq!(count(products.query().above("stock", *number)), stocks().filter(|other| *other > number).count());
        }
    }
}

/// Counts how often it is woken.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn changes_come_once_each() {
    let (database, products) = opened();
    let mut changes = database.changes(&products).unwrap();
    assert!(changes.next_timeout(Duration::from_millis(1)).unwrap().is_none());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    assert!(matches!(changes.poll_next(&mut Context::from_waker(&waker)), Poll::Pending));
    database.create(&products, &product(1)).unwrap();
    let began = std::time::Instant::now();
    while count.0.load(Ordering::SeqCst) == 0 {
        assert!(began.elapsed() < AGES, "the task is woken");
        std::thread::yield_now();
    }
    database.delete(&products, "p00001", &Precondition::None).unwrap();
    database.truncate(&products).unwrap();
    let mut next = || changes.next_timeout(AGES).unwrap().unwrap();
    assert!(matches!(next().what, Changed::Put(record) if record.to::<Product>().unwrap() == product(1)));
    let deleted = next();
    assert!(matches!(&deleted.what, Changed::Delete(id) if id == "p00001"));
    assert!(matches!(next().what, Changed::Truncate));
}

#[test]
fn changes_end_with_the_database_and_continue_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::parse(SDL).unwrap();
    let open = || {
        let options = Database::options().feed_log(64 << 20).durability(Durability::Soft).background(false);
        options.open(folder.path().join("data"), &schema).unwrap()
    };
    let database = open();
    let products = database.table("Product").unwrap();
    let mut changes = database.changes(&products).unwrap();
    database.create(&products, &product(1)).unwrap();
    let first = changes.next().unwrap().unwrap().id;
    assert_eq!(changes.position(), first);
    database.create(&products, &product(2)).unwrap();
    database.close().unwrap();
    // What was queued may still be taken; then it is over.
    assert!(changes.by_ref().count() <= 1);

    let database = open();
    let products = database.table("Product").unwrap();
    let mut changes = database.changes_after(&products, first).unwrap();
    let change = changes.next().unwrap().unwrap();
    assert!(matches!(change.what, Changed::Put(record) if record.id().unwrap() == "p00002"));
    let mut of_one = database.changes_of(&products, "p00003", None).unwrap();
    database.create_all(&products, &[product(3), product(4)]).unwrap();
    assert!(matches!(of_one.next().unwrap().unwrap().what, Changed::Put(record) if record.id().unwrap() == "p00003"));
    assert!(of_one.next_timeout(Duration::from_millis(1)).unwrap().is_none());
    let text = first.to_string();
    assert_eq!(text.parse::<EventId>().unwrap(), first);
    drop((changes, of_one));
    let (database, products) = opened();
    let unknown = database.changes_after(&products, first);
    assert!(matches!(unknown, Err(Error::Gone { .. })), "{unknown:?}");
}

#[test]
fn a_subscriber_that_is_too_slow_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Database::options().feed_log(256 << 20).durability(Durability::Soft).background(false);
    let database = options.open(folder.path(), &Schema::parse(SDL).unwrap()).unwrap();
    let products = database.table("Product").unwrap();
    let mut changes = database.changes(&products).unwrap();
    // More than its queue takes.
    let long = "x".repeat(1 << 20);
    for number in 0..8 {
        let fields = products.fields().with("name", format!("{number}")).unwrap().with("category", &long).unwrap();
        database.create(&products, fields).unwrap();
    }
    for number in 0..8 {
        let change = changes.next().unwrap().unwrap();
        let Changed::Put(record) = change.what else { panic!("{number}: {change:?}") };
        assert_eq!(record.get("name").unwrap().as_str(), Some(number.to_string().as_str()));
    }
}

#[test]
fn events_and_offsets_are_part_of_a_transaction() {
    let (database, products) = opened();
    let orders = database.stream("Orders").unwrap();
    assert_eq!((orders.name(), orders.partitions()), ("Orders", 2));
    let event = Append::of(&product(1)).unwrap().partition(1).idempotency_key("once").key("k").timestamp_ms(5);
    let aborted = database.transact(|transaction| {
        transaction.append(&orders, &event)?;
        Err::<(), _>(Error::Stale)
    });
    assert!(matches!(aborted, Err(Error::Stale)));
    let appended = database
        .transact(|transaction| {
            transaction.create(&products, &product(1))?;
            transaction.commit(&orders, "billing", &[(1, 0)])?;
            transaction.append(&orders, &event)
        })
        .unwrap();
    assert_eq!((appended.partition, appended.offset, appended.duplicate), (1, 0, false));
    assert!(database.append(&orders, &event).unwrap().duplicate);
    assert!(database.wait_for_event(&orders, 1, 0, AGES).unwrap());
    assert!(!database.wait_for_event(&orders, 1, 1, Duration::from_millis(1)).unwrap());
    let read = database.events(&orders, 1, Start::Beginning, 10).unwrap();
    assert_eq!((read.events.len(), read.next, read.low, read.high), (1, 1, 0, 1));
    let event = &read.events[0];
    assert_eq!((event.to::<Product>().unwrap(), event.timestamp_ms, event.key.as_deref()), (product(1), 5, Some("k")));
    assert!(matches!(event.to::<i32>(), Err(Error::Mismatch { .. })));
    assert_eq!(database.group(&orders, "billing").unwrap(), [(1, 0)].into());
    assert!(database.group(&orders, "other").unwrap().is_empty());
    assert!(matches!(database.append(&orders, &Append::of(&1).unwrap().expected_offset(9)), Err(Error::Offset { .. })));
    assert!(matches!(Append::json("{"), Err(Error::Invalid { .. })));
}

#[test]
fn messages_reach_those_who_follow_a_record() {
    let schema = Schema::parse("type Lamp @table @multicast { id: ID! @primaryKey  room: String }").unwrap();
    let database = Database::temporary(&schema).unwrap();
    let lamps = database.table("Lamp").unwrap();
    let rows = ["a", "b", "c"].map(|id| {
        lamps.fields().with("id", id).unwrap().with("room", if id == "c" { "bath" } else { "hall" }).unwrap()
    });
    database.create_all(&lamps, rows).unwrap();
    let mut of_each = ["a", "b", "c"].map(|id| database.changes_of(&lamps, id, None).unwrap());
    let begin = of_each[0].position();
    let hall = lamps.query().eq("room", "hall").build().unwrap();
    assert_eq!(database.send(&hall, &serde_json::json!({"on": true})).unwrap(), 2);
    assert_eq!(refused_at(database.send(&hall, &f64::NAN)), "");
    assert_eq!(database.send(&lamps.query().eq("room", "attic").build().unwrap(), "x").unwrap(), 0);
    for changes in &mut of_each[..2] {
        let change = changes.next_timeout(AGES).unwrap().unwrap();
        assert!(matches!(change.what, Changed::Message(text) if text == r#"{"on":true}"#));
    }
    // Also when it continues from before.
    let again = database.changes_of(&lamps, "b", Some(begin)).unwrap().next_timeout(AGES).unwrap().unwrap();
    assert!(matches!(again.what, Changed::Message(_)));
    database.merge(&lamps, "c", Json(r#"{"room": "hall"}"#), &Precondition::None).unwrap();
    assert!(matches!(of_each[2].next_timeout(AGES).unwrap().unwrap().what, Changed::Put(_)));
    let (database, products) = opened();
    let all = products.query().build().unwrap();
    assert!(matches!(database.send(&all, "x"), Err(Error::Invalid { .. })));
    assert!(matches!(database.send(&hall, "x"), Err(Error::Invalid { .. })));
}

#[test]
fn a_blob_is_a_stream_of_bytes() {
    let (database, products) = opened();
    database.create(&products, &product(1)).unwrap();
    let bytes: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let write = |expected| database.write_blob(&products, "p00001", "photo", "image/x", expected);
    let mut writer = write(Precondition::Absent).unwrap();
    writer.write_all(&bytes).unwrap();
    assert!(database.blob(&products, "p00001", "photo").is_err(), "nobody sees it before it is finished");
    let tag = writer.finish().unwrap();
    let mut reader = database.blob(&products, "p00001", "photo").unwrap().unwrap();
    assert_eq!((reader.length(), reader.media_type(), reader.tag()), (700_000, "image/x", tag));
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == bytes);
    reader.select(65_530..65_540);
    read.clear();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, bytes[65_530..65_540]);
    assert!(matches!(write(Precondition::Absent), Err(Error::Stale)));
    drop(write(Precondition::None).unwrap());
    database.delete_blob(&products, "p00001", "photo", &Precondition::OneOf(vec![tag])).unwrap();
    assert!(matches!(database.blob(&products, "p00001", "photo"), Err(Error::NotFound { .. })));
    assert!(database.blob(&products, "p00002", "photo").unwrap().is_none());
    assert!(matches!(database.blob(&products, "p00001", "colour"), Err(Error::Invalid { .. })));
    assert_eq!(database.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn a_directory_is_opened_as_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, schema) = (folder.path().join("data"), Schema::parse(SDL).unwrap());
    let refused = [
        Database::options().create(false),
        Database::options().read_only(),
        Database::options().read_only().create(true),
    ];
    for refused in refused {
        assert!(matches!(refused.open(&path, &schema), Err(Error::Storage { .. })));
    }
    assert!(!path.exists());
    let database = Database::open(&path, &schema).unwrap();
    let products = database.table("Product").unwrap();
    database.create(&products, &product(1)).unwrap();
    assert!(matches!(Database::open(&path, &schema), Err(Error::Busy { .. })));
    assert!(matches!(Database::options().read_only().open(&path, &schema), Err(Error::Busy { .. })));
    database.back_up(folder.path().join("copy")).unwrap();
    database.compact().unwrap();
    assert_eq!(database.statistics().unwrap().tables[1].records, 1);
    assert!(
        database.failure().is_none() && database.counters().writes > 0 && database.sizes().unwrap().sorted_bytes > 0
    );
    let clone = database.clone();
    let NotClosed { error, database, .. } = database.close().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }));
    drop(clone);
    database.unwrap().close().unwrap();

    let listing = || {
        let files = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap());
        files.map(|file| (file.file_name(), file.metadata().unwrap().modified().unwrap())).collect::<BTreeSet<_>>()
    };
    let before = listing();
    for directory in [&path, &folder.path().join("copy")] {
        let reading = Database::options().read_only().open(directory, &schema).unwrap();
        let products = reading.table("Product").unwrap();
        assert_eq!(reading.read(&products, "p00001").unwrap().unwrap().to::<Product>().unwrap(), product(1));
        assert!(matches!(reading.create(&products, &product(2)), Err(Error::Invalid { .. })));
        assert!(matches!(reading.work(), Err(Error::Invalid { .. })));
        reading.close().unwrap();
    }
    assert_eq!(listing(), before);

    let fewer = Schema::parse("type Product @table { id: ID! @primaryKey  name: String! @unique }").unwrap();
    assert!(matches!(Database::open(&path, &fewer), Err(Error::Invalid { .. })));
    let dropped = Database::options().drop_removed().open(&path, &fewer).unwrap();
    let products = dropped.table("Product").unwrap();
    assert_eq!(products.attributes().collect::<Vec<_>>(), ["id", "name"]);
    assert_eq!(dropped.read(&products, "p00001").unwrap().unwrap().json(), br#"{"id":"p00001","name":"Product 1"}"#);
    assert!(matches!(dropped.table("Brand"), Err(Error::NotFound { .. })));
    assert!(matches!(dropped.stream("Orders"), Err(Error::NotFound { .. })));
}

#[test]
fn a_blob_that_is_read_keeps_the_database_open() {
    let (database, products) = opened();
    database.create(&products, &product(1)).unwrap();
    database.write_blob(&products, "p00001", "photo", "", Precondition::None).unwrap().finish().unwrap();
    let reader = database.blob(&products, "p00001", "photo").unwrap().unwrap();
    let NotClosed { error, database, .. } = database.close().unwrap_err();
    assert!(matches!(error, Error::Busy { .. }));
    drop(reader);
    database.unwrap().close().unwrap();
}

#[test]
fn signals_and_limits_of_the_process_stay_as_they_are() {
    let of_process = || {
        let [status, limits] =
            ["status", "limits"].map(|file| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap());
        let signals: Vec<_> =
            status.lines().filter(|line| line.starts_with("Sig") && !line.starts_with("SigQ")).collect();
        (signals.join("\n"), limits)
    };
    let before = of_process();
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), &Schema::parse(SDL).unwrap()).unwrap();
    let products = database.table("Product").unwrap();
    let mut changes = database.changes(&products).unwrap();
    database.create(&products, &product(1)).unwrap();
    assert!(changes.next().unwrap().is_ok());
    assert_eq!(of_process(), before);
    database.close().unwrap();
    assert_eq!(of_process(), before);
}

#[test]
fn waiting_for_ever_is_no_overflow() {
    let schema = Schema::parse(SDL).unwrap();
    let database = Database::options().lock_wait(Duration::MAX).background(false).temporary(&schema).unwrap();
    let products = database.table("Product").unwrap();
    let mut changes = database.changes(&products).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..50 {
                    let _ = database.replace(
                        &products,
                        "a",
                        &Product { id: "a".into(), ..product(number) },
                        &Precondition::None,
                    );
                }
            });
        }
        assert!(changes.next_timeout(Duration::MAX).unwrap().is_some());
    });
}

#[test]
fn two_databases_of_one_schema_build_their_indexes_each() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let plain = Schema::parse("type T @table { id: ID! @primaryKey  n: Int }").unwrap();
    let indexed = Schema::parse("type T @table { id: ID! @primaryKey  n: Int @indexed }").unwrap();
    for folder in &folders {
        let database = Database::open(folder.path(), &plain).unwrap();
        database.create(&database.table("T").unwrap(), Json(r#"{"id": "a", "n": 5}"#)).unwrap();
    }
    let open =
        |folder: &tempfile::TempDir| Database::options().background(false).open(folder.path(), &indexed).unwrap();
    let [built, other] = folders.each_ref().map(open);
    while built.work().unwrap() {}
    for database in [&built, &other] {
        let table = database.table("T").unwrap();
        assert_eq!(table.query().eq("n", 5).build().unwrap().count(&database.view()).unwrap(), 1);
    }
}

#[test]
fn the_background_thread_builds_and_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::parse("type T @table(expiration: 1) { id: ID! @primaryKey }").unwrap();
    let database = Database::open(folder.path(), &schema).unwrap();
    let table = database.table("T").unwrap();
    let mut changes = database.changes(&table).unwrap();
    database.create(&table, Json(r#"{"id": "a"}"#)).unwrap();
    assert!(
        matches!(changes.next().unwrap().unwrap().what, Changed::Put(record) if record.expires_at().unwrap().is_some())
    );
    assert!(matches!(changes.next_timeout(AGES).unwrap().unwrap().what, Changed::Delete(id) if id == "a"));
}

#[test]
fn a_temporary_folder_goes() {
    let folder = super::database::Folder::create().unwrap();
    let path = folder.path().to_owned();
    std::fs::write(path.join("file"), "").unwrap();
    drop(folder);
    assert!(!path.exists());
}
