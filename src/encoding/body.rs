//! Parses JSON bodies into the values of a table. Invalid values are rejected with a JSON pointer to their position.

use super::RECORDS;
use super::coerce::{Refusal, given};
use super::fields::Fields;
use super::json::{COLON, Fault, Reader};
use super::value::Value;
use crate::error::{Error, Result};
use crate::schema::{Attribute, Table};

/// Parses a JSON object.
///
/// # Errors
/// `Invalid`, with a JSON pointer where applicable: not JSON, not an object, an unknown or duplicate attribute, a value that cannot be
/// coerced, a duplicate name inside an `Any`.
pub fn parse_object<'t, 'a>(table: &'t Table, body: &'a [u8]) -> Result<Fields<'t, 'a>> {
    parse(body, |reader| object(reader, table, String::new))
}

/// Parses a JSON array of at most [`RECORDS`] objects.
///
/// # Errors
/// As [`parse_object`], with pointers that begin with the index of the element; `Invalid` at the first excess element.
pub fn parse_array<'t, 'a>(table: &'t Table, body: &'a [u8]) -> Result<Vec<Fields<'t, 'a>>> {
    parse(body, |reader| {
        reader.take(b'[', "expected an array of objects")?;
        let mut all = Vec::new();
        while reader.next_element(all.is_empty())? {
            if all.len() == RECORDS {
                let detail = format!("an array has at most {RECORDS} records; send the rest in another request");
                return Err(Refused::Unfit(Error::invalid_at(format!("/{RECORDS}"), detail)));
            }
            all.push(object(reader, table, || format!("/{}", all.len()))?);
        }
        Ok(all)
    })
}

/// Parses a body that is one value of an attribute.
///
/// # Errors
/// As [`parse_object`], with pointers into the value.
pub fn parse_value<'a>(attribute: &Attribute, body: &'a [u8]) -> Result<Value<'a>> {
    parse(body, |reader| {
        given(reader, attribute).map_err(|refusal| match refusal {
            Refusal::NotJson(fault) => Refused::NotJson(fault),
            Refusal::Unfit { detail, below } => Refused::Unfit(Error::invalid_at(below, detail)),
        })
    })
}

/// The reason why a body is rejected.
pub enum Refused {
    /// It is not the expected JSON.
    NotJson(Fault),
    /// It does not conform to the schema.
    Unfit(Error),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault)
    }
}

/// Reads a whole body.
///
/// # Errors
/// `Invalid` if it is not UTF-8, or has more than what `read` reads; what `read` returns.
pub fn parse<'a, T>(
    body: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> std::result::Result<T, Refused>,
) -> Result<T> {
    // Validated once for the whole body: slices between its quotation marks are then valid UTF-8, too.
    let text = simdutf8::compat::from_utf8(body)
        .map_err(|error| Error::invalid_at("", format!("the body is not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut reader = Reader::new(text);
    let value = read(&mut reader).and_then(|value| Ok(reader.end().map(|()| value)?));
    value.map_err(|refused| match refused {
        Refused::NotJson(fault) => Error::invalid_at("", format!("the JSON body is invalid: {}", fault.describe(text))),
        Refused::Unfit(error) => error,
    })
}

/// Returns the pointer to a member of the object to which a pointer leads.
pub fn pointer_to(object: &str, name: &str) -> String {
    format!("{object}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Parses an object; `pointer` leads to it.
fn object<'t, 'a>(
    reader: &mut Reader<'a>,
    table: &'t Table,
    pointer: impl Fn() -> String,
) -> std::result::Result<Fields<'t, 'a>, Refused> {
    let unfit = |name: &str, below: &str, detail: String| {
        Refused::Unfit(Error::invalid_at(pointer_to(&pointer(), name) + below, detail))
    };
    reader.take(b'{', "expected an object with the attributes of the table")?;
    let mut fields = Fields::of(table);
    let values = fields.values_mut();
    let (mut first, mut expected) = (true, 0); // Most bodies have schema order: look there first.
    while reader.next_member(first)? {
        let position = match table.attributes[expected..].first() {
            Some(attribute) if reader.take_name(&attribute.name) => expected,
            _ => {
                let name = reader.text()?;
                table
                    .attribute(&name)
                    .ok_or_else(|| unfit(&name, "", format!("table {} has no attribute {name:?}", table.name)))?
            }
        };
        let attribute = &table.attributes[position];
        if values[position].is_some() {
            return Err(unfit(&attribute.name, "", format!("attribute {:?} is given twice", attribute.name)));
        }
        reader.take(b':', COLON)?;
        values[position] = Some(given(reader, attribute).map_err(|refusal| match refusal {
            Refusal::NotJson(fault) => Refused::NotJson(fault),
            Refusal::Unfit { detail, below } => unfit(&attribute.name, &below, detail),
        })?);
        (first, expected) = (false, position + 1);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;
