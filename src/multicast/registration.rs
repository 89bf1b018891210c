//! What a registry and its client say to each other about a registration, so that a build without the client has it, too.

/// How long a registration stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    /// Its time to live, in milliseconds.
    pub(super) left_ms: i64,
    /// Its deadline, in milliseconds since 1970.
    pub(super) until_ms: i64,
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// There was none before.
    Created,
    /// There was one before.
    Replaced,
}
