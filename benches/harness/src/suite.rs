//! A bench target: its rows, and the way they run this time.

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion};

use crate::counted::Count;
use crate::facts::Facts;
use crate::live::State;
use crate::paired::{self, Broker};
use crate::record::Record;
use crate::row::Row;
use crate::sampled;
use crate::scale::Scale;

/// The rows of one layer.
pub struct Suite {
    layer: &'static str,
    scale: Scale,
    mode: Mode,
    record: Record,
}

enum Mode {
    Sampled(Box<Criterion>),
    Paired(Broker),
    Counted(Count),
}

impl Mode {
    fn from_environment() -> Self {
        if let Some(broker) = Broker::from_environment() {
            Self::Paired(broker)
        } else if let Some(count) = Count::from_environment() {
            Self::Counted(count)
        } else {
            Self::Sampled(Box::new(sampled::settings()))
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Sampled(_) => "sampled",
            Self::Paired(_) => "paired",
            Self::Counted(_) => "counted",
        }
    }
}

/// Runs a bench target: reads arguments and environment, runs the rows that are wanted, and writes the facts of all of them.
pub fn suite(layer: &'static str, rows: impl FnOnce(&mut Suite)) {
    let scale = if std::env::args().any(|argument| argument == "--bench") { Scale::Full } else { Scale::Smoke };
    let mode = Mode::from_environment();
    let record = Record::new(layer, scale, mode.name());
    let mut suite = Suite { layer, scale, mode, record };
    rows(&mut suite);
    suite.record.write();
    match suite.mode {
        Mode::Sampled(criterion) => criterion.final_summary(),
        Mode::Counted(count) => count.finish(),
        Mode::Paired(_) => {}
    }
}

impl Suite {
    /// Returns the size of the data of this run.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Records the effective options of the engine, as dumped by it. Once a process; again only with the same options.
    pub fn engine(&mut self, options: serde_json::Value) {
        self.record.engine(options);
    }

    /// Runs one row, with the id `<layer>/<operation>/<subject>/<case>`, if it is wanted.
    ///
    /// `setup` makes a state: outside all clocks, only for rows that run, and again whenever a row that changes its store needs a
    /// fresh one. `worker` is called once for each thread, outside the clock, and returns the operation: given the running index
    /// of the operation (from 0, unique over all threads within the life of one state) it returns how many units it did. Their sum
    /// is asserted against [`Facts::units_per_operation`].
    pub fn row<S: State, W: FnMut(u64) -> u64 + Send>(
        &mut self,
        operation: &str,
        subject: &str,
        case: &str,
        facts: Facts,
        mut setup: impl FnMut() -> S,
        worker: impl Fn(Arc<S>) -> W + Sync,
    ) {
        let group = format!("{}/{operation}", self.layer);
        let id = format!("{group}/{subject}/{case}");
        let facts = facts.registered(&group, case);
        self.record.declare(&id, &facts);
        let mut row = Row::new(&id, &facts, &mut setup, &worker);
        match &mut self.mode {
            Mode::Sampled(criterion) => {
                sampled::run(criterion, self.scale, &group, BenchmarkId::new(subject, case), &mut row);
            }
            Mode::Paired(broker) => paired::run(broker, &mut row),
            Mode::Counted(count) => count.run(&mut row),
        }
        if let Some(seen) = row.seen {
            self.record.ran(seen);
        }
    }
}
