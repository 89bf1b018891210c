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
