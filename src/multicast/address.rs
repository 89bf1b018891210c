//! The address of a broker: `host:port`, or a URL that may hold credentials, which are never printed.

use std::fmt;

use http::uri::{Authority, Uri};
use serde::{Deserialize, Serialize, Serializer};

/// An address, as it was given. Its `Debug` text and what it is printed as have no credentials.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Address {
    text: String,
    uri: Uri,
}

impl Address {
    /// Returns it with its credentials.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns its scheme, if it is a URL.
    pub fn scheme(&self) -> Option<&str> {
        self.uri.scheme_str()
    }

    /// Returns the user and the password in it, still percent-encoded.
    pub fn credentials(&self) -> Option<(&str, Option<&str>)> {
        let (credentials, _) = self.authority().as_str().rsplit_once('@')?;
        Some(credentials.split_once(':').map_or((credentials, None), |(user, password)| (user, Some(password))))
    }

    fn authority(&self) -> &Authority {
        self.uri.authority().expect("an address has one")
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let refused = || "expected host:port or a URL of a broker, such as nats://localhost:4222".to_owned();
        let uri: Uri = text.parse().map_err(|_| refused())?;
        match uri.authority() {
            Some(authority) if !authority.host().is_empty() && has_good_port(authority) => Ok(Self { text, uri }),
            _ => Err(refused()),
        }
    }
}

/// Returns whether an authority has a number for its port, or none.
fn has_good_port(authority: &Authority) -> bool {
    let address = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, address)| address);
    address == authority.host() || authority.port_u16().is_some()
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.credentials() {
            None => out.write_str(&self.text),
            Some(_) => {
                let (before, after) = self.text.rsplit_once('@').expect("it has credentials");
                let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
                write!(out, "{scheme}***@{after}")
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.to_string())
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_hides_its_credentials() {
        let of = |text: &str| Address::try_from(text.to_owned());
        for (text, shown, credentials) in [
            ("localhost:4222", "localhost:4222", None),
            ("nats://[::1]:4222", "nats://[::1]:4222", None),
            ("tls://a:b@host:1/", "tls://***@host:1/", Some(("a", Some("b")))),
            ("nats://token@host", "nats://***@host", Some(("token", None))),
            ("a:b@host:1", "***@host:1", Some(("a", Some("b")))),
        ] {
            let address = of(text).unwrap();
            assert_eq!((&*address.to_string(), address.credentials()), (shown, credentials));
            assert_eq!((address.as_str(), serde_json::to_string(&address).unwrap()), (text, format!("{shown:?}")));
            assert_eq!(format!("{address:?}"), format!("{shown:?}"));
        }
        for wrong in ["", "/", "nats://", "a b", "nats://host:port"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
