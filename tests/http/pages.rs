//! What web pages may load: no data of another site, and no upload as something to execute; and no browser guesses a media type.

use super::client::{Connection, Response, ask, ask_with, start};

const CROSS_SITE: (&str, &str) = ("Sec-Fetch-Site", "cross-site");

/// What pages of another site must not read, whether it is there or not.
const DATA: [&str; 15] = [
    "/Product",
    "/Product/",
    "/Product?name==Lamp",
    "/Product?nonsense",
    "/Product?stream=sse",
    "/Product/1",
    "/Product/none",
    "/%50roduct/1",
    "/Product/1?select=name",
    "/graphql?query={__typename}",
    "/_batch",
    "/_health",
    "/_metrics",
    "/_openapi.json",
    "/_nothing/at/all",
];

const EXECUTED: [&str; 8] =
    ["script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "xslt"];

#[test]
fn a_page_of_another_site_loads_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let ours = ("Origin", "https://app.example.org");
    let server = start(folder.path(), |config| {
        config.ingress.cors_origins = vec![ours.1.to_owned().try_into().unwrap()];
    });
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let status = |method: &str, path: &str, fields: &[(&str, &str)]| {
        let mut connection = Connection::open(server.url());
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        connection.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"));
        // The body of a feed has no end.
        let head = connection.receive(true);
        (head.status, head.header("vary").contains("sec-fetch-site"))
    };
    for path in DATA {
        for method in ["GET", "HEAD"] {
            let (plain, _) = status(method, path, &[]);
            assert_ne!(plain, 403, "{method} {path}");
            for fields in [
                &[CROSS_SITE][..],
                &[CROSS_SITE, ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
                &[CROSS_SITE, ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "document")],
                &[CROSS_SITE, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "iframe")],
                &[CROSS_SITE, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "embed")],
                &[CROSS_SITE, ("Sec-Fetch-Mode", "navigate")],
                &[CROSS_SITE, ("Origin", "https://evil.example"), ("Sec-Fetch-Mode", "cors")],
                &[CROSS_SITE, ("Origin", "null")],
            ] {
                assert_eq!(status(method, path, fields), (403, true), "{method} {path} {fields:?}");
            }
            for fields in [
                &[CROSS_SITE, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")][..],
                &[CROSS_SITE, ours, ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")],
                &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
                &[("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")],
                &[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")],
            ] {
                assert_eq!(status(method, path, fields).0, plain, "{method} {path} {fields:?}");
            }
        }
        let asked = [CROSS_SITE, ours, ("Access-Control-Request-Method", "GET")];
        assert_ne!(status("OPTIONS", path, &asked).0, 403, "a preflight of {path}");
    }
    server.stop().unwrap();
}

#[test]
fn files_and_uploads_may_be_embedded_but_no_upload_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    std::fs::create_dir_all(site.join("_next")).unwrap();
    for name in ["index.html", "app.js", "_next/app.js"] {
        std::fs::write(site.join(name), "1").unwrap();
    }
    let server = start(folder.path(), |config| config.static_files.directory = Some(site.clone()));
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 201);
    let put = |media_type: &str| {
        ask_with(server.url(), "PUT", "/Photo/1/picture", &[("Content-Type", media_type)], b"alert(1)").status
    };
    let get = |method: &str, path: &str, fields: &[(&str, &str)]| ask_with(server.url(), method, path, fields, b"");
    for media_type in ["text/javascript", "text/css", "image/png", "application/octet-stream"] {
        assert!([201, 204].contains(&put(media_type)));
        for method in ["GET", "HEAD"] {
            for to in EXECUTED {
                for site in ["cross-site", "same-site", "same-origin", "none"] {
                    let fields = [("Sec-Fetch-Dest", to), ("Sec-Fetch-Site", site)];
                    let response = get(method, "/Photo/1/picture", &fields);
                    assert_eq!(response.status, 403, "{method} {media_type} {fields:?}");
                    assert!(response.header("vary").contains("sec-fetch-dest"));
                    assert_eq!(get(method, "/Photo/1/picture", &fields[..1]).status, 403, "{to}");
                    assert_eq!(get(method, "/Photo/none/picture", &fields).status, 403, "there or not");
                }
            }
            for to in ["image", "video", "audio", "empty", "document", "iframe", "font"] {
                let fields = [("Sec-Fetch-Dest", to), CROSS_SITE];
                let response = get(method, "/Photo/1/picture", &fields);
                assert_eq!((response.status, response.header("vary")), (200, "sec-fetch-dest"), "{method} {to}");
            }
        }
        let tag = get("GET", "/Photo/1/picture", &[]).header("etag").to_owned();
        let known = get("GET", "/Photo/1/picture", &[("If-None-Match", &tag)]);
        assert_eq!((known.status, known.header("vary")), (304, "sec-fetch-dest"));
        let part = get("GET", "/Photo/1/picture", &[("Range", "bytes=0-1"), ("Sec-Fetch-Dest", "worker")]);
        assert_eq!(part.status, 403);
    }
    for path in ["/", "/app.js", "/_next/app.js"] {
        for to in EXECUTED {
            assert_eq!(get("GET", path, &[("Sec-Fetch-Dest", to), CROSS_SITE]).status, 200, "{path} {to}");
        }
    }
    let script = [("Sec-Fetch-Dest", "script"), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(get("GET", "/_console/console.js", &script).status, 200, "ours");
    server.stop().unwrap();
}

/// Requests of all kinds, and their status.
const ALL_KINDS: [(&str, &str, &str, u16); 40] = [
    ("PUT", "/Product/1", r#"{"name":"Lamp"}"#, 201),
    ("POST", "/Product", r#"[{"name":"Lamp"},{"name":"Chair"}]"#, 201),
    ("PATCH", "/Product/1", r#"{"note":"new"}"#, 200),
    ("PUT", "/Visit/1", "{}", 201),
    ("PUT", "/Photo/1", "{}", 201),
    ("PUT", "/Photo/1/picture", "1", 201),
    ("GET", "/Product/1", "", 200),
    ("HEAD", "/Product/1", "", 200),
    ("GET", "/Product", "", 200),
    ("GET", "/Product?explain=true", "", 200),
    ("GET", "/Product/none", "", 404),
    ("GET", "/Product?nonsense", "", 400),
    ("PUT", "/Product", "", 415),
    ("POST", "/Product/1", "{}", 405),
    ("OPTIONS", "/Product", "", 204),
    ("OPTIONS", "*", "", 204),
    ("POST", "/Product/query", "{}", 415),
    ("POST", "/_batch", r#"{"operations":[]}"#, 200),
    ("POST", "/graphql", r#"{"query":"{__typename}"}"#, 200),
    ("GET", "/graphql?query={__typename}", "", 200),
    ("GET", "/Photo/1/picture", "", 200),
    ("HEAD", "/Photo/1/picture", "", 200),
    ("DELETE", "/Photo/1/picture", "", 204),
    ("GET", "/small.txt", "", 200),
    ("GET", "/long.txt", "", 200),
    ("HEAD", "/long.txt", "", 200),
    ("DELETE", "/long.txt", "", 405),
    ("OPTIONS", "/long.txt", "", 204),
    ("GET", "/_health", "", 200),
    ("HEAD", "/_ready", "", 200),
    ("GET", "/_metrics", "", 200),
    ("GET", "/_counters", "", 200),
    ("GET", "/_stats", "", 200),
    ("GET", "/_tables", "", 200),
    ("GET", "/_openapi.json", "", 200),
    ("GET", "/_console", "", 200),
    ("GET", "/_console/console.js", "", 200),
    ("GET", "/_nothing", "", 404),
    ("POST", "/_checkpoint", "", 404),
    ("DELETE", "/Product?truncate=true", "", 200),
];

#[test]
fn no_browser_guesses_a_media_type() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("small.txt"), "1").unwrap();
    std::fs::write(site.join("long.txt"), "1".repeat(1 << 20)).unwrap();
    let server = start(folder.path(), |config| {
        config.static_files.directory = Some(site.clone());
        config.static_files.memory_bytes = 1 << 10;
        config.ingress.cors_origins = vec!["https://app.example.org".to_owned().try_into().unwrap()];
    });
    let is_said = |response: &Response, what: &str| {
        let values: Vec<_> = response.headers.iter().filter(|(name, _)| name == "x-content-type-options").collect();
        assert!(values.len() == 1 && values[0].1 == "nosniff", "{what}: {response:?}");
    };
    for (method, path, body, status) in ALL_KINDS {
        let response = ask(server.url(), method, path, body);
        assert_eq!(response.status, status, "{method} {path}: {}", response.body);
        is_said(&response, &format!("{method} {path}"));
    }
    // In pieces, and read from the disk.
    let long = "1".repeat(1 << 20);
    assert_eq!(ask(server.url(), "PUT", "/Photo/1", "{}").status, 200);
    assert_eq!(ask(server.url(), "PUT", "/Photo/1/picture", &long).status, 201);
    is_said(&ask(server.url(), "GET", "/Photo/1/picture", ""), "a long blob");
    let records = format!(r#"[{{"name":"{0}"}},{{"name":"{0}"}}]"#, &long[..100_000]);
    is_said(&ask(server.url(), "POST", "/Product", &records), "a long answer");
    is_said(&ask(server.url(), "GET", "/Product", ""), "a long list");
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let tag = ask(server.url(), "GET", "/Product/1", "").header("etag").to_owned();
    for (fields, status) in [
        (&[("If-None-Match", tag.as_str())][..], 304),
        (&[("If-Match", "\"other\"")], 412),
        (&[("Accept", "image/png")], 406),
        (&[("Accept-Encoding", "gzip")], 200),
        (&[("Origin", "https://app.example.org")], 200),
        (&[CROSS_SITE], 403),
    ] {
        let response = ask_with(server.url(), "GET", "/Product/1", fields, b"");
        assert_eq!(response.status, status, "{fields:?}");
        is_said(&response, &format!("{fields:?}"));
    }
    let mut foreign = Connection::open(server.url());
    foreign.send("GET /Product/1 HTTP/1.1\r\nhost: rebound.example\r\n\r\n");
    is_said(&foreign.receive(false), "another host");
    let mut feed = Connection::open(server.url());
    feed.send("GET /Product?stream=sse HTTP/1.1\r\nhost: localhost\r\n\r\n");
    is_said(&feed.receive(true), "a feed");
    server.stop().unwrap();
}
