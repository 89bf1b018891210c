//! The counters of the server: calls into its storage (`GET /_counters`), and responses and their times by route (`GET /_metrics`).
//!
//! All are numbers that only grow, by name, so that two readings make a difference. What a text of OpenMetrics has in labels stands in the
//! name: `requests /Product/{id} 2xx`, `answers /Product/{id}` and `answer_ns /Product/{id}`, their number and their time.

use std::collections::BTreeMap;

use serde_json::Value;

/// Counts by their names.
pub type Counters = BTreeMap<String, u64>;

/// The numbers in an object by their names; those in an object within it have its name and a dot before theirs.
pub fn numbers(read: &Value) -> Counters {
    let mut found = Counters::new();
    for (name, value) in read.as_object().into_iter().flatten() {
        found.extend(value.as_u64().map(|number| (name.clone(), number)));
        found.extend(numbers(value).into_iter().map(|(inner, number)| (format!("{name}.{inner}"), number)));
    }
    found
}

/// Returns true for a counter of a route, which is there from the first response of its kind on.
pub fn is_of_a_route(name: &str) -> bool {
    ["requests ", "answers ", "answer_ns "].iter().any(|kind| name.starts_with(kind))
}

/// Answers by route and class, and how long they took, where the server measures it.
pub fn of_routes(metrics: &str) -> Counters {
    metrics.lines().filter_map(of_route).collect()
}

fn of_route(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let label = |name: &str| {
        let from = labels.split_once(&format!("{name}=\""))?.1;
        from.split_once('"').map(|(value, _)| value)
    };
    let (route, value) = (label("route")?, value.parse::<f64>().ok()?);
    match name {
        "strata_requests_total" => Some((format!("requests {route} {}", label("class")?), value as u64)),
        "strata_request_duration_seconds_count" => Some((format!("answers {route}"), value as u64)),
        "strata_request_duration_seconds_sum" => Some((format!("answer_ns {route}"), (value * 1e9) as u64)),
        _ => None,
    }
}

/// Returns the sum of the counters of some servers.
pub fn sum(all: impl Iterator<Item = Counters>) -> Counters {
    let mut sum = Counters::new();
    for (name, number) in all.flatten() {
        *sum.entry(name).or_default() += number;
    }
    sum
}

/// Returns the growth of each counter that has grown.
pub fn grown(before: &Counters, after: &Counters) -> Counters {
    let steps = |(name, after): (&String, &u64)| {
        let steps = after.saturating_sub(before.get(name).copied().unwrap_or(0));
        (steps > 0).then(|| (name.clone(), steps))
    };
    after.iter().filter_map(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> Counters {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn counters_within_counters_have_the_name_of_both() {
        let read = serde_json::json!({"gets": 1, "feed": {"events": 2}, "state": "ready"});
        assert_eq!(numbers(&read), counters(&[("gets", 1), ("feed.events", 2)]));
        assert_eq!(numbers(&Value::Null), Counters::new());
    }

    #[test]
    fn a_route_has_its_classes_and_its_time() {
        let metrics = "# TYPE strata_requests counter\n\
            strata_requests_total{route=\"/T/{id}\",class=\"2xx\"} 3\n\
            strata_requests_total{class=\"4xx\",route=\"static\"} 1\n\
            strata_request_duration_seconds_sum{route=\"/T/{id}\"} 0.000001\n\
            strata_request_duration_seconds_count{route=\"/T/{id}\"} 3\n\
            strata_request_duration_seconds_bucket{le=\"0.1\",route=\"/T/{id}\"} 3\n\
            strata_ready 1\n# EOF\n";
        let found = counters(&[
            ("requests /T/{id} 2xx", 3),
            ("requests static 4xx", 1),
            ("answer_ns /T/{id}", 1000),
            ("answers /T/{id}", 3),
        ]);
        assert_eq!(of_routes(metrics), found);
    }

    #[test]
    fn growth_is_of_what_has_grown() {
        let (before, after) = (counters(&[("a", 1), ("b", 2)]), counters(&[("a", 1), ("b", 5), ("c", 1)]));
        assert_eq!(grown(&before, &after), counters(&[("b", 3), ("c", 1)]));
    }
}
