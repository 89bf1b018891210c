//! Who is on the same machine, and who a client is: a proxy's requests come from its own address.

use std::fs;
use std::net::IpAddr;

use strata::ingress::Network;

use super::client::{Connection, ask, ask_with, start};

/// What only clients on the same machine may ask for.
const LOCAL: [(&str, &str, u16); 5] = [
    ("POST", "/_checkpoint", 201),
    ("GET", "/_counters", 200),
    ("GET", "/_stats", 200),
    ("GET", "/_console", 200),
    ("GET", "/_console/console.js", 200),
];

/// The header fields by which a proxy says that it is one.
const OF_PROXIES: [(&str, &str); 7] = [
    ("Forwarded", "for=127.0.0.1"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("x-forwarded-for", "127.0.0.1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Prefix", ""),
    ("X-Real-IP", "127.0.0.1"),
    ("Via", "1.1 proxy"),
];

fn networks(texts: &[&str]) -> Vec<Network> {
    texts.iter().map(|text| (*text).to_owned().try_into().unwrap()).collect()
}

#[test]
fn what_comes_through_a_proxy_is_not_of_the_same_machine() {
    for trusted in [&[][..], &["127.0.0.0/8", "203.0.113.0/24"]] {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path(), |config| {
            config.checkpoint_dir = Some(folder.path().to_owned());
            config.ingress.trusted_proxies = networks(trusted);
        });
        let page = ("Accept", "text/html");
        for (method, path, status) in LOCAL {
            assert_eq!(ask(server.url(), method, path, "").status, status, "{method} {path}");
            for field in OF_PROXIES {
                let response = ask_with(server.url(), method, path, &[field], b"");
                assert_eq!(response.status, 403, "{method} {path} with {field:?}");
            }
        }
        assert_eq!(ask_with(server.url(), "GET", "/", &[page], b"").status, 307);
        let counts = |fields: &[(&str, &str)]| {
            ask_with(server.url(), "GET", "/_metrics", fields, b"").body.contains("strata_storage_")
        };
        assert!(counts(&[]));
        for field in OF_PROXIES {
            assert_eq!(ask_with(server.url(), "GET", "/", &[page, field], b"").status, 404, "{field:?}");
            assert!(!counts(&[field]), "{field:?}");
            assert_eq!(ask_with(server.url(), "GET", "/_health", &[field], b"").status, 200, "{field:?}");
        }
        server.stop().unwrap();
    }
}

#[test]
fn the_access_log_has_the_client_behind_trusted_proxies() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let server = start(folder.path(), |config| {
        config.observability.access_log = Some(log.clone());
        config.ingress.trusted_proxies = networks(&["127.0.0.9", "10.0.0.0/8"]);
    });
    let (proxy, other): (IpAddr, IpAddr) = ("127.0.0.9".parse().unwrap(), "127.0.0.8".parse().unwrap());
    let requests = [
        (proxy, &[("X-Forwarded-For", "198.51.100.7, 203.0.113.9, 10.1.1.1")][..], "203.0.113.9"),
        (proxy, &[("X-Forwarded-For", "198.51.100.7"), ("X-Forwarded-For", "203.0.113.9")], "203.0.113.9"),
        (proxy, &[("Forwarded", "for=\"[2001:db8::9]:4711\";proto=https, for=10.1.1.1")], "2001:db8::9"),
        (proxy, &[("Forwarded", "for=203.0.113.9"), ("X-Forwarded-For", "203.0.113.9")], "127.0.0.9"),
        (proxy, &[("X-Forwarded-For", "203.0.113.9, unknown")], "127.0.0.9"),
        (proxy, &[], "127.0.0.9"),
        (other, &[("X-Forwarded-For", "203.0.113.9")], "127.0.0.8"),
        (other, &[("Forwarded", "for=203.0.113.9")], "127.0.0.8"),
    ];
    for (from, fields, _) in requests {
        assert_eq!(Connection::open_from(from, server.url()).request_with("GET", "/_ready", fields, b"").status, 200);
    }
    server.stop().unwrap();
    let text = fs::read_to_string(log).unwrap();
    let peers: Vec<_> =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["peer"].clone()).collect();
    assert_eq!(peers, requests.map(|(.., expected)| expected));
}
