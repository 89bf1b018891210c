//! What the binaries share: flags and variables, a scenario from its file or from this program, exit codes.
//!
//! Exit codes: 0 valid and every objective passed; 1 not so, or interrupted; 2 a mistake in what was asked; 130 interrupted twice.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::calibration;
use crate::capacity;
use crate::interrupt;
use crate::result::{Outcome, Run, Validity};
use crate::rules;
use crate::run;
use crate::scenario::{Bound, Http, Objective, Scenario};
use crate::server::{self, Server};
use crate::table;
use crate::tls::Trust;

/// How a run differs from its scenario's file.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// A server that is there; without it one is built, started with a temporary data directory, and stopped
    #[arg(long, env = "BASE_URL", value_name = "URL")]
    pub base_url: Option<String>,
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
    #[arg(long, env = "STRATA_BINARY", value_name = "FILE")]
    pub server: Option<PathBuf>,
    /// A target on another machine is yours
    #[arg(long)]
    pub i_own_this_target: bool,
    /// How long requests are started
    #[arg(long, env = "TEST_DURATION_SECS", value_name = "SECONDS")]
    pub test_duration_secs: Option<f64>,
    /// Connections
    #[arg(long, env = "CONCURRENT_TASKS", value_name = "NUMBER")]
    pub concurrent_tasks: Option<usize>,
    /// Requests before the window
    #[arg(long, env = "WARMUP_REQUESTS", value_name = "NUMBER")]
    pub warmup_requests: Option<u64>,
    /// Rows that requests choose among
    #[arg(long, env = "SEED_RECORD_COUNT", value_name = "NUMBER")]
    pub seed_record_count: Option<u64>,
    /// The server of --base-url has the rows already
    #[arg(long)]
    pub has_data: bool,
    /// Where results are stored
    #[arg(long, value_name = "DIR", default_value = "target/load")]
    pub results: PathBuf,
}

/// The scenarios that this program carries, by name.
const CARRIED: [(&str, &str); 3] = [
    ("throughput-read", include_str!("../scenarios/throughput-read.toml")),
    ("throughput-write", include_str!("../scenarios/throughput-write.toml")),
    ("rest-crud", include_str!("../scenarios/rest-crud.toml")),
];

/// A scenario that this program carries, or one in a file.
pub fn scenario(name: &str) -> Result<Scenario, String> {
    let read = match CARRIED.iter().find(|(carried, _)| *carried == name) {
        Some((_, text)) => Scenario::parse(&format!("load/scenarios/{name}.toml"), text),
        None => Scenario::read(name.as_ref()),
    };
    read.map_err(|refusal| refusal.to_string())
}

impl Flags {
    /// A scenario with what the flags say in place of what its file says.
    pub fn over(&self, mut scenario: Scenario) -> Result<Scenario, String> {
        let load = &mut scenario.load;
        if let Some(seconds) = self.test_duration_secs {
            match load.schedule.take() {
                Some(schedule) => load.schedule = Some(schedule.lasting(seconds)),
                None => (load.seconds, load.requests) = (Some(seconds), None),
            }
        }
        // What is there decides for itself; what is started does as the scenario says.
        scenario.tls = match &self.base_url {
            Some(url) => url.starts_with("https:"),
            None => scenario.tls && !self.no_tls,
        };
        scenario.http = self.http.unwrap_or(scenario.http);
        load.connections = self.concurrent_tasks.unwrap_or(load.connections);
        load.warm_up_requests = self.warmup_requests.unwrap_or(load.warm_up_requests);
        scenario.data.rows = self.seed_record_count.unwrap_or(scenario.data.rows);
        match scenario.fault() {
            None => Ok(scenario),
            Some((key, reason)) => Err(format!("flags: {key}: {reason}")),
        }
    }

    fn trust(&self) -> Option<Trust> {
        self.ca.clone().map(Trust::Certificates).or(self.insecure.then_some(Trust::Everyone))
    }

    /// Runs a scenario with what the flags say, stores its result and prints it.
    pub fn run(&self, scenario: Scenario, target: Option<f64>) -> Result<Run, String> {
        interrupt::listen(server::kill_started)?;
        let mut scenario = self.over(scenario)?;
        let bound = |rate| Objective { operation: None, bound: Bound::ThroughputAtLeast(rate) };
        scenario.objectives.extend(target.map(bound));
        self.run_one(&scenario)
    }

    /// Searches the highest rate at which a scenario meets its objectives, from a first one on; all probes are stored, and printed.
    pub fn capacity(&self, scenario: Scenario, first: f64) -> Result<Vec<Run>, String> {
        interrupt::listen(server::kill_started)?;
        let found = capacity::search(&self.over(scenario)?, first, |probe| self.run_one(probe))?;
        println!("{}", found.text());
        Ok(Vec::new())
    }

    /// Measures what the client itself can do.
    pub fn calibrate(&self) -> Result<Vec<Run>, String> {
        interrupt::listen(server::kill_started)?;
        if self.base_url.is_some() {
            return Err("the null server is started here: without --base-url".to_owned());
        }
        for run in calibration::calibrate(&self.over(calibration::scenario())?, &self.results)? {
            println!("{}", table::text(&run));
        }
        Ok(Vec::new())
    }

    fn run_one(&self, scenario: &Scenario) -> Result<Run, String> {
        let server = match (&self.base_url, self.trust()) {
            (Some(url), trust) => Server::at(url, self.i_own_this_target, trust)?,
            (None, Some(_)) => return Err("--ca and --insecure are about the server of --base-url".to_owned()),
            (None, None) => {
                Server::start(&server::binary(self.server.as_deref())?, &scenario.data.schema, scenario.tls)?
            }
        };
        let (mut run, accounts) = run::run(scenario, &server, self.has_data)?;
        run.ceiling = calibration::ceiling(&self.results, scenario);
        rules::give_verdict(&mut run);
        run.store(&self.results, &accounts).map_err(|error| format!("{}: {error}", self.results.display()))?;
        println!("{}", table::text(&run));
        println!("stored as {}", self.results.join(format!("{}.json", run.id)).display());
        Ok(run)
    }
}

/// The exit code of runs, or of why there is none.
pub fn exit(runs: Result<Vec<Run>, String>) -> ExitCode {
    let good = |run: &Run| {
        run.validity == Validity::Valid && run.objectives.iter().all(|judged| judged.outcome == Outcome::Pass)
    };
    match runs {
        Ok(runs) if runs.iter().all(good) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(reason) => {
            eprintln!("load: {reason}");
            ExitCode::from(if interrupt::is_asked() { 1 } else { 2 })
        }
    }
}
