//! Several servers over one database: what each of them is told is true for all of them, whatever goes wrong.

mod history;
mod members;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod proxy;
mod refused;
#[cfg(feature = "postgres")]
mod servers;
mod simulated;
mod suites;
mod turns;
