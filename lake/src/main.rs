//! Copies the streams of a Strata server into Iceberg tables, each event once.
//!
//! Where each partition goes on is a property of the table, changed by the commit that adds the events. So whatever ends the process, the
//! server or the catalogue, and wherever: the next round reads behind what the table has.

mod catalog;
mod failure;
mod files;
mod options;
mod orphans;
mod round;
mod say;
mod steps;
mod stream;
mod table;

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::round::{Copied, Done, Lake};
use crate::stream::Server;

/// The first and the longest pause before a server or catalogue that is away is asked again.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::complain(&failure);
            ExitCode::from(2)
        }
    }
}

async fn run(options: &Options) -> Result<()> {
    let mut ends = signals().map_err(|error| Failure::Refused(format!("signals: {error}")))?;
    let names: HashSet<String> = options.streams.iter().map(|name| name.to_lowercase()).collect();
    if names.len() < options.streams.len() {
        return Err(Failure::Refused(
            "--stream: two of the names are the same in lower case, as the names of tables are".to_owned(),
        ));
    }
    if let Some(credential) = &options.credential {
        failure::hide(credential.parts()?.1);
    }
    let mut lake = Lake {
        server: Server::new(&options.url, options.ca.as_deref())?,
        folder: catalog::warehouse(options)?,
        catalog: catalog::open(options).await?,
        group: options.group.clone(),
        commit_bytes: options.commit_bytes,
        keep_snapshots: options.keep_snapshots,
        accept_gap: options.accept_gap,
        once: options.once,
    };
    let ended = || match options.once {
        true => Err(Failure::Refused("a signal has ended it before all was copied; start it again".to_owned())),
        false => Ok(()),
    };
    if options.drop_orphans {
        for name in &options.streams {
            tokio::select! {
                biased;
                () = ends.come() => return ended(),
                removed = lake.drop_orphans(name) => say::tell(&format!("{name}: {} files removed", removed?)),
            }
        }
    }
    let every = Duration::from_secs(options.commit_seconds);
    let mut waiting: Vec<Waiting> = options.streams.iter().cloned().map(Waiting::new).collect();
    while let Some(next) = (0..waiting.len()).min_by_key(|number| waiting[*number].due) {
        let Waiting { copied, due, pause } = &mut waiting[next];
        if ends.within(due.saturating_duration_since(Instant::now())).await {
            return ended();
        }
        let begun = Instant::now();
        match lake.round(copied).await {
            Ok(Done::All) if options.once => drop(waiting.remove(next)),
            Ok(Done::All) => (*due, *pause) = (begun + every, PAUSE),
            Ok(Done::More) => (*due, *pause) = (begun, PAUSE),
            Err(Failure::Away(detail)) if copied.is_running() => {
                say::complain(&format_args!("{detail}; trying again in {} s", pause.as_secs()));
                (*due, *pause) = (Instant::now() + *pause, (*pause * 2).min(LONGEST_PAUSE));
                // A token may have expired, which a catalogue that is opened gets anew.
                if let Ok(catalog) = catalog::open(options).await {
                    lake.catalog = catalog;
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// A stream, and when its next round is due.
struct Waiting {
    copied: Copied,
    due: Instant,
    /// The pause behind a round that fails.
    pause: Duration,
}

impl Waiting {
    fn new(name: String) -> Self {
        Self { copied: Copied::new(name), due: Instant::now(), pause: PAUSE }
    }
}

/// The signals that end the process after the round.
struct Ends(Signal, Signal);

fn signals() -> std::io::Result<Ends> {
    Ok(Ends(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

impl Ends {
    /// Waits for a signal.
    async fn come(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }

    /// Waits so long; returns whether a signal came, or had come.
    async fn within(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.come() => true,
            () = tokio::time::sleep(time) => false,
        }
    }
}
