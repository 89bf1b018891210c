//! Event streams, as a client that trusts nobody sees them: what its appends were told, what stands in the stream afterwards, and
//! whether the one is the other.
//!
//! `appends` is what each request came to, `promises` the judgement over it and what was read back. Of these only `subscribers` speaks to a server: the engine records, the client of a run reads.

pub mod promises;
pub mod deliveries;
pub mod appends;
pub mod subscribers;
