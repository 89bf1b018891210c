//! Multicasts: what each request that sends came to, what subscribers received, and both held against each other (T26).

pub mod deliveries;
pub mod listeners;
pub mod sends;
