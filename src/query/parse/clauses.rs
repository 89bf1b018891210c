//! The clauses that describe the result: `select`, `sort`, `limit`, `offset`, `after`, `pagination`, `explain`.
//!
//! They are not part of the logic, so they are allowed only at the top level, joined by `&` or `;`, and each at most once.

use std::borrow::Cow;

use super::raw::Piece;
use super::{Parser, RELATIONSHIPS, at, unknown_attribute};
use crate::error::{Error, Result};
use crate::query::cursor::Cursor;
use crate::query::tree::{Clause, Item, Order, Selection};
use crate::schema::Table;

/// The names that denote a clause if followed by `=` or `(`.
const CLAUSES: [&str; 10] =
    ["select", "sort", "limit", "offset", "explain", "after", "pagination", "stream", "thumb", "truncate"];

/// Returns whether a name denotes a clause.
pub(super) fn is_clause(name: &str) -> bool {
    CLAUSES.contains(&name)
}

/// Returns the position of the relationship that a path with dots begins with.
fn related(table: &Table, path: &str) -> Option<usize> {
    table.relationship(path.split('.').next().unwrap_or(path))
}

/// Returns the error for a path to an attribute of related records that is selected without braces.
fn in_braces(path: &str, position: usize) -> Error {
    let (open, close) = (path.escape_debug().to_string().replace('.', "{"), "}".repeat(path.matches('.').count()));
    at(position, format!("select attributes of related records with braces: {open}{close}"))
}

impl<'q> Parser<'q, '_> {
    /// Parses a clause whose name begins at byte offset `start` and ends at the current position.
    pub(super) fn clause(&mut self, name: &str, start: usize) -> Result<()> {
        if self.depth > 0 {
            return Err(at(start, format!("{name} belongs at the top level, joined by & or ;")));
        }
        let is_given = match name {
            "select" => self.query.select.is_some(),
            "sort" => !self.query.sort.is_empty(),
            "limit" => self.query.limit.is_some(),
            "offset" => self.offset.is_some(),
            "after" => self.query.after.is_some(),
            "pagination" => self.pagination.is_some(),
            "explain" => self.explain.is_some(),
            "truncate" => return Err(at(start, "truncate=true must be the only clause, in a DELETE of a table")),
            _ => return Err(at(start, format!("{name} is not supported here"))),
        };
        if is_given {
            return Err(at(start, format!("{name} is given twice")));
        }
        let (sign, bytes) = self.peek().expect("the caller saw = or (");
        let bracket = self.position;
        self.position += bytes;
        let in_brackets = sign == b'(';
        match name {
            "select" => {
                let selection = self.selection(self.table, 0)?;
                self.check_braces(&selection, in_brackets.then_some(bracket))?;
                self.query.select = Some(selection);
            }
            "sort" => self.sort()?,
            "limit" if in_brackets => self.limit_and_offset(start)?,
            "limit" => self.query.limit = Some(self.limit()?),
            "offset" if !in_brackets => self.offset = Some(self.count("offset")?),
            "after" if !in_brackets => self.query.after = Some(self.cursor()?),
            "pagination" if !in_brackets => self.pagination = Some(self.truth("pagination")?),
            "explain" if !in_brackets => self.explain = Some(self.truth("explain")?),
            _ => return Err(at(bracket, format!("expected {name}=VALUE"))),
        }
        let name = CLAUSES.into_iter().find(|known| *known == name).expect("the caller knows its name");
        if in_brackets {
            self.close(b'(', bracket)?;
        }
        self.query.clauses.push(Clause { name, position: start, end: self.position });
        Ok(())
    }

    /// Parses the selection from a table that is reached by this many relationships.
    fn selection(&mut self, table: &Table, relationships: usize) -> Result<Selection> {
        let mut selection = Selection { table: Some(table.identity), ..Selection::default() };
        loop {
            let start = self.position;
            for item in self.items(table, relationships)? {
                if selection.items.iter().any(|other| other.shows_same(&item)) {
                    return Err(at(start, format!("{} is selected twice", item.name(table))));
                }
                selection.items.push(item);
            }
            if !self.take(b',') {
                return Ok(selection);
            }
        }
    }

    /// Parses one item: an attribute, all attributes (`*`), or related records, either whole or with a selection in braces.
    fn items(&mut self, table: &Table, relationships: usize) -> Result<Vec<Item>> {
        let start = self.position;
        let name = self.name()?;
        if name == "*" {
            return Ok(Selection::of_all(table).items);
        }
        if let Some(attribute) = table.attribute(&name) {
            return Ok(vec![Item::Attribute(attribute)]);
        }
        let relationship = table.relationship(&name).ok_or_else(|| match related(table, &name) {
            Some(_) => in_braces(&name, start),
            None => unknown_attribute(table, &name, start),
        })?;
        if relationships == RELATIONSHIPS {
            return Err(at(start, format!("relationships: at most {RELATIONSHIPS} in one path")));
        }
        let (bracket, other) = (self.position, &self.schema.tables[table.relationships[relationship].table]);
        let selection = match self.take(b'{') {
            false => Selection::of_all(other),
            true => {
                let selection = self.selection(other, relationships + 1)?;
                if !self.take(b'}') {
                    return Err(at(bracket, "this bracket is not closed"));
                }
                selection
            }
        };
        Ok(vec![Item::Related(relationship, selection)])
    }

    /// Checks that the related records at the end of a selection are not followed by attributes in round brackets. `bracket`: the one around
    /// the selection, which then is not closed.
    fn check_braces(&self, selection: &Selection, bracket: Option<usize>) -> Result<()> {
        match (selection.items.last(), self.peek()) {
            (Some(item @ Item::Related(..)), Some((b'(', bytes))) => {
                let attribute = Piece::name(self.query.text, self.position + bytes).text;
                let path = format!("{}.{attribute}", item.name(self.table));
                Err(in_braces(&path, bracket.unwrap_or(self.position)))
            }
            _ => Ok(()),
        }
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
            if !of.is_sortable() {
                return Err(at(start, format!("cannot sort by {}: lists, Any and Blob have no order", of.name)));
            }
            if self.query.sort.iter().any(|order| order.attribute == attribute) {
                return Err(at(start, format!("{} is given twice in sort", of.name)));
            }
            self.query.sort.push(Order { attribute, descending });
            if !self.take(b',') {
                return Ok(());
            }
        }
    }

    /// Parses the name of an attribute of the table.
    fn attribute(&mut self) -> Result<usize> {
        let start = self.position;
        let name = self.name()?;
        self.table.attribute(&name).ok_or_else(|| self.unknown_sort_key(&name, start))
    }

    /// Returns the error for a name that is no attribute to sort by.
    fn unknown_sort_key(&self, name: &str, start: usize) -> Error {
        let previous = self.query.sort.last().map(|order| &self.table.attributes[order.attribute].name);
        match (name, previous) {
            ("desc", Some(previous)) => {
                at(start, format!("no attribute \"desc\"; for descending order write sort=-{previous}"))
            }
            ("asc", Some(previous)) => {
                at(start, format!("no attribute \"asc\"; for ascending order write sort={previous}"))
            }
            _ if related(self.table, name).is_some() => {
                let name = name.escape_debug();
                at(start, format!("cannot sort by {name}: a sort key is an attribute of the table itself"))
            }
            _ => unknown_attribute(self.table, name, start),
        }
    }

    /// Parses a name.
    fn name(&mut self) -> Result<Cow<'q, str>> {
        let name = Piece::name(self.query.text, self.position);
        self.position = name.end();
        let decoded = name.decode()?;
        if decoded.is_empty() { Err(at(name.start, "expected an attribute")) } else { Ok(decoded) }
    }

    /// Parses `limit(count)` or `limit(offset,count)`.
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
            _ => {
                let most = self.limits.max_rows;
                let detail =
                    format!("limit: at most {most} (--max-rows); to read more, follow the Link to the next page");
                Err(at(start, detail))
            }
        }
    }

    /// Parses a number of records.
    fn count(&mut self, name: &str) -> Result<usize> {
        let value = self.value()?;
        let text = value.decode()?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(at(value.start, format!("{name} must be a whole number, 0 or more")));
        }
        // A number that overflows exceeds any number of records.
        Ok(text.parse().unwrap_or(usize::MAX))
    }

    fn cursor(&mut self) -> Result<Cursor> {
        let value = self.value()?;
        Cursor::parse(&value.decode()?)
            .ok_or_else(|| at(value.start, "not a cursor: use the one in the Link header of the previous page"))
    }

    fn truth(&mut self, name: &str) -> Result<bool> {
        let value = self.value()?;
        value.text.parse().map_err(|_| at(value.start, format!("{name} must be true or false")))
    }

    /// Consumes a character, raw or encoded, if it is next.
    fn take(&mut self, wanted: u8) -> bool {
        let bytes = self.peek().filter(|(byte, _)| *byte == wanted).map_or(0, |(_, bytes)| bytes);
        self.position += bytes;
        bytes > 0
    }
}
