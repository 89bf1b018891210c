//! The parts of a scenario about event streams.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::template::Template;

use super::Over;

/// A list in the body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Items {
    /// The number of items.
    pub count: u64,
    /// One of them; that number i of request n has the number n * count + i.
    pub each: Template,
}

impl Items {
    /// Writes the list of a request, with commas between.
    pub(super) fn write(&self, request: u64, text: &mut String) {
        for number in self.numbers(request) {
            text.push_str(if number == request * self.count { "" } else { "," });
            self.each.write(text, number, 0, |_| {});
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
    /// Returns the time for which the user of a request is to wait; none where the response is no refusal.
    pub fn wait(&self, status: u16, headers: &http::HeaderMap) -> Option<Duration> {
        let seconds = || headers.get(&self.header)?.to_str().ok()?.parse::<u32>().ok();
        (status == self.status).then(seconds).flatten().map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Subscribers of the stream whose events are acknowledged, or of records to which messages are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribers {
    /// The number of subscribers.
    pub count: usize,
    /// Its path and query, in which `{n}` is the number of the subscriber: `stream=sse`, or `wait=` of a read that is asked again from where
    /// it ended. To whom messages are sent, each has the path of another record.
    #[serde(default, skip_serializing_if = "Template::is_empty")]
    pub path: Template,
    /// Over what messages come to them.
    #[serde(default, skip_serializing_if = "Over::is_sse")]
    pub over: Over,
    /// The subject that each listens to over NATS, in place of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Template>,
    /// Connections that they share, of HTTP/2 or to NATS, over JetStream each with a consumer; without it each has one, of HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// A JSON pointer to where a message says which request sent it (`{call}`); without it they are subscribers of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// JSON pointers into a message and the text of the value there, in which `{n}` is the number of the subscriber: no other message is for
    /// it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub each: BTreeMap<String, Template>,
    /// A JSON pointer to a number in a message, which is for those alone whose numbers are smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<String>,
    /// The share of them that read nothing until requests end, and take little in before.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub stalled: f64,
}

fn is_none_of_them(share: &f64) -> bool {
    *share == 0.0
}

impl Subscribers {
    /// The pointers into a message.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &String> {
        self.call.iter().chain(self.each.keys()).chain(&self.below)
    }

    /// Returns true if one of them, by its number, reads nothing until requests end. They are spread over all.
    pub fn is_stalled(&self, number: usize) -> bool {
        let stalled = |before: usize| (before as f64 * self.stalled).round() as usize;
        stalled(number + 1) > stalled(number)
    }
}

/// The kills of the server by SIGKILL while it is measured; after each it is started again with what it has on disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    /// The number of kills.
    pub kills: u32,
    /// The time from the start of the window, and from each restart, to the next kill.
    pub every_seconds: f64,
}

/// A part of a closed loop with so many users.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Users, each with a connection, or a stream of one.
    pub users: usize,
    /// The time for which they start requests.
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
