//! The binary `strata`: reads the command line, and says in one line why it could not do what was asked.
//!
//! Exit codes: 0 done, 1 ended by a second signal, 2 a mistake in what was asked or what was found (options, schema, address,
//! data directory).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use strata::config::Flags;
use strata::error::{Error, Result};
use strata::server;

/// A storage server on embedded RocksDB: tables with secondary indexes over HTTP
#[derive(Parser)]
#[command(name = "strata", version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the tables of a schema over HTTP
    Serve(Box<Flags>),
    /// Say whether a schema is valid
    Check {
        /// The file with the schema (GraphQL SDL)
        #[arg(long, value_name = "FILE")]
        schema: PathBuf,
    },
}

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{error}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&one_line(&error)),
    };
    let outcome = match line.command {
        Command::Serve(flags) => serve(&flags),
        Command::Check { schema } => check(&schema),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error.to_string()),
    }
}

fn serve(flags: &Flags) -> Result<()> {
    let config = flags.config()?;
    if flags.print_config {
        let json = serde_json::to_string_pretty(&config);
        println!("{}", json.map_err(|error| Error::storage("cannot print the options", error))?);
        return Ok(());
    }
    server::run(&config)
}

fn check(path: &std::path::Path) -> Result<()> {
    let schema = server::check_schema(path)?;
    let names: Vec<_> = schema.tables.iter().map(|table| table.name.as_str()).collect();
    println!("{}: valid, tables: {}", path.display(), names.join(", "));
    Ok(())
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("strata: {}", why.trim().replace('\n', " "));
    ExitCode::from(2)
}

/// What the parser of the command line has to say, without its picture of the whole usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let said: Vec<_> = lines.map(|line| line.replace("tip: ", "- ")).collect();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a command is missing: serve or check (see --help)".to_owned()
        }
        _ => format!("{} (see --help)", said.join(" ").trim_start_matches("error: ")),
    }
}
