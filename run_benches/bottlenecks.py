"""Bottlenecks, derived from the figures of a run by stated rules: where the next microsecond is to be had.

Why rules: what an author thinks is slow is not what the run says. A rule is stated before the run, is applied to every row it can be
applied to, and tells how many those were; a rule that finds nothing says so. The order within a rule is that of the figure that it names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from run_benches import cells, figures, findings, growth, macro, scaling, tables
from run_benches.contrasts import joint
from run_benches.runs import Run
from run_benches.source import Source

SHARE_OF_A_LAYER = 0.10
"""A rung that adds less of a request is no bottleneck of it."""

WORST_TAIL = 100.0
"""p99.9 over p50 from which on a tail is worth a look."""

FASTEST_GROWTH = 0.05
"""The exponent that a tree of sorted runs may have: 1.12 times for every tenfold. Beyond it, for certain, more is looked at than should be."""

LOST_WITHIN_CORES = 0.75
"""The efficiency below which threads that have a core each stand in each other's way."""


@dataclass(frozen=True)
class Rule:
    """A rule, how much it was applied to, and the lines that it gives, worst first: what, and its figures."""

    words: str
    looked_at: int
    found: list[tuple[str, str]]


def rules(run: Run) -> list[Rule]:
    """Every rule."""
    return [floors_missed(run), _rungs(run), _allocations(run), _stalls(run), _tails(run), _growths(run), _threads(run)]


def floors_missed(run: Run) -> Rule:
    """Which floors are missed, and by how much time."""
    judged = [held for held in findings.floors(run) if held.judged]
    lost: list[tuple[float, str, str]] = []
    for held in judged:
        measured, ratio = held.row.measured, held.ratio
        if held.missed and measured and ratio and ratio.at_least and ratio.low is not None and ratio.ratio is not None:
            over_ns = measured.middle * (1 - ratio.low / ratio.at_least)
            told = f"{figures.time(over_ns)} of {figures.time(measured.middle)}; ratio {figures.ratio(ratio.ratio, ratio.low, ratio.high)}, goal {figures.goal(ratio.at_least)}"
            lost.append((over_ns, f"`{held.row.id}`", told))
    return _rule("floors missed, by the time an operation has to lose until the lower end of the interval meets the goal", len(judged), lost)


def _rungs(run: Run) -> Rule:
    shares: list[tuple[float, str, str]] = []
    climbs = [(request, findings.ladder(run, request)) for request in findings.REQUESTS]
    steps = [(request, rung, share) for request, rungs in climbs for rung in rungs if (share := findings.share(rungs, rung)) is not None]
    confidence = joint(0.95, len(steps))
    for request, rung, share in steps:
        if share >= SHARE_OF_A_LAYER and rung.step and rung.step.verdict(confidence) == "differ":
            shares.append((share, f"`{rung.name}` of {request.upper()}", f"{figures.percent(share)}: {cells.added(rung, confidence)}"))
    words = f"rungs of the ladder that add at least {figures.percent(SHARE_OF_A_LAYER)} of the request's time on its highest rung"
    return _rule(words, len(steps), shares)


def _allocations(run: Run) -> Rule:
    limited = [(row, row.bench.facts.allocations_at_most, row.bench.allocations_per_operation) for row in findings.rows(run) if row.measured]
    over = [(row, most, counted) for row, most, counted in limited if most is not None and counted is not None]
    found = [(counted - most, f"`{row.id}`", f"{figures.count(counted)} an operation, limit {figures.count(most)}") for row, most, counted in over if counted > most]
    return _rule("rows that allocate more than their limit", len(over), found)


def _stalls(run: Run) -> Rule:
    """Stall time is summed over writers, so it is a share of the time of all threads: operations times the time of one, for each."""
    found: list[tuple[float, str, str]] = []
    looked_at = 0
    for row in findings.rows(run, macro.LAYER):
        stalled, operations = macro.measures(row).get("stall_time"), row.bench.facts.timed_operations
        if stalled is None or stalled.unit != "seconds" or not operations or row.measured is None:
            continue
        looked_at += 1
        share = max(stalled.points) * 1e9 / (operations * row.measured.middle * row.bench.facts.threads)
        if share > 0:
            found.append((share, f"`{row.id}`", f"{figures.percent(share)} of its threads' time: {figures.measure(max(stalled.points), 'seconds')} stalled"))
    return _rule("workloads whose writers the engine stalled, by the share of their time", looked_at, found)


def _tails(run: Run) -> Rule:
    told = [(row, tail) for row in findings.rows(run, macro.LAYER) for tail in macro.tails(row)]
    full = [(row, tail, tail.quantiles["p99.9"].middle, tail.quantiles["p50"].middle) for row, tail in told if {"p50", "p99.9"} <= set(tail.quantiles)]
    found = [
        (slow / middle, f"`{row.id}`, {cells.words(tail.kind)}", f"{figures.significant(slow / middle)} times: {figures.time(slow)} over {figures.time(middle)}")
        for row, tail, slow, middle in full
        if slow / middle >= WORST_TAIL
    ]
    return _rule(f"operations whose p99.9 is at least {figures.count(WORST_TAIL)} times their p50", len(full), found)


def _growths(run: Run) -> Rule:
    laws = [(one, one.law) for axis in ("records", "sharing") for one in scaling.series(run, axis)]
    sure = [(one, law, law.low) for one, law in laws if law.low is not None]
    found = [(low, f"`{one.name}`, by {scaling.AXES[one.axis]}", law.words) for one, law, low in sure if low > FASTEST_GROWTH]
    return _rule(f"times that grow with the data by an exponent above {figures.goal(FASTEST_GROWTH)} for certain", len(sure), found)


def _threads(run: Run) -> Rule:
    found: list[tuple[float, str, str]] = []
    looked_at = 0
    for one in scaling.series(run, growth.THREADS):
        alone = one.rows[1.0].measured if 1.0 in one.rows else None
        for x, row in one.rows.items():
            if alone is None or row.measured is None or x <= 1 or one.cores is None or one.oversubscribed(x):
                continue
            looked_at += 1
            efficiency = alone.middle / row.measured.middle / x
            if efficiency < LOST_WITHIN_CORES:
                words = f"{figures.percent(efficiency)} of {figures.significant(x)} times one thread's rate"
                found.append((1 - efficiency, f"`{one.name}`, {figures.plural(int(x), 'thread')}", words))
    return _rule(f"threads with a core each that reach less than {figures.percent(LOST_WITHIN_CORES)} of as many times one thread's rate", looked_at, found)


def _rule(words: str, looked_at: int, found: Sequence[tuple[float, str, str]]) -> Rule:
    return Rule(words, looked_at, [(what, told) for _, what, told in sorted(found, key=lambda one: -one[0])])


# Its section.


def section(source: Source) -> list[str]:
    """The section of the page: a table for each rule."""
    lines = [line for rule in rules(source.run) for line in _told(rule)]
    words = "Derived from the figures by rules that were stated before the run. What a rule names is where time is, not yet why."
    return ["## Bottlenecks", "", words, "", *source.block("bottlenecks", lines)]


def _told(rule: Rule) -> Iterator[str]:
    yield from (f"**{rule.words[0].upper()}{rule.words[1:]}**", "")
    if not rule.looked_at:
        yield from (f"{figures.NOT_RUN}: the run has no figure that the rule applies to", "")
    elif not rule.found:
        yield from (f"None of {rule.looked_at}.", "")
    else:
        yield from (f"{len(rule.found)} of {rule.looked_at}.", "", *tables.markdown(["what", "figures"], rule.found), "")
