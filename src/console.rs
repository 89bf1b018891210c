//! The console: web pages that show the served tables and query them. They use only what is available to every client.
//!
//! The pages are embedded in the binary, so that there is nothing to install and their version always fits. They are written by hand,
//! except for GraphiQL, which is committed as published (`console/vendor/README.md`), so that no build needs Node. Nothing is fetched from
//! elsewhere: `Content-Security-Policy` lets a page load from and connect to this server only, and run only scripts from its files.
//!
//! Non-goals: access control (`ingress`); changing records (GraphiQL can, like every client; the page of tables sends messages, which
//! change none).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, LOCATION, REFERRER_POLICY, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use crate::handlers::{Response, Result};
use crate::static_files::{Content, Site, accepts_html};

/// The path of the console.
pub const PATH: &str = "/_console";

/// The files of the console.
pub struct Console(Site);

const FILES: [(&str, &[u8]); 17] = [
    ("index.html", include_bytes!("console/index.html")),
    ("streams.html", include_bytes!("console/streams.html")),
    ("graphiql.html", include_bytes!("console/graphiql.html")),
    ("console.css", include_bytes!("console/console.css")),
    ("console.js", include_bytes!("console/console.js")),
    ("streams.js", include_bytes!("console/streams.js")),
    ("graphiql.js", include_bytes!("console/graphiql.js")),
    ("lives.js", include_bytes!("console/lives.js")),
    ("multicast.js", include_bytes!("console/multicast.js")),
    ("problem.js", include_bytes!("console/problem.js")),
    ("elements.js", include_bytes!("console/elements.js")),
    ("server.js", include_bytes!("console/server.js")),
    ("icon.svg", include_bytes!("console/icon.svg")),
    ("graphiql.min.css", include_bytes!("console/vendor/graphiql.min.css")),
    ("graphiql.min.js", include_bytes!("console/vendor/graphiql.min.js")),
    ("react.production.min.js", include_bytes!("console/vendor/react.production.min.js")),
    ("react-dom.production.min.js", include_bytes!("console/vendor/react-dom.production.min.js")),
];

/// What a page may load and connect to; no page may be framed.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// The dialogs of GraphiQL need inline styles.
const POLICY_OF_GRAPHIQL: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// These two headers give a page its own process, and clocks with microsecond resolution.
const ISOLATION: [(HeaderName, HeaderValue); 2] = [
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-embedder-policy"), HeaderValue::from_static("require-corp")),
];

impl Console {
    /// Creates the console from its embedded files.
    pub fn new() -> Self {
        Self(Site::embedded(&FILES))
    }

    /// Answers a request; `None` if no file has its path.
    ///
    /// # Errors
    /// 405; 406; 412.
    pub fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Result<Response>> {
        let name = uri.path().strip_prefix(PATH)?;
        let name = if name.is_empty() { name } else { name.strip_prefix('/')? };
        let policy = if name == "graphiql.html" { POLICY_OF_GRAPHIQL } else { POLICY };
        let outcome = self.0.file_at(name, method, headers)?;
        Some(outcome.map(|response| {
            let mut response = response.map(|content| match content {
                Content::Memory(bytes) => bytes,
                Content::Disk(_) => unreachable!("files of the binary are in memory"),
            });
            let head = response.headers_mut();
            head.insert(CONTENT_SECURITY_POLICY, policy);
            head.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            head.extend(ISOLATION);
            response
        }))
    }
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the redirection to the console for a browser that requests `/`.
pub fn redirection(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let wanted = matches!(*method, Method::GET | Method::HEAD) && uri.path() == "/" && accepts_html(headers);
    wanted.then(|| {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        response.headers_mut().insert(LOCATION, HeaderValue::from_static(PATH));
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        // There may be a site later.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str) -> Option<Result<Response>> {
        Console::new().respond(&method, &path.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn all_files_are_there_and_nothing_else() {
        for path in ["/_console", "/_console/", "/_console?x"] {
            let page = ask(Method::GET, path).unwrap().unwrap();
            assert_eq!(page.status(), 200, "{path}");
            assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8", "{path}");
        }
        for (name, bytes) in FILES {
            let response = ask(Method::GET, &format!("/_console/{name}")).unwrap().unwrap();
            assert_eq!(response.body(), bytes, "{name}");
            assert!(response.headers()["content-security-policy"].to_str().unwrap().contains("script-src 'self';"));
        }
        for path in ["/_console/nothing", "/_consoles", "/_console//", "/_console/vendor/README.md", "/"] {
            assert!(ask(Method::GET, path).is_none(), "{path}");
        }
        assert!(ask(Method::POST, "/_console").unwrap().is_err());
    }

    #[test]
    fn the_pages_name_no_file_that_is_not_there_and_no_script_of_their_own() {
        for (name, bytes) in FILES.into_iter().filter(|(name, _)| name.ends_with(".html")) {
            let page = std::str::from_utf8(bytes).unwrap();
            let named = ["src=\"", "href=\""].into_iter().flat_map(|start| page.split(start).skip(1));
            let mut links = 0;
            let links_of_page = named.map(|rest| rest.split('"').next().unwrap());
            // The OpenAPI document is not a file of the console.
            for link in links_of_page.filter(|link| !link.starts_with('#') && *link != "/_openapi.json") {
                assert!(ask(Method::GET, link).is_some(), "{name}: {link}");
                links += 1;
            }
            assert!(links >= 5, "{name}");
            assert_eq!(
                page.matches("<script").count(),
                page.matches("></script>").count(),
                "{name}: a script in the page"
            );
            for inline in [" style=", "<style", " onclick=", " onload=", " onsubmit=", " oninput=", "javascript:"] {
                assert!(!page.contains(inline), "{name}: {inline}");
            }
        }
    }
}
