//! Counts by route: responses by status class, bytes of bodies, and a histogram of the durations of timed requests.
//!
//! Bucket bounds double from 16 us, so that finding a bucket takes a shift instead of a search, and any quantile estimated from the
//! histogram is within a factor of two.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::RouteNumber;

/// The upper bound of the first bucket is 2^4 us, that of the last 2^23 us (8.4 s); longer durations are in no bucket.
const FIRST_BUCKET: u32 = 4;
const BUCKETS: usize = 20;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counts of one recorder.
#[derive(Debug)]
pub(super) struct Counts {
    routes: Box<[Route]>,
    /// One for each route, or empty.
    durations: Box<[Durations]>,
}

/// Aligned to a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Route {
    responses: [AtomicU64; 5],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

#[derive(Debug, Default)]
struct Durations {
    /// Not cumulative: each bucket counts only its own durations.
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Counts {
    pub(super) fn new(routes: usize, timed: bool) -> Self {
        let durations = if timed { routes } else { 0 };
        Self {
            routes: (0..routes).map(|_| Route::default()).collect(),
            durations: (0..durations).map(|_| Durations::default()).collect(),
        }
    }

    pub(super) fn count(
        &self,
        route: RouteNumber,
        status: StatusCode,
        bytes_in: u64,
        bytes_out: u64,
        took: Option<Duration>,
    ) {
        let counts = &self.routes[route.0];
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        add(&counts.responses[class], 1);
        add(&counts.bytes_in, bytes_in);
        add(&counts.bytes_out, bytes_out);
        if let Some((durations, took)) = self.durations.get(route.0).zip(took) {
            if let Some(bucket) = durations.buckets.get(bucket(took)) {
                add(bucket, 1);
            }
            add(&durations.nanoseconds, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
    }
}

fn add(counter: &AtomicU64, number: u64) {
    if number > 0 {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

/// Returns the first bucket whose upper bound is at least a duration.
fn bucket(took: Duration) -> usize {
    let microseconds = took.as_nanos().div_ceil(1000).max(1);
    (microseconds - 1).checked_ilog2().map_or(0, |below| (below + 1).saturating_sub(FIRST_BUCKET)) as usize
}

/// The sums over all recorders. Routes and classes without requests are omitted.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) routes: Arc<[String]>,
    pub(super) recorders: Vec<Arc<Counts>>,
}

impl Collector for Totals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let responses = self.names().flat_map(|(route, name)| {
            let class = move |(class, text)| ([("route", name), ("class", text)], self.responses(route, class));
            CLASSES.into_iter().enumerate().map(class)
        });
        encode_counter(&mut encoder, ("strata_requests", None), "Requests answered.", responses)?;
        let bytes = |of: fn(&Route) -> &AtomicU64| {
            self.names().map(move |(route, name)| ([("route", name)], self.sum(|counts| of(&counts.routes[route]))))
        };
        let (read, answered) = (bytes(|route| &route.bytes_in), bytes(|route| &route.bytes_out));
        let name = ("strata_request_body", Some(&Unit::Bytes));
        encode_counter(&mut encoder, name, "Bytes of request bodies read.", read)?;
        let name = ("strata_response_body", Some(&Unit::Bytes));
        encode_counter(&mut encoder, name, "Bytes of response bodies sent.", answered)?;
        match self.recorders.iter().any(|counts| !counts.durations.is_empty()) {
            true => self.encode_durations(&mut encoder),
            false => Ok(()),
        }
    }
}

impl Totals {
    fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.routes.iter().map(String::as_str).enumerate()
    }

    fn sum(&self, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        self.recorders.iter().map(|counts| of(counts).load(Ordering::Relaxed)).sum()
    }

    fn responses(&self, route: usize, class: usize) -> u64 {
        self.sum(|counts| &counts.routes[route].responses[class])
    }

    fn encode_durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("strata_request_duration", "From the head of a request to its answer.");
        let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (route, name) in self.names() {
            let bucket = |bucket| {
                let bound = f64::from(1u32 << (FIRST_BUCKET + bucket as u32)) / 1e6;
                (bound, self.sum(|counts| &counts.durations[route].buckets[bucket]))
            };
            // Read before the responses, which are counted first, so that the buckets never exceed the responses.
            let mut buckets: Vec<(f64, u64)> = (0..BUCKETS).map(bucket).collect();
            let responses: u64 = (0..CLASSES.len()).map(|class| self.responses(route, class)).sum();
            if responses > 0 {
                let longer = responses.saturating_sub(buckets.iter().map(|(_, count)| count).sum());
                buckets.push((f64::INFINITY, longer));
                let seconds = self.sum(|counts| &counts.durations[route].nanoseconds) as f64 / 1e9;
                let labels = [("route", name)];
                metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(seconds, responses, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// Encodes a counter: its name without `_total` and its unit, its description, and a number for each set of labels; zeros are omitted.
fn encode_counter<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, unit): (&str, Option<&Unit>),
    help: &str,
    samples: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut samples = samples.filter(|(_, number)| *number > 0).peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    samples.try_for_each(|(labels, number)| {
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&number, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn bounds_belong_to_their_bucket() {
        let of = |nanoseconds| bucket(Duration::from_nanos(nanoseconds));
        assert_eq!([0, 1, 16_000, 16_001, 32_000, 32_001].map(of), [0, 0, 0, 1, 1, 2]);
        assert_eq!(of(8_388_608_000), BUCKETS - 1);
        assert_eq!(of(8_388_608_001), BUCKETS, "in none");
        assert!(bucket(Duration::MAX) > BUCKETS);
    }

    #[test]
    fn a_histogram_adds_up() {
        let counts = Arc::new(Counts::new(1, true));
        for milliseconds in [1, 2, 3, 20_000] {
            counts.count(RouteNumber(0), StatusCode::OK, 0, 0, Some(Duration::from_millis(milliseconds)));
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Totals { routes: ["a\"b".to_owned()].into(), recorders: vec![counts] }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} in {text}");
        has("strata_requests_total{route=\"a\\\"b\",class=\"2xx\"} 4");
        has("strata_request_duration_seconds_bucket{le=\"0.001024\",route=\"a\\\"b\"} 1");
        has("strata_request_duration_seconds_bucket{le=\"0.004096\",route=\"a\\\"b\"} 3");
        has("strata_request_duration_seconds_bucket{le=\"8.388608\",route=\"a\\\"b\"} 3");
        has("strata_request_duration_seconds_bucket{le=\"+Inf\",route=\"a\\\"b\"} 4");
        has("strata_request_duration_seconds_sum{route=\"a\\\"b\"} 20.006");
        assert_eq!(text.matches("# TYPE").count(), 2, "bytes that are none have no metric: {text}");
    }
}
