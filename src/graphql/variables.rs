//! The variables of a request, coerced to their types (GraphQL, October 2021, 6.1.2), and the values of arguments.

use std::collections::HashMap;

use async_graphql_parser::types::{BaseType, Type, VariableDefinition};
use async_graphql_value::{ConstValue, Name, Value, indexmap::IndexMap};

use super::Fault;

/// Values of variables, by name; a variable without a value is absent.
#[derive(Debug, Default)]
pub(super) struct Variables(HashMap<Name, ConstValue>);

impl Variables {
    /// Evaluates a value of the document; `None` if it is a variable without a value.
    pub fn value_of(&self, value: &Value) -> Option<ConstValue> {
        value.clone().into_const_with(|name| self.0.get(&name).cloned().ok_or(())).ok()
    }

    /// Returns whether a value of the document evaluates to true.
    pub fn truth_of(&self, value: &Value) -> bool {
        self.value_of(value) == Some(ConstValue::Boolean(true))
    }
}

/// Coerces the values that a request gives to the variables of an operation.
///
/// # Errors
/// A value is missing or has the wrong type.
pub(super) fn coerce(
    definitions: &[VariableDefinition],
    given: Option<&IndexMap<Name, ConstValue>>,
) -> Result<Variables, Fault> {
    let mut values = HashMap::new();
    for definition in definitions {
        let (name, of) = (&definition.name.node, &definition.var_type.node);
        let default = definition.default_value.as_ref().map(|default| &default.node);
        let fault = |message: String| {
            let at = definition.name.pos;
            Err(Fault { message, at: Some((at.line, at.column)) })
        };
        match given.and_then(|given| given.get(name)).or(default) {
            Some(value) if fits(value, of) => drop(values.insert(name.clone(), value.clone())),
            Some(value) => return fault(format!("the variable ${name} is {value}, not of type {of}")),
            None if of.nullable => {}
            None => return fault(format!("the variable ${name} of type {of} has no value")),
        }
    }
    Ok(Variables(values))
}

/// Returns whether a value fits a type. The fields of an input object are checked by the verb that takes it, which can report their place.
fn fits(value: &ConstValue, of: &Type) -> bool {
    if *value == ConstValue::Null {
        return of.nullable;
    }
    match (&of.base, value) {
        (BaseType::List(element), ConstValue::List(values)) => values.iter().all(|value| fits(value, element)),
        // A single value is coerced to a list (GraphQL, 3.11).
        (BaseType::List(element), value) => fits(value, element),
        (BaseType::Named(name), value) => match (name.as_str(), value) {
            ("Int", ConstValue::Number(number)) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            ("Int64", ConstValue::Number(number)) => number.is_i64(),
            ("Int64", ConstValue::String(text)) => text.parse::<i64>().is_ok(),
            ("Float", ConstValue::Number(_))
            | ("Boolean", ConstValue::Boolean(_))
            | ("String" | "ID" | "Date", ConstValue::String(_)) => true,
            ("ID", ConstValue::Number(number)) => number.is_i64(),
            ("Int" | "Int64" | "Float" | "Boolean" | "String" | "ID" | "Date", _) => false,
            ("JSON", _) => true,
            (_, value) => matches!(value, ConstValue::Object(_)),
        },
    }
}
