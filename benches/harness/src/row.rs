//! A row about to run: how to set it up, what to do, and what was seen while it ran.
//!
//! The rules of all ways of running: a fresh state settles before anybody looks at it, allocations are counted on one thread outside
//! every clock, and no preparation uses up more than an eighth of what a state can serve.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::allocations;
use crate::facts::{Clock, Facts};
use crate::found::Found;
use crate::live::{Live, State};

/// Operations whose allocations are counted, after as many that are not.
const PROBE_OPERATIONS: u64 = 64;
/// Neither half of the probe, nor the estimate of the cost, goes on much longer than this.
const PREPARATION: Duration = Duration::from_millis(20);

/// The observations made while a row ran, which stand beside its facts.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Seen {
    /// Mean over the operations of the probe, or over all that were counted, on one thread; `None` = it cannot be told.
    pub(crate) allocations_per_operation: Option<f64>,
    /// Operations inside the timed parts, or counted.
    pub(crate) timed_operations: u64,
    /// Growth of the state's counters meanwhile.
    pub(crate) counters: BTreeMap<&'static str, u64>,
    /// The findings of a workload beside its time.
    #[serde(flatten)]
    pub(crate) found: Found,
}

impl Seen {
    /// Adds what the counters have grown by.
    fn grown(&mut self, before: Vec<(&'static str, u64)>, after: Vec<(&'static str, u64)>) {
        for ((name, before), (_, after)) in before.into_iter().zip(after) {
            *self.counters.entry(name).or_default() += after - before;
        }
    }
}

/// A row with its set-up and its operation.
pub(crate) struct Row<'r, S, W> {
    pub(crate) id: &'r str,
    pub(crate) facts: &'r Facts,
    setup: &'r mut dyn FnMut() -> S,
    worker: &'r dyn Fn(Arc<S>) -> W,
    /// `None` until the row has run.
    pub(crate) seen: Option<Seen>,
}

impl<'r, S: State, W: FnMut(u64) -> u64 + Send> Row<'r, S, W> {
    pub(crate) fn new(
        id: &'r str,
        facts: &'r Facts,
        setup: &'r mut dyn FnMut() -> S,
        worker: &'r dyn Fn(Arc<S>) -> W,
    ) -> Self {
        Self { id, facts, setup, worker, seen: None }
    }

    /// A fresh, settled state with `threads` workers.
    pub(crate) fn fresh(&mut self, threads: usize) -> Live<S, W> {
        Live::new((self.setup)(), threads, self.worker)
    }

    /// A fresh state on which allocations have been counted.
    pub(crate) fn probed(&mut self) -> Live<S, W> {
        let mut live = self.fresh(self.facts.threads);
        let operations = PROBE_OPERATIONS.min(self.preparation_operations() / 4);
        live.run_alone(operations, PREPARATION, self.facts);
        let before = allocations::on_this_thread();
        let ran = live.run_alone(operations, PREPARATION, self.facts);
        let allocations = allocations::on_this_thread() - before;
        let per_operation = self.is_done_here(ran).then(|| allocations as f64 / ran as f64);
        if let (Some(found), Some(at_most)) = (per_operation, self.facts.allocations_at_most) {
            assert!(
                found <= at_most as f64,
                "{}: {found} allocations per operation, at most {at_most} expected",
                self.id
            );
        }
        self.seen = Some(Seen { allocations_per_operation: per_operation, ..Seen::default() });
        live
    }

    /// Warms up and returns the cost of one operation on the wall, in nanoseconds. Each batch has an operation for every thread at least:
    /// fewer that wait for the device would wait alone.
    pub(crate) fn cost_ns(&mut self, live: &mut Live<S, W>) -> f64 {
        let began = Instant::now();
        let mut operations = self.facts.threads as u64;
        loop {
            let batch = Instant::now();
            let clocked = live.run(operations, self.facts);
            // A turn is long on the wall, whatever the row's clock is; the wall clock of the run leaves out the start of threads.
            let wall = if self.facts.clock == Clock::Wall { clocked } else { batch.elapsed() };
            let cost_ns = wall.as_nanos() as f64 / operations as f64;
            operations *= 2;
            // The last batch, about half of all, is the warm one.
            if began.elapsed() >= PREPARATION || live.served() + operations > self.preparation_operations() {
                return cost_ns;
            }
        }
    }

    /// Runs `operations` of the row's timed part and notes what the state counted meanwhile.
    pub(crate) fn timed(&mut self, live: &mut Live<S, W>, operations: u64) -> Duration {
        let before = live.state().counters();
        let elapsed = live.run(operations, self.facts);
        let after = live.state().counters();
        let seen = self.seen.get_or_insert_default();
        seen.timed_operations += operations;
        seen.grown(before, after);
        elapsed
    }

    /// Ends a workload whose timed parts took `timed`, and notes what its state has found.
    pub(crate) fn conclude(&mut self, live: &Live<S, W>, timed: Duration) {
        let found = live.state().found();
        if !self.facts.background && self.facts.clock == Clock::Wall {
            found.check_against(timed, self.facts.threads, self.id);
        }
        self.seen.get_or_insert_default().found = found;
    }

    /// Runs exactly `operations` on one thread and a fresh state, untimed, and notes everything that can be counted about them.
    pub(crate) fn counted(&mut self, operations: u64) {
        let mut live = self.fresh(1);
        let before = [live.state().counters(), live.state().thread_counters()].concat();
        let allocations_before = allocations::on_this_thread();
        live.run(operations, self.facts);
        let allocations = allocations::on_this_thread() - allocations_before;
        let of_thread = live.state().thread_counters();
        // What the operations left to the background is theirs, too.
        live.state().settle();
        let after = [live.state().counters(), of_thread].concat();
        let per_operation = self.is_done_here(operations).then(|| allocations as f64 / operations as f64);
        let mut seen =
            Seen { allocations_per_operation: per_operation, timed_operations: operations, ..Seen::default() };
        seen.grown(before, after);
        self.seen = Some(seen);
    }

    /// Returns true if the operations were done on the calling thread: a server, whose CPU clock is read, works on threads of its own.
    fn is_done_here(&self, operations: u64) -> bool {
        operations > 0 && self.facts.clock == Clock::Wall
    }

    /// Operations that may be spent on a state before it is measured.
    fn preparation_operations(&self) -> u64 {
        self.facts.capacity.map_or(u64::MAX, |capacity| capacity / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    fn allocates_twice(_: Arc<()>) -> impl FnMut(u64) -> u64 {
        |_| *black_box(Box::new(0)) + *black_box(Box::new(1))
    }

    #[test]
    fn allocations_are_counted() {
        let facts = Facts::new("allocates twice").allocations_at_most(2);
        let mut setup = || ();
        let mut row = Row::new("test/allocate/twice/2", &facts, &mut setup, &allocates_twice);
        row.probed();
        assert_eq!(row.seen.unwrap().allocations_per_operation, Some(2.0));
    }

    #[test]
    fn allocations_of_a_client_are_not_those_of_its_server() {
        struct Server;
        impl State for Server {
            fn cpu(&self) -> Option<Duration> {
                Some(Duration::ZERO)
            }
        }
        let facts = Facts::new("asks a server").cpu_clock();
        let client = |_: Arc<Server>| |_| *black_box(Box::new(1));
        let mut setup = || Server;
        let mut row = Row::new("test/ask/strata/tcp", &facts, &mut setup, &client);
        drop(row.probed());
        assert_eq!(row.seen.as_ref().unwrap().allocations_per_operation, None);
        row.counted(100);
        assert_eq!(row.seen.unwrap().allocations_per_operation, None);
    }

    #[test]
    #[should_panic(expected = "2 allocations per operation, at most 1 expected")]
    fn too_many_allocations_are_caught() {
        let facts = Facts::new("allocates twice").allocations_at_most(1);
        Row::new("test/allocate/twice/2", &facts, &mut || (), &allocates_twice).probed();
    }

    #[test]
    fn preparation_spares_the_capacity() {
        let facts = Facts::new("deletes").changes_store(10, 100);
        let mut setup = || ();
        let worker = |_| |_| 1;
        let mut row = Row::new("test/delete/strata/100", &facts, &mut setup, &worker);
        let mut live = row.probed();
        row.cost_ns(&mut live);
        assert!(live.served() <= 12, "{} of 100 operations used up", live.served());
    }
}
