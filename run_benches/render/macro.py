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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from run_benches.analysis import figures
from run_benches.analysis.figures import Spread
from run_benches.analysis.findings import Findings
from run_benches.analysis.row import OURS, Row
from run_benches.analysis.workloads import LAYER, QUANTILES, Tail, measures, tails
from run_benches.render import cells, markdown, pictures
from run_benches.render.pictures import PALE, SERIES, Picture, threads_on_cores
from run_benches.render.source import Source
from run_benches.store.runs import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Its page.


def page(source: Source) -> list[str]:
    """The page: rates, latencies with their picture, measures, and what lacks a figure."""
    rows = source.found.rows_of(LAYER)
    if not rows:
        return [f"# {LAYER}", "", *source.words(LAYER), *source.block(LAYER, [source.missing(LAYER)])]
    ran, absent = [row for row in rows if row.measured], [row for row in rows if row.measured is None]
    lines = [*_rates(source, ran), *_measures(ran), *_absences(absent)]
    tables_of_latencies = _latencies([row for row in ran if tails(row)])
    latencies = [
        "## Latencies",
        "",
        _WORDS,
        "",
        *source.block(f"{LAYER} latencies", tables_of_latencies),
        *source.picture(_PICTURE),
    ]
    return [
        f"# {LAYER}",
        "",
        *source.words(LAYER),
        *source.block(LAYER, lines),
        *(latencies if tables_of_latencies else []),
    ]


_WORDS = (
    "Service times of a closed loop: a client asks again when it has its answer, so that a stall delays the requests that would have come"
    " meanwhile, and they are not in the figures. A quantile is the median of the processes with their range; the slowest operation is that of"
    " all processes."
)


def _absences(rows: Sequence[Row]) -> list[str]:
    """Lists what has no figure, by the reason."""
    reasons = dict.fromkeys(row.why_not for row in rows)
    return [f"* {', '.join(f'`{row.id}`' for row in rows if row.why_not == reason)}: {reason}" for reason in reasons]


def _rates(source: Source, rows: Sequence[Row]) -> list[str]:
    """Rates by the number of threads and by unit, which share no column."""
    lines: list[str] = []
    for threads, unit in sorted({(row.bench.facts.threads, row.bench.facts.unit) for row in rows}):
        columns = [
            "row, and what one operation is",
            "under which conditions",
            "per s>" if unit == "bytes" else f"{unit}/s>",
            "time of one operation>",
        ]
        body = [
            [cells.named(row), cells.conditions(row), cells.rate(row), cells.time(source, row, LAYER)]
            for row in rows
            if (row.bench.facts.threads, row.bench.facts.unit) == (threads, unit)
        ]
        lines += [
            f"**{threads_on_cores(source.found.machine, threads)}, counted in {unit}**",
            "",
            *markdown.table(columns, body),
            "",
        ]
    return lines


def _measures(rows: Sequence[Row]) -> list[str]:
    """Lists what else was measured: in a column what many rows have, in a line of its own what few do."""
    found = {row.id: measures(row) for row in rows if measures(row)}
    counts = Counter((name, measure.unit) for of_row in found.values() for name, measure in of_row.items())
    shared = [named for named, count in counts.items() if 2 * count >= len(found)]
    lines: list[str] = []
    if shared:
        columns = ["row", "processes>", *(f"{cells.words(name)}>" for name, _ in shared)]
        body = [
            [f"`{id}`", _processes(of_row.values()), *(_measure(of_row, *named) for named in shared)]
            for id, of_row in found.items()
        ]
        lines += ["**beside the rate**", "", *markdown.table(columns, body), ""]
    rare = [
        [f"`{id}`", cells.words(name), _value(one)]
        for id, of_row in found.items()
        for name, one in of_row.items()
        if (name, one.unit) not in shared
    ]
    return lines + (
        ["**beside the rate, of few rows**", "", *markdown.table(["row", "measure", "value>"], rare), ""]
        if rare
        else []
    )


def _measure(of_row: Mapping[str, Measure], name: str, unit: str) -> str:
    """A row that has no such figure (a reader has no write amplification) says so."""
    found = of_row.get(name)
    return _value(found) if found and found.unit == unit else "no figure"


def _value(found: Measure) -> str:
    spread = figures.spread(found.points)
    return figures.measure_spread(spread, found.unit) if spread else figures.NOT_RUN


def _processes(found: Iterable[Measure]) -> str:
    return str(max(len(measure.points) for measure in found))


def _latencies(rows: Sequence[Row]) -> list[str]:
    columns = [
        "row",
        "operation",
        "processes>",
        "operations timed>",
        *(f"{name}>" for name, *_ in QUANTILES),
        "slowest>",
    ]
    body = [[f"`{row.id}`", *_tail_cells(tail)] for row in rows for tail in tails(row)]
    return markdown.table(columns, body) if body else []


def _tail_cells(tail: Tail) -> list[str]:
    quantiles = [
        _quantile(tail.quantiles[name]) if name in tail.quantiles else figures.TOO_FEW for name, *_ in QUANTILES
    ]
    return [
        cells.words(tail.kind),
        str(tail.processes),
        figures.amount(tail.count),
        *quantiles,
        figures.time(tail.slowest_ns),
    ]


def _quantile(found: Spread) -> str:
    return figures.time_spread(found) if found.count > 1 else figures.time(found.middle)


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
        by_work.setdefault(f"{row.operation}/{row.case}", []).extend(
            _curve(tail, whose) for tail in tails(row) if tail.quantiles
        )
    panels = [_Panel(work, curves) for work, curves in by_work.items() if curves]
    alt = "Latencies of the workloads over quantiles, on an axis by nines; the same figures stand in the table of latencies."
    return Picture(_PICTURE, alt, panels, _draw) if panels else None


def _curve(tail: Tail, whose: str) -> _Curve:
    told = [(share, tail.quantiles[name].middle) for name, share, _ in QUANTILES if name in tail.quantiles]
    return _Curve(cells.words(tail.kind) + whose, [*told, (1 - 1 / (tail.count + 1), tail.slowest_ns)])


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
