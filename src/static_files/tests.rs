//! Responses from a folder of static files.

use std::fs;

use http::header::{ACCEPT, ACCEPT_ENCODING, AsHeaderName, HeaderName, IF_NONE_MATCH, RANGE};
use tempfile::TempDir;

use super::*;

const LONG: usize = 5000;

/// Creates a folder with one file of each kind, and files outside it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &[u8]| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("secret.txt", b"outside");
    write("site/index.html", b"<p>home");
    write("site/app.js", b"let application = 1;");
    write("site/app.js.br", b"short");
    write("site/app.js.gz", b"longer one");
    write("site/docs/index.html", b"<p>docs");
    write("site/a folder/b+c.css", b"p {}");
    write("site/latin.txt", b"caf\xE9");
    write("site/long.bin", &b"0123456789".repeat(LONG / 10));
    write("site/.hidden", b"hidden");
    write("site/.git/config", b"hidden");
    write("site/_app/start.js", b"1");
    write("site/_health", b"never");
    let link =
        |target: &str, name: &str| std::os::unix::fs::symlink(target, folder.path().join("site").join(name)).unwrap();
    link("app.js", "inside.js");
    link("../secret.txt", "outside.txt");
    link(".git/config", "config");
    link("..", "up");
    link("nowhere", "broken");
    folder
}

fn site(folder: &TempDir) -> Site {
    let options = Options { memory_bytes: LONG - 1, ..Options::default() };
    Site::load(&folder.path().join("site"), &options).unwrap()
}

fn ask(
    site: &Site,
    method: Method,
    path: &str,
    headers: &[(HeaderName, &'static str)],
) -> Option<handlers::Result<Response>> {
    let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    site.respond(&method, &path.parse().unwrap(), &headers)
}

fn get(site: &Site, path: &str, headers: &[(HeaderName, &'static str)]) -> Response {
    ask(site, Method::GET, path, headers).unwrap().unwrap()
}

fn header<B>(response: &Response<B>, name: impl AsHeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

fn text(response: Response) -> String {
    match response.into_body() {
        Content::Memory(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Content::Disk(extent) => {
            let bytes = extent.read(extent.range()).unwrap();
            format!("disk {}", String::from_utf8_lossy(&bytes))
        }
    }
}

#[test]
fn files_folders_and_types() {
    let folder = folder();
    let site = site(&folder);
    for (path, media_type, expected) in [
        ("/", "text/html; charset=utf-8", "<p>home"),
        ("/index.html", "text/html; charset=utf-8", "<p>home"),
        ("/docs/", "text/html; charset=utf-8", "<p>docs"),
        ("/app.js?v=3", "text/javascript; charset=utf-8", "let application = 1;"),
        ("/inside.js", "text/javascript; charset=utf-8", "let application = 1;"),
        ("/a%20folder/b+c.css", "text/css; charset=utf-8", "p {}"),
        ("/a%20folder%2fb%2Bc.css", "text/css; charset=utf-8", "p {}"),
        ("/latin.txt", "text/plain", "caf\u{FFFD}"),
        ("/_app/start.js", "text/javascript; charset=utf-8", "1"),
    ] {
        let response = get(&site, path, &[]);
        assert_eq!((response.status().as_u16(), header(&response, CONTENT_TYPE)), (200, media_type), "{path}");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
        assert_eq!(text(response), expected, "{path}");
    }
    let response = get(&site, "/docs?a=b", &[]);
    assert_eq!((response.status().as_u16(), header(&response, LOCATION)), (308, "/docs/?a=b"));
}

#[test]
fn no_path_leads_out() {
    let folder = folder();
    let site = site(&folder);
    for path in [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/docs/../../secret.txt",
        "/docs/..%2f..%2fsecret.txt",
        "/..%5csecret.txt",
        "/up/secret.txt",
        "/outside.txt",
        "/config",
        "/broken",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/etc/passwd",
        "/app.js%00",
        "/app.js%00.html",
        "/app.js/",
        "/./app.js",
        "/docs//index.html",
        "/%FF",
        "/.hidden",
        "/%2ehidden",
        "/.git/config",
        "/_health",
        "/%5fhealth",
        "/_app",
        "/nothing.js",
    ] {
        assert!(ask(&site, Method::GET, path, &[]).is_none(), "{path}");
    }
}

#[test]
fn the_index_stands_for_pages_alone() {
    let folder = folder();
    let site = site(&folder);
    let page = get(&site, "/some/page", &[(ACCEPT, "text/html,*/*")]);
    assert_eq!((page.status().as_u16(), header(&page, VARY)), (200, "accept"));
    assert_eq!(text(page), "<p>home");
    for (method, path, accept, depends) in [
        (Method::GET, "/some/page", "*/*", true),
        (Method::HEAD, "/some/page", "application/json", true),
        (Method::GET, "/_health", "text/html", false),
        (Method::GET, "/_app/other.js", "text/html", false),
        (Method::POST, "/some/page", "text/html", false),
    ] {
        assert!(ask(&site, method.clone(), path, &[(ACCEPT, accept)]).is_none(), "{path} {accept}");
        assert_eq!(site.has_page(&method, &path.parse().unwrap()), depends, "{method} {path}");
    }
    fs::remove_file(folder.path().join("site/index.html")).unwrap();
    let site = self::site(&folder);
    let page = Uri::from_static("/some/page");
    assert!(!site.has_page(&Method::GET, &page), "nothing depends on the client");
    assert!(ask(&site, Method::GET, "/some/page", &[(ACCEPT, "text/html")]).is_none());
}

#[test]
fn files_can_be_read_and_nothing_else() {
    let folder = folder();
    let site = site(&folder);
    let head = ask(&site, Method::HEAD, "/long.bin", &[(RANGE, "bytes=0-1")]).unwrap().unwrap();
    assert_eq!((head.status().as_u16(), header(&head, CONTENT_LENGTH)), (200, "5000"));
    assert_eq!(head.body().length_bytes(), 0);
    let options = ask(&site, Method::OPTIONS, "/app.js", &[]).unwrap().unwrap();
    assert_eq!((options.status().as_u16(), header(&options, "allow")), (204, "GET, HEAD, OPTIONS"));
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let refused = ask(&site, method, "/docs", &[]).unwrap().unwrap_err().respond(None);
        assert_eq!((refused.status().as_u16(), header(&refused, "allow")), (405, "GET, HEAD, OPTIONS"));
    }
}

#[test]
fn what_is_known_is_not_sent_again() {
    let folder = folder();
    let site = site(&folder);
    let etag = get(&site, "/app.js", &[]).headers()[ETAG].clone();
    let mut headers = HeaderMap::new();
    headers.insert(IF_NONE_MATCH, etag.clone());
    let again = |site: &Site| site.respond(&Method::GET, &Uri::from_static("/app.js"), &headers).unwrap().unwrap();
    let known = again(&site);
    assert_eq!((known.status().as_u16(), known.body().length_bytes()), (304, 0));
    assert_eq!((header(&known, ETAG), header(&known, VARY)), (etag.to_str().unwrap(), "accept-encoding"));
    fs::write(folder.path().join("site/app.js"), "let application = 2;").unwrap();
    assert_eq!(again(&site).status(), 304, "files are read at the start");
    assert_eq!(again(&self::site(&folder)).status(), 200);
}

#[test]
fn parts_of_files_in_memory_and_on_disk() {
    let folder = folder();
    let site = site(&folder);
    for (path, range, status, of, expected) in [
        ("/app.js", "bytes=4-6", 206, "bytes 4-6/20", "app"),
        ("/long.bin", "bytes=4995-", 206, "bytes 4995-4999/5000", "disk 56789"),
        ("/long.bin", "bytes=0-1,4-5", 200, "", ""),
    ] {
        let response = get(&site, path, &[(RANGE, range)]);
        assert_eq!(response.status(), status, "{path} {range}");
        assert_eq!(header(&response, CONTENT_RANGE), of);
        let text = text(response);
        assert!(if expected.is_empty() { text.len() == "disk ".len() + LONG } else { text == expected }, "{text}");
    }
    let refused = ask(&site, Method::GET, "/app.js", &[(RANGE, "bytes=20-")]).unwrap().unwrap_err().respond(None);
    assert_eq!((refused.status().as_u16(), header(&refused, CONTENT_RANGE)), (416, "bytes */20"));
}

#[test]
fn precompressed_siblings_are_chosen_by_the_client() {
    let folder = folder();
    let site = site(&folder);
    let mut etags = Vec::new();
    for (accepted, coding, expected) in [
        ("gzip, br", "br", "short"),
        ("gzip", "gzip", "longer one"),
        ("br;q=0.5, gzip", "gzip", "longer one"),
        ("zstd", "", "let application = 1;"),
        ("gzip;q=0.5, identity", "", "let application = 1;"),
        ("gzip;q=0.5, identity;q=0.1", "gzip", "longer one"),
        ("*;q=0, gzip;q=0.1", "gzip", "longer one"),
        ("identity;q=0, *", "br", "short"),
    ] {
        let response = get(&site, "/app.js", &[(ACCEPT_ENCODING, accepted)]);
        assert_eq!(header(&response, CONTENT_ENCODING), coding, "{accepted}");
        assert_eq!(header(&response, VARY), "accept-encoding", "{accepted}");
        assert_eq!(header(&response, CONTENT_TYPE), "text/javascript; charset=utf-8", "{accepted}");
        etags.push(header(&response, ETAG).to_owned());
        assert_eq!(text(response), expected, "{accepted}");
    }
    assert!(etags[0] != etags[1] && etags[1] == etags[2] && etags[1] != etags[3], "a tag for each: {etags:?}");
    for refused in ["identity;q=0", "*;q=0", "zstd, identity;q=0", "gzip;q=0, br;q=0, *;q=0"] {
        let refusal = ask(&site, Method::GET, "/app.js", &[(ACCEPT_ENCODING, refused)]).unwrap().unwrap_err();
        assert_eq!(refusal.respond(None).status(), 406, "{refused}");
    }
    let single = get(&site, "/latin.txt", &[(ACCEPT_ENCODING, "br, identity;q=0.1")]);
    assert!(single.status() == 200 && !single.headers().contains_key(VARY), "there is nothing to choose from");
    let refused = ask(&site, Method::GET, "/latin.txt", &[(ACCEPT_ENCODING, "br, identity;q=0")]).unwrap();
    assert_eq!(refused.unwrap_err().respond(None).status(), 406);
}

#[test]
fn a_file_on_disk_that_has_changed_is_not_served_under_its_old_tag() {
    let folder = folder();
    let site = site(&folder);
    fs::write(folder.path().join("site/long.bin"), "another").unwrap();
    let Content::Disk(extent) = get(&site, "/long.bin", &[]).into_body() else {
        panic!("it is longer than the budget")
    };
    assert!(extent.read(0..1).unwrap_err().to_string().contains("changed"));
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let error = Site::load(Path::new("nowhere"), &Options::default()).err().unwrap();
    assert!(error.to_string().contains("nowhere"));
}
