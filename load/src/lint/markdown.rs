//! The figures in tables of Markdown: a row is a report if its columns are named after quantiles, mean, min or max.

use super::{Figures, number, time};

pub(super) fn read(text: &str) -> Vec<Figures> {
    let (mut found, mut head): (_, Option<Vec<String>>) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            head = None;
            continue;
        };
        let cells: Vec<_> =
            row.trim_end_matches('|').split('|').map(|cell| cell.trim().trim_matches(['*', '`'])).collect();
        match &head {
            None => head = Some(cells.iter().map(|cell| cell.to_ascii_lowercase()).collect()),
            Some(head) => found.extend(figures(at + 1, head, &cells)),
        }
    }
    found
}

fn figures(line: usize, head: &[String], cells: &[&str]) -> Option<Figures> {
    let mut figures = Figures { place: format!("line {line}"), ..Figures::default() };
    for (name, cell) in head.iter().zip(cells) {
        let unit = [("(us)", 1e-6), ("(µs)", 1e-6), ("(s)", 1.0), ("(ns)", 1e-9)];
        let unit = unit.iter().find(|(unit, _)| name.contains(unit)).map_or(1e-3, |(_, scale)| *scale);
        let value = time(&cell.replace(' ', ""), Some(unit));
        let word = name.split([' ', '(']).next().unwrap_or_default();
        match word {
            "mean" | "avg" | "average" => figures.mean = value,
            "min" | "fastest" => figures.min = value,
            "max" | "slowest" | "maximum" => figures.max = value,
            "median" => figures.quantiles.extend(value.map(|value| (0.5, value))),
            "connections" | "vus" | "users" => figures.connections = number(cell),
            _ => {
                let percent = word.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
                figures.quantiles.extend(percent.map(|percent| percent / 100.0).zip(value));
                if matches!(name.as_str(), "requests/sec" | "req/s" | "requests/s" | "rps" | "ok/s") {
                    figures.throughput = number(cell);
                }
            }
        }
    }
    figures.quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    (!figures.quantiles.is_empty() || figures.max.is_some()).then_some(figures)
}
