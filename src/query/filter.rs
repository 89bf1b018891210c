//! Whether a record satisfies a condition, asked of its stored bytes.
//!
//! A filter is asked of thousands of records, so nothing is made for an answer: a number is read from its fixed place, text is
//! compared where it is stored, and the tree is walked forwards in its one vector, past the subtrees that can change nothing. Only
//! a list is taken apart.

use std::cmp::Ordering;
use std::ops::Bound;

use super::tree::{Condition, Filter, Node, Test};
use crate::encoding::Record;
use crate::encoding::Value;
use crate::encoding::record::{Scalar, Text};
use crate::error::Result;

impl Filter<'_> {
    /// Whether nothing is asked, so that every record satisfies it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether a record satisfies the condition.
    ///
    /// # Errors
    /// `Corrupt` if the record is.
    pub fn accepts<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        if self.nodes.is_empty() { Ok(true) } else { self.accepts_below(0, record) }
    }

    /// Whether a record satisfies the subtree that begins at a node.
    pub(super) fn accepts_below<B: AsRef<[u8]>>(&self, node: usize, record: &Record<'_, B>) -> Result<bool> {
        match &self.nodes[node] {
            Node::Is(condition) => condition.accepts(record),
            Node::Not => self.accepts_below(node + 1, record).map(|accepted| !accepted),
            Node::All(_) => self.one_below_is(false, node, record).map(|found| !found),
            Node::Any(_) => self.one_below_is(true, node, record),
        }
    }

    /// Whether a record's answer to one subtree of a group is `wanted`.
    fn one_below_is<B: AsRef<[u8]>>(&self, wanted: bool, group: usize, record: &Record<'_, B>) -> Result<bool> {
        let (mut subtree, end) = (group + 1, self.end_of(group));
        while subtree < end {
            // Most are conditions, which are asked here rather than by a call for each.
            let (accepted, next) = match &self.nodes[subtree] {
                Node::Is(condition) => (condition.accepts(record)?, subtree + 1),
                _ => (self.accepts_below(subtree, record)?, self.end_of(subtree)),
            };
            if accepted == wanted {
                return Ok(true);
            }
            subtree = next;
        }
        Ok(false)
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
}

impl Condition<'_> {
    #[inline]
    fn accepts<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        let scalar = record.scalar(self.attribute)?;
        if matches!(scalar, Scalar::Json(_)) && record.table().attributes[self.attribute].list {
            return Ok(match record.value(self.attribute)? {
                Value::List(elements) => elements.iter().any(|element| self.test.accepts_element(element)),
                _ => false,
            });
        }
        Ok(self.test.accepts(&scalar))
    }
}

impl Test<'_> {
    #[inline]
    fn accepts(&self, stored: &Scalar<'_>) -> bool {
        if matches!(stored, Scalar::Null) {
            return matches!(self, Self::Null);
        }
        match self {
            Self::Null => false,
            Self::Equal(value) => equals(stored, value),
            Self::OneOf(values) => values.iter().any(|value| equals(stored, value)),
            Self::Within(lower, upper) => {
                let at_least = match lower {
                    Bound::Unbounded => true,
                    Bound::Included(value) => order(stored, value).is_some_and(Ordering::is_ge),
                    Bound::Excluded(value) => order(stored, value).is_some_and(Ordering::is_gt),
                };
                at_least
                    && match upper {
                        Bound::Unbounded => true,
                        Bound::Included(value) => order(stored, value).is_some_and(Ordering::is_le),
                        Bound::Excluded(value) => order(stored, value).is_some_and(Ordering::is_lt),
                    }
            }
            _ => match stored {
                Scalar::Text(text) => self.accepts_text(&text.unescaped()),
                _ => false,
            },
        }
    }

    fn accepts_text(&self, text: &[u8]) -> bool {
        let whole = || std::str::from_utf8(text);
        match self {
            Self::StartsWith(start) => text.starts_with(start.as_bytes()),
            Self::EndsWith(end) => text.ends_with(end.as_bytes()),
            Self::Contains(part) => whole().is_ok_and(|text| text.contains(&**part)),
            Self::Like(pattern) => whole().is_ok_and(|text| pattern.accepts(text)),
            Self::Matches(expression) => whole().is_ok_and(|text| expression.is_match(text)),
            Self::Null | Self::Equal(_) | Self::OneOf(_) | Self::Within(..) => false,
        }
    }

    /// The same of an element of a list, which is none of null.
    fn accepts_element(&self, element: &Value<'_>) -> bool {
        match element {
            Value::Boolean(boolean) => self.accepts(&Scalar::Boolean(*boolean)),
            Value::Int(integer) => self.accepts(&Scalar::Int(*integer)),
            Value::Float(float) => self.accepts(&Scalar::Float(*float)),
            Value::Date(date) => self.accepts(&Scalar::Date(date.microseconds)),
            Value::Text(text) => self.accepts(&Scalar::Text(Text::plain(text))),
            Value::Null | Value::Json(_) | Value::List(_) => false,
        }
    }
}

#[inline]
fn equals(stored: &Scalar<'_>, value: &Value<'_>) -> bool {
    match (stored, value) {
        (Scalar::Text(text), Value::Text(other)) => text.is(other),
        _ => order(stored, value) == Some(Ordering::Equal),
    }
}

/// How a stored value stands to a value that was asked for; nothing stands to null, nor to a value of another type.
#[inline]
fn order(stored: &Scalar<'_>, value: &Value<'_>) -> Option<Ordering> {
    match (stored, value) {
        (Scalar::Int(stored), Value::Int(integer)) => Some(stored.cmp(integer)),
        (Scalar::Float(stored), Value::Float(float)) => stored.partial_cmp(float),
        (Scalar::Int(stored), Value::Float(float)) => exactly(*stored, *float),
        (Scalar::Float(stored), Value::Int(integer)) => exactly(*integer, *stored).map(Ordering::reverse),
        (Scalar::Date(stored), Value::Date(date)) => Some(stored.cmp(&date.microseconds)),
        (Scalar::Boolean(stored), Value::Boolean(boolean)) => Some(stored.cmp(boolean)),
        (Scalar::Text(stored), Value::Text(text)) => Some((*stored.unescaped()).cmp(text.as_bytes())),
        _ => None,
    }
}

/// How an integer stands to a double, none of them rounded.
fn exactly(integer: i64, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = float.floor();
    let beyond_whole = if float > whole { Ordering::Less } else { Ordering::Equal };
    (!float.is_nan()).then(|| integer.cmp(&(whole as i64)).then(beyond_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_compare_exactly() {
        let cases = [
            (1, 1.5, Ordering::Less),
            (2, 1.5, Ordering::Greater),
            (-1, -1.5, Ordering::Greater),
            (0, -0.0, Ordering::Equal),
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Ordering::Greater),
            (i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (i64::MIN, f64::MIN, Ordering::Greater),
            (i64::MAX, f64::INFINITY, Ordering::Less),
        ];
        for (integer, float, expected) in cases {
            assert_eq!(exactly(integer, float), Some(expected), "{integer} {float}");
        }
        assert_eq!(exactly(0, f64::NAN), None);
    }
}
