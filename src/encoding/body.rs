//! How a JSON body becomes the values of a table. What does not fit is refused with a JSON pointer to the place.

use super::coerce::{Refusal, given};
use super::fields::Fields;
use super::json::{COLON, Fault, Reader};
use crate::error::{Error, Result};
use crate::schema::Table;

/// How many records an array may have in a body.
pub const RECORDS: usize = 10_000;

/// Reads a JSON object.
///
/// # Errors
/// `Invalid`, with a JSON pointer where there is a place: not JSON, not an object, an unknown attribute, one named twice, a
/// value that cannot be coerced, a name twice inside an `Any`.
pub fn parse_object<'t, 'a>(table: &'t Table, body: &'a [u8]) -> Result<Fields<'t, 'a>> {
    parse(body, |reader| object(reader, table, String::new))
}

/// Reads a JSON array of at most [`RECORDS`] objects.
///
/// # Errors
/// As [`parse_object`], pointers beginning with the number of the element; `Invalid` at the first that is too many.
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

/// Why a body is refused.
enum Refused {
    /// It is not the JSON that was expected.
    NotJson(Fault),
    /// Something in it is not what the schema wants.
    Unfit(Error),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::NotJson(fault)
    }
}

fn parse<'a, T>(body: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> std::result::Result<T, Refused>) -> Result<T> {
    // Once for the whole body: whatever is cut out of it at its quotation marks is then text, too.
    let text = simdutf8::compat::from_utf8(body)
        .map_err(|error| Error::invalid_at("", format!("the body is not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut reader = Reader::new(text);
    let value = read(&mut reader).and_then(|value| Ok(reader.end().map(|()| value)?));
    value.map_err(|refused| match refused {
        Refused::NotJson(fault) => Error::invalid_at("", format!("the JSON body is invalid: {}", fault.describe(text))),
        Refused::Unfit(error) => error,
    })
}

/// Reads an object; `pointer` leads to it.
fn object<'t, 'a>(
    reader: &mut Reader<'a>,
    table: &'t Table,
    pointer: impl Fn() -> String,
) -> std::result::Result<Fields<'t, 'a>, Refused> {
    let unfit = |name: &str, below: &str, detail: String| {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Refused::Unfit(Error::invalid_at(format!("{}/{escaped}{below}", pointer()), detail))
    };
    reader.take(b'{', "expected an object with the attributes of the table")?;
    let mut fields = Fields::of(table);
    let values = fields.values_mut();
    let (mut first, mut expected) = (true, 0); // Bodies mostly name the attributes in the schema's order: look there first.
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
