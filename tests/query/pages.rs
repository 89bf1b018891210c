//! Lists by pages: cursors under concurrent writes, when an index comes or goes, and at the end of a list.

use serde_json::json;
use strata::query::{Limits, Query};
use strata::transaction::{Database, Precondition};

use super::{filled, ids, ids_by_pages, plan};
use crate::engine::{Random, open_idle};

#[test]
fn pages_miss_and_double_no_record_that_lasts() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"size\"]) { id: ID @primaryKey \
               kind: String @indexed(type: \"hash\") size: Int @indexed tags: [Int] @indexed \
               name: String @indexed(type: \"fulltext\") }";
    for text in [
        "",
        "kind==k1",
        "size=ge=3",
        "kind==k1|size==5",
        "tags=in=1,2,3",
        "sort=size",
        "sort=-size,name",
        "sort=name",
        "sort=-id",
        "kind==k1&size=ge=3",
        "kind==k1&sort=size",
        "kind==k1&sort=-size",
        "sort=kind,size",
        "sort=-kind,-size",
        "name=ft=n1",
        "name=ft=all%20n1",
        "name=ft=all%20n1&sort=-id",
    ] {
        let record = |number: usize| {
            let (kind, name) = (format!("k{}", number % 3), format!("all n{}", number * 7 % 5));
            json!({ "id": format!("{number:04}"), "kind": kind, "size": number % 10, "tags": [number % 4, number % 3], "name": name })
        };
        let (_directory, database) = filled(sdl, 0..400, record);
        let (table, mut random) = (database.table("T").expect("it exists"), Random(7));
        // The even ones last; the odd ones are deleted, created and changed while the pages are read.
        let expected: Vec<String> =
            ids(&database, text).into_iter().filter(|id| id.parse::<usize>().unwrap_or(1) % 2 == 0).collect();
        let listed = ids_by_pages(&database, text, 7, || {
            for _ in 0..20 {
                let number = 2 * random.below(200) + 1;
                let id = format!("{number:04}");
                match random.below(3) {
                    0 => drop(database.delete(table, &id, &Precondition::None)),
                    _ => {
                        let body = json!({ "kind": "k1", "size": random.below(12), "tags": [2], "name": "n1 all" })
                            .to_string();
                        database
                            .replace(table, &id, body.as_bytes(), &Precondition::None)
                            .expect("it is free of others");
                    }
                }
            }
        });
        let mut lasting = listed.clone();
        lasting.retain(|id| id.parse::<usize>().unwrap_or(1) % 2 == 0);
        assert_eq!(lasting, expected, "{text}");
    }
}

/// The order of such a list is that of the index by which it began.
#[test]
fn a_list_goes_on_as_it_began_when_a_better_index_is_ready_meanwhile() {
    let bare = "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") size: Int }";
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": number * 7 % 50 });
    let (directory, database) = filled(bare, 0..1000, record);
    drop(database);
    let sdl = bare.replace("@table", "@table @compositeIndex(fields: [\"kind\", \"size\"])");
    let database = open_idle(directory.path(), &sdl).expect("indexes may be added");
    let text = "kind==k1&size=lt=40";
    let expected = ids(&database, text);
    assert_eq!(plan(&database, text), "hash kind [kind==k1] [size=lt=40]: 250");
    let listed = ids_by_pages(&database, text, 10, || {
        database.work().expect("it can be built");
    });
    assert_eq!(plan(&database, text), "composite kind,size: 200");
    assert_eq!(listed, expected);
    assert_ne!(ids(&database, text), expected);
}

#[test]
fn a_cursor_goes_with_its_query_and_its_index() {
    let record = |number: usize| json!({ "id": format!("{number:02}"), "size": number % 2 });
    let (directory, database) = filled("type T @table { id: ID @primaryKey size: Int @indexed }", 0..20, record);
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, "size==1&limit=3", &Limits::in_url(100)).expect("it is read");
    let next = query.show(&database, table, |_, _| Ok(())).expect("a healthy store").next.expect("there are ten");
    let parse = |text: String| {
        let limits = Limits::in_url(100);
        Query::parse(database.schema(), table, text.leak(), &limits)
    };
    assert!(parse(format!("limit=5;size==1&select=id&after={next}")).is_ok(), "what is shown of them does not matter");
    for other in ["size==0", "size==1&sort=id", "size==1&offset=1", "id", ""] {
        assert!(parse(format!("{other}&after={next}").trim_start_matches('&').to_owned()).is_err(), "{other}");
    }
    let text = query.text_after(&next);
    drop(database);
    let schema = strata::schema::Schema::parse("type T @table { id: ID @primaryKey size: Int }").expect("a schema");
    let database = Database::open(directory.path(), schema, &strata::storage::Options::default()).expect("it opens");
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, &text, &Limits::in_url(100)).expect("it is read");
    let refused = query.run(&database, table, |_| Ok(())).expect_err("the index is gone");
    assert!(refused.to_string().contains("index"), "{refused}");
}

#[test]
fn a_cursor_of_one_record_is_at_its_end() {
    let (_directory, database) = filled(
        "type T @table { id: ID @primaryKey mail: String @unique }",
        0..3,
        |number| json!({ "id": number.to_string(), "mail": number.to_string() }),
    );
    let table = database.table("T").expect("it exists");
    for condition in ["id==1", "mail==1"] {
        let shown = |clauses: &str| {
            let text = format!("{condition}&limit=1&select=id{clauses}");
            let query = Query::parse(database.schema(), table, &text, &Limits::in_url(1000)).expect("it is valid");
            let mut records = 0;
            let shown = query.show(&database, table, |_, _| {
                records += 1;
                Ok(())
            });
            (records, shown.unwrap_or_else(|error| panic!("{text}: {error}")).next)
        };
        let (records, next) = shown("&pagination=true");
        assert_eq!(records, 1, "{condition}");
        let next = next.expect("it is as long as its limit");
        assert_eq!(shown(&format!("&after={next}")).0, 0, "{condition}");
    }
}
