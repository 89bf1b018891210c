//! What a query may cost, what ends it, and what it changes as a whole or not at all.

use serde_json::json;
use strata::query::{Limits, Query};
use strata::transaction::Database;

use super::{filled, ids, shop};
use crate::engine::{self, assert_consistent};

#[test]
fn what_is_short_looks_at_no_more_than_it_lists() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    let is_short = |text: &str| {
        Query::parse(database.schema(), table, text, &Limits::in_url(10_000)).expect("it is read").is_short(table)
    };
    for text in [
        "limit=100",
        "id==1",
        "sku==x&stock==1",
        "kind==x&limit=100",
        "name==x&limit=1",
        "price=gt=5&limit=20&sort=price",
        "sort=-id&limit=5",
        "name=sw=a&limit=5&offset=95",
        "(price==1|price==2)&limit=10",
    ] {
        assert!(is_short(text), "{text}");
    }
    for text in [
        "",
        "limit=101",
        "kind==x",
        "stock==1&limit=1",
        "price=gt=5&limit=20&sort=name",
        "sort=stock&limit=1",
        "name==a*b&limit=1",
        "name=sw=a&limit=5&offset=96",
        "kind==x&price==1&limit=1",
        "tags=ge=a&limit=2",
    ] {
        assert!(!is_short(text), "{text}");
    }
    let list = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let (long, most, many) = ("x".repeat(1024), list(100), list(101));
    assert!(is_short(&format!("price=in={most}&limit=1")));
    for text in [format!("name=={long}&limit=1"), format!("id=in={many}&limit=1"), format!("price=in={many}&limit=1")] {
        assert!(!is_short(&text), "{text}");
    }
}

/// What comes of a query where it may wait, and where it may not.
fn outcomes(database: &Database, text: &str) -> [&'static str; 2] {
    let table = database.table("T").expect("it exists");
    let query = Query::parse(database.schema(), table, text, &Limits::in_url(10_000)).expect("it is read");
    assert!(query.is_short(table), "{text} is tried where others wait");
    let outcome = |database: &Database| engine::outcome(&query.run(database, table, |_| Ok(())));
    [outcome(database), outcome(&database.never_blocking())]
}

#[test]
fn what_is_in_memory_holds_up_nobody_for_long() {
    let sdl = "type T @table { id: ID @primaryKey name: String @indexed note: String n: Int @indexed }";
    let begin = "x".repeat(1100);
    let (_directory, database) = filled(sdl, 0..2000, |number| {
        let note = if number < 100 { "y".repeat(100_000) } else { "y".to_owned() };
        json!({ "id": format!("{number:05}"), "name": format!("{begin}{}", 3000 - number), "note": note, "n": number })
    });
    assert_eq!(outcomes(&database, "n=ge=1000&sort=n&limit=100"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "n=in=5000,6000,1500&limit=100"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "id==01500&n=lt=1600&note==y"), ["ok", "ok"]);
    assert_eq!(outcomes(&database, "sort=name&limit=1"), ["ok", "would block"], "all names are alike to the index");
    assert_eq!(outcomes(&database, "limit=100"), ["ok", "would block"], "ten megabytes");
    let conditions = vec!["note=ct=z"; 199].join("&");
    assert_eq!(
        outcomes(&database, &format!("id==00001&{conditions}")),
        ["ok", "would block"],
        "many times a long text"
    );
}

#[test]
fn a_query_that_nobody_waits_for_ends() {
    let sdl = "type T @table { id: ID @primaryKey size: Int }";
    let (_directory, database) = filled(sdl, 0..30_000, |number| json!({ "id": number.to_string(), "size": number }));
    let interrupt = strata::transaction::Interrupt::default();
    let interrupted = database.interrupted_by(&interrupt);
    let (table, mut seen) = (interrupted.table("T").expect("it exists"), 0);
    let query = Query::parse(database.schema(), table, "size=ge=0", &Limits::in_url(100_000)).expect("it is read");
    let mut run = |database: &Database| {
        seen = 0;
        let visit = |_: strata::encoding::Record<'_, &[u8]>| {
            seen += 1;
            Ok(())
        };
        let outcome = engine::outcome(&query.run(database, table, visit));
        (outcome, seen)
    };
    assert_eq!(run(&interrupted), ("ok", 30_000));
    interrupt.raise();
    let (outcome, seen) = run(&interrupted);
    assert!(outcome == "busy" && seen < 30_000, "{outcome} after {seen}");
    assert_eq!(run(&database), ("ok", 30_000), "others go on");
}

#[test]
fn a_list_is_read_once_however_many_of_its_elements_are_meant() {
    let sdl = "type T @table { id: ID @primaryKey tags: [Int] @indexed }";
    let (_directory, database) =
        filled(sdl, 0..3, |number| json!({ "id": number.to_string(), "tags": (0..2000).collect::<Vec<_>>() }));
    let before = database.counters().multi_gets;
    assert_eq!(ids(&database, "tags=ge=0"), ["0", "1", "2"]);
    assert_eq!(database.counters().multi_gets - before, 1);
}

#[test]
fn lists_that_are_more_than_can_be_remembered_are_met_once_all_the_same() {
    let sdl = "type T @table { id: ID @primaryKey tags: [Int] @indexed }";
    // Four megabytes of ids are remembered, which is less than these. No record has its least tag where another has.
    let id = |number: usize| format!("{number:05}{}", "i".repeat(990));
    let (_directory, database) =
        filled(sdl, 0..5000, |number| json!({ "id": id(number), "tags": [number, number + 2500, 20_000, number] }));
    let expected: Vec<String> = (0..5000).map(id).collect();
    assert!(ids(&database, "tags=ge=0") == expected, "each once, by its least tag");
    assert!(ids(&database, "tags=ge=0&offset=4900&limit=50") == expected[4900..4950]);
    let mut found = ids(&database, "tags=ge=0&sort=-id");
    found.reverse();
    assert!(found == expected);
}

#[test]
fn what_is_sorted_by_has_a_bound_and_the_refusal_its_place() {
    let sdl = "type T @table { id: ID @primaryKey name: String @indexed note: String }";
    let begin = "x".repeat(1024);
    let (_directory, database) = filled(sdl, 0..17_000, |number| {
        let note = if number < 20 { "y".repeat(4 << 20) } else { String::new() };
        json!({ "id": format!("{number:05}"), "name": format!("{begin}{number}"), "note": note })
    });
    let table = database.table("T").expect("it exists");
    let refused = |text: &str| {
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(100_000)).expect("it is read");
        match query.run(&database, table, |_| Ok(())) {
            Ok(()) => None,
            Err(strata::error::Error::Invalid { place: strata::error::Place::Position(position), .. }) => {
                Some(position)
            }
            Err(other) => panic!("{text}: {other}"),
        }
    };
    assert_eq!(refused("id&sort=-note&limit=10"), None);
    assert_eq!(refused("id&sort=-note&limit=20"), Some(3), "80 megabytes of notes");
    assert_eq!(refused("limit=20&sort=name"), Some(9), "more entries than can be put in order");
    assert_eq!(refused("id=lt=00100&sort=name"), None, "a hundred are sorted in memory");
    assert_eq!(refused("offset=100000&sort=note"), Some(14));
}

#[test]
fn what_a_query_deletes_is_gone_whole_or_not_at_all() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    let delete = |text: &str, most| {
        Query::parse(database.schema(), table, text, &Limits::in_url(10_000))
            .expect("it is read")
            .delete(&database, table, most)
    };
    assert_eq!(engine::outcome(&delete("price=lt=100", 499)), "invalid");
    assert_eq!(ids(&database, "").len(), 1000);
    let gets = database.counters().gets;
    assert_eq!(delete("price=lt=100", 500).expect("as many as may be"), 500);
    assert_eq!(database.counters().gets - gets, 500, "each is read once while it is held");
    assert_eq!(delete("price=lt=100", 500).expect("there is none left"), 0);
    assert_eq!((ids(&database, "").len(), ids(&database, "price=lt=100").len()), (500, 0));
    assert_consistent(&database);
}

#[test]
fn what_is_wrong_with_an_expression_is_said_whether_or_not_a_record_is_asked() {
    let (_directory, database) = shop();
    let table = database.table("T").expect("it exists");
    for text in ["id==none&name=~=%5Cp%7BNope%7D", "name=~=%5Cp%7BNope%7D&limit=0", "name=~=%5Cp%7BNope%7D"] {
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(1000)).expect("its syntax is right");
        assert_eq!(engine::outcome(&query.run(&database, table, |_| Ok(()))), "invalid", "{text}");
    }
}
