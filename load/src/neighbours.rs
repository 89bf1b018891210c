//! The real servers beside ours that a scenario needs, NATS and Redis of its slot, and the database of its storage: started on this machine and ended again, or there already.
//!
//! One that nobody named is started for its run on a free port, so that no run meets what another one left. One that was there keeps
//! what it had: what a run wrote into it is removed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::brokers::{Broker, Kind, Unavailable};
use crate::jetstream::KeptStream;
use crate::output::remark;
use crate::pinning::started_on;
use crate::scenario::{Over, Scenario, Slot, Storage};

/// The timeout for a neighbour to identify itself.
const TO_SAY: Duration = Duration::from_secs(5);

/// The kind of a server beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nats { has_streams: bool },
    Redis,
    Database(Storage),
}

impl What {
    /// The name of its program.
    fn program(self) -> &'static str {
        match self {
            Self::Nats { .. } => "nats-server",
            Self::Redis => "redis-server",
            Self::Database(Storage::Postgres) => "postgres",
            Self::Database(Storage::TikvDouble) => "tikv-double",
        }
    }

    /// The schemes that an address of it may begin with, and its usual port.
    fn schemes(self) -> (&'static [&'static str], u16) {
        match self {
            Self::Nats { .. } => (&["nats://", "tls://"], 4222),
            Self::Redis => (&["redis://", "rediss://"], 6379),
            Self::Database(Storage::Postgres) => (&["postgres://"], 5432),
            Self::Database(Storage::TikvDouble) => (&["tikv://"], 2379),
        }
    }

    /// The flag that says where one is, of this program and of the server.
    fn flag(self) -> &'static str {
        match self {
            Self::Nats { .. } => "--nats-servers",
            Self::Redis => "--redis-addr",
            Self::Database(_) => "--storage",
        }
    }

    /// Returns the broker to start.
    fn kind(self) -> Kind {
        match self {
            Self::Nats { has_streams } => Kind::Nats { jetstream: has_streams, configuration: String::new() },
            Self::Redis => Kind::Redis { arguments: Vec::new() },
            Self::Database(Storage::Postgres) => Kind::Postgres,
            Self::Database(Storage::TikvDouble) => Kind::TikvDouble,
        }
    }

    /// Returns the version that the server at an address reports, and true if it reports streams.
    ///
    /// # Errors
    /// Nobody listens there, or somebody else.
    fn told(self, address: SocketAddr) -> Result<(String, bool), String> {
        let told = match self {
            Self::Nats { .. } => told_by_nats(address),
            Self::Redis => told_by_redis(address).map(|version| version.map(|version| (version, false))),
            Self::Database(Storage::Postgres) => {
                told_by_postgres(address).map(|version| version.map(|version| (version, false)))
            }
            Self::Database(Storage::TikvDouble) => Ok(Some(("of this checkout".to_owned(), false))),
        };
        let other = || format!("{address}: whoever listens there is no {}", self.program());
        told.map_err(|error| format!("{address}: {error}")).and_then(|told| told.ok_or_else(other))
    }
}

fn connected(address: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, TO_SAY)?;
    stream.set_read_timeout(Some(TO_SAY))?;
    Ok(BufReader::new(stream))
}

/// The first line of a NATS says all.
fn told_by_nats(address: SocketAddr) -> std::io::Result<Option<(String, bool)>> {
    let (mut reader, mut line) = (connected(address)?, String::new());
    reader.read_line(&mut line)?;
    let info = line.strip_prefix("INFO ").and_then(|info| serde_json::from_str::<Value>(info).ok());
    Ok(info.and_then(|info| Some((info["version"].as_str()?.to_owned(), info["jetstream"] == true))))
}

/// Returns the version. A Redis that wants a password first, which the server has and this program does not have, does not tell it.
fn told_by_redis(address: SocketAddr) -> std::io::Result<Option<String>> {
    let mut reader = connected(address)?;
    reader.get_mut().write_all(b"INFO server\r\n")?;
    for line in reader.lines() {
        let line = line?;
        match line.strip_prefix("redis_version:") {
            Some(version) => return Ok(Some(version.to_owned())),
            None if line.starts_with("-NOAUTH") => return Ok(Some("not told".to_owned())),
            // The length of the answer, a heading.
            None if line.starts_with(['$', '#']) => {}
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// It says its version to whoever begins a session.
fn told_by_postgres(address: SocketAddr) -> std::io::Result<Option<String>> {
    let mut reader = connected(address)?;
    let said = b"\0\x03\0\0user\0strata\0database\0postgres\0\0";
    reader.get_mut().write_all(&(said.len() as u32 + 4).to_be_bytes())?;
    reader.get_mut().write_all(said)?;
    loop {
        let (mut kind, mut length) = ([0], [0; 4]);
        reader.read_exact(&mut kind)?;
        reader.read_exact(&mut length)?;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        reader.read_exact(&mut body)?;
        let mut texts = body.split(|byte| *byte == 0);
        match (kind[0], texts.next(), texts.next()) {
            (b'S', Some(b"server_version"), Some(version)) => {
                return Ok(Some(String::from_utf8_lossy(version).into_owned()));
            }
            // It is ready for a query, or refuses.
            (b'Z' | b'E', ..) => return Ok(None),
            _ => {}
        }
    }
}

/// Where the servers beside ours are, as the command line says; without it one is started on a free port of this machine.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// `--nats-servers`: one address or URL, or several with commas between.
    pub nats: Option<String>,
    /// `--redis-addr`.
    pub redis: Option<String>,
    /// True if they may be on other machines.
    pub are_owned: bool,
}

/// A place that was read.
struct Place {
    what: What,
    /// As it was written; empty where nothing was.
    text: String,
    /// The addresses of each of its servers.
    servers: Vec<Vec<SocketAddr>>,
}

/// The host and the port of an address, beside its scheme and its user.
fn host_and_port(what: What, one: &str) -> Result<(String, u16), String> {
    let (schemes, usual) = what.schemes();
    let refused = || format!("{} {one}: HOST:PORT, or {}HOST:PORT", what.flag(), schemes[0]);
    let rest = schemes.iter().find_map(|scheme| one.strip_prefix(scheme)).unwrap_or(one);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let (rest, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(refused)?)),
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(usual), |digits| digits.parse().map_err(|_| refused()))?;
    match host.is_empty() || host.contains(char::is_whitespace) || path.contains('/') {
        true => Err(refused()),
        false => Ok((host.to_owned(), port)),
    }
}

impl Places {
    /// # Errors
    /// The given text is no address, or one of another machine.
    fn read(&self, what: What) -> Result<Place, String> {
        let text = match what {
            What::Nats { .. } => &self.nats,
            What::Redis => &self.redis,
            What::Database(_) => &None,
        };
        let mut servers = Vec::new();
        for one in text.iter().flat_map(|text| text.split(',')) {
            let (host, port) = host_and_port(what, one)?;
            let found = (host.as_str(), port).to_socket_addrs();
            let found: Vec<_> =
                found.map_err(|error| format!("{} {one}: no such host: {error}", what.flag()))?.collect();
            if !self.are_owned && !found.iter().all(|address| address.ip().to_canonical().is_loopback()) {
                let owned = "is another machine: --i-own-this-target says that it is yours";
                return Err(format!("{} {one} {owned}", what.flag()));
            }
            servers.push(found);
        }
        Ok(Place { what, text: text.clone().unwrap_or_default(), servers })
    }

    /// Why what a scenario needs cannot be started here: a program is missing, and what installs it. None where nothing has to be started.
    ///
    /// # Errors
    /// A place that is none, or on another machine.
    pub fn lacking(&self, scenario: &Scenario) -> Result<Option<String>, String> {
        for what in needed(scenario) {
            if self.read(what)?.to_start_at().is_some()
                && let Err(Unavailable::Missing(reason)) = Broker::start(what.kind(), None)
            {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }
}

impl Place {
    /// The port at which one has to be started, none for a free one; none of both where one is there.
    fn to_start_at(&self) -> Option<Option<u16>> {
        let is_there = |address: &SocketAddr| {
            !address.ip().to_canonical().is_loopback()
                || address.port() > 0 && TcpStream::connect_timeout(address, TO_SAY).is_ok()
        };
        match self.servers.as_slice() {
            [] => Some(None),
            [one] if !one.iter().any(is_there) => Some(one.first().map(SocketAddr::port).filter(|port| *port > 0)),
            _ => None,
        }
    }
}

fn needed(scenario: &Scenario) -> impl Iterator<Item = What> {
    let slot = scenario.slot;
    let has_streams = slot.is_some_and(|slot| slot.over == Some(Over::Jetstream));
    let needs = |of: fn(&Slot) -> bool| slot.as_ref().is_some_and(of);
    let all = [(What::Nats { has_streams }, needs(Slot::has_nats)), (What::Redis, needs(Slot::has_redis))];
    let of_slot = all.into_iter().filter_map(|(what, is_needed)| is_needed.then_some(what));
    of_slot.chain(scenario.data.storage.map(What::Database))
}

/// The servers that stand beside ours. Those that were started here end with it.
#[derive(Debug, Default)]
pub struct Neighbours {
    all: Vec<Neighbour>,
    /// The stream in a NATS that was there.
    kept: Option<KeptStream>,
}

/// One of them.
#[derive(Debug)]
pub struct Neighbour {
    what: What,
    /// Where it is, as the server is told it.
    place: String,
    /// The version that it says it is.
    pub version: String,
    broker: Option<Broker>,
}

impl Neighbours {
    /// Those that a scenario needs: at the places that are given, started where nobody listens, on these processors.
    ///
    /// # Errors
    /// Why one is not there.
    pub fn start(scenario: &Scenario, places: &Places, processors: Option<&[usize]>) -> Result<Self, String> {
        let mut neighbours = Self::default();
        for what in needed(scenario) {
            let place = places.read(what)?;
            neighbours.all.push(match place.to_start_at() {
                Some(port) => Neighbour::start(what, port, processors)?,
                None => Neighbour::there(&place)?,
            });
        }
        let has_streams = |one: &&Neighbour| one.what == What::Nats { has_streams: true } && one.broker.is_none();
        if let (Some(nats), Some(table)) = (neighbours.all.iter().find(has_streams), &scenario.data.table) {
            neighbours.kept = Some(KeptStream::of(&nats.place, table)?);
        }
        Ok(neighbours)
    }

    /// The options by which the server finds them, and does as a slot says.
    pub fn options(&self, slot: Option<Slot>) -> Vec<String> {
        let places = self.all.iter().flat_map(|one| [one.what.flag().to_owned(), one.place.clone()]);
        let replies = slot.is_some_and(|slot| slot.replies).then_some(["--nats-receipts", "reply"]);
        let streams = slot.is_some_and(|slot| slot.over == Some(Over::Jetstream)).then_some("--jetstream");
        places.chain(replies.into_iter().flatten().chain(streams).map(str::to_owned)).collect()
    }

    /// Where subscribers find the NATS.
    pub fn nats(&self) -> Option<&str> {
        self.all.iter().find(|one| matches!(one.what, What::Nats { .. })).map(|one| one.place.as_str())
    }

    /// Returns true if registrations are in a Redis that was there.
    pub fn keep_registrations(&self) -> bool {
        self.all.iter().any(|one| one.what == What::Redis && one.broker.is_none())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.all.iter()
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        // What is to be removed from a NATS is removed while it is there.
        drop(self.kept.take());
    }
}

impl Neighbour {
    /// The name of its program.
    pub fn program(&self) -> &'static str {
        self.what.program()
    }

    /// Its process, where it was started here.
    pub fn process(&self) -> Option<u32> {
        self.broker.as_ref().and_then(Broker::process)
    }

    fn start(what: What, port: Option<u16>, processors: Option<&[usize]>) -> Result<Self, String> {
        let broker = started_on(processors, || Broker::start(what.kind(), port))?;
        let broker = broker.map_err(|reason| reason.to_string())?;
        let (version, _) = what.told(broker.address())?;
        remark(format_args!("started {} {version} at {}; it ends with the run", what.program(), broker.address()));
        Ok(Self { what, place: broker.url(), version, broker: Some(broker) })
    }

    /// One that was there.
    fn there(place: &Place) -> Result<Self, String> {
        let what = place.what;
        let mut reasons = Vec::new();
        for address in place.servers.iter().flatten() {
            match what.told(*address) {
                Ok((_, false)) if what == (What::Nats { has_streams: true }) => {
                    reasons.push(format!("{address} has no JetStream (nats-server --jetstream)"));
                }
                Ok((version, _)) => return Ok(Self { what, place: place.text.clone(), version, broker: None }),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("{} {}: {}", what.flag(), place.text, reasons.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_and_ports_as_they_are_typed() {
        let nats = What::Nats { has_streams: false };
        let is = |host: &str, port| Some((host.to_owned(), port));
        for (what, text, read) in [
            (What::Redis, "localhost:6379", is("localhost", 6379)),
            (What::Redis, "redis://:secret@127.0.0.1:1/0", is("127.0.0.1", 1)),
            (nats, "nats://localhost", is("localhost", 4222)),
            (nats, "tls://user:p@a.example:0", is("a.example", 0)),
            (nats, "[::1]:7", is("::1", 7)),
            (nats, "[::1]", is("::1", 4222)),
        ] {
            assert_eq!(host_and_port(what, text).ok(), read, "{text}");
        }
        for wrong in ["", "nats://", "a:b", "http://a:1", "a b:1", ":1", "[::1]7", "a:99999"] {
            assert_eq!(host_and_port(nats, wrong).ok(), None, "{wrong}");
        }
        let places = |text: &str| Places { nats: Some(text.to_owned()), ..Places::default() };
        assert!(places("192.0.2.1:4222").read(nats).is_err_and(|reason| reason.contains("another machine")));
        assert!(Places { are_owned: true, ..places("192.0.2.1:4222") }.read(nats).is_ok());
        assert_eq!(places("nats://127.0.0.1:0").read(nats).unwrap().to_start_at(), Some(None));
        assert_eq!(places("nats://127.0.0.1:0,localhost:1").read(nats).unwrap().to_start_at(), None);
    }
}
