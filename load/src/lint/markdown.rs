//! The figures in tables of Markdown, as GitHub renders them: a row is a report if its columns are named after statistics, or a column
//! if its rows are.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::columns::{Column, Meaning};
use super::figure::{self, Figure, Reading};
use super::{Distribution, MAX, MIN, Report, Statistic};

/// The rows of a table with their lines, the names of its columns first.
type Table = Vec<(usize, Vec<String>)>;

pub(super) fn read(text: &str) -> Vec<Report> {
    tables(text).iter().flat_map(reports).collect()
}

fn tables(text: &str) -> Vec<Table> {
    let (text, lines) = spaced(text);
    let (mut tables, mut within): (Vec<Table>, bool) = (Vec::new(), false);
    for (event, span) in
        Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter()
    {
        match event {
            Event::Start(Tag::Table(_)) => tables.push(Table::new()),
            Event::Start(Tag::TableHead | Tag::TableRow) => {
                let line = lines[text[..span.start].matches('\n').count()];
                tables.last_mut().into_iter().for_each(|table| table.push((line, Vec::new())));
            }
            Event::Start(Tag::TableCell) => {
                within = true;
                cells(&mut tables).into_iter().for_each(|cells| cells.push(String::new()));
            }
            Event::End(TagEnd::TableCell) => within = false,
            Event::Text(part) | Event::Code(part) if within => {
                cells(&mut tables).and_then(|cells| cells.last_mut()).into_iter().for_each(|cell| cell.push_str(&part));
            }
            // A line break in a cell.
            Event::InlineHtml(_) if within => {
                cells(&mut tables).and_then(|cells| cells.last_mut()).into_iter().for_each(|cell| cell.push(' '));
            }
            _ => {}
        }
    }
    tables
}

/// The text with an empty line before each table, and the lines' numbers: GitHub ends a paragraph where a table begins, and the parser
/// does not.
fn spaced(text: &str) -> (String, Vec<usize>) {
    let dashes =
        |line: &str| line.contains('|') && line.contains('-') && line.chars().all(|letter| " \t>|:-".contains(letter));
    let (mut spaced, mut numbers) = (String::new(), Vec::new());
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let quotation = &line[..line.find(|letter| !" \t>".contains(letter)).unwrap_or(line.len())];
        let begins = line.contains('|') && lines.get(at + 1).is_some_and(|next| dashes(next));
        for part in [quotation.trim_end(), line].into_iter().skip(usize::from(!begins)) {
            spaced.push_str(part);
            spaced.push('\n');
            numbers.push(at + 1);
        }
    }
    (spaced, numbers)
}

fn cells(tables: &mut [Table]) -> Option<&mut Vec<String>> {
    tables.last_mut()?.last_mut().map(|(_, cells)| cells)
}

fn reports(table: &Table) -> Vec<Report> {
    let Some(((head_line, head), rows)) = table.split_first() else { return Vec::new() };
    let names: Vec<Column> = head.iter().map(|name| Column::of(name)).collect();
    if names.iter().any(Column::is_time) {
        let row = |(line, cells): &(usize, Vec<String>)| {
            let closed = head.iter().chain(cells).any(|text| text.to_lowercase().contains("closed"));
            report(format!("line {line}"), closed, names.iter().zip(cells))
        };
        return rows.iter().filter_map(row).collect();
    }
    let named = |at: &usize| rows.iter().any(|(_, cells)| Column::of(&cells[*at]).is_time());
    let Some(labels) = (0..head.len()).find(named) else { return Vec::new() };
    let unit = head.iter().position(|name| ["unit", "units"].contains(&name.trim().to_lowercase().as_str()));
    let name = |(_, cells): &(usize, Vec<String>)| match unit {
        Some(unit) => Column::of(&format!("{} ({})", cells[labels], cells[unit])),
        None => Column::of(&cells[labels]),
    };
    let names: Vec<Column> = rows.iter().map(name).collect();
    let column = |at: usize| {
        let closed = head[at].to_lowercase().contains("closed");
        let cells = rows.iter().map(|(_, cells)| &cells[at]);
        report(format!("line {head_line}, column {}", at + 1), closed, names.iter().zip(cells))
    };
    (labels + 1..head.len()).filter(|at| Some(*at) != unit).filter_map(column).collect()
}

fn report<'a>(
    place: String,
    closed_loop: bool,
    figures: impl Iterator<Item = (&'a Column, &'a String)>,
) -> Option<Report> {
    let mut report = Report { place, closed_loop, ..Report::default() };
    // Times without a unit are compared only with each other.
    let mut without_unit = Vec::new();
    for (column, cell) in figures {
        match (column.meaning, Reading::of(cell)) {
            (Some(Meaning::Count(count)), Reading::Bare(figure)) => {
                report.counts.insert(count, figure);
            }
            (Some(Meaning::Time(statistic)), Reading::Time(time)) => {
                place_in(&mut report.distributions, &column.subject, statistic, time);
            }
            (Some(Meaning::Time(statistic)), Reading::Bare(number)) if !column.counted => match column.unit {
                Some(unit) => place_in(&mut report.distributions, &column.subject, statistic, number.scaled(unit)),
                None => place_in(&mut without_unit, &column.subject, statistic, number.scaled(1e-3)),
            },
            (Some(Meaning::Time(_)), Reading::Other) if figure::is_unclear(cell) => report.unread.push(cell.clone()),
            _ => {}
        }
    }
    // Without a unit, quantiles are surely times, and a mean only beside another statistic: `load average` is none.
    let timely = |of: &Distribution| {
        let mean = of.get(Statistic::Mean).is_some() && of.times.len() > 1;
        mean || of.times.iter().any(|(statistic, _)| ![MIN, Statistic::Mean, MAX].contains(statistic))
    };
    report.distributions.extend(without_unit.into_iter().filter(timely));
    // Little's law is about the first: the times of all requests.
    report.distributions.sort_by_key(|of| !of.name.is_empty());
    (!report.distributions.is_empty() || !report.unread.is_empty()).then_some(report)
}

/// Puts a time beside the others of its subject; the second of a kind is of another distribution.
fn place_in(distributions: &mut Vec<Distribution>, subject: &str, statistic: Statistic, time: Figure) {
    match distributions.iter_mut().find(|of| of.name == subject && of.get(statistic).is_none()) {
        Some(distribution) => distribution.times.push((statistic, time)),
        None => distributions.push(Distribution { name: subject.to_owned(), times: vec![(statistic, time)] }),
    }
}
