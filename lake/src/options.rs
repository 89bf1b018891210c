//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::failure::Failure;

/// Copies the streams of a Strata server into Iceberg tables, each event once.
#[derive(Debug, Parser)]
#[command(name = "strata-lake", version)]
pub struct Options {
    /// The server: http://localhost:9996
    #[arg(long, value_name = "URL")]
    pub url: reqwest::Url,
    /// A stream; may be repeated
    #[arg(long = "stream", value_name = "NAME", required = true)]
    pub streams: Vec<String>,
    /// The kind of the catalogue
    #[arg(long, value_enum)]
    pub catalog: Kind,
    /// Where the catalogue is: a URL, or sqlite:FILE, which is made where it is missing
    #[arg(long, value_name = "URI")]
    pub uri: String,
    /// The warehouse: a name or a URL that the REST catalogue knows, or a folder beside a SQL catalogue
    #[arg(long)]
    pub warehouse: String,
    /// What the REST catalogue and the object store know the client by
    #[arg(long, value_name = "ID:SECRET", env = "STRATA_LAKE_CREDENTIAL", hide_env_values = true)]
    pub credential: Option<Secret>,
    /// The object store of a catalogue that hands out neither its address nor credentials for it
    #[arg(long, value_name = "URL")]
    pub s3_endpoint: Option<String>,
    /// The region of the object store, where the catalogue does not say it (us-east-1 with --s3-endpoint)
    #[arg(long, value_name = "NAME")]
    pub s3_region: Option<String>,
    /// A certificate that the server's is signed by, in PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The consumer group whose offsets are those of the table
    #[arg(long, default_value = "lake")]
    pub group: String,
    /// The time from the beginning of one commit to that of the next; a full one is followed at once
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub commit_seconds: u64,
    /// The bytes of payloads in a commit at most (a partition's last page may pass it): 128M
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size)]
    pub commit_bytes: u64,
    /// Snapshots that the table keeps; older ones expire
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub keep_snapshots: u64,
    /// Copy until each partition is where it ended at the start, then end
    #[arg(long)]
    pub once: bool,
    /// First remove the files under the table's location that nothing names any more, older than a day
    #[arg(long)]
    pub drop_orphans: bool,
    /// Go on behind events that were trimmed before they were copied
    #[arg(long)]
    pub accept_gap: bool,
}

/// The kind of a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The REST protocol of Iceberg, with an object store.
    Rest,
    /// A file of SQLite, with a local folder.
    Sql,
}

/// A credential, which no output shows.
#[derive(Clone)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Secret {
    /// Returns the identity and the secret.
    ///
    /// # Errors
    /// `Refused` if there is no colon between two texts. (Found by the parser of the command line, it would stand in its message.)
    pub fn parts(&self) -> crate::failure::Result<(&str, &str)> {
        let parts = self.0.split_once(':').filter(|(id, secret)| !id.is_empty() && !secret.is_empty());
        parts.ok_or_else(|| Failure::Refused("--credential, or STRATA_LAKE_CREDENTIAL, is ID:SECRET".to_owned()))
    }
}

/// Parses a number of bytes, perhaps with K, M or G (powers of 1024) behind it.
fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'K')) => (&text[..at], 1 << 10),
        Some((at, 'M')) => (&text[..at], 1 << 20),
        Some((at, 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "it is a number of bytes above 0, perhaps with K, M or G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("1", 1), ("64K", 64 << 10), ("128M", 128 << 20), ("2G", 2 << 30)] {
            assert_eq!(size(text), Ok(bytes));
        }
        for text in ["", "0", "M", "1T", "-1", "1.5M", "99999999999999999999", "18446744073709551615K"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_credential_is_never_shown() {
        let secret = Secret::from("client:hidden".to_owned());
        assert_eq!(secret.parts().unwrap(), ("client", "hidden"));
        assert!(!format!("{secret:?}").contains("hidden"));
        let refused = Options::try_parse_from(["strata-lake", "--credential", "hidden"]).unwrap_err();
        assert!(!refused.to_string().contains("hidden"));
        for text in ["hidden", ":hidden", "hidden:"] {
            assert!(Secret(text.to_owned()).parts().is_err_and(|error| !error.to_string().contains("hidden")));
        }
    }
}
