//! Writes the selected part of a record: its stored text as a whole, or the requested members in order, including related records.
//!
//! Nothing is parsed or serialised: the texts of the values are stored in the records, and are copied. Related records are read for a batch
//! of records at a time, one relationship after another (`related`).

use std::rc::Rc;

use super::budget::StepBudget;
use super::cursor::Cursor;
use super::related::each_chunk;
use super::source::Source;
use super::tree::{Item, Query, Selection};
use crate::encoding::Record;
use crate::error::{Error, Result};
use crate::schema::Table;
use crate::storage::Snapshot;
use crate::transaction::Database;

/// The number of records whose related records are read at once.
const JOINED_ROWS: usize = 128;

/// The maximum memory for the texts of the related records of one such batch, in bytes.
pub const JOINED_BYTES: usize = 64 << 20;

/// The outcome of showing a list.
#[derive(Debug)]
pub struct ListOutcome {
    /// The cursor of the next page, if the list is as long as its limit and there may be more records.
    pub next: Option<Cursor>,
    /// The number of records without `limit`, `offset` and `after`, if `pagination` requests it.
    pub total: Option<usize>,
}

impl Query<'_> {
    /// Returns whether related records are selected.
    pub fn shows_related(&self) -> bool {
        self.select.as_ref().is_some_and(Selection::has_related)
    }

    /// Returns the names of the selected members in order.
    pub(crate) fn shown_names<'t>(&'t self, table: &'t Table) -> Vec<&'t str> {
        match &self.select {
            Some(selection) => selection.items.iter().map(|item| item.name(table)).collect(),
            None => table.attributes.iter().map(|attribute| attribute.name.as_str()).collect(),
        }
    }

    /// Visits the matching records in order, at one snapshot, each with its selection as a JSON object.
    ///
    /// # Errors
    /// As [`Query::run`]; `Invalid` if related records do not fit in memory; errors of `visit`.
    pub fn show(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    ) -> Result<ListOutcome> {
        if !self.shows_related() && !self.pagination {
            let next = self.run_to(database, table, |record| self.show_record(&record, &mut visit))?;
            return Ok(ListOutcome { next, total: None });
        }
        self.show_in(database, table, &database.store().snapshot(database.tier())?, visit)
    }

    /// Like [`Query::show`], at a snapshot.
    ///
    /// # Errors
    /// As [`Query::show`].
    pub(crate) fn show_in(
        &self,
        database: &Database,
        table: &Table,
        snapshot: &Snapshot<'_>,
        mut visit: impl FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    ) -> Result<ListOutcome> {
        self.check(database, table)?;
        let budget = StepBudget::of(database);
        let source = Source::of(database, table, snapshot, &budget);
        let next = match &self.select {
            Some(selection) if selection.has_related() => {
                let mut batch = Vec::new();
                let mut show = |batch: &mut Vec<Vec<u8>>| self.show_joined(selection, source, batch, &mut visit);
                let next = self.run_at(source, |record| {
                    batch.push(record.bytes().to_vec());
                    if batch.len() == JOINED_ROWS { show(&mut batch) } else { Ok(()) }
                })?;
                show(&mut batch)?;
                next
            }
            _ => self.run_at(source, |record| self.show_record(&record, &mut visit))?,
        };
        let total = self.pagination.then(|| self.count_at(source)).transpose()?;
        Ok(ListOutcome { next, total })
    }

    /// Returns the selection of a record as a JSON object, for a query without related records.
    ///
    /// # Errors
    /// `Corrupt` if the record is corrupt.
    pub(crate) fn text_of(&self, record: &Record<'_, &[u8]>) -> Result<Vec<u8>> {
        let mut text = Vec::with_capacity(256);
        self.show_record(record, &mut |_: &Record<'_, &[u8]>, shown: &[u8]| {
            text.extend_from_slice(shown);
            Ok(())
        })?;
        Ok(text)
    }

    pub(super) fn show_record<V>(&self, record: &Record<'_, &[u8]>, visit: &mut V) -> Result<()>
    where
        V: FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    {
        let Some(selection) = &self.select else { return visit(record, record.json()) };
        let mut text = Vec::with_capacity(256);
        selection.write(record, &[], &mut text)?;
        visit(record, &text)
    }

    /// Shows the records of a batch with their related records, and empties the batch.
    fn show_joined<V>(
        &self,
        selection: &Selection,
        source: Source<'_>,
        batch: &mut Vec<Vec<u8>>,
        visit: &mut V,
    ) -> Result<()>
    where
        V: FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    {
        let records: Result<Vec<_>> = batch.iter().map(|bytes| Record::trusted(source.table, &bytes[..])).collect();
        let (records, mut left) = (records?, JOINED_BYTES);
        let texts = selection.texts(source, &records, &mut left).map_err(|error| match error {
            // Only this layer knows the position.
            Error::Invalid { detail, .. } => self.clause_error("select", detail),
            other => other,
        })?;
        records.iter().zip(&texts).try_for_each(|(record, text)| visit(record, text))?;
        batch.clear();
        Ok(())
    }
}

/// For each record, the texts of the records related to it by one relationship.
type Related = Vec<Vec<Rc<[u8]>>>;

impl Selection {
    /// Returns the selection of each record; `left` is the remaining memory in bytes for the texts of related records.
    fn texts(&self, source: Source<'_>, own: &[Record<'_, &[u8]>], left: &mut usize) -> Result<Vec<Rc<[u8]>>> {
        let mut related = Vec::new();
        for item in &self.items {
            if let Item::Related(relationship, selection) = item.unnamed() {
                let relationship = &source.table.relationships[*relationship];
                let mut texts_of = vec![Vec::new(); own.len()];
                each_chunk(source, relationship, own, &|_| false, &mut |other, chunk| {
                    let texts = selection.texts(other, &chunk.records, left)?;
                    for (of, record) in &chunk.links {
                        texts_of[*of].push(Rc::clone(&texts[*record]));
                    }
                    Ok(())
                })?;
                related.push(texts_of);
            }
        }
        let mut text = Vec::with_capacity(256);
        let written = own.iter().enumerate().map(|(position, record)| {
            let texts: Vec<&[Rc<[u8]>]> = related.iter().map(|texts: &Related| &texts[position][..]).collect();
            text.clear();
            self.write(record, &texts, &mut text)?;
            let detail = || {
                format!(
                    "select: the related records need more than {} MiB of memory: ask for fewer",
                    JOINED_BYTES >> 20
                )
            };
            *left = left.checked_sub(text.len()).ok_or_else(|| Error::invalid(detail()))?;
            Ok(Rc::from(&text[..]))
        });
        written.collect()
    }

    /// Appends the selection of a record as a JSON object; `related` has the texts of the related records for each selected relationship.
    fn write(&self, record: &Record<'_, &[u8]>, related: &[&[Rc<[u8]>]], out: &mut Vec<u8>) -> Result<()> {
        let (table, mut related) = (record.table(), related.iter());
        out.push(b'{');
        for (position, item) in self.items.iter().enumerate() {
            // Names in a schema contain nothing that JSON escapes.
            out.extend_from_slice(if position == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(item.name(table).as_bytes());
            out.extend_from_slice(b"\":");
            match item.unnamed() {
                Item::Text(text) => out.extend_from_slice(text.as_bytes()),
                Item::Named(..) => unreachable!("it has one name"),
                Item::Attribute(attribute) => out.extend_from_slice(record.json_of(*attribute)?),
                Item::Related(relationship, _) => {
                    let texts = related.next().expect("there are texts of each relationship that is shown");
                    write_related(table.relationships[*relationship].many, texts, out);
                }
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Appends the related records: a list for a to-many relationship, otherwise one record or null.
fn write_related(many: bool, texts: &[Rc<[u8]>], out: &mut Vec<u8>) {
    if !many {
        return out.extend_from_slice(texts.first().map_or(b"null", |text| text));
    }
    out.push(b'[');
    for (position, text) in texts.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(text);
    }
    out.push(b']');
}
