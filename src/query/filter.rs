//! Evaluates conditions on the stored bytes of a record.
//!
//! A filter is evaluated on thousands of records, so it is first compiled for its table ([`CompiledFilter`]): among the conjuncts, numeric
//! intervals come first, because each takes two comparisons of eight bytes at a known offset. The others are evaluated sequentially in
//! their vector, skipping subtrees that cannot change the result; text is compared in place, as stored. Only lists are parsed.

use std::cmp::Ordering;
use std::ops::Bound;

use smallvec::SmallVec;

use super::tree::{Condition, Filter, Node, Test, has_related};
use crate::encoding::record::{Scalar, Slot, Text, is_stored_unescaped};
use crate::encoding::{Record, Value, each_at, terms};
use crate::error::Result;
use crate::schema::{Kind, Table};

/// Conditions that must all hold, compiled for the records of a table.
#[derive(Debug)]
pub struct CompiledFilter<'f> {
    numbers: SmallVec<[Number; 2]>,
    predicates: SmallVec<[Predicate<'f>; 2]>,
    /// Trees with conditions on related records.
    related: SmallVec<[&'f [Node<'f>]; 1]>,
    /// The number of nodes of the conditions.
    nodes: usize,
}

/// The condition that a number lies in a closed interval: one subtraction and one comparison, whatever its type.
#[derive(Debug)]
struct Number {
    attribute: usize,
    slot: Slot,
    /// The bits to invert in a negative number so that the order of bit patterns is that of the numbers: all but the sign for a Float, none
    /// for an Int or a Date.
    inverted_bits: i64,
    lower: i64,
    /// The distance from the lower bound to the upper.
    width: u64,
    /// Whether the interval contains zero, which is also stored for null.
    zero: bool,
}

/// Any other condition, evaluated after the numeric intervals.
#[derive(Debug)]
enum Predicate<'f> {
    /// A Boolean equals this value, or does not if negated.
    Boolean {
        attribute: usize,
        boolean: bool,
        negated: bool,
    },
    /// A text equals this one, which is stored unescaped, or does not if negated.
    Text {
        attribute: usize,
        text: &'f str,
        negated: bool,
    },
    Tree(&'f [Node<'f>]),
}

impl Filter<'_> {
    /// Returns whether there is no condition, so that every record satisfies the filter.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Compiles its regular expressions.
    ///
    /// # Errors
    /// `Invalid` at one that is too large or refers to something undefined.
    pub(super) fn compile(&self) -> Result<()> {
        compile(&self.nodes)
    }

    /// Compiles the filter for the records of its table.
    ///
    /// # Errors
    /// `Invalid` if it was parsed for another table or does not fit this one, or at a regular expression that is too large.
    pub fn checks(&self, table: &Table) -> Result<CompiledFilter<'_>> {
        self.check(table)?;
        CompiledFilter::of(self, table, &self.conjuncts())
    }

    /// Compiles the subtree that begins at a node.
    ///
    /// # Errors
    /// As [`Filter::checks`].
    pub(super) fn checks_below(&self, table: &Table, node: usize) -> Result<CompiledFilter<'_>> {
        let mut trees = SmallVec::new();
        self.conjuncts_of(node, &mut trees);
        CompiledFilter::of(self, table, &trees)
    }
}

impl<'f> CompiledFilter<'f> {
    /// Compiles the trees that begin at these nodes of a filter.
    ///
    /// # Errors
    /// `Invalid` at a regular expression that is too large.
    pub(super) fn of(filter: &'f Filter<'_>, table: &Table, trees: &[usize]) -> Result<Self> {
        let mut checks =
            Self { numbers: SmallVec::new(), predicates: SmallVec::new(), related: SmallVec::new(), nodes: 0 };
        for &tree in trees {
            let nodes = &filter.nodes[tree..filter.end_of(tree)];
            checks.nodes += nodes.len();
            if has_related(nodes) {
                compile(nodes)?;
                checks.related.push(nodes);
                continue;
            }
            let number = match nodes {
                [Node::Is(condition)] => Number::of(table, condition),
                _ => None,
            };
            match number {
                Some(number) => checks.numbers.push(number),
                None => checks.predicates.push(Predicate::of(table, nodes)?),
            }
        }
        Ok(checks)
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Returns the number of nodes, roughly the cost of evaluating a record.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the trees with conditions on related records, which [`CompiledFilter::accept`] ignores.
    pub(super) fn related(&self) -> &[&'f [Node<'f>]] {
        &self.related
    }

    /// Returns whether a record of the table satisfies all conditions except those on related records.
    ///
    /// # Errors
    /// `Corrupt` if the record is corrupt.
    #[inline]
    pub fn accept<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        for number in &self.numbers {
            if !number.accepts(record)? {
                return Ok(false);
            }
        }
        if self.predicates.is_empty() { Ok(true) } else { self.predicates_accept(record) }
    }

    #[inline(never)]
    fn predicates_accept<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        for predicate in &self.predicates {
            let accepted = match predicate {
                Predicate::Boolean { attribute, boolean, negated } => {
                    record.is_boolean(*attribute, *boolean)? != *negated
                }
                Predicate::Text { attribute, text, negated } => record.is_text(*attribute, text)? != *negated,
                Predicate::Tree(tree) => any_evaluates_to(true, tree, record)?,
            };
            if !accepted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'f> Predicate<'f> {
    fn of(table: &Table, tree: &'f [Node<'f>]) -> Result<Self> {
        compile(tree)?;
        let (negated, condition) = match tree {
            [Node::Is(condition)] => (false, condition),
            [Node::Not, Node::Is(condition)] => (true, condition),
            _ => return Ok(Self::Tree(tree)),
        };
        let attribute = condition.attribute;
        let kind = Some(table.attributes[attribute].kind).filter(|_| !table.attributes[attribute].list);
        Ok(match (kind, &condition.test) {
            (Some(Kind::Boolean), Test::Equal(Value::Boolean(boolean))) => {
                Self::Boolean { attribute, boolean: *boolean, negated }
            }
            (Some(Kind::Id | Kind::String), Test::Equal(Value::Text(text))) if is_stored_unescaped(text) => {
                Self::Text { attribute, text, negated }
            }
            _ => Self::Tree(tree),
        })
    }
}

fn compile(nodes: &[Node<'_>]) -> Result<()> {
    nodes.iter().try_for_each(|node| match node {
        Node::Is(Condition { test: Test::Matches(expression), .. }) => expression.compile(),
        _ => Ok(()),
    })
}

impl Number {
    /// Converts a condition, if it is a numeric interval with bounds of the attribute's own type.
    fn of(table: &Table, condition: &Condition<'_>) -> Option<Self> {
        let (attribute, slot) = (condition.attribute, Slot::of(table, condition.attribute)?);
        let (lower, upper) = match &condition.test {
            Test::Equal(value) => (Bound::Included(value), Bound::Included(value)),
            Test::Within(lower, upper) => (lower.as_ref(), upper.as_ref()),
            _ => return None,
        };
        let kind = table.attributes[attribute].kind;
        let inverted_bits = if kind == Kind::Float { i64::MAX } else { 0 };
        let (lower, upper) = match kind {
            Kind::Float => float_ends(lower, upper)?,
            _ => integer_ends(kind, lower, upper)?,
        };
        let (lower, upper) = (ordered(lower, inverted_bits), ordered(upper, inverted_bits));
        let width = upper.wrapping_sub(lower).cast_unsigned();
        (lower <= upper).then_some(Self {
            attribute,
            slot,
            inverted_bits,
            lower,
            width,
            zero: lower <= 0 && 0 <= upper,
        })
    }

    #[inline]
    fn accepts<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        let stored = record.integer(self.slot);
        let from_lower = ordered(stored, self.inverted_bits).wrapping_sub(self.lower).cast_unsigned();
        Ok(from_lower <= self.width && (!self.zero || stored != 0 || !record.is_null(self.attribute)?))
    }
}

/// Maps a stored number to an integer that sorts like it; a stored Float is never NaN and has a single zero.
#[inline]
fn ordered(stored: i64, inverted_bits: i64) -> i64 {
    stored ^ ((stored >> 63) & inverted_bits)
}

/// Returns the first and the last Float in the interval, as stored.
fn float_ends(lower: Bound<&Value<'_>>, upper: Bound<&Value<'_>>) -> Option<(i64, i64)> {
    let lower = match lower {
        Bound::Included(Value::Float(float)) => *float,
        Bound::Excluded(Value::Float(float)) => float.next_up(),
        Bound::Unbounded => f64::NEG_INFINITY,
        _ => return None,
    };
    let upper = match upper {
        Bound::Included(Value::Float(float)) => *float,
        Bound::Excluded(Value::Float(float)) => float.next_down(),
        Bound::Unbounded => f64::INFINITY,
        _ => return None,
    };
    let stored = |float: f64| (float + 0.0).to_bits().cast_signed(); // -0.0 + 0.0 is 0.0.
    Some((stored(lower), stored(upper)))
}

/// Returns the first and the last Int or Date in the interval.
fn integer_ends(kind: Kind, lower: Bound<&Value<'_>>, upper: Bound<&Value<'_>>) -> Option<(i64, i64)> {
    let lower = match lower {
        Bound::Included(value) => integer(kind, value)?,
        Bound::Excluded(value) => integer(kind, value)?.checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let upper = match upper {
        Bound::Included(value) => integer(kind, value)?,
        Bound::Excluded(value) => integer(kind, value)?.checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    Some((lower, upper))
}

/// Returns an Int, or a Date in microseconds.
fn integer(kind: Kind, value: &Value<'_>) -> Option<i64> {
    match (kind, value) {
        (Kind::Int, Value::Int(integer)) => Some(*integer),
        (Kind::Date, Value::Date(date)) => Some(date.microseconds),
        _ => None,
    }
}

/// Returns whether any of some consecutive trees evaluates to `wanted` for a record.
fn any_evaluates_to<B: AsRef<[u8]>>(wanted: bool, mut trees: &[Node<'_>], record: &Record<'_, B>) -> Result<bool> {
    let mut now = wanted;
    while let [node, after @ ..] = trees {
        trees = after;
        let accepted = match node {
            Node::Not => {
                now = !now;
                continue;
            }
            Node::Is(condition) => condition.accepts(record)?,
            Node::Related(_) => unreachable!("a CompiledFilter keeps these trees apart"),
            Node::All(below) | Node::Any(below) => {
                let (group, after) = after.split_at(*below as usize);
                trees = after;
                let decisive = matches!(node, Node::Any(_));
                any_evaluates_to(decisive, group, record)? == decisive
            }
        };
        if accepted == now {
            return Ok(true);
        }
        now = wanted;
    }
    Ok(false)
}

impl Condition<'_> {
    /// Returns whether a record satisfies the condition.
    #[inline]
    pub(super) fn accepts<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        match record.scalar(self.attribute)? {
            Scalar::Json(_) => self.accepts_json(record),
            scalar => Ok(self.test.accepts(&scalar)),
        }
    }

    /// Evaluates the condition on a list or an `Any` that is not null.
    fn accepts_json<B: AsRef<[u8]>>(&self, record: &Record<'_, B>) -> Result<bool> {
        if record.table().attributes[self.attribute].kind != Kind::Any {
            return Ok(match record.value(self.attribute)? {
                Value::List(elements) => elements.iter().any(|element| self.test.accepts_element(element)),
                _ => false,
            });
        }
        let (mut is_null, mut accepted) = (true, false);
        each_at(record.text(self.attribute)?, &self.path, &mut |scalar| {
            is_null = false;
            accepted = accepted || scalar.is_some_and(|scalar| self.test.accepts(scalar));
        })?;
        Ok(if matches!(self.test, Test::Null) { is_null } else { accepted })
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
            Self::OneOf(values) => is_one_of(stored, values),
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
            Self::Matches(expression) => whole().is_ok_and(|text| expression.is_found_in(text)),
            Self::Terms(wanted) => whole().is_ok_and(|text| has_terms(text, wanted)),
            Self::Null | Self::Equal(_) | Self::OneOf(_) | Self::Within(..) => false,
        }
    }

    /// Evaluates the test on an element of a list; false for null.
    fn accepts_element(&self, element: &Value<'_>) -> bool {
        scalar(element).is_some_and(|element| self.accepts(&element))
    }
}

/// Returns a value in its stored form; `None` if it cannot be compared.
fn scalar<'v>(value: &'v Value<'_>) -> Option<Scalar<'v>> {
    Some(match value {
        Value::Boolean(boolean) => Scalar::Boolean(*boolean),
        Value::Int(integer) => Scalar::Int(*integer),
        Value::Float(float) => Scalar::Float(*float),
        Value::Date(date) => Scalar::Date(date.microseconds),
        Value::Text(text) => Scalar::Text(Text::plain(text)),
        Value::Null | Value::Blob(_) | Value::Json(_) | Value::List(_) => return None,
    })
}

/// Returns whether a text contains all of the sorted terms; finds its terms among them by binary search, since both may be many.
fn has_terms(text: &str, wanted: &[String]) -> bool {
    let mut found: SmallVec<[bool; 8]> = wanted.iter().map(|_| false).collect();
    let mut missing = wanted.len();
    terms(text).any(|term| {
        if let Ok(place) = wanted.binary_search_by(|wanted| wanted.as_str().cmp(&term)) {
            missing -= usize::from(!std::mem::replace(&mut found[place], true));
        }
        missing == 0
    })
}

/// Orders operands of the same attribute; those of different types, which an `Any` permits, by type.
pub(super) fn compare(one: &Value<'_>, other: &Value<'_>) -> Ordering {
    scalar(one).map_or(Ordering::Equal, |scalar| order_of_all(&scalar, other))
}

/// Compares a stored value with an operand of any type.
fn order_of_all(stored: &Scalar<'_>, value: &Value<'_>) -> Ordering {
    let type_of_value = match value {
        Value::Boolean(_) => 1,
        Value::Int(_) | Value::Float(_) => 2,
        Value::Date(_) => 3,
        Value::Text(_) => 4,
        Value::Null | Value::Blob(_) | Value::Json(_) | Value::List(_) => 0,
    };
    let type_of_stored = match stored {
        Scalar::Boolean(_) => 1,
        Scalar::Int(_) | Scalar::Float(_) => 2,
        Scalar::Date(_) => 3,
        Scalar::Text(_) => 4,
        Scalar::Null | Scalar::Json(_) => 0,
    };
    order(stored, value).unwrap_or_else(|| type_of_stored.cmp(&type_of_value))
}

/// Returns whether a stored value is among some operands in ascending order.
fn is_one_of(stored: &Scalar<'_>, values: &[Value<'_>]) -> bool {
    let Scalar::Text(text) = stored else {
        return values.binary_search_by(|value| order_of_all(stored, value).reverse()).is_ok();
    };
    // A text in an `Any` may be a date; dates sort after numbers and before texts.
    let (others, texts) = values.split_at(values.partition_point(|value| !matches!(value, Value::Text(_))));
    let dates = &others[others.partition_point(|value| !matches!(value, Value::Date(_)))..];
    let is_date = |instant: i64| {
        let from = |value: &Value<'_>| {
            if let Value::Date(date) = value { date.microseconds.cmp(&instant) } else { Ordering::Less }
        };
        dates.binary_search_by(from).is_ok()
    };
    let unescaped = text.unescaped();
    let from = |value: &Value<'_>| {
        if let Value::Text(value) = value { value.as_bytes().cmp(&unescaped) } else { Ordering::Less }
    };
    texts.binary_search_by(from).is_ok() || !dates.is_empty() && microseconds_of(text).is_some_and(is_date)
}

#[inline]
fn equals(stored: &Scalar<'_>, value: &Value<'_>) -> bool {
    match (stored, value) {
        (Scalar::Text(text), Value::Text(other)) => text.is(other),
        _ => order(stored, value) == Some(Ordering::Equal),
    }
}

/// Compares a stored value with an operand; `None` if either is null or their types differ.
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
        (Scalar::Text(stored), Value::Date(date)) => {
            microseconds_of(stored).map(|stored| stored.cmp(&date.microseconds))
        }
        _ => None,
    }
}

/// Returns the instant that a text in an `Any` denotes, for comparison with a date.
fn microseconds_of(text: &Text<'_>) -> Option<i64> {
    let text = text.unescaped();
    std::str::from_utf8(&text).ok().and_then(|text| Value::microseconds_of(text).ok())
}

/// Compares an integer with a double without rounding either.
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
    use crate::encoding::body::parse_object;
    use crate::encoding::record::encode;
    use crate::query::{Limits, Query};
    use crate::schema::Schema;

    #[test]
    fn ends_of_intervals_and_values_that_are_not_there() {
        let sdl = "type T @table { id: ID @primaryKey n: Int f: Float d: Date b: Boolean s: String }";
        let schema = Schema::parse(sdl).unwrap();
        let table = &schema.tables[0];
        let bodies = [
            "{}",
            r#"{"n":0,"f":0,"d":"1970-01-01","b":false,"s":""}"#,
            r#"{"n":1,"f":0.5,"d":"1970-01-02","b":true,"s":"a"}"#,
            r#"{"n":-1,"f":-0.5,"d":"1969-12-31","b":true,"s":"a\"b\\"}"#,
            r#"{"n":9223372036854775807,"f":1.7976931348623157e308,"b":false,"s":"ab"}"#,
            r#"{"n":-9223372036854775808,"f":-1.7976931348623157e308,"s":"null"}"#,
        ];
        // The bodies that satisfy a query, by position.
        let cases: [(&str, &[usize]); 29] = [
            ("n=ge=0", &[1, 2, 4]),
            ("n=gt=0", &[2, 4]),
            ("n=le=0", &[1, 3, 5]),
            ("n=lt=0", &[3, 5]),
            ("n==0", &[1]),
            ("n!=0", &[0, 2, 3, 4, 5]),
            ("n=gt=9223372036854775806", &[4]),
            ("n=gt=9223372036854775807", &[]),
            ("n=lt=-9223372036854775808", &[]),
            ("n=gelt=-1,1", &[1, 3]),
            ("n=gt=-0.5&n=lt=0.5", &[1]),
            ("n==0.5", &[]),
            ("f=ge=0", &[1, 2, 4]),
            ("f=gt=-0", &[2, 4]),
            ("f=le=-0", &[1, 3, 5]),
            ("f=lt=0", &[3, 5]),
            ("f==0", &[1]),
            ("f=gt=1.7976931348623157e308", &[]),
            ("f=ge=9223372036854775807", &[4]),
            ("d=ge=1970-01-01", &[1, 2]),
            ("d=lt=1970-01-01", &[3]),
            ("b==false&n=gt=-1", &[1, 4]),
            ("b!=true", &[0, 1, 4, 5]),
            ("s==a|s==a%22b%5C", &[2, 3]),
            ("s!=a&s!==null&f=ne=0.5", &[0, 1, 3, 4]),
            ("n=in=5,1,-1,0.5,9223372036854775807,1", &[2, 3, 4]),
            ("n=out=0,1", &[0, 3, 4, 5]),
            ("s=in=null,ab,a%22b%5C", &[3, 4, 5]),
            ("f=in=0.5,9007199254740993,0,7,-0.5", &[1, 2, 3]),
        ];
        for (text, expected) in cases {
            let query = Query::parse(&schema, table, text, &Limits::in_url(1)).unwrap();
            let checks = query.filter.checks(table).unwrap();
            let accepted = |body: &&str| {
                let (fields, mut out) = (parse_object(table, body.as_bytes()).unwrap(), Vec::new());
                let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
                let accepted = checks.accept(&record).unwrap();
                // The tree is the same condition, evaluated without compilation.
                assert_eq!(any_evaluates_to(true, &query.filter.nodes, &record).unwrap(), accepted, "{text} of {body}");
                accepted
            };
            let found: Vec<usize> = (0..bodies.len()).filter(|body| accepted(&bodies[*body])).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    /// Anything that takes time proportional to the product of both lengths, or more, would take minutes here.
    #[test]
    fn a_long_text_is_asked_in_one_pass() {
        let schema = Schema::parse("type T @table { id: ID @primaryKey s: String f: Any }").unwrap();
        let table = &schema.tables[0];
        let accepts = |text: &str, query: &str| {
            let query = Query::parse(&schema, table, query, &Limits::in_body(1)).unwrap();
            let (body, mut out) = (format!(r#"{{"s":"{text}","f":"{text}"}}"#), Vec::new());
            let fields = parse_object(table, body.as_bytes()).unwrap();
            let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
            query.filter.checks(table).unwrap().accept(&record).unwrap()
        };
        let same = "a".repeat(1 << 20);
        assert!(!accepts(&same, &format!("s=={}*b", "*a".repeat(50_000))));
        assert!(accepts(&same, &format!("s=={}*", "*a".repeat(50_000))));
        assert!(!accepts(&same, "s=~=%28a*%29*%28a%7Caa%29%2Bb$"));
        let number = |number: usize| format!("{number:x}x");
        let words: Vec<_> = (0..200_000).map(|one| number(7 * one)).collect();
        let wanted: Vec<_> = (1..199).map(|one| number(1000 * 7 * one)).collect();
        assert!(accepts(&words.join(" "), &format!("s=ft={}", wanted.join("+"))));
        assert!(!accepts(&words.join(" "), &format!("s=ft={}+nowhere", wanted.join("+"))));
    }

    #[test]
    fn a_text_in_an_any_may_be_a_date_of_a_list() {
        let schema = Schema::parse("type T @table { id: ID @primaryKey f: Any }").unwrap();
        let table = &schema.tables[0];
        let text = "f=in=b,date:2024-02-29,1,true,a,date:1970-01-01,2.5";
        let query = Query::parse(&schema, table, text, &Limits::in_url(1)).unwrap();
        for (value, expected) in [
            (r#""a""#, true),
            (r#""c""#, false),
            (r#""2024-02-29T02:00:00+02:00""#, true),
            (r#""2024-02-28""#, false),
            (r#""1""#, false),
            ("1.0", true),
            ("2", false),
            ("true", true),
            ("false", false),
            ("null", false),
            (r#"["x",["b"]]"#, true),
        ] {
            let (body, mut out) = (format!(r#"{{"f":{value}}}"#), Vec::new());
            let fields = parse_object(table, body.as_bytes()).unwrap();
            let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
            assert_eq!(query.filter.checks(table).unwrap().accept(&record).unwrap(), expected, "{value}");
        }
    }

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
