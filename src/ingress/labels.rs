//! Under which names requests are counted: the shapes of the tables' paths, and a name for each thing beside them.

use crate::observability::RouteNumber;
use crate::routing::{Routes, Template};

/// What nobody knows: its path is anybody's choice, so it must not become a name.
pub(super) const OTHER: RouteNumber = RouteNumber(0);

/// A file of the static ones.
pub(super) const STATIC: RouteNumber = RouteNumber(1);

/// What stands beside the tables, in the order of its numbers.
const BESIDE: [&str; 10] = [
    "other",
    "static",
    "/_health",
    "/_ready",
    "/_counters",
    "/_metrics",
    "/_tables",
    "/_openapi.json",
    "/_checkpoint",
    "/_console",
];

/// All names, in the order of their numbers.
pub(super) fn names(routes: &Routes) -> Vec<String> {
    BESIDE.into_iter().map(str::to_owned).chain(routes.templates()).collect()
}

/// Of a path that is a table's.
pub(super) fn of(template: Template) -> RouteNumber {
    RouteNumber(BESIDE.len() + template.0)
}

/// Of a path that is neither a table's nor a file's.
pub(super) fn beside(path: &str) -> RouteNumber {
    // All files of the console are one.
    let path = if path.starts_with("/_console/") { "/_console" } else { path };
    let known = BESIDE.iter().position(|name| *name == path);
    known.map_or(OTHER, RouteNumber)
}
