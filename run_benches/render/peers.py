"""Others that did the same work in the same run: codecs, databases, routers, each beside ours, wins and losses alike.

Why no goal: a floor is what ours is built on, and how near it comes is ours to answer for; a peer is built otherwise,
and either may win. The ratio is the peer's time over ours, so that above one ours is faster, with the interval over the
tuples in which the two took turns. An interval that holds one tells neither from the other.
"""

from collections.abc import Sequence
from typing import get_args

from run_benches.analysis import figures
from run_benches.analysis.peers import PeerOutcome, PeerRow
from run_benches.analysis.row import Row
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
from run_benches.render.section import Section
from run_benches.render.source import Source

# Its section on the main page: a line for each layer and each other one.

_WORDS = (
    "Other systems doing the same work in the same run on the same machine, without a goal. The ratio is their time over ours: above one, ours is"
    " faster. Rows are counted by the interval of each. Every row, what exactly each does and what it is spared, stand on the page of the layer."
)


def section(source: Source) -> list[str]:
    """The compact section."""
    found = source.found.peers
    lines = _compact(source, found) if found else [f"{figures.NOT_RUN}: no peer has a row in this run"]
    return source.section("Beside other systems", _WORDS, "peers", lines)


def _compact(source: Source, found: Sequence[PeerRow]) -> list[str]:
    columns = [
        "layer",
        "beside",
        "rows>",
        "ours faster>",
        "slower>",
        "same>",
        "not resolved>",
        "their time / ours, least>",
        "most>",
    ]
    grouped: dict[tuple[str, str], list[PeerRow]] = {}
    for side in found:
        grouped.setdefault((side.ours.layer, side.theirs.subject), []).append(side)
    body = []
    for (layer, peer), of in grouped.items():
        # Each row by its own interval; those that took no turns end in none.
        told = [side.faster() for side in of if side.contrast]
        counts = [str(told.count(outcome)) if told else "no turns" for outcome in get_args(PeerOutcome)]
        body.append([source.link(layer, layer), f"`{peer}`", str(len(of)), *counts, *_ends(of)])
    return markdown.table(columns, body)


def _ends(found: Sequence[PeerRow]) -> list[str]:
    """The least and the greatest ratio, and the rows that have them."""
    held = sorted(
        ((side.contrast, side.ours) for side in found if side.contrast), key=lambda one: one[0].ratio().middle
    )
    if not held:
        return [figures.NO_TURNS, figures.NO_TURNS]
    ends = [f"{figures.factor(contrast)} `{row.operation}/{row.case}`" for contrast, row in (held[0], held[-1])]
    return ends if len(held) > 1 else [ends[0], "the only one"]


# Its tables on the page of a layer.


def layer_tables(source: Source, layer: str) -> list[Section]:
    """The rows of others beside ours in one layer, by the number of threads."""
    by_threads: dict[int, list[PeerRow]] = {}
    for side in source.found.peers:
        if side.ours.layer == layer:
            by_threads.setdefault(side.ours.bench.facts.threads, []).append(side)
    return [_table(source, threads, sides) for threads, sides in sorted(by_threads.items())]


def _table(source: Source, threads: int, sides: Sequence[PeerRow]) -> Section:
    sized = any(row.bench.facts.bytes_per_operation for side in sides for row in (side.ours, side.theirs))
    columns = [
        "operation",
        "by",
        "what one operation is",
        "time of one operation>",
        "their time / ours>",
        *(["bytes>"] if sized else []),
        "allocations>",
    ]
    grouped: dict[str, list[PeerRow]] = {}
    for side in sides:
        grouped.setdefault(side.ours.id, []).append(side)
    body = []
    for of in grouped.values():
        ours = of[0].ours
        body.append(_cells(ours, f"`{ours.operation}/{ours.case}`", "ours", sized))
        for side in of:
            ratio = figures.factor(side.contrast) if side.contrast else figures.NO_TURNS
            ratio += {"ours": ", ours faster", "theirs": ", ours slower"}.get(side.faster() or "", "")
            body.append(_cells(side.theirs, "the same", ratio, sized))
    return Section(threads_on_cores(source.found.machine, threads), [], columns, body)


def _cells(row: Row, name: str, ratio: str, sized: bool) -> list[str]:
    size = row.bench.facts.bytes_per_operation
    sizes = [figures.count(size) if size else "not counted"] if sized else []
    return [name, row.subject, row.bench.facts.op, cells.spread(row), ratio, *sizes, cells.allocations(row)]
