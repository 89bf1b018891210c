//! Rules about times: statistics of nothing are absent, populations are kept apart, and the laws hold.

use crate::result::{Cell, Loop, Run, Statistics};

use super::Findings;

/// Three significant digits: a value of a histogram is within a thousandth of what was recorded; a margin over it.
const DIGITS: f64 = 0.003;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    for cell in &run.cells {
        populations(cell, findings);
        let kinds = [
            ("response", &cell.response),
            ("service", &cell.service),
            ("refused", &cell.refused_service),
            ("send lag", &cell.send_lag),
        ];
        for (kind, statistics) in kinds.into_iter().filter_map(|(kind, found)| Some((kind.to_owned(), found.as_ref()?)))
        {
            laws(&format!("{} {kind}", cell.operation), statistics, run.window.seconds, findings);
        }
        for (class, statistics) in &cell.failed_service {
            laws(&format!("{} {class}", cell.operation), statistics, run.window.seconds, findings);
        }
        loops(run, cell, findings);
    }
    little(run, findings);
}

/// T1, T6: statistics are of exactly the requests of their class.
fn populations(cell: &Cell, findings: &mut Findings) {
    let name = &cell.operation;
    let counted = |found: &Option<Statistics>| found.as_ref().map(|statistics| statistics.count);
    let present = |count: u64| (count > 0).then_some(count);
    let (service, lag) = (counted(&cell.service), counted(&cell.send_lag));
    findings.require("T1", service != Some(0) && lag != Some(0) && counted(&cell.response) != Some(0), || {
        format!("{name}: statistics over no sample")
    });
    findings.require("T1", cell.counts.ok > 0 || (cell.service.is_none() && cell.response.is_none()), || {
        format!("{name}: times of right answers, of which there is none")
    });
    findings.require("T6", service == present(cell.counts.ok), || {
        format!("{name}: service times of {service:?} requests, where {} are right", cell.counts.ok)
    });
    findings.require("T6", lag == present(cell.counts.sent), || {
        format!("{name}: send lags of {lag:?} requests, where {} were sent", cell.counts.sent)
    });
    let refused = counted(&cell.refused_service);
    findings.require("T6", refused == present(cell.counts.refused), || {
        format!("{name}: times of {refused:?} refused requests, where {} were refused", cell.counts.refused)
    });
    let failed = cell.failed_service.iter().map(|(class, times)| (class, times.count));
    findings.require("T6", failed.eq(cell.counts.failed.iter().map(|(class, count)| (class, *count))), || {
        format!("{name}: times of failures are not of those that failed")
    });
}

/// T7: response times are those of an open loop, and hold the dropped and censored; T23: they hold the service time.
fn loops(run: &Run, cell: &Cell, findings: &mut Findings) {
    let name = &cell.operation;
    let open = run.r#loop == Loop::Open;
    findings.require("T7", open == run.scenario.load.is_open(), || "the loop is not the scenario's".to_owned());
    let Some(response) = &cell.response else {
        return findings
            .require("T7", !open || cell.counts.ok == 0, || format!("{name}: an open loop without response times"));
    };
    findings.require("T7", open, || format!("{name}: response times of a closed loop, which knows service times only"));
    findings.require("T6", response.count == cell.counts.ok, || {
        format!("{name}: response times of others than the right answers")
    });
    let beyond = cell.counts.dropped + cell.counts.censored;
    findings.require("T16", response.beyond == beyond, || {
        format!("{name}: {} beyond all measured, but {beyond} were dropped or censored", response.beyond)
    });
    let Some(service) = &cell.service else { return };
    let slack = |value: u64| value as f64 * (1.0 - DIGITS);
    for found in &service.quantiles {
        if let Some((Some(response), service)) = response.at(found.quantile).zip(found.value) {
            findings.require("T23", response as f64 >= slack(service), || {
                format!(
                    "{name}: p{} of the response, {response} ns, is below that of the service in it, {service} ns",
                    found.quantile * 100.0
                )
            });
        }
    }
    findings.require(
        "T23",
        response.max as f64 >= slack(service.max) && response.mean >= service.mean * (1.0 - DIGITS),
        || format!("{name}: response times below the service times in them"),
    );
}

/// T8 and T9: nothing is cut off, and the statistics can be of one set of numbers.
pub(super) fn laws(place: &str, found: &Statistics, window_seconds: f64, findings: &mut Findings) {
    findings.require("T8", found.overflow == 0, || format!("{place}: {} times could not be recorded", found.overflow));
    let all = (found.count + found.beyond) as f64;
    for quantile in &found.quantiles {
        findings.require("T8", all * (1.0 - quantile.quantile) >= 10.0 - 1e-6, || {
            format!("{place}: p{} of {all} times has fewer than ten above it", quantile.quantile * 100.0)
        });
        findings.require(
            "T16",
            quantile.value.is_some() == ((quantile.quantile * all).ceil() <= found.count as f64),
            || format!("{place}: p{} does not hold those beyond all measured", quantile.quantile * 100.0),
        );
    }
    let measured: Vec<f64> =
        found.quantiles.iter().filter_map(|quantile| quantile.value).map(|value| value as f64).collect();
    let ends = [found.min as f64].into_iter().chain(measured).chain([found.max as f64]);
    let order: Vec<f64> = ends.collect();
    findings.require("T9", order.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + DIGITS)), || {
        format!("{place}: min, quantiles and max are not in order: {order:?} ns")
    });
    let (least, most) = mean_bounds(found);
    findings.require("T9", (least * (1.0 - DIGITS)..=most * (1.0 + DIGITS)).contains(&found.mean), || {
        format!("{place}: a mean of {:.0} ns, where its quantiles allow {least:.0} to {most:.0}", found.mean)
    });
    // Bhatia and Davis 2000: the variance is at most (max - mean)(mean - min).
    let variance = (found.max as f64 - found.mean) * (found.mean - found.min as f64);
    let deviation = variance.max(0.0).sqrt() + found.max as f64 * DIGITS;
    findings.require("T9", (0.0..=deviation).contains(&found.standard_deviation), || {
        format!(
            "{place}: a standard deviation of {:.0} ns, where at most {deviation:.0} is possible",
            found.standard_deviation
        )
    });
    findings.require("T9", (found.max as f64) <= window_seconds * 1e9 * (1.0 + DIGITS), || {
        format!("{place}: a time of {} ns in a window of {window_seconds:.3} s", found.max)
    });
}

/// The least and the largest mean of numbers with these quantiles, min and max: between two quantiles all are the lower, or the upper.
fn mean_bounds(found: &Statistics) -> (f64, f64) {
    let all = (found.count + found.beyond) as f64;
    let known =
        found.quantiles.iter().filter_map(|quantile| Some(((quantile.quantile * all).ceil(), quantile.value? as f64)));
    let (mut before, mut least, mut most) = ((0.0, found.min as f64), 0.0, 0.0);
    for (rank, value) in known.chain([(found.count as f64, found.max as f64)]) {
        let between = rank - before.0;
        least += between * before.1;
        most += between * value;
        before = (rank, value);
    }
    (least / found.count as f64, most / found.count as f64)
}

/// T9, Little's law: in a closed loop each user is at every moment in a request or between two: N T = sum of both.
fn little(run: &Run, findings: &mut Findings) {
    let Some(think) = run.processes.think_seconds else {
        return findings
            .require("T9", run.r#loop == Loop::Open, || "a closed loop without its users' own time".to_owned());
    };
    // Each of them has its own users, and is looked at by itself.
    if !run.stages.is_empty() {
        return;
    }
    let total = |found: &Statistics| found.count as f64 * found.mean / 1e9;
    let served = |cell: &Cell| {
        cell.service.iter().chain(&cell.refused_service).chain(cell.failed_service.values()).map(total).sum::<f64>()
    };
    let busy: f64 = run.cells.iter().map(served).sum::<f64>() + think;
    // Where a number of requests ends a run, users wait for the last of them, at most as long as one request takes.
    let arrivals = run.window.arrivals_seconds.unwrap_or(run.window.seconds);
    let users = run.scenario.load.slots() as f64;
    let censored: u64 = run.total.censored;
    let longest = run
        .cells
        .iter()
        .flat_map(|cell| cell.service.iter().chain(&cell.refused_service).chain(cell.failed_service.values()))
        .map(|found| found.max)
        .max();
    let by_number = run.scenario.load.requests.is_some();
    let waiting = if by_number { longest.unwrap_or(0) as f64 / 1e9 } else { 0.0 } + 0.005;
    let holds = (users * (arrivals * 0.95 - waiting)..=users * run.window.seconds * 1.05).contains(&busy);
    findings.require("T9", censored > 0 || run.total.dropped > 0 || holds, || {
        format!(
            "Little's law: {users} users in {:.3} s have {:.3} s, but their requests and pauses add up to {busy:.3} s",
            run.window.seconds,
            users * run.window.seconds
        )
    });
}
