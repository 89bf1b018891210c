//! The server of a run: started in a folder of its own and stopped again, or one that is there already.
//!
//! It is a process of its own, so that its CPU is its own, and it takes a free port, so that runs do not meet. What it says on standard
//! error is kept: where it fails, its last words are the reason.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid};
use serde_json::Value;
use tempfile::TempDir;

use crate::cargo::cargo;
use crate::connection::{Reach, Target};
use crate::interrupt;
use crate::neighbours::Neighbours;
use crate::output::remark;
use crate::pinning::{Pinned, started_on};
use crate::quota::{self, Quota};
use crate::scenario::{Http, Scenario};
use crate::tls::{Tls, Trust};
use crate::url::Url;

/// The script of a helper that acts when this program ends, however it does, and has not stopped the server.
const TAKE_ALONG: &str = r#"
trap '' INT TERM HUP
read -r _ && exit
kill -KILL "-$1"
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// Where a server listens that is started: at a port that is free.
const ANY_PORT: &str = "127.0.0.1:0";

/// The timeout for one address of a server to accept a connection.
const TO_CONNECT: Duration = Duration::from_secs(10);

/// The number of connections of a started server beside those of a scenario: the one that fills it, and those that it has not yet seen end.
const CONNECTIONS_BESIDE: u64 = 100;

/// The number of bytes that are kept of what a server says.
const KEPT_BYTES: usize = 4096;

/// The number of lines of them that are quoted.
const QUOTED_LINES: usize = 4;

/// The time for which a server is stopped before it is killed.
const TO_WAIT: Duration = Duration::from_millis(50);

/// The longest wait for the end of a server whose connections have ended.
const TO_END: Duration = Duration::from_millis(500);

/// A server that requests go to.
#[derive(Debug)]
pub struct Server {
    /// Its URL.
    pub url: String,
    /// Its process, where it was started here.
    pub process: Option<u32>,
    /// The configuration it says it has, where it was started here.
    pub configuration: Option<Value>,
    trust: Option<Trust>,
    place: Url,
    address: SocketAddr,
    reach: Arc<Reach>,
    /// The processors of both sides, where they have their own.
    pub pinned: Option<Pinned>,
    /// The limit of its processors, where there is one. It is taken away first: with all processors a server stops at once.
    pub quota: Option<Quota>,
    started: Option<Started>,
    /// Further ones over the same database.
    others: Vec<Self>,
    /// Those that stand beside it, which end behind it.
    pub neighbours: Neighbours,
}

/// A process that was started here, and is stopped when this is dropped.
#[derive(Debug)]
struct Started {
    process: Mutex<Process>,
    /// As it was started; again it is at the same address.
    command: Mutex<Command>,
    processors: Option<Vec<usize>>,
    ready: PathBuf,
    directory: TempDir,
}

/// The process of a server.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Without it a server outlives a program that is killed, and nothing else changes.
    helper: Option<Child>,
    said: Said,
}

impl Server {
    /// One that is there, at the first address of its host that takes a connection. Unless it is on this machine the caller has to say that
    /// it is theirs; over HTTPS, whom they trust.
    pub fn at(url: &str, owned: bool, trust: Option<Trust>) -> Result<Self, String> {
        let place: Url = url.parse().map_err(|reason| format!("{url}: {reason}"))?;
        let url = place.to_string();
        match (place.tls, &trust) {
            (true, None) => return Err(format!("{url}: whom to trust: --ca FILE, or --insecure for everyone")),
            (false, Some(_)) => return Err(format!("{url}: plain HTTP has no certificate to trust")),
            (true, Some(_)) | (false, None) => {}
        }
        let addresses = place.addresses()?;
        if !owned && !addresses.iter().all(|address| address.ip().to_canonical().is_loopback()) {
            return Err(format!("{url} is another machine: --i-own-this-target says that it is yours"));
        }
        let address = first_reached(&addresses).map_err(|reason| format!("{url}: no connection: {reason}"))?;
        Ok(Self {
            url,
            process: None,
            configuration: None,
            trust,
            place,
            address,
            reach: Arc::default(),
            pinned: None,
            quota: None,
            started: None,
            others: Vec::new(),
            neighbours: Neighbours::default(),
        })
    }

    /// Starts a binary in a temporary folder with the schema and the static files of a scenario, and waits until it is ready. It times its
    /// requests, and takes all connections of the scenario, unless the scenario's own options say how many. Over TLS it shows a certificate
    /// that it makes itself, and nothing else is trusted. Of several servers over one database, the first has the others.
    pub fn start(
        binary: &Path,
        scenario: &Scenario,
        pinned: Option<Pinned>,
        neighbours: Neighbours,
    ) -> Result<Self, String> {
        if scenario.load.servers > 1 && scenario.data.storage.is_none() {
            return Err("several servers have one database: data.storage".to_owned());
        }
        let mut first = Self::start_one(binary, scenario, pinned.clone(), &neighbours)?;
        for _ in 1..scenario.load.servers {
            first.others.push(Self::start_one(binary, scenario, pinned.clone(), &neighbours)?);
        }
        Ok(Self { neighbours, ..first })
    }

    fn start_one(
        binary: &Path,
        scenario: &Scenario,
        pinned: Option<Pinned>,
        neighbours: &Neighbours,
    ) -> Result<Self, String> {
        let (served, tls) = (&scenario.data, scenario.tls);
        let directory = folder()?;
        let [schema_file, data, files, ready] =
            ["schema.graphql", "data", "static", "ready"].map(|name| directory.path().join(name));
        write(&schema_file, &served.schema)?;
        // Their names were refused if they led out of the folder.
        served.files.iter().try_for_each(|(path, text)| write(&files.join(path), &text.of(0)))?;
        let command = |more: &[String]| {
            let mut command = Command::new(binary);
            command.arg("serve").arg("--schema").arg(&schema_file);
            if served.storage.is_none() {
                command.arg("--data-dir").arg(&data);
            }
            command.args(["--listen", ANY_PORT, "--timings"]).arg("--ready-file").arg(&ready).stdin(Stdio::null());
            command.args(tls.then_some(["--tls", "self-signed"]).into_iter().flatten());
            if !served.files.is_empty() {
                command.arg("--static").arg(&files);
            }
            command.args(neighbours.options(scenario.slot)).args(&served.server_options).args(more);
            command
        };
        let processors = pinned.as_ref().map(|pinned| pinned.server.as_slice());
        let configured = |more: &[String]| {
            let printed = started_on(processors, || command(more).arg("--print-config").output())?;
            configuration(binary, &printed.map_err(|error| not_started(binary, &error))?)
        };
        let (mut configuration, mut more) = (configured(&[])?, Vec::new());
        let connections = scenario.connections() as u64 + CONNECTIONS_BESIDE;
        let said = served.server_options.iter().any(|option| option.split('=').next() == Some("--connections"));
        if !said && configuration["connections"].as_u64().is_some_and(|most| most < connections) {
            more = vec!["--connections".to_owned(), connections.to_string()];
            configuration = configured(&more)?;
        }
        let trust = tls.then(|| Trust::Certificates(data.join("tls").join("certificate.pem")));
        Self::launch(command(&more), directory, &ready, configuration, trust, pinned)
    }

    /// Starts the null server, which is in the program `load` itself.
    pub fn start_null(tls: bool, pinned: Option<Pinned>) -> Result<Self, String> {
        let directory = folder()?;
        let [ready, certificate] = ["ready", "certificate.pem"].map(|name| directory.path().join(name));
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        command.arg("null-server").arg("--ready-file").arg(&ready);
        if tls {
            command.arg("--certificate").arg(&certificate);
        }
        let trust = tls.then_some(Trust::Certificates(certificate));
        Self::launch(command, directory, &ready, serde_json::json!({"server": "null"}), trust, pinned)
    }

    fn launch(
        mut command: Command,
        directory: TempDir,
        ready: &Path,
        configuration: Value,
        trust: Option<Trust>,
        pinned: Option<Pinned>,
    ) -> Result<Self, String> {
        in_the_background(&mut command);
        let processors = pinned.as_ref().map(|pinned| pinned.server.clone());
        let reach = Arc::default();
        let process = Process::start(&mut command, processors.as_deref(), directory.path(), &reach)?;
        let (number, process, ready) = (process.child.id(), Mutex::new(process), ready.to_owned());
        let started = Started { process, command: Mutex::new(command), processors, ready, directory };
        let url = started.wait_until_ready()?;
        let place: Url = url.parse().map_err(|reason| format!("{url}: {reason}"))?;
        let address = place.addresses()?[0];
        let (process, configuration, started) = (Some(number), Some(configuration), Some(started));
        let (others, neighbours) = (Vec::new(), Neighbours::default());
        let quota = None;
        Ok(Self {
            url,
            process,
            configuration,
            trust,
            place,
            address,
            reach,
            pinned,
            quota,
            started,
            others,
            neighbours,
        })
    }

    /// A reason why a run failed, or its cause if that is a server that was started here: it has ended, or is stopped. With its last words.
    pub fn explain(&self, reason: String) -> String {
        let Some(started) = self.started.as_ref().filter(|_| !interrupt::is_asked()) else { return reason };
        match (started.ended(), started.is_stopped()) {
            (Some(how), _) => format!("during the run the server {how}{}", started.last_words()),
            (None, true) => {
                format!("the server was stopped (SIGSTOP) and not continued, so it responds to nothing: {reason}")
            }
            (None, false) => reason + &started.last_words(),
        }
    }

    /// Checks that it can respond, as far as that is known of a server that was started here.
    ///
    /// # Errors
    /// Why it cannot: it can no longer be reached, or is stopped.
    pub fn responds(&self) -> Result<(), String> {
        self.others.iter().try_for_each(Self::responds)?;
        match (self.reach.lost(), &self.started) {
            (Some(reason), _) => Err(reason),
            (None, Some(started)) if started.is_stopped() => Err("the run has ended".to_owned()),
            (None, _) => Ok(()),
        }
    }

    /// Gives it so many processors, from now on.
    ///
    /// # Errors
    /// Why that cannot be done.
    pub fn limit(&mut self, cpus: f64) -> Result<(), String> {
        let process = self.process.ok_or("the server was not started here")?;
        self.quota = Some(Quota::set(process, cpus)?);
        Ok(())
    }

    /// Periods in which it had used up its processors, so far; none where nobody counts them.
    pub fn throttled_periods(&self) -> Option<u64> {
        self.quota.as_ref().and_then(Quota::throttled_periods)
    }

    /// Ends it by SIGKILL while requests are in flight, and starts it again in the same folder, at the same address. Meanwhile its connections
    /// are told that it is down.
    ///
    /// # Errors
    /// It was not started here, or does not start again.
    pub fn restart(&self) -> Result<(), String> {
        let started = self.started.as_ref().ok_or("a server that was not started here is not ended")?;
        self.reach.go_down(|| started.kill());
        started.start_again(self.address, &self.reach)?;
        self.reach.come_back();
        Ok(())
    }

    /// The processes of it and of those beside it over the same database, where they were started here.
    pub fn processes(&self) -> Vec<u32> {
        self.process.into_iter().chain(self.others.iter().flat_map(Self::processes)).collect()
    }

    /// The folder of the run; none of a server that was there.
    pub fn folder(&self) -> Option<&Path> {
        self.started.as_ref().map(|started| started.directory.path())
    }

    /// Spreads connections over these, too, which have the same database.
    pub fn beside(&mut self, others: Vec<Self>) {
        self.others = others;
    }

    /// Returns true if connections to it use TLS.
    pub fn has_tls(&self) -> bool {
        self.place.tls
    }

    /// Where requests go.
    pub fn target(&self, http: Http) -> Result<Target, String> {
        let tls = self.trust.as_ref().map(|trust| Tls::new(trust, &self.place.host, http)).transpose()?;
        let (address, authority, reach) = (self.address, self.place.authority.clone(), Arc::clone(&self.reach));
        let others = self.others.iter().map(|other| other.address).collect();
        Ok(Target { address, others, authority, http, tls, reach, receive_bytes: None })
    }
}

impl Process {
    /// Starts a server, and says that it is lost when it has ended, unless that was on purpose.
    fn start(
        command: &mut Command,
        processors: Option<&[usize]>,
        folder: &Path,
        reach: &Arc<Reach>,
    ) -> Result<Self, String> {
        let child = started_on(processors, || command.spawn())?;
        let mut child = child.map_err(|error| not_started(command.get_program().as_ref(), &error))?;
        let process = child.id();
        running().push((process, folder.to_owned()));
        let helper = take_along(process, Some(folder));
        let said = Said::of(child.stderr.take());
        lose_with(process, Arc::clone(reach));
        Ok(Self { child, helper, said })
    }

    /// It has ended, and been waited for: there is nothing left to do.
    fn forget(&mut self) {
        no_longer(self.helper.take());
        let process = self.child.id();
        running().retain(|(started, _)| *started != process);
    }
}

/// Starts a helper that kills a process group when this program ends, however it does, and removes a folder; none where it cannot be
/// started, and nothing else changes.
pub fn take_along(group: u32, folder: Option<&Path>) -> Option<Child> {
    let mut helper = Command::new("sh");
    helper.arg("-c").arg(TAKE_ALONG).arg("sh").arg(group.to_string()).args(folder);
    quota::spawn_helper(&mut helper).ok()
}

/// Ends a helper, whose process group has ended.
pub fn no_longer(helper: Option<Child>) {
    if let Some(mut helper) = helper {
        let _ = helper.stdin.take().map(|mut pipe| pipe.write_all(b"stopped\n"));
        let _ = helper.wait();
    }
}

impl Started {
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops it, and ends it when all users wait for an answer: a client that is slower than the server has few requests there at any
    /// moment. What it was doing is cut off where it was stopped.
    fn kill(&self) {
        let mut process = self.process();
        // It may have ended by itself; that is found out by who waits for it.
        let _ = Pid::from_raw(process.child.id() as i32).map(|pid| kill_process(pid, Signal::STOP));
        std::thread::sleep(TO_WAIT);
        let _ = process.child.kill();
    }

    /// Starts a server that was killed again, at the address that it had.
    fn start_again(&self, address: SocketAddr, reach: &Arc<Reach>) -> Result<(), String> {
        {
            let mut process = self.process();
            let _ = process.child.wait();
            process.forget();
            // It says anew when it is ready.
            let _ = std::fs::remove_file(&self.ready);
            let mut command = self.command.lock().unwrap_or_else(PoisonError::into_inner);
            let mut again = Command::new(command.get_program());
            let any =
                |argument: &OsStr| if argument == ANY_PORT { address.to_string().into() } else { argument.to_owned() };
            again.args(command.get_args().map(any));
            in_the_background(&mut again);
            *process = Process::start(&mut again, self.processors.as_deref(), self.directory.path(), reach)?;
            *command = again;
        }
        self.wait_until_ready().map(drop)
    }

    fn wait_until_ready(&self) -> Result<String, String> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            match std::fs::read_to_string(&self.ready) {
                Ok(url) if url.ends_with('\n') => return Ok(url.trim().to_owned()),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
            if interrupt::is_asked() {
                return Err("interrupted before the server was ready".to_owned());
            }
            let ended = self.process().child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(format!("the server {} before it was ready{}", how(status), self.last_words()));
            }
        }
        let stopped = if self.is_stopped() { ": it is stopped (SIGSTOP)" } else { "" };
        Err(format!("the server was not ready within 60 s{stopped}{}", self.last_words()))
    }

    /// Returns how it ended, if it has, or is about to: connections of a process end before it does.
    fn ended(&self) -> Option<String> {
        let begun = Instant::now();
        loop {
            match self.process().child.try_wait() {
                Ok(Some(status)) => return Some(how(status)),
                _ if begun.elapsed() > TO_END => return None,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Returns true if it was stopped, and not continued (the state T in `/proc/PID/stat`).
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process().child.id())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    /// Returns what it said last, in quotation marks; empty if it said nothing.
    fn last_words(&self) -> String {
        match self.process().said.last_lines() {
            lines if lines.is_empty() => String::new(),
            lines => format!("; it said: \"{}\"", lines.join(" | ")),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        let child = &mut process.child;
        if let (Some(pid), Ok(None)) = (Pid::from_raw(child.id() as i32), child.try_wait()) {
            // It may end just now: then there is nothing to do. What is stopped would not see the other signal.
            let _ = kill_process(pid, Signal::TERM);
            let _ = kill_process(pid, Signal::CONT);
        }
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(20) {
                // What it holds is temporary.
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        process.forget();
    }
}

/// The end of the standard error of a process, read by a thread, so that the process never waits for us.
#[derive(Debug)]
struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Said {
    fn of(stderr: Option<ChildStderr>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&kept);
        let thread = stderr.map(|mut stderr| {
            std::thread::spawn(move || {
                let mut piece = [0; KEPT_BYTES];
                while let Ok(bytes @ 1..) = stderr.read(&mut piece) {
                    let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&piece[..bytes]);
                    let surplus = kept.len().saturating_sub(KEPT_BYTES);
                    kept.drain(..surplus);
                }
            })
        });
        Self { kept, thread }
    }

    /// The last lines, without what it says of itself when all is well, and without control characters.
    fn last_lines(&self) -> Vec<String> {
        // What it said before its end may be on its way; its descendants may hold the pipe open.
        let begun = Instant::now();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && begun.elapsed() < TO_END {
            std::thread::sleep(Duration::from_millis(10));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let line = |line: &str| line.replace(char::is_control, " ").trim().to_owned();
        let lines = text.lines().map(line).filter(|line| !line.is_empty() && !line.contains("listening on http"));
        let lines: Vec<_> = lines.collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].to_vec()
    }
}

/// Waits for the end of a process, in a thread of its own, and says then that the server is lost, unless it was ended on purpose: requests
/// end with it, not with their time.
fn lose_with(process: u32, reach: Arc<Reach>) {
    let Some(process) = Pid::from_raw(process as i32) else { return };
    let times_down = reach.times_down();
    std::thread::spawn(move || {
        // It stays to be waited for by its owner.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(process), options), Err(rustix::io::Errno::INTR)) {}
        if reach.times_down() == times_down {
            reach.lose("the server has ended".to_owned());
        }
    });
}

/// Returns how a process ended.
fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was ended by signal 9 (SIGKILL), as the system does where memory runs out".to_owned(),
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => format!("ended: {status}"),
    }
}

/// The configuration that a server has printed.
///
/// # Errors
/// There is none; the text quotes what it said instead.
fn configuration(binary: &Path, printed: &Output) -> Result<Value, String> {
    serde_json::from_slice::<Value>(&printed.stdout).ok().filter(Value::is_object).ok_or_else(|| {
        let said = String::from_utf8_lossy(&printed.stderr).trim().replace(char::is_control, " ");
        let said = if said.is_empty() { "it said nothing".to_owned() } else { format!("it said: \"{said}\"") };
        let how = how(printed.status);
        format!("{}: no configuration from serve --print-config: it {how}; {said}", binary.display())
    })
}

/// Puts a server into a group of its own: Ctrl-C goes to the whole group of a terminal, and the server is to answer what is in flight.
fn in_the_background(command: &mut Command) {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
}

fn not_started(binary: &Path, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", binary.display())
}

/// The first of these addresses that takes a connection.
///
/// # Errors
/// Why none does.
fn first_reached(addresses: &[SocketAddr]) -> Result<SocketAddr, String> {
    let mut reasons = Vec::new();
    for address in addresses {
        match TcpStream::connect_timeout(address, TO_CONNECT) {
            Ok(_) => return Ok(*address),
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
    }
    Err(reasons.join("; "))
}

fn folder() -> Result<TempDir, String> {
    TempDir::new()
        .map_err(|error| format!("no temporary folder in {} (TMPDIR): {error}", std::env::temp_dir().display()))
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| std::fs::write(file, text)).map_err(|error| format!("{}: {error}", file.display()))
}

/// The servers that were started here and not stopped yet, and their folders: what a process that ends at once has to take with it.
fn running() -> MutexGuard<'static, Vec<(u32, PathBuf)>> {
    static RUNNING: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the servers that were started here, and removes what they wrote.
pub fn kill_started() {
    for (process, folder) in running().drain(..) {
        if let Some(process) = Pid::from_raw(process as i32) {
            // It may have ended, and been waited for.
            let _ = kill_process(process, Signal::KILL);
            let _ = waitpid(Some(process), WaitOptions::empty());
        }
        // What is left is in the folder for temporary things.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The server's binary: the one that was named, else the optimised one that is built with these features if this is a checkout, else the one
/// beside this program.
pub fn binary(named: Option<&Path>, features: &[&str]) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut binary = own.with_file_name("strata");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().filter(|parent| parent.join("Cargo.toml").exists());
    if let Some(workspace) = workspace {
        let mut words = vec!["build", "--release", "--quiet", "--bin", "strata"];
        let features = features.join(",");
        words.extend((!features.is_empty()).then_some(["--features", &features]).into_iter().flatten());
        remark(format_args!("building the server (cargo {})", words.join(" ").replace(" --quiet", "")));
        let mut build = cargo();
        build.args(&words).current_dir(workspace);
        let named = build.get_program().display().to_string();
        let not_built = |why: String| format!("the server could not be built: {why}; --server names a binary");
        let built = build.status().map_err(|error| not_built(format!("{named} (CARGO): {error}")))?;
        if !built.success() {
            return Err(not_built(format!("{named} {}", how(built))));
        }
        // This program may be of another profile.
        let profiles = own.parent().and_then(Path::parent).unwrap_or(&own);
        binary = profiles.join("release").join("strata");
    }
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("there is no {}; --server names a binary", binary.display())),
    }
}
