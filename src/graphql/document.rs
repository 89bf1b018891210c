//! A document that was validated, compiled: which table each field is of, at which position, and what decides whether it is there.
//!
//! Fragments are put where they are spread: every type is an object, so they apply or do not, for good. Fields of one name are merged when
//! an operation is carried out, because `@skip` and `@include` depend on its variables; where nothing does, that is done once.

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
    /// Whether it asks what types there are.
    pub introspects: bool,
}

/// What an operation does, which says where it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads single records.
    Reads,
    /// It lists records.
    Lists,
    /// It changes records.
    Mutation,
}

/// A field at the root of an operation.
pub(super) struct Root {
    /// Its name in the answer.
    pub key: String,
    pub call: Call,
    pub at: Pos,
    /// How often it is selected, each time perhaps: all of them together say what is shown.
    selected: Vec<(Conditions, Fields)>,
}

impl Root {
    /// What is shown of its records with these variables; `None` if it is not there.
    pub fn selection(&self, variables: &Variables) -> Option<Selection> {
        let mut selected =
            self.selected.iter().filter(|(conditions, _)| conditions.hold(variables)).map(|(_, fields)| fields);
        let first = selected.next()?;
        let others: Vec<&Fields> = selected.collect();
        if others.is_empty() {
            return Some(first.selection(variables));
        }
        let all: Vec<&Shown> = [first].into_iter().chain(others).flat_map(|fields| &fields.all).collect();
        Some(merged(&all, variables))
    }
}

/// What a field at the root does.
#[derive(PartialEq)]
pub(super) enum Call {
    /// The name of the root's type.
    Typename(&'static str),
    /// The library answers it.
    Introspection,
    /// A verb on the table at a position.
    Verb { verb: Verb, table: usize, arguments: Vec<(Name, Value)> },
}

/// What is done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Read,
    List,
    Create,
    Update,
    Delete,
}

/// What is shown of records.
struct Fields {
    all: Vec<Shown>,
    /// The fields merged, if none depends on a variable.
    settled: Option<Selection>,
}

/// A field of a record.
struct Shown {
    key: String,
    at: Pos,
    conditions: Conditions,
    what: What,
}

enum What {
    Typename(String),
    Attribute(usize),
    Related(usize, Vec<Shown>),
}

impl What {
    /// Whether both are the same field, whatever is selected of a related record.
    fn is_same_field(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Typename(_), Self::Typename(_)) => true,
            (Self::Attribute(one), Self::Attribute(other)) | (Self::Related(one, _), Self::Related(other, _)) => {
                one == other
            }
            _ => false,
        }
    }

    /// What is selected of a related record.
    fn below(&self) -> &[Shown] {
        if let Self::Related(_, below) = self { below } else { &[] }
    }
}

/// What decides whether a field is there: all of these.
#[derive(Clone, Default)]
struct Conditions(Vec<(bool, Value)>);

impl Conditions {
    /// With the conditions of further directives.
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

    /// Whether they hold.
    fn hold(&self, variables: &Variables) -> bool {
        self.0.iter().all(|(wanted, value)| variables.truth_of(value) == *wanted)
    }
}

impl Fields {
    /// What is shown with these variables.
    fn selection(&self, variables: &Variables) -> Selection {
        self.settled.clone().unwrap_or_else(|| merged(&self.all.iter().collect::<Vec<_>>(), variables))
    }
}

/// Fields by name, in the order in which the names come first.
fn by_name<'s>(fields: impl Iterator<Item = &'s Shown>) -> Vec<(&'s str, Vec<&'s Shown>)> {
    let mut names: Vec<(&str, Vec<&Shown>)> = Vec::new();
    for field in fields {
        match names.iter_mut().find(|(name, _)| *name == field.key) {
            Some((_, same)) => same.push(field),
            None => names.push((&field.key, vec![field])),
        }
    }
    names
}

/// What is selected below fields of one name.
fn below<'s>(same: &[&'s Shown]) -> Vec<&'s Shown> {
    same.iter().flat_map(|field| field.what.below()).collect()
}

/// Refuses fields of one name that are different fields: an answer has room for one of them (GraphQL, 5.3.2). The library compares them
/// only where they stand in one selection.
fn agree(fields: &[&Shown]) -> Result<(), Fault> {
    for (name, same) in by_name(fields.iter().copied()) {
        if let Some(other) = same.iter().find(|field| !field.what.is_same_field(&same[0].what)) {
            return Err(conflict(name, other.at));
        }
        agree(&below(&same))?;
    }
    Ok(())
}

fn conflict(name: &str, at: Pos) -> Fault {
    let message = format!("fields named {name:?} select different things: use aliases");
    Fault { message, at: Some((at.line, at.column)) }
}

/// Fields merged by name.
fn merged(fields: &[&Shown], variables: &Variables) -> Selection {
    let shown = fields.iter().copied().filter(|field| field.conditions.hold(variables));
    let mut selection = Selection::default();
    for (name, same) in by_name(shown) {
        match &same[0].what {
            What::Typename(name_of_type) => selection.show_text(name, &format!("\"{name_of_type}\"")),
            What::Attribute(attribute) => selection.show_attribute(name, *attribute),
            What::Related(relationship, _) => {
                selection.show_related(name, *relationship, merged(&below(&same), variables));
            }
        }
    }
    selection
}

impl Document {
    /// The operation of that name, or the only one.
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

/// The document of a text.
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
    // The parser looks how much stack is left, and gives up before it ends.
    parse_query(text).map_err(|error| {
        let at = error.positions().next().map(|at| (at.line, at.column));
        Fault {
            message: error.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("= ").to_owned(),
            at,
        }
    })
}

/// How many fields selections have, and how deep they stand in one another, with the fragments that they spread: each fragment is measured
/// once, or a few lines could stand for more fields than can be counted.
struct Measure<'d> {
    fragments: &'d HashMap<Name, Positioned<FragmentDefinition>>,
    /// Of those that were measured, and `None` of those that are being measured.
    known: HashMap<&'d Name, Option<(usize, usize)>>,
}

impl<'d> Measure<'d> {
    /// Refuses a document that has too many fields, or is too deep.
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
            // Validation says that there is none.
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

/// Has the library validate a document: whatever is valid is valid with any variables.
fn validate(types: &dynamic::Schema, text: &str, document: &ExecutableDocument) -> Result<(), Vec<Fault>> {
    // What is valid is executed too, and then every field of a table is null.
    let mut request = async_graphql::Request::new(text).only_introspection();
    if let Some((Some(name), _)) = document.operations.iter().next() {
        request.operation_name = Some(name.to_string());
    }
    request.set_parsed_query(document.clone());
    let response = types.execute(request).now_or_never().expect("no resolver waits for anything");
    // An error with a path is one of the execution, which has no variables.
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

    /// Adds the fields at the root; those of one name are merged.
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

    /// Calls `visit` with each field of a selection, fragments included, and what decides whether it is there.
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

    fn fields(&self, table: &Table, set: &SelectionSet) -> Vec<Shown> {
        let mut shown = Vec::new();
        self.each(set, &Conditions::default(), &mut |field, conditions| {
            let (key, name) = (field.node.response_key().node.to_string(), field.node.name.node.as_str());
            let what = match (table.attribute(name), table.relationship(name)) {
                (Some(attribute), _) => What::Attribute(attribute),
                (_, Some(relationship)) => {
                    let other = &self.schema.tables[table.relationships[relationship].table];
                    What::Related(relationship, self.fields(other, &field.node.selection_set.node))
                }
                // Validation leaves nothing else.
                (None, None) => What::Typename(table.name.clone()),
            };
            shown.push(Shown { key, at: field.pos, conditions, what });
        });
        shown
    }
}

fn settled(all: Vec<Shown>) -> Fields {
    fn depends(field: &Shown) -> bool {
        !field.conditions.0.is_empty() || field.what.below().iter().any(depends)
    }
    let settled = (!all.iter().any(depends)).then(|| merged(&all.iter().collect::<Vec<_>>(), &Variables::default()));
    Fields { all, settled }
}
