"""Carrying out a comparison: the screen, the fresh pairs, the verdicts.

Why two stages: most rows of most changes are the same, and six pairs can show that. All others are decided on fresh
pairs alone, since a row that was picked for having looked odd will look odd again in the data it was picked by. Rounds
go over all targets in an order of their own, with controls among them, so that a slow minute of the machine meets every
row and the controls, too. Every random choice is drawn from the seed and the name of the pair: a comparison that was
interrupted goes on as if it had not been.
"""

import random
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from run_benches import scratch
from run_benches.analysis import figures
from run_benches.compare import attribution, counting, pairing
from run_benches.compare.pairing import PairContext, PairSide
from run_benches.compare.worktree import Target
from run_benches.measure import jobs
from run_benches.measure.job_loop import Failures, JobLoop, Task, invalid
from run_benches.measure.plan import Costs
from run_benches.progress import duration
from run_benches.stats import judge
from run_benches.store import comparisons
from run_benches.store.comparisons import Comparison, ComparisonDesign, PairPoint, Witness
from run_benches.store.runs import Facts, layer_of

CONTROLS_A_SCREENING = 2
"""Pairs of each control in a round of the screen, so that they have enough also where the screen leaves nothing open.
"""

RERUN_SHARE = 0.2
"""At most so many of the deciding pairs are run again."""

SMALLEST_UNLIKE = (0.02, 1.0, 500.0, 50.0)
"""Differences that cannot matter: the share of time spent waiting for a core, major and minor faults, switches."""

LINK_S = 0.8
"""The seconds that linking both sides and starting them take, where nothing is known yet."""


@dataclass(frozen=True)
class Pair:
    """A job: one pair of the rows of a target, or of controls (A with itself)."""

    stage: str
    number: int
    target: str
    rows: list[str]
    control: int | None = None

    @property
    def name(self) -> str:
        """Its name in the order of the comparison; with the seed it decides every random choice."""
        return f"{self.stage}:{self.number}:{self.target}" + (
            "" if self.control is None else f":control-{self.control}"
        )


class ComparisonRun:
    """A comparison under way."""

    def __init__(
        self,
        compared: Comparison,
        path: Path,
        targets: tuple[dict[str, Target], dict[str, Target]],
        facts: dict[str, Facts],
        timeout_s: float,
    ) -> None:
        """`facts` are those of A's rows: the controls are among them."""
        self._compared, self._path, self._targets, self._facts = compared, path, targets, facts
        self._loop = JobLoop(compared.design.order, self._store, timeout_s, compared.seconds, self._so_far)
        self._context = PairContext(path.with_suffix(""), compared.design.turns, timeout_s, self._loop.tick)

    def carry_out(self) -> None:
        """Does every pair that is not done yet, then judges."""
        try:
            with self._loop:
                self._screen()
                self._decide()
                self._run_again()
                self._judge()
        finally:
            scratch.remove(*(self._context.folder / folder for folder in (pairing.TEMPLATES, "a", "b")))
        self._compared.complete = True
        self._loop.store()

    def _screen(self) -> None:
        design, rows = self._compared.design, self._compared.rows
        for number in range(design.screen_pairs):
            self._round("screen", number, CONTROLS_A_SCREENING, range(number + 1, design.screen_pairs))
        for row in rows.values():
            if row.state == "not_run" and row.screen and row.judgement is None:
                row.margin = judge.margin_of(row.margin, statistics.median(point.a_ns for point in row.screen))
                row.judgement = judge.screened(_effects(row.screen), row.margin)
                row.state = "judged" if row.judgement else row.state
        self._loop.store()

    def _decide(self) -> None:
        design = self._compared.design
        undecided = [id for id, row in self._compared.rows.items() if row.state == "not_run"]
        if design.deciding_pairs is None:
            design.decided_rows = len(undecided)
            design.deciding_pairs = 0
            if undecided:
                fewest = fewest_pairs(design, len(undecided))
                design.deciding_pairs = affordable(fewest, self._round_s(1), design.budget_s, self._loop.spent_s)
            self._loop.store()
        if undecided:
            self._loop.line.say(self._what_is_open(undecided))
        first = self._first_fresh()
        end = first + design.deciding_pairs
        for number in range(first, end):
            self._round("decide", number, 1, range(number + 1, end))
            # else it was done before the interruption
            if number + 1 == first + judge.EARLY_PAIRS < end and design.reruns is None:
                self._look(early=True)
                self._loop.store()

    def _first_fresh(self) -> int:
        """The number of this try's first fresh pair; tries are 1000 apart."""
        return self._compared.design.screen_pairs + 1000 * (self._compared.design.tries - 1)

    def _look(self, early: bool) -> None:
        """Judges the open rows; early, those that show a verdict, which need no more pairs."""
        design, rows = self._compared.design, self._compared.rows
        left = {id: row for id, row in rows.items() if row.state == "not_run" and row.pairs}
        effects = {id: _effects(row.pairs) for id, row in left.items()}
        margins = {id: row.margin for id, row in left.items()}
        family = (effects, margins, design.level, design.decided_rows)
        for id, judgement in (judge.clear(*family) if early else judge.decide(*family)).items():
            rows[id].judgement, rows[id].state = judgement, "judged"

    def _what_is_open(self, undecided: list[str]) -> str:
        design = self._compared.design
        assert design.deciding_pairs is not None
        pairs, seen = design.deciding_pairs, []
        for row in (self._compared.rows[id] for id in undecided):
            scatter = judge.scatter(_effects(row.screen or row.earlier))
            seen.append(judge.smallest_visible(scatter, pairs, design.decided_rows, row.margin, design.level))
        first = self._first_fresh()
        done = {int(job.split(":")[1]) for job in self._loop.done if job.startswith("decide:")}
        left = pairs - sum(first <= number for number in done)
        return (
            f"{len(undecided)} rows are left open: {pairs} fresh pairs of each, about {duration(left * self._round_s(1))}; "
            f"smallest slow-down likely to be found: {statistics.median(seen):.1%} (half of them), {max(seen):.1%} (all)"
        )

    def _run_again(self) -> None:
        """Pairs whose sides met unlike conditions, which is decided before anybody looks at their times."""
        design, rows = self._compared.design, self._compared.rows
        if design.reruns is None:
            chosen = judge.unlike(
                {id: [point.unlike for point in row.pairs] for id, row in rows.items() if row.state == "not_run"},
                SMALLEST_UNLIKE,
            )
            pairs = sum(len(row.pairs) for row in rows.values() if row.state == "not_run")
            design.reruns = {}
            for id, index in list(chosen)[: int(RERUN_SHARE * pairs)]:
                design.reruns.setdefault(id, []).append(rows[id].pairs[index].pair)
            self._loop.store()
        again: dict[tuple[int, str], list[str]] = {}
        for id, numbers in design.reruns.items():
            for number in numbers:
                again.setdefault((number, layer_of(id)), []).append(id)
        jobs = [Pair("again", number, target, ids) for (number, target), ids in sorted(again.items())]
        self._loop.carry_out(list(map(self._task, jobs)))

    def _judge(self) -> None:
        compared = self._compared
        self._look(early=False)
        controls = {id: _effects(control.pairs) for id, control in compared.controls.items() if control.pairs}
        for id, (p, alarm) in judge.alarms(controls, compared.design.control_alpha).items():
            compared.controls[id].p_adjusted, compared.controls[id].alarm = p, alarm
        self._loop.store()
        counting.count(
            compared,
            self._targets,
            self._context.folder,
            lambda done, of: self._loop.line.show(
                f"instructions of rows that are not the same: {done} of {of} counted"
            ),
        )
        compared.attribution = attribution.attribute(compared.rows, [*self._targets[1]])
        judgements = {id: row.judgement for id, row in compared.rows.items() if row.judgement}
        counted = [row.allocations.verdict for row in compared.rows.values() if row.allocations]
        alarmed = [id for id, control in compared.controls.items() if control.alarm]
        identical = sum(row.state == "identical" for row in compared.rows.values())
        compared.outcome = judge.outcome(judgements, alarmed, identical, counted)

    def _round(self, stage: str, number: int, controls: int, later: range) -> None:
        rows = self._compared.rows
        layers: dict[str, list[str]] = {}
        for id, row in rows.items():
            if row.state == "not_run":
                layers.setdefault(layer_of(id), []).append(id)
        jobs = [Pair(stage, number, layer, ids) for layer, ids in layers.items()]
        if not jobs:
            return
        by_target: dict[str, list[str]] = {}
        for id in self._compared.controls:
            by_target.setdefault(layer_of(id), []).append(id)
        for repeat in range(controls):
            jobs += [Pair(stage, number, target, ids, repeat) for target, ids in by_target.items()]
        random.Random(f"{self._compared.design.seed}:{stage}:{number}").shuffle(jobs)
        tasks = list(map(self._task, jobs))
        self._loop.carry_out(tasks, lambda: len(later) * sum(task.expected_s() for task in tasks))

    def _task(self, job: Pair) -> Task:
        what = {"screen": "screen, pair", "decide": "fresh pair", "again": "again, pair"}[job.stage]
        controls = "" if job.control is None else "the controls in "
        facts = [self._facts[id] for id in job.rows]

        def said(id: str, failure: str) -> str:
            counted = self._compared.rows[id].allocations if id in self._compared.rows and job.control is None else None
            return f"{id} has {counted.verdict}" if counted else invalid(id, failure)

        return Task(
            job.name,
            f"{what} {job.number % 1000 + 1} of {controls}{job.target}",
            lambda: seconds_of(job.target, facts, self._context.turns, self._loop.costs),
            lambda deadline_s: self._measure(job, deadline_s),
            (_cost(job.target), len(facts)),
            said,
        )

    def _measure(self, job: Pair, deadline_s: float) -> Failures:
        compared, number = self._compared, job.number
        a = PairSide(self._targets[0][job.target], compared.a.settings, "a")
        if job.control is None:
            b = PairSide(self._targets[1][job.target], compared.b.settings, "b")
        else:
            b, number = PairSide(a.target, a.settings, "c"), 2 * number + job.control
        facts, name = {id: self._facts[id] for id in job.rows}, f"{compared.design.seed}:{job.name}"
        outcome = pairing.measure(self._context, (a, b), facts, number, name, deadline_s)
        if job.control is not None:
            for id, point in outcome.points.items():
                compared.controls[id].pairs.append(point)
            return outcome.failures
        for id, point in outcome.points.items():
            row = compared.rows[id]
            if job.stage == "again":
                row.set_aside += [one for one in row.pairs if one.pair == point.pair]
                row.pairs = [point if one.pair == point.pair else one for one in row.pairs]
            else:
                (row.screen if job.stage == "screen" else row.pairs).append(point)
            row.witness = row.witness or Witness()
            counting.note(row.witness, outcome.seen[0].get(id), outcome.seen[1].get(id))
        for id, refusal in outcome.refusals.items():
            compared.rows[id].refusals.append(f"{job.stage}, pair {job.number + 1}: {refusal}")
        for id, failure in outcome.failures.items() if job.stage != "again" else ():  # then the first pair stays
            row = compared.rows[id]
            row.state, row.judgement = "invalid", None
            row.reasons.append(f"{job.stage}, pair {job.number + 1}: {failure}")
            if (limit := jobs.allocation_limit(id, failure)) is not None:
                counting.judge_allocations(compared, self._targets, self._context.folder, id, limit)
        return outcome.failures

    def _round_s(self, controls: int) -> float:
        rows: dict[str, list[Facts]] = {}
        for id, row in self._compared.rows.items():
            if row.state == "not_run":
                rows.setdefault(layer_of(id), []).append(row.facts)
        for id in self._compared.controls:
            rows.setdefault(layer_of(id), []).extend([self._facts[id]] * controls)
        return sum(seconds_of(target, facts, self._context.turns, self._loop.costs) for target, facts in rows.items())

    def _so_far(self) -> str:
        """Tells how many rows are settled, and as what: `; 12 of 42 rows settled (1 slower, 11 same)`."""
        rows = [row for row in self._compared.rows.values() if row.judgement or row.state == "not_run"]
        verdicts = Counter(row.judgement.verdict for row in rows if row.judgement)
        counts = sorted(verdicts.items(), key=lambda one: one[0] == "same")
        told = f" ({', '.join(f'{count} {verdict}' for verdict, count in counts)})" if verdicts else ""
        return f"; {verdicts.total()} of {figures.plural(len(rows), 'row')} settled{told}"

    def _store(self, seconds: float) -> None:
        self._compared.seconds = seconds
        comparisons.write(self._compared, self._path)


def affordable(fewest: int, round_s: float, budget_s: float | None, spent_s: float) -> int:
    """The fresh pairs that a budget buys; never fewer than the test needs, nor so many that a verdict takes longer than
    its pairs."""
    return fewest if budget_s is None else max(fewest, min(judge.MOST_PAIRS, int((budget_s - spent_s) / round_s)))


def fewest_pairs(design: ComparisonDesign, undecided: int) -> int:
    """Fresh pairs that so many rows need: so many that the smallest p there is survives Holm at the level of this try."""
    return max(min(judge.MOST_PAIRS, design.fewest_pairs), judge.deciding_pairs(undecided, design.level))


def seconds_of(target: str, rows: list[Facts], turns: dict[str, int], costs: Costs) -> float:
    """Returns the seconds that one pair of these rows of a target takes."""
    return LINK_S + sum(pairing.turns_s(turns, facts) for facts in rows) + len(rows) * costs.extra_s(_cost(target))


def _cost(target: str) -> str:
    """Returns the name by which the cost of a pair is remembered."""
    return f"pair of {target}"


def _effects(points: list[PairPoint]) -> list[float]:
    return [point.effect for point in points]
