//! Lines to the operator. Who has stopped reading them does not end the copying.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard output.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Writes a line to standard error.
pub fn complain(line: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "strata-lake: {line}");
}
