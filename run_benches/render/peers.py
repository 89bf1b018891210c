"""Others that did the same work in the same run: codecs, databases, routers, each beside ours, wins and losses alike.

Why no goal: a floor is what ours is built on, and how near it comes is ours to answer for; a peer is built otherwise,
and either may win. The ratio is the peer's time over ours, so that above one ours is faster, with the interval over the
tuples in which the two took turns. An interval that holds one tells neither from the other.
"""

from collections.abc import Iterator, Sequence

from run_benches.analysis import figures
from run_benches.analysis.peers import PeerRow
from run_benches.analysis.row import Row
from run_benches.render import cells, markdown
from run_benches.render.pictures import threads_on_cores
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
    return ["## Beside other systems", "", _WORDS, "", *source.block("peers", lines)]


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
    body = []
    for layer, peer in dict.fromkeys((side.ours.layer, side.theirs.subject) for side in found):
        of = [side for side in found if (side.ours.layer, side.theirs.subject) == (layer, peer)]
        body.append([source.link(layer, layer), f"`{peer}`", str(len(of)), *_outcomes(of), *_ends(of)])
    return markdown.table(columns, body)


def _outcomes(found: Sequence[PeerRow]) -> list[str]:
    """Counts the rows that end in each way, each by its own interval; those that took no turns end in none."""
    told = [side for side in found if side.contrast]
    outcomes = [side.faster() for side in told]
    return [
        str(outcomes.count(outcome)) if told else "no turns" for outcome in ("ours", "theirs", "same", "not resolved")
    ]


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


def layer_tables(source: Source, layer: str) -> list[str]:
    """The rows of others beside ours in one layer, by the number of threads."""
    found = [side for side in source.found.peers if side.ours.layer == layer]
    return [
        line
        for threads in sorted({side.ours.bench.facts.threads for side in found})
        for line in _table(source, found, threads)
    ]


def _table(source: Source, found: Sequence[PeerRow], threads: int) -> Iterator[str]:
    wanted = [side for side in found if side.ours.bench.facts.threads == threads]
    sized = any(row.bench.facts.bytes_per_operation for side in wanted for row in (side.ours, side.theirs))
    columns = [
        "operation",
        "by",
        "what one operation is",
        "time of one operation>",
        "their time / ours>",
        *(["bytes>"] if sized else []),
        "allocations>",
    ]
    body = []
    for ours in dict.fromkeys(side.ours.id for side in wanted):
        of = [side for side in wanted if side.ours.id == ours]
        body += [_cells(source, of[0].ours, None, sized), *(_cells(source, side.theirs, side, sized) for side in of)]
    yield from (f"**{threads_on_cores(source.found.machine, threads)}**", "", *markdown.table(columns, body), "")


def _cells(source: Source, row: Row, side: PeerRow | None, sized: bool) -> list[str]:
    """A line of the table; that of ours comes first, and is what the others are held against."""
    size = row.bench.facts.bytes_per_operation
    sizes = [figures.count(size) if size else "not counted"] if sized else []
    name = f"`{row.operation}/{row.case}`" if side is None else "the same"
    ratio = _ratio(side) if side else "ours"
    return [
        name,
        row.subject,
        row.bench.facts.op,
        cells.time(source, row, row.layer),
        ratio,
        *sizes,
        cells.allocations(row),
    ]


def _ratio(side: PeerRow) -> str:
    if side.contrast is None:
        return figures.NO_TURNS
    verdict = {"ours": ", ours faster", "theirs": ", ours slower"}.get(side.faster() or "", "")
    return figures.factor(side.contrast) + verdict
