//! Counts by route: answers by status class, bytes of bodies, and a histogram of durations where requests are timed.
//!
//! Buckets double from 16 us, so that a count costs a shift and not a search, and the quantile of a histogram is within a factor
//! of two wherever it lies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;

use super::{RouteNumber, write_metric};

/// The upper bound of the first bucket is 2^4 us, that of the last 2^23 us (8.4 s); what is longer is in none.
const FIRST_BUCKET: u32 = 4;
const BUCKETS: usize = 20;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What one recorder has counted.
#[derive(Debug)]
pub(super) struct Counts {
    routes: Box<[Route]>,
    /// One for each route, or none.
    durations: Box<[Durations]>,
}

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Route {
    answers: [AtomicU64; 5],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

#[derive(Debug, Default)]
struct Durations {
    /// Each counts what is in it and not what is in those before it.
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
        add(&counts.answers[class], 1);
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

/// The first bucket whose upper bound is not below a duration.
fn bucket(took: Duration) -> usize {
    let microseconds = took.as_nanos().div_ceil(1000).max(1);
    (microseconds - 1).checked_ilog2().map_or(0, |below| (below + 1).saturating_sub(FIRST_BUCKET)) as usize
}

/// All that recorders have counted together, as text for Prometheus. Routes and classes that nobody has met are left out.
pub(super) fn write(names: &[String], recorders: &[Arc<Counts>], timed: bool, text: &mut String) {
    let routes: Vec<(usize, String)> =
        names.iter().map(|name| format!("route=\"{}\"", escaped(name))).enumerate().collect();
    let sum = |of: &dyn Fn(&Counts) -> &AtomicU64| -> f64 {
        recorders.iter().map(|counts| of(counts).load(Ordering::Relaxed)).sum::<u64>() as f64
    };
    let answers = routes.iter().flat_map(|(number, route)| {
        let class = |(class, name)| {
            (format!("{{{route},class=\"{name}\"}}"), sum(&|counts| &counts.routes[*number].answers[class]))
        };
        CLASSES.into_iter().enumerate().map(class).collect::<Vec<_>>()
    });
    let seen: Vec<_> = answers.filter(|(_, number)| *number > 0.0).collect();
    write_metric(text, "strata_requests_total", "counter", "Requests answered.", seen);
    let bytes = |of: &dyn Fn(&Route) -> &AtomicU64| {
        let all =
            routes.iter().map(|(number, route)| (format!("{{{route}}}"), sum(&|counts| of(&counts.routes[*number]))));
        all.filter(|(_, bytes)| *bytes > 0.0).collect::<Vec<_>>()
    };
    let (bytes_in, bytes_out) = (bytes(&|route| &route.bytes_in), bytes(&|route| &route.bytes_out));
    write_metric(text, "strata_request_body_bytes_total", "counter", "Bytes of bodies that were read.", bytes_in);
    write_metric(text, "strata_answer_body_bytes_total", "counter", "Bytes of bodies that were answered.", bytes_out);
    if timed {
        write_durations(&routes, &sum, text);
    }
}

/// A sum of one counter over all recorders.
type Sum<'a> = dyn Fn(&dyn Fn(&Counts) -> &AtomicU64) -> f64 + 'a;

fn write_durations(routes: &[(usize, String)], sum: &Sum<'_>, text: &mut String) {
    use std::fmt::Write;
    let name = "strata_request_duration_seconds";
    writeln!(text, "# HELP {name} From the head of a request to its answer.\n# TYPE {name} histogram")
        .expect("text grows");
    for (number, route) in routes {
        // Before the answers, which are counted first: so the last bucket never has more than all.
        let buckets: [f64; BUCKETS] =
            std::array::from_fn(|bucket| sum(&|counts| &counts.durations[*number].buckets[bucket]));
        let answers: f64 = (0..CLASSES.len()).map(|class| sum(&|counts| &counts.routes[*number].answers[class])).sum();
        if answers == 0.0 {
            continue;
        }
        let mut so_far = 0.0;
        for (bucket, count) in buckets.into_iter().enumerate() {
            so_far += count;
            let bound = f64::from(1u32 << (FIRST_BUCKET + bucket as u32)) / 1e6;
            writeln!(text, "{name}_bucket{{{route},le=\"{bound}\"}} {so_far}").expect("text grows");
        }
        let seconds = sum(&|counts| &counts.durations[*number].nanoseconds) / 1e9;
        writeln!(text, "{name}_bucket{{{route},le=\"+Inf\"}} {answers}").expect("text grows");
        writeln!(text, "{name}_sum{{{route}}} {seconds}\n{name}_count{{{route}}} {answers}").expect("text grows");
    }
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut text = String::new();
        write(&["a\"b".to_owned()], &[counts], true, &mut text);
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} in {text}");
        has("strata_requests_total{route=\"a\\\"b\",class=\"2xx\"} 4");
        has("strata_request_duration_seconds_bucket{route=\"a\\\"b\",le=\"0.001024\"} 1");
        has("strata_request_duration_seconds_bucket{route=\"a\\\"b\",le=\"0.004096\"} 3");
        has("strata_request_duration_seconds_bucket{route=\"a\\\"b\",le=\"8.388608\"} 3");
        has("strata_request_duration_seconds_bucket{route=\"a\\\"b\",le=\"+Inf\"} 4");
        has("strata_request_duration_seconds_sum{route=\"a\\\"b\"} 20.006");
        assert_eq!(text.matches("# TYPE").count(), 2, "bytes that are none have no metric: {text}");
    }
}
