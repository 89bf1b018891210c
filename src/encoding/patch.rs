//! JSON merge patch (RFC 7396) inside a value of type `Any`, on text: what the patch does not touch keeps its every digit.

use std::borrow::Cow;

use super::json::{COLON, Reader};
use super::value::Value;

/// The value after a patch. Both are as [`Value::Json`] or [`Value::Null`] hold them: without white space, of bounded depth.
pub fn merge<'a>(target: &Value<'_>, patch: Value<'a>) -> Value<'a> {
    let Value::Json(patch_text) = &patch else { return patch };
    if !patch_text.starts_with('{') {
        return patch;
    }
    let target_text = match target {
        Value::Json(text) => text,
        _ => "null",
    };
    let mut out = String::with_capacity(target_text.len() + patch_text.len());
    merge_text(target_text, patch_text, &mut out);
    Value::Json(Cow::Owned(out))
}

fn merge_text(target: &str, patch: &str, out: &mut String) {
    let Some(changes) = members(patch) else {
        out.push_str(patch);
        return;
    };
    let kept = members(target).unwrap_or_default();
    let mut separator = "";
    let mut open = |name: &str, out: &mut String| {
        out.push_str(separator);
        separator = ",";
        out.push_str(name);
        out.push(':');
    };
    out.push('{');
    for (name, value) in &kept {
        match changes.iter().rfind(|(changed, _)| same(changed, name)) {
            Some((_, "null")) => {}
            Some((_, change)) => {
                open(name, out);
                merge_text(value, change, out);
            }
            None => {
                open(name, out);
                out.push_str(value);
            }
        }
    }
    for (name, change) in &changes {
        if *change != "null" && !kept.iter().any(|(kept, _)| same(kept, name)) {
            open(name, out);
            merge_text("null", change, out);
        }
    }
    out.push('}');
}

/// Whether two JSON texts of names mean the same name.
fn same(one: &str, other: &str) -> bool {
    let meaning = |name| serde_json::from_str::<String>(name);
    one == other
        || (one.contains('\\') || other.contains('\\'))
            && meaning(one).is_ok_and(|one| meaning(other).is_ok_and(|other| one == other))
}

/// The members of an object as JSON texts of name and value; `None` if the text is not an object.
fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut reader = Reader::new(text);
    let mut all = Vec::new();
    reader.take(b'{', "expected an object").ok()?;
    while reader.next_member(all.is_empty()).ok()? {
        let (name, _) = reader.skip().ok()??;
        reader.take(b':', COLON).ok()?;
        let (value, _) = reader.skip().ok()??;
        all.push((name, value));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A, that concern objects, names written in two ways, and names that mean nothing.
    #[test]
    fn examples() {
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"["a","b"]"#, r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":1.0,"b":1e400}"#, r#"{"\u0061":2}"#, r#"{"a":2,"b":1e400}"#),
            (r#"{"\ud800":1}"#, r#"{"\ud801":2,"\ud800":null}"#, r#"{"\ud801":2}"#),
        ];
        for (target, patch, expected) in cases {
            let merged = merge(&Value::Json(Cow::Borrowed(target)), Value::Json(Cow::Borrowed(patch)));
            assert_eq!(merged, Value::Json(Cow::Borrowed(expected)), "{target} with {patch}");
        }
    }
}
