//! The engine: threads that each own their connections, and send what a schedule or their users say.
//!
//! In an open loop the intended start of a request does not depend on any answer: an arrival that finds no free connection waits in
//! a bounded queue, and its wait is in its response time; beyond the queue it is dropped. Arrivals end when the schedule does, however far
//! behind it the client is. Then what is queued and in flight is still carried out; only what has no end by the end of the drain is given
//! up, and counted as such (T16). After a signal nothing is sent any more, and only what is in flight is carried out.

mod follow;
mod open;
mod timer;
mod users;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinHandle, JoinSet};

use crate::clocks;
use crate::connection::{Answer, Connection, Target};
use crate::expectation::Failure;
use crate::interrupt;
use crate::ledger::{Account, Arrival, Ledger};
use crate::live::{self, Phase};
use crate::multicasts::sends::{Pending as Sending, Sends};
use crate::pinning::pin;
use crate::random::{Choice, Random, mixed};
use crate::scenario::{Operation, Row, Scenario, Stage};
use crate::streams::appends::{Appends, Pending};

use users::{End, Left};

/// The timeout for a server to accept a connection before the warm-up.
const TO_CONNECT: Duration = Duration::from_secs(30);

/// The measurements of one window.
#[derive(Debug)]
pub struct Measured {
    /// One for each operation.
    pub accounts: Vec<Account>,
    /// When the window began.
    pub start: Instant,
    /// When the last request had its end, or was given up; not before requests were to start no more.
    pub end: Instant,
    /// The users' own time between an answer and the next request, in a closed loop; seconds over all users.
    pub think_seconds: f64,
    /// CPU of the busiest thread over the window, of one processor.
    pub busiest_thread: f64,
    /// CPU that a thread used or was ready for and did not get, of one processor: the most of any thread.
    pub demand: f64,
}

/// The requests of a scenario, ready to be made: shared by all threads.
struct Plan {
    scenario: Scenario,
    methods: Vec<Method>,
    content_types: Vec<HeaderValue>,
    /// Of what the client has, by operation and row.
    tags: Vec<Vec<HeaderValue>>,
    target: Target,
    choice: Choice,
}

/// Threads with open connections and a warmed-up server, which measure one window after another. Between windows nothing is in flight.
#[derive(Debug)]
pub struct Engine {
    threads: Vec<Thread>,
    requests: Option<u64>,
}

/// The start of a window.
#[derive(Clone, Debug)]
struct Start {
    at: Instant,
    /// The requests of a closed loop.
    left: Left,
    /// The part of a closed loop that the window is, where it has parts.
    stage: Option<Stage>,
}

/// A thread of the engine: it is told the start of a window, and answers what it measured.
#[derive(Debug)]
struct Thread {
    starts: Sender<Start>,
    measured: Receiver<Measured>,
    /// The outcomes of its requests that append, and of those that send.
    told: Receiver<(Appends, Sends)>,
}

impl Engine {
    /// Opens all connections and runs the warm-up of a scenario, on these processors; the accounts are those of the warm-up. `tags`: what
    /// is sent as `If-None-Match`, by operation and row.
    pub fn start(
        scenario: &Scenario,
        tags: Vec<Vec<HeaderValue>>,
        target: &Target,
        processors: Option<&[usize]>,
    ) -> Result<(Self, Vec<Account>), String> {
        let plan = Arc::new(Plan::new(scenario, tags, target)?);
        let left = Left::new(Some(scenario.load.warm_up_requests));
        let start = |number| {
            let (starts, started) = mpsc::channel();
            let (measured, results) = mpsc::channel();
            let (warmed, warm) = mpsc::channel();
            let (tell, told) = mpsc::channel();
            let (plan, left, processors) = (Arc::clone(&plan), left.clone(), processors.map(<[usize]>::to_vec));
            let body = move || {
                if let Some(Err(reason)) = processors.map(|processors| pin(&processors)) {
                    let _ = warmed.send(Err(reason));
                    return;
                }
                on_this_thread(async move {
                    let worker = Worker::new(plan, number);
                    // Whoever started this thread may have gone; then there is no window.
                    let _ = warmed.send(worker.warm_up(left).await);
                    while let Ok(start) = started.recv() {
                        let _ = measured.send(worker.measure(start).await);
                    }
                    let _ = tell.send((worker.appends.take(), worker.sends.take()));
                });
            };
            std::thread::Builder::new().name(format!("load-{number}")).spawn(body).expect("a thread can be started");
            (Thread { starts, measured: results, told }, warm)
        };
        let (threads, warm): (Vec<_>, Vec<_>) = (0..scenario.load.threads).map(start).unzip();
        let warmed: Vec<_> = warm.into_iter().map(|warmed| warmed.recv().expect("no thread panics")).collect();
        let mut accounts = vec![Account::default(); scenario.operations.len()];
        for own in warmed {
            accounts.iter_mut().zip(&own?).for_each(|(all, own)| all.add(own));
        }
        Ok((Self { threads, requests: scenario.load.requests }, accounts))
    }

    /// Measures one window: the schedule of the scenario, or its closed loop, or a stage of it.
    pub fn window(&self, stage: Option<Stage>) -> Measured {
        let start = Start { at: Instant::now() + Duration::from_millis(20), left: Left::new(self.requests), stage };
        for thread in &self.threads {
            thread.starts.send(start.clone()).expect("no thread panics");
        }
        let measured = self.threads.iter().map(|thread| thread.measured.recv().expect("no thread panics"));
        measured.reduce(Measured::with).expect("there is at least one thread")
    }

    /// Ends all threads; what their requests that append, and those that send messages, came to, those of the warm-up too.
    pub fn end(self) -> (Vec<Appends>, Vec<Sends>) {
        let end = |Thread { starts, told, .. }: Thread| {
            drop(starts);
            told.recv().expect("no thread panics")
        };
        self.threads.into_iter().map(end).unzip()
    }
}

/// Runs a future, and what it spawns, on the calling thread, which wakes itself as rarely as can be: a future that a runtime blocks on,
/// and a time-out that is its next timer, are made known through an event descriptor, two system calls for each arrival. So all are
/// tasks, and a timer that goes off often is always the next.
fn on_this_thread<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime on this thread");
    let mut often = runtime.block_on(async { tokio::time::interval(Duration::from_millis(50)) });
    runtime.spawn_local(async move {
        loop {
            often.tick().await;
        }
    });
    runtime.block_on(runtime.spawn_local(future)).expect("no task panics")
}

impl Measured {
    /// Of the same window, by another thread.
    fn with(mut self, other: Self) -> Self {
        self.accounts.iter_mut().zip(&other.accounts).for_each(|(all, own)| all.add(own));
        self.end = self.end.max(other.end);
        self.think_seconds += other.think_seconds;
        self.busiest_thread = self.busiest_thread.max(other.busiest_thread);
        self.demand = self.demand.max(other.demand);
        self
    }
}

impl Plan {
    fn new(scenario: &Scenario, tags: Vec<Vec<HeaderValue>>, target: &Target) -> Result<Self, String> {
        let method = |operation: &Operation| {
            operation.method.parse::<Method>().map_err(|_| "a method that HTTP does not know".to_owned())
        };
        let content = |operation: &Operation| {
            HeaderValue::from_str(&operation.content_type).map_err(|_| "a content type that is not valid".to_owned())
        };
        Ok(Self {
            methods: scenario.operations.iter().map(method).collect::<Result<_, _>>()?,
            content_types: scenario.operations.iter().map(content).collect::<Result<_, _>>()?,
            tags,
            target: target.clone(),
            choice: Choice::new(scenario.data.distribution, scenario.data.rows),
            scenario: scenario.clone(),
        })
    }

    fn request(&self, operation: usize, row: u64, call: u64) -> Request<Full<Bytes>> {
        let described = &self.scenario.operations[operation];
        let body = described.body_of(row, call).map(Bytes::from);
        let mut request = Request::new(Full::new(body.clone().unwrap_or_default()));
        *request.method_mut() = self.methods[operation].clone();
        // The scenario was refused if its paths were none.
        *request.uri_mut() = described.path.of(row).parse().unwrap_or_default();
        if body.is_some() {
            request.headers_mut().insert(http::header::CONTENT_TYPE, self.content_types[operation].clone());
        }
        if let Some(tag) = self.tags[operation].get(row as usize) {
            request.headers_mut().insert(http::header::IF_NONE_MATCH, tag.clone());
        }
        request
    }
}

/// A request that was sent and has its end.
struct CarriedOut {
    started: Instant,
    ended: Instant,
    /// The time for which its user is to wait, if it was refused.
    wait: Option<Duration>,
    /// The row that its user is to send it again for, if it has no answer.
    again: Option<u64>,
}

/// One thread's share of a run.
struct Worker {
    plan: Arc<Plan>,
    number: usize,
    slots: Vec<Rc<Slot>>,
    rows: RefCell<Rows>,
    appends: Rc<RefCell<Appends>>,
    sends: Rc<RefCell<Sends>>,
    /// The number of the next request, among those of all threads.
    next_call: Cell<u64>,
}

/// The carrier of one request at a time: that of a user, in a closed loop.
struct Slot {
    /// Among those of all threads.
    number: u32,
    connection: Connection,
}

/// Which rows this thread may still make and take away.
struct Rows {
    random: Random,
    next_new: u64,
    spare: Vec<u64>,
}

impl Worker {
    fn new(plan: Arc<Plan>, number: usize) -> Rc<Self> {
        let (load, data) = (&plan.scenario.load, &plan.scenario.data);
        let connections = (number..load.connections).step_by(load.threads);
        let slots = connections.flat_map(|connection| {
            let slots = Connection::slots(&plan.target.of(connection), load.streams)
                .into_iter()
                .zip(connection * load.streams..);
            slots.map(|(connection, number)| Rc::new(Slot { number: number as u32, connection }))
        });
        let slots = slots.collect();
        let spare = (data.rows..data.rows + data.spare).skip(number).step_by(load.threads).collect();
        let random = Random::new(mixed(load.seed) ^ number as u64);
        let rows = Rows { random, next_new: data.rows + data.spare + number as u64, spare };
        let next_call = Cell::new(number as u64);
        let (rows, appends, sends) = (RefCell::new(rows), Rc::default(), Rc::default());
        Rc::new(Self { number, slots, rows, appends, sends, next_call, plan })
    }

    /// This thread's share of a number.
    fn share(&self, of: u64) -> u64 {
        let threads = self.plan.scenario.load.threads as u64;
        of / threads + u64::from((self.number as u64) < of % threads)
    }

    /// Returns true if no more requests are to be started: a signal came, or the server can no longer be reached.
    fn is_to_end(&self) -> bool {
        interrupt::is_asked() || self.plan.target.reach.is_lost()
    }

    /// Until no more requests are to be started.
    async fn to_end(&self) {
        tokio::select! { () = interrupt::asked() => {}, () = self.plan.target.reach.until_lost() => {} }
    }

    async fn warm_up(self: &Rc<Self>, left: Left) -> Result<Vec<Account>, String> {
        for slot in &self.slots {
            let open = tokio::time::timeout(TO_CONNECT, slot.connection.open()).await;
            let open = open.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            open.map_err(|error| format!("no connection to {}: {error}", self.plan.target.address))?;
        }
        let ledger = Ledger::new(self.plan.scenario.operations.len(), Instant::now(), None, false);
        let mut tasks = JoinSet::new();
        let end = End { deadline: None, left, at_failure: true };
        users::start(self, &ledger, &end, self.slots_of(self.plan.scenario.load.stages.first()), &mut tasks);
        while tasks.join_next().await.is_some() {}
        self.appends.borrow_mut().end_warm_up();
        self.sends.borrow_mut().end_warm_up();
        Ok(ledger.accounts())
    }

    /// The slots of this thread that have users in a stage; all without one.
    fn slots_of(&self, stage: Option<&Stage>) -> &[Rc<Slot>] {
        let users = stage.map_or(self.slots.len(), |stage| self.share(stage.users as u64) as usize);
        &self.slots[..users.min(self.slots.len())]
    }

    async fn measure(self: &Rc<Self>, Start { at: start, left, stage }: Start) -> Measured {
        let load = &self.plan.scenario.load;
        let ledger = Ledger::new(self.plan.scenario.operations.len(), start, load.slice(), load.is_open());
        let before = (own_cpu_seconds(), clocks::own_run_queue_wait_seconds());
        let mut tasks = JoinSet::new();
        tokio::time::sleep_until(start.into()).await;
        let view = self.publish(&ledger);
        let seconds = stage.map_or(load.arrivals_seconds(), |stage| Some(stage.seconds));
        let due = seconds.map(|seconds| start + Duration::from_secs_f64(seconds));
        let think = match &load.schedule {
            Some(schedule) => {
                open::arrive(self, &ledger, schedule, start, &mut tasks).await;
                None
            }
            None => {
                let end = End { deadline: due, left, at_failure: false };
                Some(users::start(self, &ledger, &end, self.slots_of(stage.as_ref()), &mut tasks))
            }
        };
        // Requests start until then; only then the drain begins.
        if let Some(due) = due {
            tokio::select! { () = tokio::time::sleep_until(due.into()) => {}, () = self.to_end() => {} }
        }
        let no_more = due.map(|due| due.min(Instant::now()));
        live::phase(Phase::Draining);
        self.drain(tasks).await;
        view.abort();
        let now = Instant::now();
        let end = no_more.map_or(now, |no_more| no_more.max(ledger.last_end()));
        let (used, waited) = (own_cpu_seconds() - before.0, clocks::own_run_queue_wait_seconds() - before.1);
        let seconds = now.duration_since(start).as_secs_f64();
        Measured {
            accounts: ledger.accounts(),
            start,
            end,
            think_seconds: think.map_or(0.0, |think| think.get().as_secs_f64()),
            busiest_thread: used / seconds,
            demand: (used + waited) / seconds,
        }
    }

    /// Shows what a ledger has, ten times a second, while somebody looks.
    fn publish(&self, ledger: &Rc<Ledger>) -> JoinHandle<()> {
        let (ledger, number) = (Rc::clone(ledger), self.number);
        tokio::task::spawn_local(async move {
            let mut often = tokio::time::interval(Duration::from_millis(100));
            while let Some(sums) = ledger.look() {
                live::publish(number, sums);
                often.tick().await;
            }
        })
    }

    /// Waits for what is queued and in flight, and gives up what has no end in time. What ends by a number of requests is no drain:
    /// it has as long as its requests' own time-outs.
    async fn drain(&self, mut tasks: JoinSet<()>) {
        let load = &self.plan.scenario.load;
        let all = async { while tasks.join_next().await.is_some() {} };
        if load.requests.is_some() && load.seconds.is_none() {
            return all.await;
        }
        // What is aborted says by its ticket what it was.
        let _ = tokio::time::timeout(Duration::from_secs_f64(load.drain_seconds), all).await;
        tasks.shutdown().await;
    }

    /// Leaves out so many requests by the second in which they should have started, each operation with its share by the weights.
    fn miss(&self, ledger: &Ledger, by_second: &[u64]) {
        let operations = &self.plan.scenario.operations;
        let total: f64 = operations.iter().map(|operation| operation.weight).sum();
        let (mut left, mut owed) = (by_second.iter().sum::<u64>(), vec![0.0; operations.len()]);
        for (second, count) in by_second.iter().enumerate() {
            for (at, operation) in operations.iter().enumerate() {
                owed[at] += *count as f64 * operation.weight / total;
                let whole = (owed[at] as u64).min(left);
                owed[at] -= whole as f64;
                left -= whole;
                ledger.miss(at, second, whole);
            }
        }
        // Parts of requests that are whole ones together.
        let last = by_second.iter().rposition(|count| *count > 0).unwrap_or(0);
        (0..left).for_each(|_| ledger.miss(self.operation(), last, 1));
    }

    /// Which operation comes next, by the weights.
    fn operation(&self) -> usize {
        let operations = &self.plan.scenario.operations;
        let total: f64 = operations.iter().map(|operation| operation.weight).sum();
        let mut left = self.rows.borrow_mut().random.unit() * total;
        let chosen = operations.iter().position(|operation| {
            left -= operation.weight;
            left < 0.0
        });
        chosen.unwrap_or(operations.len() - 1)
    }

    /// The row of a request; none if all spare rows are taken.
    fn row(&self, operation: usize) -> Option<u64> {
        let mut rows = self.rows.borrow_mut();
        match self.plan.scenario.operations[operation].row {
            Row::Seeded => Some(self.plan.choice.row(&mut rows.random)),
            Row::Spare => rows.spare.pop(),
            Row::New => {
                let row = rows.next_new;
                rows.next_new += self.plan.scenario.load.threads as u64;
                Some(row)
            }
        }
    }

    /// Sends one request, about a row or the next one, and follows it to its end. An arrival without a row is dropped. What was in flight
    /// when the server was ended on purpose is censored.
    async fn carry_out(&self, slot: &Slot, arrival: Arrival, free: Instant, again: Option<u64>) -> Option<CarriedOut> {
        let number = arrival.operation;
        let operation = &self.plan.scenario.operations[number];
        let row = again.or_else(|| self.row(number))?;
        let (reach, times_down) = (&self.plan.target.reach, self.plan.target.reach.times_down());
        let call = self.next_call.replace(self.next_call.get() + self.plan.scenario.load.threads as u64);
        let request = self.plan.request(number, row, call);
        let limit = Duration::from_secs_f64(self.plan.scenario.load.timeout_seconds);
        let intended = arrival.intended;
        let flight = arrival.send(free);
        let started = flight.started;
        let pending = operation.acknowledges.as_ref().map(|acknowledges| {
            (acknowledges, Pending::new(&self.appends, slot.number, (number, row), (intended, started)))
        });
        let sending = operation.sends().then(|| Sending::new(&self.sends, call, intended));
        let answer =
            tokio::time::timeout(limit, slot.connection.exchange(request)).await.unwrap_or(Err(Failure::Timeout));
        let mut ended = Instant::now();
        let body = answer.as_ref().map_or_else(|_| Bytes::new(), |answer| answer.body.clone());
        let mut bytes = body.len();
        let refused = |answer: &Answer| operation.refusal.as_ref()?.wait(answer.status.as_u16(), &answer.headers);
        let is_unanswered = answer.is_err();
        let again = (operation.retry && is_unanswered).then_some(row);
        if is_unanswered && reach.has_met(times_down) {
            return Some(CarriedOut { started, ended, wait: None, again });
        }
        if let Some(wait) = answer.as_ref().ok().and_then(refused) {
            pending.into_iter().for_each(|(_, pending)| pending.refuse());
            sending.into_iter().for_each(Sending::refuse);
            flight.refuse(ended, bytes);
            return Some(CarriedOut { started, ended, wait: Some(wait), again: None });
        }
        let checked = answer.and_then(|answer| operation.expect.check(row, answer.status.as_u16(), &body));
        let mut outcome = match (pending, sending, checked) {
            (Some((acknowledges, pending)), _, Ok(read)) => {
                if read.is_some_and(|read| pending.acknowledge(acknowledges, &read)) {
                    Ok(())
                } else {
                    Err(Failure::Body)
                }
            }
            (Some((_, pending)), _, Err(failure)) => {
                if failure.changed_nothing() {
                    pending.refuse();
                }
                Err(failure)
            }
            (None, Some(sending), checked) => sending.end(checked),
            (None, None, checked) => checked.map(drop),
        };
        if outcome.is_ok() && !operation.follow.is_empty() {
            let left = limit - (ended - started).min(limit);
            let rest = tokio::time::timeout(left, follow::all(&slot.connection, &body, &operation.follow));
            let (more, followed) = rest.await.unwrap_or((0, Err(Failure::Timeout)));
            (bytes, outcome, ended) = (bytes + more, followed, Instant::now());
        }
        if outcome.is_ok() && operation.row == Row::New {
            self.rows.borrow_mut().spare.push(row);
        }
        flight.end(ended, bytes, outcome);
        Some(CarriedOut { started, ended, wait: None, again })
    }
}

/// CPU of the calling thread.
fn own_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
