//! Thumbnails: the sizes that may be asked for (`@thumb`).

use async_graphql_parser::types::FieldDefinition;
use async_graphql_value::ConstValue;

use super::directives::find;
use super::{Kind, invalid};
use crate::error::Result;
use crate::pictures::Spec;

/// Returns the sizes that `@thumb(sizes: ["200x200"])` lists; none without it.
///
/// # Errors
/// `Invalid` if the attribute is not a blob, or if what it lists is no size, or is listed twice.
pub(super) fn sizes(field: &FieldDefinition, kind: Kind) -> Result<Vec<Spec>> {
    let Some(directive) = find(&field.directives, "thumb") else { return Ok(Vec::new()) };
    if kind != Kind::Blob {
        return Err(invalid(directive.pos, "@thumb applies to attributes of type Blob only".into()));
    }
    let listed = directive.node.get_argument("sizes").map(|value| (value.pos, &value.node));
    let Some((pos, ConstValue::List(values))) = listed.filter(|(_, value)| **value != ConstValue::List(Vec::new()))
    else {
        return Err(invalid(
            directive.pos,
            "@thumb needs the sizes that may be asked for: sizes: [\"200x200\"]".into(),
        ));
    };
    let mut sizes = Vec::with_capacity(values.len());
    for value in values {
        let ConstValue::String(text) = value else {
            return Err(invalid(pos, format!("a size must be a string, not {value}")));
        };
        let size = text.parse().map_err(|detail| invalid(pos, detail))?;
        if sizes.contains(&size) {
            return Err(invalid(pos, format!("the size {size} is listed twice")));
        }
        sizes.push(size);
    }
    Ok(sizes)
}
