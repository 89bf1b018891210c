//! Ctrl-C (SIGINT, or SIGTERM, or the terminal's SIGHUP): the first ends a run in order, the second ends the program at once.
//!
//! Signals belong to the process, so whether one came is asked here, and not handed from function to function.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::output::remark;

static ENDS: AtomicBool = AtomicBool::new(false);
static ASKED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Checks that a run may go on before anything was measured.
///
/// # Errors
/// A signal came.
pub fn not_asked() -> Result<(), String> {
    if is_asked() { Err("interrupted before anything was measured".to_owned()) } else { Ok(()) }
}

/// Listens to signals from the first call on. The second signal calls `at_once`, and ends the process with 130.
pub fn listen(at_once: fn()) -> Result<(), String> {
    static LISTENS: AtomicBool = AtomicBool::new(false);
    if LISTENS.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("cannot wait for signals: {error}");
    let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let inside = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    drop(inside);
    let listener = move || {
        runtime.block_on(async {
            let mut next = async || tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {}, _ = hang_up.recv() => {} };
            next().await;
            ASKED.send_replace(true);
            remark("load: no more requests are started; a second signal ends it at once");
            next().await;
        });
        ENDS.store(true, Ordering::SeqCst);
        at_once();
        std::process::exit(130)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listener).map(drop).map_err(failed)
}

/// Waits for the end of the process, if the second signal has come: the run ends, too, once its server is killed, and may be faster.
pub fn wait_for_end() {
    while ENDS.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Returns true if the run is to end.
pub fn is_asked() -> bool {
    *ASKED.borrow()
}

/// Until it is to end.
pub async fn asked() {
    // The sender is never dropped.
    let _ = ASKED.subscribe().wait_for(|asked| *asked).await;
}
