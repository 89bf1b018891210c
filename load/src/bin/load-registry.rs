//! `load-registry`: registrations with a time to live, found by queries and sent messages by them, on our own storage and Server-Sent Events, or
//! on a Redis and a NATS.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, exit, line};
use strata_load::registry::Shape;

/// Registrations, enumerations and multicasts: on our own storage and Server-Sent Events, or on the Redis and the NATS that are named
#[derive(Parser)]
#[command(name = "load-registry", version)]
struct Line {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    let Line { shape, flags } = match line::<Line>() {
        Ok(line) => line,
        Err(code) => return code,
    };
    exit(flags.registry(&shape))
}
