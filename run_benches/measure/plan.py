"""The plan of a run, decided before it starts: its cells, how often each is measured, in which order, and how long that
takes.

Why before: a cell that was promised and has no figure at the end must show as such, and the length of a run must not
depend on what it finds. So the plan is stored with the run before the first process starts. Work goes in rounds, each
in an order of its own drawn from the stored seed: a slow minute of the machine then falls on different rows each time,
and a run that is cut short has a little of all.

Rows that are compared are lanes of families and run in tuples; which scale measures which of them, the rows themselves
say (`Facts::depth`). A family that has an interval wider than a fifth of its ratio goes on in a full run, by the width
alone: to go on because of the side on which a goal lies would move how often one is met. All other rows run alone, in a
full run in several processes: a time without a partner is a rough figure, and only processes of different rounds show
how rough. Workloads do seconds of fixed work each; they run alone too, because their latencies are those of a whole
life, and the quick scale leaves them out unless they are named, and says so.

What a newcomer types measures all layers, and has to end within a quarter of an hour whatever layers come. So each
layer has a share of a default run (`default-run` in Cargo.toml), in seconds that the plan itself reckons with: what is
beyond it, in the order of the source, is left to `--full`, on every machine alike.
"""

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from run_benches import serialization
from run_benches.errors import UserError
from run_benches.measure import families, selection
from run_benches.measure.build import Suite
from run_benches.measure.layers import SENTINELS
from run_benches.places import COSTS
from run_benches.progress import duration
from run_benches.stats import estimates
from run_benches.store.runs import Bench, Cell, Depth, Design, Facts, Family, Ratio, Scale, layer_of

WRITER_SAMPLE_S = 0.02
"""The seconds that the operations of a sample take, about, of a row that changes its store."""

START_S = 0.2
UNKNOWN_EXTRA_S = 0.3
"""The seconds that a row takes beyond its sampling (its set-up above all) where no earlier run of this checkout has
shown it."""

WORKLOAD_S = 6.0
"""The seconds that a workload takes, about; what it takes more or less is learnt like the extra of every row."""

LEFT_OUT = "a workload takes seconds, and all of them take minutes: name it, or run without --quick"
OUT_OF_REACH = "a run this short leaves it out: name it, or run without --quick"
BEYOND = "it is beyond the share that its layer has of a default run: name it, or run with --full"


@dataclass(frozen=True)
class Effort:
    """The effort of a scale: about `seconds`, and at most a twentieth more. Tuples grow from the fewest that give an
    interval to `most_tuples`, as the time allows, and to `wide_tuples` where an interval is still wide; a tuple more is
    worth more than a longer one, and ten are the fewest by which intervals of 18 rows can hold together."""

    seconds: float | None
    most_tuples: int
    wide_tuples: int
    depths: tuple[Depth, ...]
    processes: int
    workload_processes: int


EFFORTS: dict[Scale, Effort] = {
    "quick": Effort(6 * 60, 6, 0, ("quick",), 0, 0),
    "default": Effort(14 * 60, 10, 0, ("quick", "default"), 1, 1),
    "full": Effort(None, 12, 24, ("quick", "default", "full"), 5, 2),
}

WIDE = 0.2
"""An interval is wide from this share of its ratio on."""

LANE_S = 0.25
"""So long a lane of a tuple is timed, about."""

SAMPLE_SIZE, WARM_UP_S, MEASUREMENT_S = 10, 0.05, 0.15
"""Of a row that runs alone: its time is rough, and more samples of one process would not change that."""

SENTINEL_PROCESSES = 3
"""Enough to show how far processes are apart, and a few seconds of a run."""


@dataclass(frozen=True)
class PlannedJob:
    """One process over the rows of a layer that have no partner (`time`), or one tuple of a family (`tuple`)."""

    round: int
    kind: Literal["time", "tuple"]
    subject: str

    @property
    def name(self) -> str:
        """Its name in the order of the run."""
        return f"{self.round}:{self.kind}:{self.subject}"


class Costs:
    """Seconds beyond sampling: of a row of a layer (by the layer and how many samples it takes: a store that is changed
    is made anew for each), and of a lane (by its family). Learned from every process that runs."""

    def __init__(self, learned: bool = True) -> None:
        try:
            self._extra_s = serialization.load(dict[str, float], COSTS) if learned else {}
        except (OSError, serialization.Malformed):
            self._extra_s = {}

    def extra_s(self, subject: str) -> float:
        """Returns the seconds to expect."""
        return self._extra_s.get(subject, UNKNOWN_EXTRA_S)

    def learn(self, subject: str, extra_s: float) -> None:
        """Remembers the seconds that it took."""
        self._extra_s[subject] = round(max(0.0, extra_s), 3)

    def store(self) -> None:
        """Keeps it for the next run's estimate."""
        serialization.store(COSTS, self._extra_s)


@dataclass
class Plan:
    """The cells with their first states, and how they are to be filled."""

    design: Design
    benches: dict[str, Bench]
    ratios: dict[str, Ratio]
    families: dict[str, Family]
    sentinels: dict[str, Bench]
    seconds: float


def make(
    suites: dict[str, Suite],
    words: list[str],
    skip: list[str],
    scale: Scale,
    budget_s: float | None,
    seed: int,
    shares: Mapping[str, float] = {},
) -> Plan:
    """Plans a run of the rows that `words` choose, and of those that these are held against, as long as the scale or
    the budget says; and of the sentinels, whatever is chosen. `shares` are the seconds that layers have of a default
    run; one that has none named has all that it asks for."""
    rows = {
        id: facts for suite in suites.values() if suite.layer != SENTINELS for id, facts in suite.facts.rows.items()
    }
    sentinels = (
        {id: Bench("not_run", [], facts) for id, facts in suites[SENTINELS].facts.rows.items()}
        if SENTINELS in suites
        else {}
    )
    selection.check_rows([*words, *skip], list(rows))
    chosen = {id for id in rows if selection.chosen(id, words)}
    chosen |= {partner for id in chosen for partner in families.partners(rows[id])}
    wanted = {id: facts for id, facts in rows.items() if id in chosen}
    effort = _effort(scale, budget_s, named=bool(words))
    reasons = _reasons(wanted, skip, effort)
    if scale == "default" and budget_s is None and not words:
        reasons |= dict.fromkeys(
            _beyond({id: facts for id, facts in wanted.items() if not reasons[id]}, effort, shares), BEYOND
        )
    benches = {
        id: Bench(
            "skipped" if reason and reason.startswith("--skip") else "not_run", [reason] if reason else [], wanted[id]
        )
        for id, reason in reasons.items()
    }
    found = _families({id: facts for id, facts in wanted.items() if not reasons[id]}, effort)
    for name, family in found.items():
        for id in family.rows:
            benches[id].family = None if benches[id].facts.workload else benches[id].family or name
    ratios = {id: ratio for id in benches if (ratio := _first_ratio(id, benches, rows, found))}
    for bench in benches.values() if not effort.processes else ():
        if bench.family is None and not bench.reasons:
            bench.reasons.append(OUT_OF_REACH)
    cells = [Cell("time", layer_of(id), id) for id in benches]
    cells += [Cell("ratio", layer_of(id), id) for id in ratios]
    cells += [Cell("family", layer_of(name), name) for name in found]
    cells += [Cell("sentinel", SENTINELS, id) for id in sentinels]
    sizes = (effort.processes, SAMPLE_SIZE, WARM_UP_S, MEASUREMENT_S, estimates.FEWEST_TUPLES, LANE_S)
    linked_anew = all(suites[layer_of(id)].link for family in found.values() for id in family.rows)
    design = Design(
        seed,
        *sizes,
        budget_s or effort.seconds,
        cells,
        workload_processes=effort.workload_processes,
        linked_anew=linked_anew,
    )
    design.sentinel_processes, design.wide_tuples = SENTINEL_PROCESSES if sentinels else 0, effort.wide_tuples
    plan = Plan(design, benches, ratios, found, sentinels, 0.0)
    _spend(plan, effort.most_tuples, limited=budget_s is not None)
    return plan


def _reasons(wanted: Mapping[str, Facts], skip: list[str], effort: Effort) -> dict[str, str | None]:
    """Why a row will not be measured, decided beforehand."""
    skipped = {id: f"--skip {word}" for id in wanted for word in skip if selection.matches(id, word)}
    left_out = {id: LEFT_OUT for id, facts in wanted.items() if facts.workload and not effort.workload_processes}
    return {id: skipped.get(id) or left_out.get(id) for id in wanted}


def _beyond(rows: Mapping[str, Facts], effort: Effort, shares: Mapping[str, float]) -> set[str]:
    """The rows that do not fit into the shares of their layers: families and rows without a partner, in the order of
    the source."""
    found = _families(rows, effort)
    sizes = (effort.processes, SAMPLE_SIZE, WARM_UP_S, MEASUREMENT_S, estimates.FEWEST_TUPLES, LANE_S)
    smallest = Design(0, *sizes, None, [], workload_processes=effort.workload_processes)
    costs = Costs(learned=False)
    taken = dict.fromkeys(map(layer_of, rows), START_S)
    kept: set[str] = set()
    for id, facts in rows.items():
        mine = [name for name, family in found.items() if id in family.rows and not kept.issuperset(family.rows)]
        seconds = sum(smallest.tuples * tuple_s(smallest, name, found[name], costs) for name in mine)
        alone = facts.workload or not any(id in family.rows for family in found.values())
        seconds += sampling_s(smallest, facts) + UNKNOWN_EXTRA_S if alone and id not in kept else 0.0
        layer = layer_of(id)
        if taken[layer] + seconds <= shares.get(layer, math.inf):
            taken[layer] += seconds
            kept |= {id, *(other for name in mine for other in found[name].rows)}
    return set(rows) - kept


def _families(rows: Mapping[str, Facts], effort: Effort) -> dict[str, Family]:
    """The families as deep as the run goes, named by their bases."""
    found: dict[str, Family] = {}
    within = {id for id, facts in rows.items() if facts.depth in effort.depths and not facts.background}
    within |= {partner for id in within for partner in families.partners(rows[id])}
    for family in families.of({id: facts for id, facts in rows.items() if id in within}):
        several = sum(other.base == family.base for other in found.values())
        found[family.base + (f"/{several + 1}" if several else "")] = family
    return found


def _first_ratio(
    id: str, benches: Mapping[str, Bench], rows: Mapping[str, Facts], found: Mapping[str, Family]
) -> Ratio | None:
    bench, facts = benches[id], benches[id].facts
    # a partner of a row that was chosen
    if facts.floor is None or (facts.floor.id in rows and facts.floor.id not in benches):
        return None
    goal = (facts.floor.id, facts.floor.at_least, facts.floor.aim)
    if facts.floor.id not in rows:
        return Ratio("invalid", [f"its floor {facts.floor.id} is no row of any bench"], *goal)
    mine, other = facts, rows[facts.floor.id]
    if (mine.unit, mine.units_per_operation, mine.clock, mine.threads) != (
        other.unit,
        other.units_per_operation,
        other.clock,
        other.threads,
    ):
        return Ratio("invalid", ["unit, units an operation, threads or clock differ from those of the floor"], *goal)
    if bench.reasons:
        return Ratio(bench.state, list(bench.reasons), *goal)
    if benches[facts.floor.id].reasons:
        return Ratio("not_run", [f"its floor is left out: {benches[facts.floor.id].reasons[0]}"], *goal)
    if not any({id, facts.floor.id} <= set(family.rows) for family in found.values()):
        return Ratio("not_run", [NOT_PAIRED[facts.depth]], *goal)
    return Ratio("not_run", [], *goal)


NOT_PAIRED: dict[Depth, str] = {
    "quick": "its floor takes no turns in this run",
    "default": "its lanes run without --quick, or where the row is named",
    "full": "its lanes run with --full, or where the row is named",
}


def _effort(scale: Scale, budget_s: float | None, named: bool) -> Effort:
    if budget_s is not None:
        # what the rows of all layers fit into
        scale = "quick" if budget_s < 15 * 60 else "default" if budget_s < 40 * 60 else "full"
    effort = EFFORTS[scale] if budget_s is None else dataclasses.replace(EFFORTS[scale], wide_tuples=0)
    if not named:
        return effort
    return dataclasses.replace(
        effort,
        depths=EFFORTS["full"].depths,
        processes=max(1, effort.processes),
        workload_processes=max(1, effort.workload_processes),
    )


def _spend(plan: Plan, most_tuples: int, limited: bool) -> None:
    """Takes as many tuples as fit; a budget that the smallest run does not fit into is refused before it is spent."""
    costs, seconds, benches = Costs(), plan.design.budget_s, plan.benches | plan.sentinels
    plan.seconds = seconds_of(plan.design, benches, plan.families, plan.ratios, costs)
    if limited and seconds is not None and plan.seconds > 1.1 * seconds:
        raise UserError(
            f"the smallest run of these rows takes about {duration(plan.seconds)}: name fewer layers, or a larger --budget"
        )
    round_s = sum(tuple_s(plan.design, name, plan.families[name], costs) for name in unfinished(plan.families))
    if round_s:
        more = most_tuples if seconds is None else int((seconds - plan.seconds) / round_s)
        plan.design.tuples = min(most_tuples, plan.design.tuples + max(0, more))
    plan.seconds = seconds_of(plan.design, benches, plan.families, plan.ratios, costs)


def unfinished(found: Mapping[str, Family]) -> list[str]:
    """The families that may be measured further."""
    return [name for name, family in found.items() if family.state in ("ran", "not_run")]


def is_wide(family: Family, ratios: Mapping[str, Ratio]) -> bool:
    """Returns whether an interval of a ratio that stems from a family is wide."""
    held = (ratios[id] for id, other in family.contrasts if id in ratios and ratios[id].floor == other)
    return any(
        one.ratio and one.low is not None and one.high is not None and one.high - one.low > WIDE * one.ratio
        for one in held
    )


def timeable(design: Design, benches: dict[str, Bench], number: int) -> dict[str, list[str]]:
    """The rows without a partner that a process of a layer measures in the round `number`."""
    layers: dict[str, list[str]] = {}
    for id, bench in benches.items():
        layer = layer_of(id)
        processes = (
            design.sentinel_processes
            if layer == SENTINELS
            else design.workload_processes
            if bench.facts.workload
            else design.processes
        )
        # No reason was given to leave it out, and it did not fail.
        is_measured = bench.state == "ran" or (bench.state == "not_run" and not bench.reasons)
        if bench.family is None and is_measured and number < processes:
            layers.setdefault(layer, []).append(id)
    return layers


def rounds(
    design: Design, benches: dict[str, Bench], found: dict[str, Family], ratios: Mapping[str, Ratio]
) -> Iterator[list[PlannedJob]]:
    """The jobs, round by round; within a round in an order that the seed decides. Later rounds leave out what has
    failed meanwhile, and the last ones what is narrow."""
    tuples = max(design.tuples, design.wide_tuples) if found else 0
    for number in range(max(design.processes, design.workload_processes, design.sentinel_processes, tuples)):
        jobs = [PlannedJob(number, "time", layer) for layer in timeable(design, benches, number)]
        jobs += [
            PlannedJob(number, "tuple", name)
            for name in unfinished(found)
            if number < design.tuples or (number < tuples and is_wide(found[name], ratios))
        ]
        random.Random(f"{design.seed}:{number}").shuffle(jobs)
        yield jobs


def fewest_rounds(design: Design) -> int:
    """Rounds that are done even when the time is up: each contrast with an interval."""
    return min(estimates.FEWEST_TUPLES, design.tuples)


def sampling_s(design: Design, facts: Facts) -> float:
    """Returns the seconds that a row takes in one process, beside its extra."""
    if facts.workload:
        return WORKLOAD_S
    if facts.changes_store:
        return design.sample_size * 2 * WRITER_SAMPLE_S
    return design.warm_up_s + design.measurement_s


def layer_s(design: Design, layer: str, rows: list[Facts], costs: Costs) -> float:
    """Returns the seconds that one process over the rows of a layer takes."""
    return START_S + sum(sampling_s(design, facts) + costs.extra_s(_of_layer(design, layer)) for facts in rows)


def _of_layer(design: Design, layer: str) -> str:
    return f"{layer} in {design.sample_size} samples"


def tuple_s(design: Design, name: str, family: Family, costs: Costs) -> float:
    """Returns the seconds that one tuple of a family takes."""
    return (len(family.rows) + 1) * (design.lane_s + costs.extra_s(remembered_by(design, PlannedJob(0, "tuple", name))))


def remembered_by(design: Design, job: PlannedJob) -> str:
    """Returns the name by which the cost of a job is remembered."""
    return f"lane of {job.subject} for {design.lane_s:g} s" if job.kind == "tuple" else _of_layer(design, job.subject)


def job_s(job: PlannedJob, design: Design, benches: dict[str, Bench], found: dict[str, Family], costs: Costs) -> float:
    """Returns the seconds that a job takes."""
    if job.kind == "tuple":
        return tuple_s(design, job.subject, found[job.subject], costs)
    rows = timeable(design, benches, job.round).get(job.subject, [])
    return layer_s(design, job.subject, [benches[id].facts for id in rows], costs)


def seconds_of(
    design: Design,
    benches: dict[str, Bench],
    found: dict[str, Family],
    ratios: Mapping[str, Ratio],
    costs: Costs,
    first: int = 0,
) -> float:
    """Returns the seconds that all jobs from the round `first` on take, as far as it is known which they are."""
    ahead = [job for jobs in rounds(design, benches, found, ratios) for job in jobs if job.round >= first]
    return sum(job_s(job, design, benches, found, costs) for job in ahead)
