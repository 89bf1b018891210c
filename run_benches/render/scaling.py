"""Series of rows along one axis (`analysis.series`): a line for each on the terminal, their section on the main page,
their page with tables and laws, and their pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_benches.analysis import figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.findings import Findings
from run_benches.analysis.series import AXES, LAYER, THREADS, Series
from run_benches.render import cells, markdown, pictures
from run_benches.render.pictures import INK, PALE, SERIES, Picture
from run_benches.render.section import Section
from run_benches.render.source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# A line on the terminal: its ends, and the law of its growth.


def on_terminal(found: Findings) -> Section:
    """A line for each series."""
    lines = []
    for along in found.series.values():
        for one in along:
            ends = [(x, row.measured.middle) for x, row in one.rows.items() if row.measured]
            told = figures.NOT_RUN
            if ends:
                both = dict.fromkeys((ends[0], ends[-1]))
                times = [f"{figures.time(time_ns)} at {figures.round_amount(x)}" for x, time_ns in both]
                told = f"{', '.join(times)}; {one.words}"
            lines.append(f"{one.name} by {one.axis}: {told}")
    return Section(LAYER, lines)


# Its section on the main page: speed-ups by threads, and the laws.


def section(source: Source) -> list[str]:
    """The compact section."""
    words = (
        "Threads: the rate of all of them together over that of one, from turns with one, and the interval. Everything else: the law of growth in words."
        f" Tables and pictures: {source.link(LAYER, LAYER)}."
    )
    lines = []
    if found := _along(source, THREADS):
        several = sorted({x for one in found for x in one.rows if x > 1})
        columns = ["operation", "time with one thread>", *(f"{_place(found[0], x)}>" for x in several)]
        body = []
        for one in found:
            told = [f"`{one.name}`", cells.time(source, one.rows.get(1.0), LAYER)]
            for x in several:
                gain = one.speed_up(x)
                told.append(figures.factor(gain) if gain else figures.NO_TURNS if x in one.rows else "no such row")
            body.append(told)
        lines = [*markdown.table(columns, body), ""]
    for axis in source.found.series:
        if axis != THREADS:
            lines += [f"* `{one.name}`, by {AXES.get(axis, axis)}: {one.words}." for one in _along(source, axis)]
    return source.section("Scaling", words, LAYER, lines or [source.missing(LAYER)])


def _along(source: Source, axis: str) -> list[Series]:
    """The series along an axis, of each machine."""
    return [one for of_machine in source.found.of_each_machine for one in of_machine.series.get(axis, [])]


# Its page.


def page(source: Source) -> list[str]:
    """An axis at a time, its table, its laws, its picture; then every row as on any other page."""
    lines: list[str] = []
    for axis in source.found.series:
        found = _along(source, axis)
        xs = sorted({x for one in found for x in one.rows})
        columns = ["row, and what one operation is", *(f"{_place(found[0], x)}>" for x in xs)]
        body = []
        for one in found:
            op = next(iter(one.rows.values())).bench.facts.op
            told = [cells.spread(one.rows[x]) if x in one.rows else "no such row" for x in xs]
            body.append([f"`{one.name}`<br>{op}", *told])
        table = markdown.sections([Section(_title(axis, found), [], columns, body)])
        laws = [f"* `{one.name}`: {one.words}." for one in found]
        lines += [*source.block(f"{LAYER} by {axis}", [*table, *laws]), *source.picture(_picture_name(axis))]
    told_of = [_WORDS, "", *lines] if lines else source.block(LAYER, [source.missing(LAYER)])
    return [f"# {LAYER}", "", *source.words(LAYER), *told_of]


_WORDS = (
    "A row of a table is one operation, a column one place on the axis; below it stands the law of its growth, and how it is fitted is told in"
    " `run_benches/analysis/growth.py`. In the pictures a bar goes from the fastest process to the slowest."
)


def _title(axis: str, found: Sequence[Series]) -> str:
    cores = found[0].cores
    on = f" on {figures.plural(cores, 'core')}" if axis == THREADS and cores else ""
    return f"by {AXES.get(axis, axis)}{on}"


def _place(one: Series, x: float) -> str:
    singular = {THREADS: "thread", "indexes": "index"}.get(one.axis)
    words = figures.plural(int(x), singular) if singular else figures.round_amount(x)
    return f"{words} (oversubscribed)" if one.oversubscribed(x) else words


# Its pictures: a line for each series of an axis, with the range of the processes at each point.


@dataclass(frozen=True)
class _Point:
    x: float
    time_ns: Spread
    oversubscribed: bool


@dataclass(frozen=True)
class _Line:
    label: str
    points: list[_Point]

    @property
    def work(self) -> str:
        """The work that it shares a colour with: the same operation by others."""
        return self.label.partition(", ")[0]


@dataclass(frozen=True)
class _Plot:
    axis: str
    words: str
    cores: int | None
    lines: list[_Line]


def drawn(found: Findings) -> list[Picture]:
    """A picture for each axis of which the run has figures."""
    pictures = []
    for axis, along in found.series.items():
        lines = []
        for one in along:
            points = [_Point(x, row.measured, one.oversubscribed(x)) for x, row in one.rows.items() if row.measured]
            if len(points) > 1:
                label = one.name if axis == THREADS else f"{one.name} ({one.law.law})"
                lines.append(_Line(label, points))
        if lines:
            words = _title(axis, along)
            alt = (
                f"Scaling {words}: a line for each operation; the same figures and the law of each stand in the table."
            )
            plot = _Plot(axis, words, found.machine.cores, lines)
            pictures.append(Picture(_picture_name(axis), alt, plot, _draw))
    return pictures


def _picture_name(axis: str) -> str:
    return f"scaling-{axis}"


_ROWS = 17
"""Height of the plot, in lines."""


def _draw(plot: _Plot) -> "Figure":
    figure, (axis,) = pictures.canvas(_ROWS + len(plot.lines) * 0.8, 1, left=0.85, top=0.1 + 0.19 * len(plot.lines))
    threads = plot.axis == THREADS
    works = list(dict.fromkeys(line.work for line in plot.lines))
    for line in plot.lines:
        _draw_line(axis, line, works.index(line.work), threads)
    if threads and plot.cores:
        axis.axvline(plot.cores, color=PALE, linewidth=1)
        axis.text(plot.cores, 1.0, " cores", transform=axis.get_xaxis_transform(), va="top", ha="left", fontsize=8)
    xs = sorted({point.x for line in plot.lines for point in line.points})
    pictures.logarithmic(axis, figures.amount if threads else figures.time)
    if xs[0] > 0:
        axis.set_xscale("log")
    axis.set_xticks(xs, [figures.round_amount(x) for x in xs])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(
        plot.words.removeprefix("by ") + ("; hollow: more threads than cores" if threads else ""),
        fontsize=8,
        loc="left",
    )
    axis.set_ylabel("operations a second" if threads else "time of one operation", fontsize=8)
    axis.grid(color=PALE, linewidth=0.4)
    figure.legend(loc="upper left", ncols=1, frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=INK)
    return figure


def _draw_line(axis: "Axes", line: _Line, at: int, throughput: bool) -> None:
    (colour, marker), whose = SERIES[at % len(SERIES)], "-" if line.label == line.work else "--"
    style = ":" if at >= len(SERIES) else whose

    def height(time_ns: float) -> float:
        return 1e9 / time_ns if throughput else time_ns

    xs = [point.x for point in line.points]
    axis.plot(xs, [height(point.time_ns.middle) for point in line.points], color=colour, linestyle=style, linewidth=1.3)
    for point in line.points:
        axis.plot(
            [point.x, point.x], [height(point.time_ns.low), height(point.time_ns.high)], color=colour, linewidth=1.5
        )
        axis.plot(
            [point.x],
            [height(point.time_ns.middle)],
            color=colour,
            marker=marker,
            markersize=6,
            markerfacecolor="none" if point.oversubscribed else colour,
        )
    axis.plot([], [], color=colour, marker=marker, linestyle=style, label=line.label)
