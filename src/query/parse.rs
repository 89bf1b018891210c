//! The query parser: a grammar based on FIQL, read in one pass over the raw text.
//!
//! The text is split first and decoded afterwards: inside a value, a percent-encoded reserved character is literal text; everywhere else,
//! raw and encoded characters are equivalent. Nothing is copied that needs no decoding. Terms, groups and their joining are parsed here;
//! `raw` classifies characters, `operators` parses operators, `conditions` their operands, `values` interprets the text of values, and
//! `clauses` parses the clauses that describe the result.
//!
//! Depth, conditions, values, regular expressions, nested relationships and length are bounded, so the cost of a query is bounded by its
//! length.

mod clauses;
mod conditions;
mod operators;
mod raw;
mod values;

use super::tree::{Filter, Node, Query};
use crate::error::{Error, Place, Result};
use crate::schema::{Schema, Table};

/// The maximum nesting depth of groups.
pub const DEPTH: usize = 50;

/// The maximum number of conditions in a query; a list of values counts as one.
pub const CONDITIONS: usize = 200;

/// The maximum total number of values in the lists of a query.
pub const VALUES: usize = 10_000;

/// The maximum number of regular expressions in a query: each is compiled, and may take a mebibyte.
pub const EXPRESSIONS: usize = 8;

/// The maximum number of relationships in one path.
pub const RELATIONSHIPS: usize = 8;

/// The limits of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the raw text in bytes.
    pub query_bytes: usize,
    /// The maximum number of records that it may request; also the default.
    pub max_rows: usize,
}

impl Limits {
    /// The limits of a query in a URL.
    pub fn in_url(max_rows: usize) -> Self {
        Self { query_bytes: 8 << 10, max_rows }
    }

    /// The limits of a query in a body.
    pub fn in_body(max_rows: usize) -> Self {
        Self { query_bytes: 256 << 10, max_rows }
    }
}

impl<'q> Query<'q> {
    /// Parses the raw text of a query on a table of a schema.
    ///
    /// # Errors
    /// `Invalid` with the byte offset of the error: an unknown attribute or operator, an invalid or missing value, an empty term, an
    /// unclosed bracket, a misplaced clause, an exceeded limit, or an unsupported feature; or if the table is not one of the schema.
    pub fn parse(schema: &Schema, table: &Table, text: &'q str, limits: &Limits) -> Result<Self> {
        if text.len() > limits.query_bytes {
            let (most, bytes) = (limits.query_bytes, text.len());
            return Err(at(0, format!("query length: at most {most} bytes here, not {bytes}")));
        }
        if !schema.has(table.identity) {
            return Err(Error::invalid(format!("table {} is not one of the schema", table.name)));
        }
        let filter = Filter { table: Some(table.identity), ..Filter::default() };
        let query = Query { text, filter, ..Query::default() };
        let mut parser = Parser {
            schema,
            table,
            limits,
            position: 0,
            depth: 0,
            conditions: 0,
            values: 0,
            expressions: 0,
            compared: None,
            offset: None,
            pagination: None,
            explain: None,
            query,
        };
        if !text.is_empty() {
            parser.alternatives()?;
            if parser.position < text.len() {
                return Err(at(parser.position, "unmatched bracket; in a value, encode it as %29 or %5D"));
            }
        }
        parser.query.limit.get_or_insert(limits.max_rows);
        parser.query.offset = parser.offset.unwrap_or(0);
        parser.query.pagination = parser.pagination.unwrap_or(false);
        parser.query.explain = parser.explain.unwrap_or(false);
        parser.query.check_cursor(table)?;
        Ok(parser.query)
    }
}

struct Parser<'q, 't> {
    schema: &'t Schema,
    table: &'t Table,
    limits: &'t Limits,
    /// The byte offset of the next token.
    position: usize,
    depth: usize,
    conditions: usize,
    /// The number of values in lists so far.
    values: usize,
    /// The number of regular expressions so far.
    expressions: usize,
    /// Where the nodes of the previous comparison begin, whose attribute `&OP=value` repeats.
    compared: Option<usize>,
    offset: Option<usize>,
    pagination: Option<bool>,
    explain: Option<bool>,
    query: Query<'q>,
}

/// The token between a term and the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    And,
    Or,
    /// None: a closing bracket or the end follows.
    End,
}

const VALUE_MISSING: &str = "expected a value";
const GROUP_MISSING: &str = "expected a group after !, as in !(price); to test for a missing value write price==null";

fn at(position: usize, detail: impl Into<String>) -> Error {
    Error::Invalid { detail: detail.into(), place: Place::Position(position) }
}

/// Returns the error for a name that is no attribute that can be compared, selected or sorted by.
fn unknown_attribute(table: &Table, name: &str, start: usize) -> Error {
    at(start, format!("table {} has no attribute {name:?}", table.name))
}

impl<'q> Parser<'q, '_> {
    /// Parses terms joined by `|` or `,`, up to a closing bracket or the end.
    fn alternatives(&mut self) -> Result<()> {
        let first = self.query.filter.nodes.len();
        let mut join = self.terms(Join::End)?;
        if join == Join::Or {
            while join == Join::Or {
                join = self.terms(join)?;
            }
            self.put_over(first, Node::Any);
        }
        Ok(())
    }

    /// Parses terms joined by `&` or `;`, and returns the token that follows. `before` is the token before the first.
    fn terms(&mut self, mut before: Join) -> Result<Join> {
        self.compared = None;
        let (first, mut conditions) = (self.query.filter.nodes.len(), 0);
        loop {
            let start = self.position;
            let is_condition = self.term()?;
            let join = self.join()?;
            if !is_condition && (before == Join::Or || join == Join::Or) {
                return Err(at(start, "a clause such as select, sort or limit is joined by & or ;, not by OR"));
            }
            conditions += usize::from(is_condition);
            if join != Join::And {
                if conditions > 1 {
                    self.put_over(first, Node::All);
                }
                return Ok(join);
            }
            before = join;
        }
    }

    /// Parses one term; returns whether it is a condition, as opposed to a clause.
    fn term(&mut self) -> Result<bool> {
        match self.peek() {
            Some((open @ (b'(' | b'['), bytes)) => self.group(open, bytes).map(|()| true),
            Some((b'!', bytes)) => {
                self.position += bytes;
                let Some((open @ (b'(' | b'['), bytes)) = self.peek() else {
                    return Err(at(self.position, GROUP_MISSING));
                };
                let first = self.query.filter.nodes.len();
                self.group(open, bytes)?;
                self.negate(first);
                Ok(true)
            }
            None | Some((b'&' | b';' | b'|' | b',' | b')' | b']', _)) => Err(at(self.position, "expected a condition")),
            Some(_) => self.named_term(),
        }
    }

    /// Parses a group whose opening bracket takes `bytes` bytes.
    fn group(&mut self, open: u8, bytes: usize) -> Result<()> {
        let bracket = self.position;
        if self.depth == DEPTH {
            return Err(at(bracket, format!("depth: at most {DEPTH} nested groups")));
        }
        self.depth += 1;
        self.position += bytes;
        self.alternatives()?;
        self.close(open, bracket)?;
        self.depth -= 1;
        self.compared = None;
        Ok(())
    }

    /// Consumes the closing bracket that matches the one at byte offset `bracket`.
    fn close(&mut self, open: u8, bracket: usize) -> Result<()> {
        let wanted = if open == b'(' { b')' } else { b']' };
        match self.peek() {
            Some((close, bytes)) if close == wanted => {
                self.position += bytes;
                Ok(())
            }
            Some((b')' | b']', _)) => {
                Err(at(self.position, format!("expected {} to close the last bracket", char::from(wanted))))
            }
            _ => Err(at(bracket, "this bracket is not closed")),
        }
    }

    fn join(&mut self) -> Result<Join> {
        let (join, bytes) = match self.peek() {
            None | Some((b')' | b']', _)) => (Join::End, 0),
            Some((b'&' | b';', bytes)) => (Join::And, bytes),
            Some((b'|' | b',', bytes)) => (Join::Or, bytes),
            Some(_) => return Err(at(self.position, "expected & ; | or ,")),
        };
        self.position += bytes;
        Ok(join)
    }

    /// Returns the byte at the position, raw or decoded, and its encoded length in bytes.
    fn peek(&self) -> Option<(u8, usize)> {
        raw::unit(self.query.text, self.position)
    }

    #[inline]
    fn add(&mut self, node: Node<'q>) {
        let nodes = &mut self.query.filter.nodes;
        if nodes.capacity() == 0 {
            *nodes = Vec::with_capacity(8);
        }
        nodes.push(node);
    }

    /// Wraps all nodes from `first` on in a group.
    fn put_over(&mut self, first: usize, group: fn(u32) -> Node<'q>) {
        let nodes = &mut self.query.filter.nodes;
        let below = u32::try_from(nodes.len() - first).expect("a query has at most CONDITIONS conditions");
        nodes.insert(first, group(below));
    }

    /// Negates the tree that begins at `first`. A double negation cancels out, since logic is two-valued.
    fn negate(&mut self, first: usize) {
        let nodes = &mut self.query.filter.nodes;
        match nodes[first] {
            Node::Not => drop(nodes.remove(first)),
            _ => nodes.insert(first, Node::Not),
        }
    }
}

#[cfg(test)]
mod tests;
