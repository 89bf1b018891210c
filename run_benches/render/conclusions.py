"""The conclusions: the sentences that the performance page opens with, made from figures by rules that were stated
before the run.

Why rules: a sentence that somebody wrote outlives the figure it was written about, and says what its author hoped for.
A rule here is a pure function with its thresholds declared below. It says how much it looked at. A sentence says that
something is longer, slower or larger only where the interval leaves no doubt, and the intervals of one rule's table
hold together (`contrasts.joint`). What is not resolved is named as such, with neither size nor sign. A rule that had
nothing to look at stands on the page of the method, not here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from run_benches.analysis import figures, ladder, peers, series
from run_benches.analysis.contrasts import Contrast, joint
from run_benches.analysis.crud import CrudLine
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import counted_goals
from run_benches.analysis.ladder import Rung
from run_benches.analysis.row import FLOOR, OURS
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
from run_benches.render.source import Source
from run_benches.stats.estimates import Estimate

CONFIDENCE = 0.95
"""That of all intervals of one table together."""

LARGEST_SHARE = 0.10
"""A step of the ladder that is a smaller part of the request is not worth a sentence."""

FASTEST_GROWTH = 0.05
"""The exponent that a tree of sorted runs may have: 1.12 times for every tenfold of the data."""

SECOND = 2
"""Threads that are compared with one: the fewest that can disturb each other."""

MACHINE = "machine"
"""The operation of `scaling` that measures the machine alone: arithmetic in registers."""


@dataclass(frozen=True)
class Conclusion:
    """A rule in words, how many figures it was applied to, and the sentences that it makes."""

    rule: str
    looked_at: int
    sentences: list[str]


def conclusions(found: Findings) -> list[Conclusion]:
    """Every rule, in the order of the page."""
    return [rule(found) for rule in RULES]


# The price of indexes.


def indexes(found: Findings) -> Conclusion:
    """Which verbs the largest number of indexes makes slower, and which not."""
    most = max(found.index_counts, default=0)
    sentences, looked_at = [], 0
    for threads, lines in found.crud.items():
        losses = [(line, loss) for line in lines if (loss := line.loss(most)) is not None]
        looked_at += len(losses)
        sentences += _indexes_sentence(threads_on_cores(found.machine, threads), most, losses)
    rule = "for each number of threads, every verb with the most indexes against the same verb with none; the verbs of one number of threads hold together"
    return Conclusion(rule, looked_at, sentences)


def _indexes_sentence(crowd: str, most: int, losses: Sequence[tuple[CrudLine, Contrast]]) -> list[str]:
    confidence = joint(CONFIDENCE, len(losses))
    told = [(_named(line), loss, loss.verdict(confidence)) for line, loss in losses]
    certain = [(label, loss.added(confidence)) for label, loss, verdict in told if verdict == "differ"]
    longer = [f"{label} takes {_size(found)} longer" for label, found in certain if found.middle > 0]
    shorter = [f"{label} takes {_size(found)} less" for label, found in certain if found.middle < 0]
    same = [label for label, _, verdict in told if verdict == "same"]
    unresolved = [label for label, _, verdict in told if verdict == "not resolved"]
    parts = [*longer, *shorter, *([f"the same within {figures.within_margin()}: {', '.join(same)}"] if same else [])]
    parts += [f"not resolved: {', '.join(unresolved)}"] if unresolved and parts else []
    return [f"With {figures.plural(most, 'index')} instead of none ({crowd}), {'; '.join(parts)}."] if parts else []


def _named(line: CrudLine) -> str:
    """`UPDATE (indexed)`: no comma, since verbs are listed."""
    return f"{line.operation.upper()} ({line.variant})" if line.variant else line.label


def _size(found: Estimate) -> str:
    """`72 % [65 %, 79 %]`, of what is longer and of what is shorter."""
    ends = [abs(end) for end in (found.low, found.high) if end is not None]
    return f"{figures.percent(abs(found.middle))} [{figures.percent(min(ends))}, {figures.percent(max(ends))}]"


# The ladder.


def steps(found: Findings) -> Conclusion:
    """The largest step of each request, for each clock."""
    climbs = [(request, rungs) for request, whole in found.ladders.items() for rungs in _by_clock(whole)]
    stepping = [rung for _, rungs in climbs for rung in rungs if rung.added is not None]
    sentences = [words for request, rungs in climbs if (words := _largest(request, rungs)) is not None]
    rule = (
        f"for each request and clock, the largest step of the ladder that is above none for certain and at least {figures.percent(LARGEST_SHARE)} of"
        " the request on the highest rung of that clock; called the largest where its interval lies above those of all others; the steps of one request and clock hold together"
    )
    return Conclusion(rule, len(stepping), sentences)


def _by_clock(rungs: Sequence[Rung]) -> Iterator[list[Rung]]:
    climbing = [rung for rung in rungs if rung.name not in ladder.ALONE and rung.row.measured]
    for clock in dict.fromkeys(rung.row.bench.facts.clock for rung in climbing):
        yield [rung for rung in climbing if rung.row.bench.facts.clock == clock]


def _largest(request: str, rungs: Sequence[Rung]) -> str | None:
    steps = [
        (rung, found)
        for rung in rungs
        if (found := rung.adds(ladder.step_confidence(rungs, rung))) is not None
        and found.low is not None
        and found.high is not None
    ]
    certain = [(rung, found) for rung, found in steps if found.low is not None and found.low > 0]
    whole = rungs[-1].row.measured if rungs else None
    if not certain or whole is None:
        return None
    largest, added = max(certain, key=lambda step: step[1].middle)
    if added.middle < LARGEST_SHARE * whole.middle or added.low is None:
        return None
    rivals = [found.high for rung, found in steps if rung is not largest and found.high is not None]
    rank = "" if len(steps) < 2 else ": the largest step" if added.low >= max(rivals) else ": among the largest steps"
    clock = " of CPU" if largest.row.bench.facts.clock == "cpu" else ""
    of = f"Of the {figures.time(whole.middle)}{clock} of a {request.upper()} on the rung `{rungs[-1].name}`"
    told = figures.added_estimate(added).replace("+", "")  # it is above none
    lowest = (
        f"; `{rungs[0].name}`, the lowest rung, takes {figures.time(rungs[0].row.measured.middle)}"
        if rungs[0].row.measured
        else ""
    )
    return f"{of}, `{largest.name}` adds {told}, {figures.percent(added.middle / whole.middle)} of it{rank}{lowest}."


# Threads.


def threads(found: Findings) -> Conclusion:
    """Tells what a second thread gains each verb, beside raw RocksDB and the bare machine."""
    gains = {
        one.work: gain
        for one in found.series.get(series.THREADS, [])
        if one.layer == series.LAYER and (gain := one.speed_up(SECOND)) is not None
    }
    verbs = [(verb, gain) for (verb, subject), gain in gains.items() if subject == OURS]
    bare = next((gain for (operation, _), gain in gains.items() if operation == MACHINE), None)
    sentences = []
    for verb, gain in verbs:
        beside = [
            (name, found)
            for name, found in (("raw RocksDB", gains.get((verb, FLOOR))), ("bare arithmetic", bare))
            if found
        ]
        confidence = joint(CONFIDENCE, 1 + len(beside))
        words = "".join(f"; {_companion(name, gain, found, confidence)}" for name, found in beside)
        told = _gain_words(verb, gain, confidence)
        sentences += [f"{told}{words}."] if told else []
    rule = "the rate of two threads over that of one, of each verb, of raw RocksDB doing the same, and of arithmetic without memory or lock; what one sentence says holds together"
    return Conclusion(rule, len(gains), sentences)


def _gain_words(verb: str, gain: Contrast, confidence: float) -> str | None:
    factor = figures.factor(gain, confidence)
    match gain.verdict(confidence):
        case "differ" if gain.ratio(confidence).middle > 1:
            return f"A second thread makes {verb.upper()} {factor} as fast"
        case "differ":
            return f"A second thread makes {verb.upper()} slower: {factor} the rate of one"
        case "same":
            return f"A second thread leaves the rate of {verb.upper()} as it is: {factor}"
        case _:
            return None


def _companion(name: str, gain: Contrast, found: Contrast, confidence: float) -> str:
    """Tells what a second thread does to something else; `slower, too` where both are."""
    slower = all(one.verdict(confidence) == "differ" and one.ratio(confidence).middle < 1 for one in (gain, found))
    return f"{name}{' slower, too' if slower else ''}: {figures.factor(found, confidence)}"


# Goals, others, growth, and what contradicts itself.


def goals(found: Findings) -> Conclusion:
    """Tells how many goals are met, and which is the farthest from being met."""
    judged = [held for held in found.goals if held.judged]
    missed = sorted(
        (held for held in judged if held.standing == "missed"),
        key=lambda held: (held.ratio.high or 0) / (held.goal or 1) if held.ratio else 0.0,
    )
    farthest = (
        f" Farthest from its goal: `{missed[0].row.id}`, {cells.ratio(missed[0])} where {cells.goal(missed[0].goal)} is the goal: {missed[0].verdict}."
        if missed
        else ""
    )
    sentences = [f"Of {figures.plural(len(judged), 'goal')}: {counted_goals(judged)}.{farthest}"] if judged else []
    return Conclusion(
        "goals are ratios declared beside the row; one is met if the whole interval reaches it, missed if none of it does, and else not shown; the farthest is, by the higher end, the lowest part of its goal",
        len(judged),
        sentences,
    )


def others(found: Findings) -> Conclusion:
    """Wins and losses beside each other system."""
    sides = [side for side in found.peers if side.contrast is not None]
    words = "of each other system, the rows in which ours is faster, and slower, for certain; the rows of one system hold together; none where no row is resolved"
    told = "; ".join(peers.census(sides, together=True))
    return Conclusion(words, len(sides), [f"{told[0].upper()}{told[1:]}."] if told else [])


def growths(found: Findings) -> Conclusion:
    """Which times grow with the data faster than the engine's tree explains."""
    laws = [(one, one.law) for axis in ("records", "sharing") for one in found.series.get(axis, [])]
    sure = [(one, law) for one, law in laws if law.low is not None]
    faster = sorted(
        ((one, law) for one, law in sure if (law.low or 0) > FASTEST_GROWTH), key=lambda entry: -(entry[1].low or 0)
    )
    told = [f"`{one.name}` {law.words}" for one, law in faster[:1]]
    more = f" So do {len(faster) - 1} more of {len(sure)}." if len(faster) > 1 else ""
    sentences = [f"Growing faster with the data than a tree of sorted runs: {told[0]}.{more}"] if told else []
    if sure and not told:
        sentences = [f"No time of {len(sure)} grows with the data faster, for certain, than a tree of sorted runs may."]
    return Conclusion(
        f"times that grow with records, or with records that share a value, by an exponent above {figures.goal(FASTEST_GROWTH)} for certain",
        len(sure),
        sentences,
    )


def against_itself(found: Findings) -> Conclusion:
    """Tells whether figures of this run contradict each other."""
    against = [(check.rule, len(check.found)) for check in found.checks if check.found]
    told = "; ".join(f'{count} against "{rule}"' for rule, count in against)
    sentences = (
        [f"Figures contradict each other, and are not to be used before that is explained: {told}."] if against else []
    )
    return Conclusion(
        "the cross-checks that found something", sum(check.looked_at for check in found.checks), sentences
    )


RULES: Sequence[Callable[[Findings], Conclusion]] = (indexes, steps, threads, goals, others, growths, against_itself)


# Its sections.


def section(source: Source) -> list[str]:
    """Returns the section that the page opens with."""
    lines = []
    for of_machine in source.found.of_each_machine:
        for one in conclusions(of_machine):
            lines += [f"* {sentence}" for sentence in one.sentences]
    lines = lines or [f"{figures.NOT_RUN}: no rule found anything in this run"]
    words = f"Sentences made from the figures by rules that were stated before; an interval stands in brackets. The rules stand under {source.link('method', 'method')}."
    return source.section("What was found", words, "what was found", lines)


def rules(source: Source) -> list[str]:
    """Every rule, how much it looked at, and how much it said."""
    body = []
    for of_machines in zip(*map(conclusions, source.found.of_each_machine), strict=True):
        looked_at = sum(one.looked_at for one in of_machines)
        sentences = sum(len(one.sentences) for one in of_machines)
        told = str(looked_at) if looked_at else f"{figures.NOT_RUN}: nothing to look at"
        body.append([of_machines[0].rule, told, str(sentences)])
    words = (
        "What is not resolved makes no sentence. Where a rule speaks of several figures, their intervals hold together."
    )
    lines = markdown.table(["rule", "figures>", "sentences>"], body)
    return source.section("The rules of what was found", words, "rules", lines)
