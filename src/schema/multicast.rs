//! Multicasts: which tables take them, and where the messages are stored.

use async_graphql_parser::types::{ConstDirective, TypeDefinition, TypeSystemDefinition};
use async_graphql_parser::{Positioned, parse_schema};

use super::directives::{find, text_argument};
use super::{Kind, Table, invalid, parse_table};
use crate::error::Result;

/// The name of the table of messages: a multicast is a record of it while it is needed, and stands in the log. No client can name it.
pub const MESSAGES: &str = "_messages";

/// The name of the table of idempotency keys of multicasts. No client can name it.
pub const REPEATS: &str = "_repeats";

/// A message has the number of the table of its targets, their ids in ascending order, and, where a transport needs them, the topic of each
/// (empty where it has none).
const SDL: &str = "
type Messages @table { id: ID! @primaryKey target: Int! ids: [ID]! body: Any topics: [String] }
type Repeats @table { id: ID! @primaryKey message: ID! targets: Int! digest: Int! until: Int! @expiresAt }
";

/// What `@multicast` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Position of the attribute whose value several targets share, for which one message is sent over other transports.
    pub topic: Option<usize>,
}

impl Multicast {
    pub(super) fn parse(table: &Table, directives: &[Positioned<ConstDirective>]) -> Result<Option<Self>> {
        let Some(directive) = find(directives, "multicast") else { return Ok(None) };
        let topic = text_argument(directive, "topic")?.map(|name| {
            let refused = |detail| Err(invalid(directive.pos, detail));
            let Some(position) = table.attribute(&name) else {
                return refused(format!("table {} has no attribute {name}", table.name));
            };
            let attribute = &table.attributes[position];
            match attribute.kind {
                Kind::Id | Kind::String if !attribute.list => Ok(position),
                _ => {
                    refused(format!("a topic must be an ID or a String, and {name} has type {}", attribute.type_name()))
                }
            }
        });
        Ok(Some(Self { topic: topic.transpose()? }))
    }
}

/// Returns the tables of messages and of idempotency keys.
pub(super) fn tables() -> Result<Vec<Table>> {
    let document = parse_schema(SDL).expect("it is valid");
    let of_definition = |definition: &TypeSystemDefinition| match definition {
        TypeSystemDefinition::Type(definition) => named(&definition.node),
        _ => unreachable!("there are types only"),
    };
    document.definitions.iter().map(of_definition).collect()
}

fn named(definition: &TypeDefinition) -> Result<Table> {
    let name = if definition.name.node == "Messages" { MESSAGES } else { REPEATS };
    Ok(Table { name: name.to_owned(), ..parse_table(definition)? })
}
