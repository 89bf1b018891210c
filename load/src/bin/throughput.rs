//! `throughput`: reads by id, then new rows, as fast as the connections allow.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, carry_out, line};

/// Reads by id, then new rows, in a closed loop
#[derive(Parser)]
#[command(name = "throughput", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    line::<Line>().map_or_else(|code| code, |line| carry_out(&["throughput-read", "throughput-write"], &line.flags))
}
