//! Why a scenario is not run: what is wrong with one that could be read, by its key.

mod programs;
mod streams;

use std::collections::HashSet;

use crate::schedule::Schedule;

use super::{Bound, Data, Feed, Growing, Http, Of, QUANTILES, Row, Scenario, Steps};
pub(super) use programs::is_program;
use streams::{NO_ITEMS, NOT_REFUSABLE};

/// Returns true if a number makes sense as a weight or a number of steps. TOML has infinities, and NaN.
fn above_zero(number: f64) -> bool {
    number > 0.0 && number <= 1e6
}

/// Returns true if a run can take so long: from what clocks tell apart to what durations hold.
fn is_time(seconds: f64) -> bool {
    (0.001..=1e6).contains(&seconds)
}

/// Returns true if a server can be given so many processors: the kernel has no smaller parts than a hundredth.
pub(super) fn is_share(cpus: f64) -> bool {
    (0.01..=1000.0).contains(&cpus)
}

/// The most servers over one database.
pub(super) const MOST_SERVERS: usize = 64;

/// Connections at most: a client has so many ports.
pub(super) const MOST_CONNECTIONS: usize = 65_535;

/// Returns true if a table or a stream can have this name, which stands in paths.
fn is_name(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.chars().all(letters)
}

/// Options of the server that name what it writes, or a file that does: a run has its own folder for that.
const WRITING_OPTIONS: [&str; 4] = ["--data-dir", "--ready-file", "--access-log", "--config"];

/// Why a name is none of a file in the folder of static files.
fn file_fault(name: &str) -> Option<&'static str> {
    let mut parts = name.split('/');
    match () {
        () if name.contains(char::is_control) => Some("the name of a file is one line"),
        () if parts.clone().any(|part| matches!(part, "" | "." | "..")) => {
            Some("a path below the folder of static files: names with a / between them, none of them empty, . or ..")
        }
        () if parts.any(|part| part.len() > 255) || name.len() > 1000 => Some("no file system has so long a name"),
        () => None,
    }
}

impl Bound {
    /// Why it cannot be meant.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::ThroughputAtLeast(rate) => {
                (!(*rate > 0.0 && *rate <= 1e9)).then_some("a throughput is above 0, and at most 1e9 a second")
            }
            Self::FailuresAtMost(share) => {
                (!(0.0..=1.0).contains(share)).then_some("failures are a share of all requests, from 0 to 1")
            }
            Self::RefusedAtLeast(share) | Self::RefusedAtMost(share) => {
                (!(0.0..=1.0).contains(share)).then_some("refused requests are a share of all, from 0 to 1")
            }
            Self::Goodput { at_least, .. } => {
                (!above_zero(*at_least)).then_some("a share of the other stages', above 0, and at most a million")
            }
            Self::Response { quantile, .. } | Self::Lag { quantile, .. } | Self::LastLag { quantile, .. }
                if !QUANTILES.contains(quantile) =>
            {
                Some("the quantiles that are measured are 0.5, 0.9, 0.95, 0.99, 0.995 and 0.999")
            }
            Self::Response { at_most_ms, .. } | Self::Lag { at_most_ms, .. } | Self::LastLag { at_most_ms, .. } => {
                (!(*at_most_ms > 0.0 && *at_most_ms <= 1e9)).then_some("a time is above 0, and at most 1e9 ms")
            }
            Self::Growth { at_most, .. } => {
                (!(0.0..=1e6).contains(at_most)).then_some("growth is a share of the median, from 0 to a million")
            }
        }
    }
}

impl Data {
    /// Returns the fault of the data, also an option by which the server would write outside the folder of a run: a key, and the reason.
    pub(super) fn fault(&self) -> Option<(String, String)> {
        let fault = |key: &str, reason: &str| Some((format!("data.{key}"), reason.to_owned()));
        match (&self.table, &self.stream) {
            (None, None) => {
                return fault("table", "the rows are in a table, or are the events of a stream: data.stream");
            }
            (Some(_), Some(_)) => return fault("stream", "the rows are in a table or a stream, not both"),
            (None, Some(_)) if !self.blobs.is_empty() => return fault("blobs", "an event has none"),
            (None, Some(stream)) if !is_name(stream) => return fault("stream", "a name of GraphQL"),
            (Some(_), None) | (None, Some(_)) => {}
        }
        for (at, blob) in self.blobs.iter().enumerate() {
            let fault = |key: &str, reason: &str| fault(&format!("blobs[{at}].{key}"), reason);
            match (&blob.content, &blob.file) {
                (Some(_), Some(_)) => return fault("file", "what is uploaded is a text or a file, not both"),
                (None, None) => return fault("file", "what is uploaded is a text or a file beside the scenario"),
                _ => {}
            }
            let mut templates =
                [("path", &blob.path)].into_iter().chain(blob.content.as_ref().map(|content| ("content", content)));
            if let Some((key, _)) = templates.find(|(_, template)| !template.is_of_row()) {
                return fault(key, NO_ITEMS);
            }
            if http::HeaderValue::from_str(&blob.r#type).is_err() {
                return fault("type", "no value of a header of HTTP");
            }
        }
        let related = self.related.iter().map(|related| ("related", &related.row));
        let mut templates = [("row", &self.row)].into_iter().chain(related);
        if let Some((key, _)) = templates.find(|(_, template)| !template.is_of_row()) {
            return fault(key, NO_ITEMS);
        }
        if self.related.iter().any(|related| related.rows > 1_000_000_000) {
            return fault("related", "from 0 to a billion rows of each");
        }
        for name in self.files.keys() {
            let below =
                || self.files.keys().any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')));
            let reason =
                file_fault(name).or_else(|| below().then_some("another file is below it, as if it were a folder"));
            if let Some(reason) = reason {
                return Some((format!("data.files.{name:?}"), reason.to_owned()));
            }
        }
        for (at, option) in self.server_options.iter().enumerate() {
            let (name, value) =
                option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
            // Standard error, which goes nowhere, is no file.
            let is_no_file = value.or(self.server_options.get(at + 1).map(String::as_str)) == Some("-");
            if WRITING_OPTIONS.contains(&name) && !is_no_file {
                let reason = format!("{name} names a file or a folder; the server writes to those of its run only");
                return Some((format!("data.server_options[{at}]"), reason));
            }
        }
        None
    }
}

impl Scenario {
    pub(super) fn feeds_fault(&self) -> Option<&'static str> {
        let is_path = |feed: &Feed| feed.path.starts_with('/') && feed.path.parse::<http::Uri>().is_ok();
        match () {
            () if !self.feeds.iter().all(is_path) => Some("path is a path and a query, such as /Product?stream=sse"),
            () if !self.feeds.iter().all(|feed| (1..=1000).contains(&feed.subscribers)) => {
                Some("from 1 to 1000 subscribers")
            }
            () => None,
        }
    }

    /// Returns the fault in several servers, and in a database beside them.
    fn servers_fault(&self) -> Option<(String, String)> {
        let (load, data) = (&self.load, &self.data);
        let wrong = [
            (!(1..=MOST_SERVERS).contains(&load.servers), "load.servers", "from 1 to 64"),
            (
                load.servers > 1 && load.server_cpus.is_some(),
                "load.servers",
                "the processors of one server are limited: no server_cpus",
            ),
            (
                data.storage.is_some() && self.tls && load.servers > 1,
                "tls",
                "each of several servers has a certificate of its own: tls = false",
            ),
            (
                data.storage.is_some() && self.restarts.is_some(),
                "restarts",
                "a server over a database keeps nothing that it could lose",
            ),
        ];
        let found = wrong.into_iter().find(|(is_wrong, ..)| *is_wrong);
        found.map(|(_, key, reason)| (key.to_owned(), reason.to_owned()))
    }

    pub(super) fn load_fault(&self) -> Option<(String, String)> {
        let (load, data) = (&self.load, &self.data);
        let by_end = load.seconds.is_some() || load.requests.is_some();
        let is_in_names = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        let wrong = [
            (
                self.name.is_empty() || self.name.len() > 200 || !self.name.chars().all(is_in_names),
                "name",
                "files are named after it: one word of letters, digits, - and _, of 200 bytes at most",
            ),
            (self.repeat == Some(0), "repeat", "from 1 on"),
            (!(1..=1000).contains(&load.threads), "load.threads", "from 1 to 1000"),
            (
                !(load.threads..=MOST_CONNECTIONS).contains(&load.connections),
                "load.connections",
                "at least one for each thread, and at most 65535",
            ),
            (load.streams == 0, "load.streams", "at least 1"),
            (
                load.connections.saturating_mul(load.streams) > 1_000_000,
                "load.streams",
                "at most a million on all connections",
            ),
            (
                load.streams > 1 && self.http == Http::One,
                "load.streams",
                "HTTP/1.1 has one request at a time on a connection",
            ),
            (
                load.seconds.is_some() && load.requests.is_some(),
                "load.requests",
                "a closed loop ends after seconds or requests, not both",
            ),
            (load.is_open() && by_end, "load.schedule", "a schedule has its own end: without seconds and requests"),
            (
                !load.is_open() && !by_end && load.stages.is_empty(),
                "load.seconds",
                "a closed loop ends after seconds or requests",
            ),
            (load.seconds.is_some_and(|seconds| !is_time(seconds)), "load.seconds", "from a thousandth to a million"),
            (
                load.requests.is_some_and(|requests| !(1..=1_000_000_000_000).contains(&requests)),
                "load.requests",
                "from 1 to 1e12",
            ),
            (load.queue > 1_000_000, "load.queue", "from 0 (what finds no free connection is dropped) to a million"),
            (load.warm_up_requests > 1_000_000_000, "load.warm_up_requests", "from 0 (no warm-up) to a billion"),
            (load.poisson && !load.is_open(), "load.poisson", "only a schedule has random arrivals"),
            (!is_time(load.timeout_seconds), "load.timeout_seconds", "from a thousandth to a million"),
            (!is_time(load.drain_seconds), "load.drain_seconds", "from a thousandth to a million"),
            (
                load.server_cpus.is_some_and(|cpus| !is_share(cpus)),
                "load.server_cpus",
                "from a hundredth to a thousand",
            ),
            (
                !(1..=1_000_000_000).contains(&data.rows),
                "data.rows",
                "at least 1 (reads of an empty table prove nothing), and at most a billion",
            ),
            (data.spare > 10_000_000, "data.spare", "from 0 to ten million"),
        ];
        let found =
            wrong.iter().find(|(wrong, ..)| *wrong).map(|(_, key, reason)| ((*key).to_owned(), (*reason).to_owned()));
        let schedule = || load.schedule.as_ref().and_then(Schedule::fault);
        (found.or_else(|| schedule().map(|(key, reason)| (format!("load.schedule.{key}"), reason.to_owned()))))
            .or_else(|| self.servers_fault())
            .or_else(|| data.fault())
    }

    pub(super) fn operations_fault(&self) -> Option<(String, String)> {
        let mut names = HashSet::new();
        if self.operations.is_empty() {
            return Some(("operations".to_owned(), "at least one".to_owned()));
        }
        for (at, operation) in self.operations.iter().enumerate() {
            let fault = |key: &str, reason: &str| Some((format!("operations[{at}].{key}"), reason.to_owned()));
            if !names.insert(&operation.name) {
                return fault("name", "another operation has it");
            }
            if operation.name.is_empty() || operation.name.contains(char::is_control) {
                return fault("name", "a name in one line");
            }
            if let Some((key, reason)) = operation.stream_fault(&self.data) {
                return fault(key, reason);
            }
            if http::HeaderValue::from_str(&operation.content_type).is_err() {
                return fault("content_type", "no value of a header of HTTP");
            }
            if operation.revalidate
                && (operation.method != "GET" || operation.row != Row::Seeded || operation.path.has_call())
            {
                return fault("revalidate", "of a GET of rows that stay");
            }
            if operation.expect.picture.as_ref().is_some_and(|picture| !picture.is_readable()) {
                return fault("expect.picture.type", "image/png or image/jpeg");
            }
            if !(200..600).contains(&operation.expect.status) {
                return fault("expect.status", "from 200 to 599");
            }
            if operation.expect.rows.is_some_and(|rows| rows > 1_000_000_000) {
                return fault("expect.rows", "from 0 (an empty list) to a billion");
            }
            if operation.expect.bytes.is_some_and(|bytes| bytes > 10_000_000_000) {
                return fault("expect.bytes", "from 0 (no body) to 1e10");
            }
            if !above_zero(operation.weight) {
                return fault(
                    "weight",
                    "above 0 (an operation that never runs is no operation), and at most a million",
                );
            }
            if operation.method.parse::<http::Method>().is_err() {
                return fault("method", "no method of HTTP");
            }
            if operation.path.of(0).parse::<http::uri::PathAndQuery>().is_err()
                || !operation.path.of(0).starts_with('/')
            {
                return fault("path", "no path of a URL; it begins with /");
            }
            if !operation.expect.is_about_the_body() {
                return fault("expect", "a status alone proves nothing: body, has, rows or bytes");
            }
            let mut pointers = operation.expect.equal.iter().flatten().chain(operation.expect.between.keys());
            if !pointers.all(|pointer| pointer.starts_with('/')) {
                return fault("expect", "pointers of JSON begin with /");
            }
            if !operation.expect.between.values().all(|[least, most]| least <= most) {
                return fault("expect.between", "the least that a number may be, and the most");
            }
            if operation.retry && self.load.is_open() {
                return fault("retry", "a user sends it again, and an open loop has none");
            }
            if operation.row == Row::Spare && self.data.spare == 0 {
                return fault("row", "there are no spare rows: data.spare");
            }
        }
        None
    }

    pub(super) fn promises_fault(&self) -> Option<(String, String)> {
        let known = |name: &String| self.operations.iter().any(|operation| operation.name == *name);
        if self.effects.is_empty() && self.restarts.is_none() {
            return Some(("effects".to_owned(), "at least one: what the server's counters must show".to_owned()));
        }
        for (at, effect) in self.effects.iter().enumerate() {
            if effect.operations.is_empty() || !effect.operations.iter().all(known) {
                return Some((format!("effects[{at}].operations"), "names of operations".to_owned()));
            }
            if effect.of == Of::Refused && !self.is_refusable(&effect.operations) {
                return Some((format!("effects[{at}].of"), NOT_REFUSABLE.to_owned()));
            }
            let is_above_zero = match &effect.each {
                Steps::Number(number) => above_zero(*number),
                Steps::FanOut(text) => text.has_fan_out() && !self.sweep.fan_out.is_empty(),
            };
            if !is_above_zero {
                let reason = "above 0 (nothing is no effect), and at most a million";
                return Some((format!("effects[{at}].each"), reason.to_owned()));
            }
        }
        for (at, objective) in self.objectives.iter().enumerate() {
            let fault = |reason: &str| Some((format!("objectives[{at}]"), reason.to_owned()));
            if !objective.operation.as_ref().is_none_or(known) {
                return fault("no operation has this name");
            }
            if objective.fan_out.is_some_and(|number| !self.sweep.fan_out.contains(&number)) {
                return fault("fan_out: one of those of the sweep");
            }
            if let Some(reason) = objective.bound.fault() {
                return fault(reason);
            }
            if let Some(reason) = self.stage_of_objective_fault(objective) {
                return fault(reason);
            }
            if let Bound::Response { .. } = objective.bound {
                if !self.load.is_open() {
                    return fault("a bound on response times needs an open loop: load.schedule");
                }
                if objective.operation.is_none() {
                    return fault("response times are those of one operation");
                }
            }
            if matches!(objective.bound, Bound::Growth { of: Growing::P99, .. }) && objective.operation.is_none() {
                return fault("p99 is that of one operation");
            }
        }
        None
    }
}
