//! The names of members inside a value of type `Any`, by what they mean: `"a"` and `"\u0061"` are one name.

use std::borrow::Cow;

use super::json::{COLON, Fault, Reader};
use super::value::Value;

/// A name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name<'a> {
    /// By what it means.
    Meaning(Cow<'a, str>),
    /// It has a lone surrogate, so it means nothing, and equals what is written alike.
    Written(&'a str),
}

impl<'a> Name<'a> {
    /// Of its JSON text, with the quotation marks.
    pub(super) fn of(text: &'a str) -> Self {
        if !text.contains('\\') {
            return Self::Meaning(Cow::Borrowed(between_marks(text)));
        }
        serde_json::from_str(text).map_or(Self::Written(text), |meaning| Self::Meaning(Cow::Owned(meaning)))
    }
}

/// A member inside a value that has the name of an earlier one of its object: the JSON pointer (RFC 6901) from the value to it.
pub(super) fn repeated(value: &Value<'_>) -> Option<String> {
    let mut path = Vec::new();
    let found = match value {
        Value::Json(text) => search(&mut Reader::new(text), &mut path).unwrap_or(false),
        Value::List(values) => {
            return values
                .iter()
                .enumerate()
                .find_map(|(element, value)| repeated(value).map(|below| format!("/{element}{below}")));
        }
        _ => false,
    };
    found.then(|| path.iter().rev().flat_map(|segment| ["/", segment]).collect())
}

/// Looks through the next value, which is nested no deeper than values are. If a name is repeated, `path` gets the way to it, the
/// innermost part first.
fn search(reader: &mut Reader<'_>, path: &mut Vec<String>) -> Result<bool, Fault> {
    match reader.peek() {
        Some(b'{') => {
            reader.take(b'{', "")?;
            let mut names = Vec::new();
            while reader.next_member(names.is_empty())? {
                let name = reader.value_text()?;
                reader.take(b':', COLON)?;
                names.push(name);
                if search(reader, path)? {
                    path.push(segment(name));
                    return Ok(true);
                }
            }
            let first = first_repeated(&names);
            path.extend(first.map(segment));
            Ok(first.is_some())
        }
        Some(b'[') => {
            reader.take(b'[', "")?;
            let mut element = 0;
            while reader.next_element(element == 0)? {
                if search(reader, path)? {
                    path.push(element.to_string());
                    return Ok(true);
                }
                element += 1;
            }
            Ok(false)
        }
        _ => reader.value_text().map(|_| false),
    }
}

/// The first of an object's names that an earlier one is like.
fn first_repeated<'a>(names: &[&'a str]) -> Option<&'a str> {
    if names.len() < 2 {
        return None;
    }
    let mut sorted: Vec<_> = names.iter().enumerate().map(|(place, name)| (Name::of(name), place)).collect();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1);
    repeated.min().map(|place| names[place])
}

fn between_marks(text: &str) -> &str {
    &text[1..text.len() - 1]
}

/// A name as a part of a JSON pointer.
fn segment(text: &str) -> String {
    let name = match Name::of(text) {
        Name::Meaning(name) => name.into_owned(),
        Name::Written(text) => between_marks(text).to_owned(),
    };
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_is_found_wherever_it_is() {
        for (text, found) in [
            (r#"{"a":1,"a":2}"#, Some("/a")),
            (r#"{"b":1,"a":1,"c":1,"b":2,"a":2}"#, Some("/b")),
            (r#"{"a":1,"\u0061":2}"#, Some("/a")),
            (r#"{"~\/":1,"~/":2}"#, Some("/~0~1")),
            (r#"{"a":{"x":1},"b":[0,[{"x":1,"y":{},"y":[]}]]}"#, Some("/b/1/0/y")),
            (r#"{"\ud800":1,"\ud800":2}"#, Some(r"/\ud800")),
            (r#"{"":1,"":2}"#, Some("/")),
            (r#"{"a":{"b":1},"b":{"a":1}}"#, None),
            (r#"[{"a":1},{"a":1}]"#, None),
            (r#"{"a":"a","A":"a"}"#, None),
            (r#"{"\ud800":1,"\\ud800":2,"\"\\ud800\"":3}"#, None),
            (r#""text""#, None),
            ("{}", None),
        ] {
            assert_eq!(repeated(&Value::Json(Cow::Borrowed(text))).as_deref(), found, "{text}");
        }
        let list = Value::List(vec![Value::Json("1".into()), Value::Json(r#"{"a":1,"a":2}"#.into())]);
        assert_eq!(repeated(&list).as_deref(), Some("/1/a"));
    }
}
