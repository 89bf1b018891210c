//! `throughput`: reads by id, then new rows, as fast as the connections allow.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, exit, scenario};

/// Reads by id, then new rows, in a closed loop
#[derive(Parser)]
#[command(name = "throughput", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
    /// Right reads a second that must be reached
    #[arg(long, env = "TARGET_READ_THROUGHPUT", value_name = "RATE")]
    target_read_throughput: Option<f64>,
    /// Right writes a second that must be reached
    #[arg(long, env = "TARGET_WRITE_THROUGHPUT", value_name = "RATE")]
    target_write_throughput: Option<f64>,
}

fn main() -> ExitCode {
    let line = Line::parse();
    let targets =
        [("throughput-read", line.target_read_throughput), ("throughput-write", line.target_write_throughput)];
    exit(targets.into_iter().map(|(name, target)| line.flags.run(scenario(name)?, target)).collect())
}
