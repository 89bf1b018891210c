//! Queries over records that are given, because they are kept elsewhere: each is examined, and there is no plan.
//!
//! A list without `sort` is in the order of the ids. Its cursor has the sort key of the last record alone, so a record that stays is on
//! exactly one page, as in tables of this store.

use super::budget::StepBudget;
use super::cursor::Cursor;
use super::run::too_many;
use super::select::ListOutcome;
use super::sort::sort_key;
use super::tree::Query;
use crate::encoding::Record;
use crate::error::Result;
use crate::schema::Table;
use crate::transaction::{Database, Owned};

/// The number of an access path that no plan has.
const GIVEN: u8 = u8::MAX;

impl Query<'_> {
    /// Visits those of the given records that match and have not expired at `now`, in order, each with its selection as a JSON object.
    ///
    /// # Errors
    /// As [`Query::run`]; errors of `visit`.
    pub fn show_given<'t>(
        &self,
        database: &Database,
        table: &Table,
        now: i64,
        records: impl Iterator<Item = Owned<'t>>,
        mut visit: impl FnMut(&Record<'_, &[u8]>, &[u8]) -> Result<()>,
    ) -> Result<ListOutcome> {
        let mut matching = Vec::new();
        self.matching_given(database, table, now, records, |record| {
            let mut key = Vec::new();
            sort_key(&self.sort, &record, &mut key)?;
            matching.push((key, record));
            Ok(())
        })?;
        matching.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let after = self.after.as_ref().map_or(&[][..], |cursor| cursor.sort_key.as_slice());
        let mut rest = matching.iter().filter(|(key, _)| key.as_slice() > after).skip(self.offset);
        let mut last = None;
        for (key, record) in rest.by_ref().take(self.limit.unwrap_or(usize::MAX)) {
            self.show_record(&record.view(), &mut visit)?;
            last = Some(key);
        }
        let next = last.filter(|_| rest.next().is_some()).map(|key| Cursor {
            query: self.identity(table),
            path: GIVEN,
            indexes: Default::default(),
            step: 0,
            key: Vec::new(),
            sort_key: key.clone(),
        });
        Ok(ListOutcome { next, total: self.pagination.then_some(matching.len()) })
    }

    /// Visits those of the given records that match and have not expired at `now`, at most `most`.
    ///
    /// # Errors
    /// `Invalid` if there are more; as [`Query::show_given`].
    pub(crate) fn each_given<'t>(
        &self,
        database: &Database,
        table: &Table,
        now: i64,
        records: impl Iterator<Item = Owned<'t>>,
        most: usize,
        mut visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut left = most;
        self.matching_given(database, table, now, records, |record| {
            left = left.checked_sub(1).ok_or_else(|| too_many(most))?;
            visit(record.view())
        })
    }

    fn matching_given<'t>(
        &self,
        database: &Database,
        table: &Table,
        now: i64,
        records: impl Iterator<Item = Owned<'t>>,
        mut take: impl FnMut(Owned<'t>) -> Result<()>,
    ) -> Result<()> {
        self.check_for(database.schema(), table)?;
        let (checks, budget) = (self.filter.checks(table)?, StepBudget::of(database));
        for record in records {
            budget.spend_record(record.bytes().len(), checks.nodes())?;
            if checks.accept(&record)? && !record.has_expired(now)? {
                take(record)?;
            }
        }
        Ok(())
    }
}
