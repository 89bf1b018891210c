//! Related records: which are shown, in how many storage calls.

use serde_json::{Value as Json, json};
use strata::query::{Limits, Query};

use super::filled;
use crate::engine::fresh;

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
