//! The output of a program: its report on standard output, remarks on standard error.
//!
//! A reader that goes, as `head` does, has read enough: that changes neither the run nor its exit code. Whatever else keeps standard output
//! from being written (a full disk) is an error, but one of the end: what was measured is stored first. Like signals, both outputs belong
//! to the process. The macros of the standard library panic where nobody reads, so nothing here prints by them.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::interrupt;

/// Why standard output takes no more; none of it is said if its reader has gone.
static CLOSED: OnceLock<Option<String>> = OnceLock::new();

/// Prints a line of the report.
pub fn print(line: impl Display) {
    if CLOSED.get().is_some() {
        return;
    }
    let mut output = io::stdout().lock();
    if let Err(error) = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush()) {
        let reason =
            (error.kind() != ErrorKind::BrokenPipe).then(|| format!("cannot write to standard output: {error}"));
        CLOSED.get_or_init(|| reason);
    }
}

/// Remarks something in a line on standard error; nobody may be there to read it.
pub fn remark(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The exit code of a program that ends with this one, if its report could be written; else 2, and the reason in a line.
pub fn exit(code: u8) -> ExitCode {
    interrupt::wait_for_end();
    match CLOSED.get() {
        Some(Some(reason)) => {
            remark(format_args!("load: {reason}"));
            ExitCode::from(2)
        }
        Some(None) | None => ExitCode::from(code),
    }
}
