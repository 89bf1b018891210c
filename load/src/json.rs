//! JSON of which only what is looked at is taken apart: a list of a hundred events, of which two matter, costs a scan over its bytes.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// A value, as it stands in a text.
#[derive(Debug)]
pub struct Json<'a> {
    raw: &'a RawValue,
    parts: OnceCell<Parts<'a>>,
}

#[derive(Debug)]
enum Parts<'a> {
    Object(BTreeMap<String, Json<'a>>),
    List(Vec<Json<'a>>),
    /// A value without parts.
    None,
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self { raw, parts: OnceCell::new() }
    }
}

impl<'a> Json<'a> {
    /// The value of a whole text; none where it is no JSON.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        serde_json::from_slice::<&RawValue>(text).ok().map(Self::from)
    }

    /// The bytes of the value.
    pub fn raw(&self) -> &'a str {
        self.raw.get()
    }

    fn parts(&self) -> &Parts<'a> {
        self.parts.get_or_init(|| {
            let text = self.raw.get();
            let (list, object) =
                (serde_json::from_str::<Vec<&RawValue>>, serde_json::from_str::<BTreeMap<_, &RawValue>>);
            match text.as_bytes().first() {
                Some(b'[') => {
                    list(text).map_or(Parts::None, |list| Parts::List(list.into_iter().map(Self::from).collect()))
                }
                Some(b'{') => object(text).map_or(Parts::None, |object| {
                    Parts::Object(object.into_iter().map(|(name, raw)| (name, Self::from(raw))).collect())
                }),
                _ => Parts::None,
            }
        })
    }

    /// The elements of a list; none of what is no list.
    pub fn list(&self) -> Option<&[Self]> {
        match self.parts() {
            Parts::List(list) => Some(list),
            Parts::Object(_) | Parts::None => None,
        }
    }

    /// The value at a JSON pointer (RFC 6901).
    pub fn at(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |value, name| match value.parts() {
            Parts::List(list) => list.get(name.parse::<usize>().ok()?),
            Parts::Object(object) if name.contains('~') => object.get(&name.replace("~1", "/").replace("~0", "~")),
            Parts::Object(object) => object.get(name),
            Parts::None => None,
        })
    }

    /// A whole number; none of what is none.
    pub fn number(&self) -> Option<u64> {
        self.raw.get().parse().ok()
    }

    /// The text of a string, and the JSON of anything else.
    pub fn text(&self) -> String {
        match serde_json::from_str(self.raw.get()) {
            Ok(Value::String(text)) => text,
            Ok(other) => other.to_string(),
            // What was read once is JSON.
            Err(_) => self.raw.get().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_pointers() {
        let json = Json::read(br#"{"a":[{"b":"x\n"},{"b": 1.50 },{"b":{"c": null}}],"d/e":7,"f~":true}"#).unwrap();
        let text = |pointer: &str| json.at(pointer).map(Json::text);
        assert_eq!(text("/a/0/b").as_deref(), Some("x\n"));
        assert_eq!(text("/a/1/b").as_deref(), Some("1.5"));
        assert_eq!(text("/a/2/b").as_deref(), Some(r#"{"c":null}"#));
        assert_eq!(json.at("/a/2/b").unwrap().raw(), r#"{"c": null}"#);
        assert_eq!((text("/d~1e").as_deref(), text("/f~0").as_deref()), (Some("7"), Some("true")));
        assert_eq!(json.at("/a").and_then(Json::list).map(<[_]>::len), Some(3));
        assert_eq!((json.at("/d~1e").unwrap().number(), json.at("/f~0").unwrap().number()), (Some(7), None));
        assert_eq!(json.at("").unwrap().raw(), json.raw());
        assert!(["/a/3", "/a/x", "/b", "/d~1e/0"].iter().all(|pointer| json.at(pointer).is_none()));
    }

    #[test]
    fn what_is_no_json_is_not_read() {
        assert!(["", "{", "[1,]", "{\"a\":1}x"].iter().all(|text| Json::read(text.as_bytes()).is_none()));
    }
}
