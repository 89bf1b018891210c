//! Client and server on processors of their own, so that neither takes time from the other.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The processors of both sides, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pinned {
    /// Of the threads that send requests.
    pub client: Vec<usize>,
    /// Of the server.
    pub server: Vec<usize>,
}

impl Pinned {
    /// Shares out the processors that this process may use, half to each side; none where there is only one.
    pub fn apart() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let all: Vec<_> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
        let (server, client) = all.split_at(all.len() / 2);
        (!server.is_empty()).then(|| Self { client: client.to_vec(), server: server.to_vec() })
    }
}

/// Keeps the calling thread, and what it starts from then on, to these processors.
pub fn pin(processors: &[usize]) -> Result<(), String> {
    let mut chosen = CpuSet::new();
    processors.iter().for_each(|processor| chosen.set(*processor));
    sched_setaffinity(None, &chosen).map_err(|error| format!("processors {processors:?}: {error}"))
}

/// Calls a function that starts a process, which is to stay on these processors; without any, on all.
pub fn started_on<T>(processors: Option<&[usize]>, start: impl FnOnce() -> T) -> Result<T, String> {
    let Some(processors) = processors else { return Ok(start()) };
    let failed = |error: rustix::io::Errno| format!("affinity: {error}");
    let own = sched_getaffinity(None).map_err(failed)?;
    pin(processors)?;
    let started = start();
    sched_setaffinity(None, &own).map_err(failed)?;
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_started_on_its_processors_and_the_thread_keeps_its_own() {
        let Some(pinned) = Pinned::apart() else { return };
        let all = || Pinned::apart().map(|pinned| pinned.client.len() + pinned.server.len());
        let before = all();
        let mut print = Command::new("nproc");
        let printed = started_on(Some(&pinned.server), || print.output().unwrap()).unwrap();
        assert_eq!(String::from_utf8_lossy(&printed.stdout).trim(), pinned.server.len().to_string());
        assert_eq!(all(), before);
    }
}
