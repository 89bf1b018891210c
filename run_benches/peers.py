"""Others that did the same work in the same run: codecs, databases, routers, each beside ours, wins and losses alike.

Why no goal: a floor is what ours is built on, and how near it comes is ours to answer for; a peer is built otherwise, and either may win.
The ratio is the peer's time over ours, so that above one ours is faster, with the interval over the tuples in which the two took turns. An
interval that holds one tells neither from the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from run_benches import cells, figures, findings, tables
from run_benches.findings import Row
from run_benches.pictures import threads_on_cores
from run_benches.runs import Run
from run_benches.source import Source

Outcome = Literal["ours", "theirs", "neither"]


@dataclass(frozen=True)
class Speed:
    """Their time over ours."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def faster(self) -> Outcome:
        """Who is faster beyond the interval."""
        if self.low is None or self.high is None:
            return "neither"
        return "ours" if self.low > 1 else "theirs" if self.high < 1 else "neither"


@dataclass(frozen=True)
class Side:
    """A peer's row beside ours of the same operation and case."""

    ours: Row
    theirs: Row
    speed: Speed | None
    """Absent where a figure is missing or the two are not of one kind."""


def sides(run: Run) -> list[Side]:
    """Every row of a peer that has one of ours beside it, in the order of the page."""
    ours = {_work(row): row for row in findings.rows(run) if row.subject == findings.OURS}
    return [Side(mine, row, _speed(mine, row)) for row in findings.rows(run) if is_peer(row) and (mine := ours.get(_work(row)))]


def is_peer(row: Row) -> bool:
    """Whether a row is another's work, and neither what ours is built on nor the entry to a runtime."""
    return row.subject not in (findings.OURS, findings.FLOOR, findings.DRIVER)


def _work(row: Row) -> tuple[str, str, str]:
    return (row.layer, row.operation, row.case)


def _speed(ours: Row, theirs: Row) -> Speed | None:
    contrast = theirs.over(ours)
    if contrast is None or not findings.alike(ours, theirs):
        return None
    found = contrast.ratio()
    return Speed(found.middle, found.low, found.high)


# Its section.

_WORDS = (
    "Others doing the same work in the same run on the same machine; what exactly they do, and what they are spared, stands with the layer. The"
    " ratio is their time over ours: above one, ours is faster."
)


def section(source: Source) -> list[str]:
    """The section of the page: a table for each layer and number of threads."""
    found = sides(source.run)
    lines = [line for layer in dict.fromkeys(side.ours.layer for side in found) for line in _layer(source, [side for side in found if side.ours.layer == layer])]
    lines = [*(f"* {words}" for words in census(found)), "", *lines] if found else [f"{figures.NOT_RUN}: no peer has a row in this run"]
    return ["## Side by side with others", "", _WORDS, "", *source.block("peers", lines)]


def census(found: Sequence[Side]) -> Iterator[str]:
    """How often ours was faster, and how often slower, beside each other one."""
    for peer in dict.fromkeys(side.theirs.subject for side in found):
        told = [side.speed.faster for side in found if side.theirs.subject == peer and side.speed]
        if told:
            wins, losses = told.count("ours"), told.count("theirs")
            yield f"beside `{peer}`, of {figures.plural(len(told), 'row')}: ours faster in {wins}, slower in {losses}, not to be told in {told.count('neither')}"


def _layer(source: Source, found: Sequence[Side]) -> Iterator[str]:
    for threads in sorted({side.ours.bench.facts.threads for side in found}):
        wanted = [side for side in found if side.ours.bench.facts.threads == threads]
        sized = any(row.bench.facts.bytes_per_operation for side in wanted for row in (side.ours, side.theirs))
        columns = ["operation", "by", "time of one operation>", "their time / ours>", "faster", *(["bytes>"] if sized else []), "allocations>"]
        body = []
        for ours in dict.fromkeys(side.ours.id for side in wanted):
            of = [side for side in wanted if side.ours.id == ours]
            body += [_cells(source, of[0].ours, None, sized), *(_cells(source, side.theirs, side, sized) for side in of)]
        yield from (f"**{found[0].ours.layer}, {threads_on_cores(source.run, threads)}**", "", *tables.markdown(columns, body), "")


def _cells(source: Source, row: Row, side: Side | None, sized: bool) -> list[str]:
    """A line of the table; that of ours comes first, and has nobody beside it."""
    size = row.bench.facts.bytes_per_operation
    ratio, faster = _told(side) if side else ("", "")
    name = f"`{row.operation}/{row.case}`<br>{row.bench.facts.op}" if side is None else ""
    sizes = [figures.count(size) if size else "not counted"] if sized else []
    return [name, row.subject, cells.time(source, row, row.layer), ratio, faster, *sizes, cells.allocations(row)]


def _told(side: Side) -> tuple[str, str]:
    speed = side.speed
    if speed is None:
        return cells.NO_TURNS, ""
    few = " (too few tuples for an interval)" if speed.low is None else ""
    return figures.times(speed.ratio, speed.low, speed.high) + few, speed.faster
