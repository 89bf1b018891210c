//! Rules about what was promised: the scenario is one that can be run, its data was there, its effects were seen, and clocks agree.

use std::collections::BTreeSet;

use crate::counters::Counters;
use crate::result::{Counts, Run};
use crate::scenario::Effect;

use super::Findings;

pub(super) fn check(run: &Run, findings: &mut Findings) {
    for operation in &run.scenario.operations {
        findings.require("T4", operation.expect.is_about_the_body(), || {
            format!("{}: nothing is expected of its body", operation.name)
        });
    }
    let fault = run.scenario.fault();
    findings.require("T18", fault.is_none(), || {
        let (key, reason) = fault.unwrap_or_default();
        format!("the scenario could not have run: {key}: {reason}")
    });
    let agreed = run.tls.as_ref().is_none_or(|negotiated| negotiated.carries(run.scenario.http));
    findings.require("T18", run.tls.is_some() == run.scenario.tls && agreed, || {
        let negotiated = run.tls.as_ref().map_or("nothing".to_owned(), ToString::to_string);
        format!("the scenario's TLS and HTTP are not those of the connections, which negotiated {negotiated}")
    });
    setup(run, findings);
    quota(run, findings);
    effects(run, findings);
    clocks(run, findings);
}

/// T14: the data was there, and nothing failed before the window.
fn setup(run: &Run, findings: &mut Findings) {
    let (data, setup) = (&run.scenario.data, &run.setup);
    let rows = data.rows + data.spare;
    findings.require("T14", setup.rows_written.is_none_or(|written| written == rows), || {
        format!("{:?} rows were written, where the scenario has {rows}", setup.rows_written)
    });
    findings.require("T14", setup.rows_written.is_none() || setup.rows_found == setup.rows_written, || {
        format!("{:?} rows were written, and {:?} found", setup.rows_written, setup.rows_found)
    });
    findings.require("T14", setup.warm_up.ok == setup.warm_up.scheduled, || {
        format!("in the warm-up {} of {} requests had the right answer", setup.warm_up.ok, setup.warm_up.scheduled)
    });
    let spare: u64 = run.cells.iter().map(|cell| cell.counts.dropped).sum();
    findings.require("T14", run.scenario.load.is_open() || spare == 0, || {
        format!("{spare} requests of a closed loop had no row to be about: data.spare")
    });
    findings.require("T18", run.processes.server.is_none() || run.server_configuration.is_some(), || {
        "the server was started here, and its configuration is not recorded".to_owned()
    });
}

/// T24: what limits the server is known, and held.
fn quota(run: &Run, findings: &mut Findings) {
    let Some(cpus) = run.scenario.load.server_cpus else { return };
    findings.require("T24", run.quota.is_some(), || format!("nothing held the server to {cpus} processors"));
    let Some(server) = run.processes.server else {
        return findings.require("T24", false, || "the server's CPU is not known".to_owned());
    };
    // What was saved up in a period may be used in the next, and clocks count hundredths of a second.
    let most = cpus * (run.window.seconds + 0.2) * 1.05 + 0.02;
    findings.require("T24", server.seconds() <= most, || {
        format!("the server used {:.2} s of CPU, where {cpus} processors allow {most:.2} s", server.seconds())
    });
}

/// T13, T14: the server's counters moved as the right answers say. What was sent and is not known to be right may have moved them too.
fn effects(run: &Run, findings: &mut Findings) {
    let effects = &run.scenario.effects;
    findings.require("T14", !effects.is_empty(), || "no effect is declared".to_owned());
    for counter in effects.iter().map(|effect| &effect.counter).collect::<BTreeSet<_>>() {
        let value = |counters: &Option<Counters>| Some(counters.as_ref()?.get(counter).copied().unwrap_or(0));
        let known = run.counters.after.as_ref().is_some_and(|after| after.contains_key(counter));
        let Some((before, after)) = value(&run.counters.before).zip(value(&run.counters.after)).filter(|_| known)
        else {
            findings.require("T13", false, || format!("the server's counter {counter} is not there"));
            continue;
        };
        findings.require("T13", after >= before, || format!("{counter} went back from {before} to {after}"));
        let steps = after.saturating_sub(before) as f64;
        let declared = || effects.iter().filter(|effect| effect.counter == *counter);
        let of = |count: fn(&Counts) -> u64| -> f64 {
            let cells = |effect: &Effect| -> u64 {
                let cells = run.cells.iter().filter(|cell| effect.operations.contains(&cell.operation));
                cells.map(|cell| count(&cell.counts)).sum()
            };
            declared().map(|effect| cells(effect) as f64 * effect.each).sum()
        };
        let (least, most) = (of(|counts| counts.ok), of(|counts| counts.sent));
        findings.require("T14", steps > 0.0, || format!("{counter} did not move: the effect was not seen"));
        let more = declared().any(|effect| effect.at_least);
        findings.require("T13", steps >= least && (more || steps <= most), || {
            format!("{counter} moved by {steps}, where {least} to {most} would be right")
        });
    }
}

/// T11: CPU is a difference over the window; T16: the window holds all arrivals.
fn clocks(run: &Run, findings: &mut Findings) {
    let window = run.window.seconds;
    let processes = &run.processes;
    let seconds = |cpu: &crate::clocks::Cpu| cpu.seconds();
    let used = seconds(&processes.client) + processes.server.as_ref().map_or(0.0, seconds);
    // Ticks of a hundredth, and what both do just outside of the window.
    let most = window * run.processors as f64 * 1.02 + 0.1;
    findings.require("T11", (0.0..=most).contains(&used), || {
        format!("{used:.2} s of CPU in a window of {window:.3} s on {} processors", run.processors)
    });
    let arrivals = run.window.arrivals_seconds.unwrap_or(0.0);
    let load = &run.scenario.load;
    let last = match &load.schedule {
        Some(_) if load.poisson => 0.0,
        Some(schedule) => schedule.times(None).last().map_or(0.0, |time| time.as_secs_f64()),
        None => arrivals,
    };
    findings.require("T16", run.aborted || window >= last, || {
        format!("a window of {window:.3} s, where requests were to start for {arrivals} s")
    });
    let drain = run.scenario.load.drain_seconds;
    findings.require("T16", run.total.censored == 0 || run.aborted || window >= last + drain * 0.9, || {
        format!("{} requests were given up before the drain of {drain} s was over", run.total.censored)
    });
}
