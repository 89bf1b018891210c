"""Carrying out the plan of a run. A row that fails in one process is invalid for the whole run, whatever the other
processes measured: those that pass are no fair sample of all.
"""

import math
from functools import partial
from pathlib import Path

from run_benches import scratch
from run_benches.measure import jobs, plan
from run_benches.measure.build import Suite
from run_benches.measure.families import Tuple
from run_benches.measure.job_loop import Failures, JobLoop, Task, invalid
from run_benches.measure.jobs import JobOutcome, RunContext
from run_benches.measure.plan import PlannedJob
from run_benches.stats import estimates
from run_benches.store import runs
from run_benches.store.runs import Bench, Family, Measure, Ratio, Run, Turns


class Measurement:
    """A run under way."""

    def __init__(self, run: Run, path: Path, suites: dict[str, Suite], timeout_s: float) -> None:
        self._run, self._path = run, path
        self._benches = run.benches | run.sentinels
        self._loop = JobLoop(run.design.order, self._store, timeout_s, run.seconds)
        self._context = RunContext(suites, run.design, path.with_suffix(""), timeout_s, self._loop.tick)

    def carry_out(self) -> None:
        """Does every job that is not done yet."""
        try:
            with self._loop:
                self._all_rounds()
        finally:
            scratch.remove(*(self._context.folder / folder for folder in jobs.SCRATCH))
        self._run.complete = True
        self._loop.store()

    def _all_rounds(self) -> None:
        run = self._run
        for number, round_of_jobs in enumerate(plan.rounds(run.design, self._benches, run.families, run.ratios)):
            todo = self._loop.left([self._task(job) for job in round_of_jobs])
            ahead_s = self._loop.spent_s + sum(task.expected_s() for task in todo)
            is_late = run.design.budget_s is not None and ahead_s > 1.05 * run.design.budget_s
            if todo and is_late and number >= plan.fewest_rounds(run.design):
                self._loop.line.say(
                    f"the time is up after {number} of {run.design.tuples} tuples; the contrasts are of these"
                )
                return
            costs = self._loop.costs
            self._loop.carry_out(
                todo,
                partial(plan.seconds_of, run.design, self._benches, run.families, run.ratios, costs, number + 1),
            )

    def _task(self, job: PlannedJob) -> Task:
        run, is_tuple = self._run, job.kind == "tuple"
        parts = len(run.families[job.subject].rows) + 1 if is_tuple else len(self._alone(job))
        return Task(
            job.name,
            f"{'tuple' if is_tuple else 'process'} {job.round + 1} of {job.subject}",
            lambda: plan.job_s(job, run.design, self._benches, run.families, self._loop.costs),
            lambda deadline_s: self._measure(job, deadline_s),
            (plan.remembered_by(run.design, job), parts),
            lambda id, failure: f"{'the family of ' if is_tuple else ''}{invalid(id, failure)}",
        )

    def _alone(self, job: PlannedJob) -> list[str]:
        return plan.timeable(self._run.design, self._benches, job.round)[job.subject]

    def _measure(self, job: PlannedJob, deadline_s: float) -> Failures:
        if job.kind == "time":
            outcome = jobs.measure_layer(self._context, job, self._alone(job), deadline_s)
        else:
            outcome = jobs.measure_tuple(self._context, job, self._run.families[job.subject], deadline_s)
        self._apply(job, outcome)
        return outcome.failures

    def _apply(self, job: PlannedJob, outcome: JobOutcome) -> None:
        run = self._run
        for id, point_ns in outcome.points_ns.items():
            _add_point(self._benches[id], point_ns)
        for id, facts in outcome.facts.items():
            bench = self._benches[id]
            if job.kind == "tuple" and facts.workload:  # its times and measures are those of its own processes
                bench.turns = Turns(facts.timed_operations, facts.counters)
            else:
                bench.facts, bench.counters = facts, facts.counters
            if facts.allocations_per_operation is not None:  # counted where the cost of an operation was not known yet
                bench.allocations_per_operation = facts.allocations_per_operation
        for id, found in outcome.found.items():
            bench = self._benches[id]
            for kind, latency in found.latencies.items():
                bench.latencies.setdefault(kind, []).append(latency)
            for name, figure in found.measures.items():
                bench.measures.setdefault(name, Measure(figure.unit, [])).points.append(figure.value)
        if outcome.lanes:
            _add_tuple(run, job.subject, outcome.lanes)
        if outcome.engine:
            run.engine[runs.layer_of(job.subject)] = outcome.engine
        what = "tuple" if job.kind == "tuple" else "process"
        for id, refusal in outcome.refusals.items():
            self._benches[id].refusals.append(f"{what} {job.round + 1}: {refusal}")
        for name, failure in outcome.failures.items():
            if job.kind == "tuple":
                _fail_family(run, name, f"tuple {job.round + 1}: {failure}")
            else:
                self._benches[name].state = "invalid"
                self._benches[name].reasons.append(f"process {job.round + 1}: {failure}")

    def _store(self, seconds: float) -> None:
        self._run.seconds = seconds
        runs.write(self._run, self._path)


def _add_point(bench: Bench, point_ns: float) -> None:
    bench.points_ns.append(point_ns)
    bench.state = "ran"


def _add_tuple(run: Run, name: str, found: Tuple) -> None:
    """A tuple of a family: the times of its rows, and its contrasts."""
    family = run.families[name]
    family.state, family.tuples, family.by_total = "ran", family.tuples + 1, found.by_total
    for id in family.rows:
        point_ns = round(found.points_ns[id], 3)
        if run.benches[id].family == name:
            _add_point(run.benches[id], point_ns)
        else:
            family.guests_ns.setdefault(id, []).append(point_ns)
    for id, logs in found.logs.items():
        for other, log in logs.items():
            _add_contrast(run, id, other, log)


def _add_contrast(run: Run, id: str, other: str, log: float) -> None:
    run.contrasts.setdefault(id, {}).setdefault(other, []).append(round(log, 6))
    ratio = run.ratios.get(id)
    if ratio and ratio.floor == other and ratio.state != "invalid":
        ratio.pairs.append(math.exp(-log))
        ratio.state = "ran"
        estimate = estimates.ratio(ratio.pairs)
        if estimate:
            ratio.ratio, ratio.low, ratio.high = estimate.middle, estimate.low, estimate.high


def _fail_family(run: Run, name: str, reason: str) -> None:
    """A family that failed once is invalid for the whole run, and with it the times, ratios and contrasts that came
    from it."""
    family = run.families[name]
    family.guests_ns.clear()
    cells: list[Bench | Ratio | Family] = [
        family,
        *(run.benches[id] for id in family.rows if run.benches[id].family == name),
    ]
    cells += [ratio for id, ratio in run.ratios.items() if [id, ratio.floor] in family.contrasts]
    for id, other in family.contrasts:
        run.contrasts.get(id, {}).pop(other, None)
    for cell in cells:
        cell.state = "invalid"
        cell.reasons.append(reason)
