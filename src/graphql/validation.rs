//! The rules for documents (GraphQL, October 2021, chapter 5), except those about names, which the parser applies.
//!
//! Each operation is followed into its fragments, with its variables, so that a rule holds at every place: at any depth, in fragments,
//! directives and default values, and at `__typename`, which is a field like any other. async-graphql's own validation skips values that
//! contain a variable, `__typename`, and the nullability of variables.

use std::collections::HashSet;
use std::fmt::Display;

use async_graphql::registry::{__DirectiveLocation as Location, MetaInputValue, MetaType, Registry};
use async_graphql_parser::types::{
    BaseType, Directive, Field, FragmentSpread, OperationDefinition, OperationType, Selection, SelectionSet, Type,
    TypeCondition, VariableDefinition,
};
use async_graphql_parser::{Pos, Positioned};
use async_graphql_value::indexmap::IndexMap;
use async_graphql_value::{ConstValue, Name, Value};

use super::Fault;
use super::parser::Document;
use super::variables::{Inputs, Source, parsed};

/// The maximum number of reported faults: a document may have one at every byte.
const FAULTS: usize = 100;

/// Validates a document whose expansion is bounded.
///
/// # Errors
/// Everything that is wrong with it, up to [`FAULTS`].
pub(super) fn validate(registry: &Registry, inputs: &Inputs, document: &Document) -> Result<(), Vec<Fault>> {
    let (variables, visited, faults) = (IndexMap::new(), HashSet::new(), Vec::new());
    let mut validator = Validator { registry, inputs, document, variables, visited, faults };
    let mut used = HashSet::new();
    for (_, operation) in &document.operations {
        validator.operation(&operation.node, operation.pos);
        used.extend(validator.visited.drain());
    }
    // What stands below something unknown is not visited.
    if validator.faults.is_empty() {
        for (name, fragment) in document.fragments.iter().filter(|(name, _)| !used.contains(name)) {
            validator.fault(fragment.pos, format!("Fragment \"{name}\" is never used."));
        }
    }
    if validator.faults.is_empty() { Ok(()) } else { Err(validator.faults) }
}

struct Validator<'d> {
    registry: &'d Registry,
    inputs: &'d Inputs,
    document: &'d Document,
    /// The variables of the operation, and whether they are used.
    variables: IndexMap<&'d Name, (&'d VariableDefinition, bool)>,
    /// The fragments of the operation so far.
    visited: HashSet<&'d Name>,
    faults: Vec<Fault>,
}

/// The place of a value: its type, and whether it has a default value.
type Place<'t> = (&'t Type, bool);

impl<'d> Validator<'d> {
    fn fault(&mut self, at: Pos, message: impl Into<String>) {
        let fault = Fault::at(at, message);
        if self.faults.len() < FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn operation(&mut self, operation: &'d OperationDefinition, at: Pos) {
        let (root, location) = match operation.ty {
            OperationType::Query => (Some(&self.registry.query_type), Location::QUERY),
            OperationType::Mutation => (self.registry.mutation_type.as_ref(), Location::MUTATION),
            OperationType::Subscription => {
                return self.fault(at, "subscriptions are not supported: use the change feed");
            }
        };
        let Some(root) = root.and_then(|name| self.registry.types.get(name)) else {
            return self.fault(at, "no table is exported: there are no mutations");
        };
        self.variables.clear();
        for definition in &operation.variable_definitions {
            self.variable(&definition.node, definition.pos);
        }
        self.directives(&operation.directives, location);
        self.selections(&operation.selection_set.node, root);
        self.merge(&[&operation.selection_set.node]);
        if self.faults.is_empty() {
            for (name, (definition, is_used)) in std::mem::take(&mut self.variables) {
                if !is_used {
                    self.fault(definition.name.pos, format!("Variable \"${name}\" is never used."));
                }
            }
        }
    }

    fn variable(&mut self, definition: &'d VariableDefinition, at: Pos) {
        let (name, of) = (&definition.name.node, &definition.var_type.node);
        if self.variables.insert(name, (definition, false)).is_some() {
            self.fault(at, format!("There can be only one variable named \"${name}\"."));
        }
        self.directives(&definition.directives, Location::VARIABLE_DEFINITION);
        match self.registry.concrete_type_by_parsed_type(of) {
            None => return self.fault(at, format!("Unknown type \"{of}\".")),
            Some(known) if !known.is_input() => {
                return self.fault(at, format!("Variable \"${name}\" cannot be of the non-input type \"{of}\"."));
            }
            Some(_) => {}
        }
        if let Some(default) = &definition.default_value
            && let Err(misfit) = self.inputs.coerce(&default.node.clone().into_value(), of, Source::Literal)
        {
            self.fault(default.pos, format!("the default value of ${name} {misfit}"));
        }
    }

    fn selections(&mut self, set: &'d SelectionSet, parent: &'d MetaType) {
        for item in &set.items {
            match &item.node {
                Selection::Field(field) => self.field(&field.node, field.pos, parent),
                Selection::FragmentSpread(spread) => self.spread(&spread.node, spread.pos, parent),
                Selection::InlineFragment(fragment) => {
                    let (fragment, at) = (&fragment.node, fragment.pos);
                    self.directives(&fragment.directives, Location::INLINE_FRAGMENT);
                    let of = match &fragment.type_condition {
                        Some(condition) => self.condition(&condition.node, at, parent),
                        None => Some(parent),
                    };
                    if let Some(of) = of {
                        self.selections(&fragment.selection_set.node, of);
                    }
                }
            }
        }
    }

    fn field(&mut self, field: &'d Field, at: Pos, parent: &'d MetaType) {
        self.directives(&field.directives, Location::FIELD);
        let name = field.name.node.as_str();
        let known = match name {
            "__typename" => Some((None, "String!")),
            _ => parent.field_by_name(name).map(|known| (Some(&known.args), known.ty.as_str())),
        };
        let Some((arguments, of)) = known else {
            return self.fault(at, format!("Unknown field \"{name}\" on type \"{}\".", parent.name()));
        };
        self.arguments(&format_args!("field \"{name}\""), at, &field.arguments, arguments);
        let (set, of) = (&field.selection_set.node, self.registry.concrete_type_by_name(of));
        match of.filter(|of| of.is_composite()) {
            None if set.items.is_empty() => {}
            None => self.fault(at, format!("Field \"{name}\" must not have a selection, since it has no subfields.")),
            Some(_) if set.items.is_empty() => {
                self.fault(at, format!("Field \"{name}\" must have a selection of subfields."))
            }
            Some(of) => self.selections(set, of),
        }
    }

    fn spread(&mut self, spread: &'d FragmentSpread, at: Pos, parent: &'d MetaType) {
        self.directives(&spread.directives, Location::FRAGMENT_SPREAD);
        let name = &spread.fragment_name.node;
        let Some(fragment) = self.document.fragments.get(name) else {
            return self.fault(at, format!("Unknown fragment \"{name}\"."));
        };
        let of = self.condition(&fragment.node.type_condition.node, at, parent);
        if let Some(of) = of.filter(|_| self.visited.insert(name)) {
            self.directives(&fragment.node.directives, Location::FRAGMENT_DEFINITION);
            self.selections(&fragment.node.selection_set.node, of);
        }
    }

    /// Returns the type on which a fragment is.
    fn condition(&mut self, condition: &TypeCondition, at: Pos, parent: &MetaType) -> Option<&'d MetaType> {
        let name = &condition.on.node;
        let of = self.registry.types.get(name.as_str());
        match of {
            None => self.fault(condition.on.pos, format!("Unknown type \"{name}\".")),
            Some(of) if !of.is_composite() => {
                self.fault(condition.on.pos, format!("Fragment cannot condition on non composite type \"{name}\"."));
            }
            Some(of) if !of.type_overlap(parent) => {
                let parent = parent.name();
                self.fault(
                    at,
                    format!("Fragment on \"{name}\" cannot be spread here: these objects are of type \"{parent}\"."),
                );
            }
            Some(_) => {}
        }
        of
    }

    fn directives(&mut self, given: &'d [Positioned<Directive>], location: Location) {
        let mut names = HashSet::new();
        for Positioned { node: directive, pos: at } in given {
            let name = directive.name.node.as_str();
            let Some(known) = self.registry.directives.get(name) else {
                self.fault(*at, format!("Unknown directive \"@{name}\"."));
                continue;
            };
            if !known.locations.contains(&location) {
                self.fault(*at, format!("Directive \"@{name}\" may not be used on {location:?}."));
            }
            if !names.insert(name) && !known.is_repeatable {
                self.fault(*at, format!("The directive \"@{name}\" can only be used once at this location."));
            }
            self.arguments(&format_args!("directive \"@{name}\""), *at, &directive.arguments, Some(&known.args));
        }
    }

    fn arguments(
        &mut self,
        owner: &dyn Display,
        at: Pos,
        given: &'d [(Positioned<Name>, Positioned<Value>)],
        known: Option<&'d IndexMap<String, MetaInputValue>>,
    ) {
        let mut names = HashSet::new();
        for (Positioned { node: name, pos: at }, value) in given {
            if !names.insert(name.as_str()) {
                self.fault(*at, format!("There can be only one argument named \"{name}\"."));
            }
            let Some(argument) = known.and_then(|known| known.get(name.as_str())) else {
                self.fault(*at, format!("Unknown argument \"{name}\" on {owner}."));
                continue;
            };
            let of = parsed(&argument.ty);
            self.variables_in(&value.node, Some((&of, argument.default_value.is_some())), value.pos);
            if let Err(misfit) = self.inputs.coerce(&value.node, &of, Source::Literal) {
                self.fault(value.pos, format!("the argument {name} {misfit}"));
            }
        }
        for argument in known.into_iter().flat_map(IndexMap::values) {
            let is_required = argument.ty.ends_with('!') && argument.default_value.is_none();
            if is_required && !names.contains(argument.name.as_str()) {
                let (name, of) = (&argument.name, &argument.ty);
                self.fault(at, format!("Argument \"{name}\" of type \"{of}\" is required on {owner}, but not given."));
            }
        }
    }

    /// Checks the variables in a value; within a `JSON`, they have no place.
    fn variables_in(&mut self, value: &'d Value, place: Option<Place<'_>>, at: Pos) {
        match value {
            Value::Variable(name) => self.variable_used(name, place, at),
            Value::List(values) => {
                let element = match place {
                    Some((Type { base: BaseType::List(element), .. }, _)) => Some((&**element, false)),
                    _ => None,
                };
                values.iter().for_each(|value| self.variables_in(value, element, at));
            }
            Value::Object(values) => {
                let fields = place.and_then(|(of, _)| self.inputs.fields(of));
                for (name, value) in values {
                    let of = fields.and_then(|fields| fields.get(name.as_str()));
                    self.variables_in(value, of.map(|of| (of, false)), at);
                }
            }
            _ => {}
        }
    }

    fn variable_used(&mut self, name: &'d Name, place: Option<Place<'_>>, at: Pos) {
        let Some((definition, is_used)) = self.variables.get_mut(name) else {
            return self.fault(at, format!("Variable \"${name}\" is not defined."));
        };
        *is_used = true;
        let of = &definition.var_type.node;
        if let Some(place) = place.filter(|place| !is_allowed(definition, *place)) {
            self.fault(
                at,
                format!("Variable \"${name}\" of type \"{of}\" used in position expecting type \"{}\".", place.0),
            );
        }
    }

    /// Refuses different fields with the same response name (5.3.2). Every type is an object type, so each fragment applies.
    fn merge(&mut self, sets: &[&'d SelectionSet]) {
        let mut names = IndexMap::new();
        sets.iter().for_each(|set| self.collect(set, &mut names));
        for (name, fields) in names {
            let first = &fields[0].node;
            match fields.iter().find(|field| !is_same(first, &field.node)) {
                Some(other) => {
                    self.fault(other.pos, format!("fields named {name:?} select different things: use aliases"))
                }
                None => self.merge(&fields.iter().map(|field| &field.node.selection_set.node).collect::<Vec<_>>()),
            }
        }
    }

    /// Collects the fields of a selection set, with its fragments, by response name.
    fn collect(&self, set: &'d SelectionSet, names: &mut IndexMap<&'d str, Vec<&'d Positioned<Field>>>) {
        for item in &set.items {
            match &item.node {
                Selection::Field(field) => {
                    names.entry(field.node.response_key().node.as_str()).or_default().push(field)
                }
                Selection::InlineFragment(fragment) => self.collect(&fragment.node.selection_set.node, names),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.document.fragments.get(&spread.node.fragment_name.node) {
                        self.collect(&fragment.node.selection_set.node, names);
                    }
                }
            }
        }
    }
}

/// Returns whether both are the same field with the same arguments, whatever they select.
fn is_same(one: &Field, other: &Field) -> bool {
    let is_given =
        |(name, value): &(Positioned<Name>, Positioned<Value>)| other.get_argument(&name.node) == Some(value);
    std::ptr::eq(one, other)
        || one.name == other.name && one.arguments.len() == other.arguments.len() && one.arguments.iter().all(is_given)
}

/// Returns whether a variable may be used at a place (5.8.5).
fn is_allowed(variable: &VariableDefinition, (place, has_default): Place<'_>) -> bool {
    fn fits(of: &Type, place: &Type, nullable: bool) -> bool {
        (nullable || !of.nullable)
            && match (&of.base, &place.base) {
                (BaseType::Named(of), BaseType::Named(place)) => of == place,
                (BaseType::List(of), BaseType::List(place)) => fits(of, place, place.nullable),
                _ => false,
            }
    }
    let default = variable.default_value.as_ref().map(|default| &default.node);
    let has_default = has_default || default.is_some_and(|default| *default != ConstValue::Null);
    fits(&variable.var_type.node, place, place.nullable || has_default)
}
