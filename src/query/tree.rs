//! The parsed and validated query: nothing in it has to be looked up, decoded or coerced again.
//!
//! A filter is one flat vector of nodes in prefix order, in which each group states how many nodes it contains. Parsing a query therefore
//! makes one allocation, and evaluation reads memory sequentially. Logic is two-valued: a test of a null is false, and every negation of
//! the grammar (`!=`, `!==`, `=out=`, a bare attribute, which means "not null") is a `Not` before the positive test.

use std::borrow::Cow;
use std::ops::{Bound, Range};

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::expression::Expression;
use crate::encoding::Value;
use crate::error::{Error, Place};
use crate::schema::{Identity, Table};

/// A query on one table. Borrows from its text wherever no decoding was needed.
#[derive(Clone, Debug, Default)]
pub struct Query<'q> {
    /// The raw text from which it was parsed.
    pub text: &'q str,
    /// The condition that records must satisfy.
    pub filter: Filter<'q>,
    /// What the response shows of each record; `None`: the whole record.
    pub select: Option<Selection>,
    /// The sort order; if empty, the order that the plan provides, which is deterministic.
    pub sort: SmallVec<[Order; 2]>,
    /// The maximum number of records; `None`: unlimited.
    pub limit: Option<usize>,
    /// The number of records to skip first.
    pub offset: usize,
    /// The cursor from which the list continues, of a page of this query; `None`: from the beginning.
    pub after: Option<Cursor>,
    /// Whether the response includes the number of records without `limit` and `offset`.
    pub pagination: bool,
    /// Whether to return the plan instead of records.
    pub explain: bool,
    /// The clauses given in the text, in order of appearance.
    pub clauses: SmallVec<[Clause; 4]>,
}

/// A clause of the text that describes the result rather than the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// `select`, `sort`, `limit`, `offset`, `after`, `pagination` or `explain`.
    pub name: &'static str,
    /// The byte offset of its start in the text.
    pub position: usize,
    /// The byte offset of its end.
    pub end: usize,
}

/// One sort key of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Position of the attribute in the schema; a scalar of an ordered type.
    pub attribute: usize,
    /// If true, greatest first with nulls first; otherwise least first with nulls last.
    pub descending: bool,
}

/// The members shown of a record, in the requested order; no attribute or relationship appears twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The table whose members the items are; `None` if they were not parsed.
    pub(super) table: Option<Identity>,
    pub(super) items: Vec<Item>,
}

/// A member of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An attribute, by position in the schema.
    Attribute(usize),
    /// Related records, by position of the relationship in the schema, and what is selected of each.
    Related(usize, Selection),
    /// A constant JSON text, the same for every record.
    Text(Box<str>),
    /// One of the above under an alias.
    Named(Box<str>, Box<Item>),
}

/// A condition on records: one tree, or nothing, which every record satisfies.
#[derive(Clone, Debug, Default)]
pub struct Filter<'q> {
    /// The table whose attributes the nodes are about; `None` if they were not parsed.
    pub(super) table: Option<Identity>,
    pub(super) nodes: Vec<Node<'q>>,
}

/// A node, followed by its subtrees.
#[derive(Clone, Debug)]
pub(super) enum Node<'q> {
    /// True if all of its two or more subtrees are. Holds their total number of nodes.
    All(u32),
    /// True if at least one of its two or more subtrees is. Holds their total number of nodes.
    Any(u32),
    /// True if the subtree that follows is false.
    Not,
    /// True if there is a related record that satisfies the subtree that follows, if any.
    Related(Related),
    /// A test of one attribute.
    Is(Condition<'q>),
}

/// A test of related records.
#[derive(Clone, Debug)]
pub(super) struct Related {
    /// Position of the relationship in the schema.
    pub relationship: usize,
    /// The number of nodes of the subtree; 0 if the existence of a related record suffices.
    pub below: u32,
    /// Its byte range in the raw query.
    pub text: Range<u32>,
}

/// A test of one attribute.
#[derive(Clone, Debug)]
pub(super) struct Condition<'q> {
    /// Position of the attribute in the schema.
    pub attribute: usize,
    /// The member names that lead into the value of an `Any`; otherwise empty.
    pub path: Box<[Box<str>]>,
    /// The test of its value.
    pub test: Test<'q>,
    /// Its byte range in the raw query.
    pub text: Range<u32>,
}

/// A test of a value. Operands are of the attribute's own type, except that an Int or a Float is compared with whichever of the two
/// represents the number exactly; operands for an `Any` are of any type, and values of different types are neither equal nor ordered. All
/// tests except `Null` are false for null; on a list, they are true if at least one element satisfies them.
#[derive(Clone, Debug)]
pub(super) enum Test<'q> {
    /// The value is null; for a list attribute, there is no list (an empty list is one).
    Null,
    /// The value equals this one.
    Equal(Value<'q>),
    /// The value equals one of these, in ascending order; empty if nothing can equal the operands.
    OneOf(Vec<Value<'q>>),
    /// The value lies between these bounds, one of which may be unbounded.
    Within(Bound<Value<'q>>, Bound<Value<'q>>),
    /// The text starts with this.
    StartsWith(Cow<'q, str>),
    /// The text ends with this.
    EndsWith(Cow<'q, str>),
    /// The text contains this.
    Contains(Cow<'q, str>),
    /// The text matches a wildcard pattern.
    Like(Box<Pattern<'q>>),
    /// The regular expression has a match in the text.
    Matches(Box<Expression<'q>>),
    /// The text contains all of these terms, in ascending order and at least one.
    Terms(Vec<String>),
}

/// A wildcard pattern, in which each star matches any text. Patterns with a single piece are `StartsWith`, `EndsWith` or `Contains`.
#[derive(Clone, Debug)]
pub(super) struct Pattern<'q> {
    /// The prefix of the text; may be empty.
    pub start: Cow<'q, str>,
    /// The pieces between stars, in this order, each matched as early as possible; none is empty.
    pub middle: Vec<Cow<'q, str>>,
    /// The suffix of the text; may be empty.
    pub end: Cow<'q, str>,
}

impl Query<'_> {
    /// Returns the error of a clause that exceeds a limit, with its position if the clause was given in the text.
    pub(super) fn clause_error(&self, clause: &str, detail: String) -> Error {
        let given = self.clauses.iter().find(|given| given.name == clause);
        Error::Invalid { detail, place: given.map_or(Place::Whole, |given| Place::Position(given.position)) }
    }
}

impl Filter<'_> {
    /// Returns the end of the subtree that begins at a node.
    pub(super) fn end_of(&self, node: usize) -> usize {
        node + length_of(&self.nodes[node..])
    }

    /// Returns whether the filter has a condition on related records.
    pub(super) fn has_related(&self) -> bool {
        has_related(&self.nodes)
    }

    /// Returns the start of each subtree of a group.
    pub(super) fn below(&self, group: usize) -> impl Iterator<Item = usize> {
        let (mut next, end) = (group + 1, self.end_of(group));
        std::iter::from_fn(move || {
            let subtree = (next < end).then_some(next)?;
            next = self.end_of(subtree);
            Some(subtree)
        })
    }

    /// Returns the conjuncts: the subtrees that must all accept a record.
    pub(super) fn conjuncts(&self) -> SmallVec<[usize; 4]> {
        let mut all = SmallVec::new();
        if !self.nodes.is_empty() {
            self.conjuncts_of(0, &mut all);
        }
        all
    }

    pub(super) fn conjuncts_of(&self, node: usize, all: &mut SmallVec<[usize; 4]>) {
        match self.nodes[node] {
            Node::All(_) => self.below(node).for_each(|subtree| self.conjuncts_of(subtree, all)),
            _ => all.push(node),
        }
    }
}

/// Returns whether any of the nodes is a condition on related records.
pub(super) fn has_related(nodes: &[Node<'_>]) -> bool {
    nodes.iter().any(|node| matches!(node, Node::Related(_)))
}

/// Returns the number of nodes of the subtree at the start of `nodes`.
pub(super) fn length_of(nodes: &[Node<'_>]) -> usize {
    match &nodes[0] {
        Node::All(below) | Node::Any(below) | Node::Related(Related { below, .. }) => 1 + *below as usize,
        Node::Not => 1 + length_of(&nodes[1..]),
        Node::Is(_) => 1,
    }
}

impl Selection {
    /// Adds an attribute, by position in the schema, under a name that needs no escaping in JSON.
    pub fn show_attribute(&mut self, name: &str, attribute: usize) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Attribute(attribute))));
    }

    /// Adds a selection of related records, by position of the relationship in the schema, under such a name.
    pub fn show_related(&mut self, name: &str, relationship: usize, selection: Self) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Related(relationship, selection))));
    }

    /// Adds a JSON text under such a name.
    pub fn show_text(&mut self, name: &str, json: &str) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Text(json.into()))));
    }

    /// Returns the selection of all attributes of a table.
    pub(super) fn of_all(table: &Table) -> Self {
        Self { table: Some(table.identity), items: (0..table.attributes.len()).map(Item::Attribute).collect() }
    }

    /// Returns whether related records are selected.
    pub fn has_related(&self) -> bool {
        self.items.iter().any(|item| matches!(item.unnamed(), Item::Related(..)))
    }
}

impl Item {
    /// Returns whether another item shows the same attribute or the same related records.
    pub(super) fn shows_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Attribute(one), Self::Attribute(other)) => one == other,
            (Self::Related(one, _), Self::Related(other, _)) => one == other,
            _ => false,
        }
    }

    /// Returns its name in the response.
    pub(super) fn name<'t>(&'t self, table: &'t Table) -> &'t str {
        match self {
            Self::Attribute(attribute) => &table.attributes[*attribute].name,
            Self::Related(relationship, _) => &table.relationships[*relationship].name,
            Self::Text(_) => "",
            Self::Named(name, _) => name,
        }
    }

    /// Returns the item without its alias, if it has one.
    pub(super) fn unnamed(&self) -> &Self {
        if let Self::Named(_, item) = self { item } else { self }
    }
}

impl Pattern<'_> {
    /// Returns whether a text matches the pattern.
    pub fn accepts(&self, text: &str) -> bool {
        let Some(mut rest) = text.strip_prefix(&*self.start) else { return false };
        for piece in &self.middle {
            match rest.find(&**piece) {
                Some(position) => rest = &rest[position + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(&*self.end)
    }
}
