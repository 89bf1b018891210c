//! A scenario from end to end: the data, the warm-up, the window between two readings of every clock and counter, the verdict.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::clocks::{self, Cpu};
use crate::connection::{Answer, Connection, Target};
use crate::engine;
use crate::interrupt;
use crate::ledger::Account;
use crate::result::{Cell, Counters, Counts, FORMAT, Loop, Processes, Run, Setup, Validity, Window};
use crate::rules;
use crate::scenario::{Data, Http, Scenario};
use crate::server::Server;
use crate::tls::Tls;

/// Rows that are written in one request.
const ROWS_A_REQUEST: u64 = 500;

/// Clocks and counters at one moment.
struct Reading {
    client: Option<Cpu>,
    server: Option<Cpu>,
    waited: Option<f64>,
    counters: Option<BTreeMap<String, u64>>,
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
        false => (Some(client.seed(&scenario.data)?), Some(client.count(&scenario.data)?)),
    };
    let (mut before, mut warm_up) = (None, Counts::default());
    let measured = engine::run(scenario, &target, |accounts| {
        not_interrupted()?;
        warm_up = all_right(accounts)?;
        before = Some(client.read(server.process));
        Ok(())
    })?;
    let aborted = interrupt::is_asked();
    let after = client.read(server.process);
    let before = before.expect("the engine called back before it measured");
    let names = scenario.operations.iter().map(|operation| operation.name.clone());
    let cell = |(name, account): (String, &Account)| Cell::of(&name, account, scenario.load.is_open());
    let cells: Vec<_> = names.clone().zip(&measured.accounts).map(cell).collect();
    let total = cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
    let seconds = measured.end.duration_since(measured.start).as_secs_f64();
    let load = &scenario.load;
    let arrivals_seconds = load.schedule.as_ref().map(|schedule| schedule.seconds()).or(load.seconds);
    let between = |before: Option<Cpu>, after: Option<Cpu>| Some(after?.since(&before?));
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
        processes: Processes {
            client: between(before.client, after.client).ok_or("/proc has no clocks of this process")?,
            server: between(before.server, after.server),
            busiest_client_thread: measured.busiest_thread,
            client_run_queue_wait_seconds: before
                .waited
                .zip(after.waited)
                .map(|(before, after)| (after - before).max(0.0)),
            think_seconds: (!load.is_open()).then_some(measured.think_seconds),
        },
        ceiling: None,
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
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| format!("{path}: {error}"))?;
        self.runtime
            .block_on(self.connection.exchange(request))
            .map_err(|failure| format!("{method} {path}: {failure}"))
    }

    /// Writes all rows, all or nothing in each request; a row that is there already is a mistake.
    fn seed(&self, data: &Data) -> Result<u64, String> {
        let rows = data.rows + data.spare;
        for first in (0..rows).step_by(ROWS_A_REQUEST as usize) {
            not_interrupted()?;
            let some: Vec<_> = (first..rows.min(first + ROWS_A_REQUEST)).map(|row| data.row.of(row)).collect();
            let answer = self.ask("POST", &format!("/{}", data.table), format!("[{}]", some.join(",")))?;
            if answer.status != 201 {
                return Err(format!(
                    "the data was refused: {} {}",
                    answer.status,
                    String::from_utf8_lossy(&answer.body)
                ));
            }
        }
        Ok(rows)
    }

    fn count(&self, data: &Data) -> Result<u64, String> {
        let answer = self.ask("GET", &format!("/{}?pagination=true&limit=0", data.table), String::new())?;
        let read: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        read["total"].as_u64().ok_or(format!("the server does not count its rows: {}", answer.status))
    }

    /// The server may have closed a connection that nothing used for the length of a window: so once more.
    fn read(&self, server: Option<u32>) -> Reading {
        let ask = || self.ask("GET", "/_counters", String::new()).ok();
        let answer = ask().or_else(ask).filter(|answer| answer.status == 200);
        Reading {
            counters: answer.and_then(|answer| serde_json::from_slice(&answer.body).ok()).map(|read| numbers(&read)),
            server: server.and_then(Cpu::of),
            client: Cpu::of(std::process::id()),
            waited: clocks::run_queue_wait_seconds(),
        }
    }
}

/// The numbers in an object by their names; those in an object within it have its name and a dot before theirs.
fn numbers(read: &Value) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (name, value) in read.as_object().into_iter().flatten() {
        found.extend(value.as_u64().map(|number| (name.clone(), number)));
        found.extend(numbers(value).into_iter().map(|(inner, number)| (format!("{name}.{inner}"), number)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_within_counters_have_the_name_of_both() {
        let read = serde_json::json!({"gets": 1, "feed": {"events": 2}, "state": "ready"});
        assert_eq!(numbers(&read), [("gets".to_owned(), 1), ("feed.events".to_owned(), 2)].into_iter().collect());
        assert_eq!(numbers(&Value::Null), BTreeMap::new());
    }
}
