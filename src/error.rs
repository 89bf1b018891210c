//! The one error of Strata, sorted by what its receiver should do about it.
//!
//! Every layer returns it, so that nothing is lost or retold on the way up: a schema error keeps its line and column, a bad
//! body the JSON pointer to the place, a storage error its source. Which HTTP status a kind becomes is not known here: that
//! table stands in `handlers`, where HTTP's vocabulary begins.

use std::fmt;

/// The result of every fallible call in Strata.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what to do about it.
#[derive(Debug)]
pub enum Error {
    /// The request can never be right as it stands: mend it at `place`.
    Invalid {
        /// What is wrong and what would be right.
        detail: String,
        /// Where in the input.
        place: Place,
    },
    /// There is no such record: nothing to do, or create it.
    NotFound {
        /// What was looked for.
        detail: String,
    },
    /// The request conflicts with stored data (an id or a unique value that exists): choose another one.
    Conflict {
        /// What it contradicts.
        detail: String,
        /// JSON pointer to the member that does, empty for the whole body.
        pointer: String,
    },
    /// The precondition names an older version of the record: read it again, then decide.
    Stale,
    /// What the request goes on from is not kept any more: begin anew.
    Gone {
        /// What is not kept.
        detail: String,
    },
    /// The engine cannot take the work now (a write stall, a lock held too long): try again later.
    Busy {
        /// What is busy.
        detail: String,
    },
    /// The answer is not in memory, or somebody holds the key: ask again where waiting is allowed. Never leaves the server.
    WouldBlock,
    /// Stored bytes are damaged: restore them from elsewhere. Never the fault of a request.
    Corrupt {
        /// What is damaged, and how it was noticed.
        detail: String,
    },
    /// The machine refused (disk full, data directory in use, I/O error): the operator must act.
    Storage {
        /// What was attempted.
        detail: String,
        /// The refusal.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Where in its input an [`Error::Invalid`] was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the input as a whole.
    Whole,
    /// In a JSON body, at this pointer (RFC 6901).
    Pointer(String),
    /// In a query, at this byte offset.
    Position(usize),
    /// In a text file, at this line and column, both from 1.
    Line {
        /// Line number.
        line: usize,
        /// Column number, in characters.
        column: usize,
    },
}

impl Error {
    /// An invalid input as a whole.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::Invalid { detail: detail.into(), place: Place::Whole }
    }

    /// An invalid JSON body, wrong at `pointer` (RFC 6901).
    pub fn invalid_at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid { detail: detail.into(), place: Place::Pointer(pointer.into()) }
    }

    /// Stored bytes that cannot be what was written.
    pub fn corrupt(detail: impl Into<String>) -> Self {
        Self::Corrupt { detail: detail.into() }
    }

    /// A refusal of the machine while attempting `detail`.
    pub fn storage(detail: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Storage { detail: detail.into(), source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { detail, place: Place::Whole } => f.write_str(detail),
            Self::Invalid { detail, place: Place::Pointer(pointer) } => write!(f, "{detail} (at \"{pointer}\")"),
            Self::Invalid { detail, place: Place::Position(position) } => write!(f, "{detail} (at byte {position})"),
            Self::Invalid { detail, place: Place::Line { line, column } } => write!(f, "{line}:{column}: {detail}"),
            Self::NotFound { detail }
            | Self::Conflict { detail, .. }
            | Self::Gone { detail }
            | Self::Busy { detail } => f.write_str(detail),
            Self::Stale => f.write_str("the record has changed since the version that was named"),
            Self::WouldBlock => f.write_str("the answer is not in memory"),
            Self::Corrupt { detail } => write!(f, "corrupt data: {detail}"),
            Self::Storage { detail, source } => write!(f, "{detail}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
