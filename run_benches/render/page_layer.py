"""A layer, on the terminal and on a page of its own: the words of its bench, its rows with the conditions that they are
measured under, their plot, and what they are held against.

Why three tables on the page: a floor is the best raw path for the same bytes, and how near ours comes is ours to answer
for; a peer is another system, and what it is spared its own words say; a row of ours is neither, and either may be the
faster one. One ratio means another thing in each. Rows of different units, clocks or numbers of threads share no
column; the terminal has one table, where threads stand in a column of their own and every figure names its unit. Every
layer is told alike, so that who read one page can read all.
"""

from collections.abc import Iterable, Sequence

from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import Held
from run_benches.analysis.row import DRIVER, FLOOR, Row
from run_benches.render import cells, layer_pictures, markdown, peers
from run_benches.render.pictures import threads_on_cores
from run_benches.render.section import Section
from run_benches.render.source import Source

COLUMNS = (
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


def on_terminal(found: Findings, layer: str) -> Section:
    """The rows of a layer; those of floors and drivers are counted, not shown."""
    held = {one.row.id: one for one in found.held_of(layer)}
    shown, title = unfolded(found, layer)
    return Section(title, [], COLUMNS, [_brief_cells(row, held.get(row.id)) for row in shown])


def unfolded(found: Findings, layer: str) -> tuple[list[Row], str]:
    """The rows of a layer that are shown, and its title, which counts the others. What the plan left out has its reason
    below the tables."""
    rows = found.rows_of(layer)
    planned = [row for row in rows if row.bench.state != "not_run" or not row.bench.reasons]
    shown = [row for row in planned if row.subject not in FOLDED] or planned
    counts = ((len(planned) - len(shown), "of floors and drivers"), (len(rows) - len(planned), "left out"))
    folded = ", ".join(f"{figures.plural(count, 'row')} {what}" for count, what in counts if count)
    return shown, layer + (f" (and {folded})" if folded else "")


def _brief_cells(row: Row, held: Held | None) -> list[str]:
    facts, measured = row.bench.facts, row.measured
    ratio, goal = "no floor", "no goal"
    if held:
        found = held.ratio
        ratio = cells.words(found.state if found else "not_run")
        if found and found.ratio is not None and found.state == "ran":
            ratio = figures.ratio(found.ratio, found.low, found.high) if held.judged else "too few tuples"
        goal = goal if held.goal is None else f"{held.verdict} ({figures.goal(held.goal)})"
    told = [row.id.partition("/")[2], cells.brief_time(row), str(facts.threads), ratio, goal]
    if measured is None:
        return [*told, "no figure", "no figure"]
    around = figures.time_range(measured.low, measured.high) if measured.count > 1 else "1 process"
    around += f"; {row.remark}" if row.remark else ""
    rate = figures.rate(measured.middle, facts.unit, facts.units_per_operation)
    return [*told, around, rate if facts.clock == "wall" else "CPU, no rate"]


def section(source: Source, layer: str) -> list[str]:
    """The whole page."""
    shown = [*rows_section(source, layer), *source.picture(layer_pictures.name(layer)), *held_sections(source, layer)]
    return [f"# {cells.words(layer)}", "", *source.words(layer), *shown]


def rows_section(source: Source, layer: str) -> list[str]:
    """Every row, by what rows share a column."""
    rows = source.found.rows_of(layer)
    found = [_rows_table(source, kind, rows) for kind in sorted(set(map(_kind, rows)))]
    return source.section("Rows", "", f"{layer} rows", markdown.sections(found) or [source.missing(layer)])


def held_sections(source: Source, layer: str) -> list[str]:
    """Returns the sections on what a layer's rows are held against: one for floors, one for other systems, one for rows
    of ours."""
    floors = [held for held in source.found.floors if held.row.layer == layer]
    own = [held for held in source.found.held_of(layer) if held.is_own]
    beside = peers.layer_tables(source, layer)
    told: list[str] = []
    if floors:
        missed = ", ".join(f"`{one.row.id}`" for one in floors if one.standing == "missed")
        is_judged = any(one.judged and one.goal is not None for one in floors)
        outcome = f"**Goals missed: {missed}.**" if missed else f"No goal {'is missed' if is_judged else 'was judged'}."
        told += source.section("Held against floors", _FLOORS, f"{layer} floors", [*_held_table(floors), "", outcome])
    if beside:
        told += source.section("Beside other systems", _PEERS, f"{layer} peers", markdown.sections(beside))
    if own:
        told += source.section("Held against rows of ours", _OWN, f"{layer} own rows", _held_table(own))
    return told


_FLOORS = (
    "The floor is the best raw path of the same binding for the same bytes; the ratio is its time over ours, so that more is better. A goal is"
    " met if the whole interval reaches it, missed if none of it does (by the time that an operation has to lose for certain), and else not shown."
    " The aim is what was hoped for beyond the goal."
)
_PEERS = "Another system that does the same work; what it is spared stands in its words. The ratio is its time over ours: above one, ours is faster."
_OWN = "The ratio is the other row's time over that of the row: what ours takes for more, or for other, work of ours."


def _held_table(held: Sequence[Held]) -> list[str]:
    """Rows against what they are held against, with goal and aim as numbers."""
    columns = ["row", "held against", "its time / ours [95 % interval]>", "tuples>", "goal>", "aim>", "verdict"]
    body = []
    for one in held:
        declared = one.ratio or one.row.bench.facts.floor
        body.append(
            [
                f"`{one.row.id}`",
                f"`{one.floor}`",
                cells.ratio(one),
                str(len(one.ratio.pairs)) if one.ratio and one.ratio.pairs else "none",
                cells.goal(one.goal),
                cells.goal(declared.aim if declared else None),
                cells.verdict(one),
            ]
        )
    return markdown.table(columns, body)


_Kind = tuple[int, str, str]
"""Threads, unit and clock: rows that differ in one of them share no column (T5)."""


def _kind(row: Row) -> _Kind:
    return (row.bench.facts.threads, row.bench.facts.unit, row.bench.facts.clock)


def _rows_table(source: Source, kind: _Kind, rows: Iterable[Row]) -> Section:
    threads, unit, clock = kind
    seconds = "CPU s" if clock == "cpu" else "s"
    wanted = [row for row in rows if _kind(row) == kind]
    counted = any(map(cells.counters, wanted))
    columns = [
        "row, and what one operation is",
        "under which conditions",
        "time of one operation>",
        f"per {seconds}>" if unit == "bytes" else f"{unit}/{seconds}>",
        "allocations>",
    ]
    columns += ["counted in one operation"] if counted else []
    body = []
    for row in wanted:
        told = [cells.named(row), cells.conditions(row), cells.spread(row), cells.rate(row), cells.allocations(row)]
        body.append([*told, cells.counters(row) or "nothing"] if counted else told)
    by_clock = ", by CPU time" if clock == "cpu" else ""
    return Section(f"{threads_on_cores(source.found.machine, threads)}, counted in {unit}{by_clock}", [], columns, body)
