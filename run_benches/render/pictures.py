"""The pictures of the performance document, as SVG: CRUD by the number of indexes, rows against their floors, the
ladder.

How it is known that a picture belongs to the figures beside it: matplotlib draws the same bytes on the same machine
(fixed hash salt, no date), but the last digit of a coordinate is not promised across processors and versions of numpy,
so comparing redrawn bytes would call honest pictures false. Instead every file ends with a seal of two hashes: of what
it was drawn from (the values, and the sources of this module and of the one that draws it), and of its own content.
`document --check` computes both and draws nothing: a picture of other figures, by other code, or edited by hand does
not carry the right seal. A picture whose seal holds is not drawn again.

How they are to be read: colours are told apart by the colour-blind (Okabe and Ito) and never carry a meaning alone, a
shape or a word says it too; the ground is transparent and the ink a middle grey, legible on a light page and on a dark
one. Text stays text, in whatever sans-serif font the reader has; so nothing is placed by the measured width of a text.
"""

import hashlib
import inspect
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from run_benches.analysis import figures
from run_benches.analysis.contrasts import Contrast
from run_benches.analysis.crud import CrudLine
from run_benches.analysis.figures import Spread
from run_benches.analysis.findings import Findings
from run_benches.analysis.held import Held, Standing
from run_benches.analysis.ladder import ALONE, Rung
from run_benches.errors import UserError
from run_benches.store.runs import Machine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#7b7f86", "#9aa0a866"
BLUE, ORANGE, _GREEN, _PINK = "#2a8fd0", "#d9660f", "#0d9f78", "#c46a9b"
RED = "#b3261e"
SERIES = ((BLUE, "o"), (ORANGE, "s"), (_GREEN, "^"), (_PINK, "D"))
_WIDTH, _ROW = 9.0, 0.21  # inches
_LETTER = 0.076  # inches a letter takes at most, at the size that labels have
_STYLE = {
    "svg.hashsalt": "strata",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "hatch.linewidth": 0.6,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}
SEALED = "<!-- strata picture, drawn from"
"""The beginning of a picture's seal."""

_SEAL = SEALED + " sha256:{data}, content sha256:{content} -->\n"


@dataclass(frozen=True)
class Picture:
    """A picture before it is drawn: `values` is all that `draw` sees."""

    name: str
    alt: str
    values: object
    draw: Callable[[Any], "Figure"]

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.name}.svg"

    def fault(self, folder: Path) -> str | None:
        """Tells what is wrong with the stored picture, in words; `None` when it is the one that would be drawn."""
        try:
            stored = (folder / self.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return "is missing or cannot be read"
        content, seal = stored[: stored.rfind("<!--")], stored[stored.rfind("<!--") :]
        if f"content sha256:{_hash(content)} " not in seal:
            return "was edited after it was drawn"
        return None if seal == self._seal(content) else "was drawn from other figures, or by other code"

    def svg(self) -> str:
        """Draws it; needs matplotlib."""
        content = drawn(self)
        return content + self._seal(content)

    def _seal(self, content: str) -> str:
        values = json.dumps(self.values, default=asdict, sort_keys=True)
        code = [Path(file).read_text(encoding="utf-8") for file in (__file__, inspect.getfile(self.draw))]
        return _SEAL.format(data=_hash("".join([values, *code])), content=_hash(content))


def drawn(picture: Picture) -> str:
    """The picture as SVG, without its seal."""
    target = io.StringIO()
    with _matplotlib().rc_context(_STYLE):
        figure = picture.draw(picture.values)
        figure.savefig(
            target, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Title": picture.alt}
        )
    return target.getvalue()


# CRUD by the number of indexes: a bar for each verb and number of indexes, a panel for each number of threads.


@dataclass(frozen=True)
class _Bar:
    indexes: int
    time_ns: Spread | None
    words: str


@dataclass(frozen=True)
class _Group:
    label: str
    bars: list[_Bar]


@dataclass(frozen=True)
class _Panel:
    title: str
    groups: list[_Group]


def crud(found: Findings) -> Picture | None:
    """The verbs by the number of indexes, if the run has any."""
    is_measured = any(row.measured for lines in found.crud.values() for line in lines for row in line.cells.values())
    panels = [_crud_panel(found, threads) for threads in found.crud if is_measured]
    alt = "CRUD by the number of indexes: a bar for each verb, its length the time of one operation; the same figures stand in the tables."
    return Picture("crud", alt, panels, _draw_crud) if panels else None


def _crud_panel(found: Findings, threads: int) -> _Panel:
    groups = []
    for line in found.crud[threads]:
        bars = [_crud_bar(line, indexes) for indexes in sorted(line.cells)]
        groups.append(_Group(line.label.replace(", ", "\n"), bars))
    return _Panel(threads_on_cores(found.machine, threads), groups)


def _crud_bar(line: CrudLine, indexes: int) -> _Bar:
    row, loss = line.cells[indexes], line.loss(indexes)
    if row.measured is None:
        return _Bar(indexes, None, row.why_not.split(":")[0])
    return _Bar(indexes, row.measured, figures.time(row.measured.middle) + _lost(loss))


def _lost(loss: Contrast | None) -> str:
    return f", {figures.contrast(loss)}" if loss else ""


def threads_on_cores(machine: Machine, threads: int) -> str:
    """`1 thread`, `8 threads on 2 cores`."""
    on = f" on {figures.plural(machine.cores, 'core')}" if threads > 1 and machine.cores is not None else ""
    return figures.plural(threads, "thread") + on


def _draw_crud(panels: list[_Panel]) -> "Figure":
    rows = max(sum(len(group.bars) + 1 for group in panel.groups) for panel in panels)
    figure, axes = canvas(
        rows, len(panels), left=room(group.label for panel in panels for group in panel.groups), top=0.6
    )
    counts = sorted({bar.indexes for panel in panels for group in panel.groups for bar in group.bars})
    for panel, axis in zip(panels, axes, strict=True):
        _draw_crud_panel(axis, panel, counts)
    for place, indexes in enumerate(counts):
        colour, marker = SERIES[place % len(SERIES)]
        label = figures.plural(indexes, "index")
        axes[0].plot([], [], color=colour, marker=marker, linewidth=6, label=label, markeredgecolor=INK, markersize=6)
    axes[0].plot([], [], color=INK, linewidth=1.5, label="range of the processes")
    figure.legend(loc="upper left", ncols=len(counts) + 1, frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=INK)
    return figure


def _draw_crud_panel(axis: "Axes", panel: _Panel, counts: Sequence[int]) -> None:
    longest = max((bar.time_ns.high for group in panel.groups for bar in group.bars if bar.time_ns), default=1.0)
    scale, unit = figures.time_step(longest)
    at, ticks = 0.0, []
    for group in panel.groups:
        ticks.append(at + (len(group.bars) - 1) / 2)
        for bar in group.bars:
            colour, marker = SERIES[counts.index(bar.indexes) % len(SERIES)]
            end = _draw_bar(axis, at, bar.time_ns, scale, colour, marker)
            _word(axis, end, at, bar.words)
            at += 1
        at += 1
    axis.set_yticks(ticks, [group.label for group in panel.groups])
    axis.set_ylim(at - 1, -1)
    ends = [
        (bar.time_ns.high / scale if bar.time_ns else 0.0, bar.words) for group in panel.groups for bar in group.bars
    ]
    _leave_room(axis, ends)
    _end_ticks(axis, longest / scale)
    axis.set_title(panel.title, fontsize=9, loc="left")
    axis.set_xlabel(f"time of one operation, {unit}", fontsize=8, loc="left")


def _draw_bar(axis: "Axes", at: float, time_ns: Spread | None, scale: float, colour: str, marker: str) -> float:
    if time_ns is None:
        return 0.0
    middle, low, high = time_ns.middle / scale, time_ns.low / scale, time_ns.high / scale
    axis.barh(at, middle, height=0.8, color=colour, alpha=0.75)
    axis.plot([low, high], [at, at], color=INK, linewidth=1.5)
    axis.plot([middle], [at], marker=marker, color=colour, markeredgecolor=INK, markersize=5)
    return max(middle, high)


# Rows against their floors: a dot with its interval, a tick for the goal.


_LOOKS: dict[Standing, tuple[str, str, float, bool]] = {
    "met": (BLUE, "o", 6, True),
    "missed": (ORANGE, "X", 7, True),
    "not shown": (INK, "o", 6, False),
}
"""Colour, marker and its size, and whether it is filled, by how a row stands to its goal."""


@dataclass(frozen=True)
class _Dot:
    label: str
    ratio: float
    low: float
    high: float
    goal: float
    standing: Standing


def floors(found: Findings) -> Picture | None:
    """Every ratio to a floor for which there is a goal, if the run has any."""
    dots = [dot for held in found.floors if (dot := _dot(held)) is not None]
    counts = {standing: sum(dot.standing == standing for dot in dots) for standing in _LOOKS}
    alt = (
        f"Rows against their floors: {figures.plural(len(dots), 'dot')} with intervals, {counts['missed']} below the goal (crosses), {counts['not shown']} around it (rings); "
        "the same figures stand on the pages of the layers."
    )
    return Picture("floors", alt, dots, _draw_floors) if dots else None


def _dot(held: Held) -> _Dot | None:
    found = held.ratio
    if (
        found is None
        or held.goal is None
        or held.standing is None
        or found.ratio is None
        or found.low is None
        or found.high is None
    ):
        return None
    row = held.row
    return _Dot(f"{row.layer}/{row.operation}/{row.case}", found.ratio, found.low, found.high, held.goal, held.standing)


def _draw_floors(dots: list[_Dot]) -> "Figure":
    figure, (axis,) = canvas(
        len(dots) + 1, 1, left=room(dot.label for dot in dots), top=0.45, right=room([_interval(dots[0])])
    )
    for at, dot in enumerate(dots):
        colour, marker, size, filled = _LOOKS[dot.standing]
        axis.plot([dot.low, dot.high], [at, at], color=colour, linewidth=2)
        axis.plot(
            [dot.ratio],
            [at],
            color=colour,
            marker=marker,
            markersize=size,
            markerfacecolor=colour if filled else "white",
        )
        axis.plot([dot.goal, dot.goal], [at - 0.42, at + 0.42], color=INK, linewidth=2.2)
    axis.axvline(1.0, color=PALE, linewidth=1, zorder=0)
    axis.set_yticks(range(len(dots)), [dot.label for dot in dots])
    for at, dot in enumerate(dots):
        axis.axhline(at, color=PALE, linewidth=0.4, zorder=0)
        axis.text(1.01, at, _interval(dot), transform=axis.get_yaxis_transform(), va="center", ha="left", fontsize=8)
        if dot.standing == "missed":
            axis.get_yticklabels()[at].set_color(ORANGE)
    axis.set_ylim(len(dots) - 0.3, -0.7)
    ends = [end for dot in dots for end in (dot.low, dot.high, dot.goal)]
    axis.set_xlim(max(0.0, min([0.9, *ends]) - 0.05), max([1.0, *ends]) + 0.03)
    axis.set_xlabel("floor's time / ours, with its 95 % interval over tuples; 1 = as fast as the floor", fontsize=8)
    _floors_legend(figure, axis)
    return figure


def _interval(dot: _Dot) -> str:
    return figures.ratio(dot.ratio, dot.low, dot.high)


def _floors_legend(figure: "Figure", axis: "Axes") -> None:
    for standing, (colour, marker, size, filled) in _LOOKS.items():
        axis.plot(
            [],
            [],
            linestyle="",
            marker=marker,
            color=colour,
            markersize=size,
            markerfacecolor=colour if filled else "white",
            label=f"goal {standing}",
        )
    axis.plot([], [], linestyle="", marker="|", color=INK, markersize=13, label="goal")
    figure.legend(loc="upper left", ncols=4, frameon=False, bbox_to_anchor=(0.0, 1.0), labelcolor=INK)


# The ladder: what each rung adds, from the bytes to the socket.


@dataclass(frozen=True)
class _Step:
    label: str
    start_ns: float
    end_ns: float
    low_ns: float | None
    high_ns: float | None
    words: str
    alone: bool
    """True if it stands beside the ladder: what the request costs in that layer, on top of none."""


@dataclass(frozen=True)
class _Climb:
    title: str
    steps: list[_Step]


def ladder(found: Findings) -> Picture | None:
    """Returns the picture of what each rung adds to a request, if the run has the ladder."""
    climbs = [_Climb(request.upper(), steps) for request, rungs in found.ladders.items() if (steps := _steps(rungs))]
    alt = "The ladder: for each request a bar a rung, beginning where the rung below ends, with its interval; the same figures stand in the table of the ladder."
    return Picture("ladder", alt, climbs, _draw_ladder) if climbs else None


def _steps(rungs: Sequence[Rung]) -> list[_Step]:
    return [_step(rung) for rung in rungs if rung.row.measured is not None]


def _step(rung: Rung) -> _Step:
    """A rung that took turns with the one below begins where that one ends; another one begins at none."""
    time_ns = rung.row.measured.middle if rung.row.measured else 0.0
    name = rung.name + ("*" if rung.row.bench.facts.clock == "cpu" else "")
    under, added = rung.below.row.measured if rung.below else None, rung.added
    if under is None or added is None or rung.step is None:
        return _Step(name, 0.0, time_ns, None, None, figures.time(time_ns), rung.name in ALONE)
    low, high = (None if end is None else under.middle + end for end in (added.low, added.high))
    words = figures.added_estimate(added) if rung.step.verdict() == "differ" else figures.contrast(rung.step)
    return _Step(name, under.middle, time_ns, low, high, words, alone=False)


def _draw_ladder(climbs: list[_Climb]) -> "Figure":
    left = room(step.label for climb in climbs for step in climb.steps)
    figure, axes = stack([len(climb.steps) for climb in climbs], left=left, top=0.3)
    for climb, axis in zip(climbs, axes, strict=True):
        _draw_climb(axis, climb)
    steps = [step for climb in climbs for step in climb.steps]
    notes = ["a line across an end is the 95 % interval"]
    notes += ["* server CPU, the others wall time"] if any(step.label.endswith("*") for step in steps) else []
    notes += ["pale: in that layer alone, on top of none"] if any(step.alone for step in steps) else []
    figure.text(0.01, 0.995, "; ".join(notes), fontsize=8, color=INK, va="top")
    return figure


def _draw_climb(axis: "Axes", climb: _Climb) -> None:
    furthest = max(max(step.start_ns, step.end_ns, step.high_ns or 0.0) for step in climb.steps)
    scale, unit = figures.time_step(furthest)
    ends = []
    for at, step in enumerate(climb.steps):
        start, end = step.start_ns / scale, step.end_ns / scale
        colour = ORANGE if end < start else BLUE
        axis.barh(
            at,
            end - start,
            left=start,
            height=0.62,
            color=colour,
            alpha=0.3 if step.alone else 0.85,
            hatch="///" if end < start else None,
            edgecolor=INK,
        )
        if step.low_ns is not None and step.high_ns is not None:
            axis.plot([step.low_ns / scale, step.high_ns / scale], [at, at], color=INK, linewidth=2)
        right = max(start, end, (step.high_ns or 0.0) / scale)
        _word(axis, right, at, step.words)
        ends.append((right, step.words))
    axis.set_yticks(range(len(climb.steps)), [step.label for step in climb.steps])
    axis.set_ylim(-0.6, len(climb.steps) - 0.4)  # the lowest layer stands lowest
    _leave_room(axis, ends)
    _end_ticks(axis, furthest / scale)
    axis.set_title(climb.title, fontsize=9, loc="left")
    axis.set_xlabel(f"time of one request, {unit}", fontsize=8, loc="left")


# What all pictures share.


def canvas(rows: float, panels: int, left: float, top: float, right: float = 0.1) -> tuple["Figure", list["Axes"]]:
    """Panels side by side, sized in inches by what they hold, so that no layout depends on a font."""
    matplotlib = _matplotlib()
    height, bottom, gap = top + rows * _ROW + 0.55, 0.5, 0.25
    figure = matplotlib.figure.Figure(figsize=(_WIDTH, height))
    width = (_WIDTH - right) / panels - left - gap / 2
    axes = []
    for panel in range(panels):
        corner = left + panel * (left + width + gap / 2)
        axis = figure.add_axes((corner / _WIDTH, bottom / height, width / _WIDTH, (height - top - bottom) / height))
        axis.spines[["top", "right"]].set_visible(False)
        axis.locator_params(axis="x", nbins=5)
        axis.tick_params(axis="y", length=0)
        axes.append(axis)
    return figure, axes


def stack(rows: Sequence[int], left: float, top: float) -> tuple["Figure", list["Axes"]]:
    """Panels one below the other, each as high as its rows."""
    matplotlib = _matplotlib()
    title, bottom = 0.28, 0.5
    heights = [title + count * _ROW + bottom for count in rows]
    height = top + sum(heights)
    figure = matplotlib.figure.Figure(figsize=(_WIDTH, height))
    axes, above = [], top
    for count, taken in zip(rows, heights, strict=True):
        base = height - above - taken + bottom
        axis = figure.add_axes((left / _WIDTH, base / height, (_WIDTH - left - 0.1) / _WIDTH, count * _ROW / height))
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
        axes.append(axis)
        above += taken
    return figure, axes


def _end_ticks(axis: "Axes", end: float) -> None:
    """Ticks and the line of the axis end where the data end; what is to the right of it is room for words."""
    from matplotlib import ticker

    ticks = [tick for tick in ticker.MaxNLocator(5).tick_values(0, end) if tick <= end]
    axis.set_xticks(ticks)
    axis.spines["bottom"].set_bounds(0, end)


def grid(panels: int, across: int) -> tuple["Figure", list["Axes"]]:
    """Small panels in rows, each with axes of its own."""
    matplotlib = _matplotlib()
    rows, left, bottom = -(-panels // across), 0.62, 0.48
    width, height = _WIDTH / across, 2.1
    figure = matplotlib.figure.Figure(figsize=(_WIDTH, rows * height))
    axes = []
    for panel in range(panels):
        x, y = panel % across * width + left, (rows - 1 - panel // across) * height + bottom
        axis = figure.add_axes(
            (x / _WIDTH, y / (rows * height), (width - left - 0.1) / _WIDTH, (height - bottom - 0.25) / (rows * height))
        )
        axis.spines[["top", "right"]].set_visible(False)
        axes.append(axis)
    return figure, axes


def _word(axis: "Axes", x: float, y: float, text: str) -> None:
    """Words to the right of a point."""
    axis.annotate(text, (x, y), xytext=(6, 0), textcoords="offset points", va="center", ha="left", fontsize=8)


def _leave_room(axis: "Axes", ends: Sequence[tuple[float, str]]) -> None:
    """Sets the x axis so that the words at the end of each bar stay within the panel."""
    width = axis.get_position().width * _WIDTH
    axis.set_xlim(0, max(end / max(0.2, 1 - (len(words) * _LETTER + 0.2) / width) for end, words in ends) or 1.0)


def logarithmic(axis: "Axes", words: Callable[[float], str], of: Literal["x", "y"] = "y") -> None:
    """An axis by tenfolds, told at 1, 2 and 5 of each as they stand in the tables; at 1 alone where there are many."""
    from matplotlib import ticker

    (axis.set_xscale if of == "x" else axis.set_yscale)("log")
    low, high = axis.get_xlim() if of == "x" else axis.get_ylim()
    line = axis.xaxis if of == "x" else axis.yaxis
    line.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 300 else (1.0,), numticks=12))
    line.set_major_formatter(ticker.FuncFormatter(lambda value, _: words(value)))
    line.set_minor_locator(ticker.NullLocator())


def room(labels: Iterable[str]) -> float:
    """Inches that the longest of these labels takes at most."""
    return 0.2 + _LETTER * max((len(line) for label in labels for line in label.split("\n")), default=0)


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError:
        raise UserError(
            "pictures need matplotlib, which this Python has not: use .venv/bin/python, or install requirements.txt"
        ) from None
    return matplotlib


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
