//! Checkpoints: copies of a store in use, where the operator wants them, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::client::{Response, ask, ask_with, schema, start};
use super::process::{Running, assert_refused, output};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_is_made_in_its_directory_and_nowhere_else() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start(folder.path(), |config| config.checkpoint_dir = Some(copies.path().to_owned()));
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let make = |query: &str| ask(server.url(), "POST", &format!("/_checkpoint{query}"), "");
    let is = |response: &Response, status: u16, body: &str| {
        assert_eq!((response.status, response.body.as_str()), (status, body))
    };
    is(&make("?name=first"), 201, r#"{"name":"first"}"#);
    is(&make("?name=%41-_z9"), 201, r#"{"name":"A-_z9"}"#);
    let longest = "n".repeat(64);
    assert_eq!(make(&format!("?name={longest}")).status, 201);
    let elsewhere = folder.path().join("elsewhere");
    for query in [
        "?name=first",
        "?name=",
        "?name",
        "?name=.",
        "?name=..",
        "?name=a/b",
        "?name=a%2Fb",
        "?name=%2E%2E%2Felsewhere",
        "?name=a%00",
        "?name=a%0A",
        "?name=a+b",
        "?name=%FF",
        "?name=%C3%A9",
        "?name=a.partial",
        &format!("?name={longest}n"),
        "?name=a&name=b",
        "?name=a&other=b",
        "?Name=a",
        &format!("?directory={}", elsewhere.display()),
        &format!("?name=a&directory={}", elsewhere.display()),
    ] {
        let response = make(query);
        assert_eq!(response.status, 400, "{query}: {}", response.body);
        assert!(!response.body.contains(copies.path().to_str().unwrap()), "where it lies is the operator's affair");
    }
    assert_eq!(names(copies.path()), ["A-_z9", "first", &longest]);
    assert!(!elsewhere.exists());

    let made = make("");
    let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    let name = made["name"].as_str().unwrap();
    let shape: String = name.chars().map(|sign| if sign.is_ascii_digit() { 'd' } else { sign }).collect();
    assert_eq!(shape, "ddddddddTddddddZ");
    assert_eq!(names(copies.path()).len(), 4);
    for name in names(copies.path()) {
        let mode = fs::metadata(copies.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
    }
    server.stop().unwrap();
    let copy = copies.path().join("first");
    let arguments =
        ["verify", "--schema", schema().to_str().unwrap(), "--data-dir", copy.to_str().unwrap()].map(str::to_owned);
    let done = output(&arguments.each_ref().map(String::as_str));
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn without_a_directory_there_are_no_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let before = names(folder.path());
    for query in ["", "?name=a", "?directory=/tmp/a"] {
        assert_eq!(ask(server.url(), "POST", &format!("/_checkpoint{query}"), "").status, 404, "{query}");
    }
    assert_eq!(names(folder.path()), before);
    server.stop().unwrap();
}

/// As many requests for one name as there are threads: one of them makes it, and what it makes is a store.
#[test]
fn one_name_is_made_once() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start(folder.path(), |config| config.checkpoint_dir = Some(copies.path().to_owned()));
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let mut statuses = std::thread::scope(|scope| {
        let ask = || ask(server.url(), "POST", "/_checkpoint?name=same", "").status;
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect::<Vec<_>>()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [[201].as_slice(), &[400; 7]].concat());
    assert_eq!(names(copies.path()), ["same"]);
    // What an interrupted one left is not taken for a copy, and not deleted.
    fs::create_dir(copies.path().join("other.partial")).unwrap();
    assert_eq!(ask(server.url(), "POST", "/_checkpoint?name=other", "").status, 400);
    assert_eq!(names(copies.path()), ["other.partial", "same"]);
    // One that cannot be made leaves nothing behind.
    fs::remove_dir_all(copies.path()).unwrap();
    assert_eq!(ask(server.url(), "POST", "/_checkpoint?name=third", "").status, 500);
    server.stop().unwrap();
}

#[test]
fn a_page_and_a_proxy_make_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |config| config.checkpoint_dir = Some(folder.path().to_owned()));
    for field in
        [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"), ("X-Forwarded-For", "203.0.113.9")]
    {
        assert_eq!(ask_with(server.url(), "POST", "/_checkpoint?name=a", &[field], b"").status, 403, "{field:?}");
    }
    assert_eq!(ask_with(server.url(), "POST", "/_checkpoint?name=a", &[("If-Match", "*")], b"").status, 400);
    assert!(!folder.path().join("a").exists());
    server.stop().unwrap();
}

#[test]
fn a_directory_that_can_hold_no_checkpoints_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("file"), "").unwrap();
    fs::create_dir_all(path("data/copies")).unwrap();
    fs::create_dir_all(path("site/copies")).unwrap();
    let schema = schema();
    let start = |options: &[&str]| {
        let data = path("data");
        let line = ["serve", "--listen", "127.0.0.1:0", "--schema", schema.to_str().unwrap(), "--data-dir", &data];
        output(&[&line[..], options].concat())
    };
    for (directory, word) in
        [("file", "not a directory"), ("nowhere", "nowhere"), ("data", "inside"), ("data/copies", "inside")]
    {
        assert_refused(&start(&["--checkpoint-dir", &path(directory)]), &["--checkpoint-dir", word]);
    }
    assert_refused(&start(&["--checkpoint-dir", &path("site/copies"), "--static", &path("site")]), &["checkpoints"]);
    assert_eq!(names(&folder.path().join("data")), ["copies"], "nothing was made");
}

/// It is slower there, and its files take their whole space.
#[test]
fn another_file_system_is_said_and_copied_to() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let Ok(copies) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: there is no other file system");
        return;
    };
    if copies.path().metadata().unwrap().dev() == folder.path().metadata().unwrap().dev() {
        println!("skipped: there is no other file system");
        return;
    }
    let mut server = Running::start_with(folder.path(), &["--checkpoint-dir", copies.path().to_str().unwrap()]);
    let said = server.line();
    assert!(said.starts_with("strata: warning: --checkpoint-dir") && said.contains("file system"), "{said}");
    assert_eq!(ask(&server.url, "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    assert_eq!(ask(&server.url, "POST", "/_checkpoint?name=copy", "").status, 201);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let (copy, schema) = (copies.path().join("copy"), schema());
    let arguments = ["verify", "--schema", schema.to_str().unwrap(), "--data-dir", copy.to_str().unwrap()];
    assert!(output(&arguments).status.success());
}
