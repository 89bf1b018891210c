//! The GraphQL types of the tables, used for validation and introspection.
//!
//! A table `T` becomes an object type and five root fields: `T(id)`, `TList(filter, sort, limit, offset, after)`, `createT(data)`,
//! `updateT(id, data)` and `deleteT(id)`. Root fields are nullable: a failure in one does not affect the others.
//!
//! A table is left out if its names are already taken (as with tables `T` and `TList`), or if its name is not a GraphQL name.

use std::collections::HashSet;

use async_graphql::ValidationMode;
use async_graphql::dynamic::{Field, FieldFuture, InputObject, InputValue, Object, Scalar, Schema as Types, TypeRef};

use super::parser::NESTED;
use crate::schema::{Attribute, Kind, Schema, Table};

/// Custom scalars and their descriptions.
const SCALARS: [(&str, &str); 3] = [
    (
        "Int64",
        "An integer of 64 bits. A JSON number; as an argument also its digits as a string, since JavaScript has 53 bits.",
    ),
    ("Date", "An ISO 8601 date or date-time, as it was written."),
    ("JSON", "Any JSON value."),
];

/// Returns the positions of the tables that become object types, in schema order. Tables that are not exported are included, because a
/// relationship may lead to them; those that are kept in Redis are not.
pub(super) fn tables(schema: &Schema) -> Vec<usize> {
    let reserved = ["Query", "Mutation", "Int", "Float", "String", "Boolean", "ID"].into_iter();
    let mut taken: HashSet<String> = reserved.chain(SCALARS.map(|(name, _)| name)).map(str::to_owned).collect();
    let mut served = Vec::new();
    for (position, table) in schema.tables.iter().enumerate() {
        let names = ["", "List", "Input", "Patch"].map(|end| format!("{}{end}", table.name));
        if !table.in_redis && is_name(&table.name) && names.iter().all(|name| !taken.contains(name)) {
            taken.extend(names);
            served.push(position);
        }
    }
    served
}

/// Returns whether this is a GraphQL name: letters, digits and underscores, without a leading digit or two leading underscores.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_part) && !name.starts_with(|first: char| first.is_ascii_digit()) && !name.starts_with("__")
}

/// Generates the types of a schema.
pub(super) fn of(schema: &Schema) -> Types {
    let tables = tables(schema);
    let (mut query, mut mutation) = (Object::new("Query"), Object::new("Mutation"));
    let exported: Vec<&Table> =
        tables.iter().map(|position| &schema.tables[*position]).filter(|table| table.exported).collect();
    for table in &exported {
        query = query.field(one(table)).field(list(table));
        mutation = mutation.field(create(table)).field(update(table)).field(delete(table));
    }
    if exported.is_empty() {
        // An object type needs at least one field.
        query = query.field(unresolved("nothing", TypeRef::named(TypeRef::BOOLEAN)));
    }
    let mutations = (!exported.is_empty()).then_some("Mutation");
    let mut builder = Types::build("Query", mutations, None).register(query);
    if mutations.is_some() {
        builder = builder.register(mutation);
    }
    for (name, description) in SCALARS {
        builder = builder.register(Scalar::new(name).description(description));
    }
    for table in tables.iter().map(|position| &schema.tables[*position]) {
        builder = builder.register(object(schema, table, &tables));
    }
    for table in exported {
        builder = builder.register(input(table, "Input", true)).register(input(table, "Patch", false));
    }
    builder
        .validation_mode(ValidationMode::Fast)
        .limit_recursive_depth(NESTED)
        .finish()
        .expect("names are unlike, and every type that is named is registered")
}

/// Returns a field without data: documents are validated, compiled and executed by us; the library is only asked for introspection.
fn unresolved(name: impl Into<String>, of: TypeRef) -> Field {
    Field::new(name, of, |_| FieldFuture::from_value(None))
}

fn argument(name: &str, of: &str) -> InputValue {
    InputValue::new(name, TypeRef::named(of))
}

fn required(name: &str, of: impl Into<String>) -> InputValue {
    InputValue::new(name, TypeRef::named_nn(of))
}

fn one(table: &Table) -> Field {
    let field = unresolved(&table.name, TypeRef::named(&table.name)).argument(required("id", TypeRef::ID));
    field.description(format!("The {} with this id; null if there is none.", table.name))
}

fn list(table: &Table) -> Field {
    let field = unresolved(format!("{}List", table.name), TypeRef::named_nn_list(&table.name))
        .argument(argument("filter", TypeRef::STRING))
        .argument(argument("sort", TypeRef::STRING))
        .argument(argument("limit", TypeRef::INT))
        .argument(argument("offset", TypeRef::INT))
        .argument(argument("after", TypeRef::STRING));
    field.description(
        "Records that satisfy the filter (FIQL, as in a URL). If the list is truncated, `extensions.next` of the \
         response has, under the response key of the field, the cursor for `after`.",
    )
}

fn create(table: &Table) -> Field {
    let field = unresolved(format!("create{}", table.name), TypeRef::named(&table.name));
    field.argument(required("data", format!("{}Input", table.name)))
}

fn update(table: &Table) -> Field {
    let field = unresolved(format!("update{}", table.name), TypeRef::named(&table.name));
    let field = field.argument(required("id", TypeRef::ID)).argument(required("data", format!("{}Patch", table.name)));
    field.description("Applies a JSON merge patch, like PATCH.")
}

fn delete(table: &Table) -> Field {
    let field = unresolved(format!("delete{}", table.name), TypeRef::named(TypeRef::ID));
    field.argument(required("id", TypeRef::ID)).description("The id of the deleted record; null if there was none.")
}

fn object(schema: &Schema, table: &Table, tables: &[usize]) -> Object {
    let mut object = Object::new(&table.name);
    for attribute in &table.attributes {
        object = object.field(unresolved(&attribute.name, type_of(attribute, attribute.required)));
    }
    for relationship in table.relationships.iter().filter(|relationship| tables.contains(&relationship.table)) {
        let other = &schema.tables[relationship.table].name;
        let of = if relationship.many { TypeRef::named_nn_list_nn(other) } else { TypeRef::named(other) };
        object = object.field(unresolved(&relationship.name, of));
    }
    object
}

/// Returns the input type for creating (`whole`) or patching a record.
fn input(table: &Table, end: &str, whole: bool) -> InputObject {
    let mut input = InputObject::new(format!("{}{end}", table.name));
    for (position, attribute) in table.attributes.iter().enumerate() {
        let made = position == table.primary_key || attribute.stamp.is_some();
        input = input.field(InputValue::new(&attribute.name, type_of(attribute, whole && attribute.required && !made)));
    }
    input
}

fn type_of(attribute: &Attribute, required: bool) -> TypeRef {
    let name = match attribute.kind {
        Kind::Id => TypeRef::ID,
        // A blob is represented by its path.
        Kind::String | Kind::Blob => TypeRef::STRING,
        Kind::Int => "Int64",
        Kind::Float => TypeRef::FLOAT,
        Kind::Boolean => TypeRef::BOOLEAN,
        Kind::Date => "Date",
        Kind::Any => "JSON",
    };
    match (attribute.list, required) {
        (false, false) => TypeRef::named(name),
        (false, true) => TypeRef::named_nn(name),
        (true, false) => TypeRef::named_list(name),
        (true, true) => TypeRef::named_list_nn(name),
    }
}
