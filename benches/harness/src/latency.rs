//! Latencies of single operations, by kind: histograms that lose nothing.
//!
//! A histogram grows with what it is given, so that no last bucket swallows the slow ones; sum, least and greatest are exact beside it.
//! A quantile is told only if ten operations or more lie beyond it. What is told obeys the laws of order, or there is a defect and the
//! row ends. These are service times of a closed loop: a client asks again when it has its answer, so a stall delays the requests that
//! would have come meanwhile, and they are not in the figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant digits of a histogram's buckets.
const DIGITS: u8 = 3;
/// The factor by which the width of a bucket may raise a quantile.
const ROUNDING: f64 = 1.002;
/// Operations that must lie beyond a quantile.
const BEYOND: f64 = 10.0;

/// The latencies of a workload, by the kind of operation.
pub struct Latencies {
    kinds: &'static [&'static str],
    threads: Mutex<Vec<Arc<Mutex<Vec<Recorded>>>>>,
}

/// Times the operations of one thread. Costs two looks at the clock and a lock that nobody else takes meanwhile.
pub struct Stopwatch(Arc<Mutex<Vec<Recorded>>>);

#[derive(Clone)]
struct Recorded {
    histogram: Histogram<u64>,
    sum_ns: u128,
    least_ns: u64,
    greatest_ns: u64,
}

/// Latencies of one kind of operation, in nanoseconds; `None` = too few operations for this quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: Option<f64>,
    /// Slower than 95 of 100.
    pub p95_ns: Option<f64>,
    /// Slower than 99 of 100.
    pub p99_ns: Option<f64>,
    /// Slower than 999 of 1000.
    pub p999_ns: Option<f64>,
    /// The slowest of all.
    pub max_ns: f64,
}

impl Latencies {
    /// Of operations of these kinds.
    pub fn new(kinds: &'static [&'static str]) -> Self {
        Self { kinds, threads: Mutex::default() }
    }

    /// A stopwatch for one thread.
    pub fn stopwatch(&self) -> Stopwatch {
        let recorded = Arc::new(Mutex::new(vec![Recorded::default(); self.kinds.len()]));
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&recorded));
        Stopwatch(recorded)
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            thread.lock().unwrap_or_else(PoisonError::into_inner).fill(Recorded::default());
        }
    }

    /// Returns the recorded latencies, over all threads; a kind that never happened is absent.
    ///
    /// # Panics
    /// If a law of order is broken.
    pub fn by_kind(&self) -> BTreeMap<&'static str, Latency> {
        let mut all = vec![Recorded::default(); self.kinds.len()];
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (sum, of_thread) in all.iter_mut().zip(thread.lock().unwrap_or_else(PoisonError::into_inner).iter()) {
                sum.add(of_thread);
            }
        }
        let happened = self.kinds.iter().zip(&all).filter(|(_, recorded)| !recorded.histogram.is_empty());
        happened.map(|(kind, recorded)| (*kind, recorded.latency())).collect()
    }
}

impl Stopwatch {
    /// Does an operation of the kind with this number and records how long it took.
    #[inline]
    pub fn time<R>(&self, kind: usize, operation: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = operation();
        self.record(kind, began.elapsed());
        result
    }

    fn record(&self, kind: usize, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[kind].record(took.as_nanos() as u64);
    }
}

impl Default for Recorded {
    fn default() -> Self {
        let histogram = Histogram::new(DIGITS).expect("three digits are a precision");
        Self { histogram, sum_ns: 0, least_ns: u64::MAX, greatest_ns: 0 }
    }
}

impl Recorded {
    fn record(&mut self, nanoseconds: u64) {
        self.histogram.record(nanoseconds).expect("a histogram without bounds grows");
        self.sum_ns += u128::from(nanoseconds);
        self.least_ns = self.least_ns.min(nanoseconds);
        self.greatest_ns = self.greatest_ns.max(nanoseconds);
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("a histogram without bounds grows");
        self.sum_ns += other.sum_ns;
        self.least_ns = self.least_ns.min(other.least_ns);
        self.greatest_ns = self.greatest_ns.max(other.greatest_ns);
    }

    fn latency(&self) -> Latency {
        let count = self.histogram.len();
        let at = |quantile: f64| {
            let told = count as f64 * (1.0 - quantile) >= BEYOND - 1e-9;
            told.then(|| self.histogram.value_at_quantile(quantile).min(self.greatest_ns) as f64)
        };
        let latency = Latency {
            count,
            mean_ns: self.sum_ns as f64 / count as f64,
            p50_ns: at(0.5),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.greatest_ns as f64,
        };
        latency.check(self.least_ns as f64);
        latency
    }
}

impl Latency {
    /// Least, quantiles and greatest ascend, and the mean lies within what they allow.
    fn check(&self, least_ns: f64) {
        let quantiles = [(0.5, self.p50_ns), (0.95, self.p95_ns), (0.99, self.p99_ns), (0.999, self.p999_ns)];
        let told = quantiles.into_iter().filter_map(|(share, value)| Some((share, value?)));
        let points: Vec<(f64, f64)> = [(0.0, least_ns)].into_iter().chain(told).chain([(1.0, self.max_ns)]).collect();
        let (mut least_mean, mut greatest_mean) = (0.0, 0.0);
        for pair in points.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            assert!(low <= high * ROUNDING, "latencies do not ascend: {self:?}, least {least_ns}");
            least_mean += (to - from) * low;
            greatest_mean += (to - from) * high;
        }
        let possible = least_mean / ROUNDING <= self.mean_ns && self.mean_ns <= greatest_mean * ROUNDING;
        assert!(possible, "the mean is not within {least_mean} to {greatest_mean}: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanoseconds: impl IntoIterator<Item = u64>) -> Latency {
        let latencies = Latencies::new(&["read", "never"]);
        let stopwatches = [latencies.stopwatch(), latencies.stopwatch()];
        for (index, one) in nanoseconds.into_iter().enumerate() {
            stopwatches[index % 2].record(0, Duration::from_nanos(one));
        }
        let by_kind = latencies.by_kind();
        assert!(!by_kind.contains_key("never"), "a statistic of nothing is absent");
        by_kind["read"]
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let latency = of((1..=100_000u64).rev());
        assert_eq!((latency.count, latency.mean_ns, latency.max_ns), (100_000, 50_000.5, 100_000.0));
        for (found, expected) in [(latency.p50_ns, 50_000.0), (latency.p95_ns, 95_000.0), (latency.p999_ns, 99_900.0)] {
            let found = found.unwrap();
            assert!((found / expected - 1.0f64).abs() < 0.002, "{found} {expected}");
        }
    }

    #[test]
    fn a_quantile_needs_ten_operations_beyond_it() {
        assert_eq!(of(1..20).p50_ns, None);
        assert!(of(1..=20).p50_ns.is_some());
        assert_eq!(of(1..=199).p95_ns, None);
        assert!(of(1..=200).p95_ns.is_some());
        assert_eq!(of(1..=9_999).p999_ns, None);
        assert!(of(1..=10_000).p999_ns.is_some());
    }

    #[test]
    fn nothing_is_swallowed_however_slow() {
        let hour = 3_600_000_000_000;
        let latency = of([1_000; 20_000].into_iter().chain([hour; 100]));
        assert_eq!((latency.count, latency.max_ns), (20_100, hour as f64));
        assert!((latency.p999_ns.unwrap() / hour as f64 - 1.0).abs() < 0.002);
        assert!((latency.p99_ns.unwrap() / 1_000.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn what_came_before_is_forgotten() {
        let latencies = Latencies::new(&["read"]);
        let stopwatch = latencies.stopwatch();
        stopwatch.record(0, Duration::from_secs(9));
        latencies.clear();
        assert!(latencies.by_kind().is_empty());
        stopwatch.record(0, Duration::from_nanos(5));
        assert_eq!(latencies.by_kind()["read"].max_ns, 5.0);
    }

    #[test]
    #[should_panic(expected = "do not ascend")]
    fn a_broken_order_is_caught() {
        let right = of(1..=1000);
        Latency { p50_ns: Some(1_001.0 * 2.0), ..right }.check(1.0);
    }

    #[test]
    #[should_panic(expected = "the mean is not within")]
    fn an_impossible_mean_is_caught() {
        let right = of(1..=1000);
        Latency { mean_ns: 2_000.0, ..right }.check(1.0);
    }
}
