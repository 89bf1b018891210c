//! What a scenario says of event streams.

use std::time::Duration;

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

/// Where a request has its events, and its answer where they stand. A pointer is one of JSON (RFC 6901).
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

/// An answer by which the server refuses a request: nothing of it was done, and it says when to come again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedBy {
    /// The status.
    pub status: u16,
    /// The header that says after how many seconds to come again, as a whole number.
    pub header: String,
}

impl RefusedBy {
    /// How long the user of a request is to wait; none where the answer is no refusal.
    pub fn wait(&self, status: u16, headers: &http::HeaderMap) -> Option<Duration> {
        let seconds = || headers.get(&self.header)?.to_str().ok()?.parse::<u32>().ok();
        (status == self.status).then(seconds).flatten().map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Subscribers of the stream whose events are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribers {
    /// How many.
    pub count: usize,
    /// Its path and query, in which `{n}` is the number of the subscriber: `stream=sse`, or `wait=` of a read that is asked again from where
    /// it ended.
    pub path: Template,
}

/// How often the server is ended while it is measured, by SIGKILL, and started again with what it has on disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    /// How often.
    pub kills: u32,
    /// How long after the start of the window, and after each restart.
    pub every_seconds: f64,
}

/// A part of a closed loop with so many users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Users, each with a connection, or a stream of one.
    pub users: usize,
    /// How long they start requests.
    pub seconds: f64,
}

/// Which requests an effect is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Those with the right answer.
    #[default]
    Ok,
    /// Those that were refused.
    Refused,
}

impl Of {
    pub(super) fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}
