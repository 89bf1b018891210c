//! A row under Criterion: absolute figures, and what a person sees who types `cargo bench`.
//!
//! Criterion asks for as many iterations as fit its time. A row that changes its store cannot follow: the faster side would
//! measure a larger store. It does fixed work on a fresh state per sample instead, and the time is scaled to the iterations asked
//! for. All preparation stands outside `iter_custom`, because Criterion takes the whole call for the cost of an iteration when it
//! plans its samples.
//!
//! A workload is one state for the whole row: the first call warms it up, and each sample goes on where the last one ended.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode};

use crate::facts::WORKLOAD_SAMPLES;
use crate::live::{Live, State};
use crate::row::Row;
use crate::scale::Scale;

/// Operations a thread runs at smoke scale.
const SMOKE_OPERATIONS: u64 = 8;

/// The published settings, which the command line may change.
pub(crate) fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(3))
        .measurement_time(Duration::from_secs(5))
        .configure_from_args()
}

/// Hands the row to Criterion, which may skip it, list it, test it or sample it.
pub(crate) fn run<S: State, W: FnMut(u64) -> u64 + Send>(
    criterion: &mut Criterion,
    scale: Scale,
    group: &str,
    id: BenchmarkId,
    row: &mut Row<'_, S, W>,
) {
    if row.facts.workload {
        return run_workload(criterion, scale, group, id, row);
    }
    let driven = std::env::var_os("STRATA_DRIVEN").is_some_and(|value| value == "1");
    let mut group = criterion.benchmark_group(group);
    if driven || row.facts.changes_store {
        group.sampling_mode(SamplingMode::Flat);
    }
    if row.facts.changes_store {
        // Ends after one turn: doubling the iterations, Criterion's way to warm up, does not make fixed work longer.
        group.warm_up_time(Duration::from_nanos(1));
    }
    let mut live: Option<Live<S, W>> = None;
    group.bench_function(id, |bencher| {
        if live.is_none() {
            live = Some(row.probed());
        }
        if row.facts.changes_store {
            live = None; // closed before the next is made
        }
        let threads = row.facts.threads;
        let live = live.get_or_insert_with(|| row.fresh(threads));
        bencher.iter_custom(|iterations| {
            let operations = match scale {
                Scale::Smoke => smoke_operations(row.facts.threads, row.facts.capacity),
                Scale::Full if row.facts.changes_store => row.facts.turn_operations,
                Scale::Full => iterations,
            };
            row.timed(live, operations).mul_f64(iterations as f64 / operations as f64)
        });
        live.state().settle();
    });
}

/// A workload, part by part, each as long as the others, so that Criterion's samples are ten neighbouring stretches of it.
fn run_workload<S: State, W: FnMut(u64) -> u64 + Send>(
    criterion: &mut Criterion,
    scale: Scale,
    group: &str,
    id: BenchmarkId,
    row: &mut Row<'_, S, W>,
) {
    let (threads, part) = (row.facts.threads, row.facts.turn_operations);
    let mut group = criterion.benchmark_group(group);
    // Ends after one part.
    group.sampling_mode(SamplingMode::Flat).sample_size(WORKLOAD_SAMPLES).warm_up_time(Duration::from_nanos(1));
    let mut live: Option<Live<S, W>> = None;
    let (mut warm, mut timed) = (scale == Scale::Smoke, None);
    group.bench_function(id, |bencher| {
        let live = live.get_or_insert_with(|| row.fresh(threads));
        bencher.iter_custom(|iterations| {
            let elapsed = if warm {
                let timed = timed.get_or_insert_with(|| {
                    live.state().begin();
                    Duration::ZERO
                });
                let elapsed = row.timed(live, part);
                *timed += elapsed;
                elapsed
            } else {
                warm = true;
                live.run(part, row.facts)
            };
            elapsed.mul_f64(iterations as f64 / part as f64)
        });
    });
    if let Some((live, timed)) = live.zip(timed) {
        row.conclude(&live, timed);
    }
}

/// A handful a thread, if the state serves so many.
fn smoke_operations(threads: usize, capacity: Option<u64>) -> u64 {
    (SMOKE_OPERATIONS * threads as u64).min(capacity.unwrap_or(u64::MAX))
}
