//! `load-rest-crud`: reads and writes of single rows and lists over REST, 80 reads to 20 writes.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, carry_out, line};

/// Reads and writes over REST, 80 to 20
#[derive(Parser)]
#[command(name = "load-rest-crud", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    line::<Line>().map_or_else(|code| code, |line| carry_out(&["rest-crud"], &line.flags))
}
