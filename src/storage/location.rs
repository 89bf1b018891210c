//! Where a store is that is in no directory: the URL of a database. It is printed without its password.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// The URL of a database, as it was given, of a scheme that this binary knows.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Location(String);

/// Each scheme, the name of the database, its feature, and whether this binary has it.
const SCHEMES: [(&str, &str, &str, bool); 3] = [
    ("postgres", "PostgreSQL", "postgres", cfg!(feature = "postgres")),
    ("postgresql", "PostgreSQL", "postgres", cfg!(feature = "postgres")),
    ("tikv", "TiKV", "tikv", cfg!(feature = "tikv")),
];

#[cfg_attr(
    not(any(feature = "postgres", feature = "tikv")),
    expect(dead_code, reason = "without a database there is no location")
)]
impl Location {
    /// Returns it with its password.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before `://`.
    pub(super) fn scheme(&self) -> &str {
        self.0.split_once("://").map_or("", |(scheme, _)| scheme)
    }
}

impl TryFrom<String> for Location {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        match SCHEMES.iter().find(|(known, ..)| Some(*known) == scheme) {
            Some((.., true)) => Ok(Self(text)),
            Some((_, name, feature, false)) => {
                Err(format!("storage: {name} is not built in: cargo build --release --features {feature}"))
            }
            None => Err("storage: expected the URL of a database, such as postgres://user@localhost/database or \
                         tikv://localhost:2379"
                .to_owned()),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        // A password may have any characters.
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = match user {
            Some(user) => format!("{}@{address}", user.split_once(':').map_or(user, |(user, _)| user)),
            None => address.to_owned(),
        };
        let shown: Vec<_> =
            query.split('&').filter(|part| !part.is_empty() && !part.starts_with("password=")).collect();
        let query = if shown.is_empty() { String::new() } else { format!("?{}", shown.join("&")) };
        write!(out, "{scheme}://{address}{query}")
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Location({self})")
    }
}

impl Serialize for Location {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        let location =
            Location::try_from("postgres://user:secret@host:5432/db?table=a&password=secret".to_owned()).unwrap();
        assert_eq!(location.to_string(), "postgres://user@host:5432/db?table=a");
        assert!(!format!("{location:?}").contains("secret"));
        assert!(!serde_json::to_string(&location).unwrap().contains("secret"));
    }
}
