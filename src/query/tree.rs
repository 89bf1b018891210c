//! What a query says, read and checked: nothing in it has to be looked up, decoded or coerced again.
//!
//! A filter is one flat vector of nodes in prefix order, each group saying how many nodes stand below it. So reading a query
//! makes one allocation, and evaluating it walks memory forwards. Logic has two values: a test of a null is false, and every
//! negation of the grammar (`!=`, `!==`, `=out=`, a bare attribute, which is not null) is a `Not` before the positive test.

use std::borrow::Cow;
use std::ops::{Bound, Range};

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::expression::Expression;
use crate::encoding::Value;
use crate::error::{Error, Place};
use crate::schema::Table;

/// A query on one table. Borrows from its text where nothing had to be decoded.
#[derive(Clone, Debug, Default)]
pub struct Query<'q> {
    /// The raw text that it was read from.
    pub text: &'q str,
    /// Which records.
    pub filter: Filter<'q>,
    /// What the answer shows of each; `None`: the whole record.
    pub select: Option<Selection>,
    /// In which order; empty: whichever the plan provides, always the same.
    pub sort: SmallVec<[Order; 2]>,
    /// How many records at most; `None`: as many as there are.
    pub limit: Option<usize>,
    /// How many records are passed over first.
    pub offset: usize,
    /// Where the list goes on; `None`: it begins.
    pub after: Option<Cursor>,
    /// Whether the answer says how many records there are without `limit` and `offset`.
    pub pagination: bool,
    /// Whether the plan is wanted instead of records.
    pub explain: bool,
    /// What of this was said in the text, in its order.
    pub clauses: SmallVec<[Clause; 4]>,
}

/// Something that the text says of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// `select`, `sort`, `limit`, `offset`, `after`, `pagination` or `explain`.
    pub name: &'static str,
    /// Where it begins in the text, in bytes.
    pub position: usize,
    /// Where it ends.
    pub end: usize,
}

/// One term of the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Position of the attribute in the schema; a scalar that has an order.
    pub attribute: usize,
    /// Greatest first, null before all; else least first, null after all.
    pub descending: bool,
}

/// What an answer shows of a record, in the order asked; no attribute and no relationship twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub(super) items: Vec<Item>,
}

/// A member of what an answer shows of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An attribute, by position in the schema.
    Attribute(usize),
    /// The related records, by position of the relationship in the schema, and what is shown of each.
    Related(usize, Selection),
    /// The same JSON text whatever the record is.
    Text(Box<str>),
    /// One of these under another name than its own.
    Named(Box<str>, Box<Item>),
}

/// A condition on records: one tree, or nothing, which every record satisfies.
#[derive(Clone, Debug, Default)]
pub struct Filter<'q> {
    pub(super) nodes: Vec<Node<'q>>,
}

/// A node; what stands below it follows it.
#[derive(Clone, Debug)]
pub(super) enum Node<'q> {
    /// True if all of its two or more subtrees are. How many nodes they have together.
    All(u32),
    /// True if one of its two or more subtrees is. How many nodes they have together.
    Any(u32),
    /// True if the one subtree that follows is not.
    Not,
    /// True if a related record exists that satisfies the subtree that follows, if there is one.
    Related(Related),
    /// A test of one attribute.
    Is(Condition<'q>),
}

/// A test of related records.
#[derive(Clone, Debug)]
pub(super) struct Related {
    /// Position of the relationship in the schema.
    pub relationship: usize,
    /// How many nodes the subtree has; none if it is enough that a related record exists.
    pub below: u32,
    /// Where it stands in the raw query, in bytes.
    pub text: Range<u32>,
}

/// A test of one attribute.
#[derive(Clone, Debug)]
pub(super) struct Condition<'q> {
    /// Position of the attribute in the schema.
    pub attribute: usize,
    /// The names of the members that lead into its value, which is an `Any`; else none.
    pub path: Box<[Box<str>]>,
    /// What is asked of its value.
    pub test: Test<'q>,
    /// Where it stands in the raw query, in bytes.
    pub text: Range<u32>,
}

/// What is asked of a value. Values are of the attribute's own type, but that an Int or a Float is compared with whichever of
/// both holds the number exactly; those of an `Any` are of any type, and neither equal nor ordered to values of another one. All but
/// `Null` are false for null; on a list they are true if one element satisfies them.
#[derive(Clone, Debug)]
pub(super) enum Test<'q> {
    /// There is no value; of a list: no list, which an empty one is.
    Null,
    /// It is this value.
    Equal(Value<'q>),
    /// It is one of these values, which ascend; of none where nothing can equal what was asked.
    OneOf(Vec<Value<'q>>),
    /// It lies between these, one of which may be open.
    Within(Bound<Value<'q>>, Bound<Value<'q>>),
    /// The text begins so.
    StartsWith(Cow<'q, str>),
    /// The text ends so.
    EndsWith(Cow<'q, str>),
    /// The text has this somewhere.
    Contains(Cow<'q, str>),
    /// The text has the shape of a pattern.
    Like(Box<Pattern<'q>>),
    /// The regular expression is found in the text.
    Matches(Box<Expression<'q>>),
    /// The text has all of these terms, which ascend, and of which there is one at least.
    Terms(Vec<String>),
}

/// A text with stars, each of which stands for any text. Those with one piece alone are `StartsWith`, `EndsWith`, `Contains`.
#[derive(Clone, Debug)]
pub(super) struct Pattern<'q> {
    /// What the text begins with; may be empty.
    pub start: Cow<'q, str>,
    /// What follows between stars, in this order, as early as can be; none is empty.
    pub middle: Vec<Cow<'q, str>>,
    /// What the text ends with; may be empty.
    pub end: Cow<'q, str>,
}

impl Query<'_> {
    /// The error of a clause that asks for more than there can be, at its place if it was said in the text.
    pub(super) fn surplus(&self, clause: &str, detail: String) -> Error {
        let given = self.clauses.iter().find(|given| given.name == clause);
        Error::Invalid { detail, place: given.map_or(Place::Whole, |given| Place::Position(given.position)) }
    }
}

impl Filter<'_> {
    /// Where the subtree that begins at a node ends.
    pub(super) fn end_of(&self, node: usize) -> usize {
        node + length_of(&self.nodes[node..])
    }

    /// Whether it asks of related records.
    pub(super) fn has_related(&self) -> bool {
        has_related(&self.nodes)
    }

    /// Where each subtree of a group begins.
    pub(super) fn below(&self, group: usize) -> impl Iterator<Item = usize> {
        let (mut next, end) = (group + 1, self.end_of(group));
        std::iter::from_fn(move || {
            let subtree = (next < end).then_some(next)?;
            next = self.end_of(subtree);
            Some(subtree)
        })
    }

    /// The subtrees that must all accept a record.
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

/// Whether one of some nodes asks of related records.
pub(super) fn has_related(nodes: &[Node<'_>]) -> bool {
    nodes.iter().any(|node| matches!(node, Node::Related(_)))
}

/// How many nodes the subtree has that some nodes begin with.
pub(super) fn length_of(nodes: &[Node<'_>]) -> usize {
    match &nodes[0] {
        Node::All(below) | Node::Any(below) | Node::Related(Related { below, .. }) => 1 + *below as usize,
        Node::Not => 1 + length_of(&nodes[1..]),
        Node::Is(_) => 1,
    }
}

impl Selection {
    /// Shows an attribute, by position in the schema, under a name without characters that JSON escapes.
    pub fn show_attribute(&mut self, name: &str, attribute: usize) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Attribute(attribute))));
    }

    /// Shows what is selected of related records, by position of the relationship in the schema, under such a name.
    pub fn show_related(&mut self, name: &str, relationship: usize, selection: Self) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Related(relationship, selection))));
    }

    /// Shows a JSON text under such a name.
    pub fn show_text(&mut self, name: &str, json: &str) {
        self.items.push(Item::Named(name.into(), Box::new(Item::Text(json.into()))));
    }

    /// Every attribute of a table.
    pub(super) fn of_all(table: &Table) -> Self {
        Self { items: (0..table.attributes.len()).map(Item::Attribute).collect() }
    }

    /// Whether it shows related records.
    pub fn has_related(&self) -> bool {
        self.items.iter().any(|item| matches!(item.unnamed(), Item::Related(..)))
    }
}

impl Item {
    /// Whether another one shows the same attribute or the same related records.
    pub(super) fn shows_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Attribute(one), Self::Attribute(other)) => one == other,
            (Self::Related(one, _), Self::Related(other, _)) => one == other,
            _ => false,
        }
    }

    /// Its name in the answer.
    pub(super) fn name<'t>(&'t self, table: &'t Table) -> &'t str {
        match self {
            Self::Attribute(attribute) => &table.attributes[*attribute].name,
            Self::Related(relationship, _) => &table.relationships[*relationship].name,
            Self::Text(_) => "",
            Self::Named(name, _) => name,
        }
    }

    /// The same without a name that it was given.
    pub(super) fn unnamed(&self) -> &Self {
        if let Self::Named(_, item) = self { item } else { self }
    }
}

impl Pattern<'_> {
    /// Whether a text has this shape.
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
