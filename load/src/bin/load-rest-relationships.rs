//! `load-rest-relationships`: one row and lists of 20 with 0, 1 and 2 joins, each in a run of its own, beside a client that follows the keys itself.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, carry_out, line};

/// Rows with related rows over REST, each kind of request in a run of its own
#[derive(Parser)]
#[command(name = "load-rest-relationships", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    line::<Line>().map_or_else(|code| code, |line| carry_out(&["rest-relationships"], &line.flags))
}
