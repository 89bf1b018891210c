//! Pages of a list: which query a cursor belongs to, and the text of the query for the next page.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use twox_hash::XxHash3_64;

use super::cursor::Cursor;
use super::tree::Query;
use crate::error::Result;
use crate::schema::Table;

/// The characters that a query in a URL must percent-encode, and a query in a body may contain raw with the same meaning: control
/// characters, spaces, URL delimiters, and all non-ASCII characters.
pub const NOT_IN_URL: AsciiSet =
    CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'#').add(b'`').add(b'{').add(b'}');

impl Query<'_> {
    /// Returns a hash of the conditions and the sort, as written in a URL, which identifies the query to its cursors. A list that began
    /// with a body continues in a URL.
    pub(super) fn identity(&self, table: &Table) -> u64 {
        let (mut conditions, mut position) = (String::with_capacity(self.text.len()), 0);
        let mut add = |part: &str| {
            // The separators around a clause are not significant.
            let part = part.trim_matches(['&', ';']);
            if !part.is_empty() {
                conditions.push('&');
                conditions.extend(utf8_percent_encode(part, &NOT_IN_URL));
            }
        };
        for clause in self.clauses.iter().filter(|clause| clause.name != "sort") {
            add(self.part(position, clause.position));
            position = clause.end;
        }
        add(self.part(position, self.text.len()));
        if self.text.is_empty() && !(self.filter.nodes.is_empty() && self.sort.is_empty()) {
            // Not parsed, so its text does not tell it from others.
            conditions = format!("{:?} {:?}", self.filter.nodes, self.sort);
        }
        XxHash3_64::oneshot_with_seed(u64::from(table.id), conditions.as_bytes())
    }

    /// Returns a part of the text; empty if a caller has given the query another text.
    fn part(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the clause that gives the offset, which may be `limit(offset,count)`.
    pub(super) fn clause_of_offset(&self) -> &'static str {
        if self.clauses.iter().any(|clause| clause.name == "offset") { "offset" } else { "limit" }
    }

    /// Returns the text of the query for the next page: the same with another cursor and without an offset.
    pub fn text_after(&self, cursor: &Cursor) -> String {
        let (mut text, mut position) = (String::with_capacity(self.text.len() + 128), 0);
        let replaced = if self.offset > 0 { self.clause_of_offset() } else { "offset" };
        for clause in self.clauses.iter().filter(|clause| clause.name == "after" || clause.name == replaced) {
            text.push_str(self.part(position, clause.position).trim_end_matches(['&', ';']));
            position = clause.end;
            if let ("limit", Some(limit)) = (clause.name, self.limit) {
                text.push_str(&format!("&limit={limit}"));
            }
        }
        text.push_str(self.part(position, self.text.len()));
        let joint = if text.is_empty() { "" } else { "&" };
        format!("{}{joint}after={cursor}", text.trim_start_matches(['&', ';']))
    }

    /// Checks that the cursor belongs to this query and is not combined with an offset.
    pub(crate) fn check_cursor(&self, table: &Table) -> Result<()> {
        let Some(cursor) = &self.after else { return Ok(()) };
        let refused = |clause, detail: &str| Err(self.clause_error(clause, detail.to_owned()));
        if self.offset > 0 {
            return refused(self.clause_of_offset(), "offset cannot be combined with after");
        }
        if cursor.query != self.identity(table) {
            return refused(
                "after",
                "the cursor belongs to another query: keep the conditions and the sort of the previous page",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Limits;
    use crate::schema::Schema;
    use smallvec::smallvec;

    #[test]
    fn what_follows_is_asked_as_the_list_was() {
        let schema = Schema::parse("type T @table { id: ID @primaryKey name: String }").unwrap();
        let table = &schema.tables[0];
        fn parse<'q>(schema: &Schema, text: &'q str) -> Query<'q> {
            Query::parse(schema, &schema.tables[0], text, &Limits::in_body(100)).unwrap()
        }
        let cursor = |query: &Query<'_>| Cursor {
            query: query.identity(table),
            path: 0,
            indexes: smallvec![],
            step: 0,
            key: vec![],
            sort_key: vec![],
        };
        for (text, expected) in [
            ("", ""),
            ("name==a&limit=2", "name==a&limit=2&"),
            ("limit=2&offset=3&name==a", "limit=2&name==a&"),
            ("offset=3;limit=2;name==a", "limit=2;name==a&"),
            ("name==a&limit(3,2)", "name==a&limit=2&"),
            ("limit%283,2);name==a", "limit=2;name==a&"),
            ("limit(2)&name==a", "limit(2)&name==a&"),
            ("limit(0,2)&name==a", "limit(0,2)&name==a&"),
        ] {
            let query = parse(&schema, text);
            let cursor = cursor(&query);
            let after = query.text_after(&cursor);
            assert_eq!(after, format!("{expected}after={cursor}"), "{text}");
            assert_eq!(parse(&schema, &after).text_after(&cursor), after, "it stays the same on the next page");
        }
        // A list that began with a body continues in a URL.
        let (body, url) = (parse(&schema, "name>\u{e9} {"), parse(&schema, "name%3E%C3%A9%20%7B"));
        assert_eq!(body.identity(table), url.identity(table));
        assert_ne!(body.identity(table), parse(&schema, "name%3E%C3%A9%20%7D").identity(table));
    }
}
