//! The error type of Strata, classified by how its receiver should react.
//!
//! Every layer returns it, so that nothing is lost on the way up: a schema error keeps its line and column, an invalid body the JSON
//! pointer to the error, a storage error its source. The mapping of kinds to HTTP statuses is in `handlers`, the first layer that knows
//! HTTP.

use std::fmt;

/// The result of every fallible call in Strata.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds of error, by how to react.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request is invalid and would fail again: correct it at `place`.
    Invalid {
        /// What is wrong and what would be valid.
        detail: String,
        /// The position in the input.
        place: Place,
    },
    /// The record does not exist: nothing to do, or create it.
    NotFound {
        /// What was not found.
        detail: String,
    },
    /// The request conflicts with stored data (an existing id or unique value): choose another one.
    Conflict {
        /// The conflict.
        detail: String,
        /// JSON pointer to the conflicting member, empty for the whole body.
        pointer: String,
    },
    /// The precondition names an older version of the record: read it again, then decide.
    Stale,
    /// The position from which the request would continue is no longer available: start again.
    Gone {
        /// What is no longer available.
        detail: String,
    },
    /// An offset of a stream is not the one that a partition has next, or is outside what it keeps: read the watermarks, then decide.
    Offset {
        /// What is wrong.
        detail: String,
        /// In what way.
        fault: OffsetFault,
        /// JSON pointer to the offset, empty where it is none of a body.
        pointer: String,
        /// The first offset that is kept.
        low: u64,
        /// The next offset.
        high: u64,
    },
    /// The engine cannot take the work now (a write stall, a lock held too long, a data directory in use): try again later.
    Busy {
        /// What is busy.
        detail: String,
    },
    /// A partition has as many events as it may have, and its consumers hold them: try again once they have committed more.
    Held {
        /// What is held, and by whom.
        detail: String,
    },
    /// Another server, which keeps what the request is about, has not done what it was asked for: try again later.
    Remote {
        /// Which server, and what it has not done.
        detail: String,
        /// In what way.
        fault: RemoteFault,
    },
    /// There is no room for more: make room, by deleting for instance, and try again.
    Full {
        /// What is full.
        detail: String,
    },
    /// A remote database has not said whether it has done a write, and cannot be asked: read what is stored, then decide.
    Unknown {
        /// What is unknown.
        detail: String,
        /// The path of the record that was to be created, if its id was made for it: nobody else can name it.
        record: Option<String>,
    },
    /// The store cannot do this, whatever the request says: use another one.
    Unsupported {
        /// What it cannot do.
        detail: String,
    },
    /// Another server has changed what the transaction depends on, and nothing was written: run it again. Never leaves `transaction`.
    Raced,
    /// A stored record is not of the type that the program asked for: correct the type, or the record. Never leaves the process.
    Mismatch {
        /// The id of the record; empty where what was read is no record.
        id: String,
        /// What does not fit.
        detail: String,
    },
    /// The data is not in memory, or the key is locked: retry where blocking is allowed, or return it from the closure of a
    /// transaction, which runs again. A server answers nobody with it.
    WouldBlock,
    /// Stored bytes are corrupt: restore them from a backup. Never caused by a request.
    Corrupt {
        /// What is corrupt, and how it was detected.
        detail: String,
    },
    /// The system failed (an I/O error): the operator must act.
    Storage {
        /// What was attempted.
        detail: String,
        /// The underlying error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// In what way an offset is not what it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetFault {
    /// It was trimmed.
    Trimmed,
    /// It is above the high watermark.
    Ahead,
    /// Another one comes next.
    NotNext,
}

/// In what way another server has not done what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteFault {
    /// It has not answered, and may have done it.
    Unanswered,
    /// It has no room for more.
    Full,
}

/// The position in the input at which an [`Error::Invalid`] was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The input as a whole.
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
    /// Returns an `Invalid` error for the input as a whole.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::Invalid { detail: detail.into(), place: Place::Whole }
    }

    /// Returns an `Invalid` error for a JSON body, at `pointer` (RFC 6901).
    pub fn invalid_at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid { detail: detail.into(), place: Place::Pointer(pointer.into()) }
    }

    /// Returns a `Corrupt` error.
    pub fn corrupt(detail: impl Into<String>) -> Self {
        Self::Corrupt { detail: detail.into() }
    }

    /// Returns a `Storage` error that occurred while attempting `detail`.
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
            | Self::Held { detail }
            | Self::Remote { detail, .. }
            | Self::Offset { detail, .. }
            | Self::Busy { detail }
            | Self::Full { detail }
            | Self::Unknown { detail, .. }
            | Self::Unsupported { detail } => f.write_str(detail),
            Self::Raced => f.write_str("another server has changed what the transaction depends on"),
            Self::Stale => f.write_str("the record no longer matches the given version"),
            Self::Mismatch { id, detail } if id.is_empty() => f.write_str(detail),
            Self::Mismatch { id, detail } => write!(f, "record {id:?} is not of this type: {detail}"),
            Self::WouldBlock => f.write_str("the request would block"),
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
