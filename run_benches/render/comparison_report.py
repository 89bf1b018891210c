"""A comparison as a person reads it, on the terminal and in a pull request: the verdict first, then what it rests on.

Why one list of sections for both: the terminal and the comment in the pull request must not disagree, so they differ
only in how they draw. Every row is counted exactly once, with what was not judged and why; rows that are the same are
folded into a count with the widest interval among them, so that "the same" never hides "not looked at". Silence is
never green: nothing judged, not everything run, a moved control each have an ending of their own.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from run_benches.analysis import effects, figures
from run_benches.compare import attribution, witnesses
from run_benches.errors import Exit
from run_benches.places import shown
from run_benches.progress import duration
from run_benches.render import markdown, terminal
from run_benches.render.section import Section
from run_benches.stats import estimates, judge
from run_benches.stats.judge import AllocationVerdict, Judgement, Verdict
from run_benches.store.comparisons import Allocations, ComparedRow, ComparedSide, Comparison, Control
from run_benches.store.runs import layer_of

VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "same", "can't tell")

ALLOCATION_VERDICTS: tuple[AllocationVerdict, ...] = ("more allocations", "fewer allocations")

ComparisonEnding = Literal[
    "unfinished", "contaminated", "slower", "more allocations", "invalid", "nothing", "not run", "fine"
]

EXITS: dict[ComparisonEnding, Exit] = {
    "unfinished": Exit.NOTHING,
    "contaminated": Exit.NOTHING,
    "slower": Exit.FAILED,
    "more allocations": Exit.FAILED,
    "invalid": Exit.ERROR,
    "nothing": Exit.NOTHING,
    "not run": Exit.NOTHING,
    "fine": Exit.FINE,
}

ROW_COLUMNS = (
    "row",
    "change [95 %]>",
    "time an operation>",
    "adjusted p>?",
    "pairs>?",
    "what else is known?",
)
UNTOLD_COLUMNS = (*ROW_COLUMNS[:3], "pairs it would take>", *ROW_COLUMNS[3:])
COUNTED_COLUMNS = (
    "row",
    "layer",
    "allocations an operation>",
    "limit>",
)
UNJUDGED_COLUMNS = ("what", "rows>", "how it ended", "why?")


# The ending: what the exit code and the first sentence say.


def exit_code(comparison: Comparison, strict: bool) -> Exit:
    """Returns the exit code of the command; `strict` wants every row told."""
    ending = _ending(comparison)
    return Exit.NOTHING if strict and ending == "fine" and census(comparison)["can't tell"] else EXITS[ending]


def census(comparison: Comparison) -> "Counter[str]":
    """Counts the rows by how they ended, each once."""
    return Counter(_end(row) for row in comparison.rows.values())


def last_line(comparison: Comparison) -> str:
    """The counts again, after whatever scrolled by."""
    ending = _ending(comparison)
    marked = f"{ending}; " if ending in ("unfinished", "contaminated") else ""
    return f"{marked}rows: {_counted(comparison)}; {duration(comparison.seconds)}"


def _counted(comparison: Comparison) -> str:
    """The count of every verdict, also where it is 0, and of every other end."""
    counts = census(comparison)
    told = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS]
    return ", ".join([*told, *(f"{count} {end}" for end, count in sorted(counts.items()) if end not in VERDICTS)])


def headline(comparison: Comparison) -> str:
    """The verdict in one sentence."""
    counts, counted = census(comparison), _counted(comparison)
    match _ending(comparison):
        case "unfinished":
            return "NOT FINISHED, so there is no verdict yet; go on with: run-benches.py compare --resume"
        case "contaminated":
            moved = [f"{id} by {_moved(control)}" for id, control in comparison.controls.items() if control.alarm]
            return f"CONTAMINATED: a control moved ({'; '.join(moved)}), so no verdict counts: try again; run-benches.py doctor says what disturbs this machine"
        case "slower":
            found, blame = comparison.attribution, "no layer is to blame"
            if found and found.guilty:
                worst = max(found.rows, key=lambda id: _judgement(comparison.rows[id]).estimate)
                told = effects.estimated(_judgement(comparison.rows[worst]))
                blame = f"the layer to blame is {found.guilty} ({told} on {worst})"
            more = f"; and {_more_allocations(comparison)}" if counts["more allocations"] else ""
            return f"SLOWER: {figures.plural(counts['slower'], 'row')}; {blame}{more}"
        case "more allocations":
            return f"MORE ALLOCATIONS: {_more_allocations(comparison)}"
        case "invalid":
            return f"NOT ALL COULD BE MEASURED, and nothing else is slower: {counted}"
        case "nothing":
            return f"NOTHING WAS JUDGED: {counted}"
        case "not run":
            return f"NOT ALL WAS RUN, and nothing else is slower: {counted}"
        case "fine":
            return f"nothing is slower: {counted}"


def _ending(comparison: Comparison) -> ComparisonEnding:
    counts = census(comparison)
    if not comparison.complete:
        return "unfinished"
    if comparison.outcome == "contaminated" or any(control.alarm for control in comparison.controls.values()):
        return "contaminated"
    if counts["slower"]:
        return "slower"
    if counts["more allocations"]:
        return "more allocations"
    if counts["invalid"]:
        return "invalid"
    if not any(counts[end] for end in ("faster", "same", "identical", "fewer allocations")):
        return "nothing"
    measured = any(row.screen for row in comparison.rows.values())
    if measured and not any(control.p_adjusted is not None for control in comparison.controls.values()):
        return "nothing"
    return "not run" if counts["not run"] else "fine"


def _end(row: ComparedRow) -> str:
    if row.allocations:
        return row.allocations.verdict
    if row.state == "judged":
        return row.judgement.verdict if row.judgement else "not run"
    return row.state.replace("_", " ")


def _more_allocations(comparison: Comparison) -> str:
    found = _allocating(comparison, "more allocations")
    id, counted = found[0]
    told = f"{figures.count(counted.a)} -> {figures.count(counted.b)}, at most {figures.count(counted.at_most)}"
    return f"{figures.plural(len(found), 'row')} with more allocations ({told} on {id}, layer {id.partition('/')[0]})"


def _allocating(comparison: Comparison, verdict: AllocationVerdict) -> list[tuple[str, Allocations]]:
    """The rows of a verdict by their allocations, the largest change first."""
    found = [
        (id, row.allocations)
        for id, row in comparison.rows.items()
        if row.allocations and row.allocations.verdict == verdict
    ]
    return sorted(found, key=lambda entry: -abs(entry[1].b - entry[1].a))


# The sections.


def sections(comparison: Comparison, path: Path | None = None) -> Iterator[Section]:
    """All that is told below the headline."""
    sides = [_side("A", comparison.a), _side("B", comparison.b)]
    yield Section("compared", [*sides, f"by: {' '.join(comparison.command)}"])
    doubt = {"contaminated": ", if the controls had been quiet", "unfinished": ", so far"}.get(_ending(comparison), "")
    for verdict in ("slower", "faster"):
        if found := _judged(comparison, verdict):
            yield Section(f"{verdict}{doubt}", [], ROW_COLUMNS, [_cells(id, row) for id, row in found])
    for counted in ALLOCATION_VERDICTS:
        body = []
        for id, one in _allocating(comparison, counted):
            change = f"{figures.count(one.a)} -> {figures.count(one.b)}"
            body.append([id, layer_of(id), change, figures.count(one.at_most)])
        if body:
            why = "their limit was passed, which ends a process, so these rows have no times"
            yield Section(counted, [why], COUNTED_COLUMNS, body)
    if found := _judged(comparison, "can't tell"):
        body = []
        for id, row in found:
            needed = _judgement(row).pairs_needed
            cells = _cells(id, row)
            body.append([*cells[:3], "no number would do" if needed is None else f"about {needed}", *cells[3:]])
        yield Section("can't tell", ["more pairs for these rows: run-benches.py more"], UNTOLD_COLUMNS, body)
    if found := _judged(comparison, "same"):
        body = [_cells(id, row) for id, row in found]
        yield Section(f"same{doubt}", [_folded(found)], ROW_COLUMNS, body, folded=True)
    if unjudged := list(_unjudged(comparison)):
        yield Section("not judged", [], UNJUDGED_COLUMNS, unjudged)
    yield Section("controls (A with itself)", _controls(comparison))
    if comparison.attribution is not None and _judged(comparison, "slower"):
        yield Section(f"attribution{doubt}", attribution.words(comparison.attribution))
    yield Section("cost", _cost(comparison, path))


def _judged(comparison: Comparison, verdict: Verdict) -> list[tuple[str, ComparedRow]]:
    """The rows of a verdict, the largest change first."""
    found = [(id, row) for id, row in comparison.rows.items() if _end(row) == verdict]
    return sorted(found, key=lambda entry: -abs(_judgement(entry[1]).estimate))


def _judgement(row: ComparedRow) -> Judgement:
    assert row.judgement is not None
    return row.judgement


def _side(letter: str, side: ComparedSide) -> str:
    benches = "" if side.benches_of == side.commit else f", with the benches of {side.benches_of[:9]}"
    settings = "".join(f", {name}={value}" for name, value in side.settings.items())
    features = f", features {' '.join(side.features)}" if side.features else ""
    return f"{letter}: {side.name} ({side.commit[:9]}{'+changes' if side.dirty else ''}{benches}{settings}{features})"


def _cells(id: str, row: ComparedRow) -> list[str]:
    judgement = _judgement(row)
    said = effects.verdict(judgement)
    change = effects.estimated(judgement)
    if said.startswith("same ("):
        change = f"{said} {effects.interval(judgement.low, judgement.high)}"
    p = effects.probability(judgement.p_adjusted) or judgement.stage
    notes = [witnesses.phrase(judgement, row.witness, row.facts)]
    if judgement.outliers:
        notes.append(f"{judgement.outliers} of {judgement.pairs} pairs are outliers")
    if row.refusals:
        notes.append(f"{figures.plural(len(row.refusals), 'pair')} run again ({row.refusals[-1]})")
    return [id, change, _times(row), p, str(judgement.pairs), "; ".join(filter(None, notes))]


def _times(row: ComparedRow) -> str:
    """`1.021 -> 1.063 us`: the medians of A and of B over pairs, with a digit more than usual, since they differ by
    little."""
    points = row.pairs or row.screen
    before = statistics.median(point.a_ns for point in points)
    after = statistics.median(point.b_ns for point in points)
    factor, unit = figures.time_step(max(before, after))
    return f"{figures.significant(before / factor, 4)} -> {figures.significant(after / factor, 4)} {unit}"


def _folded(same: list[tuple[str, ComparedRow]]) -> str:
    """Counts rows that are the same, with the widest interval among them."""
    moved, widths = 0, {}
    for id, row in same:
        judgement = _judgement(row)
        moved += effects.verdict(judgement) != "same"
        if judgement.high is not None and judgement.low is not None:
            widths[id] = (judgement.high - judgement.low, effects.interval(judgement.low, judgement.high))
    words = ""
    if widths:
        widest = max(widths, key=lambda id: widths[id][0])
        words = f"; the widest 95 % interval is {widths[widest][1]} on {widest}"
    within = f"; {moved} moved, but within the margin" if moved else ""
    return f"{figures.plural(len(same), 'row')} the same{words}{within}"


def _unjudged(comparison: Comparison) -> Iterator[list[str]]:
    """Rows of one layer that ended the same way for the same reason stand together; a single one by its name."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for id, row in comparison.rows.items():
        if _end(row) not in (*VERDICTS, *ALLOCATION_VERDICTS):
            groups.setdefault((layer_of(id), _end(row), "; ".join(row.reasons)), []).append(id)
    for (layer, end, why), ids in groups.items():
        yield [ids[0] if len(ids) == 1 else layer, str(len(ids)), end, why]
    for layer, why in comparison.left_out.items():
        yield [layer, "all", "left out", why]


def _controls(comparison: Comparison) -> list[str]:
    controls, level = comparison.controls, comparison.design.control_alpha
    if not controls:
        ran = any(row.state == "judged" for row in comparison.rows.values())
        return ["none: a machine that favours one side would not have been noticed" if ran else "none: nothing ran"]
    sentinels = sum(control.kind == "sentinel" for control in controls.values())
    kinds = f"{figures.plural(sentinels, 'sentinel')}, {figures.plural(len(controls) - sentinels, 'row')} of A"
    alarms = [
        f"ALARM: {id} moved by {_moved(control)}, adjusted p {effects.probability(control.p_adjusted)}"
        for id, control in controls.items()
        if control.alarm
    ]
    judged = [control.p_adjusted for control in controls.values() if control.p_adjusted is not None]
    if len(judged) < len(controls):
        return [*alarms, f"{kinds}: {len(controls) - len(judged)} not judged"]
    state = f"{len(alarms)} moved" if alarms else "quiet"
    return [
        *alarms,
        f"{kinds}: {state}; smallest adjusted p {effects.probability(min(judged))}, an alarm is at {level:g}",
    ]


def _moved(control: Control) -> str:
    found = estimates.location([point.effect for point in control.pairs])
    return f"{effects.change(found.middle)} {effects.interval(found.low, found.high)}" if found else "an unknown amount"


def _cost(comparison: Comparison, path: Path | None) -> list[str]:
    rows, design = comparison.rows.values(), comparison.design
    pairs = sum(len(row.screen) + len(row.pairs) + len(row.set_aside) + len(row.earlier) for row in rows)
    checks = sum(len(control.pairs) for control in comparison.controls.values())
    margin = again = ""
    if margins := sorted({row.margin for row in rows}):
        margin = f"; margin {_share(margins[0])}" + (f" to {_share(margins[-1])} by row" if len(margins) > 1 else "")
    if design.reruns:
        again = f" ({figures.plural(sum(map(len, design.reruns.values())), 'pair')} run again, for unlike conditions)"
    return [
        f"{duration(comparison.seconds)}, {figures.plural(pairs, 'pair')} of rows{again} and {checks} of controls{margin}; seed {design.seed}",
        *_visible(comparison),
        *([f"kept as {shown(path)}"] if path else []),
        "why a row got its verdict: run-benches.py explain ROW",
    ]


def _visible(comparison: Comparison) -> Iterator[str]:
    """Tells which slow-downs the rows with fresh pairs would have shown."""
    design, decided = comparison.design, [row for row in comparison.rows.values() if len(row.pairs) > 1]
    planned = (design.deciding_pairs or 0, design.decided_rows or len(decided))
    seen = []
    for row in decided:
        scatter = judge.scatter([point.effect for point in row.pairs])
        seen.append(judge.smallest_visible(scatter, *planned, row.margin, design.level))
    if seen and max(seen) < math.inf:
        worst = f" to {_share(max(seen))} (in all)" if len(seen) > 1 else ""
        yield f"a slow-down of {_share(statistics.median(seen))} (in half of the rows with fresh pairs){worst} would have been found 4 times out of 5"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


# How it is drawn: on the terminal, and in a pull request.


def text(comparison: Comparison, path: Path | None = None, everything: bool = False) -> str:
    """Returns it for the terminal; `everything` shows the rows that are the same, too. The last line counts every
    verdict."""
    style = {Exit.FINE: "green", Exit.FAILED: "red", Exit.ERROR: "red"}.get(exit_code(comparison, False), "yellow")
    first = terminal.styled(f"{terminal.wrapped(headline(comparison))}\n", style)
    parts = [first, *terminal.sections(sections(comparison, path), everything), last_line(comparison)]
    return "\n".join(parts) + "\n"


def comment(comparison: Comparison) -> str:
    """Returns it for a pull request."""
    return markdown.comment(headline(comparison), list(sections(comparison)), last_line(comparison))
