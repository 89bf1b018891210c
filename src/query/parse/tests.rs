//! The grammar: the meaning of every form, and what is rejected at which byte offset; `fuzz` has random texts.

mod fuzz;

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::encoding::Value;
use crate::query::tree::{Condition, Filter, Item, Order, Related, Selection, Test};
use crate::schema::Schema;

const LIMITS: Limits = Limits { query_bytes: 8 << 10, max_rows: 1000 };

fn schema() -> Schema {
    Schema::parse(
        "type P @table { id: ID! @primaryKey name: String @indexed stock: Int price: Float inStock: Boolean born: Date \
         tags: [String!] counts: [Int] details: Any key: ID brand: P @relationship(from: \"key\") }",
    )
    .unwrap()
}

/// Returns the tree of a filter as text, with groups in brackets and values as compared.
fn shown(query: &str) -> String {
    let schema = schema();
    let query =
        Query::parse(&schema, &schema.tables[0], query, &LIMITS).unwrap_or_else(|error| panic!("{query}: {error}"));
    match query.filter.nodes.is_empty() {
        true => String::new(),
        false => show_node(&schema.tables[0], &query.filter, 0),
    }
}

fn show_node(table: &Table, filter: &Filter<'_>, node: usize) -> String {
    let below = |join: &str| {
        let (mut parts, mut child) = (Vec::new(), node + 1);
        while child < filter.end_of(node) {
            parts.push(show_node(table, filter, child));
            child = filter.end_of(child);
        }
        format!("({})", parts.join(join))
    };
    match &filter.nodes[node] {
        Node::All(_) => below(" & "),
        Node::Any(_) => below(" | "),
        Node::Not => format!("!{}", show_node(table, filter, node + 1)),
        Node::Related(Related { relationship, below, .. }) => {
            // The only table is related to itself.
            let name = &table.relationships[*relationship].name;
            if *below == 0 { format!("{name}?") } else { format!("{name}.{}", show_node(table, filter, node + 1)) }
        }
        Node::Is(Condition { attribute, path, test, .. }) => {
            let path: String = path.iter().map(|name| format!(".{name}")).collect();
            format!("{}{path}{}", table.attributes[*attribute].name, show_test(test))
        }
    }
}

fn show_test(test: &Test<'_>) -> String {
    let list = |values: &[Value<'_>]| values.iter().map(show_value).collect::<Vec<_>>().join(",");
    match test {
        Test::Null => " null".to_owned(),
        Test::Equal(value) => format!("={}", show_value(value)),
        Test::OneOf(values) => format!(" in {{{}}}", list(values)),
        Test::Within(lower, upper) => format!(" in {}", show_interval(lower, upper)),
        Test::StartsWith(text) => format!(" {text:?}.."),
        Test::EndsWith(text) => format!(" ..{text:?}"),
        Test::Contains(text) => format!(" ..{text:?}.."),
        Test::Like(pattern) => format!(" {:?}..{:?}..{:?}", pattern.start, pattern.middle, pattern.end),
        Test::Matches(expression) => format!(" ~{}", expression.text),
        Test::Terms(terms) => format!(" with {}", terms.join("+")),
    }
}

fn show_interval(lower: &Bound<Value<'_>>, upper: &Bound<Value<'_>>) -> String {
    let lower = match lower {
        Bound::Included(value) => format!("[{}", show_value(value)),
        Bound::Excluded(value) => format!("({}", show_value(value)),
        Bound::Unbounded => String::new(),
    };
    match upper {
        Bound::Included(value) => format!("{lower}..{}]", show_value(value)),
        Bound::Excluded(value) => format!("{lower}..{})", show_value(value)),
        Bound::Unbounded => format!("{lower}.."),
    }
}

fn show_value(value: &Value<'_>) -> String {
    match value {
        Value::Int(integer) => integer.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Date(date) => format!("{}us", date.microseconds),
        other => panic!("no comparison is with {other:?}"),
    }
}

fn refusal(query: &str) -> (usize, String) {
    let schema = schema();
    match Query::parse(&schema, &schema.tables[0], query, &LIMITS) {
        Err(Error::Invalid { place: Place::Position(position), detail }) => (position, detail),
        other => panic!("{query}: {other:?}"),
    }
}

fn assert_shown(cases: &[(&str, &str)]) {
    let found: Vec<_> = cases.iter().map(|(query, _)| (*query, shown(query))).collect();
    let expected: Vec<_> = cases.iter().map(|(query, expected)| (*query, (*expected).to_owned())).collect();
    assert_eq!(found, expected);
}

/// Returns the cases whose error has another position than expected.
fn misplaced(cases: &[(&'static str, usize)]) -> Vec<(&'static str, usize, String)> {
    let found = cases.iter().map(|(query, expected)| (*query, *expected, refusal(query)));
    let wrong = found.filter(|(_, expected, (position, _))| position != expected);
    wrong.map(|(query, expected, (position, detail))| (query, expected, format!("{position}: {detail}"))).collect()
}

#[test]
fn every_operator_has_its_test() {
    assert_shown(&[
        ("", ""),
        ("stock==1", "stock=1"),
        ("stock=1", "stock=1"),
        ("stock=eq=1", "stock=1"),
        ("stock===1", "stock=1"),
        ("stock!=1", "!stock=1"),
        ("stock=ne=1", "!stock=1"),
        ("stock!==1", "!stock=1"),
        ("stock=gt=1", "stock in (1.."),
        ("stock>1", "stock in (1.."),
        ("stock=ge=1", "stock in [1.."),
        ("stock>=1", "stock in [1.."),
        ("stock=lt=1", "stock in ..1)"),
        ("stock<1", "stock in ..1)"),
        ("stock=le=1", "stock in ..1]"),
        ("stock<=1", "stock in ..1]"),
        ("stock=gele=1,2", "stock in [1..2]"),
        ("stock=gelt=1,2", "stock in [1..2)"),
        ("stock=gtle=1,2", "stock in (1..2]"),
        ("stock=gtlt=(1,2)", "stock in (1..2)"),
        ("stock=in=1,2", "stock in {1,2}"),
        ("stock=in=(1,2),stock==3", "(stock in {1,2} | stock=3)"),
        ("stock=in=[1]", "stock=1"),
        ("stock=out=1,2", "!stock in {1,2}"),
        ("name=ct=a", "name ..\"a\".."),
        ("name=sw=a", "name \"a\".."),
        ("tags=ew=a", "tags ..\"a\""),
        ("name=~=%5Ea.*", "name ~^a.*"),
        ("stock", "!stock null"),
        ("stock;name", "(!stock null & !name null)"),
    ]);
}

#[test]
fn values_become_what_the_attribute_holds() {
    assert_shown(&[
        ("stock==007", "stock=7"),
        ("stock==+7", "stock=7"),
        ("stock==7.0", "stock=7"),
        ("stock==70e-1", "stock=7"),
        ("stock==9007199254740993", "stock=9007199254740993"),
        ("stock==9007199254740993.0", "stock=9007199254740993"),
        ("stock==1.5", "stock in {}"),
        ("stock=in=1.5,2", "stock=2"),
        ("stock=gt=1.5", "stock in (1.."),
        ("stock=ge=1.5", "stock in (1.."),
        ("stock=lt=1.5", "stock in ..1]"),
        ("stock=gt=-1.5", "stock in (-2.."),
        ("stock=le=9007199254740992.5", "stock in ..9007199254740992]"),
        ("stock=gt=1e-400", "stock in (0.."),
        ("stock=gt=-1e-9999999999999999999", "stock in (-1.."),
        ("stock=ge=0e9999999999999999999", "stock in [0.."),
        ("stock=lt=9223372036854775807.5", "stock in ..9223372036854775807]"),
        ("stock=lt=9223372036854775808", "stock in ..9.223372036854776e18)"),
        ("stock=ge=-9223372036854775809", "stock in [-9.223372036854778e18.."),
        ("stock=lt=1e300", "stock in ..1e300)"),
        ("price==25", "price=25.0"),
        ("price==1.5", "price=1.5"),
        ("price==9007199254740993", "price=9007199254740993"),
        ("price==number:499.99", "price=499.99"),
        ("inStock==string:true", "inStock=true"),
        ("inStock==boolean:false", "inStock=false"),
        ("born==1970-01-02", "born=86400000000us"),
        ("born=lt=date:1970-01-01T01:00:00%2B01:00", "born in ..0us)"),
        ("name==number:007", "name=\"7\""),
        ("name==number:2.50", "name=\"2.5\""),
        ("name==string:number:7", "name=\"number:7\""),
        ("name==number%3A7", "name=\"number:7\""),
        ("name===number:7", "name=\"number:7\""),
        ("name==boolean:true", "name=\"true\""),
        ("name==date:1970-01-01", "name=\"1970-01-01\""),
        ("name==", "name=\"\""),
        ("name=&name!==", "(name=\"\" & !name=\"\")"),
        ("name=in=string:,a", "name in {\"\",\"a\"}"),
        ("counts==1", "counts=1"),
    ]);
}

#[test]
fn whole_numbers_that_no_double_is_are_compared_exactly() {
    assert_shown(&[
        ("price==18446744073709551616", "price=1.8446744073709552e19"),
        ("price==%2B018446744073709551616", "price=1.8446744073709552e19"),
        ("price==18446744073709551617", "price in {}"),
        ("price=gt=18446744073709551617", "price in (1.8446744073709552e19.."),
        ("price=ge=18446744073709551617", "price in (1.8446744073709552e19.."),
        ("price=le=18446744073709551617", "price in ..1.8446744073709552e19]"),
        ("price=ge=18446744073709551615", "price in (1.844674407370955e19.."),
        ("price=lt=18446744073709551615", "price in ..1.844674407370955e19]"),
        ("price=gt=-18446744073709551617", "price in (-1.8446744073709556e19.."),
        ("price=le=-18446744073709551615", "price in ..-1.8446744073709552e19]"),
        // As in a body: the nearest double.
        ("price==1e20", "price=1e20"),
        ("price==0.1", "price=0.1"),
    ]);
}

#[test]
fn values_of_a_list_ascend_and_are_each_there_once() {
    assert_shown(&[
        ("stock=in=3,1,2,3,1", "stock in {1,2,3}"),
        ("stock=in=3,3", "stock=3"),
        ("price=in=9007199254740993,9007199254740992,-1", "price in {-1.0,9007199254740992.0,9007199254740993}"),
        ("name=in=b,a%22,A", "name in {\"A\",\"a\\\"\",\"b\"}"),
    ]);
}

#[test]
fn clauses_are_known_by_their_places() {
    let schema = schema();
    let text = "name==a&limit(1,2);sort=-price&select=id";
    let query = Query::parse(&schema, &schema.tables[0], text, &LIMITS).unwrap();
    let clauses: Vec<_> = query.clauses.iter().map(|clause| (clause.name, clause.position)).collect();
    assert_eq!(clauses, [("limit", 8), ("sort", 19), ("select", 31)]);
}

#[test]
fn null_is_a_word_after_equality_alone() {
    assert_shown(&[
        ("stock==null", "stock null"),
        ("stock=eq=null", "stock null"),
        ("stock!=null", "!stock null"),
        ("stock=gt=1&ne=null", "(stock in (1.. & !stock null)"),
        ("tags==null", "tags null"),
        ("name==string:null", "name=\"null\""),
        ("name===null", "name=\"null\""),
        ("name=in=null,a", "name in {\"a\",\"null\"}"),
        ("name=gt=null", "name in (\"null\".."),
    ]);
    assert_eq!(refusal("stock===null").0, 8);
    assert_eq!(refusal("stock=in=null").0, 9);
    assert_eq!(refusal("stock==string:null").0, 7);
}

#[test]
fn stars_are_wildcards_after_equality_alone() {
    assert_shown(&[
        ("name==*", "name \"\".."),
        ("name==a*", "name \"a\".."),
        ("name==string:a*", "name \"a\".."),
        ("name==*a", "name ..\"a\""),
        ("name==*a*", "name ..\"a\".."),
        ("name==**a**", "name ..\"a\".."),
        ("name==a*b", "name \"a\"..[]..\"b\""),
        ("name!=a*b**c*d", "!name \"a\"..[\"b\", \"c\"]..\"d\""),
        ("name==%2Aa%26*", "name \"*a&\".."),
        ("tags==a*", "tags \"a\".."),
        ("name===a*", "name=\"a*\""),
        ("name=in=a*,b", "name in {\"a*\",\"b\"}"),
        ("name=sw=a*", "name \"a*\".."),
    ]);
    assert_eq!(refusal("stock==1*").0, 7);
    let accepts = |query: &str, text: &str| {
        let schema = schema();
        let query = Query::parse(&schema, &schema.tables[0], query, &LIMITS).unwrap();
        match &query.filter.nodes[0] {
            Node::Is(Condition { test: Test::Like(pattern), .. }) => pattern.accepts(text),
            other => panic!("{other:?}"),
        }
    };
    for (query, text, expected) in [
        ("name==a*b", "ab", true),
        ("name==a*b", "axxb", true),
        ("name==a*b", "a", false),
        ("name==ab*ba", "aba", false),
        ("name==ab*ba", "abba", true),
        ("name==*a*b*", "xaxbx", true),
        ("name==*a*b*", "ba", false),
        ("name==a*a*a", "aa", false),
        ("name==*ä*b", "ääb", true),
    ] {
        assert_eq!(accepts(query, text), expected, "{query} {text}");
    }
}

#[test]
fn logic_binds_as_it_is_written() {
    assert_shown(&[
        ("stock==1|stock==2;name==a", "(stock=1 | (stock=2 & name=\"a\"))"),
        ("stock==1&stock==2,name==a", "((stock=1 & stock=2) | name=\"a\")"),
        ("(stock==1|stock==2)&name==a", "((stock=1 | stock=2) & name=\"a\")"),
        ("[stock==1,stock==2];name==a", "((stock=1 | stock=2) & name=\"a\")"),
        ("(stock==1)", "stock=1"),
        ("!(stock==1)", "!stock=1"),
        ("!(stock!=1)", "stock=1"),
        ("!(!(stock))", "!stock null"),
        ("!(stock==1&stock==2)|stock", "(!(stock=1 & stock=2) | !stock null)"),
        ("stock=in=1,2;name==a", "(stock in {1,2} & name=\"a\")"),
        ("stock=in=1,2|name==a", "(stock in {1,2} | name=\"a\")"),
        ("stock=gt=1&lt=5&ne=3", "(stock in (1.. & stock in ..5) & !stock=3)"),
        ("stock=gt=1;in=2,3|name==a&sw=b", "((stock in (1.. & stock in {2,3}) | (name=\"a\" & name \"b\"..))"),
        ("stock=gt=1&limit=3&lt=5", "(stock in (1.. & stock in ..5))"),
        ("limit=3&stock==1|stock==2", "(stock=1 | stock=2)"),
        ("stock==1&limit=3&sort=name&name==a", "(stock=1 & name=\"a\")"),
    ]);
}

#[test]
fn encoded_and_raw_are_the_same_where_no_value_can_stand() {
    assert_shown(&[
        ("n%61me==a%26b%3Dc", "name=\"a&b=c\""),
        ("name==a+b", "name=\"a+b\""),
        ("name=%3Dx", "name=\"=x\""),
        ("name=gt%3Dx", "name=\"gt=x\""),
        ("name=gt", "name=\"gt\""),
        ("name%3Dx", "name=\"x\""),
        ("name%3D%3dx", "name=\"x\""),
        ("name%3D%3D%3D*", "name=\"*\""),
        ("name!%3Dx", "!name=\"x\""),
        ("name%21%3D%3Dx*", "!name=\"x*\""),
        ("stock%3E1", "stock in (1.."),
        ("stock%3E=1", "stock in [1.."),
        ("stock%3c%3D1", "stock in ..1]"),
        ("stock%3Dgt%3D1", "stock in (1.."),
        ("name%3D%7E%3Da", "name ~a"),
        ("%28stock==1)%7Cstock%26name", "(stock=1 | (!stock null & !name null))"),
        ("%21%28stock==1)", "!stock=1"),
    ]);
}

#[test]
fn clauses_are_taken_out_of_the_logic() {
    let schema = schema();
    let parse = |query| Query::parse(&schema, &schema.tables[0], query, &LIMITS).unwrap();
    let order = |attribute, descending| Order { attribute, descending };
    for query in [
        "select=name,id&sort=-price,+name&limit=5&offset=2&explain=true",
        "select(name,id);sort(-price,name);limit(2,5);explain=true",
        "select=name%2Cid&sort=%2Dprice%2Cname&limit=%35&offset=2&explain=true",
        "select%28name,id%29&sort%3D-price,name&limit(5)&offset=2&explain=true",
    ] {
        let query = parse(query);
        assert!(query.filter.nodes.is_empty());
        assert_eq!(query.select.unwrap().items, [Item::Attribute(1), Item::Attribute(0)]);
        assert_eq!(query.sort.as_slice(), [order(3, true), order(1, false)]);
        assert_eq!((query.limit, query.offset, query.explain), (Some(5), 2, true));
    }
    let empty = parse("");
    assert!(empty.select.is_none() && empty.sort.is_empty() && empty.limit == Some(1000) && !empty.explain);
    assert_eq!(parse("limit=0&offset=99999999999999999999").offset, usize::MAX);
    assert!(parse("pagination=true").pagination && !parse("pagination=false").pagination);
}

#[test]
fn selections_reach_into_related_records() {
    let schema = schema();
    fn shown(table: &Table, selection: &Selection) -> String {
        let items = selection.items.iter().map(|item| match item {
            Item::Attribute(_) => item.name(table).to_owned(),
            Item::Related(_, selection) => format!("{}{{{}}}", item.name(table), shown(table, selection)),
            other => panic!("nothing selects {other:?}"),
        });
        items.collect::<Vec<_>>().join(",")
    }
    let own = "id,name,stock,price,inStock,born,tags,counts,details,key";
    for (text, expected) in [
        ("select=details", "details".to_owned()),
        ("select=*", own.to_owned()),
        ("select=brand", format!("brand{{{own}}}")),
        ("select=name,brand{id,brand{name},stock},id", "name,brand{id,brand{name},stock},id".to_owned()),
        ("select(brand%7B*,brand{id}%7D,id)", format!("brand{{{own},brand{{id}}}},id")),
    ] {
        let query = Query::parse(&schema, &schema.tables[0], text, &LIMITS).unwrap();
        assert_eq!(shown(&schema.tables[0], &query.select.unwrap()), expected, "{text}");
    }
}

#[test]
fn paths_lead_through_relationships_and_into_any() {
    assert_shown(&[
        ("brand", "brand?"),
        ("brand.brand", "brand.brand?"),
        ("brand.name", "brand.!name null"),
        ("brand.name==X", "brand.name=\"X\""),
        ("brand.name!=X", "brand.!name=\"X\""),
        ("!(brand.name==X)", "!brand.name=\"X\""),
        ("brand.brand.stock=gt=5&lt=9", "(brand.brand.stock in (5.. & brand.brand.stock in ..9))"),
        ("details==1", "details=1"),
        ("details.size.w=ge=1.5", "details.size.w in [1.5.."),
        ("details.a==true|details.a==string:true", "(details.a=true | details.a=\"true\")"),
        ("details.a==number:7&details.b==string:7", "(details.a=7 & details.b=\"7\")"),
        ("details.d=lt=date:1970-01-02", "details.d in ..86400000000us)"),
        ("details.a==null&details.b===null", "(details.a null & details.b=\"null\")"),
        ("details.a==a*", "details.a=\"a*\""),
        ("details.a=in=x,1,true,1.0", "details.a in {true,1,\"x\"}"),
        ("details.a=ct=1", "details.a ..\"1\".."),
        ("brand.details.a%2Eb", "brand.!details.a.b null"),
        ("name=ft=Solid%20oak,key=ft=oak%20OAK", "(name with oak+solid | key with oak)"),
        ("tags=ft=ab", "tags with ab"),
    ]);
}

#[test]
fn a_wrong_condition_is_refused_at_its_byte() {
    let wrong = misplaced(&[
        ("nope==1", 0),
        ("price=gt=1&nope==1", 11),
        ("price=zz=1", 5),
        ("price%3Dzz%3D1", 5),
        ("price~1", 5),
        ("price!1", 5),
        ("price(1)", 5),
        ("price=gt=abc", 9),
        ("price==inf", 7),
        ("price==1e999", 7),
        ("price==", 7),
        ("price=gt=", 9),
        ("name=gt=", 8),
        ("name=ct=", 8),
        ("price=gt=&stock==1", 9),
        ("born==yesterday", 6),
        ("inStock==1", 9),
        ("inStock==number:1", 9),
        ("price==boolean:true", 7),
        ("price==date:1970-01-01", 7),
        ("name==number:x", 6),
        ("name==date:x", 6),
        ("name==boolean:x", 6),
        ("price=ct=1", 5),
        ("tags=in=()", 9),
        ("stock=in=", 9),
        ("stock=in=1,", 11),
        ("stock=in=(1,2", 9),
        ("stock=in=(", 9),
        ("stock=in=(1,", 9),
        ("stock=in=(1&stock==2", 9),
        ("stock=in=(1]", 11),
        ("stock=in=1,stock==2", 16),
        ("name=in=a,name==b", 14),
        ("stock=gele=1", 12),
        ("stock=gele=(1)", 13),
        ("stock=gele=1,2,3", 15),
    ]);
    assert_eq!(wrong, []);
}

#[test]
fn wrong_logic_is_refused_at_its_byte() {
    let wrong = misplaced(&[
        ("(price=gt=1", 0),
        ("[price=gt=1", 0),
        ("((price=gt=1)", 0),
        ("(price=gt=1]", 11),
        ("price=gt=1)", 10),
        ("()", 1),
        ("!price", 1),
        ("!", 1),
        ("&", 0),
        ("price&&stock", 6),
        ("price&", 6),
        ("price|", 6),
        ("(price|)", 7),
        ("==1", 0),
        ("(price)stock", 7),
        ("name==a=b", 7),
        ("name==a(b)", 7),
        ("lt=5", 0),
        ("(price=gt=1)&lt=5", 13),
        ("price=gt=1|lt=5", 11),
        ("price&lt=5", 6),
        ("price=gt=1&eq=5", 11),
        ("name==%FF", 6),
        ("name==100%", 6),
        ("name=~=a(%29%28", 8),
        ("name=~=%28", 7),
    ]);
    assert_eq!(wrong, []);
}

#[test]
fn a_wrong_clause_is_refused_at_its_byte() {
    let wrong = misplaced(&[
        ("sort=nope", 5),
        ("sort=-nope", 6),
        ("sort=tags", 5),
        ("sort=details", 5),
        ("sort=name,name", 10),
        ("sort=", 5),
        ("sort=name,", 10),
        ("sort(name", 4),
        ("select=", 7),
        ("select=name,name", 12),
        ("select=nope", 7),
        ("limit=abc", 6),
        ("limit=-1", 6),
        ("limit=", 6),
        ("limit=1001", 6),
        ("limit(1,1001)", 8),
        ("limit=99999999999999999999", 6),
        ("limit=1&limit=1", 8),
        ("limit(1,2)&offset=1", 11),
        ("offset=1&limit(1,2)", 9),
        ("offset(1)", 6),
        ("explain=yes", 8),
        ("(limit=1)", 1),
        ("name|limit=1", 5),
        ("limit=1|name", 0),
        ("limit=1,name", 0),
        ("name&limit=1|name", 5),
    ]);
    assert_eq!(wrong, []);
}

#[test]
fn a_wrong_path_is_refused_at_its_byte() {
    let wrong = misplaced(&[
        ("stock==1&brand.nope==X", 15),
        ("brand==X", 5),
        ("brand.brand=in=X", 11),
        ("name.a==1", 0),
        ("brand.stock.a==1", 6),
        ("nope.name", 0),
        ("brand.", 6),
        ("details.a==number:x", 11),
        ("details.a==boolean:x", 11),
        ("details.a==date:x", 11),
        ("details.a==", 11),
        ("name=ft=a", 8),
        ("name=ft=-+!", 8),
        ("name=ft=", 8),
        ("stock=ft=ab", 5),
        ("select=name,brand{nope}", 18),
        ("select=brand{name", 12),
        ("select=brand{}", 13),
        ("select=brand{name,name}", 18),
        ("select=brand{name},brand", 19),
        ("select=*,name", 9),
        ("select=details.a", 7),
        ("sort=brand.name", 5),
        ("sort=brand", 5),
        ("pagination=1", 11),
        ("after=x", 6),
        ("after=", 6),
        ("stream=sse", 0),
    ]);
    assert_eq!(wrong, []);
}

#[test]
fn limits_are_named_where_the_surplus_begins() {
    let schema = schema();
    let table = &schema.tables[0];
    let nested = |depth: usize| format!("{}stock{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Query::parse(&schema, table, &nested(DEPTH), &LIMITS).is_ok());
    let (position, detail) = refusal(&nested(DEPTH + 1));
    assert_eq!((position, &detail[..5]), (DEPTH, "depth"));
    let many = |count| vec!["stock"; count].join("&");
    assert!(Query::parse(&schema, table, &many(CONDITIONS), &LIMITS).is_ok());
    let (position, detail) = refusal(&many(CONDITIONS + 1));
    assert_eq!((position, &detail[..10]), (6 * CONDITIONS, "conditions"));
    // Each word of a full-text search counts, once.
    let words = |count: usize| (0..count).map(|word| format!("w{word:03}")).collect::<Vec<_>>().join("%20");
    assert!(Query::parse(&schema, table, &format!("name=ft={}", words(CONDITIONS)), &LIMITS).is_ok());
    assert!(Query::parse(&schema, table, &format!("stock&name=ft={0}%20{0}", words(CONDITIONS - 1)), &LIMITS).is_ok());
    for (begin, count) in [("name=ft=", CONDITIONS), ("stock&name=ft=string:", CONDITIONS - 1)] {
        let (position, detail) = refusal(&format!("{begin}{}", words(count + 1)));
        assert_eq!((position, &detail[..10]), (begin.len() + 7 * count, "conditions"), "{begin}");
    }
    assert_eq!(refusal(&format!("name=ft={}&stock", words(CONDITIONS))).0, 6 + 7 * CONDITIONS);
    let expressions = |count| vec!["name=~=a"; count].join("|");
    assert!(Query::parse(&schema, table, &expressions(EXPRESSIONS), &LIMITS).is_ok());
    let (position, detail) = refusal(&expressions(EXPRESSIONS + 1));
    assert_eq!((position, &detail[..7]), (9 * EXPRESSIONS + 7, "regular"));
    let (begin, in_body) = ("id=in=1&stock=in=(0", Limits::in_body(1));
    let values = |count| format!("{begin}{})", ",1".repeat(count - 2));
    assert!(Query::parse(&schema, table, &values(VALUES), &in_body).is_ok());
    match Query::parse(&schema, table, &values(VALUES + 1), &in_body) {
        Err(Error::Invalid { detail, place: Place::Position(position) }) => {
            assert_eq!((position, &detail[..6]), (begin.len() + 2 * VALUES - 3, "values"));
        }
        other => panic!("{other:?}"),
    }
    let (position, detail) = refusal(&"!".repeat(LIMITS.query_bytes + 1));
    assert_eq!((position, &detail[..12]), (0, "query length"));
    assert!(refusal("limit=1001").1.contains("--max-rows"));
    assert_eq!((Limits::in_url(1).query_bytes, Limits::in_body(1).query_bytes), (8192, 262_144));
}

#[test]
fn a_condition_knows_its_own_text() {
    let schema = schema();
    let query =
        Query::parse(&schema, &schema.tables[0], "(stock=in=(1,2))|price=gt=5&lt=7&limit=3&name", &LIMITS).unwrap();
    let texts = query.filter.nodes.iter().filter_map(|node| match node {
        Node::Is(condition) => Some(&query.text[condition.text.start as usize..condition.text.end as usize]),
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["stock=in=(1,2)", "price=gt=5", "lt=7", "name"]);
}

#[test]
fn a_path_is_as_deep_as_a_value_can_be() {
    let schema = schema();
    let text = format!("details{}=gt=1{}", ".a".repeat(1000), "&lt=5".repeat(CONDITIONS - 1));
    let query = Query::parse(&schema, &schema.tables[0], &text, &LIMITS).unwrap();
    let names = query.filter.nodes.iter().map(|node| match node {
        Node::Is(condition) => condition.path.len(),
        _ => 0,
    });
    assert_eq!(names.sum::<usize>(), 129 * CONDITIONS, "what leads nowhere is not kept for each condition");
}

proptest! {
    #![proptest_config(fuzz::cases())]

    /// The integers on both sides of a decimal number, computed from its digits.
    #[test]
    fn an_int_is_compared_with_a_decimal_exactly(whole in any::<i64>(), tenths in 0u8..10) {
        let text = format!("{whole}.{tenths}");
        let expected = match (tenths, whole < 0) {
            (0, _) => format!("stock in [{whole}.."),
            (_, false) => format!("stock in ({whole}.."),
            // The greatest integer below -3.5 is -4.
            (_, true) if whole > i64::MIN => format!("stock in ({}..", whole - 1),
            (_, true) => format!("stock in [{:?}..", -9_223_372_036_854_777_856.0),
        };
        prop_assert_eq!(shown(&format!("stock=ge={text}")), expected);
    }
}
