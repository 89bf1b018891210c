//! What a query says, read and checked: nothing in it has to be looked up, decoded or coerced again.
//!
//! A filter is one flat vector of nodes in prefix order, each group saying how many nodes stand below it. So reading a query
//! makes one allocation, and evaluating it walks memory forwards. Logic has two values: a test of a null is false, and every
//! negation of the grammar (`!=`, `!==`, `=out=`, a bare attribute, which is not null) is a `Not` before the positive test.

use std::borrow::Cow;
use std::ops::{Bound, Range};

use smallvec::SmallVec;

use super::expression::Expression;
use crate::encoding::Value;
use crate::error::{Error, Place};

/// A query on one table. Borrows from its text where nothing had to be decoded.
#[derive(Debug, Default)]
pub struct Query<'q> {
    /// The raw text that it was read from.
    pub text: &'q str,
    /// Which records.
    pub filter: Filter<'q>,
    /// Which attributes of each, by position in the schema, in the order asked; `None`: the whole record.
    pub select: Option<SmallVec<[usize; 8]>>,
    /// In which order; empty: whichever the plan provides, always the same.
    pub sort: SmallVec<[Order; 2]>,
    /// How many records at most; `None`: as many as there are.
    pub limit: Option<usize>,
    /// How many records are passed over first.
    pub offset: usize,
    /// Whether the plan is wanted instead of records.
    pub explain: bool,
    /// What of this was said in the text, in its order.
    pub clauses: SmallVec<[Clause; 4]>,
}

/// Something that the text says of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// `select`, `sort`, `limit`, `offset` or `explain`.
    pub name: &'static str,
    /// Where it begins in the text, in bytes.
    pub position: usize,
}

/// One term of the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Position of the attribute in the schema; a scalar that has an order.
    pub attribute: usize,
    /// Greatest first, null before all; else least first, null after all.
    pub descending: bool,
}

/// A condition on records: one tree, or nothing, which every record satisfies.
#[derive(Debug, Default)]
pub struct Filter<'q> {
    pub(super) nodes: Vec<Node<'q>>,
}

/// A node; what stands below it follows it.
#[derive(Debug)]
pub(super) enum Node<'q> {
    /// True if all of its two or more subtrees are. How many nodes they have together.
    All(u32),
    /// True if one of its two or more subtrees is. How many nodes they have together.
    Any(u32),
    /// True if the one subtree that follows is not.
    Not,
    /// A test of one attribute.
    Is(Condition<'q>),
}

/// A test of one attribute.
#[derive(Debug)]
pub(super) struct Condition<'q> {
    /// Position of the attribute in the schema.
    pub attribute: usize,
    /// What is asked of its value.
    pub test: Test<'q>,
    /// Where it stands in the raw query, in bytes.
    pub text: Range<u32>,
}

/// What is asked of a value. Values are of the attribute's own type, but that an Int or a Float is compared with whichever of
/// both holds the number exactly. All but `Null` are false for null; on a list they are true if one element satisfies them.
#[derive(Debug)]
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
    Like(Pattern<'q>),
    /// The regular expression is found in the text.
    Matches(Expression<'q>),
}

/// A text with stars, each of which stands for any text. Those with one piece alone are `StartsWith`, `EndsWith`, `Contains`.
#[derive(Debug)]
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
        match &self.nodes[node] {
            Node::All(below) | Node::Any(below) => node + 1 + *below as usize,
            Node::Not => self.end_of(node + 1),
            Node::Is(_) => node + 1,
        }
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
