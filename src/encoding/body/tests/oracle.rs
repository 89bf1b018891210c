//! The reference reader of bodies, based on serde_json, with which ours is compared.
//!
//! Slower, and with an independent grammar: a visitor for each type, numbers and text as parsed by serde_json.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::encoding::coerce::text_to;
use crate::encoding::json::DEPTH;
use crate::encoding::value::{Date, Value};
use crate::error::{Error, Result};
use crate::schema::{Attribute, Kind, Table};

/// One element per attribute: `None` if it is absent from the body.
pub type Values<'a> = Vec<Option<Value<'a>>>;

pub fn parse_object<'a>(table: &Table, body: &'a [u8]) -> Result<Values<'a>> {
    let failure = RefCell::new(None);
    parse(body, &failure, Object { table, prefix: String::new(), failure: &failure })
}

/// Parses a JSON array of objects.
///
/// # Errors
/// As [`parse_object`], with pointers that begin with the index of the element.
pub fn parse_array<'a>(table: &Table, body: &'a [u8]) -> Result<Vec<Values<'a>>> {
    let failure = RefCell::new(None);
    parse(body, &failure, Array { table, failure: &failure })
}

/// Holds the structured error while serde's own error, which can only carry text, is propagated.
type Failure = RefCell<Option<Error>>;

fn parse<'a, S: DeserializeSeed<'a>>(body: &'a [u8], failure: &Failure, seed: S) -> Result<S::Value> {
    // Validated once for the whole body: a deserializer of bytes would validate each string separately.
    let text = std::str::from_utf8(body)
        .map_err(|error| Error::invalid_at("", format!("the body is not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        failure.take().unwrap_or_else(|| Error::invalid_at("", format!("the JSON body is invalid: {error}")))
    })
}

struct Array<'t> {
    table: &'t Table,
    failure: &'t Failure,
}

impl<'de> DeserializeSeed<'de> for Array<'_> {
    type Value = Vec<Values<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Array<'_> {
    type Value = Vec<Values<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        loop {
            let seed = Object { table: self.table, prefix: format!("/{}", all.len()), failure: self.failure };
            match elements.next_element_seed(seed)? {
                Some(fields) => all.push(fields),
                None => return Ok(all),
            }
        }
    }
}

struct Object<'t> {
    table: &'t Table,
    prefix: String,
    failure: &'t Failure,
}

impl Object<'_> {
    fn fail<E: de::Error>(&self, name: &str, below: &str, detail: String) -> E {
        let pointer = format!("{}/{}{below}", self.prefix, escaped(name));
        *self.failure.borrow_mut() = Some(Error::invalid_at(pointer, detail));
        E::custom("")
    }
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Values<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Values<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the attributes of the table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Self::Value, A::Error> {
        let attributes = &self.table.attributes;
        let mut fields: Values<'de> = vec![None; attributes.len()];
        let mut expected = 0; // Most bodies have schema order: look there first.
        while let Some(name) = members.next_key::<Text<'de>>()? {
            let in_order = attributes.get(expected).filter(|attribute| attribute.name == name.0).map(|_| expected);
            let Some(position) = in_order.or_else(|| self.table.attribute(&name.0)) else {
                let detail = format!("table {} has no attribute {:?}", self.table.name, name.0);
                return Err(self.fail(&name.0, "", detail));
            };
            expected = position + 1;
            if fields[position].is_some() {
                return Err(self.fail(&name.0, "", format!("attribute {:?} is given twice", name.0)));
            }
            let refusal = RefCell::new(None);
            match members.next_value_seed(Typed { attribute: &attributes[position], refusal: &refusal }) {
                Ok(value) => match repeated(&value) {
                    Some(below) => return Err(self.fail(&name.0, &below, "duplicate name".to_owned())),
                    None => fields[position] = Some(value),
                },
                Err(error) => {
                    return Err(match refusal.take() {
                        Some(Refusal { detail, element }) => {
                            let below = element.map_or(String::new(), |element| format!("/{element}"));
                            self.fail(&name.0, &below, detail)
                        }
                        None => error,
                    });
                }
            }
        }
        Ok(fields)
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the pointer to a member inside a value that repeats a name. Names that serde_json cannot unescape are ignored.
fn repeated(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Json(text) => repeated_in(text),
        Value::List(all) => {
            all.iter().enumerate().find_map(|(place, value)| repeated(value).map(|below| format!("/{place}{below}")))
        }
        _ => None,
    }
}

fn repeated_in(text: &str) -> Option<String> {
    if let Ok(all) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let below =
            |(place, value): (usize, &&RawValue)| repeated_in(value.get()).map(|below| format!("/{place}{below}"));
        return all.iter().enumerate().find_map(below);
    }
    let Members(all) = serde_json::from_str(text).ok()?;
    let below = |(name, value): &(String, &RawValue)| {
        repeated_in(value.get()).map(|below| format!("/{}{below}", escaped(name)))
    };
    all.iter().find_map(below).or_else(|| {
        let mut seen = std::collections::HashSet::new();
        all.iter().find(|(name, _)| !seen.insert(name)).map(|(name, _)| format!("/{}", escaped(name)))
    })
}

/// All members of an object.
struct Members<'de>(Vec<(String, &'de RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Members<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = members.next_entry()? {
                    all.push(member);
                }
                Ok(Members(all))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Text that borrows from the body unless it has escapes.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> std::result::Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// One value of an attribute; `refusal` receives the reason of a rejection.
#[derive(Clone, Copy)]
struct Typed<'t> {
    attribute: &'t Attribute,
    refusal: &'t RefCell<Option<Refusal>>,
}

struct Refusal {
    detail: String,
    /// The index of the list element.
    element: Option<usize>,
}

impl Typed<'_> {
    fn refuse<E: de::Error>(&self, given: impl fmt::Display) -> E {
        self.refuse_with(format!("{given} cannot be {}", wanted(self.attribute)))
    }

    fn refuse_with<E: de::Error>(&self, detail: String) -> E {
        *self.refusal.borrow_mut() = Some(Refusal { detail, element: None });
        E::custom("")
    }

    fn text<'de, E: de::Error>(&self, text: Cow<'de, str>) -> std::result::Result<Value<'de>, E> {
        if self.attribute.list {
            return Err(self.refuse("a string"));
        }
        let value = match self.attribute.kind {
            Kind::Date => Date::parse(text).map(Value::Date),
            kind => text_to(kind, text),
        };
        value.map_err(|detail| self.refuse_with(detail))
    }
}

fn wanted(attribute: &Attribute) -> String {
    let article = if matches!(attribute.kind, Kind::Id | Kind::Int) { "an" } else { "a" };
    if attribute.list { format!("a list of {:?}", attribute.kind) } else { format!("{article} {:?}", attribute.kind) }
}

impl<'de> DeserializeSeed<'de> for Typed<'_> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value<'de>, D::Error> {
        if self.attribute.kind == Kind::Any && !self.attribute.list {
            let raw = <&'de RawValue>::deserialize(deserializer)?;
            return compact(raw.get()).map_err(|detail| self.refuse_with(detail));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Typed<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wanted(self.attribute))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, boolean: bool) -> std::result::Result<Value<'de>, E> {
        match self.attribute.kind {
            _ if self.attribute.list => Err(self.refuse(boolean)),
            Kind::Boolean => Ok(Value::Boolean(boolean)),
            Kind::Id | Kind::String => Ok(Value::Text(Cow::Owned(boolean.to_string()))),
            _ => Err(self.refuse(boolean)),
        }
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> std::result::Result<Value<'de>, E> {
        match self.attribute.kind {
            _ if self.attribute.list => Err(self.refuse(integer)),
            Kind::Int => Ok(Value::Int(integer)),
            Kind::Float => Ok(Value::Float(integer as f64)),
            Kind::Id | Kind::String => Ok(Value::Text(Cow::Owned(integer.to_string()))),
            _ => Err(self.refuse(integer)),
        }
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> std::result::Result<Value<'de>, E> {
        match i64::try_from(integer) {
            Ok(integer) => self.visit_i64(integer),
            Err(_) if self.attribute.list => Err(self.refuse(integer)),
            Err(_) => match self.attribute.kind {
                Kind::Float => Ok(Value::Float(integer as f64)),
                Kind::Id | Kind::String => Ok(Value::Text(Cow::Owned(integer.to_string()))),
                _ => Err(self.refuse(integer)),
            },
        }
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> std::result::Result<Value<'de>, E> {
        // From 2^53 on, the digits of a double may not be exact.
        const INEXACT: f64 = 9_007_199_254_740_992.0;
        let digits = || ryu_js::Buffer::new().format_finite(float).to_owned();
        match self.attribute.kind {
            _ if self.attribute.list => Err(self.refuse(digits())),
            Kind::Float => Ok(Value::Float(float)),
            Kind::Int if float.fract() == 0.0 && float.abs() < INEXACT => Ok(Value::Int(float as i64)),
            Kind::Id | Kind::String if float.abs() < INEXACT => Ok(Value::Text(Cow::Owned(digits()))),
            _ => Err(self.refuse(digits())),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Value<'de>, E> {
        self.text(Cow::Owned(text.to_owned()))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> std::result::Result<Value<'de>, E> {
        self.text(Cow::Borrowed(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<Value<'de>, A::Error> {
        if !self.attribute.list {
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            return Err(self.refuse("a list"));
        }
        let element = Attribute { list: false, ..self.attribute.clone() };
        let (mut all, typed) = (Vec::new(), Typed { attribute: &element, refusal: self.refusal });
        loop {
            let refused = match elements.next_element_seed(typed) {
                Ok(Some(Value::Null)) => self.refuse_with("null cannot be an element of a list".to_owned()),
                Ok(Some(value)) => {
                    all.push(value);
                    continue;
                }
                Ok(None) => return Ok(Value::List(all)),
                Err(error) => error,
            };
            if let Some(refusal) = &mut *self.refusal.borrow_mut() {
                refusal.element = Some(all.len());
            }
            return Err(refused);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Value<'de>, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(self.refuse("an object"))
    }
}

/// JSON text without white space; `null` is [`Value::Null`].
///
/// # Errors
/// A sentence, if it is nested deeper than [`DEPTH as usize`].
fn compact(text: &str) -> std::result::Result<Value<'_>, String> {
    if text == "null" {
        return Ok(Value::Null);
    }
    let (mut in_text, mut escaped, mut depth, mut deepest, mut spaces) = (false, false, 0usize, 0usize, false);
    let mut out = Vec::new();
    for (position, byte) in text.bytes().enumerate() {
        let space = !in_text && matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        if space && !spaces {
            out.extend_from_slice(&text.as_bytes()[..position]);
            spaces = true;
        }
        match byte {
            _ if in_text => {
                in_text = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            }
            b'"' => in_text = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
        if spaces && !space {
            out.push(byte);
        }
    }
    if deepest > DEPTH as usize {
        return Err(format!("nested deeper than {DEPTH}"));
    }
    if !spaces {
        return Ok(Value::Json(Cow::Borrowed(text)));
    }
    let compacted = String::from_utf8(out).expect("only ASCII white space was left out of valid text");
    Ok(Value::Json(Cow::Owned(compacted)))
}
