//! A scenario from end to end: the data, the warm-up, windows between two readings of every clock, the verdict.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::client::Client;
use crate::clocks::{self, Cpu, Held, Watch};
use crate::connection::Target;
use crate::counters;
use crate::descriptors;
use crate::engine::{Engine, Measured};
use crate::feeds::Followers;
use crate::interrupt;
use crate::ledger::Account;
use crate::live::{self, Phase};
use crate::multicasts::deliveries::judge;
use crate::multicasts::listeners::{Listening, Nats};
use crate::multicasts::sends::{Answer, Sends};
use crate::neighbours::Neighbour;
use crate::output::remark;
use crate::programs::{Companions, Place, Programs};
use crate::quota::Quota;
use crate::result::{
    BrokerRun, Cell, CheckRun, Counters, Counts, FORMAT, Limited, Loop, Multicasts, Processes, Run, Setup, StageRun,
    Subscribed, Validity, Window,
};
use crate::rules;
use crate::scenario::{Effect, Http, Load, Restarts, Scenario, Stage};
use crate::server::Server;
use crate::stored;
use crate::streams::appends::{self, Appends};
use crate::streams::deliveries::{self, Taken};
use crate::streams::promises::Promises;
use crate::streams::subscribers::{Requests, Running};
use crate::tls::Tls;

/// Runs a scenario against a server, which gets the scenario's data first unless it has it. The accounts are for the log of histograms.
pub fn run(scenario: &Scenario, server: &Server, has_data: bool) -> Result<(Run, Vec<Account>), String> {
    run_in(None, &Programs::default(), scenario, server, has_data)
}

/// The same with programs beside it and behind it; what the server holds is also written into a folder while it runs, by
/// [`stored::keep_sample`].
pub fn run_in(
    folder: Option<&Path>,
    programs: &Programs,
    scenario: &Scenario,
    server: &Server,
    has_data: bool,
) -> Result<(Run, Vec<Account>), String> {
    let (folder, programs) = (folder.map(Path::to_owned), programs.clone());
    let filled = Filled { folder, programs, ..Filled::new(scenario, server, has_data)? };
    let measured = filled.warm_up(scenario).and_then(|mut session| {
        match scenario.load.stages.as_slice() {
            [] => session.window()?,
            stages => stages.iter().try_for_each(|stage| session.stage(*stage))?,
        }
        session.end(scenario)
    });
    let is_left = server.process.is_none() || server.neighbours.keep_registrations();
    if is_left
        && !has_data
        && server.responds().is_ok()
        && let Err(reason) = filled.client.clear(scenario)
    {
        remark(format_args!("load: the rows of the scenario are still in the server: {reason}"));
    }
    measured
}

/// A server that has the rows of a scenario.
pub struct Filled<'a> {
    server: &'a Server,
    client: Client,
    /// Of further servers over the same database, for their counters.
    others: Vec<Client>,
    began: Duration,
    /// The folder for what is written while it runs.
    folder: Option<PathBuf>,
    programs: Programs,
    rows_written: Option<u64>,
    rows_found: Option<u64>,
    /// The offsets from which on the partitions of a stream are read back: those of before the scenario's own events.
    stream_from: Vec<u64>,
}

impl<'a> Filled<'a> {
    /// Gives a server the data of a scenario, unless it has it. One that lacks a counter of the scenario is refused before.
    pub fn new(scenario: &Scenario, server: &'a Server, has_data: bool) -> Result<Self, String> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if scenario.tls != server.has_tls() {
            return Err(format!("{}: the scenario has tls = {}", server.url, scenario.tls));
        }
        live::scenario(&scenario.name, scenario.load.is_open(), server.process);
        if scenario.programs().next().is_some() && server.folder().is_none() {
            return Err(format!("{}: programs run beside a server that is started here", scenario.name));
        }
        if scenario.restarts.is_some() && server.process.is_none() {
            return Err(format!("{}: restarts: a server that was not started here is not ended", scenario.name));
        }
        let fill = || {
            let target = server.target(Http::One)?;
            let client = Client::new(target.of(0))?;
            let others = (1..=target.others.len()).map(|number| Client::new(target.of(number)));
            let others = others.collect::<Result<Vec<_>, _>>()?;
            if !scenario.effects.is_empty()
                && let Some(counters) = client.counters()
            {
                effects_can_be_seen(scenario, Some(&counters), &[])?;
            }
            let rows = match has_data {
                true => (None, None),
                false => (Some(client.seed(scenario)?), Some(client.count(&scenario.data)?)),
            };
            let mut stream_from = Vec::new();
            if let Some(stream) = scenario.acknowledged_stream() {
                stream_from = client.high_watermarks(stream)?;
                if !has_data {
                    stream_from.fill(0);
                }
            }
            Ok((client, others, rows, stream_from))
        };
        let (client, others, (rows_written, rows_found), stream_from) =
            fill().map_err(|reason| server.explain(reason))?;
        let (folder, programs) = (None, Programs::default());
        Ok(Self { server, client, others, began, folder, programs, rows_written, rows_found, stream_from })
    }

    /// Opens the connections of a scenario and runs its warm-up; what the windows do is measured from here on.
    pub fn warm_up(&self, scenario: &Scenario) -> Result<Session<'_>, String> {
        let target = self.server.target(scenario.http)?;
        let followers = (!scenario.feeds.is_empty()).then(|| Followers::start(&scenario.feeds, &target));
        let subscribers = self.subscribe(scenario, &target).map_err(|reason| self.server.explain(reason))?;
        let processors = self.server.pinned.as_ref().map(|pinned| pinned.client.as_slice());
        let listening = self.listen(scenario, processors).map_err(|reason| self.server.explain(reason))?;
        let companions = self.place().map(|place| self.programs.start(scenario, &place)).transpose()?;
        live::phase(Phase::WarmUp);
        let requests = || subscribers.as_ref().map_or_else(Requests::default, Running::requests);
        let warm = || {
            let tags = self.client.tags(scenario)?;
            let (engine, accounts) = Engine::start(scenario, tags, &target, processors)?;
            interrupt::not_asked()?;
            let counts = target.reach.lost().map_or_else(|| all_right(&accounts), Err)?;
            let asked_before = requests();
            let counters = self.counters();
            effects_can_be_seen(scenario, counters.as_ref(), &accounts)?;
            Ok((engine, counts, counters, [asked_before, requests()]))
        };
        let (engine, warm_up, counters, asked_before) = warm().map_err(|reason| self.server.explain(reason))?;
        Ok(Session {
            filled: self,
            id: format!("{}-{}-{}", scenario.name, self.began.as_millis(), std::process::id()),
            followers,
            asked_before,
            subscribers,
            listening,
            companions: companions.unwrap_or_default(),
            target,
            engine,
            slice: scenario.load.slice(),
            arrivals: scenario.load.arrivals_seconds().map(Duration::from_secs_f64),
            setup: Setup { rows_written: self.rows_written, rows_found: self.rows_found, warm_up },
            counters: counters.filter(|_| scenario.restarts.is_none()),
            restarts: scenario.restarts,
            throttled_periods: self.server.throttled_periods(),
            accounts: vec![Account::default(); scenario.operations.len()],
            stages: Vec::new(),
            held: Vec::new(),
            seconds: 0.0,
            think_seconds: 0.0,
            processes: None,
            brokers: vec![Some(Cpu::default()); self.server.neighbours.iter().count()],
            windows: 0,
            server_at_first: None,
        })
    }
}

impl Filled<'_> {
    /// Returns the values that the arguments of programs may name; none where the server was there.
    fn place(&self) -> Option<Place<'_>> {
        Some(Place { url: &self.server.url, folder: self.server.folder()? })
    }

    /// Returns what all servers have counted so far; none if one of them does not report that.
    fn counters(&self) -> Option<counters::Counters> {
        let each: Option<Vec<_>> = [&self.client].into_iter().chain(&self.others).map(Client::counters).collect();
        each.map(|each| counters::sum(each.into_iter()))
    }

    /// Runs the checks of what came of it.
    fn checks(&self, scenario: &Scenario) -> Vec<CheckRun> {
        self.place().map_or_else(Vec::new, |place| self.programs.check(scenario, &place))
    }

    /// Opens the subscribers of the stream, where it ends now; none where the scenario has none.
    fn subscribe(&self, scenario: &Scenario, target: &Target) -> Result<Option<Running>, String> {
        match scenario.acknowledged_stream().filter(|_| scenario.followers().next().is_some()) {
            None => Ok(None),
            Some(stream) => {
                let from = self.client.high_watermarks(stream)?;
                Running::start(&scenario.subscribers, target, &from).map(Some)
            }
        }
    }

    /// Opens the subscribers to whom messages are sent; none where the scenario has none.
    fn listen(&self, scenario: &Scenario, processors: Option<&[usize]>) -> Result<Option<Listening>, String> {
        if scenario.listeners().next().is_none() {
            return Ok(None);
        }
        descriptors::reserve(scenario.connections(), scenario.load.threads + 1)?;
        let servers = self.server.neighbours.nats().map(str::to_owned);
        let replies = scenario.slot.is_some_and(|slot| slot.replies);
        let nats = servers.map(|servers| Nats { servers, replies });
        Listening::start(scenario.listeners(), |http| self.server.target(http), nats, processors).map(Some)
    }

    /// Judges the promises of the stream: everything is read back. None where nothing is acknowledged.
    fn promises(&self, scenario: &Scenario, appends: &[Appends]) -> Result<Option<Promises>, String> {
        let Some(stream) = scenario.acknowledged_stream() else { return Ok(None) };
        let read = self.client.read_back(stream, &self.stream_from)?;
        let are_there = self.client.are_there(&appends::records(scenario, appends))?;
        let seeded = self.rows_written.map(|_| self.stream_from.len());
        Ok(Some(appends::judge(scenario, appends, seeded, read, &are_there)))
    }
}

/// A warm server and what its windows have measured so far. Clocks are read before and after each window, counters before the first
/// and after the last.
pub struct Session<'a> {
    filled: &'a Filled<'a>,
    id: String,
    followers: Option<Followers>,
    restarts: Option<Restarts>,
    subscribers: Option<Running>,
    listening: Option<Listening>,
    /// Requests of the subscribers before the first reading of the counters, and behind it.
    asked_before: [Requests; 2],
    companions: Companions,
    target: Target,
    engine: Engine,
    slice: Option<Duration>,
    arrivals: Option<Duration>,
    setup: Setup,
    counters: Option<counters::Counters>,
    throttled_periods: Option<u64>,
    accounts: Vec<Account>,
    /// The windows that are stages.
    stages: Vec<(Measured, Processes)>,
    held: Vec<Held>,
    seconds: f64,
    think_seconds: f64,
    processes: Option<Processes>,
    /// The CPU time that each of the servers beside ours used, where it was started here.
    brokers: Vec<Option<Cpu>>,
    windows: u32,
    server_at_first: Option<Cpu>,
}

impl Session<'_> {
    /// Measures a window.
    ///
    /// # Errors
    /// Why the server does not respond any more: then nothing that was measured can be believed.
    pub fn window(&mut self) -> Result<(), String> {
        self.measure(None).map(drop)
    }

    /// Measures a stage of a closed loop, a window of its own.
    ///
    /// # Errors
    /// As of a window. After a signal there are no more stages.
    fn stage(&mut self, stage: Stage) -> Result<(), String> {
        if !interrupt::is_asked() {
            let measured = self.measure(Some(stage))?;
            self.stages.push(measured);
        }
        Ok(())
    }

    /// The process of the server that is watched; none of one that is another after each restart.
    fn server(&self) -> Option<u32> {
        self.filled.server.process.filter(|_| self.restarts.is_none())
    }

    /// The processes of all servers, whose clocks are read.
    fn servers(&self) -> Vec<u32> {
        if self.restarts.is_some() { Vec::new() } else { self.filled.server.processes() }
    }

    fn measure(&mut self, stage: Option<Stage>) -> Result<(Measured, Processes), String> {
        let server = self.server();
        let (folder, id) = (self.filled.folder.clone(), self.id.clone());
        // The result has the samples, too, so it is enough that they are kept where they can be.
        let keep = move |held: &Held| drop(folder.as_deref().map(|folder| stored::keep_sample(folder, &id, held)));
        let watch = server.zip(self.slice).map(|(process, each)| Watch::start(process, each, self.seconds, keep));
        live::phase(Phase::Measuring(self.arrivals));
        let of_brokers =
            || self.filled.server.neighbours.iter().map(|broker| broker.process().and_then(Cpu::of_family));
        let servers = self.servers();
        let before = Clocks::read(&servers)?;
        let brokers_before: Vec<_> = of_brokers().collect();
        self.windows += 1;
        self.server_at_first = self.server_at_first.or(before.server);
        let measured = match self.restarts {
            None => self.engine.window(stage),
            Some(restarts) => restarting(self.filled.server, restarts, &self.target, || self.engine.window(stage)),
        };
        let after = Clocks::read(&servers);
        let used = of_brokers().zip(brokers_before).map(|(after, before)| Some(after?.since(&before?)));
        let used: Vec<_> = used.zip(&self.brokers).map(|(used, before)| Some(before.as_ref()?.plus(&used?))).collect();
        self.brokers = used;
        let held = watch.map_or_else(Vec::new, Watch::stop);
        // First: without file descriptors there are no clocks either.
        self.filled.server.responds().map_err(|reason| self.filled.server.explain(reason))?;
        let after = after?;
        self.held.extend(held);
        self.accounts.iter_mut().zip(&measured.accounts).for_each(|(all, window)| all.add(window));
        self.seconds += measured.end.duration_since(measured.start).as_secs_f64();
        self.think_seconds += measured.think_seconds;
        let window = after.since(&before, &measured);
        self.processes = Some(match self.processes.take() {
            None => window.clone(),
            Some(earlier) => both(&earlier, &window),
        });
        Ok((measured, window))
    }

    /// Returns the measurements of all windows, as a run of a scenario that is as long as all of them. At least one was measured.
    pub fn end(self, scenario: &Scenario) -> Result<(Run, Vec<Account>), String> {
        let Filled { server, began, .. } = self.filled;
        let aborted = interrupt::is_asked();
        let kills = self.restarts.map(|_| self.target.reach.outages().met);
        let server_now = cpu_of_all(&self.servers()).filter(|_| self.windows > 1);
        let server_throughout = server_now.zip(self.server_at_first).map(|(now, first)| now.since(&first));
        let (appends, sends) = self.engine.end();
        let drain = Duration::from_secs_f64(scenario.load.drain_seconds);
        let partitions = self.filled.stream_from.len();
        let subscribers =
            self.subscribers.map(|running| subscribed(running, self.asked_before, &appends, partitions, drain));
        let beside = self.companions.end();
        let counters = self.restarts.map_or_else(|| self.filled.counters(), |_| None);
        if let (Some(_), None, Some(reason)) = (&self.counters, &counters, self.target.reach.failure()) {
            return Err(server.explain(format!("{} responds no more: {reason}", server.url)));
        }
        // Behind the counters: their streams, which last as long as the run, are no part of the server's own time.
        let multicasts = self.listening.map(|listening| multicasts(scenario, listening, sends, drain));
        let promises = self.filled.promises(scenario, &appends).map_err(|reason| server.explain(reason))?;
        let feeds = self.followers.map_or_else(Vec::new, Followers::stop);
        let throttled_periods = self.throttled_periods.zip(server.throttled_periods());
        let load = &scenario.load;
        let names = || scenario.operations.iter().map(|operation| operation.name.clone());
        let cells: Vec<_> =
            names().zip(&self.accounts).map(|(name, own)| Cell::of(&name, own, load.is_open())).collect();
        let total = cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
        let think_seconds = (!load.is_open()).then_some(self.think_seconds);
        let stages = load.stages.iter().zip(&self.stages);
        let stages =
            stages.map(|(stage, (measured, processes))| of_stage(stage, measured, processes, names())).collect();
        let mut run = Run {
            format: FORMAT,
            id: self.id,
            began_unix_seconds: began.as_secs(),
            r#loop: if load.is_open() { Loop::Open } else { Loop::Closed },
            tls: self.target.tls.as_ref().and_then(Tls::negotiated).cloned(),
            server_configuration: server.configuration.clone(),
            processors: processors(),
            plan: names().collect(),
            setup: self.setup,
            window: window_of(load, self.seconds, aborted),
            throughput: total.ok as f64 / self.seconds,
            cells,
            stages,
            total,
            processes: Processes {
                think_seconds,
                server_throughout,
                ..self.processes.ok_or("no window was measured")?
            },
            ceiling: None,
            pinned: server.pinned.clone(),
            held: self.held,
            feeds,
            promises,
            kills,
            subscribers,
            multicasts,
            brokers: broker_runs(server, &self.brokers),
            beside,
            checks: if aborted { Vec::new() } else { self.filled.checks(scenario) },
            quota: server.quota.as_ref().map(|quota| limited(quota, throttled_periods)),
            counters: Counters { before: self.counters, after: counters },
            objectives: Vec::new(),
            validity: Validity::Inconclusive,
            broken: Vec::new(),
            aborted,
            scenario: scenario.clone(),
        };
        rules::give_verdict(&mut run);
        Ok((run, self.accounts))
    }
}

/// The clocks of both sides at one moment.
struct Clocks {
    at: Instant,
    client: Cpu,
    server: Option<Cpu>,
    waited: Option<f64>,
}

impl Clocks {
    fn read(servers: &[u32]) -> Result<Self, String> {
        let client = Cpu::of(std::process::id()).ok_or("/proc has no clocks of this process")?;
        let server = cpu_of_all(servers);
        Ok(Self { at: Instant::now(), client, server, waited: clocks::run_queue_wait_seconds() })
    }

    /// Returns what both processes used since an earlier reading.
    fn since(&self, earlier: &Self, measured: &Measured) -> Processes {
        let waited = self.waited.zip(earlier.waited);
        Processes {
            client: self.client.since(&earlier.client),
            server: self.server.zip(earlier.server).map(|(after, before)| after.since(&before)),
            server_throughout: None,
            read_over_seconds: Some(self.at.duration_since(earlier.at).as_secs_f64()),
            busiest_client_thread: measured.busiest_thread,
            client_thread_demand: measured.demand,
            missed_arrivals: measured.accounts.iter().map(|account| account.missed).sum(),
            client_run_queue_wait_seconds: waited.map(|(after, before)| (after - before).max(0.0)),
            think_seconds: None,
        }
    }
}

/// Returns the CPU time that some processes have used together; none of no process, or of one that has ended.
fn cpu_of_all(processes: &[u32]) -> Option<Cpu> {
    let used: Option<Vec<_>> = processes.iter().map(|process| Cpu::of(*process)).collect();
    used?.into_iter().reduce(|sum, one| sum.plus(&one))
}

/// The servers beside a server, with what each used where that is known.
fn broker_runs(server: &Server, used: &[Option<Cpu>]) -> Vec<BrokerRun> {
    let run = |(one, cpu): (&Neighbour, &Option<Cpu>)| BrokerRun {
        program: one.program().to_owned(),
        version: one.version.clone(),
        was_there: one.process().is_none(),
        cpu: *cpu,
    };
    server.neighbours.iter().zip(used).map(run).collect()
}

/// Ends the server and starts it again, so often as is said and at those times, while a window is measured. A server that does not start
/// again is lost.
fn restarting(server: &Server, restarts: Restarts, target: &Target, window: impl FnOnce() -> Measured) -> Measured {
    let every = Duration::from_secs_f64(restarts.every_seconds);
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..restarts.kills {
                if is_over.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if let Err(reason) = server.restart() {
                    target.reach.lose(reason);
                    // Nobody is to wait for it any more.
                    target.reach.come_back();
                    return;
                }
            }
        });
        let measured = window();
        drop(over);
        measured
    })
}

/// Ends the subscribers when all that was acknowledged has come, or after the drain; what came of them.
fn subscribed(
    running: Running,
    before: [Requests; 2],
    appends: &[Appends],
    partitions: usize,
    drain: Duration,
) -> Subscribed {
    let mut until = vec![0; partitions];
    for event in appends.iter().flat_map(Appends::sent) {
        if let Some(until) = until.get_mut(event.partition) {
            *until = event.offset.saturating_add(1).max(*until);
        }
    }
    let (taken, asked) = running.end(until, drain);
    let under_way = taken.iter().map(Vec::len).sum::<usize>() as u64;
    let judged = |taken: &Vec<Taken>| deliveries::judge(taken, appends.iter().flat_map(Appends::sent)).into();
    Subscribed {
        requests_at_least: (asked.answered - before[1].answered).saturating_sub(under_way),
        requests_at_most: asked.sent - before[0].answered,
        kinds: taken.iter().map(judged).collect(),
    }
}

/// Ends the subscribers to whom messages were sent when all has come, or after the drain; what came of the messages.
fn multicasts(scenario: &Scenario, listening: Listening, sends: Vec<Sends>, drain: Duration) -> Multicasts {
    let sends: Vec<_> = sends.into_iter().flat_map(Sends::into_all).collect();
    // One that read nothing is absent once it is too far behind, and then resumes.
    let resume = scenario.listeners().any(|kind| kind.stalled > 0.0);
    let of = |answer: Answer| answer.delivered + answer.pending + if resume { answer.absent } else { 0 };
    let due = sends.iter().filter_map(|send| send.answer).map(of).sum();
    Multicasts::of(&judge(&sends, &listening.end(due, drain)))
}

/// The window of a run that was so long, and was to start requests for as long as its load says, or until it was aborted.
fn window_of(load: &Load, seconds: f64, aborted: bool) -> Window {
    let planned = load.arrivals_seconds();
    Window { seconds, arrivals_seconds: planned.map(|planned| if aborted { planned.min(seconds) } else { planned }) }
}

/// Returns the measurements of a stage.
fn of_stage(
    stage: &Stage,
    measured: &Measured,
    processes: &Processes,
    names: impl Iterator<Item = String>,
) -> StageRun {
    let cells: Vec<_> = names.zip(&measured.accounts).map(|(name, own)| Cell::of(&name, own, false)).collect();
    let total = cells.iter().fold(Counts::default(), |sum, cell| sum.plus(&cell.counts));
    let seconds = measured.end.duration_since(measured.start).as_secs_f64();
    let planned = if interrupt::is_asked() { stage.seconds.min(seconds) } else { stage.seconds };
    StageRun {
        window: Window { seconds, arrivals_seconds: Some(planned) },
        throughput: total.ok as f64 / seconds,
        cells,
        total,
        processes: Processes { think_seconds: Some(measured.think_seconds), ..processes.clone() },
    }
}

/// Returns what both processes used in two windows.
fn both(one: &Processes, other: &Processes) -> Processes {
    let waited = one.client_run_queue_wait_seconds.zip(other.client_run_queue_wait_seconds);
    Processes {
        client: one.client.plus(&other.client),
        server: one.server.zip(other.server).map(|(one, other)| one.plus(&other)),
        server_throughout: None,
        read_over_seconds: one.read_over_seconds.zip(other.read_over_seconds).map(|(one, other)| one + other),
        busiest_client_thread: one.busiest_client_thread.max(other.busiest_client_thread),
        client_thread_demand: one.client_thread_demand.max(other.client_thread_demand),
        missed_arrivals: one.missed_arrivals + other.missed_arrivals,
        client_run_queue_wait_seconds: waited.map(|(one, other)| one + other),
        think_seconds: None,
    }
}

/// Returns the outcomes of the requests of the warm-up, of which none may fail.
fn all_right(accounts: &[Account]) -> Result<Counts, String> {
    let counts = accounts.iter().fold(Counts::default(), |sum, account| sum.plus(&Counts::of(account)));
    match counts.ok < counts.scheduled {
        false => Ok(counts),
        true => Err(format!("the warm-up failed: {} of {} right, {:?}", counts.ok, counts.scheduled, counts.failed)),
    }
}

/// Refuses effects on counters that the server does not have (T13). Those of a route are there once it has answered: what the warm-up did
/// not ask for may still come.
fn effects_can_be_seen(
    scenario: &Scenario,
    counters: Option<&counters::Counters>,
    warm_up: &[Account],
) -> Result<(), String> {
    if scenario.effects.is_empty() {
        return Ok(());
    }
    let counters = counters.ok_or("the server shows no counters (GET /_counters), by which effects are seen")?;
    let answered = |effect: &Effect| {
        let mut of_warm_up = scenario.operations.iter().zip(warm_up);
        of_warm_up.any(|(operation, account)| account.ok > 0 && effect.operations.contains(&operation.name))
    };
    for (at, effect) in scenario.effects.iter().enumerate() {
        let counter = &effect.counter;
        let may_come = counters::is_of_a_route(counter) && !answered(effect);
        if !counters.contains_key(counter) && !may_come {
            let there = counters.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{}: effects[{at}].counter: the server has no {counter:?}; it has {there}",
                scenario.name
            ));
        }
    }
    Ok(())
}

/// Of this machine, as far as this process may use them.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn limited(quota: &Quota, throttled_periods: Option<(u64, u64)>) -> Limited {
    let throttled_periods = throttled_periods.map(|(before, after)| after - before);
    Limited { mechanism: quota.mechanism.to_owned(), throttled_periods }
}
