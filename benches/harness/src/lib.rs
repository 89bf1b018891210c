//! The run of one row of a bench: alone under Criterion, in lock-step with a partner process, or counted.
//!
//! A bench target says *what* is measured ([`Suite::row`]): a set-up, an operation and the [`Facts`] about it. This crate knows
//! *how*, in one place, so that every row of every layer is timed alike, asserts its answer, and leaves its facts beside its
//! figures. It names neither the server nor its engine: the load generator and unit tests use its data sets and folders too.
//!
//! | environment | what a row does |
//! |---|---|
//! | (none) | plain Criterion with the published settings; without `--bench` a handful of operations at smoke scale |
//! | `STRATA_DRIVEN=1` | Criterion with flat sampling and the settings of the command line: an absolute figure |
//! | `STRATA_TURN=SOCKET` | takes turns with a partner process by the word of the broker at the socket; no Criterion |
//! | `STRATA_COUNT=N STRATA_ROW=ID` | that row's operation exactly N times, counted and not timed; instructions = the difference of N and 2N |
//! | `STRATA_FACTS_DIR=FOLDER` | beside any of these: the facts of every row, as `FOLDER/<pid>.json` |
//! | `STRATA_BENCH_DIR=FOLDER` | where stores lie, instead of the system's folder for temporary files |
//! | `STRATA_TEMPLATES=FOLDER` | where processes of one binary and one `STRATA_SET` share prepared stores; read by the benches themselves |
//! | `STRATA_SET=NAME=VALUE,..` | options of the engine over those of the benches; read by the benches themselves |
//!
//! Non-goals: judging (the runner does) and knowing any bench by name.

mod allocations;
mod counted;
pub mod data;
pub mod distribution;
mod facts;
mod folders;
mod found;
mod latency;
mod live;
mod memory;
mod paired;
mod record;
mod refusal;
mod row;
mod sampled;
mod scale;
mod suite;
mod thread_clock;

pub use allocations::CountingAllocator;
pub use facts::{Clock, Depth, Facts, Floor, Place, Unit};
pub use folders::{memory_directory, size_on_disk, temporary_directory};
pub use found::Found;
pub use latency::{Latencies, Latency, Stopwatch};
pub use live::{Data, State};
pub use memory::PeakMemory;
pub use refusal::{OrRefused, refused};
pub use scale::Scale;
pub use suite::{Suite, suite};
pub use thread_clock::ThreadClock;

/// Every program that links the harness counts its allocations.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
