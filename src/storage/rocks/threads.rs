//! Whether the system lets this process start its threads.
//!
//! The engine starts its own with the C++ library, which ends the process where that fails (`pids.max` of a cgroup, `ulimit -u`). So as many
//! are started, and ended, before it is opened.

use std::sync::Arc;
use std::thread::Builder;

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Threads that read the ends of sorted files when the engine is opened (`max_file_opening_threads`).
const OPENING: usize = 16;

/// A timer, and a thread for flushes; compactions have one a core.
const FOR_WORK: usize = 2;

const STACK_BYTES: usize = 64 << 10;

/// Checks that the engine can start its threads, and the caller `more` of its own.
///
/// # Errors
/// `Storage` if the system has no room for so many.
pub fn check_threads(more: usize) -> Result<()> {
    let wanted = OPENING + FOR_WORK + super::engine::cores() + more;
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let started: Vec<_> = (0..wanted)
        .map_while(|_| {
            let gate = Arc::clone(&gate);
            Builder::new().stack_size(STACK_BYTES).spawn(move || drop(gate.lock())).ok()
        })
        .collect();
    drop(closed);
    let room = started.len();
    for thread in started {
        let _ = thread.join();
    }
    match room == wanted {
        true => Ok(()),
        false => Err(Error::storage(
            format!("{wanted} threads are needed, and the system allows {room} more"),
            "raise the limit of processes (pids.max of the cgroup, TasksMax of the service, ulimit -u)",
        )),
    }
}
