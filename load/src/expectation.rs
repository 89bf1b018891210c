//! The conditions for a response to count as a success, and the classes of all other outcomes of a request.
//!
//! The status alone proves nothing: a test that reads an empty table has statuses of 200 too. So an expectation says something about
//! the body, always.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::picture::Picture;
use crate::template::Template;

/// The conditions that a response must meet; of the keys about the body at least one is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The status.
    pub status: u16,
    /// The whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Template>,
    /// JSON pointers and the text of the value there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub has: BTreeMap<String, Template>,
    /// The length of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// A JSON pointer to that list, without one the body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub list: String,
    /// JSON pointers into each row of that list and the text of the value there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub each: BTreeMap<String, Template>,
    /// Pairs of JSON pointers to equal values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub equal: Vec<[String; 2]>,
    /// JSON pointers to whole numbers, and the least and the most that each may be.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub between: BTreeMap<String, [u64; 2]>,
    /// The length of the body in bytes; 0 where none may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The picture that the body must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

impl Expectation {
    /// Returns true if it says anything about the body.
    pub fn is_about_the_body(&self) -> bool {
        self.body.is_some() || self.is_about_json() || self.bytes.is_some() || self.picture.is_some()
    }

    /// Returns true if it says anything about JSON in the body.
    pub fn is_about_json(&self) -> bool {
        !self.has.is_empty()
            || self.rows.is_some()
            || !self.each.is_empty()
            || !self.equal.is_empty()
            || !self.between.is_empty()
    }

    /// Its templates.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.body.iter().chain(self.has.values()).chain(self.each.values())
    }

    /// The same with a number where what is varied has its place.
    pub fn with_fan_out(&self, number: u64) -> Self {
        let mut varied = self.clone();
        let templates = varied.body.iter_mut().chain(varied.has.values_mut()).chain(varied.each.values_mut());
        templates.for_each(|template| *template = template.with_fan_out(number));
        varied
    }

    /// Checks the response to a request about a row; returns the JSON of its body, none where nothing is expected of it.
    pub fn check<'a>(&self, row: u64, status: u16, body: &'a [u8]) -> Result<Option<Json<'a>>, Failure> {
        if status != self.status {
            return Err(Failure::Status(status));
        }
        let right = self.bytes.is_none_or(|bytes| bytes == body.len())
            && (self.picture.is_none() || self.picture == Picture::read(body))
            && self.body.as_ref().is_none_or(|expected| expected.of(row).as_bytes() == body);
        let read = match self.is_about_json() {
            true => Json::read(body).filter(|read| self.reads_right(row, read)).map(Some),
            false => Some(None),
        };
        read.filter(|_| right).ok_or(Failure::Body)
    }

    fn reads_right(&self, row: u64, read: &Json<'_>) -> bool {
        let list = read.at(&self.list).and_then(Json::list);
        // GraphQL answers 200 with errors in the body.
        read.at("/errors").is_none()
            && holds(read, &self.has, row)
            && self.equal.iter().all(|[one, other]| are_equal(read.at(one), read.at(other)))
            && self.between.iter().all(|(pointer, range)| is_between(read.at(pointer), *range))
            && self.rows.is_none_or(|rows| list.is_some_and(|list| list.len() == rows))
            && (self.each.is_empty()
                || list.is_some_and(|list| !list.is_empty() && list.iter().all(|value| holds(value, &self.each, row))))
    }
}

fn holds(read: &Json<'_>, expected: &BTreeMap<String, Template>, row: u64) -> bool {
    let is_there = |(pointer, expected): (&String, &Template)| {
        read.at(pointer).is_some_and(|value| value.text() == expected.of(row))
    };
    expected.iter().all(is_there)
}

fn are_equal(one: Option<&Json<'_>>, other: Option<&Json<'_>>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.text() == other.text())
}

fn is_between(value: Option<&Json<'_>>, [least, most]: [u64; 2]) -> bool {
    value.and_then(Json::number).is_some_and(|number| (least..=most).contains(&number))
}

/// Why a request that was sent is not a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// No connection could be made.
    Connect,
    /// The connection ended before the head of an answer.
    Connection,
    /// The head came, the body did not end as it should.
    Broken,
    /// No whole answer in time.
    Timeout,
    /// Another status than expected.
    Status(u16),
    /// The expected status and not the expected body.
    Body,
}

impl Failure {
    /// Returns true if, by its kind, the server did nothing for the request: it was not sent, or refused. After a response of 500, or one
    /// that says that time is over (503), nobody knows.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Connect => true,
            Self::Status(status) => matches!(status, 300..500 | 507),
            Self::Connection | Self::Broken | Self::Timeout | Self::Body => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => write!(formatter, "connect"),
            Self::Connection => write!(formatter, "connection"),
            Self::Broken => write!(formatter, "broken"),
            Self::Timeout => write!(formatter, "timeout"),
            Self::Status(status) => write!(formatter, "status_{status}"),
            Self::Body => write!(formatter, "body"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(toml: &str) -> Expectation {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn an_answer_is_right_only_if_all_of_it_is() {
        let one = expectation("status = 200\nhas = { \"/id\" = \"p{n}\", \"/price\" = \"{n%10}\" }");
        assert_eq!(one.check(12, 200, br#"{"id":"p12","price":2}"#).map(drop), Ok(()));
        assert_eq!(one.check(12, 200, br#"{"id":"p13","price":2}"#).map(drop), Err(Failure::Body));
        assert_eq!(one.check(12, 200, br#"{"id":"p12","price":2"#).map(drop), Err(Failure::Body));
        assert_eq!(one.check(12, 503, b"").map(drop), Err(Failure::Status(503)));
        let list = expectation("status = 200\nrows = 2");
        assert_eq!(list.check(0, 200, b"[1,2]").map(drop), Ok(()));
        assert_eq!(list.check(0, 200, b"[]").map(drop), Err(Failure::Body));
        let each = expectation("status = 200\nlist = \"/data/of\"\neach = { \"/in/id\" = \"{n/10}\" }");
        assert_eq!(each.check(12, 200, br#"{"data":{"of":[{"in":{"id":1}},{"in":{"id":"1"}}]}}"#).map(drop), Ok(()));
        assert_eq!(
            each.check(12, 200, br#"{"data":{"of":[{"in":{"id":1}},{"in":null}]}}"#).map(drop),
            Err(Failure::Body)
        );
        assert_eq!(each.check(12, 200, br#"{"data":{"of":[]}}"#).map(drop), Err(Failure::Body));
        let equal =
            expectation("status = 200\nequal = [[\"/targets\", \"/delivered\"]]\nbetween = { \"/targets\" = [1, 3] }");
        for (body, right) in [
            (r#"{"targets":3,"delivered":3}"#, true),
            (r#"{"targets":3,"delivered":2}"#, false),
            (r#"{"targets":4,"delivered":4}"#, false),
            (r#"{"targets":0,"delivered":0}"#, false),
            (r#"{"targets":3}"#, false),
        ] {
            assert_eq!(equal.check(0, 200, body.as_bytes()).is_ok(), right, "{body}");
        }
        let whole = expectation("status = 200\nbody = \"p{n}\"\nbytes = 2");
        assert_eq!(whole.check(1, 200, b"p1").map(drop), Ok(()));
        assert_eq!(whole.check(1, 200, b"p2").map(drop), Err(Failure::Body));
        assert_eq!(expectation("status = 204\nbytes = 0").check(1, 204, b"x").map(drop), Err(Failure::Body));
    }

    #[test]
    fn errors_of_graphql_are_no_success() {
        let answer = expectation("status = 200\nhas = { \"/data/a\" = \"1\" }");
        assert_eq!(answer.check(0, 200, br#"{"data":{"a":1}}"#).map(drop), Ok(()));
        assert_eq!(answer.check(0, 200, br#"{"data":{"a":1},"errors":[]}"#).map(drop), Err(Failure::Body));
    }
}
