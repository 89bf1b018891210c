"""Instructions of one operation, counted on a simulated processor (callgrind, a tool of valgrind).

Why: a count does not depend on how busy the machine is, so it says whether the code does more work where a time only
says that it took longer. A row is run N times and 2 N times; the difference over N is one operation, since set-up,
warming of caches and everything else that happens once falls out of it. The stores that the row needs are prepared by a
native run before that: under valgrind it would take minutes. Counts of rows that reach the same data by other ways
(hash tables, skip lists) differ a little from run to run.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from run_benches import processes, scratch
from run_benches.measure import build
from run_benches.store.runs import Facts

NATIVE_NS = 50e6
"""The time that N operations take natively. Callgrind is about 50 times slower, so both runs together take some
seconds."""

DEADLINE_S = 120.0

PROBED = 64
"""N where allocations are counted, as in the probe of a row (benches/harness/src/row.rs)."""


@dataclass(frozen=True)
class Skipped:
    """A count that was not made, and why."""

    reason: str


@dataclass(frozen=True)
class Count:
    """A row of a binary to count. `environment` is the whole one and names a folder of prepared stores; `row_ns` is
    about what one operation takes."""

    executable: Path
    row: str
    facts: Facts
    environment: dict[str, str]
    row_ns: float


def instructions(
    count: Count, folder: Path, deadline_s: float = DEADLINE_S, tick: Callable[[], None] = lambda: None
) -> float | Skipped:
    """Instructions of one operation. `folder` takes what the processes write, until they have ended; each has
    `deadline_s`."""
    valgrind = shutil.which("valgrind")
    operations = _operations(count)
    if valgrind is None:
        return Skipped("valgrind is not installed: apt-get install valgrind")
    if count.facts.threads > 1 or count.facts.clock == "cpu":
        return Skipped("valgrind runs one thread at a time, and this row is about several")
    if operations == 0:
        return Skipped("a state serves too few operations to count them twice")
    totals: list[int] = []
    with scratch.folder(folder) as home:
        out = home / "callgrind.out"
        simulated = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", str(count.executable)]
        for command, number in (([str(count.executable)], 1), (simulated, operations), (simulated, 2 * operations)):
            failure = run(command, count.row, number, count.environment, home, deadline_s, tick)
            if failure:
                return Skipped(failure)
            if command is simulated:
                found = total(out.read_text(encoding="utf-8", errors="replace"))
                if found is None:
                    return Skipped("callgrind wrote no totals")
                totals.append(found)
    return (totals[1] - totals[0]) / operations


def all_instructions(
    counts: Sequence[Count], folder: Path, progress: Callable[[int, int], None], deadline_s: float = DEADLINE_S
) -> list[float | Skipped]:
    """Counts many rows, as many at once as there are cores: they cannot disturb each other. `progress` is told how many
    are done, of how many, again and again."""
    stopped = threading.Event()

    def tick() -> None:
        if stopped.is_set():
            raise InterruptedError("nobody waits for this count any more")

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures = [pool.submit(instructions, count, folder, deadline_s, tick) for count in counts]
        try:
            while wait(futures, processes.POLL_S).not_done:
                progress(sum(future.done() for future in futures), len(futures))
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def exact(count: Count, folder: Path, deadline_s: float = DEADLINE_S) -> Facts | Skipped:
    """The facts of a row after one native run of N operations: exactly what these allocated, and by what the engine's
    counters grew."""
    return _counted(count, _operations(count) or count.facts.capacity or 1, folder, deadline_s)


def allocations(count: Count, folder: Path, deadline_s: float = DEADLINE_S) -> float | Skipped:
    """Allocations of one operation: of those from N to 2 N, so that what happens once falls out."""
    operations, totals = min(PROBED, (count.facts.capacity or 2 * PROBED) // 2), []
    for number in (operations, 2 * operations):
        found = _counted(count, number, folder, deadline_s)
        if isinstance(found, Skipped) or found.allocations_per_operation is None:
            return (
                found if isinstance(found, Skipped) else Skipped("the allocations of another process cannot be counted")
            )
        totals.append(found.allocations_per_operation * number)
    return (
        round((totals[1] - totals[0]) / operations, 4)
        if operations
        else Skipped("a state serves too few operations to count them twice")
    )


def _counted(count: Count, operations: int, folder: Path, deadline_s: float) -> Facts | Skipped:
    with scratch.folder(folder) as home:
        environment = count.environment | {"STRATA_FACTS_DIR": str(home)}
        failure = run([str(count.executable)], count.row, operations, environment, home, deadline_s)
        found = build.read_facts(home)
    if failure or found is None or count.row not in found.rows:
        return Skipped(failure or "the bench wrote no facts")
    return found.rows[count.row]


def run(
    command: list[str],
    row: str,
    operations: int,
    environment: dict[str, str],
    home: Path,
    deadline_s: float,
    tick: Callable[[], None] = lambda: None,
) -> str | None:
    """Runs a bench so that it does so many operations of one row and nothing else; returns why it failed, or nothing."""
    own = environment | {"STRATA_COUNT": str(operations), "STRATA_ROW": row}
    once = partial(processes.run, [*command, "--bench"], own, home / "log", deadline_s, deadline_s, tick)
    failure = once()
    return once() if processes.refusal(failure) else failure


def total(output: str) -> int | None:
    """All instructions of a run, of what callgrind wrote about it, if it did."""
    found = re.search(r"^(?:summary|totals): (\d+)", output, re.MULTILINE)
    return int(found[1]) if found else None


def _operations(count: Count) -> int:
    """N, so that 2 N operations are within what one state serves."""
    operations = max(1, round(NATIVE_NS / count.row_ns))
    return operations if count.facts.capacity is None else min(operations, count.facts.capacity // 2)
