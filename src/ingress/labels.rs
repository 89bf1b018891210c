//! The labels under which requests are counted: the path templates of tables, and one for each endpoint beside them.

use crate::observability::RouteNumber;
use crate::routing::{Routes, Template};

/// Unknown paths, which must not become labels because clients choose them.
pub(super) const OTHER: RouteNumber = RouteNumber(0);

/// Static files.
pub(super) const STATIC: RouteNumber = RouteNumber(1);

/// The endpoints beside the tables, in label order.
const BESIDE: [&str; 11] = [
    "other",
    "static",
    "/_health",
    "/_ready",
    "/_counters",
    "/_metrics",
    "/_stats",
    "/_tables",
    "/_openapi.json",
    "/_checkpoint",
    "/_console",
];

/// Returns all labels in order.
pub(super) fn names(routes: &Routes) -> Vec<String> {
    BESIDE.into_iter().map(str::to_owned).chain(routes.templates()).collect()
}

/// Returns the label of a path template.
pub(super) fn of(template: Template) -> RouteNumber {
    RouteNumber(BESIDE.len() + template.0)
}

/// Returns the label of a path that is neither a table's nor a static file's.
pub(super) fn beside(path: &str) -> RouteNumber {
    // All files of the console share a label.
    let path = if path.starts_with("/_console/") { "/_console" } else { path };
    let known = BESIDE.iter().position(|name| *name == path);
    known.map_or(OTHER, RouteNumber)
}
