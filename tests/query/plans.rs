//! Plans of a few queries that must be as they are, and what they read.

use serde_json::{Value as Json, json};
use strata::query::{Limits, Query};
use strata::transaction::Database;

use super::{filled, ids, ids_by_pages, plan, shop};
use crate::engine::{self, fresh, open_idle};

#[test]
fn composite_and_full_text_indexes_are_used_where_they_lead_to_fewer_records() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"size\"]) @compositeIndex(fields: [\"size\", \"name\", \"rank\"]) \
               { id: ID @primaryKey kind: String @indexed(type: \"hash\") size: Int name: String rank: Int @indexed \
                 about: String @indexed(type: \"fulltext\") notes: [String] @indexed(type: \"fulltext\") }";
    let record = |number: usize| {
        let (about, size) = (format!("all t{} u{}", number % 10, number % 7), number % 50);
        json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": size, "name": format!("n{}", number % 3),
                "rank": number, "about": about, "notes": [about, "all x1"] })
    };
    let (_directory, database) = filled(sdl, 0..2000, record);
    let cases = [
        ("kind==k1&size==13", "composite kind,size: 20"),
        ("kind==k1&size=gt=40&size=lt=45", "composite kind,size: 40"),
        ("size=gt=40&size=lt=45&kind==k1", "composite kind,size: 40"),
        ("kind==k1", "hash kind [kind==k1]: 256+"),
        ("kind==k1&size!=13", "hash kind [kind==k1] [size!=13]: 256+"),
        ("size==13", "composite size,name,rank: 40"),
        ("size==13&rank=gt=5", "composite size,name,rank [rank=gt=5]: 40"),
        ("size==13&name==n1&rank=gt=1000", "composite size,name,rank: 7"),
        ("size==13&name==n1&kind==k1", "composite size,name,rank [kind==k1]: 14"),
        ("size==13&name=sw=n", "composite size,name,rank: 40"),
        ("(kind==k1&size==13)|rank==7", "composite kind,size then ordered rank: 21+"),
        // Orders.
        ("kind==k1&sort=size", "composite kind,size, sorted by the steps: 256+"),
        ("kind==k1&sort=-size", "composite kind,size, sorted by the steps: 256+"),
        ("kind==k1&sort=size,-id", "hash kind [kind==k1], sorted in memory: 256+"),
        ("kind==k1&size=lt=10&sort=-size", "composite kind,size, sorted by the steps: 100"),
        ("sort=kind,size", "composite kind,size, sorted by the steps: 256+"),
        ("sort=-kind,-size,-id", "composite kind,size, sorted by the steps: 256+"),
        ("sort=kind,-size", "table, sorted in memory: 256+"),
        ("sort=kind", "table, sorted in memory: 256+"),
        ("name==n1&sort=size,rank", "composite size,name,rank [name==n1], sorted by the steps: 256+"),
        ("size==13&name==n1&sort=-rank", "composite size,name,rank, sorted by the steps: 14"),
        ("size==13&sort=name,rank", "composite size,name,rank, sorted by the steps: 40"),
        ("size==13&rank=gt=5&sort=rank", "composite size,name,rank [rank=gt=5], sorted in memory: 40"),
        // Terms.
        ("about=ft=t1", "fulltext about: 200"),
        ("about=ft=T1%20u2", "fulltext about: 200+"),
        ("about=ft=all%20t1", "fulltext about: 200+"),
        ("notes=ft=t1", "fulltext notes: 200"),
        ("notes=ft=x1%20t1", "fulltext notes [notes=ft=x1%20t1]: 200+"),
        ("about=ft=t1%20u2&sort=-id", "fulltext about, sorted by the steps: 200+"),
        ("about=ft=t1&kind==k1&size==13", "composite kind,size [about=ft=t1]: 20"),
        ("!(about=ft=t1)", "table [!(about=ft=t1)]: 256+"),
    ];
    for (text, expected) in cases {
        assert_eq!(plan(&database, text), expected, "{text}");
    }
    let numbers =
        |text: &str| ids(&database, text).iter().map(|id| id.parse().expect("a number")).collect::<Vec<usize>>();
    assert_eq!(numbers("notes=ft=x1%20t1"), [0; 0], "no element has both");
    let mut both: Vec<usize> = (0..2000).filter(|number| number % 10 == 1 && number % 7 == 2).collect();
    assert_eq!(numbers("about=ft=u2%20t1"), both);
    both.reverse();
    assert_eq!(numbers("about=ft=u2%20t1&sort=-id"), both);
    let before = database.counters().looked_up;
    assert_eq!(
        numbers("about=ft=u2%20t1&limit=5"),
        (0..2000).filter(|number| number % 70 == 51).take(5).collect::<Vec<_>>()
    );
    assert_eq!(database.counters().looked_up - before, 5, "only what has all terms is read");
}

#[test]
fn long_texts_in_a_composite_index_are_in_order_all_the_same() {
    let sdl = "type T @table @compositeIndex(fields: [\"kind\", \"name\", \"rank\"]) { id: ID @primaryKey kind: String name: String rank: Int }";
    let (long, short) = ("x".repeat(1500), "y".repeat(3));
    let name =
        |number: usize| if number.is_multiple_of(5) { short.clone() } else { format!("{long}{}", number * 37 % 100) };
    let kind =
        |number: usize| format!("{}{}", "k".repeat(if number.is_multiple_of(2) { 1 } else { 1100 }), number % 3 % 2);
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": kind(number), "name": name(number), "rank": number % 10 });
    let (_directory, database) = filled(sdl, 0..1200, record);
    let sorted = |matches: &dyn Fn(usize) -> bool, by_kind: bool| {
        let kind = |number| if by_kind { kind(number) } else { String::new() };
        let places = (0..1200).filter(|number| matches(*number));
        let mut places: Vec<_> =
            places.map(|number| (kind(number), name(number), number % 10, format!("{number:04}"))).collect();
        places.sort();
        places.into_iter().map(|(.., id)| id).collect::<Vec<_>>()
    };
    let mut all = sorted(&|_| true, true);
    assert_eq!(plan(&database, "sort=kind,name,rank"), "composite kind,name,rank, sorted by the steps: 256+");
    assert_eq!(ids(&database, "sort=kind,name,rank"), all);
    assert_eq!(ids_by_pages(&database, "sort=kind,name,rank", 37, || ()), all);
    all.reverse();
    assert_eq!(ids(&database, "sort=-kind,-name,-rank"), all);
    for chosen in [kind(0), kind(1), kind(2)] {
        let text = format!("kind=={chosen}&sort=name,rank");
        let expected = sorted(&|number| kind(number) == chosen, false);
        assert_eq!(ids(&database, &text), expected, "{text}");
        assert_eq!(ids_by_pages(&database, &text, 23, || ()), expected, "{text}");
    }
}

/// What cannot be answered without an index that is being built is to be asked again later; what can, is answered.
#[test]
fn an_order_that_needs_an_index_that_is_being_built_is_refused_for_now() {
    let bare = "type T @table { id: ID @primaryKey kind: String size: Int }";
    let record = |number: usize| json!({ "id": format!("{number:04}"), "kind": format!("k{}", number % 4), "size": number % 50 });
    let (directory, database) = filled(bare, 0..1000, record);
    drop(database);
    let sdl = bare
        .replace("@table", "@table @compositeIndex(fields: [\"kind\", \"size\"])")
        .replace("size: Int", "size: Int @indexed");
    let database = open_idle(directory.path(), &sdl).expect("indexes may be added");
    let outcome = |text: &str| {
        let (table, limits) = (database.table("T").expect("it exists"), Limits::in_url(1000));
        let query = Query::parse(database.schema(), table, text, &limits).expect("it is read");
        engine::outcome(&query.run(&database, table, |_| Ok(())))
    };
    for (text, then) in [
        ("sort=size&offset=100000", "ok"),
        ("kind==k1&sort=-size&offset=100000", "ok"),
        ("sort=kind&offset=100000", "invalid"),
    ] {
        let now = if then == "ok" { "busy" } else { then };
        assert_eq!((outcome(text), outcome(&text.replace("100000", "10"))), (now, "ok"), "{text}");
    }
    assert_eq!(plan(&database, "kind==k1&size==13"), "table [kind==k1] [size==13]: 256+");
    database.catch_up().expect("it can be built");
    for (text, then) in [
        ("sort=size&offset=100000", "ok"),
        ("kind==k1&sort=-size&offset=100000", "ok"),
        ("sort=kind&offset=100000", "invalid"),
    ] {
        assert_eq!(outcome(text), then, "{text}");
    }
    assert_eq!(plan(&database, "kind==k1&size==13"), "composite kind,size: 10");
}

#[test]
fn the_fewest_entries_decide_and_what_they_answer_is_not_asked_again() {
    let (_directory, database) = shop();
    let cases = [
        ("", "table: 256+"),
        ("stock==1", "table [stock==1]: 256+"),
        ("id==0001&stock==1", "id [stock==1]: 1+"),
        ("id=in=0003,0001", "id: 2+"),
        ("sku==s7", "unique sku [sku==s7]: 1+"),
        ("kind==k7", "hash kind [kind==k7]: 10"),
        ("name==n0007", "ordered name: 1"),
        ("name==n00*", "ordered name: 100"),
        ("name==n0*7", "ordered name [name==n0*7]: 256+"),
        ("name==*0*7", "table [name==*0*7]: 256+"),
        ("id=sw=00", "table: 100"),
        ("price=gt=190&price=le=192&stock==1", "ordered price [stock==1]: 10"),
        ("price=gt=5&price=lt=5", ": 0"),
        ("note=ct=x", "table [note=ct=x]: 256+"),
        ("note", "table [note]: 256+"),
        // Rivals: whoever comes to its end first.
        ("kind==k7&price==7", "ordered price [kind==k7]: 5"),
        ("kind==k7&price=lt=100", "hash kind [kind==k7] [price=lt=100]: 10"),
        ("tags==t1&price==5&kind=in=k5,k6", "ordered price [tags==t1] [kind=in=k5,k6]: 5"),
        // All have very many: the kind of the condition decides.
        ("price=gt=10&tags==all", "ordered tags [price=gt=10]: 256+"),
        ("name=gt=n&price=gt=1&price=lt=199", "ordered price [name=gt=n]: 256+"),
        // Of an estimate it is said that it is one: two tags, one record.
        ("tags=gele=t0,t1&name==n00*&price=lt=9", "ordered price [tags=gele=t0,t1] [name==n00*]: 45"),
        ("tags=sw=t1&id=sw=0", "ordered tags [id=sw=0]: 250+"),
        // Alternatives, each by its index; and not, if one has none.
        ("price==1|kind==k7", "ordered price then hash kind [kind==k7]: 15+"),
        ("(price==1|sku==s7)&stock==1", "ordered price [stock==1] then unique sku [sku==s7] [stock==1]: 6+"),
        ("price==1|stock==1", "table [price==1|stock==1]: 256+"),
        ("!(price==1)", "table [!(price==1)]: 256+"),
    ];
    for (text, expected) in cases {
        assert_eq!(plan(&database, text), expected, "{text}");
    }
}

#[test]
fn an_index_that_has_the_order_is_walked_unless_few_are_to_be_sorted() {
    let (_directory, database) = shop();
    let cases = [
        ("sort=price&limit=5", "ordered price, sorted by the steps: 256+"),
        ("sort=-price,-id", "ordered price, sorted by the steps: 256+"),
        ("sort=-id", "table, sorted by the steps: 256+"),
        ("sort=price,-id&limit=5", "table, sorted in memory: 256+"),
        ("sort=stock", "table, sorted in memory: 256+"),
        ("price=ge=150&sort=price", "ordered price, sorted by the steps: 250"),
        ("price=ge=50&sort=-price", "ordered price, sorted by the steps: 256+"),
        ("price==5&sort=price,id", "ordered price, sorted by the steps: 5"),
        ("kind==k7&sort=-id", "hash kind [kind==k7], sorted by the steps: 10"),
        ("kind==k7&sort=price", "hash kind [kind==k7], sorted in memory: 10"),
        ("tags==all&sort=price", "ordered price [tags==all], sorted by the steps: 256+"),
        ("stock==1&sort=price", "ordered price [stock==1], sorted by the steps: 256+"),
        ("price&sort=price", "ordered price, sorted by the steps: 256+"),
        ("price=in=7,5&sort=-price", "ordered price, sorted by the steps: 10"),
        ("price==5|price==7&sort=price", "ordered price then ordered price, sorted in memory: 10+"),
    ];
    for (text, expected) in cases {
        let text = text.replacen("price==5|price==7", "(price==5|price==7)", 1);
        assert_eq!(plan(&database, &text), expected, "{text}");
    }
    let table = database.table("T").expect("it exists");
    let mut deep =
        Query::parse(database.schema(), table, "sort=stock&offset=100000", &Limits::in_url(1)).expect("it is read");
    assert_eq!(engine::outcome(&deep.run(&database, table, |_| Ok(()))), "invalid");
    deep.offset -= 1;
    assert_eq!(engine::outcome(&deep.run(&database, table, |_| Ok(()))), "ok");
}

#[test]
fn texts_longer_than_an_index_holds_are_in_order_all_the_same() {
    let (_directory, database) = fresh("type T @table { id: ID @primaryKey name: String @indexed }");
    let long = "x".repeat(2000);
    // Many more than a batch, all alike to the index, the ids in no order of the names; and some on either side.
    let name = |number: usize| match number % 7 {
        0 => format!("a{number}"),
        1 => format!("y{number}"),
        _ => format!("{long}{}", number * 37 % 1500),
    };
    let records: Vec<Json> =
        (0..1500).map(|number| json!({ "id": format!("{number:04}"), "name": name(number) })).collect();
    let body = serde_json::to_vec(&records).expect("JSON");
    database.create_all(database.table("T").expect("it exists"), &body).expect("long names");
    let mut expected: Vec<(String, String)> = (0..1500).map(|number| (name(number), format!("{number:04}"))).collect();
    expected.sort();
    let mut expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(plan(&database, "sort=name"), "ordered name, sorted by the steps: 256+");
    assert_eq!(ids(&database, "sort=name"), expected);
    assert_eq!(ids(&database, "sort=name&offset=500&limit=300"), expected[500..800]);
    expected.reverse();
    assert_eq!(ids(&database, "sort=-name"), expected);
    assert_eq!(ids(&database, "name=gt=b&sort=-name&offset=200&limit=7")[..], expected[200..207]);
}

#[test]
fn values_that_nothing_has_are_not_looked_up_for_nothing() {
    let (_directory, database) = shop();
    let absent: Vec<String> = (5000..6000).map(|price| price.to_string()).collect();
    let text = format!("price=in={}&kind==k7", absent.join(","));
    let expected = format!("hash kind [price=in={}] [kind==k7]: 10", absent.join(","));
    assert_eq!(plan(&database, &text), expected, "a thousand empty stretches are more work than ten entries");
}

/// The ids that a query lists, and how many records it has read by their keys.
fn ids_and_reads(database: &Database, text: &str) -> (Vec<String>, u64) {
    let before = database.counters().looked_up;
    let ids = ids(database, text);
    (ids, database.counters().looked_up - before)
}

#[test]
fn a_contested_order_reads_at_most_twice_the_records_of_the_better_plan() {
    const RECORDS: usize = 3000;
    let sdl =
        "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") same: String place: Int @indexed }";
    let mut takeovers = 0;
    for lights in [257, 300, 1000, 2500] {
        // Evenly spread, at the beginning of the order, and at its end.
        let spread = |place: usize| (place * lights / RECORDS) != ((place + 1) * lights / RECORDS);
        let placements: [&dyn Fn(usize) -> bool; 3] =
            [&spread, &|place| place < lights, &|place| place >= RECORDS - lights];
        for is_light in placements {
            let (_directory, database) = filled(sdl, 0..RECORDS, |number| {
                let place = number * 7 % RECORDS; // Ids are in another order.
                let kind = if is_light(place) { "light" } else { "dark" };
                json!({ "id": format!("{number:04}"), "kind": kind, "same": kind, "place": place })
            });
            let (all, gathered) = ids_and_reads(&database, "kind==light");
            assert_eq!((all.len(), gathered), (lights, lights as u64));
            for clauses in ["limit=1", "limit=10", "limit=10&offset=150", "limit=100", "limit=500", "offset=7"] {
                for sort in ["sort=place", "sort=-place"] {
                    let (expected, walked) = ids_and_reads(&database, &format!("same==light&{sort}&{clauses}"));
                    let (listed, read) = ids_and_reads(&database, &format!("kind==light&{sort}&{clauses}"));
                    let shown = format!("{lights} lights, {sort}&{clauses}");
                    assert_eq!(listed, expected, "{shown}");
                    let sorted = gathered + expected.len() as u64; // These are read again in their order.
                    assert!(read <= 2 * walked.min(sorted), "{shown}: {read}, walked {walked}, sorted {sorted}");
                    takeovers += usize::from(read > walked.min(sorted) && walked > gathered);
                }
            }
        }
    }
    assert!(takeovers > 20, "walks have given up: {takeovers}");
}

#[test]
fn what_competes_with_a_walk_in_order_is_explained() {
    let sdl = "type T @table { id: ID @primaryKey kind: String @indexed(type: \"hash\") place: Int @indexed }";
    let (_directory, database) = filled(sdl, 0..2000, |number| {
        let kind = if number % 4 == 0 { "light" } else { "dark" };
        json!({ "id": format!("{number:04}"), "kind": kind, "place": 2000 - number })
    });
    let explained = |text: &str| {
        let table = database.table("T").expect("it exists");
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(100)).expect("it is read");
        serde_json::to_value(query.explain(&database, table).expect("it is explained")).expect("it is JSON")
    };
    let walk = explained("kind==light&sort=place&limit=10");
    let by = |attribute: &str, kind: &str| json!({ "attribute": attribute, "type": kind, "ranges": 1 });
    assert_eq!(walk["steps"][0]["index"], by("place", "ordered"), "{walk}");
    assert_eq!(walk["otherwise"]["steps"][0]["index"], by("kind", "hash"), "{walk}");
    assert_eq!(walk["otherwise"]["estimate"], json!({ "records": 256, "exact": false }), "no more are counted: {walk}");
    let gathered = explained("kind==light&place=gt=1990&sort=place&limit=10");
    assert_eq!((&gathered["sorted"], gathered.get("otherwise")), (&json!("by the steps"), None), "{gathered}");
}
