//! File descriptors of this process: as many as its connections need, or a refusal before anything runs.
//!
//! Without them a run of many connections would wait for the server to accept what the client cannot open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For what is not known before: files of results, pipes to helpers, what is read from `/proc`.
const SPARE: u64 = 64;

/// Of a thread's own: its runtime, its timer, what it reads of itself.
const OF_A_THREAD: u64 = 8;

/// Sees to it that this process may have so many connections on so many threads. Raises the soft limit if the hard one allows it.
///
/// # Errors
/// The limit is too low; the text has the numbers of descriptors that are needed and allowed.
pub fn reserve(connections: usize, threads: usize) -> Result<(), String> {
    // Where that cannot be counted, the standard ones.
    let open = std::fs::read_dir("/proc/self/fd").map_or(3, |entries| entries.count() as u64);
    let needed =
        (open + SPARE).saturating_add(connections as u64).saturating_add(OF_A_THREAD.saturating_mul(threads as u64));
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = limit.maximum.is_none_or(|most| most >= needed)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum }).is_ok();
    let most = limit.maximum.or(limit.current).unwrap_or(u64::MAX);
    match raised {
        true => Ok(()),
        false => Err(format!(
            "{connections} connections need {needed} file descriptors, and this process may have {most} (ulimit -n): raise \
             that limit, or use fewer connections"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_process_may_have_is_refused_with_both_numbers() {
        assert_eq!(reserve(1, 1), Ok(()));
        let most = getrlimit(Resource::Nofile).maximum;
        let Some(most) = most else { return };
        let reason = reserve(most as usize, 1).unwrap_err();
        assert!(reason.contains(&most.to_string()) && reason.contains("descriptors"), "{reason}");
    }
}
