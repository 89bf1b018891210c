//! Conditions: an operand path, an operator, and its values.
//!
//! The path leads to an attribute of the record, to an attribute of related records via relationships (`brand.name`), or to a member of an
//! `Any` (`details.size.w`).

use std::borrow::Cow;
use std::ops::Bound;

use smallvec::SmallVec;

use super::operators::{Comparison, Operator, by_word, is_chained};
use super::raw::{self, Piece};
use super::values::{self, Operand};
use super::{CONDITIONS, EXPRESSIONS, Parser, RELATIONSHIPS, VALUE_MISSING, VALUES, at, clauses, unknown_attribute};
use crate::encoding::{self, terms_with_offsets};
use crate::error::Result;
use crate::query::expression::Expression;
use crate::query::filter::compare;
use crate::query::tree::{Condition, Node, Related, Test};
use crate::schema::{Attribute, Kind, Table};

/// The left-hand side of a condition.
pub(super) struct Compared<'t> {
    /// The relationships that lead to it, each by its position in the table reached by those before it.
    relationships: SmallVec<[usize; 2]>,
    /// The table that they lead to.
    table: &'t Table,
    /// The position of the attribute in this table; `None` to test only whether a related record exists.
    attribute: Option<usize>,
    /// The member names that lead into the value of an `Any`; otherwise empty.
    path: Box<[Box<str>]>,
}

impl<'t> Compared<'t> {
    /// Returns the left-hand side that is an attribute of the record itself.
    fn own(table: &'t Table, attribute: usize) -> Self {
        Self { relationships: SmallVec::new(), table, attribute: Some(attribute), path: Box::default() }
    }
}

impl<'q, 't> Parser<'q, 't> {
    /// Parses a term that begins with a name; returns whether it is a condition, as opposed to a clause.
    pub(super) fn named_term(&mut self) -> Result<bool> {
        let (name, start) = (Piece::name(self.query.text, self.position), self.position);
        let (name, name_end) = (name.decode()?, name.end());
        if name.is_empty() {
            return Err(at(start, "expected an attribute"));
        }
        self.position = name_end;
        let own = self.table.attribute(&name);
        if own.is_none() && clauses::is_clause(&name) && matches!(self.peek(), Some((b'=' | b'(', _))) {
            return self.clause(&name, start).map(|()| false);
        }
        let chained = if own.is_none() { self.chained(&name) } else { None };
        let compared = match own {
            Some(attribute) => Compared::own(self.table, attribute),
            None if chained.is_some() => self.compared_before(&name, start)?,
            None => self.compared_by(&name, start)?,
        };
        if self.conditions == CONDITIONS {
            return Err(at(start, format!("conditions: at most {CONDITIONS} in one query")));
        }
        self.conditions += 1;
        let operator_position = if chained.is_some() { start } else { name_end };
        let comparison = match chained {
            Some(comparison) => Some(comparison),
            None => self.operator()?,
        };
        let first = self.query.filter.nodes.len();
        self.condition(compared, comparison, start, operator_position)?;
        self.compared = comparison.map(|_| first);
        Ok(true)
    }

    /// Adds the nodes of a comparison, or of a test for existence; the condition begins at byte offset `start`.
    #[inline]
    fn condition(
        &mut self,
        compared: Compared<'_>,
        comparison: Option<Comparison>,
        start: usize,
        operator_position: usize,
    ) -> Result<()> {
        let (test, negated) = match (compared.attribute, comparison) {
            (Some(attribute), Some(Comparison { operator, negated })) => {
                (self.test(&compared.table.attributes[attribute], operator, operator_position)?, negated)
            }
            (Some(_), None) => (Test::Null, true),
            (None, None) => (Test::Null, false),
            (None, Some(_)) => {
                let detail =
                    "a relationship has no value: compare an attribute of the related record, as in brand.name==";
                return Err(at(operator_position, detail));
            }
        };
        let offset = |position| u32::try_from(position).expect("the length of a query is limited");
        let text = offset(start)..offset(self.position);
        let mut below = compared.relationships.len() + usize::from(compared.attribute.is_some()) + usize::from(negated);
        for relationship in compared.relationships {
            below -= 1;
            self.add(Node::Related(Related { relationship, below: offset(below), text: text.clone() }));
        }
        if let Some(attribute) = compared.attribute {
            if negated {
                self.add(Node::Not);
            }
            self.add(Node::Is(Condition { attribute, path: compared.path, test, text }));
        }
        Ok(())
    }

    /// Consumes the `=` of an operator that stands alone (`&gt=5`); `None` if the word is not such an operator.
    fn chained(&mut self, word: &str) -> Option<Comparison> {
        let (_, bytes) = self.peek().filter(|(byte, _)| *byte == b'=' && is_chained(word))?;
        self.position += bytes;
        by_word(word)
    }

    /// Returns the left-hand side of the previous comparison, which an operator at byte offset `start` repeats.
    fn compared_before(&self, word: &str, start: usize) -> Result<Compared<'t>> {
        let Some(first) = self.compared else {
            return Err(at(start, format!("{word}= needs a preceding comparison whose attribute it repeats")));
        };
        let (mut table, mut relationships) = (self.table, SmallVec::new());
        for node in &self.query.filter.nodes[first..] {
            match node {
                Node::Related(Related { relationship, .. }) => {
                    relationships.push(*relationship);
                    table = &self.schema.tables[table.relationships[*relationship].table];
                }
                Node::Is(Condition { attribute, path, .. }) => {
                    return Ok(Compared { relationships, table, attribute: Some(*attribute), path: path.clone() });
                }
                Node::All(_) | Node::Any(_) | Node::Not => {}
            }
        }
        unreachable!("a comparison has a test")
    }

    /// Resolves a name that begins at byte offset `start`: relationships joined by dots, then an attribute, followed by member names if it
    /// is an `Any`; or relationships alone.
    fn compared_by(&self, name: &str, start: usize) -> Result<Compared<'t>> {
        let (mut table, mut relationships, mut rest) = (self.table, SmallVec::new(), name);
        let position = |rest: &str| raw::position_of_decoded(self.query.text, start, name.len() - rest.len());
        loop {
            let (first, further) = rest.split_once('.').map_or((rest, None), |(first, further)| (first, Some(further)));
            if let Some(attribute) = table.attribute(first) {
                let is_any = table.attributes[attribute].kind == Kind::Any;
                if further.is_some() && !is_any {
                    return Err(at(
                        position(rest),
                        format!("{first} is neither a relationship nor of type Any: it has no attributes"),
                    ));
                }
                // No value is nested deeper, so the truncated path also leads nowhere; and each `&OP=value` copies the path.
                let most = encoding::DEPTH as usize + 1;
                let path =
                    further.map_or_else(Box::default, |path| path.split('.').take(most).map(Box::from).collect());
                return Ok(Compared { relationships, table, attribute: Some(attribute), path });
            }
            let Some(relationship) = table.relationship(first) else {
                return Err(unknown_attribute(table, first, position(rest)));
            };
            if relationships.len() == RELATIONSHIPS {
                let detail = format!("relationships: at most {RELATIONSHIPS} in one path");
                return Err(at(position(rest), detail));
            }
            relationships.push(relationship);
            table = &self.schema.tables[table.relationships[relationship].table];
            match further {
                Some(further) => rest = further,
                None => return Ok(Compared { relationships, table, attribute: None, path: Box::default() }),
            }
        }
    }

    /// Parses the operands of an operator into a test of an attribute.
    fn test(&mut self, of: &Attribute, operator: Operator, operator_position: usize) -> Result<Test<'q>> {
        if of.kind == Kind::Blob {
            return self.test_of_blob(of, operator, operator_position);
        }
        let has_text = matches!(of.kind, Kind::Id | Kind::String | Kind::Any);
        if operator.is_of_text() && !has_text {
            return Err(at(operator_position, format!("{} is not of type ID, String or Any", of.name)));
        }
        Ok(match operator {
            Operator::Equal { literal } => values::equality(of, self.value()?, literal)?,
            Operator::OneOf => self.one_of(of)?,
            Operator::Between { lower_included, upper_included } => {
                let (lower, upper) = self.two(of)?;
                Test::Within(lower.or_above(lower_included), upper.or_below(upper_included))
            }
            Operator::Above { included } => Test::Within(self.operand(of)?.or_above(included), Bound::Unbounded),
            Operator::Below { included } => Test::Within(Bound::Unbounded, self.operand(of)?.or_below(included)),
            Operator::Contains => Test::Contains(self.text()?),
            Operator::StartsWith => Test::StartsWith(self.text()?),
            Operator::EndsWith => Test::EndsWith(self.text()?),
            Operator::FullText => {
                let start = self.position;
                let text = self.text()?;
                Test::Terms(self.words(&text, start)?)
            }
            Operator::Matches => {
                let start = self.position;
                let text = self.text()?;
                if self.expressions == EXPRESSIONS {
                    return Err(at(start, format!("regular expressions: at most {EXPRESSIONS} in one query")));
                }
                self.expressions += 1;
                Test::Matches(Box::new(Expression::read(text, start)?))
            }
        })
    }

    /// Returns the terms of a text, whose value begins at byte offset `start`. Each counts as a condition.
    fn words(&mut self, text: &str, start: usize) -> Result<Vec<String>> {
        let mut terms = Vec::new();
        for (offset, term) in terms_with_offsets(text) {
            let Err(place) = terms.binary_search_by(|known: &String| known.as_str().cmp(&term)) else { continue };
            // The condition itself was counted, with its first term.
            if !terms.is_empty() && self.conditions == CONDITIONS {
                let value = &self.query.text[start..self.position];
                // Behind a prefix that forces the type.
                let decoded = Piece::value(value, 0).decode()?.len() - text.len() + offset;
                let position = raw::position_of_decoded(self.query.text, start, decoded);
                return Err(at(
                    position,
                    format!("conditions: at most {CONDITIONS} in one query, terms of =ft= included"),
                ));
            }
            self.conditions += usize::from(!terms.is_empty());
            terms.insert(place, term.into_owned());
        }
        match terms.is_empty() {
            true => Err(at(start, "expected a term of at least two letters or digits")),
            false => Ok(terms),
        }
    }

    /// Parses a test of a Blob, which can only be for null.
    fn test_of_blob(&mut self, of: &Attribute, operator: Operator, operator_position: usize) -> Result<Test<'q>> {
        let refused = |position| at(position, format!("{} is a Blob: compare it with null only, by == or !=", of.name));
        let Operator::Equal { literal: false } = operator else { return Err(refused(operator_position)) };
        let value = self.value()?;
        if value.text == "null" { Ok(Test::Null) } else { Err(refused(value.start)) }
    }

    /// Parses one value, which must not be missing.
    fn operand(&mut self, of: &Attribute) -> Result<Operand<'q>> {
        let value = self.value()?;
        match value.text {
            "" => Err(at(value.start, VALUE_MISSING)),
            _ => values::operand(of, value),
        }
    }

    /// Parses one value as text.
    fn text(&mut self) -> Result<Cow<'q, str>> {
        let value = self.value()?;
        match value.text {
            "" => Err(at(value.start, VALUE_MISSING)),
            _ => values::text(value),
        }
    }

    fn one_of(&mut self, of: &Attribute) -> Result<Test<'q>> {
        let mut values = Vec::new();
        self.list(of, |operand, _| {
            values.extend(operand.into_value());
            Ok(())
        })?;
        values.sort_unstable_by(compare);
        values.dedup_by(|one, other| compare(one, other).is_eq());
        Ok(if values.len() == 1 { Test::Equal(values.remove(0)) } else { Test::OneOf(values) })
    }

    /// Parses the two bounds of an interval.
    fn two(&mut self, of: &Attribute) -> Result<(Operand<'q>, Operand<'q>)> {
        let mut values = SmallVec::<[_; 2]>::new();
        let end = self.list(of, |operand, start| {
            if values.len() == 2 {
                return Err(at(start, "an interval has two values; write | for OR"));
            }
            values.push(operand);
            Ok(())
        })?;
        let mut values = values.into_iter();
        let two = values.next().zip(values.next());
        two.ok_or_else(|| at(end, "expected a comma and the upper value of the interval"))
    }

    /// Calls `each` with every value of a list, with or without brackets, and its position; returns the end of the last one.
    fn list(&mut self, of: &Attribute, mut each: impl FnMut(Operand<'q>, usize) -> Result<()>) -> Result<usize> {
        let bracket = self.position;
        let open = self.raw().filter(|byte| matches!(byte, b'(' | b'['));
        self.position += usize::from(open.is_some());
        loop {
            let start = self.position;
            if let Some(open) = open
                && self.raw().is_none()
            {
                return self.close(open, bracket).map(|()| start);
            }
            if self.values == VALUES {
                return Err(at(start, format!("values: at most {VALUES} in the lists of one query")));
            }
            self.values += 1;
            let operand = self.operand(of)?;
            each(operand, start)?;
            if self.raw() != Some(b',') {
                break;
            }
            self.position += 1;
        }
        let end = self.position;
        if let Some(open) = open {
            self.close(open, bracket)?;
        }
        Ok(end)
    }

    /// Returns the value at the position.
    pub(super) fn value(&mut self) -> Result<Piece<'q>> {
        let value = Piece::value(self.query.text, self.position);
        self.position = value.end();
        match self.raw() {
            Some(b'=') => {
                // Only in a list, a comma precedes a value.
                let advice = match self.query.text[..value.start].ends_with(',') {
                    true => "after a list of values, write | for OR",
                    false => "join conditions with & or |",
                };
                Err(at(self.position, format!("in a value, encode = as %3D; {advice}")))
            }
            Some(b'(' | b'[') => Err(at(self.position, "in a value, encode ( as %28 and [ as %5B")),
            _ => Ok(value),
        }
    }

    /// Returns the raw byte at the position.
    fn raw(&self) -> Option<u8> {
        self.query.text.as_bytes().get(self.position).copied()
    }
}
