//! Real signals: the first ends a run in order, the second at once, and neither leaves the server behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::strata::{binary, result};

/// A run of hours, in its window.
struct Running {
    load: Child,
    said: BufReader<ChildStderr>,
    server: Pid,
    address: String,
    folder: PathBuf,
}

/// Starts a run in an open loop, and waits until it is in its window.
fn start(results: &Path) -> Running {
    let mut load = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["run", "rest-crud", "--no-tls", "--seed-record-count", "500", "--warmup-requests", "10"])
        .args(["--test-duration-secs", "7200", "--results", results.to_str().unwrap()])
        .args(["--server", binary().to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(load.stderr.take().unwrap());
    let (server, ready) = wait_for(|| server_of(load.id()));
    let url = wait_for(|| std::fs::read_to_string(&ready).ok().filter(|url| url.ends_with('\n')));
    let address = url.trim().strip_prefix("http://").unwrap().to_owned();
    // Of lists: only requests in the window have so many.
    wait_for(|| (counter(&address, "scans")? > 50).then_some(()));
    Running { load, said, server, address, folder: ready.parent().unwrap().to_owned() }
}

fn wait_for<T>(found: impl Fn() -> Option<T>) -> T {
    loop {
        match found() {
            Some(found) => return found,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The child of a process that serves, and the file in which it says where.
pub fn server_of(parent: u32) -> Option<(Pid, PathBuf)> {
    let of = |entry: std::fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let ready = line.split('\0').skip_while(|argument| *argument != "--ready-file").nth(1)?;
        let is_child = status.lines().any(|line| line == format!("PPid:\t{parent}"));
        (is_child && !line.contains("--print-config")).then(|| (Pid::from_raw(process).unwrap(), PathBuf::from(ready)))
    };
    std::fs::read_dir("/proc").unwrap().flatten().find_map(of)
}

/// One of the counters of a server that speaks plain HTTP.
pub fn counter(address: &str, name: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /_counters HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    body[name].as_u64()
}

/// Returns whether a server has not read all that was sent to it.
fn has_unread(address: &str) -> bool {
    let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, queues) = (fields[1], fields[3], fields[4]);
        local.ends_with(&format!(":{port:04X}")) && state == "01" && !queues.ends_with(":00000000")
    })
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.load.id() as i32).unwrap(), signal).unwrap();
    }

    fn assert_nothing_is_left(&self) {
        assert!(rustix::process::test_kill_process(self.server).is_err(), "the server is still there");
        assert!(!self.folder.exists(), "its folder is still there");
    }
}

#[test]
fn the_first_signal_ends_a_run_in_order() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut running = start(folder.path());
        running.signal(signal);
        let status = running.load.wait().unwrap();
        let mut said = String::new();
        running.said.read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        let result = result(folder.path());
        assert_eq!((&result["aborted"], &result["validity"]), (&json!(true), &json!("inconclusive")), "{result}");
        assert_eq!(result["broken"], json!([]));
        assert!(result["total"]["ok"].as_u64().unwrap() > 0);
        let check = Command::new(env!("CARGO_BIN_EXE_load")).arg("check").arg(folder.path()).output().unwrap();
        assert_eq!(check.status.code(), Some(0), "{check:?}");
        running.assert_nothing_is_left();
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(folder.path());
    // It answers no more, so that the first signal has something to wait for.
    kill_process(running.server, Signal::STOP).unwrap();
    wait_for(|| has_unread(&running.address).then_some(()));
    running.signal(Signal::INT);
    let mut line = String::new();
    while !line.contains("no more requests are started") {
        line.clear();
        assert!(running.said.read_line(&mut line).unwrap() > 0);
    }
    running.signal(Signal::INT);
    assert_eq!(running.load.wait().unwrap().code(), Some(130));
    running.assert_nothing_is_left();
}
