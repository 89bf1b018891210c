//! JSON merge patch (RFC 7396) inside a value of type `Any`, applied to text, so that unaffected parts keep every digit.
//!
//! The patch is parsed once into changes by name, and the target is then read once from left to right: the time is linear in the length of
//! both, regardless of the number and depth of members.

use std::borrow::Cow;
use std::collections::HashMap;

use super::json::{COLON, Fault, Reader};
use super::names::Name;
use super::value::Value;

/// Returns the patched value. Both are as in [`Value::Json`] or [`Value::Null`]: without white space, of bounded depth.
pub fn merge<'a>(target: &Value<'_>, patch: Value<'a>) -> Value<'a> {
    let Value::Json(patch_text) = &patch else { return patch };
    if !patch_text.starts_with('{') {
        return patch;
    }
    let target_text = match target {
        Value::Json(text) if text.starts_with('{') => text,
        _ => EMPTY,
    };
    let mut out = String::with_capacity(target_text.len() + patch_text.len());
    let changes = Changes::read(&mut Reader::new(patch_text));
    match changes.and_then(|changes| changes.apply(&mut Reader::new(target_text), &mut out)) {
        Ok(()) => Value::Json(Cow::Owned(out)),
        // One of them is not JSON, so there is nothing to merge.
        Err(_) => patch,
    }
}

/// Stands in for a target that is not an object.
const EMPTY: &str = "{}";

/// The change of one member.
enum Change<'p> {
    Remove,
    /// The JSON text of its new value.
    Set(&'p str),
    Merge(Changes<'p>),
}

/// The changes of an object.
#[derive(Default)]
struct Changes<'p> {
    /// With the JSON text of the name, in the order of the patch.
    members: Vec<(&'p str, Change<'p>)>,
    /// The index of each name in `members`.
    places: HashMap<Name<'p>, usize>,
}

impl<'p> Changes<'p> {
    /// Parses an object.
    fn read(patch: &mut Reader<'p>) -> Result<Self, Fault> {
        let mut changes = Self::default();
        patch.take(b'{', "expected an object")?;
        while patch.next_member(changes.members.is_empty())? {
            let name = patch.value_text()?;
            patch.take(b':', COLON)?;
            let change = match patch.peek() {
                Some(b'{') => Change::Merge(Self::read(patch)?),
                _ => match patch.value_text()? {
                    "null" => Change::Remove,
                    value => Change::Set(value),
                },
            };
            let end = changes.members.len();
            match *changes.places.entry(Name::of(name)).or_insert(end) {
                place if place == end => changes.members.push((name, change)),
                // Bodies have no duplicate names; in other texts the last one wins.
                place => changes.members[place].1 = change,
            }
        }
        Ok(changes)
    }

    /// Writes the changed object.
    fn apply(&self, target: &mut Reader<'_>, out: &mut String) -> Result<(), Fault> {
        let mut applied = vec![false; self.members.len()];
        let (begin, mut first) = (out.len() + 1, true);
        out.push('{');
        target.take(b'{', "expected an object")?;
        while target.next_member(first)? {
            first = false;
            let name = target.value_text()?;
            target.take(b':', COLON)?;
            let Some(place) = self.places.get(&Name::of(name)) else {
                open(name, begin, out);
                out.push_str(target.value_text()?);
                continue;
            };
            applied[*place] = true;
            match &self.members[*place].1 {
                Change::Merge(changes) if target.peek() == Some(b'{') => {
                    open(name, begin, out);
                    changes.apply(target, out)?;
                }
                change => {
                    target.value_text()?;
                    change.write(name, begin, out)?;
                }
            }
        }
        for ((name, change), _) in self.members.iter().zip(applied).filter(|(_, applied)| !applied) {
            change.write(name, begin, out)?;
        }
        out.push('}');
        Ok(())
    }
}

impl Change<'_> {
    /// Writes the member created by the change, where the target has no object.
    fn write(&self, name: &str, begin: usize, out: &mut String) -> Result<(), Fault> {
        match self {
            Self::Remove => {}
            Self::Set(value) => {
                open(name, begin, out);
                out.push_str(value);
            }
            Self::Merge(changes) => {
                open(name, begin, out);
                changes.apply(&mut Reader::new(EMPTY), out)?;
            }
        }
        Ok(())
    }
}

/// Begins a member of the object whose members begin at `begin`.
fn open(name: &str, begin: usize, out: &mut String) {
    if out.len() > begin {
        out.push(',');
    }
    out.push_str(name);
    out.push(':');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A, for objects, names in two spellings, and names with lone surrogates.
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

    /// As many members as fit into a body of a few megabytes: a quadratic search would never end.
    #[test]
    fn the_work_follows_the_length() {
        const MEMBERS: usize = 300_000;
        let object = |value: &str| {
            let members: Vec<_> = (0..MEMBERS).map(|member| format!("\"{member:06}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let patched = |target: &str, patch: &str| {
            let merged = merge(&Value::Json(Cow::Borrowed(target)), Value::Json(Cow::Borrowed(patch)));
            let Value::Json(text) = merged else { panic!("an object becomes an object") };
            text.into_owned()
        };
        let (before, after) = (object("1"), object("2"));
        assert!(
            patched(&before, &after) == after && patched("{}", &after) == after && patched(&before, "{}") == before
        );
        assert_eq!(patched(&before, &object("null")), "{}");
    }

    #[test]
    fn deep_objects_are_merged_where_they_lie() {
        let nested = |inner: &str| format!("{}{inner}{}", "{\"a\":".repeat(127), "}".repeat(127));
        let merged =
            merge(&Value::Json(nested(r#"{"b":1,"c":2}"#).into()), Value::Json(nested(r#"{"c":null,"d":3}"#).into()));
        assert_eq!(merged, Value::Json(nested(r#"{"b":1,"d":3}"#).into()));
    }
}
