//! The laws applied to reports that other tools printed: wrk, hey, oha, k6, vegeta, drill, and tables in Markdown.
//!
//! Such a report is read for the figures it has; a law is applied where all of its figures are there. Nothing found means that no
//! law is broken, not that the figures are right.

mod markdown;
mod tools;

/// The figures of one report, or of one row of a table; times in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    place: String,
    quantiles: Vec<(f64, f64)>,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    /// How long it took.
    seconds: Option<f64>,
    /// All requests that had an end.
    requests: Option<f64>,
    /// Those of them that failed.
    failed: Option<f64>,
    /// As printed, in requests a second.
    throughput: Option<f64>,
    /// Users of a closed loop.
    connections: Option<f64>,
}

/// A tool rounds what it prints; only more than this is a contradiction.
const ROUNDING: f64 = 0.02;

/// What contradicts what in a report, each with the rule's name.
pub fn report(text: &str) -> Vec<String> {
    let found: Vec<_> = tools::read(text).into_iter().chain(markdown::read(text)).collect();
    match found.is_empty() {
        true => vec!["T1: no figures of wrk, hey, oha, k6, vegeta or drill, and no table with latencies".to_owned()],
        false => found.iter().flat_map(laws).collect(),
    }
}

fn laws(figures: &Figures) -> Vec<String> {
    let mut broken = Vec::new();
    let mut require = |rule: &str, holds: bool, how: String| {
        if !holds {
            broken.push(format!("{}: {rule}: {how}", figures.place));
        }
    };
    let milliseconds = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
    let times: Vec<f64> = figures.quantiles.iter().map(|quantile| quantile.1).chain(figures.max).collect();
    require(
        "T1",
        times.is_empty() || times.iter().any(|time| *time > 0.0),
        "times of 0: nothing was measured".to_owned(),
    );
    let order: Vec<f64> = figures.min.into_iter().chain(times.iter().copied()).collect();
    for pair in order.windows(2) {
        require(
            "T9",
            pair[0] <= pair[1] * (1.0 + ROUNDING),
            format!("{} stands before {} in min, quantiles, max", milliseconds(pair[0]), milliseconds(pair[1])),
        );
    }
    if let (Some(mean), Some((least, most))) = (figures.mean, mean_bounds(figures)) {
        let holds = (least * (1.0 - ROUNDING)..=most * (1.0 + ROUNDING)).contains(&mean);
        let bounds = format!("{} to {}", milliseconds(least), milliseconds(most));
        require("T9", holds, format!("a mean of {}, where its quantiles allow {bounds}", milliseconds(mean)));
    }
    if let (Some(throughput), Some(seconds), Some(requests)) = (figures.throughput, figures.seconds, figures.requests) {
        let failed = figures.failed.unwrap_or(0.0);
        let near = |count: f64| (throughput * seconds - count).abs() <= count.max(1.0) * 0.05;
        require(
            "T3",
            near(requests) || near(requests - failed),
            format!("{throughput}/s for {seconds} s are not {requests} requests"),
        );
        let off = |count: f64| (throughput * seconds - count).abs();
        require(
            "T3",
            failed < requests * 0.001 || off(requests) >= off(requests - failed),
            format!("{failed} of {requests} requests failed and are counted in the {throughput}/s"),
        );
    }
    if let (Some(throughput), Some(mean), Some(connections)) = (figures.throughput, figures.mean, figures.connections) {
        let busy = throughput * mean;
        require(
            "T9",
            busy <= connections * 1.05,
            format!(
                "Little's law: {throughput}/s of {} each keep {busy:.1} connections busy, and there are {connections}",
                milliseconds(mean)
            ),
        );
    }
    broken
}

fn mean_bounds(figures: &Figures) -> Option<(f64, f64)> {
    let max = figures.max?;
    let (mut before, mut least, mut most) = ((0.0, figures.min.unwrap_or(0.0)), 0.0, 0.0);
    for (quantile, time) in figures.quantiles.iter().copied().chain([(1.0, max)]) {
        least += (quantile - before.0) * before.1;
        most += (quantile - before.0) * time;
        before = (quantile, time);
    }
    Some((least, most))
}

/// A time as tools print it, `1.5ms`, `250us`, `2.1 secs`, `1m2s`; seconds. A bare number has the unit that is given.
fn time(text: &str, unit: Option<f64>) -> Option<f64> {
    let text = text.trim().trim_end_matches(',');
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let rest = rest.trim();
    let minutes = rest.strip_prefix('m').filter(|after| after.starts_with(|letter: char| letter.is_ascii_digit()));
    if let Some(seconds) = minutes {
        return Some(number * 60.0 + time(seconds, None)?);
    }
    let scale = match rest.to_ascii_lowercase().as_str() {
        "" => unit?,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "ns" => 1e-9,
        "m" | "min" => 60.0,
        _ => return None,
    };
    Some(number * scale)
}

/// A number, with `k` or `M` or commas.
fn number(text: &str) -> Option<f64> {
    let text = text.trim().replace([',', '_'], "");
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (text.strip_suffix('M').unwrap_or(&text), if text.ends_with('M') { 1e6 } else { 1.0 }),
    };
    digits.trim_end_matches("/s").parse::<f64>().ok().map(|number| number * scale)
}
