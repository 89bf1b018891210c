"""Comparing two servers under load: pair after pair of new servers, each pair in short windows that take turns, judged
like benches.

Why the pair of servers is the unit: requests to one process share its layout in memory and its moment, so a million of
them are one trial of what a revision does. Which side comes first is drawn from the seed for each pair. The rows are
fixed by the first pair, before anything is judged: requests per right answer (so that a server does not win by refusing
some), CPU of the server for each right answer, the median and the 99th percentile of each operation.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from run_benches import processes, serialization
from run_benches.analysis import load_figures
from run_benches.errors import UserError
from run_benches.measure.job_loop import Failures, JobLoop, Task
from run_benches.places import CALIBRATION
from run_benches.progress import duration
from run_benches.stats import judge
from run_benches.store import load_comparisons
from run_benches.store.load_comparisons import LoadComparison, LoadRow, LoadRowKind
from run_benches.store.loads import NONE, LoadResult, Statistics

QUANTILES: dict[float, LoadRowKind] = {0.5: "p50", 0.99: "p99"}

MOST_INVALID = 3
"""Pairs that may be invalid; what breaks rules more often than that does so for a reason of its own."""

PAIR_TIMEOUT_S = 120.0
"""Twice this, and ten times what the pairs before took, is the deadline of a pair."""

LOST_MARGIN = 0.001
"""The share of requests by which both sides may differ in what they do not answer right, and still be the same."""


@dataclass(frozen=True)
class Programs:
    """The load tool, and the servers of both sides."""

    load: Path
    a: Path
    b: Path


def carry_out(compared: LoadComparison, path: Path, programs: Programs, wanted: int | None) -> None:
    """Does all pairs and judges; `wanted` pairs, or as many as the rule needs for so many rows. An interrupted
    comparison is not complete."""

    def store(seconds: float) -> None:
        compared.seconds = seconds
        load_comparisons.store(compared, path)

    def expected_s() -> float:
        return loop.spent_s / compared.done if compared.done else 0.0  # of the first it is not known

    def later_s() -> float:
        return expected_s() * ((compared.pairs or 1) - compared.done - 1)

    with JobLoop([], store, PAIR_TIMEOUT_S) as loop:
        while compared.pairs is None or compared.done < compared.pairs:
            number = compared.done + len(compared.invalid)
            words = f"pair {compared.done + 1}" + (f" of {compared.pairs}" if compared.pairs else " of servers")
            do = partial(_pair, compared, path.with_suffix(""), programs, number)
            loop.carry_out([Task(f"pair {number}", words, expected_s, do)], later_s)
            if compared.pairs is None and compared.done:
                compared.pairs = _planned(compared, wanted)
            if len(compared.invalid) > MOST_INVALID:
                return
            if compared.done == judge.EARLY_PAIRS and _look(compared, early=True):
                break
        _look(compared, early=False)
        compared.complete = True
        loop.store()


def _planned(compared: LoadComparison, wanted: int | None) -> int:
    rows = len(_judgeable(compared))
    fewest = judge.deciding_pairs(rows, compared.alpha)
    if wanted is not None and wanted < fewest:
        raise UserError(f"{rows} rows need {fewest} pairs of servers, and --pairs says {wanted}")
    pairs = wanted or fewest
    print(f"{rows} rows, {pairs} pairs of servers: about {duration(compared.seconds * pairs)}", file=sys.stderr)
    return pairs


def _judgeable(compared: LoadComparison) -> dict[str, LoadRow]:
    return {name: row for name, row in compared.rows.items() if row.a}


def _look(compared: LoadComparison, early: bool) -> bool:
    """Judges the rows that are not judged yet; whether none is left."""
    family = _judgeable(compared)
    left = {name: row.effects() for name, row in family.items() if row.judgement is None and row.reason is None}
    margins = {
        name: LOST_MARGIN if family[name].kind == "requests per right answer" else compared.margin for name in left
    }
    if left:
        rows = (left, margins, compared.alpha, len(family))
        for name, judgement in (judge.clear(*rows) if early else judge.decide(*rows)).items():
            compared.rows[name].judgement = judgement
    return all(row.judgement or row.reason for row in family.values())


def _pair(compared: LoadComparison, folder: Path, programs: Programs, number: int, deadline_s: float) -> Failures:
    """One pair: its figures come to the rows if all of its runs are valid, or bound by the client; else the reason to
    `invalid`."""
    swapped = random.Random(f"{compared.seed}:{number}").random() < 0.5
    sides = [(compared.a, programs.a), (compared.b, programs.b)]
    first, second = reversed(sides) if swapped else sides
    results = folder / f"pair-{number:03}"
    own, versus = ([side.scenario, "--server", str(server), *side.flags] for side, server in (first, second))
    how = ["--windows", str(compared.windows), "--results", str(results), "--calibration", str(CALIBRATION)]
    command = [str(programs.load), "pair", *own, *how, "--", *versus]
    try:
        lines = _run(command, deadline_s if compared.done else None)
    except (UserError, TimeoutError) as error:
        if not compared.done:
            raise
        compared.invalid.append(f"pair {number + 1}: {error}")
        return {}
    pairs = [[_result(results / f"{id}.json") for id in json.loads(line)] for line in lines]
    ordered = [(second, first) if swapped else (first, second) for first, second in pairs]
    runs = [(side, run) for pair in ordered for side, run in zip("AB", pair, strict=True)]
    for _, run in runs:
        compared.validities[run.validity] = compared.validities.get(run.validity, 0) + 1
    broken = [f"pair {number + 1}, side {side}: {why}" for side, run in runs if (why := _not_counted(run))]
    if broken:
        compared.invalid += broken[:1]
    else:
        _keep(compared, ordered, number)
    return {}


def _not_counted(run: LoadResult) -> str | None:
    """Why a run says nothing of its server."""
    if run.validity not in ("valid", "client_bound"):
        return "; ".join(run.broken) or run.validity.replace("_", " ")
    return None if run.total.ok else "no request was answered right"


def _keep(compared: LoadComparison, pairs: Sequence[tuple[LoadResult, LoadResult]], number: int) -> None:
    found = {name: row for a, b in pairs for name, row in _rows(a, b).items()}
    if not compared.done:
        compared.rows = {name: LoadRow(row.kind, row.times) for name, row in found.items()}
    for name, row in compared.rows.items():
        if row.reason is None and (why := found[name].reason):
            row.reason = f"{why}, in pair {number + 1}"
        if row.reason is None:
            row.a += found[name].a
            row.b += found[name].b
    for side, place in (("a", 0), ("b", 1)):
        for pair in pairs:
            compared.counts[side] = compared.counts.get(side, NONE).plus(pair[place].total)
    compared.done += 1


def _rows(a: LoadResult, b: LoadResult) -> dict[str, LoadRow]:
    """Returns what both sides have, as rows of one pair. Operations are held against each other in their order; those
    of equal name are named by it. Of a side that has more of them, those that both have are, by their names; then a
    right answer is another thing on each side."""
    variant, found, pairs = a.scenario.name, {}, list(zip(a.cells, b.cells, strict=False))
    if len(a.cells) == len(b.cells):
        asked = [run.total.scheduled / run.total.ok for run in (a, b)]
        cpu_ns = [load_figures.server_cpu_ns(run) or "no clock of the server" for run in (a, b)]
        found = {
            f"{variant}/requests per right answer": _row("requests per right answer", None, *asked),
            f"{variant}/server CPU per right answer": _row("server CPU per right answer", None, *cpu_ns),
        }
    else:
        named = {cell.operation: cell for cell in b.cells}
        pairs = [(cell, named[cell.operation]) for cell in a.cells if cell.operation in named]
    if not pairs:
        raise UserError(
            f"{variant}: no operation of one side has the name of one of the other, and there are {len(a.cells)} and {len(b.cells)}"
        )
    for ours, theirs in pairs:
        name = ours.operation if ours.operation == theirs.operation else f"{ours.operation} | {theirs.operation}"
        for quantile, kind in QUANTILES.items():
            # The response time in an open loop, else the service time.
            figures = (_at(cell.response or cell.service, quantile) for cell in (ours, theirs))
            row = _row(kind, "response" if ours.response else "service", *figures)
            if (ours.response is None) != (theirs.response is None):
                row = LoadRow(kind, None, reason="response time on one side, service time on the other")
            found[f"{variant}/{name}/{kind}"] = row
    if a.multicasts and b.multicasts:
        came = (a.multicasts.last_lag, b.multicasts.last_lag)
        found |= {
            f"{variant}/last arrival of a message/{kind}": _row(
                kind, "last arrival", *(_at(lag, quantile) for lag in came)
            )
            for quantile, kind in QUANTILES.items()
        }
    return found


def _row(
    kind: LoadRowKind, times: Literal["response", "service", "last arrival"] | None, a: float | str, b: float | str
) -> LoadRow:
    """Of one pair; words in place of a figure are the reason why there is none."""
    if isinstance(a, str) or isinstance(b, str):
        reasons = [f"{words} on side {side}" for side, words in (("A", a), ("B", b)) if isinstance(words, str)]
        return LoadRow(kind, times, reason=" and ".join(reasons))
    return LoadRow(kind, times, [a], [b])


def _at(times: Statistics | None, quantile: float) -> float | str:
    told, value = load_figures.at(times, quantile)
    return value or ("later than any that was measured" if told else "too few requests")


def _run(command: list[str], limit_s: float | None) -> list[str]:
    """The lines that the load tool prints. It is told of an interrupt, so that it stops its servers."""
    done = processes.captured(command, limit_s=limit_s, ending=processes.STORING)
    if done.returncode not in (0, 1) or not done.stdout:
        lines = done.stderr.strip().splitlines() or [f"the load tool ended with code {done.returncode}"]
        raise UserError(lines[-1].removeprefix("load: "))
    return done.stdout.splitlines()


def _result(path: Path) -> LoadResult:
    try:
        return serialization.load(LoadResult, path)
    except (OSError, serialization.Malformed) as error:
        raise UserError(f"{path}: {error}") from error


def same_flags(scenario: str, shared: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]]:
    """The scenario and flags of side B: those of A, with `words` in addition, which may begin with another scenario."""
    other, more = (words[0], words[1:]) if words and not words[0].startswith("-") else (scenario, words)
    return other, [*shared, *more]
