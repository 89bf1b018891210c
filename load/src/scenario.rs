//! The description of a load test, as TOML: data, load, operations with what must come back, effects that the server must show, objectives.
//!
//! Whatever is wrong is refused before anything runs, with file, key and reason: a scenario that is half understood measures
//! something else. The same structure, as it was run, stands in the result.

mod faults;
mod file;
mod one_or_more;
mod programs;
mod slots;
mod streams;
mod variants;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::expectation::Expectation;
use crate::random::Distribution;
use crate::schedule::Schedule;
use crate::template::Template;

use one_or_more::one_or_more;

pub use file::File;
pub use programs::{Beside, Check};
pub use slots::{MESSAGE, Over, Registry, Slot};
pub use streams::{Acknowledges, Items, Of, RefusedBy, Restarts, Stage, Subscribers};
pub use variants::{Mix, Sweep};

/// The quantiles that are looked at.
pub const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999];

/// A load test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One word; results are named after it.
    pub name: String,
    /// The purpose, in a sentence.
    pub about: String,
    /// Which HTTP is spoken.
    #[serde(default)]
    pub http: Http,
    /// True for HTTP over TLS.
    #[serde(default = "yes")]
    pub tls: bool,
    /// Where registrations are, and over what messages come; without it in our own storage, and over Server-Sent Events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The data in the server before the load.
    pub data: Data,
    /// The load on the server, and its duration.
    pub load: Load,
    /// The kinds of requests.
    pub operations: Vec<Operation>,
    /// The change feeds that are followed meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<Feed>,
    /// The subscribers of the stream, to whom every acknowledged event has to come, or those to whom messages are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<Subscribers>,
    /// The ends and restarts of the server meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Restarts>,
    /// Programs that run beside the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// Programs that check afterwards what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The effects that the server's own counters must show afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The goals that must be reached.
    #[serde(default)]
    pub objectives: Vec<Objective>,
    /// The parameters that are varied from run to run.
    #[serde(default, skip_serializing_if = "Sweep::is_empty")]
    pub sweep: Sweep,
    /// Which of its repeats a run is, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The measurements that belong here and cannot be made, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_run: BTreeMap<String, String>,
}

/// A change feed, and how many follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Its path and query.
    pub path: String,
    /// The number of connections.
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

/// The data in the server before the load: rows that follow from their numbers, written by the run itself, and counted afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The schema (GraphQL SDL) of the server that is started.
    pub schema: String,
    /// The database in which the server that is started keeps them; without it in a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// More options of the server that is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_options: Vec<String>,
    /// The table that the rows are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The stream whose events the rows are, in place of a table: event n stands in partition n % P of P, at offset n / P.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Rows that stay, numbered from 0.
    pub rows: u64,
    /// Rows after them, for operations that take a row away.
    #[serde(default)]
    pub spare: u64,
    /// A row, or an event, as JSON.
    pub row: Template,
    /// The distribution by which requests choose among the rows that stay.
    #[serde(default)]
    pub distribution: Distribution,
    /// The blobs that are uploaded beside each row. (In results of before it was one, `blob`.)
    #[serde(default, alias = "blob", deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<Blob>,
    /// Rows of other tables, to which those of the table lead; no request takes them away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
    /// Static files by their path, with the text of row 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Template>,
}

/// A database beside a server, which is started for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// PostgreSQL.
    Postgres,
    /// The double of TiKV.
    TikvDouble,
}

impl Storage {
    /// The feature of the server that knows it.
    pub fn feature(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::TikvDouble => "tikv",
        }
    }
}

/// Bytes beside a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    /// Where they are.
    pub path: Template,
    /// The content: a text, or a file beside the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Template>,
    /// The content, in place of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<File>,
    /// Their media type.
    #[serde(default = "any_bytes", skip_serializing_if = "is_any_bytes")]
    pub r#type: String,
}

fn any_bytes() -> String {
    "application/octet-stream".to_owned()
}

fn is_any_bytes(media_type: &String) -> bool {
    *media_type == any_bytes()
}

impl Blob {
    /// The bytes beside a row.
    pub fn of(&self, row: u64) -> Bytes {
        let text = self.content.as_ref().map(|content| content.of(row).into());
        text.or_else(|| self.file.as_ref().map(|file| file.bytes.clone())).unwrap_or_default()
    }
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

/// The load on the server, and its duration. With a schedule the loop is open: requests start when the schedule says so. Without one it is
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
    /// The time for which a closed loop starts requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// After how many requests a closed loop ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Parts of a closed loop, one after the other on one server, in place of its seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Arrivals that may wait for a connection, in all; the next is dropped.
    #[serde(default = "thousand")]
    pub queue: usize,
    /// Requests before the window, of which none may fail.
    #[serde(default = "thousand_requests")]
    pub warm_up_requests: u64,
    /// The timeout of one request.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// The longest wait for what is in flight at the end.
    #[serde(default = "thirty")]
    pub drain_seconds: f64,
    /// Servers over one database, among which the connections are spread.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub servers: usize,
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

fn is_one(number: &usize) -> bool {
    *number == 1
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
    /// Returns true if requests start when a schedule says so.
    pub fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Returns the time for which requests are started, where that is known before; seconds.
    pub fn arrivals_seconds(&self) -> Option<f64> {
        let of_stages = || self.stages.iter().map(|stage| stage.seconds).reduce(|sum, seconds| sum + seconds);
        self.schedule.as_ref().map(Schedule::seconds).or(self.seconds).or_else(of_stages)
    }

    /// A constant rate for as long as requests are started, in place of an open loop's schedule.
    fn at_rate(&self, rate: f64) -> Option<Schedule> {
        self.schedule.as_ref().map(|schedule| Schedule::Constant { rate, seconds: schedule.seconds() })
    }

    /// The pieces of a run in which growth is looked for: 60 of them, and none shorter than a second.
    pub fn slice(&self) -> Option<Duration> {
        self.arrivals_seconds().map(|seconds| Duration::from_secs_f64((seconds / 60.0).max(1.0)))
    }

    /// Returns the number of requests that can be in flight: the users of a closed loop.
    pub fn slots(&self) -> usize {
        self.connections * self.streams
    }
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The name.
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
    /// The list that stands in the body where it has `{items}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// The content type of the body.
    #[serde(default = "json")]
    pub content_type: String,
    /// Which row it is about.
    #[serde(default)]
    pub row: Row,
    /// The kind of work, for mixes; without it GET reads and all else writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The conditions that a response must meet.
    pub expect: Expectation,
    /// Where its answer says that its events stand, which are read back after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledges: Option<Acknowledges>,
    /// The response by which the server refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusedBy>,
    /// True if a user sends a request without a response again, as it was, until it has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// True if the client has what it asks for: it sends the `ETag` that the path had before the warm-up as `If-None-Match`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revalidate: bool,
    /// The next requests of the same user, as part of the same operation, before it has its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow: Vec<Follow>,
}

impl Operation {
    /// The body of a request about a row; `call` is the number of the request.
    pub fn body_of(&self, row: u64, call: u64) -> Option<String> {
        let body = self.body.as_ref()?;
        Some(body.with(row, call, |text| self.items.iter().for_each(|items| items.write(row, text))))
    }

    /// Returns true if it sends a message: its body has a place for the number of the request, by which subscribers know it.
    pub fn sends(&self) -> bool {
        self.body.as_ref().is_some_and(Template::has_call)
    }

    /// Returns the kind of work.
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

/// The steps that a counter of the server must show: so many for each success of these operations, or for each that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// A name in the answer of `GET /_counters`.
    pub counter: String,
    /// The operations that make it step.
    pub operations: Vec<String>,
    /// Steps for each of their requests that are counted.
    pub each: Steps,
    /// Which of their requests are.
    #[serde(default, skip_serializing_if = "Of::is_ok")]
    pub of: Of,
    /// True if more steps are as good.
    #[serde(default)]
    pub at_least: bool,
    /// Where registrations are, if it is to be seen only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
}

/// Steps of a counter for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Steps {
    /// So many.
    Number(f64),
    /// As many as is varied from run to run, `{fan_out}`.
    FanOut(Template),
}

impl Steps {
    /// Returns the number of steps; 0 where it is not decided yet.
    pub fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::FanOut(text) => text.of(0).parse().unwrap_or(0.0),
        }
    }
}

/// A goal that must be reached; declared before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// The operation; none is all of them, for a throughput or a share of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only operations of these kinds; none is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// The stage, from 1 on; none is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<usize>,
    /// Which of `sweep.fan_out` it is of; none is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<u64>,
    /// The bound on what was measured.
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
    /// Refused requests over all.
    RefusedAtLeast(f64),
    /// Refused requests over all.
    RefusedAtMost(f64),
    /// Successes a second of a stage.
    Goodput {
        /// The stages that it is compared with, from 1 on: one before and one after it, and a drift of the machine counts for neither.
        #[serde(alias = "of_stage", deserialize_with = "one_or_more")]
        of_stages: Vec<usize>,
        /// As a share of what those have together.
        at_least: f64,
    },
    /// A quantile of the response time.
    Response {
        /// From 0 to 1.
        quantile: f64,
        /// In milliseconds.
        at_most_ms: f64,
    },
    /// A quantile of the time from the intended start of an append to the arrival of its event, at every kind of subscribers.
    Lag {
        /// From 0 to 1.
        quantile: f64,
        /// In milliseconds.
        at_most_ms: f64,
    },
    /// A quantile of the time from the intended start of a multicast to its arrival at the last subscriber that it reached.
    LastLag {
        /// From 0 to 1.
        quantile: f64,
        /// In milliseconds.
        at_most_ms: f64,
    },
    /// The growth of something after the first third of the run.
    Growth {
        /// The quantity.
        of: Growing,
        /// As a share of its median.
        at_most: f64,
    },
}

/// A quantity that must not grow with the age of a run.
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

/// Why a scenario is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// The key that is wrong, from the root.
    pub key: String,
    /// The fault, and what would be right.
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
        let mut scenario: Self = serde_path_to_error::deserialize(read)
            .map_err(|error| refusal(error.path().to_string(), error.inner().message().to_owned()))?;
        for (at, blob) in scenario.data.blobs.iter_mut().enumerate() {
            let read = blob.file.as_mut().map_or(Ok(()), |beside| beside.read(file.as_ref()));
            read.map_err(|reason| refusal(format!("data.blobs[{at}].file"), reason))?;
        }
        match scenario.fault() {
            None => Ok(scenario),
            Some((key, reason)) => Err(refusal(key, reason)),
        }
    }

    /// The subscribers of the stream.
    pub fn followers(&self) -> impl Iterator<Item = &Subscribers> {
        self.subscribers.iter().filter(|subscribers| subscribers.call.is_none())
    }

    /// The subscribers to whom messages are sent.
    pub fn listeners(&self) -> impl Iterator<Item = &Subscribers> {
        self.subscribers.iter().filter(|subscribers| subscribers.call.is_some())
    }

    /// Connections of the load, and of those to whom messages are sent.
    pub fn connections(&self) -> usize {
        let of = |kind: &Subscribers| kind.connections.unwrap_or(kind.count);
        self.listeners().map(of).fold(self.load.connections, usize::saturating_add)
    }

    /// The stream whose events are acknowledged; none where no operation says so.
    pub fn acknowledged_stream(&self) -> Option<&String> {
        let acknowledges = self.operations.iter().any(|operation| operation.acknowledges.is_some());
        self.data.stream.as_ref().filter(|_| acknowledges)
    }

    /// The names of the programs that it needs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let beside = self.beside.iter().map(|beside| beside.program.as_str());
        beside.chain(self.checks.iter().map(|check| check.program.as_str()))
    }

    /// Returns the fault in what could be read: a key, and the reason.
    pub fn fault(&self) -> Option<(String, String)> {
        let of = |key: &str, reason: &str| (key.to_owned(), reason.to_owned());
        self.load_fault()
            .or_else(|| self.stages_fault())
            .or_else(|| self.operations_fault())
            .or_else(|| self.promises_fault())
            .or_else(|| self.feeds_fault().map(|reason| of("feeds", reason)))
            .or_else(|| self.subscribers_fault().map(|reason| of("subscribers", reason)))
            .or_else(|| self.slot_fault().map(|reason| of("slot", reason)))
            .or_else(|| self.restarts_fault().map(|reason| of("restarts", reason)))
            .or_else(|| self.beside_fault())
            .or_else(|| self.checks_fault())
            .or_else(|| self.sweep.fault(self))
    }
}
