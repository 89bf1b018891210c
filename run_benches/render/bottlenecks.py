"""Bottlenecks, derived from the figures of a run by stated rules: where the next microsecond is to be had.

Why rules: what an author thinks is slow is not what the run says. A rule is stated before the run, is applied to every
row it can be applied to, and tells how many those were; a rule that finds nothing says so. The order within a rule is
that of the figure that it names.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from run_benches.analysis import figures, ladder, series, workloads
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import OURS, STALLED, Row, stalled_share
from run_benches.render import cells, conclusions, markdown
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
    every = (floors_missed, _rungs, _allocations, _stalls, _tails, _growths, _threads)
    return [rule(found) for rule in every]


def floors_missed(found: Findings) -> Rule:
    """Which goals are missed, and by how much time."""
    judged = [held for held in found.goals if held.judged]
    lost: _Ranked = []
    for held in judged:
        measured, excess_ns = held.row.measured, held.excess_ns
        if measured and excess_ns is not None:
            told = f"{figures.time(excess_ns)} of {figures.time(measured.middle)}; ratio {cells.ratio(held)}, goal {cells.goal(held.goal)}"
            lost.append((excess_ns, Spot(f"`{held.row.id}`", told, held.row.id)))
    return _rule("goals missed, by the time an operation has to lose for certain", len(judged), lost)


def _rungs(found: Findings) -> Rule:
    shares: _Ranked = []
    steps = [
        (request, rungs, rung, share)
        for request, rungs in found.ladders.items()
        for rung in rungs
        if (share := ladder.share(rungs, rung)) is not None
    ]
    for request, rungs, rung, share in steps:
        confidence = ladder.step_confidence(rungs, rung)
        if share >= SHARE_OF_A_LAYER and rung.step and rung.step.verdict(confidence) == "differ":
            spot = Spot(
                f"`{rung.name}` of {request.upper()}",
                f"{figures.percent(share)}: {cells.added(rung, confidence)}",
                rung.row.id,
            )
            shares.append((share, spot))
    words = f"rungs of the ladder that add at least {figures.percent(SHARE_OF_A_LAYER)} of the request's time on the highest rung of their clock"
    return _rule(words, len(steps), shares)


def _allocations(found: Findings) -> Rule:
    limited = [
        (row, row.bench.facts.allocations_at_most, row.bench.allocations_per_operation)
        for row in found.rows
        if row.measured
    ]
    over = [(row, most, counted) for row, most, counted in limited if most is not None and counted is not None]
    named = [
        (counted - most, _of(row, f"{figures.count(counted)} an operation, limit {figures.count(most)}"))
        for row, most, counted in over
        if counted > most
    ]
    return _rule("rows that allocate more than their limit", len(over), named)


def _stalls(found: Findings) -> Rule:
    """A share above one is no figure; it stands among the contradictions."""
    shares = [(row, share) for row in found.rows_of(workloads.LAYER) if (share := stalled_share(row)) is not None]
    named = [(share, _of(row, _stalled(row, share))) for row, share in shares if 0 < share <= 1]
    return _rule("workloads whose writers the engine stalled, by the share of their time", len(shares), named)


def _stalled(row: Row, share: float) -> str:
    return f"{figures.percent(share)} of its threads' time: {figures.measure(max(row.bench.measures[STALLED].points), 'seconds')} stalled"


def _tails(found: Findings) -> Rule:
    told = [(row, tail) for row in found.rows_of(workloads.LAYER) for tail in workloads.tails(row)]
    full = [
        (row, tail, tail.quantiles["p99.9"].middle, tail.quantiles["p50"].middle)
        for row, tail in told
        if {"p50", "p99.9"} <= set(tail.quantiles)
    ]
    named = [
        (slow / middle, Spot(f"`{row.id}`, {cells.words(tail.kind)}", _tail(slow, middle), row.id))
        for row, tail, slow, middle in full
        if slow / middle >= WORST_TAIL
    ]
    return _rule(f"operations whose p99.9 is at least {figures.count(WORST_TAIL)} times their p50", len(full), named)


def _growths(found: Findings) -> Rule:
    laws = [(one, one.law) for axis in ("records", "sharing") for one in found.series.get(axis, [])]
    sure = [(one, law, law.low) for one, law in laws if law.low is not None]
    named = [
        (low, Spot(f"`{one.name}`, by {series.AXES[one.axis]}", law.words, _last(one)))
        for one, law, low in sure
        if low > conclusions.FASTEST_GROWTH
    ]
    return _rule(
        f"times that grow with the data by an exponent above {figures.goal(conclusions.FASTEST_GROWTH)} for certain",
        len(sure),
        named,
    )


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


def _tail(slow_ns: float, middle_ns: float) -> str:
    return f"{figures.significant(slow_ns / middle_ns)} times: {figures.time(slow_ns)} over {figures.time(middle_ns)}"


def _last(one: series.Series) -> str:
    """The row at the far end of a series."""
    return list(one.rows.values())[-1].id


def _rule(words: str, looked_at: int, found: _Ranked) -> Rule:
    return Rule(words, looked_at, [spot for _, spot in sorted(found, key=lambda one: -one[0])])


# Its section on the main page, and its own page.


def next_steps(source: Source) -> list[str]:
    """Returns the section on what to optimise next: the worst of each rule, each with the command that shows where its
    time goes."""
    found = [
        (rule, spot)
        for of_machine in source.found.of_each_machine
        for rule in rules(of_machine)
        for spot in rule.found[:WORST]
    ]
    body = [[spot.what, spot.told, f"`python3 run-benches.py profile {spot.row}`"] for _, spot in found]
    lines = (
        markdown.table(["what", "why it is here", "where its time goes"], body)
        if body
        else [f"None of {figures.plural(len(rules(source.found)), 'rule')} names anything."]
    )
    words = f"The worst that each rule names; what a rule names is where time is, not yet why. All of it, and the rules: {source.link('bottlenecks', 'bottlenecks')}."
    return ["## What to optimise next", "", words, "", *source.block("what to optimise next", lines)]


def section(source: Source) -> list[str]:
    """The page: a table for each rule."""
    lines = [line for of_machine in source.found.of_each_machine for rule in rules(of_machine) for line in _table(rule)]
    words = "Derived from the figures by rules that were stated before the run. What a rule names is where time is, not yet why."
    return ["# Bottlenecks", "", words, "", *source.block("bottlenecks", lines)]


def _table(rule: Rule) -> Iterator[str]:
    yield from (f"**{rule.words[0].upper()}{rule.words[1:]}**", "")
    if not rule.looked_at:
        yield from (f"{figures.NOT_RUN}: the run has no figure that the rule applies to", "")
    elif not rule.found:
        yield from (f"None of {rule.looked_at}.", "")
    else:
        body = [[spot.what, spot.told] for spot in rule.found]
        yield from (f"{len(rule.found)} of {rule.looked_at}.", "", *markdown.table(["what", "figures"], body), "")
