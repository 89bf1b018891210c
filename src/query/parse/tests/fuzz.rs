//! Queries made by the grammar, and garbage made of queries.
//!
//! What is made by the grammar is written in two ways, plainly and as wildly as the grammar allows: both have to be read, and as the same.
//! What is read, also by accident, is written down again from its tree, and has to be read as the same tree. What is refused is refused
//! at a byte of it. And whatever it is, no byte is looked at more than a few times. `STRATA_FUZZ_CASES` makes it as long as one likes.

use std::cell::Cell;
use std::fmt::Write as _;
use std::ops::Range;

use super::super::raw::LOOKED_AT;
use super::*;
use crate::query::tree::Pattern;
use crate::schema::Kind;

/// Longer than whatever a query of [`LIMITS`] becomes when it is written down plainly.
const WIDE: Limits = Limits { query_bytes: 1 << 20, ..LIMITS };

pub(super) fn cases() -> ProptestConfig {
    let cases = std::env::var("STRATA_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(4000), ..ProptestConfig::default() }
}

/// Everything that a query says, as text by which two can be compared.
fn outline(table: &Table, query: &Query<'_>) -> String {
    let filter = if query.filter.nodes.is_empty() { String::new() } else { show_node(table, &query.filter, 0) };
    let Query { select, sort, limit, offset, pagination, explain, .. } = query;
    format!("{filter} select {select:?} sort {sort:?} limit {limit:?} offset {offset} {pagination} {explain}")
}

/// Reads a text, which may be garbage, and sees that all holds that has to hold of any.
fn holds(text: &str) -> std::result::Result<(), TestCaseError> {
    let schema = schema();
    let table = &schema.tables[0];
    let (read, looked_at) = counted(|| Query::parse(&schema, table, text, &LIMITS));
    prop_assert!(looked_at <= looks(text), "{looked_at} looks at {} bytes: {text:?}", text.len());
    match read {
        Ok(query) if query.after.is_none() => {
            let written = Written::of(table, &query);
            let again = Query::parse(&schema, table, &written, &WIDE);
            let again = again.map_err(|error| TestCaseError::fail(format!("{text:?} as {written:?}: {error}")))?;
            prop_assert_eq!(outline(table, &again), outline(table, &query), "{:?} as {:?}", text, written);
            prop_assert_eq!(Written::of(table, &again), written);
        }
        Ok(_) => {}
        Err(Error::Invalid { place: Place::Position(position), detail }) => {
            // It is the beginning of a character, so it is within the text.
            prop_assert!(text.is_char_boundary(position), "{text:?} at {position}: {detail}");
            prop_assert!(!detail.contains('\n'), "one line: {detail}");
        }
        Err(other) => prop_assert!(false, "{text:?}: {other:?}"),
    }
    Ok(())
}

fn counted<T>(what: impl FnOnce() -> T) -> (T, usize) {
    LOOKED_AT.set(0);
    (what(), LOOKED_AT.get())
}

/// How often bytes may be looked at: each eight times, and a few at the end.
fn looks(text: &str) -> usize {
    8 * text.len() + 64
}

/// A query written down plainly from its tree.
struct Written<'w> {
    table: &'w Table,
    query: &'w Query<'w>,
    text: String,
}

impl Written<'_> {
    fn of(table: &Table, query: &Query<'_>) -> String {
        let mut written = Written { table, query, text: String::new() };
        if !query.filter.nodes.is_empty() {
            written.node(0, false, false);
            written.text.push('&');
        }
        if let Some(selection) = &query.select {
            written.text.push_str("select=");
            written.selection(selection);
            written.text.push('&');
        }
        let terms = query.sort.iter().map(|order| {
            format!("{}{}", if order.descending { "-" } else { "" }, table.attributes[order.attribute].name)
        });
        let terms = terms.collect::<Vec<_>>().join(",");
        if !terms.is_empty() {
            write!(written.text, "sort={terms}&").unwrap();
        }
        let Query { limit, offset, pagination, explain, .. } = query;
        let limit = limit.unwrap();
        write!(written.text, "limit={limit}&offset={offset}&pagination={pagination}&explain={explain}").unwrap();
        written.text
    }

    fn selection(&mut self, selection: &Selection) {
        for (position, item) in selection.items.iter().enumerate() {
            self.text.push_str(if position == 0 { "" } else { "," });
            self.text.push_str(item.name(self.table));
            if let Item::Related(_, selection) = item {
                // The only table is related to itself.
                self.text.push('{');
                self.selection(selection);
                self.text.push('}');
            }
        }
    }

    /// The tree that begins at a node, in brackets where those above it ask for them.
    fn node(&mut self, node: usize, in_all: bool, in_any: bool) {
        let filter = &self.query.filter;
        let (join, in_brackets) = match &filter.nodes[node] {
            Node::All(_) => ("&", in_all),
            Node::Any(_) => ("|", in_all || in_any),
            Node::Not if self.negated(node + 1) => return,
            Node::Not => {
                self.text.push_str("!(");
                self.node(node + 1, false, false);
                self.text.push(')');
                return;
            }
            Node::Related(_) | Node::Is(_) => return self.condition(node),
        };
        self.text.push_str(if in_brackets { "(" } else { "" });
        for (position, below) in filter.below(node).enumerate() {
            self.text.push_str(if position == 0 { "" } else { join });
            self.node(below, join == "&", join == "|");
        }
        self.text.push_str(if in_brackets { ")" } else { "" });
    }

    /// A condition, which is one of related records if relationships stand before it.
    fn condition(&mut self, mut node: usize) {
        let nodes = &self.query.filter.nodes;
        let start = node;
        let mut relationships = String::new();
        while let Node::Related(related) = &nodes[node] {
            relationships.push_str(&self.table.relationships[related.relationship].name);
            if related.below == 0 {
                return self.text.push_str(&relationships);
            }
            relationships.push('.');
            node += 1;
        }
        let is_negated = matches!(nodes[node], Node::Not);
        let Node::Is(condition) = &nodes[node + usize::from(is_negated)] else {
            panic!("a condition stands behind relationships: {:?}", &nodes[start..])
        };
        if let Test::Terms(_) = condition.test {
            // Terms of terms may be others: of `İx` in lower case the dot is a character of its own, and parts them.
            let Range { start, end } = condition.text;
            return self.text.push_str(&self.query.text[start as usize..end as usize]);
        }
        let test = if is_negated { self.negative(condition) } else { Some(self.positive(condition)) };
        let test = test.expect("only what has an operator is negated behind a relationship");
        write!(self.text, "{relationships}{}{test}", self.name(condition)).unwrap();
    }

    /// Whether the condition of a node has an operator that negates it; then it was written.
    fn negated(&mut self, node: usize) -> bool {
        let Node::Is(condition) = &self.query.filter.nodes[node] else { return false };
        let Some(test) = self.negative(condition) else { return false };
        write!(self.text, "{}{test}", self.name(condition)).unwrap();
        true
    }

    fn name(&self, condition: &Condition<'_>) -> String {
        let mut name = self.table.attributes[condition.attribute].name.clone();
        condition.path.iter().for_each(|member| write!(name, ".{}", encoded(member)).unwrap());
        name
    }

    fn kind(&self, condition: &Condition<'_>) -> Kind {
        self.table.attributes[condition.attribute].kind
    }

    fn positive(&self, condition: &Condition<'_>) -> String {
        let value = |value: &Value<'_>| value_text(self.kind(condition), value);
        match &condition.test {
            Test::Null => "==null".to_owned(),
            Test::Equal(equal) => format!("=={}", value(equal)),
            Test::OneOf(values) => format!("=in={}", list(self.kind(condition), values)),
            Test::Within(lower, upper) => match (lower, upper) {
                (Bound::Included(lower), Bound::Included(upper)) => format!("=gele={},{}", value(lower), value(upper)),
                (Bound::Included(lower), Bound::Excluded(upper)) => format!("=gelt={},{}", value(lower), value(upper)),
                (Bound::Excluded(lower), Bound::Included(upper)) => format!("=gtle={},{}", value(lower), value(upper)),
                (Bound::Excluded(lower), Bound::Excluded(upper)) => format!("=gtlt={},{}", value(lower), value(upper)),
                (Bound::Included(lower), Bound::Unbounded) => format!("=ge={}", value(lower)),
                (Bound::Excluded(lower), Bound::Unbounded) => format!("=gt={}", value(lower)),
                (Bound::Unbounded, Bound::Included(upper)) => format!("=le={}", value(upper)),
                (Bound::Unbounded, Bound::Excluded(upper)) => format!("=lt={}", value(upper)),
                (Bound::Unbounded, Bound::Unbounded) => panic!("it asks for nothing"),
            },
            Test::StartsWith(text) => format!("=sw=string:{}", encoded(text)),
            Test::EndsWith(text) => format!("=ew=string:{}", encoded(text)),
            Test::Contains(text) => format!("=ct=string:{}", encoded(text)),
            Test::Like(pattern) => format!("==string:{}", with_stars(pattern)),
            Test::Matches(expression) => format!("=~=string:{}", encoded(&expression.text)),
            Test::Terms(_) => panic!("the caller has written it"),
        }
    }

    /// The operator that negates, if there is one.
    fn negative(&self, condition: &Condition<'_>) -> Option<String> {
        let has_stars = matches!(self.kind(condition), Kind::Id | Kind::String);
        Some(match &condition.test {
            Test::Null => String::new(),
            Test::Equal(equal) => format!("!={}", value_text(self.kind(condition), equal)),
            Test::OneOf(values) => format!("=out={}", list(self.kind(condition), values)),
            Test::StartsWith(text) if has_stars => format!("!=string:{}*", encoded(text)),
            Test::EndsWith(text) if has_stars && !text.is_empty() => format!("!=string:*{}", encoded(text)),
            Test::Contains(text) if has_stars && !text.is_empty() => format!("!=string:*{}*", encoded(text)),
            Test::Like(pattern) => format!("!=string:{}", with_stars(pattern)),
            _ => return None,
        })
    }
}

fn with_stars(pattern: &Pattern<'_>) -> String {
    let middle: String = pattern.middle.iter().map(|piece| format!("{}*", encoded(piece))).collect();
    format!("{}*{middle}{}", encoded(&pattern.start), encoded(&pattern.end))
}

fn list(kind: Kind, values: &[Value<'_>]) -> String {
    // Nothing equals what no value of the type is.
    let nothing = if kind == Kind::Int { "0.5" } else { "18446744073709551617" };
    let values: Vec<_> = values.iter().map(|value| value_text(kind, value)).collect();
    format!("({})", if values.is_empty() { nothing.to_owned() } else { values.join(",") })
}

fn value_text(kind: Kind, value: &Value<'_>) -> String {
    match value {
        Value::Int(integer) => integer.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Date(date) => format!("date:{}", encoded(&date.text)),
        Value::Text(text) => format!("string:{}", encoded(text)),
        other => panic!("no {kind:?} is compared with {other:?}"),
    }
}

/// A text with all but letters and digits of ASCII encoded.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A condition, made by the grammar.
#[derive(Clone, Debug)]
enum Term {
    Compares { name: &'static str, operator: &'static str, values: Vec<Literal> },
    Exists(&'static str),
    Group { is_negated: bool, logic: Logic },
}

/// Alternatives, each of terms that all hold.
type Logic = Vec<Vec<Term>>;

#[derive(Clone, Debug)]
enum Literal {
    /// A text of a text attribute, or one that is no number and no truth in an `Any`.
    Text(String),
    /// What stars part.
    Pattern(Vec<String>),
    /// What is written as it stands.
    Word(&'static str),
}

const TEXTS: [&str; 7] = ["name", "id", "tags", "key", "brand.name", "brand.brand.tags", "brand.id"];
const NUMBERS: [&str; 4] = ["stock", "price", "counts", "brand.stock"];
const DATES: [&str; 2] = ["born", "brand.born"];
const TRUTHS: [&str; 2] = ["inStock", "brand.inStock"];
const ANYS: [&str; 4] = ["details", "details.a", "details.a.\u{e9} b", "brand.details.x"];
const EXISTS: [&str; 8] =
    ["name", "stock", "tags", "details.a", "brand", "brand.brand", "brand.name", "brand.details.x"];
const ORDERS: [&str; 4] = ["=gt=", "=ge=", "=lt=", "=le="];
const INTERVALS: [&str; 4] = ["=gele=", "=gelt=", "=gtle=", "=gtlt="];
const EQUALITIES: [&str; 2] = ["==", "!="];
const LITERAL_EQUALITIES: [&str; 2] = ["===", "!=="];
const LISTS: [&str; 2] = ["=in=", "=out="];
const PARTS: [&str; 3] = ["=ct=", "=sw=", "=ew="];

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> + Clone {
    prop::sample::select(all)
}

/// Comparisons of one of some attributes with values of a kind, as all kinds have them.
fn compares(names: &'static [&str], value: BoxedStrategy<Literal>) -> BoxedStrategy<Term> {
    let operator_and_values = prop_oneof![
        (
            one_of(&EQUALITIES),
            prop_oneof![4 => value.clone(), 1 => Just(Literal::Word("null"))].prop_map(|one| vec![one])
        ),
        (one_of(&LITERAL_EQUALITIES), value.clone().prop_map(|one| vec![one])),
        (one_of(&ORDERS), value.clone().prop_map(|one| vec![one])),
        (one_of(&INTERVALS), (value.clone(), value.clone()).prop_map(|(lower, upper)| vec![lower, upper])),
        (one_of(&LISTS), prop::collection::vec(value, 1..5)),
    ];
    (one_of(names), operator_and_values)
        .prop_map(|(name, (operator, values))| Term::Compares { name, operator, values })
        .boxed()
}

/// Comparisons that texts alone have; `is_any`: without stars.
fn compares_text(names: &'static [&str], is_any: bool) -> BoxedStrategy<Term> {
    let part = (one_of(&PARTS), text().prop_map(Literal::Text));
    let expression = one_of(&["a", "^a.*b$", "[ab]+|x", "(?i)\u{e9}{2,3}"]);
    let expression = (Just("=~="), expression.prop_map(|text| Literal::Text(text.to_owned())));
    let terms = (Just("=ft="), one_of(&["ab", "Solid oak", "\u{c9}1 \u{65e5}\u{672c}", "\u{130}x"]));
    let terms = terms.prop_map(|(operator, text)| (operator, Literal::Text(text.to_owned())));
    let pattern = (one_of(&EQUALITIES), prop::collection::vec(text(), 2..5).prop_map(Literal::Pattern));
    let all = match is_any {
        true => prop_oneof![part, expression, terms].boxed(),
        false => prop_oneof![part, expression, terms, pattern].boxed(),
    };
    (one_of(names), all)
        .prop_map(|(name, (operator, value))| Term::Compares { name, operator, values: vec![value] })
        .boxed()
}

fn text() -> impl Strategy<Value = String> {
    let likely =
        ["null", "a*b", "string:x", "number:7", "true", "7", " ", "=", "==a", "gt=1", "a&b|c;d,e(f)[g]", "%41", "+"];
    prop_oneof!["\\PC{0,5}", prop::sample::select(likely.to_vec()).prop_map(str::to_owned)]
}

fn comparison() -> impl Strategy<Value = Term> {
    static NUMBER: [&str; 14] = [
        "0",
        "-1",
        "007",
        "+7",
        "2.50",
        "-0",
        "1e3",
        "-2.5e-1",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775809",
        "18446744073709551617",
        "1e300",
        "number:12",
    ];
    static DATE: [&str; 4] =
        ["2024-02-29", "1969-12-31T23:59:59.999999Z", "2024-01-01T00:00:00%2B05:30", "date:2024-01-01"];
    static TRUTH: [&str; 2] = ["true", "false"];
    let words = |all: &'static [&'static str]| one_of(all).prop_map(Literal::Word).boxed();
    // The prefix would be text behind `===`.
    let number = || words(&NUMBER[..13]);
    let in_any = prop_oneof![number(), words(&TRUTH), "[a-z\u{e9}]{1,4}x".prop_map(Literal::Text)].boxed();
    prop_oneof![
        3 => compares(&TEXTS, text().prop_map(Literal::Text).boxed()),
        3 => compares_text(&TEXTS, false),
        3 => compares(&NUMBERS, number()),
        1 => compares(&DATES, words(&DATE[..3])),
        1 => compares(&TRUTHS, words(&TRUTH)),
        2 => compares(&ANYS, in_any),
        1 => compares_text(&ANYS, true),
        1 => (one_of(&NUMBERS), one_of(&ORDERS)).prop_map(|(name, operator)| Term::Compares {
            name, operator, values: vec![Literal::Word(NUMBER[13])]
        }),
        1 => (one_of(&DATES), one_of(&ORDERS)).prop_map(|(name, operator)| Term::Compares {
            name, operator, values: vec![Literal::Word(DATE[3])]
        }),
        1 => one_of(&EXISTS).prop_map(Term::Exists),
    ]
}

fn logic() -> impl Strategy<Value = Logic> {
    let term = comparison().prop_recursive(4, 24, 4, |term| {
        let logic = prop::collection::vec(prop::collection::vec(term, 1..4), 1..4);
        (any::<bool>(), logic).prop_map(|(is_negated, logic)| Term::Group { is_negated, logic })
    });
    prop::collection::vec(prop::collection::vec(term, 1..4), 1..4)
}

/// Clauses, each in some ways to say the same.
const CLAUSES: [&[&[&str]]; 5] = [
    &[
        &["select=name,id", "select(name,id)", "select%3Dname%2Cid", "select%28n%61me,id%29"],
        &["select=*", "select(*)", "select=%2A"],
        &["select=brand{name,brand{id}},stock", "select(brand%7Bname%2Cbrand{id%7D},stock)"],
    ],
    &[
        &["sort=-price,name", "sort(-price,+name)", "sort%3D%2Dprice%2Cn%61me"],
        &["sort=born", "sort=%2Bborn", "sort%28born%29"],
    ],
    &[&["limit=5", "limit(5)", "limit%3D5", "limit%285)"], &["limit=7&offset=2", "limit(2,7)", "offset=2;limit=7"]],
    &[&["pagination=true", "pagination%3Dtrue"]],
    &[&["explain=false", "explain%3Dfalse"]],
];

/// One clause of each kind, or none, by a number.
fn clauses() -> impl Strategy<Value = Vec<&'static [&'static str]>> {
    prop::collection::vec(0..8usize, CLAUSES.len())
        .prop_map(|picks| CLAUSES.iter().zip(picks).filter_map(|(clause, pick)| clause.get(pick).copied()).collect())
}

/// How a query is written, where the grammar leaves a choice. The first one is always the plain one.
struct Style<'s> {
    choices: &'s [u8],
    next: Cell<usize>,
}

/// What a term ends with, which says what may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// A value: what is encoded behind it would be a part of it.
    Value,
    /// A list without brackets: a comma would go on with it.
    List,
    /// A bracket or a name.
    Closed,
}

impl<'s> Style<'s> {
    fn new(choices: &'s [u8]) -> Self {
        Self { choices, next: Cell::new(0) }
    }

    fn pick<T: Copy>(&self, among: &[T]) -> T {
        let next = self.next.replace(self.next.get() + 1);
        among[usize::from(self.choices[next % self.choices.len()]) % among.len()]
    }

    /// Whether something is done that is done now and then.
    fn now_and_then(&self) -> bool {
        self.pick(&[false, false, false, false, false, true])
    }

    fn query(&self, logic: &Logic, clauses: &[&[&str]]) -> String {
        let (mut before, mut text, mut behind) = (String::new(), String::new(), String::new());
        for clause in clauses {
            let joint = self.pick(&["&", ";"]);
            match self.now_and_then() {
                true => before += &format!("{}{joint}", self.pick(clause)),
                false => behind += &format!("{joint}{}", self.pick(clause)),
            }
        }
        self.logic(logic, &mut text);
        format!("{before}{text}{behind}")
    }

    fn logic(&self, logic: &Logic, out: &mut String) -> Ends {
        let mut ends = Ends::Closed;
        for (position, all) in logic.iter().enumerate() {
            if position > 0 {
                out.push_str(match ends {
                    Ends::Value => self.pick(&["|", ","]),
                    Ends::List => "|",
                    Ends::Closed => self.pick(&["|", ",", "%7C", "%2C", "%7c"]),
                });
            }
            ends = match self.now_and_then() {
                true => self.in_brackets(out, |out| self.all(all, out)),
                false => self.all(all, out),
            };
        }
        ends
    }

    fn all(&self, all: &[Term], out: &mut String) -> Ends {
        let (mut ends, mut compared) = (Ends::Closed, None);
        for (position, term) in all.iter().enumerate() {
            if position > 0 {
                out.push_str(match ends {
                    Ends::Closed => self.pick(&["&", ";", "%26", "%3B"]),
                    _ => self.pick(&["&", ";"]),
                });
            }
            (ends, compared) = match self.now_and_then() {
                true => (self.in_brackets(out, |out| self.term(term, None, out)), None),
                false => (self.term(term, compared, out), compares_what(term)),
            };
        }
        ends
    }

    fn in_brackets(&self, out: &mut String, within: impl FnOnce(&mut String) -> Ends) -> Ends {
        let brackets = self.pick(&[["(", ")"], ["[", "]"], ["%28", ")"], ["%5B", "]"]]);
        out.push_str(brackets[0]);
        let ends = within(out);
        // Behind a value, an encoded bracket would be a part of it.
        out.push_str(match (ends, brackets[1]) {
            (Ends::Closed, ")") => self.pick(&[")", "%29"]),
            (_, bracket) => bracket,
        });
        Ends::Closed
    }

    /// A term; the comparison before may have compared the same.
    fn term(&self, term: &Term, compared: Option<&str>, out: &mut String) -> Ends {
        match term {
            Term::Exists(name) => {
                self.name(name, out);
                Ends::Closed
            }
            Term::Group { is_negated, logic } => {
                out.push_str(if *is_negated { self.pick(&["!", "%21"]) } else { "" });
                self.in_brackets(out, |out| self.logic(logic, out))
            }
            Term::Compares { name, operator, values } => {
                let is_any = name.contains("details");
                let values: Vec<_> = values.iter().map(|value| self.value(value, operator, is_any)).collect();
                let word = operator.trim_matches('=');
                if compared == Some(*name) && operators::is_chained(word) && self.pick(&[false, true]) {
                    write!(out, "{word}=").unwrap();
                } else {
                    self.name(name, out);
                    out.push_str(self.operator(operator, &values[0]));
                }
                let is_list = LISTS.contains(operator) || INTERVALS.contains(operator);
                let brackets = if is_list { self.pick(&[["(", ")"], ["", ""], ["[", "]"]]) } else { ["", ""] };
                write!(out, "{}{}{}", brackets[0], values.join(","), brackets[1]).unwrap();
                match (is_list, brackets[0]) {
                    (false, _) => Ends::Value,
                    (true, "") => Ends::List,
                    (true, _) => Ends::Closed,
                }
            }
        }
    }

    fn name(&self, name: &str, out: &mut String) {
        name.chars()
            .for_each(|character| self.character(character, !character.is_alphanumeric() && character != '.', out));
    }

    /// A character, encoded if it must be, or now and then.
    fn character(&self, character: char, must: bool, out: &mut String) {
        if !must && !self.now_and_then() {
            return out.push(character);
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            match self.pick(&[true, false]) {
                true => write!(out, "%{byte:02X}").unwrap(),
                false => write!(out, "%{byte:02x}").unwrap(),
            }
        }
    }

    fn operator(&self, operator: &'static str, value: &str) -> &'static str {
        // Encoded signs go on with an encoded operator, so a value that begins with one has a raw one before it.
        let may_be_encoded = !value.to_ascii_lowercase().starts_with("%3d");
        let all: (&[&str], &[&str]) = match operator {
            "==" => (&["==", "=eq=", "="], &["%3D%3D", "%3Deq%3D", "%3d%65q%3D"]),
            "!=" => (&["!=", "=ne="], &["!%3D", "%21%3D", "%3Dne%3D"]),
            "===" => (&["==="], &["%3D%3D%3D"]),
            "!==" => (&["!=="], &["!%3D%3D", "%21=="]),
            "=gt=" => (&["=gt=", ">"], &["%3E", "%3Dgt%3D"]),
            "=ge=" => (&["=ge=", ">="], &["%3E=", "%3E%3D"]),
            "=lt=" => (&["=lt=", "<"], &["%3C", "%3Dl%74%3D"]),
            "=le=" => (&["=le=", "<="], &["%3C=", "%3c%3d"]),
            "=in=" => (&["=in="], &["%3Din%3D"]),
            "=~=" => (&["=~="], &["%3D%7E%3D"]),
            other => (std::slice::from_ref(LISTED.iter().find(|listed| **listed == other).unwrap()), &[]),
        };
        if may_be_encoded && !all.1.is_empty() && self.now_and_then() { self.pick(all.1) } else { self.pick(all.0) }
    }

    fn value(&self, value: &Literal, operator: &str, is_any: bool) -> String {
        let mut out = String::new();
        let is_literal = LITERAL_EQUALITIES.contains(&operator);
        let write_text = |text: &str, out: &mut String| {
            let must = |character: char| "&;|()[],=%*:".contains(character);
            text.chars().for_each(|character| self.character(character, must(character), out));
        };
        match value {
            Literal::Word(word) => return (*word).to_owned(),
            Literal::Text(text) => {
                let speaks_for_itself = !text.is_empty() && text != "null" && (!is_any || text.parse::<f64>().is_err());
                out.push_str(match (is_literal, speaks_for_itself) {
                    (true, _) => "",
                    (false, false) => "string:",
                    (false, true) => self.pick(&["string:", ""]),
                });
                write_text(text, &mut out);
            }
            Literal::Pattern(pieces) => {
                out.push_str(self.pick(&["string:", ""]));
                for (position, piece) in pieces.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { self.pick(&["*", "**"]) });
                    write_text(piece, &mut out);
                }
            }
        }
        out
    }
}

/// Operators that are written in one way.
const LISTED: [&str; 9] = ["=gele=", "=gelt=", "=gtle=", "=gtlt=", "=out=", "=ct=", "=sw=", "=ew=", "=ft="];

fn compares_what(term: &Term) -> Option<&str> {
    match term {
        Term::Compares { name, .. } => Some(name),
        _ => None,
    }
}

/// A change of a text that was valid: how, where, and what is put there.
type Damage = (u8, prop::sample::Index, prop::sample::Index, &'static str);

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    const PIECES: [&str; 34] = [
        "=",
        "==",
        "!",
        "&",
        "|",
        ";",
        ",",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "*",
        "%",
        "%2",
        "%28",
        "%3D",
        "%7C",
        "%FF",
        "%00",
        "%ED%A0%80",
        "null",
        "string:",
        "number:",
        "lt=",
        "=in=",
        "=gele=",
        "=~=",
        "details.",
        "brand.",
        "sort=",
        "limit(",
        "\u{e9}",
    ];
    prop::collection::vec((0..6u8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), one_of(&PIECES)), 1..4)
}

fn damaged(text: &str, damage: &[Damage]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (how, one, other, piece) in damage {
        let (one, other) = (one.index(bytes.len() + 1), other.index(bytes.len() + 1));
        let (start, end) = (one.min(other), one.max(other));
        match how {
            0 => drop(bytes.splice(one..one, piece.bytes())),
            1 => drop(bytes.drain(start..end.min(start + 3))),
            2 => drop(bytes.splice(start..end.min(start + 1), piece.bytes())),
            3 => bytes.truncate(end),
            4 => {
                let copied = bytes[start..end].to_vec();
                drop(bytes.splice(one..one, copied));
            }
            _ => bytes.rotate_left(one),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_the_grammar_makes_is_read_as_the_same_however_it_is_written(
        logic in logic(), clauses in clauses(), choices in prop::collection::vec(any::<u8>(), 1..64)
    ) {
        let schema = schema();
        let table = &schema.tables[0];
        let (plain, wild) = (Style::new(&[0]).query(&logic, &clauses), Style::new(&choices).query(&logic, &clauses));
        let read = |text: &str| match Query::parse(&schema, table, text, &WIDE) {
            Ok(query) => Ok(outline(table, &query)),
            // It may have more expressions or conditions than a query may.
            Err(Error::Invalid { detail, .. }) if detail.contains("at most") => Ok(detail),
            Err(error) => Err(TestCaseError::fail(format!("{text}: {error}"))),
        };
        prop_assert_eq!(read(&plain)?, read(&wild)?, "{} and {}", plain, wild);
        holds(&plain)?;
        holds(&wild)?;
    }

    #[test]
    fn a_query_that_was_damaged_is_read_or_refused(
        logic in logic(), clauses in clauses(), choices in prop::collection::vec(any::<u8>(), 1..64), damage in damage()
    ) {
        holds(&damaged(&Style::new(&choices).query(&logic, &clauses), &damage))?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        holds(&text)?;
    }

    #[test]
    fn any_bytes_encoded_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40), name in "(name|details|sort|select|)") {
        let encoded: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
        holds(&encoded)?;
        holds(&format!("{name}=={encoded}"))?;
        holds(&format!("{name}={encoded}"))?;
    }

    #[test]
    fn any_mixture_of_tokens_is_read_or_refused(
        tokens in prop::collection::vec(one_of(&[
            "price", "stock", "name", "tags", "born", "brand", "brand.", "details", "details.a", "sort", "limit", "select", "offset", "null",
            "*", "a", "1", "2.5", "=", "==", "!", "!=", "=gt=", "=in=", "=out=", "=gele=", "=~=", "=ft=", "&", "|", ";", ",", "(", ")", "[",
            "]", "{", "}", "%28", "%3D", "%7C", "%", "-", "lt", "lt=", "string:", "number:", "date:", "\u{e9}", "2020-01-01", "true",
        ]), 0..24)
    ) {
        holds(&tokens.concat())?;
    }
}

#[test]
fn no_byte_is_looked_at_more_than_a_few_times() {
    let schema = schema();
    let table = &schema.tables[0];
    // A beginning, what is repeated, an end.
    let families = [
        ("", "(", ""),
        ("", "!(", ""),
        ("", "!(stock)|", "stock"),
        ("", "%28", ""),
        ("", "a", ""),
        ("", "%61", ""),
        ("", "%", ""),
        ("", "&", ""),
        ("", "stock&", "stock"),
        ("", "stock=gt=1&lt=2&", "stock"),
        ("", "limit=1&", "stock"),
        ("name==", "a", ""),
        ("name==", "%61", ""),
        ("name==", "%C3%A9", ""),
        ("name==", "*a", "*b"),
        ("name==", "*", ""),
        ("name==", "string:", ""),
        ("name=", "a", ""),
        ("name=", "a", "="),
        ("name%3D", "%61", "%3D1"),
        ("name=in=(", "a,", "a)"),
        ("name=in=", "a,", "a"),
        ("name=in=", "%2C", ""),
        ("stock=in=(", "1.5,", "2)"),
        ("stock==", "1", ""),
        ("stock==0.", "0", "1"),
        ("stock==1e", "9", ""),
        ("price==", "7", ""),
        ("born==", "2020-01-01", ""),
        ("name=~=", "a*", ""),
        ("name=~=", "%28", ""),
        ("name=ft=", "ab%20", ""),
        ("details", ".a", "==1"),
        ("brand", ".brand", ""),
        ("select=", "name,", ""),
        ("select=", "brand{", ""),
        ("select=brand{", "brand{id},", "id}"),
        ("sort=", "-name,", ""),
        ("limit=", "9", ""),
        ("after=", "A", ""),
    ];
    for (beginning, repeated, end) in families {
        for size in [1 << 10, 1 << 13, 1 << 16, (1 << 18) - 64] {
            let text = format!("{beginning}{}{end}", repeated.repeat(size / repeated.len()));
            let (_, looked_at) = counted(|| Query::parse(&schema, table, &text, &Limits::in_body(10)).map(drop));
            assert!(looked_at <= looks(&text), "{beginning}{repeated}..: {looked_at} looks at {} bytes", text.len());
        }
    }
}
