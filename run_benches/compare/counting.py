"""Second witnesses of a comparison: what each side was seen to do beside the time it took.

Why: noise cannot touch a count. Allocations, flushes, compactions and bytes written come with every pair for nothing;
RocksDB's own counts (PerfContext) take an untimed run, and instructions seconds of a simulated processor for each row
and side, so both are counted for the rows whose verdict they may explain, when the pairs are done.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

from run_benches.analysis import figures
from run_benches.compare import pairing, witnesses
from run_benches.compare.worktree import Target
from run_benches.measure import callgrind, jobs
from run_benches.stats.judge import AllocationVerdict
from run_benches.store.comparisons import Allocations, Comparison, Witness
from run_benches.store.runs import Facts, layer_of

MOST_ROWS = 12
"""Rows whose instructions are counted without being asked for: those that are slower or faster first, then those that
can't be told."""

COMPARISONS = "user_key_comparison_count"
"""Not of a memtable: its skip list draws its heights from an address, so the same code compares some percent more or
less."""


def note(witness: Witness, a: Facts | None, b: Facts | None) -> None:
    """Notes what both sides wrote of a row while a pair ran."""
    if a is None or b is None:
        return
    if a.allocations_per_operation is not None and b.allocations_per_operation is not None:
        witness.allocations = (a.allocations_per_operation, b.allocations_per_operation)
    for name in sorted(set(a.counters or {}) & set(b.counters or {})):
        counted = (_per_operation(a, name), _per_operation(b, name))
        if any(counted) and not (name == COMPARISONS and (a.changes_store or a.state == "memtable")):
            witness.counters[name] = counted


def _per_operation(facts: Facts, name: str) -> float:
    grown: float = (facts.counters or {})[name]
    return round(grown / max(1, facts.timed_operations or 0), 4)


def count(
    compared: Comparison,
    targets: tuple[dict[str, Target], dict[str, Target]],
    folder: Path,
    progress: Callable[[int, int], None],
) -> None:
    """Counts instructions of the rows that are not the same, on both sides; a row whose instructions cannot be counted
    says why."""
    order = ["slower", "faster", "can't tell"]
    told = {
        id: row.judgement.verdict
        for id, row in compared.rows.items()
        if row.judgement and row.judgement.verdict in order
    }
    wanted = sorted(told, key=lambda id: order.index(told[id]))
    for id in wanted[MOST_ROWS:]:
        _witness(compared, id).reason = f"only {MOST_ROWS} rows are counted"
    wanted = [id for id in wanted[:MOST_ROWS] if _witness(compared, id).instructions is None]
    counts = [_count(compared, targets, folder, id, index) for id in wanted for index in (0, 1)]
    for id in wanted:
        if compared.rows[id].facts.threads == 1:
            exact = [callgrind.exact(_count(compared, targets, folder, id, index), folder) for index in (0, 1)]
            note(_witness(compared, id), *(side if isinstance(side, Facts) else None for side in exact))
    found = callgrind.all_instructions(counts, folder, progress)
    for id, a, b in zip(wanted, found[::2], found[1::2], strict=True):
        witness = _witness(compared, id)
        if isinstance(a, callgrind.Skipped) or isinstance(b, callgrind.Skipped):
            witness.reason = next(side.reason for side in (a, b) if isinstance(side, callgrind.Skipped))
        else:
            witness.instructions = (round(a, 1), round(b, 1))


def judge_allocations(
    compared: Comparison, targets: tuple[dict[str, Target], dict[str, Target]], folder: Path, id: str, limit: float
) -> None:
    """The verdict of a row whose limit of allocations was passed on a side, which ended its processes there: both sides
    are counted, and the counts decide. Where they are equal (the limit is passed on both sides, or only one side has
    it) the row stays invalid, and says so."""
    row = compared.rows[id]
    a, b = (callgrind.allocations(_count(compared, targets, folder, id, index), folder) for index in (0, 1))
    if isinstance(a, callgrind.Skipped) or isinstance(b, callgrind.Skipped):
        row.reasons += [
            f"allocations of side {name} not counted: {side.reason}"
            for name, side in (("A", a), ("B", b))
            if isinstance(side, callgrind.Skipped)
        ]
        return
    work = witnesses.work(a, b, tolerance=0.0)  # a limit is passed by the least that is counted
    if work == "same":
        row.reasons.append(f"allocations are the same on both sides: {figures.count(a)} -> {figures.count(b)}")
    else:
        verdict: AllocationVerdict = "more allocations" if work == "more" else "fewer allocations"
        row.allocations, row.state = Allocations(verdict, a, b, limit), "judged"


def _witness(compared: Comparison, id: str) -> Witness:
    row = compared.rows[id]
    row.witness = row.witness or Witness()
    return row.witness


def _count(
    compared: Comparison, targets: tuple[dict[str, Target], dict[str, Target]], folder: Path, id: str, index: int
) -> callgrind.Count:
    """The row as cargo linked it: the order of functions changes no count."""
    row, side, layer = compared.rows[id], (compared.a, compared.b)[index], layer_of(id)
    environment = jobs.environment_of(pairing.stores(folder, "ab"[index], layer) | side.settings)
    times_ns = [point.a_ns for point in row.pairs or row.screen]
    return callgrind.Count(
        targets[index][layer].executable,
        id,
        row.facts,
        environment,
        statistics.median(times_ns) if times_ns else callgrind.NATIVE_NS,
    )
