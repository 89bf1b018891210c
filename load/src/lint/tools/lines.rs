//! The lines of each tool's report, as its versions print them.

use super::Reports;
use crate::lint::columns::quantile;
use crate::lint::figure::Reading;
use crate::lint::{Count, MAX, MEDIAN, MIN, Statistic};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    match Reading::of(text.trim().trim_end_matches(',')) {
        Reading::Bare(number) => Some(number.value),
        _ => None,
    }
}

/// The quantile of `99%`, `99.000%`, `10 %` and so on.
fn percent(text: &str) -> Option<Statistic> {
    text.trim()
        .strip_suffix('%')
        .and_then(|digits| quantile(digits.trim_end_matches('%').trim()))
        .map(Statistic::Quantile)
}

pub(super) fn is_wrk(line: &str) -> bool {
    (line.starts_with("Running ") && line.contains(" test @ "))
        || line.starts_with("Test Results @ ")
        || (line.starts_with("Thread Stats ") && line.contains("Avg"))
}

/// wrk, and wrk2, whose third column is the 99th percentile, whose loop is open, and whose times begin when they should have begun.
pub(super) fn wrk(line: &str, reports: &mut Reports) {
    match words(line)[..] {
        ["Running", _, "test", ..] | ["Test", "Results", ..] => reports.begin(),
        // Only wrk2 has a rate to calibrate for.
        ["Thread", "calibration:", ..] => reports.section = "calibration".to_owned(),
        ["Thread", "Stats", _, _, third, ..] => {
            let open = third != "Max" || reports.section == "calibration";
            // Of another run, if its times stand there already.
            if reports.has(Statistic::Mean) {
                reports.begin();
            }
            reports.section = third.to_owned();
            reports.current().closed_loop = !open;
            reports.current().corrected = true;
        }
        ["Latency", "Distribution", "(HdrHistogram", "-", "Uncorrected", ..] => reports.distribution("uncorrected"),
        ["Latency", mean, _, third, ..] if mean != "Distribution" => {
            reports.time(Statistic::Mean, mean, None);
            let statistic = percent(&reports.section).unwrap_or(MAX);
            reports.time(statistic, third, None);
        }
        [quantile, value]
            if percent(quantile).is_some() && value.starts_with(|letter: char| letter.is_ascii_digit()) =>
        {
            let statistic = percent(quantile).unwrap_or(MAX);
            // The third column says the 99th percentile, or the maximum, too.
            if !(reports.has(statistic) && percent(&reports.section).unwrap_or(MAX) == statistic) {
                reports.time(statistic, value, None);
            }
        }
        [_, "threads", "and", connections, "connections"] => reports.count(Count::Connections, connections),
        [requests, "requests", "in", seconds, ..] => {
            reports.count(Count::Requests, requests);
            reports.count(Count::Seconds, seconds);
        }
        ["Non-2xx", "or", "3xx", "responses:", failed] => reports.count(Count::Failed, failed),
        ["Socket", "errors:", "connect", connect, "read", read, "write", write, "timeout", timeout] => {
            let broken = [connect, read, write].into_iter().filter_map(number).sum();
            reports.add(Count::Broken, broken);
            reports.count(Count::GivenUp, timeout);
        }
        ["Requests/sec:", rate] => reports.count(Count::Throughput, rate),
        _ => {}
    }
}

/// ab, whose times are whole milliseconds.
pub(super) fn ab(line: &str, reports: &mut Reports) {
    let value = line.split_once(':').map_or("", |(_, value)| value);
    let first = words(value).first().copied().unwrap_or_default();
    match words(line)[..] {
        ["This", "is", "ApacheBench,", ..] => reports.begin(),
        ["Concurrency", "Level:", ..] => {
            reports.count(Count::Connections, first);
            reports.current().closed_loop = true;
            reports.current().whole_milliseconds = true;
        }
        ["Time", "taken", "for", "tests:", ..] => reports.count(Count::Seconds, value),
        ["Complete", "requests:", ..] => reports.count(Count::Requests, first),
        ["Failed", "requests:", ..] => reports.count(Count::Failed, first),
        // They may be among those that failed, which have another length than the first response.
        ["Non-2xx", "responses:", ..] => {
            let (failed, more) =
                (reports.current().counts.get(&Count::Failed).map_or(0.0, |of| of.value), number(first));
            reports.add(Count::Failed, (more.unwrap_or(0.0) - failed).max(0.0));
        }
        ["Requests", "per", "second:", ..] => reports.count(Count::Throughput, first),
        ["Total:", min, mean, _, _, max] => {
            for (statistic, value) in [(MIN, min), (Statistic::Mean, mean), (MAX, max)] {
                reports.time(statistic, value, Some(1e-3));
            }
        }
        [quantile, value, ..] if percent(quantile).is_some_and(|of| of != MAX) => {
            let statistic = percent(quantile).unwrap_or(MAX);
            reports.time(statistic, value, Some(1e-3));
        }
        _ => {}
    }
}

pub(super) fn is_hey(line: &str) -> bool {
    ["Summary:", "Slowest:", "Success rate:"].iter().any(|name| line.starts_with(name))
}

/// hey and its predecessor boom, oha, and ghz, whose statuses are those of gRPC.
pub(super) fn hey(line: &str, reports: &mut Reports) {
    if let Some((count, of)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match reports.section.as_str() {
            "Status code distribution" => {
                let responses = words(of).first().and_then(|count| number(count));
                let failed = !(count.starts_with(['2', '3']) || count == "OK");
                reports.add(Count::Requests, responses.unwrap_or(0.0));
                reports.add(Count::Failed, responses.filter(|_| failed).unwrap_or(0.0));
            }
            "Error distribution" => errors(number(count).unwrap_or(0.0), of, reports),
            _ => {}
        };
    }
    if let Some((quantile, value)) = line.split_once(" in ") {
        // `0% in 0.0000 secs` stands where there were too few requests for a quantile.
        if let Some(statistic) = percent(quantile).filter(|of| *of != MIN) {
            reports.time(statistic, value, None);
        }
        return;
    }
    let Some((name, value)) = line.split_once(':') else { return };
    match name {
        "Summary" => reports.begin(),
        // A summary that somebody wrote has other totals.
        "Total" if matches!(Reading::of(value), Reading::Time(_)) => reports.count(Count::Seconds, value),
        "Slowest" => reports.time(MAX, value, None),
        "Fastest" => reports.time(MIN, value, None),
        "Average" => reports.time(Statistic::Mean, value, None),
        "Requests/sec" => reports.count(Count::Throughput, value),
        _ => {}
    }
    if value.is_empty() {
        // `Response time distribution (2xx only):` has times of its own.
        if let Some((_, of)) = name.split_once("distribution (") {
            reports.distribution(of.trim_end_matches(')'));
        }
        reports.section = name.to_owned();
    }
}

/// Requests that ended by an error: they are in the throughput, and in no quantile.
fn errors(count: f64, of: &str, reports: &mut Reports) {
    let of = of.to_lowercase();
    reports.add(Count::Requests, count);
    if of.contains("aborted due to deadline") {
        return reports.add(Count::Cut, count);
    }
    reports.add(Count::Failed, count);
    let given_up = ["timeout", "timed out", "deadline"].iter().any(|word| of.contains(word));
    reports.add(if given_up { Count::GivenUp } else { Count::Broken }, count);
}

pub(super) fn is_k6(line: &str) -> bool {
    k6_metric(line).is_some_and(|(name, values)| {
        values.starts_with("avg=")
            || name.starts_with("http_req")
            || ["checks", "data_received", "dropped_iterations"].contains(&name)
    })
}

/// The name and the values of `✓ http_req_duration......: avg=5ms ..`, or of `{ expected_response:true }...: avg=5ms ..`.
fn k6_metric(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(['✓', '✗', ' ']);
    let (name, values) = line.split_once(": ")?;
    let bare = name.trim_end_matches('.');
    (bare.len() < name.len() && !bare.is_empty()).then_some((bare.trim(), values.trim()))
}

/// k6: trends, rates and counters, in its older summary and in that of 1.0.
pub(super) fn k6(line: &str, reports: &mut Reports) {
    if ["execution: local", "█ TOTAL RESULTS"].iter().any(|first| line.starts_with(first)) {
        reports.begin();
    }
    let Some((name, values)) = k6_metric(line) else { return };
    let first = words(values).first().copied().unwrap_or_default();
    match name {
        "http_reqs" => {
            reports.count(Count::Requests, first);
            let rate = words(values).get(1).copied().unwrap_or_default();
            reports.count(Count::Throughput, rate);
            k6_seconds(reports);
        }
        // `50.00%  ✓ 10  ✗ 10` before 0.5x, where ✓ is a request that failed; later `50.00% 10 out of 20`.
        "http_req_failed" => match words(values)[..] {
            [_, "✓", failed, "✗", ..] | [_, failed, "out", "of", ..] => reports.count(Count::Failed, failed),
            [_, failed, ..] if failed.starts_with('✓') => {
                reports.count(Count::Failed, failed.trim_start_matches('✓'))
            }
            _ => reports.unread(line),
        },
        "dropped_iterations" => reports.count(Count::GivenUp, first),
        _ if values.contains("avg=") || values.contains("p(") || values.contains("med=") => {
            trend(name, values, reports)
        }
        _ => {}
    }
}

/// k6 says the rate, and not how long the run was.
fn k6_seconds(reports: &mut Reports) {
    let counts = &mut reports.current().counts;
    if let (Some(requests), Some(rate)) =
        (counts.get(&Count::Requests).copied(), counts.get(&Count::Throughput).filter(|rate| rate.value > 0.0))
    {
        counts.insert(Count::Seconds, requests.scaled(1.0 / rate.value));
    }
}

fn trend(name: &str, values: &str, reports: &mut Reports) {
    let figures: Vec<_> = words(values).into_iter().filter_map(|word| word.split_once('=')).collect();
    let zero = figures
        .iter()
        .all(|(_, value)| matches!(Reading::of(value), Reading::Time(of) | Reading::Bare(of) if of.value == 0.0));
    // Connections without TLS, for example.
    if zero && name != "http_req_duration" {
        return;
    }
    let name = if name.starts_with('{') { format!("{} {name}", reports.section) } else { name.to_owned() };
    if !name.contains('{') {
        reports.section.clone_from(&name);
    }
    let section = reports.section.clone();
    reports.distribution(&name);
    reports.section = section;
    for (key, value) in figures {
        let statistic = match key {
            "avg" => Some(Statistic::Mean),
            "min" => Some(MIN),
            "max" => Some(MAX),
            "med" => Some(MEDIAN),
            key => key.strip_prefix("p(").and_then(|key| quantile(key.trim_end_matches(')'))).map(Statistic::Quantile),
        };
        // A trend of a script has no unit, unless it says that it is of times.
        if let Some(statistic) = statistic {
            reports.time(statistic, value, Some(1e-3));
        }
    }
}

/// vegeta: names of columns in brackets, then their values.
pub(super) fn vegeta(line: &str, reports: &mut Reports) {
    let Some((head, values)) = line.split_once(']') else { return };
    let Some((name, columns)) = head.split_once('[') else { return };
    let values: Vec<_> = values.split(", ").map(str::trim).collect();
    let columns = columns.split(", ");
    match name.trim() {
        "Requests" => {
            reports.begin();
            for (column, value) in columns.zip(values) {
                match column {
                    "total" => reports.count(Count::Requests, value),
                    "throughput" => reports.count(Count::Throughput, value),
                    _ => {}
                }
            }
        }
        "Duration" => reports.count(Count::Seconds, values.first().copied().unwrap_or_default()),
        "Latencies" => {
            for (column, value) in columns.zip(values) {
                match column {
                    "min" => reports.time(MIN, value, None),
                    "mean" => reports.time(Statistic::Mean, value, None),
                    "max" => reports.time(MAX, value, None),
                    percent => match quantile(percent) {
                        Some(quantile) => reports.time(Statistic::Quantile(quantile), value, None),
                        None => reports.unread(line),
                    },
                }
            }
        }
        "Status Codes" => {
            let counts = values.iter().flat_map(|value| words(value)).filter_map(|word| word.split_once(':'));
            let failed = counts.filter(|(status, _)| !status.starts_with(['2', '3']));
            let failed = failed.filter_map(|(_, count)| number(count)).sum();
            reports.add(Count::Failed, failed);
        }
        _ => {}
    }
}

pub(super) fn is_drill(line: &str) -> bool {
    line.starts_with("Time taken for tests ")
}

/// drill, whose times are whole milliseconds.
pub(super) fn drill(line: &str, reports: &mut Reports) {
    let after = |name: &str| line.strip_prefix(name).map(str::trim);
    if let Some(value) = after("Time taken for tests") {
        reports.count(Count::Seconds, value);
        reports.current().whole_milliseconds = true;
    } else if let Some(value) = after("Total requests") {
        reports.count(Count::Requests, value);
    } else if let Some(value) = after("Failed requests") {
        reports.count(Count::Failed, value);
    } else if let Some(value) = after("Requests per second") {
        reports.count(Count::Throughput, words(value).first().copied().unwrap_or_default());
    } else if let Some(value) = after("Median time per request") {
        reports.time(MEDIAN, value, None);
    } else if let Some(value) = after("Average time per request") {
        reports.time(Statistic::Mean, value, None);
    } else if let Some((digits, value)) = line.split_once("'th percentile")
        && let Some(quantile) = quantile(digits.trim())
    {
        reports.time(Statistic::Quantile(quantile), value, None);
    }
}
