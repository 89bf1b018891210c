"""The page of a layer: the words of its bench, its rows with the conditions that they are measured under, their plot,
and what they are held against.

Why three tables: a floor is the best raw path for the same bytes, and how near ours comes is ours to answer for; a peer
is another system, and what it is spared its own words say; a row of ours is neither, and either may be the faster one.
One ratio means another thing in each. Rows of different units, clocks or numbers of threads share no column. Every
layer is told alike, so that who read one page can read all.
"""

from collections.abc import Iterable, Sequence

from run_benches.analysis.held import Held
from run_benches.analysis.row import Row
from run_benches.render import cells, layer_pictures, markdown, peers
from run_benches.render.pictures import threads_on_cores
from run_benches.render.source import Source


def section(source: Source, layer: str) -> list[str]:
    """The whole page."""
    shown = [*rows_section(source, layer), *source.picture(layer_pictures.name(layer)), *held_sections(source, layer)]
    return [f"# {cells.words(layer)}", "", *source.words(layer), *shown]


def rows_section(source: Source, layer: str) -> list[str]:
    """Every row, by what rows share a column."""
    rows = source.found.rows_of(layer)
    lines = [line for kind in _kinds(rows) for line in _rows_table(source, kind, rows)] or [source.missing(layer), ""]
    return ["## Rows", "", *source.block(f"{layer} rows", lines)]


def held_sections(source: Source, layer: str) -> list[str]:
    """Returns the sections on what a layer's rows are held against: one for floors, one for other systems, one for rows
    of ours."""
    floors = [held for held in source.found.floors if held.row.layer == layer]
    own = [held for held in source.found.held_of(layer) if held.is_own]
    beside = peers.layer_tables(source, layer)
    told: list[str] = []
    if floors:
        told += [
            "## Held against floors",
            "",
            _FLOORS,
            "",
            *source.block(f"{layer} floors", [*floor_table(floors), "", _missed(floors)]),
        ]
    if beside:
        told += ["## Beside other systems", "", _PEERS, "", *source.block(f"{layer} peers", beside)]
    if own:
        told += ["## Held against rows of ours", "", _OWN, "", *source.block(f"{layer} own rows", floor_table(own))]
    return told


_FLOORS = (
    "The floor is the best raw path of the same binding for the same bytes; the ratio is its time over ours, so that more is better. A goal is"
    " met if the whole interval reaches it, missed if none of it does (by the time that an operation has to lose for certain), and else not shown."
    " The aim is what was hoped for beyond the goal."
)
_PEERS = "Another system that does the same work; what it is spared stands in its words. The ratio is its time over ours: above one, ours is faster."
_OWN = "The ratio is the other row's time over that of the row: what ours takes for more, or for other, work of ours."


def floor_table(held: Sequence[Held]) -> list[str]:
    """Rows against what they are held against, with goal and aim as numbers."""
    columns = ["row", "held against", "its time / ours [95 % interval]>", "tuples>", "goal>", "aim>", "verdict"]
    return markdown.table(columns, [_floor_cells(one) for one in held])


def _floor_cells(held: Held) -> list[str]:
    ratio, named = held.ratio, held.row.bench.facts.floor
    aim = ratio.aim if ratio else named.aim if named else None
    tuples = str(len(ratio.pairs)) if ratio and ratio.pairs else "none"
    return [
        f"`{held.row.id}`",
        f"`{held.floor}`",
        cells.ratio(held),
        tuples,
        cells.goal(held.goal),
        cells.goal(aim),
        cells.verdict(held),
    ]


def _missed(held: Sequence[Held]) -> str:
    missed = [one for one in held if one.standing == "missed"]
    if missed:
        return f"**Goals missed: {', '.join(f'`{one.row.id}`' for one in missed)}.**"
    return "No goal is missed." if any(one.judged and one.goal is not None for one in held) else "No goal was judged."


_Kind = tuple[int, str, str]
"""Threads, unit and clock: rows that differ in one of them share no column (T5)."""


def _kinds(rows: Iterable[Row]) -> list[_Kind]:
    return sorted({_kind(row) for row in rows})


def _kind(row: Row) -> _Kind:
    return (row.bench.facts.threads, row.bench.facts.unit, row.bench.facts.clock)


def _rows_table(source: Source, kind: _Kind, rows: Iterable[Row]) -> list[str]:
    threads, unit, clock = kind
    seconds = "CPU s" if clock == "cpu" else "s"
    wanted = [row for row in rows if _kind(row) == kind]
    counted = any(cells.counters(row) for row in wanted)
    columns = [
        "row, and what one operation is",
        "under which conditions",
        "time of one operation>",
        f"per {seconds}>" if unit == "bytes" else f"{unit}/{seconds}>",
    ]
    columns += ["allocations>", *(["counted in one operation"] if counted else [])]
    body = [_cells(source, row, counted) for row in wanted]
    title = f"{threads_on_cores(source.found.machine, threads)}, counted in {unit}{', by CPU time' if clock == 'cpu' else ''}"
    return [f"**{title}**", "", *markdown.table(columns, body), ""]


def _cells(source: Source, row: Row, counted: bool) -> list[str]:
    told = [
        cells.named(row),
        cells.conditions(row),
        cells.time(source, row, row.layer),
        cells.rate(row),
        cells.allocations(row),
    ]
    return [*told, cells.counters(row) or "nothing"] if counted else told
