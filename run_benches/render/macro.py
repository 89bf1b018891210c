"""The macro side of a storage engine: workloads of seconds, as its operators know them, with what they cost beside
their rate.

A workload is one row with figures of three kinds, and each is told by itself: its rate; how long single operations of
each kind took, up to the slowest; and measures (size on disk, amplification, stalls, memory), each in its unit.
Quantiles are those of the processes: each process tells its own, and of several the median and the range stand, since
quantiles cannot be averaged into one of all. The slowest is the slowest of all. A quantile without enough operations
beyond it has no figure in the run, and none here (T8).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_benches.analysis import figures
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import OURS, Row
from run_benches.analysis.workloads import LAYER, QUANTILES, measures, tails
from run_benches.render import cells, markdown, page_layer, pictures
from run_benches.render.pictures import PALE, SERIES, Picture, threads_on_cores
from run_benches.render.section import Section
from run_benches.render.source import Source
from run_benches.store.runs import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Its table on the terminal.

COLUMNS = (
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


def on_terminal(found: Findings, layer: str) -> Section:
    """A line for each kind of operation, or one for a workload that times none by itself."""
    shown, title = page_layer.unfolded(found, layer)
    body = []
    for row in shown:
        facts, measured = row.bench.facts, row.measured
        name, threads = row.id.partition("/")[2], str(facts.threads)
        rate = cells.no_figure(row)
        if measured:
            rate = figures.rate(measured.middle, facts.unit, facts.units_per_operation)
        of_row = tails(row)
        for tail in of_row:
            p50, p95, p99, p999 = (
                figures.time(tail.quantiles[q].middle) if q in tail.quantiles else "too few" for q, *_ in QUANTILES
            )
            slowest = figures.time(tail.slowest_ns)
            body.append([name, rate, cells.words(tail.kind), p50, p99, slowest, p95, p999, threads])
        if not of_row:
            body.append([name, rate, "all", *["not timed"] * 5, threads])
    return Section(title, [], COLUMNS, body)


# Its page.


def page(source: Source) -> list[str]:
    """The page: rates, latencies with their picture, measures, and what lacks a figure."""
    head, rows = [f"# {LAYER}", "", *source.words(LAYER)], source.found.rows_of(LAYER)
    if not rows:
        return [*head, *source.block(LAYER, [source.missing(LAYER)])]
    absent: dict[str, list[str]] = {}
    for row in rows:
        if row.measured is None:
            absent.setdefault(row.why_not, []).append(f"`{row.id}`")
    ran = [row for row in rows if row.measured]
    lines = markdown.sections([*_rates(source, ran), *_measures(ran)])
    lines += [f"* {', '.join(ids)}: {reason}" for reason, ids in absent.items()]
    head += source.block(LAYER, lines)
    if table := _latencies(ran):
        head += source.section("Latencies", _WORDS, f"{LAYER} latencies", table) + source.picture(_PICTURE)
    return head


_WORDS = (
    "Service times of a closed loop: a client asks again when it has its answer, so that a stall delays the requests that would have come"
    " meanwhile, and they are not in the figures. A quantile is the median of the processes with their range; the slowest operation is that of"
    " all processes."
)


def _rates(source: Source, rows: Sequence[Row]) -> Iterator[Section]:
    """Rates by the number of threads and by unit, which share no column."""
    for threads, unit in sorted({(row.bench.facts.threads, row.bench.facts.unit) for row in rows}):
        columns = [
            "row, and what one operation is",
            "under which conditions",
            "per s>" if unit == "bytes" else f"{unit}/s>",
            "time of one operation>",
        ]
        body = [
            [cells.named(row), cells.conditions(row), cells.rate(row), cells.spread(row)]
            for row in rows
            if (row.bench.facts.threads, row.bench.facts.unit) == (threads, unit)
        ]
        yield Section(f"{threads_on_cores(source.found.machine, threads)}, counted in {unit}", [], columns, body)


def _measures(rows: Sequence[Row]) -> Iterator[Section]:
    """Lists what else was measured: in a column what many rows have, in a line of its own what few do. A row that has
    no such figure (a reader has no write amplification) says so."""
    found = {row.id: of_row for row in rows if (of_row := measures(row))}
    counts = Counter((name, measure.unit) for of_row in found.values() for name, measure in of_row.items())
    shared = [named for named, count in counts.items() if 2 * count >= len(found)]
    together, rare = [], []
    for id, of_row in found.items():
        told = [f"`{id}`", str(max(len(measure.points) for measure in of_row.values()))]
        for name, unit in shared:
            one = of_row.get(name)
            told.append(_value(one) if one and one.unit == unit else "no figure")
        together.append(told)
        for name, one in of_row.items():
            if (name, one.unit) not in shared:
                rare.append([f"`{id}`", cells.words(name), _value(one)])
    if shared:
        columns = ["row", "processes>", *(f"{cells.words(name)}>" for name, _ in shared)]
        yield Section("beside the rate", [], columns, together)
    if rare:
        yield Section("beside the rate, of few rows", [], ["row", "measure", "value>"], rare)


def _value(found: Measure) -> str:
    spread = figures.spread(found.points)
    return figures.measure_spread(spread, found.unit) if spread else figures.NOT_RUN


def _latencies(rows: Sequence[Row]) -> list[str]:
    columns = ["row", "operation", "processes>", "operations timed>"]
    columns += [*(f"{name}>" for name, *_ in QUANTILES), "slowest>"]
    body = []
    for row in rows:
        for tail in tails(row):
            told = [f"`{row.id}`", cells.words(tail.kind), str(tail.processes), figures.amount(tail.count)]
            for name, *_ in QUANTILES:
                found = tail.quantiles.get(name)
                if found is None:
                    told.append(figures.TOO_FEW)
                else:
                    told.append(figures.time_spread(found) if found.count > 1 else figures.time(found.middle))
            body.append([*told, figures.time(tail.slowest_ns)])
    return markdown.table(columns, body) if body else []


# Its picture: latencies over quantiles, on an axis by nines.


@dataclass(frozen=True)
class _Curve:
    kind: str
    points: list[tuple[float, float]]
    """Share of operations that were no slower, and nanoseconds."""


@dataclass(frozen=True)
class _Panel:
    title: str
    curves: list[_Curve]


_PICTURE = "latencies"
_ACROSS = 3
_NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999)


def drawn(found: Findings) -> Picture | None:
    """The latencies of every row that has quantiles; a floor's beside ours."""
    by_work: dict[str, list[_Curve]] = {}
    for row in found.rows_of(LAYER):
        whose = "" if row.subject == OURS else f", {row.subject}"
        for tail in (tail for tail in tails(row) if tail.quantiles):
            told = [(share, tail.quantiles[name].middle) for name, share, _ in QUANTILES if name in tail.quantiles]
            points = [*told, (1 - 1 / (tail.count + 1), tail.slowest_ns)]
            curve = _Curve(cells.words(tail.kind) + whose, points)
            by_work.setdefault(f"{row.operation}/{row.case}", []).append(curve)
    panels = [_Panel(work, curves) for work, curves in by_work.items()]
    alt = "Latencies of the workloads over quantiles, on an axis by nines; the same figures stand in the table of latencies."
    return Picture(_PICTURE, alt, panels, _draw) if panels else None


def _draw(panels: list[_Panel]) -> "Figure":
    figure, axes = pictures.grid(len(panels), _ACROSS)
    for panel, axis in zip(panels, axes, strict=True):
        _draw_panel(axis, panel)
    return figure


def _draw_panel(axis: "Axes", panel: _Panel) -> None:
    furthest = max(_nines(share) for curve in panel.curves for share, _ in curve.points)
    for at, curve in enumerate(panel.curves):
        (colour, marker), style = SERIES[at % len(SERIES)], ("-", "--")[at // len(SERIES) % 2]
        xs, ys = [_nines(share) for share, _ in curve.points], [time_ns for _, time_ns in curve.points]
        axis.plot(xs, ys, color=colour, marker=marker, linestyle=style, markersize=4, linewidth=1.2, label=curve.kind)
    shown = [share for share in _NINES if _nines(share) <= furthest]
    axis.set_xticks([_nines(share) for share in shown], [_nines_words(share) for share in shown])
    axis.set_xlim(_nines(_NINES[0]) - 0.1, furthest + 0.1)
    pictures.logarithmic(axis, figures.time)
    axis.grid(color=PALE, linewidth=0.4)
    axis.set_title(panel.title, fontsize=7.5, loc="left")
    axis.set_xlabel("% no slower; 4N: four nines; last: slowest", fontsize=7, loc="left")
    axis.tick_params(labelsize=7)
    axis.legend(loc="upper left", frameon=False, fontsize=7)


def _nines_words(share: float) -> str:
    """`99.9`, and `4N` for what has as many nines: digits of neighbours would meet."""
    nines = round(_nines(share))
    return f"{100 * share:.10g}" if nines < 4 else f"{nines}N"


def _nines(share: float) -> float:
    """Returns the number of nines that a quantile has: 90 % is one, 99.9 % are three."""
    return -math.log10(1 - share)
