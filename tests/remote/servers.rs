//! Server processes over one database: they are killed, stopped in their tracks and started again while clients write.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use super::Over;
use super::databases::url_of;
use crate::brokers::{Broker, or_skipped};
use crate::engine::Random;

const SDL: &str = "type Item @table @export { id: ID @primaryKey  n: Int @indexed  mail: String @unique }\n";

const SERVERS: usize = 3;

/// A server, killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path, storage: &str) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let ready = folder.join(format!("ready-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
        let mut child = Command::new(env!("CARGO_BIN_EXE_strata"))
            .args(["serve", "--listen", "127.0.0.1:0", "--storage", storage, "--schema"])
            .arg(folder.join("schema.graphql"))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary is there");
        let begun = Instant::now();
        loop {
            let url = std::fs::read_to_string(&ready).unwrap_or_default();
            if let Some(address) = url.trim().strip_prefix("http://") {
                return Self { child, address: address.to_owned() };
            }
            assert!(child.try_wait().expect("it is a child").is_none(), "the server ends at its start");
            assert!(begun.elapsed() < Duration::from_secs(60), "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh is there").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status and the body of a response; `None` if there is none.
fn ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address.parse().ok()?, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let status = response.split(' ').nth(1)?.parse().ok()?;
    Some((status, response.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned()))
}

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Ids of records whose creation was acknowledged.
    created: BTreeSet<String>,
    /// Ids of which it is unknown.
    unknown: BTreeSet<String>,
    refused: usize,
    busy: usize,
}

/// Creates records through any of the servers until it is over.
fn write(number: usize, servers: &[RwLock<Option<Server>>], is_over: &AtomicBool, told: &Mutex<Told>) {
    let mut random = Random(number as u64 * 77 + 5);
    for step in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let address = {
            let server = servers[random.below(servers.len())].read().expect("nobody panics");
            server.as_ref().map(|server| server.address.clone())
        };
        let Some(address) = address else { continue };
        let id = format!("{number}-{step}");
        let body = format!(r#"{{"id": "{id}", "n": {}, "mail": "m{}"}}"#, random.below(20), random.below(100_000));
        let response = ask(&address, "POST", "/Item", &body);
        let mut told = told.lock().expect("nobody panics");
        match response {
            Some((201, _)) => drop(told.created.insert(id)),
            Some((409, _)) => told.refused += 1,
            Some((503, _)) => told.busy += 1,
            Some((504, _)) | None => drop(told.unknown.insert(id)),
            Some((status, body)) => panic!("{status}: {body}"),
        }
    }
}

#[test]
fn servers_that_are_killed_lose_nothing_and_leave_no_halves() {
    if let Some(broker) = or_skipped(Broker::postgres()) {
        kill_servers(&url_of(&broker, "main"));
    }
}

#[test]
fn servers_over_tikv_that_are_killed_lose_nothing_and_leave_no_halves() {
    if let Some(broker) = or_skipped(Broker::tikv_double()) {
        kill_servers(&url_of(&broker, "main"));
    }
}

fn kill_servers(url: &str) {
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    std::fs::write(folder.path().join("schema.graphql"), SDL).expect("it can be written");
    let servers: Vec<_> = (0..SERVERS).map(|_| RwLock::new(Some(Server::start(folder.path(), url)))).collect();
    let kills: usize = std::env::var("STRATA_KILLS").map_or(5, |text| text.parse().expect("a number"));
    let (is_over, told) = (AtomicBool::new(false), Mutex::new(Told::default()));
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (servers, is_over, told) = (&servers, &is_over, &told);
            scope.spawn(move || write(number, servers, is_over, told));
        }
        let _over = Over(&is_over);
        let mut random = Random(11);
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(300 + random.below(500) as u64));
            let killed = random.below(SERVERS);
            let mut server = servers[killed].write().expect("nobody panics");
            *server = None;
            *server = Some(Server::start(folder.path(), url));
        }
        std::thread::sleep(Duration::from_millis(300));
    });
    let told = told.into_inner().expect("nobody panics");
    let address = servers[0].read().expect("nobody panics").as_ref().expect("it was started").address.clone();
    let there = everything(&address);
    println!(
        "{kills} kills: {} acknowledged, {} refused, {} busy, {} unknown, of which {} were done",
        told.created.len(),
        told.refused,
        told.busy,
        told.unknown.len(),
        told.unknown.intersection(&there).count()
    );
    let lost: Vec<_> = told.created.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?} are lost");
    let unheard: Vec<_> =
        there.iter().filter(|id| !told.created.contains(*id) && !told.unknown.contains(*id)).collect();
    assert!(unheard.is_empty(), "{unheard:?} were refused and are there");
    for server in &servers {
        let mut server = server.write().expect("nobody panics");
        if let Some(server) = server.as_mut() {
            server.signal("TERM");
            assert!(server.child.wait().expect("it is a child").success());
        }
        *server = None;
    }
    // All have left, or were killed more than a lease ago.
    let begun = Instant::now();
    let verified = loop {
        let verify = Command::new(env!("CARGO_BIN_EXE_strata"))
            .args(["verify", "--storage", url, "--schema"])
            .arg(folder.path().join("schema.graphql"))
            .output()
            .expect("the binary is there");
        let said = String::from_utf8_lossy(&verify.stderr).into_owned();
        if !said.contains(" first") || begun.elapsed() > Duration::from_secs(30) {
            break (verify.status.success(), said, String::from_utf8_lossy(&verify.stdout).into_owned());
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    assert!(verified.0, "{verified:?}");
}

/// The ids of all records, read as lines.
fn everything(address: &str) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head =
        format!("GET /Item HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\naccept: application/x-ndjson\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it is text");
    let ids = response.match_indices("\"id\":\"").map(|(place, found)| {
        let rest = &response[place + found.len()..];
        rest[..rest.find('"').expect("a text ends")].to_owned()
    });
    ids.collect()
}

#[test]
fn a_server_that_sleeps_beyond_its_lease_writes_nothing_until_it_has_another() {
    let Some(broker) = or_skipped(Broker::postgres()) else { return };
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    std::fs::write(folder.path().join("schema.graphql"), SDL).expect("it can be written");
    let (sleeper, other) = (Server::start(folder.path(), &broker.url()), Server::start(folder.path(), &broker.url()));
    let worker = || {
        let (_, health) = ask(&other.address, "GET", "/_health", "").expect("it answers");
        let health: serde_json::Value = serde_json::from_str(&health).expect("JSON");
        health["cluster"]["worker"].as_str().map(str::to_owned)
    };
    assert_eq!(ask(&sleeper.address, "POST", "/Item", r#"{"id": "a"}"#).expect("it answers").0, 201);
    assert_eq!(worker().as_ref(), Some(&sleeper.address), "the first one works");
    sleeper.signal("STOP");
    let begun = Instant::now();
    while worker().as_ref() != Some(&other.address) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody takes over the work");
        std::thread::sleep(Duration::from_millis(200));
    }
    sleeper.signal("CONT");
    // At once its lease has ended; soon it has another.
    let begun = Instant::now();
    loop {
        match ask(&sleeper.address, "PUT", "/Item/b", "{}") {
            Some((201 | 200 | 204, _)) => break,
            Some((503, body)) => assert!(body.contains("busy"), "{body}"),
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it gets no lease");
    }
    assert_eq!(ask(&other.address, "GET", "/Item/b", "").expect("it answers").0, 200);
    assert_eq!(worker().as_ref(), Some(&other.address), "the work stays where it is");
}

#[test]
fn a_server_that_sleeps_through_a_change_of_the_schema_does_nothing_any_more() {
    let Some(broker) = or_skipped(Broker::postgres()) else { return };
    let (before, after) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    std::fs::write(before.path().join("schema.graphql"), SDL).expect("it can be written");
    let sdl = SDL.replace("n: Int @indexed", "n: Int @indexed  more: String @indexed");
    std::fs::write(after.path().join("schema.graphql"), sdl).expect("it can be written");
    let sleeper = Server::start(before.path(), &broker.url());
    assert_eq!(ask(&sleeper.address, "PUT", "/Item/a", "{}").expect("it answers").0, 201);
    sleeper.signal("STOP");
    // Its lease lasts for a while.
    let begun = Instant::now();
    let other = loop {
        let mut verify = Command::new(env!("CARGO_BIN_EXE_strata"));
        verify.args(["verify", "--storage", &broker.url(), "--schema"]).arg(before.path().join("schema.graphql"));
        if verify.output().expect("the binary is there").status.success() {
            break Server::start(after.path(), &broker.url());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "its lease does not end");
        std::thread::sleep(Duration::from_millis(500));
    };
    sleeper.signal("CONT");
    for step in 0..40 {
        for (method, path) in [("PUT", "/Item/b"), ("GET", "/Item/a"), ("GET", "/Item?n==1"), ("GET", "/_ready")] {
            let body = if method == "PUT" { "{}" } else { "" };
            let (status, response) = ask(&sleeper.address, method, path, body).expect("it answers");
            assert!(status == 503, "{step}: {method} {path}: {status} {response}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ask(&other.address, "GET", "/Item/b", "").expect("it answers").0, 404);
    assert_eq!(ask(&other.address, "GET", "/Item/a", "").expect("it answers").0, 200);
}

/// From a directory into PostgreSQL and home again, with all that a store may have.
#[test]
fn a_store_is_copied_there_and_back() {
    let Some(broker) = or_skipped(Broker::postgres()) else { return };
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    let schema = folder.path().join("schema.graphql");
    let sdl = "type Item @table @export { id: ID @primaryKey  n: Int @indexed  mail: String @unique  file: Blob }\n";
    std::fs::write(&schema, sdl).expect("it can be written");
    let (first, last, url) = (folder.path().join("first"), folder.path().join("last"), broker.url());
    {
        let parsed = strata::schema::Schema::parse(sdl).expect("valid");
        let options = strata::storage::Options::default();
        let database = strata::transaction::Database::open(&first, parsed, &options).expect("it opens");
        let table = database.table("Item").expect("it exists");
        let rows: Vec<_> = (0..3000).map(|n| format!(r#"{{"id": "{n}", "n": {}, "mail": "m{n}"}}"#, n % 7)).collect();
        database.create_all(table, format!("[{}]", rows.join(",")).as_bytes()).expect("they are new");
        let none = strata::transaction::Precondition::None;
        let mut upload = strata::blobs::Upload::begin(&database, table, "7", 3, "text/plain", none).expect("it exists");
        let bytes = vec![b'x'; 500_000];
        let mut left = &bytes[..];
        while !left.is_empty() {
            let taken = upload.take(left);
            left = &left[taken..];
            upload.write().expect("there is room");
        }
        upload.finish(&database).expect("it can be written");
        // Nobody refers to this one.
        let mut upload = strata::blobs::Upload::begin(
            &database,
            table,
            "8",
            3,
            "text/plain",
            strata::transaction::Precondition::None,
        );
        let upload = upload.as_mut().expect("it exists");
        let taken = upload.take(&bytes);
        upload.write().expect("there is room");
        assert!(taken > 0 && upload.is_open());
    }
    let strata = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_strata")).args(arguments).output().expect("the binary is there");
        let said = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
        (output.status.code(), said.trim().to_owned())
    };
    let text = |path: &Path| path.to_str().expect("it is text").to_owned();
    let (there, back) = (strata(&["copy", &text(&first), &url]), strata(&["copy", &url, &text(&last)]));
    assert_eq!(there.0, Some(0), "{there:?}");
    assert_eq!(back, there);
    assert!(there.1.starts_with("copied 3000 records, "), "{there:?}");
    let verify = |place: &[&str]| strata(&[&["verify", "--schema", &text(&schema)], place].concat());
    let agrees = |verified: (Option<i32>, String)| {
        assert!(verified.0 == Some(0) && verified.1.ends_with("agree"), "{verified:?}");
    };
    agrees(verify(&["--storage", &url]));
    agrees(verify(&["--data-dir", &text(&last)]));
    // Each refusal is one line.
    for (from, to, said) in [
        (text(&first), url.clone(), "not empty"),
        (text(&first), text(&last), "exists"),
        (text(&folder.path().join("none")), format!("{url}?table=other"), "no store"),
        (format!("{url}?table=nothing"), text(&folder.path().join("new")), "no table"),
    ] {
        let refused = strata(&["copy", &from, &to]);
        assert!(refused.0 == Some(2) && refused.1.contains(said) && refused.1.lines().count() == 1, "{refused:?}");
    }
    let server = Server::start(folder.path(), &url);
    let refused = strata(&["copy", &url, &text(&folder.path().join("new"))]);
    assert!(refused.0 == Some(2) && refused.1.contains(&server.address), "{refused:?}");
    assert!(!folder.path().join("new").exists(), "nothing is left of what was refused");
    assert_eq!(ask(&server.address, "GET", "/Item/7", "").expect("it answers").0, 200);
}

#[test]
fn what_is_asked_wrongly_is_refused_in_one_line_and_no_password_is_printed() {
    let folder = tempfile::tempdir().expect("there is a temporary directory");
    let schema = folder.path().join("schema.graphql");
    std::fs::write(&schema, SDL).expect("it can be written");
    let schema = schema.to_str().expect("it is text");
    let run = |arguments: &[&str]| {
        let arguments = [&["serve", "--schema", schema, "--listen", "127.0.0.1:0"], arguments].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_strata")).args(arguments).output().expect("the binary is there");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).trim().to_owned(), output.stdout)
    };
    for (arguments, said) in [
        (vec!["--storage", "mysql://user:secret@127.0.0.1/x"], "expected the URL of a database"),
        (vec!["--storage", "postgres://user:secret@127.0.0.1:1/x", "--data-dir", "data"], "are two places"),
        (vec!["--storage", "postgres://user:secret@127.0.0.1:1/x"], "the database: "),
        (vec!["--storage", "postgres://user:secret@127.0.0.1:1/x?table=UPPER"], "table is a name"),
        (vec!["--storage", "postgres://user@127.0.0.1:1/x", "--storage-password-file", "/nothing"], "/nothing"),
    ] {
        let (code, why, _) = run(&arguments);
        let last = why.lines().last().unwrap_or_default();
        assert!(code == Some(2) && last.contains(said) && !why.contains("secret"), "{arguments:?}: {code:?} {why}");
    }
    // What is about a directory, where the environment names a database.
    let new = folder.path().join("new");
    let new = new.to_str().expect("it is text");
    for (arguments, said) in [
        (vec!["backup", new], "its own tools"),
        (vec!["restore", new], "its own tools"),
        (vec!["compact"], "its own tools"),
        (vec!["stats", "--schema", schema], "its own tools"),
        (vec!["verify", "--schema", schema, "--data-dir", new], "are two places"),
    ] {
        let mut strata = Command::new(env!("CARGO_BIN_EXE_strata"));
        let output = strata.args(&arguments).env("STRATA_STORAGE", "postgres://user:secret@127.0.0.1:1/x").output();
        let output = output.expect("the binary is there");
        let why = String::from_utf8_lossy(&output.stderr);
        let is_refused = output.status.code() == Some(2) && why.contains(said) && why.lines().count() == 1;
        assert!(is_refused && !why.contains("secret"), "{arguments:?}: {why}");
    }
    let (_, _, printed) = run(&["--storage", "postgres://user:secret@127.0.0.1:1/x", "--print-config"]);
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("postgres://user@127.0.0.1:1/x") && !printed.contains("secret"), "{printed}");
    assert!(printed.contains("\"pool_threads\": 256"), "{printed}");
}
