//! The URL of a server, as RFC 3986 defines it: `http` or `https`, a host, and a port if it is not that of the scheme.
//!
//! Why no library: only the authority of a URL is used here, and whatever else one can hold is refused by name. What is left out or read in
//! another way in silence sends the load to another server.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use http::uri::Authority;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// True for HTTP over TLS: `https`.
    pub tls: bool,
    /// A name in lower case, or an address (one of version 6 without its brackets).
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port, as requests name them.
    pub authority: Authority,
}

impl Url {
    /// All addresses of its host. At least one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<_> = found.map_err(|error| format!("{self}: no such host: {error}"))?.collect();
        if found.is_empty() { Err(format!("{self}: no such host")) } else { Ok(found) }
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |reason: &str| format!("{reason}; a server is http://HOST:PORT or https://HOST:PORT");
        if text.is_empty() {
            return Err(refused("it is empty"));
        }
        if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(refused("a URL has no blanks"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refused("no scheme"));
        };
        let (tls, usual_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(refused(&format!("the scheme {scheme} is not spoken"))),
        };
        let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        match behind {
            "" | "/" => {}
            _ if behind.contains('#') => return Err(refused("no request has a fragment (#)")),
            _ if behind.contains('?') => return Err(refused("a query (?) is the scenario's")),
            _ => return Err(refused("a path is the scenario's")),
        }
        if authority.contains('@') {
            return Err(refused("no user or password (@) is sent"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(literal) => {
                let (address, port) = literal.split_once(']').ok_or_else(|| refused("a [ without its ]"))?;
                if address.contains('%') {
                    return Err(refused("an address with a zone (%) is not spoken to"));
                }
                let address: Ipv6Addr =
                    address.parse().map_err(|_| refused(&format!("[{address}] is no address of IPv6")))?;
                (format!("[{address}]"), port)
            }
            None => {
                let (name, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
                if port.rfind(':') > Some(0) {
                    return Err(refused("an address of IPv6 stands in brackets, as in http://[::1]:9996"));
                }
                (named(name).map_err(|reason| refused(&reason))?, port)
            }
        };
        let digits = match (port, port.strip_prefix(':')) {
            ("", _) => "",
            (_, Some(digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits,
            _ => return Err(refused(&format!("{port} is no port"))),
        };
        let port = if digits.is_empty() { Some(usual_port) } else { digits.parse().ok() };
        let port = port.filter(|port| *port > 0).ok_or_else(|| refused(&format!("no port is {digits}: 1 to 65535")))?;
        let authority = if digits.is_empty() { host.clone() } else { format!("{host}:{port}") };
        let authority = authority.parse().map_err(|error| refused(&format!("{host}: {error}")))?;
        Ok(Self { tls, host: host.trim_matches(['[', ']']).to_owned(), port, authority })
    }
}

/// A host that is no address of IPv6, in lower case.
fn named(host: &str) -> Result<String, String> {
    if host.is_empty() {
        return Err("no host".to_owned());
    }
    if host.contains('%') {
        return Err("percent-encoding (%) in a host is not read".to_owned());
    }
    if let Some(letter) = host.chars().find(|letter| !letter.is_ascii_alphanumeric() && !"-._".contains(*letter)) {
        return Err(format!("no host has {letter:?} in its name"));
    }
    if host.ends_with('.') {
        return Err("a host that ends with a dot is not spoken to: leave the dot out".to_owned());
    }
    // What the system would read as an address in another notation: 127.1, 0x7f000001, 2130706433.
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let is_number = last.bytes().all(|digit| digit.is_ascii_digit()) || last.starts_with("0x");
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        return Err(format!("{host} is no address of IPv4: four numbers from 0 to 255"));
    }
    Ok(host.to_ascii_lowercase())
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Url {
        text.parse().unwrap_or_else(|reason| panic!("{text}: {reason}"))
    }

    #[test]
    fn a_url_means_what_rfc_3986_says() {
        for (text, tls, host, port, authority) in [
            ("http://127.0.0.1:9996", false, "127.0.0.1", 9996, "127.0.0.1:9996"),
            ("http://127.0.0.1:9996/", false, "127.0.0.1", 9996, "127.0.0.1:9996"),
            ("HTTPS://LocalHost", true, "localhost", 443, "localhost"),
            ("http://localhost:/", false, "localhost", 80, "localhost"),
            ("http://localhost:009996", false, "localhost", 9996, "localhost:9996"),
            ("http://[::1]", false, "::1", 80, "[::1]"),
            ("https://[0:0::1]:1", true, "::1", 1, "[::1]:1"),
            ("http://a-b_c.example:65535", false, "a-b_c.example", 65535, "a-b_c.example:65535"),
            ("http://0xa.example", false, "0xa.example", 80, "0xa.example"),
        ] {
            let url = read(text);
            assert_eq!((url.tls, url.host.as_str(), url.port, url.authority.as_str()), (tls, host, port, authority));
            assert_eq!(read(&url.to_string()), url);
        }
    }

    #[test]
    fn what_is_not_used_is_refused_by_name() {
        for (text, word) in [
            ("", "empty"),
            (" http://h", "blanks"),
            ("http://h ", "blanks"),
            ("http://h\n", "blanks"),
            ("h:9996", "scheme"),
            ("http:h", "scheme"),
            ("//h", "scheme"),
            ("ftp://h", "ftp"),
            ("://h", "scheme"),
            ("http://", "no host"),
            ("http:///", "no host"),
            ("http://:9996", "no host"),
            ("http://u:p@h:9996", "password"),
            ("http://u@h", "user"),
            ("http://@h", "user"),
            ("http://h:0", "port"),
            ("http://h:99999", "65535"),
            ("http://h:65536", "65535"),
            ("http://h:99999999999999999999", "65535"),
            ("http://h:-1", "port"),
            ("http://h:+80", "port"),
            ("http://h:80a", "port"),
            ("http://h/a", "path"),
            ("http://h//", "path"),
            ("http://h?", "query"),
            ("http://h/?a=b", "query"),
            ("http://h#", "fragment"),
            ("http://h/?a#b", "fragment"),
            ("http://h./", "dot"),
            ("http://127.0.0.1.:80", "dot"),
            ("http://127.0.0%2e1", "percent"),
            ("http://::1:9996", "brackets"),
            ("http://[::1", "]"),
            ("http://[::1]9996", "port"),
            ("http://[fe80::1%25lo]:9996", "zone"),
            ("http://[v1.a]", "IPv6"),
            ("http://[127.0.0.1]", "IPv6"),
            ("http://127.1", "IPv4"),
            ("http://2130706433", "IPv4"),
            ("http://0x7f000001", "IPv4"),
            ("http://127.0.0.256", "IPv4"),
            ("http://a\\b", "host"),
            ("http://[::1]@h", "user"),
            ("http://höst", "host"),
        ] {
            let reason = text.parse::<Url>().expect_err(text);
            assert!(reason.contains(word), "{text}: {reason}");
        }
    }
}
