//! Rules about messages: what answers call delivered is what subscribers received (T26).

use crate::result::{Multicasts, Run};

use super::Findings;
use super::latency::laws;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let is_planned = run.scenario.listeners().next().is_some();
    let Some(found) = &run.multicasts else {
        return findings.require("T14", !is_planned, || "nobody has listened to what was sent".to_owned());
    };
    findings.require("T14", is_planned, || "subscribers have listened that the scenario has not".to_owned());
    let Multicasts { answered, targets, received, lost, doubled, stray, ended, .. } = *found;
    findings.require("T14", received > 0 || run.aborted, || format!("of {answered} messages none was received"));
    findings.require("T26", lost + doubled + stray == 0, || {
        format!(
            "{answered} messages to {targets} targets, {received} received: {lost} lost, {doubled} doubled, {stray} stray"
        )
    });
    findings.require("T26", ended == 0, || format!("{ended} subscribers were ended"));
    let of = [found.delivered, found.absent, found.pending, found.failed];
    findings.require("T26", of.iter().sum::<u64>() == targets, || {
        format!("{targets} targets are {of:?} delivered, absent, pending and failed")
    });
    let sent: u64 = run.scenario.operations.iter().zip(&run.cells).filter(|(operation, _)| operation.sends()).map(|(_, cell)| cell.counts.ok).sum();
    findings.require("T13", answered >= sent, || format!("{sent} messages were answered, of which {answered} are known"));
    let longest = run.window.seconds + run.scenario.load.drain_seconds;
    for (what, lag, number) in [("lag", &found.lag, Some(received)), ("last lag", &found.last_lag, None)] {
        let samples = lag.as_ref().map_or(0, |lag| lag.count);
        findings.require("T26", number.is_none_or(|number| samples == number), || {
            format!("{what}: {samples} samples of {received} deliveries")
        });
        lag.iter().for_each(|lag| laws(what, lag, longest, findings));
    }
}
