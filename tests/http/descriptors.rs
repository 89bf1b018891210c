//! Few file descriptors: clients cannot take those of the store, and a shortage that somebody else made passes.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::client::{Connection, Response, ask, wait_until};
use super::process::Running;

/// A server that may have this many descriptors and no more.
fn start_with(descriptors: u64, folder: &tempfile::TempDir, options: &[&str]) -> Running {
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_strata")]);
    Running::start_by(shell, folder.path(), options)
}

fn body(bytes: usize) -> String {
    json!({"name": "n".repeat(bytes)}).to_string()
}

/// Writes a record; whether it was written. The engine may be behind, but nothing else may refuse it.
fn is_written(connection: &mut Connection, path: &str, body: &str) -> (bool, Response) {
    let response = connection.request("PUT", path, body);
    assert!([200, 201, 503].contains(&response.status), "{response:?}");
    (response.status != 503, response)
}

fn open_files(server: &Running) -> u64 {
    fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count() as u64
}

fn limit(server: &Running, descriptors: u64) {
    let limit = Rlimit { current: Some(descriptors), maximum: Some(256) };
    prlimit(Pid::from_raw(server.child.id() as i32), Resource::Nofile, limit).unwrap();
}

/// Idle clients, clients that follow changes, and clients whose bodies do not end.
#[test]
fn connections_leave_the_store_its_files() {
    for head in [
        "",
        "GET /Product?stream=sse HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "PUT /Product/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = start_with(256, &folder, &["--write-buffer-bytes", "1M"]);
        let warning = server.line();
        assert!(warning.contains("connections instead of 10000") && warning.contains("256 open files"), "{warning}");
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let mut connection = Connection::open(&server.url);
        assert_eq!(connection.request("GET", "/_health", "").status, 200);
        let clients: Vec<_> = (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
        clients.iter().for_each(|mut client| drop(std::io::Write::write_all(&mut client, head.as_bytes())));
        // More than a memtable and its log file, several times over.
        for number in 0..100 {
            let path = format!("/Product/{number}");
            wait_until("it is written", || is_written(&mut connection, &path, &body(64 << 10)).0);
        }
        assert_eq!(connection.request("GET", "/_health", "").status, 200);
        assert!(open_files(&server) < 256);
    }
}

/// Each blob of this length is a file.
#[test]
fn more_blobs_than_descriptors_are_read() {
    const BLOBS: usize = 48;
    let folder = tempfile::tempdir().unwrap();
    let server = start_with(64, &folder, &[]);
    let mut connection = Connection::open(&server.url);
    let blob = |number: usize| vec![number as u8; 8 << 20];
    for number in 0..BLOBS {
        assert!(is_written(&mut connection, &format!("/Photo/{number}"), "{}").0);
        let put = connection.request_with(
            "PUT",
            &format!("/Photo/{number}/picture"),
            &[("content-type", "image/png")],
            &blob(number),
        );
        assert_eq!(put.status, 201, "{put:?}");
    }
    let files = fs::read_dir(folder.path().join("data")).unwrap().map(|file| file.unwrap().path());
    assert!(files.filter(|file| file.extension().is_some_and(|ending| ending == "blob")).count() > 40);
    for _ in 0..2 {
        for number in 0..BLOBS {
            let read = connection.request("GET", &format!("/Photo/{number}/picture"), "");
            assert!(read.status == 200 && read.bytes == blob(number), "{number}: {}", read.status);
        }
    }
    assert!(open_files(&server) < 64);
}

/// The more descriptors are left, the later in its work the engine lacks one: at a new log file, at a sorted file, at reading that.
#[test]
fn a_shortage_that_has_passed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start_with(256, &folder, &["--write-buffer-bytes", "256K"]);
    let mut connection = Connection::open(&server.url);
    // A connection that is not accepted yet would wait for a descriptor as long as the shortage lasts.
    assert_eq!(connection.request("GET", "/_health", "").status, 200);
    let (mut written, mut short) = (Vec::new(), 0);
    for left in 0..8 {
        let highest = open_files(&server) + left;
        limit(&server, highest);
        // More than two memtables, unless a file is lacking before; the engine may be behind with its flushes meanwhile.
        for number in 0..40 {
            let (path, mut is_short) = (format!("/Product/{left}-{number}"), false);
            wait_until("it is written, or refused for the shortage", || {
                let (is_written, response) = is_written(&mut connection, &path, &body(32 << 10));
                written.extend(is_written.then(|| path.clone()));
                is_short = response.body.contains("no file can be opened");
                is_written || is_short
            });
            short += usize::from(is_short);
        }
        limit(&server, 256);
        wait_until("it is healthy", || connection.request("GET", "/_health", "").status == 200);
        let path = format!("/Product/{left}");
        wait_until("it writes again", || is_written(&mut connection, &path, &body(32 << 10)).0);
        written.push(path);
    }
    assert!(short > 0, "there was a shortage");
    server.signal("KILL");
    server.exit_code();
    let server = Running::start(folder.path());
    for path in written {
        let read: Value = serde_json::from_str(&ask(&server.url, "GET", &path, "").body).unwrap();
        assert_eq!(read["name"].as_str().map(str::len), Some(32 << 10), "{path}");
    }
}

#[test]
fn too_few_are_refused_at_the_start() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 40 && exec \"$0\" serve --listen 127.0.0.1:0 --data-dir data --schema \"$1\""]);
    shell.arg(env!("CARGO_BIN_EXE_strata")).arg(super::client::schema());
    let folder = tempfile::tempdir().unwrap();
    super::process::assert_refused(
        &shell.current_dir(folder.path()).output().unwrap(),
        &["40 open files", "ulimit -n"],
    );
}
