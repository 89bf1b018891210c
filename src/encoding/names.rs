//! Member names inside a value of type `Any`, compared after unescaping: `"a"` and `"\u0061"` are the same name.

use std::borrow::Cow;

use super::json::{COLON, Fault, Reader};
use super::value::Value;

/// A name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name<'a> {
    /// By its unescaped text.
    Meaning(Cow<'a, str>),
    /// It has a lone surrogate and so cannot be unescaped; it equals only names spelled alike.
    Written(&'a str),
}

impl<'a> Name<'a> {
    /// Parses the JSON text of a name, including its quotation marks.
    pub(super) fn of(text: &'a str) -> Self {
        if !text.contains('\\') {
            return Self::Meaning(Cow::Borrowed(between_marks(text)));
        }
        serde_json::from_str(text).map_or(Self::Written(text), |meaning| Self::Meaning(Cow::Owned(meaning)))
    }
}

/// Returns the JSON pointer (RFC 6901) to the first member of a value that repeats a name within its object.
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

/// Searches the next value, which must not exceed the maximum depth. If a name is repeated, `path` gets the segments of its pointer, the
/// innermost first.
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

/// Returns the first name of an object that repeats an earlier one.
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

/// Returns a name as a segment of a JSON pointer.
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
