//! The result of a run: one JSON document, enough to judge it again without the run.
//!
//! A statistic of nothing is null; unknown fields are refused when read, so that no figure from elsewhere hides in it. Files are created
//! and never written over, and never go through the server that was measured (T25).
//!
//! History of the format:
//!   format 1: the first; the window of an open loop ended with the last response, even if its schedule went on, and arrivals that the
//!     client had not come to by the end of the schedule were sent after it.
//!   format 2: a window does not end before its schedule, and those arrivals are dropped, and counted in `missed_arrivals`; tags in the log
//!     are unique. What later versions added is absent where there is none of it: refused requests, stages, promises of streams, multicasts,
//!     curves.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clocks::{Cpu, Held};
use crate::counters;
use crate::feeds::Followed;
use crate::growth::{self, Growth};
use crate::ledger::Account;
use crate::multicasts::{self, deliveries::FAN_OUTS};
use crate::pinning::Pinned;
use crate::scenario::{Growing, Objective, Operation, QUANTILES, Scenario};
use crate::streams::deliveries::Delivered;
use crate::streams::promises::Promises;
use crate::tls::Negotiated;

/// The version of the format. Those before it are read, too.
pub const FORMAT: u32 = 2;

/// A run of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The version of this format.
    pub format: u32,
    /// Names this run among all: the scenario and when it began.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// The scenario as it was run.
    pub scenario: Scenario,
    /// Open or closed (T7).
    pub r#loop: Loop,
    /// The parameters of TLS that all connections negotiated; null over plain TCP.
    pub tls: Option<Negotiated>,
    /// The configuration that the server said it had; null where the server was there already.
    pub server_configuration: Option<Value>,
    /// Processors of the machine that both ran on.
    pub processors: usize,
    /// The operations that were to be measured.
    pub plan: Vec<String>,
    /// The preparation before the window.
    pub setup: Setup,
    /// The time that all figures are about.
    pub window: Window,
    /// One for each operation of the plan.
    pub cells: Vec<Cell>,
    /// The stages of a closed loop, each measured by itself, where it has some; the other figures are of all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageRun>,
    /// Of all operations.
    pub total: Counts,
    /// Right answers a second over the window.
    pub throughput: f64,
    /// Of both sides.
    pub processes: Processes,
    /// The ceiling of the client, where that was measured; null where not.
    pub ceiling: Option<Ceiling>,
    /// The resources that the server held, once in each slice of the window, where it was started here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// The deliveries to the subscribers of change feeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<Followed>,
    /// The outcomes of the promises of the stream whose events were acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promises: Option<Promises>,
    /// The number of requests that each end of the server met in flight, which are censored; where it was ended on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kills: Option<Vec<u64>>,
    /// The deliveries to the subscribers of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribers: Option<Subscribed>,
    /// The outcomes of the messages that were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicasts: Option<Multicasts>,
    /// The servers beside ours that its slot needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brokers: Vec<BrokerRun>,
    /// The programs that ran beside the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BesideRun>,
    /// The checks of what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRun>,
    /// The processors of both sides, where they had their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
    /// By what the server's processors were limited, where the scenario limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Limited>,
    /// The server's counters.
    pub counters: Counters,
    /// The outcomes of the objectives.
    pub objectives: Vec<Judged>,
    /// The validity of the run.
    pub validity: Validity,
    /// Rules that are broken, and how.
    pub broken: Vec<String>,
    /// True if Ctrl-C ended it.
    pub aborted: bool,
}

/// A server beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerRun {
    /// The name of its program.
    pub program: String,
    /// The version that it says it is.
    pub version: String,
    /// True if it was there before the run.
    pub was_there: bool,
    /// The CPU time that it used over the windows; null of one that was there.
    pub cpu: Option<Cpu>,
}

/// A program that ran beside the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BesideRun {
    /// Its name.
    pub program: String,
    /// The number of times that it was killed and started again.
    pub kills: u32,
    /// Why it did not run to the end, or did not end well.
    pub failure: Option<String>,
}

/// A check of what came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Why it says no, or could not say anything.
    pub failure: Option<String>,
    /// The JSON that it printed.
    pub told: Value,
    /// The duration of the check.
    pub seconds: f64,
}

/// The deliveries to the subscribers of a stream, and their requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribed {
    /// Requests of theirs that the server has counted between both readings of its counters, at least.
    pub requests_at_least: u64,
    /// And at most: some are under way at a reading.
    pub requests_at_most: u64,
    /// One for each kind of them in the scenario.
    pub kinds: Vec<Deliveries>,
}

/// The deliveries to subscribers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliveries {
    /// Acknowledged events that had to come, to all of them together; those of the warm-up apart.
    pub due: u64,
    /// Those of the warm-up.
    pub due_in_warm_up: u64,
    /// Acknowledged events that did not come.
    pub missing: u64,
    /// Events that came again, or behind later ones.
    pub repeated: u64,
    /// Events that came of requests without an answer.
    pub unanswered: u64,
    /// Subscribers that the server ended, or refused.
    pub ended: u64,
    /// From the intended start of the append to the arrival, of each delivery.
    pub lag: Option<Statistics>,
    /// From the start of the append to the arrival, of each delivery.
    pub lag_from_start: Option<Statistics>,
}

impl From<Delivered> for Deliveries {
    fn from(found: Delivered) -> Self {
        let Delivered { due, due_before: due_in_warm_up, missing, repeated, unanswered, ended, .. } = found;
        let of = |times| Statistics::of(times, 0, found.unrecorded);
        let (lag, lag_from_start) = (of(&found.from_intended), of(&found.from_start));
        Self { due, due_in_warm_up, missing, repeated, unanswered, ended, lag, lag_from_start }
    }
}

/// The outcomes of messages, as told by responses and as received. Those of the warm-up are in what is wrong, and in no other figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multicasts {
    /// Messages whose requests were answered.
    pub answered: u64,
    /// Those of the warm-up.
    pub answered_in_warm_up: u64,
    /// Requests without an answer, which may have been carried out.
    pub unanswered: u64,
    /// Of the answers.
    pub targets: u64,
    /// Of the answers.
    pub delivered: u64,
    /// Of the answers.
    pub absent: u64,
    /// Of the answers.
    pub pending: u64,
    /// Of the answers.
    pub failed: u64,
    /// Messages of answered requests that subscribers received, each once.
    pub received: u64,
    /// Those that answers call delivered or pending, and nobody received.
    pub lost: u64,
    /// Those that came to a subscriber again.
    pub doubled: u64,
    /// Those beyond what answers allow, and those that came to a subscriber that they are not for.
    pub stray: u64,
    /// Messages that were received of requests without an answer.
    pub of_unanswered: u64,
    /// The number of times that subscribers resumed: they were told that they are behind, or cut off while they read nothing.
    pub lagged: u64,
    /// Subscribers that the server ended, or refused.
    pub ended: u64,
    /// From the intended start of the request to the arrival, of each delivery.
    pub lag: Option<Statistics>,
    /// The same to the last arrival of each message.
    pub last_lag: Option<Statistics>,
    /// By the number of targets.
    pub by_fan_out: Vec<FanOut>,
}

/// The outcomes of messages to so many targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// Targets at most; null of the last, which has all others.
    pub up_to: Option<u64>,
    /// Messages whose requests were answered.
    pub answered: u64,
    /// Those that subscribers received.
    pub received: u64,
    /// To the last arrival of each message.
    pub last_lag: Option<Statistics>,
}

impl Multicasts {
    /// Of what was judged.
    pub fn of(found: &multicasts::deliveries::Delivered) -> Self {
        let of = |times| Statistics::of(times, 0, found.unrecorded);
        let by_fan_out = FAN_OUTS.iter().zip(&found.by_fan_out).filter(|(_, (answered, ..))| *answered > 0);
        Self {
            answered: found.answered,
            answered_in_warm_up: found.answered_in_warm_up,
            unanswered: found.unanswered,
            targets: found.targets,
            delivered: found.delivered,
            absent: found.absent,
            pending: found.pending,
            failed: found.failed,
            received: found.received,
            lost: found.lost,
            doubled: found.doubled,
            stray: found.stray,
            of_unanswered: found.of_unanswered,
            lagged: found.lagged,
            ended: found.ended,
            lag: of(&found.lag),
            last_lag: of(&found.last_lag),
            by_fan_out: by_fan_out
                .map(|(up_to, (answered, received, last_lag))| FanOut {
                    up_to: Some(*up_to).filter(|up_to| *up_to < u64::MAX),
                    answered: *answered,
                    received: *received,
                    last_lag: of(last_lag),
                })
                .collect(),
        }
    }
}

/// A stage of a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRun {
    /// The time that its figures are about.
    pub window: Window,
    /// One for each operation of the plan.
    pub cells: Vec<Cell>,
    /// Of all operations.
    pub total: Counts,
    /// Right answers a second over its window.
    pub throughput: f64,
    /// Of both sides.
    pub processes: Processes,
}

/// The limit of the server's processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limited {
    /// By what.
    pub mechanism: String,
    /// Periods of the window in which the server had used up its share; null where nobody counts them.
    pub throttled_periods: Option<u64>,
}

/// The outcome of a planned run.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// It was measured.
    Ran(Box<Run>),
    /// This machine cannot run it.
    Skipped {
        /// Of the scenario.
        name: String,
        /// Why.
        reason: String,
    },
    /// It ended without a result.
    Failed {
        /// Of the scenario.
        name: String,
        /// Why.
        reason: String,
    },
}

/// Which loop: part of what a result may be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    /// Requests start when a schedule says so.
    Open,
    /// Users ask again when they have their answer.
    Closed,
}

/// The preparation before the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Rows that were written; null if the data was there already.
    pub rows_written: Option<u64>,
    /// Rows that the server counted then.
    pub rows_found: Option<u64>,
    /// Requests of the warm-up.
    pub warm_up: Counts,
}

/// The time that all figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// From the first intended start to the end of the last request, and not before requests were to start no more.
    pub seconds: f64,
    /// The time in which the schedule or the closed loop was to start requests, or did until it was aborted; null if their number ended it.
    pub arrivals_seconds: Option<f64>,
}

/// A planned measurement and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The operation.
    pub operation: String,
    /// The state of the measurement.
    pub state: State,
    /// Why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The outcomes of its requests.
    pub counts: Counts,
    /// Bytes of bodies that were received, counted.
    pub body_bytes_received: u64,
    /// From intended start to end, of right answers; beyond them, dropped and censored ones are later than any. Null in a closed loop.
    pub response: Option<Statistics>,
    /// From start to end, of right answers.
    pub service: Option<Statistics>,
    /// From when it could have started to its start, of all that started.
    pub send_lag: Option<Statistics>,
    /// From start to end, of those that were refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_service: Option<Statistics>,
    /// From start to end, of the others by class.
    pub failed_service: BTreeMap<String, Statistics>,
    /// Right answers by the second of the window in which they ended.
    pub ok_by_second: Vec<u64>,
    /// Those with another end, by the second in which they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_by_second: Vec<u64>,
    /// Those that never started, by the second in which they should have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_by_second: Vec<u64>,
    /// The 99th percentile of the response time in each slice of the window (see `Load::slice`), of the service time in a closed loop;
    /// null where there were too few. Neighbouring slices are joined where that makes them enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub p99_by_slice: Vec<Option<u64>>,
}

/// The state of a planned measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was measured.
    Ran,
    /// None of its requests was sent.
    NotRun,
    /// It was left out.
    Skipped,
}

/// The outcomes of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// That should start.
    pub scheduled: u64,
    /// That never started.
    pub dropped: u64,
    /// That started.
    pub sent: u64,
    /// With the right answer.
    pub ok: u64,
    /// That were refused, as the scenario says.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Without an end when the drain ended.
    pub censored: u64,
    /// With another end, by class.
    pub failed: BTreeMap<String, u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Statistics of times; nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// The number of those measured.
    pub count: u64,
    /// The number of those later than any that was measured: dropped and censored ones.
    pub beyond: u64,
    /// The number of those that could not be recorded.
    pub overflow: u64,
    /// The least.
    pub min: u64,
    /// The mean of those measured.
    pub mean: f64,
    /// Their standard deviation.
    pub standard_deviation: f64,
    /// The largest measured.
    pub max: u64,
    /// Quantiles that at least ten values are above.
    pub quantiles: Vec<Quantile>,
    /// Points of the curve over the quantiles, in equal steps of nines, as far as ten values are above. Empty in older results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Quantile>,
}

/// The points of a curve from one nine to the next.
const POINTS_A_NINE: u32 = 12;

/// The number of values above a quantile below which it is not told.
const FEWEST_ABOVE: u64 = 10;

/// A quantile over the measured and those beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// From 0 to 1.
    pub quantile: f64,
    /// Nanoseconds; null where it is beyond the largest measured.
    pub value: Option<u64>,
}

/// CPU of both sides over the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processes {
    /// Of the client.
    pub client: Cpu,
    /// Of the server, where it was started here.
    pub server: Option<Cpu>,
    /// Of the server from the beginning of the first window to the end of the last, with what it did between them; null of one window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_throughout: Option<Cpu>,
    /// Seconds between the readings of the clocks before and after the window: what a busy machine adds to it is in the CPU, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_over_seconds: Option<f64>,
    /// CPU of the client's busiest thread, as a share of one processor.
    pub busiest_client_thread: f64,
    /// CPU that a thread of the client used or was ready for and did not get, of one processor: the most of any thread.
    #[serde(default)]
    pub client_thread_demand: f64,
    /// Dropped arrivals that the client had not come to when arrivals ended, where that was later than they should have started.
    #[serde(default)]
    pub missed_arrivals: u64,
    /// The time in which the client's threads were ready and had no processor, in all.
    pub client_run_queue_wait_seconds: Option<f64>,
    /// The users' own time between answers and requests, in all; null in an open loop.
    pub think_seconds: Option<f64>,
}

/// The ceiling of the client: a run against the null server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// The run.
    pub run: String,
    /// Right answers a second.
    pub throughput: f64,
}

/// The server's counters before and after the window; null where it has none for us.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Before.
    pub before: Option<counters::Counters>,
    /// After.
    pub after: Option<counters::Counters>,
}

impl Counters {
    /// Returns the growth of each counter; none where they are not known.
    pub fn grown(&self) -> Option<counters::Counters> {
        Some(counters::grown(self.before.as_ref()?, self.after.as_ref()?))
    }
}

/// An objective and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// As declared.
    pub objective: Objective,
    /// The measured value, in the unit of the bound; null where there is nothing, or it is beyond all measured.
    pub measured: Option<f64>,
    /// The interval of 95 % of a growth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of an objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Reached.
    Pass,
    /// Not reached.
    Fail,
    /// Nothing was measured that could say so.
    NoData,
    /// The run is not valid.
    Blocked,
}

/// The validity of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// A rule is broken.
    Invalid,
    /// The client was the bottleneck: its throughput is a lower bound.
    ClientBound,
    /// The server did not need all of the processors that it was given, so they were not what it was limited by.
    QuotaNotBinding,
    /// It ended before it had measured what was planned.
    Inconclusive,
    /// All rules hold.
    Valid,
}

impl Counts {
    /// Of an account.
    pub fn of(account: &Account) -> Self {
        let failed = account.failed.iter().map(|(failure, times)| (failure.to_string(), times.len())).collect();
        let Account { scheduled, dropped, sent, ok, censored, .. } = *account;
        Self { scheduled, dropped, sent, ok, refused: account.refused.len(), censored, failed }
    }

    /// With others.
    pub fn plus(mut self, other: &Self) -> Self {
        self.scheduled += other.scheduled;
        self.dropped += other.dropped;
        self.sent += other.sent;
        self.ok += other.ok;
        self.refused += other.refused;
        self.censored += other.censored;
        for (class, count) in &other.failed {
            *self.failed.entry(class.clone()).or_default() += count;
        }
        self
    }

    /// All that failed.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Those that were refused, over all.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.scheduled.max(1) as f64
    }

    /// All that came to neither a right answer nor a refusal: failed, dropped and censored ones.
    pub fn lost(&self) -> u64 {
        self.scheduled.saturating_sub(self.ok + self.refused)
    }
}

impl Statistics {
    /// Of a histogram, with so many beyond it; none if nothing was measured.
    pub fn of(histogram: &Histogram<u64>, beyond: u64, overflow: u64) -> Option<Self> {
        let count = histogram.len();
        let all = (count + beyond) as f64;
        let value = |quantile: f64| {
            let rank = (quantile * all).ceil().max(1.0) as u64;
            (rank <= count).then(|| histogram.value_at_quantile(rank as f64 / count as f64).min(histogram.max()))
        };
        let printed = QUANTILES.into_iter().filter(|quantile| all * (1.0 - quantile) >= 10.0 - 1e-6);
        (count > 0).then(|| Self {
            count,
            beyond,
            overflow,
            min: histogram.min(),
            mean: histogram.mean(),
            standard_deviation: histogram.stdev(),
            max: histogram.max(),
            quantiles: printed.map(|quantile| Quantile { quantile, value: value(quantile) }).collect(),
            curve: curve(histogram, beyond),
        })
    }

    /// The value of a quantile: none if it is not printed, `Some(None)` if it is beyond all measured.
    pub fn at(&self, quantile: f64) -> Option<Option<u64>> {
        self.quantiles.iter().find(|found| found.quantile == quantile).map(|found| found.value)
    }
}

/// Returns the points of the curve of a histogram in which something was measured, with so many beyond it.
fn curve(histogram: &Histogram<u64>, beyond: u64) -> Vec<Quantile> {
    let all = histogram.len() + beyond;
    let nines = (all as f64 / FEWEST_ABOVE as f64).log10().max(0.0);
    let mut buckets = histogram.iter_recorded();
    let (mut value, mut below) = (0, 0);
    let point = |step| {
        let quantile = 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_A_NINE));
        let rank = ((quantile * all as f64 - 1e-9).ceil() as u64).max(1);
        while below < rank
            && let Some(bucket) = buckets.next()
        {
            value = histogram.highest_equivalent(bucket.value_iterated_to());
            below += bucket.count_at_value();
        }
        Quantile { quantile: (quantile * 1e9).round() / 1e9, value: (below >= rank).then_some(value) }
    };
    (0..=(nines * f64::from(POINTS_A_NINE)) as u32).map(point).collect()
}

impl Cell {
    /// Of an account.
    pub fn of(operation: &str, account: &Account, is_open: bool) -> Self {
        let beyond = account.dropped + account.censored;
        let of = |histogram, beyond| Statistics::of(histogram, beyond, account.unrecorded);
        let failed = |(failure, times)| Some((ToString::to_string(failure), of(times, 0)?));
        let ran = account.sent > 0;
        Self {
            operation: operation.to_owned(),
            state: if ran { State::Ran } else { State::NotRun },
            reason: (!ran).then(|| "no request was sent".to_owned()),
            counts: Counts::of(account),
            body_bytes_received: account.body_bytes_received,
            response: if is_open { of(&account.response, beyond) } else { None },
            service: of(&account.service, 0),
            send_lag: of(&account.send_lag, 0),
            refused_service: of(&account.refused, 0),
            failed_service: account.failed.iter().filter_map(failed).collect(),
            ok_by_second: account.ok_by_second.clone(),
            failed_by_second: account.failed_by_second.clone(),
            dropped_by_second: account.dropped_by_second.clone(),
            p99_by_slice: growth::p99_of_slices(&account.response_by_slice),
        }
    }
}

impl Cell {
    /// The times that it is judged by: of responses in an open loop, of the service in a closed one.
    pub fn times(&self) -> Option<&Statistics> {
        self.response.as_ref().or(self.service.as_ref())
    }
}

/// By which share something that a server holds grew after the first third of the samples; none where too little is known.
pub fn growth_of(of: Growing, held: &[Held]) -> Option<Growth> {
    let value: fn(&Held) -> u64 = match of {
        Growing::Memory => |held| held.resident_bytes,
        Growing::Descriptors => |held| held.descriptors,
        Growing::Threads => |held| held.threads,
        Growing::P99 => return None,
    };
    growth::of(&held.iter().map(|held| (held.seconds, value(held) as f64)).collect::<Vec<_>>())
}

impl Run {
    /// By which share something grew after the first third of the window; none where too little is known.
    pub fn growth(&self, of: Growing, operation: Option<&str>) -> Option<Growth> {
        if of != Growing::P99 {
            return growth_of(of, &self.held);
        }
        let slices = self.cell(operation?)?.p99_by_slice.iter().enumerate();
        growth::of(&slices.filter_map(|(at, value)| Some((at as f64, (*value)? as f64))).collect::<Vec<_>>())
    }

    /// A stage, from 1 on, as if it had been a run of its own; none if there is no such stage.
    pub fn of_stage(&self, number: usize) -> Option<Self> {
        let at = number.checked_sub(1)?;
        let (planned, stage) = (self.scenario.load.stages.get(at)?, self.stages.get(at)?.clone());
        let mut run = Self { stages: Vec::new(), ..self.clone() };
        let load = &mut run.scenario.load;
        (load.connections, load.streams, load.seconds) = (planned.users, 1, Some(planned.seconds));
        load.stages.clear();
        let StageRun { window, cells, total, throughput, processes } = stage;
        (run.window, run.cells, run.total, run.throughput, run.processes) =
            (window, cells, total, throughput, processes);
        Some(run)
    }

    /// The cell of an operation.
    pub fn cell(&self, operation: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.operation == operation)
    }

    /// Returns the outcomes of the requests that an objective is about; none if there is no such operation.
    pub fn counts_of(&self, objective: &Objective) -> Option<Counts> {
        let about = |operation: &Operation| {
            let classes = &objective.classes;
            objective.operation.as_ref().is_none_or(|name| *name == operation.name)
                && (classes.is_empty() || classes.contains(&operation.class()))
        };
        let names =
            self.scenario.operations.iter().filter(|operation| about(operation)).map(|operation| &operation.name);
        let counts = names.filter_map(|name| self.cell(name)).map(|cell| &cell.counts);
        counts.fold(None, |sum, counts| Some(sum.unwrap_or_else(Counts::default).plus(counts)))
    }
}
