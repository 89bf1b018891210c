//! Options of the engine as text, `cache=32M,automatic-compactions=true`, applied over others.
//!
//! The names are the fields of `storage::Options`, with dashes or underscores, and `_bytes` may be left out; the type of a field defines
//! its values, so a new option needs no line here.

use serde_json::{Map, Value};
use strata::storage::Options;

/// The options with the settings applied.
///
/// # Errors
/// One line for an unknown name or a value that the option does not take.
pub fn over(options: &Options, settings: &str) -> Result<Options, String> {
    let Ok(Value::Object(mut all)) = serde_json::to_value(options) else { unreachable!("options are a struct") };
    let mut set = options.clone();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("{setting:?} is not name=value"))?;
        let option = option(&all, name).ok_or_else(|| {
            let known: Vec<_> = all.keys().map(String::as_str).collect();
            format!("there is no option {name:?}; the options are {}", known.join(", "))
        })?;
        all.insert(option, read(value));
        set = serde_json::from_value(Value::Object(all.clone()))
            .map_err(|error| format!("{name} does not take {value:?}: {error}"))?;
    }
    Ok(set)
}

/// The option that a name means.
fn option(all: &Map<String, Value>, name: &str) -> Option<String> {
    let name = name.replace('-', "_");
    [format!("{name}_bytes"), name].into_iter().find(|name| all.contains_key(name))
}

/// A number, optionally with K, M or G (binary), a boolean, or else text.
fn read(value: &str) -> Value {
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'K') => (&value[..value.len() - 1], 10),
        Some(b'M') => (&value[..value.len() - 1], 20),
        Some(b'G') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match (number, value.parse::<bool>()) {
        (Some(number), _) => Value::from(number),
        (None, Ok(boolean)) => Value::from(boolean),
        (None, Err(_)) => Value::from(value),
    }
}
