//! Values of input types: coerced once, as a literal when its document is compiled, as a variable when it is given (GraphQL, October 2021,
//! 3.5, 3.10, 3.11, 6.1.2), and evaluated when a field is executed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};

use async_graphql::registry::{MetaType, Registry};
use async_graphql_parser::Pos;
use async_graphql_parser::types::{BaseType, Type};
use async_graphql_value::indexmap::{IndexMap, map::Entry};
use async_graphql_value::{Name, Value};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::Fault;
use crate::encoding::value::Date;

/// The values that a request gives to variables, by name. They come from JSON, so none is a variable itself.
#[derive(Debug, Default)]
pub struct Given(IndexMap<Name, Value>);

/// A variable of an operation.
pub(super) struct Variable {
    pub name: Name,
    pub of: Type,
    pub default: Option<Value>,
    pub at: Pos,
}

/// Values of variables, by name; a variable without a value is absent.
#[derive(Debug, Default)]
pub(super) struct Variables(HashMap<Name, Value>);

impl Variables {
    /// Coerces the values that a request gives to the variables of an operation.
    ///
    /// # Errors
    /// A value is missing or does not fit its type.
    pub fn coerce(inputs: &Inputs, variables: &[Variable], given: Option<&Given>) -> Result<Self, Fault> {
        let mut values = HashMap::new();
        for variable in variables {
            let Variable { name, of, default, at } = variable;
            let value = match given.and_then(|given| given.0.get(name)) {
                Some(value) => inputs.coerce(value, of, Source::Json),
                None => match default {
                    Some(default) => Ok(default.clone()),
                    None if of.nullable => continue,
                    None => return Err(Fault::at(*at, format!("the variable ${name} of type {of} has no value"))),
                },
            };
            let value = value.map_err(|misfit| Fault::at(*at, format!("the variable ${name} {misfit}")))?;
            values.insert(name.clone(), value);
        }
        Ok(Self(values))
    }

    /// Evaluates a value of the document; `None` if it is a variable without a value. Such a variable is as if it were not there as a
    /// field of an input object (3.10), and null in a list (3.11).
    pub fn value_of<'v>(&'v self, value: &'v Value) -> Option<Cow<'v, Value>> {
        Some(match value {
            Value::Variable(name) => Cow::Borrowed(self.0.get(name)?),
            Value::List(values) => {
                let element = |value| self.value_of(value).map_or(Value::Null, Cow::into_owned);
                Cow::Owned(Value::List(values.iter().map(element).collect()))
            }
            Value::Object(fields) => {
                let with_value =
                    |(name, value): (&Name, &'v Value)| Some((name.clone(), self.value_of(value)?.into_owned()));
                Cow::Owned(Value::Object(fields.iter().filter_map(with_value).collect()))
            }
            constant => Cow::Borrowed(constant),
        })
    }

    /// Returns whether a value of the document evaluates to true.
    pub fn truth_of(&self, value: &Value) -> bool {
        self.value_of(value).as_deref() == Some(&Value::Boolean(true))
    }
}

/// The fields of the input objects, by type and name.
pub(super) struct Inputs(HashMap<String, IndexMap<String, Type>>);

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A document, where `1.0` is no integer.
    Literal,
    /// The values of variables, where it is one: some clients write integers so.
    Json,
}

/// The first place at which a value does not fit its type.
#[derive(Debug)]
pub(super) struct Misfit {
    /// A JSON pointer into the value.
    pointer: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// It is this value, not of this type.
    Value(String, String),
    /// It is not a field of this type.
    Unknown(String),
    /// It is missing, but required by this type.
    Missing(String),
}

impl Misfit {
    fn of(value: &Value, of: &Type) -> Self {
        Self { pointer: String::new(), why: Why::Value(value.to_string(), of.to_string()) }
    }

    fn below(mut self, step: impl Display) -> Self {
        self.pointer = format!("/{step}{}", self.pointer);
        self
    }
}

/// The predicate of a sentence about the whole value.
impl Display for Misfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let at = if self.pointer.is_empty() { String::new() } else { format!(" at {}", self.pointer) };
        match &self.why {
            Why::Value(value, of) => write!(f, "is {value}{at}, not of type {of}"),
            Why::Unknown(of) => write!(f, "has a value{at}, which is not a field of {of}"),
            Why::Missing(of) => write!(f, "has no value{at}, which has the type {of}"),
        }
    }
}

impl Inputs {
    /// Collects the input objects of all types.
    pub fn of(registry: &Registry) -> Self {
        let of_type = |(name, definition): (&String, &MetaType)| match definition {
            MetaType::InputObject { input_fields, .. } => {
                let fields = input_fields.values().map(|field| (field.name.clone(), parsed(&field.ty)));
                Some((name.clone(), fields.collect()))
            }
            _ => None,
        };
        Self(registry.types.iter().filter_map(of_type).collect())
    }

    /// Returns the fields of an input object, or of the elements of a list of input objects.
    pub fn fields(&self, of: &Type) -> Option<&IndexMap<String, Type>> {
        match &of.base {
            BaseType::Named(name) => self.0.get(name.as_str()),
            BaseType::List(element) => self.fields(element),
        }
    }

    /// Coerces a value to a type. Variables in it stay as they are: their own types fit their places.
    ///
    /// # Errors
    /// It does not fit.
    pub fn coerce(&self, value: &Value, of: &Type, source: Source) -> Result<Value, Misfit> {
        match (value, &of.base) {
            (Value::Variable(_), _) => Ok(value.clone()),
            (Value::Null, _) if of.nullable => Ok(Value::Null),
            (Value::Null, _) => Err(Misfit::of(value, of)),
            (Value::List(values), BaseType::List(element)) => {
                let coerced =
                    |(index, value)| self.coerce(value, element, source).map_err(|misfit| misfit.below(index));
                Ok(Value::List(values.iter().enumerate().map(coerced).collect::<Result<_, _>>()?))
            }
            // A single value is a list of one (3.11).
            (value, BaseType::List(element)) => Ok(Value::List(vec![self.coerce(value, element, source)?])),
            (value, BaseType::Named(name)) => {
                if let Value::Object(given) = value
                    && let Some(fields) = self.0.get(name.as_str())
                {
                    return self.object(given, name, fields, source);
                }
                scalar(value, name, source).ok_or_else(|| Misfit::of(value, of))
            }
        }
    }

    fn object(
        &self,
        given: &IndexMap<Name, Value>,
        of: &Name,
        fields: &IndexMap<String, Type>,
        source: Source,
    ) -> Result<Value, Misfit> {
        let misfit = |name: &str, why| Misfit { pointer: String::new(), why }.below(escaped(name));
        let missing = fields.iter().find(|(name, of)| !of.nullable && !given.contains_key(name.as_str()));
        if let Some((name, of)) = missing {
            return Err(misfit(name, Why::Missing(of.to_string())));
        }
        let coerced = |(name, value): (&Name, &Value)| match fields.get(name.as_str()) {
            Some(of) => {
                Ok((name.clone(), self.coerce(value, of, source).map_err(|misfit| misfit.below(escaped(name)))?))
            }
            None => Err(misfit(name, Why::Unknown(of.to_string()))),
        };
        Ok(Value::Object(given.iter().map(coerced).collect::<Result<_, _>>()?))
    }
}

/// Escapes a name for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Parses a type of the registry.
pub(super) fn parsed(of: &str) -> Type {
    Type::new(of).expect("the registry's types are valid")
}

/// Coerces a value that is neither null nor a variable to a scalar, or to one of introspection's enumerations, which no field takes.
fn scalar(value: &Value, name: &str, source: Source) -> Option<Value> {
    let integer = |number: &Number| {
        // From 2^53 on, the digits of a double may not be exact.
        let integral = |float: &f64| float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
        let written = number.as_f64().filter(|float| source == Source::Json && integral(float));
        number.as_i64().or_else(|| written.map(|float| float as i64))
    };
    let fits = match (name, value) {
        ("Int", Value::Number(number)) => {
            return i32::try_from(integer(number)?).ok().map(|integer| Value::Number(integer.into()));
        }
        ("Int64", Value::Number(number)) => return integer(number).map(|integer| Value::Number(integer.into())),
        ("ID", Value::Number(number)) if number.is_u64() => return Some(Value::String(number.to_string())),
        ("ID", Value::Number(number)) => return integer(number).map(|integer| Value::String(integer.to_string())),
        ("Int64", Value::String(text)) => text.parse::<i64>().is_ok(),
        ("Date", Value::String(text)) => Date::parse(text.as_str()).is_ok(),
        ("Float", Value::Number(_)) | ("Boolean", Value::Boolean(_)) | ("String" | "ID", Value::String(_)) => true,
        ("Int" | "Int64" | "Float" | "Boolean" | "String" | "ID" | "Date", _) => false,
        ("JSON", _) => true,
        (name, value) => name.starts_with("__") && matches!(value, Value::Enum(_) | Value::String(_)),
    };
    fits.then(|| value.clone())
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Given;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Given, A::Error> {
                object(members).map(Given)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A JSON value. `Value` implements `Deserialize`, too, but keeps the last of several members of one name, and has JSON for variables.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Json(element)) = elements.next_element()? {
            all.push(element);
        }
        Ok(Value::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        object(members).map(Value::Object)
    }
}

fn object<'de, A: MapAccess<'de>>(mut members: A) -> Result<IndexMap<Name, Value>, A::Error> {
    let mut all = IndexMap::new();
    while let Some(name) = members.next_key::<Name>()? {
        match all.entry(name) {
            Entry::Occupied(twice) => {
                return Err(A::Error::custom(format!("duplicate name {:?}", twice.key().as_str())));
            }
            Entry::Vacant(free) => drop(free.insert(members.next_value::<Json>()?.0)),
        }
    }
    Ok(all)
}
