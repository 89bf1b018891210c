//! The requests that a user sends next: one for each row of a response, one after the other, as a client does that follows keys by itself.
//!
//! All are one operation: its time is that of the last answer, its bytes are those of all, and one that is wrong makes it wrong.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::connection::Connection;
use crate::expectation::Failure;
use crate::scenario::Follow;

/// Asks what follows from an answer; the bytes of all bodies that came, and what became of it.
pub(super) async fn all(slot: &Connection, first: &[u8], follow: &[Follow]) -> (usize, Result<(), Failure>) {
    let mut bytes = 0;
    let Ok(mut answers) = serde_json::from_slice(first).map(rows) else { return (bytes, Err(Failure::Body)) };
    for step in follow {
        let mut next = Vec::new();
        for row in &answers {
            let Some(key) = row.pointer(&step.key).and_then(Value::as_str) else { return (bytes, Err(Failure::Body)) };
            let mut request = Request::new(Full::new(Bytes::new()));
            let Ok(path) = format!("{}{key}", step.path).parse() else { return (bytes, Err(Failure::Body)) };
            *request.uri_mut() = path;
            let answer = match slot.exchange(request).await {
                Ok(answer) => answer,
                Err(failure) => return (bytes, Err(failure)),
            };
            bytes += answer.body.len();
            if answer.status != http::StatusCode::OK {
                return (bytes, Err(Failure::Status(answer.status.as_u16())));
            }
            match serde_json::from_slice::<Value>(&answer.body) {
                Ok(read) if read.pointer(&step.has).and_then(Value::as_str) == Some(key) => next.push(read),
                _ => return (bytes, Err(Failure::Body)),
            }
        }
        answers = next;
    }
    (bytes, Ok(()))
}

/// The rows of a list, or the one that the answer is.
fn rows(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(rows) => rows,
        row => vec![row],
    }
}
