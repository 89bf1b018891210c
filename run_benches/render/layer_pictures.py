"""A picture for each layer: the time of one operation of every row, ours beside what stands next to it.

Rows of one operation and case share a line, a mark for each subject, so that a floor or a peer is seen beside ours. The
axis goes by tenfolds, since rows of one layer differ by as much. Benches that cross the layers have pictures of their
own kinds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_benches.analysis import figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import LAYERS, OURS, Row
from run_benches.render import pictures
from run_benches.render.pictures import INK, PALE, SERIES, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class _Mark:
    subject: str
    time_ns: Spread


@dataclass(frozen=True)
class _Line:
    label: str
    marks: list[_Mark]


def drawn(found: Findings) -> list[Picture]:
    """A picture for each layer of which the run has figures."""
    return [picture for layer in LAYERS if (picture := _picture(found, layer)) is not None]


def name(layer: str) -> str:
    """The picture of a layer, as the page asks for it."""
    return f"layer-{layer}"


def _picture(found: Findings, layer: str) -> Picture | None:
    lines: dict[str, list[_Mark]] = {}
    for row in found.rows_of(layer):
        if row.measured:
            lines.setdefault(_label(row), []).append(_Mark(row.subject, row.measured))
    alt = f"{layer}: the time of one operation of each row, with the range of the processes; the same figures stand in the table."
    return Picture(name(layer), alt, [_Line(label, marks) for label, marks in lines.items()], _draw) if lines else None


def _label(row: Row) -> str:
    threads = row.bench.facts.threads
    crowd = f", {figures.plural(threads, 'thread')}" if threads > 1 and "thread" not in row.case else ""
    clock = ", CPU" if row.bench.facts.clock == "cpu" else ""
    return f"{row.operation}/{row.case}{crowd}{clock}"


def _draw(lines: list[_Line]) -> "Figure":
    subjects = list(dict.fromkeys([OURS, *(mark.subject for line in lines for mark in line.marks)]))
    figure, (axis,) = pictures.canvas(len(lines) + 1, 1, left=pictures.room(line.label for line in lines), top=0.45)
    for at, line in enumerate(lines):
        axis.axhline(at, color=PALE, linewidth=0.4, zorder=0)
        for mark in line.marks:
            _draw_mark(axis, at, mark, subjects.index(mark.subject))
    axis.set_yticks(range(len(lines)), [line.label for line in lines])
    axis.set_ylim(len(lines) - 0.3, -0.7)
    pictures.logarithmic(axis, figures.time, of="x")
    axis.set_xlabel("time of one operation; a bar goes from the fastest process to the slowest", fontsize=8, loc="left")
    for place, subject in enumerate(subjects):
        colour, shape = _look(place)
        axis.plot([], [], linestyle="", marker=shape, color=colour, markersize=6, label=subject)
    figure.legend(loc="upper left", ncols=len(subjects), frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=INK)
    return figure


def _draw_mark(axis: "Axes", at: int, mark: _Mark, place: int) -> None:
    colour, shape = _look(place)
    height = at + 0.16 * (place % 3 - 1)  # marks of one line do not hide each other's bars
    axis.plot([mark.time_ns.low, mark.time_ns.high], [height, height], color=colour, linewidth=1.2)
    axis.plot([mark.time_ns.middle], [height], color=colour, marker=shape, markersize=5)


def _look(place: int) -> tuple[str, str]:
    """Colour and shape of a subject; those beyond the fourth share a colour and differ in shape."""
    colour, shape = SERIES[place % len(SERIES)]
    return colour, shape if place < len(SERIES) else "vP*X"[place % 4]
