//! A validated document, compiled: the table and position of each field, and the conditions under which it is selected.
//!
//! Fragments are expanded where they are spread: every type is an object type, so whether one applies is known when it is compiled. Fields
//! with the same response name are merged at execution, because `@skip` and `@include` depend on variables; if no field does, they are
//! merged once.

mod size;

use std::collections::HashMap;

use async_graphql::registry::Registry;
use async_graphql_parser::types::{
    Directive, Field, OperationDefinition, OperationType, Selection as AstSelection, SelectionSet, Type,
};
use async_graphql_parser::{Pos, Positioned};
use async_graphql_value::{Name, Value};

use super::parser::{self, NESTED};
use super::validation::validate;
use super::variables::{Inputs, Source, Variable, Variables, parsed};
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
    pub variables: Vec<Variable>,
    pub roots: Vec<Root>,
    introspected: Vec<IntrospectedField>,
}

impl Operation {
    /// Returns its introspection fields with these variables, without fragments, directives and variables.
    pub fn introspection(&self, variables: &Variables) -> SelectionSet {
        introspection(&self.introspected, variables)
    }
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
    conditions: Conditions,
    kind: FieldKind,
}

/// A field of introspection, without its directives and its selection set.
struct IntrospectedField {
    field: Field,
    conditions: Conditions,
    below: Vec<Self>,
}

enum FieldKind {
    Typename(String),
    Attribute(usize),
    Related(usize, Vec<SelectedField>),
}

impl FieldKind {
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

/// Response name of a field in every object of introspection, because async-graphql answers null for an object of which all fields are
/// skipped. No document has this name.
pub(super) const MARKER: &str = "";

fn introspection(fields: &[IntrospectedField], variables: &Variables) -> SelectionSet {
    let item = |field| {
        let field = AstSelection::Field(Positioned::new(field, Pos::default()));
        Positioned::new(field, Pos::default())
    };
    let shown = fields.iter().filter(|field| field.conditions.hold(variables)).map(
        |IntrospectedField { field, below, .. }| {
            let mut field = field.clone();
            let evaluated = |(name, value): &(Positioned<Name>, Positioned<Value>)| {
                let found = variables.value_of(&value.node)?.into_owned();
                Some((name.clone(), Positioned::new(found, value.pos)))
            };
            field.arguments = field.arguments.iter().filter_map(evaluated).collect();
            if !below.is_empty() {
                let (alias, name) = (Name::new(MARKER), Name::new("__typename"));
                let [alias, name] = [alias, name].map(|name| Positioned::new(name, Pos::default()));
                let (arguments, directives, selection_set) = Default::default();
                field.selection_set.node = introspection(below, variables);
                let marker = Field { alias: Some(alias), name, arguments, directives, selection_set };
                field.selection_set.node.items.push(item(marker));
            }
            item(field)
        },
    );
    SelectionSet { items: shown.collect() }
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
pub(super) fn compile(
    registry: &Registry,
    inputs: &Inputs,
    schema: &Schema,
    text: &str,
) -> Result<Document, Vec<Fault>> {
    let parsed = parse(text).map_err(|fault| vec![fault])?;
    validate(registry, inputs, &parsed)?;
    let compiler = Compiler { registry, inputs, schema, document: &parsed };
    let operations =
        parsed.operations.iter().map(|(name, operation)| compiler.operation(name.as_ref(), &operation.node));
    Ok(Document { operations: operations.collect::<Result<_, _>>().map_err(|fault| vec![fault])? })
}

/// Parses a document, and refuses one that is too large.
fn parse(text: &str) -> Result<parser::Document, Fault> {
    if text.len() > DOCUMENT_BYTES {
        return Err(Fault::new(format!("a document has at most {DOCUMENT_BYTES} bytes, not {}", text.len())));
    }
    let document = parser::parse(text)?;
    Measure::of(&document)?;
    Ok(document)
}

/// Measures the number of fields and the depth of selection sets with their fragments. Each fragment is measured once, since a few lines
/// could otherwise expand to more fields than can be counted.
struct Measure<'d> {
    document: &'d parser::Document,
    /// The fragments measured so far; `None` while one is being measured.
    known: HashMap<&'d Name, Option<Measured>>,
    /// The selection sets that are being measured, one within the other.
    open: usize,
}

/// The size of a selection set.
#[derive(Clone, Copy, Default)]
struct Measured {
    fields: usize,
    /// The nesting of fields.
    depth: usize,
    /// The nesting of selection sets, those of fragments included.
    sets: usize,
}

impl<'d> Measure<'d> {
    /// Refuses a document with too many fields or too deep a nesting.
    fn of(document: &'d parser::Document) -> Result<(), Fault> {
        let mut measure = Self { document, known: HashMap::new(), open: 0 };
        let mut all = 0usize;
        for (_, operation) in &document.operations {
            let Measured { fields, depth, sets } = measure.set(&operation.node.selection_set.node)?;
            all = all.saturating_add(fields);
            if all > FIELDS {
                return Err(Fault::new(format!(
                    "the document is too complex: its operations select at most {FIELDS} fields together"
                )));
            }
            if depth > DEPTH {
                return Err(Fault::new(format!("the document is too deep: at most {DEPTH} nested selections")));
            }
            if sets > NESTED {
                return Err(too_nested());
            }
        }
        Ok(())
    }

    fn set(&mut self, set: &'d SelectionSet) -> Result<Measured, Fault> {
        // On the way down, too: fragments that spread each other nest as deep as all of them together. A field has a set, if an empty one.
        self.open += 1;
        if self.open > NESTED + 1 {
            return Err(too_nested());
        }
        let mut all = Measured::default();
        for item in &set.items {
            let (below, is_field) = match &item.node {
                AstSelection::Field(field) => (self.set(&field.node.selection_set.node)?, true),
                AstSelection::InlineFragment(fragment) => (self.set(&fragment.node.selection_set.node)?, false),
                AstSelection::FragmentSpread(spread) => (self.fragment(&spread.node.fragment_name.node)?, false),
            };
            all.fields = all.fields.saturating_add(below.fields).saturating_add(usize::from(is_field));
            all.depth = all.depth.max(below.depth + usize::from(is_field));
            all.sets = all.sets.max(below.sets + 1);
        }
        self.open -= 1;
        Ok(all)
    }

    fn fragment(&mut self, name: &'d Name) -> Result<Measured, Fault> {
        match (self.known.get(name), self.document.fragments.get(name)) {
            (Some(Some(measured)), _) => Ok(*measured),
            (Some(None), _) => Err(Fault::new(format!("the fragment {name} spreads itself"))),
            // Validation reports the unknown fragment.
            (None, None) => Ok(Measured::default()),
            (None, Some(fragment)) => {
                self.known.insert(name, None);
                let measured = self.set(&fragment.node.selection_set.node)?;
                self.known.insert(name, Some(measured));
                Ok(measured)
            }
        }
    }
}

fn too_nested() -> Fault {
    Fault::new(format!("the document is too deep: at most {NESTED} nested fragments"))
}

struct Compiler<'c> {
    registry: &'c Registry,
    inputs: &'c Inputs,
    schema: &'c Schema,
    document: &'c parser::Document,
}

impl Compiler<'_> {
    fn operation(&self, name: Option<&Name>, definition: &OperationDefinition) -> Result<Operation, Fault> {
        let (is_query, set) = (definition.ty == OperationType::Query, &definition.selection_set.node);
        let roots = self.roots(is_query, set);
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
        let variables = definition.variable_definitions.iter().map(|definition| {
            let (name, of) = (&definition.node.name, definition.node.var_type.node.clone());
            let default = definition.node.default_value.as_ref();
            let default = default.map(|default| self.coerced(&default.node.clone().into_value(), &of));
            Variable { name: name.node.clone(), of, default, at: name.pos }
        });
        Ok(Operation {
            name: name.map(Name::to_string),
            kind,
            variables: variables.collect(),
            introspected: self.introspected(set, true),
            roots,
        })
    }

    fn coerced(&self, value: &Value, of: &Type) -> Value {
        self.inputs.coerce(value, of, Source::Literal).expect("validation has coerced it")
    }

    /// Returns the fields at the root, merged by response name.
    fn roots(&self, is_query: bool, set: &SelectionSet) -> Vec<Root> {
        let mut roots: Vec<Root> = Vec::new();
        self.each(set, &Conditions::default(), &mut |field, conditions| {
            let key = &field.node.response_key().node;
            let (call, fields) = self.call(is_query, &field.node);
            match roots.iter_mut().find(|root| root.key == **key) {
                Some(root) => root.selected.push((conditions, fields)),
                None => {
                    roots.push(Root {
                        key: key.to_string(),
                        call,
                        at: field.pos,
                        selected: vec![(conditions, fields)],
                    });
                }
            }
        });
        roots
    }

    /// Returns the introspection fields of a selection set at the root, or all fields of one below.
    fn introspected(&self, set: &SelectionSet, is_root: bool) -> Vec<IntrospectedField> {
        let mut all = Vec::new();
        self.each(set, &Conditions::default(), &mut |field, conditions| {
            let mut field = field.node.clone();
            if !is_root || matches!(field.name.node.as_str(), "__schema" | "__type") {
                let below = self.introspected(&std::mem::take(&mut field.selection_set.node), false);
                field.directives.clear();
                all.push(IntrospectedField { field, conditions, below });
            }
        });
        all
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
                    let fragment = &self.document.fragments[&spread.node.fragment_name.node];
                    self.each(&fragment.node.selection_set.node, &conditions, visit);
                }
            }
        }
    }

    fn call(&self, is_query: bool, field: &Field) -> (Call, Fields) {
        let name = field.name.node.as_str();
        let root = if is_query { "Query" } else { "Mutation" };
        if name == "__typename" {
            return (Call::Typename(root), settled(Vec::new()));
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
        let known = &self.registry.types[root].field_by_name(name).expect("the field of a table").args;
        let coerced = |(name, value): &(Positioned<Name>, Positioned<Value>)| {
            (name.node.clone(), self.coerced(&value.node, &parsed(&known[name.node.as_str()].ty)))
        };
        let arguments = field.arguments.iter().map(coerced).collect();
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
            shown.push(SelectedField { key, conditions, kind });
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
