//! Event streams: types with `@stream`, which have no attributes.

use std::ops::RangeInclusive;

use async_graphql_parser::Positioned;
use async_graphql_parser::types::{ConstDirective, TypeDefinition, TypeKind};
use async_graphql_value::ConstValue;

use super::{Durability, LONGEST_LIFE, directives, durability, invalid, name};
use crate::error::Result;

/// An append-only log of events in partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its number in keys, which no table has.
    pub id: u32,
    /// Its name in paths and errors.
    pub name: String,
    /// Served over REST (`@export`).
    pub exported: bool,
    /// What an acknowledged event survives.
    pub durability: Durability,
    /// The number of partitions.
    pub partitions: u32,
    /// For how many seconds an idempotency key is known; 0: events have none.
    pub idempotency: u64,
    /// After how many seconds events are trimmed.
    pub expiration: Option<u64>,
    /// How many bytes of events a partition keeps, about.
    pub max_bytes: Option<u64>,
    /// The consumer groups without whose commit nothing is trimmed.
    pub hold_for: Vec<String>,
}

/// The maximum length of a consumer group's name, in bytes.
pub const GROUP_BYTES: usize = 255;

/// Checks that a consumer group may have this name.
///
/// # Errors
/// A message stating what is allowed.
pub fn check_group_name(name: &str) -> std::result::Result<(), String> {
    let is_allowed = (1..=GROUP_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    match is_allowed && !matches!(name, "." | "..") {
        true => Ok(()),
        false => Err(format!(
            "a consumer group has a name of 1 to {GROUP_BYTES} bytes without control characters, and not . or .."
        )),
    }
}

/// Numbers of partitions.
const PARTITIONS: RangeInclusive<u64> = 1..=1024;

/// Seconds for which an idempotency key may be known: up to a year.
const WINDOWS: RangeInclusive<u64> = 0..=31_536_000;

/// Seconds for which events may be kept: up to a hundred years.
const LIVES: RangeInclusive<u64> = 1..=LONGEST_LIFE;

/// Bytes that a partition may keep.
const BYTES: RangeInclusive<u64> = 1..=i64::MAX as u64;

/// A day.
const USUAL_WINDOW: u64 = 86_400;

impl Stream {
    /// Parses a type with `@stream`; its number is assigned later.
    ///
    /// # Errors
    /// `Invalid` with line and column.
    pub(super) fn parse(definition: &TypeDefinition) -> Result<Self> {
        let object = match &definition.kind {
            TypeKind::Object(object) => object,
            _ => return Err(invalid(definition.name.pos, "@stream applies to object types only".into())),
        };
        if let Some(interface) = object.implements.first() {
            return Err(invalid(interface.pos, "interfaces are not supported: remove `implements`".into()));
        }
        if directives::find(&definition.directives, "table").is_some() {
            return Err(invalid(definition.name.pos, "a type is a table or a stream, not both".into()));
        }
        if let Some(field) = object.fields.first() {
            let detail = "a stream has no attributes: an event is any JSON value".to_owned();
            return Err(invalid(field.node.name.pos, detail));
        }
        directives::check(&definition.directives, &directives::OF_STREAMS)?;
        let directive =
            directives::find(&definition.directives, "stream").expect("types_of chose it by this directive");
        Ok(Self {
            id: 0,
            name: name("stream", definition, directive)?,
            exported: directives::find(&definition.directives, "export").is_some(),
            durability: durability(directive)?,
            partitions: number(directive, "partitions", &PARTITIONS)?.unwrap_or(1) as u32,
            idempotency: number(directive, "idempotency", &WINDOWS)?.unwrap_or(USUAL_WINDOW),
            expiration: number(directive, "expiration", &LIVES)?,
            max_bytes: size(directive, "maxBytes", &BYTES)?,
            hold_for: groups(directive, "holdFor")?,
        })
    }
}

/// Returns the numeric argument of a directive, if given.
fn number(directive: &Positioned<ConstDirective>, name: &str, allowed: &RangeInclusive<u64>) -> Result<Option<u64>> {
    let Some(value) = directive.node.get_argument(name) else { return Ok(None) };
    let number = match &value.node {
        ConstValue::Number(number) => number.as_u64().filter(|number| allowed.contains(number)),
        _ => None,
    };
    number.map(Some).ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        invalid(value.pos, format!("{name} must be a whole number from {least} to {most}, not {}", value.node))
    })
}

/// Returns the argument of a directive that is a number of bytes, which may be written as `"64M"`, if given.
fn size(directive: &Positioned<ConstDirective>, name: &str, allowed: &RangeInclusive<u64>) -> Result<Option<u64>> {
    let Some(value) = directive.node.get_argument(name) else { return Ok(None) };
    let ConstValue::String(text) = &value.node else { return number(directive, name, allowed) };
    let bytes = crate::size::parse(text).ok().map(|bytes| bytes as u64).filter(|bytes| allowed.contains(bytes));
    bytes.map(Some).ok_or_else(|| {
        let detail = format!("{name} must be a number of bytes such as 65536, or a size such as \"64M\", not {text:?}");
        invalid(value.pos, detail)
    })
}

/// Returns the argument of a directive that is a list of names of consumer groups; empty if it is not given.
fn groups(directive: &Positioned<ConstDirective>, name: &str) -> Result<Vec<String>> {
    let Some(value) = directive.node.get_argument(name) else { return Ok(Vec::new()) };
    let refused = |why: &str| invalid(value.pos, format!("{name}: {why}"));
    let ConstValue::List(names) = &value.node else { return Err(refused("it must be a list of names")) };
    let names = names.iter().map(|group| match group {
        ConstValue::String(group) => check_group_name(group).map(|()| group.clone()).map_err(|why| refused(&why)),
        _ => Err(refused("it must be a list of names")),
    });
    names.collect()
}
