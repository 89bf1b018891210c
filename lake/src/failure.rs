//! What can go wrong: what a person has to decide, and what only has to be waited for.

use std::fmt;
use std::sync::OnceLock;

/// A failure of a round.
#[derive(Debug)]
pub enum Failure {
    /// Somebody has to do something; the process ends.
    Refused(String),
    /// The server, the catalogue or the object store does not answer as it should now; a later round may succeed.
    Away(String),
}

/// The result of what may fail so.
pub type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(detail) | Self::Away(detail)) = self;
        f.write_str(detail)
    }
}

impl From<iceberg::Error> for Failure {
    fn from(error: iceberg::Error) -> Self {
        let detail = causes(&error);
        if FULL.iter().any(|text| detail.contains(text)) {
            return Self::Refused(format!(
                "no space is left for the table's files: {detail}; make room, then start again"
            ));
        }
        let detail = format!("the catalogue or the table's files: {detail}");
        match error.kind() {
            iceberg::ErrorKind::DataInvalid | iceberg::ErrorKind::FeatureUnsupported => Self::Refused(detail),
            _ => Self::Away(detail),
        }
    }
}

/// What a full disk is called: by Linux (ENOSPC, EDQUOT), and by SQLite.
const FULL: [&str; 3] = ["os error 28", "os error 122", "database or disk is full"];

/// The secret, which stands in no text, whatever a library puts into its errors.
static SECRET: OnceLock<String> = OnceLock::new();

/// How much of an error is shown: some have the whole answer of a server.
const LONGEST: usize = 1000;

/// Keeps a secret out of all texts of errors from now on.
pub fn hide(secret: &str) {
    // It is set once, at the start.
    let _ = SECRET.set(secret.to_owned());
}

/// Returns an error with what caused it, on one line, without the secret.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut detail = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !detail.contains(&text) {
            detail = format!("{detail}: {text}");
        }
        cause = error.source();
    }
    let line = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = SECRET.get().map_or_else(|| line.clone(), |secret| line.replace(secret, "***"));
    line.chars().take(LONGEST).collect()
}
