//! The outcomes of the objectives of a scenario: passed, failed, without data, or blocked by a run that is not to be believed.

use crate::result::{Counts, Judged, Outcome, Run, Validity};
use crate::scenario::{Bound, Growing, Objective};

use super::{client_bound, validity};

/// Returns the outcomes of the objectives of a scenario.
pub fn judged(run: &Run) -> Vec<Judged> {
    let validity = validity(run);
    run.scenario.objectives.iter().map(|objective| judge(run, objective, validity)).collect()
}

fn judge(whole: &Run, objective: &Objective, validity: Validity) -> Judged {
    let of_stage = objective.stage.map(|stage| whole.of_stage(stage));
    // A stage that was not measured has nothing that could say so.
    let Some(run) = of_stage.as_ref().map_or(Some(whole), Option::as_ref) else {
        let outcome = if validity == Validity::Valid { Outcome::NoData } else { Outcome::Blocked };
        return Judged { objective: objective.clone(), measured: None, interval: None, outcome };
    };
    let (measured, interval, outcome) = measured(whole, run, objective);
    let outcome = outcome.unwrap_or(Outcome::NoData);
    let quantile = match objective.bound {
        Bound::Response { quantile, .. } | Bound::Lag { quantile, .. } | Bound::LastLag { quantile, .. } => quantile,
        Bound::Growth { of: Growing::P99, .. } => 0.99,
        Bound::Growth { of: Growing::Memory | Growing::Descriptors | Growing::Threads, .. }
        | Bound::ThroughputAtLeast(_)
        | Bound::RefusedAtLeast(_)
        | Bound::RefusedAtMost(_)
        | Bound::Goodput { .. }
        | Bound::FailuresAtMost(_) => 0.0,
    };
    // A client that was the bottleneck makes a server look slower, never faster: such a pass is one. Of growth it says nothing.
    let passed_all_the_same = outcome == Outcome::Pass && !matches!(objective.bound, Bound::Growth { .. });
    let believed = match validity {
        Validity::Valid => true,
        Validity::ClientBound => {
            passed_all_the_same || client_bound(whole).is_some_and(|client| client.from > quantile)
        }
        Validity::Invalid | Validity::QuotaNotBinding | Validity::Inconclusive => false,
    };
    let outcome = if believed { outcome } else { Outcome::Blocked };
    Judged { objective: objective.clone(), measured, interval, outcome }
}

/// Returns the measured value of an objective in a run, or a stage of the whole one: figure, interval, and whether it is good enough.
fn measured(whole: &Run, run: &Run, objective: &Objective) -> (Option<f64>, Option<[f64; 2]>, Option<Outcome>) {
    let counts = run.counts_of(objective);
    let sent = counts.as_ref().filter(|counts| counts.sent > 0);
    let outcome = |reached: bool| if reached { Outcome::Pass } else { Outcome::Fail };
    match &objective.bound {
        Bound::ThroughputAtLeast(bound) => {
            let measured = sent.map(|counts| counts.ok as f64 / run.window.seconds);
            (measured, None, measured.map(|measured| outcome(measured >= *bound)))
        }
        Bound::FailuresAtMost(bound) => {
            let measured = sent.map(|counts| counts.lost() as f64 / counts.scheduled.max(1) as f64);
            (measured, None, measured.map(|measured| outcome(measured <= *bound)))
        }
        Bound::RefusedAtLeast(bound) => {
            let measured = sent.map(Counts::refused_share);
            (measured, None, measured.map(|measured| outcome(measured >= *bound)))
        }
        Bound::RefusedAtMost(bound) => {
            let measured = sent.map(Counts::refused_share);
            (measured, None, measured.map(|measured| outcome(measured <= *bound)))
        }
        Bound::Goodput { of_stages, at_least } => {
            // Right answers and seconds.
            let good = |run: &Run| {
                let counts = run.counts_of(objective).filter(|counts| counts.ok > 0)?;
                Some((counts.ok as f64, run.window.seconds))
            };
            let others = of_stages.iter().map(|stage| good(&whole.of_stage(*stage)?)).collect::<Option<Vec<_>>>();
            let measured = others.zip(good(run)).map(|(others, (ok, seconds))| {
                let (other_ok, other_seconds) =
                    others.iter().fold((0.0, 0.0), |sum, other| (sum.0 + other.0, sum.1 + other.1));
                (ok / seconds) / (other_ok / other_seconds)
            });
            (measured, None, measured.map(|measured| outcome(measured >= *at_least)))
        }
        Bound::Growth { of, at_most } => {
            let growth = run.growth(*of, objective.operation.as_deref());
            let interval = growth.map(|growth| growth.interval);
            // An interval with the bound in it says neither.
            let told = interval.filter(|[low, high]| high <= at_most || low > at_most);
            (growth.map(|growth| growth.share), interval, told.map(|[_, high]| outcome(high <= *at_most)))
        }
        Bound::Lag { quantile, at_most_ms } => {
            let kinds = run.subscribers.iter().flat_map(|subscribed| &subscribed.kinds);
            let found = kinds.map(|kind| kind.lag.as_ref()?.at(*quantile)?).collect::<Option<Vec<_>>>();
            let measured = found.and_then(|found| found.into_iter().max()).map(|nanoseconds| nanoseconds as f64 / 1e6);
            (measured, None, measured.map(|measured| outcome(measured <= *at_most_ms)))
        }
        Bound::LastLag { quantile, at_most_ms } => {
            let found = run.multicasts.as_ref().and_then(|found| found.last_lag.as_ref()?.at(*quantile)?);
            let measured = found.map(|nanoseconds| nanoseconds as f64 / 1e6);
            (measured, None, measured.map(|measured| outcome(measured <= *at_most_ms)))
        }
        Bound::Response { quantile, at_most_ms } => {
            let cell = objective.operation.as_ref().and_then(|name| run.cell(name));
            let found = cell.and_then(|cell| cell.response.as_ref()).and_then(|response| response.at(*quantile));
            // What was not answered right has no response time that is good.
            let in_time = counts
                .as_ref()
                .is_some_and(|counts| counts.dropped == 0 && counts.ok as f64 >= *quantile * counts.scheduled as f64);
            let measured = found.flatten().map(|nanoseconds| nanoseconds as f64 / 1e6);
            (
                measured,
                None,
                found.map(|_| outcome(in_time && measured.is_some_and(|measured| measured <= *at_most_ms))),
            )
        }
    }
}
