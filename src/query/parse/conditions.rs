//! A condition: an attribute, a comparison, and its values.

use std::ops::Bound;

use smallvec::SmallVec;

use super::operators::{Comparison, Operator, by_word, is_chained};
use super::raw::Piece;
use super::values::{self, Operand};
use super::{CONDITIONS, EXPRESSIONS, Parser, VALUE_MISSING, VALUES, at, clauses};
use crate::error::{Error, Result};
use crate::query::expression::Expression;
use crate::query::filter::compare;
use crate::query::tree::{Condition, Test};
use crate::schema::{Attribute, Kind};

impl<'q> Parser<'q, '_> {
    /// A term that begins with a name; whether it is a condition, and not a clause.
    pub(super) fn named_term(&mut self) -> Result<bool> {
        let (name, start) = (Piece::name(self.query.text, self.position), self.position);
        let (name, name_end) = (name.decode()?, name.end());
        if name.is_empty() {
            return Err(at(start, "an attribute should stand here"));
        }
        self.position = name_end;
        let (attribute, comparison) = match self.table.attribute(&name) {
            Some(attribute) => (attribute, None),
            None if clauses::is_clause(&name) && matches!(self.peek(), Some((b'=' | b'(', _))) => {
                return self.clause(&name, start).map(|()| false);
            }
            None => match self.chained(&name, start)? {
                Some((attribute, comparison)) => (attribute, Some(comparison)),
                None => return Err(self.unknown_attribute(&name, start)),
            },
        };
        let of = &self.table.attributes[attribute];
        if of.kind == Kind::Any {
            return Err(at(start, format!("{name} is of type Any: conditions on it are not supported yet")));
        }
        if self.conditions == CONDITIONS {
            return Err(at(start, format!("conditions: at most {CONDITIONS} in one query")));
        }
        self.conditions += 1;
        let operator_position = if comparison.is_some() { start } else { name_end };
        let comparison = match comparison {
            Some(comparison) => Some(comparison),
            None => self.operator()?,
        };
        let (test, negated) = match comparison {
            Some(Comparison { operator, negated }) => (self.test(of, operator, operator_position)?, negated),
            None => (Test::Null, true),
        };
        self.compared = comparison.map(|_| attribute);
        let offset = |position| u32::try_from(position).expect("the length of a query is limited");
        self.add(Condition { attribute, test, text: offset(start)..offset(self.position) }, negated);
        Ok(true)
    }

    /// A comparison that begins with its operator, of the attribute that was compared before; `None` if it is none.
    fn chained(&mut self, word: &str, start: usize) -> Result<Option<(usize, Comparison)>> {
        let Some((b'=', bytes)) = self.peek().filter(|_| is_chained(word)) else { return Ok(None) };
        let Some(attribute) = self.compared else {
            return Err(at(
                start,
                format!("{word}= compares the attribute before it again, and there is no comparison before it"),
            ));
        };
        self.position += bytes;
        Ok(by_word(word).map(|comparison| (attribute, comparison)))
    }

    /// Why a name is no attribute that can be compared, selected or sorted by.
    pub(super) fn unknown_attribute(&self, name: &str, start: usize) -> Error {
        let first = name.split('.').next().unwrap_or(name);
        if self.table.relationships.iter().any(|relationship| relationship.name == first) {
            return at(start, format!("{first} is a relationship: relationships are not supported in a query yet"));
        }
        if first != name && self.table.attribute(first).is_some() {
            return at(start, "paths into a value are not supported yet");
        }
        at(start, format!("table {} has no attribute {name:?}", self.table.name))
    }

    /// What follows an operator, as a test of an attribute.
    fn test(&mut self, of: &Attribute, operator: Operator, operator_position: usize) -> Result<Test<'q>> {
        let is_text = matches!(of.kind, Kind::Id | Kind::String);
        if operator.is_of_text() && !is_text {
            return Err(at(operator_position, format!("{} is not of type ID or String", of.name)));
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
            Operator::Contains => Test::Contains(self.operand(of)?.into_text()),
            Operator::StartsWith => Test::StartsWith(self.operand(of)?.into_text()),
            Operator::EndsWith => Test::EndsWith(self.operand(of)?.into_text()),
            Operator::Matches => {
                let start = self.position;
                let text = self.operand(of)?.into_text();
                if self.expressions == EXPRESSIONS {
                    return Err(at(start, format!("regular expressions: at most {EXPRESSIONS} in one query")));
                }
                self.expressions += 1;
                Test::Matches(Expression::read(text, start)?)
            }
        })
    }

    /// One value, which may not be missing.
    fn operand(&mut self, of: &Attribute) -> Result<Operand<'q>> {
        let value = self.value()?;
        match value.text {
            "" => Err(at(value.start, VALUE_MISSING)),
            _ => values::operand(of, value),
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

    /// The two values of an interval.
    fn two(&mut self, of: &Attribute) -> Result<(Operand<'q>, Operand<'q>)> {
        let mut values = SmallVec::<[_; 2]>::new();
        let end = self.list(of, |operand, start| {
            if values.len() == 2 {
                return Err(at(start, "an interval has two values; or is written |"));
            }
            values.push(operand);
            Ok(())
        })?;
        let mut values = values.into_iter();
        let two = values.next().zip(values.next());
        two.ok_or_else(|| at(end, "a comma and the upper value of the interval should stand here"))
    }

    /// Calls `each` with every value of a list, in brackets or not, and its position; returns where the last one ends.
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

    /// The value that begins here.
    pub(super) fn value(&mut self) -> Result<Piece<'q>> {
        let value = Piece::value(self.query.text, self.position);
        self.position = value.end();
        match self.raw() {
            Some(b'=') => {
                Err(at(self.position, "in a value = is written %3D; after values with commas, or is written |"))
            }
            Some(b'(' | b'[') => Err(at(self.position, "in a value ( and [ are written %28 and %5B")),
            _ => Ok(value),
        }
    }

    /// The byte at the position, as it stands.
    fn raw(&self) -> Option<u8> {
        self.query.text.as_bytes().get(self.position).copied()
    }
}
