//! Cursors: what a client sends to get the records that follow those it has.
//!
//! A cursor holds the sort key of the last record, and the access path with the key at which the scan stopped: never a count of records. So
//! under concurrent writes, a record that does not change appears on exactly one page. A list without `sort` has the order of its access
//! path, so only that path can continue it; a list with `sort` can be continued by any.
//!
//! Its text is the base64url (RFC 4648, section 5, without padding) of: the version (u8, 1) | the query it belongs to (u64: XXH3-64 of the
//! table's id and of the text with no clause but `sort`) | the number of the access path (u8) | its number of steps (u8), the index of
//! each (u32, `plan::signature`) | the step at which it stopped (u8) | length of the sort key (u32), sort key | the key; big-endian.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use smallvec::SmallVec;
use twox_hash::XxHash3_64;

use super::tree::Query;
use crate::schema::Table;

const VERSION: u8 = 1;

/// The characters that a query in a URL must percent-encode, and a query in a body may contain raw with the same meaning: control
/// characters, spaces, URL delimiters, and all non-ASCII characters.
pub const NOT_IN_URL: AsciiSet =
    CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'#').add(b'`').add(b'{').add(b'}');

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The identity of its query.
    pub(super) query: u64,
    /// The access path, by its number and the indexes that its steps read.
    pub(super) path: u8,
    pub(super) indexes: SmallVec<[u32; 2]>,
    /// The step at which the scan stopped, and its key: of a record, of an entry, or an id. Empty if the list was sorted in memory.
    pub(super) step: u8,
    pub(super) key: Vec<u8>,
    /// The sort key of the last record; empty if no order was requested.
    pub(super) sort_key: Vec<u8>,
}

impl Cursor {
    /// Parses the text of a cursor.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (query, rest) = rest.split_first_chunk()?;
        let ([path, steps], mut rest) = rest.split_first_chunk()?;
        let mut indexes = SmallVec::new();
        for _ in 0..*steps {
            let (index, after) = rest.split_first_chunk()?;
            indexes.push(u32::from_be_bytes(*index));
            rest = after;
        }
        let (step, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (sort_key, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        (*version == VERSION).then(|| Self {
            query: u64::from_be_bytes(*query),
            path: *path,
            indexes,
            step: *step,
            key: key.to_vec(),
            sort_key: sort_key.to_vec(),
        })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes = Vec::with_capacity(64 + self.sort_key.len() + self.key.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.query.to_be_bytes());
        bytes.extend_from_slice(&[self.path, self.indexes.len() as u8]);
        self.indexes.iter().for_each(|index| bytes.extend_from_slice(&index.to_be_bytes()));
        bytes.push(self.step);
        bytes.extend_from_slice(&(self.sort_key.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&self.sort_key);
        bytes.extend_from_slice(&self.key);
        formatter.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

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

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let indexes = smallvec![7, 0];
        let cursor = Cursor { query: 1 << 63, path: 2, indexes, step: 1, key: vec![0, 255], sort_key: vec![1; 300] };
        let text = cursor.to_string();
        assert_eq!(Cursor::parse(&text), Some(cursor));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        // A truncated cursor is invalid or a different one, but parsing it never panics.
        for length in 0..text.len() {
            let _ = Cursor::parse(&text[..length]);
        }
        assert!(Cursor::parse("").is_none() && Cursor::parse("AgAA").is_none() && Cursor::parse("no cursor").is_none());
    }
}
