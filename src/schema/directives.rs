//! The directives of the schema language: which there are, where each may be given, and their arguments.
//!
//! One that is unknown, given in the wrong place or twice, or has an argument that is unknown or given twice, is rejected where it stands,
//! so that a typo does not silently lose an index.

use async_graphql_parser::Positioned;
use async_graphql_parser::types::{ConstDirective, DirectiveDefinition};
use async_graphql_value::ConstValue;

use super::invalid;
use crate::error::Result;

/// A directive that may be given in some place.
#[derive(Clone, Copy)]
pub(super) struct Directive {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Whether it may be given several times.
    repeatable: bool,
}

impl Directive {
    const fn once(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, arguments, repeatable: false }
    }

    const fn repeatable(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, arguments, repeatable: true }
    }
}

/// The directives of a table.
pub(super) const OF_TABLES: [Directive; 4] = [
    Directive::once("table", &["name", "durability", "expiration", "registry"]),
    EXPORT,
    Directive::repeatable("compositeIndex", &["fields"]),
    Directive::once("multicast", &["topic"]),
];

/// The directives of a stream.
pub(super) const OF_STREAMS: [Directive; 2] = [
    Directive::once(
        "stream",
        &["name", "durability", "partitions", "idempotency", "expiration", "maxBytes", "holdFor"],
    ),
    EXPORT,
];

const EXPORT: Directive = Directive::once("export", &[]);

/// The directives of an attribute.
pub(super) const OF_ATTRIBUTES: [Directive; 9] = [
    Directive::once("primaryKey", &[]),
    Directive::repeatable("indexed", &["type"]),
    Directive::once("unique", &[]),
    OF_RELATIONSHIPS[0],
    Directive::once("createdTime", &[]),
    Directive::once("updatedTime", &[]),
    Directive::once("expiresAt", &[]),
    Directive::once("ttl", &[]),
    Directive::once("thumb", &["sizes"]),
];

/// The directive of a relationship.
pub(super) const OF_RELATIONSHIPS: [Directive; 1] = [Directive::once("relationship", &["from", "to"])];

/// Returns the first directive with this name.
pub(super) fn find<'a>(
    directives: &'a [Positioned<ConstDirective>],
    name: &str,
) -> Option<&'a Positioned<ConstDirective>> {
    directives.iter().find(|directive| directive.node.name.node == name)
}

/// Returns the string argument of a directive, if given.
pub(super) fn text_argument(directive: &Positioned<ConstDirective>, name: &str) -> Result<Option<String>> {
    let Some(value) = directive.node.get_argument(name) else { return Ok(None) };
    match &value.node {
        ConstValue::String(text) => Ok(Some(text.clone())),
        other => Err(invalid(value.pos, format!("{name} must be a string, not {other}"))),
    }
}

/// Checks the directives given in one place.
///
/// # Errors
/// `Invalid` at the first directive or argument that is unknown, or given twice.
pub(super) fn check(given: &[Positioned<ConstDirective>], known: &[Directive]) -> Result<()> {
    for (position, directive) in given.iter().enumerate() {
        let name = directive.node.name.node.as_str();
        let Some(Directive { arguments, repeatable, .. }) = known.iter().find(|known| known.name == name) else {
            let names: Vec<_> = known.iter().map(|known| format!("@{}", known.name)).collect();
            let detail = format!("@{name} is not supported here: expected one of {}", names.join(" "));
            return Err(invalid(directive.pos, detail));
        };
        if !repeatable && find(&given[..position], name).is_some() {
            return Err(invalid(directive.pos, format!("@{name} is given twice")));
        }
        let given = &directive.node.arguments;
        for (position, (argument, _)) in given.iter().enumerate() {
            if !arguments.contains(&argument.node.as_str()) {
                return Err(invalid(argument.pos, format!("@{name} does not support the argument {}", argument.node)));
            }
            if given[..position].iter().any(|(earlier, _)| earlier.node == argument.node) {
                return Err(invalid(argument.pos, format!("the argument {} of @{name} is given twice", argument.node)));
            }
        }
    }
    Ok(())
}

/// Checks the definitions of directives, which editors need. They change nothing, so they may only name what exists.
///
/// # Errors
/// `Invalid` at the first directive that is unknown or defined twice, and at the first unknown argument.
pub(super) fn check_definitions<'a>(definitions: impl Iterator<Item = &'a DirectiveDefinition>) -> Result<()> {
    let mut defined = Vec::new();
    for DirectiveDefinition { name, arguments, .. } in definitions {
        let mut all = OF_TABLES.iter().chain(&OF_STREAMS).chain(&OF_ATTRIBUTES);
        let Some(known) = all.find(|known| known.name == name.node) else {
            return Err(invalid(name.pos, format!("there is no directive @{}", name.node)));
        };
        if defined.contains(&known.name) {
            return Err(invalid(name.pos, format!("directive @{} is defined twice", name.node)));
        }
        for argument in arguments.iter().map(|argument| &argument.node.name) {
            if !known.arguments.contains(&argument.node.as_str()) {
                let detail = format!("@{} does not support the argument {}", name.node, argument.node);
                return Err(invalid(argument.pos, detail));
            }
        }
        defined.push(known.name);
    }
    Ok(())
}
