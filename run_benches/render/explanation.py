"""Why a row got its verdict, step by step, with every number that the verdict rests on: `explain ROW`.

Why in full: a verdict that cannot be checked is an opinion. Whoever reads this knows what a p-value is, but neither
this method nor this project; with the effects of all pairs and the rules written here, the verdict can be reached again
by hand, or by another rule.
"""

import math
import statistics
from collections.abc import Iterator

from run_benches.analysis import effects, figures
from run_benches.compare import witnesses
from run_benches.measure import selection
from run_benches.stats import judge
from run_benches.stats.judge import Judgement
from run_benches.store.comparisons import Allocations, ComparedRow, Comparison, ComparisonDesign, PairPoint

STRIP = 61
"""Characters of the plot of pairs; odd, so that no change is in the middle."""

UNLIKE = ("waited for a core", "major faults", "minor faults", "switches")

NOT_JUDGED = {
    "identical": "The loaded bytes of both binaries are the same, so there is nothing to measure; with other bytes it would be run.",
    "one_side": "Only one side has this row, so there is nothing to compare it with.",
    "not_run": "No verdict was reached; of an unfinished comparison: run-benches.py compare --resume.",
    "invalid": "It did not run as it should, so its times mean nothing; mend the bench, then compare again.",
    "left_out": "It was not asked for, or nothing that it stands on changed; compare --all, or its name, includes it.",
}


def explain(comparison: Comparison, word: str) -> str:
    """Why the rows that `word` names got their verdicts."""
    selection.check_rows([word], list(comparison.rows))
    told = [_row(comparison, id, row) for id, row in comparison.rows.items() if selection.matches(id, word)]
    return "\n".join("\n".join(lines) + "\n" for lines in told)


def _row(comparison: Comparison, id: str, row: ComparedRow) -> Iterator[str]:
    judgement = row.judgement
    if row.allocations:
        yield from _allocations(comparison, id, row.allocations)
        return
    if row.state != "judged" or judgement is None:
        yield f"{id}: {row.state.replace('_', ' ')}{': ' if row.reasons else ''}{'; '.join(row.reasons)}"
        yield NOT_JUDGED[row.state if row.state != "judged" else "not_run"]
        return
    yield f"{id}: {effects.verdict(judgement)}, {effects.estimated(judgement)}"
    yield f"one operation {row.facts.op}; a change is that of B ({comparison.b.name}) against A ({comparison.a.name}), + is slower"
    if comparison.outcome == "contaminated":
        yield "A control moved in this comparison, so this verdict does not count."
    points = row.pairs or row.screen
    margin_ns = row.margin * statistics.median(point.a_ns for point in points) if points else 0.0
    raised = 0.9 < margin_ns < 1.1
    where = "raised to 1 ns, the least that is told" if raised else "the margin of this row, and never under 1 ns"
    yield f"Margin: a change within +-{100 * row.margin:.1f} % ({figures.time(margin_ns)} here) counts as the same; {where}."
    yield "In the plots `o` is a pair, a digit as many, `#` ten or more; ( and ) are the margin, | is no change."
    yield from _screen(row, judgement)
    if judgement.stage != "screen":
        yield from _decision(comparison, id, row, judgement)
    yield from _conditions(comparison.design, id, row)
    if judgement.outliers:
        yield f"Outliers: {judgement.outliers} of {judgement.pairs} pairs lie beyond 10 scaled deviations; they count like the others."
    yield from _counts(row, judgement)
    yield f"What would change it: {_otherwise(comparison.design, row, judgement)}"


def _allocations(comparison: Comparison, id: str, counted: Allocations) -> Iterator[str]:
    yield f"{id}: {counted.verdict}, {figures.count(counted.a)} -> {figures.count(counted.b)} an operation; at most {figures.count(counted.at_most)} are expected"
    yield f"The layer is {id.partition('/')[0]}; A is {comparison.a.name}, B is {comparison.b.name}."
    yield "The limit stands beside the row in its bench. A process that passes it ends, so the row has no times; both sides were counted on one thread."
    yield "Rule: the counts decide, which noise cannot touch; only more allocations are a failure. Other counts, or another limit, would change it."


def _screen(row: ComparedRow, judgement: Judgement) -> Iterator[str]:
    if row.screen:
        yield f"Screen: {figures.plural(len(row.screen), 'pair')} of processes, to find rows that are the same. Their changes, sorted:"
        yield from _plotted(row.screen, row.margin)
    if judgement.stage == "screen":
        yield f"  {_same_interval(judgement)} {effects.interval(judgement.same_low, judgement.same_high)}: within the margin, so the row is the same, and done."
    elif row.screen:
        yield "  Their 90 % interval is not within the margin, so the row is decided by fresh pairs alone: picked data would look odd again."


def _decision(comparison: Comparison, id: str, row: ComparedRow, judgement: Judgement) -> Iterator[str]:
    clear = ""
    if judgement.stage == "early look":
        clear = f", after which rows that are clear end ({figures.percent(judge.EARLY_SHARE)} of each level)"
    yield f"Decision: {figures.plural(judgement.pairs, 'fresh pair')}{clear}, each with both sides linked anew in a random order. Their changes, sorted:"
    yield from _plotted(row.pairs, row.margin)
    yield f"  Estimate {effects.change(judgement.estimate)}: the median of the averages of every two pairs (Hodges-Lehmann); no pair is dropped."
    shared = judgement.level != judge.LEVEL
    both = "; those of both looks together cover 95 %" if shared else ""
    yield (
        f"  Intervals: {figures.percent(1 - judgement.level)} {effects.interval(judgement.low, judgement.high)}, "
        f"{_same_interval(judgement)} {effects.interval(judgement.same_low, judgement.same_high)}, exact{both}."
    )
    if judgement.p is not None:
        alike = [other.judgement for other in comparison.rows.values() if other.judgement and _try(other) == _try(row)]
        family = sorted(one.p for one in alike if one.p is not None and one.stage == judgement.stage)
        rank = family.index(judgement.p) + 1
        yield f"  p {effects.probability(judgement.p)}: the chance of pairs that lean so much to one side if nothing changed (Wilcoxon signed-rank, exact, two-sided)."
        yield (
            f"  It is number {rank} of the {len(family)} rows {'of this look' if shared else 'that were decided'}, smallest p first; adjusted for "
            f"{max(comparison.design.decided_rows, len(family))} rows (Holm){' and for two looks' if shared else ''}: "
            f"{effects.probability(judgement.p_adjusted)}, level {_level(comparison.design, row):g}."
        )
    yield f"  Rule: {_rule(comparison.design, row, judgement)}"


def _plotted(points: list[PairPoint], margin: float) -> Iterator[str]:
    changes = sorted(point.effect for point in points)
    yield f"  {'  '.join(effects.change(change).removesuffix(' %') for change in changes)} (%)"
    yield f"  {strip(changes, margin)}"


def strip(changes: list[float], margin: float) -> str:
    """The changes of pairs as a line of characters; what they mean stands above the first of them."""
    reach = max([abs(change) for change in changes] + [margin]) * 1.05
    cells = ["."] * STRIP
    for mark, at in (("(", -margin), (")", margin), ("|", 0.0)):
        cells[_place(at, reach)] = mark
    counts: dict[int, int] = {}
    for change in changes:
        counts[_place(change, reach)] = counts.get(_place(change, reach), 0) + 1
    for place, count in counts.items():
        cells[place] = "o" if count == 1 else str(count) if count < 10 else "#"
    return f"{effects.change(-reach)} {''.join(cells)} {effects.change(reach)}"


def _place(at: float, reach: float) -> int:
    return round((at / reach + 1) / 2 * (STRIP - 1))


def _rule(design: ComparisonDesign, row: ComparedRow, judgement: Judgement) -> str:
    within = f"the estimate is {'within' if abs(judgement.estimate) <= math.log1p(row.margin) else 'beyond'} the margin"
    told = judgement.p_adjusted is not None and judgement.p_adjusted <= _level(design, row)
    chance = f"the adjusted p is {'at most' if told else 'above'} {_level(design, row):g}"
    match judgement.verdict:
        case "slower" | "faster":
            return f"{chance}, and {within}: {judgement.verdict}."
        case "same":
            return f"the {_same_interval(judgement)} is within the margin: the same, whatever the p."
        case "can't tell":
            return f"{chance}, and {within}; the {_same_interval(judgement)} is not within it: can't tell."


def _same_interval(judgement: Judgement) -> str:
    """The interval that two one-sided tests at the level of its look make."""
    return f"{figures.percent(1 - 2 * judgement.level)} interval"


def _conditions(design: ComparisonDesign, id: str, row: ComparedRow) -> Iterator[str]:
    conditions = [point.unlike for point in row.pairs or row.screen if point.unlike]
    if conditions:
        told = []
        for at, name in enumerate(UNLIKE):
            largest = max((side[at] for side in conditions if at < len(side)), key=abs, default=0.0)
            told.append(f"{name} {figures.percent(largest) if at == 0 else f'{largest:+.0f}'}")
        yield f"Conditions: the largest differences between the two sides of a pair (B less A): {', '.join(told)}."
    if again := (design.reruns or {}).get(id, []):
        numbers, aside = ", ".join(map(str, again)), ""
        if row.set_aside:
            aside = f"; what they said before: {', '.join(effects.change(point.effect) for point in row.set_aside)}"
        yield f"Run again: pair {numbers}, as their sides met unlike conditions, which was decided before anybody looked at times{aside}."
    if row.refusals:
        yield f"Run again, since the engine refused an operation: {'; '.join(row.refusals)}."
    if row.earlier:
        yield f"Earlier tries: {figures.plural(len(row.earlier), 'pair')}, which do not count here: each try is judged by its own pairs, at half the level of the last."


def _counts(row: ComparedRow, judgement: Judgement) -> Iterator[str]:
    witness = row.witness
    if witness is None:
        return
    named = {"instructions": witness.instructions, "allocations": witness.allocations, **witness.counters}
    told = [
        f"{name.replace('_', ' ')} {figures.count(sides[0])} -> {figures.count(sides[1])}"
        for name, sides in named.items()
        if sides
    ]
    absent = [f"instructions not counted ({witness.reason})"] if witness.reason and not witness.instructions else []
    if told or absent:
        said = witnesses.phrase(judgement, witness, row.facts) or "no count changed"
        agree = f"equal within {100 * witnesses.agreement(row.facts):g} %"
        yield f"Counted an operation, which noise cannot touch ({agree}): {', '.join([*told, *absent])}. {said.capitalize()}."


def _otherwise(design: ComparisonDesign, row: ComparedRow, judgement: Judgement) -> str:
    points = f"{100 * abs(abs(effects.share(judgement.estimate)) - row.margin):.1f} percentage points"
    match judgement.verdict:
        case "slower" | "faster":
            return f"an adjusted p above {_level(design, row):g}, or an estimate nearer to 0 by {points} (within the margin): then can't tell, or the same."
        case "same":
            return f"a {_same_interval(judgement)} that reaches beyond the margin (more scatter, a larger change, or a smaller margin)."
        case "can't tell":
            needed = judgement.pairs_needed
            if needed is None:
                why = f"the change is too near to the margin (by {points})"
                return f"no number of pairs that one would wait for: {why}."
            pairs = f"about {needed} pairs instead of {judgement.pairs}"
            return f"{pairs}, if they scatter as these did: run-benches.py more."


def _level(design: ComparisonDesign, row: ComparedRow) -> float:
    """Each try (`more`) has half the level of the one before."""
    return design.alpha * 0.5 ** _try(row)


def _try(row: ComparedRow) -> int:
    """The try that decided a row, from 0: each numbers its pairs from its own thousand on."""
    return row.pairs[0].pair // 1000 if row.pairs else 0
