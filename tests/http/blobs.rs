//! Bytes of any length, in and out: slow clients and broken ones, kill -9, damage, and many at once in little memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use strata::blobs::{CHUNK_BYTES, PIECE_BYTES, disagreements};
use strata::encoding::key;
use strata::schema::Durability;
use strata::server::Server;
use strata::storage::{Batch, ReadTier, Space};

use super::client::{Connection, TIMEOUT, ask, schema, start, wait_until};
use super::process::{Running, output};

/// So long that no test meets it.
const NEVER_MS: u64 = 2 * TIMEOUT.as_millis() as u64;

/// Letters that differ from place to place, and by `seed`.
fn text(length: usize, seed: usize) -> String {
    (0..length).map(|place| char::from(b'a' + ((place ^ (place >> 8) ^ (place >> 16)) + seed) as u8 % 26)).collect()
}

/// The head of an upload to the record with this id.
fn head(id: &str, framing: &str) -> String {
    format!("PUT /Photo/{id}/picture HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n{framing}\r\n\r\n")
}

fn put(connection: &mut Connection, id: &str, body: &str) -> u16 {
    connection.send(&head(id, &format!("content-length: {}", body.len())));
    connection.send(body);
    connection.receive(false).status
}

fn create(url: &str, id: &str) {
    assert_eq!(ask(url, "PUT", &format!("/Photo/{id}"), r#"{"title":"t"}"#).status, 201);
}

/// A server with one record that may have a picture.
fn served(folder: &Path, change: impl FnOnce(&mut strata::config::Config)) -> Server {
    let server = start(folder, change);
    create(server.url(), "1");
    server
}

/// How many keys of blobs are stored.
fn stored(server: &Server) -> u64 {
    let table = server.database().table("Photo").unwrap().id;
    server.database().store().count_prefix(Space::Blobs, &table.to_be_bytes()).unwrap().0
}

fn assert_consistent(server: &Server) {
    assert_eq!(server.database().disagreements().unwrap(), Vec::<String>::new());
    assert_eq!(disagreements(server.database()).unwrap(), Vec::<String>::new());
}

#[test]
fn long_ones_come_back_whole_and_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    // The limit on bodies is not that on blobs, and a body of a blob may take longer than others if it goes on coming.
    let server = served(folder.path(), |config| config.ingress.body_bytes = 100);
    let mut connection = Connection::open(server.url());
    let long = text(2_500_000, 0);
    assert_eq!(put(&mut connection, "1", &long), 201);
    let response = connection.request("GET", "/Photo/1/picture", "");
    assert!(response.status == 200 && response.body == long);
    assert_eq!((response.header("content-length"), response.header("transfer-encoding")), ("2500000", ""));
    let mut part = |range: &str| {
        connection.send(&format!("GET /Photo/1/picture HTTP/1.1\r\nhost: localhost\r\nrange: bytes={range}\r\n\r\n"));
        let response = connection.receive(false);
        (response.status, response.header("content-range").to_owned(), response.body)
    };
    for (range, first, last) in [
        ("0-0", 0, 0),
        ("70000-2000000", 70_000, 2_000_000),
        ("-5", 2_499_995, 2_499_999),
        ("2499999-", 2_499_999, 2_499_999),
    ] {
        let (status, of, body) = part(range);
        assert_eq!((status, of), (206, format!("bytes {first}-{last}/2500000")));
        assert!(body == long[first..=last], "{range}");
    }
    assert_eq!(part("2500000-").0, 416);
    // In chunks of HTTP, of no announced length.
    let other = text(1_000_000, 3);
    connection.send(&head("1", "transfer-encoding: chunked"));
    for piece in other.as_bytes().chunks(77_777) {
        connection.send(&format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()));
    }
    connection.send("0\r\n\r\n");
    assert_eq!(connection.receive(false).status, 204);
    assert!(connection.request("GET", "/Photo/1/picture", "").body == other);
    let head = connection.request("HEAD", "/Photo/1/picture", "");
    assert_eq!((head.status, head.header("content-length")), (200, "1000000"));
    assert_consistent(&server);
}

/// What is in files and not in memory is read by the pool, the short ones too.
#[test]
fn what_is_not_in_memory_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (short, long) = (text(100_000, 0), text(2_000_000, 1));
    {
        let server = served(folder.path(), |_| {});
        create(server.url(), "2");
        let mut connection = Connection::open(server.url());
        assert_eq!((put(&mut connection, "1", &short), put(&mut connection, "2", &long)), (201, 201));
        server.database().store().flush().unwrap();
    }
    let server = start(folder.path(), |_| {});
    for (id, expected) in [("1", &short), ("2", &long)] {
        let response = ask(server.url(), "GET", &format!("/Photo/{id}/picture"), "");
        assert!(response.status == 200 && response.body == *expected);
    }
    drop(server);
    let server = start(folder.path(), |_| {});
    let mut connection = Connection::open(server.url());
    assert_eq!(put(&mut connection, "1", &long), 204, "the record is read from the disk first");
    assert_consistent(&server);
}

#[test]
fn a_slow_download_ends_with_the_bytes_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    let mut writer = Connection::open(server.url());
    let (old, new) = (text(16 << 20, 0), text(3 << 20, 1));
    for change in ["PUT", "DELETE"] {
        put(&mut writer, "1", &old);
        let mut slow = Connection::open(server.url());
        slow.send("GET /Photo/1/picture HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(slow.receive(true).status, 200);
        let mut read = slow.take(100_000).unwrap();
        match change {
            "PUT" => assert_eq!(put(&mut writer, "1", &new), 204),
            _ => assert_eq!(writer.request("DELETE", "/Photo/1", "").status, 204),
        }
        server.database().store().compact().unwrap();
        read.extend(slow.take(old.len() - read.len()).unwrap());
        assert!(read == old.as_bytes());
        match change {
            "PUT" => assert!(writer.request("GET", "/Photo/1/picture", "").body == new),
            _ => assert_eq!(writer.request("GET", "/Photo/1/picture", "").status, 404),
        }
    }
    drop(writer);
    assert_eq!(stored(&server), 0);
    assert_consistent(&server);
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    assert_eq!(put(&mut Connection::open(server.url()), "1", "before"), 201);
    for framing in ["content-length: 9000000", "transfer-encoding: chunked"] {
        let mut broken = Connection::open(server.url());
        broken.send(&head("1", framing));
        if framing.contains("chunked") {
            broken.send("7a1200\r\n");
        }
        broken.send(&text(3_000_000, 0));
        wait_until("its first chunks are stored", || stored(&server) > 10);
        drop(broken);
        wait_until("they are gone", || stored(&server) == 2);
    }
    assert_eq!(ask(server.url(), "GET", "/Photo/1/picture", "").body, "before");
    assert_consistent(&server);
}

/// There are two memtables of blobs, of 8 MiB each: 12 MiB fit, whether or not the first is flushed already.
#[test]
fn while_blobs_are_flushed_there_is_room_for_more() {
    let (folder, piece) = (tempfile::tempdir().unwrap(), vec![b'x'; 1 << 20]);
    let server = start(folder.path(), |_| {});
    let store = server.database().store();
    for round in 0..10u32 {
        for number in 0..12u32 {
            let (mut batch, key) = (Batch::default(), [round.to_be_bytes(), number.to_be_bytes()].concat());
            store.put(&mut batch, Space::Blobs, &key, &piece);
            store.write(&mut batch, Durability::Soft).unwrap();
            assert!(
                store.has_room_for(strata::storage::Space::Blobs).unwrap(),
                "round {round}, after {} MiB",
                number + 1
            );
        }
        store.flush().unwrap();
    }
}

#[test]
fn who_sends_too_little_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.ingress.body_timeout_ms = 300);
    // Much at once, and then nothing.
    let mut stopped = Connection::open(server.url());
    stopped.send(&head("1", "content-length: 9000000"));
    stopped.send(&text(1_000_000, 0));
    assert_eq!(stopped.receive(false).status, 408);
    assert!(stopped.is_closed());
    // A little all the time.
    let mut dripping = Connection::open(server.url());
    dripping.send(&head("1", "content-length: 9000000"));
    let mut sent = 0;
    while dripping.try_send("x") {
        sent += 1;
        assert!(sent < 3000, "for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Slowly, but enough: longer than a whole body may take elsewhere.
    let mut slow = Connection::open(server.url());
    let body = text(6 * CHUNK_BYTES, 0);
    slow.send(&head("1", &format!("content-length: {}", body.len())));
    for piece in body.as_bytes().chunks(CHUNK_BYTES) {
        slow.send(std::str::from_utf8(piece).unwrap());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(slow.receive(false).status, 201);
    wait_until("nothing else is left", || stored(&server) == 1 + 6);
    assert_consistent(&server);
}

#[test]
fn what_is_refused_is_refused_before_or_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.ingress.blob_bytes = 1_000_000);
    let mut connection = Connection::open(server.url());
    // Nobody who waits for a word first sends bytes in vain.
    for (id, more, status) in [
        ("1", "content-length: 1000001\r\nexpect: 100-continue", 413),
        ("2", "content-length: 10\r\nexpect: 100-continue", 404),
        ("1", "content-length: 10\r\nexpect: 100-continue\r\nif-match: *", 412),
        ("1", "content-length: 10\r\nexpect: 100-continue\r\ncontent-encoding: gzip", 415),
        ("1", "content-length: 10\r\nexpect: 100-continue\r\nif-none-match: \"x\"", 400),
        ("1", "content-length: 10\r\nexpect: 100-continue\r\ncontent-range: bytes 0-9/20", 400),
    ] {
        let mut connection = Connection::open(server.url());
        connection.send(&head(id, more));
        let response = connection.receive(false);
        assert_eq!((response.status, response.header("connection")), (status, "close"), "{more}");
    }
    connection.send(&head("1", "transfer-encoding: chunked"));
    connection.send(&format!("{:x}\r\n{}\r\n0\r\n\r\n", 1_000_001, text(1_000_001, 0)));
    assert_eq!(connection.receive(false).status, 413);
    assert_eq!(put(&mut connection, "1", &text(1_000_000, 0)), 201, "the connection goes on");
    assert_eq!(put(&mut connection, "2", "in vain"), 404);
    wait_until("nothing else is left", || stored(&server) == 1 + 16);
    assert_consistent(&server);
}

#[test]
fn memory_is_counted_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| {
        config.ingress.body_bytes = 1000;
        config.ingress.all_bodies_bytes = PIECE_BYTES + 1000;
        config.ingress.all_responses_bytes = 2 * PIECE_BYTES;
        config.ingress.request_timeout_ms = NEVER_MS;
    });
    create(server.url(), "2");
    let mut first = Connection::open(server.url());
    first.send(&head("1", "content-length: 16000000\r\nexpect: 100-continue"));
    assert_eq!(first.receive(false).status, 100);
    assert_eq!(put(&mut Connection::open(server.url()), "2", "no room"), 503);
    let long = text(16_000_000, 0);
    first.send(&long);
    assert_eq!(first.receive(false).status, 201);
    assert_eq!(put(&mut Connection::open(server.url()), "2", &long), 201);
    // More than sockets hold: two of them have all the room there is, and go on all the same when they are read.
    let mut slow: Vec<_> = (0..2).map(|_| Connection::open(server.url())).collect();
    for connection in &mut slow {
        connection.send("GET /Photo/1/picture HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(connection.receive(true).status, 200);
    }
    wait_until("there is no room", || ask(server.url(), "GET", "/Photo/2/picture", "").status == 503);
    for connection in &mut slow {
        assert!(connection.take(long.len()).unwrap() == long.as_bytes());
    }
    assert!(ask(server.url(), "GET", "/Photo/2/picture", "").body == long);
}

/// Another byte under the checksum of what was written.
fn damage(server: &Server, chunk: u32) {
    let (database, table) = (server.database(), server.database().table("Photo").unwrap());
    let record = database.read(table, "1").unwrap().unwrap();
    let key = key::chunk(table.id, record.upload(table.blobs[0]).unwrap(), chunk);
    let mut bytes = database.store().get(Space::Blobs, &key, ReadTier::Disk).unwrap().unwrap().to_vec();
    bytes[4000] ^= 0x20;
    let mut batch = Batch::default();
    database.store().put(&mut batch, Space::Blobs, &key, &bytes);
    database.store().write(&mut batch, Durability::Soft).unwrap();
}

#[test]
fn damage_is_an_error_before_the_head_and_the_end_of_the_stream_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    let long = text(1_000_000, 0);
    assert_eq!(put(&mut Connection::open(server.url()), "1", &long), 201);
    damage(&server, 10);
    let mut connection = Connection::open(server.url());
    connection.send("GET /Photo/1/picture HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let response = connection.receive(true);
    assert_eq!((response.status, response.header("content-length")), (200, "1000000"));
    assert!(connection.take(2 * PIECE_BYTES).unwrap() == long.as_bytes()[..2 * PIECE_BYTES], "what is before is whole");
    assert!(connection.take(long.len() - 2 * PIECE_BYTES).is_none(), "and then nothing more");
    damage(&server, 0);
    let response = ask(server.url(), "GET", "/Photo/1/picture", "");
    assert_eq!(response.status, 500);
    assert!(response.body.contains("requestId") && !response.body.contains("checksum"), "{}", response.body);
    assert_eq!(ask(server.url(), "HEAD", "/Photo/1/picture", "").status, 200);
    assert_eq!(put(&mut Connection::open(server.url()), "1", &long), 204, "it can be replaced");
    assert!(ask(server.url(), "GET", "/Photo/1/picture", "").body == long);
    assert_consistent(&server);
}

#[test]
fn one_record_has_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |_| {});
    let bodies: Vec<String> = (0..8).map(|seed| text(400_000, seed)).collect();
    std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| {
                let mut connection = Connection::open(server.url());
                for _ in 0..5 {
                    assert!(matches!(put(&mut connection, "1", body), 201 | 204));
                    let response = connection.request("GET", "/Photo/1/picture", "");
                    assert!(response.status == 200 && bodies.contains(&response.body), "never a mixture");
                }
            });
        }
    });
    assert_eq!(stored(&server), 1 + 7);
    assert_consistent(&server);
}

/// A process killed in the middle leaves chunks, which the next start removes; what was answered is there.
#[test]
fn uploads_that_are_killed_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path());
    for id in ["1", "2"] {
        create(&server.url, id);
    }
    let long = text(2_000_000, 5);
    assert_eq!(put(&mut Connection::open(&server.url), "1", &long), 201);
    let writes = |url: &str| {
        let counters: serde_json::Value = serde_json::from_str(&ask(url, "GET", "/_counters", "").body).unwrap();
        counters["writes"].as_u64().unwrap()
    };
    let before = writes(&server.url);
    let mut uploads: Vec<_> = ["1", "2"]
        .map(|id| {
            let mut connection = Connection::open(&server.url);
            connection.send(&head(id, "content-length: 9000000"));
            connection.send(&text(4_000_000, 0));
            connection
        })
        .into();
    wait_until("both are written for the most part", || writes(&server.url) >= before + 24);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    uploads.clear();

    let mut server = Running::start(folder.path());
    assert!(ask(&server.url, "GET", "/Photo/1/picture", "").body == long);
    assert_eq!(ask(&server.url, "GET", "/Photo/2/picture", "").status, 404);
    assert_eq!(put(&mut Connection::open(&server.url), "2", "short"), 201);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let (schema, data) = (schema(), folder.path().join("data"));
    let of = |command| output(&[command, "--schema", schema.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    let verified = of("verify");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    let stats: serde_json::Value = serde_json::from_slice(&of("stats").stdout).unwrap();
    let photos = stats["tables"].as_array().unwrap().iter().find(|table| table["name"] == "Photo").unwrap();
    let bytes = photos["blob_bytes"].as_u64().unwrap();
    assert!((2_000_005..2_001_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_backup_has_the_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), |config| config.checkpoint_dir = Some(folder.path().to_owned()));
    let long = text(1_000_000, 0);
    assert_eq!(put(&mut Connection::open(server.url()), "1", &long), 201);
    server.database().store().flush().unwrap();
    let copy = folder.path().join("copy");
    let made = ask(server.url(), "POST", "/_checkpoint?name=copy", "");
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(put(&mut Connection::open(server.url()), "1", "other"), 204);
    drop(server);
    let restored = folder.path().join("restored");
    fs::create_dir(&restored).unwrap();
    let data = restored.join("data");
    assert!(output(&["restore", copy.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]).status.success());
    let server = start(&restored, |_| {});
    assert!(ask(server.url(), "GET", "/Photo/1/picture", "").body == long);
    assert_consistent(&server);
}

/// A line of what Linux says of a process, in bytes.
#[cfg(target_os = "linux")]
pub fn memory(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches(|character: char| !character.is_ascii_digit()).parse::<u64>().unwrap() << 10
}

/// Uploads of so many bytes at once raise the memory of a server by less than 96 MB, and hold up nobody who writes records.
#[cfg(target_os = "linux")]
fn many_at_once(uploads: usize, bytes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path());
    (0..uploads).for_each(|id| create(&server.url, &id.to_string()));
    let before = memory(server.child.id(), "VmRSS:");
    let (piece, over) = (text(1 << 20, 0), Arc::new(AtomicBool::new(false)));
    let records = {
        let (over, url) = (Arc::clone(&over), server.url.clone());
        std::thread::spawn(move || {
            let (mut connection, mut written, mut refused) = (Connection::open(&url), 0, 0);
            while !over.load(Ordering::Relaxed) {
                let response = connection.request("PUT", &format!("/Product/{}", written % 100), r#"{"name":"Lamp"}"#);
                written += 1;
                refused += u64::from(response.status >= 300);
                std::thread::sleep(Duration::from_millis(1));
            }
            (written, refused)
        })
    };
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for id in 0..uploads {
            let (piece, url) = (&piece, &server.url);
            scope.spawn(move || {
                let mut connection = Connection::open(url);
                connection.send(&head(&id.to_string(), &format!("content-length: {bytes}")));
                (0..bytes >> 20).for_each(|_| connection.send(piece));
                assert_eq!(connection.receive(false).status, 201);
            });
        }
    });
    over.store(true, Ordering::Relaxed);
    let ((written, refused), took) = (records.join().unwrap(), begun.elapsed());
    let raised = memory(server.child.id(), "VmHWM:") - before;
    println!(
        "{uploads} uploads of {} MiB in {took:.1?}: the memory rose by {} MiB from {}; {refused} of {written} writes of records were refused",
        bytes >> 20,
        raised >> 20,
        before >> 20
    );
    assert!(raised < 96_000_000, "{raised} bytes more than {before}");
    assert_eq!(refused, 0);
    let last = ask(&server.url, "GET", &format!("/Photo/{}/picture", uploads - 1), "").body;
    assert!(last.len() == bytes && last.as_bytes().chunks(1 << 20).all(|read| read == piece.as_bytes()));
}

#[test]
#[cfg(target_os = "linux")]
fn many_uploads_take_little_memory() {
    many_at_once(64, 20 << 20);
}

#[test]
#[cfg(target_os = "linux")]
#[ignore = "writes 13 GB; test --full runs it"]
fn many_long_uploads_take_no_more() {
    many_at_once(64, 200 << 20);
}
