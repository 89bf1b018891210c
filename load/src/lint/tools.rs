//! The figures in what each tool prints for people.

use super::{Figures, number, time};

/// The report of the tool that the text is of; none if it is of none.
pub(super) fn read(text: &str) -> Option<Figures> {
    let reader = match () {
        () if text.contains("Thread Stats") => wrk,
        () if text.contains("http_req_duration") => k6,
        () if text.contains("[total, attack, wait]") => vegeta,
        () if text.contains("Time taken for tests") => drill,
        () if text.contains("Slowest:") && text.contains("Fastest:") => hey_and_oha,
        () => return None,
    };
    let mut figures = Figures::default();
    text.lines().for_each(|line| reader(line.trim(), &mut figures));
    figures.place = "report".to_owned();
    Some(figures)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn wrk(line: &str, figures: &mut Figures) {
    let words = words(line);
    match words[..] {
        ["Latency", mean, _, max, ..] if mean != "Distribution" => {
            (figures.mean, figures.max) = (time(mean, None), time(max, None))
        }
        [quantile, value] if quantile.ends_with('%') => {
            let quantile = quantile.trim_end_matches('%').parse::<f64>().ok();
            figures.quantiles.extend(quantile.map(|percent| percent / 100.0).zip(time(value, None)));
        }
        [_, "threads", "and", connections, "connections"] => figures.connections = number(connections),
        [requests, "requests", "in", seconds, ..] => {
            (figures.requests, figures.seconds) = (number(requests), time(seconds.trim_end_matches(','), None));
        }
        ["Non-2xx", "or", "3xx", "responses:", failed] => figures.failed = number(failed),
        ["Requests/sec:", rate] => figures.throughput = number(rate),
        _ => {}
    }
}

fn hey_and_oha(line: &str, figures: &mut Figures) {
    let Some((name, value)) = line.split_once(':') else {
        if let Some((quantile, value)) = line.split_once("% in ").or_else(|| line.split_once("%% in ")) {
            let quantile = quantile.trim().parse::<f64>().ok().map(|percent| percent / 100.0);
            figures.quantiles.extend(quantile.zip(time(value, None)));
        }
        // [503] 12 responses
        if let Some((status, count)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let count = count.split_whitespace().next().and_then(number).unwrap_or(0.0);
            *figures.requests.get_or_insert(0.0) += count;
            *figures.failed.get_or_insert(0.0) +=
                if status.starts_with('2') || status.starts_with('3') { 0.0 } else { count };
        }
        return;
    };
    match name {
        "Total" => figures.seconds = time(value, None),
        "Slowest" => figures.max = time(value, None),
        "Fastest" => figures.min = time(value, None),
        "Average" => figures.mean = time(value, None),
        "Requests/sec" => figures.throughput = number(value),
        _ => {}
    }
}

fn k6(line: &str, figures: &mut Figures) {
    let Some((name, value)) = line.split_once(':') else { return };
    match name.trim_end_matches('.').trim_start_matches(|mark: char| !mark.is_ascii_alphabetic()) {
        "http_req_duration" => {
            for (key, value) in words(value).into_iter().filter_map(|word| word.split_once('=')) {
                let value = time(value, None);
                match key {
                    "avg" => figures.mean = value,
                    "min" => figures.min = value,
                    "max" => figures.max = value,
                    "med" => figures.quantiles.extend(value.map(|value| (0.5, value))),
                    key => {
                        let percent =
                            key.strip_prefix("p(").and_then(|key| key.trim_end_matches(')').parse::<f64>().ok());
                        figures.quantiles.extend(percent.map(|percent| percent / 100.0).zip(value));
                    }
                }
            }
            figures.quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        "http_reqs" => {
            let words = words(value);
            figures.requests = words.first().and_then(|count| number(count));
            figures.throughput = words.get(1).and_then(|rate| number(rate.trim_end_matches("/s")));
            figures.seconds = figures.requests.zip(figures.throughput).map(|(requests, rate)| requests / rate);
        }
        "http_req_failed" => {
            let words = words(value);
            figures.failed = words.iter().position(|word| *word == "out").and_then(|at| number(words[at - 1]));
        }
        _ => {}
    }
}

fn vegeta(line: &str, figures: &mut Figures) {
    let Some((head, values)) = line.split_once(']') else { return };
    let Some((name, columns)) = head.split_once('[') else { return };
    let values: Vec<_> = values.split(", ").map(str::trim).collect();
    match name.trim() {
        "Requests" => {
            figures.requests = values.first().and_then(|value| number(value));
            figures.throughput = values.get(2).and_then(|value| number(value));
        }
        "Duration" => figures.seconds = values.first().and_then(|value| time(value, None)),
        "Latencies" => {
            for (column, value) in columns.split(", ").zip(values) {
                let value = time(value, None);
                match column {
                    "min" => figures.min = value,
                    "mean" => figures.mean = value,
                    "max" => figures.max = value,
                    percent => {
                        let quantile = percent.parse::<f64>().ok().map(|percent| percent / 100.0);
                        figures.quantiles.extend(quantile.zip(value));
                    }
                }
            }
        }
        "Status Codes" => {
            let counts = values.iter().flat_map(|value| words(value)).filter_map(|word| word.split_once(':'));
            let failed = counts.filter(|(status, _)| !status.starts_with(['2', '3']));
            figures.failed = Some(failed.filter_map(|(_, count)| number(count)).sum());
        }
        _ => {}
    }
}

fn drill(line: &str, figures: &mut Figures) {
    let after = |name: &str| line.strip_prefix(name).map(str::trim);
    if let Some(value) = after("Time taken for tests") {
        figures.seconds = time(value, None);
    } else if let Some(value) = after("Total requests") {
        figures.requests = number(value);
    } else if let Some(value) = after("Failed requests") {
        figures.failed = number(value);
    } else if let Some(value) = after("Requests per second") {
        figures.throughput = value.split_whitespace().next().and_then(number);
    } else if let Some(value) = after("Median time per request") {
        figures.quantiles.extend(time(value, None).map(|value| (0.5, value)));
    } else if let Some(value) = after("Average time per request") {
        figures.mean = time(value, None);
    } else if let Some((quantile, value)) = line.split_once("'th percentile") {
        let quantile = quantile.trim().parse::<f64>().ok().map(|percent| percent / 100.0);
        figures.quantiles.extend(quantile.zip(time(value, None)));
    }
}
