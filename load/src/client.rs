//! A client for what stands beside the load: it fills the server, counts what is there, and reads the server's counters.

mod events;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::Value;

use crate::connection::{Answer, Connection, Target};
use crate::counters;
use crate::expectation::Failure;
use crate::interrupt;
use crate::live::{self, Phase};
use crate::scenario::{Data, Operation, Registry, Scenario};
use crate::template::Template;

/// The timeout of a request beside the load.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The number of characters that are quoted of an unexpected response.
const QUOTED_CHARACTERS: usize = 500;

/// Rows that are written in one request, and the bytes from which on it has fewer: less than a server takes in a body unless it is told to.
const ROWS_A_REQUEST: u64 = 500;
const BYTES_A_REQUEST: u64 = 900_000;

/// A client for what stands beside the load: data and counters.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    target: Target,
    connection: Connection,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn new(target: Target) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, address) = (runtime.map_err(|error| error.to_string())?, target.address);
        let connection = Connection::slots(&target, 1).remove(0);
        runtime.block_on(connection.open()).map_err(|error| format!("no connection to {address}: {error}"))?;
        Ok(Self { runtime, target, connection })
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: String) -> Result<Answer, String> {
        self.send(method, path, body, "application/json")
    }

    fn send(&self, method: &str, path: &str, body: impl Into<Bytes>, content_type: &str) -> Result<Answer, String> {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Full::new(body.into())).map_err(|error| format!("{path}: {error}"))?;
        let answer = async { tokio::time::timeout(TIMEOUT, self.connection.exchange(request)).await };
        let answer = self.runtime.block_on(answer).unwrap_or(Err(Failure::Timeout));
        answer.map_err(|failure| {
            let why = match failure {
                Failure::Connect => self.target.reach.failure().unwrap_or_else(|| "no connection".to_owned()),
                Failure::Connection => "the connection ended before a response".to_owned(),
                Failure::Timeout => format!("no response within {} s", TIMEOUT.as_secs()),
                other => other.to_string(),
            };
            format!("{method} {path}: {why}")
        })
    }

    /// Writes all rows of all tables, or the events of the stream, and the blobs of the first table. A table that has rows already, or a
    /// stream that had events, is left alone: they may be somebody's.
    pub fn seed(&self, scenario: &Scenario) -> Result<u64, String> {
        let data = &scenario.data;
        for table in tables(data) {
            let found = self.rows(table)?;
            if found > 0 {
                return Err(format!("{table} has {found} rows already; --has-data says that they are the scenario's"));
            }
        }
        if let Some(stream) = &data.stream {
            let watermarks = self.high_watermarks(stream)?;
            if let Some((partition, found)) = watermarks.iter().enumerate().find(|(_, found)| **found > 0) {
                return Err(format!(
                    "partition {partition} of {stream} has had {found} events already, so those of the scenario would not begin at offset \
                     0; --has-data says that they are the scenario's"
                ));
            }
        }
        self.write_all(scenario).inspect_err(|_| drop(self.clear(scenario)))
    }

    fn write_all(&self, scenario: &Scenario) -> Result<u64, String> {
        let data = &scenario.data;
        let post = |table: &str, some: &[String]| {
            accepted(&self.ask("POST", &format!("/{table}"), format!("[{}]", some.join(",")))?, 201)
        };
        for related in &data.related {
            write(related.rows, &related.row, |_, some| post(&related.table, some))?;
        }
        let rows = data.rows + data.spare;
        if let Some(table) = &data.table {
            write(rows, &data.row, |_, some| match scenario.registry() {
                Registry::Strata => post(table, some),
                Registry::Redis => self.register(table, some),
            })?;
        }
        if let Some(stream) = &data.stream {
            let partitions = self.high_watermarks(stream)?.len() as u64;
            write(rows, &data.row, |first, some| self.append(stream, partitions, first, some))?;
        }
        for (row, blob) in data.blobs.iter().flat_map(|blob| (0..rows).map(move |row| (row, blob))) {
            accepted(&self.send("PUT", &blob.path.of(row), blob.of(row), &blob.r#type)?, 201)?;
        }
        Ok(rows)
    }

    /// Asks for each path of the operations that revalidate; returns the tags that they have, by operation and row.
    ///
    /// # Errors
    /// The response that has none.
    pub fn tags(&self, scenario: &Scenario) -> Result<Vec<Vec<HeaderValue>>, String> {
        let tag = |operation: &Operation, row: u64| {
            let path = operation.path.of(row);
            let answer = self.ask("GET", &path, String::new())?;
            let tag = answer.headers.get(http::header::ETAG).cloned();
            tag.ok_or_else(|| format!("GET {path}: no ETag, in a response with status {}", answer.status))
        };
        let rows = |operation: &Operation| if operation.revalidate { 0..scenario.data.rows } else { 0..0 };
        let of_rows = |operation: &Operation| rows(operation).map(|row| tag(operation, row)).collect();
        scenario.operations.iter().map(of_rows).collect()
    }

    /// Registers rows in a Redis, which takes them one by one.
    fn register(&self, table: &str, some: &[String]) -> Result<(), String> {
        for row in some {
            let read: Value = serde_json::from_str(row).map_err(|error| format!("data.row: {error}"))?;
            let id = read["id"].as_str().ok_or("data.row: what is in a Redis has a text as its id")?;
            accepted(&self.ask("PUT", &format!("/{table}/{id}"), row.clone())?, 201)?;
        }
        Ok(())
    }

    /// Removes all rows of a table in a Redis, which removes them one by one.
    fn unregister(&self, table: &str) -> Result<(), String> {
        let answer = self.ask("GET", &format!("/{table}"), String::new())?;
        let read: Vec<Value> = serde_json::from_slice(&answer.body).map_err(|error| format!("{table}: {error}"))?;
        for id in read.iter().filter_map(|row| row["id"].as_str()) {
            self.ask("DELETE", &format!("/{table}/{id}"), String::new())?;
        }
        Ok(())
    }

    /// Leaves the tables as they were found, empty; and a stream without events, whose offsets go on.
    pub fn clear(&self, scenario: &Scenario) -> Result<(), String> {
        let data = &scenario.data;
        if let (Registry::Redis, Some(table)) = (scenario.registry(), &data.table) {
            return self.unregister(table);
        }
        for named in tables(data).chain(&data.stream) {
            let truncate = || self.ask("DELETE", &format!("/{named}?truncate=true"), String::new());
            accepted(&truncate().or_else(|_| truncate())?, 200)?;
        }
        Ok(())
    }

    /// The rows of the table, or the events that the stream has had: the sum of its high watermarks.
    pub fn count(&self, data: &Data) -> Result<u64, String> {
        match (&data.table, &data.stream) {
            (Some(table), _) => self.rows(table),
            (None, Some(stream)) => Ok(self.high_watermarks(stream)?.iter().sum()),
            (None, None) => Err("the scenario names neither a table nor a stream".to_owned()),
        }
    }

    fn rows(&self, table: &str) -> Result<u64, String> {
        let answer = self.ask("GET", &format!("/{table}?pagination=true&limit=0"), String::new())?;
        let read: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        read["total"].as_u64().ok_or_else(|| {
            format!("the server does not count the rows of {table}: {}", quoted(answer.status.as_u16(), &answer.body))
        })
    }

    /// Reads. The server may have closed a connection that nothing used for the length of a window, or have been started again: so once more.
    fn get(&self, path: &str) -> Result<Answer, String> {
        let ask = || self.ask("GET", path, String::new());
        ask().or_else(|_| ask())
    }

    /// Returns what the server has counted so far; none if it does not report that.
    pub fn counters(&self) -> Option<counters::Counters> {
        let read = |path| self.get(path).ok().filter(|answer| answer.status == 200);
        let storage: Value = serde_json::from_slice(&read("/_counters")?.body).ok()?;
        let routes = read("/_metrics").map(|answer| counters::of_routes(&String::from_utf8_lossy(&answer.body)));
        Some(counters::numbers(&storage).into_iter().chain(routes.into_iter().flatten()).collect())
    }
}

/// All tables of a scenario, those first that others lead to.
fn tables(data: &Data) -> impl Iterator<Item = &String> {
    data.related.iter().map(|related| &related.table).chain(&data.table)
}

/// Writes rows from 0 by requests, each given the number of its first row and its rows.
fn write(rows: u64, row: &Template, request: impl Fn(u64, &[String]) -> Result<(), String>) -> Result<(), String> {
    // Rows are about as long as the last one, whose number has the most digits.
    let length = row.of(rows.saturating_sub(1)).len() as u64 + 1;
    let each = (BYTES_A_REQUEST / length).clamp(1, ROWS_A_REQUEST);
    for first in (0..rows).step_by(each as usize) {
        interrupt::not_asked()?;
        live::phase(Phase::Seeding(first, rows));
        let some: Vec<_> = (first..rows.min(first + each)).map(|number| row.of(number)).collect();
        request(first, &some)?;
    }
    Ok(())
}

/// Checks that the server did what was asked.
fn accepted(answer: &Answer, expected: u16) -> Result<(), String> {
    match answer.status == expected {
        true => Ok(()),
        false => Err(format!("the data was refused: {}", quoted(answer.status.as_u16(), &answer.body))),
    }
}

/// A status and the begin of a body, in one line.
fn quoted(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).replace(char::is_control, " ");
    format!("{status} {}", text.chars().take(QUOTED_CHARACTERS).collect::<String>())
}
