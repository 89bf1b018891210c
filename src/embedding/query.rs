//! Queries: parsed once, run any number of times.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use self_cell::self_cell;
use serde::de::DeserializeOwned;

use super::database::Database;
use super::record::Record;
use super::row::Row;
use super::table::Table;
use super::view::View;
use crate::encoding::{self, Value};
use crate::error::{Error, Place, Result};
use crate::query::{self, Cursor, Limits};

/// The text of a query, and the table that it is for.
struct Source {
    table: Table,
    text: String,
}

type Tree<'q> = query::Query<'q>;

self_cell!(
    struct Parsed {
        owner: Source,
        #[covariant]
        dependent: Tree,
    }
);

/// A query on a table: conditions, order, limits (docs/queries.md). [`Table::query`] makes one of values, [`Table::parse`] and
/// [`Table::bind`] one of text. It is run on a [`View`]. Clones share it.
#[derive(Clone)]
pub struct Query(Arc<Parsed>);

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Query({}: {})", self.table().name(), self.0.borrow_owner().text)
    }
}

/// A part of a list, and how to get the next one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<'a> {
    /// The records, in order.
    pub records: Vec<Record<'a>>,
    /// What continues behind them; `None` if there are no more.
    pub next: Option<String>,
}

/// Refuses a selection where records are returned as a whole.
fn refuse_selection(tree: &query::Query<'_>) -> Result<()> {
    match tree.clauses.iter().find(|clause| clause.name == "select") {
        None => Ok(()),
        Some(clause) => Err(wrong(clause.position, "what is selected of records is returned by rows()".to_owned())),
    }
}

fn wrong(position: usize, detail: String) -> Error {
    Error::Invalid { detail, place: Place::Position(position) }
}

/// The number of records that an iterator reads first.
const FIRST_ROWS: usize = 64;

/// The greatest number of records that it reads at once, and of a list with an order, which may have to be sorted in memory for each part.
const MOST_ROWS: usize = 1 << 10;
const MOST_SORTED_ROWS: usize = 1 << 16;

/// The bytes of records at about which it reads no more at once, likewise.
const PART_BYTES: usize = 4 << 20;
const SORTED_PART_BYTES: usize = 64 << 20;

impl Query {
    pub(super) fn parse(table: &Table, text: String) -> Result<Self> {
        let source = Source { table: table.clone(), text };
        let parsed = Parsed::try_new(source, |source| {
            // A list without a limit ends with the table.
            let limits = Limits::in_body(usize::MAX);
            let query = query::Query::parse(source.table.schema(), source.table.inner(), &source.text, &limits)?;
            match query.clauses.iter().find(|clause| matches!(clause.name, "explain" | "pagination")) {
                None => Ok(query),
                Some(clause) => Err(wrong(clause.position, format!("{} is for requests to a server", clause.name))),
            }
        });
        parsed.map(|parsed| Self(Arc::new(parsed)))
    }

    pub(super) fn bind(table: &Table, text: &str, values: &[Value<'_>]) -> Result<Self> {
        let (mut all, mut values, mut position) = (String::with_capacity(text.len() + 16), values.iter(), 0);
        // For each value: where it begins in the text that is parsed, its length there, and where it stands in the one that was given.
        let mut places = Vec::new();
        for (number, part) in text.split('?').enumerate() {
            if number > 0 {
                let at = position - 1;
                let value = values.next().ok_or_else(|| wrong(at, "there is no value for this ?".to_owned()))?;
                let value = bound(value, &all).map_err(|detail| wrong(at, detail))?;
                places.push((all.len(), value.len(), at));
                all.push_str(&value);
            }
            all.push_str(part);
            position += part.len() + 1;
        }
        if values.len() > 0 {
            let detail = format!("{} of the values have no ? in the query", values.len());
            return Err(wrong(text.len(), detail));
        }
        Self::parse(table, all).map_err(|error| match error {
            Error::Invalid { detail, place: Place::Position(parsed) } => {
                let before = places.iter().rev().find(|(begin, ..)| *begin <= parsed);
                let given = before.map_or(parsed, |(begin, length, at)| match (parsed - begin).checked_sub(*length) {
                    None => *at,
                    Some(behind) => at + 1 + behind,
                });
                wrong(given, detail)
            }
            other => other,
        })
    }

    /// Returns the table that it is for.
    pub fn table(&self) -> &Table {
        &self.0.borrow_owner().table
    }

    pub(super) fn tree(&self) -> &query::Query<'_> {
        self.0.borrow_dependent()
    }

    /// Iterates over the matching records, in order, each as a whole. Dropped before its end, it reads no further. A list that no index
    /// sorts is sorted anew for each 65 536 records, or 64 MiB of them: an index makes a long one cheap.
    pub fn iter<'a>(&'a self, view: &'a View<'a>) -> Records<'a> {
        Records { query: self, view, read: VecDeque::new(), reading: Reading::of(self) }
    }

    /// Visits the matching records, in order, each as a whole, until `visit` breaks or fails. They stay where the engine has them, which
    /// takes less time than an iterator.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type T @table { id: ID! @primaryKey  n: Int }")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// # let table = database.table("T")?;
    /// # database.create(&table, strata::Json(r#"{"id": "a", "n": 5}"#))?;
    /// use std::ops::ControlFlow;
    ///
    /// let mut sum = 0;
    /// table.query().build()?.each(&database.view(), |record| {
    ///     sum += record.get("n")?.as_i64().unwrap_or(0);
    ///     Ok(if sum < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    /// })?;
    /// assert_eq!(sum, 5);
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Query::first`]; what `visit` returns.
    pub fn each(&self, view: &View<'_>, mut visit: impl FnMut(Record<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let (tree, mut has_broken) = (self.tree(), false);
        refuse_selection(tree)?;
        let visited = tree.run_in(view.database.inner(), self.table().inner(), view.snapshot()?, |record| {
            has_broken = visit(Record::borrowed(record))?.is_break();
            // An error ends the run.
            if has_broken { Err(Error::Stale) } else { Ok(()) }
        });
        if has_broken { Ok(()) } else { visited.map(drop) }
    }

    /// Returns the first matching record.
    ///
    /// # Errors
    /// `Invalid` if the table is of another database, or more records would have to be sorted than fit in memory; what the engine returns.
    pub fn first<'a>(&'a self, view: &View<'_>) -> Result<Option<Record<'a>>> {
        let limit = self.tree().limit.map_or(1, |limit| limit.min(1));
        let (mut records, _) = self.read(view, &self.part(None, limit)?)?;
        Ok(records.pop_front())
    }

    /// Returns the number of matching records, whatever the limit. If an index or the table alone answers it, only keys are read.
    ///
    /// # Errors
    /// As [`Query::first`].
    pub fn count(&self, view: &View<'_>) -> Result<usize> {
        self.tree().count_in(view.database.inner(), self.table().inner(), view.snapshot()?)
    }

    /// Returns as many of the matching records as the limit allows, 10 000 if there is none, behind those of the page that `after` comes
    /// from, and how to go on. A record that does not change stands on one page, whatever is written between two pages.
    ///
    /// # Errors
    /// As [`Query::first`]; `Invalid` if `after` is of another query.
    pub fn page<'a>(&'a self, view: &View<'_>, after: Option<&str>) -> Result<Page<'a>> {
        let cursor = |text| Cursor::parse(text).ok_or_else(|| Error::invalid(format!("{text:?} is not from a page")));
        let after = after.map(cursor).transpose()?;
        let limit = self.tree().limit.filter(|limit| *limit < usize::MAX).unwrap_or(encoding::RECORDS);
        let (records, next) = self.read(view, &self.part(after, limit)?)?;
        Ok(Page { records: records.into(), next: next.map(|cursor| cursor.to_string()) })
    }

    /// Returns what the query selects of each matching record (`select=name,brand{name}`; else all of it), as values of a type that serde
    /// can deserialise.
    ///
    /// # Errors
    /// As [`Query::first`]; `Mismatch` if one is none of the type.
    pub fn rows<T: DeserializeOwned>(&self, view: &View<'_>) -> Result<Vec<T>> {
        let (mut rows, mut reading) = (Vec::new(), Reading::of(self));
        while let Some(tree) = reading.next_part(self)? {
            let (before, mut bytes) = (rows.len(), 0);
            let shown =
                tree.show_in(view.database.inner(), self.table().inner(), view.snapshot()?, |record, json| {
                    let mismatch = |error: serde_json::Error| {
                        let id = record.id().map(|id| id.into_owned()).unwrap_or_default();
                        Error::Mismatch { id, detail: error.to_string() }
                    };
                    rows.push(serde_json::from_slice(json).map_err(mismatch)?);
                    bytes += record.bytes().len().max(json.len());
                    Ok(())
                })?;
            reading.has_read(rows.len() - before, bytes, shown.next);
        }
        Ok(rows)
    }

    /// Deletes the matching records, whatever the limit, in one transaction; returns their number.
    ///
    /// # Errors
    /// `Invalid` if they are more than 10 000, in which case none is deleted; `Busy`; what the engine returns.
    pub fn delete(&self, database: &Database) -> Result<usize> {
        self.tree().clone().delete(database.inner(), self.table().inner(), encoding::RECORDS)
    }

    /// Merges a patch into the matching records, whatever the limit, in one transaction; returns their number.
    ///
    /// # Errors
    /// As [`Query::delete`]; `Invalid` if the patch sets the id, or does not fit; `Conflict` if it sets a unique value.
    pub fn update<'v>(&self, database: &Database, patch: impl Row<'v>) -> Result<usize> {
        let patch = patch.body()?;
        self.tree().clone().update(database.inner(), &patch.fields(self.table().inner())?, encoding::RECORDS)
    }

    /// Merges a patch into the first matching records that no other transaction has locked, at most `most` and no more than the limit, in
    /// one transaction; returns them as they are now. So workers that claim at the same time get different records, and none waits for
    /// another. There may be fewer than there are, or none, while others have locked the rest. The patch should change what the query
    /// matches by: else the same records are claimed again.
    ///
    /// ```
    /// # let schema = strata::Schema::parse("type Job @table { id: ID! @primaryKey  state: String @indexed }")?;
    /// # let database = strata::Database::temporary(&schema)?;
    /// # let jobs = database.table("Job")?;
    /// database.create(&jobs, strata::Json(r#"{"id": "a", "state": "ready"}"#))?;
    /// let ready = jobs.query().eq("state", "ready").build()?;
    /// assert_eq!(ready.claim(&database, 10, jobs.fields().with("state", "running")?)?.len(), 1);
    /// assert_eq!(ready.claim(&database, 10, jobs.fields().with("state", "running")?)?.len(), 0);
    /// # Ok::<(), strata::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Query::update`]; `Invalid` if `most` is 0 or above 10 000.
    pub fn claim<'v>(&self, database: &Database, most: usize, patch: impl Row<'v>) -> Result<Vec<Record<'_>>> {
        if !(1..=encoding::RECORDS).contains(&most) {
            return Err(Error::invalid(format!("1 to {} records are claimed at once, not {most}", encoding::RECORDS)));
        }
        let (patch, most) = (patch.body()?, most.min(self.tree().limit.unwrap_or(most)));
        if most == 0 {
            return Ok(Vec::new());
        }
        let claimed = self.tree().claim(database.inner(), &patch.fields(self.table().inner())?, most)?;
        Ok(claimed.into_iter().map(Record::owned).collect())
    }

    /// Returns the query of a part of the list: so many records behind a cursor, or from where the query begins.
    fn part(&self, after: Option<Cursor>, rows: usize) -> Result<query::Query<'_>> {
        let mut tree = self.tree().clone();
        tree.limit = Some(rows);
        if after.is_some() {
            (tree.after, tree.offset) = (after, 0);
            // A cursor in the text was checked when it was parsed.
            tree.check_cursor(self.table().inner())?;
        }
        Ok(tree)
    }

    /// Reads the records of such a part.
    fn read(&self, view: &View<'_>, tree: &query::Query<'_>) -> Result<(VecDeque<Record<'_>>, Option<Cursor>)> {
        refuse_selection(tree)?;
        // One after another in one piece of memory: records are small, and allocations are not cheap.
        let (table, mut memory, mut ends) = (self.table().inner(), Vec::new(), Vec::new());
        let next = tree.run_in(view.database.inner(), table, view.snapshot()?, |record| {
            memory.extend_from_slice(record.bytes());
            ends.push(memory.len());
            Ok(())
        })?;
        let (memory, mut begin) = (Bytes::from(memory), 0);
        let records = ends.into_iter().map(|end| {
            let bytes = memory.slice(std::mem::replace(&mut begin, end)..end);
            encoding::Record::trusted(table, bytes).map(Record::shared)
        });
        Ok((records.collect::<Result<_>>()?, next))
    }
}

/// Returns a value as the query language reads it literally behind an operator.
///
/// # Errors
/// A message if the operator has no such value.
pub(super) fn bound(value: &Value<'_>, operator: &str) -> std::result::Result<String, String> {
    // Whatever stands behind these is text, without a prefix.
    let is_literal = operator.ends_with("===") || operator.ends_with("!==");
    match value {
        Value::Null if !is_literal && (operator.ends_with("==") || operator.ends_with("!=")) => Ok("null".to_owned()),
        Value::Null => Err("null is compared with eq and ne, == and != alone".to_owned()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Int(value) => Ok(value.to_string()),
        // From 2^53 on the shortest digits are not exact.
        Value::Float(value) if value.abs() >= 9_007_199_254_740_992.0 && value.is_finite() => Ok(format!("{value:.0}")),
        Value::Float(value) if value.is_finite() => Ok(value.to_string()),
        Value::Float(value) => Err(format!("{value} is not a finite number")),
        Value::Text(text) if is_literal => Ok(encoded(text)),
        // Text, also where it reads like a number.
        Value::Text(text) => Ok(format!("string:{}", encoded(text))),
        Value::Date(date) => Ok(encoded(&date.text)),
        Value::Json(text) => Err(format!("a query compares values, not JSON text: {text}")),
        Value::Blob(_) => Err("a query does not compare blobs".to_owned()),
        Value::List(_) => Err("a query compares with one value at a time: use one_of".to_owned()),
    }
}

/// Encodes every byte of a value, so that none of it is syntax.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(3 * text.len()), |mut encoded, byte| {
        // Writing to a String cannot fail.
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}

/// How far a list was read that is read in parts, each longer than the one before: a list that has to be sorted in memory is sorted once
/// for each.
struct Reading {
    next: Next,
    /// The number of records of the next part.
    rows: usize,
    /// How many the limit still allows.
    left: usize,
    /// The greatest number of records, and of bytes, of a part.
    most: (usize, usize),
}

/// Where the next part begins.
enum Next {
    Begin,
    After(Cursor),
    Over,
}

impl Reading {
    fn of(query: &Query) -> Self {
        let most = match query.tree().sort.is_empty() {
            true => (MOST_ROWS, PART_BYTES),
            false => (MOST_SORTED_ROWS, SORTED_PART_BYTES),
        };
        Self { next: Next::Begin, rows: FIRST_ROWS, left: query.tree().limit.unwrap_or(usize::MAX), most }
    }

    /// Returns the query of the next part, if there is one.
    fn next_part<'q>(&mut self, query: &'q Query) -> Result<Option<query::Query<'q>>> {
        let after = match std::mem::replace(&mut self.next, Next::Over) {
            Next::Begin => None,
            Next::After(cursor) => Some(cursor),
            Next::Over => return Ok(None),
        };
        self.rows = self.rows.min(self.left);
        query.part(after, self.rows).map(Some)
    }

    fn has_read(&mut self, records: usize, bytes: usize, next: Option<Cursor>) {
        self.left -= records;
        let (most_rows, most_bytes) = self.most;
        self.rows = (4 * self.rows).min(self.rows * most_bytes / bytes.max(1)).clamp(1, most_rows);
        self.next = next.filter(|_| self.left > 0).map_or(Next::Over, Next::After);
    }
}

/// The matching records of a query, one after another. After an error it has ended. A record that is kept keeps those in memory that were
/// read with it, some mebibytes at most.
#[must_use = "it reads nothing before it is asked for a record"]
pub struct Records<'a> {
    query: &'a Query,
    view: &'a View<'a>,
    /// Records that were read and not taken.
    read: VecDeque<Record<'a>>,
    reading: Reading,
}

impl Records<'_> {
    fn read_more(&mut self) -> Result<()> {
        if let Some(part) = self.reading.next_part(self.query)? {
            let (read, next) = self.query.read(self.view, &part)?;
            self.read = read;
            let bytes = self.read.iter().map(|record| record.json().len()).sum();
            self.reading.has_read(self.read.len(), bytes, next);
        }
        Ok(())
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty()
            && let Err(error) = self.read_more()
        {
            return Some(Err(error));
        }
        self.read.pop_front().map(Ok)
    }
}
