//! What requests do with a stream, in all and lately: single appends, bulk appends and reads apart.
//!
//! Rates are differences between the counters of now and those of a look in the past; the background work looks each second, so that a
//! request only counts. Times are counted in buckets an eighth of their bound wide; quantiles are those of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use super::Streams;
use crate::error::Result;
use crate::schema::Stream;
use crate::storage::Striped;

/// A kind of request to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// An append of one event.
    Append,
    /// An append of a list of events.
    Bulk,
    /// A read.
    Read,
}

/// What was done for a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Events that were acknowledged or returned.
    pub(crate) events: usize,
    /// Bytes of the body with the events.
    pub(crate) bytes: usize,
    /// Events that were there before, by their idempotency keys.
    pub(crate) duplicates: usize,
}

/// A request to a stream that has no response yet.
#[derive(Clone, Copy, Debug)]
pub struct Unfinished {
    stream: usize,
    kind: RequestKind,
    began: Instant,
}

impl Unfinished {
    /// Times it from now on: it has waited for an event.
    pub fn begin_again(&mut self) {
        self.began = Instant::now();
    }

    /// Returns whether it is an append.
    pub fn appends(&self) -> bool {
        self.kind != RequestKind::Read
    }
}

/// What was done by requests of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// Requests that were carried out and answered, since the streams were opened.
    pub requests: u64,
    /// Events that they have acknowledged or returned.
    pub events: u64,
    /// Bytes of the bodies with these events.
    pub bytes: u64,
    /// Events that were there before, by their idempotency keys.
    pub duplicates: u64,
    /// Requests that were refused, by the name of the problem.
    pub refused: BTreeMap<&'static str, u64>,
    /// The rates over the last 10 seconds.
    pub last10s: Rates,
    /// The rates over the last 60 seconds.
    pub last60s: Rates,
    /// The time from the head to the response of those that were carried out in the last 60 seconds.
    pub microseconds: Quantiles,
}

/// What was done in a second.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Requests that were carried out.
    pub requests_per_second: f64,
    /// Events.
    pub events_per_second: f64,
    /// Bytes.
    pub bytes_per_second: f64,
}

/// Upper bounds of quantiles, at most an eighth too large; `None` where fewer than ten observations lie beyond.
#[derive(Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

/// The counters of a stream, by kind of request.
#[derive(Default)]
pub(super) struct Activities([Counted; 3]);

#[derive(Default)]
struct Counted {
    /// Requests, events, bytes, duplicates.
    done: Striped<4>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    times: Times,
    looks: Mutex<Looks>,
}

struct Looks {
    /// The counters at a time, oldest first: one that is a minute old, and younger ones.
    done: VecDeque<(Instant, [u64; 4])>,
    times: VecDeque<(Instant, Box<[u64]>)>,
}

const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(60);

impl Default for Looks {
    fn default() -> Self {
        let now = Instant::now();
        Self { done: [(now, [0; 4])].into(), times: [(now, Box::from([0; BUCKETS]))].into() }
    }
}

impl Counted {
    fn look(&self, now: Instant) {
        let mut looks = self.looks.lock();
        looks.done.push_back((now, self.done.sums()));
        drop_before(&mut looks.done, now);
        if looks.times.back().is_none_or(|(at, _)| now.duration_since(*at) >= SHORT) {
            looks.times.push_back((now, self.times.counts()));
            drop_before(&mut looks.times, now);
        }
    }

    fn activity(&self, now: Instant) -> Activity {
        let looks = self.looks.lock();
        let done = self.done.sums();
        let [requests, events, bytes, duplicates] = done;
        let rates = |window: Duration| {
            let mut newest_first = looks.done.iter().rev();
            let before = newest_first.find(|(at, _)| now.duration_since(*at) >= window).or(looks.done.front());
            let (at, before) = before.copied().unwrap_or((now, done));
            let seconds = now.duration_since(at).as_secs_f64().max(1e-3);
            let [requests_per_second, events_per_second, bytes_per_second, _] =
                std::array::from_fn(|counter| (done[counter] - before[counter]) as f64 / seconds);
            Rates { requests_per_second, events_per_second, bytes_per_second }
        };
        let mut times = self.times.counts();
        if let Some((_, before)) = looks.times.front() {
            times.iter_mut().zip(before).for_each(|(count, before)| *count -= before);
        }
        Activity {
            requests,
            events,
            bytes,
            duplicates,
            refused: self.refused.lock().clone(),
            last10s: rates(SHORT),
            last60s: rates(LONG),
            microseconds: quantiles(&times),
        }
    }
}

/// Drops the looks of before the last one that is a minute old.
fn drop_before<T>(looks: &mut VecDeque<(Instant, T)>, now: Instant) {
    while looks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= LONG) {
        looks.pop_front();
    }
}

/// Observations by their time. Buckets of up to 8 ns have one value each; each power of two above has eight.
struct Times(Box<[AtomicU64; BUCKETS]>);

/// The last bucket has all that took at least 2^36 ns (69 s).
const BUCKETS: usize = 34 * 8;

impl Default for Times {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

impl Times {
    fn add(&self, took: Duration) {
        self.0[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> Box<[u64]> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

fn bucket(took: Duration) -> usize {
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let octave = (nanoseconds | 7).ilog2().saturating_sub(3);
    ((nanoseconds >> octave) as usize + 8 * octave as usize).min(BUCKETS - 1)
}

/// Returns the least time that is longer than all of a bucket, in microseconds.
fn bound_us(bucket: usize) -> f64 {
    let octave = (bucket / 8).saturating_sub(1);
    ((bucket - 8 * octave + 1) as u64 * (1 << octave)) as f64 / 1000.0
}

fn quantiles(counts: &[u64]) -> Quantiles {
    let all: u64 = counts.iter().sum();
    let quantile = |percent: u64| {
        let beyond = all * (100 - percent) / 100;
        let mut left = all - beyond;
        let holds = |count: &u64| {
            left = left.saturating_sub(*count);
            left == 0
        };
        if beyond < 10 { None } else { counts.iter().position(holds).map(bound_us) }
    };
    Quantiles { p50: quantile(50), p95: quantile(95), p99: quantile(99) }
}

impl Streams {
    /// Returns a request whose head has just arrived, to the stream at a position in the schema.
    pub(crate) fn begun(stream: usize, kind: RequestKind) -> Unfinished {
        Unfinished { stream, kind, began: Instant::now() }
    }

    /// Counts what was done for a request.
    pub(crate) fn done(&self, stream: &Stream, kind: RequestKind, done: Done) -> Result<()> {
        let Done { events, bytes, duplicates } = done;
        let counted = &self.0.activities[self.position(stream)?].0[kind as usize];
        counted.done.add_each([0, events as u64, bytes as u64, duplicates as u64]);
        Ok(())
    }

    /// Counts a request that is answered, and its time; or the name of the problem.
    pub(crate) fn answered(&self, request: Unfinished, refused: Option<&'static str>) {
        let counted = &self.0.activities[request.stream].0[request.kind as usize];
        match refused {
            None => {
                counted.done.add_each([1, 0, 0, 0]);
                counted.times.add(request.began.elapsed());
            }
            Some(problem) => *counted.refused.lock().entry(problem).or_default() += 1,
        }
    }

    /// Returns what requests of a kind have done with a stream.
    ///
    /// # Errors
    /// `Invalid` if the stream is of another database.
    pub fn activity(&self, stream: &Stream, kind: RequestKind) -> Result<Activity> {
        let position = self.position(stream)?;
        Ok(self.0.activities[position].0[kind as usize].activity(Instant::now()))
    }

    /// Returns the sums over all streams: requests, events, bytes, duplicates.
    pub(super) fn sums(&self, kind: RequestKind) -> [u64; 4] {
        let each = self.0.activities.iter().map(|activities| activities.0[kind as usize].done.sums());
        each.fold([0; 4], |all, of| std::array::from_fn(|counter| all[counter] + of[counter]))
    }

    /// Notes the counters of now, of which rates are differences.
    pub(super) fn look(&self) {
        let now = Instant::now();
        self.0.activities.iter().flat_map(|activities| &activities.0).for_each(|counted| counted.look(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_below_the_bound_of_its_bucket_and_not_below_that_of_the_one_before() {
        for exponent in 0..36 {
            for nanoseconds in [(1u64 << exponent) - 1, 1 << exponent, (1 << exponent) + 1, 3 << exponent >> 1] {
                let bucket = bucket(Duration::from_nanos(nanoseconds));
                let below = if bucket == 0 { 0.0 } else { bound_us(bucket - 1) };
                let took_us = nanoseconds as f64 / 1000.0;
                assert!((below..bound_us(bucket)).contains(&took_us), "{nanoseconds} ns in {bucket}");
                assert!(bound_us(bucket) - below <= (took_us / 8.0).max(0.001) * 1.000_001, "{nanoseconds} ns");
            }
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_has_ten_observations_beyond_it() {
        let times = Times::default();
        let add = |number: u64, microseconds| {
            (0..number).for_each(|_| times.add(Duration::from_micros(microseconds)));
            quantiles(&times.counts())
        };
        assert_eq!(add(19, 10), Quantiles { p50: None, p95: None, p99: None });
        let near = |found: Option<f64>, microseconds: f64| {
            found.is_some_and(|found| (microseconds..=microseconds * 1.125).contains(&found))
        };
        let found = add(1, 10);
        assert!(near(found.p50, 10.0) && found.p95.is_none(), "{found:?}");
        add(930, 10);
        let found = add(50, 10_000);
        assert!(near(found.p50, 10.0) && near(found.p95, 10.0) && near(found.p99, 10_000.0), "{found:?}");
    }

    #[test]
    fn rates_are_of_their_window_and_not_of_the_uptime() {
        let counted = Counted::default();
        let start = counted.looks.lock().done[0].0;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let rates = |requests_per_second, events_per_second, bytes_per_second| Rates {
            requests_per_second,
            events_per_second,
            bytes_per_second,
        };
        counted.done.add_each([10, 100, 1000, 0]);
        assert_eq!(counted.activity(at(5)).last10s, rates(2.0, 20.0, 200.0), "there are no ten seconds yet");
        (1..=100).for_each(|second| {
            counted.times.add(Duration::from_millis(1));
            counted.look(at(second));
        });
        let activity = counted.activity(at(100));
        assert_eq!((activity.requests, activity.last60s), (10, rates(0.0, 0.0, 0.0)));
        assert!(activity.microseconds.p50.is_some());
        counted.done.add_each([60, 60, 120, 5]);
        let activity = counted.activity(at(100));
        assert_eq!((activity.last10s, activity.last60s), (rates(6.0, 6.0, 12.0), rates(1.0, 1.0, 2.0)));
        assert_eq!((activity.requests, activity.duplicates), (70, 5));
        (101..=171).for_each(|second| counted.look(at(second)));
        let activity = counted.activity(at(171));
        assert_eq!((activity.last60s, activity.microseconds.p50), (rates(0.0, 0.0, 0.0), None), "a minute later");
        let looks = counted.looks.lock();
        assert!(looks.done.len() <= 62 && looks.times.len() <= 8, "what is older is dropped");
    }
}
