//! The single mapping from failures to responses: a status and a problem (RFC 9457, `application/problem+json`).
//!
//! A problem states what to correct and where; it discloses nothing reserved for the operator. A problem with status 500 has only the
//! request id, under which the log has the cause.

use std::fmt;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;

use super::response::{ACCEPT_PATCH, Response, with_body};
use crate::error::{Error, OffsetFault, Place, RemoteFault};
use crate::pictures::{Fault, FaultKind};

/// The media type of problems.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The result of a handler. A failure is converted into a response by [`Failure::respond`] once it is certain that the request will not be
/// retried elsewhere.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a request is answered with a problem.
#[derive(Debug)]
pub enum Failure {
    /// An error of a lower layer.
    Error(Error),
    /// The resource does not support the method.
    Method {
        /// The supported methods, as in `Allow`.
        allow: &'static str,
    },
    /// No available representation is acceptable to the client.
    NotAcceptable {
        /// The available representations, as a sentence.
        available: &'static str,
    },
    /// The media type of the body is missing or not supported.
    MediaType {
        /// The received `Content-Type`, if any.
        received: Option<String>,
        /// The supported types.
        supported: &'static str,
        /// Those of patches as a list, if the body is one (RFC 5789, 2.2).
        accept_patch: Option<&'static str>,
    },
    /// The content coding of the body is not supported.
    ContentCoding {
        /// The supported coding.
        supported: &'static str,
    },
    /// The body has a transfer coding that is not understood, so that where it ends, and what it is, cannot be known.
    TransferCoding,
    /// The body exceeds the limit.
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body was not received before the timeout.
    TooSlow {
        /// The timeout.
        waited_ms: u64,
    },
    /// The response was not ready before the timeout.
    TimedOut {
        /// The timeout.
        waited_ms: u64,
    },
    /// The requested range is not satisfiable.
    Range {
        /// The length of the whole content.
        length_bytes: u64,
    },
    /// The limit of concurrent requests is reached.
    Overloaded,
    /// Only available to clients on this machine.
    LocalOnly,
    /// The request is for a host that is not one of this server's.
    Misdirected {
        /// The requested host.
        host: String,
    },
    /// A request from a web page of another origin, which may not make it.
    ForeignOrigin,
    /// A request for an upload that a web page would execute.
    ExecutedUpload,
    /// The blob is no picture that can be made smaller.
    Picture(Fault),
    /// A handler panicked, with this message.
    Panicked(String),
    /// An operation of a batch failed, and nothing was written.
    Operation {
        /// JSON pointer to the failed part of the batch.
        pointer: String,
        /// The cause.
        failure: Box<Self>,
    },
    /// A load was aborted.
    Load {
        /// The number of records created, which are kept.
        created: u64,
        /// The number of lines processed.
        lines: u64,
        /// The cause.
        failure: Box<Self>,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A row of the table.
struct Row {
    name: &'static str,
    title: &'static str,
    status: StatusCode,
}

/// The body of a problem.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_watermark: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high_watermark: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

impl Failure {
    /// Returns the failure of a request whose path does not exist.
    pub fn nothing_at(path: &str) -> Self {
        Error::NotFound { detail: format!("no resource at {path}") }.into()
    }

    /// Returns the failure of a request whose media type is not one of those supported.
    pub fn media_type(headers: &HeaderMap, supported: &'static str, accept_patch: Option<&'static str>) -> Self {
        let lines: Vec<_> = headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes).collect();
        let received = (!lines.is_empty()).then(|| String::from_utf8_lossy(&lines.join(&b", "[..])).into_owned());
        Self::MediaType { received, supported, accept_patch }
    }

    /// Returns whether it is an internal error, so that the response has the request id, and the log the cause.
    pub fn is_internal(&self) -> bool {
        self.row().status == StatusCode::INTERNAL_SERVER_ERROR
    }

    /// Converts it into a response; `request_id` identifies the request in the log.
    pub fn respond(&self, request_id: Option<&str>) -> Response {
        let row = self.row();
        let (pointer, position) = self.place();
        let (low_watermark, high_watermark) = self.watermarks();
        let problem = Problem {
            r#type: self.type_name(),
            title: row.title,
            status: row.status.as_u16(),
            detail: self.detail(),
            pointer,
            position,
            low_watermark,
            high_watermark,
            request_id,
        };
        let body = serde_json::to_vec(&problem).expect("a structure of texts and numbers is JSON");
        let mut response = with_body(row.status, PROBLEM_JSON, Bytes::from(body));
        let headers = response.headers_mut();
        if let Self::Method { allow } = self {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Self::MediaType { accept_patch: Some(types), .. } = self {
            headers.insert(ACCEPT_PATCH, HeaderValue::from_static(types));
        }
        if let Self::ContentCoding { supported } = self {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(supported));
        }
        if matches!(self, Self::TransferCoding) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Self::Range { length_bytes } = self {
            let whole = format!("bytes */{length_bytes}");
            headers.insert(CONTENT_RANGE, HeaderValue::try_from(whole).expect("signs and digits"));
        }
        if matches!(self, Self::ForeignOrigin | Self::ExecutedUpload) {
            // The same request of another page, or for another purpose, is not refused.
            headers.insert(VARY, HeaderValue::from_static("sec-fetch-site, sec-fetch-mode, sec-fetch-dest"));
        }
        if matches!(row.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Self::Error(Error::Unknown { record: Some(path), .. }) = self {
            headers.insert(LOCATION, HeaderValue::try_from(path).expect("encoded text is visible ASCII"));
        }
        if let Some(Ok(id)) = request_id.map(HeaderValue::from_str) {
            headers.insert(REQUEST_ID, id);
        }
        response
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.row().status
    }

    /// Returns the name of the problem.
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    /// Returns the type of the problem: `urn:strata:error:` and its name.
    pub fn type_name(&self) -> String {
        format!("urn:strata:error:{}", self.name())
    }

    fn row(&self) -> Row {
        let (name, title, status) = match self {
            Self::Operation { failure, .. } | Self::Load { failure, .. } => return failure.row(),
            Self::Error(Error::Invalid { .. }) | Self::TransferCoding => ("invalid", "The request is not valid", 400),
            Self::LocalOnly | Self::ForeignOrigin | Self::ExecutedUpload => ("forbidden", "Access is forbidden", 403),
            Self::Error(Error::NotFound { .. }) => ("not-found", "There is no such resource", 404),
            Self::Method { .. } => ("method-not-allowed", "The method is not allowed", 405),
            Self::NotAcceptable { .. } => ("not-acceptable", "No acceptable representation", 406),
            Self::TooSlow { .. } => ("timeout", "The body arrived too slowly", 408),
            Self::Error(Error::Conflict { .. }) => ("conflict", "The request conflicts with stored data", 409),
            Self::Error(Error::Gone { .. }) => ("gone", "The requested changes are no longer kept", 410),
            Self::Error(Error::Offset { fault: OffsetFault::Trimmed, .. }) => {
                ("gone", "The requested events are no longer kept", 410)
            }
            Self::Error(Error::Stale | Error::Offset { fault: OffsetFault::NotNext, .. }) => {
                ("stale", "The precondition does not hold", 412)
            }
            Self::TooLarge { .. } => ("too-large", "The body is too large", 413),
            Self::MediaType { .. } => ("unsupported-media-type", "The media type is not supported", 415),
            Self::ContentCoding { .. } => ("unsupported-media-type", "The content coding is not supported", 415),
            Self::Range { .. } | Self::Error(Error::Offset { fault: OffsetFault::Ahead, .. }) => {
                ("range-not-satisfiable", "The range cannot be satisfied", 416)
            }
            Self::Misdirected { .. } => ("misdirected", "The request is for another host", 421),
            Self::Picture(fault) => match fault.kind {
                FaultKind::NotAPicture => ("not-a-picture", "The blob is not a picture", 422),
                FaultKind::Damaged => ("damaged-picture", "The picture is damaged", 422),
                FaultKind::TooLarge => ("picture-too-large", "The picture is too large", 422),
            },
            Self::Error(Error::Busy { .. }) => ("busy", "The server is busy", 503),
            Self::Error(Error::Held { .. }) => ("full", "The partition is full", 503),
            Self::Error(Error::Remote { fault: RemoteFault::Unanswered, .. }) => {
                ("timed-out", "The request timed out", 503)
            }
            Self::Error(Error::Remote { fault: RemoteFault::Full, .. }) => ("full", "There is no room for more", 503),
            Self::Error(Error::Full { .. }) => ("storage-full", "There is no room for more", 507),
            Self::Error(Error::Unsupported { .. }) => ("unsupported", "The store does not support this", 501),
            Self::Error(Error::Unknown { .. }) => ("unknown-outcome", "It is unknown whether it was written", 504),
            Self::TimedOut { .. } => ("timed-out", "The request timed out", 503),
            Self::Overloaded => ("overloaded", "Too many requests are in flight", 503),
            Self::Error(
                Error::Mismatch { .. }
                | Error::WouldBlock
                | Error::Raced
                | Error::Corrupt { .. }
                | Error::Storage { .. },
            )
            | Self::Panicked(_) => ("internal", "The server failed", 500),
        };
        let status = StatusCode::from_u16(status).expect("the table has statuses");
        Row { name, title, status }
    }

    /// Returns the detail for the client; an internal error has only a generic one.
    pub fn detail(&self) -> String {
        match self {
            Self::Error(
                Error::Invalid { detail, .. }
                | Error::NotFound { detail }
                | Error::Conflict { detail, .. }
                | Error::Gone { detail }
                | Error::Offset { detail, .. }
                | Error::Busy { detail }
                | Error::Held { detail }
                | Error::Remote { detail, .. }
                | Error::Full { detail }
                | Error::Unknown { detail, .. }
                | Error::Unsupported { detail },
            ) => detail.clone(),
            Self::Error(Error::Stale) => {
                "the precondition in If-Match or If-None-Match failed: fetch the current version and try again"
                    .to_owned()
            }
            Self::Method { allow } => format!("allowed: {allow}"),
            Self::NotAcceptable { available } => (*available).to_owned(),
            Self::MediaType { received: None, supported, .. } => format!("Content-Type is missing: send {supported}"),
            Self::MediaType { received: Some(received), supported, .. } => {
                format!("Content-Type {received} is not supported: send {supported}")
            }
            Self::TransferCoding => "Transfer-Encoding must be chunked or absent".to_owned(),
            Self::ContentCoding { supported } => format!("Content-Encoding must be {supported} or absent"),
            Self::Operation { failure, .. } => failure.detail(),
            Self::Load { created, lines, failure } => {
                format!(
                    "{}; {created} records from the first {lines} lines were already created and are kept",
                    failure.detail()
                )
            }
            Self::TooLarge { limit_bytes } => format!("a body has at most {limit_bytes} bytes"),
            Self::TooSlow { waited_ms } => format!("too little of the body arrived within {waited_ms} ms"),
            Self::TimedOut { waited_ms } => {
                format!("no response within {waited_ms} ms; a write may have been applied")
            }
            Self::Range { length_bytes } => format!("the content has {length_bytes} bytes"),
            Self::Picture(fault) => fault.detail.clone(),
            Self::Overloaded => "too many requests are in flight: retry after the delay in Retry-After".to_owned(),
            Self::LocalOnly => {
                "this is available only to clients on the same machine, and not through a proxy".to_owned()
            }
            Self::Misdirected { host } => {
                format!(
                    "{host} is not an allowed host: use localhost, an IP address, or a name given by --allowed-host"
                )
            }
            Self::ForeignOrigin => "a page of this origin may not ask for this; --cors-origin allows it".to_owned(),
            Self::ExecutedUpload => "an upload is no script, style sheet or worker of a page".to_owned(),
            Self::Error(
                Error::Mismatch { .. }
                | Error::WouldBlock
                | Error::Raced
                | Error::Corrupt { .. }
                | Error::Storage { .. },
            )
            | Self::Panicked(_) => "the server's log has the cause under this request id".to_owned(),
        }
    }

    /// Returns the JSON pointer to the error in the body.
    pub(super) fn pointer(&self) -> Option<&str> {
        self.place().0
    }

    fn place(&self) -> (Option<&str>, Option<usize>) {
        match self {
            Self::Error(Error::Invalid { place: Place::Pointer(pointer), .. } | Error::Conflict { pointer, .. }) => {
                (Some(pointer), None)
            }
            Self::Error(Error::Invalid { place: Place::Position(position), .. }) => (None, Some(*position)),
            Self::Error(Error::Offset { pointer, .. }) if !pointer.is_empty() => (Some(pointer), None),
            Self::Operation { pointer, .. } => (Some(pointer), None),
            _ => (None, None),
        }
    }

    /// Returns the watermarks of the partition that the request named.
    fn watermarks(&self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::Operation { failure, .. } => failure.watermarks(),
            Self::Error(Error::Offset { fault: OffsetFault::NotNext, high, .. }) => (None, Some(*high)),
            Self::Error(Error::Offset { low, high, .. }) => (Some(*low), Some(*high)),
            _ => (None, None),
        }
    }
}

/// The log message, with the complete cause.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Operation { failure, .. } | Self::Load { failure, .. } => failure.fmt(f),
            Self::Panicked(message) => write!(f, "a handler panicked: {message}"),
            other => f.write_str(&other.detail()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(failure: impl Into<Failure>) -> String {
        String::from_utf8(failure.into().respond(None).body().to_vec()).unwrap()
    }

    #[test]
    fn a_problem_says_what_and_where() {
        assert_eq!(
            json(Error::invalid_at("/price", "no")),
            r#"{"type":"urn:strata:error:invalid","title":"The request is not valid","status":400,"detail":"no","pointer":"/price"}"#
        );
        let position = Error::Invalid { detail: "no".into(), place: Place::Position(7) };
        assert!(json(position).ends_with(r#""detail":"no","position":7}"#));
    }

    #[test]
    fn what_only_the_operator_may_know_stays_here() {
        let failure = Failure::from(Error::storage("cannot write /secret", "no space"));
        assert!(failure.is_internal() && failure.to_string().contains("secret"));
        let response = failure.respond(Some("r-1"));
        let body = String::from_utf8(response.body().to_vec()).unwrap();
        assert!(!body.contains("secret") && body.contains(r#""requestId":"r-1""#));
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-request-id"]),
            (500, &HeaderValue::from_static("r-1"))
        );
    }

    #[test]
    fn a_media_type_and_a_content_coding_have_titles_of_their_own() {
        let titled = |title: &str| {
            format!(r#"{{"type":"urn:strata:error:unsupported-media-type","title":"{title}","status":415,"#)
        };
        let coding = Failure::ContentCoding { supported: "gzip" };
        assert!(json(coding).starts_with(&titled("The content coding is not supported")));
        let media_type = Failure::media_type(&HeaderMap::new(), "text/plain", None);
        assert!(json(media_type).starts_with(&titled("The media type is not supported")));
    }

    #[test]
    fn a_media_type_is_refused_by_what_was_received() {
        let mut headers = HeaderMap::new();
        let detail = |headers: &HeaderMap| Failure::media_type(headers, "text/plain", None).detail();
        assert_eq!(detail(&headers), "Content-Type is missing: send text/plain");
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/csv"));
        assert_eq!(detail(&headers), "Content-Type text/csv is not supported: send text/plain");
    }

    #[test]
    fn headers_that_a_status_owes() {
        assert_eq!(Failure::Method { allow: "GET" }.respond(None).headers()[ALLOW], "GET");
        let patch = Failure::media_type(&HeaderMap::new(), "", Some("text/x-patch"));
        assert_eq!(patch.respond(None).headers()[ACCEPT_PATCH], "text/x-patch");
        for failure in [Failure::Overloaded, Error::Busy { detail: String::new() }.into()] {
            assert_eq!(failure.respond(None).headers()[RETRY_AFTER], "1");
        }
    }
}
