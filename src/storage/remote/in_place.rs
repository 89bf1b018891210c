//! Tests of the layers above on a remote store, as they are: with `STRATA_TEST_STORAGE` a store that is opened in a directory is kept in a
//! database instead, under the name of the directory.
//!
//! `STRATA_TEST_STORAGE=simulated` keeps it in a [`Simulation`] until the process ends; a URL, in a table, or under a prefix, of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;

#[cfg(any(feature = "postgres", feature = "tikv"))]
use super::super::Location;
use super::Store;
use super::simulated::Simulation;
use crate::error::Result;

static SIMULATIONS: LazyLock<Mutex<HashMap<PathBuf, Simulation>>> = LazyLock::new(Mutex::default);

static STORAGE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("STRATA_TEST_STORAGE").ok());

/// Opens the store in place of a directory, if the environment says so.
pub fn of(directory: &Path, is_read_only: bool) -> Option<Result<Store>> {
    match STORAGE.as_deref()? {
        "simulated" => {
            let mut all = SIMULATIONS.lock();
            let simulation = all.entry(directory.to_owned()).or_insert_with(|| Simulation::new(0));
            Some(Ok(simulation.connect(is_read_only)))
        }
        #[cfg(any(feature = "postgres", feature = "tikv"))]
        url => {
            let name = twox_hash::XxHash3_64::oneshot(directory.as_os_str().as_encoded_bytes());
            let separator = if url.contains('?') { '&' } else { '?' };
            let own = if url.starts_with("tikv:") { "prefix" } else { "connections=8&table" };
            let location = Location::try_from(format!("{url}{separator}{own}=t{name:016x}"));
            let location = location.unwrap_or_else(|why| panic!("STRATA_TEST_STORAGE={url}: {why}"));
            Some(super::connect(&location, None, is_read_only))
        }
        #[cfg(not(any(feature = "postgres", feature = "tikv")))]
        other => panic!("STRATA_TEST_STORAGE={other}: it is simulated"),
    }
}
