"""The two kinds of work of a run: a process that measures the rows of a layer, and a pair that measures a row against its floor.

Why they return an outcome and change nothing: a job that is interrupted leaves no trace in the run, so a resumed run does it again from
the start and no figure is counted twice.
"""

import dataclasses
import json
import math
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_benches import broker, build, criterion_output, plan, processes, shapes
from run_benches.build import Found, Suite
from run_benches.errors import Complaint
from run_benches.plan import Job
from run_benches.runs import Design, Facts

KEPT_IN_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "STRATA_BENCH_DIR")
"""The rest of the environment is not passed on: its mere length moves the stack of a process, and with it the times."""

TEMPLATES = "templates"
"""The folder of prepared stores among the files of a run; removed when the run has ended."""

HOPELESS = 3
"""After so many processes in a row that measured nothing at all, what is left of the layer is given up."""


@dataclass(frozen=True)
class Workshop:
    """What every job of a run needs."""

    suites: dict[str, Suite]
    design: Design
    folder: Path
    patience_s: float
    tick: Callable[[], None]


@dataclass
class Outcome:
    """What a job found, by row."""

    points_ns: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    engine: dict[str, Any] | None = None
    failures: dict[str, str] = field(default_factory=dict)


def measure_layer(shop: Workshop, job: Job, rows: list[str], deadline_s: float) -> Outcome:
    """Measures rows with one thread in one process on one core, as pairs are; then those with several in one on all cores. Workloads are
    of the latter: what they leave to the background is a part of them, and has the other cores."""
    outcome, facts = Outcome(), shop.suites[job.subject].facts.rows
    for alone in (True, False):
        chosen = [id for id in rows if (facts[id].threads == 1 and not facts[id].workload) == alone]
        _measure_together(shop, job, chosen, "one-core" if alone else "all-cores", deadline_s, outcome)
    return outcome


def _measure_together(shop: Workshop, job: Job, left: list[str], where: str, deadline_s: float, outcome: Outcome) -> None:
    """One process; a new one for the rest whenever a row takes the process with it."""
    attempt, barren = 0, 0
    while left:
        folder = shop.folder / f"{job.round + 1:02}-{job.subject}-{where}-{attempt}"
        failure = _run_rows(shop, shop.suites[job.subject], left, folder, deadline_s)
        measured = _collect(outcome, left, folder)
        rest = [id for id in left if id not in measured]
        barren = 0 if measured else barren + 1
        # Rows run in the order of the source, so the first one without a figure is the one that failed.
        failed = rest[:1] if failure and barren < HOPELESS else rest
        outcome.failures |= {id: failure or "the process ended well and left no figure" for id in failed}
        left, attempt = rest[len(failed) :], attempt + 1


def _run_rows(shop: Workshop, suite: Suite, rows: list[str], folder: Path, deadline_s: float) -> str | None:
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted attempt left there is not this process's
    (folder / "facts").mkdir(parents=True)
    own = {"CRITERION_HOME": str(folder / "criterion"), "STRATA_FACTS_DIR": str(folder / "facts"), "STRATA_DRIVEN": "1"} | _templates(shop, suite)
    options = criterion_output.arguments(shop.design.sample_size, shop.design.warm_up_s, shop.design.measurement_s)
    only = [] if rows == list(suite.facts.rows) else [criterion_output.filter_of(rows)]
    command = [str(suite.executable), *options, *only]
    facts = suite.facts.rows
    cores = every_core() if any(facts[id].workload for id in rows) else pinned_to(max(facts[id].threads for id in rows))
    return processes.run(command, environment_of(own), folder / "log", deadline_s, shop.patience_s, shop.tick, cores)


def _collect(outcome: Outcome, rows: list[str], folder: Path) -> set[str]:
    try:
        found = criterion_output.read(folder / "criterion")
    except shapes.Misshapen as error:
        raise Complaint(f"what Criterion wrote cannot be read: {error}") from error
    facts, beside = build.read_facts(folder / "facts"), build.read_found(folder / "facts")
    outcome.engine = facts.engine if facts and facts.engine else outcome.engine
    for id in rows:
        if id in found and facts and id in facts.rows:
            outcome.facts[id], outcome.found[id] = facts.rows[id], beside[id]
            whole = facts.rows[id].changes_store or facts.rows[id].workload
            outcome.points_ns[id] = found[id].mean_ns() if whole else found[id].median_ns()
    return set(outcome.points_ns)


def measure_ratio(shop: Workshop, job: Job, floor: str, facts: Facts, deadline_s: float) -> Outcome:
    """Measures a row against its floor in one lock-step pair; the floor is side A. Where a row changes its store, stalls are part of
    its cost, so all its time counts; else the median over the turns does."""
    turn_ms = plan.turn_ms(facts)
    ids = (floor, job.subject)
    result = broker.run_pair(
        _side(shop, floor),
        _side(shop, job.subject),
        [broker.Row(ids, turn_ms * 1e6, shop.design.turns[f"{turn_ms}_ms"])],
        cores=pinned_to(facts.threads),
        seed=random.Random(f"{shop.design.seed}:{job.name}").getrandbits(32),
        deadline_s=deadline_s,
        silence_s=shop.patience_s,
        progress=lambda settled, of: shop.tick(),
    )
    if ids not in result.rows:
        reasons = [in_one_line(failure.reason) for failure in result.failures]
        return Outcome(failures={job.subject: "; ".join(reasons) or "the pair ended well and left no figure"})
    log = result.rows[ids]
    keep(shop.folder, job.name, job.subject, log)
    return Outcome(ratios={job.subject: ratio_of(broker.total_effect(log) if facts.changes_store else broker.effect(log))})


def in_one_line(reason: str) -> str:
    """A failure as a cell of a table. The broker quotes the last lines of a side below its reason; a table has room for what counts of them."""
    what, *quoted = reason.splitlines()
    return f"{what}: {processes.essence([line.strip(' |') for line in quoted])}" if quoted else what


def keep(folder: Path, name: str, row: str, log: broker.RowLog) -> None:
    """The turns of a pair, for whoever wants to look again: side, its nanoseconds, and those it waited for a core."""
    (folder / "pairs").mkdir(parents=True, exist_ok=True)
    turns = [[turn.side, turn.nanoseconds, turn.waited_ns] for turn in log.turns]
    kept = {"job": name, "ids": log.ids, "operations": log.operations, "turns": turns, "conditions": log.conditions}
    with (folder / "pairs" / f"{row.replace('/', '-')}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(kept, default=dataclasses.asdict) + "\n")


def _side(shop: Workshop, id: str) -> broker.Side:
    suite = next(suite for suite in shop.suites.values() if id in suite.facts.rows)
    return broker.Side([str(suite.executable), "--bench"], environment_of(_templates(shop, suite)))


def _templates(shop: Workshop, suite: Suite) -> dict[str, str]:
    """Where the processes of one binary share the stores they prepare: a million records are written once a run, not once a process."""
    built = suite.executable.stat().st_mtime_ns
    folder = shop.folder / TEMPLATES / f"{suite.executable.name}-{built}"
    folder.mkdir(parents=True, exist_ok=True)
    return {"STRATA_TEMPLATES": str(folder)}


def ratio_of(effect: float) -> float:
    """Floor's time / ours, of the effect of a pair whose side A is the floor: ln(ours / floor)."""
    return math.exp(-effect)


def pinned_to(threads: int) -> set[int]:
    """Both sides of a pair share one core, or all of them where the row has several threads."""
    return every_core() if threads > 1 else {max(every_core())}


def every_core() -> set[int]:
    """The cores that the runner itself may use."""
    return os.sched_getaffinity(0)


def environment_of(own: dict[str, str]) -> dict[str, str]:
    """The whole environment of a bench process."""
    return {name: os.environ[name] for name in KEPT_IN_ENVIRONMENT if name in os.environ} | own
