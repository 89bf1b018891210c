//! `load-blob-storage`: blobs of 150 kB up and down, then down alone.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, carry_out, line};

/// Blobs of 150 kB, PUT and GET, then GET alone
#[derive(Parser)]
#[command(name = "load-blob-storage", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    line::<Line>().map_or_else(|code| code, |line| carry_out(&["blob-storage"], &line.flags))
}
