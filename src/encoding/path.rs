//! The values at a path in JSON text: `size.w` in `{"size":{"w":10}}` is 10.
//!
//! A path passes through every element of a list. Values off the path are skipped without being parsed.

use super::json::{COLON, Fault, Item, Reader};
use super::record::{Scalar, Text};
use crate::error::{Error, Result};

/// Calls `visit` with each scalar value at a path, including the elements of a list there, and with `None` for a nested list or an object.
/// Nulls and paths that do not exist yield nothing.
///
/// # Errors
/// `Corrupt` if the text is not JSON.
pub fn each_at(json: &str, path: &[Box<str>], visit: &mut dyn FnMut(Option<&Scalar<'_>>)) -> Result<()> {
    let mut reader = Reader::new(json);
    walk(&mut reader, path, visit)
        .map_err(|fault| Error::corrupt(format!("a stored value is invalid: {}", fault.describe(json))))
}

fn walk(
    reader: &mut Reader<'_>,
    path: &[Box<str>],
    visit: &mut dyn FnMut(Option<&Scalar<'_>>),
) -> std::result::Result<(), Fault> {
    let scalar = match reader.item()? {
        Item::List => return walk_list(reader, path, visit),
        Item::Object => return walk_object(reader, path, visit),
        _ if !path.is_empty() => return Ok(()),
        Item::Null => return Ok(()),
        Item::Boolean(boolean) => Scalar::Boolean(boolean),
        Item::Integer(integer) => Scalar::Int(integer),
        Item::Unsigned(unsigned) => Scalar::Float(unsigned as f64),
        Item::Float(float) => Scalar::Float(float),
        // Not null, but equal to nothing.
        Item::Beyond => {
            visit(None);
            return Ok(());
        }
        Item::Text(text) => {
            visit(Some(&Scalar::Text(Text::plain(&text))));
            return Ok(());
        }
    };
    visit(Some(&scalar));
    Ok(())
}

fn walk_list(
    reader: &mut Reader<'_>,
    path: &[Box<str>],
    visit: &mut dyn FnMut(Option<&Scalar<'_>>),
) -> std::result::Result<(), Fault> {
    if path.is_empty() {
        visit(None);
    }
    reader.take(b'[', "expected `[`")?;
    let mut is_first = true;
    while reader.next_element(is_first)? {
        is_first = false;
        walk(reader, path, visit)?;
    }
    Ok(())
}

fn walk_object(
    reader: &mut Reader<'_>,
    path: &[Box<str>],
    visit: &mut dyn FnMut(Option<&Scalar<'_>>),
) -> std::result::Result<(), Fault> {
    let Some((wanted, further)) = path.split_first() else {
        visit(None);
        return reader.value_text().map(drop);
    };
    reader.take(b'{', "expected `{`")?;
    let mut is_first = true;
    while reader.next_member(is_first)? {
        is_first = false;
        let is_wanted = reader.take_name(wanted) || *reader.text()? == **wanted;
        reader.take(b':', COLON)?;
        match is_wanted {
            true => walk(reader, further, visit)?,
            false => drop(reader.value_text()?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values visited at a path in dot notation.
    fn met(json: &str, path: &str) -> String {
        let path: Vec<Box<str>> = path.split('.').filter(|name| !name.is_empty()).map(Box::from).collect();
        let mut met = Vec::new();
        let mut visit = |scalar: Option<&Scalar<'_>>| {
            met.push(match scalar {
                None => "-".to_owned(),
                Some(Scalar::Int(integer)) => integer.to_string(),
                Some(Scalar::Float(float)) => format!("{float:?}"),
                Some(Scalar::Boolean(boolean)) => boolean.to_string(),
                Some(Scalar::Text(text)) => String::from_utf8(text.unescaped().to_vec()).unwrap(),
                Some(other) => panic!("{other:?} is not in JSON"),
            });
        };
        each_at(json, &path, &mut visit).unwrap();
        met.join(" ")
    }

    #[test]
    fn paths_lead_through_objects_and_every_element_of_a_list() {
        let json = r#"{"a":{"b":1,"c\"":"x\n"},"l":[{"b":2},{"b":[3,null,4.5]},{},5],"n":null,"t":true,"h":1e999}"#;
        for (path, expected) in [
            ("a.b", "1"),
            ("a.c\"", "x\n"),
            ("a", "-"),
            ("l.b", "2 - 3 4.5"),
            ("l", "- - - - 5"),
            ("n", ""),
            ("n.a", ""),
            ("t", "true"),
            ("t.a", ""),
            ("h", "-"),
            ("nowhere", ""),
            ("", "-"),
        ] {
            assert_eq!(met(json, path), expected, "{path}");
        }
        assert_eq!(
            (met("18446744073709551615", ""), met("[]", "a")),
            ("1.8446744073709552e19".to_owned(), String::new())
        );
        assert!(matches!(each_at("{\"a\"", &["a".into()], &mut |_| ()), Err(Error::Corrupt { .. })));
    }
}
