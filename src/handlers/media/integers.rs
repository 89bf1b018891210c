//! JSON with Int attributes as strings: `42` becomes `"42"`, `[1,2]` becomes `["1","2"]`, null stays.
//!
//! JavaScript, and anything else that reads numbers as doubles, loses digits of integers beyond 2^53. All Int attributes become strings,
//! not only large ones, so that an attribute has one type; a body may send them back, since strings are coerced. Numbers inside `Any`
//! belong to the client and are left unchanged.

use crate::encoding::json::{COLON, Fault, Reader};
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Schema, Table};

/// Writes the JSON text of a record or a list of records, which may lack attributes and include related records.
///
/// # Errors
/// `Corrupt` if it is not such a text.
pub(super) fn write_as_text(schema: &Schema, table: &Table, json: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(json).map_err(|error| Error::corrupt(error.to_string()))?;
    let written = records(schema, table, &mut Reader::new(text), out);
    written.map_err(|fault| Error::corrupt(format!("invalid stored JSON: {}", fault.describe(text))))
}

/// A record, a list of them, or null.
fn records(
    schema: &Schema,
    table: &Table,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), Fault> {
    match reader.peek() {
        Some(b'[') => return list(reader, out, |reader, out| records(schema, table, reader, out)),
        Some(b'{') => reader.take(b'{', "expected an object")?,
        _ => {
            out.extend_from_slice(reader.value_text()?.as_bytes());
            return Ok(());
        }
    }
    out.push(b'{');
    let mut first = true;
    while reader.next_member(first)? {
        if !first {
            out.push(b',');
        }
        first = false;
        let name = reader.value_text()?;
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        reader.take(b':', COLON)?;
        // Names in a schema contain nothing that JSON escapes.
        let name = name.trim_matches('"');
        let attribute = table.attribute(name).map(|position| &table.attributes[position]);
        match attribute {
            Some(Attribute { kind: Kind::Int, list: true, .. }) if reader.peek() == Some(b'[') => {
                list(reader, out, integer)?;
            }
            Some(Attribute { kind: Kind::Int, .. }) => integer(reader, out)?,
            Some(_) => out.extend_from_slice(reader.value_text()?.as_bytes()),
            None => match table.relationships.iter().find(|relationship| relationship.name == name) {
                Some(relationship) => records(schema, &schema.tables[relationship.table], reader, out)?,
                None => out.extend_from_slice(reader.value_text()?.as_bytes()),
            },
        }
    }
    out.push(b'}');
    Ok(())
}

fn list(
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
    mut element: impl FnMut(&mut Reader<'_>, &mut Vec<u8>) -> std::result::Result<(), Fault>,
) -> std::result::Result<(), Fault> {
    reader.take(b'[', "expected a list")?;
    out.push(b'[');
    let mut first = true;
    while reader.next_element(first)? {
        if !first {
            out.push(b',');
        }
        first = false;
        element(reader, out)?;
    }
    out.push(b']');
    Ok(())
}

fn integer(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> std::result::Result<(), Fault> {
    match reader.value_text()? {
        "null" => out.extend_from_slice(b"null"),
        digits => {
            out.push(b'"');
            out.extend_from_slice(digits.as_bytes());
            out.push(b'"');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn integers_of_the_schema_become_texts_and_nothing_else_does() {
        let sdl = "type T @table { id: ID @primaryKey n: Int all: [Int] x: Float free: Any
            otherId: ID other: U @relationship(from: \"otherId\") }
            type U @table { id: ID @primaryKey k: Int x: Float them: [T] @relationship(to: \"otherId\") }";
        let schema = Schema::parse(sdl).unwrap();
        for (json, expected) in [
            (
                r#"{"id":"1","n":9007199254740993,"all":[-1,2],"x":25,"free":{"n":[3]}}"#,
                r#"{"id":"1","n":"9007199254740993","all":["-1","2"],"x":25,"free":{"n":[3]}}"#,
            ),
            (r#"[{"n":null,"all":[]},{"all":null,"x":1.5},{}]"#, r#"[{"n":null,"all":[]},{"all":null,"x":1.5},{}]"#),
            ("[]", "[]"),
            (
                r#"{"n":1,"other":{"k":2,"x":3,"them":[{"n":4},{"x":5}]}}"#,
                r#"{"n":"1","other":{"k":"2","x":3,"them":[{"n":"4"},{"x":5}]}}"#,
            ),
            (r#"[{"other":null},{"other":{}}]"#, r#"[{"other":null},{"other":{}}]"#),
        ] {
            let mut out = Vec::new();
            write_as_text(&schema, &schema.tables[0], json.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        assert!(write_as_text(&schema, &schema.tables[0], b"{\"n\":}", &mut Vec::new()).is_err());
    }
}
