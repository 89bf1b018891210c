//! A scenario from end to end: the data, the warm-up, the window between two readings of every clock and counter, the verdict.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::clocks::{self, Cpu, Watch};
use crate::connection::{Answer, Connection, Target};
use crate::counters;
use crate::engine::{self, Measured};
use crate::interrupt;
use crate::ledger::Account;
use crate::quota::Quota;
use crate::result::{Cell, Counters, Counts, FORMAT, Limited, Loop, Processes, Run, Setup, Validity, Window};
use crate::rules;
use crate::scenario::{Data, Http, Scenario};
use crate::server::Server;
use crate::template::Template;
use crate::tls::Tls;

/// Rows that are written in one request.
const ROWS_A_REQUEST: u64 = 500;

/// Clocks and counters at one moment.
struct Reading {
    client: Option<Cpu>,
    server: Option<Cpu>,
    waited: Option<f64>,
    counters: Option<counters::Counters>,
    throttled_periods: Option<u64>,
}

/// Runs a scenario against a server, which gets the scenario's data first unless it has it. The accounts are for the log of histograms.
pub fn run(scenario: &Scenario, server: &Server, has_data: bool) -> Result<(Run, Vec<Account>), String> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if scenario.tls != server.has_tls() {
        return Err(format!("{}: the scenario has tls = {}", server.url, scenario.tls));
    }
    let client = Client::new(server.target(Http::One)?)?;
    let target = server.target(scenario.http)?;
    let (rows_written, rows_found) = match has_data {
        true => (None, None),
        false => (Some(client.seed(&scenario.data)?), Some(client.count(&scenario.data.table)?)),
    };
    let (mut before, mut watch, mut warm_up) = (None, None, Counts::default());
    let measured = engine::run(scenario, &target, |accounts| {
        not_interrupted()?;
        warm_up = all_right(accounts)?;
        before = Some(client.read(server));
        watch = server.process.zip(scenario.load.slice()).map(|(process, each)| Watch::start(process, each));
        Ok(())
    });
    let aborted = interrupt::is_asked();
    let after = client.read(server);
    let held = watch.map_or_else(Vec::new, Watch::stop);
    if server.process.is_none() && !has_data {
        client.clear(&scenario.data)?;
    }
    let measured = measured?;
    let before = before.expect("the engine called back before it measured");
    let names = scenario.operations.iter().map(|operation| operation.name.clone());
    let cell = |(name, account): (String, &Account)| Cell::of(&name, account, scenario.load.is_open());
    let cells: Vec<_> = names.clone().zip(&measured.accounts).map(cell).collect();
    let total = cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
    let seconds = measured.end.duration_since(measured.start).as_secs_f64();
    let load = &scenario.load;
    let arrivals_seconds = load.arrivals_seconds();
    let mut run = Run {
        format: FORMAT,
        id: format!("{}-{}-{}", scenario.name, began.as_millis(), std::process::id()),
        began_unix_seconds: began.as_secs(),
        r#loop: if load.is_open() { Loop::Open } else { Loop::Closed },
        tls: target.tls.as_ref().and_then(Tls::negotiated).cloned(),
        server_configuration: server.configuration.clone(),
        processors: processors(),
        plan: names.collect(),
        setup: Setup { rows_written, rows_found, warm_up },
        window: Window {
            seconds,
            arrivals_seconds: arrivals_seconds.map(|planned| if aborted { planned.min(seconds) } else { planned }),
        },
        throughput: total.ok as f64 / seconds,
        cells,
        total,
        processes: processes(&before, &after, &measured, load.is_open())?,
        ceiling: None,
        held,
        quota: server.quota.as_ref().map(|quota| limited(quota, before.throttled_periods, after.throttled_periods)),
        counters: Counters { before: before.counters, after: after.counters },
        objectives: Vec::new(),
        validity: Validity::Inconclusive,
        broken: Vec::new(),
        aborted,
        scenario: scenario.clone(),
    };
    rules::give_verdict(&mut run);
    Ok((run, measured.accounts))
}

/// What both processes used between two readings.
fn processes(before: &Reading, after: &Reading, measured: &Measured, is_open: bool) -> Result<Processes, String> {
    let between = |before: Option<Cpu>, after: Option<Cpu>| Some(after?.since(&before?));
    Ok(Processes {
        client: between(before.client, after.client).ok_or("/proc has no clocks of this process")?,
        server: between(before.server, after.server),
        busiest_client_thread: measured.busiest_thread,
        client_run_queue_wait_seconds: before.waited.zip(after.waited).map(|(before, after)| (after - before).max(0.0)),
        think_seconds: (!is_open).then_some(measured.think_seconds),
    })
}

/// What became of the requests of the warm-up, of which none may fail.
fn all_right(accounts: &[Account]) -> Result<Counts, String> {
    let counts = accounts.iter().fold(Counts::default(), |sum, account| sum.plus(&Counts::of(account)));
    match counts.ok < counts.scheduled {
        false => Ok(counts),
        true => Err(format!("the warm-up failed: {} of {} right, {:?}", counts.ok, counts.scheduled, counts.failed)),
    }
}

/// Of this machine, as far as this process may use them.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn not_interrupted() -> Result<(), String> {
    if interrupt::is_asked() { Err("interrupted before anything was measured".to_owned()) } else { Ok(()) }
}

fn limited(quota: &Quota, before: Option<u64>, after: Option<u64>) -> Limited {
    let throttled_periods = before.zip(after).map(|(before, after)| after - before);
    Limited { mechanism: quota.mechanism.to_owned(), throttled_periods }
}

/// A client for what stands beside the load: data and counters.
struct Client {
    runtime: tokio::runtime::Runtime,
    connection: Connection,
}

impl Client {
    fn new(target: Target) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, address) = (runtime.map_err(|error| error.to_string())?, target.address);
        let connection = Connection::slots(&target, 1).remove(0);
        runtime.block_on(connection.open()).map_err(|error| format!("no connection to {address}: {error}"))?;
        Ok(Self { runtime, connection })
    }

    fn ask(&self, method: &str, path: &str, body: String) -> Result<Answer, String> {
        self.send(method, path, body, "application/json")
    }

    fn send(&self, method: &str, path: &str, body: String, content_type: &str) -> Result<Answer, String> {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| format!("{path}: {error}"))?;
        self.runtime
            .block_on(self.connection.exchange(request))
            .map_err(|failure| format!("{method} {path}: {failure}"))
    }

    /// Writes all rows of all tables, and the blobs of the first. A table that has rows already is left alone: they may be somebody's.
    fn seed(&self, data: &Data) -> Result<u64, String> {
        for table in data.related.iter().map(|related| &related.table).chain([&data.table]) {
            let found = self.count(table)?;
            if found > 0 {
                return Err(format!("{table} has {found} rows already; --has-data says that they are the scenario's"));
            }
        }
        for related in &data.related {
            self.write(&related.table, related.rows, &related.row)?;
        }
        let rows = data.rows + data.spare;
        self.write(&data.table, rows, &data.row)?;
        for (row, blob) in data.blob.iter().flat_map(|blob| (0..rows).map(move |row| (row, blob))) {
            let content = (blob.content.of(row), "application/octet-stream");
            let answer = self.send("PUT", &blob.path.of(row), content.0, content.1)?;
            accepted(&answer, 201)?;
        }
        Ok(rows)
    }

    /// Writes rows from 0, all or nothing in each request.
    fn write(&self, table: &str, rows: u64, row: &Template) -> Result<(), String> {
        for first in (0..rows).step_by(ROWS_A_REQUEST as usize) {
            not_interrupted()?;
            let some: Vec<_> = (first..rows.min(first + ROWS_A_REQUEST)).map(|number| row.of(number)).collect();
            accepted(&self.ask("POST", &format!("/{table}"), format!("[{}]", some.join(",")))?, 201)?;
        }
        Ok(())
    }

    /// Leaves the tables as they were found: empty.
    fn clear(&self, data: &Data) -> Result<(), String> {
        for table in data.related.iter().map(|related| &related.table).chain([&data.table]) {
            let truncate = || self.ask("DELETE", &format!("/{table}?truncate=true"), String::new());
            accepted(&truncate().or_else(|_| truncate())?, 200)?;
        }
        Ok(())
    }

    fn count(&self, table: &str) -> Result<u64, String> {
        let answer = self.ask("GET", &format!("/{table}?pagination=true&limit=0"), String::new())?;
        let read: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        read["total"].as_u64().ok_or(format!("the server does not count the rows of {table}: {}", answer.status))
    }

    /// The server may have closed a connection that nothing used for the length of a window: so once more.
    fn read(&self, server: &Server) -> Reading {
        let ask = |path| self.ask("GET", path, String::new()).ok();
        let read = |path| ask(path).or_else(|| ask(path)).filter(|answer| answer.status == 200);
        let storage = read("/_counters").and_then(|answer| serde_json::from_slice(&answer.body).ok());
        let routes = read("/_metrics").map(|answer| counters::of_routes(&String::from_utf8_lossy(&answer.body)));
        let numbers = |read: Value| counters::numbers(&read);
        Reading {
            counters: storage
                .map(numbers)
                .map(|storage| storage.into_iter().chain(routes.into_iter().flatten()).collect()),
            server: server.process.and_then(Cpu::of),
            throttled_periods: server.quota.as_ref().and_then(Quota::throttled_periods),
            client: Cpu::of(std::process::id()),
            waited: clocks::run_queue_wait_seconds(),
        }
    }
}

/// Whether the server did what was asked.
fn accepted(answer: &Answer, expected: u16) -> Result<(), String> {
    match answer.status == expected {
        true => Ok(()),
        false => Err(format!("the data was refused: {} {}", answer.status, String::from_utf8_lossy(&answer.body))),
    }
}
