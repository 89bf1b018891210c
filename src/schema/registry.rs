//! Tables whose records are kept in Redis (`registry: "redis"`), and what such a table cannot have.
//!
//! Redis keeps a text and its time to live, and nothing else: what needs an index, a second record or bytes of its own is refused here, so
//! that no later layer has to.

use async_graphql_parser::Positioned;
use async_graphql_parser::types::{ConstDirective, FieldDefinition};

use super::directives::{find, text_argument};
use super::{Kind, Table, invalid};
use crate::error::Result;

/// Returns whether a table is kept in Redis.
pub(super) fn is_in_redis(
    directives: &[Positioned<ConstDirective>],
    table: &Positioned<ConstDirective>,
) -> Result<bool> {
    let Some(registry) = table.node.get_argument("registry") else { return Ok(false) };
    match text_argument(table, "registry")?.as_deref() {
        Some("redis") => {}
        other => {
            let other = other.unwrap_or_default();
            return Err(invalid(registry.pos, format!("registry must be \"redis\", not {other:?}")));
        }
    }
    if table.node.get_argument("expiration").is_none() {
        return Err(invalid(registry.pos, "registry: \"redis\" requires expiration: SECONDS".into()));
    }
    if let Some(durability) = table.node.get_argument("durability") {
        return Err(invalid(durability.pos, refused("a durability")));
    }
    match find(directives, "compositeIndex") {
        Some(index) => Err(invalid(index.pos, refused("@compositeIndex"))),
        None => Ok(true),
    }
}

/// Checks an attribute of a table that is kept in Redis.
pub(super) fn check_attribute(field: &FieldDefinition, kind: Kind) -> Result<()> {
    if kind == Kind::Blob {
        return Err(invalid(field.ty.pos, refused("a Blob")));
    }
    let directive = ["indexed", "unique", "createdTime"].iter().find_map(|name| find(&field.directives, name));
    directive
        .map_or(Ok(()), |directive| Err(invalid(directive.pos, refused(&format!("@{}", directive.node.name.node)))))
}

/// Checks that neither table of a relationship is kept in Redis.
pub(super) fn check_relationship(directive: &Positioned<ConstDirective>, own: &Table, other: &Table) -> Result<()> {
    match [own, other].into_iter().find(|table| table.in_redis) {
        None => Ok(()),
        Some(table) => {
            let detail =
                format!("table {} is in Redis (registry: \"redis\"): it cannot have relationships", table.name);
            Err(invalid(directive.pos, detail))
        }
    }
}

fn refused(what: &str) -> String {
    format!("{what} is not supported with registry: \"redis\"")
}
