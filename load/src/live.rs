//! The view of a run while it goes on: a line on standard error that is rewritten in place, or a line each second.
//!
//! Threads of the engine publish sums ten times a second and nothing for each request; no result comes from here. Like signals, the
//! terminal belongs to the process, so the view is set here, and not handed from function to function.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::clocks::Cpu;

/// The style of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line that is rewritten twice a second, as wide as the terminal at most.
    Terminal,
    /// A line of text each second.
    Plain,
    /// A JSON object each second.
    Ndjson,
}

impl Style {
    /// Returns the style that suits standard error: the line of a terminal, lines of text on one that can rewrite none (`TERM` is `dumb`
    /// or not set), and none where there is no terminal.
    pub fn of_stderr() -> Option<Self> {
        let rewrites = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        std::io::stderr().is_terminal().then_some(if rewrites { Self::Terminal } else { Self::Plain })
    }
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Starting the server.
    #[default]
    Starting,
    /// Writing the data: rows that are written, of so many.
    Seeding(u64, u64),
    /// Requests before the window.
    WarmUp,
    /// The window, whose requests start for so long; none where it ends by their number.
    Measuring(Option<Duration>),
    /// Waiting for what is in flight.
    Draining,
}

/// Sums of requests since the window began, and the times of those that ended since the last look.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// That should start.
    pub scheduled: u64,
    /// That never started.
    pub dropped: u64,
    /// That started.
    pub sent: u64,
    /// With the right answer.
    pub ok: u64,
    /// With another end, by class.
    pub failed: BTreeMap<String, u64>,
    /// Of right answers, nanoseconds: of responses in an open loop, of the service in a closed one.
    pub recent: Option<Histogram<u64>>,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.dropped += other.dropped;
        self.sent += other.sent;
        self.ok += other.ok;
        for (class, count) in &other.failed {
            *self.failed.entry(class.clone()).or_default() += count;
        }
        self.join(other.recent.as_ref());
    }

    fn join(&mut self, times: Option<&Histogram<u64>>) {
        match (&mut self.recent, times) {
            // What one auto-resizing histogram holds another one takes.
            (Some(mine), Some(theirs)) => drop(mine.add(theirs)),
            (None, Some(theirs)) => self.recent = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

#[derive(Debug, Default)]
struct State {
    scenario: String,
    is_open: bool,
    server: Option<u32>,
    phase: Phase,
    since: Option<Instant>,
    threads: BTreeMap<usize, Sums>,
}

static SHOWN: Mutex<Option<State>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<State>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if there is a view.
pub fn is_shown() -> bool {
    shown().is_some()
}

/// Sets the scenario that is measured from now on, and the process that it is measured against.
pub fn scenario(name: &str, is_open: bool, server: Option<u32>) {
    if let Some(state) = shown().as_mut() {
        *state = State { scenario: name.to_owned(), is_open, server, ..State::default() };
    }
}

/// Sets the phase from now on.
pub fn phase(phase: Phase) {
    if let Some(state) = shown().as_mut() {
        let same = std::mem::discriminant(&state.phase) == std::mem::discriminant(&phase);
        state.since = if same { state.since } else { Some(Instant::now()) };
        state.phase = phase;
    }
}

/// Publishes what a thread has counted in the window so far.
pub fn publish(thread: usize, mut sums: Sums) {
    if let Some(state) = shown().as_mut() {
        let earlier = state.threads.get_mut(&thread).and_then(|sums| sums.recent.take());
        sums.join(earlier.as_ref());
        state.threads.insert(thread, sums);
    }
}

/// A view that ends, and leaves the line empty, when it is dropped.
#[derive(Debug)]
pub struct View {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Shows what goes on until the view is dropped.
pub fn show(style: Option<Style>) -> View {
    let Some(style) = style else { return View { stop: None, thread: None } };
    *shown() = Some(State::default());
    let (stop, stopped) = mpsc::channel();
    let each = Duration::from_millis(if style == Style::Terminal { 500 } else { 1000 });
    let thread = std::thread::spawn(move || {
        let mut before = Look::default();
        while stopped.recv_timeout(each) == Err(RecvTimeoutError::Timeout) {
            let Some(look) = Look::now() else { continue };
            let seen = look.since(&before);
            let text = match style {
                Style::Terminal => {
                    let line: String = seen.text().chars().take(width() - 1).collect();
                    format!("\r\x1b[2K{line}")
                }
                Style::Plain => seen.text() + "\n",
                Style::Ndjson => seen.json().to_string() + "\n",
            };
            // Nobody may be there to look any more.
            let _ = std::io::stderr().write_all(text.as_bytes());
            before = look;
        }
        if style == Style::Terminal {
            let _ = std::io::stderr().write_all(b"\r\x1b[2K");
        }
    });
    View { stop: Some(stop), thread: Some(thread) }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop = None;
            // It prints; nothing of it can fail.
            let _ = thread.join();
            *shown() = None;
        }
    }
}

/// Columns of the terminal: what `COLUMNS` says, else what the terminal does, else 80.
fn width() -> usize {
    let can_be = |columns: &usize| *columns > 1;
    let said = std::env::var("COLUMNS").ok().and_then(|said| said.parse().ok()).filter(can_be);
    let own = || rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(|| own().filter(can_be)).unwrap_or(80)
}

/// One look at the state and at the clocks.
#[derive(Clone, Debug, Default)]
struct Look {
    at: Option<Instant>,
    scenario: String,
    is_open: bool,
    phase: Phase,
    seconds: f64,
    sums: Sums,
    cpu: [Option<f64>; 2],
}

impl Look {
    fn now() -> Option<Self> {
        let mut shown = shown();
        let state = shown.as_mut()?;
        let mut sums = Sums::default();
        for thread in state.threads.values_mut() {
            sums.add(thread);
            thread.recent = None;
        }
        let of = |process: Option<u32>| Cpu::of(process?).map(|cpu| cpu.seconds());
        Some(Self {
            at: Some(Instant::now()),
            scenario: state.scenario.clone(),
            is_open: state.is_open,
            phase: state.phase,
            seconds: state.since.map_or(0.0, |since| since.elapsed().as_secs_f64()),
            sums,
            cpu: [of(Some(std::process::id())), of(state.server)],
        })
    }

    fn since(&self, before: &Self) -> Seen<'_> {
        let passed = before.at.zip(self.at).map(|(before, now)| now.duration_since(before).as_secs_f64());
        let a_second = |now: u64, before: u64| Some(now.checked_sub(before)? as f64 / passed?);
        let cpu = |at: usize| Some((self.cpu[at]? - before.cpu[at]?).max(0.0) / passed?);
        Seen {
            look: self,
            offered: a_second(self.sums.scheduled, before.sums.scheduled),
            ok: a_second(self.sums.ok, before.sums.ok),
            cpu: [cpu(0), cpu(1)],
        }
    }
}

/// A look, with what happened each second since the one before; none where that is not known.
#[derive(Debug)]
struct Seen<'a> {
    look: &'a Look,
    offered: Option<f64>,
    ok: Option<f64>,
    cpu: [Option<f64>; 2],
}

impl Seen<'_> {
    fn is_measuring(&self) -> bool {
        matches!(self.look.phase, Phase::Measuring(_) | Phase::Draining)
    }

    fn failures(&self) -> u64 {
        self.look.sums.failed.values().sum()
    }

    /// Sent, and without an end yet.
    fn in_flight(&self) -> u64 {
        let sums = &self.look.sums;
        sums.sent.saturating_sub(sums.ok + self.failures())
    }

    fn waiting(&self) -> u64 {
        let sums = &self.look.sums;
        sums.scheduled.saturating_sub(sums.sent + sums.dropped)
    }

    fn times(&self) -> &'static str {
        if self.look.is_open { "response" } else { "service" }
    }

    fn quantile(&self, quantile: f64) -> Option<u64> {
        let recent = self.look.sums.recent.as_ref().filter(|recent| !recent.is_empty())?;
        Some(recent.value_at_quantile(quantile))
    }

    fn text(&self) -> String {
        let (look, sums) = (self.look, &self.look.sums);
        let mut text = if look.scenario.is_empty() { String::new() } else { format!("{}: ", look.scenario) };
        match look.phase {
            Phase::Starting => text.push_str("starting the server"),
            Phase::Seeding(done, of) => {
                let _ = write!(text, "writing rows, {done} of {of}");
            }
            Phase::WarmUp => text.push_str("warm-up"),
            Phase::Measuring(Some(of)) => {
                let _ = write!(text, "{:.0} of {:.0} s", look.seconds, of.as_secs_f64());
            }
            Phase::Measuring(None) => {
                let _ = write!(text, "{:.0} s", look.seconds);
            }
            Phase::Draining => text.push_str("waiting for what is in flight"),
        }
        if !self.is_measuring() {
            return text;
        }
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let _ = write!(text, " | ok {}/s", rate(self.ok));
        if look.is_open {
            let _ = write!(text, " of {}/s", rate(self.offered));
        }
        let time = |time: Option<u64>| time.map_or("-".to_owned(), |time| format!("{:.2}", time as f64 / 1e6));
        let _ =
            write!(text, " | {} p50 {} p99 {} ms", self.times(), time(self.quantile(0.5)), time(self.quantile(0.99)));
        let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let _ = write!(text, " | CPU server {} client {}", percent(self.cpu[1]), percent(self.cpu[0]));
        let _ = write!(text, " | in flight {}, waiting {}, dropped {}", self.in_flight(), self.waiting(), sums.dropped);
        let _ = write!(text, " | failed {}", self.failures());
        for (class, count) in &sums.failed {
            let _ = write!(text, " {class} {count}");
        }
        text
    }

    fn json(&self) -> Value {
        let (look, sums) = (self.look, &self.look.sums);
        let (phase, of_seconds) = match look.phase {
            Phase::Starting => ("starting", None),
            Phase::Seeding(..) => ("seeding", None),
            Phase::WarmUp => ("warm_up", None),
            Phase::Measuring(of) => ("measuring", of.map(|of| of.as_secs_f64())),
            Phase::Draining => ("draining", None),
        };
        let measured = |value: Value| if self.is_measuring() { value } else { Value::Null };
        json!({
            "scenario": look.scenario, "phase": phase, "seconds": look.seconds, "of_seconds": of_seconds,
            "offered_per_second": measured(json!(self.offered)), "ok_per_second": measured(json!(self.ok)),
            "in_flight": measured(json!(self.in_flight())), "waiting": measured(json!(self.waiting())),
            "dropped": measured(json!(sums.dropped)), "failed": measured(json!(sums.failed)),
            "times": self.times(), "p50_ns": self.quantile(0.5), "p99_ns": self.quantile(0.99),
            "client_cpu": self.cpu[0], "server_cpu": self.cpu[1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: u64, sums: Sums) -> Look {
        let at = Some(Instant::now() + Duration::from_secs(seconds));
        let phase = Phase::Measuring(Some(Duration::from_secs(10)));
        let cpu = [Some(seconds as f64 * 0.25), None];
        Look { at, scenario: "s".to_owned(), is_open: true, phase, seconds: seconds as f64, sums, cpu }
    }

    #[test]
    fn rates_are_of_the_time_since_the_look_before() {
        let mut recent = Histogram::new(2).unwrap();
        recent.record_n(1_000_000, 98).unwrap();
        recent.record_n(9_000_000, 2).unwrap();
        let failed = BTreeMap::from([("timeout".to_owned(), 3)]);
        let sums = Sums { scheduled: 2000, dropped: 5, sent: 1990, ok: 1980, failed, recent: Some(recent) };
        let (before, now) = (look(1, Sums { scheduled: 1000, ok: 990, ..Sums::default() }), look(3, sums));
        let json = now.since(&before).json();
        let rounded = |name: &str| json[name].as_f64().unwrap().round();
        assert_eq!((rounded("offered_per_second"), rounded("ok_per_second")), (500.0, 495.0));
        assert_eq!(
            (&json["in_flight"], &json["waiting"], &json["failed"]["timeout"]),
            (&json!(7), &json!(5), &json!(3))
        );
        assert_eq!((json["p99_ns"].as_u64().unwrap() / 1_000_000, &json["server_cpu"]), (9, &Value::Null));
        let text = now.since(&before).text();
        let wanted = "s: 3 of 10 s | ok 495/s of 500/s | response p50 1.00 p99 9.";
        assert!(text.starts_with(wanted) && text.ends_with("failed 3 timeout 3"), "{text}");
    }

    #[test]
    fn what_is_not_measured_is_no_zero() {
        let empty = look(1, Sums::default());
        let json = empty.since(&Look::default()).json();
        assert_eq!(
            (&json["ok_per_second"], &json["p50_ns"], &json["client_cpu"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert!(
            empty
                .since(&Look::default())
                .text()
                .contains("ok -/s of -/s | response p50 - p99 - ms | CPU server - client -")
        );
        let seeding = Look { phase: Phase::Seeding(500, 10_000), ..empty };
        assert_eq!(seeding.since(&seeding).json()["dropped"], Value::Null);
        assert_eq!(seeding.since(&seeding).text(), "s: writing rows, 500 of 10000");
    }
}
