//! Responses and their bodies, below all handlers, which give them a meaning.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};

/// A complete response: status, headers and body.
pub type Response<B = Bytes> = http::Response<B>;

/// The media types in which a resource accepts a `PATCH` (RFC 5789).
pub(super) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

pub(super) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The default media type of records and lists.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns a response with a body of this media type.
pub fn with_body(status: StatusCode, media_type: HeaderValue, body: Bytes) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// Returns the response to a write without the record.
pub(super) fn minimal(status: StatusCode) -> Response {
    let mut response = empty(if status == StatusCode::OK { StatusCode::NO_CONTENT } else { status });
    response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("return=minimal"));
    response
}

/// Converts the response to `GET` into that to `HEAD`: no body, but with its `Content-Length`.
pub fn without_body(mut response: Response) -> Response {
    let body = std::mem::take(response.body_mut());
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    response
}

/// Reduces the response to a write to its status and validator, if there is no memory for its body.
pub fn remove_content(response: &mut Response) {
    if response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    *response.body_mut() = Bytes::new();
    for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH] {
        response.headers_mut().remove(name);
    }
}
