"""Bottlenecks, derived from the figures of a run by stated rules: where the next microsecond is to be had.

Why rules: what an author thinks is slow is not what the run says. A rule is stated before the run, is applied to every
row it can be applied to, and tells how many those were; a rule that finds nothing says so. The order within a rule is
that of the figure that it names.
"""

from dataclasses import dataclass

from run_benches.analysis import figures, ladder, series, workloads
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import Held
from run_benches.analysis.row import OURS, STALLED, Row, stalled_share
from run_benches.render import cells, conclusions, markdown
from run_benches.render.section import Section
from run_benches.render.source import Source

SHARE_OF_A_LAYER = 0.10
"""A rung that adds less of a request is no bottleneck of it."""

WORST_TAIL = 100.0
"""p99.9 over p50 from which on a tail is worth a look."""

LOST_WITHIN_CORES = 0.75
"""The efficiency below which threads that have a core each stand in each other's way."""


WORST = 2
"""Of each rule so many stand on the main page."""


@dataclass(frozen=True)
class Spot:
    """A spot that a rule names: in words, with its figures, and the row by which it can be looked at."""

    what: str
    told: str
    row: str


@dataclass(frozen=True)
class Rule:
    """A rule, how much it was applied to, and what it names, worst first."""

    words: str
    looked_at: int
    found: list[Spot]


_Ranked = list[tuple[float, Spot]]
"""Spots by how bad they are."""


def rules(found: Findings) -> list[Rule]:
    """Every rule."""
    every = (_floors_missed, _rungs, _allocations, _stalls, _tails, _growths, _threads)
    return [rule(found) for rule in every]


def missed(found: Findings) -> list[Held]:
    """The goals that are missed, by the time that an operation has to lose for certain."""
    return sorted((one for one in found.goals if one.standing == "missed"), key=lambda one: -(one.excess_ns or 0.0))


def _floors_missed(found: Findings) -> Rule:
    """Which goals are missed, and by how much time."""
    lost: _Ranked = []
    for held in missed(found):
        measured, excess_ns = held.row.measured, held.excess_ns
        if measured and excess_ns is not None:
            told = f"{figures.time(excess_ns)} of {figures.time(measured.middle)}; ratio {cells.ratio(held)}, goal {cells.goal(held.goal)}"
            lost.append((excess_ns, _of(held.row, told)))
    judged = sum(held.judged for held in found.goals)
    return _rule("goals missed, by the time an operation has to lose for certain", judged, lost)


def on_terminal(found: Findings) -> Section:
    """The goals that are missed; in a narrow terminal the tables have no room for them."""
    lines = [f"{spot.row}: {spot.told}" for spot in _floors_missed(found).found]
    return Section("goals missed, by the time to lose for certain", lines)


def _rungs(found: Findings) -> Rule:
    shares: _Ranked = []
    looked_at = 0
    for request, rungs in found.ladders.items():
        for rung in rungs:
            share, confidence = ladder.share(rungs, rung), ladder.step_confidence(rungs, rung)
            if share is None:
                continue
            looked_at += 1
            if share >= SHARE_OF_A_LAYER and rung.step and rung.step.verdict(confidence) == "differ":
                told = f"{figures.percent(share)}: {cells.added(rung, confidence)}"
                shares.append((share, Spot(f"`{rung.name}` of {request.upper()}", told, rung.row.id)))
    words = f"rungs of the ladder that add at least {figures.percent(SHARE_OF_A_LAYER)} of the request's time on the highest rung of their clock"
    return _rule(words, looked_at, shares)


def _allocations(found: Findings) -> Rule:
    over: _Ranked = []
    looked_at = 0
    for row in found.rows:
        most, counted = row.bench.facts.allocations_at_most, row.bench.allocations_per_operation
        if row.measured is None or most is None or counted is None:
            continue
        looked_at += 1
        if counted > most:
            told = f"{figures.count(counted)} an operation, limit {figures.count(most)}"
            over.append((counted - most, _of(row, told)))
    return _rule("rows that allocate more than their limit", looked_at, over)


def _stalls(found: Findings) -> Rule:
    """A share above one is no figure; it stands among the contradictions."""
    named: _Ranked = []
    shares = [(row, share) for row in found.rows_of(workloads.LAYER) if (share := stalled_share(row)) is not None]
    for row, share in shares:
        if 0 < share <= 1:
            seconds = max(row.bench.measures[STALLED].points)
            told = f"{figures.percent(share)} of its threads' time: {figures.measure(seconds, 'seconds')} stalled"
            named.append((share, _of(row, told)))
    return _rule("workloads whose writers the engine stalled, by the share of their time", len(shares), named)


def _tails(found: Findings) -> Rule:
    named: _Ranked = []
    looked_at = 0
    for row in found.rows_of(workloads.LAYER):
        for tail in workloads.tails(row):
            if not {"p50", "p99.9"} <= set(tail.quantiles):
                continue
            looked_at += 1
            slow, middle = tail.quantiles["p99.9"].middle, tail.quantiles["p50"].middle
            if slow / middle >= WORST_TAIL:
                told = f"{figures.significant(slow / middle)} times: {figures.time(slow)} over {figures.time(middle)}"
                named.append((slow / middle, Spot(f"`{row.id}`, {cells.words(tail.kind)}", told, row.id)))
    return _rule(f"operations whose p99.9 is at least {figures.count(WORST_TAIL)} times their p50", looked_at, named)


def _growths(found: Findings) -> Rule:
    named: _Ranked = []
    looked_at = 0
    for axis in ("records", "sharing"):
        for one in found.series.get(axis, []):
            law = one.law
            if law.low is None:
                continue
            looked_at += 1
            if law.low > conclusions.FASTEST_GROWTH:
                furthest = list(one.rows.values())[-1]
                named.append((law.low, Spot(f"`{one.name}`, by {series.AXES[axis]}", law.words, furthest.id)))
    words = f"times that grow with the data by an exponent above {figures.goal(conclusions.FASTEST_GROWTH)} for certain"
    return _rule(words, looked_at, named)


def _threads(found: Findings) -> Rule:
    named: _Ranked = []
    looked_at = 0
    for one in found.series.get(series.THREADS, []):
        for x, row in one.rows.items():
            gain = one.speed_up(x)
            if gain is None or row.subject != OURS or one.cores is None or one.oversubscribed(x):
                continue
            looked_at += 1
            most = gain.ratio().high
            if most is not None and most / x < LOST_WITHIN_CORES:
                told = f"at most {figures.percent(most / x)} of {figures.count(x)} times one thread's rate"
                named.append((1 - most / x, Spot(f"`{one.name}`, {figures.plural(int(x), 'thread')}", told, row.id)))
    words = f"threads with a core each that reach, for certain, less than {figures.percent(LOST_WITHIN_CORES)} of as many times one thread's rate"
    return _rule(words, looked_at, named)


def _of(row: Row, told: str) -> Spot:
    return Spot(f"`{row.id}`", told, row.id)


def _rule(words: str, looked_at: int, found: _Ranked) -> Rule:
    return Rule(words, looked_at, [spot for _, spot in sorted(found, key=lambda one: -one[0])])


# Its section on the main page, and its own page.


def next_steps(source: Source) -> list[str]:
    """Returns the section on what to optimise next: the worst of each rule, each with the command that shows where its
    time goes."""
    body = []
    for rule in _of_each_machine(source):
        for spot in rule.found[:WORST]:
            body.append([spot.what, spot.told, f"`python3 run-benches.py profile {spot.row}`"])
    lines = [f"None of {figures.plural(len(rules(source.found)), 'rule')} names anything."]
    if body:
        lines = markdown.table(["what", "why it is here", "where its time goes"], body)
    words = f"The worst that each rule names; what a rule names is where time is, not yet why. All of it, and the rules: {source.link('bottlenecks', 'bottlenecks')}."
    return source.section("What to optimise next", words, "what to optimise next", lines)


def _of_each_machine(source: Source) -> list[Rule]:
    return [rule for found in source.found.of_each_machine for rule in rules(found)]


def section(source: Source) -> list[str]:
    """The page: a table for each rule."""
    found = []
    for rule in _of_each_machine(source):
        title = f"{rule.words[0].upper()}{rule.words[1:]}"
        if not rule.looked_at:
            found.append(Section(title, [f"{figures.NOT_RUN}: the run has no figure that the rule applies to"]))
        elif not rule.found:
            found.append(Section(title, [f"None of {rule.looked_at}."]))
        else:
            body = [[spot.what, spot.told] for spot in rule.found]
            found.append(Section(title, [f"{len(rule.found)} of {rule.looked_at}."], ["what", "figures"], body))
    words = "Derived from the figures by rules that were stated before the run. What a rule names is where time is, not yet why."
    return ["# Bottlenecks", "", words, "", *source.block("bottlenecks", markdown.sections(found))]
