//! Several servers over one database: what each of them is told is true for all of them, whatever goes wrong.

#[cfg(all(feature = "postgres", feature = "tikv"))]
mod databases;
mod history;
mod members;
mod model;
#[cfg(all(feature = "postgres", feature = "tikv"))]
mod patroni;
#[cfg(all(feature = "postgres", feature = "tikv"))]
mod postgres;
#[cfg(all(feature = "postgres", feature = "tikv"))]
mod proxy;
mod refused;
#[cfg(all(feature = "postgres", feature = "tikv"))]
mod servers;
mod simulated;
mod suites;
#[cfg(all(feature = "postgres", feature = "tikv"))]
mod tikv;
mod turns;

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also by a panic: threads that a scope waits for end then.
struct Over<'f>(&'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
