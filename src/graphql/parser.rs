//! The syntax of documents (GraphQL, October 2021, chapter 2): a text becomes operations and fragments.
//!
//! The nodes are those of async-graphql, which answers introspection. Its own parser is not used: it departs from the grammar in places
//! (`tokens`; white space within types, directives after the default value of a variable, fragments named `on`), and keeps the last of
//! several fields of one name in an input object.

use async_graphql_parser::types::{
    BaseType, Directive, Field, FragmentDefinition, FragmentSpread, InlineFragment, OperationDefinition, OperationType,
    Selection, SelectionSet, Type, TypeCondition, VariableDefinition,
};
use async_graphql_parser::{Pos, Positioned};
use async_graphql_value::indexmap::IndexMap;
use async_graphql_value::{Name, Value};
use serde_json::Number;

use super::Fault;
use super::tokens::{Token, Tokens};

/// The maximum nesting of parentheses, brackets and braces in a document, those of values included: values are parsed, validated and
/// dropped by recursion.
pub(super) const NESTED: usize = 128;

/// A document whose syntax is valid, and whose operations and fragments have names of their own.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub operations: Vec<(Option<Name>, Positioned<OperationDefinition>)>,
    pub fragments: IndexMap<Name, Positioned<FragmentDefinition>>,
}

/// A name and its value: an argument, or a field of an input object.
type Member = (Positioned<Name>, Positioned<Value>);

/// Parses a document.
///
/// # Errors
/// Its syntax is not valid, names are given twice, or an anonymous operation is not alone (5.2.1, 5.2.2, 5.5.1.1, 5.6.3).
pub(super) fn parse(text: &str) -> Result<Document, Fault> {
    let mut tokens = Tokens::new(text);
    let (token, at) = tokens.next()?;
    let mut parser = Parser { tokens, token, at, depth: 0 };
    let mut document = Document::default();
    while document.operations.is_empty() && document.fragments.is_empty() || parser.token != Token::End {
        parser.definition(&mut document)?;
    }
    if document.operations.is_empty() {
        return Err(Fault::new("the document has no operation"));
    }
    Ok(document)
}

struct Parser<'d> {
    tokens: Tokens<'d>,
    /// The next token, and its position.
    token: Token<'d>,
    at: Pos,
    /// The number of brackets that are open.
    depth: usize,
}

impl<'d> Parser<'d> {
    /// Returns the next token, with its position, and goes on to the one behind it.
    fn advance(&mut self) -> Result<(Token<'d>, Pos), Fault> {
        let (token, at) = self.tokens.next()?;
        Ok((std::mem::replace(&mut self.token, token), std::mem::replace(&mut self.at, at)))
    }

    fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        Err(Fault::at(self.at, format!("expected {what}")))
    }

    /// Takes this punctuator, if it comes next.
    fn take(&mut self, mark: char) -> Result<bool, Fault> {
        let is_next = self.token == Token::Punctuator(mark);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn punctuator(&mut self, mark: char) -> Result<(), Fault> {
        if self.take(mark)? { Ok(()) } else { self.expected(&format!("{mark:?}")) }
    }

    fn name(&mut self, what: &str) -> Result<Positioned<Name>, Fault> {
        let Token::Name(name) = self.token else { return self.expected(what) };
        let (_, at) = self.advance()?;
        Ok(Positioned::new(Name::new(name), at))
    }

    /// Takes this keyword, if it comes next.
    fn take_keyword(&mut self, keyword: &str) -> Result<bool, Fault> {
        let is_next = self.token == Token::Name(keyword);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    /// Parses what stands between two brackets, item by item.
    fn within<T>(
        &mut self,
        [open, close]: [char; 2],
        mut item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let at = self.at;
        self.punctuator(open)?;
        self.depth += 1;
        if self.depth > NESTED {
            return Err(Fault::at(at, format!("the document is too deep: at most {NESTED} nested brackets")));
        }
        let mut all = Vec::new();
        while !self.take(close)? {
            all.push(item(self)?);
        }
        self.depth -= 1;
        Ok(all)
    }

    /// Parses one or more items between two brackets.
    fn some_within<T>(
        &mut self,
        brackets: [char; 2],
        what: &str,
        item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let at = self.at;
        let all = self.within(brackets, item)?;
        if all.is_empty() { Err(Fault::at(at, format!("expected {what} between the brackets"))) } else { Ok(all) }
    }

    fn definition(&mut self, document: &mut Document) -> Result<(), Fault> {
        let at = self.at;
        if self.take_keyword("fragment")? {
            let name = self.fragment_name()?;
            let Some(type_condition) = self.type_condition()? else { return self.expected("\"on\"") };
            let (directives, selection_set) = (self.directives(false)?, self.selection_set()?);
            let fragment = Positioned::new(FragmentDefinition { type_condition, directives, selection_set }, at);
            return match document.fragments.insert(name.node.clone(), fragment) {
                None => Ok(()),
                Some(_) => Err(Fault::at(name.pos, format!("the fragment {} is defined twice", name.node))),
            };
        }
        let (name, operation) = self.operation()?;
        let others = &document.operations;
        if let Some(name) = name.as_ref().filter(|name| others.iter().any(|(other, _)| other.as_ref() == Some(*name))) {
            return Err(Fault::at(at, format!("the operation {name} is defined twice")));
        }
        if !others.is_empty() && (name.is_none() || others[0].0.is_none()) {
            return Err(Fault::at(at, "an operation without a name is the only one of its document"));
        }
        document.operations.push((name, Positioned::new(operation, at)));
        Ok(())
    }

    fn operation(&mut self) -> Result<(Option<Name>, OperationDefinition), Fault> {
        let ty = match self.token {
            Token::Punctuator('{') | Token::Name("query") => OperationType::Query,
            Token::Name("mutation") => OperationType::Mutation,
            Token::Name("subscription") => OperationType::Subscription,
            _ => return self.expected("an operation or a fragment"),
        };
        let (mut name, mut variable_definitions, mut directives) = (None, Vec::new(), Vec::new());
        if matches!(self.token, Token::Name(_)) {
            self.advance()?;
            if matches!(self.token, Token::Name(_)) {
                name = Some(self.name("a name")?.node);
            }
            if self.token == Token::Punctuator('(') {
                variable_definitions = self.some_within(['(', ')'], "a variable", Self::variable_definition)?;
            }
            directives = self.directives(false)?;
        }
        let selection_set = self.selection_set()?;
        Ok((name, OperationDefinition { ty, variable_definitions, directives, selection_set }))
    }

    fn variable_definition(&mut self) -> Result<Positioned<VariableDefinition>, Fault> {
        let at = self.at;
        self.punctuator('$')?;
        let name = self.name("the name of a variable")?;
        self.punctuator(':')?;
        let of_at = self.at;
        let var_type = Positioned::new(self.type_reference()?, of_at);
        let mut default_value = None;
        if self.take('=')? {
            let at = self.at;
            default_value = self.value(true)?.into_const().map(|value| Positioned::new(value, at));
        }
        let directives = self.directives(true)?;
        Ok(Positioned::new(VariableDefinition { name, var_type, directives, default_value }, at))
    }

    fn type_reference(&mut self) -> Result<Type, Fault> {
        let base = if self.token == Token::Punctuator('[') {
            let at = self.at;
            match <[Type; 1]>::try_from(self.within(['[', ']'], Self::type_reference)?) {
                Ok([element]) => BaseType::List(Box::new(element)),
                Err(_) => return Err(Fault::at(at, "expected one type between the brackets")),
            }
        } else {
            BaseType::Named(self.name("a type")?.node)
        };
        Ok(Type { base, nullable: !self.take('!')? })
    }

    fn selection_set(&mut self) -> Result<Positioned<SelectionSet>, Fault> {
        let at = self.at;
        let items = self.some_within(['{', '}'], "a selection", Self::selection)?;
        Ok(Positioned::new(SelectionSet { items }, at))
    }

    fn selection(&mut self) -> Result<Positioned<Selection>, Fault> {
        let at = self.at;
        let selection = match self.token {
            Token::Name(_) => Selection::Field(Positioned::new(self.field()?, at)),
            Token::Spread => {
                self.advance()?;
                if matches!(self.token, Token::Name(name) if name != "on") {
                    let (fragment_name, directives) = (self.fragment_name()?, self.directives(false)?);
                    Selection::FragmentSpread(Positioned::new(FragmentSpread { fragment_name, directives }, at))
                } else {
                    let (type_condition, directives) = (self.type_condition()?, self.directives(false)?);
                    let selection_set = self.selection_set()?;
                    let fragment = InlineFragment { type_condition, directives, selection_set };
                    Selection::InlineFragment(Positioned::new(fragment, at))
                }
            }
            _ => return self.expected("selection"),
        };
        Ok(Positioned::new(selection, at))
    }

    fn field(&mut self) -> Result<Field, Fault> {
        let first = self.name("a field")?;
        let (alias, name) = match self.take(':')? {
            true => (Some(first), self.name("a field")?),
            false => (None, first),
        };
        let (arguments, directives) = (self.arguments(false)?, self.directives(false)?);
        let has_selection = self.token == Token::Punctuator('{');
        let selection_set = if has_selection { self.selection_set()? } else { Positioned::default() };
        Ok(Field { alias, name, arguments, directives, selection_set })
    }

    fn fragment_name(&mut self) -> Result<Positioned<Name>, Fault> {
        if self.token == Token::Name("on") {
            return self.expected("the name of a fragment, which cannot be \"on\"");
        }
        self.name("the name of a fragment")
    }

    fn type_condition(&mut self) -> Result<Option<Positioned<TypeCondition>>, Fault> {
        let at = self.at;
        if !self.take_keyword("on")? {
            return Ok(None);
        }
        Ok(Some(Positioned::new(TypeCondition { on: self.name("a type")? }, at)))
    }

    fn directives(&mut self, is_constant: bool) -> Result<Vec<Positioned<Directive>>, Fault> {
        let mut all = Vec::new();
        loop {
            let at = self.at;
            if !self.take('@')? {
                return Ok(all);
            }
            let (name, arguments) = (self.name("a directive")?, self.arguments(is_constant)?);
            all.push(Positioned::new(Directive { name, arguments }, at));
        }
    }

    fn arguments(&mut self, is_constant: bool) -> Result<Vec<Member>, Fault> {
        if self.token != Token::Punctuator('(') {
            return Ok(Vec::new());
        }
        self.some_within(['(', ')'], "an argument", |parser| parser.member("an argument", is_constant))
    }

    fn member(&mut self, what: &str, is_constant: bool) -> Result<Member, Fault> {
        let name = self.name(what)?;
        self.punctuator(':')?;
        let at = self.at;
        Ok((name, Positioned::new(self.value(is_constant)?, at)))
    }

    fn value(&mut self, is_constant: bool) -> Result<Value, Fault> {
        match self.token {
            Token::Punctuator('[') => {
                return Ok(Value::List(self.within(['[', ']'], |parser| parser.value(is_constant))?));
            }
            Token::Punctuator('{') => {
                let mut fields = IndexMap::new();
                for (name, value) in self.within(['{', '}'], |parser| parser.member("a field", is_constant))? {
                    let (at, message) = (name.pos, format!("the field {} is given twice", name.node));
                    if fields.insert(name.node, value.node).is_some() {
                        return Err(Fault::at(at, message));
                    }
                }
                return Ok(Value::Object(fields));
            }
            Token::Punctuator('$') if is_constant => return self.expected("a constant"),
            Token::Punctuator('$') => {
                self.advance()?;
                return Ok(Value::Variable(self.name("the name of a variable")?.node));
            }
            Token::End | Token::Punctuator(_) | Token::Spread => return self.expected("a value"),
            _ => {}
        }
        let (token, at) = self.advance()?;
        let number = match token {
            Token::Int(digits) => integer(digits).or_else(|| double(digits)),
            Token::Float(digits) => double(digits),
            Token::Text(text) => return Ok(Value::String(text)),
            Token::Name("true") => return Ok(Value::Boolean(true)),
            Token::Name("false") => return Ok(Value::Boolean(false)),
            Token::Name("null") => return Ok(Value::Null),
            Token::Name(name) => return Ok(Value::Enum(Name::new(name))),
            Token::End | Token::Punctuator(_) | Token::Spread => None,
        };
        number.map(Value::Number).ok_or_else(|| Fault::at(at, "the number is beyond the range of doubles"))
    }
}

fn integer(digits: &str) -> Option<Number> {
    let signed = digits.parse::<i64>().map(Number::from);
    signed.or_else(|_| digits.parse::<u64>().map(Number::from)).ok()
}

fn double(digits: &str) -> Option<Number> {
    digits.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_follow_the_grammar() {
        for document in [
            "{a}",
            "query{a}",
            "query Q{a}",
            "query query{a}mutation mutation{a}subscription subscription{a}fragment fragment on on{a}",
            "query($a:[ String ! ] !=[\"x\"]@d(x:1)$b:T@d){a}",
            "query Q($a: Int = 1, $b: [[Int]], $c: T = {a: [1], b: E}) @d { a: b(c: $a d: [], e: {}) @d @d(x: $a) { c } }",
            "{...F ...on T{a} ...@d{a} ... {a} ...F@d on true null}fragment F on T@d{a}",
            "{... # a comment\non# another\nT{a}}",
            "{a(b: trueish, c: nullable, d: on, e: -0)}",
            "\u{feff}{a,,,b}#",
        ] {
            assert_eq!(parse(document).err(), None, "{document}");
        }
    }

    #[test]
    fn what_departs_from_the_grammar_is_refused() {
        for document in [
            "",
            "#",
            "{",
            "{}",
            "{a",
            "a",
            "query",
            "query Q",
            "query(){a}",
            "query($a){a}",
            "query($a:){a}",
            "query($a:Int!!){a}",
            "query($a:[Int){a}",
            "query($a:[Int Int]){a}",
            "query($a:[]){a}",
            "query($a:Int=$b){a}",
            "query($a:Int@d(x:$a)){a}",
            "query($a:Int@d=1){a}",
            "queryQ{a}",
            "{a(){b}}",
            "{a()}",
            "{a(b)}",
            "{a(b:)}",
            "{a(b:[1}}",
            "{a(b:{c})}",
            "{a(b:01)}",
            "{a(b:[\"\"\"a])}",
            "{a:}",
            "{:a}",
            "{a@}",
            "{a{}}",
            "{...}",
            "{...on}",
            "{...on{a}}",
            "{...F{a}}",
            "{a}fragment on on T{a}",
            "{a}fragment F{a}",
            "{a}fragmentF on T{a}",
            "{a}fragment F onT{a}",
            "fragment F on T{a}",
            "{a}{b}",
            "{a}query Q{a}",
            "query Q{a}{a}",
            "query Q{a}mutation Q{a}",
            "{...F}fragment F on T{a}fragment F on T{b}",
            "{a}type T{a:Int}",
            "{a}extend type T{a:Int}",
            "{a}}",
            "{a.b}",
            "{a b:c:d}",
            "{$a}",
            "{a(b:1e999)}",
            "{a(b:&)}",
            "{a|b}",
        ] {
            assert!(parse(document).is_err(), "{document}");
        }
    }

    #[test]
    fn a_field_of_an_input_object_is_given_once() {
        let twice =
            ["{a(b:{c:1 c:1})}", "{a(b:[{c:{d:1 e:2 d:3}}])}", "query($a:T={b:1 b:2}){a}", "{a@d(b:{c:1 c:2})}"];
        for document in twice.into_iter().chain(["query($a:T@d(x:{c:$a c:2})){a}", "{...@d(x:{c:1,c:1}){a}}"]) {
            assert!(parse(document).is_err(), "{document}");
        }
        assert_eq!(parse("{a(b:{c:1 d:{c:1}} e:{c:2})}").err(), None);
    }
}
