//! Who sends a request: a client, and whether it is on this machine.
//!
//! A request that a proxy passes on comes from the proxy's address, which may be a loopback address although the client is anywhere. So a
//! header that only a proxy adds makes a request one of another machine, whoever sent it: to claim that gains nothing. The opposite claim,
//! the address of another client, is believed only of the proxies that `--trusted-proxy` names.
//!
//! Neither costs a request anything until it is asked for.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use http::header::{FORWARDED, HeaderName, VIA};
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// A range of addresses, as `10.0.0.0/8` or `2001:db8::/32`; one address is a range, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    /// The first address.
    first: IpAddr,
    /// The number of leading bits that all its addresses share.
    shared_bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let (first, all_bits) = (address.to_canonical(), width(address));
        let is_number = |bits: &&str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            Some(bits) => Some(bits).filter(is_number)?.parse().ok().filter(|bits| *bits <= all_bits)?,
            None => all_bits,
        };
        // An IPv4-mapped address has its IPv4 address at the end.
        let shared_bits = bits.checked_sub(all_bits - width(first))?;
        Some(Self { first: masked(first, shared_bits), shared_bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.shared_bits) == self.first
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("{text:?} is no range of addresses: give an address and a number of bits, as 10.0.0.0/8")
        })
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.shared_bits)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the first address that shares this many leading bits.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            IpAddr::from((address.to_bits() & u32::MAX.checked_shl(32 - bits).unwrap_or(0)).to_be_bytes())
        }
        IpAddr::V6(address) => {
            IpAddr::from((address.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)).to_be_bytes())
        }
    }
}

/// A client: an address. Two IPv6 addresses of one /64 are one client, because that is what a network gives to one host, which may use all
/// of it; an IPv4-mapped IPv6 address is that IPv4 address.
#[derive(Clone, Copy, Debug)]
pub struct Client(IpAddr);

impl Client {
    /// Returns the client whose request came from `peer` with these headers.
    ///
    /// Behind trusted proxies it is the rightmost address in `Forwarded` or `X-Forwarded-For` that is not one of theirs. Where both fields
    /// stand, nobody knows which of them the proxy wrote; then, and where that is no address, it is the proxy itself.
    pub(super) fn of(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> Self {
        let peer = peer.to_canonical();
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
        if !is_trusted(peer) {
            return Self(peer);
        }
        let hops: Vec<_> = match (headers.contains_key(FORWARDED), headers.contains_key(X_FORWARDED_FOR)) {
            (true, false) => elements(headers, &FORWARDED).map(forwarded_for).collect(),
            (false, true) => elements(headers, &X_FORWARDED_FOR).map(address).collect(),
            _ => return Self(peer),
        };
        let nearest = hops.into_iter().rev().find(|hop| !hop.is_some_and(is_trusted));
        Self(nearest.flatten().unwrap_or(peer))
    }

    /// Returns the client at an address.
    pub fn at(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }

    /// Returns the whole address.
    pub fn address(self) -> IpAddr {
        self.0
    }

    /// Returns what makes it the same as another.
    fn network(self) -> IpAddr {
        if self.0.is_ipv6() { masked(self.0, 64) } else { self.0 }
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.network() == other.network()
    }
}

impl Eq for Client {}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.network().hash(state);
    }
}

/// Returns whether a request comes from this machine: from a loopback address, and not through a proxy.
pub(super) fn is_local(peer: IpAddr, headers: &HeaderMap) -> bool {
    let is_of_proxies = |name: &HeaderName| {
        *name == FORWARDED || *name == VIA || *name == X_REAL_IP || name.as_str().starts_with("x-forwarded-")
    };
    peer.to_canonical().is_loopback() && !headers.keys().any(is_of_proxies)
}

/// Returns the elements of a list field over all its lines, in their order; empty ones mean nothing.
fn elements<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let lines = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    lines.flat_map(|line| parts(line, b',')).filter(|element| !element.is_empty())
}

/// Splits a text at a separator, except in quoted strings (RFC 9110, 5.6.4). One that does not end reaches to the end of the text.
fn parts(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let is_end = move |byte: &u8| {
        let is_end = *byte == separator && !quoted;
        (quoted, escaped) = match byte {
            _ if escaped => (quoted, false),
            b'\\' => (quoted, quoted),
            b'"' => (!quoted, false),
            _ => (quoted, false),
        };
        is_end
    };
    text.split(is_end).map(<[u8]>::trim_ascii)
}

/// Returns the address in an element of `Forwarded` (RFC 7239, 4); `None` if it has none, or is not of that form throughout: a quoted
/// string that a client left open would hide what a proxy appended.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in parts(element, b';').filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let value = unquoted(&pair[equals + 1..])?;
        if pair[..equals].eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    found.and_then(address)
}

/// Strips the quotes of a value. No address has a character that would be escaped.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let inner = match value.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\"")?,
        None => value,
    };
    (!inner.iter().any(|byte| matches!(byte, b'"' | b'\\'))).then_some(inner)
}

/// Returns the address of a node (RFC 7239, 6), which may have a port; `None` if it is `unknown`, obfuscated, or nothing of the kind. An
/// IPv6 address without a port may have no brackets.
fn address(node: &[u8]) -> Option<IpAddr> {
    let node = std::str::from_utf8(node).ok()?;
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (address, port) = match node.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (IpAddr::from(address.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let at = node.find(':')?;
            (IpAddr::V4(node[..at].parse().ok()?), &node[at..])
        }
    };
    (port.is_empty() || is_port(port.strip_prefix(':')?)).then_some(address.to_canonical())
}

/// Returns whether it is a port, or an obfuscated one.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => matches!(port.len(), 1..=5) && port.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        pairs.iter().map(field).collect()
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| Network::try_from((*text).to_owned()).unwrap()).collect()
    }

    /// The address of a client behind a proxy at 10.0.0.1; all of 10.0.0.0/8 and 2001:db8:ffff::/48 is trusted.
    fn behind(pairs: &[(&'static str, &str)]) -> String {
        let trusted = networks(&["10.0.0.0/8", "2001:db8:ffff::/48"]);
        Client::of("10.0.0.1".parse().unwrap(), &headers(pairs), &trusted).address().to_string()
    }

    #[test]
    fn a_request_through_a_proxy_is_not_local() {
        let local = |peer: &str, pairs: &[(&'static str, &str)]| is_local(peer.parse().unwrap(), &headers(pairs));
        for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(local(peer, &[("accept", "*/*"), ("x-request-id", "1")]), "{peer}");
            for name in [
                "forwarded",
                "x-forwarded-for",
                "x-forwarded-proto",
                "x-forwarded-host",
                "x-forwarded-anything",
                "x-real-ip",
                "via",
            ] {
                for value in ["127.0.0.1", ""] {
                    assert!(!local(peer, &[("accept", "*/*"), (name, value)]), "{peer} {name}");
                }
            }
        }
        for peer in ["192.0.2.1", "10.0.0.1", "::", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!local(peer, &[]), "{peer}");
        }
    }

    #[test]
    fn the_rightmost_address_that_is_not_trusted_is_the_client() {
        for (list, expected) in [
            ("203.0.113.9", "203.0.113.9"),
            ("198.51.100.7, 203.0.113.9", "203.0.113.9"),
            ("203.0.113.9, 10.1.1.1 ,10.2.2.2", "203.0.113.9"),
            ("203.0.113.9,, 10.1.1.1,", "203.0.113.9"),
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8::9]:443", "2001:db8::9"),
            ("[2001:db8::9]", "2001:db8::9"),
            ("2001:db8::9, 2001:db8:ffff::1", "2001:db8::9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("203.0.113.9, ::ffff:10.1.1.1", "203.0.113.9"),
            // The proxy's own.
            ("", "10.0.0.1"),
            ("10.1.1.1", "10.0.0.1"),
            ("unknown", "10.0.0.1"),
            ("203.0.113.9, unknown", "10.0.0.1"),
            ("203.0.113.9, unknown, 10.1.1.1", "10.0.0.1"),
            ("203.0.113.9, _hidden", "10.0.0.1"),
            ("203.0.113.9, 203.0.113", "10.0.0.1"),
            ("203.0.113.9:", "10.0.0.1"),
            ("203.0.113.9:123456", "10.0.0.1"),
            ("203.0.113.9 198.51.100.7", "10.0.0.1"),
            ("[203.0.113.9]", "10.0.0.1"),
            ("[2001:db8::9", "10.0.0.1"),
            ("\u{e9}", "10.0.0.1"),
        ] {
            assert_eq!(behind(&[("x-forwarded-for", list)]), expected, "{list}");
        }
        let lines = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "198.51.100.7, 10.1.1.1")];
        assert_eq!(behind(&lines), "198.51.100.7", "several lines are one list");
        assert_eq!(behind(&[("x-real-ip", "203.0.113.9"), ("via", "1.1 proxy")]), "10.0.0.1");
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_says() {
        for (list, expected) in [
            ("for=203.0.113.9", "203.0.113.9"),
            ("For=\"203.0.113.9:4711\";proto=https;by=10.0.0.1", "203.0.113.9"),
            ("proto=https ; FOR=203.0.113.9", "203.0.113.9"),
            ("for=198.51.100.7, for=203.0.113.9;host=\"a,b;for=10.9.9.9\"", "203.0.113.9"),
            ("for=\"[2001:db8::9]\"", "2001:db8::9"),
            ("for=\"[2001:db8::9]:_port\", for=10.1.1.1", "2001:db8::9"),
            // The proxy's own.
            ("for=unknown", "10.0.0.1"),
            ("for=203.0.113.9, for=_hidden", "10.0.0.1"),
            ("for=203.0.113.9, proto=https", "10.0.0.1"),
            ("for=203.0.113.9;for=198.51.100.7", "10.0.0.1"),
            ("203.0.113.9", "10.0.0.1"),
            // A client leaves a quoted string open, before what the proxy appends.
            ("for=192.0.2.6;a=\", for=203.0.113.9", "10.0.0.1"),
            ("for=192.0.2.6;a=\"\\, for=203.0.113.9", "10.0.0.1"),
            ("for=192.0.2.6;a=\", for=203.0.113.9, for=\"[2001:db8:ffff::1]\"", "10.0.0.1"),
        ] {
            assert_eq!(behind(&[("forwarded", list)]), expected, "{list}");
        }
        let lines = [("forwarded", "for=192.0.2.6;a=\""), ("forwarded", "for=203.0.113.9")];
        assert_eq!(behind(&lines), "203.0.113.9", "what a client left open ends with its line");
        let both = [("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(behind(&both), "10.0.0.1", "one of them is the client's");
    }

    #[test]
    fn nobody_else_is_believed() {
        let claim = headers(&[("x-forwarded-for", "203.0.113.9")]);
        let of = |peer: &str, trusted: &[&str]| {
            Client::of(peer.parse().unwrap(), &claim, &networks(trusted)).address().to_string()
        };
        assert_eq!(of("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(of("192.0.2.1", &["10.0.0.0/8"]), "192.0.2.1");
        assert_eq!(of("::ffff:10.0.0.1", &["10.0.0.0/8"]), "203.0.113.9", "a socket for both versions");
        assert_eq!(of("10.0.0.1", &["::/0"]), "10.0.0.1", "of the other version");
    }

    #[test]
    fn a_client_has_a_whole_network_of_ipv6() {
        let client = |address: &str| Client::of(address.parse().unwrap(), &HeaderMap::new(), &[]);
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_eq!(client("2001:db8::1").address().to_string(), "2001:db8::1");
        let clients: HashSet<_> = ["2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1"].map(client).into();
        assert_eq!(clients.len(), 2);
    }

    #[test]
    fn networks_are_read_and_written() {
        for (given, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1/128"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            assert_eq!(networks(&[given])[0].to_string(), written);
        }
        for wrong in
            ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "localhost", "::ffff:0:0/95", "1/8"]
        {
            assert!(Network::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
        let contains = |network: &str, address: &str| networks(&[network])[0].contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.255.255") && !contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("2001:db8::/33", "2001:db8:7fff::") && !contains("2001:db8::/33", "2001:db8:8000::"));
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"));
    }
}
