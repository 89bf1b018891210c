//! The URL of a database: `tikv://host:port,host:port?prefix=main`, the addresses of PD.
//!
//! Parameters: `prefix` (all keys begin with `strata_`, this name and a zero; `main`), `gc` (`on`, or `off` where another program, such as
//! TiDB, collects what nobody can read any more) and `ids` (of records that name none: `v4`, which are written to all regions alike, or `v7`,
//! which are adjacent).

use crate::error::{Error, Result};

/// Where the database is.
pub struct Url {
    /// `host:port` of each PD.
    pub endpoints: Vec<String>,
    /// What all keys begin with.
    pub prefix: Vec<u8>,
    pub collects_garbage: bool,
    pub has_random_ids: bool,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// `Invalid`, with what is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| Err(Error::invalid(format!("storage: {why}")));
        let rest = text.strip_prefix("tikv://").unwrap_or(text);
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.trim_end_matches('/');
        let is_endpoint = |text: &str| {
            let (host, port) = text.rsplit_once(':').unwrap_or_default();
            !host.is_empty() && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        let mut endpoints: Vec<_> = address.split(',').map(str::to_owned).collect();
        if !endpoints.iter().all(|endpoint| is_endpoint(endpoint)) {
            return invalid("the URL names the addresses of PD: tikv://HOST:PORT,HOST:PORT");
        }
        endpoints.sort();
        endpoints.dedup();
        let (mut prefix, mut collects_garbage, mut has_random_ids) = ("main", true, true);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("prefix", name) => prefix = name,
                ("gc", state @ ("on" | "off")) => collects_garbage = state == "on",
                ("gc", _) => return invalid("gc is on or off"),
                ("ids", kind @ ("v4" | "v7")) => has_random_ids = kind == "v4",
                ("ids", _) => return invalid("ids is v4 or v7"),
                (name, _) => {
                    return invalid(&format!("the URL has the parameter {name:?}: prefix, gc and ids are known"));
                }
            }
        }
        let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if prefix.is_empty() || prefix.len() > 40 || !prefix.bytes().all(is_of_name) {
            return invalid("prefix is a name of 1 to 40 lower-case letters, digits and underscores");
        }
        let prefix = format!("strata_{prefix}\0").into_bytes();
        Ok(Self { endpoints, prefix, collects_garbage, has_random_ids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_endpoints_and_parameters() {
        let url = Url::parse("tikv://a:1,b:2/?prefix=x_1&gc=off&ids=v7").unwrap();
        assert_eq!(
            (&url.endpoints[..], &url.prefix[..]),
            (&["a:1".to_owned(), "b:2".to_owned()][..], &b"strata_x_1\0"[..])
        );
        assert!(!url.collects_garbage && !url.has_random_ids);
        let url = Url::parse("tikv://[::1]:2379").unwrap();
        assert!(url.collects_garbage && url.has_random_ids && url.prefix == b"strata_main\0");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, said) in [
            ("tikv://", "addresses of PD"),
            ("tikv://host", "addresses of PD"),
            ("tikv://host:0", "addresses of PD"),
            ("tikv://user@host:1", "addresses of PD"),
            ("tikv://a:1,,b:2", "addresses of PD"),
            ("tikv://a:1?prefix=A", "prefix is a name"),
            ("tikv://a:1?prefix=", "prefix is a name"),
            ("tikv://a:1?gc=no", "gc is on or off"),
            ("tikv://a:1?ids=v1", "ids is v4 or v7"),
            ("tikv://a:1?table=x", "\"table\""),
        ] {
            let why = Url::parse(url).err().expect(url).to_string();
            assert!(why.contains(said), "{url}: {why}");
        }
    }
}
