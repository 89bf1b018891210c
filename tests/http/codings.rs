//! What is compressed: responses by `Accept-Encoding`, whole and in pieces; bodies by gzip.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use strata::handlers::coding::Coding;

use super::client::{Connection, Response, ask, ask_with, start};

/// The bytes of a response without its coding.
fn decoded(response: &Response) -> Vec<u8> {
    let (bytes, mut out) = (&response.bytes[..], Vec::new());
    match response.header("content-encoding") {
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap()),
        "br" => drop(brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap()),
        "zstd" => {
            let mut context = zstd_safe::DCtx::create();
            let (mut input, mut room) = (zstd_safe::InBuffer::around(bytes), vec![0; 1 << 16]);
            loop {
                let mut step = zstd_safe::OutBuffer::around(&mut room[..]);
                let left = context.decompress_stream(&mut step, &mut input).unwrap();
                out.extend_from_slice(step.as_slice());
                if left == 0 {
                    assert_eq!(input.pos(), bytes.len(), "one frame and nothing behind it");
                    return out;
                }
            }
        }
        other => panic!("{other:?} is no coding"),
    }
    out
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn records_are_compressed_and_known_by_their_coding() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    // Short ones, one that is compressed where it was made, and one for which that would take too long.
    for (id, length) in [("short", 500), ("middle", 5000), ("long", 300_000)] {
        let path = format!("/Product/{id}");
        let note: String = (0..length).map(|number: u64| char::from(b'a' + (number * number % 23) as u8)).collect();
        assert_eq!(ask(server.url(), "PUT", &path, &format!(r#"{{"name":"Lamp","note":"{note}"}}"#)).status, 201);
        let plain = ask(server.url(), "GET", &path, "");
        for coding in Coding::ALL.map(Coding::name) {
            let accept = [("accept-encoding", coding)];
            let response = ask_with(server.url(), "GET", &path, &accept, b"");
            if id == "short" {
                assert_eq!((&response.body, response.header("vary")), (&plain.body, ""));
                continue;
            }
            assert_eq!((response.status, response.header("content-encoding")), (200, coding));
            assert_eq!((response.header("vary"), decoded(&response)), ("accept-encoding", plain.bytes.clone()));
            assert!(response.bytes.len() * 3 / 2 < plain.bytes.len(), "{coding}: {}", response.bytes.len());
            let etag = format!("{}-{coding}\"", plain.header("etag").trim_end_matches('"'));
            assert_eq!(response.header("etag"), etag);

            let known = ask_with(server.url(), "GET", &path, &[accept[0], ("if-none-match", &etag)], b"");
            assert_eq!((known.status, known.header("etag"), known.header("vary")), (304, &*etag, "accept-encoding"));
            let otherwise = [("accept-encoding", "identity"), ("if-none-match", &*etag)];
            assert_eq!(
                ask_with(server.url(), "GET", &path, &otherwise, b"").body,
                plain.body,
                "another representation"
            );
            let head = ask_with(server.url(), "HEAD", &path, &accept, b"");
            assert_eq!((head.status, head.header("content-encoding"), head.header("etag")), (200, coding, &*etag));
            assert_eq!(head.header("content-length"), response.bytes.len().to_string());
            let patched = ask_with(server.url(), "PATCH", &path, &[JSON, accept[0], ("if-match", &etag)], b"{}");
            assert_eq!((patched.status, decoded(&patched)), (200, plain.bytes.clone()), "the same version");
        }
    }
    let forced = [("accept-encoding", "br;q=0.1, identity;q=0")];
    let short = ask_with(server.url(), "GET", "/Product/short", &forced, b"");
    assert_eq!(
        (short.header("content-encoding"), decoded(&short).len()),
        ("br", ask(server.url(), "GET", "/Product/short", "").body.len())
    );
    let missing = ask_with(server.url(), "GET", "/Product/none", &forced, b"");
    assert_eq!(
        (missing.status, missing.header("content-encoding"), missing.header("vary")),
        (404, "br", "accept-encoding")
    );
    assert!(String::from_utf8(decoded(&missing)).unwrap().contains("no record"));
    let strong = [JSON, ("accept-encoding", "gzip")];
    let visit = ask_with(
        server.url(),
        "PUT",
        "/Visit/1",
        &strong,
        format!(r#"{{"page":"{}"}}"#, "x".repeat(50_000)).as_bytes(),
    );
    assert!(visit.status == 201 && decoded(&visit).len() > 50_000, "behind the sync");
}

/// Everything of some length is compressed, whatever its path; a client that refuses `identity` gets a coding or 406.
#[test]
fn what_is_beside_the_tables_is_compressed_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.checkpoint_dir = Some(folder.path().to_owned()));
    let get = |method: &str, path: &str, accept: &str| {
        ask_with(server.url(), method, path, &[("accept-encoding", accept)], b"")
    };
    let long = format!("/{}", "nothing".repeat(200));
    let paths = ["/_openapi.json", "/_tables", "/_metrics", "/_console", "/_console/graphiql.min.js", &long];
    for path in paths {
        let plain = ask(server.url(), "GET", path, "");
        assert!(plain.bytes.len() > 1024, "{path}");
        for coding in Coding::ALL.map(Coding::name) {
            let response = get("GET", path, coding);
            assert_eq!((response.status, response.header("content-encoding")), (plain.status, coding), "{path}");
            assert_eq!(
                (response.header("vary"), response.header("content-type")),
                ("accept-encoding", plain.header("content-type"))
            );
            let start = |bytes: &[u8]| bytes[..4].to_vec();
            assert_eq!(start(&decoded(&response)), start(&plain.bytes), "{path}");
            let head = get("HEAD", path, coding);
            assert_eq!(
                (head.status, head.header("content-encoding"), head.header("vary")),
                (plain.status, coding, "accept-encoding")
            );
        }
    }
    for path in [
        "/_health",
        "/_ready",
        "/_console/icon.svg",
        "/_openapi.json",
        "/graphql?query={__typename}",
        "/Product",
        "/_nothing",
    ] {
        let response = get("GET", path, "gzip, identity;q=0");
        assert_eq!(
            (response.header("content-encoding"), decoded(&response).len()),
            ("gzip", ask(server.url(), "GET", path, "").bytes.len()),
            "{path}"
        );
    }
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 201);
    assert_eq!(ask(server.url(), "PUT", "/Photo/1/picture", "{}").status, 201);
    for path in
        ["/_health", "/_tables", "/_counters", "/_openapi.json", "/_console", "/Product", "/graphql?query={__typename}"]
    {
        assert_eq!(get("GET", path, "deflate, identity;q=0").status, 406, "{path}");
    }
    for path in ["/Photo/1/picture", "/Photo/1?stream=sse", "/Photo?stream=sse"] {
        assert_eq!(get("GET", path, "gzip, identity;q=0").status, 406, "{path} has no coding");
    }
    let status = get("POST", "/_checkpoint?name=copy", "identity;q=0").status;
    assert_eq!((status, folder.path().join("copy").exists()), (406, false));
}

#[test]
fn the_document_and_the_console_are_known_by_their_coding() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let get = |path: &str| ask_with(server.url(), "GET", path, &[("accept-encoding", "gzip")], b"");
    let document = get("/_openapi.json");
    let known = |tag: &str, accept: &str| {
        let headers = [("accept-encoding", accept), ("if-none-match", tag)];
        let response = ask_with(server.url(), "GET", "/_openapi.json", &headers, b"");
        (response.status, response.header("vary").to_owned())
    };
    let tag = document.header("etag");
    assert!(tag.ends_with("-gzip\""), "{tag}");
    assert_eq!(known(tag, "gzip"), (304, "accept-encoding".to_owned()));
    assert_eq!((known(tag, "br").0, known(tag, "identity").0), (200, 200), "other representations");
    let console = get("/_console/console.js");
    let headers = [("accept-encoding", "gzip"), ("if-none-match", console.header("etag"))];
    assert_eq!(ask_with(server.url(), "GET", "/_console/console.js", &headers, b"").status, 304);
}

#[test]
fn lists_in_pieces_are_compressed_as_they_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let records: Vec<_> = (0..2000)
        .map(|number| format!(r#"{{"id":"{number:04}","name":"{}"}}"#, "long ".repeat(number % 100 + 1)))
        .collect();
    assert_eq!(ask(server.url(), "POST", "/Product", &format!("[{}]", records.join(","))).status, 201);
    for accept in ["application/json", "application/x-ndjson", "application/cbor", "application/msgpack", "text/csv"] {
        let plain = ask_with(server.url(), "GET", "/Product", &[("accept", accept)], b"");
        assert!(plain.status == 200 && plain.bytes.len() > 400_000);
        for coding in Coding::ALL.map(Coding::name) {
            let mut connection = Connection::open(server.url());
            let headers = [("accept", accept), ("accept-encoding", coding)];
            let response = connection.request_with("GET", "/Product", &headers, b"");
            assert_eq!((response.status, response.header("content-encoding")), (200, coding), "{accept}");
            assert_eq!(response.header("content-type"), plain.header("content-type"));
            assert!(decoded(&response) == plain.bytes, "{accept} in {coding}");
            assert!(response.bytes.len() * 5 < plain.bytes.len(), "{accept} in {coding}: {}", response.bytes.len());
            let short = connection.request_with("GET", "/Product?limit=30", &headers, b"");
            assert!(short.status == 200 && short.header("content-encoding") == coding, "on the same connection");
        }
    }
    let document = br#"{"query": "{ ProductList(limit: 100) { id name } }"}"#;
    let listed = ask_with(server.url(), "POST", "/graphql", &[JSON, ("accept-encoding", "br")], document);
    assert_eq!((listed.status, listed.header("content-encoding")), (200, "br"));
    assert!(decoded(&listed).starts_with(b"{\"data\":{\"ProductList\":[{\"id\":\"0000\""));
}

#[test]
fn compressed_bodies_are_taken_within_the_limit_of_bodies() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.ingress.body_bytes = 100_000);
    let headers = [JSON, ("content-encoding", "gzip")];
    let body = format!(r#"{{"name":"Lamp","note":"{}"}}"#, "x".repeat(90_000));
    let created = ask_with(server.url(), "PUT", "/Product/1", &headers, &gzip(body.as_bytes()));
    assert!(created.status == 201 && created.body.contains(&"x".repeat(90_000)));
    assert_eq!(
        ask_with(server.url(), "POST", "/Product", &headers, &gzip(br#"[{"name":"a"},{"name":"b"}]"#)).status,
        201
    );
    assert_eq!(ask_with(server.url(), "PATCH", "/Product/1", &headers, &gzip(br#"{"note":null}"#)).status, 200);
    let query = [("content-type", "text/plain"), ("content-encoding", "gzip")];
    let listed = ask_with(server.url(), "POST", "/Product/query", &query, &gzip(b"name==a&select=name"));
    assert_eq!(listed.body, r#"[{"name":"a"}]"#);

    let bomb = gzip(&vec![b' '; 50 << 20]);
    assert!(bomb.len() < 100_000);
    let refused = ask_with(server.url(), "POST", "/Product", &headers, &bomb);
    assert!(refused.status == 413 && refused.body.contains("at most 100000 bytes"), "{}", refused.body);
    let cut = gzip(body.as_bytes());
    assert_eq!(ask_with(server.url(), "POST", "/Product", &headers, &cut[..cut.len() - 9]).status, 400);
    let unknown = ask_with(server.url(), "POST", "/Product", &[JSON, ("content-encoding", "zstd")], b"x");
    assert_eq!((unknown.status, unknown.header("accept-encoding")), (415, "gzip"));
}
