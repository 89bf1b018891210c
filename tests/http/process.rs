//! The binary: what it says and how it exits, starting and stopping.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use super::client::{Connection, ask, schema, wait_until};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn output(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Exit code 2 and one line that contains each of these.
pub fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert!(output.stdout.is_empty());
}

/// The binary with a socket as systemd hands it over: descriptor 3, and the number of the process in `LISTEN_PID`.
pub fn handing_over(listener: &TcpListener) -> Command {
    let script = "exec env LISTEN_FDS=1 LISTEN_PID=$$ \"$0\" \"$@\" 3<&0 </dev/null";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_strata")]).stdin(OwnedFd::from(listener.try_clone().unwrap()));
    shell
}

/// A running server; killed when it is dropped.
pub struct Running {
    pub child: Child,
    log: BufReader<ChildStderr>,
    pub url: String,
}

impl Running {
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub fn start_with(folder: &Path, options: &[&str]) -> Self {
        Self::start_by(command(&[]), folder, options)
    }

    /// Starts it by a command that runs the binary with the arguments that follow.
    pub fn start_by(command: Command, folder: &Path, options: &[&str]) -> Self {
        Self::begin(command, folder, &[&["--listen", "127.0.0.1:0"], options].concat())
    }

    /// Starts it on a socket that is handed over to it.
    pub fn start_on(listener: &TcpListener, folder: &Path, options: &[&str]) -> Self {
        Self::begin(handing_over(listener), folder, options)
    }

    fn begin(mut command: Command, folder: &Path, options: &[&str]) -> Self {
        let (ready, data) = (folder.join("ready"), folder.join("data"));
        let _ = fs::remove_file(&ready);
        let mut child = command
            .args(["serve", "--workers", "1"])
            .env("STRATA_SCHEMA", schema())
            .arg("--data-dir")
            .arg(data)
            .arg("--ready-file")
            .arg(&ready)
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the ready file", || {
            assert!(child.try_wait().unwrap().is_none(), "the server has ended");
            ready.exists()
        });
        // It is written at one stroke: whoever sees it sees all of it.
        let url = fs::read_to_string(&ready).unwrap().strip_suffix('\n').unwrap().to_owned();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, url }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.log.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    /// Its threads, each with the function of the kernel in which it waits.
    fn threads(&self) -> String {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let told = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        tasks.map(|task| format!("{} {}\n", told(task.path().join("comm")), told(task.path().join("wchan")))).collect()
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        wait_until("the process ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    /// A test that has failed says what the threads of the server waited for, and what the server has logged.
    fn drop(&mut self) {
        let waiting = std::thread::panicking().then(|| self.threads());
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(waiting) = waiting {
            let mut logged = String::new();
            let _ = self.log.read_to_string(&mut logged);
            eprintln!("threads of the server, and what they waited for:\n{waiting}its log:\n{logged}");
        }
    }
}

/// The kernel drops the SYN of a client that finds the backlog full: its connect times out.
#[test]
fn as_many_wait_to_be_accepted_as_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start_with(folder.path(), &["--connections", "300"]);
    let address = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    server.signal("STOP");
    let waiting: Vec<_> = (0..300).map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(5))).collect();
    server.signal("CONT");
    assert_eq!(waiting.iter().filter(|connected| connected.is_err()).count(), 0);
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_keeps_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path());
    assert_eq!(server.line(), format!("strata: listening on {}", server.url));
    assert_ne!(server.url, "http://127.0.0.1:0");
    assert_eq!(ask(&server.url, "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    let mut slow = Connection::open(&server.url);
    slow.send("PUT /Product/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 16\r\n\r\n");
    assert_eq!(slow.receive(false).status, 100);
    slow.send("{\"name\":");
    let mut idle = Connection::open(&server.url);
    assert_eq!(idle.request("GET", "/_ready", "").status, 200);

    server.signal("TERM");
    assert_eq!(server.line(), "strata: SIGTERM: stopping");
    assert!(idle.is_closed());
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    wait_until("nobody is let in any more", || TcpStream::connect(&address).is_err());
    slow.send("\"Chair\"}");
    let response = slow.receive(false);
    assert_eq!((response.status, response.header("connection")), (201, "close"));
    assert_eq!(server.exit_code(), Some(0));

    let server = Running::start(folder.path());
    assert_eq!(ask(&server.url, "GET", "/Product?limit=5", "").body.matches("\"id\"").count(), 2);
}

/// Connections and files of the store are many.
#[test]
#[cfg(target_os = "linux")]
fn it_may_have_as_many_files_open_as_the_system_allows() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -S -n 256 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_strata")]);
    let server = Running::start_by(shell, folder.path(), &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let open_files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let numbers: Vec<_> = open_files.split_whitespace().collect();
    assert!(numbers[0] == numbers[1] && numbers[0] != "256", "{open_files}");
}

/// glibc's allocator maps an arena beside the first one at a multiple of 64 MiB.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn threads_share_as_many_arenas_as_there_are_processors() {
    fn mapped_arenas(bound: Option<&str>) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let mut binary = command(&[]);
        binary.env_remove("MALLOC_ARENA_MAX").env_remove("GLIBC_TUNABLES");
        binary.envs(bound.map(|most| ("MALLOC_ARENA_MAX", most)));
        let server = Running::start_by(binary, folder.path(), &[]);
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let url = &server.url;
                threads.spawn(move || {
                    for number in 0..8 {
                        assert_eq!(
                            ask(url, "PUT", &format!("/Product/{thread}-{number}"), r#"{"name":"a"}"#).status,
                            201
                        );
                        assert_eq!(ask(url, "GET", "/Product?sort=name", "").status, 200);
                    }
                });
            }
        });
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
        let begins = |line: &str| u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        maps.lines()
            .filter(|line| line.split_whitespace().count() == 5 && begins(line).is_multiple_of(64 << 20))
            .count()
    }
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(mapped_arenas(None) < processors);
    assert!(mapped_arenas(Some("64")) >= 4, "what the operator says counts, and more threads than that allocate");
}

#[test]
fn a_backup_is_restored_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, running, offline, restored) = (path("data"), path("running"), path("offline"), path("restored"));
    let mut server = Running::start_with(folder.path(), &["--checkpoint-dir", folder.path().to_str().unwrap()]);
    assert_eq!(ask(&server.url, "PUT", "/Product/1", r#"{"name":"Lamp","category":"light"}"#).status, 201);
    let made = ask(&server.url, "POST", "/_checkpoint?name=running", "");
    assert_eq!((made.status, made.body.as_str()), (201, r#"{"name":"running"}"#));
    assert_eq!(ask(&server.url, "PUT", "/Product/2", r#"{"name":"Chair"}"#).status, 201);
    let schema = schema();
    let of = |command: &'static str, data: &str| {
        output(&[command, "--schema", schema.to_str().unwrap(), "--data-dir", data])
    };
    assert_refused(&of("verify", &data), &["is in use"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));

    assert!(output(&["backup", &offline, "--data-dir", &data]).status.success());
    assert_refused(&output(&["backup", &offline, "--data-dir", &data]), &["cannot back up into", "exists"]);
    assert_refused(&output(&["restore", &offline, "--data-dir", &data]), &["it has a store"]);
    assert_refused(&output(&["compact", "--data-dir", &path("nowhere")]), &["no store"]);
    for (backup, records) in [(&running, 1), (&offline, 2)] {
        let _ = fs::remove_dir_all(&restored);
        assert!(output(&["restore", backup, "--data-dir", &restored]).status.success());
        assert!(output(&["compact", "--data-dir", &restored]).status.success());
        assert!(of("verify", &restored).status.success());
        let stats: serde_json::Value = serde_json::from_slice(&of("stats", &restored).stdout).unwrap();
        assert_eq!((&stats["tables"][0]["name"], &stats["tables"][0]["records"]), (&"Product".into(), &records.into()));
        assert!(stats["tables"][0]["indexes"][0]["entries"].as_u64() > Some(0), "{stats}");
    }
}

/// What is done to the log, words of the refusal, and whether some writes are left.
type Loss = (fn(&Path), &'static str, bool);

#[test]
fn a_log_that_has_lost_what_was_synced_is_refused_until_that_is_accepted() {
    const WRITES: usize = 40;
    let losses: [Loss; 4] = [
        (|log| fs::remove_file(log).unwrap(), "the log has no file", false),
        (|log| fs::write(log, "").unwrap(), "ends at byte 0", false),
        (|log| fs::write(log, fs::read(log).unwrap().split_last_chunk::<1000>().unwrap().0).unwrap(), ".log ", true),
        (
            |log| {
                let mut bytes = fs::read(log).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(log, bytes).unwrap();
            },
            "bytes lie behind it",
            true,
        ),
    ];
    let mut all = None;
    for (lose, words, some_are_left) in losses {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let synced = || {
            let noted: serde_json::Value = serde_json::from_slice(&fs::read(data.join("SYNCED")).unwrap()).unwrap();
            noted["synced"].as_u64()
        };
        let mut server = Running::start(folder.path());
        let mut connection = Connection::open(&server.url);
        for number in 0..WRITES {
            assert_eq!(connection.request("PUT", &format!("/Visit/{number}"), "{}").status, 201);
        }
        // All of it is known to be synced once the server has stopped, or is idle for a second.
        match all {
            None => {
                server.signal("TERM");
                assert_eq!(server.exit_code(), Some(0));
                all = synced();
            }
            Some(_) => {
                wait_until("all is known to be synced", || synced() == all);
                server.signal("KILL");
                assert_eq!(server.exit_code(), None);
            }
        }
        let files = fs::read_dir(&data).unwrap().map(|file| file.unwrap().path());
        lose(&files.filter(|file| file.extension().is_some_and(|kind| kind == "log")).max().unwrap());
        let options = ["--schema", schema().to_str().unwrap(), "--data-dir", data.to_str().unwrap()].map(str::to_owned);
        let refused = |command: &str| {
            let words_of_all = [words, "--accept-lost-log", "which were synced"];
            assert_refused(&output(&[&[command], &options.each_ref().map(String::as_str)[..]].concat()), &words_of_all);
        };
        refused("serve");
        refused("verify");
        for options in [&["--accept-lost-log"][..], &[]] {
            let mut server = Running::start_with(folder.path(), options);
            let left = ask(&server.url, "GET", "/Visit?select=id", "").body.matches("\"id\"").count();
            assert!(left < WRITES && (left > 0) == some_are_left, "{words}: {left} are left");
            server.signal("TERM");
            assert_eq!(server.exit_code(), Some(0));
        }
        assert_eq!(data.join("lost").exists(), words != "the log has no file", "{words}");
    }
}

/// A bit in each part of each file of a copy, and each file.
#[test]
fn a_copy_that_is_damaged_is_not_restored_and_not_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, backup, restored) = (path("data"), path("backup"), path("restored"));
    let write = |from: usize, to: usize| {
        let mut server = Running::start(folder.path());
        for number in from..to {
            let body = format!(r#"{{"name":"Lamp","category":"light","note":"{}"}}"#, "n".repeat(1000));
            assert_eq!(ask(&server.url, "PUT", &format!("/Product/{number}"), &body).status, 201);
        }
        assert_eq!(ask(&server.url, "PUT", "/Photo/1", "{}").status, if from == 0 { 201 } else { 200 });
        let put = Connection::open(&server.url).request_with(
            "PUT",
            "/Photo/1/picture",
            &[("content-type", "image/png")],
            &vec![7; 300_000],
        );
        assert!(put.status < 300);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
    };
    write(0, 100);
    assert!(output(&["compact", "--data-dir", &data]).status.success());
    // These are in the log.
    write(100, 120);
    assert!(output(&["backup", &backup, "--data-dir", &data]).status.success());
    let schema = schema();
    let codes = || {
        let restored = output(&["restore", &backup, "--data-dir", &restored]).status.code();
        [restored, output(&["verify", "--schema", schema.to_str().unwrap(), "--data-dir", &backup]).status.code()]
    };
    let mut kinds = Vec::new();
    for file in fs::read_dir(&backup).unwrap().map(|file| file.unwrap().path()) {
        let (name, bytes) = (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&file).unwrap());
        if name.starts_with("OPTIONS-") || name == "SYNCED" || bytes.is_empty() {
            continue;
        }
        kinds.push(file.extension().map(|kind| kind.to_str().unwrap().to_owned()));
        let refused = |what: &str| {
            assert_eq!(codes(), [Some(2); 2], "{name}: {what}");
            assert!(!Path::new(&restored).exists(), "{name}: {what}");
        };
        // The last record of a log says up to where it was synced, and is no write.
        let last = bytes.len() - if name.ends_with(".log") { 100 } else { 1 };
        for position in (0..8).map(|part| part * bytes.len() / 8).chain([last]) {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            fs::write(&file, damaged).unwrap();
            refused(&format!("byte {position} of {}", bytes.len()));
        }
        fs::remove_file(&file).unwrap();
        refused("removed");
        fs::write(&file, bytes).unwrap();
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, [None, Some("blob".to_owned()), Some("log".to_owned()), Some("sst".to_owned())]);
    assert_eq!(codes(), [Some(0); 2]);
}

/// Every file below a folder with its bytes, and when and as what it was changed last.
fn listed(folder: &Path) -> Vec<(PathBuf, Vec<u8>, [i64; 4])> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.metadata().unwrap();
        let bytes = if about.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
        found.extend(if about.is_dir() { listed(&path) } else { Vec::new() });
        found.push((path, bytes, [about.mtime(), about.mtime_nsec(), about.ino().cast_signed(), about.mode().into()]));
    }
    found.sort();
    found
}

/// A checkpoint and the data directory itself, which has writes in its log alone; also where nothing may be written.
#[test]
fn what_reads_a_store_changes_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut server = Running::start_with(folder.path(), &["--checkpoint-dir", folder.path().to_str().unwrap()]);
    for number in 0..20 {
        assert_eq!(ask(&server.url, "PUT", &format!("/Product/{number}"), r#"{"name":"Lamp"}"#).status, 201);
    }
    assert_eq!(ask(&server.url, "POST", "/_checkpoint?name=copy", "").status, 201);
    server.signal("KILL");
    server.exit_code();
    let schema = schema();
    let schema = ["--schema", schema.to_str().unwrap()];
    for data in ["data", "copy"] {
        let before = listed(&folder.path().join(data));
        let backup = path(&format!("{data}.backup"));
        for arguments in
            [[&["verify"], &schema[..]].concat(), [&["stats"], &schema[..]].concat(), vec!["backup", &backup]]
        {
            let done = output(&[&arguments[..], &["--data-dir", &path(data)]].concat());
            assert!(done.status.success(), "{done:?}");
            assert_eq!(listed(&folder.path().join(data)), before, "{arguments:?}");
        }
        // Mounted read-only, and the backup on another file system, to which nothing can be linked.
        let script = r#"mount -t tmpfs tmpfs "$1" && mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && shift && exec "$@""#;
        let elsewhere = path("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        for arguments in [["verify", "--data-dir"], ["backup", "--data-dir"]] {
            let mut apart = Command::new("unshare");
            apart.args(["--map-root-user", "--mount", "sh", "-c", script, &path(data), &elsewhere]);
            apart.arg(env!("CARGO_BIN_EXE_strata")).args(arguments).arg(path(data));
            if arguments[0] == "verify" {
                apart.args(schema);
            } else {
                apart.arg(format!("{elsewhere}/backup"));
            }
            let done = apart.output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success() || said.contains("unshare: ") || said.contains("mount: "), "{said}");
        }
        assert!(output(&[&["verify"], &schema[..], &["--data-dir", &backup]].concat()).status.success());
    }
}

#[test]
fn a_ready_file_speaks_of_a_server_that_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut server = Running::start(folder.path());
    let taken = server.url.strip_prefix("http://").unwrap().to_owned();
    let schema = schema();
    let again = |data: &str| {
        let (ready, data) = (ready.to_str().unwrap(), folder.path().join(data));
        let options = ["serve", "--listen", &taken, "--ready-file", ready, "--schema", schema.to_str().unwrap()];
        output(&[&options[..], &["--data-dir", data.to_str().unwrap()]].concat())
    };
    assert_refused(&again("data"), &["cannot listen"]);
    assert!(ready.exists(), "that of the server that is running");
    assert_refused(&again("other"), &["cannot listen"]);
    assert!(!ready.exists(), "no server runs over this directory");
    fs::write(&ready, "left behind\n").unwrap();
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    assert!(!ready.exists(), "it has stopped");
}

#[test]
fn an_access_log_that_nobody_reads_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (data, schema) = (folder.path().join("data"), schema());
    let options = ["serve", "--listen", "127.0.0.1:0", "--schema", schema.to_str().unwrap()];
    let options =
        [&options[..], &["--data-dir", data.to_str().unwrap(), "--access-log", fifo.to_str().unwrap()]].concat();
    assert_refused(&output(&options), &["access log", "FIFO"]);
    // `-` is standard error, and no file of the folder that is served: the refusal is of what is looked at later.
    let site = tempfile::tempdir().unwrap();
    let options =
        ["serve", "--listen", "127.0.0.1:0", "--static", ".", "--access-log", "-", "--static-cache-control", "\n"];
    let options =
        [&options[..], &["--schema", schema.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]].concat();
    assert_refused(&command(&options).current_dir(site.path()).output().unwrap(), &["cache_control"]);
}

/// Only root can start it as somebody else, who has no process yet.
#[test]
fn a_limit_of_processes_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"chmod 777 "$1" && shift && exec setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --nproc="$0" "$@""#;
    // Where somebody else may come to.
    let (program, schema_file) = (folder.path().join("strata"), folder.path().join("schema.graphql"));
    fs::copy(env!("CARGO_BIN_EXE_strata"), &program).unwrap();
    fs::copy(schema(), &schema_file).unwrap();
    for (limit, command) in [("8", "serve"), ("3", "serve"), ("8", "verify")] {
        let mut limited = Command::new("sh");
        limited.args(["-c", script, limit]).arg(folder.path()).arg(&program).arg(command);
        limited.arg("--schema").arg(&schema_file).arg("--data-dir").arg(folder.path());
        fs::write(folder.path().join("CURRENT"), "").unwrap();
        let done = limited.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        if ["setpriv: ", "prlimit: ", "not found"].iter().any(|tool| said.contains(tool)) {
            println!("skipped: here nobody can be limited");
            return;
        }
        assert_refused(&done, &["threads are needed", "ulimit -u"]);
    }
}

#[test]
fn what_a_migration_deletes_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.graphql");
    let start = |sdl: &str, options: &[&str]| {
        fs::write(&schema, sdl).unwrap();
        Running::start_with(folder.path(), &[&["--schema", schema.to_str().unwrap()][..], options].concat())
    };
    let both = "type Brand @table @export { id: ID! @primaryKey }
        type Product @table @export { id: ID! @primaryKey  price: Int  note: String }";
    let mut server = start(both, &[]);
    for number in 0..3 {
        assert_eq!(ask(&server.url, "PUT", &format!("/Brand/{number}"), "{}").status, 201);
        assert_eq!(
            ask(&server.url, "PUT", &format!("/Product/{number}"), &format!(r#"{{"price":{number}}}"#)).status,
            201
        );
    }
    server.signal("TERM");
    server.exit_code();
    let renamed =
        "type Maker @table @export { id: ID! @primaryKey } type Product @table @export { id: ID! @primaryKey }";
    let mut server = start(renamed, &["--migrate"]);
    let said = [server.line(), server.line(), server.line(), server.line()];
    for what in [
        "attribute price of table Product: values of 3 records",
        "attribute note of table Product: values of 0",
        "table Brand: 3 records",
    ] {
        assert_eq!(
            said.iter().filter(|line| line.starts_with("strata: warning: ") && line.contains(what)).count(),
            1,
            "{said:?}"
        );
    }
    server.signal("TERM");
    server.exit_code();
    assert!(start(renamed, &["--migrate"]).line().contains("listening"), "once");
}

#[test]
fn variables_are_options_of_every_command_and_a_slip_is_said() {
    let of = |variables: &[(&str, &str)]| {
        let done = command(&["check"]).env_remove("STRATA_SCHEMA").envs(variables.iter().copied()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let schema = schema();
    let schema = ("STRATA_SCHEMA", schema.to_str().unwrap());
    assert_eq!(of(&[schema]), (Some(0), String::new()));
    let (code, said) = of(&[schema, ("STRATA_MAXROWS", "5"), ("STRATA_SERVICE_HOST", "10.0.0.1")]);
    assert_eq!((code, said.lines().count()), (Some(0), 1));
    assert!(said.contains("STRATA_MAXROWS") && said.contains("STRATA_MAX_ROWS"), "{said}");
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_disk_that_takes_no_more_is_an_error_and_shows_in_health() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    // In sh, -f counts blocks of 512 bytes. The signal is ignored, so that the write fails instead.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 256 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_strata")]);
    let mut server = Running::start_by(shell, folder.path(), &[]);
    server.line();
    assert_eq!(ask(&server.url, "GET", "/_health", "").status, 200);
    let body = format!(r#"{{"name":"{}"}}"#, "n".repeat(4096));
    let refused =
        (0..1000).map(|_| ask(&server.url, "POST", "/Product", &body)).find(|response| response.status != 201);
    assert_eq!(refused.expect("the log has at most 128 KiB").status, 500);
    assert_eq!(ask(&server.url, "POST", "/Product", &body).status, 500, "not busy: it would be for ever");
    let said = [server.line(), server.line(), server.line()];
    assert!(said[0].starts_with("strata: error: the storage refuses writes: IO error"), "once: {said:?}");
    assert!(said[1..].iter().all(|line| line.contains("failed: cannot write")), "each request: {said:?}");
    assert_eq!(ask(&server.url, "GET", "/_health", "").status, 503);
    assert_eq!(ask(&server.url, "GET", "/Product?limit=1", "").status, 200, "what is stored is readable");
}

/// Starts a server whose data directory is on a file system of its own, of 40 MiB; a file beside it takes some of them. `None` if nobody may
/// mount one here.
fn on_a_small_disk(folder: &Path, filler_mib: u64, options: &[&str]) -> Option<(Running, PathBuf)> {
    let disk = folder.join("disk");
    fs::create_dir(&disk).unwrap();
    std::os::unix::fs::symlink("disk/data", folder.join("data")).unwrap();
    // The server alone sees it, and it goes with the server.
    let mount = format!(
        r#"mount -t tmpfs -o size=40m tmpfs "$0" && mkdir "$0/data" && head -c {filler_mib}M /dev/zero > "$0/filler""#
    );
    let apart = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(&disk);
        command
    };
    if !apart(&mount).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("skipped: here nobody may mount a file system of his own");
        return None;
    }
    let mut shell = apart(&format!(r#"{mount} && exec "$@""#));
    shell.arg(env!("CARGO_BIN_EXE_strata"));
    let server = Running::start_by(shell, folder, &[&["--write-buffer-bytes", "1M"], options].concat());
    let filler = PathBuf::from(format!("/proc/{}/root{}/filler", server.child.id(), disk.display()));
    Some((server, filler))
}

#[test]
fn near_the_end_of_the_disk_room_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--reserve-bytes", "16M", "--feed-log-bytes", "0"];
    let Some((server, _)) = on_a_small_disk(folder.path(), 4, &options) else { return };
    // It is not compressed.
    let mut random = 1_u64;
    let mut letter = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (random >> 60) as u8)
    };
    let body = format!(r#"{{"name":"{}"}}"#, (0..16 << 10).map(|_| letter()).collect::<String>());
    let ask = |method: &str, path: &str, body: &str| ask(&server.url, method, path, body);
    assert_eq!(ask("PUT", "/Product/first", &body).status, 201);
    assert_eq!(ask("PUT", "/Photo/first", "{}").status, 201);
    let put = |id: &str| {
        let (path, image) = (format!("/Photo/{id}/picture"), [("content-type", "image/png")]);
        Connection::open(&server.url).request_with("PUT", &path, &image, &[7; 100_000]).status
    };
    assert_eq!(put("first"), 201);
    let event = format!("{{\"payload\":{body},\"partition\":0}}");
    assert_eq!(ask("POST", "/Click", &event).status, 202);
    let commit = |group: &str, offset: u64| {
        let offsets = format!("{{\"offsets\":[{{\"partition\":0,\"offset\":{offset}}}]}}");
        ask("PUT", &format!("/Click/consumers/{group}"), &offsets).status
    };
    assert_eq!(commit("mail", 0), 200);
    let fill = || {
        (0..10_000)
            .map(|_| ask("POST", "/Product", &body))
            .find(|response| ![201, 503].contains(&response.status))
            .unwrap()
    };
    let refused = fill();
    assert_eq!((refused.status, refused.header("retry-after")), (507, "1"), "{}", refused.body);
    assert!(refused.body.contains("storage-full"), "{}", refused.body);
    // Flushes and compactions may give back space at any moment.
    let while_full = |what: &str, status: &dyn Fn() -> u16, expected: u16| {
        wait_until(what, || {
            fill();
            status() == expected
        });
    };
    while_full("a change is refused", &|| ask("PATCH", "/Product/first", r#"{"note":"more"}"#).status, 507);
    while_full("the server is not healthy", &|| ask("GET", "/_health", "").status, 503);
    while_full("a blob is refused", &|| put("first"), 507);
    // Each of them, the next one too.
    while_full(
        "an event is refused",
        &|| ask("POST", "/Click", &event).status.max(ask("POST", "/Click", &event).status),
        507,
    );
    // One that was taken, since there was room again, is not new any more.
    let groups = Cell::new(0);
    let commit_as_another = || commit(&format!("new{}", groups.replace(groups.get() + 1)), 1);
    while_full("a new group is refused", &commit_as_another, 507);
    assert_eq!(commit("mail", 1), 200);
    assert_eq!(ask("DELETE", "/Click?partition=0&before=1", "").status, 200);
    assert_eq!(ask("GET", "/Product/first", "").status, 200);
    assert_eq!(ask("DELETE", "/Photo/first/picture", "").status, 204);
    assert_eq!(ask("DELETE", "/Product/first", "").status, 204);
    assert_eq!(ask("DELETE", "/Product?truncate=true", "").status, 200);
    wait_until("the space is given back", || ask("POST", "/Product", &body).status == 201);
    wait_until("it is well again", || ask("GET", "/_health", "").status == 200);
}

#[test]
fn a_disk_that_has_room_again_is_written_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut server, filler)) = on_a_small_disk(folder.path(), 36, &["--reserve-bytes", "0"]) else { return };
    let body = format!(r#"{{"name":"{}"}}"#, "n".repeat(16 << 10));
    let status = |server: &Running| ask(&server.url, "POST", "/Product", &body).status;
    // It may be behind with its flushes before the disk is full.
    let refused = (0..1000).map(|_| status(&server)).find(|status| ![201, 503].contains(status));
    assert_eq!(refused, Some(507), "there are 4 MiB");
    assert_eq!(ask(&server.url, "GET", "/_health", "").status, 503);
    fs::remove_file(filler).unwrap();
    wait_until("it is written to again", || ask(&server.url, "GET", "/_health", "").status == 200);
    assert_eq!(status(&server), 201);
    server.signal("TERM");
    let mut log = String::new();
    server.log.read_to_string(&mut log).unwrap();
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!((said("the storage refuses writes"), said("the storage accepts writes again")), (1, 1), "{log}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_stop_gives_up_what_is_in_flight_at_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start_with(folder.path(), &["--stop-timeout-ms", "100"]);
    server.line();
    let mut slow = Connection::open(&server.url);
    slow.send("PUT /Product/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 16\r\n\r\n");
    assert_eq!(slow.receive(false).status, 100);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0), "what is in flight is given up");
    assert!(slow.is_closed());
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path());
    let mut slow = Connection::open(&server.url);
    slow.send("PUT /Product/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 16\r\n\r\n");
    assert_eq!(slow.receive(false).status, 100);
    server.line();
    server.signal("INT");
    assert_eq!(server.line(), "strata: SIGINT: stopping");
    assert!(server.child.try_wait().unwrap().is_none(), "it waits for the body");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    let mut rest = String::new();
    server.log.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "strata: second SIGTERM: exiting at once\n");
}

#[test]
fn what_is_in_use_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path());
    let (schema, data) = (schema(), folder.path().join("data"));
    let start = |data: &Path, listen: &str| {
        command(&["serve", "--listen", listen])
            .arg("--schema")
            .arg(&schema)
            .arg("--data-dir")
            .arg(data)
            .output()
            .unwrap()
    };
    assert_refused(&start(&data, "127.0.0.1:0"), &["data directory", "in use by another process"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_refused(&start(&folder.path().join("other"), &address), &[&address, "--listen", "in use"]);
    assert_eq!(ask(&server.url, "GET", "/_health", "").status, 200, "the first goes on");
}

/// Each failure says why on standard error. A pipe that nobody reads is full after some hundred of them.
#[test]
fn nobody_has_to_read_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("file.txt"), "as it was").unwrap();
    let options = ["--static", site.to_str().unwrap(), "--static-memory-bytes", "0"];
    let mut server = Running::start_with(folder.path(), &options);
    fs::remove_file(site.join("file.txt")).unwrap();
    let mut connection = Connection::open(&server.url);
    for _ in 0..3000 {
        assert_eq!(connection.request("GET", "/file.txt", "").status, 500);
    }
    let metrics = connection.request("GET", "/_metrics", "").body;
    let lost = metrics.lines().find_map(|line| line.strip_prefix("strata_messages_dropped_lines_total "));
    assert!(lost.is_some_and(|lost| lost.parse::<u64>().unwrap() > 0), "what is lost is counted: {metrics}");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

/// Found out after the server's threads are there, or before: one sentence and nothing left behind.
#[test]
fn what_the_options_name_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schema();
    let start = |data: &str, options: &[&str]| {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--schema", schema.to_str().unwrap()]);
        command.arg("--data-dir").arg(folder.path().join(data)).args(options).output().unwrap()
    };
    assert_refused(&start("one", &["--static", "nowhere"]), &["nowhere"]);
    assert!(!folder.path().join("one").exists(), "nothing is made by who cannot start");
    assert_refused(&start("two", &["--static", schema.to_str().unwrap()]), &["schema.graphql"]);
    assert_refused(&start("three", &["--access-log", "nowhere/access.log"]), &["nowhere/access.log"]);
    let cannot = start("four", &["--ready-file", "nowhere/ready"]);
    assert_refused(&cannot, &["nowhere/ready"]);
}

#[test]
fn a_schema_of_which_nothing_is_served_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.graphql");
    fs::write(&schema, "type Product @table { id: ID! @primaryKey }").unwrap();
    let mut server = Running::start_with(folder.path(), &["--schema", schema.to_str().unwrap()]);
    let said = server.line();
    assert!(said.starts_with("strata: warning: ") && said.contains("@export"), "{said}");
    assert!(server.line().contains("listening"));
}

#[test]
fn a_table_that_the_schema_no_longer_defines_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.graphql");
    let start = |types: &[&str], options: &[&str]| {
        let types = types.iter().map(|name| format!("type {name} @table @export {{ id: ID! @primaryKey }}\n"));
        fs::write(&schema, types.collect::<String>()).unwrap();
        let options = [&["--schema", schema.to_str().unwrap()][..], options].concat();
        let mut server = Running::start_with(folder.path(), &options);
        let said = server.line();
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
        said
    };
    assert!(start(&["Brand", "Product"], &[]).contains("listening"));
    let kept = "strata: warning: table Product is in the data directory but not in the schema: its records are kept and \
                not served; --migrate deletes them";
    assert_eq!([start(&["Brand"], &[]), start(&["Brand"], &[])], [kept; 2]);
    assert!(start(&["Brand", "Product"], &[]).contains("listening"));
    assert!(start(&["Brand"], &["--migrate"]).contains("deletes what is not in the schema: table Product: 0 records"));
    assert!(start(&["Brand"], &[]).contains("listening"), "it is gone");
}

/// As of `strata serve --print-config | head -1`.
#[test]
fn who_reads_what_it_prints_may_stop_at_any_line() {
    let schema = schema();
    for arguments in [
        ["serve", "--print-config", "--schema", schema.to_str().unwrap()].as_slice(),
        &["check", "--schema", schema.to_str().unwrap()],
        &["--help"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_refused(&command(arguments).stdout(full).output().unwrap(), &["standard output"]);
    }
}

/// Nor need anybody read why it refuses: the exit code says that it does.
#[test]
fn a_refusal_that_cannot_be_written_is_a_refusal() {
    for arguments in
        [["check", "--schema", "nowhere"].as_slice(), &["stats", "--schema", "nowhere"], &["--nowhere"], &[]]
    {
        let broken = io::pipe().unwrap().1;
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        for stderr in [Stdio::from(broken), Stdio::from(full)] {
            assert_eq!(command(arguments).stderr(stderr).status().unwrap().code(), Some(2), "{arguments:?}");
        }
    }
}

#[test]
fn a_damaged_data_directory_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path());
    assert_eq!(ask(&server.url, "PUT", "/Product/1", r#"{"name":"Lamp"}"#).status, 201);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let data = folder.path().join("data");
    let start = || {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--schema").arg(schema()).arg("--data-dir").arg(&data).output().unwrap()
    };
    let current = fs::read_to_string(data.join("CURRENT")).unwrap();
    let manifest = data.join(current.trim_end());
    let whole = fs::read(&manifest).unwrap();
    let mut damaged = whole.clone();
    damaged[10] ^= 0x40;
    fs::write(&manifest, damaged).unwrap();
    assert_refused(&start(), &["damaged", "restore"]);
    fs::write(&manifest, whole).unwrap();
    fs::write(data.join("CURRENT"), "nonsense\n").unwrap();
    assert_refused(&start(), &["data"]);
}

#[test]
fn mistakes_in_what_was_asked_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.graphql");
    fs::write(&bad, "type Product @table @export {\n  id: ID! @primaryKey\n  name: Strin\n}\n").unwrap();
    let bad = bad.to_str().unwrap();
    let schema = schema();
    let schema = schema.to_str().unwrap();
    assert_refused(&output(&["check", "--schema", bad]), &["bad.graphql:3:", "Strin"]);
    assert_refused(&output(&["serve", "--schema", bad]), &["bad.graphql:3:"]);
    assert_refused(&output(&["serve", "--schema", "nowhere.graphql"]), &["nowhere.graphql"]);
    assert_refused(&output(&["serve"]), &["--schema"]);
    assert_refused(&output(&["serve", "--schema", schema, "--listen", "0.0.0.0:0"]), &["0.0.0.0:0", "--insecure"]);
    assert_refused(&output(&["serve", "--listen", "nowhere"]), &["--listen", "nowhere", "127.0.0.1:9996"]);
    assert_refused(&output(&["serve", "--nonsense"]), &["--nonsense", "--help"]);
    assert_refused(&output(&["serve", "--workers", "0"]), &["workers"]);
    let said = output(&["serve", "--workers", "many"]);
    assert_refused(&said, &["--workers", "many"]);
    assert_eq!(String::from_utf8_lossy(&said.stderr).matches("--help").count(), 1);
    assert_refused(&output(&["serve", "--config", "nowhere.toml"]), &["nowhere.toml"]);
    assert_refused(&output(&[]), &["serve"]);
    let valid = output(&["check", "--schema", schema]);
    assert!(valid.status.success() && String::from_utf8_lossy(&valid.stdout).contains("Product"));
}

#[test]
fn options_of_nats_are_checked() {
    let schema = schema();
    let start = |options: &[&str]| output(&[&["serve", "--schema", schema.to_str().unwrap()], options].concat());
    if cfg!(feature = "nats") {
        assert_refused(&start(&["--jetstream"]), &["--jetstream", "--nats-servers"]);
        assert_refused(&start(&["--nats-servers", "http://localhost"]), &["http://localhost", "nats://"]);
        assert_refused(&start(&["--nats-servers", "nats://a:b@one,nats://c:d@two"]), &["credentials"]);
    }
    assert_refused(&start(&["--nats-servers", "nats://"]), &["--nats-servers"]);
    assert_refused(&start(&["--nats-connections", "0"]), &["nats_connections"]);
}

#[test]
fn options_in_effect_are_printed_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("strata.toml");
    fs::write(
        &file,
        "workers = 3\ndata_dir = \"from-file\"\nlisten = \"127.0.0.1:1\"\n[storage]\ncache_bytes = 1000\n",
    )
    .unwrap();
    let mut command = command(&["serve", "--print-config", "--listen", "127.0.0.1:3", "--config"]);
    let output = command
        .arg(file)
        .env("STRATA_DATA_DIR", "from-environment")
        .env("STRATA_LISTEN", "127.0.0.1:2")
        .output()
        .unwrap();
    let config: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(config["listen"], "127.0.0.1:3", "a flag wins");
    assert_eq!(config["data_dir"], "from-environment", "the environment wins over the file");
    assert_eq!((&config["workers"], &config["storage"]["cache_bytes"]), (&3.into(), &1000.into()));
    assert_eq!(config["ingress"]["body_bytes"], 1 << 20, "a default");
}

#[test]
fn a_cache_may_be_none_and_never_more_than_can_be_reserved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("strata.toml");
    fs::write(&file, "[storage]\ncache_bytes = 0\nblob_cache_bytes = \"0K\"\n").unwrap();
    let none = ["--cache-bytes", "0", "--blob-cache-bytes", "0"];
    let by_file = ["--config", file.to_str().unwrap()];
    for (round, options) in [&none[..], &by_file, &none].into_iter().enumerate() {
        let mut server = Running::start_with(folder.path(), options);
        let body = format!(r#"{{"name":"Lamp","category":"{round}"}}"#);
        assert_eq!(ask(&server.url, "PUT", &format!("/Product/{round}"), &body).status, 201);
        for earlier in 0..=round {
            // Those of earlier rounds are in files: opening a store flushes its log.
            let read = ask(&server.url, "GET", &format!("/Product/{earlier}"), "");
            assert!(read.status == 200 && read.body.contains(&format!("{earlier}")), "{}", read.body);
            let found = ask(&server.url, "GET", &format!("/Product?category=={earlier}"), "");
            assert!(found.status == 200 && found.body.contains("Lamp"), "{}", found.body);
        }
        assert_eq!(ask(&server.url, "GET", "/_metrics", "").status, 200);
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(0));
    }
    let (schema, data) = (schema(), folder.path().join("other"));
    let start = |options: &[&str]| {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--schema"]);
        command.arg(&schema).arg("--data-dir").arg(&data).args(options).output().unwrap()
    };
    for size in ["18446744073709551615", "16777215T"] {
        assert_refused(&start(&["--cache-bytes", size]), &["--cache-bytes", size, "at most"]);
    }
    for option in ["--open-files", "--max-rows", "--idle-timeout-ms"] {
        assert_refused(&start(&[option, "18446744073709551615"]), &[option, "expected a number"]);
    }
    for size in ["9223372036854775807", "8388607T", "1024T"] {
        assert_refused(&start(&["--cache-bytes", size]), &["cache_bytes", "cannot reserve"]);
        assert_refused(&start(&["--blob-cache-bytes", size]), &["blob_cache_bytes", "cannot reserve"]);
        fs::write(&file, format!("[storage]\nblob_cache_bytes = \"{size}\"\n")).unwrap();
        assert_refused(&start(&by_file), &["blob_cache_bytes", "cannot reserve"]);
    }
    assert!(!data.exists());
}
