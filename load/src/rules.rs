//! The rules that make a result trustworthy, each a check of a stored run and of nothing else.
//!
//! A run judges itself by them when it is stored, and `load check` judges the file again. A rule that is broken is named; nothing is
//! repaired. Rules about documents and comparisons (T17, T20, T21, T22) are not of one run, and stand with those.

mod account;
mod latency;
mod multicasts;
mod objectives;
mod programs;
mod promise;
mod streams;

use std::fmt;

use crate::quota::PERIOD_US;
use crate::result::{Counts, FORMAT, Judged, Run, Validity};
use crate::scenario::QUANTILES;

pub use objectives::judged;

/// A rule that is broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule's name.
    pub rule: &'static str,
    /// Where, and what is not as it should be.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule, self.how)
    }
}

/// Collects what is broken.
#[derive(Debug, Default)]
struct Findings(Vec<Broken>);

impl Findings {
    fn require(&mut self, rule: &'static str, holds: bool, how: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Broken { rule, how: how() });
        }
    }
}

/// Returns the rules that the measurements break, without what the run says of itself.
pub fn broken(run: &Run) -> Vec<Broken> {
    let mut findings = Findings::default();
    findings.require("T18", (1..=FORMAT).contains(&run.format), || {
        format!("format {} is none from 1 to {FORMAT}", run.format)
    });
    account::check(run, &mut findings);
    latency::check(run, &mut findings);
    promise::check(run, &mut findings);
    streams::check(run, &mut findings);
    multicasts::check(run, &mut findings);
    programs::check(run, &mut findings);
    stages(run, &mut findings);
    findings.0
}

/// Checks each stage as if it were a run of its own; T3: all stages together are the run.
fn stages(run: &Run, findings: &mut Findings) {
    let (planned, ran) = (run.scenario.load.stages.len(), run.stages.len());
    findings.require("T2", ran == planned || run.aborted && ran < planned, || {
        format!("{ran} stages were measured, where the scenario has {planned}")
    });
    let total = run.stages.iter().fold(Counts::default(), |sum, stage| sum.plus(&stage.total));
    findings.require("T3", ran == 0 || total == run.total, || {
        format!("the total has {} ok, its stages {}", run.total.ok, total.ok)
    });
    for number in 1..=ran {
        let Some(stage) = run.of_stage(number) else { continue };
        let mut own = Findings::default();
        account::check(&stage, &mut own);
        latency::check(&stage, &mut own);
        promise::clocks(&stage, &mut own);
        let named = |Broken { rule, how }| Broken { rule, how: format!("stage {number}: {how}") };
        findings.0.extend(own.0.into_iter().map(named));
    }
}

/// Why the client was the bottleneck, and from which quantile of times on: at 0 it was for all that was measured.
#[derive(Debug, PartialEq)]
pub struct ClientBound {
    /// Why.
    pub why: String,
    /// Its own lateness is in the times from this quantile on.
    pub from: f64,
}

/// Returns why the client was the bottleneck; none if it was not.
pub fn client_bound(run: &Run) -> Option<ClientBound> {
    let throughout = |why| Some(ClientBound { why, from: 0.0 });
    let demand = run.processes.client_thread_demand.max(run.processes.busiest_client_thread);
    if demand >= 0.9 {
        return throughout(format!("a thread of it used, or was ready for, {:.0} % of a processor", demand * 100.0));
    }
    let missed = run.processes.missed_arrivals;
    // A share that is in no quantile is no bottleneck.
    if missed as f64 > run.total.scheduled as f64 * 0.001 {
        return throughout(format!("it had not come to {missed} arrivals when the schedule ended"));
    }
    if let Some(ceiling) = &run.ceiling {
        let (sent, most) = (run.total.sent as f64 / run.window.seconds, ceiling.throughput);
        if sent >= 0.9 * most {
            return throughout(format!("it sent {sent:.0}/s, and can send {most:.0}/s ({})", ceiling.run));
        }
    }
    QUANTILES.into_iter().find_map(|quantile| {
        run.cells.iter().find_map(|cell| {
            let lag = cell.send_lag.as_ref()?.at(quantile)??;
            let service = cell.service.as_ref()?.at(quantile)??;
            (lag > 1_000_000 && lag > service / 4).then(|| {
                let (name, lag, service) = (&cell.operation, lag as f64 / 1e6, service as f64 / 1e6);
                let p = quantile * 100.0;
                let why =
                    format!("{name}: p{p} of its send lag is {lag:.1} ms beside a service time of {service:.1} ms");
                ClientBound { why, from: quantile }
            })
        })
    })
}

/// Why the server's processors were not what limited it (T24); none where they were, or are not limited.
pub fn quota_not_binding(run: &Run) -> Option<String> {
    let cpus = run.scenario.load.server_cpus?;
    let used = run.processes.server.as_ref().map_or(0.0, |cpu| cpu.seconds()) / run.window.seconds;
    let throttled = run.quota.as_ref().and_then(|quota| quota.throttled_periods);
    // A server that was throttled in every period had no more to use, though the kernel keeps a part of a small share to itself.
    let periods = run.window.seconds * 1e6 / PERIOD_US as f64;
    match () {
        () if throttled.is_some_and(|throttled| throttled as f64 >= 0.95 * periods) => None,
        () if used < cpus * 0.95 => Some(format!("the server used {used:.3} of its {cpus} processors")),
        () if throttled == Some(0) => Some("in no period the server had used up its share".to_owned()),
        () => None,
    }
}

/// Returns the validity of a run.
pub fn validity(run: &Run) -> Validity {
    match () {
        () if !broken(run).is_empty() => Validity::Invalid,
        () if run.aborted => Validity::Inconclusive,
        () if client_bound(run).is_some() => Validity::ClientBound,
        () if quota_not_binding(run).is_some() => Validity::QuotaNotBinding,
        () => Validity::Valid,
    }
}

/// Judges a run, and has it say so.
pub fn give_verdict(run: &mut Run) {
    run.broken = broken(run).iter().map(ToString::to_string).collect();
    run.validity = validity(run);
    run.objectives = judged(run);
}

/// All that is wrong with a stored run: broken rules, and where it says of itself what it is not.
pub fn check(run: &Run) -> Vec<Broken> {
    let mut findings = Findings(broken(run));
    let stated = run.validity;
    findings.require("T10", stated != Validity::Valid || client_bound(run).is_none(), || {
        format!(
            "it says valid, but the client was the bottleneck: {}",
            client_bound(run).map_or(String::new(), |client| client.why)
        )
    });
    let found = validity(run);
    findings.require("T15", stated == found, || format!("it says {stated:?}, and is {found:?}"));
    let judged = judged(run);
    findings.require("T15", judged == run.objectives, || {
        let outcomes =
            |judged: &[Judged]| judged.iter().map(|one| format!("{:?}", one.outcome)).collect::<Vec<_>>().join(", ");
        format!("its objectives are [{}], and come out as [{}]", outcomes(&run.objectives), outcomes(&judged))
    });
    findings.0
}
