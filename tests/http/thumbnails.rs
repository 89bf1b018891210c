//! Thumbnails: made once, kept, revalidated, shared, refused, and within a memory that is theirs.

use std::fs;
use std::path::Path;

use strata::config::Config;
use strata::server::Server;

use super::blobs::memory;
use super::client::{Connection, Response, ask, ask_with, start};
use super::process::Running;

/// One of the pictures of the load tests.
fn picture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("load/scenarios").join(name)).unwrap()
}

fn put(url: &str, path: &str, bytes: &[u8]) {
    let record = path.rsplit_once('/').unwrap().0;
    assert!(ask(url, "PUT", record, r#"{"title":"t"}"#).status < 300);
    let response = ask_with(url, "PUT", path, &[("content-type", "image/any")], bytes);
    assert!([201, 204].contains(&response.status), "{response:?}");
}

/// A server with the logo beside one record.
fn served(folder: &Path, change: impl FnOnce(&mut Config)) -> Server {
    let server = start(folder, change);
    put(server.url(), "/Photo/1/picture", &picture("logo-2000.png"));
    server
}

/// How many thumbnails were made, were answered without making one, and were refused.
fn counted(url: &str) -> [u64; 3] {
    let counters: serde_json::Value = serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap();
    ["made", "cached", "refused"].map(|name| counters["thumbs"][name].as_u64().unwrap())
}

/// The sides of a PNG.
fn sides(response: &Response) -> (u32, u32) {
    assert_eq!((response.status, response.header("content-type")), (200, "image/png"), "{}", response.body);
    let number = |at: usize| u32::from_be_bytes(*response.bytes[at..].first_chunk().unwrap());
    (number(16), number(20))
}

#[test]
fn one_is_made_once_and_known_by_its_tag() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    let (url, path) = (server.url(), "/Photo/1/picture?thumb=100x50");
    let made = ask(url, "GET", path, "");
    assert_eq!((sides(&made), counted(url)), ((100, 50), [1, 0, 0]));
    for (name, value) in [
        ("accept-ranges", "none"),
        ("content-security-policy", "sandbox"),
        ("x-content-type-options", "nosniff"),
        ("vary", ""),
        ("content-length", &made.bytes.len().to_string()),
    ] {
        assert_eq!(made.header(name), value, "{name}");
    }
    let tag = made.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag != ask(url, "GET", "/Photo/1/picture", "").header("etag"));
    // There are no parts of it.
    let kept = ask_with(url, "GET", path, &[("range", "bytes=0-9"), ("if-none-match", "\"other\"")], b"");
    assert_eq!((kept.status, &kept.bytes, kept.header("etag")), (200, &made.bytes, &*tag));
    let known = ask_with(url, "GET", path, &[("if-none-match", &tag)], b"");
    assert_eq!((known.status, known.bytes.len(), known.header("etag"), counted(url)), (304, 0, &*tag, [1, 2, 0]));
    let head = ask(url, "HEAD", path, "");
    assert_eq!((head.status, head.header("content-length"), head.bytes.len()), (200, made.header("content-length"), 0));
    assert_eq!(ask_with(url, "GET", path, &[("if-match", "\"other\"")], b"").status, 412);
    assert_eq!((sides(&ask(url, "GET", "/Photo/1/picture?thumb=0x30", "")), counted(url)), ((30, 30), [2, 3, 0]));
    // Another picture has another tag, though it has the same size.
    put(url, "/Photo/1/picture", &picture("photograph-12mp.jpg"));
    let other = ask_with(url, "GET", path, &[("if-none-match", &tag)], b"");
    assert_eq!((other.status, other.header("content-type"), counted(url)), (200, "image/jpeg", [3, 3, 0]));
    assert_ne!(other.header("etag"), tag);
    server.stop().unwrap();
}

#[test]
fn what_cannot_be_made_smaller_is_refused_and_served_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.handlers.thumb_pixels = 10_000_000);
    let (url, logo) = (server.url(), picture("logo-2000.png"));
    let refused = [
        (&b"<svg xmlns='http://www.w3.org/2000/svg'/>"[..], "not-a-picture"),
        (b"", "not-a-picture"),
        (&logo[..logo.len() / 2], "damaged-picture"),
        (&picture("photograph-12mp.jpg"), "picture-too-large"),
    ];
    for (number, (bytes, name)) in (1..).zip(refused) {
        put(url, "/Photo/2/picture", bytes);
        let response = ask(url, "GET", "/Photo/2/picture?thumb=10x10", "");
        assert_eq!((response.status, counted(url)), (422, [0, 0, number]), "{}", response.body);
        assert!(response.body.contains(&format!("urn:strata:error:{name}\"")), "{}", response.body);
        assert_eq!(ask(url, "GET", "/Photo/2/picture", "").bytes, bytes);
    }
    assert_eq!(sides(&ask(url, "GET", "/Photo/1/picture?thumb=10x10", "")), (10, 10));
    assert_eq!(ask(url, "GET", "/Photo/3/picture?thumb=10x10", "").status, 404);
    server.stop().unwrap();
}

#[test]
fn what_needs_more_memory_than_all_have_never_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.handlers.thumb_memory = 1 << 20);
    let response = ask(server.url(), "GET", "/Photo/1/picture?thumb=1000x1000", "");
    assert_eq!(response.status, 422);
    assert!(
        response.body.contains("picture-too-large") && response.body.contains("--thumb-memory"),
        "{}",
        response.body
    );
    // What is no picture needs none.
    put(server.url(), "/Photo/2/picture", &vec![7; 3 << 20]);
    let response = ask(server.url(), "GET", "/Photo/2/picture?thumb=10x10", "");
    assert!(response.status == 422 && response.body.contains("not-a-picture"), "{}", response.body);
    server.stop().unwrap();
}

#[test]
fn sizes_are_those_that_the_schema_lists() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.graphql");
    let sdl = r#"type Photo @table @export { id: ID! @primaryKey title: String picture: Blob @thumb(sizes: ["20x20", "0x30f"]) }"#;
    fs::write(&schema, sdl).unwrap();
    let refused = start_error(&schema);
    assert!(refused.contains("0x30f"), "{refused}");
    fs::write(&schema, sdl.replace("0x30f", "0x30")).unwrap();
    let server = served(&folder.path().join("data"), |config| config.schema = Some(schema));
    let url = server.url();
    assert_eq!(sides(&ask(url, "GET", "/Photo/1/picture?thumb=20x20", "")), (20, 20));
    assert_eq!(sides(&ask(url, "GET", "/Photo/1/picture?thumb=0x30", "")), (30, 30));
    let response = ask(url, "GET", "/Photo/1/picture?thumb=21x20", "");
    assert_eq!(response.status, 400);
    assert!(response.body.contains("20x20, 0x30") && response.body.contains(r#""position":6"#), "{}", response.body);
    server.stop().unwrap();
}

/// Why a schema is refused.
fn start_error(schema: &Path) -> String {
    let output = super::process::output(&["check", "--schema", schema.to_str().unwrap()]);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Asks for paths at once, each on a connection of its own.
fn at_once(url: &str, paths: &[String]) -> Vec<Response> {
    let mut connections: Vec<_> = paths.iter().map(|_| Connection::open(url)).collect();
    for (connection, path) in connections.iter_mut().zip(paths) {
        connection.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    }
    connections.iter_mut().map(|connection| connection.receive(false)).collect()
}

#[test]
fn whoever_asks_for_one_that_is_being_made_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    let paths = vec!["/Photo/1/picture?thumb=900x900".to_owned(); 8];
    let responses = at_once(server.url(), &paths);
    assert!(responses.iter().all(|response| sides(response) == (900, 900) && response.bytes == responses[0].bytes));
    assert_eq!(counted(server.url()), [1, 7, 0]);
    server.stop().unwrap();
}

#[test]
fn without_a_cache_each_request_makes_its_own_and_only_so_many_are_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| {
        (config.handlers.thumb_cache_bytes, config.handlers.thumbs_in_flight, config.scan_threads) = (0, 2, 1);
    });
    let url = server.url();
    for made in 1..=3 {
        assert_eq!(
            (sides(&ask(url, "GET", "/Photo/1/picture?thumb=50x50", "")), counted(url)),
            ((50, 50), [made, 0, 0])
        );
    }
    let responses = at_once(url, &vec!["/Photo/1/picture?thumb=1000x1000".to_owned(); 12]);
    let refused: Vec<_> = responses.iter().filter(|response| response.status == 503).collect();
    assert!(refused.iter().all(|response| !response.header("retry-after").is_empty()));
    let made = responses.iter().filter(|response| response.status == 200).count();
    assert!(made >= 2 && !refused.is_empty() && made + refused.len() == 12, "{made} made");
    assert_eq!(counted(url), [3 + made as u64, 0, refused.len() as u64]);
    server.stop().unwrap();
}

#[test]
fn those_that_were_asked_for_last_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.handlers.thumb_cache_bytes = 3000);
    let ask = |size: u32| {
        assert_eq!(sides(&ask(server.url(), "GET", &format!("/Photo/1/picture?thumb={size}x{size}"), "")), (size, size))
    };
    for size in [16, 17, 16, 18, 19, 20, 21, 22, 23, 24] {
        ask(size);
    }
    let made = counted(server.url())[0];
    ask(24);
    assert_eq!(counted(server.url())[0], made, "the last one is kept");
    ask(17);
    assert_eq!(counted(server.url())[0], made + 1, "one of the first is not");
    ask(400);
    ask(17);
    assert_eq!(counted(server.url())[0], made + 2, "what is longer than all that is kept takes nobody's place");
    server.stop().unwrap();
}

/// A page of pictures of 12 megapixels that nobody has asked for before: a server that decodes all it is asked for at once needs gigabytes.
#[test]
#[cfg(target_os = "linux")]
fn forty_at_once_take_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path());
    let photograph = picture("photograph-12mp.jpg");
    let path = |id: usize| format!("/Photo/{id}/picture");
    (0..40).for_each(|id| put(&server.url, &path(id), &photograph));
    let before = memory(server.child.id(), "VmRSS:");
    let paths: Vec<_> = (0..40).map(|id| path(id) + "?thumb=200x200").collect();
    let responses = at_once(&server.url, &paths);
    let first = &responses[0];
    assert!(responses.iter().all(|response| response.status == 200 && response.bytes == first.bytes), "{}", first.body);
    assert_eq!((first.header("content-type"), counted(&server.url)), ("image/jpeg", [40, 0, 0]));
    let raised = memory(server.child.id(), "VmHWM:").saturating_sub(before);
    println!("40 cold pictures: the memory rose by {} MiB from {}", raised >> 20, before >> 20);
    assert!(raised < 400 << 20, "{raised} bytes more than {before}");
}
