//! The laws applied to reports that other tools printed, and to tables in Markdown.
//!
//! Such a report is read for the figures it has; a law is applied where all of its figures are there and where it holds. Two kinds of
//! mistake are worse than none: a report of which nothing was read passes, and an honest one is called wrong. So a figure is as
//! inexact as it is printed, what was not read is said, and in doubt nothing is said. Nothing found means that no law is broken, not
//! that the figures are right.

mod columns;
mod figure;
mod markdown;
mod tools;

use std::collections::BTreeMap;

use figure::Figure;

/// The figures of one report, or of one row of a table.
#[derive(Debug, Default)]
struct Report {
    place: String,
    distributions: Vec<Distribution>,
    counts: BTreeMap<Count, Figure>,
    /// The texts that should have been read and were not.
    unread: Vec<String>,
    /// Little's law holds, because all of its connections send the next request after a response.
    closed_loop: bool,
    /// The times are corrected for coordinated omission: those of requests that were never sent are among them.
    corrected: bool,
    /// A time of 0 is one that was rounded to whole milliseconds.
    whole_milliseconds: bool,
}

/// Times of the same requests.
#[derive(Debug, Default)]
struct Distribution {
    /// The subject of the times, if it is not all requests.
    name: String,
    times: Vec<(Statistic, Figure)>,
}

/// A statistic of times; their minimum is the quantile 0, their maximum the quantile 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Quantile(f64),
}

const MIN: Statistic = Statistic::Quantile(0.0);
const MEDIAN: Statistic = Statistic::Quantile(0.5);
const MAX: Statistic = Statistic::Quantile(1.0);

/// A figure about all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    /// The duration of the run.
    Seconds,
    /// All requests that had an end, also by an error.
    Requests,
    /// Those of them that failed.
    Failed,
    /// Those that failed without a response, of which no time was recorded.
    Broken,
    /// Those that were given up, or never sent.
    GivenUp,
    /// Those that were in flight at the end of the run.
    Cut,
    /// As printed, in requests a second.
    Throughput,
    Connections,
}

/// A tool rounds what it prints, and its histograms what they hold; only more than this is a contradiction.
const ROUNDING: f64 = 0.02;
/// A share of requests that does not change what is printed of the others.
const NEGLIGIBLE: f64 = 0.001;

/// Returns the contradictions in a report, each with the rule's name.
pub fn report(text: &str) -> Vec<String> {
    // A byte order mark is no text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let found: Vec<_> = tools::read(text).into_iter().chain(markdown::read(text)).collect();
    match found.is_empty() {
        true => vec![format!("T1: nothing was read: no report of {}, and no table of latencies", tools::names())],
        false => found.iter().flat_map(Report::broken).collect(),
    }
}

impl Distribution {
    fn get(&self, statistic: Statistic) -> Option<Figure> {
        self.times.iter().find(|(of, _)| *of == statistic).map(|(_, figure)| *figure)
    }

    /// Quantiles and their times, lowest first.
    fn quantiles(&self) -> Vec<(f64, Figure)> {
        let quantile = |(of, figure): &(Statistic, Figure)| match of {
            Statistic::Mean => None,
            Statistic::Quantile(quantile) => Some((*quantile, *figure)),
        };
        let mut quantiles: Vec<_> = self.times.iter().filter_map(quantile).collect();
        quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        quantiles
    }

    /// The least and the greatest mean that the quantiles allow: among few requests, tools print one that is up to two off.
    fn mean_bounds(&self, requests: f64) -> Option<(f64, f64)> {
        let max = self.get(MAX)?;
        let (mut least, mut most) = (0.0, 0.0);
        let (mut at_least, mut at_most, mut time) = (0.0, 0.0, 0.0);
        for (quantile, figure) in self.quantiles() {
            let (later, earlier) = ((quantile + 2.0 / requests).min(1.0), (quantile - 2.0 / requests).max(at_most));
            least += (later - at_least) * time;
            most += (earlier - at_most) * figure.most;
            (at_least, at_most, time) = (later, earlier, figure.least);
        }
        Some((least, most + (1.0 - at_most) * max.most))
    }
}

impl Report {
    fn count(&self, count: Count) -> Option<f64> {
        self.counts.get(&count).map(|figure| figure.value)
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.unread.is_empty() && self.distributions.iter().all(|of| of.times.is_empty())
    }

    fn broken(&self) -> Vec<String> {
        let mut laws = Laws { place: &self.place, applied: 0, broken: Vec::new() };
        for unread in &self.unread {
            laws.require("T1", false, || format!("not read: {unread}"));
        }
        if let Some(requests) = self.count(Count::Requests) {
            laws.require("T1", requests > 0.0, || "no request: nothing was measured".to_owned());
        }
        for distribution in self.distributions.iter().filter(|distribution| !distribution.times.is_empty()) {
            self.positive(distribution, &mut laws);
            self.ordered(distribution, &mut laws);
        }
        self.conserved(&mut laws);
        self.complete(&mut laws);
        self.little(&mut laws);
        if laws.applied == 0 {
            laws.require("T1", false, || "nothing was read that a law is about".to_owned());
        }
        laws.broken
    }

    fn of(distribution: &Distribution) -> String {
        if distribution.name.is_empty() { String::new() } else { format!("{}: ", distribution.name) }
    }

    fn positive(&self, distribution: &Distribution, laws: &mut Laws<'_>) {
        let positive = self.whole_milliseconds || distribution.times.iter().any(|(_, figure)| figure.value > 0.0);
        laws.require("T1", positive, || format!("{}times of 0: nothing was measured", Self::of(distribution)));
    }

    fn ordered(&self, distribution: &Distribution, laws: &mut Laws<'_>) {
        let quantiles = distribution.quantiles();
        for pair in quantiles.windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            laws.require("T9", before.is_at_most(after, ROUNDING), || {
                let of = Self::of(distribution);
                format!("{of}{} stands before {} in min, quantiles, max", before.milliseconds(), after.milliseconds())
            });
        }
        let (min, mean, max) = (distribution.get(MIN), distribution.get(Statistic::Mean), distribution.get(MAX));
        for (less, more) in [min.zip(mean), mean.zip(max)].into_iter().flatten() {
            laws.require("T9", less.is_at_most(more, ROUNDING), || {
                let of = Self::of(distribution);
                format!("{of}{} stands before {} in min, mean, max", less.milliseconds(), more.milliseconds())
            });
        }
        let requests = self.count(Count::Requests).unwrap_or(f64::INFINITY).max(1.0);
        if let (Some(mean), Some((least, most))) =
            (distribution.get(Statistic::Mean), distribution.mean_bounds(requests))
        {
            let holds = mean.most >= least * (1.0 - ROUNDING) && mean.least <= most * (1.0 + ROUNDING);
            laws.require("T9", holds, || {
                let bounds = format!("{:.3} ms to {:.3} ms", least * 1e3, most * 1e3);
                format!(
                    "{}a mean of {}, where its quantiles allow {bounds}",
                    Self::of(distribution),
                    mean.milliseconds()
                )
            });
        }
    }

    /// Throughput is of the requests that did not fail.
    fn conserved(&self, laws: &mut Laws<'_>) {
        let Some(requests) = self.count(Count::Requests) else { return };
        let failed = self.count(Count::Failed).unwrap_or(0.0);
        laws.require("T3", failed <= requests, || format!("{failed} failed of {requests} requests"));
        let (Some(rate), Some(seconds)) = (self.counts.get(&Count::Throughput), self.counts.get(&Count::Seconds))
        else {
            return;
        };
        let throughput = rate.value;
        let off = |count: f64| (rate.least * seconds.least - count).max(count - rate.most * seconds.most).max(0.0);
        let near = |count: f64| off(count) <= count.max(1.0) * 0.05;
        laws.require("T3", near(requests) || near(requests - failed), || {
            format!("{throughput}/s for {:.3} s are not {requests} requests", seconds.value)
        });
        let far = |count: f64| (throughput * seconds.value - count).abs();
        let counted = failed >= requests * NEGLIGIBLE && far(requests) < far(requests - failed);
        laws.require("T3", !counted, || {
            format!("{failed} of {requests} requests failed and are counted in the {throughput}/s")
        });
    }

    /// All requests are in the quantiles.
    fn complete(&self, laws: &mut Laws<'_>) {
        let requests = self.count(Count::Requests).unwrap_or(0.0);
        // A run that ends cuts off a request of each connection; that is much only where it had few.
        for (rule, count, share, how) in [
            ("T6", Count::Broken, NEGLIGIBLE, "ended by an error"),
            ("T16", Count::GivenUp, NEGLIGIBLE, "were given up, or never sent"),
            ("T16", Count::Cut, 0.1, "were cut off by the end of the run"),
        ] {
            if let Some(lost) = self.count(count) {
                laws.require(rule, lost <= requests * share, || {
                    format!("{lost} requests {how}, and no quantile contains them; {requests} were counted")
                });
            }
        }
    }

    /// Little's law. Where times were corrected, a long one stands for as many more as cycles fit into it, so that their mean may be
    /// any, but half of them are still within two cycles.
    fn little(&self, laws: &mut Laws<'_>) {
        let (Some(throughput), Some(connections)) = (self.count(Count::Throughput), self.count(Count::Connections))
        else {
            return;
        };
        let Some(times) = self.distributions.first().filter(|_| self.closed_loop) else { return };
        let cycle = connections / throughput * 1.05;
        let exact = !self.corrected || times.get(MAX).is_some_and(|max| max.value <= 2.0 * cycle);
        for (statistic, name, within, most) in
            [(Statistic::Mean, "a mean", exact, cycle), (MEDIAN, "a median", true, 2.0 * cycle)]
        {
            if let Some(time) = times.get(statistic).filter(|_| within) {
                laws.require("T9", time.least <= most, || {
                    format!(
                        "Little's law: at {throughput}/s, each of {connections} connections has {:.3} ms for a request, and {name} \
                         is {}",
                        cycle / 1.05 * 1e3,
                        time.milliseconds()
                    )
                });
            }
        }
    }
}

/// Laws that were applied to a report.
struct Laws<'a> {
    place: &'a str,
    applied: usize,
    broken: Vec<String>,
}

impl Laws<'_> {
    fn require(&mut self, rule: &str, holds: bool, how: impl FnOnce() -> String) {
        self.applied += 1;
        if !holds {
            self.broken.push(format!("{}: {rule}: {}", self.place, how()));
        }
    }
}
