//! The typed values allowed for an attribute of each type.

use super::*;
use crate::encoding::record::{Record, encode};
use crate::encoding::value::Date;
use crate::error::Place;
use crate::schema::Schema;

const SDL: &str = "type T @table {
    id: ID @primaryKey
    text: String
    whole: Int
    number: Float
    flag: Boolean
    at: Date
    any: Any
    many: [Float]
}";

fn schema() -> Schema {
    Schema::parse(SDL).unwrap()
}

fn refused<'v>(table: &Table, attribute: &str, value: impl Into<Value<'v>>) -> (String, String) {
    match Fields::of(table).with(attribute, value) {
        Err(Error::Invalid { detail, place: Place::Pointer(pointer) }) => (pointer, detail),
        other => panic!("{attribute} should be refused: {other:?}"),
    }
}

#[test]
fn values_of_the_right_type_are_written_as_they_are() {
    let schema = schema();
    let table = &schema.tables[0];
    let date = Date::parse("2026-01-31T12:00:00Z").unwrap();
    let fields = Fields::of(table).with("id", "one").and_then(|fields| fields.with("text", String::from("a")));
    let fields = fields.and_then(|fields| fields.with("whole", 5)).and_then(|fields| fields.with("number", 2.5));
    let fields = fields.and_then(|fields| fields.with("flag", true)).and_then(|fields| fields.with("at", date));
    let fields = fields.and_then(|fields| fields.with("any", Value::Json(r#" {"a": [1, "b c"]} "#.into())));
    let fields = fields.and_then(|fields| fields.with("many", Value::List(vec![1.0.into(), (-0.5).into()]))).unwrap();
    let mut out = Vec::new();
    let record = encode(&fields, None::<&Record<'_, Vec<u8>>>, &mut out).unwrap();
    assert_eq!(
        record.json(),
        br#"{"id":"one","text":"a","whole":5,"number":2.5,"flag":true,"at":"2026-01-31T12:00:00Z","any":{"a":[1,"b c"]},"many":[1,-0.5]}"#
    );
    for (position, value) in fields.values().iter().enumerate() {
        assert_eq!(record.value(position).unwrap(), *value.as_ref().unwrap(), "what is read is what was given");
    }
}

#[test]
fn a_value_of_another_type_is_refused_at_its_attribute() {
    let schema = schema();
    let table = &schema.tables[0];
    let values = [
        ("text", Value::Text("a".into())),
        ("whole", Value::Int(5)),
        ("number", Value::Float(5.0)),
        ("flag", Value::Boolean(true)),
        ("at", Value::Date(Date::parse("2026-01-31").unwrap())),
        ("any", Value::Json("5".into())),
        ("many", Value::List(vec![Value::Float(5.0)])),
    ];
    for (attribute, _) in &values {
        for (other, value) in &values {
            let accepted = Fields::of(table).with(attribute, value.clone()).is_ok();
            assert_eq!(accepted, attribute == other, "{value:?} for {attribute}");
        }
        assert!(Fields::of(table).with(attribute, Value::Null).is_ok());
    }
    assert_eq!(refused(table, "number", 5), ("/number".to_owned(), "an Int cannot be a Float".to_owned()));
    assert_eq!(refused(table, "text", 5).1, "an Int cannot be a String");
    assert_eq!(refused(table, "many", 5.0).1, "a Float cannot be a list of Float");
    assert_eq!(refused(table, "a/b", 5), ("/a~1b".to_owned(), "table T has no attribute \"a/b\"".to_owned()));
}

#[test]
fn a_value_that_no_record_can_hold_is_refused() {
    let schema = schema();
    let table = &schema.tables[0];
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(refused(table, "number", float).0, "/number");
        assert_eq!(refused(table, "many", Value::List(vec![1.0.into(), float.into()])).0, "/many/1");
    }
    assert_eq!(refused(table, "many", Value::List(vec![Value::Null])).0, "/many/0");
    assert_eq!(refused(table, "many", Value::List(vec![Value::List(Vec::new())])).0, "/many/0");
    assert_eq!(refused(table, "many", Value::List(vec![1.0.into(); ELEMENTS + 1])).0, format!("/many/{ELEMENTS}"));
    let astray = Date { text: "2026-01-31".into(), microseconds: 1 };
    assert!(refused(table, "at", astray).1.contains("does not denote the instant"));
    assert!(refused(table, "at", Date { text: "today".into(), microseconds: 0 }).1.contains("ISO 8601"));
    for text in ["", "{", "1 2", "nul", r#"{"a":1,"a":2}"#] {
        assert_eq!(refused(table, "any", Value::Json(text.into())).0, "/any", "{text}");
    }
}
