//! The responses of operations: those with a body, and the refusals, which are generated from the failures themselves.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::parts::reference;
use crate::error::{Error, Place};
use crate::handlers::{
    Failure,
    media::{Format, ResponseKind},
};
use crate::pictures::{Fault, FaultKind};

/// Returns one of each kind of failure that the document describes.
fn failures() -> Vec<Failure> {
    let detail = |text: &str| text.to_owned();
    vec![
        Error::Invalid { detail: detail("\"many\" cannot be coerced to Int"), place: Place::Pointer("/stock".into()) }
            .into(),
        Failure::ForeignOrigin,
        Failure::LocalOnly,
        Failure::ExecutedUpload,
        Error::NotFound { detail: detail("there is no record \"lamp\" in Product") }.into(),
        Failure::Method { allow: "POST" },
        Failure::NotAcceptable { available: "records, lists and answers are application/json" },
        Failure::TooSlow { waited_ms: 30_000 },
        Error::Conflict { detail: detail("the id exists"), pointer: detail("/id") }.into(),
        Error::Gone { detail: detail("the changes after this event are no longer kept") }.into(),
        Error::Stale.into(),
        Failure::TooLarge { limit_bytes: 1 << 20 },
        Failure::MediaType { received: Some(detail("text/csv")), supported: "application/json", accept_patch: None },
        Failure::ContentCoding { supported: "gzip" },
        Failure::Range { length_bytes: 88 },
        Failure::Misdirected { host: detail("example.org") },
        Failure::Picture(Fault {
            kind: FaultKind::NotAPicture,
            detail: detail("the blob is no JPEG, PNG, GIF or WebP"),
        }),
        Failure::Picture(Fault { kind: FaultKind::Damaged, detail: detail("its last scan is cut") }),
        Failure::Picture(Fault {
            kind: FaultKind::TooLarge,
            detail: detail("it has 60000000 pixels, and may have 50000000 (--thumb-pixels)"),
        }),
        Error::storage("cannot write", "an I/O error").into(),
        Error::Full { detail: detail("the disk is nearly full") }.into(),
        Error::Busy { detail: detail("the engine is behind") }.into(),
        Error::Held { detail: detail("consumer groups hold more events than maxBytes") }.into(),
        Failure::Overloaded,
        Failure::TimedOut { waited_ms: 30_000 },
    ]
}

/// Returns the refusals by status.
pub(super) fn refused() -> Value {
    let mut by_status: BTreeMap<StatusCode, Vec<Failure>> = BTreeMap::new();
    for failure in failures() {
        by_status.entry(failure.status()).or_default().push(failure);
    }
    by_status.into_iter().map(|(status, failures)| (status.as_str().to_owned(), refusal(status, &failures))).collect()
}

fn refusal(status: StatusCode, failures: &[Failure]) -> Value {
    let mut examples = Map::new();
    for failure in failures {
        // One example per kind; others would differ only in their detail.
        examples.entry(kind(failure)).or_insert_with(|| json!({"value": example(failure)}));
    }
    let mut response = json!({
        "description": example(&failures[0])["title"],
        "content": {"application/problem+json": {
            "schema": reference("strata.Problem"),
            "examples": examples,
        }},
    });
    let header = match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let of_patch = ("Accept-Patch", "The supported media types, for a PATCH in another one (RFC 5789).");
            return with_optional_headers(response, &[of_patch, ("Accept-Encoding", "The supported content coding.")]);
        }
        StatusCode::METHOD_NOT_ALLOWED => "Allow",
        StatusCode::RANGE_NOT_SATISFIABLE => "Content-Range",
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE => "Retry-After",
        StatusCode::INTERNAL_SERVER_ERROR => "X-Request-Id",
        _ => return response,
    };
    response["headers"] = headers_named(&[header]);
    response
}

/// Returns the last word of the failure's type.
fn kind(failure: &Failure) -> String {
    failure.type_name().replace("urn:strata:error:", "")
}

/// Returns the problem that a client receives for a failure.
fn example(failure: &Failure) -> Value {
    let request_id = failure.is_internal().then_some("0af7651916cd43dd8448eb211c80319c");
    serde_json::from_slice(failure.respond(request_id).body()).expect("a problem is JSON")
}

/// Returns the headers of responses, by name.
pub(super) fn headers() -> Value {
    let header =
        |description: &str, schema: Value| json!({"description": description, "required": true, "schema": schema});
    json!({
        "Allow": header("The supported methods.", json!({"type": "string"})),
        "Accept-Ranges": header("Whether range requests are supported: not of thumbnails.", json!({"type": "string", "enum": ["bytes", "none"]})),
        "Content-Range": header("The range and the total size.", json!({"type": "string", "pattern": "^bytes "})),
        "Preference-Applied": header("The preference that was applied.", json!({"type": "string", "const": "return=minimal"})),
        "ETag": header("The strong validator of the representation.", json!({"type": "string", "pattern": ETAG})),
        "Link": {
            "description": "The next page of a truncated list (RFC 8288); a trailer if the list is streamed.",
            "schema": {"type": "string"},
        },
        "Location": header("The path of the record or blob.", json!({"type": "string", "pattern": "^/"})),
        "Retry-After": header("The seconds after which to retry.", json!({"type": "string", "pattern": "^[0-9]+$"})),
        "X-Request-Id": header("The request id under which the cause is logged.", json!({"type": "string"})),
    })
}

/// An entity tag: 16 digits of checksum, and a suffix for the representation.
const ETAG: &str = "^\"[0-9a-f]{16}(-[0-9a-f]{16})?(-(ints|cbor|msgpack))?(-(gzip|br|zstd))?\"$";

/// Returns references to headers by their names.
pub(super) fn headers_named(names: &[&str]) -> Value {
    let reference = |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    names.iter().map(reference).collect()
}

/// Returns the responses of an operation: its own, and the refusals with these statuses.
pub(super) fn of(own: &[(u16, Value)], refusals: &[u16]) -> Value {
    let refusal = |status: &u16| (status.to_string(), json!({"$ref": format!("#/components/responses/{status}")}));
    let own = own.iter().map(|(status, response)| (status.to_string(), response.clone()));
    refusals.iter().map(refusal).chain(own).collect()
}

/// Returns a response in JSON only.
pub(super) fn in_json(description: &str, schema: Value, headers: &[&str]) -> Value {
    with_headers(json!({"description": description, "content": {"application/json": {"schema": schema}}}), headers)
}

/// Returns a response in each format that it can have.
pub(super) fn in_formats(description: &str, schema: &Value, shown: ResponseKind, headers: &[&str]) -> Value {
    let of = |format: &Format| {
        let name = format.media_type().to_str().expect("names are ASCII").to_owned();
        (name, json!({"schema": in_format(*format, schema)}))
    };
    let content: Map<String, Value> = shown.formats().iter().map(of).collect();
    with_headers(json!({"description": description, "content": content}), headers)
}

/// Returns the schema of a response in a format, given that of JSON. A schema describes one document, so it cannot describe a format of
/// lines.
fn in_format(format: Format, schema: &Value) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    match format {
        Format::Json | Format::Cbor | Format::MessagePack => schema.clone(),
        Format::JsonIntsAsText => {
            json!({"description": "As application/json, with Int attributes as strings of digits."})
        }
        Format::Lines => text("One JSON record per line."),
        Format::LinesIntsAsText => text("One JSON record per line, with Int attributes as strings of digits."),
        Format::Csv => text("One record per line (RFC 4180), after a line with the attribute names."),
    }
}

fn with_headers(mut response: Value, headers: &[&str]) -> Value {
    if !headers.is_empty() {
        response["headers"] = headers_named(headers);
    }
    response
}

/// Returns the same response with optional headers, given as name and description.
pub(super) fn with_optional_headers(mut response: Value, headers: &[(&str, &str)]) -> Value {
    for (name, description) in headers {
        response["headers"][*name] = json!({"description": description, "schema": {"type": "string"}});
    }
    response
}

/// Returns a response without a body.
pub(super) fn empty(description: &str, headers: &[&str]) -> Value {
    json!({"description": description, "headers": headers_named(headers)})
}
