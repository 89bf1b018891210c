//! A run as a table for people: what is absent is "not run", what is beyond all measured is "> max", and units stand in the heads.

use std::fmt::Write;

use crate::result::{Cell, Loop, Run, State, Statistics, Validity};
use crate::rules::client_bound;
use crate::scenario::Http;

/// The text of a run.
pub fn text(run: &Run) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(run, &mut text);
    text
}

fn write_all(run: &Run, out: &mut String) -> std::fmt::Result {
    let load = &run.scenario.load;
    let (kind, times) = match run.r#loop {
        Loop::Open => ("open loop", "response times from the intended start"),
        Loop::Closed => ("closed loop", "service times"),
    };
    writeln!(
        out,
        "{}: {kind}, {} connections, {:.2} s, {} requests",
        run.id, load.connections, run.window.seconds, run.total.scheduled
    )?;
    let tls = run.tls.as_ref().map_or("no TLS".to_owned(), ToString::to_string);
    writeln!(out, "HTTP/{}, {tls}", if run.scenario.http == Http::One { "1.1" } else { "2" })?;
    writeln!(out, "{times} of right answers, in milliseconds\n")?;
    let head = [
        "operation",
        "ok/s",
        "ok",
        "failed",
        "dropped",
        "censored",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        "send lag p99",
        "MB/s",
    ];
    let rows = run.cells.iter().map(|cell| row(run, cell));
    write_table(out, &head.map(str::to_owned), &rows.collect::<Vec<_>>())?;
    writeln!(out)?;
    for cell in &run.cells {
        for (class, count) in &cell.counts.failed {
            writeln!(out, "failed: {} {class} {count}", cell.operation)?;
        }
    }
    write_processes(run, out)?;
    for judged in &run.objectives {
        let measured = judged.measured.map_or("nothing measured".to_owned(), |measured| format!("{measured:.3}"));
        writeln!(
            out,
            "objective {:?} {:?}: {measured}: {:?}",
            judged.objective.operation.as_deref().unwrap_or("all"),
            judged.objective.bound,
            judged.outcome
        )?;
    }
    run.broken.iter().try_for_each(|broken| writeln!(out, "broken {broken}"))?;
    match (run.validity, client_bound(run)) {
        (Validity::ClientBound, Some(why)) => {
            writeln!(out, "client_bound: {why}; throughput >= {:.0}/s", run.throughput)
        }
        (validity, _) => writeln!(out, "{validity:?}"),
    }
}

fn write_processes(run: &Run, out: &mut String) -> std::fmt::Result {
    let ok = run.total.ok as f64;
    let per_request =
        |seconds: f64| if ok > 0.0 { format!("{:.1} us", seconds / ok * 1e6) } else { "not run".to_owned() };
    let client = &run.processes.client;
    write!(out, "total {:.0} ok/s; CPU a right answer: client {}", run.throughput, per_request(client.seconds()))?;
    match &run.processes.server {
        Some(server) => writeln!(
            out,
            ", server {} (user {:.2} s, system {:.2} s, {:.0} ok a second of CPU)",
            per_request(server.seconds()),
            server.user_seconds,
            server.system_seconds,
            ok / server.seconds()
        ),
        None => writeln!(out, ", server not known"),
    }
}

fn row(run: &Run, cell: &Cell) -> Vec<String> {
    let counts = &cell.counts;
    if cell.state != State::Ran {
        return vec![cell.operation.clone(), "not run".to_owned()];
    }
    let times = cell.response.as_ref().or(cell.service.as_ref());
    let milliseconds = |nanoseconds: f64| format!("{:.3}", nanoseconds / 1e6);
    let not = || "-".to_owned();
    let quantile = |found: Option<&Statistics>, quantile| match found.and_then(|found| found.at(quantile)) {
        Some(Some(value)) => milliseconds(value as f64),
        Some(None) => "> max".to_owned(),
        None => not(),
    };
    let mut row = vec![
        cell.operation.clone(),
        format!("{:.0}", counts.ok as f64 / run.window.seconds),
        counts.ok.to_string(),
        counts.failures().to_string(),
        counts.dropped.to_string(),
        counts.censored.to_string(),
        times.map_or_else(not, |times| milliseconds(times.mean)),
    ];
    row.extend([0.5, 0.95, 0.99, 0.999].map(|at| quantile(times, at)));
    row.push(times.map_or_else(not, |times| milliseconds(times.max as f64)));
    row.push(quantile(cell.send_lag.as_ref(), 0.99));
    row.push(format!("{:.2}", cell.body_bytes_received as f64 / run.window.seconds / 1e6));
    row
}

fn write_table(out: &mut String, head: &[String], rows: &[Vec<String>]) -> std::fmt::Result {
    let width = |column: usize| {
        let of = |row: &[String]| row.get(column).map_or(0, |cell| cell.len());
        rows.iter().map(|row| of(row)).max().unwrap_or(0).max(head[column].len())
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    for row in [head].into_iter().chain(rows.iter().map(Vec::as_slice)) {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            if column == 0 { write!(out, "{cell:<width$}")? } else { write!(out, "  {cell:>width$}")? }
        }
        writeln!(out)?;
    }
    Ok(())
}
