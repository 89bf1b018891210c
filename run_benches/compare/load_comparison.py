"""Comparing two servers under load: pair after pair of new servers, each pair in short windows that take turns, judged like benches.

Why the pair of servers is the unit: requests to one process share its layout in memory and its moment, so a million of them are one
trial of what a revision does. Which side comes first is drawn from the seed for each pair. The rows are fixed by the first pair, before
anything is judged: CPU of the server for each right answer, the median and the 99th percentile of each operation.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from run_benches import processes, serialization
from run_benches.analysis import load_figures
from run_benches.errors import Complaint
from run_benches.interrupts import raise_if_requested
from run_benches.progress import Line, duration
from run_benches.stats import judge
from run_benches.store import load_comparisons
from run_benches.store.load_comparisons import Kind, LoadComparison, Row
from run_benches.store.loads import Operation, Result

QUANTILES: dict[float, Kind] = {0.5: "p50", 0.99: "p99"}

MOST_INVALID = 3
"""Pairs that may be invalid; what breaks rules more often than that does so for a reason of its own."""


@dataclass(frozen=True)
class Programs:
    """The load tool, and the servers of both sides."""

    load: Path
    a: Path
    b: Path


@dataclass(frozen=True)
class _Figure:
    kind: Kind
    times: Literal["response", "service"] | None
    ns: float


def carry_out(compared: LoadComparison, path: Path, programs: Programs, wanted: int | None) -> None:
    """Does all pairs and judges; `wanted` pairs, or as many as the rule needs for so many rows. What stands on disk is whole at every
    moment, and an interrupted comparison is not complete."""
    began = time.monotonic()
    load_comparisons.store(compared, path)
    with Line() as line:
        while compared.pairs is None or compared.done < compared.pairs:
            raise_if_requested()
            number = compared.done + len(compared.invalid)
            line.show(_progress(compared, time.monotonic() - began))
            _pair(compared, path.with_suffix(""), programs, number)
            compared.seconds = round(time.monotonic() - began, 1)
            if compared.pairs is None and compared.done:
                compared.pairs = _planned(compared, wanted)
            if len(compared.invalid) > MOST_INVALID:
                break
            if compared.done == judge.EARLY_PAIRS and _look(compared, early=True):
                break
            load_comparisons.store(compared, path)
    if compared.done:
        _look(compared, early=False)
    compared.complete = True
    load_comparisons.store(compared, path)


def _planned(compared: LoadComparison, wanted: int | None) -> int:
    fewest = judge.deciding_pairs(len(compared.rows), compared.alpha)
    if wanted is not None and wanted < fewest:
        raise Complaint(f"{len(compared.rows)} rows need {fewest} pairs of servers, and --pairs says {wanted}")
    pairs = wanted or fewest
    print(f"{len(compared.rows)} rows, {pairs} pairs of servers: about {duration(compared.seconds * pairs)}", file=sys.stderr)
    return pairs


def _look(compared: LoadComparison, early: bool) -> bool:
    """Judges the rows that are not judged yet; whether none is left."""
    left = {name: row.effects() for name, row in compared.rows.items() if row.judgement is None}
    margins = dict.fromkeys(left, compared.margin)
    if left:
        found = judge.clear(left, margins, compared.alpha, len(compared.rows)) if early else judge.decide(left, margins, compared.alpha, len(compared.rows))
        for name, judgement in found.items():
            compared.rows[name].judgement = judgement
    return all(row.judgement for row in compared.rows.values())


def _progress(compared: LoadComparison, seconds: float) -> str:
    if not compared.pairs:
        return "the first pair of servers"
    left = seconds / compared.done * (compared.pairs - compared.done)
    return f"pair {compared.done + 1} of {compared.pairs}, {duration(left)} left"


def _pair(compared: LoadComparison, folder: Path, programs: Programs, number: int) -> None:
    """One pair: its figures come to the rows if all of its runs are valid, or bound by the client; else the reason to `invalid`."""
    swapped = random.Random(f"{compared.seed}:{number}").random() < 0.5
    sides = [(compared.a, programs.a), (compared.b, programs.b)]
    first, second = reversed(sides) if swapped else sides
    results = folder / f"pair-{number:03}"
    own, versus = ([side.scenario, "--server", str(server), *side.flags] for side, server in (first, second))
    command = [str(programs.load), "pair", *own, "--windows", str(compared.windows), "--results", str(results), "--", *versus]
    pairs = [[_result(results / f"{id}.json") for id in json.loads(line)] for line in _run(command)]
    runs = [run for pair in pairs for run in pair]
    for run in runs:
        compared.validities[run.validity] = compared.validities.get(run.validity, 0) + 1
    broken = [f"pair {number + 1}: {run.id}: {'; '.join(run.broken) or run.validity}" for run in runs if run.validity not in ("valid", "client_bound")]
    if broken:
        compared.invalid += broken[:1]
        return
    _keep(compared, [(b, a) if swapped else (a, b) for a, b in pairs])


def _keep(compared: LoadComparison, pairs: Sequence[tuple[Result, Result]]) -> None:
    found = {name: both for a, b in pairs for name, both in _figures(a, b).items()}
    if not compared.done:
        compared.rows = {name: Row(a.kind, a.times) for name, (a, _) in found.items()}
    lacking = sorted(set(compared.rows) - set(found))
    if lacking:
        compared.invalid.append(f"pair {compared.done + len(compared.invalid) + 1}: too few requests for {lacking[0]}")
        return
    for name, row in compared.rows.items():
        a, b = found[name]
        row.a_ns.append(a.ns)
        row.b_ns.append(b.ns)
    compared.done += 1


def _figures(a: Result, b: Result) -> dict[str, tuple[_Figure, _Figure]]:
    """By row, what both sides have. Operations are held against each other in their order; those of equal name are named by it."""
    variant = a.scenario["name"]
    found: dict[str, tuple[_Figure, _Figure]] = {}
    cpu = [load_figures.server_cpu_ns(run) for run in (a, b)]
    if cpu[0] and cpu[1]:
        found[f"{variant}/server CPU a request"] = (_Figure("server CPU a request", None, cpu[0]), _Figure("server CPU a request", None, cpu[1]))
    if len(a.cells) != len(b.cells):
        raise Complaint(f"{variant} has {len(a.cells)} operations on one side and {len(b.cells)} on the other")
    for ours, theirs in zip(a.cells, b.cells, strict=True):
        name = ours.operation if ours.operation == theirs.operation else f"{ours.operation} | {theirs.operation}"
        before, after = _quantiles(ours), _quantiles(theirs)
        found |= {f"{variant}/{name}/{kind}": (before[kind], after[kind]) for kind in before if kind in after and before[kind].times == after[kind].times}
    return found


def _quantiles(cell: Operation) -> dict[Kind, _Figure]:
    """The quantiles of a cell that are known: of the response time in an open loop, else of the service time."""
    times: Literal["response", "service"] = "response" if cell.response else "service"
    known = cell.response or cell.service
    points = known.quantiles if known else []
    return {QUANTILES[point.quantile]: _Figure(QUANTILES[point.quantile], times, point.value) for point in points if point.quantile in QUANTILES and point.value}


def _run(command: list[str]) -> list[str]:
    """The lines that the load tool prints. It is told of an interrupt, so that it stops its servers."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        output, errors = process.communicate()
    except KeyboardInterrupt:
        processes.interrupt(process)
        raise
    finally:
        processes.end(process)
    if process.returncode not in (0, 1) or not output:
        raise Complaint((errors.strip().splitlines() or [f"the load tool ended with code {process.returncode}"])[-1].removeprefix("load: "))
    return output.splitlines()


def _result(path: Path) -> Result:
    try:
        return serialization.load(Result, path)
    except (OSError, serialization.Malformed) as error:
        raise Complaint(f"{path}: {error}") from error


def same_flags(scenario: str, shared: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]]:
    """The scenario and flags of side B: those of A, with `words` in addition, which may begin with another scenario."""
    other, more = (words[0], words[1:]) if words and not words[0].startswith("-") else (scenario, words)
    return other, [*shared, *more]
