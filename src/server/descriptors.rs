//! The file descriptors of the process, divided when the server starts: between the files of the store, connections, and the rest.
//!
//! Undivided, connections could take all of them. Then the store could open no file, and a write that needs a new file of the log would
//! fail.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::UPLOADING_THREADS;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::storage::FEWEST_OPEN_FILES;

/// Descriptors of a runtime that waits for sockets.
const OF_A_RUNTIME: usize = 4;

/// Descriptors that are open all the time beside those of runtimes: standard streams, the listener, the access log, and what the engine
/// always has open (its log and manifest, its lock, its directories).
const ALWAYS_OPEN: usize = 16;

/// The most rejected connections that may be open at once.
const TURNED_AWAY: usize = 256;

/// How many descriptors each may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Sorted files and blob files of the store.
    pub(super) open_files: usize,
    pub(super) connections: usize,
    /// Rejected connections whose clients have not read the response.
    pub(super) turned_away: usize,
}

/// Raises the limit of descriptors to the maximum allowed: the usual soft limit suits programs that use `select`.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the server has less capacity.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl Division {
    /// Divides the descriptors that the process may have. Warns if that lowers the number of connections.
    ///
    /// # Errors
    /// `Invalid` if there are too few.
    pub(super) fn of(config: &Config) -> Result<Self> {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(usize::MAX);
        let division = Self::divide(limit, config).ok_or_else(|| {
            Error::invalid(format!(
                "{limit} open files are too few for this configuration: raise the limit (ulimit -n, LimitNOFILE=)"
            ))
        })?;
        if division.connections < config.connections {
            tracing::warn!(
                "at most {} connections instead of {}: the process may have {limit} open files, of which the store keeps {}; raise the limit \
                 (ulimit -n, LimitNOFILE=) for more",
                division.connections,
                config.connections,
                division.open_files
            );
        }
        Ok(division)
    }

    /// Divides `limit` descriptors; `None` if they are too few. The store keeps at least a quarter, and what connections leave.
    fn divide(limit: usize, config: &Config) -> Option<Self> {
        let runtimes = OF_A_RUNTIME * (config.workers + 2);
        let left = limit.checked_sub(runtimes + ALWAYS_OPEN)?;
        // A thread reads one file at a time; one that writes files of the store writes two.
        let files = config.pool_threads + config.scan_threads + config.dump_threads + 2 * UPLOADING_THREADS;
        let reserve = (files + TURNED_AWAY).min(left / 4);
        let left = left - reserve;
        let open_files = config.storage.open_files.unwrap_or((left / 4).max(left.saturating_sub(config.connections)));
        let open_files = open_files.max(FEWEST_OPEN_FILES);
        let connections = left.checked_sub(open_files)?.min(config.connections);
        (connections > 0).then_some(Self { open_files, connections, turned_away: TURNED_AWAY.min(reserve / 2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage;

    fn divided(limit: usize, open_files: Option<usize>) -> Option<(usize, usize)> {
        let storage = storage::Options { open_files, ..storage::Options::default() };
        let config = Config { workers: 2, scan_threads: 2, storage, ..Config::default() };
        Division::divide(limit, &config).map(|division| (division.open_files, division.connections))
    }

    #[test]
    fn the_store_keeps_a_quarter_and_connections_get_no_more_than_they_may_have() {
        assert_eq!(divided(64, None), Some((20, 4)));
        assert_eq!(divided(1024, None), Some((186, 558)));
        assert_eq!(divided(20_000, None), Some((9666, 10_000)));
        assert_eq!(divided(1024, Some(600)), Some((600, 144)), "as it was told");
        assert_eq!(divided(usize::MAX, Some(1)), Some((20, 10_000)), "the least that the engine takes");
        assert_eq!((divided(58, None), divided(30, None), divided(1024, Some(800))), (None, None, None));
    }

    #[test]
    fn the_parts_are_less_than_the_whole() {
        for limit in 64..5000 {
            let Some(division) = Division::divide(limit, &Config { workers: 2, ..Config::default() }) else { continue };
            let all = division.open_files + division.connections + division.turned_away;
            assert!(all + ALWAYS_OPEN + OF_A_RUNTIME * 4 <= limit, "{limit}: {division:?}");
        }
    }
}
