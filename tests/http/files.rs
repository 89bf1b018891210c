//! Static files beside the tables: no path leads out, tables come first, and what is not in memory is read from the disk.

use std::fs;
use std::path::Path;

use strata::config::Config;
use strata::server::Server;
use strata::storage::Store;
use tempfile::TempDir;

use super::client::{Connection, ask, start, wait_until};

/// A folder with a file outside of what is served, and a server over it that keeps files of up to ten bytes in memory.
fn served() -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("secret", "outside");
    write("site/index.html", "<p>home");
    write("site/Product/1", "hidden by the table");
    write("site/long.txt", &long());
    let server = start(folder.path(), |config| {
        config.static_files.directory = Some(folder.path().join("site"));
        config.static_files.memory_bytes = 10;
    });
    (folder, server)
}

/// Longer than a piece that is read at once.
fn long() -> String {
    (0..100_000).map(|number| format!("line {number}\n")).collect()
}

#[test]
fn no_path_leads_out() {
    let (_folder, server) = served();
    for path in [
        "/../secret",
        "/../../../../../../etc/passwd",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/..%5csecret",
        "/..\\secret",
        "/site/../../secret",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/index.html%00",
        "/./index.html",
        "/%c0%ae%c0%ae/secret",
    ] {
        let response = ask(server.url(), "GET", path, "");
        assert!(matches!(response.status, 400 | 404), "{path}: {response:?}");
        assert!(!response.body.contains("outside") && !response.body.contains("root:"), "{path}: {response:?}");
    }
}

#[test]
fn tables_come_first() {
    let (_folder, server) = served();
    assert_eq!(ask(server.url(), "GET", "/Product/1", "").status, 404);
    assert_eq!(ask(server.url(), "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    assert!(ask(server.url(), "GET", "/Product/1", "").body.contains("Lamp"));
    let html = |path: &str| {
        let mut connection = Connection::open(server.url());
        connection.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/html\r\n\r\n"));
        connection.receive(false).status
    };
    let found = ["/some/page", "/Product/2", "/Product/1/page", "/_nothing", "/_nothing/page", "/_health"].map(html);
    assert_eq!(
        found,
        [200, 406, 404, 404, 404, 200],
        "the index stands for pages, and not below a table or the server"
    );
}

#[test]
fn a_long_file_comes_from_the_disk_whole_and_in_parts() {
    let (folder, server) = served();
    let (long, mut connection) = (long(), Connection::open(server.url()));
    let whole = connection.request("GET", "/long.txt", "");
    assert_eq!((whole.status, whole.body == long), (200, true));
    let head = connection.request("HEAD", "/long.txt", "");
    assert_eq!(head.header("content-length"), long.len().to_string());
    let range = format!("bytes=300000-{}", long.len() - 7);
    connection.send(&format!("GET /long.txt HTTP/1.1\r\nhost: localhost\r\nrange: {range}\r\n\r\n"));
    let part = connection.receive(false);
    assert_eq!((part.status, part.body == long[300_000..long.len() - 6]), (206, true));

    fs::write(folder.path().join("site/long.txt"), "another").unwrap();
    let changed = connection.request("GET", "/long.txt", "");
    assert_eq!(changed.status, 500, "its tag would be wrong");
    assert_eq!(changed.header("x-request-id").len(), 32);
    assert!(!changed.body.contains("site"), "where files lie is the operator's affair");
    assert_eq!(connection.request("GET", "/", "").body, "<p>home");
}

#[test]
fn a_client_that_goes_amid_a_file_leaves_nothing_behind() {
    let (_folder, server) = served();
    for _ in 0..8 {
        let mut connection = Connection::open(server.url());
        connection.send("GET /long.txt HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }
    let waiting = || ask(server.url(), "GET", "/_metrics", "").body.contains("\nstrata_requests_waiting 0\n");
    wait_until("nothing waits", waiting);
}

/// What a server says that cannot start with these files and this data directory.
fn refusal(files: &Path, data: &Path, change: impl FnOnce(&mut Config)) -> String {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        schema: Some(super::client::schema()),
        data_dir: data.to_owned(),
        static_files: strata::static_files::Options { directory: Some(files.to_owned()), ..Default::default() },
        ..Config::default()
    };
    change(&mut config);
    Server::start(&config).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(Path::new("nowhere"), &folder.path().join("data"), |_| {}).contains("nowhere"));
}

#[test]
fn what_is_private_is_no_static_file() {
    let folder = tempfile::tempdir().unwrap();
    let (site, data) = (folder.path().join("site"), folder.path().join("data"));
    fs::create_dir_all(site.join("deep")).unwrap();
    std::os::unix::fs::symlink("site", folder.path().join("link")).unwrap();
    for (files, data) in [
        (folder.path(), data.clone()),
        (&site, site.clone()),
        (&site, site.join("deep/new/data")),
        (&site, folder.path().join("link/data")),
        (&folder.path().join("link"), site.join("deep/../data")),
        (&site.join("deep"), site.clone()),
    ] {
        assert!(refusal(files, &data, |_| {}).contains("data directory"), "{files:?} {data:?}");
    }
    let inside = |name: &str| Some(site.join(name));
    assert!(refusal(&site, &data, |config| config.tls.key = inside("key.pem")).contains("key"));
    assert!(
        refusal(&site, &data, |config| config.observability.access_log = inside("deep/log")).contains("access log")
    );
    assert_eq!(refusal(&site, &site.join(".data"), |_| {}), "", "hidden names are not served");
    let store = Store::open(&site.join("deep/old"), &strata::storage::Options::default()).unwrap();
    assert!(refusal(&site, &data, |_| {}).contains("is a store"), "a backup, or the data of another server");
    drop(store);
}
