//! Requests that resolve to routes, and those that are rejected.

use super::call::SHORT_BODY_BYTES;
use super::*;
use crate::storage;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};

fn routes(folder: &tempfile::TempDir) -> Routes {
    let schema = "type Product @table @export { id: ID! @primaryKey name: String picture: Blob } \
                  type Ledger @table(durability: \"strong\") @export { id: ID! @primaryKey } \
                  type Secret @table { id: ID! @primaryKey }";
    let schema = Schema::parse(schema).unwrap();
    let database = Database::open(folder.path(), schema, &storage::Options::default()).unwrap();
    Routes::new(database, Options::default()).unwrap()
}

fn describe(routes: &Routes, method: &str, uri: &str, headers: &HeaderMap) -> String {
    let (method, uri): (Method, Uri) = (method.parse().unwrap(), uri.parse().unwrap());
    match routes.resolve(&method, &uri, headers) {
        None => "other".to_owned(),
        Some(Ok(Route { target: Target::Graphql(..), .. })) => "graphql".to_owned(),
        Some(Ok(Route { target: Target::Batch, .. })) => "batch".to_owned(),
        Some(Ok(Route { target: Target::Stream(stream, asked), .. })) => format!("{asked:?} {}", stream.name),
        Some(Ok(Route { target: Target::Changes(changes), .. })) => {
            let verb = if changes.holds { "hold" } else { "follow" };
            let after = changes.after.map(|after| after.to_string()).unwrap_or_default();
            format!("{verb} {} {after}", describe_topic(routes, &changes.topic))
        }
        Some(Ok(Route { target: Target::Multicast(table, conditions), .. })) => {
            format!("multicast {} where {}", table.name, conditions.text)
        }
        Some(Ok(Route { target: Target::Options(_), .. })) => "options".to_owned(),
        Some(Ok(Route { target: Target::Load(table), .. })) => format!("load {}", table.name),
        Some(Ok(Route { target: Target::Blob(Blob { access, table, id, attribute, thumbnail }), .. })) => {
            let thumbnail = thumbnail.map(|size| format!(" as {size}")).unwrap_or_default();
            format!("{access:?} {} {id} {}{thumbnail}", table.name, table.attributes[attribute].name)
        }
        Some(Ok(Route { target: Target::Table(table, verb), .. })) => match verb {
            Verb::Read(id) => format!("read {} {id}", table.name),
            Verb::ReadSelected(id, _) => format!("read {} {id} cut", table.name),
            Verb::Replace(id) => format!("replace {} {id}", table.name),
            Verb::Merge(id) => format!("merge {} {id}", table.name),
            Verb::Delete(id) => format!("delete {} {id}", table.name),
            Verb::ReplaceAll => format!("replace {}", table.name),
            Verb::MergeMatching(text, _) => format!("merge {} where {text}", table.name),
            Verb::DeleteMatching(text, _) => format!("delete {} where {text}", table.name),
            Verb::List(query) => format!("list {} {}", table.name, query.limit.unwrap_or(usize::MAX)),
            Verb::ListByBody(_) => format!("list {} by body", table.name),
            Verb::Create => format!("create {}", table.name),
        },
        Some(Err(failure)) => failure.respond(None).status().as_u16().to_string(),
    }
}

/// The table of a topic and the id of the record, which is one of these tests.
fn describe_topic(routes: &Routes, topic: &Topic) -> String {
    let mut known = routes.database.schema().tables.iter().flat_map(|table| {
        let records = ["a b", "1"].map(|id| (Topic::record(table, id), format!("{} {id}", table.name)));
        records.into_iter().chain([(Topic::table(table), format!("{} ", table.name))])
    });
    known.find(|(known, _)| known == topic).map_or("other".to_owned(), |(_, text)| text)
}

#[test]
fn paths_and_methods() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let cases = [
        ("GET", "/Product/1", "read Product 1"),
        ("HEAD", "/Product/a%2Fb%20+", "read Product a/b +"),
        ("GET", "/%50roduct/1", "read Product 1"),
        ("GET", "http://host/Product/1", "read Product 1"),
        ("GET", "/Product/1?select=id", "read Product 1 cut"),
        ("GET", "/Product/1?limit=1", "400"),
        ("GET", "/Product", "list Product 10000"),
        ("GET", "/Product/", "list Product 10000"),
        ("GET", "/Product/?limit=3", "list Product 3"),
        ("POST", "/Product/", "create Product"),
        ("POST", "/Product/query", "list Product by body"),
        ("PUT", "/Product/query", "replace Product query"),
        ("PUT", "/Product/1", "replace Product 1"),
        ("PATCH", "/Product/1", "merge Product 1"),
        ("DELETE", "/Product/1", "delete Product 1"),
        ("DELETE", "/Product?id==1", "delete Product where id==1"),
        ("OPTIONS", "/Product/1", "options"),
        ("POST", "/Product/1", "405"),
        ("PUT", "/Product", "replace Product"),
        ("PUT", "/Product?id==1", "400"),
        ("PATCH", "/Product?id==1", "merge Product where id==1"),
        ("POST", "/_batch", "batch"),
        ("OPTIONS", "/_batch", "options"),
        ("GET", "/_batch", "405"),
        ("POST", "/_batch?x", "400"),
        ("POST", "/_batch/x", "other"),
        ("TRACE", "/Product", "405"),
        ("GET", "/Product/1/picture", "Read Product 1 picture"),
        ("HEAD", "/Product/a%2Fb/%70icture", "Describe Product a/b picture"),
        ("PUT", "/Product/query/picture", "Write Product query picture"),
        ("DELETE", "/Product/1/picture", "Delete Product 1 picture"),
        ("OPTIONS", "/Product/1/picture", "options"),
        ("PATCH", "/Product/1/picture", "405"),
        ("POST", "/Product/query/picture", "405"),
        ("GET", "/Product/1/picture?thumb=64x64", "Read Product 1 picture as 64x64"),
        ("HEAD", "/Product/1/picture?thumb=0x64", "Describe Product 1 picture as 0x64"),
        ("GET", "/Product/1/picture?thumb=64", "400"),
        ("GET", "/Product/1/picture?thumb=64x64&x", "400"),
        ("PUT", "/Product/1/picture?thumb=64x64", "400"),
        ("PUT", "/Product/1/picture?x", "400"),
        ("GET", "/Product/1/name", "404"),
        ("OPTIONS", "/Product/1/name", "404"),
        ("GET", "/Product/1/", "read Product 1"),
        ("PUT", "/Product/1/", "replace Product 1"),
        ("DELETE", "/Product/a%2Fb/", "delete Product a/b"),
        ("OPTIONS", "/Product/1/", "options"),
        ("GET", "/Product//", "404"),
        ("GET", "/Product/1//", "404"),
        ("GET", "/Product/1/picture/", "404"),
        ("GET", "/Product/%FF/picture", "400"),
        ("GET", "/Ledger/1/picture", "404"),
        ("GET", "/Product/%FF", "400"),
        ("POST", "/Product?x", "400"),
        ("GET", "/Secret/1", "other"),
        ("GET", "/product/1", "other"),
        ("GET", "/", "other"),
        ("OPTIONS", "*", "other"),
        ("GET", "/_health", "other"),
        ("POST", "/graphql", "graphql"),
        ("GET", "/graphql?query=x", "graphql"),
        ("OPTIONS", "/graphql", "options"),
        ("PUT", "/graphql", "405"),
        ("POST", "/graphql/x", "other"),
    ];
    for (method, uri, expected) in cases {
        assert_eq!(describe(&routes, method, uri, &typed(method, uri)), expected, "{method} {uri}");
    }
}

/// Returns the headers with the media type of a body for this method and path.
fn typed(method: &str, uri: &str) -> HeaderMap {
    let is_query = (method, uri) == ("POST", "/Product/query");
    let media_type = if is_query { "text/plain" } else { "application/json" };
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
}

#[test]
fn requests_to_one_table_have_three_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let templates = routes.templates();
    let of_tables =
        ["Ledger", "Product"].map(|name| ["", "/{id}", "/{id}/{blob}"].map(|shape| format!("/{name}{shape}")));
    assert_eq!(templates, [of_tables.concat(), ["/graphql", "/_batch"].map(str::to_owned).to_vec()].concat());
    for (method, uri, expected) in [
        (Method::GET, "/Ledger/a", "/Ledger/{id}"),
        (Method::GET, "/Product?limit=1", "/Product"),
        (Method::POST, "/%50roduct/", "/Product"),
        (Method::PUT, "/Product/a%2Fb", "/Product/{id}"),
        (Method::GET, "/Product/1/", "/Product/{id}"),
        (Method::OPTIONS, "/Product", "/Product"),
        (Method::OPTIONS, "/Product/1", "/Product/{id}"),
        (Method::POST, "/graphql", "/graphql"),
        (Method::POST, "/_batch", "/_batch"),
        (Method::GET, "/Product/1/picture", "/Product/{id}/{blob}"),
        (Method::DELETE, "/Product/1/picture", "/Product/{id}/{blob}"),
        (Method::OPTIONS, "/Product/1/picture", "/Product/{id}/{blob}"),
    ] {
        let uri: Uri = uri.parse().unwrap();
        let route = routes.resolve(&method, &uri, &typed(method.as_str(), uri.path())).unwrap().unwrap();
        assert_eq!(templates[route.template().0], expected, "{uri}");
        assert_eq!(templates[routes.template_of(&uri).unwrap().0], expected, "{uri}");
    }
    let uri: Uri = "/Product/1/nothing".parse().unwrap();
    assert_eq!(templates[routes.template_of(&uri).unwrap().0], "/Product/{id}/{blob}", "that is refused, too");
    assert!(routes.template_of(&Uri::from_static("/Secret/1")).is_none());
}

#[test]
fn types_are_settled_before_the_body() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
    assert_eq!(describe(&routes, "GET", "/Product/1", &with(ACCEPT, "text/html")), "406");
    assert_eq!(describe(&routes, "DELETE", "/Product/1", &with(ACCEPT, "text/html")), "delete Product 1");
    assert_eq!(describe(&routes, "POST", "/Product", &with(CONTENT_TYPE, "text/csv")), "415");
    let patch = with(CONTENT_TYPE, "application/merge-patch+json");
    assert_eq!(describe(&routes, "PATCH", "/Product/1", &patch), "merge Product 1");
    assert_eq!(describe(&routes, "PUT", "/Product/1", &patch), "415");
    assert_eq!(describe(&routes, "POST", "/Product", &with(CONTENT_TYPE, "application/x-ndjson")), "load Product");
    assert_eq!(describe(&routes, "PUT", "/Product", &with(CONTENT_TYPE, "application/x-ndjson")), "415");
    let csv = with(ACCEPT, "text/csv");
    assert_eq!(describe(&routes, "GET", "/Product", &csv), "list Product 10000");
    assert_eq!(describe(&routes, "GET", "/Product/1", &csv), "406");
    assert_eq!(describe(&routes, "GET", "/Product?explain=true", &csv), "406");
    let cbor = with(CONTENT_TYPE, "application/cbor");
    assert_eq!(describe(&routes, "POST", "/_batch", &cbor), "batch");
    assert_eq!(describe(&routes, "POST", "/graphql", &cbor), "415", "GraphQL is JSON");
}

#[test]
fn a_list_in_lines_is_cut_only_where_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let lines = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/x-ndjson"))]);
    assert_eq!(describe(&routes, "GET", "/Product", &lines), format!("list Product {}", usize::MAX));
    assert_eq!(describe(&routes, "GET", "/Product?id!=1&limit=3", &lines), "list Product 3");
    assert_eq!(describe(&routes, "GET", "/Product?limit=20000", &lines), "400");
    let uri = Uri::from_static("/Product");
    let route = routes.resolve(&Method::GET, &uri, &lines).unwrap().unwrap();
    let call = Call::new(&route, b"");
    assert_eq!((call.pool(), call.work()), (Pool::Dumping, Work::Long));
}

#[test]
fn paths_of_operations() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let target = |path: &str| match routes.operation_target(path) {
        Ok(batch::Target::Table(table, id)) => format!("{} {}", table.name, id.as_deref().unwrap_or("-")),
        Ok(batch::Target::Stream(stream)) => format!("stream {}", stream.name),
        Ok(batch::Target::Group(stream, group)) => format!("group {} {group}", stream.name),
        Err(failure) => failure.respond(None).status().as_u16().to_string(),
    };
    for (path, expected) in [
        ("/Product", "Product -"),
        ("/Product/", "Product -"),
        ("/%50roduct/a%2Fb", "Product a/b"),
        ("/Product/1/", "Product 1"),
        ("/Product/1/x", "404"),
        ("/Product/1?select=id", "400"),
        ("/Product/%FF", "400"),
        ("/Secret/1", "404"),
        ("/_batch", "404"),
        ("Product/1", "404"),
        ("", "404"),
    ] {
        assert_eq!(target(path), expected, "{path}");
    }
}

#[test]
fn a_table_in_another_case_is_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let detail = |path: &str| routes.nothing_at(path).detail();
    assert_eq!(detail("/product"), "no resource at /product: did you mean /Product?");
    assert_eq!(detail("/PRODUCT/a%2Fb"), "no resource at /PRODUCT/a%2Fb: did you mean /Product/a%2Fb?");
    for path in ["/secret", "/Product/1/x/y", "/Products", "/", "", "product"] {
        assert_eq!(detail(path), format!("no resource at {path}"));
    }
}

#[test]
fn changes_are_followed_by_get_alone() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    for (method, uri, expected) in [
        ("GET", "/Product?stream=sse", "follow Product  "),
        ("HEAD", "/Product/?stream=sse", "follow Product  "),
        ("GET", "/Product/a%20b?stream=sse", "follow Product a b "),
        ("GET", "/Product?stream=sse&hold=false", "follow Product  "),
        ("GET", "/Product?stream=sse&hold=true", "400"),
        ("GET", "/Product/1?stream=sse&hold=true", "400"),
        ("GET", "/Product?stream=websocket", "400"),
        ("GET", "/Product?stream=", "400"),
        ("GET", "/Product?stream=sse&limit=1", "400"),
        ("GET", "/Product?(stream=sse)", "400"),
        ("GET", "/Product?stream", "400"),
        ("GET", "/Product/1/picture?stream=sse", "400"),
        ("POST", "/Product?stream=sse", "400"),
        ("DELETE", "/Product/1?stream=sse", "400"),
        ("GET", "/Secret?stream=sse", "other"),
    ] {
        assert_eq!(describe(&routes, method, uri, &typed(method, uri)), expected, "{method} {uri}");
    }
    let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
    let last_event_id = http::HeaderName::from_static("last-event-id");
    let after = |id| describe(&routes, "GET", "/Product?stream=sse", &with(last_event_id.clone(), id));
    assert_eq!((after("1-2-3-4"), after("3")), ("follow Product  1-2-3-4".to_owned(), "400".to_owned()));
    assert_eq!(describe(&routes, "GET", "/Product?stream=sse", &with(ACCEPT, "application/json")), "406");
    let place = |query| match asks_for_changes(query) {
        Err(Failure::Error(Error::Invalid { place: Place::Position(position), .. })) => position,
        other => panic!("{query}: {other:?}"),
    };
    assert_eq!(place("stream=rss"), 7);
    assert_eq!(place("stream=sse&price=gt=5"), 11);
    assert_eq!(place("price=gt=5;stream=sse"), 0);
    assert_eq!(place("stream=sse&stream=sse"), 11);
}

#[test]
fn long_work_is_known_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let routes = routes(&folder);
    let work = |method: Method, uri: &str, body: &[u8]| {
        let uri: Uri = uri.parse().unwrap();
        let route = routes.resolve(&method, &uri, &typed(method.as_str(), uri.path())).unwrap().unwrap();
        Call::new(&route, body).work()
    };
    assert_eq!(work(Method::GET, "/Product/1", b""), Work::Short);
    assert_eq!(work(Method::POST, "/Product", b" {}"), Work::Short);
    assert_eq!(work(Method::POST, "/Product", b" [{}]"), Work::Long);
    assert_eq!(work(Method::POST, "/_batch", b"{}"), Work::Long);
    assert_eq!(work(Method::POST, "/Ledger", b"{}"), Work::Short, "its sync is waited for elsewhere");
    for (method, path) in [(Method::POST, "/Product"), (Method::PUT, "/Product/1"), (Method::PATCH, "/Product/1")] {
        assert_eq!(work(method.clone(), path, &[b' '; SHORT_BODY_BYTES]), Work::Short, "{method}");
        assert_eq!(work(method.clone(), path, &[b' '; SHORT_BODY_BYTES + 1]), Work::Long, "{method}");
    }
    assert_eq!(work(Method::GET, "/Ledger/1", b""), Work::Short);
    assert_eq!(work(Method::GET, "/Product?limit=100", b""), Work::Short);
    assert_eq!(work(Method::GET, "/Product", b""), Work::Long);
    assert_eq!(work(Method::GET, "/Product?id==1", b""), Work::Short);
    assert_eq!(work(Method::GET, "/Product?id!=1&limit=1", b""), Work::Long);
    assert_eq!(work(Method::POST, "/Product/query", b"id==1\n"), Work::Short);
    assert_eq!(work(Method::POST, "/Product/query", b"id=ct=1"), Work::Long);
    assert_eq!(work(Method::POST, "/Product/query", b"no such query"), Work::Short);
    let long = format!("id=in=1{}", ",1".repeat(5000));
    assert_eq!(work(Method::POST, "/Product/query", long.as_bytes()), Work::Long);
    assert_eq!(work(Method::GET, "/Product?id==1&id=~=a", b""), Work::Long, "an expression has to be compiled");
}
