//! The part of the query grammar that lists are served by today: equality on one indexed attribute, and `limit`.
//!
//! Whatever else the grammar knows is refused at its byte, by its name, rather than read as something that it is not: a client
//! is never given a list that its query does not describe. The raw text is split first and decoded afterwards, so an encoded
//! reserved character inside a value is text.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::Options;
use crate::encoding::value::{Value, parse_text};
use crate::error::{Error, Place, Result};
use crate::schema::{Attribute, IndexKind, Kind, Table};

/// The longest query in a URL.
const QUERY_BYTES: usize = 8 << 10;

/// Which records a list has.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The condition.
    pub filter: Filter,
    /// The most records; the client's wish, or else what is allowed.
    pub limit: usize,
    /// Whether it may have many records, so that making it takes a while.
    pub long: bool,
}

/// The condition on the records of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// None: all, by id.
    All,
    /// The record with this id.
    Id(String),
    /// Those whose attribute, which has an index, equals the value.
    Equal(usize, Value<'static>),
}

/// A list longer than this is long.
const SHORT_ROWS: usize = 100;

/// Clauses on the result; `limit` alone is served.
const CLAUSES: [&str; 9] =
    ["select", "sort", "limit", "offset", "after", "pagination", "explain", "stream", "truncate"];

/// The names of operators, as in `=gt=`.
const OPERATORS: [&str; 16] =
    ["eq", "ne", "gt", "ge", "lt", "le", "gele", "gelt", "gtle", "gtlt", "in", "out", "ct", "sw", "ew", "ft"];

/// What forces a type before a value.
const PREFIXES: [&str; 4] = ["number:", "string:", "boolean:", "date:"];

impl Listing {
    /// Reads a raw query string.
    ///
    /// # Errors
    /// `Invalid` with the position in the query.
    pub fn parse(table: &Table, query: &str, options: &Options) -> Result<Self> {
        if query.len() > QUERY_BYTES {
            return Err(at(0, format!("query length: at most {QUERY_BYTES} bytes in a URL, not {}", query.len())));
        }
        let (mut filter, mut limit) = (None, None);
        let mut start = 0;
        for term in query.split(['&', ';']).filter(|_| !query.is_empty()) {
            match read_term(table, term, start, options)? {
                Term::Limit(_) if limit.is_some() => return Err(at(start, "limit is given twice")),
                Term::Limit(rows) => limit = Some(rows),
                Term::Condition(_) if filter.is_some() => {
                    return Err(at(start, "a second condition is not supported yet: filter by one attribute"));
                }
                Term::Condition(condition) => filter = Some(condition),
            }
            start += term.len() + 1;
        }
        let filter = filter.unwrap_or(Filter::All);
        let limit = limit.unwrap_or(options.max_rows);
        let single = match &filter {
            Filter::Id(_) => true,
            Filter::Equal(attribute, _) => {
                table.equality_index(*attribute).is_some_and(|index| index.kind == IndexKind::Unique)
            }
            Filter::All => false,
        };
        Ok(Self { filter, limit, long: limit > SHORT_ROWS && !single })
    }
}

enum Term {
    Condition(Filter),
    Limit(usize),
}

fn at(position: usize, detail: impl Into<String>) -> Error {
    Error::Invalid { detail: detail.into(), place: Place::Position(position) }
}

/// One term, which begins at byte `start` of the query.
fn read_term(table: &Table, term: &str, start: usize, options: &Options) -> Result<Term> {
    let name_end = end_of_name(term);
    let (raw_name, rest) = term.split_at(name_end);
    if raw_name.is_empty() {
        return Err(at(
            start,
            match rest.bytes().next() {
                None => "a condition should stand here",
                Some(b'(' | b'[' | b'!') => "groups and negation are not supported yet",
                Some(_) => "an attribute should stand here",
            },
        ));
    }
    let name = decode(raw_name, start)?;
    if CLAUSES.contains(&&*name) && (rest.starts_with(['=', '(']) || operator_byte(rest) == Some((b'=', 3))) {
        if name == "limit" && !rest.starts_with('(') {
            let operator_bytes = operator_byte(rest).map_or(1, |(_, bytes)| bytes);
            return read_limit(&rest[operator_bytes..], start + name_end + operator_bytes, options).map(Term::Limit);
        }
        return Err(at(start, format!("{name} is not supported here yet")));
    }
    let attribute = find_attribute(table, &name, start)?;
    let operator_bytes = equality_bytes(rest, start + name_end)?;
    let value_start = start + name_end + operator_bytes;
    let value = &rest[operator_bytes..];
    check_value(value, value_start)?;
    if attribute == table.primary_key {
        return read_value(&table.attributes[attribute], value, value_start).map(|value| match value {
            Value::Text(id) => Term::Condition(Filter::Id(id.into_owned())),
            // No record is without an id, and none has an empty one.
            _ => Term::Condition(Filter::Id(String::new())),
        });
    }
    let Some(index) = table.equality_index(attribute) else {
        return Err(at(
            start,
            format!("{}.{name} has no index; filtering without one is not supported yet", table.name),
        ));
    };
    let value = read_value(&table.attributes[attribute], value, value_start)?;
    if value == Value::Null && index.kind == IndexKind::Unique {
        return Err(at(value_start, "null in a unique index is not supported yet"));
    }
    Ok(Term::Condition(Filter::Equal(attribute, value)))
}

fn end_of_name(term: &str) -> usize {
    let end = term.char_indices().find(|(position, character)| {
        "=!<>~()[]{}|,".contains(*character) || operator_byte(&term[*position..]).is_some()
    });
    end.map_or(term.len(), |(position, _)| position)
}

/// The byte of an operator that a text begins with, and how many bytes it takes: raw and encoded are the same here.
fn operator_byte(text: &str) -> Option<(u8, usize)> {
    if let Some(byte) = text.bytes().next().filter(|byte| b"=!<>~".contains(byte)) {
        return Some((byte, 1));
    }
    let encoded = text.get(..3)?.to_ascii_uppercase();
    let byte = match encoded.as_str() {
        "%3D" => b'=',
        "%3C" => b'<',
        "%3E" => b'>',
        "%21" => b'!',
        "%7E" => b'~',
        _ => return None,
    };
    Some((byte, 3))
}

fn find_attribute(table: &Table, name: &str, start: usize) -> Result<usize> {
    if let Some(attribute) = table.attribute(name) {
        return Ok(attribute);
    }
    let first = name.split('.').next().unwrap_or(name);
    let related = table.relationships.iter().any(|relationship| relationship.name == first);
    if related || (first != name && table.attribute(first).is_some()) {
        return Err(at(start, "paths and relationships are not supported in a condition yet"));
    }
    if OPERATORS.contains(&name) {
        return Err(at(start, "a second comparison of the same attribute is not supported yet"));
    }
    Err(at(start, format!("table {} has no attribute {name:?}", table.name)))
}

/// How many bytes the operator takes, which must be `==` or `=`. `rest` begins at byte `position` of the query.
fn equality_bytes(rest: &str, position: usize) -> Result<usize> {
    let Some((b'=', first)) = operator_byte(rest) else {
        return Err(at(
            position,
            match rest.is_empty() {
                true => "a bare attribute (it is not null) is not supported yet: write attribute==value",
                false => "this operator is not supported yet: write attribute==value",
            },
        ));
    };
    let after = &rest[first..];
    // After a raw sign an encoded one belongs to the value: reserved characters in values are encoded.
    if let Some((b'=', second)) = operator_byte(after).filter(|(_, bytes)| first == 3 || *bytes == 1) {
        return match after[second..].starts_with('=') {
            true => Err(at(position, "=== is not supported yet: write attribute==value")),
            false => Ok(first + second),
        };
    }
    let word = after.find(|c: char| !c.is_ascii_alphabetic() && c != '~').unwrap_or(after.len());
    if word > 0 && matches!(operator_byte(&after[word..]), Some((b'=', _))) {
        let word = &after[..word];
        let known = OPERATORS.contains(&word) || word == "~";
        return Err(at(
            position,
            match known {
                true => format!("the operator ={word}= is not supported yet: write attribute==value"),
                false => format!("there is no operator ={word}="),
            },
        ));
    }
    Ok(first)
}

/// Refuses what is not one plain value.
fn check_value(value: &str, start: usize) -> Result<()> {
    if let Some(position) = value.find(['(', ')', '[', ']', '|', ',', '=']) {
        let detail = match value.as_bytes()[position] {
            b',' | b'|' => "alternatives are not supported yet; in a value , and | are written %2C and %7C",
            _ => "in a value ( ) [ ] and = are written %28 %29 %5B %5D and %3D",
        };
        return Err(at(start + position, detail));
    }
    match PREFIXES.iter().find(|prefix| value.starts_with(**prefix)) {
        Some(prefix) => Err(at(start, format!("the prefix {prefix} is not supported yet; as text write : as %3A"))),
        None => Ok(()),
    }
}

fn read_value(attribute: &Attribute, raw: &str, start: usize) -> Result<Value<'static>> {
    if raw == "null" {
        return Ok(Value::Null);
    }
    if raw.contains('*') && matches!(attribute.kind, Kind::Id | Kind::String) {
        return Err(at(start, "wildcards are not supported yet; the character * is written %2A"));
    }
    let text = decode(raw, start)?;
    match parse_text(attribute, &text) {
        Ok(value) => Ok(value.into_owned()),
        // Any number compares with an Int: one that is no integer of 64 bits equals none.
        Err(_) if attribute.kind == Kind::Int && text.parse().is_ok_and(f64::is_finite) => {
            let float = text.parse::<f64>().unwrap_or_default();
            let whole = float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0;
            Ok(if whole { Value::Int(float as i64) } else { Value::Float(float) })
        }
        Err(error) => Err(at(start, error.to_string())),
    }
}

fn read_limit(raw: &str, start: usize, options: &Options) -> Result<usize> {
    let text = decode(raw, start)?;
    let limit = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<usize>().ok()).flatten();
    match limit {
        Some(limit) if limit <= options.max_rows => Ok(limit),
        None if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(at(start, "limit is a number of records, 0 or more"))
        }
        _ => Err(at(start, format!("limit: at most max_rows = {}", options.max_rows))),
    }
}

fn decode(raw: &str, start: usize) -> Result<Cow<'_, str>> {
    percent_decode_str(raw).decode_utf8().map_err(|_| at(start, "what is encoded here is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    fn schema() -> Schema {
        Schema::parse(
            "type P @table { id: ID! @primaryKey name: String @indexed stock: Int @indexed(type: \"hash\") sku: String @unique \
             note: String price: Float @indexed data: Any b: P @relationship(from: \"name\") }",
        )
        .unwrap()
    }

    fn parse(query: &str) -> Result<Listing> {
        Listing::parse(&schema().tables[0], query, &Options { max_rows: 1000 })
    }

    fn value(query: &str) -> Value<'static> {
        match parse(query).unwrap().filter {
            Filter::Equal(_, value) => value,
            other => panic!("{query}: {other:?}"),
        }
    }

    fn text(text: &str) -> Value<'static> {
        Value::Text(Cow::Owned(text.to_owned()))
    }

    #[test]
    fn values_are_split_first_and_decoded_afterwards() {
        let cases = [
            ("name==x", "x"),
            ("name=x", "x"),
            ("name%3D%3Dx", "x"),
            ("name%3dx", "x"),
            ("n%61me==a%26b%3Dc", "a&b=c"),
            ("name=%3Dx", "=x"),
            ("name==a+b", "a+b"),
            ("name==%2A%28", "*("),
            ("name==", ""),
            ("name==gt", "gt"),
            ("name=%C3%A9", "é"),
        ];
        for (query, expected) in cases {
            assert_eq!(value(query), text(expected), "{query}");
        }
        assert_eq!(value("name==null"), Value::Null);
        assert_eq!(value("stock==007"), Value::Int(7));
        assert_eq!(value("stock==7.0"), Value::Int(7));
        assert_eq!(value("stock==1.5"), Value::Float(1.5));
        assert_eq!(value("stock==99999999999999999999"), Value::Float(1e20));
    }

    #[test]
    fn limits() {
        let limits = |query| parse(query).map(|listing| (listing.limit, listing.long)).unwrap();
        assert_eq!(limits(""), (1000, true));
        assert_eq!(limits("limit=0"), (0, false));
        assert_eq!(limits("limit=100;name==x"), (100, false));
        assert_eq!(limits("name==x&limit=101"), (101, true));
        assert_eq!(limits("sku==x"), (1000, false));
        assert_eq!(limits("id==x&limit=1000"), (1000, false));
    }

    #[test]
    fn what_is_not_served_is_refused_at_its_byte() {
        let cases = [
            ("nam==x", 0),
            ("limit=1&nam==x", 8),
            ("name", 4),
            ("name=gt=x", 4),
            ("name%3Dgt%3Dx", 4),
            ("name=foo=x", 4),
            ("name===x", 4),
            ("name!=x", 4),
            ("name%3Ex", 4),
            ("name==a*", 6),
            ("name==a,name==b", 7),
            ("name==a|b", 7),
            ("name==a=b", 7),
            ("name==string:a", 6),
            ("name==a&stock==1", 8),
            ("name==a&gt=1", 8),
            ("name==a&&stock==1", 8),
            ("name==a&", 8),
            ("&", 0),
            ("(name==a)", 0),
            ("!(name==a)", 0),
            ("==a", 0),
            ("stock==a", 7),
            ("stock==", 7),
            ("price==inf", 7),
            ("sku==null", 5),
            ("note==x", 0),
            ("data.a==x", 0),
            ("b.name==x", 0),
            ("b", 0),
            ("sort=name", 0),
            ("select(name)", 0),
            ("limit(5)", 0),
            ("limit=1&limit=1", 8),
            ("limit=1001", 6),
            ("limit=99999999999999999999", 6),
            ("limit=-1", 6),
            ("limit=", 6),
            ("name==%FF", 6),
        ];
        for (query, expected) in cases {
            match parse(query) {
                Err(Error::Invalid { place: Place::Position(position), .. }) => {
                    assert_eq!(position, expected, "{query}")
                }
                other => panic!("{query}: {other:?}"),
            }
        }
        let long = format!("name=={}", "x".repeat(QUERY_BYTES));
        assert!(matches!(parse(&long), Err(Error::Invalid { place: Place::Position(0), .. })));
    }
}
