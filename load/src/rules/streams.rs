//! Rules about streams: what was acknowledged was read back, and is as promised (S1 to S5, T13).

use crate::result::{Deliveries, Run};
use crate::streams::promises::Promises;

use super::Findings;
use super::latency::laws;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    promises(run, findings);
    subscribers(run, findings);
    restarts(run, findings);
}

/// S1 to S5, and T13: each promise was kept wherever it was looked at; T14: every right answer was looked at.
fn promises(run: &Run, findings: &mut Findings) {
    let acknowledging =
        run.scenario.operations.iter().zip(&run.cells).filter(|(operation, _)| operation.acknowledges.is_some());
    let acknowledged: Vec<u64> = acknowledging.map(|(_, cell)| cell.counts.ok).collect();
    let Some(promises) = &run.promises else {
        return findings
            .require("T14", acknowledged.is_empty(), || "what was acknowledged was not read back".to_owned());
    };
    for (rule, what, kept) in promises.rows() {
        findings.require(rule, kept.wrong == 0, || format!("{what}: {} of {} are wrong", kept.wrong, kept.checked));
    }
    let (answers, checked) = (acknowledged.iter().sum::<u64>(), promises.in_place.checked);
    findings.require("T14", checked >= answers, || {
        format!("{answers} answers acknowledged events, of which {checked} were looked for")
    });
}

/// T26: what was acknowledged came to every subscriber, once and in order, and each delivery is a sample.
fn subscribers(run: &Run, findings: &mut Findings) {
    let (planned, drain) = (run.scenario.followers().count(), run.scenario.load.drain_seconds);
    let kinds = run.subscribers.as_ref().map_or(&[][..], |subscribed| &subscribed.kinds);
    findings.require("T14", kinds.len() == planned, || {
        format!("{} kinds of subscribers have followed, where there are {planned}", kinds.len())
    });
    for (number, kind) in kinds.iter().enumerate() {
        let place = format!("subscribers[{number}]");
        let Deliveries { due, missing, repeated, ended, .. } = *kind;
        findings.require("T14", due > 0, || format!("{place}: no event had to come"));
        findings.require("T26", missing + repeated + ended == 0, || {
            format!("{place}: of {due} events {missing} are missing, {repeated} came again or late; {ended} subscribers were ended")
        });
        for (what, lag) in [("lag", &kind.lag), ("lag from the start", &kind.lag_from_start)] {
            let samples = lag.as_ref().map_or(0, |lag| lag.count);
            findings.require("T26", samples == due || missing > 0, || {
                format!("{place}: {what}: {samples} samples of {due} deliveries")
            });
            lag.iter().for_each(|lag| laws(&format!("{place} {what}"), lag, run.window.seconds + drain, findings));
        }
    }
}

/// T14: where the server was ended on purpose, each end met requests in flight, and each promise was looked at.
fn restarts(run: &Run, findings: &mut Findings) {
    let Some(restarts) = &run.scenario.restarts else {
        return findings
            .require("T14", run.kills.is_none(), || "the server was ended, and the scenario does not".to_owned());
    };
    let kills = run.kills.as_deref().unwrap_or_default();
    findings.require("T14", kills.len() == restarts.kills as usize || run.aborted, || {
        format!("the server was ended {} times, where the scenario has {}", kills.len(), restarts.kills)
    });
    let nothing = kills.iter().position(|met| *met == 0);
    findings.require("T14", nothing.is_none(), || {
        format!("end {} of the server met no request in flight", nothing.unwrap_or(0) + 1)
    });
    for (rule, what, kept) in run.promises.iter().flat_map(Promises::rows) {
        findings.require("T14", kept.checked > 0 || run.aborted, || format!("{rule}: {what}: nothing was looked at"));
    }
}
