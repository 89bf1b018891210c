//! A validated document, compiled: the table and position of each field, and the conditions under which it is selected.
//!
//! Fragments are expanded where they are spread: every type is an object type, so whether one applies is known when it is compiled. Fields
//! with the same response name are merged at execution, because `@skip` and `@include` depend on variables; if no field does, they are
//! merged once.

use std::collections::HashMap;

use async_graphql::dynamic;
use async_graphql_parser::types::{
    Directive, DocumentOperations, ExecutableDocument, Field, FragmentDefinition, OperationDefinition, OperationType,
    Selection as AstSelection, SelectionSet, VariableDefinition,
};
use async_graphql_parser::{Pos, Positioned, parse_query};
use async_graphql_value::{Name, Value};
use futures_util::FutureExt;

use super::variables::Variables;
use super::{DEPTH, DOCUMENT_BYTES, FIELDS, Fault, ROOT_FIELDS};
use crate::query::Selection;
use crate::schema::{Schema, Table};

/// The maximum nesting of parentheses, brackets and braces in a document, those of values included.
const NESTED: usize = 128;

/// The operations of a document.
pub(super) struct Document {
    operations: Vec<Operation>,
}

/// One operation.
pub(super) struct Operation {
    name: Option<String>,
    pub kind: Kind,
    pub variables: Vec<VariableDefinition>,
    pub roots: Vec<Root>,
    /// Whether it has introspection fields.
    pub introspects: bool,
}

/// What an operation does, which determines where it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads single records.
    Reads,
    /// Lists records, or has introspection fields.
    Lists,
    /// Changes records.
    Mutation,
}

/// A field at the root of an operation.
pub(super) struct Root {
    /// Its response name (the alias, if there is one).
    pub key: String,
    pub call: Call,
    pub at: Pos,
    /// Its selection sets, one for each occurrence, with their conditions; they are merged.
    selected: Vec<(Conditions, Fields)>,
}

impl Root {
    /// Returns what is selected of its records with these variables; `None` if the field is skipped.
    pub fn selection(&self, variables: &Variables) -> Option<Selection> {
        let mut selected =
            self.selected.iter().filter(|(conditions, _)| conditions.hold(variables)).map(|(_, fields)| fields);
        let first = selected.next()?;
        let others: Vec<&Fields> = selected.collect();
        if others.is_empty() {
            return Some(first.selection(variables));
        }
        let all: Vec<&SelectedField> = [first].into_iter().chain(others).flat_map(|fields| &fields.all).collect();
        Some(merged(&all, variables))
    }
}

/// The meaning of a field at the root.
#[derive(PartialEq)]
pub(super) enum Call {
    /// `__typename`, with the name of the root type.
    Typename(&'static str),
    /// Introspection, answered by async-graphql.
    Introspection,
    /// A verb on the table at a position.
    Verb { verb: Verb, table: usize, arguments: Vec<(Name, Value)> },
}

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    List,
    Create,
    Update,
    Delete,
}

/// A selection set on a table.
struct Fields {
    all: Vec<SelectedField>,
    /// The merged selection, if no field depends on a variable.
    settled: Option<Selection>,
}

/// A selected field of a record.
struct SelectedField {
    key: String,
    at: Pos,
    conditions: Conditions,
    kind: FieldKind,
}

enum FieldKind {
    Typename(String),
    Attribute(usize),
    Related(usize, Vec<SelectedField>),
}

impl FieldKind {
    /// Returns whether both select the same field, regardless of what is selected of a related record.
    fn is_same_field(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Typename(_), Self::Typename(_)) => true,
            (Self::Attribute(one), Self::Attribute(other)) | (Self::Related(one, _), Self::Related(other, _)) => {
                one == other
            }
            _ => false,
        }
    }

    /// Returns what is selected of a related record.
    fn subfields(&self) -> &[SelectedField] {
        if let Self::Related(_, subfields) = self { subfields } else { &[] }
    }
}

/// The conditions of a field, as `@include` (true) or `@skip` (false) and its argument; all have to hold.
#[derive(Clone, Default)]
struct Conditions(Vec<(bool, Value)>);

impl Conditions {
    /// Returns these conditions and those of more directives.
    fn and(&self, directives: &[Positioned<Directive>]) -> Self {
        let mut all = self.0.clone();
        for directive in directives.iter().map(|directive| &directive.node) {
            let wanted = match directive.name.node.as_str() {
                "include" => true,
                "skip" => false,
                _ => continue,
            };
            let argument = directive.arguments.iter().find(|(name, _)| name.node == "if");
            all.extend(argument.map(|(_, value)| (wanted, value.node.clone())));
        }
        Self(all)
    }

    /// Returns whether all conditions hold.
    fn hold(&self, variables: &Variables) -> bool {
        self.0.iter().all(|(wanted, value)| variables.truth_of(value) == *wanted)
    }
}

impl Fields {
    /// Returns the merged selection with these variables.
    fn selection(&self, variables: &Variables) -> Selection {
        self.settled.clone().unwrap_or_else(|| merged(&self.all.iter().collect::<Vec<_>>(), variables))
    }
}

/// Groups fields by response name, in order of first occurrence.
fn by_name<'s>(fields: impl Iterator<Item = &'s SelectedField>) -> Vec<(&'s str, Vec<&'s SelectedField>)> {
    let mut names: Vec<(&str, Vec<&SelectedField>)> = Vec::new();
    for field in fields {
        match names.iter_mut().find(|(name, _)| *name == field.key) {
            Some((_, same)) => same.push(field),
            None => names.push((&field.key, vec![field])),
        }
    }
    names
}

/// Returns what fields of one response name select of a related record.
fn subfields<'s>(same: &[&'s SelectedField]) -> Vec<&'s SelectedField> {
    same.iter().flat_map(|field| field.kind.subfields()).collect()
}

/// Refuses different fields with the same response name (GraphQL, 5.3.2). async-graphql compares them only within one selection set.
fn agree(fields: &[&SelectedField]) -> Result<(), Fault> {
    for (name, same) in by_name(fields.iter().copied()) {
        if let Some(other) = same.iter().find(|field| !field.kind.is_same_field(&same[0].kind)) {
            return Err(conflict(name, other.at));
        }
        agree(&subfields(&same))?;
    }
    Ok(())
}

fn conflict(name: &str, at: Pos) -> Fault {
    let message = format!("fields named {name:?} select different things: use aliases");
    Fault { message, at: Some((at.line, at.column)) }
}

/// Merges the selected fields by response name.
fn merged(fields: &[&SelectedField], variables: &Variables) -> Selection {
    let shown = fields.iter().copied().filter(|field| field.conditions.hold(variables));
    let mut selection = Selection::default();
    for (name, same) in by_name(shown) {
        match &same[0].kind {
            FieldKind::Typename(name_of_type) => selection.show_text(name, &format!("\"{name_of_type}\"")),
            FieldKind::Attribute(attribute) => selection.show_attribute(name, *attribute),
            FieldKind::Related(relationship, _) => {
                selection.show_related(name, *relationship, merged(&subfields(&same), variables));
            }
        }
    }
    selection
}

impl Document {
    /// Returns the operation with this name, or the only one.
    pub fn operation(&self, name: Option<&str>) -> Result<&Operation, Fault> {
        match (name, self.operations.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(Fault::new("the document has several operations: name one with operationName")),
            (Some(name), all) => {
                let found = all.iter().find(|operation| operation.name.as_deref() == Some(name));
                found.ok_or_else(|| Fault::new(format!("the document has no operation {name:?}")))
            }
        }
    }
}

/// Parses, validates and compiles a document.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn compile(types: &dynamic::Schema, schema: &Schema, text: &str) -> Result<Document, Vec<Fault>> {
    let document =
        parse(text).and_then(|document| Measure::of(&document).map(|()| document)).map_err(|fault| vec![fault])?;
    validate(types, text, &document)?;
    let ExecutableDocument { operations, fragments } = document;
    let compiler = Compiler { schema, fragments: &fragments };
    let operations = match operations {
        DocumentOperations::Single(operation) => vec![compiler.operation(None, operation.node)],
        DocumentOperations::Multiple(all) => all
            .into_iter()
            .map(|(name, operation)| compiler.operation(Some(name.to_string()), operation.node))
            .collect(),
    };
    Ok(Document { operations: operations.into_iter().collect::<Result<_, _>>().map_err(|fault| vec![fault])? })
}

fn parse(text: &str) -> Result<ExecutableDocument, Fault> {
    if text.len() > DOCUMENT_BYTES {
        return Err(Fault::new(format!("a document has at most {DOCUMENT_BYTES} bytes, not {}", text.len())));
    }
    if let Some(at) = nested_too_deep(text) {
        let (before, message) = (&text[..at], format!("the document is too deep: at most {NESTED} nested brackets"));
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        return Err(Fault { message, at: Some((line, before[line_start..].chars().count() + 1)) });
    }
    parse_query(text).map_err(|error| {
        let at = error.positions().next().map(|at| (at.line, at.column));
        Fault {
            message: error.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("= ").to_owned(),
            at,
        }
    })
}

/// Returns the byte offset of the first bracket that is nested too deep. The library parses, validates and drops values by recursion.
fn nested_too_deep(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'(' | b'[' | b'{' if depth == NESTED => return Some(at),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'#' => at += text[at..].find(['\n', '\r']).unwrap_or(text.len() - at),
            b'"' => {
                at += string_bytes(&text[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the length of the string, or of the block string, with which a text begins.
fn string_bytes(text: &str) -> usize {
    let (quotes, escaped_quotes) = if text.starts_with("\"\"\"") { ("\"\"\"", "\\\"\"\"") } else { ("\"", "\\\"") };
    let mut at = quotes.len();
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest {
            _ if rest.starts_with(quotes) => return at + quotes.len(),
            _ if rest.starts_with(escaped_quotes) => escaped_quotes.len(),
            // In a block string, a backslash alone is itself.
            _ if quotes == "\"" && rest.starts_with("\\\\") => 2,
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    text.len()
}

/// Measures the number of fields and the depth of selection sets with their fragments. Each fragment is measured once, since a few lines
/// could otherwise expand to more fields than can be counted.
struct Measure<'d> {
    fragments: &'d HashMap<Name, Positioned<FragmentDefinition>>,
    /// Fields and depth of the fragments measured so far; `None` while a fragment is being measured.
    known: HashMap<&'d Name, Option<(usize, usize)>>,
}

impl<'d> Measure<'d> {
    /// Refuses a document with too many fields or too deep a nesting.
    fn of(document: &'d ExecutableDocument) -> Result<(), Fault> {
        let mut measure = Self { fragments: &document.fragments, known: HashMap::new() };
        let mut all = 0usize;
        for (_, operation) in document.operations.iter() {
            let (fields, depth) = measure.set(&operation.node.selection_set.node)?;
            all = all.saturating_add(fields);
            if all > FIELDS {
                return Err(Fault::new(format!(
                    "the document is too complex: its operations select at most {FIELDS} fields together"
                )));
            }
            if depth > DEPTH {
                return Err(Fault::new(format!("the document is too deep: at most {DEPTH} nested selections")));
            }
        }
        Ok(())
    }

    fn set(&mut self, set: &'d SelectionSet) -> Result<(usize, usize), Fault> {
        let (mut fields, mut depth) = (0usize, 0);
        for item in &set.items {
            let (more, below) = match &item.node {
                AstSelection::Field(field) => {
                    let (more, below) = self.set(&field.node.selection_set.node)?;
                    (more.saturating_add(1), below + 1)
                }
                AstSelection::InlineFragment(fragment) => self.set(&fragment.node.selection_set.node)?,
                AstSelection::FragmentSpread(spread) => self.fragment(&spread.node.fragment_name.node)?,
            };
            fields = fields.saturating_add(more);
            depth = depth.max(below);
        }
        Ok((fields, depth))
    }

    fn fragment(&mut self, name: &'d Name) -> Result<(usize, usize), Fault> {
        match (self.known.get(name), self.fragments.get(name)) {
            (Some(Some(measured)), _) => Ok(*measured),
            (Some(None), _) => Err(Fault::new(format!("the fragment {name} spreads itself"))),
            // Validation reports the unknown fragment.
            (None, None) => Ok((0, 0)),
            (None, Some(fragment)) => {
                self.known.insert(name, None);
                let measured = self.set(&fragment.node.selection_set.node)?;
                self.known.insert(name, Some(measured));
                Ok(measured)
            }
        }
    }
}

/// Validates a document with async-graphql; a valid document is valid with any variables.
fn validate(types: &dynamic::Schema, text: &str, document: &ExecutableDocument) -> Result<(), Vec<Fault>> {
    // A valid document is executed as well, with every table field resolved to null.
    let mut request = async_graphql::Request::new(text).only_introspection();
    if let Some((Some(name), _)) = document.operations.iter().next() {
        request.operation_name = Some(name.to_string());
    }
    request.set_parsed_query(document.clone());
    let response = types.execute(request).now_or_never().expect("no resolver waits for anything");
    // An error with a path comes from the execution, which has no variables.
    let errors = response.errors.into_iter().filter(|error| error.path.is_empty());
    let faults: Vec<Fault> = errors
        .map(|error| Fault { at: error.locations.first().map(|at| (at.line, at.column)), message: error.message })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

struct Compiler<'c> {
    schema: &'c Schema,
    fragments: &'c HashMap<Name, Positioned<FragmentDefinition>>,
}

impl Compiler<'_> {
    fn operation(&self, name: Option<String>, definition: OperationDefinition) -> Result<Operation, Fault> {
        let is_query = match definition.ty {
            OperationType::Query => true,
            OperationType::Mutation => false,
            OperationType::Subscription => {
                return Err(Fault::new("subscriptions are not supported: use the change feed"));
            }
        };
        let mut roots = Vec::new();
        self.roots(is_query, &definition.selection_set.node, &mut roots)?;
        if roots.len() > ROOT_FIELDS {
            return Err(Fault::new(format!(
                "an operation has at most {ROOT_FIELDS} fields at its root, not {}",
                roots.len()
            )));
        }
        let lists = |root: &Root| matches!(root.call, Call::Verb { verb: Verb::List, .. } | Call::Introspection);
        let kind = match is_query {
            false => Kind::Mutation,
            true if roots.iter().any(lists) => Kind::Lists,
            true => Kind::Reads,
        };
        let introspects = roots.iter().any(|root| matches!(root.call, Call::Introspection));
        let variables = definition.variable_definitions.into_iter().map(|definition| definition.node).collect();
        Ok(Operation { name, kind, variables, roots, introspects })
    }

    /// Adds the fields at the root, merged by response name.
    fn roots(&self, is_query: bool, set: &SelectionSet, roots: &mut Vec<Root>) -> Result<(), Fault> {
        let mut refused = None;
        self.each(set, &Conditions::default(), &mut |field, conditions| {
            let key = field.node.response_key().node.to_string();
            let (call, fields) = self.call(is_query, &field.node);
            match roots.iter_mut().find(|root| root.key == key) {
                Some(root) if root.call != call => {
                    refused.get_or_insert_with(|| conflict(&key, field.pos));
                }
                Some(root) => root.selected.push((conditions, fields)),
                None => roots.push(Root { key, call, at: field.pos, selected: vec![(conditions, fields)] }),
            }
        });
        for root in &*roots {
            agree(&root.selected.iter().flat_map(|(_, fields)| &fields.all).collect::<Vec<_>>())?;
        }
        refused.map_or(Ok(()), Err)
    }

    /// Calls `visit` with each field of a selection set, fragments expanded, and its conditions.
    fn each(&self, set: &SelectionSet, conditions: &Conditions, visit: &mut dyn FnMut(&Positioned<Field>, Conditions)) {
        for selection in &set.items {
            let conditions = conditions.and(selection.node.directives());
            match &selection.node {
                AstSelection::Field(field) => visit(field, conditions),
                AstSelection::InlineFragment(fragment) => {
                    self.each(&fragment.node.selection_set.node, &conditions, visit)
                }
                AstSelection::FragmentSpread(spread) => {
                    let fragment = &self.fragments[&spread.node.fragment_name.node];
                    self.each(&fragment.node.selection_set.node, &conditions, visit);
                }
            }
        }
    }

    fn call(&self, is_query: bool, field: &Field) -> (Call, Fields) {
        let name = field.name.node.as_str();
        if name == "__typename" {
            return (Call::Typename(if is_query { "Query" } else { "Mutation" }), settled(Vec::new()));
        }
        let table_of = |name: &str| self.schema.tables.iter().position(|table| table.name == name && table.exported);
        let found = if is_query {
            let list = || Some((Verb::List, table_of(name.strip_suffix("List")?)?));
            table_of(name).map(|table| (Verb::Read, table)).or_else(list)
        } else {
            let verbs = [("create", Verb::Create), ("update", Verb::Update), ("delete", Verb::Delete)];
            verbs.iter().find_map(|(prefix, verb)| Some((*verb, table_of(name.strip_prefix(prefix)?)?)))
        };
        let Some((verb, table)) = found else { return (Call::Introspection, settled(Vec::new())) };
        let mut arguments: Vec<_> =
            field.arguments.iter().map(|(name, value)| (name.node.clone(), value.node.clone())).collect();
        arguments.sort_by(|(one, _), (other, _)| one.cmp(other)); // Their order means nothing.
        let fields = settled(self.fields(&self.schema.tables[table], &field.selection_set.node));
        (Call::Verb { verb, table, arguments }, fields)
    }

    fn fields(&self, table: &Table, set: &SelectionSet) -> Vec<SelectedField> {
        let mut shown = Vec::new();
        self.each(set, &Conditions::default(), &mut |field, conditions| {
            let (key, name) = (field.node.response_key().node.to_string(), field.node.name.node.as_str());
            let kind = match (table.attribute(name), table.relationship(name)) {
                (Some(attribute), _) => FieldKind::Attribute(attribute),
                (_, Some(relationship)) => {
                    let other = &self.schema.tables[table.relationships[relationship].table];
                    FieldKind::Related(relationship, self.fields(other, &field.node.selection_set.node))
                }
                // Validation admits nothing else.
                (None, None) => FieldKind::Typename(table.name.clone()),
            };
            shown.push(SelectedField { key, at: field.pos, conditions, kind });
        });
        shown
    }
}

fn settled(all: Vec<SelectedField>) -> Fields {
    fn depends(field: &SelectedField) -> bool {
        !field.conditions.0.is_empty() || field.kind.subfields().iter().any(depends)
    }
    let settled = (!all.iter().any(depends)).then(|| merged(&all.iter().collect::<Vec<_>>(), &Variables::default()));
    Fields { all, settled }
}
