//! The account of every request: what was scheduled is sent or dropped, and what was sent is ok, refused, failed or censored.
//!
//! The account balances by construction. An [`Arrival`] that is let go without being sent is a dropped one, a [`Flight`] that is
//! let go without an end is a censored one; so a task may be cancelled wherever it waits, and nothing is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::expectation::Failure;
use crate::live;

/// The outcomes of the requests of one operation.
#[derive(Clone, Debug)]
pub struct Account {
    /// Arrivals that should start.
    pub scheduled: u64,
    /// Arrivals that never started.
    pub dropped: u64,
    /// Of those, how many the client had not come to when arrivals ended.
    pub missed: u64,
    /// Requests that started.
    pub sent: u64,
    /// Requests with the right answer.
    pub ok: u64,
    /// Requests without an end when the drain ended.
    pub censored: u64,
    /// Bytes of bodies that were received, of whatever outcome.
    pub body_bytes_received: u64,
    /// From intended start to end, of the right answers; nanoseconds.
    pub response: Histogram<u64>,
    /// From start to end, of the right answers.
    pub service: Histogram<u64>,
    /// From when it could have started (intended, and a connection free) to its start, of all that started.
    pub send_lag: Histogram<u64>,
    /// From start to end, of those that were refused.
    pub refused: Histogram<u64>,
    /// From start to end, of the others, by what was wrong.
    pub failed: BTreeMap<Failure, Histogram<u64>>,
    /// The number of durations that no histogram could hold; histograms grow, so it is 0.
    pub unrecorded: u64,
    /// Right answers by the second of the window in which they ended.
    pub ok_by_second: Vec<u64>,
    /// The others by the second in which they ended.
    pub failed_by_second: Vec<u64>,
    /// Those that never started, by the second in which they should have.
    pub dropped_by_second: Vec<u64>,
    /// From intended start to end, of the right answers, by the slice of the window in which they ended; two significant digits.
    pub response_by_slice: Vec<Histogram<u64>>,
}

fn histogram() -> Histogram<u64> {
    // Made so, it grows with what is recorded.
    Histogram::new(3).expect("3 significant digits are allowed")
}

/// The count of a second, which may be later than any before.
fn at(counts: &mut Vec<u64>, second: usize) -> &mut u64 {
    counts.resize(counts.len().max(second + 1), 0);
    &mut counts[second]
}

/// As long as a run is, it has few slices; each is small, so that memory stays so.
fn slice_histogram() -> Histogram<u64> {
    Histogram::new(2).expect("2 significant digits are allowed")
}

impl Default for Account {
    fn default() -> Self {
        Self {
            scheduled: 0,
            dropped: 0,
            missed: 0,
            sent: 0,
            ok: 0,
            censored: 0,
            body_bytes_received: 0,
            response: histogram(),
            service: histogram(),
            send_lag: histogram(),
            refused: histogram(),
            failed: BTreeMap::new(),
            unrecorded: 0,
            ok_by_second: Vec::new(),
            failed_by_second: Vec::new(),
            dropped_by_second: Vec::new(),
            response_by_slice: Vec::new(),
        }
    }
}

impl Account {
    /// Adds what another thread has.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.dropped += other.dropped;
        self.missed += other.missed;
        self.sent += other.sent;
        self.ok += other.ok;
        self.censored += other.censored;
        self.body_bytes_received += other.body_bytes_received;
        self.unrecorded += other.unrecorded;
        let mut join = |mine: &mut Histogram<u64>, theirs: &Histogram<u64>| {
            if mine.add(theirs).is_err() {
                self.unrecorded += theirs.len();
            }
        };
        join(&mut self.response, &other.response);
        join(&mut self.service, &other.service);
        join(&mut self.send_lag, &other.send_lag);
        join(&mut self.refused, &other.refused);
        for (failure, theirs) in &other.failed {
            join(self.failed.entry(*failure).or_insert_with(histogram), theirs);
        }
        let slices = self.response_by_slice.len().max(other.response_by_slice.len());
        self.response_by_slice.resize_with(slices, slice_histogram);
        self.response_by_slice.iter_mut().zip(&other.response_by_slice).for_each(|(mine, theirs)| join(mine, theirs));
        let by_second = |mine: &mut Vec<u64>, theirs: &[u64]| {
            theirs.iter().enumerate().for_each(|(second, count)| *at(mine, second) += count);
        };
        by_second(&mut self.ok_by_second, &other.ok_by_second);
        by_second(&mut self.failed_by_second, &other.failed_by_second);
        by_second(&mut self.dropped_by_second, &other.dropped_by_second);
    }

    fn record(histogram: &mut Histogram<u64>, took: Duration, unrecorded: &mut u64) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if histogram.record(nanoseconds).is_err() {
            *unrecorded += 1;
        }
    }
}

/// The accounts of one thread, one for each operation.
#[derive(Debug)]
pub struct Ledger {
    start: Instant,
    slice: Option<Duration>,
    accounts: RefCell<Vec<Account>>,
    is_open: bool,
    last_end: Cell<Instant>,
    /// Times since somebody looked, while somebody does.
    recent: RefCell<Option<Histogram<u64>>>,
}

impl Ledger {
    /// Of so many operations, in a window that starts now or later, with slices of a length where they are wanted.
    pub fn new(operations: usize, start: Instant, slice: Option<Duration>, is_open: bool) -> Rc<Self> {
        let recent = RefCell::new(live::is_shown().then(slice_histogram));
        let accounts = RefCell::new(vec![Account::default(); operations]);
        Rc::new(Self { start, slice, accounts, is_open, last_end: Cell::new(start), recent })
    }

    /// Returns what a view shows: sums, and the times since the call before. None if there is no view.
    pub fn look(&self) -> Option<live::Sums> {
        let recent = self.recent.borrow_mut().as_mut().map(|recent| std::mem::replace(recent, slice_histogram()))?;
        let mut sums = live::Sums { recent: Some(recent), ..live::Sums::default() };
        for account in self.accounts.borrow().iter() {
            sums.scheduled += account.scheduled;
            sums.dropped += account.dropped;
            sums.sent += account.sent;
            sums.ok += account.ok;
            // They have an end, which a view shows beside those of the others.
            if !account.refused.is_empty() {
                *sums.failed.entry("refused".to_owned()).or_default() += account.refused.len();
            }
            for (failure, times) in &account.failed {
                *sums.failed.entry(failure.to_string()).or_default() += times.len();
            }
        }
        Some(sums)
    }

    /// A request should start.
    pub fn schedule(self: &Rc<Self>, operation: usize, intended: Instant) -> Arrival {
        self.on(operation, |account| account.scheduled += 1);
        Arrival { ledger: Some(Rc::clone(self)), operation, intended, noticed: Instant::now() }
    }

    /// So many requests should have started in a second, and the client had not come to them when arrivals ended: all are dropped.
    pub fn miss(&self, operation: usize, second: usize, count: u64) {
        if count > 0 {
            self.on(operation, |account| {
                account.scheduled += count;
                account.dropped += count;
                account.missed += count;
                *at(&mut account.dropped_by_second, second) += count;
            });
        }
    }

    /// When the last request ended or was given up, so far; the start of the window before any did.
    pub fn last_end(&self) -> Instant {
        self.last_end.get()
    }

    /// Returns the accounts as they are now.
    pub fn accounts(&self) -> Vec<Account> {
        self.accounts.borrow().clone()
    }

    /// Returns true if a request has failed.
    pub fn has_failures(&self) -> bool {
        self.accounts.borrow().iter().any(|account| !account.failed.is_empty())
    }

    fn on(&self, operation: usize, change: impl FnOnce(&mut Account)) {
        change(&mut self.accounts.borrow_mut()[operation]);
    }
}

/// A request that should start at a time.
#[derive(Debug)]
pub struct Arrival {
    ledger: Option<Rc<Ledger>>,
    /// Which operation it is.
    pub operation: usize,
    /// When it should start.
    pub intended: Instant,
    /// The time at which the client noticed it.
    noticed: Instant,
}

impl Arrival {
    /// It starts. It could have since `free`, when its connection was free. Its send lag is what the client itself lost: from the
    /// intended time until it noticed, and from when it knew and had a connection until now.
    pub fn send(mut self, free: Instant) -> Flight {
        let ledger = self.ledger.take().expect("it is taken only where it is consumed");
        let started = Instant::now();
        ledger.on(self.operation, |account| {
            account.sent += 1;
            let noticed_late = self.noticed.saturating_duration_since(self.intended);
            let lag = noticed_late + started.saturating_duration_since(self.noticed.max(free));
            Account::record(&mut account.send_lag, lag, &mut account.unrecorded);
        });
        Flight { ledger: Some(ledger), operation: self.operation, intended: self.intended, started }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            let second = self.intended.saturating_duration_since(ledger.start).as_secs() as usize;
            ledger.on(self.operation, |account| {
                account.dropped += 1;
                *at(&mut account.dropped_by_second, second) += 1;
            });
        }
    }
}

/// A request that has started.
#[derive(Debug)]
pub struct Flight {
    ledger: Option<Rc<Ledger>>,
    operation: usize,
    intended: Instant,
    /// When it started.
    pub started: Instant,
}

impl Flight {
    /// It was refused then, with so many bytes of body.
    pub fn refuse(mut self, ended: Instant, body_bytes: usize) {
        let ledger = self.ledger.take().expect("it is taken only where it is consumed");
        ledger.last_end.set(ledger.last_end.get().max(ended));
        let service = ended.saturating_duration_since(self.started);
        ledger.on(self.operation, |account| {
            account.body_bytes_received += body_bytes as u64;
            Account::record(&mut account.refused, service, &mut account.unrecorded);
        });
    }

    /// It ended then, with so many bytes of body.
    pub fn end(mut self, ended: Instant, body_bytes: usize, outcome: Result<(), Failure>) {
        let ledger = self.ledger.take().expect("it is taken only where it is consumed");
        ledger.last_end.set(ledger.last_end.get().max(ended));
        let (is_ok, into) = (outcome.is_ok(), ended.saturating_duration_since(ledger.start));
        let second = into.as_secs() as usize;
        let slice = ledger.slice.map(|slice| (into.as_secs_f64() / slice.as_secs_f64()) as usize);
        let service = ended.saturating_duration_since(self.started);
        let response = ended.saturating_duration_since(self.intended);
        ledger.on(self.operation, |account| {
            account.body_bytes_received += body_bytes as u64;
            match outcome {
                Ok(()) => {
                    account.ok += 1;
                    Account::record(&mut account.service, service, &mut account.unrecorded);
                    Account::record(&mut account.response, response, &mut account.unrecorded);
                    *at(&mut account.ok_by_second, second) += 1;
                    if let Some(slice) = slice {
                        let slices = account.response_by_slice.len().max(slice + 1);
                        account.response_by_slice.resize_with(slices, slice_histogram);
                        Account::record(&mut account.response_by_slice[slice], response, &mut account.unrecorded);
                    }
                }
                Err(failure) => {
                    let failed = account.failed.entry(failure).or_insert_with(histogram);
                    Account::record(failed, service, &mut account.unrecorded);
                    *at(&mut account.failed_by_second, second) += 1;
                }
            }
        });
        if let (true, Some(recent)) = (is_ok, ledger.recent.borrow_mut().as_mut()) {
            // What cannot be recorded is missing in a line that is gone in a second.
            let _ = recent.record(if ledger.is_open { response } else { service }.as_nanos() as u64);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            ledger.last_end.set(Instant::now());
            ledger.on(self.operation, |account| account.censored += 1);
        }
    }
}
