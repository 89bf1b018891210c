//! What a load test does, as TOML: data, load, operations with what must come back, effects that the server must show, objectives.
//!
//! Whatever is wrong is refused before anything runs, with file, key and reason: a scenario that is half understood measures
//! something else. The same structure, as it was run, stands in the result.

mod variants;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::expectation::Expectation;
use crate::random::Distribution;
use crate::schedule::Schedule;
use crate::template::Template;

pub use variants::{Mix, Sweep};

/// The quantiles that are looked at.
pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999];

/// A load test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One word; results are named after it.
    pub name: String,
    /// What it is for, in a sentence.
    pub about: String,
    /// Which HTTP is spoken.
    #[serde(default)]
    pub http: Http,
    /// Whether it is spoken over TLS.
    #[serde(default = "yes")]
    pub tls: bool,
    /// What is in the server before.
    pub data: Data,
    /// How much is asked, for how long.
    pub load: Load,
    /// What is asked.
    pub operations: Vec<Operation>,
    /// The change feeds that are followed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<Feed>,
    /// What the server's own counters must show afterwards.
    pub effects: Vec<Effect>,
    /// What must be reached.
    #[serde(default)]
    pub objectives: Vec<Objective>,
    /// What is varied from run to run.
    #[serde(default, skip_serializing_if = "Sweep::is_empty")]
    pub sweep: Sweep,
    /// Which of its repeats a run is, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// What belongs here and cannot be measured, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_run: BTreeMap<String, String>,
}

/// A change feed, and how many follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Its path and query.
    pub path: String,
    /// How many connections.
    pub subscribers: usize,
}

fn yes() -> bool {
    true
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Http {
    /// HTTP/1.1: one request at a time on a connection.
    #[default]
    #[serde(rename = "1.1")]
    #[value(name = "1.1")]
    One,
    /// HTTP/2: agreed on in the handshake of TLS, without TLS taken for granted.
    #[serde(rename = "2")]
    #[value(name = "2")]
    Two,
}

/// What is in the server before: rows that follow from their numbers, written by the run itself, and counted afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The schema (GraphQL SDL) of the server that is started.
    pub schema: String,
    /// More options of the server that is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_options: Vec<String>,
    /// The table that the rows are in.
    pub table: String,
    /// Rows that stay, numbered from 0.
    pub rows: u64,
    /// Rows after them, for operations that take a row away.
    #[serde(default)]
    pub spare: u64,
    /// A row as JSON.
    pub row: Template,
    /// How requests choose among the rows that stay.
    #[serde(default)]
    pub distribution: Distribution,
    /// What is uploaded beside each row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Blob>,
    /// Rows of other tables, to which those of the table lead; no request takes them away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
    /// Static files by their path, with the text of row 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Template>,
}

impl Data {
    /// What of it would be written elsewhere than in the folder of a run: a key, and the reason.
    fn fault(&self) -> Option<(String, String)> {
        for name in self.files.keys() {
            let below =
                || self.files.keys().any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')));
            let reason =
                file_fault(name).or_else(|| below().then_some("another file is below it, as if it were a folder"));
            if let Some(reason) = reason {
                return Some((format!("data.files.{name:?}"), reason.to_owned()));
            }
        }
        for (at, option) in self.server_options.iter().enumerate() {
            let (name, value) =
                option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
            // Standard error, which goes nowhere, is no file.
            let is_no_file = value.or(self.server_options.get(at + 1).map(String::as_str)) == Some("-");
            if WRITING_OPTIONS.contains(&name) && !is_no_file {
                let reason = format!("{name} names a file or a folder; the server writes to those of its run only");
                return Some((format!("data.server_options[{at}]"), reason));
            }
        }
        None
    }
}

/// Bytes beside a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// Where they are.
    pub path: Template,
    /// What they are.
    pub content: Template,
}

/// Rows of another table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Related {
    /// The table.
    pub table: String,
    /// Rows, numbered from 0.
    pub rows: u64,
    /// A row as JSON.
    pub row: Template,
}

/// How much is asked, for how long. With a schedule the loop is open: requests start when the schedule says so. Without one it is
/// closed: each connection asks again when it has its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Connections in all.
    pub connections: usize,
    /// Requests at once on one connection of HTTP/2.
    #[serde(default = "one")]
    pub streams: usize,
    /// Threads of the client; each owns its connections.
    #[serde(default = "one")]
    pub threads: usize,
    /// When requests start; none is a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Random arrivals at the schedule's rate.
    #[serde(default)]
    pub poisson: bool,
    /// How long a closed loop starts requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// After how many requests a closed loop ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Arrivals that may wait for a connection, in all; the next is dropped.
    #[serde(default = "thousand")]
    pub queue: usize,
    /// Requests before the window, of which none may fail.
    #[serde(default = "thousand_requests")]
    pub warm_up_requests: u64,
    /// How long one request may take.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// How long is waited for what is in flight at the end.
    #[serde(default = "thirty")]
    pub drain_seconds: f64,
    /// Processors that the server may use, as parts of one; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpus: Option<f64>,
    /// Of everything random.
    #[serde(default)]
    pub seed: u64,
}

fn one() -> usize {
    1
}

fn thousand() -> usize {
    1000
}

fn thousand_requests() -> u64 {
    1000
}

fn thirty() -> f64 {
    30.0
}

impl Load {
    /// Whether requests start when a schedule says so.
    pub fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// How long requests are started, where that is known before; seconds.
    pub fn arrivals_seconds(&self) -> Option<f64> {
        self.schedule.as_ref().map(Schedule::seconds).or(self.seconds)
    }

    /// The pieces of a run in which growth is looked for: 60 of them, and none shorter than a second.
    pub fn slice(&self) -> Option<Duration> {
        self.arrivals_seconds().map(|seconds| Duration::from_secs_f64((seconds / 60.0).max(1.0)))
    }

    /// How many requests can be in flight: the users of a closed loop.
    pub fn slots(&self) -> usize {
        self.connections * self.streams
    }
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// What it is called.
    pub name: String,
    /// Its share of all requests, over the sum of all weights.
    pub weight: f64,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: Template,
    /// The body, and its content type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Template>,
    /// The content type of the body.
    #[serde(default = "json")]
    pub content_type: String,
    /// Which row it is about.
    #[serde(default)]
    pub row: Row,
    /// What kind of work it is, for mixes; without it GET reads and all else writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What an answer must be.
    pub expect: Expectation,
    /// What the same user asks next, as part of the same operation, before it has its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow: Vec<Follow>,
}

impl Operation {
    /// What kind of work it is.
    pub fn class(&self) -> Class {
        self.class.unwrap_or(if self.method == "GET" { Class::Read } else { Class::Write })
    }
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Reads one.
    Read,
    /// Reads many.
    List,
    /// Writes.
    Write,
}

/// A request for each row of the answers before, one after the other: what a client does that is not given related rows at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// A JSON pointer to a value of a row.
    pub key: String,
    /// The path that this value is put behind.
    pub path: String,
    /// A JSON pointer to where the value stands in the answer, which is 200.
    pub has: String,
}

fn json() -> String {
    "application/json".to_owned()
}

/// Which row a request is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Row {
    /// One of those that stay.
    #[default]
    Seeded,
    /// One that was never there.
    New,
    /// One that is there, is not among those that stay, and is taken by no other request.
    Spare,
}

/// What a counter of the server must show: so many steps for each success of these operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// A name in the answer of `GET /_counters`.
    pub counter: String,
    /// The operations that make it step.
    pub operations: Vec<String>,
    /// Steps for each success.
    pub each: f64,
    /// Whether more steps are as good.
    #[serde(default)]
    pub at_least: bool,
}

/// What must be reached; declared before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// The operation; none is all of them, for a throughput or a share of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only operations of these kinds; none is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// What is looked at.
    pub bound: Bound,
}

/// A bound on what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Successes a second.
    ThroughputAtLeast(f64),
    /// Failed, dropped and censored requests over all.
    FailuresAtMost(f64),
    /// A quantile of the response time.
    Response {
        /// From 0 to 1.
        quantile: f64,
        /// In milliseconds.
        at_most_ms: f64,
    },
    /// How much something grows after the first third of the run.
    Growth {
        /// What.
        of: Growing,
        /// As a share of its median.
        at_most: f64,
    },
}

/// What must not grow with the age of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growing {
    /// Memory that the server holds.
    Memory,
    /// File descriptors that the server holds.
    Descriptors,
    /// Threads of the server.
    Threads,
    /// The 99th percentile of an operation's response time.
    P99,
}

/// Whether a number can be meant, as a weight or a number of steps. TOML has infinities, and what is no number.
fn above_zero(number: f64) -> bool {
    number > 0.0 && number <= 1e6
}

/// Whether a run can take so long: from what clocks tell apart to what durations hold.
fn is_time(seconds: f64) -> bool {
    (0.001..=1e6).contains(&seconds)
}

/// Whether a server can be given so many processors: the kernel has no smaller parts than a hundredth.
fn is_share(cpus: f64) -> bool {
    (0.01..=1000.0).contains(&cpus)
}

/// Connections at most: a client has so many ports.
const MOST_CONNECTIONS: usize = 65_535;

/// Options of the server that name what it writes, or a file that does: a run has its own folder for that.
const WRITING_OPTIONS: [&str; 4] = ["--data-dir", "--ready-file", "--access-log", "--config"];

/// Why a name is none of a file in the folder of static files.
fn file_fault(name: &str) -> Option<&'static str> {
    let mut parts = name.split('/');
    match () {
        () if name.contains(char::is_control) => Some("the name of a file is one line"),
        () if parts.clone().any(|part| matches!(part, "" | "." | "..")) => {
            Some("a path below the folder of static files: names with a / between them, none of them empty, . or ..")
        }
        () if parts.any(|part| part.len() > 255) || name.len() > 1000 => Some("no file system has so long a name"),
        () => None,
    }
}

impl Bound {
    /// Why it cannot be meant.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::ThroughputAtLeast(rate) => {
                (!(*rate > 0.0 && *rate <= 1e9)).then_some("a throughput is above 0, and at most 1e9 a second")
            }
            Self::FailuresAtMost(share) => {
                (!(0.0..=1.0).contains(share)).then_some("failures are a share of all requests, from 0 to 1")
            }
            Self::Response { quantile, .. } if !QUANTILES.contains(quantile) => {
                Some("the quantiles that are measured are 0.5, 0.9, 0.95, 0.99, 0.995 and 0.999")
            }
            Self::Response { at_most_ms, .. } => {
                (!(*at_most_ms > 0.0 && *at_most_ms <= 1e9)).then_some("a time is above 0, and at most 1e9 ms")
            }
            Self::Growth { at_most, .. } => {
                (!(0.0..=1e6).contains(at_most)).then_some("growth is a share of the median, from 0 to a million")
            }
        }
    }
}

/// Why a scenario is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// The key that is wrong, from the root.
    pub key: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.file, self.key, self.reason)
    }
}

impl Scenario {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(Refusal { file, key: ".".to_owned(), reason: error.to_string() }),
        }
    }

    /// Reads the text of a file.
    pub fn parse(file: &str, text: &str) -> Result<Self, Refusal> {
        let refusal = |key: String, reason: String| Refusal { file: file.to_owned(), key, reason };
        let read = toml::Deserializer::parse(text)
            .map_err(|error| refusal(".".to_owned(), error.to_string().trim().replace('\n', " ")))?;
        let scenario: Self = serde_path_to_error::deserialize(read)
            .map_err(|error| refusal(error.path().to_string(), error.inner().message().to_owned()))?;
        match scenario.fault() {
            None => Ok(scenario),
            Some((key, reason)) => Err(refusal(key, reason)),
        }
    }

    /// What is wrong with what could be read: a key, and the reason.
    pub fn fault(&self) -> Option<(String, String)> {
        (self.load_fault().or_else(|| self.operations_fault()).or_else(|| self.promises_fault()))
            .or_else(|| self.feeds_fault().map(|reason| ("feeds".to_owned(), reason.to_owned())))
            .or_else(|| self.sweep.fault(self))
    }

    fn feeds_fault(&self) -> Option<&'static str> {
        let is_path = |feed: &Feed| feed.path.starts_with('/') && feed.path.parse::<http::Uri>().is_ok();
        match () {
            () if !self.feeds.iter().all(is_path) => Some("path is a path and a query, such as /Product?stream=sse"),
            () if !self.feeds.iter().all(|feed| (1..=1000).contains(&feed.subscribers)) => {
                Some("from 1 to 1000 subscribers")
            }
            () => None,
        }
    }

    fn load_fault(&self) -> Option<(String, String)> {
        let (load, data) = (&self.load, &self.data);
        let closed_end = load.seconds.is_some() || load.requests.is_some();
        let is_in_names = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        let wrong = [
            (
                self.name.is_empty() || self.name.len() > 200 || !self.name.chars().all(is_in_names),
                "name",
                "files are named after it: one word of letters, digits, - and _, of 200 bytes at most",
            ),
            (self.repeat == Some(0), "repeat", "from 1 on"),
            (!(1..=1000).contains(&load.threads), "load.threads", "from 1 to 1000"),
            (
                !(load.threads..=MOST_CONNECTIONS).contains(&load.connections),
                "load.connections",
                "at least one for each thread, and at most 65535",
            ),
            (load.streams == 0, "load.streams", "at least 1"),
            (
                load.connections.saturating_mul(load.streams) > 1_000_000,
                "load.streams",
                "at most a million on all connections",
            ),
            (
                load.streams > 1 && self.http == Http::One,
                "load.streams",
                "HTTP/1.1 has one request at a time on a connection",
            ),
            (
                load.seconds.is_some() && load.requests.is_some(),
                "load.requests",
                "a closed loop ends after seconds or requests, not both",
            ),
            (load.is_open() && closed_end, "load.schedule", "a schedule has its own end: without seconds and requests"),
            (!load.is_open() && !closed_end, "load.seconds", "a closed loop ends after seconds or requests"),
            (load.seconds.is_some_and(|seconds| !is_time(seconds)), "load.seconds", "from a thousandth to a million"),
            (
                load.requests.is_some_and(|requests| !(1..=1_000_000_000_000).contains(&requests)),
                "load.requests",
                "from 1 to 1e12",
            ),
            (load.queue > 1_000_000, "load.queue", "from 0 (what finds no free connection is dropped) to a million"),
            (load.warm_up_requests > 1_000_000_000, "load.warm_up_requests", "from 0 (no warm-up) to a billion"),
            (load.poisson && !load.is_open(), "load.poisson", "only a schedule has random arrivals"),
            (!is_time(load.timeout_seconds), "load.timeout_seconds", "from a thousandth to a million"),
            (!is_time(load.drain_seconds), "load.drain_seconds", "from a thousandth to a million"),
            (
                load.server_cpus.is_some_and(|cpus| !is_share(cpus)),
                "load.server_cpus",
                "from a hundredth to a thousand",
            ),
            (
                !(1..=1_000_000_000).contains(&data.rows),
                "data.rows",
                "at least 1 (reads of an empty table prove nothing), and at most a billion",
            ),
            (data.spare > 10_000_000, "data.spare", "from 0 to ten million"),
            (
                data.related.iter().any(|related| related.rows > 1_000_000_000),
                "data.related",
                "from 0 to a billion rows of each",
            ),
        ];
        let found =
            wrong.iter().find(|(wrong, ..)| *wrong).map(|(_, key, reason)| ((*key).to_owned(), (*reason).to_owned()));
        let schedule = || load.schedule.as_ref().and_then(Schedule::fault);
        (found.or_else(|| schedule().map(|(key, reason)| (format!("load.schedule.{key}"), reason.to_owned()))))
            .or_else(|| data.fault())
    }

    fn operations_fault(&self) -> Option<(String, String)> {
        let mut names = HashSet::new();
        if self.operations.is_empty() {
            return Some(("operations".to_owned(), "at least one".to_owned()));
        }
        for (at, operation) in self.operations.iter().enumerate() {
            let fault = |key: &str, reason: &str| Some((format!("operations[{at}].{key}"), reason.to_owned()));
            if !names.insert(&operation.name) {
                return fault("name", "another operation has it");
            }
            if operation.name.is_empty() || operation.name.contains(char::is_control) {
                return fault("name", "a name in one line");
            }
            if http::HeaderValue::from_str(&operation.content_type).is_err() {
                return fault("content_type", "no value of a header of HTTP");
            }
            if !(200..600).contains(&operation.expect.status) {
                return fault("expect.status", "from 200 to 599");
            }
            if operation.expect.rows.is_some_and(|rows| rows > 1_000_000_000) {
                return fault("expect.rows", "from 0 (an empty list) to a billion");
            }
            if operation.expect.bytes.is_some_and(|bytes| bytes > 10_000_000_000) {
                return fault("expect.bytes", "from 0 (no body) to 1e10");
            }
            if !above_zero(operation.weight) {
                return fault(
                    "weight",
                    "above 0 (an operation that never runs is no operation), and at most a million",
                );
            }
            if operation.method.parse::<http::Method>().is_err() {
                return fault("method", "no method of HTTP");
            }
            if operation.path.of(0).parse::<http::uri::PathAndQuery>().is_err()
                || !operation.path.of(0).starts_with('/')
            {
                return fault("path", "no path of a URL; it begins with /");
            }
            if !operation.expect.is_about_the_body() {
                return fault("expect", "a status alone proves nothing: body, has, rows or bytes");
            }
            if operation.row == Row::Spare && self.data.spare == 0 {
                return fault("row", "there are no spare rows: data.spare");
            }
        }
        None
    }

    fn promises_fault(&self) -> Option<(String, String)> {
        let known = |name: &String| self.operations.iter().any(|operation| operation.name == *name);
        if self.effects.is_empty() {
            return Some(("effects".to_owned(), "at least one: what the server's counters must show".to_owned()));
        }
        for (at, effect) in self.effects.iter().enumerate() {
            if effect.operations.is_empty() || !effect.operations.iter().all(known) {
                return Some((format!("effects[{at}].operations"), "names of operations".to_owned()));
            }
            if !above_zero(effect.each) {
                let reason = "above 0 (nothing is no effect), and at most a million";
                return Some((format!("effects[{at}].each"), reason.to_owned()));
            }
        }
        for (at, objective) in self.objectives.iter().enumerate() {
            let fault = |reason: &str| Some((format!("objectives[{at}]"), reason.to_owned()));
            if !objective.operation.as_ref().is_none_or(known) {
                return fault("no operation has this name");
            }
            if let Some(reason) = objective.bound.fault() {
                return fault(reason);
            }
            if let Bound::Response { .. } = objective.bound {
                if !self.load.is_open() {
                    return fault("a bound on response times needs an open loop: load.schedule");
                }
                if objective.operation.is_none() {
                    return fault("response times are those of one operation");
                }
            }
            if matches!(objective.bound, Bound::Growth { of: Growing::P99, .. }) && objective.operation.is_none() {
                return fault("p99 is that of one operation");
            }
        }
        None
    }
}
