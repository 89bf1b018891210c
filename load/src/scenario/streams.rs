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
            text.push_str(&self.each.of(number));
        }
    }

    /// The numbers of the list of a request.
    pub fn numbers(&self, request: u64) -> std::ops::Range<u64> {
        request * self.count..(request + 1) * self.count
    }
}
