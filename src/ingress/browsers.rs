//! Protection against web pages in the browser of somebody who can reach this server.
//!
//! A browser sends requests on behalf of any page, and the only defence of the server is a firewall or a loopback address that the browser
//! is behind. So a page could *write* by a request that needs no preflight (CSRF), and it could *read* by a host name of its own that
//! resolves to this address (DNS rebinding). Against the former, unsafe methods are rejected from pages of another origin. Against the
//! latter, the server answers only to host names that nobody else can own. Clients that are not browsers send neither `Origin` nor
//! `Sec-Fetch-Site`, and only their host is checked.
//!
//! What a page must not read it may still *load*, as a picture or a script, and learn from the time that takes, or from what becomes of
//! it. So pages of another site load no data either, except where a person goes there (a resource isolation policy,
//! <https://web.dev/articles/fetch-metadata>). Uploads may be embedded, as files may; but they are not the operator's, and so no page
//! executes one, not even of this origin.
//!
//! Cross-origin requests are allowed (CORS) for the origins in `--cors-origin`; without it no response has a CORS header.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderName, ORIGIN,
    VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Options;
use crate::error::Error;
use crate::handlers::{Failure, Result};
use crate::routing;

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The request headers that a page of an allowed origin may set: all that the manual describes, except those that browsers set themselves.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, content-encoding, content-type, idempotency-key, if-match, if-modified-since, if-none-match, \
     if-range, if-unmodified-since, last-event-id, prefer, range, traceparent, tracestate",
);
/// The response headers that it may read besides the CORS-safelisted ones.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-encoding, accept-patch, accept-ranges, allow, content-encoding, content-range, etag, link, location, \
     preference-applied, retry-after, sunset, vary, x-request-id",
);
/// What a page executes, or what decides how it looks: the script-like destinations of the Fetch standard, style sheets, and XSLT, which
/// can execute scripts, too. (<https://fetch.spec.whatwg.org/#request-destination-script-like>)
const EXECUTED: [&str; 8] =
    ["script", "style", "xslt", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet"];
/// How long a browser may cache a preflight, in seconds.
const PREFLIGHT_LASTS: HeaderValue = HeaderValue::from_static("600");

/// A host name without a port. The dot that may end it says only that it is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl TryFrom<String> for HostName {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let byte_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let name = without_root(&text);
        match !name.is_empty() && name.bytes().all(byte_of_a_name) {
            true => Ok(Self(name.to_owned())),
            false => {
                Err(format!("{text:?} is not a host name: give it without a scheme and a port, as data.example.org"))
            }
        }
    }
}

/// The origin of a web page: scheme, host and port. The default port of the scheme is as none (RFC 9110, 4.2.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin {
    scheme: Scheme,
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: u16,
}

/// A scheme whose origins have hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Origin {
    /// Parses an origin; `None` for an opaque one (`null`), or one of another scheme.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_named = |known: &Scheme| known.name().eq_ignore_ascii_case(scheme);
        let scheme = [Scheme::Http, Scheme::Https].into_iter().find(is_named)?;
        let (name, port) = name_and_port(authority);
        let is_host = is_ipv6(name) || HostName::try_from(name.to_owned()).is_ok();
        is_host.then(|| Self { scheme, host: name.to_ascii_lowercase(), port: port.unwrap_or(scheme.default_port()) })
    }

    /// Returns whether its pages come from the requested host. The scheme of the request is unknown, because the server may be behind a
    /// proxy that terminates TLS; a request of the same origin has the same scheme, so a host without a port has its default port.
    fn is_of(&self, host: &str) -> bool {
        let (name, port) = name_and_port(host);
        self.host.eq_ignore_ascii_case(name) && self.port == port.unwrap_or(self.scheme.default_port())
    }
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("{text:?} is not an origin: give scheme, host and port, as https://app.example.org:8443")
        })
    }
}

impl From<HostName> for String {
    fn from(host: HostName) -> Self {
        host.0
    }
}

impl From<Origin> for String {
    fn from(Origin { scheme, host, port }: Origin) -> Self {
        match port == scheme.default_port() {
            true => format!("{}://{host}", scheme.name()),
            false => format!("{}://{host}:{port}", scheme.name()),
        }
    }
}

/// The allowed hosts and origins.
pub(super) struct Browsers {
    hosts: Vec<HostName>,
    origins: Vec<Origin>,
    /// The `Host` that was admitted last: most requests name the same.
    last: Mutex<HeaderValue>,
}

impl Browsers {
    pub(super) fn new(options: &Options) -> Self {
        let (hosts, origins) = (options.allowed_hosts.clone(), options.cors_origins.clone());
        Self { hosts, origins, last: Mutex::new(HeaderValue::from_static("localhost")) }
    }

    /// Checks whether the request may be routed.
    ///
    /// # Errors
    /// 400 without a host, or with two; 421 for a host that is not one of ours; 403 for an unsafe request from a page of another origin.
    pub(super) fn admit(&self, parts: &Parts) -> Result<()> {
        let only = only_host(parts);
        if only.is_none_or(|host| *host != *self.last.lock()) {
            self.host(parts)?;
            // A copy: the request would stay in memory.
            if let Some(Ok(host)) = only.map(|host| HeaderValue::from_bytes(host.as_bytes())) {
                *self.last.lock() = host;
            }
        }
        if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        let foreign = match parts.headers.get(ORIGIN) {
            Some(origin) => {
                let host = self.host(parts)?;
                parsed(origin).is_none_or(|origin| !origin.is_of(host) && !self.origins.contains(&origin))
            }
            None => is_cross_site(&parts.headers),
        };
        if foreign { Err(Failure::ForeignOrigin) } else { Ok(()) }
    }

    /// Checks whether data may be read: not by a page of another site, unless its origin is allowed or a person goes to the document.
    ///
    /// # Errors
    /// 403.
    pub(super) fn admit_to_data(&self, parts: &Parts) -> Result<()> {
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let is = |name, value: &str| parts.headers.get(name).is_some_and(|found| found == value);
        let may = !(reads && is_cross_site(&parts.headers))
            || is(SEC_FETCH_MODE, "navigate") && is(SEC_FETCH_DEST, "document")
            || self.allowed_origin(parts).is_some();
        if may { Ok(()) } else { Err(Failure::ForeignOrigin) }
    }

    /// Checks whether an upload may be read: not to be executed.
    ///
    /// # Errors
    /// 403.
    pub(super) fn admit_to_upload(parts: &Parts) -> Result<()> {
        let executed = parts.headers.get(SEC_FETCH_DEST).filter(|to| EXECUTED.iter().any(|executed| to == executed));
        if executed.is_some() { Err(Failure::ExecutedUpload) } else { Ok(()) }
    }

    fn allowed_origin<'p>(&self, parts: &'p Parts) -> Option<&'p HeaderValue> {
        let origin = parts.headers.get(ORIGIN);
        origin.filter(|origin| parsed(origin).is_some_and(|origin| self.origins.contains(&origin)))
    }

    /// Returns `:authority` in HTTP/2, else `Host`; empty if an HTTP/1.0 request has none.
    fn host<'p>(&self, parts: &'p Parts) -> Result<&'p str> {
        let mut named = parts.headers.get_all(HOST).into_iter();
        let (first, second) = (named.next(), named.next());
        let header = match first.map(HeaderValue::to_str) {
            None => None,
            Some(Ok(text)) if second.is_none() => Some(text),
            Some(_) => return Err(Error::invalid("the request has more than one host").into()),
        };
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let Some(host) = authority.or(header) else {
            return match parts.version {
                Version::HTTP_09 | Version::HTTP_10 => Ok(""),
                _ => Err(Error::invalid("the request has no host").into()),
            };
        };
        for host in [authority, header].into_iter().flatten() {
            if !self.answers_to(name_and_port(host).0) {
                return Err(Failure::Misdirected { host: host.to_owned() });
            }
        }
        Ok(host)
    }

    fn answers_to(&self, name: &str) -> bool {
        let name = without_root(name);
        name.parse::<Ipv4Addr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || is_ipv6(name)
            || self.hosts.iter().any(|host| host.0.eq_ignore_ascii_case(name))
    }

    /// Returns whether responses depend on the origin.
    pub(super) fn allow_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Returns the CORS headers for a request.
    pub(super) fn cors(&self, parts: &Parts) -> Cors {
        let origin = self.allowed_origin(parts);
        let preflight = parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        Cors { origin: origin.cloned(), preflight }
    }
}

/// The CORS headers of a response: which origin may read it, and what its pages may send.
pub(super) struct Cors {
    origin: Option<HeaderValue>,
    preflight: bool,
}

impl Cors {
    pub(super) fn write(self, headers: &mut HeaderMap) {
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.preflight {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(routing::METHODS));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_LASTS);
        } else {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, RESPONSE_HEADERS);
        }
    }
}

/// Returns the `Host` of a request that names its host nowhere else.
fn only_host(parts: &Parts) -> Option<&HeaderValue> {
    let mut named = parts.headers.get_all(HOST).into_iter();
    named.next().filter(|_| named.next().is_none() && parts.uri.authority().is_none())
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    // To look at the few names of a request costs less than to hash this one.
    headers.iter().any(|(name, site)| name == SEC_FETCH_SITE && site == "cross-site")
}

/// Splits a host into its name and its port; an empty port is as none (RFC 3986, 6.2.3).
fn name_and_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, "")) => (name, None),
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && let Ok(port) = port.parse() =>
        {
            (name, Some(port))
        }
        _ => (host, None),
    }
}

/// Strips the dot that stands for the root of the name system.
fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_ipv6(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

fn parsed(origin: &HeaderValue) -> Option<Origin> {
    origin.to_str().ok().and_then(Origin::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn browsers(hosts: &[&str], origins: &[&str]) -> Browsers {
        let allowed_hosts = hosts.iter().map(|host| HostName::try_from((*host).to_owned()).unwrap()).collect();
        let cors_origins = origins.iter().map(|origin| Origin::try_from((*origin).to_owned()).unwrap()).collect();
        Browsers::new(&Options { allowed_hosts, cors_origins, ..Options::default() })
    }

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/Product");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(browsers: &Browsers, method: &str, headers: &[(&str, &str)]) -> u16 {
        browsers.admit(&parts(method, headers)).map_or_else(|failure| failure.respond(None).status().as_u16(), |()| 200)
    }

    #[test]
    fn hosts_that_nobody_else_can_own() {
        let browsers = browsers(&["data.example.org"], &[]);
        for host in [
            "127.0.0.1:9996",
            "192.0.2.1",
            "[::1]:9996",
            "[2001:db8::1]",
            "localhost",
            "LocalHost:80",
            "Data.example.org:443",
            "data.example.org.",
            "localhost.:9996",
            "localhost:",
        ] {
            assert_eq!(status(&browsers, "GET", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "rebound.example",
            "localhost.evil.example:9996",
            "127.0.0.1.evil.example",
            "user@localhost",
            "[::1",
            "",
            ".",
            "::1",
            "localhost:70000",
            "localhost:+80",
        ] {
            assert_eq!(status(&browsers, "GET", &[("host", host)]), 421, "{host}");
        }
        for (host, expected) in
            [("data.example.org", 200), ("rebound.example", 421), ("data.example.org", 200), ("", 421)]
        {
            assert_eq!(status(&browsers, "GET", &[("host", host)]), expected, "{host}, whoever was admitted before");
        }
        assert_eq!(status(&browsers, "GET", &[]), 400);
        assert_eq!(status(&browsers, "GET", &[("host", "localhost"), ("host", "localhost")]), 400);
        let (mut old, ()) = Request::get("/").version(Version::HTTP_10).body(()).unwrap().into_parts();
        assert!(browsers.admit(&old).is_ok(), "HTTP/1.0 knows no host");
        old.uri = "http://rebound.example/".parse().unwrap();
        assert!(browsers.admit(&old).is_err());
    }

    #[test]
    fn pages_of_other_origins_read_at_most() {
        let browsers = browsers(&[], &["https://app.example.org"]);
        let host = ("host", "localhost:9996");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            for (name, value, expected) in [
                ("origin", "http://localhost:9996", 200),
                ("origin", "https://app.example.org", 200),
                ("origin", "http://localhost:8000", 403),
                ("origin", "https://evil.example", 403),
                ("origin", "null", 403),
                ("sec-fetch-site", "cross-site", 403),
                ("sec-fetch-site", "same-origin", 200),
                ("sec-fetch-site", "none", 200),
                ("accept", "*/*", 200),
            ] {
                assert_eq!(status(&browsers, method, &[host, (name, value)]), expected, "{method} {name} {value}");
            }
        }
        assert_eq!(
            status(&browsers, "GET", &[host, ("origin", "https://evil.example")]),
            200,
            "it cannot read the response"
        );
        let allowed = [host, ("origin", "https://app.example.org"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&browsers, "POST", &allowed), 200);
    }

    #[test]
    fn the_default_port_of_a_scheme_is_as_none() {
        let browsers = browsers(&["data.example.org"], &["https://app.example.org:443", "http://[::1]:3000"]);
        for (host, origin, expected) in [
            ("data.example.org:443", "https://data.example.org", 200),
            ("data.example.org", "https://data.example.org:443", 200),
            ("data.example.org:80", "http://data.example.org", 200),
            ("Data.Example.org:", "http://data.example.org:80", 200),
            ("data.example.org", "https://data.example.org", 200),
            ("data.example.org", "http://data.example.org", 200),
            ("data.example.org:8443", "https://data.example.org:8443", 200),
            ("[::1]:443", "https://[::1]", 200),
            ("127.0.0.1:80", "http://127.0.0.1", 200),
            ("data.example.org:443", "http://data.example.org", 403),
            ("data.example.org", "http://data.example.org:443", 403),
            ("data.example.org:80", "https://data.example.org", 403),
            ("data.example.org", "https://data.example.org:80", 403),
            ("data.example.org:8443", "https://data.example.org", 403),
            ("data.example.org", "https://data.example.org:8443", 403),
            ("data.example.org", "https://evil.example", 403),
            ("data.example.org", "https://data.example.org.", 403),
            ("data.example.org", "ftp://data.example.org", 403),
            ("data.example.org", "https://app.example.org", 200),
            ("data.example.org", "https://App.example.org:443", 200),
            ("data.example.org", "http://app.example.org:443", 403),
            ("data.example.org", "http://[::1]:3000", 200),
            ("data.example.org", "http://[::1]", 403),
        ] {
            let headers = [("host", host), ("origin", origin)];
            assert_eq!(status(&browsers, "PUT", &headers), expected, "{host} {origin}");
        }
        let mut in_http2 = parts("PUT", &[("origin", "https://data.example.org")]);
        in_http2.uri = "https://data.example.org:443/Product".parse().unwrap();
        assert!(browsers.admit(&in_http2).is_ok());
        for (given, written) in
            [("HTTPS://App.example.org:443", "https://app.example.org"), ("http://a:443", "http://a:443")]
        {
            assert_eq!(String::from(Origin::try_from(given.to_owned()).unwrap()), written);
        }
    }

    #[test]
    fn an_allowed_origin_is_told_so_and_others_nothing() {
        let browsers = browsers(&[], &["https://App.example.org"]);
        let told = |method, headers: &[(&str, &str)]| {
            let mut response = HeaderMap::new();
            browsers.cors(&parts(method, headers)).write(&mut response);
            response
        };
        let ours = ("origin", "https://app.example.org");
        let preflight = told("OPTIONS", &[ours, ("access-control-request-method", "PUT")]);
        assert_eq!(preflight[ACCESS_CONTROL_ALLOW_ORIGIN], ours.1);
        assert!(preflight[ACCESS_CONTROL_ALLOW_METHODS].to_str().unwrap().contains("PUT"));
        let response = told("GET", &[ours]);
        assert!(response[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap().contains("etag"));
        let other = told("GET", &[("origin", "https://evil.example")]);
        assert_eq!((other.len(), &other[VARY]), (1, &HeaderValue::from_static("origin")));
    }

    #[test]
    fn what_can_be_no_host_and_no_origin_is_refused_at_the_start() {
        for host in ["http://a", "a:80", ""] {
            assert!(HostName::try_from(host.to_owned()).is_err(), "{host}");
        }
        for origin in
            ["*", "null", "app.example.org", "https://app.example.org/", "https://", "https://a:b", "https://u@a"]
        {
            assert!(Origin::try_from(origin.to_owned()).is_err(), "{origin}");
        }
    }
}
