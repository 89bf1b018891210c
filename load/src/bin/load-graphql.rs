//! `load-graphql`: one, list, create, update and delete over GraphQL: together, then what reads, then what writes.

use std::process::ExitCode;

use clap::Parser;
use strata_load::command::{Flags, carry_out, line};

/// Reads and mutations over GraphQL, together and apart
#[derive(Parser)]
#[command(name = "load-graphql", version)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    line::<Line>().map_or_else(|code| code, |line| carry_out(&["graphql"], &line.flags))
}
