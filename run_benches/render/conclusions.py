"""The conclusions: the sentences that the performance page opens with, made from figures by rules that were stated
before the run.

Why rules: a sentence that somebody wrote outlives the figure it was written about, and says what its author hoped for.
A rule here is a pure function with its thresholds declared below. It says how much it looked at. A sentence says that
something is longer, slower or larger only where the interval leaves no doubt, and the intervals of one rule's table
hold together (`contrasts.joint`). What is not resolved is named as such, with neither size nor sign. A rule that had
nothing to look at stands on the page of the method, not here.
"""

from collections.abc import Callable, Sequence
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
        if told := _by_verdict(losses):
            crowd = threads_on_cores(found.machine, threads)
            sentences.append(f"With {figures.plural(most, 'index')} instead of none ({crowd}), {'; '.join(told)}.")
    rule = "for each number of threads, every verb with the most indexes against the same verb with none; the verbs of one number of threads hold together"
    return Conclusion(rule, looked_at, sentences)


def _by_verdict(losses: Sequence[tuple[CrudLine, Contrast]]) -> list[str]:
    """Which verbs take longer, less, or the same; which are not resolved, where anything else is said."""
    confidence = joint(CONFIDENCE, len(losses))
    longer, shorter, same, unresolved = [], [], [], []
    for line, loss in losses:
        # `UPDATE (indexed)`: no comma, since verbs are listed.
        label = f"{line.operation.upper()} ({line.variant})" if line.variant else line.label
        added = loss.added(confidence)
        match loss.verdict(confidence):
            case "differ" if added.middle > 0:
                longer.append(f"{label} takes {_size(added)} longer")
            case "differ" if added.middle < 0:
                shorter.append(f"{label} takes {_size(added)} less")
            case "same":
                same.append(label)
            case "not resolved":
                unresolved.append(label)
    told = longer + shorter
    if same:
        told.append(f"the same within {figures.within_margin()}: {', '.join(same)}")
    if unresolved and told:
        told.append(f"not resolved: {', '.join(unresolved)}")
    return told


def _size(found: Estimate) -> str:
    """`72 % [65 %, 79 %]`, of what is longer and of what is shorter."""
    ends = [abs(end) for end in (found.low, found.high) if end is not None]
    return f"{figures.percent(abs(found.middle))} [{figures.percent(min(ends))}, {figures.percent(max(ends))}]"


# The ladder.


def steps(found: Findings) -> Conclusion:
    """The largest step of each request, for each clock."""
    stepping, sentences = 0, []
    for request, whole in found.ladders.items():
        climbing = [rung for rung in whole if rung.name not in ladder.ALONE and rung.row.measured]
        for clock in dict.fromkeys(rung.row.bench.facts.clock for rung in climbing):
            rungs = [rung for rung in climbing if rung.row.bench.facts.clock == clock]
            stepping += sum(rung.added is not None for rung in rungs)
            if words := _largest(request, rungs):
                sentences.append(words)
    rule = (
        f"for each request and clock, the largest step of the ladder that is above none for certain and at least {figures.percent(LARGEST_SHARE)} of"
        " the request on the highest rung of that clock; called the largest where its interval lies above those of all others; the steps of one request and clock hold together"
    )
    return Conclusion(rule, stepping, sentences)


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
    lowest = ""
    if rungs[0].row.measured:
        lowest = f"; `{rungs[0].name}`, the lowest rung, takes {figures.time(rungs[0].row.measured.middle)}"
    return f"{of}, `{largest.name}` adds {told}, {figures.percent(added.middle / whole.middle)} of it{rank}{lowest}."


# Threads.


def threads(found: Findings) -> Conclusion:
    """Tells what a second thread gains each verb, beside raw RocksDB and the bare machine."""
    gains = {
        one.work: gain
        for one in found.series.get(series.THREADS, [])
        if one.layer == series.LAYER and (gain := one.speed_up(SECOND)) is not None
    }
    bare = next((gain for (operation, _), gain in gains.items() if operation == MACHINE), None)
    sentences = []
    for (verb, subject), gain in gains.items():
        others = {"raw RocksDB": gains.get((verb, FLOOR)), "bare arithmetic": bare}
        beside = [(name, other) for name, other in others.items() if other]
        confidence = joint(CONFIDENCE, 1 + len(beside))
        told = _gain_words(verb, gain, confidence) if subject == OURS else None
        if told is None:
            continue
        for name, other in beside:
            both = [one.verdict(confidence) == "differ" and one.ratio(confidence).middle < 1 for one in (gain, other)]
            told += f"; {name}{' slower, too' if all(both) else ''}: {figures.factor(other, confidence)}"
        sentences.append(f"{told}.")
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


# Goals, others, growth, and what contradicts itself.


def goals(found: Findings) -> Conclusion:
    """Tells how many goals are met, and which is the farthest from being met."""
    judged = [held for held in found.goals if held.judged]
    sentences = []
    if judged:
        farthest = ""
        if missed := [held for held in judged if held.standing == "missed"]:
            held = min(missed, key=lambda held: (held.ratio.high or 0) / (held.goal or 1) if held.ratio else 0.0)
            farthest = f" Farthest from its goal: `{held.row.id}`, {cells.ratio(held)} where {cells.goal(held.goal)} is the goal: {held.verdict}."
        sentences = [f"Of {figures.plural(len(judged), 'goal')}: {counted_goals(judged)}.{farthest}"]
    rule = "goals are ratios declared beside the row; one is met if the whole interval reaches it, missed if none of it does, and else not shown; the farthest is, by the higher end, the lowest part of its goal"
    return Conclusion(rule, len(judged), sentences)


def others(found: Findings) -> Conclusion:
    """Wins and losses beside each other system."""
    sides = [side for side in found.peers if side.contrast is not None]
    words = "of each other system, the rows in which ours is faster, and slower, for certain; the rows of one system hold together; none where no row is resolved"
    told = "; ".join(peers.census(sides, together=True))
    return Conclusion(words, len(sides), [f"{told[0].upper()}{told[1:]}."] if told else [])


def growths(found: Findings) -> Conclusion:
    """Which times grow with the data faster than the engine's tree explains."""
    sure, faster = 0, []
    for axis in ("records", "sharing"):
        for one in found.series.get(axis, []):
            if (low := one.law.low) is not None:
                sure += 1
                faster += [(low, f"`{one.name}` {one.law.words}")] if low > FASTEST_GROWTH else []
    sentences = []
    if faster:
        more = f" So do {len(faster) - 1} more of {sure}." if len(faster) > 1 else ""
        _, fastest = max(faster, key=lambda entry: entry[0])
        sentences = [f"Growing faster with the data than a tree of sorted runs: {fastest}.{more}"]
    elif sure:
        sentences = [f"No time of {sure} grows with the data faster, for certain, than a tree of sorted runs may."]
    rule = f"times that grow with records, or with records that share a value, by an exponent above {figures.goal(FASTEST_GROWTH)} for certain"
    return Conclusion(rule, sure, sentences)


def against_itself(found: Findings) -> Conclusion:
    """Tells whether figures of this run contradict each other."""
    told = "; ".join(f'{len(check.found)} against "{check.rule}"' for check in found.checks if check.found)
    words = f"Figures contradict each other, and are not to be used before that is explained: {told}."
    looked_at = sum(check.looked_at for check in found.checks)
    return Conclusion("the cross-checks that found something", looked_at, [words] if told else [])


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
