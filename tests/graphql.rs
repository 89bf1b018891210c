//! GraphQL against async-graphql's own executor, which resolves field by field over the same data in memory: random documents with
//! names of their own, fragments, directives and variables. And the limits, and how documents that are not valid are refused.

use std::sync::Arc;

use async_graphql::dynamic::{Field, FieldFuture, FieldValue, InputValue, Object, Schema as Types, TypeRef};
use async_graphql::{Value, Variables};
use futures_util::FutureExt;
use serde_json::{Value as Json, json};
use strata::graphql::{Graphql, Request, Transport};
use strata::transaction::{Clock, Database};

use super::engine::{Random, fresh};

const SDL: &str = "type Author @table @export { id: ID! @primaryKey name: String books: [Book] @relationship(to: \"authorId\") } \
                   type Book @table @export { id: ID! @primaryKey title: String! pages: Int rating: Float tags: [String] details: Any \
                   authorId: ID @indexed author: Author @relationship(from: \"authorId\") }";

const TRANSPORT: Transport = Transport { safe: false, strict: false };

/// A few authors with some books each, and books without one.
fn records() -> (Vec<Json>, Vec<Json>) {
    let authors = (0..4)
        .map(|number| json!({ "id": format!("a{number}"), "name": (number > 0).then(|| format!("n\"{number}")) }));
    let books = (0..12).map(|number| {
        json!({ "id": format!("b{number:02}"), "title": format!("t{number}"), "pages": (number % 3 > 0).then_some(number * 100),
            "rating": f64::from(number) + 0.5, "tags": (number % 2 == 0).then(|| vec![format!("g{number}"), "é".to_owned()]),
            "authorId": (number % 5 > 0).then(|| format!("a{}", number % 5)) })
    });
    (authors.collect(), books.collect())
}

fn database() -> (tempfile::TempDir, Database) {
    let (directory, database) = fresh(SDL);
    let (authors, books) = records();
    for (table, records) in [("Author", authors), ("Book", books)] {
        let table = database.table(table).expect("it exists");
        database.create_all(table, &serde_json::to_vec(&records).expect("JSON")).expect("records that do not collide");
    }
    (directory, database)
}

/// The same data, resolved by the library.
fn oracle() -> Types {
    type Data = Arc<(Vec<Json>, Vec<Json>)>;
    let data: Data = Arc::new(records());
    let attribute = |name: &'static str, of: TypeRef| {
        Field::new(name, of, move |context| {
            let record = context.parent_value.downcast_ref::<Json>().expect("a record").clone();
            let value = Value::from_json(record[name].clone()).expect("JSON");
            FieldFuture::from_value((value != Value::Null).then_some(value))
        })
    };
    fn list<'a>(records: Vec<Json>) -> FieldFuture<'a> {
        FieldFuture::new(async move { Ok(Some(FieldValue::list(records.into_iter().map(FieldValue::owned_any)))) })
    }
    fn maybe<'a>(record: Option<Json>) -> FieldFuture<'a> {
        FieldFuture::new(async move { Ok(record.map(FieldValue::owned_any)) })
    }
    let (by_author, by_book, all) = (Arc::clone(&data), Arc::clone(&data), Arc::clone(&data));
    let author = Object::new("Author")
        .field(attribute("id", TypeRef::named_nn(TypeRef::ID)))
        .field(attribute("name", TypeRef::named(TypeRef::STRING)))
        .field(Field::new("books", TypeRef::named_nn_list_nn("Book"), move |context| {
            let author = context.parent_value.downcast_ref::<Json>().expect("a record");
            list(by_author.1.iter().filter(|book| book["authorId"] == author["id"]).cloned().collect())
        }));
    let book = Object::new("Book")
        .field(attribute("id", TypeRef::named_nn(TypeRef::ID)))
        .field(attribute("title", TypeRef::named_nn(TypeRef::STRING)))
        .field(attribute("pages", TypeRef::named(TypeRef::INT)))
        .field(attribute("rating", TypeRef::named(TypeRef::FLOAT)))
        .field(attribute("tags", TypeRef::named_list(TypeRef::STRING)))
        .field(attribute("authorId", TypeRef::named(TypeRef::ID)))
        .field(Field::new("author", TypeRef::named("Author"), move |context| {
            let book = context.parent_value.downcast_ref::<Json>().expect("a record");
            maybe(by_book.0.iter().find(|author| author["id"] == book["authorId"]).cloned())
        }));
    let query = Object::new("Query")
        .field(Field::new("BookList", TypeRef::named_nn_list("Book"), move |_| list(all.1.clone())))
        .field(
            Field::new("Author", TypeRef::named("Author"), move |context| {
                let id = context.args.try_get("id").and_then(|id| id.string().map(str::to_owned));
                let found = id.map(|id| data.0.iter().find(|author| author["id"] == id.as_str()).cloned());
                FieldFuture::new(async move { Ok(found?.map(FieldValue::owned_any)) })
            })
            .argument(InputValue::new("id", TypeRef::named_nn(TypeRef::ID))),
        );
    Types::build("Query", None, None).register(query).register(author).register(book).finish().expect("a schema")
}

/// What may stand at a field: nothing, or a directive that depends on a variable or not.
fn directive(random: &mut Random) -> &'static str {
    ["", "", "", "", " @include(if: $yes)", " @skip(if: $yes)", " @include(if: $no)", " @skip(if: false)"]
        [random.below(8)]
}

/// The fields of an author or of a book, to some depth.
fn fields(random: &mut Random, of: &str, depth: usize) -> String {
    let scalars: &[&str] = match of {
        "Author" => &["id", "name", "__typename"],
        _ => &["id", "title", "pages", "rating", "tags", "authorId", "__typename"],
    };
    let mut text = String::new();
    for _ in 0..1 + random.below(4) {
        let (name, decided) = (["", "", "", "x: ", "y: "][random.below(5)], directive(random));
        text += &match random.below(if depth == 0 { 6 } else { 10 }) {
            0 => format!("... on {of}{decided} {{ {} }} ", scalars[random.below(scalars.len())]),
            1 if depth > 0 => format!("...{of}Parts{decided} "),
            1..=5 => format!("{name}{}{decided} ", scalars[random.below(scalars.len())]),
            _ => {
                let (field, other) = if of == "Author" { ("books", "Book") } else { ("author", "Author") };
                format!("{name}{field}{decided} {{ {} }} ", fields(random, other, depth - 1))
            }
        };
    }
    // There is one that no directive takes away.
    text + "id"
}

fn document(random: &mut Random) -> String {
    let mut roots = String::new();
    for _ in 0..1 + random.below(3) {
        let name = ["", "", "p: ", "q: "][random.below(4)];
        roots += &match random.below(3) {
            0 => format!("{name}__typename "),
            1 => format!("{name}BookList{} {{ {} }} ", directive(random), fields(random, "Book", 3)),
            _ => {
                let id = ["$id", "\"a2\"", "\"nobody\""][random.below(3)];
                format!("{name}Author(id: {id}) {{ {} }} ", fields(random, "Author", 3))
            }
        };
    }
    // Whatever else is asked, every variable and every fragment is used.
    // The library does not see those at `__typename`.
    let used = "u: Author(id: $id) @skip(if: true) { id @include(if: $yes) name @include(if: $no) ...AuthorParts b: books { ...BookParts } }";
    format!(
        "query ($yes: Boolean!, $no: Boolean = false, $id: ID = \"a1\") {{ {roots} {used} always: __typename }} \
         fragment AuthorParts on Author {{ {} }} fragment BookParts on Book {{ {} }}",
        fields(random, "Author", 0),
        fields(random, "Book", 0)
    )
}

/// The response to a document.
fn ask(graphql: &Graphql, database: &Database, query: &str, variables: Json) -> Json {
    let variables = serde_json::from_value(variables).expect("an object");
    let request = Request { query: query.to_owned(), operation_name: None, variables };
    let response = graphql.respond(database, &request, TRANSPORT).expect("it is answered");
    serde_json::from_slice(response.body()).expect("JSON")
}

#[test]
fn responses_are_those_of_the_librarys_executor() {
    let ((_directory, database), oracle) = (database(), oracle());
    let (graphql, mut random, mut valid) = (Graphql::new(&database, 1000), Random(5), 0);
    for _ in 0..1500 {
        let document = document(&mut random);
        let mut variables = json!({ "yes": random.below(2) == 0 });
        if random.below(2) == 0 {
            variables["id"] = ["a0", "a3", "nobody"][random.below(3)].into();
        }
        let asked = async_graphql::Request::new(&document).variables(Variables::from_json(variables.clone()));
        let response = oracle.execute(asked).now_or_never().expect("no resolver waits");
        let found = ask(&graphql, &database, &document, variables.clone());
        // The library lets some of these through, and merges what is not one field.
        if found["errors"][0]["message"].as_str().is_some_and(|message| message.contains("use aliases")) {
            assert!(found.get("data").is_none(), "{document}");
            continue;
        }
        if !response.errors.is_empty() {
            assert!(
                found.get("errors").is_some() && found.get("data").is_none(),
                "{document}: {:?}, {found}",
                response.errors
            );
            continue;
        }
        valid += 1;
        let expected = serde_json::to_value(&response.data).expect("JSON");
        assert_eq!(found["data"], expected, "{document} {variables}");
        let order = |json: &Json| json.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(order(&found["data"]), order(&expected), "{document}");
    }
    assert!(valid > 300, "{valid} documents were valid");
}

#[test]
fn fields_of_one_name_are_one_field() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    let faults = |document: &str| ask(&graphql, &database, document, json!({}))["errors"].clone();
    for document in [
        "{ Author(id: \"a1\") { x: name ... on Author { x: id } } }",
        "{ Author(id: \"a1\") { x: name ...F } } fragment F on Author { x: books { id } }",
        "{ Book(id: \"b1\") { author { x: name } author { ... on Author { x: books { id } } } } }",
        "{ Author(id: \"a1\") { id } ... on Query { Author(id: \"a2\") { id } } }",
        "{ x: Author(id: \"a1\") { id } ... on Query { x: Book(id: \"b1\") { id } } }",
        "{ x: Author(id: \"a1\") { y: id } ... on Query { x: Author(id: \"a1\") { y: name } } }",
    ] {
        let faults = faults(document);
        let message = faults[0]["message"].as_str().unwrap_or_default();
        assert!(message.contains("aliases") || message.contains("onflict"), "{document}: {faults}");
    }
    for document in [
        "{ Author(id: \"a1\") { x: name ... on Author { x: name } } }",
        "{ BookList(limit: 1, sort: \"id\") { id } ... on Query { BookList(sort: \"id\", limit: 1) { title } } }",
    ] {
        assert_eq!(faults(document), Json::Null, "{document}");
    }
}

#[test]
fn a_single_value_for_a_list_is_a_list_of_one() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    let document = "mutation ($tag: [String], $book: BookPatch!) {
        a: createBook(data: { id: \"x\", title: \"t\", tags: \"one\" }) { tags }
        b: updateBook(id: \"x\", data: { tags: $tag }) { tags }
        c: updateBook(id: \"x\", data: $book) { tags }
        d: updateBook(id: \"x\", data: { tags: null }) { tags }
    }";
    let found = ask(&graphql, &database, document, json!({ "tag": "two", "book": { "tags": ["three", "four"] } }));
    let expected = json!({ "a": { "tags": ["one"] }, "b": { "tags": ["two"] }, "c": { "tags": ["three", "four"] }, "d": { "tags": null } });
    assert_eq!(found["data"], expected, "{found}");
}

/// Variables, and fields of a new `Book` with which they are valid, and with which not.
const FIELDS: &[(&str, &str, &str)] = &[
    // 5.8.5: names, nullability, lists, default values, and the places where they stand.
    ("$x: String!", "title: $x", "title: \"t\" authorId: $x"),
    ("$x: ID!", "title: \"t\" authorId: $x", "title: $x"),
    ("$x: String", "title: \"t\" tags: [$x]", "title: $x"),
    ("$x: String = \"d\"", "title: $x", "title: \"t\" tags: $x"),
    ("$x: String = null", "title: \"t\" tags: [$x]", "title: $x"),
    ("$x: [String!]!", "title: \"t\" tags: $x", "title: \"t\" tags: [$x]"),
    ("$x: JSON", "title: \"t\" details: $x", "title: \"t\" tags: $x"),
    ("$x: Int", "title: \"t\" details: {a: $x}", "title: \"t\" details: $x"),
    ("$x: Int", "title: \"t\" details: [$x]", "title: \"t\" pages: $x"),
    ("$x: Int", "title: \"t\" details: [{a: [$x]}]", "title: \"t\" rating: $x"),
    ("$x: Int64", "title: \"t\" pages: $x", "title: \"t\" rating: $x"),
    ("$x: Float", "title: \"t\" rating: $x", "title: \"t\" pages: $x"),
    ("$x: [BookInput!]", "title: \"t\" details: {a: $x}", "title: \"t\" tags: $x"),
    // 5.6: values with a variable in them, at any depth.
    ("$x: String!", "title: $x pages: 1", "title: $x pages: 1.0"),
    ("$x: String!", "title: $x pages: \"-7\"", "title: $x pages: \"7.0\""),
    ("$x: String!", "title: $x rating: 1", "title: $x rating: \"1\""),
    ("$x: String!", "title: $x tags: \"a\"", "title: $x tags: [\"a\" 1]"),
    ("$x: String!", "title: $x details: {a: 1 b: {a: E}}", "title: $x details: {a: {b: 1 b: $x}}"),
    ("$x: String!", "title: $x authorId: 1", "title: $x authorId: 1.5"),
    ("$x: String!", "title: $x authorId: null", "title: $x author: null"),
    ("$x: [String]", "title: \"t\" tags: $x", "tags: $x"),
    // The variables themselves, and their default values.
    ("$x: [String] = \"one\"", "title: \"t\" tags: $x", "title: \"t\" tags: []"),
    ("$x: BookPatch = {tags: \"a\"}", "title: \"t\" details: {a: $x}", "title: \"t\" details: {a: $y}"),
];

/// Documents, and neighbours of theirs that are not valid.
const DOCUMENTS: &[(&str, &str)] = &[
    ("query ($x: Boolean!) { __typename @skip(if: $x) }", "query ($x: Boolean) { __typename @skip(if: $x) }"),
    (
        "query ($x: Boolean = true) { ... @include(if: $x) { __typename } }",
        "query ($x: Int = 1) { ... @include(if: $x) { __typename } }",
    ),
    (
        "query ($x: ID!) { ...F } fragment F on Query { Author(id: $x) { id } }",
        "query ($x: ID) { ...F } fragment F on Query { Author(id: $x) { id } }",
    ),
    (
        "query a($x: ID!) { ...F } query b($x: ID = 1) { ...F } fragment F on Query { Author(id: $x) { id } }",
        "query a($x: ID!) { ...F } query b { ...F } fragment F on Query { Author(id: $x) { id } }",
    ),
    ("query ($x: Int = 1) { BookList(limit: $x) { id } }", "query ($x: Int = 1.0) { BookList(limit: $x) { id } }"),
    ("query ($x: Int = null) { BookList(limit: $x) { id } }", "query ($x: Int! = null) { BookList(limit: $x) { id } }"),
    (
        "query ($x: Int) { BookList(limit: $x) { id } }",
        "query ($x: Int) @skip(if: true) { BookList(limit: $x) { id } }",
    ),
    (
        "query ($x: Int) { BookList(limit: $x) { id } }",
        "query ($x: Int @include(if: true)) { BookList(limit: $x) { id } }",
    ),
    ("query ($x: Int) { BookList(limit: $x) { id } }", "query ($x: Int, $x: Int) { BookList(limit: $x) { id } }"),
    ("query ($x: Int) { BookList(limit: $x) { id } }", "query ($x: Int, $y: Int) { BookList(limit: $x) { id } }"),
    ("{ BookList(limit: 1) { id } }", "query ($x: Book) { BookList(limit: 1) { id @skip(if: $x) } }"),
    ("query ($x: String!) { __type(name: $x) { name } }", "query ($x: ID!) { __type(name: $x) { name } }"),
    ("{ __type(name: \"Book\") { name } }", "{ __type { name } }"),
    ("{ __schema { types { __typename name } } }", "{ __schema { types { __typename(a: 1) name } } }"),
    ("{ __schema { types { name } } }", "{ __schema { types } }"),
    (
        "{ __schema { types { name } ...F } } fragment F on __Schema { types { kind } }",
        "{ __schema { types { x: name } ...F } } fragment F on __Schema { types { x: kind } }",
    ),
    ("mutation { __typename }", "mutation { __schema { description } }"),
    ("{ Book(id: 1) { __typename } }", "{ Book(id: 1) { __typename { id } } }"),
    ("{ Book(id: 1) { x: __typename } }", "{ Book(id: 1) { x: __typename x: title } }"),
    ("{ Book(id: 1) { ...F } } fragment F on Book { id }", "{ Book(id: 1) { ...F } } fragment F on Author { id }"),
    ("{ Book(id: 1) { ...F } } fragment F on Book { id }", "{ Book(id: 1) { ...F } } fragment F on BookInput { id }"),
    ("{ Book(id: 1) { ...F } } fragment F on Book { id }", "{ Book(id: 1) { id } } fragment F on Book { id }"),
    (
        "{ Book(id: 1) { ...F } } fragment F on Book { id }",
        "{ Book(id: 1) { ...F } } fragment F on Book { ...G } fragment G on Book { ...F }",
    ),
    (
        "{ Book(id: 1) { ...F } } fragment F on Book { id }",
        "{ Book(id: 1) { ...F } } fragment F on Book @skip(if: true) { id }",
    ),
    ("{ Book(id: 1) { ... on Book { id } } }", "{ Book(id: 1) { ... on Author { id } } }"),
    (
        "{ Book(id: 1) { id @skip(if: false) @include(if: true) } }",
        "{ Book(id: 1) { id @skip(if: false) @skip(if: true) } }",
    ),
    ("{ Book(id: 1) { id @skip(if: false) } }", "{ Book(id: 1) { id @skip(if: false, if: false) } }"),
    ("{ Book(id: 1) { id } }", "{ Book(id: 1) { id @deprecated } }"),
    ("{ Book(id: 1) { id } }", "{ Book(id: 1, id: 1) { id } }"),
    ("{ Book(id: \"\") { id } }", "{ Book(id: true) { id } }"),
];

#[test]
fn a_rule_holds_at_every_place() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    let is_valid = |document: &str| {
        let request = Request { query: document.to_owned(), operation_name: Some("nobody".into()), variables: None };
        let response = graphql.respond(&database, &request, TRANSPORT).expect("it is answered");
        let response: Json = serde_json::from_slice(response.body()).expect("JSON");
        response["errors"][0]["message"].as_str().is_some_and(|message| message.contains("no operation"))
    };
    for (variables, valid, refused) in FIELDS {
        let create = |data: &str| format!("mutation ({variables}) {{ createBook(data: {{{data}}}) {{ id }} }}");
        assert!(is_valid(&create(valid)), "{variables}: {valid}");
        assert!(!is_valid(&create(refused)), "{variables}: {refused}");
    }
    for (valid, refused) in DOCUMENTS {
        assert!(is_valid(valid), "{valid}");
        assert!(!is_valid(refused), "{refused}");
    }
}

/// Fields of introspection are answered in their places, and like those of tables.
#[test]
fn introspection_has_variables_fragments_and_conditions() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    let document = "query ($name: String = \"Author\", $no: Boolean = false, $yes: Boolean!) {
        first: __typename Author(id: \"a1\") { id } ...F @include(if: $yes) ...F @skip(if: $yes)
        type: __type(name: $name) { kind ...G } none: __type(name: \"Nobody\") { name } __type(name: $name) @skip(if: $yes) { name }
        empty: __type(name: $name) { name @include(if: $no) } last: __typename
    } fragment F on Query { type: __type(name: $name) { name } }
      fragment G on __Type { name fields { name @include(if: $no) } is: __typename }";
    let found = ask(&graphql, &database, document, json!({ "name": "Book", "yes": true }));
    let expected = json!({ "first": "Query", "Author": { "id": "a1" },
        "type": { "name": "Book", "kind": "OBJECT", "fields": vec![json!({}); 8], "is": "__Type" },
        "none": null, "empty": {}, "last": "Query" });
    assert_eq!(found["data"], expected, "{found}");
    let found = ask(&graphql, &database, document, json!({ "yes": false }));
    assert_eq!(found["data"]["__type"], json!({ "name": "Author" }), "{found}");
    let found = ask(&graphql, &database, document, json!({ "yes": false, "name": null }));
    assert_eq!((&found["data"]["__type"], &found["errors"][0]["path"]), (&Json::Null, &json!(["type"])), "{found}");
}

/// Each fragment has few brackets; they nest as deep as all of them together.
#[test]
fn fragments_within_one_another_have_a_greatest_depth() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    for (fragments, last) in [(60, "id"), (60, "...f0"), (170, "id")] {
        let depth = 21_000 / fragments / 3;
        let (open, close) = ("{...".repeat(depth), "}".repeat(depth));
        let chain = (0..fragments).map(|level| format!("fragment f{level} on Book{open}f{}{close}", level + 1));
        let chain = chain.collect::<String>();
        let document = format!("{{BookList{{...f0}}}}{chain}fragment f{fragments} on Book{{{last}}}");
        let response = ask(&graphql, &database, &document, json!({}));
        let refused = response["errors"][0]["message"].as_str().unwrap();
        assert!(refused.contains("nested"), "the stack suffices: {fragments} fragments of {depth} levels");
    }
}

#[test]
fn what_a_document_may_cost_has_limits() {
    let (_directory, database) = database();
    let graphql = Graphql::new(&database, 1000);
    let fault = |document: &str| {
        let response = ask(&graphql, &database, document, json!({}));
        response["errors"][0]["message"].as_str().map(str::to_owned)
    };
    let nested = |depth: usize| {
        let inner = (0..depth).map(|level| if level % 2 == 0 { "author {" } else { "books {" }).collect::<String>();
        format!("{{ BookList {{ {inner} id {} }} }}", "}".repeat(depth))
    };
    assert_eq!(fault(&nested(6)), None);
    let told = |document: &str| fault(document).expect("it is refused");
    assert!(told(&nested(30)).contains("deep"), "{}", told(&nested(30)));
    for level in ["{", "{a", "{a#}\n", "{a(x:\")}\")", "{...on Book", "{a(x:[", "{a(x:{a:", "[", "{a:"] {
        for count in [130, 1500, 2500, 5000, 65_000] {
            let levels = level.repeat(count.min(65_000 / level.len()));
            assert!(fault(&levels).is_some(), "the stack suffices: {level}");
            assert!(fault(&format!("{{ BookList(filter: {levels}")).is_some(), "the stack suffices: {level}");
        }
    }
    for depth in [60, 127, 128, 1500, 2500, 5000, 20_000] {
        let list = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for document in [
            format!("{{ Author(id: \"a1\") {{ id name(x: {list}) }} }}"),
            format!("query($x: JSON = {list}) {{ Author(id: \"a1\") {{ id }} }}"),
            format!("mutation {{ createBook(data: {{ id: \"new\", title: {list} }}) {{ id }} }}"),
        ] {
            assert!(fault(&document).is_some(), "{depth} lists in one another");
        }
    }
    let brackets = format!(
        "{{ Author(id: \"\\\"{0}\") {{ id }} B: Author(id: \"\"\"\\\"\"\"{0}\"{0}\"\"\") {{ id }} }}",
        "[".repeat(500)
    );
    assert_eq!(fault(&brackets), None, "those in strings are text");
    let values = format!("{{ Book(id: [{}]) {{ id }} }}", "E ".repeat(30_000));
    assert!(
        ask(&graphql, &database, &values, json!({}))["errors"].as_array().is_some_and(|faults| faults.len() <= 100)
    );
    let many = format!("{{ {} }}", (0..900).map(|number| format!("n{number} ")).collect::<String>());
    assert_eq!(ask(&graphql, &database, &many, json!({}))["errors"].as_array().map(Vec::len), Some(100));
    let chain = (0..2000).map(|level| format!("fragment f{level} on Book{{...f{}}}", level + 1)).collect::<String>();
    assert!(fault(&format!("{{BookList{{...f0}}}} {chain} fragment f2000 on Book{{id}}")).is_some());
    assert_eq!(
        fault(&format!(
            "{{ BookList(filter: \"{}id==1{}\") {{ id }} }} # {}",
            "(".repeat(40),
            ")".repeat(40),
            "{".repeat(99)
        )),
        None
    );
    assert!(told(&format!("{{ BookList {{ {} }} }}", "id ".repeat(30_000))).contains("bytes"));
    let names =
        |count: usize| (0..count).map(|number| format!("n{number}: Author(id: 1) {{ id }} ")).collect::<String>();
    assert_eq!(fault(&format!("{{ {} }}", names(50))), None);
    assert!(told(&format!("{{ {} }}", names(51))).contains("root"));
    let many = (0..1100).map(|number| format!("n{number}: id ")).collect::<String>();
    assert!(told(&format!("{{ BookList {{ {many} }} }}")).contains("complex"));
    let operations = (0..20).map(|number| format!("query q{number} {{ BookList {{ ...F }} }} ")).collect::<String>();
    let fragment = |fields: usize| {
        format!("fragment F on Book {{ {} }}", (0..fields).map(|number| format!("n{number}: id ")).collect::<String>())
    };
    assert!(told(&format!("{operations} {}", fragment(40))).contains("operationName"), "20 times 41 fields");
    assert!(told(&format!("{operations} {}", fragment(60))).contains("complex"), "20 times 61 fields");
    let doubling =
        (0..30).map(|level| format!("fragment f{level} on Book {{ ...f{} ...f{0} }} ", level + 1)).collect::<String>();
    assert!(fault(&format!("{{ BookList {{ ...f0 }} }} {doubling} fragment f30 on Book {{ id }}")).is_some());
    assert!(told("subscription { BookList { id } }").contains("ubscription"));
}

#[test]
fn an_expired_record_is_in_no_response() {
    let sdl = "type User @table @export { id: ID! @primaryKey sessions: [Session] @relationship(to: \"userId\") } \
               type Session @table(expiration: 60) @export { id: ID! @primaryKey userId: ID @indexed \
               user: User @relationship(from: \"userId\") next: Session @relationship(from: \"nextId\") nextId: ID }";
    let (_directory, database) = fresh(sdl);
    let clock = Clock::standing_at(0);
    let database = database.with_clock(&clock);
    let create = |table: &str, body: Json| {
        let table = database.table(table).expect("it exists");
        database.create(table, body.to_string().as_bytes()).expect("nobody has its id");
    };
    create("User", json!({ "id": "u" }));
    create("Session", json!({ "id": "old", "userId": "u" }));
    clock.set(30_000_000);
    create("Session", json!({ "id": "new", "userId": "u", "nextId": "old" }));
    let graphql = Graphql::new(&database, 1000);
    let document = "{ Session(id: \"old\") { id } SessionList { id next { id } } \
                    User(id: \"u\") { sessions { id } } with: UserList(filter: \"sessions.id==old\") { id } }";
    let response = || ask(&graphql, &database, document, json!({}))["data"].clone();
    let (old, new) = (json!({ "id": "old" }), json!({ "id": "new" }));
    assert_eq!(
        response(),
        json!({ "Session": old, "SessionList": [{ "id": "new", "next": old }, { "id": "old", "next": null }],
                "User": { "sessions": [new, old] }, "with": [{ "id": "u" }] })
    );
    clock.set(60_000_000);
    assert_eq!(
        response(),
        json!({ "Session": null, "SessionList": [{ "id": "new", "next": null }], "User": { "sessions": [new] }, "with": [] })
    );
}
