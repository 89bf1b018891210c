//! What of a record an answer shows: the stored text whole, or what was asked for, in that order, related records included.
//!
//! Nothing is parsed and nothing serialised: the texts of the values stand in the records, and are copied. Related records are read for
//! a batch of records at a time, one relationship after the other (`related`).

use std::rc::Rc;

use super::budget::StepBudget;
use super::cursor::Cursor;
use super::plan::Source;
use super::related::each_chunk;
use super::tree::{Item, Query, Selection};
use crate::encoding::Record;
use crate::error::{Error, Result};
use crate::schema::Table;
use crate::transaction::Database;

/// Of how many records the related ones are read at once.
const JOINED_ROWS: usize = 128;

/// How many bytes of memory the texts of the related records of so many records may take.
pub const JOINED_BYTES: usize = 64 << 20;

/// What is known of a list that was shown.
#[derive(Debug)]
pub struct Shown {
    /// Where it goes on, if it was cut: if it is as long as its limit, and there may be more.
    pub next: Option<Cursor>,
    /// How many records there are without `limit`, `offset` and `after`, if `pagination` asks for it.
    pub total: Option<usize>,
}

impl Query<'_> {
    /// Whether it shows related records.
    pub fn shows_related(&self) -> bool {
        self.select.as_ref().is_some_and(Selection::has_related)
    }

    /// The names of what it shows of a record, in their order.
    pub fn shown_names<'t>(&'t self, table: &'t Table) -> Vec<&'t str> {
        match &self.select {
            Some(selection) => selection.items.iter().map(|item| item.name(table)).collect(),
            None => table.attributes.iter().map(|attribute| attribute.name.as_str()).collect(),
        }
    }

    /// Visits the records that the query means, in its order, as of one moment, each with what is shown of it as a JSON object.
    ///
    /// # Errors
    /// As [`Query::run`]; `Invalid` if related records do not fit in memory; what `visit` returns.
    pub fn show(
        &self,
        database: &Database,
        table: &Table,
        mut visit: impl FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    ) -> Result<Shown> {
        if !self.shows_related() && !self.pagination {
            let next = self.run_to(database, table, |record| self.show_record(&record, &mut visit))?;
            return Ok(Shown { next, total: None });
        }
        let (snapshot, budget) = (database.store().snapshot(), StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
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
        Ok(Shown { next, total })
    }

    /// What the query shows of a record, as a JSON object, if it shows no related ones.
    ///
    /// # Errors
    /// `Corrupt` if the record is.
    pub fn text_of(&self, record: &Record<'_, &[u8]>) -> Result<Vec<u8>> {
        let mut text = Vec::with_capacity(256);
        self.show_record(record, &mut |_: &Record<'_, &[u8]>, shown: &[u8]| {
            text.extend_from_slice(shown);
            Ok(())
        })?;
        Ok(text)
    }

    fn show_record<V>(&self, record: &Record<'_, &[u8]>, visit: &mut V) -> Result<()>
    where
        V: FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    {
        let Some(selection) = &self.select else { return visit(record, record.json()) };
        let mut text = Vec::with_capacity(256);
        selection.write(record, &[], &mut text)?;
        visit(record, &text)
    }

    /// Shows records with their related ones, and empties the batch.
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
            // The place is known here alone.
            Error::Invalid { detail, .. } => self.surplus("select", detail),
            other => other,
        })?;
        records.iter().zip(&texts).try_for_each(|(record, text)| visit(record, text))?;
        batch.clear();
        Ok(())
    }
}

/// The texts of the records that each of some records is related to by one relationship.
type Related = Vec<Vec<Rc<[u8]>>>;

impl Selection {
    /// What is shown of each of some records; `left` is how many bytes of memory the texts of related ones may take.
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
                    "select: the related records take more than {} MiB of memory: ask for fewer",
                    JOINED_BYTES >> 20
                )
            };
            *left = left.checked_sub(text.len()).ok_or_else(|| Error::invalid(detail()))?;
            Ok(Rc::from(&text[..]))
        });
        written.collect()
    }

    /// Appends what is shown of a record as a JSON object; `related` has the texts of the related records of each relationship that is
    /// shown.
    fn write(&self, record: &Record<'_, &[u8]>, related: &[&[Rc<[u8]>]], out: &mut Vec<u8>) -> Result<()> {
        let (table, mut related) = (record.table(), related.iter());
        out.push(b'{');
        for (position, item) in self.items.iter().enumerate() {
            // The names of a schema have nothing in them that JSON would escape.
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

/// Appends the related records: a list if there may be many, else one or null.
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
