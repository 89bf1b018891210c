//! The findings of a workload beside its time: latencies by the kind of operation, and measures by name.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::latency::{Latencies, Latency};

/// The findings of a workload beside its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Found {
    latencies: BTreeMap<&'static str, Latency>,
    measures: BTreeMap<&'static str, Measure>,
}

/// A figure with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Measure {
    value: f64,
    unit: &'static str,
}

impl Found {
    /// With the latencies of all kinds of operations that happened.
    #[must_use]
    pub fn latencies(mut self, latencies: &Latencies) -> Self {
        self.latencies.extend(latencies.by_kind());
        self
    }

    /// With a measure. A unit is a word (`bytes`, `seconds`, `ratio`), and a value that could not be found is left out by the caller.
    ///
    /// # Panics
    /// If the value is not finite: that is a statistic of nothing.
    #[must_use]
    pub fn measure(mut self, name: &'static str, value: f64, unit: &'static str) -> Self {
        assert!(value.is_finite(), "{name} of {value} {unit} is no figure");
        let before = self.measures.insert(name, Measure { value, unit });
        assert!(before.is_none(), "{name} is measured twice");
        self
    }

    /// Clients that wait for one answer at a time cannot have waited longer than they lived (Little's law of a closed loop).
    pub(crate) fn check_against(&self, timed: Duration, threads: usize, id: &str) {
        let waited_ns: f64 = self.latencies.values().map(|latency| latency.mean_ns * latency.count as f64).sum();
        let lived_ns = timed.as_nanos() as f64 * threads as f64;
        assert!(waited_ns <= lived_ns * 1.001, "{id}: {waited_ns} ns of latency in {lived_ns} ns of {threads} threads");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "is no figure")]
    fn a_ratio_of_nothing_is_no_figure() {
        let _ = Found::default().measure("write_amplification", f64::NAN, "ratio");
    }

    #[test]
    fn clients_cannot_wait_longer_than_they_live() {
        let latencies = Latencies::new(&["sleep"]);
        latencies.stopwatch().time(0, || std::thread::sleep(Duration::from_millis(5)));
        let found = Found::default().latencies(&latencies);
        found.check_against(Duration::from_secs(1), 1, "test/sleep/strata/1");
        let impossible = || found.check_against(Duration::from_millis(1), 4, "test/sleep/strata/1");
        assert!(std::panic::catch_unwind(impossible).is_err());
    }
}
