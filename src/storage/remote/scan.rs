//! Scans of a remote store: pages of keys and values, the next of which is asked for when the last was read.

use std::collections::VecDeque;

use super::{View, byte_of, ended, key_of};
use crate::error::{Error, Result};
use crate::storage::{ReadTier, Space};

/// The rows of the first pages; all later ones have as many as the last. Where a number of entries is expected, the first page has so many, and
/// no later one has fewer.
const ROWS: [usize; 4] = [32, 128, 512, 1024];

/// Bytes of a page: fewer rows are asked for where those before were long.
const PAGE_BYTES: usize = 4 << 20;

/// Ranges whose first pages are asked for together.
const TOGETHER: usize = 16;

/// Keys from the lower bound up to but not including the upper one, in a direction.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub lower: Vec<u8>,
    pub upper: Vec<u8>,
    pub backwards: bool,
}

impl Range {
    /// Returns a range of a space; an empty `upper` is its end.
    pub fn new(space: Space, lower: &[u8], upper: &[u8], backwards: bool) -> Self {
        let upper = if upper.is_empty() { vec![byte_of(space) + 1] } else { key_of(space, upper) };
        Self { lower: key_of(space, lower), upper, backwards }
    }

    fn is_empty(&self) -> bool {
        self.lower >= self.upper
    }

    fn holds(&self, key: &[u8]) -> bool {
        *self.lower <= *key && *key < *self.upper
    }

    /// Returns what lies behind a key in the direction of the range.
    pub fn behind(&self, key: &[u8]) -> Self {
        match self.backwards {
            true => Self { upper: key.to_vec(), ..self.clone() },
            false => Self { lower: [key, b"\0"].concat(), ..self.clone() },
        }
    }

    /// Returns the part that begins with a key in the direction of the range.
    fn from(&self, key: &[u8]) -> Self {
        match self.backwards {
            true => Self { upper: [key, b"\0"].concat().min(self.upper.clone()), ..self.clone() },
            false => Self { lower: key.to_vec().max(self.lower.clone()), ..self.clone() },
        }
    }
}

/// Some keys of a range with their values, in its direction.
#[derive(Default)]
pub(super) struct Page {
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// What was not looked at; `None` if the range has no more.
    pub rest: Option<Range>,
}

/// A scan.
pub struct Scan<'a> {
    view: &'a dyn View,
    tier: ReadTier,
    /// All of it.
    range: Range,
    /// What the current page was asked for, from its first key on.
    asked: Range,
    page: Page,
    /// The next entry of the page.
    next: usize,
    /// Pages since the last seek that left one.
    pages: usize,
    /// The rows of the first page.
    first: usize,
    /// Ranges that will be sought, in their order.
    coming: VecDeque<Range>,
    /// The first pages of ranges that will be sought.
    fetched: VecDeque<(Range, Page)>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(view: &'a dyn View, range: Range, tier: ReadTier) -> Self {
        let page = Page { entries: Vec::new(), rest: Some(range.clone()) };
        let (asked, coming, fetched) = (range.clone(), VecDeque::new(), VecDeque::new());
        Self { view, tier, range, asked, page, next: 0, pages: 0, first: ROWS[0], coming, fetched }
    }

    /// Scans ranges that are sought one after the other.
    pub(super) fn of_many(view: &'a dyn View, ranges: VecDeque<Range>, tier: ReadTier) -> Self {
        let empty = Range { lower: Vec::new(), upper: Vec::new(), backwards: false };
        let (first, last) = (ranges.front().unwrap_or(&empty), ranges.back().unwrap_or(&empty));
        let all = Range { lower: first.lower.clone(), upper: last.upper.clone(), backwards: false };
        Self { coming: ranges, ..Self::new(view, all, tier) }
    }

    pub fn expect_entries(&mut self, entries: usize) {
        self.first = entries.clamp(1, ROWS[ROWS.len() - 1]);
    }

    pub fn seek(&mut self, key: &[u8]) {
        let key = [&self.range.lower[..1], key].concat();
        let from = self.range.from(&key);
        if !self.is_read(&key) {
            self.page = Page { entries: Vec::new(), rest: Some(from.clone()) };
            (self.asked, self.next, self.pages) = (from, 0, 0);
            return;
        }
        self.next = match self.range.backwards {
            true => self.page.entries.partition_point(|(other, _)| *other > key),
            false => self.page.entries.partition_point(|(other, _)| *other < key),
        };
    }

    /// Returns whether a key would be in the current page if it existed.
    fn is_read(&self, key: &[u8]) -> bool {
        let is_behind = self.page.rest.as_ref().is_some_and(|rest| match rest.backwards {
            true => *key < *rest.upper,
            false => *key >= *rest.lower,
        });
        self.asked.holds(key) && !is_behind
    }

    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.next == self.page.entries.len() {
            let Some(rest) = self.page.rest.take().filter(|rest| !rest.is_empty()) else { return Ok(None) };
            if let Err(error) = self.read(&rest) {
                self.page.rest = Some(rest);
                return Err(ended(error));
            }
        }
        let (key, value) = &self.page.entries[self.next];
        self.next += 1;
        Ok(Some((&key[1..], value)))
    }

    /// Reads the next page, or takes one that was.
    fn read(&mut self, rest: &Range) -> Result<()> {
        if self.tier == ReadTier::Memory {
            return Err(Error::WouldBlock);
        }
        if self.coming.iter().any(|range| range.lower == rest.lower) {
            self.read_together(rest)?;
        }
        while let Some((range, _)) = self.fetched.front()
            && range.upper <= rest.lower
        {
            self.fetched.pop_front();
        }
        let is_fetched = self.fetched.front().is_some_and(|(range, _)| range.lower == rest.lower);
        if let Some((range, page)) = self.fetched.pop_front_if(|_| is_fetched) {
            self.turn_to(&range, page);
            return Ok(());
        }
        let mut pages = self.view.pages(std::slice::from_ref(rest), self.rows())?;
        self.turn_to(rest, pages.pop().unwrap_or_default());
        Ok(())
    }

    /// Reads the first pages of a range that was announced, and of those after it.
    fn read_together(&mut self, rest: &Range) -> Result<()> {
        while self.coming.front().is_some_and(|range| range.lower != rest.lower) {
            self.coming.pop_front();
        }
        let ranges: Vec<_> = self.coming.drain(..self.coming.len().min(TOGETHER)).collect();
        let pages = self.view.pages(&ranges, ROWS[0])?;
        self.fetched = ranges.into_iter().zip(pages).collect();
        Ok(())
    }

    fn turn_to(&mut self, asked: &Range, page: Page) {
        (self.asked, self.page, self.next) = (asked.clone(), page, 0);
        self.pages += 1;
    }

    /// Returns the rows of the next page.
    fn rows(&self) -> usize {
        let rows = if self.pages == 0 { self.first } else { self.first.max(ROWS[self.pages.min(ROWS.len() - 1)]) };
        let bytes: usize = self.page.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        match bytes.checked_div(self.page.entries.len()) {
            Some(row) => rows.min((PAGE_BYTES / row.max(1)).max(1)),
            None => rows,
        }
    }

    /// Reads the first pages of several scans of one snapshot in one request, where they have not begun.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub fn begin_together(scans: &mut [&mut Self]) -> Result<()> {
        let mut fresh: Vec<_> = scans.iter_mut().filter(|scan| scan.pages == 0 && scan.coming.is_empty()).collect();
        let Some(view) = fresh.first().filter(|scan| scan.tier == ReadTier::Disk).map(|scan| scan.view) else {
            return Ok(());
        };
        let asked: Vec<_> = fresh.iter().map(|scan| scan.page.rest.clone().unwrap_or(scan.range.clone())).collect();
        let pages = view.pages(&asked, ROWS[0]).map_err(ended)?;
        for ((scan, asked), page) in fresh.iter_mut().zip(&asked).zip(pages) {
            scan.turn_to(asked, page);
        }
        Ok(())
    }
}
