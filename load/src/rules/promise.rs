//! Rules about what was promised: the scenario is one that can be run, its data was there, its effects were seen, and clocks agree.

use std::collections::BTreeSet;

use crate::counters::Counters;
use crate::result::{Counts, Run};
use crate::scenario::{Effect, Of, Row};

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
    answers(run, findings);
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
    rows_left(run, findings);
    for (number, feed) in run.scenario.feeds.iter().enumerate() {
        let followed = run.feeds.get(number).filter(|followed| followed.path == feed.path);
        let holds = followed.is_some_and(|followed| followed.events > 0 && followed.ended == 0);
        findings.require("T14", holds || run.aborted, || match followed {
            None => format!("{}: nobody has followed it", feed.path),
            Some(followed) => {
                format!(
                    "{}: {} changes were told, and it has ended {} times",
                    feed.path, followed.events, followed.ended
                )
            }
        });
    }
    findings.require("T18", run.processes.server.is_none() || run.server_configuration.is_some(), || {
        "the server was started here, and its configuration is not recorded".to_owned()
    });
}

/// T14: no request lacked a row to take away. In a closed loop nothing else is dropped; in an open one rows must be there for all.
fn rows_left(run: &Run, findings: &mut Findings) {
    let of = |row: Row, count: fn(&Counts) -> u64| -> u64 {
        let about = run.scenario.operations.iter().zip(&run.cells).filter(|(operation, _)| operation.row == row);
        about.map(|(_, cell)| count(&cell.counts)).sum()
    };
    let dropped = run.total.dropped;
    let wanted = of(Row::Spare, |counts| counts.scheduled);
    let there = run.scenario.data.spare + of(Row::New, |counts| counts.ok);
    let lacking = of(Row::Spare, |counts| counts.dropped) > 0 && wanted + run.setup.warm_up.scheduled > there;
    let holds = if run.scenario.load.is_open() { !lacking } else { dropped == 0 };
    findings.require("T14", holds, || {
        format!("{wanted} requests take a row away, and there are no more than {there}: data.spare")
    });
}

/// T13: the server answered what it was sent, and nothing else; where requests follow from answers, nobody counts them.
fn answers(run: &Run, findings: &mut Findings) {
    let Some(grown) = run.counters.grown() else { return };
    let of_load = |name: &str| name.strip_prefix("requests ").is_some_and(|route| !route.starts_with("/_"));
    let routes: Vec<u64> = grown.iter().filter(|(name, _)| of_load(name)).map(|(_, count)| *count).collect();
    if routes.is_empty() || run.scenario.operations.iter().any(|operation| !operation.follow.is_empty()) {
        return;
    }
    let counted: u64 = routes.iter().sum();
    let whole = |(class, count): (&String, &u64)| (class == "body" || class.starts_with("status_")).then_some(*count);
    let answered = run.total.ok + run.total.refused + run.total.failed.iter().filter_map(whole).sum::<u64>();
    let others = run.subscribers.as_ref().map_or((0, 0), |own| (own.requests_at_least, own.requests_at_most));
    // Those to whom messages are sent have streams that last beyond the second reading of the counters, or were ended by the server.
    let ended = run.multicasts.as_ref().map_or(0, |found| found.lagged + found.ended);
    let (least, most) = (answered + others.0, run.total.sent + others.1 + ended);
    // Programs beside the load ask, too, and nobody counts how often.
    let most = if run.scenario.beside.is_empty() { most } else { u64::MAX };
    findings.require("T13", (least..=most).contains(&counted), || {
        format!("the server counted {counted} requests, where {least} of {most} were answered")
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
    findings
        .require("T14", !effects.is_empty() || run.scenario.restarts.is_some(), || "no effect is declared".to_owned());
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
        let of = |least: bool| -> f64 {
            let cells = |effect: &Effect| -> u64 {
                let cells = run.cells.iter().filter(|cell| effect.operations.contains(&cell.operation));
                cells.map(|cell| counted(effect, &cell.counts, least)).sum()
            };
            declared().map(|effect| cells(effect) as f64 * effect.each.number()).sum()
        };
        let (least, most) = (of(true), of(false));
        findings.require("T14", steps > 0.0, || format!("{counter} did not move: the effect was not seen"));
        let more = declared().any(|effect| effect.at_least);
        findings.require("T13", steps >= least && (more || steps <= most), || {
            format!("{counter} moved by {steps}, where {least} to {most} would be right")
        });
    }
}

/// Returns the number of requests that make a counter step: at least those that are known to, at most those that may have.
fn counted(effect: &Effect, counts: &Counts, least: bool) -> u64 {
    let (known, others) = match effect.of {
        Of::Ok => (counts.ok, counts.refused),
        Of::Refused => (counts.refused, counts.ok),
    };
    if least { known } else { counts.sent - others.min(counts.sent) }
}

/// T11: CPU is a difference over the window; T16: the window holds all arrivals.
pub(super) fn clocks(run: &Run, findings: &mut Findings) {
    let window = run.window.seconds;
    let processes = &run.processes;
    let seconds = |cpu: &crate::clocks::Cpu| cpu.seconds();
    let used = seconds(&processes.client) + processes.server.as_ref().map_or(0.0, seconds);
    // Ticks of a hundredth, and, in results of before, what both do between the window and the readings of their clocks.
    let read_over = processes.read_over_seconds.unwrap_or(window);
    let most = |processors: usize| read_over * processors as f64 * 1.02 + 0.1;
    let all = most(run.processors);
    findings.require("T11", read_over >= window * (1.0 - 1e-6), || {
        format!("clocks were read over {read_over:.3} s, in a window of {window:.3} s")
    });
    findings.require("T11", (0.0..=all).contains(&used), || {
        format!("{used:.2} s of CPU in {read_over:.3} s on {} processors", run.processors)
    });
    if let Some(pinned) = &run.pinned {
        for (side, cpu, own) in
            [("client", Some(&processes.client), &pinned.client), ("server", processes.server.as_ref(), &pinned.server)]
        {
            let (used, most) = (cpu.map_or(0.0, seconds), most(own.len()));
            findings.require("T11", used <= most, || {
                format!("the {side} used {used:.2} s of CPU in {read_over:.3} s on {} processors of its own", own.len())
            });
        }
    }
    let arrivals = run.window.arrivals_seconds.unwrap_or(0.0);
    let load = &run.scenario.load;
    // In format 1 the window of an open loop ended with the last response, though its schedule went on.
    let last = match &load.schedule {
        Some(_) if run.format == 1 && load.poisson => 0.0,
        Some(schedule) if run.format == 1 => schedule.last().map_or(0.0, |time| time.as_secs_f64()),
        _ => arrivals,
    };
    findings.require("T16", run.aborted || window >= last * (1.0 - 1e-6), || {
        format!("a window of {window:.3} s, where requests were to start for {arrivals} s")
    });
    let drain = run.scenario.load.drain_seconds;
    let given_up = run.total.censored.saturating_sub(run.kills.iter().flatten().sum());
    findings.require("T16", given_up == 0 || run.aborted || window >= last + drain * 0.9, || {
        format!("{given_up} requests were given up before the drain of {drain} s was over")
    });
}
