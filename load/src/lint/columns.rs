//! The names of columns: which statistic of what, in which unit.
//!
//! `p99`, `P99.9 [us]`, `read latency 99th percentile (ms)`, `max_ms`, `median`. What is left of a name without statistic and unit is
//! its subject, and columns of one subject are one distribution: `max rps` beside `p99` is another.

use std::ops::Range;

use super::{Count, MAX, MEDIAN, MIN, Statistic, figure};

/// The content of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) meaning: Option<Meaning>,
    /// The subject of its figures; empty if it is all requests.
    pub(super) subject: String,
    /// The unit of its times in seconds, if it has one.
    pub(super) unit: Option<f64>,
    /// It holds no times, unless its cells have units of time.
    pub(super) counted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Time(Statistic),
    Count(Count),
}

/// Words that name no other subject than the times of requests.
const NEUTRAL: [&str; 20] = [
    "latency",
    "latencies",
    "lat",
    "time",
    "times",
    "response",
    "resp",
    "request",
    "duration",
    "percentile",
    "percentiles",
    "ile",
    "pct",
    "quantile",
    "value",
    "the",
    "of",
    "in",
    "th",
    "and",
];
/// Words of which a statistic is no time.
const COUNTED: [&str; 41] = [
    "per",
    "%",
    "rps",
    "qps",
    "tps",
    "ops",
    "iops",
    "req",
    "reqs",
    "requests",
    "rate",
    "throughput",
    "connections",
    "conns",
    "users",
    "vus",
    "threads",
    "concurrency",
    "clients",
    "workers",
    "count",
    "rows",
    "records",
    "errors",
    "failures",
    "failed",
    "size",
    "b",
    "bytes",
    "kb",
    "kib",
    "mb",
    "mib",
    "gb",
    "gib",
    "cpu",
    "memory",
    "mem",
    "rss",
    "heap",
    "allocations",
];

impl Column {
    /// Reads the name of a column, or of a row in a table that lists its figures one below the other.
    pub(super) fn of(name: &str) -> Self {
        let lower = name.trim().to_lowercase();
        let count = match lower.as_str() {
            "requests/sec" | "req/s" | "req/sec" | "reqs/s" | "requests/s" | "rps" | "ok/s" => Some(Count::Throughput),
            "connections" | "vus" | "users" | "concurrency" => Some(Count::Connections),
            _ => None,
        };
        if let Some(count) = count {
            return Self { meaning: Some(Meaning::Count(count)), subject: String::new(), unit: None, counted: true };
        }
        let words = words(name);
        let found = |at: usize| {
            statistic(&words[at], words.get(at + 1).map(String::as_str)).map(|(of, taken)| (at..at + taken, of))
        };
        let mut candidates: Vec<_> = (0..words.len()).filter_map(found).collect();
        // In `p99 (min)` it is minutes.
        if let Some((first, _)) = candidates.first().cloned() {
            candidates.retain(|(at, _)| at.start == first.start || figure::unit(&words[at.start]).is_none());
        }
        // `10th run p99` is not about the 10th percentile, and `max p99` about neither.
        let named =
            |(at, _): &&(Range<usize>, Statistic)| !words[at.start].starts_with(|letter: char| letter.is_ascii_digit());
        let statistic = candidates.iter().find(named).or(candidates.first());
        let one = candidates.iter().filter(named).all(|(_, other)| statistic.is_some_and(|(_, of)| of == other));
        // What is per second is a rate, and what is in milliseconds per request a time.
        let units = words.iter().position(|word| word == "per").unwrap_or(words.len());
        let (mut unit, mut subject) = (None, Vec::new());
        for (at, word) in words.iter().enumerate() {
            match figure::unit(word) {
                _ if candidates
                    .iter()
                    .any(|(words, of)| words.contains(&at) && statistic.is_some_and(|(_, one)| one == of)) => {}
                Some(scale) if at < units && unit.is_none() => unit = Some(scale),
                _ if NEUTRAL.contains(&word.as_str()) => {}
                _ => subject.push(word.as_str()),
            }
        }
        Self {
            meaning: statistic.filter(|_| one).map(|(_, statistic)| Meaning::Time(*statistic)),
            subject: subject.join(" "),
            counted: unit.is_none() && words.iter().any(|word| COUNTED.contains(&word.as_str())),
            unit,
        }
    }

    /// Returns true if it holds times, whatever its cells say.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.meaning, Some(Meaning::Time(_))) && !self.counted
    }
}

/// The words of a name, in lower case: split at everything but letters and digits, between small letters and capitals, after the
/// digits of a quantile (`p99ms`), and never within a number.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let digit_beside = |at: Option<char>| at.is_some_and(|letter| letter.is_ascii_digit());
        if letter.is_uppercase() && before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit()) {
            spaced.push(' ');
        }
        match letter {
            '.' | '_' | '-' if digit_beside(before) && digit_beside(letters.get(at + 1).copied()) => spaced.push('.'),
            '%' => spaced.push_str(if digit_beside(before) { "th " } else { " % " }),
            '/' => spaced.push_str(" per "),
            letter if letter.is_alphanumeric() => spaced.push(*letter),
            _ => spaced.push(' '),
        }
    }
    let spaced = spaced.to_lowercase();
    let mut words: Vec<String> = Vec::new();
    for word in spaced.split_whitespace() {
        let digits = word.find(|letter: char| letter.is_ascii_digit());
        let tail = digits.and_then(|at| word[at..].find(|letter: char| letter.is_alphabetic()).map(|tail| at + tail));
        let (head, tail) = word.split_at(tail.unwrap_or(word.len()));
        words.extend([head, tail].into_iter().filter(|part| !part.is_empty()).map(str::to_owned));
    }
    words
}

/// The statistic that a word names, alone or together with the next, and how many words that are.
fn statistic(word: &str, next: Option<&str>) -> Option<(Statistic, usize)> {
    let quantile = |digits: &str| quantile(digits).map(Statistic::Quantile);
    let percentile = |word: &str| matches!(word, "th" | "percentile" | "pct" | "ile");
    Some(match (word, next) {
        ("mean" | "avg" | "average", _) => (Statistic::Mean, 1),
        ("median" | "med", _) => (MEDIAN, 1),
        ("min" | "minimum" | "fastest" | "shortest", _) => (MIN, 1),
        ("max" | "maximum" | "slowest" | "longest", _) => (MAX, 1),
        ("p" | "tp" | "pct" | "perc" | "percentile", Some(digits))
            if digits.starts_with(|of: char| of.is_ascii_digit()) =>
        {
            (quantile(digits)?, 2)
        }
        (digits, Some(next)) if percentile(next) => (quantile(digits)?, 2),
        (word, _) => {
            let digits = ["pct", "perc", "tp", "p"].into_iter().find_map(|prefix| word.strip_prefix(prefix))?;
            (quantile(digits)?, 1)
        }
    })
}

/// The quantile of `99`, `99.9`, `999` (99.9 %) or `9999` (99.99 %). What is below 1 says nothing: `p0.9` may be either.
pub(super) fn quantile(digits: &str) -> Option<f64> {
    let percent: f64 = digits.parse().ok()?;
    let percent = match digits.len() {
        length if !digits.contains('.') && percent > 100.0 => percent / 10f64.powi(i32::try_from(length).ok()? - 2),
        _ => percent,
    };
    (percent == 0.0 || (1.0..=100.0).contains(&percent)).then_some(percent / 100.0)
}
