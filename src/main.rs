//! The binary `strata`: reads the command line, and says in one line why it could not do what was asked.
//!
//! Exit codes: 0 done, 1 ended by a second signal, 2 a mistake in what was asked or what was found (options, schema, address,
//! data directory, processor).
//!
//! RocksDB is compiled for a processor with SSE4.2 and PCLMULQDQ (`.cargo/config.toml`) and does not ask for them; on an older one it
//! would end by an illegal instruction at some write. So `main` asks before anything else. What precedes `main` (initialisers of C++) is
//! compiled so too: a processor from before SSE4.1 may not come so far.

use std::fmt::Display;
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use rustix::fs::Mode;
use serde::Serialize;

use strata::config::{self, Flags};
use strata::error::{Error, Result};
use strata::maintenance::Place;
use strata::transaction::{Copied, Database, Migration};
use strata::{blobs, maintenance, server, streams};

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
        #[arg(long, value_name = "FILE", env = "STRATA_SCHEMA")]
        schema: PathBuf,
    },
    /// Read a whole store, and say where records, indexes and blobs disagree or are damaged
    Verify(Stored),
    /// Count what is in a store, as JSON
    Stats(Stored),
    /// Copy a store into a new directory; of a running server, POST /_checkpoint (--checkpoint-dir)
    Backup {
        /// The new directory
        directory: PathBuf,
        #[command(flatten)]
        data: Data,
    },
    /// Copy a backup into a data directory that is empty or not there
    Restore {
        /// The backup
        directory: PathBuf,
        #[command(flatten)]
        data: Data,
    },
    /// Copy a store that nobody has open into a new directory, or into a database (postgres://user@host/database?table=NAME or tikv://host:port)
    Copy {
        /// The data directory, or the URL of the database
        from: String,
        /// A new directory, or the URL of a database
        to: String,
    },
    /// Rewrite a store, which gives back the space of what was overwritten and deleted
    Compact(Data),
}

#[derive(Args)]
struct Data {
    /// Where the data is [default: data]
    #[arg(long, value_name = "DIR", env = "STRATA_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The URL of the database that has the store, instead of a directory; verify alone reads one
    #[arg(long, value_name = "URL", env = "STRATA_STORAGE", hide_env_values = true)]
    storage: Option<String>,
}

impl Data {
    fn place(&self) -> Result<Place> {
        match (&self.data_dir, &self.storage) {
            (Some(_), Some(_)) => Err(config::two_places()),
            (None, Some(url)) => url.clone().try_into().map(Place::Database).map_err(Error::invalid),
            (directory, None) => Ok(Place::Directory(directory.clone().unwrap_or_else(|| "data".into()))),
        }
    }

    /// Returns the directory.
    ///
    /// # Errors
    /// `Invalid` if the store is in a database.
    fn directory(&self) -> Result<PathBuf> {
        match self.place()? {
            Place::Directory(directory) => Ok(directory),
            Place::Database(_) => Err(Error::invalid(
                "this is about a directory, and --storage (STRATA_STORAGE) names a database: use its own tools, such as pg_dump",
            )),
        }
    }
}

#[derive(Args)]
struct Stored {
    /// The file with the schema (GraphQL SDL)
    #[arg(long, value_name = "FILE", env = "STRATA_SCHEMA")]
    schema: PathBuf,
    #[command(flatten)]
    data: Data,
}

/// Bounds the number of arenas of glibc's allocator to one for each processor; `MALLOC_ARENA_MAX` and `GLIBC_TUNABLES` decide where they are
/// set. glibc makes up to eight for each, and what is freed in one of them serves no thread of another: the memory of a server then grows for
/// hours though what it holds does not.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn bound_arenas() {
    if ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"].iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let arenas = libc::c_int::try_from(processors).unwrap_or(libc::c_int::MAX);
    #[expect(unsafe_code, reason = "no crate wraps mallopt; there is no second thread yet")]
    // SAFETY: mallopt reads two integers, and no other thread allocates meanwhile.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn bound_arenas() {}

fn main() -> ExitCode {
    // What this process creates is its user's alone: data and copies of it, the access log, the ready file.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    bound_arenas();
    if let Some(why) = unfit_processor() {
        return refuse(&why);
    }
    let set: Vec<_> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    for (name, meant) in config::misspelt_variables(set.iter().map(String::as_str)) {
        let _ = writeln!(std::io::stderr(), "strata: warning: the variable {name} is not known; did you mean {meant}?");
    }
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return exit(print(error.to_string().trim_end()));
        }
        Err(error) => return refuse(&one_line(&error)),
    };
    exit(match line.command {
        Command::Serve(flags) => serve(&flags),
        Command::Check { schema } => check(&schema),
        Command::Verify(stored) => verify(&stored),
        Command::Stats(stored) => count(&stored),
        Command::Backup { directory, data } => {
            data.directory().and_then(|data| maintenance::back_up(&data, &directory))
        }
        Command::Restore { directory, data } => {
            data.directory().and_then(|data| maintenance::restore(&directory, &data))
        }
        Command::Copy { from, to } => copy(&from, &to),
        Command::Compact(data) => data.directory().and_then(|data| maintenance::compact(&data)),
    })
}

/// Why this processor cannot run what was compiled.
///
/// By the CPUID instruction itself: the macro of the standard library that detects features takes for granted those that the program
/// is compiled with.
#[cfg(target_arch = "x86_64")]
fn unfit_processor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    let features = if __cpuid(0).eax >= 1 { __cpuid(1).ecx } else { 0 };
    let missing = missing_features(features);
    (!missing.is_empty()).then(|| {
        format!("this processor has no {}; every x86-64 processor since about 2010 has them", missing.join(" and no "))
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn unfit_processor() -> Option<String> {
    None
}

/// What the program is compiled for and a processor lacks whose CPUID leaf 1 has these bits in ECX (Intel's manual, volume 2A, CPUID).
#[cfg(target_arch = "x86_64")]
fn missing_features(ecx: u32) -> Vec<&'static str> {
    const NEEDED: [(u32, &str); 5] = [(0, "SSE3"), (1, "PCLMULQDQ"), (9, "SSSE3"), (19, "SSE4.1"), (20, "SSE4.2")];
    NEEDED.into_iter().filter(|(bit, _)| ecx & (1 << bit) == 0).map(|(_, name)| name).collect()
}

fn serve(flags: &Flags) -> Result<()> {
    let config = flags.config()?;
    if flags.print_config {
        return print_json(&config);
    }
    server::run(&config)
}

fn copy(from: &str, to: &str) -> Result<()> {
    let Copied { records, entries, blob_parts } = maintenance::copy(&from.parse()?, &to.parse()?)?;
    print(format_args!(
        "copied {records} records, {entries} index entries and {blob_parts} parts of blobs, and counted them"
    ))
}

fn check(path: &std::path::Path) -> Result<()> {
    let schema = server::check_schema(path)?;
    let tables = schema.tables.iter().filter(|table| !table.is_internal());
    let tables: Vec<_> = tables.map(|table| table.name.as_str()).collect();
    let streams: Vec<_> = schema.streams.iter().map(|stream| stream.name.as_str()).collect();
    let named = [("tables", tables), ("streams", streams)].into_iter().filter(|(_, names)| !names.is_empty());
    let named: Vec<_> = named.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    print(format_args!("{}: valid, {}", path.display(), named.join("; ")))
}

fn count(stored: &Stored) -> Result<()> {
    let directory = stored.data.directory()?;
    let database = maintenance::open(&directory, server::check_schema(&stored.schema)?)?;
    print_json(&maintenance::statistics(&database)?)
}

fn verify(stored: &Stored) -> Result<()> {
    let (place, schema) = (stored.data.place()?, server::check_schema(&stored.schema)?);
    let database = match &place {
        Place::Directory(directory) => maintenance::open(directory, schema)?,
        Place::Database(location) => Database::connect(location, None, schema, Migration::ChangesNothing, "")?,
    };
    database.store().check_files()?;
    for table in &database.schema().tables {
        for index in table.indexes.iter().filter(|index| !index.is_ready_at(u64::MAX)) {
            let attributes = index.attributes().map(|attribute| table.attributes[attribute].name.as_str());
            let (attributes, kind) = (attributes.collect::<Vec<_>>().join(","), index.kind.name());
            let (table, state) = (&table.name, index.state().name());
            print(format_args!("the {kind} index of {table}.{attributes} is {state} and not verified"))?;
        }
    }
    let found =
        [database.disagreements()?, blobs::disagreements(&database)?, streams::disagreements(&database)?].concat();
    found.iter().try_for_each(print)?;
    match found.len() {
        0 => print(format_args!("{place}: records, indexes, blobs and streams agree")),
        several => Err(Error::corrupt(format!("{several} disagreements in {place}"))),
    }
}

fn print_json(shown: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(shown);
    print(json.map_err(|error| Error::storage("cannot print it", error))?)
}

/// Writes a line to standard output. It is no error if its reader has read enough, as `head` does.
fn print(line: impl Display) -> Result<()> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() != IoErrorKind::BrokenPipe => {
            Err(Error::storage("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}

fn exit(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(why: &str) -> ExitCode {
    // Nobody may be there to read it, and the exit code says it, too.
    let _ = writeln!(std::io::stderr(), "strata: {}", why.trim().replace('\n', " "));
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
            "a command is missing: serve, check, verify, stats, backup, restore, copy or compact (see --help)"
                .to_owned()
        }
        _ => format!("{} (see --help)", said.join(" ").trim_start_matches("error: ")),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_told_by_its_bits() {
        let nehalem = 0x0098_e3bd; // 2008: SSE4.2, and no PCLMULQDQ
        assert_eq!(missing_features(nehalem), ["PCLMULQDQ"]);
        assert_eq!(missing_features(nehalem | 1 << 1), [""; 0]);
        assert_eq!(missing_features(!(1 << 20)), ["SSE4.2"]);
        assert_eq!(missing_features(0), ["SSE3", "PCLMULQDQ", "SSSE3", "SSE4.1", "SSE4.2"]);
        assert_eq!(missing_features(u32::MAX), [""; 0]);
    }

    #[test]
    fn the_processor_that_runs_the_tests_is_fit() {
        assert_eq!(unfit_processor(), None);
    }
}
