//! `load`: runs scenarios, judges stored results again, and applies the laws to reports of other tools.
//!
//! Exit codes: 0 all is well, 1 something is not to be believed or not reached, 2 a mistake in what was asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use strata_load::command::{Flags, carry_out, exit, line, scenario, versus};
use strata_load::growth::Growth;
use strata_load::output::{self, print, remark};
use strata_load::result::{Run, growth_of};
use strata_load::scenario::Growing;
use strata_load::{lint, null_server, rules, stored};

/// Load tests whose report can be believed
#[derive(Parser)]
#[command(name = "load", version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run scenarios: built-in ones by name, all that measure streams (streams), or files
    Run {
        /// Names or files
        #[arg(required = true)]
        scenarios: Vec<String>,
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Measure two servers in windows that take turns; many pairs are judged by run-benches.py load compare
    Pair {
        /// Name or file
        scenario: String,
        /// Windows of each side, which together are as long as the scenario
        #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        windows: u32,
        #[command(flatten)]
        flags: Box<Flags>,
        /// The second side: a scenario and its flags
        #[arg(last = true, required = true, value_name = "SCENARIO [FLAGS]")]
        versus: Vec<String>,
    },
    /// Search the highest rate at which a scenario meets its objectives
    Capacity {
        /// Name or file
        scenario: String,
        /// The first rate that is tried, in requests a second
        #[arg(long, value_name = "RATE", default_value_t = 1000.0)]
        first: f64,
        /// The bound on p99 of each operation, in milliseconds, where the scenario has none on response times
        #[arg(long, value_name = "MS", default_value_t = 100.0)]
        p99_at_most_ms: f64,
        #[command(flatten)]
        flags: Flags,
    },
    /// Measure what the client itself can do, against a server that does nothing; later runs are judged by it
    Calibrate {
        #[command(flatten)]
        flags: Flags,
    },
    /// The server that does nothing
    #[command(hide = true)]
    NullServer {
        /// Where its URL is written
        #[arg(long)]
        ready_file: PathBuf,
        /// Where its certificate is written; without it, it speaks plain HTTP
        #[arg(long)]
        certificate: Option<PathBuf>,
    },
    /// Judge stored results again
    Check {
        /// A folder of results, or one of them
        results: PathBuf,
    },
    /// Say how memory, descriptors and threads of a server grew, from the samples of a run that was cut off
    Slopes {
        /// ID.held.jsonl, beside the results
        samples: PathBuf,
    },
    /// Apply the laws to reports of wrk, ab, hey, oha, k6, vegeta or drill, and to tables in Markdown
    Lint {
        /// The report
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let command = match line::<Line>() {
        Ok(line) => line.command,
        Err(code) => return code,
    };
    match command {
        Command::Run { scenarios, flags } => {
            let names: Vec<_> = scenarios.iter().map(String::as_str).collect();
            carry_out(&names, &flags)
        }
        Command::Pair { scenario, windows, flags, versus: words } => match versus(&words) {
            Ok(other) => exit(flags.pair(&scenario, (&other.scenario, &other.flags), windows)),
            Err(code) => code,
        },
        Command::Capacity { scenario: name, first, p99_at_most_ms, flags } => {
            match scenario(&name).and_then(|scenario| flags.capacity(scenario, first, p99_at_most_ms)) {
                Ok(found) => output::exit(u8::from(!found)),
                Err(reason) => exit(Err(reason)),
            }
        }
        Command::Calibrate { flags } => exit(flags.calibrate()),
        Command::NullServer { ready_file, certificate } => {
            let Err(reason) = null_server::serve(&ready_file, certificate.as_deref());
            exit(Err(reason))
        }
        Command::Check { results } => report(check(&results)),
        Command::Slopes { samples } => match slopes(&samples) {
            Ok(()) => output::exit(0),
            Err(reason) => exit(Err(reason)),
        },
        Command::Lint { file } => report(read(&file).map(|text| lint::report(&text))),
    }
}

fn report(found: Result<Vec<String>, String>) -> ExitCode {
    match found {
        Ok(found) => {
            found.iter().for_each(print);
            output::exit(u8::from(!found.is_empty()))
        }
        Err(reason) => exit(Err(reason)),
    }
}

fn slopes(samples: &Path) -> Result<(), String> {
    let held = stored::read_samples(samples).map_err(|error| format!("{}: {error}", samples.display()))?;
    let seconds = held.last().map_or(0.0, |held| held.seconds);
    print(format_args!(
        "{} samples in {seconds:.0} s; growth as a share of the median, after the first third [95 %]",
        held.len()
    ));
    for (name, of) in
        [("memory", Growing::Memory), ("descriptors", Growing::Descriptors), ("threads", Growing::Threads)]
    {
        match growth_of(of, &held) {
            Some(Growth { share, interval: [low, high] }) => {
                print(format_args!("{name}: {share:+.4} [{low:+.4}, {high:+.4}]"))
            }
            None => print(format_args!("{name}: too few samples")),
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn check(results: &Path) -> Result<Vec<String>, String> {
    let entries = match results.is_dir() {
        false => vec![results.to_owned()],
        true => {
            let entries = fs::read_dir(results).map_err(|error| format!("{}: {error}", results.display()))?;
            let paths = entries.flatten().map(|entry| entry.path());
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
        }
    };
    if entries.is_empty() {
        return Err(format!("{}: no result to check", results.display()));
    }
    let (mut lines, mut ids) = (Vec::new(), std::collections::HashSet::new());
    for file in entries {
        let place = file.display();
        let run: Run = match serde_json::from_str(&read(&file)?) {
            Ok(run) => run,
            Err(error) => {
                lines.push(format!("{place}: T19: it holds what no run of this format measured: {error}"));
                continue;
            }
        };
        lines.extend(rules::check(&run).iter().map(|broken| format!("{place}: {broken}")));
        match fs::read(file.with_extension("hlog")).map(|log| stored::differences(&run, &log)) {
            Ok(Ok(differences)) => lines.extend(differences.iter().map(|how| format!("{place}: T8: {how}"))),
            Ok(Err(reason)) => lines.push(format!("{place}: T8: the log beside it cannot be read: {reason}")),
            Err(_) => remark(format_args!("{place}: no log of histograms beside it, so it was not compared with one")),
        }
        if !ids.insert(run.id.clone()) {
            lines.push(format!("{place}: T25: another result is of the same run, {}", run.id));
        }
    }
    Ok(lines)
}
