//! A process in a group of its own, which ends with this program, however that ends.
//!
//! A helper waits for the end of a pipe, which the kernel closes with this program, and then kills the group and removes what it wrote.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt;
use crate::quota;

/// What a helper does when this program ends, however it does, and has not ended the process.
const TAKE_ALONG: &str = r#"
trap '' INT TERM HUP
read -r _ && exit
kill -KILL "-$1"
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// How often a process is looked at.
pub const LOOK: Duration = Duration::from_millis(20);

/// Starts a helper that kills a process group when this program ends, however it does, and removes a folder; none where it cannot be
/// started, and nothing else changes.
pub fn take_along(group: u32, folder: Option<&Path>) -> Option<Child> {
    let mut helper = Command::new("sh");
    helper.arg("-c").arg(TAKE_ALONG).arg("sh").arg(group.to_string()).args(folder);
    quota::spawn_helper(&mut helper).ok()
}

/// Ends a helper, whose process group has ended.
pub fn no_longer(helper: Option<Child>) {
    if let Some(mut helper) = helper {
        let _ = helper.stdin.take().map(|mut pipe| pipe.write_all(b"stopped\n"));
        let _ = helper.wait();
    }
}

/// A process with its group, and the helper that ends it if this program is gone.
#[derive(Debug)]
pub struct Process {
    /// The process.
    pub child: Child,
    helper: Option<Child>,
}

impl Process {
    /// Starts it, with what it says at the end of a log. A folder that is named goes with it.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub fn start(command: &mut Command, log: &Path, folder: Option<&Path>) -> Result<Self, String> {
        command.process_group(0).stdin(Stdio::null()).stderr(appended(log)?);
        let child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let helper = take_along(child.id(), folder);
        Ok(Self { child, helper })
    }

    /// Sends a signal to its group.
    pub fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = Pid::from_raw(self.child.id() as i32).map(|group| kill_process_group(group, signal));
    }

    /// Ends it by SIGKILL.
    pub fn kill(&mut self) {
        // One that was waited for has a number that may be another's now.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Waits for its end; one that takes longer, or that nobody waits for any more, is killed.
    pub fn wait(&mut self, most: Duration, ends_with_run: bool) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < most && !(ends_with_run && interrupt::is_asked()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK);
        }
        self.kill();
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        no_longer(self.helper.take());
    }
}

/// Opens a log at its end.
///
/// # Errors
/// Why it cannot be opened, with its path.
pub fn appended(log: &Path) -> Result<File, String> {
    File::options().create(true).append(true).open(log).map_err(|error| format!("{}: {error}", log.display()))
}

/// Returns the last line of what a process said, behind a colon; empty if it said nothing.
pub fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| format!(": {}", line.replace(char::is_control, " ")))
}
