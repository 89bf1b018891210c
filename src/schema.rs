//! Tables, attributes, indexes and event streams, parsed from GraphQL SDL.
//!
//! A [`Schema`] that exists is valid: later layers may index by attribute position without further checks. Unsupported features are
//! rejected here, with line and column, and not when the first request uses them.
//!
//! Keys contain numbers ([`Table::id`], [`Stream::id`], [`Index::id`]) instead of names. A freshly parsed schema assigns them in source order;
//! `transaction` reassigns them from the catalogue of the opened store, so that they never change for stored data. The catalogue also
//! provides the earlier layouts of records ([`Earlier`]) and the build states of indexes ([`IndexState`]).
//!
//! Numbers and positions of a table mean something for that table only. So each table of each parsed schema and of each open database has
//! an identity of its own (`Identity`): verbs take tables of their database, conditions and selections are used on the table that they were
//! parsed for, and a topic is of a table of the feed's database. Everything else is `Invalid`.
//!
//! A schema with multicasts has two tables more ([`MESSAGES`], [`REPEATS`]), which no client can name.

mod directives;
mod index;
mod multicast;
mod registry;
mod stream;
mod thumb;

use async_graphql_parser::types::{
    BaseType, ConstDirective, FieldDefinition, ObjectType, ServiceDocument, Type as SdlType, TypeDefinition, TypeKind,
    TypeSystemDefinition,
};
use async_graphql_parser::{Pos, Positioned, parse_schema};
use async_graphql_value::ConstValue;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Place, Result};
use directives::text_argument;
pub use index::{Index, IndexKind, IndexState, Progress};
pub use multicast::{MESSAGES, Multicast, REPEATS};
pub(crate) use stream::check_group_name;
pub use stream::{GROUP_BYTES, Stream};
pub(crate) use thumb::ThumbMode;
pub use thumb::{LONGEST_SIDE, ThumbSize};

/// All tables and streams.
#[derive(Clone, Debug)]
pub struct Schema {
    /// In source order; after these, the tables of multicasts.
    pub tables: Vec<Table>,
    /// In source order. No stream has the name of a table.
    pub streams: Vec<Stream>,
}

/// One table: a type with `@table`.
#[derive(Clone, Debug)]
pub struct Table {
    /// The identity of the table of this schema; in an open database, of this opening.
    pub(crate) identity: Identity,
    /// Its number in keys.
    pub id: u32,
    /// Its name in paths and errors.
    pub name: String,
    /// Served over REST and GraphQL (`@export`).
    pub exported: bool,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The stored attributes in source order; relationships are not among them.
    pub attributes: Vec<Attribute>,
    /// The number of fixed-width values of a record: those of attributes and, last, its deadline if the table has an expiration.
    pub fixed_widths: usize,
    /// Position of the primary key in `attributes`.
    pub primary_key: usize,
    /// The time to live of a record after its last write, in seconds, unless the record gives its own time to live or expiry.
    pub expiration: Option<u64>,
    /// Position of the attribute that gives the time to live of a record after its last write, in seconds; only with an expiration.
    pub ttl: Option<usize>,
    /// Position of the attribute that gives the expiry of a record.
    pub expires_at: Option<usize>,
    /// Present if messages can be sent to its records (`@multicast`).
    pub multicast: Option<Multicast>,
    /// Its records are kept in Redis and none is stored here (`registry: "redis"`); only with an expiration.
    pub in_redis: bool,
    /// Ids that the server makes are not adjacent: the store would write all of them in one place.
    pub has_random_ids: bool,
    /// Every index of the table.
    pub indexes: Vec<Index>,
    /// Positions of the attributes whose values are blobs.
    pub blobs: Vec<usize>,
    /// The number of the current layout of records, which is stored in each of them.
    pub layout: u8,
    /// The layouts of records under earlier schemas.
    pub earlier: Vec<Earlier>,
    /// Relationships to other tables; they are not stored.
    pub relationships: Vec<Relationship>,
}

/// Tells a table from any other in this process, of whatever schema and database: its name and its number do not. Clones share it, so verbs
/// compare addresses besides: a clone may have been changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(1 + LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The layout of the records of a table under an earlier schema. They are not rewritten: each is read as if it had been written under the
/// current schema.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The table as it was then, as far as its records depend on it.
    pub table: Table,
    /// For each current attribute, its position in `table`; `None` if it is newer.
    pub sources: Vec<Option<usize>>,
    /// The expiry of a record written before the table had an expiration, in microseconds since 1970.
    pub deadline: i64,
}

/// One stored attribute of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name in bodies.
    pub name: String,
    /// The type of the value, or of the elements of a list.
    pub kind: Kind,
    /// Whether the value is a list of `kind`.
    pub list: bool,
    /// Whether null is rejected.
    pub required: bool,
    /// The timestamp that the server fills in, if any.
    pub stamp: Option<Stamp>,
    /// Its position among the fixed-width values of the table (Int, Float, Date and Blob, except lists), if it is one.
    pub fixed_width: Option<usize>,
    /// The sizes of thumbnails that may be asked for (`@thumb`); all if it is empty.
    pub thumb_sizes: Vec<ThumbSize>,
}

/// The type of a scalar value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier: text.
    Id,
    /// UTF-8 text.
    String,
    /// A 64-bit signed integer, exact.
    Int,
    /// An IEEE 754 double, finite.
    Float,
    /// true or false.
    Boolean,
    /// An instant in microseconds UTC, stored as written (ISO 8601 date or date-time).
    Date,
    /// Any JSON value.
    Any,
    /// Bytes of any length, stored separately from the record and with a path of their own.
    Blob,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] =
        [Self::Id, Self::String, Self::Int, Self::Float, Self::Boolean, Self::Date, Self::Any, Self::Blob];

    /// Returns the kind with this name in a schema.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether a value has an eight-byte copy besides its text.
    pub fn has_fixed_width(self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Date | Self::Blob)
    }

    /// Returns its name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::String => "String",
            Self::Int => "Int",
            Self::Float => "Float",
            Self::Boolean => "Boolean",
            Self::Date => "Date",
            Self::Any => "Any",
            Self::Blob => "Blob",
        }
    }
}

impl Attribute {
    /// Returns whether its values have an order.
    pub(crate) fn is_sortable(&self) -> bool {
        !self.list && !matches!(self.kind, Kind::Any | Kind::Blob)
    }

    /// Returns its type in schema syntax, such as `[String]!`.
    pub fn type_name(&self) -> String {
        let name = self.kind.name();
        let required = if self.required { "!" } else { "" };
        if self.list { format!("[{name}]{required}") } else { format!("{name}{required}") }
    }
}

/// A timestamp that the server writes into a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// When the record was created.
    Created,
    /// When the record was last written.
    Updated,
}

/// A relationship to another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relationship {
    /// Its name in queries.
    pub name: String,
    /// Position of the other table in [`Schema::tables`].
    pub table: usize,
    /// Position of the foreign key among the attributes of this table (`from`, to one) or of the other (`to`, to many): the id of a record
    /// or, for to-many, also a list of ids.
    pub foreign_key: usize,
    /// Whether it is a to-many relationship.
    pub many: bool,
}

/// What an acknowledged write survives. A table chooses by `@table(durability:)`; a transaction over tables of both classes is strong.
/// There is no class without the log (`storage::rocks` says why).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Durability {
    /// Written to the log and handed to the operating system: survives a crash of the process, but not of the machine. The server syncs the
    /// log in the background (`maintenance::background`), so such a crash takes about a second of writes.
    #[default]
    Soft,
    /// Synced to the device: survives a crash of the machine too. Readers may see it shortly before the sync.
    Strong,
}

impl Durability {
    /// Returns the name used in schemas and with every published write figure.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Strong => "strong",
        }
    }
}

impl Schema {
    /// Parses SDL.
    ///
    /// # Errors
    /// `Invalid` with line and column: a syntax error, or anything that this server does not support.
    pub fn parse(sdl: &str) -> Result<Self> {
        let document = parse_schema(sdl).map_err(|error| {
            let position = error.positions().next().unwrap_or(Pos { line: 1, column: 1 });
            invalid(position, syntax_detail(&error))
        })?;
        let mut schema = Self { tables: Vec::new(), streams: Vec::new() };
        let (mut tables, mut types) = (Vec::new(), HashSet::new());
        for definition in types_of(&document)? {
            let wrong = |detail: String| invalid(definition.name.pos, detail);
            if !types.insert(&definition.name.node) {
                return Err(wrong(format!("type {} is defined twice", definition.name.node)));
            }
            let refuse_taken = |schema: &Self, what: &str, name: &str| {
                let is_table = schema.table(name).is_some();
                match is_table.then_some("table").or_else(|| schema.stream(name).map(|_| "stream")) {
                    None => Ok(()),
                    Some(other) if other == what => Err(wrong(format!("{what} {name} is defined twice"))),
                    Some(other) => Err(wrong(format!("{name} is the name of a {other} already"))),
                }
            };
            if directives::find(&definition.directives, "stream").is_some() {
                let stream = Stream::parse(definition)?;
                refuse_taken(&schema, "stream", &stream.name)?;
                schema.streams.push(stream);
            } else {
                let table = parse_table(definition)?;
                refuse_taken(&schema, "table", &table.name)?;
                schema.tables.push(table);
                tables.push(definition);
            }
        }
        if types.is_empty() {
            return Err(invalid(
                Pos { line: 1, column: 1 },
                "no type has @table or @stream: there would be nothing to serve".into(),
            ));
        }
        parse_relationships(&mut schema, &tables)?;
        if schema.tables.iter().any(|table| table.multicast.is_some()) {
            schema.tables.extend(multicast::tables()?);
        }
        schema.number();
        schema.set_identities();
        Ok(schema)
    }

    /// Tells its tables from those of every other schema, of which it may be a clone, and the build states of its indexes.
    pub(crate) fn set_identities(&mut self) {
        for table in &mut self.tables {
            table.identity = Identity::new();
            table.indexes.iter_mut().for_each(|index| index.progress = Progress::default());
        }
    }

    /// Returns whether a table is one of this schema, or a clone of one.
    pub(crate) fn has(&self, identity: Identity) -> bool {
        self.tables.iter().any(|table| table.identity == identity)
    }

    /// Returns the table with this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Returns the stream with this name.
    pub fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == name)
    }

    /// Numbers tables and then streams, and indexes, in source order, both from 1.
    fn number(&mut self) {
        let mut next_index = 1..;
        let first_stream = 1 + self.tables.len() as u32;
        self.streams.iter_mut().zip(first_stream..).for_each(|(stream, id)| stream.id = id);
        for (table, id) in self.tables.iter_mut().zip(1..) {
            table.id = id;
            for (index, id) in table.indexes.iter_mut().zip(&mut next_index) {
                index.id = id;
            }
        }
    }
}

impl Table {
    /// Returns the position of the attribute with this name.
    pub fn attribute(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|attribute| attribute.name == name)
    }

    /// Returns the attribute at a position.
    ///
    /// # Errors
    /// `Invalid` if there is none.
    #[inline]
    pub(crate) fn attribute_at(&self, position: usize) -> Result<&Attribute> {
        self.attributes.get(position).ok_or_else(|| self.no_attribute_at(position))
    }

    #[cold]
    fn no_attribute_at(&self, position: usize) -> Error {
        let (name, attributes) = (&self.name, self.attributes.len());
        Error::invalid(format!("table {name} has {attributes} attributes, counted from 0: there is none at {position}"))
    }

    /// Returns the JSON pointer to an attribute in a body.
    pub(crate) fn pointer(&self, attribute: usize) -> String {
        format!("/{}", self.attributes[attribute].name)
    }

    /// Returns the position of the relationship with this name.
    pub fn relationship(&self, name: &str) -> Option<usize> {
        self.relationships.iter().position(|relationship| relationship.name == name)
    }

    /// Returns the index of a kind on one attribute.
    pub fn index(&self, attribute: usize, kind: IndexKind) -> Option<&Index> {
        self.indexes.iter().find(|index| index.attribute == attribute && index.kind == kind)
    }

    /// Returns whether no client can name it: it is one of multicasts.
    pub fn is_internal(&self) -> bool {
        [MESSAGES, REPEATS].contains(&self.name.as_str())
    }

    /// Returns whether any of its records may expire.
    pub fn expires(&self) -> bool {
        self.expiration.is_some() || self.expires_at.is_some()
    }
}

/// Names with a meaning in queries, which attributes must not have.
const RESERVED: [&str; 26] = [
    "select",
    "sort",
    "limit",
    "offset",
    "after",
    "pagination",
    "explain",
    "stream",
    "thumb",
    "truncate",
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "gele",
    "gelt",
    "gtle",
    "gtlt",
    "in",
    "out",
    "ct",
    "sw",
    "ew",
    "ft",
];

fn invalid(position: Pos, detail: String) -> Error {
    Error::Invalid { detail, place: Place::Line { line: position.line, column: position.column } }
}

/// Extracts the cause from a parser error: its last line; the others quote the source.
fn syntax_detail(error: &async_graphql_parser::Error) -> String {
    let text = error.to_string();
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("syntax error");
    last.trim().trim_start_matches("= ").to_owned()
}

/// Returns the types with `@table` or `@stream`; there may be no others.
fn types_of(document: &ServiceDocument) -> Result<Vec<&TypeDefinition>> {
    let mut types = Vec::new();
    directives::check_definitions(document.definitions.iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Directive(definition) => Some(&definition.node),
        _ => None,
    }))?;
    for definition in &document.definitions {
        match definition {
            TypeSystemDefinition::Type(definition) if definition.node.extend => {
                return Err(invalid(definition.pos, "`extend` is not supported: define the whole type at once".into()));
            }
            TypeSystemDefinition::Type(definition)
                if ["table", "stream"]
                    .iter()
                    .any(|name| directives::find(&definition.node.directives, name).is_some()) =>
            {
                types.push(&definition.node);
            }
            TypeSystemDefinition::Type(definition) => {
                let name = &definition.node.name.node;
                let detail = match keyword(&definition.node.kind) {
                    "type" => {
                        format!("type {name} has no @table and no @stream: only tables and streams can be defined")
                    }
                    keyword => {
                        format!("{keyword} {name} is not supported: only types with @table or @stream can be defined")
                    }
                };
                return Err(invalid(definition.pos, detail));
            }
            TypeSystemDefinition::Schema(definition) => {
                return Err(invalid(
                    definition.pos,
                    "`schema` is not supported: the server generates the root types".into(),
                ));
            }
            TypeSystemDefinition::Directive(_) => {}
        }
    }
    Ok(types)
}

/// Returns the keyword of a definition.
fn keyword(kind: &TypeKind) -> &'static str {
    match kind {
        TypeKind::Object(_) => "type",
        TypeKind::Scalar => "scalar",
        TypeKind::Interface(_) => "interface",
        TypeKind::Union(_) => "union",
        TypeKind::Enum(_) => "enum",
        TypeKind::InputObject(_) => "input",
    }
}

fn parse_table(definition: &TypeDefinition) -> Result<Table> {
    let TypeKind::Object(object) = &definition.kind else {
        return Err(invalid(definition.name.pos, "@table applies to object types only".into()));
    };
    if let Some(interface) = object.implements.first() {
        return Err(invalid(interface.pos, "interfaces are not supported: remove `implements`".into()));
    }
    directives::check(&definition.directives, &directives::OF_TABLES)?;
    let position = definition.name.pos;
    let table_directive =
        directives::find(&definition.directives, "table").expect("types_of chose it by this directive");
    let name = name("table", definition, table_directive)?;
    let durability = durability(table_directive)?;
    let mut table = Table {
        identity: Identity::default(),
        id: 0,
        name,
        exported: directives::find(&definition.directives, "export").is_some(),
        durability,
        attributes: Vec::new(),
        fixed_widths: 0,
        primary_key: usize::MAX,
        expiration: expiration(table_directive)?,
        ttl: None,
        expires_at: None,
        multicast: None,
        in_redis: registry::is_in_redis(&definition.directives, table_directive)?,
        has_random_ids: false,
        indexes: Vec::new(),
        blobs: Vec::new(),
        layout: 0,
        earlier: Vec::new(),
        relationships: Vec::new(),
    };
    parse_fields(&mut table, object)?;
    if table.primary_key == usize::MAX {
        return Err(invalid(position, format!("table {} has no attribute with @primaryKey", table.name)));
    }
    parse_composite_indexes(&mut table, &definition.directives)?;
    table.multicast = Multicast::parse(&table, &definition.directives)?;
    if table.expires() && !table.in_redis {
        let attribute = table.expires_at.unwrap_or(table.primary_key);
        table.indexes.push(Index::new(IndexKind::Expiry, attribute, Vec::new()));
    }
    table.fixed_widths += usize::from(table.expiration.is_some());
    Ok(table)
}

/// Returns the name of a table or a stream in paths.
fn name(what: &str, definition: &TypeDefinition, directive: &Positioned<ConstDirective>) -> Result<String> {
    let name = text_argument(directive, "name")?.unwrap_or_else(|| definition.name.node.to_string());
    let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !valid || name.starts_with('_') || name == "graphql" {
        let detail =
            format!("{what} name {name:?}: use letters, digits and _, do not begin with _, and do not use graphql");
        return Err(invalid(definition.name.pos, detail));
    }
    Ok(name)
}

fn durability(directive: &Positioned<ConstDirective>) -> Result<Durability> {
    match text_argument(directive, "durability")?.as_deref() {
        None | Some("soft") => Ok(Durability::Soft),
        Some("strong") => Ok(Durability::Strong),
        Some(other) => {
            let detail = format!("durability must be \"soft\" or \"strong\", not {other:?}");
            Err(invalid(directive.pos, detail))
        }
    }
}

/// Returns the lifetime of records in seconds.
fn expiration(directive: &Positioned<ConstDirective>) -> Result<Option<u64>> {
    let Some(value) = directive.node.get_argument("expiration") else { return Ok(None) };
    match &value.node {
        ConstValue::Number(number) if number.as_u64().is_some_and(|seconds| (1..=LONGEST_LIFE).contains(&seconds)) => {
            Ok(number.as_u64())
        }
        other => {
            let detail = format!("expiration must be a whole number of seconds from 1 to {LONGEST_LIFE}, not {other}");
            Err(invalid(value.pos, detail))
        }
    }
}

/// The maximum expiration, in seconds: a hundred years.
const LONGEST_LIFE: u64 = 100 * 365 * 24 * 60 * 60;

/// The maximum number of attributes of a composite index.
const COMPOSED: usize = 8;

fn parse_composite_indexes(table: &mut Table, directives: &[Positioned<ConstDirective>]) -> Result<()> {
    for directive in directives.iter().filter(|directive| directive.node.name.node == "compositeIndex") {
        let fields = directive.node.get_argument("fields");
        let position = fields.map_or(directive.pos, |fields| fields.pos);
        let refused = |detail| Err(invalid(position, detail));
        let names = match fields.map(|fields| &fields.node) {
            Some(ConstValue::List(names)) if (2..=COMPOSED).contains(&names.len()) => names,
            _ => {
                return refused(format!(
                    "expected @compositeIndex(fields: [\"a\", \"b\"]) with 2 to {COMPOSED} attributes"
                ));
            }
        };
        let mut attributes = Vec::new();
        for name in names {
            let ConstValue::String(name) = name else {
                return refused(format!("{name} is not the name of an attribute"));
            };
            let Some(position) = table.attribute(name) else {
                return refused(format!("table {} has no attribute {name}", table.name));
            };
            let attribute = &table.attributes[position];
            if attribute.list || matches!(attribute.kind, Kind::Any | Kind::Blob) {
                return refused(format!(
                    "{name} has type {}: a composite index supports only scalars",
                    attribute.type_name()
                ));
            }
            if position == table.primary_key {
                return refused(format!("{name} is the primary key, which every index already ends with"));
            }
            if attributes.contains(&position) {
                return refused(format!("{name} is given twice"));
            }
            attributes.push(position);
        }
        let index = Index::new(IndexKind::Composite, attributes.remove(0), attributes);
        if table.indexes.iter().any(|other| other.is_like(&index)) {
            return refused("the table already has this index".into());
        }
        table.indexes.push(index);
    }
    Ok(())
}

fn parse_fields(table: &mut Table, object: &ObjectType) -> Result<()> {
    let mut names = HashSet::new();
    for field in &object.fields {
        let (position, field) = (field.node.name.pos, &field.node);
        let name = field.name.node.as_str();
        if !names.insert(name) {
            return Err(invalid(position, format!("attribute {name} is defined twice")));
        }
        if RESERVED.contains(&name) || name.starts_with("__") {
            return Err(invalid(position, format!("{name} is reserved in queries; no attribute may have that name")));
        }
        if let Some(argument) = field.arguments.first() {
            return Err(invalid(argument.node.name.pos, format!("attribute {name} cannot have arguments")));
        }
        if directives::find(&field.directives, "relationship").is_some() {
            directives::check(&field.directives, &directives::OF_RELATIONSHIPS)?;
            continue; // Parsed once all tables are known.
        }
        directives::check(&field.directives, &directives::OF_ATTRIBUTES)?;
        parse_attribute(table, field)?;
    }
    Ok(())
}

/// Returns the name of the innermost type, whether it is a list, and whether null is rejected.
fn shape(definition: &Positioned<SdlType>) -> Result<(&str, bool, bool)> {
    let required = !definition.node.nullable;
    match &definition.node.base {
        BaseType::Named(name) => Ok((name.as_str(), false, required)),
        BaseType::List(element) => match &element.base {
            BaseType::Named(name) => Ok((name.as_str(), true, required)),
            BaseType::List(_) => Err(invalid(definition.pos, "lists of lists are not supported; use Any".into())),
        },
    }
}

/// Returns the kind that has this name elsewhere, or here in another case.
fn meant(type_name: &str) -> Option<Kind> {
    let kind = match type_name.to_ascii_lowercase().as_str() {
        "str" | "text" | "varchar" => Kind::String,
        "long" | "integer" | "bigint" | "int64" => Kind::Int,
        "double" | "decimal" => Kind::Float,
        "bool" => Kind::Boolean,
        "datetime" | "timestamp" => Kind::Date,
        "json" | "jsonobject" | "object" => Kind::Any,
        "bytes" | "binary" => Kind::Blob,
        other => return Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(other)),
    };
    Some(kind)
}

fn parse_attribute(table: &mut Table, field: &FieldDefinition) -> Result<()> {
    let (type_name, list, required) = shape(&field.ty)?;
    let kind = match Kind::named(type_name) {
        Some(Kind::Blob) if list => return Err(invalid(field.ty.pos, "a Blob cannot be in a list".into())),
        Some(Kind::Blob) if required => {
            return Err(invalid(
                field.ty.pos,
                "a Blob cannot be required: a record is written before it has one".into(),
            ));
        }
        Some(kind) => kind,
        None => {
            let hint = meant(type_name).map_or_else(String::new, |kind| format!("; did you mean {}?", kind.name()));
            return Err(invalid(
                field.ty.pos,
                format!(
                    "type {type_name} is not ID, String, Int, Float, Boolean, Date, Any or Blob, and has no @relationship{hint}"
                ),
            ));
        }
    };
    if table.in_redis {
        registry::check_attribute(field, kind)?;
    }
    let attribute = table.attributes.len();
    if kind == Kind::Blob {
        table.blobs.push(attribute);
    }
    if let Some(directive) = directives::find(&field.directives, "primaryKey") {
        if table.primary_key != usize::MAX {
            return Err(invalid(directive.pos, "a table has only one primary key".into()));
        }
        if kind != Kind::Id || list {
            return Err(invalid(field.ty.pos, "the primary key must have type ID".into()));
        }
        table.primary_key = attribute;
    }
    for directive in &field.directives {
        let Some(kind) = index_asked(directive, kind, list)? else { continue };
        if table.index(attribute, kind).is_some() {
            return Err(invalid(directive.pos, "the attribute already has this index".into()));
        }
        table.indexes.push(Index::new(kind, attribute, Vec::new()));
    }
    let stamp = stamp(field, kind, list)?;
    parse_expiry(table, field, (attribute, kind, list), stamp)?;
    let fixed_width = (!list && kind.has_fixed_width()).then_some(table.fixed_widths);
    table.fixed_widths += usize::from(fixed_width.is_some());
    let thumb_sizes = thumb::sizes(field, kind)?;
    let name = field.name.node.to_string();
    table.attributes.push(Attribute { name, kind, list, required, stamp, fixed_width, thumb_sizes });
    Ok(())
}

/// Parses what an attribute, given by its position, its kind and whether it is a list, says of the expiry of its records.
fn parse_expiry(
    table: &mut Table,
    field: &FieldDefinition,
    (attribute, kind, list): (usize, Kind, bool),
    stamp: Option<Stamp>,
) -> Result<()> {
    if let Some(directive) = directives::find(&field.directives, "expiresAt") {
        let refused = |detail: &str| Err(invalid(directive.pos, detail.into()));
        match stamp {
            _ if table.expires_at.is_some() => return refused("a table has only one @expiresAt"),
            _ if !matches!(kind, Kind::Date | Kind::Int) || list => {
                return refused("@expiresAt requires type Date or Int");
            }
            Some(_) => return refused("@expiresAt cannot be combined with @createdTime or @updatedTime"),
            None => table.expires_at = Some(attribute),
        }
    }
    if let Some(directive) = directives::find(&field.directives, "ttl") {
        let refused = |detail: &str| Err(invalid(directive.pos, detail.into()));
        match stamp {
            _ if table.ttl.is_some() => return refused("a table has only one @ttl"),
            _ if kind != Kind::Int || list => return refused("@ttl requires type Int"),
            _ if table.expiration.is_none() => {
                return refused("@ttl requires @table(expiration: SECONDS), which holds for a record without one");
            }
            _ if stamp.is_some() || table.expires_at == Some(attribute) => {
                return refused("@ttl cannot be combined with @expiresAt, @createdTime or @updatedTime");
            }
            _ => table.ttl = Some(attribute),
        }
    }
    Ok(())
}

/// Returns the kind of index that a directive requests.
fn index_asked(directive: &Positioned<ConstDirective>, kind: Kind, list: bool) -> Result<Option<IndexKind>> {
    let index = match directive.node.name.node.as_str() {
        "unique" => IndexKind::Unique,
        "indexed" => match text_argument(directive, "type")?.as_deref() {
            None | Some("ordered") => IndexKind::Ordered,
            Some("hash") => IndexKind::Hash,
            Some("fulltext") if matches!(kind, Kind::Id | Kind::String) => IndexKind::FullText,
            Some("fulltext") => {
                return Err(invalid(directive.pos, "a full-text index applies to ID and String only".into()));
            }
            Some(other) => {
                let detail = format!("index type {other:?} is not \"ordered\", \"hash\" or \"fulltext\"");
                return Err(invalid(directive.pos, detail));
            }
        },
        _ => return Ok(None),
    };
    if matches!(kind, Kind::Any | Kind::Blob) || (list && index == IndexKind::Unique) {
        return Err(invalid(
            directive.pos,
            "an attribute of type Any or Blob cannot be indexed, and a list cannot be unique".into(),
        ));
    }
    Ok(Some(index))
}

fn stamp(field: &FieldDefinition, kind: Kind, list: bool) -> Result<Option<Stamp>> {
    let created = directives::find(&field.directives, "createdTime").map(|directive| (directive, Stamp::Created));
    let updated = directives::find(&field.directives, "updatedTime").map(|directive| (directive, Stamp::Updated));
    match (created, updated) {
        (Some((directive, _)), Some(_)) => {
            Err(invalid(directive.pos, "@createdTime and @updatedTime cannot be combined".into()))
        }
        (Some((directive, _)), _) | (_, Some((directive, _))) if !matches!(kind, Kind::Date | Kind::Int) || list => {
            Err(invalid(directive.pos, "@createdTime and @updatedTime require type Date or Int".into()))
        }
        (created, updated) => Ok(created.or(updated).map(|(_, stamp)| stamp)),
    }
}

/// Parses the relationships of all tables; both tables of each must exist.
fn parse_relationships(schema: &mut Schema, definitions: &[&TypeDefinition]) -> Result<()> {
    for (position, definition) in definitions.iter().enumerate() {
        let TypeKind::Object(object) = &definition.kind else { continue };
        for field in &object.fields {
            if let Some(directive) = directives::find(&field.node.directives, "relationship") {
                let relationship = parse_relationship(schema, definitions, position, &field.node, directive)?;
                schema.tables[position].relationships.push(relationship);
            }
        }
    }
    Ok(())
}

/// Parses a relationship of the table at a position. Its type is the name of the other table.
fn parse_relationship(
    schema: &Schema,
    definitions: &[&TypeDefinition],
    position: usize,
    field: &FieldDefinition,
    directive: &Positioned<ConstDirective>,
) -> Result<Relationship> {
    let (other, many, required) = shape(&field.ty)?;
    let key = match (text_argument(directive, "from")?, text_argument(directive, "to")?) {
        (Some(key), None) if !many => key,
        (None, Some(key)) if many => key,
        _ => {
            return Err(invalid(
                directive.pos,
                "expected @relationship(from: \"own key\") on one related type, or (to: \"its key\") on a list of them"
                    .into(),
            ));
        }
    };
    let refused = |detail| Err(invalid(field.ty.pos, detail));
    if required {
        return refused("a relationship cannot be required, because it may lead to nothing: remove the `!`".into());
    }
    let Some(table) = definitions.iter().position(|definition| definition.name.node == other) else {
        return refused(format!("type {other} is not defined"));
    };
    registry::check_relationship(directive, &schema.tables[position], &schema.tables[table])?;
    let owner = &schema.tables[if many { table } else { position }];
    let Some(foreign_key) = owner.attribute(&key) else {
        let argument = if many { "to" } else { "from" };
        return refused(format!("@relationship({argument}: {key:?}): table {} has no attribute {key}", owner.name));
    };
    let attribute = &owner.attributes[foreign_key];
    if !matches!(attribute.kind, Kind::Id | Kind::String) || (attribute.list && !many) {
        return refused(format!("the foreign key {key} of table {} is not of type ID or String", owner.name));
    }
    Ok(Relationship { name: field.name.node.to_string(), table, foreign_key, many })
}
