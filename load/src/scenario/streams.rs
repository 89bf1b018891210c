//! What a scenario says of event streams.

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// A list in the body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Items {
    /// How many.
    pub count: u64,
    /// One of them; that number i of request n has the number n * count + i.
    pub each: Template,
}

impl Items {
    /// Writes the list of a request, with commas between.
    pub(super) fn write(&self, request: u64, text: &mut String) {
        for number in self.numbers(request) {
            text.push_str(if number == request * self.count { "" } else { "," });
            self.each.write(text, number, |_| {});
        }
    }

    /// The numbers of the list of a request.
    pub fn numbers(&self, request: u64) -> std::ops::Range<u64> {
        request * self.count..(request + 1) * self.count
    }
}

/// Where a request has its events, and its answer where they stand. A pointer is one of JSON (RFC 6901), without escapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acknowledges {
    /// A pointer to the event in the body; without it each of its `/records` is one, else the body is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// A pointer to the list of places in the answer, in the order of the events; without it the answer has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// A pointer to the partition in the answer, or in each of the list.
    pub partition: String,
    /// A pointer to the offset, beside which `duplicate` stands where the event was there before.
    pub offset: String,
    /// The path of a record that the same request writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Template>,
}
