"""What a run will do, decided before it starts: its cells, how often each is measured, in which order, and how long that takes.

Why before: a cell that was promised and has no figure at the end must show as such, and the length of a run must not depend on what it
finds. So the plan is stored with the run before the first process starts. Work goes in rounds, each in an order of its own drawn from
the stored seed: a slow minute of the machine then falls on different rows each time, and a run that is cut short has a little of all.

Workloads do seconds of fixed work each, so they run in few processes; the quick scale leaves them out unless they are named, and says so.
"""

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from run_benches import estimates, selection, shapes
from run_benches.build import Suite
from run_benches.errors import Complaint
from run_benches.places import COSTS
from run_benches.progress import duration
from run_benches.runs import Bench, Cell, Design, Facts, Ratio, Scale

SHORT_TURN_MS = 1
LONG_TURN_MS = 20
"""Rows with several threads, or with flushes and compactions behind them, need longer turns to be steady."""

START_S = 0.2
UNKNOWN_EXTRA_S = 0.3
"""What a row takes beyond its sampling (its set-up above all) where no earlier run of this checkout has shown it."""

WORKLOAD_S = 6.0
"""What a workload takes, about; what it takes more or less is learnt like the extra of every row."""

LEFT_OUT = "a workload takes seconds, and all of them take minutes: name it, or run without --quick"


@dataclass(frozen=True)
class Effort:
    """How much a scale spends. Pairs grow from the fewest that give an interval to `most_pairs`, as the time allows. A process is worth
    more than a longer one: five are the fewest by which two rows that nothing pairs can be told apart, with an interval (97.5 %)."""

    seconds: float | None
    processes: int
    workload_processes: int
    sample_size: int
    warm_up_s: float
    measurement_s: float
    most_pairs: int
    short_turns: int
    long_turns: int


EFFORTS: dict[Scale, Effort] = {
    "quick": Effort(10 * 60, 2, 0, 10, 0.05, 0.1, 8, 60, 8),
    "default": Effort(26 * 60, 5, 1, 10, 0.05, 0.15, 12, 200, 20),
    "full": Effort(None, 5, 2, 20, 0.3, 1.0, 16, 400, 40),
}


@dataclass(frozen=True)
class Job:
    """One process over the rows of a layer (`time`), or one lock-step pair of a row and its floor (`ratio`)."""

    round: int
    kind: Literal["time", "ratio"]
    subject: str

    @property
    def name(self) -> str:
        """Its name in the order of the run."""
        return f"{self.round}:{self.kind}:{self.subject}"


class Costs:
    """Seconds beyond sampling: of a row of a layer (by the layer and how many samples it takes: a store that is changed is made anew for
    each), and of a pair (by the row). Learned from every process that runs."""

    def __init__(self) -> None:
        try:
            self._extra_s = shapes.load(dict[str, float], COSTS)
        except (OSError, shapes.Misshapen):
            self._extra_s = {}

    def extra_s(self, subject: str) -> float:
        """What to expect."""
        return self._extra_s.get(subject, UNKNOWN_EXTRA_S)

    def learn(self, subject: str, extra_s: float) -> None:
        """What it was."""
        self._extra_s[subject] = round(max(0.0, extra_s), 3)

    def store(self) -> None:
        """Keeps it for the next run's estimate."""
        shapes.write(COSTS, shapes.text(self._extra_s))


@dataclass
class Plan:
    """The cells with their first states, and how they are to be filled."""

    design: Design
    benches: dict[str, Bench]
    ratios: dict[str, Ratio]
    seconds: float


def turn_ms(facts: Facts) -> int:
    """The length of a turn in a pair. CPU clocks are read once a turn, and lag by a tick: they want long ones."""
    return LONG_TURN_MS if facts.changes_store or facts.threads > 1 or facts.clock == "cpu" else SHORT_TURN_MS


def make(suites: dict[str, Suite], words: list[str], skip: list[str], scale: Scale, budget_s: float | None, seed: int) -> Plan:
    """Plans a run of the rows that `words` choose, as long as the scale or the budget says."""
    rows = {id: facts for suite in suites.values() for id, facts in suite.facts.rows.items()}
    selection.check_rows([*words, *skip], list(rows))
    wanted = {id: facts for id, facts in rows.items() if selection.chosen(id, words)}
    skipped = {id: f"--skip {word}" for id in wanted for word in skip if selection.matches(id, word)}
    effort = _effort(scale, budget_s, named=bool(words))
    left_out = {id: LEFT_OUT for id, facts in wanted.items() if facts.workload and not effort.workload_processes}
    benches = {id: _first_bench(facts, skipped.get(id), left_out.get(id)) for id, facts in wanted.items()}
    ratios = {id: ratio for id, facts in wanted.items() if (ratio := _first_ratio(facts, rows, skipped.get(id), left_out.get(id)))}
    cells = [Cell("time", id.partition("/")[0], id) for id in benches] + [Cell("ratio", id.partition("/")[0], id) for id in ratios]
    turns = {f"{SHORT_TURN_MS}_ms": effort.short_turns, f"{LONG_TURN_MS}_ms": effort.long_turns}
    sizes = (effort.processes, effort.sample_size, effort.warm_up_s, effort.measurement_s)
    design = Design(seed, *sizes, estimates.FEWEST_PAIRS, turns, budget_s or effort.seconds, cells, workload_processes=effort.workload_processes)
    plan = Plan(design, benches, ratios, 0.0)
    _spend(plan, effort.most_pairs, limited=budget_s is not None)
    return plan


def _first_bench(facts: Facts, skipped: str | None, left_out: str | None) -> Bench:
    reason = skipped or left_out
    return Bench("skipped" if skipped else "not_run", [reason] if reason else [], facts)


def _first_ratio(facts: Facts, rows: dict[str, Facts], skipped: str | None, left_out: str | None) -> Ratio | None:
    if facts.floor is None:
        return None
    goal = (facts.floor.id, facts.floor.at_least, facts.floor.aim)
    if facts.floor.id not in rows:
        return Ratio("invalid", [f"its floor {facts.floor.id} is no row of any bench"], *goal)
    if skipped:
        return Ratio("skipped", [skipped], *goal)
    mine, other = facts, rows[facts.floor.id]
    if (mine.unit, mine.units_per_operation, mine.clock, mine.threads) != (other.unit, other.units_per_operation, other.clock, other.threads):
        return Ratio("invalid", ["unit, units an operation, threads or clock differ from those of the floor"], *goal)
    return Ratio("not_run", [left_out] if left_out else [], *goal)


def _effort(scale: Scale, budget_s: float | None, named: bool) -> Effort:
    if budget_s is not None:
        scale = "quick" if budget_s < 25 * 60 else "default" if budget_s < 80 * 60 else "full"  # what the rows of all layers fit into
    effort = EFFORTS[scale]
    return dataclasses.replace(effort, workload_processes=max(1, effort.workload_processes)) if named else effort


def _spend(plan: Plan, most_pairs: int, limited: bool) -> None:
    """Takes as many pairs as fit; a budget that the smallest run does not fit into is refused before it is spent."""
    costs, seconds = Costs(), plan.design.budget_s
    plan.seconds = seconds_of(plan.design, plan.benches, plan.ratios, costs)
    if limited and seconds is not None and plan.seconds > 1.1 * seconds:
        raise Complaint(f"the smallest run of these rows takes about {duration(plan.seconds)}: name fewer layers, or a larger --budget")
    pair_round_s = sum(pair_s(plan.design, id, plan.benches[id].facts, costs) for id in _pairable(plan.ratios))
    if pair_round_s:
        more = most_pairs if seconds is None else int((seconds - plan.seconds) / pair_round_s)
        plan.design.pairs = min(most_pairs, plan.design.pairs + max(0, more))
    plan.seconds = seconds_of(plan.design, plan.benches, plan.ratios, costs)


def _pairable(ratios: dict[str, Ratio]) -> list[str]:
    return [id for id, ratio in ratios.items() if _is_open(ratio)]


def _is_open(cell: Bench | Ratio) -> bool:
    """Whether more of it may be measured: it did not fail, and no reason was given beforehand to leave it out."""
    return cell.state == "ran" or (cell.state == "not_run" and not cell.reasons)


def timeable(design: Design, benches: dict[str, Bench], number: int) -> dict[str, list[str]]:
    """The rows that a process of a layer measures in the round `number`."""
    layers: dict[str, list[str]] = {}
    for id, bench in benches.items():
        if _is_open(bench) and number < (design.workload_processes if bench.facts.workload else design.processes):
            layers.setdefault(id.partition("/")[0], []).append(id)
    return layers


def rounds(design: Design, benches: dict[str, Bench], ratios: dict[str, Ratio]) -> Iterator[list[Job]]:
    """The jobs, round by round; within a round in an order that the seed decides. Later rounds leave out what has failed meanwhile."""
    for number in range(max(design.processes, design.pairs)):
        jobs = [Job(number, "time", layer) for layer in timeable(design, benches, number)]
        jobs += [Job(number, "ratio", id) for id in _pairable(ratios) if number < design.pairs]
        random.Random(f"{design.seed}:{number}").shuffle(jobs)
        yield jobs


def fewest_rounds(design: Design) -> int:
    """Rounds that are done even when the time is up: each row in two processes, each ratio with an interval."""
    return max(min(2, design.processes), min(estimates.FEWEST_PAIRS, design.pairs))


def sampling_s(design: Design, facts: Facts) -> float:
    """What a row takes in one process, beside its extra."""
    if facts.workload:
        return WORKLOAD_S
    if facts.changes_store:
        return design.sample_size * 2 * LONG_TURN_MS / 1000
    return design.warm_up_s + design.measurement_s


def turns_s(turns: dict[str, int], facts: Facts) -> float:
    """What the turns of both sides of a pair take."""
    return 2 * turns[f"{turn_ms(facts)}_ms"] * turn_ms(facts) / 1000


def layer_s(design: Design, layer: str, rows: list[Facts], costs: Costs) -> float:
    """What one process over the rows of a layer takes."""
    return START_S + sum(sampling_s(design, facts) + costs.extra_s(_of_layer(design, layer)) for facts in rows)


def _of_layer(design: Design, layer: str) -> str:
    return f"{layer} in {design.sample_size} samples"


def remembered_by(design: Design, job: Job) -> str:
    """What the cost of a job is remembered by."""
    return job.subject if job.kind == "ratio" else _of_layer(design, job.subject)


def pair_s(design: Design, id: str, facts: Facts, costs: Costs) -> float:
    """What one pair takes."""
    return START_S + turns_s(design.turns, facts) + costs.extra_s(id)


def job_s(job: Job, design: Design, benches: dict[str, Bench], costs: Costs) -> float:
    """What a job takes."""
    if job.kind == "ratio":
        return pair_s(design, job.subject, benches[job.subject].facts, costs)
    rows = timeable(design, benches, job.round).get(job.subject, [])
    return layer_s(design, job.subject, [benches[id].facts for id in rows], costs)


def seconds_of(design: Design, benches: dict[str, Bench], ratios: dict[str, Ratio], costs: Costs, first: int = 0) -> float:
    """What all jobs from the round `first` on take."""
    ahead = [job for jobs in rounds(design, benches, ratios) for job in jobs if job.round >= first]
    return sum(job_s(job, design, benches, costs) for job in ahead)
