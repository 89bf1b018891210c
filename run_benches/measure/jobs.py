"""The two kinds of work of a run: a process that measures rows by themselves, and a tuple, the lanes of a family that
take turns.

Why they return an outcome and change nothing: a job that is interrupted leaves no trace in the run, so a resumed run
does it again from the start and no figure is counted twice.
"""

import dataclasses
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_benches import processes
from run_benches.measure import broker, build, criterion_output, families
from run_benches.measure.build import Found, Suite
from run_benches.measure.families import Tuple
from run_benches.measure.plan import PlannedJob
from run_benches.places import shown
from run_benches.store.runs import Design, Facts, Family, layer_of

KEPT_IN_ENVIRONMENT = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "STRATA_BENCH_DIR",
    "STRATA_NATS_PROGRAM",
)
"""The rest of the environment is not passed on: its mere length moves the stack of a process, and with it the times."""

TEMPLATES = "templates"
"""The folder of prepared stores among the files of a run."""

LANES, LINKED = "lanes", "linked"
"""The folders of what lanes say of themselves, and of binaries that were linked anew."""

SCRATCH = (TEMPLATES, LANES, LINKED)
"""Removed when the run has ended."""

MOST_EMPTY = 3
"""After so many processes in a row that measured nothing at all, what is left of the layer is given up."""


@dataclass(frozen=True)
class RunContext:
    """The context that every job of a run needs."""

    suites: dict[str, Suite]
    design: Design
    folder: Path
    timeout_s: float
    tick: Callable[[], None]
    costs_ns: dict[str, float] = field(default_factory=dict)
    """The nanoseconds that an operation of a family took in its last tuple, by the name of the family."""


@dataclass
class JobOutcome:
    """The findings of a job, by row."""

    points_ns: dict[str, float] = field(default_factory=dict)
    lanes: Tuple | None = None
    facts: dict[str, Facts] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    engine: dict[str, Any] | None = None
    failures: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """Why what failed first was run again, once: the engine had refused an operation."""


AGAIN = ", also when it was run again"


def measure_layer(context: RunContext, job: PlannedJob, rows: list[str], deadline_s: float) -> JobOutcome:
    """Measures rows with one thread in one process on one core, as pairs are; then those with several in one on all
    cores. Workloads are of the latter: what they leave to the background is a part of them, and has the other cores."""
    outcome, facts = JobOutcome(), context.suites[job.subject].facts.rows
    for alone in (True, False):
        chosen = [id for id in rows if (facts[id].threads == 1 and not facts[id].workload) == alone]
        _measure_together(context, job, chosen, "one-core" if alone else "all-cores", deadline_s, outcome)
    return outcome


def _measure_together(
    context: RunContext, job: PlannedJob, left: list[str], where: str, deadline_s: float, outcome: JobOutcome
) -> None:
    """One process; a new one for the rest whenever a row takes the process with it."""
    attempt, empty = 0, 0
    while left:
        folder = context.folder / f"{job.round + 1:02}-{job.subject}-{where}-{attempt}"
        failure = _run_rows(context, context.suites[job.subject], left, folder, deadline_s)
        measured, unreadable = _collect(outcome, left, folder)
        failure = failure or unreadable
        rest = [id for id in left if id not in measured]
        empty = 0 if measured else empty + 1
        # Rows run in the order of the source, so the first one without a figure is the one that failed.
        refusal, attempt = processes.refusal(failure), attempt + 1
        if refusal and rest and rest[0] not in outcome.refusals:
            outcome.refusals[rest[0]], left, empty = refusal, rest, 0
            continue
        failed = rest[:1] if failure and (refusal or empty < MOST_EMPTY) else rest
        outcome.failures |= {
            id: (failure or "the process ended well and left no figure") + (AGAIN if refusal else "") for id in failed
        }
        left = rest[len(failed) :]


def _run_rows(context: RunContext, suite: Suite, rows: list[str], folder: Path, deadline_s: float) -> str | None:
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted attempt left there is not this process's
    (folder / "facts").mkdir(parents=True)
    own = {
        "CRITERION_HOME": str(folder / "criterion"),
        "STRATA_FACTS_DIR": str(folder / "facts"),
        "STRATA_DRIVEN": "1",
    } | _templates(context, suite)
    options = criterion_output.arguments(
        context.design.sample_size, context.design.warm_up_s, context.design.measurement_s
    )
    only = [] if rows == list(suite.facts.rows) else [criterion_output.filter_of(rows)]
    command = [str(suite.executable), *options, *only]
    facts = suite.facts.rows
    cores = every_core() if any(facts[id].workload for id in rows) else pinned_to(max(facts[id].threads for id in rows))
    return processes.run(
        command, environment_of(own), folder / "log", deadline_s, context.timeout_s, context.tick, cores
    )


def _collect(outcome: JobOutcome, rows: list[str], folder: Path) -> tuple[set[str], str | None]:
    """The rows that have a figure now, and what of Criterion's cannot be read, if anything."""
    results = criterion_output.read(folder / "criterion")
    found = results.rows
    facts, beside = build.read_facts(folder / "facts"), build.read_found(folder / "facts")
    outcome.engine = facts.engine if facts and facts.engine else outcome.engine
    for id in rows:
        if id in found and facts and id in facts.rows:
            outcome.facts[id], outcome.found[id] = facts.rows[id], beside[id]
            whole = facts.rows[id].changes_store or facts.rows[id].workload
            outcome.points_ns[id] = found[id].mean_ns() if whole else found[id].median_ns()
    return set(outcome.points_ns), next(
        (f"what Criterion wrote cannot be read: {shown(one.folder)}: {one.reason}" for one in results.unreadable), None
    )


def measure_tuple(context: RunContext, job: PlannedJob, family: Family, deadline_s: float) -> JobOutcome:
    """Runs one tuple of a family, and once more if the engine refused an operation in it."""
    outcome = _one_tuple(context, job, family, deadline_s)
    if not (
        refusals := {id: refusal for id, failure in outcome.failures.items() if (refusal := processes.refusal(failure))}
    ):
        return outcome
    again = _one_tuple(context, job, family, deadline_s)
    again.refusals = {
        next((id for id in family.rows if f" at {id} " in outcome.failures[name]), family.base): why
        for name, why in refusals.items()
    }
    again.failures = {
        name: failure + (AGAIN if processes.refusal(failure) else "") for name, failure in again.failures.items()
    }
    return again


def _one_tuple(context: RunContext, job: PlannedJob, family: Family, deadline_s: float) -> JobOutcome:
    """A process for each lane, on one core, or on all where rows have several threads. The binaries are linked anew for
    each round, so that where code lies is part of the scatter."""
    ids = families.lanes(family)
    seed = f"{context.design.seed}:{job.name}"
    homes = [context.folder / LANES / str(place) for place in range(len(ids))]
    sides, facts = [], []
    for id, home in zip(ids, homes, strict=True):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        suite = context.suites[layer_of(id)]
        own = _templates(context, suite) | {"STRATA_FACTS_DIR": str(home)}
        sides.append(broker.Lane([str(_linked(context, suite, job.round)), "--bench"], environment_of(own)))
        facts.append(suite.facts.rows[id])
    turn_ns = families.turn_ns(facts)
    result = broker.run(
        sides,
        [
            broker.RowInTurns(
                tuple(ids), turn_ns, families.turns(context.design.lane_s, turn_ns), context.costs_ns.get(job.subject)
            )
        ],
        cores=pinned_to(max(one.threads for one in facts)),
        seed=random.Random(seed).getrandbits(32),
        deadline_s=deadline_s,
        silence_s=context.timeout_s,
        progress=lambda settled, of: context.tick(),
    )
    if not result.rows:
        return JobOutcome(failures={job.subject: "; ".join(in_one_line(failure.reason) for failure in result.failures)})
    (log,) = result.rows.values()
    keep(context.folder, job.name, job.subject, log)
    if families.on_the_wall(facts):
        context.costs_ns[job.subject] = broker.cost_ns(log)
    outcome = JobOutcome()
    for id, home in reversed(list(zip(ids, homes, strict=True))):  # a row is told by its first lane
        found = build.read_facts(home)
        if found is None:
            return JobOutcome(failures={job.subject: f"the lane of {id} left no facts"})
        outcome.facts[id] = found.rows[id]
        outcome.engine = found.engine or outcome.engine
    outcome.lanes = families.read(family, log, families.counts_by_total(family, outcome.facts.values()))
    return outcome


def _linked(context: RunContext, suite: Suite, number: int) -> Path:
    """The bench with its code placed at random, the same for all lanes of a round; where nothing can shuffle, as it was
    built."""
    if suite.link is None:
        return suite.executable
    path = context.folder / LINKED / f"{number:02}" / suite.layer
    if not path.exists():
        for earlier in path.parent.parent.glob(f"*/{suite.layer}"):
            earlier.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        suite.link.to(path, random.Random(f"{context.design.seed}:{number}:{suite.layer}").randrange(1, 2**31))
    return path


def in_one_line(reason: str) -> str:
    """A failure as a cell of a table. The broker quotes the last lines of a side below its reason; a table has room for
    what counts of them."""
    what, *quoted = reason.splitlines()
    return f"{what}: {processes.essence([line.strip(' |') for line in quoted])}" if quoted else what


def allocation_limit(id: str, failure: str) -> float | None:
    """The limit of allocations that a row passed, if that is why its process ended (`Row::probed` in
    benches/harness/src/row.rs)."""
    found = re.search(rf"{re.escape(id)}: \S+ allocations per operation, at most (\S+) expected", failure)
    return float(found[1]) if found else None


def keep(folder: Path, name: str, row: str, log: broker.RowLog) -> None:
    """The turns of a pair or a tuple, for whoever wants to look again: side, its nanoseconds, and those it waited for a
    core."""
    turns = [[turn.side, turn.nanoseconds, turn.waited_ns] for turn in log.turns]
    kept = {"job": name, "ids": log.ids, "operations": log.operations, "turns": turns, "conditions": log.conditions}
    path = kept_turns(folder, row)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(kept, default=dataclasses.asdict) + "\n")


def kept_turns(folder: Path, row: str) -> Path:
    """Where `keep` leaves the turns of a row, a line for each pair or tuple."""
    return folder / "turns" / f"{row.replace('/', '-')}.jsonl"


def _templates(context: RunContext, suite: Suite) -> dict[str, str]:
    """Where the processes of one binary share the stores they prepare: a million records are written once a run, not
    once a process."""
    built = suite.executable.stat().st_mtime_ns
    folder = context.folder / TEMPLATES / f"{suite.executable.name}-{built}"
    folder.mkdir(parents=True, exist_ok=True)
    return {"STRATA_TEMPLATES": str(folder)}


def pinned_to(threads: int) -> set[int]:
    """Both sides of a pair share one core, or all of them where the row has several threads."""
    return every_core() if threads > 1 else {max(every_core())}


def every_core() -> set[int]:
    """The cores that the runner itself may use."""
    return os.sched_getaffinity(0)


def environment_of(own: dict[str, str]) -> dict[str, str]:
    """The whole environment of a bench process."""
    return {name: os.environ[name] for name in KEPT_IN_ENVIRONMENT if name in os.environ} | own
