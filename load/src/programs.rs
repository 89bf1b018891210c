//! Programs beside the load, and checks after it: processes of the paths that `--program` gives.
//!
//! Each has a process group of its own, which ends with this program, however that ends. What a program prints is kept in the folder of
//! the run; where it fails, its last words are the reason.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::interrupt;
use crate::result::{BesideRun, CheckRun};
use crate::scenario::{Beside, Check, Scenario};
use crate::server::take_along;

/// The interval at which a program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The timeout for a program to end once it is asked to.
const TO_END: Duration = Duration::from_secs(60);

/// The timeout of a check.
const TO_CHECK: Duration = Duration::from_secs(1800);

/// Where a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    path: PathBuf,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.to_owned(), path: path.into() })
            }
            _ => Err("it is NAME=PATH".to_owned()),
        }
    }
}

/// The programs that a run has, by name.
#[derive(Clone, Debug, Default)]
pub struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// Those that were given; of one name, the last.
    pub fn new(given: &[Program]) -> Self {
        Self(given.iter().map(|program| (program.name.clone(), program.path.clone())).collect())
    }

    /// Returns why a scenario is skipped: a program of it that was not given.
    pub fn lacking(&self, scenario: &Scenario) -> Option<String> {
        let name = scenario.programs().find(|name| !self.0.contains_key(*name))?;
        Some(format!("it needs a program: --program {name}=PATH"))
    }

    fn command(&self, name: &str, arguments: &[String], place: &Place<'_>) -> Result<Command, String> {
        let path = self.0.get(name).ok_or_else(|| format!("--program {name}=PATH is not given"))?;
        let mut command = Command::new(path);
        let folder = place.folder.to_string_lossy();
        command.args(arguments.iter().map(|one| one.replace("{url}", place.url).replace("{folder}", &folder)));
        command.process_group(0).stdin(Stdio::null());
        Ok(command)
    }

    /// Starts what runs beside the load of a scenario.
    ///
    /// # Errors
    /// Why one cannot be started.
    pub fn start(&self, scenario: &Scenario, place: &Place<'_>) -> Result<Companions, String> {
        let mut companions = Companions::default();
        for (number, beside) in scenario.beside.iter().enumerate() {
            let log = place.folder.join(format!("beside-{number}.log"));
            let mut command = self.command(&beside.program, &beside.arguments, place)?;
            command.stdout(appended(&log)?);
            let first = Process::start(&mut command, &log).map_err(|reason| format!("{}: {reason}", beside.program))?;
            let (over, is_over) = mpsc::channel();
            let of = beside.clone();
            let thread = std::thread::spawn(move || accompany(&of, command, first, &log, &is_over));
            companions.0.push(Companion { program: beside.program.clone(), over, thread });
        }
        Ok(companions)
    }

    /// Runs the checks of a scenario, one after the other.
    pub fn check(&self, scenario: &Scenario, place: &Place<'_>) -> Vec<CheckRun> {
        scenario.checks.iter().map(|check| self.check_one(check, place)).collect()
    }

    fn check_one(&self, check: &Check, place: &Place<'_>) -> CheckRun {
        let begun = Instant::now();
        let (said, printed) = (place.folder.join("check.log"), place.folder.join("check.json"));
        // Last words are those of this check.
        let _ = std::fs::remove_file(&said);
        let run = || {
            let mut command = self.command(&check.program, &check.arguments, place)?;
            command.stdout(File::create(&printed).map_err(|error| error.to_string())?);
            let mut process = Process::start(&mut command, &said)?;
            let status = process
                .wait(TO_CHECK, true)
                .ok_or_else(|| format!("it did not end within {} s", TO_CHECK.as_secs()))?;
            if status.success() { Ok(()) } else { Err(format!("{status}{}", last_line(&said))) }
        };
        let failure = run().err();
        let text = std::fs::read_to_string(&printed).unwrap_or_default();
        let told = serde_json::from_str(&text).unwrap_or(Value::Null);
        CheckRun { name: check.name.clone(), failure, told, seconds: begun.elapsed().as_secs_f64() }
    }
}

/// The values that arguments may name.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The server's URL.
    pub url: &'a str,
    /// A folder of the run.
    pub folder: &'a Path,
}

/// Programs that run.
#[derive(Debug, Default)]
pub struct Companions(Vec<Companion>);

#[derive(Debug)]
struct Companion {
    program: String,
    over: Sender<()>,
    thread: JoinHandle<(u32, Option<String>)>,
}

impl Companions {
    /// Asks all of them to end, and waits for that.
    pub fn end(self) -> Vec<BesideRun> {
        let ended = self.0.into_iter().map(|companion| {
            drop(companion.over);
            let (kills, failure) =
                companion.thread.join().unwrap_or_else(|_| (0, Some("it was not followed".to_owned())));
            BesideRun { program: companion.program, kills, failure }
        });
        ended.collect()
    }
}

/// Follows a program, and kills it as often as is said, until the load is over; returns how often it was killed, and why it failed.
fn accompany(
    beside: &Beside,
    mut command: Command,
    mut process: Process,
    log: &Path,
    is_over: &mpsc::Receiver<()>,
) -> (u32, Option<String>) {
    let (mut kills, mut begun) = (0, Instant::now());
    loop {
        let is_due =
            kills < beside.kills && beside.every_seconds.is_some_and(|every| begun.elapsed().as_secs_f64() >= every);
        if is_due {
            process.kill();
            match Process::start(&mut command, log) {
                Ok(again) => (process, kills, begun) = (again, kills + 1, Instant::now()),
                Err(reason) => return (kills, Some(reason)),
            }
        }
        match is_over.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Ok(Some(status)) = process.child.try_wait() {
            return (kills, Some(format!("it ended during the run: {status}{}", last_line(log))));
        }
    }
    process.signal(Signal::TERM);
    match process.wait(TO_END, false) {
        Some(status) if status.success() => (kills, None),
        Some(status) => (kills, Some(format!("asked to end: {status}{}", last_line(log)))),
        None => (kills, Some(format!("it did not end within {} s of SIGTERM", TO_END.as_secs()))),
    }
}

/// A process with its group, and the helper that ends it if this program is gone.
#[derive(Debug)]
struct Process {
    child: Child,
    helper: Option<Child>,
}

impl Process {
    /// Starts it, with what it says at the end of a log.
    fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        command.stderr(appended(log)?);
        let child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let helper = take_along(child.id(), None);
        Ok(Self { child, helper })
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = Pid::from_raw(self.child.id() as i32).map(|group| kill_process_group(group, signal));
    }

    fn kill(&mut self) {
        // One that was waited for has a number that may be another's now.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Waits for its end; one that takes longer, or that nobody waits for any more, is killed.
    fn wait(&mut self, most: Duration, ends_with_run: bool) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < most && !(ends_with_run && interrupt::is_asked()) {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK);
        }
        self.kill();
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        crate::server::no_longer(self.helper.take());
    }
}

/// Opens a log at its end.
fn appended(log: &Path) -> Result<File, String> {
    File::options().create(true).append(true).open(log).map_err(|error| format!("{}: {error}", log.display()))
}

/// Returns the last line of what a program said, behind a colon; empty if it said nothing.
fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| format!(": {}", line.replace(char::is_control, " ")))
}
