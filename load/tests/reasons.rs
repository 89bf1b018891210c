//! Whatever ends a run, the first cause is what is said, and that leads to the remedy.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::faulty_server::{self, Fault};
use crate::interrupt::{counter, server_of};
use crate::strata::binary;

const ROWS: &str = include_str!("../scenarios/throughput-read.toml");

/// `load` with these words, without the variables of whoever runs the tests.
fn load(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    for name in ["BASE_URL", "STRATA_BINARY", "CONCURRENT_TASKS", "TEST_DURATION_SECS", "WARMUP_REQUESTS"] {
        command.env_remove(name);
    }
    command.args(words).stdin(Stdio::null());
    command
}

/// Its exit code, and all that it said.
fn said(output: &Output) -> (Option<i32>, String) {
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    (output.status.code(), said)
}

/// Exit code 2, and each of these words.
fn assert_refused(command: &mut Command, words: &[&str]) {
    let (code, said) = said(&command.output().unwrap());
    assert_eq!(code, Some(2), "{command:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{word} in {command:?}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// A scenario in a file, with something else in place of a part of it.
fn scenario(folder: &Path, from: &str, to: &str) -> String {
    assert!(ROWS.contains(from), "{from}");
    let file = folder.join("rows.toml");
    fs::write(&file, ROWS.replacen(from, to, 1)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A script that stands for a server's binary: it prints a configuration, and serves as the script says.
fn script(folder: &Path, serves: &str) -> String {
    let file = folder.join("server");
    let text = format!("#!/bin/sh\ncase \"$*\" in *--print-config*) echo '{{}}'; exit;; esac\n{serves}\n");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let (folder, strata) = (tempfile::tempdir().unwrap(), binary());
    let strata = strata.to_str().unwrap();
    let refused = |from: &str, to: &str, words: &[&str]| {
        let file = scenario(folder.path(), from, to);
        assert_refused(&mut load(&["run", &file, "--server", strata]), words);
    };
    refused("name: String", "name: Strin", &["exit code 2", "Strin", "schema.graphql"]);
    refused("[data]", "[data]\nserver_options = [\"--no-such\"]", &["--no-such"]);
    refused("[data]", "[data]\nserver_options = [\"--tls-cert\", \"/no/such\"]", &["--tls-key"]);
    refused("[data]", "[data]\nserver_options = [\"--static\", \"/no/such\"]", &["/no/such"]);
    for (serves, words) in [
        ("echo first words >&2; echo last words >&2; exit 3", &["last words", "exit code 3"][..]),
        ("exit 0", &["exit code 0"]),
        ("kill -9 $$", &["signal 9"]),
        ("echo \"thread 'main' at x\" >&2; kill -6 $$", &["signal 6", "thread 'main'"]),
    ] {
        let server = script(folder.path(), serves);
        assert_refused(
            &mut load(&["run", "throughput-read", "--server", &server]),
            &[words, &["before it was ready"]].concat(),
        );
    }
}

#[test]
fn what_is_no_server_is_said_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let not_executable = folder.path().join("file");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let not_executable = not_executable.to_str().unwrap();
    for (server, word) in [
        ("/no/such/strata", "No such file"),
        (not_executable, "denied"),
        (folder.path().to_str().unwrap(), "denied"),
        ("/bin/true", "--print-config"),
        ("/bin/echo", "--print-config"),
        ("/bin/false", "exit code 1"),
    ] {
        assert_refused(&mut load(&["run", "throughput-read", "--server", server]), &[server, word]);
        let named = load(&["run", "throughput-read"]).env("STRATA_BINARY", server).output().unwrap();
        assert!(said(&named).1.contains("STRATA_BINARY"), "{named:?}");
    }
}

/// Told of a package, build scripts would run again, and what stands on them would be compiled again.
#[test]
fn the_server_is_built_as_a_person_builds_it() {
    let folder = tempfile::tempdir().unwrap();
    let cargo = script(folder.path(), "env | grep ^CARGO >&2; exit 7");
    let mut run = load(&["run", "throughput-read"]);
    run.env("CARGO", cargo).env("CARGO_PKG_NAME", "strata-load").env("CARGO_MANIFEST_DIR", "/load");
    let (code, said) = said(&run.output().unwrap());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("exit code 7") && said.contains("CARGO="), "{said}");
    assert!(!said.contains("CARGO_PKG_NAME") && !said.contains("CARGO_MANIFEST_DIR"), "{said}");
}

/// Returns the number of rows that a server has read that speaks plain HTTP and says in a file where.
fn gets(ready: &Path) -> u64 {
    let url = fs::read_to_string(ready).unwrap_or_default();
    url.trim().strip_prefix("http://").and_then(|address| counter(address, "gets")).unwrap_or(0)
}

/// A run of hours with the real server, killed or stopped as soon as it serves the phase.
fn end_server(words: &[&str], signal: Signal, until: impl Fn(&Path) -> bool) -> (Option<i32>, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let words = [&["run"], words, &["--results", folder.path().to_str().unwrap()]].concat();
    let mut running =
        load(&words).arg("--server").arg(binary()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (server, ready) = loop {
        match server_of(running.id()) {
            Some((server, ready)) if ready.exists() && until(&ready) => break (server, ready),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
        assert!(running.try_wait().unwrap().is_none(), "it ended before: {:?}", running.wait_with_output());
    };
    kill_process(server, signal).unwrap();
    let output = running.wait_with_output().unwrap();
    let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    // What the server held until then is kept.
    let results = files.filter(|file| !file.to_string_lossy().ends_with(".held.jsonl"));
    assert_eq!(results.count(), 0, "nothing of it is a result");
    let (code, said) = said(&output);
    (code, said, ready.parent().unwrap().to_owned())
}

#[test]
fn the_end_of_the_server_is_the_end_of_the_run() {
    // As soon as it is ready it is filled, which takes it a while; and a run of hours that ends at all has ended before its time.
    let filling = ["throughput-read", "--seed-record-count", "3000000"];
    let window = ["throughput-read", "--no-tls", "--seed-record-count", "100", "--test-duration-secs", "7200"];
    let open = [&window[..], &["--rate", "5"]].concat();
    let warming = ["throughput-read", "--seed-record-count", "100", "--warmup-requests", "900000000"];
    let serves = |ready: &Path| gets(ready) > 200;
    let any = |_: &Path| true;
    for (words, signal, word, until) in [
        (&filling[..], Signal::KILL, "signal 9", &any as &dyn Fn(&Path) -> bool),
        (&filling, Signal::TERM, "exit code 0", &any),
        (&window, Signal::KILL, "signal 9", &serves),
        (&open, Signal::ABORT, "signal 6", &serves),
        (&warming, Signal::KILL, "signal 9", &any),
    ] {
        let (code, said, folder) = end_server(words, signal, until);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(word), "{words:?}: {said}");
        assert!(!folder.exists(), "its folder is still there");
    }
}

#[test]
fn a_server_behind_a_url_that_goes_away_is_said_to_have_gone() {
    let folder = tempfile::tempdir().unwrap();
    let schema = ROWS.split("'''").nth(1).unwrap();
    fs::write(folder.path().join("schema.graphql"), schema).unwrap();
    let mut server = Command::new(binary());
    server.args(["serve", "--listen", "127.0.0.1:0", "--schema", "schema.graphql", "--ready-file", "ready"]);
    let mut server = server.current_dir(folder.path()).stderr(Stdio::null()).spawn().unwrap();
    let ready = folder.path().join("ready");
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let url = fs::read_to_string(&ready).unwrap();
    let words = ["run", "throughput-read", "--seed-record-count", "100", "--test-duration-secs", "7200"];
    let mut running = load(&words);
    running.args(["--base-url", url.trim(), "--results"]).arg(folder.path().join("results"));
    let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while gets(&ready) < 2000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let (code, said) = said(&running.wait_with_output().unwrap());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("gone") && said.contains("refused"), "{said}");
}

#[test]
fn a_server_that_is_stopped_is_said_to_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let shorter = "connections = 50\ntimeout_seconds = 0.5\ndrain_seconds = 0.5";
    let file = scenario(folder.path(), "connections = 50", shorter);
    let words = [file.as_str(), "--no-tls", "--seed-record-count", "100", "--test-duration-secs", "3"];
    let serves = |ready: &Path| gets(ready) > 2000;
    let (code, said, _) = end_server(&words, Signal::STOP, serves);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("stopped") && said.contains("SIGSTOP"), "{said}");
}

#[test]
fn one_failure_ends_the_warm_up() {
    let url = faulty_server::start(|_| Fault::Slow(Duration::from_secs(60)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    let limits = "connections = 4\nseconds = 1.0\nwarm_up_requests = 100000\ntimeout_seconds = 0.5";
    fs::write(&file, faulty_server::text(limits)).unwrap();
    let begun = Instant::now();
    let words = ["run", file.to_str().unwrap(), "--has-data", "--base-url", &url];
    assert_refused(&mut load(&words), &["warm-up", "0 of 4 "]);
    // 25 000 time-outs would be hours.
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[test]
fn connections_that_the_process_may_not_have_are_refused_before_the_run() {
    let limited = |limits: &str, words: &[&str]| {
        let mut shell = Command::new("sh");
        let line = format!("{limits} && exec \"$0\" \"$@\"");
        shell.args(["-c", &line, env!("CARGO_BIN_EXE_load")]).args(words).stdin(Stdio::null());
        shell
    };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().to_str().unwrap();
    let strata = binary();
    let thousand = ["throughput-read", "--concurrent-tasks", "1000", "--server", strata.to_str().unwrap()];
    let words = ["1000", "256", "descriptors", "ulimit -n"];
    assert_refused(&mut limited("ulimit -n 256", &[&["run"], &thousand[..]].concat()), &words);
    let open = ["run", "throughput-read", "--base-url", "http://127.0.0.1:1", "--concurrent-tasks", "2,1000"];
    assert_refused(&mut limited("ulimit -n 256", &open), &words);
    assert_refused(&mut limited("ulimit -n 256", &["calibrate", "--concurrent-tasks", "1000"]), &words);
    let pair =
        ["pair", "throughput-read", "--concurrent-tasks", "150", "--", "throughput-read", "--concurrent-tasks", "150"];
    assert_refused(&mut limited("ulimit -n 256", &pair), &["300 connections", "256"]);
    // The soft limit is raised.
    let short = ["--test-duration-secs", "0.5", "--seed-record-count", "100", "--results", results];
    let output = limited("ulimit -S -n 256", &[&["run"], &thousand[..], &short].concat()).output().unwrap();
    let result = crate::strata::result(folder.path());
    assert_eq!(
        (&result["broken"], &result["total"]["failed"]),
        (&serde_json::json!([]), &serde_json::json!({})),
        "{output:?}"
    );
}

#[test]
fn descriptors_that_run_out_end_the_run() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    // Each request needs a connection of its own from then on.
    let url = faulty_server::start(|number| {
        ASKED.store(number, Ordering::SeqCst);
        if number < 20 { Fault::None } else { Fault::Dropped }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    fs::write(&file, faulty_server::text("connections = 4\nseconds = 7200.0\nwarm_up_requests = 5")).unwrap();
    let mut running = load(&["run", file.to_str().unwrap(), "--has-data", "--base-url", &url]);
    let running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while ASKED.load(Ordering::SeqCst) < 200 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let few = Rlimit { current: Some(3), maximum: Some(3) };
    prlimit(Pid::from_raw(running.id() as i32), Resource::Nofile, few).unwrap();
    let (code, said) = said(&running.wait_with_output().unwrap());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("descriptors") && said.contains("ulimit -n"), "{said}");
}

#[test]
fn a_server_that_is_started_takes_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().to_str().unwrap();
    let strata = binary();
    // What the environment says is as if it were the server's own default, and less than there are connections.
    for tls in [&[][..], &["--no-tls"]] {
        let words =
            ["run", "throughput-read", "--concurrent-tasks", "60", "--test-duration-secs", "0.5", "--results", results];
        let mut command = load(&words);
        command.args(tls).env("STRATA_CONNECTIONS", "10").arg("--server").arg(&strata);
        let output = command.output().unwrap();
        let result = crate::strata::result(folder.path());
        assert_eq!(result["total"]["failed"], serde_json::json!({}), "{output:?}");
        assert!(result["server_configuration"]["connections"].as_u64() > Some(60), "{result}");
        fs::remove_dir_all(folder.path()).unwrap();
    }
    // A scenario's own option stays, and the reason is in words.
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[data]", "[data]\nserver_options = [\"--connections\", \"10\"]");
    let refused = load(&["run", &file]).arg("--server").arg(&strata).output().unwrap();
    assert!(!said(&refused).1.contains("InvalidContentType"), "{refused:?}");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn a_mistake_in_a_variable_is_said_with_its_name() {
    let run = ["run", "throughput-read", "--plan"];
    for name in [
        "BASE_URL",
        "STRATA_BINARY",
        "TEST_DURATION_SECS",
        "CONCURRENT_TASKS",
        "WARMUP_REQUESTS",
        "SEED_RECORD_COUNT",
        "TARGET_READ_THROUGHPUT",
        "TARGET_WRITE_THROUGHPUT",
    ] {
        assert_refused(load(&run).env(name, ""), &[name]);
        if name != "STRATA_BINARY" {
            assert_refused(load(&run).env(name, "many"), &[name, "many"]);
        }
        // The other binaries, too.
        let mut other = Command::new(env!("CARGO_BIN_EXE_throughput"));
        assert_refused(other.arg("--plan").env(name, ""), &[name]);
    }
    // What can be read, and is wrong all the same.
    for (name, value) in [("CONCURRENT_TASKS", "0"), ("TEST_DURATION_SECS", "-1"), ("SEED_RECORD_COUNT", "0")] {
        assert_refused(load(&run).env(name, value), &[name, value]);
    }
    assert_refused(load(&run).env("BASE_URL", "http://127.0.0.1:1").arg("--no-tls"), &["BASE_URL", "--no-tls"]);
    assert_refused(load(&run).env("TEST_DURATION_SECS", "1").args(["--requests", "9"]), &["TEST_DURATION_SECS"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{taken}");
    assert_refused(load(&["run", "throughput-read"]).env("BASE_URL", &nobody), &["BASE_URL", &nobody, "refused"]);
    // A flag stands before its variable.
    assert_eq!(
        load(&run).env("CONCURRENT_TASKS", "").args(["--concurrent-tasks", "4"]).status().unwrap().code(),
        Some(0)
    );
}
