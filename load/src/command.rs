//! The common parts of the binaries: flags and variables, a scenario from its file or from this program, exit codes.
//!
//! Exit codes: 0 valid and every objective passed; 1 not so, or interrupted; 2 a mistake in what was asked; 130 interrupted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, ValueEnum};

use crate::calibration;
use crate::capacity;
use crate::descriptors;
use crate::interrupt;
use crate::ledger::Account;
use crate::live::{self, Style};
use crate::neighbours::{Neighbours, Places};
use crate::output::{self, print, remark};
use crate::pair::{self, Side};
use crate::pinning::Pinned;
use crate::programs::{Program, Programs};
use crate::registry::Shape;
use crate::result::{Outcome, Point, Run, Validity};
use crate::rules;
use crate::run;
use crate::scenario::{Bound, Class, Http, Mix, Objective, Operation, Scenario, Slot, Storage};
use crate::schedule::Schedule;
use crate::server::{self, Server};
use crate::stored;
use crate::table;
use crate::tls::Trust;
use crate::url::Url;

/// The flags by which a run differs from its scenario's file.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// A server that is there; without it one is built, started with a temporary data directory, and stopped. Several are over one
    /// database: connections are spread among them
    #[arg(long, env = "BASE_URL", value_name = "URL", value_delimiter = ',')]
    pub base_url: Vec<Url>,
    /// Trust what the certificates in this file (PEM) vouch for, at an https URL
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// Trust any certificate, at an https URL
    #[arg(long)]
    pub insecure: bool,
    /// Plain HTTP, from a server that is started
    #[arg(long, conflicts_with = "base_url")]
    pub no_tls: bool,
    /// The version of HTTP, in place of the scenario's
    #[arg(long, value_name = "VERSION")]
    pub http: Option<Http>,
    /// The server's binary; without it the one of this checkout is built
    #[arg(long, env = "STRATA_BINARY", value_name = "FILE", conflicts_with = "base_url")]
    pub server: Option<PathBuf>,
    /// The servers that are named may be on another machine: you own them
    #[arg(long)]
    pub i_own_this_target: bool,
    /// Where registrations are, and over what messages come (strata+sse, redis+nats); several are a run each
    #[arg(long, value_name = "SLOT", value_delimiter = ',')]
    pub slots: Vec<Slot>,
    /// Where a slot's NATS is; where nobody listens one is started (port 0: a free one), as it is without this
    #[arg(long, value_name = "ADDRESS")]
    pub nats_servers: Option<String>,
    /// Where a slot's Redis is, likewise
    #[arg(long, value_name = "ADDRESS")]
    pub redis_addr: Option<String>,
    /// The time for which requests are started (60, 60s, 10m, 1h); the window is never shorter
    #[arg(short = 'd', long, env = "TEST_DURATION_SECS", value_name = "SECONDS", value_parser = seconds)]
    pub test_duration_secs: Option<f64>,
    /// A closed loop that ends after so many requests
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["rate", "schedule", "test_duration_secs"])]
    pub requests: Option<u64>,
    /// A closed loop: each connection asks again when it has its answer
    #[arg(long, conflicts_with_all = ["rate", "schedule"])]
    pub closed: bool,
    /// An open loop: so many requests a second, 1e9 at most
    #[arg(short, long, value_name = "RATE", conflicts_with = "schedule")]
    pub rate: Option<f64>,
    /// An open loop: a built-in schedule (ramp, burst), or one in a file
    #[arg(long, value_name = "SCHEDULE")]
    pub schedule: Option<String>,
    /// Connections; several are a run each
    #[arg(long, env = "CONCURRENT_TASKS", value_name = "NUMBER", value_delimiter = ',')]
    pub concurrent_tasks: Vec<usize>,
    /// Shares of reads/writes (80/20) or of reads of one/lists/writes (60/35/5); several are a run each
    #[arg(long, value_name = "MIX", value_delimiter = ',')]
    pub mix: Vec<Mix>,
    /// Each operation in a run of its own
    #[arg(long)]
    pub apart: bool,
    /// Runs of each variant, each with a server of its own
    #[arg(long, value_name = "NUMBER")]
    pub repeats: Option<NonZeroU32>,
    /// Requests before the window, 0 for none
    #[arg(long, env = "WARMUP_REQUESTS", value_name = "NUMBER")]
    pub warmup_requests: Option<u64>,
    /// Rows that requests choose among
    #[arg(long, env = "SEED_RECORD_COUNT", value_name = "NUMBER")]
    pub seed_record_count: Option<u64>,
    /// Processors that the server that is started may use, as parts of one (0.05, at least 0.01); several are a run each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', conflicts_with = "base_url")]
    pub server_cpus: Vec<f64>,
    /// Right reads a second that must be reached
    #[arg(long, env = "TARGET_READ_THROUGHPUT", value_name = "RATE")]
    pub target_read_throughput: Option<f64>,
    /// Right writes a second that must be reached
    #[arg(long, env = "TARGET_WRITE_THROUGHPUT", value_name = "RATE")]
    pub target_write_throughput: Option<f64>,
    /// Where a program is that a scenario names; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    pub program: Vec<Program>,
    /// The server of --base-url has the rows already
    #[arg(long)]
    pub has_data: bool,
    /// Where results are stored; that this can be done is made sure of before the run
    #[arg(long, value_name = "DIR", default_value = "target/load")]
    pub results: PathBuf,
    /// Where `load calibrate` stores what the client can do, and runs find it
    #[arg(long, value_name = "DIR", default_value = "target/load/calibration")]
    pub calibration: PathBuf,
    /// The division of processors between client and started server, where there are several and no quota
    #[arg(long, value_enum, default_value = "apart", conflicts_with = "base_url")]
    pub pin: Pin,
    /// Print what would be run, as JSON: a name and seconds (null if it ends by a number) for each, and what cannot be run, with the reason
    #[arg(long)]
    pub plan: bool,
    /// Say what goes on in a line of text each second, on standard error
    #[arg(long, group = "view")]
    pub plain: bool,
    /// Say what goes on in a JSON object each second, on standard error
    #[arg(long, group = "view")]
    pub ndjson: bool,
    /// Say what goes on in a line that is rewritten, also where standard error is no terminal, or one that cannot (TERM=dumb)
    #[arg(long, group = "view")]
    pub live: bool,
}

/// Which processors client and server use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// Half of them each; a server with a quota uses all
    Apart,
    /// All
    None,
}

/// Reads a number of seconds, with its unit or without.
fn seconds(text: &str) -> Result<f64, String> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) =
        units.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).unwrap_or((text, 1.0));
    number.parse::<f64>().map(|number| number * unit).map_err(|error| error.to_string())
}

/// A scenario and the flags that it is run with: the other side of a pair.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true)]
pub struct Versus {
    /// Name or file
    pub scenario: String,
    /// The flags by which it differs.
    #[command(flatten)]
    pub flags: Flags,
}

macro_rules! built_in {
    ($folder:literal: $($name:literal)*) => {
        [$(($name, include_str!(concat!("../", $folder, "/", $name, ".toml")))),*]
    };
}

/// The built-in scenarios, by name.
pub const SCENARIOS: [(&str, &str); 41] = built_in!("scenarios":
    "throughput-read" "throughput-write" "rest-crud" "rest-relationships" "graphql" "graphql-twin" "blob-storage" "update" "join" "select"
    "static-files" "lists" "quota-static" "quota-list" "quota-image" "quota-image-mixed" "image-cached" "sustained" "single-write" "bulk-write"
    "read-throughput" "write-read-lag" "mixed-workload" "backpressure" "consistency" "peak-single" "peak-bulk" "tables-beside" "cold-storage"
    "registry-register" "registry-enumerate" "registry-multicast" "registry-multicast-closed" "registry-mixed" "registry-tenants" "registry-stalled" "registry-reading" "registry-ramp"
    "registry-burst" "registry-sustained" "servers");

/// Built-in scenarios that are run together, by the name of the group.
pub const GROUPS: [(&str, &[&str]); 1] = [(
    "streams",
    &[
        "single-write",
        "bulk-write",
        "read-throughput",
        "write-read-lag",
        "mixed-workload",
        "backpressure",
        "consistency",
        "peak-single",
        "peak-bulk",
        "tables-beside",
    ],
)];

/// The built-in schedules, by name.
pub const SCHEDULES: [(&str, &str); 2] = built_in!("schedules": "ramp" "burst");

/// A built-in scenario, or one in a file.
pub fn scenario(name: &str) -> Result<Scenario, String> {
    let read = match SCENARIOS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Scenario::parse(&format!("load/scenarios/{name}.toml"), text),
        None => Scenario::read(name.as_ref()),
    };
    read.map_err(|refusal| refusal.to_string())
}

/// A built-in schedule, or one in a file.
pub fn schedule(name: &str) -> Result<Schedule, String> {
    let text = match SCHEDULES.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?,
    };
    toml::from_str(&text).map_err(|error| format!("{name}: {}", error.message()))
}

/// Reads the command line of a binary, and the variables of its flags.
///
/// # Errors
/// The exit code, after everything was said: help that was asked for, or a mistake and the variable that it comes from.
pub fn line<L: Parser>() -> Result<L, ExitCode> {
    L::try_parse().map_err(said)
}

/// Reads the second side of a pair.
///
/// # Errors
/// As `line`.
pub fn versus(words: &[String]) -> Result<Versus, ExitCode> {
    Versus::try_parse_from(words).map_err(said)
}

/// Says what the parser of the command line has to say; the exit code.
fn said(mut error: clap::Error) -> ExitCode {
    let text = error.to_string();
    if !error.use_stderr() {
        print(text.trim_end());
        return output::exit(0);
    }
    // Those in the message, and those that cannot be read, which it does not name.
    let concerned = variables()
        .into_iter()
        .filter(|variable| text.contains(&format!("--{} <", variable.flag)) || variable.value.to_str().is_none());
    let tips: Vec<StyledStr> =
        concerned.map(|variable| format!("the variable {} sets --{}", variable.name, variable.flag).into()).collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    // Nobody may be there to read it.
    let _ = error.print();
    ExitCode::from(2)
}

/// A variable of the environment that is set, and stands for a flag that was not typed.
struct Variable {
    name: String,
    flag: String,
    value: OsString,
}

fn variables() -> Vec<Variable> {
    let command = Flags::augment_args(clap::Command::new("load"));
    let variable = |argument: &clap::Arg| {
        let (name, flag) = (argument.get_env()?, argument.get_long()?.to_owned());
        let value = std::env::var_os(name)?;
        (!is_typed(&flag)).then(|| Variable { name: name.to_string_lossy().into_owned(), flag, value })
    };
    command.get_arguments().filter_map(variable).collect()
}

/// Returns true if the command line itself has a flag.
fn is_typed(flag: &str) -> bool {
    let name = |word: OsString| word.to_string_lossy().split('=').next().map(str::to_owned);
    std::env::args_os().any(|word| name(word).is_some_and(|name| name.strip_prefix("--") == Some(flag)))
}

/// A reason with the variable that a flag has its value from, if it has.
fn with_variable(flag: &str, reason: String) -> String {
    match variables().into_iter().find(|variable| variable.flag == flag) {
        Some(variable) => format!("{reason} (the variable {} sets --{flag})", variable.name),
        None => reason,
    }
}

/// A reason with the variables that flags of numbers have their values from.
fn with_numbers(reason: String) -> String {
    let numbers = variables().into_iter().filter(|variable| !["base-url", "server"].contains(&variable.flag.as_str()));
    let set: Vec<_> = numbers.map(|variable| format!("{}={}", variable.name, variable.value.display())).collect();
    if set.is_empty() { reason } else { format!("{reason} (the environment has {})", set.join(" ")) }
}

/// Carries out built-in scenarios, or groups of them, as the flags say, and ends.
pub fn carry_out(names: &[&str], flags: &Flags) -> ExitCode {
    let names = names.iter().flat_map(|name| match GROUPS.iter().find(|(group, _)| group == name) {
        Some((_, scenarios)) => scenarios.to_vec(),
        None => vec![*name],
    });
    exit(names.map(scenario).collect::<Result<_, _>>().and_then(|scenarios| flags.run(scenarios)))
}

impl Flags {
    /// A scenario with what the flags say in place of what its file says.
    pub fn over(&self, mut scenario: Scenario) -> Result<Scenario, String> {
        self.loop_over(&mut scenario)?;
        let load = &mut scenario.load;
        // What is there decides for itself; what is started does as the scenario says.
        scenario.tls = match self.base_url.first() {
            Some(url) => url.tls,
            None => scenario.tls && !self.no_tls,
        };
        if !self.base_url.is_empty() {
            (load.servers, scenario.data.storage) = (self.base_url.len(), None);
            scenario.sweep.servers.clear();
        }
        if self.base_url.len() > 1 && scenario.tls {
            return Err(
                "--base-url: several servers are spoken to without TLS: each has a certificate of its own".to_owned()
            );
        }
        scenario.http = self.http.unwrap_or(scenario.http);
        load.warm_up_requests = self.warmup_requests.unwrap_or(load.warm_up_requests);
        scenario.data.rows = self.seed_record_count.unwrap_or(scenario.data.rows);
        let sweep = &mut scenario.sweep;
        match self.concurrent_tasks.as_slice() {
            [] => {}
            [one] => (load.connections, sweep.connections) = (*one, Vec::new()),
            several => sweep.connections = several.to_vec(),
        }
        if !self.mix.is_empty() {
            sweep.mixes.clone_from(&self.mix);
        }
        if !self.server_cpus.is_empty() {
            sweep.server_cpus.clone_from(&self.server_cpus);
        }
        if !self.slots.is_empty() {
            sweep.slots.clone_from(&self.slots);
        }
        if self.rates().iter().any(|(_, given)| *given) {
            sweep.rates.clear();
        }
        sweep.apart |= self.apart;
        sweep.repeats = self.repeats.or(sweep.repeats);
        let targets = [
            ("--target-read-throughput", self.target_read_throughput, vec![Class::Read, Class::List]),
            ("--target-write-throughput", self.target_write_throughput, vec![Class::Write]),
        ];
        for (flag, rate, classes) in targets {
            let Some(bound) = rate.map(Bound::ThroughputAtLeast) else { continue };
            meant(flag, &bound)?;
            if scenario.has(&classes) {
                scenario.objectives.push(Objective { operation: None, classes, stage: None, fan_out: None, bound });
            }
        }
        match scenario.fault() {
            None => Ok(scenario),
            Some((key, reason)) => Err(with_numbers(format!("flags: {key}: {reason}"))),
        }
    }

    /// When requests start, and when they end.
    fn loop_over(&self, scenario: &mut Scenario) -> Result<(), String> {
        let load = &mut scenario.load;
        if self.rates().iter().any(|(flag, given)| *given && *flag != "closed") {
            load.stages.clear();
        }
        let seconds = load.schedule.as_ref().map(Schedule::seconds).or(load.seconds);
        if let Some(name) = &self.schedule {
            (load.schedule, load.seconds, load.requests) = (Some(schedule(name)?), None, None);
        } else if let Some(rate) = self.rate {
            let schedule = Schedule::Constant { rate, seconds: seconds.unwrap_or(10.0) };
            (load.schedule, load.seconds, load.requests) = (Some(schedule), None, None);
        } else if let Some(requests) = self.requests {
            (load.schedule, load.seconds, load.requests) = (None, None, Some(requests));
        } else if self.closed && load.stages.is_empty() {
            (load.schedule, load.seconds) = (None, seconds);
        }
        if let Some(seconds) = self.test_duration_secs {
            match load.schedule.take() {
                Some(schedule) => load.schedule = Some(schedule.lasting(seconds)),
                None if !load.stages.is_empty() => {
                    let planned = load.arrivals_seconds().unwrap_or(seconds);
                    load.stages.iter_mut().for_each(|stage| stage.seconds *= seconds / planned);
                }
                None => (load.seconds, load.requests) = (Some(seconds), None),
            }
        }
        Ok(())
    }

    /// The style in which progress is shown; none if it is not.
    fn view(&self) -> Option<Style> {
        let asked = [(self.plain, Style::Plain), (self.ndjson, Style::Ndjson), (self.live, Style::Terminal)];
        asked.into_iter().find_map(|(asked, style)| asked.then_some(style)).or_else(Style::of_stderr)
    }

    /// Refuses flags of which a command would make nothing: what is asked for and not done is not noticed.
    fn refuse(&self, why: &str, unused: &[(&str, bool)]) -> Result<(), String> {
        match unused.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(with_variable(flag, format!("--{flag}: {why}"))),
            None => Ok(()),
        }
    }

    /// Refuses what is about the server of --base-url where there is none.
    fn refuse_without_base_url(&self) -> Result<(), String> {
        let about = [
            ("ca", self.ca.is_some()),
            ("insecure", self.insecure),
            ("has-data", self.has_data),
            ("i-own-this-target", self.i_own_this_target && !self.names_brokers()),
        ];
        if self.base_url.is_empty() { self.refuse("it is about the server of --base-url", &about) } else { Ok(()) }
    }

    /// Returns true if a flag says where a server beside ours is.
    fn names_brokers(&self) -> bool {
        self.nats_servers.is_some() || self.redis_addr.is_some()
    }

    fn places(&self) -> Places {
        let (nats, redis) = (self.nats_servers.clone(), self.redis_addr.clone());
        Places { nats, redis, are_owned: self.i_own_this_target }
    }

    /// Returns the flags that make several runs of one; true for one that does here.
    fn several(&self) -> [(&'static str, bool); 6] {
        [
            ("mix", !self.mix.is_empty()),
            ("apart", self.apart),
            ("repeats", self.repeats.is_some()),
            ("server-cpus", !self.server_cpus.is_empty()),
            ("slots", self.slots.len() > 1),
            ("concurrent-tasks", self.concurrent_tasks.len() > 1),
        ]
    }

    /// Returns the flags that say at which rate requests start, or how many; true for one that is given.
    fn rates(&self) -> [(&'static str, bool); 4] {
        [
            ("rate", self.rate.is_some()),
            ("schedule", self.schedule.is_some()),
            ("requests", self.requests.is_some()),
            ("closed", self.closed),
        ]
    }

    fn trust(&self) -> Option<Trust> {
        self.ca.clone().map(Trust::Certificates).or(self.insecure.then_some(Trust::Everyone))
    }

    /// Searches the highest rate at which a scenario meets its objectives, from a first one on; all probes are stored, and printed. One
    /// without a bound on response times gets one for p99 of each operation. Returns whether any rate was good.
    pub fn capacity(&self, scenario: Scenario, first: f64, p99_at_most_ms: f64) -> Result<bool, String> {
        interrupt::listen(server::kill_started)?;
        self.refuse_without_base_url()?;
        self.refuse("a search has no plan", &[("plan", self.plan)])?;
        self.refuse("a search is about one load", &self.several())?;
        self.refuse("a search chooses the rates itself, from --first on", &self.rates())?;
        let mut scenario = self.over(scenario)?;
        scenario = scenario.in_first_slot();
        let features = features(std::slice::from_ref(&scenario));
        let default = Bound::Response { quantile: 0.99, at_most_ms: p99_at_most_ms };
        meant("--p99-at-most-ms", &default)?;
        if let Some((_, reason)) = (Schedule::Constant { rate: first, seconds: 1.0 }).fault() {
            return Err(format!("--first: {reason}"));
        }
        descriptors::reserve(scenario.connections(), scenario.load.threads)?;
        prepare(&self.results)?;
        if !scenario.objectives.iter().any(|objective| matches!(objective.bound, Bound::Response { .. })) {
            let objective = |operation: &Operation| Objective {
                operation: Some(operation.name.clone()),
                classes: Vec::new(),
                stage: None,
                fan_out: None,
                bound: default.clone(),
            };
            scenario.objectives.extend(scenario.operations.iter().map(objective));
        }
        let found = capacity::search(&scenario, first, |probe| match self.point(probe, &features)? {
            Point::Ran(run) => Ok(*run),
            Point::Skipped { name, reason } | Point::Failed { name, reason } => Err(format!("{name}: {reason}")),
        })?;
        print(found.text());
        Ok(found.bracket.good.is_some())
    }

    /// Measures what the client itself can do.
    pub fn calibrate(&self) -> Result<Vec<Point>, String> {
        interrupt::listen(server::kill_started)?;
        let of_a_server = [
            ("base-url", !self.base_url.is_empty()),
            ("server", is_typed("server")),
            ("slots", !self.slots.is_empty()),
            ("nats-servers", self.nats_servers.is_some()),
            ("redis-addr", self.redis_addr.is_some()),
        ];
        self.refuse("a calibration starts the null server", &of_a_server)?;
        self.refuse_without_base_url()?;
        self.refuse("a calibration has no plan", &[("plan", self.plan)])?;
        self.refuse("a calibration is about one load", &self.several())?;
        self.refuse("a calibration has both loops, and its own rates", &self.rates())?;
        let scenario = self.over(calibration::scenario())?;
        descriptors::reserve(scenario.load.connections, scenario.load.threads)?;
        prepare(&self.calibration)?;
        calibration::calibrate(&scenario, self.pinned(&scenario), |run, accounts| {
            print(table::text(run));
            store(run, &self.calibration, accounts)
        })?;
        Ok(Vec::new())
    }

    /// Runs all variants of scenarios, each against a server of its own unless there is one already, and prints what came of them.
    pub fn run(&self, scenarios: Vec<Scenario>) -> Result<Vec<Point>, String> {
        self.refuse_without_base_url()?;
        let scenarios = scenarios.into_iter().map(|scenario| self.over(scenario)).collect::<Result<Vec<_>, _>>()?;
        let variants = scenarios.iter().map(variants).collect::<Result<Vec<_>, _>>()?.concat();
        if self.plan {
            let run = |variant: &Scenario| serde_json::json!({"name": variant.name, "seconds": variant.load.arrivals_seconds()});
            let not_run: BTreeMap<_, _> = scenarios.iter().flat_map(|scenario| &scenario.not_run).collect();
            print(serde_json::json!({"run": variants.iter().map(run).collect::<Vec<_>>(), "not_run": not_run}));
            return Ok(Vec::new());
        }
        self.refuse_unused_brokers(&variants)?;
        interrupt::listen(server::kill_started)?;
        for variant in &variants {
            descriptors::reserve(variant.connections(), variant.load.threads)?;
        }
        prepare(&self.results)?;
        let (begun, features) = (Instant::now(), features(&variants));
        let mut points = Vec::new();
        for variant in &variants {
            points.push(match self.point(variant, &features) {
                Err(reason) if variants.len() > 1 && !interrupt::is_asked() => {
                    let name = variant.name.clone();
                    remark(format_args!("load: {name}: {reason}"));
                    self.note(&name, "failed", &reason)?;
                    Point::Failed { name, reason }
                }
                point => point?,
            });
        }
        let summary = table::summary(&points, begun.elapsed());
        if !summary.is_empty() {
            print(summary.trim_end_matches('\n'));
        }
        Ok(points)
    }

    /// Runs the load test of registries that flags make, in the slot of the servers that they name.
    pub fn registry(&self, shape: &Shape) -> Result<Vec<Point>, String> {
        self.refuse(
            "the servers that are named say it: --redis-addr, --nats-servers",
            &[("slots", !self.slots.is_empty())],
        )?;
        self.refuse(
            "devices are as many as --fan-out says",
            &[("seed-record-count", self.seed_record_count.is_some())],
        )?;
        let (has_nats, has_redis) = (self.nats_servers.is_some(), self.redis_addr.is_some());
        let scenario = shape.scenario(self.rate, self.test_duration_secs, has_nats, has_redis)?;
        // What is named and cannot be had is a mistake here, not a variant that is skipped.
        match self.lacking(&scenario.clone().in_first_slot())? {
            Some(reason) if !self.plan => Err(reason),
            _ => self.run(vec![scenario]),
        }
    }

    /// Runs a scenario, prints its result and stores it: what was measured is seen even if it cannot be stored.
    fn point(&self, scenario: &Scenario, features: &[&str]) -> Result<Point, String> {
        if let Some(reason) = self.lacking(scenario)? {
            return self.skipped(scenario, reason);
        }
        let view = live::show(self.view());
        let at = |url: &Url| {
            let server = Server::at(&url.to_string(), self.i_own_this_target, self.trust());
            server.map_err(|reason| with_variable("base-url", reason))
        };
        let mut server = match self.base_url.split_first() {
            Some((first, others)) => {
                let mut server = at(first)?;
                server.beside(others.iter().map(at).collect::<Result<_, _>>()?);
                server.neighbours = Neighbours::start(scenario, &self.places(), None)?;
                server
            }
            None => self.start(scenario, features)?,
        };
        if let Some(Err(reason)) = scenario.load.server_cpus.map(|cpus| server.limit(cpus)) {
            drop(view);
            return self.skipped(scenario, reason);
        }
        let (results, programs) = (Some(&*self.results), self.programs());
        let (mut run, accounts) = run::run_in(results, &programs, scenario, &server, self.has_data)?;
        self.judge(&mut run);
        drop(view);
        print(table::text(&run));
        store(&run, &self.results, &accounts)?;
        print(format_args!("stored as {}\n", self.results.join(format!("{}.json", run.id)).display()));
        Ok(Point::Ran(Box::new(run)))
    }

    /// Why this machine cannot run a scenario: a program is missing.
    ///
    /// # Errors
    /// A server beside ours is named that cannot be.
    fn lacking(&self, scenario: &Scenario) -> Result<Option<String>, String> {
        match self.programs().lacking(scenario) {
            None => self.places().lacking(scenario),
            reason => Ok(reason),
        }
    }

    /// Refuses to look for servers beside ours that no variant needs, or that the server of --base-url would not know.
    fn refuse_unused_brokers(&self, variants: &[Scenario]) -> Result<(), String> {
        let needs = |of: fn(&Slot) -> bool| variants.iter().filter_map(|variant| variant.slot.as_ref()).any(of);
        let (nats, redis) = (needs(Slot::has_nats), needs(Slot::has_redis));
        let unused = [
            ("nats-servers", self.nats_servers.is_some() && !nats),
            ("redis-addr", self.redis_addr.is_some() && !redis),
        ];
        self.refuse("no slot of the run needs it (--slots)", &unused)?;
        let unknown = [(nats, &self.nats_servers, "--nats-servers"), (redis, &self.redis_addr, "--redis-addr")];
        match unknown.into_iter().find(|(is_needed, place, _)| *is_needed && place.is_none()) {
            Some((_, _, flag)) if !self.base_url.is_empty() => {
                Err(format!("--base-url: {flag} says which one its server uses"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn programs(&self) -> Programs {
        Programs::new(&self.program)
    }

    /// Says and stores that a scenario is skipped.
    fn skipped(&self, scenario: &Scenario, reason: String) -> Result<Point, String> {
        let name = scenario.name.clone();
        print(format_args!("{name}: skipped: {reason}\n"));
        self.note(&name, "skipped", &reason)?;
        Ok(Point::Skipped { name, reason })
    }

    /// Stores why there is no result, beside the results.
    fn note(&self, name: &str, what: &str, reason: &str) -> Result<(), String> {
        let file = self.results.join(format!("{name}.{what}"));
        let written = fs::create_dir_all(&self.results).and_then(|()| fs::write(&file, reason));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Measures the variants of a scenario against those of another side, each pair of servers in windows that take turns. Stores the runs, and
    /// prints a JSON array of both ids for each pair.
    pub fn pair(&self, name: &str, other: (&str, &Self), windows: u32) -> Result<Vec<Point>, String> {
        interrupt::listen(server::kill_started)?;
        for side in [self, other.1] {
            side.refuse("both servers of a pair are started here", &[("base-url", !side.base_url.is_empty())])?;
            side.refuse_without_base_url()?;
            side.refuse("both servers of a pair have their own", &[("nats-servers", side.nats_servers.is_some())])?;
            side.refuse("both servers of a pair have their own", &[("redis-addr", side.redis_addr.is_some())])?;
            side.refuse("a pair has no plan", &[("plan", side.plan)])?;
            side.refuse("pairs are the repeats: measure several", &[("repeats", side.repeats.is_some())])?;
        }
        let of_both = [("plain", other.1.plain), ("ndjson", other.1.ndjson), ("live", other.1.live)];
        other.1.refuse("it is about both sides, and stands before --", &of_both)?;
        let variants = |flags: &Self, name: &str| {
            let mut scenario = scenario(name)?;
            scenario.objectives.clear();
            scenario = flags.over(scenario)?;
            // Pairs are the repeats.
            scenario.sweep.repeats = None;
            self::variants(&scenario)
        };
        let sides = [variants(self, name)?, variants(other.1, other.0)?];
        let [ours, theirs] = sides.each_ref().map(Vec::len);
        if ours != theirs {
            return Err(format!("one side has {ours} variants, the other {theirs}"));
        }
        prepare(&self.results)?;
        let mut points = Vec::new();
        let [ours, theirs] = sides;
        for (one, another) in ours.iter().zip(&theirs) {
            let connections = one.connections().saturating_add(another.connections());
            descriptors::reserve(connections, one.load.threads + another.load.threads)?;
        }
        let features = features(&[&ours[..], &theirs[..]].concat());
        for (one, another) in ours.into_iter().zip(theirs) {
            let sides = [self.side(one, &features)?, other.1.side(another, &features)?];
            let view = live::show(self.view());
            let mut runs = pair::measure(&sides, windows)?;
            drop(view);
            for (run, accounts) in &mut runs {
                self.judge(run);
                // Standard output is for the ids.
                store(run, &self.results, accounts).inspect_err(|_| remark(table::text(run)))?;
            }
            print(serde_json::json!(runs.iter().map(|(run, _)| &run.id).collect::<Vec<_>>()));
            points.extend(runs.into_iter().map(|(run, _)| Point::Ran(Box::new(run))));
        }
        Ok(points)
    }

    fn pinned(&self, scenario: &Scenario) -> Option<Pinned> {
        (self.pin == Pin::Apart && scenario.load.server_cpus.is_none()).then(Pinned::apart).flatten()
    }

    fn start(&self, scenario: &Scenario, features: &[&str]) -> Result<Server, String> {
        let binary = server::binary(self.server.as_deref(), features)?;
        let pinned = self.pinned(scenario);
        let processors = pinned.as_ref().map(|pinned| pinned.server.as_slice());
        let neighbours = Neighbours::start(scenario, &self.places(), processors)?;
        let started = Server::start(&binary, scenario, pinned, neighbours);
        started.map_err(|reason| with_variable("server", reason))
    }

    fn side(&self, scenario: Scenario, features: &[&str]) -> Result<Side, String> {
        let mut server = self.start(&scenario, features)?;
        scenario.load.server_cpus.map_or(Ok(()), |cpus| server.limit(cpus))?;
        Ok((scenario, server))
    }

    /// Gives a run its verdict, by what the client can do, too.
    fn judge(&self, run: &mut Run) {
        run.ceiling = calibration::ceiling(&self.calibration, run);
        rules::give_verdict(run);
    }
}

/// The features that the server needs for all of these, so that it is built once.
fn features(scenarios: &[Scenario]) -> Vec<&'static str> {
    let of_slots = scenarios.iter().filter_map(|one| one.slot).flat_map(|slot| slot.features());
    let of_storage = scenarios.iter().filter_map(|one| one.data.storage).map(Storage::feature);
    let needed: BTreeSet<_> = of_slots.chain(of_storage).collect();
    needed.into_iter().collect()
}

/// The variants of a scenario, of which each can be run.
fn variants(scenario: &Scenario) -> Result<Vec<Scenario>, String> {
    let variants = scenario.variants();
    match variants.iter().find_map(|variant| Some((variant, variant.fault()?))) {
        None => Ok(variants),
        Some((variant, (key, reason))) => Err(with_numbers(format!("{}: {key}: {reason}", variant.name))),
    }
}

/// Refuses what a flag says of a bound, if it cannot be meant.
fn meant(flag: &str, bound: &Bound) -> Result<(), String> {
    bound.fault().map_or(Ok(()), |reason| Err(format!("{flag}: {reason}")))
}

fn prepare(folder: &Path) -> Result<(), String> {
    stored::prepare(folder).map_err(|error| format!("no results can be stored in {}: {error}", folder.display()))
}

fn store(run: &Run, folder: &Path, accounts: &[Account]) -> Result<(), String> {
    stored::store(run, folder, accounts).map_err(|error| format!("{}: {error}", folder.display()))
}

/// The exit code of runs, or of why there is none. What was skipped is no pass.
pub fn exit(points: Result<Vec<Point>, String>) -> ExitCode {
    let good = |point: &Point| match point {
        Point::Ran(run) => {
            run.validity == Validity::Valid && run.objectives.iter().all(|judged| judged.outcome == Outcome::Pass)
        }
        Point::Skipped { .. } | Point::Failed { .. } => false,
    };
    match points {
        Ok(points) => output::exit(u8::from(!points.iter().all(good))),
        Err(reason) => {
            remark(format_args!("load: {reason}"));
            output::exit(if interrupt::is_asked() { 1 } else { 2 })
        }
    }
}
