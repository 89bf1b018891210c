//! What is said of the result: `select`, `sort`, `limit`, `offset`, `explain`.
//!
//! They are taken out before the logic is read, so they stand at the top level, joined by `&` or `;`, and each once.

use smallvec::SmallVec;

use super::raw::Piece;
use super::{Parser, at};
use crate::error::Result;
use crate::query::tree::{Clause, Order};
use crate::schema::Kind;

/// The names that are clauses if `=` or `(` follows.
const CLAUSES: [&str; 10] =
    ["select", "sort", "limit", "offset", "explain", "after", "pagination", "stream", "thumb", "truncate"];

/// Whether a name means a clause.
pub(super) fn is_clause(name: &str) -> bool {
    CLAUSES.contains(&name)
}

impl Parser<'_, '_> {
    /// Reads a clause whose name begins at byte `start` and ends here.
    pub(super) fn clause(&mut self, name: &str, start: usize) -> Result<()> {
        if self.depth > 0 {
            return Err(at(start, format!("{name} stands at the top level, joined by & or ;")));
        }
        let is_given = match name {
            "select" => self.query.select.is_some(),
            "sort" => !self.query.sort.is_empty(),
            "limit" => self.query.limit.is_some(),
            "offset" => self.offset.is_some(),
            "explain" => self.explain.is_some(),
            _ => return Err(at(start, format!("{name} is not supported here yet"))),
        };
        if is_given {
            return Err(at(start, format!("{name} is given twice")));
        }
        let (sign, bytes) = self.peek().expect("the caller saw = or (");
        let bracket = self.position;
        self.position += bytes;
        let in_brackets = sign == b'(';
        match name {
            "select" => self.select()?,
            "sort" => self.sort()?,
            "limit" if in_brackets => self.limit_and_offset(start)?,
            "limit" => self.query.limit = Some(self.limit()?),
            "offset" if !in_brackets => self.offset = Some(self.count("offset")?),
            "explain" if !in_brackets => self.explain = Some(self.truth()?),
            _ => return Err(at(bracket, format!("{name} is written {name}="))),
        }
        let name = CLAUSES.into_iter().find(|known| *known == name).expect("the caller knows its name");
        self.query.clauses.push(Clause { name, position: start });
        if in_brackets { self.close(b'(', bracket) } else { Ok(()) }
    }

    fn select(&mut self) -> Result<()> {
        let mut attributes = SmallVec::new();
        loop {
            let start = self.position;
            let attribute = self.attribute()?;
            if attributes.contains(&attribute) {
                return Err(at(start, format!("{} is selected twice", self.table.attributes[attribute].name)));
            }
            attributes.push(attribute);
            if !self.take(b',') {
                break;
            }
        }
        self.query.select = Some(attributes);
        Ok(())
    }

    fn sort(&mut self) -> Result<()> {
        loop {
            let descending = self.take(b'-');
            if !descending {
                self.take(b'+');
            }
            let start = self.position;
            let attribute = self.attribute()?;
            let of = &self.table.attributes[attribute];
            if of.list || of.kind == Kind::Any {
                return Err(at(start, format!("{} has no order: a list or Any", of.name)));
            }
            if self.query.sort.iter().any(|order| order.attribute == attribute) {
                return Err(at(start, format!("{} is sorted by twice", of.name)));
            }
            self.query.sort.push(Order { attribute, descending });
            if !self.take(b',') {
                return Ok(());
            }
        }
    }

    /// The attribute of the record whose name stands here.
    fn attribute(&mut self) -> Result<usize> {
        let (name, start) = (Piece::name(self.query.text, self.position), self.position);
        self.position = name.end();
        let name = name.decode()?;
        match self.table.attribute(&name) {
            Some(attribute) => Ok(attribute),
            None if name.is_empty() => Err(at(start, "an attribute should stand here")),
            None if name == "*" => Err(at(start, "select=* is not supported yet; without select a record is whole")),
            None => Err(self.unknown_attribute(&name, start)),
        }
    }

    /// `limit(count)` or `limit(offset,count)`.
    fn limit_and_offset(&mut self, start: usize) -> Result<()> {
        let first = self.position;
        let count = self.count("limit")?;
        if !self.take(b',') {
            self.position = first;
            self.query.limit = Some(self.limit()?);
            return Ok(());
        }
        if self.offset.is_some() {
            return Err(at(start, "offset is given twice"));
        }
        self.offset = Some(count);
        self.query.limit = Some(self.limit()?);
        Ok(())
    }

    fn limit(&mut self) -> Result<usize> {
        let start = self.position;
        match self.count("limit")? {
            limit if limit <= self.limits.max_rows => Ok(limit),
            _ => Err(at(start, format!("limit: at most max_rows = {}", self.limits.max_rows))),
        }
    }

    /// A number of records.
    fn count(&mut self, name: &str) -> Result<usize> {
        let value = self.value()?;
        let text = value.decode()?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(at(value.start, format!("{name} is a number of records, 0 or more")));
        }
        // More than can be counted is more than there are.
        Ok(text.parse().unwrap_or(usize::MAX))
    }

    fn truth(&mut self) -> Result<bool> {
        let value = self.value()?;
        value.text.parse().map_err(|_| at(value.start, "explain is true or false"))
    }

    /// Passes over a character, raw or encoded, if it stands here.
    fn take(&mut self, wanted: u8) -> bool {
        let bytes = self.peek().filter(|(byte, _)| *byte == wanted).map_or(0, |(_, bytes)| bytes);
        self.position += bytes;
        bytes > 0
    }
}
