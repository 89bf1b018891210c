//! The URL of a database: `postgres://user@host:port/database?table=main`, several hosts separated by commas.
//!
//! Parameters beside those of libpq that `tokio-postgres` knows: `table` (the table is `strata_` and this name; `main`), `connections` (at
//! most so many at a time; 24), `sslmode` (`disable`, which is the default, or `require`: always with a check of the certificate) and
//! `sslrootcert` (a file with the certificates to trust in place of the system's). A password comes from the URL, a file, or `PGPASSWORD`.

use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::encryption::Tls;
use crate::error::{Error, Result};

const CONNECTIONS: usize = 24;

/// Where the database is.
pub struct Url {
    pub config: Config,
    pub tls: Tls,
    pub table: String,
    pub connections: usize,
}

impl Url {
    /// Parses a URL. No error repeats it, for it may have a password.
    ///
    /// # Errors
    /// `Invalid`, with the parameter that is wrong; `Storage` if the certificates cannot be read.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Self> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut table, mut connections, mut is_encrypted, mut roots) = ("main", CONNECTIONS, false, None);
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("table", name) => table = name,
                ("connections", number) => connections = number_of(number)?,
                ("sslmode", "disable") => is_encrypted = false,
                ("sslmode", "require" | "verify-full") => is_encrypted = true,
                ("sslmode", mode) => {
                    return Err(Error::invalid(format!("storage: sslmode is disable or require, not {mode:?}")));
                }
                ("sslrootcert", file) => roots = Some(file),
                _ => others.push(parameter),
            }
        }
        let is_name =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if table.is_empty() || table.len() > 40 || !is_name(table) {
            return Err(Error::invalid(
                "storage: table is a name of 1 to 40 lower-case letters, digits and underscores",
            ));
        }
        let known = if others.is_empty() { address.to_owned() } else { format!("{address}?{}", others.join("&")) };
        let wrong = |error: tokio_postgres::Error| {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Error::invalid(format!("storage: the URL is not valid: {error}: {source}"))
        };
        let mut config = Config::from_str(&known).map_err(wrong)?;
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        if config.get_hosts().is_empty() {
            return Err(Error::invalid("storage: the URL has no host"));
        }
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        if config.get_password().is_none()
            && let Some(password) = password.map(str::to_owned).or_else(|| std::env::var("PGPASSWORD").ok())
        {
            config.password(password);
        }
        let tls = if is_encrypted { Tls::trusting(roots)? } else { Tls::none() };
        Ok(Self { config, tls, table: table.to_owned(), connections })
    }
}

fn number_of(text: &str) -> Result<usize> {
    let number = text.parse().ok().filter(|number| (2..=1000).contains(number));
    number.ok_or_else(|| Error::invalid("storage: connections is a number from 2 to 1000"))
}
