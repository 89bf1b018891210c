"""Carrying out a plan: one job after the other, each outcome stored before the next begins.

Why so often: a run is stopped by hand, by a full disk or by a crash of what it measures, and none of these may cost
more than the job under way. A row that fails in one process is invalid for the whole run, whatever the other processes
measured: those that pass are no fair sample of all.
"""

import math
import time
from pathlib import Path

from run_benches import interrupts, scratch
from run_benches.measure import jobs, plan
from run_benches.measure.build import Found, Suite
from run_benches.measure.families import Tuple
from run_benches.measure.jobs import Outcome, RunContext
from run_benches.measure.plan import Costs, Job
from run_benches.progress import Line, duration
from run_benches.stats import estimates
from run_benches.store import runs
from run_benches.store.runs import Bench, Family, Measure, Ratio, Run, Turns


class Measurement:
    """A run under way."""

    def __init__(self, run: Run, path: Path, suites: dict[str, Suite], timeout_s: float) -> None:
        self._run, self._path = run, path
        self._benches = run.benches | run.sentinels
        self._context = RunContext(suites, run.design, path.with_suffix(""), timeout_s, self._tick)
        self._costs = Costs()
        self._line = Line()
        self._earlier_s, self._began = run.seconds, time.monotonic()
        self._under_way = ("", 0.0)

    def go(self) -> None:
        """Does every job that is not done yet. What stands on disk is whole at every moment, also when this is
        interrupted."""
        self._store()
        try:
            with self._line:
                self._all_rounds()
        finally:
            self._costs.store()
            scratch.remove(*(self._context.folder / folder for folder in jobs.SCRATCH))
        self._run.complete = True
        self._store()

    def _all_rounds(self) -> None:
        run, done = self._run, {job.name for job in self._run.design.order}
        for round_of_jobs in plan.rounds(run.design, self._benches, run.families, run.ratios):
            todo = [job for job in round_of_jobs if job.name not in done]
            if todo and self._time_is_up(todo):
                self._line.say(
                    f"the time is up after {todo[0].round} of {run.design.tuples} tuples; the contrasts are of these"
                )
                return
            while todo:
                self._one(todo.pop(0), todo)

    def _time_is_up(self, todo: list[Job]) -> bool:
        enough = todo[0].round >= plan.fewest_rounds(self._run.design)
        budget_s = self._run.design.budget_s
        return enough and budget_s is not None and self._spent_s() + self._expected_s(todo) > 1.05 * budget_s

    def _one(self, job: Job, later: list[Job]) -> None:
        began, expected_s = time.monotonic(), self._expected_s([job])
        rounds_s = plan.seconds_of(
            self._run.design, self._benches, self._run.families, self._run.ratios, self._costs, job.round + 1
        )
        what = f"{'tuple' if job.kind == 'tuple' else 'process'} {job.round + 1} of {job.subject}"
        parts = len(self._run.families[job.subject].rows) + 1 if job.kind == "tuple" else len(self._alone(job))
        self._under_way = (what, began + expected_s + self._expected_s(later) + rounds_s)
        outcome = self._do(job, 10 * expected_s + 2 * self._context.timeout_s)
        seconds = time.monotonic() - began
        if not outcome.failures:
            subject = plan.remembered_by(self._run.design, job)
            self._costs.learn(subject, self._costs.extra_s(subject) + (seconds - expected_s) / parts)
        self._apply(job, outcome)
        self._run.design.order.append(runs.Job(job.name, round(seconds, 3), outcome.failures))
        self._store()
        for id, failure in outcome.failures.items():
            self._line.say(f"{'the family of ' if job.kind == 'tuple' else ''}{id} is invalid: {failure}")

    def _alone(self, job: Job) -> list[str]:
        return plan.timeable(self._run.design, self._benches, job.round)[job.subject]

    def _do(self, job: Job, deadline_s: float) -> Outcome:
        self._tick()
        if job.kind == "time":
            return jobs.measure_layer(self._context, job, self._alone(job), deadline_s)
        return jobs.measure_tuple(self._context, job, self._run.families[job.subject], deadline_s)

    def _apply(self, job: Job, outcome: Outcome) -> None:
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
            _add_found(self._benches[id], found)
        if outcome.lanes:
            _add_tuple(run, job.subject, outcome.lanes)
        if outcome.engine:
            run.engine[job.subject.partition("/")[0]] = outcome.engine
        what = "tuple" if job.kind == "tuple" else "process"
        for id, refusal in outcome.refusals.items():
            self._benches[id].refusals.append(f"{what} {job.round + 1}: {refusal}")
        for name, failure in outcome.failures.items():
            if job.kind == "tuple":
                _fail_family(run, name, f"tuple {job.round + 1}: {failure}")
            else:
                self._benches[name].state = "invalid"
                self._benches[name].reasons.append(f"process {job.round + 1}: {failure}")

    def _expected_s(self, todo: list[Job]) -> float:
        return sum(plan.job_s(job, self._run.design, self._benches, self._run.families, self._costs) for job in todo)

    def _spent_s(self) -> float:
        return self._earlier_s + time.monotonic() - self._began

    def _tick(self) -> None:
        interrupts.raise_if_requested()
        what, end = self._under_way
        self._line.show(f"{duration(end - time.monotonic())} left: {what}")

    def _store(self) -> None:
        self._run.seconds = round(self._spent_s(), 1)
        runs.write(self._run, self._path)


def _add_point(bench: Bench, point_ns: float) -> None:
    bench.points_ns.append(point_ns)
    bench.state = "ran"


def _add_found(bench: Bench, found: Found) -> None:
    for kind, latency in found.latencies.items():
        bench.latencies.setdefault(kind, []).append(latency)
    for name, figure in found.measures.items():
        bench.measures.setdefault(name, Measure(figure.unit, [])).points.append(figure.value)


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
