//! The verbs of records and lists, as the contract says.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, LINK, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::media::{Accepted, Format};
use super::*;
use crate::error::Error;
use crate::query::{Limits, Query};
use crate::schema::Schema;
use crate::storage;
use crate::transaction::Database;

fn database(folder: &tempfile::TempDir) -> Database {
    let schema =
        "type Product @table @export { id: ID! @primaryKey name: String! brand: String @indexed sku: String @unique }";
    Database::open(folder.path(), Schema::parse(schema).unwrap(), &storage::Options::default()).unwrap()
}

fn status(result: Result<Response>) -> u16 {
    result.unwrap_or_else(|failure| failure.respond(None)).status().as_u16()
}

#[test]
fn verbs_answer_as_the_contract_says() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder);
    let table = database.table("Product").unwrap();
    let none = HeaderMap::new();

    let created = create(&database, table, &HeaderMap::new(), br#"{"id":"a b","name":"Lamp","brand":"x"}"#).unwrap();
    assert_eq!(created.status(), 201);
    assert_eq!(created.headers()[LOCATION], "/Product/a%20b");
    assert_eq!(created.body(), &br#"{"id":"a b","name":"Lamp","brand":"x","sku":null}"#[..]);
    let read_back = read(&database, table, "a b", &none, Accepted::default()).unwrap();
    assert_eq!((read_back.body(), &read_back.headers()[ETAG]), (created.body(), &created.headers()[ETAG]));

    let mut known = HeaderMap::new();
    known.insert(http::header::IF_NONE_MATCH, created.headers()[ETAG].clone());
    let unchanged = read(&database, table, "a b", &known, Accepted::default()).unwrap();
    assert_eq!((unchanged.status().as_u16(), unchanged.body().len()), (304, 0));

    let mut stale = HeaderMap::new();
    stale.insert(http::header::IF_MATCH, HeaderValue::from_static("\"0000000000000000\""));
    assert_eq!(status(read(&database, table, "a b", &stale, Accepted::default())), 412);
    assert_eq!(status(merge(&database, table, "a b", &stale, b"{}")), 412);
    assert_eq!(status(replace(&database, table, "new", &stale, br#"{"name":"n"}"#)), 412);
    assert_eq!(status(delete(&database, table, "new", &stale)), 404);
    assert_eq!(status(replace(&database, table, "new", &none, br#"{"name":"n","sku":"1"}"#)), 201);
    assert_eq!(status(replace(&database, table, "new", &none, br#"{"name":"n","sku":"1"}"#)), 200);
    assert_eq!(status(create(&database, table, &HeaderMap::new(), br#"{"name":"n","sku":"1"}"#)), 409);
    assert_eq!(status(delete(&database, table, "new", &none)), 204);
    assert_eq!(status(read(&database, table, "new", &none, Accepted::default())), 404);
}

#[test]
fn lists_are_cut_and_filtered() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder);
    let table = database.table("Product").unwrap();
    let body =
        br#"[{"id":"1","name":"a","brand":"x"},{"id":"2","name":"b","brand":"y"},{"id":"3","name":"c","brand":"x"}]"#;
    let all = create_all(&database, table, &HeaderMap::new(), body).unwrap();
    let ids = |query: &str| {
        let query = Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap();
        let response = list(&database, table, &query, Format::Json).unwrap();
        let records: Vec<serde_json::Value> = serde_json::from_slice(response.body()).unwrap();
        records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(list(&database, table, &Query::default(), Format::Json).unwrap().body(), all.body());
    assert_eq!(ids("brand=x"), "13");
    assert_eq!(ids("brand==x&limit=1"), "1");
    assert_eq!(ids("limit=2"), "12");
    assert_eq!(ids("limit=0"), "");
    assert_eq!(ids("id==2"), "2");
    assert_eq!(ids("brand==z"), "");
    assert_eq!(ids("sort=-name&limit=2"), "32");
    let selected = Query::parse(database.schema(), table, "select=name,id&id==2", &Limits::in_url(100)).unwrap();
    assert_eq!(list(&database, table, &selected, Format::Json).unwrap().body(), &br#"[{"name":"b","id":"2"}]"#[..]);
}

#[test]
fn a_long_list_is_handed_over_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder);
    let table = database.table("Product").unwrap();
    let name = "n".repeat(PIECE_BYTES / 10);
    for id in 10..60 {
        let body = format!("{{\"id\":\"{id}\",\"name\":\"{name}\"}}");
        create(&database, table, &HeaderMap::new(), body.as_bytes()).unwrap();
    }
    let pieces_of = |query: &str| {
        let (mut pieces, query) =
            (Vec::new(), Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap());
        let send_chunk = |piece| {
            pieces.push(piece);
            Ok(())
        };
        let last = list_in_pieces(&database, table, &query, Format::Json, send_chunk).unwrap().into_body();
        assert_eq!(
            list(&database, table, &query, Format::Json).unwrap().body(),
            &[pieces.concat(), last.to_vec()].concat()
        );
        pieces.iter().map(Vec::len).collect::<Vec<_>>()
    };
    let lengths = pieces_of("");
    assert!(lengths.len() == 5 && lengths.iter().all(|length| (PIECE_BYTES..2 * PIECE_BYTES).contains(length)));
    assert_eq!((pieces_of("limit=5"), pieces_of("limit=0")), (vec![], vec![]));
    let in_memory = |query: &str| {
        let query = Query::parse(database.schema(), table, query, &Limits::in_url(100)).unwrap();
        list(&database.never_blocking(), table, &query, Format::Json)
    };
    assert_eq!(status(in_memory("limit=5")), 200);
    assert!(matches!(in_memory("limit=50"), Err(Failure::Error(Error::WouldBlock))));
}

#[test]
fn a_list_that_was_cut_says_how_it_goes_on_however_long_its_query_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&folder);
    let table = database.table("Product").unwrap();
    let body = br#"[{"id":"1","name":"a"},{"id":"2","name":"b"},{"id":"3","name":"c"}]"#;
    create_all(&database, table, &HeaderMap::new(), body).unwrap();
    let listed = |text: &str| {
        let query = Query::parse(database.schema(), table, text, &Limits::in_body(100)).unwrap();
        let response = list(&database, table, &query, Format::Json).unwrap();
        let link = response.headers().get(LINK).map(|link| link.to_str().unwrap().to_owned());
        (String::from_utf8(response.into_body().to_vec()).unwrap(), link)
    };
    let short = listed("limit=2&select=id").1.unwrap();
    assert!(short.starts_with("</Product?limit=2&select=id&after=") && short.ends_with(">; rel=\"next\""), "{short}");
    let long = format!("id=in=1,2,3{}&limit=2&select=id", ",4".repeat(5000));
    let (first, link) = listed(&long);
    let link = link.unwrap();
    let cursor = link.strip_prefix("</Product/query>; rel=\"next\"; after=\"").unwrap().strip_suffix('"').unwrap();
    assert_eq!(first, r#"[{"id":"1"},{"id":"2"}]"#);
    assert_eq!(listed(&format!("{long}&after={cursor}")), (r#"[{"id":"3"}]"#.to_owned(), None));
}

#[test]
fn head_keeps_the_length() {
    let response = without_body(with_body(StatusCode::OK, JSON, Bytes::from_static(b"[]")));
    assert_eq!((response.body().len(), &response.headers()[CONTENT_LENGTH]), (0, &HeaderValue::from(2)));
}
