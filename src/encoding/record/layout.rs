//! Records written under an earlier schema, read as if they had been written under the current one.
//!
//! Nothing is rewritten on disk when a schema changes: each record contains the number of its layout, and is converted when it is opened. A
//! new attribute is null, a removed one is omitted, attributes are in the order of the schema, and a value whose type was widened has the
//! wider type. The result is byte for byte what writing the record anew would produce, including its checksum.

use std::borrow::Cow;

use super::{Current, HEADER_BYTES, Record, VERSION, Writer, check_lengths, checksum, damaged, version, write_json};
use crate::encoding::value::{Date, Value};
use crate::error::Result;
use crate::schema::{Kind, Table};

/// Converts a record from another layout to the table's; its checksum is already verified.
#[cold]
pub(super) fn rewrite<'t, B>(table: &'t Table, stored: &[u8]) -> Result<Record<'t, Current<B>>> {
    let earlier = table.earlier.iter().find(|earlier| earlier.table.layout == stored[1]);
    let earlier = earlier.ok_or_else(|| damaged(table, "it was written under another schema"))?;
    check_version(&earlier.table, stored)?;
    let before = Record { table: &earlier.table, bytes: stored, json_bytes: check_lengths(&earlier.table, stored)? };
    let mut out = Vec::with_capacity(stored.len() + 32 * table.attributes.len());
    let mut writer = Writer::new(table, &[], &mut out);
    for (attribute, source) in table.attributes.iter().zip(&earlier.sources) {
        match source {
            Some(source) => writer.value(&widened(before.value(*source)?, attribute.kind)),
            None => writer.value(&Value::Null),
        }
    }
    let json_bytes = writer.finish(before.deadline().unwrap_or(earlier.deadline))?.json_bytes;
    Ok(Record { table, bytes: Current::Rewritten(out), json_bytes })
}

/// Converts a record of the table's layout from an earlier version to the current one; its checksum is already verified.
#[cold]
pub(super) fn with_current_version<'t, B>(table: &'t Table, stored: &[u8]) -> Result<Record<'t, Current<B>>> {
    check_version(table, stored)?;
    let (json_bytes, mut bytes) = (check_lengths(table, stored)?, stored.to_vec());
    bytes[0] = version(table);
    let checksum = checksum(&bytes);
    bytes[8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(Record { table, bytes: Current::Rewritten(bytes), json_bytes })
}

/// Refuses a version that no record of the table has.
fn check_version(table: &Table, stored: &[u8]) -> Result<()> {
    match stored[0] == VERSION || stored[0] == version(table) {
        true => Ok(()),
        false => Err(damaged(table, "it has an unknown version")),
    }
}

/// Returns whether every value of a type converts losslessly to another; an Int to a Float if [`is_kept`] returns true for it.
pub fn widens(from: Kind, to: Kind) -> bool {
    use Kind::{Boolean, Date, Float, Id, Int, String};
    match to {
        Id | String => matches!(from, Id | String | Int | Float | Boolean | Date),
        Float => matches!(from, Int | Float),
        other => from == other,
    }
}

/// Returns whether a value of a narrower type is exactly representable in a wider type.
pub fn is_kept(value: &Value<'_>, wider: Kind) -> bool {
    match value {
        Value::List(elements) => elements.iter().all(|element| is_kept(element, wider)),
        Value::Int(integer) if wider == Kind::Float => *integer as f64 as i128 == i128::from(*integer),
        _ => true,
    }
}

/// Returns whether a value keeps its entries in an index when its type is widened.
pub fn keeps_entries(from: Kind, to: Kind) -> bool {
    let is_text = |kind| matches!(kind, Kind::Id | Kind::String);
    from == to || is_text(from) && is_text(to) || (from, to) == (Kind::Int, Kind::Float)
}

fn widened(value: Value<'_>, kind: Kind) -> Value<'_> {
    match (kind, value) {
        (_, Value::List(elements)) => Value::List(elements.into_iter().map(|element| widened(element, kind)).collect()),
        (Kind::Float, Value::Int(integer)) => Value::Float(integer as f64),
        (Kind::Id | Kind::String, Value::Date(Date { text, .. })) => Value::Text(text),
        (Kind::Id | Kind::String, scalar @ (Value::Int(_) | Value::Float(_) | Value::Boolean(_))) => {
            let mut text = Vec::new();
            write_json(&scalar, &mut text);
            Value::Text(Cow::Owned(String::from_utf8(text).expect("numbers and Booleans are written in ASCII")))
        }
        (_, value) => value,
    }
}
