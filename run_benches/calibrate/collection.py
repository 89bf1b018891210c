"""Filling the pool: rounds of pairs of a revision with itself, under every condition, each job stored before the next
begins.

Why rounds: a round is one pair of every target under every condition; in some rounds also one pair of each planted
slow-down, and one process of every target as Criterion runs it (under one condition after the other). All are in an
order of their own, so that an hour of the machine falls on all of them alike, and a pool that was cut off has as much
of each. What a round needs is known before it, and one that the budget has no time for is not begun.
"""

import json
import random
import secrets
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_benches import scratch
from run_benches.analysis import figures
from run_benches.calibrate import error_rates
from run_benches.calibrate.disturbance import CONDITIONS, disturbed
from run_benches.calibrate.error_rates import QUIET
from run_benches.compare import comparison_run, new_comparison, pairing, revisions, worktree
from run_benches.compare.comparison_run import ComparisonRun
from run_benches.compare.pairing import PairContext, PairSide
from run_benches.errors import UserError
from run_benches.measure import build, criterion_output, jobs, machine, plan, provenance, selection
from run_benches.measure.build import Suite
from run_benches.measure.job_loop import Failures, JobLoop, Task
from run_benches.measure.layers import SENTINELS, layer_names
from run_benches.progress import duration
from run_benches.stats import judge, usual_tools
from run_benches.store import comparisons, fingerprint, pool, runs
from run_benches.store.comparisons import ComparedRow, ComparedSide, Comparison, ComparisonDesign, Control
from run_benches.store.pool import Entry, EntryKind, Origin, Plant
from run_benches.store.runs import Facts, layer_of

PLANTED_LAYERS = ("encoding", "storage", "indexes", "routing")
"""The layers that the feature `plant` can slow down (src/plant.rs)."""

PLANTED_SHARES = (0.03, 0.05)
LADDER = "ladder"

WEIGHED_STEPS, WEIGHED_SHARE, WEIGHED_PAIRS = 2000, 0.05, 12
"""Steps are weighed twice, by so many pairs: first many of them, then as many as the first said are this share of the
row. It is near the planted ones, since a few steps hide in the work around them, and what hides is not in proportion.
"""

LEAST_WEIGHT = 0.05
"""By so much the first weighing slows the layer's own row down at least, and the second by half of it; less is noise.
"""

DRIVEN = runs.Design(
    seed=0, processes=1, sample_size=20, warm_up_s=0.1, measurement_s=0.3, tuples=0, lane_s=0.0, budget_s=None, plan=[]
)
"""The processes that Criterion drives: short ones, or nobody could afford hundreds of them."""

PUBLISHED = runs.Design(
    seed=0, processes=1, sample_size=20, warm_up_s=3.0, measurement_s=5.0, tuples=0, lane_s=0.0, budget_s=None, plan=[]
)
"""Criterion with the settings of `cargo bench`: eight seconds a row, so that only one row of each target can afford it.
"""

DESIGNS: dict[EntryKind, runs.Design] = {"process": DRIVEN, "published": PUBLISHED}

PLANTED_EVERY, DRIVEN_EVERY = 2, 4
"""Plants are in every second round and Criterion's processes in every fourth: pairs are what most of the time is for.
"""

COMPARED_ROUNDS = 10
"""A whole comparison takes about as long as so many pairs of each row: the screen, and fresh pairs of a quarter."""


@dataclass(frozen=True)
class PoolJob:
    """The work that is done and stored in one piece."""

    round: int
    kind: EntryKind
    target: str
    condition: str
    plant: Plant | None = None

    @property
    def name(self) -> str:
        """With the seed it decides every random choice."""
        return f"{self.round}:{self.kind}:{self.target}:{self.condition}:{self.plant}"


class Collection:
    """A pool under way, with the binaries that fill it."""

    def __init__(self, words: list[str], path: Path, folder: Path, timeout_s: float) -> None:
        layers = layer_names()
        selection.check_layers(words, layers)
        revision = revisions.resolve(None)
        self._targets = worktree.build_side(revision, "a", layers=[*layers, SENTINELS])
        self._slowed = worktree.build_side(revision, "b", features=["plant"], layers=[*PLANTED_LAYERS, LADDER])
        self._suites = {layer: build.ask(layer, target.executable) for layer, target in self._targets.items()}
        selection.check_rows(words, [id for suite in self._suites.values() for id in suite.facts.rows])
        self._rows = {layer: rows for layer, suite in self._suites.items() if (rows := _chosen(suite, words))}
        code = {layer: self._targets[layer].code for layer in (*layers, SENTINELS) if layer in self._targets}
        this_machine, seed = machine.describe(machine.file_system(folder)), secrets.randbits(32)
        self._path = path
        self.pool = pool.begin(
            Origin(
                schema=pool.SCHEMA,
                commit=revision.commit,
                dirty=revision.dirty,
                code=code,
                machine=this_machine,
                build=provenance.how_built(),
                turns=pairing.TURNS,
                seed=seed,
                fingerprint=fingerprint.of_files(fingerprint.PAIRING),
                kinds={id: kind_of(id, facts) for rows in self._rows.values() for id, facts in rows.items()},
            ),
            path,
        )
        self._seed = self.pool.origin.seed
        done = [PoolJob(one.round, one.kind, one.target, one.condition, one.plant) for one in self.pool.entries]
        order = [
            runs.Job(job.name, one.seconds, one.failures) for job, one in zip(done, self.pool.entries, strict=True)
        ]
        self._loop = JobLoop(order, lambda seconds: None, timeout_s)
        self._context = PairContext(folder / f"pool-{self._seed}", pairing.TURNS, timeout_s, self._loop.tick)
        self._context.folder.mkdir(parents=True, exist_ok=True)

    def spend(self, budget_s: float) -> None:
        """As many whole rounds as fit, then whole comparisons for what is left; prints first what the budget buys."""
        end = time.monotonic() + budget_s
        plants = [Plant(layer, 0, share) for layer in self._plantable() for share in PLANTED_SHARES]
        several_s = sum(self._job_s(job) for number in range(DRIVEN_EVERY) for job in self._round(number, plants))
        round_s = several_s / DRIVEN_EVERY
        whole_s = COMPARED_ROUNDS * sum(self._job_s(PoolJob(0, "pair", layer, QUIET)) for layer in self._rows)
        spared_s = whole_s if budget_s > 4 * whole_s else 0.0
        count = int((budget_s - spared_s) / round_s)
        if count < 1:
            raise UserError(
                f"a round of these rows takes about {duration(round_s)}: give a larger --budget, or name fewer with --rows"
            )
        there = min(len(error_rates.table(self.pool.of("pair", condition)).rounds) for condition in CONDITIONS)
        rows = sum(len(rows) for layer, rows in self._rows.items() if layer != SENTINELS)
        drawn = (there + count) // judge.deciding_pairs(rows)
        judged = drawn * rows * len(CONDITIONS)
        best = judge.bound(0, judged)
        fit = f"{rows} rows; a round takes about {duration(round_s)}, {figures.plural(count, 'round')} fit, {there} are in the pool"
        bound = "too few for a verdict yet"
        if best:
            draws = f"{figures.plural(drawn, 'verdict')} on each row under each condition"
            bound = f"{draws}, and false alarms, at best, in 0 of {judged}: at most {figures.percent(best)}"
        print(f"{fit}: {bound}", file=sys.stderr)
        self.rounds(sys.maxsize, end - spared_s)
        while time.monotonic() + whole_s < end:
            self.comparison()

    def rounds(self, most: int, end: float) -> None:
        """The first `most` rounds of the pool, but for what is done of them, as long as each ends before `end` of the
        monotonic clock."""
        try:
            with self._loop:
                plants = self._plants()
                for number in range(most):
                    todo = self._loop.left(list(map(self._task, self._round(number, plants))))
                    if time.monotonic() + sum(task.expected_s() for task in todo) > end:
                        return
                    self._loop.carry_out(todo)
        finally:
            names = (pairing.TEMPLATES, "a", "b", *(f"{kind}/{pairing.TEMPLATES}" for kind in DESIGNS))
            scratch.remove(*(self._context.folder / name for name in names))

    def comparison(self) -> None:
        """A whole comparison of the pool's revision with itself, which is carried out although its code is identical."""
        number, began = sum(entry.kind == "comparison" for entry in self.pool.entries), time.monotonic()
        path = self._context.folder / f"comparison-{number + 1}.json"
        compared = comparisons.load(path) if path.exists() else self._compared(number)
        ComparisonRun(
            compared, path, (self._targets, self._targets), self._facts(), self._context.timeout_s
        ).carry_out()
        verdicts: Counter[str] = Counter(
            row.judgement.verdict if row.judgement else row.state for row in compared.rows.values()
        )
        seconds = round(time.monotonic() - began, 1)
        pool.add(
            self.pool,
            Entry(number, "comparison", "all", QUIET, seconds, outcome=compared.outcome, verdicts=dict(verdicts)),
            self._path,
        )

    def _compared(self, number: int) -> Comparison:
        origin, facts = self.pool.origin, self._facts()
        rows = {
            id: ComparedRow("not_run", [], one, new_comparison.margin(id))
            for id, one in facts.items()
            if layer_of(id) != SENTINELS
        }
        seed = random.Random(f"{self._seed}:comparison:{number}").getrandbits(32)
        return Comparison(
            schema=comparisons.SCHEMA,
            command=["run-benches.py", "calibrate"],
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            seconds=0.0,
            complete=False,
            a=ComparedSide("once", origin.commit, origin.dirty, origin.commit, code=origin.code),
            b=ComparedSide("again", origin.commit, origin.dirty, origin.commit, code=origin.code),
            machine=origin.machine,
            build=origin.build,
            engine={},
            design=ComparisonDesign(
                seed,
                new_comparison.ALPHA,
                new_comparison.CONTROL_ALPHA,
                new_comparison.SCREEN_PAIRS,
                None,
                pairing.TURNS,
                None,
            ),
            rows=rows,
            controls={id: Control("sentinel") for id in facts if id not in rows},
            left_out={},
        )

    def _facts(self) -> dict[str, Facts]:
        return {id: facts for rows in self._rows.values() for id, facts in rows.items()}

    def _round(self, number: int, plants: Sequence[Plant]) -> list[PoolJob]:
        found = [PoolJob(number, "pair", layer, condition) for layer in self._rows for condition in CONDITIONS]
        if number % DRIVEN_EVERY == 0:
            driven = CONDITIONS[number // DRIVEN_EVERY % len(CONDITIONS)]
            kinds: tuple[EntryKind, ...] = ("process", "published")
            layers = [layer for layer in self._rows if layer != SENTINELS]
            found += [
                PoolJob(number, kind, layer, driven)
                for kind in kinds
                for layer in layers
                if self._driven_rows(kind, layer)
            ]
        if number % PLANTED_EVERY == 0:
            found += [
                PoolJob(number, "plant", target, QUIET, plant)
                for plant in plants
                for target in (plant.layer, LADDER)
                if target in self._rows
            ]
        random.Random(f"{self._seed}:{number}").shuffle(found)
        return found

    def _job_s(self, job: PoolJob) -> float:
        """Returns the seconds that such a job took so far, on average, or those to be expected of it."""
        took = [entry.seconds for entry in self.pool.entries if (entry.kind, entry.target) == (job.kind, job.target)]
        rows = list(self._rows[job.target].values())
        if took:
            return statistics.fmean(took)
        if job.kind in DESIGNS:
            return plan.layer_s(
                DESIGNS[job.kind],
                job.target,
                [self._rows[job.target][id] for id in self._driven_rows(job.kind, job.target)],
                self._loop.costs,
            )
        return comparison_run.seconds_of(job.target, rows, self._context.turns, self._loop.costs)

    def _task(self, job: PoolJob) -> Task:
        return Task(
            job.name,
            f"round {job.round + 1}: {job.kind} of {job.target}, {job.condition}",
            lambda: self._job_s(job),
            lambda deadline_s: self._measure(job, deadline_s),
            said=lambda id, failure: f"{id}, {job.condition}: {failure}",
        )

    def _measure(self, job: PoolJob, deadline_s: float) -> Failures:
        began, entry = time.monotonic(), Entry(job.round, job.kind, job.target, job.condition, 0.0, job.plant)
        with disturbed(job.condition, self._context.folder, deadline_s):
            if job.kind in DESIGNS:
                self._process(entry, deadline_s)
            else:
                self._pair(entry, f"{self._seed}:{job.name}", deadline_s)
        entry.seconds = round(time.monotonic() - began, 2)
        pool.add(self.pool, entry, self._path)
        return entry.failures

    def _pair(self, entry: Entry, name: str, limit_s: float) -> None:
        """A pair of a target with itself; with a plant it is the target that can be slowed down, and side B is."""
        target = (self._slowed if entry.plant else self._targets)[entry.target]
        a, b = (
            {"STRATA_PLANT": f"{entry.plant.layer}:{steps}"} if entry.plant else {}
            for steps in (0, entry.plant.steps if entry.plant else 0)
        )
        sides = PairSide(target, a, "a"), PairSide(target, b, "b")
        # What is weighed has to be steady: rows of one thread.
        rows = {
            id: facts
            for id, facts in self._rows[entry.target].items()
            if entry.kind != "weighing" or facts.threads == 1
        }
        outcome = pairing.measure(self._context, sides, rows, entry.round, name, limit_s)
        entry.failures = outcome.failures
        for id, point in outcome.points.items():
            entry.rows.append(id)
            entry.effects.append(round(point.effect, 5))
            entry.a_ns.append(point.a_ns)
            if entry.kind == "pair":
                entry.unlike.append(point.unlike)
                lines = jobs.kept_turns(self._context.folder, id).read_text(encoding="utf-8").splitlines()
                kept = json.loads(lines[-1])
                assert kept["job"] == name
                sides_ns: tuple[list[float], list[float]] = ([], [])
                for side, nanoseconds, _ in kept["turns"][4:]:  # the first four are warm-up
                    sides_ns[side].append(nanoseconds / kept["operations"])
                entry.usual.append(_usual(*sides_ns, name + id))

    def _process(self, entry: Entry, limit_s: float) -> None:
        """A process as Criterion runs it, against the last one under the same condition, if its files are still there."""
        folder = self._context.folder / entry.kind
        context = jobs.RunContext(
            self._suites, DESIGNS[entry.kind], folder, self._context.timeout_s, self._context.tick
        )
        outcome = jobs.measure_layer(
            context,
            plan.PlannedJob(entry.round, "time", entry.target),
            self._driven_rows(entry.kind, entry.target),
            limit_s,
        )
        entry.failures = outcome.failures
        last = entry.round - DRIVEN_EVERY * len(CONDITIONS)
        old, new = _samples(folder, last, entry.target), _samples(folder, entry.round, entry.target)
        for id in set(old) & set(new):
            entry.rows.append(id)
            entry.usual.append(_usual(old[id], new[id], f"{self._seed}:{entry.round}:{entry.kind}:{id}"))
        for process in _processes(folder, last, entry.target):
            shutil.rmtree(process)

    def _driven_rows(self, kind: EntryKind, target: str) -> list[str]:
        """All rows, or the one that the seed draws."""
        rows = [id for id, facts in self._rows[target].items() if kind == "process" or not facts.workload]
        return rows if kind == "process" else random.Random(f"{self._seed}:{target}").sample(rows, min(1, len(rows)))

    def _plantable(self) -> list[str]:
        return [layer for layer in PLANTED_LAYERS if layer in self._rows]

    def _plants(self) -> list[Plant]:
        """Slow-downs of the wanted shares, by the weight of a step in each layer's own row; none where no row feels
        many steps."""
        found = []
        for layer in self._plantable():
            weight = self._weight(Plant(layer, WEIGHED_STEPS), 0)
            if weight < LEAST_WEIGHT:
                self._loop.line.say(
                    f"nothing is planted in {layer}: {WEIGHED_STEPS} steps slow none of these rows down"
                )
                continue
            few = Plant(layer, _steps(WEIGHED_STEPS, weight, WEIGHED_SHARE))
            weight_of_few = max(LEAST_WEIGHT / 2, self._weight(few, WEIGHED_PAIRS))
            found += [Plant(layer, _steps(few.steps, weight_of_few, share), share) for share in PLANTED_SHARES]
        return found

    def _weight(self, plant: Plant, first: int) -> float:
        """The share by which a plant slows the layer's own row down; measured once, in rounds from `first` on."""
        done = {entry.round for entry in self.pool.of("weighing", QUIET) if entry.plant == plant}
        numbers = set(range(first, first + WEIGHED_PAIRS)) - done
        self._loop.carry_out([self._task(PoolJob(number, "weighing", plant.layer, QUIET, plant)) for number in numbers])
        return error_rates.weight(self.pool, plant) or 0.0


def kind_of(id: str, facts: Facts) -> str:
    """Returns the kind of a row, by what makes its pairs scatter."""
    if layer_of(id) == "locking":
        return "locking"
    if facts.clock == "cpu":
        return "over TCP"
    return (
        "several threads"
        if facts.threads > 1
        else "writing, one thread"
        if facts.changes_store
        else "reading, one thread"
    )


def _samples(folder: Path, number: int, target: str) -> dict[str, list[float]]:
    found = {
        id: samples
        for process in _processes(folder, number, target)
        for id, samples in criterion_output.read(process).rows.items()
    }
    return {
        id: [time / count for time, count in zip(samples.times_ns, samples.iterations, strict=True)]
        for id, samples in found.items()
    }


def _processes(folder: Path, number: int, target: str) -> list[Path]:
    """The folders that jobs.measure_layer left of a round."""
    return sorted(folder.glob(f"{number + 1:02}-{target}-*"))


def _chosen(suite: Suite, words: list[str]) -> dict[str, Facts]:
    """All sentinels; and the rows that are compared if nobody names any, or those that are named."""
    rows = suite.facts.rows
    if suite.layer == SENTINELS:
        return rows
    return {
        id: facts
        for id, facts in rows.items()
        if (selection.chosen(id, words) if words else id.split("/")[2] == new_comparison.COMPARED_SUBJECT)
    }


def _usual(old: Sequence[float], new: Sequence[float], seed: str) -> tuple[float, float, float, float] | None:
    change = usual_tools.change(old, new, random.Random(seed).getrandbits(32))
    return None if change is None else (change.p, change.low, change.high, change.mean)


def _steps(steps: int, weight: float, share: float) -> int:
    """Returns the number of steps that slow a row down by a share, where `steps` slow it down by `weight`."""
    return max(1, round(steps * share / weight))
