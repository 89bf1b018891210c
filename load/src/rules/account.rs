//! Rules about counts: every request is accounted for, what ran is what was planned, and sums are sums.

use crate::result::{Cell, Counts, Run, State};

use super::Findings;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    plan(run, findings);
    refusals(run, findings);
    for cell in &run.cells {
        conservation(&format!("{}: ", cell.operation), &cell.counts, findings);
        by_second(run, cell, findings);
        bytes(run, cell, findings);
    }
    sums(run, findings);
    let (missed, dropped) = (run.processes.missed_arrivals, run.total.dropped);
    findings.require("T3", missed <= dropped, || format!("{missed} arrivals missed, but {dropped} dropped"));
    shape(run, findings);
}

/// T2: every planned cell has one state, and its reason.
fn plan(run: &Run, findings: &mut Findings) {
    let declared: Vec<_> = run.scenario.operations.iter().map(|operation| &operation.name).collect();
    findings.require("T2", run.plan.iter().eq(declared), || "the plan is not the scenario's operations".to_owned());
    let cells = run.cells.iter().map(|cell| &cell.operation);
    findings.require("T2", run.plan.iter().eq(cells), || "the cells are not those of the plan".to_owned());
    for cell in &run.cells {
        let (ran, sent) = (cell.state == State::Ran, cell.counts.sent);
        findings
            .require("T2", ran == (sent > 0), || format!("{}: {:?} with {sent} requests", cell.operation, cell.state));
        findings.require("T2", ran || cell.reason.is_some(), || {
            format!("{}: no reason why it did not run", cell.operation)
        });
    }
}

/// T3: `scheduled = sent + dropped`, `sent = ok + refused + failed + censored`.
fn conservation(place: &str, counts: &Counts, findings: &mut Findings) {
    let Counts { scheduled, dropped, sent, ok, refused, censored, .. } = counts;
    let failed = counts.failures();
    findings.require("T3", *scheduled == sent + dropped, || {
        format!("{place}{scheduled} scheduled, but {sent} sent and {dropped} dropped")
    });
    findings.require("T3", *sent == ok + refused + failed + censored, || {
        format!("{place}{sent} sent, but {ok} ok, {refused} refused, {failed} failed and {censored} censored")
    });
}

/// T3: only what can be refused was.
fn refusals(run: &Run, findings: &mut Findings) {
    for (operation, cell) in run.scenario.operations.iter().zip(&run.cells) {
        findings.require("T3", operation.refusal.is_some() || cell.counts.refused == 0, || {
            format!("{}: {} refused requests, where none is a refusal", operation.name, cell.counts.refused)
        });
    }
}

/// T11: a row's seconds are those of the window, and add up to it.
fn by_second(run: &Run, cell: &Cell, findings: &mut Findings) {
    let Cell { operation, counts, ok_by_second, failed_by_second, dropped_by_second, .. } = cell;
    // Results of before there were seconds of these have none.
    let known = |seconds: &[u64], count: u64| if seconds.is_empty() { 0 } else { count };
    for (what, seconds, count) in [
        ("right answers", ok_by_second, counts.ok),
        ("failures", failed_by_second, known(failed_by_second, counts.failures())),
        ("dropped requests", dropped_by_second, known(dropped_by_second, counts.dropped)),
    ] {
        let sum: u64 = seconds.iter().sum();
        findings.require("T11", sum == count, || format!("{operation}: {sum} {what} by second, {count} in all"));
        let length = seconds.len() as f64;
        findings.require("T11", length <= run.window.seconds.floor() + 1.0, || {
            format!("{operation}: {length} seconds of {what} in a window of {:.3}", run.window.seconds)
        });
    }
}

/// T5: bytes are counted; where their number is declared, the right answers have at least so many.
fn bytes(run: &Run, cell: &Cell, findings: &mut Findings) {
    let Some(operation) = run.scenario.operations.iter().find(|operation| operation.name == cell.operation) else {
        return;
    };
    let expect = &operation.expect;
    let each = expect.bytes.unwrap_or(usize::from(expect.is_about_the_body()));
    let least = each as u64 * cell.counts.ok;
    let received = cell.body_bytes_received;
    findings.require("T5", received >= least, || {
        format!("{}: {received} bytes received, where right answers alone have {least}", cell.operation)
    });
    let only_ok = cell.counts.failures() + cell.counts.refused == 0;
    findings.require("T5", expect.bytes.is_none() || !only_ok || received == least, || {
        format!("{}: {received} bytes received, where right answers have {least}", cell.operation)
    });
}

/// T3: the summary is the sum of its details, and throughput is right answers a second.
fn sums(run: &Run, findings: &mut Findings) {
    let sum = run.cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
    findings.require("T3", sum == run.total, || format!("the total has {} ok, its parts {}", run.total.ok, sum.ok));
    let throughput = run.total.ok as f64 / run.window.seconds;
    findings.require("T3", (run.throughput - throughput).abs() <= throughput * 1e-6, || {
        format!(
            "throughput {:.1}/s, but {} right answers in {:.3} s are {throughput:.1}/s",
            run.throughput, run.total.ok, run.window.seconds
        )
    });
}

/// T12: mix and schedule are those declared; five standard deviations where they are random.
fn shape(run: &Run, findings: &mut Findings) {
    let load = &run.scenario.load;
    let scheduled = run.total.scheduled as f64;
    let weights: f64 = run.scenario.operations.iter().map(|operation| operation.weight).sum();
    for (operation, cell) in run.scenario.operations.iter().zip(&run.cells) {
        let share = operation.weight / weights;
        let deviation = 5.0 * (scheduled * share * (1.0 - share)).sqrt() + 1.0;
        let found = cell.counts.scheduled as f64;
        findings.require("T12", (found - scheduled * share).abs() <= deviation, || {
            format!("{}: {found} of {scheduled} requests, where its weight is a share of {share:.3}", operation.name)
        });
    }
    let (planned, deviation) = match (&load.schedule, load.requests) {
        (Some(schedule), _) if load.poisson => (schedule.arrivals(), 5.0 * schedule.arrivals().sqrt()),
        (Some(schedule), _) => (schedule.planned() as f64, 0.0),
        (None, Some(requests)) if load.seconds.is_none() => (requests as f64, 0.0),
        (None, _) => return,
    };
    // A request that is sent again is one more.
    let again = if run.scenario.operations.iter().any(|operation| operation.retry) {
        (run.total.failures() + run.total.censored) as f64
    } else {
        0.0
    };
    let holds = (planned - deviation..=planned + deviation + again).contains(&scheduled);
    findings.require("T12", run.aborted || holds, || {
        format!("{scheduled} requests were scheduled, where the schedule has {planned}")
    });
}
