//! Runs as text for people: what is absent is "not run", what is beyond all measured is "> max", and units stand beside the figures.
//!
//! Operations are columns and figures are rows, because there are more figures than operations, and a terminal is longer than it is
//! wide. What does not fit beside each other stands below.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::quota::PERIOD_US;
use crate::result::{BrokerRun, Cell, Counts, Deliveries, Judged, Loop, Point, Run, State, Statistics, Validity};
use crate::rules::{client_bound, quota_not_binding};
use crate::scenario::{Bound, Http};

/// Columns of a terminal that nobody has made wider.
const WIDTH: usize = 80;

/// Calls into the storage, as the server's counters name them.
const STORAGE_CALLS: [&str; 5] = ["gets", "multi_gets", "looked_up", "scans", "writes"];

/// Events of streams, as the server's counters name them.
const EVENTS: [(&str, &str); 3] =
    [("appended", "streams.events"), ("read", "streams.events_read"), ("delivered", "streams.delivered")];

/// The text of a run.
pub fn text(run: &Run) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_run(run, &mut text);
    text
}

/// One table of runs that belong together, with the date of the first and the time that all took.
pub fn summary(points: &[Point], took: Duration) -> String {
    let ran = |point: &Point| match point {
        Point::Ran(run) => Some(run.as_ref().clone()),
        Point::Skipped { .. } | Point::Failed { .. } => None,
    };
    let runs: Vec<_> = points.iter().filter_map(ran).collect();
    let mut text = String::new();
    if let Some(first) = runs.first() {
        let _ = writeln!(
            text,
            "summary: {}, {} run{}, {:.0} s in all\n",
            date(first),
            runs.len(),
            plural(runs.len()),
            took.as_secs_f64()
        );
        let _ = write_summary(&runs, &mut text);
    }
    for point in points {
        let _ = match point {
            Point::Ran(_) => Ok(()),
            Point::Skipped { name, reason } => writeln!(text, "skipped: {name}: {reason}"),
            Point::Failed { name, reason } => writeln!(text, "failed: {name}: {reason}"),
        };
    }
    let not_run: BTreeMap<_, _> = runs.iter().flat_map(|run| &run.scenario.not_run).collect();
    for (what, why) in not_run {
        let _ = writeln!(text, "not run: {what}: {why}");
    }
    text
}

fn date(run: &Run) -> String {
    let moment =
        i64::try_from(run.began_unix_seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or("-".to_owned(), |moment| moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn loop_name(run: &Run) -> &'static str {
    match run.r#loop {
        Loop::Open => "open",
        Loop::Closed => "closed",
    }
}

fn write_run(run: &Run, out: &mut String) -> std::fmt::Result {
    let load = &run.scenario.load;
    writeln!(out, "{}, {}", run.id, date(run))?;
    writeln!(
        out,
        "{} loop, {} connections, {} requests in {:.2} s\n",
        loop_name(run),
        load.connections,
        run.total.scheduled,
        run.window.seconds
    )?;
    let tls = run.tls.as_ref().map_or("no TLS".to_owned(), ToString::to_string);
    writeln!(out, "HTTP/{}, {tls}\n", if run.scenario.http == Http::One { "1.1" } else { "2" })?;
    for (at, stage) in run.scenario.load.stages.iter().enumerate() {
        let Some(own) = run.of_stage(at + 1) else { continue };
        writeln!(out, "stage {}: {} users, {:.2} s\n", at + 1, stage.users, own.window.seconds)?;
        write_cells(&own, out)?;
        write_processes(&own, out)?;
        writeln!(out)?;
    }
    if !run.stages.is_empty() {
        writeln!(out, "all stages\n")?;
    }
    write_cells(run, out)?;
    write_processes(run, out)?;
    write_server(run, out)?;
    write_events(run, out)?;
    if let Some(kills) = &run.kills {
        let met = kills.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        writeln!(out, "server ended {} times; requests in flight: {met}\n", kills.len())?;
    }
    write_brokers(run, out)?;
    write_subscribers(run, out)?;
    write_multicasts(run, out)?;
    write_promises(run, out)?;
    write_programs(run, out)?;
    for judged in &run.objectives {
        writeln!(out, "{}", objective(judged))?;
    }
    write_quota(run, out)?;
    run.broken.iter().try_for_each(|broken| writeln!(out, "broken {broken}"))?;
    match run.validity {
        Validity::ClientBound => {
            let client = client_bound(run);
            let (why, from) = client.map_or((String::new(), 0.0), |client| (client.why, client.from));
            match from > 0.0 {
                true => writeln!(out, "client_bound: {why}; it is in the times from p{} on", from * 100.0),
                false => writeln!(out, "client_bound: {why}; throughput >= {:.0}/s", run.throughput),
            }
        }
        Validity::QuotaNotBinding => {
            writeln!(out, "quota_not_binding: {}", quota_not_binding(run).unwrap_or_default())
        }
        validity => writeln!(out, "{}", validity_name(validity)),
    }
}

/// Writes how the server was limited, and where a time is one of the kernel's and not of the server's: about a multiple of its period.
fn write_quota(run: &Run, out: &mut String) -> std::fmt::Result {
    let (Some(cpus), Some(quota)) = (run.scenario.load.server_cpus, &run.quota) else { return Ok(()) };
    let used = run.processes.server.map_or(0.0, |cpu| cpu.seconds()) / run.window.seconds;
    let throttled = quota.throttled_periods.map_or("not counted".to_owned(), |periods| periods.to_string());
    let share = used / cpus * 100.0;
    let mechanism = &quota.mechanism;
    writeln!(out, "quota {cpus} CPU by {mechanism}: {share:.1} % of it used, throttled periods: {throttled}")?;
    for cell in &run.cells {
        let Some(p99) = cell.times().and_then(|times| times.at(0.99)).flatten() else { continue };
        let periods = p99 as f64 / 1e3 / PERIOD_US as f64;
        if periods.round() >= 1.0 && (periods - periods.round()).abs() < 0.1 {
            let (name, ms) = (&cell.operation, PERIOD_US / 1000);
            writeln!(out, "{name}: p99 is {:.0} periods of {ms} ms: waiting for the next share", periods.round())?;
        }
    }
    Ok(())
}

/// The figures of each operation, and what can be said of all.
fn write_cells(run: &Run, out: &mut String) -> std::fmt::Result {
    let times = match run.r#loop {
        Loop::Open => "response ms",
        Loop::Closed => "service ms",
    };
    let mut columns = vec![heads(run, times)];
    columns.extend(run.cells.iter().map(|cell| column(run, cell)));
    columns.push(total(run));
    write_columns(out, &columns)
}

fn classes(run: &Run) -> impl Iterator<Item = &String> {
    run.total.failed.keys()
}

fn is_refusable(run: &Run) -> bool {
    run.scenario.operations.iter().any(|operation| operation.refusal.is_some())
}

fn heads(run: &Run, times: &str) -> Vec<String> {
    let mut heads = vec![String::new()];
    heads.extend(["share declared %", "share realised %", "offered/s", "ok/s", "ok"].map(str::to_owned));
    heads.extend(classes(run).map(|class| format!("failed {class}")));
    heads.extend(is_refusable(run).then(|| "refused".to_owned()));
    heads.extend(["dropped", "censored", "received MB/s"].map(str::to_owned));
    heads.push(format!("{times}: min"));
    heads.extend(["mean", "deviation"].map(str::to_owned));
    heads.extend(crate::scenario::QUANTILES.map(|quantile| format!("p{}", (quantile * 1000.0).round() / 10.0)));
    heads.extend(["max", "send lag p99"].map(str::to_owned));
    heads
}

fn counted(run: &Run, name: &str, share: f64, counts: &Counts, bytes: u64) -> Vec<String> {
    let seconds = run.window.seconds;
    let offered = counts.scheduled as f64 / run.window.arrivals_seconds.unwrap_or(seconds);
    let realised = counts.scheduled as f64 / run.total.scheduled.max(1) as f64;
    let mut column = vec![name.to_owned(), figure(share * 100.0), figure(realised * 100.0), figure(offered)];
    column.extend([figure(counts.ok as f64 / seconds), counts.ok.to_string()]);
    column.extend(classes(run).map(|class| counts.failed.get(class).copied().unwrap_or(0).to_string()));
    column.extend(is_refusable(run).then(|| counts.refused.to_string()));
    column.extend([counts.dropped.to_string(), counts.censored.to_string(), figure(bytes as f64 / seconds / 1e6)]);
    column
}

fn column(run: &Run, cell: &Cell) -> Vec<String> {
    if cell.state != State::Ran {
        return vec![cell.operation.clone(), "not run".to_owned()];
    }
    let weights: f64 = run.scenario.operations.iter().map(|operation| operation.weight).sum();
    let declared = run.scenario.operations.iter().find(|operation| operation.name == cell.operation);
    let share = declared.map_or(0.0, |operation| operation.weight / weights);
    let mut column = counted(run, &cell.operation, share, &cell.counts, cell.body_bytes_received);
    let times = cell.times();
    let of = |value: fn(&Statistics) -> f64| times.map_or_else(absent, |times| milliseconds(value(times)));
    column.extend([of(|times| times.min as f64), of(|times| times.mean), of(|times| times.standard_deviation)]);
    column.extend(crate::scenario::QUANTILES.map(|at| quantile(times, at)));
    column.extend([of(|times| times.max as f64), quantile(cell.send_lag.as_ref(), 0.99)]);
    column
}

fn total(run: &Run) -> Vec<String> {
    let bytes = run.cells.iter().map(|cell| cell.body_bytes_received).sum();
    counted(run, "all", 1.0, &run.total, bytes)
}

/// Returns the text for a value that is absent.
fn absent() -> String {
    "-".to_owned()
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{:.3}", nanoseconds / 1e6)
}

fn quantile(found: Option<&Statistics>, quantile: f64) -> String {
    match found.and_then(|found| found.at(quantile)) {
        Some(Some(value)) => milliseconds(value as f64),
        Some(None) => "> max".to_owned(),
        None => absent(),
    }
}

/// Three digits, and all those before the point.
fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// CPU of both sides, and right answers a second through the window.
fn write_processes(run: &Run, out: &mut String) -> std::fmt::Result {
    let ok = run.total.ok as f64;
    let mut rows = vec![["", "user s", "system s", "CPU %", "us an ok", "ok/s of CPU"].map(str::to_owned).to_vec()];
    for (side, cpu) in [("client", Some(run.processes.client)), ("server", run.processes.server)] {
        let Some(cpu) = cpu else {
            rows.push(vec![side.to_owned(), "not known".to_owned()]);
            continue;
        };
        let of = |whole: bool, value: f64| if whole { figure(value) } else { absent() };
        let (seconds, share) = (cpu.seconds(), cpu.seconds() / run.window.seconds * 100.0);
        let mut row = vec![side.to_owned(), figure(cpu.user_seconds), figure(cpu.system_seconds), figure(share)];
        row.extend([of(ok > 0.0, seconds / ok * 1e6), of(seconds > 0.0, ok / seconds)]);
        rows.push(row);
    }
    write_rows(out, &rows)?;
    if !run.stages.is_empty() {
        // Each stage has told its own, from its own first second on.
        return Ok(());
    }
    let seconds = run.cells.iter().map(|cell| cell.ok_by_second.len()).max().unwrap_or(0);
    let ok = |second: usize| -> u64 { run.cells.iter().filter_map(|cell| cell.ok_by_second.get(second)).sum() };
    // What is left of the window after the last whole piece belongs to it: in a few milliseconds no rate is measured.
    let pieces = (run.window.seconds / 5.0).floor().max(1.0) as usize;
    let five = |piece: usize| {
        let (from, last) = (piece * 5, piece + 1 == pieces);
        let (to, end) = if last { (seconds, run.window.seconds) } else { (from + 5, from as f64 + 5.0) };
        figure((from..to).map(ok).sum::<u64>() as f64 / (end - from as f64))
    };
    let pieces: Vec<_> = (0..pieces).map(five).collect();
    writeln!(out, "ok/s in each 5 s: {}", pieces.join(" "))
}

/// Writes what the server says of itself: its own time, and its calls into the storage.
fn write_server(run: &Run, out: &mut String) -> std::fmt::Result {
    let Some(grown) = run.counters.grown() else { return writeln!(out, "server's counters: not known") };
    let mut timed = false;
    for (route, answers) in grown.iter().filter_map(|(name, count)| Some((name.strip_prefix("answers ")?, *count))) {
        let spent = grown.get(&format!("answer_ns {route}")).copied().unwrap_or(0);
        if !route.starts_with("/_") {
            timed = true;
            let mean = milliseconds(spent as f64 / answers as f64);
            writeln!(out, "server's own time: {route}: {answers} answers, mean {mean} ms")?;
        }
    }
    if !timed {
        writeln!(out, "server's own time: not measured")?;
    }
    let calls =
        |name: &str| grown.get(name).map(|calls| format!("{name} {}", figure(*calls as f64 / run.total.ok as f64)));
    let calls: Vec<_> = STORAGE_CALLS.into_iter().filter_map(calls).collect();
    match run.total.ok {
        0 => Ok(()),
        _ if calls.is_empty() => writeln!(out, "calls into the storage: none"),
        _ => writeln!(out, "calls into the storage for each ok: {}", calls.join(", ")),
    }
}

/// Events a second as the server counted them, apart from requests, and its CPU for each.
fn write_events(run: &Run, out: &mut String) -> std::fmt::Result {
    let grown = run.counters.grown().unwrap_or_default();
    let count = |name: &str| grown.get(name).copied().unwrap_or(0) as f64;
    let events = EVENTS.map(|(what, name)| (what, count(name)));
    let all: f64 = events.iter().map(|(_, events)| events).sum();
    if all == 0.0 {
        return Ok(());
    }
    let seconds = run.window.seconds;
    let rates: Vec<_> = events.iter().map(|(what, events)| format!("{what} {}", figure(events / seconds))).collect();
    let bytes = count("streams.event_bytes") / seconds / 1e6;
    let cpu = run.processes.server.map_or_else(absent, |cpu| figure(cpu.seconds() / all * 1e6));
    writeln!(out, "events/s: {}; appended MB/s: {}; server CPU us an event: {cpu}", rates.join(", "), figure(bytes))
}

/// The slot, how many servers there are, and those beside ours with what they used.
fn write_brokers(run: &Run, out: &mut String) -> std::fmt::Result {
    let servers = run.scenario.load.servers;
    match (run.scenario.slot, servers) {
        (Some(slot), _) => write!(out, "slot {slot}")?,
        (None, 1) if run.brokers.is_empty() => return Ok(()),
        (None, 1) => write!(out, "1 server")?,
        (None, _) => write!(out, "{servers} servers")?,
    }
    for broker in &run.brokers {
        let BrokerRun { program, version, was_there, cpu } = broker;
        let whose = if *was_there { "was there" } else { "started here" };
        write!(out, "; {program} {version}, {whose}")?;
        if let Some(cpu) = cpu {
            write!(out, ", CPU {} %", figure(cpu.seconds() / run.window.seconds * 100.0))?;
        }
    }
    writeln!(out, "\n")
}

/// Writes what came to the subscribers of a stream, and how long it took from the intended start of an append and from its start.
fn write_subscribers(run: &Run, out: &mut String) -> std::fmt::Result {
    let Some(subscribed) = &run.subscribers else { return Ok(()) };
    for (kind, planned) in subscribed.kinds.iter().zip(run.scenario.followers()) {
        let path = String::from(planned.path.clone());
        writeln!(out, "{} subscribers of {path}\n", planned.count)?;
        let Deliveries { due, missing, repeated, unanswered, ended, .. } = kind;
        let counts =
            [("due", due), ("missing", missing), ("repeated", repeated), ("unanswered", unanswered), ("ended", ended)];
        writeln!(out, "{}", counts.map(|(what, count)| format!("{what} {count}")).join(", "))?;
        let mut rows = vec![["lag ms", "samples", "mean", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec()];
        for (what, lag) in [("from intended", &kind.lag), ("from start", &kind.lag_from_start)] {
            let of = |value: fn(&Statistics) -> f64| lag.as_ref().map_or_else(absent, |lag| milliseconds(value(lag)));
            let mut row = vec![what.to_owned(), lag.as_ref().map_or_else(absent, |lag| lag.count.to_string())];
            row.push(of(|lag| lag.mean));
            row.extend([0.5, 0.95, 0.99].map(|at| quantile(lag.as_ref(), at)));
            row.push(of(|lag| lag.max as f64));
            rows.push(row);
        }
        write_rows(out, &rows)?;
    }
    Ok(())
}

/// Writes the outcomes of messages, over all and by fan-out, and how long they took to the last subscriber.
fn write_multicasts(run: &Run, out: &mut String) -> std::fmt::Result {
    let Some(found) = &run.multicasts else { return Ok(()) };
    let counts = [
        ("messages", found.answered),
        ("targets", found.targets),
        ("received", found.received),
        ("lost", found.lost),
        ("doubled", found.doubled),
        ("stray", found.stray),
        ("absent", found.absent),
        ("pending", found.pending),
        ("failed", found.failed),
        ("unanswered", found.unanswered),
        ("resumed", found.lagged),
    ];
    writeln!(out, "{}", counts.map(|(what, count)| format!("{what} {count}")).join(", "))?;
    let received = found.received as f64;
    let cpu = run.processes.server.filter(|_| found.received > 0).map(|cpu| figure(cpu.seconds() / received * 1e6));
    let rate = figure(received / run.window.seconds);
    writeln!(out, "deliveries/s: {rate}; server CPU us a delivery: {}\n", cpu.unwrap_or_else(absent))?;
    let heads = ["lag ms", "messages", "received", "mean", "p50", "p95", "p99", "max"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let mut row = |what: String, answered: u64, received: u64, lag: &Option<Statistics>| {
        let of = |value: fn(&Statistics) -> f64| lag.as_ref().map_or_else(absent, |lag| milliseconds(value(lag)));
        let mut row = vec![what, answered.to_string(), received.to_string(), of(|lag| lag.mean)];
        row.extend([0.5, 0.95, 0.99].map(|at| quantile(lag.as_ref(), at)));
        row.push(of(|lag| lag.max as f64));
        rows.push(row);
    };
    row("to each".to_owned(), found.answered, found.received, &found.lag);
    row("to the last".to_owned(), found.answered, found.received, &found.last_lag);
    for own in &found.by_fan_out {
        let targets = own.up_to.map_or("of more".to_owned(), |up_to| format!("of up to {up_to}"));
        row(format!("to the last {targets}"), own.answered, own.received, &own.last_lag);
    }
    write_rows(out, &rows)
}

/// Writes the outcome of each promise of a stream.
fn write_promises(run: &Run, out: &mut String) -> std::fmt::Result {
    let Some(promises) = &run.promises else { return Ok(()) };
    let mut rows = vec![["promise", "", "checked", "wrong"].map(str::to_owned).to_vec()];
    rows.extend(promises.rows().map(|(rule, what, kept)| {
        vec![rule.to_owned(), what.to_owned(), kept.checked.to_string(), kept.wrong.to_string()]
    }));
    write_rows(out, &rows)
}

/// The programs beside the load, and the checks behind it with what they say.
fn write_programs(run: &Run, out: &mut String) -> std::fmt::Result {
    for beside in &run.beside {
        let failed = beside.failure.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        writeln!(out, "{} ran beside the load, killed {} times{failed}\n", beside.program, beside.kills)?;
    }
    let mut rows = Vec::new();
    for check in &run.checks {
        let outcome = check.failure.as_ref().map_or_else(|| "right".to_owned(), |why| format!("wrong: {why}"));
        rows.push(vec![check.name.clone(), format!("{outcome}, after {:.1} s", check.seconds)]);
        rows.extend(
            check.told.as_object().into_iter().flatten().map(|(name, value)| vec![name.clone(), value.to_string()]),
        );
    }
    if rows.is_empty() { Ok(()) } else { write_rows(out, &rows) }
}

fn objective(judged: &Judged) -> String {
    let what = &judged.objective;
    let kinds: Vec<_> = what.classes.iter().map(|class| format!("{class:?}").to_lowercase()).collect();
    let about = what.operation.clone().unwrap_or(if kinds.is_empty() { "all".to_owned() } else { kinds.join(" and ") });
    let measured = judged.measured.map_or("nothing measured".to_owned(), figure);
    let measured = match judged.interval {
        Some([low, high]) => format!("{measured} [{low:.3}, {high:.3}]"),
        None => measured,
    };
    let bound = match &what.bound {
        Bound::ThroughputAtLeast(rate) => match judged.measured {
            Some(measured) => format!("target {}/s, reached {:.1} %", figure(*rate), measured / rate * 100.0),
            None => format!("target {}/s", figure(*rate)),
        },
        Bound::FailuresAtMost(share) => format!("failures at most {share}"),
        Bound::RefusedAtLeast(share) => format!("refused at least {share}"),
        Bound::RefusedAtMost(share) => format!("refused at most {share}"),
        Bound::Goodput { of_stages, at_least } => {
            let stages = of_stages.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
            format!("goodput at least {at_least} of that of stage {stages}")
        }
        Bound::Growth { of, at_most } => {
            format!("growth of {} at most {at_most}", format!("{of:?}").to_lowercase())
        }
        Bound::Lag { quantile, at_most_ms } => format!("p{} of the lag at most {at_most_ms} ms", quantile * 100.0),
        Bound::LastLag { quantile, at_most_ms } => {
            format!("p{} of the last lag at most {at_most_ms} ms", quantile * 100.0)
        }
        Bound::Response { quantile, at_most_ms } => format!("p{} at most {at_most_ms} ms", quantile * 100.0),
    };
    let about = what.stage.map_or(about.clone(), |stage| format!("{about}, stage {stage}"));
    format!("objective {about}: {bound}: {measured}: {}", format!("{:?}", judged.outcome).to_lowercase())
}

fn validity_name(validity: Validity) -> &'static str {
    match validity {
        Validity::Invalid => "invalid",
        Validity::ClientBound => "client_bound",
        Validity::QuotaNotBinding => "quota_not_binding",
        Validity::Inconclusive => "inconclusive",
        Validity::Valid => "valid",
    }
}

fn write_summary(runs: &[Run], out: &mut String) -> std::fmt::Result {
    let heads = ["run", "loop", "conn.", "ok/s", "failed", "server %", "client %", "ok/CPU s", "verdict"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let targets = runs.iter().any(|run| target(run).is_some());
    if targets {
        rows[0].extend(["target/s", "reached %"].map(str::to_owned));
    }
    for (run, name) in runs.iter().zip(short_names(runs)) {
        let share = |seconds: f64| figure(seconds / run.window.seconds * 100.0);
        let lost = run.total.lost();
        let mut row = vec![name, loop_name(run).to_owned(), run.scenario.load.connections.to_string()];
        row.extend([figure(run.throughput), lost.to_string()]);
        let server = run.processes.server.as_ref();
        row.push(server.map_or_else(absent, |cpu| share(cpu.seconds())));
        row.push(share(run.processes.client.seconds()));
        let used = server.map(|cpu| cpu.seconds()).filter(|seconds| *seconds > 0.0);
        row.push(used.map_or_else(absent, |seconds| figure(run.total.ok as f64 / seconds)));
        row.push(validity_name(run.validity).to_owned());
        if targets {
            let (rate, reached) = target(run).map_or((absent(), absent()), |(rate, reached)| (figure(rate), reached));
            row.extend([rate, reached]);
        }
        rows.push(row);
    }
    write_rows(out, &rows)?;
    if runs.len() > 1 {
        write_messages(runs, out)?;
    }
    match runs {
        [_] => Ok(()),
        _ if runs.iter().all(|run| run.cells.len() == 1) => write_alone(runs, out),
        _ => write_operations(runs, out),
    }
}

/// The names of runs without the words that all begin with.
fn short_names(runs: &[Run]) -> Vec<String> {
    let names: Vec<&str> = runs.iter().map(|run| run.scenario.name.as_str()).collect();
    let common = |prefix: &str| names.iter().all(|name| name.starts_with(prefix));
    let first = names.first().copied().unwrap_or_default();
    let mut ends = first.match_indices('-').map(|(at, _)| at + 1);
    let cut = ends.rfind(|end| names.len() > 1 && common(&first[..*end])).unwrap_or(0);
    names.iter().map(|name| name[cut..].to_owned()).collect()
}

/// The bound on a throughput, and how much of it was reached; the first if there are several.
fn target(run: &Run) -> Option<(f64, String)> {
    run.objectives.iter().find_map(|judged| match judged.objective.bound {
        Bound::ThroughputAtLeast(rate) => {
            let reached = judged.measured.map_or_else(absent, |measured| figure(measured / rate * 100.0));
            Some((rate, reached))
        }
        _ => None,
    })
}

/// Writes the outcomes of the messages of each run that sent some.
fn write_messages(runs: &[Run], out: &mut String) -> std::fmt::Result {
    let heads = [
        "run",
        "messages",
        "targets",
        "received",
        "lost",
        "doubled",
        "stray",
        "failed",
        "last ms: p50",
        "p99",
        "max",
        "received/s",
        "server us each",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (run, name) in runs.iter().zip(short_names(runs)) {
        let Some(found) = &run.multicasts else { continue };
        let counts =
            [found.answered, found.targets, found.received, found.lost, found.doubled, found.stray, found.failed];
        let lag = found.last_lag.as_ref();
        let mut row = vec![name];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([quantile(lag, 0.5), quantile(lag, 0.99)]);
        row.push(lag.map_or_else(absent, |lag| milliseconds(lag.max as f64)));
        let received = found.received as f64;
        let cpu = run.processes.server.filter(|_| found.received > 0).map(|cpu| figure(cpu.seconds() / received * 1e6));
        row.extend([figure(received / run.window.seconds), cpu.unwrap_or_else(absent)]);
        rows.push(row);
    }
    if rows.len() > 1 { write_rows(out, &rows) } else { Ok(()) }
}

/// Times of each operation of each run.
fn write_operations(runs: &[Run], out: &mut String) -> std::fmt::Result {
    let mut rows = vec![["run", "operation", "ok/s", "mean ms", "p50", "p99", "max"].map(str::to_owned).to_vec()];
    for (run, name) in runs.iter().zip(short_names(runs)) {
        for cell in &run.cells {
            let mut row = vec![name.clone(), cell.operation.clone()];
            row.push(figure(cell.counts.ok as f64 / run.window.seconds));
            row.extend(times(cell));
            row.push(cell.times().map_or_else(absent, |times| milliseconds(times.max as f64)));
            rows.push(row);
        }
    }
    write_rows(out, &rows)
}

/// Times of operations that ran alone, each beside its calls into the storage: of `multi_get` (m-gets) and the keys that it was asked
/// for, too.
fn write_alone(runs: &[Run], out: &mut String) -> std::fmt::Result {
    let heads = ["operation", "mean ms", "p50", "p99", "gets", "m-gets", "keys", "scans", "writes"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (run, cell) in runs.iter().flat_map(|run| run.cells.iter().map(move |cell| (run, cell))) {
        let mut row = vec![cell.operation.clone()];
        row.extend(times(cell));
        let grown = run.counters.grown().filter(|_| cell.counts.ok > 0);
        row.extend(STORAGE_CALLS.map(|name| match &grown {
            Some(grown) => figure(grown.get(name).copied().unwrap_or(0) as f64 / cell.counts.ok as f64),
            None => absent(),
        }));
        rows.push(row);
    }
    write_rows(out, &rows)
}

/// Mean, p50 and p99.
fn times(cell: &Cell) -> [String; 3] {
    let times = cell.times();
    [times.map_or_else(absent, |times| milliseconds(times.mean)), quantile(times, 0.5), quantile(times, 0.99)]
}

fn transposed(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let column = |at: usize| rows.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect();
    (0..rows.first().map_or(0, Vec::len)).map(column).collect()
}

fn write_rows(out: &mut String, rows: &[Vec<String>]) -> std::fmt::Result {
    write_columns(out, &transposed(rows))
}

/// Columns beside each other, of which the first names the rows; those that do not fit stand below, with the names again.
fn write_columns(out: &mut String, columns: &[Vec<String>]) -> std::fmt::Result {
    let Some((names, mut rest)) = columns.split_first() else { return Ok(()) };
    let width = |column: &[String]| column.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let first = width(names);
    while !rest.is_empty() {
        let mut room = WIDTH.saturating_sub(first);
        let fits = rest.iter().take_while(|column| {
            let needs = width(column) + 2;
            let fits = needs <= room;
            room = room.saturating_sub(needs);
            fits
        });
        let (block, below) = rest.split_at(fits.count().max(1));
        for (row, name) in names.iter().enumerate() {
            let mut line = format!("{name:<first$}");
            for column in block {
                let text = column.get(row).map_or("", String::as_str);
                write!(line, "  {text:>width$}", width = width(column))?;
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        writeln!(out)?;
        rest = below;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_stand_below_with_the_names_again() {
        let column = |number: usize| vec![format!("c{number}"), "1234567890".to_owned()];
        let names = vec![String::new(), "row".to_owned()];
        let columns: Vec<_> = std::iter::once(names).chain((0..12).map(column)).collect();
        let mut text = String::new();
        write_columns(&mut text, &columns).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("row")).count(), 2);
        assert_eq!(text.matches("1234567890").count(), 12);
    }

    #[test]
    fn figures_have_three_digits_and_all_before_the_point() {
        assert_eq!(
            [0.0, 0.126, 9.99, 12.34, 123.4, 54321.9].map(figure),
            ["0.00", "0.13", "9.99", "12.3", "123", "54322"]
        );
    }
}
