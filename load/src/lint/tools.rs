//! The figures in what each tool prints for people.
//!
//! A line that only one tool prints begins a report of it, and the lines after it are read as that tool prints them, until another
//! report begins: a figure that stands there already is of the next run. What a known tool printed and is not read is said.

mod lines;

use super::figure::{Figure, Reading};
use super::{Count, Distribution, Report, Statistic};

/// A tool that prints reports.
struct Tool {
    name: &'static str,
    /// Returns true if only this tool prints such a line.
    is_of: fn(&str) -> bool,
    /// Reads a line; none if its reports are not read.
    read: Option<fn(&str, &mut Reports)>,
}

const TOOLS: [Tool; 22] = [
    Tool { name: "wrk/wrk2", is_of: lines::is_wrk, read: Some(lines::wrk) },
    Tool { name: "ab", is_of: |line| line.starts_with("This is ApacheBench") || ab_only(line), read: Some(lines::ab) },
    Tool { name: "hey/oha", is_of: lines::is_hey, read: Some(lines::hey) },
    Tool { name: "k6", is_of: lines::is_k6, read: Some(lines::k6) },
    Tool { name: "vegeta", is_of: |line| line.contains("[total, "), read: Some(lines::vegeta) },
    Tool { name: "drill", is_of: lines::is_drill, read: Some(lines::drill) },
    Tool {
        name: "vegeta's histogram",
        is_of: |line| line.starts_with("Bucket ") && line.ends_with("Histogram"),
        read: None,
    },
    Tool { name: "vegeta's hdrplot", is_of: |line| line.starts_with("Value(ms) "), read: None },
    Tool { name: "a tool in JSON", is_of: is_json, read: None },
    Tool { name: "autocannon", is_of: |line| line.contains("│ Stat "), read: None },
    Tool { name: "bombardier", is_of: |line| line.starts_with("Bombarding "), read: None },
    Tool {
        name: "siege",
        is_of: |line| line.contains("shortest_transaction") || line.starts_with("Shortest transaction"),
        read: None,
    },
    Tool { name: "locust", is_of: |line| line.starts_with("Response time percentiles (approx"), read: None },
    Tool { name: "h2load", is_of: |line| line.starts_with("time for request:"), read: None },
    Tool { name: "fortio", is_of: |line| line.starts_with("Fortio ") || line.starts_with("# target 50% "), read: None },
    Tool { name: "rewrk", is_of: |line| line.starts_with("Beginning round "), read: None },
    Tool { name: "YCSB", is_of: |line| line.starts_with("[OVERALL], "), read: None },
    Tool { name: "pgbench", is_of: |line| line.starts_with("latency average = "), read: None },
    Tool { name: "redis-benchmark", is_of: |line| line.starts_with("latency summary (msec)"), read: None },
    Tool { name: "JMeter", is_of: |line| line.starts_with("summary = ") || line.starts_with("summary + "), read: None },
    Tool { name: "Gatling", is_of: |line| line.contains("---- Global Information ----"), read: None },
    Tool { name: "Artillery", is_of: |line| line.starts_with("http.response_time:"), read: None },
];

fn ab_only(line: &str) -> bool {
    line.starts_with("Concurrency Level:") || line.starts_with("Time taken for tests:")
}

/// A key of oha, vegeta, k6 or autocannon.
fn is_json(line: &str) -> bool {
    ["\"latencyPercentiles\":", "{\"latencies\":{", "\"http_req_duration\": {", "\"p97_5\":"]
        .iter()
        .any(|key| line.contains(key))
}

/// The tools whose reports are read.
pub(super) fn names() -> String {
    TOOLS.iter().filter(|tool| tool.read.is_some()).map(|tool| tool.name).collect::<Vec<_>>().join(", ")
}

/// The reports in a text.
pub(super) fn read(text: &str) -> Vec<Report> {
    let mut reports = Reports { found: Vec::new(), line: 0, section: String::new(), tool: None };
    for line in text.lines() {
        reports.line += 1;
        // Within a comment, a quotation or a list.
        let line = line.trim_start_matches([' ', '\t', '>', '/', '#', '-', '*']).trim_end();
        if let Some(tool) = TOOLS.iter().find(|tool| (tool.is_of)(line))
            && reports.tool.is_none_or(|current| current.name != tool.name)
        {
            reports.tool = Some(tool);
            reports.begin();
            if tool.read.is_none() {
                reports.unread(&format!("what {} prints", tool.name));
            }
        }
        if let Some(read) = reports.tool.and_then(|tool| tool.read) {
            read(line, &mut reports);
        }
    }
    reports.found.retain(|report| !report.is_empty());
    // Pipelined requests are many in flight on each connection.
    let pipelined = text.contains("pipeline");
    reports.found.iter_mut().for_each(|report| report.closed_loop &= !pipelined);
    reports.found
}

/// The reports that were found, the last of which is being read.
struct Reports {
    found: Vec<Report>,
    /// The number of the line that is being read.
    line: usize,
    /// The heading that the line stands under.
    section: String,
    tool: Option<&'static Tool>,
}

impl Reports {
    /// Begins another report, unless nothing has been read of the last one.
    fn begin(&mut self) {
        if self.found.last().is_some_and(Report::is_empty) {
            self.found.pop();
        }
        let name = self.tool.map_or("", |tool| tool.name);
        let place = format!("{name}, line {}", self.line);
        self.found.push(Report { place, distributions: vec![Distribution::default()], ..Report::default() });
        self.section.clear();
    }

    fn current(&mut self) -> &mut Report {
        if self.found.is_empty() {
            self.begin();
        }
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    fn unread(&mut self, what: &str) {
        self.current().unread.push(what.to_owned());
    }

    /// Begins the times of something; of another run, if there are such already.
    fn distribution(&mut self, name: &str) {
        if self.current().distributions.iter().any(|of| of.name == name && !of.times.is_empty()) {
            self.begin();
        }
        let distributions = &mut self.current().distributions;
        distributions.retain(|of| !of.times.is_empty());
        distributions.push(Distribution { name: name.to_owned(), times: Vec::new() });
    }

    /// Returns true if there is such a time already.
    fn has(&mut self, statistic: Statistic) -> bool {
        self.current().distributions.last().is_some_and(|of| of.get(statistic).is_some())
    }

    /// Reads a time; a bare number has the unit that is given, in seconds.
    fn time(&mut self, statistic: Statistic, text: &str, unit: Option<f64>) {
        let figure = match (Reading::of(text.trim_end_matches(',')), unit) {
            (Reading::Time(time), _) => time,
            (Reading::Bare(number), Some(unit)) => number.scaled(unit),
            (Reading::Nothing, _) => return,
            _ => return self.unread(text),
        };
        if self.has(statistic) {
            self.begin();
        }
        self.current().distributions.last_mut().into_iter().for_each(|of| of.times.push((statistic, figure)));
    }

    /// Reads a number, or for how long the run lasted.
    fn count(&mut self, count: Count, text: &str) {
        let text = text.trim();
        let bare = text.trim_start_matches('(').trim_end_matches([')', ',']).trim_end_matches("/s");
        let figure = match Reading::of(bare) {
            Reading::Time(time) if count == Count::Seconds => time,
            Reading::Bare(number) if count != Count::Seconds => number,
            Reading::Nothing => return,
            _ => return self.unread(text),
        };
        if self.current().counts.contains_key(&count) {
            self.begin();
        }
        self.current().counts.insert(count, figure);
    }

    /// Adds to a count that is printed in parts.
    fn add(&mut self, count: Count, number: f64) {
        let sum = self.current().counts.entry(count).or_insert(Figure::new(0.0, 0.0));
        *sum = Figure::new(sum.value + number, 0.0);
    }
}
