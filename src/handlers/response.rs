//! Responses and their bodies, below all handlers, which give them a meaning.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};

/// A complete answer: status, headers and body.
pub type Answer = Response<Bytes>;

/// The media types in which a resource accepts a `PATCH` (RFC 5789).
pub(super) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

pub(super) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The default media type of records and lists.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns an answer with a body of this media type.
pub fn with_body(status: StatusCode, media_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    answer
}

/// Returns the answer to a write without the record.
pub(super) fn minimal(status: StatusCode) -> Answer {
    let mut answer = empty(if status == StatusCode::OK { StatusCode::NO_CONTENT } else { status });
    answer.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("return=minimal"));
    answer
}

/// Converts the answer to `GET` into that to `HEAD`: no body, but with its `Content-Length`.
pub fn without_body(mut answer: Answer) -> Answer {
    let body = std::mem::take(answer.body_mut());
    if answer.status() != StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    answer
}

/// Reduces the answer to a write to its status and validator, if there is no memory for its body.
pub fn remove_content(answer: &mut Answer) {
    if answer.status() == StatusCode::OK {
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    *answer.body_mut() = Bytes::new();
    for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH] {
        answer.headers_mut().remove(name);
    }
}
