//! Rules about messages: what answers call delivered is what subscribers received (T26).

use crate::result::{Multicasts, Run};

use super::Findings;
use super::latency::laws;

/// The time after the drain in which a message may still come, while it is made sure of that none does; seconds.
const QUIET_SECONDS: f64 = 0.5;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    let is_planned = run.scenario.listeners().next().is_some();
    let Some(found) = &run.multicasts else {
        return findings.require("T14", !is_planned, || "nobody has listened to what was sent".to_owned());
    };
    findings.require("T14", is_planned, || "subscribers that the scenario does not declare have listened".to_owned());
    let Multicasts { answered, targets, received, lost, doubled, stray, ended, .. } = *found;
    findings.require("T14", received > 0 || run.aborted, || format!("of {answered} messages none was received"));
    findings.require("T26", [lost, doubled, stray] == [0; 3], || {
        format!(
            "{answered} messages to {targets} targets, {received} received: {lost} lost, {doubled} doubled, {stray} stray"
        )
    });
    findings.require("T26", ended == 0, || format!("{ended} subscribers were ended"));
    let sending = run.scenario.operations.iter().zip(&run.cells).filter(|(operation, _)| operation.sends());
    let (ok, sent) = sending.fold((0, 0), |sum, (_, cell)| (sum.0 + cell.counts.ok, sum.1 + cell.counts.sent));
    findings.require("T13", (ok..=sent).contains(&answered), || {
        format!("{sent} messages were sent and {ok} answered right, where {answered} are known")
    });
    let all_read = run.scenario.listeners().all(|kind| kind.stalled == 0.0);
    sums(found, all_read, findings);
    // Windows that take turns with those of another server last longer from the first to the last than all of them together.
    let are_in_turns = run.processes.server_throughout.is_some();
    let longest = run.window.seconds + run.scenario.load.drain_seconds + QUIET_SECONDS;
    let longest = if are_in_turns { f64::MAX } else { longest };
    for (what, lag) in [("lag", &found.lag), ("last lag", &found.last_lag)] {
        lag.iter().for_each(|lag| laws(what, lag, longest, findings));
    }
}

/// T26: targets are those of all states, what was received is what answers allow, and each delivery is a sample; so is the last one of each
/// message, where it came to one that reads all the time.
fn sums(found: &Multicasts, all_read: bool, findings: &mut Findings) {
    let Multicasts { answered, targets, received, lost, stray, delivered, absent, pending, failed, .. } = *found;
    findings.require("T26", delivered + absent + pending + failed == targets, || {
        format!("{targets} targets, but {delivered} delivered, {absent} absent, {pending} pending and {failed} failed")
    });
    let due = delivered + pending;
    // Some of what failed may have come late.
    let late = failed + if found.lagged > 0 { absent } else { 0 };
    findings.require("T26", received + lost >= due && received <= due + late + stray, || {
        format!("{received} received, where {due} are delivered or pending, {late} came late, {lost} are lost")
    });
    let own = &found.by_fan_out;
    let by_fan_out = [own.iter().map(|own| own.answered).sum::<u64>(), own.iter().map(|own| own.received).sum()];
    findings.require("T26", by_fan_out == [answered, received], || {
        format!("by fan-out {by_fan_out:?} messages and deliveries, in all {answered} and {received}")
    });
    let samples = found.lag.as_ref().map_or(0, |lag| lag.count);
    findings.require("T26", samples == received, || format!("lag: {samples} samples of {received} deliveries"));
    let samples = found.last_lag.as_ref().map_or(0, |lag| lag.count);
    findings.require(
        "T26",
        samples <= answered && (samples == 0 || received > 0) && (samples > 0 || received == 0 || !all_read),
        || format!("last lag: {samples} samples of {answered} messages"),
    );
}
