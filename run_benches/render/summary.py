"""A run on the terminal: a table a layer, folded, the losses by index count, what contradicts itself, and the count of
everything.

Why the same findings as the pages: both print what `findings` says in the words of `figures`, so the terminal and the
document cannot disagree. Threads stand in a column of their own and every figure names its unit, since rows of one
table differ in both.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from run_benches.analysis import figures, peers, series, workloads
from run_benches.analysis.crud import CrudLine, crud_rows
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import Held, counted_goals
from run_benches.analysis.row import DRIVER, FLOOR, Row, absence, is_part_of_a_mix
from run_benches.analysis.series import Series
from run_benches.errors import Exit
from run_benches.progress import duration
from run_benches.render import bottlenecks, terminal

LAYER_COLUMNS = (
    "row",
    "time an operation>",
    "threads>",
    "floor / ours [95 %]>",
    "goal?",
    "between processes>?",
    "rate>?",
)
FOLDED = (FLOOR, DRIVER)
"""Rows that are there for others to be held against: their figures are in the ratios."""

MACRO_COLUMNS = (
    "row",
    "rate>",
    "of",
    "p50>",
    "p99>?",
    "slowest>?",
    "p95>?",
    "p99.9>?",
    "threads>?",
)


def text(found: Findings) -> str:
    """All tables of a run, and its last line."""
    parts = [_folded(found, layer) for layer in found.layers]
    parts += [
        crud_table(found, threads)
        for threads, lines in found.crud.items()
        if any(row.measured for line in lines for row in line.cells.values())
    ]
    parts += [_peers(found), _missed(found), _troubles(found), _contradictions(found)]
    return "\n".join([*filter(None, parts), census(found)])


def _folded(found: Findings, layer: str) -> str:
    """A layer, in as few lines as its rows allow."""
    rows = found.rows_of(layer)
    if all(row.bench.state != "ran" and row.bench.reasons for row in rows):
        return ""  # their reasons are told below
    if layer == series.LAYER:
        return scaling_table(found)
    # in the tables by the number of indexes; peers have lines of their own
    told = {row.id for row in crud_rows(rows)}
    if all(row.id in told or is_part_of_a_mix(row) or peers.is_peer(row) for row in rows):
        return ""
    return macro_table(found) if layer == workloads.LAYER else layer_table(found, layer)


def layer_table(found: Findings, layer: str) -> str:
    """The rows of a layer; those of floors and drivers are counted, not shown."""
    held = {one.row.id: one for one in found.held_of(layer)}
    shown, title = _unfolded(found, layer)
    return terminal.table(title, LAYER_COLUMNS, [_layer_cells(row, held.get(row.id)) for row in shown])


def _unfolded(found: Findings, layer: str) -> tuple[list[Row], str]:
    """The rows of a layer that are shown, and its title, which counts the others. What the plan left out has its reason
    below the tables."""
    rows = found.rows_of(layer)
    planned = [row for row in rows if row.bench.state != "not_run" or not row.bench.reasons]
    shown = [row for row in planned if row.subject not in FOLDED] or planned
    counts = ((len(planned) - len(shown), "of floors and drivers"), (len(rows) - len(planned), "left out"))
    folded = ", ".join(f"{figures.plural(count, 'row')} {what}" for count, what in counts if count)
    return shown, layer + (f" (and {folded})" if folded else "")


def _layer_cells(row: Row, held: Held | None) -> list[str]:
    facts, measured = row.bench.facts, row.measured
    name, threads = row.id.partition("/")[2], str(facts.threads)
    if measured is None:
        return [name, _no_figure(row), threads, _ratio(held), _goal(held), "no figure", "no figure"]
    around = figures.time_range(measured.low, measured.high) if measured.count > 1 else "1 process"
    around += f"; {row.remark}" if row.remark else ""
    clock = " CPU" if facts.clock == "cpu" else ""
    rate = "CPU, no rate" if clock else figures.rate(measured.middle, facts.unit, facts.units_per_operation)
    return [name, figures.time(measured.middle) + clock, threads, _ratio(held), _goal(held), around, rate]


def scaling_table(found: Findings) -> str:
    """A line for each series: its ends, and the law of its growth."""
    lines = [words for along in found.series.values() for one in along for words in _series(one)]
    return "\n".join([terminal.styled(series.LAYER, "bold"), *lines]) + "\n"


def _series(one: Series) -> Iterator[str]:
    ends = [(x, row.measured.middle) for x, row in one.rows.items() if row.measured]
    if not ends:
        yield terminal.wrapped(f"{one.name} by {one.axis}: {figures.NOT_RUN}")
        return
    told = ", ".join(
        f"{figures.time(time_ns)} at {figures.round_amount(x)}" for x, time_ns in dict.fromkeys((ends[0], ends[-1]))
    )
    yield terminal.wrapped(f"{one.name} by {one.axis}: {told}; {one.words}")


def macro_table(found: Findings) -> str:
    """The workloads: a line for each kind of operation, or one for a workload that times none by itself."""
    shown, title = _unfolded(found, workloads.LAYER)
    return terminal.table(title, MACRO_COLUMNS, [line for row in shown for line in _macro_lines(row)])


def _macro_lines(row: Row) -> Iterator[list[str]]:
    facts, measured = row.bench.facts, row.measured
    name, threads = row.id.partition("/")[2], str(facts.threads)
    rate = figures.rate(measured.middle, facts.unit, facts.units_per_operation) if measured else _no_figure(row)
    tails = workloads.tails(row)
    for tail in tails:
        p50, p95, p99, p999 = (
            figures.time(tail.quantiles[q].middle) if q in tail.quantiles else "too few"
            for q in ("p50", "p95", "p99", "p99.9")
        )
        yield [name, rate, tail.kind.replace("_", " "), p50, p99, figures.time(tail.slowest_ns), p95, p999, threads]
    if not tails:
        yield [name, rate, "all", *["not timed"] * 5, threads]


def _peers(found: Findings) -> str:
    """Wins and losses, a line for each other that was measured."""
    lines = [terminal.wrapped(words.replace("`", "")) for words in peers.census(found.peers)]
    return "\n".join([terminal.styled("side by side with others", "bold"), *lines, ""]) if lines else ""


def _missed(found: Findings) -> str:
    """The goals that are missed; in a narrow terminal the tables have no room for them."""
    rule = bottlenecks.floors_missed(found)
    lines = [terminal.wrapped(f"{spot.row}: {spot.told}") for spot in rule.found]
    return (
        "\n".join([terminal.styled("goals missed, by the time to lose for certain", "bold"), *lines, ""])
        if lines
        else ""
    )


def _no_figure(row: Row) -> str:
    """Returns the state of a row without a figure; of one that ran, what it left is invalid."""
    return "invalid" if row.bench.state == "ran" else _state(row.bench.state)


def _state(state: str) -> str:
    return state.replace("_", " ")


def _ratio(held: Held | None) -> str:
    if held is None:
        return "no floor"
    ratio = held.ratio
    if ratio is None or ratio.ratio is None or ratio.state != "ran":
        return _state(ratio.state if ratio else "not_run")
    return figures.ratio(ratio.ratio, ratio.low, ratio.high) if held.judged else "too few tuples"


def _goal(held: Held | None) -> str:
    if held is None or held.goal is None:
        return "no goal"
    return f"{held.verdict} ({figures.goal(held.goal)})"


def crud_table(found: Findings, threads: int) -> str:
    """The verbs by the number of indexes, each with what it loses against none."""
    counts = found.index_counts
    columns = [figures.plural(threads, "thread")]
    for count in counts:
        marks = ">?" if 0 < count < max(counts) else ">"
        columns.append(figures.plural(count, "index") + marks)
        columns += [f"longer by{marks}"] if count else []
    body = [_crud_cells(line, counts) for line in found.crud[threads]]
    return terminal.table("integration: time by the number of indexes; longer than without [95 %]", columns, body)


def _crud_cells(line: CrudLine, counts: list[int]) -> list[str]:
    cells = [line.label]
    for count in counts:
        row, loss = line.cells.get(count), line.loss(count)
        measured = row.measured if row else None
        cells.append(figures.time(measured.middle) if measured else _no_figure(row) if row else "no such row")
        why_none = "no figure" if line.lacks_a_figure(count) else "no turns" if row else "no such row"
        cells += [figures.contrast(loss) if loss else why_none] if count else []
    return cells


MANY = 3
"""Of more cells that have no figure for one reason, only their number is told, by layer."""


def _troubles(found: Findings) -> str:
    """Lists what has no figure, by the reason."""
    told: dict[tuple[str, str, str], list[str]] = {}
    for one in found.outcomes:
        if one.state != "ran" and one.reasons:
            kind = one.kind if one.kind in ("ratio", "family") else "row"
            layer, reason = one.id.partition("/")[0], absence(one.state, one.reasons)
            told.setdefault((kind, layer, reason), []).append(one.id)
    lines = [terminal.wrapped(words) for key, ids in told.items() for words in _absences(*key, ids)]
    lines += [
        terminal.wrapped(f"{row.id}: run again: {refusal}") for row in found.rows for refusal in row.bench.refusals
    ]
    return "\n".join([*lines, ""]) if lines else ""


def _absences(kind: str, layer: str, reason: str, ids: Sequence[str]) -> list[str]:
    if len(ids) > MANY:
        return [f"{figures.plural(len(ids), kind)} of {layer}: {reason}"]
    return [f"{'' if kind == 'row' else f'{kind} of '}{id}: {reason}" for id in ids]


def _contradictions(found: Findings) -> str:
    lines = [terminal.wrapped(words) for check in found.checks for words in check.found]
    return "\n".join([*lines, ""]) if lines else ""


def census(found: Findings) -> str:
    """The last line: how every planned cell ended."""
    rows = Counter(_state(row.bench.state) for row in found.rows)
    ratios = Counter(_state(one.state) for one in found.outcomes if one.kind == "ratio")
    goals = f"goals: {counted_goals([one for one in found.goals if one.ratio is not None])}"
    begun = "" if found.made.complete else "interrupted, not complete; "
    begun += "CONTAMINATED: too many rows differ from themselves; " if found.controls.contaminated else ""
    took = duration(found.made.seconds)
    return f"{begun}rows: {_counted(rows)}; ratios to floors: {_counted(ratios)}; {goals}; {took}"


def _counted(states: "Counter[str]") -> str:
    return (
        ", ".join(
            f"{count} {state}"
            for state, count in sorted(states.items(), key=lambda entry: (entry[0] != "ran", entry[0]))
        )
        or "none"
    )


def exit_code(found: Findings, strict: bool) -> Exit:
    """Returns the exit code of a command that measured: never green on silence."""
    held = [one for one in found.goals if one.ratio is not None and one.ratio.state != "skipped"]
    if any(one.state == "invalid" for one in found.outcomes):
        return Exit.ERROR
    has_run = any(one.state == "ran" for one in found.outcomes if one.kind != "sentinel")
    if not has_run or not found.made.complete or found.controls.contaminated:
        return Exit.NOTHING
    if strict and any(one.standing == "missed" for one in held):
        return Exit.FAILED
    return Exit.NOTHING if strict and not all(one.standing == "met" for one in held) else Exit.FINE
